// dv_place: validates the input, runs a solver, cuts buffers for spilling if
// asked to, and builds the public result.
#include "place/cut.h"
#include "base/options.h"
#include "place/rects.h"
#include "place/search.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_NEIGHBOURS = 1 << 26 };

// The state of one run of a solver on a task (the checked input).
typedef struct solver_run {
    const dv_task *t;
    const dv_place_options *o;
    dv_effort effort;
    dv_prices prices;
    dv_answer answer;
    const char *who; // name of the solver that found the answer
    int proven;      // 1 if no better answer exists
    // Upper bound of the placed weight: the weight of all items, or less if a
    // proof shows that they do not all fit.
    int64_t most;
    dv_arena *arena;
} solver_run;

// Functions from here to `anneal` run one solver each: they set r->answer, and
// return 0 when out of memory.
static int greedy(solver_run *r)
{
    return dv_list_heuristic(r->t, DV_GREEDY, &r->answer);
}

static int firstfit(solver_run *r)
{
    return dv_list_heuristic(r->t, DV_FIRST_FIT, &r->answer);
}

static int bestfit(solver_run *r)
{
    return dv_list_heuristic(r->t, DV_BEST_FIT, &r->answer);
}

// Runs branch and bound from the current answer, unless the value of the answer
// already equals the upper bound.
static int prove(solver_run *r)
{
    dv_neighbours neighbours;
    if (r->answer.value >= r->prices.bound)
        return 1;
    if (!dv_neighbours_init(&neighbours, r->t, MOST_NEIGHBOURS, r->arena))
        return 0;
    int64_t before = r->answer.value;
    if (neighbours.items && !dv_exact(r->t, &neighbours, &r->prices, &r->effort,
                                      &r->answer, &r->proven))
        return 0;
    if (r->answer.value > before)
        r->who = "exact";
    return 1;
}

static int best(solver_run *r)
{
    enum { SMALL = 12, PROOF = 4000000 };
    if (!dv_auto(r->t, r->o->seed, &r->prices, &r->effort, &r->answer, &r->who))
        return 0;
    if (r->t->n > SMALL || r->effort.left <= 0)
        return 1;
    if (r->effort.left > PROOF)
        r->effort.left = PROOF;
    return prove(r);
}

static int exact(solver_run *r)
{
    int64_t all = r->effort.left;
    r->effort.left = all / 4;
    if (!dv_auto(r->t, r->o->seed, &r->prices, &r->effort, &r->answer, &r->who))
        return 0;
    r->effort.left += all - all / 4;
    return prove(r);
}

// Runs simulated annealing, which has its own limit of steps; a budget given by
// the caller can only lower it.
static int anneal(solver_run *r)
{
    dv_neighbours neighbours;
    if (r->o->budget <= 0)
        r->effort.left = INT64_MAX;
    if (!dv_neighbours_init(&neighbours, r->t, MOST_NEIGHBOURS, r->arena))
        return 0;
    if (neighbours.items)
        return dv_anneal(r->t, &neighbours, r->o->seed, &r->effort, &r->answer);
    r->who = "firstfit";
    return firstfit(r);
}

typedef struct solver {
    const char *name;
    int (*solve)(solver_run *r);
    // 1 if the solver searches for improvements; then local search may also
    // move the pieces of buffers that are cut at possible spills.
    int improves;
} solver;

static const solver solvers[] = {
    [0] = {"auto", best, 1},
    [DV_SOLVER_AUTO] = {"auto", best, 1},
    [DV_SOLVER_EXACT] = {"exact", exact, 1},
    [DV_SOLVER_ANNEAL] = {"anneal", anneal, 0},
    [DV_SOLVER_BESTFIT] = {"bestfit", bestfit, 0},
    [DV_SOLVER_FIRSTFIT] = {"firstfit", firstfit, 0},
    [DV_SOLVER_GREEDY] = {"greedy", greedy, 0},
};
enum { N_SOLVERS = sizeof solvers / sizeof *solvers };

