// Addresses in one memory for buffers that are alive in ranges of ticks; two
// that are alive together never share a byte. What does not fit is left out,
// and the weight of what is kept is made as large as can be. Uses nothing
// else of divvy:
//
//   dv_buffer b[2] = {DV_BUFFER_INIT, DV_BUFFER_INIT};
//   b[0].size_bytes = b[1].size_bytes = 64;
//   b[0].end = 3;                       // alive in [0, 3)
//   b[1].start = 3, b[1].end = 5;
//   dv_place_options options = DV_PLACE_OPTIONS_INIT;
//   options.capacity_bytes = 100;
//   dv_placement *p = NULL;
//   if (dv_place(&p, b, 2, &options, NULL) == DV_OK)
//       use(p->addresses[0], p->addresses[1]);        // 0 and 0
//   dv_placement_destroy(p);
#ifndef DIVVY_PLACE_H
#define DIVVY_PLACE_H
#include "divvy/divvy.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dv_use {
    int64_t tick;
    int writes; // overwrites all of the buffer; 0: reads it
} dv_use;

typedef struct dv_buffer {
    const char *name; // for messages; may be NULL
    int64_t size_bytes;
    int64_t start, end;  // alive in [start, end)
    int64_t align_bytes; // of its address; 0: as the options say
    int64_t fixed;       // its address: a reserved range; -1: free
    // Bytes of main memory traffic saved when it is kept; -1: one transfer for
    // every use, less the first when that is a read; size_bytes without uses.
    int64_t weight;
    const dv_use *uses; // strictly increasing, inside [start, end); optional
    size_t n_uses;
    int first_use_is_read; // it comes from outside; else the first use writes
    // Buffers whose place it may take over, best first. They are read for the
    // last time in the tick that writes it: their end is its start + 1.
    const int32_t *parents;
    size_t n_parents;
    int32_t group;      // all buffers of a group are kept, or none; 0: no group
    const char *barred; // why it may not be placed; NULL: it may
} dv_buffer;
#define DV_BUFFER_INIT                                                         \
    {                                                                          \
        NULL, 0, 0, 0, 0, -1, -1, NULL, 0, 0, NULL, 0, 0, NULL                 \
    }

typedef struct dv_place_options {
    size_t size;
    int64_t capacity_bytes;
    int64_t align_bytes; // of every address; 0: 1
    dv_solver solver;
    int64_t budget;      // steps of search, the same everywhere; 0: the usual
    double time_limit_s; // stop earlier, whatever is left of it; 0: never
    uint64_t seed;
    // Buffers may leave between uses and come back, at the cost of the reads
    // and writes of main memory that this takes; the answer comes as stays.
    int evict;
    // Nothing may be left out: auto and exact first try hard to place all. If
    // that fails the answer is what could be kept.
    int must_fit;
} dv_place_options;
#define DV_PLACE_OPTIONS_INIT                                                  \
    {                                                                          \
        sizeof(dv_place_options), 0, 0, (dv_solver)0, 0, 0, 0, 0, 0            \
    }

// A buffer at an address for some time.
typedef struct dv_stay {
    int32_t buffer;
    int64_t start, end; // in [start, end)
    int64_t address;
} dv_stay;

typedef struct dv_placement {
    size_t n_buffers;
    const int64_t *addresses;   // of each buffer's first stay; -1: it has none
    const char *const *reasons; // why it has none; NULL: it has
    const dv_stay *stays;       // by buffer, then start
    size_t n_stays;
    const char *solver; // that found this
    int64_t value;      // weight kept; with evict less what leaving costs
    int64_t bound;      // no placement has a larger value
    double gap;         // (bound - value) / bound
    int64_t peak_bytes; // highest byte in use
    int64_t nodes;      // steps of search that were made
} dv_placement;

// Returns the name of a solver, as plans and the command use it; NULL: there is
// none.
DV_API const char *dv_solver_name(dv_solver solver);
// Place buffers. Strings (names, barred) are borrowed until
// dv_placement_destroy.
DV_API dv_status dv_place(dv_placement **out, const dv_buffer *buffers,
                          size_t n_buffers, const dv_place_options *options,
                          dv_diag *diag);
// All buffers in as little memory as can be found: peak_bytes of the
// placement. No less than *proven_bytes will do. The capacity of the options
// is not used, and barred buffers are not placed.
DV_API dv_status dv_place_least(dv_placement **out, int64_t *proven_bytes,
                                const dv_buffer *buffers, size_t n_buffers,
                                const dv_place_options *options, dv_diag *diag);
// Prove a placement: no two buffers share a byte but parent and child in the
// one tick of a hand-over, every address is aligned and below the capacity,
// fixed buffers are where they must be, groups are whole, what is barred is
// out. DV_E_CHECK names what is wrong.
DV_API dv_status dv_placement_check(const dv_placement *placement,
                                    const dv_buffer *buffers,
                                    const dv_place_options *options,
                                    dv_diag *diag);
DV_API void dv_placement_destroy(dv_placement *placement);

#ifdef __cplusplus
}
#endif
#endif
