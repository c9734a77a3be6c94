#!/bin/sh
# Packing beside MiniMalloc: seconds of both, best of three, one thread.
#   place.sh BUILD_DIR [SEED [FILE...]]
# Without files: those of tests/data/placement and eight cases generated from
# the seed. MINIMALLOC names the peer's command; without it ours stands alone.
# PEER_LIMIT is its limit in seconds (default 20).
set -e
build=$1
seed=${2:-1}
[ $# -ge 2 ] && shift 2 || shift $#
here=$(cd "$(dirname "$0")/.." && pwd)
limit=${PEER_LIMIT:-20}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ $# -eq 0 ]; then
    "$build/bench_place" -g "$seed" "$tmp"
    set -- "$here"/tests/data/placement/*.csv "$tmp"/*.csv
fi

peer() { # FILE CAPACITY: best seconds
    for _ in 1 2 3; do
        "$MINIMALLOC" --input="$1" --capacity="$2" --output="$tmp/out" \
            --timeout="${limit}s" 2>&1 |
            sed -n 's/.*Elapsed time[: ]*\([0-9.]*\).*/\1/p' >"$tmp/s"
        cat "$tmp/s"
        awk -v l="$limit" '{ exit !($1 >= l || $1 > 5) }' "$tmp/s" && break
    done | sort -g | head -n 1
}

printf '%-14s %6s %12s %-6s %10s %9s %12s %9s\n' \
    case n capacity answer "ours s" nodes "MiniMalloc s" factor
for file in "$@"; do
    "$build/bench_place" -n 3 -m 20000000 "$file" >"$tmp/ours"
    read -r name n cap answer ours nodes <"$tmp/ours"
    theirs=
    [ -n "$MINIMALLOC" ] && theirs=$(peer "$file" "$cap")
    awk -v name="$name" -v n="$n" -v cap="$cap" -v a="$answer" -v o="$ours" \
        -v k="$nodes" -v t="$theirs" -v l="$limit" 'BEGIN {
        open = t >= l + 0 ? ">" : ""
        printf "%-14s %6d %12d %-6s %10.6f %9d %12s %9s\n", name, n, cap, a,
            o, k, t == "" ? "-" : open t,
            t == "" || o == 0 ? "-" : sprintf("%s%.1f", open, t / o) }'
done | tee "$tmp/table"
# The factor of unsolved cases is at least this.
awk '$8 != "-" { sub(/^>/, "", $8); s += log($8); n++ }
    END { if (n) printf "geometric mean of the factors: %.0f\n", exp(s / n) }' \
    "$tmp/table"
