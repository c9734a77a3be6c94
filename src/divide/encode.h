// Torch-Spyre's way to write a division down: splits keyed by the factor that
// a variable has in the host index, since its loop variables do not outlive a
// pass. Written variables by their factor in the write, reduced ones by that in
// the first read; only splits above 1.
//
//   c[m,n] of 4 columns = sum[k] …, m 4 x n 2 x k 8   ->   {4: 4, 1: 2}, {1: 8}
//
// The form loses divisions: variables with equal factors collide, and a
// reduced variable that the first read does not have cannot be named. Both are
// reported here, never passed over. divvy itself keys by variable.
#ifndef DV_ENCODE_H
#define DV_ENCODE_H
#include "plan/plan.h"

typedef struct dv_coded {
    int64_t factor, splits;
} dv_coded;

typedef struct dv_encoded {
    dv_coded written[DV_MAX_VARS], reduced[DV_MAX_VARS];
    int n_written, n_reduced; // in order of the variables
} dv_encoded;

dv_status dv_encode(dv_encoded *out, const dv_program *p, const dv_op *op,
                    const int64_t *splits, dv_diag *diag);
// Splits per variable; a factor that no variable has, or that several have, is
// an error.
dv_status dv_decode(int64_t *splits, const dv_program *p, const dv_op *op,
                    const dv_encoded *e, dv_diag *diag);
#endif
