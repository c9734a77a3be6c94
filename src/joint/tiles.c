// Runs ops whose tensors do not fit the scratchpads in loops over tiles.
//
// If a tensor between two ops is larger than all scratchpads together, it is
// not resident, however the ops are divided over the cores. Cut into more tiles
// than there are cores, with all ops of the group run for one tile before the
// next, it is: only one tile of it per core exists at a time.
//
//   softmax of 4096 rows of 8192 f16 on 32 cores with 1.55 MiB each:
//   128 rows a core need 2 MiB for x alone; in a loop over two tiles of 64
//   rows each, x is loaded once, and d and e stay on the core in its place
//
// A trial is a run of consecutive ops that are cut by the variables of one or
// two sets which are indexed alike (chain.c), and the number of slices of each.
// The second set may contain a reduced variable, if every core has all of its
// slices: the op then sums up a part of its results for every tile.
// Ops between them that cannot be cut so, and do not depend on them, are moved
// in front of the loop.
// Trials are ranked by an estimate of the main memory traffic that they save;
// the first few, or of a tiny program all, are planned, and the best is kept if
// the plan is predicted to be faster, or as fast with less traffic. This is
// repeated from the new plan.
// The effort is limited by counts, so the result is deterministic unless a time
// limit ends the search.
#include "base/math.h"
#include "base/stop.h"
#include "plan/price.h"
#include "plan/traffic.h"
#include "joint/joint.h"
#include <string.h>

// A run is a range of ops for one loop over tiles: at most MAX_RUN ops, from at
// most MAX_BEFORE ops before one that causes avoidable traffic. A core has at
// most MAX_ROUNDS tiles. Each round of the search plans MAX_PLANNED trials. It
// ends when MAX_STEPS runs have been estimated, or the ops of planned trials
// reach MAX_PLANNED_OPS; TINY_OPS if the program has at most TINY ops, of which
// all trials are planned.
enum {
    MAX_RUN = 32,
    MAX_BEFORE = 8,
    MAX_ROUNDS = 64,
    MAX_PLANNED = 4,
    MAX_STEPS = 20000,
    MAX_PLANNED_OPS = 1200,
    TINY = 5,
    TINY_OPS = 5000
};

// One loop over tiles to try: ops first..end - 1 become one group. Ops of the
// bit mask `moved` are left out of it and run before op `first`. The others are
// cut by the variables that belong to set[0] (dv_alike_root numbers the sets of
// variables that index the same dims) into n[0] slices of length len[0], and by
// those of set[1], unless it is negative, in the same way; those of op `first`
// are var[0] and var[1]. A core goes through the slices of set[1] first.
typedef struct trial {
    int32_t first, end;
    uint32_t moved; // bit i: op first + i
    int32_t set[2];
    int var[2];
    int64_t len[2], n[2];
    double saved_bytes;
} trial;

// A tensor that the ops of a run (the ops of one loop over tiles) access.
typedef struct operand {
    int32_t tensor;
    int written; // 1 if an op of the run writes it
    // 1 if the first op that accesses it may write it in place of an operand.
    int in_place;
    double bytes; // that one tile accesses
    // If tiles add partial sums to it: the bytes of the accumulators of one
    // core.
    double sum_bytes;
    int32_t first, last; // ops of the run that access it
    int32_t n_readers;   // ops of the run that read it
    int varies[2];       // whether it is indexed by the variable of each set
    // 1 if a tile exceeds the target's span limit on it, so that it must be
    // resident instead of in main memory.
    int too_far;
} operand;

typedef struct looper {
    dv_plan *plan;
    const dv_scratch_rules *rules;
    dv_divide_space **spaces;
    dv_arena *arena;
    dv_diag *diag;
    dv_alike alike;
    int32_t *loop_of;   // per op: the innermost repeat around it, or -1
    int32_t *def;       // per tensor: the op that defines it, or -1
    int32_t *n_readers; // per tensor: number of ops that read it
    // Per op of the best plan so far: the bytes that it moves between main
    // memory and the cores; and whether a loop over tiles that begins with it
    // might save traffic.
    double *traffic;
    uint8_t *starts;
    // The operands of the run (the ops of one loop over tiles) being estimated;
    // slot[tensor] is the index of a tensor in `list`, or -1.
    operand *list;
    int32_t n_list, *slot;
    int64_t steps, planned;
    int nomem;
    // All trials of the current round, if the program has at most TINY ops.
    trial *all;
    int32_t n_all, cap_all;
    dv_plan_snapshot best;
    dv_joint_price best_price;
    dv_joint_price least; // a lower bound of the price of any plan
    // Per op of the best plan: its number when the search began; and whether
    // any number has changed.
    int32_t *order;
    int reordered;
} looper;

