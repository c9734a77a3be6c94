#!/bin/sh
# Very deep, very long and very wide programs reach a limit, but never crash.
. "$(dirname "$0")/../common.inc"

# many N TEXT: prints TEXT N times.
many() {
    awk -v n="$1" -v t="$2" 'BEGIN { for (i = 0; i < n; i++) printf "%s", t }'
}
deep=100000
head='input a: f32[4]
y[i] = '
tail='
output y'

{ echo "$head$(many $deep '(')a[i]$(many $deep ')')$tail"; } >parens.dv
expect 1 'parens.dv:2:[0-9]*: error\[limit\]: .*200 levels' "$divvy" check parens.dv
{ echo "$head$(many $deep '(')"; } >open.dv
expect 1 'error\[limit\]' "$divvy" check open.dv
{ echo "$head"; many $deep 'a[i]+'; echo "a[i]$tail"; } >terms.dv
expect 1 'terms.dv:3:[0-9]*: error\[limit\]: .*1000 levels' "$divvy" check terms.dv
{ echo "$head$(many $deep '-')a[i]$tail"; } >minus.dv
expect 1 'error\[limit\]' "$divvy" check minus.dv
{ echo "$head$(many $deep 'exp(')a[i]$(many $deep ')')$tail"; } >calls.dv
expect 1 'error\[limit\]' "$divvy" check calls.dv
{ echo "$head$(many $deep 'a[')"; } >indices.dv
expect 1 'error\[limit\]' "$divvy" check indices.dv
{ echo "$head$(many $deep 'sum[k] ')a[i]$tail"; } >reducers.dv
expect 1 'error\[limit\]' "$divvy" check reducers.dv
{ echo 'input a: f32[4]'; many $deep 'repeat 2 { '; echo 'a[i] <- a[i]'; many $deep '}'; echo 'output a'; } >repeats.dv
expect 1 'repeats.dv:2:[0-9]*: error\[limit\]' "$divvy" check repeats.dv
{ many $deep 'repeat 2 { '; } >repeats.dv
expect 1 'error\[limit\]' "$divvy" check repeats.dv
{ echo "param N = $(many $deep '1+')1"; echo 'input a: f32[N]'; } >param.dv
expect 1 'error\[limit\]' "$divvy" check param.dv

# At the limits everything still works, in both grains, with right results.
{ echo "$head$(many 190 '(')a[i]$(many 190 ')')$tail"; } >p.dv
expect 0 '' "$divvy" run p.dv -t spyre --verify
{ echo "$head$(many 900 'a[i]+')a[i]$tail"; } >t.dv
expect 0 '' "$divvy" run t.dv -t spyre --verify
expect 0 '' "$divvy" run t.dv -t wormhole --verify
{ echo 'input a: i64[4]'; many 150 'repeat 1 { '; echo 'a[i] <- a[3 - i]'; many 150 '}'; echo 'output a'; } >r.dv
expect 0 '' "$divvy" run r.dv -t wormhole --verify
"$divvy" plan r.dv -t wormhole >r.plan 2>.err
judge 0 '' $? 'plan of deep repeats'
expect 0 '' "$divvy" run r.plan --verify

# Subnormal numbers have fewer digits; that is no error of the run.
printf 'input a: f32[4, 64]\ninput b: f32[64, 4]\ny[m,n] = sum[k] a[m,k] * b[k,n]\noutput y\n' >small.dv
expect 4 'undecided: for more than half' "$divvy" run small.dv --random 0..1e-22 --verify
for top in 1e-19 1e-21; do
    expect 0 '' "$divvy" run small.dv --random 0..$top --verify
done

# A line of 4 MB with an error at its end: the excerpt is cut around the caret.
{ printf 'input a: f32[4] '; many 250000 'temp b: f32[4] ' | head -c 4000000; printf ' ?'; } >line.dv
expect 1 'line.dv:1:[0-9]*: error\[' "$divvy" check line.dv
[ "$(wc -c <.err)" -lt 1000 ] || complain 'the excerpt of a long line is long'
{ printf 'input a: f32[4]\ny[i] = '; many 2000 ' '; printf '?\noutput y\n'; } >line.dv
expect 1 'line.dv:2:2008: error\[syntax\]' "$divvy" check line.dv
[ "$(wc -c <.err)" -lt 1000 ] || complain 'the excerpt of a long line is long'
caret=$(sed -n 3p .err | awk '{ print index($0, "^") }')
[ "$(sed -n 2p .err | cut -c "$caret")" = '?' ] || complain 'the caret of a long line is elsewhere'

# A name of 1 MB; many names that clash.
name=$(many 100 abcdefghij)
printf 'input %s: f32[4]\noutput %s\n' "$name" "$name" >name.dv
expect 0 '' "$divvy" check name.dv
{ printf 'input '; many 100000 abcdefghij; echo ': f32[4]'; echo 'output nothing'; } >name.dv
expect 1 'name.dv:2:8: error\[name\]: there is no tensor nothing' "$divvy" check name.dv
{ echo 'input a: f32[4]'; printf 'y[i] = a['; many 100000 abcdefghij; echo ']'; } >name.dv
expect 1 'name.dv:2:10: error\[name\]' "$divvy" check name.dv
[ "$(wc -c <.err)" -lt 1000 ] || complain 'a long name makes a long message'

# One statement with more reads than the limit.
awk 'BEGIN {
    print "input a: f32[3000]"
    print "y[] = 0.0"
    for (i = 0; i < 30; i++) {
        printf "y%d[] = ", i
        for (k = 0; k < 100; k++) printf "%sa[%d]", k ? "+" : "", 100 * i + k
        print ""
    }
    print "output y"
}' >reads.dv
expect 0 '' "$divvy" check reads.dv
awk 'BEGIN {
    print "input a: f32[3000]"
    printf "y[] = "
    for (i = 0; i < 40; i++) {
        printf "%s(", i ? "+" : ""
        for (k = 0; k < 50; k++) printf "%sa[%d]", k ? "+" : "", 50 * i + k
        printf ")"
    }
    print "\noutput y"
}' >reads.dv
expect 1 'reads.dv:2:[0-9]*: error\[limit\]: .*1024' "$divvy" check reads.dv
finish
