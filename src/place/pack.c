// Schedules the packing searches and their budgets.
//
// Every part (an independent sub-problem, pack_model.c) is searched by turns
// with the skyline search under several rules and with the canonical search.
// The budget of a try doubles each round, and the same amount of work goes to
// short tries with randomly perturbed orders. Which try is fast depends on the
// problem; none always is. Budgets count nodes and never seconds, so the result
// is the same on every machine.
//
// The least capacity lies between the largest sum of live sizes and the height
// of the best simple layout. The lower end is tried first, because it is the
// likely answer and a tight capacity prunes well; then the interval is bisected
// as long as the budget lasts. Large parts start with the bisection and the
// canonical search, which finds layouts about a percent above the lower end.
#include "place/pack_state.h"
#include "base/math.h"
#include <string.h>

enum {
    // Parts (independent sub-problems) with more items are not searched.
    MAX_SEARCH = 4096,
    // Parts with more items seldom finish a long try; they start with bisection
    // of the capacity, and with the tries in large_first[].
    LARGE = 1000,
    // Steps of the bisection of the capacity before the budget is raised.
    HALVINGS = 5
};
#define FIRST_BUDGET 20000

// The long tries of one round: each is a search with a rule for branching and
// keys for the order of items. Those that most often succeed early come first.
static const struct {
    int canonical;
    dv_valley_rule rule;
    dv_pack_key keys[3];
} tries[] = {
    {0, DV_RULE_LOW, {DV_KEY_SIZE, DV_KEY_LIFE, DV_KEY_AREA}},
    {0, DV_RULE_WIDE, {DV_KEY_LIFE, DV_KEY_AREA, DV_KEY_TOTAL}},
    {0, DV_RULE_LOW, {DV_KEY_AREA, DV_KEY_LIFE, DV_KEY_TOTAL}},
    {0, DV_RULE_RANK, {DV_KEY_LIFE, DV_KEY_AREA, DV_KEY_TOTAL}},
    {1, DV_RULE_LOW, {DV_KEY_LIFE, DV_KEY_AREA, DV_KEY_TOTAL}},
    {0, DV_RULE_LOW, {DV_KEY_LIFE, DV_KEY_AREA, DV_KEY_TOTAL}},
    {0, DV_RULE_FAILS, {DV_KEY_AREA, DV_KEY_LIFE, DV_KEY_TOTAL}},
    {1, DV_RULE_LOW, {DV_KEY_TOTAL, DV_KEY_AREA, DV_KEY_LIFE}},
    {0, DV_RULE_RANK, {DV_KEY_SIZE, DV_KEY_LIFE, DV_KEY_AREA}},
    {0, DV_RULE_FAILS, {DV_KEY_SIZE, DV_KEY_LIFE, DV_KEY_AREA}},
    {1, DV_RULE_LOW, {DV_KEY_TOTAL, DV_KEY_LIFE, DV_KEY_AREA}},
    {0, DV_RULE_RANK, {DV_KEY_TOTAL, DV_KEY_LIFE, DV_KEY_AREA}},
};
enum { N_TRIES = sizeof tries / sizeof *tries };
// The order of tries for parts with more than LARGE (1000) items, as indices
// into tries[]: canonical searches, which place items from low to high, come
// first.
static const unsigned char large_first[N_TRIES] = {10, 7, 4, 0, 1, 2,
                                                   3,  5, 6, 8, 9, 11};

// The state of the search for a layout of one part (an independent sub-problem
// of the packing).
typedef struct part_search {
    const dv_part *p;
    // Skyline search; only for parts without alignments and without items at
    // given addresses.
    dv_valley *v;
    // Canonical search, which places items from low to high addresses; created
    // when it is first needed.
    dv_pack_order *o;
    // Number of long tries (a search with a growing budget) and of short tries
    // (with a randomly perturbed order) so far, and the search nodes spent in
    // them.
    int32_t n_long, n_short;
    int64_t in_long, in_short;
    dv_pack_run *run;
} part_search;

static int64_t short_budget(const part_search *h)
{
    return 2 * (int64_t)h->p->n + 1000;
}

// Sets the work units per search node. A node of the canonical search examines
// all unplaced items; a node of the skyline search examines only those near one
// valley (a stretch of the skyline between higher walls).
static void set_cost(dv_pack_run *run, const dv_part *p, int canonical)
{
    run->cost = 1 + (canonical ? (p->n + p->n_secs) / 200 : p->n / 2000);
}

// Makes the next long try (a search without random perturbation); the budget
// doubles after each round of N_TRIES tries.
static dv_fit try_long(part_search *h)
{
    int32_t round = h->n_long / N_TRIES, which = h->n_long % N_TRIES;
    which = h->p->n > LARGE ? large_first[which] : which;
    const dv_pack_key *keys = tries[which].keys;
    int64_t budget = short_budget(h) << dv_min_i64(round, 40);
    h->n_long++;
    set_cost(h->run, h->p, tries[which].canonical);
    if (!tries[which].canonical)
        return h->v ? dv_valley_try(h->v, tries[which].rule, keys, 0, budget,
                                    h->run)
                    : DV_FIT_OPEN;
    if (!h->o && !(h->o = dv_order_create(h->p)))
        return DV_FIT_NOMEM;
    return dv_order_try(h->o, keys, budget, h->run);
}

