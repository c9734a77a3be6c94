#!/bin/sh
# ONNX models beside ONNX Runtime on the same threads, in turns.
#   ORT=FOLDER onnx.sh BUILD_DIR MODELS_DIR [THREADS [ROUNDS]]
# FOLDER is where the npm package onnxruntime-node is installed. A line per model:
# the medians over all rounds of the median seconds of a run, their ratio, and
# the same for what comes before the first run (reading, planning, kernels; for
# ONNX Runtime creating the session). Last, the geometric means of the ratios.
set -e
build=$1
models=$2
threads=${3:-1}
rounds=${4:-3}
here=$(dirname "$0")
[ -d "$ORT/node_modules/onnxruntime-node" ] || {
    echo "onnx.sh: \$ORT names no folder with onnxruntime-node" >&2
    exit 2
}
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT

# column N FILE: the median of a column of numbers.
column() {
    awk -v n="$1" '{ print $n }' "$2" | sort -g | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'
}

# divvy_times MODEL: seconds until the first run, median seconds of a run.
divvy_times() {
    "$build/divvy" bench "$1" --threads "$threads" --seconds 2 --json >"$tmp/json" || return 1
    awk -F'[:,]' '/"median_s"/ { median = $2 } /"ready_s"/ { ready = $2 } END { print ready, median }' "$tmp/json"
}

printf '%-24s %10s %10s %7s %10s %10s %7s\n' model divvy_s ort_s ratio ready_s ort_ready ratio
for model in "$models"/*.onnx; do
    name=$(basename "$model" .onnx)
    : >"$tmp/divvy"
    : >"$tmp/ort"
    round=0
    while [ $round -lt "$rounds" ]; do
        divvy_times "$model" >>"$tmp/divvy" || break
        node "$here/onnxruntime.mjs" "$model" "$threads" 2 >>"$tmp/ort"
        round=$((round + 1))
    done
    [ $round -gt 0 ] || { printf '%-24s is refused\n' "$name"; continue; }
    echo "$name $(column 2 "$tmp/divvy") $(column 2 "$tmp/ort") $(column 1 "$tmp/divvy") $(column 1 "$tmp/ort")" |
        awk '{ printf "%-24s %10.5f %10.5f %7.3f %10.4f %10.4f %7.3f\n", $1, $2, $3, $2 / $3, $4, $5, $4 / $5 }' |
        tee -a "$tmp/all"
done
awk '{ a += log($4); b += log($7); n++ } END { if (n) printf "geometric mean of %d models: %.3f of the time, %.3f of the time to be ready\n", n, exp(a / n), exp(b / n) }' "$tmp/all"
