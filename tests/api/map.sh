#!/bin/sh
# Every file and folder that ARCHITECTURE.md names exists, and every folder of
# src/ has a row in its table.
# map.sh SOURCE
cd "$1" || exit 2
bad=0
for name in $(grep -o '`[a-z0-9_]*/[a-z0-9_/]*\.\(c\|h\|def\|dv\|sh\)`' ARCHITECTURE.md docs/invariants.md | sed 's/.*:`//; s/`//g' | sort -u); do
    [ -e "src/$name" ] || [ -e "$name" ] || { echo "there is no $name"; bad=1; }
done
for dir in src/*/; do
    name=$(basename "$dir")
    grep -q "^| \`$name/\` |" ARCHITECTURE.md || { echo "ARCHITECTURE.md has no row for $name/"; bad=1; }
done
# A row describes a folder in at most twelve words.
awk -F'|' '/^\| `[a-z]*\/` \|/ {n = split($3, w, " "); if (n > 12) {print "too long: " $2; bad = 1}} END {exit bad}' ARCHITECTURE.md || bad=1
exit $bad
