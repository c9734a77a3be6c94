// Decides whether an op on integers can be computed in 32 bits with the exact
// result. It always can if only sums and products are formed, y = sum[k] a[k] *
// b[k], because these are exact modulo 2^32. If a value that may not fit is
// compared, y = relu(sum[k] a[k] * b[k]), the answer depends on the actual
// values; each tile is then scanned before it is computed, which costs little
// compared with the reduction.
#ifndef DV_VEC_RANGE_H
#define DV_VEC_RANGE_H
#include "exec/exec.h"

typedef enum dv_vec_fit {
    DV_FITS_NEVER,
    DV_FITS_DEPENDS, // depends on the values: ask dv_vec_op_fits
    DV_FITS_ALL
} dv_vec_fit;
dv_vec_fit dv_vec_op_fit(const dv_program *p, const dv_op *op);

// Returns 1 if 32 bits suffice for the integers that an op computes on the box
// begin..end; for an op with indirect accesses, whose values always fit, if all
// indices are in range. `at` holds the address of element 0 of each read. The
// box must contain the full range of every reduced variable.
int dv_vec_op_fits(const dv_program *p, const dv_kernel *k, void *const *at,
                   const int64_t *begin, const int64_t *end);
// Adds the indirect indices of uniform accesses (dv_access_gathers) to the
// addresses of element 0 of each read and, after them, of the write. All
// indices must be in range.
void dv_vec_op_shift(const dv_program *p, const dv_op *op, void **at);
#endif
