"""Teams: this process alone, and processes of MPI with mpi4py's communicator."""

import importlib.util
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import divvy

HERE = os.path.dirname(os.path.abspath(__file__))


def test_alone():
    team = divvy.Team()
    assert (team.rank, team.size) == (0, 1)
    a = team.zeros((6, 4), "f32", halo=1)
    assert a.shape == (6, 4) and a.dtype == "f32" and a.own == (slice(0, 6), slice(0, 4))
    x = np.asarray(a.local)[a.inner]
    x[...] = np.arange(24).reshape(6, 4)
    a.halo()
    assert (np.asarray(a.gather()) == x).all()
    assert np.asarray(a.reduce("sum", 0).gather()).tolist() == x.sum(0).tolist()
    assert np.asarray(a.reduce("max").gather()) == 23
    assert np.asarray(a.reduce("mean", (-1,)).gather()).tolist() == x.mean(1).tolist()
    a.scatter(np.ones((6, 4), "f4"))
    assert (x == 1).all()
    rows = np.arange(6, dtype="i8").reshape(3, 2)
    b = team.join(rows)
    assert b.dtype == "i64" and np.shares_memory(np.asarray(b.local), rows)
    assert np.asarray(b.reduce("prod", 1).gather()).tolist() == [0, 6, 20]
    local = a.local
    del a, team
    assert (np.asarray(local) == 1).all()


def test_wrong_calls():
    team = divvy.Team()
    a = team.zeros((6, 4))
    for wrong in (
        lambda: a.reduce("median"),
        lambda: a.reduce("sum", 2),
        lambda: a.scatter(np.ones((4, 6))),
        lambda: a.scatter(np.ones((6, 4), "f4")),
        lambda: a.gather(1),
        lambda: team.zeros((1,) * 17),
        lambda: team.zeros((-1,)),
        lambda: team.join(np.ones((4, 6))[:, ::2]),
    ):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(TypeError):
        team.zeros((2,), "c64")


def test_processes():
    """Three processes run tests/team.py."""
    mpirun = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if not importlib.util.find_spec("mpi4py") or not mpirun:
        pytest.skip("install python3-mpi4py")
    env = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        "OMP_NUM_THREADS": "1",
    }
    command = [mpirun, "-n", "3", sys.executable, os.path.join(HERE, "team.py")]
    found = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)
    if "77" in found.stdout.split():
        pytest.skip(found.stdout)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count("passed") == 3
