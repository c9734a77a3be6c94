#!/bin/sh
# Each public header compiles alone, as C11 and as C++.
# header.sh SOURCE LIBRARY COMPILER
set -e
cc=$3
for h in build choose divide divvy dist einsum grid nest place fuse onnx plan_options report run session; do
    echo "#include <divvy/$h.h>" |
        "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$1/include" \
            -fsyntax-only -x c -
done
if echo 'int main() { return 0; }' |
    "$cc" -fsyntax-only -x c++ - 2>/dev/null; then
    for h in build choose divide divvy dist einsum grid nest place fuse onnx plan_options report run session; do
        echo "#include <divvy/$h.h>" |
            "$cc" -std=c++11 -Wall -Wextra -Wpedantic -Werror -I"$1/include" \
                -fsyntax-only -x c++ -
    done
else
    echo "no C++ compiler"
    exit 77
fi
