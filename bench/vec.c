// Elementwise functions, reductions and rows of softmax and layernorm, one
// thread, beside a plain copy in the same run.
//
//   vec [-r REPEATS] [ROWSxCOLS]...
//
// Each figure is the median of the repeats: time in the thread's own clock and
// between what half of the repeats are, ns an element, and bytes read and
// written a second. `share` is that of the copy
// of as many bytes in and out. Softmax and layernorm are programs, planned and
// run by the library for one thread; counted are their input, read once, and
// their result, written once.
#define _GNU_SOURCE
#include "median.h"
#include "usage.h"
#include "jit/vec/vec.h"
#include <divvy/divvy.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_REPEATS = 10000 };
static dv_jit *jit;
static int repeats = 30;
static double times[MAX_REPEATS]; // of the case at hand
static double copy_rate; // bytes a second, in and out; 0: not known yet

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// What was measured last. The median, not the least: the clock of a thread is
// sometimes late.
static void tell(const char *name, int64_t elems, double bytes)
{
    double s = median(times, repeats);
    copy_rate = copy_rate > 0 ? copy_rate : bytes / s;
    printf("  %-12s %8.1f us  %8.1f to %8.1f  %6.3f ns  %6.1f GB/s  %4.2f of "
           "copy\n",
           name, s * 1e6, quarter(times, repeats, 1) * 1e6,
           quarter(times, repeats, 3) * 1e6, s * 1e9 / (double)elems,
           bytes / s * 1e-9, bytes / s / copy_rate);
}

// -- Kernels -----------------------------------------------------------------

static dv_vec_node apply(dv_fn fn, int a, int b)
{
    return (dv_vec_node){.kind = DV_VEC_APPLY,
                         .fn = (uint8_t)fn,
                         .arg = {(uint16_t)a, (uint16_t)b}};
}

static dv_vec_node load(int operand)
{
    return (dv_vec_node){.kind = DV_VEC_LOAD, .arg = {(uint16_t)operand}};
}

typedef struct statement {
    dv_vec_operand o[4];
    dv_vec_node n[12];
    dv_vec_shape s;
    dv_vec_fn run;
} statement;

// Operands by letter: 'r' a row of elements, 'o' one a row. The last is
// written.
static void make(statement *t, const char *operands, int64_t cols, int n_nodes,
                 int value)
{
    int n = (int)strlen(operands);
    for (int i = 0; i < n; i++)
        t->o[i] = (dv_vec_operand){.inner = operands[i] == 'r',
                                   .outer = operands[i] == 'r' ? cols : 1,
                                   .dtype = DV_F32};
    t->s.operands = t->o;
    t->s.nodes = t->n;
    t->s.n_operands = (uint16_t)n;
    t->s.n_nodes = (uint16_t)n_nodes;
    t->s.result = (uint16_t)(n_nodes - 1);
    t->s.compute = DV_F32;
    if (value >= 0) {
        t->s.reduce = DV_VEC_INNER;
        t->s.value = (uint16_t)value;
    }
    if (dv_jit_vec(jit, &t->s, &t->run, NULL) != DV_OK) {
        fprintf(stderr, "no kernel\n");
        exit(1);
    }
}

static void measure(const statement *t, dv_vec_args *args)
{
    for (int i = 0; i < repeats; i++) {
        double from = now();
        t->run(args);
        times[i] = now() - from;
    }
}

// -- Cases -------------------------------------------------------------------

typedef struct space {
    int64_t rows, cols;
    float *x, *y, *z;
} space;

static void unary(const space *w, const char *name, dv_fn fn)
{
    statement t = {.n = {load(0), apply(fn, 0, 0)}};
    int64_t n = w->rows * w->cols;
    make(&t, "rr", n, 2, -1);
    dv_vec_args args = {1, n, (void *[]){w->x, w->y}, NULL};
    measure(&t, &args);
    tell(name, n, 8.0 * (double)n);
}

static void add(const space *w)
{
    statement t = {.n = {load(0), load(1), apply(DV_FN_ADD, 0, 1)}};
    int64_t n = w->rows * w->cols;
    make(&t, "rrr", n, 3, -1);
    dv_vec_args args = {1, n, (void *[]){w->x, w->z, w->y}, NULL};
    measure(&t, &args);
    tell("add", n, 12.0 * (double)n);
}

