#include "plan/traffic.h"
#include "base/math.h"
#include "plan/tiles.h"
#include "plan/view.h"
#include <stdlib.h>
#include <string.h>

typedef struct run {
    int64_t factor, n;
} run;

static int by_factor(const void *a, const void *b)
{
    const run *x = a, *y = b;
    return x->factor < y->factor ? -1 : x->factor > y->factor;
}

// Counts the distinct values of a sum of terms, term i taking runs[i].n values
// that are runs[i].factor apart. There is a formula as long as each factor
// either fits into the gap-free range covered by the smaller terms, or exceeds
// that range. Otherwise returns -1, and the caller has to enumerate the values.
static int64_t distinct_sums(run *runs, int n)
{
    int64_t step = 1, count = 1, gaps = 0;
    qsort(runs, (size_t)n, sizeof *runs, by_factor);
    if (n > 0)
        step = runs[0].factor;
    for (int i = 0; i < n; i++) {
        int64_t f = runs[i].factor, k = runs[i].n;
        if (!gaps && f % step == 0 && f / step <= count)
            // The values reached so far are a range without gaps, and adding
            // multiples of f gives ranges that overlap or touch: one longer
            // range.
            count += (k - 1) * (f / step);
        else if (!gaps && f > (count - 1) * step) {
            // The factor exceeds the range reached so far: adding its multiples
            // gives disjoint copies of the range, with gaps between them.
            count *= k;
            gaps = i + 1 < n;
        } else {
            return -1;
        }
    }
    return count;
}

static int64_t count_sums(const run *runs, int n)
{
    int64_t most = 0, x;
    for (int i = 0; i < n; i++)
        if (!dv_mul_i64(&x, runs[i].factor, runs[i].n - 1) ||
            !dv_add_i64(&most, most, x))
            return -1;
    if (most >= (int64_t)1 << 26)
        return -1;
    unsigned char *mark = dv_alloc((size_t)most + 1);
    if (!mark)
        return -1;
    memset(mark, 0, (size_t)most + 1);
    mark[0] = 1;
    int64_t reach = 0;
    for (int i = 0; i < n; i++) {
        for (int64_t at = reach; at >= 0; at--)
            for (int64_t k = 1; mark[at] == 1 && k < runs[i].n; k++)
                mark[at + k * runs[i].factor] |= 2;
        reach += runs[i].factor * (runs[i].n - 1);
        for (int64_t at = 0; at <= reach; at++)
            mark[at] = mark[at] != 0;
    }
    int64_t count = 0;
    for (int64_t at = 0; at <= reach; at++)
        count += mark[at];
    dv_release(mark);
    return count;
}

// Returns whether two dims of the access depend on the same variable.
static int dims_share(const dv_op *op, const dv_access *a)
{
    uint32_t seen = 0;
    for (int d = 0; d < a->n_dims; d++) {
        uint32_t here = dv_index_vars(op, &a->index[d]);
        if (here & seen)
            return 1;
        seen |= here;
    }
    return 0;
}

static int64_t count_runs(run *runs, int n)
{
    int64_t c = distinct_sums(runs, n);
    return c >= 0 ? c : count_sums(runs, n);
}

static int runs_of(const dv_op *op, const int64_t *factor, const int64_t *begin,
                   const int64_t *end, run *runs)
{
    int n = 0;
    for (int v = 0; v < op->n_vars; v++)
        if (factor[v] && end[v] - begin[v] > 1)
            runs[n++] = (run){llabs(factor[v]), end[v] - begin[v]};
    return n;
}

