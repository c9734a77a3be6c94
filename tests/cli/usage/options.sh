#!/bin/sh
# Wrong calls exit with 2 and a message that names the word, with nothing on
# standard output.
. "$(dirname "$0")/../common.inc"
printf 'param N = 4\ninput x: f32[N]\ny[i] = x[i]\noutput y\n' >p.dv

wrong() {
    expect 2 "$@"
    [ ! -s .out ] || complain "a wrong call printed something: $*"
}
"$divvy" >.out 2>.err
[ $? = 2 ] || complain 'no command: another exit code'
grep -q 'divvy check' .err || complain 'no command: no help'
"$divvy" frobnicate >.out 2>.err
[ $? = 2 ] && grep -q 'frobnicate' .err || complain 'an unknown command'
"$divvy" --frobnicate >.out 2>.err
[ $? = 2 ] && grep -q -- 'frobnicate' .err || complain 'an unknown option before the command'

# An unknown instruction set is refused; one that this machine does not have is
# ignored.
wrong "DIVVY_CPU is 'noen'; there are: .* neon .* avx2" env DIVVY_CPU=noen "$divvy" run p.dv
for cpu in neon avx2; do
    expect 0 '' env DIVVY_CPU=$cpu "$divvy" run p.dv
done

for c in check plan run; do
    wrong 'is needed' "$divvy" $c
    wrong 'there is no option --frob' "$divvy" $c p.dv --frob
    wrong 'there is no option --frob' "$divvy" $c p.dv --frob=1
    wrong 'there is no option -x' "$divvy" $c p.dv -x
    wrong "'q.dv'" "$divvy" $c p.dv q.dv
    wrong '--json takes no value' "$divvy" $c p.dv --json=yes
    wrong '--set needs NAME=VALUE' "$divvy" $c p.dv --set
    wrong "--set takes NAME=VALUE, not 'N'" "$divvy" $c p.dv --set N
    wrong 'no param M' "$divvy" $c p.dv --set M=1
    wrong 'one number' "$divvy" $c p.dv --set N=1+1
    wrong 'number' "$divvy" $c p.dv --set 'N=1 1'
    wrong '' "$divvy" $c p.dv --set N=99999999999999999999
    "$divvy" $c --help >.out 2>.err
    [ $? = 0 ] && [ ! -s .err ] && grep -q -- '--set' .out || complain "$c --help"
done
wrong "--grain takes function, primitive or fused, not 'coarse'" "$divvy" check p.dv --grain coarse
wrong 'no option' "$divvy" check p.dv --target spyre
for c in plan run; do
    wrong '--target needs NAME' "$divvy" $c p.dv --target
    wrong '--cores needs N' "$divvy" $c p.dv --cores
    wrong "--cores takes a whole number.*, not 'x'" "$divvy" $c p.dv --cores x
    wrong "not '-1'" "$divvy" $c p.dv -t spyre --cores -1
    wrong 'above 2^63' "$divvy" $c p.dv -t spyre --cores 99999999999999999999
    wrong '32 cores, 33' "$divvy" $c p.dv -t spyre --cores 33
    wrong 'core' "$divvy" $c p.dv -t spyre --cores 0
done
wrong 'there is no pass x' "$divvy" plan p.dv --dump-after x
wrong 'dist: that pass is not run here; those that are: lower' "$divvy" plan p.dv --dump-after dist
wrong 'there is no pass x' "$divvy" plan p.dv -t spyre --stop-after x
wrong 'p.dv is a program' "$divvy" plan p.dv --start-at group
wrong '--in takes NAME=FILE.npy' "$divvy" run p.dv -t spyre --in x
wrong '--in takes NAME=FILE.npy' "$divvy" run p.dv -t spyre --in =x.npy
wrong '--in takes NAME=FILE.npy' "$divvy" run p.dv -t spyre --in x=
wrong '--out takes NAME=FILE.npy' "$divvy" run p.dv -t spyre --out y
wrong 'one operand too many' "$divvy" targets spyre wormhole
"$divvy" run p.dv -t spyre --random 1..2 >.out 2>.err
judge 0 '' $? 'run --random 1..2'
"$divvy" run p.dv -t spyre --random -1..1 >.out 2>.err
judge 0 '' $? 'run --random -1..1'

