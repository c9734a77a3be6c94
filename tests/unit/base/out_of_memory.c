// Every single allocation fails once: each call fails cleanly with DV_E_NOMEM,
// leaves its result alone, leaks nothing (which the address sanitizer sees),
// and succeeds once there is enough memory.
#define _POSIX_C_SOURCE 200809L // mkdtemp
#include "harness/test.h"
#include "divvy/grid.h"
#include "base/diag.h"
#include "base/mem.h"
#include "base/npy.h"
#include "choose/read.h"
#include "place/csv.h"
#include "exec/exec.h"
#include <math.h>
#include <unistd.h>

// A small program with everything that the language has.
static const char text[] =
    "param N = 4\n"
    "param s = 0.5\n"
    "input x: f32[N, N] @ split(0, 1)\n"
    "input h: f16[N]\n"
    "input p: i32[N]\n"
    "temp b: f32[2*N]\n"
    "b[2*q+r] = x[q,r] * s  for q in 0..N, r in 0..2\n"
    "y[i,j] = exp(x[i,j] - (max[k] x[i,k])) / (1.0 + (sum[k] x[i,k] * h[k]))\n"
    "g[i] = x[p[i],i] + select(h[i] < 0.0, -inf, b[2*i+1]) + (mean[k] 3)"
    "  for k in 0..3\n"
    "extern e[i] = (sum[k] y[i,k]) * (sum[k] x[k,i]) + 1\n"
    "repeat 2 {\n"
    "    x[i,j] <- 0.5 * (x[i-1,j] + x[i+1,j])  for i in 1..N-1\n"
    "    repeat 2 { b[i] <- relu(b[2*N-1-i]) / (sum[k] abs(b[k]) + 1.0) }\n"
    "    p[p[0]] <- p[1]\n"
    "}\n"
    "n[] = sum[i] e[i] * g[i]\n"
    "output y, x, n, b, p\n";

// Ops that run row by row, one of them inlined into others.
static const char rows_text[] = "input x: f32[9, 70]\n"
                                "m[i] = mean[j] x[i,j]\n"
                                "c[i,j] = x[i,j] - m[i]\n"
                                "v[i] = sum[j] c[i,j] * c[i,j]\n"
                                "y[i,j] = c[i,j] * rsqrt(v[i] + 1)\n"
                                "output y\n";

static dv_program *program, *rows;
static dv_target *target;
static dv_plan *plan, *primitive_plan, *rows_plan;
static char *program_text, *program_json[3], *plan_text, *plan_json;
static char dir[] = "/tmp/divvy-oom-XXXXXX";
static char path[sizeof dir + 16];

static int setup(void **state)
{
    (void)state;
    dv_target *host = NULL;
    if (!mkdtemp(dir) ||
        dv_program_parse(&program, text, sizeof text - 1, "all", NULL, 0,
                         NULL) ||
        dv_target_load(&target, "spyre", NULL) ||
        dv_target_load(&host, "host", NULL) ||
        dv_plan_create(&plan, program, host, NULL, NULL) ||
        dv_program_parse(&rows, rows_text, sizeof rows_text - 1, "rows", NULL,
                         0, NULL) ||
        dv_plan_create(&rows_plan, rows, host, NULL, NULL) ||
        dv_plan_create(&primitive_plan, program, target, NULL, NULL))
        return -1;
    snprintf(path, sizeof path, "%s/t.npy", dir);
    dv_target_destroy(host);
    program_text = dv_program_text(program);
    for (int g = 0; g < 3; g++)
        program_json[g] = dv_program_json(program, (dv_grain)g);
    plan_text = dv_plan_text(plan);
    plan_json = dv_plan_json(plan);
    return program_text && plan_text && plan_json ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    dv_free(program_text);
    for (int g = 0; g < 3; g++)
        dv_free(program_json[g]);
    dv_free(plan_text);
    dv_free(plan_json);
    dv_plan_destroy(plan);
    dv_plan_destroy(primitive_plan);
    dv_program_destroy(program);
    dv_plan_destroy(rows_plan);
    dv_program_destroy(rows);
    dv_target_destroy(target);
    unlink(path);
    return rmdir(dir);
}

