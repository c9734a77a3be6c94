"""Products beside MKL, through PyTorch, in one process: python3 bench/mkl.py

Ours, torch.mm and the machine's peak take turns within milliseconds, with the
same threads (all through PyTorch's OpenMP runtime), so that what disturbs the
machine disturbs all of them. Prints GFLOP/s, medians of the rounds; shares and
ratios are medians of the rounds' own, those behind "from" the quarters of them
below and above. Needs gcc, cmake, hwloc and torch; installs nothing.

  -s SIZE[,SIZE...]  products of SIZE^3 (1024,2048)
  -d TYPE            f32 (default), bf16 or f16, whose results are rounded to
                     that type; i8, whose results are i32
  -t THREADS[,...]   (1 and all cores)
  -v SETTINGS        often: what to try beside the defaults; l1=BYTES, l2=BYTES,
                     threads=T (torch keeps its own), and -DNAME=VALUE for a
                     library of its own, joined by commas
  -r ROUNDS          (15)
"""
import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SLICE = 0.04  # seconds of one turn


def build(folder, defines, runtime):
    """The library, linked with the OpenMP runtime that torch has loaded."""
    out = os.path.join(folder, "bench.so")
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-DBUILD_TESTING=OFF",
                    "-DCMAKE_BUILD_TYPE=Release",
                    "-DCMAKE_C_FLAGS=" + " ".join(defines)],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder, "--target", "divvy_static",
                    "--parallel", str(len(os.sched_getaffinity(0)))],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["gcc", "-c", "-std=c11", "-O2", "-fPIC", "-fopenmp",
                    "-I" + os.path.join(ROOT, "src"),
                    "-I" + os.path.join(ROOT, "include"), *defines,
                    os.path.join(ROOT, "bench", "mkl.c"), "-o", out + ".o"],
                   check=True)
    # Not -fopenmp here, which would bring a runtime of its own.
    subprocess.run(["gcc", "-shared", out + ".o",
                    os.path.join(folder, "libdivvy.a"), runtime or "-lgomp",
                    "-lhwloc", "-lpthread", "-ldl", "-lm", "-o", out],
                   check=True)
    lib = ctypes.CDLL(out)
    lib.bench_isa.restype = ctypes.c_char_p
    lib.bench_nest.restype = ctypes.c_void_p
    lib.bench_nest.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int,
                               ctypes.c_int64, ctypes.c_int64]
    lib.bench_free.argtypes = [ctypes.c_void_p]
    lib.bench_run.restype = ctypes.c_double
    lib.bench_run.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int]
    lib.bench_peak.restype = ctypes.c_double
    lib.bench_peak.argtypes = [ctypes.c_int, ctypes.c_double, ctypes.c_char_p]
    return lib


def runtimes():
    """Paths of the OpenMP runtimes in this process."""
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "/" in line}
    return sorted(p for p in paths
                  if os.path.basename(p).startswith(("libgomp", "libiomp",
                                                     "libomp")))


class Setting:
    """One way to run ours."""

    def __init__(self, text):
        self.text = text or "default"
        self.options, self.defines, self.lib = {}, [], None
        for word in filter(None, text.split(",")):
            if word.startswith("-D"):
                self.defines.append(word)
            else:
                name, value = word.split("=")
                if name not in ("l1", "l2", "threads"):
                    sys.exit(f"mkl.py: there is no setting {name}")
                self.options[name] = int(value)

    def nest(self, size, threads, kind):
        nest = self.lib.bench_nest(size, kind.encode(),
                                   self.options.get("threads", threads),
                                   self.options.get("l1", 0),
                                   self.options.get("l2", 0))
        if not nest:
            print(f"{self.text}: no kernels, left out", file=sys.stderr)
        return nest


def operands(torch, size, kind):
    """A, B, and room for our C and theirs."""
    if kind == "i8":
        a, b = (torch.randint(-128, 128, (size, size), dtype=torch.int8)
                for _ in range(2))
        return a, b, *(torch.zeros(size, size, dtype=torch.int32)
                       for _ in range(2))
    to = {"f32": torch.float32, "bf16": torch.bfloat16,
          "f16": torch.float16}[kind]
    return (*(torch.randn(size, size).to(to) for _ in range(2)),
            *(torch.zeros(size, size, dtype=to) for _ in range(2)))


