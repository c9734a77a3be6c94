// The thread executor: the same bits for any number of threads (N8), partial
// sums, updates, repeats, and errors that one of several threads finds.
#define _POSIX_C_SOURCE 200809L // fork
#include "jit/gemm/gemm.h"
#include "contract/contract.h"
#include "exec/exec.h"
#include <sys/wait.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#include "harness/test.h"
#include "harness/unit.h"

static const char *const programs[] = {
    // Ops that share tiles, with temporaries that exist only in tiles.
    "input x: f32[67, 129]\nm[i] = max[j] x[i,j]\n"
    "e[i,j] = exp(x[i,j] - m[i])\ns[i] = sum[j] e[i,j]\n"
    "y[i,j] = e[i,j] / s[i]\noutput y\n",
    // The same along columns: the temporaries of tiles have other strides.
    "input x: f16[67, 131]\nm[j] = max[i] x[i,j]\n"
    "e[i,j] = exp(x[i,j] - m[j])\ns[j] = sum[i] e[i,j]\n"
    "y[i,j] = e[i,j] / s[j]\noutput y\n",
    // A sum whose rows are adjacent only in the temporary of a tile.
    "input x: f32[12, 5, 37]\nt[i,b,j] = x[i,b,j] * 0.3\n"
    "y[b] = sum[i,j] exp(t[i,b,j])\noutput y\n",
    // Products of odd sizes with epilogues.
    "input a: f32[33, 65]\ninput b: f32[65, 47]\n"
    "c[m,n] = relu(sum[k] a[m,k] * b[k,n])\nd[m,n] = c[m,n] * 2.0\n"
    "output c, d\n",
    // Updates that read their neighbours, in a repeat (G6).
    "input u: f64[40, 30]\nrepeat 5 {\n"
    "u[i,j] <- 0.25 * (u[i-1,j] + u[i+1,j] + u[i,j-1] + u[i,j+1])"
    "  for i in 1..39, j in 1..29\nv[i] = max[j] u[i,j]\n}\noutput u, v\n",
    // A gather, integers, a scalar.
    "input t: f32[50]\ninput k: i32[20]\ninput n: i32[20]\n"
    "y[i] = t[k[i]] * 3.0\nz[i] = n[i] * n[i] - k[i]\nr[] = 2.0\n"
    "output y, z, r\n",
};

TEST(any_number_gives_the_same_bits)
{
    static const int counts[] = {2, 3, 4, 7, 16};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        job one;
        start_and_run(&one, programs[i], 1);
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            job many;
            start_and_run(&many, programs[i], counts[k]);
            same(&one, &many);
            job_stop(&many);
        }
        job_stop(&one);
    }
}

