// Operands of products as kernels want them: the part of a tensor that a tile
// reads, copied together, row after row; in the type that they are multiplied
// in, or in their own narrow type with some variables innermost.
#ifndef DV_WIDEN_H
#define DV_WIDEN_H
#include "jit/vec/vec.h"
#include "exec/exec.h"

typedef struct dv_widen {
    dv_vec_fn copy;
    int32_t n_vars;           // of the op that the operand has
    int32_t var[DV_MAX_VARS]; // outermost first; the last one is the kernel's
    int64_t coef[DV_MAX_VARS];
    int64_t elem_bytes; // as it is stored
    int64_t copy_bytes; // in the copy
} dv_widen;

// What a copy is made of, and what it is to be.
typedef struct dv_widen_how {
    const dv_flat *flat; // as it lies in memory
    int32_t n_vars;      // of the op
    dv_dtype dtype, to;
    const int32_t *last; // variables that go innermost, in this order
    int32_t n_last;
} dv_widen_how;

// 0: it cannot be done.
int dv_widen_init(dv_widen *w, const dv_widen_how *how, dv_jit *jit);
// How far apart elements are in the copy of a box, along each variable of the
// op; and how many there are.
int64_t dv_widen_steps(const dv_widen *w, const int64_t *begin,
                       const int64_t *end, int32_t n_vars, int64_t *steps);
// `from` is where the box begins.
void dv_widen_run(const dv_widen *w, const int64_t *begin, const int64_t *end,
                  const void *from, void *to);
#endif
