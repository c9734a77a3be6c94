// Where reads with a border cross the edges of their tensors; edges.h has the
// overview.
#include "exec/op/edges.h"
#include "base/dtype.h"
#include "base/math.h"
#include <stdlib.h>

// The read of `operand` stays inside one dim of its tensor where begin <= value
// of `var` < end.
typedef struct edge {
    int32_t operand;
    int var;
    int64_t begin, end;
} edge;

struct dv_edges {
    edge *edges; // those of an operand are consecutive
    int32_t n, cap;
    void **row; // by operand: border values, or NULL
};

dv_edges *dv_edges_create(int32_t n_operands, dv_arena *arena)
{
    dv_edges *e = DV_NEW(arena, dv_edges, 1);
    if (e)
        e->row = DV_NEW(arena, void *, n_operands);
    return e && e->row ? e : NULL;
}

// Finds the values of the one variable that index x depends on for which
// 0 <= x < extent. Returns 0 if it depends on several, or on values of tensors.
static int find_edge(edge *out, const dv_op *op, const dv_index *x,
                     int64_t extent, const int64_t *reduced)
{
    int64_t base = x->base, by;
    out->var = -1;
    if (x->via >= 0)
        return 0;
    for (int v = 0; v < op->n_vars; v++) {
        int64_t k = x->coef[v];
        if (k == 0)
            continue;
        if (op->vars[v].reduce) {
            if (!dv_mul_i64(&by, k, reduced[v]) || !dv_add_i64(&base, base, by))
                return 0;
            continue;
        }
        if (out->var >= 0)
            return 0;
        out->var = v;
    }
    if (out->var < 0) {
        // A constant index is inside for all values of variable 0, or for none.
        out->var = 0;
        out->begin = INT64_MIN;
        out->end = base >= 0 && base < extent ? INT64_MAX : INT64_MIN;
        return 1;
    }
    int64_t k = x->coef[out->var];
    if (llabs(base) > INT64_MAX / 4 || extent > INT64_MAX / 4 ||
        llabs(k) > INT64_MAX / 4)
        return 0;
    if (k > 0) { // -base <= k v < extent - base
        out->begin = dv_ceil_div(-base, k);
        out->end = dv_ceil_div(extent - base, k);
    } else { // base - extent < -k v <= base
        out->begin = dv_ceil_div(base - extent + 1, -k);
        out->end = dv_ceil_div(base + 1, -k);
    }
    return 1;
}

int dv_edges_add(dv_edges *e, int32_t operand, const dv_program *p,
                 const dv_op *op, const dv_access *read, int32_t inner,
                 int64_t row, const int64_t *reduced, dv_arena *arena,
                 int *failed)
{
    const dv_tensor *t = &p->tensors[read->tensor];
    int32_t before = e->n;
    for (int d = 0; d < read->n_dims; d++) {
        edge x = {.operand = operand};
        if (!find_edge(&x, op, &read->index[d], t->shape[d], reduced))
            return 0;
        const dv_var *v = &op->vars[x.var];
        if (x.begin <= v->begin && x.end >= v->end)
            continue;
        edge *slot = x.var == inner
                         ? NULL
                         : DV_PUSH(arena, edge, e->edges, e->n, e->cap);
        if (!slot) {
            *failed |= x.var != inner;
            return 0;
        }
        *slot = x;
    }
    if (e->n == before)
        return 1;
    int64_t bytes = dv_dtype_get(t->dtype)->size_bytes, all;
    void *to = dv_mul_i64(&all, row, bytes)
                   ? dv_arena_buffer(arena, (size_t)all)
                   : NULL;
    *failed |= !to;
    for (int64_t i = 0; i < row && to; i++)
        dv_store(t->dtype, to, i, read->border);
    e->row[operand] = to;
    return to != NULL;
}

uint32_t dv_edges_vars(const dv_edges *e)
{
    uint32_t vars = 0;
    for (int32_t i = 0; i < e->n; i++)
        vars |= UINT32_C(1) << e->edges[i].var;
    return vars;
}

int64_t dv_edges_cut(const dv_edges *e, int var, int64_t from, int64_t end)
{
    for (int32_t i = 0; i < e->n; i++) {
        const edge *x = &e->edges[i];
        if (x->var == var && x->begin > from && x->begin < end)
            end = x->begin;
        if (x->var == var && x->end > from && x->end < end)
            end = x->end;
    }
    return end;
}

int32_t dv_edges_outside(const dv_edges *e, const int64_t *point,
                         int32_t *operands, void **rows)
{
    int32_t n = 0;
    for (int32_t i = 0; i < e->n; i++) {
        const edge *x = &e->edges[i];
        int inside = point[x->var] >= x->begin && point[x->var] < x->end;
        if (inside || (n && operands[n - 1] == x->operand))
            continue;
        operands[n] = x->operand;
        rows[n++] = e->row[x->operand];
    }
    return n;
}
