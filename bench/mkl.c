// What mkl.py calls, in one shared library: f32 plans of given settings, and
// runs of them and of the machine's peak, timed.
#define _POSIX_C_SOURCE 200809L
#include "base/dtype.h"
#include "jit/gemm.h"
#include "jit/host.h"
#include "jit/peak.h"
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT const char *bench_isa(void);
EXPORT dv_gemm_plan *bench_plan(int m, int n, int k,
                                const dv_gemm_options *options);
EXPORT void bench_free(dv_gemm_plan *plan);
EXPORT double bench_run(dv_gemm_plan *plan, const void *a, const void *b,
                        void *c, int count);
EXPORT double bench_peak(int threads, double seconds);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *bench_isa(void)
{
    const dv_isa *isa = dv_isa_host();
    return isa ? isa->name : NULL;
}

dv_gemm_plan *bench_plan(int m, int n, int k, const dv_gemm_options *options)
{
    dv_gemm_plan *plan = NULL;
    dv_gemm_shape s = {.m = m, .n = n, .k = k, .dtype = DV_F32};
    dv_jit *jit = dv_jit_shared();
    return jit && !dv_gemm_plan_create(&plan, jit, &s, options, NULL) ? plan
                                                                      : NULL;
}

void bench_free(dv_gemm_plan *plan)
{
    dv_gemm_plan_destroy(plan);
}

// Seconds of one product.
double bench_run(dv_gemm_plan *plan, const void *a, const void *b, void *c,
                 int count)
{
    double t = now();
    for (int i = 0; i < count; i++)
        dv_gemm_run(plan, a, b, c, NULL);
    return (now() - t) / count;
}

// GFLOP/s over about so many seconds.
double bench_peak(int threads, double seconds)
{
    enum { TURNS = 10000 };
    dv_peak *p;
    if (dv_peak_create(&p, DV_F32, NULL))
        return 0;
    double t = now();
    dv_peak_run(p, TURNS);
    int64_t turns = (int64_t)(TURNS * seconds / (now() - t)) + 1;
    t = now();
#pragma omp parallel num_threads(threads)
    dv_peak_run(p, turns);
    double rate =
        dv_peak_flops(p) * (double)turns * threads / (now() - t) / 1e9;
    dv_peak_destroy(p);
    return rate;
}
