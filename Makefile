# Short names over the CMake presets, ./ferry and ./test. `make help` lists them.

PREFIX ?= /usr/local

.DEFAULT_GOAL := release
.PHONY: release debug asan tsan test quick format tidy coverage load bench docs wheels install uninstall clean help

release:
	@scripts/build.sh release

debug asan tsan: # these are built for the tests' sake
	@scripts/build.sh $@ test

test:
	@./test

quick:
	@./test --quick

format:
	@scripts/sources.sh | xargs -r -d '\n' .ferry/venv/bin/clang-format -i
	@.ferry/venv/bin/ruff check --quiet --select I --fix --cache-dir .ferry/ruff
	@.ferry/venv/bin/ruff format --quiet --cache-dir .ferry/ruff

tidy:
	@./test --stage tidy

coverage:
	@./test --stage coverage

load:
	@tests/load/run

bench:
	@lab/micro/run

docs:
	@scripts/docs.sh

wheels:
	@scripts/wheels.sh x86_64 aarch64

install: release
	@scripts/install.sh build/release '$(PREFIX)'

uninstall:
	@scripts/uninstall.sh '$(PREFIX)'

clean:
	rm -rf build dist

help:
	@printf '%s\n' \
	  'make                  builds the release preset, setting up first what is missing' \
	  'make debug asan tsan  builds that preset (each under build/)' \
	  'make test             runs the tests; ./test --help lists the stages' \
	  'make quick            runs the quick tests' \
	  'make format           lays out the C++ and Python files (clang-format, ruff)' \
	  'make tidy             runs clang-tidy over src/' \
	  'make coverage         counts the lines and branches that the C++ tests reach' \
	  'make load             runs an hour of mixed calls over all storages, with faults' \
	  'make bench            runs the benchmarks' \
	  'make docs             builds the documentation in build/docs' \
	  'make wheels           builds wheels of the Python package in dist/' \
	  'make install PREFIX=  installs into PREFIX (default /usr/local)' \
	  'make uninstall PREFIX=  removes what make install put there' \
	  'make clean            removes build/ and dist/; .ferry/ with the Python environment stays'
