// Quantised operators: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear,
// QLinearMatMul, QLinearConv, and those of the domain com.microsoft, which
// ONNX Runtime's quantisation tools write.
#include "base/dtype.h"
#include "base/math.h"
#include "base/plural.h"
#include "onnx/conv.h"
#include <math.h>
#include <string.h>

static int is_unsigned(dv_dtype t)
{
    return dv_dtype_get(t)->name[0] == 'u';
}

// Returns round(x) + zero, clamped to the range of the integer type t.
static dv_term saturate(dv_on *cx, dv_term x, dv_term zero, dv_dtype t)
{
    int bits = 8 * (int)dv_dtype_get(t)->size_bytes;
    double low = is_unsigned(t) ? 0 : -ldexp(1, bits - 1);
    double high = ldexp(1, is_unsigned(t) ? bits : bits - 1) - 1;
    x = dv_on_1(cx, "round", x);
    if (zero)
        x = dv_on_2(cx, "+", x, zero);
    return dv_on_2(cx, "max", dv_on_num(cx, DV_F32, low),
                   dv_on_2(cx, "min", dv_on_num(cx, DV_F32, high), x));
}

// Sets out[0] to the axis along which a scale or zero point has elements; -1 if
// it is a scalar.
static dv_status scale_axes(dv_on *cx, const dv_on_value *v, int axis, int *out)
{
    out[0] = v && dv_on_count(v) > 1 ? axis : -1;
    if (v && v->n_dims > 1)
        return dv_on_refuse(cx, "a scale or zero point has %d dim%s", v->n_dims,
                            DV_PLURAL(v->n_dims, "", "s"));
    return DV_OK;
}

// Replaces *v, which has one number for each block of x along an axis, by a
// view with one for each element of x.
static dv_status spread_blocks(dv_on *cx, dv_on_value **v, const dv_on_value *x,
                               int axis, int64_t block)
{
    dv_on_value *of = *v, *one = dv_on_temp(cx, of->name),
                *all = dv_on_temp(cx, of->name), *line = dv_on_temp(cx, "line");
    int64_t dims[DV_MAX_DIMS + 1], flat[DV_MAX_DIMS], begin[DV_MAX_DIMS] = {0},
                                                      step[DV_MAX_DIMS];
    int fits = of->n_dims == x->n_dims && x->n_dims < DV_MAX_DIMS && block > 0;
    for (int d = 0; d < x->n_dims && fits; d++) {
        int64_t n = d == axis ? 1 + (x->dims[d] - 1) / block : x->dims[d];
        fits = of->dims[d] == n;
        dims[d + (d > axis)] = flat[d] = n;
        step[d] = 1;
    }
    *v = dv_on_temp(cx, of->name);
    if (!one || !all || !line || !*v)
        return DV_E_NOMEM;
    if (!fits || !dv_mul_i64(&flat[axis], flat[axis], block))
        return dv_on_refuse(cx,
                            "a scale or zero point does not fit blocks of "
                            "%lld elements along axis %d",
                            (long long)block, axis);
    dims[axis + 1] = 1;
    DV_TRY(dv_on_reshape(cx, one, of, x->n_dims + 1, dims));
    dims[axis + 1] = block;
    DV_TRY(dv_on_expand(cx, all, one, x->n_dims + 1, dims));
    DV_TRY(dv_on_reshape(cx, line, all, x->n_dims, flat));
    return dv_on_slice(cx, *v, line, begin, step, x->dims);
}

