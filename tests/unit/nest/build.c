// Nests that are made by calls: the same nests as from text, the numbers of the
// rules that wrong ones break, and running one.
#include "contract/contract.h"
#include "harness/contract_case.h"
#include "harness/unit.h"

static const dv_nest_loop product[] = {
    {.type = DV_NEST_M, .exec = DV_NEST_SHARED, .size = 64, .in0 = 1, .out = 1},
    {.type = DV_NEST_N, .exec = DV_NEST_SEQ, .size = 48, .in1 = 32, .out = 64},
    {.type = DV_NEST_K, .exec = DV_NEST_SEQ, .size = 32, .in0 = 64, .in1 = 1}};

static dv_nest_info info_of(const dv_nest_loop *loops, size_t n)
{
    dv_nest_info info = DV_NEST_INFO_INIT;
    info.name = "c";
    info.first = "zero";
    info.main = "gemm";
    info.loops = loops;
    info.n_loops = n;
    return info;
}

TEST(same_as_text)
{
    static const double half = .5;
    dv_nest *text = nest_of("nest c f32 {\n    first zero\n    main gemm\n"
                            "    last relu\n    in0 f16\n    pack in1\n"
                            "    m 64 shared pack in0: in0 1, out 1\n"
                            "    n 48 seq: in1 32, out 64\n"
                            "    k 32 seq: in0 64, in1 1\n}\n"),
            *made = NULL;
    dv_nest_loop loops[3];
    memcpy(loops, product, sizeof loops);
    loops[0].pack = 1;
    dv_nest_info info = info_of(loops, 3);
    info.last = "relu";
    info.pack = 2;
    info.types[0] = "f16";
    assert_int_equal(dv_nest_make(&made, &info, NULL), DV_OK);
    assert_true(dv_nest_equal(made, text));
    dv_nest_destroy(made);
    info.types[0] = "f32"; // what the nest has anyway
    assert_int_equal(dv_nest_make(&made, &info, NULL), DV_OK);
    assert_false(dv_nest_equal(made, text));
    dv_nest_destroy(made);
    dv_nest_destroy(text);
    text = nest_of("nest y f32 {\n    main mul\n    in1 = 0.5\n"
                   "    m 8 seq: in0 1, out 1\n}\n");
    dv_nest_loop m = {
        .type = DV_NEST_M, .exec = DV_NEST_SEQ, .size = 8, .in0 = 1, .out = 1};
    info = info_of(&m, 1);
    info.name = "y";
    info.first = NULL;
    info.main = "mul";
    info.values[1] = &half;
    assert_int_equal(dv_nest_make(&made, &info, NULL), DV_OK);
    assert_true(dv_nest_equal(made, text));
    dv_nest_destroy(made);
    dv_nest_destroy(text);
}

TEST(runs)
{
    static float a[32 * 64], b[48 * 32], out[48 * 64];
    dv_nest_info info = info_of(product, 3);
    dv_nest *n = NULL;
    dv_contract *c = NULL;
    for (int i = 0; i < 32 * 64; i++)
        a[i] = 1;
    for (int i = 0; i < 48 * 32; i++)
        b[i] = 2;
    assert_int_equal(dv_nest_make(&n, &info, NULL), DV_OK);
    assert_int_equal(dv_contract_create(&c, NULL, n, NULL, NULL), DV_OK);
    assert_int_equal(dv_contract_run(c, a, b, NULL, out, NULL), DV_OK);
    for (int i = 0; i < 48 * 64; i++)
        assert_true(out[i] == 64);
    dv_contract_destroy(c);
    dv_nest_destroy(n);
}

// Returns the rule that making the nest, or checking it, breaks.
static int broken_rule(const dv_nest_info *info)
{
    dv_nest *n = NULL;
    dv_diag *diag = dv_diag_create();
    dv_status st = dv_nest_make(&n, info, diag);
    if (st == DV_OK)
        st = dv_nest_verify(n, diag);
    int rule = dv_diag_rule(diag);
    if (st != DV_E_NEST)
        fail_msg("status %d: %s", (int)st, dv_diag_text(diag));
    dv_nest_destroy(n);
    dv_diag_destroy(diag);
    return rule;
}

// The numbers are those of mini_jit.
TEST(rules)
{
    dv_nest_loop l[3];
    dv_nest_info info = info_of(l, 3);
    memcpy(l, product, sizeof l);
    assert_int_equal(broken_rule(&info), 8); // no dimension is prim
    l[2].exec = DV_NEST_SHARED;
    assert_int_equal(broken_rule(&info), DV_NEST_RULE_K_SHARED);
    assert_int_equal(DV_NEST_RULE_K_SHARED, 14);
    l[2].exec = (dv_nest_exec)3;
    assert_int_equal(broken_rule(&info), 7);
    memcpy(l, product, sizeof l);
    l[1].type = (dv_nest_type)4;
    assert_int_equal(broken_rule(&info), 2);
    memcpy(l, product, sizeof l);
    l[1].size = -1;
    assert_int_equal(broken_rule(&info), 2);
    l[1].size = 0;
    assert_int_equal(broken_rule(&info), 2);
    memcpy(l, product, sizeof l);
    info.main = "nothing";
    assert_int_equal(broken_rule(&info), 3);
    info.main = "gemm";
    l[0].exec = l[1].exec = DV_NEST_PRIM;
    assert_int_equal(broken_rule(&info), 12); // k is seq, behind
    l[2].exec = DV_NEST_PRIM;
    info.first = "add";
    assert_int_equal(broken_rule(&info), 4);
    info.first = NULL;
    info.last = "gemm";
    assert_int_equal(broken_rule(&info), 6);
    info.last = NULL;
    l[0].in0 = 2;
    assert_int_equal(broken_rule(&info), 13);
    info.look = 4;
    assert_int_equal(broken_rule(&info), 21);
    info.look = 0;
    l[0].pack = 8;
    assert_int_equal(broken_rule(&info), 18);
}

TEST(refusals)
{
    dv_nest_info info = info_of(product, 3);
    dv_nest *n = NULL;
    info.name = "2c";
    assert_int_equal(dv_nest_make(&n, &info, NULL), DV_E_NAME);
    info.name = NULL;
    assert_int_equal(dv_nest_make(&n, &info, NULL), DV_E_NAME);
    info = info_of(product, 65);
    assert_int_equal(dv_nest_make(&n, &info, NULL), DV_E_LIMIT);
    info = info_of(NULL, 3);
    assert_int_equal(dv_nest_make(&n, &info, NULL), DV_E_USAGE);
    info = info_of(product, 3);
    info.dtype = (dv_dtype)99;
    assert_int_equal(dv_nest_make(&n, &info, NULL), DV_E_DTYPE);
    info.dtype = DV_F32;
    info.types[0] = "f7";
    assert_int_equal(dv_nest_make(&n, &info, NULL), DV_E_DTYPE);
    info.size = 1;
    assert_int_equal(dv_nest_make(&n, &info, NULL), DV_E_USAGE);
    assert_null(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_text), cmocka_unit_test(runs),
        cmocka_unit_test(rules), cmocka_unit_test(refusals)};
    return run_group(tests, NULL, NULL);
}
