#!/bin/sh
# The program at the top of divvy.h is the one that is built and run.
# tour.sh SOURCE
awk '/^\/\/   #include <divvy/ {on = 1} /^\/\/ Calls that can fail/ {on = 0} on' \
    "$1/include/divvy/divvy.h" | sed -e 's|^//   ||' -e 's|^//$||' |
    sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' | diff - "$1/tests/unit/tour.c"
