#!/bin/sh
# docs/plan.md is the reference of the text of plans:
#
# - A block of it that begins with "plan 1" is a plan: `divvy lint` finds no
#   defects, and `divvy plan` accepts it and prints the same text.
# - Every word in the sections of printed plans, of all examples and programs of
#   bench/ on several machines and with several options, is in a table of the
#   chapter about that section, unless it is a name of the program.
# - So is every word that the readers of sections compare with (in src/), which
#   covers those that none of these plans has.
# - Every section has a chapter.
# plan.sh DIVVY SOURCE
. "${0%/*}/../common.inc"
for name in examples tests bench; do ln -s "$source/$name" "$name"; done
doc=$source/docs/plan.md

# -- the plans of the page
awk '/^    plan 1$/ {n++; on = 1}
     on && /^    / {print substr($0, 5) >("page" n ".plan"); next}
     {on = 0}' "$doc"
[ -s page1.plan ] || complain "docs/plan.md has no whole plan"
for plan in page*.plan; do
    expect 0 '' "$divvy" lint "$plan"
    expect 0 '' "$divvy" plan "$plan"
    has '^# check: ok'
    sed '/^# check: ok/d' .out >.again
    cmp -s "$plan" .again || { complain "$plan is printed otherwise"; diff "$plan" .again; }
done

# -- the documented words, as lines SECTION WORD: what is in backquotes in the
# tables of a chapter; in that of the target, the list of properties as well.
awk '/^## `/ {split($0, part, "`"); section = part[2]; next}
     /^## / {section = ""}
     section && /^\|/ {
         n = split($0, code, "`")
         for (i = 2; i <= n; i += 2) {
             gsub(/[^A-Za-z0-9_]+/, " ", code[i])
             m = split(code[i], word, " ")
             for (k = 1; k <= m; k++) print section, word[k]
         }
     }
     section == "target" && /^    [a-z0-9_]+  +[a-z]+  / {print section, $1}' "$doc" | sort -u >documented

sed -n 's/^PASS([a-z]*, \([a-z]*\),.*/\1/p' "$source/src/plan/pass.def" >sections
[ "$(wc -l <sections)" -ge 9 ] || complain "no sections in src/plan/pass.def"
for section in target source $(cat sections); do
    grep -q "^## \`$section\`" "$doc" || complain "docs/plan.md has no chapter about section $section"
done

# -- the words of printed plans
all=$(cat sections | tr '\n' '|')target
# Prints SECTION WORD for every word of the plans on standard input. Names are
# those that occur in section `source` or `program` of the same plan.
words_of() {
    awk -v all="$all" '
    function flush(  w, s) {
        for (w in seen) {
            split(w, s, " ")
            if (!(s[2] in name)) print w
        }
        delete seen
        delete name
    }
    /^plan 1$/ {flush(); section = ""; next}
    {
        sub(/#.*/, "")
        gsub(/"[^"]*"/, "")
        program = 0
        # A section begins at the left, or inside of a class of ranks.
        if (match($0, "^(        )?(source|" all ") ") && /\{ *$/) {
            section = $1
            sub(/^ *target [^ ]*/, "target")
        } else if (section == "source" || section == "program") program = 1
        n = split($0, token, /[^A-Za-z0-9_]+/)
        for (i = 1; i <= n; i++)
            if (token[i] ~ /^[A-Za-z_]/) {
                if (program) name[token[i]] = 1
                else if (section != "source") seen[section " " token[i]] = 1
            }
    }
    # A line that ends a section at the left, or a class.
    /^}/ {section = ""}
    /^    }/ {if (section != "ranks" && in_class) section = "ranks"}
    /^    class / {section = "ranks"; in_class = 1}
    /^}/ {in_class = 0}
    END {flush()}'
}
plans() { # options…: plans of all programs
    for program in examples/*.dv bench/programs/*.dv; do
        "$divvy" plan "$program" "$@" 2>/dev/null || echo "$program $*" >>failed
    done
}
some() { # program options…
    "$divvy" plan "$@" 2>/dev/null || echo "$*" >>failed
}
{
    plans -t spyre
    plans -t tests/choices/avx2.dv
    for machine in avx512-amx neon-bf16; do
        for program in matmul mlp attention layernorm softmax; do
            some examples/$program.dv -t tests/choices/$machine.dv
        done
        some bench/programs/mlp_bf16.dv -t tests/choices/$machine.dv
        some bench/programs/quantised.dv -t tests/choices/$machine.dv
    done
    some tests/golden/grid/shards.dv -t tests/golden/grid/shards.dv.target
    for policy in rect streamk 'splitk(4)' auto 'ticket(2)' steal; do
        some examples/matmul.dv -t wormhole --policy "$policy"
    done
    some examples/matmul.dv -t tests/choices/avx2.dv --policy 'ticket(2)'
    for options in '--divide seed' '--divide seed+cost' '--joint off' '--joint seed' '--tenants many' \
        '--solver exact' '--scratch off' '--cores 1'; do
        # shellcheck disable=SC2086
        some examples/softmax.dv -t spyre $options
    done
    for program in heat matmul mlp wave; do
        some examples/$program.dv -t tests/choices/avx2.dv --team 4
    done
} >plans
[ ! -s failed ] || complain "no plan: $(tr '\n' ';' <failed)"
words_of <plans | sort -u >printed
sections_seen=$(cut -d' ' -f1 printed | sort -u | tr '\n' ' ')
for section in $(cat sections); do
    case " $sections_seen " in *" $section "*) ;; *) complain "no plan has section $section" ;; esac
done
[ "$(wc -l <printed)" -ge 100 ] || complain "only $(wc -l <printed) words in all plans"

# -- the words that readers of sections expect
for file in plan/schedule plan/loops scratch/pass group/pass layout/pass dist/pass dist/ranks grid/pass plan/lower; do
    case $file in
    plan/schedule | plan/loops) section=schedule ;;
    plan/lower) section=program ;;
    group/pass) section=groups ;;
    dist/ranks) section=ranks ;;
    *) section=${file%/*} ;;
    esac
    # Words stand in calls of the lexer, and in tables of strings.
    {
        grep -o 'dv_lex_\(is\|word\)([^"]*"[a-z_]*"' "$source/src/$file.c"
        sed -n '/static const char \*const/,/;/p' "$source/src/$file.c" | grep -o '"[a-z0-9_]*"'
    } | sed "s/.*\"\(.*\)\"/$section \1/"
done | sort -u >read
[ "$(wc -l <read)" -ge 40 ] || complain "only $(wc -l <read) words in the readers of sections"

# Every word of the printed plans and of the readers is documented.
sort -u printed read | comm -23 - documented >missing
while read -r section word; do
    complain "docs/plan.md: the tables of section $section lack the word $word"
done <missing
echo "$(wc -l <printed) words in $(grep -c '^plan 1$' plans) plans, $(wc -l <read) in readers, $(wc -l <documented) documented"
finish
