// Analyses an op for the planners that cut ops into slices, and computes spans
// (bytes between the first and last one that a core accesses).
#include "divide/divide.h"
#include "base/math.h"

static void block(dv_divide_space *s, uint32_t vars, const char *why)
{
    for (int v = 0; v < s->n_vars; v++) {
        if (!(vars >> v & 1) || (s->blocked >> v & 1))
            continue;
        s->blocked |= 1u << v;
        s->why[v] = why;
    }
}

// Returns the only variable that the position along dim `dim` of a layout
// depends on, or -1 if there are none or several.
static int32_t only_var(const dv_coords *c, int32_t dim)
{
    int32_t var = -1;
    for (int32_t i = c->first[dim]; i < c->first[dim + 1]; i++) {
        if (c->terms[i].var < 0)
            continue;
        if (var >= 0)
            return -1;
        var = c->terms[i].var;
    }
    return var;
}

// Finds the stick variables: those that run inside a stick (the unit of the
// target's memory) or a tile of some tensor, and must not be cut within it. If
// tensors have sticks of different lengths, the longest counts.
static void find_sticks(dv_divide_space *s)
{
    for (int i = 0; i < s->n_tensors; i++) {
        const dv_layout *l = s->layouts[i];
        for (int32_t d = l->n_dims - l->n_inner; d < l->n_dims; d++) {
            int32_t v = s->coords[i] ? only_var(s->coords[i], d) : -1;
            if (v < 0)
                continue;
            s->stick_vars |= 1u << v;
            s->eps[v] = dv_max_i64(s->eps[v], l->size[d]);
        }
    }
    for (int v = 0; v < s->n_vars; v++)
        s->units[v] = dv_ceil_div(s->extent[v], s->eps[v]);
}

static void find_blocked(dv_divide_space *s)
{
    for (int v = 0; v < s->n_vars; v++)
        if ((s->reduced & s->stick_vars) >> v & 1 && s->extent[v] % s->eps[v])
            block(s, 1u << v,
                  "its last stick is ragged and needs a mask that knows all of "
                  "it");
    const dv_op *op = s->op;
    if (dv_op_has_border(op))
        block(s, s->reduced,
              "kernels that read with a border do not compute parts of sums");
    for (int i = 0; i < s->n_tensors; i++)
        if (!s->coords[i])
            block(s, UINT32_MAX, "an index is too large to follow");
    if (dv_access_is_indirect(&op->write))
        block(
            s, UINT32_MAX,
            "it writes where an index that is read says, and points may meet");
    // Mark an op with an indirect index or a negative stride as irregular: the
    // planner `seed`, which imitates Torch-Spyre, does not divide it.
    for (int r = 0; r <= op->n_reads; r++) {
        const dv_access *a = dv_op_access(op, r);
        for (int d = 0; d < a->n_dims; d++) {
            s->has_irregular_access |= a->index[d].via >= 0;
            for (int v = 0; v < op->n_vars && a->index[d].via < 0; v++)
                s->has_irregular_access |= a->index[d].coef[v] < 0;
        }
    }
}

static void find_outputs(dv_divide_space *s)
{
    const dv_coords *c = s->coords[s->n_tensors - 1];
    const dv_layout *l = s->layouts[s->n_tensors - 1];
    for (int32_t i = 0; c && i < c->first[l->n_dims - l->n_inner]; i++)
        if (c->terms[i].var >= 0)
            s->outputs |= 1u << c->terms[i].var;
}

int dv_divide_space_init(dv_divide_space *s, const dv_target *t,
                         const dv_program *p, const dv_op *op,
                         const dv_layout *layouts, dv_arena *arena)
{
    // Number of bytes that the host fetches together: several adjacent cache
    // lines.
    enum { CACHES_BYTES = 256 };
    *s = (dv_divide_space){.op = op, .n_vars = op->n_vars};
    s->line = dv_target_has_caches(t) ? CACHES_BYTES : 1;
    for (int v = 0; v < op->n_vars; v++) {
        s->extent[v] = dv_var_len(op, v);
        s->eps[v] = 1;
        s->reduced |= op->vars[v].reduce ? 1u << v : 0;
    }
    s->n_tensors = op->n_reads + 1;
    for (int i = 0; i <= op->n_reads; i++) {
        const dv_access *a = dv_op_access(op, i);
        s->tensors[i] = &p->tensors[a->tensor];
        s->layouts[i] = &layouts[a->tensor];
        s->coords[i] = DV_NEW(arena, dv_coords, 1);
        if (!s->coords[i])
            return 0;
        if (!dv_coords_make(s->coords[i], s->layouts[i], op, a, s->tensors[i]))
            s->coords[i] = NULL;
    }
    find_sticks(s);
    find_blocked(s);
    find_outputs(s);
    return 1;
}

