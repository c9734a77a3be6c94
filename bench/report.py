"""Measures the page of a plan of many ops in Debian's chromium: how long it
takes to make, to open and to select an op, and how many frames a second it
draws while the timeline pans and zooms.

    python3 bench/report.py DIVVY [OPS]"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(source, "tests/report"))
from browser import Browser, find  # noqa: E402

divvy, ops = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10000

# Counts frames while a script changes the picture in each of them.
FRAMES = """new Promise(done => { const times = []; const frame = now => { times.push(now); SCRIPT;
    if (times.length < 120) requestAnimationFrame(frame); else done(1000 * (times.length - 1) / (now - times[0])); };
    requestAnimationFrame(frame); })"""
PAN = "timeAxis.first += WIDTH * timeEnd / 500; timeAxis.last += WIDTH * timeEnd / 500; redraw()"
ZOOM = "timeAxis.first += timeEnd * 0.003; timeAxis.last -= timeEnd * 0.003; redraw()"


def softmaxes(n):
    """Returns a program of n ops: columns are normalised again and again."""
    lines, before = ["input x: f16[512, 1024]"], "x"
    for k in range(n // 4):
        lines += [f"m{k}[j] = max[i] {before}[i,j]", f"e{k}[i,j] = exp({before}[i,j] - m{k}[j])",
                  f"s{k}[j] = sum[i] e{k}[i,j]", f"y{k}[i,j] = e{k}[i,j] / s{k}[j]"]
        before = f"y{k}"
    return "\n".join([*lines, f"output {before}", ""])


def main():
    if not find():
        sys.exit("there is no chromium")
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/many.dv", "w", encoding="utf-8") as f:
            f.write(softmaxes(ops))
        begun = time.monotonic()
        subprocess.run([divvy, "plan", f"{folder}/many.dv", "--target", "spyre", "--html", f"{folder}/many.html"], check=True)
        print(f"{ops} ops, load {os.getloadavg()[0]:.0f}: made in {time.monotonic() - begun:.2f} s, {os.path.getsize(f'{folder}/many.html') / 1e6:.1f} MB")
        b = Browser()
        try:
            opened = sorted(b.open(f"{folder}/many.html") for _ in range(5))
            print(f"opens in {statistics.median(opened):.2f} s (5 times, {opened[0]:.2f} to {opened[-1]:.2f})")
            print(f"an idle page: {b.eval(FRAMES.replace('SCRIPT', '')):.0f} frames/s")
            for share in (1, 0.1, 0.01, 0.001):
                b.eval(f"timeAxis.first = timeEnd * 0.3, timeAxis.last = timeEnd * (0.3 + 0.5 * {share}), redraw()")
                b.settle()
                rates = sorted(b.eval(FRAMES.replace("SCRIPT", PAN.replace("WIDTH", str(share)))) for _ in range(3))
                print(f"pan, {0.5 * share:.2%} visible: {rates[1]:.0f} frames/s (3 times, {rates[0]:.0f} to {rates[-1]:.0f})")
            b.eval("timeAxis.first = 0, timeAxis.last = timeEnd, redraw()")
            b.settle()
            print(f"zoom: {b.eval(FRAMES.replace('SCRIPT', ZOOM)):.0f} frames/s")
            begun = time.monotonic()
            for op in range(0, ops, ops // 20):
                b.eval(f"select({{op: {op}}})")
                b.settle()
            print(f"select an op: {1000 * (time.monotonic() - begun) / 20:.0f} ms")
        finally:
            b.close()


main()
