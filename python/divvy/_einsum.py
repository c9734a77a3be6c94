"""What is rare or slow in calls of einsum, and functions around it."""

import json
import sys
from math import prod

from . import _divvy

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


# -- Forms of calls -----------------------------------------------------------


def _letters_of(symbols):
    """Letters for symbols, in their order, so that implicit outputs agree."""
    numbers = all(isinstance(s, int) and 0 <= s < 52 for s in symbols)
    if numbers:
        return {s: _LETTERS[s] for s in symbols}
    try:
        ordered = sorted(symbols)
    except TypeError:
        ordered = list(symbols)  # in the order of appearance
    if len(ordered) > 52:
        raise ValueError(f"einsum has at most 52 indices, there are {len(ordered)}")
    return dict(zip(ordered, _LETTERS))


def _read_lists(args):
    """einsum(a, [0, 1], b, [1, 2], [0, 2]): the operands and the string."""
    operands, lists = list(args[::2]), list(args[1::2])
    has_output = len(args) % 2 == 1
    if has_output:
        lists.append(operands.pop())
    try:
        lists = [list(x) for x in lists]
        symbols = dict.fromkeys(s for x in lists for s in x if s is not Ellipsis)
    except TypeError:
        raise TypeError(
            "einsum: expected a string and operands, or operands and lists of "
            "indices in turn"
        ) from None
    for s in symbols:
        if isinstance(s, int) and not 0 <= s < 52:
            raise ValueError(f"index {s} is not in the range 0 to 51")
    letters = _letters_of(symbols)
    terms = ["".join("..." if s is Ellipsis else letters[s] for s in x) for x in lists]
    output = "->" + terms.pop() if has_output else ""
    return ",".join(terms) + output, operands


def _in_ascii(text):
    """Letters of other alphabets, as opt_einsum uses, become ours."""
    if text.isascii():
        return text
    symbols = sorted({c for c in text if c not in " .,->"})
    letters = _letters_of(dict.fromkeys(symbols))
    return "".join(letters.get(c, c) for c in text)


def _read(args):
    if not args:
        raise ValueError("einsum: expected a string and operands")
    if isinstance(args[0], bytes):
        args = (args[0].decode(), *args[1:])
    if not isinstance(args[0], str):
        if len(args) < 2:
            raise ValueError("einsum: an operand has no list of indices")
        text, operands = _read_lists(args)
    else:
        text, operands = _in_ascii(args[0]), list(args[1:])
    if not operands:
        raise ValueError("einsum: there are no operands")
    return text, operands


def unusual(
    *args, out=None, optimize=True, dtype=None, order="K", casting="safe"
):
    """einsum with any of its arguments."""
    text, operands = _read(args)
    if dtype is not None or casting != "safe":
        operands = _cast(operands, dtype, casting)
    if isinstance(order, str) and order.upper() in ("C", "K"):
        wanted = "C"
    elif isinstance(order, str) and order.upper() in ("F", "A"):
        wanted = order.upper()
    else:
        raise ValueError(f"order is one of 'C', 'F', 'A' or 'K', not {order!r}")
    path = _path_of(optimize)
    if path is not None and len(path) > 1:
        result = _along(text, operands, path, out)
    elif out is None:
        result = _divvy.einsum(text, *operands)
    elif casting != "safe":
        np = _numpy("casting")
        np.copyto(out, _divvy.einsum(text, *operands), casting=casting)
        result = out
    else:
        result = _divvy.einsum(text, *operands, out=out)
    if out is None and wanted != "C":
        result = _in_order(result, operands, wanted)
    return result


def _numpy(why):
    numpy = sys.modules.get("numpy")
    if numpy is None:
        raise TypeError(f"einsum: {why} needs numpy to be imported")
    return numpy


def _cast(operands, dtype, casting):
    np = _numpy("dtype or casting")
    operands = [np.asarray(x) for x in operands]
    if dtype is None:
        dtype = np.result_type(*operands)
    return [x.astype(dtype, casting=casting, copy=False) for x in operands]


def _in_order(result, operands, wanted):
    np = _numpy("order")
    columns = all(np.asarray(x).flags.f_contiguous for x in operands)
    return np.asfortranarray(result) if wanted == "F" or columns else result


def into(out, text, *operands):
    """einsum into an array of another type, or one that shares memory."""
    np = _numpy("an out of another type, or in the memory of an operand,")
    if not isinstance(out, np.ndarray):
        raise TypeError(f"einsum: out is no array but {type(out).__name__}")
    kind = np.result_type(*(np.asarray(x) for x in operands))
    if kind != out.dtype:
        if not np.can_cast(kind, out.dtype, "safe"):
            raise _divvy.DtypeError(
                f"the result has elements of {kind}, out has {out.dtype}"
            )
        operands = [np.asarray(x).astype(out.dtype) for x in operands]
    result = _divvy.einsum(text, *operands)
    if np.shape(result) != out.shape:
        raise ValueError(f"the result is {np.shape(result)}, out is {out.shape}")
    out[...] = result
    return out


