// Computes live ranges and readers of tensors, and finds the candidates for
// scratchpad homes (tensors resident on the cores).
#include "base/math.h"
#include "scratch/scratch.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int find_loops(dv_life *l)
{
    const dv_program *p = l->plan->ops;
    int32_t next = 0, open = -1;
    for (int32_t i = 0; i < p->n_ops; i++) {
        while (open >= 0 && p->repeats[open].end_op <= i)
            open = l->loop_in[open];
        for (; next < p->n_repeats && p->repeats[next].first_op <= i; next++) {
            if (p->repeats[next].end_op <= i)
                continue; // skip a repeat (loop) that contains no ops
            l->loop_in[next] = open;
            open = next;
        }
        l->loop_of[i] = open;
        l->times[i] = 1;
        for (int32_t r = open; r >= 0; r = l->loop_in[r])
            l->times[i] *= (double)p->repeats[r].times;
        l->externs[i + 1] = l->externs[i] + p->ops[i].is_extern;
    }
    return 1;
}

// Finds the loops over tiles: groups in which a core has several tiles, merged
// with those that belong to the same loop.
static void find_tile_loops(dv_life *l)
{
    const dv_plan *plan = l->plan;
    for (int32_t i = 0; i < plan->ops->n_ops; i++)
        l->tile_first[i] = l->tile_end[i] = -1;
    for (int32_t g = 0, end; g < plan->n_groups && l->rules->tiles; g = end) {
        int32_t first = plan->groups[g].first_op;
        for (end = g + 1; end < plan->n_groups && plan->groups[end].same_loop;)
            end++;
        if (!plan->groups[g].loops)
            continue;
        for (int32_t i = first; i < plan->groups[end - 1].end_op; i++) {
            l->tile_first[i] = first;
            l->tile_end[i] = plan->groups[end - 1].end_op;
        }
    }
}

// Returns whether an op sums up its partial results in the rounds of a loop
// over tiles that it shares with other ops.
static int is_summed(const dv_life *l, int32_t op)
{
    const dv_op *o = &l->plan->ops->ops[op];
    return l->tile_end[op] - l->tile_first[op] > 1 && !o->is_extern &&
           !o->update && !dv_access_is_indirect(&o->write) &&
           dv_plan_splits_reduction(l->plan, op) &&
           dv_sums_in_rounds(l->plan,
                             &l->plan->groups[dv_group_of(l->plan, op)], op);
}

// Returns whether the cores may loop over tiles of an op.
static int may_run_by_tile(const dv_life *l, int32_t op)
{
    return l->rules->tiles &&
           (!dv_group_alone(l->plan, op) || is_summed(l, op));
}

// Finds the view (which box each core holds) of access k of an op, as
// dv_view_make does. If a core has several tiles of the op, there is a view
// only if cores may loop over tiles and the op can run tile by tile.
static const char *view_of(const dv_life *l, dv_view *v, int32_t op, int k)
{
    return may_run_by_tile(l, op) ? dv_view_make(v, l->plan, op, k)
                                  : dv_view_make_whole(v, l->plan, op, k);
}

// Lists for each tensor the ops that read it, each op once.
static int find_reads(dv_life *l)
{
    const dv_program *p = l->plan->ops;
    int32_t *last = DV_NEW(l->arena, int32_t, p->n_tensors);
    if (!last)
        return 0;
    for (int fill = 0; fill < 2; fill++) {
        for (int32_t i = 0; i < p->n_tensors; i++)
            last[i] = -1;
        for (int32_t i = 0; i < p->n_ops; i++)
            for (int r = 0; r < p->ops[i].n_reads; r++) {
                int32_t t = p->ops[i].reads[r].tensor;
                if (last[t] == i)
                    continue;
                last[t] = i;
                if (fill)
                    l->reads[l->read_at[t + 1]++] = i;
                else
                    l->read_at[t + 2]++;
            }
        if (fill)
            continue;
        for (int32_t t = 0; t < p->n_tensors; t++)
            l->read_at[t + 2] += l->read_at[t + 1];
        l->reads = DV_NEW(l->arena, int32_t, l->read_at[p->n_tensors + 1] + 1);
        if (!l->reads)
            return 0;
    }
    return 1;
}

// Formats the reason why a tensor cannot be resident, as a string in the arena.
__attribute__((format(printf, 2, 3))) static const char *
say(dv_life *l, const char *form, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, form);
    vsnprintf(text, sizeof text, form, ap);
    va_end(ap);
    const char *copy = dv_arena_copy(l->arena, text, strlen(text));
    l->nomem |= !copy;
    return copy;
}

