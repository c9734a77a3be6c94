"""Plans: how programs are divided, their proofs, runs, reports and pictures."""

import json
import os
import statistics
import time
from collections import namedtuple

from . import _divvy, _picture
from ._program import Operand, as_arrays, read_source, shown

Bench = namedtuple("Bench", "seconds median runs flops bytes")
Bench.__doc__ = """Times of runs of a plan.

seconds  of the fastest run; median: of all
runs     their number
flops    floating-point operations of one run
bytes    of inputs and outputs
"""

_EXECUTORS = ("seq", "threads", "sim")
_FORMATS = ("c", "openmp", "tt-metalium", "json", "csv", "object", "superdsc")


class Target:
    """A machine that programs are divided for; divvy.target makes it.

    >>> import divvy
    >>> divvy.target("spyre").properties["cores"]
    '32'
    """

    def __init__(self, text):
        self.text = text

    @property
    def name(self):
        return self.text.split()[1]

    @property
    def properties(self):
        """The properties as texts, by name; `divvy targets --properties`
        explains them."""
        lines = [x.split("=", 1) for x in self.text.splitlines() if "=" in x]
        return {name.strip(): value.strip().strip('"') for name, value in lines}

    def __repr__(self):
        return f"<divvy.Target {self.name}>"


def target(name_or_path):
    """A target by its name (host, spyre, …) or from a file.

    >>> import divvy
    >>> divvy.target("host")
    <divvy.Target host>
    """
    return Target(_divvy.target(os.fspath(name_or_path)))


def targets():
    """The names of the targets that are built in.

    >>> import divvy
    >>> "spyre" in divvy.targets()
    True
    """
    return _divvy.targets()


def as_target(x):
    return x if isinstance(x, Target) else target(x)


