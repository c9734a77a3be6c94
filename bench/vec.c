// Elementwise functions, reductions and rows of softmax and layernorm, one
// thread, beside a plain copy in the same run.
//
//   vec [-r REPEATS] [ROWSxCOLS]...
//
// Each figure is the median of the repeats: time in the thread's own clock, ns
// an element, and bytes read and written a second. `share` is that of the copy
// of as many bytes in and out. Softmax and layernorm are statements of the
// language, done a row at a time, so that what is between them stays near;
// counted are their input, read once, and their result, written once.
#define _GNU_SOURCE
#include "jit/vec.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static dv_jit *jit;
static int repeats = 30;
static double copy_rate; // bytes a second, in and out

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void tell(const char *name, double s, int64_t elems, double bytes)
{
    printf("  %-12s %8.1f us  %6.3f ns  %6.1f GB/s  %4.2f of copy\n", name,
           s * 1e6, s * 1e9 / (double)elems, bytes / s * 1e-9,
           bytes / s / copy_rate);
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

static dv_vec_node constant(double v)
{
    return (dv_vec_node){.kind = DV_VEC_CONST, .value = v};
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
                                   .ahead = t->o[i].ahead,
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

// The last statement of several that read x: it fetches the next row.
static void make_last(statement *t, const char *operands, int64_t cols,
                      int n_nodes, int value)
{
    t->o[0].ahead = cols;
    make(t, operands, cols, n_nodes, value);
}

static double times[10000];

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

// Not the least: the clock of a thread is sometimes late.
static double median(void)
{
    qsort(times, (size_t)repeats, sizeof *times, by_size);
    return times[repeats / 2];
}

static double time_of(const statement *t, dv_vec_args *args)
{
    for (int i = 0; i < repeats; i++) {
        double from = now();
        t->run(args);
        times[i] = now() - from;
    }
    return median();
}

// -- Cases -------------------------------------------------------------------

typedef struct space {
    int64_t rows, cols;
    float *x, *y, *z, *m, *v;
} space;

static void unary(const space *w, const char *name, dv_fn fn)
{
    statement t = {.n = {load(0), apply(fn, 0, 0)}};
    int64_t n = w->rows * w->cols;
    make(&t, "rr", n, 2, -1);
    dv_vec_args args = {1, n, (void *[]){w->x, w->y}, NULL};
    tell(name, time_of(&t, &args), n, 8.0 * (double)n);
}

static void add(const space *w)
{
    statement t = {.n = {load(0), load(1), apply(DV_FN_ADD, 0, 1)}};
    int64_t n = w->rows * w->cols;
    make(&t, "rrr", n, 3, -1);
    dv_vec_args args = {1, n, (void *[]){w->x, w->z, w->y}, NULL};
    tell("add", time_of(&t, &args), n, 12.0 * (double)n);
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
    tell(name, time_of(&t, &args), n, 4.0 * (double)n);
}

// m = max x; e = exp(x - m); s = sum e; y = e / s
static void softmax(const space *w)
{
    statement top = {.n = {load(0), {.kind = DV_VEC_REDUCED}}};
    statement e = {.n = {load(0), load(1), apply(DV_FN_SUB, 0, 1),
                         apply(DV_FN_EXP, 2, 0)}};
    statement s = {.n = {load(0), {.kind = DV_VEC_REDUCED}}};
    statement y = {.n = {load(0), load(1), apply(DV_FN_DIV, 0, 1)}};
    top.s.reducer = DV_RED_MAX;
    make(&top, "ro", w->cols, 2, 0);
    make_last(&e, "ror", w->cols, 4, -1);
    make(&s, "ro", w->cols, 2, 0);
    make(&y, "ror", w->cols, 3, -1);
    for (int k = 0; k < repeats; k++) {
        double from = now();
        for (int64_t i = 0; i < w->rows; i++) {
            float *x = w->x + i * w->cols, *out = w->y + i * w->cols;
            int64_t n = w->cols;
            top.run(&(dv_vec_args){1, n, (void *[]){x, w->m}, NULL});
            e.run(&(dv_vec_args){1, n, (void *[]){x, w->m, w->v}, NULL});
            s.run(&(dv_vec_args){1, n, (void *[]){w->v, w->m}, NULL});
            y.run(&(dv_vec_args){1, n, (void *[]){w->v, w->m, out}, NULL});
        }
        times[k] = now() - from;
    }
    tell("softmax", median(), w->rows * w->cols,
         8.0 * (double)(w->rows * w->cols));
}

// m = mean x; v = mean (x - m)^2; y = (x - m) * rsqrt(v + 1e-5)
static void layernorm(const space *w)
{
    statement m = {.n = {load(0),
                         {.kind = DV_VEC_REDUCED},
                         constant((double)w->cols),
                         apply(DV_FN_DIV, 1, 2)}};
    statement v = {.n = {load(0),
                         load(1),
                         apply(DV_FN_SUB, 0, 1),
                         apply(DV_FN_MUL, 2, 2),
                         {.kind = DV_VEC_REDUCED},
                         constant((double)w->cols),
                         apply(DV_FN_DIV, 4, 5)}};
    statement y = {.n = {load(0), load(1), load(2), constant(1e-5),
                         apply(DV_FN_ADD, 2, 3), apply(DV_FN_RSQRT, 4, 0),
                         apply(DV_FN_SUB, 0, 1), apply(DV_FN_MUL, 6, 5)}};
    make(&m, "ro", w->cols, 4, 0);
    make(&v, "roo", w->cols, 7, 3);
    make_last(&y, "roor", w->cols, 8, -1);
    for (int k = 0; k < repeats; k++) {
        double from = now();
        for (int64_t i = 0; i < w->rows; i++) {
            float *x = w->x + i * w->cols, *out = w->y + i * w->cols;
            int64_t n = w->cols;
            m.run(&(dv_vec_args){1, n, (void *[]){x, w->m}, NULL});
            v.run(&(dv_vec_args){1, n, (void *[]){x, w->m, w->v}, NULL});
            y.run(&(dv_vec_args){1, n, (void *[]){x, w->m, w->v, out}, NULL});
        }
        times[k] = now() - from;
    }
    tell("layernorm", median(), w->rows * w->cols,
         8.0 * (double)(w->rows * w->cols));
}

static void measure_copy(const space *w)
{
    size_t bytes = (size_t)(w->rows * w->cols) * sizeof *w->x;
    for (int i = 0; i < repeats; i++) {
        double from = now();
        memcpy(w->y, w->x, bytes);
        times[i] = now() - from;
    }
    double s = median();
    copy_rate = 2 * (double)bytes / s;
    tell("copy", s, w->rows * w->cols, 2 * (double)bytes);
}

static void size(int64_t rows, int64_t cols)
{
    size_t n = (size_t)(rows * cols);
    space w = {.rows = rows, .cols = cols};
    float **all[] = {&w.x, &w.y, &w.z};
    for (int i = 0; i < 3; i++)
        *all[i] = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
    w.m = malloc((size_t)(rows + cols) * sizeof *w.m);
    w.v = malloc((size_t)(rows + cols) * sizeof *w.v);
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
    softmax(&w);
    layernorm(&w);
    for (int i = 0; i < 3; i++)
        free(*all[i]);
    free(w.m);
    free(w.v);
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

int main(int argc, char **argv)
{
    int done = 0;
    if (dv_jit_create(&jit, NULL) != DV_OK) {
        fprintf(stderr, "no kernels for this machine\n");
        return 3;
    }
    for (int i = 1; i < argc; i++) {
        int rows, cols;
        if (!strcmp(argv[i], "-r") && i + 1 < argc)
            repeats = atoi(argv[++i]);
        else if (repeats < 1 || repeats > (int)(sizeof times / sizeof *times))
            return fprintf(stderr, "repeats: 1 to 10000\n"), 2;
        else if (sscanf(argv[i], "%dx%d", &rows, &cols) == 2 && rows > 0 &&
                 cols > 0)
            size(rows, cols), done = 1;
        else
            return fprintf(stderr, "usage: vec [-r REPEATS] [ROWSxCOLS]...\n"),
                   2;
    }
    if (!done) {
        size(8, 4096);
        size(512, 1024);
        size(4096, 4096);
    }
    generation();
    dv_jit_destroy(jit);
    return 0;
}