// -- The sweep ---------------------------------------------------------------

typedef dv_status attempt(dv_diag *diag);

// Fails allocation 0, 1, 2, … until the call succeeds; of the later ones every
// 2nd, 3rd and so on, because a planner that tries many plans repeats itself.
static void sweep(attempt *f)
{
    dv_mem_fail_at(-1); // the test before may have left another value
    for (int64_t n = 0;; n += 1 + n / 100) {
        assert_true(n < 200000);
        dv_diag *diag = dv_diag_create();
        assert_non_null(diag);
        dv_mem_fail_at(n);
        dv_status st = f(diag);
        int64_t calls = dv_mem_calls();
        dv_mem_fail_at(-1);
        if (st == DV_OK) {
            assert_true(calls <= n); // no allocation failed
            dv_diag_destroy(diag);
            return;
        }
        if (st != DV_E_NOMEM)
            fprintf(stderr, "allocation %d: %s", (int)n, dv_diag_text(diag));
        assert_int_equal(st, DV_E_NOMEM);
        assert_true(dv_diag_text(diag)[0] != 0);
        dv_diag_destroy(diag);
    }
}

// Checks that a text is complete or NULL.
static dv_status whole(char *got, const char *want)
{
    if (!got)
        return DV_E_NOMEM;
    dv_status st = strcmp(got, want) == 0 ? DV_OK : DV_E_VERIFY;
    dv_free(got);
    return st;
}

// Functions that return strings have no diag; they fail with NULL.
static dv_status told(dv_diag *diag, dv_status st)
{
    return st == DV_E_NOMEM ? dv_nomem(diag) : st;
}

// -- Programs ----------------------------------------------------------------

static dv_status parse(dv_diag *diag)
{
    const dv_param set[] = {{"s", "-2.5"}};
    dv_program *p = NULL;
    dv_status st =
        dv_program_parse(&p, text, sizeof text - 1, "all", set, 1, diag);
    assert_true((st == DV_OK) == (p != NULL));
    dv_program_destroy(p);
    return st;
}

static dv_status to_text(dv_diag *diag)
{
    return told(diag, whole(dv_program_text(program), program_text));
}

static dv_status to_json(dv_diag *diag)
{
    dv_status st = DV_OK;
    for (int g = 0; g < 3 && st == DV_OK; g++)
        st = whole(dv_program_json(program, (dv_grain)g), program_json[g]);
    return told(diag, st);
}

static dv_status lower(dv_diag *diag, dv_grain grain)
{
    dv_program *p = NULL;
    dv_status st = dv_program_lower(&p, program, grain, diag);
    assert_true((st == DV_OK) == (p != NULL));
    if (st == DV_OK)
        st = dv_program_verify(p, 1, diag);
    dv_program_destroy(p);
    return st;
}

static dv_status lower_fused(dv_diag *diag)
{
    return lower(diag, DV_GRAIN_FUSED);
}

static dv_status lower_primitive(dv_diag *diag)
{
    return lower(diag, DV_GRAIN_PRIMITIVE);
}

// -- Targets -----------------------------------------------------------------

static dv_status load(dv_diag *diag, const char *name)
{
    dv_target *t = NULL;
    dv_status st = dv_target_load(&t, name, diag);
    assert_true((st == DV_OK) == (t != NULL));
    dv_target_destroy(t);
    return st;
}

static dv_status load_spyre(dv_diag *diag)
{
    return load(diag, "spyre");
}

static dv_status load_host(dv_diag *diag)
{
    return load(diag, "host");
}

static dv_status target_to_text(dv_diag *diag)
{
    char *s = dv_target_text(target);
    dv_free(s);
    return s ? DV_OK : dv_nomem(diag);
}

