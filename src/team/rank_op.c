// The ops of a rank: what it computes of each is a few boxes (a core, edges),
// a box is cut into tiles, and tiles are shared among the rank's threads.
//
//   target  i 170..341, j 2..510
//   core    i 172..339            tiles i 172..255, i 255..339
//   edges   i 170..172, i 339..341, each of one tile: too little to share
//
// A tile is a product, a call of a vector kernel, or strips, as in a run of one
// process. All is made before the first run.
#define _POSIX_C_SOURCE 200809L
#include "base/fork.h"
#include "base/math.h"
#include "base/together.h"
#include "team/rank_state.h"
#include "exec/vec_range.h"
#include "target/host.h"
#include <string.h>

enum {
    MAX_HANDS = 1024,
    PIECES = 8, // of a thread's share of a core, while messages travel
    // Sums that several ranks or tiles have parts of are cut by numbers that
    // no rank or thread has a say in, so that results do not depend on them.
    MAX_PARTS = 16,
    FEW_RESULTS = 64, // so few are not shared among threads: sums are cut
};

// -- Side by side ----------------------------------------------------------

typedef struct job {
    dv_rank *r;
    const dv_rank_op *o;
    const dv_work *w;
    int part;
    char *acc;
} job;

// What hand `id` of n does of a job.
typedef void (*share)(const job *j, int32_t id, int32_t n);

typedef struct shared {
    const job *j;
    share run;
} shared;

static void one_hand(void *arg, int32_t id)
{
    const shared *s = arg;
    s->run(s->j, id, s->j->r->n_hands);
}

// All hands, if there is so much to do; else the caller alone.
static void together(const job *j, share run, int much)
{
    shared s = {j, run};
    if (much && j->r->n_hands > 1 && dv_has_threads())
        dv_together(one_hand, &s, j->r->n_hands);
    else
        run(j, 0, 1);
}

// -- Computing -------------------------------------------------------------

static int64_t acc_bytes(const dv_rank_op *o)
{
    return o->k.compute == DV_IN_F32 ? 4 : 8;
}

// How far apart accumulators of a tile are along each variable, as kernels or
// strips leave them, and as all ranks pass them on: in rows.
static void kernel_steps(const dv_rank_op *o, const dv_tile *t, int64_t *steps)
{
    const dv_op *op = o->k.op;
    int64_t n = 1;
    if (o->vec) {
        dv_vec_op_acc_steps(o->vec, t->begin, t->end, steps);
        return;
    }
    memset(steps, 0, sizeof *steps * (size_t)op->n_vars);
    for (int k = op->n_vars; k >= 0; k--) { // the strip's variable is innermost
        int v = k == op->n_vars ? o->k.strip : k;
        if (v < 0 || op->vars[v].reduce || (k == o->k.strip && v == k))
            continue;
        steps[v] = n;
        n *= t->end[v] - t->begin[v];
    }
}

static void row_steps(const dv_rank_op *o, const dv_tile *t, int64_t *steps)
{
    int64_t n = 1;
    for (int v = o->k.op->n_vars - 1; v >= 0; v--) {
        steps[v] = o->k.op->vars[v].reduce ? 0 : n;
        n *= o->k.op->vars[v].reduce ? 1 : t->end[v] - t->begin[v];
    }
}

// Between the kernel's order and rows.
static void reorder(const dv_rank_op *o, const dv_tile *t, char *raw,
                    char *rows, int into_rows)
{
    const dv_op *op = o->k.op;
    int64_t from[DV_MAX_VARS], to[DV_MAX_VARS], at[DV_MAX_VARS] = {0};
    size_t bytes = (size_t)acc_bytes(o);
    kernel_steps(o, t, from);
    row_steps(o, t, to);
    for (int more = 1; more;) {
        int64_t x = 0, y = 0;
        for (int v = 0; v < op->n_vars; v++) {
            x += from[v] * at[v];
            y += to[v] * at[v];
        }
        char *a = raw + (size_t)x * bytes, *b = rows + (size_t)y * bytes;
        memcpy(into_rows ? b : a, into_rows ? a : b, bytes);
        more = 0;
        for (int v = op->n_vars - 1; v >= 0 && !more; v--) {
            if (op->vars[v].reduce)
                continue;
            more = ++at[v] < t->end[v] - t->begin[v];
            if (!more)
                at[v] = 0;
        }
    }
}

