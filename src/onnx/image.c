// Resize and Upsample: each dim is resized alone, by one to four taps per
// result whose positions and weights are tables.
#include "base/dtype.h"
#include "base/plural.h"
#include "onnx/import.h"
#include <math.h>
#include <string.h>

enum { MAX_TAPS = 4 };

// How one dim is resized.
typedef struct resize {
    int64_t in, out;
    double scale, start, end; // start and end: part of the image (roi)
    const char *where, *nearest;
    char mode; // n, l or c
    double cubic;
    int exclude;
} resize;

// Returns the position in the input that corresponds to element i of the
// result.
static double source(const resize *r, int64_t i)
{
    double x = (double)i, in = (double)r->in, out = (double)r->out;
    if (!strcmp(r->where, "asymmetric"))
        return x / r->scale;
    if (!strcmp(r->where, "align_corners"))
        return r->out == 1 ? 0 : x * (in - 1) / (out - 1);
    if (!strcmp(r->where, "tf_half_pixel_for_nn"))
        return (x + 0.5) / r->scale;
    if (!strcmp(r->where, "pytorch_half_pixel") && r->out == 1)
        return 0;
    if (!strcmp(r->where, "tf_crop_and_resize"))
        return r->out == 1 ? 0.5 * (r->start + r->end) * (in - 1)
                           : r->start * (in - 1) +
                                 x * (r->end - r->start) * (in - 1) / (out - 1);
    double at = (x + 0.5) / r->scale - 0.5;
    if (!strcmp(r->where, "half_pixel_symmetric")) {
        double adjust = out / (r->scale * in), centre = in / 2;
        at += centre * (1 - adjust);
    }
    return at;
}

static double nearest(const resize *r, double x)
{
    if (!strcmp(r->nearest, "floor"))
        return floor(x);
    if (!strcmp(r->nearest, "ceil"))
        return ceil(x);
    if (!strcmp(r->nearest, "round_prefer_ceil"))
        return floor(x + 0.5);
    return ceil(x - 0.5);
}

// Computes the taps (input positions and weights) of the interpolation at input
// position x. Returns their number.
static int taps(const resize *r, double x, double *at, double *weight)
{
    double f = x - floor(x), a = r->cubic, total = 0;
    if (r->mode == 'n') {
        at[0] = nearest(r, x);
        weight[0] = 1;
        return 1;
    }
    if (r->mode == 'l') {
        at[0] = floor(x);
        at[1] = floor(x) + 1;
        weight[0] = 1 - f;
        weight[1] = f;
        return 2;
    }
    for (int k = 0; k < 4; k++) {
        double d = fabs(f + 1 - k);
        at[k] = floor(x) - 1 + k;
        weight[k] = d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1
                           : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
        if (r->exclude && (at[k] < 0 || at[k] > (double)r->in - 1))
            weight[k] = 0;
        total += weight[k];
    }
    for (int k = 0; k < 4 && r->exclude; k++)
        weight[k] /= total;
    return 4;
}

// The interpolation tables of one dim: positions and weights of tap k for every
// result, and whether the result is inside the image.
typedef struct tables {
    int n;
    int64_t *at[MAX_TAPS];
    double *weight[MAX_TAPS], *inside;
    int all_inside;
} tables;

static dv_status make_tables(dv_on *cx, const resize *r, tables *t)
{
    double at[MAX_TAPS], weight[MAX_TAPS];
    t->all_inside = 1;
    t->inside = DV_NEW(cx->arena, double, r->out);
    for (int k = 0; k < MAX_TAPS; k++) {
        t->at[k] = DV_NEW(cx->arena, int64_t, r->out);
        t->weight[k] = DV_NEW(cx->arena, double, r->out);
        if (!t->at[k] || !t->weight[k] || !t->inside)
            return dv_nomem(cx->diag);
    }
    for (int64_t i = 0; i < r->out; i++) {
        double x = source(r, i), last = (double)r->in - 1;
        int crop = !strcmp(r->where, "tf_crop_and_resize");
        t->inside[i] = !crop || (x >= 0 && x <= last);
        t->all_inside &= t->inside[i] != 0;
        t->n = taps(r, x, at, weight);
        for (int k = 0; k < t->n; k++) {
            double p = at[k] < 0 ? 0 : at[k] > last ? last : at[k];
            t->at[k][i] = (int64_t)p;
            t->weight[k][i] = weight[k];
        }
    }
    return DV_OK;
}

// If resizing only repeats every element equally often, which a view can do,
// returns how often; otherwise 0.
static int64_t repeats(const resize *r, const tables *t)
{
    int64_t times = r->in ? r->out / r->in : 0;
    if (t->n != 1 || times < 1 || times * r->in != r->out || !t->all_inside)
        return 0;
    for (int64_t i = 0; i < r->out; i++)
        if (t->at[0][i] != i / times)
            return 0;
    return times;
}

