// The part of the interpreter of ops that does not depend on the type: prepares
// ops and computes offsets of elements.
#include "strip/strip.h"
#include "base/math.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Converts all accesses of the op to affine offsets in elements; tensors are
// row-major unless `strides` has other strides for them.
static void flatten_all(dv_kernel *k, const dv_program *p,
                        int64_t *const *strides)
{
    for (int i = -1; i < k->op->n_reads; i++) {
        const dv_access *a = i < 0 ? &k->op->write : &k->op->reads[i];
        dv_flat *f = i < 0 ? &k->write : &k->reads[i];
        int64_t rows[DV_MAX_DIMS];
        const int64_t *own = strides ? strides[a->tensor] : NULL;
        dv_row_strides(a->n_dims, p->tensors[a->tensor].shape, rows);
        f->base = dv_access_flatten(k->op, a, own ? own : rows, f->coef);
    }
}

static int slots_of(const dv_expr *e)
{
    int most = 1;
    if (e->kind == DV_EXPR_REDUCE)
        return slots_of(e->arg[0]);
    for (int i = 0; i < e->n_args; i++) {
        int n = i + slots_of(e->arg[i]);
        most = n > most ? n : most;
    }
    return most;
}

// Estimates the memory cost of strips (runs of elements that are computed
// together) along variable v: the sum of the strides of all accesses, each
// counted as at most 16 elements, about a cache line.
static int64_t loop_cost(const dv_kernel *k, int v)
{
    int64_t sum = 0;
    for (int i = -1; i < k->op->n_reads; i++) {
        if (i < 0 && k->op->vars[v].reduce)
            continue;
        const dv_flat *f = i < 0 ? &k->write : &k->reads[i];
        int64_t apart = llabs(f->coef[v]);
        sum += apart > 16 ? 16 : apart;
    }
    int64_t len = dv_var_len(k->op, v);
    // Starting a strip (a run of elements that are computed together) costs
    // about as much as 40 elements. In short strips that is spread over few
    // elements, so it counts.
    return len >= 16 ? sum : sum + 40 / len;
}

// Returns 1 if strips (runs of elements that are computed together) along
// variable `strip` visit the written elements in program order. An op that
// writes through an index must keep that order, because several points may
// write the same element and the last one must win.
static int keeps_order(const dv_op *op, int strip)
{
    for (int v = strip + 1; v < op->n_vars; v++)
        if (!op->vars[v].reduce)
            return op->vars[strip].reduce;
    return 1;
}

static int32_t pick_strip(const dv_kernel *k)
{
    int32_t best = -1;
    int ordered = dv_access_is_indirect(&k->op->write);
    for (int v = 0; v < k->op->n_vars; v++)
        if ((best < 0 || loop_cost(k, v) < loop_cost(k, best)) &&
            (!ordered || keeps_order(k->op, v)))
            best = v;
    return best;
}

int dv_kernel_init(dv_kernel *k, const dv_program *p, const dv_op *op,
                   int64_t *const *strides, dv_arena *arena)
{
    *k = (dv_kernel){.op = op, .old_off = -1};
    k->compute = dv_op_compute(p, op);
    k->reduce = dv_op_reduce(op);
    k->n_slots = slots_of(op->body);
    k->reads = DV_NEW(arena, dv_flat, op->n_reads);
    k->write.coef = DV_NEW(arena, int64_t, op->n_vars);
    if (!k->reads || !k->write.coef)
        return 0;
    for (int i = 0; i < op->n_reads; i++)
        if (!(k->reads[i].coef = DV_NEW(arena, int64_t, op->n_vars)))
            return 0;
    // The variable along which strips (elements that are computed together) run
    // determines the order of additions, so it is chosen for row-major tensors,
    // independently of the strides of a tile's buffers.
    flatten_all(k, p, NULL);
    k->strip = pick_strip(k);
    if (strides)
        flatten_all(k, p, strides);
    return 1;
}

// Returns an index from its indirect value and its affine part, or INT64_MIN,
// which is outside of every tensor, if it does not fit 64 bits.
static int64_t index_plus(const dv_index *x, int64_t value, int64_t affine)
{
    int64_t i;
    return dv_mul_i64(&i, value, x->factor) && dv_add_i64(&i, i, affine)
               ? i
               : INT64_MIN;
}

static int64_t load_index(dv_strips *s, int32_t read, const int64_t *point)
{
    const dv_access *a = &s->k->op->reads[read];
    int64_t off = dv_strips_offset(s, a, &s->k->reads[read], point);
    if (off == DV_OUTSIDE)
        return (int64_t)a->border;
    return dv_index_at(s->p->tensors[a->tensor].dtype,
                       dv_strips_source(s, read), off);
}

