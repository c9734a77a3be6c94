// Special values: -0, nan, inf and subnormal numbers. For functions without
// rounding every executor gives the oracle's bits, signs of zeros included; for
// the others it stays within the oracle's bounds over the whole range of a
// type.
#include "harness/test.h"
#include "harness/unit.h"
#include "base/dtype.h"
#include "harness/doubles.h"
#include "team/team.h"
#include <math.h>

enum { MAX_TENSORS = 16 };

static uint64_t seed = 88172645463325252u;

static int pick(int n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int)((seed >> 33) % (uint64_t)n);
}

static const char *const types[] = {"f32", "f64", "f16", "bf16"};

// -- Bits --------------------------------------------------------------------

// Returns a special value; most are zeros of both signs, so that they meet.
static double special(void)
{
    static const double values[] = {0.0,  -0.0,     0.0,       -0.0, 0.0,
                                    -0.0, INFINITY, -INFINITY, NAN,  1,
                                    -1,   0x1p-24,  -0x1p-24};
    int n = (int)(sizeof values / sizeof *values);
    return values[pick(pick(3) ? 6 : n)];
}

static void fill(job *j)
{
    const dv_program *p = j->plan->ops;
    for (int i = 0; i < p->n_tensors; i++)
        for (int64_t k = 0; p->tensors[i].is_input && k < p->tensors[i].n_elems;
             k++)
            dv_store(p->tensors[i].dtype, j->data[i], k, special());
}

// Computes the oracle's outputs, rounded to their types, by tensor of the plan.
static void ask_oracle(const job *j, double **values)
{
    const dv_program *p = j->plan->ops;
    dv_eval_options o = {.round = 1};
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        values[i] = calloc((size_t)t->n_elems + 1, sizeof **values);
        for (int64_t k = 0; t->is_input && k < t->n_elems; k++)
            values[i][k] = dv_load(t->dtype, j->data[i], k);
    }
    assert_int_equal(eval_in_doubles(p, values, &o, j->diag), DV_OK);
}

static void expect_bits(const job *j, double *const *values, void *const *data,
                        const char *who, const char *text)
{
    const dv_program *p = j->plan->ops;
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        for (int64_t k = 0; t->is_output && k < t->n_elems; k++) {
            double got = dv_load(t->dtype, data[i], k), want = values[i][k];
            if (isnan(got) ? !isnan(want)
                           : got != want || !signbit(got) != !signbit(want))
                fail_msg("%s: element %d of %s is %g, the oracle has %g:\n%s",
                         who, (int)k, t->name, got, want, text);
        }
    }
}

static void run_one(const char *target, const char *text, int64_t threads,
                    dv_executor kind, const char *who)
{
    job j;
    double *values[MAX_TENSORS] = {0};
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.threads = threads;
    start_on(&j, target, text, &o, kind);
    fill(&j);
    ask_oracle(&j, values);
    must(job_run(&j));
    expect_bits(&j, values, j.data, who, text);
    for (int i = 0; i < MAX_TENSORS; i++)
        free(values[i]);
    job_stop(&j);
}

// Runs on ranks that are threads of this process.
static void run_team(const char *text, int64_t size)
{
    job j;
    double *values[MAX_TENSORS] = {0};
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_rank_options how = {.threads = 1};
    o.team = size;
    start_on(&j, "host", text, &o, DV_RUN_SEQ);
    fill(&j);
    ask_oracle(&j, values);
    if (dv_team_run_as(j.plan, &how, j.data, NULL, j.diag))
        fail_msg("%s", dv_diag_text(j.diag));
    expect_bits(&j, values, j.data, "a team", text);
    for (int i = 0; i < MAX_TENSORS; i++)
        free(values[i]);
    job_stop(&j);
}

