"""Exceptions: classes, attributes, texts."""

import numpy as np
import pytest

import divvy


def test_position():
    with pytest.raises(ValueError) as e:
        divvy.einsum("ij,jk->i$", np.ones((2, 2)), np.ones((2, 2)))
    x = e.value
    assert isinstance(x, divvy.InputError) and isinstance(x, divvy.Error)
    assert (x.status, x.file, x.line, x.column) == ("syntax", "einsum", 1, 9)
    assert x.message.startswith("'$' is no index")
    assert str(x).splitlines()[-1].endswith("^")
