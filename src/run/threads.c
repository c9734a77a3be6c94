// The thread executor: one thread is one core of the plan. All of them walk
// the plan side by side in one parallel region; each runs the tiles that the
// plan deals to its core, and they wait for each other where a group ends.
// Nothing is allocated, locked or looked up on the way.
//
// Sums in parts take two phases: each thread computes the parts it was dealt,
// then whoever has the first part of a result adds the others to it, in their
// order, and finishes it. So results depend on the plan alone.
//
// Where there are fewer threads than cores, or no OpenMP, a thread plays
// several cores, one after the other.
#define _POSIX_C_SOURCE 200809L // sched_yield
#include "base/math.h"
#include "run/exec_in.h"
#include "target/host.h"
#include <sched.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <pthread.h>
#endif

enum { SPINS = 2000 }; // before a waiting thread lets others run

// -- Waiting ---------------------------------------------------------------

// All threads of the run arrive here before any goes on.
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

// -- Tiles -----------------------------------------------------------------

static void run_box(dv_strips *s, const dv_tile *t)
{
    s->n_parts = 0;
    if (s->k->compute == DV_IN_F32)
        dv_strips_f32(s, t->begin, t->end);
    else if (s->k->compute == DV_IN_F64)
        dv_strips_f64(s, t->begin, t->end);
    else
        dv_strips_i64(s, t->begin, t->end);
}

static void start_op(dv_worker *w, int32_t op)
{
    dv_exec *x = w->x;
    dv_strips *s = &w->strips;
    s->k = &x->kernels[op];
    s->old = s->k->old_off < 0 ? NULL : (char *)x->snapshot + s->k->old_off;
    s->part = DV_WHOLE;
}

// Where element 0 of each read is, then of the write.
static void find_tensors(dv_worker *w)
{
    const dv_op *o = w->strips.k->op;
    for (int r = 0; r < o->n_reads; r++)
        w->at[r] = (void *)(uintptr_t)dv_strips_source(&w->strips, r);
    w->at[o->n_reads] = w->data[o->write.tensor];
}

// The op that was started, on one tile.
static void run_op(dv_worker *w, int32_t op, const dv_tile *t)
{
    const dv_way *way = &w->x->ways[op];
    if (!way->product && !way->vec) {
        run_box(&w->strips, t);
        return;
    }
    find_tensors(w);
    if (way->product)
        dv_product_run(way->product, t, w->id, w->at, w->memory, NULL);
    else
        dv_vec_op_run(way->vec, w->at, t->begin, t->end);
}

// The thread's tiles of temporaries, where the tile at hand would be in the
// whole tensor.
static void place_locals(dv_worker *w, const dv_group_plan *g, int64_t tile)
{
    const dv_plan *plan = w->x->plan;
    for (int32_t i = 0; i < g->n_locals; i++) {
        const dv_local *l = &g->locals[i];
        const dv_op *o = &plan->ops->ops[l->op];
        dv_tile t;
        dv_plan_tile(&t, plan, l->op, tile);
        int64_t first = 0;
        for (int d = 0; d < o->write.n_dims; d++) {
            int64_t at = o->write.index[d].base;
            for (int v = 0; v < o->n_vars; v++)
                at += o->write.index[d].coef[v] * t.begin[v];
            first += at * l->strides[d];
        }
        dv_dtype dtype = plan->ops->tensors[l->tensor].dtype;
        int64_t bytes = l->off_bytes - first * dv_dtype_get(dtype)->size_bytes;
        // Outside of the memory; what is in the tile is inside again.
        w->data[l->tensor] = (void *)((uintptr_t)w->local + (uintptr_t)bytes);
    }
}

// The part that a tile is of its results, and the tile that has part number
// `part` of them.
static int64_t part_of(const dv_op *o, const dv_tile *t, int64_t *n_parts)
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

static int64_t tile_of_part(const dv_op *o, const dv_tile *t, int64_t part)
{
    int64_t tile = 0, weight = 1;
    for (int v = o->n_vars - 1; v >= 0; v--) {
        int64_t slot = t->slot[v];
        if (o->vars[v].reduce) {
            slot = part % t->n_slots[v];
            part /= t->n_slots[v];
        }
        tile += slot * weight;
        weight *= t->n_slots[v];
    }
    return tile;
}