const char *dv_solver_name(dv_solver s)
{
    return (int)s >= 0 && (int)s < N_SOLVERS ? solvers[s].name : NULL;
}

// Returns the default budget in search steps: large for few items, which are
// hard to pack and cheap to try, and a fixed number per item for many.
static int64_t default_budget(int64_t n)
{
    int64_t extra = 50000000 - 50000 * n;
    return (extra > 6000000 ? extra : 6000000) + 2500 * n;
}

static int start(solver_run *r, const dv_task *t, const dv_place_options *o,
                 dv_arena *arena)
{
    *r = (solver_run){.t = t, .o = o, .arena = arena};
    r->effort.left = o->budget > 0 ? o->budget : default_budget(t->n);
    if (o->time_limit_s > 0)
        r->effort.until_s = dv_clock_s() + o->time_limit_s;
    r->answer.at = DV_NEW(arena, int64_t, t->n);
    return r->answer.at && dv_prices_init(&r->prices, t, arena);
}

static int64_t total_weight(const dv_task *t)
{
    int64_t all = 0;
    for (int32_t i = 0; i < t->n; i++)
        if (t->items[i].in_play || t->items[i].fixed >= 0)
            all += t->items[i].weight;
    return all;
}

// Returns the smallest weight of a placeable item: at least that much is lost
// if not all items fit.
static int64_t least_weight(const dv_task *t)
{
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < t->n; i++)
        if (t->items[i].in_play && t->items[i].weight < least)
            least = t->items[i].weight;
    return least < INT64_MAX ? least : 0;
}

// Tries to pack all items, and lowers the upper bound r->most if it is proven
// that they do not all fit. Returns 1 if all were packed, 0 if not, -1 when out
// of memory.
static int try_whole(solver_run *r)
{
    enum { FEW = 300 };
    int64_t usual = r->t->n <= FEW ? 50000000 : 5000000;
    dv_effort effort = {r->o->budget > 0 ? r->o->budget : usual, 0,
                        r->effort.until_s};
    dv_fit fit = dv_pack_all(r->t, &effort, &r->answer);
    r->effort.nodes += effort.nodes;
    r->who = "pack";
    if (fit == DV_FIT_YES)
        r->prices.bound = r->answer.value;
    if (fit == DV_FIT_NO)
        r->most -= least_weight(r->t);
    return fit == DV_FIT_NOMEM ? -1 : fit == DV_FIT_YES;
}

static int solve(solver_run *r, const solver *s)
{
    r->most = total_weight(r->t);
    int whole = r->o->must_fit && s->improves ? try_whole(r) : 0;
    if (whole)
        return whole > 0;
    r->who = s->name;
    if (!s->solve(r))
        return 0;
    // List heuristics find no upper bound of the placed weight. Compute a rough
    // one with few steps, so that it takes no longer than the heuristic.
    int steps = dv_price_steps(r->t, &r->prices) / 8 + 10;
    if (!r->prices.bound &&
        !dv_prices_improve(&r->prices, r->t, r->answer.value, steps))
        return 0;
    if (r->prices.bound > r->most)
        r->prices.bound = r->most;
    if (r->proven)
        r->prices.bound = r->answer.value;
    return 1;
}

// The public struct must be the first member, because dv_placement_destroy
// casts a pointer to it back to a result.
typedef struct result {
    dv_placement out;
    dv_arena arena;
} result;

static const char *say(dv_arena *a, const char *text)
{
    return dv_arena_copy(a, text, strlen(text));
}

static const char *too_large(dv_arena *a, const dv_buffer *b, int64_t capacity)
{
    char text[128];
    snprintf(text, sizeof text,
             "larger than the capacity: %" PRId64 " > %" PRId64, b->size_bytes,
             capacity);
    return say(a, text);
}

