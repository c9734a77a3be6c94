// Einsums through the C API: types, strides, wrong calls, caches, and no
// memory.
#include "harness/test.h"
#include "einsum/einsum.h"

// -- Types -------------------------------------------------------------------

TEST(types)
{
    static const struct {
        dv_dtype a, b, want;
    } cases[] = {
        {DV_F32, DV_F32, DV_F32},  {DV_F16, DV_F16, DV_F16},
        {DV_BF16, DV_F16, DV_F32}, {DV_F16, DV_F64, DV_F64},
        {DV_I8, DV_I8, DV_I8},     {DV_I8, DV_I32, DV_I32},
        {DV_I64, DV_F16, DV_F64},  {DV_I32, DV_I64, DV_I64},
        {DV_I32, DV_F32, DV_F64},  {DV_I8, DV_F32, DV_F32},
        {DV_I8, DV_F16, DV_F16},   {DV_U8, DV_I8, DV_I16},
        {DV_U8, DV_U16, DV_U16},   {DV_U32, DV_I32, DV_I64},
        {DV_U64, DV_I8, DV_F64},   {DV_I16, DV_F16, DV_F32},
        {DV_BOOL, DV_U8, DV_U8},   {DV_BOOL, DV_BOOL, DV_BOOL},
        {DV_U32, DV_F32, DV_F64},  {DV_BOOL, DV_BF16, DV_BF16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dv_array in[] = {{.dtype = cases[i].a}, {.dtype = cases[i].b}};
        assert_int_equal(dv_einsum_dtype(in, 2), cases[i].want);
    }
    // Sums of i8 are wider than i8; sums of f16 are not rounded in between.
    signed char a[4] = {100, 100, 100, 100}, b[4] = {100, 100, 100, 100};
    int32_t y = 0;
    const int64_t shape[] = {4};
    const dv_array in[] = {{DV_I8, 1, shape, NULL, a},
                           {DV_I8, 1, shape, NULL, b}};
    const dv_array out = {DV_I32, 0, NULL, NULL, &y};
    assert_int_equal(dv_einsum("i,i->", in, 2, &out, NULL, NULL), DV_OK);
    assert_int_equal(y, 40000);
    // No 32-bit type holds both numbers.
    int32_t many = 16777217;
    float one = 1;
    double both = 0;
    const dv_array mixed[] = {{DV_I32, 0, NULL, NULL, &many},
                              {DV_F32, 0, NULL, NULL, &one}};
    const dv_array result = {DV_F64, 0, NULL, NULL, &both};
    assert_int_equal(dv_einsum(",->", mixed, 2, &result, NULL, NULL), DV_OK);
    assert_true(both == 16777217);
}

// The result of an einsum that only permutes dims or takes diagonals is a view;
// dims are those of the caller, however the operand lies in memory.
TEST(views)
{
    static const struct {
        const char *text;
        int is_view, dims[3];
    } cases[] = {
        {"ijk->kij", 1, {1, 2, 0}}, {"iij->ji", 1, {1, 1, 0}},
        {"ijk->ij", 0, {0}},        {"iij->j", 0, {0}},
        {"ijk", 1, {0, 1, 2}},
    };
    const int64_t shape[] = {2, 2, 3}, strides[] = {1, 6, 2};
    const dv_array in = {DV_F32, 3, shape, strides, NULL};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dv_einsum_exec *e = NULL;
        int dims[DV_MAX_DIMS];
        assert_int_equal(
            dv_einsum_create(&e, cases[i].text, &in, 1, NULL, NULL), DV_OK);
        assert_int_equal(dv_einsum_is_view(e, dims), cases[i].is_view);
        for (int d = 0; d < 3 && cases[i].is_view; d++)
            assert_int_equal(dims[d], cases[i].dims[d]);
        dv_einsum_destroy(e);
    }
}

// -- The API -----------------------------------------------------------------

TEST(strides)
{
    // Every second column of a, b reversed, c stored by columns.
    double a[2][4] = {{1, 0, 2, 0}, {3, 0, 4, 0}}, b[2] = {20, 10};
    double c[4] = {-1, -1, -1, -1};
    const int64_t sa[] = {2, 2}, sb[] = {2}, sc[] = {2, 2};
    const int64_t ta[] = {4, 2}, tb[] = {-1}, tc[] = {1, 2};
    const dv_array in[] = {{DV_F64, 2, sa, ta, a}, {DV_F64, 1, sb, tb, &b[1]}};
    const dv_array out = {DV_F64, 2, sc, tc, c};
    assert_int_equal(dv_einsum("ij,j->ij", in, 2, &out, NULL, NULL), DV_OK);
    assert_true(c[0] == 10 && c[1] == 30 && c[2] == 40 && c[3] == 80);
    // A stride of 0 repeats an element of an input; it is refused for an
    // output.
    double one[1] = {5}, sum[2] = {0};
    const int64_t zero[] = {0}, dense[] = {1};
    dv_array x = {DV_F64, 1, sb, zero, one}, y = {DV_F64, 1, sb, dense, sum};
    assert_int_equal(dv_einsum("i->i", &x, 1, &y, NULL, NULL), DV_OK);
    assert_true(sum[0] == 5 && sum[1] == 5);
    y.strides = zero;
    assert_int_equal(dv_einsum("i->i", &x, 1, &y, NULL, NULL), DV_E_USAGE);
}

