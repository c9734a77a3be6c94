// The thread executor: each thread is one core of the plan. All threads follow
// the plan in one parallel region; each runs the tiles that the plan assigns to
// its core, and they synchronise at the end of each group (and within a group
// if a reduction is split over tiles or an op reads what it writes). A run
// allocates nothing and takes no locks; kernels and addresses are known before.
//
// The work of a core is a loop over tile numbers: start..start+count. The
// numbers are those of the plan's deals or of its grid, whose order maps them
// to tiles. If they come from a work queue instead, the queue decides which
// thread computes a tile, but not how: each is computed once, with the kernels
// that were prepared for it.
//
// A reduction that is split over tiles takes two phases: each thread computes
// the partial sums of its tiles; then the thread that owns the first part of a
// result adds the other parts in their order and finishes the result. So
// results depend on the plan alone.
//
// A dv_thread is the memory and the kernels of one core of the plan. OpenMP may
// provide fewer threads than the plan has cores (because of a limit or an
// enclosing parallel region); an OpenMP thread then does the work of several
// dv_threads one after the other. With the caller's thread pool, only the
// calling thread goes through the phases; the work of each is a parallel loop
// over the dv_threads.
#define _POSIX_C_SOURCE 200809L // declares sched_yield
#include "base/clock.h"
#include "base/fork.h"
#include "base/math.h"
#include "exec/state.h"
#include "exec/op/vec_range.h"
#include <sched.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { SPINS = 2000 }; // spins of a waiting thread before it yields

// Waits until all n threads of the run have arrived; a barrier.
static void wait_all(dv_run *r, int32_t n)
{
    if (n == 1)
        return;
    unsigned round = atomic_load_explicit(&r->round, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&r->arrived, 1, memory_order_acq_rel) ==
        n - 1) {
        atomic_store_explicit(&r->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&r->round, round + 1, memory_order_release);
        return;
    }
    for (int i = 0;
         atomic_load_explicit(&r->round, memory_order_acquire) == round; i++)
        if (i >= SPINS)
            sched_yield();
}

// What a phase does with all tiles before the threads synchronise: compute
// whole tiles, compute only their partial sums, or add up partial sums.
typedef enum phase { WHOLE, PARTS, COMBINE } phase;

// A thread of a run: its run, its exec, its number `id`, the number n of
// threads, and the phase it is in: ops first..end of a group (ops that share
// one tile space) on all tiles. All threads go through the same phases.
typedef struct thread {
    dv_run *r;
    const dv_exec *x;
    int32_t id, n;
    dv_walk walk;
    int32_t group, first, end; // group -1: before the first one
    phase what;
    int64_t n_phases; // that it has begun
    double start;     // when the group began, if groups are timed
} thread;

// -- Tiles: one op on one box at a time ---------------------------------------

// The position of a thread in its work of the current phase: an op and a tile
// of it.
typedef struct cursor {
    const thread *me;
    dv_thread *w;
    int32_t source; // number of the next deal, or of the next range of the grid
    // The tiles that remain of the current deal (a range of tiles per core), of
    // a range of the grid, or of those that were taken from the queue.
    int64_t next, end;
    int64_t tile, n_tiles; // the current tile; n_tiles > 1 if rows span several
    int skips;             // 1 if ops skip what they need not compute of it
    int32_t op;
    phase what;  // what is done with this tile
    dv_tile box; // the tile of this op
    // The range of the grid that the tile is from; NULL without a grid. Tiles
    // from a queue are all from `all`, the range of the whole grid.
    const dv_tile_range *range;
    dv_tile_range all;
} cursor;

static void start_op(dv_thread *w, int32_t op)
{
    const dv_run *r = w->run;
    dv_strips *s = &w->strips;
    s->k = &r->x->kernels[op];
    s->old = s->k->old_off < 0 ? NULL : (char *)r->snapshot + s->k->old_off;
    s->part = DV_WHOLE;
    s->n_parts = 0;
    // The addresses of element 0 of each read and of the write.
    const dv_op *o = s->k->op;
    for (int i = 0; i < o->n_reads; i++)
        w->at[i] = (void *)(uintptr_t)dv_strips_source(s, i);
    w->at[o->n_reads] = w->data[o->write.tensor];
}

