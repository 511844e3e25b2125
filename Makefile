# SPDX-License-Identifier: MIT
# What people type. Each target does only what is missing, so that a second run is quick and needs no network.

PYTHON ?= python3
VENV := .venv
BUILD := build
# Two more than there are processors, as many tests wait; up to four (memory). Tests that cannot run beside others wait for each other
# (tests/tools/machine_lock.py).
TEST_PROCESSES ?= $(shell n=$$(nproc); echo $$((n < 2 ? n + 2 : 4)))
SPREAD = --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder

# Where ccache is installed, no file is compiled twice. The builds take what another checkout compiled, too (CCACHE_NOHASHDIR): debug
# information may then name that checkout, as nothing but a debugger searches for the sources of these. What tests compile is never taken
# from another directory: where debug information says that it lies is a part of what is tested.
export PATH := /usr/lib/ccache:$(PATH)
export CCACHE_BASEDIR := $(CURDIR)
$(VENV)/built build-static-amd64 build-static-arm64: export CCACHE_NOHASHDIR := 1

# Python keeps what it has compiled, for its next start. Images of containers often forbid it (this variable): then each of the hundreds of
# starts of the tests compiles the whole package, and each process of pytest all tests.
unexport PYTHONDONTWRITEBYTECODE

# Whatever the C program or the Python package is made from.
SOURCES := $(shell find inspector visualize tests/unit tests/support scripts/records setup.py pyproject.toml meson.build meson_options.txt \
	-type f -not -path '*/__pycache__/*' -not -path '*.egg-info/*')
C_FILES = $(shell git ls-files '*.c' '*.h')
AARCH64_FILES = $(shell git ls-files 'inspector/*aarch64*.c')
PYTHON_SCRIPTS = scripts/architecture scripts/extra scripts/names scripts/records scripts/wrap-docs scripts/words
SCRIPTS = .ci/run $(filter-out $(PYTHON_SCRIPTS),$(shell git ls-files scripts ':!*.meson')) tests/vm/init tests/vm/start

.PHONY: build ready deps demo test check nightly mutants tsan soak soak-watch soak-headroom kills variety suites lint types analyze sanitize bench experiments fuzz vm release patches-all format clean

build: $(VENV)/built

# What the targets below need.
ready:
	scripts/install-deps build test
	$(MAKE) --no-print-directory build

deps:
	scripts/install-deps build demo test experiments lint fuzz

demo:
	scripts/install-deps build demo
	$(MAKE) --no-print-directory build
	scripts/demo

