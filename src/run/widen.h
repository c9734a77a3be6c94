// Operands of products in a wider type: the part of a tensor that a tile reads,
// copied together in f32, row after row.
#ifndef DV_WIDEN_H
#define DV_WIDEN_H
#include "jit/vec.h"
#include "run/run.h"

typedef struct dv_widen {
    dv_vec_fn copy;
    int32_t n_vars;           // of the op that the operand has
    int32_t var[DV_MAX_VARS]; // outermost first; the last one is the kernel's
    int64_t coef[DV_MAX_VARS];
    int64_t elem_bytes; // as it is stored
} dv_widen;

// For an operand of this dtype, as it lies in memory. 0: it cannot be done.
int dv_widen_init(dv_widen *w, const dv_flat *flat, int32_t n_vars,
                  dv_dtype dtype, dv_jit *jit);
// How far apart elements are in the copy of a box, along each variable of the
// op; and how many there are.
int64_t dv_widen_steps(const dv_widen *w, const int64_t *begin,
                       const int64_t *end, int32_t n_vars, int64_t *steps);
// `from` is where the box begins.
void dv_widen_run(const dv_widen *w, const int64_t *begin, const int64_t *end,
                  const void *from, float *to);
#endif
