// What mkl.py calls, in one shared library: plans of given types and settings,
// and runs of them and of the machine's peak, timed.
#define _POSIX_C_SOURCE 200809L
#include "base/dtype.h"
#include "jit/gemm/gemm.h"
#include "jit/backend.h"
#include "jit/peak.h"
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT const char *bench_isa(void);
EXPORT int bench_options_bytes(void);
EXPORT dv_gemm_plan *bench_plan(int size, const char *type, const char *out,
                                const dv_gemm_options *options);
EXPORT void bench_free(dv_gemm_plan *plan);
EXPORT double bench_run(dv_gemm_plan *plan, const void *a, const void *b,
                        void *c, int count);
EXPORT double bench_peak(int threads, double seconds, const char *type);

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

// Whoever passes options must mean the same struct.
int bench_options_bytes(void)
{
    return (int)sizeof(dv_gemm_options);
}

static dv_dtype type_of(const char *name)
{
    return !strcmp(name, "bf16")  ? DV_BF16
           : !strcmp(name, "f16") ? DV_F16
           : !strcmp(name, "i8")  ? DV_I8
                                  : DV_F32;
}

// Square; `out` is how C is stored, "" as the sums are.
dv_gemm_plan *bench_plan(int size, const char *type, const char *out,
                         const dv_gemm_options *options)
{
    dv_gemm_plan *plan = NULL;
    dv_gemm_shape s = {.m = size, .n = size, .k = size};
    dv_jit *jit = dv_jit_shared();
    s.dtype = (uint8_t)type_of(type);
    s.ctype = (uint8_t)(*out ? type_of(out) : 0);
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
double bench_peak(int threads, double seconds, const char *type)
{
    enum { TURNS = 10000 };
    dv_peak *p;
    if (dv_peak_create(&p, type_of(type), NULL))
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
