#!/bin/sh
# divvy emit --as tt-metalium: functions, sums, broadcasts on tiles, what is beyond
# the edge left out; and what has no kernels.
. "$(dirname "$0")/common.inc"
. "$source/tests/cli/emit.inc"
. "$source/tests/cli/kernels.inc"

# Sums of rows, columns and all; what is beyond the edge does not count
shape=90,75
printf 'input x: f32[90, 75]\nhi[i] = max[j] x[i,j]\ne[i,j] = exp(x[i,j] - hi[i])\ns[i] = sum[j] e[i,j]\ny[i,j] = e[i,j] / s[i]\noutput y\n' >p.dv
real x 90,75 1
kernels softmax 8x8 close x -t wormhole
shape=75
printf 'input x: f32[90, 75]\nlo[] = min[i,j] x[i,j]\nm[j] = mean[i] (x[i,j] - 7)\ny[j] = select(m[j] < lo[], lo[], sqrt(abs(m[j])) + 2)\noutput y\n' >p.dv
real x 90,75 2
kernels 'columns and all' 8x8 close x -t wormhole
# Functions, one after another, on tiles with edges
shape=40,70
printf 'input x: f32[40, 70]\ninput v: f32[40]\na[i,j] = exp(tanh(x[i,j])) * gelu(x[i,j]) + silu(-x[i,j])\nb[i,j] = sigmoid(x[i,j]) / rsqrt(abs(x[i,j]) + 0.5) - erf(x[j - j,0 * j] + 0 * x[i,j])\nc[i,j] = log(min(max(x[i,j], 0.25), 4)) + sqrt(relu(x[i,j]))\ny[i,j] = select(a[i,j] >= b[i,j], c[i,j], v[i] * x[i,j])\noutput y\n' >p.dv
sed 's/erf(x\[j - j,0 \* j\] + 0 \* x\[i,j\])/erf(x[i,j])/' p.dv >q.dv && mv q.dv p.dv
real x 40,70 3
real v 40 4
kernels functions 8x8 close 'x v' -t wormhole
shape=
printf 'input x: f32[70, 40]\ninput r: f32[1, 70]\ny[i,j] = x[j,i] + r[0,j]\noutput y\n' >p.dv
whole x 70,40 1
whole r 1,70 2
kernels 'a matrix on its side' 8x8 same 'x r' -t wormhole

build_and_run

# -- What has no kernels, and why
no_kernel() {
    printf "$1\noutput y\n" >p.dv
    expect 2 "$2" "$divvy" emit p.dv -t wormhole --as tt-metalium -o none
}
no_kernel 'input a: f32[8, 8]\ny[i] = prod[j] a[i,j]' 'y has no kernel: there is no product over the elements of a tile'
no_kernel 'input a: i32[8, 8]\ny[i,j] = a[i,j]' 'y has no kernel: y is i32, tiles are f32 or bf16'
no_kernel 'input a: f32[40, 40]\ny[i,j] = a[i,j] + a[i+1,j] for i in 0..39' 'y has no kernel: it reads a at other than whole dims'
no_kernel 'input a: f32[4, 40, 40]\ny[i,j] = sum[k] a[i,j,k]' 'y has no kernel: rows of its tiles come from different matrices'
no_kernel 'input a: f32[40]\ninput q: i32[40]\ny[i] = a[q[i]]' 'y has no kernel: it reads'

finish
