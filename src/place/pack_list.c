// Simple layouts: items one by one, each at a free place.
//
//          .....####   fit: x goes to the lowest gap among what it meets;
//          ..x......        every item looks at all that are placed
//          #########   stack: x goes on top of the highest one it meets;
//                           a logarithm per item
//
// Orders: large first, long-lived first, early first, those of the most loaded
// sections first. The best layout counts.
// Fixed items come first, from low to high.
#include "place/pack_in.h"
#include "base/math.h"
#include <string.h>

enum {
    MANY = 20000,        // items: the first two layouts have to do
    SOME = 10000,        // items: those by the largest load are left out
    MAX_WORK = 50000000, // steps of a layout by fit
    CLASH = -2           // fixed items overlap
};

typedef struct list {
    dv_arena arena;
    const dv_part *p;
    int32_t *rank, *order;
    int64_t *at;
    int32_t *next, head; // what is placed, by address
    int early;           // items come in order of their first section
    int64_t work;        // steps left
    int64_t *high;       // tree of floors: the highest in a node's sections
    int64_t *whole;      // ... and the least they all have
} list;

// Where an item can lie, at `at` or above. -1: beyond all integers.
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

// -- Fit ---------------------------------------------------------------------

// Does j end before all that are still to come?
static int is_past(const list *l, int32_t j, int32_t i)
{
    return l->early && l->p->last[j] < l->p->first[i];
}

// Put item i at the lowest free place. 0: there is none, or no work left.
static int put_lowest(list *l, int32_t i)
{
    const dv_part *p = l->p;
    int64_t at = p->fixed[i] >= 0 ? p->fixed[i] : 0;
    int32_t low = -1; // the last one that begins not above `at`
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

// Where the layout ends, -1: there is none.
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

// -- Stack -------------------------------------------------------------------

// The highest floor in sections a..z, of the node that has sections lo..hi.
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

// Fixed items have come from low to high: what is in their way is fixed too.
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

// The lowest place first, whatever the order. Plain parts only.
static int64_t low_first(list *l)
{
    int64_t top;
    if (!l->p->plain || dv_pack_fill(l->p, l->at, &top) != DV_FIT_YES)
        return -1;
    return top;
}

// -- The best of some --------------------------------------------------------

static int allocate(list *l)
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
    if (!allocate(&l))
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