static void compute_part(dv_worker *w, int32_t op, int64_t tile)
{
    dv_tile t;
    dv_plan_tile(&t, w->x->plan, op, tile);
    start_op(w, op);
    void *acc = w->x->parts + tile * w->x->part_bytes;
    const dv_way *way = &w->x->ways[op];
    if (way->product || way->vec)
        find_tensors(w);
    if (way->product) {
        dv_product_run(way->product, &t, w->id, w->at, w->memory, acc);
    } else if (way->vec) {
        dv_vec_op_part(way->vec, w->at, t.begin, t.end, DV_FIRST_PART, acc);
    } else {
        w->strips.part = DV_FIRST_PART;
        w->strips.parts = acc;
        run_box(&w->strips, &t);
    }
}

static void combine_parts(dv_worker *w, int32_t op, int64_t tile)
{
    const dv_exec *x = w->x;
    const dv_op *o = &x->plan->ops->ops[op];
    dv_strips *s = &w->strips;
    dv_tile t;
    int64_t n_parts;
    dv_plan_tile(&t, x->plan, op, tile);
    if (part_of(o, &t, &n_parts) != 0)
        return;
    start_op(w, op);
    int64_t n = 1;
    for (int v = 0; v < o->n_vars; v++)
        n *= o->vars[v].reduce ? 1 : t.end[v] - t.begin[v];
    s->parts = x->parts + tile * x->part_bytes;
    for (int64_t k = 1; k < n_parts; k++)
        dv_strips_add(s->k, s->parts,
                      x->parts + tile_of_part(o, &t, k) * x->part_bytes, n);
    if (x->ways[op].vec) {
        find_tensors(w);
        dv_vec_op_part(x->ways[op].vec, w->at, t.begin, t.end, DV_FINISH,
                       s->parts);
        return;
    }
    s->part = DV_FINISH;
    run_box(s, &t);
}

// -- Groups ----------------------------------------------------------------

// Tensors as they are before updates that read what they overwrite; each
// thread copies its share.
static void take_snapshots(dv_worker *w, const dv_group *g, int32_t n)
{
    dv_exec *x = w->x;
    for (int32_t op = g->first_op; op < g->end_op; op++) {
        if (x->kernels[op].old_off < 0)
            continue;
        int32_t t = x->kernels[op].op->write.tensor;
        int64_t bytes = dv_tensor_bytes(&x->plan->ops->tensors[t]);
        int64_t from = bytes / n * w->id + dv_min_i64(w->id, bytes % n);
        int64_t len = bytes / n + (w->id < bytes % n);
        memcpy((char *)x->snapshot + x->kernels[op].old_off + from,
               (char *)x->data[t] + from, (size_t)len);
    }
    wait_all(x, n);
}

static void run_tile(dv_worker *w, int32_t group, int32_t first, int32_t end,
                     int64_t tile)
{
    dv_tile t;
    place_locals(w, &w->x->group[group], tile);
    for (int32_t op = first; op < end; op++) {
        start_op(w, op);
        dv_plan_tile(&t, w->x->plan, op, tile);
        run_op(w, op, &t);
    }
}

static int in_parts(const dv_plan *plan, int32_t op)
{
    const dv_op *o = &plan->ops->ops[op];
    for (int v = 0; v < o->n_vars; v++)
        if (o->vars[v].reduce &&
            plan->slices[op][v] < o->vars[v].end - o->vars[v].begin)
            return 1;
    return 0;
}

int dv_group_in_parts(const dv_plan *plan, int32_t group)
{
    const dv_group *g = &plan->groups[group];
    for (int32_t op = g->first_op; op < g->end_op; op++)
        if (in_parts(plan, op))
            return 1;
    return 0;
}

typedef enum phase { WHOLE, PARTS, COMBINE } phase;

