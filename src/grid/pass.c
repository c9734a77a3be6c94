// The grid pass assigns the tiles of each group's result to cores of the
// machine's grid. It applies only to machines that compute on tiles.
//
//   grid {
//       group 0: c tiles 32 by 32 deep 32 order grouped(4) {
//           core 0,0: 0..16
//           core 0,1: 16..32
//       }
//       group 1: y tiles 8 by 8 deep 1 shards 2 by 4 of 4 by 2 {
//           core 0,0: shard 0,0
//       }
//       group 2: z tiles 3 by 1 deep 4 order row_major policy streamk {
//           core 0,0: 0..1
//           core 0,0: 1..2 steps 0..2
//           core 0,1: 1..2 steps 2..4
//           core 0,1: 2..3
//       }
//       group 3: w tiles 4 by 4 deep 2 order row_major policy rect {
//           core 0,0: rows 0..2 columns 0..4
//           core 0,1: rows 2..4 columns 0..4
//       }
//   }
//
// If the program says that the result or an operand lies in shards in the
// memories of cores, each core computes the part of the result that belongs to
// its shard (shards.c).
//
// A group that reads or writes tensors resident in scratchpads is computed
// where they are: its shards are the slices that the group's deal gives each
// core. If those slices are not whole tiles, the group has no grid and only the
// deal applies. Any other result is in main memory, where every core can reach
// every tile. Its tiles are assigned in the order that reads the fewest panels,
// by the requested policy.
#include "base/math.h"
#include "base/plural.h"
#include "grid/grid.h"
#include "grid/shards.h"
#include "plan/tiles.h"
#include <inttypes.h>
#include <string.h>

// Returns the number of steps (products of two tiles) that computing a tile
// takes: the tiles along the last reduced variable times the extents of the
// other reduced variables; 1 without a reduction, 0 on overflow.
static int64_t depth_of(const dv_plan *plan, const dv_op *op)
{
    int64_t depth = 1, last = -1;
    for (int v = 0; v < op->n_vars; v++)
        if (op->vars[v].reduce)
            last = v;
    for (int v = 0; v < op->n_vars; v++) {
        int64_t n = dv_var_len(op, v);
        if (v == last)
            n = dv_ceil_div(n, plan->target.tile_cols);
        if (op->vars[v].reduce && !dv_mul_i64(&depth, depth, dv_max_i64(n, 1)))
            return 0;
    }
    return depth;
}

static int32_t result_of(const dv_plan *plan, int32_t group)
{
    const dv_op *op = &plan->ops->ops[plan->groups[group].end_op - 1];
    const dv_tensor *t = &plan->ops->tensors[op->write.tensor];
    return !op->is_extern && t->n_elems > 0 ? op->write.tensor : -1;
}

// For the dim of op i's result that is the last (back = 0) or the one before it
// (back = 1): gets the variable that indexes it, the number of slices of the
// variable, and the length of a slice in tiles of the machine. Returns 0 if the
// slices are not whole tiles.
static int shards_of(const dv_plan *plan, int32_t i, int back, int64_t tile,
                     int64_t *shards, int64_t *tiles, int *var)
{
    const dv_op *op = &plan->ops->ops[i];
    int d = op->write.n_dims - 1 - back;
    *shards = *tiles = 1;
    *var = -1;
    if (d < 0)
        return 1;
    int64_t size = plan->ops->tensors[op->write.tensor].shape[d];
    *var = dv_index_whole_var(op, &op->write.index[d], size);
    if (*var < 0)
        return 0;
    int64_t slice = dv_min_i64(plan->slices[i][*var], size);
    *shards = dv_ceil_div(size, slice);
    *tiles = dv_ceil_div(slice, tile);
    return *shards == 1 ||
           (slice % tile == 0 && *shards * *tiles == dv_ceil_div(size, tile));
}

// Returns whether any op of the group accesses a tensor resident in a
// scratchpad, or receives one from other cores.
static int uses_homes(const dv_plan *plan, const dv_group *group)
{
    for (int32_t i = group->first_op; i < group->end_op; i++)
        for (int k = 0; k <= plan->ops->ops[i].n_reads; k++)
            if (dv_home_of(plan, i, k) >= 0 ||
                dv_ring_of(plan, i, k) != DV_RING_NONE)
                return 1;
    return 0;
}

