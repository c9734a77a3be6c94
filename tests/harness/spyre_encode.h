// Torch-Spyre's encoding of a division: splits keyed by the stride of a
// variable in the host index, because its loop variables do not outlive a pass.
// Variables of the output are keyed by their stride in the write, reduction
// variables by their stride in the first read; only splits above 1 are listed.
//
//   c[m,n] of 4 columns = sum[k] …, m 4 x n 2 x k 8   ->   {4: 4, 1: 2}, {1: 8}
//
// The encoding is ambiguous: variables with equal strides collide, and a
// reduction variable that is not in the first read has no key. Both are
// reported as errors here. divvy's own plans are keyed by variable.
#ifndef DV_TESTS_SPYRE_ENCODE_H
#define DV_TESTS_SPYRE_ENCODE_H
#include "plan/plan.h"

typedef struct dv_coded {
    int64_t factor, splits;
} dv_coded;

typedef struct dv_encoded {
    dv_coded written[DV_MAX_VARS], reduced[DV_MAX_VARS];
    // Numbers of entries for variables of the output and for reduced variables;
    // both lists are in the order of the variables.
    int n_written, n_reduced;
} dv_encoded;

dv_status dv_encode(dv_encoded *out, const dv_program *p, const dv_op *op,
                    const int64_t *splits, dv_diag *diag);
// Converts Torch-Spyre's encoding, which is keyed by stride, to the number of
// splits of each variable. A stride that no variable or several variables have
// is an error.
dv_status dv_decode(int64_t *splits, const dv_program *p, const dv_op *op,
                    const dv_encoded *e, dv_diag *diag);
#endif
