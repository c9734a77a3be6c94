// The instruction sets, and the machine this library runs on.
#define _GNU_SOURCE
#include "jit/host.h"
#include "jit/aarch64/list.h"
#include "jit/vec_ir.h"
#include <stdatomic.h>
#include <stdlib.h>
#if defined(__aarch64__) && defined(__linux__) && defined(__AARCH64EL__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum {
    FLOATS = 1 << DV_F32 | 1 << DV_F64,
    WHOLE = 1 << DV_I32,
    PAIRED = 1 << DV_BF16 | 1 << DV_I8,
    NARROW = 1 << DV_F16 | PAIRED
};

// Why these tiles: a panel of B stays in L1 beside the rows of A that pass it,
// and accumulators, a row of B and scalars of A fill the registers. AVX-512
// has panels of B that L1 does not hold whole: with a shorter k it would pass
// over C more often, which costs more. As measured.
#define A64(its_name, types, bytes, rows, vectors, packed)                     \
    .name = its_name, .vector_bytes = bytes, .dtypes = types,                  \
    .widened = NARROW, .panel_rows = rows, .panel_vectors = vectors,           \
    .most_read = 8, .most_packed = packed, .pairs_rows = 8, .pairs_cols = 12,  \
    .pairs_bytes = 8, .pairs_of_l1 = 7, .pairs_of_l2 = 2,                      \
    .l1_bytes = 64 << 10, .l2_bytes = 1 << 20, .panels_of_l1 = 7,              \
    .block_of_l2 = 4, .fast_of_l2 = 2, .shares = 1, .move = dv_a64_move,       \
    .vec = &dv_a64_vec_isa, .list = dv_insn_list
#define NEON(its_name, types)                                                  \
    {                                                                          \
        A64(its_name, types, 16, 4, 5, 4),                                     \
            .bring_rows = 4, .gemm = dv_a64_gemm, .peak = dv_a64_peak          \
    }
// The machine decides how long SVE's vectors are: one row a length. With 16
// bytes they are no better than NEON's, which has more kinds of tiles. Moves,
// statements and products of narrow types are NEON's in any case.
#define SVE(its_name, types, bytes)                                            \
    {                                                                          \
        A64(its_name, types, bytes, 6, 3, 6),                                  \
            .gemm = dv_sve_gemm, .peak = dv_sve_peak, .on_wish = bytes == 16   \
    }
#define SVES(its_name, types)                                                  \
    SVE(its_name, types, 256), SVE(its_name, types, 128),                      \
        SVE(its_name, types, 64), SVE(its_name, types, 32),                    \
        SVE(its_name, types, 16)
#define AVX512(its_name, types)                                                \
    .name = its_name, .vector_bytes = 64, .dtypes = types, .widened = NARROW,  \
    .panel_rows = 8, .panel_vectors = 3, .most_read = 28, .most_packed = 28,   \
    .l1_bytes = 48 << 10, .l2_bytes = 2 << 20, .panels_of_l1 = 8,              \
    .block_of_l2 = 4, .fast_of_l2 = 2, .parts_each = 8, .gemm = dv_x64_gemm,   \
    .move = dv_x64_move, .peak = dv_x64_peak, .vec = &dv_x64_vec_isa_64,       \
    .streams = 1
#define DOTS                                                                   \
    .pairs_rows = 8, .pairs_cols = 48, .pairs_bytes = 16, .pairs_fix = 1,      \
    .pairs_of_l1 = 11, .pairs_of_l2 = 2
const dv_isa dv_isas[] = {
    SVES("sve-bf16", FLOATS | WHOLE | PAIRED),
    SVES("sve", FLOATS | WHOLE),
    NEON("neon-bf16", FLOATS | WHOLE | PAIRED),
    NEON("neon", FLOATS | WHOLE),
    // Tiles: 32 rows by 32 columns. L2 feeds them fast enough, so that k is as
    // long as can be: C is passed over for every chunk.
    {AVX512("avx512-amx", FLOATS | WHOLE | PAIRED), .has_tiles = 1,
     .pairs_rows = 32, .pairs_cols = 32, .pairs_bytes = 64, .pairs_of_l1 = 64,
     .pairs_of_l2 = 2},
    {AVX512("avx512-bf16", FLOATS | WHOLE | PAIRED), DOTS},
    {AVX512("avx512-vnni", FLOATS | WHOLE | 1 << DV_I8), DOTS},
    {AVX512("avx512", FLOATS | WHOLE)},
    {.name = "avx2",
     .vector_bytes = 32,
     .dtypes = FLOATS | WHOLE,
     .widened = NARROW,
     .panel_rows = 6,
     .panel_vectors = 2,
     .most_read = 12,
     .most_packed = 12,
     .l1_bytes = 32 << 10,
     .l2_bytes = 512 << 10,
     .panels_of_l1 = 7,
     .block_of_l2 = 4,
     .fast_of_l2 = 4,
     .parts_each = 8,
     .gemm = dv_x64_gemm,
     .move = dv_x64_move,
     .peak = dv_x64_peak,
     .vec = &dv_x64_vec_isa_32,
     .streams = 1},
};
const int dv_n_isas = sizeof dv_isas / sizeof *dv_isas;

// -- Which of them this machine has ------------------------------------------

