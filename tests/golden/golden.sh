#!/bin/sh
# Run one golden case: golden.sh DIVVY CASE, CASE relative to tests/golden.
#
# The case's comment lines "# RUN: …" are shell commands; %s is the case, %t an
# empty folder that is removed afterwards. What they print (both streams) and
# their exit codes must equal the file CASE with the ending .expect. Times are
# blanked. DV_UPDATE_GOLDEN=1 rewrites the expectation instead.
divvy=$1
case=$2
cd "$(dirname "$0")" || exit 2
expect=${case%.*}.expect
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/bin" "$tmp/t" && ln -s "$divvy" "$tmp/bin/divvy"
PATH=$tmp/bin:$PATH
export LC_ALL=C # ls sorts the same everywhere
# The last bits of results differ between instruction sets. A case that prints
# them asks for the portable interpreter (--executor seq); the others run as a
# user's command does.
unset DIVVY_EXECUTOR DIVVY_CPU
sed -n 's/^# RUN: //p' "$case" >"$tmp/run"
[ -s "$tmp/run" ] || { echo "$case has no '# RUN:' line"; exit 2; }
while IFS= read -r line; do
    printf '$ %s\n' "$line"
    printf '%s\n' "$line" | sed "s|%s|$case|g; s|%t|$tmp/t|g" >"$tmp/cmd"
    sh "$tmp/cmd" 2>&1 </dev/null
    echo "exit $?"
done <"$tmp/run" | sed -e "s|$tmp/t|%t|g" \
    -e 's|ran in [0-9.e+-]* s|ran in TIME s|' \
    -e 's/"seconds": [0-9.e+-]*/"seconds": TIME/' \
    -e 's/"ms": [0-9.e+-]*/"ms": TIME/' >"$tmp/got"
if [ -n "$DV_UPDATE_GOLDEN" ]; then
    cp "$tmp/got" "$expect"
    exit
fi
diff -u "$expect" "$tmp/got"
