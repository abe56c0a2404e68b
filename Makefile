# Everything a fresh machine with Python 3.11+ and make needs. `make run` and `make test` set themselves up.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PORT   ?= 8000
SAMPLE ?= 30
ROW    ?= all
.DEFAULT_GOAL := help

# Extras that `make install` installs: all that the README uses. Left out are large packages: vendors' SDKs, numpy,
# DuckDB, and those for database servers, object stores, SFTP and screens (`.venv/bin/pip install -e '.[all]'` adds them).
EXTRAS := chat,compat,completion,databases,documents,gateway,git,logs,openapi,search,serve,studio,web

# What `make quick` runs: tests in memory, of the modules that most changes are in.
QUICK := tests/uri tests/protocol tests/server tests/client tests/test_limits.py tests/test_exports.py tests/test_docs_links.py tests/test_quick.py

.PHONY: help install ui run test ready collected parties quick exhaustive check mutants coverage bench compat dist docs conformance-server clean

help: ## Show what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-20s %s\n", $$1, $$2}'

$(BIN)/carrel: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.dev: $(BIN)/carrel pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev
	@touch $@

install: $(BIN)/carrel ## Make the virtual environment (.venv) with the carrel command in it

# A no-op if the page is built; otherwise it says what it does, and how long that takes.
ui: $(BIN)/carrel ## Build the page of Carrel Studio, with Node (a minute the first time)
	@$(BIN)/python release/page.py

run: ui ## Serve a folder, a database, this repository and a log on 127.0.0.1 (PORT=8000), with a page that shows them
	@$(BIN)/python examples/shop.py build/shop $(BIN)/carrel serve --config examples/carrel.toml --http 127.0.0.1:$(PORT) --studio

# Tests start hundreds of processes, each of which would compile the package again without cached bytecode.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.dev ## Run every check and test
	$(MAKE) --no-print-directory --jobs 3 ready
	$(BIN)/python -m pytest

# mypy uses one processor. Meanwhile another one installs what tests talk to, and compiles the test modules once
# instead of in every process that runs tests.
ready: check parties collected ui

parties: $(VENV)/.dev
	$(BIN)/python tests/support/debian.py
	$(BIN)/python tests/support/parties

collected: $(VENV)/.dev
	@collected=$$($(BIN)/python -m pytest --quiet --quiet --numprocesses 0 --collect-only) \
		|| { echo "$$collected" | tail --lines 60; exit 1; }

# Rewriting the assertions of all test modules takes half of the time, unless they are cached.
quick: export PYTHONDONTWRITEBYTECODE =
quick: $(VENV)/.dev ## Run the tests in memory, without processes and sockets (15 seconds on two cores)
	$(BIN)/python -m pytest -q --dist worksteal --in-memory -m 'not slow' $(QUICK)

check: $(VENV)/.dev ## Lint, types, layering
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

exhaustive: export PYTHONDONTWRITEBYTECODE =
exhaustive: $(VENV)/.dev ## Run all tests, also those that repeat others at older revisions or in other processes
	CARREL_EXHAUSTIVE=1 $(BIN)/python -m pytest

mutants: export PYTHONDONTWRITEBYTECODE =
mutants: $(VENV)/.dev ## Count small mistakes in the code that the tests find (SAMPLE=30 of each package)
	$(BIN)/python tests/mutants.py --sample $(SAMPLE)

coverage: export PYTHONDONTWRITEBYTECODE =
coverage: $(VENV)/.dev ## Measure which lines of a module its own tests run
	$(BIN)/python tests/mutants.py --lines

bench: $(VENV)/.dev ## Compare with the official SDK, FastMCP and a bare server; prints ratios
	$(BIN)/python -m benchmarks

compat: $(VENV)/.dev ## Measure how much of mcp and FastMCP runs on Carrel (ROW=all, or one of its measures); takes hours
	$(BIN)/python tests/compat/measures --write $(ROW)

dist: $(VENV)/.dev ## Build wheel, sdist, .mcpb bundle and notices into dist/
	$(BIN)/python release/build.py

docs: $(VENV)/.dev ## Build the documentation site into build/site
	$(BIN)/python docs/build.py

conformance-server: $(VENV)/.dev ## Start the conformance suite's fixture server (PORT=8000)
	$(BIN)/python tests/conformance/server.py --port $(PORT)

clean: ## Remove everything that make made
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
