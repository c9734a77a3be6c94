#!/bin/sh
# V1 to V3: divvy choose reads the contest's problems and prints choices; every
# mistake has a message.
. "$(dirname "$0")/../common.inc"
data=$source/tests/data/choose/example.json

expect 0 '' "$divvy" choose "$data"
has '5 nodes, 5 edges' '^# cost 445, the least; 1 node of the search, ran in [0-9.e+-]* s, read in [0-9.e+-]* s$'
[ "$(tail -n 1 .out)" = '[0, 0, 2, 1, 0]' ] || complain 'another choice than expected'
sed 's/, *"usage_limit": 50/ /; s/^ "usage_limit": 50//; s/\]\]},$/]]}/' "$data" >free.json
sed 's/"usage_limit": 50/"usage_limit": null/' "$data" >free.json
expect 0 '' "$divvy" choose free.json --time-limit 2
has '^# cost 415, the least'
[ "$(tail -n 1 .out)" = '[0, 0, 1, 1, 0]' ] || complain 'another choice without a limit'
"$divvy" choose - <"$data" >.out 2>.err || complain 'standard input'
has '^# -: 5 nodes'
expect 0 '' "$divvy" choose "$data" --json --budget 1000
has '"nodes": 1' '"read_ms": ' '"cost": 445' '"bound": 445' '"optimal": true' '"strategies": \[0, 0, 2, 1, 0\]'
expect 0 '' "$divvy" choose "$data" -o solution.txt
has '^# cost 445, the least'
grep -q '^\[' .out && complain 'a solution beside the file'
[ "$(cat solution.txt)" = '[0, 0, 2, 1, 0]' ] || complain 'another solution in a file'
expect 0 '' "$divvy" choose "$data" -o -
[ "$(cat .out)" = '[0, 0, 2, 1, 0]' ] || complain 'more than the solution'

# -- Compressed files, where divvy was built with zlib and there is a gzip
if command -v gzip >/dev/null; then
    gzip -c "$data" >data.json.gz
    "$divvy" choose data.json.gz >.out 2>.err
    if ! grep -q 'without zlib' .err; then
        has '^# cost 445, the least'
        cat data.json.gz data.json.gz >twice.json.gz
        expect 1 'error\[syntax\]' "$divvy" choose twice.json.gz
        head -c 100 data.json.gz >short.json.gz
        expect 1 'error\[format\]: the gzip file is cut off' "$divvy" choose short.json.gz
        { head -c 60 data.json.gz; echo 'something else'; } >damaged.json.gz
        expect 1 'error\[format\]: the gzip file is' "$divvy" choose damaged.json.gz
        { cat data.json.gz; echo 'something else'; } >trailing.json.gz
        expect 1 'error\[format\]: the gzip file ends at byte [0-9]*, 15 bytes before the end of the file: remove what follows' \
            "$divvy" choose trailing.json.gz
        { cat data.json.gz; printf x; } >trailing.json.gz
        expect 1 'error\[format\]: the gzip file ends at byte [0-9]*, 1 byte before the end' "$divvy" choose trailing.json.gz
        head -c 70000000 /dev/zero | gzip -1 >zeros.json.gz
        expect 1 'error\[limit\]: the file has more than 67108864 bytes when it is unpacked' "$divvy" fuse zeros.json.gz
    fi
fi

# -- What has no solution
sed 's/"usage_limit": 50/"usage_limit": 49/' "$data" >tight.json
expect 3 'error\[capacity\]: every choice uses at least 50 at some time, the limit is 49' "$divvy" choose tight.json
sed 's/\[30, 40\]/[1000000000000000000, 2000000000000000000]/' "$data" >forbidden.json
expect 3 'error\[capacity\]: every choice has forbidden entries' "$divvy" choose forbidden.json

# -- Mistakes
printf '{"problem": {"nodes": {"costs": [[1], [x]]}}}' >bad.json
expect 1 'bad.json:1:40: error\[syntax\]: expected an integer' "$divvy" choose bad.json
costs=900000000000000000
printf '{"problem": {"nodes": {"intervals": [[0, 1], [0, 1], [0, 1], [0, 1], [0, 1], [0, 1]], "costs": [[%s], [%s], [%s], [%s], [%s], [%s]], "usages": [[0], [0], [0], [0], [0], [0]]}, "edges": {"nodes": [], "costs": []}, "usage_limit": 1}}' \
    $costs $costs $costs $costs $costs $costs >large.json
expect 2 'large.json: error\[usage\]: the largest costs up to node 5 add up to 5400000000000000000; their sum must stay below 2^62: scale' \
    "$divvy" choose large.json
expect 1 'error\[file\]' "$divvy" choose missing.json
expect 2 'a problem is needed' "$divvy" choose
expect 2 "takes seconds, not 'soon'" "$divvy" choose "$data" --time-limit soon
expect 2 'would replace the problem that it reads' "$divvy" choose "$data" -o "$data"
expect 2 'budget' "$divvy" choose "$data" --budgt 5
"$divvy" chose "$data" 2>&1 | grep -q "did you mean 'choose'" || complain 'no suggestion'
finish
