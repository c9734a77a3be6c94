// Runs: operands with strides, by number and by name; several runs of one exec
// at once, in the background, and with the caller's own thread pool.
#include "harness/test.h"
#include "divvy/run.h"
#include "harness/unit.h"
#include <pthread.h>
#include <stdatomic.h>

// -- Operands -----------------------------------------------------------------

enum { N_OPERANDS = 8, PAD = 3 };

// An array with the elements of a dense one, at any strides.
typedef struct array {
    dv_tensor_info info;
    int64_t strides[DV_MAX_DIMS], n; // n: elements of memory
    int64_t first;                   // where element 0 is
    char *memory, *dense;
} array;

static int64_t size_of(const array *a)
{
    int64_t n = a->info.size_bytes;
    for (int d = 0; d < a->info.n_dims; d++)
        n /= a->info.shape[d];
    return n;
}

// The order of dims in memory: 0 row-major, 1 the last two dims exchanged, 2
// all dims reversed, 3 every second element, 4 backwards along dim 0.
static void make_array(array *a, const dv_tensor_info *info, int order)
{
    int64_t n = 1;
    int dims = info->n_dims;
    a->info = *info;
    for (int i = dims - 1; i >= 0; i--) {
        int d = order == 2                               ? dims - 1 - i
                : order == 1 && dims > 1 && i > dims - 3 ? 2 * dims - 3 - i
                                                         : i;
        a->strides[d] = n;
        n *= info->shape[d] * (i == dims - 1 && order == 3 ? 2 : 1);
        if (i == dims - 1 && order == 3)
            a->strides[d] = 2;
        n += PAD;
    }
    a->first = PAD;
    a->n = n + 2 * PAD;
    if (order == 4 && dims) {
        a->first += (info->shape[0] - 1) * a->strides[0];
        a->strides[0] = -a->strides[0];
    }
    a->memory = calloc((size_t)a->n, (size_t)size_of(a));
    a->dense = calloc(1, (size_t)info->size_bytes + 1);
    assert_non_null(a->memory);
    assert_non_null(a->dense);
}

// Calls f for the address of every element in both memories.
static void for_elements(array *a, void (*f)(char *dense, char *at, size_t n))
{
    int64_t total = a->info.size_bytes / size_of(a);
    for (int64_t e = 0; e < total; e++) {
        int64_t left = e, off = a->first;
        for (int d = a->info.n_dims - 1; d >= 0; d--) {
            off += left % a->info.shape[d] * a->strides[d];
            left /= a->info.shape[d];
        }
        assert_true(off >= 0 && off < a->n);
        f(a->dense + e * size_of(a), a->memory + off * size_of(a),
          (size_t)size_of(a));
    }
}

static void put(char *dense, char *at, size_t n)
{
    memcpy(at, dense, n);
}

static void is_equal(char *dense, char *at, size_t n)
{
    assert_memory_equal(at, dense, n);
}

static void free_array(array *a)
{
    free(a->memory);
    free(a->dense);
}

static dv_operand operand_of(const array *a)
{
    dv_operand o = DV_OPERAND_INIT;
    o.name = a->info.name;
    o.dtype = a->info.dtype;
    o.n_dims = a->info.n_dims;
    o.shape = a->info.shape;
    o.strides = a->strides;
    o.data = a->memory;
    o.offset_bytes = a->first * size_of(a);
    return o;
}

