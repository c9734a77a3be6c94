#!/bin/sh
# What `make install` installs can be used: the tour is compiled against it with
# pkg-config, shared and static, and with CMake's package; and there is a man
# page.
# install.sh SOURCE LIBRARY COMPILER
command -v pkg-config >/dev/null || exit 77
build=$(dirname "$2")
cc=$3
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
cmake --install "$build" --prefix "$tmp/inst" >/dev/null || exit 1
# Programs that use a sanitized library need the sanitizer's runtime, too.
flags=$(sed -n 's/^DV_SANITIZE:STRING=\(..*\)/-fsanitize=\1/p' "$build/CMakeCache.txt")
pc=$(find "$tmp/inst" -name divvy.pc) && lib=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH="${pc%/*}" LD_LIBRARY_PATH="$lib" ASAN_OPTIONS=detect_leaks=0
bad=0
tour() {
    [ "$("$2")" = "y[0][7] = 1" ] || { echo "$1: the tour does not run"; bad=1; }
}
# shellcheck disable=SC2046,SC2086
$cc $flags "$1/tests/api/tour.c" -o "$tmp/shared" $(pkg-config --cflags --libs divvy) &&
    tour shared "$tmp/shared" || bad=1
# shellcheck disable=SC2046,SC2086
$cc $flags "$1/tests/api/tour.c" -o "$tmp/static" $(pkg-config --cflags divvy) \
    "$lib/libdivvy.a" $(sed -n 's/Libs.private: //p' "$pc") && tour static "$tmp/static" || bad=1
cat >"$tmp/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C)
find_package(divvy REQUIRED)
foreach(kind divvy divvy_static)
    add_executable(with_\${kind} $1/tests/api/tour.c)
    target_link_libraries(with_\${kind} PRIVATE divvy::\${kind} $flags)
endforeach()
END
if cmake -S "$tmp" -B "$tmp/b" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_PREFIX_PATH="$tmp/inst" >"$tmp/log" 2>&1 &&
    cmake --build "$tmp/b" >>"$tmp/log" 2>&1; then
    tour cmake "$tmp/b/with_divvy"
    tour cmake_static "$tmp/b/with_divvy_static"
else
    cat "$tmp/log"
    bad=1
fi
[ -f "$tmp/inst/share/man/man1/divvy.1" ] || { echo "no man page"; bad=1; }
"$tmp/inst/bin/divvy" --version >/dev/null || bad=1
exit $bad
