# Everything a newcomer needs: python3 (3.11 or newer), make, and a package index.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test campaign kernels test-torch fuzz soak attack lint docs docs-test bench paper release-check clean

demo: $(VENV)/.installed
	$(BIN)/kernelite demo

test: $(VENV)/.installed-dev
	@echo "Lint, types and all tests but campaigns: about 4 minutes on 2 cores."
	@$(MAKE) --no-print-directory -j 2 lint kernels
	$(BIN)/python -m pytest -n 2 -q -m "not campaign"

# Once, on one core while another one is at the types: else every process of the tests would.
kernels: $(VENV)/.installed-dev
	$(BIN)/kernelite warm-up

# Deep and long: benchmarks, examples of the documentation, fuzzing, more random models, torch.
campaign: $(VENV)/.installed-dev
	@echo "Campaigns: about 10 minutes on 2 cores, and as long as it takes to install torch."
	$(BIN)/python -m pytest -n 2 -q -m campaign
	OPENBLAS_NUM_THREADS=2 KERNELITE_BOUND_MODELS=400 KERNELITE_PIPELINES=300 KERNELITE_FLIPS=6000 \
		$(BIN)/python -m pytest -n 2 -q tests/series tests/cpu/test_fused_sums.py tests/test_whole_models.py \
		tests/store/test_damage.py
	$(BIN)/python -m tests.fuzz --seconds 60 --seed $(SEED) --jobs 2
	@if $(MAKE) --no-print-directory $(VENV)-torch/.installed; then \
		$(MAKE) --no-print-directory test-torch; \
	else \
		echo "left out: make test-torch, since torch could not be installed (see above)."; \
	fi

# How long, and from which seed: make fuzz SECONDS=36000 SEED=7
SECONDS ?= 600
SEED    ?= 1
MODELS  ?= 1000000

fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED) --jobs 2

soak: $(VENV)/.installed-dev
	$(BIN)/python -m tests.soak --seconds $(SECONDS)

attack: $(VENV)/.installed-dev
	@echo "About an hour on 2 cores; started again, it goes on where it stopped."
	$(BIN)/python -m tests.attack --models $(MODELS) --jobs 2

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.installed-docs
	@echo "The site, its examples included: about 3 minutes on 2 cores."
	rm -rf docs/_build
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

docs-test: docs
	$(BIN)/python -m pytest -q -rs tests/docs

# The lowerings for GPUs, without one: torch's operations on the CPU, Triton's kernels interpreted.
# Its own environment, since torch is large. TORCH= names another version, e.g. TORCH=torch.
TORCH ?= torch==2.13.0
test-torch: $(VENV)-torch/.installed
	$(VENV)-torch/bin/python -m pytest -n 2 -q tests/gpu src/kernelite/gpu src/kernelite/torch.py \
		tests/sources/test_gpytorch.py

$(VENV)-torch/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-torch
	$(VENV)-torch/bin/python -m pip install --quiet '$(TORCH)'
	$(VENV)-torch/bin/python -m pip install --quiet -e '.[test,torch]' gpytorch
	touch $@

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks

paper: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.paper

release-check: $(VENV)/.installed-release
	$(BIN)/python scripts/release_check.py

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("kernelite needs Python 3.11 or newer; this is %s" % sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.installed-%: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[$*]'
	touch $@ $(VENV)/.installed

# All that git ignores here, by name: what was built, cached, written by the demo or left by a test.
clean:
	rm -rf $(VENV) $(VENV)-torch build dist kernelite-demo benchmarks/cache fuzz-failures *-state.json
	rm -rf docs/_build docs/auto_gallery docs/reference/generated docs/sg_execution_times.rst
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
