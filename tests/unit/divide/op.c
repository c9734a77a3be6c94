// dv_divide_op: one op of a caller without a program. What a request does not
// get right is refused with the reason; what it leaves out has defaults. That
// divisions are those of plans is tests/prop/divide/op.c.
#include "harness/test.h"
#include "harness/unit.h"
#include "divvy/divide.h"

static const int64_t mk[] = {512, 4096}, kn[] = {4096, 4096};
static const int64_t m_k[] = {1, 0, 0, 0, 0, 1}, k_n[] = {0, 0, 1, 0, 1, 0},
                     m_n[] = {1, 0, 0, 0, 1, 0};
static const dv_op_var vars[] = {{"m", 512}, {"n", 4096}, {"k", 4096}};
static const dv_op_operand factors[] = {
    {.name = "a", .dtype = DV_F16, .n_dims = 2, .shape = mk, .steps = m_k},
    {.name = "b", .dtype = DV_F16, .n_dims = 2, .shape = kn, .steps = k_n}};

// c[m,n] = sum[k] a[m,k] * b[k,n], of 512x4096x4096
static dv_op_request product(void)
{
    dv_op_request r = DV_OP_REQUEST_INIT;
    r.name = "c";
    r.vars = vars;
    r.n_vars = 3;
    r.reads = factors;
    r.n_reads = 2;
    r.write = (dv_op_operand){
        .name = "c", .dtype = DV_F16, .n_dims = 2, .shape = mk, .steps = m_n};
    r.reducer = "sum";
    return r;
}

static dv_op_division divided(const dv_op_request *r)
{
    dv_target *t = target_of("spyre");
    dv_diag *diag = dv_diag_create();
    dv_op_division d;
    if (dv_divide_op(&d, t, r, diag))
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    dv_target_destroy(t);
    return d;
}

static void is_refused(const dv_op_request *r, dv_status want,
                       const char *words)
{
    dv_target *t = target_of("spyre");
    dv_diag *diag = dv_diag_create();
    dv_op_division d = {.n_tiles = -1};
    dv_status st = dv_divide_op(&d, t, r, diag);
    if (st != want)
        fail_msg("status %d, %s", (int)st, dv_diag_text(diag));
    if (!strstr(dv_diag_text(diag), words))
        fail_msg("'%s' does not say '%s'", dv_diag_text(diag), words);
    assert_int_equal(d.n_tiles, -1);
    assert_int_equal(dv_divide_op(&d, t, r, NULL), want);
    dv_diag_destroy(diag);
    dv_target_destroy(t);
}

// Torch-Spyre's published division of this product is m 4 x n 8.
TEST(published)
{
    dv_op_request r = product();
    r.divide = DV_DIVIDE_SEED_COST;
    dv_op_division d = divided(&r);
    assert_int_equal(d.n_slices[0], 4);
    assert_int_equal(d.n_slices[1], 8);
    assert_int_equal(d.n_slices[2], 1);
    assert_int_equal(d.slice_size[1], 512);
    assert_int_equal(d.n_tiles, 32);
    assert_true(d.by_matmul_model && d.has_strides);
    assert_int_equal(d.strides.n_output, 2);
    assert_int_equal(d.strides.n_reduction, 0);
    assert_int_equal(d.strides.output[0].stride, 4096);
    assert_int_equal(d.strides.output[0].n, 4);
    assert_int_equal(d.strides.output[1].stride, 1);
    assert_int_equal(d.strides.output[1].n, 8);
    assert_true(d.cost_us > 0 && d.cost_us == divided(&r).cost_us);
    assert_int_equal(d.whole_bytes[0], 512 * 4096 * 2);
    assert_true(d.span_bytes[0] <= d.whole_bytes[0]);
}

// A limit of 8 MiB on spans needs 4 parts of b; pins and fewer cores are
// obeyed, and -1 is no limit.
TEST(limits_and_pins)
{
    dv_op_request r = product();
    r.divide = DV_DIVIDE_SPAN;
    r.span_limit_bytes = 8 << 20;
    dv_op_division d = divided(&r);
    assert_int_equal(d.n_tiles, d.forced[0] * d.forced[1] * d.forced[2]);
    assert_true(d.n_tiles >= 4 && d.span_bytes[1] <= 8 << 20);
    r.span_limit_bytes = -1;
    assert_int_equal(divided(&r).n_tiles, 1);
    r.divide = (dv_divide)0;
    dv_op_pin pin = {.var = 2, .n = 2};
    r.pins = &pin;
    r.n_pins = 1;
    r.cores = 8;
    d = divided(&r);
    assert_int_equal(d.n_slices[2], 2);
    assert_true(d.n_tiles <= 8);
    assert_int_equal(d.strides.reduction[0].stride, 1);
}

// A gathered row, and where a result may not be cut.
TEST(gathers)
{
    static const int64_t rows[] = {100, 256}, n_at[] = {64}, out[] = {64, 256};
    static const int64_t i_[] = {1, 0}, i_j[] = {1, 0, 0, 1},
                         _j[] = {0, 0, 0, 1};
    static const int via[] = {0, -1};
    static const dv_op_var v[] = {{"i", 64}, {"j", 256}};
    static const dv_op_operand reads[] = {{.name = "at",
                                           .dtype = DV_I64,
                                           .n_dims = 1,
                                           .shape = n_at,
                                           .steps = i_},
                                          {.name = "x",
                                           .dtype = DV_F16,
                                           .n_dims = 2,
                                           .shape = rows,
                                           .steps = _j,
                                           .via = via}};
    dv_op_request r = DV_OP_REQUEST_INIT;
    r.name = "y";
    r.vars = v;
    r.n_vars = 2;
    r.reads = reads;
    r.n_reads = 2;
    r.write = (dv_op_operand){
        .name = "y", .dtype = DV_F16, .n_dims = 2, .shape = out, .steps = i_j};
    dv_op_division d = divided(&r);
    assert_true(d.n_tiles > 1 && !d.why_whole[0]);
    // Scattered: y[at[i],j] = x[i,j]
    dv_op_operand scatter[] = {reads[0], r.write};
    r.write = reads[1];
    r.reads = scatter;
    d = divided(&r);
    assert_int_equal(d.n_tiles, 1);
    assert_non_null(strstr(d.why_whole[0], "points may meet"));
}

