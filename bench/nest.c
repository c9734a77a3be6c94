// The tensor operations that the loop-nest work is measured by: blocked
// products with and without ReLU, as nests that the library runs.
//
//   nest [-t THREADS] [-r REPEATS]
//
// Sizes and strides are those of the specification, m n k (k in blocks) and the
// blocks m n k inside; in0 has rows of m, in1 rows of k, out rows of m. Each
// nest is run laid out anew; with its loops as they are, packed for the
// machine; and as it is, nothing packed. With several threads, nests are
// planned as programs, whatever their loops are: that is the one column then.
// The peak is measured in the same run; figures are medians of the repeats, and
// between which half of them are.
#define _GNU_SOURCE
#include "median.h"
#include "peak.h"
#include "usage.h"
#include "contract/contract.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_REPEATS = 101, MAX_THREADS = 64 };
static int threads = 1, repeats = 15;

// -- Configurations ----------------------------------------------------------

typedef struct config {
    const char *name;
    int outer, inner; // blocks of m and of n, size of a block; k has 8
    dv_prim main, first, last;
} config;

#define BLOCKS_32 32, 32
#define BLOCKS_64 16, 64
static const config configs[] = {
    {"gemm", BLOCKS_32, DV_PRIM_GEMM, DV_PRIM_NONE, DV_PRIM_NONE},
    {"brgemm", BLOCKS_32, DV_PRIM_BRGEMM, DV_PRIM_NONE, DV_PRIM_NONE},
    {"brgemm relu", BLOCKS_32, DV_PRIM_BRGEMM, DV_PRIM_NONE, DV_PRIM_RELU},
    {"zero brgemm", BLOCKS_32, DV_PRIM_BRGEMM, DV_PRIM_ZERO, DV_PRIM_NONE},
    {"zero brgemm relu", BLOCKS_32, DV_PRIM_BRGEMM, DV_PRIM_ZERO, DV_PRIM_RELU},
    {"brgemm 64", BLOCKS_64, DV_PRIM_BRGEMM, DV_PRIM_NONE, DV_PRIM_NONE},
    {"brgemm relu 64", BLOCKS_64, DV_PRIM_BRGEMM, DV_PRIM_NONE, DV_PRIM_RELU},
    {"zero brgemm 64", BLOCKS_64, DV_PRIM_BRGEMM, DV_PRIM_ZERO, DV_PRIM_NONE},
};

enum { N_CONFIGS = sizeof configs / sizeof *configs, K_BLOCKS = 8 };

static const dv_nest_optimise_level ways[] = {
    DV_NEST_OPTIMISE_ALL, DV_NEST_OPTIMISE_PACKING, DV_NEST_OPTIMISE_NONE};
enum { N_WAYS = sizeof ways / sizeof *ways };
static int n_ways = N_WAYS; // that are measured

typedef struct work {
    const config *c;
    dv_contract *nest[N_WAYS];
    double t[N_WAYS][MAX_REPEATS];
    float *in0, *in1, *out;
} work;

static void *room(size_t bytes)
{
    size_t page =
        bytes >> 21 ? 2 << 20 : 4096; // large ones, as dv_alloc has it
    bytes = (bytes + page - 1) / page * page;
    void *p = aligned_alloc(page, bytes);
    if (!p)
        exit(3);
    madvise(p, bytes, MADV_HUGEPAGE); // a wish
    memset(p, 0, bytes);
    return p;
}

static dv_nest nest_of(const config *c)
{
    int64_t n = c->inner, block = n * n, row = block * K_BLOCKS;
    dv_nest x = {.name = "bench", .dtype = DV_F32};
    x.main = c->main;
    x.first = c->first;
    x.last = c->last;
    const dv_nest_dim dims[] = {
        {.type = DV_NEST_M,
         .size = c->outer,
         .stride = {row, 0, block * c->outer}},
        {.type = DV_NEST_N, .size = c->outer, .stride = {0, row, block}},
        {.type = DV_NEST_K, .size = K_BLOCKS, .stride = {block, block, 0}},
        {.type = DV_NEST_M, .size = n, .stride = {1, 0, 1}},
        {.type = DV_NEST_N, .size = n, .stride = {0, n, n}},
        {.type = DV_NEST_K, .size = n, .stride = {n, 1, 0}}};
    int loops = c->main == DV_PRIM_GEMM ? 3 : 2;
    x.n_dims = sizeof dims / sizeof *dims;
    for (int i = 0; i < x.n_dims; i++) {
        x.dims[i] = dims[i];
        x.dims[i].exec = i >= loops ? DV_NEST_PRIM : DV_NEST_SEQ;
    }
    return x;
}

static void run(const work *w, int way)
{
    dv_contract_run(w->nest[way], w->in0, w->in1, NULL, w->out, NULL);
}

