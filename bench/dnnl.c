// Whole statements beside oneDNN: programs of the language, planned for this
// machine and run, and the peer's primitive for the same work, in turn.
//
//   dnnl [-t THREADS] [-r REPEATS] [ROWSxCOLS]...
//
// Medians of the repeats and between what half of them are, wall clock, and the
// share of the peak or of a copy, measured in the same run. Results are
// compared first: a peer that computes something else is no peer.
#define _POSIX_C_SOURCE 200809L
#include "divvy/divvy.h"
#include "median.h"
#include "usage.h"
#include "exec/exec.h"
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int threads = 1, repeats = 41;
static dnnl_engine_t engine;
static dnnl_stream_t stream;
static double peak_rate, copy_rate; // GFLOP/s; GB/s at the size at hand

static void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_dnnl: %s: %s\n", what, why);
    exit(1);
}

static void peer_ok(dnnl_status_t st, const char *what)
{
    if (st != dnnl_success)
        die(what, "the peer refuses");
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// -- Ours ------------------------------------------------------------------

typedef struct program {
    dv_plan *plan;
    dv_exec *exec;
} program;

static program make(const char *text)
{
    dv_diag *diag = dv_diag_create();
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_program *p = NULL;
    dv_target *t = NULL;
    program out = {0};
    o.threads = threads;
    if (dv_program_parse(&p, text, strlen(text), "bench", NULL, 0, diag) ||
        dv_target_load(&t, "host", diag) ||
        dv_plan_create(&out.plan, p, t, &o, diag) ||
        dv_exec_create(&out.exec, out.plan, diag))
        die("plan", dv_diag_text(diag));
    dv_program_destroy(p);
    dv_target_destroy(t);
    dv_diag_destroy(diag);
    return out;
}

static void bind(const program *p, const char *name, float *data, size_t n)
{
    if (dv_exec_bind(p->exec, name, data, n * sizeof *data, NULL) != DV_OK)
        die("bind", name);
}

// -- Theirs ----------------------------------------------------------------

typedef struct peer {
    dnnl_primitive_t run;
    dnnl_exec_arg_t args[4];
    int n_args;
} peer;

static dnnl_memory_desc_t matrix(int64_t rows, int64_t cols)
{
    dnnl_memory_desc_t d;
    dnnl_dims_t dims = {rows, cols};
    peer_ok(dnnl_memory_desc_init_by_tag(&d, 2, dims, dnnl_f32, dnnl_ab),
            "layout");
    return d;
}

static void arg(peer *p, int which, const dnnl_memory_desc_t *d, float *data)
{
    dnnl_memory_t m;
    peer_ok(dnnl_memory_create(&m, d, engine, data), "memory");
    p->args[p->n_args++] = (dnnl_exec_arg_t){which, m};
}

static void finish(peer *p, const void *desc, const char *name)
{
    dnnl_primitive_desc_t pd;
    peer_ok(dnnl_primitive_desc_create(&pd, desc, NULL, engine, NULL), name);
    peer_ok(dnnl_primitive_create(&p->run, pd), name);
    dnnl_primitive_desc_destroy(pd);
}

static void drop(peer *p)
{
    for (int i = 0; i < p->n_args; i++)
        dnnl_memory_destroy(p->args[i].memory);
    dnnl_primitive_destroy(p->run);
}

static void run_peer(const peer *p)
{
    dnnl_primitive_execute(p->run, stream, p->n_args, p->args);
    dnnl_stream_wait(stream);
}

// -- Side by side ------------------------------------------------------------

// The largest, relative where values are above one.
static double difference(const float *y, const float *z, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)y[i] - (double)z[i]), by = fabs((double)z[i]);
        if (by > 1)
            d /= by;
        if (!(d <= worst))
            worst = d;
    }
    return worst;
}

// Microseconds in the middle and between what half of them are, and the rate.
static void tell(double *t, double work, const char *unit)
{
    double s = median(t, repeats);
    printf(" %9.1f us %9.1f to %9.1f %7.2f %s", s * 1e6,
           quarter(t, repeats, 1) * 1e6, quarter(t, repeats, 3) * 1e6,
           work / s * 1e-9, unit);
}

