// Transposes one operand of a reduction over pairs of rows, so that adjacent
// results read adjacent elements and can be computed in vector lanes:
//
//   d[i,j] = sum[k] abs(x[i,k] - y[j,k])
//   ->  d_1[k,j] = y[j,k]
//       d[i,j]   = sum[k] abs(x[i,k] - d_1[k,j])
//
// Vectorising along k instead is slow for short rows: each has few terms and
// ends with a horizontal reduction. Matrix products are left alone, since their
// kernels read either order equally fast; other products, such as depthwise
// convolutions, are not.
#include "ir/lower.h"

enum { LONG = 256, MOST_READS = 8 };

typedef struct transposing {
    dv_lowering *lw;
    uint32_t written;
    int var; // the variable along which the results are adjacent in memory
    int n;
    dv_access from[MOST_READS];
    const dv_expr *to[MOST_READS];
} transposing;

// Returns the variable along which access `a` has unit stride, if it has enough
// values (8) for a transposed copy to pay off; otherwise -1.
static int find_var(const dv_lowering *lw, const dv_access *a)
{
    for (int v = 0; v < lw->work.n_vars && !dv_access_is_indirect(a); v++)
        if (dv_access_step(lw->out, a, v) == 1 &&
            dv_var_len(&lw->work, v) >= DV_LOWER_MIN_REUSE)
            return v;
    return -1;
}

static int is_across(const transposing *t, const dv_expr *read)
{
    int64_t step =
        dv_access_step(t->lw->out, &t->lw->reads[read->read], t->var);
    return step != 0 && step != 1;
}

// Counts the reads that have no unit stride along t->var (along which results
// are adjacent) and must be transposed; -1 if one of them cannot be.
static int count(const transposing *t, const dv_expr *e)
{
    int n = 0;
    if (e->kind == DV_EXPR_READ) {
        if (dv_access_is_indirect(&t->lw->reads[e->read]))
            return -1;
        return !is_across(t, e)                                ? 0
               : dv_lower_transpose_pays(t->lw, e, t->written) ? 1
                                                               : -1;
    }
    for (int i = 0; i < e->n_args; i++) {
        int more = count(t, e->arg[i]);
        if (more < 0)
            return -1;
        n += more;
    }
    return n;
}

static dv_status transpose(transposing *t, const dv_expr *read,
                           const dv_expr **out)
{
    const dv_access a = t->lw->reads[read->read];
    for (int i = 0; i < t->n; i++)
        if (dv_access_equal(&t->lw->work, &t->from[i], &a)) {
            *out = t->to[i];
            return DV_OK;
        }
    DV_TRY(dv_lower_transpose_read(t->lw, read, t->var, out));
    t->from[t->n] = a;
    t->to[t->n++] = *out;
    return DV_OK;
}

// Copies e; reads below the reducer that have no unit stride along t->var
// (along which results are adjacent) are replaced by reads of transposed
// copies.
static dv_status rewrite(transposing *t, const dv_expr *e, int below,
                         const dv_expr **out)
{
    dv_expr *copy;
    if (e->kind == DV_EXPR_READ && below && is_across(t, e))
        return transpose(t, e, out);
    DV_TRY(dv_lower_expr(t->lw, e, &copy));
    *out = copy;
    below |= e->kind == DV_EXPR_REDUCE;
    for (int i = 0; i < e->n_args; i++)
        DV_TRY(rewrite(t, e->arg[i], below, &copy->arg[i]));
    return DV_OK;
}

dv_status dv_lower_transpose_operands(dv_lowering *lw, const dv_access *write,
                                      const dv_expr **body)
{
    const dv_op op = {.body = *body};
    const dv_expr *r = dv_op_reduce(&op);
    transposing t = {.lw = lw, .written = dv_access_vars(&lw->work, write)};
    t.var = find_var(lw, write);
    if (!r || t.var < 0 ||
        dv_lower_is_matrix(lw, r->arg[0], r->vars, t.written) ||
        dv_op_points_double(&lw->work, r->vars) > LONG)
        return DV_OK;
    int n = count(&t, r->arg[0]);
    return n > 0 && n <= MOST_READS ? rewrite(&t, *body, 0, body) : DV_OK;
}
