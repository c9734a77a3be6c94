#!/bin/sh
# Input files that are no programs: one message each, immediately, and exit 1.
. "$(dirname "$0")/../common.inc"

: >empty.dv
expect 1 'empty.dv: error\[syntax\]: the program is empty' "$divvy" check empty.dv
expect 1 'the program is empty' "$divvy" plan empty.dv -t spyre
expect 1 'the program is empty' "$divvy" run empty.dv -t spyre

printf '   \n\t# nothing\n' >blank.dv
expect 1 'the program is empty' "$divvy" check blank.dv

printf '\177ELF\002\001\001\000\000\000' >binary.dv
expect 1 'binary.dv:1:1: error\[syntax\]: byte 0x7f' "$divvy" check binary.dv
printf 'input x: f32[4]\n\000output x\n' >zero.dv
expect 1 'zero.dv:2:1: error\[syntax\]: byte 0x00' "$divvy" check zero.dv
printf '\357\273\277input x: f32[4]\noutput x\n' >mark.dv
"$divvy" check mark.dv >.out 2>.err
code=$?
[ $code = 0 ] || judge 1 'mark.dv:1:1' $code 'a byte order mark'

mkdir folder
expect 1 'folder: error\[file\]: .*directory' "$divvy" check folder
expect 1 'folder: error\[file\]: .*directory' "$divvy" plan folder -t spyre
expect 1 'missing.dv: error\[file\]: cannot open the file: No such file' \
    "$divvy" check missing.dv
expect 1 'missing.dv: error\[file\]' "$divvy" run missing.dv -t spyre
expect 1 'error\[file\]' "$divvy" check ''
printf 'input x: f32[4]\noutput x\n' >good.dv
expect 1 'good.dv/x: error\[file\]' "$divvy" check good.dv/x
if [ "$(id -u)" != 0 ]; then
    cp good.dv secret.dv
    chmod 000 secret.dv
    expect 1 'secret.dv: error\[file\]: .*Permission denied' "$divvy" check secret.dv
fi

# A large file is refused by its size, an endless one once it is too long.
if dd if=/dev/zero of=large.dv bs=1 count=1 seek=1073741823 2>/dev/null; then
    expect 1 'large.dv: error\[limit\]: .*1 \{0,1\}GiB.*64 \{0,1\}MiB' \
        "$divvy" check large.dv
    expect 1 'large.dv: error\[limit\]' "$divvy" plan large.dv -t spyre
    expect 1 'large.dv: error\[limit\]' "$divvy" targets large.dv
    expect 1 'error\[f' "$divvy" run good.dv -t spyre --in x=large.dv
    rm large.dv
fi
if [ -c /dev/zero ]; then
    expect 1 '/dev/zero: error\[' "$divvy" check /dev/zero
fi

# Standard input is '-', in a pipe and from a file.
"$divvy" check good.dv 2>&1 | sed 's/^[^:]*: //' >file.txt
"$divvy" check - <good.dv 2>&1 | sed 's/^[^:]*: //' >stdin.txt
cmp -s file.txt stdin.txt || complain 'check - <good.dv differs'
cat good.dv | "$divvy" check - 2>&1 | sed 's/^[^:]*: //' >stdin.txt
cmp -s file.txt stdin.txt || complain 'cat good.dv | check - differs'
"$divvy" plan - -t spyre <good.dv >a.plan 2>.err
judge 0 '' $? 'plan - <good.dv'
"$divvy" plan - <a.plan >b.plan 2>.err
judge 0 '' $? 'plan - <a.plan'
cmp -s a.plan b.plan || complain 'a plan from standard input differs'
printf 'input x: f32[4]\nouput x\n' | "$divvy" check - >.out 2>.err
judge 1 ':2:1: error\[syntax\]' $? 'an error on standard input'
"$divvy" check - <&- >.out 2>.err
judge 1 'error\[' $? 'a closed standard input'
finish