class Plan:
    """How a program is divided for a target: Program.plan makes it, and
    Plan.parse reads it. In a notebook it shows itself.

    >>> import divvy
    >>> p = divvy.Program("input x: f16[512, 1024]\\n"
    ...                   "m[j] = max[i] x[i,j]\\n"
    ...                   "y[i,j] = exp(x[i,j] - m[j])\\noutput y\\n")
    >>> plan = p.plan("spyre")
    >>> plan.check()
    >>> [g["ops"] for g in plan.groups]
    [['m', 'y_1', 'y']]
    """

    def __init__(self, handle, options=None, model=None):
        self._handle = handle
        self._options = options or {}
        self._model = model
        self._json = None
        self._runners = {}
        self._operands = None  # by name

    @classmethod
    def parse(cls, source, start_at=None, progress=None, **options):
        """Reads a plan from its text, or from the path of a .plan file.

        start_at  the name of a pass: it and those after it run again

        >>> import divvy
        >>> plan = divvy.Program("input x: f32[8]\\ny[i] = 2 * x[i]\\noutput y").plan()
        >>> divvy.Plan.parse(plan.text).text == plan.text
        True
        """
        text, name = read_source(source, ".plan")
        if text is None:
            with open(name, encoding="utf-8") as f:
                text = f.read()
        else:
            name = "plan"
        with shown(progress) as show:
            handle = _divvy.plan_parse(text, name, start_at, options, show)
        return cls(handle, options)

    @property
    def text(self):
        """The plan as text, which parses to the same plan."""
        return self._handle.text()

    def save(self, path):
        """Writes the text to a file."""
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.text)

    def json(self):
        """The plan as `divvy plan --json` writes it, as a dict."""
        if self._json is None:
            self._json = json.loads(self._handle.json())
        return self._json

    @property
    def target(self):
        """The name of the target."""
        return self.json()["target"]

    @property
    def groups(self):
        """The groups of ops that run together, as dicts: ops, tiles, cores, …"""
        return self.json()["groups"]

    @property
    def tensors(self):
        """The inputs, constants and outputs, as Operand tuples."""
        return tuple(
            Operand(x["name"], x["dtype"], x["role"], tuple(x["shape"]), x.get("file"))
            for x in self.json()["tensors"]
            if x["role"] != "temporary"
        )

    def check(self):
        """Proves from the plan alone that it is correct; raises divvy.Error."""
        self._handle.check()

    def report(self, path=None, changes=True, other=None):
        """Writes the plan as a web page, or returns the page without a path.

        changes  whether the page says which other machine or division would
                 make the plan faster
        other    a plan that the page compares it with
        """
        return self._write(path, False, changes, other)

    def trace(self, path=None):
        """Writes the timeline for viewers of Chrome's trace format."""
        return self._write(path, True, False, None)

    def _write(self, path, is_trace, changes, other):
        page = self._handle.report(
            is_trace, changes, self._options, other._handle if other else None
        )
        if path is None:
            return page
        with open(path, "w", encoding="utf-8") as f:
            f.write(page)
        return None

    def emit(self, format, folder):
        """Writes the plan into a folder: c, openmp, tt-metalium, json, csv, object or superdsc."""
        if format not in _FORMATS:
            raise _divvy.InputError(f"format is one of {', '.join(_FORMATS)}")
        self._handle.emit(_FORMATS.index(format), os.fspath(folder))

    # -- Running -------------------------------------------------------------

    def _runner(self, executor):
        if executor not in (None, *_EXECUTORS):
            raise _divvy.InputError(f"executor is one of {', '.join(_EXECUTORS)}")
        if executor not in self._runners:
            number = -1 if executor is None else _EXECUTORS.index(executor)
            self._runners[executor] = _divvy.exec(self._handle, self._model, number)
        return self._runners[executor]

    def run(
        self,
        arrays=None,
        /,
        *,
        out=None,
        update=False,
        executor=None,
        progress=None,
        **named,
    ):
        """Runs the plan with arrays by name, and returns a dict of outputs.

        executor  seq, threads or sim; None: threads on this machine, sim (the
                  simulator) for other targets
        out, update, progress  as for Program.run
        """
        if self._operands is None:
            self._operands = {x.name: x for x in self.tensors}
        arrays = as_arrays(self._operands, {**(arrays or {}), **named})
        runner = self._runner(executor)
        with shown(progress) as show:
            return runner.run(arrays, dict(out or {}), update, show)

    def made_up(self, seed=0):
        """Arrays for all inputs, with the elements that `divvy run` makes up.

        >>> import divvy
        >>> plan = divvy.Program("input x: f32[8]\\ny[i] = 2 * x[i]\\noutput y").plan()
        >>> plan.run(plan.made_up())["y"]
        divvy.Array(f32, shape=(8,))
        """
        given = ("input", "inout", "constant")
        runner, weights = self._runner(None), self._weights()
        return {
            x.name: runner.made_up(x.name, seed)
            for x in self.tensors
            if x.role in given and not x.file and x.name not in weights
        }

    def _weights(self):
        return self._model.weights() if self._model else ()

    def bench(self, arrays=None, /, *, seconds=1.0, executor=None):
        """Times runs, with made-up inputs if there are no arrays.

        seconds  it ends after this time, and after at least one run
        """
        runner = self._runner(executor)
        arrays = as_arrays({x.name: x for x in self.tensors}, arrays or self.made_up())
        out = runner.run(arrays, {}, False, None)
        out = {name: _divvy.asarray(x) for name, x in out.items()}
        times = []
        end = time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            runner.run(arrays, out, False, None)
            times.append(time.perf_counter() - start)
        flops, size = _picture.work(self.json())
        return Bench(min(times), statistics.median(times), len(times), flops, size)

    # -- Showing -------------------------------------------------------------

    def __repr__(self):
        plan = self.json()
        ops = _picture.count_of(plan["ops"], "op")
        groups = _picture.count_of(plan["groups"], "group")
        return f"<divvy.Plan for {plan['target']}: {ops} in {groups}>"

    def _repr_html_(self):
        return _picture.html_of(self.json())
