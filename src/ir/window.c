// Recognises reductions over small windows, such as filters and pools.
#include "ir/program.h"
#include "base/dtype.h"

// Returns whether the write has stride 1 along the variable and every read has
// stride 0 or 1, so that a vector holds adjacent results. Stride 2 is allowed
// for elements of 4 bytes or more, which fill a vector lane each.
static int has_unit_stride(const dv_program *p, const dv_op *op, int var)
{
    for (int i = 0; i < op->n_reads; i++) {
        const dv_access *a = &op->reads[i];
        int64_t step = dv_access_step(p, a, var);
        int wide = dv_dtype_get(p->tensors[a->tensor].dtype)->size_bytes >= 4;
        if (step != 0 && step != 1 && !(step == 2 && wide))
            return 0;
    }
    return dv_access_step(p, &op->write, var) == 1;
}

int64_t dv_op_window(const dv_program *p, const dv_op *op)
{
    enum { MOST_POINTS = 64, LEAST_ROW = 5 };
    const dv_expr *r = dv_op_reduce(op);
    if (!r || op->is_extern || dv_access_is_indirect(&op->write) ||
        dv_op_gathers(op) ||
        (dv_all_vars(op) & ~dv_written_vars(op)) != r->vars)
        return 0;
    int64_t n = dv_op_points(op, r->vars);
    for (int v = 0; v < op->n_vars && n <= MOST_POINTS; v++)
        if (!op->vars[v].reduce && dv_var_len(op, v) >= LEAST_ROW &&
            has_unit_stride(p, op, v))
            return n;
    return 0;
}
