"""Programs: parsed from texts and files, or built with operators; their runs."""

import json
import os
import re
import sys
from collections import namedtuple
from contextlib import contextmanager

from . import _divvy
from ._expr import Access, Expr, as_expr, wrap

Operand = namedtuple("Operand", "name dtype role shape file")
Operand.__doc__ = "A tensor of a program, with the values of its params."

Stats = namedtuple("Stats", "plans hits misses evicted")
Stats.__doc__ = """The cache of a session.

plans    that are kept now
hits     runs that found their plan; misses: runs that made it
evicted  plans that were dropped to make room
"""

# The values of dv_grain.
_GRAINS = ("source", "fused", "primitive", "function")
# The size of a param that only the shape of an input names.
_SIZE = 64


def read_source(source, ending):
    """The text and the name of a source, which is a text or a path."""
    if isinstance(source, os.PathLike) or (
        source.endswith(ending) and "\n" not in source
    ):
        return None, os.fspath(source)
    return source, None


def as_params(params):
    return {name: str(value) for name, value in (params or {}).items()}


@contextmanager
def shown(progress):
    """Makes the argument `progress` a function for the library, or None."""
    if progress is not True:
        yield progress or None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm(total=100, unit="%", leave=False) as bar:

        def show(what, done):
            bar.set_description(what)
            if done is not None:
                bar.update(int(100 * done) - bar.n)

        yield show


def as_arrays(operands, arrays):
    """Makes numbers and lists arrays of the types of their operands."""
    made = {}
    for name, x in arrays.items():
        if isinstance(x, (int, float, list, tuple)) and name in operands:
            x = _array(x, operands[name].dtype)
        made[name] = x
    return made


_NAMES = {"f": "float", "i": "int", "u": "uint"}


def _array(value, dtype):
    name = re.sub(r"^[fiu](?=\d)", lambda m: _NAMES[m[0]], dtype)
    if dtype == "bf16" or "numpy" not in sys.modules:
        raise _divvy.DtypeError(
            f"{value!r} is not an array; numpy makes one of {dtype} of it, if it has "
            "been imported and has this type"
        )
    return sys.modules["numpy"].asarray(value, name)


class Tensor:
    """A tensor of a program that is built; x[i, j] reads an element.

    An assignment to elements is a statement: the first one defines the tensor,
    later ones update it.
    """

    def __init__(self, program, name, dtype=None, is_defined=True):
        self._program = program
        self.name = name
        self.dtype = dtype
        self._is_defined = is_defined

    def __getitem__(self, index):
        return Access(f"{self.name}[{_list(index)}]")

    def __setitem__(self, index, value):
        self.set(index, value)

    def set(self, index, value, ranges=None, extern=False):
        """Assigns to elements, with ranges {i: (begin, end)} for indices.

        >>> import divvy
        >>> p = divvy.Program()
        >>> i = divvy.indices("i")
        >>> y = p.tensor("y", "f32")
        >>> y.set(i, 2.0 * i, ranges={i: (0, 4)})
        >>> p.output(y)
        >>> print(p.text, end="")
        y[i]: f32 = 2.0 * i  for i in 0..4
        output y
        """
        sign = "<-" if self._is_defined else "="
        kind = f": {self.dtype}" if self.dtype and not self._is_defined else ""
        line = f"{self.name}[{_list(index)}]{kind} {sign} {wrap(value, 0)}"
        if ranges:
            line += "  for " + ", ".join(
                f"{i} in {wrap(a, 0)}..{wrap(b, 0)}" for i, (a, b) in ranges.items()
            )
        self._program._add("extern " + line if extern else line)
        self._is_defined = True

    def __repr__(self):
        return f"<divvy.Tensor {self.name}>"

    def __iter__(self):
        raise TypeError("a tensor of a program is not iterable; index it")


def _list(index):
    index = index if isinstance(index, tuple) else (index,)
    return ",".join(wrap(i, 0) for i in index)


