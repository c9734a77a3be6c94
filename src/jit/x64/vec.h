// Inside the back end for jit/vec/vec.h's kernels: jit/vec/shape.c has the
// frame and the loops, vec_arith.c arithmetic, vec_mem.c loads and stores.
#ifndef DV_X64_VEC_H
#define DV_X64_VEC_H
#include "jit/vec/ir.h"
#include "jit/x64/gen.h"

enum { V_T0, V_T1, N_TEMPS }; // of anyone, between operations
enum { K_TMP = 1 };
enum { X_FAR = 10, X_POOL = 13, X_LEFT = 14, X_COUNT = 15 };
enum { N_POINTERS = 10, MAX_NEST = 4, MAX_OWN = 64 };

// A vector behind the code that the plan knows nothing of.
typedef struct dv_x_own {
    uint64_t bits; // repeated
    int lanes;     // that have them, the others have 0; 0: all
    int step, off; // step not 0: lanes of 4 bytes, number i has step * i + off
    // Not 0: the numbers of every other lane of two vectors of so many, of
    // which the second begins with the last lane of the first.
    int every_other;
} dv_x_own;

typedef struct dv_x_vec {
    const dv_vec_plan *p;
    const dv_vec_pointers *at;
    int64_t places, running, slots, all, old_sp, stage, frame; // from sp
    size_t top[MAX_NEST]; // of the loops around, and the ends of jumps out
    size_t out[MAX_NEST];
    int depth;
    uint32_t zeros; // registers in which 0 is
    size_t pool_fix;
    int n_own;
    dv_x_own own[MAX_OWN];
    dv_x gen;
} dv_x_vec;

static inline int dv_x_size(const dv_vec_operand *o)
{
    return dv_dtype_get((dv_dtype)o->dtype)->size_bytes;
}

// The machine's register of one of the plan's.
static inline int dv_x_vec_reg(int r)
{
    return r + N_TEMPS;
}

// The register that an operand is reached from, m->at->off bytes on; X_FAR when
// its pointer has none.
int dv_x_vec_pointer(dv_x_vec *m, int operand);
// Memory with `bits` in each lane of 4 or 8 bytes, as a vector.
dv_x_rm dv_x_all32(dv_x_vec *m, uint32_t bits);
dv_x_rm dv_x_all64(dv_x_vec *m, uint64_t bits);
dv_x_rm dv_x_own_const(dv_x_vec *m, dv_x_own own);
// Any instruction of form VRM or VRVM at the full length, or at another one.
// Memory has no index.
void dv_x_vec_op(dv_x_vec *m, dv_x_insn op, int a, int b, dv_x_rm c);
void dv_x_vec_op_n(dv_x_vec *m, dv_x_insn op, int vl, int a, int b, dv_x_rm c);

void dv_x_vec_compute(dv_x_vec *m, const dv_vec_mop *o);
void dv_x_vec_load(dv_x_vec *m, const dv_vec_mop *o, int v);
void dv_x_vec_store(dv_x_vec *m, const dv_vec_mop *o, int v);
#endif
