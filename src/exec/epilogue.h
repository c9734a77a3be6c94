// What an op does to its sums when they are whole, as an op of its own that
// reads them:
//
//   y[i,j] = gelu(b[j] + sum[k] x[i,k] * w[k,j])
//   y[i,j] = gelu(b[j] + sums[i,j])                 on any box of i and j
//
// So it has loops of its own, whatever the sum's are, and can be run on parts
// of the results as soon as these are there.
#ifndef DV_FINISH_H
#define DV_FINISH_H
#include "exec/vec_op.h"

typedef struct dv_finish dv_finish;

typedef struct dv_finish_how {
    const dv_program *p;
    const dv_kernel *kernel; // of the op, which has one reduction
    dv_dtype type;           // of sums
    const int64_t *steps;    // from sum to sum along each variable, in elements
    dv_jit *jit;
    dv_arena *arena;
} dv_finish_how;

// *out is the arena's; NULL with DV_OK when there is no kernel for it.
dv_status dv_finish_create(dv_finish **out, const dv_finish_how *how,
                           dv_diag *diag);
// On the box begin..end, of which the reduced variables do not count. `at` as
// for the op; `sums` is where the sum of begin is. They may lie in the result.
void dv_finish_run(const dv_finish *f, void *const *at, const int64_t *begin,
                   const int64_t *end, void *sums);
#endif
