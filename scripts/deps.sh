#!/bin/sh
# Install what is missing, through apt: deps.sh build|test|python|check
# Says what it installs. Without apt it lists what is needed and stops.
set -e
packages="cmake ninja-build gcc libc6-dev pkg-config libhwloc-dev zlib1g-dev"
[ "$1" = build ] || packages="$packages g++ libcmocka-dev binutils llvm libopenmpi-dev openmpi-bin locales libonnx-testdata"
# make check also has another compiler, another MPI and the other instruction
# set.
other="gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
[ "$(uname -m)" = aarch64 ] && other="gcc-x86-64-linux-gnu libc6-dev-amd64-cross"
[ "$1" = check ] && packages="$packages clang clang-format libmpich-dev mpich $other qemu-user chromium python3 python3-mpi4py"

case $1 in python | check) packages="$packages python3-dev python3-numpy python3-pytest" ;; esac

# The Python that Debian's packages are for.
debian_python() {
    [ -x /usr/bin/python3 ] && /usr/bin/python3 -c "$1" 2>/dev/null
}
# Is the thing there, whatever package it came from?
have() {
    case $1 in
    cmake) command -v cmake >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    gcc) command -v gcc >/dev/null ;;
    g++) command -v g++ >/dev/null ;;
    clang) command -v clang >/dev/null ;;
    clang-format) command -v clang-format >/dev/null ;;
    binutils) command -v nm >/dev/null ;;
    llvm) command -v llvm-mc >/dev/null ;;
    gcc-aarch64-linux-gnu) command -v aarch64-linux-gnu-gcc >/dev/null ;;
    gcc-x86-64-linux-gnu) command -v x86_64-linux-gnu-gcc >/dev/null ;;
    libc6-dev-arm64-cross) [ -e /usr/aarch64-linux-gnu/include/stdio.h ] ;;
    libc6-dev-amd64-cross) [ -e /usr/x86_64-linux-gnu/include/stdio.h ] ;;
    qemu-user) command -v qemu-x86_64 >/dev/null ;;
    libopenmpi-dev) command -v mpicc.openmpi >/dev/null ;;
    openmpi-bin) command -v mpirun.openmpi >/dev/null ;;
    libmpich-dev) command -v mpicc.mpich >/dev/null ;;
    chromium) command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ;;
    python3) command -v python3 >/dev/null ;;
    python3-dev) debian_python 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' ;;
    python3-numpy) debian_python 'import numpy' ;;
    python3-pytest) debian_python 'import pytest' ;;
    python3-mpi4py) debian_python 'import mpi4py' ;;
    mpich) command -v mpirun.mpich >/dev/null ;;
    pkg-config) command -v pkg-config >/dev/null ;;
    libc6-dev) echo '#include <stdio.h>' | gcc -fsyntax-only -x c - 2>/dev/null ;;
    libhwloc-dev) pkg-config --exists hwloc 2>/dev/null ;;
    zlib1g-dev) pkg-config --exists zlib 2>/dev/null ;;
    locales) [ -e /usr/share/i18n/locales/de_DE ] ;; # the sources of locales
    libonnx-testdata) [ -e /usr/share/libonnx-testdata/data ] ;;
    libcmocka-dev) pkg-config --exists cmocka 2>/dev/null ;;
    esac
}

missing=
for p in $packages; do
    have "$p" || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "divvy needs these (Debian's names), and there is no apt to get them:" >&2
    echo " $missing" >&2
    exit 1
fi
sudo=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
        echo "divvy needs:$missing; install them as root and try again" >&2
        exit 1
    }
    sudo=sudo
fi
echo "installing through apt:$missing"
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
