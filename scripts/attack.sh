#!/bin/sh
# Attack the checker with plans whose text was changed at random, see
# tests/attack/attack.c: 10,000 changes of the section dist, run by teams in one
# process; as many shared among teams of 2 to 6 processes under each mpirun;
# and 100,000 changes of the programs of ranks and of other sections. attack.sh JOBS [PERCENT]
set -e
percent=${2:-100}
dist=$((100 * percent))
others=$((1000 * percent))
build=build/dev
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
echo "== build"
cmake --preset dev --log-level=WARNING
cmake --build --preset dev -j "$1" --target attack
echo "== $dist changes of dist, teams in one process"
"$build/tests/attack" dist "$dist"
for mpi in openmpi mpich; do
    mpirun=$(command -v "mpirun.$mpi") || continue
    command -v "mpicc.$mpi" >/dev/null || continue
    echo "== $dist changes of dist, processes under $mpi"
    cmake --build --preset dev -j "$1" --target "attack_$mpi"
    sh tests/attack/mpi.sh "$build/tests/mpi/attack_$mpi" "$mpirun" "$dist"
done
echo "== $others changes of the programs of ranks"
"$build/tests/attack" ranks "$others"
echo "== $others changes of other sections"
"$build/tests/attack" plan "$others"
echo "== ok: nothing that was accepted computed wrong numbers"
