from typing import Any, Optional, Sequence, Union

__version__: str

class Error(Exception):
    status: str
    message: str
    file: Optional[str]
    line: int
    column: int

class InputError(Error, ValueError): ...
class DtypeError(Error, TypeError): ...
class SystemError(Error, OSError): ...

class Array:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def view(self, dtype: Any, /) -> "Array": ...

def asarray(array: Any, /) -> Array: ...
def einsum(
    subscripts: Any,
    *operands: Any,
    out: Any = None,
    optimize: Any = True,
    dtype: Any = None,
    order: str = "K",
    casting: str = "safe",
) -> Any: ...
