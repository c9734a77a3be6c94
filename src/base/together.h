// Work in parts that wait for nothing of each other, side by side.
#ifndef DV_TOGETHER_H
#define DV_TOGETHER_H
#include <stdint.h>

// Parts 0..n of a job, each once, on up to n threads, part 0 on the caller's;
// one behind the other where there are none (fork.h). Returns when all are
// done.
void dv_together(void (*part)(void *job, int32_t i), void *job, int32_t n);
// Several jobs one behind the other, with the same threads: all parts of one
// are done before the next begins.
typedef struct dv_together_step {
    void (*part)(void *job, int32_t i);
    void *job;
} dv_together_step;
void dv_together_steps(const dv_together_step *steps, int count, int32_t n);
#endif
