// Orders the dims of operands as they lie in memory.
//
//   "ij,jk->ik", x0 with strides 1, 8    x0 is read as "ji" with strides 8, 1
//
// A transposed operand thereby costs nothing: plan and kernels are made for the
// rows that are there. Rows that are apart (slices of larger arrays) keep their
// strides, for which kernels are generated.
#include "einsum/einsum.h"
#include "ir/program.h"
#include <stdlib.h>

// Sorts the dims by descending strides; dims of the same stride, and those of
// extent 1, whose stride means nothing, keep their places. Returns 1 if an
// order other than the caller's is found.
static int sort_dims(const dv_array *x, int8_t *order)
{
    int n_long = 0, moved = 0;
    int8_t place[DV_MAX_DIMS], dims[DV_MAX_DIMS];
    for (int d = 0; d < x->n_dims; d++) {
        order[d] = (int8_t)d;
        if (x->shape[d] == 1)
            continue;
        place[n_long] = (int8_t)d;
        int k = n_long++;
        while (k > 0 && llabs(x->strides[dims[k - 1]]) < llabs(x->strides[d])) {
            dims[k] = dims[k - 1];
            k--;
        }
        dims[k] = (int8_t)d;
    }
    for (int k = 0; k < n_long; k++) {
        order[place[k]] = dims[k];
        moved |= place[k] != dims[k];
    }
    return moved;
}

static void permute_term(dv_einsum_term *t, const int8_t *order)
{
    dv_einsum_term old = *t;
    for (int d = 0; d < t->n_dims; d++) {
        t->id[d] = old.id[order[d]];
        t->at[d] = old.at[order[d]];
    }
}

// Returns whether an operand is row-major.
static int is_dense(const dv_array *x)
{
    int64_t dense[DV_MAX_DIMS];
    dv_row_strides(x->n_dims, x->shape, dense);
    for (int d = 0; d < x->n_dims; d++)
        if (x->shape[d] != 1 && x->strides[d] != dense[d])
            return 0;
    return 1;
}

static dv_status lay_out_one(dv_einsum_core *c, size_t i, const dv_array *in,
                             dv_diag *diag)
{
    int n = in->n_dims;
    int64_t *given = DV_NEW(&c->arena, int64_t, n);
    int64_t *shape = DV_NEW(&c->arena, int64_t, n);
    int64_t *strides = DV_NEW(&c->arena, int64_t, n);
    int8_t *order = DV_NEW(&c->arena, int8_t, DV_MAX_DIMS);
    if (!given || !shape || !strides || !order)
        return dv_nomem(diag);
    int moves = in->strides && !c->f.is_tree && sort_dims(in, order);
    for (int d = 0; d < n; d++) {
        int from = moves ? order[d] : d;
        given[d] = in->shape[d];
        shape[d] = in->shape[from];
        strides[d] = in->strides ? in->strides[from] : 0;
    }
    if (moves)
        permute_term(&c->f.in[i], order);
    c->in[i] = (dv_array){in->dtype, n, shape, strides, NULL};
    int dense = !in->strides || is_dense(&c->in[i]);
    c->in[i].strides = NULL;
    c->layouts[i] = (dv_operand_layout){given, dense ? NULL : strides,
                                        moves ? order : NULL};
    return DV_OK;
}

dv_status dv_einsum_lay_out(dv_einsum_core *c, const dv_array *in,
                            dv_diag *diag)
{
    size_t n = (size_t)c->f.n_in;
    c->in = DV_NEW(&c->arena, dv_array, n);
    c->layouts = DV_NEW(&c->arena, dv_operand_layout, n);
    if (!c->in || !c->layouts)
        return dv_nomem(diag);
    for (size_t i = 0; i < n; i++)
        DV_TRY(lay_out_one(c, i, &in[i], diag));
    return DV_OK;
}
