// The clock and the machine's peak, as the drivers have them.
#ifndef DV_BENCH_PEAK_H
#define DV_BENCH_PEAK_H
#include "jit/peak.h"
#include <time.h>

// With one thread its own time, so that others on the machine count less.
static inline double seconds(int threads)
{
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// GFLOP/s of chains of the type's multiply-add in registers, the best of some.
static inline double best_peak(dv_dtype type, int threads)
{
    enum { TURNS = 300000, ROUNDS = 15 };
    dv_peak *p;
    double best = 0;
    if (dv_peak_create(&p, type, NULL))
        return 0;
    for (int r = 0; r < ROUNDS; r++) {
        double t = seconds(threads);
#pragma omp parallel num_threads(threads)
        dv_peak_run(p, TURNS);
        t = seconds(threads) - t;
        double f = dv_peak_flops(p) * TURNS * threads / t / 1e9;
        best = f > best ? f : best;
    }
    dv_peak_destroy(p);
    return best;
}
#endif
