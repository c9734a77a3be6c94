// What differs from machine to machine: whether there are kernels, and who
// makes them.
#ifndef DV_JIT_HOST_H
#define DV_JIT_HOST_H
#include "jit/code.h"
#include "jit/jit.h"

int dv_jit_host_has_kernels(void);
int dv_jit_host_has_bf16(void);

// Generate into `code`. Shapes are checked and complete (no zero defaults).
void dv_a64_gemm(dv_code *code, const dv_gemm_shape *shape);
void dv_a64_move(dv_code *code, const dv_move_shape *shape);
#endif
