#!/bin/sh
# divvy emit: C and OpenMP, compiled by every compiler that is installed and
# run; the results are those of divvy run. Tables pass lint.
. "$(dirname "$0")/../common.inc"
. "$source/tests/cli/emit.inc"

# program HOW TARGET JUDGE [NAME=FILE…]: emits p.dv, compiles it and runs it.
program() {
    how=$1
    target=$2
    judge=$3
    shift 3
    rm -rf out
    expect 0 '' "$divvy" emit p.dv -t "$target" --as "$how" -o out ${policy:+--policy "$policy"} ${order:+--order "$order"} ${names:+--names "$names"}
    for cc in $compilers; do
        flags=
        what="$how by $cc for $target $policy"
        [ "$how" = openmp ] && flags=-fopenmp
        if ! $cc -std=c11 -O1 -Wall -Wextra -Werror $flags out/program.c -lm -o prog 2>.err; then
            # A compiler may lack the headers or the library of OpenMP.
            [ "$how" = openmp ] && grep -q 'omp' .err && continue
            complain "$what does not compile"
            continue
        fi
        rm -f got_y.npy
        ./prog "$@" y=got_y.npy 2>.err || complain "$what fails"
        $judge y $shape
    done
}
# -- Products with remainders and batches: the same bits
printf 'input a: f32[100, 70]\ninput b: f32[70, 130]\ny[m,n] = relu(sum[k] a[m,k] * b[k,n])\noutput y\n' >p.dv
whole a 100,70 1
whole b 70,130 2
want a=a.npy b=b.npy
for target in wormhole blackhole spyre; do
    program c $target same a=a.npy b=b.npy
    program openmp $target same a=a.npy b=b.npy
done
# -- An order of one's own: 4x5 tiles from the last to the first
seq 19 -1 0 | sed '1i 4x5:' >order.txt
order=@order.txt
for how in c openmp; do program $how wormhole same a=a.npy b=b.npy; done
order=
# -- The names of TileLang's stage
names=tilelang
for how in c openmp; do
    program $how wormhole same a=a.npy b=b.npy
    grep -q 'for (int64_t tile_id = w\[0\]' out/program.c && grep -q 'cores_0\[get_core_id()\]' out/program.c ||
        complain "no names of TileLang in $how"
    grep -q '[^_]id =' out/program.c && complain "other names in $how"
done
names=
expect 2 'names of TileLang are those of loops over tiles' "$divvy" emit p.dv -t wormhole --as csv --names tilelang -o refused
# -- Tiles that threads take at run time, on tiles and on slices: not by a table
for policy in 'ticket(3)' 'steal(2)'; do
    for target in wormhole "$source/tests/choices/avx2.dv"; do
        program c $target same a=a.npy b=b.npy
        grep -q 'cores_0\|deals_0' out/program.c && complain "a static table for $policy on $target"
        program openmp $target same a=a.npy b=b.npy
        grep -q 'schedule(dynamic, [23])' out/program.c || complain "$policy is not dynamic on $target"
    done
    expect 2 'p.dv\|hands out tiles' "$divvy" emit p.dv -t wormhole --policy "$policy" --as tt-metalium -o refused
    [ -e refused ] && complain "kernels for $policy"
done
policy=
# -- Reads with a border: a padded convolution, and an index that is read
printf 'input a: f32[3, 12, 17]\ninput b: f32[5, 3, 9]\nd[c,i,j] = sum[k,l] b[0,c,3*k+l] * a[c,i+k-1,j+l-1] else 0  for k in 0..3, l in 0..3, i in 0..12, j in 0..17\nt[i]: i8 = a[0,0,i]\ny[c,i] = (a[c,i-2,t[i]] else -3.0) + (max[j] d[c,i-1,j+5] else -inf)  for i in 0..15, j in 0..12\noutput y\n' >p.dv
whole a 3,12,17 6
whole b 5,3,9 7
want a=a.npy b=b.npy
for target in wormhole spyre; do
    program c $target same a=a.npy b=b.npy
    program openmp $target same a=a.npy b=b.npy
