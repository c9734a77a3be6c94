// Tensor contractions of the TCCG collection, beside the best figures that
// others reach on such a machine.
//
//   tccg [-t THREADS] [-r REPEATS] [-v] FILE [NAME]...
//
// FILE has a line for each: name,C,A,B,sizes,… with indices in column-major
// order (the first is unit stride) and sizes as "a=384;b=24". f32, C starts at
// zero. The peak is measured first, with the same threads, which are bound to
// cores. One thread is timed by its own clock, so that others on the machine
// disturb less; several by the wall's, as they wait for each other. Figures are
// medians of the repeats, and between what half of them are; `best` is the
// best one's GFLOP/s. GB/s count each operand once.
#define _GNU_SOURCE
#include "bind.h"
#include "contraction.h"
#include "median.h"
#include "peak.h"
#include "usage.h"
#include "contract/contract.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_REPEATS = 101 };
static int threads = 1, repeats = 5, verbose;

// Best of TBLIS, einsum_ir and others, GFLOP/s in f32 on one and two cores of
// a Neoverse-V1 whose peak is 83.1 a core.
typedef struct peer {
    const char *name;
    double one, two;
} peer;

static const peer peers[] = {
    {"abc-bda-dc", 34.0, 67.5},        {"abcd-dbea-ec", 30.2, 43.6},
    {"abcd-ebad-ce", 42.2, 84.6},      {"abcde-ecbfa-fd", 26.1, 44.7},
    {"abcd-ea-ebcd", 62.4, 120.5},     {"abcd-ec-abed", 55.3, 107.1},
    {"ab-acd-dbc", 58.1, 108.7},       {"abc-acd-db", 62.5, 122.2},
    {"abc-adc-bd", 62.9, 124.7},       {"abc-adec-ebd", 55.8, 106.2},
    {"abcd-aebf-fdec", 67.7, 134.6},   {"abcd-aecf-fbed", 68.2, 137.3},
    {"abcd-aedf-fbec", 69.1, 138.9},   {"abcd-aefc-fbed", 68.5, 136.9},
    {"abcd-eafc-bfde", 69.9, 140.3},   {"abcdef-dega-gfbc", 50.8, 98.9},
    {"abcdef-degc-gfab", 50.0, 99.0},  {"abcdef-dfgb-geac", 47.1, 91.9},
    {"abcdef-efga-gdbc", 51.8, 101.7}, {"abcdef-efgc-gdab", 49.5, 98.0},
    {"abcdef-gdac-efgb", 46.5, 92.6},  {"abcdef-geab-dfgc", 49.9, 98.8},
    {"abcdef-gebc-dfga", 51.2, 98.7},  {"abcdef-gfac-degb", 45.5, 91.2},
};

static const peer *peer_of(const char *name)
{
    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++)
        if (!strcmp(name, peers[i].name))
            return &peers[i];
    return NULL;
}

// -- One contraction ---------------------------------------------------------

static int64_t elems_of(const contraction *x, int o)
{
    int64_t n = 1;
    for (const char *p = x->index[o]; *p; p++)
        n *= x->size[(unsigned char)*p];
    return n;
}

static void stride_of(const contraction *x, dv_nest_dim *d, char index)
{
    for (int o = 0; o < DV_N_OPERANDS; o++) {
        int64_t step = 1;
        const char *p = x->index[o];
        for (; *p && *p != index; p++)
            step *= x->size[(unsigned char)*p];
        d->stride[o] = *p ? step : 0;
    }
}

static dv_nest nest_of(const contraction *x)
{
    dv_nest n = {.name = "tccg", .dtype = DV_F32, .main = DV_PRIM_GEMM};
    n.first = DV_PRIM_ZERO;
    for (char i = 'a'; i <= 'z'; i++) {
        if (!x->size[(unsigned char)i])
            continue;
        dv_nest_dim *d = &n.dims[n.n_dims++];
        *d = (dv_nest_dim){.exec = DV_NEST_SEQ,
                           .size = x->size[(unsigned char)i]};
        stride_of(x, d, i);
        d->type = !d->stride[DV_OUT]   ? DV_NEST_K
                  : !d->stride[DV_IN0] ? DV_NEST_N
                  : !d->stride[DV_IN1] ? DV_NEST_M
                                       : DV_NEST_C;
    }
    return n;
}

static float *new_tensor(const contraction *x, int o)
{
    int64_t n = elems_of(x, o);
    size_t huge = 2 << 20, bytes = ((size_t)n * 4 + huge - 1) / huge * huge;
    float *t = aligned_alloc(huge, bytes);
    if (!t)
        exit(3);
    madvise(t, bytes, MADV_HUGEPAGE); // a wish, as numpy has it for large ones
    if (o == DV_OUT)
        memset(t, 0, (size_t)n * 4);
    else
        dv_nest_fill(DV_F32, (uint64_t)o, t, n);
    return t;
}