static void find_apart(dv_life *l)
{
    char word[DV_OP_WORD_BYTES];
    const dv_program *p = l->plan->ops;
    for (int32_t i = 0; i < p->n_ops; i++)
        for (size_t k = 0; k < l->rules->n_bars; k++)
            if (dv_bar_has_op(l->rules->bars[k], p->ops[i].name))
                l->apart[i] = "is barred";
    for (int32_t i = 0; i < p->n_ops; i++)
        if (!l->apart[i] && !dv_op_set_has(&l->plan->target.keep, &p->ops[i]))
            l->apart[i] =
                say(l,
                    "keeps nothing on the core: property keep "
                    "of %s lacks %s",
                    l->plan->target.name,
                    dv_op_set_lacks(&l->plan->target.keep, &p->ops[i], word));
}

// Allocates the cache of the bytes that each access takes from main memory
// (l->taken), with all entries -1: not computed yet.
static int begin_taken(dv_life *l)
{
    const dv_program *p = l->plan->ops;
    int32_t n = 0;
    l->taken_at = DV_NEW(l->arena, int32_t, p->n_ops);
    if (!l->taken_at)
        return 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        l->taken_at[i] = n;
        n += p->ops[i].n_reads + 1;
    }
    l->taken = DV_NEW(l->arena, int64_t, n);
    if (l->taken)
        memset(l->taken, -1, (size_t)n * sizeof *l->taken);
    return l->taken != NULL;
}

static int look_up(dv_life *l)
{
    const dv_program *p = l->plan->ops;
    dv_arena *a = l->arena;
    l->loop_of = DV_NEW(a, int32_t, p->n_ops);
    l->loop_in = DV_NEW(a, int32_t, p->n_repeats);
    l->externs = DV_NEW(a, int32_t, p->n_ops + 1);
    l->tile_first = DV_NEW(a, int32_t, p->n_ops);
    l->tile_end = DV_NEW(a, int32_t, p->n_ops);
    l->times = DV_NEW(a, double, p->n_ops);
    l->read_at = DV_NEW(a, int32_t, p->n_tensors + 2);
    l->def = DV_NEW(a, int32_t, p->n_tensors);
    l->updated = DV_NEW(a, uint8_t, p->n_tensors);
    l->apart = DV_NEW(a, const char *, p->n_ops);
    if (!l->tile_first || !l->tile_end)
        return 0;
    if (!l->loop_of || !l->loop_in || !l->externs || !l->times || !l->read_at ||
        !l->def || !l->updated || !l->apart)
        return 0;
    for (int32_t t = 0; t < p->n_tensors; t++)
        l->def[t] = -1;
    for (int32_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].update)
            l->updated[p->ops[i].write.tensor] = 1;
        else
            l->def[p->ops[i].write.tensor] = i;
    }
    find_apart(l);
    find_tile_loops(l);
    return find_loops(l) && find_reads(l) && begin_taken(l);
}

// Returns the op at which a tensor's stay in the scratchpads ends if it begins
// at op `first` and op `use` reads it last: use + 1, or later if a repeat (a
// loop) reads it again.
static int32_t end_of_stay(const dv_life *l, int32_t first, int32_t use)
{
    const dv_program *p = l->plan->ops;
    int32_t end = l->tile_first[use] > first ? l->tile_end[use] : use + 1;
    for (int32_t r = l->loop_of[use]; r >= 0; r = l->loop_in[r])
        if (p->repeats[r].first_op > first && end < p->repeats[r].end_op)
            end = p->repeats[r].end_op;
    return end;
}

// Returns whether a scratchpad home (resident tensor) filled at op `first` is
// still valid at op `use`: no extern op is in between and, if the end of a
// group wipes scratchpads (tenants), no group boundary either. A home of a loop
// over tiles is valid only in the loop.
static int survives(const dv_life *l, int32_t first, int32_t use)
{
    int32_t end = end_of_stay(l, first, use);
    if (l->run_of && l->run_of[first] != l->run_of[use])
        return 0;
    if (l->tile_first[first] >= 0 && l->tile_first[first] != l->tile_first[use])
        return 0;
    return l->externs[end] == l->externs[first];
}