// Both in turn. `work` is what one run does, operations if `flops`, else bytes;
// our share is of the peak or of a copy.
static void compare(const char *name, program *ours, peer *theirs,
                    const float *y, const float *z, size_t n, double work,
                    int flops)
{
    const char *unit = flops ? "GFLOP/s" : "GB/s   ";
    double *us = malloc(2 * (size_t)repeats * sizeof *us);
    double *them = us + repeats;
    if (!us)
        die(name, "no memory");
    for (int i = -2; i < repeats; i++) {
        double a = now();
        if (dv_exec_run(ours->exec, NULL) != DV_OK)
            die(name, "the run fails");
        double b = now();
        run_peer(theirs);
        double c = now();
        if (i >= 0)
            us[i] = b - a, them[i] = c - b;
    }
    double worst = difference(y, z, n);
    double m = median(us, repeats), top = flops ? peak_rate : copy_rate;
    printf("  %-10s", name);
    tell(us, work, unit);
    printf(" %5.3f   oneDNN", top > 0 ? work / m * 1e-9 / top : 0);
    tell(them, work, unit);
    printf("   %6.2f times   differ %.1e\n", median(them, repeats) / m, worst);
    free(us);
    dv_exec_destroy(ours->exec);
    dv_plan_destroy(ours->plan);
    drop(theirs);
}

typedef struct space {
    int64_t rows, cols;
    float *x, *y, *z;
} space;

static void unary(const space *w, const char *name, dnnl_alg_kind_t alg)
{
    char text[200];
    size_t n = (size_t)(w->rows * w->cols);
    snprintf(text, sizeof text,
             "input x: f32[%d, %d]\ny[i,j] = %s(x[i,j])\noutput y\n",
             (int)w->rows, (int)w->cols, name);
    program ours = make(text);
    peer theirs = {0};
    dnnl_memory_desc_t d = matrix(w->rows, w->cols);
    dnnl_eltwise_desc_t e;
    bind(&ours, "x", w->x, n);
    bind(&ours, "y", w->y, n);
    arg(&theirs, DNNL_ARG_SRC, &d, w->x);
    arg(&theirs, DNNL_ARG_DST, &d, w->z);
    peer_ok(dnnl_eltwise_forward_desc_init(&e, dnnl_forward_inference, alg, &d,
                                           0, 0),
            name);
    finish(&theirs, &e, name);
    compare(name, &ours, &theirs, w->y, w->z, n, 8.0 * (double)n, 0);
}

static void softmax(const space *w)
{
    char text[300];
    size_t n = (size_t)(w->rows * w->cols);
    snprintf(text, sizeof text,
             "input x: f32[%d, %d]\n"
             "m[i] = max[j] x[i,j]\n"
             "e[i,j] = exp(x[i,j] - m[i])\n"
             "s[i] = sum[j] e[i,j]\n"
             "y[i,j] = e[i,j] / s[i]\n"
             "output y\n",
             (int)w->rows, (int)w->cols);
    program ours = make(text);
    peer theirs = {0};
    dnnl_memory_desc_t d = matrix(w->rows, w->cols);
    dnnl_softmax_desc_t e;
    bind(&ours, "x", w->x, n);
    bind(&ours, "y", w->y, n);
    arg(&theirs, DNNL_ARG_SRC, &d, w->x);
    arg(&theirs, DNNL_ARG_DST, &d, w->z);
    peer_ok(dnnl_softmax_forward_desc_init(&e, dnnl_forward_inference, &d, 1),
            "softmax");
    finish(&theirs, &e, "softmax");
    compare("softmax", &ours, &theirs, w->y, w->z, n, 8.0 * (double)n, 0);
}

static void layernorm(const space *w)
{
    char text[300];
    size_t n = (size_t)(w->rows * w->cols);
    snprintf(text, sizeof text,
             "input x: f32[%d, %d]\n"
             "u[i] = (sum[j] x[i,j]) / %d\n"
             "c[i,j] = x[i,j] - u[i]\n"
             "v[i] = (sum[j] c[i,j] * c[i,j]) / %d\n"
             "y[i,j] = c[i,j] * rsqrt(v[i] + 1e-5)\n"
             "output y\n",
             (int)w->rows, (int)w->cols, (int)w->cols, (int)w->cols);
    program ours = make(text);
    peer theirs = {0};
    dnnl_memory_desc_t d = matrix(w->rows, w->cols);
    dnnl_layer_normalization_desc_t e;
    bind(&ours, "x", w->x, n);
    bind(&ours, "y", w->y, n);
    arg(&theirs, DNNL_ARG_SRC, &d, w->x);
    arg(&theirs, DNNL_ARG_DST, &d, w->z);
    peer_ok(dnnl_layer_normalization_forward_desc_init(
                &e, dnnl_forward_inference, &d, NULL, 1e-5F, 0),
            "layernorm");
    finish(&theirs, &e, "layernorm");
    compare("layernorm", &ours, &theirs, w->y, w->z, n, 8.0 * (double)n, 0);
}

