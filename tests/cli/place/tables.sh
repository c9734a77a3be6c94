#!/bin/sh
# S1 to S5: divvy place reads tables and writes offsets; every mistake has a
# message with its line and column.
. "$(dirname "$0")/../common.inc"
data=$source/tests/data/placement

# bad PATTERN TABLE [OPTION…]: the command exits with 1 and this message.
bad() {
    pattern=$1
    printf "$2" >t.csv
    shift 2
    expect 1 "$pattern" "$divvy" place t.csv -c 100 "$@"
}
# good TABLE [OPTION…]: the command succeeds; its output is in .out.
good() {
    printf "$1" >t.csv
    shift
    expect 0 '' "$divvy" place t.csv "$@"
}
# has PATTERN…: lines of .out match.
has() {
    for pattern in "$@"; do
        grep -q -- "$pattern" .out || complain "nothing like '$pattern' in the output"
    done
}

# -- Answers
good 'id,lower,upper,size\na,0,3,60\nb,3,5,60\n' -c 100 -o -
printf 'id,lower,upper,size,offset\na,0,3,60,0\nb,3,5,60,0\n' >want
cmp -s .out want || complain 'another table than expected'
good 'size,end,buffer,begin\r\n60,2,a,0\r\n60,4,b,3\r\n\r\nnot read\r\n' -c 100 -o -
has '^60,2,a,0,0$' '^60,4,b,3,0$'
good 'id,lower,upper,size,alignment\na,0,9,10,1\nb,0,9,10,64\n' -c 100 -o -
has '^a,0,9,10,1,[0-9]*$' '^b,0,9,10,64,\(0\|64\)$'
good 'id,lower,upper,size,offset,hint\na,0,9,10,90,5\nb,0,9,90,-1,5\n' -c 100 -o -
has '^a,0,9,10,90,5$' '^b,0,9,90,0,5$'
good 'id,lower,upper,size\na,0,3,60\n' -c 1KiB
has '1 of 1 buffer placed, 60 of 1024 bytes used'
good 'id,lower,upper,size\n' -c 10
has '0 of 0 buffers placed'
good 'id,lower,upper,size\na,0,4,10\nb,0,4,10\n' -c 200 --align 64 -o -
has ',64$' ',0$'
good 'id,lower,upper,size,colour\na,0,3,60,red\n' -c 100
grep -q "warning\\[column\\]: column 'colour' is not used" .err || complain 'no warning of a column'
cp "$data/input.12.csv" .
expect 0 '' "$divvy" place input.12.csv
has '5 of 5 buffers placed, 12 of 12 bytes (as its name says) used'
"$divvy" place - -c 12 -o - <input.12.csv >.out 2>.err || complain 'standard input'
has '^b5,0,21,4,'

# -- What does not fit
three='id,lower,upper,size,weight\na,0,4,40,1\nb,0,4,40,9\nc,0,4,40,5\n'
printf "$three" >t.csv
expect 3 'error\[capacity\]: 120 bytes are alive at once, the capacity is 100' "$divvy" place t.csv -c 100
expect 3 't.csv:2:1: error\[capacity\]: a cannot be placed: larger than the capacity: 40 > 30' "$divvy" place t.csv -c 30
expect 3 'there is no place for all in 100 bytes; greedy leaves out 1 of 3 buffers\|alive at once' "$divvy" place t.csv -c 100 --solver greedy
good "$three" -c 100 --spill
has '2 of 3 buffers placed' 'left out: a, 40 bytes: no room' 'weight of 14, at most 14 '
good "$three" -c 100 --spill -o -
has '^a,0,4,40,1,-1$'
good "$three" -c 100 --spill --json
has '"fits": false' '"value": 14' '"bound": 14' '"gap": 0' '"left_out": 1' '"time_ms": ' '"steps": ' \
    '"id": "a".*"offset": null, "reason": "no room"' '"peak": 80' '"load": 120' '"solver": "'
good "$three" --minimize --json
has '"capacity": 120' '"bound": 120' '"fits": true'
good "$three" --minimize
has 'in 120 bytes, the least'
for solver in auto exact anneal bestfit firstfit greedy; do
    good "$three" -c 100 --spill --solver $solver
    has '2 of 3 buffers placed'
done
good 'id,lower,upper,size,barred\na,0,3,60,it is read by others\n' -c 100 --spill
has 'left out: a, 60 bytes: it is read by others'
good 'id,lower,upper,size,parents\na,0,3,60,\nb,2,5,60,a\n' -c 60
has '2 of 2 buffers placed'
good 'id,lower,upper,size,group\na,0,3,60,1\nb,0,3,60,1\nc,0,3,50,\n' -c 100 --spill
has '1 of 3 buffers placed' 'left out: a, 60 bytes: no room for its group'
good 'id,lower,upper,size,uses\na,0,9,100,0w 1 2 6w 7 8\nb,3,6,100,3w 4 5\n' -c 100 --evict --json
has '"id": "a", "lower": 0, "upper": 3, "offset": 0' '"id": "a", "lower": 6, "upper": 9, "offset": 0' \
    '"id": "b", "lower": 3, "upper": 6, "offset": 0' '"gap": 0'