static dv_status over_scales(dv_on *cx, const dv_onnx_node *n, dv_on_loop *l,
                             int *axes, int *s_axes, dv_term *t)
{
    dv_on_value *x = dv_on_in(cx, n, 0), *scale = dv_on_in(cx, n, 1),
                *zero = dv_on_in(cx, n, 2);
    int64_t block = dv_on_int(n, "block_size", 0);
    int axis = 0;
    if (dv_on_count(scale) > 1 || block)
        DV_TRY(dv_on_norm_axis(cx, dv_on_int(n, "axis", 1), x->n_dims, &axis));
    dv_on_loop_begin(l, cx);
    DV_TRY(dv_on_over(l, x, axes));
    // Numbers by blocks are read along all axes of x, others along one or none.
    const int *along = block ? axes : s_axes;
    dv_on_value **both[2] = {&scale, &zero};
    for (int i = 0; i < (zero ? 2 : 1); i++) {
        DV_TRY(block ? spread_blocks(cx, both[i], x, axis, block)
                     : scale_axes(cx, *both[i], axis, s_axes));
        DV_TRY(dv_on_use(l, *both[i], along));
    }
    dv_on_start(l);
    t[0] = dv_on_read(l, x, axes);
    t[1] = dv_on_read(l, scale, along);
    t[2] = zero ? dv_on_read(l, zero, along) : NULL;
    return l->status;
}

dv_status dv_on_quantize(dv_on *cx, const dv_onnx_node *n)
{
    int axes[DV_MAX_DIMS], s_axes[1];
    dv_on_loop l;
    dv_term t[3];
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *x = dv_on_in(cx, n, 0), *zero = dv_on_in(cx, n, 2);
    dv_on_value *out = dv_on_out(cx, n, 0);
    int64_t asked = dv_on_int(n, "output_dtype", 0);
    int to = zero    ? (int)zero->dtype
             : asked ? dv_onnx_dtype((int32_t)asked)
                     : dv_onnx_dtype(DV_ONNX_UINT8);
    if (!out)
        return DV_E_NOMEM;
    if (to < 0 || dv_is_float((dv_dtype)to))
        return dv_on_refuse(cx, "the type of its result is not supported");
    DV_TRY(over_scales(cx, n, &l, axes, s_axes, t));
    return dv_on_define(
        &l, out, (dv_dtype)to, 0, x->n_dims, axes,
        saturate(cx, dv_on_divide(cx, t[0], t[1]), t[2], (dv_dtype)to));
}

dv_status dv_on_dequantize(dv_on *cx, const dv_onnx_node *n)
{
    int axes[DV_MAX_DIMS], s_axes[1];
    dv_on_loop l;
    dv_term t[3];
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    if (!out)
        return DV_E_NOMEM;
    DV_TRY(over_scales(cx, n, &l, axes, s_axes, t));
    dv_term y = t[2] ? dv_on_2(cx, "-", t[0], t[2]) : t[0];
    return dv_on_define(&l, out, dv_on_in(cx, n, 1)->dtype, 0, x->n_dims, axes,
                        dv_on_2(cx, "*", y, t[1]));
}

// Defines the scalar *out: the minimum or maximum (`reducer`) of 0 and all
// elements of x.
static dv_status extreme(dv_on *cx, dv_on_value *x, const char *reducer,
                         dv_on_value **out)
{
    int axes[DV_MAX_DIMS];
    dv_on_loop l;
    *out = dv_on_temp(cx, reducer[1] == 'a' ? "most" : "least");
    if (!*out)
        return DV_E_NOMEM;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, x, axes));
    dv_on_start(&l);
    dv_term t =
        dv_on_reduce(&l, reducer, dv_on_read(&l, x, axes), x->n_dims, axes);
    return dv_on_define(&l, *out, x->dtype, 0, 0, NULL,
                        dv_on_2(cx, reducer, t, dv_on_f(cx, 0)));
}

dv_status dv_on_dynamic_quantize(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *y = dv_on_out(cx, n, 0), *scale = dv_on_out(cx, n, 1),
                *zero = dv_on_out(cx, n, 2);
    return y && scale && zero
               ? dv_on_quantize_by_range(cx, dv_on_in(cx, n, 0), y, scale, zero)
               : DV_E_NOMEM;
}

