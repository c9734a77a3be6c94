"""Plans as HTML for notebooks: groups, who owns what, scratchpads over time."""

from html import escape

_SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2}
_SIZES.update(i8=1, u64=8, u32=4, u16=2, u8=1, bool=1)
_MOST_GROUPS, _MOST_CORES, _MOST_HOMES = 60, 256, 400
_WIDTH, _HEIGHT = 640, 200


def work(plan):
    """The floating-point operations of a run, and the bytes of its operands."""
    times = [1] * len(plan["ops"])
    for r in plan["repeats"]:
        for i in range(r["first_op"], r["end_op"]):
            times[i] *= r["times"]
    flops = sum(op["flops"] * n for op, n in zip(plan["ops"], times))
    size = 0
    for t in plan["tensors"]:
        elements = 1
        for n in t["shape"]:
            elements *= n
        if t["role"] != "temporary":
            size += elements * _SIZES[t["dtype"]] * (1 + (t["role"] == "inout"))
    return flops, size


def _bytes(n):
    for unit in ("B", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.4g} {unit}"
        n /= 1024
    return f"{n:.4g} GiB"


def _color(name):
    """A light color that depends on a name only."""
    hue = sum((i + 1) * ord(c) for i, c in enumerate(name)) * 47 % 360
    return f"hsl({hue},60%,80%)"


def _owners(group, n_cores):
    """A cell per core: how many tiles it owns, and which."""
    cells = []
    owned = {c["core"]: c for c in group["cores"]}
    for core in range(min(n_cores, _MOST_CORES)):
        c = owned.get(core)
        first = c["first_tile"] if c else 0
        what = f"tiles {first} to {first + c['tiles'] - 1}" if c else "nothing"
        shade = "#4a90d9" if c else "#eee"
        cells.append(
            f'<span title="core {core}: {what}" style="display:inline-block;width:7px;'
            f'height:12px;margin:0 1px 0 0;background:{shade}"></span>'
        )
    more = "…" if n_cores > _MOST_CORES else ""
    return "".join(cells) + more


def _groups(plan):
    rows = []
    for i, g in enumerate(plan["groups"][:_MOST_GROUPS]):
        price = g.get("price") or {}
        us = f"{price['us']:.3g}" if "us" in price else ""
        rows.append(
            f"<tr><td>{i}</td><td>{escape(', '.join(g['ops']))}</td>"
            f"<td>{g['tiles']}</td><td>{us}</td><td>{escape(str(price.get('limit', '')))}"
            f'</td><td style="white-space:nowrap">{_owners(g, plan["cores"])}</td></tr>'
        )
    left = len(plan["groups"]) - len(rows)
    if left > 0:
        rows.append(f'<tr><td colspan="6">and {left} more</td></tr>')
    heads = ("group", "ops", "tiles", "predicted us", "limited by", "cores that own tiles")
    return (
        "<table><thead><tr>"
        + "".join(f"<th>{h}</th>" for h in heads)
        + "</tr></thead><tbody>"
        + "".join(rows)
        + "</tbody></table>"
    )


def _scratch(plan):
    """Rectangles: ops from left to right, addresses from the bottom up."""
    scratch = plan.get("scratch") or {}
    homes = scratch.get("homes") or []
    if not homes:
        return ""
    n, top = max(1, len(plan["ops"])), max(1, scratch["capacity"])
    boxes = []
    for h in homes[:_MOST_HOMES]:
        x, w = (
            _WIDTH * h["first_op"] / n,
            _WIDTH * (h["end_op"] - h["first_op"]) / n,
        )
        height = max(1.0, _HEIGHT * h["core_bytes"] / top)
        y = _HEIGHT - _HEIGHT * h["address"] / top - height
        name = escape(h["name"])
        boxes.append(
            f'<g><title>{name}: ops {h["first_op"]} to {h["end_op"] - 1}, '
            f'{_bytes(h["core_bytes"])} at {h["address"]}</title>'
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{height:.1f}" '
            f'fill="{_color(h["name"])}" stroke="#555" stroke-width=".5"/>'
        )
        if w > 20 and height > 10:
            boxes.append(
                f'<text x="{x + 3:.1f}" y="{y + 10:.1f}" font-size="10">{name}</text>'
            )
        boxes.append("</g>")
    peak = scratch.get("peak", {}).get("bytes", 0)
    return (
        f"<p>Scratchpad of a core: {_bytes(peak)} of {_bytes(top)} at most. Ops from left "
        "to right, addresses from the bottom up.</p>"
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'style="border:1px solid #999;background:#fff">' + "".join(boxes) + "</svg>"
    )


def count_of(items, word):
    """Return "1 op", "2 ops"."""
    return f"{len(items)} {word}" + ("" if len(items) == 1 else "s")


def html_of(plan):
    flops, size = work(plan)
    us = plan.get("price", {}).get("us")
    predicted = f", predicted {us:.4g} us" if us is not None else ""
    return (
        f"<div><p><b>Plan for {escape(plan['target'])}</b>: {count_of(plan['ops'], 'op')} in "
        f"{count_of(plan['groups'], 'group')} on {plan['cores']} cores{predicted}; "
        f"{flops:.4g} operations, {_bytes(size)} of operands; check: "
        f"{escape(str(plan['check']))}</p>{_groups(plan)}{_scratch(plan)}</div>"
    )
