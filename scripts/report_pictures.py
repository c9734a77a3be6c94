"""Makes the pictures of reports that the README shows, with Debian's chromium
and pngquant.

    python3 scripts/report_pictures.py DIVVY FOLDER"""
import os
import subprocess
import sys
import tempfile

source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(source, "tests/report"))
from browser import Browser  # noqa: E402

divvy, folder = (os.path.abspath(word) for word in sys.argv[1:3])
layer = "tests/programs/graphs/granite_layer_S512_L1.dv"
PICTURES = {  # the command, light or dark, the selection, the parts that are shown
    "report-layer": (["plan", layer, "--target", "spyre"], "light", "#op=30", ["header", "#head", "#timeline", "#scratch .picture"]),
    "report-owners": (["plan", layer, "--target", "spyre"], "dark", "#op=14&core=9", ["#owners", "#roofline"]),
    "report-ranks": (["plan", "examples/heat.dv", "--team", "6"], "light", "#m=2&op=5&pair=2-3", ["#timeline", "#owners", "#ranks"]),
    "report-two": (["report", "a.plan", "b.plan"], "light", "#op=3", ["#compare"]),
}


def box(browser, parts):
    """Returns the rectangle around the parts of a page."""
    return browser.eval(f"""(() => {{ const all = {parts!r}.map(p => document.querySelector(p).getBoundingClientRect());
        const x = Math.min(...all.map(r => r.x)), y = Math.min(...all.map(r => r.y));
        return [x - 8, Math.max(0, y - 8), Math.max(...all.map(r => r.right)) - x + 16, Math.max(...all.map(r => r.bottom)) - y + 16]; }})()""")


def main():
    os.chdir(source)
    with tempfile.TemporaryDirectory() as work:
        for name, more in (("a", ["--joint", "off", "--divide", "seed"]), ("b", [])):
            subprocess.run([divvy, "plan", "examples/softmax.dv", "--target", "spyre", *more, "-o", f"{work}/{name}.plan"], check=True)
        browser = Browser(1280, 1000)
        try:
            for name, (words, theme, anchor, parts) in PICTURES.items():
                words = [f"{work}/{w}" if w.endswith(".plan") else w for w in words]
                subprocess.run([divvy, *words, "--html", f"{work}/page.html"], check=True)
                browser.media(theme)
                browser.open(f"{work}/page.html", anchor)
                browser.screenshot(f"{work}/{name}.png", clip=box(browser, parts))
                subprocess.run(["pngquant", "--force", "--output", f"{folder}/{name}.png", "64", f"{work}/{name}.png"], check=True)
        finally:
            browser.close()


main()
