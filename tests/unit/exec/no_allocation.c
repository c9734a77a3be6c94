// A run allocates nothing, on one thread and on several, pinned or not. The
// first run with a number of threads is exempt, because OpenMP creates its
// threads then.
//
// Every allocation of the process is counted, by functions that replace those
// of the C library. Sanitizers replace them, too, so that the test is skipped
// there.
#include "harness/test.h"
#include "divvy/divvy.h"
#include <stdatomic.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

#if defined(__GLIBC__) && !defined(SANITIZED)
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *p, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

static _Atomic long n_allocated;
#define FOR_ALL                                                                \
    __attribute__((visibility("default"))) // also for calls from libraries

FOR_ALL void *malloc(size_t bytes)
{
    n_allocated++;
    return __libc_malloc(bytes);
}

FOR_ALL void *calloc(size_t n, size_t bytes)
{
    n_allocated++;
    return __libc_calloc(n, bytes);
}

FOR_ALL void *realloc(void *p, size_t bytes)
{
    n_allocated++;
    return __libc_realloc(p, bytes);
}

FOR_ALL void *aligned_alloc(size_t align, size_t bytes)
{
    n_allocated++;
    return __libc_memalign(align, bytes);
}

// A product with an epilogue, rows with reductions, and a repeat.
static const char text[] = "param N = 512\n"
                           "input a: f32[N, N]\n"
                           "input b: f32[N, N]\n"
                           "input u: f32[N, N]\n"
                           "c[m,n] = relu(sum[k] a[m,k] * b[k,n])\n"
                           "t[i] = max[j] c[i,j]\n"
                           "e[i,j] = exp(c[i,j] - t[i])\n"
                           "repeat 2 {\n"
                           "    u[i,j] <- u[i,j] * 0.5 + e[i,j]\n"
                           "}\n"
                           "output u\n";

static void run_with(int64_t threads)
{
    static float data[3][512][512];
    static const char *const names[3] = {"a", "b", "u"};
    dv_diag *diag = dv_diag_create();
    dv_program *p = NULL;
    dv_target *t = NULL;
    dv_plan *plan = NULL;
    dv_exec *x = NULL;
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.threads = threads;
    if (dv_program_parse(&p, text, sizeof text - 1, "t", NULL, 0, diag) ||
        dv_target_load(&t, "host", diag) ||
        dv_plan_create(&plan, p, t, &o, diag) || dv_exec_create(&x, plan, diag))
        fail_msg("%s", dv_diag_text(diag));
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            dv_exec_bind(x, names[i], data[i], sizeof data[i], diag), DV_OK);
    for (int run = 0; run < 3; run++) {
        long before = n_allocated;
        assert_int_equal(dv_exec_run(x, diag), DV_OK);
        if (run > 0 && n_allocated != before)
            fail_msg("%ld allocations in run %d of %d threads",
                     n_allocated - before, run, (int)threads);
    }
    dv_exec_destroy(x);
    dv_plan_destroy(plan);
    dv_target_destroy(t);
    dv_program_destroy(p);
    dv_diag_destroy(diag);
}

TEST(runs_allocate_nothing)
{
    long before = n_allocated;
    void *volatile some = malloc(10); // the compiler may not remove it
    free(some);
    assert_true(n_allocated > before); // allocations are counted
    for (int64_t threads = 1; threads <= 4; threads++)
        run_with(threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_allocate_nothing),
    };
    return run_group(tests, NULL, NULL);
}
#else
int main(void)
{
    puts("skipped: allocations are the sanitizer's, or another C library's");
    return 77;
}
#endif