static void compute_part(const job *j, dv_hand *h, int32_t i)
{
    const dv_rank_op *o = j->o;
    const dv_tile *t = &j->w->tiles[i];
    int64_t off = j->w->acc_at[i] * acc_bytes(o);
    char *rows = j->acc + off, *acc = o->raw ? o->raw + off : rows;
    if (o->raw && j->part == DV_FINISH)
        reorder(o, t, acc, rows, 0);
    h->strips.parts = acc;
    h->strips.n_parts = 0;
    if (o->product && j->part == DV_FIRST_PART)
        dv_product_run(o->product, t, j->w->first_tile + i, o->at, h->memory,
                       acc);
    else if (o->vec)
        dv_vec_op_part(o->vec, o->at, t->begin, t->end, j->part, acc);
    else
        dv_strips_run(&h->strips, t->begin, t->end);
    if (o->raw && j->part == DV_FIRST_PART)
        reorder(o, t, acc, rows, 1);
}

static void compute_tile(const job *j, dv_hand *h, int32_t i)
{
    const dv_rank_op *o = j->o;
    const dv_tile *t = &j->w->tiles[i];
    h->strips.k = &o->k;
    h->strips.old = o->k.old_off >= 0 ? j->r->snapshot : NULL;
    h->strips.part = j->part == DV_WHOLE    ? DV_WHOLE
                     : j->part == DV_FINISH ? DV_FINISH
                                            : DV_FIRST_PART;
    if (j->part != DV_WHOLE)
        compute_part(j, h, i);
    else if (o->looks &&
             !dv_vec_op_fits(j->r->p, &o->k, o->at, t->begin, t->end))
        dv_strips_run(&h->strips, t->begin, t->end);
    else if (o->product)
        dv_product_run(o->product, t, j->w->first_tile + i, o->at, h->memory,
                       NULL);
    else if (o->vec)
        dv_vec_op_run(o->vec, o->at, t->begin, t->end);
    else
        dv_strips_run(&h->strips, t->begin, t->end);
}

// The first of n tiles that is not for a hand before this one.
static int32_t first_tile(const dv_rank *r, int32_t n, int32_t hand)
{
    return (int32_t)dv_ceil_div((int64_t)hand * n, r->n_hands);
}

static void compute_share(const job *j, int32_t id, int32_t n)
{
    dv_rank *r = j->r;
    for (int32_t h = id; h < r->n_hands; h += n) {
        int32_t end = first_tile(r, j->w->n_tiles, h + 1);
        for (int32_t i = first_tile(r, j->w->n_tiles, h); i < end; i++) {
            if (r->hands[h].strips.status == DV_OK)
                compute_tile(j, &r->hands[h], i);
            if (id == 0 && r->travelling)
                r->comm->ops->poke(r->comm, r->travelling);
        }
    }
}

// A rank in trouble computes no more, and goes on sending what it has.
void dv_hands_compute(dv_rank *r, const dv_rank_op *o, const dv_work *w,
                      int part, char *acc)
{
    job j = {r, o, w, part, acc};
    if (r->status != DV_OK)
        return;
    together(&j, compute_share, w->n_tiles > 1);
    for (int32_t i = 0; i < r->n_hands; i++) {
        dv_hand *h = &r->hands[i];
        if (h->strips.status == DV_OK)
            continue;
        dv_diag_move(r->status == DV_OK ? r->trouble : NULL, h->diag);
        if (r->status == DV_OK)
            r->status = h->strips.status;
        h->strips.status = DV_OK;
    }
}

