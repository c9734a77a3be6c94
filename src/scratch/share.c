// Operands that cores receive over the ring while an op runs.
//
// If several cores need the same elements of an operand, they need not all read
// them from main memory: the first one does, and passes them on.
//
//   c[i,j] = sum[k] a[i,k] * b[k,j], j in 32 slices, one on each core:
//   each core reads its own part of b; all cores need all of a, which is read
//   once and passes all cores
//
// If the target has rings of some neighbours (ring_cores), one core of each
// ring does.
//
// The same holds for an operand whose parts are in the scratchpads of the
// cores: every part passes all cores once, and each takes what it needs. What
// passes needs no place in the scratchpads, like what streams from main memory.
#include "base/math.h"
#include "plan/cost.h"
#include "plan/traffic.h"
#include "scratch/scratch.h"
#include <math.h>

// Returns how many tiles need the same elements of read r of an op in the same
// round, and sets *rounds to the number of rounds in which the same elements
// are needed. Such tiles differ only in variables that the read does not depend
// on.
static int64_t count_alike(const dv_plan *plan, int32_t op, int r,
                           int64_t *rounds)
{
    const dv_op *o = &plan->ops->ops[op];
    uint32_t vars = dv_access_vars(o, &o->reads[r]);
    int64_t n = 1, n_rounds = dv_tiles_per_core(plan, op);
    dv_tile t;
    dv_plan_tile(&t, plan, op, 0);
    *rounds = 1;
    for (int v = 0; v < o->n_vars; v++)
        if (!(vars >> v & 1)) {
            int64_t turns = dv_tile_turns(&t, v, n_rounds);
            n *= t.n_slots[v] / turns;
            *rounds *= turns;
        }
    return n;
}

// Returns how many of the tiles that cores compute first (round 0) read the
// elements of read r of an op from main memory.
static int64_t count_fetching(const dv_plan *plan, int32_t op, int r)
{
    const dv_op *o = &plan->ops->ops[op];
    const dv_group *g = &plan->groups[dv_group_of(plan, op)];
    uint32_t vars = dv_access_vars(o, &o->reads[r]);
    int64_t n = 0;
    for (int32_t d = 0; d < g->n_deals; d++) {
        dv_tile t;
        dv_plan_tile(&t, plan, op, g->deals[d].first_tile);
        n += dv_tile_fetches(plan, op, vars, &t);
    }
    return n;
}

int64_t dv_sharers(const dv_plan *plan, int32_t op, int r)
{
    int64_t rounds, n = count_alike(plan, op, r, &rounds);
    if (!dv_target_has_rings(&plan->target))
        return n;
    return plan->groups[dv_group_of(plan, op)].n_deals /
           dv_max_i64(count_fetching(plan, op, r), 1);
}

// Returns whether an op of the same loop over tiles, before op i, writes a
// tensor.
static int is_written_in_loop(const dv_plan *plan, int32_t i, int32_t tensor)
{
    int32_t g = dv_group_of(plan, i);
    if (!plan->groups[g].loops)
        return 0;
    while (plan->groups[g].same_loop)
        g--;
    for (int32_t k = plan->groups[g].first_op; k < i; k++)
        if (plan->ops->ops[k].write.tensor == tensor)
            return 1;
    return 0;
}

int dv_can_share(const dv_plan *plan, const dv_scratch_rules *rules, int32_t op,
                 int r)
{
    const dv_op *o = &plan->ops->ops[op];
    const dv_group *g = &plan->groups[dv_group_of(plan, op)];
    // Nothing is shared on machines that compute on tiles (tile_rows), because
    // a later pass may give any tile to any core.
    return rules->ring && plan->target.ring && !plan->target.tile_rows &&
           !o->is_extern && r < o->n_reads &&
           !dv_access_is_indirect(&o->reads[r]) &&
           o->reads[r].tensor != o->write.tensor &&
           // The cores of a group in step have equal numbers of tiles, so that
           // the first core tells whether all of them loop over tiles.
           (rules->tiles || g->n_deals == 0 || g->deals[0].n_tiles < 2) &&
           dv_group_in_step(plan, g, op) &&
           !is_written_in_loop(plan, op, o->reads[r].tensor);
}

int dv_can_pass(const dv_plan *plan, const dv_scratch_rules *rules, int32_t op,
                int r)
{
    const dv_op *o = &plan->ops->ops[op];
    uint32_t seen = 0;
    // The elements that a core already holds are counted dim by dim. This
    // requires that each dim depends on at most one variable, and no two dims
    // on the same.
    for (int d = 0; d < o->reads[r].n_dims; d++) {
        uint32_t vars = dv_index_vars(o, &o->reads[r].index[d]);
        if (vars & (vars - 1) || vars & seen)
            return 0;
        seen |= vars;
    }
    // A group ends before and after the op; with tenants, scratchpads are wiped
    // there. The parts of a tensor do not reach the cores of other rings.
    return !rules->tenants && !dv_target_has_rings(&plan->target) &&
           dv_can_share(plan, rules, op, r);
}

int64_t dv_received_bytes(const dv_plan *plan, int32_t op, int r)
{
    const dv_op *o = &plan->ops->ops[op];
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
    for (int v = 0; v < o->n_vars; v++) {
        begin[v] = o->vars[v].begin;
        end[v] = o->vars[v].end;
    }
    int64_t rounds,
        n = dv_access_distinct_elems(plan->ops, o, &o->reads[r], begin, end);
    int64_t alike = count_alike(plan, op, r, &rounds);
    if (dv_target_has_rings(&plan->target))
        // Each ring with a core that needs an element reads it from main
        // memory.
        rounds *= dv_max_i64(alike / dv_sharers(plan, op, r), 1);
    return dv_max_i64(n, 0) * rounds *
           plan->layouts[o->reads[r].tensor].elem_bytes;
}