dv_status dv_on_quantize_by_range(dv_on *cx, dv_on_value *x, dv_on_value *y,
                                  dv_on_value *scale, dv_on_value *zero)
{
    int axes[DV_MAX_DIMS], u8 = dv_onnx_dtype(DV_ONNX_UINT8);
    dv_on_loop l;
    dv_on_value *low, *high;
    if (u8 < 0)
        return dv_on_refuse(cx, "type uint8 is not supported");
    DV_TRY(extreme(cx, x, "max", &high));
    DV_TRY(extreme(cx, x, "min", &low));
    dv_on_loop_begin(&l, cx);
    dv_on_start(&l);
    dv_term h = dv_on_read(&l, high, NULL), w = dv_on_read(&l, low, NULL);
    DV_TRY(dv_on_define(
        &l, scale, x->dtype, 0, 0, NULL,
        dv_on_2(cx, "/", dv_on_2(cx, "-", h, w), dv_on_f(cx, 255))));
    dv_on_loop_begin(&l, cx);
    dv_on_start(&l);
    w = dv_on_read(&l, low, NULL);
    dv_term s = dv_on_read(&l, scale, NULL);
    DV_TRY(dv_on_define(&l, zero, (dv_dtype)u8, 0, 0, NULL,
                        saturate(cx, dv_on_1(cx, "-", dv_on_2(cx, "/", w, s)),
                                 NULL, (dv_dtype)u8)));
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, x, axes));
    dv_on_start(&l);
    dv_term q =
        dv_on_divide(cx, dv_on_read(&l, x, axes), dv_on_read(&l, scale, NULL));
    dv_term z = dv_on_read(&l, zero, NULL);
    return dv_on_define(&l, y, (dv_dtype)u8, 0, x->n_dims, axes,
                        saturate(cx, q, z, (dv_dtype)u8));
}

// Defines *out as acc, a sum of integer products, in another scale:
// saturate(round(acc * a * b / s) + zero). b may differ along an axis.
static dv_status requantize(dv_on *cx, dv_on_value *out, dv_on_value *acc,
                            dv_on_value *a, dv_on_value *b, dv_on_value *s,
                            dv_on_value *zero, int axis)
{
    int axes[DV_MAX_DIMS], b_axes[1], none[1] = {-1};
    dv_on_loop l;
    if (dv_on_count(a) != 1 || dv_on_count(s) != 1 || dv_on_count(zero) != 1)
        return dv_on_refuse(cx, "a scale has more than one element");
    DV_TRY(scale_axes(cx, b, axis, b_axes));
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, acc, axes));
    DV_TRY(dv_on_use(&l, b, b_axes));
    dv_on_start(&l);
    dv_term f = dv_on_2(
        cx, "/",
        dv_on_2(cx, "*", dv_on_read(&l, a, none), dv_on_read(&l, b, b_axes)),
        dv_on_read(&l, s, none));
    dv_term y = dv_on_2(cx, "*", dv_on_read(&l, acc, axes), f);
    dv_term z = dv_on_read(&l, zero, none);
    return dv_on_define(&l, out, zero->dtype, 0, acc->n_dims, axes,
                        saturate(cx, y, z, zero->dtype));
}

dv_status dv_on_qlinear_matmul(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 8));
    dv_on_value *v[8], *acc = dv_on_temp(cx, "acc"), *out = dv_on_out(cx, n, 0);
    for (int i = 0; i < 8; i++)
        v[i] = dv_on_in(cx, n, i);
    if (!acc || !out)
        return DV_E_NOMEM;
    DV_TRY(dv_on_product(cx, acc, v[0], v[3], DV_I32, v[2], v[5]));
    return requantize(cx, out, acc, v[1], v[4], v[6], v[7], acc->n_dims - 1);
}

dv_status dv_on_qlinear_conv(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 8));
    dv_on_value *v[9], *acc = dv_on_temp(cx, "acc"), *out = dv_on_out(cx, n, 0);
    for (int i = 0; i < 9; i++)
        v[i] = dv_on_in(cx, n, i);
    if (!acc || !out)
        return DV_E_NOMEM;
    dv_on_conv c = {.x = v[0], .w = v[3], .b = v[8], .w_zero = v[5]};
    DV_TRY(dv_on_conv_read(cx, n, &c));
    DV_TRY(dv_on_conv_zero(cx, &c, v[2]));
    DV_TRY(dv_on_conv_bytes(cx, acc, &c));
    return requantize(cx, out, acc, v[1], v[4], v[6], v[7], 1);
}

