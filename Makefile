# The two commands of the README and what surrounds them. CMake does the work;
# every target first sees to it that what is needed is installed.
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)

all: release

deps:
	@sh scripts/deps.sh build

release: deps
	@cmake --preset release --log-level=WARNING -DCMAKE_INSTALL_PREFIX="$(PREFIX)"
	@cmake --build --preset release -j $(JOBS)

demo: release
	@sh scripts/demo.sh build/release/divvy

# What a newcomer runs: a gcc build and its tests, about eight minutes.
test:
	@sh scripts/deps.sh test
	@sh scripts/test.sh test $(JOBS)

# What takes longer, about half an hour: sanitizers, clang, both MPIs, the other
# instruction set, more random cases.
check:
	@sh scripts/deps.sh check
	@sh scripts/test.sh check $(JOBS)

# The Python package, in build/dev/python, and its tests. `pip install .` builds
# and installs it for another Python.
python:
	@sh scripts/deps.sh python
	@cmake --preset dev --log-level=WARNING
	@cmake --build --preset dev -j $(JOBS) --target divvy_python
	@ctest --preset dev -j $(JOBS) -L '^python$$'

install: release
	@cmake --install build/release --prefix "$(PREFIX)"

# C sources as .clang-format wants them; .def tables are aligned by hand.
format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

format-check:
	@git ls-files '*.c' '*.h' | xargs clang-format --dry-run -Werror

fuzz:
	@sh scripts/deps.sh check
	@sh scripts/fuzz.sh $(or $(SECONDS_EACH),60)

# Builds all that measures, and says how each is run: together they take long.
bench: release
	@cmake --build --preset release --target bench -j $(JOBS)
	@sh bench/how.sh build/release

# Products beside the BLAS libraries that are installed.
bench-gemm: release
	@cmake --build --preset release --target bench_gemm -j $(JOBS)
	@sh bench/gemm.sh build/release 1
	@sh bench/gemm.sh build/release $(JOBS)

clean:
	rm -rf build

# Plans whose text was changed at random: none that is accepted may compute
# wrong numbers. make check tries one in a hundred of them.
attack:
	@sh scripts/deps.sh check
	@sh scripts/attack.sh $(JOBS)

.PHONY: all deps release demo test check attack python install format format-check fuzz bench bench-gemm clean
