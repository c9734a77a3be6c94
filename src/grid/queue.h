// Hands out tiles at run time: from one counter for all cores (ticket), or from
// one range per core that other cores may steal from (steal). Every tile is
// handed out once.
//
//   dv_queue q;
//   if (!dv_queue_init(&q, n_tiles, n_cores, chunk, steal)) ...  // no memory
//   // on core i:
//   while (dv_queue_next(&q, i, &first, &count))
//       run tiles first..first+count
//   dv_queue_free(&q);
//
// A core takes chunks from the begin of its own range. When its range is empty,
// it visits the cores after it in circular order, steals the later half of the
// first nonempty range, returns one chunk of it and stores the remainder as its
// own range. No range ever returns to an earlier pair of ends, because begins
// only advance as tiles are handed out; so compare-and-swap has no ABA problem.
#ifndef DV_QUEUE_H
#define DV_QUEUE_H
#include <stdatomic.h>
#include <stdint.h>

// Both ends of a range, the begin in the high half. The padding avoids false
// sharing of a cache line.
typedef struct dv_queue_range {
    _Atomic uint64_t ends;
    char pad[56];
} dv_queue_range;

typedef struct dv_queue {
    // Owned; one range per core, of which ticket uses only the first.
    dv_queue_range *ranges;
    int32_t n_cores;
    int steal;
    uint32_t chunk, n_tiles;
} dv_queue;

// Creates a queue of at most 2^31 - 1 tiles, which also limits later resets.
// Returns 0 if there are more or out of memory.
int dv_queue_init(dv_queue *q, int64_t n_tiles, int32_t n_cores, int64_t chunk,
                  int steal);
// Refills the queue with n_tiles tiles. No core may call dv_queue_next
// meanwhile.
void dv_queue_reset(dv_queue *q, int64_t n_tiles, int64_t chunk, int steal);
// Gets the next range of tiles for a core. Returns 0 if no tiles are left.
int dv_queue_next(dv_queue *q, int32_t core, int64_t *first, int64_t *count);
void dv_queue_free(dv_queue *q);
#endif
