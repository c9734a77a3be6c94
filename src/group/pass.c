// The group pass decides which ops run together and which core runs each tile.
// Until a later step merges ops, every op is a group of its own.
//
//   groups {
//       group ops 0..1 tiles 2 {   # m
//           core 0: 0..1
//           core 1: 1..2
//       }
//   }
//
// Only the deal says which core owns which slices. Cores are numbered as in
// Torch-Spyre: slice numbers are the mixed-radix digits of the core number,
// with the first variable fastest; in a contraction, the reduction variables
// come before all others, so that cores that share a result are neighbours.
// Threads of this machine, and groups with more tiles than cores, get
// contiguous ranges of tiles in order, so that an op finds data in the cache
// where the previous op left it.
#include "base/math.h"
#include "group/group.h"
#include <inttypes.h>
#include <string.h>

int64_t dv_plan_n_slices(const dv_plan *plan, int32_t op, int v)
{
    int64_t n = dv_var_len(&plan->ops->ops[op], v), slice = plan->slices[op][v];
    return n == slice ? 1 : dv_ceil_div(n, slice);
}

int64_t dv_plan_n_tiles(const dv_plan *plan, int32_t op)
{
    const dv_op *o = &plan->ops->ops[op];
    int64_t n = 1;
    for (int v = 0; v < o->n_vars; v++)
        if (!dv_mul_i64(&n, n, dv_plan_n_slices(plan, op, v)))
            return 0;
    return n;
}

void dv_plan_tile(dv_tile *out, const dv_plan *plan, int32_t op, int64_t tile)
{
    const dv_op *o = &plan->ops->ops[op];
    int64_t weight = 1;
    for (int k = o->n_vars - 1; k >= 0; k--) {
        int v = dv_plan_digit(plan, op, k);
        int64_t slice = plan->slices[op][v], n = dv_plan_n_slices(plan, op, v);
        out->n_slots[v] = n;
        out->weight[v] = weight;
        out->slot[v] = n == 1 ? 0 : tile % n;
        out->begin[v] = o->vars[v].begin + out->slot[v] * slice;
        out->end[v] =
            out->begin[v] + dv_min_i64(slice, o->vars[v].end - out->begin[v]);
        if (n > 1) { // a division takes as long as the rest
            tile /= n;
            weight *= n;
        }
    }
}

void dv_plan_other_tile(dv_tile *t, const dv_plan *plan, int32_t op,
                        int64_t tile)
{
    const dv_op *o = &plan->ops->ops[op];
    for (int v = 0; v < o->n_vars; v++) {
        if (t->n_slots[v] == 1)
            continue;
        int64_t slice = plan->slices[op][v];
        t->slot[v] = tile / t->weight[v] % t->n_slots[v];
        t->begin[v] = o->vars[v].begin + t->slot[v] * slice;
        t->end[v] =
            t->begin[v] + dv_min_i64(slice, o->vars[v].end - t->begin[v]);
    }
}

int dv_sums_in_rounds(const dv_plan *plan, const dv_group *g, int32_t op)
{
    const dv_op *o = &plan->ops->ops[op];
    int64_t parts = 1;
    int others = 0;
    for (int k = o->n_vars - 1; k >= 0; k--) {
        int v = dv_plan_digit(plan, op, k);
        int64_t n = dv_plan_n_slices(plan, op, v);
        if (n > 1 && o->vars[v].reduce && (others || parts > 1))
            return 0;
        parts *= o->vars[v].reduce ? n : 1;
        others |= n > 1 && !o->vars[v].reduce;
    }
    for (int32_t d = 0; d < g->n_deals; d++)
        if (g->deals[d].first_tile % parts || g->deals[d].n_tiles % parts)
            return 0;
    return parts > 1;
}

int dv_group_in_step(const dv_plan *plan, const dv_group *g, int32_t op)
{
    int64_t n = g->n_deals ? g->deals[0].n_tiles : 0;
    if (n < 2)
        return !g->loops;
    for (int32_t d = 0; d < g->n_deals; d++)
        if (g->deals[d].n_tiles != n || g->deals[d].first_tile != d * n ||
            (d && g->deals[d].core <= g->deals[d - 1].core))
            return 0;
    for (int k = plan->ops->ops[op].n_vars - 1; k >= 0 && n > 1; k--) {
        int64_t slots = dv_plan_n_slices(plan, op, dv_plan_digit(plan, op, k));
        if (n >= slots ? n % slots : slots % n)
            return 0;
        n = n >= slots ? n / slots : 1;
    }
    return 1;
}

