"""einsum beside numpy's: types, layouts, forms of calls, threads, random specs."""

import random
import threading

import numpy as np
import pytest

import divvy

FLOATS = ["f8", "f4", "f2"]
INTS = ["i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
CASES = {
    "ij,jk->ik": [(3, 4), (4, 5)],
    "ij,jk,kl->il": [(3, 4), (4, 5), (5, 2)],
    "bhqd,bhkd->bhqk": [(2, 3, 4, 5), (2, 3, 6, 5)],
    "i,j->ij": [(3,), (4,)],
    "ii": [(4, 4)],
    "iij->j": [(3, 3, 2)],
    "ij->": [(3, 4)],
    "...ij,...jk->...ik": [(2, 1, 3, 4), (3, 4, 2)],
    "i...,i...": [(3, 2), (3, 2)],
    ",": [(), ()],
    "ij,ij->ij": [(3, 1), (1, 4)],
    "ij,jk->ik ": [(3, 0), (0, 2)],
    "a,b,c,d->dcba": [(2,), (3,), (2,), (3,)],
}


def make(shape, t, seed):
    r = np.random.default_rng(seed)
    if t == "?":
        return r.integers(0, 2, shape).astype(t)
    least = 0 if t[0] == "u" else -3
    return r.integers(least, 4, shape).astype(t)


@pytest.mark.parametrize("t", FLOATS + INTS)
@pytest.mark.parametrize("spec", CASES)
def test_as_numpy(spec, t):
    arrays = [make(s, t, i) for i, s in enumerate(CASES[spec])]
    want = np.einsum(spec, *arrays)
    got = divvy.einsum(spec, *arrays)
    assert type(got) is type(want) and got.dtype == want.dtype
    assert np.array_equal(got, want)


@pytest.mark.parametrize("t", ["f8", "i4"])
def test_types_that_meet(t):
    for u in FLOATS + INTS:
        a, b = make((3, 4), t, 0), make((4, 5), u, 1)
        for x, y in ((a, b), (b.T, a.T)):
            got = divvy.einsum("ij,jk", x, y)
            assert got.dtype == np.result_type(x, y), u
            assert np.array_equal(got, np.einsum("ij,jk", x, y, dtype=got.dtype)), u


def layouts(x):
    """The same array with other strides."""
    yield np.asfortranarray(x)
    yield np.ascontiguousarray(x[::-1])[::-1]
    wide = np.zeros(tuple(2 * n for n in x.shape), x.dtype)
    part = wide[tuple(slice(1, None, 2) for _ in x.shape)]
    part[...] = x
    yield part
    raw = np.zeros(x.nbytes + 1, "u1")[1:].view(x.dtype).reshape(x.shape)
    raw[...] = x
    yield raw
    yield x.astype(x.dtype.newbyteorder(">"))
    yield np.broadcast_to(x[:1], x.shape)


def test_layouts():
    a, b = make((5, 6), "f8", 0), make((6, 7), "f8", 1)
    for x in layouts(a):
        for y in layouts(b):
            want = np.einsum("ij,jk->ki", x, y)
            assert np.array_equal(divvy.einsum("ij,jk->ki", x, y), want)
            out = np.zeros((5, 7)).T
            assert divvy.einsum("ij,jk->ki", x, y, out=out) is out
            assert np.array_equal(out, want)


def test_out():
    a = make((4, 4), "f4", 0)
    want = a @ a
    out = np.zeros((4, 4))  # a wider type
    divvy.einsum("ij,jk->ik", a, a, out=out)
    assert np.array_equal(out, want)
    b = a.copy()  # the memory of an operand
    divvy.einsum("ij,jk->ik", b, b, out=b)
    assert np.array_equal(b, want)
    for wrong in (np.zeros((4, 4), "i4"), "text", [0]):
        with pytest.raises(TypeError):
            divvy.einsum("ij,jk->ik", a, a, out=wrong)
    with pytest.raises(ValueError):
        divvy.einsum("ij,jk->ik", a, a, out=np.zeros((4, 3), "f4"))
    b.flags.writeable = False
    with pytest.raises(ValueError):
        divvy.einsum("ij,jk->ik", a, a, out=b)


def test_views():
    a = np.zeros((3, 4))
    assert divvy.einsum("ij->ji", a).base is a
    s = np.zeros((3, 3, 2))
    d = divvy.einsum("iij->ji", s)
    d[...] = 1
    assert s.sum() == 6 and np.shares_memory(s, d)
    m = divvy.asarray(a)
    t = divvy.einsum("ij->ji", m)
    assert isinstance(t, divvy.Array) and np.shares_memory(np.asarray(t), a)


def test_order():
    a, b = np.ones((2, 3, 5), order="F"), np.ones((4, 3), order="F")
    for order in "aAfF":
        assert divvy.einsum("...ft,mf->...mt", a, b, order=order).flags.f_contiguous
    assert divvy.einsum("...ft,mf->...mt", a, b, order="C").flags.c_contiguous


def test_lists():
    a, b = make((3, 4), "f8", 0), make((4, 5), "f8", 1)
    assert np.array_equal(divvy.einsum(a, [0, 1], b, [1, 2]), a @ b)
    assert np.array_equal(divvy.einsum(a, [0, 1], b, [1, 2], [2, 0]), (a @ b).T)
    assert np.array_equal(divvy.einsum(a, ["x", "k"], b, ["k", "y"]), a @ b)
    assert np.array_equal(divvy.einsum(a, [..., 1], b, [1, 2], [..., 2]), a @ b)
    with pytest.raises(ValueError):
        divvy.einsum(a, [0, 52])


def test_paths():
    shapes = [(3, 4), (4, 5), (5, 6), (6, 2)]
    arrays = [make(s, "f8", i) for i, s in enumerate(shapes)]
    want = np.einsum("ab,bc,cd,de", *arrays)
    for optimize in (
        True, False, "optimal", "greedy", ("greedy", 1000),
        [(0, 1), (0, 1), (0, 1)], ["einsum_path", (1, 2), (0, 2), (0, 1)],
        [(0, 1, 2, 3)],
    ):
        assert np.array_equal(divvy.einsum("ab,bc,cd,de", *arrays, optimize=optimize), want)
        path, table = divvy.einsum_path("ab,bc,cd,de", *arrays, optimize=optimize)
        assert np.array_equal(np.einsum("ab,bc,cd,de", *arrays, optimize=path), want)
    f = divvy.einsum_path("i,i", np.ones(3), np.ones(3), optimize=False)
    assert f[0] == ["einsum_path", (0, 1)]


def test_contract_expression():
    a, b = make((3, 4), "f8", 0), make((4, 5), "f8", 1)
    f = divvy.contract_expression("ij,jk->ik", (3, 4), (4, 5))
    assert np.array_equal(f(a, b), a @ b)
    out = np.zeros((3, 5))
    assert f(a, b, out=out) is out
    with pytest.raises(ValueError):
        f(a)
    with pytest.raises(ValueError):
        f(a, a)
    with pytest.raises(ValueError):
        divvy.contract_expression("ij,jk->ik", (3, 4), (5, 5))
    g = divvy.contract_expression("ij,jk->ik", a, (4, 5), constants=[0])
    assert np.array_equal(g(b), a @ b)


def test_tensordot():
    a, b = make((2, 3, 4), "f8", 0), make((4, 3, 5), "f8", 1)
    for axes in (1, ([1, 2], [1, 0]), ([-1], [0]), 0):
        want = np.tensordot(a, b, axes)
        assert np.array_equal(divvy.tensordot(a, b, axes), want)
    assert np.array_equal(divvy.transpose(a, (2, 0, 1)), a.transpose(2, 0, 1))
    assert np.array_equal(divvy.transpose(a), a.T)


def test_opt_einsum():
    oe = pytest.importorskip("opt_einsum")
    arrays = [make(s, "f8", i) for i, s in enumerate([(3, 4), (4, 5), (5, 6)])]
    got = oe.contract("ab,bc,cd->da", *arrays, backend="divvy")
    assert np.array_equal(got, np.einsum("ab,bc,cd->da", *arrays))


def test_letters_of_other_alphabets():
    a, b = make((3, 4), "f8", 0), make((4, 5), "f8", 1)
    assert np.array_equal(divvy.einsum("αβ,βγ->αγ", a, b), a @ b)


def test_many_operands():
    arrays = [make((2, 2), "f8", i) for i in range(12)]
    letters = "abcdefghijklm"
    spec = ",".join(letters[i : i + 2] for i in range(12))
    want = np.linalg.multi_dot(arrays)
    assert np.array_equal(divvy.einsum(spec, *arrays), want)


def test_wrong_axes():
    a, b = np.ones((2, 3, 4)), np.ones((4, 3))
    for axes in (0, 1), (0, 1, 3), (0, 1, 1), (0, 1, 2, 0):
        with pytest.raises(ValueError):
            divvy.transpose(a, axes)
    for axes in ([3], [0]), ([1, 1], [0, 1]), ([1], [0, 1]), 3, ([0], [0]):
        with pytest.raises(ValueError):
            divvy.tensordot(a, b, axes)
    assert divvy.transpose(a, (-1, 0, 1)).shape == (4, 2, 3)
    assert divvy.tensordot(a, b, ([-1], [0])).shape == (2, 3, 3)


def test_threads_share_an_expression():
    a, b = make((40, 50), "f8", 0), make((50, 60), "f8", 1)
    big = make((128, 128), "f8", 2)
    want, want_big = a @ b, big @ big
    wrong = []

    def work():
        for _ in range(50):
            if not np.array_equal(divvy.einsum("ij,jk->ik", a, b), want):
                wrong.append("small")
        for _ in range(3):
            if not np.array_equal(divvy.einsum("ij,jk->ik", big, big), want_big):
                wrong.append("big")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_more_expressions_than_are_kept():
    a = np.ones(5000)
    for n in range(1, 1200, 7):
        assert divvy.einsum("i,i", a[:n], a[:n]) == n


def test_byte_0():
    with pytest.raises(ValueError):
        divvy.einsum("i\0", np.ones(3))


def random_spec(r):
    """Mostly valid: a few letters, ellipses, an output of some of them."""
    letters = "abcde"[: r.randint(1, 5)]
    terms = []
    for _ in range(r.randint(1, 3)):
        term = "".join(r.choice(letters) for _ in range(r.randint(0, 3)))
        if r.random() < 0.2:
            term = term[:1] + "..." + term[1:]
        terms.append(term)
    spec = ",".join(terms)
    if r.random() < 0.6:
        used = sorted(set("".join(terms)) - {"."})
        r.shuffle(used)
        spec += "->" + ("..." if "." in spec else "") + "".join(used[: r.randint(0, 5)])
    if r.random() < 0.1:
        at = r.randint(0, len(spec))
        spec = spec[:at] + r.choice("abz.,-> 7é") + spec[at:]
    return spec


def test_random_specs():
    """Either both fail with a ValueError, or the results are equal."""
    r = random.Random(7)
    size = {c: 1 + i % 3 for i, c in enumerate("abcdez")}
    for _ in range(1000):
        spec = random_spec(r)
        arrays = []
        for i, term in enumerate(spec.partition("->")[0].split(",")):
            shape = [size[c] for c in term if c in size]
            if "..." in term:
                shape.insert(min(1, len(shape)), 2)
            arrays.append(make(tuple(shape), "f8", i))
        try:
            want = np.einsum(spec, *arrays)
        except ValueError:
            want = None
        try:
            got = divvy.einsum(spec, *arrays)
        except ValueError:
            got = None
        if want is None or got is None:
            # numpy takes no letters of other alphabets.
            assert (want is None) == (got is None) or not spec.isascii(), spec
        else:
            assert np.array_equal(got, want), spec
