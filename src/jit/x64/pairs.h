// Products of narrow types (bf16, i8): packing for instructions that multiply
// several elements of k at once, and kernels with AMX tiles.
#ifndef DV_X64_PAIRS_H
#define DV_X64_PAIRS_H
#include "jit/x64/tile.h"

void dv_x_pack_narrow(dv_x *g, const dv_isa *isa, const dv_move_shape *s);
void dv_x_amx_gemm(dv_x *g, const dv_gemm_shape *s);
// Loads the AMX tile configuration for a product of `rows` by `cols` (up to 32
// each): C in tiles 0 to 3, A in 4 and 5, B in 6 and 7.
void dv_x_amx_config(dv_x *g, int rows, int cols);
#endif