// -- Quantised operators of the domain com.microsoft -------------------------

// A quantised operand: stands for the numbers (x - zero) * scale.
typedef struct scaled {
    dv_on_value *x;     // NULL if it describes the result
    dv_on_value *scale; // one number
    dv_on_value *zero;  // one number; NULL: 0
} scaled;

// Replaces *v by a view of its only element without dims.
static dv_status only_element(dv_on *cx, dv_on_value **v)
{
    dv_on_value *x = *v;
    if (dv_on_count(x) != 1)
        return dv_on_refuse(cx,
                            "a scale or zero point has %lld elements, not 1",
                            (long long)dv_on_count(x));
    *v = dv_on_temp(cx, x->name);
    return *v ? dv_on_reshape(cx, *v, x, 0, NULL) : DV_E_NOMEM;
}

// Gets the scale at input number i and the zero point at the next input, which
// may be left out.
static dv_status get_scale(dv_on *cx, const dv_onnx_node *n, int i, scaled *out)
{
    out->scale = dv_on_in(cx, n, i);
    out->zero = dv_on_in(cx, n, i + 1);
    if (!out->scale)
        return dv_on_refuse(cx, "input %d, a scale, is missing", i);
    if (out->zero && !dv_on_is_byte(out->zero))
        return dv_on_refuse(cx, "input %d, a zero point, is not of 8 bits",
                            i + 1);
    DV_TRY(only_element(cx, &out->scale));
    return out->zero ? only_element(cx, &out->zero) : DV_OK;
}

// Gets an operand at input number i, with its scale and zero point.
static dv_status get_scaled(dv_on *cx, const dv_onnx_node *n, int i,
                            scaled *out)
{
    out->x = dv_on_in(cx, n, i);
    if (!out->x)
        return dv_on_refuse(cx, "input %d is missing", i);
    if (!dv_on_is_byte(out->x))
        return dv_on_refuse(cx, "input %d is not of 8 bits", i);
    return get_scale(cx, n, i + 1, out);
}

static dv_term real_number(dv_on_loop *l, dv_term x, const scaled *s)
{
    if (s->zero)
        x = dv_on_2(l->cx, "-", x, dv_on_read(l, s->zero, NULL));
    return dv_on_2(l->cx, "*", x, dv_on_read(l, s->scale, NULL));
}

// Defines `out`, over the axes of a broadcast, as a quantised number of type t.
static dv_status define_scaled(dv_on_loop *l, dv_on_value *out, dv_dtype t,
                               const scaled *to, dv_term real)
{
    dv_on *cx = l->cx;
    int axes[DV_MAX_DIMS];
    memcpy(axes, l->out, sizeof axes);
    dv_term zero = to->zero ? dv_on_read(l, to->zero, NULL) : NULL;
    dv_term q = dv_on_divide(cx, real, dv_on_read(l, to->scale, NULL));
    t = to->zero ? to->zero->dtype : t;
    return dv_on_define(l, out, t, 0, l->n_out, axes, saturate(cx, q, zero, t));
}

// Returns the formula of an elementwise operator, applied to real numbers.
static dv_term apply(dv_on *cx, const dv_onnx_node *n, const dv_term *x)
{
    const char *k = n->type + strlen("QLinear");
    if (!strcmp(k, "Sigmoid"))
        return dv_on_1(cx, "sigmoid", x[0]);
    if (!strcmp(k, "LeakyRelu")) {
        dv_term zero = dv_on_f(cx, 0);
        dv_term slope = dv_on_num(cx, DV_F32, dv_on_float(n, "alpha", 0.01));
        return dv_on_3(cx, "select", dv_on_2(cx, "<", x[0], zero),
                       dv_on_2(cx, "*", slope, x[0]), x[0]);
    }
    return dv_on_2(cx, !strcmp(k, "Mul") ? "*" : "+", x[0], x[1]);
}

