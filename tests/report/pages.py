"""Opens the pages of plans in a real browser: every picture draws, no script
fails, the numbers are those of the JSON, and what is pointed at or selected in
one part is shown in all parts.

    pages.py DIVVY SOURCE FOLDER    screenshots go to FOLDER

Ends with 77 if there is no browser."""
import base64
import json
import os
import re
import subprocess
import sys
import tempfile

from browser import Browser, find

divvy, source, shots = (os.path.abspath(word) for word in sys.argv[1:4])
graphs = os.path.join(source, "tests/programs/graphs")
ONE_OP = "input x: f32[8]\ny[i] = x[i] + 1\noutput y\n"
HOSTILE = ("# </script><script>window.hacked = 1</script><b>&amp;\n" + ONE_OP)
PLANS = {  # the words of the command, and an op to look at
    "softmax": (["plan", f"{source}/examples/softmax.dv", "--target", "spyre"], 2),
    "granite": (["plan", f"{graphs}/granite_layer_S512_L1.dv", "--target", "spyre"], 14),
    "wormhole": (["plan", f"{source}/examples/matmul.dv", "--target", "wormhole", "--holes", "0,7-7,7"], 0),
    "heat": (["plan", f"{source}/examples/heat.dv", "--team", "6"], 4),
    "mlp": (["bench", f"{source}/examples/mlp.dv", "--set", "B=32", "--seconds", "0.01", "--runs", "1"], 1),
    "one": (["plan", "one.dv", "--target", "spyre"], 0),
}
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def run(*words):
    r = subprocess.run([divvy, *words], capture_output=True, text=True, check=False)
    if r.returncode:
        raise RuntimeError(f"divvy {' '.join(words)}: {r.stderr}")
    return r.stdout


def at(value, path):
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def without_times(value):
    """Removes how long passes took, the only field that differs."""
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k != "passes"}
    return [without_times(v) for v in value] if isinstance(value, list) else value


PARTS = "[...document.querySelectorAll('section')].filter(s => !s.hidden && s.id !== 'head').map(s => s.id)"
# Where an op is drawn in each part that can be pointed at; the part is scrolled
# into the window first.
PLACES = {
    "program": """(() => { const m = models[selected.m], r = programRows[m.lineOf[OP]];
        r.scrollIntoView({block: 'center'}); const b = r.querySelector('code').getBoundingClientRect();
        const body = document.querySelector('#program .body').getBoundingClientRect();
        return [b.x + 30, Math.min(b.y + 6, body.bottom - 3)]; })()""",
    "timeline": """(() => { timeCanvas.scrollIntoView({block: 'center'}); const b = timeCanvas.getBoundingClientRect();
        const i = timeRows.findIndex(r => r.m.index === selected.m), p = timeRows[i].pieces.find(p => p.op === OP);
        return [b.x + timeAxis.x(p.start + p.us / 2), b.y + TOP + (i + 0.5) * rowHeight]; })()""",
    "scratch": """(() => { if (!scratchCanvas) return null; const m = scratchModel, top = scratchTop(m);
        const h = homesOf(m).find(h => h.first_op === OP && m.ops[OP].write.tensor === h.name); if (!h) return null;
        scratchCanvas.scrollIntoView({block: 'center'}); const b = scratchCanvas.getBoundingClientRect(), r = homeRect(h, top);
        return [b.x + r.x + r.w / 2, b.y + r.y + r.h / 2]; })()""",
    "roofline": """(() => { const d = roofDots.find(d => +d.dot.dataset.op === OP); if (!d) return null;
        d.dot.scrollIntoView({block: 'center'}); const b = d.dot.getBoundingClientRect();
        return [b.x + b.width / 2, b.y + b.height / 2]; })()""",
}


def shown(browser, what):
    return browser.eval(f"({PARTS}).map(p => [p, document.getElementById(p).dataset.{what}])")