// Returns whether tiles number a and b need the same elements of an access that
// depends on the variables in mask `vars`.
static int are_alike(const dv_tile *t, int n_vars, uint32_t vars, int64_t a,
                     int64_t b)
{
    for (int v = 0; v < n_vars; v++)
        if (vars >> v & 1 && a / t->weight[v] % t->n_slots[v] !=
                                 b / t->weight[v] % t->n_slots[v])
            return 0;
    return 1;
}

// Returns whether tile t is the one that fetches the elements of an access for
// all tiles of its ring that need them (dv_tile_fetches with several rings).
static int fetches_for_ring(const dv_plan *plan, const dv_group *g, int n_vars,
                            uint32_t vars, const dv_tile *t)
{
    const dv_deal *own = NULL;
    int64_t tile = 0;
    for (int v = 0; v < n_vars; v++)
        tile += t->slot[v] * t->weight[v];
    for (int32_t d = 0; d < g->n_deals && !own; d++)
        if (tile >= g->deals[d].first_tile &&
            tile < g->deals[d].first_tile + g->deals[d].n_tiles)
            own = &g->deals[d];
    for (int32_t d = 0; d < g->n_deals && own; d++) {
        const dv_deal *at = &g->deals[d];
        int64_t round = tile - own->first_tile, other = at->first_tile + round;
        if (other < tile && round < at->n_tiles &&
            dv_target_ring(&plan->target, at->core) ==
                dv_target_ring(&plan->target, own->core) &&
            are_alike(t, n_vars, vars, tile, other))
            return 0;
    }
    return 1;
}

int dv_tile_fetches(const dv_plan *plan, int32_t op, uint32_t vars,
                    const dv_tile *t)
{
    const dv_group *g = &plan->groups[dv_group_of(plan, op)];
    if (dv_target_has_rings(&plan->target))
        return fetches_for_ring(plan, g, plan->ops->ops[op].n_vars, vars, t);
    int64_t n = g->n_deals ? g->deals[0].n_tiles : 1;
    for (int v = 0; v < plan->ops->ops[op].n_vars; v++)
        if (!(vars >> v & 1) && t->slot[v] / dv_tile_turns(t, v, n) > 0)
            return 0;
    return 1;
}

int64_t dv_tile_part(const dv_op *o, const dv_tile *t, int64_t *n_parts)
{
    int64_t part = 0;
    *n_parts = 1;
    for (int v = 0; v < o->n_vars; v++)
        if (o->vars[v].reduce) {
            part = part * t->n_slots[v] + t->slot[v];
            *n_parts *= t->n_slots[v];
        }
    return part;
}

int64_t dv_tile_of_part(const dv_op *o, const dv_tile *t, int64_t part)
{
    int64_t tile = 0;
    for (int v = o->n_vars - 1; v >= 0; v--) {
        int64_t slot = t->slot[v];
        if (o->vars[v].reduce) {
            slot = part % t->n_slots[v];
            part /= t->n_slots[v];
        }
        tile += slot * t->weight[v];
    }
    return tile;
}

int dv_plan_splits_reduction(const dv_plan *plan, int32_t op)
{
    const dv_op *o = &plan->ops->ops[op];
    for (int v = 0; v < o->n_vars; v++)
        if (o->vars[v].reduce && plan->slices[op][v] < dv_var_len(o, v))
            return 1;
    return 0;
}

dv_status dv_plan_whole_slices(dv_plan *plan, dv_diag *diag)
{
    const dv_program *p = plan->ops;
    plan->digits = NULL;
    plan->slices = DV_NEW(&plan->arena, int64_t *, p->n_ops);
    if (!plan->slices)
        return dv_nomem(diag);
    for (int i = 0; i < p->n_ops; i++) {
        const dv_op *op = &p->ops[i];
        plan->slices[i] = DV_NEW(&plan->arena, int64_t, op->n_vars);
        if (!plan->slices[i])
            return dv_nomem(diag);
        for (int v = 0; v < op->n_vars; v++)
            plan->slices[i][v] = dv_var_len(op, v);
    }
    return DV_OK;
}

// Lists the op's variables in the order in which their slice numbers make up a
// core number (as digits of a mixed radix), the fastest first.
static int digit_order(const dv_op *op, int *order)
{
    int n = 0, first = dv_op_kind(op) == DV_KIND_CONTRACTION;
    for (int pass = first ? 0 : 1; pass < 2; pass++)
        for (int v = 0; v < op->n_vars; v++)
            if (!first || op->vars[v].reduce == !pass)
                order[n++] = v;
    return n;
}

