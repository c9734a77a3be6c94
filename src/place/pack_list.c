// Simple layouts, which place items (rectangles of lifetime and size) one by
// one without backtracking.
//
//          .....####   fit: item x goes to the lowest gap among the items that
//          ..x......        overlap it; each item examines all placed items
//          #########   stack: x goes on top of the highest item that overlaps
//                           it; O(log n) per item
//                      fill: places items at the lowest free address first
//
// The orders tried are: largest first, longest lifetime first, earliest first,
// most loaded sections first. The lowest layout is kept. Fixed items come
// first, by rising address.
#include "place/pack_state.h"
#include "base/math.h"
#include <string.h>

enum {
    // With more items than this, only the first two of the simple layouts are
    // tried.
    MANY = 20000,
    // With more items than this, orders by DV_KEY_TOTAL (the load of an item's
    // time sections) are skipped.
    SOME = 10000,
    // Limit of the steps of one layout that puts each item into the lowest gap.
    MAX_WORK = 50000000,
    // What a layout function returns if items with fixed addresses overlap.
    CLASH = -2
};

typedef struct list {
    dv_arena arena;
    const dv_part *p;
    int32_t *rank, *order;
    int64_t *at;
    int32_t *next, head; // linked list of the placed items by rising address
    // 1 if items are placed in order of their first time section (a tick where
    // a maximal set of items is live).
    int early;
    int64_t work; // steps that a layout by gaps may still take
    // Segment tree over time sections: the highest skyline floor (top of the
    // placed items) in the sections of each node.
    int64_t *high;
    // Segment tree over time sections: the skyline floor (top of the placed
    // items) to which all sections of a node were raised together.
    int64_t *whole;
} list;

// Returns the lowest aligned address >= `at` for item i, or -1 if its end would
// overflow.
static int64_t aligned(const dv_part *p, int32_t i, int64_t at)
{
    int64_t over = at % p->align[i];
    if (over && !dv_add_i64(&at, at, p->align[i] - over))
        return -1;
    return at > INT64_MAX - p->size[i] ? -1 : at;
}

static int64_t top_of(const list *l, int32_t i)
{
    return l->at[i] + l->p->size[i];
}

// Returns whether item j ends before item i and all items placed after it
// start. Item j can then be removed from the list of placed items, since it
// overlaps none of them in time.
static int is_past(const list *l, int32_t j, int32_t i)
{
    return l->early && l->p->last[j] < l->p->first[i];
}

// Places item i at the lowest free address, or at its fixed address. Returns 0
// if that is occupied, if the item's end address overflows, or if the step
// limit is reached.
static int put_lowest(list *l, int32_t i)
{
    const dv_part *p = l->p;
    int64_t at = p->fixed[i] >= 0 ? p->fixed[i] : 0;
    int32_t low = -1; // last placed item that begins at or below `at`
    for (int32_t j = l->head, before = -1, next; j >= 0; j = next) {
        next = l->next[j];
        if (l->work-- <= 0)
            return 0;
        if (is_past(l, j, i)) {
            *(before < 0 ? &l->head : &l->next[before]) = next;
            continue;
        }
        before = j;
        if (p->first[j] <= p->last[i] && p->last[j] >= p->first[i] &&
            top_of(l, j) > at) {
            if (l->at[j] >= at && l->at[j] - at >= p->size[i])
                break;
            if (p->fixed[i] >= 0)
                return 0;
            at = aligned(p, i, top_of(l, j));
            if (at < 0)
                return 0;
        }
        if (l->at[j] <= at)
            low = j;
    }
    int32_t *link = low < 0 ? &l->head : &l->next[low];
    l->at[i] = at;
    l->next[i] = *link;
    *link = i;
    return 1;
}

// Places all items in order at their lowest free address. Returns the layout's
// height, or -1 if it failed.
static int64_t fit(list *l)
{
    int64_t top = 0;
    l->head = -1;
    l->work = MAX_WORK;
    for (int32_t k = 0; k < l->p->n; k++) {
        if (!put_lowest(l, l->order[k]))
            return -1;
        top = dv_max_i64(top, top_of(l, l->order[k]));
    }
    return top;
}

