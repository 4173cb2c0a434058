# Every target does its own set-up. Needs Python 3.11 or newer, its pip, and make.
PYTHON ?= python3
BIN := .venv/bin
# pip from outside the environment works where Python came without ensurepip.
PIP := $(PYTHON) -m pip --python $(BIN)/python install --disable-pip-version-check --quiet
# Together the locks are complete, so nothing is resolved; bytecode is made for what is imported.
LOCKED := --no-deps --no-compile --require-hashes
LOCK := $(BIN)/python -m uv pip compile pyproject.toml --quiet --universal --generate-hashes --no-header --no-annotate --extra build
# A lock lists what it adds to the ones before it; those are read when the line runs, not before.
ADDED_TO = $(1:%=--constraint %) $$(sed -n 's/^\([^ =]*\)==.*/--no-emit-package \1/p' $(1) | sed 's/\[.*\]//')

# Bytecode that is not kept is made again by every process.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test tested covered check bench lock clean

run: .venv/run  ## install what is needed and serve on 127.0.0.1:2024
	@$(BIN)/callsheet serve

test: .venv/dev  ## install what is needed, check, and test everything offline; with CI=true, measure coverage
	@$(MAKE) --no-print-directory --jobs 2 check $(if $(CI),covered,tested)

tested: .venv/dev
	@$(BIN)/python -m pytest -q -n 3

covered: .venv/dev
	@$(BIN)/python -m pytest -q -n 3 --cov --cov-report=
	@$(BIN)/python -m coverage report --fail-under=95
	@$(BIN)/python -m coverage report --fail-under=100 --include='state/*,tools/guard.py' >/dev/null \
		|| { echo "state/ and tools/guard.py must be covered wholly:"; \
		     $(BIN)/python -m coverage report --include='state/*,tools/guard.py'; exit 1; }

check: .venv/dev  ## formatting, lint, types, import arrows and size limits
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet --output-format concise .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo >/dev/null || $(BIN)/lint-imports --no-logo
	@$(BIN)/python -m pytest -q -p no:cacheprovider tests/test_layers.py tests/test_sizes.py

bench: .venv/peers  ## print every figure, each beside its peer or floor in the same run
	@$(BIN)/python -m bench

lock: .venv/dev  ## write the three locks anew
	@$(PIP) uv
	@$(LOCK) -o requirements.txt
	@$(LOCK) --extra dev $(call ADDED_TO,requirements.txt) -o requirements-dev.txt
	@$(LOCK) --extra dev --extra peers $(call ADDED_TO,requirements.txt requirements-dev.txt) -o requirements-peers.txt

clean:  ## remove everything that was installed or made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .langgraph_api

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Callsheet needs Python 3.11 or newer; $(PYTHON) is older. Use: make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -m venv --without-pip .venv
	@touch $@

.venv/run: .venv/python requirements.txt pyproject.toml
	@test -e .venv/dev || echo "Installing Callsheet …"
	@test -e .venv/dev || $(PIP) $(LOCKED) -r requirements.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

.venv/dev: .venv/python requirements.txt requirements-dev.txt pyproject.toml
	@echo "Installing Callsheet and what tests it …"
	@$(PIP) $(LOCKED) -r requirements-dev.txt & tools=$$!; \
		$(PIP) $(LOCKED) -r requirements.txt; callsheet=$$?; wait $$tools && exit $$callsheet
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

.venv/peers: .venv/dev requirements-peers.txt
	@$(PIP) $(LOCKED) -r requirements-peers.txt
	@touch $@
