// Inside packing: one part of a problem, and the searches that work on it.
//
// A section is a moment at which a maximal set of rectangles is alive; two
// rectangles meet exactly if they share a section. Time is gone from here on:
//
//   time   0   1   2   3   4   5        section  0   1   2
//   a      [=======)                    a       [0,  0]
//   b          [===========)            b       [0,      1]
//   c                  [=======)        c           [1,  2]
//   d                      [===)        d               [2]   (a tie, shown)
//
// Sizes are in units: bytes divided by what divides them all.
#ifndef DV_PACK_IN_H
#define DV_PACK_IN_H
#include "place/pack.h"

// Items that hang together, sorted by first section.
typedef struct dv_part {
    int32_t n, n_secs;
    int32_t *first, *last; // sections, both included
    int64_t *life;         // time alive
    int64_t *size;
    int64_t *align; // 1: none
    int64_t *fixed; // -1: free
    int64_t *at;    // out
    int32_t *rect;  // the rectangle an item stands for
    int64_t cap;
    int plain; // no alignment, nothing fixed
} dv_part;

// What a search may still spend, and where it counts what it spent.
typedef struct dv_pack_run {
    int64_t nodes, max_nodes; // 0: no limit
    int64_t restarts;
    int64_t next_ask;
    int (*stop)(void *cx);
    void *stop_cx;
    int stopped;
} dv_pack_run;

// Count a node. Nonzero: the budget is spent or the caller wants to stop.
static inline int dv_pack_tick(dv_pack_run *run)
{
    run->nodes++;
    if (run->nodes >= run->next_ask) {
        run->next_ask = run->nodes + 1000;
        if (run->stop && run->stop(run->stop_cx))
            run->stopped = 1;
    }
    if (run->max_nodes && run->nodes > run->max_nodes)
        run->stopped = 1;
    return run->stopped;
}

// Orders in which items are tried; each puts large values first.
typedef enum dv_pack_key {
    DV_KEY_LIFE,  // sections
    DV_KEY_AREA,  // sections times size
    DV_KEY_SIZE,  // units
    DV_KEY_TOTAL, // largest load of a section it is in
    DV_N_KEYS
} dv_pack_key;

// rank[i] of every item when sorted by keys[0], then keys[1], then keys[2].
dv_fit dv_pack_rank(const dv_part *p, const dv_pack_key keys[3], int32_t *rank);

// -- Valley search (pack_valley.c): plain parts only -------------------------
typedef struct dv_valley dv_valley;
dv_valley *dv_valley_create(const dv_part *p); // NULL: out of memory
void dv_valley_destroy(dv_valley *v);
// Try number `attempt` with at most `budget` nodes.
dv_fit dv_valley_try(dv_valley *v, int32_t attempt, int64_t budget,
                     dv_pack_run *run);

// -- Canonical search (pack_order.c): any part -------------------------------
typedef struct dv_order dv_order;
dv_order *dv_order_create(const dv_part *p);
void dv_order_destroy(dv_order *o);
dv_fit dv_order_try(dv_order *o, int32_t attempt, int64_t budget,
                    dv_pack_run *run);
#endif
