// Convolutions, transposed convolutions and pools.
#include "onnx/conv.h"
#include "base/dtype.h"
#include "base/math.h"
#include "base/plural.h"
#include <math.h>
#include <string.h>

// The largest element count of a table of constants that is made at import.
#define MAX_TABLE ((int64_t)1 << 24)

// -- Windows -----------------------------------------------------------------

// Reads an attribute that is a list of `count` numbers; if it is missing, all
// of them are `other`.
static dv_status list_or(dv_on *cx, const dv_onnx_node *n, const char *name,
                         int count, int64_t other, int64_t *out)
{
    int len;
    const int64_t *list = dv_on_ints(n, name, &len);
    if (list && len && len != count)
        return dv_on_refuse(cx, "attribute %s has %d %s, not %d", name, len,
                            DV_PLURAL(len, "entry", "entries"), count);
    for (int i = 0; i < count; i++)
        out[i] = list && len ? list[i] : other;
    return DV_OK;
}

// Sets the pads of auto_pad SAME_UPPER or SAME_LOWER, so that there are
// ceil(input / stride) results.
static void same_pads(dv_on_window *w, int i, int64_t in, int lower)
{
    int64_t out = dv_ceil_div(in, w->stride[i]);
    int64_t span = (w->size[i] - 1) * w->dilation[i] + 1;
    int64_t total = (out - 1) * w->stride[i] + span - in;
    total = total < 0 ? 0 : total;
    w->before[i] = lower ? total - total / 2 : total / 2;
    w->after[i] = total - w->before[i];
}

static dv_status read_attributes(dv_on *cx, const dv_onnx_node *n, int dims,
                                 const int64_t *in, const int64_t *kernel,
                                 dv_on_window *w)
{
    int64_t pads[2 * DV_MAX_DIMS];
    const char *how = dv_on_string(n, "auto_pad", "NOTSET");
    int ceil_mode = dv_on_int(n, "ceil_mode", 0) != 0;
    w->n = dims;
    DV_TRY(list_or(cx, n, "strides", dims, 1, w->stride));
    DV_TRY(list_or(cx, n, "dilations", dims, 1, w->dilation));
    DV_TRY(list_or(cx, n, "pads", 2 * dims, 0, pads));
    for (int i = 0; i < dims; i++) {
        w->size[i] = kernel[i];
        w->before[i] = pads[i];
        w->after[i] = pads[i + dims];
        if (w->size[i] < 1 || w->stride[i] < 1 || w->dilation[i] < 1 ||
            pads[i] < 0 || pads[i + dims] < 0 || pads[i] > INT32_MAX ||
            pads[i + dims] > INT32_MAX || w->size[i] > INT32_MAX ||
            w->stride[i] > INT32_MAX || w->dilation[i] > INT32_MAX)
            return dv_on_refuse(cx, "kernel, strides, dilations or pads are "
                                    "out of range");
        if (!strncmp(how, "SAME", 4))
            same_pads(w, i, in[i], !strcmp(how, "SAME_LOWER"));
        else if (!strcmp(how, "VALID"))
            w->before[i] = w->after[i] = 0;
        int64_t span = (w->size[i] - 1) * w->dilation[i] + 1;
        int64_t room = in[i] + w->before[i] + w->after[i] - span;
        if (room < 0)
            return dv_on_refuse(cx, "its window is larger than dim %d", i + 2);
        w->out[i] = (ceil_mode ? dv_ceil_div(room, w->stride[i])
                               : room / w->stride[i]) +
                    1;
        // With ceil_mode, drop a last window that would begin in the pad after
        // the input.
        if (ceil_mode && (w->out[i] - 1) * w->stride[i] >= in[i] + w->before[i])
            w->out[i]--;
        int64_t reach = (w->out[i] - 1) * w->stride[i] + span;
        int64_t extra = reach - (in[i] + w->before[i] + w->after[i]);
        w->extra[i] = extra > 0 ? extra : 0;
    }
    return DV_OK;
}

// The axes (loops) over windows: over results and over positions in a window.
typedef struct slide {
    int out[DV_MAX_DIMS], at[DV_MAX_DIMS]; // results; positions in a window
} slide;

static void add_slide(dv_on_loop *l, const dv_on_window *w, slide *s)
{
    for (int i = 0; i < w->n; i++)
        s->out[i] = dv_on_axis_add(l, w->out[i]);
}

static void add_window(dv_on_loop *l, const dv_on_window *w, slide *s)
{
    for (int i = 0; i < w->n; i++)
        s->at[i] = dv_on_axis_add(l, w->size[i]);
}

// Makes the indices with which windows of x are read. `axes` has the loops of
// x's first `lead` dims. Sets *leaves to 1 if windows reach outside x.
static dv_status slide_over(dv_on_loop *l, dv_on_value *x, int lead, int *axes,
                            const dv_on_window *w, const slide *s,
                            dv_on_index *index, int *leaves)
{
    unsigned composite = 0;
    *leaves = 0;
    for (int i = 0; i < w->n; i++) {
        int d = lead + i;
        if (w->size[i] == 1 && w->stride[i] == 1 && w->before[i] == 0 &&
            x->dims[d] == w->out[i]) {
            axes[d] = s->out[i];
            index[d] = dv_on_along(s->out[i]);
            continue;
        }
        axes[d] = -1;
        composite |= 1u << d;
        index[d] = (dv_on_index){.n = 2,
                                 .axis = {s->out[i], s->at[i]},
                                 .factor = {w->stride[i], w->dilation[i]},
                                 .add = -w->before[i]};
        if (!(w->before[i] | w->after[i] | w->extra[i]))
            continue;
        *leaves = 1;
        if (!dv_on_is_plain(x, d))
            DV_TRY(dv_on_copy(l->cx, x, 0));
    }
    for (int d = 0; d < lead; d++)
        index[d] = dv_on_along(axes[d]);
    DV_TRY(dv_on_use_at(l, x, composite));
    return dv_on_use(l, x, axes);
}