def view(array, dims):
    """The view of a numpy array whose dim d is dim dims[d] of the result."""
    if len(set(dims)) == len(dims):
        return array.transpose(sorted(range(len(dims)), key=dims.__getitem__))
    dims = list(dims)
    while len(set(dims)) < len(dims):
        twice = next(d for d in dims if dims.count(d) > 1)
        first = dims.index(twice)
        second = dims.index(twice, first + 1)
        writeable = array.flags.writeable
        array = array.diagonal(0, first, second)
        array.flags.writeable = writeable
        dims = [d for i, d in enumerate(dims) if i not in (first, second)] + [twice]
    return view(array, tuple(dims))


# -- Paths --------------------------------------------------------------------


def _path_of(optimize):
    """A path that the caller prescribes, or None."""
    if isinstance(optimize, (bool, str)) or optimize is None:
        if isinstance(optimize, str) and optimize not in (
            "auto", "optimal", "greedy", "dp", "auto-hq",
        ):
            raise KeyError(f"there is no path {optimize!r}")
        return None
    path = list(optimize)
    if path and path[0] == "einsum_path":
        return [tuple(step) for step in path[1:]]
    if len(path) == 2 and isinstance(path[0], str):
        return None  # ('greedy', limit of elements)
    if all(isinstance(step, (tuple, list)) for step in path):
        return [tuple(step) for step in path]
    raise TypeError(f"optimize is True, False, a name or a path, not {optimize!r}")


def _check_path(path, n):
    for step in path:
        if any(not isinstance(i, int) or not 0 <= i < n for i in step):
            raise RuntimeError(f"a step of the path is {step}, of {n} operands")
        if len(set(step)) < len(step) or not step:
            raise RuntimeError(f"a step of the path is {step}")
        n += 1 - len(step)
    if n != 1:
        raise RuntimeError(f"the path leaves {n} operands")


def _output_of(text, shapes):
    """The terms of the operands and the output, with letters for ellipses."""
    text = text.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        raise ValueError(
            f"the expression has {len(terms)} operands, {len(shapes)} were given"
        )
    dots = [len(s) - len(t) + 3 if "..." in t else 0 for t, s in zip(terms, shapes)]
    free = [c for c in _LETTERS if c not in text][: max(dots, default=0)]
    free = "".join(free)
    full = [t.replace("...", free[len(free) - n :]) for t, n in zip(terms, dots)]
    if not arrow:
        once = sorted(c for c in set(inputs) - set(".,") if inputs.count(c) == 1)
        return full, free + "".join(once)
    return full, output.replace("...", free)


def _along(text, operands, path, out):
    """Products in a prescribed order, one call for each step."""
    terms, output = _output_of(text, [_shape(x) for x in operands])
    arrays = list(operands)
    _check_path(path, len(arrays))
    for step in path:
        chosen = [arrays[i] for i in step]
        factors = [terms[i] for i in step]
        for i in sorted(step, reverse=True):
            del arrays[i], terms[i]
        others = set(output).union(*terms)
        last = not arrays
        result = output if last else "".join(
            c for c in dict.fromkeys("".join(factors)) if c in others
        )
        product = f"{','.join(factors)}->{result}"
        words = {"out": out} if last and out is not None else {}
        arrays.append(_divvy.einsum(product, *chosen, **words))
        terms.append(result)
    return arrays[0]


def _shape(x):
    shape = getattr(x, "shape", None)
    return tuple(shape) if shape is not None else _divvy.asarray(x).shape


def einsum_path(*args, optimize=True, einsum_call=False):
    """The order in which einsum multiplies its operands.

    Returns a list that einsum takes as `optimize`, and a table: as
    numpy.einsum_path.

    >>> import divvy, numpy as np
    >>> a, b, c = np.ones((8, 9)), np.ones((9, 100)), np.ones((100, 2))
    >>> divvy.einsum_path("ij,jk,kl->il", a, b, c)[0]
    ['einsum_path', (1, 2), (0, 1)]
    """
    text, operands = _read(args)
    n = len(operands)
    given = _path_of(optimize)
    search, limit = 0, 0
    if given is None and not isinstance(optimize, (bool, str)):
        search, limit = _SEARCHES.get(optimize[0], 0), max(int(optimize[1]), 1)
    elif isinstance(optimize, str):
        search = _SEARCHES.get(optimize, 0)
    if search == 1 and n > 10:
        search = 0
    try:
        table, figures = _divvy.einsum_json(search, limit, text, *operands)
    except _divvy.InputError as e:
        if e.status != "capacity":
            raise
        table, figures = str(e), None  # no order is within the limit
    if given is not None:
        _check_path(given, n)
        path = given
    elif figures is None or optimize is False or n == 1:
        path = [tuple(range(n))]
    else:
        path = _positions(json.loads(figures), n)
    return ["einsum_path", *path], table


# The values of dv_path_search.
_SEARCHES = {"optimal": 1, "greedy": 2}


