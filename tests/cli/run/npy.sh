#!/bin/sh
# Invalid .npy files: one message with both values, and exit 1. An emitted C
# program accepts and refuses the same files.
. "$(dirname "$0")/../common.inc"
printf 'input x: f32[2, 3]\ny[j,i] = x[i,j]\noutput x, y\n' >p.dv
expect 0 '' "$divvy" emit p.dv -t spyre --as c -o c
for cc in gcc clang cc; do
    command -v $cc >/dev/null && break
done
$cc -std=c11 -Wall -Wextra -Werror c/program.c -lm -o prog 2>.err || complain 'the emitted program does not compile'

# npy FILE HEADER DATA [VERSION]: writes a file; HEADER is shorter than 256
# bytes.
npy() {
    len=$(printf '%s' "$2" | wc -c)
    case ${4:-1} in
    1) printf '\223NUMPY\001\000' >"$1"; printf "\\$(printf %03o "$len")\\000" >>"$1" ;;
    2) printf '\223NUMPY\002\000' >"$1"; printf "\\$(printf %03o "$len")\\000\\000\\000" >>"$1" ;;
    *) printf "\\223NUMPY\\00$4\\000" >"$1"; printf "\\$(printf %03o "$len")\\000\\000\\000" >>"$1" ;;
    esac
    printf '%s' "$2" >>"$1"
    printf "$3" >>"$1"
}
run() {
    expect "$1" "$2" "$divvy" run p.dv -t spyre --in x=x.npy --out y=y.npy
    [ "$1" = 0 ] || [ ! -e y.npy ] || complain 'an output in spite of a bad input'
    ./prog x=x.npy y=z.npy 2>.err
    code=$?
    [ $code = "$1" ] || complain "the emitted program: exit $code, not $1"
    if [ "$1" = 0 ]; then
        cmp -s y.npy z.npy || complain 'the emitted program reads another tensor'
    else
        grep -q '^x.npy: ' .err || complain 'the emitted program names no file'
        [ ! -e z.npy ] || complain 'the emitted program has an output in spite of a bad input'
    fi
    rm -f y.npy z.npy
}
# 0 1 2 3 4 5 as f32.
six='\000\000\000\000\000\000\200\077\000\000\000\100\000\000\100\100\000\000\200\100\000\000\240\100'

npy x.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" "$six"
run 0 ''
npy x.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" "$six" 2
run 0 ''
"$divvy" run p.dv -t spyre --in x=x.npy | grep '  x:' >rows.txt
npy x.npy '{"shape":(2,3),"descr":"<f4","fortran_order":False}' "$six"
run 0 ''
# In Fortran order the columns of the same matrix follow each other.
npy x.npy "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }" \
    '\000\000\000\000\000\000\100\100\000\000\200\077\000\000\200\100\000\000\000\100\000\000\240\100'
run 0 ''
"$divvy" run p.dv -t spyre --in x=x.npy | grep '  x:' >columns.txt
cmp -s rows.txt columns.txt || complain "Fortran's order reads differently"

npy x.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }" "$six"
run 1 'x.npy: error\[format\]: the file holds f32\[3, 2\], x wants f32\[2, 3\]'
npy x.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }" "$six"
run 1 'f32\[6\], x wants f32\[2, 3\]'
npy x.npy "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }" "$six"
run 1 'i32\[2, 3\], x wants f32\[2, 3\]'
npy x.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0), }" ''
run 1 'f32\[2, 0\], x wants f32\[2, 3\]'
npy x.npy "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }" "$six"
run 1 "error\\[format\\]: .*big-endian ('>f4')"
npy x.npy "{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }" "$six"
run 1 "type '<c8' are not read"
npy x.npy "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }" "$six"
run 1 'error\[format\]: malformed header'

