// Finds the code generators of an instruction set.
#include "jit/backend.h"
#include "jit/vec/ir.h"

static const dv_backend backends[] = {
    [DV_ISA_A64] = {.gemm = dv_a64_gemm,
                    .move = dv_a64_move,
                    .peak = dv_a64_peak,
                    .words = 1,
                    .list = dv_a64_list},
    [DV_ISA_X64] = {.gemm = dv_x64_gemm,
                    .move = dv_x64_move,
                    .peak = dv_x64_peak,
                    .list = dv_x_list},
};

const dv_backend *dv_backend_of(const dv_isa *isa)
{
    return &backends[isa->family];
}

const dv_vec_isa *dv_backend_vec(const dv_isa *isa)
{
    if (isa->family == DV_ISA_A64)
        return dv_isa_has(isa, DV_BF16) ? &dv_a64_vec_isa
                                        : &dv_a64_vec_isa_plain;
    return isa->vector_bytes == 64 ? &dv_x64_vec_isa_64 : &dv_x64_vec_isa_32;
}
