#!/bin/sh
# --json prints valid JSON, for results and for errors of every kind.
. "$(dirname "$0")/../common.inc"
python3 -c 'import json' 2>/dev/null || exit 77
printf 'param N = 4\nparam h = 0.5\ninput x: f32[N]\ny[i] = x[i] * h\noutput y\n' >p.dv
printf 'input x: f32[4]\ny[i] = z[i]\noutput y\n' >name.dv
printf 'input x: f32[4]\ny[i] = x[i] "\001\\\n' >quote.dv
printf 'input a: f64[4]\nb[i] = a[i] * 0 + inf\nc[i] = b[i] - b[i]\nd[i] = -b[i]\noutput b, c, d\n' >nan.dv
cat >gap.plan <<'PLAN'
plan 1
target t { cores = 2 }
program fused { input x: f32[4] y[i]: f32 = x[i] output y }
groups { }
PLAN

json() {
    code=$1
    shift
    "$@" --json >.out 2>.err </dev/null
    found=$?
    [ $found = "$code" ] || complain "$* --json: exit $found, not $code"
    python3 -m json.tool <.out >.pretty 2>&1 || complain "$* --json: no JSON: $(head -c 200 .out)"
    [ "$code" = 0 ] || grep -q '"message"' .pretty || complain "$* --json: no message"
}
for c in check plan run; do
    target=
    [ $c = check ] || target='-t spyre'
    # shellcheck disable=SC2086
    {
        json 0 "$divvy" $c p.dv $target
        json 0 "$divvy" $c nan.dv $target
        json 1 "$divvy" $c name.dv $target
        json 1 "$divvy" $c quote.dv $target
        json 1 "$divvy" $c missing.dv $target
        json 1 "$divvy" $c . $target
        json 2 "$divvy" $c p.dv --set M=3 $target
        json 1 "$divvy" $c p.dv --set N=0 $target
    }
done
json 0 "$divvy" run p.dv -t spyre --verify
json 0 "$divvy" run nan.dv -t spyre --verify
json 1 "$divvy" run p.dv -t nowhere
json 1 "$divvy" run p.dv -t spyre --in x=missing.npy
json 3 "$divvy" run p.dv -t spyre --out y=no/y.npy
json 3 "$divvy" plan p.dv -t spyre -o no/a.plan
json 2 "$divvy" plan p.dv -t spyre --stop-after nothing
json 4 "$divvy" plan gap.plan
json 4 "$divvy" run gap.plan
json 0 "$divvy" targets
json 0 "$divvy" targets spyre
json 1 "$divvy" targets nowhere
printf 'nest x f32 {\n main copy\n m 2 prim: in0 1, out 1\n n 2 prim: in0 2, out 2\n}\n' >x.nest
json 0 "$divvy" nest x.nest
json 0 "$divvy" nest x.nest --nest seed --run
json 0 "$divvy" nest p.dv
printf 'input x: f32[4]\ny[i] = exp(x[i]) * 2\noutput y\n' >two.dv
json 1 "$divvy" nest two.dv
json 2 "$divvy" nest x.nest --op y
# The name of a file may contain anything.
name=$(printf 'a"b\\c\td.dv')
cp p.dv "$name"
json 0 "$divvy" check "$name"
name=$(printf 'bad\377.dv')
cp p.dv "$name" 2>/dev/null && json 0 "$divvy" check "$name"
rm -f "$name"

# The fields that other programs rely on.
"$divvy" run p.dv -t spyre --verify --json >.out
python3 - .out <<'PYTHON' || complain 'run --json: fields'
import json, sys
r = json.load(open(sys.argv[1]))
assert r["executor"] and r["seconds"] >= 0 and r["target"] == "spyre"
assert r["verify"]["ok"] is True and r["verify"]["max_residual"] <= r["verify"]["threshold"]
o = r["outputs"][0]
assert o["name"] == "y" and o["shape"] == [4] and o["dtype"] == "f32"
assert isinstance(o["sum"], float) and len(o["hash"]) == 16
PYTHON
"$divvy" plan p.dv -t spyre --json >.out
python3 - .out <<'PYTHON' || complain 'plan --json: fields'
import json, sys
p = json.load(open(sys.argv[1]))
assert p["file"] == "p.dv" and p["params"] == {"N": 4, "h": 0.5}
assert p["target"] == "spyre" and p["check"] == "ok"
assert [t["role"] for t in p["tensors"]] == ["input", "output"]
assert p["ops"][0]["kind"] == "pointwise" and p["ops"][0]["reducer"] is None
assert p["ops"][0]["flops"] == 4 and p["ops"][0]["bytes"] == 32
assert p["ops"][0]["vars"] == [{"name": "i", "begin": 0, "end": 4, "reduce": False}]
assert p["groups"] and all(x["ms"] >= 0 for x in p["passes"])
PYTHON
finish
