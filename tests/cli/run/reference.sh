#!/bin/sh
# O1: results are verified against the program as written, with rounding only
# where the language has it, and integers that are exact in 64 bits.
. "$(dirname "$0")/../common.inc"
data=$2/tests/data/found

# -- Reducers that are computed first ----------------------------------------
# A sum of f16 inside an expression is an f32, because it is not stored.
cat >hoisted.dv <<'END'
input h: f16[1000]
input x: f32[4]
y[i]: f32 = x[i] / (sum[k] h[k])
w[]: f32 = (sum[k] h[k]) * 1.0
output y, w
END
cat >rows.dv <<'END'
input x: f16[4, 1000]
y[i,j]: f32 = x[i,j] / (sum[k] x[i,k])
output y
END
cat >mean.dv <<'END'
input x: bf16[2, 1000]
y[i,j]: f32 = x[i,j] - (mean[k] x[i,k])
m[i]: f32 = mean[k] x[i,k]
output y, m
END
for executor in threads seq sim; do
    expect 0 '' "$divvy" run hoisted.dv --in h="$data/h.npy" --in x="$data/x.npy" \
        --executor $executor --verify
    has 'y: f32\[4\]  sum 9.99999[0-9]*e-05\|y: f32\[4\]  sum 0.0001 ' 'w: f32\[\]  sum 100000 ' 'verify: ok'
    expect 0 '' "$divvy" run rows.dv --random 80..120 --executor $executor --verify
    has 'y: f32\[4, 1000\]  sum \(3.999999\|4.000000\|4 \)' 'verify: ok'
    expect 0 '' "$divvy" run mean.dv --in x="$data/bx.npy" --executor $executor --verify
    has 'verify: ok'
done
expect 0 '' "$divvy" run rows.dv -t wormhole --random 80..120 --verify
has 'sum \(3.999999\|4.000000\|4 \)' 'verify: ok'

# O1: a plan that stores the sum in f16 fails, although it computes its own ops
# correctly.
"$divvy" plan rows.dv --stop-after lower >p.plan 2>.err
sed '/^program/,/^}/s/y_1\[i\]: f32/y_1[i]: f16/' p.plan >narrow.plan
if cmp -s p.plan narrow.plan; then complain 'the plan has no y_1'; fi
expect 0 '' "$divvy" plan narrow.plan --start-at layout
cp .out narrow.plan
expect 4 'y.* differs from the oracle' "$divvy" run narrow.plan --random 80..120 --verify
# O1: without the section `source` a plan can only be compared with its own ops,
# and the message says so.
sed '/^source {/,/^}/d' narrow.plan >alone.plan
expect 0 '' "$divvy" run alone.plan --random 80..120 --verify
has 'verified against its own ops only'
expect 0 '' "$divvy" run alone.plan --random 80..120 --verify --json
has '"reference": "own ops"'

# For a machine that stores intermediate results in the program's types, the
# message names the rounding that was allowed for, or says that nothing can be
# decided.
expect 0 '' "$divvy" run rows.dv -t spyre --random 0..1 --verify
has 'verify: ok' 'may be rounded to f16'
expect 4 'undecided: for more than half' "$divvy" run rows.dv -t spyre --random 80..120 --verify
has 'verify: undecided' 'may be rounded to f16'
expect 0 '' "$divvy" run rows.dv -t spyre --random 0..1 --verify --json
has '"intermediates_rounded_to": "f16"'

# -- The section of a plan -----------------------------------------------------
"$divvy" plan rows.dv >p.plan 2>.err
"$divvy" plan p.plan >q.plan 2>.err
cmp -s p.plan q.plan || complain 'a plan with its source does not read back'
sed '/^source/,/^}/s/y\[i,j\]/z[i,j]/;/^source/,/^}/s/output y/output z/' p.plan >other.plan
expect 4 'section source has the output z, section program has none' "$divvy" plan other.plan
sed '/^source/,/^}/s/f16\[4, 1000\]/f16[4, 2000]/' p.plan >other.plan
expect 4 'section source has the input x, section program has none' "$divvy" plan other.plan
sed '/^source/,/^}/s/sum\[k\]/max[k]/' p.plan >other.plan
expect 4 'y.* differs from the oracle' "$divvy" run other.plan --random 1..2 --verify
{ cat p.plan; sed -n '/^source/,/^}/p' p.plan; } >other.plan
expect 1 'a second section source' "$divvy" plan other.plan
# Two reducers may have variables with the same name and different ranges.
cat >names.dv <<'END'
input x: f32[8, 3]
input z: f32[4]
y[i] = (sum[l] x[2*l,i]) + (sum[l] z[l] * 3) + (sum[l] 1 * z[3-l]) for i in 0..3
t[i] = (sum[k] x[2*i,k]) * (max[k] x[2*k+1,i]) * (max[k] x[k,i]) for i in 0..3
output y, t
END
"$divvy" plan names.dv >p.plan 2>.err
judge 0 '' $? 'plan of shared names'
expect 0 '' "$divvy" run p.plan --verify
has 'verify: ok'
case $(cat .out) in *'own ops only'*) complain 'the source is lost' ;; esac