// x is as large as any of the three.
static void matmul(const space *w, int64_t size)
{
    char text[200];
    size_t n = (size_t)(size * size);
    snprintf(text, sizeof text,
             "input a: f32[%d, %d]\ninput b: f32[%d, %d]\n"
             "y[i,j] = sum[k] a[i,k] * b[k,j]\noutput y\n",
             (int)size, (int)size, (int)size, (int)size);
    program ours = make(text);
    peer theirs = {0};
    dnnl_memory_desc_t d = matrix(size, size);
    dnnl_matmul_desc_t e;
    bind(&ours, "a", w->x, n);
    bind(&ours, "b", w->x, n);
    bind(&ours, "y", w->y, n);
    arg(&theirs, DNNL_ARG_SRC, &d, w->x);
    arg(&theirs, DNNL_ARG_WEIGHTS, &d, w->x);
    arg(&theirs, DNNL_ARG_DST, &d, w->z);
    peer_ok(dnnl_matmul_desc_init(&e, &d, &d, NULL, &d), "matmul");
    finish(&theirs, &e, "matmul");
    char name[24];
    snprintf(name, sizeof name, "gemm %d", (int)size);
    compare(name, &ours, &theirs, w->y, w->z, n, 2.0 * (double)n * (double)size,
            1);
}

static void size(int64_t rows, int64_t cols)
{
    static const struct {
        const char *name;
        dnnl_alg_kind_t alg;
    } fns[] = {{"relu", dnnl_eltwise_relu},
               {"exp", dnnl_eltwise_exp},
               {"tanh", dnnl_eltwise_tanh},
               {"gelu", dnnl_eltwise_gelu_erf}};
    size_t n = (size_t)(rows * cols);
    space w = {.rows = rows, .cols = cols};
    float **all[] = {&w.x, &w.y, &w.z};
    for (int i = 0; i < 3; i++)
        if (!(*all[i] = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64)))
            die("size", "no memory");
    for (size_t i = 0; i < n; i++) {
        w.x[i] = (float)(i * 7919 % 20011) / 5000 - 2;
        w.y[i] = w.z[i] = 0;
    }
    copy_rate = dv_rate_copy((int64_t)(n * sizeof(float)), threads);
    printf("%dx%d f32, %d threads; shares of a peak of %.1f GFLOP/s, of a copy "
           "of %.1f GB/s in and out\n",
           (int)rows, (int)cols, threads, peak_rate, copy_rate);
    for (size_t i = 0; i < sizeof fns / sizeof *fns; i++)
        unary(&w, fns[i].name, fns[i].alg);
    softmax(&w);
    layernorm(&w);
    for (int64_t s = 512; s * s <= rows * cols && s <= 2048; s *= 2)
        matmul(&w, s);
    for (int i = 0; i < 3; i++)
        free(*all[i]);
}

static int usage(int asked)
{
    return tell_usage(asked, "dnnl [-t THREADS] [-r REPEATS] [ROWSxCOLS]..., "
                             "up to 8\n");
}

int main(int argc, char **argv)
{
    int rows[8], cols[8], n = 0, opt;
    while ((opt = getopt(argc, argv, "ht:r:")) != -1)
        if (opt == 't')
            threads = atoi(optarg);
        else if (opt == 'r')
            repeats = atoi(optarg);
        else
            return usage(opt == 'h');
    for (int i = optind; i < argc; i++, n++)
        if (n == 8 || sscanf(argv[i], "%dx%d", &rows[n], &cols[n]) != 2 ||
            rows[n] < 1 || cols[n] < 1)
            return usage(0);
    if (threads < 1 || repeats < 1)
        return usage(0);
    // The peer counts its threads when it is first asked.
    char number[16];
    snprintf(number, sizeof number, "%d", threads);
    setenv("OMP_NUM_THREADS", number, 1);
    peer_ok(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
    peer_ok(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags),
            "stream");
    peak_rate = dv_rate_peak(DV_F32, threads);
    for (int i = 0; i < n; i++)
        size(rows[i], cols[i]);
    if (n == 0) {
        size(512, 1024);
        size(4096, 4096);
    }
    dnnl_stream_destroy(stream);
    dnnl_engine_destroy(engine);
    return 0;
}