// Reads an element of a window; elements in the pads have the value `outside`.
static dv_term read_window(dv_on_loop *l, dv_on_value *x,
                           const dv_on_index *index, int leaves, double outside)
{
    return leaves ? dv_on_read_else(l, x, index,
                                    dv_on_num(l->cx, x->dtype, outside))
                  : dv_on_read_at(l, x, index);
}

// -- Convolutions ------------------------------------------------------------

// Makes groups a dim of their own: views the input x as [n, g, c, …], the
// weights w as [g, m, c, …] and the bias b as [g, m].
static dv_status split_groups(dv_on *cx, int64_t groups, dv_on_value **x,
                              dv_on_value **w, dv_on_value **b)
{
    int64_t dims[DV_MAX_DIMS];
    dv_on_value *v[] = {dv_on_temp(cx, "x"), dv_on_temp(cx, "w"),
                        dv_on_temp(cx, "b")};
    if (!v[0] || !v[1] || !v[2])
        return DV_E_NOMEM;
    memcpy(dims + 1, (*x)->dims, sizeof(int64_t) * (DV_MAX_DIMS - 1));
    dims[0] = (*x)->dims[0];
    dims[1] = groups;
    dims[2] = (*x)->dims[1] / groups;
    DV_TRY(dv_on_reshape(cx, v[0], *x, (*x)->n_dims + 1, dims));
    memcpy(dims + 1, (*w)->dims, sizeof(int64_t) * (DV_MAX_DIMS - 1));
    dims[0] = groups;
    dims[1] = (*w)->dims[0] / groups;
    DV_TRY(dv_on_reshape(cx, v[1], *w, (*w)->n_dims + 1, dims));
    if (*b)
        DV_TRY(dv_on_reshape(cx, v[2], *b, 2, dims));
    *x = v[0];
    *w = v[1];
    *b = *b ? v[2] : NULL;
    return DV_OK;
}

// Defines the result of a convolution with m output channels as the term y.
// `ox` has its loops: over the samples, the groups, the channels of a group,
// and the positions of windows.
static dv_status define_conv(dv_on_loop *l, dv_on_value *out,
                             const dv_on_conv *c, int64_t m, int *ox, dv_term y)
{
    int n = c->window.n;
    // Dim 1 of the result runs over groups and the channels of a group. If
    // there is only one group, or one channel per group, one variable is
    // enough; else the result is defined with both as dims, and reshaped.
    if (c->groups == 1 || m == c->groups) {
        ox[1] = m == c->groups ? ox[1] : ox[2];
        for (int i = 2; i < 2 + n; i++)
            ox[i] = ox[i + 1];
        return dv_on_define(l, out, c->dtype, 0, 2 + n, ox, y);
    }
    int64_t dims[DV_MAX_DIMS] = {c->x->dims[0], m};
    for (int i = 0; i < n; i++)
        dims[2 + i] = c->window.out[i];
    dv_on_value *made = dv_on_temp(l->cx, out->name);
    if (!made)
        return DV_E_NOMEM;
    DV_TRY(dv_on_define(l, made, c->dtype, 0, 3 + n, ox, y));
    return dv_on_reshape(l->cx, out, made, 2 + n, dims);
}

dv_status dv_on_conv_of(dv_on *cx, dv_on_value *out, const dv_on_conv *c)
{
    dv_on_value *x = c->x, *w = c->w, *b = c->b;
    const dv_on_window win = c->window;
    int64_t m = w->dims[0];
    int axes[DV_MAX_DIMS], wx[DV_MAX_DIMS], ox[DV_MAX_DIMS], at = 0, n_ox = 0,
                                                             leaves;
    DV_TRY(split_groups(cx, c->groups, &x, &w, &b));
    dv_on_loop l;
    slide s;
    dv_on_index index[DV_MAX_DIMS];
    dv_on_loop_begin(&l, cx);
    // Kernels for integer products need the sum to be a statement of its own.
    l.inlines = dv_is_float(c->dtype);
    ox[n_ox++] = axes[at++] = dv_on_axis_add(&l, x->dims[0]);
    ox[n_ox++] = axes[at++] = dv_on_axis_add(&l, c->groups);
    ox[n_ox++] = wx[1] = dv_on_axis_add(&l, w->dims[1]);
    add_slide(&l, &win, &s);
    axes[at++] = wx[2] = dv_on_axis_add(&l, w->dims[2]);
    add_window(&l, &win, &s);
    wx[0] = axes[1];
    for (int i = 0; i < win.n; i++) {
        wx[3 + i] = s.at[i];
        ox[n_ox++] = s.out[i];
    }
    DV_TRY(slide_over(&l, x, 3, axes, &win, &s, index, &leaves));
    DV_TRY(dv_on_use(&l, w, wx));
    if (b)
        DV_TRY(dv_on_use(&l, b, wx));
    dv_on_start(&l);
    dv_term p = read_window(&l, x, index, leaves, c->pad),
            q = dv_on_read(&l, w, wx);
    int sums[DV_MAX_DIMS], n_sums = 0;
    sums[n_sums++] = wx[2];
    for (int i = 0; i < win.n; i++)
        sums[n_sums++] = s.at[i];
    dv_term y = dv_on_reduce(&l, "sum", dv_on_2(cx, "*", p, q), n_sums, sums);
    if (b)
        y = dv_on_2(cx, "+", y, dv_on_read(&l, b, wx));
    return define_conv(&l, out, c, m, ox, y);
}

// Defines, for each of the m output channels, the sum of its weights: [m].
static dv_status sum_weights(dv_on *cx, dv_on_value *out, dv_on_value *w)
{
    int axes[DV_MAX_DIMS];
    dv_on_loop l;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, w, axes));
    dv_on_start(&l);
    dv_term t = dv_on_reduce(&l, "sum", dv_on_read(&l, w, axes), w->n_dims - 1,
                             axes + 1);
    return dv_on_define(&l, out, DV_I32, 0, 1, axes, t);
}