// Returns whether the group's deal (assignment of its tiles to cores) gives
// every core at most one shard, a rectangle of the machine's tiles of op i's
// result.
static int find_shards(const dv_plan *plan, dv_group_grid *g, int32_t i,
                       int var[2])
{
    const dv_group *group = &plan->groups[g->group];
    if (g->batch != 1 ||
        !shards_of(plan, i, 1, plan->target.tile_rows, &g->gy, &g->sm,
                   &var[0]) ||
        !shards_of(plan, i, 0, plan->target.tile_cols, &g->gx, &g->sn,
                   &var[1]) ||
        group->n_tiles != g->gy * g->gx)
        return 0;
    for (int32_t d = 0; d < group->n_deals; d++)
        if (group->deals[d].n_tiles > 1)
            return 0;
    return 1;
}

static dv_status place_shards(const dv_plan *plan, dv_group_grid *g, int32_t i,
                              const int var[2], dv_arena *arena, dv_diag *diag)
{
    const dv_group *group = &plan->groups[g->group];
    g->local_shard = 1;
    g->list = NULL;
    g->order = "row_major";
    g->policy = "static";
    g->ranges = DV_NEW(arena, dv_tile_range, group->n_deals);
    if (!g->ranges)
        return dv_nomem(diag);
    for (int32_t d = 0; d < group->n_deals; d++) {
        dv_tile t;
        if (!group->deals[d].n_tiles)
            continue;
        dv_plan_tile(&t, plan, i, group->deals[d].first_tile);
        dv_tile_range *r = &g->ranges[g->n_ranges++];
        *r = (dv_tile_range){
            .k1 = g->kt,
            .sy = var[0] >= 0 ? t.slot[var[0]] : 0,
            .sx = var[1] >= 0 ? t.slot[var[1]] : 0,
        };
        dv_target_core_position(&plan->target, group->deals[d].core, &r->x,
                                &r->y);
    }
    return DV_OK;
}

// Prints the policy (rule by which tiles go to cores) for one op: the one that
// the user asked for, or static if that one splits the sums of tiles and the op
// has no sum that can be split.
static void policy_of(dv_text *out, const dv_op *op, int64_t kt,
                      const char *asked)
{
    dv_policy p = DV_POLICY_STATIC;
    int64_t split = 1;
    int whole = kt == 1 || !dv_single_reduction_var(op);
    if (asked && !strcmp(asked, "auto")) {
        dv_put(out, "%s", whole ? "static" : "auto");
        return;
    }
    if (asked)
        dv_policy_parse(&p, &split, asked);
    if (dv_policy_streams(p) && whole)
        p = DV_POLICY_STATIC;
    dv_put(out, "%s", dv_policy_name(p));
    if (p == DV_POLICY_SPLITK)
        split = dv_min_i64(split, kt);
    if (p >= DV_POLICY_SPLITK)
        dv_put(out, "(%" PRId64 ")", split);
}

static const char *keep(dv_plan *plan, dv_text *word)
{
    const char *s =
        word->at ? dv_arena_copy(&plan->arena, word->at, word->len) : NULL;
    dv_text_free(word);
    return s;
}

// Copies the work of every core (ranges of tiles, or a rectangle of tiles) into
// the plan.
static void put_ranges(dv_group_grid *g, const dv_grid *made)
{
    for (int32_t i = 0; i < made->n_cores; i++) {
        const dv_grid_core *c = &made->cores[i];
        dv_tile_range r = {.x = c->x, .y = c->y, .k1 = g->kt};
        if (g->rect) {
            r.m0 = c->m0, r.m1 = c->m1, r.n0 = c->n0, r.n1 = c->n1;
            g->ranges[g->n_ranges++] = r;
        }
        for (int32_t k = 0; k < c->n_segments; k++) {
            r.first = c->segments[k].first;
            r.n = c->segments[k].count;
            r.k0 = c->segments[k].k0;
            r.k1 = c->segments[k].k1;
            g->ranges[g->n_ranges++] = r;
        }
    }
}

