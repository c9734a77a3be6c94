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
from . import onnx
from ._expr import Access, Expr, Index, fn, indices
from ._place import Buffer, Placement, place
from ._plan import Bench, Plan, Target, target, targets
from ._program import Operand, Program, Session, Stats, Tensor
from ._team import DistArray, Ranks, Team

__version__ = version()
__all__ = [
    "Access",
    "Array",
    "Bench",
    "Buffer",
    "DistArray",
    "DtypeError",
    "Error",
    "Expr",
    "Expression",
    "Index",
    "InputError",
    "Operand",
    "Placement",
    "Plan",
    "Program",
    "Ranks",
    "Session",
    "Stats",
    "SystemError",
    "Target",
    "Team",
    "Tensor",
    "asarray",
    "contract_expression",
    "einsum",
    "einsum_path",
    "fn",
    "indices",
    "onnx",
    "place",
    "target",
    "targets",
    "tensordot",
    "transpose",
]
