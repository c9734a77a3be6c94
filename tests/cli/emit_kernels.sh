#!/bin/sh
# divvy emit --as tt-metalium: kernels and host programs, compiled unchanged
# against a machine of ours (tests/emit/shim), three threads a core: every tile
# is written once, results are those of divvy run. All programs are compiled
# together, once by each compiler and once for the thread sanitizer.
. "$(dirname "$0")/common.inc"
. "$source/tests/cli/emit.inc"

# -- Programs: p.dv becomes folder pN of kernels, with its inputs and its judge
n=0
echo '#include "host.hpp"
#include "rt.h"' >hosts.cpp
echo '#include "device.hpp"' >kernels.cpp
: >calls
: >list

# kernels NAME GRID JUDGE INPUTS EMIT-OPTION…: emits p.dv, or p.plan if there is one.
kernels() {
    name=$1
    grid=$2
    judge=$3
    inputs=$4
    shift 4
    n=$((n + 1))
    if [ -e p.plan ]; then
        expect 0 '' "$divvy" emit p.plan --as tt-metalium -o p$n
    else
        expect 0 '' "$divvy" emit p.dv --as tt-metalium -o p$n "$@"
    fi
    args=
    for i in $inputs; do
        mv $i.npy p${n}_$i.npy
        args="$args $i=p${n}_$i.npy"
    done
    want $args
    mv want_y.npy want_$n.npy
    cp p$n/rt.h .
    printf '#define main main_%s\n#undef KERNEL_DIR\n#define KERNEL_DIR "p%s/"\nnamespace p%s {\n#include "p%s/host.cpp"\n}\n#undef main\n' $n $n $n $n >>hosts.cpp
    for f in p$n/reader_*.cpp p$n/compute_*.cpp p$n/writer_*.cpp; do
        k=p${n}_$(basename "$f" .cpp)
        printf 'namespace %s {\n#include "%s"\n}\nstatic shim::registered r_%s("%s", %s::kernel_main);\n' $k "$f" $k "$f" $k >>kernels.cpp
    done
    echo "if (!strcmp(argv[1], \"$n\")) return p$n::main_$n(argc - 1, argv + 1);" >>calls
    echo "$n $grid $judge ${shape:--} $(echo "$name" | tr ' ' _)$args" >>list
}
# run_all COMPILER NUMBERS: of the programs in ./prog; all: every one.
run_all() {
    while read -r number grid judge shape name args; do
        case " $2 " in *" all "* | *" $number "*) ;; *) continue ;; esac
        what="$name by $1"
        rm -f got_y.npy
        SHIM_GRID=$grid ./prog $number $args y=got_y.npy 2>.err || complain "$what fails"
        grep -q 'tiles written once each' .err || complain "$what: tiles are not written once"
        grep -q 'WARNING: ThreadSanitizer' .err && complain "$what: a race"
        case $name in *130*) grep -q '130 cores, 390 threads' .err || complain "$what: on other cores" ;; esac
        cp want_$number.npy want_y.npy
        [ -e got_y.npy ] && $judge y $shape
    done <list
}

