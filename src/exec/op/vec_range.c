// Computes ranges of integer expressions; vec_range.h describes the purpose.
#include "exec/op/vec_range.h"
#include "jit/vec/vec.h"
#include <math.h>
#include <stdlib.h>

// The range of an integer expression. Kernels compute modulo 2^32; `ok` is 1 if
// that yields the exact result: values that do not fit 32 bits may only be
// added, subtracted or multiplied.
typedef struct range {
    double lo, hi;
    int ok;
} range;

static int fits(range r)
{
    return r.ok && r.lo >= INT32_MIN && r.hi <= INT32_MAX;
}

// Returns an unlimited range if a bound is not below 2^53 in magnitude, because
// doubles then round, or is nan.
static range bounded(double lo, double hi, int ok)
{
    const double most = 0x1p53;
    if (!(lo > -most && hi < most))
        return (range){-INFINITY, INFINITY, ok};
    return (range){lo, hi, ok};
}

static range either(range x, range y)
{
    return (range){fmin(x.lo, y.lo), fmax(x.hi, y.hi), x.ok && y.ok};
}

static range product(range x, range y)
{
    double a = x.lo * y.lo, b = x.lo * y.hi, c = x.hi * y.lo, d = x.hi * y.hi;
    if (isinf(x.lo) || isinf(y.lo)) // 0 * infinity would be nan
        return (range){-INFINITY, INFINITY, x.ok && y.ok};
    return bounded(fmin(fmin(a, b), fmin(c, d)), fmax(fmax(a, b), fmax(c, d)),
                   x.ok && y.ok);
}

// Returns the smallest range -2^n .. 2^n - 1 that contains both; if neither has
// negative numbers, 0 .. 2^n - 1.
static range bits_of(range x, range y)
{
    range all = either(x, y);
    double n = 1;
    while (n < 0x1p53 && (all.lo < -n || all.hi > n - 1))
        n *= 2;
    return bounded(all.lo < 0 ? -n : 0, n - 1, all.ok);
}

// Returns the range of x << by, where shifts by negative distances or beyond 31
// give 0.
static range shifted_left(range x, range by)
{
    double most = by.hi < 0 ? 0 : ldexp(1, (int)fmin(by.hi, 63));
    return bounded(fmin(x.lo * most, 0), fmax(x.hi * most, 0),
                   x.ok && fits(by));
}

static range apply_range(dv_fn fn, const range *x)
{
    range none = {0};
    switch (fn) {
    case DV_FN_ADD:
        return bounded(x[0].lo + x[1].lo, x[0].hi + x[1].hi,
                       x[0].ok && x[1].ok);
    case DV_FN_SUB:
        return bounded(x[0].lo - x[1].hi, x[0].hi - x[1].lo,
                       x[0].ok && x[1].ok);
    case DV_FN_NEG:
        return (range){-x[0].hi, -x[0].lo, x[0].ok};
    case DV_FN_MUL:
        return product(x[0], x[1]);
    case DV_FN_SELECT:
        return fits(x[0]) ? either(x[1], x[2]) : none;
    case DV_FN_RELU:
    case DV_FN_ABS: {
        double most = fmax(fabs(x[0].lo), fabs(x[0].hi));
        return (range){0, most, fits(x[0])};
    }
    case DV_FN_MIN:
    case DV_FN_MAX:
        return fits(x[0]) && fits(x[1]) ? either(x[0], x[1]) : none;
    case DV_FN_SIGN:
        return (range){-1, 1, fits(x[0])};
    case DV_FN_BITAND: // only keeps bits of a number that is not negative
        for (int i = 0; i < 2; i++)
            if (x[i].lo >= 0)
                return bounded(0, x[i].hi, x[0].ok && x[1].ok);
        return bits_of(x[0], x[1]);
    case DV_FN_BITOR:
    case DV_FN_BITXOR:
        return bits_of(x[0], x[1]);
    case DV_FN_SHL:
        return shifted_left(x[0], x[1]);
    case DV_FN_SHR:
        return (range){fmin(x[0].lo, 0), fmax(x[0].hi, 0),
                       fits(x[0]) && fits(x[1])};
    default: // the remaining functions of integers are comparisons
        return (range){0, 1, dv_fn_compares(fn) && fits(x[0]) && fits(x[1])};
    }
}

static range index_range(const dv_op *op, const dv_expr *e)
{
    int64_t lo, hi;
    range none = {0};
    return dv_expr_index_bounds(op, e, &lo, &hi)
               ? bounded((double)lo, (double)hi, 1)
               : none;
}