static dv_status deal_tiles(const dv_plan_options *options, dv_plan *plan,
                            dv_group_grid *g, dv_diag *diag)
{
    const dv_tensor *x = &plan->ops->tensors[g->tensor];
    const dv_op *op = &plan->ops->ops[plan->groups[g->group].end_op - 1];
    dv_grid_task t = DV_GRID_TASK_INIT;
    dv_grid *made = NULL;
    dv_text word = {0};
    t.shape = x->shape;
    t.n_dims = x->n_dims;
    t.depth = g->kt > 1 ? g->kt * plan->target.tile_cols : 0;
    t.elem_bytes = plan->layouts ? plan->layouts[g->tensor].elem_bytes : 0;
    t.target = &plan->target;
    t.order = options->order ? options->order
              : g->kt > 1    ? "auto"
                             : "row_major";
    if (dv_order_is_list(options->order) && !g->list)
        t.order = g->kt > 1 ? "auto" : "row_major";
    policy_of(&word, op, g->kt, options->policy);
    t.policy = g->policy = keep(plan, &word);
    if (!t.policy)
        return dv_nomem(diag);
    DV_TRY(dv_grid_create(&made, &t, diag));
    if (made->policy_auto)
        g->policy = dv_policy_name(made->policy);
    dv_order_print(&word, &made->order);
    g->order = keep(plan, &word);
    g->rect = made->policy == DV_POLICY_RECT;
    g->ranges =
        DV_NEW(&plan->arena, dv_tile_range, made->n_cores + made->n_segments);
    int ok = g->order && g->ranges;
    if (ok)
        put_ranges(g, made);
    dv_grid_destroy(made);
    return ok ? DV_OK : dv_nomem(diag);
}

static void count_rows(const dv_plan *plan, dv_group_grid *g)
{
    const dv_tensor *t = &plan->ops->tensors[g->tensor];
    int n = t->n_dims;
    // The batch is the product of all dims but the last two. It cannot
    // overflow, because the tensor fits in memory.
    g->batch = 1;
    for (int d = 0; d < n - 2; d++)
        g->batch *= t->shape[d];
    g->mt = n > 1 ? dv_ceil_div(t->shape[n - 2], plan->target.tile_rows) : 1;
    g->nt = n > 0 ? dv_ceil_div(t->shape[n - 1], plan->target.tile_cols) : 1;
}

// Sets the number of tiles of a group's result. If the user lists orders of
// tiles, finds the list for this number.
static dv_status count_tiles(const dv_plan_options *options, dv_plan *plan,
                             dv_group_grid *g, dv_diag *diag)
{
    count_rows(plan, g);
    if (!dv_order_is_list(options->order))
        return DV_OK;
    return dv_order_list_find(&g->list, options->order, g->mt, g->nt,
                              &plan->arena, diag);
}

// Creates the grid (assignment of tiles to cores) of one group of ops. Sets
// *none, and creates no grid, if the group uses resident tensors whose slices
// are not whole tiles.
static dv_status grid_group(const dv_plan_options *options, dv_plan *plan,
                            dv_group_grid *g, int *none, dv_diag *diag)
{
    const dv_tensor *t = &plan->ops->tensors[g->tensor];
    int var[2];
    g->kt = depth_of(plan, &plan->ops->ops[plan->groups[g->group].end_op - 1]);
    if (g->kt == 0)
        return dv_fail(diag, DV_E_OVERFLOW, DV_NOWHERE,
                       "the depth of %s has more than 64 bits", t->name);
    int32_t last = plan->groups[g->group].end_op - 1;
    if (uses_homes(plan, &plan->groups[g->group]) &&
        find_shards(plan, g, last, var))
        return place_shards(plan, g, last, var, &plan->arena, diag);
    g->gy = g->gx = g->sm = g->sn = 0;
    *none = uses_homes(plan, &plan->groups[g->group]);
    return *none ? DV_OK : deal_tiles(options, plan, g, diag);
}