// Finds the view (which box each core needs) of a read of an op that may touch
// only a part of its tensor.
static const char *view_of_read(const dv_life *l, dv_view *v, int32_t op, int r)
{
    const char *why = dv_view_make_part(v, l->plan, op, r);
    if (!why && v->group->loops && !may_run_by_tile(l, op))
        why = "an op that touches it runs in rounds";
    return why;
}

// Returns whether each core holds, by the view `owner` (the box on each core),
// all elements of the tensor that the op reads when it runs on that core.
static int finds_all(const dv_life *l, int32_t op, int32_t tensor,
                     const dv_view *owner)
{
    const dv_op *o = &l->plan->ops->ops[op];
    for (int r = 0; r < o->n_reads; r++) {
        dv_view v;
        if (o->reads[r].tensor == tensor &&
            (l->apart[op] || view_of_read(l, &v, op, r) ||
             !dv_view_holds(owner, &v)))
            return 0;
    }
    return 1;
}

static int64_t elem_bytes(const dv_life *l, int32_t tensor)
{
    return l->plan->layouts[tensor].elem_bytes;
}

// Returns the bytes that an op reads of a tensor in main memory if the tensor
// is not resident, in all its executions.
static double read_bytes(const dv_life *l, int32_t op, int32_t tensor)
{
    const dv_op *o = &l->plan->ops->ops[op];
    double sum = 0;
    for (int r = 0; r < o->n_reads; r++)
        if (o->reads[r].tensor == tensor)
            sum += (double)dv_life_read_bytes(l, op, r);
    return sum * l->times[op];
}

static int64_t count_read_bytes(const dv_life *l, int32_t op, int k)
{
    const dv_op *o = &l->plan->ops->ops[op];
    dv_view v;
    if (dv_can_share(l->plan, l->rules, op, k))
        return dv_received_bytes(l->plan, op, k);
    if (o->is_extern || dv_view_make_part(&v, l->plan, op, k))
        return 0;
    return dv_view_elems(&v) * elem_bytes(l, dv_op_access(o, k)->tensor);
}

int64_t dv_life_read_bytes(const dv_life *l, int32_t op, int k)
{
    int64_t *known = &l->taken[l->taken_at[op] + k];
    if (*known < 0)
        *known = count_read_bytes(l, op, k);
    return *known;
}

static int push_use(dv_life *l, int32_t op)
{
    int32_t *u = DV_PUSH(l->arena, int32_t, l->uses, l->n_uses, l->cap_uses);
    if (u)
        *u = op;
    l->nomem |= !u;
    return u != NULL;
}

static dv_cand *push_cand(dv_life *l, dv_cand c)
{
    dv_cand *x = DV_PUSH(l->arena, dv_cand, l->cands, l->n_cands, l->cap_cands);
    if (x)
        *x = c;
    l->nomem |= !x;
    return x;
}

// Adds to candidate c the ops that can read it from the scratchpad. They are
// those not marked in `done` that read only elements which their core holds.
// Returns the main memory traffic that they save.
static double add_uses(dv_life *l, dv_cand *c, const dv_view *owner,
                       int same_loop, uint8_t *done)
{
    double gain = 0;
    int32_t t = c->tensor;
    c->uses = l->n_uses;
    for (int32_t i = l->read_at[t]; i < l->read_at[t + 1]; i++) {
        int32_t op = l->reads[i];
        if (done[i - l->read_at[t]] || op < c->first_op ||
            (op == c->first_op && c->fill == DV_FILL_WRITTEN) ||
            (same_loop && l->loop_of[op] != l->loop_of[c->first_op]) ||
            !survives(l, c->first_op, op))
            continue;
        if (!finds_all(l, op, t, owner) || !push_use(l, op))
            continue;
        int32_t end = end_of_stay(l, c->first_op, op);
        c->end_op = c->end_op > end ? c->end_op : end;
        gain += read_bytes(l, op, t);
    }
    c->n_uses = l->n_uses - c->uses;
    return gain;
}

static void mark_uses(const dv_life *l, const dv_cand *c, uint8_t *done)
{
    int32_t t = c->tensor, k = 0;
    for (int32_t i = l->read_at[t]; i < l->read_at[t + 1]; i++)
        if (k < c->n_uses && l->uses[c->uses + k] == l->reads[i]) {
            done[i - l->read_at[t]] = 1;
            k++;
        }
}

// A copy of a tensor in the scratchpads may be cut as any of its readers needs
// it; this is the most readers that are tried. It keeps the run time linear.
enum { MAX_VIEWS = 8 };

