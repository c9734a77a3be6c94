#!/bin/sh
# What --verify says: it never says ok if there is nothing to compare a result
# with, and machines that flush subnormal numbers to 0 are right.
. "$(dirname "$0")/../common.inc"

cat >un.dv <<'EOF'
input x: f32[4]
y[i] = 1 / (exp(x[i]) - exp(x[i]))
output y
EOF
expect 4 'undecided: for more than half' "$divvy" run un.dv --verify
has 'undecided, 4 elements undecided' 'its values reach'
expect 4 'undecided: for more than half' "$divvy" run un.dv --verify --json
has '"ok": false, .*"unknown": 4'

# One of two outputs is decided, which is not enough.
sed 's/output y/z[i] = x[i] + 1\noutput y, z/' un.dv >two.dv
expect 4 'undecided: for more than half' "$divvy" run two.dv --verify
has 'verify: undecided, z is .* 4 elements undecided'

cat >small.dv <<'EOF'
input a: bf16[16, 16]
input b: bf16[16, 16]
y[i,j] = sum[k] a[i,k] * b[k,j]
z[i,j]: f32 = sum[k] a[i,k] * b[k,j]
output y, z
EOF
for range in 1e-39..2e-39 1.2e-38..2e-38; do
    expect 0 '' "$divvy" run small.dv --verify --random=$range
    has 'verify: ok'
done
# Matrix instructions for bf16 flush subnormal sums to 0, which is not wrong.
# Other kernels sum in f32 with subnormal numbers.
if "$divvy" plan small.dv | grep -q 'product pairs'; then
    expect 4 'undecided: for more than half' "$divvy" run small.dv --verify --random=1e-20..2e-20
else
    expect 0 '' "$divvy" run small.dv --verify --random=1e-20..2e-20
    has 'verify: ok'
fi

# What the program as written decides does not decide the run's own ops.
cat >lowered.dv <<'EOF'
input x: f32[64]
y[i] = 1 / (1e9*exp(x[i]) + 1 - 1e9*exp(x[i])) + max[k] x[k]
output y
EOF
expect 4 'undecided: for more than half' "$divvy" run lowered.dv --verify

# Sums of i8 are exact, and so are comparisons with them, whether kernels sum in
# i32 or, without instructions for i8, in f32.
cat >whole.dv <<'EOF'
input a: i8[16, 64]
input b: i8[64, 16]
input s: f32[16]
y[i,j] = select((sum[k] a[i,k] * b[k,j]) > 0, s[j], 1000.0)
output y
EOF
for cpu in avx2 avx512 neon; do
    DIVVY_CPU=$cpu expect 0 '' "$divvy" run whole.dv --verify
    has 'verify: ok, y is 0 off the oracle, 0 allowed'
done

# Kernels that differ in strides share only what they may.
cat >steps.dv <<'EOF'
input x: f32[600]
input y: f32[3000]
a[i,j] = max[k] x[2*i+2*j+k] * y[i+1001*k] for i in 0..100, j in 0..8, k in 0..2
b[i,j] = max[k] x[3*i+2*j+k] * y[i+1001*k] for i in 0..100, j in 0..8, k in 0..2
c[i,j] = max[k] x[5*i+2*j+k] * y[i+1001*k] for i in 0..100, j in 0..8, k in 0..2
d[i,j] = max[k] x[2*i+2*j+k] * y[i+1001*k] for i in 0..100, j in 0..8, k in 0..2
output a, b, c, d
EOF
for n in 1 2; do
    expect 0 '' "$divvy" run steps.dv --verify --threads $n
    has 'verify: ok'
done

# A long epilogue of a sum is run in the same way by threads and by a team.
long='sum[k] a[i,k] * b[k,j]'
for i in $(seq 95); do long="erf($long*1.1+s[j])"; done
printf 'input a: f32[17, 130] @ split(0)\ninput b: f32[130, 16]\ninput s: f32[16]\ny[i,j] = %s\noutput y\n' "$long" >long.dv
expect 0 '' "$divvy" run long.dv
hash=$(sed -n 's/.*hash //p' .out)
expect 0 '' "$divvy" run long.dv --team 2
has "hash $hash"