// -- Plans -------------------------------------------------------------------

static dv_status create_plan(dv_diag *diag)
{
    dv_plan *p = NULL;
    dv_status st = dv_plan_create(&p, program, target, NULL, diag);
    assert_true((st == DV_OK) == (p != NULL));
    dv_plan_destroy(p);
    return st;
}

static dv_status plan_to_text(dv_diag *diag)
{
    return told(diag, whole(dv_plan_text(plan), plan_text));
}

static dv_status plan_to_json(dv_diag *diag)
{
    return told(diag, whole(dv_plan_json(plan), plan_json));
}

static dv_status read_plan(dv_diag *diag, const char *start_at)
{
    dv_plan *p = NULL;
    dv_status st = dv_plan_parse(&p, plan_text, strlen(plan_text), "plan",
                                 start_at, NULL, diag);
    assert_true((st == DV_OK) == (p != NULL));
    dv_plan_destroy(p);
    return st;
}

static dv_status parse_plan(dv_diag *diag)
{
    return read_plan(diag, NULL);
}

static dv_status resume_plan(dv_diag *diag)
{
    return read_plan(diag, "lower");
}

// A machine with holes, a plan for it, and lint of its grids.
static const char holed[] = "target t { core_grid = 4x3 holes = 0,1-3,1 2,0 "
                            "tile_rows = 8 tile_cols = 8 scratch = 4KiB }";

static dv_status with_holes(dv_diag *diag)
{
    static const char product[] = "input a: f32[20, 20]\ninput b: f32[20, 20]\n"
                                  "y[m,n] = sum[k] a[m,k] * b[k,n]\noutput y\n";
    const dv_core_rect hole = {3, 2, 3, 2};
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_program *p = NULL;
    dv_target *t = NULL;
    dv_plan *made = NULL;
    char *words = NULL, *report = NULL;
    int64_t n = 0;
    o.holes = &hole;
    o.n_holes = 1;
    dv_status st = dv_target_parse(&t, holed, sizeof holed - 1, "t", diag);
    if (st == DV_OK)
        st = dv_program_parse(&p, product, sizeof product - 1, "p", NULL, 0,
                              diag);
    if (st == DV_OK)
        st = dv_plan_create(&made, p, t, &o, diag);
    if (st == DV_OK)
        st = dv_plan_check(made, diag);
    if (st == DV_OK && !(words = dv_plan_text(made)))
        st = dv_nomem(diag);
    if (st == DV_OK)
        st = dv_lint(t, words, strlen(words), "w", NULL, &n, &report, diag);
    if (st == DV_OK)
        assert_int_equal(n, 0);
    dv_free(words);
    dv_free(report);
    dv_plan_destroy(made);
    dv_program_destroy(p);
    dv_target_destroy(t);
    return st;
}

static dv_status check_plan(dv_diag *diag)
{
    return dv_plan_check(plan, diag);
}

// A write whose uniqueness (C4) only counting can show.
static dv_status check_counting(dv_diag *diag)
{
    static const char skew[] = "input b: i8[4, 7]\n"
                               "b[i,j-i+3] <- 0  for i in 0..4, j in 0..4\n"
                               "output b\n";
    dv_program *p = NULL;
    dv_plan *q = NULL;
    dv_status st =
        dv_program_parse(&p, skew, sizeof skew - 1, "skew", NULL, 0, diag);
    if (st == DV_OK)
        st = dv_plan_create(&q, p, target, NULL, diag);
    if (st == DV_OK)
        st = dv_plan_check(q, diag);
    dv_plan_destroy(q);
    dv_program_destroy(p);
    return st;
}

// -- Running -----------------------------------------------------------------

