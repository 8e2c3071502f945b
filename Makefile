# The two commands are `make demo` and `make test`; `make help` lists the rest.
#
#   BUILD            build directory                            [build]
#   JOBS             number of compilers that run in parallel   [all cores]
#   CONFIGURE_FLAGS  extra options for cmake                    [none]
#   TEST_JOBS        number of tests that run in parallel       [all cores and one: many tests wait]
#   TEST_FLAGS       extra options for ctest, such as -L unit   [none]
#   PREFIX           where `make install` installs              [/usr/local]
#   RELEASES         for `make test-distributions`              [bookworm trixie sid]

BUILD     ?= build
JOBS      ?= $(shell nproc)
TEST_JOBS ?= $(shell expr $$(nproc) + 1)
PREFIX    ?= /usr/local

RELEASES  ?= bookworm trixie sid

CONFIGURE = cmake --preset release -B $(BUILD) --log-level=WARNING $(CONFIGURE_FLAGS) >/dev/null
NINJA     = cmake --build $(BUILD) --parallel $(JOBS)
LOCKSTEP  = $(BUILD)/bin/lockstep

.PHONY: help demo build test test-core test-distributions benchmarks bench format lint install clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo                 install what is missing, build, and train MNIST with two workers'
	@echo 'make test                 build everything and run every test that this machine can run'
	@echo 'make test-core            build and run the most important tests of launcher and training only'
	@echo 'make test-distributions   run demo and test on Debian 12, 13 and sid (root; about 50 min each)'
	@echo 'make bench                compare the training speed of lockstep and Python'
	@echo 'make benchmarks           build the benchmarks'
	@echo 'make build                build into $(BUILD)/'
	@echo 'make install              install under PREFIX [$(PREFIX)]'
	@echo 'make format               format all source files'
	@echo 'make lint                 check format, layers, clang-tidy and scripts'
	@echo 'make clean                remove $(BUILD)/'

# Needs no GoogleTest: a build that is new has no tests, one that has them keeps them.
demo:
	@tools/setup.sh launcher training data
	@test -f $(BUILD)/build.ninja || $(CONFIGURE) -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_BENCH=OFF
	@$(NINJA) --target lockstep mnist
	@data=; $(LOCKSTEP) data fetch mnist || { \
	  echo 'demo: MNIST could not be fetched; training on generated digits instead'; \
	  data=--generated-digits; }; \
	set -x; $(LOCKSTEP) run --nproc-per-node 2 -- $(BUILD)/bin/mnist -s ddp --epochs 2 $$data

build:
	@tools/setup.sh launcher training test
	@$(CONFIGURE)
	@$(NINJA)

test: build
	@tools/setup.sh data browser slurm slurm-accounts
	@tools/run_tests.sh $(BUILD) $(TEST_JOBS) $(TEST_FLAGS)

# Needs neither Slurm nor a browser nor data from the network.
test-core:
	@tools/setup.sh launcher training test
	@$(CONFIGURE)
	@$(NINJA) --target lockstep_core_tests
	@tools/run_tests.sh $(BUILD) $(TEST_JOBS) -L 'unit|distributed' -LE beyond-core $(TEST_FLAGS)

test-distributions:
	@tools/test_distributions.sh $(RELEASES)

# CI compiles the benchmarks, which `make build` leaves out, so that they keep compiling.
benchmarks:
	@tools/setup.sh launcher training test bench
	@$(CONFIGURE)
	@$(NINJA) --target lockstep_benchmarks

bench: benchmarks
	@tools/setup.sh data
	@$(NINJA) --target lockstep lockstep-bench mnist
	@benchmarks/run.sh $(BUILD)

format:
	@tools/setup.sh lint
	@tools/format.sh

lint:
	@tools/setup.sh launcher lint
	@tools/lint.sh $(JOBS)

install:
	@tools/setup.sh launcher training
	@test -f $(BUILD)/build.ninja || $(CONFIGURE) -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_BENCH=OFF
	@$(NINJA) --target lockstep lockstep_installed
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf $(BUILD)
