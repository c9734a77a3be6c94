// What mkl.py calls, in one shared library: nests of given types and settings,
// and runs of them and of the machine's peak, timed.
#define _POSIX_C_SOURCE 200809L
#include "jit/backend.h"
#include "jit/peak.h"
#include "divvy/nest.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT const char *bench_isa(void);
EXPORT dv_contract *bench_nest(int size, const char *type, int threads,
                               int64_t l1_bytes, int64_t l2_bytes);
EXPORT void bench_free(dv_contract *nest);
EXPORT double bench_run(dv_contract *nest, const void *a, const void *b,
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

// A product of square row-major matrices of a type. Results are of that type,
// but i32 for i8. Caches of 0 bytes are those of the machine.
dv_contract *bench_nest(int size, const char *type, int threads,
                        int64_t l1_bytes, int64_t l2_bytes)
{
    dv_contract_options o = DV_CONTRACT_OPTIONS_INIT;
    dv_contract *c = NULL;
    dv_nest *n = NULL;
    char text[400];
    int whole = !strcmp(type, "i8");
    int len = snprintf(text, sizeof text,
                       "nest c %s { first zero main gemm %s"
                       " m %d seq: in0 %d, out %d n %d seq: in1 1, out 1"
                       " k %d seq: in0 1, in1 %d }",
                       whole ? "i32" : type, whole ? "in0 i8 in1 i8" : "", size,
                       size, size, size, size, size);
    o.threads = threads;
    o.l1_bytes = l1_bytes;
    o.l2_bytes = l2_bytes;
    if (dv_nest_parse(&n, text, (size_t)len, "bench", NULL) == DV_OK)
        dv_contract_create(&c, NULL, n, &o, NULL);
    dv_nest_destroy(n);
    return c;
}

void bench_free(dv_contract *nest)
{
    dv_contract_destroy(nest);
}

// Seconds of one product.
double bench_run(dv_contract *nest, const void *a, const void *b, void *c,
                 int count)
{
    double t = now();
    for (int i = 0; i < count; i++)
        dv_contract_run(nest, a, b, NULL, c, NULL);
    return (now() - t) / count;
}

// GFLOP/s over about so many seconds.
double bench_peak(int threads, double seconds, const char *type)
{
    enum { TURNS = 10000 };
    dv_dtype t = !strcmp(type, "bf16")  ? DV_BF16
                 : !strcmp(type, "f16") ? DV_F16
                 : !strcmp(type, "i8")  ? DV_I8
                                        : DV_F32;
    dv_peak *p;
    if (dv_peak_create(&p, t, NULL))
        return 0;
    double begin = now();
    dv_peak_run(p, TURNS);
    int64_t turns = (int64_t)(TURNS * seconds / (now() - begin)) + 1;
    begin = now();
#pragma omp parallel num_threads(threads)
    dv_peak_run(p, turns);
    double rate =
        dv_peak_flops(p) * (double)turns * threads / (now() - begin) / 1e9;
    dv_peak_destroy(p);
    return rate;
}
