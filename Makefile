# make run and make test need Python 3.11 or newer with pip, and nothing else: neither venv nor root. Both make and reuse .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# More than there are cores, as a third of the time of tests is waiting.
WORKERS ?= 3
FUZZ_SECONDS ?= 600
CHAOS_SECONDS ?= 300
CHAOS_ROUNDS ?= 10
SIM_SEEDS ?= 20000
SIM_CLIENT_SEEDS ?= 2000
SIM_CLUSTER_SEEDS ?= 10000
SIM_REPORT ?= .work/sim.json
SPARK_KILLS ?= 200
KERNELS := $(wildcard src/everlog/*.h src/everlog/*/*.[ch] src/everlog/*/*/*.[ch])

.PHONY: run test test-again test-kafka check format fuzz crash chaos sim spark-kills bench bench-clients bench-spark bench-cluster bench-lookups bench-quick messages bytecode clean help
.DEFAULT_GOAL := help

help: ## show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/.runs bytecode ## the demo: three brokers, orders streaming in, a Spark pipeline from topic to topic and table
	$(BIN)/python -m everlog.cli.demo $(ARGS)

# Without bytecode of the tests each worker rewrites all of them at its start: 33 s of CPU, with it 10 s. The order
# is that of tests/conftest.py, longest groups first; xdist's own goes by how many tests a group has.
test: $(VENV)/.tests bytecode ## run all tests; what cannot run here is listed with its reason
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

# Many tests have bounds of time, and three run at once on what may be a busy machine. What fails alone, too, has failed.
test-again: $(VENV)/.tests ## run the few tests that failed last once more, alone; each that passes now is named as unsteady
	$(BIN)/python -m tests.again

test-kafka: $(VENV)/.tests bytecode ## run the tests of the clients, and of what they do in clusters, against Apache Kafka from Maven
	$(BIN)/python -m pytest --broker apache tests/client tests/cluster/test_admin_calls.py tests/cluster/test_three_brokers.py tests/e2e/test_cli_dead_letters.py

check: $(VENV)/.tests bytecode ## the fast loop: format, lint, types, import contracts, unit tests
	$(BIN)/ruff format --check src tests bench setup.py
	$(BIN)/ruff check src tests bench setup.py
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/unit

format: $(VENV)/.tests ## format the code and mend what lint can mend
	$(BIN)/ruff format src tests bench setup.py
	$(BIN)/ruff check --fix src tests bench setup.py

fuzz: $(VENV)/.tests ## fuzz every reader of foreign bytes for FUZZ_SECONDS (600) in all
	$(BIN)/python -m tests.fuzz.run --seconds $(FUZZ_SECONDS)

crash: $(VENV)/.tests ## crash-point enumeration with more histories and more ways to lose writes (minutes)
	EVERLOG_CRASH_SEEDS=8 EVERLOG_CRASH_HISTORIES=40 $(BIN)/python -m pytest -n $(WORKERS) tests/crash

sim: $(VENV)/.tests ## SIM_CLUSTER_SEEDS (10000) simulated runs of clusters, SIM_SEEDS of one node, all rules broken; SIM_REPORT is JSON
	$(BIN)/python -m everlog.sim --cluster --seed 1 --seeds $(SIM_CLUSTER_SEEDS) --processes $(WORKERS) --report $(SIM_REPORT)
	$(BIN)/python -m everlog.sim --seed 1 --seeds $(SIM_SEEDS) --processes $(WORKERS) --report $(SIM_REPORT)
	$(BIN)/python -m everlog.sim --workload clients --seed 1 --seeds $(SIM_CLIENT_SEEDS) --processes $(WORKERS) --report $(SIM_REPORT)
	$(BIN)/python -m everlog.sim --cluster --workload clients --seed 1 --seeds $(SIM_CLIENT_SEEDS) --processes $(WORKERS) --report $(SIM_REPORT)
	EVERLOG_SIM_RAFT_SEEDS=$(SIM_CLIENT_SEEDS) EVERLOG_SIM_REPLICATION_SEEDS=$(SIM_CLIENT_SEEDS) EVERLOG_SIM_QUORUM_SEEDS=$(SIM_CLIENT_SEEDS) \
		$(BIN)/python -m pytest -q -n $(WORKERS) tests/sim/test_raft.py tests/sim/test_replication.py tests/sim/test_quorum.py
	$(BIN)/python -m tests.sim.cluster_mutants