// In these programs @ stands for the type; M and N get random values.
static const char *const exact[] = {
    "input a: @[M,N] input b: @[M,N] y[i,j] = max(a[i,j], b[i,j])"
    " z[i,j] = min(a[i,j], b[i,j]) output y, z",
    "input a: @[M,N] input b: @[N] y[i,j] = max(a[i,j], b[j])"
    " z[i,j] = min(b[j], a[i,j]) output y, z",
    "input a: @[M,N] input b: @[M] y[i,j] = max(b[i], a[i,j])"
    " z[i,j] = min(a[i,j], b[i]) output y, z",
    "input a: @[M,N] y[i,j] = max(0.0, a[i,j]) z[i,j] = min(a[i,j], 0.0)"
    " v[i,j] = max(a[i,j], -0.0) w[i,j] = min(-0.0, a[i,j]) output y, z, v, w",
    "input a: @[M,N] y[i,j] = relu(a[i,j]) z[i,j] = relu(-a[i,j])"
    " v[i,j] = abs(a[i,j]) w[i,j] = -abs(a[i,j]) output y, z, v, w",
    "input a: @[M,N] input b: @[M,N]"
    " y[i,j] = min(max(a[i,j], -0.0), max(b[i,j], 0.0))"
    " z[i,j] = select(a[i,j] < b[i,j], a[i,j], b[i,j])"
    " v[i,j] = select(a[i,j], a[i,j], b[i,j]) output y, z, v",
    "input a: @[M,N] y[i,j] = 1 / max(a[i,j], 0.0)"
    " z[i,j] = 1 / min(0.0, a[i,j]) output y, z",
    // Reducers along rows, columns, both, and windows; and of functions.
    "input a: @[M,N] y[i] = max[j] a[i,j] z[i] = min[j] a[i,j] output y, z",
    "input a: @[M,N] y[j] = max[i] a[i,j] z[j] = min[i] a[i,j] output y, z",
    "input a: @[M,N] y[] = max[i,j] a[i,j] z[] = min[i,j] a[i,j] output y, z",
    "input a: @[M,N] y[i] = max[j] -a[i,j] z[i] = min[j] relu(a[i,j])"
    " output y, z",
    "input a: @[M,N] y[i] = relu(max[j] a[i,j]) z[i] = 1 / (min[j] a[i,j])"
    " output y, z",
    "input a: @[M,N+2] y[i,j] = max[k] a[i,j+k] for j in 0..N, k in 0..3"
    " z[i,j] = min[k] a[i,j+k] for j in 0..N, k in 0..3 output y, z",
    "input a: @[M,N] m[i] = max[j] a[i,j] n[i] = min[j] a[i,j]"
    " y[i,j] = min(m[i], a[i,j]) z[i,j] = max(n[i], a[i,j]) output y, z",
    "input a: @[M,N] input b: @[M,N] repeat 2 { a[i,j] <- max(b[i,j], a[i,j])"
    " b[i,j] <- min(a[i,j], b[i,j]) } output a, b",
};

static void write_program(char *text, size_t room, const char *form,
                          const char *type, int m, int n)
{
    int len = snprintf(text, room, "param M = %d param N = %d ", m, n);
    for (; *form; form++) {
        int more = *form == '@'
                       ? snprintf(text + len, room - (size_t)len, "%s", type)
                       : snprintf(text + len, room - (size_t)len, "%c", *form);
        len += more;
        assert_true((size_t)len < room);
    }
}

TEST(test_bits)
{
    char text[500];
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        for (int k = 0; k < 24; k++) {
            int m = 1 + pick(k % 3 ? 9 : 70), n = 1 + pick(k % 4 ? 90 : 9);
            write_program(text, sizeof text, exact[i], types[k % 4], m, n);
            run_one("host", text, 1, DV_RUN_SEQ, "seq");
            run_one("host", text, 1, DV_RUN_THREADS, "threads");
            run_one("host", text, 3, DV_RUN_THREADS, "3 threads");
            if (k < 8) {
                run_one("spyre", text, 0, DV_RUN_SIM, "spyre");
                run_one("wormhole", text, 0, DV_RUN_SIM, "wormhole");
                run_team(text, 3);
            }
        }
}

// G5: long reductions that are cut into parts and combined.
TEST(test_parts)
{
    static const char *const forms[] = {
        "input a: @[N] y[] = max[i] a[i] z[] = min[i] a[i] output y, z",
        "input a: @[N, 3] y[j] = max[i] a[i,j] z[j] = min[i] a[i,j]"
        " output y, z"};
    char text[300];
    for (int k = 0; k < 16; k++) {
        write_program(text, sizeof text, forms[k % 2], types[k / 2 % 4], 1,
                      40000 + pick(30000));
        run_one("host", text, 3, DV_RUN_THREADS, "3 threads");
        run_one("host", text, 1, DV_RUN_SEQ, "seq");
        run_one("wormhole", text, 0, DV_RUN_SIM, "wormhole");
        run_team(text, 4);
    }
}