// Returns the highest skyline floor (top of the placed items) in time sections
// a..z. `node` is a segment tree node that covers sections lo..hi.
static int64_t highest(const list *l, int64_t node, int32_t lo, int32_t hi,
                       int32_t a, int32_t z)
{
    if (a <= lo && hi <= z)
        return l->high[node];
    int32_t mid = lo + (hi - lo) / 2;
    int64_t h = l->whole[node];
    if (a <= mid)
        h = dv_max_i64(h, highest(l, 2 * node, lo, mid, a, z));
    if (z > mid)
        h = dv_max_i64(h, highest(l, 2 * node + 1, mid + 1, hi, a, z));
    return h;
}

static void lift(list *l, int64_t node, int32_t lo, int32_t hi, int32_t a,
                 int32_t z, int64_t to)
{
    l->high[node] = dv_max_i64(l->high[node], to);
    if (a <= lo && hi <= z) {
        l->whole[node] = to;
        return;
    }
    int32_t mid = lo + (hi - lo) / 2;
    if (a <= mid)
        lift(l, 2 * node, lo, mid, a, z, to);
    if (z > mid)
        lift(l, 2 * node + 1, mid + 1, hi, a, z, to);
}

// Puts every item, in order, on top of the highest placed item that overlaps it
// in time, and returns the layout's height. Fixed items come first by rising
// address, so any item already above a fixed address is fixed too and the two
// overlap.
static int64_t stack(list *l)
{
    const dv_part *p = l->p;
    int32_t end = p->n_secs - 1;
    int64_t top = 0;
    memset(l->high, 0, 4 * (size_t)p->n_secs * sizeof *l->high);
    memset(l->whole, 0, 4 * (size_t)p->n_secs * sizeof *l->whole);
    for (int32_t k = 0; k < p->n; k++) {
        int32_t i = l->order[k], a = p->first[i], z = p->last[i];
        int64_t at = highest(l, 1, 0, end, a, z);
        if (p->fixed[i] >= 0 && at > p->fixed[i])
            return CLASH;
        at = p->fixed[i] >= 0 ? p->fixed[i] : aligned(p, i, at);
        if (at < 0)
            return -1;
        l->at[i] = at;
        lift(l, 1, 0, end, a, z, top_of(l, i));
        top = dv_max_i64(top, top_of(l, i));
    }
    return top;
}

// The state of `fill`, which lays out a part (an independent sub-problem)
// without alignments and fixed items from low to high in O(log n) per item.
//
//   ##       ###     The lowest run of the skyline gets the leftmost item
//   ##[==]   ###     that fits it; of those with equal start, the longest.
//   ############     If none fits, the run is raised to its lower wall.
//
// Unlike stack it fills holes, and unlike the exact searches it never
// backtracks.

typedef struct heap_node {
    int64_t floor;
    int32_t from;
} heap_node;

typedef struct fill {
    dv_arena arena;
    const dv_part *p;
    int64_t *at;
    // floor[s] is the top of the placed items in time section s, the skyline. A
    // run is a maximal range of sections with equal floor, identified by its
    // first section.
    int64_t *floor;
    // last[s] is the last time section of the run (sections with equal floor)
    // that starts at s, or -1 if none does.
    int32_t *last;
    // start[s] is the first time section of the run (sections with equal floor)
    // that ends at s.
    int32_t *start;
    // Heap of the runs (time sections with equal skyline floor), lowest floor
    // first; it may contain entries of runs that no longer exist.
    heap_node *heap;
    int32_t n_heap, max_heap;
    // The items that start in time section s (a tick where a maximal set of
    // items is live) are begin[s]..begin[s + 1], longest first.
    int32_t *begin;
    // Union-find over unplaced items: next[i] leads to the first one at or
    // after i; n if there is none.
    int32_t *next;
    // tail[s] is one past the last unplaced item that starts in time section s,
    // which is the shortest of them.
    int32_t *tail;
    // Min-tree over time sections: the last section of the shortest unplaced
    // item that starts in a section.
    int32_t *ends;
    int32_t leaves;
} fill;