dv_status dv_grid_of_op(dv_group_grid *out, const dv_plan *plan, int32_t group,
                        int32_t i, dv_arena *arena, dv_diag *diag)
{
    const dv_op *op = &plan->ops->ops[i];
    int var[2], whole = 1;
    *out = (dv_group_grid){.group = group, .tensor = op->write.tensor};
    count_rows(plan, out);
    out->kt = depth_of(plan, op);
    for (int v = 0; v < op->n_vars; v++)
        whole = whole && (!op->vars[v].reduce ||
                          plan->slices[i][v] >= dv_var_len(op, v));
    if (!whole)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%s has no kernel on shards: several cores compute "
                       "parts of one sum (--scratch off, or a plan with pins)",
                       op->name);
    if (!out->kt || !find_shards(plan, out, i, var))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%s has no kernel on shards: cores do not have one part "
                       "each, of equal size and in whole tiles (--scratch off, "
                       "or a plan with pins)",
                       op->name);
    return place_shards(plan, out, i, var, arena, diag);
}

// Warns if policy rect uses fewer cores than it could, because it needs a
// rectangle of cores without holes (missing cores).
static void warn_of_holes(const dv_plan *plan, const dv_group_grid *g,
                          dv_diag *diag)
{
    dv_core_grid all = dv_target_grid(&plan->target);
    int64_t most = dv_min_i64(g->nt, all.cols) * dv_min_i64(g->mt, all.rows);
    if (g->rect && g->n_ranges < dv_min_i64(most, plan->target.cores))
        dv_warn(diag, "grid", DV_NOWHERE,
                "%s is on %d of %" PRId64 " core%s: policy rect shares panels "
                "within one rectangle without holes",
                plan->ops->tensors[g->tensor].name, (int)g->n_ranges,
                plan->target.cores, DV_PLURAL(plan->target.cores, "", "s"));
}

// Creates the grid (assignment of tiles to the cores of a machine) of one group
// of ops. If that fails because the tiles are too many or too deep, warns and
// leaves the group without a grid; its tiles then run on the cores to which the
// groups section of the plan assigns them.
static dv_status grid_or_warn(const dv_plan_options *options, dv_plan *plan,
                              dv_group_grid *g, dv_diag *diag)
{
    dv_diag *own = dv_diag_create();
    int none = 0;
    if (!own)
        return dv_nomem(diag);
    dv_status st = grid_group(options, plan, g, &none, own);
    plan->n_grids -= none;
    if (st != DV_OK && st != DV_E_NOMEM) {
        const dv_message *m = dv_diag_error(own);
        dv_warn(diag, "grid", DV_NOWHERE, "no grid for %s: %s",
                plan->ops->tensors[g->tensor].name, m ? m->text : "");
        plan->n_grids--;
        st = DV_OK;
    } else if (st == DV_OK && !none) {
        warn_of_holes(plan, g, diag);
    }
    if (st != DV_OK)
        dv_diag_move(diag, own);
    dv_diag_destroy(own);
    return st;
}

static dv_status check_words(const dv_plan *plan,
                             const dv_plan_options *options, dv_diag *diag)
{
    dv_policy p = DV_POLICY_STATIC;
    int64_t split;
    dv_order o;
    int tiles = plan->target.tile_rows > 0;
    if (options->policy && strcmp(options->policy, "auto") &&
        !dv_policy_parse(&p, &split, options->policy))
        return dv_policy_unknown(options->policy, DV_NOWHERE, diag);
    if (!tiles && p != DV_POLICY_STATIC && p < DV_POLICY_TICKET)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the policy %s is for machines that compute on tiles; "
                       "%s takes static, ticket, steal or dynamic",
                       options->policy, plan->target.name);
    if (options->order && !tiles)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the order of tiles is for machines that compute on "
                       "tiles; %s does not",
                       plan->target.name);
    if (options->order && strcmp(options->order, "auto") &&
        !dv_order_is_list(options->order) &&
        (!dv_order_parse(&o, options->order) || o.kind >= DV_ORDER_MATCH_SHARD))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "there is no order '%s' of a result in main memory",
                       options->order);
    return DV_OK;
}

