# Every target works from a fresh clone: the environment is made on first use
# and again when the lock or the package's metadata changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONFIG ?= config/config.yaml
CORES ?= all

.PHONY: run test lint docs lock clean

$(VENV)/installed: envs/requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pwfl needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement envs/requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

run: $(VENV)/installed
	$(BIN)/snakemake --configfile $(CONFIG) --cores $(CORES)
