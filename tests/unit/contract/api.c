// Nests and contractions through the public API, and running out of memory.
#include "base/mem.h"
#include "contract/contract.h"
#include "harness/contract_case.h"
#include "harness/unit.h"

// -- The public calls --------------------------------------------------------

static void count_passes(void *user, const char *pass, const dv_nest *n)
{
    assert_non_null(pass);
    assert_int_equal(dv_nest_check(n, NULL), DV_OK);
    (*(int *)user)++;
}

TEST(public_calls)
{
    dv_nest *n = nest_of("nest c f32 {\n    first zero\n    main gemm\n"
                         "    m 64 seq: in0 1, out 1\n"
                         "    n 48 seq: in1 32, out 64\n"
                         "    k 32 seq: in0 64, in1 1\n}\n");
    dv_nest *again;
    int passes = 0;
    dv_nest_options options = DV_NEST_OPTIONS_INIT;
    options.after = count_passes;
    options.user = &passes;
    assert_int_equal(dv_nest_check(n, NULL), DV_OK);
    assert_int_equal(dv_nest_verify(n, NULL),
                     DV_E_NEST); // no dimension is prim
    assert_int_equal(dv_nest_optimise(n, "nothing", NULL, NULL), DV_E_USAGE);
    options.vector_bytes = -1; // no machine has this
    assert_int_equal(dv_nest_optimise(n, NULL, &options, NULL), DV_E_USAGE);
    options.vector_bytes = 0, options.tile_rows = -1;
    assert_int_equal(dv_nest_optimise(n, NULL, &options, NULL), DV_E_USAGE);
    options.tile_rows = 0, options.l2_bytes = -1;
    assert_int_equal(dv_nest_optimise(n, NULL, &options, NULL), DV_E_USAGE);
    options.l2_bytes = 0;
    assert_int_equal(dv_nest_optimise(n, NULL, &options, NULL), DV_OK);
    assert_int_equal(passes, 5);
    char *text = dv_nest_text(n);
    again = nest_of(text);
    assert_true(dv_nest_equal(n, again));
    dv_contract *c = NULL;
    static float a[32 * 64], b[48 * 32], out[48 * 64];
    for (int i = 0; i < 32 * 64; i++)
        a[i] = 1;
    for (int i = 0; i < 48 * 32; i++)
        b[i] = 2;
    assert_int_equal(dv_contract_create(&c, NULL, again, NULL, NULL), DV_OK);
    assert_int_equal(dv_contract_run(c, a, b, NULL, out, NULL), DV_OK);
    for (int i = 0; i < 48 * 64; i++)
        assert_true(out[i] == 64);
    dv_contract_destroy(c);
    dv_contract_destroy(NULL);
    dv_nest_destroy(again);
    dv_nest_destroy(n);
    dv_nest_destroy(NULL);
    dv_free(text);
    assert_int_equal(dv_nest_parse(&n, "nest", 4, "x", NULL), DV_E_SYNTAX);
}

// Ops of a program: each gets a nest that outlives the program.
TEST(derived)
{
    static const char text[] = "input a: f32[6, 8]\ninput b: f32[8, 5]\n"
                               "p[i,j] = relu(sum[k] a[i,k] * b[k,j])\n"
                               "m[i] = max[j] p[i,j]\n"
                               "y[i,j] = exp(p[i,j] - m[i])\noutput y\n";
    dv_program *p = program_of(text);
    dv_nest *n = NULL;
    assert_int_equal(dv_nest_derive(&n, NULL, p, DV_GRAIN_FUSED, "no", NULL),
                     DV_E_USAGE);
    assert_int_equal(dv_nest_derive(&n, NULL, p, DV_GRAIN_FUSED, "y", NULL),
                     DV_E_NEST); // its body has two functions
    assert_int_equal(dv_nest_derive(&n, NULL, p, DV_GRAIN_PRIMITIVE, "y", NULL),
                     DV_OK);
    dv_nest_destroy(n);
    dv_nest_place at[DV_NEST_PLACES];
    assert_int_equal(dv_nest_derive(&n, at, p, DV_GRAIN_FUSED, "p", NULL),
                     DV_OK);
    const int want[] = {1, 0, 2, -1}; // b, a, p
    for (int o = 0; o < DV_NEST_PLACES; o++) {
        assert_int_equal(at[o].tensor, want[o]);
        assert_int_equal(at[o].offset_elems, 0);
    }
    dv_program_destroy(p);
    float a[6 * 8], b[8 * 5], out[6 * 5];
    for (int i = 0; i < 6 * 8; i++)
        a[i] = i % 8 == 3 ? -1 : 0; // selects row 3 of b, negated
    for (int i = 0; i < 8 * 5; i++)
        b[i] = (float)(i % 5 - 2);
    dv_contract *c = NULL;
    assert_int_equal(dv_contract_create(&c, NULL, n, NULL, NULL), DV_OK);
    assert_int_equal(dv_contract_run(c, b, a, NULL, out, NULL), DV_OK);
    for (int i = 0; i < 6 * 5; i++)
        assert_true(out[i] == (float)(i % 5 < 2 ? 2 - i % 5 : 0));
    dv_contract_destroy(c);
    dv_nest_destroy(n);
}

