// Filling: a layout of a plain part from low to high, a logarithm per item.
//
//   ##       ###     The lowest run of the skyline gets the leftmost item
//   ##[==]   ###     that fits it, of those that start there the longest.
//   ############     When none fits, the run is raised to its lower wall.
//
// Unlike a stack it fills holes, and unlike a search it never looks back.
#include "place/pack_in.h"
#include <string.h>

typedef struct node {
    int64_t floor;
    int32_t from;
} node;

typedef struct fill {
    dv_arena arena;
    const dv_part *p;
    int64_t *at;
    // Runs of the skyline, each known by its first section.
    int64_t *floor;
    int32_t *last;  // of the run that starts here, -1: none does
    int32_t *start; // of the run that ends here
    node *heap;     // runs, lowest first; some are out of date
    int32_t n_heap, max_heap;
    // Items that start in a section, the longest first.
    int32_t *begin;
    int32_t *next; // open item not before this one, n: none
    int32_t *tail; // the shortest open one is before this
    int32_t *ends; // tree: where the shortest open item ends, at least
    int32_t leaves;
} fill;

// -- Items -------------------------------------------------------------------

static int32_t next_open(fill *f, int32_t i)
{
    while (f->next[i] != i)
        i = f->next[i] = f->next[f->next[i]];
    return i;
}

// The end of the shortest open item of section s has changed.
static void update(fill *f, int32_t s)
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

// The first section from..to in which an item starts that ends by `to`, or -1.
static int32_t first_start(const fill *f, int32_t from, int32_t to)
{
    int32_t k = f->leaves + from;
    while (f->ends[k] > to) { // go on to the right
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

// The longest open item of section s that ends by `to`; there is one.
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

// -- Runs --------------------------------------------------------------------

static int below(const node *a, const node *b)
{
    return a->floor < b->floor || (a->floor == b->floor && a->from < b->from);
}

static void push(fill *f, node x)
{
    int32_t k = f->n_heap++;
    for (; k && below(&x, &f->heap[(k - 1) / 2]); k = (k - 1) / 2)
        f->heap[k] = f->heap[(k - 1) / 2];
    f->heap[k] = x;
}

static node pop(fill *f)
{
    node top = f->heap[0], x = f->heap[--f->n_heap];
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

// A run a..z, joined with neighbours of the same floor. 0: out of memory.
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
    node *room = DV_PUSH(&f->arena, node, f->heap, f->n_heap, f->max_heap);
    if (!room)
        return 0;
    f->n_heap--;
    push(f, (node){floor, a});
    return 1;
}

// Cut the run at `a` so that a..z stands alone, with the floor it has.
static int cut(fill *f, int32_t from, int32_t a, int32_t z)
{
    int32_t to = f->last[from];
    int64_t floor = f->floor[from];
    f->last[from] = -1;
    f->floor[a] = -1; // no neighbour is like it
    f->last[a] = z;
    f->start[z] = a;
    if (a > from && !add_run(f, from, a - 1, floor))
        return 0;
    return z == to || add_run(f, z + 1, to, floor);
}

// -- The layout --------------------------------------------------------------

// Nothing fits the run: up to the lower wall, or out of the way.
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

static int place(fill *f, int32_t from, int32_t i)
{
    int32_t a = f->p->first[i], z = f->p->last[i];
    int64_t floor = f->floor[from];
    f->at[i] = floor;
    f->next[i] = i + 1;
    update(f, a);
    return cut(f, from, a, z) && add_run(f, a, z, floor + f->p->size[i]);
}

static int allocate(fill *f)
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
        update(f, s);
}

dv_fit dv_pack_fill(const dv_part *p, int64_t *at, int64_t *top)
{
    fill f = {.p = p, .at = at};
    int ok = allocate(&f);
    if (ok) {
        index_items(&f);
        ok = add_run(&f, 0, p->n_secs - 1, 0);
    }
    *top = 0;
    for (int32_t n = 0; ok && n < p->n;) {
        node low = pop(&f);
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
            break; // beyond all integers
        n++;
        ok = place(&f, a, i);
        if (at[i] + p->size[i] > *top)
            *top = at[i] + p->size[i];
    }
    dv_arena_free(&f.arena);
    return ok ? DV_FIT_YES : DV_FIT_OPEN;
}
