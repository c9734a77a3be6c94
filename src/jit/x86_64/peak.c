// Chains of multiply-adds: 12 of them hide a latency of 4 at 2 a cycle, with a
// few to spare.
#include "jit/host.h"
#include "jit/x86_64/insn.h"

int dv_x64_peak(dv_code *code, const dv_isa *isa, int dtype)
{
    enum { CHAINS = 12, RDI = 7 };
    int vl = isa->vector_bytes, wide = dtype == DV_F64;
    dv_x_more none = {0};
    if (!dv_isa_has(isa, dtype))
        return 0;
    // Clearing 32 bytes clears the rest of the register.
    for (int i = 0; i < CHAINS + 2; i++)
        dv_x_emit(code, DV_X_vxorps, 32, i, i, dv_x_reg(i), none);
    size_t start = code->n;
    for (int i = 0; i < CHAINS; i++)
        if (dtype == DV_I32) {
            dv_x_emit(code, DV_X_vmuli32, vl, CHAINS + 1, CHAINS,
                      dv_x_reg(CHAINS), none);
            dv_x_emit(code, DV_X_vaddi32, vl, i, i, dv_x_reg(CHAINS + 1), none);
        } else {
            dv_x_emit(code, wide ? DV_X_vfmapd : DV_X_vfmaps, vl, i, CHAINS,
                      dv_x_reg(CHAINS), none);
        }
    dv_x_emit(code, DV_X_dec, 0, 0, 0, dv_x_reg(RDI), none);
    enum { JUMP_BYTES = 6 };
    none.imm = (int64_t)start - (int64_t)(code->n + JUMP_BYTES);
    dv_x_emit(code, DV_X_jnz, 0, 0, 0, dv_x_reg(0), none);
    none.imm = 0;
    dv_x_emit(code, DV_X_vzeroupper, 0, 0, 0, dv_x_reg(0), none);
    dv_x_emit(code, DV_X_ret, 0, 0, 0, dv_x_reg(0), none);
    return CHAINS * 2 * vl / (wide ? 8 : 4);
}
