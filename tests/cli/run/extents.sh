#!/bin/sh
# P1: numbers at the limits of 64 bits are accepted or refused with a reason,
# never wrapped around.
. "$(dirname "$0")/../common.inc"
max=9223372036854775807
echo 'target plain { cores = 2 grain = primitive }' >plain

program() {
    printf '%s\n' "$@" >x.dv
}

program "input x: i8[$max]" 'y[] = max[i] x[i]' 'output y'
expect 0 '' "$divvy" check x.dv
expect 0 '' "$divvy" plan x.dv -t ./plain
expect 3 'error\[nomem\]: the tensors need .*iB, this machine has' "$divvy" run x.dv -t ./plain
expect 3 'error\[nomem\]' "$divvy" run x.dv -t ./plain --verify
program 'input x: i8[9223372036854775808]' 'output x'
expect 1 'x.dv:1:13: error\[overflow\]' "$divvy" check x.dv
program "input x: i8[$max + 1]" 'output x'
expect 1 'x.dv:1:33: error\[overflow\]' "$divvy" check x.dv
program "input x: i8[-$max - 1]" 'output x'
expect 1 'error\[shape\]: an extent is at least 1, this is -9223372036854775808' "$divvy" check x.dv
program "input x: i8[-(-$max - 1)]" 'output x'
expect 1 'error\[overflow\]' "$divvy" check x.dv
program "input x: i8[(-$max - 1) / -1]" 'output x'
expect 1 'error\[' "$divvy" check x.dv
program "input x: i8[$max, 2]" 'output x'
expect 1 'error\[overflow\]' "$divvy" check x.dv
program "input x: i16[4611686018427387904]" 'output x'
expect 1 'error\[' "$divvy" check x.dv
program 'input x: f16[4611686018427387904]' 'output x'
expect 1 'error\[overflow\]' "$divvy" check x.dv
program 'input x: f16[4611686018427387903]' 'output x'
expect 0 '' "$divvy" check x.dv

# Ranges that are derived from accesses.
program "input x: i8[$max]" 'y[] = max[i] x[i - 1]' 'output y'
expect 1 'error\[overflow\]' "$divvy" check x.dv
program "input x: i8[$max]" "y[] = max[i] x[$max - i]" 'output y'
expect 1 'error\[overflow\]' "$divvy" check x.dv
program "input x: i8[$max]" "y[] = max[i] x[$max - 1 - i]" 'output y'
expect 0 '' "$divvy" check x.dv
program 'input x: i8[4]' "y[] = max[i] x[i - $max]" 'output y'
expect 1 'error\[' "$divvy" check x.dv
program 'input x: i8[4]' "y[] = max[i] x[$max * i]" 'output y'
expect 0 '' "$divvy" check x.dv
program 'input x: i8[4]' "y[] = max[i] x[$max * i + $max]" 'output y'
expect 0 '' "$divvy" check x.dv
program 'input x: i8[4]' "y[] = max[i] x[$max * i + $max + 1]" 'output y'
expect 1 'error\[overflow\]' "$divvy" check x.dv
program 'input x: i8[4]' "y[] = max[i] x[(-$max - 1) * i]" 'output y'
"$divvy" check x.dv >.out 2>.err
code=$?
[ $code = 0 ] || judge 1 'error\[' $code 'a factor of -2^63'

# The points of a statement, and of what lowering makes of it.
program 'input x: i8[3037000500]' 'y[] = max[i,j] (x[i] + x[j])' 'output y'
expect 1 'error\[overflow\]: .*points' "$divvy" check x.dv
program 'input x: i8[3037000499]' 'y[] = max[i,j] (x[i] + x[j])' 'output y'
expect 0 '' "$divvy" check x.dv
program 'input x: f64[3037000499]' 'y[] = max[i,j] (x[i] + x[j])' 'output y'
expect 1 'error\[overflow\]: .*bytes' "$divvy" check x.dv --grain primitive

# Repeats and --set.
program 'input x: i8[4]' "repeat $max { x[i] <- x[i] }" 'output x'
expect 0 '' "$divvy" check x.dv
program 'input x: i8[4]' "repeat $max { repeat $max { x[i] <- x[i] } }" 'output x'
expect 0 '' "$divvy" check x.dv
program 'param N = 4' 'input x: i8[N]' 'output x'
expect 0 '' "$divvy" check x.dv --set N=$max
expect 3 'error\[nomem\]' "$divvy" run x.dv -t ./plain --set N=$max
finish