// Returns whether a trial may cut reduced variables in set k: only if one core
// computes all slices of the set one after the other, and so adds them up.
static int may_sum(const looper *l, const trial *t, int k)
{
    return k == 1 && t->n[0] % l->plan->target.cores == 0 &&
           l->rules->time_limit_s <= 0;
}

// Returns whether a tensor is written by an op before `op` that is in the
// trial's loop over tiles.
static int is_made_in_run(const looper *l, const trial *t, int32_t op,
                          int32_t tensor)
{
    int32_t from = l->def[tensor];
    return from >= t->first && from < op &&
           !(t->moved >> (from - t->first) & 1);
}

// Returns whether variable v of an op belongs to set k of a trial, whose
// variables it cuts alike, and may be cut.
static int may_cut_var(const looper *l, const trial *t, int k, int32_t op,
                       int v)
{
    return l->plan->ops->ops[op].vars[v].reduce <= may_sum(l, t, k) &&
           !(l->spaces[op]->blocked >> v & 1) &&
           dv_alike_root(&l->alike, op, v) == t->set[k];
}

static int var_of(const looper *l, const trial *t, int k, int32_t op);

// Returns whether variable v of an op indexes a dim of an operand along which
// the trial cuts the op, in the same loop over tiles, that writes this operand.
static int reads_along(const looper *l, const trial *t, int k, int32_t op,
                       int v)
{
    const dv_program *p = l->plan->ops;
    const dv_op *o = &p->ops[op];
    for (int r = 0; r < o->n_reads; r++) {
        const dv_access *a = &o->reads[r];
        int32_t from = l->def[a->tensor];
        int cut =
            is_made_in_run(l, t, op, a->tensor) ? var_of(l, t, k, from) : -1;
        for (int i = 0; i < a->n_dims && cut >= 0; i++) {
            int64_t n = p->tensors[a->tensor].shape[i];
            const dv_op *w = &p->ops[from];
            if (a->index[i].via < 0 &&
                dv_index_whole_var(w, &w->write.index[i], n) == cut &&
                dv_index_whole_var(o, &a->index[i], n) == v)
                return 1;
        }
    }
    return 0;
}

// Returns the variable of an op that a trial cuts as its set number k, or -1.
// Of several, as in t3[i,j] = sum[k] w[i,k] * t2[k,j] with a square w, prefer
// the one that reads the tile of the op before; else the first that is not
// reduced.
static int var_of(const looper *l, const trial *t, int k, int32_t op)
{
    const dv_op *o = &l->plan->ops->ops[op];
    int found = -1, n = 0;
    if (op == t->first)
        return t->var[k];
    for (int v = 0; v < o->n_vars; v++)
        if (may_cut_var(l, t, k, op, v)) {
            if (found < 0 || o->vars[v].reduce < o->vars[found].reduce)
                found = v;
            n++;
        }
    for (int v = 0; v < o->n_vars && n > 1; v++)
        if (may_cut_var(l, t, k, op, v) && reads_along(l, t, k, op, v))
            return v;
    return found;
}

static int n_sets(const trial *t)
{
    return t->set[1] < 0 ? 1 : 2;
}

// Returns whether an op may belong to a loop over tiles at all.
static int may_loop(const looper *l, int32_t op)
{
    return dv_joint_may_cut(l->plan, op) &&
           !dv_access_is_indirect(&l->plan->ops->ops[op].write) &&
           !l->plan->groups[op].loops;
}

// Finds how a trial cuts an op: the variables that it cuts, and the number of
// slices of every variable. Returns 0 if that cut is not legal.
static int cut_of(const looper *l, const trial *t, int32_t op, int var[2],
                  dv_splits *d)
{
    const dv_divide_space *s = l->spaces[op];
    if (!may_loop(l, op))
        return 0;
    for (int v = 0; v < DV_MAX_VARS; v++)
        d->n[v] = 1;
    for (int k = 0; k < n_sets(t); k++) {
        int v = var[k] = var_of(l, t, k, op);
        if (v < 0 || (k && v == var[0]) ||
            (t->n[k] > 1 && t->len[k] % s->eps[v]) ||
            dv_ceil_div(s->extent[v], t->len[k]) != t->n[k])
            return 0;
        d->n[v] = t->n[k];
    }
    return 1;
}