#if defined(__aarch64__) && defined(__linux__) && defined(__AARCH64EL__)
enum { CAP_SVE = 1 << 22, CAP2_I8MM = 1 << 13, CAP2_BF16 = 1 << 14 };

static int has(const char *name)
{
    enum { BOTH = CAP2_I8MM | CAP2_BF16 };
    int sve = !strncmp(name, "sve", 3) && getauxval(AT_HWCAP) & CAP_SVE;
    if (!sve && strncmp(name, "neon", 4) != 0)
        return 0;
    return !strstr(name, "-bf16") || (getauxval(AT_HWCAP2) & BOTH) == BOTH;
}

// Are vectors as long as the row's? Asked of rows that the machine has.
static int fits(const dv_isa *isa)
{
    if (isa->gemm != dv_sve_gemm)
        return 1;
    register uint64_t bytes __asm__("x0");
    __asm__ volatile(".inst 0x0420e3e0 // cntb x0" : "=r"(bytes));
    return bytes == (uint64_t)isa->vector_bytes;
}
#elif defined(__x86_64__)
enum { // bits of cpuid and of what the system keeps across switches
    C1_FMA = 1 << 12,
    C1_OSXSAVE = 1 << 27,
    C1_F16C = 1 << 29,
    C1_AVX = 1 << 28,
    B7_AVX2 = 1 << 5,
    B7_AVX512F = 1 << 16,
    B7_AVX512DQ = 1 << 17,
    B7_AVX512BW = 1 << 30,
    C7_VNNI = 1 << 11,
    D7_AMX = 1 << 22 | 1 << 24 | 1 << 25, // of bf16, tiles, of i8
    A71_BF16 = 1 << 5,
    KEPT_AVX = 0x6,
    KEPT_AVX512 = 0xe6,
    KEPT_TILES = 0x60000
};
static const unsigned B7_AVX512VL = 1u << 31;

static unsigned kept(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static int all(unsigned v, unsigned bits)
{
    return (v & bits) == bits;
}

// Registers of tiles are large: the system keeps them for whoever asks.
static int may_use_tiles(void)
{
#ifdef __linux__
    enum { REQUEST = 0x1023, TILES = 18 }; // of arch_prctl
    return all(kept(), KEPT_TILES) &&
           syscall(SYS_arch_prctl, REQUEST, TILES) == 0;
#else
    return 0;
#endif
}

static int has(const char *name)
{
    unsigned a, b, c, d, b7 = 0, c7 = 0, d7 = 0, a71 = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) ||
        !all(c, C1_FMA | C1_OSXSAVE | C1_AVX | C1_F16C) ||
        !all(kept(), KEPT_AVX))
        return 0;
    if (__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) == 0 || !all(b7, B7_AVX2))
        return 0;
    if (!strcmp(name, "avx2"))
        return 1;
    if (!all(b7, B7_AVX512F | B7_AVX512DQ | B7_AVX512BW | B7_AVX512VL) ||
        !all(kept(), KEPT_AVX512))
        return 0;
    if (a >= 1)
        __get_cpuid_count(7, 1, &a71, &b, &c, &d);
    int bf16 = all(a71, A71_BF16), vnni = all(c7, C7_VNNI);
    if (!strcmp(name, "avx512-amx"))
        return all(d7, D7_AMX) && bf16 && may_use_tiles();
    return (!strcmp(name, "avx512-bf16") && bf16 && vnni) ||
           (!strcmp(name, "avx512-vnni") && vnni) || !strcmp(name, "avx512");
}

// Intel's cores take four times as long for vdpbf16ps as for a multiply-add:
// without tiles they had better widen bf16.
static int is_good(const char *name)
{
    unsigned a, b = 0, c, d;
    return strcmp(name, "avx512-bf16") || !__get_cpuid(0, &a, &b, &c, &d) ||
           b != signature_INTEL_ebx;
}
#else
static int has(const char *name)
{
    (void)name;
    return 0;
}
#endif
#ifndef __x86_64__
static int is_good(const char *name)
{
    (void)name;
    return 1;
}
#endif

#if !defined(__aarch64__) || !defined(__linux__) || !defined(__AARCH64EL__)
static int fits(const dv_isa *isa)
{
    (void)isa;
    return 1;
}
#endif

// A bit a row. Asked once: where the machine is a virtual one, each cpuid is a
// trap. Whoever asks at the same time finds the same.
static unsigned rows_here(void)
{
    static _Atomic unsigned known;
    const unsigned asked = 1u << 31;
    unsigned rows = atomic_load(&known);
    for (int i = 0; !(rows & asked) && i < dv_n_isas; i++)
        rows |= has(dv_isas[i].name) && fits(&dv_isas[i]) ? 1u << i : 0;
    atomic_store(&known, rows | asked);
    return rows;
}

const dv_isa *dv_isa_host(void)
{
    const char *wish = getenv("DIVVY_CPU");
    const dv_isa *best = NULL;
    unsigned rows = rows_here();
    for (int i = 0; i < dv_n_isas; i++) {
        const dv_isa *isa = &dv_isas[i];
        if (!(rows >> i & 1))
            continue;
        if (wish && !strcmp(wish, isa->name))
            return isa;
        best = best || isa->on_wish || !is_good(isa->name) ? best : isa;
    }
    return best;
}
