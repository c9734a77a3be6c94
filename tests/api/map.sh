#!/bin/sh
# Every file and folder that ARCHITECTURE.md names exists, every folder of src/
# has a row in its table, and the folder's public header lists all its files.
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
for dir in src/*/; do
    name=$(basename "$dir")
    case $name in
    base) header=ARCHITECTURE.md ;;
    ir) header=src/ir/program.h ;;
    lang) header=src/lang/ast.h ;;
    *) header=src/$name/$name.h ;;
    esac
    # The opening comment, or the paragraph of ARCHITECTURE.md about base/.
    case $header in
    *.h) awk '/^\/\// {print; next} {exit}' "$header" ;;
    *) sed -n '/has no such header/,/^$/p' "$header" ;;
    esac >"${TMPDIR:-/tmp}/map.$$"
    for file in "$dir"*.[ch] "$dir"*.def "$dir"*/*.[ch] "$dir"*/*.def; do
        [ -e "$file" ] && [ "$file" != "$header" ] || continue
        stem=$(basename "$file" | sed 's/\..*//')
        grep -q "\b$stem\b" "${TMPDIR:-/tmp}/map.$$" || { echo "$header does not list $file"; bad=1; }
    done
    rm -f "${TMPDIR:-/tmp}/map.$$"
done
# A row describes a folder in at most twelve words.
awk -F'|' '/^\| `[a-z]*\/` \|/ {n = split($3, w, " "); if (n > 12) {print "too long: " $2; bad = 1}} END {exit bad}' ARCHITECTURE.md || bad=1
exit $bad