// Fails if the user lists the order of tiles, but no group's result has one of
// the sizes of these lists.
static dv_status check_list_used(const dv_plan *plan, const char *order,
                                 dv_diag *diag)
{
    const dv_group_grid *first = NULL;
    if (!dv_order_is_list(order) || plan->team_ops)
        return DV_OK;
    for (int32_t i = 0; i < plan->n_grids; i++) {
        if (plan->grids[i].list)
            return DV_OK;
        if (!first && !plan->grids[i].local_shard)
            first = &plan->grids[i];
    }
    if (!first)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "no result has an order of tiles: all are shards");
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                   "no result has a size of the order's lists; %s has %" PRId64
                   "x%" PRId64 " tiles",
                   plan->ops->tensors[first->tensor].name, first->mt,
                   first->nt);
}

// If the policy is ticket or steal, lets a run-time queue hand out the tiles of
// groups of ops to idle cores. Groups with resident tensors are excluded,
// because their tiles are tied to cores.
static void queue_groups(const dv_plan_options *options, dv_plan *plan)
{
    dv_policy p = DV_POLICY_STATIC;
    int64_t chunk = 1;
    if (!options->policy)
        return; // no policy asked for: keep that of the plan
    dv_policy_parse(&p, &chunk, options->policy);
    for (int32_t i = 0; i < plan->n_groups; i++) {
        dv_group *g = &plan->groups[i];
        int free =
            !uses_homes(plan, g) && g->n_tiles > 1 && g->n_tiles <= INT32_MAX;
        g->queue = !free                   ? DV_DEALT
                   : p == DV_POLICY_TICKET ? DV_TICKET
                   : p == DV_POLICY_STEAL  ? DV_STEAL
                                           : DV_DEALT;
        g->chunk = chunk;
    }
}

// If the program's memory notes (where tensors are stored) determine which core
// computes which part of a group's result, assigns the parts accordingly.
static dv_status shards_of_notes(dv_pass_cx *cx, dv_plan *plan,
                                 dv_group_grid *g)
{
    dv_noted_shards s;
    DV_TRY(dv_grid_noted(&s, plan, g, cx->diag));
    if (s.tensor < 0)
        return DV_OK;
    g->kt = depth_of(plan, &plan->ops->ops[plan->groups[g->group].end_op - 1]);
    if (g->kt == 0)
        return dv_fail(cx->diag, DV_E_OVERFLOW, DV_NOWHERE,
                       "the depth of %s has more than 64 bits",
                       plan->ops->tensors[g->tensor].name);
    DV_TRY(dv_grid_check_words(plan, &s, cx->options, cx->diag));
    return dv_grid_place_noted(plan, g, &s, cx->diag);
}

dv_status dv_grid_run(dv_pass_cx *cx, dv_plan *plan)
{
    plan->n_grids = 0;
    DV_TRY(check_words(plan, cx->options, cx->diag));
    queue_groups(cx->options, plan);
    if (!plan->target.tile_rows)
        return DV_OK;
    plan->grids = DV_NEW(&plan->arena, dv_group_grid, plan->n_groups);
    if (!plan->grids && plan->n_groups)
        return dv_nomem(cx->diag);
    DV_TRY(dv_grid_check_notes(plan, cx->diag));
    for (int32_t i = 0; i < plan->n_groups; i++) {
        int32_t tensor = result_of(plan, i);
        if (tensor < 0)
            continue;
        dv_group_grid *g = &plan->grids[plan->n_grids++];
        *g = (dv_group_grid){.group = i, .tensor = tensor};
        DV_TRY(count_tiles(cx->options, plan, g, cx->diag));
        DV_TRY(shards_of_notes(cx, plan, g));
        if (!g->local_shard)
            DV_TRY(grid_or_warn(cx->options, plan, g, cx->diag));
    }
    return check_list_used(plan, cx->options->order, cx->diag);
}

