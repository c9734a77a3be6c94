"""Expressions of programs, written with Python's operators.

They are texts of the language with the precedence of their outermost operator;
docs/language.md explains what they mean.
"""

import math
import numbers

# Precedences of operators, as in src/lang/op.def; calls and names are atoms.
_ATOM, _UNARY, _PRODUCT = 20, 10, 9
_BINARY = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "<": 6, "<=": 6, ">": 6, ">=": 6,
    "==": 6, "!=": 6, "<<": 7, ">>": 7, "+": 8, "-": 8, "*": 9, "/": 9,
}  # fmt: skip


class Expr:
    """A value at each point of a statement: what `x[i, j] * 2` is in Python.

    Operators are those of the language: + - * / (of floats), % (the function
    mod), ** (pow), comparisons, & | ^ ~ << >> (of integers), abs(x). Functions
    and reducers are in divvy.fn.

    >>> import divvy
    >>> i, j = divvy.indices("i j")
    >>> (i + 1) * 2 - j
    (i + 1) * 2 - j
    """

    __slots__ = ("text", "level")

    def __init__(self, text, level=_ATOM):
        self.text = text
        self.level = level

    def __repr__(self):
        return self.text

    def __bool__(self):
        raise TypeError(
            "an expression has no value yet; use divvy.fn.select, "
            "divvy.fn.logical_and, or one comparison after the other"
        )

    __hash__ = object.__hash__

    def __add__(self, other):
        return _binary("+", self, other)

    def __radd__(self, other):
        return _binary("+", other, self)

    def __sub__(self, other):
        return _binary("-", self, other)

    def __rsub__(self, other):
        return _binary("-", other, self)

    def __mul__(self, other):
        return _binary("*", self, other)

    def __rmul__(self, other):
        return _binary("*", other, self)

    def __truediv__(self, other):
        return _binary("/", self, other)

    def __rtruediv__(self, other):
        return _binary("/", other, self)

    def __mod__(self, other):
        return call("mod", self, other)

    def __rmod__(self, other):
        return call("mod", other, self)

    def __pow__(self, other):
        return call("pow", self, other)

    def __rpow__(self, other):
        return call("pow", other, self)

    def __and__(self, other):
        return _binary("&", self, other)

    def __rand__(self, other):
        return _binary("&", other, self)

    def __or__(self, other):
        return _binary("|", self, other)

    def __ror__(self, other):
        return _binary("|", other, self)

    def __xor__(self, other):
        return _binary("^", self, other)

    def __rxor__(self, other):
        return _binary("^", other, self)

    def __lshift__(self, other):
        return _binary("<<", self, other)

    def __rlshift__(self, other):
        return _binary("<<", other, self)

    def __rshift__(self, other):
        return _binary(">>", self, other)

    def __rrshift__(self, other):
        return _binary(">>", other, self)

    def __lt__(self, other):
        return _binary("<", self, other)

    def __le__(self, other):
        return _binary("<=", self, other)

    def __gt__(self, other):
        return _binary(">", self, other)

    def __ge__(self, other):
        return _binary(">=", self, other)

    def __eq__(self, other):
        return _binary("==", self, other)

    def __ne__(self, other):
        return _binary("!=", self, other)

    def __neg__(self):
        return Expr("-" + wrap(self, _UNARY), _UNARY)

    def __pos__(self):
        return self

    def __invert__(self):
        return Expr("~" + wrap(self, _UNARY), _UNARY)

    def __abs__(self):
        return call("abs", self)


class Index(Expr):
    """A variable of statements; divvy.indices makes them."""

    __slots__ = ()


class Access(Expr):
    """An element of a tensor, as `x[i, j]`."""

    __slots__ = ()

    def otherwise(self, value):
        """The element, or `value` where the indices leave the tensor.

        >>> import divvy
        >>> p = divvy.Program()
        >>> x, i = p.input("x", "f32", ("N",)), divvy.indices("i")
        >>> x[i - 1].otherwise(0) + x[i]
        (x[i - 1] else 0) + x[i]
        """
        return Expr(f"{self.text} else {wrap(value, _UNARY)}", 0)