// Returns the range of an expression's values; reads[i] is the range of read i.
static range range_of(const dv_op *op, const dv_expr *e, const range *reads)
{
    range x[3] = {{0}}, none = {0};
    double n;
    for (int i = 0; i < e->n_args; i++)
        x[i] = range_of(op, e->arg[i], reads);
    switch ((dv_expr_kind)e->kind) {
    case DV_EXPR_CONST:
        x[0] = (range){e->value, e->value, e->value == floor(e->value)};
        return fits(x[0]) ? x[0] : none;
    case DV_EXPR_READ:
        return reads[e->read];
    case DV_EXPR_INDEX:
        return index_range(op, e);
    case DV_EXPR_REDUCE:
        n = (double)dv_op_points(op, e->vars);
        if (e->fn == DV_RED_SUM)
            return bounded(n * fmin(x[0].lo, 0), n * fmax(x[0].hi, 0), x[0].ok);
        if (e->fn == DV_RED_PROD)
            return (range){-INFINITY, INFINITY, x[0].ok};
        return fits(x[0]) ? x[0] : none;
    case DV_EXPR_APPLY:
        break;
    }
    return apply_range((dv_fn)e->fn, x);
}

dv_vec_fit dv_vec_op_fit(const dv_program *p, const dv_op *op)
{
    range all[DV_VEC_MAX_OPERANDS], least[DV_VEC_MAX_OPERANDS];
    if (op->n_reads > DV_VEC_MAX_OPERANDS)
        return DV_FITS_NEVER;
    for (int i = 0; i < op->n_reads; i++) {
        dv_dtype t = p->tensors[op->reads[i].tensor].dtype;
        int ok = !dv_is_float(t) && dv_vec_loads(t, DV_I32);
        least[i] = (range){-1, 1, ok};
        all[i] = (range){INT32_MIN, INT32_MAX, ok};
        if (ok)
            all[i] =
                (range){(double)dv_int_least(t), (double)dv_int_most(t), 1};
    }
    if (range_of(op, op->body, all).ok)
        return DV_FITS_ALL;
    return range_of(op, op->body, least).ok ? DV_FITS_DEPENDS : DV_FITS_NEVER;
}

// Loops over all elements that one read accesses in a box, ordered by
// increasing stride. An element may be visited more than once.
typedef struct walk {
    int64_t first; // offset of the first element
    int64_t n[DV_MAX_VARS], step[DV_MAX_VARS];
    int n_loops;
} walk;

static void add_loop(walk *w, int64_t n, int64_t step)
{
    int at = w->n_loops++;
    for (; at > 0 && w->step[at - 1] > step; at--) {
        w->n[at] = w->n[at - 1];
        w->step[at] = w->step[at - 1];
    }
    w->n[at] = n;
    w->step[at] = step;
}

// Collapses a loop into the inner one if it continues where the inner loop ends
// or overlaps it, as rows of a matrix and windows of a convolution do.
static void join_loops(walk *w)
{
    int last = 0;
    for (int i = 1; i < w->n_loops; i++) {
        int64_t by = w->step[i] / w->step[last];
        if (w->step[i] % w->step[last] == 0 && by <= w->n[last]) {
            w->n[last] += (w->n[i] - 1) * by;
            continue;
        }
        last++;
        w->n[last] = w->n[i];
        w->step[last] = w->step[i];
    }
    w->n_loops = last + 1;
}

static walk walk_of(const dv_flat *f, int n_vars, const int64_t *begin,
                    const int64_t *end)
{
    walk w = {.first = f->base};
    for (int v = 0; v < n_vars; v++) {
        int64_t n = end[v] - begin[v], step = f->coef[v];
        w.first += step * (step < 0 ? end[v] - 1 : begin[v]);
        if (n > 1 && step)
            add_loop(&w, n, llabs(step));
    }
    if (w.n_loops == 0)
        add_loop(&w, 1, 1);
    join_loops(&w);
    return w;
}

// Defines a scan for the minimum and maximum of strided elements; the loops are
// simple so that the compiler vectorizes them.
#define LOOK(name, type)                                                       \
    static void name(const type *x, int64_t n, int64_t step, int64_t *lo,      \
                     int64_t *hi)                                              \
    {                                                                          \
        type least = *x, most = *x;                                            \
        if (step == 1)                                                         \
            for (int64_t i = 0; i < n; i++) {                                  \
                least = x[i] < least ? x[i] : least;                           \
                most = x[i] > most ? x[i] : most;                              \
            }                                                                  \
        else                                                                   \
            for (int64_t i = 0; i < n; i++) {                                  \
                least = x[i * step] < least ? x[i * step] : least;             \
                most = x[i * step] > most ? x[i * step] : most;                \
            }                                                                  \
        *lo = least < *lo ? least : *lo;                                       \
        *hi = most > *hi ? most : *hi;                                         \
    }
LOOK(min_max_i64, int64_t)
LOOK(min_max_i32, int32_t)
LOOK(min_max_i8, int8_t)
LOOK(min_max_i16, int16_t)
LOOK(min_max_u32, uint32_t)
LOOK(min_max_u16, uint16_t)
LOOK(min_max_u8, uint8_t)
#undef LOOK

