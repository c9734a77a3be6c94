"""What test_team.py runs as processes of MPI."""

import sys

import numpy as np
from mpi4py import MPI

import divvy

HEAT = """
param N = 12
param T = 5
input u: f64[N, N]
repeat T {
    u[i,j] <- 0.25 * (u[i-1,j] + u[i+1,j] + u[i,j-1] + u[i,j+1])  for i in 1..N-1, j in 1..N-1
}
output u
"""


def arrays(comm):
    """One step of heat along a rod, with numpy on every rank's part."""
    team = divvy.Team(comm)
    assert (team.rank, team.size) == (comm.rank, comm.size)
    n = 20
    whole = np.random.default_rng(1).random(n)
    u = team.zeros(n, halo=1)
    u.scatter(whole if team.rank == 0 else None)
    u.halo()
    x, (own,) = np.asarray(u.local), u.own
    y = np.zeros(own.stop - own.start)
    first = u.offsets[0]
    for i in range(max(own.start, 1), min(own.stop, n - 1)):
        y[i - own.start] = x[i - 1 - first] + x[i + 1 - first]
    v = team.join(y)
    want = np.zeros(n)
    want[1:-1] = whole[:-2] + whole[2:]
    found = np.asarray(v.gather(None))
    assert (found == want).all()
    assert (v.gather() is None) == (team.rank != 0)
    total = np.asarray(v.reduce("sum").gather(None))
    assert abs(total - want.sum()) < 1e-12
    blocks = team.zeros((6, 6), "i32", blocks=True)
    np.asarray(blocks.local)[...] = team.rank
    parts = np.asarray(blocks.gather(None))
    assert (parts[blocks.own] == team.rank).all() and len(np.unique(parts)) == team.size


def plans(comm):
    plan = divvy.Program(HEAT).plan(team=comm.size)
    plan.check()
    ranks = divvy.Ranks(plan, comm, threads=1)
    whole = np.random.default_rng(2).random((12, 12))
    data, inner, own = ranks.data("u")
    np.asarray(data)[inner] = whole[own]
    ranks.run()
    found = ranks.gather("u")
    if comm.rank == 0:
        want = whole.copy()
        for _ in range(5):
            want[1:-1, 1:-1] = 0.25 * (
                want[:-2, 1:-1] + want[2:, 1:-1] + want[1:-1, :-2] + want[1:-1, 2:]
            )
        np.testing.assert_allclose(np.asarray(found), want, rtol=1e-12)
    else:
        assert found is None


comm = MPI.COMM_WORLD
try:
    divvy.Team(comm)
except divvy.SystemError as e:
    print("77", e)
    sys.exit(0)
arrays(comm)
plans(comm)
# A part of the processes, in another order.
part = comm.Split(comm.rank > 0, -comm.rank)
arrays(part)
if comm.rank > 0:
    plans(part)
print("passed")