// relu after a product: sums that underflow to -0 become 0.
TEST(test_products)
{
    static const char form[] =
        "input a: @[M,4] input b: @[4,N]"
        " y[i,j] = relu(sum[k] a[i,k] * b[k,j]) output y";
    static const char dot[] = "input a: @[M,64] input b: @[64]"
                              " y[i] = relu(sum[k] a[i,k] * b[k]) output y";
    for (int k = 0; k < 40; k++) {
        char text[300];
        job j;
        int is64 = k % 2;
        write_program(text, sizeof text, k % 5 ? form : dot, types[is64],
                      1 + pick(40), 1 + pick(40));
        dv_plan_options o = DV_PLAN_OPTIONS_INIT;
        start_on(&j, "host", text, &o, k % 3 ? DV_RUN_THREADS : DV_RUN_SEQ);
        for (int i = 0; i < 2; i++)
            for (int64_t e = 0; e < j.plan->ops->tensors[i].n_elems; e++)
                dv_store(j.plan->ops->tensors[i].dtype, j.data[i], e,
                         (pick(2) ? 1 : -1) * (is64 ? 1e-200 : 1e-30));
        must(job_run(&j));
        int y = (int)dv_program_find(j.plan->ops, "y");
        const dv_tensor *t = &j.plan->ops->tensors[y];
        for (int64_t e = 0; e < t->n_elems; e++) {
            double v = dv_load(t->dtype, j.data[y], e);
            if (v != 0 || signbit(v))
                fail_msg("element %d is %g:\n%s", (int)e, v, text);
        }
        job_stop(&j);
    }
}

// -- Functions ---------------------------------------------------------------

// Returns a number near a point where a function changes its form or leaves its
// range.
static double extreme(int64_t k)
{
    static const double at[] = {
        0,      0.5,    1,      5,      9,     10,    13.3,  14,
        17,     20,     37,     44,     60,    87.3,  88.7,  88.8,
        89,     95,     100,    103.9,  104,   110,   177,   200,
        354,    700,    708.3,  709.7,  709.8, 720,   740,   744.4,
        745.1,  745.2,  746,    1000,   1419,  1500,  65504, 1e9,
        3.4e38, 1e300,  1e-10,  1e-37,  1e-38, 1e-40, 1e-44, 1.5e-45,
        1e-300, 3e-308, 1e-310, 5e-324, 6e-8,  6e-5,  1e-5,  INFINITY};
    int n = (int)(sizeof at / sizeof *at);
    double v = at[k / 2 % n] * (1 + (double)(k / 2 / n) / 4096);
    return k == 1 ? NAN : k % 2 ? -v : v;
}

TEST(test_functions)
{
    static const char *const fns[] = {"exp", "log",     "sqrt", "rsqrt", "tanh",
                                      "erf", "sigmoid", "silu", "gelu"};
    static const dv_executor kinds[] = {DV_RUN_SEQ, DV_RUN_THREADS, DV_RUN_SIM};
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < 12; k++) {
            char text[200];
            job j;
            snprintf(text, sizeof text,
                     "input x: %s[561] y[i] = %s(x[i]) output y", types[k % 4],
                     fns[i]);
            dv_plan_options o = DV_PLAN_OPTIONS_INIT;
            start_on(&j, "host", text, &o, kinds[k / 4]);
            for (int64_t e = 0; e < 561; e++)
                dv_store(j.plan->ops->tensors[0].dtype, j.data[0], e,
                         extreme(e));
            is_right(&j, 0);
            job_stop(&j);
        }
}

// The sequential executor is as exact where exp(-x) overflows.
TEST(test_sigmoid)
{
    static const char form[] =
        "input x: @[65] y[i] = sigmoid(x[i]) z[i] = silu(x[i]) output y, z";
    for (int is64 = 0; is64 < 2; is64++) {
        char text[200];
        job j;
        double least = is64 ? 0x1p-1074 : 0x1p-149;
        write_program(text, sizeof text, form, types[is64], 1, 1);
        start(&j, text, 1, DV_RUN_SEQ);
        const dv_dtype t = is64 ? DV_F64 : DV_F32;
        for (int64_t e = 0; e < 65; e++)
            dv_store(t, j.data[0], e,
                     is64 ? -700 - (double)e * 0.7 : -86 - (double)e * 0.3);
        must(job_run(&j));
        for (int64_t e = 0; e < 65; e++) {
            double x = dv_load(t, j.data[0], e);
            long double s = expl(x) / (1 + expl(x));
            long double off[2] = {dv_load(t, j.data[1], e) - s,
                                  dv_load(t, j.data[2], e) - x * s};
            for (int k = 0; k < 2; k++)
                if (fabsl(off[k]) >
                    2.1L * least +
                        fabsl(k ? x * s : s) * (is64 ? 0x1p-50L : 0x1p-21L))
                    fail_msg("%s of %g is off by %Lg", k ? "silu" : "sigmoid",
                             x, off[k]);
        }
        job_stop(&j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),     cmocka_unit_test(test_parts),
        cmocka_unit_test(test_products), cmocka_unit_test(test_functions),
        cmocka_unit_test(test_sigmoid),
    };
    return run_group(tests, NULL, NULL);
}
