// One rank of a distributed run: its memory, messages, ops and threads, and the
// loop that runs the program.
//
// The part of an op that a rank computes consists of a few boxes: an interior
// (the core), which reads no received elements, and edges. A box is cut into
// tiles, which the rank's threads share:
//
//   target  i 170..341, j 2..510
//   core    i 172..339            tiles i 172..255, i 255..339
//   edges   i 170..172, i 339..341, each of one tile: too small to share
//
// A tile is computed by a product, a vector kernel or the interpreter, as in a
// run on one process. Messages are sent before the op that needs them; its
// interior is computed while they travel, its edges as they arrive. Everything
// is prepared before the first run.
#define _POSIX_C_SOURCE 200809L // declares sysconf
#include "base/clock.h"
#include "base/fork.h"
#include "base/math.h"
#include "base/together.h"
#include "exec/product.h"
#include "exec/vec_range.h"
#include "target/host.h"
#include "team/combine.h"
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum {
    // Fewest points of a tile that is worth a thread.
    MIN_POINTS = 4096,
    MAX_THREADS = 1024,
    // Tiles per thread of an interior (the part that needs no received
    // elements) that is computed while messages travel: MPI is called between
    // tiles so that the messages progress.
    PIECES = 8,
    // A reduction that is split over ranks or tiles is cut into parts whose
    // number depends on neither, so that results do not depend on the numbers
    // of ranks and threads.
    MAX_PARTS = 16,
    // An op with at most this many results is parallelised over its reduction
    // instead of its results.
    FEW_RESULTS = 64,
};

// The messages of one exchange of elements between ranks (swap): one buffer per
// partner rank, into which the boxes for it are packed one after the other.
typedef struct post {
    dv_op_exchange swap;
    dv_message_buffer *sends, *receives;
    // Index of the first piece (box of elements to send or receive) of each
    // partner rank, then the number of pieces.
    int32_t *send_at, *receive_at;
    int32_t n_sends, n_receives;
    dv_message_set *wire;
    dv_exchange_traffic carried; // traffic received by this rank so far
} post;

// A work item: a box of an op that is computed as soon as the messages it needs
// have arrived.
typedef struct work {
    dv_iter_space box;
    int32_t n_waits; // number of messages that the box needs
    // The tiles, each for one thread; a thread has consecutive tiles.
    dv_tile *tiles;
    int64_t *acc_at; // offset of each tile's accumulators
    // first_tile is the number of this work item's tile 0 among all tiles of
    // the op.
    int32_t n_tiles, first_tile;
} work;

typedef struct rank_op {
    dv_kernel k;
    dv_iter_space target;
    int has_target;
    work *works; // work items, the interior first if the op has one
    int32_t n_works, n_tiles;
    // needs[m * n_works + w] is 1 if work item w (a box of the op) reads data
    // of message m, counted over all exchanges of the op.
    char *needs;
    // Number of messages that each work item (a box of the op) still waits for
    // in this run.
    int32_t *left;
    post **from; // the exchanges whose messages the op reads
    int32_t n_from;
    // If the reduction is split over ranks or tiles, all parts first go to
    // accumulators.
    dv_combine *sum; // combines partial sums of ranks; NULL: not split
    int in_parts;    // 1 if the reduction is split over this rank's tiles
    char *acc;       // accumulators of all tiles if in_parts
    int64_t n_results;
    // Accumulators in the order of the kernel; NULL: that order is row-major,
    // as ranks exchange them.
    char *raw;
    // The schedule of a tile; if both pointers are NULL, the interpreter runs
    // it.
    dv_product *product;
    dv_vec_op *vec;
    // 1 if a tile whose values violate the kernel's condition runs in the
    // interpreter (vec_range.h).
    int looks;
    void **at; // addresses of element 0 of each read, then of the write
} rank_op;

// One thread of a rank with its buffers.
typedef struct rank_thread {
    dv_strips strips;
    dv_product_set set; // prepared contractions; owned
    // Scratch memory for tiles of matrix products.
    void *memory;
    dv_diag *diag; // error messages of this thread; owned
} rank_thread;

struct dv_rank {
    dv_arena arena; // holds the rank itself
    const dv_plan *plan;
    const dv_program *p;
    dv_comm *comm;
    int overlap;         // 1 if interiors are computed while messages travel
    int64_t min_points;  // fewest points of a tile that is worth a thread
    dv_box *own, *local; // each tensor's owned box, and its box in memory
    void **data;
    rank_op *ops;
    post *exchanges; // messages of each exchange (swap) of the plan
    // Snapshot memory for the largest tensor that an op both reads and updates.
    void *snapshot;
    int32_t n_slots, n_wires;
    // The first thread is the caller's, and only it communicates.
    rank_thread *threads;
    int32_t n_threads;
    // A copy of the plan in which no op is sliced, for creating products; it
    // borrows all but its slices.
    dv_plan whole;
    // Cache of kernels; NULL: none for this machine, all ops run in the
    // interpreter.
    dv_jit *jit;
    // Messages in flight that progress only when ops->progress is called; NULL:
    // none.
    dv_message_set *in_flight;
    dv_status status; // status of this rank alone, until all agree
    dv_diag *trouble; // error message that belongs to `status`
    dv_diag *diag;    // the caller's error messages
    // Callback after each iteration of an outermost repeat (a loop of the
    // program), and the iteration at which the next run continues.
    dv_rank_step step;
    void *user;
    int32_t from_repeat; // repeat at which the next run continues; -1: start
    int64_t from_round;
    int32_t depth;
    int64_t round;          // iteration of the current repeat
    uint64_t hash, program; // hashes of the plan and of its program alone
    uint64_t n_done;        // number of exchanges so far
    // Seconds of the last run spent in exchanges instead of computing.
    double exchange_s;
};