// Defines the sums of x - zero over the channels of each group, [n, g, …].
static dv_status sum_channels(dv_on *cx, dv_on_value *out, dv_on_value *x,
                              int64_t groups, int zero)
{
    int axes[DV_MAX_DIMS], kept[DV_MAX_DIMS];
    int64_t dims[DV_MAX_DIMS] = {x->dims[0], groups, x->dims[1] / groups};
    dv_on_loop l;
    dv_on_value *view = dv_on_temp(cx, "x");
    if (!view)
        return DV_E_NOMEM;
    memcpy(dims + 3, x->dims + 2, sizeof(int64_t) * (size_t)(x->n_dims - 2));
    DV_TRY(dv_on_reshape(cx, view, x, x->n_dims + 1, dims));
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, view, axes));
    dv_on_start(&l);
    dv_term t =
        dv_on_reduce(&l, "sum", dv_on_read(&l, view, axes), 1, &axes[2]);
    t = dv_on_2(cx, "-", t, dv_on_i(cx, zero * dims[2]));
    kept[0] = axes[0];
    memcpy(kept + 1, axes + 1, sizeof *axes);
    memcpy(kept + 2, axes + 3, sizeof *axes * (size_t)(x->n_dims - 2));
    return dv_on_define(&l, out, DV_I32, 0, x->n_dims, kept, t);
}

// Defines the sums of x - zero over the windows of each group: [n, g, …].
static dv_status sum_windows(dv_on *cx, dv_on_value *out, dv_on_value *x,
                             const dv_on_conv *c, int zero)
{
    int axes[DV_MAX_DIMS], ox[DV_MAX_DIMS], leaves;
    dv_on_loop l;
    slide s;
    dv_on_index index[DV_MAX_DIMS];
    dv_on_value *sums = dv_on_temp(cx, "sums");
    if (!sums)
        return DV_E_NOMEM;
    DV_TRY(sum_channels(cx, sums, x, c->groups, zero));
    dv_on_loop_begin(&l, cx);
    for (int d = 0; d < 2; d++)
        ox[d] = axes[d] = dv_on_axis_add(&l, sums->dims[d]);
    add_slide(&l, &c->window, &s);
    add_window(&l, &c->window, &s);
    memcpy(ox + 2, s.out, sizeof *ox * (size_t)c->window.n);
    DV_TRY(slide_over(&l, sums, 2, axes, &c->window, &s, index, &leaves));
    dv_on_start(&l);
    dv_term t = dv_on_reduce(&l, "sum", read_window(&l, sums, index, leaves, 0),
                             c->window.n, s.at);
    return dv_on_define(&l, out, DV_I32, 0, 2 + c->window.n, ox, t);
}

// The operands from which the result of an 8-bit convolution is computed, of
// dims [n, g, m, …]: acc, the sum of i8 products, and what the bias and the
// zero points add to it. NULL where not needed.
enum { ACC, BIAS, W_ZERO, W_SUMS, WINDOWS, N_PARTS };
typedef struct parts {
    dv_on_value *v[N_PARTS];
    int axes[N_PARTS][DV_MAX_DIMS], x_zero, w_zero;
} parts;

// Views operand i so that it can be read along the loops `ox` of the result,
// whose dims are `dims`.
static dv_status use_part(dv_on_loop *l, parts *p, int i, int n_dims,
                          const int64_t *dims, const int *ox)
{
    dv_on_value *v = p->v[i], *view = dv_on_temp(l->cx, v->name);
    int *axes = p->axes[i], lead = i == ACC ? 0 : 1;
    if (!view)
        return DV_E_NOMEM;
    if (i == WINDOWS) {
        memcpy(axes, ox, 2 * sizeof *ox);
        memcpy(axes + 2, ox + 3, sizeof *ox * (size_t)(n_dims - 3));
    } else if (i != ACC && dv_on_count(v) == 1) {
        axes[0] = -1;
    } else {
        // A vector with an element per output channel is viewed as [g, m].
        int n = i == ACC ? n_dims : 2;
        DV_TRY(dv_on_reshape(l->cx, view, v, n, dims + lead));
        memcpy(axes, ox + lead, sizeof *ox * (size_t)n);
        p->v[i] = view;
    }
    return dv_on_use(l, p->v[i], axes);
}

// Returns sum - a * b.
static dv_term minus_product(dv_on *cx, dv_term sum, dv_term a, dv_term b)
{
    return dv_on_2(cx, "-", sum, dv_on_2(cx, "*", a, b));
}

static dv_term sum_parts(dv_on_loop *l, parts *p)
{
    dv_on *cx = l->cx;
    dv_term t[N_PARTS] = {NULL};
    for (int i = 0; i < N_PARTS; i++)
        if (p->v[i])
            t[i] = dv_on_read(l, p->v[i], p->axes[i]);
    dv_term y = t[ACC];
    if (t[W_SUMS])
        y = minus_product(cx, y, dv_on_i(cx, p->x_zero), t[W_SUMS]);
    if (t[WINDOWS])
        y = minus_product(cx, y, t[W_ZERO] ? t[W_ZERO] : dv_on_i(cx, p->w_zero),
                          t[WINDOWS]);
    return t[BIAS] ? dv_on_2(cx, "+", y, t[BIAS]) : y;
}

// Defines the result of a convolution of i8 with zero points z (of x) and y (of
// w), from acc, the sum of x * w over channels and window. Padding has the
// value z, so that `sum w` is the same at the border, too:
//
//   sum (x - z) (w - y)  =  sum x w - z sum w - y sum (x - z)
static dv_status add_zeros(dv_on *cx, dv_on_value *out, const dv_on_conv *c,
                           parts *p)
{
    int ox[DV_MAX_DIMS], n_dims = 3 + c->window.n;
    int64_t m = c->w->dims[0];
    int64_t dims[DV_MAX_DIMS] = {c->x->dims[0], c->groups, m / c->groups};
    memcpy(dims + 3, c->window.out, sizeof *dims * (size_t)c->window.n);
    if (p->x_zero) {
        p->v[W_SUMS] = dv_on_temp(cx, "w_sums");
        if (!p->v[W_SUMS])
            return DV_E_NOMEM;
        DV_TRY(sum_weights(cx, p->v[W_SUMS], c->w));
    }
    if (p->w_zero || c->w_zero) {
        p->v[WINDOWS] = dv_on_temp(cx, "windows");
        if (!p->v[WINDOWS])
            return DV_E_NOMEM;
        DV_TRY(sum_windows(cx, p->v[WINDOWS], c->x, c, p->x_zero));
    }
    dv_on_loop l;
    dv_on_loop_begin(&l, cx);
    for (int d = 0; d < n_dims; d++)
        ox[d] = dv_on_axis_add(&l, dims[d]);
    for (int i = 0; i < N_PARTS; i++)
        if (p->v[i])
            DV_TRY(use_part(&l, p, i, n_dims, dims, ox));
    dv_on_start(&l);
    dv_term y = sum_parts(&l, p);
    return define_conv(&l, out, c, m, ox, y);
}

