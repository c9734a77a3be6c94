// Private header of pack*.c and of test_pack.c, which tests each search alone:
// the parts of a problem, and the searches that work on one.
//
// A section is a moment at which a maximal set of rectangles is alive; two
// rectangles meet exactly if they share a section. Time is gone from here on:
//
//   time  0   1   2   3   4            section  0   1
//   a     [=======)                    a        x
//   b         [===========)            b        x   x
//   c                 [===)            c            x
//
// Sizes and addresses are in units: bytes divided by what divides them all.
#ifndef DV_PACK_STATE_H
#define DV_PACK_STATE_H
#include "place/pack.h"

// -- The problem (pack_model.c) ----------------------------------------------

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
    int64_t base;   // what is below the part, everywhere
    int64_t load;   // largest sum of live sizes; base not counted
    int64_t cap;    // where the part has to end; base not counted
    int plain;      // no alignment, nothing fixed
} dv_part;

typedef struct dv_model {
    dv_arena arena;
    struct dv_pack_item *items; // rectangles that take room
    int32_t n;
    int64_t unit;  // bytes
    int64_t bound; // units that are needed at least
    int plain;
    dv_part *parts;
    int32_t n_parts, max_parts;
    dv_rect *rects; // borrowed
} dv_model;

// Rectangles to parts. `cap` matters only for whether sizes may be rounded up
// to a common alignment. DV_FIT_NO: the sum of live sizes is no integer.
dv_fit dv_model_init(dv_model *m, dv_rect *rects, int32_t n, int64_t cap);
void dv_model_free(dv_model *m);
// Copy the addresses of a part to its rectangles.
void dv_model_put(const dv_model *m, const dv_part *p, const int64_t *at);

// Orders in which items are tried; each puts large values first.
typedef enum dv_pack_key {
    DV_KEY_LIFE,  // time
    DV_KEY_AREA,  // time times size
    DV_KEY_SIZE,  // units
    DV_KEY_TOTAL, // largest load of a section it is in
    DV_KEY_EARLY, // minus the first section
    DV_KEY_FIXED, // fixed ones from low to high, then all others
} dv_pack_key;

// rank[i] of every item when sorted by keys[0], then keys[1], then keys[2].
dv_fit dv_pack_rank(const dv_part *p, const dv_pack_key keys[3], int32_t *rank);

// -- Budgets -----------------------------------------------------------------

// What a search may still spend, and where it counts what it spent.
typedef struct dv_pack_run {
    int64_t nodes, max_nodes; // 0: no limit
    int64_t work, max_work;   // nodes times their cost; 0: no limit
    int64_t cost;             // of a node of the search that is run
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

// -- Valley search (pack_valley.c): plain parts only -------------------------

typedef struct dv_valley dv_valley;
dv_valley *dv_valley_create(const dv_part *p); // NULL: out of memory
void dv_valley_destroy(dv_valley *v);

// Which valley is taken next.
typedef enum dv_valley_rule {
    DV_RULE_LOW,   // the lowest
    DV_RULE_RANK,  // where the item of best rank can go
    DV_RULE_FAILS, // few options, often failed
    DV_RULE_WIDE,  // the widest item
} dv_valley_rule;

// Items are tried by keys, shaken if seed is not 0. All tries of one search
// must have the same capacity: what has failed stays known.
dv_fit dv_valley_try(dv_valley *v, dv_valley_rule rule,
                     const dv_pack_key keys[3], uint64_t seed, int64_t budget,
                     dv_pack_run *run);

// -- Canonical search (pack_order.c): any part -------------------------------

typedef struct dv_pack_order dv_pack_order;
dv_pack_order *dv_order_create(const dv_part *p); // NULL: out of memory
void dv_order_destroy(dv_pack_order *o);
dv_fit dv_order_try(dv_pack_order *o, const dv_pack_key keys[3], int64_t budget,
                    dv_pack_run *run);

// -- Heuristics (pack_list.c): any part --------------------------------------

// The best of a few simple layouts; *top is where it ends. DV_FIT_NO: fixed
// items clash. DV_FIT_OPEN: a layout ends beyond all integers.
dv_fit dv_pack_list(const dv_part *p, int64_t *top);
#endif