// Returns index i of dim d if it is in range; otherwise reports an error and
// returns 0, which is a valid index.
static int64_t checked(dv_strips *s, const dv_access *a, int d, int64_t i)
{
    const dv_tensor *t = &s->p->tensors[a->tensor];
    if (i >= 0 && i < t->shape[d])
        return i;
    if (s->status == DV_OK)
        s->status =
            dv_fail(s->diag, DV_E_BOUNDS, (dv_loc){&s->p->src, a->off},
                    "an index found %" PRId64 ", dim %d of %s has 0..%" PRId64,
                    i, d, t->name, t->shape[d]);
    return 0;
}

int64_t dv_strips_offset(dv_strips *s, const dv_access *a, const dv_flat *f,
                         const int64_t *point)
{
    int64_t off = dv_flat_at(f, s->k->op, point), stride = 1;
    for (int d = a->n_dims - 1; d >= 0; d--) {
        const dv_index *x = &a->index[d];
        int64_t affine = x->via >= 0 || a->has_border
                             ? dv_index_value(s->k->op, x, point)
                             : 0;
        int64_t i = x->via >= 0
                        ? index_plus(x, load_index(s, x->via, point), affine)
                        : affine;
        if (a->has_border && (i < 0 || i >= s->p->tensors[a->tensor].shape[d]))
            return DV_OUTSIDE;
        if (x->via >= 0)
            off += (checked(s, a, d, i) - affine) * stride;
        stride *= s->p->tensors[a->tensor].shape[d];
    }
    return off;
}

// Computes the affine part of an index at the first element of the current
// strip (the elements that are computed together) and its step along the strip.
static int64_t first_index(const dv_strips *s, const dv_index *x, int64_t *step)
{
    *step = s->k->strip < 0 ? 0 : x->coef[s->k->strip];
    return dv_index_value(s->k->op, x, s->at);
}

int dv_strips_leave(const dv_strips *s, const dv_access *a)
{
    for (int d = 0; a->has_border && d < a->n_dims; d++) {
        int64_t n = s->p->tensors[a->tensor].shape[d], step;
        int64_t i =
            a->index[d].via >= 0 ? 0 : first_index(s, &a->index[d], &step);
        int64_t last = a->index[d].via >= 0 ? 0 : i + (s->n - 1) * step;
        if (i < 0 || i >= n || last < 0 || last >= n)
            return 1;
    }
    return 0;
}

// Marks the elements of a strip for which the affine index of dim d is outside
// of the tensor.
static void mark_outside(const dv_strips *s, const dv_access *a, int d,
                         int64_t found[DV_STRIP])
{
    int64_t n = s->p->tensors[a->tensor].shape[d], step;
    int64_t i = first_index(s, &a->index[d], &step);
    for (int64_t k = 0; k < s->n; k++, i += step)
        if (i < 0 || i >= n)
            found[k] = DV_OUTSIDE;
}

// Adds the indirect index of dim d, times `stride`, to each element's offset in
// a strip. Outside of a tensor with a border, the offset becomes DV_OUTSIDE.
static void add_found(dv_strips *s, const dv_access *a, int d, int64_t stride,
                      int64_t found[DV_STRIP])
{
    const dv_access *x = &s->k->op->reads[a->index[d].via];
    dv_dtype t = s->p->tensors[x->tensor].dtype;
    const void *data = dv_strips_source(s, a->index[d].via);
    int64_t n = s->p->tensors[a->tensor].shape[d], at[DV_STRIP], step;
    int64_t affine = first_index(s, &a->index[d], &step);
    dv_strips_find(s, x, &s->k->reads[a->index[d].via], at);
    for (int64_t k = 0; k < s->n; k++, affine += step) {
        int64_t value = at[k] == DV_OUTSIDE ? (int64_t)x->border
                                            : dv_index_at(t, data, at[k]);
        int64_t i = index_plus(&a->index[d], value, affine);
        int outside = a->has_border && (i < 0 || i >= n);
        if (outside || found[k] == DV_OUTSIDE)
            found[k] = DV_OUTSIDE;
        else
            found[k] += (checked(s, a, d, i) - affine) * stride;
    }
}

void dv_strips_find(dv_strips *s, const dv_access *a, const dv_flat *f,
                    int64_t found[DV_STRIP])
{
    int64_t off = dv_flat_at(f, s->k->op, s->at), stride = 1;
    int64_t by = s->k->strip < 0 ? 0 : f->coef[s->k->strip];
    for (int64_t i = 0; i < s->n; i++)
        found[i] = off + i * by;
    for (int d = a->n_dims - 1; d >= 0; d--) {
        if (a->index[d].via >= 0)
            add_found(s, a, d, stride, found);
        else if (a->has_border)
            mark_outside(s, a, d, found);
        stride *= s->p->tensors[a->tensor].shape[d];
    }
}

void dv_strips_run(dv_strips *s, const int64_t *begin, const int64_t *end)
{
    if (s->k->compute == DV_IN_F32)
        dv_strips_f32(s, begin, end);
    else if (s->k->compute == DV_IN_F64)
        dv_strips_f64(s, begin, end);
    else
        dv_strips_i64(s, begin, end);
}
