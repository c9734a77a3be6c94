// The checker's rules for grids of cores. It shares no code with grid/: tiles
// are recomputed here from shapes, slices and deals.
//
//   C21 a group's grid has the tiles of the group's result; every k step of
//       every tile, or every shard, is on exactly one core; an order that is a
//       list has every tile once; every core is on
//       the grid and not in a hole; each core is listed once, or, if tiles are
//       split along k, in consecutive lines; rectangles of cores in the same
//       core row have the same tile rows, those in the same core column the
//       same tile columns; a shard is on the core to which the group's deal
//       gave its slices
//   C23 where a tile may run on any core (in groups with a grid of tiles, and
//       in groups whose tiles are scheduled dynamically), no op reads or writes
//       tensors resident in scratchpads
#include "base/math.h"
#include "check/check.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WRONG(rule, ...)                                                       \
    return DV_BREAKS(diag, rule, g->off ? dv_plan_at(plan, g->off) : at,       \
                     __VA_ARGS__)

// Returns the number of tiles along the dimension `back` places from the last
// one, or 1 if the tensor has fewer dimensions.
static int64_t tiles_along(const dv_tensor *t, int back, int64_t tile)
{
    if (t->n_dims <= back)
        return 1;
    int64_t size = t->shape[t->n_dims - 1 - back];
    return size / tile + (size % tile != 0);
}

static dv_status check_size(const dv_plan *plan, const dv_group_grid *g,
                            dv_loc at, dv_diag *diag)
{
    const dv_tensor *t = &plan->ops->tensors[g->tensor];
    const dv_op *op = &plan->ops->ops[plan->groups[g->group].end_op - 1];
    int64_t rows = tiles_along(t, 1, plan->target.tile_rows);
    int64_t cols = tiles_along(t, 0, plan->target.tile_cols);
    int64_t batch = 1, depth = 1, inner = 1;
    if (op->write.tensor != g->tensor)
        WRONG(C21, "the grid of group %d is of %s, the group writes %s",
              (int)g->group, t->name,
              plan->ops->tensors[op->write.tensor].name);
    for (int d = 0; d < t->n_dims - 2; d++)
        batch *= t->shape[d];
    for (int v = 0; v < op->n_vars; v++) {
        if (!op->vars[v].reduce)
            continue;
        if (!dv_mul_i64(&depth, depth, inner))
            WRONG(C21, "the depth of %s has more than 64 bits", t->name);
        inner = dv_max_i64(op->vars[v].end - op->vars[v].begin, 1);
    }
    if (!dv_mul_i64(&depth, depth, (inner - 1) / plan->target.tile_cols + 1))
        WRONG(C21, "the depth of %s has more than 64 bits", t->name);
    if (g->mt != rows || g->nt != cols || g->batch != batch || g->kt != depth)
        WRONG(C21,
              "%s has %" PRId64 " times %" PRId64 "x%" PRId64 " tiles, %" PRId64
              " deep; its grid has %" PRId64 " times %" PRId64 "x%" PRId64
              ", %" PRId64 " deep",
              t->name, batch, rows, cols, depth, g->batch, g->mt, g->nt, g->kt);
    return DV_OK;
}

// Checks that the order of tiles, if the plan gives it as a list, has every
// tile once.
static dv_status check_list(const dv_plan *plan, const dv_group_grid *g,
                            dv_loc at, dv_diag *diag)
{
    int64_t n = g->mt * g->nt, twice = -1;
    if (strcmp(g->order, "list") != 0)
        return DV_OK;
    char *seen = dv_alloc((size_t)n);
    if (!seen)
        return dv_nomem(diag);
    for (int64_t i = 0; i < n; i++)
        seen[i] = 0;
    for (int64_t i = 0; i < n && twice < 0; i++) {
        int64_t tile = g->list[i];
        int there = tile >= 0 && tile < n;
        if (!there || seen[tile])
            twice = i;
        else
            seen[tile] = 1;
    }
    dv_release(seen);
    if (twice >= 0)
        WRONG(C21,
              "the order of %s lists tile %d at position %" PRId64
              ", which is there before or does not exist",
              plan->ops->tensors[g->tensor].name, (int)g->list[twice], twice);
    return DV_OK;
}