// Groups the pieces (boxes of elements) of an exchange into one message per
// partner rank, and allocates the buffers. The pieces are sorted by rank, as
// rule C20 of the plan checker (check/) demands. Returns 0 when out of memory.
static int make_links(dv_rank *r, const dv_piece *l, int32_t n, int64_t bytes,
                      dv_message_buffer **links, int32_t **at, int32_t *n_links)
{
    *links = DV_NEW(&r->arena, dv_message_buffer, n);
    *at = DV_NEW(&r->arena, int32_t, n + 1);
    *n_links = 0;
    if (!*links || !*at)
        return 0;
    for (int32_t i = 0; i < n; i++) {
        if (i == 0 || l[i].rank != l[i - 1].rank) {
            (*at)[*n_links] = i;
            (*links)[(*n_links)++] = (dv_message_buffer){l[i].rank, NULL, 0};
        }
        (*links)[*n_links - 1].bytes += dv_box_elems(&l[i].box) * bytes;
    }
    (*at)[*n_links] = n;
    for (int32_t i = 0; i < *n_links; i++) {
        dv_message_buffer *k = &(*links)[i];
        k->data = dv_arena_alloc(&r->arena, (size_t)k->bytes, 1);
        if (!k->data)
            return 0;
    }
    return 1;
}

static dv_status create_exchanges(dv_rank *r, dv_diag *diag)
{
    const dv_plan_team *t = &r->plan->team;
    for (int32_t i = 0; i < t->n_op_exchanges; i++) {
        post *e = &r->exchanges[i];
        int64_t bytes = dv_elem_bytes(r->p, t->op_exchanges[i].tensor);
        e->swap = t->op_exchanges[i];
        if ((r->comm->rank != t->rank &&
             !dv_team_messages(&e->swap, r->p, t, i, r->comm->rank,
                               &r->arena)) ||
            !make_links(r, e->swap.sends, e->swap.n_sends, bytes, &e->sends,
                        &e->send_at, &e->n_sends) ||
            !make_links(r, e->swap.receives, e->swap.n_receives, bytes,
                        &e->receives, &e->receive_at, &e->n_receives))
            return dv_nomem(diag);
        DV_TRY(r->comm->ops->open(r->comm, &e->wire, r->n_wires++, e->sends,
                                  e->n_sends, e->receives, e->n_receives,
                                  diag));
    }
    return DV_OK;
}

// With --checked, verifies that all ranks are at the same exchange and
// iteration.
static dv_status compare(dv_rank *r, const post *e)
{
    uint64_t what[4] = {r->hash, (uint64_t)(e - r->exchanges), r->n_done++,
                        (uint64_t)r->round};
    if (!r->comm->checked)
        return DV_OK;
    return dv_comm_check_same(r->comm, dv_hash(DV_HASH, what, sizeof what),
                              "next exchange", r->diag);
}

static dv_status start_exchange(dv_rank *r, post *e)
{
    int32_t t = e->swap.tensor;
    DV_TRY(compare(r, e));
    e->carried.times++;
    for (int32_t i = 0; i < e->n_sends; i++) {
        char *run = e->sends[i].data;
        for (int32_t k = e->send_at[i]; k < e->send_at[i + 1]; k++)
            run = dv_box_copy(run, r->data[t], &r->local[t],
                              &e->swap.sends[k].box, dv_elem_bytes(r->p, t), 1);
    }
    return r->comm->ops->start(r->comm, e->wire);
}

// Waits for the next message and unpacks it into the tensor and, if `old` is
// not NULL, into the tensor's snapshot. Returns the number of the message, or
// -1 after the last.
static int32_t next_message(dv_rank *r, post *e, void *old)
{
    int32_t t = e->swap.tensor, i = r->comm->ops->next(r->comm, e->wire);
    if (i < 0)
        return -1;
    int64_t elem = dv_elem_bytes(r->p, t);
    char *run = e->receives[i].data;
    for (int32_t k = e->receive_at[i]; k < e->receive_at[i + 1]; k++) {
        const dv_box *b = &e->swap.receives[k].box;
        if (old)
            dv_box_copy(run, old, &r->local[t], b, elem, 0);
        run = dv_box_copy(run, r->data[t], &r->local[t], b, elem, 0);
    }
    e->carried.bytes += run - (char *)e->receives[i].data;
    return i;
}

typedef struct job {
    dv_rank *r;
    const rank_op *o;
    const work *w;
    int part;
    char *acc;
} job;

// A function that does the share of thread number `id` of n threads in a job.
typedef void (*share)(const job *j, int32_t id, int32_t n);

typedef struct shared {
    const job *j;
    share run;
} shared;

static void run_thread(void *arg, int32_t id)
{
    const shared *s = arg;
    s->run(s->j, id, s->j->r->n_threads);
}

// Runs a job on all threads if `much` is 1, else on the caller's thread alone.
static void together(const job *j, share run, int much)
{
    shared s = {j, run};
    if (much && j->r->n_threads > 1 && dv_has_threads())
        dv_parallel_for(run_thread, &s, j->r->n_threads);
    else
        run(j, 0, 1);
}

static int64_t acc_bytes(const rank_op *o)
{
    return o->k.compute == DV_IN_F32 ? 4 : 8;
}

