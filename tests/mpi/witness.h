// What really happens, seen from outside: MPI's profiling interface counts
// requests and bytes, the linker's --wrap divvy's own calls of the allocator.
#ifndef DV_WITNESS_H
#define DV_WITNESS_H
#include <stdint.h>

typedef struct witness {
    int64_t prepared;   // persistent requests made
    int64_t started;    // times that one was started
    int64_t bytes_sent; // by those
    int64_t others;     // messages that were no persistent requests
    int64_t allocated;  // calls of malloc and its kin by divvy, not by MPI
} witness;

extern witness seen; // so far, by this process
#endif
