#!/bin/sh
# Run each fuzzer for a while on a copy of its corpus: fuzz.sh SECONDS
set -e
cmake --preset fuzz --log-level=WARNING
cmake --build --preset fuzz
for name in program target plan nest npy csv fuse einsum lint choose onnx; do
    work=build/fuzz/corpus-$name
    mkdir -p "$work"
    echo "== $name, $1 s"
    build/fuzz/tests/fuzz_$name -max_total_time="$1" -timeout=10 \
        -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
        -artifact_prefix=build/fuzz/ "$work" "tests/fuzz/corpus/$name"
done
