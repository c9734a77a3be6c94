#!/bin/sh
# How divvy check grows with the program: time and memory for 12,500 to
# 200,000 statements. check.sh BUILD_DIR
set -e
build=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
printf '%10s %10s %8s %8s %14s\n' statements chars "best s" "MiB" "bytes per char"
for n in 12500 25000 50000 100000 200000; do
    "$build/bench_gen" "$n" >"$tmp/p.dv"
    chars=$(wc -c <"$tmp/p.dv")
    best=
    for _ in 1 2 3 4 5; do
        "$build/bench_run" "$build/divvy" check "$tmp/p.dv" >"$tmp/out"
        line=$(tail -n 1 "$tmp/out")
        s=${line% *}
        kib=${line#* }
        best=$(printf '%s\n%s\n' "$best" "$s" | sort -g | sed '/^$/d' | head -n 1)
    done
    awk -v n="$n" -v c="$chars" -v s="$best" -v k="$kib" 'BEGIN {
        printf "%10d %10d %8.3f %8.1f %14.1f\n", n, c, s, k / 1024, k * 1024 / c }'
done
