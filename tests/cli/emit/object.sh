#!/bin/sh
# divvy emit --as object: kernels and their calls as an object, linked with a
# small program and run, natively and by an emulator of the other instruction
# set; the results have the bits of divvy run.
. "$(dirname "$0")/../common.inc"
. "$source/tests/cli/emit.inc"
# Bits do not depend on the number of threads; on a busy machine one is fastest.
export OMP_THREAD_LIMIT=1

# The program takes FILE for an input, =WANTED for an output and FILE=WANTED for
# a tensor that is both, and compares outputs byte by byte: of a run and, in other
# memory that is not zero, of its steps. Updates in place are run once.
cat >main.c <<'END'
#include HEADER
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char *elements(const char *path, long *bytes)
{
    unsigned char head[10];
    FILE *f = fopen(path, "rb");
    if (!f || fread(head, 1, 10, f) != 10)
        exit(2);
    fseek(f, 0, SEEK_END);
    long at = 10 + head[8] + 256 * head[9];
    *bytes = ftell(f) - at;
    fseek(f, at, SEEK_SET);
    char *data = malloc((size_t)*bytes + 1);
    if (fread(data, 1, (size_t)*bytes, f) != (size_t)*bytes)
        exit(2);
    fclose(f);
    return data;
}
int main(int argc, char **argv)
{
    void *operands[16], *want[16] = {0};
    long bytes[16];
    char *memory = malloc(BYTES + 1);
    int way = 0;
    for (int i = 1; i < argc; i++) {
        char *out = strchr(argv[i], '=');
        if (out) {
            *out = 0;
            want[i] = elements(out + 1, &bytes[i]);
        }
        if (out && *argv[i])
            way = 1;
        operands[i - 1] = *argv[i] ? elements(argv[i], &bytes[i])
                                   : calloc(1, (size_t)bytes[i] + 1);
    }
    for (int in_place = way; way < 2; way++) {
        for (int i = 1; i < argc && !in_place; i++)
            if (want[i])
                memset(operands[i - 1], 0, (size_t)bytes[i]);
        memset(memory, 0x55, BYTES + 1);
        if (way == 0)
            RUN(operands, memory + 1);
        for (int p = 0; way == 1 && p < PHASES; p++)
            for (int c = CORES; c-- > 0;)
                STEP(operands, memory + 1, p, c);
        for (int i = 1; i < argc; i++)
            if (want[i] && memcmp(want[i], operands[i - 1], (size_t)bytes[i]))
                return 1 + way;
    }
    return 0;
}
END
first=${compilers# }
first=${first%% *}
cores=
natives=$compilers
foreign=aarch64
native=x86_64
neon=$source/tests/choices/neon-bf16.dv
avx2=$source/tests/choices/avx2.dv
other=$neon
mine=$avx2
case $(uname -m) in
aarch64 | arm64)
    foreign=x86_64 native=aarch64 other=$avx2 mine=$neon
    ;;
x86_64) grep -qw avx2 /proc/cpuinfo || mine=host ;;
*) exit 77 ;;
esac

# object WHAT TARGET COMPILER RUN OPERANDS…: emits p.dv, links and runs it.
object() {
    what="$1 for $2 by $3"
    target=$2
    cc=$3
    run=$4
    shift 4
    rm -rf out_1
    CC=$cc expect 0 '' "$divvy" emit p.dv -t "$target" --as object $cores -o out_1/
    $cc -std=c11 -Wall -Wextra -Werror -I out_1 '-DHEADER="out_1.h"' -DBYTES=out_1_memory_bytes -DPHASES=out_1_phases \
        -DCORES=out_1_cores -DRUN=out_1_run -DSTEP=out_1_step main.c out_1/out_1.o -o prog 2>.err || complain "$what does not link"
    [ -z "$run" ] && nm out_1/out_1.o | grep ' U ' | grep -qv 'memcpy\|GLOBAL_OFFSET' && complain "$what needs other libraries"
    $run ./prog "$@" || complain "$what: other results"
}
# both WHAT OPERANDS…: natively, and on the other instruction set, where only
# exact results have the same bits.
both() {
    name=$1
    shift
    for cc in $natives; do object "$name" "$mine" $cc '' "$@"; done
    object "$name" host "$first" '' "$@"
    command -v $foreign-linux-gnu-gcc >/dev/null && command -v qemu-$foreign >/dev/null || return 0
    object "$name" "$other" $foreign-linux-gnu-gcc "qemu-$foreign -L /usr/$foreign-linux-gnu -cpu max" "$@"
}
mkdir -p out_1

