// Cuts the lifetimes of buffers into pieces at the uses where they may be
// spilled and reloaded. The rules are explained in cut.c.
#ifndef DV_CUT_H
#define DV_CUT_H
#include "place/place.h"

typedef struct dv_place_cut {
    // The pieces (parts of a buffer's lifetime between two possible spills), as
    // buffers of their own with own weights.
    dv_buffer *pieces;
    // For each piece of a lifetime, the buffer that it belongs to; pieces are
    // sorted by buffer and time.
    int32_t *owner;
    // For each piece, the number of the epoch that it belongs to: the time from
    // a write to the last read of the written value.
    int32_t *epoch;
    // For the first piece of an epoch (the time in which a buffer holds one
    // value): the weight that counts only if all pieces of the epoch are
    // placed, because only then the value need not be written to main memory.
    int64_t *bonus;
    int32_t n;
} dv_place_cut;

// Cuts every buffer at its writes, so that each piece is an epoch (from a write
// to the last read of the value); with `gaps`, also cuts between all uses.
// Returns 0 when out of memory.
int dv_cut_make(dv_place_cut *out, const dv_buffer *buffers, size_t n, int gaps,
                dv_arena *arena);
// Returns the total weight of the pieces that have an address. The bonus of an
// epoch (the time in which a buffer holds one value) counts only if all of its
// pieces have one.
int64_t dv_cut_value(const dv_place_cut *cut, const int64_t *at);
#endif