// The gain of a candidate that must become a home (resident): larger than what
// any other candidate can save.
static const int64_t NEEDED = (int64_t)1 << 44;

// Returns the cost of a copy over the ring (the network between cores), as the
// main memory bytes that could be transferred in the same time, or -1 if there
// is no ring.
static double ring_price(const dv_life *l, const dv_view *from,
                         const dv_view *to, int64_t bytes_each)
{
    const dv_target *t = &l->plan->target;
    double bytes = (double)(dv_view_missing(from, to) * bytes_each);
    if (!t->ring)
        return -1;
    if (t->ring_bandwidth_bytes_per_s <= 0 ||
        t->memory_bandwidth_bytes_per_s <= 0)
        return bytes;
    return bytes * t->memory_bandwidth_bytes_per_s /
           t->ring_bandwidth_bytes_per_s;
}

// Returns whether all reads of a tensor by an op can be received over the ring
// while the op runs.
static int can_pass(const dv_life *l, int32_t op, int32_t tensor)
{
    const dv_op *o = &l->plan->ops->ops[op];
    for (int r = 0; r < o->n_reads; r++)
        if (o->reads[r].tensor == tensor &&
            !dv_can_pass(l->plan, l->rules, op, r))
            return 0;
    return !l->apart[op];
}

// Returns the cost of passing a tensor to an op in all its executions, in bytes
// of main memory traffic that take as long.
static double pass_price(const dv_life *l, int32_t op, int32_t tensor)
{
    const dv_op *o = &l->plan->ops->ops[op];
    int64_t bytes = 0;
    for (int r = 0; r < o->n_reads; r++)
        if (o->reads[r].tensor == tensor)
            bytes += dv_received_bytes(l->plan, op, r);
    return dv_pass_price(l->plan, op, bytes) * l->times[op];
}

// Returns whether passing a tensor to its readers while they run is better than
// making the copy of it: if there is only one reader, or if the ring then
// carries no more bytes. `copied` are the bytes that cores receive for the
// copy.
static int passing_is_better(const dv_life *l, const dv_cand *copy,
                             int64_t copied)
{
    int64_t passed = 0;
    for (int32_t i = 0; i < copy->n_uses; i++) {
        int32_t op = l->uses[copy->uses + i];
        const dv_op *o = &l->plan->ops->ops[op];
        if (!can_pass(l, op, copy->tensor))
            return 0;
        for (int r = 0; r < o->n_reads; r++)
            if (o->reads[r].tensor == copy->tensor)
                passed += dv_received_bytes(l->plan, op, r);
    }
    return copy->n_uses == 1 || passed <= copied;
}

// Adds to candidate c, which an op writes, the ops to which its tensor is
// passed over the ring: all remaining readers, if that saves more than it costs
// in total, otherwise each reader for which it does. `write_bytes` is the
// traffic of storing the tensor, which is saved too if no reader is left.
// Returns the main memory traffic saved.
static double add_passes(dv_life *l, dv_cand *c, double write_bytes,
                         uint8_t *done)
{
    int32_t t = c->tensor, n = l->read_at[t + 1] - l->read_at[t];
    double all = 0, gain = 0;
    int every = 1;
    if (l->tile_first[c->as_op] >= 0)
        return 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t op = l->reads[l->read_at[t] + i];
        if (done[i])
            continue;
        if (op <= c->first_op || !survives(l, c->first_op, op) ||
            !can_pass(l, op, t))
            every = 0;
        else
            all += read_bytes(l, op, t) - pass_price(l, op, t);
    }
    every = every && all + write_bytes > 0;
    c->passes = l->n_uses;
    for (int32_t i = 0; i < n; i++) {
        int32_t op = l->reads[l->read_at[t] + i];
        if (done[i] || op <= c->first_op || !survives(l, c->first_op, op) ||
            !can_pass(l, op, t))
            continue;
        double saved = read_bytes(l, op, t), price = pass_price(l, op, t);
        if ((!every && saved <= price) || !push_use(l, op))
            continue;
        int32_t end = end_of_stay(l, c->first_op, op);
        c->end_op = c->end_op > end ? c->end_op : end;
        gain += saved - price;
        done[i] = 1;
    }
    c->n_passes = l->n_uses - c->passes;
    return gain;
}

