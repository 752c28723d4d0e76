# make demo: see it work.  make test: lint, types, tests.  Both make their own environment first.
# PYTHON chooses the interpreter, VENV the folder of the environment.

VENV ?= .venv
PYTHON ?= $(shell ./tools/find_python.sh)
BIN := $(VENV)/bin
DEMO_DIR ?= runs/ads

.PHONY: demo test test-long lint clean

demo: $(VENV)/installed
	$(BIN)/python run.py --flagfile=exp.flags --model_dir=$(DEMO_DIR) || [ $$? -eq 99 ]

test: lint
	$(BIN)/python -m pytest -m "not long" -n 2

test-long: $(VENV)/installed
	$(BIN)/python -m pytest -m long

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/mypy

$(VENV)/installed: setup.py constraints.txt
	@test -n "$(PYTHON)" || { echo "no Python 3.9, 3.10 or 3.11 found; set PYTHON=" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt setuptools wheel
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test]"
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