static dv_status repeat(dv_on *cx, dv_on_value *out, dv_on_value *x, int d,
                        int64_t times)
{
    int64_t dims[DV_MAX_DIMS], final[DV_MAX_DIMS];
    dv_on_value *a = dv_on_temp(cx, out->name), *b = dv_on_temp(cx, out->name);
    if (!a || !b)
        return DV_E_NOMEM;
    for (int k = 0; k < x->n_dims; k++) {
        dims[k + (k > d)] = x->dims[k];
        final[k] = x->dims[k] * (k == d ? times : 1);
    }
    dims[d + 1] = 1;
    DV_TRY(dv_on_reshape(cx, a, x, x->n_dims + 1, dims));
    dims[d + 1] = times;
    DV_TRY(dv_on_expand(cx, b, a, x->n_dims + 1, dims));
    return dv_on_reshape(cx, out, b, x->n_dims, final);
}

// Resizes dim d of x; results beyond the image have the value `outside`.
static dv_status one_dim(dv_on *cx, dv_on_value *out, dv_on_value *x, int d,
                         const resize *r, double outside)
{
    tables t = {0};
    int axes[DV_MAX_DIMS], used[DV_MAX_DIMS];
    dv_on_loop l;
    dv_on_index index[DV_MAX_DIMS];
    dv_on_value *at[MAX_TAPS], *weight[MAX_TAPS], *inside;
    DV_TRY(make_tables(cx, r, &t));
    int64_t times = repeats(r, &t);
    if (times && x->n_dims < DV_MAX_DIMS)
        return repeat(cx, out, x, d, times);
    if (!dv_on_is_plain(x, d))
        DV_TRY(dv_on_copy(cx, x, 0));
    dv_on_loop_begin(&l, cx);
    for (int k = 0; k < x->n_dims; k++)
        axes[k] = used[k] = dv_on_axis_add(&l, k == d ? r->out : x->dims[k]);
    used[d] = -1;
    DV_TRY(dv_on_use(&l, x, used));
    for (int k = 0; k < t.n; k++) {
        at[k] = dv_on_const_ints(cx, "from", DV_I64, 1, &r->out, t.at[k]);
        weight[k] =
            dv_on_const_floats(cx, "weight", x->dtype, 1, &r->out, t.weight[k]);
        if (!at[k] || !weight[k])
            return DV_E_NOMEM;
    }
    inside = dv_on_const_floats(cx, "inside", x->dtype, 1, &r->out, t.inside);
    if (!inside)
        return DV_E_NOMEM;
    dv_on_start(&l);
    dv_term y = NULL;
    for (int k = 0; k < t.n; k++) {
        for (int j = 0; j < x->n_dims; j++)
            index[j] = dv_on_along(axes[j]);
        index[d] = (dv_on_index){.via = dv_on_read(&l, at[k], &axes[d])};
        dv_term v = dv_on_read_at(&l, x, index);
        if (t.n > 1)
            v = dv_on_2(cx, "*", v, dv_on_read(&l, weight[k], &axes[d]));
        y = y ? dv_on_2(cx, "+", y, v) : v;
    }
    if (!t.all_inside)
        y = dv_on_3(cx, "select", dv_on_read(&l, inside, &axes[d]), y,
                    dv_on_num(cx, x->dtype, outside));
    return dv_on_define(&l, out, x->dtype, 0, x->n_dims, axes, y);
}

// Sets *scale to the one by which all axes are resized, if the aspect ratio is
// kept: the smallest or the largest that the sizes give; 0 if it is not kept.
static dv_status common_scale(dv_on *cx, const dv_onnx_node *n,
                              const dv_on_value *x, const double *sizes,
                              double *scale)
{
    const char *policy = dv_on_string(n, "keep_aspect_ratio_policy", "stretch");
    int count, d, larger = !strcmp(policy, "not_smaller");
    const int64_t *list = dv_on_ints(n, "axes", &count);
    *scale = 0;
    if (!strcmp(policy, "stretch"))
        return DV_OK;
    if (!larger && strcmp(policy, "not_larger"))
        return dv_on_refuse(cx,
                            "attribute keep_aspect_ratio_policy '%s' is "
                            "not supported",
                            policy);
    for (int i = 0; i < (list ? count : x->n_dims); i++) {
        DV_TRY(dv_on_norm_axis(cx, list ? list[i] : i, x->n_dims, &d));
        double s = sizes[i] / (double)x->dims[d];
        if (!i || (larger ? s > *scale : s < *scale))
            *scale = s;
    }
    return DV_OK;
}

// Fails if the attribute `axes` names an axis twice, or if a size is less than
// 1.
static dv_status check_sizes(dv_on *cx, const dv_onnx_node *n,
                             const dv_on_value *x, const double *sizes)
{
    int count, d, seen[DV_MAX_DIMS] = {0};
    const int64_t *list = dv_on_ints(n, "axes", &count);
    for (int i = 0; i < (list ? count : x->n_dims); i++) {
        DV_TRY(dv_on_norm_axis(cx, list ? list[i] : i, x->n_dims, &d));
        if (seen[d]++)
            return dv_on_refuse(cx, "attribute axes names axis %d twice", d);
        if (sizes && !(sizes[i] >= 1))
            return dv_on_refuse(cx, "dim %d gets %g elements", d, sizes[i]);
    }
    return DV_OK;
}

