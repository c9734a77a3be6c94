// Canonical search: items are placed from low to high, each resting on the
// items below it. This is the method of MiniMalloc (Moffitt, ASPLOS 2023).
//
//   unplaced items, by (offset, rank):   a@0  c@0 | b@16  e@16 | d@40
//                                        too low    next ones    above a top
//
// An item's offset is the top of the items placed below it, rounded up to its
// alignment. Along a search path (offset, rank) only grows, so that every
// layout is reached in only one order. An item may be placed next if
// - it is not below the last placed item,
// - it is below the top of every unplaced item, which would otherwise have
//   fitted underneath,
// - no fixed item is skipped: a fixed item is placed at its address.
// A state fails when a section has too little room for its unplaced items: the
// section's floor is the least offset of its unplaced items, but at least that
// of the last placed item. Unplaced items in disjoint ranges of sections are
// solved independently.
#include "place/pack_state.h"
#include "base/math.h"
#include <string.h>

typedef struct entry {
    int64_t off;
    // Rank of the item: its position in the order in which items are tried.
    int32_t item;
} entry;

// Limits of the search depth, and of the entries on its stack: a search path
// over n = 4096 items needs n * n / 2 of them.
enum { MAX_DEPTH = 8192, MAX_STACK = 9 << 20 };

struct dv_pack_order {
    dv_arena arena;
    const dv_part *p;
    // Copies of the item data in rank order (the order in which items are
    // tried); which[] maps a rank to the part's item index.
    int32_t *first, *last, *which, *rank;
    int64_t *size, *align;
    unsigned char *fixed;
    // For each item, 1 if it is identical to the item before it in rank order.
    unsigned char *twin;
    // For each time section (a tick where a maximal set of items is live): the
    // capacity minus the sizes of its unplaced items, which is the highest
    // address above which these still fit.
    int64_t *room;
    // cross[s] is the number of unplaced items that are live in both time
    // section s and s + 1.
    int32_t *cross;
    // Union-find, used by has_room: the next time section whose floor (lowest
    // address of its unplaced items) is not determined yet.
    int32_t *skip;
    entry *stack;
    int64_t max_stack;
    int64_t budget;
    dv_pack_run *run;
};

typedef enum end { END_FAIL, END_SOLVED, END_STOP } end;

// A search state: the unplaced items of time sections lo..hi, sorted by offset
// (the lowest address possible above the placed items), then by rank.
typedef struct state {
    entry *list;
    int32_t n, lo, hi;
    entry last; // the last placed item and its address
} state;

static inline int before(const entry *a, const entry *b)
{
    return a->off < b->off || (a->off == b->off && a->item < b->item);
}

static inline int64_t align_up(int64_t x, int64_t align)
{
    int64_t over = align == 1 ? 0 : x % align;
    if (!over)
        return x;
    return dv_add_i64(&x, x, align - over) ? x : INT64_MAX;
}

static void take(dv_pack_order *o, int32_t i)
{
    for (int32_t s = o->first[i]; s <= o->last[i]; s++)
        o->room[s] += o->size[i];
    for (int32_t s = o->first[i]; s < o->last[i]; s++)
        o->cross[s]--;
}

static void put_back(dv_pack_order *o, int32_t i)
{
    for (int32_t s = o->first[i]; s <= o->last[i]; s++)
        o->room[s] -= o->size[i];
    for (int32_t s = o->first[i]; s < o->last[i]; s++)
        o->cross[s]++;
}

static void insert(entry *list, int32_t n, entry x)
{
    for (; n && before(&x, &list[n - 1]); n--)
        list[n] = list[n - 1];
    list[n] = x;
}

// Merge sort that does not move input that is already sorted. `tmp` has room
// for n entries.
static void sort(entry *list, int32_t n, entry *tmp)
{
    enum { FEW = 8 };
    if (n <= FEW) {
        for (int32_t i = 1; i < n; i++)
            insert(list, i, list[i]);
        return;
    }
    int32_t half = n / 2, i = 0, j = half;
    sort(list, half, tmp);
    sort(list + half, n - half, tmp);
    if (before(&list[half - 1], &list[half]))
        return;
    memcpy(tmp, list, (size_t)half * sizeof *tmp);
    for (int32_t w = 0; i < half; w++)
        list[w] = j == n || before(&tmp[i], &list[j]) ? tmp[i++] : list[j++];
}