// Returns the tile of op i that core c computes, if the op has exactly one tile
// per core.
static int64_t tile_of_core(const dv_plan *plan, int32_t i, int64_t c)
{
    const dv_op *op = &plan->ops->ops[i];
    int order[DV_MAX_VARS], n = digit_order(op, order);
    int64_t slot[DV_MAX_VARS], tile = 0;
    for (int k = 0; k < n; k++) {
        int v = order[k];
        int64_t cuts = dv_plan_n_slices(plan, i, v);
        slot[v] = c % cuts;
        c /= cuts;
    }
    for (int v = 0; v < op->n_vars; v++)
        tile = tile * dv_plan_n_slices(plan, i, v) + slot[v];
    return tile;
}

dv_status dv_plan_deal(dv_plan *plan, int32_t i, dv_group *g, dv_diag *diag)
{
    int64_t tiles = g->n_tiles, cores = dv_min_i64(tiles, plan->target.cores);
    g->deals = DV_NEW(&plan->arena, dv_deal, cores);
    if (!g->deals)
        return dv_nomem(diag);
    g->n_deals = (int32_t)cores;
    for (int64_t c = 0; c < cores; c++) {
        int64_t first = c * (tiles / cores) + dv_min_i64(c, tiles % cores);
        int64_t n = tiles / cores + (c < tiles % cores);
        if (tiles == cores && !dv_target_has_caches(&plan->target))
            first = tile_of_core(plan, i, c);
        g->deals[c] = (dv_deal){.core = c, .first_tile = first, .n_tiles = n};
    }
    dv_group_note_deals(g);
    return DV_OK;
}

// Returns 1 if cores that finish early take over tiles of op i from others
// (work stealing): if it is a contraction that is cut into more tiles than
// there are cores.
static int steals(const dv_plan *plan, int32_t i)
{
    int64_t tiles = plan->groups[i].n_tiles;
    return dv_target_has_caches(&plan->target) && tiles > plan->target.cores &&
           tiles <= INT32_MAX &&
           dv_op_kind(&plan->ops->ops[i]) == DV_KIND_CONTRACTION &&
           !dv_plan_splits_reduction(plan, i);
}

// Marks the tensors that are computed once, before the first run: those that
// groups with the word `once` write.
static void mark_once(dv_plan *plan)
{
    for (int32_t t = 0; t < plan->ops->n_tensors; t++)
        plan->ops->tensors[t].is_once = 0;
    for (int32_t g = 0; g < plan->n_groups; g++)
        for (int32_t i = plan->groups[g].first_op; i < plan->groups[g].end_op;
             i++)
            plan->ops->tensors[plan->ops->ops[i].write.tensor].is_once =
                plan->groups[g].once != 0;
}

// Marks the groups that run once, before the first run, because their ops
// depend on constants only. Ranks of a team and simulated machines compute all
// ops in every run.
static dv_status find_once(dv_plan *plan, dv_diag *diag)
{
    dv_arena arena = {0};
    dv_once *once = DV_NEW(&arena, dv_once, plan->n_groups);
    int ok = once != NULL;
    if (ok && dv_target_runs_here(&plan->target) && !plan->team_ops)
        ok = dv_program_find_once(plan->ops, once);
    for (int32_t i = 0; ok && i < plan->n_groups; i++)
        plan->groups[i].once = once[i] == DV_ONCE;
    mark_once(plan);
    dv_arena_free(&arena);
    return ok ? DV_OK : dv_nomem(diag);
}

dv_status dv_group_run(dv_pass_cx *cx, dv_plan *plan)
{
    int32_t n = plan->ops->n_ops;
    plan->groups = DV_NEW(&plan->arena, dv_group, n);
    if (!plan->groups)
        return dv_nomem(cx->diag);
    plan->n_groups = n;
    for (int32_t i = 0; i < n; i++) {
        plan->groups[i] = (dv_group){.first_op = i,
                                     .end_op = i + 1,
                                     .n_tiles = dv_plan_n_tiles(plan, i)};
        const dv_op *op = &plan->ops->ops[i];
        if (plan->groups[i].n_tiles != 1 &&
            (op->is_extern || dv_access_is_indirect(&op->write)))
            return dv_fail(cx->diag, DV_E_CHECK,
                           (dv_loc){&plan->ops->src, op->off},
                           "op %s cannot be divided, but is cut into "
                           "%" PRId64 " slices",
                           op->name, plan->groups[i].n_tiles);
        if (dv_group_too_many_tensors(plan, i, i + 1))
            return dv_fail(
                cx->diag, DV_E_CAPACITY, (dv_loc){&plan->ops->src, op->off},
                "op %s touches more than %" PRId64
                " tensors, the most of a group on %s "
                "(group_tensors)",
                op->name, plan->target.group_tensors, plan->target.name);
        DV_TRY(dv_plan_deal(plan, i, &plan->groups[i], cx->diag));
        if (steals(plan, i)) {
            plan->groups[i].queue = DV_STEAL;
            plan->groups[i].chunk = 1;
        }
    }
    return find_once(plan, cx->diag);
}

