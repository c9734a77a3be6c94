// Properties of groups that run in rows: programs of many kinds, of any shape
// and type, give what the oracle gives and the very bits that their ops give
// one by one, for any number of threads; and those that are meant to run so do.
// The same of arrays of more dims: heads of rows, and groups of heads.
#include "harness/test.h"
#include "harness/case.h"
#include "jit/vec/vec.h"
#include "plan/plan.h"
#include "exec/exec.h"

enum { IN_ROWS = 1, ONE_BY_ONE = 0, EITHER = -1 };

// Of x[M,N], or with dims in front: @ are their variables, ~ the same the other
// way round behind one, $ and ^ their sizes.
static const struct {
    const char *name;
    int way; // where rows are long and there are many
    const char *text;
} programs[] = {
    {"layernorm", IN_ROWS,
     ""
     "m[@i] = mean[j] x[@i,j]\n"
     "v[@i] = mean[j] (x[@i,j] - m[@i]) * (x[@i,j] - m[@i])\n"
     "y[@i,j] = (x[@i,j] - m[@i]) * rsqrt(v[@i] + 1e-5)\noutput y\n"},
    {"scaled", IN_ROWS,
     "input g: f32[N]\ninput b: f32[N]\n"
     "u[@i] = (sum[j] x[@i,j]) / N\nc[@i,j] = x[@i,j] - u[@i]\n"
     "v[@i] = (sum[j] c[@i,j] * c[@i,j]) / N\n"
     "y[@i,j] = c[@i,j] * rsqrt(v[@i] + 1e-5) * g[j] + b[j]\noutput y\n"},
    {"softmax", IN_ROWS,
     "m[@i] = max[j] x[@i,j]\n"
     "e[@i,j] = exp(x[@i,j] - m[@i])\ns[@i] = sum[j] e[@i,j]\n"
     "y[@i,j] = e[@i,j] / s[@i]\noutput y\n"},
    {"rmsnorm", IN_ROWS,
     "v[@i] = mean[j] x[@i,j] * x[@i,j]\n"
     "y[@i,j] = x[@i,j] * rsqrt(v[@i] + 1e-5)\noutput y\n"},
    {"mean only", IN_ROWS,
     "m[@i] = mean[j] x[@i,j]\n"
     "y[@i,j] = x[@i,j] - m[@i]\noutput y\n"},
    {"two outputs", IN_ROWS,
     "a[@i] = max[j] x[@i,j]\nb[@i] = min[j] x[@i,j]\n"
     "y[@i,j] = (x[@i,j] - b[@i]) / (a[@i] - b[@i] + 1)\n"
     "z[@i,j] = abs(x[@i,j]) / (abs(a[@i]) + 1)\noutput a\noutput y\noutput "
     "z\n"},
    {"one a row", IN_ROWS,
     "s[@i] = sum[j] x[@i,j] * x[@i,j]\n"
     "r[@i] = rsqrt(s[@i] + 1)\ny[@i,j] = x[@i,j] * r[@i]\noutput y\n"},
    {"a chain that folds", IN_ROWS,
     "m[@i] = mean[j] x[@i,j]\nc[@i,j] = x[@i,j] - m[@i]\n"
     "d[@i,j] = c[@i,j] + 1\ns[@i] = sum[j] d[@i,j]\n"
     "y[@i,j] = d[@i,j] * s[@i] - c[@i,j]\noutput y\n"},
    {"a product that does not fold", IN_ROWS,
     "m[@i] = max[j] x[@i,j]\np[@i,j] = x[@i,j] * m[@i]\n"
     "s[@i] = sum[j] p[@i,j]\ny[@i,j] = p[@i,j] - s[@i]\noutput y\n"},
    {"integers", IN_ROWS,
     "a[@i] = max[j] x[@i,j]\ns[@i] = sum[j] x[@i,j] - a[@i]\n"
     "y[@i,j] = max(a[@i] - x[@i,j], s[@i])\noutput y\n"},
    {"columns", ONE_BY_ONE,
     "m[j] = mean[@i] x[@i,j]\n"
     "y[@i,j] = x[@i,j] - m[j]\noutput y\n"},
    {"rows apart", EITHER,
     "m[@i] = mean[j] x[@i,j]\n"
     "y[@i,j] = x[@i,j] - m[@M-1-i]\noutput y\n"},
    {"one for all heads", IN_ROWS,
     "input b: f32[M, N]\nm[@i] = max[j] (x[@i,j] + b[i,j])\n"
     "y[@i,j] = x[@i,j] + b[i,j] - m[@i]\noutput y\n"},
    {"all of a row", EITHER,
     "a[@i,j] = x[@i,j] * x[@i,j] + 1\nb[@i,j] = a[@i,j] * a[@i,j] + x[@i,j]\n"
     "c[@i,j] = a[@i,j] * b[@i,j] - x[@i,j]\n"
     "y[@i,j] = c[@i,j] * a[@i,j] - b[@i,j]\noutput y\n"},
    {"turned", IN_ROWS,
     "input t: f32[M^, N]\nm[@i] = max[j] t[i~,j]\n"
     "y[@i,j] = t[i~,j] - m[@i] + x[@i,j]\noutput y\n"},
};