// Checks the properties of grids (assignments of tiles to cores) that later
// code relies on; the checker (check/) proves the assignment itself.
dv_status dv_grid_verify(const dv_plan *plan, dv_diag *diag)
{
    for (int32_t i = 0; i < plan->n_grids; i++) {
        const dv_group_grid *g = &plan->grids[i];
        dv_order o = {.mt = g->mt, .nt = g->nt};
        dv_loc at = dv_plan_at(plan, g->off);
        if (g->group < 0 || g->group >= plan->n_groups ||
            (i && g->group <= plan->grids[i - 1].group))
            return dv_fail(diag, DV_E_SHAPE, at,
                           "group %d: there are %d, in order", (int)g->group,
                           (int)plan->n_groups);
        if (!dv_order_parse(&o, g->order) || o.kind == DV_ORDER_MATCH_SHARD ||
            (o.kind == DV_ORDER_LIST) != (g->list != NULL))
            return dv_fail(diag, DV_E_NAME, at, "there is no order '%s' here",
                           g->order);
        dv_policy p;
        int64_t split;
        if (!dv_policy_parse(&p, &split, g->policy) ||
            (p == DV_POLICY_RECT) != g->rect)
            return dv_policy_unknown(g->policy, at, diag);
        if (g->batch < 1 || g->mt < 1 || g->nt < 1 || g->kt < 1)
            return dv_fail(diag, DV_E_SHAPE, at,
                           "%" PRId64 " of %" PRId64 "x%" PRId64
                           " tiles, %" PRId64 " deep",
                           g->batch, g->mt, g->nt, g->kt);
    }
    return DV_OK;
}

enum { TILES_PER_LINE = 16 }; // in the list of an order

static void print_group(dv_text *out, const dv_plan *plan,
                        const dv_group_grid *g)
{
    dv_put(out, "    group %d: %s ", (int)g->group,
           plan->ops->tensors[g->tensor].name);
    if (g->batch != 1)
        dv_put(out, "batch %" PRId64 " ", g->batch);
    dv_put(out, "tiles %" PRId64 " by %" PRId64 " deep %" PRId64, g->mt, g->nt,
           g->kt);
    if (g->local_shard)
        dv_put(out,
               " shards %" PRId64 " by %" PRId64 " of %" PRId64 " by %" PRId64,
               g->gy, g->gx, g->sm, g->sn);
    else
        dv_put(out, " order %s", g->order);
    if (strcmp(g->policy, "static"))
        dv_put(out, " policy %s", g->policy);
    dv_put(out, " {\n");
    for (int64_t i = 0; g->list && i < g->mt * g->nt; i++)
        dv_put(out, "%s%d%s", i % TILES_PER_LINE ? " " : "        tiles ",
               (int)g->list[i],
               i % TILES_PER_LINE == TILES_PER_LINE - 1 ||
                       i == g->mt * g->nt - 1
                   ? "\n"
                   : "");
    for (int32_t i = 0; i < g->n_ranges; i++) {
        const dv_tile_range *r = &g->ranges[i];
        dv_put(out, "        core %" PRId64 ",%" PRId64 ": ", r->x, r->y);
        if (g->local_shard)
            dv_put(out, "shard %" PRId64 ",%" PRId64, r->sy, r->sx);
        else if (g->rect)
            dv_put(out,
                   "rows %" PRId64 "..%" PRId64 " columns %" PRId64
                   "..%" PRId64,
                   r->m0, r->m1, r->n0, r->n1);
        else
            dv_put(out, "%" PRId64 "..%" PRId64, r->first, r->first + r->n);
        if (dv_range_is_partial(g, r))
            dv_put(out, " steps %" PRId64 "..%" PRId64, r->k0, r->k1);
        dv_put(out, "\n");
    }
    dv_put(out, "    }\n");
}

void dv_grid_print(dv_text *out, const dv_plan *plan)
{
    if (!plan->n_grids)
        return;
    dv_put(out, "grid {\n");
    for (int32_t i = 0; i < plan->n_grids; i++)
        print_group(out, plan, &plan->grids[i]);
    dv_put(out, "}\n");
}

// Reads two numbers in the form "5 by 13". The form 5x13 is not used because
// the lexer reads it as one word.
static dv_status read_by(dv_lexer *lx, int64_t *a, int64_t *b)
{
    DV_TRY(dv_lex_int(lx, a, "a number of rows"));
    DV_TRY(dv_lex_word(lx, "by"));
    return dv_lex_int(lx, b, "a number of columns");
}

