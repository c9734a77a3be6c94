#!/bin/sh
# A time limit that ends the search leaves a valid plan, which says so in its
# text and its JSON; without one, or with one that is not reached, nothing is
# said.
. "$(dirname "$0")/../common.inc"
program=$source/tests/programs/graphs/transformer_block_S512.dv
said='^# time limit: it ended the search'

for how in '-t spyre' '-t spyre --joint seed' "-t $source/tests/choices/avx2.dv"; do
    # shellcheck disable=SC2086
    expect 0 '' "$divvy" plan "$program" $how --time-limit 0.000000001 -o cut.plan
    grep -q '^scratch .* cut_short {' cut.plan || complain "$how: no word cut_short"
    grep -q "$said" cut.plan || complain "$how: no comment"
    # The plan is read, checked and printed with the same text.
    expect 0 '' "$divvy" plan cut.plan -o again.plan
    cmp -s cut.plan again.plan || complain "$how: it is printed otherwise"
    # shellcheck disable=SC2086
    expect 0 '' "$divvy" plan "$program" $how --time-limit 0.000000001 --json -o cut.json
    grep -q '"cut_short": true' cut.json || complain "$how: nothing in the JSON"
done
# Where nothing is searched, the limit changes nothing, and nothing is said.
expect 0 '' "$divvy" plan "$program" -t spyre --joint off -o off.plan
expect 0 '' "$divvy" plan "$program" -t spyre --joint off --time-limit 0.000000001 -o cut.plan
cmp -s off.plan cut.plan || complain "--joint off: another plan"
expect 0 '' "$divvy" plan "$program" -t spyre --time-limit 1000 -o long.plan
expect 0 '' "$divvy" plan "$program" -t spyre --time-limit 1000 --json -o long.json
! grep -q 'cut_short\|time limit' long.plan long.json || complain "1000 s were not enough"

# A plan that is planned again without a limit forgets the word, one of which
# only later passes are run keeps it.
expect 0 '' "$divvy" plan "$program" -t spyre --time-limit 0.000000001 -o cut.plan
expect 0 '' "$divvy" plan cut.plan --start-at joint -o whole.plan
! grep -q cut_short whole.plan || complain "the word stays"
expect 0 '' "$divvy" plan cut.plan --start-at grid -o kept.plan
grep -q cut_short kept.plan || complain "the word is lost"

# What was found by then is right.
small=$source/examples/attention.dv
expect 0 '' "$divvy" run "$small" -t spyre --set S=64 --time-limit 0.000000001 --verify
has 'verify: ok'
# The plans of a team are cut short as well.
expect 0 '' "$divvy" plan "$small" -t spyre --team 2 --time-limit 0.000000001
has ' cut_short {' "$said"
finish
