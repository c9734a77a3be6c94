// A rank on its way through the program: messages leave before the op that
// needs them, its core is computed while they travel, its edges as they arrive.
#define _POSIX_C_SOURCE 200809L // clock_gettime
#include "team/rank_state.h"
#include <string.h>
#include <time.h>

// -- Exchanges -------------------------------------------------------------

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Packing, sending, waiting and unpacking are timed. Time that messages take
// while the rank computes is not counted: it costs nothing.
static dv_status start_post(dv_rank *r, dv_post *e)
{
    double before = seconds();
    dv_status st = dv_post_start(r, e);
    r->exchange_s += seconds() - before;
    return st;
}

static int32_t next_message(dv_rank *r, dv_post *e, void *old)
{
    double before = seconds();
    int32_t i = dv_post_next(r, e, old);
    r->exchange_s += seconds() - before;
    return i;
}

static dv_status finish_post(dv_rank *r, dv_post *e)
{
    double before = seconds();
    dv_status st = dv_post_finish(r, e);
    r->exchange_s += seconds() - before;
    return st;
}

static dv_status combine(dv_rank *r, dv_combine *sum)
{
    double before = seconds();
    dv_status st = dv_combine_run(sum, r->comm);
    r->exchange_s += seconds() - before;
    return st;
}

static dv_status settle(dv_rank *r, dv_diag *diag)
{
    double before = seconds();
    dv_status st = dv_comm_settle(r->comm, r->status, r->trouble, diag);
    r->exchange_s += seconds() - before;
    return st;
}

// -- Ops -------------------------------------------------------------------

static dv_status start_op(dv_rank *r, dv_rank_op *o)
{
    for (int32_t i = 0; i < o->n_from; i++)
        DV_TRY(start_post(r, o->from[i]));
    dv_hands_snapshot(r, o);
    return DV_OK;
}

// Works that wait for nothing any more.
static void compute_ready(dv_rank *r, dv_rank_op *o)
{
    for (int32_t w = 0; w < o->n_works; w++)
        if (o->left[w] == 0) {
            o->left[w] = -1; // once
            dv_hands_compute(r, o, &o->works[w], DV_WHOLE, NULL);
        }
}

// Take in what arrives; `edges`: and compute what waited for it.
static dv_status arrive(dv_rank *r, dv_rank_op *o, int edges)
{
    int32_t before = 0; // messages of earlier exchanges
    for (int32_t k = 0; k < o->n_from; k++) {
        dv_post *e = o->from[k];
        int copied =
            o->k.old_off >= 0 && e->swap.tensor == o->k.op->write.tensor;
        int32_t i;
        while ((i = next_message(r, e, copied ? r->snapshot : NULL)) >= 0) {
            const char *needs = &o->needs[(before + i) * o->n_works];
            for (int32_t w = 0; w < o->n_works && edges; w++)
                o->left[w] -= needs[w];
            if (edges)
                compute_ready(r, o);
        }
        DV_TRY(finish_post(r, e));
        before += e->n_receives;
    }
    return DV_OK;
}

// Parts of results, added up over tiles and ranks, then finished. Reduced
// variables do not count in a box that is finished: the first part's will do.
static dv_status run_parts(dv_rank *r, dv_rank_op *o)
{
    DV_TRY(arrive(r, o, 0));
    if (!o->has_target)
        return DV_OK;
    dv_work finish = o->works[0];
    int64_t bytes = o->k.compute == DV_IN_F32 ? 4 : 8;
    char *acc = o->sum ? dv_combine_parts(o->sum) : o->acc;
    dv_hands_compute(r, o, &o->works[0], DV_FIRST_PART,
                     o->in_parts ? o->acc : acc);
    if (o->in_parts) {
        for (int32_t i = 1; i < finish.n_tiles; i++)
            dv_strips_add(&o->k, o->acc, o->acc + i * o->n_results * bytes,
                          o->n_results);
        if (o->sum)
            memcpy(acc, o->acc, (size_t)(o->n_results * bytes));
        finish.n_tiles = 1;
    }
    // After trouble of its own a rank sends what is there.
    if (o->sum)
        DV_TRY(combine(r, o->sum));
    dv_hands_compute(r, o, &finish, DV_FINISH, acc);
    return DV_OK;
}

static dv_status run_op(dv_rank *r, int32_t op)
{
    dv_rank_op *o = &r->ops[op];
    DV_TRY(start_op(r, o));
    if (o->sum || o->in_parts)
        return run_parts(r, o);
    for (int32_t w = 0; w < o->n_works; w++)
        o->left[w] = o->works[w].n_waits;
    r->travelling = o->n_from && r->comm->ops->poke ? o->from[0]->wire : NULL;
    compute_ready(r, o);
    r->travelling = NULL;
    return arrive(r, o, 1);
}

// -- Repeats ---------------------------------------------------------------

// What a repeat reads and does not write is fetched once.
static dv_status enter_repeat(dv_rank *r, int32_t repeat)
{
    for (int32_t i = 0; i < r->plan->team.n_swaps; i++) {
        dv_post *e = &r->exchanges[i];
        if (e->swap.repeat != repeat)
            continue;
        DV_TRY(start_post(r, e));
        while (next_message(r, e, NULL) >= 0)
            ;
        DV_TRY(finish_post(r, e));
    }
    return DV_OK;
}

static dv_status run_repeat(dv_rank *r, int32_t repeat);

// Ops from..end; repeats from number `next` on may lie among them.
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
    if (r->from_repeat == repeat) { // with all that was brought, then
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
        st = settle(r, diag);
    } else {
        r->comm->ops->fail(r->comm);
        st = dv_comm_error(r->comm, st, diag); // unless there are words
    }
    if (r->status != DV_OK) { // the next run begins without it
        dv_diag_destroy(r->trouble);
        r->trouble = dv_diag_create();
    }
    return st;
}

double dv_rank_exchange_s(const dv_rank *r)
{
    return r->exchange_s;
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
