#!/bin/sh
# divvy.h compiles alone, as C11 and as C++.
# header.sh SOURCE LIBRARY COMPILER
set -e
cc=$3
echo '#include <divvy/divvy.h>' |
    "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$1/include" \
        -fsyntax-only -x c -
if echo 'int main() { return 0; }' |
    "$cc" -fsyntax-only -x c++ - 2>/dev/null; then
    echo '#include <divvy/divvy.h>' |
        "$cc" -std=c++11 -Wall -Wextra -Wpedantic -Werror -I"$1/include" \
            -fsyntax-only -x c++ -
else
    echo "no C++ compiler"
    exit 77
fi
