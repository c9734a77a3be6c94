#!/bin/sh
# Options of a pass that is done in a finished plan are refused by every command
# that reads plans, and the command which the message names works.
. "$(dirname "$0")/../common.inc"
"$divvy" plan "$source/examples/matmul.dv" --set M=64 --set N=64 --set K=64 \
    --cores 2 -t "$source/tests/choices/avx2.dv" -o here.plan || exit 1
"$divvy" plan "$source/examples/softmax.dv" -t spyre -o spyre.plan || exit 1
"$divvy" plan "$source/examples/softmax.dv" -t spyre --team 2 -o team.plan || exit 1

# named VALUE: runs the command that the last message names, with VALUE in place
# of the word VALUE. It makes another plan.
named() {
    command=$(sed -n 's/.*; divvy \(plan .*\) VALUE runs it again.*/\1/p' .err)
    [ -n "$command" ] || { complain "no command is named"; return; }
    # shellcheck disable=SC2086 # the command is several words
    expect 0 '' "$divvy" $command "$1"
    grep -q '^plan 1' .out || complain "$command $1: no plan"
}

# no_effect PLAN OPTION VALUE: every command refuses the option.
no_effect() {
    for c in 'run' 'bench --seconds 0' 'report'; do
        # shellcheck disable=SC2086 # the command is several words
        expect 2 "--$2 has no effect: $1 is a plan" "$divvy" $c "$1" "--$2" "$3"
        named "$3"
    done
}

for p in here.plan spyre.plan team.plan; do
    no_effect $p team 2
    no_effect $p devices 2
    no_effect $p grid 2x1
    no_effect $p divide seed
    no_effect $p joint off
    no_effect $p scratch off
    no_effect $p solver greedy
    no_effect $p tiles-per-core 1
    for option in in-place clone-inputs ring evict reorder recompute; do
        no_effect $p $option off
    done
    no_effect $p tenants many
    no_effect $p time-limit 1
    no_effect $p policy steal
done
no_effect here.plan const a
no_effect here.plan pin c:m=2
no_effect here.plan pin c.kernel=strip
no_effect spyre.plan bar e
no_effect team.plan bar e
"$divvy" plan "$source/examples/matmul.dv" -t wormhole -o grid.plan || exit 1
no_effect grid.plan order row_major
for option in team=2 devices=2 grid=2x1 scratch=off policy=static; do
    rm -rf out
    expect 2 'has no effect' "$divvy" emit spyre.plan -o out "--$option"
    named "${option#*=}"
done
finish
