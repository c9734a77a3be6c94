// Alternates between choosing which items (buffers) to place and packing them,
// for tasks of up to a few thousand items.
//
// The beam search (select.c) chooses which items to place without regard to
// addresses; the exact packing search then finds addresses for all of them or
// gives up. A choice that fills the memory to the last byte is hard to pack, so
// each failure lowers the fraction of the memory that may be used, and each
// success raises it, until the effort is spent.
#include "base/math.h"
#include "place/rects.h"
#include <string.h>

enum { MAX_WIDTH = 2000 };

typedef struct refiner {
    const dv_task *t;
    dv_prices *prices;
    // 1 if the beam search (select.c), which chooses items, takes all possible
    // in-place reuse of addresses into account.
    int exact_choice;
    dv_effort *effort;
    dv_answer *best;
    dv_choice choice;
    dv_rects rects;
    int64_t *at;
    char *offered; // offered[i]: item i may be chosen
    // 1 if the choice considers every item that solvers may place.
    int all_offered;
} refiner;

static int out_of_time(void *effort)
{
    return dv_deadline_passed(effort);
}

// Finds addresses for all chosen items and stores them in r->at. Returns 1 if
// they could be packed, 0 if not, -1 when out of memory.
static int pack(refiner *r, int64_t max_nodes)
{
    dv_rects *x = &r->rects;
    dv_rects_from_choice(x, &r->choice);
    dv_pack_limits limits = {
        .max_nodes = max_nodes, .stop = out_of_time, .stop_cx = r->effort};
    dv_pack_stats stats = {0};
    dv_fit fit = dv_pack(x->rects, x->n, r->t->capacity, &limits, &stats);
    r->effort->nodes += stats.nodes;
    // Subtract the cost of the search nodes from the remaining effort; it grows
    // with the number of rectangles.
    r->effort->left -= stats.nodes * (x->n / 20 + 20);
    if (fit != DV_FIT_YES)
        return fit == DV_FIT_NOMEM ? -1 : 0;
    dv_rects_store_addresses(x, r->at);
    return 1;
}

// Excludes groups that were only partly chosen from further choices, because a
// group of items is placed as a whole or not at all. Returns whether there were
// any.
static int exclude_partial_groups(refiner *r)
{
    const dv_task *t = r->t;
    int broken = 0;
    for (int32_t g = 0; g < t->n_groups; g++) {
        int32_t from = t->group_at[g], to = t->group_at[g + 1], n = 0;
        for (int32_t k = from; k < to; k++)
            n += r->choice.keep[t->members[k]];
        if (n == 0 || n == to - from)
            continue;
        broken = 1;
        for (int32_t k = from; k < to; k++)
            r->offered[t->members[k]] = 0;
    }
    return broken;
}

static int64_t value_of(const refiner *r)
{
    int64_t value = 0;
    for (int32_t i = 0; i < r->t->n; i++)
        if (r->choice.keep[i] || r->t->items[i].fixed >= 0)
            value += r->t->items[i].weight;
    return value;
}

static int choose(refiner *r, double share, int32_t width, int64_t *value)
{
    for (int first = 1;; first = 0) {
        memcpy(r->choice.keep, r->offered, (size_t)r->t->n);
        if (!dv_select(r->t, r->prices, share, width, r->effort, &r->choice))
            return 0;
        *value = value_of(r);
        // If all items could be chosen and the search was exhaustive, with the
        // full capacity, the weight of the choice is an upper bound of the
        // weight of any placement.
        if (first && share == 1 && r->choice.complete && r->exact_choice &&
            r->all_offered && *value < r->prices->bound)
            r->prices->bound = *value;
        if (!exclude_partial_groups(r))
            return 1;
        r->all_offered = 0;
    }
}

// Returns whether the beam search that chooses items takes every possible
// in-place reuse into account: each item has at most one parent and one child
// with which it may share an address, of the same size and with compatible
// alignment.
static int models_all_reuse(const dv_task *t)
{
    for (int32_t i = 0; i < t->n; i++) {
        const dv_item *it = &t->items[i];
        if (it->n_parents > 1 || it->n_children > 1)
            return 0;
        if (it->n_parents == 0)
            continue;
        const dv_item *p = &t->items[t->links[it->parents]];
        if (!p->in_play || !it->in_play || p->size != it->size ||
            p->align % it->align)
            return 0;
    }
    return 1;
}

// Makes one round of choosing items and packing them. Returns 1 if they could
// be packed, 0 if not, -1 when out of memory, 2 if the choice is no better than
// the best answer, so that packing is not tried.
static int round_of(refiner *r, double share, int32_t width, int64_t nodes)
{
    int64_t value;
    if (!choose(r, share, width, &value))
        return -1;
    if (value <= r->best->value)
        return 2;
    int packed = pack(r, nodes);
    if (packed > 0) {
        memcpy(r->best->at, r->at, (size_t)r->t->n * sizeof *r->at);
        r->best->value = value;
    }
    return packed;
}

static int prepare(refiner *r, dv_arena *a)
{
    const dv_task *t = r->t;
    r->choice.keep = DV_NEW(a, char, t->n);
    r->choice.over = DV_NEW(a, int32_t, t->n);
    r->at = DV_NEW(a, int64_t, t->n);
    r->offered = DV_NEW(a, char, t->n);
    if (!r->choice.keep || !r->choice.over || !r->at || !r->offered)
        return 0;
    for (int32_t i = 0; i < t->n; i++)
        r->offered[i] = (char)t->items[i].in_play;
    return dv_rects_init(&r->rects, t, a);
}

static int search(refiner *r, int32_t width)
{
    double step = 0.005, failed = 1, fits = 0, share = 1;
    int64_t n = r->t->n;
    while (r->effort->left > 0 && share > 0.5 &&
           r->best->value < r->prices->bound) {
        int64_t most = r->effort->left / 5 / (n / 20 + 20);
        int64_t nodes = dv_min_i64(200 * n + 1000, dv_max_i64(most, 4 * n));
        int got = round_of(r, share, width, nodes);
        if (got < 0)
            return 0;
        if (got == 1 && share == 1)
            break;
        if (got == 0)
            failed = share;
        else
            fits = share;
        if (fits == 0) {
            share -= step;
            step *= 1.3;
            continue;
        }
        if (failed - fits < 0.001)
            break;
        share = (failed + fits) / 2;
    }
    return 1;
}

int dv_refine(const dv_task *t, dv_prices *prices, dv_effort *effort,
              dv_answer *io)
{
    dv_arena a = {0};
    refiner r = {.t = t,
                 .prices = prices,
                 .exact_choice = models_all_reuse(t),
                 .effort = effort,
                 .best = io,
                 .all_offered = 1};
    int ok = prepare(&r, &a);
    for (int32_t width = 200; ok && width <= MAX_WIDTH; width *= 3)
        ok = search(&r, width);
    dv_arena_free(&a);
    return ok;
}
