// Packing: do all these rectangles fit below a capacity?
//
// A rectangle is alive in [start, end) and `size` high; two that are alive
// together may not share a byte. An exact search: it finds addresses, or
// proves that there are none, or stops when its budget of nodes is spent.
#ifndef DV_PACK_H
#define DV_PACK_H
#include "base/mem.h"
#include <stdint.h>

typedef struct dv_rect {
    int64_t start, end; // alive in [start, end)
    int64_t size;
    int64_t align;   // a power of two or any number; 1: none
    int64_t fixed;   // its address, or -1
    int64_t address; // out
} dv_rect;

typedef enum dv_fit { DV_FIT_YES, DV_FIT_NO, DV_FIT_OPEN, DV_FIT_NOMEM } dv_fit;

typedef struct dv_pack_limits {
    int64_t max_nodes; // 0: no limit
    // Like nodes, but those of large parts count for more, as they take longer:
    // a million are about half a second. 0: no limit.
    int64_t max_work;
    // Asked now and then; nonzero stops the search. NULL: never.
    int (*stop)(void *cx);
    void *stop_cx;
} dv_pack_limits;

typedef struct dv_pack_stats {
    int64_t nodes, restarts;
    int64_t bound; // least capacity that can do: the largest live sum
} dv_pack_stats;

// Addresses below `capacity` for all rectangles. One without size or lifetime
// takes no room; a fixed one need not be aligned. DV_FIT_NO is proven; unless
// the answer is DV_FIT_YES the addresses mean nothing. Same input, same answer.
dv_fit dv_pack(dv_rect *rects, int32_t n, int64_t capacity,
               const dv_pack_limits *limits, dv_pack_stats *stats);

// The least capacity found for all rectangles, with their addresses, and in
// stats->bound what is proven to be needed. DV_FIT_YES: the two are equal.
// DV_FIT_OPEN: a layout that may not be the least. DV_FIT_NO: no capacity will
// do (fixed rectangles overlap). Without limits it goes on until it is proven.
dv_fit dv_pack_least(dv_rect *rects, int32_t n, int64_t *capacity,
                     const dv_pack_limits *limits, dv_pack_stats *stats);
#endif
