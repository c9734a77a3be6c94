// Narrow types: packing for instructions that multiply several of k at once,
// and products with tiles.
#ifndef DV_X64_PAIRS_H
#define DV_X64_PAIRS_H
#include "jit/x64/tile.h"

void dv_x_pairs_move(dv_x *g, const dv_isa *isa, const dv_move_shape *s);
void dv_x_tiles_gemm(dv_x *g, const dv_gemm_shape *s);
// Load the shapes of the tiles that a product of so many rows and columns, of
// up to 32 each, takes: C in 0 to 3, A in 4 and 5, B in 6 and 7.
void dv_x_tiles_set(dv_x *g, int rows, int cols);
#endif