static void sum(const space *w, const char *name, dv_vec_reduce reduce)
{
    statement t = {.n = {load(0), {.kind = DV_VEC_REDUCED}}};
    int64_t n = w->rows * w->cols;
    t.s.reducer = DV_RED_SUM;
    make(&t, "ro", w->cols, 2, 0);
    t.s.reduce = (uint8_t)reduce;
    if (reduce == DV_VEC_OUTER)
        t.o[1] = (dv_vec_operand){.inner = 1, .dtype = DV_F32};
    if (dv_jit_vec(jit, &t.s, &t.run, NULL) != DV_OK)
        exit(1);
    dv_vec_args args = {w->rows, w->cols, (void *[]){w->x, w->y}, NULL};
    measure(&t, &args);
    tell(name, n, 4.0 * (double)n);
}

// -- Programs ----------------------------------------------------------------

static const char softmax[] = "m[i] = max[j] x[i,j]\n"
                              "e[i,j] = exp(x[i,j] - m[i])\n"
                              "s[i] = sum[j] e[i,j]\n"
                              "y[i,j] = e[i,j] / s[i]\n";
static const char layernorm[] =
    "m[i] = mean[j] x[i,j]\n"
    "v[i] = mean[j] (x[i,j] - m[i]) * (x[i,j] - m[i])\n"
    "y[i,j] = (x[i,j] - m[i]) * rsqrt(v[i] + 1e-5)\n";
static const char scaled[] =
    "u[i] = (sum[j] x[i,j]) / N\n"
    "c[i,j] = x[i,j] - u[i]\n"
    "v[i] = (sum[j] c[i,j] * c[i,j]) / N\n"
    "y[i,j] = c[i,j] * rsqrt(v[i] + 1e-5) * g[j] + b[j]\n";
static const char rmsnorm[] = "v[i] = mean[j] x[i,j] * x[i,j]\n"
                              "y[i,j] = x[i,j] * rsqrt(v[i] + 1e-5) * g[j]\n";

static void fail(dv_diag *diag)
{
    fputs(dv_diag_text(diag), stderr);
    exit(1);
}

// A program over rows x[M,N], with vectors g and b of N elements, to y[M,N].
static void program(const space *w, const char *name, const char *text)
{
    char all[800];
    int64_t n = w->rows * w->cols;
    int scales = strstr(text, "g[j]") != NULL,
        shifts = strstr(text, "b[j]") != NULL;
    snprintf(all, sizeof all,
             "param M = %d\nparam N = %d\ninput x: f32[M, N]\n%s%s%soutput y\n",
             (int)w->rows, (int)w->cols, scales ? "input g: f32[N]\n" : "",
             shifts ? "input b: f32[N]\n" : "", text);
    dv_diag *diag = dv_diag_create();
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_program *p = NULL;
    dv_target *t = NULL;
    dv_plan *plan = NULL;
    dv_exec *x = NULL;
    size_t bytes = (size_t)n * sizeof *w->x,
           row = (size_t)w->cols * sizeof *w->x;
    o.threads = 1;
    if (dv_program_parse(&p, all, strlen(all), name, NULL, 0, diag) ||
        dv_target_load(&t, "host", diag) ||
        dv_plan_create(&plan, p, t, &o, diag) ||
        dv_exec_create(&x, plan, diag) ||
        dv_exec_bind(x, "x", w->x, bytes, diag) ||
        dv_exec_bind(x, "y", w->y, bytes, diag) ||
        (scales && dv_exec_bind(x, "g", w->z, row, diag)) ||
        (shifts &&
         dv_exec_bind(x, "b", w->z + w->cols * (w->rows > 1), row, diag)))
        fail(diag);
    for (int k = 0; k < repeats; k++) {
        double from = now();
        if (dv_exec_run(x, diag))
            fail(diag);
        times[k] = now() - from;
    }
    tell(name, n, 8.0 * (double)n);
    dv_exec_destroy(x);
    dv_plan_destroy(plan);
    dv_target_destroy(t);
    dv_program_destroy(p);
    dv_diag_destroy(diag);
}

// -- Sizes -------------------------------------------------------------------