// Returns whether a tile of an op exceeds the target's span limit on the tensor
// of access k, if that is in main memory.
static int reaches_too_far(const looper *l, int32_t op, int k,
                           const dv_splits *d)
{
    int64_t limit = l->plan->target.span_limit_bytes;
    return limit && dv_span(l->spaces[op], k, d, 0) > limit;
}

// Returns whether every tile of an op reads only the part of a tensor that the
// same tile of its writer has written, with both ops cut as a trial says.
static int reads_own_tile(const looper *l, const trial *t, int32_t op,
                          const dv_access *a)
{
    const dv_program *p = l->plan->ops;
    const dv_tensor *x = &p->tensors[a->tensor];
    int32_t from = l->def[a->tensor];
    const dv_op *o = &p->ops[op], *w = &p->ops[from];
    int var[2], own[2], found = 0;
    dv_splits d;
    if (!cut_of(l, t, from, var, &d) || !cut_of(l, t, op, own, &d))
        return 0;
    for (int i = 0; i < a->n_dims; i++) {
        if (a->index[i].via >= 0)
            return 0;
        int written = dv_index_whole_var(w, &w->write.index[i], x->shape[i]);
        int read = dv_index_whole_var(o, &a->index[i], x->shape[i]);
        if (written == DV_NO_VAR || read == DV_NO_VAR)
            return 0;
        for (int k = 0; k < n_sets(t); k++)
            if (written == var[k] && var[k] >= 0) {
                if (read != own[k])
                    return 0;
                found++;
            }
    }
    return found == n_sets(t);
}

// Returns whether an op may be moved in front of a trial's loop over tiles: it
// reads no result of the loop's ops before it.
static int may_move(const looper *l, const trial *t, int32_t op)
{
    const dv_op *o = &l->plan->ops->ops[op];
    if (!l->rules->reorder || o->is_extern || o->update ||
        l->loop_of[op] != l->loop_of[t->first])
        return 0;
    for (int r = 0; r < o->n_reads; r++)
        if (is_made_in_run(l, t, op, o->reads[r].tensor))
            return 0;
    return 1;
}

// Returns whether an op may follow the ops before it in a trial's loop over
// tiles.
static int joins(const looper *l, const trial *t, int32_t op)
{
    const dv_op *o = &l->plan->ops->ops[op];
    int var[2];
    dv_splits d;
    if (!cut_of(l, t, op, var, &d) || l->loop_of[op] != l->loop_of[t->first])
        return 0;
    for (int k = 0; k <= o->n_reads; k++) {
        int32_t x = dv_op_access(o, k)->tensor;
        int made = k < o->n_reads && is_made_in_run(l, t, op, x);
        // Results of the loop's own ops are expected to be resident. With a
        // time limit for placing them, some could remain in main memory.
        int stays =
            l->rules->time_limit_s <= 0 &&
            (made || (k == o->n_reads && !l->plan->ops->tensors[x].is_output));
        if ((made && !reads_own_tile(l, t, op, &o->reads[k])) ||
            (!stays && reaches_too_far(l, op, k, &d)))
            return 0;
    }
    return 1;
}

// -- The estimate ------------------------------------------------------------

static operand *operand_of(looper *l, int32_t tensor, int32_t op)
{
    if (l->slot[tensor] < 0) {
        l->slot[tensor] = l->n_list;
        l->list[l->n_list++] = (operand){.tensor = tensor, .first = op};
    }
    operand *x = &l->list[l->slot[tensor]];
    x->last = op;
    return x;
}

static void forget_operands(looper *l)
{
    for (int32_t i = 0; i < l->n_list; i++)
        l->slot[l->list[i].tensor] = -1;
    l->n_list = 0;
}

// Adds the operands of an op to those of the loop over tiles that it joins.
static void add_op(looper *l, const trial *t, int32_t op)
{
    const dv_op *o = &l->plan->ops->ops[op];
    const dv_divide_space *s = l->spaces[op];
    int var[2], dies = 0;
    dv_splits d;
    cut_of(l, t, op, var, &d);
    for (int r = 0; r < o->n_reads; r++) {
        operand *x = operand_of(l, o->reads[r].tensor, op);
        uint32_t vars = dv_access_vars(o, &o->reads[r]);
        int again = 0;
        for (int k = 0; k < r; k++)
            again |= o->reads[k].tensor == o->reads[r].tensor;
        x->n_readers += !again;
        double bytes = dv_divide_transferred(s, r, &d);
        x->bytes = bytes > x->bytes ? bytes : x->bytes;
        for (int k = 0; k < n_sets(t); k++)
            x->varies[k] |= (vars >> var[k] & 1) != 0;
        dies |= l->n_readers[x->tensor] == x->n_readers &&
                x->bytes >= dv_divide_transferred(s, o->n_reads, &d);
    }
    operand *x = operand_of(l, o->write.tensor, op);
    x->written = 1;
    x->in_place = dies && !dv_op_reduce(o);
    if (n_sets(t) == 2 && t->n[1] > 1 && o->vars[var[1]].reduce) {
        d.n[var[1]] = 1;
        x->sum_bytes = (double)dv_op_partial_bytes(l->plan->ops, o);
        for (int v = 0; v < o->n_vars; v++)
            x->sum_bytes *= o->vars[v].reduce ? 1
                            : v == var[0]     ? (double)t->len[0]
                                              : (double)dv_var_len(o, v);
    }
    x->bytes = dv_divide_transferred(s, o->n_reads, &d);
    x->too_far = reaches_too_far(l, op, o->n_reads, &d);
}

