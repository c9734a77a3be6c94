// Reductions over dims, and what is made of them: softmax, normalisations,
// argmax and argmin.
#include "base/dtype.h"
#include "base/plural.h"
#include "onnx/import.h"
#include <math.h>
#include <string.h>

// A loop that reduces some dims of the value x.
typedef struct reduction {
    dv_on_loop l;
    dv_on_value *x;
    int axes[DV_MAX_DIMS];    // one per dim of x
    int reduced[DV_MAX_DIMS]; // axes
    int n_reduced;
    unsigned mask; // reduced dims
} reduction;

static dv_status begin(reduction *r, dv_on *cx, dv_on_value *x, unsigned mask)
{
    r->x = x;
    r->mask = mask;
    r->n_reduced = 0;
    dv_on_loop_begin(&r->l, cx);
    DV_TRY(dv_on_over(&r->l, x, r->axes));
    for (int d = 0; d < x->n_dims; d++)
        if (mask >> d & 1)
            r->reduced[r->n_reduced++] = r->axes[d];
    return DV_OK;
}

static dv_term over(reduction *r, const char *reducer, dv_term body)
{
    return dv_on_reduce(&r->l, reducer, body, r->n_reduced, r->reduced);
}

// Defines `to` over the dims that are not reduced; with `keep_dims`, the
// reduced ones become dims of size 1.
static dv_status keep(reduction *r, dv_on_value *to, dv_dtype t, int keep_dims,
                      dv_term value)
{
    int axes[DV_MAX_DIMS], n = 0;
    for (int d = 0; d < r->x->n_dims; d++) {
        int gone = r->mask >> d & 1;
        if (!gone || keep_dims)
            axes[n++] = gone ? -1 : r->axes[d];
    }
    return dv_on_define(&r->l, to, t, 0, n, axes, value);
}

// Makes *to the reduction of x over the dims of the mask, which become dims of
// size 1.
static dv_status reduce_to(dv_on *cx, dv_on_value **to, const char *hint,
                           dv_on_value *x, unsigned mask, const char *reducer)
{
    reduction r;
    *to = dv_on_temp(cx, hint);
    if (!*to)
        return DV_E_NOMEM;
    DV_TRY(begin(&r, cx, x, mask));
    dv_on_start(&r.l);
    return keep(&r, *to, x->dtype, 1,
                over(&r, reducer, dv_on_read(&r.l, x, r.axes)));
}

// -- Reduce* -----------------------------------------------------------------

static dv_status reduced_dims(dv_on *cx, const dv_onnx_node *n,
                              const dv_on_value *x, unsigned *mask)
{
    dv_on_value *v = dv_on_in(cx, n, 1);
    const int64_t *list = NULL;
    int count = 0, axis;
    *mask = 0;
    if (v)
        DV_TRY(dv_on_get_ints(cx, v, "axes", &list, &count));
    else
        list = dv_on_ints(n, "axes", &count);
    for (int i = 0; i < count; i++) {
        DV_TRY(dv_on_norm_axis(cx, list[i], x->n_dims, &axis));
        *mask |= 1u << axis;
    }
    if (!count && !dv_on_int(n, "noop_with_empty_axes", 0))
        *mask = (1u << x->n_dims) - 1;
    return DV_OK;
}

// Defines the logarithm of a sum of exponentials; the maximum is subtracted
// from the exponents so that they do not overflow.
static dv_status log_sum_exp(dv_on *cx, dv_on_value *out, dv_on_value *x,
                             unsigned mask, int keep_dims)
{
    dv_on_value *m;
    reduction r;
    DV_TRY(reduce_to(cx, &m, "most", x, mask, "max"));
    DV_TRY(begin(&r, cx, x, mask));
    DV_TRY(dv_on_use(&r.l, m, r.axes));
    dv_on_start(&r.l);
    dv_term top = dv_on_read(&r.l, m, r.axes);
    // If the maximum is infinite, subtract 0 instead, because inf - inf is NaN.
    dv_term shift = dv_on_3(
        cx, "select",
        dv_on_2(cx, "<", dv_on_1(cx, "abs", top), dv_on_f(cx, INFINITY)), top,
        dv_on_f(cx, 0));
    dv_term e = dv_on_1(cx, "exp",
                        dv_on_2(cx, "-", dv_on_read(&r.l, x, r.axes), shift));
    dv_term y = dv_on_2(cx, "+", dv_on_1(cx, "log", over(&r, "sum", e)), shift);
    return keep(&r, out, x->dtype, keep_dims, y);
}