static void measure_copy(const space *w)
{
    size_t bytes = (size_t)(w->rows * w->cols) * sizeof *w->x;
    for (int i = 0; i < repeats; i++) {
        double from = now();
        memcpy(w->y, w->x, bytes);
        times[i] = now() - from;
    }
    copy_rate = 0; // this one is it
    tell("copy", w->rows * w->cols, 2 * (double)bytes);
}

static void size(int64_t rows, int64_t cols)
{
    size_t n = (size_t)(rows * cols);
    space w = {.rows = rows, .cols = cols};
    float **all[] = {&w.x, &w.y, &w.z};
    for (int i = 0; i < 3; i++)
        *all[i] = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
    for (size_t i = 0; i < n; i++) {
        w.x[i] = (float)(i * 7919 % 20011) / 2000 - 5;
        w.y[i] = w.z[i] = 0;
    }
    printf("%dx%d f32\n", (int)rows, (int)cols);
    measure_copy(&w);
    add(&w);
    static const struct {
        const char *name;
        dv_fn fn;
    } fns[] = {{"relu", DV_FN_RELU},       {"exp", DV_FN_EXP},
               {"log", DV_FN_LOG},         {"tanh", DV_FN_TANH},
               {"erf", DV_FN_ERF},         {"gelu", DV_FN_GELU},
               {"sigmoid", DV_FN_SIGMOID}, {"silu", DV_FN_SILU},
               {"rsqrt", DV_FN_RSQRT}};
    for (size_t i = 0; i < sizeof fns / sizeof *fns; i++)
        unary(&w, fns[i].name, fns[i].fn);
    sum(&w, "sum rows", DV_VEC_INNER);
    sum(&w, "sum columns", DV_VEC_OUTER);
    program(&w, "softmax", softmax);
    program(&w, "layernorm", layernorm);
    program(&w, "with g and b", scaled);
    program(&w, "rmsnorm", rmsnorm);
    for (size_t i = 0; i < n; i++) // nothing looks at what comes after it
        if ((int64_t)i % cols * rows > (int64_t)i / cols * cols)
            w.x[i] = -INFINITY;
    unary(&w, "exp, masked", DV_FN_EXP);
    program(&w, "softmax, masked", softmax);
    for (int i = 0; i < 3; i++)
        free(*all[i]);
}

// Time to make a kernel: the same function, another row length each time.
static void generation(void)
{
    static const struct {
        const char *name;
        dv_fn fn;
    } fns[] = {{"relu", DV_FN_RELU}, {"exp", DV_FN_EXP}, {"gelu", DV_FN_GELU}};
    for (int k = 0; k < 3; k++) {
        enum { N = 200 };
        double from = now();
        for (int i = 0; i < N; i++) {
            statement t = {.n = {load(0), apply(fns[k].fn, 0, 0)}};
            make(&t, "rr", 100000 + i, 2, -1);
        }
        printf("  making %-6s %5.1f us a kernel\n", fns[k].name,
               (now() - from) / N * 1e6);
    }
}

static int read_size(const char *text, int *rows, int *cols)
{
    return sscanf(text, "%dx%d", rows, cols) == 2 && *rows > 0 && *cols > 0;
}

static int usage(int asked)
{
    return tell_usage(asked, "vec [-r REPEATS, to %d] [ROWSxCOLS]...\n",
                      MAX_REPEATS);
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {"8x4096", "512x1024", "4096x4096"};
    const char *const *sizes = usual;
    int opt, rows, cols, n = 3;
    while ((opt = getopt(argc, argv, "hr:")) != -1)
        if (opt == 'r')
            repeats = atoi(optarg);
        else
            return usage(opt == 'h');
    if (optind < argc) {
        sizes = (const char *const *)argv + optind;
        n = argc - optind;
    }
    for (int i = 0; i < n; i++)
        if (!read_size(sizes[i], &rows, &cols))
            return usage(0);
    if (repeats < 1 || repeats > MAX_REPEATS)
        return usage(0);
    if (dv_jit_create(&jit, NULL) != DV_OK) {
        fprintf(stderr, "no kernels for this machine\n");
        return 3;
    }
    for (int i = 0; i < n; i++)
        if (read_size(sizes[i], &rows, &cols))
            size(rows, cols);
    generation();
    dv_jit_destroy(jit);
    return 0;
}