// Returns the peak of the bytes of a tile that are live on a core: of tensors
// that ops first..end - 1 write and read, or read twice.
static double peak_of(const looper *l, int32_t first, int32_t end)
{
    double most = 0;
    for (int32_t op = first; op < end; op++) {
        double sum = 0;
        for (int32_t i = 0; i < l->n_list; i++) {
            const operand *x = &l->list[i];
            sum += x->sum_bytes;
            if (x->first + x->in_place <= op && op <= x->last &&
                x->n_readers > !x->written)
                sum += x->bytes;
        }
        most = sum > most ? sum : most;
    }
    return most;
}

// Returns how many loads of a tile's part of an operand all cores do in total,
// if a core keeps the part until its next tile needs another one.
static double loads_of(const looper *l, const trial *t, const operand *x)
{
    int64_t tiles = t->n[0] * t->n[1], cores = l->plan->target.cores;
    if (x->varies[n_sets(t) - 1])
        return (double)tiles;
    return (double)dv_max_i64(x->varies[0] ? t->n[0] : 1,
                              dv_min_i64(tiles, cores));
}

// Returns how many cores need the same part of an operand at the same time and
// can share one read from main memory; 1 if they cannot.
static double sharers_of(const looper *l, const trial *t, const operand *x)
{
    int64_t cores = l->plan->target.cores, tiles = t->n[0] * t->n[1];
    int64_t rounds = tiles / cores, inner = dv_min_i64(t->n[1], rounds);
    if (!l->rules->ring || !l->plan->target.ring || l->plan->target.tile_rows ||
        tiles % cores || rounds % inner || t->n[1] % inner ||
        t->n[0] % (rounds / inner))
        return 1;
    // The number of slices of each set of variables that all cores together
    // process in one round.
    int64_t of[2] = {t->n[0] / (rounds / inner), t->n[1] / inner};
    int64_t n = (x->varies[0] ? 1 : of[0]) * (x->varies[1] ? 1 : of[1]);
    return (double)(dv_target_has_rings(&l->plan->target)
                        ? dv_min_i64(n, l->plan->target.ring_cores)
                        : n);
}

// Estimates the bytes that a loop over tiles of ops up to `end` moves between
// main memory and the cores; -1 if its tensors do not fit the scratchpads, or
// one must be stored that the span limit keeps out of main memory.
static double estimate(const looper *l, const trial *t, int32_t end)
{
    double tiles = (double)(t->n[0] * t->n[1]), sum = 0;
    double room =
        (double)l->plan->scratch.capacity_bytes - peak_of(l, t->first, end);
    if (room < 0)
        return -1;
    for (int32_t i = 0; i < l->n_list; i++) {
        const operand *x = &l->list[i];
        double loads = loads_of(l, t, x);
        double sharers = x->written ? 1 : sharers_of(l, t, x);
        int stored =
            x->written && (l->plan->ops->tensors[x->tensor].is_output ||
                           l->n_readers[x->tensor] > x->n_readers);
        if (stored && x->too_far)
            return -1;
        if (x->written) {
            double stores = x->sum_bytes > 0 ? tiles / (double)t->n[1] : tiles;
            sum += stored ? stores * x->bytes : 0;
        } else if (loads < tiles && x->bytes <= room) {
            room -= x->bytes;
            sum += loads * x->bytes / sharers;
        } else {
            sum += tiles * x->bytes / sharers;
        }
    }
    return sum;
}