// Ops first..end of a group, all tiles.
static void run_phase(dv_worker *w, int32_t group, phase what, int32_t first,
                      int32_t end, int32_t n)
{
    dv_exec *x = w->x;
    const dv_group *g = &x->plan->groups[group];
    for (int32_t d = 0; d < g->n_deals; d++) {
        const dv_deal *deal = &g->deals[d];
        if (deal->core % n != w->id)
            continue;
        for (int64_t i = 0; i < deal->n_tiles; i++) {
            int64_t tile = deal->first_tile + i;
            if (atomic_load_explicit(&x->failed, memory_order_relaxed))
                break;
            if (what == WHOLE)
                run_tile(w, group, first, end, tile);
            else if (what == PARTS)
                compute_part(w, first, tile);
            else
                combine_parts(w, first, tile);
            if (w->strips.status != DV_OK)
                atomic_store(&x->failed, 1);
        }
    }
    wait_all(x, n);
}

static void run_group(dv_worker *w, int32_t number, int32_t n)
{
    dv_exec *x = w->x;
    const dv_group *g = &x->plan->groups[number];
    if (x->group[number].snapshots)
        take_snapshots(w, g, n);
    if (!x->group[number].parts)
        run_phase(w, number, WHOLE, g->first_op, g->end_op, n);
    // Ops with sums in parts need nothing of one another: one by one.
    for (int32_t op = g->first_op; op < g->end_op && x->group[number].parts;
         op++) {
        if (in_parts(x->plan, op)) {
            run_phase(w, number, PARTS, op, op + 1, n);
            run_phase(w, number, COMBINE, op, op + 1, n);
        } else {
            run_phase(w, number, WHOLE, op, op + 1, n);
        }
    }
    for (int32_t op = g->first_op; op < g->end_op && w->id == 0; op++)
        x->done += dv_op_work(x->kernels[op].op);
    if (x->progress && w->id == 0)
        x->progress(x->user, x->done / x->total);
}

// Groups from number *g on whose ops lie before `end`; repeats from number
// `next` on may lie in them.
static void run_ops(dv_worker *w, int32_t *g, int32_t end, int32_t next,
                    int32_t n)
{
    const dv_plan *plan = w->x->plan;
    const dv_program *p = plan->ops;
    while (*g < plan->n_groups && plan->groups[*g].first_op < end) {
        int32_t op = plan->groups[*g].first_op;
        while (next < p->n_repeats && p->repeats[next].first_op < op)
            next++;
        if (next >= p->n_repeats || p->repeats[next].first_op != op ||
            p->repeats[next].end_op > end) {
            run_group(w, (*g)++, n);
            continue;
        }
        int32_t start = *g, stop = p->repeats[next].end_op;
        for (int64_t k = 0; k < p->repeats[next].times; k++) {
            *g = start;
            run_ops(w, g, stop, next + 1, n);
        }
        while (*g < plan->n_groups && plan->groups[*g].first_op < stop)
            ++*g; // a repeat of 0 times
        while (next < p->n_repeats && p->repeats[next].first_op < stop)
            next++;
    }
}

// -- The team --------------------------------------------------------------

static void work(dv_exec *x, int32_t id, int32_t n)
{
    dv_worker *w = &x->workers[id];
    int32_t g = 0;
    if (n > 1)
        dv_pin(x->pins, id);
    memcpy(w->data, x->data, (size_t)x->plan->ops->n_tensors * sizeof *w->data);
    w->strips.status = DV_OK;
    run_ops(w, &g, x->plan->ops->n_ops, 0, n);
    if (n > 1 && id == 0)
        dv_unpin(x->pins);
}

#if defined(__SANITIZE_THREAD__)
// The sanitizer does not see what OpenMP's runtime does between threads, and
// would find races everywhere; it sees these.
typedef struct member {
    dv_exec *x;
    int32_t id;
} member;

static void *begin(void *arg)
{
    const member *m = arg;
    work(m->x, m->id, m->x->n_workers);
    return NULL;
}

static void fork_and_join(dv_exec *x)
{
    pthread_t threads[64];
    member m[64];
    if (x->n_workers > 64)
        x->n_workers = 64;
    for (int32_t i = 0; i < x->n_workers; i++) {
        m[i] = (member){x, i};
        if (i > 0)
            pthread_create(&threads[i], NULL, begin, &m[i]);
    }
    begin(&m[0]);
    for (int32_t i = 1; i < x->n_workers; i++)
        pthread_join(threads[i], NULL);
}
#else
static void fork_and_join(dv_exec *x)
{
#ifdef _OPENMP
#pragma omp parallel num_threads(x->n_workers)
    work(x, omp_get_thread_num(), omp_get_num_threads());
#else
    work(x, 0, 1);
#endif
}
#endif