// Returns element k of the Luby sequence 1 1 2 1 1 2 4 1 1 2 ..., a restart
// schedule that is within a logarithmic factor of the best one.
static int64_t luby(int64_t k)
{
    int64_t size = 1;
    while (size < k + 1)
        size = 2 * size + 1;
    while (size - 1 != k) {
        size /= 2;
        k %= size;
    }
    return (size + 1) / 2;
}

// Makes the next short try: a search with a small budget and a randomly
// perturbed order of the items.
static dv_fit try_short(part_search *h)
{
    static const dv_pack_key keys[][3] = {
        {DV_KEY_LIFE, DV_KEY_AREA, DV_KEY_TOTAL},
        {DV_KEY_AREA, DV_KEY_LIFE, DV_KEY_TOTAL},
        {DV_KEY_SIZE, DV_KEY_LIFE, DV_KEY_AREA},
        {DV_KEY_TOTAL, DV_KEY_LIFE, DV_KEY_AREA},
    };
    int32_t k = h->n_short++;
    set_cost(h->run, h->p, 0);
    return dv_valley_try(h->v, (dv_valley_rule)(k / 4 % 4), keys[k % 4],
                         (uint64_t)k / 16 + 1, luby(k / 16) * short_budget(h),
                         h->run);
}

// Searches for a layout of a part (an independent sub-problem) with about
// `budget` nodes, or with the whole budget of the run if `budget` is 0.
static dv_fit search(const dv_part *p, int64_t budget, dv_pack_run *run)
{
    if (p->load > p->cap)
        return DV_FIT_NO;
    if (p->n > MAX_SEARCH)
        return DV_FIT_OPEN;
    part_search h = {.p = p, .run = run};
    if (p->plain && !(h.v = dv_valley_create(p)))
        return DV_FIT_NOMEM;
    int64_t from = run->nodes, last = from;
    dv_fit fit = DV_FIT_OPEN;
    while (fit == DV_FIT_OPEN && !run->stopped &&
           !(budget && last - from >= budget)) {
        int is_short = h.v && h.n_long >= 2 * N_TRIES && h.in_short < h.in_long;
        fit = is_short ? try_short(&h) : try_long(&h);
        *(is_short ? &h.in_short : &h.in_long) += run->nodes - last;
        last = run->nodes;
        run->restarts++;
    }
    dv_valley_destroy(h.v);
    dv_order_destroy(h.o);
    return fit;
}

static dv_pack_run start_run(const dv_pack_limits *limits)
{
    dv_pack_run run = {0};
    if (limits) {
        run.max_nodes = limits->max_nodes;
        run.max_work = limits->max_work;
        run.stop = limits->stop;
        run.stop_cx = limits->stop_cx;
    }
    return run;
}

static void put_stats(dv_pack_stats *stats, const dv_pack_run *run,
                      const dv_model *m, int64_t bound)
{
    if (!stats)
        return;
    *stats = (dv_pack_stats){.nodes = run->nodes, .restarts = run->restarts};
    if (!dv_mul_i64(&stats->bound, bound, m->unit))
        stats->bound = INT64_MAX;
}

static dv_fit pack(const dv_model *m, int64_t cap, dv_pack_run *run)
{
    dv_fit all = DV_FIT_YES;
    for (int32_t k = 0; k < m->n_parts; k++) {
        dv_part *p = &m->parts[k];
        int64_t top = 0;
        p->cap = cap - p->base;
        dv_fit fit = search(p, 0, run);
        if (fit == DV_FIT_OPEN && p->n > MAX_SEARCH) {
            fit = dv_pack_list(p, &top);
            if (fit == DV_FIT_YES && top > p->cap)
                fit = DV_FIT_OPEN;
        }
        if (fit == DV_FIT_NO || fit == DV_FIT_NOMEM)
            return fit;
        if (fit == DV_FIT_YES)
            dv_model_store_addresses(m, p, p->at);
        else
            all = fit;
    }
    return all;
}

dv_fit dv_pack(dv_rect *rects, int32_t n, int64_t capacity,
               const dv_pack_limits *limits, dv_pack_stats *stats)
{
    dv_model m;
    dv_pack_run run = start_run(limits);
    dv_fit fit = dv_model_init(&m, rects, n, capacity);
    if (fit == DV_FIT_YES && m.n > 0)
        fit = m.bound > capacity / m.unit ? DV_FIT_NO
                                          : pack(&m, capacity / m.unit, &run);
    put_stats(stats, &run, &m, m.bound);
    dv_model_free(&m);
    return fit;
}

