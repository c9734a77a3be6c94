#!/bin/sh
# The shared library exports what the public headers declare, and nothing else.
# symbols.sh SOURCE LIBRARY
command -v nm >/dev/null || exit 77
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
cat "$1"/include/divvy/*.h | sed 's|//.*||' | tr '\n' ' ' | tr ';' '\n' |
    sed -n 's/.*DV_API [^(]*[ *]\(dv_[a-z0-9_]*\)(.*/\1/p' | sort >"$tmp/declared"
nm -D --defined-only "$2" | awk '$2 ~ /[TDBR]/ {print $3}' |
    grep -v -e '^__' -e '^_init$' -e '^_fini$' -e '^_edata$' -e '^_end$' |
    sort >"$tmp/exported"
[ -s "$tmp/declared" ] || { echo "no declaration was found"; exit 1; }
diff "$tmp/declared" "$tmp/exported" && wc -l <"$tmp/declared"
