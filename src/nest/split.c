// The passes split, which cuts large dimensions in two, and fuse, which
// collapses small neighbouring dimensions into one.
//
//   split  m 1600: in0 1      ->  m 40: in0 40, m 40: in0 1
//   fuse   n 5: out 32768, n 32: out 1024  ->  n 160: out 1024
//
// A dimension of size 256 is split into 16 times 16 and fused again, so that
// splitting takes effect only above 256.
#include "nest/nest.h"
#include "base/math.h"
#include <string.h>

// Returns the largest divisor of `size` that is at most its square root, or 1.
static int64_t divisor(int64_t size)
{
    int64_t best = 1;
    for (int64_t d = 2; d <= size / d; d++)
        if (size % d == 0)
            best = d;
    return best;
}

// Splits large dimensions, except those that are already inside the kernel
// (prim). mini_jit, the compiler whose pass this is, splits these as well, is
// then left with two m dimensions in the kernel, and so refuses every composite
// size above 256 inside a kernel.
dv_status dv_nest_split(dv_nest *n, const dv_nest_options *options,
                        dv_diag *diag)
{
    (void)options;
    for (int i = 0; i < n->n_dims; i++) {
        dv_nest_dim *d = &n->dims[i];
        int64_t outer = d->size >= DV_NEST_FUSE_LIMIT && d->exec != DV_NEST_PRIM
                            ? divisor(d->size)
                            : 1;
        if (outer == 1)
            continue;
        if (n->n_dims == DV_NEST_MAX_DIMS)
            return dv_fail(diag, DV_E_LIMIT, (dv_loc){n->src, d->off},
                           "splitting dimension %d makes more than %d", i,
                           (int)DV_NEST_MAX_DIMS);
        memmove(d + 1, d, (size_t)(n->n_dims - i) * sizeof *d);
        n->n_dims++;
        d[1].size /= outer;
        d[0].size = outer;
        // The product does not overflow, because the extents of the nest are
        // larger and were checked.
        for (int o = 0; o < DV_MAX_OPERANDS; o++)
            d[0].stride[o] *= d[1].size;
        i++; // the two parts are not split again
    }
    return DV_OK;
}

// Collapses neighbouring dimensions of one type. The one with the smaller
// strides grows and keeps its execution, even if the executions of the two
// differ.
dv_status dv_nest_fuse(dv_nest *n, const dv_nest_options *options,
                       dv_diag *diag)
{
    (void)options;
    (void)diag;
    for (int i = 0; i + 1 < n->n_dims && n->n_dims > 2;) {
        dv_nest_dim *d = &n->dims[i];
        int64_t size = 0;
        int down = dv_nest_can_collapse(&d[0], &d[1]);
        // If the output is written through an indirect index, loops must not be
        // exchanged, because the last of several writes to one element must
        // win.
        int up = n->look != 1 + DV_OUT && dv_nest_can_collapse(&d[1], &d[0]);
        if (d[0].type != d[1].type || (!down && !up) ||
            !dv_mul_i64(&size, d[0].size, d[1].size) ||
            size > DV_NEST_FUSE_LIMIT) {
            i++;
            continue;
        }
        if (down)
            d[0] = d[1];
        d[0].size = size;
        dv_nest_drop(n, i + 1);
    }
    return DV_OK;
}
