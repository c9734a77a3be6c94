#!/bin/sh
# divvy emit --as tt-metalium: operands and results in shards in the memories of
# cores, in the banks of main memory, and in all memories in turn: every tile is
# written once, and the results are those of divvy run.
. "$(dirname "$0")/../common.inc"
. "$source/tests/cli/emit.inc"
. "$source/tests/cli/kernels.inc"

shape=
# has PATTERN FILE: a kernel of the last program has this line.
has() { grep -q -- "$1" "p$n/$2" || complain "$name: no $1 in $2"; }
hasnt() { grep -q -- "$1" "p$n/$2" && complain "$name: $1 in $2"; }

# A function of two operands in the same shards: nothing moves.
printf 'input a: f32[256, 128] @ l1(sharded 64x64 on 2x4 cols)\ninput b: f32[256, 128] @ l1(sharded 64x64 on 2x4 cols)\ny[m,n] = relu(a[m,n] - b[m,n])\noutput y @ l1(sharded 64x64 on 2x4 cols)\n' >p.dv
whole a 256,128 1
whole b 256,128 2
kernels 'all in shards' 8x8 same 'a b' -t wormhole
has 'cb_push_back(0, 4)' reader_0.cpp
has 'cb_push_back(1, 4)' reader_0.cpp
has 'cb_wait_front(16, 4)' writer_0.cpp
hasnt noc_async_read_page reader_0.cpp
hasnt noc_async_write_page writer_0.cpp
# Shards of operands decide, other operands and the result move.
printf 'input a: f32[256, 128] @ l1(sharded 64x32 on 4x4 rows)\ninput b: f32[128, 256] @ l1(sharded 32x64 on 4x4 cols)\ninput c: f32[128] @ l1(interleaved)\ny[m,n] = a[m,n] * b[n,m] + c[n]\noutput y @ dram(sharded 32x64 rows)\n' >p.dv
whole a 256,128 1
whole b 128,256 2
whole c 128 3
kernels 'a transposed operand in shards' 8x8 same 'a b c' -t wormhole
has 'cb_push_back(0, 2)' reader_0.cpp
has noc_async_write_page writer_0.cpp
# The note of the result decides; b is read from the cores that have it.
printf 'input a: f32[128, 128] @ l1(sharded 64x64 on 2x2 rows)\ninput b: f32[128, 128] @ l1(sharded 32x128 on 1x4 rows)\ny[m,n] = a[m,n] + b[m,n]\noutput y @ l1(sharded 64x64 on 2x2 rows)\n' >p.dv
whole a 128,128 1
whole b 128,128 2
kernels 'other shards' 8x8 same 'a b' -t wormhole
has 'noc_async_read_page(.*in1' reader_0.cpp
hasnt 'noc_async_read_page(.*in0' reader_0.cpp
# Products: rows of a are on the core that needs them; blocks of a are cut along k.
printf 'input a: f32[256, 96] @ l1(sharded 64x96 on 4x1 rows)\ninput b: f32[96, 32]\nc[m,n] = sum[k] a[m,k] * b[k,n]\ny[m,n] = relu(c[m,n])\noutput y\n' >p.dv
whole a 256,96 1
whole b 96,32 2
kernels 'a product of shards' 8x8 same 'a b' -t wormhole
has 'cb_push_back(0, 6)' reader_0.cpp
printf 'input a: bf16[128, 128] @ l1(sharded 64x64 on 2x2 rows)\ninput b: bf16[128, 256] @ l1(sharded 32x256 on 2x2 cols)\ninput c: bf16[256] @ dram(interleaved)\ny[m,n]: bf16 = relu(sum[k] a[m,k] * b[k,n] + c[n])\noutput y @ l1(sharded 64x64 on 2x4 rows)\n' >p.dv
narrow a 128,128 1
narrow b 128,256 2
narrow c 256 3
kernels 'bf16 blocks' 13x10 same 'a b c' -t blackhole
has 'cb_wait_front(16, 4)' writer_0.cpp
has 'noc_async_read_page(.*in0' reader_0.cpp
# Sums of rows that a core has, in two groups.
printf 'input x: f32[256, 96] @ l1(sharded 64x96 on 1x4 rows)\nm[i] = max[k] x[i,k]\ny[i,k] = x[i,k] - m[i]\noutput y @ l1(sharded 64x96 on 1x4 rows)\n' >p.dv
whole x 256,96 1
kernels 'rows of shards' 8x8 same 'x' -t wormhole
has 'cb_push_back(0, 6)' reader_0.cpp
has 'cb_push_back(0, 6)' reader_1.cpp