static int32_t next_open(fill *f, int32_t i)
{
    while (f->next[i] != i)
        i = f->next[i] = f->next[f->next[i]];
    return i;
}

// Updates the tree f->ends (where the shortest unplaced item that starts in
// each time section ends) after the items that start in time section s have
// changed.
static void update_ends(fill *f, int32_t s)
{
    int32_t end = INT32_MAX, k = f->leaves + s;
    while (f->tail[s] > f->begin[s] &&
           f->next[f->tail[s] - 1] != f->tail[s] - 1)
        f->tail[s]--;
    if (f->tail[s] > f->begin[s])
        end = f->p->last[f->tail[s] - 1];
    for (f->ends[k] = end; k > 1; k /= 2)
        f->ends[k / 2] =
            f->ends[k] < f->ends[k ^ 1] ? f->ends[k] : f->ends[k ^ 1];
}

// Returns the first time section (a tick where a maximal set of items is live)
// in from..to in which an unplaced item starts that ends by `to`, or -1 if
// there is none.
static int32_t first_start(const fill *f, int32_t from, int32_t to)
{
    int32_t k = f->leaves + from;
    // While no item in subtree k ends by `to`, move to the next subtree on the
    // right.
    while (f->ends[k] > to) {
        while (k & 1)
            k /= 2;
        if (k == 0)
            return -1;
        k++;
    }
    while (k < f->leaves)
        k = f->ends[2 * k] <= to ? 2 * k : 2 * k + 1;
    return k - f->leaves <= to ? k - f->leaves : -1;
}

// Returns the longest unplaced item that starts in time section s (a tick where
// a maximal set of items is live) and ends by `to`. The caller has checked that
// there is one.
static int32_t longest(fill *f, int32_t s, int32_t to)
{
    int32_t lo = f->begin[s], hi = f->begin[s + 1];
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (f->p->last[mid] > to)
            lo = mid + 1;
        else
            hi = mid;
    }
    return next_open(f, lo);
}

static int below(const heap_node *a, const heap_node *b)
{
    return a->floor < b->floor || (a->floor == b->floor && a->from < b->from);
}

static void push_run(fill *f, heap_node x)
{
    int32_t k = f->n_heap++;
    for (; k && below(&x, &f->heap[(k - 1) / 2]); k = (k - 1) / 2)
        f->heap[k] = f->heap[(k - 1) / 2];
    f->heap[k] = x;
}

static heap_node pop_run(fill *f)
{
    heap_node top = f->heap[0], x = f->heap[--f->n_heap];
    int32_t k = 0;
    for (int32_t c; (c = 2 * k + 1) < f->n_heap; k = c) {
        if (c + 1 < f->n_heap && below(&f->heap[c + 1], &f->heap[c]))
            c++;
        if (!below(&f->heap[c], &x))
            break;
        f->heap[k] = f->heap[c];
    }
    f->heap[k] = x;
    return top;
}

// Adds a run to the skyline, the tops of the placed items: time sections a..z
// with the same floor. Merges it with neighbouring runs of the same floor.
// Returns 0 when out of memory.
static int add_run(fill *f, int32_t a, int32_t z, int64_t floor)
{
    if (a > 0 && f->floor[f->start[a - 1]] == floor) {
        int32_t left = f->start[a - 1];
        f->last[a] = -1;
        a = left;
    }
    if (z + 1 < f->p->n_secs && f->last[z + 1] >= 0 &&
        f->floor[z + 1] == floor) {
        int32_t right = z + 1;
        z = f->last[right];
        f->last[right] = -1;
    }
    f->floor[a] = floor;
    f->last[a] = z;
    f->start[z] = a;
    heap_node *room =
        DV_PUSH(&f->arena, heap_node, f->heap, f->n_heap, f->max_heap);
    if (!room)
        return 0;
    f->n_heap--;
    push_run(f, (heap_node){floor, a});
    return 1;
}

