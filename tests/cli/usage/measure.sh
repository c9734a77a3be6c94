#!/bin/sh
# divvy targets --measure prints this machine as a description with measured
# rates; plans made for it run here and use them.
. "$(dirname "$0")/../common.inc"
expect 0 '' "$divvy" targets host --measure -o rates.dv
for property in mac_rate vector_rate memory_bandwidth; do
    grep -q "^ *$property *= [0-9.]*[kMGTP]*[A-Za-z]*/s" rates.dv ||
        complain "no $property: $(cat rates.dv)"
done
grep -q '^ *here *= yes' rates.dv || complain "it is not this machine"
# The rest is the target host.
expect 0 '' "$divvy" targets host -o host.dv
grep -v '^ *\(mac_rate\|vector_rate\|memory_bandwidth\) ' rates.dv >rest.dv
sed 's/ *= */ = /' host.dv >a
sed 's/ *= */ = /' rest.dv >b
cmp -s a b || complain "other properties differ"
# The description is read, and prints itself.
expect 0 '' "$divvy" targets rates.dv -o again.dv
cmp -s rates.dv again.dv || complain "the description is printed otherwise"

for program in matmul attention layernorm; do
    expect 0 '' "$divvy" run "$source/examples/$program.dv" -t rates.dv --verify
    has " on host: " '^verify: ok'
    ! grep -q simulated .out || complain "$program: not run on this machine"
done
expect 0 '' "$divvy" plan "$source/examples/layernorm.dv" -t rates.dv
has '^ *memory_bandwidth = ' '^ *mac_rate ' '^schedule {'

# Rates decide, of divisions and of groups on caches: scores of attention leave
# the cache only if computing is so slow that memory does not matter.
for limit in compute:mac_rate=1Mmac memory:memory_bandwidth=1MB; do
    sed "s|^}|    ${limit#*:}/s }|" "$source/tests/choices/avx2.dv" >${limit%%:*}.dv
done
for limit in compute memory; do
    expect 0 '' "$divvy" plan "$source/examples/attention.dv" -t $limit.dv --explain
    grep '^[a-z]*: .* us: ' .out | sed 's/ on .*//' >$limit.ops
    expect 0 '' "$divvy" plan "$source/examples/attention.dv" -t $limit.dv
    grep -c '^    group ops' .out >$limit.groups
done
! cmp -s compute.ops memory.ops || complain "the rates do not matter for divisions"
! cmp -s compute.groups memory.groups || complain "the rates do not matter for groups"

expect 2 "needs the name of a target" "$divvy" targets --measure
expect 2 "needs the name of a target" "$divvy" targets -o x.dv
expect 2 "spyre is another one" "$divvy" targets spyre --measure
expect 3 '' "$divvy" targets host --measure -o no/x.dv
finish