done
printf 'input a: f32[3, 40, 70]\ninput b: f32[3, 70, 65]\ny[z,m,n] = sum[k] a[z,m,k] * b[z,k,n]\noutput y\n' >p.dv
whole a 3,40,70 3
whole b 3,70,65 4
want a=a.npy b=b.npy
program openmp wormhole same a=a.npy b=b.npy
# -- Functions, and integers by bits
printf 'input a: f32[90, 70]\nk[m,n]: i32 = a[m,n] * 9\nt[m,n]: f64 = floor(a[m,n] / 4) + mod(a[m,n], 3) * rem(a[m,n], -2) + sign(a[m,n])\nb[m,n] = (k[m,n] & 12 | k[m,n] >> 2 ^ k[m,n] << 3) + mod(k[m,n], n - 3) - rem(k[m,n], 7) + sign(k[m,n] - 4)\ny[m,n] = t[m,n] + b[m,n] + (a[m,n] > 0 && !isnan(log(a[m,n])) || a[m,n] == -2)\noutput y\n' >p.dv
whole a 90,70 6
want a=a.npy
for target in wormhole spyre; do
    program c $target same a=a.npy
    program openmp $target same a=a.npy
done
# -- Values of variables, in tiles that do not begin at 0
printf 'input a: f32[90, 70]\ny[m,n] = select(n <= m - 3, a[m,n] * (3 - n), -9) + m\noutput y\n' >p.dv
whole a 90,70 5
want a=a.npy
for target in wormhole spyre; do
    program c $target same a=a.npy
    program openmp $target same a=a.npy
done
# -- Policies: rectangles, and tiles that are cut along k and combined
printf 'input a: f32[2, 96, 250]\ninput b: f32[250, 416]\ninput c: f32[96]\ny[z,m,n] = relu(sum[k] a[z,m,k] * b[k,n] - c[m])\noutput y\n' >p.dv
whole a 2,96,250 1
whole b 250,416 2
whole c 96 3
want a=a.npy b=b.npy c=c.npy
for policy in rect streamk 'splitk(3)'; do
    program openmp wormhole same a=a.npy b=b.npy c=c.npy
done
policy=streamk2
program c blackhole same a=a.npy b=b.npy c=c.npy
policy=
# -- Partial sums, updates that read old values (G6), repeats, indices
printf 'input a: f32[9, 4000]\ny[m] = sum[k] a[m,k]\noutput y\n' >p.dv
whole a 9,4000 5
want a=a.npy
program openmp wormhole same a=a.npy
program c spyre same a=a.npy
printf 'input a: f32[40, 40]\ny[i,j] = a[i,j]\nrepeat 3 {\ny[i,j] <- y[i-1,j] + y[i+1,j] for i in 1..39, j in 0..40\n}\noutput y\n' >p.dv
whole a 40,40 6
want a=a.npy
program openmp wormhole same a=a.npy
program c spyre same a=a.npy
printf 'input a: f32[40]\nq[i]: i32 = abs(a[i])\ny[i] = a[q[i]]\noutput y\n' >p.dv
whole a 40 7
want a=a.npy
program c wormhole same a=a.npy
# -- Zeros of both signs, told apart by 1 / x; sigmoid where exp(-x) overflows
whole a 40,30 4
whole b 40,30 5
for e in 'max(-a[i,j], b[i,j])' 'max(a[i,j], -b[i,j])' 'min(-a[i,j], b[i,j])' 'min(a[i,j], -b[i,j])' 'relu(-a[i,j])'; do
    printf 'input a: f32[40, 30]\ninput b: f32[40, 30]\nc[i,j] = b[i,j]\ny[i,j] = 1 / %s + 0 * c[i,j]\noutput y\n' "$e" >p.dv
    want a=a.npy b=b.npy
    program c wormhole same a=a.npy b=b.npy