# What takes the oracle longer than the budget is sampled: both kinds of samples
# are counted. What it can do in time, and =full, compares all elements.
cat >layers.dv <<'EOF'
param N = 256
input x: f32[N, N]
input w: f32[N, N]
h[i,j] = relu(sum[k] x[i,k] * w[k,j])
y[i,j] = sum[k] h[i,k] * w[k,j]
output y
EOF
for how in '--threads 2' '--executor seq' '--team 2' '-t spyre'; do
    expect 0 '' "$divvy" run layers.dv --verify=1 $how
    has 'verify: ok, .* off the oracle, .* allowed; .*sampled [0-9]* of [0-9]* tiles* with [0-9]* elements* from their operands, and [0-9]* elements* of outputs from the inputs'
done
expect 0 '' "$divvy" run layers.dv --verify=1 --json
has '"samples": {"tiles": [0-9]*, "tiles_sampled": [0-9]*, "elements_from_operands": [0-9]*, "elements_from_inputs": [0-9]*, "missed": \['
expect 0 '' "$divvy" run layers.dv --set N=64 --verify=1 --json
has '"samples": null'
expect 0 '' "$divvy" run layers.dv --set N=100 --verify=full
has 'verify: ok, y is .* allowed$'
expect 0 '' "$divvy" einsum ij,jk,kl-\>il 300x300 300x300 300x300 --verify=0.5
has 'verify: ok, .* from the inputs'

# A plan whose ops are not the program as written.
expect 0 '' "$divvy" plan layers.dv --threads 2
sed '/^source/,/^}/s/relu(/abs(/' .out >other.plan
expect 4 'y\[.*\] differs from the oracle by .*, .* is allowed; it is .*, the oracle has .* from the inputs' "$divvy" run other.plan --verify=1
has 'verify: FAILED, y is .* sampled 2 of 2 tiles'

# A budget in which nothing can be done decides nothing, and says what it missed.
expect 4 'undecided: no element of y could be recomputed; try --verify=full' "$divvy" run layers.dv --threads 2 --verify=1e-9
has 'verify: undecided; sampled 0 of 2 tiles' '2 tiles of y (out of time)' 'y from the inputs (out of time)'
expect 4 'undecided' "$divvy" run layers.dv --verify=1e-9 --json
has '"missed": \[{"tensor": "[hy]", "tiles": [0-9]*, "why": "out of time"}'

# Nothing can be said of an output that is written through indices. The budget is
# kept without one that was given, too.
cat >scatter.dv <<'EOF'
input n: i32[64]
input u: f32[64]
param L = 1270
input x: f32[64, L]
s[i] = sum[k,l] x[i,k] * x[i,l]
u[n[i]] <- s[i]
output u
EOF
expect 4 'undecided: no element of u could be recomputed' "$divvy" run scatter.dv --verify=1
has 'not sampled: .*u .*(written through an index that is read)'
expect 4 'undecided: no element of u could be recomputed; try --verify=full' "$divvy" run scatter.dv --set L=2000 --verify
expect 0 '' "$divvy" run scatter.dv --set L=100 --verify=full
has 'verify: ok, u is .* allowed'

# The last iteration of a repeat is sampled, although it overwrites what it read.
# What could not be recomputed from the inputs is listed.
expect 0 '' "$divvy" run "$source/examples/wave.dv" --set T=100 --verify=1
has 'verify: ok, .* 0 elements of outputs from the inputs; not sampled: .*e from the inputs (out of time).*'

for value in x 0 -1 inf 1s; do
    expect 2 "takes full or seconds, not '$value'" "$divvy" run layers.dv --verify=$value
done
finish
