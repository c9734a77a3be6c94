#!/bin/sh
# The numbers of rules agree: messages of the checker have them, goldens named
# after a rule show it, and the documents list them all.
# rules.sh SOURCE
cd "$1" || exit 2
bad=0
fail() { echo "$1"; bad=1; }
# Only DV_BREAKS and home_fail build messages of the checker, and both put
# the rule's number first; a plan with a missing section breaks no rule.
n=$(cat src/check/*.[ch] | grep -c 'dv_fail(.*DV_E_CHECK')
[ "$n" -eq 6 ] || fail "src/check/ has $n uses of DV_E_CHECK, not the 6 known ones"
last=$(sed -n 's/^- C\([0-9]*\) .*/\1/p' docs/invariants.md | sort -n | tail -1)
for i in $(seq 1 "$last"); do
    grep -q "[(, ]C$i, " src/check/*.c || grep -q "[(, ]C$i,\$" src/check/*.c || fail "no message of src/check/ has C$i"
    grep -q "^- C$i " docs/invariants.md || fail "docs/invariants.md does not list C$i"
done
for i in $(grep -oh '[(, ]C[0-9][0-9]*,' src/check/*.c | grep -o '[0-9]*' | sort -un); do
    [ "$i" -le "$last" ] || fail "docs/invariants.md does not list C$i"
done
for golden in tests/golden/*/[cC][0-9]*_*.expect; do
    rule=$(basename "$golden" | sed 's/_.*//' | tr c C)
    # Some broken programs are refused before the checker sees them.
    grep -q 'error\[check\]' "$golden" || continue
    grep -q "$rule: " "$golden" || fail "$golden does not show $rule"
done
grep -q "[^0-9]$last numbered rules" README.md || fail "README.md does not say that there are $last numbered rules"
# Every rule that docs/invariants.md lists is cited by a test, by its own number.
for rule in $(sed -n 's/^- \([A-Z][0-9]*\) .*/\1/p' docs/invariants.md); do
    grep -rqw --exclude='*.expect' "$rule" tests || ls tests/golden/*/"$rule"_* tests/golden/*/"$(echo "$rule" | tr C c)"_* >/dev/null 2>&1 ||
        fail "no test cites $rule"
done
# docs/cli.md lists the rules of nests, with the numbers of divvy/nest_rule.def.
sed -n 's/^NEST_RULE([A-Z0-9_]*, *\([a-z0-9_]*\), *\([0-9]*\),.*/| \2 | `\1` |/p' include/divvy/nest_rule.def >"${TMPDIR:-/tmp}/rules.$$"
[ -s "${TMPDIR:-/tmp}/rules.$$" ] || fail "include/divvy/nest_rule.def has no rules"
while IFS= read -r row; do
    grep -qF "$row" docs/cli.md || fail "docs/cli.md has no row $row"
done <"${TMPDIR:-/tmp}/rules.$$"
rm -f "${TMPDIR:-/tmp}/rules.$$"
exit $bad
