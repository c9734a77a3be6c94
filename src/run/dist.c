// One rank of a distributed run.
#include "base/math.h"
#include "run/combine.h"
#include "run/vec_op.h"
#include <inttypes.h>
#include <string.h>

enum { PIECES = 8 }; // of a core that is computed while messages travel

// Messages of one swap: one buffer per partner, filled box by box.
typedef struct exchange {
    dv_swap swap;
    dv_link *sends, *receives;
    int32_t *send_at, *receive_at; // first piece of each partner, and the end
    int32_t n_sends, n_receives;
    dv_wire *wire;
} exchange;

typedef struct op_state {
    dv_kernel k;
    dv_space target, core, edges[2 * DV_MAX_VARS];
    int has_target, has_core, n_edges;
    dv_combine *sum; // NULL: nothing is combined
    dv_vec_op *vec;  // NULL: it goes in strips
    void **at;       // of its accesses: reads, then the write
} op_state;

struct dv_rank {
    dv_arena arena; // it lives in it
    const dv_plan *plan;
    const dv_program *p;
    dv_comm *comm;
    dv_box *own, *local; // per tensor
    void **data;
    op_state *ops;
    exchange *exchanges; // one per swap
    void *snapshot;      // of the largest tensor an update reads
    void *strips;
    int32_t n_slots, n_wires;
    dv_jit *jit;      // NULL: no machine for it, all goes in strips
    dv_diag *trouble; // of this rank alone, until all agree
    dv_diag *diag;    // the caller's
    // Called after each round of an outermost repeat; where to go on.
    dv_rank_step step;
    void *user;
    int32_t from_repeat; // -1: from the start
    int64_t from_round;
    int32_t depth;
    uint64_t hash, program; // of the plan, of its program alone
    uint64_t n_done;        // exchanges so far
};

static int64_t elem(const dv_rank *r, int32_t tensor)
{
    return dv_elem_bytes(r->p, tensor);
}

// -- Memory ----------------------------------------------------------------

// An index found by a read may lie anywhere, and the kernels look it up in a
// tensor that is whole.
static int kept_whole(const dv_program *p, int32_t tensor)
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
        if (!kept_whole(p, t))
            continue;
        for (int d = 0; d < p->tensors[t].n_dims; d++)
            r->local[t].dim[d] = (dv_range){0, p->tensors[t].shape[d]};
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
        int64_t bytes = dv_box_elems(&r->local[t]) * elem(r, t);
        r->data[t] = dv_arena_alloc(&r->arena, (size_t)bytes + 1, 1);
        if (!r->data[t])
            return dv_nomem(diag);
    }
    for (int32_t i = 0; i < r->p->n_ops; i++) {
        const dv_op *op = &r->p->ops[i];
        int32_t t = op->write.tensor;
        if (!op->update || !dv_op_reads_own_write(op))
            continue;
        r->ops[i].k.old_off = 0;
        most = dv_max_i64(most, dv_box_elems(&r->local[t]) * elem(r, t));
    }
    r->snapshot = dv_arena_alloc(&r->arena, (size_t)most + 1, 1);
    r->strips =
        dv_arena_alloc(&r->arena, ((size_t)r->n_slots + 1) * DV_STRIP, 8);
    return r->snapshot && r->strips ? DV_OK : dv_nomem(diag);
}

// An access in the rank's own memory.
static void flatten(const dv_rank *r, dv_flat *f, const dv_op *op,
                    const dv_access *a)
{
    int64_t stride = 1;
    f->base = 0;
    for (int v = 0; v < op->n_vars; v++)
        f->coef[v] = 0;
    for (int d = a->n_dims - 1; d >= 0; d--) {
        dv_range local = r->local[a->tensor].dim[d];
        f->base -= local.off * stride;
        if (a->index[d].via < 0) {
            f->base += a->index[d].base * stride;
            for (int v = 0; v < op->n_vars; v++)
                f->coef[v] += a->index[d].coef[v] * stride;
        }
        stride *= local.size;
    }
}