dv_status dv_on_op_reduce(dv_on *cx, const dv_onnx_node *n)
{
    reduction r;
    unsigned mask;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    const char *k = n->type + strlen("Reduce");
    int keep_dims = dv_on_int(n, "keepdims", 1) != 0;
    DV_TRY(reduced_dims(cx, n, x, &mask));
    if (!out)
        return DV_E_NOMEM;
    if (!strcmp(k, "LogSumExp"))
        return log_sum_exp(cx, out, x, mask, keep_dims);
    DV_TRY(begin(&r, cx, x, mask));
    dv_on_start(&r.l);
    dv_term t = dv_on_read(&r.l, x, r.axes);
    if (!strcmp(k, "L1"))
        t = dv_on_1(cx, "abs", t);
    if (!strcmp(k, "L2") || !strcmp(k, "SumSquare"))
        t = dv_on_2(cx, "*", t, t);
    const char *reducer = !strcmp(k, "Max")    ? "max"
                          : !strcmp(k, "Min")  ? "min"
                          : !strcmp(k, "Mean") ? "mean"
                          : !strcmp(k, "Prod") ? "prod"
                                               : "sum";
    t = over(&r, reducer, t);
    if (!strcmp(k, "L2"))
        t = dv_on_1(cx, "sqrt", t);
    if (!strcmp(k, "LogSum"))
        t = dv_on_1(cx, "log", t);
    return keep(&r, out, x->dtype, keep_dims, t);
}

// -- Softmax -----------------------------------------------------------------

// Sets the mask of dims over which softmax normalises: one dim since opset 13,
// before that all from the axis on.
static dv_status softmax_dims(dv_on *cx, const dv_onnx_node *n,
                              const dv_on_value *x, unsigned *mask)
{
    int axis, old = cx->opset < 13;
    DV_TRY(dv_on_norm_axis(cx, dv_on_int(n, "axis", old ? 1 : -1), x->n_dims,
                           &axis));
    *mask = old ? ((1u << x->n_dims) - 1) & ~((1u << axis) - 1) : 1u << axis;
    return DV_OK;
}

dv_status dv_on_softmax_of(dv_on *cx, dv_on_value *out, dv_on_value *x,
                           unsigned mask, int is_log)
{
    dv_on_value *m, *s, *e = dv_on_temp(cx, "e");
    reduction r;
    if (!e)
        return DV_E_NOMEM;
    DV_TRY(reduce_to(cx, &m, "most", x, mask, "max"));
    DV_TRY(begin(&r, cx, x, mask));
    DV_TRY(dv_on_use(&r.l, m, r.axes));
    dv_on_start(&r.l);
    dv_term d = dv_on_2(cx, "-", dv_on_read(&r.l, x, r.axes),
                        dv_on_read(&r.l, m, r.axes));
    DV_TRY(dv_on_define(&r.l, e, x->dtype, 0, x->n_dims, r.axes,
                        is_log ? d : dv_on_1(cx, "exp", d)));
    s = dv_on_temp(cx, "s");
    if (!s)
        return DV_E_NOMEM;
    DV_TRY(begin(&r, cx, e, mask));
    dv_on_start(&r.l);
    d = dv_on_read(&r.l, e, r.axes);
    DV_TRY(keep(&r, s, x->dtype, 1,
                over(&r, "sum", is_log ? dv_on_1(cx, "exp", d) : d)));
    DV_TRY(begin(&r, cx, e, mask));
    DV_TRY(dv_on_use(&r.l, s, r.axes));
    dv_on_start(&r.l);
    d = dv_on_read(&r.l, e, r.axes);
    dv_term total = dv_on_read(&r.l, s, r.axes);
    return dv_on_define(&r.l, out, x->dtype, 0, x->n_dims, r.axes,
                        is_log ? dv_on_2(cx, "-", d, dv_on_1(cx, "log", total))
                               : dv_on_2(cx, "/", d, total));
}

