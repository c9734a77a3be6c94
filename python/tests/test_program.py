"""Programs: texts, files, the operators, runs by name, sessions."""

import os
import signal
import sys
import threading
import time
import types

import numpy as np
import pytest

import divvy
from divvy import fn

SOFTMAX = """
param M = 4
param N = 6
input x: f32[M, N]
m[i] = max[j] x[i,j]
e[i,j] = exp(x[i,j] - m[i])
y[i,j] = e[i,j] / (sum[k] e[i,k])
output y
"""


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def random(*shape, dtype="f4"):
    return np.random.default_rng(1).random(shape).astype(dtype)


# -- Runs ---------------------------------------------------------------------


def test_params_follow_from_shapes():
    p = divvy.Program(SOFTMAX)
    for shape in (4, 6), (3, 5), (4, 6), (1, 9):
        x = random(*shape)
        y = p.run(x=x)["y"]
        assert y.shape == shape and y.dtype == np.float32
        np.testing.assert_allclose(y, softmax(x), rtol=1e-5)


def test_plans_are_kept():
    s = divvy.Program(SOFTMAX).session(capacity=1)
    for shape in (4, 6), (3, 5), (3, 5):
        s.run(x=random(*shape))
    assert s.stats == (1, 1, 2, 1)


def test_strides_and_outputs_of_the_caller():
    p = divvy.Program(SOFTMAX)
    base = random(12, 10)
    x = base[::2, ::-1].T
    assert not x.flags.c_contiguous
    out = np.zeros((10, 12), "f4")[:, ::2]
    found = p.run({"x": x}, out={"y": out})
    assert found["y"] is out
    np.testing.assert_allclose(out, softmax(x), rtol=1e-5)


def test_updated_inputs():
    p = divvy.Program("param N = 1\ninput a: i32[N]\na[i] <- 2 * a[i]\noutput a\n")
    for a in np.arange(5, dtype="i4"), np.arange(10, dtype="i4")[::2]:
        before = a.copy()
        assert (p.run(a=a)["a"] == 2 * before).all() and (a == before).all()
        assert p.run(a=a, update=True)["a"] is a and (a == 2 * before).all()
        out = np.zeros(5, "i4")
        assert p.run(a=a, out={"a": out})["a"] is out and (out == 2 * a).all()
        a.flags.writeable = False
        assert (p.run(a=a)["a"] == 2 * a).all()
        with pytest.raises(ValueError, match="cannot be written"):
            p.run(a=a, update=True)


def test_kinds_of_results():
    import array

    p = divvy.Program("param N = 1\ninput a: f64[N]\nb[i] = a[i] + 1\noutput b\n")
    assert isinstance(p.run(a=np.zeros(3))["b"], np.ndarray)
    b = p.run(a=array.array("d", [1, 2]))["b"]
    assert isinstance(b, divvy.Array) and memoryview(b).tolist() == [2, 3]
    assert p.run(a=[1, 2, 3])["b"].tolist() == [2, 3, 4]


def test_numbers():
    p = divvy.Program("input s: f32\nparam N = 1\ninput a: f32[N]\n"
                      "b[i] = s[] * a[i]\noutput b\n")  # fmt: skip
    assert p.run(s=3, a=[1.5, 2])["b"].tolist() == [4.5, 6]


def test_constants():
    p = divvy.Program(
        "param N = 1\nparam K = 1\ninput x: f32[N, K]\nconst w: f32[K, K]\n"
        "y[i,j] = sum[k] x[i,k] * w[k,j]\noutput y\n"
    )
    x, w = random(3, 8), random(8, 8)
    with pytest.raises(ValueError, match="no array for w"):
        p.run(x=x)
    np.testing.assert_allclose(p.run(x=x, w=w)["y"], x @ w, rtol=1e-5)
    np.testing.assert_allclose(p.run(x=2 * x)["y"], 2 * x @ w, rtol=1e-5)
    np.testing.assert_allclose(p.run(x=x, w=w.T)["y"], x @ w.T, rtol=1e-5)
    plan = p.set(N=3, K=8).plan()
    np.testing.assert_allclose(plan.run(x=x, w=w.T)["y"], x @ w.T, rtol=1e-5)
    np.testing.assert_allclose(plan.run(x=x, w=w)["y"], x @ w, rtol=1e-5)
    with pytest.raises(ValueError, match="another type or shape"):
        plan.run(x=x, w=random(7, 7))


def test_files(tmp_path):
    np.save(tmp_path / "w.npy", np.arange(3, dtype="f4"))
    path = tmp_path / "p.dv"
    path.write_text('input x: f32[3]\nconst w: f32[3] = "w.npy"\n'
                    "y[i] = x[i] + w[i]\noutput y\n")  # fmt: skip
    for source in path, str(path):
        p = divvy.Program(source)
        assert p.run(x=np.ones(3, "f4"))["y"].tolist() == [1, 2, 3]
        assert p.inputs == ("x",) and p.plan().run(x=[0, 0, 0])["y"][2] == 2


