"""Plans: proofs, texts, reports, runs, pictures; targets, models, placement."""

import os
import random
import re

import numpy as np
import pytest

import divvy

SOFTMAX = """
param M = 512
param N = 256
input x: f16[M, N]
m[j]   = max[i] x[i,j]
e[i,j] = exp(x[i,j] - m[j])
s[j]   = sum[i] e[i,j]
y[i,j] = e[i,j] / s[j]
output y
"""


@pytest.fixture(scope="module")
def plan():
    return divvy.Program(SOFTMAX).plan("spyre", cores=8)


def test_plan(plan):
    plan.check()
    assert plan.target == "spyre" and plan.json()["cores"] == 8
    assert sum(len(g["ops"]) for g in plan.groups) == len(plan.json()["ops"])
    assert max(c["core"] for g in plan.groups for c in g["cores"]) < 8
    assert repr(plan) == "<divvy.Plan for spyre: 5 ops in 1 group>"


def test_text(plan, tmp_path):
    again = divvy.Plan.parse(plan.text)
    again.check()
    assert again.text == plan.text
    path = tmp_path / "x.plan"
    plan.save(path)
    assert divvy.Plan.parse(path).text == plan.text
    assert divvy.Plan.parse(str(path), start_at="joint", cores=8).groups == plan.groups


def test_wrong_plans(plan):
    """The checker refuses a tile that nobody owns, and homes that overlap."""
    core, address = "core 3: 3..4", "at 65536 "
    for text in plan.text.replace(core, "core 3: 2..3"), re.sub(
        r"(\d+: m ops .* at )\d+", r"\g<1>0", plan.text
    ):
        assert text != plan.text
        with pytest.raises(divvy.Error) as e:
            divvy.Plan.parse(text).check()
        assert e.value.status == "check" and not isinstance(e.value, ValueError)


def test_wrong_texts(plan):
    with pytest.raises(divvy.InputError) as e:
        divvy.Plan.parse(plan.text.replace("groups {", "groups }"))
    assert e.value.file == "plan" and e.value.line > 1
    with pytest.raises(OSError):
        divvy.Plan.parse("missing.plan")


def test_options():
    p = divvy.Program(SOFTMAX)
    with pytest.raises(TypeError, match="no option 'core'"):
        p.plan("spyre", core=8)
    with pytest.raises(ValueError, match="solver is one of auto"):
        p.plan("spyre", solver="best")
    with pytest.raises(TypeError):
        p.plan("spyre", cores="8")
    with pytest.raises(ValueError):
        p.plan("no such target")
    pinned = p.plan("spyre", pins=["s:j=2"], joint="off", evict=False, bars=["x"])
    pinned.check()
    op = next(x for x in pinned.json()["ops"] if x["name"] == "s")
    assert op["divide"]["splits"]["j"] == 2
    assert all(h["name"] != "x" for h in pinned.json()["scratch"]["homes"])


def test_runs_agree(plan):
    x = np.random.default_rng(1).random((512, 256)).astype("f2")
    host = divvy.Program(SOFTMAX).plan(threads=2)
    want = np.exp(x.astype("f4") - x.max(0)).astype("f4")
    want /= want.sum(0)
    for found in (
        plan.run(x=x),
        host.run(x=x),
        host.run(x=x[::-1].copy()[::-1]),
        host.run(x=x, executor="seq"),
    ):
        np.testing.assert_allclose(found["y"].astype("f4"), want, rtol=1e-2, atol=1e-5)
    out = np.zeros((256, 512), "f2").T
    assert host.run(x=x, out={"y": out})["y"] is out
    np.testing.assert_allclose(out.astype("f4"), want, rtol=1e-2, atol=1e-5)
    with pytest.raises(ValueError, match="executor is one of"):
        plan.run(x=x, executor="fast")


