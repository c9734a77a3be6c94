#!/bin/sh
# divvy bench compares the time of a program with the peak rate of the type that
# its largest op is computed in, and names that type. No time is judged.
. "$(dirname "$0")/../common.inc"
product() { # TYPE TYPE_OF_SUMS
    printf 'input a: %s[64, 64]\ninput b: %s[64, 64]\n' "$1" "$1"
    printf 'c[m,n]: %s = sum[k] a[m,k] * b[k,n]\noutput c\n' "$2"
}
timed() {
    "$divvy" bench "$@" --threads 1 --runs 1 --seconds 0 2>.err || complain "bench $*"
}
# field NAME FILE: prints a field of the JSON that bench writes.
field() {
    timed "$2" --json | sed -n "s/.*\"$1\": \"\\([a-z0-9]*\\)\".*/\\1/p" | head -n 1
}
for t in f32 f64 f16 bf16 i32; do
    product $t $t >$t.dv
done
product i8 i32 >i8.dv
# Two ops of different types: the one with more work decides.
printf 'input a: i8[8, 8]\ninput x: f64[64, 64]\ninput y: f64[64, 64]\n
c[m,n]: i32 = sum[k] a[m,k] * a[k,n]\nz[i,j] = x[i,j] * y[i,j] + x[i,j]\noutput c, z\n' >two.dv

# Does this machine have kernels? The listing of an op says so, without bench.
"$divvy" plan f32.dv --dump-after jit >.out 2>.err || complain 'plan --dump-after jit'
grep -q '^# op 0, c: ' .out || complain 'plan --dump-after jit does not list op 0'
kernels=yes
grep -q '^# op 0, c: .*no kernel' .out && kernels=no

# is TYPE PEAK FILE: the operands of FILE have this TYPE, and its time is compared
# with the peak of the type PEAK. Only a machine with kernels has a peak.
is() {
    found="$(field dtype "$3") $(field peak_dtype "$3")"
    [ "$found" = "$1 $2" ] || complain "$3: $found, not $1 $2"
    timed "$3" >.out
    if [ $kernels = no ]; then
        grep -q ' peak of ' .out && complain "$3: a peak without kernels"
        return
    fi
    grep -q " % of the $2 peak of " .out || complain "$3: $(sed -n 3p .out)"
    case $1 in
    "$2") grep -q 'is widened' .out && complain "$3: nothing is widened" ;;
    *) grep -q "($1 is widened)" .out || complain "$3: does not say that $1 is widened" ;;
    esac
}
is f32 f32 f32.dv
is f64 f64 f64.dv
is i32 i32 i32.dv
is f16 f32 f16.dv
is f64 f64 two.dv
printf 'input x: f32[4]\noutput x\n' >none.dv # a program without an op
timed none.dv >.out
# Narrow types: with the instructions for them, if the machine has these, and
# without.
if "$divvy" targets host | grep -q 'matrix *= yes' && [ -z "$DIVVY_CPU" ]; then
    is bf16 bf16 bf16.dv
    is i8 i8 i8.dv
fi
plain=neon
[ "$(uname -m)" = x86_64 ] && plain=avx2
export DIVVY_CPU=$plain # ignored where the machine does not have it
is bf16 f32 bf16.dv
is i8 i32 i8.dv
# With --ops there is one line for each group, which names all its ops.
timed two.dv --ops >.out
grep -q '^  group .* ops$' .out || complain 'bench --ops has no table'
for op in c z; do
    grep -q "^ .*[0-9] %.* $op\$" .out || complain "bench --ops: where is $op?"
done
timed two.dv --ops --json >.out
grep -q '"groups": \[' .out && grep -q '"end_op": 2, "seconds": ' .out || complain 'bench --ops --json'
# What comes before the first run, and the memory until the last.
timed two.dv --json >.out
grep -q '"ready_s": [0-9.e-]*[1-9]' .out && grep -q '"most_memory_bytes": [1-9][0-9]\{5,\}$' .out || complain 'bench --json: ready, memory'
timed two.dv >.out
grep -q '^  ready after [0-9.e-]* s of .*; at most [0-9.e+]* MB in memory$' .out || complain 'bench: ready, memory'
# A plan for a team is timed on a team: it moves the bytes that run moves.
printf 'input u: f64[30, 20]\nrepeat 4 {\nu[i,j] <- u[i-1,j] + u[i+1,j] + u[i,j] for i in 1..29, j in 0..20\n}\noutput u\n' >heat.dv
"$divvy" run heat.dv --team 3 >.out || complain 'run --team'
moved=$(sed -n 's/.*a team of 3: //p' .out)
timed heat.dv --team 3 >.out
grep -q 'executor team, 3 ranks, ' .out || complain 'bench --team: no ranks'
grep -q '^  compute .* s on rank [012], ' .out || complain 'bench --team: no time of computing'
grep -q "^  exchange .* s on rank [012], .*; $moved\$" .out || complain "bench --team: not $moved"
timed heat.dv --team 3 --json >.out
[ "$(grep -c '"exchange_s": .* "threads": 1}' .out)" = 3 ] || complain 'bench --team --json: not three ranks'
# The ranks of a plan are planned again for another number of threads.
"$divvy" plan heat.dv --team 3 -o team.plan || complain 'plan --team'
"$divvy" bench team.plan --threads 2 --runs 1 --seconds 0 >.out 2>.err || complain 'bench PLAN --threads'
grep -q '3 ranks, 2 threads each' .out || complain 'bench PLAN --threads: not two threads'
expect 2 'times one process' "$divvy" bench heat.dv --team 3 --ops
expect 2 'spyre is simulated' "$divvy" bench f16.dv -t spyre --ops
finish