// Sets the addresses of the temporaries of a group (ops that share one tile
// space) to this thread's tile buffers, moved back so that indices of the whole
// tensor address the current tile.
static void place_locals(dv_thread *w, const dv_group_exec *g, int64_t tile)
{
    const dv_exec *x = w->run->x;
    const dv_plan *plan = x->plan;
    for (int32_t i = 0; i < g->n_locals; i++) {
        const dv_tile_buffer *l = &g->locals[i];
        const dv_op *o = &plan->ops->ops[l->op];
        dv_tile t;
        dv_plan_tile(&t, plan, l->op, tile);
        // The offset of the tile's first element, by the buffer's strides.
        int64_t first = dv_flat_at(&x->kernels[l->op].write, o, t.begin);
        dv_dtype dtype = plan->ops->tensors[l->tensor].dtype;
        int64_t bytes = l->off_bytes - first * dv_dtype_get(dtype)->size_bytes;
        // The base address may lie outside of the buffer; the tile's elements
        // lie inside.
        w->data[l->tensor] = (void *)((uintptr_t)w->local + (uintptr_t)bytes);
    }
}

// Copies the id-th of n shares of the tensor that an op both reads and
// overwrites to its snapshot.
static void take_snapshot(dv_run *r, int32_t op, int32_t id, int32_t n)
{
    const dv_exec *x = r->x;
    if (x->kernels[op].old_off < 0)
        return;
    int32_t t = x->kernels[op].op->write.tensor;
    int64_t bytes = dv_tensor_bytes(&x->plan->ops->tensors[t]);
    int64_t from = bytes / n * id + dv_min_i64(id, bytes % n);
    int64_t len = bytes / n + (id < bytes % n);
    char *to = (char *)r->snapshot + x->kernels[op].old_off + from;
    const char *source = (char *)r->data[t] + from;
    if (r->copied)
        r->copied(r->pool, to, source, len);
    else
        memcpy(to, source, (size_t)len);
}

// Returns 1 if the snapshots of a group (copies of tensors that its ops both
// read and overwrite) can be taken before it starts. With several tiles, no op
// uses a tensor that another op updates; the ops of a single tile may, so that
// next_op takes each snapshot just before its op.
static int snapshots_before(const dv_group *g)
{
    return g->n_tiles > 1 || g->end_op - g->first_op == 1;
}

// Takes the next tiles that the plan assigns to the thread: from the work queue
// or else of the next range of the grid or the next deal (a range of tiles per
// core). Returns 0 if there are no more.
static int next_tiles(cursor *c)
{
    dv_run *r = c->w->run;
    const dv_exec *x = r->x;
    const dv_group *g = &x->plan->groups[c->me->group];
    const dv_group_exec *p = &x->group[c->me->group];
    int64_t n;
    if (p->n_queued) {
        if (!dv_queue_next(&r->queue, c->w->id, &c->next, &n))
            return 0;
        c->end = c->next + n;
        return 1;
    }
    while (c->source < (p->grid ? p->grid->n_ranges : g->n_deals)) {
        const dv_deal *deal = p->grid ? NULL : &g->deals[c->source];
        c->range = p->grid ? &p->grid->ranges[c->source] : NULL;
        int64_t core =
            deal ? deal->core : dv_grid_core_number(x->plan, c->range);
        c->source++;
        if (core % x->n_threads != c->w->id ||
            (c->range && c->me->what == COMBINE &&
             !dv_range_is_partial(p->grid, c->range)))
            continue;
        c->next = deal ? deal->first_tile : 0;
        c->end = c->next +
                 (deal ? deal->n_tiles : dv_range_tiles(p->grid, c->range));
        if (c->next < c->end)
            return 1;
    }
    return 0;
}

