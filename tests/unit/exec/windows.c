// Reducers over a few neighbours of each result, as in filters and pools, are
// one expression of a vector kernel: right for all reducers and types and for
// windows that begin and end anywhere, with the same bits for any number of
// threads (N8).
#include "harness/test.h"
#include "harness/unit.h"

static const char kernel[] = "a vector kernel";

static void try(const char *text, int exact, const char *how)
{
    runs_right(text, 3, exact, how);
}

TEST(reducers)
{
    static const char *const reducer[] = {"sum", "mean", "max", "min", "prod"};
    static const char *const type[] = {"f64", "f32", "f16", "bf16"};
    char text[300];
    for (int r = 0; r < 5; r++)
        for (int t = 0; t < 4; t++) {
            snprintf(text, sizeof text,
                     "input x: %s[5, 21, 39] y[c,i,j] = %s[a,b] x[c,i+a,j+b] "
                     "for i in 0..19, j in 0..37, a in 0..3, b in 0..3 "
                     "output y",
                     type[t], reducer[r]);
            try(text, r == 2 || r == 3, kernel);
        }
}

// Windows with a stride of two.
TEST(by_two)
{
    static const char *const reducer[] = {"sum", "mean", "max", "min"};
    static const char *const type[] = {"f64", "f32", "i32", "f16", "i8"};
    char text[300];
    for (int r = 0; r < 4; r++)
        for (int t = 0; t < 5; t++) {
            if (r == 1 && (t == 2 || t == 4))
                continue; // a mean is no integer
            snprintf(text, sizeof text,
                     "input x: %s[3, 42, %d] y[c,i,j] = "
                     "%s[a,b] x[c,2*i+a,2*j+b] "
                     "for i in 0..20, j in 0..%d, a in 0..3, b in 0..3 "
                     "output y",
                     type[t], 41 + 10 * r, reducer[r], 20 + 5 * r);
            try(text, r > 1 || t == 2 || t == 4, kernel);
        }
    try("input x: f32[6, 34, 77] input w: f32[6, 3, 5] y[c,i,j] = relu("
        "sum[a,b] x[c,i+a,2*j+b] * w[c,a,b]) for i in 0..32, j in 0..37 "
        "output y",
        0, kernel);
    try("input x: f32[5, 900] y[i,j] = x[i,2*j] * x[i,2*j+1] - x[i,899-2*j] "
        "for j in 0..450 output y",
        0, kernel);
}

