#!/bin/sh
# Programs as people write them, beside what the machine can do.
#   programs.sh BUILD_DIR [THREADS]
# A line each: median seconds, GFLOP/s, share of the peak of the type that the
# largest op is computed in, GB/s in and out, share of a copy of that size.
set -e
build=$1
threads=${2:-1}
here=$(dirname "$0")
printf '%-12s %10s %9s %6s %8s %6s\n' program seconds GFLOP/s peak GB/s copy
for file in "$here"/programs/*.dv; do
    "$build/divvy" bench "$file" --threads "$threads" |
        awk -v name="$(basename "$file" .dv)" '
            /median/ { seconds = $2 }
            /GFLOP/ { flops = $1; peak = $3 }
            /in and out/ { bytes = $1; copy = $6 }
            END { printf "%-12s %10s %9s %6s %8s %6s\n", name, seconds, flops, peak, bytes, copy }'
done
