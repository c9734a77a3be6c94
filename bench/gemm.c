// Matrix products, ours beside the BLAS libraries that are installed.
//
//   gemm [-k] [-t THREADS] [-r REPEATS] [-d TYPE] [-1 L1_BYTES]
//        [-2 L2_BYTES] [-l LIBRARY]... [SIZE|MxNxK]...
//
// Row-major C = A B, operands warm, in f32 unless -d says otherwise (libraries
// are left out then; narrow types add up in f32 and i32). The peak is measured
// first, with the same threads: chains of the type's multiply-add in
// registers. On one thread ours is a plan of a product (jit/gemm/), with -k one
// kernel, C += A B; on several it is a nest, which is planned as a program.
// Each figure is the median of the repeats, which take turns, so that all
// suffer alike; half of them are in the range behind it. Libraries are opened
// by name and must have cblas_sgemm; threads are theirs to choose through their
// environment (bench/gemm.sh sets it).
#define _GNU_SOURCE
#include "bind.h"
#include "median.h"
#include "peak.h"
#include "usage.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "jit/gemm/gemm.h"
#include "jit/backend.h"
#include "nest/nest.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PEERS = 8, MAX_REPEATS = 101 };
typedef void (*sgemm_fn)(int order, int ta, int tb, int m, int n, int k,
                         float alpha, const float *a, int lda, const float *b,
                         int ldb, float beta, float *c, int ldc);

typedef struct peer {
    const char *name;
    sgemm_fn run;
} peer;

static peer peers[MAX_PEERS];
static int n_peers, threads = 1, repeats = 9, one_kernel;
static int64_t l1_bytes, l2_bytes; // 0: as the library sees fit

// -- Types -------------------------------------------------------------------

typedef struct type {
    const char *name;
    dv_dtype in, out;
} type;
static const type types[] = {{"f32", DV_F32, DV_F32},
                             {"f64", DV_F64, DV_F64},
                             {"bf16", DV_BF16, DV_F32},
                             {"i8", DV_I8, DV_I32},
                             {"i32", DV_I32, DV_I32}};
enum { N_TYPES = sizeof types / sizeof *types };
static const type *used = types;

// -- One size ----------------------------------------------------------------

typedef struct mats {
    void *a, *b, *c;
    int m, n, k;
} mats;

static void *new_matrix(int rows, int cols, dv_dtype t)
{
    size_t n = (size_t)rows * (size_t)cols;
    size_t bytes = n * (size_t)dv_dtype_get(t)->size_bytes;
    // In large pages where there are some, as dv_alloc has it: for all alike.
    size_t pages = (bytes + 4095) / 4096 * 4096;
    void *p = bytes >> 21 ? dv_alloc(bytes) : aligned_alloc(4096, pages);
    if (!p)
        exit(3);
    for (size_t i = 0; i < n; i++)
        dv_store(t, p, (int64_t)i, (double)((int)(i * 7 % 17) - 8));
    return p;
}

static void run_peer(const peer *p, const mats *x)
{
    enum { ROW_MAJOR = 101, AS_STORED = 111 };
    p->run(ROW_MAJOR, AS_STORED, AS_STORED, x->m, x->n, x->k, 1, x->a, x->k,
           x->b, x->n, 0, x->c, x->n);
}

typedef struct ours { // one of these
    dv_gemm_plan *plan;
    void *workspace; // of the plan
    dv_gemm_fn kernel;
    dv_contract *nest;
} ours;

static void run_kernel(dv_gemm_fn f, const mats *x, long n)
{
    const void *a = x->a, *b = x->b;
    void *c = x->c;
    for (long i = 0; i < n; i++)
        f(a, b, c, NULL);
}

// Seconds of one product by ours (who < 0) or a peer. Ours is bound to its core
// while it is measured; peers see all cores and do as they like.
static double measure(int who, const ours *o, const mats *x, long n)
{
    bind(who < 0 ? 0 : -1);
    double t = seconds(threads);
    if (who < 0 && o->kernel)
        run_kernel(o->kernel, x, n);
    else
        for (long i = 0; i < n; i++)
            if (who >= 0)
                run_peer(&peers[who], x);
            else if (o->nest)
                dv_contract_run(o->nest, x->a, x->b, NULL, x->c, NULL);
            else
                dv_gemm_run(o->plan, x->a, x->b, x->c, o->workspace, NULL);
    return (seconds(threads) - t) / (double)n;
}

// Threads of libraries look for more work for a while, on our cores, too.
static void rest(void)
{
    if (threads > 1 && n_peers)
        nanosleep(&(struct timespec){.tv_nsec = 40000000}, NULL);
}

