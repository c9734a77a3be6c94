// Three list heuristics, which choose the same addresses as Torch-Spyre.
//
//   greedy    sweeps over time: buffers that end are freed; buffers that
//             start are placed, in input order, at their parent's address,
//             at 0, on top of all live buffers, or in the first gap.
//   firstfit  take short-lived and often used buffers first, parents before
//   bestfit   children, and choose the first or the tightest gap among all
//             placed buffers that overlap in time.
//
// The run time is n log n, plus for every buffer the number of placed buffers
// that overlap it in time.
#include "place/place.h"
#include <stdlib.h>

typedef struct span {
    int64_t lo, hi;
} span;

// The working state of one heuristic; all arrays come from one arena.
typedef struct attempt {
    const dv_task *task;
    dv_list_rule rule;
    dv_live live;
    int64_t *at;
    int32_t *order; // order in which items are placed
    int32_t *by_end;
    // Placed items (buffers) that are live together with the item that is being
    // placed.
    int32_t *overlapping;
    // Address ranges that the item being placed must avoid, sorted by address.
    span *spans;
    // For each group (items that are placed all or not at all): 1 if it is
    // excluded, because not all of its items could be placed.
    char *out;
    // For each item, 1 if another item has already taken over its address
    // (in-place reuse, which only one may do).
    char *handed;
} attempt;

static int by_lo(const void *a, const void *b)
{
    const span *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static void sort_spans(span *s, int32_t n)
{
    // Length of the prefix that is in order. The spans (address ranges) are
    // often sorted already.
    int32_t sorted = 1;
    while (sorted < n && s[sorted - 1].lo <= s[sorted].lo)
        sorted++;
    if (n - sorted > 40) {
        qsort(s, (size_t)n, sizeof *s, by_lo);
        return;
    }
    for (int32_t i = sorted; i < n; i++) {
        span v = s[i];
        int32_t k = i;
        for (; k > 0 && s[k - 1].lo > v.lo; k--)
            s[k] = s[k - 1];
        s[k] = v;
    }
}

static int is_parent_of(const dv_task *t, int32_t p, const dv_item *it)
{
    for (int32_t k = 0; k < it->n_parents; k++)
        if (t->links[it->parents + k] == p)
            return 1;
    return 0;
}

static int64_t waste(const attempt *r, int64_t lo, int64_t hi,
                     const dv_item *it)
{
    if (r->rule == DV_FIRST_FIT)
        return 0;
    return hi - dv_round_up(lo, it->align) - it->size;
}

// Returns the address of the item's first declared parent (whose bytes it may
// reuse in place) that lies completely in [lo, hi), or -1 if there is none.
static int64_t parent_in(const attempt *r, const dv_item *it, int64_t lo,
                         int64_t hi)
{
    for (int32_t k = 0; k < it->n_parents; k++) {
        int32_t p = r->task->links[it->parents + k];
        int64_t at = r->at[p];
        if (at >= lo && at + r->task->items[p].size <= hi &&
            at % it->align == 0)
            return at;
    }
    return -1;
}

// Chooses a gap between the sorted spans (occupied address ranges) and returns
// an address for the item in it, or -1. With `in_place`, only gaps that contain
// a parent count, and the parent's address is returned.
static int64_t choose_gap(const attempt *r, const dv_item *it, const span *s,
                          int32_t n, int in_place)
{
    int64_t lo = 0, best = INT64_MAX, address = -1;
    for (int32_t k = 0; k <= n; k++) {
        int64_t hi = k < n ? s[k].lo : r->task->capacity;
        if (hi - lo >= it->size) {
            int64_t w = waste(r, lo, hi, it);
            int64_t base = in_place ? parent_in(r, it, lo, hi)
                                    : dv_round_up(lo, it->align);
            if (base >= 0 && base + it->size <= hi && w < best) {
                best = w;
                address = base;
            }
        }
        if (k < n && s[k].hi > lo)
            lo = s[k].hi;
    }
    return address;
}

static int64_t fit(attempt *r, int32_t i)
{
    const dv_task *t = r->task;
    const dv_item *it = &t->items[i];
    int32_t n = dv_live_find(&r->live, it->start, it->end, r->overlapping),
            m = 0;
    if (it->n_parents) {
        for (int32_t k = 0; k < n; k++)
            if (!is_parent_of(t, r->overlapping[k], it))
                r->spans[m++] = (span){r->at[r->overlapping[k]],
                                       r->at[r->overlapping[k]] +
                                           t->items[r->overlapping[k]].size};
        sort_spans(r->spans, m);
        int64_t at = choose_gap(r, it, r->spans, m, 1);
        if (at >= 0)
            return at;
    }
    for (int32_t k = 0; k < n; k++)
        r->spans[k] =
            (span){r->at[r->overlapping[k]],
                   r->at[r->overlapping[k]] + t->items[r->overlapping[k]].size};
    sort_spans(r->spans, n);
    return choose_gap(r, it, r->spans, n, 0);
}

static void run_fit(attempt *r)
{
    const dv_task *t = r->task;
    for (int32_t k = 0; k < t->n_fixed; k++)
        dv_live_add(&r->live, t->fixed[k]);
    for (int32_t k = 0; k < t->n; k++) {
        int32_t i = r->order[k];
        if (!t->items[i].in_play ||
            (t->items[i].group >= 0 && r->out[t->items[i].group]))
            continue;
        r->at[i] = fit(r, i);
        if (r->at[i] >= 0)
            dv_live_add(&r->live, i);
    }
    for (int32_t i = 0; i < t->n; i++)
        if (r->at[i] >= 0)
            dv_live_remove(&r->live, i);
}

typedef struct keyed {
    double key;
    int64_t span;
    int32_t item;
} keyed;

static int by_key(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->span != y->span)
        return x->span < y->span ? -1 : 1;
    return x->item - y->item;
}

