# Everything a contributor does, by one word each. `make` alone lists them.

PYTHON ?= python3
VENV := .work/venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# What needs no more than the base install has an environment of its own: 220 MB, and not 1.2 GB.
SMALL := .work/small
# More than the two cores that it is made for: tests with servers wait for them half of the time.
JOBS ?= 4
# Bytecode is kept, whatever the environment says: tests and jobs start hundreds of processes of the same modules.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.work/pycache

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help venv demo demo-small demo-tables demo-doubled archives collected test test-fast check stress bench mutate promises jars zip clean python java

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The two prerequisites, checked before anything else is printed or fetched.
python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or later is missing ('$(PYTHON)' is not one): install it, or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }

java:
	@.ci/java

venv: python $(STAMP) ## make .work/venv with the package and all its tools

# The stamp is newer than setup.cfg for as long as the installed requirements are the written ones.
$(STAMP): setup.cfg pyproject.toml | python
	@echo "== setting up $(VENV) (once, and again when setup.cfg changes): Spark, servers and tools, 1.2 GB, a few minutes =="
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@# Not compiled: that takes longer than all the rest, and most of it is never imported.
	@$(PY) -m pip install --no-compile --disable-pip-version-check -e '.[demo,dev]' >.work/install.log 2>&1 || { tail -n 40 .work/install.log >&2; exit 1; }
	@touch $@

demo: java venv ## cdcv2 up of examples/bank: money moves in a real PostgreSQL, and all that brings it on is killed on the way
	@$(PY) -m cdcv2 demo

demo-tables: java venv ## the same bank ends in a second PostgreSQL and in Delta tables, which are read all along, through kills of everything
	@$(PY) -m cdcv2 demo --targets

demo-doubled: java venv ## two databases, and two captures on Spark that write the same logs at once, through kills of both
	@$(PY) -m cdcv2 demo --two-captures

demo-small: $(SMALL)/.installed ## the same road without servers: recorded events, through files
	@$(SMALL)/bin/python -m cdcv2 demo --small

$(SMALL)/.installed: setup.cfg pyproject.toml | python
	@echo "== setting up $(SMALL): cdcv2 with two libraries, 220 MB, some seconds =="
	@mkdir -p .work && { test -x $(SMALL)/bin/python || $(PYTHON) -m venv $(SMALL); }
	@$(SMALL)/bin/python -m pip install --disable-pip-version-check -e . >.work/install-small.log 2>&1 || { tail -n 40 .work/install-small.log >&2; exit 1; }
	@touch $@

archives: java venv ## start Spark and Kafka once, so that their tests start them in half the time
	@$(PY) -m cdcv2.servers.rehearse

# Tests are compiled once, and not by all workers at once: ten seconds of a core for each of them in a fresh clone.
collected: venv
	@mkdir -p .work
	@# The long runs with them, so that none is broken by what moved since its last run.
	@$(PY) -m pytest tests tests/stress --collect-only -qq >.work/collected.log 2>&1 || { tail -n 40 .work/collected.log >&2; exit 1; }

test: java venv archives ## all tests; fetches and starts what they need
	@$(PY) -m pytest tests -n $(JOBS) --dist loadgroup

test-fast: venv ## the tests that need no Java and no server
	@$(PY) -m pytest tests -n $(JOBS) --dist loadgroup -q -m "not spark and not integration"

check: venv ## lint, strict types, and the examples in docstrings
	@$(PY) -m flake8
	@$(PY) -m mypy
	@$(PY) -m pytest -q -p no:cacheprovider --doctest-modules --doctest-glob=README.md README.md cdcv2 \
	  --ignore=cdcv2/spark --ignore=cdcv2/servers --ignore=cdcv2/demo

# One campaign takes longer than a test may: no traces of all threads while it works, as for a test that hangs.
stress: java venv archives ## the long random runs; summaries go to docs/stress/
	@HYPOTHESIS_PROFILE=stress $(PY) -m pytest tests/stress -q -o faulthandler_timeout=0

bench: java venv ## every benchmark; figures go to benchmarks/results/
	@$(PY) -m benchmarks

mutate: venv ## small wrong changes, one by one: those that no test notices are explained in docs/mutation/
	@$(PY) -m tests.mutation

promises: java venv archives ## the line that keeps each promise, broken: its tests must fail; the summary goes to docs/mutation/
	@$(PY) -m tests.promises

jars: java venv ## fetch the jars of jars.lock into the user's cache
	@for set in spark delta kafka debezium connect-login; do $(PY) -m cdcv2.servers.jars $$set >/dev/null || exit 1; done

zip: python ## .work/cdcv2.zip: the package as spark-submit --py-files takes it
	@mkdir -p .work
	@# The standard library is enough, so nothing is set up.
	@$(PYTHON) -P cdcv2/servers/package_zip.py .work

clean: ## remove what the targets made (the cache of jars stays)
	rm -rf .work build dist mutants .mypy_cache .pytest_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