static void **new_buffers(const dv_program *p)
{
    void **data = calloc((size_t)p->n_tensors, sizeof *data);
    for (int i = 0; i < p->n_tensors; i++) {
        data[i] = calloc(1, (size_t)dv_tensor_bytes(&p->tensors[i]));
        if (p->tensors[i].is_input)
            dv_fill(p, i, 3, -1, 1, data[i]);
    }
    return data;
}

static void free_buffers(void **data, const dv_program *p)
{
    for (int i = 0; i < p->n_tensors; i++)
        free(data[i]);
    free(data);
}

static dv_status run_plan(const dv_plan *q, void **data, dv_diag *diag)
{
    dv_exec *x = NULL;
    dv_status st = dv_exec_create(&x, q, diag);
    assert_true((st == DV_OK) == (x != NULL));
    for (int i = 0; st == DV_OK && i < q->ops->n_tensors; i++) {
        const dv_tensor *t = &q->ops->tensors[i];
        if (t->is_input || t->is_output)
            st = dv_exec_bind(x, t->name, data[i], (size_t)dv_tensor_bytes(t),
                              diag);
    }
    if (st == DV_OK) {
        int64_t before = dv_mem_calls();
        st = dv_exec_run(x, diag);
        assert_int_equal(dv_mem_calls(), before); // a run allocates nothing
    }
    dv_exec_destroy(x);
    return st;
}

static dv_status execute(dv_diag *diag)
{
    void **data = new_buffers(plan->ops);
    dv_status st = run_plan(plan, data, diag);
    free_buffers(data, plan->ops);
    return st;
}

static dv_status execute_primitive(dv_diag *diag)
{
    void **data = new_buffers(primitive_plan->ops);
    dv_status st = run_plan(primitive_plan, data, diag);
    free_buffers(data, primitive_plan->ops);
    return st;
}

static dv_status execute_rows(dv_diag *diag)
{
    void **data = new_buffers(rows_plan->ops);
    dv_status st = run_plan(rows_plan, data, diag);
    free_buffers(data, rows_plan->ops);
    return st;
}

static dv_status verify(dv_diag *diag)
{
    const dv_program *p = plan->ops;
    dv_verdict verdict;
    void **before = new_buffers(p), **after = new_buffers(p);
    dv_status st = run_plan(plan, after, diag);
    if (st == DV_OK)
        st =
            dv_verify(&verdict, program, plan, before, after, NULL, NULL, diag);
    if (st == DV_OK)
        assert_true(verdict.ok);
    free_buffers(before, p);
    free_buffers(after, p);
    return st;
}

static dv_status verify_samples(dv_diag *diag)
{
    const dv_program *p = plan->ops;
    const dv_sample_options options = {.budget_s = INFINITY};
    dv_verdict verdict;
    dv_arena arena = {0};
    void **before = new_buffers(p), **after = new_buffers(p);
    void **outputs = calloc((size_t)p->n_tensors, sizeof *outputs);
    dv_status st = run_plan(plan, after, diag);
    for (int i = 0; i < p->n_tensors; i++)
        outputs[i] = p->tensors[i].is_output ? after[i] : NULL;
    if (st == DV_OK)
        st = dv_verify_samples(&verdict, program, plan, before, outputs,
                               &options, &arena, diag);
    if (st == DV_OK)
        assert_true(verdict.ok && verdict.n_from_inputs > 0);
    dv_arena_free(&arena);
    free(outputs);
    free_buffers(before, p);
    free_buffers(after, p);
    return st;
}

// -- Diagnostics and files ---------------------------------------------------

