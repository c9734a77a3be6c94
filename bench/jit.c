// How long kernels, nests and contractions take to make.
//
//   jit [-r ROUNDS] [-f TCCG_FILE] [NAME]...
//
// Kernels of one kind differ in a stride, so that none is found; each round
// makes 100 in memory of its own. `mean` has those pages of code in it that do
// not come with the first kernel, `best` is the fastest of all, `others` the
// mean where strides of all operands differ, `new` that of products whose
// strides are parts of instructions, and for others the first kernel where
// there is memory, `first` that together with the memory, `again` (ns) finding
// one that is there. Nests, trees and contractions are laid out and get their
// kernels, but are not run; each time the kernels are new. Figures of others
// are medians on a Neoverse-V1: LIBXSMM and mini_jit, and einsum_ir for trees
// and contractions. Names choose rows that begin with them (many, nest, tree
// and tccg too).
#define _GNU_SOURCE
#include "contraction.h"
#include "median.h"
#include "usage.h"
#include "jit/vec/vec.h"
#include "contract/contract.h"
#include <divvy/einsum.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KERNELS = 100, MOST_ROUNDS = 999, HITS = 200000 };
static int rounds = 21;
static char **wanted;
static int n_wanted;

static double clock_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// One kernel is made faster than a thread's own time is told; many are not,
// and then others on the machine count less.
static double wall(void)
{
    return clock_of(CLOCK_MONOTONIC);
}

static double own(void)
{
    return clock_of(CLOCK_THREAD_CPUTIME_ID);
}

static void need(dv_status s, const char *what)
{
    if (s == DV_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, dv_status_name(s));
    exit(3);
}

static int is_wanted(const char *name)
{
    for (int i = 0; i < n_wanted; i++)
        if (!strncmp(name, wanted[i], strlen(wanted[i])))
            return 1;
    return n_wanted == 0;
}

// -- Kernels -----------------------------------------------------------------

typedef enum kind { GEMM, MOVE, VEC } kind;

// One row: a kernel of which the i-th has another stride.
typedef struct row {
    const char *name, *peers; // in microseconds
    kind kind;
    int m, n, k, batch;
    int code;   // dv_move, or dv_fn
    int reduce; // dv_vec_reduce
} row;

