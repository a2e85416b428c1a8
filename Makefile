# `make train` and `make test` work from a bare clone: they need Python 3.11 and make, nothing else.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: train test lint docs format clean

train: $(VENV)/.ploff
	$(BIN)/ploff train sample --method bc,td3-off,ploff --preset quick --out runs/sample

test: lint
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

lint: $(VENV)/.dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/pyright

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

format: $(VENV)/.dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# A stamp is newer than what it was made from: `make` installs again when the requirements change.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ploff: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[all]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[all,dev]'
	touch $@ $(VENV)/.ploff

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) site build dist
