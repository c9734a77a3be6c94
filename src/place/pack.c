// Packing: from rectangles to parts, and who searches how long.
//
//   rectangles --scale--> units --sweep--> sections --split--> parts
//
// - Sizes are divided by what divides all of them; an alignment that divides
//   that too is no constraint at all.
// - Parts are groups that never meet. In a part, a rectangle that is alive
//   all the time goes to the top, which may split the rest further.
// - A part's items are sorted, and time runs in the direction that sorts
//   first: the order of the rectangles and the direction of time do not
//   matter for what is found.
// - Every part gets tries of the valley search and of the canonical search
//   in turn, with budgets that grow. All budgets count nodes, never seconds.
#include "place/pack_in.h"
#include "base/math.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SEARCH = 4096, // items; more are not searched
    MAX_ROUNDS = 32,   // of splitting
    UNIT = 300         // nodes of the shortest try
};

typedef struct item {
    int64_t start, end; // time; sections after the first sweep
    int64_t life;
    int64_t size, align, fixed; // units
    int32_t rect;
} item;

typedef struct model {
    dv_arena arena;
    dv_rect *rects;
    item *items; // what takes room
    int32_t n;
    int64_t unit; // bytes
    int64_t cap;  // units
    int64_t bound;
    int plain;
    dv_part *parts;
    int32_t n_parts, max_parts;
} model;

// -- Scaling -----------------------------------------------------------------

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

// The largest unit that all sizes and fixed addresses are multiples of, and
// that every alignment divides or is a multiple of.
static int64_t find_unit(const model *m)
{
    int64_t unit = 0;
    for (int32_t i = 0; i < m->n; i++) {
        unit = gcd(unit, m->items[i].size);
        if (m->items[i].fixed > 0)
            unit = gcd(unit, m->items[i].fixed);
    }
    for (int again = 1; again;) {
        again = 0;
        for (int32_t i = 0; i < m->n; i++) {
            int64_t align = m->items[i].align;
            if (unit % align && align % unit) {
                unit = gcd(unit, align);
                again = 1;
            }
        }
    }
    return unit;
}

// All free rectangles have one alignment and the capacity is a multiple of
// it: sizes can be rounded up.
static void round_sizes(model *m, int64_t cap)
{
    int64_t align = m->n ? m->items[0].align : 1;
    int64_t rounded;
    if (align == 1 || cap % align)
        return;
    for (int32_t i = 0; i < m->n; i++)
        if (m->items[i].align != align || m->items[i].fixed >= 0 ||
            !dv_add_i64(&rounded, m->items[i].size, align - 1))
            return;
    for (int32_t i = 0; i < m->n; i++)
        m->items[i].size = dv_ceil_div(m->items[i].size, align) * align;
}

static void scale(model *m, int64_t cap)
{
    m->unit = m->n ? find_unit(m) : 1;
    m->cap = cap / m->unit;
    m->plain = 1;
    for (int32_t i = 0; i < m->n; i++) {
        item *x = &m->items[i];
        x->size /= m->unit;
        x->align = x->align % m->unit ? 1 : x->align / m->unit;
        if (x->fixed >= 0)
            x->fixed /= m->unit;
        m->plain &= x->align == 1 && x->fixed < 0;
    }
}

// Keep the rectangles that take room; the others are placed at once.
static dv_fit take_items(model *m, dv_rect *rects, int32_t n)
{
    m->rects = rects;
    m->items = DV_NEW(&m->arena, item, n);
    if (n > 0 && !m->items)
        return DV_FIT_NOMEM;
    for (int32_t i = 0; i < n; i++) {
        const dv_rect *r = &rects[i];
        if (r->size <= 0 || r->start >= r->end) {
            rects[i].address = r->fixed >= 0 ? r->fixed : 0;
            continue;
        }
        // Times so far apart that they have no difference are both huge.
        int64_t life;
        if (!dv_sub_i64(&life, r->end, r->start))
            life = INT64_MAX;
        m->items[m->n++] = (item){
            .start = r->start,
            .end = r->end,
            .life = life,
            .size = r->size,
            .align = r->align > 0 && r->fixed < 0 ? r->align : 1,
            .fixed = r->fixed < 0 ? -1 : r->fixed,
            .rect = i,
        };
    }
    return DV_FIT_YES;
}

// -- Sections ----------------------------------------------------------------

typedef struct event {
    int64_t time;
    int32_t item;
    int32_t starts; // ends come first
} event;

