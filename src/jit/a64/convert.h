// Generates moves that convert the element type (DV_MOVE_WIDEN,
// DV_MOVE_NARROW).
#ifndef DV_JIT_CONVERT_H
#define DV_JIT_CONVERT_H
#include "jit/a64/gen.h"

void dv_convert_move(dv_gen *g, const dv_isa *isa, const dv_move_shape *s);
#endif
