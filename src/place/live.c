// An index of items (buffers) by time: a tree over the items sorted by start,
// where every node stores the latest end of the items added below it. A search
// only descends where a node's latest end is after the searched start: about
// log n steps for each item found.
#include "place/place.h"
#include <stdlib.h>

int dv_live_init(dv_live *live, const dv_task *task, dv_arena *arena)
{
    *live = (dv_live){.task = task, .leaves = 1};
    while (live->leaves < task->n)
        live->leaves *= 2;
    dv_keyed *order = dv_alloc((size_t)task->n * sizeof *order);
    live->by_start = DV_NEW(arena, int32_t, task->n);
    live->rank = DV_NEW(arena, int32_t, task->n);
    live->last = DV_NEW(arena, int64_t, (size_t)live->leaves * 2);
    int ok = order && live->by_start && live->rank && live->last;
    for (int32_t i = 0; ok && i < task->n; i++)
        order[i] = (dv_keyed){task->items[i].start, i};
    if (ok)
        qsort(order, (size_t)task->n, sizeof *order, dv_by_key);
    for (int32_t i = 0; ok && i < task->n; i++) {
        live->by_start[i] = order[i].item;
        live->rank[order[i].item] = i;
    }
    for (int32_t i = 0; ok && i < live->leaves * 2; i++)
        live->last[i] = INT64_MIN;
    dv_release(order);
    return ok;
}

static void set(dv_live *live, int32_t item, int64_t end)
{
    int64_t *last = live->last;
    int32_t k = live->leaves + live->rank[item];
    last[k] = end;
    for (k /= 2; k; k /= 2) {
        int64_t l = last[2 * k], r = last[2 * k + 1], top = l > r ? l : r;
        if (last[k] == top)
            break;
        last[k] = top;
    }
}

void dv_live_add(dv_live *live, int32_t item)
{
    set(live, item, live->task->items[item].end);
}

void dv_live_remove(dv_live *live, int32_t item)
{
    set(live, item, INT64_MIN);
}

// Returns the number of items that start before `tick`.
static int32_t started(const dv_live *live, int64_t tick)
{
    int32_t lo = 0, hi = live->task->n;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (live->task->items[live->by_start[mid]].start < tick)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int32_t dv_live_find(const dv_live *live, int64_t start, int64_t end,
                     int32_t *out)
{
    struct {
        // A subtree that is still to be searched: its root node, its first leaf
        // and its number of leaves.
        int32_t node, first, count;
    } stack[64];
    int32_t n = 0, depth = 0, limit = started(live, end);
    if (live->task->n == 0)
        return 0;
    stack[depth].node = 1;
    stack[depth].first = 0;
    stack[depth++].count = live->leaves;
    while (depth) {
        int32_t node = stack[--depth].node, first = stack[depth].first;
        int32_t half = stack[depth].count / 2;
        if (first >= limit || live->last[node] <= start)
            continue;
        if (half == 0) {
            out[n++] = live->by_start[first];
            continue;
        }
        stack[depth].node = 2 * node + 1;
        stack[depth].first = first + half;
        stack[depth++].count = half;
        stack[depth].node = 2 * node;
        stack[depth].first = first;
        stack[depth++].count = half;
    }
    return n;
}