// Begins the next tile, or several at once if rows span them. Returns 0 if
// there is none, or if a thread has failed.
static int next_tile(cursor *c)
{
    dv_run *r = c->w->run;
    const dv_group_exec *p = &r->x->group[c->me->group];
    if (c->me->id == 0 && dv_run_is_cancelled(r))
        atomic_store(&r->failed_in, c->me->n_phases);
    if (atomic_load_explicit(&r->failed_in, memory_order_relaxed) != INT64_MAX)
        return 0;
    if (r->hooks.poll && c->w->id == 0)
        r->hooks.poll(r->hooks.user);
    if (c->next == c->end && !next_tiles(c))
        return 0;
    int spans = p->rows && !p->n_queued && dv_rows_span_tiles(p->rows);
    c->tile = c->next;
    c->n_tiles = spans ? c->end - c->next : 1;
    c->next += c->n_tiles;
    c->op = c->me->first;
    if (!spans)
        place_locals(c->w, p, c->tile);
    // Nothing may be skipped that depends on values if calls are recorded,
    // because they are replayed with other values.
    c->skips = p->skips && !r->x->called &&
               dv_exec_may_skip(c->w, c->me->group, c->tile);
    return 1;
}

// Sets c->box to what the current tile has of the op, and c->what to whether it
// is computed there as a whole or in parts.
static void find_box(cursor *c)
{
    const dv_exec *x = c->me->x;
    const dv_group_exec *p = &x->group[c->me->group];
    int64_t bmn[3];
    c->what = c->me->what;
    if (!c->range) {
        dv_plan_tile(&c->box, x->plan, c->op, c->tile);
        if (c->skips)
            dv_skip_cut(&x->prepared[c->op].skip, &c->box);
        return;
    }
    dv_range_tile(p->grid, &p->order, c->range, c->tile, bmn);
    dv_grid_box(&c->box, x->plan, p->grid, bmn, c->range->k0, c->range->k1);
    if (!dv_range_is_partial(p->grid, c->range))
        c->what = WHOLE;
}

// Advances to the next op of the tile, or to the first op of the next tile.
// Rows run all ops of the group at once. Returns 0 at the end of the phase.
static int next_op(cursor *c)
{
    dv_run *r = c->w->run;
    const dv_exec *x = r->x;
    const thread *me = c->me;
    if (x->group[me->group].rows || c->op + 1 >= me->end) {
        if (!next_tile(c))
            return 0;
    } else {
        c->op++;
    }
    if (x->group[me->group].rows)
        return 1;
    if (!snapshots_before(&x->plan->groups[me->group]))
        take_snapshot(r, c->op, 0, 1);
    start_op(c->w, c->op);
    find_box(c);
    return 1;
}

// -- Sums of several tiles ----------------------------------------------------

static int64_t n_results(const dv_op *o, const dv_tile *t)
{
    int64_t n = 1;
    for (int v = 0; v < o->n_vars; v++)
        n *= o->vars[v].reduce ? 1 : t->end[v] - t->begin[v];
    return n;
}

// Returns the accumulators number `slot`: those of a tile or of a range of the
// grid.
static unsigned char *accumulators(const dv_run *r, int64_t slot)
{
    return r->parts + slot * r->x->part_bytes;
}

static int64_t slot_of(const cursor *c)
{
    const dv_group_grid *grid = c->me->x->group[c->me->group].grid;
    return c->range ? c->range - grid->ranges : c->tile;
}

// Adds the accumulators in `slot` to those of the current tile. Their format
// depends on whether a vector kernel or the interpreter computed them.
static void add_part(const cursor *c, int64_t slot)
{
    const dv_strips *s = &c->w->strips;
    const dv_vec_op *vec = c->me->x->prepared[c->op].vec;
    int64_t n = n_results(s->k->op, &c->box);
    if (vec)
        dv_vec_op_add(vec, s->k, s->parts, accumulators(c->w->run, slot), n);
    else
        dv_strips_add(s->k, s->parts, accumulators(c->w->run, slot), n);
}

// If the tile has the first part of its sums, adds the other parts in their
// order and computes the results.
static void combine_parts(const cursor *c)
{
    const dv_exec *x = c->me->x;
    dv_strips *s = &c->w->strips;
    const dv_op *o = s->k->op;
    int64_t n_parts;
    int64_t part = c->range ? c->range->k0 : dv_tile_part(o, &c->box, &n_parts);
    if (part != 0)
        return;
    s->parts = accumulators(c->w->run, slot_of(c));
    if (c->range) {
        const dv_group_grid *g = x->group[c->me->group].grid;
        int32_t k = (int32_t)slot_of(c);
        while ((k = dv_range_next(g, k)) >= 0)
            add_part(c, k);
    } else {
        for (int64_t k = 1; k < n_parts; k++)
            add_part(c, dv_tile_of_part(o, &c->box, k));
    }
    if (x->prepared[c->op].vec) {
        dv_vec_op_part(x->prepared[c->op].vec, c->w->at, c->box.begin,
                       c->box.end, DV_FINISH, s->parts);
        return;
    }
    s->part = DV_FINISH;
    dv_strips_run(s, c->box.begin, c->box.end);
}