// Adds copies of candidate `from` over the ring (the network between cores) for
// the readers that cannot read it, one copy per view (which core reads which
// part). Each copy must save more than it costs.
static void add_rings(dv_life *l, int32_t from, const dv_view *owner,
                      uint8_t *done)
{
    int32_t t = l->cands[from].tensor, tried = 0;
    for (int32_t i = l->read_at[t]; i < l->read_at[t + 1] && tried < MAX_VIEWS;
         i++) {
        int32_t op = l->reads[i];
        dv_view v;
        const dv_op *o = &l->plan->ops->ops[op];
        if (done[i - l->read_at[t]] || o->is_extern || l->apart[op] ||
            op <= l->cands[from].first_op || l->tile_first[op] >= 0 ||
            !survives(l, l->cands[from].first_op, op) ||
            view_of(l, &v, op, dv_access_of(o, t)) || !finds_all(l, op, t, &v))
            continue;
        tried++;
        double price =
            ring_price(l, owner, &v, elem_bytes(l, t)) * l->times[op];
        if (price < 0)
            return;
        dv_cand c = {.tensor = t,
                     .as_op = op,
                     .as_access = dv_access_of(o, t),
                     .first_op = op,
                     .end_op = op + 1,
                     .fill = DV_FILL_RING,
                     .from = from,
                     .group = from + 1,
                     .core_bytes = dv_view_bytes(&v, &l->plan->layouts[t])};
        if (c.core_bytes + l->cands[from].core_bytes >
            l->plan->scratch.capacity_bytes)
            // Give up a copy if it does not fit into the scratchpad together
            // with its source: both are resident at the same time.
            continue;
        double gain = add_uses(l, &c, &v, 1, done) - price;
        int64_t copied = dv_view_missing(owner, &v) * elem_bytes(l, t);
        if (gain <= 0 || passing_is_better(l, &c, copied)) {
            l->n_uses = c.uses;
            continue;
        }
        c.gain_bytes = (int64_t)gain;
        mark_uses(l, &c, done);
        dv_cand *x = push_cand(l, c);
        if (!x)
            return;
        dv_cand *source = &l->cands[from];
        source->group = from + 1;
        int32_t end = end_of_stay(l, source->first_op, op);
        source->end_op = source->end_op > end ? source->end_op : end;
    }
}

static int left_over(const dv_life *l, int32_t t, const uint8_t *done)
{
    for (int32_t i = 0; i < l->read_at[t + 1] - l->read_at[t]; i++)
        if (!done[i])
            return 1;
    return 0;
}

static int is_barred(const dv_life *l, int32_t t)
{
    for (size_t k = 0; k < l->rules->n_bars; k++)
        if (dv_bar_has_tensor(l->rules->bars[k], l->plan->ops->tensors[t].name))
            return 1;
    return 0;
}

// If so many readers of the tensor are kept from reading scratchpads (l->apart)
// that fewer than `least` are left, returns that as the reason; otherwise NULL.
static const char *readers_apart(dv_life *l, int32_t t, int32_t least)
{
    int32_t n = 0, op = -1;
    for (int32_t i = l->read_at[t]; i < l->read_at[t + 1]; i++)
        if (l->apart[l->reads[i]]) {
            op = l->reads[i];
            n++;
        }
    int32_t all = l->read_at[t + 1] - l->read_at[t];
    if (n == 0 || all < least || all - n >= least)
        return NULL;
    return say(l, "op %s, which reads it, %s", l->plan->ops->ops[op].name,
               l->apart[op]);
}

// Adds the accumulators of tensor t as a candidate for the scratchpads. An op
// sums up the tensor's parts in them in a loop over tiles. They must become
// resident: without them the loop is illegal.
static void add_summed(dv_life *l, int32_t t)
{
    const dv_plan *plan = l->plan;
    int32_t op = l->def[t];
    const dv_op *o = &plan->ops->ops[op];
    int64_t bytes = dv_op_partial_bytes(plan->ops, o);
    for (int v = 0; v < o->n_vars; v++)
        bytes *= o->vars[v].reduce
                     ? 1
                     : dv_min_i64(plan->slices[op][v], dv_var_len(o, v));
    push_cand(l, (dv_cand){.tensor = t,
                           .as_op = op,
                           .as_access = o->n_reads,
                           .first_op = l->tile_first[op],
                           .end_op = l->tile_end[op],
                           .fill = DV_FILL_SUMMED,
                           .core_bytes = bytes,
                           .gain_bytes = NEEDED});
}