// Binds arrays of this order to a run of an exec that was told so, or not;
// returns the number of operands that a run copies. The results must have the
// bits of the job's.
static int run_order(job *j, int order, int told)
{
    array a[N_OPERANDS];
    dv_strides strides[N_OPERANDS];
    dv_tensor_info info;
    dv_exec_options how = DV_EXEC_OPTIONS_INIT;
    dv_exec *x = NULL;
    dv_run *r = NULL;
    int n = 0, copies = 0;
    for (; dv_exec_operand(j->x, n, &info) == DV_OK; n++) {
        assert_true(n < N_OPERANDS);
        make_array(&a[n], &info, order);
        strides[n] = (dv_strides){info.name, a[n].strides};
    }
    how.strides = strides;
    how.n_strides = told ? (size_t)n : 0;
    if (dv_exec_create_with(&x, j->plan, &how, j->diag) ||
        dv_exec_use(x, dv_exec_executor(j->x), j->diag) ||
        dv_run_create(&r, x, NULL, j->diag))
        fail_msg("%s", dv_diag_text(j->diag));
    for (int i = 0; i < n; i++) {
        int32_t t = tensor_named(j->plan, a[i].info.name);
        dv_operand o = operand_of(&a[i]);
        memcpy(a[i].dense, j->before[t], (size_t)a[i].info.size_bytes);
        for_elements(&a[i], put);
        if (i % 2) {
            o.name = NULL;
            o.number = i;
        }
        assert_int_equal(dv_run_bind(r, &o, NULL), DV_OK);
    }
    for (int i = 0; i < n; i++)
        copies += dv_run_copies(r, i);
    if (dv_run_now(r, j->diag))
        fail_msg("%s", dv_diag_text(j->diag));
    for (int i = 0; i < n; i++) {
        int32_t t = tensor_named(j->plan, a[i].info.name);
        memcpy(a[i].dense, j->data[t], (size_t)a[i].info.size_bytes);
        for_elements(&a[i], is_equal);
        free_array(&a[i]);
    }
    dv_run_destroy(r);
    dv_exec_destroy(x);
    return copies;
}

static const char product[] = "input a: f32[3, 37, 53]\n"
                              "input b: f32[3, 53, 41]\ninput bias: f32[41]\n"
                              "c[h,m,n] = relu(sum[k] a[h,m,k] * b[h,k,n] + "
                              "bias[n])\noutput c\n";

static const char rows[] = "input x: f32[40, 70]\n"
                           "m[i] = max[j] x[i,j]\n"
                           "e[i,j] = exp(x[i,j] - m[i])\n"
                           "s[i] = sum[j] e[i,j]\n"
                           "y[i,j] = e[i,j] / s[i]\noutput y\n";

static const char others[] =
    "input x: f32[9, 20]\ninput i: i32[9]\ninput u: f32[20]\n"
    "input t: f64[9, 20]\n"
    "p[k,j] = x[k,j-1] else 0  for j in 0..20\n"
    "g[k,j] = x[i[k],j] + p[k,j]\n"
    "t[k,j] <- t[k,j] * 2 + x[k,j]\n"
    "repeat 2 { u[j] <- u[j] + x[0,j] }\n"
    "z[j] = sum[k] t[k,j] * u[j]\n"
    "output g, z, u\n";

static void try_orders(const char *text, int64_t threads, dv_executor kind)
{
    job j;
    start(&j, text, threads, kind);
    for (int order = 0; order < 5; order++)
        for (int told = 0; told < 2; told++) {
            case_no("order %d, told %d, %d threads", order, told, (int)threads);
            must(job_run(&j));
            run_order(&j, order, told);
        }
    job_stop(&j);
}

TEST(strides_of_products)
{
    try_orders(product, 1, DV_RUN_THREADS);
    try_orders(product, 2, DV_RUN_THREADS);
    try_orders(product, 1, DV_RUN_SEQ);
}

TEST(strides_of_rows)
{
    try_orders(rows, 1, DV_RUN_THREADS);
    try_orders(rows, 3, DV_RUN_THREADS);
    try_orders(rows, 1, DV_RUN_SIM);
}

TEST(strides_of_other_ops)
{
    try_orders(others, 1, DV_RUN_THREADS);
    try_orders(others, 2, DV_RUN_THREADS);
    try_orders(others, 1, DV_RUN_SEQ);
}

