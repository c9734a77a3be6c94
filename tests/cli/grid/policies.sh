#!/bin/sh
# divvy grid: names of the result, the map, mistakes.
. "$(dirname "$0")/../common.inc"

# grid ARGUMENT…: the command succeeds.
grid() {
    expect 0 '' "$divvy" grid "$@"
}

# -- The vendor's split, with the vendor's names
grid --tiles 5x13 --cores 8x8 --json
has '"num_cores": 64' '"all_cores": \[\[0, 0, 7, 7\]\]' '"group_1": \[\[0, 0, 0, 0\]\]' \
    '"group_2": \[\[0, 1, 0, 7\], \[1, 0, 7, 7\]\]' '"units_group_1": 2' '"units_group_2": 1' \
    '"partition_mode": "global"' '"grid_tiles": \[5, 13\]' \
    '"runtime_args": \["start_id", "count", "Mt", "Kt", "Nt"\]' \
    '"core_xy": \[7, 7\], "args": \[64, 1, 5, 1, 13\]'
grid --tiles 5x13 --cores 8x8 --split row --json
has '"group_2": \[\[1, 0, 7, 0\], \[0, 1, 7, 7\]\]'
grid --tiles 0x8 --cores 8x8 --json
has '"empty": true' '"num_cores": 0' '"group_1": \[\]'

# -- Orders, streams, shards
grid --tiles 3x4 --cores 2x2 --order snake --json
has '"sequence_mn": \[\[0, 0\], \[0, 1\], \[0, 2\], \[0, 3\], \[1, 3\], \[1, 2\]'
grid --tiles 5x13 --k 8 --cores 8x8 --policy streamk --json
has '"total_iters": 520' '"iters_per_core": \[9, 8\]' '"cores_with_extra": 8' \
    '"data_parallel_makespan": 16' '"stream_k_makespan": 9' '"split_tiles": 7' \
    '"max_peers": 2' '"segments": 72' '"iter_range": \[0, 9\]' \
    '"work_tile_k0_k1": \[\[0, 0, 8\], \[1, 0, 1\]\]'
grid --tiles 8x8 --cores 8x8 --shards 2x4 --shard-tiles 4x2 --json
has '"partition_mode": "local_shard"' '"shard_grid": \[2, 4\]' '"local_shape_tiles": \[4, 2\]' \
    '"num_cores": 8' '"core_xy": \[3, 1\], "args": \[0, 8, 8, 1, 8, 4, 2, 2, 4, 1, 3\]'
grid --tiles 20x20 --k 20 --target wormhole --policy rect --json
has '"role": "sends A and B"' '"role": "receives"' '"block_tiles": \[3, 3\]'
grid --shape 2x256x256 --target wormhole --json
has '"tiles": 128' '"batch": 2'
grid --shape 100x100 --target wormhole --json
has '"needs_padding": true' '"padded_shape": \[128, 128\]' '"edge_tile": \[4, 4\]'
grid --tiles 8x8 --k 4 --cores 4x4 --devices 2x2x2 --json
has '"device_grid": \[2, 2, 2\]' '"box_mnk": \[4, 8, 4, 8, 2, 4\]'

# -- The printed map, with absent cores
grid --tiles 4x4 --cores 4x3 --holes 1,1 --holes 3,0-3,2
has '^  2  2  2  #$' '^  2  #  2  #$' '8 of 8 cores busy'
grid --tiles 1x3 --cores 3x2 --allow 0,0-1,1
has '^  1  1  #$' '^  1  \.  #$'
grid --tiles 128x128 --k 4 --cores 13x10 --order auto
has 'grouped(12): 128x128 tiles'

# -- Holes of the target, a part of its grid, and further holes
row=$source/examples/targets/harvested.dv
grid --tiles 8x7 --target "$row"
has '^  1  1  1  1  1  1  1  1$' '^  #  #  #  #  #  #  #  #$' '56 of 56 cores busy'
grid --tiles 8x8 --target "$row" --cores 4x4 --holes 0,0 --json
has '"cores_allowed": 11' '"holes": \[\[0, 0, 0, 0\], \[0, 3, 3, 3\]\]'
grid --tiles 8x8 --k 2 --target "$row" --policy rect
has '^panels are shared within one rectangle without holes, which has 32 of the cores$'
grid --tiles 4x4 --k 2 --target "$row" --policy rect
grep -q 'without holes' .out && complain 'holes to blame where tiles are few'
expect 1 'shard 3,0 (row, column) is for core 0,3 (column, row), which is not allowed' \
    "$divvy" grid --tiles 8x8 --target "$row" --shards 4x4 --shard-tiles 2x2