// Returns the reason, for the report, why no op would read tensor t from the
// scratchpads of the cores that write it.
static const char *why_unread(dv_life *l, int32_t t)
{
    const char *readers = readers_apart(l, t, 1);
    return readers                              ? readers
           : l->read_at[t] == l->read_at[t + 1] ? "nobody reads it"
           : l->tile_first[l->def[t]] >= 0
               ? "the op that writes it loops over tiles, and its readers are "
                 "not in the loop"
               : "its readers divide it in another way, and cannot get it from "
                 "other cores";
}

// Adds tensor t as a candidate to be resident in the scratchpads from the op on
// that writes it. Returns NULL, or the reason why it cannot be.
static const char *add_written(dv_life *l, int32_t t, uint8_t *done)
{
    const dv_plan *plan = l->plan;
    const dv_op *o = &plan->ops->ops[l->def[t]];
    dv_view v;
    if (o->is_extern)
        return "an opaque op writes it";
    if (l->apart[l->def[t]])
        return say(l, "op %s, which writes it, %s", o->name,
                   l->apart[l->def[t]]);
    if (is_summed(l, l->def[t])) {
        add_summed(l, t);
        return NULL;
    }
    if (l->rules->reductions && !dv_op_reduce(o))
        return "it is not what a reduction leaves";
    const char *why = view_of(l, &v, l->def[t], o->n_reads);
    if (why)
        return why;
    dv_cand c = {.tensor = t,
                 .as_op = l->def[t],
                 .as_access = o->n_reads,
                 .first_op = l->def[t],
                 .end_op = l->def[t] + 1,
                 .fill = DV_FILL_WRITTEN,
                 .core_bytes = dv_view_bytes(&v, &plan->layouts[t])};
    double gain = add_uses(l, &c, &v, 0, done);
    double write_bytes =
        (double)(dv_view_elems(&v) * elem_bytes(l, t)) * l->times[l->def[t]];
    mark_uses(l, &c, done);
    dv_cand *x = push_cand(l, c);
    int32_t number = l->n_cands - 1;
    // A copy over the ring (network between cores) starts a new group (ops that
    // share one tile space). If other programs use the scratchpads too
    // (tenants), these are wiped after each group, so the source would be lost.
    if (x && l->rules->ring && !l->rules->tenants &&
        l->tile_first[l->def[t]] < 0)
        add_rings(l, number, &v, done);
    if (!x || l->nomem)
        return NULL;
    x = &l->cands[number];
    gain += add_passes(l, x, plan->ops->tensors[t].is_output ? 0 : write_bytes,
                       done);
    x->stored = plan->ops->tensors[t].is_output || left_over(l, t, done);
    if (!x->stored)
        gain += write_bytes;
    x->gain_bytes = (int64_t)gain;
    if (x->n_uses == 0 && x->n_passes == 0 && x->group == 0) {
        l->n_cands--;
        return why_unread(l, t);
    }
    return NULL;
}

// If a candidate is loaded in a loop over tiles and consecutive tiles have
// equal boxes, makes it live as long as the loop, so that each box is loaded
// once.
static void make_stay(const dv_life *l, dv_cand *c, const dv_view *v)
{
    int32_t first = l->tile_first[c->as_op];
    if (first >= 0 && l->def[c->tensor] < first &&
        dv_view_changes(v) < dv_view_elems(v)) {
        c->first_op = first;
        c->end_op = l->tile_end[c->as_op];
    }
}

double dv_life_load_bytes(const dv_life *l, const dv_cand *c, const dv_view *v)
{
    int32_t first = l->tile_first[c->as_op], end = l->tile_end[c->as_op];
    int64_t bytes = dv_life_read_bytes(l, c->as_op, c->as_access);
    if (first >= 0) {
        int stays = c->first_op == first && c->end_op == end;
        bytes = (stays ? dv_view_changes(v) : dv_view_elems(v)) *
                elem_bytes(l, c->tensor);
        if (dv_can_share(l->plan, l->rules, c->as_op, c->as_access))
            bytes /= dv_sharers(l->plan, c->as_op, c->as_access);
    }
    return (double)bytes * l->times[c->as_op];
}