dv_status dv_on_softmax(dv_on *cx, const dv_onnx_node *n)
{
    unsigned mask;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    DV_TRY(softmax_dims(cx, n, x, &mask));
    return out ? dv_on_softmax_of(cx, out, x, mask,
                                  !strcmp(n->type, "LogSoftmax"))
               : DV_E_NOMEM;
}

// -- Normalisations ----------------------------------------------------------

// A scale or shift, and for each of its dims the dim (axis) of x along which it
// runs.
typedef struct factor {
    dv_on_value *v;
    int axes[DV_MAX_DIMS];
} factor;

// Makes the mean and 1 / sqrt(variance + epsilon) of x over the dims of the
// mask, which become dims of size 1. With `rms`, the mean counts as 0, and
// *mean is NULL.
static dv_status moments(dv_on *cx, dv_on_value *x, unsigned mask,
                         double epsilon, int rms, dv_on_value **mean,
                         dv_on_value **scale)
{
    reduction r;
    *mean = NULL;
    *scale = dv_on_temp(cx, "scale");
    if (!*scale)
        return DV_E_NOMEM;
    if (!rms)
        DV_TRY(reduce_to(cx, mean, "mean", x, mask, "mean"));
    DV_TRY(begin(&r, cx, x, mask));
    if (*mean)
        DV_TRY(dv_on_use(&r.l, *mean, r.axes));
    dv_on_start(&r.l);
    dv_term d = dv_on_read(&r.l, x, r.axes);
    if (*mean)
        d = dv_on_2(cx, "-", d, dv_on_read(&r.l, *mean, r.axes));
    dv_term v = over(&r, "mean", dv_on_2(cx, "*", d, d));
    return keep(
        &r, *scale, x->dtype, 1,
        dv_on_1(cx, "rsqrt", dv_on_2(cx, "+", v, dv_on_f(cx, epsilon))));
}

// Defines out = (x - mean) * scale * g + b, where mean, g and b may be missing.
static dv_status scale_shift(dv_on *cx, dv_on_value *out, dv_on_value *x,
                             dv_on_value *mean, dv_on_value *scale, factor *g,
                             factor *b)
{
    reduction r;
    DV_TRY(begin(&r, cx, x, 0));
    if (mean)
        DV_TRY(dv_on_use(&r.l, mean, r.axes));
    DV_TRY(dv_on_use(&r.l, scale, r.axes));
    if (g->v)
        DV_TRY(dv_on_use(&r.l, g->v, g->axes));
    if (b->v)
        DV_TRY(dv_on_use(&r.l, b->v, b->axes));
    dv_on_start(&r.l);
    dv_term y = dv_on_read(&r.l, x, r.axes);
    if (mean)
        y = dv_on_2(cx, "-", y, dv_on_read(&r.l, mean, r.axes));
    y = dv_on_2(cx, "*", y, dv_on_read(&r.l, scale, r.axes));
    if (g->v)
        y = dv_on_2(cx, "*", y, dv_on_read(&r.l, g->v, g->axes));
    if (b->v)
        y = dv_on_2(cx, "+", y, dv_on_read(&r.l, b->v, b->axes));
    return dv_on_define(&r.l, out, x->dtype, 0, x->n_dims, r.axes, y);
}

// Returns a factor whose dims run along the last dims of x.
static factor trailing(dv_on_value *v, const dv_on_value *x)
{
    factor f = {v, {0}};
    for (int d = 0; v && d < v->n_dims; d++)
        f.axes[d] = d + x->n_dims - v->n_dims;
    return f;
}

// Returns a factor with one dim, which runs along dim 1 of x (the channels).
static factor of_channel(dv_on_value *v)
{
    return (factor){v, {1}};
}

// Makes v the node's output number i, if the node has that output; fails if v
// is NULL, which means that the output is not supported.
static dv_status extra(dv_on *cx, const dv_onnx_node *n, int i,
                       const dv_on_value *v)
{
    if (!dv_on_has_out(n, i))
        return DV_OK;
    if (!v)
        return dv_on_refuse(cx, "output %d is not supported", i);
    dv_on_value *out = dv_on_out(cx, n, i);
    if (!out)
        return DV_E_NOMEM;
    dv_on_same(out, v);
    return DV_OK;
}

