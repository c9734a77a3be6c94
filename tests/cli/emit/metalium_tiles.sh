#!/bin/sh
# divvy emit --as tt-metalium: functions, sums and broadcasts on tiles, without
# the elements beyond the edge of a tensor; and programs without kernels.
. "$(dirname "$0")/../common.inc"
. "$source/tests/cli/emit.inc"
. "$source/tests/cli/kernels.inc"

# Sums of rows, of columns and of everything, without the elements beyond the
# edge.
shape=90,75
printf 'input x: f32[90, 75]\nhi[i] = max[j] x[i,j]\ne[i,j] = exp(x[i,j] - hi[i])\ns[i] = sum[j] e[i,j]\ny[i,j] = e[i,j] / s[i]\noutput y\n' >p.dv
real x 90,75 1
kernels softmax 8x8 close x -t wormhole
shape=75
printf 'input x: f32[90, 75]\nlo[] = min[i,j] x[i,j]\nm[j] = mean[i] (x[i,j] - 7)\ny[j] = select(m[j] < lo[], lo[], sqrt(abs(m[j])) + 2)\noutput y\n' >p.dv
real x 90,75 2
kernels 'columns and all' 8x8 close x -t wormhole
# Several functions, on tiles with remainders.
shape=40,70
printf 'input x: f32[40, 70]\ninput v: f32[40]\na[i,j] = exp(tanh(x[i,j])) * gelu(x[i,j]) + silu(-x[i,j])\nb[i,j] = sigmoid(x[i,j]) / rsqrt(abs(x[i,j]) + 0.5) - erf(x[j - j,0 * j] + 0 * x[i,j])\nc[i,j] = log(min(max(x[i,j], 0.25), 4)) + sqrt(relu(x[i,j]))\ny[i,j] = select(a[i,j] >= b[i,j], c[i,j], v[i] * x[i,j])\noutput y\n' >p.dv
sed 's/erf(x\[j - j,0 \* j\] + 0 \* x\[i,j\])/erf(x[i,j])/' p.dv >q.dv && mv q.dv p.dv
real x 40,70 3
real v 40 4
kernels functions 8x8 close 'x v' -t wormhole
printf 'input x: f32[40, 70]\na[i,j] = sin(x[i,j]) * cos(x[i,j]) + tan(x[i,j] / 2) + asin(x[i,j] / 4) - acos(x[i,j] / 4) * atan(x[i,j])\ny[i,j] = a[i,j] / 4 + sinh(x[i,j]) / cosh(x[i,j]) + asinh(x[i,j]) * atanh(x[i,j] / 4) + acosh(abs(x[i,j]) + 1.5) * clamp(x[i,j], -1, 1)\noutput y\n' >p.dv
real x 40,70 5
kernels trigonometry 8x8 close x -t wormhole
shape=
printf 'input x: f32[70, 40]\ninput r: f32[1, 70]\ny[i,j] = x[j,i] + r[0,j]\noutput y\n' >p.dv
whole x 70,40 1
whole r 1,70 2
kernels 'a matrix on its side' 8x8 same 'x r' -t wormhole