@pytest.mark.parametrize(
    "arrays, error, text",
    [
        ({}, ValueError, "no array for x"),
        ({"x": np.zeros((2, 2), "f4"), "z": np.zeros(1)}, ValueError, "no input z"),
        ({"x": np.zeros((2, 2), "f4"), "m": np.zeros(2)}, ValueError, "no input m"),
        ({"x": np.zeros((2, 2))}, TypeError, "x is f32"),
        ({"x": np.zeros(2, "f4")}, ValueError, "x has"),
        ({"x": "text"}, TypeError, ""),
    ],
)
def test_wrong_arrays(arrays, error, text):
    with pytest.raises(error, match=text):
        divvy.Program(SOFTMAX).run(arrays)


def test_wrong_outputs():
    p = divvy.Program(SOFTMAX)
    x = random(4, 6)
    for out in np.zeros((4, 5), "f4"), np.zeros((4, 6)):
        with pytest.raises((ValueError, TypeError)):
            p.run(x=x, out={"y": out})
    with pytest.raises(ValueError, match="no output x"):
        p.run(x=x, out={"x": x})
    with pytest.raises(ValueError, match="overlaps"):
        p.run(x=x, out={"y": x})


def test_program_errors_have_positions():
    with pytest.raises(divvy.InputError) as e:
        divvy.Program("input x: f32[4]\ny[i] = x[j]\noutput y\n", name="mine")
    assert (e.value.file, e.value.line) == ("mine", 2)


# -- Building -----------------------------------------------------------------


def test_built_programs():
    p = divvy.Program()
    x = p.input("x", "f32", ("M", "N"))
    i, j, k = divvy.indices("i j k")
    m, e, y = p.tensor("m"), p.tensor("e"), p.tensor("y")
    m[i] = fn.max(x[i, j], j)
    e[i, j] = fn.exp(x[i, j] - m[i])
    y[i, j] = e[i, j] / fn.sum(e[i, k], k)
    p.output(y)
    x = random(3, 7)
    np.testing.assert_allclose(p.run(x=x)["y"], softmax(x), rtol=1e-5)


def test_precedence():
    i, j = divvy.indices("i j")
    p = divvy.Program()
    x = p.input("x", "i32", ("N",))
    a, b = x[i], x[j]
    for made, text in [
        ((a + b) * 2, "(x[i] + x[j]) * 2"),
        (a - (b - 1), "x[i] - (x[j] - 1)"),
        (a - b - 1, "x[i] - x[j] - 1"),
        (2 - a, "2 - x[i]"),
        (-a * b, "-x[i] * x[j]"),
        (-(a * b), "-(x[i] * x[j])"),
        ((a < b) == (b < a), "(x[i] < x[j]) == (x[j] < x[i])"),
        (a & b | a ^ b, "x[i] & x[j] | x[i] ^ x[j]"),
        (~a << 2, "~x[i] << 2"),
        (a % 3 + abs(b), "mod(x[i],3) + abs(x[j])"),
        (fn.sum(a * b, j) + 1, "(sum[j] x[i] * x[j]) + 1"),
        (fn.sum(a + b, (i, j)), "sum[i,j] (x[i] + x[j])"),
        (fn.max(a, b), "max(x[i],x[j])"),
        (a * -1, "x[i] * -1"),
        (fn.logical_and(a > 0, fn.logical_not(b)), "x[i] > 0 && !x[j]"),
        (x[i - 1].otherwise(-1) * 2, "(x[i - 1] else -1) * 2"),
    ]:
        assert made.text.replace(", ", ",") == text
    with pytest.raises(TypeError, match="no value yet"):
        bool(a < b)
    with pytest.raises(TypeError):
        a + "text"
    with pytest.raises(ValueError, match="nan"):
        a + float("nan")


def test_precedence_means_the_same():
    """What Python computes with numbers is what the program computes."""
    i = divvy.indices("i")
    a, b = np.arange(1, 9, dtype="i8"), np.arange(3, 11, dtype="i8")[::-1].copy()
    for f in (
        lambda x, y: (x + y) * 2 - x * (y - 3),
        lambda x, y: -(x - y) * -2 + (x ^ y & 3 | x << 2),
        lambda x, y: (x % 3 + y % 2) * ~x >> 1,
        lambda x, y: abs(x - y) + (x < y) * 10 + (x == 3) - (y != 4),
    ):
        p = divvy.Program()
        x, y, z = p.input("x", "i64", ("N",)), p.input("y", "i64", ("N",)), p.tensor("z")
        z[i] = f(x[i], y[i])
        p.output(z)
        assert p.run(x=a, y=b)["z"].tolist() == f(a, b).tolist()


