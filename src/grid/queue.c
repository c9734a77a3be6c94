// Hands out tiles to cores at run time from lock-free ranges; see queue.h.
#include "grid/queue.h"
#include "base/mem.h"
#include "grid/grid.h"

static uint64_t pack(uint32_t begin, uint32_t end)
{
    return (uint64_t)begin << 32 | end;
}

int dv_queue_init(dv_queue *q, int64_t n_tiles, int32_t n_cores, int64_t chunk,
                  int steal)
{
    if (n_tiles < 0 || n_tiles > INT32_MAX || n_cores < 1 || chunk < 1)
        return 0;
    *q = (dv_queue){.n_cores = n_cores};
    q->ranges = dv_alloc((size_t)n_cores * sizeof *q->ranges);
    if (q->ranges)
        dv_queue_reset(q, n_tiles, chunk, steal);
    return q->ranges != NULL;
}

void dv_queue_reset(dv_queue *q, int64_t n_tiles, int64_t chunk, int steal)
{
    int32_t n = steal ? q->n_cores : 1;
    q->steal = steal;
    q->chunk = (uint32_t)(chunk < INT32_MAX ? chunk : INT32_MAX);
    q->n_tiles = (uint32_t)n_tiles;
    for (int32_t i = 0; i < n; i++)
        atomic_store(&q->ranges[i].ends,
                     pack((uint32_t)dv_part_begin(n_tiles, n, i),
                          (uint32_t)dv_part_begin(n_tiles, n, i + 1)));
}

// Removes up to `chunk` tiles from the begin of a range of tiles; returns their
// number.
static uint32_t take(dv_queue_range *r, uint32_t chunk, uint32_t *first)
{
    uint64_t ends = atomic_load(&r->ends);
    for (;;) {
        uint32_t begin = (uint32_t)(ends >> 32), end = (uint32_t)ends;
        if (begin >= end)
            return 0;
        uint32_t n = end - begin < chunk ? end - begin : chunk;
        if (atomic_compare_exchange_weak(&r->ends, &ends,
                                         pack(begin + n, end))) {
            *first = begin;
            return n;
        }
    }
}

// Removes the later half, rounded up, of the range of tiles of another core;
// returns the number of tiles.
static uint32_t steal_half(dv_queue_range *r, uint32_t *first)
{
    uint64_t ends = atomic_load(&r->ends);
    for (;;) {
        uint32_t begin = (uint32_t)(ends >> 32), end = (uint32_t)ends;
        if (begin >= end)
            return 0;
        uint32_t middle = begin + (end - begin) / 2;
        if (atomic_compare_exchange_weak(&r->ends, &ends,
                                         pack(begin, middle))) {
            *first = middle;
            return end - middle;
        }
    }
}

int dv_queue_next(dv_queue *q, int32_t core, int64_t *first, int64_t *count)
{
    uint32_t at = 0;
    dv_queue_range *own = &q->ranges[q->steal ? core : 0];
    uint32_t n = take(own, q->chunk, &at);
    for (int32_t i = 1; !n && q->steal && i < q->n_cores; i++) {
        n = steal_half(&q->ranges[(core + i) % q->n_cores], &at);
        // A plain store is safe here: the core's own range is empty, and nobody
        // steals from an empty range.
        if (n > q->chunk) {
            atomic_store(&own->ends, pack(at + q->chunk, at + n));
            n = q->chunk;
        }
    }
    *first = at;
    *count = n;
    return n > 0;
}

void dv_queue_free(dv_queue *q)
{
    dv_release(q->ranges);
    q->ranges = NULL;
}