int64_t dv_splits_cores(const dv_divide_space *s, const dv_splits *d)
{
    int64_t n = 1;
    for (int v = 0; v < s->n_vars; v++)
        if (!dv_mul_i64(&n, n, d->n[v]))
            return INT64_MAX;
    return n;
}

// Returns the number of elements of the longest slice when variable v is cut
// into n slices. If `even` is set, it is rounded down, as Torch-Spyre does.
static int64_t slice_len(const dv_divide_space *s, int v, int64_t n, int even)
{
    if (even)
        return dv_max_i64(1, s->extent[v] / n);
    int64_t len = dv_ceil_div(s->units[v], n) * s->eps[v];
    return dv_min_i64(len, s->extent[v]);
}

// Returns the maximal number of positions along an outer dim of a layout (one
// that counts sticks or other blocks) that one core accesses. A slice that does
// not start at a block boundary may reach into one more block:
//
//   x[j+32], slices of 64 of j, sticks of 64: 2 sticks each
static int64_t positions(const dv_divide_space *s, int i, int32_t dim,
                         const dv_splits *d)
{
    const dv_op *op = s->op;
    const dv_layout *l = s->layouts[i];
    const dv_access *a = dv_op_access(op, i);
    int32_t h = l->host[dim];
    if (h < 0)
        return 1;
    if (a->index[h].via >= 0)
        return l->size[dim];
    int64_t block = 1, way = 0, start = a->index[h].base;
    for (int32_t k = dim + 1; k < l->n_dims; k++)
        block *= l->host[k] == h ? l->size[k] : 1;
    // All slices start at `start` plus a multiple of `grain`.
    int64_t grain = block;
    for (int v = 0; v < s->n_vars; v++) {
        int64_t c = a->index[h].coef[v];
        if (c == 0)
            continue;
        int64_t len = slice_len(s, v, d->n[v], 0);
        way += (c < 0 ? -c : c) * (len - 1);
        start += c * (c < 0 ? op->vars[v].end - 1 : op->vars[v].begin);
        if (d->n[v] > 1)
            grain = c < 0 ? 1 : dv_gcd(grain, c * len);
    }
    // A read with a border may begin before its tensor: reduce `start` modulo
    // `grain`, so that it is not negative.
    start -= dv_floor_div(start, grain) * grain;
    int64_t n = 1 + (way + block - grain + start % grain) / block;
    return dv_min_i64(n, l->size[dim]);
}

// Returns the number of positions along dim `dim` of a layout that one core
// accesses, counted with slice lengths rounded down, as Torch-Spyre does.
static int64_t positions_even(const dv_divide_space *s, int i, int32_t dim,
                              const dv_splits *d)
{
    const dv_coords *c = s->coords[i];
    int64_t n = 1;
    for (int32_t k = c->first[dim]; k < c->first[dim + 1]; k++) {
        const dv_layout_term *t = &c->terms[k];
        int64_t len = 1;
        if (t->var >= 0)
            len = slice_len(s, t->var, d->n[t->var], 1);
        n += dv_term_reach(t, len);
    }
    return n;
}

int64_t dv_span(const dv_divide_space *s, int i, const dv_splits *d, int even)
{
    const dv_layout *l = s->layouts[i];
    if (!s->coords[i])
        // The position of the access in memory could not be determined: assume
        // that a core accesses the whole tensor.
        return l->bytes;
    int64_t inside = l->bytes;
    for (int32_t dim = 0; dim < l->n_dims - l->n_inner; dim++) {
        int64_t n =
            even ? positions_even(s, i, dim, d) : positions(s, i, dim, d);
        inside /= l->size[dim];
        if (n > 1)
            return n * inside;
    }
    // The core accesses a single stick (unit of the target's memory). If `even`
    // is set, count one element, as Torch-Spyre does.
    return even ? l->elem_bytes : inside;
}

int64_t dv_largest_divisor(int64_t size, int64_t limit)
{
    for (int64_t n = dv_min_i64(size, limit); n > 1; n--)
        if (size % n == 0)
            return n;
    return 1;
}