static void copy_share(const job *j, int32_t id, int32_t n)
{
    int32_t t = j->o->k.op->write.tensor;
    int64_t bytes = dv_box_elems(&j->r->local[t]) * dv_rank_elem(j->r, t);
    dv_range mine = dv_dist_part(bytes, n, id);
    memcpy((char *)j->r->snapshot + mine.off, (char *)j->r->data[t] + mine.off,
           (size_t)mine.size);
}

void dv_hands_snapshot(dv_rank *r, const dv_rank_op *o)
{
    job j = {.r = r, .o = o};
    if (o->k.old_off < 0)
        return;
    together(&j, copy_share,
             dv_box_elems(&r->local[o->k.op->write.tensor]) >= r->min_points);
}

// -- Tiles -----------------------------------------------------------------

static int64_t span(const dv_space *box, int v)
{
    return box->end[v] - box->begin[v];
}

static int64_t points(const dv_op *op, const dv_space *box, int reduced)
{
    int64_t n = 1;
    for (int v = 0; v < op->n_vars; v++)
        n *= op->vars[v].reduce && !reduced ? 1 : span(box, v);
    return n;
}

// The variable to cut into `want` slices: the first one that is long enough, so
// that rows stay whole; else the longest. -1: none may be cut.
static int pick_cut(const dv_op *op, const dv_space *box, int reduced,
                    int64_t want)
{
    int best = -1;
    uint32_t written = (uint32_t)dv_access_vars(op, &op->write);
    if (op->is_extern || dv_access_is_indirect(&op->write))
        return -1;
    for (int v = 0; v < op->n_vars; v++) {
        if (op->vars[v].reduce != reduced || (!reduced && !(written >> v & 1)))
            continue;
        if (!reduced && span(box, v) >= want)
            return v;
        if (best < 0 || span(box, v) > span(box, best))
            best = v;
    }
    return best;
}

// How many tiles a box is cut into at most.
static int64_t tiles_wanted(const dv_rank *r, const dv_rank_op *o,
                            const dv_work *w)
{
    const dv_op *op = o->k.op;
    if (o->in_parts)
        return MAX_PARTS;
    if (o->sum)
        return dv_min_i64(MAX_PARTS,
                          points(op, &w->box, 0) * MAX_PARTS / r->min_points);
    int64_t n = r->n_hands;
    if (o->n_from && w->n_waits == 0 && r->comm->ops->poke && !o->product)
        n *= PIECES;
    return dv_min_i64(n, points(op, &w->box, 1) / r->min_points);
}

static int cut(dv_rank *r, dv_rank_op *o, dv_work *w)
{
    const dv_op *op = o->k.op;
    int64_t want = dv_max_i64(1, tiles_wanted(r, o, w));
    int v = pick_cut(op, &w->box, o->in_parts, want);
    int64_t n = v < 0 ? 1 : dv_max_i64(1, dv_min_i64(want, span(&w->box, v)));
    w->tiles = DV_NEW(&r->arena, dv_tile, n);
    w->acc_at = DV_NEW(&r->arena, int64_t, n);
    if (!w->tiles || !w->acc_at)
        return 0;
    int64_t acc = 0;
    for (int64_t i = 0; i < n; i++) {
        dv_tile *t = &w->tiles[i];
        dv_space box = w->box;
        if (v >= 0) {
            dv_range part = dv_dist_part(span(&w->box, v), n, i);
            box.begin[v] = w->box.begin[v] + part.off;
            box.end[v] = box.begin[v] + part.size;
        }
        memcpy(t->begin, box.begin, sizeof t->begin);
        memcpy(t->end, box.end, sizeof t->end);
        for (int k = 0; k < op->n_vars; k++)
            t->n_slots[k] = 1;
        w->acc_at[i] = acc;
        acc += points(op, &box, 0);
    }
    w->n_tiles = (int32_t)n;
    w->first_tile = o->n_tiles;
    o->n_tiles += (int32_t)n;
    return 1;
}

