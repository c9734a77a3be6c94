// Quantised operators: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear,
// QLinearMatMul and QLinearConv.
#include "base/dtype.h"
#include "base/plural.h"
#include "onnx/conv.h"
#include <math.h>

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

static dv_status over_scales(dv_on *cx, const dv_onnx_node *n, dv_on_loop *l,
                             int *axes, int *s_axes, dv_term *t)
{
    dv_on_value *x = dv_on_in(cx, n, 0), *scale = dv_on_in(cx, n, 1),
                *zero = dv_on_in(cx, n, 2);
    int axis = 0;
    if (dv_on_int(n, "block_size", 0))
        return dv_on_refuse(cx, "attribute block_size is not supported");
    if (dv_on_count(scale) > 1)
        DV_TRY(dv_on_norm_axis(cx, dv_on_int(n, "axis", 1), x->n_dims, &axis));
    DV_TRY(scale_axes(cx, scale, axis, s_axes));
    dv_on_loop_begin(l, cx);
    DV_TRY(dv_on_over(l, x, axes));
    DV_TRY(dv_on_use(l, scale, s_axes));
    if (zero) {
        DV_TRY(scale_axes(cx, zero, axis, s_axes));
        DV_TRY(dv_on_use(l, zero, s_axes));
    }
    dv_on_start(l);
    t[0] = dv_on_read(l, x, axes);
    t[1] = dv_on_read(l, scale, s_axes);
    t[2] = zero ? dv_on_read(l, zero, s_axes) : NULL;
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
    if (v[2]->n_dims > 1 || v[5]->n_dims > 1)
        return dv_on_refuse(cx, "a zero point has more than 1 dim");
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