# -- Products in a row, with remainders, an epilogue and temporaries
printf 'input a: f32[100, 70]\ninput b: f32[70, 130]\ninput c: f32[130, 70]\nh[m,n] = relu(sum[k] a[m,k] * b[k,n])\ny[m,n] = sum[k] h[m,k] * c[k,n] + a[m,n]\noutput y\n' >p.dv
whole a 100,70 1
whole b 70,130 2
whole c 130,70 3
want a=a.npy b=b.npy c=c.npy
both products a.npy b.npy c.npy =want_y.npy
natives=$first
cores='--cores 3'
object 'three cores' "$mine" "$first" '' a.npy b.npy c.npy =want_y.npy
grep -q 'out_1_cores = 3,' out_1/out_1.h || complain 'not three cores'
cores=


# -- Statements on rows, transposed reads, integers, several outputs
printf 'input a: f32[70, 130]\nh[i] = max[j] a[i,j]\nx[i,j]: i8 = a[i,j]\nt[j,i] = select(x[i,j] > 1, a[i,j] - h[i], 2 * a[i,j])\ny[j,i] = t[j,i] + t[j,0]\nz[i]: i32 = sum[j] x[i,j]\noutput y, z\n' >p.dv
whole a 70,130 4
"$divvy" run p.dv --in a=a.npy --out y=want_y.npy --out z=want_z.npy >/dev/null 2>.err || complain 'divvy run fails'
both statements a.npy =want_y.npy =want_z.npy

# -- A repeat, whose phases occur once in the object; an input that is updated
printf 'input u: f32[40, 64]\ninput v: f32[40, 64]\nrepeat 30 {\n    v[i,j] <- u[i-1,j] + u[i+1,j] - 2 * u[i,j]  for i in 1..39, j in 0..64\n    u[i,j] <- v[i,j] * 0.5  for i in 1..39, j in 0..64\n}\noutput u\n' >p.dv
whole u 40,64 5
whole v 40,64 6
"$divvy" run p.dv --in u=u.npy --in v=v.npy --out u=want_u.npy >/dev/null 2>.err || complain 'divvy run fails'
cores='--cores 2'
both 'a repeat' u.npy=want_u.npy v.npy
cores=
grep -q 'part_12' out_1/out_1.c && complain 'phases of a repeat occur more than once'

# -- Softmax and narrow types: the bits of the same kernels
sed 's/param M = .*/param M = 100/; s/param N = .*/param N = 96/' "$source/examples/softmax.dv" >p.dv
whole a 100,96 7
printf 'input s: f32[100, 96]\ny[i,j]: f16 = s[i,j]\noutput y\n' >whole.dv
"$divvy" run whole.dv --in s=a.npy --out y=x.npy >/dev/null 2>.err || complain 'no f16'
"$divvy" run p.dv -t "$mine" --in x=x.npy --out y=want_y.npy >/dev/null 2>.err || complain 'divvy run fails'
object softmax "$mine" "$first" '' x.npy =want_y.npy

