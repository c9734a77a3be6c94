#!/bin/sh
# Dependencies have one direction: a folder of src/ includes only itself and
# folders before it in this list. Of another folder it includes the public
# header, and what that header's opening comment lists behind "Other folders may
# also include:". All headers of base/ are public.
# layers.sh SOURCE
order="base kernel place choose fuse lang ir target plan check dist layout divide group scratch joint grid lint nest jit contract strip sim exec team darray einsum emit report onnx cli"
cd "$1/src" || exit 2
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
bad=0

# Prints the headers of a folder that others may include, as DIR/FILE.
public() { # folder
    case $1 in
    base) find base -name '*.h'; return ;;
    ir) header=ir/program.h ;;
    lang) header=lang/ast.h ;;
    *) header=$1/$1.h ;;
    esac
    echo "$header"
    awk '!/^\/\// {exit}
         sub(/.*Other folders may also include:/, "") {on = 1}
         on {gsub(/[\/, ]*(\/\/|,)[ ]*|^ +/, "\n"); print}' "$header" | sed -n "s|..*|$1/&|p"
}

for dir in *; do
    case " $order " in *" $dir "*) ;; *) echo "src/$dir is not in the list"; bad=1 ;; esac
    allowed=" ${order%%"$dir"*}$dir divvy "
    # Lines FILE:DIR/HEADER.
    grep -rno '^ *# *include "[a-z_0-9]*/[^"]*"' "$dir" | sed 's/:[0-9]*:.*"\(.*\)"/:\1/' >"$tmp/$dir.uses"
    for used in $(sed 's/.*:\(.*\)/\1/; s|/.*||' "$tmp/$dir.uses" | sort -u); do
        case "$allowed" in
        *" $used "*) ;;
        *) echo "src/$dir includes $used/, which comes after it:"
           grep ":$used/" "$tmp/$dir.uses"; bad=1 ;;
        esac
    done
    public "$dir" >>"$tmp/public"
done

for dir in *; do
    sed "\|:$dir/|d; \|:divvy/|d" "$tmp/$dir.uses"
done >"$tmp/uses"
[ "$(wc -l <"$tmp/uses")" -ge 500 ] || { echo "only $(wc -l <"$tmp/uses") includes of other folders"; bad=1; }
while IFS=: read -r file header; do
    grep -qx "$header" "$tmp/public" && continue
    echo "src/$file includes $header, which the public header of ${header%%/*}/ does not list for other folders"
    bad=1
done <"$tmp/uses"
# Nothing is listed that no other folder includes, or that does not exist.
grep -v '^base/' "$tmp/public" | while read -r header; do
    [ -e "$header" ] || { echo "there is no src/$header"; continue; }
    folder=${header%%/*}
    case $header in "$folder/$folder.h" | ir/program.h | lang/ast.h) continue ;; esac
    grep -q ":$header\$" "$tmp/uses" || echo "src/$header is listed for other folders, but none includes it"
done >"$tmp/stale"
[ ! -s "$tmp/stale" ] || { cat "$tmp/stale"; bad=1; }
exit $bad
