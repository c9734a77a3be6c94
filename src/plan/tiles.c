#include "plan/tiles.h"
#include "base/math.h"

int dv_single_reduction_var(const dv_op *op)
{
    int last = -1;
    for (int v = 0; v < op->n_vars; v++)
        if (op->vars[v].reduce)
            last = v;
    for (int v = 0; v < last; v++)
        if (op->vars[v].reduce && dv_var_len(op, v) > 1)
            return 0;
    return 1;
}

// Returns whether the op writes its whole tensor, with a variable of its own
// for each dim.
static int writes_whole(const dv_program *p, const dv_op *op)
{
    const dv_tensor *t = &p->tensors[op->write.tensor];
    uint32_t seen = 0;
    for (int d = 0; d < op->write.n_dims; d++) {
        int v = dv_index_whole_var(op, &op->write.index[d], t->shape[d]);
        if (v < 0 || seen >> v & 1)
            return 0;
        seen |= 1u << v;
    }
    return seen == dv_written_vars(op);
}

const dv_group_grid *dv_grid_of(const dv_plan *plan, int32_t group)
{
    const dv_group *g = &plan->groups[group];
    const dv_op *op = &plan->ops->ops[g->first_op];
    if (!plan->n_grids || g->end_op - g->first_op != 1 || op->is_extern ||
        !writes_whole(plan->ops, op))
        return NULL;
    // Binary search, because grids are sorted by group.
    int32_t lo = 0, hi = plan->n_grids;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (plan->grids[mid].group < group)
            lo = mid + 1;
        else
            hi = mid;
    }
    const dv_group_grid *found = &plan->grids[lo];
    return lo < plan->n_grids && found->group == group && !found->local_shard
               ? found
               : NULL;
}

int64_t dv_grid_core_number(const dv_plan *plan, const dv_tile_range *r)
{
    return dv_target_core(&plan->target, r->x, r->y);
}

dv_order dv_grid_order(const dv_group_grid *g)
{
    dv_order o = {.mt = g->mt, .nt = g->nt, .list = g->list};
    dv_order_parse(&o, g->order);
    return o;
}

int64_t dv_range_tiles(const dv_group_grid *g, const dv_tile_range *r)
{
    return g->rect ? g->batch * (r->m1 - r->m0) * (r->n1 - r->n0) : r->n;
}

void dv_range_tile(const dv_group_grid *g, const dv_order *o,
                   const dv_tile_range *r, int64_t i, int64_t bmn[3])
{
    if (g->rect) {
        int64_t w = r->n1 - r->n0, h = r->m1 - r->m0;
        bmn[0] = i / (h * w);
        bmn[1] = r->m0 + i / w % h;
        bmn[2] = r->n0 + i % w;
        return;
    }
    int64_t id = r->first + i, plane = g->mt * g->nt;
    bmn[0] = id / plane;
    dv_order_tile(o, id % plane, &bmn[1], &bmn[2]);
}

int32_t dv_range_next(const dv_group_grid *g, int32_t at)
{
    const dv_tile_range *r = &g->ranges[at];
    for (int32_t i = 1; i < g->n_ranges && r->k1 < g->kt; i++) {
        // The next part of a split tile is usually in the next range, so the
        // search starts there.
        int32_t k = (at + i) % g->n_ranges;
        if (g->ranges[k].first == r->first && g->ranges[k].k0 == r->k1)
            return k;
    }
    return -1;
}

void dv_grid_box(dv_tile *out, const dv_plan *plan, const dv_group_grid *g,
                 const int64_t bmn[3], int64_t k0, int64_t k1)
{
    const dv_op *op = &plan->ops->ops[plan->groups[g->group].first_op];
    const dv_tensor *t = &plan->ops->tensors[g->tensor];
    int n = t->n_dims, last = -1;
    int64_t batch = bmn[0];
    *out = (dv_tile){.begin = {0}};
    for (int v = 0; v < op->n_vars; v++) {
        out->begin[v] = op->vars[v].begin;
        out->end[v] = op->vars[v].end;
        if (op->vars[v].reduce)
            last = v;
    }
    for (int d = n - 1; d >= 0; d--) {
        int v = 0;
        int64_t at = batch % t->shape[d], size = 1;
        dv_index_is_var(op, &op->write.index[d], &v);
        if (d >= n - 2) {
            at = bmn[d == n - 1 ? 2 : 1];
            size = d == n - 1 ? plan->target.tile_cols : plan->target.tile_rows;
        } else {
            batch /= t->shape[d];
        }
        out->begin[v] = at * size;
        out->end[v] = dv_min_i64(at * size + size, t->shape[d]);
    }
    if (last < 0 || (k0 == 0 && k1 == g->kt))
        return;
    int64_t size = plan->target.tile_cols, begin = out->begin[last];
    out->end[last] = dv_min_i64(begin + k1 * size, out->end[last]);
    out->begin[last] = begin + k0 * size;
}