chaos: $(VENV)/.tests bytecode ## kill, stop and pause a real broker under load for CHAOS_SECONDS (300), then clusters, then check the histories
	$(BIN)/python -m tests.e2e.workloads.chaos --seconds $(CHAOS_SECONDS) $(ARGS)
	EVERLOG_CHAOS_ROUNDS=$(CHAOS_ROUNDS) $(BIN)/python -m pytest -q -rP tests/cluster/test_other_clients.py
	for scenario in failover kill controller pause stop rolling transactions disk-full fsync clock; do \
		$(BIN)/everlog chaos run --scenario $$scenario --html .work/chaos-$$scenario.html || exit 1; done

spark-kills: $(VENV)/.tests bytecode ## SPARK_KILLS (200) kills of drivers, executors, tasks and brokers under exactly-once queries (30 to 60 minutes; goes on where it was stopped)
	$(BIN)/python -m tests.spark.kills --kills $(SPARK_KILLS)
	$(BIN)/python -m tests.spark.kills --small $(SPARK_KILLS)
	$(BIN)/python -m tests.spark.kills_table --kills $(SPARK_KILLS)

bench-clients: $(VENV)/.tests ## measure our Python clients beside the others, on Everlog and on Apache Kafka (ARGS= for options)
	$(BIN)/python -m bench.clients $(ARGS)

bench-spark: $(VENV)/.tests ## measure our Spark source and sink beside Spark's own connector (ARGS= for options)
	$(BIN)/python -m bench.spark $(ARGS)

bench-lookups: $(VENV)/.tests ## measure how long it takes to find an offset or a time; fails from a millisecond on (two minutes)
	$(BIN)/python -m bench.lookups --check $(ARGS)

bench: $(VENV)/.tests ## measure beside Apache Kafka on this machine (about 25 minutes; ARGS= for options)
	$(BIN)/python -m bench $(ARGS)

bench-cluster: $(VENV)/.tests ## measure three brokers beside three of Apache Kafka, failover included (ARGS= for options)
	$(BIN)/python -m bench.cluster $(ARGS)

bench-quick: $(VENV)/.tests ## the same in a few minutes, with a wide spread
	$(BIN)/python -m bench --quick $(ARGS)

messages: $(VENV)/.tests ## make the message classes anew from the schema table
	$(BIN)/python -m everlog.wire.generate

clean: ## remove what the targets made
	rm -rf $(VENV) .work build src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find src -name '*.so' -delete

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, $(PYTHON) is older" >&2; exit 1; }
	@mkdir -p .work; $(PYTHON) -m venv $(VENV) >.work/venv.txt 2>&1 || { rm -rf $(VENV); $(BY_VIRTUALENV); } \
		|| { rm -rf $(VENV); cat .work/venv.txt >&2; echo "No environment can be made with $(PYTHON): it has no venv that works" \
			"(Debian has that in python3-venv), and pip could not fetch virtualenv, which would do instead." >&2; exit 1; }

# Debian's python3 makes no environment with a pip without its package python3-venv. virtualenv brings its own, and lies in a
# directory of ours: beside what apt has installed Debian's pip installs nothing.
BY_VIRTUALENV = echo "$(PYTHON) -m venv does not work here, virtualenv is used"; \
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade --target .work/virtualenv virtualenv >>.work/venv.txt 2>&1 \
		&& PYTHONPATH=.work/virtualenv $(PYTHON) -m virtualenv --quiet $(VENV) >>.work/venv.txt 2>&1

# An editable installation leaves this to the first import, and one that may not write (PYTHONDONTWRITEBYTECODE)
# to every one: then each process, of which the tests start thousands, would compile hundreds of modules.
bytecode: $(BIN)/python
	@$(BIN)/python -m compileall -q src/everlog

$(VENV)/.runs: $(BIN)/python pyproject.toml setup.py $(KERNELS)
	@echo "installing Everlog and Spark into $(VENV): 1.2 GB, a minute or two, once"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[spark,lake]"
	@$(BIN)/python -c 'from everlog.spark.java import use_java; use_java()' 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[java]" \
		|| echo "no Java of 17 or newer, and pip has none for this machine: Spark is left out"
	@touch $@

$(VENV)/.tests: $(BIN)/python pyproject.toml setup.py $(KERNELS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@$(BIN)/python -c 'from everlog.spark.java import use_java; use_java()' 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[java]" \
		|| echo "no Java of 17 or newer, and pip has none for this machine: Spark is left out"
	@touch $@ $(VENV)/.runs
