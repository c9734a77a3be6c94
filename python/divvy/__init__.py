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
from ._einsum import (
    Expression,
    contract_expression,
    einsum_path,
    tensordot,
    transpose,
)

__version__ = version()
__all__ = [
    "Array",
    "DtypeError",
    "Error",
    "Expression",
    "InputError",
    "SystemError",
    "asarray",
    "contract_expression",
    "einsum",
    "einsum_path",
    "tensordot",
    "transpose",
]