static int compare_events(const void *pa, const void *pb)
{
    const event *a = pa, *b = pb;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->starts != b->starts)
        return a->starts - b->starts;
    return a->item < b->item ? -1 : a->item > b->item;
}

// Replace times by sections: a new one begins with a start after an end.
static dv_fit sweep(item *items, int32_t n)
{
    event *events = dv_alloc(2 * (size_t)n * sizeof *events);
    if (!events)
        return DV_FIT_NOMEM;
    for (int32_t i = 0; i < n; i++) {
        events[2 * i] = (event){items[i].start, i, 1};
        events[2 * i + 1] = (event){items[i].end, i, 0};
    }
    qsort(events, 2 * (size_t)n, sizeof *events, compare_events);
    int64_t section = -1;
    int starting = 0;
    for (int64_t k = 0; k < 2 * (int64_t)n; k++) {
        item *x = &items[events[k].item];
        if (events[k].starts && !starting)
            section++;
        starting = events[k].starts;
        if (starting)
            x->start = section;
        else
            x->end = section + 1;
    }
    dv_release(events);
    return DV_FIT_YES;
}

static int compare_items(const void *pa, const void *pb)
{
    const item *a = pa, *b = pb;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    if (a->end != b->end)
        return a->end > b->end ? -1 : 1;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    if (a->life != b->life)
        return a->life > b->life ? -1 : 1;
    if (a->align != b->align)
        return a->align > b->align ? -1 : 1;
    if (a->fixed != b->fixed)
        return a->fixed < b->fixed ? -1 : 1;
    return 0;
}

// Turn time round if that sorts before.
static dv_fit choose_direction(item *items, int32_t n)
{
    int64_t from = items[0].start, to = 0;
    item *turned = dv_alloc((size_t)n * sizeof *turned);
    if (!turned)
        return DV_FIT_NOMEM;
    for (int32_t i = 0; i < n; i++)
        to = dv_max_i64(to, items[i].end);
    for (int32_t i = 0; i < n; i++) {
        turned[i] = items[i];
        turned[i].start = from + to - items[i].end;
        turned[i].end = from + to - items[i].start;
    }
    qsort(turned, (size_t)n, sizeof *turned, compare_items);
    int32_t k = 0;
    while (k < n && compare_items(&turned[k], &items[k]) == 0)
        k++;
    if (k < n && compare_items(&turned[k], &items[k]) < 0)
        memcpy(items, turned, (size_t)n * sizeof *items);
    dv_release(turned);
    return DV_FIT_YES;
}

// -- Parts -------------------------------------------------------------------

static dv_fit add_part(model *m, item *items, int32_t n, int64_t cap)
{
    dv_arena *a = &m->arena;
    dv_part *p = DV_PUSH(a, dv_part, m->parts, m->n_parts, m->max_parts);
    if (!p || choose_direction(items, n) != DV_FIT_YES)
        return DV_FIT_NOMEM;
    *p = (dv_part){.n = n, .cap = cap, .plain = m->plain};
    if (!(p->first = DV_NEW(a, int32_t, n)) ||
        !(p->last = DV_NEW(a, int32_t, n)) ||
        !(p->life = DV_NEW(a, int64_t, n)) ||
        !(p->size = DV_NEW(a, int64_t, n)) ||
        !(p->align = DV_NEW(a, int64_t, n)) ||
        !(p->fixed = DV_NEW(a, int64_t, n)) ||
        !(p->at = DV_NEW(a, int64_t, n)) || !(p->rect = DV_NEW(a, int32_t, n)))
        return DV_FIT_NOMEM;
    for (int32_t i = 0; i < n; i++) {
        p->first[i] = (int32_t)(items[i].start - items[0].start);
        p->last[i] = (int32_t)(items[i].end - 1 - items[0].start);
        p->life[i] = items[i].life;
        p->size[i] = items[i].size;
        p->align[i] = items[i].align;
        p->fixed[i] = items[i].fixed;
        p->rect[i] = items[i].rect;
        if (p->last[i] >= p->n_secs)
            p->n_secs = p->last[i] + 1;
    }
    return DV_FIT_YES;
}

static dv_fit split(model *m, item *items, int32_t n, int64_t cap, int round);