static void check(const mats *x, const char *who)
{
    for (int i = 0; i < 64; i++) {
        int r = i * 7919 % x->m, c = i * 104729 % x->n;
        double want = 0;
        for (int p = 0; p < x->k; p++)
            want += dv_load(used->in, x->a, (int64_t)r * x->k + p) *
                    dv_load(used->in, x->b, (int64_t)p * x->n + c);
        double got = dv_load(used->out, x->c, (int64_t)r * x->n + c);
        if (!(fabs(got - want) <= 1e-3 * x->k)) {
            fprintf(stderr, "%s: [%d][%d] is %g, not %g\n", who, r, c, got,
                    want);
            exit(4);
        }
    }
}

// GFLOP/s in the middle, as a share of the peak if there is one, and between
// what half of the repeats are.
static void tell_rate(double *t, double gflop, double top)
{
    double rate = gflop / median(t, repeats);
    printf("\t%8.1f", rate);
    if (top > 0)
        printf("\t%6.3f", rate / top);
    printf("\t%.1f..%.1f", gflop / quarter(t, repeats, 3),
           gflop / quarter(t, repeats, 1));
}

static dv_status make_nest(dv_contract **out, dv_jit *jit, int m, int n, int k)
{
    dv_contract_options o = DV_CONTRACT_OPTIONS_INIT;
    dv_nest x = {.name = "c", .dtype = used->out, .n_dims = 3};
    x.first = DV_PRIM_ZERO;
    x.main = DV_PRIM_GEMM;
    if (used->in != used->out)
        x.types[DV_IN0] = x.types[DV_IN1] = (uint8_t)(1 + used->in);
    x.dims[0] =
        (dv_nest_dim){.type = DV_NEST_M, .size = m, .stride = {k, 0, n}};
    x.dims[1] =
        (dv_nest_dim){.type = DV_NEST_N, .size = n, .stride = {0, 1, 1}};
    x.dims[2] =
        (dv_nest_dim){.type = DV_NEST_K, .size = k, .stride = {1, n, 0}};
    for (int i = 0; i < x.n_dims; i++)
        x.dims[i].exec = DV_NEST_SEQ;
    o.threads = threads;
    o.l1_bytes = l1_bytes;
    o.l2_bytes = l2_bytes;
    return dv_contract_create(out, jit, &x, &o, NULL);
}

static void row(dv_jit *jit, int m, int n, int k, double top)
{
    mats x = {new_matrix(m, k, used->in),
              new_matrix(k, n, used->in),
              new_matrix(m, n, used->out),
              m,
              n,
              k};
    static double t[MAX_PEERS + 1][MAX_REPEATS];
    dv_gemm_shape s = {.m = m, .n = n, .k = k};
    s.dtype = (uint8_t)used->in;
    dv_gemm_options o = {.l1_bytes = l1_bytes, .l2_bytes = l2_bytes};
    ours us = {0};
    s.beta = one_kernel ? DV_SCALE_ONE : DV_SCALE_ZERO;
    if (one_kernel    ? dv_jit_gemm(jit, &s, &us.kernel, NULL)
        : threads > 1 ? make_nest(&us.nest, jit, m, n, k)
                      : dv_gemm_plan_create(&us.plan, jit, &s, &o, NULL))
        exit(3);
    if (us.plan)
        us.workspace = dv_alloc_buffer((size_t)dv_gemm_plan_workspace(us.plan));
    double flop = 2.0 * m * n * k;
    // Small products are timed between two ticks of the system's clock, large
    // ones over several, so that each has as many.
    double window = flop < 1e8 * threads ? 4e7 : 1e9;
    long count = (long)(window * threads / flop) + 1;
    long warm = (long)(5e8 * threads / flop) + 1;
    for (int w = -1; w < n_peers; w++) { // warm up and check
        memset(x.c, 0,
               (size_t)m * (size_t)n *
                   (size_t)dv_dtype_get(used->out)->size_bytes);
        measure(w, &us, &x, 1);
        check(&x, w < 0 ? "ours" : peers[w].name);
    }
    for (int r = 0; r < repeats; r++)
        for (int w = -1; w < n_peers; w++) {
            rest();
            measure(w, &us, &x, warm);
            t[w + 1][r] = measure(w, &us, &x, count);
        }
    printf("%5dx%dx%d", m, n, k);
    for (int w = -1; w < n_peers; w++)
        tell_rate(t[w + 1], flop / 1e9, w < 0 ? top : 0);
    printf("\n");
    fflush(stdout);
    dv_gemm_plan_destroy(us.plan);
    dv_release(us.workspace);
    dv_contract_destroy(us.nest);
    free(x.a);
    free(x.b);
    free(x.c);
}

// -- Making kernels ----------------------------------------------------------

