// Collapses dimensions by their strides, wherever they stand and however large
// they become, so that only the dimensions that memory really has remain.
//
//   m 20: in0 480, out 24      ->   m 400: in0 480, out 24
//   n 24: in1 1, out 9600           n  24: in1 1, out 9600
//   m 20: in0 9600, out 480
#include "nest/nest.h"
#include "base/math.h"

// Returns whether a dimension can be dropped: its size is 1, and it is not the
// only one with a stride in in1, by which a product shows that it reads in1.
static int is_idle(const dv_nest *n, int i)
{
    int others = 0;
    for (int j = 0; j < n->n_dims; j++)
        others += j != i && n->dims[j].stride[DV_IN1] != 0;
    if (n->dims[i].type == DV_NEST_K && n->k_order == DV_K_AS_IT_IS)
        return 0;
    return n->dims[i].size == 1 && n->n_dims > 1 &&
           (others || !dv_nest_is_product(n));
}

// Collapses one pair of dimensions into one, if a step of the first spans all
// of the second in every operand. Returns 0 if there is no such pair.
static int join_some(dv_nest *n)
{
    for (int i = 0; i < n->n_dims; i++)
        for (int j = 0; j < n->n_dims; j++) {
            dv_nest_dim *outer = &n->dims[i], *inner = &n->dims[j];
            int64_t size;
            if (i == j || outer->type != inner->type ||
                (outer->type == DV_NEST_K && n->k_order != DV_K_FREE) ||
                !dv_nest_can_collapse(outer, inner) ||
                !dv_mul_i64(&size, outer->size, inner->size) ||
                size > DV_NEST_MAX_SIZE)
                continue;
            inner->size = size;
            inner->vars |= outer->vars;
            dv_nest_drop(n, i);
            return 1;
        }
    return 0;
}

dv_status dv_nest_join(dv_nest *n, const dv_nest_options *options,
                       dv_diag *diag)
{
    (void)options;
    (void)diag;
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].type != DV_NEST_K || n->k_order != DV_K_AS_IT_IS)
            n->dims[i].exec = DV_NEST_SEQ;
    for (int i = n->n_dims - 1; i >= 0; i--)
        if (is_idle(n, i))
            dv_nest_drop(n, i);
    // If the output is written through an indirect index, the order of loops is
    // kept, because the last of several writes to one element must win.
    while (n->look != 1 + DV_OUT && join_some(n))
        ;
    return DV_OK;
}