static void check(const work *w, int way)
{
    const config *c = w->c;
    int size = c->inner, n = c->outer * size, kk = K_BLOCKS;
    size_t block = (size_t)(size * size);
    memset(w->out, 0, (size_t)n * (size_t)n * 4);
    run(w, way);
    for (int t = 0; t < 200; t++) {
        int i = t * 7919 % n, j = t * 104729 % n;
        size_t im = (size_t)(i / size), in = (size_t)(j / size);
        double want = 0;
        for (int p = 0; p < kk * size; p++) {
            size_t b = (size_t)(p / size), r = (size_t)(p % size);
            want += (double)w->in0[(im * (size_t)kk + b) * block +
                                   r * (size_t)size + (size_t)(i % size)] *
                    (double)w->in1[(in * (size_t)kk + b) * block +
                                   (size_t)(j % size) * (size_t)size + r];
        }
        want = c->last == DV_PRIM_RELU && want < 0 ? 0 : want;
        double got =
            (double)
                w->out[(im * (size_t)c->outer + in) * block +
                       (size_t)(j % size) * (size_t)size + (size_t)(i % size)];
        if (!(fabs(got - want) <= 1e-2)) {
            fprintf(stderr, "%s: %d,%d is %g, not %g\n", c->name, i, j, got,
                    want);
            exit(4);
        }
    }
}

static void set_up(dv_jit *jit, const config *c, work *w)
{
    size_t n = (size_t)(c->outer * c->inner), k = (size_t)(K_BLOCKS * c->inner);
    *w = (work){.c = c, .in0 = room(n * k * 4), .in1 = room(n * k * 4)};
    w->out = room(n * n * 4);
    for (size_t i = 0; i < n * k; i++) {
        w->in0[i] = (float)((int)(i * 7 % 17) - 8);
        w->in1[i] = (float)((int)(i * 5 % 13) - 6);
    }
    dv_nest x = nest_of(c);
    for (int i = 0; i < n_ways; i++) {
        dv_contract_options o = DV_CONTRACT_OPTIONS_INIT;
        o.threads = threads;
        o.optimise = ways[i];
        if (dv_contract_create(&w->nest[i], jit, &x, &o, NULL))
            exit(3);
        check(w, i);
    }
}

static void tear_down(work *w)
{
    for (int i = 0; i < n_ways; i++)
        dv_contract_destroy(w->nest[i]);
    free(w->in0);
    free(w->in1);
    free(w->out);
}

// The repeat that so many quarters are faster than, as a share of the peak.
static double share_at(const work *w, int way, double top, int quarters)
{
    const config *c = w->c;
    double n = c->outer * c->inner, k = K_BLOCKS * c->inner;
    double t = quarter(w->t[way], repeats, quarters);
    return 2 * n * n * k / t / 1e9 / top;
}

// All take turns, so that they suffer alike; each once before, as others have
// been where its operands were.
static void measure(dv_jit *jit, double top)
{
    static work all[N_CONFIGS];
    for (int i = 0; i < N_CONFIGS; i++)
        set_up(jit, &configs[i], &all[i]);
    for (int r = 0; r < repeats; r++)
        for (int i = 0; i < n_ways * N_CONFIGS; i++) {
            work *w = &all[i / n_ways];
            run(w, i % n_ways);
            double t = seconds(threads);
            run(w, i % n_ways);
            w->t[i % n_ways][r] = seconds(threads) - t;
        }
    for (int i = 0; i < N_CONFIGS; i++) {
        printf("%-18s", all[i].c->name);
        for (int j = 0; j < n_ways; j++) {
            median(all[i].t[j], repeats); // sorts
            double half = share_at(&all[i], j, top, 2);
            printf("%8.1f%8.3f%8.3f%6.3f", half * top, half,
                   share_at(&all[i], j, top, 3), share_at(&all[i], j, top, 1));
        }
        printf("\n");
        tear_down(&all[i]);
    }
}

static int usage(int asked)
{
    return tell_usage(asked, "nest [-t THREADS, to %d] [-r REPEATS, to %d]\n",
                      MAX_THREADS, MAX_REPEATS);
}

int main(int argc, char **argv)
{
    int opt;
    while ((opt = getopt(argc, argv, "ht:r:")) != -1)
        if (opt == 't')
            threads = atoi(optarg);
        else if (opt == 'r')
            repeats = atoi(optarg);
        else
            return usage(opt == 'h');
    if (threads < 1 || threads > MAX_THREADS || repeats < 1 ||
        repeats > MAX_REPEATS)
        return usage(0);
    dv_jit *jit;
    if (dv_jit_create(&jit, NULL)) {
        fprintf(stderr, "no kernels for this machine yet\n");
        return 3;
    }
    double top = best_peak(DV_F32, threads);
    printf("# %d threads, peak %.1f GFLOP/s f32\n", threads, top);
    n_ways = threads > 1 ? 1 : N_WAYS;
    printf("# GFLOP/s, share of the peak and its quartiles: %s\n",
           threads > 1 ? "planned"
                       : "laid out anew; loops as they are, packed; as it is");
    measure(jit, top);
    dv_jit_destroy(jit);
    return 0;
}