TEST(wrong_calls)
{
    double a[4] = {1, 2, 3, 4}, y[4];
    const int64_t two[] = {2}, three[] = {3};
    dv_array in = {DV_F64, 1, two, NULL, a}, out = {DV_F64, 1, two, NULL, y};
    dv_einsum_options o = DV_EINSUM_OPTIONS_INIT;
    dv_einsum_exec *e = NULL;
    assert_int_equal(dv_einsum("i", &in, 1, &out, NULL, NULL), DV_OK);
    assert_int_equal(dv_einsum(NULL, &in, 1, &out, NULL, NULL), DV_E_USAGE);
    assert_int_equal(dv_einsum("i", NULL, 1, &out, NULL, NULL), DV_E_USAGE);
    assert_int_equal(dv_einsum("i", &in, 1, NULL, NULL, NULL), DV_E_USAGE);
    out.shape = three;
    assert_int_equal(dv_einsum("i", &in, 1, &out, NULL, NULL), DV_E_SHAPE);
    assert_int_equal(dv_einsum("i->", &in, 1, &out, NULL, NULL), DV_E_SHAPE);
    out.shape = two;
    out.data = NULL;
    assert_int_equal(dv_einsum("i", &in, 1, &out, NULL, NULL), DV_E_USAGE);
    in.n_dims = 17;
    assert_int_equal(dv_einsum_create(&e, "i", &in, 1, NULL, NULL), DV_E_LIMIT);
    in.n_dims = 1;
    out.dtype = (dv_dtype)-1;
    assert_int_equal(dv_einsum("i", &in, 1, &out, NULL, NULL), DV_E_USAGE);
    in.dtype = (dv_dtype)99;
    assert_int_equal(dv_einsum_create(&e, "i", &in, 1, NULL, NULL), DV_E_USAGE);
    in.dtype = DV_F64;
    o.result_dtype = 99;
    assert_int_equal(dv_einsum_create(&e, "i", &in, 1, &o, NULL), DV_E_USAGE);
    assert_int_equal(dv_einsum_create(&e, "i", &in, 1, NULL, NULL), DV_OK);
    assert_int_equal(dv_einsum_run(e, NULL), DV_E_USAGE);
    assert_int_equal(dv_einsum_bind(e, 2, y, NULL, NULL), DV_E_USAGE);
    assert_int_equal(dv_einsum_bind(e, 0, NULL, NULL, NULL), DV_E_USAGE);
    dv_einsum_destroy(e);
    dv_einsum_destroy(NULL);
    dv_einsum_cache_destroy(NULL);
}

// If an operand overlaps the output, nothing is computed; an operand between
// the elements of the output is accepted. A diag that was cleared can be used
// again.
TEST(overlaps)
{
    double a[6] = {1, 2, 3, 4, 5, 6};
    const int64_t three[] = {3}, two[] = {2};
    dv_array in = {DV_F64, 1, three, NULL, a}, out = {DV_F64, 1, three, two, a};
    dv_diag *diag = dv_diag_create();
    out.strides = NULL;
    for (int from = 0; from < 3; from++) {
        out.data = a + from;
        assert_int_equal(dv_einsum("i->i", &in, 1, &out, NULL, diag),
                         DV_E_USAGE);
        assert_non_null(strstr(dv_diag_text(diag), "where operand 0 does"));
        dv_diag_clear(diag);
        assert_int_equal(dv_diag_status(diag), DV_OK);
        assert_string_equal(dv_diag_text(diag), "");
    }
    assert_true(a[0] == 1 && a[3] == 4);
    out.data = a + 3; // right behind it
    assert_int_equal(dv_einsum("i->i", &in, 1, &out, NULL, diag), DV_OK);
    assert_true(a[3] == 1 && a[5] == 3);
    in.strides = out.strides = two;
    out.data = a + 1;
    assert_int_equal(dv_einsum("i->i", &in, 1, &out, NULL, diag), DV_OK);
    assert_true(a[1] == 1 && a[3] == 3 && a[5] == 2 && a[2] == 3);
    dv_diag_clear(NULL);
    dv_diag_destroy(diag);
}

