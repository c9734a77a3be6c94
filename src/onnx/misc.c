// Constants, ranges, If, dropout and other small operators.
#include "base/dtype.h"
#include "base/plural.h"
#include "onnx/import.h"
#include <math.h>
#include <string.h>

static dv_status set_const(dv_on *cx, const dv_onnx_node *n, dv_on_value *v)
{
    dv_on_value *out = dv_on_out(cx, n, 0);
    if (!out || !v)
        return DV_E_NOMEM;
    dv_on_same(out, v);
    return DV_OK;
}

static dv_status const_tensor(dv_on *cx, const dv_onnx_node *n,
                              const dv_onnx_tensor *t)
{
    const void *data;
    dv_on_value *out = dv_on_out(cx, n, 0);
    if (!out)
        return DV_E_NOMEM;
    DV_TRY(dv_on_tensor_data(cx, &data, t));
    return dv_on_make(cx, out, (dv_dtype)dv_onnx_dtype(t->type),
                      t->type == DV_ONNX_BOOL, t->n_dims, t->dims, data);
}

dv_status dv_on_constant(dv_on *cx, const dv_onnx_node *n)
{
    for (int32_t i = 0; i < n->n_attrs; i++) {
        const dv_onnx_attr *a = &n->attrs[i];
        int64_t size = 0;
        if (!strcmp(a->name, "value") && a->t)
            return const_tensor(cx, n, a->t);
        if (!strcmp(a->name, "value_int"))
            return set_const(
                cx, n, dv_on_const_ints(cx, a->name, DV_I64, 0, &size, &a->i));
        if (!strcmp(a->name, "value_float"))
            return set_const(cx, n,
                             dv_on_const_floats(cx, a->name, DV_F32, 0, &size,
                                                (double[]){(double)a->f}));
        if (!strcmp(a->name, "value_ints")) {
            size = a->n_ints;
            return set_const(
                cx, n,
                dv_on_const_ints(cx, a->name, DV_I64, 1, &size, a->ints));
        }
        if (!strcmp(a->name, "value_floats")) {
            size = a->n_floats;
            double *list = DV_NEW(cx->arena, double, size + 1);
            for (int64_t k = 0; list && k < size; k++)
                list[k] = (double)a->floats[k];
            return list ? set_const(cx, n,
                                    dv_on_const_floats(cx, a->name, DV_F32, 1,
                                                       &size, list))
                        : dv_nomem(cx->diag);
        }
    }
    return dv_on_refuse(cx, "it has no value that is a dense tensor of "
                            "numbers");
}

dv_status dv_on_constant_of_shape(dv_on *cx, const dv_onnx_node *n)
{
    const int64_t *dims;
    int count;
    const void *data;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *out = dv_on_out(cx, n, 0), *one = dv_on_temp(cx, "value");
    const dv_onnx_attr *a = dv_on_attr(n, "value");
    DV_TRY(dv_on_get_ints(cx, dv_on_in(cx, n, 0), "input", &dims, &count));
    if (!out || !one)
        return DV_E_NOMEM;
    if (count > DV_MAX_DIMS)
        return dv_on_refuse(cx, "its result has %d dim%s", count,
                            DV_PLURAL(count, "", "s"));
    for (int d = 0; d < count; d++)
        if (dims[d] < 0)
            return dv_on_refuse(cx, "dim %d is negative", d);
    static const float zero;
    int32_t type = a && a->t ? a->t->type : DV_ONNX_FLOAT;
    data = &zero;
    if (a && a->t) {
        for (int32_t d = 0; d < a->t->n_dims; d++)
            if (a->t->dims[d] != 1)
                return dv_on_refuse(cx, "attribute value is not one number");
        DV_TRY(dv_on_tensor_data(cx, &data, a->t));
    }
    DV_TRY(dv_on_make(cx, one, (dv_dtype)dv_onnx_dtype(type),
                      type == DV_ONNX_BOOL, 0, NULL, data));
    return dv_on_expand(cx, out, one, count, dims);
}

