#!/bin/sh
# Every command that a document shows is run, and prints what the document says.
#
# - In an indented block, a line "$ divvy …" is run; the lines below it, up to a
#   blank one, are its whole output. A line of … stands for any number of lines,
#   times are blanked, and a "$ cat FILE" shows the file.
# - An indented line "mpirun … divvy …" is run where there is an mpirun, and ends
#   with success; so does an indented "divvy …".
# - `divvy … FILE …` within a sentence is run with examples for FILE, PLAN, DIR and
#   other placeholders, and ends with success.
# docs.sh DIVVY SOURCE
divvy=$1
src=$2
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
for name in examples docs tests targets include bench; do ln -s "$src/$name" "$name"; done
blank='s/(ran|read) in [0-9.e+-]* s/\1 in TIME s/g'
bad=0
shown=0
plain=0
spans=0

# Makes the arrays that the commands of the documents read.
make_array() { # name, shape
    printf 'input x: f32[%s]\ny[%s] = x[%s]\noutput y\n' "$2" "$3" "$3" |
        "$divvy" run - --out "y=$1.npy" >/dev/null || exit 2
}
make_array q '2, 3, 16, 8' i,j,k,l
make_array k '2, 3, 16, 8' i,j,k,l
make_array x '1024, 1024' i,j
make_array g 1024 i
make_array b 1024 i

# Does file $2 consist of the lines of file $1, where … stands for any lines?
matches() {
    awk 'NR == FNR {want[++n] = $0; next} {got[++m] = $0}
         END {
             at = 1
             for (i = 1; i <= n; i++) {
                 if (want[i] == "…") {any = 1; continue}
                 from = at
                 while (any && at <= m && got[at] != want[i]) at++
                 if (at > m || got[at] != want[i]) {
                     print "not found: " want[i]
                     if (from <= m) print "      but: " got[from]
                     exit 1
                 }
                 at++
                 any = 0
             }
             if (!any && at <= m) {print "not shown: " got[at]; exit 1}
         }' "$1" "$2"
}

try() {
    [ -n "$command" ] || return 0
    shown=$((shown + 1))
    case $command in
    cat*)
        sh -c "$command" >"$tmp/got" 2>&1
        # The blank line behind the block does not belong to the file.
        sed -i '${/^$/d}' "$tmp/want" ;;
    *) sh -c "$divvy ${command#divvy }" 2>&1 | sed -E "$blank" >"$tmp/got" ;;
    esac
    # A command without output below it only has to succeed.
    if [ ! -s "$tmp/want" ]; then
        sh -c "$divvy ${command#divvy }" >"$tmp/got" 2>&1 || { cat "$tmp/got"; echo "in $doc: \$ $command"; bad=1; }
    elif ! matches "$tmp/want" "$tmp/got"; then
        echo "in $doc: \$ $command"
        bad=1
    fi
    command=
}

run_plain() { # a line without output
    line=${1%%#*}
    case $line in
    mpirun*)
        command -v mpirun >/dev/null || return 0
        PMI_SIZE=2 timeout 9 "$divvy" run examples/heat.dv --set N=8 --set T=1 2>&1 | grep -q 'without MPI' && return 0
        more=--oversubscribe
        mpirun --version 2>&1 | grep -qi 'open' || more=
        [ "$(id -u)" -ne 0 ] || [ -z "$more" ] || more="$more --allow-run-as-root"
        line="mpirun $more ${line#mpirun}"
        line="${line%%divvy*}$divvy${line#*divvy}" ;;
    divvy*) line="$divvy${line#divvy}" ;;
    *) return 0 ;;
    esac
    plain=$((plain + 1))
    if ! timeout 400 sh -c "$line" >"$tmp/got" 2>&1 </dev/null; then
        cat "$tmp/got"
        echo "in $doc: $1"
        bad=1
    fi
}

