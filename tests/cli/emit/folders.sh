#!/bin/sh
# Where divvy emit and divvy report write: odd places are named, and a failure
# leaves nothing behind.
. "$(dirname "$0")/../common.inc"

printf 'input x: f32[64]\ny[i] = x[i] + 1\noutput y\n' >p.dv
mkdir folder
all='p.dv folder file'
echo text >file

# A folder that exists, by a name that leaves no room for that of a file.
long=folder
while [ ${#long} -lt 1020 ]; do long=$long/.; done
for as in c object; do
    emit() { expect "$1" "$2" "$divvy" emit p.dv --as "$as" -o "$3"; }
    emit 2 'the name of the folder that is written is empty' ''
    emit 3 'make the folder none/out: the folder around it does not exist' none/out
    emit 3 'make the folder file: a file is in its place' file
    emit 3 'make the folder file/out: a file is in its place' file/out
    emit 3 'make the folder /dev/full: a file is in its place' /dev/full
    emit 3 'cannot make the folder /proc/out: ' /proc/out
    emit 2 'is too long' "$long"
done
# A folder that was made is removed if a file cannot be written.
expect 3 'out/rt.h: .* File too large' sh -c "ulimit -f 8; exec '$divvy' emit p.dv -o out"
# shellcheck disable=SC2086
nothing_but $all
[ -z "$(ls -A folder)" ] || complain "left in the folder: $(ls -A folder)"

# An object in a folder whose name has no letter or digit has another name.
for out in . folder/.. ./; do
    expect 0 '' "$divvy" emit p.dv --as object -o "$out"
    [ -s program.o ] && grep -q program_run program.h || complain "-o $out: no program.o"
    rm -f program.[cho]
done
expect 3 "'false' cannot compile out/out.c" env CC=false "$divvy" emit p.dv --as object -o out
[ "$(echo out/*)" = "out/out.c out/out.h" ] || complain "there is $(echo out/*)"
rm -r out

for option in --html --trace; do
    expect 3 'folder: error.* Is a directory' "$divvy" report p.dv $option folder
    expect 3 'none/p.html: error.* No such file' "$divvy" report p.dv $option none/p.html
    expect 3 'cannot write' "$divvy" report p.dv $option ''
    expect 2 'would replace the file that it reads' "$divvy" report p.dv $option p.dv
done
# shellcheck disable=SC2086
nothing_but $all
finish