// Imports QLinearAdd, QLinearMul, QLinearSigmoid and QLinearLeakyRelu.
dv_status dv_on_qlinear_elementwise(dv_on *cx, const dv_onnx_node *n)
{
    int two = !strcmp(n->type, "QLinearAdd") || !strcmp(n->type, "QLinearMul");
    scaled s[2], to;
    dv_on_loop l;
    dv_term x[2];
    DV_TRY(get_scaled(cx, n, 0, &s[0]));
    if (two)
        DV_TRY(get_scaled(cx, n, 3, &s[1]));
    DV_TRY(get_scale(cx, n, two ? 6 : 3, &to));
    dv_on_value *v[] = {s[0].x, s[two].x}, *out = dv_on_out(cx, n, 0);
    if (!out)
        return DV_E_NOMEM;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, v, 1 + two, x));
    for (int i = 0; i <= two; i++)
        x[i] = real_number(&l, x[i], &s[i]);
    return define_scaled(&l, out, v[0]->dtype, &to, apply(cx, n, x));
}

dv_status dv_on_qlinear_where(dv_on *cx, const dv_onnx_node *n)
{
    scaled s[2], to;
    dv_on_loop l;
    dv_term x[3];
    DV_TRY(dv_on_need(cx, n, 1));
    DV_TRY(get_scaled(cx, n, 1, &s[0]));
    DV_TRY(get_scaled(cx, n, 4, &s[1]));
    DV_TRY(get_scale(cx, n, 7, &to));
    dv_on_value *v[] = {dv_on_in(cx, n, 0), s[0].x, s[1].x};
    dv_on_value *out = dv_on_out(cx, n, 0);
    if (!out)
        return DV_E_NOMEM;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, v, 3, x));
    dv_term y = dv_on_3(cx, "select", x[0], real_number(&l, x[1], &s[0]),
                        real_number(&l, x[2], &s[1]));
    return define_scaled(&l, out, v[1]->dtype, &to, y);
}

// Defines `out` as the operand `from` with the scale and zero point `to`. If
// `to` is NULL, its numbers are not quantised; if from->scale is NULL, those of
// `from` are not.
static dv_status rescaled(dv_on *cx, dv_on_value *out, const scaled *from,
                          dv_dtype t, const scaled *to)
{
    dv_on_loop l;
    dv_term x;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, &from->x, 1, &x));
    if (from->scale)
        x = real_number(&l, x, from);
    if (to)
        return define_scaled(&l, out, t, to, x);
    int axes[DV_MAX_DIMS];
    memcpy(axes, l.out, sizeof axes);
    return dv_on_define(&l, out, t, 0, l.n_out, axes, x);
}

dv_status dv_on_qlinear_concat(dv_on *cx, const dv_onnx_node *n)
{
    int count = n->n_inputs / 3, axis; // the last zero point may be missing
    scaled to, from;
    DV_TRY(dv_on_need(cx, n, 4));
    DV_TRY(get_scale(cx, n, 0, &to));
    dv_on_value **parts = DV_NEW(cx->arena, dv_on_value *, count + 1);
    dv_on_value *out = dv_on_out(cx, n, 0);
    if (!parts || !out)
        return DV_E_NOMEM;
    for (int i = 0; i < count; i++) {
        DV_TRY(get_scaled(cx, n, 2 + 3 * i, &from));
        parts[i] = dv_on_temp(cx, from.x->name);
        if (!parts[i])
            return DV_E_NOMEM;
        DV_TRY(rescaled(cx, parts[i], &from, from.x->dtype, &to));
    }
    DV_TRY(
        dv_on_norm_axis(cx, dv_on_int(n, "axis", 0), parts[0]->n_dims, &axis));
    return dv_on_join(cx, out, parts, count, axis);
}

// Makes `to` a view of x with the last dim, the channels, as dim 1; if `back`,
// makes it a view of x with dim 1 as the last dim.
static dv_status move_channels(dv_on *cx, dv_on_value *to, const dv_on_value *x,
                               int back)
{
    int perm[DV_MAX_DIMS], last = x->n_dims - 1;
    for (int d = 0; d <= last; d++)
        perm[d] = back ? (d == 0      ? 0
                          : d == last ? 1
                                      : d + 1)
                       : (d == 0   ? 0
                          : d == 1 ? last
                                   : d - 1);
    return dv_on_transpose(cx, to, x, perm);
}

