"""ONNX models: divvy.onnx.load(path).run(x=…)."""

import os

from . import _divvy
from ._program import Program, as_params

__all__ = ["Model", "load"]


def load(path, **params):
    """Imports a model; docs/onnx.md lists the operators.

    params  values of symbolic dims (batch=1), and the contents of inputs that
            must be known at import, such as shapes (shape="2,3,4")
    """
    return Model(_divvy.onnx(os.fspath(path), as_params(params)))


class Model:
    """An ONNX model, whose inputs and outputs have the model's names."""

    def __init__(self, handle):
        self._handle = handle
        self._inputs, self._outputs = handle.names()
        self._runner = None
        #: The model as a divvy.Program, whose tensors have names of their own.
        self.program = _program(handle)

    @property
    def inputs(self):
        """The names of the inputs."""
        return tuple(self._inputs)

    @property
    def outputs(self):
        """The names of the outputs."""
        return tuple(self._outputs)

    def plan(self, target="host", progress=None, **options):
        """Divides the model for a target; see divvy.Program.plan."""
        return self.program.plan(target, progress, **options)

    def run(self, arrays=None, /, *, progress=None, **named):
        """Runs the model with arrays by name, and returns a dict of outputs."""
        arrays = {**(arrays or {}), **named}
        unknown = [name for name in arrays if name not in self._inputs]
        if unknown:
            raise _divvy.InputError(
                f"the model has no input {unknown[0]}; it has {', '.join(self.inputs)}"
            )
        if self._runner is None:
            self._runner = self.plan(progress=progress)
        given = {self._inputs[name]: x for name, x in arrays.items()}
        found = self._runner.run(given, progress=progress)
        return {name: found[t] for name, t in self._outputs.items()}

    def __repr__(self):
        return f"<divvy.onnx.Model {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"


def _program(model):
    p = Program()
    p._is_built = False
    p._parsed = model.program()
    p._model = model
    return p
