# Two commands set everything up: `make demo` and `make check`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo check lint types test versions conformance clean

# Cluster A of RFC 49: the shapes of its eleven test vectors, one after another.
demo: $(INSTALLED)
	$(BIN)/treepool alloc --cluster a \
	  'slot=1/node=1/[core=8;gpu=1]' 'slot=1/node=1/[core=8;gpu=1]' \
	  'node/slot=8/[core=15;gpu=1]' 'slot=4/node/core=120' 'slot=1/node=1/core=4' \
	  'slot=1/node=1/[core=15;gpu=1]' 'node/slot=6/[core=15;gpu=1]' \
	  'slot=1/node=1/[core=60;gpu=4]' 'slot=1/numa{x}' 'slot=1/socket{x}' 'slot=1/node{x}'

check: lint types test versions conformance

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

test: $(INSTALLED)
	$(BIN)/python -m pytest -q -n 2

# The same tests on the oldest and the newest supported Python, where they are installed.
versions: $(INSTALLED)
	sh t/versions 3.9 3.13

conformance: $(INSTALLED)
	$(BIN)/treepool conformance

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -e '.[test]'
	touch $@

clean:
	rm -rf $(VENV) .venv-* build dist
