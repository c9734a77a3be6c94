// Generates loops that measure peak throughput: 12 independent chains of
// multiply-adds, more than the 8 that hide a latency of 4 cycles at 2 per
// cycle. AMX tiles have four chains.
#include "jit/x64/tile.h"

enum { X_TURNS = 7, TILES = 4 };

// Emits the loop for AMX tiles of 32 rows by 32 columns and returns the
// number of operations in an iteration.
static int tiles(dv_x *g, int dtype)
{
    dv_code *code = g->code;
    dv_x_insn op = dtype == DV_I8 ? DV_X_tiledpi8 : DV_X_tiledpbf16;
    dv_x_amx_config(g, 32, 32);
    size_t start = code->n;
    for (int i = 0; i < TILES; i++)
        dv_x_emit(code, op, 16, i, 6, dv_x_reg(4), none);
    dv_x_loop_end(g, X_TURNS, start);
    dv_x_emit(code, DV_X_tilerelease, 16, 0, 0, dv_x_reg(0), none);
    dv_x_epilogue(g);
    return TILES * 16 * 16 * 2 * (dtype == DV_I8 ? 64 : 32);
}

static dv_x_insn dot_of(int dtype)
{
    return dtype == DV_I8    ? DV_X_vdpbusd
           : dtype == DV_F64 ? DV_X_vfmapd
                             : DV_X_vfmaps;
}

int dv_x64_peak(dv_code *code, const dv_isa *isa, int dtype)
{
    enum { CHAINS = 12 };
    int vl = isa->vector_bytes;
    dv_x gen, *g = &gen;
    if (!dv_isa_has(isa, dtype))
        return 0;
    dv_x_start(g, code, isa, 4);
    if (isa->has_tiles && (dtype == DV_I8 || dtype == DV_BF16))
        return tiles(g, dtype);
    // Clearing the low 32 bytes clears the whole register, also one of 64
    // bytes.
    for (int i = 0; i < CHAINS + 2; i++)
        dv_x_emit_3(code, DV_X_vxorps, 32, i, i, i);
    size_t start = code->n;
    for (int i = 0; i < CHAINS; i++)
        if (dtype == DV_I32) {
            dv_x_vvv(g, DV_X_vmuli32, CHAINS + 1, CHAINS, CHAINS);
            dv_x_vvv(g, DV_X_vaddi32, i, i, CHAINS + 1);
        } else {
            dv_x_vvv(g, dot_of(dtype), i, CHAINS, CHAINS);
        }
    dv_x_loop_end(g, X_TURNS, start);
    dv_x_epilogue(g);
    return CHAINS * 2 * vl / dv_dtype_get((dv_dtype)dtype)->size_bytes;
}
