#!/bin/sh
# divvy emit for machines with absent cores: kernels run on the other cores,
# every tile is written once, and the results are those of divvy run. Tables
# pass lint.
. "$(dirname "$0")/../common.inc"
. "$source/tests/cli/emit.inc"
. "$source/tests/cli/kernels.inc"
row=$source/examples/targets/harvested.dv

shape=
product='input a: f32[250, 70]\ninput b: f32[70, 260]\ninput c: f32[250]\ny[m,n] = relu(sum[k] a[m,k] * b[k,n] - c[m])\noutput y\n'
inputs() {
    printf "$product" >p.dv
    whole a 250,70 1
    whole b 70,260 2
    whole c 250 3
}
# The target lacks a row of cores; the others are two rectangles.
inputs
kernels 'a row' 8x8:0,3-7,3 same 'a b c' -t "$row"
grep -q 'CoreRange({0, 0}, {7, 2}), tt_metal::CoreRange({0, 4}, {7, 7})' p$n/host.cpp || complain 'not the cores above and below'
# Panels are shared only within rectangles without holes.
# 8x9 tiles in an order of one's own
inputs
{ echo '8x9: # last to first'; seq 71 -1 0; } >order.txt
kernels 'a list' 8x8:0,3-7,3 same 'a b c' -t "$row" --order @order.txt
inputs
kernels 'rectangles beside a row' 8x8:0,3-7,3 same 'a b c' -t "$row" --policy rect
grep -q 'CoreRange({0, 4}, {7, 7})});' p$n/host.cpp || complain 'not the rectangle below the row'
inputs
kernels 'a stream around a core' 8x8:0,3-7,3+2,5-2,5 same 'a b c' -t "$row" --holes 2,5 --policy streamk
inputs
kernels 'columns' 13x10:11,0-12,9+4,4-4,4 same 'a b c' -t blackhole --holes 11,0-12,9 --holes 4,4 --policy 'splitk(2)'
# Cores that the user chose, the first of them, and a device with fewer rows.
inputs
kernels 'a set of cores' 6x6:0,0-7,1+0,0-1,7+3,3-3,3 same 'a b c' -t wormhole --allow 2,2-5,5 --holes 3,3
inputs
kernels 'the first cores' 8x3:4,2-7,2 same 'a b c' -t wormhole --cores 20
# Shards: tensors that are resident on cores are on the cores that exist.
printf 'input a: f32[256, 64]\ninput b: f32[64, 512]\ninput c: f32[512, 512]\nh[m,n] = relu(sum[k] a[m,k] * b[k,n])\ny[m,n] = sum[k] h[m,k] * c[k,n]\noutput y\n' >p.dv
whole a 256,64 8
whole b 64,512 9
whole c 512,512 1
"$divvy" plan p.dv -t wormhole --holes 0,3-7,3 --cores 32 --pin h:m=4 --pin h:n=8 --pin y:m=4 --pin y:n=8 >p.plan
grep -q 'group 0: h tiles 8 by 16 deep 2 shards' p.plan || complain 'no shards in the plan'
grep -q 'core 0,4: shard' p.plan || complain 'no shard below the row'
kernels shards 8x8:0,3-7,3 same 'a b c'
rm p.plan
build_and_run

# -- C and OpenMP, one of each
inputs
want a=a.npy b=b.npy c=c.npy
for how in c openmp; do
    expect 0 '' "$divvy" emit p.dv -t "$row" --holes 0,0-1,1 --as $how -o out
    set -- $compilers
    what=$how
    flags=$([ $how = openmp ] && echo -fopenmp)
    if $1 -std=c11 -O1 -Wall -Wextra -Werror $flags out/program.c -lm -o prog 2>.err; then
        rm -f got_y.npy
        ./prog a=a.npy b=b.npy c=c.npy y=got_y.npy 2>.err || complain "$how fails"
        same y
    else
        grep -q omp .err || complain "$how does not compile"
    fi
done