TEST(whole_numbers)
{
    static const char *const text[] = {
        "input x: i8[5, 21, 39] y[c,i,j]: i32 = sum[a,b] x[c,i+a,j+b] "
        "for i in 0..19, j in 0..37, a in 0..3, b in 0..3 output y",
        "input x: i32[21, 39] y[i,j] = max[a,b] x[i+a,j+b] "
        "for i in 0..18, j in 0..37, a in 1..4, b in 0..3 output y",
        "input x: i8[70] input w: i8[5] y[i]: i32 = sum[a] x[i+a] * w[a] "
        "for i in 0..66 output y",
        "input x: i8[9, 70] y[i,j]: i8 = sum[a] x[i+a,j] "
        "for i in 0..6, a in 0..4 output y",
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        try(text[i], 1, kernel);
    try("input x: i32[200] input w: i32[5] "
        "y[i] = relu(sum[a] x[i+a] * w[a]) for i in 0..196 output y",
        1, "a vector kernel, where values fit 32 bits");
}

TEST(filters)
{
    static const char *const text[] = {
        // One filter per channel, with channels first and last.
        "input x: f32[6, 34, 37] input w: f32[6, 3, 5] y[c,i,j] = "
        "sum[a,b] x[c,i+a,j+b] * w[c,a,b] for i in 0..32, j in 0..33 output y",
        "input x: f32[34, 37, 19] input w: f32[3, 5, 19] y[i,j,c] = "
        "sum[a,b] x[i+a,j+b,c] * w[a,b,c] for i in 0..32, j in 0..33 output y",
        // One dim; reversed; dilated; far apart; a single tap.
        "input x: f32[1000] input w: f32[32] y[i] = sum[a] x[i+a] * w[a] "
        "for i in 0..969 output y",
        "input x: f32[1000] input w: f32[32] input b: f32[969] input s: f32 "
        "y[i] = tanh(b[i] + s[] * (sum[a] x[i+a] * w[a])) - b[i] "
        "for i in 0..969 output y",
        "input x: f32[1000] input w: f32[7] y[i] = sum[a] x[i+a] * w[6-a] "
        "for i in 0..994, a in 0..7 output y",
        "input x: f64[1000] input w: f64[7] y[i] = sum[a] x[i+3*a] * w[a] "
        "for i in 0..982 output y",
        "input x: f32[9, 9, 40] input w: f32[3, 3] y[i,j,k] = "
        "sum[a,b] x[3*a+i,b+j,k] * w[a,b] for i in 0..3, j in 0..7 output y",
        "input x: f32[100] input w: f32[1] y[i] = sum[a] x[i+a] * w[a] "
        "for i in 0..100 output y",
        // The largest possible number of taps, one more, and many;
        // two-dimensional windows.
        "input x: f32[1000] input w: f32[64] y[i] = sum[a] x[i+a] * w[a] "
        "for i in 0..937 output y",
        "input x: f32[1000] input w: f32[65] y[i] = sum[a] x[i+a] * w[a] "
        "for i in 0..936 output y",
        "input x: f32[3, 900] input w: f32[300] y[r,i] = "
        "sum[a] x[r,i+a] * w[a] for i in 0..601 output y",
        "input x: f32[40, 41] input w: f32[11, 11] y[i,j] = "
        "sum[a,b] x[i+a,j+b] * w[a,b] for i in 0..30, j in 0..31 output y",
        "input x: f32[5, 20, 41] input w: f32[5, 7, 7] y[c,i,j] = "
        "sum[a,b] x[c,i+a,j+b] * w[c,a,b] for i in 0..14, j in 0..35 output y",
        "input x: f64[700] y[l] = sum[i] x[i] * x[i+l] "
        "for l in 0..100, i in 0..600 output y",
        // Windows that do not begin at 0.
        "input x: f32[90] input w: f32[9] y[i] = sum[a] x[i+a] * w[a] "
        "for i in 0..80, a in 3..8 output y",
        "input x: f32[30, 90] y[i,j] = mean[a,b] x[i+a-2,j+b-1] "
        "for i in 0..20, j in 0..80, a in 2..5, b in 1..3 output y",
        // Epilogues, also with other operands.
        "input x: f32[100] input w: f32[5] input b: f32[96] y[i] = "
        "relu(b[i] + sum[a] x[i+a] * w[a]) for i in 0..96 output y",
        "input x: f32[100] y[i] = 0.5 * x[i+2] - 0.1 * (mean[a] x[i+a]) "
        "for i in 0..96, a in 0..5 output y",
        "input x: f32[100] input m: f32[96] y[i] = "
        "sqrt(sum[a] (x[i+a] - m[i]) * (x[i+a] - m[i])) "
        "for i in 0..96, a in 0..5 output y",
        "input x: f32[20, 60] y[i,j] = sum[a] exp(x[i+a,j]) / 3 "
        "for i in 0..18, a in 0..3 output y",
        // Windows without overlap, of a whole dim, of one point.
        "input x: f32[8, 5, 70] y[i,j] = sum[k] x[i,k,j] output y",
        "input x: f32[4, 70] input s: f32[4] y[j] = sum[k] s[k] * x[k,j] "
        "output y",
        "input x: f32[1, 70] y[j] = sum[k] x[k,j] output y",
        // Many small products at once.
        "input a: f32[3, 4, 70] input b: f32[4, 5, 70] y[i,j,z] = "
        "sum[k] a[i,k,z] * b[k,j,z] output y",
        "input a: f64[8, 9, 16] input b: f64[9, 8, 16] y[i,j,z] = "
        "sum[k] a[i,k,z] * b[k,j,z] output y",
        "input a: f16[3, 100, 50] input b: f16[100, 3, 50] y[j,i,z]: f32 = "
        "sum[k] a[i,k,z] * b[k,j,z] output y",
        // Mixed types.
        "input x: bf16[20, 70] input w: f32[3] y[i,j]: f32 = "
        "sum[a] x[i+a,j] * w[a] for i in 0..18 output y",
        "input x: f16[100] input w: f16[5] y[i] = sum[a] x[i+a] * w[a] "
        "for i in 0..96 output y",
        "input x: f32[100] input w: f64[5] y[i]: f32 = sum[a] x[i+a] * w[a] "
        "for i in 0..96 output y",
        // G6: an update reads the old values.
        "input x: f32[100] y[i] = x[i] for i in 0..96 "
        "repeat 3 { y[i] <- y[i] + sum[a] x[i+a] for i in 0..96, a in 0..5 } "
        "output y",
        "input x: f32[100] repeat 3 { "
        "x[i] <- mean[a] x[i+a-2] for i in 2..98, a in 0..5 } output x",
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        try(text[i], 0, kernel);
}

// Not windows: both factors serve many results, or there are too many points,
// or no neighbours. These run otherwise.
TEST(others)
{
    try("input x: f32[4, 30, 30] input w: f32[9, 4, 3, 3] y[o,i,j] = "
        "sum[c,a,b] x[c,i+a,j+b] * w[o,c,a,b] for i in 0..28, j in 0..28 "
        "output y",
        0, "a contraction");
    try("input x: f32[100, 70] input w: f32[70] y[i] = sum[a] x[i,a] * w[a] "
        "output y",
        0, "a contraction");
    try("input a: f32[9, 4, 70] input b: f32[4, 5, 70] y[i,j,z] = "
        "sum[k] a[i,k,z] * b[k,j,z] output y",
        0, "a contraction");
    try("input x: f32[50, 16] y[i] = sum[k] x[i,k] output y", 0, kernel);
    try("input x: f32[40, 40] y[i,j] = max[a,b] x[2*i+a,2*j+b] "
        "for i in 0..20, j in 0..20, a in 0..2, b in 0..2 output y",
        1, kernel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reducers), cmocka_unit_test(by_two),
        cmocka_unit_test(whole_numbers), cmocka_unit_test(filters),
        cmocka_unit_test(others)};
    return run_group(tests, NULL, NULL);
}