done
for e in 'max[i] min(-a[i,j], b[i,j])' 'min[i] max(-a[i,j], b[i,j])' 'max[i] -abs(a[i,j])'; do
    printf 'input a: f32[40, 30]\ninput b: f32[40, 30]\nc[j] = sum[i] b[i,j]\ny[j] = 1 / (%s) + 0 * c[j]\noutput y\n' "$e" >p.dv
    want a=a.npy b=b.npy
    program c wormhole same a=a.npy b=b.npy
done
narrow a 99 6 f64
printf 'input a: f64[99]\ny[i] = select(sigmoid(a[i] * 184) > 0, 1, 0) + select(silu(a[i] * 184) == 0, 4, 2)\noutput y\n' >p.dv
want a=a.npy
program c spyre same a=a.npy

# -- Functions: close results
shape=60,90
printf 'input a: f32[60, 90]\nm[i] = max[j] a[i,j]\ne[i,j] = exp(a[i,j] - m[i])\ns[i] = sum[j] e[i,j]\ny[i,j] = e[i,j] / s[i] + gelu(a[i,j]) * 0.01\noutput y\n' >p.dv
whole a 60,90 8
want a=a.npy
program openmp wormhole close a=a.npy
program c spyre close a=a.npy
shape=

# -- Every order, on a plan that was edited
printf 'input a: f32[2, 230, 20]\ninput b: f32[20, 330]\ny[z,m,n] = sum[k] a[z,m,k] * b[k,n]\noutput y\n' >p.dv
whole a 2,230,20 9
whole b 20,330 1
want a=a.npy b=b.npy
"$divvy" plan p.dv -t wormhole >p.plan
for order in row_major column_major snake hilbert morton 'grouped(3)' 'block_linear(3)' 'swizzle(3)' zigzag; do
    sed "s/ order [a-z_()0-9]* {/ order $order {/" p.plan >q.plan
    expect 0 '' "$divvy" emit q.plan --as c -o out
    what="order $order"
    grep -q "of the order $order, in 8x11 tiles" out/program.c || complain "$what: not in the text"
    set -- $compilers
    "$1" -std=c11 -O1 -Wall -Wextra -Werror out/program.c -lm -o prog 2>.err || complain "$what does not compile"
    rm -f got_y.npy
    ./prog a=a.npy b=b.npy y=got_y.npy 2>.err || complain "$what fails"
    same y
done

# -- Tables
printf 'input a: f32[100, 70]\ninput b: f32[70, 130]\ny[m,n] = relu(sum[k] a[m,k] * b[k,n])\noutput y\n' >p.dv
for how in json csv; do
    rm -rf out
    expect 0 '' "$divvy" emit p.dv -t wormhole --as $how -o out
    "$divvy" lint out/group_0.$how >.out || complain "lint finds fault with our $how: $(head -3 .out)"
done
expect 0 '' "$divvy" emit p.dv -t wormhole --as json -o out
for key in '"core_ranges": \[\[0, 0, 1, 7\], \[2, 0, 2, 3\]\]' '"group_2": \[\]' '"units_group_1": 1'; do
    grep -q "$key" out/group_0.json || complain "no $key: $(grep core_ranges out/group_0.json)"
