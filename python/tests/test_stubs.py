"""The type stubs have the names, parameters and defaults of the package."""

import ast
import importlib
import inspect
import os

import pytest

import divvy

ROOT = os.path.dirname(divvy.__file__)


def parameters_of_stub(f):
    a = f.args
    names = [x.arg for x in [*a.posonlyargs, *a.args]]
    names += ["*" + a.vararg.arg] if a.vararg else []
    names += [x.arg for x in a.kwonlyargs]
    names += ["**" + a.kwarg.arg] if a.kwarg else []
    values = [*a.defaults, *(d for d in a.kw_defaults if d is not None)]
    return names, [ast.literal_eval(d) for d in values]


def parameters_of(f):
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    all = inspect.signature(f).parameters.values()
    names = [marks.get(p.kind, "") + p.name for p in all]
    return names, [p.default for p in all if p.default is not p.empty]


def functions(tree, of):
    """Pairs of a function in the stub and the real one."""
    for x in tree.body:
        if isinstance(x, ast.FunctionDef) and not x.name.startswith("__"):
            yield x, inspect.getattr_static(of, x.name)
        elif isinstance(x, ast.ClassDef) and not x.name.startswith("_"):
            yield from functions(x, getattr(of, x.name))


@pytest.mark.parametrize("name", ["__init__", "onnx"])
def test_stub(name):
    module = divvy if name == "__init__" else importlib.import_module("divvy." + name)
    with open(os.path.join(ROOT, name + ".pyi"), encoding="utf-8") as f:
        tree = ast.parse(f.read())
    compared = 0
    for stub, real in functions(tree, module):
        real = getattr(real, "__func__", real)
        if not inspect.isfunction(real):
            continue  # a property, or a function in C
        names, values = parameters_of(real)
        if real.__qualname__ in ("function", "reducer") or names == ["*args"]:
            continue  # made by a loop
        assert (names, values) == parameters_of_stub(stub), stub.name
        compared += 1
    assert compared >= (2 if name == "onnx" else 25)
    named = {getattr(x, "name", None) for x in tree.body}
    imported = {a.name for x in tree.body if isinstance(x, ast.ImportFrom) for a in x.names}
    assert set(module.__all__) <= named | imported
    for x in tree.body:
        if isinstance(x, (ast.ClassDef, ast.FunctionDef)):
            assert hasattr(module, x.name)


def test_functions_of_programs():
    """divvy.fn has all functions, and the stub has all of divvy.fn."""
    with open(os.path.join(ROOT, "__init__.pyi"), encoding="utf-8") as f:
        tree = ast.parse(f.read())
    stub = next(x for x in tree.body if isinstance(x, ast.ClassDef) and x.name == "fn")
    listed = {x.name for x in stub.body}
    assert listed == {x for x in vars(divvy.fn) if not x.startswith("_")}
