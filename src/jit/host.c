// The instruction sets, and the machine this library runs on.
#define _POSIX_C_SOURCE 200809L
#include "jit/host.h"
#include <stdlib.h>
#if defined(__aarch64__) && defined(__linux__) && defined(__AARCH64EL__)
#include <sys/auxv.h>
#endif

enum {
    FLOATS = 1 << DV_F32 | 1 << DV_F64,
    WHOLE = 1 << DV_I32,
    PAIRED = 1 << DV_BF16 | 1 << DV_I8,
    NARROW = 1 << DV_F16 | PAIRED
};

// Why these tiles: a panel of B stays in L1 beside the rows of A that pass it,
// and accumulators, a row of B and scalars of A fill the registers.
const dv_isa dv_isas[] = {
    {.name = "neon-bf16",
     .word_bytes = 4,
     .vector_bytes = 16,
     .dtypes = FLOATS | WHOLE | PAIRED,
     .widened = NARROW,
     .panel_rows = 4,
     .panel_vectors = 5,
     .most_read = 8,
     .most_packed = 4,
     .l1_bytes = 64 << 10,
     .l2_bytes = 1 << 20,
     .gemm = dv_a64_gemm,
     .move = dv_a64_move},
    {.name = "neon",
     .word_bytes = 4,
     .vector_bytes = 16,
     .dtypes = FLOATS | WHOLE,
     .widened = NARROW,
     .panel_rows = 4,
     .panel_vectors = 5,
     .most_read = 8,
     .most_packed = 4,
     .l1_bytes = 64 << 10,
     .l2_bytes = 1 << 20,
     .gemm = dv_a64_gemm,
     .move = dv_a64_move},
};
const int dv_n_isas = sizeof dv_isas / sizeof *dv_isas;

// -- Which of them this machine has ------------------------------------------

#if defined(__aarch64__) && defined(__linux__) && defined(__AARCH64EL__)
enum { CAP2_I8MM = 1 << 13, CAP2_BF16 = 1 << 14 };

static int has(const char *name)
{
    enum { BOTH = CAP2_I8MM | CAP2_BF16 };
    return !strcmp(name, "neon") || (!strcmp(name, "neon-bf16") &&
                                     (getauxval(AT_HWCAP2) & BOTH) == BOTH);
}
#else
static int has(const char *name)
{
    (void)name;
    return 0;
}
#endif

const dv_isa *dv_isa_host(void)
{
    const char *wish = getenv("DIVVY_CPU");
    const dv_isa *best = NULL;
    for (int i = 0; i < dv_n_isas; i++) {
        const dv_isa *isa = &dv_isas[i];
        if (!has(isa->name))
            continue;
        if (wish && !strcmp(wish, isa->name))
            return isa;
        best = best ? best : isa;
    }
    return best;
}
