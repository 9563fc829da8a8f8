# Everything a developer does, by one name. Needs python3 >= 3.11 and make; tests of power
# cuts (make test, make faults) and make sanitize also a C compiler.

PYTHON ?= python3
PY := .venv/bin/python
ACCELERATOR_ARGUMENT := $(if $(filter off,$(ACCELERATOR)),--remove,--if-possible)
SPARK_KILLS := $(wildcard tests/spark/*/test_*_kills.py)

.PHONY: help setup accelerator quick check test test-all sanitize native programs compat-franz-go release demo bench bench-compare bench-cluster bench-placement bench-sdk bench-spark bench-sds bench-kafka faults replay soak generate lock package image-check docs docs-serve clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  \1\t/' | expand -t 18

setup:  ## make .venv, .sdk-venv and .sds-venv and fetch jars, or leave them when they are current
	@$(PYTHON) scripts/make_venvs.py
	@$(PY) scripts/fetch_jars.py
	@$(PY) scripts/fetch_promtool.py
	@$(PY) scripts/fetch_kafka_tests.py

accelerator: setup  ## build the optional C accelerator in place, compiled leaves in .cache/compiled
	@$(PY) scripts/build_accelerator.py
	@$(PY) scripts/compile_leaves.py

quick: setup  ## while you work: format, lint, types, layers, unit tests; three minutes
	@$(PY) scripts/run_lanes.py quick

check: native  ## before a commit: quick, then contracts without backends and simulation; eight minutes
	@$(PY) scripts/run_lanes.py quick check

test: programs  ## each merge, and CI: check, one pass of all that is real, a slice of test-all; half an hour
	@$(PY) scripts/fetch_console_assets.py --tests
	@$(PY) scripts/run_lanes.py quick check gate slice

test-all: programs  ## once per issue: every seed, mutant, client, backend and kill; over an hour
	@$(PY) scripts/fetch_console_assets.py --tests
	@$(PY) scripts/fetch_franz_go.py
	@$(PY) scripts/run_lanes.py --whole classes quick check spark single backends faults sanitize

sanitize: setup  ## the C parts under the address, undefined-behaviour and thread sanitizers
	@$(PY) scripts/sanitize.py

native: setup
	@$(PY) scripts/build_accelerator.py $(ACCELERATOR_ARGUMENT)

programs: native
	@$(PY) scripts/install_programs.py

demo:  ## a server and two clients of one group; DEMO_EXIT=1 ends after the tour
	@$(PYTHON) scripts/make_venvs.py --demo
	@exec $(PY) -m opentalos.cli.main demo --parent $$PPID $(if $(DEMO_EXIT),--exit)

compat-franz-go: setup  ## franz-go's own tests of its client against our server; fetches Go if there is none
	@$(PY) scripts/fetch_franz_go.py
	@$(PY) -m pytest -q -s tests/compat/test_franz_go.py

bench: setup  ## measure speed and memory; BENCH="--quick" or names of figures
	@$(PY) -m bench.run $(BENCH)

bench-compare: setup  ## this version against another one in turn: AGAINST=folder of its checkout; BENCH=--quick
	@$(PY) -m bench.compare $(AGAINST) $(BENCH)

bench-cluster: setup  ## figures of a cluster over real backends; BENCH as above
	@$(PY) -m bench.cluster $(BENCH)

bench-placement: setup  ## what joins, leaves and weights move, and a picture of load per server
	@$(PY) -m bench.placement_figures

bench-sdk: setup  ## figures of the Python SDK against the official one; BENCH as above
	@$(PY) -m bench.sdk_figures $(BENCH)

bench-spark: accelerator  ## format(talos) against Spark's Kafka connector, and the pipelines; BENCH as above
	@$(PY) -m bench.spark_figures $(BENCH)

bench-sds: setup  ## structured tables with streams and without, on SQLite and HBase, and a picture; BENCH as above
	@$(PY) -m bench.sds_figures $(BENCH)

bench-kafka: setup  ## the Kafka port beside Apache Kafka, and docs/internals/kafka-figures.md; BENCH as above
	@$(PY) -m bench.kafka $(or $(BENCH),--page)

faults: setup  ## every fault many times under load, and 3,000 seeds of the simulation
	@$(PY) -m opentalos.testing 100000 --count 2000
	@$(PY) -m opentalos.testing --cluster 100000 --count 1000
	@OPENTALOS_KILLS=50 $(PY) -m pytest -q tests/e2e/test_kill.py tests/e2e/test_table_kill.py \
	  tests/e2e/sdk/test_client_history.py tests/e2e/sdk/test_producer_kills.py \
	  tests/e2e/sdk/test_consumer_kills.py tests/e2e/kafka/test_history.py
	@OPENTALOS_POWER_CUTS=100 $(PY) -m pytest -q -s tests/power
	@OPENTALOS_KILLS=20 $(PY) -m pytest -q $(SPARK_KILLS)
	@OPENTALOS_FAULTS=full $(PY) scripts/run_lanes.py --whole faults

replay: setup  ## run one seed of the simulation again and print what happened: SEED=7 CLUSTER=1
	@$(PY) -m opentalos.testing $(if $(CLUSTER),--cluster )$(SEED) --trace

soak: setup  ## seeds of clusters and ten minutes of load (SOAK_S: seconds); or LANE=gate TIMES=20 LOAD=1
ifdef LANE
	@$(PY) scripts/run_lanes.py --times $(or $(TIMES),20) $(if $(LOAD),--load) $(LANE)
else
	@$(PY) -m opentalos.testing --cluster 200000 --count 1000
	@$(PY) -m bench.soak $(SOAK_S)
endif

generate: setup  ## write generated code and pages anew
	@$(PY) scripts/generate_thrift.py
	@$(PY) scripts/generate_kafka.py
	@$(PY) scripts/generate_config_reference.py
	@$(PY) scripts/generate_rest_reference.py
	@$(PY) scripts/generate_state_pages.py
	@$(PY) -m scripts.generate_dashboards

release: setup  ## VERSION=1.2.3: changelog, version, wheel, commit and tag; DRY=1 changes nothing
	@$(PY) scripts/release.py $(VERSION) $(if $(DRY),--dry-run)

package: setup  ## build the wheels, install each into a fresh environment and try it
	@$(PY) scripts/check_package.py

image-check: setup  ## build the image without a container engine, as root, and run it; minutes
	@$(PY) scripts/check_image.py

docs: setup  ## build the site of the documentation into .cache/site
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
	@echo "built in .cache/site; make docs-serve shows it, with search (which does not work from disk)"

docs-serve: setup  ## serve the site on this machine and follow changes
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs serve

# Needs uv on the path, and the registry. Change a version, run this, look at the difference.
lock:  ## resolve the dependencies anew into requirements/*.lock
	uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --upgrade \
	  --generate-hashes --no-emit-index-url --no-header --quiet --output-file requirements/dev.lock
	uv pip compile pyproject.toml --constraint requirements/dev.lock --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet --output-file requirements/runtime.lock
	uv pip compile pyproject.toml --extra cluster --constraint requirements/dev.lock --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet --output-file requirements/cluster.lock
	uv pip compile pyproject.toml --extra spark --extra lake --constraint requirements/dev.lock --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet --output-file requirements/spark.lock
	uv pip compile requirements/build.in --universal --python-version 3.11 --upgrade \
	  --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet --output-file requirements/build.lock
	uv pip compile requirements/sdk.in --universal --python-version 3.11 --upgrade \
	  --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet --output-file requirements/sdk.lock
	uv pip compile requirements/sds.in --universal --python-version 3.11 --no-deps \
	  --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet --output-file requirements/sds.lock

clean:  ## remove the environments, caches and results
	rm -rf .venv .sdk-venv .sds-venv .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache \
	  .hypothesis bench/out demo-data