dv_status dv_on_conv_bytes(dv_on *cx, dv_on_value *out, const dv_on_conv *c)
{
    dv_on_conv s = *c, sum;
    dv_on_value *none = NULL;
    int x_zero = (int)c->pad, w_zero = 0;
    if (!dv_on_is_byte(c->x) || !dv_on_is_byte(c->w))
        return dv_on_refuse(cx, "its input and its weights must have 8 bits");
    if (c->w_zero &&
        (c->w_zero->n_dims > 1 || (dv_on_count(c->w_zero) != 1 &&
                                   dv_on_count(c->w_zero) != c->w->dims[0])))
        return dv_on_refuse(cx, "the shape of its w_zero_point does not fit");
    s.dtype = DV_I32;
    DV_TRY(dv_on_make_signed(cx, &s.x, &none, &x_zero));
    DV_TRY(dv_on_make_signed(cx, &s.w, &s.w_zero, &w_zero));
    s.pad = x_zero;
    if (!x_zero && !w_zero && !s.w_zero && !s.b)
        return dv_on_conv_of(cx, out, &s);
    dv_on_value *acc = dv_on_temp(cx, "acc");
    if (!acc)
        return DV_E_NOMEM;
    sum = s;
    sum.b = NULL;
    DV_TRY(dv_on_conv_of(cx, acc, &sum));
    parts p = {.v = {acc, s.b, s.w_zero}, .x_zero = x_zero, .w_zero = w_zero};
    return add_zeros(cx, out, &s, &p);
}

dv_status dv_on_conv_read(dv_on *cx, const dv_onnx_node *n, dv_on_conv *c)
{
    dv_on_value *x = c->x, *w = c->w;
    c->groups = dv_on_int(n, "group", 1);
    c->dtype = x->dtype;
    if (x->n_dims < 3 || w->n_dims != x->n_dims ||
        x->n_dims + 1 > DV_MAX_DIMS / 2 + 2)
        return dv_on_refuse(cx, "its input has %d dim%s and its weights %d",
                            x->n_dims, DV_PLURAL(x->n_dims, "", "s"),
                            w->n_dims);
    if (c->groups < 1 || w->dims[0] % c->groups ||
        x->dims[1] != w->dims[1] * c->groups)
        return dv_on_refuse(cx,
                            "%lld channel%s in %lld group%s do not fit "
                            "weights for %lld",
                            (long long)x->dims[1],
                            DV_PLURAL(x->dims[1], "", "s"),
                            (long long)c->groups, DV_PLURAL(c->groups, "", "s"),
                            (long long)w->dims[1]);
    if (c->b && (c->b->n_dims != 1 || c->b->dims[0] != w->dims[0]))
        return dv_on_refuse(cx, "the shape of its bias does not fit");
    return read_attributes(cx, n, x->n_dims - 2, x->dims + 2, w->dims + 2,
                           &c->window);
}

dv_status dv_on_op_conv(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_conv c = {.x = dv_on_in(cx, n, 0),
                    .w = dv_on_in(cx, n, 1),
                    .b = dv_on_in(cx, n, 2)};
    DV_TRY(dv_on_conv_read(cx, n, &c));
    dv_on_value *out = dv_on_out(cx, n, 0);
    return out ? dv_on_conv_of(cx, out, &c) : DV_E_NOMEM;
}

dv_status dv_on_conv_zero(dv_on *cx, dv_on_conv *c, dv_on_value *x_zero)
{
    const double *zero;
    int count;
    if (!x_zero)
        return DV_OK;
    DV_TRY(dv_on_get_floats(cx, x_zero, "x_zero_point", &zero, &count));
    if (count != 1)
        return dv_on_refuse(cx, "input x_zero_point has %d element%s", count,
                            DV_PLURAL(count, "", "s"));
    c->pad = zero[0];
    return DV_OK;
}

dv_status dv_on_conv_integer(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_conv c = {.x = dv_on_in(cx, n, 0),
                    .w = dv_on_in(cx, n, 1),
                    .w_zero = dv_on_in(cx, n, 3)};
    DV_TRY(dv_on_conv_read(cx, n, &c));
    DV_TRY(dv_on_conv_zero(cx, &c, dv_on_in(cx, n, 2)));
    dv_on_value *out = dv_on_out(cx, n, 0);
    return out ? dv_on_conv_bytes(cx, out, &c) : DV_E_NOMEM;
}

// -- Transposed convolutions -------------------------------------------------