# -- Integers ------------------------------------------------------------------
# The oracle is exact beyond 2^53, and so are the executors.
cat >wide.dv <<'END'
input a: i64[4]
y[i] = a[i] + 1
b[i]: i64 = a[i] * 3037000499 + (a[i] > 1099511627775)
s[]: i64 = sum[i] a[i] * a[i]
f[i]: f64 = (a[i] * a[i] - a[i] * a[i] + a[i]) * 0.5
output y, b, s, f
END
for executor in threads seq sim; do
    expect 0 '' "$divvy" run wide.dv --in a="$data/i64.npy" --executor $executor --verify
    has 'y: i64\[4\] ' 'verify: ok'
done
# An integer product in a float expression keeps its last digits.
cat >mixed.dv <<'END'
input a: i64[4]
d[i]: f64 = (a[i] * 8193 + 1 - a[i] * 8193) * 1.0
e[i]: f64 = select(a[i] * 8193 + 1 > a[i] * 8193, 1.5, 2.5)
output d, e
END
for executor in threads seq sim; do
    expect 0 '' "$divvy" run mixed.dv --in a="$data/i64.npy" --executor $executor --verify
    has 'd: f64\[4\]  sum 4 ' 'e: f64\[4\]  sum 6 ' 'verify: ok'
done
# The larger of an integer and an f16 need not be an f16.
cat >larger.dv <<'END'
input a: i32[4, 8]
input h: f16[4, 8]
input c: f32[4, 16]
t[i,k]: i32 = a[i,k] * 10001
y[i,j]: f32 = c[i,j] * (max[k] max(t[i,k], h[i,k]))
z[i,j]: f32 = c[i,j] * (max[k] select(h[i,k] > 0, t[i,k], h[i,k]))
output y, z
END
for executor in threads seq sim; do
    expect 0 '' "$divvy" run larger.dv --executor $executor --verify
    has 'verify: ok'
done
# Floats combined with i32 are computed in f64: the tolerance is that of f64.
cat >meet.dv <<'END'
input a: i32[64]
t[i]: i32 = a[i] * 99999999
d[i]: f32 = t[i]
y[i]: f32 = t[i] - d[i]
output y
END
expect 0 '' "$divvy" run meet.dv --verify --json
has '"ok": true'
sed -n 's/.*"threshold": \([^,]*\),.*/\1/p' .out | awk '{ exit !($1 < 0.01) }' ||
    complain 'the tolerance of a difference of an i32 and an f32 is too large'
# A machine with 32-bit integers refuses a value that does not fit, by name and
# element.
printf 'input a: i64[4]\ny[i] = a[i] + 1\noutput y\n' >i64.dv
expect 1 'error\[overflow\]: a\[0\] is 1099511627776, and spyre stores i64 in 32 bits' \
    "$divvy" run i64.dv --in a="$data/i64.npy" -t spyre
printf 'input a: i32[4]\ninput b: i32[4]\ny[i]: i32 = max(a[i] * b[i], 0)\noutput y\n' >i32.dv
expect 1 'error\[overflow\]: y_1\[0\] is 4294967296, and spyre stores i64 in 32 bits' \
    "$divvy" run i32.dv --in a="$data/ia.npy" --in b="$data/ib.npy" -t spyre
expect 0 '' "$divvy" run i32.dv --in a="$data/ia.npy" --in b="$data/ib.npy" --verify
has 'verify: ok'
# A computed index is stored, too.
cat >index.dv <<'END'
input a: i32[4]
input x: f32[8]
t[i]: i64 = a[i] * 1000000000000
y[i] = x[t[i]]
output y
END
expect 1 'error\[overflow\]: t\[[0-9]\] is [0-9-]*, and spyre stores i64 in 32 bits' \
    "$divvy" run index.dv -t spyre

# A bounded maximum of 64-bit integers has a neutral element that does not fit;
# of a tensor of i32 it is right.
printf 'input x: i64[8]\ny[i] = max[k <= i] x[k]  for i in 0..8\noutput y\n' >bound.dv
expect 1 'stores i64 in 32 bits; a max or min with a bound .* store its operand as i32 first' \
    "$divvy" run bound.dv -t spyre
printf 'input x: i64[8]\nz[k]: i32 = x[k]\ny[i] = max[k <= i] z[k]  for i in 0..8\noutput y\n' >bound.dv
expect 0 '' "$divvy" run bound.dv -t spyre --verify
has 'verify: ok'

# -- Long sums -----------------------------------------------------------------
# The bound of a long sum is a small part of the sum.
cat >long.dv <<'END'
param N = 4194304
input x: f32[N]
s[] = sum[i] x[i]
d[] = sum[i] x[i] * x[i]
output s, d
END
for executor in threads seq; do
    expect 0 '' "$divvy" run long.dv --random 0..1 --verify --json --executor $executor
    has '"ok": true'
    share=$(sed -n 's/.*"threshold": \([^,]*\),.*"values_reach": \([^,]*\),.*/\1 \2/p' .out |
        awk '{ print $1 < $2 / 16 ? "small" : "large" }')
    [ "$share" = small ] || complain 'the bound of a long sum says nothing'
done
finish
