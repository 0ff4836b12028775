# Everything a newcomer needs: python3 (3.11 or newer), make, and a package index.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.NOTPARALLEL:
.PHONY: demo test campaign test-kernels test-aarch64 families test-torch fuzz soak attack mutants prove coverage lock lint docs docs-test bench paper wheels release-check clean

# It builds the few kernels that it needs; others are built by whoever needs all of them.
demo: $(VENV)/.installed-demo
	$(BIN)/kernelite demo

test: $(VENV)/.installed-dev $(VENV)/.kernels lint
	@echo "Lint, types and all tests but campaigns: about 4 minutes on 2 cores."
	$(BIN)/python -m pytest -n 2 -q -m "not campaign"

# Deep and long: benchmarks, examples of the documentation, fuzzing, more random models, torch.
campaign: $(VENV)/.installed-dev $(VENV)/.kernels
	@echo "Campaigns: about 10 minutes on 2 cores, and as long as it takes to install torch."
	$(BIN)/python -m pytest -n 2 -q -m campaign
	OPENBLAS_NUM_THREADS=2 KERNELITE_BOUND_MODELS=400 KERNELITE_PIPELINES=300 KERNELITE_FLIPS=6000 \
		$(BIN)/python -m pytest -n 2 -q tests/series tests/backends/cpu/test_fused_sums.py tests/test_whole_models.py \
		tests/store/test_damage.py
	$(BIN)/python -m tests.fuzz --inputs 100000 --seed $(SEED) --jobs 2
	$(BIN)/python scripts/newcomer.py
	@if $(MAKE) --no-print-directory $(VENV)-torch/.installed; then \
		$(MAKE) --no-print-directory test-torch; \
	else \
		echo "left out: make test-torch, since torch could not be installed (see above)."; \
	fi

# What is proven of kernels, on each of their providers: libraries of both families, and numba.
test-kernels: $(VENV)/.installed-dev
	$(BIN)/python -m kernelite.backends.cpu.kernels.build --family x86-64-v4 x86-64-v3
	for kernels in x86-64-v4 x86-64-v3 numba; do \
		echo "Kernels by $$kernels:"; \
		KERNELITE_KERNELS=$$kernels $(BIN)/python -m pytest -n 2 -q tests/backends/cpu tests/series || exit 1; \
	done

# Fuzzers and the board on the library of each family; boards are put into build/board-FAMILY.
families: $(VENV)/.installed-dev $(VENV)/.installed-bench
	$(BIN)/python -m kernelite.backends.cpu.kernels.build --family x86-64-v4 x86-64-v3
	for kernels in x86-64-v4 x86-64-v3; do \
		echo "Kernels of $$kernels:"; \
		KERNELITE_KERNELS=$$kernels $(BIN)/python -m tests.fuzz --seconds 60 --seed $(SEED) --jobs 2 && \
		KERNELITE_KERNELS=$$kernels $(BIN)/python -m benchmarks board --out build/board-$$kernels || exit 1; \
	done

# What is proven of kernels, for aarch64 by emulation: on Debian with gcc-aarch64-linux-gnu and qemu-user.
test-aarch64: $(VENV)/.installed-dev
	@echo "Kernels of aarch64, emulated: installs Python for it once, then about 15 minutes on 2 cores."
	@echo "Left out: tests of numba, of building, those that start another Python, and forks (QEMU fails)."
	$(BIN)/python scripts/aarch64.py -m pytest -q -p no:cacheprovider tests/backends/cpu/kernels \
		--ignore tests/backends/cpu/kernels/test_compiling.py --ignore tests/backends/cpu/kernels/test_providers.py \
		-k "not numbas_target and not come_first and not forked_child"

# How long, and from which seed: make fuzz SECONDS=36000 SEED=7
SECONDS ?= 600
SEED    ?= 1
MODELS  ?= 1000000

fuzz: $(VENV)/.installed-dev $(VENV)/.kernels
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED) --jobs 2