// Returns the message that says why buffer i was not placed, or NULL when out
// of memory.
static const char *reason(dv_arena *a, const dv_task *t, const dv_buffer *in,
                          int32_t i)
{
    if (in[i].barred)
        return in[i].barred;
    if (in[i].size_bytes > t->capacity)
        return too_large(a, &in[i], t->capacity);
    if (!t->items[i].in_play)
        return say(a, "another of its group cannot be placed");
    return say(a, t->items[i].group >= 0 ? "no room for its group" : "no room");
}

// Converts placed pieces (parts of a buffer's lifetime) to stays (intervals in
// which a buffer is at one address). Consecutive pieces of a buffer at the same
// address become one stay.
static int fill_stays(result *r, const dv_place_cut *cut, const int64_t *at)
{
    dv_stay *stays = DV_NEW(&r->arena, dv_stay, cut->n), *last = NULL;
    if (!stays)
        return 0;
    dv_placement *p = &r->out;
    for (int32_t k = 0; k < cut->n; k++) {
        const dv_buffer *b = &cut->pieces[k];
        if (at[k] < 0)
            continue;
        if (last && last->buffer == cut->owner[k] && last->address == at[k] &&
            last->end == b->start + 1) {
            last->end = b->end;
            continue;
        }
        last = &stays[p->n_stays++];
        *last = (dv_stay){cut->owner[k], b->start, b->end, at[k]};
        if (at[k] + b->size_bytes > p->peak_bytes)
            p->peak_bytes = at[k] + b->size_bytes;
    }
    p->stays = stays;
    return 1;
}

static int fill(result *r, const dv_task *t, const dv_buffer *in,
                const dv_place_cut *cut, const int64_t *at)
{
    int64_t *addresses = DV_NEW(&r->arena, int64_t, t->n);
    const char **reasons = DV_NEW(&r->arena, const char *, t->n);
    if (!addresses || !reasons || !fill_stays(r, cut, at))
        return 0;
    dv_placement *p = &r->out;
    for (int32_t i = 0; i < t->n; i++)
        addresses[i] = -1;
    for (size_t k = p->n_stays; k-- > 0;)
        addresses[p->stays[k].buffer] = p->stays[k].address;
    for (int32_t i = 0; i < t->n; i++)
        if (addresses[i] < 0 && !(reasons[i] = reason(&r->arena, t, in, i)))
            return 0;
    p->n_buffers = (size_t)t->n;
    p->addresses = addresses;
    p->reasons = reasons;
    return 1;
}

static void put_value(dv_placement *p, const solver_run *r, int64_t value)
{
    p->value = value;
    p->bound = r->prices.bound;
    p->gap = p->bound > 0 ? (double)(p->bound - value) / (double)p->bound : 0;
    p->steps += r->effort.nodes;
    p->solver = r->who;
}

void dv_placement_destroy(dv_placement *placement)
{
    if (!placement)
        return;
    result *r = (result *)placement;
    dv_arena arena = r->arena;
    dv_release(r);
    dv_arena_free(&arena);
}

// Makes the list of pieces of lifetimes for buffers that are not cut: every
// buffer is one piece.
static int one_piece_each(dv_place_cut *out, const dv_buffer *in, int32_t n,
                          dv_arena *a)
{
    *out = (dv_place_cut){.pieces = DV_NEW(a, dv_buffer, n),
                          .owner = DV_NEW(a, int32_t, n),
                          .n = n};
    if (!out->pieces || !out->owner)
        return 0;
    for (int32_t i = 0; i < n; i++) {
        out->pieces[i] = in[i];
        out->owner[i] = i;
    }
    return 1;
}

static int place_whole(result *res, const solver *s, const dv_task *t,
                       const dv_buffer *in, const dv_place_options *o)
{
    dv_arena a = {0};
    solver_run r;
    dv_place_cut cut;
    int ok = start(&r, t, o, &a) && solve(&r, s) &&
             one_piece_each(&cut, in, t->n, &a) &&
             fill(res, t, in, &cut, r.answer.at);
    if (ok)
        put_value(&res->out, &r, r.answer.value);
    dv_arena_free(&a);
    return ok;
}