dv_status dv_on_layer_norm(dv_on *cx, const dv_onnx_node *n)
{
    int axis,
        rms = strstr(n->type, "Simplified") || !strncmp(n->type, "RMS", 3);
    dv_on_value *mean, *scale;
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    DV_TRY(dv_on_norm_axis(cx, dv_on_int(n, "axis", -1), x->n_dims, &axis));
    unsigned mask = ((1u << x->n_dims) - 1) & ~((1u << axis) - 1);
    DV_TRY(moments(cx, x, mask, dv_on_float(n, "epsilon", 1e-5), rms, &mean,
                   &scale));
    DV_TRY(extra(cx, n, 1, rms ? scale : mean));
    if (!rms)
        DV_TRY(extra(cx, n, 2, scale));
    factor g = trailing(dv_on_in(cx, n, 1), x);
    factor b = trailing(rms ? NULL : dv_on_in(cx, n, 2), x);
    return out ? scale_shift(cx, out, x, mean, scale, &g, &b) : DV_E_NOMEM;
}

dv_status dv_on_skip_layer_norm(dv_on *cx, const dv_onnx_node *n)
{
    int rms = strstr(n->type, "Simplified") != NULL, axes[DV_MAX_DIMS];
    dv_on_loop l;
    dv_term t[3];
    dv_on_value *mean, *scale, *x = dv_on_temp(cx, "sum"), *v[3];
    DV_TRY(dv_on_need(cx, n, 3));
    dv_on_value *out = dv_on_out(cx, n, 0);
    dv_on_value *bias = dv_on_in(cx, n, rms ? 3 : 4);
    v[0] = dv_on_in(cx, n, 0);
    v[1] = dv_on_in(cx, n, 1);
    v[2] = bias;
    if (!x || !out)
        return DV_E_NOMEM;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, v, bias ? 3 : 2, t));
    dv_term y = dv_on_2(cx, "+", t[0], t[1]);
    memcpy(axes, l.out, sizeof axes);
    DV_TRY(dv_on_define(&l, x, v[0]->dtype, 0, l.n_out, axes,
                        bias ? dv_on_2(cx, "+", y, t[2]) : y));
    DV_TRY(moments(cx, x, 1u << (x->n_dims - 1),
                   dv_on_float(n, "epsilon", 1e-12), rms, &mean, &scale));
    DV_TRY(extra(cx, n, 1, mean));
    DV_TRY(extra(cx, n, 2, scale));
    DV_TRY(extra(cx, n, 3, x));
    factor g = trailing(dv_on_in(cx, n, 2), x);
    factor b = trailing(rms ? NULL : dv_on_in(cx, n, 3), x);
    return scale_shift(cx, out, x, mean, scale, &g, &b);
}

dv_status dv_on_instance_norm(dv_on *cx, const dv_onnx_node *n)
{
    dv_on_value *mean, *scale;
    DV_TRY(dv_on_need(cx, n, 3));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    if (x->n_dims < 3)
        return dv_on_refuse(cx, "its input has %d dim%s", x->n_dims,
                            DV_PLURAL(x->n_dims, "", "s"));
    DV_TRY(moments(cx, x, ((1u << x->n_dims) - 1) & ~3u,
                   dv_on_float(n, "epsilon", 1e-5), 0, &mean, &scale));
    factor g = of_channel(dv_on_in(cx, n, 1));
    factor b = of_channel(dv_on_in(cx, n, 2));
    return out ? scale_shift(cx, out, x, mean, scale, &g, &b) : DV_E_NOMEM;
}

