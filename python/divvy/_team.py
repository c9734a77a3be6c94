"""Teams of processes (mpi4py's communicators), and arrays divided over them."""

from . import _divvy
from ._plan import Plan

_REDUCTIONS = ("sum", "prod", "max", "min", "mean", "var", "std")


def _address(comm):
    """The address of the MPI_Comm of a communicator of mpi4py; 0 without one."""
    if comm is None:
        return 0
    from mpi4py import MPI

    with open("/proc/self/maps", encoding="utf-8") as f:
        maps = f.read()
    if "/libmpi.so" in maps and "/libmpich.so" in maps:
        raise _divvy.SystemError(
            "mpi4py uses another MPI than divvy was built with: both Open MPI and "
            "MPICH are loaded"
        )
    return MPI._addressof(comm)


class Team:
    """The processes of a communicator of mpi4py, or this process alone.

    All processes make the same calls in the same order.

    >>> import divvy
    >>> team = divvy.Team()
    >>> team.rank, team.size
    (0, 1)
    """

    def __init__(self, comm=None):
        self._handle = _divvy.team(_address(comm))
        self.rank, self.size = self._handle.rank_and_size()

    def zeros(self, shape, dtype="f64", halo=0, blocks=False):
        """An array of zeros, divided by rows or, with blocks=True, into blocks.

        halo  how many neighbouring elements each rank keeps copies of

        >>> import divvy, numpy as np
        >>> a = divvy.Team().zeros((6, 4), halo=1)
        >>> np.asarray(a.local)[...] = 2
        >>> a.reduce("sum", 0).gather()
        divvy.Array(f64, shape=(4,))
        """
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return DistArray(self._handle.array(dtype, shape, halo, blocks))

    def join(self, rows):
        """One array of the rows that each rank has, in its memory."""
        return DistArray(self._handle.join(rows))

    @property
    def sent(self):
        """The bytes and the messages that this rank has sent for arrays."""
        return self._handle.sent()

    def __repr__(self):
        return f"<divvy.Team, rank {self.rank} of {self.size}>"


class DistArray:
    """An array that is divided over a team; Team.zeros and Team.join make it.

    dtype, shape  of the whole array
    own           slices of it that this rank owns
    offsets       where in it the memory of this rank, with the halo, begins
    """

    def __init__(self, handle):
        self._handle = handle
        self.dtype, whole, own, local = handle.about()
        self.shape = tuple(size for _, size in whole)
        self.own = tuple(slice(first, first + n) for first, n in own)
        self.offsets = tuple(first for first, _ in local)

    @property
    def local(self):
        """The elements of this rank and of its halo, as an Array; no copy."""
        return self._handle.local()

    @property
    def inner(self):
        """Where, in `local`, the elements are that this rank owns."""
        return tuple(
            slice(s.start - first, s.stop - first)
            for s, first in zip(self.own, self.offsets)
        )

    def halo(self):
        """Fills the halo with the elements of their owners. Collective."""
        self._handle.halo()

    def gather(self, root=0):
        """The whole array on rank `root`, None elsewhere; root=None: on all
        ranks. Collective."""
        return self._handle.gather(-1 if root is None else root)

    def scatter(self, whole, root=0):
        """Sets the array from `whole` on rank `root`. Collective."""
        self._handle.scatter(root, whole)

    def reduce(self, what="sum", axis=None):
        """A reduced array, divided as this one: sum, prod, max, min, mean, var,
        std over an axis, several, or all. Collective."""
        if what not in _REDUCTIONS:
            raise _divvy.InputError(f"a reduction is one of {', '.join(_REDUCTIONS)}")
        n = len(self.shape)
        axes = range(n) if axis is None else [axis] if isinstance(axis, int) else axis
        if not all(-n <= x < n for x in axes):
            raise _divvy.InputError(f"an array of {n} dims has no axis {axis}")
        dims = tuple(x % n for x in axes)
        return DistArray(self._handle.reduce(_REDUCTIONS.index(what), dims))

    def __repr__(self):
        return f"<divvy.DistArray {self.dtype}{list(self.shape)}>"


class Ranks:
    """Runs a plan that was made for a team (`team=size`) on its processes.

    comm     of mpi4py, with as many processes as the plan has ranks; None:
             MPI_COMM_WORLD
    threads  of this process; 0: its share of the machine's cores
    timeout  seconds to wait for another rank; 0: without limit
    """

    def __init__(self, plan: Plan, comm=None, threads=0, timeout=0.0):
        if comm is None:
            from mpi4py import MPI

            comm = MPI.COMM_WORLD
        self._tensors = {x.name: x for x in plan.tensors}
        self._handle = _divvy.rank(plan._handle, _address(comm), threads, timeout)

    def _tensor(self, name):
        if name not in self._tensors:
            raise _divvy.InputError(f"the plan has no input or output {name}")
        return self._tensors[name]

    def data(self, name):
        """The memory of this rank for a tensor, as an Array, where in it the
        elements are that the rank owns, and which of the whole tensor's these
        are; both are tuples of slices."""
        array, local, own = self._handle.data(name, self._tensor(name).dtype)
        inner = tuple(
            slice(o - first, o - first + n) for (o, n), (first, _) in zip(own, local)
        )
        return array, inner, tuple(slice(o, o + n) for o, n in own)

    def run(self):
        """Runs the plan once. Collective."""
        self._handle.run()

    def gather(self, name):
        """The whole tensor on rank 0, None elsewhere. Collective."""
        x = self._tensor(name)
        return self._handle.gather(name, x.dtype, x.shape)
