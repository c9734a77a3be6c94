#!/bin/sh
# Dependencies have one direction: a folder of src/ includes only itself and
# folders before it in this list.
# layers.sh SOURCE
order="base kernel place choose fuse lang ir target plan check dist layout divide group scratch joint grid lint nest jit contract strip sim exec team darray einsum emit report onnx cli"
cd "$1/src" || exit 2
bad=0
for dir in *; do
    case " $order " in *" $dir "*) ;; *) echo "src/$dir is not in the list"; bad=1 ;; esac
    allowed=" ${order%%"$dir"*}$dir divvy "
    for used in $(find "$dir" -type f -exec sed -n 's|^#include "\([a-z_0-9]*\)/.*|\1|p' {} + | sort -u); do
        case "$allowed" in
        *" $used "*) ;;
        *) echo "src/$dir includes $used/, which comes after it:"
           grep -rn "#include \"$used/" "$dir"; bad=1 ;;
        esac
    done
done
exit $bad