class Program:
    """What to compute: a text of the language, a file, or built by calls.

    >>> import divvy, numpy as np
    >>> p = divvy.Program('''
    ... param N = 4
    ... input x: f32[N]
    ... y[i] = 2 * x[i]
    ... output y
    ... ''')
    >>> p.run(x=np.ones(3, "f4"))["y"]
    array([2., 2., 2.], dtype=float32)

    The same, built:

    >>> p = divvy.Program()
    >>> x = p.input("x", "f32", ("N",))
    >>> y, i = p.tensor("y"), divvy.indices("i")
    >>> y[i] = 2 * x[i]
    >>> p.output(y)
    >>> p.run(x=np.ones(5, "f4"))["y"].shape
    (5,)

    source  the text, or the path of a .dv file; None: the program is built
    params  values for its params, in place of those that it gives them
    name    its name in messages
    """

    def __init__(self, source=None, params=None, name=None):
        self._params = as_params(params)
        self._lines = []
        self._places = []  # where in the caller's code each line was made
        self._depth = 0
        self._sizes = {}  # params that shapes of inputs name
        self._text, self._path = None, None
        if source is not None:
            self._text, self._path = read_source(source, ".dv")
        self._name = name or self._path or "program"
        self._is_built = source is None
        self._model = None
        self._drop()
        if source is not None:
            self._handle()

    def _drop(self):
        self._parsed = self._session = None

    def _handle(self):
        """The parsed program."""
        if self._parsed is None:
            text = self._source() if self._is_built else self._text
            try:
                self._parsed = _divvy.program(
                    text, self._path or self._name, self._params
                )
            except _divvy.Error as e:
                self._add_place(e)
                raise
        return self._parsed

    def _add_place(self, error):
        line = error.line - 1 - len(self._declared())
        if self._is_built and 0 <= line < len(self._places):
            error.add_note("the statement was made by %s:%d" % self._places[line])

    # -- Building ------------------------------------------------------------

    def _declared(self):
        return [f"param {n} = {v}" for n, v in self._sizes.items()]

    def _source(self):
        if self._depth:
            raise _divvy.InputError("a repeat of the program has not ended")
        return "\n".join([*self._declared(), *self._lines, ""])

    def _add(self, line):
        if not self._is_built:
            raise TypeError("the program was parsed; statements cannot be added")
        frame = sys._getframe(2)
        while frame.f_back and frame.f_globals.get("__name__") == __name__:
            frame = frame.f_back
        self._lines.append("    " * self._depth + line)
        self._places.append((frame.f_code.co_filename, frame.f_lineno))
        self._drop()

    def _shape(self, shape):
        for size in shape:
            known = [*self._sizes, *self._named]
            if isinstance(size, str) and size.isidentifier() and size not in known:
                self._sizes[size] = _SIZE
        return f"[{', '.join(wrap(size, 0) for size in shape)}]"

    @property
    def _named(self):
        return [x.split()[1] for x in self._lines if x.startswith("param ")]

    def param(self, name, value):
        """Declares a param with its default, and returns it for expressions."""
        self._add(f"param {name} = {wrap(value, 0)}")
        return Expr(name)

    def input(self, name, dtype, shape=()):
        """Declares an input. A name in its shape that is no param yet becomes
        one; its value follows from the arrays of each run."""
        self._add(f"input {name}: {dtype}{self._shape(shape)}")
        return Tensor(self, name)

    def const(self, name, dtype, shape=(), file=None):
        """Declares an input that is the same in all runs, perhaps a .npy file."""
        line = f"const {name}: {dtype}{self._shape(shape)}"
        self._add(line if file is None else f'{line} = "{os.fspath(file)}"')
        return Tensor(self, name)

    def temp(self, name, dtype, shape):
        """Declares a tensor whose shape does not follow from its definition."""
        self._add(f"temp {name}: {dtype}{self._shape(shape)}")
        return Tensor(self, name, is_defined=False)

    def tensor(self, name, dtype=None):
        """A tensor that an assignment to its elements will define."""
        return Tensor(self, name, dtype, is_defined=False)

    def output(self, *tensors):
        """Says what the program gives back."""
        names = [x.name if isinstance(x, Tensor) else x for x in tensors]
        self._add("output " + ", ".join(names))

    @contextmanager
    def repeat(self, times, end=None, counter=None):
        """Repeats the statements in its `with`.

        >>> import divvy
        >>> p = divvy.Program()
        >>> s, i = p.input("s", "f32", ("T", "N")), divvy.indices("i")
        >>> with p.repeat(1, "T", counter="t") as t:
        ...     s[t, i] = s[t, i] + s[t - 1, i]
        >>> p.output(s)
        >>> print(p.text, end="")
        param T = 64
        param N = 64
        input s: f32[T, N]
        repeat t in 1..T {
            s[t,i] <- s[t,i] + s[t - 1,i]
        }
        output s
        """
        if counter is None:
            self._add(f"repeat {wrap(times, 0)} {{")
        else:
            begin, end = (0, times) if end is None else (times, end)
            self._add(f"repeat {counter} in {wrap(begin, 0)}..{wrap(end, 0)} {{")
        self._depth += 1
        try:
            yield None if counter is None else as_expr(counter)
        finally:
            self._depth -= 1
            self._add("}")

    # -- What it is ----------------------------------------------------------

    @property
    def text(self):
        """The program as text."""
        return self._source() if self._is_built else self._handle().text()

    def json(self, grain="source"):
        """Params, tensors and ops as `divvy check --json` writes them, as a dict.

        grain  source, fused, primitive or function: how far statements are split
        """
        if grain not in _GRAINS:
            raise _divvy.InputError(f"grain is one of {', '.join(_GRAINS)}")
        return json.loads(self._handle().json(_GRAINS.index(grain)))

    @property
    def tensors(self):
        """All tensors, as Operand tuples."""
        return tuple(Operand(*x) for x in self._handle().tensors())

    @property
    def inputs(self):
        """The names of inputs, updated ones and constants without files too."""
        roles = ("input", "inout", "constant")
        return tuple(x.name for x in self.tensors if x.role in roles and not x.file)

    @property
    def outputs(self):
        """The names of outputs, updated inputs too."""
        return tuple(x.name for x in self.tensors if x.role in ("output", "inout"))

    def set(self, **params):
        """The same program with other values of params.

        >>> import divvy
        >>> p = divvy.Program("param N = 4\\ninput x: f32[N]\\noutput x\\n")
        >>> p.set(N=8).tensors[0].shape
        (8,)
        """
        if self._model:
            raise TypeError("params of a model are given to divvy.onnx.load")
        copy = Program.__new__(Program)
        copy.__dict__.update(self.__dict__)
        copy._params = {**self._params, **as_params(params)}
        copy._lines, copy._places = list(self._lines), list(self._places)
        copy._sizes = dict(self._sizes)
        copy._drop()
        copy._handle()
        return copy

    def __repr__(self):
        try:
            return f"<divvy.Program {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"
        except _divvy.Error as e:
            return f"<divvy.Program, incomplete: {e.message}>"

    # -- Planning and running ------------------------------------------------

    def plan(self, target="host", progress=None, **options):
        """Divides the program for a target; see divvy.Plan.

        >>> import divvy
        >>> p = divvy.Program("input x: f16[512, 1024]\\n"
        ...                   "y[i] = sum[j] x[i,j]\\noutput y\\n")
        >>> plan = p.plan(target="spyre", cores=8)
        >>> plan.check()
        >>> plan.target, len(plan.groups)
        ('spyre', 1)

        target    the name or the file of a target, or a divvy.Target
        progress  a function that is called with the name of a pass and None, or
                  True for a bar of tqdm, if that is installed
        options   cores, threads, divide, pins, joint, scratch, solver, … as
                  `divvy plan --help` lists them; docs/python.md has the table
        """
        from ._plan import Plan, as_target

        target = as_target(target)
        with shown(progress) as show:
            handle = _divvy.plan(self._handle(), target.text, options, show)
        return Plan(handle, options, self._model)

    def session(self, target="host", capacity=0, **options):
        """A Session, with a target and options of its own."""
        return Session(self, target, capacity, options)

    def run(self, arrays=None, /, *, out=None, update=False, progress=None, **named):
        """Runs the program with arrays by name, and returns a dict of outputs.

        Params follow from the shapes of the arrays. A plan and kernels are made
        when shapes are first seen; later runs find them. Arrays of any strides
        are used where they lie.

        out       a dict of arrays for outputs
        update    True: inputs that the program updates change in the caller's
                  arrays; False: in copies, which are returned
        progress  a function that is called with a word and the share that is
                  done or None, or True for a bar of tqdm, if it is installed

        >>> import divvy, numpy as np
        >>> p = divvy.Program("param N = 2\\ninput a: f64[N]\\n"
        ...                   "a[i] <- a[i] + 1\\noutput a\\n")
        >>> a = np.zeros(3)
        >>> p.run(a=a)["a"], a
        (array([1., 1., 1.]), array([0., 0., 0.]))
        """
        self._handle()
        if self._session is None:
            self._session = self.session()
        arrays = {**(arrays or {}), **named}
        return self._session.run(arrays, out=out, update=update, progress=progress)


class Session:
    """Runs a program, with a plan for each set of shapes that it has seen.

    >>> import divvy, numpy as np
    >>> p = divvy.Program("param N = 2\\ninput a: f64[N]\\n"
    ...                   "b[i] = a[i] + 1\\noutput b\\n")
    >>> s = p.session(capacity=2, threads=1)
    >>> for n in 3, 3, 4:
    ...     b = s.run(a=np.zeros(n))["b"]
    >>> s.stats
    Stats(plans=2, hits=1, misses=2, evicted=0)
    """

    def __init__(self, program, target, capacity, options):
        from ._plan import as_target

        self._operands = {x.name: x for x in program.tensors}
        self._runner = _divvy.session(
            program._handle(), as_target(target).text, options, capacity
        )

    def run(self, arrays=None, /, *, out=None, update=False, progress=None, **named):
        """Runs the program; see Program.run."""
        arrays = as_arrays(self._operands, {**(arrays or {}), **named})
        with shown(progress) as show:
            return self._runner.run(arrays, dict(out or {}), update, show)

    @property
    def stats(self):
        """The cache of plans, as Stats."""
        return Stats(*self._runner.stats())