static int by_first(const void *a, const void *b)
{
    const dv_tile_range *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static int by_step(const void *a, const void *b)
{
    const dv_tile_range *x = a, *y = b;
    return x->first != y->first ? by_first(a, b)
                                : (x->k0 > y->k0) - (x->k0 < y->k0);
}

static int by_core(const void *a, const void *b)
{
    const dv_tile_range *x = a, *y = b;
    return x->y != y->y ? (x->y > y->y) - (x->y < y->y)
                        : (x->x > y->x) - (x->x < y->x);
}

static int by_shard(const void *a, const void *b)
{
    const dv_tile_range *x = a, *y = b;
    return x->sy != y->sy ? (x->sy > y->sy) - (x->sy < y->sy)
                          : (x->sx > y->sx) - (x->sx < y->sx);
}

// Returns whether any tile may be split along k, the depth of the reduction,
// over several cores.
static int is_cut(const dv_group_grid *g)
{
    for (int32_t i = 0; i < g->n_ranges; i++)
        if (g->ranges[i].k0 != 0 || g->ranges[i].k1 != g->kt)
            return 1;
    return strncmp(g->policy, "stream", 6) == 0 ||
           strncmp(g->policy, "split", 5) == 0;
}

// Returns the hole (rectangle of missing cores) that contains the core of a
// range of tiles, or NULL.
static const dv_core_rect *hole_at(const dv_target *t, const dv_tile_range *r)
{
    for (int32_t i = 0; i < t->holes.n; i++) {
        const dv_core_rect *h = &t->holes.at[i];
        if (h->x0 <= r->x && r->x <= h->x1 && h->y0 <= r->y && r->y <= h->y1)
            return h;
    }
    return NULL;
}

static dv_status check_cores(const dv_plan *plan, const dv_group_grid *g,
                             dv_tile_range *r, dv_loc at, dv_diag *diag)
{
    int64_t cols = plan->target.core_grid.cols, rows;
    rows = cols ? plan->target.core_grid.rows : 1;
    cols = cols ? cols : plan->target.cores;
    // Consecutive entries of the list for one core count as one, because a core
    // may have parts of several tiles; a core that occurs again after sorting
    // is an error.
    int32_t n = 0;
    for (int32_t i = 0; i < g->n_ranges; i++)
        if (!i || by_core(&r[n - 1], &r[i]) != 0 || g->rect || g->local_shard)
            r[n++] = r[i];
        else if (!is_cut(g))
            WRONG(C21, "core %" PRId64 ",%" PRId64 " is there twice", r[i].x,
                  r[i].y);
    qsort(r, (size_t)n, sizeof *r, by_core);
    for (int32_t i = 0; i < n; i++) {
        if (r[i].x < 0 || r[i].y < 0 || r[i].x >= cols || r[i].y >= rows)
            WRONG(C21,
                  "core %" PRId64 ",%" PRId64 " is not on the grid of %" PRId64
                  "x%" PRId64,
                  r[i].x, r[i].y, cols, rows);
        const dv_core_rect *h = hole_at(&plan->target, &r[i]);
        if (h)
            WRONG(C21,
                  "core %" PRId64 ",%" PRId64 " is in the hole %d,%d to %d,%d",
                  r[i].x, r[i].y, h->x0, h->y0, h->x1, h->y1);
        if (i && by_core(&r[i - 1], &r[i]) == 0)
            WRONG(C21, "core %" PRId64 ",%" PRId64 " is there twice", r[i].x,
                  r[i].y);
    }
    return DV_OK;
}

// Checks that the ranges, sorted by tile and k step (position along the depth
// of the reduction), cover all steps of all tiles without gap or overlap.
static dv_status check_tiles(const dv_plan *plan, const dv_group_grid *g,
                             dv_tile_range *r, dv_loc at, dv_diag *diag)
{
    int64_t next = 0, k = 0, total = g->batch * g->mt * g->nt;
    const char *name = plan->ops->tensors[g->tensor].name;
    qsort(r, (size_t)g->n_ranges, sizeof *r, by_step);
    for (int32_t i = 0; i < g->n_ranges; i++) {
        int part = r[i].k0 != 0 || r[i].k1 != g->kt;
        if (r[i].n == 0)
            continue;
        if (r[i].k0 < 0 || r[i].k0 >= r[i].k1 || r[i].k1 > g->kt ||
            (part && r[i].n != 1))
            WRONG(C21,
                  "core %" PRId64 ",%" PRId64 " has steps %" PRId64 "..%" PRId64
                  " of %" PRId64 " tiles, which are %" PRId64 " deep",
                  r[i].x, r[i].y, r[i].k0, r[i].k1, r[i].n, g->kt);
        if (r[i].first != next)
            WRONG(C21, "tile %" PRId64 " of %s is on %s core",
                  dv_min_i64(next, r[i].first), name,
                  r[i].first > next ? "no" : "more than one");
        if (r[i].k0 != k)
            WRONG(C21,
                  "step %" PRId64 " of tile %" PRId64 " of %s is on %s core",
                  dv_min_i64(k, r[i].k0), next, name,
                  r[i].k0 > k ? "no" : "more than one");
        k = r[i].k1 == g->kt ? 0 : r[i].k1;
        if (k)
            continue;
        if (!dv_add_i64(&next, next, r[i].n) || next > total)
            WRONG(C21, "core %" PRId64 ",%" PRId64 " has tiles beyond %" PRId64,
                  r[i].x, r[i].y, total);
    }
    if (next != total)
        WRONG(C21, "tile %" PRId64 " of %s is on no core", next, name);
    return DV_OK;
}

static int by_corner(const void *a, const void *b)
{
    const dv_tile_range *x = a, *y = b;
    return x->m0 != y->m0 ? (x->m0 > y->m0) - (x->m0 < y->m0)
                          : (x->n0 > y->n0) - (x->n0 < y->n0);
}

// Checks that the rectangles of tiles, one per core, form a table: every band
// of tile rows has the same columns, the core's row depends only on the tile
// rows and its column only on the tile columns. Then each tile occurs once, and
// panels are shared along core rows and columns.
static dv_status check_rects(const dv_plan *plan, const dv_group_grid *g,
                             dv_tile_range *r, dv_loc at, dv_diag *diag)
{
    int32_t wide = 0, n = g->n_ranges;
    const char *name = plan->ops->tensors[g->tensor].name;
    qsort(r, (size_t)n, sizeof *r, by_corner);
    while (wide < n && r[wide].m0 == r[0].m0)
        wide++;
    for (int32_t i = 0; i < n; i++) {
        int32_t x = i % wide, y = i / wide;
        const dv_tile_range *top = &r[x], *left = &r[y * wide];
        int64_t n0 = x ? r[i - 1].n1 : 0, m0 = y ? r[i - wide].m1 : 0;
        if (r[i].m0 != m0 || r[i].n0 != n0 || r[i].m1 != left->m1 ||
            r[i].n1 != top->n1 || r[i].m0 >= r[i].m1 || r[i].n0 >= r[i].n1)
            WRONG(C21,
                  "rows %" PRId64 "..%" PRId64 " and columns %" PRId64
                  "..%" PRId64 " of %s do not begin at %" PRId64 ",%" PRId64
                  " and end with their neighbours",
                  r[i].m0, r[i].m1, r[i].n0, r[i].n1, name, m0, n0);
        if (r[i].x != top->x || r[i].y != left->y)
            WRONG(C21,
                  "core %" PRId64 ",%" PRId64 " has what belongs to core "
                  "%" PRId64 ",%" PRId64,
                  r[i].x, r[i].y, top->x, left->y);
    }
    if (n % wide || r[n - 1].m1 != g->mt || r[n - 1].n1 != g->nt)
        WRONG(C21,
              "%d rectangles up to row %" PRId64 " and column %" PRId64
              " of %s, which has %" PRId64 "x%" PRId64 " tiles",
              (int)n, r[n - 1].m1, r[n - 1].n1, name, g->mt, g->nt);
    return DV_OK;
}

// Returns the number of the slice that a tile of the group (ops that share one
// tile space) covers in the result's dimension `back` places from the last one.
static int64_t slot_of(const dv_plan *plan, const dv_group_grid *g, int back,
                       int64_t tile)
{
    int32_t i = plan->groups[g->group].end_op - 1;
    const dv_op *op = &plan->ops->ops[i];
    int d = op->write.n_dims - 1 - back;
    if (d < 0)
        return 0;
    const dv_index *x = &op->write.index[d];
    for (int k = op->n_vars - 1; k >= 0; k--) {
        int v = dv_plan_digit(plan, i, k);
        int64_t len = op->vars[v].end - op->vars[v].begin;
        int64_t n = (len - 1) / plan->slices[i][v] + 1;
        if (x->via < 0 && x->coef[v] == 1)
            return tile % n;
        tile /= n;
    }
    return 0;
}

// Returns the core number of each grid position in row-major order, -1 for
// holes (missing cores). NULL when out of memory.
static int64_t *number_cores(const dv_target *t, int64_t cols, int64_t rows)
{
    int64_t *number = dv_alloc((size_t)(cols * rows) * sizeof *number), n = 0;
    if (!number)
        return NULL;
    for (int64_t i = 0; i < cols * rows; i++)
        number[i] = 0;
    for (int32_t i = 0; i < t->holes.n; i++)
        for (int64_t y = t->holes.at[i].y0; y <= t->holes.at[i].y1; y++)
            for (int64_t x = t->holes.at[i].x0; x <= t->holes.at[i].x1; x++)
                number[y * cols + x] = -1;
    for (int64_t i = 0; i < cols * rows; i++)
        if (number[i] == 0)
            number[i] = n++;
    return number;
}

// Checks that each shard (rectangle of tiles of the result) is on the core to
// which the group's deal (assignment of tiles to cores) gives its slices.
static dv_status check_deals(const dv_plan *plan, const dv_group_grid *g,
                             const dv_tile_range *r, const int64_t *number,
                             int64_t cols, dv_loc at, dv_diag *diag)
{
    const dv_group *group = &plan->groups[g->group];
    for (int32_t d = 0; d < group->n_deals; d++) {
        const dv_deal *deal = &group->deals[d];
        int64_t sy = slot_of(plan, g, 1, deal->first_tile);
        int64_t sx = slot_of(plan, g, 0, deal->first_tile);
        int64_t at_shard = sy * g->gx + sx;
        if (!deal->n_tiles)
            continue;
        if (at_shard >= g->n_ranges ||
            number[r[at_shard].x + r[at_shard].y * cols] != deal->core)
            WRONG(C21,
                  "shard %" PRId64 ",%" PRId64 " is dealt to core %" PRId64
                  ", which the grid gives another",
                  sy, sx, deal->core);
    }
    return DV_OK;
}

static int has_residents(const dv_plan *plan, const dv_group *g)
{
    for (int32_t i = g->first_op; i < g->end_op; i++)
        for (int k = 0; k <= plan->ops->ops[i].n_reads; k++)
            if (dv_home_of(plan, i, k) >= 0 ||
                dv_ring_of(plan, i, k) != DV_RING_NONE)
                return 1;
    return 0;
}

// Returns whether the tensor's memory note puts its shards (rectangles, one per
// core) on the cores that compute the same indices of the result; dims that the
// result does not have begin at 0.
static int is_on_shards(const dv_plan *plan, const dv_group_grid *g,
                        const dv_op *op, const dv_access *a)
{
    const dv_tensor *t = &plan->ops->tensors[a->tensor];
    const dv_memory_note *m = t->memory;
    if (!m || !m->in_l1 || !m->is_sharded || t->n_dims != 2)
        return 0;
    for (int32_t i = 0; i < g->n_ranges; i++) {
        const dv_tile_range *r = &g->ranges[i];
        int64_t at[2] = {0, 0}, x, y;
        for (int d = 0; d < 2; d++)
            for (int w = 0; w < op->write.n_dims; w++) {
                const dv_index *here = &a->index[d], *out = &op->write.index[w];
                int64_t from = w == op->write.n_dims - 1
                                   ? r->sx * g->sn * plan->target.tile_cols
                               : w == op->write.n_dims - 2
                                   ? r->sy * g->sm * plan->target.tile_rows
                                   : 0;
                for (int v = 0; v < op->n_vars; v++)
                    if (here->coef[v] == 1 && out->coef[v] == 1)
                        at[d] = from;
            }
        dv_memory_note_core(
            m, at[0] / m->rows * (t->shape[1] / m->cols) + at[1] / m->cols, &x,
            &y);
        if (x != r->x || y != r->y)
            return 0;
    }
    return 1;
}

// Checks shards of the result that no deal (assignment of tiles to cores)
// places: they must be where the memory note of the result says or, if it has
// none, where an operand's shards are.
static dv_status check_notes(const dv_plan *plan, const dv_group_grid *g,
                             dv_loc at, dv_diag *diag)
{
    const dv_op *op = &plan->ops->ops[plan->groups[g->group].end_op - 1];
    const dv_tensor *t = &plan->ops->tensors[g->tensor];
    int found = is_on_shards(plan, g, op, &op->write);
    for (int32_t r = 0; r < op->n_reads && !dv_on_cores(t->memory); r++)
        found |= is_on_shards(plan, g, op, &op->reads[r]);
    if (!found)
        WRONG(C21, "the shards of %s are not where the program's notes say",
              t->name);
    return DV_OK;
}

static dv_status check_shards(const dv_plan *plan, const dv_group_grid *g,
                              dv_tile_range *r, dv_loc at, dv_diag *diag)
{
    int64_t cols = plan->target.core_grid.cols;
    int64_t rows = cols ? plan->target.core_grid.rows : 1;
    cols = cols ? cols : plan->target.cores;
    if (g->batch != 1 || g->gy < 1 || g->gx < 1 || g->gy > g->mt ||
        g->gx > g->nt || g->gy * g->sm != g->mt || g->gx * g->sn != g->nt ||
        g->n_ranges != g->gy * g->gx)
        WRONG(C21,
              "%d cores with %" PRId64 "x%" PRId64 " shards of %" PRId64
              "x%" PRId64 " tiles for %" PRId64 "x%" PRId64,
              (int)g->n_ranges, g->gy, g->gx, g->sm, g->sn, g->mt, g->nt);
    qsort(r, (size_t)g->n_ranges, sizeof *r, by_shard);
    for (int32_t i = 0; i < g->n_ranges; i++)
        if (r[i].sy != i / g->gx || r[i].sx != i % g->gx)
            WRONG(C21, "shard %" PRId64 ",%" PRId64 " of %s is on no core",
                  i / g->gx, i % g->gx, plan->ops->tensors[g->tensor].name);
    if (!has_residents(plan, &plan->groups[g->group]))
        return check_notes(plan, g, at, diag);
    int64_t *number = number_cores(&plan->target, cols, rows);
    if (!number)
        return dv_nomem(diag);
    dv_status st = check_deals(plan, g, r, number, cols, at, diag);
    dv_release(number);
    return st;
}

static dv_status check_group(const dv_plan *plan, const dv_group_grid *g,
                             dv_loc at, dv_diag *diag)
{
    size_t n = (size_t)g->n_ranges;
    DV_TRY(check_size(plan, g, at, diag));
    DV_TRY(check_list(plan, g, at, diag));
    const dv_tensor *t = &plan->ops->tensors[g->tensor];
    if (dv_on_cores(t->memory) && !g->local_shard)
        WRONG(C21, "%s lies in shards, the grid deals its tiles", t->name);
    dv_tile_range *r = dv_alloc((n ? n : 1) * sizeof *r);
    if (!r)
        return dv_nomem(diag);
    for (size_t i = 0; i < n; i++)
        r[i] = g->ranges[i];
    dv_status st = check_cores(plan, g, r, at, diag);
    if (st == DV_OK)
        for (size_t i = 0; i < n; i++)
            r[i] = g->ranges[i];
    if (st == DV_OK)
        st = g->local_shard ? check_shards(plan, g, r, at, diag)
             : g->rect && n ? check_rects(plan, g, r, at, diag)
                            : check_tiles(plan, g, r, at, diag);
    dv_release(r);
    return st;
}

static dv_status check_nothing_resident(const dv_plan *plan, int32_t group,
                                        const char *what, dv_loc at,
                                        dv_diag *diag)
{
    const dv_group *g = &plan->groups[group];
    for (int32_t i = g->first_op; i < g->end_op; i++)
        for (int k = 0; k <= plan->ops->ops[i].n_reads; k++)
            if (dv_home_of(plan, i, k) >= 0 ||
                dv_ring_of(plan, i, k) != DV_RING_NONE)
                WRONG(C23,
                      "op %s finds or leaves something on its cores, but %s",
                      plan->ops->ops[i].name, what);
    return DV_OK;
}

dv_status dv_check_grid(const dv_plan *plan, dv_loc at, dv_diag *diag)
{
    for (int32_t i = 0; i < plan->n_groups; i++)
        if (plan->groups[i].queue != DV_DEALT)
            DV_TRY(check_nothing_resident(plan, i, "its tiles are handed out",
                                          at, diag));
    if (!(plan->facts & DV_FACT_GRIDDED))
        return DV_OK;
    for (int32_t i = 0; i < plan->n_grids; i++) {
        const dv_group_grid *g = &plan->grids[i];
        if (!plan->target.tile_rows)
            WRONG(C21, "%s does not compute on tiles", plan->target.name);
        DV_TRY(check_group(plan, g, at, diag));
        if (!g->local_shard)
            DV_TRY(check_nothing_resident(
                plan, g->group, "any core may have its tiles", at, diag));
    }
    return DV_OK;
}