// Defines `out` as the average of a quantised image over all dims but the first
// two: the sum of its integers, times 1 / (their number).
static dv_status global_average(dv_on *cx, dv_on_value *out, const scaled *from,
                                const scaled *to)
{
    int axes[DV_MAX_DIMS], sums[DV_MAX_DIMS], kept[DV_MAX_DIMS], count = 0;
    dv_on_loop l;
    scaled sum = {dv_on_temp(cx, "sum"), dv_on_temp(cx, "scale"), NULL};
    if (!sum.x || !sum.scale)
        return DV_E_NOMEM;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, from->x, axes));
    double elements = 1;
    for (int d = 0; d < from->x->n_dims; d++) {
        kept[d] = d < 2 ? axes[d] : -1;
        if (d >= 2) {
            sums[count++] = axes[d];
            elements *= (double)from->x->dims[d];
        }
    }
    dv_on_start(&l);
    dv_term x = dv_on_read(&l, from->x, axes);
    if (from->zero)
        x = dv_on_2(cx, "-", x, dv_on_read(&l, from->zero, NULL));
    DV_TRY(dv_on_define(&l, sum.x, DV_I32, 0, from->x->n_dims, kept,
                        dv_on_reduce(&l, "sum", x, count, sums)));
    dv_on_loop_begin(&l, cx);
    dv_on_start(&l);
    x = dv_on_read(&l, from->scale, NULL);
    DV_TRY(dv_on_define(&l, sum.scale, DV_F32, 0, 0, NULL,
                        dv_on_2(cx, "/", x, dv_on_f(cx, elements))));
    return rescaled(cx, out, &sum, from->x->dtype, to);
}

// Imports QLinearGlobalAveragePool and QLinearAveragePool.
dv_status dv_on_qlinear_pool(dv_on *cx, const dv_onnx_node *n)
{
    scaled s, to;
    DV_TRY(get_scaled(cx, n, 0, &s));
    DV_TRY(get_scale(cx, n, 3, &to));
    int last = dv_on_int(n, "channels_last", 0) != 0;
    dv_on_value *out = dv_on_out(cx, n, 0), *image = dv_on_temp(cx, "image"),
                *y = last ? dv_on_temp(cx, "y") : out;
    if (!out || !image || !y)
        return DV_E_NOMEM;
    if (s.x->n_dims < 3)
        return dv_on_refuse(cx, "its input has %d dim%s", s.x->n_dims,
                            DV_PLURAL(s.x->n_dims, "", "s"));
    if (last) {
        DV_TRY(move_channels(cx, image, s.x, 0));
        s.x = image;
    }
    if (strstr(n->type, "Global")) {
        DV_TRY(global_average(cx, y, &s, &to));
    } else {
        scaled real = {dv_on_temp(cx, "pooled"), NULL, NULL};
        dv_on_value *x = dv_on_temp(cx, "real");
        if (!real.x || !x)
            return DV_E_NOMEM;
        DV_TRY(rescaled(cx, x, &s, DV_F32, NULL));
        DV_TRY(dv_on_pool_of(cx, n, real.x, x));
        DV_TRY(rescaled(cx, y, &real, s.x->dtype, &to));
    }
    return last ? move_channels(cx, out, y, 1) : DV_OK;
}

dv_status dv_on_qlinear_softmax(dv_on *cx, const dv_onnx_node *n)
{
    scaled s, to, share = {dv_on_temp(cx, "share"), NULL, NULL};
    dv_on_value *x = dv_on_temp(cx, "real"), *out = dv_on_out(cx, n, 0);
    int axis;
    DV_TRY(get_scaled(cx, n, 0, &s));
    DV_TRY(get_scale(cx, n, 3, &to));
    DV_TRY(dv_on_norm_axis(cx, dv_on_int(n, "axis", -1), s.x->n_dims, &axis));
    if (!x || !share.x || !out)
        return DV_E_NOMEM;
    // Softmax normalises all dims from the axis on before opset 13, which its
    // attribute gives.
    unsigned from = ~0u << axis, mask = (1u << s.x->n_dims) - 1;
    mask &= dv_on_int(n, "opset", 13) < 13 ? from : 1u << axis;
    DV_TRY(rescaled(cx, x, &s, DV_F32, NULL));
    DV_TRY(dv_on_softmax_of(cx, share.x, x, mask, 0));
    return rescaled(cx, out, &share, s.x->dtype, &to);
}

