# Everything a newcomer needs: python3 (3.11 or newer), make, and a package index.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-torch lint bench paper clean

demo: $(VENV)/.installed
	$(BIN)/kernelite demo

test: $(VENV)/.installed-dev lint
	$(BIN)/python -m pytest -n 2 -q

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The lowerings for GPUs, without one: torch's operations on the CPU, Triton's kernels interpreted.
# Its own environment, since torch is large; whichever torch the index gives runs here.
test-torch: .venv-torch/.installed
	.venv-torch/bin/python -m pytest -n 2 -q tests/gpu src/kernelite/gpu src/kernelite/torch.py

.venv-torch/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip install --quiet -e '.[test,torch]'
	touch $@

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks

paper: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.paper

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("kernelite needs Python 3.11 or newer; this is %s" % sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .venv-torch build dist kernelite-demo .pytest_cache .mypy_cache .ruff_cache