def indices(names):
    """Variables with these names, which spaces or commas separate.

    >>> import divvy
    >>> i, j = divvy.indices("i j")
    >>> i
    i
    """
    made = [Index(name) for name in names.replace(",", " ").split()]
    return made[0] if len(made) == 1 else tuple(made)


def as_expr(value):
    """A number, the name of a param or variable, or an expression."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, str):
        return Expr(value)
    if isinstance(value, numbers.Integral):
        text = str(int(value))
    elif isinstance(value, numbers.Real) or hasattr(value, "__float__"):
        number = float(value)
        if math.isnan(number):
            raise ValueError("a program cannot contain nan as a number")
        text = repr(number)
    else:
        raise TypeError(f"{value!r} cannot stand in an expression of a program")
    return Expr(text, _UNARY if text[0] == "-" else _ATOM)


def wrap(value, level):
    """The text of a value, in parentheses if its operator binds less tightly."""
    x = as_expr(value)
    return x.text if x.level >= level else f"({x.text})"


def _binary(operator, a, b):
    if isinstance(a, str) or isinstance(b, str):
        return NotImplemented
    try:
        a, b = as_expr(a), as_expr(b)
    except TypeError:
        return NotImplemented
    level = _BINARY[operator]
    # Comparisons do not chain; all others group to the left.
    left = wrap(a, level + (level == _BINARY["<"]))
    return Expr(f"{left} {operator} {wrap(b, level + 1)}", level)


def call(name, *args):
    return Expr(f"{name}({', '.join(wrap(a, 0) for a in args)})")


def _function(name, n, doc):
    def function(*args):
        if len(args) != n:
            raise TypeError(f"{name} takes {n} arguments, not {len(args)}")
        return call(name, *args)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return staticmethod(function)


def _operator(name, operator):
    def function(a, b):
        return _binary(operator, as_expr(a), as_expr(b))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"a {operator} b"
    return staticmethod(function)


def _reducer(name):
    def reducer(value, over, *others):
        if name in ("max", "min") and not isinstance(over, (Index, tuple, list)):
            return call(name, value, over)
        over = [over] if isinstance(over, Index) else list(over)
        text = ",".join(x.text for x in [*over, *others])
        return Expr(f"{name}[{text}] {wrap(value, _PRODUCT)}", 0)

    reducer.__name__ = reducer.__qualname__ = name
    reducer.__doc__ = f"The {name} of a value over indices."
    if name in ("max", "min"):
        reducer.__doc__ += " Of two values it is the function."
    return staticmethod(reducer)


class fn:
    """Functions and reducers of the language.

    Reducers take a value and the indices that they go over: sum, prod, mean,
    max, min, argmax, argmin.

    >>> import divvy
    >>> p = divvy.Program()
    >>> x = p.input("x", "f32", ("M", "N"))
    >>> i, j = divvy.indices("i j")
    >>> divvy.fn.exp(x[i, j] - divvy.fn.max(x[i, j], j))
    exp(x[i,j] - (max[j] x[i,j]))
    """

    for _name in (
        "exp exp2 expm1 log log2 log1p sqrt rsqrt sin cos tan asin acos atan sinh "
        "cosh tanh asinh acosh atanh erf sigmoid silu gelu relu abs sign floor "
        "ceil round trunc isnan isinf"
    ).split():
        locals()[_name] = _function(_name, 1, f"{_name}(x)")
    for _name in "pow atan2 mod rem".split():
        locals()[_name] = _function(_name, 2, f"{_name}(x, y)")
    select = _function("select", 3, "select(c, a, b): a where c is not 0, else b")
    clamp = _function("clamp", 3, "clamp(x, low, high)")
    logical_and = _operator("logical_and", "&&")
    logical_or = _operator("logical_or", "||")
    for _name in "sum prod mean max min argmax argmin".split():
        locals()[_name] = _reducer(_name)
    del _name

    @staticmethod
    def logical_not(x):
        """1 where x is 0, else 0."""
        return Expr("!" + wrap(x, _UNARY), _UNARY)