// Inserts stride - 1 zeros between neighbouring elements of x, along each dim
// of the window (for a transposed convolution).
static dv_status spread(dv_on *cx, dv_on_value **x, const dv_on_window *w)
{
    int axes[DV_MAX_DIMS], lead = (*x)->n_dims - w->n, any = 0;
    int64_t zero[DV_MAX_DIMS] = {0}, gap[DV_MAX_DIMS] = {0};
    for (int i = 0; i < w->n; i++) {
        gap[lead + i] = ((*x)->dims[lead + i] - 1) * (w->stride[i] - 1);
        any |= gap[lead + i] > 0;
    }
    if (!any)
        return DV_OK;
    // To insert zeros, a dim [n] becomes [n, stride] with zeros after each
    // element, is flattened, and loses the last stride - 1 zeros.
    int64_t dims[DV_MAX_DIMS], wide[DV_MAX_DIMS], flat[DV_MAX_DIMS];
    int n = 0;
    int64_t after[DV_MAX_DIMS] = {0};
    (void)axes;
    for (int d = 0; d < (*x)->n_dims; d++) {
        dims[n] = wide[n] = flat[d] = (*x)->dims[d];
        n++;
        if (d < lead || w->stride[d - lead] == 1)
            continue;
        dims[n] = 1;
        after[n] = w->stride[d - lead] - 1;
        wide[n++] = w->stride[d - lead];
        flat[d] *= w->stride[d - lead];
    }
    dv_on_value *a = dv_on_temp(cx, "x"), *b = dv_on_temp(cx, "spread");
    dv_on_value *c = dv_on_temp(cx, "spread"), *e = dv_on_temp(cx, "spread");
    if (!a || !b || !c || !e)
        return DV_E_NOMEM;
    DV_TRY(dv_on_reshape(cx, a, *x, n, dims));
    DV_TRY(dv_on_pad_with(cx, b, a, zero, after, 0));
    DV_TRY(dv_on_reshape(cx, c, b, (*x)->n_dims, flat));
    int64_t step[DV_MAX_DIMS];
    for (int d = 0; d < (*x)->n_dims; d++) {
        step[d] = 1;
        if (d >= lead)
            flat[d] -= w->stride[d - lead] - 1;
    }
    DV_TRY(dv_on_slice(cx, e, c, zero, step, flat));
    *x = e;
    return DV_OK;
}

// Views the weights [c, g*m, …] of a transposed convolution as those of a
// convolution: [g*m, c, …], with the windows reversed.
static dv_status flip_weights(dv_on *cx, dv_on_value **w, int64_t groups,
                              int spatial)
{
    int64_t dims[DV_MAX_DIMS], begin[DV_MAX_DIMS], step[DV_MAX_DIMS];
    int perm[DV_MAX_DIMS], n = spatial + 3;
    dv_on_value *v = *w;
    dv_on_value *a = dv_on_temp(cx, "w"), *b = dv_on_temp(cx, "w"),
                *c = dv_on_temp(cx, "w"), *e = dv_on_temp(cx, "w");
    if (!a || !b || !c || !e)
        return DV_E_NOMEM;
    dims[0] = groups;
    dims[1] = v->dims[0] / groups;
    for (int d = 1; d < v->n_dims; d++)
        dims[d + 1] = v->dims[d];
    for (int d = 0; d < n; d++)
        perm[d] = d == 1 ? 2 : d == 2 ? 1 : d;
    DV_TRY(dv_on_reshape(cx, a, v, n, dims));
    DV_TRY(dv_on_transpose(cx, b, a, perm));
    for (int d = 0; d < n; d++) {
        begin[d] = d < 3 ? 0 : b->dims[d] - 1;
        step[d] = d < 3 || b->dims[d] == 1 ? 1 : -1;
    }
    DV_TRY(dv_on_slice(cx, c, b, begin, step, b->dims));
    dims[0] = groups * c->dims[1];
    dims[1] = c->dims[2];
    for (int d = 3; d < n; d++)
        dims[d - 1] = c->dims[d];
    DV_TRY(dv_on_reshape(cx, e, c, n - 1, dims));
    *w = e;
    return DV_OK;
}

static int is_size(int64_t n)
{
    return n >= 0 && n <= INT32_MAX;
}

static dv_status transposed_window(dv_on *cx, const dv_onnx_node *n,
                                   const dv_on_value *x, const dv_on_value *w,
                                   dv_on_window *win)
{
    int64_t more[DV_MAX_DIMS], shape[DV_MAX_DIMS], pads[2 * DV_MAX_DIMS];
    int dims = x->n_dims - 2, len;
    const char *how = dv_on_string(n, "auto_pad", "NOTSET");
    win->n = dims;
    DV_TRY(list_or(cx, n, "strides", dims, 1, win->stride));
    DV_TRY(list_or(cx, n, "dilations", dims, 1, win->dilation));
    DV_TRY(list_or(cx, n, "pads", 2 * dims, 0, pads));
    DV_TRY(list_or(cx, n, "output_padding", dims, 0, more));
    const int64_t *given = dv_on_ints(n, "output_shape", &len);
    if (given && len != dims && len != x->n_dims)
        return dv_on_refuse(cx, "attribute output_shape has %d %s", len,
                            DV_PLURAL(len, "entry", "entries"));
    for (int i = 0; i < dims; i++) {
        win->size[i] = w->dims[2 + i];
        if (win->size[i] < 1 || win->stride[i] < 1 || win->dilation[i] < 1 ||
            win->stride[i] > 65536 || win->dilation[i] > 65536)
            return dv_on_refuse(cx, "strides or dilations are out of range");
        if (x->dims[2 + i] > INT32_MAX || win->size[i] > INT32_MAX ||
            !is_size(pads[i]) || !is_size(pads[i + dims]) ||
            !is_size(more[i]) || (given && !is_size(given[len - dims + i])))
            return dv_on_refuse(cx,
                                "dim %d, its pads or output_shape are out "
                                "of range",
                                i + 2);
        int64_t span = (win->size[i] - 1) * win->dilation[i];
        int64_t full =
            win->stride[i] * (x->dims[2 + i] - 1) + more[i] + span + 1;
        int same = !strncmp(how, "SAME", 4);
        if (given || same) {
            shape[i] =
                given ? given[len - dims + i] : x->dims[2 + i] * win->stride[i];
            int64_t total = full - shape[i];
            if (total < 0)
                more[i] -= total, total = 0;
            int upper = !strcmp(how, "SAME_UPPER");
            pads[i] = upper ? total / 2 : total - total / 2;
            if (given && !same)
                pads[i] = total / 2;
            pads[i + dims] = total - pads[i];
        } else if (!strcmp(how, "VALID")) {
            pads[i] = pads[i + dims] = 0;
        }
        win->before[i] = span - pads[i];
        win->after[i] = span - pads[i + dims] + more[i];
        win->extra[i] = 0;
        win->out[i] = win->stride[i] * (x->dims[2 + i] - 1) + 1 +
                      win->before[i] + win->after[i] - span;
        if (win->out[i] < 1)
            return dv_on_refuse(cx, "dim %d of its result is empty", i + 2);
    }
    return DV_OK;
}

