// Runs independent parts of a job in parallel.
#ifndef DV_TOGETHER_H
#define DV_TOGETHER_H
#include <stdint.h>

// Runs parts 0..n of a job, each once, on up to n threads, part 0 on the
// calling thread; runs them one after another if threads cannot be used
// (fork.h). Returns when all are done.
void dv_parallel_for(void (*part)(void *job, int32_t i), void *job, int32_t n);
// Runs several jobs one after another on the same threads: all parts of one job
// are done before the next job starts.
typedef struct dv_parallel_step {
    void (*part)(void *job, int32_t i);
    void *job;
} dv_parallel_step;
void dv_parallel_steps(const dv_parallel_step *steps, int count, int32_t n);
#endif