dv_status dv_crew_run(dv_exec *x, dv_diag *diag)
{
    atomic_store(&x->failed, 0);
    atomic_store(&x->arrived, 0);
    fork_and_join(x);
    for (int32_t i = 0; i < x->n_workers; i++) {
        dv_status st = x->workers[i].strips.status;
        if (st == DV_OK)
            continue;
        dv_diag_move(diag, x->workers[i].diag);
        return st;
    }
    return DV_OK;
}

// What is known of the groups, and memory for parts of sums.
static int find_parts(dv_exec *x)
{
    const dv_plan *plan = x->plan;
    int64_t most = 0, total = 0;
    x->part_bytes = 0;
    for (int32_t g = 0; g < plan->n_groups; g++) {
        const dv_group *group = &plan->groups[g];
        dv_group_plan *run = &x->group[g];
        run->parts = dv_group_in_parts(plan, g);
        run->snapshots = 0;
        for (int32_t i = group->first_op; i < group->end_op; i++) {
            const dv_op *o = &plan->ops->ops[i];
            int64_t n = 8;
            run->snapshots |= x->kernels[i].old_off >= 0;
            if (!in_parts(plan, i))
                continue;
            for (int v = 0; v < o->n_vars; v++)
                n *= o->vars[v].reduce ? 1 : plan->slices[i][v];
            x->part_bytes = dv_max_i64(x->part_bytes, n);
            most = dv_max_i64(most, group->n_tiles);
        }
    }
    if (most == 0)
        return 1;
    if (!dv_mul_i64(&total, x->part_bytes, most))
        return 0;
    x->parts = dv_alloc((size_t)total);
    return x->parts != NULL;
}

static dv_status prepare_deal(dv_exec *x, dv_product *p, int32_t op,
                              const dv_deal *deal, dv_diag *diag)
{
    int32_t id = (int32_t)(deal->core % x->n_workers);
    for (int64_t i = 0; i < deal->n_tiles; i++) {
        dv_tile t;
        dv_plan_tile(&t, x->plan, op, deal->first_tile + i);
        DV_TRY(dv_product_prepare(p, &t, id, &x->workers[id].set, diag));
    }
    return DV_OK;
}

// Kernels for an op, where there are any; else it is done in strips.
static dv_status find_way(dv_exec *x, const dv_group *g, int32_t op,
                          dv_diag *diag)
{
    const dv_kernel *k = &x->kernels[op];
    dv_way *way = &x->ways[op];
    int parts = in_parts(x->plan, op);
    dv_vec_how vec = {.p = x->plan->ops,
                      .op = k->op,
                      .reads = k->reads,
                      .write = &k->write,
                      .parts = k->reduce != NULL,
                      .copied = k->old_off >= 0};
    // Parts are added up as the strips do it, which compute integers in i64.
    if (dv_jit_has_vec(x->jit) && (!parts || k->compute != DV_IN_I64))
        DV_TRY(dv_vec_op_create(&way->vec, &vec, x->jit, &x->arena, diag));
    dv_product_how how = {.plan = x->plan,
                          .kernel = k,
                          .vec = way->vec,
                          .op = op,
                          .n_threads = x->n_workers,
                          .parts = parts,
                          .jit = x->jit,
                          .arena = &x->arena};
    DV_TRY(dv_product_create(&way->product, &how, diag));
    for (int32_t d = 0; way->product && d < g->n_deals; d++)
        DV_TRY(prepare_deal(x, way->product, op, &g->deals[d], diag));
    return DV_OK;
}

