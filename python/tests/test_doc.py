"""The examples of docstrings, of docs/python.md and of README.md."""

import doctest
import importlib
import os
import pkgutil

import pytest

import divvy

NAMES = [m.name for m in pkgutil.iter_modules(divvy.__path__)]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.parametrize("name", ["", *NAMES])
def test_docstrings(name):
    module = importlib.import_module("divvy." + name if name else "divvy")
    for x in (module, *vars(module).values()):
        if getattr(x, "__doc__", None) and ">>>" in str(x.__doc__):
            run(x.__doc__, getattr(x, "__name__", name))


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_page(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as f:
        run(f.read().replace("```", ""), page)


def run(text, name):
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    assert test.examples
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert result.failed == 0