// A diag that cannot allocate its text still names the error.
TEST(diag_text)
{
    static const char wrong[] = "input a: f32[2]\ninput unused: f32[2]\n"
                                "y[i] = a[i]\nz[i] = a[i+1]  for i in 0..2\n";
    int done = 0;
    for (int64_t n = 0; !done; n++) {
        dv_program *p = NULL;
        dv_mem_fail_at(-1);
        dv_diag *diag = dv_diag_create();
        assert_int_equal(dv_program_parse(&p, wrong, sizeof wrong - 1, "wrong",
                                          NULL, 0, diag),
                         DV_E_BOUNDS);
        dv_mem_fail_at(n);
        const char *s = dv_diag_text(diag);
        done = dv_mem_calls() <= n;
        assert_non_null(s);
        assert_non_null(strstr(s, "reaches 2"));
        assert_true(!done || strstr(s, "wrong:4:"));
        dv_mem_fail_at(-1);
        dv_diag_destroy(diag);
    }
    dv_mem_fail_at(0);
    assert_null(dv_diag_create());
    dv_mem_fail_at(-1);
}

static dv_status write_npy(dv_diag *diag)
{
    const int64_t shape[] = {2, 3};
    const float data[6] = {1, 2, 3, 4, 5, 6};
    return dv_npy_write(path, DV_F32, 2, shape, data, diag);
}

static dv_status read_npy(dv_diag *diag)
{
    const int64_t shape[] = {2, 3};
    float data[6] = {0};
    dv_status st = dv_npy_read(path, "x", DV_F32, 2, shape, data, diag);
    if (st == DV_OK)
        assert_true(data[5] == 6.0f);
    return st;
}

// -- Placing -----------------------------------------------------------------

static const char table[] = "id,lower,upper,size,uses,parents,group,offset\n"
                            "a,0,5,40,0w 2 4,,,\n"
                            "b,4,9,40,4w 8,a,,\n"
                            "c,0,9,30,0w 3 8,,1,\n"
                            "d,2,7,20,2w 6,,1,\n"
                            "e,1,9,50,1w 2 7w 8,,,\n"
                            "f,3,6,25,3w 5,,,\n"
                            "g,0,9,10,0 8,,,90\n"
                            "h,5,8,45,5w 7,,,\n";

static dv_status place_table(dv_diag *diag, dv_solver solver, int evict,
                             int must_fit)
{
    dv_csv csv;
    dv_placement *p = NULL;
    dv_place_options o = DV_PLACE_OPTIONS_INIT;
    o.capacity_bytes = 100;
    o.solver = solver;
    o.evict = evict;
    o.must_fit = must_fit;
    o.budget = 20000;
    DV_TRY(dv_csv_parse(&csv, table, sizeof table - 1, "t", diag));
    dv_status st = dv_place(&p, csv.buffers, (size_t)csv.n, &o, diag);
    assert_true((st == DV_OK) == (p != NULL));
    if (st == DV_OK)
        st = dv_placement_check(p, csv.buffers, &o, diag);
    dv_placement_destroy(p);
    dv_csv_free(&csv);
    return st;
}

static dv_status place_auto(dv_diag *diag)
{
    return place_table(diag, (dv_solver)0, 0, 1);
}

static dv_status place_evict(dv_diag *diag)
{
    return place_table(diag, DV_SOLVER_EXACT, 1, 0);
}

static dv_status place_anneal(dv_diag *diag)
{
    return place_table(diag, DV_SOLVER_ANNEAL, 0, 0);
}

static dv_status place_least(dv_diag *diag)
{
    dv_csv csv;
    dv_placement *p = NULL;
    int64_t proven = 0;
    dv_place_options o = DV_PLACE_OPTIONS_INIT;
    o.budget = 2000;
    DV_TRY(dv_csv_parse(&csv, table, sizeof table - 1, "t", diag));
    dv_status st =
        dv_place_least(&p, &proven, csv.buffers, (size_t)csv.n, &o, diag);
    assert_true((st == DV_OK) == (p != NULL));
    dv_placement_destroy(p);
    dv_csv_free(&csv);
    return st;
}

