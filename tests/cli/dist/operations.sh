#!/bin/sh
# divvy dist: every vector of tests/vectors/dist.txt, and wrong calls.
. "$(dirname "$0")/../common.inc"

# Writes JSON without spaces and the version of its format, and numbers like 2.0
# as 2.
plain() {
    tr -d ' \n' | sed 's/^{"format":1,/{/; s/\([0-9]\)\.0\([],}]\)/\1\2/g'
}

n=0
while IFS= read -r line; do
    case $line in '#'*) continue ;; esac
    call=${line%% -> *}
    want=${line#* -> }
    # shellcheck disable=SC2086
    got=$("$divvy" dist $call --json 2>.err | plain)
    n=$((n + 1))
    [ "$got" = "$want" ] || complain "dist $call: $got, not $want"
done <"$source/tests/vectors/dist.txt"
[ "$n" = 151 ] || complain "$n vectors, not 132 and 19 of our own"

# Wrong calls exit with 2.
wrong() {
    expect 2 "$@"
}
wrong 'nprocs=… is needed' "$divvy" dist default_partition rank=0 gshape=8
wrong 'takes no nproc' "$divvy" dist owner_of n=8 nprocs=3 index=0 nproc=3
wrong 'there is no operation frob' "$divvy" dist frob
wrong "KEY=VALUE, not 'gshape'" "$divvy" dist halo_plan gshape
wrong "'x' is not a number" "$divvy" dist owner_of n=x nprocs=3 index=0
wrong "'' is not a number" "$divvy" dist owner_of n=8 nprocs=3 index=1,,2
wrong 'less than 1' "$divvy" dist default_partition nprocs=0 rank=0 gshape=8
expect 1 'index 8 of 0..8' "$divvy" dist owner_of n=8 nprocs=3 index=8
wrong 'there is no rank 8: the last one is 7' "$divvy" dist default_partition nprocs=8 rank=8 gshape=8
expect 1 'beyond 2^61' "$divvy" dist default_partition nprocs=8 rank=1 gshape=9999999999999999999
expect 1 'more than 2^61 elements' "$divvy" dist default_partition nprocs=8 rank=1 gshape=2147483648,2147483648
wrong 'the stride 1 or more\|less than 1' "$divvy" dist slice_partition gshape=8 nprocs=2 offsets=0 sizes=2 strides=0
expect 1 'gshape has 12 elements, ngshape 10' "$divvy" dist reshape_plan gshape=3,4 ngshape=5,2 nprocs=2
expect 1 'there twice' "$divvy" dist permute_plan gshape=3,4 axes=1,1 nprocs=2
wrong 'dim 0 has 3 parts, which take 4 numbers' "$divvy" dist own gshape=10 grid=3 rank=0 starts=0,5,10
expect 1 'part 1 of dim 0 begins at 7' "$divvy" dist own gshape=10 grid=3 rank=0 starts=0,7,5,10
expect 1 'a slice from 9 of 2' "$divvy" dist own gshape=10 grid=2 rank=0 offsets=9 sizes=2 strides=1
expect 1 'from 4 ranks to 3' "$divvy" dist move gshape=12 grid_from=4 grid_to=3 rank=0
wrong 'wants has 2 lists' "$divvy" dist exchange gshape=9 grid=3 rank=0 'wants=0,1;2,1'
wrong 'boxes of 1 dims are 2 numbers each, not 3' "$divvy" dist exchange gshape=9 grid=3 rank=0 'wants=0,1,2;;'
expect 1 'too many, or below 0' "$divvy" dist box_list add=0,-1
wrong 'target has 1 dim, core 2' "$divvy" dist core_edges target=0,4 core=0,1,0,1
wrong 'rank is there twice' "$divvy" dist own gshape=10 grid=2 rank=0 rank=1
expect 1 'more than 2^62 values' "$divvy" dist arange start=0 stop=1e300 step=1 nprocs=2 dtype=float64
wrong 'offsets takes one list of whole numbers' "$divvy" dist slice_partition gshape=8 nprocs=2 'offsets=0;1' sizes=2 strides=1
wrong 'less takes lists of whole numbers' "$divvy" dist box_list add=0,9 less=0.5,1
wrong 'owned has 1 lists, 2 are needed' "$divvy" dist repartition_default gshape=8 nprocs=2 owned=0,8
wrong 'slices has 2 numbers, 3 are needed' "$divvy" dist local_core_chain gshape=8 nprocs=2 dest_slice=0,8,1 slices=0,8
wrong "corners takes true or false, not 'maybe'" "$divvy" dist halo gshape=8 grid=2 rank=0 before=1 after=1 corners=maybe
wrong 'dtype f8 is not known' "$divvy" dist arange start=0 stop=4 step=1 nprocs=2 dtype=f8
wrong 'before has 2 lists: one for all ranks, or 3' "$divvy" dist halo gshape=9 grid=3 rank=0 'before=1;1' 'after=1;1'
wrong 'before has 1 lists, after 3' "$divvy" dist halo gshape=9 grid=3 rank=0 before=1 'after=1;1;1'
# No dim of a shape is left without an answer.
expect 1 'a slice of 1 dim, gshape has 2' "$divvy" dist local_target_of_slice gshape=8,8 nprocs=2 offsets=1 sizes=2 strides=1
expect 1 'local_core_chain answers for one; local_core answers for every dim' "$divvy" dist local_core_chain gshape=512,512 nprocs=3 dest_slice=2,508,1 slices=0,508,1
wrong 'dest_slice has 3 numbers, 6 are needed' "$divvy" dist local_core gshape=512,512 nprocs=3 dest_slice=2,508,1 slices=0,508,1
"$divvy" dist >.out 2>.err
judge 0 '' $? 'dist'
grep -q '^halo_plan ' .out || complain 'dist alone does not list the operations'
# Every operation takes parameters and refuses a word that is not one of them.
ops=$(cut -d ' ' -f 1 .out)
[ "$(echo "$ops" | wc -l)" = 33 ] || complain "operations: $ops, not 33"
for op in $ops; do
    wrong '=… is needed' "$divvy" dist "$op"
    call=$(sed -n "s/^\($op .*\) -> .*/\1/p" "$source/tests/vectors/dist.txt" | head -n 1)
    # shellcheck disable=SC2086
    wrong "$op takes no colour; it takes " "$divvy" dist $call colour=red
done
# One rank of a trillion is as fast as one of two.
got=$("$divvy" dist default_partition nprocs=1000000000000 rank=999999999999 gshape=3000000000001 --json | plain)
[ "$got" = '{"loffs":[2999999999997],"lshape":[4]}' ] || complain "a trillion ranks: $got"
"$divvy" dist owner_of n=8 nprocs=3 index=0 | grep -q '"format": 1' || complain 'the answer has no format'
finish
