"""Opens the pages of plans in a real browser: every picture draws, no script
fails, the numbers are those of the JSON, and what is pointed at or selected in
one part is shown in all parts.

    pages.py DIVVY SOURCE FOLDER    screenshots go to FOLDER

Ends with 77 if there is no browser."""
import base64
import json
import math
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
linked = set()  # the parts that were pointed at


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
        // Dots of ops that are equally fast cover each other.
        for (const u of [0.5, 0.1, 0.9, 0.3, 0.7]) for (const v of [0.5, 0.1, 0.9, 0.3, 0.7]) {
            const at = [b.x + u * b.width, b.y + v * b.height];
            if (document.elementFromPoint(...at) === d.dot) return at;
        }
        return null; })()""",
    # Tables have a row for the op that is longest in a group, or that begins a
    # buffer; the row of a group above the timeline is that op's as well.
    "groups": """(() => { const m = models[selected.m]; if (m.groups[m.groupOf[OP]].main !== OP) return null;
        document.getElementById('groups').open = true; return new Promise(r => setTimeout(() => {
        const row = [...document.querySelectorAll('#groups tr[data-op]')].find(t => +t.dataset.op === OP && +t.dataset.m === m.index);
        row.scrollIntoView({block: 'center'}); const b = row.getBoundingClientRect(); r([b.x + 60, b.y + b.height / 2]); }, 0)); })()""",
    "headings": """(() => { const m = models[selected.m], g = m.groups[m.groupOf[OP]]; if (g.main !== OP) return null;
        timeCanvas.scrollIntoView({block: 'center'}); const b = timeCanvas.getBoundingClientRect(), t = m.timeline.groups[m.groupOf[OP]];
        return [b.x + timeAxis.x(t.start_us + t.us / 2), b.y + 10]; })()""",
    "buffers": """(() => { const d = document.getElementById('homes'); if (!d) return null; d.open = true; return new Promise(r => setTimeout(() => {
        const row = document.querySelector('#homes tr[data-op="OP"]'); if (!row) { r(null); return; }
        row.scrollIntoView({block: 'center'}); const b = row.getBoundingClientRect(); r([b.x + 10, b.y + b.height / 2]); }, 0)); })()""",
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
        check(b.eval("(() => { const r = document.querySelector('#program .line.sel').getBoundingClientRect(), "
                     "p = document.querySelector('#program .body').getBoundingClientRect(); return r.bottom > p.top && r.top < p.bottom; })()"),
              f"{name}: the line of op {op} is not visible")
        linked.add(part)


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
    b.open("granite.html", "#op=30")
    check(b.eval("(() => { const r = document.querySelector('#program .line.sel').getBoundingClientRect(), "
                 "p = document.querySelector('#program .body').getBoundingClientRect(); return r.top > p.top && r.bottom < p.bottom; })()"),
          "the line of an anchor's op is not visible")
    b.open("softmax.html", "#op=1&core=3")
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
    b.key("0")
    # Dragging pans, and does not select.
    b.eval("timeAxis.first = 0, timeAxis.last = timeEnd / 4, redraw()")
    b.settle()
    b.drag((x, y), (x - 200, y))
    check(b.eval("timeAxis.first > 0 && Math.abs(timeAxis.last - timeAxis.first - timeEnd / 4) < timeEnd * 1e-9"), "dragging does not pan")
    check(b.eval("selected.op") is None, "dragging selects")
    # The scratchpad has the same axis, unless ops are to be equally wide.
    check(b.eval("scratchAxis() === timeAxis"), "the scratchpad does not follow the timeline")
    b.eval("[...document.querySelectorAll('#scratch button')].find(x => x.textContent === 'by op').click()")
    b.settle()
    check(b.eval("scratchAxis() === opAxis && scratchAxis().end === models[0].ops.length"), "the scratchpad is not by op")
    # Every part that is used by pointer is reached by keys as well.
    lost = b.eval("""[...document.querySelectorAll('.has, tr[data-op], li[data-op], circle[data-op], td.some, canvas, button, select, summary, a')]
        .filter(e => e.offsetParent !== null && e.tabIndex < 0 && !e.closest('#lines') && !e.closest('.card')).map(e => e.outerHTML.slice(0, 80))""")
    check(not lost, f"keys do not reach {lost}")
    b.eval("document.getElementById('groups').open = true")
    b.settle()
    b.eval("document.querySelector('#groups tr[data-op]').focus()")
    b.key("Enter")
    check(b.eval("selected.op === models[0].groups[0].main"), "Enter does not select a group")
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


def seen_by(colour, kind):
    """Returns a colour as people see it who lack a kind of cones (Machado,
    Oliveira and Fernandes 2009, severity 1), in linear light."""
    matrix = {
        "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
        "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
        "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
        "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
    }[kind]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5))]
    return [min(1, max(0, sum(m * c for m, c in zip(row, linear)))) for row in matrix]


def lab(rgb):
    """Converts linear light to CIELAB, in which distances are as people see them."""
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    x, y, z = (sum(m * c for m, c in zip(row, rgb)) / w for row, w in zip(rows, (0.9505, 1, 1.089)))
    f = [v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def contrast(a, b):
    light = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (seen_by(a, "none"), seen_by(b, "none")))
    return (light[1] + 0.05) / (light[0] + 0.05)


def check_colours(b):
    """People with any colour vision tell kinds of ops apart, and read their names."""
    kinds = ["contraction", "reduction", "pointwise", "move", "extern"]
    for theme in ("light", "dark"):
        b.media(theme)
        b.open("granite.html")
        of = {k: b.eval(f"getComputedStyle(document.documentElement).getPropertyValue('--{k}').trim()")
              for k in [*kinds, *("on-" + k for k in kinds), "ring", "wait", "card", "text", "dim"]}
        of = {k: "#" + "".join(c * 2 for c in v[1:]) if len(v) == 4 else v for k, v in of.items()}
        for vision in ("none", "protanopia", "deuteranopia", "tritanopia"):
            for i, x in enumerate(kinds):
                for y in [*kinds[i + 1:], "wait"]:
                    far = math.dist(lab(seen_by(of[x], vision)), lab(seen_by(of[y], vision)))
                    check(far > 15, f"{theme}, {vision}: {x} and {y} are {far:.1f} apart")
        for k in kinds:
            check(contrast(of[k], of["on-" + k]) > 3, f"{theme}: names on {k} have a contrast of {contrast(of[k], of['on-' + k]):.1f}")
        for ink, least in (("text", 7), ("dim", 4.5)):
            check(contrast(of[ink], of["card"]) > least, f"{theme}: {ink} has a contrast of {contrast(of[ink], of['card']):.1f}")
    b.media("light")


def check_small(b):
    """Pages of which more and more is left out say so, and still draw."""
    graph, before = f"{source}/examples/softmax.dv", []
    limit = os.path.getsize("softmax.html")
    while True:
        limit -= 1
        words = [divvy, "plan", graph, "--target", "spyre", "--html", "small.html", "--html-limit", str(limit)]
        if subprocess.run(words, capture_output=True, check=False).returncode:
            break
        limit = os.path.getsize("small.html")
        b.open("small.html", "#op=3")
        said = b.eval("document.getElementById('left-out').textContent")
        left_out = b.eval("data.left_out")
        check(len(left_out) > len(before) and all(what in said for what in left_out), f"{left_out} is not said: {said}")
        check(b.eval("selected.op === 3 && document.querySelector('#selection h2').textContent.startsWith('Op 3: ')"), f"nothing is selected without {left_out}")
        check_pictures(b, f"without {left_out}")
        before = left_out
    check(len(before) == 5, f"only {before} can be left out")


def check_hostile(b):
    """Names of files, folders, constants, targets and text of the program are
    shown as they are, wherever a page shows them."""
    image = "<img src=x onerror=window.hacked=1>"
    name = f"</script>{image}.dv"  # a file in a folder named <
    os.mkdir("<")
    with open(name, "w", encoding="utf-8") as f:
        f.write(HOSTILE.replace("y[i] = x[i] + 1", f'const w: f32[8] = "</script>{image}.npy"\ny[i] = x[i] + w[i]'))
    with open(f"{source}/targets/spyre.dv", encoding="utf-8") as f:
        target = re.sub(r"about .*", f'about = "</script>{image}"', f.read(), count=1)
    with open("<script>.dv", "w", encoding="utf-8") as f:
        f.write(target)
    run("plan", name, "--target", "<script>.dv", "--html", "hostile.html", "--trace", "hostile.json")
    run("plan", name, "--target", "<script>.dv", "-o", "<b>.plan")
    run("report", "<b>.plan", "<b>.plan", "--html", "hostile-two.html")
    with open("hostile.html", encoding="utf-8") as f:
        check(f.read().count("</script>") == 2, "text ends the script element")
    for page in ("hostile.html", "hostile-two.html"):
        b.open(page, "#op=0")
        check(b.eval("window.hacked") is None, f"{page}: text of the user runs as a script")
        check(b.eval("document.querySelectorAll('img').length === 0 && document.querySelectorAll('script').length === 2"),
              f"{page}: text of the user is markup")
    b.open("hostile.html", "#op=0")
    check(b.eval("document.querySelector('#program .comment').textContent") == HOSTILE.split("\n", maxsplit=1)[0], "a comment is not shown as it is")
    check(b.eval("document.title").startswith(f"script>{image}.dv"), f"the title is {b.eval('document.title')}")
    check(image in b.eval("document.getElementById('foot').textContent"), "the foot has not the command as it was")


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


def check_cores(b):
    """A core that is pointed at is shown in all pictures that have cores."""
    b.open("granite.html", "#op=29")
    b.eval("document.getElementById('owners').scrollIntoView({block: 'center'})")
    x, y = b.eval("(() => { const c = ownersCards[0], r = c.canvas.getBoundingClientRect(), q = boxRect(c, c.drawn.find(d => d.core === 5).box); "
                  "return [r.x + q.x + q.w / 2, r.y + q.y + q.h / 2]; })()")
    before = b.eval("timeCanvas.toDataURL()")
    b.hover(x, y)
    check(b.eval("hovered.core === 5 && !tip.hidden && tip.textContent.includes('core 5')"), "a part of core 5 does not show it")
    check(b.eval("timeCanvas.toDataURL()") != before, "the timeline does not show the core")
    b.click(x, y)
    check(b.eval("selected.core === 5 && location.hash.includes('core=5') && selected.op === 29"), "a click does not select the core")
    b.open("two.html", "#op=0")
    row = "document.querySelector('#compare-ops tr[data-op=\"3\"]')"
    b.eval(row + ".scrollIntoView({block: 'center'})")
    b.click(*b.eval(f"(() => {{ const r = {row}.getBoundingClientRect(); return [r.x + 10, r.y + 8]; }})()"))
    check(b.eval("selected.op") == 3, "a row of the comparison does not select its op")
    b.open("softmax.html")
    change = "document.querySelector('#changes li[data-op]')"
    if b.eval(f"!!{change}"):
        b.click(*b.eval(f"(() => {{ const r = {change}.getBoundingClientRect(); return [r.x + 10, r.y + 8]; }})()"))
        check(b.eval(f"selected.op === +{change}.dataset.op"), "a change does not select its op")


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
            for part in (check_keys, check_looks, check_colours, check_small, check_hostile, check_two, check_ranks, check_cores):
                part(b)
        finally:
            b.close()
        check(linked == set(PLACES), f"only {linked} were pointed at")
        check(not b.errors, f"scripts complain: {b.errors[:5]}")
    sys.exit(1 if failures else 0)


main()
