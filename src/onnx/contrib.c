// Products of the domain com.microsoft that exporters and optimisers write:
// their operands are transposed or quantised.
#include "base/plural.h"
#include "onnx/import.h"

dv_status dv_on_exchange(dv_on *cx, dv_on_value **v)
{
    int perm[DV_MAX_DIMS], n = (*v)->n_dims;
    dv_on_value *view = dv_on_temp(cx, (*v)->name);
    if (!view)
        return DV_E_NOMEM;
    if (n < 2)
        return dv_on_refuse(cx, "a transposed operand has %d dim%s", n,
                            DV_PLURAL(n, "", "s"));
    for (int d = 0; d < n; d++)
        perm[d] = d < n - 2 ? d : 2 * n - 3 - d;
    DV_TRY(dv_on_transpose(cx, view, *v, perm));
    *v = view;
    return DV_OK;
}

dv_status dv_on_fused_matmul(dv_on *cx, const dv_onnx_node *n)
{
    double alpha = dv_on_float(n, "alpha", 1);
    dv_on_loop l;
    dv_term t;
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *a = dv_on_in(cx, n, 0), *b = dv_on_in(cx, n, 1);
    dv_on_value *out = dv_on_out(cx, n, 0);
    dv_on_value *p = alpha == 1 ? out : dv_on_temp(cx, "product");
    if (!out || !p)
        return DV_E_NOMEM;
    if (dv_on_int(n, "transBatchA", 0) || dv_on_int(n, "transBatchB", 0))
        return dv_on_refuse(
            cx, "attributes transBatchA and transBatchB are not supported");
    if (dv_on_int(n, "transA", 0))
        DV_TRY(dv_on_exchange(cx, &a));
    if (dv_on_int(n, "transB", 0))
        DV_TRY(dv_on_exchange(cx, &b));
    DV_TRY(dv_on_product(cx, p, a, b, a->dtype, NULL, NULL));
    if (alpha == 1)
        return DV_OK;
    dv_on_loop_begin(&l, cx);
    l.inlines = 1;
    DV_TRY(dv_on_broadcast(&l, &p, 1, &t));
    return dv_on_define(&l, out, p->dtype, 0, l.n_out, l.out,
                        dv_on_2(cx, "*", dv_on_num(cx, p->dtype, alpha), t));
}

dv_status dv_on_rescale(dv_on *cx, dv_on_value *out, dv_on_value *sum,
                        dv_on_value *a_scale, dv_on_value *b_scale,
                        dv_on_value *bias)
{
    dv_on_loop l;
    dv_term t[4];
    dv_on_value *v[] = {sum, a_scale, b_scale, bias};
    for (int i = 1; i < 4; i++)
        if (v[i] && (v[i]->n_dims > 1 || (i == 1 && dv_on_count(v[i]) > 1)))
            return dv_on_refuse(cx, "a scale or the bias has %d dim%s",
                                v[i]->n_dims, DV_PLURAL(v[i]->n_dims, "", "s"));
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, v, bias ? 4 : 3, t));
    dv_term y = dv_on_2(cx, "*", t[0], dv_on_2(cx, "*", t[1], t[2]));
    return dv_on_define(&l, out, b_scale->dtype, 0, l.n_out, l.out,
                        bias ? dv_on_2(cx, "+", y, t[3]) : y);
}

dv_status dv_on_integer_to_float(dv_on *cx, const dv_onnx_node *n)
{
    dv_on_value *v[7], *sum = dv_on_temp(cx, "sum"), *out = dv_on_out(cx, n, 0);
    DV_TRY(dv_on_need(cx, n, 4));
    for (int i = 0; i < 7; i++)
        v[i] = dv_on_in(cx, n, i);
    if (!sum || !out)
        return DV_E_NOMEM;
    DV_TRY(dv_on_product(cx, sum, v[0], v[1], DV_I32, v[4], v[5]));
    return dv_on_rescale(cx, out, sum, v[2], v[3], v[6]);
}

dv_status dv_on_dynamic_matmul(dv_on *cx, const dv_onnx_node *n)
{
    dv_on_value *sum = dv_on_temp(cx, "sum"), *a = dv_on_temp(cx, "a");
    dv_on_value *scale = dv_on_temp(cx, "scale"),
                *zero = dv_on_temp(cx, "zero"), *out = dv_on_out(cx, n, 0);
    DV_TRY(dv_on_need(cx, n, 3));
    if (!sum || !a || !scale || !zero || !out)
        return DV_E_NOMEM;
    DV_TRY(dv_on_quantize_by_range(cx, dv_on_in(cx, n, 0), a, scale, zero));
    DV_TRY(dv_on_product(cx, sum, a, dv_on_in(cx, n, 1), DV_I32, zero,
                         dv_on_in(cx, n, 3)));
    return dv_on_rescale(cx, out, sum, scale, dv_on_in(cx, n, 2),
                         dv_on_in(cx, n, 4));
}
