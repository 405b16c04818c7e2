# Needs python3 (3.11 or later) with venv, and make. The first run installs into .venv; later runs need no network.
# Whatever is installed is up to date when its stamp is newer than pyproject.toml.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Byte code is made as modules are used: most of what is installed never is.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --no-compile --root-user-action ignore
LOADS := instances/published/deepseek_v2_lite_law.csv

.DEFAULT_GOAL := help
.PHONY: help demo reports test coverage cases package bench mutants fuzz reference lint compiled clean

help:
	@echo "make demo    place recorded loads by six methods: a table, and a report in out/"
	@echo "make reports   the pages in reports/, one of each problem, a replay and a grid, about a minute"
	@echo "make test    ruff, mypy and pytest"
	@echo "make coverage   lines and branches that the tests reach, file by file; 10 to 30 minutes"
	@echo "make cases   inputs that have broken planners, one by one: what came, and whether that is right"
	@echo "make package   wheel and sdist, installed and used in empty environments; some minutes; PYTHONS=\"python3.11 python3.13\""
	@echo "make bench   the table of targets, 10 to 25 minutes; kept in reports/placement-bench.md"
	@echo "make mutants   small faults put into referees and bounds, and the tests that notice; half an hour or more"
	@echo "make fuzz    every kind of file read damaged, half a minute each; what breaks a reader is kept in out/fuzz"
	@echo "make reference   values of the sources beside ours"
	@echo "make lint    ruff and mypy alone"
	@echo "make clean   remove what these targets made"

$(VENV)/venv.stamp:
	@$(PYTHON) -c 'import sys; sys.exit("moeopt needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/run.stamp: pyproject.toml | $(VENV)/venv.stamp
	$(PIP) --editable '.[fast]'
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(VENV)/venv.stamp
	$(PIP) --editable '.[fast,test]'
	@touch $@ $(VENV)/run.stamp

demo: $(VENV)/run.stamp
	@mkdir -p out
	@$(BIN)/moeopt warmup --plain --quiet
	$(BIN)/moeopt compare $(LOADS) --gpus 32 --slots 96 \
	  --methods contiguous,round_robin,snake,eplb,lpt,search -o out/demo.html --force
	@echo "The report is out/demo.html: open it in a browser."

# Every page says in its head the command that made it. Times apart the same bytes come again, but on another kind of processor,
# whose linear algebra rounds the eigenvalues that bounds of a collocation are made of in its own way.
PLACEMENT := $(LOADS) --gpus 32 --slots 96 --methods contiguous,round_robin,snake,eplb,lpt,search
ROUTING := instances/made/routing_law_to_intent.json
COLLOCATION := instances/made/collocation_planted.npz --cluster 4x8-h100
MICROBATCH := instances/made/microbatch_dbrx_a800.json
MESH := --llm deepseek-v3 --gpu h200 --rate 20 --input-tokens 4000 --output-tokens 1000 --ttft 2s --tpot 50ms
HISTORY := $(patsubst %,instances/published/deepseek_v2_lite_%.csv,law intent summary translation) --slices 6
REPLAY := --gpus 8 --slots 72 --policies keep,eplb,search,search@30%,search@none --max-moves 10%

reports: $(VENV)/run.stamp
	@$(BIN)/moeopt warmup --quiet
	$(BIN)/moeopt compare $(PLACEMENT) -o reports/placement.html,reports/placement.md --force
	$(BIN)/moeopt compare $(ROUTING) -o reports/routing.html,reports/routing.md --force
	$(BIN)/moeopt compare $(COLLOCATION) -o reports/collocation.html,reports/collocation.md --force
	$(BIN)/moeopt compare $(MICROBATCH) -o reports/microbatch.html,reports/microbatch.md --force
	$(BIN)/moeopt compare $(MESH) -o reports/mesh.html,reports/mesh.md --force
	$(BIN)/moeopt replay $(HISTORY) $(REPLAY) -o reports/replay.html,reports/replay.md --force
	@mkdir -p reports/img && rm -rf out/policies && mkdir -p out
	$(BIN)/moeopt bench instances/policies.yaml -o out/policies -q --table reports/grid.html,reports/grid.md,reports/img/grid.png --force
	$(BIN)/moeopt microbatch --ta 0.4 --te 0.5 --tc 0.3 --layers 40 -q -o reports/img/timeline.png --force
	$(BIN)/moeopt mesh $(MESH) -q -o reports/img/mesh.png --force

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy moeopt

# Compiled kernels are kept: what the tests load takes a minute to make, beside which mypy reads the code.
compiled: $(VENV)/test.stamp
	@$(BIN)/moeopt warmup --quiet

test: $(VENV)/test.stamp
	@$(MAKE) --no-print-directory --jobs=2 lint compiled
	$(BIN)/python -m pytest -n auto --dist worksteal

# Compiled code is not seen: tests of kernels, and of what calls them most, are run interpreted besides.
COVERED := tests/kernels tests/placement/test_bounds.py tests/placement/test_exact.py tests/placement/test_equal_split.py \
  tests/collocation/test_replicas.py tests/collocation/test_free_routes.py
coverage: $(VENV)/test.stamp
	@rm -rf build/coverage && mkdir -p build/coverage
	COVERAGE_FILE=$(CURDIR)/build/coverage/data $(BIN)/coverage run -m pytest -n auto --dist worksteal
	MOEOPT_INTERPRET=1 COVERAGE_FILE=$(CURDIR)/build/coverage/data $(BIN)/coverage run -m pytest -n auto $(COVERED)
	@cd build/coverage && COVERAGE_FILE=data $(CURDIR)/$(BIN)/coverage combine --quiet --rcfile ../../pyproject.toml
	@$(BIN)/python -m tests.coverage build/coverage/data

bench: $(VENV)/run.stamp
	$(BIN)/python -m tests.benchmarks.targets --write

cases: $(VENV)/test.stamp
	@$(BIN)/python -m tests.cases

package: $(VENV)/run.stamp
	$(BIN)/python -m tests.packaging $(foreach one,$(PYTHONS),--python $(one))

mutants: $(VENV)/test.stamp
	$(BIN)/python -m tests.mutation placement
	$(BIN)/python -m tests.mutation microbatch

fuzz: $(VENV)/test.stamp
	$(BIN)/python -m tests.fuzz --seconds 30

reference: $(VENV)/test.stamp
	$(BIN)/python -m tests.reference

clean:
	rm -rf $(VENV) out build *.egg-info .mypy_cache .ruff_cache .hypothesis
