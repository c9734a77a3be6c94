#!/bin/sh
# A first look: demo.sh DIVVY
set -e
divvy=$1
program=examples/softmax.dv
plan=$(mktemp)
trap 'rm -f "$plan"' EXIT
$divvy plan "$program" --target spyre -o "$plan"
cat <<EOF

$program is the softmax of each column of a 512 x 1024 matrix:

$(grep -v '^#' "$program" | sed -e '/^$/d' -e 's/^/    /')

Planned for 'spyre', an accelerator of 32 cores that runs one operator at a time. The
plan is text; this is the part that says which ops run, and into what slices each is cut
for the cores (numbers are lengths):

$(sed -n -e '/^program/,/^}/p' -e '/^divide/,/^}/p' "$plan" | sed 's/^/    /')

A checker that shares no code with the planner proves the plan: every element is
written exactly once, every read finds what its writer left. Then it runs on made-up
data, on a simulator that moves real bytes, and the result is held against a plain evaluation in double precision:

EOF
$divvy run "$plan" --verify | sed "s|$plan|the plan|; s/^/    /"
echo
echo "The same program planned for this machine, 'host':"
echo
$divvy run "$program" --target host --verify | sed 's/^/    /'
cat <<EOF

Both agree with the oracle. From here:
    build/release/divvy check examples/layernorm.dv          what a program means
    build/release/divvy plan $program -t wormhole --json
    build/release/divvy targets                              the machines built in
    build/release/divvy run examples/heat.dv --verify        more examples are there
EOF
# As if started by mpirun, the command says whether it has MPI.
if PMI_SIZE=2 timeout 9 $divvy run examples/heat.dv --set N=8 --set T=1 2>&1 | grep -q 'built without MPI'; then
    cat <<EOF

This build has no MPI, so it runs on one process. To run over processes, install an MPI
(apt install libopenmpi-dev openmpi-bin) and repeat 'make'; with MPICH, first configure with
    cmake --preset release -DMPI_C_COMPILER=mpicc.mpich
EOF
else
    echo "    mpirun -n 2 build/release/divvy run examples/heat.dv --verify"
fi