def test_repeats_and_ranges():
    p = divvy.Program()
    p.param("T", 3)
    s, i = p.input("s", "f32", ("T", "N")), divvy.indices("i")
    with p.repeat(1, "T", counter="t") as t:
        s[t, i] = s[t, i] + s[t - 1, i]
    y = p.tensor("y", "f32")
    y.set(i, 2.0 * i, ranges={i: (0, 4)})
    p.output(s, y)
    x = random(5, 4)
    found = p.run(s=x)
    np.testing.assert_allclose(found["s"], np.cumsum(x, 0), rtol=1e-5)
    assert found["y"].tolist() == [0, 2, 4, 6]


def test_errors_name_the_caller():
    p = divvy.Program()
    x, i, j = p.input("x", "f32", ("N",)), *divvy.indices("i j")
    y = p.tensor("y")
    y[i] = x[j]
    with pytest.raises(divvy.InputError) as e:
        p.output(y)
        p.plan()
    assert any(__file__ in note for note in e.value.__notes__)


def test_indices_as_keys():
    i, j = divvy.indices("i, j")
    assert {i: 1, j: 2}[j] == 2


# -- Stopping -----------------------------------------------------------------

# About an hour of work.
LONG = "input a: f32[64]\nrepeat 1000000000000 { a[i] <- a[i] * 0.5 + 1 }\noutput a\n"


def stop(what, done):
    assert isinstance(what, str) and (done is None or 0 <= done <= 1)
    raise LookupError(what)


def stop_run(what, done):
    if what == "run":
        stop(what, done)


def test_progress_stops_runs():
    a = np.ones(64, "f4")
    p = divvy.Program(LONG)
    for runner in p, p.session(threads=1), p.plan(), p.plan("spyre"):
        with pytest.raises(LookupError, match="run"):
            runner.run(a=a, progress=stop_run)
    assert (a == 1).all()


def test_progress_stops_planning():
    lines = ["input t0: f32[256, 256]"]
    for n in range(1, 400):
        lines.append(f"t{n}[i,j] = exp(t{n - 1}[i,j]) + t{max(0, n - 7)}[i,j]")
    p = divvy.Program("\n".join([*lines, "output t399", ""]))
    with pytest.raises(LookupError):
        p.plan("spyre", progress=stop)


def test_bar(monkeypatch):
    """progress=True shows a bar of tqdm, and nothing without it."""
    p = divvy.Program(LONG.replace("1000000000000", "200000"))
    want = p.run(a=np.ones(64, "f4"))["a"]
    bars = []

    class Bar:
        def __init__(self, total, **options):
            self.n, self.total, self.words = 0, total, []
            bars.append(self)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.words.append("closed")

        def update(self, by):
            self.n += by

        def set_description(self, text):
            self.words.append(text)

    module = types.ModuleType("tqdm.auto")
    module.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    assert (p.run(a=np.ones(64, "f4"), progress=True)["a"] == want).all()
    assert len(bars) == 1 and bars[0].n <= bars[0].total == 100
    assert bars[0].words[-1] == "closed" and set(bars[0].words) <= {"run", "closed"}
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert (p.run(a=np.ones(64, "f4"), progress=True)["a"] == want).all()
    assert len(bars) == 1


def test_interrupt():
    p = divvy.Program(LONG)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        p.run(a=np.ones(64, "f4"))
    timer.join()


def test_other_threads_go_on():
    """A run does not hold the GIL."""
    p = divvy.Program(LONG)
    n = 0

    def count(what, done):
        if n > 3:
            raise LookupError("enough")

    def work():
        with pytest.raises(LookupError, match="enough"):
            p.run(a=np.ones(64, "f4"), progress=count)

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        n += 1
        time.sleep(0.02)
    thread.join()
    assert n > 3


def test_threads_share_a_runner():
    """Threads run one session and one plan, with their own arrays."""
    p = divvy.Program(SOFTMAX)
    plan = p.set(M=16, N=64).plan(threads=1)
    session = p.session(threads=1, capacity=2)
    failed = []

    def work(seed):
        rng = np.random.default_rng(seed)
        try:
            for _ in range(20):
                x = rng.random((16, 64), "f4")
                np.testing.assert_allclose(plan.run(x=x)["y"], softmax(x), rtol=1e-5)
                x = rng.random((int(rng.integers(1, 5)), 8), "f4")
                np.testing.assert_allclose(session.run(x=x)["y"], softmax(x), rtol=1e-5)
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