// Adds tensor t as a candidate to be loaded from main memory into the
// scratchpads for two or more readers, or for several tiles, with the view
// (which core holds which part) that saves most, of those that fit. Returns
// NULL, or the reason why it cannot be.
static const char *add_loaded(dv_life *l, int32_t t, uint8_t *done)
{
    dv_cand best = {.n_uses = 0};
    double most = 0;
    int best_fits = 0;
    int32_t tried = 0;
    for (int32_t i = l->read_at[t]; i < l->read_at[t + 1] && tried < MAX_VIEWS;
         i++) {
        int32_t op = l->reads[i];
        dv_view v;
        if (done[i - l->read_at[t]] || l->plan->ops->ops[op].is_extern ||
            l->apart[op] ||
            view_of(l, &v, op, dv_access_of(&l->plan->ops->ops[op], t)))
            continue;
        dv_cand c = {.tensor = t,
                     .as_op = op,
                     .as_access = dv_access_of(&l->plan->ops->ops[op], t),
                     .first_op = op,
                     .end_op = op + 1,
                     .fill = DV_FILL_LOADED,
                     .core_bytes = dv_view_bytes(&v, &l->plan->layouts[t])};
        tried++;
        double gain = add_uses(l, &c, &v, 1, done);
        make_stay(l, &c, &v);
        gain -= dv_life_load_bytes(l, &c, &v);
        int fits = c.core_bytes <= l->plan->scratch.capacity_bytes;
        if (gain > 0 &&
            (fits > best_fits || (fits == best_fits && gain > most))) {
            most = gain;
            best = c;
            best_fits = fits;
        } else {
            l->n_uses = c.uses;
        }
    }
    if (best.n_uses == 0) {
        const char *readers = readers_apart(l, t, 2);
        return readers ? readers
               : l->read_at[t + 1] - l->read_at[t] < 2
                   ? "it is read once: keeping it would save nothing"
                   : "its readers divide it differently: none finds on its "
                     "core what another loaded";
    }
    best.gain_bytes = (int64_t)most;
    mark_uses(l, &best, done);
    push_cand(l, best);
    return NULL;
}

// Adds an entry for a tensor that cannot be a scratchpad home (resident on the
// cores), with the reason for the report.
static void add_barred(dv_life *l, int32_t t, const char *why)
{
    int32_t first = l->def[t] < 0 ? 0 : l->def[t], end = first + 1;
    if (l->def[t] < 0 && l->read_at[t] < l->read_at[t + 1])
        first = l->reads[l->read_at[t]];
    if (l->read_at[t] < l->read_at[t + 1])
        end = l->reads[l->read_at[t + 1] - 1] + 1;
    push_cand(l, (dv_cand){.tensor = t,
                           .as_op = -1,
                           .first_op = first,
                           .end_op = end > first ? end : first + 1,
                           .core_bytes = l->plan->layouts[t].bytes,
                           .barred = why});
}

static void add_tensor(dv_life *l, int32_t t)
{
    int32_t before = l->n_cands, n = l->read_at[t + 1] - l->read_at[t];
    const char *why = NULL;
    uint8_t *done = DV_NEW(l->arena, uint8_t, n);
    l->nomem |= !done;
    if (l->nomem)
        return;
    if (l->updated[t])
        why = "it is updated in place";
    else if (is_barred(l, t))
        why = "it is barred";
    else if (l->def[t] >= 0)
        why = add_written(l, t, done);
    if (!l->updated[t] && !is_barred(l, t) && l->rules->clones &&
        !l->rules->reductions && left_over(l, t, done)) {
        const char *second = add_loaded(l, t, done);
        why = why ? why : second;
    } else if (l->def[t] < 0 && !why) {
        why = n == 0                 ? "nobody reads it"
              : l->rules->reductions ? "it is not what a reduction leaves"
                                     : "inputs are not cloned";
    }
    if (l->n_cands == before && !l->nomem)
        add_barred(l, t, why);
}

// Returns whether the candidate's scratchpad home (resident tensor) is filled
// again in every iteration of the loop around the op, and for every tile.
static int is_refilled(const dv_life *l, const dv_cand *c, int32_t op)
{
    int32_t loop = l->loop_of[op], first = l->tile_first[op];
    if (first >= 0 && (l->tile_first[c->as_op] != first ||
                       (c->fill == DV_FILL_LOADED && c->first_op == first &&
                        c->end_op == l->tile_end[op])))
        return 0;
    return loop < 0 || c->first_op >= l->plan->ops->repeats[loop].first_op;
}

