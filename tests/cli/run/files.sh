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

# No two outputs are one file, and none is a file that is read, however the
# paths are spelled and whether or not the files exist yet.
printf 'input x: f32[4]\ny[i] = x[i] * 2.0\nz[i] = x[i]\noutput y, z\n' >two.dv
mkdir -p sub
ln -s s.npy link.npy
for other in ./s.npy "$PWD/s.npy" sub/../s.npy link.npy; do
    expect 2 'the same file twice' "$divvy" run two.dv --out y=s.npy --out "z=$other"
    [ -e s.npy ] && complain "y=s.npy, z=$other: a file was written"
done
: >s.npy
expect 2 'the same file twice' "$divvy" run two.dv --out y=s.npy --out z=./s.npy
"$divvy" targets spyre >own.dv
expect 2 'would replace the target' "$divvy" plan two.dv -t own.dv -o ./own.dv
expect 2 'would replace the target' "$divvy" run two.dv -t own.dv --out y=own.dv
expect 2 'would replace the target' "$divvy" einsum 'i->i' 4 -t own.dv -o own.dv
expect 2 'would replace the output of -o' "$divvy" place "$source/tests/data/placement/A.1048576.csv" -o q1 --svg ./q1

# Files of a user whose names are like those of temporary files are kept.
for ending in backup old-v1 0123456789abcdef; do echo keep >"r.npy.divvy-$ending"; done
expect 0 '' "$divvy" run two.dv --out y=r.npy
for ending in backup old-v1 0123456789abcdef; do
    [ -s "r.npy.divvy-$ending" ] || complain "r.npy.divvy-$ending was removed"
done

# A limit on the size of files is an error, and leaves nothing behind.
printf 'input x: f32[1000000]\ny[i] = x[i] * 2.0\noutput y\n' >large.dv
expect 3 'File too large' sh -c "ulimit -f 1000; exec '$divvy' run large.dv --out y=large.npy"
ls large.npy* >/dev/null 2>&1 && complain 'a temporary file is left behind'
finish
