#!/bin/sh
# The example programs at the top of the public headers are those that are built
# and run.
# tour.sh SOURCE
bad=0
same() { # header, the line behind its program, program
    awk -v behind="$2" '/^\/\/   #include <divvy/ {on = 1}
        index($0, "// " behind) == 1 {on = 0} on' "$1" |
        sed -e 's|^//   ||' -e 's|^//$||' |
        sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' | diff - "$3" || bad=1
}
same "$1/include/divvy/divvy.h" 'Calls that can fail' "$1/tests/api/tour.c"
same "$1/include/divvy/build.h" 'Errors are sticky' "$1/tests/api/build.c"
same "$1/include/divvy/dist.h" 'A call marked' "$1/examples/array.c"
exit $bad
