#!/bin/sh
# divvy emit --as tt-metalium: kernels and host program, compiled unchanged by
# every compiler there is against a machine of ours (tests/emit/shim), three
# threads a core: every tile is written once, results are those of divvy run.
. "$(dirname "$0")/common.inc"
. "$source/tests/cli/emit.inc"

# kernels TARGET GRID FLAGS NAME=FILE…
kernels() {
    target=$1
    grid=$2
    flags=$3
    shift 3
    rm -rf out
    if [ -e p.plan ]; then
        expect 0 '' "$divvy" emit p.plan --as tt-metalium -o out
    else
        expect 0 '' "$divvy" emit p.dv -t "$target" --as tt-metalium -o out
    fi
    echo '#include "device.hpp"' >kernels.cpp
    for f in out/reader_*.cpp out/compute_*.cpp out/writer_*.cpp; do
        n=$(basename "$f" .cpp)
        printf 'namespace k_%s {\n#include "%s"\n}\nstatic shim::registered r_%s("%s.cpp", k_%s::kernel_main);\n' $n "$f" $n $n $n >>kernels.cpp
    done
    for cc in $compilers; do
        cxx=$(echo $cc | sed 's/gcc/g++/; s/clang/clang++/')
        command -v $cxx >/dev/null || continue
        what="kernels by $cxx for $target $flags"
        if ! $cxx -std=c++20 -O1 -Wall -Wextra $flags -I "$shim" -I . -I out out/host.cpp kernels.cpp "$shim/machine.cpp" -pthread -o prog 2>.err; then
            # No library of the sanitizer is not the text's fault.
            [ -n "$flags" ] && grep -q 'tsan' .err && continue
            complain "$what: does not compile"
            continue
        fi
        grep -q warning: .err && complain "$what: warnings"
        rm -f got_y.npy
        SHIM_GRID=$grid ./prog "$@" y=got_y.npy 2>.err || complain "$what fails"
        grep -q 'tiles written once each' .err || complain "$what: tiles are not written once"
        grep -q 'WARNING: ThreadSanitizer' .err && complain "$what: a race"
        same y
    done
}
printf 'input a: f32[100, 70]\ninput b: f32[70, 130]\ny[m,n] = relu(sum[k] a[m,k] * b[k,n])\noutput y\n' >p.dv
whole a 100,70 1
whole b 70,130 2
want a=a.npy b=b.npy
kernels wormhole 8x8 '' a=a.npy b=b.npy
kernels wormhole 8x8 -fsanitize=thread a=a.npy b=b.npy
# 13x10 cores, more tiles than cores, another order; two groups in turn
printf 'input a: f32[640, 96]\ninput b: f32[96, 640]\ny[m,n] = sum[k] a[m,k] * b[k,n]\noutput y\n' >p.dv
whole a 640,96 3
whole b 96,640 4
want a=a.npy b=b.npy
kernels blackhole 13x10 '' a=a.npy b=b.npy
grep -q '130 cores, 390 threads' .err || complain "not all of 130 cores: $(cat .err)"
printf 'input a: f32[2, 70, 64]\ninput b: f32[64, 90]\ninput c: f32[2, 70, 90]\nt[z,m,n] = sum[k] a[z,m,k] * b[k,n]\ny[z,m,n] = relu(t[z,m,n] - c[z,m,n])\noutput y\n' >p.dv
whole a 2,70,64 5
whole b 64,90 6
whole c 2,70,90 7
want a=a.npy b=b.npy c=c.npy
kernels wormhole 8x8 '' a=a.npy b=b.npy c=c.npy
# Shards: what stays on the cores is computed where it stays
printf 'input a: f32[256, 64]\ninput b: f32[64, 512]\ninput c: f32[512, 64]\nh[m,n] = relu(sum[k] a[m,k] * b[k,n])\ny[m,n] = sum[k] h[m,k] * c[k,n]\noutput y\n' >p.dv
whole a 256,64 8
whole b 64,512 9
whole c 512,64 1
want a=a.npy b=b.npy c=c.npy
"$divvy" plan p.dv -t wormhole >p.plan
grep -q 'group 0: h tiles 8 by 16 deep 2 shards' p.plan || complain 'no shards in the plan'
kernels wormhole 8x8 '' a=a.npy b=b.npy c=c.npy
rm p.plan
printf 'input a: f32[8, 8]\ny[i,j] = exp(a[i,j])\noutput y\n' >p.dv
expect 2 'y has no kernel' "$divvy" emit p.dv -t wormhole --as tt-metalium -o out

finish