# -- Tables, and what is wrong with them
for p in static rect streamk 'splitk(2)' steal; do
    for how in json csv; do
        expect 0 '' "$divvy" emit p.dv -t "$row" --holes 2,5 --scratch off --policy "$p" --as $how -o out
        "$divvy" lint out/group_0.$how >.out || complain "lint finds fault with $how of $p: $(head -3 .out)"
    done
    grep -q '"holes": \[\[0, 3, 7, 3\], \[2, 5, 2, 5\]\]' out/group_0.json || complain "no holes in the table of $p"
done
# wrong EDIT WORDS: lint finds the edited table of static ranges wrong.
expect 0 '' "$divvy" emit p.dv -t "$row" --holes 2,5 --scratch off --as json -o out
wrong() {
    sed "$1" out/group_0.json >x.json
    cmp -s out/group_0.json x.json && complain "$1 changes nothing"
    "$divvy" lint x.json >.out
    [ $? = 4 ] || complain "$1 passes lint"
    grep -q "$2" .out || complain "nothing like '$2': $(head -3 .out)"
}
wrong 's/"core_xy": \[4, 4\]/"core_xy": [4, 3]/' 'off-grid: core 4,3 is one of the holes'
wrong 's/"core_ranges": \[.*\]/"core_ranges": [[0, 0, 7, 7]]/' 'off-grid: range (0,0)-(7,7) goes over the hole (2,5)-(2,5)'
wrong 's/"group_1": \[.*\]/"group_1": [[0, 0, 7, 7]]/' 'off-grid: range of group_1 (0,0)-(7,7) goes over the hole (0,3)-(7,3)'

# -- A plan for a machine without these holes
expect 0 '' "$divvy" emit p.dv -t wormhole --scratch off --as csv -o out
"$divvy" lint out/group_0.csv -t wormhole >.out || complain "lint: $(head -3 .out)"
"$divvy" lint out/group_0.csv -t "$row" >.out
[ $? = 4 ] || complain 'a table with cores in holes passes'
grep -q 'off-grid: core 0,3 is one of the holes' .out || complain "not that core: $(head -3 .out)"
"$divvy" grid --tiles 20x20 --k 2 -t blackhole --json >x.json
"$divvy" lint x.json -t wormhole >.out
[ $? = 4 ] || complain 'a larger grid passes'
grep -q 'off-grid: a grid of 13x10 cores, wormhole has 8x8' .out || complain "not that grid: $(head -3 .out)"
"$divvy" grid --tiles 20x20 --k 2 -t wormhole --devices 2x2 --json >x.json
"$divvy" lint x.json -t wormhole >.out || complain "devices: $(head -3 .out)"
"$divvy" lint x.json -t "$row" >.out
[ $? = 4 ] || complain 'devices with cores in holes pass'
grep -q 'off-grid: range (0,0)-(7,7) goes over the hole (0,3)-(7,3)' .out || complain "not that range: $(head -3 .out)"

# -- Absent cores in the text of a plan
"$divvy" plan p.dv -t "$row" --scratch off >p.plan
expect 0 '' "$divvy" lint p.plan
sed 's/core 4,4: /core 4,3: /' p.plan >x.plan
"$divvy" lint x.plan >.out
[ $? = 4 ] || complain 'a core in a hole passes lint'
grep -q 'check: .*core 4,3 is in the hole 0,3 to 7,3' .out || complain "not that core: $(cat .out)"
expect 4 'core 4,3 is in the hole 0,3 to 7,3' "$divvy" plan x.plan
expect 4 'core 4,3 is in the hole 0,3 to 7,3' "$divvy" run x.plan
expect 4 'core 4,3 is in the hole 0,3 to 7,3' "$divvy" emit x.plan --as c -o out
# A plan that was made for the whole grid.
"$divvy" plan p.dv -t wormhole --scratch off >x.plan
"$divvy" lint x.plan -t "$row" >.out
[ $? = 4 ] || complain 'a plan of the whole grid passes'
expect 4 'is in the hole 2,5 to 2,5' "$divvy" run p.plan --holes 2,5
# Plans for machines without holes do not mention holes.
"$divvy" plan p.dv -t wormhole --scratch off >p.plan
grep -q holes p.plan && complain 'holes where there are none'
expect 0 '' "$divvy" plan p.plan

finish
