// Can an op on integers be computed in 32 bits, with the exact result?
#ifndef DV_VEC_RANGE_H
#define DV_VEC_RANGE_H
#include "ir/program.h"

int dv_vec_op_exact(const dv_program *p, const dv_op *op);
#endif