// Returns whether the windows of a transposed convolution do not overlap, so
// that every result has exactly one source element.
static int is_disjoint(const dv_on_window *w)
{
    for (int i = 0; i < w->n; i++)
        if (w->stride[i] != w->size[i] || w->dilation[i] != 1 ||
            w->before[i] != w->size[i] - 1 || w->after[i] != w->size[i] - 1)
            return 0;
    return 1;
}

// Defines a transposed convolution with disjoint windows:
// y[n, m, o*s + k] = sum[c] x[n, c, o] * w[c, m, k]
static dv_status disjoint(dv_on *cx, dv_on_value *out, const dv_on_conv *c)
{
    dv_on_loop l;
    int n = c->window.n, xx[DV_MAX_DIMS], wx[DV_MAX_DIMS], ox[DV_MAX_DIMS];
    int64_t dims[DV_MAX_DIMS];
    dv_on_loop_begin(&l, cx);
    ox[0] = xx[0] = dv_on_axis_add(&l, c->x->dims[0]);
    ox[1] = wx[1] = dv_on_axis_add(&l, c->w->dims[1]);
    for (int i = 0; i < n; i++) {
        ox[2 + 2 * i] = xx[2 + i] = dv_on_axis_add(&l, c->x->dims[2 + i]);
        ox[3 + 2 * i] = wx[2 + i] = dv_on_axis_add(&l, c->w->dims[2 + i]);
        dims[2 + i] = c->x->dims[2 + i] * c->w->dims[2 + i];
    }
    int sum = xx[1] = wx[0] = dv_on_axis_add(&l, c->w->dims[0]);
    DV_TRY(dv_on_use(&l, c->x, xx));
    DV_TRY(dv_on_use(&l, c->w, wx));
    if (c->b)
        DV_TRY(dv_on_use(&l, c->b, wx + 1));
    dv_on_start(&l);
    dv_term y =
        dv_on_2(cx, "*", dv_on_read(&l, c->x, xx), dv_on_read(&l, c->w, wx));
    y = dv_on_reduce(&l, "sum", y, 1, &sum);
    if (c->b)
        y = dv_on_2(cx, "+", y, dv_on_read(&l, c->b, wx + 1));
    dv_on_value *made = dv_on_temp(cx, out->name);
    if (!made)
        return DV_E_NOMEM;
    DV_TRY(dv_on_define(&l, made, c->dtype, 0, 2 + 2 * n, ox, y));
    dims[0] = c->x->dims[0];
    dims[1] = c->w->dims[1];
    return dv_on_reshape(cx, out, made, 2 + n, dims);
}

dv_status dv_on_conv_transpose(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_conv c = {.x = dv_on_in(cx, n, 0),
                    .w = dv_on_in(cx, n, 1),
                    .b = dv_on_in(cx, n, 2)};
    dv_on_value *out = dv_on_out(cx, n, 0);
    c.groups = dv_on_int(n, "group", 1);
    c.dtype = c.x->dtype;
    if (!out)
        return DV_E_NOMEM;
    if (c.x->n_dims < 3 || c.x->n_dims > 6 || c.w->n_dims != c.x->n_dims ||
        c.groups < 1 || c.x->dims[1] != c.w->dims[0] || c.w->dims[0] % c.groups)
        return dv_on_refuse(cx, "the shapes of its input and its weights do "
                                "not fit");
    DV_TRY(transposed_window(cx, n, c.x, c.w, &c.window));
    if (c.groups == 1 && is_disjoint(&c.window))
        return disjoint(cx, out, &c);
    DV_TRY(spread(cx, &c.x, &c.window));
    DV_TRY(flip_weights(cx, &c.w, c.groups, c.window.n));
    for (int i = 0; i < c.window.n; i++)
        c.window.stride[i] = 1;
    return dv_on_conv_of(cx, out, &c);
}

// -- Pools -------------------------------------------------------------------

static double least(dv_dtype t)
{
    if (dv_is_float(t))
        return -INFINITY;
    const char *name = dv_dtype_get(t)->name;
    if (name[0] == 'u')
        return 0;
    return -ldexp(1, 8 * (int)dv_dtype_get(t)->size_bytes - 1);
}

// Returns the element count of a table of constants that is made at import;
// fails and returns -1 if there are too many.
static int64_t table_size(dv_on *cx, int n, const int64_t *dims)
{
    int64_t total = 1;
    for (int i = 0; i < n; i++)
        if (!dv_mul_i64(&total, total, dims[i]) || total > MAX_TABLE) {
            dv_on_refuse(cx, "its windows or its image are too many");
            return -1;
        }
    return total;
}

// Makes a table with one number per result of an average pool: how many
// elements its window covers.
static dv_on_value *window_counts(dv_on *cx, const dv_on_window *w,
                                  const int64_t *in, dv_dtype t, int with_pads,
                                  int *same)
{
    int64_t total = table_size(cx, w->n, w->out), at[DV_MAX_DIMS] = {0};
    if (total < 0)
        return NULL;
    double *counts = DV_NEW(cx->arena, double, total + 1);
    if (!counts) {
        dv_nomem(cx->diag);
        return NULL;
    }
    *same = 1;
    for (int64_t k = 0; k < total; k++) {
        counts[k] = 1;
        for (int i = 0; i < w->n; i++) {
            int64_t begin = at[i] * w->stride[i] - w->before[i], n = 0;
            int64_t low = with_pads ? -w->before[i] : 0;
            int64_t high = in[i] + (with_pads ? w->after[i] : 0);
            for (int64_t j = 0; j < w->size[i]; j++) {
                int64_t p = begin + j * w->dilation[i];
                n += p >= low && p < high;
            }
            counts[k] *= (double)(n ? n : 1);
        }
        *same &= counts[k] == counts[0];
        for (int i = w->n - 1; i >= 0 && ++at[i] == w->out[i]; i--)
            at[i] = 0;
    }
    return dv_on_const_floats(cx, "counts", t, w->n, w->out, counts);
}