static dv_status find_ways(dv_exec *x, dv_diag *diag)
{
    const dv_plan *plan = x->plan;
    x->ways = DV_NEW(&x->arena, dv_way, plan->ops->n_ops);
    if (!x->ways)
        return dv_nomem(diag);
    x->jit = x->kind == DV_RUN_THREADS ? dv_jit_shared() : NULL;
    dv_caches caches = x->jit ? dv_host_caches() : (dv_caches){0};
    for (int32_t i = 0; i < x->n_workers; i++) {
        x->workers[i].set.l1_bytes = caches.l1_bytes;
        x->workers[i].set.l2_bytes = caches.l2_bytes;
        x->workers[i].set.l3_bytes = caches.l3_bytes;
    }
    for (int32_t g = 0; g < plan->n_groups && x->jit; g++)
        for (int32_t op = plan->groups[g].first_op; op < plan->groups[g].end_op;
             op++)
            DV_TRY(find_way(x, &plan->groups[g], op, diag));
    for (int32_t i = 0; i < x->n_workers; i++) {
        dv_worker *w = &x->workers[i];
        w->memory = dv_alloc((size_t)w->set.memory_bytes);
        if (!w->memory)
            return dv_nomem(diag);
    }
    return DV_OK;
}

static int make_worker(dv_exec *x, int32_t id)
{
    dv_worker *w = &x->workers[id];
    w->x = x;
    w->id = id;
    w->data = DV_NEW(&x->arena, void *, x->plan->ops->n_tensors);
    w->local = dv_alloc((size_t)x->local_bytes + 64);
    // One strip more than slots: the accumulators.
    w->buf = dv_alloc(((size_t)x->n_slots + 1) * DV_STRIP * 8);
    w->diag = dv_diag_create();
    int32_t most = 0;
    for (int32_t i = 0; i < x->plan->ops->n_ops; i++)
        most = x->plan->ops->ops[i].n_reads > most
                   ? x->plan->ops->ops[i].n_reads
                   : most;
    w->at = DV_NEW(&x->arena, void *, most + 1);
    if (!w->data || !w->local || !w->buf || !w->diag || !w->at)
        return 0;
    w->strips = (dv_strips){
        .p = x->plan->ops, .data = w->data, .diag = w->diag, .buf = w->buf};
    w->strips.acc = (char *)w->buf + (size_t)x->n_slots * DV_STRIP * 8;
    return 1;
}

// Threads of their own choice where the user has not bound them.
static int may_pin(void)
{
#ifdef _OPENMP
    return omp_get_proc_bind() == omp_proc_bind_false;
#else
    return 0;
#endif
}

dv_status dv_crew_create(dv_exec *x, dv_diag *diag)
{
    int64_t cores = x->plan->target.cores, most = 1;
#ifndef _OPENMP
    cores = 1;
#endif
    if (x->kind != DV_RUN_THREADS)
        cores = 1;
    for (int32_t g = 0; g < x->plan->n_groups; g++)
        for (int32_t d = 0; d < x->plan->groups[g].n_deals; d++)
            most = dv_max_i64(most, x->plan->groups[g].deals[d].core + 1);
    int32_t n = (int32_t)dv_min_i64(cores, most);
    x->workers = DV_NEW(&x->arena, dv_worker, n);
    if (!x->workers || !find_parts(x))
        return dv_nomem(diag);
    x->n_workers = n;
    for (int32_t i = 0; i < n; i++)
        if (!make_worker(x, i))
            return dv_nomem(diag);
    DV_TRY(find_ways(x, diag));
    if (n > 1 && may_pin() && !dv_pins_create(&x->pins, n))
        return dv_nomem(diag);
    return DV_OK;
}

void dv_exec_list(const dv_exec *x, dv_text *out)
{
    const dv_program *p = x->plan->ops;
    for (int32_t i = 0; i < p->n_ops; i++)
        dv_put(out, "# op %d, %s: %s\n", (int)i, p->ops[i].name,
               x->ways[i].product ? "a contraction"
               : x->ways[i].vec   ? "a vector kernel"
                                  : "in strips, no kernel");
    if (x->jit)
        dv_jit_list(x->jit, out);
}

void dv_crew_destroy(dv_exec *x)
{
    for (int32_t i = 0; i < x->n_workers; i++) {
        dv_release(x->workers[i].local);
        dv_release(x->workers[i].buf);
        dv_release(x->workers[i].memory);
        dv_product_set_free(&x->workers[i].set);
        dv_diag_destroy(x->workers[i].diag);
    }
    x->n_workers = 0;
    dv_release(x->parts);
    x->parts = NULL;
    dv_pins_destroy(x->pins);
    x->pins = NULL;
}
