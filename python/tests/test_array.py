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


class Named(np.ndarray):
    """A subclass, as numpy's users define them."""


def memory_forms():
    """Arrays of shape (3, 4), by what is unusual about where their elements lie."""
    a = np.arange(12, dtype="f4").reshape(3, 4)
    records = np.zeros((3, 4), np.dtype([("x", "f4"), ("y", "i2")]))
    records["x"] = a
    unaligned = np.frombuffer(b"_" + a.tobytes(), "f4", offset=1).reshape(3, 4)
    locked = a.copy()
    locked.flags.writeable = False
    return {
        "usual": a,
        "columns first": np.asfortranarray(a),
        "backwards": a[::-1, ::-1],
        "every other": np.repeat(a, 2, axis=1)[:, ::2],
        "one row": np.broadcast_to(a[0], (3, 4)),
        "members of records": records["x"],
        "not aligned": unaligned,
        "other byte order": a.astype(">f4"),
        "read-only": locked,
        "subclass": a.view(Named),
        "integers named long long": a.astype(np.longlong),
        "integers": a.astype("i8"),
        "half": a.astype("f2"),
    }


@pytest.mark.parametrize("form", memory_forms())
def test_forms_of_memory(form):
    a = memory_forms()[form]
    b = np.arange(8, dtype=a.dtype).reshape(4, 2)
    for _ in range(3):  # the first call of a type reads its operands another way
        assert (divvy.einsum("ij,jk->ik", a, b) == np.einsum("ij,jk->ik", a, b)).all()
        assert (divvy.einsum("ij->j", a) == a.sum(0)).all()
    if not a.flags.writeable:
        with pytest.raises(ValueError, match="read-only"):
            divvy.einsum("ij,jk->ik", b.T, b, out=np.broadcast_to(b[0, 0], (2, 2)))


def test_results_in_unusual_memory():
    a = np.arange(6, dtype="f4").reshape(2, 3)
    room = np.zeros((4, 6), "f4")
    for y in room[::2, ::2], room[::-2, ::-2], np.zeros((3, 2), "f4").T:
        assert divvy.einsum("ij->ij", a, out=y) is y
        assert (y == a).all()
    for shape in (0, 3), (2, 0):
        assert divvy.einsum("ij->i", np.zeros(shape, "f4")).shape == shape[:1]
    assert divvy.einsum(",", np.float32(3), np.array(2, "f4")) == 6


class Old:
    """What gives capsules of DLPack before version 1, as torch 1.13 does."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()


class New(Old):
    """What gives capsules of version 1."""

    def __dlpack__(self, max_version):
        return divvy.asarray(self.array).__dlpack__(max_version=max_version)


def test_capsules_of_both_versions():
    a = np.arange(6.0).reshape(2, 3)
    b = np.arange(12.0).reshape(3, 4)
    for kinds in (New, Old), (Old, New), (Old, Old), (New, New):
        x, y = kinds[0](a), kinds[1](b)
        assert (np.asarray(divvy.einsum("ij,jk->ik", x, y)) == a @ b).all()
        assert np.shares_memory(np.asarray(divvy.asarray(x)), a)


def test_torch():
    torch = pytest.importorskip("torch")
    a = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    b = torch.ones(4, 2)
    y = divvy.einsum("ij,jk->ik", a, b)
    assert isinstance(y, torch.Tensor) and torch.equal(y, a @ b)
    assert divvy.einsum("ij->ji", a).data_ptr() == a.data_ptr()
    out = torch.zeros(3, 2)
    assert divvy.einsum("ij,jk->ik", a, b, out=out) is out and torch.equal(out, y)
    half = divvy.einsum("ij,jk->ik", a.bfloat16(), b.bfloat16())
    assert half.dtype == torch.bfloat16 and torch.equal(half.float(), y)
    for t in "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8".split():
        x = torch.ones(3, dtype=getattr(torch, t))
        assert torch.equal(torch.from_dlpack(divvy.asarray(x)), x)
    with pytest.raises((BufferError, RuntimeError)):
        divvy.einsum("i->i", torch.ones(2, requires_grad=True))
