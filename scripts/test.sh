#!/bin/sh
# test.sh test|check JOBS
#
# test: the gcc build and its tests, with one MPI. check: all that takes longer;
# it uses the gcc build of `test`. Tests that belong to `check` have the label
# check or attack. Each stage says about how long it takes on two quiet cores
# and how long it took.
#
# The sanitizers take ten times as long as plain builds, so that they see six of
# a hundred random cases, one of the two MPIs, not the large graphs (plans of the
# same passes as the golden cases), not the larger of two softmaxes, not the
# largest product in plain loops, not contractions with the narrower of two
# instruction sets and not emitted kernels, which are compiled without them.
set -e
what=$1
jobs=$2
# Threads that wait leave their core to the other tests.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
begun=$(date +%s)

# stage NAME MINUTES WHAT: ends the one before.
name=
stage() {
    now=$(date +%s)
    [ -z "$name" ] || echo "== $name took $((now - since)) s"
    name=$1
    since=$now
    [ -z "$name" ] || echo "== $name: $3 (about $2 min on two cores)"
}
build() { # PRESET [more words]
    preset=$1
    shift
    cmake --preset "$preset" --log-level=WARNING
    cmake --build --preset "$preset" -j "$jobs" "$@"
}

if [ "$what" = test ]; then
    stage build 2 "gcc, with tests"
    build dev
    stage tests 6 "all but those of make check"
    ctest --preset dev -j "$jobs" -LE '^(check|attack)$'
else
    stage gcc 2 "the build of make test, if it is not there"
    build dev
    stage programs 1 "for the other instruction set and the second MPI"
    build dev --target check_programs
    stage foreign 4 "the other instruction set, the second MPI, altered plans"
    ctest --preset dev -j "$jobs" -L '^(check|attack)$'
    stage python 1 "the Python package"
    ctest --preset dev -j "$jobs" -L '^python$'
    stage random 5 "three times as many random cases"
    DV_CASES="${DV_CASES:-300}" ctest --preset dev -j "$jobs" -L '^prop$'
    stage sanitize-build 3 "gcc with address and undefined-behaviour sanitizers"
    build asan
    stage sanitize 9 "nearly all tests with them, and altered plans"
    DV_CASES="${DV_CASES:-6}" ctest --preset asan -j "$jobs" \
        -E 'cli/emit/(metalium|absent_cores)|cli/plan/graphs|stays_on_four|bench/brgemm_relu_64$|contract/contract_avx2'
    stage threads 1 "what threads share, with the sanitizer for that"
    threaded="exec/threads team/team contract/api einsum/api jit/gemm team/agreement"
    # shellcheck disable=SC2046,SC2086
    build tsan --target $(printf 'unit/%s ' $threaded | tr / _) prop_team_plans
    # It wants memory where it expects it, which some systems move about.
    fixed=
    setarch "$(uname -m)" -R true 2>/dev/null && fixed="setarch $(uname -m) -R"
    # shellcheck disable=SC2086
    DV_CASES=10 $fixed ctest --preset tsan -j "$jobs" \
        -R "^unit/($(echo $threaded | tr ' ' '|'))\$|^prop/team/plans\$"
    stage clang 2 "clang, for its warnings and its code"
    build clang
    ctest --preset clang -j "$jobs" -L "unit|api" -LE '^(check|attack)$'
fi
stage ""
echo "make $what took $((($(date +%s) - begun + 59) / 60)) min"