// -- Phases -------------------------------------------------------------------

// Runs an op with vector kernels that read copies of its operands with a
// border, block by block.
static void run_staged(dv_thread *w, const dv_op_kernels *by, const dv_tile *t)
{
    const dv_stage *s = by->stage;
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
    int64_t from[DV_MAX_VARS], to[DV_MAX_VARS];
    int n = s->kernel.op->n_vars, v = 0;
    memcpy(begin, t->begin, (size_t)n * sizeof *begin);
    do {
        for (v = 0; v < n; v++)
            end[v] = dv_min_i64(begin[v] + s->block[v], t->end[v]);
        dv_stage_fill(s, begin, end, w->from, w->stage, w->at);
        memcpy(from, begin, (size_t)n * sizeof *from);
        memcpy(to, end, (size_t)n * sizeof *to);
        dv_stage_box(s, from, to);
        dv_vec_op_run(by->vec, w->at, from, to);
        dv_stage_store(s, begin, end, w->stage, w->from[s->kernel.op->n_reads]);
        for (v = n - 1; v >= 0; v--) {
            begin[v] += s->block[v];
            if (begin[v] < t->end[v])
                break;
            begin[v] = t->begin[v];
        }
    } while (v >= 0);
}

// Runs the current op on the current box, by its schedule: all of it, or only
// its partial sums.
static void run_op(const cursor *c)
{
    dv_thread *w = c->w;
    const dv_exec *x = c->me->x;
    const dv_rows *rows = x->group[c->me->group].rows;
    const dv_op_kernels *by = &x->prepared[c->op];
    const dv_tile *t = &c->box;
    dv_strips *s = &w->strips;
    if (rows) {
        dv_rows_run(rows, w->data, c->tile, c->n_tiles);
        return;
    }
    if (c->what == COMBINE) {
        combine_parts(c);
        return;
    }
    s->parts = c->what == PARTS ? accumulators(c->w->run, slot_of(c)) : NULL;
    s->part = c->what == PARTS ? DV_FIRST_PART : DV_WHOLE;
    int fits = c->what == PARTS || !by->guard ||
               dv_vec_op_fits(s->p, s->k, w->at, t->begin, t->end);
    if (by->guard == DV_GUARD_INDICES && fits && c->what != PARTS)
        dv_vec_op_shift(s->p, s->k->op, w->at);
    if (by->stage)
        memcpy(w->from, w->at, (size_t)(s->k->op->n_reads + 1) * sizeof *w->at);
    if (by->stage && by->product)
        dv_stage_fill(by->stage, t->begin, t->end, w->from, w->stage, w->at);
    if (by->product && fits)
        dv_product_run(by->product, t,
                       &(dv_product_room){w->at, w->workspace, w->held},
                       s->parts);
    else if (by->vec && fits && c->what == PARTS)
        dv_vec_op_part(by->vec, w->at, t->begin, t->end, DV_FIRST_PART,
                       s->parts);
    else if (by->vec && by->stage)
        run_staged(w, by, t);
    else if (by->vec && fits)
        dv_vec_op_run(by->vec, w->at, t->begin, t->end);
    else
        dv_strips_run(s, t->begin, t->end);
}

// Returns 1 if nothing runs after a group (ops that share one tile space) but
// the end of the parallel region, at which all threads wait anyway.
static int ends_run(const dv_run *r, int32_t group)
{
    const dv_exec *x = r->x;
    return group + 1 == x->plan->n_groups && !x->plan->ops->n_repeats &&
           !r->spent && !r->progress;
}