dv_status dv_on_group_norm(dv_on *cx, const dv_onnx_node *n)
{
    int64_t dims[DV_MAX_DIMS], groups = dv_on_int(n, "num_groups", 0);
    dv_on_value *mean, *scale, *split = dv_on_temp(cx, "groups"), *g, *b;
    DV_TRY(dv_on_need(cx, n, 3));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    dv_on_value *made = dv_on_temp(cx, "normalised");
    if (!split || !out || !made)
        return DV_E_NOMEM;
    if (x->n_dims < 2 || x->n_dims == DV_MAX_DIMS || groups < 1 ||
        x->dims[1] % groups)
        return dv_on_refuse(cx, "num_groups does not divide the channels");
    dims[0] = x->dims[0];
    dims[1] = groups;
    dims[2] = x->dims[1] / groups;
    for (int d = 2; d < x->n_dims; d++)
        dims[d + 1] = x->dims[d];
    DV_TRY(dv_on_reshape(cx, split, x, x->n_dims + 1, dims));
    DV_TRY(moments(cx, split, ((1u << split->n_dims) - 1) & ~3u,
                   dv_on_float(n, "epsilon", 1e-5), 0, &mean, &scale));
    // Since opset 21 scale and shift are per channel, before that per group.
    int by_group = cx->opset < 21;
    g = dv_on_in(cx, n, 1);
    b = dv_on_in(cx, n, 2);
    dv_on_value *views[2] = {dv_on_temp(cx, g->name), dv_on_temp(cx, b->name)};
    if (!views[0] || !views[1])
        return DV_E_NOMEM;
    int64_t fine[] = {groups, by_group ? 1 : dims[2]};
    DV_TRY(dv_on_reshape(cx, views[0], g, 2, fine));
    DV_TRY(dv_on_reshape(cx, views[1], b, 2, fine));
    factor p = {views[0], {1, 2}}, q = {views[1], {1, 2}};
    DV_TRY(scale_shift(cx, made, split, mean, scale, &p, &q));
    return dv_on_reshape(cx, out, made, x->n_dims, x->dims);
}

dv_status dv_on_mvn(dv_on *cx, const dv_onnx_node *n)
{
    static const int64_t usual[] = {0, 2, 3};
    int count, axis;
    unsigned mask = 0;
    dv_on_value *mean, *scale;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    const int64_t *list = dv_on_ints(n, "axes", &count);
    for (int i = 0; i < (list ? count : 3); i++) {
        DV_TRY(
            dv_on_norm_axis(cx, list ? list[i] : usual[i], x->n_dims, &axis));
        mask |= 1u << axis;
    }
    // The operator divides by (deviation + 1e-9), which is close to
    // sqrt(variance + 1e-18).
    DV_TRY(moments(cx, x, mask, 1e-18, 0, &mean, &scale));
    factor none = {0};
    return out ? scale_shift(cx, out, x, mean, scale, &none, &none)
               : DV_E_NOMEM;
}

// Defines y = (x - mean) * rsqrt(variance + epsilon) * scale + shift.
static dv_status batch_norm_with(dv_on *cx, dv_on_value *out, dv_on_value *x,
                                 dv_on_value *const *v, double epsilon)
{
    reduction r;
    int channel[] = {1};
    dv_term t[4];
    DV_TRY(begin(&r, cx, x, 0));
    for (int i = 0; i < 4; i++)
        DV_TRY(dv_on_use(&r.l, v[i], channel));
    dv_on_start(&r.l);
    for (int i = 0; i < 4; i++)
        t[i] = dv_on_read(&r.l, v[i], channel);
    dv_term d = dv_on_2(cx, "-", dv_on_read(&r.l, x, r.axes), t[2]);
    dv_term s = dv_on_2(
        cx, "*",
        dv_on_1(cx, "rsqrt", dv_on_2(cx, "+", t[3], dv_on_f(cx, epsilon))),
        t[0]);
    return dv_on_define(&r.l, out, x->dtype, 0, x->n_dims, r.axes,
                        dv_on_2(cx, "+", dv_on_2(cx, "*", d, s), t[1]));
}