// Kernels are made faster than a thread's own time is told.
static double wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// A process's kernels: those of one size in memory of their own, so that each
// line has the pages of its code in it, and the best, which has none.
static void latency(void)
{
    static const int sizes[] = {4, 8, 16, 23, 32, 64};
    enum { N = 100, HITS = 1000000 };
    dv_gemm_fn run;
    dv_jit *jit = NULL;
    for (int i = 0; i < 6; i++) {
        double start = wall(), first = 0, sum = 0, best = 1;
        dv_jit_destroy(jit);
        if (dv_jit_create(&jit, NULL))
            exit(3);
        for (int j = 0; j <= N; j++) {
            dv_gemm_shape s = {.m = sizes[i], .n = sizes[i], .k = sizes[i]};
            s.dtype = DV_F32;
            s.lda = 10000 + j; // another kernel each time
            double t = wall();
            if (dv_jit_gemm(jit, &s, &run, NULL))
                exit(3);
            double end = wall();
            first = j ? first : end - start;
            sum += j ? end - t : 0;
            best = end - t < best ? end - t : best;
        }
        printf("a kernel of %d^3: %.2f us, best %.2f, the first with its "
               "memory %.0f\n",
               sizes[i], sum / N * 1e6, best * 1e6, first * 1e6);
    }
    dv_gemm_shape s = {.m = 8, .n = 8, .k = 8, .lda = 10000, .dtype = DV_F32};
    double t = seconds(threads);
    for (int j = 0; j < HITS; j++)
        dv_jit_gemm(jit, &s, &run, NULL);
    printf("a kernel made before: %.1f ns\n",
           (seconds(threads) - t) / HITS * 1e9);
    dv_jit_destroy(jit);
}

static void open_peer(const char *path)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *at = lib ? dlsym(lib, "cblas_sgemm") : NULL;
    const char *base = strrchr(path, '/');
    if (!at || n_peers == MAX_PEERS) {
        fprintf(stderr, "%s: left out\n", path);
        return;
    }
    peers[n_peers].name = base ? base + 1 : path;
    memcpy(&peers[n_peers++].run, &at, sizeof at);
}

static const type *type_of(const char *name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (!strcmp(types[i].name, name))
            return &types[i];
    return NULL;
}

// "64" is a cube.
static int read_size(const char *text, int *m, int *n, int *k)
{
    int got = sscanf(text, "%dx%dx%d", m, n, k);
    if (got == 1)
        *n = *k = *m;
    return (got == 1 || got == 3) && *m > 0 && *n > 0 && *k > 0;
}

static int usage(int asked)
{
    return tell_usage(asked,
                      "gemm [-k] [-t THREADS] [-r REPEATS, to %d] [-d TYPE] "
                      "[-1 L1_BYTES] [-2 L2_BYTES] [-l LIBRARY]... "
                      "[SIZE|MxNxK]...\n",
                      MAX_REPEATS);
}

int main(int argc, char **argv)
{
    static const int all[] = {4,   5,   6,   7,   8,   11,  12,   13,
                              16,  20,  23,  24,  28,  29,  32,   35,
                              36,  40,  47,  48,  56,  63,  64,   96,
                              128, 192, 256, 384, 512, 768, 1024, 2048};
    int opt;
    while ((opt = getopt(argc, argv, "hkt:r:l:d:1:2:")) != -1)
        if (opt == 't')
            threads = atoi(optarg);
        else if (opt == 'r')
            repeats = atoi(optarg);
        else if (opt == '1')
            l1_bytes = atol(optarg);
        else if (opt == '2')
            l2_bytes = atol(optarg);
        else if (opt == 'l')
            open_peer(optarg);
        else if (opt == 'k')
            one_kernel = 1;
        else if (opt == 'd')
            used = type_of(optarg);
        else
            return usage(opt == 'h');
    if (!used || threads < 1 || repeats < 1 || repeats > MAX_REPEATS)
        return usage(0);
    int m, n, k;
    for (int i = optind; i < argc; i++)
        if (!read_size(argv[i], &m, &n, &k))
            return usage(0);
    dv_jit *jit;
    if (dv_jit_create(&jit, NULL)) {
        fprintf(stderr, "no kernels for this machine yet\n");
        return 3;
    }
    if (used != types)
        n_peers = 0; // theirs is f32
    bind_team(threads);
    double top = best_peak(used->in, threads);
    printf("# %s, %d threads, %s, peak %.1f GFLOP/s %s\n",
           dv_jit_isa(jit)->name, threads, used->name, top,
           dv_dtype_get(dv_peak_type(used->in))->name);
    printf("# size\t\tours\tshare\thalf in");
    for (int w = 0; w < n_peers; w++)
        printf("\t%s\thalf in", peers[w].name);
    printf("\n");
    for (int i = optind; i < argc; i++)
        if (read_size(argv[i], &m, &n, &k))
            row(jit, m, n, k, top);
    for (size_t i = 0; optind == argc && i < sizeof all / sizeof *all; i++)
        row(jit, all[i], all[i], all[i], top);
    latency();
    dv_jit_destroy(jit);
    return 0;
}
