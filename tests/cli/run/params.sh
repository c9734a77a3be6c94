#!/bin/sh
# A file of another shape: the note names the params that make it fit, and with
# them it does.
. "$(dirname "$0")/../common.inc"

# npy FILE SHAPE: writes an f32 array.
npy() {
    printf 'input x: f32[%s]\noutput x\n' "$2" >make.dv
    expect 0 '' "$divvy" run make.dv -t spyre --out "x=$1"
}

# fits PROGRAM FILE NOTE: the note is this, and the program takes the file with
# the params that it names.
fits() {
    expect 1 "note: params can change the shape of a:$3\$" "$divvy" run "$1" -t spyre --in "a=$2"
    # shellcheck disable=SC2086 # the note has several words
    expect 0 '' "$divvy" run "$1" -t spyre --in "a=$2" $3
}

# no_note PROGRAM FILE: no param makes the file fit, and none is named.
no_note() {
    expect 1 'error\[format\]: the file holds' "$divvy" run "$1" -t spyre --in "a=$2"
    ! grep 'note:' .err || complain "$1 $2: a note that does not help"
}

npy a64.npy '64, 64'
npy a128.npy '1024, 128'
npy wide.npy '32, 64'
npy odd.npy '9, 4'
cp "$source/examples/matmul.dv" matmul.dv
printf 'param N = 16\ninput a: f32[N, N]\noutput a\n' >square.dv
printf 'param N = 16\ninput a: f32[2 * N + 1, N]\noutput a\n' >odd.dv
fits matmul.dv a64.npy ' --set M=64 --set K=64'
fits matmul.dv a128.npy ' --set K=128'
fits square.dv a64.npy ' --set N=64'
fits odd.dv odd.npy ' --set N=4'
no_note square.dv wide.npy
no_note odd.dv a64.npy
finish