// A pool: a loop that reduces every window of x, with axes for the first two
// dims (samples, channels), for results and for positions in a window.
typedef struct pool {
    dv_on_loop l;
    dv_on_index index[DV_MAX_DIMS];
    int out[DV_MAX_DIMS], sums[DV_MAX_DIMS];
    slide s;
    int leaves; // 1 if windows leave the tensor
} pool;

static dv_status begin_pool(pool *p, dv_on *cx, dv_on_value *x,
                            const dv_on_window *w)
{
    int axes[DV_MAX_DIMS];
    dv_on_loop_begin(&p->l, cx);
    p->out[0] = axes[0] = dv_on_axis_add(&p->l, x->dims[0]);
    p->out[1] = axes[1] = dv_on_axis_add(&p->l, x->dims[1]);
    add_slide(&p->l, w, &p->s);
    add_window(&p->l, w, &p->s);
    for (int i = 0; i < w->n; i++) {
        p->out[2 + i] = p->s.out[i];
        p->sums[i] = p->s.at[i];
    }
    return slide_over(&p->l, x, 2, axes, w, &p->s, p->index, &p->leaves);
}

static dv_status average(dv_on *cx, const dv_onnx_node *n, dv_on_value *out,
                         dv_on_value *x, const dv_on_window *w)
{
    pool p;
    int same = 1, with_pads = dv_on_int(n, "count_include_pad", 0) != 0;
    dv_on_value *counts =
        window_counts(cx, w, x->dims + 2, x->dtype, with_pads, &same);
    if (!counts)
        return dv_diag_status(cx->diag);
    DV_TRY(begin_pool(&p, cx, x, w));
    DV_TRY(dv_on_use(&p.l, counts, p.s.out));
    dv_on_start(&p.l);
    dv_term y = dv_on_reduce(
        &p.l, "sum", read_window(&p.l, x, p.index, p.leaves, 0), w->n, p.sums);
    dv_term count = same ? dv_on_f(cx, dv_load(x->dtype, counts->data, 0))
                         : dv_on_read(&p.l, counts, p.s.out);
    return dv_on_define(&p.l, out, x->dtype, 0, 2 + w->n, p.out,
                        dv_on_2(cx, "/", y, count));
}

static dv_status lp_pool(dv_on *cx, const dv_onnx_node *n, dv_on_value *out,
                         dv_on_value *x, const dv_on_window *w)
{
    pool p;
    int power = (int)dv_on_int(n, "p", 2);
    if (power != 1 && power != 2)
        return dv_on_refuse(cx, "attribute p is %d, it must be 1 or 2", power);
    DV_TRY(begin_pool(&p, cx, x, w));
    dv_on_start(&p.l);
    dv_term t = read_window(&p.l, x, p.index, p.leaves, 0);
    t = power == 1 ? dv_on_1(cx, "abs", t) : dv_on_2(cx, "*", t, t);
    t = dv_on_reduce(&p.l, "sum", t, w->n, p.sums);
    return dv_on_define(&p.l, out, x->dtype, 0, 2 + w->n, p.out,
                        power == 1 ? t : dv_on_1(cx, "sqrt", t));
}

// Makes a table with the index of each element of an image in its linear
// storage, row-major or column-major.
static dv_on_value *positions(dv_on *cx, const dv_on_window *w,
                              const int64_t *in, int column_major)
{
    int64_t dims[DV_MAX_DIMS], at[DV_MAX_DIMS] = {0};
    int64_t total = table_size(cx, w->n, in);
    if (total < 0)
        return NULL;
    for (int i = 0; i < w->n; i++)
        dims[i] = in[i];
    int64_t *list = DV_NEW(cx->arena, int64_t, total + 1);
    if (!list) {
        dv_nomem(cx->diag);
        return NULL;
    }
    for (int64_t k = 0; k < total; k++) {
        int64_t p = 0, stride = 1;
        for (int j = 0; j < w->n; j++) {
            int i = column_major ? j : w->n - 1 - j;
            p += at[i] * stride;
            stride *= in[i];
        }
        list[k] = p;
        for (int i = w->n - 1; i >= 0 && ++at[i] == dims[i]; i--)
            at[i] = 0;
    }
    return dv_on_const_ints(cx, "position", DV_I64, w->n, dims, list);
}

// Defines output 1 of MaxPool: the positions of the maxima, as linear indices
// into the whole tensor.
static dv_status max_indices(dv_on *cx, const dv_onnx_node *n, dv_on_value *x,
                             const int64_t *in, const dv_on_window *w,
                             dv_on_value *best)
{
    pool p;
    dv_on_value *out = dv_on_out(cx, n, 1);
    int column = (int)dv_on_int(n, "storage_order", 0);
    int64_t size = 1, n_planes = table_size(cx, 2, in);
    if (n_planes < 0)
        return DV_E_UNSUPPORTED;
    dv_on_value *at = positions(cx, w, in + 2, column);
    int64_t *planes = DV_NEW(cx->arena, int64_t, n_planes + 1);
    if (!out || !at || !planes)
        return dv_diag_status(cx->diag);
    for (int i = 0; i < w->n; i++)
        size *= in[2 + i];
    for (int64_t i = 0; i < n_planes; i++)
        planes[i] = i * size;
    dv_on_value *first = dv_on_const_ints(cx, "plane", DV_I64, 2, in, planes);
    if (!first)
        return DV_E_NOMEM;
    DV_TRY(begin_pool(&p, cx, x, w));
    DV_TRY(dv_on_use(&p.l, best, p.out));
    DV_TRY(dv_on_use(&p.l, first, p.out));
    dv_on_start(&p.l);
    dv_term is = dv_on_is_most(
        cx, x->dtype, read_window(&p.l, x, p.index, p.leaves, least(x->dtype)),
        dv_on_read(&p.l, best, p.out));
    dv_term t = dv_on_3(cx, "select", is,
                        read_window(&p.l, at, p.index + 2, p.leaves,
                                    (double)(INT64_C(1) << 50)),
                        dv_on_i(cx, INT64_C(1) << 50));
    t = dv_on_2(cx, "+", dv_on_reduce(&p.l, "min", t, w->n, p.sums),
                dv_on_read(&p.l, first, p.out));
    return dv_on_define(&p.l, out, DV_I64, 0, 2 + w->n, p.out, t);
}