// Computes the list of unplaced items after entry k of the list is placed:
// items that overlap it in time are raised above it. Returns 0 if an item no
// longer fits below the capacity. *hat is set if an unplaced item will lie
// above entry k.
static int raise_entries(const dv_pack_order *o, const state *from, int32_t k,
                         entry *to, int *hat)
{
    entry x = from->list[k];
    int32_t a = o->first[x.item], z = o->last[x.item], n = 0, n_up = 0;
    int64_t top = x.off + o->size[x.item];
    // Unplaced items whose offset, the lowest possible address, rises to the
    // top of entry k, because they overlap it.
    entry *up = to + from->n;
    int32_t j = 0;
    *hat = 0;
    for (; j < from->n && from->list[j].off < top; j++) {
        entry y = from->list[j];
        if (j == k)
            continue;
        int over = o->first[y.item] <= z && o->last[y.item] >= a;
        *hat |= over;
        if (over) {
            y.off = align_up(top, o->align[y.item]);
            if (o->fixed[y.item] || y.off > o->p->cap - o->size[y.item])
                return 0;
            up[n_up++] = y;
        } else {
            to[n++] = y;
        }
    }
    // Unplaced items whose offset (lowest possible address) is at or above the
    // top of entry k keep it. *hat is set if one of them overlaps entry k in
    // time.
    for (int32_t i = j; i < from->n && !*hat; i++)
        *hat = o->first[from->list[i].item] <= z &&
               o->last[from->list[i].item] >= a;
    memcpy(to + n, from->list + j, (size_t)(from->n - j) * sizeof *to);
    n += from->n - j;
    sort(up, n_up, up + from->n);
    // Merge the raised items into the sorted list from the back, which moves
    // few entries because the raised ones are near the end already.
    for (int32_t w = n + n_up; n_up; w--) {
        int low = n == 0 || before(&to[n - 1], &up[n_up - 1]);
        to[w - 1] = low ? up[--n_up] : to[--n];
    }
    return 1;
}

// Returns whether in every time section (a tick where a maximal set of items is
// live) the unplaced items still fit between the placed ones and the capacity.
static int has_room(dv_pack_order *o, const state *st)
{
    int32_t *skip = o->skip;
    // Number of time sections with unplaced items whose floor (lowest address
    // of an unplaced item) is not known yet.
    int32_t left = 0;
    for (int32_t s = st->lo; s <= st->hi + 1; s++) {
        int open = s <= st->hi && o->room[s] < o->p->cap;
        skip[s] = s > st->hi || open ? s : s + 1;
        left += open;
    }
    for (int32_t k = 0; k < st->n && left; k++) {
        int32_t i = st->list[k].item, z = o->last[i];
        int64_t floor = dv_max_i64(st->list[k].off, st->last.off);
        int32_t s = o->first[i];
        while (skip[s] != s)
            s = skip[s] = skip[skip[s]];
        while (s <= z) {
            if (floor > o->room[s])
                return 0;
            skip[s] = s + 1;
            left--;
            s++;
            while (skip[s] != s)
                s = skip[s] = skip[skip[s]];
        }
    }
    return 1;
}

static end solve(dv_pack_order *o, const state *st, int32_t depth);

static int has_independent_ranges(const dv_pack_order *o, int32_t a, int32_t z)
{
    int apart = 0;
    for (int32_t s = a; s < z; s++)
        apart |= o->cross[s] == 0;
    return apart;
}

// Splits the problem at borders between time sections that no unplaced item
// crosses, and solves the resulting independent ranges one by one.
static end solve_ranges(dv_pack_order *o, const state *st, int32_t depth)
{
    for (int32_t s = st->lo, lo = s; s <= st->hi; s++) {
        if (s < st->hi && o->cross[s])
            continue;
        state x = {st->list + st->n, 0, lo, s, st->last};
        for (int32_t k = 0; k < st->n; k++) {
            int32_t i = st->list[k].item;
            if (o->first[i] >= lo && o->last[i] <= s)
                x.list[x.n++] = st->list[k];
        }
        lo = s + 1;
        end e = solve(o, &x, depth + 1);
        if (e == END_SOLVED)
            continue;
        // If this range of time sections fails, mark the items of the ranges
        // solved before it as unplaced again.
        for (int32_t k = 0; k < st->n && e == END_FAIL; k++)
            if (o->last[st->list[k].item] < x.lo)
                put_back(o, st->list[k].item);
        return e;
    }
    return END_SOLVED;
}

// Places entry k of the list of unplaced items, and then tries to place all
// others. *hat is set if an unplaced item lies above entry k.
static end solve_with(dv_pack_order *o, const state *st, int32_t k,
                      int32_t depth, int *hat)
{
    int32_t i = st->list[k].item;
    state x = {st->list + st->n, st->n - 1, st->lo, st->hi, st->list[k]};
    if (!raise_entries(o, st, k, x.list, hat))
        return END_FAIL;
    take(o, i);
    o->p->at[o->which[i]] = st->list[k].off;
    end e = END_FAIL;
    if (has_room(o, &x))
        e = has_independent_ranges(o, o->first[i], o->last[i])
                ? solve_ranges(o, &x, depth)
                : solve(o, &x, depth + 1);
    if (e == END_FAIL)
        put_back(o, i);
    return e;
}

// Returns whether entry k of the list of unplaced items is identical to the
// entry before it (same size, alignment and lifetime). Only the first of them
// is tried, to avoid equivalent layouts.
static int is_second(const dv_pack_order *o, const state *st, int32_t k)
{
    int32_t i = st->list[k].item;
    return o->twin[i] && k > 0 && st->list[k - 1].item == i - 1;
}