static void sift(int32_t *heap, int32_t n, int32_t k)
{
    for (;;) {
        int32_t c = 2 * k + 1;
        if (c >= n)
            return;
        c += c + 1 < n && heap[c + 1] < heap[c];
        if (heap[k] <= heap[c])
            return;
        int32_t v = heap[k];
        heap[k] = heap[c];
        heap[c] = v;
        k = c;
    }
}

// Converts items sorted by key to an order in which parents precede children
// (which may take over their address), always taking the item with the smallest
// key whose parents all come before it. `rank`, `waits` and `heap` are scratch
// arrays of t->n elements.
static void parents_first(const dv_task *t, const keyed *sorted, int32_t *rank,
                          int32_t *waits, int32_t *heap, int32_t *order)
{
    int32_t n = 0, m = 0;
    for (int32_t k = 0; k < t->n; k++)
        rank[sorted[k].item] = k;
    for (int32_t k = 0; k < t->n; k++)
        if ((waits[k] = t->items[sorted[k].item].n_parents) == 0)
            // Ranks are pushed in ascending order, so the array is a heap
            // already.
            heap[n++] = k;
    while (n) {
        int32_t i = sorted[heap[0]].item;
        order[m++] = i;
        heap[0] = heap[--n];
        sift(heap, n, 0);
        for (int32_t c = 0; c < t->items[i].n_children; c++) {
            int32_t k = rank[t->links[t->items[i].children + c]];
            if (--waits[k])
                continue;
            int32_t at = n++;
            for (; at > 0 && heap[(at - 1) / 2] > k; at = (at - 1) / 2)
                heap[at] = heap[(at - 1) / 2];
            heap[at] = k;
        }
    }
}

static int order_fit(attempt *r, dv_arena *a)
{
    const dv_task *t = r->task;
    keyed *sorted = DV_NEW(a, keyed, t->n);
    int32_t *rank = DV_NEW(a, int32_t, t->n);
    int32_t *waits = DV_NEW(a, int32_t, t->n);
    int32_t *heap = DV_NEW(a, int32_t, t->n);
    if (!sorted || !rank || !waits || !heap)
        return 0;
    for (int32_t i = 0; i < t->n; i++) {
        const dv_item *it = &t->items[i];
        double length = (double)(it->end - it->start);
        length -= (it->n_parents ? 0.25 : 0) + (it->n_children ? 0.25 : 0);
        sorted[i] = (keyed){length / (0.5 * (double)it->doubled_uses),
                            it->end - it->start, i};
    }
    qsort(sorted, (size_t)t->n, sizeof *sorted, by_key);
    parents_first(t, sorted, rank, waits, heap, r->order);
    return 1;
}