// Does the work that the current phase has for thread i of the run.
static void run_share(const thread *me, int32_t i)
{
    dv_run *r = me->r;
    const dv_group_exec *p = &me->x->group[me->group];
    cursor c; // next_op sets the tile and the box
    c.me = me;
    c.w = &r->threads[i];
    c.source = 0;
    c.next = c.end = 0;
    c.op = me->end;
    c.range = NULL;
    c.w->tested = NULL;
    // What the thread holds packed may have changed since (see choose_held).
    for (int32_t op = me->first; op < me->end; op++)
        if (me->x->prepared[op].product)
            dv_product_forget(me->x->prepared[op].product, c.w->held);
    if (p->grid) {
        c.all = (dv_tile_range){.n = p->n_queued, .k1 = p->grid->kt};
        c.range = &c.all;
    }
    while (next_op(&c)) {
        run_op(&c);
        if (c.w->strips.status != DV_OK)
            atomic_store(&r->failed_in, me->n_phases);
    }
}

static void run_share_in_pool(void *arg, int i)
{
    run_share(arg, i);
}

// Runs the current phase. All threads of the run call this or, if the caller
// has a thread pool, only one, which distributes the work to the pool.
static void run_phase(thread *me)
{
    dv_run *r = me->r;
    const dv_exec *x = me->x;
    const dv_group_exec *p = &x->group[me->group];
    if (p->n_queued) {
        if (me->id == 0)
            dv_queue_reset(&r->queue, p->n_queued, p->chunk, p->steal);
        wait_all(r, me->n);
    }
    if (r->parallel_for)
        r->parallel_for(r->pool, x->n_threads, run_share_in_pool, me);
    for (int32_t i = me->id; !r->parallel_for && i < x->n_threads; i += me->n)
        run_share(me, i);
    if (me->what == PARTS || me->end < x->plan->groups[me->group].end_op ||
        !ends_run(r, me->group))
        wait_all(r, me->n);
}

// Thread 0 calls a hook while the other threads wait: the one at an extern op
// or, if `round` is not 0, the one after an iteration of a repeat. All threads
// get what it returned.
static dv_status call_hook(const thread *me, int32_t of, int64_t round)
{
    dv_run *r = me->r;
    if (me->id == 0)
        r->hook_status = round ? r->hooks.after_round(r->hooks.user, of, round)
                               : r->hooks.at_extern(r->hooks.user, of);
    wait_all(r, me->n);
    dv_status st = r->hook_status;
    wait_all(r, me->n); // the next hook may overwrite it only now
    return st;
}

static void begin_group(thread *me)
{
    dv_run *r = me->r;
    const dv_exec *x = me->x;
    const dv_group *g = &x->plan->groups[me->group];
    me->start = r->spent && me->id == 0 ? dv_clock_s() : 0;
    me->end = g->first_op;
    if (!x->group[me->group].snapshots || !snapshots_before(g))
        return;
    for (int32_t op = g->first_op; op < g->end_op; op++)
        take_snapshot(r, op, me->id, me->n);
    wait_all(r, me->n);
}

// The threads synchronise at the end of a group, so thread 0 measures the time
// of all.
static dv_status end_group(const thread *me)
{
    dv_run *r = me->r;
    const dv_exec *x = me->x;
    const dv_group *g = &x->plan->groups[me->group];
    if (r->spent && me->id == 0)
        r->spent[me->group] += dv_clock_s() - me->start;
    for (int32_t op = g->first_op;
         (r->progress || r->watch) && me->id == 0 && op < g->end_op; op++)
        r->done += dv_op_work(x->kernels[op].op);
    if (r->progress && me->id == 0)
        r->progress(r->user, r->done / x->total);
    return r->hooks.at_extern && x->plan->ops->ops[g->first_op].is_extern
               ? call_hook(me, g->first_op, 0)
               : DV_OK;
}

// Goes on to the next group. Returns 0 at the end of the run, or if a hook
// fails.
static int next_group(thread *me)
{
    if (me->group >= 0 && end_group(me) != DV_OK)
        return 0;
    dv_walk_step step;
    while ((step = dv_walk_next(&me->walk)) == DV_WALK_ROUND)
        if (me->r->hooks.after_round &&
            call_hook(me, me->walk.repeat, me->walk.round) != DV_OK)
            return 0;
    if (step == DV_WALK_END)
        return 0;
    me->group = me->walk.group;
    begin_group(me);
    return 1;
}

