#!/bin/sh
# A first look: demo.sh DIVVY
set -e
divvy=$1
program=examples/softmax.dv
cat <<EOF

This is $program, the softmax of each column of a 512 x 1024 matrix:

$(grep -v '^#' "$program" | sed -e '/^$/d' -e 's/^/    /')

Its five ops, divided for the 32-core accelerator 'spyre' (the plan; the first lines of it):

$($divvy plan "$program" --target spyre | head -24 | sed 's/^/    /')
    ...

The plan is proved before it runs: every element is written exactly once and every
read finds what its writer left. Then it runs on made-up data, here on this machine's
memory, and the result is held against a plain evaluation in double precision:

EOF
$divvy run "$program" --target spyre --verify | sed 's/^/    /'
echo
echo "The same program for this machine ('host': $($divvy targets host | sed -n 's/^ *cores *= *\([0-9]*\).*/\1/p') cores found):"
echo
$divvy run "$program" --target host --verify | sed 's/^/    /'
cat <<EOF

Both agree with the oracle. Next:
    $divvy check $program                 what the program means
    $divvy plan $program --json           the plan for other programs
    $divvy targets                        the machines that are built in
    $divvy run examples/heat.dv --verify  another example; examples/ has ten
EOF
