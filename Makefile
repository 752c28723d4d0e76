# make demo: see it work.  make test: lint, types, tests.  Both make their own environment first.
# TF chooses the TensorFlow (2.15 to 2.21), PYTHON the interpreter, VENV the environment's folder.

ifndef PYTHON
PYTHON := $(shell ./tools/find_python.sh $(TF))
endif
ifndef TF
TF := $(shell $(PYTHON) -c 'import sys; print("2.21" if sys.version_info >= (3, 11) else "2.15")')
endif
VENV ?= .venv/tf$(TF)
BIN := $(VENV)/bin
CONSTRAINTS := constraints/tf$(subst .,,$(TF)).txt
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS)
DEMO_DIR ?= runs/ads

.PHONY: demo test test-long test-matrix install lint clean

demo: install
	$(BIN)/python run.py --flagfile=exp.flags --model_dir=$(DEMO_DIR) || [ $$? -eq 99 ]

test: lint
	$(BIN)/python -m pytest -m "not long" -n 2

test-long: install
	$(BIN)/python -m pytest -m long

# Both ends whole, and a shorter set on each TensorFlow between them.
test-matrix:
	./tools/test_matrix.sh

lint: install
	$(BIN)/ruff check .
	$(BIN)/mypy

install: $(VENV)/installed

$(VENV)/installed: setup.py $(CONSTRAINTS)
	@test -n "$(PYTHON)" || { echo "no Python for TF=$(TF) found; set PYTHON=" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) setuptools wheel
	$(PIP) "tensorflow==$(TF).*" -e ".[test]"
	touch $@

clean:
	rm -rf .venv build dist *.egg-info