int64_t dv_access_distinct_elems(const dv_program *p, const dv_op *op,
                                 const dv_access *a, const int64_t *begin,
                                 const int64_t *end)
{
    run runs[DV_MAX_VARS];
    // Which elements an indirect access touches is not known before the run:
    // count one per index that is read.
    if (dv_access_is_indirect(a)) {
        int64_t n = 1;
        uint32_t vars = dv_access_vars(op, a);
        for (int v = 0; v < op->n_vars; v++)
            n *= vars >> v & 1 ? end[v] - begin[v] : 1;
        return n;
    }
    // Two dims depend on the same variable, so their counts cannot be
    // multiplied: count the values of the linear element offset.
    if (dims_share(op, a)) {
        int64_t factor[DV_MAX_VARS];
        for (int v = 0; v < op->n_vars; v++)
            factor[v] = dv_access_step(p, a, v);
        return count_runs(runs, runs_of(op, factor, begin, end, runs));
    }
    int64_t n = 1;
    for (int d = 0; d < a->n_dims; d++) {
        int64_t k =
            count_runs(runs, runs_of(op, a->index[d].coef, begin, end, runs));
        if (k < 0)
            return -1;
        n *= k;
    }
    return n;
}

static int64_t elem_bytes(const dv_plan *plan, int32_t tensor)
{
    return plan->layouts
               ? plan->layouts[tensor].elem_bytes
               : dv_dtype_get(plan->ops->tensors[tensor].dtype)->size_bytes;
}

static void add_access(dv_traffic *sum, const dv_plan *plan, int32_t i, int k,
                       const dv_tile *t)
{
    const dv_op *op = &plan->ops->ops[i];
    const dv_access *a = dv_op_access(op, k);
    if (dv_home_of(plan, i, k) >= 0)
        return;
    int64_t n = dv_access_distinct_elems(plan->ops, op, a, t->begin, t->end);
    sum->exact = sum->exact && n >= 0;
    n = n < 0 ? 0 : n;
    int64_t bytes = n * elem_bytes(plan, a->tensor);
    *(k < op->n_reads ? &sum->read_elems : &sum->write_elems) += n;
    *(k < op->n_reads ? &sum->read_bytes : &sum->write_bytes) += bytes;
}

static int64_t core_of(const dv_group *g, int64_t tile)
{
    for (int32_t d = 0; d < g->n_deals; d++)
        if (tile >= g->deals[d].first_tile &&
            tile < g->deals[d].first_tile + g->deals[d].n_tiles)
            return g->deals[d].core;
    return -1;
}

// If a reduction is cut into slices, returns the tile that computes the partial
// sum before the one of tile `t`; -1 if `t` has the first.
static int64_t part_before(const dv_op *op, const dv_tile *t)
{
    int64_t slot[DV_MAX_VARS], tile = 0;
    int found = 0;
    memcpy(slot, t->slot, sizeof slot);
    for (int v = op->n_vars - 1; v >= 0 && !found; v--) {
        if (!op->vars[v].reduce)
            continue;
        found = slot[v] > 0;
        slot[v] = found ? slot[v] - 1 : t->n_slots[v] - 1;
    }
    for (int v = 0; v < op->n_vars; v++)
        tile = tile * t->n_slots[v] + slot[v];
    return found ? tile : -1;
}

static void add_tile(dv_traffic *sum, const dv_plan *plan, const dv_group *g,
                     int32_t i, int64_t tile)
{
    const dv_op *op = &plan->ops->ops[i];
    int64_t results = 1;
    int last = 1;
    dv_tile t;
    dv_plan_tile(&t, plan, i, tile);
    for (int v = 0; v < op->n_vars; v++) {
        if (op->vars[v].reduce)
            last = last && t.slot[v] == t.n_slots[v] - 1;
        else
            results *= t.end[v] - t.begin[v];
    }
    for (int r = 0; r < op->n_reads; r++)
        add_access(sum, plan, i, r, &t);
    if (last)
        add_access(sum, plan, i, op->n_reads, &t);
    int64_t before = part_before(op, &t);
    if (before >= 0 && core_of(g, before) != core_of(g, tile))
        sum->ring_bytes += results * dv_op_partial_bytes(plan->ops, op);
}