def check_links(b, name, op):
    """Points at an op in each part, then clicks it: all parts show the same."""
    for part, script in PLACES.items():
        b.key("Escape")
        b.hover(2, 2)
        place = b.eval(re.sub(r"\bOP\b", str(op), script))
        if place is None:
            check(part not in ("program", "timeline"), f"{name}: op {op} is not in {part}")
            continue
        before = b.eval("timeCanvas.toDataURL()")
        b.hover(*place)
        for other, value in shown(b, "hovered"):
            check(value == str(op), f"{name}: pointing at op {op} in {part} shows {value} in {other}")
        check(b.eval("timeCanvas.toDataURL()") != before, f"{name}: the timeline does not show what {part} points at")
        b.click(*place)
        b.hover(2, 2)
        for other, value in shown(b, "selected"):
            check(value == str(op), f"{name}: a click on op {op} in {part} selects {value} in {other}")
        check(b.eval("location.hash").find(f"op={op}") >= 0, f"{name}: the address has no selection")
        check(b.eval("document.querySelector('#selection h2').textContent").startswith(f"Op {op}: "),
              f"{name}: the facts of op {op} are not shown")
        check(b.eval("document.querySelectorAll('#program .line.sel').length") == 1, f"{name}: no line is marked")


def check_pictures(b, name):
    """Every visible part has a picture with something in it."""
    empty = b.eval("""[...document.querySelectorAll('canvas')].filter(c => {
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        const first = d.slice(0, 4).join(); let n = 0;
        for (let i = 0; i < d.length; i += 4) n += d[i + 3] > 0 && d.slice(i, i + 4).join() !== first;
        return n < 10; }).map(c => c.getAttribute('aria-label'))""")
    check(not empty, f"{name}: nothing is drawn in {empty}")
    overflow = b.eval("document.documentElement.scrollWidth > innerWidth + 1")
    check(not overflow, f"{name}: the page is wider than the window")


def check_owners(b, name):
    """The parts that cores write cover each tensor exactly once."""
    wrong = b.eval("""(() => { const bad = [];
        for (const m of models) m.ops.forEach((op, i) => {
            const boxes = coreBoxes(m, i, op.write);
            if (!boxes || op.kind === 'extern' || op.update || (op.divide || {}).reduction_split) return;
            const size = b => b.reduce((s, [lo, hi]) => s * (hi - lo), 1);
            const all = m.tensors.get(op.write.tensor).shape.reduce((a, b) => a * b, 1);
            const writers = m.ops.filter(o => o.write.tensor === op.write.tensor).length;
            if (writers === 1 && boxes.reduce((s, b) => s + size(b.box), 0) !== all) bad.push(op.name);
        });
        return bad; })()""")
    check(not wrong, f"{name}: the parts of {wrong} do not cover it once")


def check_page(b, name, words, op):
    page = f"{name}.html"
    run(*words, "--html", page)
    seconds = b.open(page)
    check(seconds < 20, f"{name} opens in {seconds:.1f} s")
    data = json.loads(b.eval("JSON.stringify(JSON.parse(document.getElementById('data').textContent))"))
    if words[0] == "plan":
        facts = json.loads(run(*words, "--json"))
        check(facts.pop("format") == data["format"], f"{name}: the page has another format")
        check(data["plan"] == without_times(facts), f"{name}: the data in the page is not the JSON")
    numbers = b.eval("[...document.querySelectorAll('[data-json]')].map(e => [e.dataset.json, e.dataset.value, e.textContent])")
    check(len(numbers) >= 2, f"{name}: only {len(numbers)} numbers in the head")
    for path, value, text in numbers:
        exact = at(data["plan"], path)
        check(float(value) == exact, f"{name}: {path} is {exact}, the page has {value}")
        check(text != "" and (exact == 0) == (text.split()[0] == "0"), f"{name}: {path} is shown as {text}")
    check_pictures(b, name)
    check_owners(b, name)
    b.screenshot(f"{shots}/{name}.png", whole=True)
    check_links(b, name, op)
    return data


def check_keys(b):
    b.open("softmax.html", "#op=1&core=3")
    check(b.eval("[selected.op, selected.core].join()") == "1,3", "an anchor does not restore the selection")
    b.key("ArrowDown")
    check(b.eval("selected.op") == 2, "the arrow does not go to the next op")
    b.eval("timeCanvas.focus()")
    b.key("+")
    check(b.eval("timeAxis.last - timeAxis.first < timeEnd * 0.71"), "+ does not zoom")
    b.key("ArrowRight")
    check(b.eval("timeAxis.first > timeEnd * 0.2"), "the arrow does not pan")
    b.key("0")
    check(b.eval("timeAxis.last - timeAxis.first === timeEnd"), "0 does not show all")
    x, y = b.eval("(() => { const r = timeCanvas.getBoundingClientRect(); return [r.x + 400, r.y + 50]; })()")
    b.mouse("mouseWheel", x, y, deltaX=0, deltaY=-200)
    b.settle()
    check(b.eval("timeAxis.last - timeAxis.first < timeEnd * 0.9"), "the wheel does not zoom")
    b.key("Escape")
    check(b.eval("selected.op") is None, "Escape does not deselect")
    # A part of the text can be selected.
    check(b.eval("getComputedStyle(document.querySelector('.fact .value')).userSelect") != "none", "numbers cannot be selected")