static dv_status run(dv_on *cx, const dv_onnx_node *n, const double *scales,
                     const double *sizes, const double *roi, int old)
{
    int count;
    const int64_t *list = dv_on_ints(n, "axes", &count);
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    const char *mode = dv_on_string(n, "mode", "nearest");
    if (!out)
        return DV_E_NOMEM;
    if (dv_on_int(n, "antialias", 0))
        return dv_on_refuse(cx, "attribute antialias is not supported");
    if (mode[0] != 'n' && mode[0] != 'l' && mode[0] != 'c')
        return dv_on_refuse(cx, "attribute mode '%s' is not supported", mode);
    int n_axes = list ? count : x->n_dims;
    double common = 0;
    DV_TRY(check_sizes(cx, n, x, sizes));
    if (sizes)
        DV_TRY(common_scale(cx, n, x, sizes, &common));
    for (int i = 0; i < n_axes; i++) {
        int d;
        DV_TRY(dv_on_norm_axis(cx, list ? list[i] : i, x->n_dims, &d));
        double in = (double)x->dims[d];
        resize r = {.in = x->dims[d], .mode = mode[0]};
        double size = common > 0 ? floor(in * common + 0.5)
                      : sizes    ? sizes[i]
                                 : floor(in * scales[i] + 1e-9);
        // The size is limited because tables of indices and weights of as many
        // elements are made at import.
        if (!(size >= 1 && size <= (double)DV_ON_MAX_FOLD))
            return dv_on_refuse(cx, "dim %d gets %g elements", d, size);
        r.out = (int64_t)size;
        r.scale = common > 0 ? common : sizes ? size / in : scales[i];
        if (!sizes && in * scales[i] != size &&
            !strcmp(dv_on_string(n, "coordinate_transformation_mode", ""),
                    "align_corners"))
            return dv_on_refuse(cx,
                                "attribute coordinate_transformation_mode "
                                "is align_corners and scale %g gives no "
                                "whole size",
                                scales[i]);
        r.where = dv_on_string(n, "coordinate_transformation_mode",
                               old ? "asymmetric" : "half_pixel");
        r.nearest = dv_on_string(n, "nearest_mode",
                                 old ? "floor" : "round_prefer_floor");
        r.cubic = dv_on_float(n, "cubic_coeff_a", -0.75);
        r.exclude = dv_on_int(n, "exclude_outside", 0) != 0;
        r.start = roi ? roi[i] : 0;
        r.end = roi ? roi[i + n_axes] : 1;
        if (r.in == r.out && r.start == 0 && r.end == 1 && r.scale == 1)
            continue;
        dv_on_value *made = dv_on_temp(cx, out->name);
        if (!made)
            return DV_E_NOMEM;
        DV_TRY(one_dim(cx, made, x, d, &r,
                       dv_on_float(n, "extrapolation_value", 0)));
        x = made;
    }
    dv_on_same(out, x);
    return DV_OK;
}

// Reads an optional input of `count` floats, which may also be empty.
static dv_status optional(dv_on *cx, const dv_onnx_node *n, int i,
                          const char *what, int count, const double **out)
{
    int len = 0;
    *out = NULL;
    dv_on_value *v = dv_on_in(cx, n, i);
    if (!v || dv_on_count(v) == 0)
        return DV_OK;
    DV_TRY(dv_on_get_floats(cx, v, what, out, &len));
    return len == count
               ? DV_OK
               : dv_on_refuse(cx, "input %s has %d element%s, not %d", what,
                              len, DV_PLURAL(len, "", "s"), count);
}

dv_status dv_on_resize(dv_on *cx, const dv_onnx_node *n)
{
    const double *scales = NULL, *sizes = NULL, *roi = NULL;
    int count;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0);
    int axes = dv_on_ints(n, "axes", &count) ? count : x->n_dims;
    int old = cx->opset < 11 || !strcmp(n->type, "Upsample");
    const dv_onnx_attr *a = dv_on_attr(n, "scales");
    if (old && a) {
        double *list = DV_NEW(cx->arena, double, a->n_floats + 1);
        for (int i = 0; list && i < a->n_floats; i++)
            list[i] = (double)a->floats[i];
        if (!list || a->n_floats != axes)
            return dv_on_refuse(cx, "attribute scales does not fit");
        return run(cx, n, list, NULL, NULL, 1);
    }
    if (old) {
        DV_TRY(optional(cx, n, 1, "scales", axes, &scales));
    } else {
        const char *where =
            dv_on_string(n, "coordinate_transformation_mode", "half_pixel");
        if (!strcmp(where, "tf_crop_and_resize"))
            DV_TRY(optional(cx, n, 1, "roi", 2 * axes, &roi));
        DV_TRY(optional(cx, n, 2, "scales", axes, &scales));
        DV_TRY(optional(cx, n, 3, "sizes", axes, &sizes));
    }
    if (!scales && !sizes)
        return dv_on_refuse(cx, "it has neither scales nor sizes");
    return run(cx, n, scales, sizes, roi, old);
}