dv_status dv_on_range(dv_on *cx, const dv_onnx_node *n)
{
    const double *v[3];
    static const char *const names[] = {"start", "limit", "delta"};
    int count;
    DV_TRY(dv_on_need(cx, n, 3));
    for (int i = 0; i < 3; i++) {
        DV_TRY(
            dv_on_get_floats(cx, dv_on_in(cx, n, i), names[i], &v[i], &count));
        if (count != 1)
            return dv_on_refuse(cx, "input %s is no scalar", names[i]);
    }
    double steps = ceil((v[1][0] - v[0][0]) / v[2][0]);
    if (!(steps <= (double)DV_ON_MAX_FOLD))
        return dv_on_refuse(cx, "it has too many elements");
    int64_t size = steps < 0 ? 0 : (int64_t)steps;
    double *list = DV_NEW(cx->arena, double, size + 1);
    if (!list)
        return dv_nomem(cx->diag);
    for (int64_t i = 0; i < size; i++)
        list[i] = v[0][0] + (double)i * v[2][0];
    return set_const(cx, n,
                     dv_on_const_floats(cx, "range", dv_on_in(cx, n, 0)->dtype,
                                        1, &size, list));
}

dv_status dv_on_if(dv_on *cx, const dv_onnx_node *n)
{
    const int64_t *condition;
    int count;
    DV_TRY(dv_on_need(cx, n, 1));
    DV_TRY(dv_on_get_ints(cx, dv_on_in(cx, n, 0), "cond", &condition, &count));
    if (count != 1)
        return dv_on_refuse(cx, "its condition has %d element%s", count,
                            DV_PLURAL(count, "", "s"));
    const dv_onnx_attr *a =
        dv_on_attr(n, condition[0] ? "then_branch" : "else_branch");
    return a && a->g ? dv_on_subgraph(cx, a->g, n)
                     : dv_on_refuse(cx, "a branch is missing");
}

dv_status dv_on_dropout(dv_on *cx, const dv_onnx_node *n)
{
    const double *list;
    int count;
    double ratio = dv_on_float(n, "ratio", 0.5);
    int64_t training = 0;
    const int64_t *mode;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0);
    if (cx->opset < 7)
        training = !dv_on_int(n, "is_test", 0) && cx->opset < 6;
    if (dv_on_in(cx, n, 1)) {
        DV_TRY(
            dv_on_get_floats(cx, dv_on_in(cx, n, 1), "ratio", &list, &count));
        ratio = count ? list[0] : 0;
    }
    if (dv_on_in(cx, n, 2)) {
        DV_TRY(dv_on_get_ints(cx, dv_on_in(cx, n, 2), "training_mode", &mode,
                              &count));
        training = count ? mode[0] : 0;
    }
    if (training && ratio != 0)
        return dv_on_refuse(cx, "input training_mode: random numbers are not "
                                "supported");
    dv_on_value *out = dv_on_out(cx, n, 0);
    if (!out)
        return DV_E_NOMEM;
    dv_on_same(out, x);
    if (!dv_on_has_out(n, 1))
        return DV_OK;
    // Dropout without training: the mask is all ones.
    dv_on_value *mask = dv_on_out(cx, n, 1), *one;
    double all = 1;
    int is_bool = cx->opset >= 10;
    one = dv_on_const_floats(
        cx, "one", is_bool ? (dv_dtype)dv_onnx_dtype(DV_ONNX_BOOL) : x->dtype,
        0, NULL, &all);
    if (!mask || !one)
        return DV_E_NOMEM;
    one->is_bool = is_bool;
    return dv_on_expand(cx, mask, one, x->n_dims, x->dims);
}

// Sets *k to the diagonal that an optional scalar input or attribute k gives.
static dv_status diagonal(dv_on *cx, const dv_onnx_node *n, int input,
                          int64_t *k)
{
    const int64_t *list;
    int count;
    *k = dv_on_int(n, "k", 0);
    if (!dv_on_in(cx, n, input))
        return DV_OK;
    DV_TRY(dv_on_get_ints(cx, dv_on_in(cx, n, input), "k", &list, &count));
    *k = count ? list[0] : 0;
    return DV_OK;
}

dv_status dv_on_trilu(dv_on *cx, const dv_onnx_node *n)
{
    int64_t k;
    int axes[DV_MAX_DIMS];
    dv_on_loop l;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    int upper = dv_on_int(n, "upper", 1) != 0;
    DV_TRY(diagonal(cx, n, 1, &k));
    if (!out)
        return DV_E_NOMEM;
    if (x->n_dims < 2)
        return dv_on_refuse(cx, "its input has %d dim%s", x->n_dims,
                            DV_PLURAL(x->n_dims, "", "s"));
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, x, axes));
    dv_on_start(&l);
    // Triu keeps the elements on or above diagonal k (column - row >= k), Tril
    // those on or below it.
    dv_term row = dv_on_position(&l, axes[x->n_dims - 2]);
    dv_term column = dv_on_position(&l, axes[x->n_dims - 1]);
    dv_term is = dv_on_2(cx, upper ? ">=" : "<=", column,
                         dv_on_2(cx, "+", row, dv_on_i(cx, k)));
    dv_term t = dv_on_3(cx, "select", is, dv_on_read(&l, x, axes),
                        dv_on_num(cx, x->dtype, 0));
    return dv_on_define(&l, out, x->dtype, x->is_bool, x->n_dims, axes, t);
}