# Intermediates that stay on cores: a group of three ops, and a product of what
# other cores have.
printf 'input x: f32[512, 96]\nt[m,n] = relu(x[m,n]) - 1\ns[m] = max[n] t[m,n]\ny[m,n] = t[m,n] * s[m]\noutput y\n' >p.dv
"$divvy" plan p.dv -t wormhole --pin t:m=16 --pin t:n=1 --pin s:m=16 --pin s:n=1 --pin y:m=16 --pin y:n=1 >p.plan
grep -q 'group ops 0..3 tiles 16' p.plan || complain 'no group of three ops'
whole x 512,96 1
kernels 'a group on its cores' 8x8 same 'x'
rm p.plan
has 'cb_wait_front(16, 3)' writer_0.cpp
has 'cb_push_back(0, 3)' reader_1.cpp
has 'cb_wait_front(16, 1)' writer_1.cpp
has 'noc_async_write_page' writer_2.cpp
grep -c 'BufferType::L1' p$n/host.cpp | grep -q '^2$' || complain 'not two intermediates on cores'
printf 'input a: f32[256, 64]\ninput b: f32[64, 512]\ninput c: f32[512, 512]\nh[m,n] = relu(sum[k] a[m,k] * b[k,n])\ny[m,n] = sum[k] h[m,k] * c[k,n]\noutput y\n' >p.dv
whole a 256,64 8
whole b 64,512 9
whole c 512,512 1
"$divvy" plan p.dv -t wormhole --pin h:m=4 --pin h:n=16 --pin y:m=4 --pin y:n=16 >p.plan
kernels 'a product of shards on other cores' 8x8 same 'a b c'
rm p.plan
has 'cb_wait_front(16, 2)' writer_0.cpp
has 'noc_async_read_page(.*in0' reader_1.cpp

# -- What has no kernel
wrong() {
    printf "$1" >p.dv
    expect "$3" "$2" "$divvy" emit p.dv --as tt-metalium -o none -t wormhole
}
wrong 'input a: f32[128, 128] @ dram(sharded 64x64 cols)\ny[m,n] = a[m,n] + 1\noutput y\n' 'those of a are counted column by column' 2
wrong 'input a: f32[2048, 5632] @ l1(sharded 256x704 on 8x8 rows)\ninput b: f32[2048, 5888] @ l1(sharded 256x736 on 8x8 rows)\ninput c: f32[2048]\ninput d: f32[5632]\ny[m,n] = a[m,n] + c[m] * d[n]\nz[m,n] = b[m,n] + 1\noutput y, z\n' 'circular buffers take .* together more than' 1

printf 'input x: f32[256, 256]\nt[m,n] = exp(x[m,n])\ns[m] = sum[n] t[m,n]\ny[m,n] = t[m,n] / s[m]\noutput y\n' >p.dv
"$divvy" plan p.dv -t wormhole --pin t:m=8 --pin t:n=8 --pin s:m=8 --pin s:n=8 >p.plan
expect 2 's has no kernel on shards: several cores compute parts of one sum' "$divvy" emit p.plan --as tt-metalium -o none
"$divvy" plan p.dv -t wormhole --pin t:m=3 --pin t:n=1 --pin s:m=3 --pin s:n=1 --pin y:m=3 --pin y:n=1 >p.plan
expect 2 't has no kernel on shards: cores do not have one part each' "$divvy" emit p.plan --as tt-metalium -o none
printf 'input a: f32[64, 64] @ l1(sharded 32x32 on 2x2 rows)\ns[n] = sum[m] a[m,n]\noutput s\n' >p.dv
"$divvy" plan p.dv -t wormhole | sed 's/32x32 on 2x2/16x16 on 4x4/' >p.plan
expect 1 'not whole tiles' "$divvy" emit p.plan --as tt-metalium -o none
rm p.plan

build_and_run
finish