// Returns a bit mask of the ops to move in front of the loop, because an op
// cannot follow those before it: the op itself, or the ops of which it reads
// more than its own tile. Returns 0 if that does not help.
static uint32_t ops_to_move(const looper *l, const trial *t, int32_t op)
{
    const dv_op *o = &l->plan->ops->ops[op];
    int var[2];
    dv_splits d;
    uint32_t mask = 0;
    if (op == t->first)
        return 0;
    if (may_move(l, t, op))
        return 1u << (op - t->first);
    if (!cut_of(l, t, op, var, &d))
        return 0;
    for (int r = 0; r < o->n_reads; r++) {
        int32_t from = l->def[o->reads[r].tensor];
        if (!is_made_in_run(l, t, op, o->reads[r].tensor) ||
            reads_own_tile(l, t, op, &o->reads[r]))
            continue;
        if (from == t->first || !may_move(l, t, from))
            return 0;
        mask |= 1u << (from - t->first);
    }
    return mask;
}

static int is_tiny(const looper *l)
{
    return l->plan->ops->n_ops <= TINY;
}

// Records a trial if the program is tiny, so that all trials can be planned.
// Returns 0 when out of memory.
static int note_trial(looper *l, const trial *t, int32_t end)
{
    trial *x = is_tiny(l)
                   ? DV_PUSH(l->arena, trial, l->all, l->n_all, l->cap_all)
                   : NULL;
    if (x) {
        *x = *t;
        x->end = end;
    }
    return x || !is_tiny(l);
}

// Estimates loops over tiles of ever more ops, from the trial's first op on.
// *best becomes the one that saves most traffic, if it saves more than the
// previous *best.
static void estimate_runs(looper *l, trial *t, trial *best)
{
    double before = 0;
    t->moved = 0;
    for (int32_t op = t->first;
         op < l->plan->ops->n_ops && op < t->first + MAX_RUN &&
         l->steps < MAX_STEPS && !dv_stop_late();
         op++, l->steps++) {
        if (t->moved >> (op - t->first) & 1)
            continue;
        if (!joins(l, t, op)) {
            uint32_t more = ops_to_move(l, t, op);
            if (!more)
                break;
            // Begin again, with these ops moved in front of the loop.
            t->moved |= more;
            forget_operands(l);
            before = 0;
            op = t->first - 1;
            continue;
        }
        add_op(l, t, op);
        before += l->traffic[op];
        double after = op > t->first ? estimate(l, t, op + 1) : -1;
        l->nomem |= op > t->first && !note_trial(l, t, op + 1);
        if (after < 0 || before - after <= best->saved_bytes)
            continue;
        t->end = op + 1;
        t->saved_bytes = before - after;
        *best = *t;
    }
    forget_operands(l);
}

// Sets the variable of set k of a trial, and the length and number of its
// slices, about n. Returns 0 if the variable has too few values for n.
static int set_cut(const looper *l, trial *t, int k, int v, int64_t n)
{
    const dv_divide_space *s = l->spaces[t->first];
    t->set[k] = dv_alike_root(&l->alike, t->first, v);
    t->var[k] = v;
    t->len[k] = dv_ceil_div(s->units[v], n) * s->eps[v];
    t->n[k] = dv_ceil_div(s->extent[v], t->len[k]);
    return s->units[v] >= n;
}

// Estimates trials that begin with an op and cut variable v, and also w if it
// is not negative, doubling the number of tiles each time.
static void estimate_vars(looper *l, int32_t op, int v, int w, trial *best)
{
    int64_t cores = l->plan->target.cores;
    int64_t most = l->plan->target.tiles_per_core;
    most = cores * (most && most < MAX_ROUNDS ? most : MAX_ROUNDS);
    trial t = {.first = op, .set = {-1, -1}, .n = {1, 1}};
    for (int64_t k = 2; k <= MAX_ROUNDS; k *= 2) {
        int64_t outer =
            w < 0 ? cores * k : dv_min_i64(l->spaces[op]->units[v], cores);
        if (!set_cut(l, &t, 0, v, outer) ||
            (w >= 0 && !set_cut(l, &t, 1, w, k * cores / t.n[0])) ||
            t.n[0] * t.n[1] > most)
            return;
        if (t.n[0] * t.n[1] > cores)
            estimate_runs(l, &t, best);
    }
}

// Returns whether an earlier op begins an equal sequence of ops: a trial at
// that op changes this sequence in the same way, so it need not be tried again.
static int is_like_earlier(const dv_plan *plan, int32_t op)
{
    const dv_division *d = plan->divisions;
    int32_t like = d[op].like;
    for (int32_t k = 0; k < MAX_RUN && op + k < plan->ops->n_ops; k++)
        if (like >= op || d[like + k].like != d[op + k].like)
            return 0;
    return 1;
}