def measure(torch, settings, size, threads, rounds, kind):
    """Seconds by setting and of torch, and the peak, in every round."""
    torch.set_num_threads(threads)
    a, b, c, want = operands(torch, size, kind)
    product = torch._int_mm if kind == "i8" else torch.mm
    nests = [(s, n) for s in settings if (n := s.nest(size, threads, kind))]
    where = (a.data_ptr(), b.data_ptr(), c.data_ptr())

    def theirs(count):
        t = time.perf_counter()
        for _ in range(count):
            product(a, b, out=want)
        return (time.perf_counter() - t) / count

    theirs(2)
    count = max(1, int(SLICE / theirs(2)))
    for s, nest in nests:
        c.zero_()
        s.lib.bench_run(nest, *where, 2)
        worst = float((c.double() - want.double()).abs().max())
        if not worst < (0.5 if kind == "i8" else
                        1e-4 * size if kind == "f32" else 1 + size / 512):
            sys.exit(f"{s.text}: off by {worst}")
    turns = [(s.text, lambda n, s=s, x=x: s.lib.bench_run(x, *where, n))
             for s, x in nests] + [("torch", theirs)]
    lib = settings[0].lib
    out = {name: [] for name, _ in turns}
    peaks = []
    for r in range(rounds):  # everyone comes first at times
        peaks.append(lib.bench_peak(threads, SLICE / 2, kind.encode()))
        for name, run in turns[r % len(turns):] + turns[:r % len(turns)]:
            out[name].append(run(count))
    for s, nest in nests:
        s.lib.bench_free(nest)
    return out, peaks


def report(size, threads, out, peaks):
    flop = 2e-9 * size**3
    median = statistics.median
    for name, seconds in out.items():
        ratios = sorted(t / s for t, s in zip(out["torch"], seconds))
        ratio, quarter = median(ratios), len(ratios) // 4
        share = median(flop / s / p for s, p in zip(seconds, peaks))
        print(f"{threads}\t{size}\t{flop / median(seconds):.1f}\t{share:.3f}"
              f"\t{ratio:.3f}\t{ratios[quarter]:.2f} to "
              f"{ratios[-1 - quarter]:.2f}\t{name}", flush=True)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    cores = len(os.sched_getaffinity(0))
    numbers = lambda text: [int(n) for n in text.split(",")]
    parser.add_argument("-s", type=numbers, default=[1024, 2048])
    parser.add_argument("-t", type=numbers, default=[1, cores])
    parser.add_argument("-v", action="append", default=[])
    parser.add_argument("-d", default="f32",
                        choices=["f32", "bf16", "f16", "i8"])
    parser.add_argument("-r", type=int, default=15)
    # Settings begin with a dash at times.
    argv, words = [], sys.argv[1:]
    for i, word in enumerate(words):
        argv.append("-v" + word if i and words[i - 1] == "-v" else word)
    return parser.parse_args([w for w in argv if w != "-v"])


def main():
    args = arguments()
    try:
        import torch
    except ImportError:
        sys.exit("mkl.py: PyTorch is not installed; there is nothing to "
                 "compare with")
    torch.set_num_threads(args.t[-1])
    torch.mm(torch.ones(256, 256), torch.ones(256, 256))
    runtime = runtimes()
    settings = [Setting("")] + [Setting(v) for v in args.v]
    with tempfile.TemporaryDirectory() as folder:
        libs = {}
        for s in settings:
            key = tuple(s.defines)
            if key not in libs:
                libs[key] = build(os.path.join(folder, str(len(libs))),
                                  s.defines, (runtime or [None])[0])
            s.lib = libs[key]
    isa = settings[0].lib.bench_isa()
    if not isa:
        sys.exit("mkl.py: there are no kernels for this machine")
    print(f"# {isa.decode()}, torch {torch.__version__}, "
          f"{len(runtimes())} OpenMP runtime(s)")
    print("# threads\tsize\tGFLOP/s\tof peak\tof torch\tfrom\twho")
    for threads in args.t:
        for size in args.s:
            out, peaks = measure(torch, settings, size, threads, args.r,
                                 args.d)
            print(f"# peak {statistics.median(peaks):.1f}, "
                  f"{min(peaks):.1f} to {max(peaks):.1f}")
            report(size, threads, out, peaks)


if __name__ == "__main__":
    main()
