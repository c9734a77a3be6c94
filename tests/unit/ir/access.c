// What the planner and the kernels know of an access: its variables, its
// strides, its bounds, and whether it is a box, a list of variables or the
// whole of a tensor; and which ops are sums of products.
#include "harness/test.h"
#include "harness/unit.h"
#include "ir/program.h"

static dv_program *p;

// Parses a program and returns its last op.
static const dv_op *last_op(const char *text)
{
    dv_program_destroy(p);
    p = NULL;
    p = program_of(text);
    return &p->ops[p->n_ops - 1];
}

static int end(void **state)
{
    (void)state;
    dv_program_destroy(p);
    p = NULL;
    return 0;
}

TEST(variables_of_an_index)
{
    const dv_op *op = last_op("input x: f32[9, 30, 7] "
                              "y[i,j] = x[i,2*i+3*j+1,4] for i in 0..4, "
                              "j in 0..3 output y");
    const dv_index *x = op->reads[0].index;
    int v;
    assert_int_equal(dv_index_vars(op, &x[0]), 1);
    assert_int_equal(dv_index_vars(op, &x[1]), 3);
    assert_int_equal(dv_index_var(op, &x[0]), 0);
    assert_int_equal(dv_index_var(op, &x[1]), DV_NO_VAR);
    assert_int_equal(dv_index_var(op, &x[2]), DV_CONSTANT);
    assert_true(dv_index_is_var(op, &x[0], &v));
    assert_int_equal(v, 0);
    assert_false(dv_index_is_var(op, &x[2], &v));
    assert_ptr_equal(dv_op_access(op, 0), &op->reads[0]);
    assert_ptr_equal(dv_op_access(op, 1), &op->write);
}

// The variable must take all values 0 to extent - 1, without offset or factor.
TEST(index_of_a_whole_dim)
{
    const dv_op *op = last_op("input x: f32[4, 5, 8, 1, 4] "
                              "y[i,j] = x[i,j+1,2*i,0,i] for i in 0..4, "
                              "j in 0..4 output y");
    const dv_index *x = op->reads[0].index;
    static const int64_t shape[] = {4, 5, 8, 1, 4};
    static const int want[] = {0, DV_NO_VAR, DV_NO_VAR, DV_CONSTANT, 0};
    for (int d = 0; d < 5; d++)
        assert_int_equal(dv_index_whole_var(op, &x[d], shape[d]), want[d]);
    assert_int_equal(dv_index_whole_var(op, &x[0], 5), DV_NO_VAR);
    assert_int_equal(dv_index_whole_var(op, &x[3], 2), DV_NO_VAR);
    op = last_op("input x: f32[4] y[i] = 0 for i in 0..4 y[i] <- x[i] for i in "
                 "1..4 output y");
    assert_int_equal(dv_index_whole_var(op, op->reads[0].index, 4), DV_NO_VAR);
    op = last_op("input k: i32[4] input x: f32[4] y[i] = x[k[i]] output y");
    for (int r = 0; r < op->n_reads; r++)
        assert_int_equal(dv_index_whole_var(op, op->reads[r].index, 4),
                         dv_access_is_indirect(&op->reads[r]) ? DV_NO_VAR : 0);
}

TEST(bounds_of_an_index)
{
    const dv_op *op = last_op("input x: f32[40] y[i,j] = x[20+2*i-3*j] "
                              "for i in 0..6, j in 0..5 output y");
    const dv_iter_space part = {{1, 2}, {3, 4}};
    int64_t lo, hi;
    assert_true(dv_index_bounds(op, op->reads[0].index, NULL, &lo, &hi));
    assert_int_equal(lo, 20 - 3 * 4);
    assert_int_equal(hi, 20 + 2 * 5);
    assert_true(dv_index_bounds(op, op->reads[0].index, &part, &lo, &hi));
    assert_int_equal(lo, 20 + 2 * 1 - 3 * 3);
    assert_int_equal(hi, 20 + 2 * 2 - 3 * 2);
}

