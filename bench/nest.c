// The tensor operations that the loop-nest work is measured by: blocked
// products with and without ReLU, as kernels in loops by hand, and as nests
// that the library lays out.
//
//   nest [-t THREADS] [-r REPEATS]
//
// Sizes and strides are those of the specification, m n k (k in blocks, batch)
// and the blocks m n k inside; `in0` has rows of m, `in1` rows of k, `out` rows
// of m. For the row-major kernels that is C = in1 in0. By hand, blocks of n
// follow each other in out, so that a kernel takes some as one. A thread runs
// rows of blocks of m: the first kernel of a row leaves in0's block packed, the
// others ask for a share of the next one; in1 is turned into panels of rows of
// n before. The peak is measured in the same run; figures are medians of the
// repeats, and between which half of them are.
#define _GNU_SOURCE
#include "median.h"
#include "peak.h"
#include "jit/jit.h"
#include "run/contract.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { MAX_REPEATS = 101, MAX_THREADS = 64 };
static int threads = 1, repeats = 15;

// -- Configurations ----------------------------------------------------------

typedef struct config {
    const char *name;
    int outer, inner, batch; // blocks of m and of n, size of a block, k blocks
    int each;                // a kernel for each block of k, not for all
    int zero, relu;          // first and last touch
    int panel, at_once;      // of n: rows of a panel, blocks of a kernel
} config;

static const config configs[] = {
    {"gemm", 32, 32, 8, 0, 0, 0, 4, 4}, // its loop over k is the kernel's batch
    {"gemm, k by k", 32, 32, 8, 1, 0, 0, 4, 1},
    {"brgemm", 32, 32, 8, 0, 0, 0, 4, 4},
    {"zero brgemm", 32, 32, 8, 0, 1, 0, 4, 4},
    {"zero brgemm relu", 32, 32, 8, 0, 1, 1, 4, 4},
    {"brgemm relu", 32, 32, 8, 0, 0, 1, 4, 4},
    {"brgemm relu 64", 16, 64, 8, 0, 0, 1, 5, 1},
    {"zero brgemm 64", 16, 64, 8, 0, 1, 0, 5, 1},
};

enum { N_CONFIGS = sizeof configs / sizeof *configs };

