// dv_place: check the input, run a solver, say what came of it.
#include "place/place.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// -- Solvers -----------------------------------------------------------------

typedef struct solver {
    const char *name;
    // Fill the layout; 0 when out of memory. `who` is set to the solver that
    // found it.
    int (*solve)(const dv_task *task, const dv_place_options *options,
                 dv_prices *prices, dv_effort *effort, dv_answer *out,
                 const char **who);
} solver;

#define LIST(name, RULE)                                                       \
    static int name(const dv_task *task, const dv_place_options *options,      \
                    dv_prices *prices, dv_effort *effort, dv_answer *out,      \
                    const char **who)                                          \
    {                                                                          \
        (void)options, (void)prices, (void)effort, (void)who;                  \
        return dv_list(task, RULE, out);                                       \
    }
LIST(greedy, DV_GREEDY)
LIST(firstfit, DV_FIRST_FIT)
LIST(bestfit, DV_BEST_FIT)

static int best(const dv_task *task, const dv_place_options *options,
                dv_prices *prices, dv_effort *effort, dv_answer *out,
                const char **who)
{
    return dv_auto(task, options->seed, prices, effort, out, who);
}

static const solver solvers[] = {
    {"auto", best},
    {"greedy", greedy},
    {"firstfit", firstfit},
    {"bestfit", bestfit},
};

const char *dv_place_solver(int i)
{
    int n = sizeof solvers / sizeof *solvers;
    return i >= 0 && i < n ? solvers[i].name : NULL;
}

static const solver *find_solver(const char *name)
{
    for (int i = 0; dv_place_solver(i); i++)
        if (!name || !strcmp(solvers[i].name, name))
            return &solvers[i];
    return NULL;
}

// -- The result --------------------------------------------------------------

// The public struct first, so that a pointer to one is a pointer to both.
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

// Why item i is out. NULL when out of memory.
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

static int fill(result *r, const dv_task *t, const dv_buffer *in,
                const dv_answer *layout)
{
    int64_t *addresses = DV_NEW(&r->arena, int64_t, t->n);
    const char **reasons = DV_NEW(&r->arena, const char *, t->n);
    dv_stay *stays = DV_NEW(&r->arena, dv_stay, t->n);
    if (!addresses || !reasons || !stays)
        return 0;
    dv_placement *p = &r->out;
    for (int32_t i = 0; i < t->n; i++) {
        int64_t at = addresses[i] = layout->at[i];
        if (at < 0) {
            if (!(reasons[i] = reason(&r->arena, t, in, i)))
                return 0;
            continue;
        }
        const dv_item *it = &t->items[i];
        stays[p->n_stays++] = (dv_stay){i, it->start, it->end, at};
        if (at + it->size > p->peak_bytes)
            p->peak_bytes = at + it->size;
    }
    p->n_buffers = (size_t)t->n;
    p->addresses = addresses;
    p->reasons = reasons;
    p->stays = stays;
    p->value = layout->value;
    return 1;
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

// -- The entry ---------------------------------------------------------------

// Small tasks are hard to pack and cheap to try; large ones get a fixed number
// of units an item.
static int64_t usual_budget(int64_t n)
{
    int64_t extra = 50000000 - 50000 * n;
    return (extra > 6000000 ? extra : 6000000) + 3000 * n;
}

static dv_status solve(result *r, const solver *s, const dv_task *t,
                       const dv_buffer *in, const dv_place_options *o,
                       dv_diag *diag)
{
    dv_effort effort = {.left = o->budget ? o->budget : usual_budget(t->n)};
    if (o->time_limit_s > 0)
        effort.until_s = dv_clock_s() + o->time_limit_s;
    dv_answer layout = {DV_NEW(&r->arena, int64_t, t->n), 0};
    r->out.solver = s->name;
    dv_prices prices;
    if (!layout.at || !dv_prices_init(&prices, t, &r->arena) ||
        !s->solve(t, o, &prices, &effort, &layout, &r->out.solver) ||
        (!prices.bound && !dv_prices_find(&prices, t, layout.value,
                                          dv_price_steps(t, &prices))) ||
        !fill(r, t, in, &layout))
        return dv_nomem(diag);
    r->out.bound = prices.bound;
    if (prices.bound > 0)
        r->out.gap =
            (double)(prices.bound - layout.value) / (double)prices.bound;
    r->out.nodes = effort.nodes;
    return DV_OK;
}

dv_status dv_place(dv_placement **out, const dv_buffer *buffers,
                   size_t n_buffers, const dv_place_options *options,
                   dv_diag *diag)
{
    return dv_place_at(out, buffers, n_buffers, options, NULL, diag);
}

dv_status dv_place_at(dv_placement **out, const dv_buffer *buffers, size_t n,
                      const dv_place_options *options, const dv_loc *locs,
                      dv_diag *diag)
{
    const solver *s = find_solver(options->solver);
    if (!s)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "there is no solver %.60s",
                       options->solver);
    dv_task task;
    DV_TRY(dv_task_create(&task, buffers, n, options, locs, diag));
    result *r = dv_alloc(sizeof *r);
    dv_status st = r ? DV_OK : dv_nomem(diag);
    if (r) {
        *r = (result){0};
        st = solve(r, s, &task, buffers, options, diag);
    }
    dv_task_free(&task);
    if (st == DV_OK)
        *out = &r->out;
    else if (r)
        dv_placement_destroy(&r->out);
    return st;
}
