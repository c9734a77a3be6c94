"""Buffers with lifetimes, placed into one memory."""

from dataclasses import dataclass, fields
from typing import Optional, Sequence, Tuple

from . import _divvy

SOLVERS = ("auto", "exact", "anneal", "bestfit", "firstfit", "greedy")


@dataclass
class Buffer:
    """A buffer that is alive in the ticks start to end - 1.

    size, start, end  its bytes, and when it is alive
    name              for messages
    align             of its address; 0: as the call of place says
    address           where it must be; None: anywhere
    weight            traffic that is saved if it is placed; None: its size times
                      the number of its uses, without a first use that reads
    uses              pairs (tick, whether it writes all of it)
    first_use_is_read True: its contents come from main memory
    parents           numbers of the buffers whose memory it may reuse
    group             all buffers of a group are placed or none; 0: no group
    barred            why it may not be placed; None: it may
    """

    size: int
    start: int
    end: int
    name: Optional[str] = None
    align: int = 0
    address: Optional[int] = None
    weight: Optional[int] = None
    uses: Sequence[Tuple[int, bool]] = ()
    first_use_is_read: bool = False
    parents: Sequence[int] = ()
    group: int = 0
    barred: Optional[str] = None


@dataclass
class Placement:
    """Where buffers are.

    addresses  of each buffer; None: it is not placed
    reasons    why each is not placed; None: it is
    stays      (buffer, start, end, address): with evict=True buffers may leave
    peak       the end of the highest byte in use
    value      the weight that is placed; bound: what is possible at most
    gap        (bound - value) / bound
    proven     without a capacity: a bound below which no memory suffices
    """

    addresses: list
    reasons: list
    stays: list
    peak: int
    value: int
    bound: int
    gap: float
    proven: int
    solver: str
    steps: int


def _tuple(b):
    if isinstance(b, dict):
        b = Buffer(**b)
    elif not isinstance(b, Buffer):
        b = Buffer(*b)
    if not all(isinstance(x, int) for x in (b.size, b.start, b.end)):
        raise TypeError(f"size, start and end of {b!r} are integers")
    uses = tuple((tick, bool(writes)) for tick, writes in b.uses)
    return (
        b.name, b.size, b.start, b.end, b.align,
        -1 if b.address is None else b.address,
        -1 if b.weight is None else b.weight,
        uses, b.first_use_is_read, tuple(b.parents), b.group, b.barred,
    )  # fmt: skip


def place(
    buffers,
    capacity=None,
    *,
    align=1,
    solver="auto",
    budget=0,
    time_limit=0.0,
    seed=0,
    evict=False,
    must_fit=False,
):
    """Gives buffers addresses in one memory, and checks the result.

    Buffers that are alive at the same time share no byte. What does not fit is
    left out, so that the weight of the others is as large as possible.

    >>> import divvy
    >>> p = divvy.place([(64, 0, 3), (64, 3, 5), (32, 1, 4)], 96)
    >>> p.peak, p.reasons
    (96, [None, None, None])
    >>> divvy.place([(64, 0, 3), (64, 2, 5)]).peak
    128

    buffers   a list of divvy.Buffer, or of their first fields as tuples
    capacity  of the memory in bytes; None: all buffers are placed in as little
              as is found
    solver    auto, exact, anneal, bestfit, firstfit or greedy
    budget    of search steps, 0: the default; time_limit in seconds, 0: none
    evict     True: buffers may leave the memory and come back
    must_fit  True: no buffer should be left out
    """
    if solver not in SOLVERS:
        raise _divvy.InputError(f"solver is one of {', '.join(SOLVERS)}")
    if capacity is not None and capacity < 0:
        raise _divvy.InputError(f"capacity is {capacity}, less than 0")
    found = _divvy.place(
        [_tuple(b) for b in buffers],
        -1 if capacity is None else capacity,
        align,
        0 if solver == "auto" else SOLVERS.index(solver) + 1,
        budget,
        time_limit,
        seed,
        evict,
        must_fit,
    )
    pairs = found.pop("addresses")
    addresses = [None if address < 0 else address for address, _ in pairs]
    reasons = [None if address >= 0 else why for address, why in pairs]
    names = {f.name for f in fields(Placement)}
    assert names == set(found) | {"addresses", "reasons"}
    return Placement(addresses, reasons, **found)
