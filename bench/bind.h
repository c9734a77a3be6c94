// Threads on cores of their own. Needs _GNU_SOURCE.
#ifndef DV_BENCH_BIND_H
#define DV_BENCH_BIND_H
#include <sched.h>
#ifdef _OPENMP
#include <omp.h>
#endif

// The calling thread to a core; below 0: to all of them again.
static inline void bind(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (core < 0 || i == (size_t)core)
            CPU_SET(i, &set);
    sched_setaffinity(0, sizeof set, &set);
}

// A team's threads, one each: left to themselves they may share a core for as
// long as a run takes.
static inline void bind_team(int threads)
{
    (void)threads;
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
    bind(omp_get_thread_num());
#endif
}
#endif