// Estimates the trials of all first ops. top[0..n] become the best ones, those
// that save most traffic, with different first ops; returns n.
static int32_t estimate_all(looper *l, trial *top)
{
    const dv_program *p = l->plan->ops;
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        trial best = {.saved_bytes = 0};
        if (!may_loop(l, i) ||
            (!is_tiny(l) && (!l->starts[i] || is_like_earlier(l->plan, i))))
            continue;
        for (int v = 0; v < p->ops[i].n_vars; v++) {
            if (p->ops[i].vars[v].reduce || l->spaces[i]->blocked >> v & 1)
                continue;
            estimate_vars(l, i, v, -1, &best);
            for (int w = 0; w < p->ops[i].n_vars; w++)
                if (w != v && !p->ops[i].vars[w].reduce &&
                    !(l->spaces[i]->blocked >> w & 1))
                    estimate_vars(l, i, v, w, &best);
        }
        if (best.saved_bytes <= 0)
            continue;
        int32_t at = n;
        while (at > 0 && best.saved_bytes > top[at - 1].saved_bytes)
            at--;
        if (at == MAX_PLANNED)
            continue;
        n += n < MAX_PLANNED;
        memmove(&top[at + 1], &top[at], (size_t)(n - 1 - at) * sizeof *top);
        top[at] = best;
    }
    return n;
}

// -- Planning ----------------------------------------------------------------

// Orders the digits of an op's tile numbers (mixed radix, a digit per
// variable): var[0] is the most significant variable, then var[1], then all
// others, which are not cut. Returns 0 when out of memory.
static int order_digits(dv_plan *plan, int32_t op, const int var[2])
{
    int n = 0, n_vars = plan->ops->ops[op].n_vars;
    int8_t *order = DV_NEW(&plan->arena, int8_t, n_vars);
    if (!plan->digits)
        plan->digits = DV_NEW(&plan->arena, const int8_t *, plan->ops->n_ops);
    if (!order || !plan->digits)
        return 0;
    for (int k = 0; k < 2; k++)
        order[n++] = (int8_t)var[k];
    for (int8_t v = 0; v < n_vars; v++)
        if (v != var[0] && v != var[1])
            order[n++] = v;
    plan->digits[op] = order;
    return 1;
}

// Cuts the variables of an op as a trial says, and deals its tiles.
static dv_status cut_op(looper *l, const trial *t, int32_t op)
{
    dv_plan *plan = l->plan;
    const dv_divide_space *s = l->spaces[op];
    int var[2];
    dv_splits d;
    cut_of(l, t, op, var, &d);
    for (int v = 0; v < s->n_vars; v++)
        plan->slices[op][v] = s->extent[v];
    for (int k = 0; k < n_sets(t); k++)
        plan->slices[op][var[k]] = dv_min_i64(t->len[k], s->extent[var[k]]);
    if (plan->digits)
        plan->digits[op] = NULL;
    if (n_sets(t) == 2 && var[0] > var[1] && !order_digits(plan, op, var))
        return dv_nomem(l->diag);
    plan->groups[op].n_tiles = dv_plan_n_tiles(plan, op);
    return dv_plan_deal(plan, op, &plan->groups[op], l->diag);
}

// Cuts the ops of a trial's loop and marks them as one loop over tiles. `order`
// lists all ops of the trial: those moved in front of the loop, then its own.
static dv_status cut_run(looper *l, const trial *t, int32_t *order)
{
    int32_t n = t->end - t->first, at = 0;
    for (int loop = 0; loop < 2; loop++)
        for (int32_t k = 0; k < n; k++) {
            if ((t->moved >> k & 1) == (uint32_t)loop)
                continue;
            order[at++] = t->first + k;
            if (loop)
                l->plan->groups[t->first + k].same_loop = k > 0;
        }
    for (int32_t k = 0; k < n; k++)
        if (!(t->moved >> k & 1))
            DV_TRY(cut_op(l, t, t->first + k));
    return DV_OK;
}

// Returns whether the ops of a trial are like those from op `first` on, and the
// trial's loop is legal for them, too.
static int is_alike(const looper *l, const trial *t, int32_t first)
{
    const dv_division *d = l->plan->divisions;
    int32_t n = t->end - t->first;
    if (t->end > l->plan->ops->n_ops)
        return 0;
    for (int32_t k = 0; k < n; k++)
        if (d[t->first + k].like != d[first + k].like ||
            !(t->moved >> k & 1 ? may_move(l, t, t->first + k)
                                : joins(l, t, t->first + k)))
            return 0;
    return 1;
}

