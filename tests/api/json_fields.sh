#!/bin/sh
# docs/cli.md explains every field of the JSON that the command writes: all keys
# in the sources stand in its section JSON, as words in backticks. Left out are
# cli/dist.c, whose fields are those of the Dist dialect's reference,
# report/trace.c, whose format is Chrome's, and emit/superdsc_json.c, whose
# fields docs/superdsc.md explains.
# json_fields.sh SOURCE
cd "$1" || exit 2
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
sed -n '/^## JSON/,/^## Exit codes/p' docs/cli.md | grep -o '`[^`]*`' |
    grep -o '[A-Za-z_][A-Za-z_0-9]*' | sort -u >"$tmp/documented"
find src -name '*.c' ! -path src/cli/dist.c ! -path src/report/trace.c ! -path src/emit/superdsc_json.c -exec cat {} + |
    tr '\n' ' ' | grep -oE \
    '(dv_json_[a-z]+(_flat)?|DV_JSON_[A-Z]+|addresses_json|numbers_json|rects_json|space_json|names_json) ?\([^",()]*, *(plan, *)?"[A-Za-z_0-9]+"|(DV_F|DV_F_[A-Z]+|dv_field_[a-z]+)\([^"{};]*"[A-Za-z_0-9]+"' |
    grep -o '"[A-Za-z_0-9]*"$' | tr -d '"' | sort -u >"$tmp/written"
# Enough keys were found for the comparison to mean something.
[ "$(wc -l <"$tmp/written")" -ge 150 ] || { echo "keys of JSON were not found"; exit 1; }
comm -13 "$tmp/documented" "$tmp/written" >"$tmp/missing"
[ ! -s "$tmp/missing" ] || { echo "docs/cli.md does not explain the fields:" $(cat "$tmp/missing"); exit 1; }