static const row rows[] = {
    {"gemm 4^3", "-", GEMM, 4, 4, 4, 1, 0, 0},
    {"gemm 8^3", "12.1, 4.7", GEMM, 8, 8, 8, 1, 0, 0},
    {"gemm 16^3", "13.2, 4.1", GEMM, 16, 16, 16, 1, 0, 0},
    {"gemm 32^3", "12.7, 4.0", GEMM, 32, 32, 32, 1, 0, 0},
    {"gemm 64^3", "12.4, 3.9", GEMM, 64, 64, 64, 1, 0, 0},
    {"gemm 128^3", "12.1, 4.0", GEMM, 128, 128, 128, 1, 0, 0},
    {"gemm 13x7x29", "12.4, 5.5", GEMM, 13, 7, 29, 1, 0, 0},
    {"gemm 23^3", "26.9, 6.1", GEMM, 23, 23, 23, 1, 0, 0},
    {"brgemm 32^3x8", "12.1, 4.1", GEMM, 32, 32, 32, 8, 0, 0},
    {"copy 32x32", "-", MOVE, 32, 32, 0, 0, DV_MOVE_COPY, 0},
    {"transpose 32x32", "9.4, 4.2", MOVE, 32, 32, 0, 0, DV_MOVE_TRANSPOSE, 0},
    {"relu 32x32", "9.8, 4.0", VEC, 32, 32, 0, 0, DV_FN_RELU, DV_VEC_EACH},
    {"sum relu", "-", VEC, 32, 32, 0, 0, DV_FN_RELU, DV_VEC_INNER},
    {"exp 32x32", "-", VEC, 32, 32, 0, 0, DV_FN_EXP, DV_VEC_EACH},
    {"gelu 32x32", "-", VEC, 32, 32, 0, 0, DV_FN_GELU, DV_VEC_EACH},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

// A shape, ready to be asked for.
typedef struct asked {
    const row *r;
    dv_gemm_shape gemm;
    dv_move_shape move;
    dv_vec_operand operands[2];
    dv_vec_node nodes[3];
    dv_vec_shape vec;
} asked;

enum { FIRST_STRIDE = 10000 };
typedef enum what { ONE, ALL, NEW } what;

// Number i of a row: rows of the first operand are some elements further
// apart; or those of all; or those of all, and not too far for an instruction.
static void set_gemm(asked *a, const row *r, int i, what w)
{
    int64_t stride = FIRST_STRIDE + i, near = (r->n + 3) / 4 * 4 + 4 * i;
    a->gemm = (dv_gemm_shape){.m = r->m, .n = r->n, .k = r->k};
    a->gemm.batch = r->batch;
    a->gemm.dtype = DV_F32;
    a->gemm.lda = stride;
    a->gemm.ldb = a->gemm.ldc = w == ONE ? r->n : w == ALL ? stride : near;
    a->gemm.stride_a = r->m * stride;
    a->gemm.stride_b = r->k * a->gemm.ldb;
}

static void set_vec(asked *a, const row *r, int64_t stride)
{
    int fold = r->reduce != DV_VEC_EACH;
    a->operands[0] =
        (dv_vec_operand){.inner = 1, .outer = stride, .dtype = DV_F32};
    a->operands[1] = (dv_vec_operand){
        .inner = !fold, .outer = fold ? 1 : r->n, .dtype = DV_F32};
    a->nodes[0] = (dv_vec_node){.kind = DV_VEC_LOAD};
    a->nodes[1] = (dv_vec_node){.kind = DV_VEC_APPLY, .fn = (uint8_t)r->code};
    a->nodes[2] = (dv_vec_node){.kind = DV_VEC_REDUCED};
    a->vec = (dv_vec_shape){.operands = a->operands, .nodes = a->nodes};
    a->vec.n_operands = 2;
    a->vec.n_nodes = (uint16_t)(2 + fold);
    a->vec.value = 1;
    a->vec.result = (uint16_t)(1 + fold);
    a->vec.compute = DV_F32;
    a->vec.reduce = (uint8_t)r->reduce;
}

static void set(asked *a, const row *r, int i, what w)
{
    int64_t stride = FIRST_STRIDE + i;
    a->r = r;
    if (r->kind == GEMM)
        set_gemm(a, r, i, w);
    else if (r->kind == VEC)
        set_vec(a, r, stride);
    else
        a->move = (dv_move_shape){.rows = r->m,
                                  .cols = r->n,
                                  .lds = stride,
                                  .dtype = DV_F32,
                                  .move = (uint8_t)r->code};
}

static void make(dv_jit *jit, const asked *a)
{
    union {
        dv_gemm_fn gemm;
        dv_move_fn move;
        dv_vec_fn vec;
    } run;
    need(a->r->kind == GEMM   ? dv_jit_gemm(jit, &a->gemm, &run.gemm, NULL)
         : a->r->kind == MOVE ? dv_jit_move(jit, &a->move, &run.move, NULL)
                              : dv_jit_vec(jit, &a->vec, &run.vec, NULL),
         a->r->name);
}

static dv_jit *new_jit(void)
{
    dv_jit *jit;
    need(dv_jit_create(&jit, NULL), "memory for kernels");
    return jit;
}

static asked all[KERNELS + 1];

static void set_all(const row *r, what w)
{
    for (int i = 0; i <= KERNELS; i++)
        set(&all[i], r, i, w);
}

// Seconds a kernel, many at a time.
static double mean_of(int64_t *bytes)
{
    dv_jit *jit = new_jit();
    dv_jit_stats s, t;
    make(jit, &all[0]);
    dv_jit_stats_get(jit, &s);
    double from = own();
    for (int i = 1; i <= KERNELS; i++)
        make(jit, &all[i]);
    from = own() - from;
    dv_jit_stats_get(jit, &t);
    *bytes = (t.code_bytes - s.code_bytes) / KERNELS;
    dv_jit_destroy(jit);
    return from / KERNELS;
}

static double best_of(double *first)
{
    double from = wall(), best = 1;
    dv_jit *jit = new_jit();
    make(jit, &all[0]);
    *first = wall() - from;
    for (int i = 1; i <= KERNELS; i++) {
        from = wall();
        make(jit, &all[i]);
        from = wall() - from;
        best = from < best ? from : best;
    }
    dv_jit_destroy(jit);
    return best;
}

// The first of its kind, in memory that is there.
static double new_of(const row *r)
{
    static asked before;
    dv_jit *jit = new_jit();
    set(&before, &rows[0], 0, ONE);
    make(jit, &before);
    set(&all[0], r, 0, ONE);
    double from = wall();
    make(jit, &all[0]);
    from = wall() - from;
    dv_jit_destroy(jit);
    return from;
}

static double again(void)
{
    dv_jit *jit = new_jit();
    make(jit, &all[0]);
    double from = own();
    for (int i = 0; i < HITS; i++)
        make(jit, &all[0]);
    from = (own() - from) / HITS;
    dv_jit_destroy(jit);
    return from;
}

static void tell_row(const row *r)
{
    static double mean[MOST_ROUNDS], others[MOST_ROUNDS], first[MOST_ROUNDS];
    static double unlike[MOST_ROUNDS];
    double best = 1;
    int64_t bytes = 0, ignored;
    for (int i = 0; i < rounds; i++) {
        set_all(r, NEW);
        unlike[i] = r->kind == GEMM ? mean_of(&ignored) : new_of(r);
        set_all(r, ALL);
        others[i] = mean_of(&ignored);
        set_all(r, ONE);
        mean[i] = mean_of(&bytes);
        double b = best_of(&first[i]);
        best = b < best ? b : best;
    }
    printf("%-16s%8.2f%8.2f%8.2f%8.2f%8.0f%8.1f%8ld   %s\n", r->name,
           median(mean, rounds) * 1e6, best * 1e6, median(others, rounds) * 1e6,
           median(unlike, rounds) * 1e6, median(first, rounds) * 1e6,
           again() * 1e9, (long)bytes, r->peers);
    fflush(stdout);
}

// So many that nearly all of their pages are in it.
static void tell_many(const row *r)
{
    enum { MANY = 1000 };
    static double mean[MOST_ROUNDS];
    static asked one;
    for (int i = 0; i < rounds; i++) {
        dv_jit *jit = new_jit();
        double sum = 0;
        for (int j = 0; j <= MANY; j++) {
            set(&one, r, j, ONE);
            double from = j == 1 ? own() : 0;
            make(jit, &one);
            sum -= from;
        }
        mean[i] = (sum + own()) / MANY;
        dv_jit_destroy(jit);
    }
    printf("%-10s 1000%9.2f\n", r->name, median(mean, rounds) * 1e6);
}

// All kinds in turn, none like the one before.
static void tell_mixed(void)
{
    static double mean[MOST_ROUNDS];
    for (int i = 0; i < rounds; i++) {
        dv_jit *jit = new_jit();
        double sum = 0;
        for (int j = 0; j <= KERNELS / N_ROWS; j++) {
            for (int k = 0; k < N_ROWS; k++)
                set(&all[k], &rows[k], j, ONE);
            double from = own();
            for (int k = 0; k < N_ROWS; k++)
                make(jit, &all[k]);
            sum += j ? own() - from : 0;
        }
        mean[i] = sum / (KERNELS / N_ROWS * N_ROWS);
        dv_jit_destroy(jit);
    }
    printf("%-16s%8.2f\n", "all in turn", median(mean, rounds) * 1e6);
}

// -- Nests and trees ---------------------------------------------------------

static dv_nest_dim dim_of(const contraction *x, int index)
{
    dv_nest_dim d = {.exec = DV_NEST_SEQ, .size = x->size[index]};
    for (int o = 0; o < DV_N_OPERANDS; o++) {
        const char *p = x->index[o];
        int64_t step = 1;
        for (; *p && *p != index; p++)
            step *= x->size[(unsigned char)*p];
        d.stride[o] = *p ? step : 0;
    }
    d.type = !d.stride[DV_OUT]   ? DV_NEST_K
             : !d.stride[DV_IN0] ? DV_NEST_N
             : !d.stride[DV_IN1] ? DV_NEST_M
                                 : DV_NEST_C;
    return d;
}

static dv_nest nest_of(const contraction *x, dv_prim last)
{
    dv_nest n = {.name = "x", .dtype = DV_F32, .first = DV_PRIM_ZERO};
    n.main = DV_PRIM_GEMM;
    n.last = last;
    for (int i = 'a'; i <= 'z'; i++)
        if (x->size[i])
            n.dims[n.n_dims++] = dim_of(x, i);
    return n;
}

typedef struct cost {
    double median, best, first;
    int64_t kernels;
} cost;

// Laying a nest out and making its kernels, each time in a jit of its own that
// is there already.
static cost cost_of_nest(const dv_nest *n)
{
    static double t[MOST_ROUNDS];
    cost c = {.best = 1};
    dv_contract_options o = DV_CONTRACT_OPTIONS_INIT;
    for (int i = 0; i < rounds; i++) {
        dv_contract *x;
        dv_jit *jit = new_jit();
        set(&all[0], &rows[0], 0, ONE);
        make(jit, &all[0]);
        double from = own();
        need(dv_contract_create(&x, jit, n, &o, NULL), "contraction");
        t[i] = own() - from;
        c.first = i ? c.first : t[i];
        c.best = t[i] < c.best ? t[i] : c.best;
        dv_jit_stats s;
        dv_jit_stats_get(jit, &s);
        c.kernels = s.n_kernels - 1;
        dv_contract_destroy(x);
        dv_jit_destroy(jit);
    }
    c.median = median(t, rounds);
    return c;
}

static void tell_cost(const char *name, cost c, const char *peers)
{
    printf("%-16s%8.1f%8.1f%8.0f%8ld   %s\n", name, c.median * 1e6,
           c.best * 1e6, c.first * 1e6, (long)c.kernels, peers);
    fflush(stdout);
}

static void tell_1600(void)
{
    char a[] = "mk", b[] = "kn", out[] = "mn";
    contraction x = {{a, b, out}, {['m'] = 1600, ['n'] = 1600, ['k'] = 1600}};
    dv_nest n = nest_of(&x, DV_PRIM_RELU);
    tell_cost("gemm 1600 relu", cost_of_nest(&n), "15");
}

// Four contractions of five operands; mini_jit puts five permutations in.
static const char tree[] =
    "[[8,4],[7,3,8]->[7,3,4]],[[[2,6,7],[1,5,6]->[1,2,5,7]],[0,5]->[0,1,2,7]]"
    "->[0,1,2,3,4]";

static void tell_tree(void)
{
    static const int64_t shapes[][3] = {
        {3, 3}, {32, 128, 3}, {128, 305, 32}, {72, 71, 305}, {100, 71}};
    static const int n_dims[] = {2, 3, 3, 3, 2};
    static double t[MOST_ROUNDS];
    dv_array in[5];
    cost c = {.best = 1};
    dv_target *host;
    dv_diag *diag = dv_diag_create();
    need(dv_target_load(&host, "host", NULL), "host");
    dv_einsum_options o = DV_EINSUM_OPTIONS_INIT;
    o.target = host;
    for (int i = 0; i < 5; i++)
        in[i] = (dv_array){DV_F32, n_dims[i], shapes[i], NULL, NULL};
    for (int i = 0; i < rounds; i++) {
        dv_einsum_exec *e;
        double from = own();
        if (dv_einsum_create(&e, tree, in, 5, &o, diag)) {
            fprintf(stderr, "%s", dv_diag_text(diag));
            exit(3);
        }
        t[i] = own() - from;
        c.first = i ? c.first : t[i];
        c.best = t[i] < c.best ? t[i] : c.best;
        dv_einsum_destroy(e);
    }
    c.median = median(t, rounds);
    dv_target_destroy(host);
    dv_diag_destroy(diag);
    tell_cost("tree of 4", c, "74; 409");
}

static void tell_tccg(const char *path)
{
    static double mid[MOST_ROUNDS], best[MOST_ROUNDS];
    char line[400];
    char *name;
    contraction x;
    int n = 0;
    FILE *f = fopen(path, "r");
    if (!f) {
        fprintf(stderr, "%s: not there\n", path);
        exit(3);
    }
    while (n < MOST_ROUNDS && fgets(line, sizeof line, f)) {
        if (!read_line(line, &x, &name))
            continue;
        dv_nest nest = nest_of(&x, DV_PRIM_NONE);
        cost c = cost_of_nest(&nest);
        mid[n] = c.median;
        best[n++] = c.best;
    }
    fclose(f);
    double middle = median(mid, n);
    printf("%-16s%8.1f%8.1f to %.1f, best %.1f to %.1f   131, 33 to 929\n",
           "TCCG, one of all", middle * 1e6, mid[0] * 1e6, mid[n - 1] * 1e6,
           (qsort(best, (size_t)n, sizeof *best, by_value), best[0] * 1e6),
           best[n - 1] * 1e6);
}

static int usage(int help)
{
    return tell_usage(help, "jit [-r ROUNDS, to %d] [-f TCCG_FILE] [NAME]...\n",
                      MOST_ROUNDS);
}

int main(int argc, char **argv)
{
    const char *file = NULL;
    int opt;
    while ((opt = getopt(argc, argv, "hr:f:")) != -1)
        if (opt == 'r')
            rounds = atoi(optarg);
        else if (opt == 'f')
            file = optarg;
        else
            return usage(opt == 'h');
    if (rounds < 1 || rounds > MOST_ROUNDS)
        return usage(0);
    wanted = argv + optind;
    n_wanted = argc - optind;
    dv_jit_destroy(new_jit());
    printf("# us to make one\n");
    printf("# %-14s%8s%8s%8s%8s%8s%8s%8s   LIBXSMM, mini_jit\n", "", "mean",
           "best", "others", "new", "first", "again", "bytes");
    for (int i = 0; i < N_ROWS; i++)
        if (is_wanted(rows[i].name))
            tell_row(&rows[i]);
    for (int i = 0; i < N_ROWS; i++)
        if (is_wanted("many") && rows[i].m == 128)
            tell_many(&rows[i]);
    if (is_wanted("all in turn"))
        tell_mixed();
    printf("# %-14s%8s%8s%8s%8s   mini_jit; einsum_ir\n", "", "median", "best",
           "first", "kernels");
    if (is_wanted("nest"))
        tell_1600();
    if (is_wanted("tree"))
        tell_tree();
    if (file && is_wanted("tccg"))
        tell_tccg(file);
    return 0;
}
