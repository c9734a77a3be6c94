// N1 to N6: nests made in C, with mistakes that no text can have, and what
// passes and runs refuse.
#include "harness/nest_eval.h"
#include "harness/test.h"
#include "nest/nest.h"

static dv_nest gemm(void)
{
    dv_nest n = {.name = "x", .dtype = DV_F32, .main = DV_PRIM_GEMM};
    n.n_dims = 3;
    n.dims[0] = (dv_nest_dim){.type = DV_NEST_M,
                              .exec = DV_NEST_PRIM,
                              .size = 2,
                              .stride = {1, 0, 1}};
    n.dims[1] = (dv_nest_dim){.type = DV_NEST_N,
                              .exec = DV_NEST_PRIM,
                              .size = 2,
                              .stride = {0, 2, 2}};
    n.dims[2] = (dv_nest_dim){.type = DV_NEST_K,
                              .exec = DV_NEST_PRIM,
                              .size = 2,
                              .stride = {2, 1, 0}};
    return n;
}

static void breaks(const dv_nest *n, dv_status want, const char *rule)
{
    dv_diag *diag = dv_diag_create();
    assert_int_equal(dv_nest_verify(n, diag), want);
    if (!strstr(dv_diag_text(diag), rule))
        fail_msg("not %s: %s", rule, dv_diag_text(diag));
    dv_diag_destroy(diag);
}

TEST(rules)
{
    dv_nest n = gemm();
    assert_int_equal(dv_nest_verify(&n, NULL), DV_OK);
    n.dims[1].exec = (dv_nest_exec)3;
    breaks(&n, DV_E_NEST,
           "execution_type_not_supported: dimension 1 has "
           "execution 3, 0 to 2");
    n = gemm();
    n.dims[2].type = (dv_nest_type)7;
    breaks(&n, DV_E_NEST, "wrong_dimension: dimension 2 has type 7");
    n = gemm();
    n.n_dims = DV_NEST_MAX_DIMS + 1;
    breaks(&n, DV_E_NEST, "wrong_dimension: there are 65 dimensions");
    n = gemm();
    n.dims[0].stride[DV_IN0] = INT64_MIN;
    n.dims[0].exec =
        DV_NEST_SEQ; // otherwise the rules of kernels are broken first
    assert_int_equal(dv_nest_check(&n, NULL), DV_E_OVERFLOW);
    n = gemm();
    n.dims[1].size = DV_NEST_MAX_SIZE + 1;
    breaks(&n, DV_E_NEST, "wrong_dimension: dimension 1 has size");
}

// out = relu(out + in0 * in1), stored by columns.
TEST(runs)
{
    float a[4] = {1, 2, 3, 4}, b[4] = {1, 0, 0, -1}, c[4] = {10, 0, 0, 3};
    dv_nest n = gemm();
    n.last = DV_PRIM_RELU;
    assert_int_equal(eval_nest(&n, a, b, c), DV_OK);
    const float want[4] = {11, 2, 0, 0};
    assert_memory_equal(c, want, sizeof want);
    assert_int_equal(eval_nest(&n, NULL, b, c), DV_E_USAGE);
    assert_int_equal(eval_nest(&n, a, NULL, c), DV_E_USAGE);
    assert_int_equal(eval_nest(&n, a, b, NULL), DV_E_USAGE);
    n.first = DV_PRIM_BRGEMM;
    assert_int_equal(eval_nest(&n, a, b, c), DV_E_NEST);
}

// N3: touches are applied once, before and after all k; a first touch of relu
// sees out before anything is added.
TEST(touches)
{
    double a[4] = {1, 1, 1, 1}, b[4] = {-1, 2, -1, 2}, c[4] = {-9, 1, -9, 1};
    dv_nest n = gemm();
    n.dtype = DV_F64;
    n.first = DV_PRIM_RELU;
    n.last = DV_PRIM_NEG;
    n.dims[2].exec = DV_NEST_SEQ;
    dv_nest_dim k = n.dims[2]; // k outermost
    n.dims[2] = n.dims[0];
    n.dims[0] = k;
    assert_int_equal(eval_nest(&n, a, b, c), DV_OK);
    const double want[4] = {-1, -2, -1, -2};
    assert_memory_equal(c, want, sizeof want);
}