// Kernels read and write padded rows in place, and products transposed factors
// and results, too.
TEST(nothing_is_copied)
{
    static const char transposed[] =
        "input a: f32[64, 96]\ninput b: f32[96, 80]\n"
        "c[m,n] = sum[k] a[m,k] * b[k,n]\noutput c\n";
    job j;
    start(&j, transposed, 1, DV_RUN_THREADS);
    for (int order = 0; order < 3; order++) {
        must(job_run(&j));
        assert_int_equal(run_order(&j, order, 1), 0);
        must(job_run(&j));
        assert_int_equal(run_order(&j, order, 0), 3); // the exec is not told
    }
    job_stop(&j);
    start(&j, rows, 1, DV_RUN_THREADS);
    must(job_run(&j));
    assert_int_equal(run_order(&j, 0, 1), 0);
    job_stop(&j);
}

// An exec for windows that overlap in memory, which is then run with an input
// whose elements are apart.
TEST(strides_that_overlap)
{
    static const char text[] = "input x: f32[4, 6]\n"
                               "y[i] = max[j] x[i,j]\noutput y\n";
    int64_t shape[] = {4, 6}, windows[] = {1, 1};
    dv_strides of_x = {"x", windows};
    dv_exec_options how = DV_EXEC_OPTIONS_INIT;
    dv_operand o[2] = {DV_OPERAND_INIT, DV_OPERAND_INIT};
    float x[24], y[4];
    dv_exec *exec = NULL;
    dv_run *r = NULL;
    job j;
    start(&j, text, 1, DV_RUN_THREADS);
    how.strides = &of_x;
    how.n_strides = 1;
    assert_int_equal(dv_exec_create_with(&exec, j.plan, &how, NULL), DV_OK);
    assert_int_equal(dv_run_create(&r, exec, NULL, NULL), DV_OK);
    for (int i = 0; i < 24; i++)
        x[i] = (float)i;
    for (int i = 0; i < 2; i++) {
        o[i].name = i ? "y" : "x";
        o[i].n_dims = i ? 1 : 2;
        o[i].shape = shape;
        o[i].data = i ? y : x;
    }
    assert_int_equal(dv_run_bind(r, &o[1], NULL), DV_OK);
    for (int apart = 0; apart < 2; apart++) {
        o[0].strides = apart ? NULL : windows;
        assert_int_equal(dv_run_bind(r, &o[0], NULL), DV_OK);
        assert_int_equal(dv_run_now(r, NULL), DV_OK);
        for (int i = 0; i < 4; i++)
            assert_true(y[i] == (float)(apart ? 6 * i + 5 : i + 5));
    }
    dv_run_destroy(r);
    dv_exec_destroy(exec);
    job_stop(&j);
}

static void refuses(dv_run *r, const dv_operand *o, dv_status st,
                    const char *words)
{
    dv_diag *diag = dv_diag_create();
    assert_int_equal(dv_run_bind(r, o, diag), st);
    if (!strstr(dv_diag_text(diag), words))
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
}