// Changes the best plan so far as a trial says, at all places with the same
// ops; in a tiny program only at its own place, because trials of the others
// exist, too. order[i] becomes the number that op i has in the best plan.
static dv_status apply(looper *l, const trial *t, int32_t *order)
{
    int32_t n = l->plan->ops->n_ops;
    trial here = *t;
    dv_plan_snapshot_restore(&l->best, l->plan);
    for (int32_t i = 0; i < n; i++) {
        order[i] = i;
        here.first = i;
        here.end = i + t->end - t->first;
        if ((i == t->first || !is_tiny(l)) && is_alike(l, &here, t->first)) {
            DV_TRY(cut_run(l, &here, &order[i]));
            i = here.end - 1;
        }
    }
    if (t->moved && !dv_plan_rearrange(l->plan, order, n))
        return dv_nomem(l->diag);
    return DV_OK;
}

// Returns whether one of the next MAX_RUN ops after `op` reads a tensor from
// main memory.
static int is_read_again(const dv_plan *plan, int32_t op, int32_t tensor)
{
    for (int32_t i = op + 1; i < plan->ops->n_ops && i < op + MAX_RUN; i++)
        for (int r = 0; r < plan->ops->ops[i].n_reads; r++)
            if (plan->ops->ops[i].reads[r].tensor == tensor &&
                dv_home_of(plan, i, r) < 0)
                return 1;
    return 0;
}

// Returns whether op b reads a tensor that op a reads or writes.
static int are_connected(const dv_op *a, const dv_op *b)
{
    for (int k = 0; k <= a->n_reads; k++)
        for (int r = 0; r < b->n_reads; r++)
            if (dv_op_access(a, k)->tensor == b->reads[r].tensor)
                return 1;
    return 0;
}

// Op `last` accesses a tensor in main memory that a loop over tiles could keep
// on the cores. Marks it, and the ops before it that are connected with it and
// in the same repeat, as ops with which such a loop may begin.
static void mark_starts(looper *l, int32_t last)
{
    const dv_op *ops = l->plan->ops->ops;
    l->starts[last] = 1;
    for (int32_t i = last; i > 0 && i > last - MAX_BEFORE; i--) {
        if (l->loop_of[i - 1] != l->loop_of[last] ||
            !are_connected(&ops[i - 1], &ops[i]))
            break;
        l->starts[i - 1] = 1;
    }
}

// Finds the bytes that each op of a plan with chosen residents moves between
// main memory and the cores, and where loops over tiles that save traffic may
// begin.
static void find_losses(looper *l)
{
    const dv_plan *plan = l->plan;
    memset(l->starts, 0, (size_t)plan->ops->n_ops);
    for (int32_t g = 0; g < plan->n_groups; g++)
        for (int32_t i = plan->groups[g].first_op; i < plan->groups[g].end_op;
             i++) {
            const dv_op *o = &plan->ops->ops[i];
            dv_traffic t = dv_op_traffic(plan, g, i, -1);
            l->traffic[i] = (double)t.read_bytes + (double)t.write_bytes;
            int loses = is_read_again(plan, i, o->write.tensor);
            for (int r = 0; r < o->n_reads; r++)
                loses |= dv_home_of(plan, i, r) < 0 &&
                         is_read_again(plan, i, o->reads[r].tensor);
            if (loses)
                mark_starts(l, i);
        }
}

static int look_up(looper *l)
{
    const dv_program *p = l->plan->ops;
    dv_life life;
    if (!dv_life_make(&life, l->plan, l->rules, NULL, l->arena))
        return 0;
    l->loop_of = life.loop_of;
    l->def = life.def;
    l->n_readers = DV_NEW(l->arena, int32_t, p->n_tensors);
    l->slot = DV_NEW(l->arena, int32_t, p->n_tensors);
    l->list = DV_NEW(l->arena, operand, MAX_RUN * (DV_MAX_READS + 1));
    l->traffic = DV_NEW(l->arena, double, p->n_ops);
    l->starts = DV_NEW(l->arena, uint8_t, p->n_ops);
    if (!l->n_readers || !l->slot || !l->list || !l->traffic || !l->starts)
        return 0;
    for (int32_t t = 0; t < p->n_tensors; t++) {
        l->slot[t] = -1;
        l->n_readers[t] = life.read_at[t + 1] - life.read_at[t];
    }
    return dv_alike_make(&l->alike, l->plan, l->arena);
}

