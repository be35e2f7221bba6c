# `make demo` and `make test` do all the set-up they need.
PYTHON ?= python3
VENV := .venv
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(SCRIPTS)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-slow test-all bench bench-labeling stress stress-quick results docs doctor package package-try check format clean
.DEFAULT_GOAL := demo

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "sala needs Python 3.10 or newer; run make PYTHON=/path/to/python3.10 (or newer)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing sala into $(VENV) (once; about a minute)"
	@$(PIP) --editable '.[fast]' || { echo "numba cannot be had here: going on with PyTorch's kernels"; $(PIP) --editable .; }
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	@echo "installing the tools for tests and checks (once)"
	@$(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/installed-docs: $(VENV)/installed
	@echo "installing the tools for the documentation (once)"
	@$(PIP) --editable '.[docs]'
	@touch $@

demo: $(VENV)/installed  ## train, test and compare on the built-in data; writes sala-demo/report.html
	@$(BIN)/sala demo

test: $(VENV)/installed-dev  ## the tests that run in minutes
	@$(BIN)/python -m pytest -n auto --dist worksteal

test-slow: $(VENV)/installed-dev  ## the other tests
	@$(BIN)/python -m pytest -m slow -n auto --dist worksteal

test-all: test test-slow  ## all tests

bench: $(VENV)/installed-dev  ## what things cost here; writes benchmarks/here.json
	@$(BIN)/python -m benchmarks --out benchmarks/here.json

bench-labeling: $(VENV)/installed-dev  ## the classifier beside every rival on image sets of many kinds; writes results/practice/sets.json
	@$(BIN)/python benchmarks/labeling/judge.py
	@$(BIN)/python docs/tools/fill.py

stress: $(VENV)/installed-dev  ## kills, faults, altered files, hostile requests, wrong commands: 15 minutes; writes stress/here.json
	@$(BIN)/python -m stress --seed 0 --minutes 15 --out stress/here.json

stress-quick: $(VENV)/installed-dev  ## a part of that, in three minutes
	@$(BIN)/python -m stress --seed 0 --quick

results: $(VENV)/installed-dev  ## tables, figures and pages from the records in results/runs
	@$(BIN)/sala reproduce all --no-run
	@$(BIN)/python docs/tools/fill.py

docs: $(VENV)/installed-docs  ## the documentation as pages in site/; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html"

doctor: $(VENV)/installed  ## what is installed and found here
	@$(BIN)/sala doctor

package: $(VENV)/installed-dev  ## wheel and source archive in dist/, their metadata checked
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist .
	@$(BIN)/python -m twine check --strict dist/*

package-try: package  ## the wheel in an empty environment, without what is optional
	@rm -rf .venv-try
	@$(PYTHON) -m venv .venv-try
	@.venv-try/$(SCRIPTS)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt dist/*.whl
	@cd dist && ../.venv-try/$(SCRIPTS)/sala doctor

check: $(VENV)/installed-dev  ## formatting, lint, types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(VENV)/installed-dev
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .venv-try build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
