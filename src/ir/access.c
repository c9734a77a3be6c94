// Answers questions about accesses (a tensor with an index per dim): which
// variables they depend on, how they move through memory, and whether they have
// a simple form.
#include "ir/program.h"
#include "base/math.h"
#include <string.h>

uint32_t dv_index_vars(const dv_op *op, const dv_index *x)
{
    uint32_t mask = 0;
    for (int v = 0; v < op->n_vars && x->via < 0; v++)
        mask |= x->coef[v] ? 1u << v : 0;
    return mask;
}

int dv_index_var(const dv_op *op, const dv_index *x)
{
    uint32_t mask = dv_index_vars(op, x);
    if (x->via >= 0 || (mask & (mask - 1)))
        return DV_NO_VAR;
    return mask ? __builtin_ctz(mask) : DV_CONSTANT;
}

int dv_index_is_var(const dv_op *op, const dv_index *x, int *var)
{
    *var = dv_index_var(op, x);
    return *var >= 0 && x->coef[*var] == 1 && x->base == 0;
}

int dv_index_whole_var(const dv_op *op, const dv_index *x, int64_t extent)
{
    int v = dv_index_var(op, x);
    if (x->base != 0 || (v == DV_CONSTANT && extent != 1))
        return DV_NO_VAR;
    return v < 0 || (x->coef[v] == 1 && op->vars[v].begin == 0 &&
                     op->vars[v].end == extent)
               ? v
               : DV_NO_VAR;
}

int dv_index_part_var(const dv_op *op, const dv_index *x, int64_t extent)
{
    int v = dv_index_var(op, x);
    if (v == DV_NO_VAR)
        return v;
    int64_t first = x->base + (v < 0 ? 0 : op->vars[v].begin);
    int64_t end = v < 0 ? first + 1 : x->base + op->vars[v].end;
    return (v < 0 || x->coef[v] == 1) && first >= 0 && end <= extent
               ? v
               : DV_NO_VAR;
}

uint32_t dv_access_vars(const dv_op *op, const dv_access *a)
{
    uint32_t mask = 0;
    for (int d = 0; d < a->n_dims; d++) {
        const dv_index *x = &a->index[d];
        for (int v = 0; v < op->n_vars; v++)
            mask |= x->coef[v] ? 1u << v : 0;
        mask |= x->via < 0 ? 0 : dv_access_vars(op, &op->reads[x->via]);
    }
    return mask;
}

int dv_index_is_value(const dv_op *op, const dv_index *x)
{
    int plain = x->via >= 0 && x->factor == 1 && x->base == 0;
    for (int v = 0; v < op->n_vars && plain; v++)
        plain = x->coef[v] == 0;
    return plain;
}

int dv_access_gathers(const dv_op *op, const dv_access *a)
{
    for (int d = 0; d < a->n_dims; d++) {
        if (a->index[d].via < 0)
            continue;
        const dv_access *by = &op->reads[a->index[d].via];
        if (dv_access_vars(op, by) || dv_access_is_indirect(by) ||
            by->has_border)
            return 1;
    }
    return 0;
}

int dv_access_is_indirect(const dv_access *a)
{
    for (int d = 0; d < a->n_dims; d++)
        if (a->index[d].via >= 0)
            return 1;
    return 0;
}

int dv_access_equal(const dv_op *op, const dv_access *a, const dv_access *b)
{
    if (a->tensor != b->tensor || a->n_dims != b->n_dims ||
        a->has_border != b->has_border ||
        memcmp(&a->border, &b->border, sizeof a->border) != 0)
        return 0;
    for (int d = 0; d < a->n_dims; d++) {
        const dv_index *x = &a->index[d], *y = &b->index[d];
        if (x->via != y->via || x->factor != y->factor || x->base != y->base ||
            (op->n_vars &&
             memcmp(x->coef, y->coef, (size_t)op->n_vars * sizeof *x->coef)))
            return 0;
    }
    return 1;
}

int dv_index_digits(dv_digits *g, const dv_op *op, const dv_index *x)
{
    *g = (dv_digits){.base = x->base, .size = 1};
    for (int v = 0; v < op->n_vars; v++) {
        int i = g->n;
        int64_t begin;
        if (!dv_mul_i64(&begin, x->coef[v], op->vars[v].begin) ||
            !dv_add_i64(&g->base, g->base, begin))
            return 0;
        if (x->coef[v] == 0 || dv_var_len(op, v) == 1)
            continue;
        for (; i > 0 && g->weight[i - 1] < x->coef[v]; i--) {
            g->var[i] = g->var[i - 1];
            g->weight[i] = g->weight[i - 1];
        }
        g->var[i] = v;
        g->weight[i] = x->coef[v];
        g->n++;
    }
    for (int i = g->n - 1; i >= 0; i--) {
        if (g->weight[i] != g->size)
            return 0;
        g->size *= dv_var_len(op, g->var[i]);
    }
    return x->via < 0;
}

int dv_index_bounds(const dv_op *op, const dv_index *x, const dv_iter_space *s,
                    int64_t *lo, int64_t *hi)
{
    *lo = *hi = x->base;
    for (int v = 0; v < op->n_vars; v++) {
        int64_t c = x->coef[v], first, last;
        if (!c)
            continue;
        if (!dv_mul_i64(&first, c, s ? s->begin[v] : op->vars[v].begin) ||
            !dv_mul_i64(&last, c, (s ? s->end[v] : op->vars[v].end) - 1) ||
            !dv_add_i64(lo, *lo, c > 0 ? first : last) ||
            !dv_add_i64(hi, *hi, c > 0 ? last : first))
            return 0;
    }
    return 1;
}

