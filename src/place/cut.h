// Buffers cut where they may leave memory and come back: see cut.c.
#ifndef DV_CUT_H
#define DV_CUT_H
#include "place/place.h"

typedef struct dv_place_cut {
    dv_buffer *pieces; // each with its own weight
    int32_t *owner;    // the buffer each is a piece of; pieces are in order
    int32_t *epoch;    // number of the epoch each belongs to
    int64_t *bonus;    // on an epoch's first piece: counted if all are kept
    int32_t n;
} dv_place_cut;

// At writes only: pieces are epochs. With `gaps` also between all uses.
// 0 when out of memory.
int dv_cut_make(dv_place_cut *out, const dv_buffer *buffers, size_t n, int gaps,
                dv_arena *arena);
// What the pieces that are kept are worth.
int64_t dv_cut_value(const dv_place_cut *cut, const int64_t *at);
#endif