// Defines a batch normalisation whose scale, shift, mean and variance are known
// at import: folds them into one factor and one addend.
static dv_status batch_norm_known(dv_on *cx, dv_on_value *out, dv_on_value *x,
                                  dv_on_value *const *v, double epsilon)
{
    const double *list[4];
    int n = 0;
    for (int i = 0; i < 4; i++)
        DV_TRY(dv_on_get_floats(cx, v[i], "scale", &list[i], &n));
    double *a = DV_NEW(cx->arena, double, 2 * n + 1), *b = a ? a + n : NULL;
    if (!a)
        return dv_nomem(cx->diag);
    for (int i = 0; i < n; i++) {
        a[i] = list[0][i] / sqrt(list[3][i] + epsilon);
        b[i] = list[1][i] - list[2][i] * a[i];
    }
    int64_t size = n;
    dv_on_value *g = dv_on_const_floats(cx, v[0]->name, x->dtype, 1, &size, a);
    dv_on_value *h = dv_on_const_floats(cx, v[1]->name, x->dtype, 1, &size, b);
    reduction r;
    int channel[] = {1};
    if (!g || !h)
        return DV_E_NOMEM;
    DV_TRY(begin(&r, cx, x, 0));
    DV_TRY(dv_on_use(&r.l, g, channel));
    DV_TRY(dv_on_use(&r.l, h, channel));
    dv_on_start(&r.l);
    dv_term y = dv_on_2(cx, "*", dv_on_read(&r.l, x, r.axes),
                        dv_on_read(&r.l, g, channel));
    return dv_on_define(&r.l, out, x->dtype, 0, x->n_dims, r.axes,
                        dv_on_2(cx, "+", y, dv_on_read(&r.l, h, channel)));
}

// Defines a running mean or variance: old * momentum + now * (1 - momentum).
static dv_status running(dv_on *cx, const dv_onnx_node *n, int output,
                         dv_on_value *old, dv_on_value *now, double momentum)
{
    dv_on_loop l;
    int axes[1];
    if (!dv_on_has_out(n, output))
        return DV_OK;
    dv_on_value *out = dv_on_out(cx, n, output);
    if (!out)
        return DV_E_NOMEM;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, old, axes));
    DV_TRY(dv_on_use(&l, now, axes));
    dv_on_start(&l);
    dv_term y = dv_on_2(
        cx, "+",
        dv_on_2(cx, "*", dv_on_read(&l, old, axes), dv_on_f(cx, momentum)),
        dv_on_2(cx, "*", dv_on_read(&l, now, axes), dv_on_f(cx, 1 - momentum)));
    return dv_on_define(&l, out, old->dtype, 0, 1, axes, y);
}

// Defines batch normalisation in training mode, where mean and variance are
// those of the batch.
static dv_status batch_norm_training(dv_on *cx, const dv_onnx_node *n,
                                     dv_on_value *out, dv_on_value **v,
                                     double epsilon)
{
    reduction r;
    dv_on_value *x = dv_on_in(cx, n, 0), *mean, *var = dv_on_temp(cx, "var");
    dv_on_value *flat[2] = {dv_on_temp(cx, "mean"), dv_on_temp(cx, "var")};
    double momentum = dv_on_float(n, "momentum", 0.9);
    unsigned mask = ((1u << x->n_dims) - 1) & ~2u;
    if (!var || !flat[0] || !flat[1])
        return DV_E_NOMEM;
    DV_TRY(reduce_to(cx, &mean, "mean", x, mask, "mean"));
    DV_TRY(begin(&r, cx, x, mask));
    DV_TRY(dv_on_use(&r.l, mean, r.axes));
    dv_on_start(&r.l);
    dv_term d = dv_on_2(cx, "-", dv_on_read(&r.l, x, r.axes),
                        dv_on_read(&r.l, mean, r.axes));
    DV_TRY(
        keep(&r, var, x->dtype, 1, over(&r, "mean", dv_on_2(cx, "*", d, d))));
    DV_TRY(dv_on_reshape(cx, flat[0], mean, 1, &x->dims[1]));
    DV_TRY(dv_on_reshape(cx, flat[1], var, 1, &x->dims[1]));
    DV_TRY(running(cx, n, 1, v[2], flat[0], momentum));
    DV_TRY(running(cx, n, 2, v[3], flat[1], momentum));
    v[2] = flat[0];
    v[3] = flat[1];
    return batch_norm_with(cx, out, x, v, epsilon);
}

