#!/bin/sh
# divvy einsum: expressions and trees, shapes and files; every wrong call has
# its message.
. "$(dirname "$0")/../common.inc"
good() {
    expect 0 '' "$divvy" einsum "$@"
}

# -- Answers, here and on a described machine
for t in host spyre wormhole; do
    for e in 'abcd,ecfd->abef 3x4x5x6 2x5x7x6' 'ij,jk->k 5x6 6x7' 'iijk,kl->jl 4x4x3x5 5x6' \
        'i,j->ij 5 6' ',-> - -' 'ii->i 9x9' 'ij->ji 8x9' '...ij,...jk->...ik 2x1x4x5 3x5x6' \
        'ij,jk,kl,lm->im 8x9 9x30 30x2 2x7' 'ij,kl->il 3x9 9x4' 'bi,bj,bk->ijk 4x5 4x6 4x7' \
        'ij->i 3x0' '-> -' '->  -:f64' ',,-> - -:f16 -:i8'; do
        # shellcheck disable=SC2086
        good -t $t --verify $e
        has 'verify: ok'
    done
done
for d in f64 f32 f16 bf16 i64 i32 i8; do
    good 'ij,jk,kl->il' 4x5 5x6 6x7 --dtype $d --verify
    has "y: $d\\[4, 7\\]" 'verify: ok'
done
# Operands and options that begin with a dash: numpy accepts the same
# expressions.
good '->' - --verify
has '^-> on host' 'y: f32\[\]' 'verify: ok'
good '' - --verify
has 'y: f32\[\]' 'verify: ok'
expect 2 'not .--verify.' "$divvy" einsum -- '->' --verify
good --verify -- '->' -:f64
has 'y: f64\[\]' 'verify: ok'
good '->' -:i8 --dtype f32 --print
has 'input x0: i8\[\]'
expect 1 'einsum:1:3: error\[name\]: index i of the output is in no operand' "$divvy" einsum '->i' -
expect 1 'operand 0' "$divvy" einsum '->' 3
expect 1 '' "$divvy" einsum '-' 3
expect 1 '' "$divvy" einsum '->->' -
expect 1 '' "$divvy" einsum '->,' -
expect 2 'there is no option -->' "$divvy" einsum '-->' -
good 'i,i->' 4:i8 4:f16 --result f64 --verify
has 'y: f64\[\]'

# -- The path and the program
good 'ij,jk,kl->il' 8x9 9x100 100x2 --path
has 't0 *= x1 \* x2 *jk,kl->jl *3600 flop, 18 elements' '3888 flop in 2 steps, exact order'
good 'ij,jk,kl->il' 8x9 9x100 100x2 --path --json
has '"order": "exact"' '"flops": 3888' '"naive_flops": 43200' '"largest_elements": 18' \
    '{"name": "t0", "factors": \["x1", "x2"\], "expression": "jk,kl->jl", "flops": 3600, "elements": 18}'
good 'ij,jk,kl->il' 8x9 9x100 100x2 --order greedy --path
has 'greedy order'
good 'ij,jk,kl->il' 8x9 9x100 100x2 --print
cp .out p.dv
has 't0\[j,l\]: f32 = sum\[k\] x1\[j,k\] \* x2\[k,l\]' 'output y'
expect 0 '' "$divvy" run p.dv --verify
good 'ij,jk->ik' 4x5 5x6 --json
has '"target": "host"' '"executor": "threads"' '"verify": null' '"name": "y", "shape": \[4, 6\]'

# -- Threads: the same bits for any number, for this machine alone
for n in 1 2 5; do
    good 'abc,cdb->da' 90x8x7 7x110x8 --threads $n --verify
    has 'verify: ok'
    hash=$(grep -o 'hash.*' .out)
    [ "$n" = 1 ] && first=$hash
    [ "$hash" = "$first" ] || complain "$n threads, another result"
done
expect 2 'einsum: error.usage.: --threads takes 1 or more' "$divvy" einsum i 3 --threads 0
expect 2 'threads are for this machine, spyre is simulated' "$divvy" einsum i 3 -t spyre --threads 2

# -- Files: what one einsum writes another reads
good 'ij->ij' 3x4 --seed 7 -o a.npy
good 'ij->ij' 4x2 --seed 8 -o b.npy
good 'ij,jk->ik' --in 0=a.npy --in 1=b.npy --out c.npy
cp .out one
good 'ij,jk->ik' 3x4 4x2 --in 1=b.npy --in 0=a.npy --verify
grep '  y:' .out | cmp -s - "$(grep '  y:' one >two; echo two)" || complain 'other files, another result'
expect 1 'operand 0 wants f32\[4, 3\]' "$divvy" einsum 'ij->ij' 4x3 --in 0=a.npy
expect 1 'nofile.npy: error\[file\]' "$divvy" einsum 'ij->ij' --in 0=nofile.npy
expect 1 'p.dv: error\[format\]' "$divvy" einsum 'ij->ij' --in 0=p.dv
expect 3 'error\[output\]' "$divvy" einsum i 3 --out no/such/folder.npy

# -- Time
good ij,jk 20x30 30x10 --time --verify
has 'median of [0-9]* runs, [0-9.]* GFLOP/s' 'verify: ok'
expect 2 '--path runs nothing that --verify could be of' "$divvy" einsum i,i 2 2 --path --verify
expect 2 '--print runs nothing that --time could be of' "$divvy" einsum i,i 2 2 --print --time