// Adds the traffic of the homes (tensors resident in scratchpads) of an op:
// copies and loads that fill those starting at the op, and stores of those that
// are also written to main memory.
static void add_homes(dv_traffic *sum, const dv_plan *plan, int32_t op,
                      int64_t core)
{
    const dv_scratch *s = &plan->scratch;
    for (int32_t i = s->fill_at[op]; i < s->fill_at[op + 1]; i++) {
        const dv_home *h = &s->homes[s->fill_order[i]];
        int64_t bytes = elem_bytes(plan, h->tensor);
        if (h->fill == DV_FILL_LOADED) {
            int64_t n = dv_home_loaded(plan, h, core);
            sum->read_elems += n;
            sum->read_bytes += n * bytes;
        } else if (h->fill == DV_FILL_RING) {
            sum->ring_bytes += dv_home_missing(plan, h, core) * bytes;
        }
        if (h->stored) {
            int64_t n = dv_home_elems(plan, h, core);
            sum->write_elems += n;
            sum->write_bytes += n * bytes;
        }
    }
}

static void add_sum(dv_traffic *sum, const dv_traffic *t, int64_t times)
{
    sum->read_elems += times * t->read_elems;
    sum->write_elems += times * t->write_elems;
    sum->read_bytes += times * t->read_bytes;
    sum->write_bytes += times * t->write_bytes;
    sum->ring_bytes += times * t->ring_bytes;
    sum->exact = sum->exact && t->exact;
}

// Counts the traffic of steps k0..k1 of the reduction of one tile. Only the
// core with step 0 stores the result, because it collects the partial sums.
static dv_traffic tile_traffic(const dv_plan *plan, const dv_group_grid *g,
                               int32_t i, const int64_t bmn[3], int64_t k0,
                               int64_t k1)
{
    const dv_op *op = &plan->ops->ops[i];
    dv_traffic sum = {.exact = 1};
    dv_tile t;
    dv_grid_box(&t, plan, g, bmn, k0, k1);
    for (int r = 0; r < op->n_reads; r++)
        add_access(&sum, plan, i, r, &t);
    if (k0 == 0)
        add_access(&sum, plan, i, op->n_reads, &t);
    return sum;
}

// Returns the bytes of the partial sums of a tile, when they are sent to
// another core.
static int64_t part_traffic(const dv_plan *plan, const dv_group_grid *g,
                            int32_t i, const int64_t bmn[3])
{
    const dv_op *op = &plan->ops->ops[i];
    int64_t n = dv_op_partial_bytes(plan->ops, op);
    dv_tile t;
    dv_grid_box(&t, plan, g, bmn, 0, g->kt);
    for (int v = 0; v < op->n_vars; v++)
        n *= op->vars[v].reduce ? 1 : t.end[v] - t.begin[v];
    return n;
}

// Traffic of one tile of a grid for each of the four tile shapes: of[1][n] is a
// tile in the last row, of[m][1] one in the last column; these may be shorter
// than the others.
typedef struct shapes {
    dv_traffic of[2][2];
} shapes;

static shapes shapes_of(const dv_plan *plan, const dv_group_grid *g, int32_t op)
{
    shapes s;
    for (int m = 0; m < 2; m++)
        for (int n = 0; n < 2; n++) {
            int64_t bmn[3] = {0, m ? g->mt - 1 : 0, n ? g->nt - 1 : 0};
            s.of[m][n] = tile_traffic(plan, g, op, bmn, 0, g->kt);
        }
    return s;
}

// If several cores share the sum of a tile, the one with step 0 of the sum owns
// the tile: it adds the others' partial sums. Returns the owner for range
// number `at`, which holds a part of the sum.
static int64_t owner_of(const dv_plan *plan, const dv_group_grid *g, int32_t at)
{
    for (int32_t i = 0; i < g->n_ranges; i++)
        if (g->ranges[i].first == g->ranges[at].first && g->ranges[i].k0 == 0 &&
            g->ranges[i].n == 1)
            return dv_grid_core_number(plan, &g->ranges[i]);
    return -1;
}