dv_status dv_on_batch_norm(dv_on *cx, const dv_onnx_node *n)
{
    dv_on_value *v[4];
    DV_TRY(dv_on_need(cx, n, 5));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    double epsilon = dv_on_float(n, "epsilon", 1e-5);
    if (!out)
        return DV_E_NOMEM;
    for (int i = 0; i < 4; i++)
        v[i] = dv_on_in(cx, n, i + 1);
    if (cx->opset < 9 && !dv_on_int(n, "spatial", 1))
        return dv_on_refuse(cx, "attribute spatial is 0");
    if (x->n_dims < 2)
        return dv_on_refuse(cx, "its input has %d dim%s", x->n_dims,
                            DV_PLURAL(x->n_dims, "", "s"));
    if (dv_on_int(n, "training_mode", 0))
        return batch_norm_training(cx, n, out, v, epsilon);
    if (dv_on_known(v[0]) && dv_on_known(v[1]) && dv_on_known(v[2]) &&
        dv_on_known(v[3]))
        return batch_norm_known(cx, out, x, v, epsilon);
    return batch_norm_with(cx, out, x, v, epsilon);
}

dv_status dv_on_lrn(dv_on *cx, const dv_onnx_node *n)
{
    int axes[DV_MAX_DIMS];
    int64_t before[DV_MAX_DIMS] = {0}, after[DV_MAX_DIMS] = {0};
    dv_on_loop l;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    dv_on_value *p = dv_on_temp(cx, "padded"), *s = dv_on_temp(cx, "squares");
    int64_t size = dv_on_int(n, "size", 1);
    double alpha = dv_on_float(n, "alpha", 0.0001);
    if (!out || !p || !s)
        return DV_E_NOMEM;
    if (x->n_dims < 2 || size < 1 || size > x->dims[1] * 2)
        return dv_on_refuse(cx, "attribute size is %lld", (long long)size);
    before[1] = (size - 1) / 2;
    after[1] = size / 2;
    DV_TRY(dv_on_pad_with(cx, p, x, before, after, 0));
    dv_on_loop_begin(&l, cx);
    for (int d = 0; d < x->n_dims; d++)
        axes[d] = dv_on_axis_add(&l, x->dims[d]);
    int window = dv_on_axis_add(&l, size);
    DV_TRY(dv_on_use_at(&l, p, 2));
    int used[DV_MAX_DIMS];
    memcpy(used, axes, sizeof used);
    used[1] = -1;
    DV_TRY(dv_on_use(&l, p, used));
    dv_on_start(&l);
    dv_on_index index[DV_MAX_DIMS];
    for (int d = 0; d < x->n_dims; d++)
        index[d] = dv_on_along(axes[d]);
    index[1] =
        (dv_on_index){.n = 2, .axis = {axes[1], window}, .factor = {1, 1}};
    dv_term t = dv_on_read_at(&l, p, index);
    t = dv_on_reduce(&l, "sum", dv_on_2(cx, "*", t, t), 1, &window);
    DV_TRY(dv_on_define(&l, s, x->dtype, 0, x->n_dims, axes, t));
    // Local response normalisation: x / (bias + alpha / size * s) ^ beta
    reduction r;
    DV_TRY(begin(&r, cx, x, 0));
    DV_TRY(dv_on_use(&r.l, s, r.axes));
    dv_on_start(&r.l);
    t = dv_on_2(cx, "+", dv_on_f(cx, dv_on_float(n, "bias", 1)),
                dv_on_2(cx, "*", dv_on_f(cx, alpha / (double)size),
                        dv_on_read(&r.l, s, r.axes)));
    t = dv_on_1(cx, "exp",
                dv_on_2(cx, "*",
                        dv_on_num(cx, DV_F32, -dv_on_float(n, "beta", 0.75)),
                        dv_on_1(cx, "log", t)));
    return dv_on_define(&r.l, out, x->dtype, 0, x->n_dims, r.axes,
                        dv_on_2(cx, "*", dv_on_read(&r.l, x, r.axes), t));
}

