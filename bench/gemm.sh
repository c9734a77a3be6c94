#!/bin/sh
# Matrix products beside OpenBLAS and BLIS, where they are installed.
#   gemm.sh BUILD_DIR [THREADS [SIZE...]]
# One table, from one run: GFLOP/s, share of the peak measured in that run.
set -e
build=$1
threads=${2:-1}
[ $# -ge 2 ] && shift 2 || shift $#
libs=
for name in libopenblas.so.0 libblis.so.4; do
    # the loader knows most; some are in folders of their own
    path=$(ldconfig -p | sed -n "s|.*$name.* => ||p" | head -n 1)
    [ -n "$path" ] || path=$(find /usr/lib /usr/local/lib -name "$name" 2>/dev/null | head -n 1)
    [ -n "$path" ] && libs="$libs -l $path"
done
export OPENBLAS_NUM_THREADS="$threads" BLIS_NUM_THREADS="$threads"
export OMP_NUM_THREADS="$threads"
# shellcheck disable=SC2086
exec "$build/bench_gemm" -t "$threads" $libs "$@"
