// Internals of the x86-64 back end for the kernels of jit/vec/vec.h: vec.c has
// the frame and the loops, vec_arith.c arithmetic, vec_mem.c loads and stores.
#ifndef DV_X64_VEC_H
#define DV_X64_VEC_H
#include "jit/vec/ir.h"
#include "jit/x64/gen.h"

enum { V_T0, V_T1, N_TEMPS }; // scratch registers, free between operations
enum { K_TMP = 1 };
enum { X_FAR = 10, X_POOL = 13, X_LEFT = 14, X_COUNT = 15 };
enum { N_POINTERS = 10, MAX_OWN = 64 };

// A vector of constants, stored after the code, that the back end adds to the
// plan's constants.
typedef struct dv_x_own_vector {
    uint64_t bits; // the constant: 8 bytes that are repeated
    int lanes;     // lanes that hold `bits`, the others hold 0; 0: all lanes
    // For shuffles of lanes: if step is not 0, 4-byte lane i holds the index
    // step * i + off modulo the number of 4-byte lanes.
    int step, off;
    // If not 0, the vector holds indices that pick every second lane of two
    // vectors of this many lanes, if the second vector begins with the last
    // lane of the first.
    int every_other;
    int numbers; // 1: every lane holds its number
} dv_x_own_vector;

typedef struct dv_x_vec {
    const dv_vec_plan *p;
    dv_vec_pointers *at;
    // Offsets from sp of the start addresses, the running pointers on the
    // stack, the spill slots, the count of the inner loop, the saved sp and a
    // vector that conversions use; and the size of the frame.
    int64_t starts, running, slots, all, old_sp, stage, frame;
    // For DV_V_REPAIR, which calls the C library: offsets from sp of the three
    // vectors that it passes and of the registers that it saves; code offset of
    // the subroutine that calls, 0: none yet.
    int64_t lanes, saved;
    size_t repair;
    // Code offsets: tops of the enclosing loops, and the exit jumps to patch.
    size_t top[DV_VEC_MAX_NEST], out[DV_VEC_MAX_NEST];
    int depth;
    uint32_t zeros; // bit mask of vector registers known to hold 0
    size_t pool_fix;
    int n_own;
    dv_x_own_vector own[MAX_OWN];
    dv_x gen;
} dv_x_vec;

// Returns the hardware vector register that register r of the plan is mapped
// to.
static inline int dv_x_vec_reg(int r)
{
    return r + N_TEMPS;
}

// Returns the general register to address an operand from, at displacement
// m->at->off. A pointer that is kept on the stack is first loaded into X_FAR.
int dv_x_vec_pointer(dv_x_vec *m, int operand);
// Return a memory operand that holds a vector with `bits` in every lane of 4 or
// 8 bytes.
dv_x_rm dv_x_all32(dv_x_vec *m, uint32_t bits);
dv_x_rm dv_x_all64(dv_x_vec *m, uint64_t bits);
dv_x_rm dv_x_own_const(dv_x_vec *m, dv_x_own_vector own);
// Emit any instruction of form VRM (two operands) or VRVM (three operands), at
// the full vector length or at length vl. A memory operand must not have an
// index.
void dv_x_vec_op(dv_x_vec *m, dv_x_insn op, int a, int b, dv_x_rm c);
void dv_x_vec_op_n(dv_x_vec *m, dv_x_insn op, int vl, int a, int b, dv_x_rm c);

void dv_x_vec_repair(dv_x_vec *m, const dv_vec_mop *o);
void dv_x_vec_compute(dv_x_vec *m, const dv_vec_mop *o);
void dv_x_vec_load(dv_x_vec *m, const dv_vec_mop *o, int v);
void dv_x_vec_store(dv_x_vec *m, const dv_vec_mop *o, int v);
#endif
