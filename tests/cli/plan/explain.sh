#!/bin/sh
# --explain says per op what the best plan costs that cuts it otherwise, and per
# tensor why it is resident, with the traffic that the JSON has, or why not.
. "$(dirname "$0")/../common.inc"
softmax=$source/examples/softmax.dv
expect 0 '' "$divvy" plan "$softmax" -t spyre --explain
cp .out text
expect 0 '' "$divvy" plan "$softmax" -t spyre --json
cp .out json

# Every op of this program has other divisions, which were compared.
ops=$(grep -c '^[a-z]*: .* on [0-9]* of 32 cores' text)
others=$(grep -c '^    the best of [0-9]* plans\{0,1\} that cuts\{0,1\} this op in another way takes ' text)
[ "$ops" = 5 ] && [ "$others" = "$ops" ] || complain "$ops ops, $others with another plan"

# Residents have a reason and what they save; x is read by two ops of which one
# load is saved.
[ "$(grep -c '^    + ' text)" = 5 ] || complain "not 5 residents"
grep '^    + ' text | grep -qv '; [0-9]* ops\{0,1\} reads\{0,1\} it there, which saves ' &&
    complain "a resident without a reason"
grep -q '^    + x .*; 2 ops read it there, which saves 1MiB$' text || complain "x: wrong reason"
grep -q '^    + e .*; 2 ops read it there, which saves 3MiB$' text || complain "e: wrong reason"
grep -q '^    - y  *[a-z]' text || complain "y: no reason"
grep -q '"saved_bytes": 1048576' json || complain "the JSON says something else of x"
grep -q '"saved_bytes": 3145728' json || complain "the JSON says something else of e"

# A resident that cores receive from each other, and one that passes on.
expect 0 '' "$divvy" plan "$source/examples/attention.dv" -t spyre --explain
has '^    + k_1 .*, passed to t; cores receive it from there, which saves '
finish