// Returns 1 if a phase that is over has failed. All threads get the same
// answer, because a thread that fails sets failed_in before the barrier at the
// end of the phase. A run with hooks continues: the hooks may be those of a
// rank whose messages other ranks wait for.
static int has_failed(const thread *me)
{
    const dv_run *r = me->r;
    return atomic_load(&r->failed_in) <= me->n_phases && !r->hooks.at_extern &&
           !r->hooks.after_round;
}

// Goes on to the next phase, which runs all ops of a group or, if the group has
// partial sums, only one of them, whose parts are combined in a phase of their
// own. Returns 0 at the end of the run.
static int next_phase(thread *me)
{
    const dv_exec *x = me->x;
    if (has_failed(me))
        return 0;
    me->n_phases++;
    if (me->what == PARTS) {
        me->what = COMBINE;
        return 1;
    }
    if ((me->group < 0 || me->end == x->plan->groups[me->group].end_op) &&
        !next_group(me))
        return 0;
    me->first = me->end;
    if (!x->group[me->group].parts) {
        me->end = x->plan->groups[me->group].end_op;
        me->what = WHOLE;
        return 1;
    }
    me->end = me->first + 1;
    me->what =
        x->group[me->group].grid || dv_plan_splits_reduction(x->plan, me->first)
            ? PARTS
            : WHOLE;
    return 1;
}

static void work(dv_run *r, int32_t id, int32_t n)
{
    const dv_exec *x = r->x;
    thread me; // dv_walk_begin sets the walk, next_phase the phase
    me.r = r;
    me.x = x;
    me.id = id;
    me.n = n;
    me.group = -1;
    me.what = WHOLE;
    me.n_phases = 0;
    if (n > 1)
        dv_pin(r->pins, id);
    for (int32_t i = id; i < x->n_threads; i += n) {
        dv_thread *w = &r->threads[i];
        memcpy(w->data, r->data,
               (size_t)x->plan->ops->n_tensors * sizeof *w->data);
        w->strips.status = DV_OK;
    }
    dv_walk_begin(&me.walk, x->plan, r->from_repeat, r->from_round);
    me.walk.once = r->once ? 1 : x->once ? -1 : 0;
    while (next_phase(&me))
        run_phase(&me);
    if (n > 1 && id == 0)
        dv_unpin(r->pins);
}

#if defined(__SANITIZE_THREAD__)
// The thread sanitizer does not see the synchronisation inside OpenMP's runtime
// and would report false races. It understands pthreads, so builds with it use
// these.
typedef struct thread_start {
    dv_run *r;
    int32_t id, n;
} thread_start;

static void *begin(void *arg)
{
    const thread_start *m = arg;
    work(m->r, m->id, m->n);
    return NULL;
}

static void fork_and_join(dv_run *r)
{
    enum { MOST = 64 };
    pthread_t threads[MOST];
    thread_start m[MOST];
    int32_t n = r->x->n_threads < MOST ? r->x->n_threads : MOST;
    for (int32_t i = 0; i < n; i++) {
        m[i] = (thread_start){r, i, n};
        if (i > 0)
            pthread_create(&threads[i], NULL, begin, &m[i]);
    }
    begin(&m[0]);
    for (int32_t i = 1; i < n; i++)
        pthread_join(threads[i], NULL);
}
#else
static void fork_and_join(dv_run *r)
{
    if (r->x->n_threads == 1 || !dv_has_threads()) {
        work(r, 0, 1);
        return;
    }
#ifdef _OPENMP
#pragma omp parallel num_threads(r->x->n_threads)
    work(r, omp_get_thread_num(), omp_get_num_threads());
#endif
}
#endif

dv_status dv_threads_run(dv_run *r, dv_diag *diag)
{
    atomic_store(&r->failed_in, INT64_MAX);
    atomic_store(&r->arrived, 0);
    r->hook_status = DV_OK;
    if (r->parallel_for)
        work(r, 0, 1);
    else
        fork_and_join(r);
    r->from_repeat = -1;
    dv_status first = r->hook_status;
    for (int32_t i = 0; i < r->n_threads; i++) {
        dv_thread *w = &r->threads[i];
        if (w->strips.status == DV_OK)
            continue;
        // The message of the first thread that failed is reported; the messages
        // of the other threads are discarded, so that they do not appear in the
        // next run.
        dv_diag_move(first == DV_OK ? diag : NULL, w->diag);
        if (first == DV_OK)
            first = w->strips.status;
    }
    return first;
}
