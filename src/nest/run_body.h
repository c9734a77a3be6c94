// The loops of run.c for one type: REAL, and the names APPLY, POINT and LOOP.

static REAL APPLY(dv_prim p, REAL x)
{
    const dv_prim_info *info = dv_prim_get(p);
    double value;
    if (dv_prim_is_const(p, &value))
        return (REAL)value;
    return info->fn < 0 ? x : (REAL)dv_fn_apply((dv_fn)info->fn, x, 0, 0);
}

// One point: the element of out sees what its block sees.
static void POINT(const dv_nest *n, const REAL *in0, const REAL *in1, REAL *out,
                  int first, int last)
{
    dv_fn fn = (dv_fn)dv_prim_get(n->main)->fn;
    if (first && n->first)
        *out = APPLY(n->first, *out);
    if (dv_nest_is_unary(n))
        *out = APPLY(n->main, *in0);
    else if (dv_nest_is_binary(n))
        *out = (REAL)dv_fn_apply(fn, *in0, *in1, 0);
    else if (dv_nest_is_reduce(n))
        *out = (REAL)dv_fn_apply(fn, *out, *in0, 0);
    else
        *out += *in0 * *in1;
    if (last && n->last)
        *out = APPLY(n->last, *out);
}

static void LOOP(const walk *w, int dim, const REAL *in0, const REAL *in1,
                 REAL *out, int first, int last)
{
    if (dim == w->n->n_dims) {
        POINT(w->n, in0, in1, out, first, last);
        return;
    }
    const dv_nest_dim *d = &w->n->dims[dim];
    int k = d->type == DV_NEST_K;
    int64_t from, end = turns(w, dim, &from);
    for (int64_t i = 0; i < end; i++) {
        w->at[dim] = from + i * w->tiles->unit[dim];
        LOOP(w, dim + 1, in0 + i * d->stride[DV_IN0],
             in1 ? in1 + i * d->stride[DV_IN1] : NULL,
             out + i * d->stride[DV_OUT], first && (!k || i == 0),
             last && (!k || i == end - 1));
    }
}