// Splits a run of the skyline (time sections with the same floor) that starts
// at `from`, so that a..z is a run of its own. Returns 0 when out of memory.
static int cut_run(fill *f, int32_t from, int32_t a, int32_t z)
{
    int32_t to = f->last[from];
    int64_t floor = f->floor[from];
    f->last[from] = -1;
    // Set a floor that no neighbour has, so that the run is not merged with its
    // neighbours.
    f->floor[a] = -1;
    f->last[a] = z;
    f->start[z] = a;
    if (a > from && !add_run(f, from, a - 1, floor))
        return 0;
    return z == to || add_run(f, z + 1, to, floor);
}

// Raises the run of the skyline that starts at `a` (time sections with the same
// floor) to its lower neighbour, since no item fits on it. A run without
// neighbours covers the whole skyline; it is removed.
static int raise_run(fill *f, int32_t a)
{
    int32_t z = f->last[a];
    int64_t left = a > 0 ? f->floor[f->start[a - 1]] : INT64_MAX;
    int64_t right = z + 1 < f->p->n_secs ? f->floor[z + 1] : INT64_MAX;
    int64_t to = left < right ? left : right;
    if (to == INT64_MAX) {
        f->floor[a] = INT64_MAX;
        return 1;
    }
    return add_run(f, a, z, to);
}

static int place_item(fill *f, int32_t from, int32_t i)
{
    int32_t a = f->p->first[i], z = f->p->last[i];
    int64_t floor = f->floor[from];
    f->at[i] = floor;
    f->next[i] = i + 1;
    update_ends(f, a);
    return cut_run(f, from, a, z) && add_run(f, a, z, floor + f->p->size[i]);
}

static int allocate_fill(fill *f)
{
    dv_arena *a = &f->arena;
    int32_t n = f->p->n, n_secs = f->p->n_secs;
    for (f->leaves = 1; f->leaves < n_secs;)
        f->leaves *= 2;
    return (f->floor = DV_NEW(a, int64_t, n_secs)) &&
           (f->last = DV_NEW(a, int32_t, n_secs)) &&
           (f->start = DV_NEW(a, int32_t, n_secs)) &&
           (f->begin = DV_NEW(a, int32_t, n_secs + 1)) &&
           (f->next = DV_NEW(a, int32_t, n + 1)) &&
           (f->tail = DV_NEW(a, int32_t, n_secs)) &&
           (f->ends = DV_NEW(a, int32_t, 2 * (int64_t)f->leaves));
}

static void index_items(fill *f)
{
    const dv_part *p = f->p;
    for (int32_t k = 0; k < 2 * f->leaves; k++)
        f->ends[k] = INT32_MAX;
    for (int32_t s = 0, i = 0; s < p->n_secs; s++) {
        f->begin[s] = i;
        f->last[s] = -1;
        while (i < p->n && p->first[i] == s)
            i++;
        f->begin[s + 1] = f->tail[s] = i;
    }
    for (int32_t i = 0; i <= p->n; i++)
        f->next[i] = i;
    for (int32_t s = 0; s < p->n_secs; s++)
        update_ends(f, s);
}

// Computes the layout by "fill", which places items at the lowest free address
// first, and its height *top. Returns DV_FIT_OPEN if an address overflows or
// memory runs out.
static dv_fit fill_low(const dv_part *p, int64_t *at, int64_t *top)
{
    fill f = {.p = p, .at = at};
    int ok = allocate_fill(&f);
    if (ok) {
        index_items(&f);
        ok = add_run(&f, 0, p->n_secs - 1, 0);
    }
    *top = 0;
    for (int32_t n = 0; ok && n < p->n;) {
        heap_node low = pop_run(&f);
        int32_t a = low.from;
        if (f.last[a] < 0 || f.floor[a] != low.floor)
            continue;
        int32_t s = first_start(&f, a, f.last[a]);
        if (s < 0) {
            ok = raise_run(&f, a);
            continue;
        }
        int32_t i = longest(&f, s, f.last[a]);
        ok = low.floor <= INT64_MAX - p->size[i];
        if (!ok)
            break; // the end address of the item would overflow
        n++;
        ok = place_item(&f, a, i);
        if (at[i] + p->size[i] > *top)
            *top = at[i] + p->size[i];
    }
    dv_arena_free(&f.arena);
    return ok ? DV_FIT_YES : DV_FIT_OPEN;
}