// A group that hangs together, its sections from..to-1: what is alive in all
// of them goes to the top, and the rest is split again.
static dv_fit split_group(model *m, item *items, int32_t n, int64_t cap,
                          int round)
{
    int64_t from = items[0].start, to = from;
    int32_t n_left = 0;
    for (int32_t i = 0; i < n; i++)
        to = dv_max_i64(to, items[i].end);
    for (int32_t i = 0; i < n; i++) {
        if (m->plain && items[i].start == from && items[i].end == to) {
            cap -= items[i].size;
            m->rects[items[i].rect].address = cap * m->unit;
        } else {
            items[n_left++] = items[i];
        }
    }
    if (n_left == 0)
        return DV_FIT_YES;
    if (n_left < n && round < MAX_ROUNDS)
        return split(m, items, n_left, cap, round + 1);
    return add_part(m, items, n_left, cap);
}

static dv_fit split(model *m, item *items, int32_t n, int64_t cap, int round)
{
    dv_fit fit = sweep(items, n);
    if (fit != DV_FIT_YES)
        return fit;
    qsort(items, (size_t)n, sizeof *items, compare_items);
    for (int32_t i = 0, from = 0; i < n && fit == DV_FIT_YES; i = from) {
        int64_t end = items[i].end;
        for (from = i; from < n && items[from].start < end; from++)
            end = dv_max_i64(end, items[from].end);
        fit = split_group(m, items + i, from - i, cap, round);
    }
    return fit;
}

// The largest sum of live sizes. INT64_MAX when it does not fit an integer.
static dv_fit find_bound(model *m)
{
    int64_t *change = NULL, sum = 0, n_secs = 0;
    for (int32_t i = 0; i < m->n; i++)
        n_secs = dv_max_i64(n_secs, m->items[i].end);
    change = dv_alloc(((size_t)n_secs + 1) * 2 * sizeof *change);
    if (!change)
        return DV_FIT_NOMEM;
    memset(change, 0, ((size_t)n_secs + 1) * 2 * sizeof *change);
    m->bound = 0;
    // Ends and starts apart, so that neither sum wraps unseen.
    int fits = 1;
    for (int32_t i = 0; i < m->n && fits; i++) {
        const item *x = &m->items[i];
        fits =
            dv_add_i64(&change[2 * x->start], change[2 * x->start], x->size) &&
            dv_add_i64(&change[2 * x->end + 1], change[2 * x->end + 1],
                       x->size);
        if (x->fixed >= 0)
            m->bound = dv_max_i64(m->bound, x->fixed + x->size);
    }
    for (int64_t s = 0; s < n_secs && fits; s++) {
        fits = dv_add_i64(&sum, sum - change[2 * s + 1], change[2 * s]);
        m->bound = dv_max_i64(m->bound, sum);
    }
    if (!fits)
        m->bound = INT64_MAX;
    dv_release(change);
    return DV_FIT_YES;
}

// -- Ranks -------------------------------------------------------------------

typedef struct ranked {
    int64_t value[3];
    int32_t item;
} ranked;

static int compare_ranked(const void *pa, const void *pb)
{
    const ranked *a = pa, *b = pb;
    for (int k = 0; k < 3; k++)
        if (a->value[k] != b->value[k])
            return a->value[k] > b->value[k] ? -1 : 1;
    return a->item < b->item ? -1 : a->item > b->item;
}

static int64_t value_of(const dv_part *p, const int64_t *load, int32_t i,
                        dv_pack_key key)
{
    int64_t v = 0;
    switch (key) {
    case DV_KEY_LIFE:
        return p->life[i];
    case DV_KEY_AREA:
        return dv_mul_i64(&v, p->life[i], p->size[i]) ? v : INT64_MAX;
    case DV_KEY_SIZE:
        return p->size[i];
    default:
        for (int32_t s = p->first[i]; s <= p->last[i]; s++)
            v = dv_max_i64(v, load[s]);
        return v;
    }
}

dv_fit dv_pack_rank(const dv_part *p, const dv_pack_key keys[3], int32_t *rank)
{
    ranked *all = dv_alloc((size_t)p->n * sizeof *all);
    int64_t *load = dv_alloc((size_t)p->n_secs * sizeof *load);
    if (all && load) {
        memset(load, 0, (size_t)p->n_secs * sizeof *load);
        for (int32_t i = 0; i < p->n; i++)
            for (int32_t s = p->first[i]; s <= p->last[i]; s++)
                load[s] += p->size[i];
        for (int32_t i = 0; i < p->n; i++) {
            all[i].item = i;
            for (int k = 0; k < 3; k++)
                all[i].value[k] = value_of(p, load, i, keys[k]);
        }
        qsort(all, (size_t)p->n, sizeof *all, compare_ranked);
        for (int32_t k = 0; k < p->n; k++)
            rank[all[k].item] = k;
    }
    dv_fit fit = all && load ? DV_FIT_YES : DV_FIT_NOMEM;
    dv_release(all);
    dv_release(load);
    return fit;
}

