# GNU make 3.81 and /bin/sh are enough. Every path is relative, so the checkout may lie in a folder with spaces.
# Only `make figures` needs git. PYTHON= names the interpreter that makes .venv.

PYTHON = python3
VENV   = .venv
BIN    = $(VENV)/bin
PY     = $(BIN)/python
STAMP  = $(VENV)/.set-up

# The tests start hundreds of Python processes, and without bytecode files each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test thorough versions lint bench figures peers kits clients adapters packages docs release yardstick cover clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo    compact the recorded sessions that ship with the project, find a detail again, undo'
	@echo 'make test    everything that has to hold: lint, format, types, architecture, tests'
	@echo 'make thorough  the same with every case of the costly tests, of which make test takes a part (far longer)'
	@echo 'make versions  make test with every Python that the package claims, as far as the machine has them'
	@echo 'make lint    all of that except the tests'
	@echo 'make bench   the figures of docs/benchmarks.md, measured here (WRITE=1 also writes the page)'
	@echo 'make figures the pages whose figures are older than the code that they measure, and how to measure each anew'
	@echo 'make peers   other projects to measure against, a pinned environment each, in .peers (1.8 GB)'
	@echo 'make kits    public test kits for compaction, installed into .kits (0.9 GB) and run against Tenfold, offline'
	@echo 'make clients  agents of other projects, installed into .clients (4 GB) and run through the gateway, offline'
	@echo 'make adapters  agent frameworks, installed into .adapters (6 GB) and run with Tenfold inside, offline'
	@echo 'make packages  the TypeScript package: checked, tested with the real SDKs, measured (needs node 20 and npm)'
	@echo 'make docs    the documentation site, in build/docs/site; a link that leads nowhere is an error'
	@echo 'make release  every wheel and source archive, checked and installed as a stranger would, in build/dist'
	@echo 'make yardstick  measure all of it on the recorded sessions: docs/yardstick.md, build/report.html (an hour)'
	@echo 'make cover   the tests with branch coverage'
	@echo 'make clean   remove .venv, .versions, .peers, .kits, .clients, .adapters and everything that was generated'
	@echo 'Each sets itself up in .venv the first time. PYTHON=/path/to/python3.12 chooses the interpreter.'

demo: $(STAMP)
	@$(PY) examples/demo.py

# Two workers more than cores, since many tests wait for a server or for a client.
# The faults run alone: killing processes at random moments wants the machine to itself, and prints its counts.
test: lint
	$(PY) -m pytest -n $$($(PY) -c 'import os; print((os.cpu_count() or 1) + 2)') --dist worksteal --ignore=tests/faults
	$(PY) -m pytest tests/faults

# Every recorded session is compacted at every index, by every policy, in every way: too long for each change.
thorough: export TENFOLD_THOROUGH = 1
thorough: export PYTEST_TIMEOUT = 1500
thorough: test

# One version after the other: three times as long as one.
versions:
	@MAKE='$(MAKE)' sh scripts/try_versions.sh

lint: $(STAMP)
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy --num-workers 2
	$(PY) -c 'import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())'
	@$(PY) scripts/code_lines.py src/tenfold tests yardstick

bench: $(STAMP)
	@$(PY) -m yardstick.bench $(if $(WRITE),--keep)

figures: $(STAMP)
	@$(PY) -m scripts.figures

peers: $(STAMP)
	@$(PY) -m tenfold eval peers install $(or $(PEERS),all) || test $$? = 4  # said, and no reason to stop

# The folder of sessions that TENFOLD_SESSIONS names, and the project's own. STAGES= runs some of it.
yardstick: $(STAMP)
	@$(PY) -m yardstick.scripts.measure $(STAGES)

kits: $(STAMP)
	@$(PY) -m yardstick.scripts.make_environments yardstick/kits .kits $(KITS)
	@KITS='$(KITS)' $(PY) -m yardstick.scripts.run_kits $(if $(WRITE),--write)

# Needs node 20 or newer beside Python. CLIENTS="pi codex" runs some of them. It is no part of `make test`, which runs
# those that are installed and the SDKs: installing all of them takes ten minutes and a network.
clients: $(STAMP)
	@VENV='$(VENV)' CLIENTS='$(CLIENTS)' sh scripts/make_clients.sh
	@CLIENTS='$(CLIENTS)' $(PY) -m tests.live.run_clients --write
	$(PY) -m pytest tests/clients tests/installer

# ADAPTERS="langchain agno" runs some of them. Like the clients it is no part of `make test`, which runs the light ones.
adapters: $(STAMP)
	@$(PY) -m yardstick.scripts.make_environments adapters .adapters $(ADAPTERS)
	@ADAPTERS='$(ADAPTERS)' $(PY) -m tests.adapters.run_adapters $(if $(WRITE),--write)

packages: $(STAMP)
	cd packages/tenfold-ai && npm install --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error
	cd packages/tenfold-ai && TENFOLD_PYTHON="$(abspath $(PY))" npm run check && TENFOLD_PYTHON="$(abspath $(PY))" npm test

docs: $(STAMP)
	@$(PY) site/build.py

# TAG=v1.2.3 is the tag that is released. WRITE=1 also measures the extras, for docs/installing.md.
release: $(STAMP)
	@$(PY) -m scripts.check_release $(if $(TAG),--tag $(TAG)) $(if $(WRITE),--write)

cover: $(STAMP)
	$(PY) -m pytest --cov --cov-report=term

# Set up once, and again when what it depends on changes.
$(STAMP): pyproject.toml yardstick/pyproject.toml constraints.txt scripts/make_venv.sh
	@PYTHON='$(PYTHON)' VENV='$(VENV)' sh scripts/make_venv.sh
	@touch $(STAMP)

clean:
	rm -rf $(VENV) .versions .peers .kits .clients .adapters build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
