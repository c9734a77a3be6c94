// The thread executor: each thread is one core of the plan. All threads follow
// the plan in one parallel region; each runs the tiles that the plan assigns to
// its core, and they synchronise at the end of each group (and within a group
// if a reduction is split over tiles or an op reads what it writes). A run
// allocates nothing and takes no locks; kernels and addresses are known before.
//
// The work of a core is a loop over tile numbers: start..start+count. The
// numbers are those of the plan's deals or of its grid, whose order maps them
// to tiles; or threads take them from a work queue, and every tile is still
// computed in the same prepared, once.
//
// A reduction that is split over tiles takes two phases: each thread computes
// the partial sums of its tiles; then the thread that owns the first part of a
// result adds the other parts in their order and finishes the result. So
// results depend on the plan alone.
//
// A dv_thread is the memory and the kernels of one core of the plan. OpenMP may
// provide fewer threads than the plan has cores (because of a limit or an
// enclosing parallel region); an OpenMP thread then does the work of several
// dv_threads one after the other.
#define _POSIX_C_SOURCE 200809L // declares sched_yield
#include "base/clock.h"
#include "base/fork.h"
#include "base/math.h"
#include "exec/state.h"
#include "exec/vec_range.h"
#include <sched.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <pthread.h>
#endif

enum { SPINS = 2000 }; // spins of a waiting thread before it yields

// Waits until all n threads of the run have arrived; a barrier.
static void wait_all(dv_exec *x, int32_t n)
{
    if (n == 1)
        return;
    int round = atomic_load_explicit(&x->round, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&x->arrived, 1, memory_order_acq_rel) ==
        n - 1) {
        atomic_store_explicit(&x->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&x->round, round + 1, memory_order_release);
        return;
    }
    for (int i = 0;
         atomic_load_explicit(&x->round, memory_order_acquire) == round; i++)
        if (i >= SPINS)
            sched_yield();
}

static void run_box(dv_strips *s, const dv_tile *t)
{
    s->n_parts = 0;
    dv_strips_run(s, t->begin, t->end);
}

static void start_op(dv_thread *w, int32_t op)
{
    dv_exec *x = w->x;
    dv_strips *s = &w->strips;
    s->k = &x->kernels[op];
    s->old = s->k->old_off < 0 ? NULL : (char *)x->snapshot + s->k->old_off;
    s->part = DV_WHOLE;
}

// Fills w->at with the addresses of element 0 of each read and of the write.
static void find_tensors(dv_thread *w)
{
    const dv_op *o = w->strips.k->op;
    for (int r = 0; r < o->n_reads; r++)
        w->at[r] = (void *)(uintptr_t)dv_strips_source(&w->strips, r);
    w->at[o->n_reads] = w->data[o->write.tensor];
}

// Runs the op that start_op selected on one tile, by its schedule.
static void run_op(dv_thread *w, int32_t op, const dv_tile *t)
{
    const dv_op_kernels *prepared = &w->x->prepared[op];
    if (!prepared->product && !prepared->vec) {
        run_box(&w->strips, t);
        return;
    }
    find_tensors(w);
    if (prepared->guard &&
        !dv_vec_op_fits(w->strips.p, w->strips.k, w->at, t->begin, t->end))
        run_box(&w->strips, t);
    else if (prepared->product)
        dv_product_run(prepared->product, t, w->at, w->workspace, NULL);
    else
        dv_vec_op_run(prepared->vec, w->at, t->begin, t->end);
}

// Sets the addresses of the temporaries of a group (ops that share one tile
// space) to this thread's tile buffers, moved back so that indices of the whole
// tensor address the current tile.
static void place_locals(dv_thread *w, const dv_group_plan *g, int64_t tile)
{
    const dv_plan *plan = w->x->plan;
    for (int32_t i = 0; i < g->n_locals; i++) {
        const dv_tile_buffer *l = &g->locals[i];
        const dv_op *o = &plan->ops->ops[l->op];
        dv_tile t;
        dv_plan_tile(&t, plan, l->op, tile);
        // The offset of the tile's first element, by the buffer's strides.
        int64_t first = dv_flat_at(&w->x->kernels[l->op].write, o, t.begin);
        dv_dtype dtype = plan->ops->tensors[l->tensor].dtype;
        int64_t bytes = l->off_bytes - first * dv_dtype_get(dtype)->size_bytes;
        // The base address may lie outside of the buffer; the tile's elements
        // lie inside.
        w->data[l->tensor] = (void *)((uintptr_t)w->local + (uintptr_t)bytes);
    }
}

