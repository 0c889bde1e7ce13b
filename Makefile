# Every target first installs what it needs, on a machine with Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# one worker runs all tests of a file, because they may share a host; tests/conftest.py sets order and number of workers
SIDE_BY_SIDE := -n auto --dist loadfile --no-loadscope-reorder

# the suite has two halves, so that a worker imports only the tests it runs (tests/conftest.py)
FAST := -m "not live and not packages" --ignore=tests/live --ignore=tests/packages --ignore=tests/prove
LIVE := -m "live and not alone and not packages"

# all tests with this mark are in this folder; tests/conftest.py enforces it
ALONE := -m alone tests/live/attacks

# temporary files are in memory if there is room, so that tests do not wait for the disk
test test-tools test-fast trial flaky: export TMPDIR = $(shell $(PYTHON) tests/scratch.py)

# otherwise every process that a test starts compiles all its modules again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-tools test-fast flaky mutants seeds simulate other-python doctor trial check bench bench-chat bench-dashboard bench-edge bench-report docs prove sbom fleet format launcher launcher-windows pictures deb image release test-packages

run: $(VENV)/run.stamp
	@$(BIN)/svcctl demo $(if $(ONCE),--once)

# the live tests mostly wait, so the fast tests run beside them at low priority
RESULTS := $(VENV)/results
PART := $(BIN)/python -m pytest -q --tb=short -rN --junitxml=$(RESULTS)
test: $(VENV)/tools.stamp
	@rm -rf $(RESULTS); mkdir $(RESULTS); begun=$$(date +%s); \
	trap 'exit 130' INT; trap 'kill $$beside 2>/dev/null' EXIT; \
	nice -n 19 $(PART)/fast.xml $(SIDE_BY_SIDE) $(FAST) > $(RESULTS)/fast.log 2>&1 & beside=$$!; \
	$(PART)/live.xml $(SIDE_BY_SIDE) $(LIVE); live=$$?; \
	$(PART)/alone.xml $(ALONE); alone=$$?; \
	wait $$beside; fast=$$?; trap - EXIT; [ $$fast = 0 ] || cat $(RESULTS)/fast.log; \
	$(BIN)/python -m tests.summary $(RESULTS) $$(($$(date +%s) - begun)) fast=$$fast live=$$live alone=$$alone

# the tests that use PostgreSQL, an engine or a browser; SVC_TEST_TOOLS=system runs them with the machine's own programs
TOOLS := (import|support)\b.*\b(postgres|valkey|real_ledger)|\.(real_browser|dashboard_page|players_page|two_processes|owners_pictures|parity) import
test-tools: $(VENV)/tools.stamp
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "live and not alone and not packages" \
	  $$(grep -lrE "$(TOOLS)" --include="test_*.py" --exclude-dir=prove tests)

# how often each test of the live half fails: make flaky RUNS=20 WHAT=tests/live/test_chat.py
flaky: $(VENV)/tools.stamp
	@$(BIN)/python -m tests.flaky $(or $(RUNS),20) $(WHAT)

# changes in a file that no test notices: make mutants FILE=svcserver/gateway/limits.py TESTS=tests/gateway
mutants: $(VENV)/mutants.stamp
	@printf '%s\n' '[cosmic-ray]' 'module-path = "$(FILE)"' 'timeout = 60.0' \
	  'test-command = "env PYTHONPATH=. $(BIN)/python -m pytest -q -x $(TESTS)"' \
	  '[cosmic-ray.distributor]' 'name = "local"' > $(VENV)/mutants.toml
	@rm -f $(VENV)/mutants.sqlite
	@$(VENV)/mutants/bin/cosmic-ray init $(VENV)/mutants.toml $(VENV)/mutants.sqlite
	@$(VENV)/mutants/bin/cosmic-ray exec $(VENV)/mutants.toml $(VENV)/mutants.sqlite
	@$(VENV)/mutants/bin/cr-report --surviving-only --show-diff $(VENV)/mutants.sqlite

test-fast: $(VENV)/dev.stamp
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(FAST)

seeds: $(VENV)/dev.stamp
	SVC_SIM_KEPT=all $(BIN)/python -m pytest -s tests/simulation/test_seeds.py tests/simulation/test_folding.py

# for the list of options: make simulate OPTIONS=--help
simulate: $(VENV)/run.stamp
	@$(BIN)/python -m simulation $(OPTIONS)

other-python: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.other_python

doctor: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.workplace

trial: $(VENV)/tools.stamp
	$(BIN)/python -m twisted.trial --temp-directory=$(VENV)/trial tests

check: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy docs/drawings.py docs/generate.py docs/look.py docs/protocol.py docs/routes.py docs/variables.py
	$(BIN)/mypy --platform win32 -p svcserver.launcher
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tests.contract.coverage
	$(BIN)/codespell bench docs packaging simulation svcserver tests twisted *.md
	@$(BIN)/python -m tests.language
	@$(BIN)/python -m tests.commits

bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench.http $(if $(DATABASE),--database $(DATABASE))

SHORT_REPORT := --rounds 1 --seconds 1 --folder $(VENV)/benches \
	--parts requests,postgresql,edge,chat,start,scale,functions
bench-report: $(VENV)/tools.stamp
	$(BIN)/python -m bench.report $(if $(SHORT),$(SHORT_REPORT))

