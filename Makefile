# One command each. Every target sets up .venv by itself the first time; nothing else has to be installed before.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
# Tests start hundreds of processes: each would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=

# One process more than cores, because many tests wait; ARGS="-n 0" runs them in one, for a debugger.
PYTEST := $(RUN) -m pytest -n 3
# Of the random examples in test-slow: SEED=N repeats a run.
SEED := $(shell date +%s)
LOCKING := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet --upgrade

.DEFAULT_GOAL := help
.PHONY: help demo up test test-slow lint bench picture format lock clean

help: ## print this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | \
		while IFS='|' read -r target meaning; do printf '%-18s %s\n' "$$target" "$$meaning"; done

demo: $(READY) ## a city on a network of its own: half an hour of it in six minutes
	@$(VENV)/bin/tocsin demo $(ARGS)

up: $(READY) ## run an empty system: data cluster, brokers, coordinator
	@$(VENV)/bin/tocsin up $(ARGS)

test: $(READY) ## run the tests
	PYTHONHASHSEED=0 $(PYTEST) -m "not slow" $(ARGS)

test-slow: $(READY) ## run the tests that take minutes, and try new random examples
	PYTHONHASHSEED=$(SEED) $(PYTEST) -m "slow or hypothesis" --hypothesis-profile=explore --hypothesis-seed=$(SEED) $(ARGS) || \
		{ echo 'To repeat this run: make test-slow SEED=$(SEED) ARGS="-k NAME_OF_THE_TEST"'; exit 1; }

lint: $(READY) ## check style, types, layers and the repository itself
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports
	$(RUN) -m pytest -q tests/test_repository.py

bench: $(READY) ## run the benchmarks and print their tables
	$(RUN) -m benchmarks $(ARGS)

picture: $(READY) ## start a demo and make docs/pictures/city.png from it
	$(RUN) tests/dashboard/picture.py $(ARGS)

format: $(READY) ## put the code into shape
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

lock: $(READY) ## update the two lock files from pyproject.toml
	$(RUN) -m pip install --quiet uv
	$(RUN) -m uv pip compile pyproject.toml $(LOCKING) --output-file requirements.lock
	$(RUN) -m uv pip compile pyproject.toml --extra dev --constraint requirements.lock $(LOCKING) --output-file requirements-dev.lock

# pip checks every package against the hashes in the lock file.
$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Tocsin needs Python 3.11 or newer as $(PYTHON); or name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "Python's venv module is missing. On Debian and Ubuntu: sudo apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

clean: ## remove .venv, caches and what a demo left
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse artifacts
	find src -name '*.egg-info' -prune -exec rm -rf {} +
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