def test_made_up_and_bench():
    p = divvy.Program(
        "input x: f32[6, 4]\ninput k: i32[9]\ny[i,j] = 2 * x[k[i],j]\noutput y\n"
    )
    plan = p.plan(threads=1)
    a, b, c = plan.made_up(), plan.made_up(), plan.made_up(seed=1)
    x, k = np.asarray(a["x"]), np.asarray(a["k"])
    assert (x == np.asarray(b["x"])).all() and (x != np.asarray(c["x"])).any()
    assert x.dtype == np.float32 and k.dtype == np.int32 and k.max() < 6
    assert (np.asarray(plan.run(a)["y"]) == 2 * x[k]).all()
    times = plan.bench(seconds=0)
    assert times.runs >= 1 and 0 < times.seconds <= times.median
    assert times.flops == 36 and times.bytes == 4 * (24 + 9 + 36)


def test_pages(plan, tmp_path):
    page = divvy.Program("input x: f32[8]\ny[i] = 2 * x[i]\noutput y\n").plan().report()
    assert page.startswith("<!DOCTYPE html>") or "<html" in page[:200]
    plan.report(tmp_path / "o.html", changes=False, other=plan)
    assert (tmp_path / "o.html").read_text().count("<html") == 1
    assert '"traceEvents"' in plan.trace()
    with pytest.raises(OSError):
        plan.report(tmp_path / "missing" / "o.html")


def test_emit(plan, tmp_path):
    divvy.Program(SOFTMAX).plan().emit("c", tmp_path / "c")
    divvy.Program(SOFTMAX).plan().emit("object", tmp_path / "object")
    assert list((tmp_path / "object").glob("*.o"))
    assert any(name.endswith(".c") for name in os.listdir(tmp_path / "c"))
    with pytest.raises(ValueError, match="format is one of"):
        plan.emit("fortran", tmp_path)


def test_notebook(plan):
    html = plan._repr_html_()
    assert html.count("<tr>") == 1 + len(plan.groups)
    assert html.count("<rect ") == len(plan.json()["scratch"]["homes"])
    for c in plan.groups[0]["cores"]:
        last = c["first_tile"] + c["tiles"] - 1
        assert f'"core {c["core"]}: tiles {c["first_tile"]} to {last}"' in html
    for tag in "div", "table", "svg", "g", "span", "p":
        assert len(re.findall(rf"<{tag}[ >]", html)) == html.count(f"</{tag}>")
    assert "<rect" not in divvy.Program(SOFTMAX).plan()._repr_html_()


def test_notebook_escapes():
    html = divvy._picture.html_of(
        {**divvy.Program(SOFTMAX).plan().json(), "target": "<i>", "check": "<i>"}
    )
    assert "<i>" not in html and html.count("&lt;i&gt;") == 2


def test_targets(tmp_path):
    assert "host" in divvy.targets() and len(set(divvy.targets())) > 3
    t = divvy.target("spyre")
    assert t.name == "spyre" and t.properties["ring"] == "yes"
    path = tmp_path / "half.dv"
    path.write_text(t.text.replace("cores            = 32", "cores            = 16"))
    plan = divvy.Program(SOFTMAX).plan(path)
    assert plan.json()["cores"] == 16
    with pytest.raises(ValueError):
        divvy.Program(SOFTMAX).plan(divvy.Target("target x {"))


# -- Placement ----------------------------------------------------------------


def alive_together(a, b):
    return a.start < b.end and b.start < a.end


def test_place():
    rng = random.Random(1)
    buffers = []
    for n in range(30):
        start = rng.randrange(20)
        buffers.append(
            divvy.Buffer(rng.randrange(1, 100), start, start + rng.randrange(1, 9), f"b{n}")
        )
    for solver in "auto", "bestfit", "firstfit", "greedy", "anneal":
        found = divvy.place(buffers, 300, align=4, solver=solver, budget=1000)
        placed = [
            (b, a) for b, a in zip(buffers, found.addresses) if a is not None
        ]
        assert placed and found.value <= found.bound
        assert found.peak == max(a + b.size for b, a in placed) <= 300
        for b, a in placed:
            assert a % 4 == 0
            for c, other in placed:
                if b is not c and alive_together(b, c):
                    assert a + b.size <= other or other + c.size <= a
        for a, why in zip(found.addresses, found.reasons):
            assert (a is None) == (why is not None)
    least = divvy.place(buffers)
    assert None not in least.addresses and least.proven <= least.peak