// -- More operands -----------------------------------------------------------

static dv_nest *derive(const char *text, const char *op, dv_nest_place *at)
{
    dv_program *p = program_of(text);
    dv_nest *n = NULL;
    assert_int_equal(dv_nest_derive(&n, at, p, DV_GRAIN_FUSED, op, NULL),
                     DV_OK);
    dv_program_destroy(p);
    return n;
}

static dv_contract *create(const dv_nest *n, int32_t threads)
{
    dv_contract_options options = {.size = sizeof(dv_contract_options),
                                   .threads = threads};
    dv_contract *c = NULL;
    assert_int_equal(dv_contract_create(&c, NULL, n, &options, NULL), DV_OK);
    return c;
}

// A select reads three operands; m has a type of its own.
TEST(three)
{
    dv_nest_place at[DV_NEST_PLACES];
    dv_nest *n = derive("input m: i8[6]\ninput a: f32[6]\ninput b: f32[6]\n"
                        "y[i] = select(m[i], a[i], b[i])\noutput y\n",
                        "y", at);
    const int want[] = {0, 1, 3, 2}; // m, a, y, b
    for (int o = 0; o < DV_NEST_PLACES; o++)
        assert_int_equal(at[o].tensor, want[o]);
    const int8_t m[6] = {1, 0, 0, -1, 0, 3};
    float a[6], b[6], y[6];
    for (int i = 0; i < 6; i++)
        a[i] = (float)i, b[i] = -1;
    dv_contract *c = create(n, 1);
    assert_int_equal(dv_contract_run(c, m, a, b, y, NULL), DV_OK);
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == (m[i] ? a[i] : b[i]));
    dv_contract_destroy(c);
    dv_nest_destroy(n);
}

// Rows selected by an index; an invalid index is reported by the run that finds
// it, not by later ones.
TEST(looked_up)
{
    dv_nest *n = derive("input t: f32[5, 4]\ninput i: i32[3]\n"
                        "y[r,x] = t[i[r],x]\noutput y\n",
                        "y", NULL);
    float t[20], y[12] = {0};
    for (int i = 0; i < 20; i++)
        t[i] = (float)i;
    int32_t index[] = {4, 0, 4};
    dv_contract *c = create(n, 2);
    assert_int_equal(dv_contract_run(c, t, NULL, index, y, NULL), DV_OK);
    for (int i = 0; i < 12; i++)
        assert_true(y[i] == t[index[i / 4] * 4 + i % 4]);
    index[0] = 5, index[1] = 3, index[2] = -1;
    dv_diag *diag = dv_diag_create();
    assert_int_equal(dv_contract_run(c, t, NULL, index, y, diag), DV_E_BOUNDS);
    assert_non_null(strstr(dv_diag_text(diag), "0..5"));
    index[0] = 2, index[2] = 0;
    assert_int_equal(dv_contract_run(c, t, NULL, index, y, NULL), DV_OK);
    assert_true(y[0] == t[8]);
    dv_diag_destroy(diag);
    index[0] = 5;
    void *const at[] = {t, NULL, y, index};
    assert_int_equal(dv_nest_eval(n, at, NULL), DV_E_BOUNDS);
    void *const none[] = {t, NULL, y, NULL};
    assert_int_equal(dv_nest_eval(n, none, NULL), DV_E_USAGE);
    dv_contract_destroy(c);
    dv_nest_destroy(n);
}

// A sum to one element is divided among threads and has the same bits for any
// number of them.
TEST(one_element)
{
    enum { N = 200003 };
    dv_nest *n = derive("input a: f32[1, 200003]\n"
                        "y[q] = mean[k] a[q,k]\noutput y\n",
                        "y", NULL);
    float *a = malloc(N * sizeof *a), first = 0;
    double sum = 0;
    for (int i = 0; i < N; i++) {
        a[i] = (float)(i % 1013) / 1013 - 0.3f;
        sum += a[i];
    }
    for (int32_t threads = 1; threads <= 5; threads++) {
        float y = 7;
        dv_contract *c = create(n, threads);
        assert_int_equal(dv_contract_run(c, a, NULL, NULL, &y, NULL), DV_OK);
        if (threads == 1)
            first = y;
        assert_memory_equal(&y, &first, sizeof y);
        dv_contract_destroy(c);
    }
    assert_true(first - sum / N < 1e-5 && sum / N - first < 1e-5);
    free(a);
    dv_nest_destroy(n);
}

