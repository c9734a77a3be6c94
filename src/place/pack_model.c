// Converts rectangles to parts, sub-problems of the packing that can be solved
// independently.
//
//   rectangles --scale--> units --sweep--> sections --split--> parts
//
// - Sizes are divided by their common divisor; an alignment that divides the
//   unit is no constraint.
// - Items of different parts never overlap in time. In a part, a rectangle
//   that is live all the time is placed at the bottom, which may split the
//   remaining items further.
// - A part's items are sorted, and time is reversed if the reversed part sorts
//   first, so that the result depends neither on the order of the rectangles
//   nor on the direction of time.
#include "place/pack_state.h"
#include "base/math.h"
#include <stdlib.h>
#include <string.h>

// Limit of the recursion depth of splitting sets of items into independent
// ones.
enum { MAX_ROUNDS = 32 };

typedef struct dv_pack_item {
    // Lifetime in ticks; the first sweep over time replaces it by numbers of
    // time sections (ticks where a maximal set of items is live).
    int64_t start, end;
    int64_t life;
    // In bytes; after scale(), in multiples of the model's unit, the common
    // divisor of all sizes.
    int64_t size, align, fixed;
    int32_t rect;
} item;

// Returns the unit in which memory is measured from here on: the largest number
// of bytes that divides all sizes and fixed addresses and that divides, or is
// divided by, every alignment.
static int64_t find_unit(const dv_model *m)
{
    int64_t unit = 0;
    for (int32_t i = 0; i < m->n; i++) {
        unit = dv_gcd(unit, m->items[i].size);
        if (m->items[i].fixed > 0)
            unit = dv_gcd(unit, m->items[i].fixed);
    }
    for (int again = 1; again;) {
        again = 0;
        for (int32_t i = 0; i < m->n; i++) {
            int64_t align = m->items[i].align;
            if (unit % align && align % unit) {
                unit = dv_gcd(unit, align);
                again = 1;
            }
        }
    }
    return unit;
}

// If no rectangle has a fixed address, all have the same alignment, and the
// capacity is a multiple of it, rounds sizes up to the alignment, which is then
// no constraint any more.
static void round_sizes(dv_model *m, int64_t cap)
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