# -- In plans: policies and orders of a program's results
printf 'input a: f32[70, 100]\ninput b: f32[100, 130]\ny[m,n] = sum[k] a[m,k] * b[k,n]\noutput y\n' >p.dv
for p in static rect streamk streamk1 streamk2 'splitk(2)' 'ticket(2)' dynamic auto; do
    for x in sim threads; do
        expect 0 '' "$divvy" run p.dv -t wormhole --scratch off --policy "$p" --order hilbert --executor $x --verify
        has '^verify: ok'
    done
    "$divvy" plan p.dv -t wormhole --scratch off --policy "$p" >p.plan
    expect 0 '' "$divvy" lint p.plan
    expect 0 '' "$divvy" run p.dv -t "$row" --holes 2,1-2,6 --scratch off --policy "$p" --verify
    has '^verify: ok'
done
for team in 2 3; do
    expect 0 '' "$divvy" run p.dv -t "$row" --team $team --verify
    has '^verify: ok'
done
expect 0 '' "$divvy" plan p.dv -t wormhole --scratch off --policy streamk
has 'policy streamk {' 'core 0,1: 0..1 steps 1..2'
"$divvy" plan p.dv -t wormhole --scratch off --policy streamk >p.plan
sed 's/core 0,0: 0..1 steps 0..1/core 0,0: 0..1 steps 0..2/' p.plan >q.plan
"$divvy" lint q.plan >.out && complain 'a step twice passed'
has 'step 1 of tile 0 of y is on more than one core'
expect 0 '' "$divvy" run p.dv --threads 3 --policy dynamic --verify
has '^verify: ok'
"$divvy" plan p.dv --threads 3 --policy 'ticket(2)' >p.plan
grep -q 'tiles 3 ticket 2 {' p.plan || complain 'no tickets in the plan'
expect 0 '' "$divvy" run p.plan --verify

# -- Mistakes
expect 2 'the policy rect is for machines that compute on tiles; host takes' "$divvy" run p.dv --policy rect
expect 2 "there is no policy 'fast'" "$divvy" plan p.dv -t wormhole --policy fast
expect 2 "there is no order 'match_shard' of a result in main memory" "$divvy" plan p.dv -t wormhole --order match_shard
expect 1 'error\[capacity\]: 9x8 cores: wormhole has 8x8' "$divvy" grid --tiles 2x2 --cores 9x8 --target wormhole
expect 1 'error\[shape\]: 2x4 shards of 2x2 tiles are 4x8 tiles, the result has 8x8' \
    "$divvy" grid --tiles 8x8 --cores 8x8 --shards 2x4 --shard-tiles 2x2
expect 2 "there is no order 'zag'" "$divvy" grid --tiles 8x8 --cores 8x8 --order zag
expect 2 "there is no policy 'splitk'" "$divvy" grid --tiles 8x8 --cores 8x8 --policy splitk
"$divvy" grid --tiles 8x8 2>.err; [ $? = 2 ] || complain 'no cores: not 2'
"$divvy" grid --tiles 8by8 --cores 2x2 2>.err; [ $? = 2 ] || complain 'tiles: not 2'
"$divvy" grid --cores 2x2 2>.err; [ $? = 2 ] || complain 'no tiles: not 2'
expect 2 "tile takes ROWSxCOLUMNS, not '0x32'" "$divvy" grid --tiles 8x8 --cores 2x2 --tile 0x32
expect 2 "devices takes .*, not '0x2'" "$divvy" grid --tiles 8x8 --cores 2x2 --devices 0x2
expect 1 'a side has at most' "$divvy" grid --tiles 99999999999x99999 --cores 2x2

expect 2 'k takes 1 or more, not 0' "$divvy" grid --tiles 5x5 --k 0 --cores 2x2

# -- Rectangles of several sizes are no two groups
grid --tiles 100x100 --k 4 --cores 8x8 --policy rect
has '^144 to 169 each on (0,0)-(7,7)'
grid --tiles 100x100 --k 4 --cores 8x8 --policy rect --json
grep -q group_1 .out && complain 'rectangles of several sizes have a group'
grid --tiles 64x64 --cores 8x8 --policy rect
has '^group 1: 64 each on (0,0)-(7,7)'

finish
