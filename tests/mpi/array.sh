#!/bin/sh
# Arrays over processes are right, with the same bits for any team and for
# threads.
# array.sh ARRAY MPIRUN
array=$1
mpirun=$2
. "$(dirname "$0")/common.inc"
"$array" 3 >"$tmp/threads" 2>"$tmp/err" || { cat "$tmp/err"; bad=1; }
for n in 1 2 3 4; do
    # shellcheck disable=SC2086
    if ! timeout 120 "$mpirun" $more -n $n "$array" >"$tmp/out" 2>"$tmp/err"; then
        echo "FAILED: $n processes"
        cat "$tmp/out" "$tmp/err"
        bad=1
    elif ! cmp "$tmp/threads" "$tmp/out"; then
        echo "FAILED: $n processes have other results than threads"
        bad=1
    fi
done
exit $bad