// out = in0 / in1, where in1 has only one row.
TEST(binaries)
{
    float a[4] = {8, 9, -6, 1}, b[2] = {2, 4}, c[4] = {0};
    dv_nest n = {.name = "x", .dtype = DV_F32, .main = DV_PRIM_DIV};
    n.n_dims = 2;
    n.dims[0] = (dv_nest_dim){.type = DV_NEST_M,
                              .exec = DV_NEST_PRIM,
                              .size = 2,
                              .stride = {2, 0, 2}};
    n.dims[1] = (dv_nest_dim){.type = DV_NEST_C,
                              .exec = DV_NEST_PRIM,
                              .size = 2,
                              .stride = {1, 1, 1}};
    assert_int_equal(dv_nest_verify(&n, NULL), DV_OK);
    dv_nest_prims p = dv_nest_find_prims(&n);
    assert_int_equal(p.m, 1);
    assert_int_equal(p.n, 0);
    assert_int_equal(eval_nest(&n, a, b, c), DV_OK);
    const float want[4] = {4, 2.25, -3, 0.25};
    assert_memory_equal(c, want, sizeof want);
    assert_int_equal(eval_nest(&n, a, NULL, c), DV_E_USAGE);
    n.dims[1].type = DV_NEST_M; // an in1 of one element
    n.dims[1].stride[DV_IN1] = 0;
    n.main = DV_PRIM_SUB;
    assert_int_equal(eval_nest(&n, a, b, a), DV_OK); // in place
    const float less[4] = {6, 7, -8, -1};
    assert_memory_equal(a, less, sizeof less);
    n.pack = 1;
    breaks(&n, DV_E_NEST, "wrong_marks: sub packs nothing");
}

// Rows are reduced, beginning with zero or with out, and touched once.
TEST(reductions)
{
    double a[6] = {3, -7, 2, -1, 5, -2};
    dv_nest n = {.name = "x", .dtype = DV_F64, .main = DV_PRIM_SUM};
    n.n_dims = 2;
    n.dims[0] = (dv_nest_dim){.type = DV_NEST_C,
                              .exec = DV_NEST_PRIM,
                              .size = 2,
                              .stride = {3, 0, 1}};
    n.dims[1] = (dv_nest_dim){.type = DV_NEST_K,
                              .exec = DV_NEST_PRIM,
                              .size = 3,
                              .stride = {1, 0, 0}};
    static const struct {
        dv_prim first, main, last;
        double want[2];
    } cases[] = {
        {DV_PRIM_ZERO, DV_PRIM_SUM, DV_PRIM_NONE, {-2, 2}},
        {DV_PRIM_NONE, DV_PRIM_SUM, DV_PRIM_RELU, {0, 102}},
        {DV_PRIM_ONE, DV_PRIM_PROD, DV_PRIM_NONE, {-42, 10}},
        {DV_PRIM_LOWEST, DV_PRIM_MAX_OVER, DV_PRIM_NEG, {-3, -5}},
        {DV_PRIM_NONE, DV_PRIM_MAX_OVER, DV_PRIM_NONE, {3, 100}},
        {DV_PRIM_HIGHEST, DV_PRIM_MIN_OVER, DV_PRIM_NONE, {-7, -2}},
        {DV_PRIM_NEG, DV_PRIM_MIN_OVER, DV_PRIM_ABS, {7, 100}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double out[2] = {-10, 100};
        n.first = cases[i].first;
        n.main = cases[i].main;
        n.last = cases[i].last;
        assert_int_equal(dv_nest_verify(&n, NULL), DV_OK);
        assert_int_equal(eval_nest(&n, a, NULL, out), DV_OK);
        assert_memory_equal(out, cases[i].want, sizeof out);
    }
    n.pack = 1;
    breaks(&n, DV_E_NEST, "wrong_marks: min_over packs nothing");
}

TEST(passes)
{
    dv_nest n = gemm();
    dv_nest_options options = {.size = sizeof(dv_nest_options), .threads = 2};
    assert_int_equal(dv_nest_optimise(&n, "split,nothing", &options, NULL),
                     DV_E_USAGE);
    assert_null(dv_nest_list("nothing"));
    assert_null(dv_nest_pass_get(-1));
    int count = 0;
    while (dv_nest_pass_get(count))
        count++;
    assert_int_equal(count, 12);
    // There is no room for another dimension.
    n = gemm();
    for (n.n_dims = 0; n.n_dims < DV_NEST_MAX_DIMS; n.n_dims++)
        n.dims[n.n_dims] = (dv_nest_dim){.type = DV_NEST_C,
                                         .exec = DV_NEST_SEQ,
                                         .size = 1,
                                         .stride = {1, 1, 1}};
    n.dims[9].size = 256;
    assert_int_equal(dv_nest_optimise(&n, "split", &options, NULL), DV_E_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules),    cmocka_unit_test(runs),
        cmocka_unit_test(touches),  cmocka_unit_test(reductions),
        cmocka_unit_test(binaries), cmocka_unit_test(passes),
    };
    return run_group(tests, NULL, NULL);
}
