#!/bin/sh
# The choices for a CPU, pinned: for every program of examples/ and
# bench/programs/, how its ops are divided, grouped and summed on a fixed machine,
# which kernels they get, and a checksum of their code. No kernel is run, so the
# machine at hand may be another. choices.sh DIVVY SOURCE SET
#
# DV_UPDATE_GOLDEN=1 rewrites the expectation instead.
divvy=$1
here=$2/tests/choices
set=$3
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
cd "$2" || exit 2
export LC_ALL=C
unset DIVVY_CPU
for program in examples/*.dv bench/programs/*.dv; do
    echo "== $program"
    "$divvy" plan "$program" --target "$here/$set.dv" >"$tmp/plan" 2>/dev/null || echo "plan: exit $?"
    sed -n '/^divide/,$p' "$tmp/plan" | grep -v '^# check'
    "$divvy" plan "$program" --target "$here/$set.dv" --dump-after jit >"$tmp/code" 2>/dev/null ||
        echo "code: exit $?"
    grep '^#\|bytes$' "$tmp/code"
    echo "code $(cksum <"$tmp/code")"
done >"$tmp/got"
if [ -n "$DV_UPDATE_GOLDEN" ]; then
    cp "$tmp/got" "$here/$set.expect"
    exit
fi
diff -u "$here/$set.expect" "$tmp/got"
