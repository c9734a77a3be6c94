#!/bin/sh
# Every example of the cookbook in docs/language.md runs, and its results are
# those of the oracle. cookbook.sh DIVVY SOURCE
divvy=$1
source=$2
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
awk -v dir="$tmp" '
    /^## / { on = ($2 == "Cookbook") }
    on && /^```/ { inside = !inside; if (inside) n++; next }
    on && inside { print > (dir "/" sprintf("%02d", n) ".dv") }
' "$source/docs/language.md"
count=0
bad=0
for program in "$tmp"/*.dv; do
    [ -e "$program" ] || break
    count=$((count + 1))
    out=$("$divvy" run "$program" --verify 2>&1) || bad=1
    case $out in
    *"verify: ok"*) ;;
    *) bad=1 ;;
    esac
    case $out in
    *warning* | *"verify: undecided"*) bad=1 ;;
    esac
    [ $bad = 0 ] || { echo "example $count:"; cat "$program"; echo "$out"; exit 1; }
done
[ $count -ge 7 ] || { echo "there are only $count examples"; exit 1; }