# Prints a command with examples for its placeholders.
fill_in() {
    printf '%s\n' "$1" | sed -e 's#^divvy place FILE\.csv#divvy place tests/data/placement/input.12.csv#' \
        -e 's#^divvy choose FILE\.json#divvy choose tests/data/choose/example.json#' \
        -e 's#^divvy fuse FILE\.json#divvy fuse tests/data/fuse/mlp.json#' \
        -e 's#^divvy lint FILE#divvy lint grid.json#' \
        -e 's#MODEL\.onnx#tests/onnx/contrib/node/test_fast_gelu/model.onnx#' \
        -e 's#DIR/NAME#out/matmul#; s#DIR#out/folder#; s#\[NAME\]#spyre#; s#MxN#5x13#; s#GRAIN#fused#' \
        -e 's#SAVED\.plan#saved.plan#; s#PLAN#my.plan#; s#report A B#report my.plan my.plan#' \
        -e '/superdsc/s#FILE#examples/softmax.dv#; s#TARGET#wormhole#' \
        -e 's#FILE\.dv#FILE#; s#FILE\( \|$\)#examples/matmul.dv\1#'
}

# Runs the commands within sentences that are whole: a command that needs a file
# and names none is only spoken of.
try_spans() {
    grep -o '`divvy [^`]*`' "$src/$doc" | tr -d '`' | sort -u >"$tmp/all"
    while IFS= read -r span; do fill_in "$span"; done <"$tmp/all" |
        grep '/\|[0-9]x[0-9]\|targets\|\.plan\|\.json' | grep -v '[A-Z][A-Z]\|…' >"$tmp/spans"
    while IFS= read -r span; do
        spans=$((spans + 1))
        timeout 400 sh -c "$divvy ${span#divvy }" >"$tmp/got" 2>&1 </dev/null && continue
        cat "$tmp/got"
        echo "in $doc: \`$span\`"
        bad=1
    done <"$tmp/spans"
}

# The examples of the man page, whose hyphens are written "\-".
mkdir "$tmp/bin" && ln -s "$divvy" "$tmp/bin/divvy"
make_array a '64, 1024' i,j
sed -n '/^\.SH EXAMPLES/,/^\.fi/s/\\-/-/g; /^\.SH EXAMPLES/,/^\.fi/p' "$src/docs/divvy.1" | grep '^divvy ' >"$tmp/man"
[ -s "$tmp/man" ] || { echo "docs/divvy.1 has no examples"; bad=1; }
while IFS= read -r line; do
    PATH=$tmp/bin:$PATH timeout 400 sh -c "$line" >"$tmp/got" 2>&1 </dev/null && continue
    cat "$tmp/got"
    echo "in docs/divvy.1: $line"
    bad=1
done <"$tmp/man"

# What the placeholders of sentences stand for.
make_array a '3, 8' i,j
mkdir out
"$divvy" plan examples/matmul.dv -o my.plan || bad=1
"$divvy" plan examples/heat.dv --set N=64 --set T=2 --team 2 -o saved.plan || bad=1
"$divvy" grid --tiles 8x8 --target wormhole --json >grid.json || bad=1

for doc in README.md ARCHITECTURE.md docs/*.md; do
    command=
    : >"$tmp/want"
    while IFS= read -r line; do
        case $line in
        '    $ divvy '* | '    $ cat '*)
            try
            command=${line#'    $ '}
            : >"$tmp/want" ;;
        '    mpirun '* | '    divvy '*) run_plain "${line#    }" ;;
        '    '*)
            [ -z "$command" ] || printf '%s\n' "${line#    }" | sed -E "$blank" >>"$tmp/want" ;;
        # A file that is shown may have blank lines.
        '') case $command in cat*) printf '\n' >>"$tmp/want" ;; *) try ;; esac ;;
        *) try ;;
        esac
    done <"$src/$doc"
    try
    try_spans
done
echo "$shown commands with output, $plain without, $spans within sentences"
# At least as many as the documents have today, so that none is lost unnoticed.
[ "$shown" -ge 38 ] && [ "$spans" -ge 43 ] && [ "$bad" = 0 ]