soak: $(VENV)/.installed-dev $(VENV)/.kernels
	$(BIN)/python -m tests.soak --seconds $(SECONDS)

attack: $(VENV)/.installed-dev $(VENV)/.kernels
	@echo "About an hour on 2 cores; started again, it goes on where it stopped."
	$(BIN)/python -m tests.attack --models $(MODELS) --jobs 2

# What is stated of exponentials, logarithm and sine, from the constants in the source.
prove: $(VENV)/.installed-dev
	@echo "About half a minute; needs Gappa and Sollya: apt-get install gappa sollya."
	$(BIN)/python -m tests.prove

# Of all tests but campaigns; lines inside compiled kernels are not seen.
coverage: $(VENV)/.installed-dev $(VENV)/.kernels
	@echo "All tests but campaigns, with coverage: about 6 minutes on 2 cores."
	$(BIN)/python -m pytest -n 2 -q -m "not campaign" --cov --cov-report=term

# Versions of everything that developers install, for every system: PIP_CONSTRAINT=constraints-dev.txt
lock: $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra docs --extra release --universal \
		--python-version 3.11 --no-emit-index-url --no-header --no-annotate --quiet -o constraints-dev.txt

# Whether tests notice changes of the source, one at a time: see tests/mutants/list.txt.
mutants: $(VENV)/.installed-dev $(VENV)/.kernels
	@echo "About 15 minutes on 2 cores; started again, it goes on where it stopped."
	$(BIN)/python -m tests.mutants

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.installed-docs $(VENV)/.kernels
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
	$(VENV)-torch/bin/python -m pytest -n 2 -q tests/backends/torch src/kernelite/backends/torch src/kernelite/torch.py \
		tests/sources/test_gaussian_processes_gpytorch.py

$(VENV)-torch/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-torch
	$(VENV)-torch/bin/python -m pip install --quiet '$(TORCH)'
	$(VENV)-torch/bin/python -m pip install --quiet -e '.[test,torch]' gpytorch
	touch $@

bench: $(VENV)/.installed-bench $(VENV)/.kernels
	$(BIN)/python -m benchmarks

paper: $(VENV)/.installed-bench $(VENV)/.kernels
	$(BIN)/python -m benchmarks.paper

# For Linux on x86-64 and on aarch64, with libraries of kernels; one for all systems, without.
wheels: $(VENV)/.installed-release
	@echo "Three wheels, and the kernels of three families: about 3 minutes on 2 cores."
	KERNELITE_WHEEL=x86_64 $(BIN)/python -m build --wheel --no-isolation
	@if command -v aarch64-linux-gnu-gcc > /dev/null || [ "$$(uname -m)" = aarch64 ]; then \
		KERNELITE_WHEEL=aarch64 $(BIN)/python -m build --wheel --no-isolation; \
	else \
		echo "left out: the wheel for aarch64, which needs aarch64-linux-gnu-gcc to link."; \
	fi
	KERNELITE_WHEEL=none $(BIN)/python -m build --wheel --no-isolation

release-check: $(VENV)/.installed-release
	$(BIN)/python scripts/release_check.py

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("kernelite needs Python 3.11 or newer; this is %s" % sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-%: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[$*]'
	touch $@

# Kernels are compiled here, on all cores, and never again until their sources change.
$(VENV)/.kernels: $(wildcard src/kernelite/*/kernels.py src/kernelite/backends/cpu/kernels/*.py src/kernelite/data/tables/libsvm_kernel.py)
	$(BIN)/kernelite warm-up || echo "Kernels will be compiled when they are first used."
	touch $@

# All that git ignores here, by name: what was built, cached, written by the demo or left by a test.
clean:
	rm -rf $(VENV) $(VENV)-torch $(VENV)-aarch64 build dist kernelite-demo benchmarks/cache fuzz-failures *-state.json
	rm -rf docs/_build docs/auto_gallery docs/reference/generated docs/sg_execution_times.rst
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage* *.egg-info src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