// A graph of 13 nodes with all edges, which elimination leaves as the core, and
// a limit.
static dv_status choose_all_edges(dv_diag *diag)
{
    enum { NODES = 13 };
    dv_text t = {0};
    dv_choose_file f;
    dv_choose_result *r = NULL;
    dv_choose_options o = DV_CHOOSE_OPTIONS_INIT;
    o.budget = 200000;
    dv_put(&t, "{\"problem\": {\"nodes\": {\"intervals\": [");
    for (int i = 0; i < NODES; i++)
        dv_put(&t, "%s[%d, %d]", i ? ", " : "", i, i + 5);
    for (int k = 0; k < 2; k++) {
        dv_put(&t, "], \"%s\": [", k ? "costs" : "usages");
        for (int i = 0; i < NODES; i++)
            dv_put(&t, "%s[%d, %d]", i ? ", " : "", i * 7 % 5, 3 + k * i % 4);
    }
    for (int k = 0; k < 2; k++) {
        dv_put(&t, k ? "], \"costs\": [" : "]}, \"edges\": {\"nodes\": [");
        for (int i = 0; i < NODES; i++)
            for (int j = 0; j < i; j++)
                k ? dv_put(&t, "%s[%d, 3, 2, %d]", i > 1 ? ", " : "", i * j % 7,
                           i * j % 3)
                  : dv_put(&t, "%s[%d, %d]", i > 1 ? ", " : "", i, j);
    }
    dv_put(&t, "]}, \"usage_limit\": 9}}");
    dv_status st =
        t.failed ? dv_nomem(diag) : dv_choose_read(&f, t.at, t.len, "f", diag);
    if (st == DV_OK) {
        st = dv_choose(&r, &f.problem, &o, diag);
        assert_true((st == DV_OK) == (r != NULL));
        dv_choose_result_destroy(r);
        dv_choose_file_free(&f);
    }
    dv_text_free(&t);
    return st;
}

#define SWEEP(f)                                                               \
    static void f##_without_memory(void **state)                               \
    {                                                                          \
        (void)state;                                                           \
        sweep(f);                                                              \
    }
SWEEP(parse)
SWEEP(to_text)
SWEEP(to_json)
SWEEP(lower_fused)
SWEEP(lower_primitive)
SWEEP(load_spyre)
SWEEP(load_host)
SWEEP(target_to_text)
SWEEP(create_plan)
SWEEP(plan_to_text)
SWEEP(plan_to_json)
SWEEP(parse_plan)
SWEEP(resume_plan)
SWEEP(with_holes)
SWEEP(check_plan)
SWEEP(check_counting)
SWEEP(execute)
SWEEP(execute_primitive)
SWEEP(execute_rows)
SWEEP(verify)
SWEEP(verify_samples)
SWEEP(write_npy)
SWEEP(read_npy)
SWEEP(place_auto)
SWEEP(place_evict)
SWEEP(place_anneal)
SWEEP(place_least)
SWEEP(choose_all_edges)

#define OOM_TEST(f) cmocka_unit_test(f##_without_memory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OOM_TEST(parse),
        OOM_TEST(to_text),
        OOM_TEST(to_json),
        OOM_TEST(lower_fused),
        OOM_TEST(lower_primitive),
        OOM_TEST(load_spyre),
        OOM_TEST(load_host),
        OOM_TEST(target_to_text),
        OOM_TEST(create_plan),
        OOM_TEST(plan_to_text),
        OOM_TEST(plan_to_json),
        OOM_TEST(parse_plan),
        OOM_TEST(resume_plan),
        OOM_TEST(with_holes),
        OOM_TEST(check_plan),
        OOM_TEST(check_counting),
        OOM_TEST(execute),
        OOM_TEST(execute_primitive),
        OOM_TEST(execute_rows),
        OOM_TEST(verify),
        OOM_TEST(verify_samples),
        cmocka_unit_test(diag_text),
        OOM_TEST(write_npy),
        OOM_TEST(read_npy),
        OOM_TEST(place_auto),
        OOM_TEST(place_evict),
        OOM_TEST(place_anneal),
        OOM_TEST(place_least),
        OOM_TEST(choose_all_edges),
    };
    return run_group(tests, setup, teardown);
}