# -o has one long name in all commands.
for c in plan einsum emit grid fuse place import; do
    "$divvy" $c --help | grep -q -- '-o, --out ' || complain "$c: -o has another long name"
done

# Options and operands in any order; -- ends the options.
cp p.dv ./-p.dv
"$divvy" check -- -p.dv >.out 2>.err
judge 0 '' $? 'check -- -p.dv'
"$divvy" plan -t spyre --cores=2 p.dv >.out 2>.err
judge 0 '' $? 'plan, the operand last'
expect 2 'the ranks of a team run on threads' "$divvy" run p.dv --team 2 --executor seq
# No output replaces a file that is read.
cp p.dv own.dv
expect 2 'would replace the program' "$divvy" run own.dv --out y=own.dv
expect 2 'would replace the file that it reads' "$divvy" plan own.dv -o ./own.dv
cmp p.dv own.dv || complain 'a program was replaced'
printf 'id,lower,upper,size\na,0,3,4\n' >t.csv
expect 2 'would replace the table that it reads' "$divvy" place t.csv -c 100 --svg t.csv
# The output that was asked for is written even if a dump is printed.
"$divvy" plan p.dv -t spyre --dump-after all -o a.plan >.out 2>.err
judge 0 '' $? 'plan --dump-after all -o'
[ -s a.plan ] || complain '--dump-after makes -o do nothing'
# help COMMAND prints what COMMAND --help prints.
"$divvy" help run >a.txt 2>.err
judge 0 '' $? 'help run'
"$divvy" run --help >b.txt
cmp -s a.txt b.txt || complain 'help run differs from run --help'
"$divvy" help runn >.out 2>.err && complain 'help runn succeeds'
grep -q 'there is no command runn' .err || complain 'help runn does not say what is wrong'
for words in '--version extra' '--help extra' 'help check extra'; do
    "$divvy" $words >.out 2>.err
    [ $? = 2 ] && [ ! -s .out ] && grep -q "'extra' is one word too many" .err || complain "$words"
done
# Dumps and explanations are text, also where JSON is asked for.
expect 2 '--dump-after prints text, --json does not' "$divvy" plan p.dv --json --dump-after all
expect 2 '--explain prints text, --json does not' "$divvy" plan p.dv --json --explain
# Arrays are not read from standard input or written to standard output.
wrong 'an array is in a file, not in standard input' "$divvy" run p.dv --in x=-
wrong 'an array is in a file, not in standard output' "$divvy" run p.dv --out y=-
wrong 'an array is in a file, not in standard input' "$divvy" einsum 'a->a' --in 0=-
wrong 'an array is in a file, not in standard output' "$divvy" einsum 'a->a' 4 -o -
# Commands that run all ranks have no rank to choose.
wrong 'this command runs all ranks' "$divvy" run p.dv --team 2 --rank 1
wrong 'this command runs all ranks' "$divvy" bench p.dv --team 2 --rank 1
# The same mistake has the same exit code wherever it is made.
wrong 'there is no rank 9' "$divvy" plan p.dv --team 4 --rank 9
wrong 'there is no rank 7' "$divvy" dist default_partition nprocs=4 rank=7 gshape=8
wrong 'nprocs: 0 is less than 1' "$divvy" dist default_partition nprocs=0 rank=0 gshape=8
wrong 'the order of tiles is for machines that compute on tiles' "$divvy" plan p.dv --order hilbert
wrong 'rectangles of cores are for machines with a grid of cores; host has none' "$divvy" plan p.dv --holes 0,0
wrong 'need a target that computes on tiles, such as wormhole' "$divvy" emit p.dv --as tt-metalium -o out
wrong 'N of splitk(N) is a whole number, 1 or more' "$divvy" grid --tiles 3x3 -t wormhole --policy 'splitk(0)'
wrong "DIVVY_EXECUTOR takes threads, seq or sim, not 'foo'" env DIVVY_EXECUTOR=foo "$divvy" run p.dv
wrong '--seconds takes a finite number, 0 or more' "$divvy" bench p.dv --seconds inf
# The manual's synopsis has every command.
for name in $("$divvy" --help | sed -n 's/^  divvy \([a-z]*\).*/\1/p'); do
    sed -n '/^.SH SYNOPSIS/,/^.SH DESCRIPTION/p' "$source/docs/divvy.1" | grep -q "divvy $name" ||
        complain "divvy.1 has no synopsis of $name"
done
finish