static int order_greedy(attempt *r, dv_arena *a)
{
    const dv_task *t = r->task;
    dv_keyed *w = DV_NEW(a, dv_keyed, t->n);
    if (!w)
        return 0;
    for (int32_t i = 0; i < t->n; i++)
        w[i] = (dv_keyed){t->items[i].start, i};
    qsort(w, (size_t)t->n, sizeof *w, dv_by_key);
    for (int32_t i = 0; i < t->n; i++)
        r->order[i] = w[i].item;
    for (int32_t i = 0; i < t->n; i++)
        w[i] = (dv_keyed){t->items[i].end, i};
    qsort(w, (size_t)t->n, sizeof *w, dv_by_key);
    for (int32_t i = 0; i < t->n; i++)
        r->by_end[i] = w[i].item;
    return 1;
}

// Returns whether the item, placed at `address`, would overlap no item with a
// fixed address other than item `but`.
static int clear_of_fixed(const attempt *r, const dv_item *it, int64_t address,
                          int32_t but)
{
    const dv_task *t = r->task;
    for (int32_t k = 0; k < t->n_fixed; k++) {
        const dv_item *f = &t->items[t->fixed[k]];
        if (t->fixed[k] != but && f->start < it->end && it->start < f->end &&
            f->fixed < address + it->size && address < f->fixed + f->size)
            return 0;
    }
    return 1;
}

static int64_t take_over(attempt *r, const dv_item *it)
{
    const dv_task *t = r->task;
    for (int32_t k = 0; k < it->n_parents; k++) {
        int32_t p = t->links[it->parents + k];
        int64_t at = r->at[p];
        if (at < 0 || r->handed[p] || at % it->align ||
            !clear_of_fixed(r, it, at, p))
            continue;
        r->handed[p] = 1;
        return at;
    }
    return -1;
}

// Stores in r->spans the address ranges that the item may not use: those of all
// live items and of all fixed items that overlap it in time, sorted by address.
// Returns their number.
static int32_t occupied(attempt *r, const dv_item *it, int32_t n_live)
{
    const dv_task *t = r->task;
    int32_t n = 0;
    for (int32_t k = 0; k < n_live; k++) {
        int64_t at = r->at[r->overlapping[k]];
        r->spans[n++] = (span){at, at + t->items[r->overlapping[k]].size};
    }
    for (int32_t k = 0; k < t->n_fixed; k++) {
        const dv_item *f = &t->items[t->fixed[k]];
        if (f->start < it->end && it->start < f->end)
            r->spans[n++] = (span){f->fixed, f->fixed + f->size};
    }
    if (t->n_fixed)
        sort_spans(r->spans, n);
    return n;
}

static int64_t greedy_place(attempt *r, const dv_item *it, int32_t n_live)
{
    int64_t at = take_over(r, it);
    if (at >= 0)
        return at;
    int32_t n = occupied(r, it, n_live);
    const span *s = r->spans;
    if (n == 0 || s[0].lo >= it->size)
        return 0;
    int64_t top = 0;
    for (int32_t k = 0; k < n; k++)
        top = s[k].hi > top ? s[k].hi : top;
    top = dv_round_up(top, it->align);
    if (top + it->size <= r->task->capacity)
        return top;
    int64_t lo = s[0].hi;
    for (int32_t k = 1; k < n; k++) {
        if (dv_round_up(lo, it->align) + it->size <= s[k].lo)
            return dv_round_up(lo, it->align);
        lo = s[k].hi > lo ? s[k].hi : lo;
    }
    return -1;
}