// Computes the partial sums of a box and stores them as accumulator block
// number `slot`.
static void sum_part(dv_thread *w, int32_t op, const dv_tile *t, int64_t slot)
{
    start_op(w, op);
    void *acc = w->x->parts + slot * w->x->part_bytes;
    const dv_op_kernels *prepared = &w->x->prepared[op];
    if (prepared->product || prepared->vec)
        find_tensors(w);
    if (prepared->product) {
        dv_product_run(prepared->product, t, w->at, w->workspace, acc);
    } else if (prepared->vec) {
        dv_vec_op_part(prepared->vec, w->at, t->begin, t->end, DV_FIRST_PART,
                       acc);
    } else {
        w->strips.part = DV_FIRST_PART;
        w->strips.parts = acc;
        run_box(&w->strips, t);
    }
}

static void compute_part(dv_thread *w, int32_t op, int64_t tile)
{
    dv_tile t;
    dv_plan_tile(&t, w->x->plan, op, tile);
    sum_part(w, op, &t, tile);
}

// Computes the results of a tile from s->parts, which now hold the complete
// sums, and stores them.
static void finish_sums(dv_thread *w, int32_t op, const dv_tile *t)
{
    dv_strips *s = &w->strips;
    if (w->x->prepared[op].vec) {
        find_tensors(w);
        dv_vec_op_part(w->x->prepared[op].vec, w->at, t->begin, t->end,
                       DV_FINISH, s->parts);
        return;
    }
    s->part = DV_FINISH;
    run_box(s, t);
}

static int64_t n_results(const dv_op *o, const dv_tile *t)
{
    int64_t n = 1;
    for (int v = 0; v < o->n_vars; v++)
        n *= o->vars[v].reduce ? 1 : t->end[v] - t->begin[v];
    return n;
}

// Adds the accumulators x to those of s->parts. Their format depends on whether
// a vector kernel or the interpreter computed them.
static void add_part(dv_thread *w, int32_t op, const void *x, const dv_tile *t)
{
    const dv_strips *s = &w->strips;
    const dv_vec_op *vec = w->x->prepared[op].vec;
    int64_t n = n_results(s->k->op, t);
    if (vec)
        dv_vec_op_add(vec, s->k, s->parts, x, n);
    else
        dv_strips_add(s->k, s->parts, x, n);
}

// Finishes a tile of the grid (which assigns tiles to cores) that several cores
// summed: the owner of its first part adds the other cores' partial sums, in
// order.
static void finish_range(dv_thread *w, int32_t op, const dv_tile *t, int32_t at)
{
    const dv_exec *x = w->x;
    const dv_group_grid *g = x->group[dv_group_of(x->plan, op)].grid;
    dv_strips *s = &w->strips;
    start_op(w, op);
    s->parts = x->parts + at * x->part_bytes;
    for (int32_t k = dv_range_next(g, at); k >= 0; k = dv_range_next(g, k))
        add_part(w, op, x->parts + k * x->part_bytes, t);
    finish_sums(w, op, t);
}

static void combine_parts(dv_thread *w, int32_t op, int64_t tile)
{
    const dv_exec *x = w->x;
    const dv_op *o = &x->plan->ops->ops[op];
    dv_strips *s = &w->strips;
    dv_tile t;
    int64_t n_parts;
    dv_plan_tile(&t, x->plan, op, tile);
    if (dv_tile_part(o, &t, &n_parts) != 0)
        return;
    start_op(w, op);
    s->parts = x->parts + tile * x->part_bytes;
    for (int64_t k = 1; k < n_parts; k++)
        add_part(w, op, x->parts + dv_tile_of_part(o, &t, k) * x->part_bytes,
                 &t);
    finish_sums(w, op, &t);
}