// Compute the strides of a tile's accumulators along each variable:
// kernel_strides as a kernel or the interpreter stores them, row_major_strides
// in row-major order, in which ranks exchange them.
static void kernel_strides(const rank_op *o, const dv_tile *t, int64_t *steps)
{
    const dv_op *op = o->k.op;
    int64_t n = 1;
    if (o->vec) {
        dv_vec_op_acc_strides(o->vec, t->begin, t->end, steps);
        return;
    }
    memset(steps, 0, sizeof *steps * (size_t)op->n_vars);
    // If the interpreter runs the op, it stores accumulators with the variable
    // along which it computes (k.strip) innermost.
    for (int k = op->n_vars; k >= 0; k--) {
        int v = k == op->n_vars ? o->k.strip : k;
        if (v < 0 || op->vars[v].reduce || (k == o->k.strip && v == k))
            continue;
        steps[v] = n;
        n *= t->end[v] - t->begin[v];
    }
}

static void row_major_strides(const rank_op *o, const dv_tile *t,
                              int64_t *steps)
{
    int64_t n = 1;
    for (int v = o->k.op->n_vars - 1; v >= 0; v--) {
        steps[v] = o->k.op->vars[v].reduce ? 0 : n;
        n *= o->k.op->vars[v].reduce ? 1 : t->end[v] - t->begin[v];
    }
}

