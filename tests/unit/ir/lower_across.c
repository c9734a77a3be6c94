// Reducers over pairs of rows: lowering transposes the operand that lies across
// the results once, and the results are right.
#include "harness/test.h"
#include "harness/unit.h"

static void try(const char *text, int n_ops, int exact)
{
    job j;
    start(&j, text, 1, DV_RUN_THREADS);
    if (j.plan->ops->n_ops != n_ops)
        fail_msg("%d ops, not %d:\n%s", (int)j.plan->ops->n_ops, n_ops, text);
    job_stop(&j);
    runs_right(text, 2, exact, "a vector kernel");
}

TEST(turned)
{
    static const char *const text[] = {
        "input x: f32[20, 16] input y: f32[33, 16] d[i,j] = "
        "sum[k] (x[i,k] - y[j,k]) * (x[i,k] - y[j,k]) output d",
        "input x: f64[20, 7] input y: f64[33, 7] d[i,j] = "
        "exp(-(mean[k] abs(x[i,k] - y[j,k]))) output d",
        "input x: f16[20, 16] input y: f16[33, 16] d[i,j]: f32 = "
        "sum[k] abs(x[i,k] - y[j,k]) output d",
        "input x: bf16[20, 16] input y: bf16[33, 16] d[i,j] = "
        "prod[k] (1.5 - x[i,k] * y[j,k]) output d",
        // The same tensor twice; batches; weights; reversed.
        "input x: f32[40, 9] d[i,j] = sum[k] abs(x[i,k] - x[j,k]) output d",
        "input x: f32[3, 20, 9] input y: f32[3, 30, 9] d[b,i,j] = "
        "sum[k] abs(x[b,i,k] - y[b,j,k]) output d",
        "input x: f32[20, 9] input y: f32[33, 9] input w: f32[9] d[i,j] = "
        "sqrt(sum[k] w[k] * (x[i,k] - y[j,k]) * (x[i,k] - y[j,k])) output d",
        "input x: f32[20, 9] input y: f32[33, 9] d[i,j] = "
        "sum[k] abs(x[i,k] - y[32-j,8-k]) for j in 0..33 output d",
        "input x: f32[20, 9] input y: f32[33, 9] d[i,j] = "
        "sum[k] abs(x[i,k] - y[j,k]) for k in 2..7, j in 0..30 output d",
        "input x: f32[20, 4, 5] input y: f32[33, 4, 5] d[i,j] = "
        "sum[k,l] abs(x[i,k,l] - y[j,k,l]) output d",
        // Other operands beside the sum; an update.
        "input x: f32[20, 9] input y: f32[33, 9] input b: f32[33, 20] "
        "d[i,j] = b[j,i] + sum[k] abs(x[i,k] - y[j,k]) output d",
        "input x: f32[20, 9] input d: f32[20, 20] repeat 2 { "
        "d[i,j] <- d[i,j] + sum[k] abs(x[i,k] - x[j,k]) } output d",
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        try(text[i], 2, 0);
    try("input x: f32[20, 16] input y: f32[33, 16] d[i,j] = "
        "max[k] min(x[i,k], y[j,k]) output d",
        2, 1);
    try("input x: i32[20, 16] input y: i32[33, 16] d[i,j]: i32 = "
        "max[k] min(x[i,k], y[j,k]) output d",
        2, 1);
    // Two operands are transposed.
    try("input x: f32[20, 16] input y: f32[33, 16] input z: f32[33, 16] "
        "d[i,j] = sum[k] abs(x[i,k] - y[j,k]) * z[j,k] output d",
        3, 0);
}

TEST(left_alone)
{
    static const char *const text[] = {
        // Not transposed: long rows; few rows; rows that are read once; rows
        // that already have the right order.
        "input x: f32[20, 300] input y: f32[33, 300] d[i,j] = "
        "sum[k] abs(x[i,k] - y[j,k]) output d",
        "input x: f32[3, 9] input y: f32[33, 9] d[i,j] = "
        "sum[k] abs(x[i,k] - y[j,k]) output d",
        "input y: f32[33, 9] d[j] = sum[k] abs(y[j,k]) output d",
        "input x: f32[20, 9] input y: f32[9, 33] d[i,j] = "
        "sum[k] abs(x[i,k] - y[k,j]) output d",
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        try(text[i], 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(turned),
                                       cmocka_unit_test(left_alone)};
    return run_group(tests, NULL, NULL);
}
