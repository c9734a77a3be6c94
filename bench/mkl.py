"""Products beside MKL, through PyTorch: python3 mkl.py BENCH_GEMM [SIZE...]

Runs our bench and torch.mm in turn, on 1 and on all cores, f32, and prints
GFLOP/s of both, medians of the rounds, with their ratio.
"""
import os
import re
import statistics
import subprocess
import sys
import time

ROUNDS = 5


def torch_rate(size, threads):
    """GFLOP/s of one process of its own, so that threads do not mix."""
    code = (
        "import sys, time, statistics, torch\n"
        "n, threads = int(sys.argv[1]), int(sys.argv[2])\n"
        "torch.set_num_threads(threads)\n"
        "a, b = torch.randn(n, n), torch.randn(n, n)\n"
        "c = torch.empty(n, n)\n"
        "def run(count):\n"
        "    t = time.perf_counter()\n"
        "    for _ in range(count): torch.mm(a, b, out=c)\n"
        "    return (time.perf_counter() - t) / count\n"
        "count = max(1, int(0.05 / run(3)))\n"
        "run(count)\n"
        "print(2e-9 * n**3 / statistics.median(run(count) for _ in range(9)))\n"
    )
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    out = subprocess.run([sys.executable, "-c", code, str(size), str(threads)],
                         env=env, capture_output=True, text=True, check=True)
    return float(out.stdout)


def our_rate(bench, size, threads):
    env = dict(os.environ, OMP_NUM_THREADS=str(threads))
    out = subprocess.run([bench, "-t", str(threads), str(size)], env=env,
                         capture_output=True, text=True, check=True).stdout
    row = re.search(rf"^ *{size}x{size}x{size}\s+(\S+)\s+(\S+)", out, re.M)
    return float(row[1]), float(row[2])


def main():
    bench, sizes = sys.argv[1], [int(s) for s in sys.argv[2:]] or [1024, 2048]
    print("# threads\tsize\tours\tshare of peak\tMKL\tours / MKL")
    for threads in (1, len(os.sched_getaffinity(0))):
        for size in sizes:
            ours, share, mkl = [], [], []
            for _ in range(ROUNDS):
                rate = our_rate(bench, size, threads)
                ours.append(rate[0])
                share.append(rate[1])
                mkl.append(torch_rate(size, threads))
                time.sleep(0.1)
            o, m = statistics.median(ours), statistics.median(mkl)
            print(f"{threads}\t{size}\t{o:.1f}\t{statistics.median(share):.3f}"
                  f"\t{m:.1f}\t{o / m:.3f}", flush=True)


if __name__ == "__main__":
    main()