dv_status dv_on_lp_norm(dv_on *cx, const dv_onnx_node *n)
{
    reduction r;
    int axis;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    dv_on_value *s = dv_on_temp(cx, "norm");
    DV_TRY(dv_on_norm_axis(cx, dv_on_int(n, "axis", -1), x->n_dims, &axis));
    int p = (int)dv_on_int(n, "p", 2);
    if (!out || !s)
        return DV_E_NOMEM;
    if (p != 1 && p != 2)
        return dv_on_refuse(cx, "attribute p is %d, it must be 1 or 2", p);
    DV_TRY(begin(&r, cx, x, 1u << axis));
    dv_on_start(&r.l);
    dv_term t = dv_on_read(&r.l, x, r.axes);
    t = over(&r, "sum",
             p == 1 ? dv_on_1(cx, "abs", t) : dv_on_2(cx, "*", t, t));
    DV_TRY(keep(&r, s, x->dtype, 1, p == 1 ? t : dv_on_1(cx, "sqrt", t)));
    DV_TRY(begin(&r, cx, x, 0));
    DV_TRY(dv_on_use(&r.l, s, r.axes));
    dv_on_start(&r.l);
    dv_term norm = dv_on_read(&r.l, s, r.axes);
    return dv_on_define(&r.l, out, x->dtype, 0, x->n_dims, r.axes,
                        dv_on_2(cx, "/", dv_on_read(&r.l, x, r.axes), norm));
}

// -- Argmax, argmin ----------------------------------------------------------

dv_term dv_on_is_most(dv_on *cx, dv_dtype t, dv_term x, dv_term most)
{
    dv_term is = dv_on_2(cx, "==", x, most);
    return dv_is_float(t) ? dv_on_2(cx, "max", is, dv_on_2(cx, "!=", x, x))
                          : is;
}

static dv_status arg_of(dv_on *cx, dv_on_value *out, dv_on_value *x, int axis,
                        int is_max, int last, int keep_dims)
{
    dv_on_value *m;
    reduction r;
    DV_TRY(reduce_to(cx, &m, "most", x, 1u << axis, is_max ? "max" : "min"));
    DV_TRY(begin(&r, cx, x, 1u << axis));
    DV_TRY(dv_on_use(&r.l, m, r.axes));
    dv_on_start(&r.l);
    dv_term is = dv_on_is_most(cx, x->dtype, dv_on_read(&r.l, x, r.axes),
                               dv_on_read(&r.l, m, r.axes));
    dv_term none = dv_on_i(cx, last ? -1 : x->dims[axis]);
    dv_term t = dv_on_3(cx, "select", is, dv_on_position(&r.l, axis), none);
    return keep(&r, out, DV_I64, keep_dims, over(&r, last ? "max" : "min", t));
}

dv_status dv_on_arg(dv_on *cx, const dv_onnx_node *n)
{
    int axis;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    DV_TRY(dv_on_norm_axis(cx, dv_on_int(n, "axis", 0), x->n_dims, &axis));
    return out ? arg_of(cx, out, x, axis, !strcmp(n->type, "ArgMax"),
                        dv_on_int(n, "select_last_index", 0) != 0,
                        dv_on_int(n, "keepdims", 1) != 0)
               : DV_E_NOMEM;
}

dv_status dv_on_hardmax(dv_on *cx, const dv_onnx_node *n)
{
    reduction r;
    unsigned mask;
    dv_on_value *where = dv_on_temp(cx, "where"),
                *flat = dv_on_temp(cx, "rows");
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    DV_TRY(softmax_dims(cx, n, x, &mask));
    int64_t rows[2] = {1, 1};
    int axis = 0, old = cx->opset < 13;
    if (!where || !out || !flat)
        return DV_E_NOMEM;
    while (!(mask >> axis & 1))
        axis++;
    for (int d = 0; d < x->n_dims; d++)
        rows[d >= axis] *= x->dims[d];
    dv_on_same(flat, x);
    if (old)
        DV_TRY(dv_on_reshape(cx, flat, x, 2, rows));
    axis = old ? 1 : axis;
    DV_TRY(arg_of(cx, where, flat, axis, 1, 0, 1));
    DV_TRY(begin(&r, cx, flat, 0));
    DV_TRY(dv_on_use(&r.l, where, r.axes));
    dv_on_start(&r.l);
    dv_term is = dv_on_2(cx, "==", dv_on_position(&r.l, axis),
                         dv_on_read(&r.l, where, r.axes));
    dv_on_value *made = dv_on_temp(cx, "hard");
    if (!made)
        return DV_E_NOMEM;
    DV_TRY(dv_on_define(&r.l, made, x->dtype, 0, flat->n_dims, r.axes, is));
    return dv_on_reshape(cx, out, made, x->n_dims, x->dims);
}
