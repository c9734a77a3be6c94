// Choose, pack, repeat: for tasks of up to a few thousand items.
//
// The beam chooses what to keep without looking at addresses; the exact
// search for a packing then finds addresses for all of it, or gives up. A
// choice that fills memory to the last byte is hard to pack, so each failure
// leaves a little more room free, and each success a little less, until the
// effort is spent. What a choice left out is put into gaps afterwards.
#include "base/math.h"
#include "place/pack.h"
#include "place/place.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_WIDTH = 2000 };

typedef struct refiner {
    const dv_task *t;
    const dv_prices *prices;
    dv_effort *effort;
    dv_answer *best;
    dv_choice choice;
    dv_rect *rects;
    int32_t *rect_of; // the rectangle of an item
    int32_t *chain;   // items, parents before children
    int64_t *at;
    char *offered; // items a choice may take
} refiner;

static int out_of_time(void *effort)
{
    return dv_late(effort);
}

// -- Packing a choice --------------------------------------------------------

// With one alignment that divides the capacity, sizes are rounded up and
// alignment is no longer a matter; otherwise the packing sees to it.
static dv_rect rect_of(const dv_task *t, const dv_item *it)
{
    int rounded = it->align == t->unit && t->capacity % t->unit == 0;
    return (dv_rect){.start = it->start,
                     .end = it->end,
                     .size =
                         rounded ? dv_align_up(it->size, t->unit) : it->size,
                     .align = rounded ? 1 : it->align,
                     .fixed = it->fixed,
                     .address = -1};
}

// Rectangles of the chosen and the fixed items; a child that takes over a
// place makes its parent's rectangle longer.
static int32_t make_rects(refiner *r)
{
    const dv_task *t = r->t;
    int32_t n = 0;
    for (int32_t k = 0; k < t->n; k++) {
        int32_t i = r->chain[k];
        const dv_item *it = &t->items[i];
        r->rect_of[i] = -1;
        if (it->fixed < 0 && !r->choice.keep[i])
            continue;
        int32_t over = it->fixed < 0 ? r->choice.over[i] : -1;
        if (over >= 0) {
            r->rect_of[i] = r->rect_of[over];
            r->rects[r->rect_of[i]].end = it->end;
            continue;
        }
        r->rect_of[i] = n;
        r->rects[n++] = rect_of(t, it);
    }
    return n;
}

// 1: packed into r->at, 0: not, -1: out of memory.
static int pack(refiner *r, int64_t max_nodes)
{
    const dv_task *t = r->t;
    int32_t n = make_rects(r);
    dv_pack_limits limits = {max_nodes, out_of_time, r->effort};
    dv_pack_stats stats = {0};
    dv_fit fit = dv_pack(r->rects, n, t->capacity, &limits, &stats);
    r->effort->nodes += stats.nodes;
    r->effort->left -= stats.nodes * (n / 4 + 8); // units a node
    if (fit != DV_FIT_YES)
        return fit == DV_FIT_NOMEM ? -1 : 0;
    for (int32_t i = 0; i < t->n; i++) {
        int32_t k = r->rect_of[i];
        r->at[i] = k < 0 ? -1 : r->rects[k].address;
    }
    return 1;
}

// -- Choosing ----------------------------------------------------------------

// A group of which some are chosen and some not is no longer offered.
static int broken_groups(refiner *r)
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

static int choose(refiner *r, double share, int32_t width, int64_t *value)
{
    const dv_task *t = r->t;
    do {
        memcpy(r->choice.keep, r->offered, (size_t)t->n);
        if (!dv_select(t, r->prices, share, width, r->effort, &r->choice))
            return 0;
    } while (broken_groups(r));
    *value = 0;
    for (int32_t i = 0; i < t->n; i++)
        if (r->choice.keep[i] || t->items[i].fixed >= 0)
            *value += t->items[i].weight;
    return 1;
}

// One round: 1 packed, 0 not, -1 out of memory, 2 not worth packing.
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

// -- The entry ---------------------------------------------------------------

typedef struct place_in_time {
    int64_t start;
    int32_t turn, item;
} place_in_time;

static int by_start(const void *a, const void *b)
{
    const place_in_time *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->turn - y->turn;
}

// Items by start, parents before children.
static int order_chain(const dv_task *t, int32_t *chain, int32_t *waits)
{
    int32_t n = 0;
    place_in_time *all = dv_alloc((size_t)t->n * sizeof *all);
    if (!all)
        return 0;
    for (int32_t i = 0; i < t->n; i++)
        if ((waits[i] = t->items[i].n_parents) == 0)
            chain[n++] = i;
    for (int32_t k = 0; k < n; k++) {
        const dv_item *it = &t->items[chain[k]];
        all[k] = (place_in_time){it->start, k, chain[k]};
        for (int32_t c = 0; c < it->n_children; c++)
            if (--waits[t->links[it->children + c]] == 0)
                chain[n++] = t->links[it->children + c];
    }
    qsort(all, (size_t)n, sizeof *all, by_start);
    for (int32_t k = 0; k < n; k++)
        chain[k] = all[k].item;
    dv_release(all);
    return 1;
}

static int prepare(refiner *r, dv_arena *a)
{
    const dv_task *t = r->t;
    r->choice.keep = DV_NEW(a, char, t->n);
    r->choice.over = DV_NEW(a, int32_t, t->n);
    r->rects = DV_NEW(a, dv_rect, t->n);
    r->rect_of = DV_NEW(a, int32_t, t->n);
    r->chain = DV_NEW(a, int32_t, t->n);
    r->at = DV_NEW(a, int64_t, t->n);
    r->offered = DV_NEW(a, char, t->n);
    if (!r->choice.keep || !r->choice.over || !r->rects || !r->rect_of ||
        !r->chain || !r->at || !r->offered)
        return 0;
    for (int32_t i = 0; i < t->n; i++)
        r->offered[i] = (char)t->items[i].in_play;
    return order_chain(t, r->chain, r->rect_of);
}

static int search(refiner *r, int32_t width)
{
    double step = 0.005, failed = 1, fits = 0, share = 1;
    int64_t n = r->t->n;
    while (r->effort->left > 0 && share > 0.5) {
        int64_t most = r->effort->left / 8 / (n / 4 + 8);
        int64_t nodes = dv_min_i64(200 * n + 1000, dv_max_i64(most, 2 * n));
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

int dv_refine(const dv_task *t, const dv_prices *prices, dv_effort *effort,
              dv_answer *io)
{
    dv_arena a = {0};
    refiner r = {.t = t, .prices = prices, .effort = effort, .best = io};
    int ok = prepare(&r, &a);
    for (int32_t width = 100; ok && width <= MAX_WIDTH; width *= 4)
        ok = search(&r, width);
    dv_arena_free(&a);
    return ok;
}