# -- The hard instances; the same call gives the same answer
for name in A B C D F H K; do
    expect 0 '' "$divvy" place "$data/$name.1048576.csv" -o $name.csv
    expect 0 '' "$divvy" place "$data/$name.1048576.csv" -o again.csv
    cmp -s $name.csv again.csv || complain "$name: another answer the second time"
    # The written table, in which all buffers are fixed, fits.
    expect 0 '' "$divvy" place $name.csv -c 1048576
    rm $name.csv again.csv
done
expect 0 '' "$divvy" place "$data/C.1048576.csv" --minimize
has 'in 1039360 bytes, the least'
# The topmost buffer need not end at a multiple of an alignment.
least() { # BYTES ROWS
    printf 'id,lower,upper,size,alignment\n%b\n' "$2" >aligned.csv
    expect 0 '' "$divvy" place aligned.csv --minimize
    has "in $1 bytes, the least"
    expect 0 '' "$divvy" place aligned.csv -c "$1"
    expect 0 '' "$divvy" place aligned.csv --minimize --json
    has '"gap": 0,'
    rm aligned.csv
}
least 15 '0,7,11,8,8\n1,5,10,7,2'
least 21 '0,2,3,4,4\n1,1,6,5,8\n2,3,6,16,8'
least 5 '0,0,2,2,4\n1,0,2,3,2'
least 5 '0,0,1,3,2\n1,4,5,5,2'
# If the optimum is not proved, the gap is stated.
awk 'BEGIN { print "id,lower,upper,size"; for (i = 0; i < 1500; i++) { s = (s * 16807 + 11) % 2147483647; a = s % 1500
    s = (s * 16807 + 11) % 2147483647; l = s % 370; s = (s * 16807 + 11) % 2147483647; print i "," a "," a + 1 + l "," 500 + s % 1000000 } }' >many.csv
expect 0 '' "$divvy" place many.csv --minimize --budget 200000
has '1500 of 1500 buffers placed in [0-9]* bytes, [0-9]* are needed: at most [0-9.]*% above the least'
expect 0 '' "$divvy" place many.csv --minimize --budget 200000 --json
has '"gap": 0\.[0-9]*[1-9]'
rm many.csv
# 2000 buffers whose optimum cannot be proved quickly: the search ends after a
# bounded effort and states the gap.
expect 0 '' "$divvy" place "$data/../found/minimize_2000.csv" --minimize
has '2000 of 2000 buffers placed' 'at most 0\.[0-9]*% above the least'
steps=$(sed -n 's/.* \([0-9]*\) steps.*/\1/p' .out)
[ "${steps:-9999999}" -lt 2000000 ] || complain "minimize took $steps steps"

# -- Drawings
good "$three" -c 120 --svg t.svg --show
has '^ *120 |' '^ *0 |' '^ *tick' '^ *a: a, b: b'
grep -q '^<svg xmlns' t.svg && grep -q '<title>b: 40 bytes at ' t.svg && grep -q '^</svg>' t.svg ||
    complain 'no drawing'
good 'id,lower,upper,size\n<&">,0,3,60\n' -c 100 --svg -
has '<title>&lt;&amp;&quot;&gt;: 60'
rm t.svg