// Defines `out` as the sum or the product (`fn`) of values that are broadcast.
static dv_status combined(dv_on *cx, dv_on_value *out, dv_dtype t,
                          const char *fn, dv_on_value *const *v, int n)
{
    dv_on_loop l;
    dv_term x[3];
    int axes[DV_MAX_DIMS];
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, v, n, x));
    for (int i = 1; i < n; i++)
        x[0] = dv_on_2(cx, fn, x[0], x[i]);
    memcpy(axes, l.out, sizeof axes);
    return dv_on_define(&l, out, t, 0, l.n_out, axes, x[0]);
}

// Defines the sums of QGemm: the product of its matrices plus the bias at input
// 6, if there is one.
static dv_status gemm_sums(dv_on *cx, const dv_onnx_node *n, dv_on_value *out)
{
    static const char *const names[] = {"transA", "transB"};
    dv_on_value *m[2], *bias = dv_on_in(cx, n, 6);
    dv_on_value *product = bias ? dv_on_temp(cx, "product") : out;
    if (!product)
        return DV_E_NOMEM;
    for (int i = 0; i < 2; i++) {
        dv_on_value *x = dv_on_in(cx, n, 3 * i), *view = dv_on_temp(cx, "view");
        if (!view)
            return DV_E_NOMEM;
        if (x->n_dims != 2)
            return dv_on_refuse(cx, "input %d has %d dim%s, not 2", 3 * i,
                                x->n_dims, DV_PLURAL(x->n_dims, "", "s"));
        m[i] = x;
        if (dv_on_int(n, names[i], 0)) {
            DV_TRY(dv_on_transpose(cx, view, x, (int[]){1, 0}));
            m[i] = view;
        }
    }
    dv_on_value *zeros[] = {dv_on_in(cx, n, 2), dv_on_in(cx, n, 5)};
    DV_TRY(dv_on_product(cx, product, m[0], m[1], DV_I32, zeros[0], zeros[1]));
    dv_on_value *both[] = {product, bias};
    return bias ? combined(cx, out, DV_I32, "+", both, 2) : DV_OK;
}

dv_status dv_on_qgemm(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 2));
    double alpha = dv_on_float(n, "alpha", 1), none = 0;
    dv_on_value *sums = dv_on_temp(cx, "sums"), *out = dv_on_out(cx, n, 0);
    dv_on_value *scale = dv_on_temp(cx, "scale"), *b = dv_on_in(cx, n, 4);
    dv_on_value *to = dv_on_in(cx, n, 7), *zero = dv_on_in(cx, n, 8);
    if (!sums || !out || !scale)
        return DV_E_NOMEM;
    if (!dv_on_in(cx, n, 3) || !b)
        return dv_on_refuse(cx, "input 3 or 4 is missing");
    DV_TRY(gemm_sums(cx, n, sums));
    dv_on_value *factors[] = {dv_on_in(cx, n, 1), NULL, NULL};
    factors[1] = dv_on_const_floats(cx, "alpha", DV_F32, 0, NULL, &alpha);
    if (!factors[1])
        return DV_E_NOMEM;
    DV_TRY(combined(cx, scale, DV_F32, "*", factors, 2));
    dv_on_value *of[] = {sums, scale, b};
    if (!to)
        return combined(cx, out, DV_F32, "*", of, 3);
    if (!zero)
        zero = dv_on_const_floats(cx, "zero", dv_on_in(cx, n, 0)->dtype, 0,
                                  NULL, &none);
    return zero ? requantize(cx, out, sums, scale, b, to, zero, 1) : DV_E_NOMEM;
}