// Gives every piece of a lifetime the address of the epoch that it belongs to:
// the time from a write to the last read of the value.
static void spread(const dv_place_cut *pieces, const int64_t *epochs,
                   int64_t *at)
{
    for (int32_t k = 0; k < pieces->n; k++)
        at[k] = epochs[pieces->epoch[k]];
}

// Cuts epochs (from a write to the last read of the value) further, at every
// gap between uses, where a buffer may be spilled, and lets local search move
// the pieces. Leaves the answer unchanged if that gains nothing.
static int cut_at_gaps(solver_run *r, const dv_buffer *in, size_t n,
                       dv_place_cut *cut, int improves)
{
    dv_place_cut pieces;
    dv_task t;
    solver_run x;
    dv_neighbours neighbours;
    if (!dv_cut_make(&pieces, in, n, 1, r->arena) ||
        dv_task_create(&t, pieces.pieces, (size_t)pieces.n, r->o, NULL, NULL))
        return 0;
    int ok = start(&x, &t, r->o, r->arena);
    if (ok) {
        spread(&pieces, r->answer.at, x.answer.at);
        x.answer.value = dv_placed_weight(&t, x.answer.at);
        x.effort = r->effort;
        ok = dv_prices_improve(&x.prices, &t, x.answer.value,
                               dv_price_steps(&t, &x.prices)) &&
             dv_neighbours_init(&neighbours, &t, MOST_NEIGHBOURS, r->arena);
    }
    if (ok && improves && neighbours.items) {
        x.effort.left = default_budget(t.n) / 4;
        dv_search *s =
            dv_search_open(&t, &neighbours, r->o->seed, &x.effort, &x.answer);
        ok = s != NULL;
        if (ok) {
            dv_search_run(s, x.effort.left);
            dv_search_close(s, &x.answer);
        }
    }
    if (ok) {
        int64_t value = dv_cut_value(&pieces, x.answer.at);
        r->prices.bound = x.prices.bound;
        r->effort.nodes = x.effort.nodes;
        if (value > r->answer.value) {
            r->answer = (dv_answer){x.answer.at, value};
            r->who = "auto";
            *cut = pieces;
        }
    }
    dv_task_free(&t);
    return ok;
}

static int place_cut(result *res, const solver *s, const dv_task *whole,
                     const dv_buffer *in, const dv_place_options *o)
{
    dv_arena a = {0};
    dv_place_cut cut;
    dv_task t;
    solver_run r;
    size_t n = (size_t)whole->n;
    if (!dv_cut_make(&cut, in, n, 0, &a) ||
        dv_task_create(&t, cut.pieces, (size_t)cut.n, o, NULL, NULL)) {
        dv_arena_free(&a);
        return 0;
    }
    int ok = start(&r, &t, o, &a) && solve(&r, s);
    // A proof of optimality for whole epochs (from a write to the last read of
    // the value) does not hold once they are cut further.
    r.proven = 0;
    if (ok && r.answer.value < total_weight(&t))
        ok = cut_at_gaps(&r, in, n, &cut, s->improves);
    ok = ok && fill(res, whole, in, &cut, r.answer.at);
    if (ok)
        put_value(&res->out, &r, r.answer.value);
    dv_task_free(&t);
    dv_arena_free(&a);
    return ok;
}

static result *new_result(void)
{
    result *r = dv_alloc(sizeof *r);
    if (r)
        *r = (result){0};
    return r;
}

// Checks that first_use_is_read agrees with the list of uses of each buffer.
// This does not hold for the pieces of cut buffers that the solvers make
// themselves.
static dv_status check_first_uses(const dv_buffer *buffers, size_t n,
                                  const dv_loc *locs, dv_diag *diag)
{
    for (size_t i = 0; i < n; i++) {
        const dv_buffer *b = &buffers[i];
        if (!b->n_uses || !b->uses[0].writes == (b->first_use_is_read != 0))
            continue;
        return dv_fail(diag, DV_E_BUFFER, locs ? locs[i] : DV_NOWHERE,
                       "buffer number %zu: its first use %s it, but "
                       "first_use_is_read is %d",
                       i, b->uses[0].writes ? "writes" : "reads",
                       b->first_use_is_read);
    }
    return DV_OK;
}

