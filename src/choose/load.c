// Memory in use over time: a segment tree of the excess over the room of each
// time, with additions to ranges and greatest values of ranges in O(log n).
//
// The leaves are the times. An addition is stored at the tree nodes that cover
// its range and is not pushed down: `most` of a tree node includes `add` of the
// node itself, but not that of the nodes above.
#include "base/math.h"
#include "choose/choose.h"
#include <string.h>

int dv_cload_init(dv_cload *l, dv_arena *arena, int32_t n_times)
{
    l->n = n_times;
    l->leaves = 1;
    while (l->leaves < n_times)
        l->leaves *= 2;
    l->most = DV_NEW(arena, int64_t, 2 * (int64_t)l->leaves);
    l->add = DV_NEW(arena, int64_t, 2 * (int64_t)l->leaves);
    return l->most && l->add;
}

void dv_cload_reset(dv_cload *l, const int64_t *room)
{
    memset(l->add, 0, 2 * (size_t)l->leaves * sizeof *l->add);
    for (int32_t t = 0; t < l->leaves; t++)
        l->most[l->leaves + t] = t < l->n ? -room[t] : -(INT64_MAX / 2);
    for (int32_t i = l->leaves - 1; i > 0; i--)
        l->most[i] = dv_max_i64(l->most[2 * i], l->most[2 * i + 1]);
}

static void update_above(dv_cload *l, int32_t i)
{
    for (i /= 2; i > 0; i /= 2)
        l->most[i] = dv_max_i64(l->most[2 * i], l->most[2 * i + 1]) + l->add[i];
}

void dv_cload_add(dv_cload *l, int32_t from, int32_t to, int64_t usage)
{
    if (from >= to || usage == 0)
        return;
    int32_t i = l->leaves + from, j = l->leaves + to;
    for (; i < j; i /= 2, j /= 2) {
        if (i & 1) {
            l->most[i] += usage;
            l->add[i++] += usage;
        }
        if (j & 1) {
            l->most[--j] += usage;
            l->add[j] += usage;
        }
    }
    update_above(l, l->leaves + from);
    update_above(l, l->leaves + to - 1);
}

int64_t dv_cload_max(const dv_cload *l, int32_t from, int32_t to)
{
    // Maxima found so far on the left and on the right side of the range,
    // without the additions stored in the ancestors of i and j.
    int64_t left = INT64_MIN / 2, right = INT64_MIN / 2;
    int32_t i = l->leaves + from, j = l->leaves + to - 1;
    if (from >= to)
        return INT64_MIN;
    left = l->most[i];
    right = l->most[j];
    while (i / 2 != j / 2) {
        if (!(i & 1))
            left = dv_max_i64(left, l->most[i + 1]);
        if (j & 1)
            right = dv_max_i64(right, l->most[j - 1]);
        i /= 2;
        j /= 2;
        left += l->add[i];
        right += l->add[j];
    }
    int64_t most = dv_max_i64(left, right);
    if (i == j) // a range of one time: its tree node has its additions already
        most = left;
    for (i /= 2; i > 0; i /= 2)
        most += l->add[i];
    return most;
}

int32_t dv_cload_worst(const dv_cload *l)
{
    int32_t i = 1;
    if (l->n == 0 || l->most[1] <= 0)
        return -1;
    while (i < l->leaves)
        i = l->most[2 * i] >= l->most[2 * i + 1] ? 2 * i : 2 * i + 1;
    return i - l->leaves;
}