// Tries to place all unplaced items of the search state. On failure, restores
// `o`.
static end solve(dv_pack_order *o, const state *st, int32_t depth)
{
    if (!st->n)
        return END_SOLVED;
    if (depth > MAX_DEPTH || st->list + 4 * st->n - o->stack > o->max_stack)
        return END_STOP;
    int64_t top = INT64_MAX;
    for (int32_t k = 0; k < st->n && st->list[k].off < top; k++)
        top = dv_min_i64(top, st->list[k].off + o->size[st->list[k].item]);
    for (int32_t k = 0; k < st->n && st->list[k].off < top; k++) {
        if (!before(&st->last, &st->list[k]) || is_second(o, st, k))
            continue;
        if (dv_pack_count_node(o->run) || o->run->nodes > o->budget)
            return END_STOP;
        int hat = 0;
        end e = solve_with(o, st, k, depth, &hat);
        if (e != END_FAIL)
            return e;
        if (o->fixed[st->list[k].item] || !hat)
            break;
    }
    return END_FAIL;
}

// Copies the items of the part in rank order (the order in which they are
// tried), fixed items before all others.
static void sort_items(dv_pack_order *o)
{
    const dv_part *p = o->p;
    int32_t n_fixed = 0, at = 0;
    for (int32_t i = 0; i < p->n; i++)
        o->which[o->rank[i]] = i;
    for (int32_t k = 0; k < p->n; k++)
        n_fixed += p->fixed[o->which[k]] >= 0;
    memcpy(o->rank, o->which, (size_t)p->n * sizeof *o->rank);
    for (int32_t k = 0; k < p->n; k++) {
        int32_t i = o->rank[k];
        o->which[p->fixed[i] >= 0 ? at++ : n_fixed++] = i;
    }
    for (int32_t k = 0; k < p->n; k++) {
        int32_t i = o->which[k];
        o->first[k] = p->first[i];
        o->last[k] = p->last[i];
        o->size[k] = p->size[i];
        o->align[k] = p->align[i];
        o->fixed[k] = p->fixed[i] >= 0;
        o->twin[k] =
            k > 0 && !o->fixed[k] && !o->fixed[k - 1] &&
            o->first[k] == o->first[k - 1] && o->last[k] == o->last[k - 1] &&
            o->size[k] == o->size[k - 1] && o->align[k] == o->align[k - 1];
    }
}

dv_fit dv_order_try(dv_pack_order *o, const dv_pack_key keys[3], int64_t budget,
                    dv_pack_run *run)
{
    const dv_part *p = o->p;
    dv_fit fit = dv_pack_rank(p, keys, o->rank);
    if (fit != DV_FIT_YES)
        return fit;
    sort_items(o);
    o->run = run;
    o->budget = run->nodes + budget;
    memset(o->cross, 0, (size_t)p->n_secs * sizeof *o->cross);
    for (int32_t s = 0; s < p->n_secs; s++)
        o->room[s] = p->cap;
    state all = {o->stack, p->n, 0, p->n_secs - 1, {0, -1}};
    for (int32_t k = 0; k < p->n; k++) {
        int64_t fixed = p->fixed[o->which[k]];
        put_back(o, k);
        insert(all.list, k, (entry){fixed >= 0 ? fixed : 0, k});
    }
    if (!has_room(o, &all))
        return DV_FIT_NO;
    end e = solve(o, &all, 0);
    return e == END_SOLVED ? DV_FIT_YES
           : e == END_FAIL ? DV_FIT_NO
                           : DV_FIT_OPEN;
}

static int allocate(dv_pack_order *o)
{
    dv_arena *a = &o->arena;
    int32_t n = o->p->n, n_secs = o->p->n_secs;
    o->max_stack = dv_min_i64((int64_t)n * (n + 8), MAX_STACK);
    return (o->first = DV_NEW(a, int32_t, n)) &&
           (o->last = DV_NEW(a, int32_t, n)) &&
           (o->which = DV_NEW(a, int32_t, n)) &&
           (o->rank = DV_NEW(a, int32_t, n)) &&
           (o->size = DV_NEW(a, int64_t, n)) &&
           (o->align = DV_NEW(a, int64_t, n)) &&
           (o->fixed = DV_NEW(a, unsigned char, n)) &&
           (o->twin = DV_NEW(a, unsigned char, n)) &&
           (o->room = DV_NEW(a, int64_t, n_secs)) &&
           (o->cross = DV_NEW(a, int32_t, n_secs)) &&
           (o->skip = DV_NEW(a, int32_t, n_secs + 2)) &&
           (o->stack = DV_NEW(a, entry, o->max_stack));
}

dv_pack_order *dv_order_create(const dv_part *p)
{
    dv_pack_order *o = dv_alloc(sizeof *o);
    if (!o)
        return NULL;
    *o = (dv_pack_order){.p = p};
    if (!allocate(o)) {
        dv_order_destroy(o);
        return NULL;
    }
    return o;
}

void dv_order_destroy(dv_pack_order *o)
{
    if (o)
        dv_arena_free(&o->arena);
    dv_release(o);
}
