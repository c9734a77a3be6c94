"""Operands in and results out: buffers, DLPack, strides, types."""

import array
import gc

import numpy as np
import pytest

import divvy

TYPES = "f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 ?".split()


@pytest.mark.parametrize("t", TYPES)
def test_asarray_shares_memory(t):
    a = np.ones((2, 3), t)
    x = divvy.asarray(a)
    assert x.shape == (2, 3) and x.strides == a.strides and x.ndim == 2
    # numpy 1.24 takes no bool by DLPack.
    arrays = [np.asarray(x)] + ([np.from_dlpack(x)] if t != "?" else [])
    for b in arrays:
        assert b.dtype == a.dtype and np.shares_memory(a, b)
        assert (a == b).all()


def test_strides():
    a = np.arange(24.0).reshape(4, 6)[::-1, ::2].T
    assert (np.asarray(divvy.asarray(a)) == a).all()
    assert (np.from_dlpack(divvy.asarray(a)) == a).all()


def test_read_only():
    a = np.arange(4.0)
    a.flags.writeable = False
    x = divvy.asarray(a)
    assert not np.asarray(x).flags.writeable
    with pytest.raises(BufferError):
        x.__dlpack__()
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0)))


def test_memory_lives_as_long_as_its_users():
    x = divvy.asarray(np.arange(1000.0))
    b = np.from_dlpack(x)
    del x
    gc.collect()
    assert b.sum() == 499500


def test_without_numpy_arrays():
    a = array.array("d", [1, 2, 3])
    x = divvy.einsum("i,i->i", a, a)
    assert isinstance(x, divvy.Array) and x.dtype == "f64"
    assert memoryview(x).tolist() == [1, 4, 9]


def test_bf16():
    x = divvy.asarray(np.array([0x3F80, 0x4000], "u2")).view("bf16")
    y = divvy.einsum("i,i->i", x, x)
    assert y.dtype == "bf16"
    assert np.asarray(y.view("u16")).tolist() == [0x3F80, 0x4080]
    with pytest.raises(BufferError):
        memoryview(y)


def test_types_that_are_refused():
    for t in ("c16", "O"):
        with pytest.raises(TypeError):
            divvy.einsum("i->i", np.zeros(3, t))