typedef struct case_size {
    int rows, cols, front; // dims in front: 0 to 2
} case_size;

static const char *const floats[] = {"f32", "f16", "bf16", "f64"};
static const char *const integers[] = {"i8", "i32"};
static dv_target *host;

static int setup(void **state)
{
    (void)state;
    return dv_target_load(&host, "host", NULL) != DV_OK;
}

static int teardown(void **state)
{
    (void)state;
    dv_target_destroy(host);
    return 0;
}

// -- Runs --------------------------------------------------------------------

static dv_plan *make_plan(const dv_program *p, int64_t threads,
                          dv_residents scratch)
{
    dv_plan *plan = NULL;
    dv_diag *diag = dv_diag_create();
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.threads = threads;
    o.scratch = scratch;
    if (dv_plan_create(&plan, p, host, &o, diag))
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    return plan;
}

static int lists_rows(const dv_exec *x)
{
    dv_text list = {0};
    dv_exec_ways(x, &list);
    int found = strstr(list.at, "row by row") != NULL;
    dv_text_free(&list);
    return found;
}

// What a plan gives; *in_rows, where asked for, says whether some of it ran in
// rows.
static void **run(const dv_plan *plan, int *in_rows)
{
    dv_exec *x = NULL;
    dv_diag *diag = dv_diag_create();
    void **data = case_buffers(plan->ops);
    dv_status st = dv_exec_create(&x, plan, diag);
    if (st == DV_OK)
        st = case_bind(x, plan->ops, data, diag);
    if (st == DV_OK)
        st = dv_exec_run(x, diag);
    if (st != DV_OK)
        fail_msg("it does not run: %s", dv_diag_text(diag));
    if (in_rows)
        *in_rows = lists_rows(x);
    dv_exec_destroy(x);
    dv_diag_destroy(diag);
    return data;
}

static void same_bits(const char *what, const dv_program *p, void *const *a,
                      const dv_program *q, void *const *b)
{
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        int32_t k = t->is_output ? dv_program_find(q, t->name) : -1;
        if (k >= 0 && memcmp(a[i], b[k], (size_t)dv_tensor_bytes(t)) != 0)
            fail_msg("%s: other bits in %s", what, t->name);
    }
}

static void matches_oracle(const char *what, const dv_program *p,
                           const dv_plan *plan, void *const *got)
{
    dv_verdict verdict;
    dv_diag *diag = dv_diag_create();
    void **before = case_buffers(plan->ops);
    if (dv_verify(&verdict, p, plan, before, got, NULL, NULL, diag))
        fail_msg("the oracle fails: %s", dv_diag_text(diag));
    if (!verdict.ok)
        fail_msg("%s: %s is %g off, %g is allowed", what, verdict.tensor,
                 verdict.residual, verdict.threshold);
    case_free(before, plan->ops);
    dv_diag_destroy(diag);
}

static void put_program(char *out, size_t size, const char *text, int front)
{
    static const char marks[] = "@~$^";
    static const char *const of[][sizeof marks - 1] = {
        {"", "", "", ""},
        {"h,", ",h", "3, ", ", 3"},
        {"g,h,", ",h,g", "2, 3, ", ", 3, 2"}};
    size_t n = strlen(out);
    for (; *text; text++) {
        const char *mark = strchr(marks, *text);
        n += (size_t)snprintf(out + n, size - n, mark ? "%s" : "%.1s",
                              mark ? of[front][mark - marks] : text);
        assert_true(n < size);
    }
}