// Copies a tile's accumulators between the kernel's order and row-major order.
static void reorder(const rank_op *o, const dv_tile *t, char *raw, char *rows,
                    int into_rows)
{
    const dv_op *op = o->k.op;
    int64_t from[DV_MAX_VARS], to[DV_MAX_VARS], at[DV_MAX_VARS] = {0};
    size_t bytes = (size_t)acc_bytes(o);
    kernel_strides(o, t, from);
    row_major_strides(o, t, to);
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

static void compute_part(const job *j, rank_thread *h, int32_t i)
{
    const rank_op *o = j->o;
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

static void compute_tile(const job *j, rank_thread *h, int32_t i)
{
    const rank_op *o = j->o;
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

// Returns the first of n tiles that belongs to `thread` or a later thread.
static int32_t first_tile(const dv_rank *r, int32_t n, int32_t thread)
{
    return (int32_t)dv_ceil_div((int64_t)thread * n, r->n_threads);
}

static void compute_share(const job *j, int32_t id, int32_t n)
{
    dv_rank *r = j->r;
    for (int32_t h = id; h < r->n_threads; h += n) {
        int32_t end = first_tile(r, j->w->n_tiles, h + 1);
        for (int32_t i = first_tile(r, j->w->n_tiles, h); i < end; i++) {
            if (r->threads[h].strips.status == DV_OK)
                compute_tile(j, &r->threads[h], i);
            if (id == 0 && r->in_flight)
                r->comm->ops->progress(r->comm, r->in_flight);
        }
    }
}

// Computes all tiles of a work item (a box of the op): final results if `part`
// is DV_WHOLE, else partial sums, in accumulators at `acc`. A rank that has
// failed computes nothing more, but continues to send its data.
static void compute_work(dv_rank *r, const rank_op *o, const work *w, int part,
                         char *acc)
{
    job j = {r, o, w, part, acc};
    if (r->status != DV_OK)
        return;
    together(&j, compute_share, w->n_tiles > 1);
    for (int32_t i = 0; i < r->n_threads; i++) {
        rank_thread *h = &r->threads[i];
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
    int64_t bytes = dv_box_elems(&j->r->local[t]) * dv_elem_bytes(j->r->p, t);
    dv_range mine = dv_dist_part(bytes, n, id);
    memcpy((char *)j->r->snapshot + mine.off, (char *)j->r->data[t] + mine.off,
           (size_t)mine.size);
}

// Copies the tensor that an op both reads and overwrites to the snapshot, from
// which the op then reads.
static void take_snapshot(dv_rank *r, const rank_op *o)
{
    job j = {.r = r, .o = o};
    if (o->k.old_off < 0)
        return;
    together(&j, copy_share,
             dv_box_elems(&r->local[o->k.op->write.tensor]) >= r->min_points);
}

static int64_t span(const dv_iter_space *box, int v)
{
    return box->end[v] - box->begin[v];
}

static int64_t points(const dv_op *op, const dv_iter_space *box, int reduced)
{
    int64_t n = 1;
    for (int v = 0; v < op->n_vars; v++)
        n *= op->vars[v].reduce && !reduced ? 1 : span(box, v);
    return n;
}

// Returns the variable to cut into `want` slices: the first one that is long
// enough, so that rows stay whole, else the longest; -1: none may be cut.
static int pick_cut(const dv_op *op, const dv_iter_space *box, int reduced,
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

// Returns the number of tiles that the box of work item w is cut into at most.
static int64_t tiles_wanted(const dv_rank *r, const rank_op *o, const work *w)
{
    const dv_op *op = o->k.op;
    if (o->in_parts)
        return MAX_PARTS;
    if (o->sum)
        return dv_min_i64(MAX_PARTS,
                          points(op, &w->box, 0) * MAX_PARTS / r->min_points);
    int64_t n = r->n_threads;
    if (o->n_from && w->n_waits == 0 && r->comm->ops->progress && !o->product)
        n *= PIECES;
    return dv_min_i64(n, points(op, &w->box, 1) / r->min_points);
}

static int cut(dv_rank *r, rank_op *o, work *w)
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
        dv_iter_space box = w->box;
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

// Returns 1 if the op has few results of many points each, so that threads
// share the reduction instead of the results.
static int splits_reduction(const dv_rank *r, const rank_op *o)
{
    const dv_op *op = o->k.op;
    dv_iter_space all;
    for (int v = 0; v < op->n_vars; v++) {
        all.begin[v] = op->vars[v].begin;
        all.end[v] = op->vars[v].end;
    }
    return o->k.reduce && !dv_access_is_indirect(&op->write) &&
           !op->is_extern && points(op, &all, 0) <= FEW_RESULTS &&
           points(op, &all, 1) >= MAX_PARTS * r->min_points;
}

static int cut_into_tiles(dv_rank *r, rank_op *o)
{
    for (int32_t i = 0; i < o->n_works; i++)
        if (!cut(r, o, &o->works[i]))
            return 0;
    if (!o->sum && !o->in_parts)
        return 1;
    const work *w = &o->works[0];
    int64_t n = w->acc_at[w->n_tiles - 1] + o->n_results;
    int64_t kernel[DV_MAX_VARS] = {0}, rows[DV_MAX_VARS] = {0};
    kernel_strides(o, w->tiles, kernel);
    row_major_strides(o, w->tiles, rows);
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

// Finds the addresses of element 0 of each access. They stay valid for all
// runs, because the snapshot (the old values of a tensor that the op
// overwrites) has a fixed address, too.
static int find_addresses(dv_rank *r, rank_op *o)
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

static dv_status make_vec(dv_rank *r, rank_op *o, dv_diag *diag)
{
    int parts = o->sum || o->in_parts;
    dv_vec_how how = {.p = r->p,
                      .op = o->k.op,
                      .reads = o->k.reads,
                      .write = &o->k.write,
                      .whole = !parts,
                      .copied = o->k.old_off >= 0,
                      .looks = !parts};
    // If partial sums of integers are added, no vector kernel is created: the
    // interpreter's functions add them as i64, while vector kernels use i32.
    if (parts && o->k.compute == DV_IN_I64)
        return DV_OK;
    DV_TRY(dv_vec_op_create(&o->vec, &how, r->jit, &r->arena, diag));
    if (o->vec && parts && dv_vec_op_acc_bytes(o->vec) != acc_bytes(o))
        o->vec = NULL;
    o->looks = o->vec && dv_vec_op_guard(o->vec);
    return DV_OK;
}

// Prepares a contraction for each tile, for the thread that computes it.
static dv_status prepare(dv_rank *r, rank_op *o, dv_diag *diag)
{
    for (int32_t k = 0; k < o->n_works; k++) {
        const work *w = &o->works[k];
        for (int32_t h = 0; h < r->n_threads; h++)
            for (int32_t i = first_tile(r, w->n_tiles, h);
                 i < first_tile(r, w->n_tiles, h + 1); i++)
                DV_TRY(dv_product_prepare(o->product, &w->tiles[i],
                                          w->first_tile + i, &r->threads[h].set,
                                          diag));
    }
    return DV_OK;
}

// Creates the product of an op whose tiles are known. If the kernels of a tile
// exceed a size limit, o->product becomes NULL and all tiles are run by a
// vector kernel or the interpreter.
static dv_status make_product(dv_rank *r, int32_t op, dv_diag *diag)
{
    rank_op *o = &r->ops[op];
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
    if (st != DV_OK && st != DV_E_NOMEM && dv_product_unfuse(o->product))
        st = prepare(r, o, NULL);
    if (st == DV_E_LIMIT) {
        o->product = NULL;
        return DV_OK;
    }
    // Repeat the failing call to record its error message.
    return st == DV_OK ? DV_OK : prepare(r, o, diag);
}

static dv_status make_op(dv_rank *r, int32_t op, dv_diag *diag)
{
    rank_op *o = &r->ops[op];
    if (!o->has_target)
        return DV_OK;
    o->n_results = points(o->k.op, &o->target, 0);
    if (r->jit)
        DV_TRY(make_vec(r, o, diag));
    if (!find_addresses(r, o) || !cut_into_tiles(r, o))
        return dv_nomem(diag);
    return r->jit ? make_product(r, op, diag) : DV_OK;
}

static int make_thread(dv_rank *r, rank_thread *h, dv_caches caches)
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

// Creates the threads, kernels and tiles. The tensors' memory and the messages
// must exist already.
static dv_status create_threads(dv_rank *r, int32_t n, dv_diag *diag)
{
#ifndef _OPENMP
    n = 1;
#endif
    n = n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
    r->threads = DV_NEW(&r->arena, rank_thread, n);
    if (!r->threads)
        return dv_nomem(diag);
    r->n_threads = n;
    r->whole = (dv_plan){.ops = r->plan->ops,
                         .target = r->plan->target,
                         .facts = r->plan->facts & DV_FACT_SCHEDULED,
                         .schedule = r->plan->schedule};
    DV_TRY(dv_plan_whole_slices(&r->whole, diag));
    r->jit = dv_jit_shared();
    dv_caches caches = r->jit ? dv_host_caches() : (dv_caches){0};
    for (int32_t i = 0; i < n; i++)
        if (!make_thread(r, &r->threads[i], caches))
            return dv_nomem(diag);
    dv_status made = DV_OK;
    for (int32_t i = 0; i < r->p->n_ops && made == DV_OK; i++)
        made = make_op(r, i, diag);
    dv_jit_seal(r->jit);
    DV_TRY(made);
    for (int32_t i = 0; i < n; i++) {
        rank_thread *h = &r->threads[i];
        h->memory =
            dv_arena_alloc(&r->arena, (size_t)h->set.memory_bytes + 1, 1);
        if (!h->memory)
            return dv_nomem(diag);
    }
    return DV_OK;
}

static void destroy_threads(dv_rank *r)
{
    for (int32_t i = 0; i < r->n_threads; i++) {
        dv_product_set_free(&r->threads[i].set);
        dv_diag_destroy(r->threads[i].diag);
    }
}

// Returns 1 if a tensor is accessed through an index. Such an index may point
// anywhere, so that every rank needs memory for the whole tensor.
static int needs_whole_tensor(const dv_program *p, int32_t tensor)
{
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *op = &p->ops[i];
        for (int k = -1; k < op->n_reads; k++) {
            const dv_access *a = k < 0 ? &op->write : &op->reads[k];
            if (a->tensor == tensor && dv_access_is_indirect(a))
                return 1;
        }
    }
    return 0;
}

static void local_boxes(dv_rank *r)
{
    const dv_program *p = r->p;
    for (int32_t t = 0; t < p->n_tensors; t++) {
        r->own[t] = dv_dist_own(&r->plan->team.tensors[t], r->comm->rank);
        r->local[t] = r->own[t];
        if (needs_whole_tensor(p, t))
            r->local[t] =
                dv_box_whole(p->tensors[t].n_dims, p->tensors[t].shape);
    }
    for (int32_t i = 0; i < p->n_ops; i++)
        for (int k = 0; k < p->ops[i].n_reads && r->ops[i].has_target; k++) {
            const dv_access *a = &p->ops[i].reads[k];
            dv_box b = dv_access_box(p, &p->ops[i], a, &r->ops[i].target);
            r->local[a->tensor] = dv_box_hull(&r->local[a->tensor], &b);
        }
}

static dv_status get_memory(dv_rank *r, dv_diag *diag)
{
    int64_t most = 0;
    for (int32_t t = 0; t < r->p->n_tensors; t++) {
        int64_t bytes = dv_box_elems(&r->local[t]) * dv_elem_bytes(r->p, t);
        r->data[t] = dv_arena_alloc(&r->arena, (size_t)bytes + 1, 1);
        if (!r->data[t])
            return dv_nomem(diag);
        // Writing the memory also makes the system map its pages before the
        // run.
        memset(r->data[t], 0, (size_t)bytes);
    }
    for (int32_t i = 0; i < r->p->n_ops; i++) {
        const dv_op *op = &r->p->ops[i];
        int32_t t = op->write.tensor;
        if (!op->update || !dv_op_reads_own_write(op))
            continue;
        r->ops[i].k.old_off = 0;
        most = dv_max_i64(most,
                          dv_box_elems(&r->local[t]) * dv_elem_bytes(r->p, t));
    }
    r->snapshot = dv_arena_alloc(&r->arena, (size_t)most + 1, 1);
    return r->snapshot ? DV_OK : dv_nomem(diag);
}

// Computes the base and strides of an access in the rank's local box.
static void flatten(const dv_rank *r, dv_flat *f, const dv_op *op,
                    const dv_access *a)
{
    const dv_box *local = &r->local[a->tensor];
    int64_t shape[DV_MAX_DIMS], strides[DV_MAX_DIMS], zero[DV_MAX_DIMS] = {0};
    for (int d = 0; d < a->n_dims; d++)
        shape[d] = local->dim[d].size;
    dv_row_strides(a->n_dims, shape, strides);
    f->base =
        dv_access_flatten(op, a, strides, f->coef) + dv_box_offset(local, zero);
}

static dv_status make_ops(dv_rank *r, dv_diag *diag)
{
    for (int32_t i = 0; i < r->p->n_ops; i++) {
        rank_op *o = &r->ops[i];
        if (!dv_kernel_init(&o->k, r->p, &r->p->ops[i], NULL, &r->arena))
            return dv_nomem(diag);
        if (o->k.n_slots > r->n_slots)
            r->n_slots = o->k.n_slots;
        o->has_target =
            dv_team_target(&o->target, r->p, &r->plan->team, i, r->comm->rank);
    }
    return DV_OK;
}

static void localize(dv_rank *r)
{
    for (int32_t i = 0; i < r->p->n_ops; i++) {
        const dv_op *op = &r->p->ops[i];
        // The variable along which the interpreter sums (k.strip) remains as
        // chosen for the whole program, so that sums are added in the same
        // order on any team.
        flatten(r, &r->ops[i].k.write, op, &op->write);
        for (int k = 0; k < op->n_reads; k++)
            flatten(r, &r->ops[i].k.reads[k], op, &op->reads[k]);
    }
}

// Lists the exchanges that an op waits for and counts their messages. Returns 0
// when out of memory.
static int find_exchanges(dv_rank *r, int32_t op, int32_t *n_messages)
{
    rank_op *o = &r->ops[op];
    o->from = DV_NEW(&r->arena, post *, r->plan->team.n_op_exchanges);
    *n_messages = 0;
    for (int32_t i = 0; i < r->plan->team.n_op_exchanges && o->from; i++) {
        post *e = &r->exchanges[i];
        if (e->swap.op != op || e->swap.repeat >= 0)
            continue;
        o->from[o->n_from++] = e;
        *n_messages += e->n_receives;
    }
    return o->from != NULL;
}

// Returns 1 if a box of an op reads data that a message delivers.
static int reads_of(const dv_rank *r, const dv_op *op, const dv_iter_space *box,
                    const post *e, int32_t message)
{
    for (int k = 0; k < op->n_reads; k++) {
        if (op->reads[k].tensor != e->swap.tensor)
            continue;
        dv_box read = dv_access_box(r->p, op, &op->reads[k], box);
        for (int32_t i = e->receive_at[message]; i < e->receive_at[message + 1];
             i++) {
            dv_box both = dv_box_inner(&read, &e->swap.receives[i].box);
            if (!dv_box_empty(&both))
                return 1;
        }
    }
    return 0;
}

static void find_needs(dv_rank *r, rank_op *o)
{
    char *needs = o->needs;
    for (int32_t k = 0; k < o->n_from; k++)
        for (int32_t m = 0; m < o->from[k]->n_receives; m++)
            for (int32_t w = 0; w < o->n_works; w++) {
                *needs =
                    (char)reads_of(r, o->k.op, &o->works[w].box, o->from[k], m);
                o->works[w].n_waits += *needs++;
            }
}

// Divides the rank's part of an op into work items (boxes): an interior, which
// needs no received elements, and its edges if computation and messages
// overlap, else one box. A reduction that is split into parts is one box,
// computed after all messages have arrived. So is a scatter: its points may
// write the same element, and the last one must stay.
static int make_works(dv_rank *r, int32_t op)
{
    rank_op *o = &r->ops[op];
    dv_iter_space core, edges[2 * DV_MAX_VARS];
    int n = 0, apart = 0;
    int32_t n_messages;
    if (!find_exchanges(r, op, &n_messages))
        return 0;
    if (!o->has_target)
        return 1;
    o->in_parts = splits_reduction(r, o);
    if (r->overlap && o->n_from && !o->sum && !o->in_parts &&
        !dv_access_is_indirect(&o->k.op->write))
        apart = dv_team_core(&core, r->p, &r->plan->team, op, r->comm->rank,
                             &o->target);
    if (apart)
        n = dv_space_edges(edges, o->k.op, &o->target, &core);
    o->n_works = n + 1;
    o->works = DV_NEW(&r->arena, work, o->n_works);
    o->left = DV_NEW(&r->arena, int32_t, o->n_works);
    o->needs = DV_NEW(&r->arena, char, (size_t)n_messages *(size_t)(n + 1));
    if (!o->works || !o->left || !o->needs)
        return 0;
    o->works[0].box = apart ? core : o->target;
    for (int i = 0; i < n; i++)
        o->works[i + 1].box = edges[i];
    find_needs(r, o);
    return 1;
}

static dv_status make_all_works(dv_rank *r, dv_diag *diag)
{
    for (int32_t i = 0; i < r->p->n_ops; i++)
        if (!make_works(r, i))
            return dv_nomem(diag);
    return DV_OK;
}

static dv_status make_sums(dv_rank *r, dv_diag *diag)
{
    for (int32_t i = 0; i < r->p->n_ops; i++)
        DV_TRY(dv_combine_create(&r->ops[i].sum, r->plan, i, r->comm,
                                 &r->ops[i].target, r->ops[i].has_target,
                                 &r->n_wires, &r->arena, diag));
    return DV_OK;
}

// Hashes what must be the same on all ranks: the program, the distribution of
// its tensors, and the exchanges.
static dv_status hash_plan(dv_rank *r, dv_diag *diag)
{
    dv_text text = {0};
    const dv_plan_team *t = &r->plan->team;
    dv_program_print(&text, r->p, 0);
    if (text.failed) {
        dv_text_free(&text);
        return dv_nomem(diag);
    }
    r->hash = dv_hash(DV_HASH, text.at, text.len);
    dv_text_free(&text);
    r->program = r->hash;
    const uint64_t parts[] = {dv_team_hash_cuts(r->p, t),
                              dv_team_hash_exchanges(t)};
    r->hash = dv_hash(r->hash, t->grid, (size_t)t->n_axes * sizeof *t->grid);
    r->hash = dv_hash(r->hash, parts, sizeof parts);
    return DV_OK;
}

static dv_status make_rank(dv_rank *r, int32_t n_threads, dv_diag *diag)
{
    int32_t n = r->p->n_tensors;
    r->own = DV_NEW(&r->arena, dv_box, n);
    r->local = DV_NEW(&r->arena, dv_box, n);
    r->data = DV_NEW(&r->arena, void *, n);
    r->ops = DV_NEW(&r->arena, rank_op, r->p->n_ops);
    r->exchanges = DV_NEW(&r->arena, post, r->plan->team.n_op_exchanges);
    if (!r->own || !r->local || !r->data || !r->ops || !r->exchanges)
        return dv_nomem(diag);
    DV_TRY(make_ops(r, diag));
    local_boxes(r);
    DV_TRY(get_memory(r, diag));
    localize(r);
    DV_TRY(create_exchanges(r, diag));
    DV_TRY(make_sums(r, diag));
    DV_TRY(make_all_works(r, diag));
    DV_TRY(create_threads(r, n_threads, diag));
    return hash_plan(r, diag);
}

// Returns the default number of threads: the rank's share of the machine's
// cores, or the cores that the rank is bound to.
static int32_t usual_threads(const dv_comm *comm)
{
#ifdef _OPENMP
    if (comm->one_thread)
        return 1;
    int64_t mine = omp_get_num_procs(), all = sysconf(_SC_NPROCESSORS_ONLN);
    if (mine >= all)
        mine /= dv_max_i64(1, comm->ranks_on_machine);
    return (int32_t)dv_max_i64(1, mine);
#else
    (void)comm;
    return 1;
#endif
}

dv_status dv_rank_create(dv_rank **out, const dv_plan *plan, dv_comm *comm,
                         const dv_rank_options *options, dv_diag *diag)
{
    if (dv_plan_team_size(&plan->team) != comm->size || !plan->team.n_axes)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the plan is for a team of %" PRId64
                       ", there are %" PRId64 " ranks",
                       plan->team.n_axes ? dv_plan_team_size(&plan->team) : 0,
                       comm->size);
    if (comm->one_thread && options && options->threads > 1)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%d threads: MPI was initialized for one; "
                       "MPI_THREAD_FUNNELED allows more",
                       (int)options->threads);
    DV_TRY(dv_plan_check_rank(plan, comm->rank, diag));
    dv_arena arena = {0};
    dv_rank *r = DV_NEW(&arena, dv_rank, 1);
    if (!r)
        return dv_nomem(diag);
    r->arena = arena;
    r->plan = plan;
    r->p = plan->ops;
    r->comm = comm;
    r->from_repeat = -1;
    r->trouble = dv_diag_create();
    r->overlap = !options || !options->no_overlap;
    r->min_points =
        options && options->min_points > 0 ? options->min_points : MIN_POINTS;
    dv_status st =
        make_rank(r,
                  options && options->threads > 0 ? options->threads
                                                  : usual_threads(comm),
                  diag);
    if (st == DV_OK)
        *out = r;
    else
        dv_rank_destroy(r);
    return st;
}

void dv_rank_destroy(dv_rank *r)
{
    if (!r)
        return;
    for (int32_t i = 0; r->exchanges && i < r->plan->team.n_op_exchanges; i++)
        r->comm->ops->close(r->comm, r->exchanges[i].wire);
    for (int32_t i = 0; r->ops && i < r->p->n_ops; i++)
        dv_combine_close(r->ops[i].sum, r->comm);
    destroy_threads(r);
    dv_jit_release(r->jit);
    dv_arena_free(&r->whole.arena);
    dv_diag_destroy(r->trouble);
    dv_arena arena = r->arena;
    dv_arena_free(&arena);
}

// The *_timed functions add the time for packing, sending, waiting and
// unpacking to r->exchange_s. Transfer time that overlaps computation is not
// counted.
static dv_status start_timed(dv_rank *r, post *e)
{
    double before = dv_clock_s();
    dv_status st = start_exchange(r, e);
    r->exchange_s += dv_clock_s() - before;
    return st;
}

static int32_t next_timed(dv_rank *r, post *e, void *old)
{
    double before = dv_clock_s();
    int32_t i = next_message(r, e, old);
    r->exchange_s += dv_clock_s() - before;
    return i;
}

static dv_status finish_timed(dv_rank *r, post *e)
{
    double before = dv_clock_s();
    dv_status st = r->comm->ops->finish(r->comm, e->wire);
    r->exchange_s += dv_clock_s() - before;
    return st;
}

static dv_status combine_timed(dv_rank *r, dv_combine *sum)
{
    double before = dv_clock_s();
    dv_status st = dv_combine_run(sum, r->comm);
    r->exchange_s += dv_clock_s() - before;
    return st;
}

static dv_status settle_timed(dv_rank *r, dv_diag *diag)
{
    double before = dv_clock_s();
    dv_status st = dv_comm_agree_status(r->comm, r->status, r->trouble, diag);
    r->exchange_s += dv_clock_s() - before;
    return st;
}

static dv_status start_op(dv_rank *r, rank_op *o)
{
    for (int32_t i = 0; i < o->n_from; i++)
        DV_TRY(start_timed(r, o->from[i]));
    take_snapshot(r, o);
    return DV_OK;
}

// Computes all work items (boxes of the op) whose messages have all arrived.
static void compute_ready(dv_rank *r, rank_op *o)
{
    for (int32_t w = 0; w < o->n_works; w++)
        if (o->left[w] == 0) {
            o->left[w] = -1; // marks the work item as computed
            compute_work(r, o, &o->works[w], DV_WHOLE, NULL);
        }
}

// Receives the messages of the op's exchanges and, with `edges`, computes each
// work item (a box of the op) as soon as its last message has arrived.
static dv_status arrive(dv_rank *r, rank_op *o, int edges)
{
    int32_t before = 0; // number of messages of earlier exchanges
    for (int32_t k = 0; k < o->n_from; k++) {
        post *e = o->from[k];
        int copied =
            o->k.old_off >= 0 && e->swap.tensor == o->k.op->write.tensor;
        int32_t i;
        while ((i = next_timed(r, e, copied ? r->snapshot : NULL)) >= 0) {
            const char *needs = &o->needs[(before + i) * o->n_works];
            for (int32_t w = 0; w < o->n_works && edges; w++)
                o->left[w] -= needs[w];
            if (edges)
                compute_ready(r, o);
        }
        DV_TRY(finish_timed(r, e));
        before += e->n_receives;
    }
    return DV_OK;
}

// Runs an op whose reduction is split into parts: computes the partial sums of
// all tiles, combines them over tiles and ranks, then computes the results.
// That last step ignores the reduced variables, so the box of the first tile
// serves for it.
static dv_status run_parts(dv_rank *r, rank_op *o)
{
    DV_TRY(arrive(r, o, 0));
    if (!o->has_target)
        return DV_OK;
    work finish = o->works[0];
    int64_t bytes = acc_bytes(o);
    char *acc = o->sum ? dv_combine_parts(o->sum) : o->acc;
    compute_work(r, o, &o->works[0], DV_FIRST_PART, o->in_parts ? o->acc : acc);
    if (o->in_parts) {
        for (int32_t i = 1; i < finish.n_tiles; i++)
            dv_strips_add(&o->k, o->acc, o->acc + i * o->n_results * bytes,
                          o->n_results);
        if (o->sum)
            memcpy(acc, o->acc, (size_t)(o->n_results * bytes));
        finish.n_tiles = 1;
    }
    // A rank that has failed still sends its accumulators.
    if (o->sum)
        DV_TRY(combine_timed(r, o->sum));
    compute_work(r, o, &finish, DV_FINISH, acc);
    return DV_OK;
}

static dv_status run_op(dv_rank *r, int32_t op)
{
    rank_op *o = &r->ops[op];
    DV_TRY(start_op(r, o));
    if (o->sum || o->in_parts)
        return run_parts(r, o);
    for (int32_t w = 0; w < o->n_works; w++)
        o->left[w] = o->works[w].n_waits;
    r->in_flight =
        o->n_from && r->comm->ops->progress ? o->from[0]->wire : NULL;
    compute_ready(r, o);
    r->in_flight = NULL;
    return arrive(r, o, 1);
}

// Runs the exchanges that take place once, before a repeat (a loop of the
// program): those of tensors that the repeat reads but does not write.
static dv_status enter_repeat(dv_rank *r, int32_t repeat)
{
    for (int32_t i = 0; i < r->plan->team.n_op_exchanges; i++) {
        post *e = &r->exchanges[i];
        if (e->swap.repeat != repeat)
            continue;
        DV_TRY(start_timed(r, e));
        while (next_timed(r, e, NULL) >= 0)
            ;
        DV_TRY(finish_timed(r, e));
    }
    return DV_OK;
}

static dv_status run_repeat(dv_rank *r, int32_t repeat);

// Runs ops from..end, including the repeats (loops of the program) from number
// `next` on that lie within them.
static dv_status run_ops(dv_rank *r, int32_t from, int32_t end, int32_t next)
{
    const dv_program *p = r->p;
    while (from < end) {
        while (next < p->n_repeats && p->repeats[next].first_op < from)
            next++;
        if (next >= p->n_repeats || p->repeats[next].first_op != from ||
            p->repeats[next].end_op > end) {
            DV_TRY(run_op(r, from++));
            continue;
        }
        DV_TRY(run_repeat(r, next));
        from = p->repeats[next].end_op;
    }
    return DV_OK;
}

static dv_status run_repeat(dv_rank *r, int32_t repeat)
{
    const dv_repeat *p = &r->p->repeats[repeat];
    int64_t n = 0, outer = r->round;
    // If the run was restored from a checkpoint, it continues in this repeat,
    // and nothing is exchanged first: the local boxes already hold the received
    // elements.
    if (r->from_repeat == repeat) {
        n = r->from_round;
        r->from_repeat = -1;
    } else {
        DV_TRY(enter_repeat(r, repeat));
    }
    for (; n < p->times; n++) {
        r->depth++;
        r->round = n;
        DV_TRY(run_ops(r, p->first_op, p->end_op, repeat + 1));
        r->depth--;
        if (r->step && r->depth == 0)
            DV_TRY(r->step(r->user, repeat, n + 1, r->status, r->trouble,
                           r->diag));
    }
    r->round = outer;
    return DV_OK;
}

dv_status dv_rank_run(dv_rank *r, dv_diag *diag)
{
    int32_t next = r->from_repeat < 0 ? 0 : r->from_repeat;
    int32_t from = r->from_repeat < 0 ? 0 : r->p->repeats[next].first_op;
    r->diag = diag;
    r->depth = 0;
    r->round = 0;
    r->status = DV_OK;
    r->exchange_s = 0;
    dv_status st = run_ops(r, from, r->p->n_ops, next);
    if (st == DV_OK) {
        st = settle_timed(r, diag);
    } else {
        r->comm->ops->fail(r->comm);
        // Reports the reason, unless diag already has an error.
        st = dv_comm_error(r->comm, st, diag);
    }
    // Clear the error for the next run.
    if (r->status != DV_OK) {
        dv_diag_destroy(r->trouble);
        r->trouble = dv_diag_create();
    }
    return st;
}

void dv_rank_on_step(dv_rank *r, dv_rank_step step, void *user)
{
    r->step = step;
    r->user = user;
}

void dv_rank_resume_at(dv_rank *r, int32_t repeat, int64_t round)
{
    r->from_repeat = repeat;
    r->from_round = round;
}

void *dv_rank_data(const dv_rank *r, int32_t tensor, dv_box *local, dv_box *own)
{
    *local = r->local[tensor];
    *own = r->own[tensor];
    return dv_box_empty(own) ? NULL : r->data[tensor];
}

uint64_t dv_rank_hash(const dv_rank *r, uint64_t *program)
{
    if (program)
        *program = r->program;
    return r->hash;
}

void *dv_rank_memory(const dv_rank *r, int32_t tensor)
{
    return r->data[tensor];
}

const dv_plan *dv_rank_plan(const dv_rank *r, dv_comm **comm)
{
    if (comm)
        *comm = r->comm;
    return r->plan;
}

int32_t dv_rank_threads(const dv_rank *r)
{
    return r->n_threads;
}

dv_dtype dv_rank_type(const dv_rank *r, int32_t op)
{
    const rank_op *o = &r->ops[op];
    return o->product ? dv_product_type(o->product)
                      : dv_kernel_type(o->k.compute);
}

int32_t dv_rank_new_message_set(dv_rank *r)
{
    return r->n_wires++;
}

double dv_rank_exchange_s(const dv_rank *r)
{
    return r->exchange_s;
}

dv_exchange_traffic dv_rank_traffic(const dv_rank *r, int32_t exchange)
{
    return r->exchanges[exchange].carried;
}