// A thread of a run: its exec, its number `id` and the number n of threads.
typedef struct thread {
    dv_exec *x;
    int32_t id, n;
} thread;

// Copies the id-th of n shares of the tensor that an op both reads and
// overwrites to its snapshot.
static void take_snapshot(dv_exec *x, int32_t op, int32_t id, int32_t n)
{
    if (x->kernels[op].old_off < 0)
        return;
    int32_t t = x->kernels[op].op->write.tensor;
    int64_t bytes = dv_tensor_bytes(&x->plan->ops->tensors[t]);
    int64_t from = bytes / n * id + dv_min_i64(id, bytes % n);
    int64_t len = bytes / n + (id < bytes % n);
    memcpy((char *)x->snapshot + x->kernels[op].old_off + from,
           (char *)x->data[t] + from, (size_t)len);
}

// Returns 1 if the snapshots of a group (copies of tensors that its ops both
// read and overwrite) can be taken before it starts. With several tiles, no op
// uses a tensor that another op updates; the ops of a single tile may, so that
// run_tile takes each snapshot just before its op.
static int snapshots_before(const dv_group *g)
{
    return g->n_tiles > 1 || g->end_op - g->first_op == 1;
}

static void take_snapshots(const thread *me, const dv_group *g)
{
    for (int32_t op = g->first_op; op < g->end_op; op++)
        take_snapshot(me->x, op, me->id, me->n);
    wait_all(me->x, me->n);
}

static void run_tile(dv_thread *w, int32_t group, int32_t first, int32_t end,
                     int64_t tile)
{
    dv_tile t;
    int late = !snapshots_before(&w->x->plan->groups[group]);
    place_locals(w, &w->x->group[group], tile);
    if (w->x->group[group].rows) {
        dv_rows_run(w->x->group[group].rows, w->data, tile, 1);
        return;
    }
    for (int32_t op = first; op < end; op++) {
        if (late)
            take_snapshot(w->x, op, 0, 1);
        start_op(w, op);
        dv_plan_tile(&t, w->x->plan, op, tile);
        run_op(w, op, &t);
    }
}

typedef enum phase { WHOLE, PARTS, COMBINE } phase;

static void run_tile_number(dv_thread *w, int32_t group, phase what,
                            int32_t first, int32_t end, int64_t tile)
{
    if (what == WHOLE)
        run_tile(w, group, first, end, tile);
    else if (what == PARTS)
        compute_part(w, first, tile);
    else
        combine_parts(w, first, tile);
}

// Runs tiles begin..begin+n of a range that the grid assigns to a core or, if
// `range` is NULL, of all tiles.
static void run_range(dv_thread *w, int32_t group, phase what, int32_t op,
                      const dv_tile_range *range, int64_t begin, int64_t n)
{
    const dv_group_plan *p = &w->x->group[group];
    const dv_tile_range all = {.n = p->n_queued, .k1 = p->grid->kt};
    const dv_tile_range *r = range ? range : &all;
    dv_tile t;
    int64_t bmn[3];
    start_op(w, op);
    for (int64_t i = begin; i < begin + n; i++) {
        if (atomic_load_explicit(&w->x->failed, memory_order_relaxed))
            return;
        dv_range_tile(p->grid, &p->order, r, i, bmn);
        dv_grid_box(&t, w->x->plan, p->grid, bmn, r->k0, r->k1);
        if (!dv_range_is_partial(p->grid, r))
            run_op(w, op, &t);
        else if (what == PARTS)
            sum_part(w, op, &t, r - p->grid->ranges);
        else if (r->k0 == 0)
            finish_range(w, op, &t, (int32_t)(r - p->grid->ranges));
        if (w->strips.status != DV_OK)
            atomic_store(&w->x->failed, 1);
    }
}

// Runs the ranges of tiles that the grid assigns to a thread. The first of two
// phases computes partial sums, and also all tiles whose reduction is not
// split; the second adds and finishes the sums.
static void run_grid(dv_thread *w, int32_t group, phase what, int32_t op)
{
    const dv_group_grid *g = w->x->group[group].grid;
    for (int32_t k = 0; k < g->n_ranges; k++) {
        const dv_tile_range *r = &g->ranges[k];
        if (dv_grid_core_number(w->x->plan, r) % w->x->n_threads == w->id &&
            (what != COMBINE || dv_range_is_partial(g, r)))
            run_range(w, group, what, op, r, 0, dv_range_tiles(g, r));
    }
}

