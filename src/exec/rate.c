// Measures the peak rates of the machine; exec.h describes them.
#define _POSIX_C_SOURCE 200809L // declares clock_gettime
#include "exec/exec.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/mem.h"
#include "jit/peak.h"
#include <string.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

// There are many short tries, so that at least one falls between the time
// slices of other processes.
enum { PEAK_TRIES = 25, COPY_TRIES = 9 };

static double now_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Sets *id to the number of the calling thread and *n to the number of threads.
static void who(int32_t *id, int32_t *n)
{
    *id = 0;
    *n = 1;
#ifdef _OPENMP
    *id = omp_get_thread_num();
    *n = omp_get_num_threads();
#endif
}

// Returns the iterations per second of the calling thread's CPU time, which
// excludes the time that other processes take on its core.
static double iteration_rate(const dv_peak *p, int64_t turns)
{
    double start = now_of(CLOCK_THREAD_CPUTIME_ID);
    dv_peak_run(p, turns);
    double s = now_of(CLOCK_THREAD_CPUTIME_ID) - start;
    return s > 0 ? (double)turns / s : 0;
}

// Returns the sum of iteration_rate over all threads, which run at the same
// time.
static double iteration_rates(const dv_peak *p, int64_t turns, int32_t threads)
{
    double sum = 0;
    if (threads == 1 || !dv_has_threads())
        return iteration_rate(p, turns);
#pragma omp parallel num_threads(threads)
    {
        double mine = iteration_rate(p, turns);
#pragma omp atomic
        sum += mine; // an OpenMP reduction would export a symbol with clang
    }
    return sum;
}

double dv_rate_peak(dv_dtype dtype, int32_t threads)
{
    dv_peak *p = NULL;
    double best = 0;
    int64_t turns = 1000;
    if (dv_peak_create(&p, dtype, NULL))
        return 0;
    for (int k = 0; k < PEAK_TRIES;) {
        double start = dv_clock_s();
        double rate = iteration_rates(p, turns, threads);
        // If the run was too short to measure, repeat it with twice as many
        // iterations.
        if (dv_clock_s() - start < 2e-3 && turns < INT64_MAX / 4) {
            turns *= 2;
            continue;
        }
        best = rate > best ? rate : best;
        k++;
    }
    best *= dv_peak_flops(p) / 1e9;
#ifdef _OPENMP
    // If there are more threads than processors, each runs only part of the
    // time, so the sum of their rates is scaled down.
    if (threads > omp_get_num_procs())
        best *= (double)omp_get_num_procs() / threads;
#endif
    dv_peak_destroy(p);
    return best;
}

// Copies part `id` of n equal parts of an array, `times` times.
static void copy_part(char *to, const char *from, int64_t bytes, int64_t times,
                      int32_t id, int32_t n)
{
    int64_t begin = bytes / n * id;
    int64_t end = id == n - 1 ? bytes : begin + bytes / n;
    for (int64_t i = 0; i < times; i++)
        memcpy(to + begin, from + begin, (size_t)(end - begin));
}

static void run_copy(char *to, const char *from, int64_t bytes, int64_t times,
                     int32_t threads)
{
    if (threads == 1 || !dv_has_threads()) {
        copy_part(to, from, bytes, times, 0, 1);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        int32_t id, n;
        who(&id, &n);
        copy_part(to, from, bytes, times, id, n);
    }
}

double dv_rate_copy(int64_t bytes, int32_t threads)
{
    double best = 0;
    char *from = dv_alloc((size_t)bytes), *to = dv_alloc((size_t)bytes);
    int64_t times = 1;
    if (from && to) {
        memset(from, 1, (size_t)bytes);
        memset(to, 2, (size_t)bytes);
    }
    for (int k = 0; from && to && k < COPY_TRIES;) {
        double start = dv_clock_s();
        run_copy(to, from, bytes, times, threads);
        double s = dv_clock_s() - start;
        if (s < 2e-3) {
            times *= 2;
            continue;
        }
        double rate = 2 * (double)bytes * (double)times / s / 1e9;
        best = rate > best ? rate : best;
        k++;
    }
    dv_release(from);
    dv_release(to);
    return best;
}