def test_place_options():
    b = [
        {"size": 64, "start": 0, "end": 4, "uses": [(0, True), (3, False)]},
        divvy.Buffer(64, 1, 3, "b", uses=[(1, True), (2, False)], weight=1),
        (32, 3, 6, "c", 0, 128),
        divvy.Buffer(8, 0, 9, barred="too slow"),
    ]
    found = divvy.place(b, 160)
    assert found.addresses[2] == 128 and found.reasons[3] == "too slow"
    assert divvy.place(b[:2], 64).addresses == [0, None]
    assert len(divvy.place(b[:2], 64, evict=True).stays) >= 1
    shared = [divvy.Buffer(64, 0, 3), divvy.Buffer(64, 2, 5, parents=[0])]
    assert divvy.place(shared, 64).addresses == [0, 0]
    for wrong in [(64, 3, 3)], [(-1, 0, 2)], [(1, 0, 2, "a", 0, 0), (1, 0, 2, "b", 0, 0)]:
        with pytest.raises(ValueError):
            divvy.place(wrong, 100)
    with pytest.raises(TypeError):
        divvy.place([("64", 0, 2)], 100)
    with pytest.raises(ValueError, match="solver is one of"):
        divvy.place(b, 100, solver="fast")


# -- ONNX ---------------------------------------------------------------------


def number(field, value):
    def varint(n):
        out = bytearray()
        while n > 127:
            out.append(n & 127 | 128)
            n >>= 7
        return bytes(out) + bytes([n])

    if isinstance(value, int):
        return varint(field << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def message(*fields):
    return b"".join(number(f, v) for f, v in fields)


def value_info(name, *dims):
    sizes = [(1, message((1 if isinstance(n, int) else 2, n))) for n in dims]
    tensor = message((1, 1), (2, message(*sizes)))
    return message((1, name), (2, message((1, tensor))))


@pytest.fixture
def model(tmp_path):
    """relu(x @ w), with the names x:0 and y:0 and a symbolic number of rows."""
    w = np.arange(-6, 6, dtype="f4").reshape(3, 4)
    graph = message(
        (1, message((1, "x:0"), (1, "w"), (2, "h"), (4, "MatMul"))),
        (1, message((1, "h"), (2, "y:0"), (4, "Relu"))),
        (2, "graph"),
        (5, message((1, 3), (1, 4), (2, 1), (8, "w"), (9, w.tobytes()))),
        (11, value_info("x:0", "rows", 3)),
        (12, value_info("y:0", "rows", 4)),
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(message((1, 8), (7, graph), (8, message((1, ""), (2, 13)))))
    return path, w


def test_onnx(model):
    path, w = model
    m = divvy.onnx.load(path, rows=5)
    assert m.inputs == ("x:0",) and m.outputs == ("y:0",)
    x = np.random.default_rng(1).random((5, 3)).astype("f4") - 0.5
    want = np.maximum(x @ w, 0)
    for arrays in {"x:0": x}, {"x:0": np.asfortranarray(x)}:
        np.testing.assert_allclose(m.run(arrays)["y:0"], want, rtol=1e-5, atol=1e-6)
    plan = m.plan("spyre")
    plan.check()
    inputs = plan.made_up()
    assert len(inputs) == 1 and plan.bench(seconds=0).runs >= 1
    (name,) = inputs
    np.testing.assert_allclose(plan.run({name: x})[m.program.outputs[0]], want, rtol=1e-5)
    np.testing.assert_allclose(
        m.program.run({name: x})[m.program.outputs[0]], want, rtol=1e-5, atol=1e-6
    )
    with pytest.raises(ValueError, match="no input z"):
        m.run(z=x)
    with pytest.raises(TypeError, match="load"):
        m.program.set(rows=3)


def test_wrong_models(model, tmp_path):
    with pytest.raises(OSError):
        divvy.onnx.load(tmp_path / "missing.onnx")
    path = tmp_path / "bad.onnx"
    path.write_bytes(model[0].read_bytes()[:-9] + b"\xff" * 9)
    with pytest.raises(divvy.Error):
        divvy.onnx.load(path)
