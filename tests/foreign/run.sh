#!/bin/sh
# Runs a program of another machine.
# run.sh COMPILER EMULATOR TRIPLE CPU PROGRAM
# Without the tools it says so and skips (77); with them it must succeed.
case $1$2 in
*NOTFOUND* | '')
    echo "skipped: needs gcc-$(echo "$3" | tr _ -) and qemu-user (scripts/deps.sh check gets them)"
    exit 77
    ;;
esac
exec "$2" -L "/usr/$3" -cpu "$4" "$5"
