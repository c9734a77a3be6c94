#!/bin/sh
# P1: numbers at the limits of 64 bits are accepted or refused with a reason,
# never wrapped around.
. "$(dirname "$0")/../common.inc"
max=9223372036854775807
echo 'target plain { cores = 2 grain = primitive }' >plain

program() {
    printf '%s\n' "$@" >x.dv
}
accepts() { # LINE...
    program "$@"
    expect 0 '' "$divvy" check x.dv
}
refuses() { # PATTERN LINE...
    pattern=$1
    shift
    program "$@"
    expect 1 "$pattern" "$divvy" check x.dv
}

accepts "input x: i8[$max]" 'y[] = max[i] x[i]' 'output y'
expect 0 '' "$divvy" plan x.dv -t ./plain
expect 3 'error\[nomem\]: the tensors need .*iB, this machine has' "$divvy" run x.dv -t ./plain
expect 3 'error\[nomem\]' "$divvy" run x.dv -t ./plain --verify
refuses 'x.dv:1:13: error\[overflow\]' 'input x: i8[9223372036854775808]' 'output x'
refuses 'x.dv:1:33: error\[overflow\]' "input x: i8[$max + 1]" 'output x'
refuses 'error\[shape\]: an extent is at least 1, this is -9223372036854775808' "input x: i8[-$max - 1]" 'output x'
refuses 'error\[overflow\]' "input x: i8[-(-$max - 1)]" 'output x'
refuses 'error\[' "input x: i8[(-$max - 1) / -1]" 'output x'
refuses 'error\[overflow\]' "input x: i8[$max, 2]" 'output x'
refuses 'error\[' "input x: i16[4611686018427387904]" 'output x'
refuses 'error\[overflow\]' 'input x: f16[4611686018427387904]' 'output x'
accepts 'input x: f16[4611686018427387903]' 'output x'

# Ranges that are derived from accesses.
refuses 'error\[overflow\]' "input x: i8[$max]" 'y[] = max[i] x[i - 1]' 'output y'
refuses 'error\[overflow\]' "input x: i8[$max]" "y[] = max[i] x[$max - i]" 'output y'
accepts "input x: i8[$max]" "y[] = max[i] x[$max - 1 - i]" 'output y'
refuses 'error\[' 'input x: i8[4]' "y[] = max[i] x[i - $max]" 'output y'
accepts 'input x: i8[4]' "y[] = max[i] x[$max * i]" 'output y'
accepts 'input x: i8[4]' "y[] = max[i] x[$max * i + $max]" 'output y'
refuses 'error\[overflow\]' 'input x: i8[4]' "y[] = max[i] x[$max * i + $max + 1]" 'output y'
program 'input x: i8[4]' "y[] = max[i] x[(-$max - 1) * i]" 'output y'
"$divvy" check x.dv >.out 2>.err
code=$?
[ $code = 0 ] || judge 1 'error\[' $code 'a factor of -2^63'

# The points of a statement, and of what lowering makes of it.
refuses 'error\[overflow\]: .*points' 'input x: i8[3037000500]' 'y[] = max[i,j] (x[i] + x[j])' 'output y'
accepts 'input x: i8[3037000499]' 'y[] = max[i,j] (x[i] + x[j])' 'output y'
program 'input x: f64[3037000499]' 'y[] = max[i,j] (x[i] + x[j])' 'output y'
expect 1 'error\[overflow\]: .*bytes' "$divvy" check x.dv --grain primitive

# Repeats and --set.
accepts 'input x: i8[4]' "repeat $max { x[i] <- x[i] }" 'output x'
accepts 'input x: i8[4]' "repeat $max { repeat $max { x[i] <- x[i] } }" 'output x'
program 'param N = 4' 'input x: i8[N]' 'output x'
expect 0 '' "$divvy" check x.dv --set N=$max
expect 3 'error\[nomem\]' "$divvy" run x.dv -t ./plain --set N=$max
finish