static dv_status make_ops(dv_rank *r, dv_diag *diag)
{
    const dv_team *t = &r->plan->team;
    for (int32_t i = 0; i < r->p->n_ops; i++) {
        op_state *o = &r->ops[i];
        const dv_op *op = &r->p->ops[i];
        if (!dv_kernel_init(&o->k, r->p, op, NULL, &r->arena))
            return dv_nomem(diag);
        if (o->k.n_slots > r->n_slots)
            r->n_slots = o->k.n_slots;
        o->has_target = dv_team_target(&o->target, r->p, t, i, r->comm->rank);
        if (!o->has_target)
            continue;
        o->has_core =
            dv_team_core(&o->core, r->p, t, i, r->comm->rank, &o->target);
        o->n_edges = 1;
        o->edges[0] = o->target;
        if (o->has_core)
            o->n_edges = dv_space_edges(o->edges, op, &o->target, &o->core);
    }
    return DV_OK;
}

// Where element 0 of each access is. Snapshots do not move.
static void find_data(dv_rank *r, op_state *o)
{
    const dv_op *op = o->k.op;
    for (int k = 0; k <= op->n_reads; k++) {
        int32_t t = k < op->n_reads ? op->reads[k].tensor : op->write.tensor;
        int old = k < op->n_reads && t == op->write.tensor && o->k.old_off >= 0;
        o->at[k] = old ? r->snapshot : r->data[t];
    }
}

// Vector kernels for what they can do. Parts of sums are added up as strips
// leave them.
static dv_status make_vecs(dv_rank *r, dv_diag *diag)
{
    if (dv_jit_create(&r->jit, NULL) != DV_OK)
        return DV_OK;
    for (int32_t i = 0; i < r->p->n_ops; i++) {
        op_state *o = &r->ops[i];
        dv_vec_how how = {.p = r->p,
                          .op = o->k.op,
                          .reads = o->k.reads,
                          .write = &o->k.write,
                          .copied = o->k.old_off >= 0};
        o->at = DV_NEW(&r->arena, void *, o->k.op->n_reads + 1);
        if (!o->at)
            return dv_nomem(diag);
        find_data(r, o);
        if (o->has_target && !o->sum)
            DV_TRY(dv_vec_op_create(&o->vec, &how, r->jit, &r->arena, diag));
    }
    return DV_OK;
}

static void localize(dv_rank *r)
{
    for (int32_t i = 0; i < r->p->n_ops; i++) {
        const dv_op *op = &r->p->ops[i];
        // Which variable strips run along was decided on the whole program,
        // so that sums add up in the same order on any team.
        flatten(r, &r->ops[i].k.write, op, &op->write);
        for (int k = 0; k < op->n_reads; k++)
            flatten(r, &r->ops[i].k.reads[k], op, &op->reads[k]);
    }
}

// -- Messages --------------------------------------------------------------

// Cut pieces, which are sorted by rank, into one message per partner.
static int make_links(dv_rank *r, const dv_piece *l, int32_t n, int64_t bytes,
                      dv_link **links, int32_t **at, int32_t *n_links)
{
    *links = DV_NEW(&r->arena, dv_link, n);
    *at = DV_NEW(&r->arena, int32_t, n + 1);
    *n_links = 0;
    if (!*links || !*at)
        return 0;
    for (int32_t i = 0; i < n; i++) {
        if (i == 0 || l[i].rank != l[i - 1].rank) {
            (*at)[*n_links] = i;
            (*links)[(*n_links)++] = (dv_link){l[i].rank, NULL, 0};
        }
        (*links)[*n_links - 1].bytes += dv_box_elems(&l[i].box) * bytes;
    }
    (*at)[*n_links] = n;
    for (int32_t i = 0; i < *n_links; i++) {
        dv_link *k = &(*links)[i];
        k->data = dv_arena_alloc(&r->arena, (size_t)k->bytes, 1);
        if (!k->data)
            return 0;
    }
    return 1;
}

