#!/bin/sh
# F1 to F9: divvy fuse reads problems and writes schedules; every mistake has a
# message with its line and column.
. "$(dirname "$0")/../common.inc"
cp "$source/tests/data/fuse/mlp.json" p.json

# -- Answers
expect 0 '' "$divvy" fuse p.json
has '^entry .* ops$' '^    0 .* 128,128,' 'p.json: 4 ops in [0-9]* entr[a-z]*, total [0-9.]*, bound [0-9.]*: at most' \
    'steps, ran in [0-9.e+-]* s, read in [0-9.e+-]* s$'
expect 0 '' "$divvy" fuse p.json --json -o s.json
has '"total": ' '"bound": ' '"gap": ' '"steps": ' '"read_ms": ' '"time_ms": ' '"entries": \[' \
    '"ops": \[.*"tile": \[128, .*"retained": \[.*"latency": '
grep -q '^{"subgraphs": \[\[' s.json || complain 'no subgraphs'
for key in granularities tensors_to_retain traversal_orders subgraph_latencies; do
    grep -q "^ \"$key\": \[" s.json || complain "no $key"
done
"$divvy" fuse - -o - <p.json >.out 2>.err || complain 'standard input'
cmp -s .out s.json || complain 'another schedule from standard input'
# Steps count, not time: the same schedule with any limit that is not reached.
expect 0 '' "$divvy" fuse p.json -o - --time-limit 1000
cmp -s .out s.json || complain 'another schedule with a time limit'
expect 0 '' "$divvy" fuse p.json --budget 1
has '4 ops in '
# The first schedule, too, ends its search when the time has passed: fewer steps
# than any budget takes, and a schedule that is written, and checked before.
steps() {
    "$divvy" fuse p.json --json -o "$@" 2>.err | sed -n 's/.*"steps": \([0-9]*\).*/\1/p'
}
full=$(steps t.json --budget 1)
cut=$(steps t.json --budget 1 --time-limit 0.000000001)
[ -n "$full" ] && [ -n "$cut" ] && [ "$cut" -lt "$full" ] || complain "$cut steps with no time, $full with any"
grep -q '"subgraphs": \[\[0\], \[1\], \[2\], \[3\]\]' t.json || complain 'ops were merged when the time had passed'
rm t.json
expect 0 '' "$divvy" fuse p.json --reading full --seed 7 --time-limit 0.5
if command -v python3 >/dev/null; then
    python3 -c 'import json; s = json.load(open("s.json")); assert len(set(map(len, s.values()))) == 1' ||
        complain 'the schedule is no JSON, or its lists differ in length'
fi

# -- Mistakes
# bad PATTERN OLD NEW: the problem with a text replaced is refused.
bad() {
    sed "s/$2/$3/" p.json >q.json
    expect 1 "$1" "$divvy" fuse q.json
}
bad 'q.json:1:1: error\[format\]: there is no field .widths.' '"widths"' '"width"'
bad 'q.json:2:14: error\[format\]: a whole number is needed' '128, 512, 128,' '"x", 512, 128,'
bad "q.json:3:14: error\\[format\\]: 'heights' has 2 items, not 7" '\[512, 128, 512, 512, 512, 512, 512\]' '[1, 2]'
bad 'q.json:4:15: error\[format\]: there is no tensor 9; there are 7' '\[\[0, 1\]' '[[9, 1]'
bad 'q.json:4:14: error\[format\]: the inputs of op 0 are not a list' '\[\[0, 1\]' '[7'
bad 'q.json:5:15: error\[format\]: op 0 must have one output' '\[\[3\], \[4\]' '[[], [4]'
bad 'q.json:6:18: error\[format\]: a number is needed' '\[1000, 200' '[true, 200'
bad 'q.json:7:16: error\[format\]: an op is a "MatMul" or "Pointwise"' '\["MatMul"' '["Softmax"'
bad "error\\[format\\]: 'native_granularity' has 1 items, not 2" '\[128, 128\]$' '[128]'
bad 'error\[shape\]: op 0 multiplies 512 x 128 by 128 x 512 and gives 512 x 64' '128, 512, 128, 512, 512' '128, 512, 128, 64, 512'
bad 'error\[name\]: op . reads what depends on its output' '\[5, 0\]' '[5, 6]'
bad 'error\[capacity\]: no schedule was found: some op does not fit 2 elements' 50000 2
bad 'error\[bounds\]: capacity 50000 and bandwidth 0 must be positive' '"slow_memory_bandwidth": 20' '"slow_memory_bandwidth": 0'
bad 'q.json: error\[bounds\]: bandwidth 9.99989e-321 is too small to divide by: it must be 1e-200 or more' '"slow_memory_bandwidth": 20' '"slow_memory_bandwidth": 1e-320'
bad 'error\[syntax\]' '^}' ']'
expect 1 'error\[file\]' "$divvy" fuse missing.json
expect 2 'a problem is needed' "$divvy" fuse
expect 2 "time-limit takes seconds, not 'soon'" "$divvy" fuse p.json --time-limit soon
expect 2 'would replace the problem that it reads' "$divvy" fuse p.json -o ./p.json
expect 2 'budget' "$divvy" fuse p.json --budgett 3
"$divvy" fuze p.json 2>&1 | grep -q "did you mean 'fuse'" || complain 'no suggestion'
nothing_but p.json q.json s.json
finish
