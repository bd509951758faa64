# Every target works as the first command in a fresh clone: the Python environment is made in
# .venv when it is missing or older than the lock file.

PYTHON ?=
FORMAT ?= e4m3
ACCUMULATOR ?= aligned:13
LANES ?= 32
OUT ?= build/dot.v
MINUTES ?= 5
HOURS ?= 1

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
COMPARE := $(VENV)/.ready-compare
DOCS := $(VENV)/.ready-docs

# The GPU path is tested in an environment of its own. pip's settings (PIP_INDEX_URL) choose between
# PyTorch for CUDA and the smaller one for a CPU.
TORCH ?= torch==2.13.0
TRITON ?= triton==3.6.0
GPU_VENV := .venv-gpu
GPU := $(GPU_VENV)/.ready

# The real encoder has one too: it brings PyTorch, and `make lint` checks types without it.
REAL_VENV := .venv-real
REAL := $(REAL_VENV)/.ready

# The value of a variable as one word for the shell, whatever is in it.
quoted = '$(subst ','\'',$(value $(1)))'

# To hand a variable of the command line on in the environment, make would expand it.
unexport FORMAT ACCUMULATOR LANES OUT SEED JOBS FULL WAVES FRESH NETLIST PYTHON TORCH TRITON MINUTES HOURS SIM

# SEED and JOBS are handed on only when given: mxdot picks and prints its own otherwise.
SIM_FLAGS = $(if $(value SEED),--seed $(call quoted,SEED)) $(if $(value JOBS),--jobs $(call quoted,JOBS)) \
	$(if $(value NETLIST),--netlist $(call quoted,NETLIST)) \
	$(if $(value SIM),--simulator $(call quoted,SIM)) \
	$(if $(filter-out 0,$(value FULL)),--full) $(if $(filter-out 0,$(value WAVES)),--waves) \
	$(if $(filter-out 0,$(value FRESH)),--fresh) $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help venv venv-gpu sim soak compare area-report figures formal mutate coverage faults verify verilog test test-compare test-gpu fuzz docs lint bench lock clean

help: ## this list
	@echo 'usage: make TARGET [NAME=value ...]'
	@awk -F':[^#]*## ' '/^[a-z-]+:[^#]*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# In full mode whole layers of a real encoder too, except where ARGS only list what would run; with
# NETLIST units are synthesised first, SIM is another simulator. A run that was interrupted goes on,
# FRESH begins anew.
LAYER = $(if $(filter --dry-run --list,$(ARGS)),,$(filter-out 0,$(value FULL)))
sim: $(READY) $(if $(value NETLIST)$(value SIM),$(COMPARE)) $(if $(LAYER),$(REAL)) ## simulate the RTL against the golden model (SEED=n FULL=1 WAVES=1 JOBS=n FRESH=1 NETLIST=process SIM=cxxrtl|bitsliced ARGS='--dry-run')
	@$(BIN)/mxdot sim $(SIM_FLAGS)
	$(if $(LAYER),@$(REAL_VENV)/bin/mxdot run-layer)

soak: $(READY) $(if $(value SIM),$(COMPARE)) ## simulate the units again and again with fresh seeds; failures are made small (HOURS=n JOBS=n FULL=1 SIM=bitsliced ARGS=--random)
	@$(BIN)/mxdot sim soak --hours $(call quoted,HOURS) $(ARGS) \
		$(if $(value SIM),--simulator $(call quoted,SIM)) $(if $(value JOBS),--jobs $(call quoted,JOBS)) \
		$(if $(filter-out 0,$(value FULL)),--full)

compare: $(COMPARE) ## what each accumulator costs and does to the result (ARGS='--format e4m3 ...', 'find ...', 'schemes ...')
	@$(BIN)/mxdot compare $(ARGS) $(if $(value JOBS),--jobs $(call quoted,JOBS))

area-report: $(COMPARE) ## area and delay of the units of docs/area.md (ARGS='--process asap7 --only exact')
	@$(BIN)/python -m mxdot.synth.area_report $(ARGS)