// Reads a name with an optional number, such as "snake" or "grouped(4)".
static dv_status read_word(dv_plan *plan, dv_lexer *lx, const char **out,
                           const char *what)
{
    dv_text word = {0};
    if (lx->tok.kind != DV_TOK_NAME)
        return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                       "expected the name of %s", what);
    dv_put_bytes(&word, lx->src->text + lx->tok.off, lx->tok.len);
    dv_status st = dv_lex(lx);
    if (st == DV_OK && lx->tok.kind == '(') {
        int64_t size = 0;
        st = dv_lex(lx);
        if (st == DV_OK)
            st = dv_lex_int(lx, &size, "a number");
        if (st == DV_OK)
            st = dv_lex_expect(lx, ')', "')'");
        dv_put(&word, "(%" PRId64 ")", size);
    }
    *out = keep(plan, &word);
    return st != DV_OK || *out ? st : dv_nomem(lx->diag);
}

// Reads a range "0..4" whose end is not before its begin.
static dv_status read_span(dv_lexer *lx, int64_t *begin, int64_t *end,
                           const char *what)
{
    int64_t n;
    dv_loc at = dv_lex_at(lx);
    DV_TRY(dv_lex_int(lx, begin, "a number"));
    DV_TRY(dv_lex_expect(lx, DV_TOK_RANGE, "'..'"));
    DV_TRY(dv_lex_int(lx, end, "a number"));
    if (!dv_sub_i64(&n, *end, *begin) || n < 0)
        return dv_fail(lx->diag, DV_E_SHAPE, at, "%s %" PRId64 "..%" PRId64,
                       what, *begin, *end);
    return DV_OK;
}

static dv_status read_range(dv_lexer *lx, const dv_group_grid *g,
                            dv_tile_range *r)
{
    *r = (dv_tile_range){.k1 = g->kt};
    DV_TRY(dv_lex_word(lx, "core"));
    DV_TRY(dv_lex_int(lx, &r->x, "the column of a core"));
    DV_TRY(dv_lex_expect(lx, ',', "','"));
    DV_TRY(dv_lex_int(lx, &r->y, "the row of a core"));
    DV_TRY(dv_lex_expect(lx, ':', "':'"));
    if (g->local_shard) {
        DV_TRY(dv_lex_word(lx, "shard"));
        DV_TRY(dv_lex_int(lx, &r->sy, "the row of a shard"));
        DV_TRY(dv_lex_expect(lx, ',', "','"));
        return dv_lex_int(lx, &r->sx, "the column of a shard");
    }
    if (g->rect) {
        DV_TRY(dv_lex_word(lx, "rows"));
        DV_TRY(read_span(lx, &r->m0, &r->m1, "rows"));
        DV_TRY(dv_lex_word(lx, "columns"));
        return read_span(lx, &r->n0, &r->n1, "columns");
    }
    int64_t end;
    DV_TRY(read_span(lx, &r->first, &end, "tiles"));
    r->n = end - r->first;
    if (!dv_lex_is(lx, "steps"))
        return DV_OK;
    DV_TRY(dv_lex(lx));
    return read_span(lx, &r->k0, &r->k1, "steps");
}