// Returns whether the op that writes candidate `child` may overwrite the
// scratchpad bytes of candidate `parent` element by element.
static int may_overwrite(const dv_life *l, const dv_cand *parent,
                         const dv_cand *child)
{
    const dv_plan *plan = l->plan;
    const dv_op *o = &plan->ops->ops[child->first_op];
    const dv_layout *a = &plan->layouts[parent->tensor];
    const dv_layout *b = &plan->layouts[child->tensor];
    dv_view x, y;
    if (parent->barred || !is_refilled(l, parent, child->first_op) ||
        child->core_bytes > parent->core_bytes ||
        parent->tensor == child->tensor || a->n_dims != b->n_dims ||
        a->elem_bytes != b->elem_bytes || dv_op_reduce(o) ||
        memcmp(a->size, b->size, (size_t)a->n_dims * sizeof *a->size) ||
        memcmp(a->host, b->host, (size_t)a->n_dims * sizeof *a->host))
        return 0;
    for (int r = 0; r < o->n_reads; r++) {
        dv_access at = o->write;
        at.tensor = parent->tensor;
        if (o->reads[r].tensor == parent->tensor &&
            !dv_access_equal(o, &o->reads[r], &at))
            return 0;
    }
    return !view_of(l, &x, parent->as_op, parent->as_access) &&
           !view_of(l, &y, child->as_op, child->as_access) &&
           dv_view_same(&x, &y);
}

// Finds, for each candidate that an op writes, the candidates whose scratchpad
// bytes it may reuse in place. Returns 0 when out of memory.
static int find_parents(dv_life *l)
{
    const dv_program *p = l->plan->ops;
    int32_t *first = DV_NEW(l->arena, int32_t, p->n_tensors);
    int32_t *next = DV_NEW(l->arena, int32_t, l->n_cands);
    if (!first || !next)
        return 0;
    for (int32_t t = 0; t < p->n_tensors; t++)
        first[t] = -1;
    for (int32_t i = l->n_cands - 1; i >= 0; i--) {
        next[i] = first[l->cands[i].tensor];
        first[l->cands[i].tensor] = i;
    }
    for (int32_t i = 0; i < l->n_cands; i++) {
        dv_cand *c = &l->cands[i];
        if (c->barred || c->fill != DV_FILL_WRITTEN)
            continue;
        const dv_op *o = &p->ops[c->first_op];
        for (int r = 0; r < o->n_reads; r++)
            for (int32_t k = first[o->reads[r].tensor]; k >= 0; k = next[k])
                if (l->cands[k].end_op == c->first_op + 1 && c->n_parents < 2 &&
                    l->cands[k].n_uses > 0 &&
                    l->uses[l->cands[k].uses + l->cands[k].n_uses - 1] ==
                        c->first_op &&
                    may_overwrite(l, &l->cands[k], c)) {
                    if (dv_op_set_has(&l->plan->target.in_place, o))
                        c->parent[c->n_parents++] = k;
                    else
                        c->denied = l->cands[k].tensor + 1;
                }
    }
    return 1;
}

// Numbers the runs of consecutive ops that could form one group: in a run,
// every core has the same tile numbers of all ops.
static int find_runs(dv_life *l, const uint8_t *cuts)
{
    const dv_plan *plan = l->plan;
    int32_t n = plan->ops->n_ops, run = 0;
    l->run_of = DV_NEW(l->arena, int32_t, n);
    if (!l->run_of)
        return 0;
    for (int32_t i = 0; i < n; i++) {
        if (i > 0 && ((cuts && cuts[i]) || dv_group_alone(plan, i) ||
                      dv_group_alone(plan, i - 1) ||
                      l->loop_of[i] != l->loop_of[i - 1] ||
                      l->tile_first[i] != l->tile_first[i - 1] ||
                      !dv_same_deals(&plan->groups[dv_group_of(plan, i)],
                                     &plan->groups[dv_group_of(plan, i - 1)])))
            run++;
        l->run_of[i] = run;
    }
    return 1;
}

int dv_life_make(dv_life *l, const dv_plan *plan, const dv_scratch_rules *rules,
                 const uint8_t *cuts, dv_arena *arena)
{
    *l = (dv_life){.plan = plan, .rules = rules, .arena = arena};
    if (!look_up(l) || (rules->tenants && !find_runs(l, cuts)))
        return 0;
    for (int32_t t = 0; t < plan->ops->n_tensors && !l->nomem; t++)
        add_tensor(l, t);
    return !l->nomem && (!rules->in_place || find_parents(l));
}