# A check that was interrupted goes on, FRESH begins anew.
CHECK_FLAGS = $(if $(value JOBS),--jobs $(call quoted,JOBS)) $(if $(filter-out 0,$(value FRESH)),--fresh) $(ARGS)

# A figure that needs a GPU, PyTorch or a real network is made only when --only is its name.
figures: $(COMPARE) ## make the figures and tables of results in docs whose inputs have changed (ARGS='--only clock', --check, --list)
	@$(BIN)/python tools/figures.py $(ARGS)

formal: $(COMPARE) ## prove what docs/evidence.md claims (JOBS=n FRESH=1 ARGS='--only rounder', '--list')
	@$(BIN)/mxdot verify formal $(CHECK_FLAGS)

mutate: $(COMPARE) ## what bench and tests kill of wrong units and modules (JOBS=n FRESH=1 ARGS='--only dot', '--list', '--count n')
	@$(BIN)/mxdot verify mutate $(CHECK_FLAGS)

coverage: $(COMPARE) ## lines, branches and toggles of the Verilog that the bench reaches, and why not others (JOBS=n FRESH=1 ARGS='--only dot', '--list')
	@$(BIN)/mxdot verify coverage $(CHECK_FLAGS)

# Kills, full disks, files cut short, a clock set back, two runs at once: tools/fault_cells.py.
faults: $(COMPARE) $(GPU) ## disturb commands while they run: nothing may be lost, stale, half or wrong (SEED=n JOBS=n FRESH=1 ARGS='--only sim:', '--list')
	@$(BIN)/python tools/faults.py --gpu-python $(GPU_VENV)/bin/python \
		$(if $(value SEED),--seed $(call quoted,SEED)) $(CHECK_FLAGS)

# tools/verify_steps.py says which steps run.
STEPS := test-full test-compare test-gpu formal mutate coverage faults sim-cxxrtl sim-bitsliced sim-netlist sim-full
SOAKS := soak soak-bitsliced soak-random
verify: $(COMPARE) $(GPU) ## run the checks of docs/evidence.md that are missing, failed or older than their code, in hours; goes on where it stopped (HOURS=n MINUTES=n FRESH=1 PLAN=1)
	$(foreach name,ARGS SEED SIM NETLIST FULL,$(if $(value $(name)),$(error verify runs whole steps: it takes HOURS and MINUTES, not $(name))))
	@$(BIN)/python tools/verify_steps.py $(if $(filter-out 0,$(value FRESH)),--fresh) $(if $(filter-out 0,$(value PLAN)),--dry-run) \
		$(MAKE_COMMAND) $(STEPS) $(foreach soak,$(SOAKS),$(soak) HOURS=$(call quoted,HOURS)) \
		fuzz MINUTES=$(call quoted,MINUTES) figures

# A step keeps its results for docs/evidence.md.
EVIDENCE = @$(BIN)/python tools/evidence.py step $(@:verify-%=%) $(MAKE)

.PHONY: $(patsubst %,verify-%,$(STEPS) $(SOAKS) fuzz figures)
verify-test-full:
	$(EVIDENCE) test FULL=1
verify-test-compare verify-test-gpu verify-formal verify-coverage verify-faults:
	$(EVIDENCE) $(@:verify-%=%)
verify-fuzz:
	$(EVIDENCE) fuzz MINUTES=$(call quoted,MINUTES)
verify-figures:
	@$(MAKE) figures ARGS=--check
verify-mutate:
	$(EVIDENCE) mutate ARGS='--count 20 --seed 915026'
verify-soak:
	$(EVIDENCE) soak HOURS=$(call quoted,HOURS)
verify-soak-bitsliced:
	$(EVIDENCE) soak SIM=bitsliced HOURS=$(call quoted,HOURS)
verify-soak-random:
	$(EVIDENCE) soak ARGS=--random HOURS=$(call quoted,HOURS)
verify-sim-cxxrtl verify-sim-bitsliced:
	$(EVIDENCE) sim SIM=$(@:verify-sim-%=%) SEED=1
