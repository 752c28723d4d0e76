# make demo: see it work.  make test: lint, types, tests.  Both make their own environment first.
# TF chooses the TensorFlow (2.15 to 2.21), PYTHON the interpreter; each pair has an environment.

ifndef PYTHON
PYTHON := $(shell ./tools/find_python.sh $(TF))
ifeq ($(PYTHON),)
$(error no Python $(if $(TF),for TF=$(TF) )found; set PYTHON= to a Python from 3.9 to 3.13)
endif
endif
PY := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ifndef TF
TF := $(if $(filter 3.9 3.10,$(PY)),2.15,2.21)
endif
VENV ?= .venv/tf$(TF)-py$(PY)
BIN := $(VENV)/bin
CONSTRAINTS := constraints/tf$(subst .,,$(TF)).txt
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS)
DEMO_DIR ?= runs/ads
COMMA := ,
ifeq ($(wildcard $(CONSTRAINTS)),)
$(error TF=$(TF): expected 2.15 to 2.21, there is no $(CONSTRAINTS))
endif

.PHONY: demo simulate test test-long test-variants test-matrix install lint clean

demo: install
	$(BIN)/python run.py --flagfile=exp.flags --model_dir=$(DEMO_DIR) || [ $$? -eq 99 ]

test: lint
	$(PYTEST) -m "not long and not variant"

test-long: install
	$(PYTEST) -m "long and not variant"

# Likes of what is tested already: all cells of fault matrices, each model with every head.
test-variants: install
	$(PYTEST) -m variant

# Both ends whole, and a shorter set on each TensorFlow between them.
test-matrix:
	./tools/test_matrix.sh

lint: install
	$(BIN)/ruff check .
	$(BIN)/mypy

# A month of retraining on data that misbehave: the table in docs/retraining.md.
simulate: install
	$(BIN)/python tools/simulate_retraining.py --work_dir=runs/simulation \
	  --against_scratch --docs

install: $(VENV)/installed

$(VENV)/installed: setup.py $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(PIP) setuptools wheel
	$(PIP) "tensorflow==$(TF).*" -e ".[test$(if $(filter 2.15,$(TF)),$(COMMA)beam$(COMMA)dynamic)]"
	$(PIP) --no-deps tensorflow-ranking  # It asks for TensorFlow before 2.16, and needs none such.
	touch $@

clean:
	rm -rf .venv build dist *.egg-info
