// Products whose operands both have rows of k: every result is a dot product,
// k runs along the lanes, and the lanes are added up at the end.
#ifndef DV_JIT_DOT_H
#define DV_JIT_DOT_H
#include "jit/a64/gen.h"

void dv_dot_emit(dv_gen *g, const dv_gemm_shape *s);
#endif
