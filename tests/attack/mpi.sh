#!/bin/sh
# Altered plans for teams of 2 to 6 processes, with one mpirun for each size;
# the mutants are divided among the sizes.
# mpi.sh ATTACK MPIRUN [MUTANTS]
attack=$1
mpirun=$2
mutants=${3:-$((${DV_CASES:-100}))}
. "$(dirname "$0")/../mpi/common.inc"
for n in 2 3 4 6; do
    # shellcheck disable=SC2086
    "$mpirun" $more -n "$n" "$attack" "$(((mutants + 3) / 4))" || bad=1
done
exit $bad
