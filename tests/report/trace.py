"""Checks traces of plans against Chrome's trace format, which Perfetto reads:
events have the fields of their kind, those of a thread do not overlap, arrows
have two ends in events, and the whole lasts as long as the plan.

    trace.py DIVVY SOURCE"""
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict

divvy, source = (os.path.abspath(word) for word in sys.argv[1:3])
graphs = f"{source}/tests/programs/graphs"
PLANS = {  # the words of the command, and the kinds of arrows
    "softmax": ([f"{source}/examples/softmax.dv", "--target", "spyre", "--joint", "off", "--divide", "seed"], {"ring"}),
    "granite": ([f"{graphs}/granite_layer_S512_L1.dv", "--target", "spyre"], {"ring"}),
    "wormhole": ([f"{source}/examples/matmul.dv", "--target", "wormhole", "--holes", "0,7-7,7"], set()),
    "heat": ([f"{source}/examples/heat.dv", "--team", "6"], {"message"}),
    "host": ([f"{source}/examples/mlp.dv"], set()),
}
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def check_threads(name, slices):
    for thread, events in slices.items():
        events.sort(key=lambda e: e["ts"])
        for a, b in zip(events, events[1:]):
            check(a["ts"] + a["dur"] <= b["ts"] * (1 + 1e-9) + 1e-9, f"{name}: {a} overlaps {b} on {thread}")


def check_arrows(name, arrows, slices):
    for (category, number), ends in arrows.items():
        kinds = [e["ph"] for e in ends]
        check(sorted(kinds) == ["f", "s"], f"{name}: arrow {number} of {category} has the ends {kinds}")
        for e in ends:
            inside = [s for s in slices[e["pid"], e["tid"]]
                      if s["cat"] == "op" and s["ts"] - 1e-9 <= e["ts"] <= s["ts"] + s["dur"] + 1e-9]
            check(inside, f"{name}: {e} is in no event")
            check(e["ph"] == "s" or e.get("bp") == "e", f"{name}: {e} does not bind to the event around it")
        if len(ends) == 2:
            start, end = sorted(ends, key=lambda e: e["ph"] == "f")
            check(category == "message" or start["ts"] <= end["ts"], f"{name}: {end} is before {start}")


def check_trace(name, words, categories):
    subprocess.run([divvy, "plan", *words, "--trace", f"{name}.json", "-o", os.devnull], check=True)
    with open(f"{name}.json", encoding="utf-8") as f:
        trace = json.load(f)
    check(set(trace) == {"displayTimeUnit", "traceEvents"}, f"{name}: the fields are {set(trace)}")
    slices, arrows, named = defaultdict(list), defaultdict(list), set()
    for e in trace["traceEvents"]:
        check(isinstance(e["pid"], int) and isinstance(e["tid"], int) and isinstance(e["name"], str), f"{name}: {e}")
        if e["ph"] == "M":
            check(e["name"] in ("thread_name", "process_name") and isinstance(e["args"]["name"], str), f"{name}: {e}")
            named.add((e["pid"], e["tid"]))
        elif e["ph"] == "X":
            check(e["ts"] >= 0 and e["dur"] >= 0 and e["cat"] in ("op", "wait"), f"{name}: {e}")
            slices[e["pid"], e["tid"]].append(e)
        else:
            check(e["ph"] in "sf" and e["ts"] >= 0, f"{name}: {e}")
            arrows[e["cat"], e["id"]].append(e)
    check(slices and set(slices) <= named, f"{name}: threads without a name")
    check({c for c, _ in arrows} == categories, f"{name}: arrows of {({c for c, _ in arrows})}")
    check(max(Counter(i for _, i in arrows).values(), default=1) == 1, f"{name}: two arrows have one number")
    check_threads(name, slices)
    check_arrows(name, arrows, slices)
    plan = json.loads(subprocess.run([divvy, "plan", *words, "--json"], capture_output=True, text=True, check=True).stdout)
    ranks = plan.get("ranks", [plan])
    longest = max(r["timeline"]["us"] for r in ranks)
    end = max(e["ts"] + e["dur"] for events in slices.values() for e in events)
    check(abs(end - longest) <= 1e-6 * longest, f"{name}: the trace ends at {end}, the plan at {longest}")
    ops = sum(len(r["ops"]) * len(r.get("ranks", [0])) for r in ranks)
    check(sum(e["cat"] == "op" for events in slices.values() for e in events) >= ops, f"{name}: ops are missing")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, (words, categories) in PLANS.items():
            check_trace(name, words, categories)
    sys.exit(1 if failures else 0)


main()