// A bias that a kernel adds to its sums gives the same bits as one added by a
// statement of its own: for rows, for columns, with blocks of k, for one row,
// for narrow factors and narrow results; and for vectors that cannot be a
// kernel's bias.
TEST(a_bias_is_added_last)
{
    static const struct {
        const char *type, *a, *b, *v, *sum, *bias;
    } cases[] = {
        {"f32", "f32[33, 65]", "f32[65, 47]", "f32[47]", "a[m,k] * b[k,n]",
         "v[n]"},
        {"f32", "f32[33, 65]", "f32[65, 47]", "f32[33]", "a[m,k] * b[k,n]",
         "v[m]"},
        {"f32", "f32[133, 1500]", "f32[1500, 147]", "f32[200]",
         "a[m,k] * b[k,n]", "v[n + 53]"},
        {"f64", "f64[700, 33]", "f64[47, 700]", "f64[33]", "a[k,m] * b[n,k]",
         "v[m]"},
        {"f32", "f32[1, 500]", "f32[500, 90]", "f32[90]", "a[m,k] * b[k,n]",
         "v[n]"},
        {"f32", "bf16[70, 300]", "bf16[300, 90]", "f32[90]", "a[m,k] * b[k,n]",
         "v[n]"},
        {"f32", "f16[70, 300]", "f16[90, 300]", "f32[70]", "a[m,k] * b[n,k]",
         "v[m]"},
        {"bf16", "bf16[70, 300]", "bf16[300, 90]", "f32[70]", "a[m,k] * b[k,n]",
         "v[m]"},
        {"f16", "bf16[70, 3000]", "bf16[90, 3000]", "f32[90]",
         "a[m,k] * b[n,k]", "v[n]"},
        {"f32", "f32[33, 65]", "f32[65, 47]", "f32[47, 33]", "a[m,k] * b[k,n]",
         "v[n,m]"},
        {"f32", "f32[33, 65]", "f32[65, 47]", "f32[94]", "a[m,k] * b[k,n]",
         "v[2 * n]"},
    };
    for (size_t i = 0; i < 3 * sizeof cases / sizeof *cases; i++) {
        int c = (int)i / 3, relu = i % 3 != 1, first = i % 3 != 0;
        const char *f = relu ? "relu" : "", *v = cases[c].bias;
        char in[200], sum[100], text[2][500];
        snprintf(in, sizeof in, "input a: %s\ninput b: %s\ninput v: %s\n",
                 cases[c].a, cases[c].b, cases[c].v);
        snprintf(sum, sizeof sum, "(sum[k] %s)", cases[c].sum);
        snprintf(text[0], sizeof *text,
                 "%sy[m,n]: %s = %s(%s + %s)\noutput y\n", in, cases[c].type, f,
                 first ? v : sum, first ? sum : v);
        snprintf(text[1], sizeof *text,
                 "%sc[m,n]: %s = %s\ny[m,n]: %s = %s(c[m,n] + %s)\n"
                 "output c, y\n",
                 in, strcmp(cases[c].type, "f64") ? "f32" : "f64", sum,
                 cases[c].type, f, v);
        for (int threads = 1; threads < 4; threads++)
            same_y(text[0], text[1], threads);
    }
}

// Narrow results are rounded once, when the sums are finished; k is longer than
// one block.
TEST(results_are_rounded_once)
{
    static const char *const types[] = {"bf16", "f16", "f32"};
    for (int i = 0; i < 3 * 3 * 2; i++) {
        const char *from = types[i % 3], *to = types[i / 3 % 3];
        const char *f = i / 9 ? "relu" : "";
        char in[100], text[2][300];
        snprintf(in, sizeof in,
                 "input a: %s[57, 2100]\ninput b: %s[2100, 83]\n", from, from);
        snprintf(text[0], sizeof *text,
                 "%sy[m,n]: %s = %s(sum[k] a[m,k] * b[k,n])\noutput y\n", in,
                 to, f);
        snprintf(text[1], sizeof *text,
                 "%sc[m,n]: f32 = sum[k] a[m,k] * b[k,n]\n"
                 "y[m,n]: %s = %s(c[m,n])\noutput c, y\n",
                 in, to, f);
        for (int threads = 1; threads < 4; threads++)
            same_y(text[0], text[1], threads);
    }
}

