// Lists for every item (buffer to place) the items with overlapping lifetimes,
// once, for searches that place the same items many times.
#include "place/place.h"

static int linked(const dv_task *t, int32_t i, int32_t k)
{
    const dv_item *it = &t->items[i];
    for (int32_t m = 0; m < it->n_parents; m++)
        if (t->links[it->parents + m] == k)
            return 1;
    for (int32_t m = 0; m < it->n_children; m++)
        if (t->links[it->children + m] == k)
            return 1;
    return 0;
}

// Counts the neighbours of all items (the items with overlapping lifetimes)
// and, if `fill` is set, also stores them in neighbours->items. Returns the
// count.
static int64_t walk(dv_neighbours *neighbours, const dv_task *t,
                    const dv_live *live, int32_t *found, int fill)
{
    int64_t n = 0;
    for (int32_t i = 0; i < t->n; i++) {
        const dv_item *it = &t->items[i];
        neighbours->first[i] = n;
        if (!it->in_play)
            continue;
        int32_t k = dv_live_find(live, it->start, it->end, found);
        // Item i itself is one of the k items found.
        n += k - 1;
        if (!fill)
            continue;
        int32_t *to = neighbours->items + neighbours->first[i];
        for (int32_t m = 0; m < k; m++)
            if (found[m] != i)
                *to++ = linked(t, i, found[m]) ? ~found[m] : found[m];
    }
    neighbours->first[t->n] = n;
    return n;
}

int dv_neighbours_init(dv_neighbours *neighbours, const dv_task *t,
                       int64_t most, dv_arena *a)
{
    dv_arena tmp = {0};
    dv_live live;
    int32_t *found = DV_NEW(&tmp, int32_t, t->n);
    neighbours->first = DV_NEW(a, int64_t, t->n + 1);
    int ok = found && neighbours->first && dv_live_init(&live, t, &tmp);
    for (int32_t i = 0; ok && i < t->n; i++)
        if (t->items[i].in_play || t->items[i].fixed >= 0)
            dv_live_add(&live, i);
    neighbours->items = NULL;
    if (ok && walk(neighbours, t, &live, found, 0) <= most) {
        neighbours->items = DV_NEW(a, int32_t, neighbours->first[t->n]);
        ok = neighbours->items != NULL;
        if (ok)
            walk(neighbours, t, &live, found, 1);
    }
    dv_arena_free(&tmp);
    return ok;
}
