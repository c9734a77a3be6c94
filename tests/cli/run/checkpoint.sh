#!/bin/sh
# Checkpoints of a process that no mpirun started: it is a team of one.
. "$(dirname "$0")/../common.inc"

cat >heat.dv <<'EOF'
param N = 20
param T = 9
input u: f64[N]
repeat T { u[i] <- 0.5 * (u[i-1] + u[i+1]) for i in 1..N-1 }
output u
EOF
expect 2 '--timeout is for teams of processes: start them with mpirun -n P' "$divvy" run heat.dv --timeout 3

if ! "$divvy" run heat.dv --checkpoint state --every 4 >.out 2>.err; then
    grep -q 'built without MPI: install one' .err || complain "no checkpoint, and no reason"
    finish
fi
has 'checkpoint state, last written after 8 iterations'
hash=$(grep -o 'hash .*' .out)
expect 0 '' "$divvy" run heat.dv --resume state --verify
has 'resumed from state, where 8 iterations of the repeat were done' "$hash" 'verify: ok'
expect 0 '' "$divvy" run heat.dv
has "$hash"

# A plan must be one for a team, here of this process alone.
"$divvy" plan heat.dv -o alone.plan && "$divvy" plan heat.dv --team 1 -o one.plan && "$divvy" plan heat.dv --team 2 -o two.plan || complain plan
for option in '--resume state' '--checkpoint other'; do
    # shellcheck disable=SC2086 # the option is two words
    expect 2 'not for a team of processes, .*(divvy plan PROGRAM --team 1)' "$divvy" run alone.plan $option
    # shellcheck disable=SC2086
    expect 2 'for a team of 2, there is 1 rank$' "$divvy" run two.plan $option
done
expect 0 '' "$divvy" run one.plan --resume state
has "$hash"
# Without mpirun, its ranks are planned again for the threads that are asked for.
expect 0 '' "$divvy" run two.plan --threads 2 --verify
has "$hash" 'verify: ok'
rm alone.plan one.plan two.plan

# What does not fit is named, and nothing is left behind.
expect 1 'other params: it has N = 20, T = 9; this run has N = 20, T = 10' "$divvy" run heat.dv --set T=10 --resume state
grep -q 'rank' .err && complain "a process alone speaks of ranks"
printf 'input x: f64[4]\nrepeat 2 { x[i] <- 0.5 * x[i] }\noutput x\n' >half.dv
expect 1 'state: a checkpoint of another program' "$divvy" run half.dv --resume state
expect 1 'heat.dv: truncated' "$divvy" run heat.dv --resume heat.dv
sed 's/state 2/state 1/' state >old
expect 1 'old: a checkpoint of another version of divvy' "$divvy" run heat.dv --resume old
expect 2 '--team 3: there is 1 process; start them with mpirun -n 3' "$divvy" run heat.dv --team 3 --resume state
expect 3 'cannot write' "$divvy" run heat.dv --checkpoint nowhere/state
nothing_but heat.dv half.dv state old
finish
