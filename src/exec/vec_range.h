// Can an op on integers be computed in 32 bits, with the exact result? By the
// types of what it reads it can where nothing but sums and products is made of
// them: y = sum[k] a[k] * b[k]. Where something compares what need not fit, it
// depends on the values that there are: y = relu(sum[k] a[k] * b[k]). A tile
// is looked at then before it is computed, which takes little beside a sum.
#ifndef DV_VEC_RANGE_H
#define DV_VEC_RANGE_H
#include "exec/exec.h"

typedef enum dv_vec_fit {
    DV_FITS_NEVER,
    DV_FITS_SOME, // ask dv_vec_op_fits
    DV_FITS_ALL
} dv_vec_fit;
dv_vec_fit dv_vec_op_fit(const dv_program *p, const dv_op *op);

// Does it fit with what the box begin..end of an op reads? Of one whose reads
// go by indices, whose values always fit: are these in range? `at` has where
// element 0 of each read's tensor is. The box has all that is reduced.
int dv_vec_op_fits(const dv_program *p, const dv_kernel *k, void *const *at,
                   const int64_t *begin, const int64_t *end);
#endif