// x of 512x1024 in the layout of Torch-Spyre's documents, and one that does not
// hold all elements.
TEST(layouts)
{
    static const int64_t shape[] = {512, 1024}, i_j[] = {1, 0, 0, 1},
                         stride[] = {64, 1024, 1};
    static const dv_op_var v[] = {{"i", 512}, {"j", 1024}};
    int64_t size[] = {16, 512, 64};
    dv_op_operand x = {.name = "x",
                       .dtype = DV_F16,
                       .n_dims = 2,
                       .shape = shape,
                       .steps = i_j,
                       .n_device_dims = 3,
                       .device_size = size,
                       .stride_map = stride};
    dv_op_request r = DV_OP_REQUEST_INIT;
    r.name = "x";
    r.vars = v;
    r.n_vars = 2;
    r.reads = &x;
    r.n_reads = 1;
    r.function = "relu";
    r.write = x; // of the same name: another tensor
    dv_op_division with = divided(&r);
    assert_int_equal(with.whole_bytes[0], 1 << 20);
    x.n_device_dims = r.write.n_device_dims = 0;
    dv_op_division without = divided(&r);
    assert_memory_equal(with.n_slices, without.n_slices, 2 * sizeof(int64_t));
    x.n_device_dims = 3;
    size[1] = 511;
    is_refused(&r, DV_E_USAGE, "does not hold all elements");
    size[1] = 512;
    size[2] = 32;
    is_refused(&r, DV_E_USAGE, "hold all elements");
}

TEST(refusals)
{
    dv_op_request r = product();
    r.reducer = NULL;
    is_refused(&r, DV_E_USAGE, "does not have variable k");
    r = product();
    r.reducer = "median";
    is_refused(&r, DV_E_NAME, "median");
    r = product();
    r.function = "exp"; // of two reads
    is_refused(&r, DV_E_USAGE, "exp takes 1 argument");
    r = product();
    r.cores = 33;
    is_refused(&r, DV_E_USAGE, "spyre has 32 cores, 33 were asked for");
    r = product();
    r.span_limit_bytes = 64;
    is_refused(&r, DV_E_CAPACITY, "c: ");
    r = product();
    const dv_op_var longer[] = {{"m", 513}, {"n", 4096}, {"k", 4096}};
    r.vars = longer;
    is_refused(&r, DV_E_BOUNDS, "c: ");
    const dv_op_var extra[] = {{"m", 512}, {"n", 4096}, {"k", 4096}, {"z", 2}};
    r.vars = extra;
    r.n_vars = 4;
    static const int64_t steps[] = {1, 0, 0, 0, 0, 1, 0, 0};
    dv_op_operand copy = {
        .name = "a", .dtype = DV_F16, .n_dims = 2, .shape = mk, .steps = steps};
    r.n_reads = 1;
    r.reads = &copy;
    r.write = copy;
    is_refused(&r, DV_E_USAGE, "no access has variable k");
    r = product();
    dv_op_pin twice[] = {{0, 2}, {0, 4}};
    r.pins = twice;
    r.n_pins = 2;
    is_refused(&r, DV_E_USAGE, "pinned already");
    r = product();
    static const int cycle[] = {0, -1};
    copy = factors[0];
    copy.via = cycle;
    r.reads = &copy;
    r.n_reads = 1;
    is_refused(&r, DV_E_USAGE, "a read before it");
    r = product();
    r.size = 12345;
    is_refused(&r, DV_E_USAGE, "dv_op_request");
}

// The splits of a plan's op by stride, and why there are none.
TEST(splits_of_a_plan)
{
    dv_plan *plan = division_of("input x: f16[64, 64]\ninput w: f16[32, 64]\n"
                                "d[j] = sum[k,l] x[k+l,j]  "
                                "for k in 0..32, l in 0..32\n"
                                "y[i,j] = w[i,j] * d[j]\noutput y\n",
                                "spyre", 0, DV_DIVIDE_BEST,
                                (const char *const[]){"d:k=2", "y:i=8", NULL});
    dv_stride_splits s = {.n_output = -1};
    dv_diag *diag = dv_diag_create();
    assert_int_equal(dv_plan_stride_splits(&s, plan, "d", diag), DV_E_CHECK);
    assert_non_null(strstr(dv_diag_text(diag), "k and l both have the key 64"));
    dv_diag_clear(diag);
    assert_int_equal(s.n_output, -1);
    assert_int_equal(dv_plan_stride_splits(&s, plan, "z", diag), DV_E_NAME);
    assert_int_equal(dv_plan_stride_splits(&s, plan, "y", NULL), DV_OK);
    assert_int_equal(s.n_output, 1);
    assert_int_equal(s.output[0].stride, 64);
    assert_int_equal(s.output[0].n, 8);
    dv_diag_destroy(diag);
    dv_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published), cmocka_unit_test(limits_and_pins),
        cmocka_unit_test(gathers),   cmocka_unit_test(layouts),
        cmocka_unit_test(refusals),  cmocka_unit_test(splits_of_a_plan)};
    return run_group(tests, NULL, NULL);
}
