// Products of two operands that both have rows of k. Every result is a dot
// product: vectors run along k, and their lanes are added up at the end.
#ifndef DV_JIT_DOT_H
#define DV_JIT_DOT_H
#include "jit/a64/gen.h"

void dv_dot_emit(dv_gen *g, const dv_gemm_shape *s);
#endif
