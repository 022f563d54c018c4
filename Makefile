# `make demo` and `make check` set up all they need; `make ci` runs what takes longer.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PLOTS := $(VENV)/.plots
RELEASE := $(VENV)/.release
DOC := $(VENV)/.doc
MUTANTS := $(VENV)/.mutants

.PHONY: demo why yardsticks check ci check-flux check-upstream check-flux-versions check-browser lint types test depth
.PHONY: mutants versions conformance bench packing soak fuzz doc release clean

# Cluster A of RFC 49: the shapes of its eleven test vectors, one after another.
demo: $(INSTALLED)
	$(BIN)/treepool alloc --cluster a \
	  'slot=1/node=1/[core=8;gpu=1]' 'slot=1/node=1/[core=8;gpu=1]' \
	  'node/slot=8/[core=15;gpu=1]' 'slot=4/node/core=120' 'slot=1/node=1/core=4' \
	  'slot=1/node=1/[core=15;gpu=1]' 'node/slot=6/[core=15;gpu=1]' \
	  'slot=1/node=1/[core=60;gpu=4]' 'slot=1/numa{x}' 'slot=1/socket{x}' 'slot=1/node{x}'

# What tells most per second, in less than 90 seconds of CPU.
check: lint types test conformance

# Everything else, in less than 40 minutes, stage by stage. The last one runs every test once more, at
# depth, so that the log ends with a summary of them all. A stage that takes more than LIMIT seconds
# hangs: it is ended, and fails.
STAGES ?= versions doc release fuzz soak depth
LIMIT ?= 2400
BEGAN := $(shell date +%s)
ci:
	@for stage in $(STAGES); do \
	  echo "== $$stage, after $$(($$(date +%s) - $(BEGAN))) s"; \
	  timeout -k 30 $(LIMIT) $(MAKE) $$stage SECONDS=10 SOAK='--minutes 1 --nodes 200' || { \
	    status=$$?; echo "== $$stage failed: status $$status (124: it took more than $(LIMIT) s)"; exit $$status; }; \
	done

# In real Flux instances (flux-core 0.86 to 0.88) on fake nodes; says that it skipped them where
# there is no flux on the PATH. Nothing is run again: a test that fails at times has found a race.
check-flux: $(INSTALLED)
	$(BIN)/python -m pytest -q -n 2 t/flux $(UPSTREAM)

# Are the defects of flux-core in doc/upstream.md still there? They are races, so no check rests on it.
UPSTREAM := --ignore=t/flux/test_upstream.py
check-upstream: $(INSTALLED)
	$(BIN)/python -m pytest -q t/flux/test_upstream.py

# The same in each Flux of FLUX_PREFIXES, e.g. FLUX_PREFIXES='/usr /opt/flux'.
check-flux-versions: $(INSTALLED)
	PYTHON=$(BIN)/python sh tools/flux-versions $(FLUX_PREFIXES)

# The page of `treepool show --html` in a headless Chromium (Debian: chromium, chromium-driver); says
# that it skipped these tests where there is none.
check-browser: $(INSTALLED)
	$(BIN)/python -m pytest -q t/browser

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(INSTALLED)
	$(BIN)/mypy

# Without those marked `depth`, those in real Flux instances, and those in a browser: these are only
# imported, in 3 s. In one process: each more takes 10 s of CPU to collect the tests.
ELSEWHERE := t/flux t/browser
test: $(INSTALLED)
	@said=$$($(BIN)/python -m pytest -qq --collect-only $(ELSEWHERE) 2>&1) || { echo "$$said"; exit 1; }
	$(BIN)/python -m pytest -q -m 'not depth' $(ELSEWHERE:%=--ignore=%)

# Why treepool: the same jobs under schedulers of Flux, in real brokers on fake nodes, in ten minutes.
# Prints the table of doc/performance.md and writes the figure of README.md, build/why.svg.
why: $(PLOTS)
	$(BIN)/python tools/why

# The same by a benchmark that is not ours, flux-schedbench; YARDSTICKS='--nodes 1152,11136' for more.
yardsticks: $(INSTALLED) build/schedbench
	$(BIN)/python tools/yardsticks $(YARDSTICKS)

