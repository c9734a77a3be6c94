// The arithmetic of the vector kernels that a64/vec.c generates.
#ifndef DV_JIT_A64_VEC_ARITH_H
#define DV_JIT_A64_VEC_ARITH_H
#include "jit/a64/gen.h"
#include "jit/vec/ir.h"

// A scratch register, free between operations.
enum { V_NARROW = 31 };

// Emits one operation of a vector plan: register d from registers a, b and c,
// with lanes of g->es bytes.
void dv_a64_vec_compute(dv_gen *g, dv_vop op, int d, int a, int b, int c,
                        int imm);
// Converts elements of type t, as loaded from memory, to lanes of type `to`, in
// place in register v.
void dv_a64_vec_widen(dv_gen *g, int v, dv_dtype t, dv_dtype to);
// Converts lanes of type `from` to elements of type t. Returns the register
// that holds them: v if the types are equal, else n.
int dv_a64_vec_narrow(dv_gen *g, int n, int v, dv_dtype from, dv_dtype t);
// Converts lanes to bf16 on a machine without the instruction for it. This
// needs two registers besides the free register n, so two others are saved in
// the 32 bytes of stack at offset `lent` and restored afterwards. Returns n.
int dv_a64_vec_soft_bf16(dv_gen *g, int n, int v, int is64, int64_t lent);
// Sets the distances of all loads of constants in code that is followed by the
// constant pool at byte `first`; until now they hold the number of the
// constant. Returns 0 if a constant is too far away.
int dv_a64_vec_point(unsigned char *code, size_t first);
#endif
