# Every target does its own set-up. Needs Python 3.11 or newer, its pip, and make.
BIN := .venv/bin
# The environment that is made here has no pip; activated, its Python comes first.
ACTIVATED := $(CURDIR)/$(BIN):
ifneq ($(findstring $(ACTIVATED),$(PATH)),)
PYTHON ?= $(shell PATH="$(subst $(ACTIVATED),,$(PATH))"; command -v python3)
endif
PYTHON ?= python3
# pip from outside the environment works where Python came without ensurepip.
PIP := $(PYTHON) -m pip --python $(BIN)/python install --disable-pip-version-check --quiet --no-compile
# uv installs in seconds what takes pip a minute, from the registry that pip is told to use; where it cannot
# (a proxy that pip alone knows, say), pip does it. The arguments mean the same to both. Of pyproject.toml uv would
# take the constraints of the locks, which it refuses beside hashes.
INDEX := $${PIP_INDEX_URL:-$$($(PYTHON) -m pip config get global.index-url 2>/dev/null)}
INSTALL = index=$(INDEX); $${index:+env UV_DEFAULT_INDEX=$$index} \
	$(BIN)/uv pip install --no-config --quiet --python $(1)/python --no-deps $(2) \
	|| $(PYTHON) -m pip --python $(1)/python install --quiet --no-compile --no-deps $(2)
FUZZ := .venv-fuzz/bin
# Together the locks are complete, so nothing is resolved; bytecode is made for what is imported.
LOCKED := --require-hashes
COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate
LOCK := $(COMPILE) pyproject.toml --extra server --extra build
# A lock lists what it adds to the ones before it; those are read when the line runs, not before.
ADDED_TO = $(1:%=--constraint %) $$(sed -n 's/^\([^ =]*\)==.*/--no-emit-package \1/p' $(1) | sed 's/\[.*\]//')

# Each process imports everything, and most tests wait more than they compute. A process makes once what the
# tests of a file share.
BY_FILE := --dist loadfile --no-loadscope-reorder
PROCESSES := --numprocesses 3 $(BY_FILE)
# The slow tests wait for processes that are killed and for leases: three of them leave a third of two cores idle.
SLOW_PROCESSES := --numprocesses 4 $(BY_FILE)

# Bytecode that is not kept is made again by every process.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run console screenshots test tested covered slow thresholds check linted fuzz faults fuzzer bench eval lock clean

# Without it the server runs all the same, and says at `/` why there is no page.
CONSOLE := $(BIN)/python server/console/build.py
BUILD_CONSOLE = $(CONSOLE) || { test $$? -eq 3 && echo "Installing Node.js …" \
	&& { $(call INSTALL,$(BIN),$(LOCKED) -r requirements-node.txt); } && $(CONSOLE); }

run: .venv/run  ## install what is needed, build the page, and serve on 127.0.0.1:2024
	@$(BUILD_CONSOLE) || echo "Serving without an up-to-date page."
	@$(BIN)/callsheet serve

console: .venv/uv  ## build the page that the server shows at /, if its sources changed
	@$(BUILD_CONSOLE)

screenshots: .venv/dev  ## take pictures of every view of the page into build/screenshots
	@$(BUILD_CONSOLE)
	@$(BIN)/python -m tests.console.browser --pictures build/screenshots "on a phone"

test: .venv/dev  ## install what is needed, check, and test offline; with CI=true, the slow tests too, and coverage
	@$(BUILD_CONSOLE) || test -z "$(CI)"
	@$(MAKE) --no-print-directory --jobs 2 linted $(if $(CI),covered,tested)

tested: .venv/dev
	@$(BIN)/python -m pytest -q $(PROCESSES)

# Measuring takes twice the time, and the slow tests cover little that the others do not. The first line makes
# the bytecode that each process would make for itself; an error of it comes again in the second.
covered: .venv/dev
	@$(BIN)/python -m pytest -q --collect-only >/dev/null 2>&1 || true
	@COVERAGE_PROCESS_START=$(CURDIR)/pyproject.toml $(BIN)/python -m coverage run -m pytest -q $(PROCESSES) -m "not slow"
	@$(MAKE) --no-print-directory slow thresholds