static dv_status make_exchanges(dv_rank *r, dv_diag *diag)
{
    const dv_team *t = &r->plan->team;
    for (int32_t i = 0; i < t->n_swaps; i++) {
        exchange *e = &r->exchanges[i];
        int64_t bytes = elem(r, t->swaps[i].tensor);
        e->swap = t->swaps[i];
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

// With --checked: is it the same exchange everywhere, for the same time?
static dv_status compare(dv_rank *r, const exchange *e)
{
    uint64_t what[3] = {r->hash, (uint64_t)(e - r->exchanges), r->n_done++};
    if (!r->comm->checked)
        return DV_OK;
    return dv_comm_same(r->comm, dv_hash(DV_HASH, what, sizeof what),
                        "next exchange", r->diag);
}

static dv_status start(dv_rank *r, exchange *e)
{
    int32_t t = e->swap.tensor;
    DV_TRY(compare(r, e));
    for (int32_t i = 0; i < e->n_sends; i++) {
        char *run = e->sends[i].data;
        for (int32_t k = e->send_at[i]; k < e->send_at[i + 1]; k++)
            run = dv_box_copy(run, r->data[t], &r->local[t],
                              &e->swap.sends[k].box, elem(r, t), 1);
    }
    return r->comm->ops->start(r->comm, e->wire);
}

// Take in what arrives, into the tensor and into its snapshot if one is read.
static dv_status arrive(dv_rank *r, exchange *e, void *old)
{
    int32_t t = e->swap.tensor, i;
    while ((i = r->comm->ops->next(r->comm, e->wire)) >= 0) {
        char *run = e->receives[i].data;
        for (int32_t k = e->receive_at[i]; k < e->receive_at[i + 1]; k++) {
            const dv_box *b = &e->swap.receives[k].box;
            if (old)
                dv_box_copy(run, old, &r->local[t], b, elem(r, t), 0);
            run = dv_box_copy(run, r->data[t], &r->local[t], b, elem(r, t), 0);
        }
    }
    return r->comm->ops->finish(r->comm, e->wire);
}

// -- Running ---------------------------------------------------------------

// A rank in trouble computes no more, and goes on sending what it has.
static void strips(dv_strips *s, const dv_space *box)
{
    if (s->status != DV_OK)
        return;
    if (s->k->compute == DV_IN_F32)
        dv_strips_f32(s, box->begin, box->end);
    else if (s->k->compute == DV_IN_F64)
        dv_strips_f64(s, box->begin, box->end);
    else
        dv_strips_i64(s, box->begin, box->end);
}

static void compute(const op_state *o, dv_strips *s, const dv_space *box)
{
    if (o->vec && s->status == DV_OK)
        dv_vec_op_run(o->vec, o->at, box->begin, box->end);
    else
        strips(s, box);
}

static int waits_for(const exchange *e, int32_t op)
{
    return e->swap.op == op && e->swap.repeat < 0;
}

static dv_status start_op(dv_rank *r, dv_strips *s, int32_t op)
{
    s->k = &r->ops[op].k;
    s->old = NULL;
    s->part = DV_WHOLE;
    for (int32_t i = 0; i < r->plan->team.n_swaps; i++)
        if (waits_for(&r->exchanges[i], op))
            DV_TRY(start(r, &r->exchanges[i]));
    if (s->k->old_off < 0)
        return DV_OK;
    int32_t t = s->k->op->write.tensor;
    s->old = r->snapshot;
    memcpy(r->snapshot, r->data[t],
           (size_t)(dv_box_elems(&r->local[t]) * elem(r, t)));
    return DV_OK;
}

static dv_status arrive_all(dv_rank *r, dv_strips *s, int32_t op)
{
    int32_t written = r->p->ops[op].write.tensor;
    for (int32_t i = 0; i < r->plan->team.n_swaps; i++) {
        exchange *e = &r->exchanges[i];
        if (waits_for(e, op))
            DV_TRY(arrive(r, e,
                          s->old && e->swap.tensor == written ? r->snapshot
                                                              : NULL));
    }
    return DV_OK;
}

// The core, in a few pieces where messages need a hand on their way.
static void compute_core(dv_rank *r, const op_state *o, dv_strips *s,
                         int32_t op)
{
    const exchange *e = NULL;
    for (int32_t i = 0; i < r->plan->team.n_swaps && !e; i++)
        if (waits_for(&r->exchanges[i], op))
            e = &r->exchanges[i];
    int64_t n = o->k.op->n_vars ? o->core.end[0] - o->core.begin[0] : 0;
    int64_t pieces = e && r->comm->ops->poke && n >= PIECES ? PIECES : 1;
    for (int64_t i = 0; i < pieces; i++) {
        dv_space part = o->core;
        if (pieces > 1) {
            part.begin[0] = o->core.begin[0] + n * i / pieces;
            part.end[0] = o->core.begin[0] + n * (i + 1) / pieces;
            r->comm->ops->poke(r->comm, e->wire);
        }
        compute(o, s, &part);
    }
}

static dv_status run_op(dv_rank *r, dv_strips *s, int32_t op)
{
    op_state *o = &r->ops[op];
    DV_TRY(start_op(r, s, op));
    if (o->sum) {
        DV_TRY(arrive_all(r, s, op));
        return dv_combine_run(o->sum, r->comm, s, &o->target, strips);
    }
    if (o->has_core)
        compute_core(r, o, s, op);
    DV_TRY(arrive_all(r, s, op));
    for (int i = 0; i < o->n_edges && o->has_target; i++)
        compute(o, s, &o->edges[i]);
    return DV_OK;
}

static dv_status enter_repeat(dv_rank *r, int32_t repeat)
{
    for (int32_t i = 0; i < r->plan->team.n_swaps; i++)
        if (r->exchanges[i].swap.repeat == repeat) {
            DV_TRY(start(r, &r->exchanges[i]));
            DV_TRY(arrive(r, &r->exchanges[i], NULL));
        }
    return DV_OK;
}

static dv_status run_repeat(dv_rank *r, dv_strips *s, int32_t repeat);

// Ops from..end; repeats from number `next` on may lie among them.
static dv_status run_ops(dv_rank *r, dv_strips *s, int32_t from, int32_t end,
                         int32_t next)
{
    const dv_program *p = r->p;
    while (from < end) {
        while (next < p->n_repeats && p->repeats[next].first_op < from)
            next++;
        if (next >= p->n_repeats || p->repeats[next].first_op != from ||
            p->repeats[next].end_op > end) {
            DV_TRY(run_op(r, s, from++));
            continue;
        }
        DV_TRY(run_repeat(r, s, next));
        from = p->repeats[next].end_op;
    }
    return DV_OK;
}

static dv_status run_repeat(dv_rank *r, dv_strips *s, int32_t repeat)
{
    const dv_repeat *p = &r->p->repeats[repeat];
    int64_t n = 0;
    if (r->from_repeat == repeat) { // with all that was brought, then
        n = r->from_round;
        r->from_repeat = -1;
    } else {
        DV_TRY(enter_repeat(r, repeat));
    }
    for (; n < p->times; n++) {
        r->depth++;
        DV_TRY(run_ops(r, s, p->first_op, p->end_op, repeat + 1));
        r->depth--;
        if (r->step && r->depth == 0)
            DV_TRY(r->step(r->user, repeat, n + 1, s->status, r->trouble,
                           r->diag));
    }
    return DV_OK;
}

dv_status dv_rank_run(dv_rank *r, dv_diag *diag)
{
    dv_strips s = {.p = r->p, .data = r->data, .diag = r->trouble};
    s.buf = r->strips;
    s.acc = (char *)r->strips + (size_t)r->n_slots * DV_STRIP * 8;
    int32_t next = r->from_repeat < 0 ? 0 : r->from_repeat;
    int32_t from = r->from_repeat < 0 ? 0 : r->p->repeats[next].first_op;
    r->diag = diag;
    r->depth = 0;
    dv_status st = run_ops(r, &s, from, r->p->n_ops, next);
    if (st == DV_OK) {
        st = dv_comm_settle(r->comm, s.status, r->trouble, diag);
    } else {
        r->comm->ops->fail(r->comm);
        st = dv_comm_error(r->comm, st, diag); // unless there are words
    }
    if (s.status != DV_OK) { // the next run begins without it
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

void dv_rank_go_on(dv_rank *r, int32_t repeat, int64_t round)
{
    r->from_repeat = repeat;
    r->from_round = round;
}

// -- Creating --------------------------------------------------------------

static dv_status make_sums(dv_rank *r, dv_diag *diag)
{
    for (int32_t i = 0; i < r->p->n_ops; i++)
        DV_TRY(dv_combine_create(&r->ops[i].sum, r->plan, i, r->comm,
                                 &r->ops[i].target, r->ops[i].has_target,
                                 &r->n_wires, &r->arena, diag));
    return DV_OK;
}

// What all ranks must have alike: the program and who owns what.
static dv_status hash_plan(dv_rank *r, dv_diag *diag)
{
    dv_text text = {0};
    const dv_team *t = &r->plan->team;
    dv_program_print(&text, r->p, 0);
    if (text.failed) {
        dv_text_free(&text);
        return dv_nomem(diag);
    }
    r->hash = dv_hash(DV_HASH, text.at, text.len);
    dv_text_free(&text);
    r->program = r->hash;
    r->hash = dv_hash(r->hash, t->grid, (size_t)t->n_axes * sizeof *t->grid);
    for (int32_t i = 0; i < r->p->n_tensors; i++)
        r->hash = dv_hash(r->hash, t->tensors[i].axis,
                          (size_t)t->tensors[i].n_dims * sizeof(int));
    return DV_OK;
}

uint64_t dv_rank_hash(const dv_rank *r, uint64_t *program)
{
    if (program)
        *program = r->program;
    return r->hash;
}

static dv_status make_rank(dv_rank *r, dv_diag *diag)
{
    int32_t n = r->p->n_tensors;
    r->own = DV_NEW(&r->arena, dv_box, n);
    r->local = DV_NEW(&r->arena, dv_box, n);
    r->data = DV_NEW(&r->arena, void *, n);
    r->ops = DV_NEW(&r->arena, op_state, r->p->n_ops);
    r->exchanges = DV_NEW(&r->arena, exchange, r->plan->team.n_swaps);
    if (!r->own || !r->local || !r->data || !r->ops || !r->exchanges)
        return dv_nomem(diag);
    DV_TRY(make_ops(r, diag));
    local_boxes(r);
    DV_TRY(get_memory(r, diag));
    localize(r);
    DV_TRY(make_exchanges(r, diag));
    DV_TRY(make_sums(r, diag));
    DV_TRY(make_vecs(r, diag));
    return hash_plan(r, diag);
}

dv_status dv_rank_create(dv_rank **out, const dv_plan *plan, dv_comm *comm,
                         dv_diag *diag)
{
    if (dv_team_size(&plan->team) != comm->size || !plan->team.n_axes)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the plan is for a team of %" PRId64
                       ", there are %" PRId64 " ranks",
                       plan->team.n_axes ? dv_team_size(&plan->team) : 0,
                       comm->size);
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
    dv_status st = make_rank(r, diag);
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
    for (int32_t i = 0; r->exchanges && i < r->plan->team.n_swaps; i++)
        r->comm->ops->close(r->comm, r->exchanges[i].wire);
    for (int32_t i = 0; r->ops && i < r->p->n_ops; i++)
        dv_combine_close(r->ops[i].sum, r->comm);
    dv_jit_destroy(r->jit);
    dv_diag_destroy(r->trouble);
    dv_arena arena = r->arena;
    dv_arena_free(&arena);
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

int32_t dv_rank_new_wire(dv_rank *r)
{
    return r->n_wires++;
}

// -- Whole tensors ---------------------------------------------------------

void *dv_rank_data(const dv_rank *r, int32_t tensor, dv_box *local, dv_box *own)
{
    *local = r->local[tensor];
    *own = r->own[tensor];
    return dv_box_empty(own) ? NULL : r->data[tensor];
}