int dv_hands_part(const dv_rank *r, const dv_rank_op *o)
{
    const dv_op *op = o->k.op;
    dv_space all;
    for (int v = 0; v < op->n_vars; v++) {
        all.begin[v] = op->vars[v].begin;
        all.end[v] = op->vars[v].end;
    }
    return o->k.reduce && !dv_access_is_indirect(&op->write) &&
           !op->is_extern && points(op, &all, 0) <= FEW_RESULTS &&
           points(op, &all, 1) >= MAX_PARTS * r->min_points;
}

static int cut_all(dv_rank *r, dv_rank_op *o)
{
    for (int32_t i = 0; i < o->n_works; i++)
        if (!cut(r, o, &o->works[i]))
            return 0;
    if (!o->sum && !o->in_parts)
        return 1;
    const dv_work *w = &o->works[0];
    int64_t n = w->acc_at[w->n_tiles - 1] + o->n_results;
    int64_t kernel[DV_MAX_VARS] = {0}, rows[DV_MAX_VARS] = {0};
    kernel_steps(o, w->tiles, kernel);
    row_steps(o, w->tiles, rows);
    for (int v = 0; v < o->k.op->n_vars && !o->raw; v++) {
        if (kernel[v] == rows[v] || w->tiles->end[v] - w->tiles->begin[v] == 1)
            continue;
        o->raw = dv_arena_alloc(&r->arena, (size_t)n, 8);
        if (!o->raw)
            return 0;
    }
    if (o->in_parts)
        o->acc = dv_arena_alloc(&r->arena, (size_t)n, 8);
    return !o->in_parts || o->acc;
}

// -- Kernels ---------------------------------------------------------------

// Where element 0 of each access is. Snapshots do not move.
static int find_data(dv_rank *r, dv_rank_op *o)
{
    const dv_op *op = o->k.op;
    o->at = DV_NEW(&r->arena, void *, op->n_reads + 1);
    for (int k = 0; k <= op->n_reads && o->at; k++) {
        int32_t t = k < op->n_reads ? op->reads[k].tensor : op->write.tensor;
        int old = k < op->n_reads && t == op->write.tensor && o->k.old_off >= 0;
        o->at[k] = old ? r->snapshot : r->data[t];
    }
    return o->at != NULL;
}

static dv_status make_vec(dv_rank *r, dv_rank_op *o, dv_diag *diag)
{
    int parts = o->sum || o->in_parts;
    dv_vec_how how = {.p = r->p,
                      .op = o->k.op,
                      .reads = o->k.reads,
                      .write = &o->k.write,
                      .whole = !parts,
                      .copied = o->k.old_off >= 0,
                      .looks = !parts};
    // Parts are added up as the strips do it, which compute integers in i64.
    if (!dv_jit_has_vec(r->jit) || (parts && o->k.compute == DV_IN_I64))
        return DV_OK;
    DV_TRY(dv_vec_op_create(&o->vec, &how, r->jit, &r->arena, diag));
    if (o->vec && parts && dv_vec_op_acc_bytes(o->vec) != acc_bytes(o))
        o->vec = NULL;
    o->looks = o->vec && dv_vec_op_looks(o->vec);
    return DV_OK;
}

// A contraction for each tile, on the thread that has it.
static dv_status prepare(dv_rank *r, dv_rank_op *o, dv_diag *diag)
{
    for (int32_t k = 0; k < o->n_works; k++) {
        const dv_work *w = &o->works[k];
        for (int32_t h = 0; h < r->n_hands; h++)
            for (int32_t i = first_tile(r, w->n_tiles, h);
                 i < first_tile(r, w->n_tiles, h + 1); i++)
                DV_TRY(dv_product_prepare(o->product, &w->tiles[i],
                                          w->first_tile + i, &r->hands[h].set,
                                          diag));
    }
    return DV_OK;
}

// After its tiles are known. What no kernel can do is done the other way, in
// all tiles alike.
static dv_status make_product(dv_rank *r, int32_t op, dv_diag *diag)
{
    dv_rank_op *o = &r->ops[op];
    dv_product_how how = {.plan = &r->whole,
                          .kernel = &o->k,
                          .vec = o->vec,
                          .op = op,
                          .n_threads = o->n_tiles,
                          .parts = o->sum || o->in_parts,
                          .jit = r->jit,
                          .arena = &r->arena};
    DV_TRY(dv_product_create(&o->product, &how, diag));
    dv_status st = o->product ? prepare(r, o, NULL) : DV_OK;
    if (st == DV_E_LIMIT) {
        o->product = NULL;
        return DV_OK;
    }
    return st == DV_OK ? DV_OK : prepare(r, o, diag); // once more, to say why
}