// Takes tiles from the work queue and runs them until the queue is empty.
static void run_queued(dv_thread *w, int32_t group, phase what, int32_t first,
                       int32_t end)
{
    dv_exec *x = w->x;
    int64_t at, n;
    while (dv_queue_next(&x->queue, w->id, &at, &n)) {
        if (x->group[group].grid) {
            run_range(w, group, what, first, NULL, at, n);
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            if (!atomic_load_explicit(&x->failed, memory_order_relaxed))
                run_tile_number(w, group, what, first, end, at + i);
            if (w->strips.status != DV_OK)
                atomic_store(&x->failed, 1);
        }
    }
}

// Runs ops first..end of a group (ops that share one tile space) on the tiles
// that its deals (ranges of tiles per core) assign to a thread.
static void run_thread(dv_thread *w, int32_t group, phase what, int32_t first,
                       int32_t end)
{
    dv_exec *x = w->x;
    const dv_group *g = &x->plan->groups[group];
    for (int32_t d = 0; d < g->n_deals; d++) {
        const dv_deal *deal = &g->deals[d];
        if (deal->core % x->n_threads != w->id)
            continue;
        const dv_rows *rows = x->group[group].rows;
        if (rows && dv_rows_span_tiles(rows) && deal->n_tiles) {
            dv_rows_run(rows, w->data, deal->first_tile, deal->n_tiles);
            continue;
        }
        for (int64_t i = 0; i < deal->n_tiles; i++) {
            int64_t tile = deal->first_tile + i;
            if (atomic_load_explicit(&x->failed, memory_order_relaxed))
                break;
            run_tile_number(w, group, what, first, end, tile);
            if (w->strips.status != DV_OK)
                atomic_store(&x->failed, 1);
            if (x->hooks.poll && w->id == 0)
                x->hooks.poll(x->hooks.user);
        }
    }
}

// Returns 1 if nothing runs after a group (ops that share one tile space) but
// the end of the parallel region, at which all threads wait anyway.
static int ends_run(const dv_exec *x, int32_t group)
{
    return group + 1 == x->plan->n_groups && !x->plan->ops->n_repeats &&
           !x->spent && !x->progress;
}

// Runs ops first..end of a group (ops that share one tile space) on all tiles;
// every thread calls it.
static void run_phase(const thread *me, int32_t group, phase what,
                      int32_t first, int32_t end)
{
    dv_exec *x = me->x;
    const dv_group_plan *p = &x->group[group];
    if (p->n_queued) {
        if (me->id == 0)
            dv_queue_reset(&x->queue, p->n_queued, p->chunk, p->steal);
        wait_all(x, me->n);
    }
    for (int32_t i = me->id; i < x->n_threads; i += me->n) {
        dv_thread *w = &x->threads[i];
        if (p->n_queued)
            run_queued(w, group, what, first, end);
        else if (p->grid)
            run_grid(w, group, what, first);
        else
            run_thread(w, group, what, first, end);
    }
    if (what == PARTS || end < x->plan->groups[group].end_op ||
        !ends_run(x, group))
        wait_all(x, me->n);
}

// Thread 0 calls a hook while the other threads wait. All threads get what it
// returned.
static dv_status call_hook(const thread *me,
                           dv_status (*call)(dv_exec *x, int32_t of,
                                             int64_t round),
                           int32_t of, int64_t round)
{
    dv_exec *x = me->x;
    if (me->id == 0)
        x->hook_status = call(x, of, round);
    wait_all(x, me->n);
    dv_status st = x->hook_status;
    wait_all(x, me->n); // the next hook may overwrite it only now
    return st;
}

static dv_status at_extern(dv_exec *x, int32_t op, int64_t round)
{
    (void)round;
    return x->hooks.at_extern(x->hooks.user, op);
}

static dv_status after_round(dv_exec *x, int32_t repeat, int64_t round)
{
    return x->hooks.after_round(x->hooks.user, repeat, round);
}