shape=
# Products: edges, batches, functions behind them, vectors, a matrix that lies across
printf 'input a: f32[100, 70]\ninput b: f32[70, 130]\ny[m,n] = relu(sum[k] a[m,k] * b[k,n])\noutput y\n' >p.dv
whole a 100,70 1
whole b 70,130 2
kernels 'a product' 8x8 same 'a b' -t wormhole
printf 'input a: f32[640, 96]\ninput b: f32[96, 640]\ny[m,n] = sum[k] a[m,k] * b[k,n]\noutput y\n' >p.dv
whole a 640,96 3
whole b 96,640 4
kernels 'a product on 130 cores' 13x10 same 'a b' -t blackhole
printf 'input a: f32[2, 70, 64]\ninput b: f32[64, 90]\ninput c: f32[2, 70, 90]\nt[z,m,n] = sum[k] a[z,m,k] * b[k,n]\ny[z,m,n] = relu(t[z,m,n] - c[z,m,n])\noutput y\n' >p.dv
whole a 2,70,64 5
whole b 64,90 6
whole c 2,70,90 7
kernels 'batches' 8x8 same 'a b c' -t wormhole
printf 'input a: bf16[100, 70]\ninput b: bf16[70, 130]\ninput c: bf16[130]\ny[m,n]: bf16 = relu(sum[k] a[m,k] * b[k,n] + c[n])\noutput y\n' >p.dv
for i in 'a 100,70 1' 'b 70,130 2' 'c 130 3'; do narrow $i; done
kernels 'bf16' 8x8 same 'a b c' -t wormhole
printf 'input a: f32[3, 50, 40]\ninput b: f32[3, 60, 40]\ny[z,m,n] = sum[k] a[z,m,k] * b[z,n,k]\noutput y\n' >p.dv
whole a 3,50,40 1
whole b 3,60,40 2
kernels 'a matrix that lies across' 8x8 same 'a b' -t wormhole
printf 'input a: f32[90, 70]\ninput x: f32[70]\ny[m] = sum[k] a[m,k] * x[k]\noutput y\n' >p.dv
whole a 90,70 1
whole x 70 2
kernels 'a matrix and a vector' 8x8 same 'a x' -t wormhole

# Rectangles that share panels; tiles cut along their depth
printf 'input a: f32[300, 200]\ninput b: f32[200, 500]\ninput c: f32[300]\ny[m,n] = relu(sum[k] a[m,k] * b[k,n] + c[m])\noutput y\n' >p.dv
whole a 300,200 1
whole b 200,500 2
whole c 300 3
kernels 'rectangles' 8x8 same 'a b c' -t wormhole --policy rect
printf 'input a: f32[2, 650, 70]\ninput b: f32[70, 1000]\ny[z,m,n] = sum[k] a[z,m,k] * b[k,n]\noutput y\n' >p.dv
whole a 2,650,70 1
whole b 70,1000 2
kernels 'rectangles on 130 cores' 13x10 same 'a b' -t blackhole --policy rect
for policy in streamk streamk1 streamk2 'splitk(3)' 'steal(2)'; do
    printf 'input a: f32[160, 250]\ninput b: f32[250, 416]\ninput c: f32[160]\ny[m,n] = relu(sum[k] a[m,k] * b[k,n] - c[m])\noutput y\n' >p.dv
    whole a 160,250 1
    whole b 250,416 2
    whole c 160 3
    kernels "$policy" 8x8 same 'a b c' -t wormhole --policy "$policy" --order 'grouped(2)'
done
printf 'input a: f32[64, 2000]\ny[m] = max[k] a[m,k] - 3\noutput y\n' >p.dv
whole a 64,2000 1
kernels 'a stream of maxima' 13x10 same 'a' -t blackhole --policy streamk

# Sums of rows, columns and all; what is beyond the edge does not count
shape=90,75
printf 'input x: f32[90, 75]\nhi[i] = max[j] x[i,j]\ne[i,j] = exp(x[i,j] - hi[i])\ns[i] = sum[j] e[i,j]\ny[i,j] = e[i,j] / s[i]\noutput y\n' >p.dv
real x 90,75 1
kernels softmax 8x8 close x -t wormhole
shape=75
printf 'input x: f32[90, 75]\nlo[] = min[i,j] x[i,j]\nm[j] = mean[i] (x[i,j] - 7)\ny[j] = select(m[j] < lo[], lo[], sqrt(abs(m[j])) + 2)\noutput y\n' >p.dv
real x 90,75 2
kernels 'columns and all' 8x8 close x -t wormhole
# Functions, one after another, on tiles with edges
shape=40,70
printf 'input x: f32[40, 70]\ninput v: f32[40]\na[i,j] = exp(tanh(x[i,j])) * gelu(x[i,j]) + silu(-x[i,j])\nb[i,j] = sigmoid(x[i,j]) / rsqrt(abs(x[i,j]) + 0.5) - erf(x[j - j,0 * j] + 0 * x[i,j])\nc[i,j] = log(min(max(x[i,j], 0.25), 4)) + sqrt(relu(x[i,j]))\ny[i,j] = select(a[i,j] >= b[i,j], c[i,j], v[i] * x[i,j])\noutput y\n' >p.dv
sed 's/erf(x\[j - j,0 \* j\] + 0 \* x\[i,j\])/erf(x[i,j])/' p.dv >q.dv && mv q.dv p.dv
real x 40,70 3
real v 40 4
kernels functions 8x8 close 'x v' -t wormhole
shape=
printf 'input x: f32[70, 40]\ninput r: f32[1, 70]\ny[i,j] = x[j,i] + r[0,j]\noutput y\n' >p.dv
whole x 70,40 1
whole r 1,70 2
kernels 'a matrix on its side' 8x8 same 'x r' -t wormhole