// A planned trial that is better than the best plan so far.
typedef struct winner {
    int any; // 0: there is none
    dv_plan_snapshot plan;
    // Per op: its number in the previous best plan, and the divisions it can
    // have.
    int32_t *order;
    dv_divide_space **spaces;
    int reordered;
} winner;

// Plans a trial (a loop over tiles). If the plan is cheaper than the best one
// so far, *found becomes that plan.
static dv_status plan_trial(looper *l, const trial *t, winner *found)
{
    int32_t n = l->plan->ops->n_ops;
    dv_joint_price price;
    winner now = {.any = 1,
                  .order = DV_NEW(l->arena, int32_t, n),
                  .spaces = DV_NEW(l->arena, dv_divide_space *, n),
                  .reordered = t->moved != 0};
    l->planned += n;
    if (!now.order || !now.spaces)
        return dv_nomem(l->diag);
    DV_TRY(apply(l, t, now.order));
    for (int32_t i = 0; i < n; i++)
        now.spaces[i] = l->spaces[now.order[i]];
    if (!dv_plan_snapshot_save(&now.plan, l->plan, l->arena))
        return dv_nomem(l->diag);
    DV_TRY(dv_joint_assess(&price, l->plan, l->rules, l->arena, l->diag));
    int relies;
    if (!dv_joint_cheaper(&price, &l->best_price) ||
        !dv_joint_homes_hold(l->plan, now.spaces, &relies))
        return DV_OK;
    l->best_price = price;
    *found = now;
    return DV_OK;
}

// Makes a cheaper plan the best one, from which the search continues.
static dv_status accept(looper *l, const winner *found)
{
    l->best = found->plan;
    l->spaces = found->spaces;
    for (int32_t i = 0; i < l->plan->ops->n_ops; i++)
        found->order[i] = l->order[found->order[i]];
    l->order = found->order;
    l->reordered |= found->reordered;
    dv_plan_snapshot_restore(&l->best, l->plan);
    return !found->reordered || look_up(l) ? DV_OK : dv_nomem(l->diag);
}

// Plans the trials with the best estimates, or all trials of a tiny program.
// *found becomes the cheapest plan that beats the best one so far.
static dv_status plan_trials(looper *l, winner *found)
{
    trial top[MAX_PLANNED + 1];
    const trial *list = top;
    int64_t most = is_tiny(l) ? TINY_OPS : MAX_PLANNED_OPS;
    l->n_all = 0;
    int32_t n = estimate_all(l, top);
    if (l->nomem)
        return dv_nomem(l->diag);
    if (is_tiny(l)) {
        list = l->all;
        n = l->n_all;
    }
    for (int32_t i = 0; i < n && l->planned < most && !dv_stop_late(); i++)
        DV_TRY(plan_trial(l, &list[i], found));
    return DV_OK;
}

static dv_status search(looper *l, int *any)
{
    for (int improved = 1;
         improved && dv_joint_cheaper(&l->least, &l->best_price);) {
        winner found = {.any = 0};
        dv_joint_price price;
        DV_TRY(dv_joint_assess(&price, l->plan, l->rules, l->arena, l->diag));
        find_losses(l);
        dv_plan_snapshot_restore(&l->best, l->plan);
        DV_TRY(plan_trials(l, &found));
        if (found.any)
            DV_TRY(accept(l, &found));
        dv_plan_snapshot_restore(&l->best, l->plan);
        improved = found.any;
        *any |= improved;
    }
    return DV_OK;
}

dv_status dv_joint_tiles(dv_tile_loops *out, dv_plan *plan,
                         const dv_scratch_rules *rules,
                         dv_divide_space *const *spaces, dv_joint_price price,
                         dv_arena *arena, dv_diag *diag)
{
    int32_t n = plan->ops->n_ops;
    looper l = {
        .plan = plan,
        .rules = rules,
        .spaces = DV_NEW(arena, dv_divide_space *, n),
        .order = DV_NEW(arena, int32_t, n),
        .arena = arena,
        .diag = diag,
        .best_price = price,
        .least = {dv_plan_least_us(plan), (double)dv_plan_least_bytes(plan)}};
    if (!l.spaces || !l.order || !look_up(&l) ||
        !dv_plan_snapshot_save(&l.best, plan, arena))
        return dv_nomem(diag);
    for (int32_t i = 0; i < n; i++) {
        l.spaces[i] = spaces[i];
        l.order[i] = i;
    }
    *out = (dv_tile_loops){.found = 0};
    DV_TRY(search(&l, &out->found));
    out->order = l.order;
    out->spaces = l.spaces;
    out->reordered = l.reordered;
    return DV_OK;
}