// N8: tiles that threads take from queues give the same bits as dealt tiles,
// whichever thread takes which. Repeats fill the queues again.
TEST(handed_out_tiles_give_the_same_bits)
{
    static const char *const policies[] = {"ticket", "steal(2)", "dynamic"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (size_t k = 0; k < 3; k++) {
            job dealt, queued;
            start_and_run(&dealt, programs[i], 4);
            dv_plan_options o = DV_PLAN_OPTIONS_INIT;
            o.threads = 4;
            o.policy = policies[k];
            start_on(&queued, "host", programs[i], &o, DV_RUN_THREADS);
            must(job_run(&queued));
            same(&dealt, &queued);
            job_stop(&dealt);
            job_stop(&queued);
        }
}

// G5: a sum that is divided among threads: two runs give the same bits, within
// the oracle's bounds.
TEST(parts_are_combined_in_order)
{
    static const char text[] = "input x: f32[100000]\n"
                               "s[] = sum[i] x[i] * x[i]\n"
                               "m[] = max[i] x[i]\nq[] = mean[i] abs(x[i])\n"
                               "output s, m, q\n";
    for (int64_t threads = 2; threads < 9; threads += 3) {
        job a, b;
        start(&a, text, threads, DV_RUN_THREADS);
        start(&b, text, threads, DV_RUN_THREADS);
        assert_true(a.plan->slices[0][0] < 100000); // it is in parts
        must(job_run(&a));
        for (int k = 0; k < 20; k++) {
            must(job_run(&b));
            same(&a, &b);
        }
        must(job_right(&a, a.program));
        job_stop(&a);
        job_stop(&b);
    }
}

TEST(an_error_of_one_thread_is_the_runs)
{
    static const char text[] =
        "input t: f32[50]\ninput k: i32[1000]\ny[i] = t[k[i]]\n"
        "repeat 3 {\ny[i] <- y[i] + 1.0\n}\noutput y\n";
    job j;
    start(&j, text, 4, DV_RUN_THREADS);
    int32_t k = dv_program_find(j.plan->ops, "k");
    ((int32_t *)j.data[k])[900] = 50;
    assert_int_equal(dv_exec_run(j.x, j.diag), DV_E_BOUNDS);
    assert_non_null(strstr(dv_diag_text(j.diag), "an index found 50"));
    // The next run starts without the error.
    ((int32_t *)j.data[k])[900] = 49;
    dv_diag *diag = dv_diag_create();
    assert_int_equal(dv_exec_run(j.x, diag), DV_OK);
    assert_int_equal(dv_diag_status(diag), DV_OK);
    dv_diag_destroy(diag);
    job_stop(&j);
}

// Every thread finds an error; a later run reports its own error, not one of
// those.
TEST(errors_are_not_kept)
{
    static const char text[] =
        "input t: f32[50]\ninput k: i32[4000]\ny[i] = t[k[i]]\noutput y\n";
    job j;
    start(&j, text, 4, DV_RUN_THREADS);
    int32_t *k = j.data[dv_program_find(j.plan->ops, "k")];
    for (int i = 0; i < 4000; i += 4000 / 4)
        k[i] = 70;
    for (int turn = 0; turn < 8; turn++) // how many threads find one is chance
        assert_int_equal(dv_exec_run(j.x, NULL), DV_E_BOUNDS);
    for (int at = 0; at < 4; at++) {
        for (int i = 0; i < 4; i++)
            k[i * 1000] = i == at ? 60 + i : 0;
        dv_diag *diag = dv_diag_create();
        char want[40];
        snprintf(want, sizeof want, "an index found %d", 60 + at);
        assert_int_equal(dv_exec_run(j.x, diag), DV_E_BOUNDS);
        assert_non_null(strstr(dv_diag_text(diag), want));
        dv_diag_destroy(diag);
    }
    job_stop(&j);
}

// OpenMP may give fewer threads than the plan has cores: a thread then does the
// work of several, with the kernels of their tiles.
TEST(fewer_threads_than_cores)
{
#ifdef _OPENMP
    static const char text[] =
        "input a: f32[131, 131]\ninput b: f32[131, 131]\n"
        "c[m,n] = sum[k] a[m,k] * b[k,n]\nd[m,n] = exp(c[m,n])\n"
        "s[] = sum[m,n] c[m,n]\noutput c, d, s\n";
    int levels = omp_get_max_active_levels();
    for (int64_t threads = 2; threads < 8; threads++) {
        job all, one;
        start(&all, text, threads, DV_RUN_THREADS);
        start(&one, text, threads, DV_RUN_THREADS);
        must(job_run(&all));
        omp_set_max_active_levels(0);
        must(job_run(&one));
        omp_set_max_active_levels(levels);
        same(&all, &one);
        job_stop(&all);
        job_stop(&one);
    }
#else
    skip_test("built without OpenMP");
#endif
}

// A child process has its parent's exec, but not its threads.
TEST(a_child_runs_alone)
{
#if defined(__SANITIZE_THREAD__)
    skip_test("a forked child may not start threads here");
#endif
    job j;
    start_and_run(&j, programs[0], 3);
    int32_t y = dv_program_find(j.plan->ops, "y");
    size_t bytes = (size_t)dv_tensor_bytes(&j.plan->ops->tensors[y]);
    void *want = malloc(bytes);
    memcpy(want, j.data[y], bytes);
    memset(j.data[y], 0, bytes);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60); // in case it hangs
        int ok = dv_exec_run(j.x, j.diag) == DV_OK &&
                 !memcmp(want, j.data[y], bytes);
        _exit(ok ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    free(want);
    job_stop(&j);
}

// Products and measurements that have threads of their own: a child process
// runs them alone, with the same bits.
TEST(a_child_multiplies_alone)
{
#if defined(__SANITIZE_THREAD__)
    skip_test("a forked child may not start threads here");
#endif
    enum { N = 96, K = 40 };
    static float a[N * K], b[K * N], want[N * N], got[N * N];
    dv_nest n = {.name = "c", .dtype = DV_F32, .first = DV_PRIM_ZERO};
    n.main = DV_PRIM_GEMM;
    n.n_dims = 3;
    n.dims[0] = (dv_nest_dim){DV_NEST_N, DV_NEST_SEQ, N, {0, K, N}, 0, 0, 0, 0};
    n.dims[1] = (dv_nest_dim){DV_NEST_M, DV_NEST_SEQ, N, {1, 0, 1}, 0, 0, 0, 0};
    n.dims[2] = (dv_nest_dim){DV_NEST_K, DV_NEST_SEQ, K, {N, 1, 0}, 0, 0, 0, 0};
    dv_jit *jit = dv_jit_shared();
    if (!jit)
        skip_test("no kernels for this machine");
    dv_contract_options o = {.size = sizeof(dv_contract_options), .threads = 3};
    dv_contract *c = NULL;
    for (int i = 0; i < N * K; i++) {
        a[i] = (float)(i * 7 % 23) * 0.3f;
        b[i] = (float)(i * 5 % 19) * 0.7f;
    }
    assert_int_equal(dv_contract_create(&c, jit, &n, &o, NULL), DV_OK);
    assert_int_equal(dv_contract_run(c, b, a, NULL, want, NULL), DV_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60); // in case it hangs
        int ok = dv_contract_run(c, b, a, NULL, got, NULL) == DV_OK &&
                 !memcmp(want, got, sizeof want) && dv_rate_copy(4096, 2) > 0 &&
                 dv_rate_peak(DV_F32, 2) > 0;
        _exit(ok ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    dv_contract_destroy(c);
}

TEST(odd_counts_are_refused)
{
    static const char text[] = "input x: f32[4]\ny[i] = x[i]\noutput y\n";
    dv_program *p = program_of(text);
    dv_target *host = target_of("host"), *spyre = target_of("spyre");
    dv_plan *plan = NULL;
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.threads = -1;
    assert_int_equal(dv_plan_create(&plan, p, host, &o, NULL), DV_E_USAGE);
    o.threads = 5000;
    assert_int_equal(dv_plan_create(&plan, p, host, &o, NULL), DV_E_USAGE);
    o.threads = 2;
    assert_int_equal(dv_plan_create(&plan, p, spyre, &o, NULL), DV_E_USAGE);
    o.cores = 1;
    assert_int_equal(dv_plan_create(&plan, p, host, &o, NULL), DV_E_USAGE);
    dv_target_destroy(host);
    dv_target_destroy(spyre);
    dv_program_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_gives_the_same_bits),
        cmocka_unit_test(a_bias_is_added_last),
        cmocka_unit_test(results_are_rounded_once),
        cmocka_unit_test(handed_out_tiles_give_the_same_bits),
        cmocka_unit_test(parts_are_combined_in_order),
        cmocka_unit_test(an_error_of_one_thread_is_the_runs),
        cmocka_unit_test(errors_are_not_kept),
        cmocka_unit_test(fewer_threads_than_cores),
        cmocka_unit_test(a_child_runs_alone),
        cmocka_unit_test(a_child_multiplies_alone),
        cmocka_unit_test(odd_counts_are_refused),
    };
    return run_group(tests, NULL, NULL);
}