// Extends the range lo..hi so that it includes the values of n elements, `step`
// apart, from element `off` on.
static void min_max(dv_dtype t, const void *data, int64_t off, int64_t n,
                    int64_t step, int64_t *lo, int64_t *hi)
{
    switch (t) {
    case DV_I8:
        min_max_i8((const int8_t *)data + off, n, step, lo, hi);
        break;
    case DV_I16:
        min_max_i16((const int16_t *)data + off, n, step, lo, hi);
        break;
    case DV_I32:
        min_max_i32((const int32_t *)data + off, n, step, lo, hi);
        break;
    case DV_U32:
        min_max_u32((const uint32_t *)data + off, n, step, lo, hi);
        break;
    case DV_U16:
        min_max_u16((const uint16_t *)data + off, n, step, lo, hi);
        break;
    case DV_U8:
    case DV_BOOL:
        min_max_u8((const uint8_t *)data + off, n, step, lo, hi);
        break;
    default: // i64, and u64, which is computed as i64
        min_max_i64((const int64_t *)data + off, n, step, lo, hi);
    }
}

static range range_at(const walk *w, dv_dtype t, const void *data)
{
    int64_t at[DV_MAX_VARS] = {0}, off = w->first;
    int64_t lo = INT64_MAX, hi = INT64_MIN;
    for (;;) {
        min_max(t, data, off, w->n[0], w->step[0], &lo, &hi);
        int i = 1;
        for (; i < w->n_loops; i++) {
            off += w->step[i];
            if (++at[i] < w->n[i])
                break;
            off -= w->step[i] * w->n[i];
            at[i] = 0;
        }
        if (i >= w->n_loops)
            return (range){(double)lo, (double)hi, 1};
    }
}

// Returns the range of the values that read number r loads in a box.
static range found_by(const dv_program *p, const dv_kernel *k, int r,
                      void *const *at, const int64_t *begin, const int64_t *end)
{
    walk w = walk_of(&k->reads[r], k->op->n_vars, begin, end);
    return range_at(&w, p->tensors[k->op->reads[r].tensor].dtype, at[r]);
}

// Returns whether an indirect index stays in 0..n at all points of a box, if
// the index values that are read have range `read`. Bounds beyond 2^53 are
// inexact, but so far outside that this does not matter.
static int is_inside(const dv_op *op, const dv_index *x, range read,
                     const int64_t *begin, const int64_t *end, int64_t n)
{
    double f = (double)x->factor, lo = (double)x->base, hi = lo;
    lo += f * (f > 0 ? read.lo : read.hi);
    hi += f * (f > 0 ? read.hi : read.lo);
    for (int v = 0; v < op->n_vars; v++) {
        double c = (double)x->coef[v], first = c * (double)begin[v];
        double last = c * (double)(end[v] - 1);
        lo += c > 0 ? first : last;
        hi += c > 0 ? last : first;
    }
    return lo >= 0 && hi < (double)n;
}

int dv_vec_op_fits(const dv_program *p, const dv_kernel *k, void *const *at,
                   const int64_t *begin, const int64_t *end)
{
    const dv_op *op = k->op;
    range found[DV_VEC_MAX_OPERANDS];
    int gathers = 0;
    for (int i = 0; i <= op->n_reads; i++) {
        const dv_access *a = dv_op_access(op, i);
        for (int d = 0; d < a->n_dims; d++) {
            if (a->index[d].via < 0)
                continue;
            range x = found_by(p, k, a->index[d].via, at, begin, end);
            if (!is_inside(op, &a->index[d], x, begin, end,
                           p->tensors[a->tensor].shape[d]))
                return 0;
            gathers = 1;
        }
    }
    if (gathers)
        return 1;
    for (int i = 0; i < op->n_reads; i++)
        found[i] = found_by(p, k, i, at, begin, end);
    return range_of(op, op->body, found).ok;
}

void dv_vec_op_shift(const dv_program *p, const dv_op *op, void **at)
{
    int64_t by[DV_MAX_READS + 1];
    for (int i = 0; i <= op->n_reads; i++) {
        const dv_access *a = dv_op_access(op, i);
        const dv_tensor *t = &p->tensors[a->tensor];
        int64_t stride = dv_dtype_get(t->dtype)->size_bytes;
        int gathers = dv_access_gathers(op, a);
        by[i] = 0;
        for (int d = a->n_dims - 1; d >= 0 && !gathers; d--) {
            const dv_index *x = &a->index[d];
            if (x->via >= 0) {
                const dv_access *from = &op->reads[x->via];
                const dv_tensor *of = &p->tensors[from->tensor];
                int64_t rows[DV_MAX_DIMS], none[DV_MAX_VARS];
                dv_row_strides(of->n_dims, of->shape, rows);
                by[i] += dv_index_at(of->dtype, at[x->via],
                                     dv_access_flatten(op, from, rows, none)) *
                         x->factor * stride;
            }
            stride *= t->shape[d];
        }
    }
    for (int i = 0; i <= op->n_reads; i++)
        at[i] = (char *)at[i] + by[i];
}
