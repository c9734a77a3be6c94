// What a rank of a team owns and computes, derived for the checker. It shares
// no code with dist/: parts are counted from the end, and iteration ranges are
// found by bisection instead of division.
#include "check/check.h"

// Returns the index where part c begins if n elements are divided into n_parts
// nearly equal parts. It is computed from the end, unlike in dist/, so that a
// mistake is not made twice.
static int64_t begins(int64_t n, int64_t n_parts, int64_t c)
{
    int64_t left = n_parts - c, longer = n % n_parts;
    return n - left * (n / n_parts) - (left < longer ? left : longer);
}

void dv_check_coords(const dv_plan_team *t, int64_t rank, int64_t *out)
{
    for (int a = t->n_axes; a-- > 0; rank /= t->grid[a])
        out[a] = rank % t->grid[a];
}

dv_box dv_check_owned(const dv_plan_team *t, int32_t tensor,
                      const int64_t *coord)
{
    const dv_dist *d = &t->tensors[tensor];
    dv_box b = {.n_dims = d->n_dims};
    for (int k = 0; k < d->n_dims; k++) {
        int a = d->axis[k];
        int64_t lo = a < 0 ? 0 : begins(d->shape[k], t->grid[a], coord[a]);
        int64_t hi =
            a < 0 ? d->shape[k] : begins(d->shape[k], t->grid[a], coord[a] + 1);
        b.dim[k] = (dv_range){lo, hi - lo};
    }
    return b;
}

// Returns, by bisection, the least v in begin..end with coef * v + base >=
// bound, or <= bound if coef is negative.
static int64_t first_from(int64_t begin, int64_t end, int64_t coef,
                          int64_t base, int64_t bound)
{
    while (begin < end) {
        int64_t mid = begin + (end - begin) / 2;
        int64_t x = coef * mid + base;
        if (coef > 0 ? x >= bound : x <= bound)
            end = mid;
        else
            begin = mid + 1;
    }
    return begin;
}

// Restricts a variable's range to the values whose index coef * v + base is in
// lo..hi - 1.
static void keep(int64_t *begin, int64_t *end, int64_t coef, int64_t base,
                 int64_t lo, int64_t hi)
{
    int64_t b = *begin, e = *end;
    *begin = first_from(b, e, coef, base, coef > 0 ? lo : hi - 1);
    *end = first_from(b, e, coef, base, coef > 0 ? hi : lo - 1);
    if (*end < *begin)
        *end = *begin;
}

int dv_check_var(const dv_op *op, const dv_index *x)
{
    int found = -1;
    for (int v = 0; v < op->n_vars; v++)
        if (x->coef[v] != 0)
            found = found == -1 ? v : -2;
    return found;
}

// Restricts the range begin..end of the variable in index x to the values for
// which the index lies in `part`. Returns 0 if the index is a constant outside
// `part`.
static int keep_index(int64_t *begin, int64_t *end, const dv_op *op,
                      const dv_index *x, dv_range part)
{
    int v = dv_check_var(op, x);
    int here = x->base >= part.off && x->base < part.off + part.size;
    if (v >= 0)
        keep(&begin[v], &end[v], x->coef[v], x->base, part.off,
             part.off + part.size);
    return v >= 0 || here;
}

int dv_check_target(const dv_program *p, const dv_plan_team *t, int32_t op,
                    const int64_t *coord, int64_t *begin, int64_t *end)
{
    const dv_op *o = &p->ops[op];
    dv_box own = dv_check_owned(t, o->write.tensor, coord);
    int any = 1;
    for (int v = 0; v < o->n_vars; v++) {
        begin[v] = o->vars[v].begin;
        end[v] = o->vars[v].end;
    }
    for (int d = 0; d < own.n_dims; d++)
        if (t->tensors[o->write.tensor].axis[d] >= 0)
            any &= keep_index(begin, end, o, &o->write.index[d], own.dim[d]);
    for (int32_t i = 0; i < t->n_follows; i++) {
        const dv_split_reduction *f = &t->follows[i];
        if (f->op != op)
            continue;
        const dv_access *a = &o->reads[f->read];
        dv_box part = dv_check_owned(t, a->tensor, coord);
        any &= keep_index(begin, end, o, &a->index[f->dim], part.dim[f->dim]);
    }
    for (int v = 0; v < o->n_vars; v++)
        any &= begin[v] < end[v];
    return any;
}
