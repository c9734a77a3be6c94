// Counts what really happens: MPI's profiling interface counts requests and
// bytes, and the linker's --wrap counts divvy's own calls of the allocator.
#ifndef DV_WITNESS_H
#define DV_WITNESS_H
#include <stdint.h>

typedef struct witness {
    int64_t prepared;   // persistent requests created
    int64_t started;    // starts of persistent requests
    int64_t bytes_sent; // by persistent requests
    int64_t others;     // messages without a persistent request
    int64_t allocated; // calls of malloc and its relatives by divvy, not by MPI
} witness;

extern witness seen; // the counts of this process so far
#endif