// -- Out of memory -----------------------------------------------------------

static void runs_out(const char *text)
{
    for (int64_t nth = 0;; nth++) {
        dv_nest *n = NULL;
        dv_contract *c = NULL;
        dv_mem_fail_at(nth);
        dv_status s = dv_nest_parse(&n, text, strlen(text), "t", NULL);
        if (s == DV_OK)
            s = dv_contract_create(&c, NULL, n, NULL, NULL);
        dv_mem_fail_at(-1);
        dv_contract_destroy(c);
        dv_nest_destroy(n);
        if (s == DV_OK)
            break;
        assert_int_equal(s, DV_E_NOMEM);
    }
}

TEST(out_of_memory)
{
    runs_out("nest k f32 { main gemm m 3 seq: in0 1, out 1"
             " m 7 seq: in0 40, out 200 n 50 seq: in1 1,"
             " out 3 k 11 seq: in0 3, in1 50 }");
    runs_out("nest t f32 { first exp main gemm last tanh"
             " m 3 seq: in0 1, out 1 k 11 seq: in0 3, in1 50 }");
    runs_out("nest u f64 { main exp m 3 seq: in0 1, out 7"
             " n 7 seq: in0 3, out 1 }");
    runs_out("nest s f32 { main select in0 i8 in1 = 3"
             " c 70 seq: in0 1, in2 40, out 40 c 40 seq: in0 70, in2 1,"
             " out 1 }");
    runs_out("nest r f32 { first zero main sum mean in0 f16"
             " k 200000 seq: in0 1 }");
}

// Types that vector kernels do not store: floats as i32, and i64.
TEST(other_types)
{
    const float in[3] = {1.5f, -2.75f, 1e9f};
    const int64_t wide[2] = {(int64_t)1 << 53, 1};
    int32_t out[3];
    int64_t sum = 0;
    dv_nest *n = nest_of("nest t i32 { main copy in0 f32"
                         " m 3 seq: in0 1, out 1 }");
    dv_contract *c = create(n, 2);
    assert_int_equal(dv_contract_run(c, in, NULL, NULL, out, NULL), DV_OK);
    assert_true(out[0] == 1 && out[1] == -2 && out[2] == 1000000000);
    dv_contract_destroy(c);
    dv_nest_destroy(n);
    n = nest_of("nest t i64 { first zero main sum k 2 seq: in0 1 }");
    c = create(n, 1);
    assert_int_equal(dv_contract_run(c, wide, NULL, NULL, &sum, NULL), DV_OK);
    assert_true(sum == wide[0] + 1);
    dv_contract_destroy(c);
    dv_nest_destroy(n);
}

// Integers wrap around in 64 bits and are truncated when they are stored.
static void whole_numbers(void **state)
{
    int64_t in[16], wide = 0;
    int32_t narrow = 0;
    uint64_t want = 1;
    (void)state;
    for (int i = 0; i < 16; i++) {
        in[i] = 1001 + i;
        want *= (uint64_t)in[i];
    }
    static const char *const texts[] = {
        "nest t i64 { first one main prod k 16 seq: in0 1 }",
        "nest t i32 { first one main prod in0 i64 k 16 seq: in0 1 }"};
    for (int i = 0; i < 2; i++) {
        void *const at[DV_MAX_OPERANDS] = {
            [DV_IN0] = in, [DV_OUT] = i ? (void *)&narrow : (void *)&wide};
        dv_nest *n = nest_of(texts[i]);
        assert_int_equal(dv_nest_eval(n, at, NULL), DV_OK);
        dv_nest_destroy(n);
    }
    assert_true(wide == (int64_t)want);
    assert_int_equal(narrow, (int32_t)(uint32_t)want);
}

int main(void)
{
    dv_jit *jit;
    if (dv_jit_create(&jit, NULL))
        return 77; // no kernels for this machine
    dv_jit_destroy(jit);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(public_calls), cmocka_unit_test(derived),
        cmocka_unit_test(three),        cmocka_unit_test(looked_up),
        cmocka_unit_test(one_element),  cmocka_unit_test(out_of_memory),
        cmocka_unit_test(other_types),  cmocka_unit_test(whole_numbers),
    };
    return run_group(tests, NULL, NULL);
}
