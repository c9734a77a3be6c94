// Products of strided windows: where windows overlap, lowering copies the
// strided elements next to each other once.
#include "harness/test.h"
#include "harness/unit.h"

TEST(brought)
{
    static const char *const text[] = {
        "input x: f32[4, 31, 33] input w: f32[9, 4, 3, 3] y[o,i,j] = "
        "sum[c,a,b] w[o,c,a,b] * x[c,2*i+a,2*j+b] "
        "for i in 0..15, j in 0..16 output y",
        // The factors swapped; a stride of three; batches; one dim.
        "input x: f32[2, 4, 40, 41] input w: f32[9, 4, 4, 5] y[n,o,i,j] = "
        "mean[c,a,b] x[n,c,3*i+a,3*j+b] * w[o,c,a,b] "
        "for i in 0..13, j in 0..13 output y",
        "input x: f64[12, 101] input w: f64[17, 12, 3] y[o,i] = "
        "relu(sum[c,a] w[o,c,a] * x[c,2*i+a]) for i in 0..50 output y",
        "input x: f32[101] input w: f32[17, 8] y[o,i] = "
        "sum[a] w[o,a] * x[2*i+a] for i in 0..40 output y",
        // Windows with an offset; names that new variables must avoid.
        "input x: f32[4, 50, 70] input w: f32[9, 4, 3, 9] y[o,i,j] = "
        "sum[c,a,b] w[o,c,a,b] * x[c,i+a,2*j+b-3] "
        "for i in 0..48, j in 0..30, b in 3..9 output y",
        "input x: f32[4, 31, 33] input w: f32[9, 4, 3, 3] y[d1,d2,d0] = "
        "sum[c,a,d3] w[d1,c,a,d3] * x[c,2*d2+a,2*d0+d3] "
        "for d2 in 0..15, d0 in 0..16 output y",
        // Windows of one element; windows along one of two dims.
        "input x: f32[20, 31, 33] input w: f32[9, 20] y[o,i,j] = "
        "sum[c] w[o,c] * x[c,2*i+1,2*j] for i in 0..15, j in 0..17 output y",
        "input x: f32[20, 31, 33] input w: f32[9, 20, 3] y[o,i,j] = "
        "sum[c,a] w[o,c,a] * x[c,i+a,3*j] for i in 0..29, j in 0..11 output y",
        // A computed and updated factor; narrow types.
        "input x: f32[4, 31, 33] input w: f32[9, 4, 3, 3] "
        "z[c,i,j] = 2 * x[c,i,j] repeat 2 { z[c,i,j] <- z[c,i,j] + 1 "
        "y[o,i,j] = sum[c,a,b] w[o,c,a,b] * z[c,2*i+a,2*j+b] "
        "for i in 0..15, j in 0..16 } output y",
        "input x: f16[4, 31, 33] input w: f16[9, 4, 3, 3] y[o,i,j] = "
        "sum[c,a,b] w[o,c,a,b] * x[c,2*i+a,2*j+b] "
        "for i in 0..15, j in 0..16 output y",
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        job j;
        start(&j, text[i], 1, DV_RUN_THREADS);
        int32_t last = j.plan->ops->n_ops - 1;
        assert_non_null(strstr(j.plan->ops->ops[last - 1].name, "y_1"));
        job_stop(&j);
        runs_right(text[i], 3, 0, "a contraction");
    }
    runs_right("input x: i8[4, 31, 33] input w: i8[9, 4, 3, 3] y[o,i,j]: i32 = "
               "sum[c,a,b] w[o,c,a,b] * x[c,2*i+a,2*j+b] "
               "for i in 0..15, j in 0..16 output y",
               2, 1, "a contraction");
}

// Elements that are not read are not copied.
TEST(a_part)
{
    const char *text = "input x: f32[90, 8, 70] input w: f32[12, 8, 3] "
                       "y[o,j] = sum[c,b] w[o,c,b] * x[7,c,2*j+b+9] "
                       "for j in 0..30 output y";
    job j;
    start(&j, text, 1, DV_RUN_THREADS);
    const dv_tensor *t =
        &j.plan->ops->tensors[j.plan->ops->ops[0].write.tensor];
    assert_int_equal(t->n_elems, 8 * 3 * 30);
    job_stop(&j);
    runs_right(text, 2, 0, "a contraction");
}

// Not copied: windows that overlap little or not at all, channels in the last
// dim, few results, and copies that would be much larger than the tensor or
// than what is read.
TEST(left_alone)
{
    static const char *const text[] = {
        "input x: f32[4, 30, 32] input w: f32[9, 4, 2, 2] y[o,i,j] = "
        "sum[c,a,b] w[o,c,a,b] * x[c,2*i+a,2*j+b] "
        "for i in 0..15, j in 0..16 output y",
        "input x: f32[4, 31, 65] input w: f32[9, 4, 2, 5] y[o,i,j] = "
        "sum[c,a,b] w[o,c,a,b] * x[c,i+a,4*j+b] "
        "for i in 0..30, j in 0..16 output y",
        "input x: f32[4, 60, 33] input w: f32[9, 4, 3] y[o,i,j] = "
        "sum[c,b] w[o,c,b] * x[c,4*i,2*j+b] for i in 0..15, j in 0..16 "
        "output y",
        "input x: f32[31, 33, 4] input w: f32[9, 3, 3, 4] y[i,j,o] = "
        "sum[a,b,c] w[o,a,b,c] * x[2*i+a,2*j+b,c] "
        "for i in 0..15, j in 0..16 output y",
        "input x: f32[4, 31, 33] input w: f32[2, 4, 3, 3] y[o,i,j] = "
        "sum[c,a,b] w[o,c,a,b] * x[c,2*i+a,2*j+b] "
        "for i in 0..15, j in 0..16 output y",
        "input x: f32[4, 200] input w: f32[9, 4, 100] y[o,i] = "
        "sum[c,a] w[o,c,a] * x[c,2*i+a] for i in 0..50 output y",
        "input x: f32[4, 200] input w: f32[9, 4, 4] y[o,i] = "
        "sum[c,a] w[o,c,a] * x[c,2*i+2*a] for i in 0..50 output y",
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        stays_one_op(text[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(brought),
                                       cmocka_unit_test(a_part),
                                       cmocka_unit_test(left_alone)};
    return run_group(tests, NULL, NULL);
}