TEST(wrong_operands)
{
    job j;
    dv_run *r = NULL;
    dv_operand o = DV_OPERAND_INIT;
    int64_t shape[] = {40, 70}, overlaps[] = {35, 1}, huge[] = {1, INT64_MAX};
    float data[1];
    start(&j, rows, 1, DV_RUN_THREADS);
    assert_int_equal(dv_run_create(&r, j.x, NULL, NULL), DV_OK);
    o.name = "y";
    o.n_dims = 2;
    o.shape = shape;
    refuses(r, &o, DV_E_USAGE, "y is bound to NULL");
    o.data = data;
    o.dtype = DV_F64;
    refuses(r, &o, DV_E_DTYPE, "y is f32[40, 70], the operand is f64[40, 70]");
    o.dtype = DV_F32;
    shape[1] = 71;
    refuses(r, &o, DV_E_SHAPE, "y is f32[40, 70], the operand is f32[40, 71]");
    shape[1] = 70;
    o.strides = overlaps;
    refuses(r, &o, DV_E_USAGE, "two elements of the output y may share");
    o.strides = huge;
    refuses(r, &o, DV_E_OVERFLOW, "the strides of y");
    o.strides = NULL;
    o.name = "m";
    refuses(r, &o, DV_E_NAME, "m is neither an input nor an output");
    o.name = NULL;
    o.number = 2;
    refuses(r, &o, DV_E_NAME, "there is no operand 2");
    assert_int_equal(dv_run_now(r, NULL), DV_E_USAGE); // nothing is bound
    assert_int_equal(dv_exec_use(j.x, DV_RUN_SEQ, NULL), DV_E_USAGE);
    dv_run_destroy(r);
    assert_int_equal(dv_exec_use(j.x, DV_RUN_SEQ, NULL), DV_OK);
    job_stop(&j);
}

// -- Several runs -------------------------------------------------------------

static const char shared[] = "param N = 64\ninput x: f32[N, N]\n"
                             "const w: f32[N, N]\n"
                             "h[i,j] = relu(sum[k] x[i,k] * w[k,j])\n"
                             "y[i] = sum[j] h[i,j]\noutput y\n";

typedef struct worker {
    dv_exec *x;
    dv_run_options how;
    int id, background;
    pthread_t thread;
} worker;

static void bind(dv_run *r, const char *name, int n_dims, void *data)
{
    static const int64_t shape[] = {64, 64};
    dv_operand o = DV_OPERAND_INIT;
    o.name = name;
    o.n_dims = n_dims;
    o.shape = shape;
    o.data = data;
    assert_int_equal(dv_run_bind(r, &o, NULL), DV_OK);
}

// x[i,j] = id + i, w = 1: y[i] = 64 * 64 * (id + i).
static void *runs_often(void *arg)
{
    enum { TIMES = 20 };
    const worker *w = arg;
    float(*x)[64] = calloc(64, sizeof *x), *y = calloc(64, sizeof *y);
    dv_run *r = NULL;
    assert_int_equal(dv_run_create(&r, w->x, &w->how, NULL), DV_OK);
    bind(r, "x", 2, x);
    bind(r, "y", 1, y);
    for (int t = 0; t < TIMES; t++) {
        for (int i = 0; i < 64 * 64; i++)
            x[i / 64][i % 64] = (float)(w->id + t + i / 64);
        if (w->background) {
            assert_int_equal(dv_run_start(r, NULL), DV_OK);
            assert_int_equal(dv_run_wait(r, NULL), DV_OK);
        } else {
            assert_int_equal(dv_run_now(r, NULL), DV_OK);
        }
        for (int i = 0; i < 64; i++)
            assert_true(y[i] == (float)(4096 * (w->id + t + i)));
    }
    dv_run_destroy(r);
    free(x);
    free(y);
    return NULL;
}

static void runs_at_once(int64_t threads, const dv_run_options *how)
{
    enum { N = 6 };
    static float w[64][64];
    worker all[N];
    job j;
    for (int i = 0; i < 64 * 64; i++)
        w[i / 64][i % 64] = 1;
    start(&j, shared, threads, DV_RUN_THREADS);
    assert_int_equal(dv_exec_bind(j.x, "w", w, sizeof w, NULL), DV_OK);
    for (int i = 0; i < N; i++) {
        all[i] = (worker){j.x, *how, i, i % 2, 0};
        pthread_create(&all[i].thread, NULL, runs_often, &all[i]);
    }
    for (int i = 0; i < N; i++)
        pthread_join(all[i].thread, NULL);
    job_stop(&j);
}

TEST(runs_of_several_threads)
{
    dv_run_options none = DV_RUN_OPTIONS_INIT;
    runs_at_once(1, &none);
    runs_at_once(2, &none);
}