typedef struct work {
    const config *c;
    dv_contract *nest; // the same, as the library runs it
    double t[2][MAX_REPEATS];
    dv_gemm_fn run[2];  // in0 is packed already
    dv_gemm_fn each[2]; // a kernel for each block of k: the first, others
    dv_move_fn turn[2]; // a panel of in1: rows as even as can be, or one more
    float *in0, *in1, *out;
    float *packs[MAX_THREADS]; // room for packed operands
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

static dv_gemm_shape shape_of(const config *c)
{
    dv_gemm_shape s = {.m = c->inner, .n = c->inner, .k = c->inner};
    s.dtype = DV_F32;
    s.batch = c->each ? 1 : c->batch;
    s.stride_a = s.stride_b = (int64_t)c->inner * c->inner;
    s.beta = c->zero ? DV_SCALE_ZERO : DV_SCALE_ONE;
    s.relu = (uint8_t)c->relu;
    return s;
}

// For a row of blocks.
static int kernels(const config *c)
{
    return c->outer / c->at_once;
}

static void make(dv_jit *jit, work *w)
{
    dv_gemm_shape s = shape_of(w->c);
    int failed = dv_jit_gemm(jit, &s, &w->each[1], NULL) != DV_OK;
    w->each[0] = w->each[1];
    dv_cut cut = dv_cut_even(s.m, w->c->panel);
    for (int i = 0; i < 2; i++) {
        dv_move_shape v = {.rows = cut.size + i, .cols = s.k};
        v.move = DV_MOVE_TRANSPOSE;
        v.dtype = DV_F32;
        failed |= dv_jit_move(jit, &v, &w->turn[i], NULL) != DV_OK;
    }
    s.m *= w->c->at_once;
    s.panel_a = (uint8_t)w->c->panel;
    s.trans_a = 1;
    for (int i = 0; i < 2 && !w->c->each; i++) {
        s.pack_b = !i;
        s.panel_b = !s.pack_b;
        s.next_b =
            (uint8_t)(i * (kernels(w->c) - 1)); // parts of the next block
        failed |= dv_jit_gemm(jit, &s, &w->run[i], NULL) != DV_OK;
    }
    if (failed)
        exit(3);
}

// The blocks of k of one block of n, in the order in which they lie there.
static void turn_panels(const work *w, const float *from, float *to)
{
    int size = w->c->inner, all = w->c->batch * size;
    dv_cut cut = dv_cut_even(size, w->c->panel);
    for (int k = 0; k < w->c->batch; k++)
        for (int i = 0, row = 0; row < size; i++) {
            int high = cut.size + (i >= cut.n);
            w->turn[i >= cut.n](from + (k * size + row) * size,
                                to + row * all + k * high * size);
            row += high;
        }
}

// Block im of m and those of kernel `in` along n. `first` row of the thread:
// in1 is not packed yet.
static void block(const work *w, int im, int in, int first, float *pack)
{
    const config *c = w->c;
    size_t size = (size_t)(c->inner * c->inner), all = size * (size_t)c->batch;
    size_t n = (size_t)c->at_once, at = (size_t)in * n;
    const float *b = w->in0 + (size_t)im * all, *a = w->in1 + at * all;
    float *o = w->out + ((size_t)(im * c->outer) + at) * size;
    float *pack_b = pack, *pack_a = pack + (at + 1) * all;
    dv_gemm_args args = {.pack_b = pack_b};
    for (int k = 0; c->each && k < c->batch; k++)
        w->each[k > 0](a + (size_t)k * size, b + (size_t)k * size, o, &args);
    if (c->each)
        return;
    for (size_t i = 0; first && i < n; i++)
        turn_panels(w, a + i * all, pack_a + i * all);
    if (in) // past the last block there is nothing: asking does no harm
        args.next = b + all + all / (size_t)(kernels(c) - 1) * (size_t)(in - 1);
    w->run[in > 0](pack_a, in ? pack_b : b, o, &args);
}

static void once(const work *w)
{
#pragma omp parallel num_threads(threads)
    {
#ifdef _OPENMP
        int t = omp_get_thread_num(), n = omp_get_num_threads();
#else
        int t = 0, n = 1;
#endif
        int begin = w->c->outer * t / n, end = w->c->outer * (t + 1) / n;
        for (int im = begin; im < end; im++)
            for (int in = 0; in < kernels(w->c); in++)
                block(w, im, in, im == begin, w->packs[t]);
    }
}

static dv_nest nest_of(const config *c)
{
    int64_t n = c->inner, block = n * n, row = block * c->batch;
    dv_nest x = {.name = "bench", .dtype = DV_F32, .main = DV_PRIM_BRGEMM};
    x.first = c->zero ? DV_PRIM_ZERO : DV_PRIM_NONE;
    x.last = c->relu ? DV_PRIM_RELU : DV_PRIM_NONE;
    const dv_nest_dim dims[] = {
        {.type = DV_NEST_M,
         .size = c->outer,
         .stride = {row, 0, block * c->outer}},
        {.type = DV_NEST_N, .size = c->outer, .stride = {0, row, block}},
        {.type = DV_NEST_K, .size = c->batch, .stride = {block, block, 0}},
        {.type = DV_NEST_M, .size = n, .stride = {1, 0, 1}},
        {.type = DV_NEST_N, .size = n, .stride = {0, n, n}},
        {.type = DV_NEST_K, .size = n, .stride = {n, 1, 0}}};
    x.n_dims = sizeof dims / sizeof *dims;
    for (int i = 0; i < x.n_dims; i++) {
        x.dims[i] = dims[i];
        x.dims[i].exec = DV_NEST_SEQ;
    }
    return x;
}

// By hand, or as the library does it.
static void run(const work *w, int by_library)
{
    if (by_library)
        dv_contract_run(w->nest, w->in0, w->in1, w->out);
    else
        once(w);
}

static void check(const work *w, int by_library)
{
    const config *c = w->c;
    int size = c->inner, n = c->outer * size, kk = c->batch;
    size_t block = (size_t)(size * size);
    memset(w->out, 0, (size_t)n * (size_t)n * 4);
    run(w, by_library);
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
        want = c->relu && want < 0 ? 0 : want;
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
    size_t n = (size_t)(c->outer * c->inner), k = (size_t)(c->batch * c->inner);
    *w = (work){.c = c, .in0 = room(n * k * 4), .in1 = room(n * k * 4)};
    w->out = room(n * n * 4);
    for (size_t i = 0; i < n * k; i++) {
        w->in0[i] = (float)((int)(i * 7 % 17) - 8);
        w->in1[i] = (float)((int)(i * 5 % 13) - 6);
    }
    for (int i = 0; i < threads; i++)
        w->packs[i] = room((n + (size_t)c->inner) * k * 4);
    make(jit, w);
    dv_contract_options o = DV_CONTRACT_OPTIONS_INIT;
    dv_nest x = nest_of(c);
    o.threads = threads;
    if (dv_contract_create(&w->nest, jit, &x, &o, NULL))
        exit(3);
    check(w, 0);
    check(w, 1);
}

static void tear_down(work *w)
{
    dv_contract_destroy(w->nest);
    free(w->in0);
    free(w->in1);
    free(w->out);
    for (int i = 0; i < threads; i++)
        free(w->packs[i]);
}

// The repeat that so many quarters are faster than, as a share of the peak.
static double share_at(const work *w, int by_library, double top, int quarters)
{
    const config *c = w->c;
    const double *t = w->t[by_library];
    double n = c->outer * c->inner, k = c->batch * c->inner;
    return 2 * n * n * k / t[(repeats - 1) * quarters / 4] / 1e9 / top;
}

// All take turns, so that they suffer alike; each once before, as others have
// been where its operands were.
static void measure(dv_jit *jit, double top)
{
    static work all[N_CONFIGS];
    for (int i = 0; i < N_CONFIGS; i++)
        set_up(jit, &configs[i], &all[i]);
    for (int r = 0; r < repeats; r++)
        for (int i = 0; i < 2 * N_CONFIGS; i++) {
            work *w = &all[i / 2];
            run(w, i % 2);
            double t = seconds(threads);
            run(w, i % 2);
            w->t[i % 2][r] = seconds(threads) - t;
        }
    for (int i = 0; i < N_CONFIGS; i++) {
        printf("%-18s", all[i].c->name);
        for (int j = 0; j < 2; j++) {
            median(all[i].t[j], repeats); // sorts
            double half = share_at(&all[i], j, top, 2);
            printf("%8.1f%8.3f%8.3f%6.3f", half * top, half,
                   share_at(&all[i], j, top, 3), share_at(&all[i], j, top, 1));
        }
        printf("\n");
        tear_down(&all[i]);
    }
}

static int usage(void)
{
    fprintf(stderr, "usage: nest [-t THREADS, to %d] [-r REPEATS, to %d]\n",
            MAX_THREADS, MAX_REPEATS);
    return 2;
}

int main(int argc, char **argv)
{
    int opt;
    while ((opt = getopt(argc, argv, "t:r:")) != -1)
        if (opt == 't')
            threads = atoi(optarg);
        else if (opt == 'r')
            repeats = atoi(optarg);
        else
            return usage();
    if (threads < 1 || threads > MAX_THREADS || repeats < 1 ||
        repeats > MAX_REPEATS)
        return usage();
    dv_jit *jit;
    if (dv_jit_create(&jit, NULL)) {
        fprintf(stderr, "no kernels for this machine yet\n");
        return 3;
    }
    double top = best_peak(DV_F32, threads);
    printf("# %d threads, peak %.1f GFLOP/s f32\n", threads, top);
    printf("# GFLOP/s, share of the peak and its quartiles: kernels by hand; "
           "the library\n");
    measure(jit, top);
    dv_jit_destroy(jit);
    return 0;
}
