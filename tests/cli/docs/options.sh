#!/bin/sh
# Documents name every option and stay readable:
#
# - Every long option that `divvy COMMAND --help` prints, for every command, is in
#   docs/cli.md.
# - No row of a table is longer than 500 characters: what needs more is a list or
#   a table of its own.
# - bench/RESULTS.md, the latest figures, is a page: at most 110 lines of at most
#   500 characters.
# options.sh DIVVY SOURCE
. "${0%/*}/../common.inc"
"$divvy" --help | sed -n 's/^ *divvy \([a-z]*\) .*/\1/p' | sort -u >commands
commands=0
options=0
while read -r command; do
    commands=$((commands + 1))
    "$divvy" "$command" --help >.out 2>.err || complain "divvy $command --help"
    sed -n 's/^  *\(-[a-zA-Z], \)\{0,1\} *--\([a-z0-9-]*\).*/\2/p' .out >names
    while read -r name; do
        options=$((options + 1))
        grep -qE -e "(^|[^a-z-])--$name([^a-z0-9-]|\$)" "$source/docs/cli.md" ||
            complain "docs/cli.md does not have --$name of divvy $command"
    done <names
done <commands
[ $commands -ge 16 ] && [ $options -ge 200 ] || complain "only $options options of $commands commands"

(cd "$source" && for doc in README.md ARCHITECTURE.md docs/*.md; do
    awk '/^\|/ && length($0) > 500 {print FILENAME ":" FNR ": a row of a table has " length($0) " characters, not at most 500"}' "$doc"
done) >long
while IFS= read -r line; do complain "$line"; done <long

results=$source/bench/RESULTS.md
n=$(wc -l <"$results")
[ "$n" -le 110 ] || complain "bench/RESULTS.md has $n lines, not at most 110: older figures are in git"
awk 'length($0) > 500 {print FNR ": " length($0)}' "$results" >long
while IFS= read -r line; do complain "bench/RESULTS.md has a line of more than 500 characters: $line"; done <long
finish
