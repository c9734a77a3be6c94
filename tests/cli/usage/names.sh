#!/bin/sh
# An option that names something which does not exist is answered with the name
# that was meant or, if none is similar, with those that there are.
. "$(dirname "$0")/../common.inc"
cat >p.dv <<'END'
param rows = 8
param K = 4
input x: f32[rows, K]
input weights: f32[K]
scores[i,j] = x[i,j] * weights[j]
output scores
END
for c in check plan run emit; do
    out=
    [ $c = emit ] && out='-o out'
    # shellcheck disable=SC2086 # two words
    expect 2 "no param row to set; did you mean 'rows'?" "$divvy" $c p.dv --set row=3 $out
    # shellcheck disable=SC2086 # two words
    expect 2 'no param Q to set; there are rows, K$' "$divvy" $c p.dv --set Q=3 $out
done
expect 2 "no param MM to set; did you mean 'M'?" "$divvy" plan "$source/examples/matmul.dv" --set MM=3
printf 'input x: f32[2]\noutput x\n' >none.dv
expect 2 'no param N to set$' "$divvy" check none.dv --set N=3
# A list that is too long is cut.
for i in 1 2 3 4 5 6 7 8 9; do
    echo "param a_rather_long_name_$i = $i"
done >many.dv
printf 'input x: f32[2]\noutput x\n' >>many.dv
expect 2 'no param N to set; there are a_rather_long_name_1, .*_5, \.\.\.$' "$divvy" check many.dv --set N=3
for pin in score:i=2 score.kernel=strip score.tile=i:2; do
    expect 2 "pin $pin: the plan has no such op; did you mean 'scores'?" "$divvy" plan p.dv --pin $pin
done
for pin in z:i=2 z.kernel=strip; do
    expect 2 "pin $pin: the plan has no such op; there is scores " "$divvy" plan p.dv --pin $pin
done
for pin in scores:q=2 scores.tile=q:2; do
    expect 2 "pin $pin: op scores has no such variable; there are i, j " "$divvy" plan p.dv --pin $pin
done
expect 2 'the size of a tile along i is a whole number from 1 to 8 ' "$divvy" plan p.dv --pin scores.tile=i:9
expect 2 'it takes a variable of scores and a size' "$divvy" plan p.dv --pin scores.tile=9
expect 2 "weight cannot be a constant: there is no such tensor; did you mean 'weights'?" \
    "$divvy" plan p.dv --const weight
expect 2 'q cannot be a constant: there is no such tensor; there are x, weights ' "$divvy" plan p.dv --const q
expect 2 'bar op:q: the plan has no such op; there is scores ' "$divvy" plan p.dv -t spyre --bar op:q
expect 2 'bar q: the plan has no such tensor; there are x, weights, scores ' "$divvy" plan p.dv -t spyre --bar q
expect 2 "there is no operation owner_off; did you mean 'owner_of'?" "$divvy" dist owner_off n=1
expect 2 'there is no operation frobnicate; divvy dist alone lists them' "$divvy" dist frobnicate

# Instruction sets are listed in the same words wherever one is unknown.
expect 2 "DIVVY_CPU is 'avx9'; there are: .*" env DIVVY_CPU=avx9 "$divvy" check p.dv
sets=$(sed -n 's/.*; there are://p' .err)
case $sets in *' neon '*' avx2') ;; *) complain "sets:$sets" ;; esac
sed 's/"avx2"/"avx9"/' "$source/tests/choices/avx2.dv" >avx9.dv
expect 1 "there are no kernels for the instruction set 'avx9'; there are:$sets" "$divvy" plan p.dv -t avx9.dv
finish
