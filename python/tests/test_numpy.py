"""numpy's own tests of einsum, with numpy.einsum replaced by divvy's."""

import importlib

import numpy as np
import pytest

import divvy

for name in ("numpy._core.tests.test_einsum", "numpy.core.tests.test_einsum"):
    try:
        theirs = importlib.import_module(name)
        break
    except ImportError:
        pass
else:
    pytest.skip("numpy is installed without its tests", allow_module_level=True)

# Tests that do not apply, and why.
TYPE = "divvy has no such element type"
ORDER = "the test wants the very order that numpy's search finds"
EXCEPTIONS = {
    "test_einsum_sums_longdouble": TYPE,
    "test_einsum_sums_clongdouble": TYPE,
    "test_einsum_sums_cfloat64": TYPE,
    "test_einsum_sums_cfloat128": TYPE,
    "test_einsum_sums_object": TYPE,
    "test_different_paths[g]": TYPE,
    "test_different_paths[F]": TYPE,
    "test_different_paths[D]": TYPE,
    "test_different_paths[G]": TYPE,
    "test_different_paths[O]": TYPE,
    "test_output_order": "the test wants a result that is neither row-major nor "
    "column-major, because numpy's tensordot makes one; ours is row-major. "
    "test_einsum.py has the rest of the test",
    "test_long_paths": ORDER,
    "test_edge_paths": ORDER,
    "test_path_type_input": ORDER + "; test_einsum.py has the rest of the test",
}


def without_text(error, text, *args, **words):
    """Messages have other words than numpy's."""
    return np.testing.assert_raises(error, *args, **words)


@pytest.fixture(autouse=True)
def replace(request, monkeypatch):
    reason = EXCEPTIONS.get(request.node.name)
    if reason:
        pytest.skip(reason)
    if hasattr(theirs, "assert_raises_regex"):
        monkeypatch.setattr(theirs, "assert_raises_regex", without_text)
    monkeypatch.setattr(np, "einsum", divvy.einsum)
    monkeypatch.setattr(np, "einsum_path", divvy.einsum_path)


class TestEinsum(theirs.TestEinsum):
    pass


class TestEinsumPath(theirs.TestEinsumPath):
    pass


for name in vars(theirs):
    if name.startswith("test_"):
        globals()[name] = getattr(theirs, name)