static dv_status make_op(dv_rank *r, int32_t op, dv_diag *diag)
{
    dv_rank_op *o = &r->ops[op];
    if (!o->has_target)
        return DV_OK;
    o->n_results = points(o->k.op, &o->target, 0);
    if (r->jit)
        DV_TRY(make_vec(r, o, diag));
    if (!find_data(r, o) || !cut_all(r, o))
        return dv_nomem(diag);
    return r->jit ? make_product(r, op, diag) : DV_OK;
}

// -- Threads ---------------------------------------------------------------

static int make_hand(dv_rank *r, dv_hand *h, dv_caches caches)
{
    size_t slot = (size_t)DV_STRIP * 8;
    char *buf = dv_arena_alloc(&r->arena, (size_t)r->n_slots + 1, slot);
    h->diag = dv_diag_create();
    h->set.l1_bytes = caches.l1_bytes;
    h->set.l2_bytes = caches.l2_bytes;
    h->set.l3_bytes = caches.l3_bytes;
    if (!buf || !h->diag)
        return 0;
    h->strips =
        (dv_strips){.p = r->p, .data = r->data, .diag = h->diag, .buf = buf};
    h->strips.acc = buf + (size_t)r->n_slots * slot;
    return 1;
}

static int slice_nothing(dv_rank *r)
{
    r->whole.ops = r->plan->ops;
    r->whole.target = r->plan->target;
    r->whole.facts = r->plan->facts & DV_FACT_LOOPED;
    r->whole.sums = r->plan->sums;
    r->whole.n_sums = r->plan->n_sums;
    r->whole.slices = DV_NEW(&r->arena, int64_t *, r->p->n_ops);
    for (int32_t i = 0; i < r->p->n_ops && r->whole.slices; i++) {
        const dv_op *op = &r->p->ops[i];
        int64_t *s = DV_NEW(&r->arena, int64_t, op->n_vars);
        if (!s)
            return 0;
        for (int v = 0; v < op->n_vars; v++)
            s[v] = op->vars[v].end - op->vars[v].begin;
        r->whole.slices[i] = s;
    }
    return r->whole.slices != NULL;
}

dv_status dv_hands_create(dv_rank *r, int32_t n, dv_diag *diag)
{
#ifndef _OPENMP
    n = 1;
#endif
    n = n < 1 ? 1 : n > MAX_HANDS ? MAX_HANDS : n;
    r->hands = DV_NEW(&r->arena, dv_hand, n);
    if (!r->hands || !slice_nothing(r))
        return dv_nomem(diag);
    r->n_hands = n;
    r->jit = dv_jit_shared();
    dv_caches caches = r->jit ? dv_host_caches() : (dv_caches){0};
    for (int32_t i = 0; i < n; i++)
        if (!make_hand(r, &r->hands[i], caches))
            return dv_nomem(diag);
    dv_status made = DV_OK;
    for (int32_t i = 0; i < r->p->n_ops && made == DV_OK; i++)
        made = make_op(r, i, diag);
    dv_jit_seal(r->jit);
    DV_TRY(made);
    for (int32_t i = 0; i < n; i++) {
        dv_hand *h = &r->hands[i];
        h->memory =
            dv_arena_alloc(&r->arena, (size_t)h->set.memory_bytes + 1, 1);
        if (!h->memory)
            return dv_nomem(diag);
    }
    return DV_OK;
}

void dv_hands_destroy(dv_rank *r)
{
    for (int32_t i = 0; i < r->n_hands; i++) {
        dv_product_set_free(&r->hands[i].set);
        dv_diag_destroy(r->hands[i].diag);
    }
}