static dv_status end_round(void *user, int32_t repeat, int64_t round)
{
    return call_hook(user, after_round, repeat, round);
}

// Runs one group (ops that share one tile space). The threads synchronise at
// its end, so thread 0 measures the time of all.
static dv_status run_group(void *user, int32_t number)
{
    const thread *me = user;
    dv_exec *x = me->x;
    const dv_group *g = &x->plan->groups[number];
    int timed = x->spent && me->id == 0;
    double start = timed ? dv_clock_s() : 0;
    if (x->group[number].snapshots && snapshots_before(g))
        take_snapshots(me, g);
    if (!x->group[number].parts)
        run_phase(me, number, WHOLE, g->first_op, g->end_op);
    // Ops of a group with split reductions do not depend on one another, so
    // they run one by one.
    for (int32_t op = g->first_op; op < g->end_op && x->group[number].parts;
         op++) {
        if (x->group[number].grid || dv_plan_splits_reduction(x->plan, op)) {
            run_phase(me, number, PARTS, op, op + 1);
            run_phase(me, number, COMBINE, op, op + 1);
        } else {
            run_phase(me, number, WHOLE, op, op + 1);
        }
    }
    if (timed)
        x->spent[number] += dv_clock_s() - start;
    if (x->progress && me->id == 0) {
        for (int32_t op = g->first_op; op < g->end_op; op++)
            x->done += dv_op_work(x->kernels[op].op);
        x->progress(x->user, x->done / x->total);
    }
    return x->hooks.at_extern && x->plan->ops->ops[g->first_op].is_extern
               ? call_hook(me, at_extern, g->first_op, 0)
               : DV_OK;
}

static void work(dv_exec *x, int32_t id, int32_t n)
{
    thread me = {x, id, n};
    if (n > 1)
        dv_pin(x->pins, id);
    for (int32_t i = id; i < x->n_threads; i += n) {
        dv_thread *w = &x->threads[i];
        memcpy(w->data, x->data,
               (size_t)x->plan->ops->n_tensors * sizeof *w->data);
        w->strips.status = DV_OK;
    }
    dv_walk walk = {.plan = x->plan,
                    .visit = run_group,
                    .round = x->hooks.after_round ? end_round : NULL,
                    .user = &me,
                    .from_repeat = x->from_repeat,
                    .from_round = x->from_round};
    dv_exec_visit(&walk);
    if (n > 1 && id == 0)
        dv_unpin(x->pins);
}

#if defined(__SANITIZE_THREAD__)
// The thread sanitizer does not see the synchronisation inside OpenMP's runtime
// and would report false races. It understands pthreads, so builds with it use
// these.
typedef struct member {
    dv_exec *x;
    int32_t id;
} member;

static void *begin(void *arg)
{
    const member *m = arg;
    work(m->x, m->id, m->x->n_threads);
    return NULL;
}

static void fork_and_join(dv_exec *x)
{
    pthread_t threads[64];
    member m[64];
    if (x->n_threads > 64)
        x->n_threads = 64;
    for (int32_t i = 0; i < x->n_threads; i++) {
        m[i] = (member){x, i};
        if (i > 0)
            pthread_create(&threads[i], NULL, begin, &m[i]);
    }
    begin(&m[0]);
    for (int32_t i = 1; i < x->n_threads; i++)
        pthread_join(threads[i], NULL);
}
#else
static void fork_and_join(dv_exec *x)
{
    if (x->n_threads == 1 || !dv_has_threads()) {
        work(x, 0, 1);
        return;
    }
#ifdef _OPENMP
#pragma omp parallel num_threads(x->n_threads)
    work(x, omp_get_thread_num(), omp_get_num_threads());
#endif
}
#endif

dv_status dv_threads_run(dv_exec *x, dv_diag *diag)
{
    atomic_store(&x->failed, 0);
    atomic_store(&x->arrived, 0);
    x->hook_status = DV_OK;
    fork_and_join(x);
    x->from_repeat = -1;
    dv_status first = x->hook_status;
    for (int32_t i = 0; i < x->n_threads; i++) {
        dv_thread *w = &x->threads[i];
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
