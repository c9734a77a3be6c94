#!/bin/sh
# divvy emit --as tt-metalium: products with every policy: every tile is written
# once, and the results are those of divvy run.
. "$(dirname "$0")/../common.inc"
. "$source/tests/cli/emit.inc"
. "$source/tests/cli/kernels.inc"

shape=
# Products with remainders, batches, epilogues, vectors, and a transposed
# matrix.
printf 'input a: f32[100, 70]\ninput b: f32[70, 130]\ny[m,n] = relu(sum[k] a[m,k] * b[k,n])\noutput y\n' >p.dv
whole a 100,70 1
whole b 70,130 2
kernels 'a product' 8x8 same 'a b' -t wormhole --names tilelang
grep -q 'for (uint32_t tile_id = start_id' p1/reader_0.cpp || complain 'no names of TileLang'
printf 'input a: f32[640, 96]\ninput b: f32[96, 640]\ny[m,n] = sum[k] a[m,k] * b[k,n]\noutput y\n' >p.dv
whole a 640,96 3
whole b 96,640 4
kernels 'a product on 130 cores' 13x10 same 'a b' -t blackhole
printf 'input a: f32[2, 70, 64]\ninput b: f32[64, 90]\ninput c: f32[2, 70, 90]\nt[z,m,n] = sum[k] a[z,m,k] * b[k,n]\ny[z,m,n] = relu(t[z,m,n] - c[z,m,n])\noutput y\n' >p.dv
whole a 2,70,64 5
whole b 64,90 6
whole c 2,70,90 7
kernels 'batches' 8x8 same 'a b c' -t wormhole
printf 'input a: bf16[100, 70]\ninput b: bf16[70, 130]\ninput c: bf16[130]\ny[m,n]: bf16 = relu(sum[k] a[m,k] * b[k,n] + c[n])\noutput y\n' >p.dv
for i in 'a 100,70 1' 'b 70,130 2' 'c 130 3'; do narrow $i; done
kernels 'bf16' 8x8 same 'a b c' -t wormhole
printf 'input a: f32[3, 50, 40]\ninput b: f32[3, 60, 40]\ny[z,m,n] = sum[k] a[z,m,k] * b[z,n,k]\noutput y\n' >p.dv
whole a 3,50,40 1
whole b 3,60,40 2
kernels 'a matrix that lies across' 8x8 same 'a b' -t wormhole
# Transposed left factors are transposed tile by tile, also with transposed
# right factors.
for how in 'b[k,n] 330,90 --cores 2' 'b[n,k] 90,330 --cores 4' 'b[k,n] 330,90 --policy rect' 'b[n,k] 90,330 --policy streamk'; do
    set -- $how
    printf 'input a: f32[330, 70]\ninput b: f32[%s]\ninput c: f32[70]\ny[m,n] = relu(sum[k] a[k,m] * %s + c[m])\noutput y\n' $2 $1 >p.dv
    whole a 330,70 1
    whole b $2 2
    whole c 70 3
    kernels "across $1 $4" 8x8 same 'a b c' -t wormhole $3 $4
done
printf 'input a: bf16[2, 100, 70]\ninput b: bf16[100, 130]\ny[z,m,n] = sum[k] b[k,n] * a[z,k,m]\noutput y\n' >p.dv
narrow a 2,100,70 1
narrow b 100,130 2
kernels 'bf16 across in batches' 13x10 same 'a b' -t blackhole --policy rect
printf 'input a: f32[90, 70]\ninput x: f32[70]\ny[m] = sum[k] a[m,k] * x[k]\noutput y\n' >p.dv
whole a 90,70 1
whole x 70 2
kernels 'a matrix and a vector' 8x8 same 'a x' -t wormhole

# Rectangles that share panels; tiles that are cut along k.
printf 'input a: f32[300, 200]\ninput b: f32[200, 500]\ninput c: f32[300]\ny[m,n] = relu(sum[k] a[m,k] * b[k,n] + c[m])\noutput y\n' >p.dv
whole a 300,200 1
whole b 200,500 2
whole c 300 3
kernels 'rectangles' 8x8 same 'a b c' -t wormhole --policy rect
printf 'input a: f32[2, 650, 70]\ninput b: f32[70, 1000]\ny[z,m,n] = sum[k] a[z,m,k] * b[k,n]\noutput y\n' >p.dv
whole a 2,650,70 1
whole b 70,1000 2
kernels 'rectangles on 130 cores' 13x10 same 'a b' -t blackhole --policy rect
for policy in streamk streamk1 streamk2 'splitk(3)'; do
    printf 'input a: f32[160, 250]\ninput b: f32[250, 416]\ninput c: f32[160]\ny[m,n] = relu(sum[k] a[m,k] * b[k,n] - c[m])\noutput y\n' >p.dv
    whole a 160,250 1
    whole b 250,416 2
    whole c 160 3
    kernels "$policy" 8x8 same 'a b c' -t wormhole --policy "$policy" --order 'grouped(2)'
done
printf 'input a: f32[64, 2000]\ny[m] = max[k] a[m,k] - 3\noutput y\n' >p.dv
whole a 64,2000 1
kernels 'a stream of maxima' 13x10 same 'a' -t blackhole --policy streamk

# Shards: resident tensors are computed on the cores where they stay.
printf 'input a: f32[256, 64]\ninput b: f32[64, 512]\ninput c: f32[512, 512]\nh[m,n] = relu(sum[k] a[m,k] * b[k,n])\ny[m,n] = sum[k] h[m,k] * c[k,n]\noutput y\n' >p.dv
whole a 256,64 8
whole b 64,512 9
whole c 512,512 1
"$divvy" plan p.dv -t wormhole --pin h:m=4 --pin h:n=16 --pin y:m=4 --pin y:n=16 >p.plan
grep -q 'group 0: h tiles 8 by 16 deep 2 shards' p.plan || complain 'no shards in the plan'
kernels shards 8x8 same 'a b c'
rm p.plan

build_and_run
finish
