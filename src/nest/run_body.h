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
static void POINT(const walk *w, const REAL *in0, const REAL *in1, REAL *out,
                  int first, int last)
{
    if (first && w->n->first)
        *out = APPLY(w->n->first, *out);
    if (w->main->kind == DV_PRIM_IS_PRODUCT)
        *out += *in0 * *in1;
    else if (w->main->kind == DV_PRIM_IS_UNARY)
        *out = APPLY(w->n->main, *in0);
    else if (w->main->kind == DV_PRIM_IS_BINARY)
        *out = (REAL)dv_fn_apply((dv_fn)w->main->fn, *in0, *in1, 0);
    else
        *out = (REAL)dv_fn_apply((dv_fn)w->main->fn, *out, *in0, 0);
    if (last && w->n->last)
        *out = APPLY(w->n->last, *out);
}

// The loops from one on, of which there is one at least.
static void LOOP(const walk *w, int dim, const REAL *in0, const REAL *in1,
                 REAL *out, int first, int last)
{
    const dv_nest_dim *d = &w->n->dims[dim];
    int k = d->type == DV_NEST_K, innermost = dim + 1 == w->n->n_dims;
    int64_t from, end = turns(w, dim, &from);
    for (int64_t i = 0; i < end; i++) {
        const REAL *x = in0 + i * d->stride[DV_IN0];
        const REAL *y = in1 ? in1 + i * d->stride[DV_IN1] : NULL;
        REAL *z = out + i * d->stride[DV_OUT];
        int is_first = first && (!k || i == 0);
        int is_last = last && (!k || i == end - 1);
        w->at[dim] = from + i * w->tiles->unit[dim];
        if (innermost)
            POINT(w, x, y, z, is_first, is_last);
        else
            LOOP(w, dim + 1, x, y, z, is_first, is_last);
    }
}