static void add_range(dv_traffic *sum, const dv_plan *plan,
                      const dv_group_grid *g, int32_t op, int32_t at,
                      const shapes *shape)
{
    const dv_tile_range *r = &g->ranges[at];
    dv_order o = dv_grid_order(g);
    int64_t n = dv_range_tiles(g, r), bmn[3];
    if (n > 0 && dv_range_is_partial(g, r)) {
        dv_range_tile(g, &o, r, 0, bmn);
        dv_traffic t = tile_traffic(plan, g, op, bmn, r->k0, r->k1);
        if (r->k0 > 0 && owner_of(plan, g, at) != dv_grid_core_number(plan, r))
            t.ring_bytes = part_traffic(plan, g, op, bmn);
        add_sum(sum, &t, 1);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        dv_range_tile(g, &o, r, i, bmn);
        add_sum(sum, &shape->of[bmn[1] == g->mt - 1][bmn[2] == g->nt - 1], 1);
    }
}

// Adds the traffic of all cores: that of each of the four tile shapes times
// their number, except that tiles whose sum is split among cores count as the
// traffic of their parts.
static void add_grid(dv_traffic *sum, const dv_plan *plan,
                     const dv_group_grid *g, int32_t op, const shapes *shape)
{
    for (int m = 0; m < 2; m++)
        for (int n = 0; n < 2; n++)
            add_sum(sum, &shape->of[m][n],
                    g->batch * (m ? 1 : g->mt - 1) * (n ? 1 : g->nt - 1));
    for (int32_t i = 0; i < g->n_ranges; i++) {
        const dv_tile_range *r = &g->ranges[i];
        dv_order o = dv_grid_order(g);
        int64_t bmn[3];
        if (!dv_range_is_partial(g, r) || !r->n)
            continue;
        add_range(sum, plan, g, op, i, shape);
        if (r->k0)
            continue;
        dv_range_tile(g, &o, r, 0, bmn);
        add_sum(sum, &shape->of[bmn[1] == g->mt - 1][bmn[2] == g->nt - 1], -1);
    }
}

static dv_traffic grid_traffic(const dv_plan *plan, const dv_group_grid *g,
                               int32_t op, int64_t core)
{
    dv_traffic sum = {.exact = 1};
    shapes shape = shapes_of(plan, g, op);
    if (core < 0) {
        add_grid(&sum, plan, g, op, &shape);
        return sum;
    }
    for (int32_t i = 0; i < g->n_ranges; i++)
        if (dv_grid_core_number(plan, &g->ranges[i]) == core)
            add_range(&sum, plan, g, op, i, &shape);
    return sum;
}

dv_traffic dv_op_traffic(const dv_plan *plan, int32_t group, int32_t op,
                         int64_t core)
{
    dv_traffic sum = {.exact = 1};
    const dv_group *g = &plan->groups[group];
    const dv_group_grid *grid = dv_grid_of(plan, group);
    if (grid)
        return grid_traffic(plan, grid, op, core);
    for (int32_t d = 0; d < g->n_deals; d++)
        for (int64_t k = 0; k < g->deals[d].n_tiles; k++)
            if (core < 0 || g->deals[d].core == core)
                add_tile(&sum, plan, g, op, g->deals[d].first_tile + k);
    for (int64_t c = 0; c < plan->target.cores && plan->scratch.fill_at; c++)
        if (core < 0 || c == core)
            add_homes(&sum, plan, op, c);
    return sum;
}

dv_traffic dv_plan_traffic(const dv_plan *plan)
{
    const dv_program *p = plan->ops;
    dv_traffic sum = {.exact = 1};
    int64_t times[DV_MAX_NESTING + 2] = {1};
    int32_t end[DV_MAX_NESTING + 2] = {p->n_ops}, depth = 0, next = 0;
    for (int32_t g = 0; g < plan->n_groups; g++) {
        int32_t i = plan->groups[g].first_op;
        while (depth && end[depth] <= i)
            depth--;
        for (; next < p->n_repeats && p->repeats[next].first_op == i; next++) {
            times[depth + 1] = times[depth] * p->repeats[next].times;
            end[++depth] = p->repeats[next].end_op;
        }
        for (; i < plan->groups[g].end_op; i++) {
            dv_traffic t = dv_op_traffic(plan, g, i, -1);
            add_sum(&sum, &t, times[depth]);
        }
    }
    return sum;
}