// Computes the layout by "fill", which places items at the lowest free address
// first and ignores the sort order. Returns -1 if the part has alignments or
// fixed items, or on failure.
static int64_t low_first(list *l)
{
    int64_t top;
    if (!l->p->plain || fill_low(l->p, l->at, &top) != DV_FIT_YES)
        return -1;
    return top;
}

static int allocate_list(list *l)
{
    const dv_part *p = l->p;
    dv_arena *a = &l->arena;
    return (l->rank = DV_NEW(a, int32_t, p->n)) &&
           (l->order = DV_NEW(a, int32_t, p->n)) &&
           (l->at = DV_NEW(a, int64_t, p->n)) &&
           (l->next = DV_NEW(a, int32_t, p->n)) &&
           (l->high = DV_NEW(a, int64_t, 4 * (int64_t)p->n_secs)) &&
           (l->whole = DV_NEW(a, int64_t, 4 * (int64_t)p->n_secs));
}

static const struct {
    int64_t (*run)(list *l);
    dv_pack_key keys[3];
} layouts[] = {
    {stack, {DV_KEY_FIXED, DV_KEY_EARLY, DV_KEY_LIFE}},
    {low_first, {DV_KEY_FIXED, DV_KEY_LIFE, DV_KEY_SIZE}},
    {stack, {DV_KEY_FIXED, DV_KEY_LIFE, DV_KEY_SIZE}},
    {stack, {DV_KEY_FIXED, DV_KEY_SIZE, DV_KEY_LIFE}},
    {fit, {DV_KEY_FIXED, DV_KEY_SIZE, DV_KEY_LIFE}},
    {fit, {DV_KEY_FIXED, DV_KEY_AREA, DV_KEY_LIFE}},
    {fit, {DV_KEY_FIXED, DV_KEY_EARLY, DV_KEY_LIFE}},
    {fit, {DV_KEY_FIXED, DV_KEY_LIFE, DV_KEY_SIZE}},
    {fit, {DV_KEY_FIXED, DV_KEY_TOTAL, DV_KEY_LIFE}},
    {fit, {DV_KEY_FIXED, DV_KEY_TOTAL, DV_KEY_AREA}},
    {fit, {DV_KEY_FIXED, DV_KEY_TOTAL, DV_KEY_SIZE}},
};

dv_fit dv_pack_list(const dv_part *p, int64_t *top)
{
    list l = {.p = p};
    dv_fit best = DV_FIT_OPEN;
    if (!allocate_list(&l))
        best = DV_FIT_NOMEM;
    for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
        if (layouts[k].keys[1] == DV_KEY_TOTAL && p->n > SOME)
            break;
        if (best == DV_FIT_NOMEM || (best == DV_FIT_YES && *top == p->load))
            break;
        if (k >= 2 && p->n > MANY && best == DV_FIT_YES)
            break;
        if (dv_pack_rank(p, layouts[k].keys, l.rank) != DV_FIT_YES) {
            best = DV_FIT_NOMEM;
            break;
        }
        for (int32_t i = 0; i < p->n; i++)
            l.order[l.rank[i]] = i;
        l.early = p->plain && layouts[k].keys[1] == DV_KEY_EARLY;
        int64_t end = layouts[k].run(&l);
        if (end == CLASH) {
            best = DV_FIT_NO;
            break;
        }
        if (end < 0 || (best == DV_FIT_YES && end >= *top))
            continue;
        best = DV_FIT_YES;
        *top = end;
        memcpy(p->at, l.at, (size_t)p->n * sizeof *l.at);
    }
    dv_arena_free(&l.arena);
    return best;
}
