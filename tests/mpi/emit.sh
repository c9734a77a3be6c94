#!/bin/sh
# divvy emit --team: the C programs of the ranks, compiled with MPI's compiler
# and run under mpirun, give the bits of divvy run.
# emit.sh DIVVY SOURCE MPIRUN MPICC
divvy=$1
mpirun=$3
mpicc=$4
. "$(dirname "$0")/common.inc"
cd "$tmp" || exit 2
fail() {
    echo "FAILED: $*"
    cat err
    bad=1
}

# whole NAME SHAPE VARS: writes NAME.npy with small integers as f32.
whole() {
    printf 'input s: f32[%s]\nt[%s]: i32 = s[%s]\ny[%s]: f32 = t[%s]\noutput y\n' "$2" "$3" "$3" "$3" "$3" >whole.dv
    "$divvy" run whole.dv --random -4..4 --seed ${#2} --out y="$1.npy" >/dev/null 2>err || fail "cannot make $1"
}
# A stencil whose halos travel in every iteration, a product, and sums whose
# parts several ranks have; an input that no rank updates.
cat >p.dv <<'END'
param N = 12
input u: f32[N, 9]
input w: f32[9, 7]
repeat 3 {
    u[i,j] <- 0.25 * (u[i-1,j] + u[i+1,j] + u[i,j-1] + u[i,j+1])  for i in 1..N-1, j in 1..8
}
y[i,k] = sum[j] u[i,j] * w[j,k]
s[] = sum[i,k] y[i,k]
m[] = max[i,k] y[i,k]
output u, y, s, m
END
whole u 12,9 i,j
whole w 9,7 i,j
"$divvy" run p.dv --in u=u.npy --in w=w.npy --out u=want_u.npy --out y=want_y.npy \
    --out s=want_s.npy --out m=want_m.npy >/dev/null 2>err || fail 'divvy run'
"$divvy" emit p.dv --grid 2x2 -o out 2>err || fail 'emit'
"$mpicc" -std=c11 -DRT_MPI out/program.c out/rank_*.c -lm -o prog 2>err || fail 'the ranks do not compile'
# shellcheck disable=SC2086
timeout 60 "$mpirun" $more -n 4 ./prog u=u.npy w=w.npy u=got_u.npy y=got_y.npy \
    s=got_s.npy m=got_m.npy >out.txt 2>err || fail 'the ranks do not run'
for x in u y s m; do cmp want_$x.npy got_$x.npy || fail "another $x than divvy run's"; done
# A team of another size than the program's is refused by rank 0.
# shellcheck disable=SC2086
timeout 60 "$mpirun" $more -n 2 ./prog u=u.npy w=w.npy >out.txt 2>err && fail '2 processes of 4'
grep -q 'for 4 processes, not 2' err || fail 'no reason for 2 processes'
exit $bad
