# `make setup` once, then any other target. PYTHON may name another interpreter (3.11 or newer).
PYTHON ?= python3
PYTEST_ARGS ?= -n 2 --dist worksteal

BIN := .venv/bin
ORACLE := .venv-oracle
AEF_ORACLE := .venv-aef-oracle
DUCKDB2 := .venv-duckdb2
LOCKER := .venv-lock

# The tests of what DuckDB computes: these run on DuckDB 2 as well.
ENGINE_TESTS := $(wildcard $(addprefix tests/test_,$(addsuffix .py,sql_models plan pipeline \
	scores_equal grades_in_turn judgments matchers honesty_udf stats_marts export same_bytes \
	catalog_docs sql_cli)))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_REQUIRE_VIRTUALENV := 1
export DO_NOT_TRACK := 1
PIP := -m pip install -qq --no-input --no-deps --no-compile --require-hashes
COMPILE := $(LOCKER)/bin/uv --quiet pip compile --universal --python-version 3.11 \
	--generate-hashes --custom-compile-command "make lock" --upgrade

.DEFAULT_GOAL := help
.PHONY: help setup oracle aef-oracle demo test test-duckdb2 lint format ui bench bench-smoke docs lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.ready ## make .venv with everything that the other targets need

oracle: $(ORACLE)/.ready ## make .venv-oracle, the reference library that tests compare with

aef-oracle: $(AEF_ORACLE)/.ready ## make .venv-aef-oracle, for Agent Eval Flow's own evaluator

.venv/.ready: requirements/pip.txt requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 setup")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv ..."
	@$(BIN)/python $(PIP) -r requirements/pip.txt
	@$(BIN)/python $(PIP) -r requirements/dev.txt
	@$(BIN)/python -m pip install -qq --no-deps --no-build-isolation --editable .
	@# On all cores, and once: commands and tests start many processes. What packages hold for other
	@# versions of Python does not compile, and need not.
	@$(BIN)/python -m compileall -qq -j 0 "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" toolscore_pipeline || true
	@touch $@

$(ORACLE)/.ready: requirements/oracle.txt
	@test -x $(ORACLE)/bin/python || $(PYTHON) -m venv $(ORACLE)
	@$(ORACLE)/bin/python $(PIP) -r requirements/oracle.txt
	@touch $@

# $(call BESIDE,FOLDER,LOCK): an environment with the packages of .venv, but for those of a lock,
# which stand before them on the path.
define BESIDE
@test -x $(1)/bin/python || $(BIN)/python -m venv $(1)
@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	> "$$($(1)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/shared.pth"
@pwd >> "$$($(1)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/shared.pth"
@$(1)/bin/python $(PIP) --ignore-installed -r $(2)
@touch $(1)/.ready
endef

$(DUCKDB2)/.ready: requirements/duckdb2.txt .venv/.ready
	$(call BESIDE,$(DUCKDB2),$<)

$(AEF_ORACLE)/.ready: requirements/aef-oracle.txt .venv/.ready
	$(call BESIDE,$(AEF_ORACLE),$<)

demo: setup ## build the example project and show where to look
	@$(BIN)/toolscore demo

test: setup oracle aef-oracle ## run every test
	@$(BIN)/python -m pytest -q $(PYTEST_ARGS)

test-duckdb2: $(DUCKDB2)/.ready oracle ## run the tests of the engine on the newest DuckDB 2
	@$(DUCKDB2)/bin/python -c 'import sys, duckdb; print("DuckDB", duckdb.__version__); sys.exit(duckdb.__version__ < "2")'
	@$(DUCKDB2)/bin/python -m pytest -q $(PYTEST_ARGS) -m "not slow" $(ENGINE_TESTS)

lint: setup ## check style and types of Python and SQL
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/sqlfluff lint --disable-progress-bar sql
	@$(BIN)/mypy --no-error-summary

format: setup ## lay out Python and mend what ruff can mend
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

ui: setup ## open Dagster on the example project
	@test -d toolscore-demo || $(BIN)/toolscore demo --quiet
	@$(BIN)/toolscore ui --project toolscore-demo

bench: setup oracle ## measure against the targets, with the reference library beside
	@$(BIN)/python -m bench

bench-smoke: setup oracle ## the same on few rows, to see that it runs
	@$(BIN)/python -m bench --smoke

docs: setup ## build the documentation site into site/ and check its links
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lock: ## renew the locks in requirements/
	@test -x $(LOCKER)/bin/uv || { $(PYTHON) -m venv $(LOCKER) && $(LOCKER)/bin/python -m pip install -qq uv; }
	@$(COMPILE) --extra agent --extra aef --extra dev -o requirements/dev.txt pyproject.toml requirements/dev.in
	@for name in aef-oracle duckdb2 oracle pip; do $(COMPILE) -o requirements/$$name.txt requirements/$$name.in; done

clean: ## remove what was built, the environments too
	@rm -rf .venv $(ORACLE) $(AEF_ORACLE) $(DUCKDB2) $(LOCKER) build dist site toolscore-demo .toolscore .dagster
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis bench/results test-artifacts
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