# Shards: what stays on the cores is computed where it stays
printf 'input a: f32[256, 64]\ninput b: f32[64, 512]\ninput c: f32[512, 512]\nh[m,n] = relu(sum[k] a[m,k] * b[k,n])\ny[m,n] = sum[k] h[m,k] * c[k,n]\noutput y\n' >p.dv
whole a 256,64 8
whole b 64,512 9
whole c 512,512 1
"$divvy" plan p.dv -t wormhole --pin y:k=1 >p.plan
grep -q 'group 0: h tiles 8 by 16 deep 2 shards' p.plan || complain 'no shards in the plan'
kernels shards 8x8 same 'a b c'
rm p.plan

# -- Build and run
{
    echo 'int main(int argc, char **argv) {'
    echo 'if (argc < 2) return 2;'
    cat calls
    echo 'return 2; }'
} >>hosts.cpp
# build COMPILER FLAGS
build() {
    $1 -std=c++20 -Wall -Wextra $2 -O2 -c "$shim/machine.cpp" -o machine.o 2>.err &&
        $1 -std=c++20 -Wall -Wextra $2 -O0 -I "$shim" -I . -c hosts.cpp -o hosts.o 2>>.err &&
        $1 -std=c++20 -Wall -Wextra $2 -O1 -I "$shim" -I . -c kernels.cpp -o kernels.o 2>>.err &&
        $1 $2 machine.o hosts.o kernels.o -pthread -o prog 2>>.err
}
for cc in $compilers; do
    cxx=$(echo $cc | sed 's/gcc/g++/; s/clang/clang++/')
    command -v $cxx >/dev/null || continue
    if ! build $cxx ''; then
        complain "kernels do not compile by $cxx"
        continue
    fi
    grep -q warning: .err && complain "warnings by $cxx"
    run_all $cxx all
done
# A compiler without the library of the sanitizer is not the text's fault.
for cc in $compilers; do
    cxx=$(echo $cc | sed 's/gcc/g++/; s/clang/clang++/')
    if build $cxx -fsanitize=thread; then
        run_all "$cxx for the sanitizer" '1 7 9 15'
        break
    fi
done

# -- What has no kernels, and why
no_kernel() {
    printf "$1\noutput y\n" >p.dv
    expect 2 "$2" "$divvy" emit p.dv -t wormhole --as tt-metalium -o none
}
no_kernel 'input a: f32[8, 8]\ny[i] = prod[j] a[i,j]' 'y has no kernel: there is no product over the elements of a tile'
no_kernel 'input a: i32[8, 8]\ny[i,j] = a[i,j]' 'y has no kernel: y is i32, tiles are f32 or bf16'
no_kernel 'input a: f32[40, 40]\ny[i,j] = a[i,j] + a[i+1,j] for i in 0..39' 'y has no kernel: it reads a at other than whole dims'
no_kernel 'input a: f32[4, 40, 40]\ny[i,j] = sum[k] a[i,j,k]' 'y has no kernel: rows of its tiles come from different matrices'
no_kernel 'input a: f32[40]\ninput q: i32[40]\ny[i] = a[q[i]]' 'y has no kernel: it reads'

finish
