// Generates independent chains of multiply-adds. Hiding a latency of 4 cycles
// at 4 instructions per cycle takes 16 chains; bfmmla has a latency of 6 cycles
// and needs 24. There are 28.
#include "jit/a64/gen.h"

int dv_a64_peak(dv_code *code, const dv_isa *isa, int dtype)
{
    enum { CHAINS = 28, X_TURNS = 0 };
    dv_gen gen = {.code = code, .n_vregs = CHAINS + 2}, *g = &gen;
    int last = dv_gen_reg(CHAINS), flops = 0;
    if (!dv_isa_has(isa, dtype))
        return 0;
    dv_gen_enter(g);
    for (int i = 0; i <= CHAINS; i++)
        DV_E(movi_0, dv_gen_reg(i), 0, 0, 0);
    size_t start = code->n;
    for (int i = 0; i < CHAINS; i++) {
        int acc = dv_gen_reg(i);
        if (dtype == DV_F32)
            DV_E(fmla_4s, acc, last, last, 0), flops += 8;
        else if (dtype == DV_F64)
            DV_E(fmla_2d, acc, last, last, 0), flops += 4;
        else if (dtype == DV_BF16)
            DV_E(bfmmla, acc, last, last, 0), flops += 32;
        else if (dtype == DV_I8)
            DV_E(smmla, acc, last, last, 0), flops += 64;
        else if (dtype == DV_I32)
            DV_E(fmla_4i, acc, last, last, 0), flops += 8;
    }
    dv_gen_loop_end(g, X_TURNS, start);
    dv_gen_leave(g);
    return flops;
}
