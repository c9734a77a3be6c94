// The epilogue of a reduction: the part of an op that follows its finished
// sums, as an op of its own that reads these sums.
//
//   y[i,j] = gelu(b[j] + sum[k] x[i,k] * w[k,j])
//   y[i,j] = gelu(b[j] + sums[i,j])                 on any box of i and j
//
// The epilogue has its own loops, independent of the loops of the reduction,
// and can run on each block of results as soon as the block is complete.
#ifndef DV_EPILOGUE_H
#define DV_EPILOGUE_H
#include "exec/op/vec_op.h"

typedef struct dv_epilogue dv_epilogue;

typedef struct dv_epilogue_spec {
    // The op, which has one reduction, and its program; see dv_plan_whole_op.
    const dv_program *p;
    const dv_op *op;
    const dv_kernel *kernel; // the op's interpreter data
    dv_dtype type;           // type of the sums
    // Strides of the sums along each variable, in elements.
    const int64_t *steps;
    int nearest; // as in dv_vec_spec
    // The loops that the plan prescribes; NULL: they are chosen at creation.
    const dv_op_schedule *as;
    dv_jit *jit;
    dv_arena *arena;
} dv_epilogue_spec;

// Creates an epilogue in the arena. *out is NULL with DV_OK if no kernel
// supports it.
dv_status dv_epilogue_create(dv_epilogue **out, const dv_epilogue_spec *spec,
                             dv_diag *diag);
// Writes the loops of an epilogue to *out, as the plan's schedule has them:
// only the members for vector kernels are set.
void dv_epilogue_describe(const dv_epilogue *f, dv_op_schedule *out);
// A box on which an epilogue (the functions after a finished reduction) is run:
// the arguments of dv_vec_op_run.
typedef struct dv_epilogue_box {
    void *at[DV_VEC_MAX_OPERANDS];
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
} dv_epilogue_box;
// Returns the vector op that computes the epilogue, and sets *box to its
// operands on the box begin..end of the op, whose extents along reduced
// variables are ignored. `at` holds the op's operands as in dv_vec_op_run and
// `sums` points to the sum at `begin`. The sums may be stored in the op's
// output tensor.
const dv_vec_op *dv_epilogue_at(const dv_epilogue *f, void *const *at,
                                const int64_t *begin, const int64_t *end,
                                void *sums, dv_epilogue_box *box);
#endif
