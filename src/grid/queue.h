// Tiles handed out while they run: one counter for all (ticket), or a queue per
// core that others may take from (steal). Every tile is handed out once.
//
//   dv_queue q;
//   if (!dv_queue_init(&q, n_tiles, n_cores, chunk, steal)) …   // memory
//   // on core i:
//   while (dv_queue_next(&q, i, &first, &count))
//       run tiles first..first+count
//   dv_queue_free(&q);
//
// A core takes chunks from the begin of its own range. With nothing left it
// looks at the cores after it, in turn, takes the later half of what the first
// with work has, runs a chunk of that and keeps the rest as its own range.
// A range only ever loses its begin by being run, so that the same two ends
// never come back and compare-and-swap is enough.
#ifndef DV_QUEUE_H
#define DV_QUEUE_H
#include <stdatomic.h>
#include <stdint.h>

// Ends of a range, begin in the high half; alone in its cache line.
typedef struct dv_queue_range {
    _Atomic uint64_t ends;
    char pad[56];
} dv_queue_range;

typedef struct dv_queue {
    dv_queue_range *ranges; // owned; one a core, of which tickets use one
    int32_t n_cores;
    int steal;
    uint32_t chunk, n_tiles;
} dv_queue;

// At most 2^31 tiles, also in later resets. 0: there are more, or out of
// memory.
int dv_queue_init(dv_queue *q, int64_t n_tiles, int32_t n_cores, int64_t chunk,
                  int steal);
// All tiles once more, of another number: nobody may be taking any.
void dv_queue_reset(dv_queue *q, int64_t n_tiles, int64_t chunk, int steal);
// The next tiles of a core. 0: there are none left.
int dv_queue_next(dv_queue *q, int32_t core, int64_t *first, int64_t *count);
void dv_queue_free(dv_queue *q);
#endif