# Special cases: scalars, one step, one row, two types, parts of bf16.
shape=1
printf 'input x: f32[100]\ny[i] = (sum[k] x[k]) for i in 0..1\noutput y\n' >p.dv
real x 100 1
kernels 'a sum of a vector' 8x8 close x -t wormhole
shape=40,70
printf 'input x: f32[3]\ny[i,j] = 0.5 for i in 0..40, j in 0..70\noutput y\n' >p.dv
real x 3 1
kernels constants 8x8 close x -t wormhole
shape=33,65
printf 'input a: f32[33, 65]\ninput b: f32[65]\ny[i,j] = a[i,j] + b[j]\noutput y\n' >p.dv
real a 33,65 1
real b 65 2
kernels 'a row for all' 8x8 close 'a b' -t wormhole
printf 'input a: f32[33, 1]\ninput b: f32[1, 65]\ny[i,j] = sum[k] a[i,k] * b[k,j]\noutput y\n' >p.dv
real a 33,1 1
real b 1,65 2
kernels 'a depth of one' 8x8 close 'a b' -t wormhole
printf 'input a: f32[33]\ninput b: f32[65]\ny[i,j] = a[i] * b[j]\noutput y\n' >p.dv
real a 33 1
real b 65 2
kernels 'a product of vectors' 8x8 close 'a b' -t wormhole
shape=70
printf 'input x: f32[90, 70]\ninput w: f32[90]\ny[i] = sum[k] x[k,i] * w[k]\noutput y\n' >p.dv
whole x 90,70 1
whole w 90 2
kernels 'a vector and a matrix' 8x8 same 'x w' -t wormhole
shape=90,70
printf 'input x: f32[90, 70]\ninput g: f32[70]\ninput b: f32[70]\nm[i] = mean[j] x[i,j]\nv[i] = mean[j] ((x[i,j] - m[i]) * (x[i,j] - m[i]))\ny[i,j] = (x[i,j] - m[i]) * rsqrt(v[i] + 0.00001) * g[j] + b[j]\noutput y\n' >p.dv
real x 90,70 1
real g 70 2
real b 70 3
kernels norms 8x8 close 'x g b' -t wormhole
printf 'input x: f32[90, 70]\ns[] = max[i,j] abs(x[i,j])\ny[i,j] = x[i,j] / s[]\noutput y\n' >p.dv
real x 90,70 1
kernels 'shares of the largest' 13x10 close x -t blackhole --policy rect
shape=2,40,35
printf 'input x: f32[2, 35, 40]\ny[z,j,i] = x[z,i,j] * 2\noutput y\n' >p.dv
real x 2,35,40 1
kernels 'batches on their sides' 8x8 close x -t wormhole --order hilbert
shape=7
printf 'input x: f32[7]\ny[i] = x[i] * x[i]\noutput y\n' >p.dv
real x 7 1
kernels 'a short vector' 8x8 close x -t wormhole
shape=40,70
printf 'input a: bf16[40, 70]\ninput b: f32[70]\ny[i,j]: f32 = a[i,j] * 2.0 + b[j]\noutput y\n' >p.dv
narrow a 40,70 1
real b 70 2
kernels 'two types' 8x8 close 'a b' -t wormhole
shape=
printf 'input a: bf16[4, 70, 64]\ninput b: bf16[64, 90]\ny[z,m,n]: bf16 = relu(sum[k] a[z,m,k] * b[k,n])\noutput y\n' >p.dv
narrow a 4,70,64 1
narrow b 64,90 2
kernels 'rectangles of bf16' 8x8 same 'a b' -t wormhole --policy rect
printf 'input a: bf16[64, 640]\ninput b: bf16[640, 90]\ninput c: f32[64]\ny[m,n]: bf16 = relu(sum[k] a[m,k] * b[k,n] + c[m])\noutput y\n' >p.dv
narrow a 64,640 1
narrow b 640,90 2
whole c 64 3
kernels 'bf16 in parts' 8x8 same 'a b c' -t wormhole --policy 'splitk(7)'
shape=300
printf 'input x: f32[300, 700]\nm[i] = min[j] (x[i,j] + 3)\ny[i] = m[i] * 2\noutput y\n' >p.dv
real x 300,700 1
kernels 'a stream of minima' 13x10 close x -t blackhole --policy streamk2
# f16 operands are used as they are; results are converted by way of bf16, which
# holds these numbers.
shape=
printf 'input a: f16[100, 70]\ninput b: f16[70, 130]\ny[m,n]: f32 = relu(sum[k] a[m,k] * b[k,n])\noutput y\n' >p.dv
narrow a 100,70 1 f16
narrow b 70,130 2 f16
kernels 'products of f16' 8x8 same 'a b' -t wormhole
for policy in static rect 'splitk(2)'; do
    printf 'input a: f16[100, 40]\ninput b: f16[40, 70]\ninput c: f16[100]\ninput w: f16[70]\ny[m,n]: f16 = max(min(sum[k] a[m,k] * b[k,n] + c[m], 99), -99) - w[n]\noutput y\n' >p.dv
    narrow a 100,40 1 f16
    narrow b 40,70 2 f16
    narrow c 100 3 f16
    narrow w 70 4 f16
    kernels "f16 by $policy" 8x8 same 'a b c w' -t wormhole --policy "$policy"
done
expect 0 'warning\[emit\]: y is f16: .* keeps 8 of 11 bits' "$divvy" emit p.dv --as tt-metalium -t wormhole -o none
shape=90,75
printf 'input x: f16[90, 75]\nhi[i]: f32 = max[j] x[i,j]\ne[i,j]: f32 = exp(x[i,j] - hi[i])\ns[i] = sum[j] e[i,j]\ny[i,j] = e[i,j] / s[i]\noutput y\n' >p.dv
narrow x 90,75 1 f16
kernels 'softmax of f16' 8x8 close x -t wormhole
build_and_run

# -- Programs without kernels, with the reason
no_kernel() {
    printf "$1\noutput y\n" >p.dv
    expect 2 "$2" "$divvy" emit p.dv -t wormhole --as tt-metalium -o none
}
no_kernel 'input a: f32[8, 8]\ny[i] = prod[j] a[i,j]' 'y has no kernel: there is no product over the elements of a tile'
no_kernel 'input a: i32[8, 8]\ny[i,j] = a[i,j]' 'y has no kernel: y is i32, tiles are f32, bf16 or f16'
no_kernel 'input a: f16[8, 8]\ninput b: bf16[8, 8]\ny[i,j]: f32 = a[i,j] + b[i,j]' 'y has no kernel: a is f16 and b is bf16, tiles of one kernel'
no_kernel 'input a: f32[40, 40]\ny[i,j] = a[i,j] + a[i+1,j] for i in 0..39' 'y has no kernel: it reads a at other than whole dims'
no_kernel 'input a: f32[4, 40, 40]\ny[i,j] = sum[k] a[i,j,k]' 'y has no kernel: rows of its tiles come from different matrices'
no_kernel 'input a: f32[40]\ninput q: i32[40]\ny[i] = a[q[i]]' 'y has no kernel: it reads'

finish
