// Detects which of the instruction sets that divvy has kernels for this machine
// supports.
#define _GNU_SOURCE // for syscall
#include "kernel/cpu.h"
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#if defined(__aarch64__) && defined(__linux__) && defined(__AARCH64EL__)
enum { CAP2_I8MM = 1 << 13, CAP2_BF16 = 1 << 14 };

int dv_cpu_has(const char *name)
{
    enum { BOTH = CAP2_I8MM | CAP2_BF16 };
    return !strcmp(name, "neon") || (!strcmp(name, "neon-bf16") &&
                                     (getauxval(AT_HWCAP2) & BOTH) == BOTH);
}
#elif defined(__x86_64__)
// Feature bits that the instruction cpuid returns (C1_*: leaf 1, register C,
// and so on), and bits of XCR0, which say which vector registers the system
// saves at context switches.
enum {
    C1_FMA = 1 << 12,
    C1_OSXSAVE = 1 << 27,
    C1_F16C = 1 << 29,
    C1_AVX = 1 << 28,
    B7_AVX2 = 1 << 5,
    B7_AVX512F = 1 << 16,
    B7_AVX512DQ = 1 << 17,
    B7_AVX512BW = 1 << 30,
    C7_VNNI = 1 << 11,
    D7_AMX = 1 << 22 | 1 << 24 | 1 << 25, // AMX-BF16, AMX-TILE, AMX-INT8
    A71_BF16 = 1 << 5,
    XCR0_AVX = 0x6,
    XCR0_AVX512 = 0xe6,
    XCR0_TILES = 0x60000
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

// Requests permission to use AMX tile registers; Linux enables their large
// state only for processes that request it.
static int may_use_tiles(void)
{
#ifdef __linux__
    // Arguments of arch_prctl for AMX: ARCH_REQ_XCOMP_PERM and
    // XFEATURE_XTILEDATA.
    enum { REQUEST = 0x1023, TILES = 18 };
    return all(kept(), XCR0_TILES) &&
           syscall(SYS_arch_prctl, REQUEST, TILES) == 0;
#else
    return 0;
#endif
}

int dv_cpu_has(const char *name)
{
    unsigned a, b, c, d, b7 = 0, c7 = 0, d7 = 0, a71 = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) ||
        !all(c, C1_FMA | C1_OSXSAVE | C1_AVX | C1_F16C) ||
        !all(kept(), XCR0_AVX))
        return 0;
    if (__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) == 0 || !all(b7, B7_AVX2))
        return 0;
    if (!strcmp(name, "avx2"))
        return 1;
    if (!all(b7, B7_AVX512F | B7_AVX512DQ | B7_AVX512BW | B7_AVX512VL) ||
        !all(kept(), XCR0_AVX512))
        return 0;
    if (a >= 1)
        __get_cpuid_count(7, 1, &a71, &b, &c, &d);
    int bf16 = all(a71, A71_BF16), vnni = all(c7, C7_VNNI);
    if (!strcmp(name, "avx512-amx"))
        return all(d7, D7_AMX) && bf16 && may_use_tiles();
    return (!strcmp(name, "avx512-vnni") && vnni) || !strcmp(name, "avx512");
}

#else
int dv_cpu_has(const char *name)
{
    (void)name;
    return 0;
}
#endif
