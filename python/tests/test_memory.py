"""Nothing is leaked: counts of references, and of Python's and C's memory."""

import gc
import sys

import numpy as np
import pytest

import divvy

TEXT = """
param N = 4
input a: f32[N]
input s: f32[N]
const w: f32[N]
a[i] <- a[i] + w[i] * s[i]
b[i] = a[i]
output a, b
"""


def blocks():
    gc.collect()
    return sys.getallocatedblocks()


def resident():
    with open("/proc/self/statm", encoding="utf-8") as f:
        return int(f.read().split()[1]) * 4096


def refuses(f, *args, **named):
    """pytest.raises keeps what it has caught for a while."""
    try:
        f(*args, **named)
    except (divvy.Error, TypeError):
        return
    raise AssertionError("no exception")


def einsums(x, w):
    divvy.einsum("i,i->i", x, w)
    divvy.einsum("i,j", x, w, out=np.zeros((x.size, w.size), "f4"))
    divvy.einsum("i->i", x)
    np.from_dlpack(divvy.asarray(x))
    memoryview(divvy.asarray(x))
    divvy.contract_expression("i,i->", x.shape, w.shape)(x, w)
    for wrong in ("i,j->k", "i$,i", "ij,i"):
        refuses(divvy.einsum, wrong, x, w)


def programs(x, w):
    p = divvy.Program(TEXT)
    p.run(a=x, s=x, w=w)
    p.run(a=x, s=x[::-1], out={"b": np.zeros_like(x)})
    p.run(a=x.copy(), s=x, w=np.repeat(w, 2)[::2], update=True)
    for wrong in {}, {"a": x}, {"a": x, "s": x[:1]}, {"a": x, "s": x, "z": x}:
        refuses(p.run, wrong)
    refuses(divvy.Program, "y[i] = x[i]\noutput y\n")


def plans(x, w):
    plan = divvy.Program(TEXT, {"N": x.size}).plan(
        "spyre", cores=2, pins=["b:i=1"], bars=["a"], time_limit=1
    )
    plan.check()
    plan.run(a=x, s=x, w=w)
    plan.run(a=x, s=x, w=w[::-1])
    plan.run(plan.made_up())
    divvy.Plan.parse(plan.text).json()
    plan._repr_html_()
    refuses(divvy.Plan.parse, "plan 1\ntarget")
    refuses(divvy.Program(TEXT).plan, pins=["b:i=1", 2])
    divvy.place([divvy.Buffer(64, 0, 3, uses=[(0, True)]), (64, 2, 5)], 100)
    refuses(divvy.place, [divvy.Buffer(64, 0, 3, uses=[("0", True)])], 100)


def teams(x, w):
    team = divvy.Team()
    a = team.zeros((4, 3), "f32", halo=1)
    a.scatter(np.ones((4, 3), "f4"))
    np.asarray(a.reduce("sum", 0).gather())
    team.join(x).gather()
    refuses(a.scatter, x)


@pytest.mark.parametrize("work", [einsums, programs, plans, teams])
def test_memory(work):
    """What loses an object in each call loses n in every round; what Python,
    numpy and divvy keep for later calls stops growing."""
    x, w, n = np.ones(5, "f4"), np.ones(5, "f4"), 25
    work(x, w)
    counts, size = (sys.getrefcount(x), sys.getrefcount(w)), resident()
    grown = n
    for _ in range(40):
        before = blocks()
        for _ in range(n):
            work(x, w)
        grown = blocks() - before
        if grown < n:
            break
    assert grown < n
    assert abs(sys.getrefcount(x) - counts[0]) <= 1
    assert abs(sys.getrefcount(w) - counts[1]) <= 1
    assert resident() - size < 16 << 20


def test_large_results_are_freed():
    """Sixty results of 8 MiB each, of every kind."""
    p = divvy.Program("param N = 4\ninput a: f32[N]\nb[i] = a[i] + 1\noutput b\n")
    x = np.ones(1 << 21, "f4")
    p.run(a=x)
    before = resident()
    for _ in range(20):
        p.run(a=x)
        p.run(a=divvy.asarray(x))
        divvy.einsum("i,i->i", x, x)
    assert resident() - before < 48 << 20
