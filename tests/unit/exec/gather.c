// Reads through indices (gathers): kernels compute the rows, with the oracle's
// bits where nothing is rounded, for all types of tables and indices; an index
// that is out of range is an error (P1).
#include "harness/test.h"
#include "harness/unit.h"

static void try(const char *text, int exact, const char *how)
{
    for (int64_t threads = 1; threads <= 4; threads++) {
        job j;
        start(&j, text, threads, DV_RUN_THREADS);
        goes(&j, how);
        is_right(&j, exact);
        is_right(&j, exact); // a second run
        job_stop(&j);
    }
    same_for_all(text);
}

static const char kernel[] = "a vector kernel, where indices are in range";

TEST(types)
{
    static const char *const tables[] = {"f64",  "f32", "f16",
                                         "bf16", "i32", "i8"};
    static const char *const indices[] = {"i64", "i32", "i8"};
    char text[200];
    for (int i = 0; i < 18; i++) {
        snprintf(text, sizeof text,
                 "input t: %s[70, 45]\ninput p: %s[33]\n"
                 "y[i,j] = t[p[i],j]\noutput y\n",
                 tables[i % 6], indices[i / 6]);
        try(text, 1, kernel);
    }
}

TEST(forms)
{
    static const char *const exact[] = {
        // An index in the last of two dims, in two of three, in one of four.
        "input t: f32[37, 70] input p: i32[41] y[i,j] = t[j,p[i]] output y",
        "input t: f32[9, 7, 37] input p: i32[41] input q: i64[41]"
        " y[i,j] = t[p[i],q[i],j] output y",
        "input t: f32[5, 9, 7, 12] input p: i32[6]"
        " y[b,i,j,k] = t[j,p[b],i,k] output y",
        // Indices that depend on two variables, that are every second element,
        // or that are reversed.
        "input t: f32[19, 65] input p: i8[11, 3]"
        " y[i,l,j] = t[p[i,l],j] output y",
        "input t: f32[19, 65] input p: i32[30]"
        " y[i,j] = t[p[2*i+1],j] for i in 0..15 output y",
        "input t: f32[19, 65] input p: i32[30]"
        " y[i,j] = t[p[29-i],64-j] for i in 0..30, j in 0..65 output y",
        // One index for all rows.
        "input t: f32[19, 8, 65] input p: i32[1]"
        " y[i,j] = t[p[0],i,j] output y",
        // An index that is also used as a value.
        "input t: f32[19, 65] input p: i32[30]"
        " y[i,j]: f64 = t[p[i],j] + p[i] output y",
        // Updates that read their own tensor through an index.
        "input t: f32[30, 65] input p: i32[30]"
        " t[i,j] <- t[p[i],j] for i in 0..30, j in 0..65 output t",
        "input t: f32[30, 65] input p: i32[30]"
        " repeat 3 { t[i,j] <- max(t[p[i],j], t[i,j]) } output t",
        "input t: i32[30, 65] input p: i32[30]"
        " y[i,j] = t[p[i],j] * t[i,j] output y",
    };
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        try(exact[i], 1, kernel);
    static const char *const rounded[] = {
        "input t: f32[40, 65] input u: f32[9, 65] input p: i32[33]"
        " input q: i64[33] input s: f32[33]"
        " y[i,j] = gelu(t[p[i],j] * s[i] + u[q[i],j]) output y",
        "input t: f32[40, 65] input p: i32[33] input s: f32[33]"
        " y[i,j] = t[p[i],j] / s[i] output y",
        // Sums of gathered rows (embedding bags), and of parts of rows.
        "input t: f32[40, 65] input p: i32[33, 6]"
        " y[i,j] = sum[l] t[p[i,l],j] output y",
        "input t: f16[40, 65] input p: i32[33, 6] input w: f32[33, 6]"
        " y[i,j]: f32 = sum[l] t[p[i,l],j] * w[i,l] output y",
        "input t: f32[40, 65] input p: i32[33] y[i] = mean[j] t[p[i],j]"
        " output y",
        "input t: f32[40, 5, 65] input p: i32[33]"
        " y[i] = sum[k,j] t[p[i],k,j] output y",
        "input t: f32[40, 5, 65] input p: i32[33, 4]"
        " y[i,k] = sum[l,j] t[p[i,l],k,j] output y",
    };
    for (size_t i = 0; i < sizeof rounded / sizeof *rounded; i++)
        try(rounded[i], 0, kernel);
}

// Single elements; indices of indices; integers that may not fit 32 bits: these
// have no kernel.
TEST(others)
{
    static const char *const text[] = {
        "input t: f32[40] input p: i32[33] y[i] = t[p[i]] output y",
        "input t: f32[40, 9] input p: i32[33] input q: i32[50]"
        " y[i,j] = t[p[q[i]],j] output y",
        "input t: i32[40, 9] input p: i32[33]"
        " y[i,j] = relu(t[p[i],j] * t[p[i],j]) output y",
        "input t: i64[40, 9] input p: i32[33] y[i,j] = t[p[i],j] output y",
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        try(text[i], 1, "in strips, no kernel");
}

TEST(out_of_range)
{
    static const int64_t bad[] = {70, -1, INT64_MAX, INT64_MIN, INT32_MAX};
    static const char text[] = "input t: f32[70, 45] input p: i64[33]"
                               " y[i,j] = t[p[i],j] output y";
    char want[80];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int64_t threads = 1; threads <= 4; threads++) {
            job j;
            start(&j, text, threads, DV_RUN_THREADS);
            int64_t *p = j.data[dv_program_find(j.plan->ops, "p")];
            int64_t was = p[20];
            p[20] = bad[i];
            assert_int_equal(dv_exec_run(j.x, j.diag), DV_E_BOUNDS);
            snprintf(want, sizeof want, "an index found %lld,",
                     (long long)bad[i]);
            assert_non_null(strstr(dv_diag_text(j.diag), want));
            p[20] = was;
            is_right(&j, 1);
            job_stop(&j);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types), cmocka_unit_test(forms),
        cmocka_unit_test(others), cmocka_unit_test(out_of_range)};
    return run_group(tests, NULL, NULL);
}
