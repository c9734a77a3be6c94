#include "harness/nest_eval.h"

static dv_status eval(const dv_nest *n, const void *in0, const void *in1,
                      void *out)
{
    void *const at[DV_MAX_OPERANDS] = {[DV_IN0] = (void *)(uintptr_t)in0,
                                       [DV_IN1] = (void *)(uintptr_t)in1,
                                       [DV_OUT] = out};
    return dv_nest_eval(n, at, NULL);
}

static int is_large(const dv_nest *n)
{
    double points = 1;
    for (int i = 0; i < n->n_dims; i++)
        points *= (double)n->dims[i].size;
    return dv_nest_is_product(n) && n->dtype == DV_F32 &&
           dv_nest_is_of_one_type(n) && !n->mean && points > 1 << 14;
}

// Applies the prologue or epilogue to every element of out.
static dv_status apply(const dv_nest *n, dv_prim p, void *out)
{
    dv_nest f = {.name = "touch", .dtype = n->dtype, .main = p};
    if (p == DV_PRIM_NONE)
        return DV_OK;
    f.dims[f.n_dims++] = (dv_nest_dim){
        .type = DV_NEST_C, .exec = DV_NEST_SEQ, .size = 1, .stride = {1, 0, 1}};
    for (int i = 0; i < n->n_dims; i++) {
        dv_nest_dim d = n->dims[i];
        if (d.type == DV_NEST_K)
            continue;
        d.type = DV_NEST_C;
        d.stride[DV_IN0] = d.stride[DV_OUT];
        d.stride[DV_IN1] = 0;
        f.dims[f.n_dims++] = d;
    }
    return eval(&f, out, NULL, out);
}

static void add_products(const dv_nest *n, int dim, const float *in0,
                         const float *in1, float *out)
{
    if (dim == n->n_dims) {
        *out += *in0 * *in1;
        return;
    }
    const dv_nest_dim *d = &n->dims[dim];
    for (int64_t i = 0; i < d->size; i++)
        add_products(n, dim + 1, in0 + i * d->stride[DV_IN0],
                     in1 + i * d->stride[DV_IN1], out + i * d->stride[DV_OUT]);
}

dv_status eval_nest(const dv_nest *n, const void *in0, const void *in1,
                    void *out)
{
    dv_nest all = *n;
    if (!is_large(n))
        return eval(n, in0, in1, out);
    DV_TRY(dv_nest_check(n, NULL));
    dv_nest_untile(&all);
    DV_TRY(apply(&all, n->first, out));
    add_products(&all, 0, in0, in1, out);
    return apply(&all, n->last, out);
}