static dv_status read_head(dv_plan *plan, dv_lexer *lx, dv_group_grid *g)
{
    int64_t group;
    g->off = lx->tok.off;
    DV_TRY(dv_lex_word(lx, "group"));
    DV_TRY(dv_lex_int(lx, &group, "the number of a group"));
    g->group = group >= 0 && group < INT32_MAX ? (int32_t)group : -1;
    DV_TRY(dv_lex_expect(lx, ':', "':'"));
    g->tensor = dv_table_get(&plan->ops->tensor_ids,
                             lx->src->text + lx->tok.off, lx->tok.len, -1);
    if (g->tensor < 0)
        return dv_fail(lx->diag, DV_E_NAME, dv_lex_at(lx),
                       "the program has no such tensor");
    DV_TRY(dv_lex(lx));
    g->batch = 1;
    if (dv_lex_is(lx, "batch")) {
        DV_TRY(dv_lex(lx));
        DV_TRY(dv_lex_int(lx, &g->batch, "a number of batches"));
    }
    DV_TRY(dv_lex_word(lx, "tiles"));
    DV_TRY(read_by(lx, &g->mt, &g->nt));
    DV_TRY(dv_lex_word(lx, "deep"));
    DV_TRY(dv_lex_int(lx, &g->kt, "a number of tiles"));
    if (dv_lex_is(lx, "shards")) {
        g->local_shard = 1;
        g->order = "row_major";
        g->policy = "static";
        DV_TRY(dv_lex(lx));
        DV_TRY(read_by(lx, &g->gy, &g->gx));
        DV_TRY(dv_lex_word(lx, "of"));
        return read_by(lx, &g->sm, &g->sn);
    }
    DV_TRY(dv_lex_word(lx, "order"));
    DV_TRY(read_word(plan, lx, &g->order, "an order"));
    g->policy = "static";
    if (!dv_lex_is(lx, "policy"))
        return DV_OK;
    DV_TRY(dv_lex(lx));
    DV_TRY(read_word(plan, lx, &g->policy, "a policy"));
    g->rect = !strcmp(g->policy, "rect");
    return DV_OK;
}

// Reads the lines `tiles 0 5 …` of a group whose order of tiles the user
// listed.
static dv_status read_list(dv_plan *plan, dv_lexer *lx, dv_group_grid *g)
{
    int32_t *list = NULL, n = 0, cap = 0;
    dv_loc at = dv_lex_at(lx);
    while (dv_lex_is(lx, "tiles")) {
        DV_TRY(dv_lex(lx));
        do {
            int64_t tile;
            DV_TRY(dv_lex_int(lx, &tile, "the number of a tile"));
            int32_t *to = DV_PUSH(&plan->arena, int32_t, list, n, cap);
            if (!to)
                return dv_nomem(lx->diag);
            *to = tile > INT32_MAX ? INT32_MAX : (int32_t)tile;
            if (n > DV_ORDER_MAX_LIST)
                return dv_fail(lx->diag, DV_E_LIMIT, at,
                               "a list has at most %d tiles",
                               (int)DV_ORDER_MAX_LIST);
        } while (lx->tok.kind == DV_TOK_INT);
    }
    if (g->mt < 1 || g->nt < 1 || g->mt > DV_ORDER_MAX_LIST ||
        g->nt > DV_ORDER_MAX_LIST)
        return dv_fail(lx->diag, DV_E_SHAPE, at,
                       "a list of %" PRId64 "x%" PRId64 " tiles", g->mt, g->nt);
    int64_t last = g->mt * g->nt;
    if (n != last)
        return dv_fail(lx->diag, DV_E_SHAPE, at,
                       "the order of %" PRId64 "x%" PRId64
                       " tiles lists %d, not %" PRId64,
                       g->mt, g->nt, (int)n, last);
    for (int32_t i = 0; i < n; i++)
        if (list[i] >= last)
            return dv_fail(lx->diag, DV_E_SHAPE, at,
                           "the order lists tile %d, they are 0 to %" PRId64,
                           (int)list[i], last - 1);
    g->list = list;
    return DV_OK;
}

dv_status dv_grid_read(dv_plan *plan, dv_lexer *lx)
{
    int32_t cap = 0;
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    while (lx->tok.kind != '}') {
        int32_t room = 0;
        dv_group_grid *g = DV_PUSH(&plan->arena, dv_group_grid, plan->grids,
                                   plan->n_grids, cap);
        if (!g)
            return dv_nomem(lx->diag);
        *g = (dv_group_grid){0};
        DV_TRY(read_head(plan, lx, g));
        DV_TRY(dv_lex_expect(lx, '{', "'{'"));
        if (!strcmp(g->order, "list"))
            DV_TRY(read_list(plan, lx, g));
        while (lx->tok.kind != '}') {
            dv_tile_range *r = DV_PUSH(&plan->arena, dv_tile_range, g->ranges,
                                       g->n_ranges, room);
            if (!r)
                return dv_nomem(lx->diag);
            DV_TRY(read_range(lx, g, r));
        }
        DV_TRY(dv_lex(lx));
    }
    DV_TRY(dv_lex(lx));
    return dv_grid_verify(plan, lx->diag);
}
