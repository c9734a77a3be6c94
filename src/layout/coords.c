// Converts accesses to device coordinates: positions along the dims of a layout
// (device dims).
//
// An access is a linear host index c0 + sum of c * v, an offset in the
// row-major tensor. It is decomposed into one coordinate per device dim, so
// that the sum of coordinates times strides is the index again: each variable
// contributes to the dim with the largest stride not above its step, and to
// every dim whose stride lies between its step and its total range.
#include "layout/layout.h"
#include "base/math.h"

int64_t dv_term_at(const dv_layout_term *t, int64_t v)
{
    if (t->var < 0)
        return t->var == -1 ? t->step : 0;
    int64_t x = v * t->step;
    return (t->mod ? x % t->mod : x) / t->div;
}

int64_t dv_term_reach(const dv_layout_term *t, int64_t len)
{
    if (t->var == -1)
        return 0;
    return t->var < 0 ? t->step - 1 : dv_term_at(t, len - 1) - dv_term_at(t, 0);
}

static int takes_part(const dv_layout *l, int32_t d)
{
    return l->size[d] != 1 && l->stride[d] > 0;
}

// Returns the smallest stride of any device dim (dim of the layout) that is
// larger than that of dim d; INT64_MAX if there is none.
static int64_t next_stride(const dv_layout *l, int32_t d)
{
    int64_t next = INT64_MAX;
    for (int32_t i = 0; i < l->n_dims; i++)
        if (takes_part(l, i) && l->stride[i] > l->stride[d])
            next = dv_min_i64(next, l->stride[i]);
    return next;
}

// Returns the device dim (dim of the layout) with the largest stride not above
// `step`, or -1 if there is none.
static int32_t primary(const dv_layout *l, int64_t step)
{
    int32_t best = -1;
    for (int32_t i = 0; i < l->n_dims; i++)
        if (takes_part(l, i) && l->stride[i] <= step &&
            (best < 0 || l->stride[i] > l->stride[best]))
            best = i;
    return best;
}

typedef struct item {
    int32_t var; // number of the op's variable; -1 for the constant offset
    int64_t step, limit;
} item;

// Writes the row-major offset of an access as a sum of items: each is a
// variable times a step, or a constant. Returns the number of items, or -1 if
// an index overflows or the constant offset is negative.
static int items_of(const dv_op *op, const dv_access *a, const dv_tensor *t,
                    item *items)
{
    int64_t factor[DV_MAX_VARS] = {0}, base = 0, stride = 1, x;
    for (int d = a->n_dims - 1; d >= 0; d--) {
        int64_t at = a->index[d].base;
        for (int v = 0; v < op->n_vars && a->index[d].via < 0; v++) {
            int64_t coef = a->index[d].coef[v];
            if (dv_var_len(op, v) > 1)
                factor[v] += coef * stride;
            else if (!dv_mul_i64(&x, coef, op->vars[v].begin) ||
                     // A variable with a single value only adds a constant to
                     // the index.
                     !dv_add_i64(&at, at, x))
                return -1;
        }
        if (a->index[d].via < 0)
            base += at * stride;
        stride *= t->shape[d];
    }
    int n = 0;
    for (int v = 0; v < op->n_vars; v++) {
        int64_t range = dv_var_len(op, v);
        base += factor[v] * op->vars[v].begin;
        if (factor[v] == 0)
            continue;
        if (factor[v] == INT64_MIN || !dv_mul_i64(&x, factor[v], range - 1))
            return -1;
        // If the coefficient is negative, count the variable from its upper
        // end, so that the step becomes positive.
        if (factor[v] < 0) {
            base += x;
            factor[v] = -factor[v];
        }
        if (!dv_mul_i64(&x, factor[v], range))
            return -1;
        items[n++] = (item){v, factor[v], x};
    }
    if (base < 0 && a->has_border)
        base = 0; // the first elements are outside of the tensor
    if (base < 0)
        return -1;
    if (base > 0)
        items[n++] = (item){-1, base, INT64_MAX};
    return n;
}

// Returns the part of an access's constant offset that belongs to device dim d
// (a dim of the layout): the remainder modulo the next larger stride, in steps
// of dim d.
static int64_t constant_at(const dv_layout *l, int32_t d, int64_t base)
{
    int64_t next = next_stride(l, d);
    return (next == INT64_MAX ? base : base % next) / l->stride[d];
}

static int add_term(dv_coords *c, int32_t *n, const dv_layout *l, int32_t d,
                    const item *it)
{
    if (*n == DV_MAX_TERMS)
        return 0;
    if (it->var < 0) {
        int64_t k = constant_at(l, d, it->step);
        if (k)
            c->terms[(*n)++] = (dv_layout_term){-1, k, 0, 1};
        return 1;
    }
    int64_t next = next_stride(l, d);
    c->terms[(*n)++] = (dv_layout_term){
        it->var, it->step, next < it->limit ? next : 0, l->stride[d]};
    return 1;
}

int dv_coords_make(dv_coords *out, const dv_layout *l, const dv_op *op,
                   const dv_access *a, const dv_tensor *t)
{
    item items[DV_MAX_VARS + 1];
    int n_items = items_of(op, a, t, items);
    int32_t n = 0;
    for (int32_t d = 0; d < l->n_dims; d++) {
        out->first[d] = n;
        if (l->host[d] >= 0 && a->index[l->host[d]].via >= 0) {
            if (n == DV_MAX_TERMS)
                return 0;
            out->terms[n++] = (dv_layout_term){-2, l->size[d], 0, 1};
            continue;
        }
        for (int i = 0; i < n_items && takes_part(l, d); i++) {
            const item *it = &items[i];
            int here = it->var < 0 || primary(l, it->step) == d ||
                       (it->step < l->stride[d] && l->stride[d] < it->limit);
            if (here && !add_term(out, &n, l, d, it))
                return 0;
        }
    }
    out->first[l->n_dims] = n;
    return n_items >= 0;
}