def check_looks(b):
    b.media("dark")
    b.open("granite.html", "#op=14")
    dark = b.eval("getComputedStyle(document.body).backgroundColor")
    b.screenshot(f"{shots}/granite-dark.png", whole=True)
    b.media("light")
    check(dark != b.eval("getComputedStyle(document.body).backgroundColor"), "dark looks like light")
    pdf = base64.b64decode(b.send("Page.printToPDF", printBackground=True)["data"])
    check(pdf.startswith(b"%PDF") and len(pdf) > 20000, f"the print has {len(pdf)} bytes")


def check_hostile(b):
    with open("<b>.dv", "w", encoding="utf-8") as f:
        f.write(HOSTILE)
    run("plan", "<b>.dv", "--target", "spyre", "--html", "hostile.html")
    b.open("hostile.html")
    check(b.eval("window.hacked") is None, "a comment runs as a script")
    check(b.eval("document.querySelector('#program .comment').textContent") == HOSTILE.split("\n", maxsplit=1)[0], "a comment is not shown as it is")
    check(b.eval("document.querySelectorAll('b').length <= 4 && document.title.startsWith('<b>.dv')"), "a file's name is markup")


def check_two(b):
    softmax = f"{source}/examples/softmax.dv"
    run("plan", softmax, "--target", "spyre", "--joint", "off", "--divide", "seed", "-o", "a.plan")
    run("plan", softmax, "--target", "spyre", "-o", "b.plan")
    run("report", "a.plan", "b.plan", "--html", "two.html")
    b.open("two.html")
    texts = b.eval("[...document.querySelectorAll('#compare-ops tbody tr')].map(r => r.textContent)")
    check(len(texts) == 5 and any("j 16 × i 2 → j 16" in t for t in texts), f"the differences of two plans are {texts}")
    b.screenshot(f"{shots}/two.png", whole=True)


def check_ranks(b):
    b.open("heat.html")
    cell = "document.querySelector('[data-pair=\"2-3\"]')"
    b.eval(cell + ".scrollIntoView({block: 'center'})")
    b.click(*b.eval(f"(() => {{ const r = {cell}.getBoundingClientRect(); return [r.x + 5, r.y + 5]; }})()"))
    text = b.eval("document.getElementById('message').textContent")
    data = b.eval("data.plan.dist.all_messages.filter(x => x.from === 2 && x.to === 3)")
    check(text.startswith("rank 2 to rank 3") and len(data) == 1, "a cell does not show its messages")
    lo, n = data[0]["box"][0]
    check(f"{lo}..{lo + n}" in text, f"the box {data[0]['box']} is not in {text}")
    sums = b.eval("[data.plan.dist.all_messages.reduce((s, x) => s + x.bytes, 0), data.plan.dist.all_bytes]")
    check(sums[0] == sums[1], f"messages have {sums[0]} bytes, not {sums[1]}")
    b.key("Escape")
    b.eval("select({m: 3, op: 4})")
    b.settle()
    check(b.eval("document.getElementById('model').value") == "3", "another rank cannot be chosen")


def main():
    if not find():
        print("skipped: there is no chromium (apt install chromium)")
        sys.exit(77)
    os.makedirs(shots, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("one.dv", "w", encoding="utf-8") as f:
            f.write(ONE_OP)
        b = Browser()
        try:
            for name, (words, op) in PLANS.items():
                check_page(b, name, words, op)
            for part in (check_keys, check_looks, check_hostile, check_two, check_ranks):
                part(b)
        finally:
            b.close()
        check(not b.errors, f"scripts complain: {b.errors[:5]}")
    sys.exit(1 if failures else 0)


main()
