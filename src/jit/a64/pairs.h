// Products of bf16 with sums in f32 and of i8 with sums in i32, by the matrix
// instructions bfmmla and smmla, and the packing of their operands.
#ifndef DV_JIT_PAIRS_H
#define DV_JIT_PAIRS_H
#include "jit/a64/gen.h"

void dv_pairs_gemm(dv_gen *g, const dv_gemm_shape *s);
void dv_pairs_move(dv_gen *g, const dv_move_shape *s);
#endif
