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

// The begin (high half) and end (low half) of a range of tiles. The padding
// puts each range into its own cache line to avoid false sharing.
typedef struct dv_queue_range {
    _Atomic uint64_t ends;
    char pad[56];
} dv_queue_range;

typedef struct dv_queue {
    // One range of tiles per core, owned by the queue. If all cores take tiles
    // from one shared counter (ticket), only the first range is used.
    dv_queue_range *ranges;
    int32_t n_cores;
    int steal;
    uint32_t chunk, n_tiles;
} dv_queue;

// Creates a queue that hands out n_tiles tiles to cores, `chunk` at a time.
// Returns 0 if n_tiles exceeds 2^31 - 1 or memory is exhausted. That limit also
// holds for later resets.
int dv_queue_init(dv_queue *q, int64_t n_tiles, int32_t n_cores, int64_t chunk,
                  int steal);
// Refills the queue with n_tiles tiles. No core may call dv_queue_next
// meanwhile.
void dv_queue_reset(dv_queue *q, int64_t n_tiles, int64_t chunk, int steal);
// Gets the next range of tiles for a core. Returns 0 if no tiles are left.
int dv_queue_next(dv_queue *q, int32_t core, int64_t *first, int64_t *count);
void dv_queue_free(dv_queue *q);
#endif
