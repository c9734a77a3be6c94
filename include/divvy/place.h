// Assigns addresses in one memory to buffers. Each buffer is alive in a range
// of ticks (time steps), and two buffers that are alive at the same time never
// share a byte. Buffers that do not fit are left out, so that the total weight
// of the placed buffers is as large as possible. It needs no other part of
// divvy:
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

// One read or write of a buffer.
typedef struct dv_use {
    int64_t tick;
    int writes; // 1: overwrites the whole buffer; 0: reads it
} dv_use;

// A buffer to be placed. Initialise it with DV_BUFFER_INIT: a buffer cleared
// with memset would have the fixed address 0 and the weight 0.
typedef struct dv_buffer {
    const char *name; // for messages; may be NULL
    int64_t size_bytes;
    int64_t start, end;    // alive in [start, end)
    int64_t align_bytes;   // alignment of its address; 0: as the options say
    int64_t fixed_address; // for a reserved range; -1: any address
    // Bytes of main memory traffic saved if the buffer is placed. -1: computed
    // as the buffer's size times the number of its uses, not counting a first
    // use that reads; the size if it has no uses.
    int64_t weight;
    const dv_use *uses; // strictly increasing, inside [start, end); optional
    size_t n_uses;
    // 1: the first use reads contents that come from main memory; 0: it writes
    // them. Must agree with uses[0] if there are uses.
    int first_use_is_read;
    // Buffers whose memory this one may reuse, best first. Each is read for the
    // last time in the tick in which this one is written, so that its end is
    // this buffer's start + 1.
    const int32_t *parents;
    size_t n_parents;
    int32_t group; // all buffers of a group are placed, or none; 0: no group
    const char *barred; // why it may not be placed; NULL: it may
} dv_buffer;
#define DV_BUFFER_INIT                                                         \
    {                                                                          \
        NULL, 0, 0, 0, 0, -1, -1, NULL, 0, 0, NULL, 0, 0, NULL                 \
    }

typedef struct dv_place_options {
    size_t size;
    int64_t capacity_bytes;
    int64_t align_bytes; // alignment of every address; 0 means 1
    dv_solver solver;
    int64_t budget;      // maximum number of search steps; 0: default
    double time_limit_s; // stop the search after this time; 0: no limit
    uint64_t seed;
    // 1: buffers may be evicted between uses and reloaded, at the cost of the
    // main memory traffic. The `stays` of the result say when each buffer is in
    // memory, and at which address.
    int evict;
    // 1: all buffers should be placed. The solvers auto and exact then first
    // try that; if it fails, the result has those that could be placed.
    int must_fit;
} dv_place_options;
#define DV_PLACE_OPTIONS_INIT                                                  \
    {                                                                          \
        sizeof(dv_place_options), 0, 0, (dv_solver)0, 0, 0, 0, 0, 0            \
    }

// A stay: a buffer is at an address for a range of ticks.
typedef struct dv_stay {
    int32_t buffer;
    int64_t start, end; // ticks start to end - 1
    int64_t address;
} dv_stay;

typedef struct dv_placement {
    size_t n_buffers;
    const int64_t *addresses;   // first address of each buffer; -1: not placed
    const char *const *reasons; // why each is not placed; NULL: it is placed
    const dv_stay *stays;       // sorted by buffer, then start
    size_t n_stays;
    const char *solver; // name of the solver that found the result
    int64_t value;      // placed weight; with evict minus the cost of evictions
    int64_t bound;      // upper bound on the value of any placement
    double gap;         // (bound - value) / bound
    int64_t peak_bytes; // end of the highest byte in use
    int64_t steps;      // number of search steps made
} dv_placement;

// Returns the name of a solver as it is written in plans and options; NULL if
// there is no such solver.
DV_API const char *dv_solver_name(dv_solver solver);
// Assigns addresses in the memory to buffers. The buffers' strings (`name` and
// `barred`) are borrowed until dv_placement_destroy.
DV_API dv_status dv_place(dv_placement **out, const dv_buffer *buffers,
                          size_t n_buffers, const dv_place_options *options,
                          dv_diag *diag);
// Places all buffers in as little memory as it can find; the field peak_bytes
// of the placement says how much that is. *proven_bytes is a proven lower bound
// on the memory needed; proven_bytes may be NULL. The capacity in the options
// is ignored, and barred buffers are not placed.
DV_API dv_status dv_place_least(dv_placement **out, int64_t *proven_bytes,
                                const dv_buffer *buffers, size_t n_buffers,
                                const dv_place_options *options, dv_diag *diag);
// Checks a placement. No two live buffers share a byte, except a buffer and the
// parent whose memory it reuses, in the tick that writes it. Addresses are
// aligned and inside the capacity, fixed buffers are at their addresses, groups
// are complete, and barred buffers are not placed. Fails with DV_E_CHECK and
// what is wrong.
DV_API dv_status dv_placement_check(const dv_placement *placement,
                                    const dv_buffer *buffers,
                                    const dv_place_options *options,
                                    dv_diag *diag);
DV_API void dv_placement_destroy(dv_placement *placement);

#ifdef __cplusplus
}
#endif
#endif