verify-sim-netlist:
	$(EVIDENCE) sim NETLIST=asap7 SEED=1
verify-sim-full:
	$(EVIDENCE) sim FULL=1

verilog: $(READY) ## write one unit as Verilog (FORMAT=e4m3 ACCUMULATOR=aligned:13 LANES=32 OUT=build/dot.v)
	@$(BIN)/mxdot verilog --format $(call quoted,FORMAT) --accumulator $(call quoted,ACCUMULATOR) \
		--lanes $(call quoted,LANES) -o $(call quoted,OUT)

TEST_ENV = $(if $(filter-out 0,$(value FULL)),MXDOT_FULL=1) $(if $(value SEED),MXDOT_SEED=$(call quoted,SEED))

test: $(READY) ## run the tests (ARGS='-k name' for some, FULL=1 for more, SEED=n)
	@$(TEST_ENV) $(BIN)/python -m pytest -q -n auto --maxprocesses 8 --dist worksteal $(ARGS)

test-compare: $(COMPARE) ## test synthesis and comparison (ARGS='-k name' for some)
	@$(BIN)/python -m pytest -q -n auto --maxprocesses 8 --dist worksteal tests/synth tests/compare tests/verify tests/util \
		--ignore tests/compare/accuracy --ignore tests/verify/test_probe.py --ignore tests/verify/test_soak.py $(ARGS)

test-gpu: $(GPU) ## install torch==2.13.0 and test the GPU path (ARGS='-k name' for some, FULL=1, SEED=n)
	@$(TEST_ENV) $(GPU_VENV)/bin/python -m pytest -q -n auto --maxprocesses 8 --dist worksteal \
		tests/gpu tests/nn $(ARGS)

fuzz: $(COMPARE) $(GPU) ## hostile inputs for every parser, again and again (MINUTES=n)
	@$(BIN)/python tools/fuzz.py $(call quoted,MINUTES) $(GPU_VENV)/bin/python

docs: $(DOCS) ## the documentation as a site, build/site/index.html
	@$(BIN)/python -m sphinx -q -W --keep-going docs build/site
	@echo build/site/index.html

lint: $(COMPARE) ## check style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@mkdir -p build/typing/mxdot
	@for init in */__init__.py; do ln -sfn "$$PWD/$${init%/*}" build/typing/mxdot/; done
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

bench: $(READY) ## measure the speed of the golden model
	@$(BIN)/python -m pytest -q tests/benchmarks --benchmark-enable --benchmark-only $(ARGS)

venv: $(READY) ## make the Python environment in .venv (PYTHON=interpreter to choose)
venv-gpu: $(GPU) ## make the environment with PyTorch in .venv-gpu, for a GPU or a CPU

$(READY): pyproject.toml requirements.lock tools/venv.sh
	@PYTHON=$(call quoted,PYTHON) bash tools/venv.sh $(VENV)
	@touch $@

$(COMPARE): requirements-compare.lock $(READY)
	@bash tools/venv.sh $(VENV) compare
	@touch $@

$(DOCS): requirements-docs.lock $(READY)
	@bash tools/venv.sh $(VENV) docs
	@touch $@

$(REAL): pyproject.toml requirements.lock tools/venv.sh
	@PYTHON=$(call quoted,PYTHON) bash tools/venv.sh $(REAL_VENV)
	@TORCH=$(call quoted,TORCH) bash tools/venv.sh $(REAL_VENV) real
	@touch $@

$(GPU): pyproject.toml requirements.lock tools/venv_gpu.sh
	@PYTHON=$(call quoted,PYTHON) bash tools/venv_gpu.sh $(GPU_VENV) $(call quoted,TORCH) $(call quoted,TRITON)
	@touch $@

lock: ## resolve the dependencies afresh into the lock files
	@PYTHON=$(call quoted,PYTHON) bash tools/lock.sh

clean: ## remove build/ and the caches, keep the environments
	@rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .benchmarks
	@find . -name __pycache__ -not -path './$(VENV)*/*' -prune -exec rm -rf {} +