bench-chat: $(VENV)/dev.stamp
	$(BIN)/python -m bench.chat

bench-dashboard: $(VENV)/tools.stamp
	$(BIN)/python -m bench.dashboard

bench-edge: $(VENV)/dev.stamp
	$(BIN)/python -m bench.edge

docs: $(VENV)/tools.stamp
	$(BIN)/sphinx-build -q -W -b html docs docs/_build
	@$(BIN)/python docs/look.py
	@$(BIN)/python docs/links.py

pictures: export PATH := $(CURDIR)/$(VENV)/tools/bin:$(PATH)
pictures: $(VENV)/tools.stamp
	$(BIN)/python -m tests.live.players_pictures
	$(BIN)/python -m tests.packages.empty_machine
	$(BIN)/python docs/drawings.py

launcher: $(VENV)/dev.stamp
	$(BIN)/python packaging/launcher.py

launcher-windows: $(VENV)/dev.stamp
	$(BIN)/python packaging/launcher_windows.py

deb: $(VENV)/dev.stamp
	$(BIN)/python packaging/deb.py

image: $(VENV)/dev.stamp
	@$(BIN)/python packaging/suite.py
	$(BIN)/python packaging/deb.py
	$(BIN)/python packaging/image.py

release: $(VENV)/audit.stamp
	$(BIN)/python packaging/release.py

# sixty players while every part of a fleet fails; needs root and Docker
fleet: $(VENV)/dev.stamp
	SVC_TEST_PROVE=1 $(BIN)/python -m pytest -q -s tests/prove/test_fleet_evening.py

test-packages: $(VENV)/tools.stamp
	$(BIN)/python -m pytest -m packages

prove: $(VENV)/tools.stamp $(VENV)/fuzz.stamp $(VENV)/prove.stamp $(VENV)/schema.stamp $(VENV)/audit.stamp
	SVC_TEST_PROVE=1 $(BIN)/python -m pytest tests/prove

sbom: $(VENV)/audit.stamp
	@$(BIN)/python packaging/sbom.py

format: $(VENV)/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is missing; install Python 3.11 or newer"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is too old; install Python 3.11 or newer"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "make: the Python module venv is missing; install it (Debian: apt-get install python3-venv)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: requirements/build.lock requirements/run.lock pyproject.toml setup.cfg | $(VENV)/bin/python
	@echo "installing the pinned dependencies into $(VENV) (once)"
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/build.lock -r requirements/run.lock
	@PYTHONWARNINGS=ignore $(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation \
	  --config-settings editable_mode=compat -e . 2>$(VENV)/install.log || { cat $(VENV)/install.log; exit 1; }
	@touch $@

$(VENV)/dev.stamp: requirements/dev.lock $(VENV)/run.stamp
	@echo "installing the pinned development tools into $(VENV) (once)"
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@touch $@

# with SVC_TEST_TOOLS=none the tests that need the programs are skipped
$(VENV)/tools.stamp: requirements/tools.lock requirements/node/package-lock.json tests/tools.py $(VENV)/dev.stamp
ifeq ($(filter system none,$(SVC_TEST_TOOLS)),)
	@echo "installing PostgreSQL, Redis, Node and Chromium for the tests into $(VENV)/tools (once)"
	@$(BIN)/python -m tests.tools || { echo "make: to test without these programs set SVC_TEST_TOOLS=none"; exit 1; }
	@touch $@
endif

$(VENV)/prove.stamp: requirements/prove.lock $(VENV)/dev.stamp
	@$(PYTHON) -m venv $(VENV)/prove
	@$(VENV)/prove/bin/pip install -q --disable-pip-version-check --require-hashes -r requirements/prove.lock \
	  || echo "make: the TLS scanner cannot be installed here; what needs it is skipped"
	@touch $@

$(VENV)/mutants.stamp: requirements/mutants.lock $(VENV)/dev.stamp
	@$(PYTHON) -m venv $(VENV)/mutants
	@$(VENV)/mutants/bin/pip install -q --disable-pip-version-check --require-hashes -r requirements/mutants.lock
	@touch $@

# a failed installation leaves no stamp, so the next run tries again
$(VENV)/audit.stamp: requirements/audit.lock $(VENV)/dev.stamp
	@$(PYTHON) -m venv $(VENV)/audit
	@if $(VENV)/audit/bin/pip install -q --disable-pip-version-check --require-hashes -r requirements/audit.lock; \
	  then touch $@; else echo "make: pip-audit and cyclonedx-py cannot be installed here; make prove skips what needs them, make sbom and make release cannot do without"; fi

$(VENV)/schema.stamp: requirements/schema.lock $(VENV)/dev.stamp
	@$(PYTHON) -m venv $(VENV)/schema
	@$(VENV)/schema/bin/pip install -q --disable-pip-version-check --require-hashes -r requirements/schema.lock \
	  || echo "make: schemathesis and openapi-generator cannot be installed here; what needs them is skipped"
	@touch $@

$(VENV)/fuzz.stamp: requirements/fuzz.lock $(VENV)/dev.stamp
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes --only-binary :all: -r requirements/fuzz.lock \
	  || echo "make: no wheel of the fuzzer for this Python; what needs it is skipped"
	@touch $@
