#!/bin/sh
# C20: plans whose messages are in another order than the printed one, under
# mpirun; and ranks whose plans have different exchanges.
# order.sh DIVVY SOURCE MPIRUN
divvy=$1
plan=$2/tests/golden/dist/C20_order.plan
mpirun=$3
. "$(dirname "$0")/common.inc"
fail() {
    echo "FAILED: $*"
    cat "$tmp/out"
    bad=1
}

# shellcheck disable=SC2086
timeout 120 "$mpirun" $more -n 3 "$divvy" run "$plan" --verify >"$tmp/out" 2>&1 || fail 'another order'
grep -q 'verify: ok' "$tmp/out" || fail 'another order: not verified'

# The same messages in two exchanges: valid, but different from rank 0's plan.
awk '/exchange 0/ { f = 1 } { print } f { b = b $0 "\n" }
    f && /^    }/ { printf "%s", b; f = 0 }' "$plan" >"$tmp/twice.plan"
# shellcheck disable=SC2086
timeout 120 "$mpirun" $more -n 3 "$divvy" run "$tmp/twice.plan" --verify >"$tmp/out" 2>&1 || fail 'two exchanges'
grep -q 'verify: ok' "$tmp/out" || fail 'two exchanges: not verified'
# Files of the same name may differ from node to node.
mkdir "$tmp/a" "$tmp/b" && cp "$plan" "$tmp/a/p.plan" && cp "$tmp/twice.plan" "$tmp/b/p.plan"
# shellcheck disable=SC2086
timeout 120 "$mpirun" $more -n 1 sh -c "cd $tmp/a && exec $divvy run p.plan" : \
    -n 2 sh -c "cd $tmp/b && exec $divvy run p.plan" >"$tmp/out" 2>&1 && fail 'other plans: accepted'
grep -q 'plan is not theirs\|rank 1 .* rank 0' "$tmp/out" || fail 'other plans: no reason'
exit $bad