TEST(started)
{
    static float x[64][64], w[64][64], y[64];
    job j;
    dv_run *r = NULL;
    start(&j, shared, 1, DV_RUN_THREADS);
    assert_int_equal(dv_run_create(&r, j.x, NULL, NULL), DV_OK);
    dv_diag *diag = dv_diag_create();
    assert_int_equal(dv_run_wait(r, NULL), DV_E_USAGE);
    // What the run finds is returned by dv_run_wait.
    assert_int_equal(dv_run_start(r, NULL), DV_OK);
    assert_int_equal(dv_run_start(r, NULL), DV_E_USAGE);
    assert_int_equal(dv_run_now(r, NULL), DV_E_USAGE);
    assert_int_equal(dv_run_wait(r, diag), DV_E_USAGE);
    assert_non_null(strstr(dv_diag_text(diag), "x is not bound"));
    bind(r, "x", 2, x);
    bind(r, "y", 1, y);
    assert_int_equal(dv_exec_bind(j.x, "w", w, sizeof w, NULL), DV_E_USAGE);
    assert_int_equal(dv_run_start(r, NULL), DV_OK);
    dv_run_destroy(r); // waits
    assert_int_equal(dv_exec_bind(j.x, "w", w, sizeof w, NULL), DV_OK);
    dv_diag_destroy(diag);
    job_stop(&j);
}

// -- Thread pools -------------------------------------------------------------

// A pool of threads that take the calls of a loop.
typedef struct pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*body)(void *arg, int i);
    void *arg;
    int n, next, busy, ends, loops;
    pthread_t threads[3];
} pool;

// Makes calls while there are any; the lock is held before and afterwards.
static void make_calls(pool *p)
{
    while (p->next < p->n) {
        int i = p->next++;
        p->busy++;
        pthread_mutex_unlock(&p->lock);
        p->body(p->arg, i);
        pthread_mutex_lock(&p->lock);
        p->busy--;
        pthread_cond_broadcast(&p->changed);
    }
}

