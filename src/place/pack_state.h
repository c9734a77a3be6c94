// Private header of pack*.c and of test_pack.c, which tests each search alone.
// It declares the parts of a packing problem and the searches on one part.
//
// A section is a moment at which a maximal set of rectangles is live; two
// rectangles overlap in time exactly if they share a section. From here on,
// sections replace time:
//
//   time  0   1   2   3   4            section  0   1
//   a     [=======)                    a        x
//   b         [===========)            b        x   x
//   c                 [===)            c            x
//
// Sizes and addresses are in units: bytes divided by their common divisor.
#ifndef DV_PACK_STATE_H
#define DV_PACK_STATE_H
#include "place/pack.h"

// A part, an independent sub-problem of the packing: a connected component of
// items that overlap in time, sorted by first time section.
typedef struct dv_part {
    int32_t n, n_secs;
    // First and last time section in which each item is live, both inclusive. A
    // time section is a moment at which a maximal set of items is live.
    int32_t *first, *last;
    int64_t *life; // length of each item's lifetime in ticks
    int64_t *size;
    int64_t *align; // alignment of each item; 1: none
    int64_t *fixed; // fixed address of each item; -1: not fixed
    int64_t *at;    // output: address of each item
    int32_t *rect;  // number of the rectangle that each item was made from
    // Address at which the part begins; below it are items that are live during
    // the whole part.
    int64_t base;
    int64_t load; // largest sum of live sizes, above `base`
    int64_t cap;  // room for the part, above `base`
    int plain;    // nonzero if no item has an alignment or fixed address
} dv_part;

typedef struct dv_model {
    dv_arena arena;
    struct dv_pack_item *items; // rectangles with nonzero size and lifetime
    int32_t n;
    // Common divisor of all sizes, in bytes; sizes and addresses are counted in
    // multiples of it.
    int64_t unit;
    int64_t bound; // lower bound of the capacity, in multiples of `unit`
    int plain;
    dv_part *parts;
    int32_t n_parts, max_parts;
    dv_rect *rects; // the caller's rectangles, borrowed
} dv_model;

// Splits rectangles into parts, independent sub-problems that never overlap in
// time. The capacity `cap` only decides whether sizes may be rounded up to a
// common alignment. DV_FIT_NO: a sum of live sizes or an end address overflows.
dv_fit dv_model_init(dv_model *m, dv_rect *rects, int32_t n, int64_t cap);
void dv_model_free(dv_model *m);
// Copies the addresses found for the items of a part (an independent
// sub-problem) to their rectangles.
void dv_model_store_addresses(const dv_model *m, const dv_part *p,
                              const int64_t *at);

// Sort keys for the order in which a search tries items; items with larger keys
// come first.
typedef enum dv_pack_key {
    DV_KEY_LIFE, // length of the lifetime
    DV_KEY_AREA, // lifetime times size
    DV_KEY_SIZE, // size in memory
    // The largest load (sum of live sizes) of any time section that the item is
    // live in.
    DV_KEY_TOTAL,
    // Minus the first time section, so that items that start early come first.
    DV_KEY_EARLY,
    // Items with a given address by rising address, then all other items.
    DV_KEY_FIXED,
} dv_pack_key;

// Computes rank[i], the position of item i when items are sorted by keys[0],
// with keys[1] and keys[2] as tie-breaks.
dv_fit dv_pack_rank(const dv_part *p, const dv_pack_key keys[3], int32_t *rank);

// The budget of a packing run and the counters of what was spent.
typedef struct dv_pack_run {
    // Search nodes so far and their limit; a limit of 0 means none.
    int64_t nodes, max_nodes;
    // Search nodes so far, each times its cost, and the limit of that; a limit
    // of 0 means none.
    int64_t work, max_work;
    int64_t cost; // work units per node of the current search
    int64_t restarts;
    int64_t next_ask;
    int (*stop)(void *cx);
    void *stop_cx;
    int stopped;
} dv_pack_run;

// Counts a search node. Returns nonzero if the budget is spent or the caller
// wants to stop.
static inline int dv_pack_count_node(dv_pack_run *run)
{
    run->nodes++;
    run->work += run->cost;
    if (run->nodes >= run->next_ask) {
        run->next_ask = run->nodes + 1000;
        if (run->stop && run->stop(run->stop_cx))
            run->stopped = 1;
    }
    if ((run->max_nodes && run->nodes > run->max_nodes) ||
        (run->max_work && run->work > run->max_work))
        run->stopped = 1;
    return run->stopped;
}

typedef struct dv_valley dv_valley;
// Creates a skyline search (pack_valley.c) for a part (an independent
// sub-problem) without alignments and without items at given addresses. Returns
// NULL when out of memory.
dv_valley *dv_valley_create(const dv_part *p);
void dv_valley_destroy(dv_valley *v);

// Rules for choosing the next valley to branch on: a stretch of the skyline of
// placed items between higher walls.
typedef enum dv_valley_rule {
    DV_RULE_LOW,   // the lowest valley
    DV_RULE_RANK,  // the valley where the item to try first fits
    DV_RULE_FAILS, // the valley with few options and many failures so far
    DV_RULE_WIDE,  // the valley where the widest item fits
} dv_valley_rule;

// Searches for a layout with up to `budget` nodes. Items are tried in the order
// of the keys, randomly perturbed if `seed` is not 0. All calls for one
// dv_valley must use the same capacity, because states that failed are
// remembered between calls.
dv_fit dv_valley_try(dv_valley *v, dv_valley_rule rule,
                     const dv_pack_key keys[3], uint64_t seed, int64_t budget,
                     dv_pack_run *run);

typedef struct dv_pack_order dv_pack_order;
// Creates a canonical search (pack_order.c), which places items from low to
// high, for a part (an independent sub-problem) of any kind. Returns NULL when
// out of memory.
dv_pack_order *dv_order_create(const dv_part *p);
void dv_order_destroy(dv_pack_order *o);
dv_fit dv_order_try(dv_pack_order *o, const dv_pack_key keys[3], int64_t budget,
                    dv_pack_run *run);

// Computes several simple layouts (pack_list.c) and keeps the lowest in p->at;
// *top is its height. DV_FIT_NO: fixed items (with given addresses) overlap.
// DV_FIT_OPEN: every layout overflows int64_t.
dv_fit dv_pack_list(const dv_part *p, int64_t *top);
#endif
