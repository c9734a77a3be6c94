"""Times divvy.einsum beside numpy and, where they are installed, torch and opt_einsum.

    PYTHONPATH=build/release/python python3 bench/python.py [-r ROUNDS] [-t THREADS]

First the cost of a call on 8x8 operands, then 20 einsums of real use. All run in
turn, each at least 5 ms a round; the fastest round counts. "best" is the fastest
of the others; "-": c_einsum takes more than 0.1 s. Debian's numpy multiplies with the
BLAS that libblas.so.3 is; install libopenblas0 for a fair comparison.
"""

import argparse
import math
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("-r", "--rounds", type=int, default=15)
parser.add_argument("-t", "--threads", type=int, default=1)
args = parser.parse_args()
for name in "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS":
    os.environ[name] = str(args.threads)
# divvy plans for the cores that it may use.
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, cores[: args.threads])

import numpy as np  # noqa: E402

import divvy  # noqa: E402


def optional(name):
    try:
        return __import__(name)
    except ImportError:
        return None


torch, opt_einsum = optional("torch"), optional("opt_einsum")

# What, subscripts, shapes: f32.
CASES = [
    ("attention scores", "bhqd,bhkd->bhqk", (4, 8, 128, 64), (4, 8, 128, 64)),
    ("attention values", "bhqk,bhkd->bhqd", (4, 8, 128, 128), (4, 8, 128, 64)),
    ("heads of one token", "bhd,bhkd->bhk", (8, 12, 64), (8, 12, 256, 64)),
    ("queries of all heads", "bsd,dhe->bhse", (4, 64, 256), (256, 8, 32)),
    ("output of all heads", "bhse,hed->bsd", (4, 8, 64, 32), (8, 32, 256)),
    ("linear layer", "bi,oi->bo", (64, 512), (512, 512)),
    ("bilinear form", "bi,ijk,bj->bk", (32, 40), (40, 40, 24), (32, 40)),
    ("batched products", "bij,bjk->bik", (100, 32, 32), (100, 32, 32)),
    ("small batched products", "bij,bjk->bik", (1000, 4, 4), (1000, 4, 4)),
    ("matrix product", "ij,jk->ik", (256, 256), (256, 256)),
    ("product with transposed", "ji,kj->ik", (256, 256), (256, 256)),
    ("matrix and vector", "ij,j->i", (1000, 1000), (1000,)),
    ("outer product", "i,j->ij", (700,), (700,)),
    ("trace", "ii", (1000, 1000)),
    ("sum of products", "ij,ij->", (500, 500), (500, 500)),
    ("row sums of products", "ij,ij->i", (500, 500), (500, 500)),
    ("chain of matrices", "ij,jk,kl,lm->im", (64, 96), (96, 32), (32, 96), (96, 64)),
    ("tensor train", "iab,bjc,ckd->iajkd", (8, 12, 16), (16, 12, 16), (16, 12, 8)),
    ("MPS environment", "ab,aic,bid->cd", (48, 48), (48, 4, 48), (48, 4, 48)),
    ("Khatri-Rao, MTTKRP", "ijk,jr,kr->ir", (40, 50, 60), (50, 16), (60, 16)),
]  # fmt: skip


def clock(f, least=5e-3):
    """Seconds of a call, of as many as take `least`."""
    n = 1
    while True:
        start = time.perf_counter()
        for _ in range(n):
            f()
        took = time.perf_counter() - start
        if took >= least:
            return took / n
        n = max(2 * n, int(n * least / max(took, 1e-9)))


def fastest(functions):
    """The fastest round of each; all run in turn, but for those that take long."""
    best = dict.fromkeys(functions, math.inf)
    for f in functions.values():
        f()
    quick = {
        n: f for n, f in functions.items() if n != "c_einsum" or clock(f, 0) < 0.1
    }
    for _ in range(args.rounds):
        for name, f in quick.items():
            best[name] = min(best[name], clock(f))
    return best


def candidates(text, arrays):
    found = {
        "divvy": lambda: divvy.einsum(text, *arrays),
        "numpy": lambda: np.einsum(text, *arrays, optimize=True),
        "c_einsum": lambda: np.einsum(text, *arrays),
    }
    if torch:
        tensors = [torch.from_numpy(x) for x in arrays]
        found["torch"] = lambda: torch.einsum(text, *tensors)
    if opt_einsum:
        found["opt_einsum"] = lambda: opt_einsum.contract(text, *arrays)
    return found


def arrays_of(shapes):
    rng = np.random.default_rng(1)
    return [rng.random(s, dtype="f4") - 0.5 for s in shapes]


def main():
    if torch:
        torch.set_num_threads(args.threads)
    a, b = arrays_of([(8, 8), (8, 8)])
    out = np.empty((8, 8), "f4")
    call = candidates("ij,jk->ik", [a, b])
    call["divvy, out="] = lambda: divvy.einsum("ij,jk->ik", a, b, out=out)
    call["np.empty"] = lambda: np.empty((8, 8), "f4")
    print("a call, ij,jk->ik of 8x8, us:")
    for name, s in fastest(call).items():
        print(f"  {name:<12} {s * 1e6:8.2f}")
    names = list(candidates("ij,jk->ik", [a, b]))
    print(f"{args.threads} threads, us:")
    print(f"{'':<26}" + "".join(f"{n:>11}" for n in names) + "   best/divvy numpy/divvy")
    to_best, to_numpy = [], []
    for what, text, *shapes in CASES:
        arrays = arrays_of(shapes)
        want = np.einsum(text, *arrays, optimize=True)
        scale = np.abs(want).max()
        assert np.abs(divvy.einsum(text, *arrays) - want).max() <= 1e-4 * scale + 1e-4
        s = fastest(candidates(text, arrays))
        others = min(v for n, v in s.items() if n != "divvy")
        to_best.append(others / s["divvy"])
        to_numpy.append(s["numpy"] / s["divvy"])
        row = "".join(
            f"{s[n] * 1e6:11.1f}" if s[n] < math.inf else f"{'-':>11}" for n in names
        )
        print(f"{what:<26}{row}{to_best[-1]:13.2f}{to_numpy[-1]:12.2f}", flush=True)
    mean = [math.exp(sum(map(math.log, x)) / len(x)) for x in (to_best, to_numpy)]
    print(f"geometric means: {mean[0]:.2f} times the best, {mean[1]:.2f} times numpy")
    print(f"least: {min(to_best):.2f} times the best of its case")


main()
