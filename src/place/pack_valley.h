// Inside the valley search: its state, and what the skyline does with it.
#ifndef DV_PACK_VALLEY_H
#define DV_PACK_VALLEY_H
#include "place/pack_in.h"

// Sections from..to.
typedef struct dv_span {
    int32_t from, to;
} dv_span;

// A valley and its walls.
static inline dv_span dv_span_around(int32_t l, int32_t r)
{
    return (dv_span){l - 1, r + 1};
}

static inline void dv_span_widen(dv_span *to, dv_span by)
{
    if (by.from < to->from)
        to->from = by.from;
    if (by.to > to->to)
        to->to = by.to;
}

// -- Failed states (pack_failed.c) -------------------------------------------

// Floors above which the open items with some hash could not be placed.
typedef struct dv_failed {
    int32_t *bucket;
    struct dv_failure *all;
    int64_t *pool;  // floors
    int32_t n, max; // failures; as many buckets
    int64_t n_pool, max_pool;
} dv_failed;

// 0: out of memory.
int dv_failed_init(dv_failed *f, int32_t n_secs);
void dv_failed_free(dv_failed *f);
// Has a state with this hash failed on floors nowhere higher? *why: where.
int dv_failed_find(const dv_failed *f, uint64_t hash, const int64_t *floors,
                   int32_t n_secs, dv_span *why);
// When the room is used up, all is forgotten.
void dv_failed_add(dv_failed *f, uint64_t hash, const int64_t *floors,
                   int32_t n_secs, dv_span why);

// -- The state ---------------------------------------------------------------

// What is known about the run of equal floors that starts at a section.
typedef struct dv_spot {
    int32_t last;      // its right end
    int32_t n_options; // of its better edge, -1: not a valley
    int32_t right;     // that edge is the right one
    int64_t up;        // the edge raised, -1: no room for that
    int64_t score;     // the lowest is taken
} dv_spot;

typedef struct dv_move {
    int32_t item; // -1: a raise
    int32_t a, z; // sections
    dv_span why;  // what made it
    int64_t from; // their floor before, -1: melted
} dv_move;

// A part that stands alone.
typedef struct dv_range {
    int32_t lo, hi, n_open;
    uint64_t hash;
} dv_range;

struct dv_valley {
    dv_arena arena;
    const dv_part *p;
    int32_t *begin; // items that start in s: begin[s]..begin[s+1]
    int32_t *ends;  // items that end in s: ends[end_of[s]..end_of[s+1])
    int32_t *end_of;
    uint64_t *open; // a bit per item
    uint64_t *key;  // hash of an item; equal items have equal keys
    int32_t *rank, *order;
    unsigned char *twin; // the item before it is the same
    int64_t *floor, *slack, *load;
    int32_t *cross; // open items in both s and s + 1
    dv_spot *spots;
    unsigned char *dirty; // the spot must be looked at again
    int32_t *fails;       // failed branches at a section
    dv_move *trail;
    int32_t n_trail, max_trail;
    dv_range *ranges;
    int32_t n_ranges;
    // The part worked on.
    int32_t lo, hi, n_open;
    uint64_t hash;
    int64_t lift; // melted into the floors
    dv_span why;  // the last failure: nothing else has to do with it
    dv_failed failed;
    // This try.
    dv_valley_rule rule;
    int64_t budget;
    dv_pack_run *run;
};

static inline int dv_is_open(const dv_valley *v, int32_t i)
{
    return (int)(v->open[i >> 6] >> (i & 63) & 1);
}

// Among equal items only the first open one is tried.
static inline int dv_is_choice(const dv_valley *v, int32_t i)
{
    return dv_is_open(v, i) && !(v->twin[i] && dv_is_open(v, i - 1));
}

// -- The skyline (pack_skyline.c) --------------------------------------------

void dv_sky_put_back(dv_valley *v, int32_t i);
void dv_sky_place(dv_valley *v, int32_t i, int64_t floor, dv_span why);
// An item that spans the part goes to the ceiling.
void dv_sky_melt(dv_valley *v, int32_t i);
// Nothing rests on sections a..z: all have one floor. 0: no room for that.
int dv_sky_raise(dv_valley *v, int32_t a, int32_t z, int64_t to, dv_span why);
// Take back all moves after the first n_trail.
void dv_sky_undo(dv_valley *v, int32_t n_trail);

typedef enum dv_end {
    DV_END_FAIL,
    DV_END_SOLVED,
    DV_END_STOP,
    DV_END_OPEN
} dv_end;

// Do all that is forced.
dv_end dv_sky_settle(dv_valley *v);
// The valley to branch on; there is one in a settled part that is open.
int32_t dv_sky_best(const dv_valley *v);
// The next item by rank that rests at the edge of the valley l..r, or -1.
int32_t dv_sky_next(const dv_valley *v, int32_t l, int32_t r, int right,
                    int32_t after);
#endif
