#!/bin/sh
# T1: for every program that comes with divvy printing is stable, and the text
# of its plan reads back as the same plan, on two machines.
. "$(dirname "$0")/../common.inc"
for f in "$source"/examples/*.dv "$source"/tests/programs/graphs/*.dv; do
    expect 0 '' "$divvy" check "$f" --print
    cp .out a.dv
    expect 0 '' "$divvy" check a.dv --print
    cmp -s .out a.dv || complain "$f: printing is not stable"
    for target in spyre wormhole; do
        expect 0 '' "$divvy" plan "$f" -t $target -o a.plan
        expect 0 '' "$divvy" plan a.plan -o b.plan
        cmp -s a.plan b.plan || complain "$f: its plan for $target reads back differently"
    done
done
finish
