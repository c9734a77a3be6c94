// Decides whether all given rectangles fit below a capacity.
//
// A rectangle is live in [start, end) and `size` bytes high; two rectangles
// that are live at the same time may not share a byte. The search is exact: it
// finds addresses, or proves that there are none, or stops when its node budget
// is spent.
#ifndef DV_PACK_H
#define DV_PACK_H
#include "base/mem.h"
#include <stdint.h>

typedef struct dv_rect {
    int64_t start, end; // the rectangle is live in [start, end)
    int64_t size;
    // Alignment of the address, not necessarily a power of two; 1 if there is
    // none.
    int64_t align;
    int64_t fixed;   // the fixed address, or -1 if it may be chosen
    int64_t address; // output: the chosen address
} dv_rect;

typedef enum dv_fit { DV_FIT_YES, DV_FIT_NO, DV_FIT_OPEN, DV_FIT_NOMEM } dv_fit;

typedef struct dv_pack_limits {
    int64_t max_nodes; // limit of search nodes; 0: no limit
    // Limit of work units: search nodes weighted by the size of their part (an
    // independent sub-problem), since nodes of large parts take longer. A
    // million units take about half a second. 0: no limit.
    int64_t max_work;
    // Called about every thousand nodes; a nonzero result stops the search. May
    // be NULL.
    int (*stop)(void *cx);
    void *stop_cx;
} dv_pack_limits;

typedef struct dv_pack_stats {
    int64_t nodes, restarts;
    // Proven lower bound of the capacity that is needed; at least the largest
    // sum of sizes that are live at a time.
    int64_t bound;
} dv_pack_stats;

// Finds addresses below `capacity` for all rectangles. A rectangle with no size
// or no lifetime takes no room; a fixed one need not be aligned. DV_FIT_NO: it
// is proven that there are none. The addresses are valid only for DV_FIT_YES.
// The result is deterministic.
dv_fit dv_pack(dv_rect *rects, int32_t n, int64_t capacity,
               const dv_pack_limits *limits, dv_pack_stats *stats);

// Searches for the least capacity in which all rectangles fit, and their
// addresses; stats->bound is the proven lower bound. DV_FIT_YES: the capacity
// equals the bound. DV_FIT_OPEN: the layout may not be optimal. DV_FIT_NO: no
// capacity suffices, since fixed rectangles overlap. Without limits the search
// runs until the result is proven optimal.
dv_fit dv_pack_least(dv_rect *rects, int32_t n, int64_t *capacity,
                     const dv_pack_limits *limits, dv_pack_stats *stats);
#endif