// A cached plan is found again by an equal call, and by no other.
TEST(caches)
{
    dv_einsum_cache *cache = NULL;
    dv_einsum_options o = DV_EINSUM_OPTIONS_INIT;
    dv_einsum_exec *e[9] = {NULL};
    const int64_t two[] = {2}, three[] = {3};
    dv_array in = {DV_F64, 1, two, NULL, NULL};
    assert_int_equal(dv_einsum_cache_create(&cache, 2, NULL), DV_OK);
    o.cache = cache;
    assert_int_equal(dv_einsum_create(&e[0], "i->", &in, 1, &o, NULL), DV_OK);
    assert_int_equal(dv_einsum_create(&e[1], "i->", &in, 1, &o, NULL), DV_OK);
    assert_ptr_equal(dv_einsum_plan(e[0]), dv_einsum_plan(e[1]));
    in.shape = three;
    assert_int_equal(dv_einsum_create(&e[2], "i->", &in, 1, &o, NULL), DV_OK);
    assert_ptr_not_equal(dv_einsum_plan(e[0]), dv_einsum_plan(e[2]));
    o.result_dtype = DV_F32; // the third plan: the first one is dropped
    assert_int_equal(dv_einsum_create(&e[3], "i->", &in, 1, &o, NULL), DV_OK);
    assert_ptr_not_equal(dv_einsum_plan(e[2]), dv_einsum_plan(e[3]));
    o.result_dtype = -1;
    in.shape = two;
    assert_int_equal(dv_einsum_create(&e[4], "i->", &in, 1, &o, NULL), DV_OK);
    assert_ptr_not_equal(dv_einsum_plan(e[0]), dv_einsum_plan(e[4]));
    dv_plan_options plan = DV_PLAN_OPTIONS_INIT;
    plan.threads = 1;
    o.plan = &plan;
    assert_int_equal(dv_einsum_create(&e[5], "i->", &in, 1, &o, NULL), DV_OK);
    plan.threads = 2;
    assert_int_equal(dv_einsum_create(&e[6], "i->", &in, 1, &o, NULL), DV_OK);
    assert_ptr_not_equal(dv_einsum_plan(e[5]), dv_einsum_plan(e[6]));
    plan.team = 2; // for processes: the same error with and without the cache
    o.cache = NULL;
    dv_status st = dv_einsum_create(&e[7], "i->", &in, 1, &o, NULL);
    o.cache = cache;
    assert_int_equal(dv_einsum_create(&e[8], "i->", &in, 1, &o, NULL), st);
    if (st == DV_OK)
        assert_ptr_not_equal(dv_einsum_plan(e[6]), dv_einsum_plan(e[8]));
    dv_einsum_cache_destroy(cache); // execs stay valid
    double x[2] = {3, 4}, y = 0;
    assert_int_equal(dv_einsum_bind(e[0], 0, x, NULL, NULL), DV_OK);
    assert_int_equal(dv_einsum_bind(e[0], 1, &y, NULL, NULL), DV_OK);
    assert_int_equal(dv_einsum_run(e[0], NULL), DV_OK);
    assert_true(y == 7);
    for (int i = 0; i < 9; i++)
        dv_einsum_destroy(e[i]);
}

// -- Without memory ----------------------------------------------------------

static dv_status everything(const char *expression, dv_diag *diag)
{
    double a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[4];
    const int64_t cube[] = {2, 2, 2}, square[] = {2, 2}, back[] = {1, 2, 4};
    const dv_array in[] = {{DV_F64, 3, cube, back, a},
                           {DV_F64, 2, square, NULL, a},
                           {DV_F64, 2, square, NULL, a}};
    const dv_array out = {DV_F64, 2, square, NULL, y};
    dv_einsum_options o = DV_EINSUM_OPTIONS_INIT;
    dv_einsum_cache *cache = NULL;
    DV_TRY(dv_einsum_cache_create(&cache, 1, diag));
    o.cache = cache;
    dv_status st = dv_einsum(expression, in, 3, &out, &o, diag);
    if (st == DV_OK)
        st = dv_einsum(expression, in, 3, &out, &o, diag);
    dv_einsum_exec *e = NULL;
    if (st == DV_OK)
        st = dv_einsum_create(&e, expression, in, 3, &o, diag);
    char *text = st == DV_OK ? dv_einsum_text(e) : NULL;
    char *json = st == DV_OK ? dv_einsum_json(e) : NULL;
    if (st == DV_OK && (!text || !json))
        st = dv_nomem(diag);
    dv_free(text);
    dv_free(json);
    dv_einsum_destroy(e);
    dv_einsum_cache_destroy(cache);
    return st;
}

TEST(without_memory)
{
    static const char *const expressions[] = {
        "iij,jk,kl->il", "[[0,0,1],[1,2]->[0,2]],[2,3]->[0,3]"};
    for (int i = 0; i < 2; i++)
        for (int64_t n = 0;; n++) {
            dv_mem_fail_at(-1);
            dv_diag *diag = dv_diag_create();
            dv_mem_fail_at(n);
            dv_status st = everything(expressions[i], diag);
            int done = dv_mem_calls() <= n;
            dv_mem_fail_at(-1);
            if (st != (done ? DV_OK : DV_E_NOMEM))
                fail_msg("allocation %d: %s", (int)n, dv_diag_text(diag));
            dv_diag_destroy(diag);
            if (done)
                break;
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types),          cmocka_unit_test(views),
        cmocka_unit_test(strides),        cmocka_unit_test(wrong_calls),
        cmocka_unit_test(overlaps),       cmocka_unit_test(caches),
        cmocka_unit_test(without_memory),
    };
    return run_group(tests, NULL, NULL);
}