# What takes a minute or two, and needs no network, no rights and nothing installed but what `make build` needs; the linters where they are.
check: build
	meson test -C $(BUILD) --no-rebuild --print-errorlogs --suite mock
	$(if $(shell command -v clang-format),clang-format --dry-run --Werror $(C_FILES),# no clang-format here)
	$(if $(shell command -v shellcheck),shellcheck $(SCRIPTS),# no shellcheck here)
	scripts/words --check
	$(VENV)/bin/ruff format --check $(PYTHON_SCRIPTS) .
	$(VENV)/bin/ruff check $(PYTHON_SCRIPTS) .
	$(VENV)/bin/python -m pytest --tier=check $(SPREAD) $(PYTEST_ARGS)

# What comes before a merge: all but the parts of `make nightly`.
test: ready
	meson test -C $(BUILD) --no-rebuild --print-errorlogs
	$(VENV)/bin/python -m pytest --tier=test $(SPREAD) $(PYTEST_ARGS)

# PART: some of the parts that docs/testing.md lists; without it, all of them, one after the other: a night and a day.
nightly: ready
	$(VENV)/bin/python tests/tools/nightly.py $(PART)

# Plants the faults of tests/mutants.txt in a copy of the source, one at a time: each must fail a test. ONLY: folders, or parts of lines; one
# with spaces has quotes of its own (ONLY="'return x'").
mutants: ready
	$(VENV)/bin/python tests/tools/mutants.py $(ONLY)

# The threads of the inspector under ThreadSanitizer: a finding fails the test that met it.
tsan: ready
	test -d build-tsan || meson setup build-tsan -Dwerror=true -Db_sanitize=thread -Db_lundef=false -Dtests=false
	ninja -C build-tsan inspector/cli/arenadump
	cd tests && TSAN_OPTIONS=halt_on_error=1:exitcode=66 ARENADUMP="$(CURDIR)/build-tsan/inspector/cli/arenadump" \
		../$(VENV)/bin/python -m pytest inspector/test_truth.py inspector/test_modes.py runtimes/test_python_objects.py -k 'bookworm or several_threads'

# MINUTES=600, INJECTIONS=20000, ROUNDS=10000, DAYS=10 and PROFILES=3000 for a night.
soak: ready
	$(VENV)/bin/python tests/soaks/soak.py --minutes $(or $(MINUTES),30)
	$(VENV)/bin/python tests/soaks/soak_inject.py --injections $(or $(INJECTIONS),1000)
	$(VENV)/bin/python tests/soaks/soak_faults.py --injections $(or $(INJECTIONS),1000)
	$(VENV)/bin/python tests/soaks/soak_profile.py --rounds $(or $(ROUNDS),1000)
	$(VENV)/bin/python tests/soaks/soak_recorder.py --days $(or $(DAYS),1)
	$(VENV)/bin/python tests/soaks/soak_storm.py --profiles $(or $(PROFILES),300)

# Inspects processes near their cgroups' limits, which write all their memory: SNAPSHOTS of each command at each headroom. Needs root.
soak-headroom: ready
	$(VENV)/bin/python tests/soaks/soak_headroom.py --snapshots $(or $(SNAPSHOTS),25)

# A watch of HOURS over a redis, a Puma and a leaking Python; their timelines and pages are in watched/.
soak-watch: ready
	scripts/install-deps experiments
	$(VENV)/bin/python tests/soaks/soak_watch.py watched --hours $(or $(HOURS),8)

# kill -9 of watch, exporter and top, with a profile too, at random times. KILLS: how often each, 100 unless told.
kills: ready
	KILLS=$(or $(KILLS),100) $(VENV)/bin/python -m pytest tests/hostile/test_killed_commands.py tests/graph/test_graph_killed.py \
		tests/profiles/test_profile_entry.py::test_killed_at_random_times tests/live/test_top_live.py::test_killed_it_leaves_nobody_stopped \
		tests/live/test_top_profile.py::test_killed_at_any_time_it_harms_nobody \
		tests/timeline/test_timeline.py::test_kill_9_loses_and_tears_nothing

# Random settings of malloc, each under five libcs. COUNT: how many, 60 unless told; SEED: from which one on.
variety: ready
	VARIETY_SEED=$(or $(SEED),0) VARIETY_COUNT=$(or $(COUNT),60) $(VENV)/bin/python -m pytest tests/inspector/test_variety.py

# The test-suites of redis and CPython, without the agent, with one that trims every second, and with one that records every chunk.
# SUITES: one of them.
suites: ready
	scripts/install-deps suites
	$(VENV)/bin/python tests/soaks/suites.py $(SUITES)

# The static analyzer inspects so many states of a function at most; in `make analyze`, at as many as it has by itself.
lint:
	scripts/install-deps build lint
	$(MAKE) --no-print-directory build
	clang-format --dry-run --Werror $(C_FILES)
	shellcheck $(SCRIPTS)
	cd ruby-ext && rubocop
	scripts/words --check
	$(VENV)/bin/ruff format --check $(PYTHON_SCRIPTS) .
	$(VENV)/bin/ruff check $(PYTHON_SCRIPTS) .
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target types analyze ANALYZER_NODES=$(or $(ANALYZER_NODES),25000)

types:
	$(VENV)/bin/mypy

analyze:
	scripts/install-deps build lint
	$(MAKE) --no-print-directory build build-analyze-arm64/build.ninja
	ninja -C build-analyze-arm64 build.ninja
	ANALYZER_NODES=$(ANALYZER_NODES) scripts/clang-tidy $(BUILD)
	ANALYZER_NODES=$(ANALYZER_NODES) scripts/clang-tidy build-analyze-arm64 $(AARCH64_FILES)
# None of these files asks for a library.
build-analyze-arm64/build.ninja:
	meson setup build-analyze-arm64 --cross-file scripts/arm64.meson -Dlibdw=disabled -Dpng=disabled -Dtests=false

# FUZZ_SECONDS: for each of the nine, 600 unless told. FUZZERS: which of them.
fuzz: ready
	scripts/install-deps fuzz
	FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz $(FUZZERS)

# The agent under TSan, ASan and UBSan.
sanitize:
	scripts/install-deps build demo
	scripts/sanitize-agent build-sanitized

# BENCH: some of the programs of bench/. Each writes its rows in a page of docs/.
BENCH = startup run report timeline_page trim recorder profile_size snapshots polls servers rows held
BENCH_RUN = $(if $(filter $(1),$(BENCH)),$(VENV)/bin/python bench/$(1).py --page docs/$(or $(3),benchmarks).md $(2))
bench: ready
	scripts/install-deps bench
	$(call BENCH_RUN,startup)
	$(call BENCH_RUN,run,$(BENCH_ARGS))
	$(call BENCH_RUN,report,$(BENCH_REPORT_ARGS))
	$(call BENCH_RUN,report,--chunks $(BENCH_REPORT_ARGS))
	$(call BENCH_RUN,timeline_page)
	$(call BENCH_RUN,trim,$(BENCH_TRIM_ARGS))
	$(call BENCH_RUN,recorder,$(BENCH_RECORDER_ARGS))
	$(call BENCH_RUN,profile_size)
	$(call BENCH_RUN,snapshots,$(BENCH_SNAPSHOTS_ARGS))
	$(call BENCH_RUN,polls)
	$(call BENCH_RUN,servers,$(BENCH_SERVERS_ARGS))
	$(call BENCH_RUN,rows,,findings)
	$(call BENCH_RUN,held,,recognisers)

# The tests on Debian's kernels and on other processors, emulated: an hour or more. VM_KERNELS, VM_PROCESSORS, VM_CHECKS: some of them, with commas.
vm:
	scripts/install-deps build test vm
	$(MAKE) --no-print-directory build build-static-amd64 build-static-arm64
	cd tests && ../$(VENV)/bin/python -m vm.run --page ../docs/kernels.md --kernels '$(VM_KERNELS)' --processors '$(VM_PROCESSORS)' --checks '$(VM_CHECKS)' $(VM_ARGS)

# What is carried to a machine that has nothing: one static program with all libraries in it, and the agent; without
# debug information, which would say where they were built.
.PHONY: build-static-amd64 build-static-arm64
.PRECIOUS: .cache/static-libraries/%/versions
.cache/static-libraries/%/versions: packaging/static_libraries.py
	$(PYTHON) packaging/static_libraries.py $* $(@D)
build-static-%/build.ninja: | .cache/static-libraries/%/versions
	meson setup build-static-$* -Dwerror=true -Ddebug=false \
		$(if $(filter-out $(shell dpkg --print-architecture),$*),--cross-file scripts/$*.meson) -Dstatic=true -Dtests=false \
		-Dstatic_libraries='$(CURDIR)/.cache/static-libraries/$*'
build-static-amd64 build-static-arm64: build-static-%: build-static-%/build.ninja
	meson compile -C build-static-$* arenadump arenascope

# What people install, for both architectures, in dist/.
release: release-tools
	$(MAKE) --no-print-directory build build-static-amd64 build-static-arm64
	$(VENV)/bin/python packaging/release.py dist
	$(MAKE) --no-print-directory signature

# SIGNING_KEY: a file with a private key of ssh's.
.PHONY: signature
signature:
	$(if $(SIGNING_KEY),ssh-keygen -q -Y sign -f '$(SIGNING_KEY)' -n arenascope dist/SHA256SUMS,\
		@echo 'make release: dist/SHA256SUMS is not signed; SIGNING_KEY=FILE signs it')

# Clean installations, a container, a second build: some 20 minutes.
release-test:
	$(MAKE) --no-print-directory nightly PART=release

# What makes packages and the site, and what their tests need: the extra `release` of pyproject.toml, without arenascope itself.
.PHONY: release-test release-tools site
release-tools: $(VENV)/release-tools
$(VENV)/release-tools: pyproject.toml
	scripts/install-deps build release
	$(MAKE) --no-print-directory build
	$(VENV)/bin/pip install --quiet $$($(VENV)/bin/python scripts/extra release)
	touch $@

# The docs of this tree and of each release as a site, in site/: a link or a page that leads nowhere ends it.
site: release-tools
	$(VENV)/bin/python packaging/site/versions.py site

# Ruby, patched, of each release that Debian has the source of: 15 minutes. More in patches/README.md.
patches-all: ready
	scripts/install-deps patches
	$(MAKE) --no-print-directory -C patches check PYTHON=../$(VENV)/bin/python

# EXPERIMENTS: some of them, article@2.7 for one in a patched Ruby 2.7; EXPERIMENT_ARGS: options, such as --repeats 5 or --max-time 8m.
experiments:
	scripts/install-deps build experiments
	$(MAKE) --no-print-directory build
	EXPERIMENT_ARGS="$(EXPERIMENT_ARGS)" scripts/experiments $(EXPERIMENTS)

format:
	clang-format -i $(C_FILES)
	$(VENV)/bin/ruff format
	$(VENV)/bin/ruff check --fix

clean:
	rm -rf $(BUILD) build-fuzz build-sanitized $(VENV) demo-output

# The developer's build (tests, compile_commands.json) in build/; arenascope and arenadump in .venv/bin, where they work
# from any directory. pip and setuptools are installed once, so that a later build needs no network; before 21.3, as Debian 11 has
# it, pip installs nothing editable that is built as pyproject.toml says. What it notes is where the package lies, which Python 3.11 reads
# in the locale's encoding: LC_ALL=C has no letters beyond ASCII, and where it lies from there has none.
$(VENV)/built: $(SOURCES) $(VENV)/bin/python
	test -f $(BUILD)/build.ninja || meson setup -Dwerror=true $(BUILD)
	meson compile -C $(BUILD)
	ARENASCOPE_BUILD_DIR=$(BUILD) $(VENV)/bin/pip install --quiet --no-build-isolation --editable '.[all,test,lint]'
	echo ../../../../visualize | tee $(VENV)/lib/python3*/site-packages/__editable__.arenascope-*.pth >/dev/null
	$(VENV)/bin/python -m compileall -q visualize/arenascope
	touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --upgrade 'pip>=21.3' 'setuptools>=77'