dv_status dv_place_at(dv_placement **out, const dv_buffer *buffers, size_t n,
                      const dv_place_options *options, const dv_loc *locs,
                      dv_diag *diag)
{
    dv_place_options o = DV_PLACE_OPTIONS_INIT;
    DV_TRY(dv_options_read(&o, sizeof o, options, "dv_place_options", diag));
    DV_TRY(dv_options_enum((int)o.solver, N_SOLVERS, "solver", diag));
    DV_TRY(check_first_uses(buffers, n, locs, diag));
    dv_task task;
    DV_TRY(dv_task_create(&task, buffers, n, &o, locs, diag));
    result *r = new_result();
    int ok = r && (o.evict ? place_cut : place_whole)(r, &solvers[o.solver],
                                                      &task, buffers, &o);
    dv_task_free(&task);
    if (ok) {
        *out = &r->out;
        return DV_OK;
    }
    if (r)
        dv_placement_destroy(&r->out);
    return dv_nomem(diag);
}

dv_status dv_place(dv_placement **out, const dv_buffer *buffers,
                   size_t n_buffers, const dv_place_options *options,
                   dv_diag *diag)
{
    return dv_place_at(out, buffers, n_buffers, options, NULL, diag);
}

// Returns the default budget of dv_place_least. Tasks with few buffers are
// worth a proof; with many buffers the gap is small after a second or two, and
// more effort seldom closes it.
static int64_t default_least_budget(int64_t n)
{
    enum { FEW = 300 };
    return n <= FEW ? 20000000 : 2000000;
}

dv_status dv_place_least_at(dv_placement **out, int64_t *proven_bytes,
                            const dv_buffer *buffers, size_t n,
                            const dv_place_options *options, const dv_loc *locs,
                            dv_diag *diag)
{
    dv_place_options o = DV_PLACE_OPTIONS_INIT;
    dv_task task;
    int64_t proven = 0;
    DV_TRY(dv_options_read(&o, sizeof o, options, "dv_place_options", diag));
    DV_TRY(dv_options_enum((int)o.solver, N_SOLVERS, "solver", diag));
    DV_TRY(check_first_uses(buffers, n, locs, diag));
    o.capacity_bytes = (int64_t)1 << 60;
    DV_TRY(dv_task_create(&task, buffers, n, &o, locs, diag));
    task.minimizes_capacity = 1;
    result *res = new_result();
    dv_arena a = {0};
    solver_run r;
    dv_place_cut cut;
    int ok = res && start(&r, &task, &o, &a) &&
             one_piece_each(&cut, buffers, task.n, &a);
    if (ok) {
        r.effort.left = o.budget > 0 ? o.budget : default_least_budget(task.n);
        r.who = "pack";
        ok = dv_pack_all_least(&task, &r.effort, &r.answer, &proven) !=
                 DV_FIT_NOMEM &&
             fill(res, &task, buffers, &cut, r.answer.at);
    }
    if (ok) {
        r.prices.bound = r.answer.value;
        put_value(&res->out, &r, r.answer.value);
        *out = &res->out;
        if (proven_bytes)
            *proven_bytes = proven;
    } else if (res) {
        dv_placement_destroy(&res->out);
    }
    dv_arena_free(&a);
    dv_task_free(&task);
    return ok ? DV_OK : dv_nomem(diag);
}

dv_status dv_place_least(dv_placement **out, int64_t *proven_bytes,
                         const dv_buffer *buffers, size_t n_buffers,
                         const dv_place_options *options, dv_diag *diag)
{
    return dv_place_least_at(out, proven_bytes, buffers, n_buffers, options,
                             NULL, diag);
}