# -- Tables that are wrong
head='id,lower,upper,size\n'
bad 't.csv:1:1: error\[format\]: the first line must name the columns' ''
bad 't.csv:1:1: error\[format\]: the first line must name' '\na,0,1,1\n'
bad "error\\[format\\]: there is no column 'id'" 'lower,upper,size\n0,1,1\n'
bad "error\\[format\\]: there is no column 'lower'" 'id,upper,size\na,1,1\n'
bad "error\\[format\\]: there is no column 'size'" 'id,lower,upper\na,0,1\n'
bad "error\\[format\\]: there is no column 'upper' or 'end'" 'id,lower,size\na,0,1\n'
bad "error\\[format\\]: there are both 'upper' and 'end'" 'id,lower,upper,end,size\na,0,1,0,1\n'
bad "t.csv:1:10: error\\[format\\]: 'start' is there twice" 'id,lower,start,upper,size\na,0,0,1,1\n'
bad 't.csv:2:1: error\[format\]: 3 fields in a table of 4 columns' "${head}a,0,1\\n"
bad 't.csv:2:1: error\[format\]: 5 fields in a table of 4' "${head}a,0,1,2,3\\n"
bad 't.csv:3:7: error\[buffer\]: size is -4, not positive' "${head}a,0,1,1\\nb,0,1,-4\\n"
bad 't.csv:2:7: error\[buffer\]: size is 0, not positive' "${head}a,0,1,0\\n"
bad 't.csv:2:5: error\[buffer\]: upper is 3, lower is 3: the buffer never lives' "${head}a,3,3,1\\n"
bad 't.csv:2:5: error\[buffer\]: end is 2, lower is 3' 'id,lower,end,size\na,3,2,1\n'
bad 't.csv:2:23: error\[buffer\]: upper is 9, lower is 9223372036854775807: the buffer never lives' "${head}a,9223372036854775807,9,8\\n"
bad 'error\[buffer\]: upper is 9223372036854775807, lower is 9223372036854775807' "${head}a,9223372036854775807,9223372036854775807,8\\n"
bad 'error\[overflow\]: end is 2^63 - 1' 'id,lower,end,size\na,9223372036854775807,9223372036854775807,1\n'
bad "t.csv:2:7: error\\[format\\]: size must be a whole number, not '1.5'" "${head}a,0,1,1.5\\n"
bad "error\\[format\\]: size must be a whole number, not '0x10'" "${head}a,0,1,0x10\\n"
bad "error\\[format\\]: lower must be a whole number, not ''" "${head}a,,1,1\\n"
bad "error\\[format\\]: the id is empty" "${head},0,1,1\\n"
bad "t.csv:3:1: error\\[name\\]: id 'a' is there twice" "${head}a,0,1,1\\na,0,1,1\\n"
bad 'error\[overflow\]: size 9223372036854775808 does not fit 64 bits' "${head}a,0,1,9223372036854775808\\n"
bad 'error\[overflow\]: .*a number is beyond 2^60' "${head}a,0,1,9223372036854775807\\n"
bad 'error\[overflow\]: .*add up to more than 2^60' "${head}a,0,1,1152921504606846976\\nb,0,1,1152921504606846976\\n"
bad 'error\[buffer\]: alignment is 0, not positive' 'id,lower,upper,size,alignment\na,0,1,1,0\n'
bad 'error\[buffer\]: offset is -2' 'id,lower,upper,size,offset\na,0,1,1,-2\n'
bad 'error\[buffer\]: weight is -1' 'id,lower,upper,size,weight\na,0,1,1,-1\n'
bad 'error\[format\]: gaps are not supported' 'id,lower,upper,size,gaps\na,0,9,1,3-4\n'
bad "error\\[format\\]: a use is a tick, with a w if it writes, not '0r'" 'id,lower,upper,size,uses\na,0,1,1,0r\n'
bad 't.csv:2:1: error\[buffer\]: buffer a: uses must be strictly increasing, and 0 comes after 1' \
    'id,lower,upper,size,uses\na,0,2,1,1 0\n'
bad 'error\[buffer\]: buffer a: uses at 0..5 leave its lifetime, 0..1' 'id,lower,upper,size,uses\na,0,2,1,0 5\n'
bad "t.csv:2:10: error\\[name\\]: there is no buffer 'x'" 'id,lower,upper,size,parents\na,0,22,1,x\n'
bad 'error\[buffer\]: buffer b: its parent must end one tick after its start (2 != 3)' \
    'id,lower,upper,size,parents\na,0,2,1,\nb,2,3,1,a\n'
bad 'error\[buffer\]: buffer b: it has 2 bytes, its parent only 1' \
    'id,lower,upper,size,parents\na,0,3,1,\nb,2,5,2,a\n'
bad 't.csv:3:1: error\[buffer\]: buffer b: fixed at 4, it shares bytes with a, which is fixed at 0' \
    'id,lower,upper,size,offset\na,0,3,5,0\nb,2,4,5,4\n'
bad 'error\[buffer\]: buffer a: it ends at byte 101, the capacity is 100' \
    'id,lower,upper,size,offset\na,0,3,5,96\n'
bad 'error\[buffer\]: buffer a: its fixed address 3 is no multiple of its alignment 2' \
    'id,lower,upper,size,offset\na,0,3,5,3\n' --align 2
printf "${head}a,0,1,-4\\n" >t.csv
"$divvy" place t.csv -c 100 --json >.out 2>.err
judge 1 'size is -4' $? 'place --json'
has '"status": "buffer"' '"line": 2' '"column": 7'

# -- Calls that are wrong
printf "${head}a,0,1,4\\n" >t.csv
expect 2 'a table of buffers is needed' "$divvy" place
expect 2 '--capacity is needed' "$divvy" place t.csv
expect 2 "--capacity takes a number of bytes above 0, .*not '0'" "$divvy" place t.csv -c 0
expect 2 "not '-5'" "$divvy" place t.csv --capacity=-5
expect 2 "not '4XiB'" "$divvy" place t.csv --capacity=4XiB
expect 2 "not '1.5'" "$divvy" place t.csv --capacity=1.5
expect 2 '--solver takes auto, exact, anneal, bestfit, firstfit or greedy, not .best.' "$divvy" place t.csv -c 10 --solver best
expect 2 '--minimize finds a capacity for all' "$divvy" place t.csv -c 10 --minimize
expect 2 '--json lists them, -o cannot' "$divvy" place t.csv -c 10 --evict -o x.csv
expect 2 "--time-limit takes seconds, not 'soon'" "$divvy" place t.csv -c 10 --time-limit soon
expect 2 '--align takes' "$divvy" place t.csv -c 10 --align 0
expect 1 'missing.csv: error\[file\]' "$divvy" place missing.csv -c 10
expect 3 'error\[output\]' "$divvy" place t.csv -c 10 -o no/such/folder.csv
expect 0 '' "$divvy" place t.csv -c 10 --time-limit 0.5 --seed 7 --budget 1000
nothing_but t.csv want input.12.csv
finish
