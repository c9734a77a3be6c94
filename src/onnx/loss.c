// Losses: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
#include "base/dtype.h"
#include "base/plural.h"
#include "onnx/import.h"
#include <string.h>

// Sets out to the axes of a target tensor: those of x without axis 1 (the
// classes).
static void target_axes(const int *axes, int n_dims, int *out)
{
    for (int d = 0; d < n_dims - 1; d++)
        out[d] = axes[d ? d + 1 : 0];
}

// Defines the loss -x[n, target, …] * weight[target] of every target, and its
// weight; both are 0 for ignored targets.
static dv_status pick(dv_on *cx, const dv_onnx_node *n, dv_on_value *x,
                      dv_on_value *t, dv_on_value *w, dv_on_value *loss,
                      dv_on_value *weight)
{
    int axes[DV_MAX_DIMS], tx[DV_MAX_DIMS];
    dv_on_loop l;
    dv_on_value *out[] = {loss, weight};
    const dv_onnx_attr *ignore = dv_on_attr(n, "ignore_index");
    for (int i = 0; i < 2; i++) {
        dv_on_loop_begin(&l, cx);
        for (int d = 0; d < x->n_dims; d++)
            axes[d] = d == 1 ? -1 : dv_on_axis_add(&l, x->dims[d]);
        target_axes(axes, x->n_dims, tx);
        int c = axes[1] = dv_on_axis_add(&l, x->dims[1]);
        if (i == 0)
            DV_TRY(dv_on_use(&l, x, axes));
        DV_TRY(dv_on_use(&l, t, tx));
        if (w)
            DV_TRY(dv_on_use(&l, w, &c));
        dv_on_start(&l);
        dv_term at = dv_on_read(&l, t, tx);
        dv_term is = dv_on_2(cx, "==", at, dv_on_position(&l, c));
        dv_term v = w ? dv_on_read(&l, w, &c) : dv_on_f(cx, 1);
        if (i == 0)
            v = dv_on_2(cx, "*", dv_on_1(cx, "-", dv_on_read(&l, x, axes)), v);
        v = dv_on_3(cx, "select", is, v, dv_on_f(cx, 0));
        v = dv_on_reduce(&l, "sum", v, 1, &c);
        if (ignore)
            v = dv_on_3(cx, "select",
                        dv_on_2(cx, "==", at, dv_on_i(cx, ignore->i)),
                        dv_on_f(cx, 0), v);
        DV_TRY(dv_on_define(&l, out[i], x->dtype, 0, x->n_dims - 1, tx, v));
    }
    return DV_OK;
}

static dv_status total(dv_on *cx, dv_on_value *out, dv_on_value *x)
{
    int axes[DV_MAX_DIMS];
    dv_on_loop l;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, x, axes));
    dv_on_start(&l);
    return dv_on_define(
        &l, out, x->dtype, 0, 0, NULL,
        dv_on_reduce(&l, "sum", dv_on_read(&l, x, axes), x->n_dims, axes));
}

// Reduces the losses of all targets as the attribute says: not at all, to the
// sum, or to the mean by weight.
static dv_status loss_of(dv_on *cx, const dv_onnx_node *n, dv_on_value *out,
                         dv_on_value *x)
{
    dv_on_value *t = dv_on_in(cx, n, 1), *w = dv_on_in(cx, n, 2);
    const char *how = dv_on_string(n, "reduction", "mean");
    dv_on_value *loss = dv_on_temp(cx, "loss"),
                *weight = dv_on_temp(cx, "weight"), *a = dv_on_temp(cx, "loss"),
                *b = dv_on_temp(cx, "weight");
    dv_on_loop l;
    if (!loss || !weight || !a || !b)
        return DV_E_NOMEM;
    if (x->n_dims < 2 || t->n_dims != x->n_dims - 1)
        return dv_on_refuse(cx, "the shape of its target does not fit");
    DV_TRY(pick(cx, n, x, t, w, loss, weight));
    if (!strcmp(how, "none")) {
        dv_on_same(out, loss);
        return DV_OK;
    }
    if (!strcmp(how, "sum"))
        return total(cx, out, loss);
    if (strcmp(how, "mean"))
        return dv_on_refuse(cx, "attribute reduction '%s'", how);
    DV_TRY(total(cx, a, loss));
    DV_TRY(total(cx, b, weight));
    dv_on_loop_begin(&l, cx);
    dv_on_start(&l);
    dv_term p = dv_on_read(&l, a, NULL), q = dv_on_read(&l, b, NULL);
    return dv_on_define(&l, out, x->dtype, 0, 0, NULL, dv_on_2(cx, "/", p, q));
}

dv_status dv_on_loss(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    if (!out)
        return DV_E_NOMEM;
    if (n->type[0] == 'N')
        return loss_of(cx, n, out, x);
    dv_on_value *logs =
        dv_on_has_out(n, 1) ? dv_on_out(cx, n, 1) : dv_on_temp(cx, "logs");
    if (!logs)
        return DV_E_NOMEM;
    if (x->n_dims < 2)
        return dv_on_refuse(cx, "its input has %d dim%s", x->n_dims,
                            DV_PLURAL(x->n_dims, "", "s"));
    DV_TRY(dv_on_softmax_of(cx, logs, x, 2, 1));
    return loss_of(cx, n, out, logs);
}