// A few elements against sums in double; whole small numbers make them exact.
static void check(const contraction *x, const dv_nest *n, const float *a,
                  const float *b, const float *c)
{
    (void)x;
    for (int turn = 0; turn < 20; turn++) {
        int64_t at[DV_N_OPERANDS] = {0}, index[DV_NEST_MAX_DIMS] = {0};
        for (int i = 0; i < n->n_dims; i++) {
            const dv_nest_dim *d = &n->dims[i];
            int64_t v = d->type == DV_NEST_K ? 0 : rand() % d->size;
            for (int o = 0; o < DV_N_OPERANDS; o++)
                at[o] += v * d->stride[o];
        }
        double sum = 0;
        for (int i = 0; i < n->n_dims;) {
            int64_t p = at[DV_IN0], q = at[DV_IN1];
            for (int j = 0; j < n->n_dims; j++) {
                p += index[j] * n->dims[j].stride[DV_IN0];
                q += index[j] * n->dims[j].stride[DV_IN1];
            }
            sum += (double)a[p] * (double)b[q];
            for (i = 0; i < n->n_dims; i++) {
                if (n->dims[i].type != DV_NEST_K)
                    continue;
                if (++index[i] < n->dims[i].size)
                    break;
                index[i] = 0;
            }
        }
        if (sum != (double)c[at[DV_OUT]]) {
            printf("wrong: %g instead of %g\n", (double)c[at[DV_OUT]], sum);
            exit(4);
        }
    }
}

// Share of the peak.
static double measure(dv_jit *jit, const contraction *x, const char *name,
                      double top)
{
    static double t[MAX_REPEATS];
    dv_nest n = nest_of(x);
    dv_contract_options o = {.size = sizeof(dv_contract_options),
                             .threads = threads};
    dv_contract *c;
    dv_diag *diag = dv_diag_create();
    double begin = seconds(1), flop = 2, bytes = 0;
    if (dv_contract_create(&c, jit, &n, &o, diag)) {
        printf("%s: %s", name, dv_diag_text(diag));
        exit(3);
    }
    double made = seconds(1) - begin;
    float *a = new_tensor(x, DV_IN0), *b = new_tensor(x, DV_IN1);
    float *out = new_tensor(x, DV_OUT);
    for (int i = 0; i < n.n_dims; i++)
        flop *= (double)n.dims[i].size;
    for (int i = 0; i < DV_N_OPERANDS; i++)
        bytes += 4.0 * (double)elems_of(x, i);
    dv_contract_run(c, a, b, NULL, out, NULL); // warms up
    for (int r = 0; r < repeats; r++) {
        double from = seconds(threads);
        dv_contract_run(c, a, b, NULL, out, NULL);
        t[r] = seconds(threads) - from;
    }
    check(x, &n, a, b, out);
    const peer *p = peer_of(name);
    double s = median(t, repeats), f = flop / s / 1e9;
    double theirs = p ? threads == 2 ? p->two : p->one : 0;
    printf("%-18s %7.1f  %5.3f  %5.3f %5.3f %7.1f %6.1f %7.1f %5.2f %8.0f\n",
           name, f, f / top, flop / quarter(t, repeats, 3) / 1e9 / top,
           flop / quarter(t, repeats, 1) / 1e9 / top, flop / t[0] / 1e9,
           bytes / s / 1e9, theirs, theirs > 0 ? f / theirs : 0, made * 1e6);
    if (verbose) {
        dv_text text = {0};
        dv_nest_print(&text, dv_contract_nest(c));
        printf("%s", text.at);
        dv_text_free(&text);
    }
    fflush(stdout);
    dv_contract_destroy(c);
    dv_diag_destroy(diag);
    free(a);
    free(b);
    free(out);
    return f / top;
}

static int usage(int asked)
{
    return tell_usage(
        asked, "tccg [-t THREADS] [-r REPEATS, to %d] [-v] FILE [NAME]...\n",
        MAX_REPEATS);
}

int main(int argc, char **argv)
{
    int opt, count = 0, compared = 0;
    while ((opt = getopt(argc, argv, "ht:r:v")) != -1)
        if (opt == 't')
            threads = atoi(optarg);
        else if (opt == 'r')
            repeats = atoi(optarg);
        else if (opt == 'v')
            verbose = 1;
        else
            return usage(opt == 'h');
    FILE *f = optind < argc ? fopen(argv[optind], "r") : NULL;
    dv_jit *jit;
    if (!f || threads < 1 || repeats < 1 || repeats > MAX_REPEATS)
        return usage(0);
    if (dv_jit_create(&jit, NULL)) {
        fprintf(stderr, "no kernels for this machine yet\n");
        return 3;
    }
    if (threads > 1)
        bind_team(threads);
    double top = best_peak(DV_F32, threads), shares = 0, ratios = 0;
    double least = INFINITY;
    char line[400], *name;
    contraction x;
    printf("# %d threads, peak %.1f GFLOP/s f32\n", threads, top);
    printf("# C-A-B            GFLOP/s  share  quartiles      best   GB/s    "
           "peer times us to make\n");
    while (fgets(line, sizeof line, f)) {
        int wanted = optind + 1 == argc;
        if (!read_line(line, &x, &name))
            continue;
        for (int i = optind + 1; i < argc; i++)
            wanted |= !strcmp(argv[i], name);
        if (!wanted)
            continue;
        double share = measure(jit, &x, name, top);
        const peer *p = peer_of(name);
        if (p) {
            ratios += log(share * top / (threads == 2 ? p->two : p->one));
            compared++;
        }
        shares += log(share);
        least = share < least ? share : least;
        count++;
    }
    if (count)
        printf("# geometric mean of %d: %.3f of peak, %.2f times the peer; "
               "least %.3f\n",
               count, exp(shares / count),
               compared ? exp(ratios / compared) : 0, least);
    fclose(f);
    dv_jit_destroy(jit);
    return 0;
}