slow: .venv/dev
	@$(BIN)/python -m pytest -q $(SLOW_PROCESSES) -m slow

thresholds: .venv/dev
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report --fail-under=95
	@$(BIN)/python -m coverage report --fail-under=100 --include='state/*,tools/guard/guard.py' >/dev/null \
		|| { echo "state/ and tools/guard/guard.py must be covered wholly:"; \
		     $(BIN)/python -m coverage report --include='state/*,tools/guard/guard.py'; exit 1; }

check: linted  ## formatting, lint, types, import arrows and size limits
	@$(BIN)/python -m pytest -q -p no:cacheprovider tests/meta/test_layers.py tests/meta/test_sizes.py

# What the tests do not do themselves.
linted: .venv/dev
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet --output-format concise .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo >/dev/null || $(BIN)/lint-imports --no-logo

fuzz: .venv/dev fuzzer  ## send the server what a fuzzer makes of its description, for ten minutes
	@$(BIN)/python -m pytest -q -s tests/http/test_fuzz.py --long

faults: .venv/dev  ## kill processes and Redis under load for ten minutes, and compare with a model
	@$(BIN)/python -m tests.faults --minutes 10 --redis

fuzzer: .venv-fuzz/done  ## install the fuzzer, which has an environment of its own

bench: .venv/peers  ## print every figure, each beside its peer or floor in the same run
	@$(BIN)/python -m bench

eval: .venv/dev  ## run the controls of the checks, and score MODEL=provider/model or the recorded answers
	@$(BIN)/python -m evals $(if $(MODEL),--model $(MODEL)) $(if $(JUDGE),--judge $(JUDGE)) $(ARGS)

lock: .venv/uv  ## write the six locks anew
	@$(COMPILE) --group install -o requirements-install.txt
	@$(COMPILE) --group node -o requirements-node.txt
	@$(LOCK) -o requirements.txt
	@$(LOCK) --extra dev $(call ADDED_TO,requirements.txt) -o requirements-dev.txt
	@$(LOCK) --extra dev --extra peers $(call ADDED_TO,requirements.txt requirements-dev.txt) -o requirements-peers.txt
	@$(COMPILE) --group fuzz --python-version 3.11 -o requirements-fuzz.txt

clean:  ## remove what was installed or made, and what langgraph dev stored; not the data of callsheet
	rm -rf server/console/node_modules server/console/static .venv .venv-fuzz .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .langgraph_api

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Callsheet needs Python 3.11 or newer; $(PYTHON) is older. Use: make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -m venv --without-pip .venv
	@touch $@

.venv/uv: .venv/python requirements-install.txt
	@$(PIP) --no-deps $(LOCKED) -r requirements-install.txt
	@touch $@

.venv/run: .venv/uv requirements.txt pyproject.toml
	@test -e .venv/dev || echo "Installing Callsheet …"
	@test -e .venv/dev || { $(call INSTALL,$(BIN),$(LOCKED) -r requirements.txt); }
	@$(call INSTALL,$(BIN),--no-build-isolation --editable .)
	@touch $@

.venv/dev: .venv/uv requirements.txt requirements-dev.txt pyproject.toml
	@echo "Installing Callsheet and what tests it …"
	@$(call INSTALL,$(BIN),$(LOCKED) -r requirements.txt -r requirements-dev.txt)
	@$(call INSTALL,$(BIN),--no-build-isolation --editable .)
	@touch $@

.venv/peers: .venv/dev requirements-peers.txt
	@$(call INSTALL,$(BIN),$(LOCKED) -r requirements-peers.txt)
	@touch $@

.venv-fuzz/done: .venv/uv requirements-fuzz.txt
	@$(PYTHON) -m venv --without-pip .venv-fuzz
	@$(call INSTALL,$(FUZZ),$(LOCKED) -r requirements-fuzz.txt)
	@touch $@