# -- Attention, and a repeat of many statements
sed 's/param S = .*/param S = 96/' "$source/examples/attention.dv" >p.dv
narrow q 8,96,64 1 f16
narrow k 8,96,64 2 f16
narrow v 8,96,64 3 f16
"$divvy" run p.dv -t "$mine" --in q=q.npy --in k=k.npy --in v=v.npy --out o=want_o.npy >/dev/null 2>.err || complain 'divvy run fails'
object attention "$mine" "$first" '' q.npy k.npy v.npy =want_o.npy
sed 's/param N = .*/param N = 20/; s/param T = .*/param T = 4/' "$source/examples/shallow_water.dv" >p.dv
narrow e 20,20 1 f64
narrow u 21,20 2 f64
narrow v 20,21 3 f64
"$divvy" run p.dv -t "$mine" --in e=e.npy --in u=u.npy --in v=v.npy --out e=want_e.npy --out u=want_u.npy --out v=want_v.npy >/dev/null 2>.err || complain 'divvy run fails'
object water "$mine" "$first" '' e.npy=want_e.npy u.npy=want_u.npy v.npy=want_v.npy

# -- Constants, which every run packs, and what depends on them alone
printf 'input a: f32[100, 70]\nconst b: f32[70, 130]\nconst scale: f32[130]\nd[k,n] = b[k,n] * scale[n]\ne[m,k] = (m + k) * 0.125 for m in 0..40, k in 0..100\nh[m,n] = sum[k] a[m,k] * d[k,n]\ny[m,n] = sum[k] e[m,k] * h[k,n]\noutput y\n' >p.dv
whole a 100,70 1
whole b 70,130 2
whole scale 130 3
want a=a.npy b=b.npy scale=scale.npy
both constants a.npy b.npy scale.npy =want_y.npy

# -- What an object cannot have, with the reason and what to do
refuse() {
    printf "$1" >p.dv
    pattern=$2
    shift 2
    expect 2 "$pattern" "$divvy" emit p.dv --as object -o refused "$@"
    [ -e refused ] && complain "files of what is refused: $pattern"
}
refuse 'input a: f32[64]\ny[i] = sin(a[i])\noutput y\n' 'it calls functions of this library' -t "$mine"
refuse 'input a: f32[64, 64]\ny[i,j] = a[i-1,j] else 0  for i in 0..64, j in 0..64\noutput y\n' 'y cannot be in an object: its reads with a border' -t "$mine"
refuse 'input a: f32[64, 64]\ninput i: i32[8]\ny[k,j] = a[i[k],j]\noutput y\n' 'y cannot be in an object: a run looks at the values' -t "$mine"
# The loops of few rows, and of several variables of k, need what was packed before.
refuse 'input a: f32[2, 64]\nconst w: f32[64, 64]\ny[n,m] = sum[k] a[n,k] * w[k,m]\noutput y\n' 'declare them as inputs' -t "$mine" --cores 1
refuse 'input a: f32[16,4,4]\nconst w: f32[4,2,4,4]\ny[h,j,q] = sum[k,l] a[h,k,l] * w[k,q,l,j]\noutput y\n' 'declare them as inputs' -t "$mine" --cores 1
refuse 'input a: i64[64]\ny[i] = a[i] * a[i]\noutput y\n' 'y cannot be in an object: there is no kernel for it' -t "$mine"
refuse 'input a: f32[64, 130]\nconst b: f32[130, 70] = "c.npy"\ny[i,j] = sum[k] a[i,k] * b[k,j]\noutput y\n' 'target spyre has none' -t spyre
refuse 'input a: f32[64, 64]\ninput b: f32[64, 64]\ny[i,j] = sum[k] a[i,k] * b[k,j]\noutput y\n' 'threads take its tiles from a queue; --policy static' -t "$mine" --policy 'ticket(2)'
printf 'input a: f32[64]\ny[i] = a[i] + 1\noutput y\n' >p.dv
CC=./none expect 3 "'./none' cannot compile out_1/out_1.c; the environment variable CC" "$divvy" emit p.dv -t "$mine" --as object -o out_1
finish
