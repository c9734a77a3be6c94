#!/bin/sh
# Checks the syntax of emitted TT-Metalium kernels and host programs with the
# headers of tt-metal, which are not part of this project:
#
#   scripts/tt_headers.sh DIVVY FOLDER [INCLUDE…]
#
# DIVVY is the command and FOLDER a checkout of tt-metal. The programs are those
# that tests/cli/emit/metalium*.sh run on the simulated machine. All readers, all
# writers and all compute kernels are compiled by g++ -fsyntax-only, for Wormhole
# and for Blackhole. Compute kernels are checked against the compute API; the
# code below it needs Tenstorrent's own compiler.
#
# Host programs also need headers that a build of tt-metal downloads: fmt,
# nlohmann/json, umd, enchantum and reflect. INCLUDE names their include folders;
# without any, host programs are not checked.
#
# What is not in the headers has stand-ins: what tt-metal generates for a kernel
# (the formats and sizes of its buffers), instructions of its compiler (lltt.h),
# and its logger.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)

# Writes the stand-ins to folder $1.
stand_ins() {
    mkdir -p "$1/tt-logger"
    {
        echo '#pragma once'
        echo '#include <cstdint>'
        for side in unpack pack; do
            for table in src_format dst_format tile_num_faces partial_face tile_face_r_dim narrow_tile tile_r_dim \
                tile_c_dim num_faces_r_dim num_faces_c_dim; do
                echo "constexpr uint8_t ${side}_$table[32] = {};"
            done
            echo "constexpr uint16_t ${side}_tile_size[32] = {};"
        done
    } >"$1/chlkc_descriptors.h"
    # What the programs around kernels include before them.
    for header in internal/risc_attribs risc_common tensix noc noc_nonblocking_api internal/firmware_common; do
        echo "#include \"$header.h\""
    done >"$1/movement.h"
    cat >"$1/compute.h" <<'END'
#include "chlkc_descriptors.h"
#include "llk_defs.h"
constexpr bool DST_ACCUM_MODE = true, APPROX = false;
#define DST_SYNC_MODE DstSync::SyncHalf
constexpr ckernel::MathFidelity MATH_FIDELITY = static_cast<ckernel::MathFidelity>(4);
void kernel_main();
END
    echo 'namespace lltt { enum ExecBool : bool {}; template <ExecBool> void record(unsigned, unsigned); }' >"$1/lltt.h"
    for level in trace debug info warning error critical fatal; do
        echo "#define log_$level(...) (void)0"
    done >"$1/tt-logger/tt-logger.hpp"
}

# includes FOLDER…: makes them options. As folders of the system, their headers
# give no warnings, and with -fpermissive no errors for addresses of 32 bits.
includes() {
    for i in "$@"; do printf ' -isystem %s' "$i"; done
}

# join FILE…: one text of all these files, each in a namespace.
join() {
    cat "$@" | grep '^#include <' | sort -u
    cat "$@" | grep '^#include "' | sort -u
    i=0
    for f in "$@"; do
        i=$((i + 1))
        printf 'namespace p%d {\n#include "%s"\n}\n' $i "$f"
    done
}

# --kernels FOLDER STAND-INS "INCLUDE…" PROGRAM…: checks the files in the folders
# PROGRAM and prints the messages of the compiler.
if [ "${1:-}" = --kernels ]; then
    metal=$2/tt_metal
    stand=$3
    more=$4
    shift 4
    status=0
    warn='-fsyntax-only -Wall -Wextra -Wno-attributes -Wno-missing-field-initializers -Werror -I.'
    common="$warn$(includes "$stand" "$metal/.." "$metal" "$metal/hw/inc" "$metal/tt-llk/common" "$metal/hostdevcommon/api" "$metal/api")"
    for arch in wormhole blackhole; do
        case $arch in
        wormhole) llk=wormhole_b0 banks='-DNUM_DRAM_BANKS=12 -DIS_NOT_POW2_NUM_DRAM_BANKS=1 -DNUM_L1_BANKS=64 -DLOG_BASE_2_OF_NUM_L1_BANKS=6' ;;
        blackhole) llk=blackhole banks='-DNUM_DRAM_BANKS=8 -DLOG_BASE_2_OF_NUM_DRAM_BANKS=3 -DNUM_L1_BANKS=130 -DIS_NOT_POW2_NUM_L1_BANKS=1' ;;
        esac
        inside=$metal/hw/inc/internal/tt-1xx
        for kind in reader writer compute; do
            case $kind in
            reader) processor='-DCOMPILE_FOR_BRISC' before=movement.h ;;
            writer) processor='-DCOMPILE_FOR_NCRISC' before=movement.h ;;
            compute) processor='-DCOMPILE_FOR_TRISC=0' before=compute.h ;;
            esac
            join $(ls $(printf '%s/'$kind'_*.cpp ' "$@")) >all_$kind.cpp
            g++ -std=c++17 -fpermissive $common $(includes "$metal/hw/ckernels/$llk/metal/common" \
                "$metal/hw/ckernels/$llk/metal/llk_io" "$inside" "$inside/$arch" "$inside/$arch/${llk}_defines" \
                "$inside/$arch/noc" "$metal/tt-llk/tt_llk_$llk/common/inc" "$metal/tt-llk/tt_llk_$llk/llk_lib" \
                "$metal/hw/ckernels/$llk/metal/llk_api" "$metal/hw/firmware/src/tt-1xx") \
                $banks $processor "-DARCH_$(echo $arch | tr a-z A-Z)" -DTENSIX_FIRMWARE -DLOCAL_MEM_EN=0 -DKERNEL_BUILD \
                -DPROCESSOR_INDEX=0 -DPROGRAMMABLE_CORE_TYPE=0 -DDISPATCH_MESSAGE_ADDR=0 -DPCIE_NOC_X=0 -DPCIE_NOC_Y=3 \
                -DNOC_INDEX=0 -DNOC_MODE=0 -DKERNEL_COMPILE_TIME_ARGS=0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0 \
                -include "$stand/$before" all_$kind.cpp || status=1
        done
    done
    [ -z "$more" ] && exit $status
    join $(printf '%s/host.cpp ' "$@") >all_hosts.cpp
    g++ -std=c++20 $common -DFMT_HEADER_ONLY $(includes "$metal/../tt_stl" $more) all_hosts.cpp || status=1
    exit $status
fi

[ $# -ge 2 ] || { echo "usage: $0 DIVVY FOLDER [INCLUDE…]" >&2; exit 2; }
divvy=$1
metal=$(cd "$2" && pwd) || exit 2
shift 2
[ -f "$metal/tt_metal/hw/inc/api/dataflow/dataflow_api.h" ] || {
    echo "skipped: $metal has no headers of tt-metal"
    exit 77
}
command -v g++ >/dev/null || { echo 'skipped: no g++'; exit 77; }
[ $# -gt 0 ] || echo 'host programs are not checked: no include folders are given'
made=$(mktemp -d) || exit 2
trap 'rm -rf "$made"' EXIT
stand_ins "$made"
status=0
for test in "$root"/tests/cli/emit/metalium*.sh; do
    check_kernels="$root/scripts/tt_headers.sh --kernels $metal $made" check_includes="$*" sh "$test" "$divvy" "$root" || status=1
done
exit $status
