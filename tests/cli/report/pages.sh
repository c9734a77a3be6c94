#!/bin/sh
# The pages and traces that commands write of plans: their bytes, limits and
# errors. What a browser makes of a page is tested by tests/report/pages.py.
# pages.sh DIVVY SOURCE
. "$(dirname "$0")/../common.inc"
softmax=$source/examples/softmax.dv

# A page is one file without references to others, the same each time.
"$divvy" plan "$softmax" --target spyre --html a.html >out || complain "plan --html"
[ -s out ] && complain "plan --html prints the plan as well"
"$divvy" plan "$softmax" --target spyre --html=b.html -o p.plan || complain "plan --html -o"
cmp -s a.html b.html && complain "the words of the command are not in the page"
"$divvy" plan "$softmax" --target spyre --html c.html
cmp a.html c.html || complain "two pages of a plan differ"
grep -q 'https\?://[^w]' a.html && complain "a page names an address"
grep -qi '<link\|@import\|src=' a.html && complain "a page refers to another file"
[ "$(grep -c '</script>' a.html)" = 2 ] || complain "not two scripts"

# What the user writes cannot end the element that it is in.
printf '# </script><script>alert(1)</script>\ninput x: f32[8]\ny[i] = x[i] + 1\noutput y\n' >'<b>.dv'
"$divvy" plan '<b>.dv' --target spyre --html d.html || complain "a file called <b>.dv"
[ "$(grep -c '</script>' d.html)" = 2 ] || complain "a comment ends the script"
grep -q '<b>' d.html && complain "a file's name is markup"
# The script of the page aside, the JSON has the comment.
grep -q 'u003c/script>' d.html || complain "the comment is not in the page"

# Other commands.
"$divvy" report p.plan --html e.html --trace e.json || complain "report"
"$divvy" report p.plan >f.html || complain "report to standard output"
cmp e.html f.html || complain "a page differs on standard output"
"$divvy" report p.plan p.plan --html g.html || complain "report of two plans"
grep -q '"other": {' g.html || complain "the other plan is missing"
"$divvy" run "$softmax" --html h.html --trace h.json >out || complain "run --html"
grep -q '"measured": {"executor": "threads", "seconds": ' h.html || complain "no measured time"
"$divvy" bench "$softmax" --seconds 0.01 --runs 1 --html i.html >out || complain "bench --html"
grep -q '"peak_gflops": ' i.html || complain "no measured peak"
grep -q '"basis": "measured"' i.html || complain "no measured groups"
"$divvy" run "$softmax" --target spyre --html j.html >out || complain "simulated run --html"
grep -q '"counted_us": 20.24' j.html || complain "no counted time"
"$divvy" plan "$source/examples/heat.dv" --team 6 --html k.html --trace k.json || complain "a team's page"

# The trace has an event for each op on each of 16 cores, and their waits.
[ "$(grep -o '"cat": "op"' e.json | wc -l)" = 80 ] || complain "not 5 ops on 16 cores"
for rank in 0 1 2 3 4 5; do
    grep -q "\"name\": \"rank $rank\"" k.json || complain "no rank $rank in the trace"
done

# Limits.
expect 1 'error\[limit\]: the page would have [0-9]* bytes without its details, more than the limit of 1000' \
    "$divvy" plan "$softmax" --target spyre --html l.html --html-limit 1000
"$divvy" plan "$softmax" --target spyre --html m.html --html-limit "$(($(wc -c <a.html) - 100))" ||
    complain "a page that is slightly too large"
grep -q '"left_out": \["what was weighed when ops were divided"\]' m.html || complain "nothing is left out"

# Mistakes.
cp "$softmax" s.dv
expect 2 '--html s.dv would replace the file that it reads' "$divvy" plan s.dv --html s.dv
expect 2 '--trace ./x.html would replace the page of --html' "$divvy" plan s.dv --html x.html --trace ./x.html
expect 2 'a plan or a program is needed' "$divvy" report
"$divvy" plan s.dv -o host.plan
expect 2 'a plan for host that was read has no predicted times' "$divvy" report host.plan --trace n.json
"$divvy" report host.plan --html n.html || complain "a page of a host plan that was read"
finish
