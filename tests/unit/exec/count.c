// Repeats that count: statements whose indirect indices are the same at all
// points run with the kernels of direct accesses, with the oracle's results;
// an index that leaves its tensor in a run is an error.
#include "harness/test.h"
#include "harness/unit.h"
#include "jit/backend.h"

// Fails unless the program has an op that runs so.
static void has(job *j, const char *how)
{
    dv_text s = {0};
    dv_exec_schedules(j->x, &s);
    if (dv_isa_host() && !strstr(s.at, how))
        fail_msg("nothing runs as %s:\n%s", how, s.at);
    dv_text_free(&s);
}

static void try(const char *text, int exact, const char *how)
{
    for (int64_t threads = 1; threads <= 3; threads++) {
        job j;
        start(&j, text, threads, DV_RUN_THREADS);
        has(&j, how);
        is_right(&j, exact);
        is_right(&j, exact); // a second run
        job_stop(&j);
    }
    same_for_all(text);
}

TEST(products)
{
    static const char how[] = "a contraction, where indices are in range";
    try("input w: f32[5, 64, 64] input x: f32[48, 64] repeat l in 0..5 {"
        " y[i,j] = sum[k] x[i,k] * w[l,j,k] x[i,j] <- 0.01 * y[i,j] }"
        " output x",
        0, how);
    // The write, a factor that is read backwards, and a bias.
    try("input w: f32[5, 48, 64] input b: f32[9, 48] input x: f32[33, 64]"
        " temp y: f32[7, 33, 48] y[l,i,j] = 0 repeat l in 0..5 {"
        " y[l+2,i,j] <- relu((sum[k] x[i,k] * w[4-l,j,k]) + b[2*l,j]) }"
        " output y",
        0, how);
    try("input w: i32[5, 48, 64] input x: i32[33, 64] input p: i32[1]"
        " y[i,j] = sum[k] x[i,k] * w[p[0],j,k] output y",
        1, how);
}

TEST(statements)
{
    static const char how[] = "a vector kernel, where indices are in range";
    try("input x: f32[40, 65] repeat t in 1..40 {"
        " x[t,i] <- 0.5 * x[t-1,i] + x[t,i] } output x",
        0, how);
    // The elements that are read and written overlap.
    try("input x: f32[40, 65] repeat t in 1..30 {"
        " x[t+j,i] <- 0.5 * x[t+j-1,i] + t for j in 0..10 } output x",
        0, how);
    // A gather beside a counter; sums of a read with a variable.
    try("input x: f32[9, 40, 65] input p: i32[33] input y: f32[33, 65]"
        " repeat t in 0..9 { y[i,j] <- y[i,j] + x[t,p[i],j] } output y",
        0, how);
    try("input x: f32[40, 65] input p: i32[4]"
        " y[i,j,k] = x[2*p[i]+j,k] for j in 0..16 output y",
        1, how);
}

// A constant is not packed once if every pass reads another part of it.
TEST(constants)
{
    try("const w: f32[5, 64, 64] input x: f32[48, 64] repeat l in 0..5 {"
        " y[i,j] = sum[k] x[i,k] * w[l,j,k] x[i,j] <- 0.01 * y[i,j] }"
        " output x",
        0, "a contraction, where indices are in range");
}

// Scalars that grow by 2 are no counters: their values are known only in a run.
TEST(out_of_range)
{
    static const char *const text[] = {
        ("input w: f32[5, 64, 64] input x: f32[48, 64] l[]: i64 = 1 repeat 3 {"
         " x[i,j] <- 0.01 * (sum[k] w[l[],i,k] * w[l[],j,k]) for i in 0..48"
         " l[] <- l[] + 2 } output x"),
        ("input x: f32[40, 65] t[]: i64 = 0 repeat 20 {"
         " x[t[],i] <- 0.5 * x[t[]-1,i] t[] <- t[] + 2 } output x"),
        ("input x: f32[40, 65] t[]: i64 = 38 repeat 2 {"
         " x[t[],i] <- 1.0 t[] <- t[] + 2 } output x"),
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        job j;
        start(&j, text[i], 2, DV_RUN_THREADS);
        assert_int_equal(dv_exec_run(j.x, j.diag), DV_E_BOUNDS);
        job_stop(&j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products), cmocka_unit_test(statements),
        cmocka_unit_test(constants), cmocka_unit_test(out_of_range)};
    return run_group(tests, NULL, NULL);
}
