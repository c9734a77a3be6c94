#!/bin/sh
# The scripts of the page are free of what eslint recommends against, if it is
# there (npm install -g eslint), and have its few rules of form.
# lint.sh SOURCE
if ! command -v eslint >/dev/null; then
    echo "skipped: there is no eslint (npm install -g eslint)"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The scripts share one scope, in the order of CMakeLists.txt.
order=$(sed -n 's/^set(page_scripts //; t more; b; :more; /)/!{N; b more}; s/)//; p; q' "$1/CMakeLists.txt")
for name in $order; do
    cat "$1/src/report/page/$name" || exit 1
done >"$folder/page.js"
cp "$1/tests/report/eslint.config.mjs" "$folder" || exit 1
cd "$folder" && exec eslint --no-warn-ignored page.js