int dv_access_bounds(const dv_program *p, const dv_op *op, const dv_access *a,
                     int d, const dv_iter_space *s, int64_t *lo, int64_t *hi)
{
    int64_t last = p->tensors[a->tensor].shape[d] - 1;
    if (!dv_index_bounds(op, &a->index[d], s, lo, hi))
        return 0;
    if (a->has_border) {
        *lo = dv_max_i64(0, dv_min_i64(*lo, last));
        *hi = dv_max_i64(0, dv_min_i64(*hi, last));
    }
    return 1;
}

int dv_access_leaves(const dv_program *p, const dv_op *op, const dv_access *a,
                     const dv_iter_space *s)
{
    const dv_tensor *t = &p->tensors[a->tensor];
    for (int d = 0; a->has_border && d < a->n_dims; d++) {
        int64_t lo, hi;
        if (a->index[d].via >= 0 ||
            !dv_index_bounds(op, &a->index[d], s, &lo, &hi) || lo < 0 ||
            hi >= t->shape[d])
            return 1;
    }
    return 0;
}

int dv_op_has_border(const dv_op *op)
{
    for (int i = 0; i < op->n_reads; i++)
        if (op->reads[i].has_border)
            return 1;
    return 0;
}

int64_t dv_access_step(const dv_program *p, const dv_access *a, int var)
{
    int64_t step = 0, stride = 1, by;
    for (int d = a->n_dims - 1; d >= 0; d--) {
        if (!dv_mul_i64(&by, a->index[d].coef[var], stride) ||
            !dv_add_i64(&step, step, by))
            // The stride overflows 64 bits only if the variable has a single
            // value (a second one would lie outside the tensor), so the stride
            // is never used.
            return INT64_MAX;
        stride *= p->tensors[a->tensor].shape[d];
    }
    return step;
}

int64_t dv_access_flatten(const dv_op *op, const dv_access *a,
                          const int64_t *strides, int64_t *coef)
{
    // Offsets are computed modulo 2^64: the offset of an element that exists
    // fits 64 bits, even if the terms that are added up to it do not.
    uint64_t base = 0;
    for (int d = 0; d < a->n_dims; d++)
        base += (uint64_t)a->index[d].base * (uint64_t)strides[d];
    for (int v = 0; v < op->n_vars; v++) {
        uint64_t step = 0;
        int64_t by;
        int fits = 1;
        coef[v] = 0;
        for (int d = 0; d < a->n_dims; d++) {
            step += (uint64_t)a->index[d].coef[v] * (uint64_t)strides[d];
            fits = fits && dv_mul_i64(&by, a->index[d].coef[v], strides[d]) &&
                   dv_add_i64(&coef[v], coef[v], by);
        }
        if (!fits) {
            // The stride overflows 64 bits, so the variable has a single value
            // (a second one would lie outside the tensor). Its constant term
            // becomes part of the base.
            base += step * (uint64_t)op->vars[v].begin;
            coef[v] = 0;
        }
    }
    return (int64_t)base;
}

int64_t dv_row_strides(int n_dims, const int64_t *shape, int64_t *strides)
{
    int64_t n = 1;
    for (int d = n_dims - 1; d >= 0; d--) {
        strides[d] = n;
        n *= shape[d];
    }
    return n;
}

int dv_access_is_box(const dv_op *op, const dv_access *a, int *vars)
{
    uint32_t seen = 0;
    if (a->has_border)
        return 0;
    for (int d = 0; d < a->n_dims; d++) {
        int v = dv_index_var(op, &a->index[d]);
        if (v == DV_NO_VAR)
            return 0;
        if (v >= 0 && (a->index[d].coef[v] != 1 || (seen >> v & 1)))
            return 0;
        seen |= v >= 0 ? 1u << v : 0;
        vars[d] = v;
    }
    return 1;
}

int dv_access_is_vars(const dv_op *op, const dv_access *a, int *vars)
{
    if (!dv_access_is_box(op, a, vars))
        return 0;
    for (int d = 0; d < a->n_dims; d++)
        if (vars[d] == DV_CONSTANT || a->index[d].base != 0)
            return 0;
    return 1;
}

int dv_access_dim(const dv_op *op, const dv_access *a, int var)
{
    int found = -1;
    for (int d = 0; d < a->n_dims; d++) {
        const dv_index *x = &a->index[d];
        if (x->via >= 0)
            return -1;
        if (x->coef[var] == 0)
            continue;
        if (found >= 0 || x->coef[var] != 1 || dv_index_var(op, x) != var)
            return -1;
        found = d;
    }
    return found;
}

int dv_op_gathers(const dv_op *op)
{
    for (int i = 0; i < op->n_reads; i++)
        if (dv_access_is_indirect(&op->reads[i]))
            return 1;
    return 0;
}

int dv_op_reads(const dv_op *op, int32_t tensor)
{
    for (int i = 0; i < op->n_reads; i++)
        if (op->reads[i].tensor == tensor)
            return 1;
    return 0;
}