TEST(strides)
{
    const dv_op *op = last_op("input x: f32[9, 30, 7] "
                              "y[i,j] = x[i,2*i+3*j+1,4] for i in 0..4, "
                              "j in 0..3 output y");
    int64_t rows[3], coef[2];
    assert_int_equal(dv_row_strides(3, p->tensors[0].shape, rows), 9 * 30 * 7);
    assert_int_equal(dv_access_flatten(op, &op->reads[0], rows, coef),
                     1 * 7 + 4);
    assert_int_equal(coef[0], 30 * 7 + 2 * 7);
    assert_int_equal(coef[1], 3 * 7);
    for (int v = 0; v < 2; v++)
        assert_int_equal(dv_access_step(p, &op->reads[0], v), coef[v]);
}

// A read x[...] of a program with these indices: is it a box, are its indices
// variables, and in which dim is variable i?
static void shapes_like(const char *index, int is_box, int is_vars, int dim)
{
    char text[200];
    int vars[DV_MAX_DIMS];
    snprintf(text, sizeof text,
             "input k: i32[4] input x: f32[20, 20] y[i,j] = x[%s] + k[i] "
             "for i in 0..4, j in 0..4 output y",
             index);
    const dv_op *op = last_op(text);
    const dv_access *a = NULL;
    for (int r = 0; r < op->n_reads; r++)
        if (op->reads[r].tensor == dv_program_find(p, "x"))
            a = &op->reads[r];
    assert_non_null(a);
    assert_int_equal(dv_access_is_box(op, a, vars), is_box);
    assert_int_equal(dv_access_is_vars(op, a, vars), is_vars);
    assert_int_equal(dv_access_dim(op, a, 0), dim);
}

TEST(forms_of_an_access)
{
    shapes_like("i,j", 1, 1, 0);
    shapes_like("j,i", 1, 1, 1);
    shapes_like("j,i+2", 1, 0, 1);
    shapes_like("3,i", 1, 0, 1);
    shapes_like("j,2*i", 0, 0, -1);
    shapes_like("i,i", 0, 0, -1);
    shapes_like("i+j,j", 0, 0, -1);
    shapes_like("k[i],j", 0, 0, -1);
}

// The factors of the last op, as the letters of their tensors; NULL: none.
static void has_factors(const char *statement, const char *letters)
{
    char text[300];
    int32_t f[2];
    snprintf(text, sizeof text,
             "input a: f32[8, 8] input b: f32[8, 8] input k: i32[8] %s "
             "output y",
             statement);
    const dv_op *op = last_op(text);
    assert_int_equal(dv_op_factors(op, f), letters != NULL);
    for (int i = 0; i < 2 && letters; i++)
        assert_int_equal(p->tensors[op->reads[f[i]].tensor].name[0],
                         letters[i]);
}

TEST(factors_of_a_product)
{
    has_factors("y[i,j] = sum[l] a[i,l] * b[l,j]", "ab");
    has_factors("y[i,j] = relu(mean[l] b[i,l] * a[l,j])", "ba");
    has_factors("y[i,j] = max[l] a[i,l] * b[l,j]", NULL);
    has_factors("y[i,j] = sum[l] (a[i,l] + b[l,j])", NULL);
    has_factors("y[i] = sum[l] 2 * a[i,l]", NULL);
    has_factors("y[i,j] = sum[l] a[i,l] * b[l,j] * a[l,l]", NULL);
    has_factors("y[i,j] = sum[l] a[k[i],l] * b[l,j]", NULL);
    has_factors("y[i,j] = a[i,j] * b[i,j]", NULL);
    // A contraction may have more than two factors, and constants.
    assert_int_equal(
        dv_op_kind(last_op("input a: f32[8] y[] = sum[l] 2 * a[l] * a[l] * "
                           "a[l] output y")),
        DV_KIND_CONTRACTION);
    assert_int_equal(
        dv_op_kind(last_op("input a: f32[8] y[] = sum[l] 2 * a[l] output y")),
        DV_KIND_REDUCTION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_of_an_index),
        cmocka_unit_test(index_of_a_whole_dim),
        cmocka_unit_test(bounds_of_an_index),
        cmocka_unit_test(strides),
        cmocka_unit_test(forms_of_an_access),
        cmocka_unit_test(factors_of_a_product),
    };
    return run_group(tests, NULL, end);
}
