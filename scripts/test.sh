#!/bin/sh
# Every test: gcc, then gcc with address and undefined-behaviour sanitizers, then
# what threads share with the sanitizer for that, then a clang build for its
# warnings. The sanitizers take ten times as long, so that they see six of a
# hundred random cases, one of the two MPIs, not the large graphs (plans of the
# same passes as the golden cases), not the larger of two softmaxes, not the
# largest product in plain loops, not contractions with the narrower of two
# instruction sets and not emitted kernels, which are compiled without them.
# test.sh JOBS
set -e
# Threads that wait leave their core to the other tests.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
for preset in dev asan; do
    echo "== $preset"
    cmake --preset "$preset" --log-level=WARNING
    cmake --build --preset "$preset" -j "$1"
    skip='^$'
    [ "$preset" = dev ] || skip='emit_(kernels|tiles|holes)|cli/graphs|stays_on_four|bench/brgemm_relu_64$|contract/avx2'
    [ "$preset" = dev ] || export DV_CASES="${DV_CASES:-6}"
    ctest --preset "$preset" -j "$1" -E "$skip"
done
echo "== tsan"
threaded="threads dist_team contract_api einsum_api jit jit_shares"
cmake --preset tsan --log-level=WARNING
cmake --build --preset tsan -j "$1" --target $(printf 'unit_test_%s ' $threaded)
# It wants memory where it expects it, which some systems move about.
fixed=
setarch "$(uname -m)" -R true 2>/dev/null && fixed="setarch $(uname -m) -R"
$fixed ctest --preset tsan -j "$1" -R "^unit/test_($(echo $threaded | tr ' ' '|'))\$"
echo "== clang"
cmake --preset clang --log-level=WARNING
cmake --build --preset clang -j "$1"
ctest --preset clang -j "$1" -L "unit|api"
