"""The examples of docstrings, of docs/python.md and of README.md."""

import doctest
import importlib
import inspect
import os
import pkgutil

import pytest

import divvy

NAMES = [m.name for m in pkgutil.iter_modules(divvy.__path__)]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.parametrize("name", ["", *NAMES])
def test_docstrings(name):
    module = importlib.import_module("divvy." + name if name else "divvy")
    ours = [x for x in vars(module).values() if is_ours(x)]
    for x in (module, *ours):
        members = vars(x).values() if isinstance(x, type) else ()
        for y in (x, *members):
            if getattr(y, "__doc__", None) and ">>>" in str(y.__doc__):
                run(y.__doc__, getattr(y, "__name__", name))


def is_ours(x):
    return not inspect.ismodule(x) and str(
        getattr(x, "__module__", None) or "divvy"
    ).startswith("divvy")


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_page(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as f:
        run(f.read().replace("```", ""), page)


def run(text, name):
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    assert test.examples
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert result.failed == 0
