// An op of a lowered program as calls of jit/vec/vec.h's kernels: one pass over
// memory for a whole statement.
//
// Of the op's variables two become the kernel's loops: the inner one along
// which most accesses have unit stride, and one around it. These follow from
// the program alone, not from where a rank or a tile has its elements: what is
// the same along a row is computed before, with other bits perhaps. The others
// are loops around the calls. A reduction over more than these is continued
// from call to call in accumulators.
//
//   dv_vec_op *v;
//   dv_vec_op_create(&v, &how, jit, arena, diag); // v is NULL: not this way
//   dv_vec_op_run(v, at, begin, end);             // any thread, no memory
//
// A read that goes by an index, t[p[i],j], is one of rows: the index is the
// same in both loops of a kernel.
//
// Where a read is transposed with respect to the result, the op is run in
// blocks:
//
//   y[i,j] = x[j,i] + z[i,j]     blocks of 32 i and 32 j: a move transposes
//                                that of x into a buffer, and a kernel reads
//                                it there; of y[i,j] = x[j,i] the move is all
//
// Kernels alone would read x one by one, each element from another page.
//
// What cannot be done this way: single elements that are found by indices, i64,
// floats stored into integers other than i8, integers that would not fit 32
// bits where it matters (vec_range.h), and reads of elements that other points
// of the op overwrite.
#ifndef DV_VEC_OP_H
#define DV_VEC_OP_H
#include "jit/vec/vec.h"
#include "exec/exec.h"

typedef struct dv_vec_op dv_vec_op;

// What to make it from. Arrays are borrowed while it is made.
typedef struct dv_vec_how {
    const dv_program *p;
    const dv_op *op;
    const dv_flat *reads, *write; // accesses as they lie in memory, in elements
    // All that is reduced is in each box: dv_vec_op_part is never called.
    int whole;
    int copied; // reads of the tensor written go to a copy of it
    // Boxes are looked at before, where dv_vec_op_looks says so: reads may go
    // by indices, integers need not always fit.
    int looks;
    int as_f32; // it reads i32, but computes in f32
    int later;  // kernels are made by dv_vec_op_kernels, if it is to be run
    // Where it is op number `number` of a plan, in that group; else NULL.
    const dv_plan *plan;
    const dv_group *group;
    int32_t number;
} dv_vec_how;

// *out is the arena's; NULL with DV_OK when the op is for the strips.
dv_status dv_vec_op_create(dv_vec_op **out, const dv_vec_how *how, dv_jit *jit,
                           dv_arena *arena, dv_diag *diag);

// The kernels of one that was created without them, of the same `how`.
// DV_E_LIMIT: they would be too long.
dv_status dv_vec_op_kernels(dv_vec_op *v, const dv_vec_how *how, dv_jit *jit,
                            dv_arena *arena, dv_diag *diag);

// What must hold of the values that a box reads, before it is run:
// dv_vec_op_fits says whether it does. NULL: nothing.
const char *dv_vec_op_looks(const dv_vec_op *v);

// What its kernel is: for those that call it themselves.
typedef struct dv_vec_look {
    const dv_vec_shape *shape;
    int32_t inner, outer; // variables; -1: a loop of one step
    uint8_t reduce;       // dv_vec_reduce
    dv_vec_fn run;
} dv_vec_look;
void dv_vec_op_look(const dv_vec_op *v, dv_vec_look *out);

// Run the op on the box begin..end of its variables. `at` has where element 0
// of each read's tensor is, then of the write's.
void dv_vec_op_run(const dv_vec_op *v, void *const *at, const int64_t *begin,
                   const int64_t *end);

// A reduction in parts, as dv_strips does it: the box of a part covers the
// written variables as all others of the same result do. FIRST leaves
// accumulators in `acc`, NEXT adds to them, FINISH takes them and writes; the
// reduced variables of its box do not count.
void dv_vec_op_part(const dv_vec_op *v, void *const *at, const int64_t *begin,
                    const int64_t *end, int part, void *acc);
// How far apart accumulators of a box are along each variable; 0 for those
// that are reduced.
void dv_vec_op_acc_steps(const dv_vec_op *v, const int64_t *begin,
                         const int64_t *end, int64_t *steps);
// Bytes of one accumulator, of which there is one per element written.
int64_t dv_vec_op_acc_bytes(const dv_vec_op *v);
// Add n accumulators to others, with the op's reducer. Of integers they are
// i32, which the strips' are not.
void dv_vec_op_add(const dv_vec_op *v, const dv_kernel *k, void *acc,
                   const void *x, int64_t n);
#endif