done
# Batches, and shards where the plan placed them, in a table of arguments.
printf 'input a: f32[3, 40, 70]\ninput b: f32[3, 70, 65]\ny[z,m,n] = sum[k] a[z,m,k] * b[z,k,n]\noutput y\n' >q.dv
expect 0 '' "$divvy" emit q.dv -t wormhole --as csv -o batch
"$divvy" lint batch/group_0.csv >.out || complain "lint finds fault with batches: $(head -3 .out)"
"$divvy" plan "$source/examples/mlp.dv" -t wormhole --pin h:b=2 --pin h:f=32 --pin y:b=2 --pin y:d=8 --pin y:f=4 >mlp.plan
expect 0 '' "$divvy" emit mlp.plan --as csv -o shards
grep -q '^1,0,1,0,' shards/group_0.csv || complain 'not the shards that are wanted here'
"$divvy" lint shards/group_0.csv >.out || complain "lint finds fault with shards: $(head -3 .out)"
sed 's/^1,0,1,0,/1,0,0,1,/' shards/group_0.csv >shards/x.csv
"$divvy" lint shards/x.csv >.out && complain 'a shard on another core passed'
for p in rect streamk streamk1 streamk2 'splitk(2)' 'steal(2)'; do
    expect 0 '' "$divvy" emit p.dv -t wormhole --scratch off --policy "$p" --as json -o out
    "$divvy" lint out/group_0.json >.out || complain "lint finds fault with our json of $p: $(head -3 .out)"
    expect 0 '' "$divvy" emit p.dv -t wormhole --scratch off --policy "$p" --as csv -o out
    "$divvy" lint out/group_0.csv >.out || complain "lint finds fault with our csv of $p: $(head -3 .out)"
done
# A core whose whole tile precedes the tile of which it has the last steps.
for how in csv json; do
    expect 0 '' "$divvy" emit "$source/examples/matmul.dv" --set M=130 --set N=1 --set K=97 -t wormhole --cores 4 --scratch off --policy streamk1 --as $how -o out
    "$divvy" lint out/group_0.$how >.out || complain "lint finds fault with streams in $how: $(head -3 .out)"
done
# Two cores that would wait for each other, and ranges that arguments cannot
# express.
cat >wait.plan <<'EOF'
plan 1
target wormhole {
    cores            = 2
    core_grid        = 2x1
    stick            = 32
    tile_rows        = 32
    tile_cols        = 32
    scratch          = 1464KiB
    scratch_align    = 32
    ring             = yes
}
program fused {
    input a: f32[32, 64]
    input b: f32[64, 64]
    y[m,n]: f32 = sum[k] a[m,k] * b[k,n]
    output y
}
layout {
    a: size [1, 2, 32, 32] stride [2048, 32, 64, 1] stick 1
    b: size [2, 2, 32, 32] stride [2048, 32, 64, 1] stick 1
    y: size [1, 2, 32, 32] stride [2048, 32, 64, 1] stick 1
}
divide best {
    0: n 32
}
groups {
    group ops 0..1 tiles 2 {
        core 0: 0..1
        core 1: 1..2
    }
}
scratch off capacity 1499136 {
}
grid {
    group 0: y tiles 1 by 2 deep 2 order row_major policy streamk {
        core 0,0: 0..1 steps 0..1
        core 0,0: 1..2 steps 1..2
        core 1,0: 1..2 steps 0..1
        core 1,0: 0..1 steps 1..2
    }
}
EOF
for how in csv json tt-metalium; do
    expect 2 'core 0,0: its 2 ranges of tiles of y are not whole tiles and then one run of steps' "$divvy" emit wait.plan --as $how -o out
done
expect 0 '' "$divvy" run wait.plan --verify
"$divvy" emit "$source/examples/softmax.dv" -t wormhole --as json -o soft 2>.err || complain 'softmax as json'
for f in soft/*.json; do "$divvy" lint "$f" >.out || complain "lint: $f: $(head -3 .out)"; done
expect 2 '--as takes c, openmp, tt-metalium, json, csv, object or superdsc, not .cobol.' "$divvy" emit p.dv -t wormhole --as cobol -o out
expect 2 'no group of the plan has a grid: .* --scratch off' "$divvy" emit "$source/examples/attention.dv" --set S=96 -t wormhole --as json -o out
expect 0 '' "$divvy" emit "$source/examples/attention.dv" --set S=96 -t wormhole --scratch off --as json -o out
expect 2 'computes on no tiles' "$divvy" emit p.dv -t spyre --as csv -o out

finish
