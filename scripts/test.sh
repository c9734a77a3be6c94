#!/bin/sh
# Every test: gcc, then gcc with address and undefined-behaviour sanitizers
# (random cases: a fifth of them, the sanitizers take ten times as long; emitted
# kernels are compiled without them, so once is enough), then a clang build for
# its warnings. test.sh JOBS
set -e
for preset in dev asan; do
    echo "== $preset"
    cmake --preset "$preset" --log-level=WARNING
    cmake --build --preset "$preset" -j "$1"
    skip='^$'
    [ "$preset" = dev ] || skip='emit_(kernels|tiles)'
    [ "$preset" = dev ] || export DV_CASES="${DV_CASES:-20}"
    ctest --preset "$preset" -j "$1" -E "$skip"
done
echo "== clang"
cmake --preset clang --log-level=WARNING
cmake --build --preset clang -j "$1"
ctest --preset clang -j "$1" -L "unit|api"