// What is known about a part (an independent sub-problem): its best layout `at`
// has the height `top`, and no layout is lower than `low` (proven). Capacities
// below `open` were tried with the current budget without result.
typedef struct known {
    int64_t *at;
    int64_t top, low, open;
} known;

// Searches for a layout of a part that ends at or below `cap`, and records the
// result in *x, what is known about the part.
static dv_fit ask(dv_part *p, known *x, int64_t cap, int64_t budget,
                  dv_pack_run *run)
{
    p->cap = cap;
    dv_fit fit = search(p, budget, run);
    if (fit == DV_FIT_NO)
        x->low = cap + 1;
    if (fit == DV_FIT_OPEN)
        x->open = cap + 1;
    if (fit == DV_FIT_YES) {
        memcpy(x->at, p->at, (size_t)p->n * sizeof *x->at);
        x->top = 0;
        for (int32_t i = 0; i < p->n; i++)
            x->top = dv_max_i64(x->top, p->at[i] + p->size[i]);
    }
    return fit;
}

// Lowers the height of a part's best layout to `goal`, or as close to it as the
// budget of search nodes allows, by bisection of the capacity.
static dv_fit narrow(dv_part *p, known *x, int64_t goal, int64_t budget,
                     dv_pack_run *run)
{
    dv_fit fit = DV_FIT_OPEN;
    int first = p->n > LARGE && budget == FIRST_BUDGET;
    x->open = 0;
    for (int k = first; k <= HALVINGS + 2 * first && !run->stopped; k++) {
        int64_t low = dv_max_i64(goal, dv_max_i64(x->low, x->open));
        if (low >= x->top)
            break;
        fit = ask(p, x, k == 0 ? low : low + (x->top - 1 - low) / 2,
                  k == 0 ? 4 * budget : budget, run);
        if (fit == DV_FIT_NOMEM)
            return fit;
    }
    return DV_FIT_OPEN;
}

static dv_fit first_layouts(dv_model *m, known *all)
{
    for (int32_t k = 0; k < m->n_parts; k++) {
        dv_part *p = &m->parts[k];
        all[k].low = p->load;
        all[k].at = DV_NEW(&m->arena, int64_t, p->n);
        if (!all[k].at)
            return DV_FIT_NOMEM;
        dv_fit fit = dv_pack_list(p, &all[k].top);
        if (fit != DV_FIT_YES)
            return fit;
        memcpy(all[k].at, p->at, (size_t)p->n * sizeof *all[k].at);
    }
    return DV_FIT_YES;
}

// Computes *cap, the capacity that the best layouts of all parts (independent
// sub-problems) need, and *bound, its proven lower bound.
static void sum_up(const dv_model *m, const known *all, int64_t *cap,
                   int64_t *bound)
{
    *cap = *bound = m->bound;
    for (int32_t k = 0; k < m->n_parts; k++) {
        *cap = dv_max_i64(*cap, m->parts[k].base + all[k].top);
        *bound = dv_max_i64(*bound, m->parts[k].base + all[k].low);
    }
}

// Improves the layouts of all parts (independent sub-problems) that are higher
// than the bound, with growing budgets, until the capacity is proven minimal or
// the run is stopped.
static dv_fit least(dv_model *m, int64_t *cap, int64_t *bound, dv_pack_run *run)
{
    known *all = DV_NEW(&m->arena, known, m->n_parts);
    dv_fit fit = all ? first_layouts(m, all) : DV_FIT_NOMEM;
    if (fit != DV_FIT_YES)
        return fit;
    int64_t budget = FIRST_BUDGET, before;
    do {
        before = run->nodes;
        for (int32_t k = 0; k < m->n_parts; k++) {
            dv_part *p = &m->parts[k];
            sum_up(m, all, cap, bound);
            if (narrow(p, &all[k], *bound - p->base, budget, run) ==
                DV_FIT_NOMEM)
                return DV_FIT_NOMEM;
        }
        sum_up(m, all, cap, bound);
        budget = dv_min_i64(4 * budget, (int64_t)1 << 40);
    } while (*cap > *bound && !run->stopped && run->nodes > before);
    for (int32_t k = 0; k < m->n_parts; k++)
        dv_model_store_addresses(m, &m->parts[k], all[k].at);
    return *cap == *bound ? DV_FIT_YES : DV_FIT_OPEN;
}

dv_fit dv_pack_least(dv_rect *rects, int32_t n, int64_t *capacity,
                     const dv_pack_limits *limits, dv_pack_stats *stats)
{
    dv_model m;
    dv_pack_run run = start_run(limits);
    int64_t cap = 0, bound = 0;
    dv_fit fit = dv_model_init(&m, rects, n, 1);
    if (fit == DV_FIT_YES)
        fit = least(&m, &cap, &bound, &run);
    *capacity = cap * m.unit;
    put_stats(stats, &run, &m, bound);
    dv_model_free(&m);
    return fit;
}