// Inserts item i into r->overlapping, the placed items that are live at
// present, sorted by address.
static void enter(attempt *r, int32_t *n_live, int32_t i)
{
    int32_t k = (*n_live)++;
    for (; k > 0 && r->at[r->overlapping[k - 1]] > r->at[i]; k--)
        r->overlapping[k] = r->overlapping[k - 1];
    r->overlapping[k] = i;
}

// Removes the items that end by `tick` from r->overlapping, the placed items
// that are live. *next is the position in r->by_end, the items sorted by end.
static void leave(attempt *r, int32_t *n_live, int32_t *next, int64_t tick)
{
    const dv_item *items = r->task->items;
    int any = 0;
    for (; *next < r->task->n && items[r->by_end[*next]].end <= tick; ++*next)
        any |= r->at[r->by_end[*next]] >= 0;
    if (!any)
        return;
    int32_t m = 0;
    for (int32_t k = 0; k < *n_live; k++)
        if (items[r->overlapping[k]].end > tick)
            r->overlapping[m++] = r->overlapping[k];
    *n_live = m;
}

static void run_greedy(attempt *r)
{
    const dv_task *t = r->task;
    int32_t n_live = 0, next = 0;
    for (int32_t i = 0; i < t->n; i++)
        r->handed[i] = 0;
    for (int32_t k = 0; k < t->n; k++) {
        int32_t i = r->order[k];
        const dv_item *it = &t->items[i];
        leave(r, &n_live, &next, it->start);
        if (!it->in_play || (it->group >= 0 && r->out[it->group]))
            continue;
        r->at[i] = greedy_place(r, it, n_live);
        if (r->at[i] >= 0)
            enter(r, &n_live, i);
    }
}

static void clear(attempt *r)
{
    for (int32_t i = 0; i < r->task->n; i++)
        r->at[i] = r->task->items[i].fixed;
}

// Excludes from placement the first group of which some item was not placed (a
// group is placed as a whole or not at all), or all such groups if `all` is
// set. Returns whether there was one.
static int exclude_partial_group(attempt *r, int all)
{
    const dv_task *t = r->task;
    int found = 0;
    for (int32_t g = 0; g < t->n_groups && (all || !found); g++) {
        if (r->out[g] || !t->items[t->members[t->group_at[g]]].in_play)
            continue;
        for (int32_t k = t->group_at[g]; k < t->group_at[g + 1]; k++)
            if (r->at[t->members[k]] < 0)
                found = r->out[g] = 1;
    }
    return found;
}

static int prepare(attempt *r, dv_arena *a)
{
    int32_t n = r->task->n;
    r->order = DV_NEW(a, int32_t, n);
    r->by_end = DV_NEW(a, int32_t, n);
    r->overlapping = DV_NEW(a, int32_t, n);
    r->spans = DV_NEW(a, span, (size_t)n + (size_t)r->task->n_fixed);
    r->out = DV_NEW(a, char, r->task->n_groups);
    r->handed = DV_NEW(a, char, n);
    if (!r->order || !r->by_end || !r->overlapping || !r->spans || !r->out ||
        !r->handed)
        return 0;
    if (r->rule == DV_GREEDY)
        return order_greedy(r, a);
    return dv_live_init(&r->live, r->task, a) && order_fit(r, a);
}

int dv_list_heuristic(const dv_task *task, dv_list_rule rule, dv_answer *out)
{
    // Groups (items that are placed all or not at all) that were only partly
    // placed are excluded, and the items are placed anew: one group per pass,
    // and after this many passes all at once.
    enum { ONE_BY_ONE = 30 };
    dv_arena arena = {0};
    attempt r = {.task = task, .rule = rule, .at = out->at};
    int ok = task->n == 0 || prepare(&r, &arena);
    for (int pass = 0; ok && task->n; pass++) {
        clear(&r);
        if (rule == DV_GREEDY)
            run_greedy(&r);
        else
            run_fit(&r);
        if (!exclude_partial_group(&r, pass > ONE_BY_ONE))
            break;
    }
    dv_arena_free(&arena);
    out->value = ok ? dv_placed_weight(task, out->at) : 0;
    return ok;
}
