// Sums of products of three or more factors are lowered to sums of two: as
// exact as the oracle's single sum, for all float types, with the same bits for
// any number of threads (N8).
#include "harness/test.h"
#include "harness/unit.h"

static void try(const char *text)
{
    for (int64_t threads = 1; threads <= 3; threads++) {
        job j;
        start(&j, text, threads, DV_RUN_THREADS);
        is_right(&j, 0);
        job_stop(&j);
    }
    same_for_all(text);
}

TEST(types)
{
    static const char *const type[] = {"f64", "f32", "f16", "bf16"};
    char text[400];
    for (int t = 0; t < 4; t++) {
        snprintf(text, sizeof text,
                 "input x: %s[10, 11, 12] input u: f32[13, 10] "
                 "input v: %s[9, 11] y[a,e,k] = "
                 "sum[i,j] x[i,j,k] * u[a,i] * v[e,j] output y",
                 type[t], type[3 - t]);
        try(text);
        snprintf(text, sizeof text,
                 "input a: %s[33, 40] input b: %s[40, 37] input c: f16[33, 37] "
                 "y[i,j] = 1 + (sum[k] c[i,j] * a[i,k] * b[k,j]) output y",
                 type[t], type[t]);
        try(text);
    }
}

TEST(forms)
{
    static const char *const text[] = {
        // Only one factor is summed over; then no sum is left.
        "input a: f64[7] input b: f64[7] input c: f64[9] "
        "y[i] = max((sum[k] a[i] * b[i] * c[k]), a[i]) output y",
        "input a: f32[7] input c: f32[9] y[i] = sum[k] a[i] * a[i] * c[k] "
        "output y",
        "input a: f32[7] input c: f32[9] input d: f32[5] "
        "y[i] = sum[k,l] a[i] * c[k] * d[l] output y",
        "input x: f32[32, 24, 20] input b: f32[24, 16] input c: f32[20, 16] "
        "y[i,l] = sum[j,k] x[i,j,k] * b[j,l] * c[k,l] output y",
        "input u: f32[40, 30] input w: f32[30, 50] input v: f32[40, 50] "
        "y[n] = relu(sum[i,j] u[n,i] * w[i,j] * v[n,j]) output y",
        // Chains; a result of one number; a diagonal; a factor twice.
        "input a: f32[10, 11] input b: f32[11, 12] input c: f32[12, 13] "
        "input d: f32[13, 14] y[i,m] = sum[j,k,l] a[i,j] * b[j,k] * c[k,l] * "
        "d[l,m] output y",
        "input a: f32[30, 31] input b: f32[31, 32] input c: f32[32, 30] "
        "y[] = sum[i,j,k] a[i,j] * b[j,k] * c[k,i] output y",
        "input a: f32[30, 30] input b: f32[30, 30] "
        "y[i] = sum[j,k] a[i,i] * b[i,j] * a[j,k] * b[k,i] output y",
        "input a: f32[20, 20] y[i,l] = sum[j,k] a[i,j] * a[j,k] * a[k,l] "
        "output y",
        // A factor that is multiplied afterwards has other indices, or all of
        // them.
        "input a: f32[30, 40] input b: f32[40] input c: f32[30, 50] "
        "y[i,j] = sum[k] c[i,j] * a[i,k] * b[k] output y",
        "input a: f32[40, 50] input b: f32[40] input u: f32[30] "
        "y[i,j] = sum[k] u[i] * b[k] * a[k,j] output y",
        "input a: f32[40, 50] input b: f32[40] input u: f32[30] input o: f32 "
        "y[i,j] = 2 * (sum[k] o[] * u[i] * 3 * b[k] * a[k,j]) - u[i] output y",
        // A factor that is summed alone and becomes a scalar or a row.
        "input a: f32 input b: f32[9, 8] input c: f32[8] input d: f32[2, 9] "
        "y[j,n] = 1 + (sum[i,m] a[] * b[m,j] * c[i] * d[n,m]) output y",
        "input a: f32[5, 6, 7] input b: f32[8] input c: f32[9] "
        "y[] = sum[i,j,k,l,m] (a[i,j,k] + 0.5) * b[l] * c[m] output y",
        "input a: f32[20, 30] input b: f32[20, 8] input c: f32[20, 9] "
        "y[l,m] = sum[i,j] a[i,j] * b[i,l] * c[i,m] output y",
        // Integer factors, whose partial results are not means.
        "input a: i32[11, 8] input b: i32[8, 11] input c: f32[11, 16] "
        "y[l,m] = mean[j] a[l,j] * b[j,l] * c[l,m] output y",
        "input a: i8[11, 8] input b: i8[8, 12] input c: f32[11, 12] "
        "y[l,m] = sum[j] a[l,j] * b[j,m] * c[l,m] output y",
        // Functions of factors, sums among them; two such sums in one
        // expression.
        "input a: f32[15, 20] input b: f32[20, 10] input c: f32[10, 17] "
        "y[i,l] = sum[j,k] exp(a[i,j]) * tanh(b[j,k]) * c[k,l] output y",
        "input a: f32[15, 20] input b: f32[20, 10] input c: f32[10, 17] "
        "y[i,l] = sum[j,k] a[i,j] * b[j,k] * (sum[m] c[k,m]) * c[k,l] "
        "output y",
        "input a: f32[15, 20] input b: f32[20, 10] input c: f32[10, 17] "
        "y[i,l] = (sum[j,k] a[i,j] * b[j,k] * c[k,l]) / "
        "(2 + (max[j] a[i,j])) output y",
        // Windows and diagonal indices; an update.
        "input x: f32[40, 40] input w: f32[5] input s: f32[36, 12] "
        "y[i,l] = sum[a,j] x[i+a,j+l] * w[a] * s[i,l] "
        "for i in 0..36, j in 0..20 output y",
        "input y: f32[20, 20] input a: f32[20, 20] repeat 2 { "
        "y[i,l] <- 0.01 * (sum[j,k] y[i,j] * a[j,k] * y[k,l]) } output y",
        // Means; a computed factor keeps the order of its dims.
        "input x: f32[90, 24] m[j] = mean[i] x[i,j] "
        "y[j,k] = mean[i] (x[i,j] - m[j]) * (x[i,k] - m[k]) output y",
        "input a: f32[15, 20] input b: f32[20, 10] input c: f32[10, 17] "
        "y[i,l] = mean[j,k] a[i,j] * b[j,k] * c[k,l] output y",
        "input a: f32[30, 40] input b: f32[40, 20] input c: f32[30, 20] "
        "y[i,k] = mean[j] c[i,k] * a[i,j] * b[j,k] output y",
        "input a: f32[16, 1, 16] input b: f32[16, 16] input c: f32[1, 16] "
        "y[i,l] = sum[j,k] a[i,j,k] * b[k,l] * c[j,k] output y",
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        try(text[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(types),
                                       cmocka_unit_test(forms)};
    return run_group(tests, NULL, NULL);
}