dv_status dv_on_eye_like(dv_on *cx, const dv_onnx_node *n)
{
    int64_t k = dv_on_int(n, "k", 0);
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0);
    int64_t to = dv_on_int(n, "dtype", 0);
    int t = to ? dv_onnx_dtype((int32_t)to) : (int)x->dtype;
    if (x->n_dims != 2 || t < 0 || dv_on_count(x) > DV_ON_MAX_FOLD ||
        dv_on_count(x) == 0)
        return dv_on_refuse(cx,
                            "its input has %d dim%s, is empty or too large, or "
                            "its type is not supported",
                            x->n_dims, DV_PLURAL(x->n_dims, "", "s"));
    double *list = DV_NEW(cx->arena, double, dv_on_count(x) + 1);
    if (!list)
        return dv_nomem(cx->diag);
    for (int64_t i = 0; i < x->dims[0]; i++)
        if (k >= -i && k < x->dims[1] - i)
            list[i * x->dims[1] + i + k] = 1;
    return set_const(
        cx, n, dv_on_const_floats(cx, "eye", (dv_dtype)t, 2, x->dims, list));
}

dv_status dv_on_cumsum(dv_on *cx, const dv_onnx_node *n)
{
    const int64_t *list;
    int count, axis, axes[DV_MAX_DIMS];
    dv_on_loop l;
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    DV_TRY(dv_on_get_ints(cx, dv_on_in(cx, n, 1), "axis", &list, &count));
    if (!out)
        return DV_E_NOMEM;
    if (count != 1)
        return dv_on_refuse(cx, "input axis has %d element%s", count,
                            DV_PLURAL(count, "", "s"));
    DV_TRY(dv_on_norm_axis(cx, list[0], x->n_dims, &axis));
    int exclusive = dv_on_int(n, "exclusive", 0) != 0;
    int reverse = dv_on_int(n, "reverse", 0) != 0;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, x, axes));
    int from[DV_MAX_DIMS], k = dv_on_axis_add(&l, x->dims[axis]);
    memcpy(from, axes, sizeof from);
    from[axis] = k;
    DV_TRY(dv_on_use(&l, x, from));
    dv_on_start(&l);
    const char *fn = reverse ? exclusive ? ">" : ">=" : exclusive ? "<" : "<=";
    dv_term is =
        dv_on_2(cx, fn, dv_on_position(&l, k), dv_on_position(&l, axes[axis]));
    dv_term t = dv_on_3(cx, "select", is, dv_on_read(&l, x, from),
                        dv_on_num(cx, x->dtype, 0));
    return dv_on_define(&l, out, x->dtype, 0, x->n_dims, axes,
                        dv_on_reduce(&l, "sum", t, 1, &k));
}

// Imports window functions of signal processing (Hann, Hamming, Blackman): a +
// b cos(2 pi i / m) + c cos(4 pi i / m).
dv_status dv_on_signal_window(dv_on *cx, const dv_onnx_node *n)
{
    const int64_t *size;
    int count;
    double a = 0.5, b = -0.5, c = 0;
    DV_TRY(dv_on_need(cx, n, 1));
    DV_TRY(dv_on_get_ints(cx, dv_on_in(cx, n, 0), "size", &size, &count));
    int t = dv_onnx_dtype((int32_t)dv_on_int(n, "output_datatype", 1));
    if (count != 1 || size[0] < 1 || size[0] > DV_ON_MAX_FOLD || t < 0)
        return dv_on_refuse(cx, "input size is out of range");
    if (!strcmp(n->type, "HammingWindow"))
        a = 25.0 / 46, b = -21.0 / 46;
    if (!strcmp(n->type, "BlackmanWindow"))
        a = 0.42, b = -0.5, c = 0.08;
    double m = (double)size[0] - (dv_on_int(n, "periodic", 1) ? 0 : 1);
    double *list = DV_NEW(cx->arena, double, size[0] + 1);
    if (!list)
        return dv_nomem(cx->diag);
    const double two_pi = 6.283185307179586;
    for (int64_t i = 0; i < size[0]; i++)
        list[i] = a + b * cos(two_pi * (double)i / m) +
                  c * cos(2 * two_pi * (double)i / m);
    return set_const(
        cx, n, dv_on_const_floats(cx, "window", (dv_dtype)t, 1, size, list));
}
