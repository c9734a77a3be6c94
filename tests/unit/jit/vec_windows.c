// Kernels with operands at a fixed offset from others, like the points of a
// window, and with steps of reducers: at all offsets, in all types, without
// touching a byte beside their elements.
#define _GNU_SOURCE
#include "harness/vec_case.h"

static const struct {
    unsigned element, compute;
} types[] = {{DV_F32, DV_F32}, {DV_F16, DV_F32}, {DV_BF16, DV_F32},
             {DV_F64, DV_F64}, {DV_F32, DV_F64}, {DV_I32, DV_I32},
             {DV_I8, DV_I32},  {DV_I8, DV_F32}};
enum { N_TYPES = sizeof types / sizeof *types };

// Returns an offset: small, of whole vectors, of rows, or any.
static int32_t distance(void)
{
    switch (pick(4)) {
    case 0:
        return pick(9) - 4;
    case 1:
        return 16 * (pick(40) - 8);
    case 2:
        return (pick(5) - 1) * (114 + pick(3)) + pick(3);
    default:
        return pick(9000) - 3000;
    }
}

// Sums, products and extremes of points of two operands.
static void window(int t)
{
    static vec_problem q;
    int points = 1 + pick(12), n = 0, all = 0;
    memset(&q, 0, sizeof q);
    q.rows = 1 + pick(4);
    q.cols = 1 + pick(70);
    q.low = -2;
    q.high = 2;
    q.s.compute = (uint8_t)types[t].compute;
    q.s.reducer = (uint8_t)pick(4);
    q.s.n_operands = (uint16_t)(2 * points + 1);
    static const int64_t steps[] = {1, 1, 1, 0, 2, -1};
    dv_vec_operand x = {.dtype = (uint8_t)types[t].element};
    dv_vec_operand w = x;
    x.inner = steps[pick(6)];
    x.outer = 1 + pick(90);
    w.inner = steps[2 + pick(2)];
    w.outer = pick(2);
    for (int p = 0; p < points; p++) {
        q.o[2 * p] = x;
        q.o[2 * p + 1] = w;
        for (int k = 0; p && k < 2; k++) {
            q.o[2 * p + k].lead = (uint16_t)(k + 1);
            q.o[2 * p + k].lead_offset = k ? p : distance();
        }
        q.n[n] = load_node(2 * p);
        q.n[n + 1] = load_node(2 * p + 1);
        q.n[n + 2] = apply_node(DV_FN_MUL, n, n + 1, 0);
        n += 3;
        q.n[n] = (dv_vec_node){.kind = DV_VEC_STEP,
                               .arg = {(uint16_t)all, (uint16_t)(n - 1)}};
        n += p > 0;
        all = n - 1;
    }
    q.o[2 * points] = (dv_vec_operand){
        .inner = 1, .outer = 80, .dtype = (uint8_t)types[t].compute};
    q.s.n_nodes = (uint16_t)n;
    q.s.result = (uint16_t)(n - 1);
    vec_solve(&q, 4.0 * points, q.s.reducer == DV_RED_PROD ? 0 : 4.0 * points,
              "window");
}

TEST(windows)
{
    skip_without_kernels();
    for (int i = 0; i < 4000 / SHARE; i++)
        window(i % N_TYPES);
}

// Operands whose `lead` is invalid are refused.
TEST(refused)
{
    skip_without_kernels();
    dv_vec_operand o[3] = {{.inner = 1, .outer = 9, .dtype = DV_F32},
                           {.inner = 1, .outer = 9, .dtype = DV_F32},
                           {.inner = 1, .outer = 9, .dtype = DV_F32}};
    dv_vec_node n[] = {
        load_node(0), load_node(1), {.kind = DV_VEC_STEP, .arg = {0, 1}}};
    dv_vec_shape s = {.operands = o,
                      .nodes = n,
                      .n_operands = 3,
                      .n_nodes = 3,
                      .result = 2,
                      .compute = DV_F32};
    dv_vec_fn fn;
    o[1].lead = 1;
    o[1].lead_offset = 5;
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_OK);
    o[1].outer = 8;
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_E_SHAPE);
    o[1].outer = 9;
    o[1].dtype = DV_F16;
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_E_SHAPE);
    o[1].dtype = DV_F32;
    o[1].lead = 2; // itself
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_E_SHAPE);
    o[1].lead = 0;
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_E_SHAPE);
    o[1].lead_offset = 0;
    o[2].lead = 1; // the result
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_E_SHAPE);
    o[2].lead = 0;
    n[2].arg[1] = 2;
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_E_SHAPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows),
                                       cmocka_unit_test(refused)};
    int code = run_group(tests, jit_set_up, jit_tear_down);
    return code;
}