# Truncated, and too long.
npy x.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" '\000\000\000\000\000'
run 1 'truncated: the header promises 24 bytes of elements, the file has 5'
npy x.npy "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }" '\000\000\000\000\000'
run 1 'truncated: the header promises 24 bytes of elements, the file has 5'
npy x.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" "$six\\000"
run 1 'trailing bytes: .* promises 24 .* has 25'
: >x.npy
run 1 'error\[format\]: .*0 bytes'
printf '\223NUM' >x.npy
run 1 'error\[format\]'
printf '\223NUMPY\001\000\377\000{' >x.npy
run 1 'the header claims 255 bytes, the file has 1'
printf '\223NUMPY\002\000\377\377\377\377{' >x.npy
run 1 'the header claims 4294967295 bytes'
printf 'NUMPY and more' >x.npy
run 1 'no .npy file'
npy x.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" "$six" 3
run 1 'version 3.0 of the .npy format'

# Inconsistent and meaningless headers.
npy x.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }" "$six"
run 1 'error\[format\]'
npy x.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }" "$six"
run 1 'error\[format\]: .*64 bits'
npy x.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3), }" "$six"
run 1 'error\[format\]: .*-2'
npy x.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3" "$six"
run 1 'error\[format\]: malformed header'
npy x.npy "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2, 3), }" "$six"
run 1 'expected True or False'
npy x.npy "{'descr': '<f4', 'shape': (2, 3), }" "$six"
run 1 "the header has no 'fortran_order'"
npy x.npy "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" "$six"
run 1 "'descr' twice"
npy x.npy "{'descr': '<f4', 'order': 'C', 'fortran_order': False, 'shape': (2, 3), }" "$six"
run 1 "unknown key 'order'"
npy x.npy '' ''
run 1 'error\[format\]'

# With one dim both orders are the same. A scalar has the shape ().
printf 'input x: f32[6]\ny[i] = x[5 - i] for i in 0..6\noutput y\n' >p.dv
expect 0 '' "$divvy" emit p.dv -t spyre --as c -o c
$cc -std=c11 -Wall -Wextra -Werror c/program.c -lm -o prog 2>.err || complain 'the emitted program does not compile'
npy x.npy "{'descr': '=f4', 'fortran_order': True, 'shape': (6,), }" "$six"
run 0 ''
npy x.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (6), }" "$six"
run 1 'error\[format\]: malformed header'
npy x.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (), }" '\000\000\200\077'
run 1 'f32\[\], x wants f32\[6\]'
printf 'input x: f64[]\ninput a: i8[2]\ny[i] = x[] * a[i]\noutput y\n' >q.dv
expect 0 '' "$divvy" emit q.dv -t spyre --as c -o c
$cc -std=c11 -Wall -Wextra -Werror c/program.c -lm -o progq 2>.err || complain 'the emitted program does not compile'
npy q.npy "{'descr': '<f8', 'fortran_order': False, 'shape': (), }" '\000\000\000\000\000\000\360\077'
npy a.npy "{'descr': '|i1', 'fortran_order': False, 'shape': (2,), }" '\001\377'
./progq x=q.npy a=a.npy y=y.npy || complain 'a scalar is not read'
[ "$(tail -c 16 y.npy | od -An -tx1 | tr -d ' \n')" = 000000000000f03f000000000000f0bf ] || complain 'another scalar'
npy a.npy "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }" '\001\377'
./progq x=q.npy a=a.npy y=y.npy 2>/dev/null && complain 'unsigned bytes are read as signed ones'
# An argument that names no tensor is an error, and not ignored.
for arg in z=y.npy y y= =y.npy --help; do
    ./progq x=q.npy a=a.npy $arg 2>.err
    [ $? = 2 ] && grep -q "not '$arg'; names are: x a y" .err || complain "the emitted program takes $arg"
done
rm -f q.dv q.npy a.npy y.npy progq

rm x.npy
run 1 'x.npy: error\[file\]: cannot open the file: No such file'
mkdir x.npy
run 1 'x.npy: error\[file\]: .*directory'
nothing_but p.dv x.npy rows.txt columns.txt c prog
finish
