#!/bin/sh
# divvy choose and divvy fuse on the inputs of two contests, beside the others.
#   CONTEST=FOLDER contests.sh BUILD_DIR [SECONDS...]
# FOLDER has iopddl/*.json.gz (ASPLOS 2025), mlsys/*.json (MLSys 2026),
# peers.csv with rows contest,instance,solver,limit_s,seconds,cost, and the
# evaluators iopddl_eval.py and mlsys_eval.py, which share no code with divvy and
# judge every answer. SECONDS are the time limits of choose (default 1 2 10); the
# seconds in the table are those of the solver without reading, by the clock.
set -e
[ $# -ge 1 ] || {
    echo "usage: CONTEST=FOLDER sh bench/contests.sh BUILD_DIR [SECONDS...]" >&2
    exit 2
}
build=$1
shift
[ $# -gt 0 ] || set -- 1 2 10
if [ ! -r "${CONTEST:-}/peers.csv" ] || ! command -v python3 >/dev/null; then
    echo "contests.sh: skipped: \$CONTEST names no folder with peers.csv, or there is no python3"
    exit 0
fi
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT

# field KEY FILE: a number of divvy's JSON.
field() {
    sed -n 's/^ *"'"$1"'": \([-0-9.e+]*\).*/\1/p' "$2" | head -n 1
}
# peer CONTEST INSTANCE SOLVER [LIMIT]: the cost of a row; - if there is none.
# SOLVER may be the beginning of the name, which may have quotes.
peer() {
    awk -F, -v c="$1" -v i="$2" -v s="$3" -v l="$4" '
        { name = $3; gsub(/"/, "", name) }
        $1 == c && $2 == i && index(name, s) == 1 && (l == "" || $(NF - 2) == l) { x = $NF }
        END { print x == "" ? "-" : x }' "$CONTEST/peers.csv"
}
# judge EVALUATOR PROBLEM SOLUTION: the cost, or why the solution is refused.
judge() {
    python3 "$CONTEST/$1" "$2" "$3" | awk '$1 == "cost" { print $2; ok = 1 } !ok { print "(" $0 ")" }'
}

printf '%-10s %14s %14s %7s %9s %14s %14s %14s\n' fuse cost 'proven bound' gap solve_ms 'first place' trial 'simple bound'
for file in "$CONTEST"/mlsys/*.json; do
    [ -e "$file" ] || continue
    name=$(basename "$file" .json)
    number=${name##*-}
    if "$build/divvy" fuse "$file" -o "$tmp/s.json" --json >"$tmp/json"; then
        printf '%-10s %14s %14s %7.4f %9.2f %14s %14s %14s\n' "$number" "$(judge mlsys_eval.py "$file" "$tmp/s.json")" \
            "$(printf '%.1f' "$(field bound "$tmp/json")")" "$(field gap "$tmp/json")" "$(field time_ms "$tmp/json")" \
            "$(peer mlsys-native "$number" Deng)" "$(peer mlsys-native "$number" 'quick trial' 0.1)" "$(peer mlsys-native "$number" bound)"
    else
        printf '%-10s no schedule\n' "$number"
    fi
done | sort -n

printf '\n%-8s %6s %14s %14s %7s %9s %14s %9s %9s\n' choose limit cost 'proven bound' gap solve_s 'best known' 'over best' trial
for file in "$CONTEST"/iopddl/*.json.gz; do
    [ -e "$file" ] || continue
    name=$(basename "$file" .json.gz)
    best=$(peer iopddl "$name" 'best known')
    for limit; do
        if "$build/divvy" choose "$file" --time-limit "$limit" -o "$tmp/s" --json >"$tmp/json"; then
            cost=$(judge iopddl_eval.py "$file" "$tmp/s")
            awk -v name="$name" -v limit="$limit" -v cost="$cost" -v bound="$(field bound "$tmp/json")" -v gap="$(field gap "$tmp/json")" \
                -v ms="$(field time_ms "$tmp/json")" -v best="$best" -v trial="$(peer iopddl "$name" 'quick trial' "$limit")" 'BEGIN {
                printf "%-8s %6s %14s %14s %7.4f %9.2f %14s %9.6f %9s\n", name, limit, cost, bound, gap, ms / 1000, best,
                    best + 0 ? cost / best : 0, trial + 0 && best + 0 ? sprintf("%.6f", trial / best) : trial }'
        else
            printf '%-8s %6s no choice\n' "$name" "$limit"
        fi
    done
done