// Checks the properties of groups (ops that share one tile space) that later
// code relies on to read the plan; dv_plan_check proves that the plan is
// correct.
dv_status dv_group_verify(const dv_plan *plan, dv_diag *diag)
{
    for (int32_t i = 0; i < plan->n_groups; i++) {
        const dv_group *g = &plan->groups[i];
        if (g->first_op < 0 || g->end_op > plan->ops->n_ops ||
            g->first_op >= g->end_op)
            return dv_fail(diag, DV_E_SHAPE, dv_plan_at(plan, g->off),
                           "group %d holds ops %d..%d, the program has 0..%d",
                           (int)i, (int)g->first_op, (int)g->end_op,
                           (int)plan->ops->n_ops);
        if (g->queue != DV_DEALT && (g->chunk < 1 || g->n_tiles > INT32_MAX))
            return dv_fail(diag, DV_E_SHAPE, dv_plan_at(plan, g->off),
                           "%" PRId64 " tiles at a time of %" PRId64, g->chunk,
                           g->n_tiles);
    }
    return DV_OK;
}

int32_t dv_group_of(const dv_plan *plan, int32_t op)
{
    // Fast path: during the search for a plan, most ops are groups of their
    // own, so that group number `op` is the op's.
    if (op < plan->n_groups && plan->groups[op].first_op == op)
        return op;
    int32_t lo = 0, hi = plan->n_groups - 1;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (plan->groups[mid].end_op > op)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

int64_t dv_tiles_per_core(const dv_plan *plan, int32_t op)
{
    const dv_group *g = &plan->groups[dv_group_of(plan, op)];
    return g->n_deals ? g->deals[0].n_tiles : 1;
}

int dv_same_deals(const dv_group *a, const dv_group *b)
{
    return a->n_tiles == b->n_tiles && a->n_deals == b->n_deals &&
           !memcmp(a->deals, b->deals, (size_t)a->n_deals * sizeof *a->deals);
}

// Lists for every group g (ops that share one tile space) the homes (tensors
// resident in scratchpads) that are live across its end: across[at[g]] to
// across[at[g + 1] - 1].
typedef struct crossings {
    int32_t *at, *across;
} crossings;

static int find_crossings(crossings *c, const dv_plan *plan)
{
    const dv_scratch *s = &plan->scratch;
    c->across = NULL;
    c->at = dv_alloc(((size_t)plan->n_groups + 2) * sizeof *c->at);
    if (!c->at)
        return 0;
    memset(c->at, 0, ((size_t)plan->n_groups + 2) * sizeof *c->at);
    for (int fill = 0; fill < 2; fill++) {
        for (int32_t i = 0; i < s->n_homes; i++) {
            int32_t last = dv_group_of(plan, s->homes[i].end_op - 1);
            for (int32_t g = dv_group_of(plan, s->homes[i].first_op); g < last;
                 g++) {
                if (fill)
                    c->across[c->at[g + 1]++] = i;
                else
                    c->at[g + 2]++;
            }
        }
        for (int32_t g = 0; g < plan->n_groups && !fill; g++)
            c->at[g + 2] += c->at[g + 1];
        if (!fill)
            c->across = dv_alloc(((size_t)c->at[plan->n_groups + 1] + 1) *
                                 sizeof *c->across);
        if (!c->across)
            return 0;
    }
    return 1;
}

static void print_group(dv_text *out, const dv_plan *plan, const dv_group *g)
{
    dv_put(out, "    group ops %d..%d tiles %" PRId64 "%s%s", (int)g->first_op,
           (int)g->end_op, g->n_tiles, g->once ? " once" : "",
           g->non_terminal ? " non_terminal" : "");
    if (g->queue != DV_DEALT)
        dv_put(out, " %s %" PRId64, g->queue == DV_STEAL ? "steal" : "ticket",
               g->chunk);
    dv_put(out, " { #");
    for (int32_t op = g->first_op; op < g->end_op; op++)
        dv_put(out, " %s", plan->ops->ops[op].name);
    dv_put(out, "\n");
    for (int32_t d = 0; d < g->n_deals; d++)
        dv_put(out, "        core %" PRId64 ": %" PRId64 "..%" PRId64 "\n",
               g->deals[d].core, g->deals[d].first_tile,
               g->deals[d].first_tile + g->deals[d].n_tiles);
}

void dv_group_print(dv_text *out, const dv_plan *plan)
{
    crossings c;
    int known = find_crossings(&c, plan);
    out->failed |= !known;
    dv_put(out, "groups {\n");
    for (int32_t i = 0; i < plan->n_groups; i++) {
        print_group(out, plan, &plan->groups[i]);
        dv_put(out, "    }");
        for (int32_t k = known ? c.at[i] : 0; known && k < c.at[i + 1]; k++) {
            int32_t t = plan->scratch.homes[c.across[k]].tensor;
            dv_put(out, "%s %s", k > c.at[i] ? "," : " # keeps",
                   plan->ops->tensors[t].name);
        }
        dv_put(out, "\n");
    }
    dv_put(out, "}\n");
    dv_release(c.at);
    dv_release(c.across);
}

static dv_status read_range(dv_lexer *lx, int64_t *begin, int64_t *end)
{
    dv_loc at = dv_lex_at(lx);
    DV_TRY(dv_lex_int(lx, begin, "a number"));
    DV_TRY(dv_lex_expect(lx, DV_TOK_RANGE, "'..'"));
    DV_TRY(dv_lex_int(lx, end, "a number"));
    if (*begin >= *end)
        return dv_fail(lx->diag, DV_E_SHAPE, at,
                       "the range %" PRId64 "..%" PRId64 " is empty", *begin,
                       *end);
    return DV_OK;
}

static dv_status read_group(dv_plan *plan, dv_lexer *lx, dv_group *g)
{
    int64_t begin = 0, end = 0;
    int32_t cap = 0;
    g->off = lx->tok.off;
    DV_TRY(dv_lex_word(lx, "group"));
    DV_TRY(dv_lex_word(lx, "ops"));
    dv_loc at = dv_lex_at(lx);
    DV_TRY(read_range(lx, &begin, &end));
    if (end > plan->ops->n_ops)
        return dv_fail(lx->diag, DV_E_SHAPE, at,
                       "ops %" PRId64 "..%" PRId64 ", the program has 0..%d",
                       begin, end, (int)plan->ops->n_ops);
    g->first_op = (int32_t)begin;
    g->end_op = (int32_t)end;
    DV_TRY(dv_lex_word(lx, "tiles"));
    DV_TRY(dv_lex_int(lx, &g->n_tiles, "the number of tiles"));
    if (dv_lex_is(lx, "once")) {
        g->once = 1;
        DV_TRY(dv_lex(lx));
    }
    if (dv_lex_is(lx, "non_terminal")) {
        g->non_terminal = 1;
        DV_TRY(dv_lex(lx));
    }
    if (dv_lex_is(lx, "ticket") || dv_lex_is(lx, "steal")) {
        g->queue = dv_lex_is(lx, "steal") ? DV_STEAL : DV_TICKET;
        DV_TRY(dv_lex(lx));
        DV_TRY(dv_lex_int(lx, &g->chunk, "tiles that are taken at once"));
    }
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    while (lx->tok.kind != '}') {
        DV_TRY(dv_lex_word(lx, "core"));
        dv_deal *d = DV_PUSH(&plan->arena, dv_deal, g->deals, g->n_deals, cap);
        if (!d)
            return dv_nomem(lx->diag);
        DV_TRY(dv_lex_int(lx, &d->core, "the number of a core"));
        DV_TRY(dv_lex_expect(lx, ':', "':'"));
        DV_TRY(read_range(lx, &begin, &end));
        d->first_tile = begin;
        d->n_tiles = end - begin;
    }
    dv_group_note_deals(g);
    return dv_lex(lx);
}

dv_status dv_group_read(dv_plan *plan, dv_lexer *lx)
{
    int32_t cap = 0;
    if (!(plan->facts & DV_FACT_DIVIDED))
        DV_TRY(dv_plan_whole_slices(plan, lx->diag));
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    while (lx->tok.kind != '}') {
        dv_group *g =
            DV_PUSH(&plan->arena, dv_group, plan->groups, plan->n_groups, cap);
        if (!g)
            return dv_nomem(lx->diag);
        DV_TRY(read_group(plan, lx, g));
    }
    DV_TRY(dv_lex(lx));
    DV_TRY(dv_group_verify(plan, lx->diag));
    mark_once(plan);
    return DV_OK;
}
