// Encodes divisions as Torch-Spyre does, by stride.
#include "plan/stride_splits.h"
#include "base/math.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert((int)DV_MAX_OP_VARS == (int)DV_MAX_VARS, "one limit");

int64_t dv_stride_key(const dv_program *p, const dv_op *op, int v, int *written)
{
    int64_t f = dv_access_step(p, &op->write, v);
    *written = f != 0;
    if (f == 0 && op->n_reads > 0)
        f = dv_access_step(p, &op->reads[0], v);
    return f;
}

// Returns another variable that Torch-Spyre's encoding by strides cannot tell
// from v, because it has the same stride; -1 if there is none.
static int twin_of(const dv_program *p, const dv_op *op, int v)
{
    int written, other;
    int64_t f = dv_stride_key(p, op, v, &written);
    for (int u = 0; u < op->n_vars; u++)
        if (u != v && dv_var_len(op, u) > 1 &&
            dv_stride_key(p, op, u, &other) == f && other == written)
            return u;
    return -1;
}

int dv_stride_splits_make(dv_stride_splits *out, const dv_program *p,
                          const dv_op *op, const int64_t *splits, dv_text *why)
{
    *out = (dv_stride_splits){.n_output = 0};
    for (int v = 0; v < op->n_vars; v++) {
        int written;
        if (splits[v] <= 1)
            continue;
        int64_t f = dv_stride_key(p, op, v, &written);
        int twin = twin_of(p, op, v);
        if (f == 0) {
            dv_put(why,
                   "%s is in neither the write nor the first read: its "
                   "%" PRId64 " slices have no key",
                   op->vars[v].name, splits[v]);
            return 0;
        }
        if (twin >= 0) {
            dv_put(why, "%s and %s both have the key %" PRId64,
                   op->vars[v].name, op->vars[twin].name, f);
            return 0;
        }
        dv_stride_split s = {f, splits[v]};
        if (written)
            out->output[out->n_output++] = s;
        else
            out->reduction[out->n_reduction++] = s;
    }
    return 1;
}

dv_status dv_plan_stride_splits(dv_stride_splits *out, const dv_plan *plan,
                                const char *name, dv_diag *diag)
{
    if (!(plan->facts & DV_FACT_DIVIDED))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the plan is not divided over cores, so that op %s has "
                       "no splits",
                       name);
    int32_t i = 0;
    while (i < plan->ops->n_ops && strcmp(plan->ops->ops[i].name, name) != 0)
        i++;
    if (i == plan->ops->n_ops)
        return dv_fail(diag, DV_E_NAME, DV_NOWHERE, "the plan has no op %s",
                       name);
    const dv_op *op = &plan->ops->ops[i];
    int64_t splits[DV_MAX_VARS];
    dv_text why = {0};
    dv_stride_splits made;
    for (int v = 0; v < op->n_vars; v++)
        splits[v] = dv_ceil_div(dv_var_len(op, v), plan->slices[i][v]);
    dv_status st = DV_OK;
    if (dv_stride_splits_make(&made, plan->ops, op, splits, &why))
        *out = made;
    else if (why.failed)
        st = dv_nomem(diag);
    else
        st = dv_fail(diag, DV_E_CHECK, (dv_loc){&plan->ops->src, op->off},
                     "%s: %s", op->name, why.at);
    dv_text_free(&why);
    return st;
}

static void stride_list_json(dv_json *j, const dv_stride_split *s, int n)
{
    dv_json_open_flat(j, NULL, '{');
    for (int i = 0; i < n; i++) {
        char stride[24];
        snprintf(stride, sizeof stride, "%" PRId64, s[i].stride);
        dv_json_int(j, stride, s[i].n);
    }
    dv_json_close(j);
}

void dv_stride_splits_json(dv_json *j, const dv_plan *plan, int32_t i)
{
    const dv_op *op = &plan->ops->ops[i];
    int64_t splits[DV_MAX_VARS];
    dv_stride_splits s;
    dv_text why = {0};
    for (int v = 0; v < op->n_vars; v++)
        splits[v] = dv_ceil_div(dv_var_len(op, v), plan->slices[i][v]);
    if (dv_stride_splits_make(&s, plan->ops, op, splits, &why)) {
        dv_json_open_flat(j, "op_it_space_splits", '[');
        stride_list_json(j, s.output, s.n_output);
        stride_list_json(j, s.reduction, s.n_reduction);
        dv_json_close(j);
    } else {
        dv_json_null(j, "op_it_space_splits");
        dv_json_text(j, "no_op_it_space_splits", &why);
    }
    dv_text_free(&why);
}
