// Runs independent parts of a job in parallel.
#ifndef DV_TOGETHER_H
#define DV_TOGETHER_H
#include <stdint.h>

// Runs parts 0..n of a job, each once, on up to n threads, part 0 on the
// calling thread; runs them one after another if threads cannot be used
// (fork.h). Returns when all are done.
void dv_parallel_for(void (*part)(void *job, int32_t i), void *job, int32_t n);
#endif
