# The two commands are `make demo` and `make test`; `make help` lists the rest.
#
#   BUILD   where to build                [build]
#   JOBS    compilers at a time           [all cores]
#   PREFIX  where `make install` puts it  [/usr/local]

BUILD     ?= build
JOBS      ?= $(shell nproc)
TEST_JOBS ?= 2
PREFIX    ?= /usr/local

CONFIGURE = cmake --preset release -B $(BUILD) --log-level=WARNING >/dev/null
NINJA     = cmake --build $(BUILD) --parallel $(JOBS)
LOCKSTEP  = $(BUILD)/bin/lockstep

.PHONY: help demo build test bench format lint install clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo      train MNIST with two workers, from nothing'
	@echo 'make test      build everything, run every test this machine can run'
	@echo 'make bench     the same training with Python and with lockstep, as ratios'
	@echo 'make build     build into $(BUILD)/'
	@echo 'make install   install under PREFIX [$(PREFIX)]'
	@echo 'make format    put every source file into the house format'
	@echo 'make lint      check format, layers, clang-tidy, scripts'
	@echo 'make clean     remove $(BUILD)/'

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
	@tools/run_tests.sh $(BUILD) $(TEST_JOBS)

bench:
	@tools/setup.sh launcher training test bench data
	@$(CONFIGURE)
	@$(NINJA) --target lockstep mnist lockstep_benchmarks
	@bench/run.sh $(BUILD)

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
