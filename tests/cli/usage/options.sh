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
# The manual's synopsis has every command.
for name in $("$divvy" --help | sed -n 's/^  divvy \([a-z]*\).*/\1/p'); do
    sed -n '/^.SH SYNOPSIS/,/^.SH DESCRIPTION/p' "$source/docs/divvy.1" | grep -q "divvy $name" ||
        complain "divvy.1 has no synopsis of $name"
done
finish