static void *serve(void *arg)
{
    pool *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->ends) {
        make_calls(p);
        pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void loop(void *user, int n, void (*body)(void *arg, int i), void *arg)
{
    pool *p = user;
    pthread_mutex_lock(&p->lock);
    p->loops++;
    p->body = body;
    p->arg = arg;
    p->n = n;
    p->next = 0;
    pthread_cond_broadcast(&p->changed);
    make_calls(p);
    while (p->busy)
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

// The pool's threads do not call it.
typedef struct log {
    int calls;
    pthread_t thread;
} log;

static int watch(void *user, double done)
{
    log *l = user;
    assert_true(pthread_equal(l->thread, pthread_self()));
    assert_true(done >= 0 && done <= 1 + 1e-9);
    return ++l->calls == 1;
}

// The plan has more threads than the pool, or fewer.
static void try_pool(const char *text, int64_t threads,
                     dv_parallel_for parallel_for, const char *policy)
{
    pool p = {.lock = PTHREAD_MUTEX_INITIALIZER,
              .changed = PTHREAD_COND_INITIALIZER};
    dv_run_options how = DV_RUN_OPTIONS_INIT;
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_tensor_info info;
    dv_run *r = NULL;
    job j;
    log l = {0, pthread_self()};
    o.threads = threads;
    o.policy = policy;
    start_on(&j, "host", text, &o, DV_RUN_THREADS);
    must(job_run(&j));
    for (int i = 0; i < 3; i++)
        pthread_create(&p.threads[i], NULL, serve, &p);
    how.parallel_for = parallel_for;
    how.user = &p;
    assert_int_equal(dv_run_create(&r, j.x, &how, NULL), DV_OK);
    float *y = NULL, *want = NULL;
    size_t bytes = 0;
    for (int i = 0; dv_exec_operand(j.x, i, &info) == DV_OK; i++) {
        int32_t t = tensor_named(j.plan, info.name);
        dv_operand b = DV_OPERAND_INIT;
        b.number = i;
        b.dtype = info.dtype;
        b.n_dims = info.n_dims;
        b.shape = info.shape;
        b.data = j.before[t];
        if (info.role == DV_ROLE_OUTPUT) {
            bytes = (size_t)info.size_bytes;
            want = j.data[t];
            b.data = y = calloc(1, bytes);
        }
        assert_int_equal(dv_run_bind(r, &b, NULL), DV_OK);
    }
    for (int i = 0; i < 3; i++) {
        memset(y, 0, bytes);
        assert_int_equal(dv_run_now(r, NULL), DV_OK);
        assert_memory_equal(y, want, bytes);
    }
    assert_true(p.loops >= 3);
    dv_run_watch(r, watch, &l);
    assert_int_equal(dv_run_now(r, NULL), DV_E_CANCELLED);
    assert_int_equal(l.calls, 1);
    dv_run_destroy(r);
    pthread_mutex_lock(&p.lock);
    p.ends = 1;
    pthread_cond_broadcast(&p.changed);
    pthread_mutex_unlock(&p.lock);
    for (int i = 0; i < 3; i++)
        pthread_join(p.threads[i], NULL);
    free(y);
    job_stop(&j);
}

// A sum with one result is cut into parts, which takes two loops.
static const char parts[] = "input x: f32[3, 200000]\n"
                            "y[i] = sum[j] x[i,j] * x[i,j]\noutput y\n";

TEST(pools)
{
    for (int64_t threads = 1; threads < 6; threads += 2) {
        try_pool(product, threads, loop, NULL);
        try_pool(rows, threads, loop, NULL);
        try_pool(rows, threads, loop, "dynamic");
        try_pool(parts, threads, loop, NULL);
    }
}

// The calling thread makes all calls, the last one first.
static void loop_backwards(void *user, int n, void (*body)(void *arg, int i),
                           void *arg)
{
    ((pool *)user)->loops++;
    while (n-- > 0)
        body(arg, n);
}

TEST(pool_without_threads)
{
    try_pool(product, 4, loop_backwards, NULL);
    try_pool(rows, 4, loop_backwards, "ticket");
    try_pool(parts, 4, loop_backwards, NULL);
}

// Indices that are made up are inside of what they select in.
TEST(made_up)
{
    static const char text[] = "input x: f32[5, 4]\ninput p: i32[7]\n"
                               "y[i,j] = x[p[i],j]\noutput y\n";
    job j;
    float x[20], other[20];
    int32_t p[7];
    start(&j, text, 1, DV_RUN_THREADS);
    assert_int_equal(dv_exec_fill(j.x, 0, 1, x), DV_OK);
    assert_int_equal(dv_exec_fill(j.x, 0, 2, other), DV_OK);
    assert_int_equal(dv_exec_fill(j.x, 1, 1, p), DV_OK);
    assert_int_equal(dv_exec_fill(j.x, 3, 1, x), DV_E_USAGE);
    assert_true(memcmp(x, other, sizeof x) != 0);
    for (int i = 0; i < 20; i++)
        assert_true(x[i] >= -1 && x[i] < 1);
    for (int i = 0; i < 7; i++)
        assert_true(p[i] >= 0 && p[i] < 5);
    job_stop(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strides_of_products),
        cmocka_unit_test(strides_of_rows),
        cmocka_unit_test(strides_of_other_ops),
        cmocka_unit_test(nothing_is_copied),
        cmocka_unit_test(strides_that_overlap),
        cmocka_unit_test(wrong_operands),
        cmocka_unit_test(runs_of_several_threads),
        cmocka_unit_test(started),
        cmocka_unit_test(pools),
        cmocka_unit_test(pool_without_threads),
        cmocka_unit_test(made_up),
    };
    return run_group(tests, NULL, NULL);
}