static dv_status max_pool(dv_on *cx, const dv_onnx_node *n, dv_on_value *out,
                          dv_on_value *x, const dv_on_window *w)
{
    pool p;
    const int64_t *in = x->dims;
    DV_TRY(begin_pool(&p, cx, x, w));
    dv_on_start(&p.l);
    dv_term t = dv_on_reduce(
        &p.l, "max", read_window(&p.l, x, p.index, p.leaves, least(x->dtype)),
        w->n, p.sums);
    DV_TRY(dv_on_define(&p.l, out, x->dtype, 0, 2 + w->n, p.out, t));
    return dv_on_has_out(n, 1) ? max_indices(cx, n, x, in, w, out) : DV_OK;
}

dv_status dv_on_pool(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *out = dv_on_out(cx, n, 0);
    return out ? dv_on_pool_of(cx, n, out, dv_on_in(cx, n, 0)) : DV_E_NOMEM;
}

dv_status dv_on_pool_of(dv_on *cx, const dv_onnx_node *n, dv_on_value *out,
                        dv_on_value *x)
{
    dv_on_window w;
    int len;
    const int64_t *kernel = dv_on_ints(n, "kernel_shape", &len);
    if (x->n_dims < 3 || len != x->n_dims - 2)
        return dv_on_refuse(cx,
                            "attribute kernel_shape has %d %s, its "
                            "input %d dim%s",
                            len, DV_PLURAL(len, "entry", "entries"), x->n_dims,
                            DV_PLURAL(x->n_dims, "", "s"));
    DV_TRY(read_attributes(cx, n, len, x->dims + 2, kernel, &w));
    if (!strcmp(n->type, "MaxPool"))
        return max_pool(cx, n, out, x, &w);
    return n->type[0] == 'L' ? lp_pool(cx, n, out, x, &w)
                             : average(cx, n, out, x, &w);
}

dv_status dv_on_global_pool(dv_on *cx, const dv_onnx_node *n)
{
    int axes[DV_MAX_DIMS], sums[DV_MAX_DIMS], kept[DV_MAX_DIMS], count = 0;
    dv_on_loop l;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    if (!out)
        return DV_E_NOMEM;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, x, axes));
    for (int d = 0; d < x->n_dims; d++) {
        kept[d] = d < 2 ? axes[d] : -1;
        if (d >= 2)
            sums[count++] = axes[d];
    }
    dv_on_start(&l);
    const char *reducer = strstr(n->type, "Max") ? "max" : "mean";
    return dv_on_define(
        &l, out, x->dtype, 0, x->n_dims, kept,
        dv_on_reduce(&l, reducer, dv_on_read(&l, x, axes), count, sums));
}

dv_status dv_on_max_unpool(dv_on *cx, const dv_onnx_node *n)
{
    int64_t dims[DV_MAX_DIMS], stride[DV_MAX_DIMS], pads[2 * DV_MAX_DIMS],
        total = 1, size[DV_MAX_DIMS], before[DV_MAX_DIMS] = {0},
        after[DV_MAX_DIMS];
    const int64_t *shape = NULL;
    int count, axes[DV_MAX_DIMS];
    dv_on_loop l;
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *x = dv_on_in(cx, n, 0), *at = dv_on_in(cx, n, 1);
    dv_on_value *out = dv_on_out(cx, n, 0), *flat = dv_on_temp(cx, "flat");
    dv_on_value *made = dv_on_temp(cx, "unpooled");
    int spatial = x->n_dims - 2;
    if (!out || !flat || !made)
        return DV_E_NOMEM;
    if (spatial < 1 || at->n_dims != x->n_dims)
        return dv_on_refuse(cx, "its input has %d dim%s", x->n_dims,
                            DV_PLURAL(x->n_dims, "", "s"));
    DV_TRY(list_or(cx, n, "strides", spatial, 1, stride));
    DV_TRY(list_or(cx, n, "pads", 2 * spatial, 0, pads));
    DV_TRY(list_or(cx, n, "kernel_shape", spatial, 1, size));
    if (dv_on_in(cx, n, 2))
        DV_TRY(dv_on_get_ints(cx, dv_on_in(cx, n, 2), "output_shape", &shape,
                              &count));
    for (int d = 0; d < x->n_dims; d++) {
        int i = d - 2;
        dims[d] = x->dims[d];
        if (i >= 0 && (x->dims[d] > INT32_MAX || !is_size(stride[i]) ||
                       !is_size(size[i]) || !is_size(pads[i]) ||
                       !is_size(pads[i + spatial])))
            return dv_on_refuse(cx,
                                "dim %d, its kernel, stride or pads are "
                                "out of range",
                                d);
        if (i >= 0)
            dims[d] = (x->dims[d] - 1) * stride[i] + size[i] - pads[i] -
                      pads[i + spatial];
        // The indices of MaxUnpool refer to the shape without output_shape,
        // which only appends zeros.
        after[d] = shape && count == x->n_dims ? shape[d] - dims[d] : 0;
        if (after[d] < 0)
            return dv_on_refuse(cx, "input output_shape is too small");
        if (dims[d] < 1 || !dv_mul_i64(&total, total, dims[d]))
            return dv_on_refuse(cx, "dim %d of its result is empty", d);
    }
    dv_on_loop_begin(&l, cx);
    int line = dv_on_axis_add(&l, total);
    dv_on_start(&l);
    DV_TRY(dv_on_define(&l, flat, x->dtype, 0, 1, &line, dv_on_f(cx, 0)));
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, x, axes));
    DV_TRY(dv_on_use(&l, at, axes));
    dv_on_start(&l);
    dv_on_index index = {.via = dv_on_read(&l, at, axes)};
    dv_term t = dv_on_read(&l, x, axes);
    DV_TRY(dv_on_update(&l, flat, &index, t));
    DV_TRY(dv_on_reshape(cx, made, flat, x->n_dims, dims));
    return dv_on_pad_with(cx, out, made, before, after, 0);
}
