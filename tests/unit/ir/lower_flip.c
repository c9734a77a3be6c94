// Products whose factors are read backwards, as convolutions are written: they
// are contractions, too, and right.
#include "harness/test.h"
#include "harness/unit.h"

static void try(const char *text, int exact, const char *how)
{
    runs_right(text, 2, exact, how);
}

TEST(turned)
{
    static const char *const text[] = {
        "input x: f32[4, 30, 30] input w: f32[9, 4, 3, 3] y[o,i,j] = "
        "sum[c,a,b] x[c,i+2-a,j+2-b] * w[o,c,a,b] "
        "for i in 0..28, j in 0..28 output y",
        // Reversed along one of two dims; with an offset; with a stride of two;
        // the factors swapped.
        "input x: f32[4, 30, 30] input w: f32[9, 4, 3, 3] y[o,i,j] = "
        "mean[c,a,b] x[c,i+a,j+2-b] * w[o,c,a,b] "
        "for i in 0..28, j in 0..28 output y",
        "input x: f32[30, 40] input w: f32[40, 17] y[i,j] = "
        "sum[k] x[i,45-k] * w[k,j] for k in 10..35 output y",
        "input x: f64[30, 40] input w: f64[20, 17] y[i,j] = "
        "sum[k] w[k,j] * x[i,39-2*k] output y",
        // Written variables reversed; both factors reversed; one factor twice.
        "input x: f32[30, 40] input w: f32[40, 17] y[i,j] = "
        "sum[k] x[29-i,k] * w[k,j] for i in 0..30 output y",
        "input x: f32[30, 40] input w: f32[40, 17] y[i,j] = "
        "sum[k] x[i,39-k] * w[39-k,16-j] for j in 0..17, k in 0..40 output y",
        "input x: f32[31, 31] y[i,j] = sum[k] x[i,30-k] * x[k,j] output y",
        // An epilogue; three factors; an update.
        "input x: f32[30, 40] input w: f32[40, 17] input b: f32[17] y[i,j] = "
        "tanh(b[j] + sum[k] x[i,39-k] * w[k,j]) output y",
        "input x: f32[30, 40] input w: f32[40, 17] input s: f32[40] y[i,j] = "
        "sum[k] x[i,39-k] * s[k] * w[k,j] output y",
        "input x: f32[12, 13, 14] input u: f32[15, 12] input v: f32[16, 13] "
        "y[a,b,k] = sum[i,j] x[11-i,j,k] * u[a,i] * v[b,12-j] output y",
        "input x: f32[30, 30] input y: f32[30, 30] repeat 2 { "
        "y[i,j] <- y[i,j] + sum[k] x[i,29-k] * y[k,j] } output y",
        // Narrow types.
        "input x: bf16[30, 64] input w: bf16[64, 33] y[i,j]: f32 = "
        "sum[k] x[i,63-k] * w[k,j] output y",
        "input x: f16[30, 64] input w: f16[64, 33] y[i,j] = "
        "sum[k] x[i,63-k] * w[k,j] output y",
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        try(text[i], 0, "a contraction");
    try("input x: i8[30, 64] input w: i8[64, 33] y[i,j]: i32 = "
        "sum[k] x[i,63-k] * w[k,j] output y",
        1, "a contraction");
}

// Not reversed: sums of few terms, windows of a tensor, which would have to be
// copied, and vectors.
TEST(left_alone)
{
    static const char *const text[] = {
        "input x: f32[30, 4] input w: f32[4, 30] y[i,j] = "
        "sum[k] x[29-i,k] * w[3-k,j] for i in 0..30, k in 0..4 output y",
        "input x: f32[100, 40] input w: f32[40] y[i] = "
        "sum[k] x[i,39-k] * w[k] output y",
        "input x: f32[1000] input w: f32[7] y[i] = sum[a] x[i+6-a] * w[a] "
        "for i in 0..994 output y",
        "input x: f32[64] input w: f32[64] y[i,j] = "
        "sum[k] x[20+i-k] * w[20+k-j] for i in 0..20, j in 0..20, k in 0..20 "
        "output y",
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        stays_one_op(text[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(turned),
                                       cmocka_unit_test(left_alone)};
    return run_group(tests, NULL, NULL);
}