static dv_program *parse(int which, const char *dtype, const case_size *z)
{
    char text[1000];
    dv_program *p = NULL;
    dv_diag *diag = dv_diag_create();
    snprintf(text, sizeof text, "param M = %d\nparam N = %d\n", z->rows,
             z->cols);
    put_program(text, sizeof text, "input x: ", 0);
    put_program(text, sizeof text, dtype, 0);
    put_program(text, sizeof text, "[$M, N]\n", z->front);
    put_program(text, sizeof text, programs[which].text, z->front);
    if (dv_program_parse(&p, text, strlen(text), programs[which].name, NULL, 0,
                         diag))
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    return p;
}

static int in_parts(const dv_plan *plan)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++)
        if (dv_plan_in_parts(plan, i))
            return 1;
    return 0;
}

// *in_rows: whether one thread ran it in rows.
static void try(int which, const char *dtype, const case_size *z, int oracle,
                int *in_rows)
{
    char what[100];
    dv_program *p = parse(which, dtype, z);
    snprintf(what, sizeof what, "%s of %s, %dx%d, %d in front",
             programs[which].name, dtype, z->rows, z->cols, z->front);
    dv_plan *one = make_plan(p, 1, (dv_residents)0),
            *off = make_plan(p, 1, DV_RESIDENTS_NONE);
    dv_plan *three = make_plan(p, 3, (dv_residents)0);
    void **a = run(one, in_rows), **b = run(off, NULL), **c = run(three, NULL);
    if (oracle)
        matches_oracle(what, p, one, a);
    same_bits(what, one->ops, a, off->ops, b);
    if (!in_parts(three)) // sums in parts are other sums
        same_bits(what, one->ops, a, three->ops, c);
    case_free(a, one->ops);
    case_free(b, off->ops);
    case_free(c, three->ops);
    dv_plan_destroy(one);
    dv_plan_destroy(off);
    dv_plan_destroy(three);
    dv_program_destroy(p);
}

// -- Cases -------------------------------------------------------------------

static void any_shape(void **state)
{
    (void)state;
    static const int rows[] = {1, 2, 3, 5, 17, 61};
    static const int cols[] = {1, 2, 31, 64, 257, 300, 1031};
    rng r = {12};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (int k = 0; k < 8; k++) {
            int whole = !strcmp(programs[i].name, "integers");
            case_size z = {rows[rng_below(&r, k < 4 ? 6 : 4)],
                           cols[rng_below(&r, 7)],
                           k < 4   ? 0
                           : k < 6 ? 1
                                   : 2};
            try((int)i, whole ? integers[k % 2] : floats[k % 4], &z, 1, NULL);
        }
}

// Tiles of several rows, and more than one of them; the oracle is slow.
static void many_rows(void **state)
{
    (void)state;
    dv_jit *jit = dv_jit_shared();
    if (!jit)
        skip_test("no kernels for this machine");
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (int front = 0; front < 3; front++) {
            int whole = !strcmp(programs[i].name, "integers");
            int in_rows = EITHER;
            try((int)i, whole ? "i8" : "f32",
                &(case_size){front > 1 ? 161 : 331, 1031, front}, 0, &in_rows);
            if (programs[i].way != EITHER && in_rows != programs[i].way)
                fail_msg("%s, %d in front: %s", programs[i].name, front,
                         in_rows ? "in rows" : "not in rows");
        }
}

// Caches that do not hold a row, or a few: rows are cut themselves, or not.
static void small_caches(void **state)
{
    (void)state;
    static const int64_t sizes[] = {4 << 10, 16 << 10, 64 << 10};
    int64_t before = host->scratch_bytes;
    for (size_t i = 0; i < 3 * (sizeof programs / sizeof *programs); i++)
        for (int front = 0; front < 3; front++) {
            const char *name = programs[i / 3].name;
            host->scratch_bytes = sizes[i % 3];
            try((int)i / 3, strcmp(name, "integers") ? "f32" : "i32",
                &(case_size){5, 1200 + 700 * (int)(i % 3), front}, 0, NULL);
        }
    host->scratch_bytes = before;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_shape),
                                       cmocka_unit_test(many_rows),
                                       cmocka_unit_test(small_caches)};
    return run_group(tests, setup, teardown);
}