build/schedbench:
	$(BIN)/python -m pip install -q --no-deps --target $@ flux-schedbench==0.1.0

# All tests, and as many examples of each as `make ci` asks for (t/depth.py).
depth: $(PLOTS)
	$(BIN)/python -m pytest -q -n 2 --hypothesis-profile=ci $(UPSTREAM)

# Bugs that mutmut plants in one room of the engine: do the tests of t/placement notice each?
ROOM ?= plan
mutants: $(MUTANTS)
	$(BIN)/mutmut run 'treepool.placement.$(ROOM).*'
	$(BIN)/mutmut results

# The tests of `make check` on every other supported Python that is installed.
versions: $(INSTALLED)
	sh tools/versions 3.9 3.10 3.11 3.12 3.13

# Licences, and wheel and sdist: reproducible, and working in empty environments. They are left in
# build/dist.
release: $(RELEASE)
	sh tools/release 3.9 3.13

# The site in build/doc/html, and the pages of man(1) in build/doc/man.
doc: $(DOC)
	$(BIN)/sphinx-build -q -W --keep-going -b html doc build/doc/html
	$(BIN)/sphinx-build -q -W --keep-going -b man doc build/doc/man
	$(BIN)/python tools/screenshot.py build/doc/page.png

conformance: $(INSTALLED)
	$(BIN)/treepool conformance

# Clusters of 16 to 100,000 nodes, in about a minute; BENCH='--nodes 1152 --peer' for others. Then plans:
# of a full machine, and of SWF=FILE, the first JOBS of a trace in Standard Workload Format.
bench: $(PLOTS)
	$(BIN)/python tools/bench $(BENCH)
	$(BIN)/python tools/bench/planning.py --full
	$(if $(SWF),$(BIN)/python tools/bench/planning.py --trace $(SWF) --jobs $(or $(JOBS),1000))

# How well jobs are packed, by each policy and by others, with a chart: some minutes; PACKING='--help' for
# more. And how near the nodes of jobs are on three fabrics: PACKING='fabrics --help' for that alone.
# TRACE='NODES JOBS' or TRACE=JOBS: CSV files as Alibaba and Philly published them (doc/performance.md).
packing: $(PLOTS)
	mkdir -p build
	$(BIN)/python tools/bench/packing $(if $(TRACE),--trace $(TRACE)) \
	  $(if $(TRACE)$(PACKING),$(PACKING),--plot build/packing.svg)
	$(if $(TRACE)$(PACKING),,$(BIN)/python tools/bench/packing fabrics)

# Random work in a real Flux for ten minutes, and a checker that trusts nothing of treepool;
# SOAK='--minutes 60 --nodes 200 --seed 1' for others. Says so where there is no flux on the PATH.
soak: $(INSTALLED)
	if command -v flux; then $(BIN)/python tools/soak $(SOAK); else echo 'no flux: NOT soaked'; fi

# Every parser under a coverage-guided fuzzer (atheris, in an environment of its own), SECONDS each.
# FUZZER is a Python that atheris knows: by default the first of these that runs.
SECONDS ?= 60
FUZZER ?= $(firstword $(foreach python,python3.13 python3.12 python3.11 $(PYTHON), \
	$(shell $(python) -c 'print("$(python)")' 2>/dev/null)))
fuzz: .venv-fuzz/.installed
	.venv-fuzz/bin/python tools/fuzzing/long.py $(SECONDS) $(TARGETS)

.venv-fuzz/.installed: pyproject.toml
	$(FUZZER) -m venv .venv-fuzz
	.venv-fuzz/bin/python -m pip install -q atheris -e '.[test]'
	touch $@

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -e '.[test]'
	touch $@

# Extras: matplotlib, for the chart of the benchmark and for `treepool replay --svg`; what makes the
# site; what checks a release; what plants bugs.
$(PLOTS) $(RELEASE) $(DOC) $(MUTANTS): $(VENV)/.%: $(INSTALLED)
	$(BIN)/python -m pip install -q -e '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) .venv-* build dist mutants
