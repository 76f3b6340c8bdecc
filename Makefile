# Each target sets up what it needs on a fresh machine; a second call starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(VENV)/.current-pip
READY := $(VENV)/.ready
TESTED := $(VENV)/.ready-dev
SERVED := $(VENV)/.ready-serve
AXE := $(VENV)/axe/node_modules/axe-core/axe.min.js

.PHONY: demo serve test test-all lint docs weights results clean
demo: $(READY)
	$(BIN)/ens demo

serve: $(SERVED)
	$(BIN)/ens serve --open

# one thread each, as many processes as cores; what takes more than ten seconds is for test-all
PROCESSES ?= auto
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal

# the page is tested where a browser is found, and checked by axe where npm has brought it
test: $(TESTED) $(AXE)
	$(PYTEST) -m "not slow"

test-all: $(TESTED) $(AXE)
	$(PYTEST) --cov --cov-report=term

lint: $(TESTED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# the pages and the reference made from the docstrings, as a site in site/
docs: $(TESTED)
	$(BIN)/mkdocs build --strict --quiet

# the pip that a Python brings is as old as that Python
$(PIP):
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet 'pip>=26'
	touch $@

# torch first and exactly: a range would bring another build with gigabytes of accelerator libraries
$(READY): pyproject.toml constraints.txt | $(PIP)
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(SERVED): $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[serve]'
	touch $@

$(TESTED): $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(AXE): | $(TESTED)
	-npm install --silent --no-audit --no-fund --prefix $(VENV)/axe axe-core@4

# train every shipped model anew: about seven hours on one core
RECIPES := contractive fno
STATIC := poisson helmholtz nonlinear-helmholtz darcy
# on from a model that is there: its late iterates too are replayed
ON := --plan learning_rate=1e-3 --plan replay=true --plan unroll=2 --plan shortest_unroll=2 --ship
weights: $(READY)
	for recipe in $(RECIPES); do for equation in $(STATIC); do \
	  $(BIN)/ens train $$equation --recipe $$recipe --ship || exit 1; done; done
	for equation in helmholtz darcy; do \
	  $(BIN)/ens train $$equation --recipe paper --ship || exit 1; done
	$(BIN)/ens train poisson --recipe paper --start helmholtz-paper --budget-minutes 3 $(ON)
	$(BIN)/ens train nonlinear-helmholtz --recipe paper --start helmholtz-paper --budget-minutes 4 $(ON)
	$(BIN)/ens train darcy --recipe paper --start darcy-paper --budget-minutes 6 $(ON)
	$(BIN)/ens train darcy --recipe paper --start darcy-paper --budget-minutes 10 --plan ema=0.995 $(ON)
	$(BIN)/ens train darcy --recipe shapes --ship
	$(BIN)/ens train darcy-box --scale box --ship
	for flow in navier-stokes kolmogorov; do \
	  $(BIN)/ens train $$flow --ship && \
	  $(BIN)/ens train $$flow --recipe paper --budget-minutes 20 --ship && \
	  $(BIN)/ens train $$flow --recipe paper --start $$flow-paper --budget-minutes 28 --ship || exit 1; done
	$(BIN)/python -m paper.wave_training data runs/waves/data --minutes 26
	$(BIN)/python -m paper.wave_training train runs/waves/data --output runs/waves/model --minutes 48
	cp runs/waves/model/*.* neuralsolver/weights/waves/
	$(BIN)/python -m paper.inversion_training runs/darcy-inversion --minutes 93
	cp runs/darcy-inversion/*.* neuralsolver/weights/darcy-inversion/

# every row, table and figure of results/desk anew; what is there is kept
results: $(TESTED)
	$(BIN)/python -m paper evaluate all
	for family in darcy shapes boxes walls batches; do \
	  $(BIN)/python -m benchmarks $$family --json > results/desk/race-$$family.jsonl || exit 1; done
	$(BIN)/python -m paper report

clean:
	rm -rf $(VENV) build site *.egg-info
