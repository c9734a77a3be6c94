"""divvy: divides tensor programs over processes, cores, scratchpads and loops.

>>> import divvy
>>> import array
>>> a = memoryview(array.array("f", [1, 2, 3, 4])).cast("B").cast("f", (2, 2))
>>> memoryview(divvy.einsum("ij,jk->ik", a, a)).tolist()
[[7.0, 10.0], [15.0, 22.0]]
"""

from ._divvy import (
    Array,
    DtypeError,
    Error,
    InputError,
    SystemError,
    asarray,
    einsum,
    version,
)

__version__ = version()
__all__ = [
    "Array",
    "DtypeError",
    "Error",
    "InputError",
    "SystemError",
    "asarray",
    "einsum",
]
