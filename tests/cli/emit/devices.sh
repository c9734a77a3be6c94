#!/bin/sh
# --devices N: a team inside one process for plan, run and emit. The emitted
# ranks are threads, which give the bits of divvy run.
. "$(dirname "$0")/../common.inc"
. "$source/tests/cli/emit.inc"

printf 'input a: f32[13, 10]\nb[i,j] = a[i,j] + a[12-i,9-j]\ny[i] = sum[j] b[i,j] * a[i,j]\ns[] = sum[i] y[i]\noutput y, s\n' >p.dv
whole a 13,10 1
"$divvy" run p.dv --in a=a.npy --out y=want_y.npy --out s=want_s.npy >.out 2>.err || complain 'divvy run'
expect 0 '' "$divvy" run p.dv --devices 3 --in a=a.npy --out y=got_y.npy --out s=got_s.npy --verify
has 'a team of 3' 'verify: ok'
what='run --devices 3'
same y
same s
expect 0 '' "$divvy" plan p.dv --devices 3 -t spyre
has 'class 0' 'check: ok'
for how in openmp c; do
    rm -rf out
    expect 0 '' "$divvy" emit p.dv --devices 3 --as $how -o out
    [ "$(cd out && echo *)" = "program.c rank_0.c rank_1.c rank_2.c rt.h" ] || complain "there is $(echo out/*)"
    for cc in $compilers; do
        $cc -std=c11 -Wall -Wextra -Wno-unknown-pragmas -Werror -fsyntax-only out/program.c out/rank_*.c 2>.err || complain "$how does not compile with $cc"
    done
done
for cc in $compilers; do break; done
what="c by $cc"
$cc -std=c11 out/program.c out/rank_*.c -lm -lpthread -o prog 2>.err || complain "$what does not compile"
rm -f got_*.npy
./prog a=a.npy y=got_y.npy s=got_s.npy 2>.err || complain "$what fails"
same y
same s
expect 2 'neither --team nor mpirun goes with it' "$divvy" plan p.dv --devices 2 --team 2
expect 2 'those of one device' "$divvy" emit p.dv -t wormhole --devices 2 --as tt-metalium -o refused
expect 1 'at most 64 are emitted' "$divvy" emit p.dv --devices 65 -o refused
[ -e refused ] && complain 'a refused plan was written'
finish
