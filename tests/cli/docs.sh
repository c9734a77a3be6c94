#!/bin/sh
# What the documents show is what the command prints. In an indented block, a
# line "$ divvy …" is run in the source folder; the lines below it, up to a blank
# one, must stand in the output in that order. A line of … stands for any
# number of lines; times are blanked. docs.sh DIVVY SOURCE
divvy=$1
cd "$2" || exit 2
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
blank='s/ran in [0-9.e+-]* s/ran in TIME s/'
bad=0
runs=0

# Every line of the file $1 appears in the file $2, in order.
in_order() {
    awk 'NR == FNR {want[++n] = $0; next} $0 == want[i + 1] {i++}
         END {if (i < n) {print "not found: " want[i + 1]; exit 1}}' "$1" "$2"
}

try() {
    [ -n "$command" ] || return 0
    case $command in *.npy*) command=; return 0 ;; esac
    runs=$((runs + 1))
    sh -c "$divvy ${command#divvy }" 2>&1 | sed "$blank" >"$tmp/got"
    if ! in_order "$tmp/want" "$tmp/got"; then
        echo "in $doc: \$ $command"
        bad=1
    fi
    command=
}

for doc in README.md ARCHITECTURE.md docs/arrays.md; do
    command=
    while IFS= read -r line; do
        case $line in
        '    $ divvy '*)
            try
            command=${line#'    $ '}
            : >"$tmp/want" ;;
        '    …'*) ;;
        '    '*)
            [ -z "$command" ] || printf '%s\n' "${line#    }" | sed "$blank" >>"$tmp/want" ;;
        *) try ;;
        esac
    done <"$doc"
    try
done
echo "$runs commands"
[ "$runs" -ge 5 ] && [ "$bad" = 0 ]
