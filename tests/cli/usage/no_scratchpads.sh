#!/bin/sh
# Options about scratchpads have no effect on a target that has caches: the
# command says so and does its work.
. "$(dirname "$0")/../common.inc"
program=$source/examples/softmax.dv
target=$source/tests/choices/avx2.dv
"$divvy" plan "$program" -t "$target" -o plain.plan || exit 1

# one_warning TEXT: the last command printed this warning and nothing else.
one_warning() {
    [ "$(cat .err)" = "divvy: warning[options]: $1 no effect: avx2 has no scratchpads" ] ||
        complain "not the one warning of $1"
}
for option in scratch=all scratch=reductions solver=greedy bar=e in-place=off clone-inputs=off ring=off \
    evict=off reorder=off recompute=off tenants=many; do
    expect 0 '' "$divvy" plan "$program" -t "$target" "--$option"
    one_warning "--${option%=*} has"
    # The plan keeps the word `tenants`, and nothing else of the option.
    sed 's/ tenants {/ {/' .out | cmp -s - plain.plan || complain "$option has an effect"
    expect 0 '' "$divvy" plan "$program" -t spyre "--$option"
    [ ! -s .err ] || complain "$option: a warning for a target with scratchpads"
done
expect 0 '' "$divvy" plan "$program" -t "$target" --evict off --ring off --solver exact
one_warning '--solver, --ring, --evict have'
for c in run 'bench --seconds 0 --runs 1' report; do
    # shellcheck disable=SC2086 # the command is several words
    expect 0 '--evict has no effect: host has no scratchpads' "$divvy" $c "$program" --evict off
done
expect 0 '--evict has no effect' "$divvy" plan plain.plan --start-at joint --evict off
expect 0 '' "$divvy" plan "$program" -t "$target"
[ ! -s .err ] || complain 'a warning without an option'

# With --scratch off, ops of a target with caches share no tiles.
expect 0 '' "$divvy" plan "$program" -t "$target" --scratch off
[ ! -s .err ] || complain 'a warning of --scratch off, which has an effect'
cmp -s .out plain.plan && complain '--scratch off has no effect'

# Cores on a ring share what they read, also without scratchpads.
printf 'target ring {\n    cores = 4\n    ring = yes\n    stick = 64\n}\n' >ring.dv
expect 0 '' "$divvy" plan "$program" -t ring.dv --ring off
[ ! -s .err ] || complain 'a warning of --ring on a target with a ring'
expect 0 '--evict has no effect: ring has no scratchpads' "$divvy" plan "$program" -t ring.dv --evict off
finish
