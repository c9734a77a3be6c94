// What a64/vec.c has its arithmetic from.
#ifndef DV_JIT_A64_VEC_ARITH_H
#define DV_JIT_A64_VEC_ARITH_H
#include "jit/a64/gen.h"
#include "jit/vec/ir.h"

// Write one down: d from a, b and c, which are registers of the machine; lanes
// are of g->es bytes.
void dv_a64_vec_compute(dv_gen *g, dv_vop op, int d, int a, int b, int c,
                        int imm);
// Elements as they are in memory become lanes of type `to`, in place.
void dv_a64_vec_widen(dv_gen *g, int v, dv_dtype t, dv_dtype to);
// Lanes of type `from` become elements of t. Returns the register that has
// them: v where nothing changes, else n.
int dv_a64_vec_narrow(dv_gen *g, int n, int v, dv_dtype from, dv_dtype t);
// The same to bf16 without the instruction for it, which takes more registers
// than the one that is free: two others are lent, with 32 bytes of the stack.
// Returns n, which is the last register.
int dv_a64_vec_own_bf16(dv_gen *g, int n, int v, int is64, int64_t lent);
// Loads of constants by number in code that ends where the pool begins get
// their distances. 0: one is too far from it.
int dv_a64_vec_point(unsigned char *code, size_t first);
#endif
