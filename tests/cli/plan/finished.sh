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
# No command is named if the target takes the option in no plan.
for c in 'run' 'bench --seconds 0' 'report'; do
    # shellcheck disable=SC2086 # the command is several words
    expect 2 'spyre.plan is a plan for spyre, which is simulated and has no kernels to pin' "$divvy" $c spyre.plan --pin y.kernel=strip
    # shellcheck disable=SC2086 # the command is several words
    expect 2 'spyre.plan is a plan for spyre, which does not compute on tiles that could be ordered' "$divvy" $c spyre.plan --order row_major
done
for option in team=2 devices=2 grid=2x1 scratch=off policy=static; do
    rm -rf out
    expect 2 'has no effect' "$divvy" emit spyre.plan -o out "--$option"
    named "${option#*=}"
done

# The number of threads and of cores is part of a plan. That of the plan itself
# is no error.
for c in plan run 'bench --seconds 0' report; do
    # shellcheck disable=SC2086 # the command is several words
    for option in --threads --cores; do
        expect 2 "$option 1 has no effect: here.plan is a plan for 2 cores" "$divvy" $c here.plan $option 1
        command=$(sed -n 's/.*; divvy \(plan .*\) plans it again.*/\1/p' .err)
        expect 0 '' "$divvy" $command
        has 'core 0:'
        ! grep 'core 1:' .out || complain "$command: two cores work"
    done
    expect 2 '--threads 4 has no effect: here.plan is a plan for 2 cores' "$divvy" $c here.plan --threads 4
    expect 2 'has 2 cores, 4 were asked for' "$divvy" $c here.plan --cores 4
done
expect 0 '' "$divvy" plan here.plan --threads 2
expect 0 '' "$divvy" plan here.plan --cores 2
expect 0 '' "$divvy" plan here.plan --start-at group --threads 1
expect 2 '--threads 1 has no effect' "$divvy" plan here.plan --start-at scratch --threads 1
expect 2 '--cores 8 has no effect: spyre.plan is a plan for 32 cores' "$divvy" run spyre.plan --cores 8

# Commands that run all ranks refuse rank 0 like the others. report and plan list
# one rank of a team.
for p in here.plan spyre.plan team.plan "$source/examples/softmax.dv"; do
    for rank in 0 1; do
        expect 2 'this command runs all ranks' "$divvy" run $p --rank $rank
        expect 2 'this command runs all ranks' "$divvy" bench $p --rank $rank
    done
done
for c in plan report; do
    expect 0 '' "$divvy" $c team.plan --rank 1
    expect 2 '--rank 0: this plan is for one process' "$divvy" $c spyre.plan --rank 0
    expect 2 'there is no rank 2 in a team of 2' "$divvy" $c team.plan --rank 2
    expect 0 '' "$divvy" plan "$source/examples/heat.dv" --set N=64 -t spyre --team 2 --rank 1 -o rank1.plan
    expect 2 'the plan of rank 0 is not in this plan' "$divvy" $c rank1.plan --rank 0
    command=$(sed -n 's/.*; divvy \(plan .*\) makes it.*/\1/p' .err)
    expect 0 '' "$divvy" $command
    has 'grid .* rank 0'
done
finish