static double memory_us(const dv_plan *plan, double bytes)
{
    return 1e6 * bytes / dv_cost_shared_rate(&plan->target);
}

// Returns the time in which these bytes pass a link of the ring; if the ring's
// bandwidth is not known, that of main memory is assumed.
static double ring_us(const dv_plan *plan, double bytes)
{
    double us = dv_cost_ring_us(&plan->target, bytes);
    return us > 0 ? us : memory_us(plan, bytes);
}

static double compute_us(const dv_plan *plan, int32_t op)
{
    const dv_op *o = &plan->ops->ops[op];
    dv_cost_work w = {.partials = 1};
    double points = (double)dv_tiles_per_core(plan, op);
    for (int v = 0; v < o->n_vars; v++)
        points *= (double)dv_min_i64(plan->slices[op][v], dv_var_len(o, v));
    *(dv_op_kind(o) == DV_KIND_CONTRACTION ? &w.macs : &w.ops) = points;
    return dv_cost_compute_us(&plan->target, &w);
}

double dv_pass_price(const dv_plan *plan, int32_t op, int64_t bytes)
{
    const dv_op *o = &plan->ops->ops[op];
    double inputs = 0;
    for (int r = 0; r < o->n_reads; r++)
        if (plan->ops->tensors[o->reads[r].tensor].is_input)
            inputs += (double)dv_received_bytes(plan, op, r);
    // Passing overlaps with computing and with reading the program's inputs:
    // only the time beyond these counts.
    double hidden = fmax(compute_us(plan, op), memory_us(plan, inputs));
    double us = ring_us(plan, (double)bytes) - hidden;
    return us <= 0 ? 0 : (double)bytes * us / memory_us(plan, (double)bytes);
}

// The load of an op: the time of its arithmetic, and the bytes that it moves
// through main memory and over the ring.
typedef struct load {
    double compute_us, memory_bytes, ring_bytes;
} load;

static double time_of(const dv_plan *plan, const load *l)
{
    return fmax(l->compute_us, fmax(memory_us(plan, l->memory_bytes),
                                    ring_us(plan, l->ring_bytes)));
}

static int add_share(dv_scratch *s, int32_t *cap, int32_t tensor, int32_t op,
                     dv_arena *arena)
{
    dv_shared_read *x =
        DV_PUSH(arena, dv_shared_read, s->shares, s->n_shares, *cap);
    int32_t *ops = DV_NEW(arena, int32_t, 1);
    if (!x || !ops)
        return 0;
    *ops = op;
    *x = (dv_shared_read){.tensor = tensor, .ops = ops, .n_ops = 1};
    return 1;
}

// Changes the load of op i to what it would be if the tensor were read from
// main memory once for all cores. Returns 0 if that is not possible or saves no
// main memory traffic.
static int use_ring(load *l, const dv_plan *plan, const dv_scratch_rules *rules,
                    int32_t i, int32_t tensor)
{
    const dv_op *o = &plan->ops->ops[i];
    double before = l->memory_bytes;
    for (int r = 0; r < o->n_reads; r++) {
        if (o->reads[r].tensor != tensor)
            continue;
        if (dv_ring_of(plan, i, r) != DV_RING_NONE ||
            dv_home_of(plan, i, r) >= 0 || !dv_can_share(plan, rules, i, r))
            return 0;
        double bytes = (double)dv_received_bytes(plan, i, r);
        l->memory_bytes -= bytes * (double)(dv_sharers(plan, i, r) - 1);
        l->ring_bytes +=
            bytes /
            (double)(dv_target_ring(&plan->target, plan->target.cores - 1) + 1);
    }
    return l->memory_bytes < before;
}

// Chooses which operands op i reads from main memory once for all cores.
static int share_op(dv_scratch *s, const dv_plan *plan,
                    const dv_scratch_rules *rules, int32_t i, int32_t *cap,
                    dv_arena *arena)
{
    const dv_op *o = &plan->ops->ops[i];
    load now = {.compute_us = compute_us(plan, i)};
    for (int r = 0; r < o->n_reads; r++) {
        int passed = dv_ring_of(plan, i, r) >= 0;
        if (!passed && dv_home_of(plan, i, r) >= 0)
            continue;
        double bytes = (double)dv_received_bytes(plan, i, r);
        if (passed)
            now.ring_bytes += bytes;
        else
            now.memory_bytes += bytes * (double)dv_sharers(plan, i, r);
    }
    for (int r = 0; r < o->n_reads; r++) {
        load then = now;
        if (dv_access_of(o, o->reads[r].tensor) != r ||
            !use_ring(&then, plan, rules, i, o->reads[r].tensor) ||
            time_of(plan, &then) > time_of(plan, &now))
            continue;
        now = then;
        if (!add_share(s, cap, o->reads[r].tensor, i, arena))
            return 0;
    }
    return 1;
}

int dv_share_reads(dv_scratch *s, const dv_plan *plan,
                   const dv_scratch_rules *rules, dv_arena *arena)
{
    int32_t cap = 0;
    s->shares = NULL;
    s->n_shares = 0;
    for (int32_t i = 0; i < plan->ops->n_ops; i++)
        if (!plan->ops->ops[i].is_extern &&
            !share_op(s, plan, rules, i, &cap, arena))
            return 0;
    for (int32_t i = 0; i < s->n_homes; i++) {
        dv_home *h = &s->homes[i];
        int r = dv_access_of(&plan->ops->ops[h->as_op], h->tensor);
        h->shared = h->fill == DV_FILL_LOADED &&
                    dv_can_share(plan, rules, h->as_op, r) &&
                    dv_sharers(plan, h->as_op, r) > 1;
    }
    return 1;
}