def _positions(path, n):
    """Steps as positions in a list from which each step removes its factors."""
    same = {}  # sums of one factor take its place
    names = [f"x{i}" for i in range(n)]
    for step in path["steps"]:
        factors = [same.get(f, f) for f in step["factors"]]
        if len(factors) == 1:
            same[step["name"]] = factors[0]
            continue
        at = tuple(sorted(names.index(f) for f in factors))
        for i in reversed(at):
            del names[i]
        names.append(step["name"])
        yield at


def contract_expression(*args, optimize=True, constants=None, **options):
    """A function for arrays of these shapes, as opt_einsum.contract_expression.

    Instead of an array that is the same in all calls, which `constants` lists
    by position, its value is given.

    >>> import divvy, numpy as np
    >>> f = divvy.contract_expression("ij,jk->ik", (2, 3), (3, 4))
    >>> f(np.ones((2, 3)), np.ones((3, 4))).shape
    (2, 4)
    """
    constants = set(constants or ())
    if isinstance(args[0], str):
        text, items = _in_ascii(args[0]), list(args[1:])
    else:
        text, items = _read_lists(args)
    n = len(items)
    fixed = {i: items[i] for i in sorted(constants)}
    shapes = [_shape(x) if i in fixed else tuple(x) for i, x in enumerate(items)]
    _check(text, shapes)
    return Expression(text, shapes, fixed, optimize, n)


def _check(text, shapes):
    """Fails if the expression is not one for these shapes."""
    sizes = [max(1, prod(shape)) for shape in shapes]
    block = memoryview(bytes(max(sizes)))
    arrays = []
    for shape, size in zip(shapes, sizes):
        dims = shape if prod(shape) else tuple(1 for _ in shape)
        part = block[:size]
        arrays.append(part.cast("B", dims) if dims else part.cast("B", ()))
    _divvy.einsum_json(0, 0, text, *arrays)


class Expression:
    """An einsum for arrays of fixed shapes; see contract_expression."""

    def __init__(self, text, shapes, fixed, optimize, n):
        self._text = text
        self._shapes = shapes
        self._fixed = fixed
        self._optimize = optimize
        self._n = n

    def __call__(self, *arrays, out=None, backend=None):
        if self._fixed:
            given = iter(arrays)
            if len(arrays) != self._n - len(self._fixed):
                raise ValueError(self._wants(len(arrays)))
            arrays = [
                self._fixed[i] if i in self._fixed else next(given)
                for i in range(self._n)
            ]
        if len(arrays) != self._n:
            raise ValueError(self._wants(len(arrays)))
        for i, (x, shape) in enumerate(zip(arrays, self._shapes)):
            if _shape(x) != shape:
                raise ValueError(f"array {i} has the shape {_shape(x)}, not {shape}")
        if out is None and self._optimize is True:
            return _divvy.einsum(self._text, *arrays)
        return _divvy.einsum(self._text, *arrays, out=out, optimize=self._optimize)

    def _wants(self, n):
        return f"the expression takes {self._n - len(self._fixed)} arrays, not {n}"

    def __repr__(self):
        return f"<divvy.Expression {self._text!r} for {self._shapes}>"


# -- opt_einsum's backend -----------------------------------------------------


def _axes(axes, n):
    """Dims from 0 on, each at most once."""
    found = [x % n for x in axes if -n <= x < n]
    if len(found) != len(axes) or len(set(found)) != len(found):
        raise ValueError(f"{list(axes)} are no different dims of an array of {n} dims")
    return found


def tensordot(a, b, axes=2):
    """The sum of products over some dims, as numpy.tensordot.

    >>> import divvy, numpy as np
    >>> divvy.tensordot(np.ones((2, 3, 4)), np.ones((3, 4, 5))).shape
    (2, 5)
    """
    n, m = len(_shape(a)), len(_shape(b))
    if isinstance(axes, int):
        left, right = list(range(n - axes, n)), list(range(axes))
    else:
        left, right = ([x] if isinstance(x, int) else list(x) for x in axes)
    left, right = _axes(left, n), _axes(right, m)
    if len(left) != len(right):
        raise ValueError(f"axes has {len(left)} dims of a and {len(right)} of b")
    of_a = list(_LETTERS[:n])
    of_b = list(_LETTERS[n : n + m])
    for i, k in zip(left, right):
        of_b[k] = of_a[i]
    kept = [c for i, c in enumerate(of_a) if i not in left]
    kept += [c for k, c in enumerate(of_b) if k not in right]
    return _divvy.einsum(f"{''.join(of_a)},{''.join(of_b)}->{''.join(kept)}", a, b)


def transpose(a, axes=None):
    """The dims in another order, a view.

    >>> import divvy, numpy as np
    >>> divvy.transpose(np.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    n = len(_shape(a))
    axes = _axes(axes, n) if axes is not None else list(range(n))[::-1]
    if len(axes) != n:
        raise ValueError(f"axes has {len(axes)} dims, the array has {n}")
    letters = _LETTERS[:n]
    return _divvy.einsum(f"{letters}->{''.join(letters[x] for x in axes)}", a)