// -- Searching a part --------------------------------------------------------

// 1 1 2 1 1 2 4 1 1 2 ...: budgets that are never far from the best one.
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

static dv_fit search_both(const dv_part *p, dv_valley *v, dv_order *o,
                          dv_pack_run *run)
{
    dv_fit fit = DV_FIT_OPEN;
    int64_t used_v = 0, used_o = 0;
    int32_t try_v = 0, try_o = 0;
    while (fit == DV_FIT_OPEN && !run->stopped) {
        int64_t before = run->nodes;
        if (v && (used_v <= 2 * used_o || !o)) {
            fit = dv_valley_try(v, try_v, luby(try_v) * UNIT, run);
            used_v += run->nodes - before;
            try_v++;
        } else {
            int64_t budget = (int64_t)2 * p->n << dv_min_i64(try_o / 3, 40);
            fit = dv_order_try(o, try_o, budget, run);
            used_o += run->nodes - before;
            try_o++;
        }
    }
    return fit;
}

static dv_fit search_part(const dv_part *p, dv_pack_run *run)
{
    if (p->n > MAX_SEARCH)
        return DV_FIT_OPEN;
    dv_valley *v = p->plain ? dv_valley_create(p) : NULL;
    dv_order *o = dv_order_create(p);
    dv_fit fit = DV_FIT_NOMEM;
    if (o && (v || !p->plain))
        fit = search_both(p, v, o, run);
    dv_valley_destroy(v);
    dv_order_destroy(o);
    return fit;
}

// -- The whole ---------------------------------------------------------------

static dv_pack_run start_run(const dv_pack_limits *limits)
{
    dv_pack_run run = {0};
    if (limits) {
        run.max_nodes = limits->max_nodes;
        run.stop = limits->stop;
        run.stop_cx = limits->stop_cx;
    }
    return run;
}

static dv_fit search_parts(model *m, dv_pack_run *run)
{
    dv_fit all = DV_FIT_YES;
    for (int32_t k = 0; k < m->n_parts; k++) {
        const dv_part *p = &m->parts[k];
        dv_fit fit = search_part(p, run);
        if (fit == DV_FIT_NO || fit == DV_FIT_NOMEM)
            return fit;
        if (fit == DV_FIT_OPEN)
            all = fit;
        for (int32_t i = 0; i < p->n && fit == DV_FIT_YES; i++)
            m->rects[p->rect[i]].address = p->at[i] * m->unit;
    }
    return all;
}

static dv_fit pack(model *m, dv_rect *rects, int32_t n, int64_t cap,
                   dv_pack_run *run)
{
    dv_fit fit = take_items(m, rects, n);
    if (fit != DV_FIT_YES)
        return fit;
    if (m->n == 0)
        return DV_FIT_YES;
    for (int32_t i = 0; i < m->n; i++)
        if (m->items[i].size > cap ||
            m->items[i].fixed > cap - m->items[i].size)
            fit = DV_FIT_NO;
    round_sizes(m, dv_max_i64(cap, 0));
    scale(m, dv_max_i64(cap, 0));
    if (sweep(m->items, m->n) != DV_FIT_YES || find_bound(m) != DV_FIT_YES)
        return DV_FIT_NOMEM;
    if (fit == DV_FIT_NO || m->bound > m->cap)
        return DV_FIT_NO;
    fit = split(m, m->items, m->n, m->cap, 0);
    return fit == DV_FIT_YES ? search_parts(m, run) : fit;
}

dv_fit dv_pack(dv_rect *rects, int32_t n, int64_t capacity,
               const dv_pack_limits *limits, dv_pack_stats *stats)
{
    model m = {0};
    dv_pack_run run = start_run(limits);
    dv_fit fit = pack(&m, rects, n, capacity, &run);
    if (stats) {
        *stats = (dv_pack_stats){.nodes = run.nodes, .restarts = run.restarts};
        if (!dv_mul_i64(&stats->bound, m.bound, m.unit))
            stats->bound = INT64_MAX;
    }
    dv_arena_free(&m.arena);
    return fit;
}

dv_fit dv_pack_least(dv_rect *rects, int32_t n, int64_t *capacity,
                     const dv_pack_limits *limits, dv_pack_stats *stats)
{
    return dv_pack(rects, n, *capacity, limits, stats);
}