static void scale(dv_model *m)
{
    m->unit = m->n ? find_unit(m) : 1;
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

// Stores the rectangles with a nonzero size and lifetime in m->items; the
// others take no room and get their fixed address or 0. DV_FIT_NO: the end of a
// rectangle with a fixed address overflows.
static dv_fit take_items(dv_model *m, dv_rect *rects, int32_t n)
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
        if (r->fixed > INT64_MAX - r->size)
            return DV_FIT_NO;
        // Saturate a lifetime that overflows int64_t.
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

typedef struct event {
    int64_t time;
    int32_t item;
    int32_t starts; // 1 for a start, 0 for an end; ends sort before starts
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

static event *sort_events(const item *items, int32_t n)
{
    event *events = dv_alloc(2 * (size_t)n * sizeof *events);
    if (!events)
        return NULL;
    for (int32_t i = 0; i < n; i++) {
        events[2 * i] = (event){items[i].start, i, 1};
        events[2 * i + 1] = (event){items[i].end, i, 0};
    }
    qsort(events, 2 * (size_t)n, sizeof *events, compare_events);
    return events;
}

// Replaces the times of all items by time section numbers (a section is a
// moment at which a maximal set of items is live). A new section begins with a
// start that follows an end. *load is the largest sum of live sizes. DV_FIT_NO:
// that sum overflows.
static dv_fit sweep(item *items, int32_t n, int64_t *load)
{
    event *events = sort_events(items, n);
    if (!events)
        return DV_FIT_NOMEM;
    int64_t section = -1, sum = 0;
    int starting = 0, fits = 1;
    *load = 0;
    for (int64_t k = 0; k < 2 * (int64_t)n && fits; k++) {
        item *x = &items[events[k].item];
        if (events[k].starts && !starting)
            section++;
        starting = events[k].starts;
        if (starting) {
            x->start = section;
            fits = dv_add_i64(&sum, sum, x->size);
            *load = dv_max_i64(*load, sum);
        } else {
            x->end = section + 1;
            sum -= x->size;
        }
    }
    dv_release(events);
    return fits ? DV_FIT_YES : DV_FIT_NO;
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

// Reverses time if the reversed items come first in a fixed order, so that a
// problem and its mirror image give the same result.
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

static dv_fit add_part(dv_model *m, item *items, int32_t n, int64_t base,
                       int64_t load)
{
    dv_arena *a = &m->arena;
    dv_part *p = DV_PUSH(a, dv_part, m->parts, m->n_parts, m->max_parts);
    if (!p || choose_direction(items, n) != DV_FIT_YES)
        return DV_FIT_NOMEM;
    *p = (dv_part){.n = n, .base = base, .load = load, .plain = m->plain};
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

static dv_fit split(dv_model *m, item *items, int32_t n, int64_t base,
                    int round);

// Places the items that are live during the whole lifetime of all n items at
// the bottom, if there are no alignments or fixed items; raises *base to their
// top, and returns the number of items left.
static int32_t sink(dv_model *m, item *items, int32_t n, int64_t *base)
{
    int64_t from = items[0].start, to = from;
    int32_t n_left = 0;
    for (int32_t i = 0; i < n; i++)
        to = dv_max_i64(to, items[i].end);
    for (int32_t i = 0; i < n; i++) {
        if (m->plain && items[i].start == from && items[i].end == to) {
            m->rects[items[i].rect].address = *base * m->unit;
            *base += items[i].size;
        } else {
            items[n_left++] = items[i];
        }
    }
    return n_left;
}

// Adds a set of items that are connected by overlapping lifetimes to the model
// as a part (an independent sub-problem), or splits it further if it falls
// apart without the items that are live all the time.
static dv_fit split_group(dv_model *m, item *items, int32_t n, int64_t base,
                          int round)
{
    int64_t load;
    int32_t n_left = sink(m, items, n, &base);
    if (n_left == 0)
        return DV_FIT_YES;
    if (n_left < n && round < MAX_ROUNDS)
        return split(m, items, n_left, base, round + 1);
    dv_fit fit = sweep(items, n_left, &load);
    return fit == DV_FIT_YES ? add_part(m, items, n_left, base, load) : fit;
}

static dv_fit split(dv_model *m, item *items, int32_t n, int64_t base,
                    int round)
{
    int64_t load;
    dv_fit fit = sweep(items, n, &load);
    qsort(items, (size_t)n, sizeof *items, compare_items);
    for (int32_t i = 0, next; i < n && fit == DV_FIT_YES; i = next) {
        int64_t end = items[i].end;
        for (next = i; next < n && items[next].start < end; next++)
            end = dv_max_i64(end, items[next].end);
        fit = split_group(m, items + i, next - i, base, round);
    }
    return fit;
}

dv_fit dv_model_init(dv_model *m, dv_rect *rects, int32_t n, int64_t cap)
{
    *m = (dv_model){.unit = 1};
    dv_fit fit = take_items(m, rects, n);
    if (fit != DV_FIT_YES || m->n == 0)
        return fit;
    round_sizes(m, cap);
    scale(m);
    fit = sweep(m->items, m->n, &m->bound);
    for (int32_t i = 0; i < m->n && fit == DV_FIT_YES; i++)
        if (m->items[i].fixed >= 0)
            m->bound =
                dv_max_i64(m->bound, m->items[i].fixed + m->items[i].size);
    if (fit != DV_FIT_YES)
        return fit;
    return split(m, m->items, m->n, 0, 0);
}

void dv_model_free(dv_model *m)
{
    dv_arena_free(&m->arena);
}

void dv_model_store_addresses(const dv_model *m, const dv_part *p,
                              const int64_t *at)
{
    for (int32_t i = 0; i < p->n; i++)
        m->rects[p->rect[i]].address = (p->base + at[i]) * m->unit;
}

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
    case DV_KEY_EARLY:
        return -p->first[i];
    case DV_KEY_FIXED:
        return p->fixed[i] >= 0 ? INT64_MAX - p->fixed[i] : -1;
    default:
        for (int32_t s = p->first[i]; s <= p->last[i]; s++)
            v = dv_max_i64(v, load[s]);
        return v;
    }
}

static void add_loads(const dv_part *p, int64_t *load)
{
    memset(load, 0, (size_t)p->n_secs * sizeof *load);
    for (int32_t i = 0; i < p->n; i++)
        for (int32_t s = p->first[i]; s <= p->last[i]; s++)
            load[s] += p->size[i];
}

dv_fit dv_pack_rank(const dv_part *p, const dv_pack_key keys[3], int32_t *rank)
{
    ranked *all = dv_alloc((size_t)p->n * sizeof *all);
    int64_t *load = dv_alloc((size_t)p->n_secs * sizeof *load);
    dv_fit fit = all && load ? DV_FIT_YES : DV_FIT_NOMEM;
    if (fit == DV_FIT_YES) {
        if (keys[0] == DV_KEY_TOTAL || keys[1] == DV_KEY_TOTAL ||
            keys[2] == DV_KEY_TOTAL)
            add_loads(p, load);
        for (int32_t i = 0; i < p->n; i++) {
            all[i].item = i;
            for (int k = 0; k < 3; k++)
                all[i].value[k] = value_of(p, load, i, keys[k]);
        }
        qsort(all, (size_t)p->n, sizeof *all, compare_ranked);
        for (int32_t k = 0; k < p->n; k++)
            rank[all[k].item] = k;
    }
    dv_release(all);
    dv_release(load);
    return fit;
}