# -- Trees
good --tree '[[8,4],[7,3,8]->[8,7,3,4]],[1,4]->[1,8,7,3]' --sizes 1,2,3,4,5,6,7,8,9 --verify
has 'verify: ok' 'y: f32\[2, 9, 8, 4\]'
good --tree '[[0,1]->[1,0]],[0,2]->[2,1]' --sizes 3,4,5 --print
has 't0\[d1,d0\]: f32 = x0\[d0,d1\]'
good --tree '[[0,1]->[1,0]],[0,2]->[2,1]' --sizes 3,4,5 --path
has 'given order'
expect 1 "a '->' is missing" "$divvy" einsum --tree '[0,1],[1,2]' --sizes 3,4,5
expect 1 "a tree begins with '\\['" "$divvy" einsum --tree '0,1->1' --sizes 3,4
expect 1 'index 5 has no size: --sizes has 3 numbers' "$divvy" einsum --tree '[0,5]->[5,0]' --sizes 3,4,5
expect 2 "a tree has its order, path 'exact' is for expressions" "$divvy" einsum --tree '[0]->[0]' --sizes 3 --order exact
expect 1 'a result between has 8 elements, 7 are allowed' \
    "$divvy" einsum --tree '[[0,1],[1,2]->[0,2]],[2,3]->[0,3]' --sizes 2,3,4,5 --max-elements 7
good --tree '[[0,1],[1,2]->[0,2]],[2,3]->[0,3]' --sizes 2,3,4,5 --max-elements 8
expect 2 '--tree needs --sizes' "$divvy" einsum --tree '[0]->[0]'
expect 2 '--sizes is for --tree' "$divvy" einsum i 3 --sizes 3
expect 2 "--sizes takes numbers like 8,4,7, not '3,'" "$divvy" einsum --tree '[0]->[0]' --sizes 3,
expect 2 "'i': with --tree the shapes come from --sizes" "$divvy" einsum i --tree '[0]->[0]' --sizes 3

# -- Mistakes in expressions: the place is shown
expect 1 'einsum:1:6: error\[name\]: index k of the output is in no operand' "$divvy" einsum 'ij->ik' 2x2
sed -n 3p .err | grep -q '^         ^$' || complain 'no caret below the index'
expect 1 'einsum:1:4: error\[shape\]: index j is 4 long here (dim 0 of operand 1) but 3 before' \
    "$divvy" einsum 'ij,jk->ik' 2x3 4x5
grep -q 'einsum:1:2: note: before' .err || complain 'no second place'
expect 1 'the expression has 2 operands, 1 was given' "$divvy" einsum 'ij,jk->ik' 2x3
expect 1 'no order found has all results between within 10 elements' \
    "$divvy" einsum 'ij,jk,kl->il' 8x9 9x100 100x2 --max-elements 10
expect 1 'nothing to compute' "$divvy" einsum 'i->' 0 --print
"$divvy" einsum 'ij->ik' 2x2 --json >.out 2>.err
judge 1 'in no operand' $? 'einsum --json'
has '"status": "name"' '"line": 1' '"column": 6'

# -- Wrong calls
expect 2 'an expression is needed' "$divvy" einsum
expect 2 "a shape is 64x32, 64x32:f16 or - for a scalar, not '2x'" "$divvy" einsum ij 2x
expect 2 "not 'k.npy'; --in 1=FILE.npy reads an operand from a file" "$divvy" einsum ij,jk 2x2 k.npy
expect 2 "not 'x2'" "$divvy" einsum ij x2
expect 2 "not '-2'" "$divvy" einsum ij -- -2
expect 2 "not '-2'" "$divvy" einsum ij -2
expect 2 "not '2,3'" "$divvy" einsum ij 2,3
expect 2 "not '99999999999999999999'" "$divvy" einsum i 99999999999999999999
expect 2 'has more than 16 dims' "$divvy" einsum i 1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1
expect 2 'there is no type f8' "$divvy" einsum i 2:f8
expect 2 'there is no type f8' "$divvy" einsum i 2 --dtype f8
expect 2 'there is no type f8' "$divvy" einsum i 2 --result f8
expect 2 '--in takes NUMBER=FILE.npy' "$divvy" einsum i 2 --in x=a.npy
expect 2 '--in 1: there is no such operand' "$divvy" einsum i 2 --in 1=a.npy
expect 2 'operand 0 has neither a shape nor a file' "$divvy" einsum i,i --in 1=a.npy
expect 2 "--order takes auto, exact or greedy, not 'best'" "$divvy" einsum i,i 2 2 --order best
expect 2 'there is no option --frob' "$divvy" einsum i 2 --frob
expect 1 'more than 2^63 - 1 bytes' "$divvy" einsum ij,jk 4000000000x4000000000 4000000000x2
expect 3 'this machine has' "$divvy" einsum ij,jk 4000000x4000000 4000000x2
"$divvy" einsum --help >.out 2>.err
has '--tree' '--sizes' '--verify'
nothing_but p.dv a.npy b.npy c.npy one two
# Integers are converted before they are multiplied with floats and summed, as
# in numpy: four times 2^62 does not wrap around to 0.
printf 'input n: i64[2]\ninput q: f64[2]\na[i] = n[i] * 0 + 2147483648 * 2147483648\nf[i] = q[i] * 0.0 + 1.0\noutput a, f\n' >big.dv
expect 0 '' "$divvy" run big.dv --out a=a.npy --out f=f.npy
expect 0 '' "$divvy" einsum 'a,b->' --in 0=a.npy --in 1=f.npy --verify
has 'sum 1.84467441e+19' 'verify: ok'
expect 0 '' "$divvy" einsum 'a,a,a->' --in 0=a.npy --in 1=a.npy --in 2=f.npy --verify
has 'sum 4.25352959e+37' 'verify: ok'
finish
