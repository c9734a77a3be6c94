// The part of cmocka that the tests compiled for another instruction set use,
// where only a compiler and its C library are available. A failed check ends
// its test.
#ifndef DV_FOREIGN_CMOCKA_H
#define DV_FOREIGN_CMOCKA_H
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

enum { DV_TEST_FAILED = 1, DV_TEST_SKIPPED = 2 };
__attribute__((weak)) jmp_buf dv_test_end; // shared by all objects

#define cmocka_unit_test(f)                                                    \
    {                                                                          \
#f, f                                                                  \
    }
#define print_message(...) printf(__VA_ARGS__)
#define skip()             longjmp(dv_test_end, DV_TEST_SKIPPED)
#define fail_msg(...)                                                          \
    do {                                                                       \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                        \
        fprintf(stderr, __VA_ARGS__);                                          \
        fprintf(stderr, "\n");                                                 \
        longjmp(dv_test_end, DV_TEST_FAILED);                                  \
    } while (0)
#define assert_true(c)                                                         \
    do {                                                                       \
        if (!(c))                                                              \
            fail_msg("not so: %s", #c);                                        \
    } while (0)
#define assert_false(c)    assert_true(!(c))
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_null(p)     assert_true((p) == NULL)
#define assert_int_equal(a, b)                                                 \
    do {                                                                       \
        long long dv_a = (long long)(a), dv_b = (long long)(b);                \
        if (dv_a != dv_b)                                                      \
            fail_msg("%s is %lld, not %lld", #a, dv_a, dv_b);                  \
    } while (0)
#define assert_ptr_equal(a, b)       assert_true((const void *)(a) == (b))
#define assert_memory_equal(a, b, n) assert_true(!memcmp(a, b, n))

static int dv_run_tests(const struct CMUnitTest *tests, size_t n,
                        int (*set_up)(void **), int (*tear_down)(void **))
{
    volatile int failed = 0;
    void *group = NULL;
    if (set_up && set_up(&group)) {
        printf("FAILED  to set up\n");
        return 1;
    }
    for (volatile size_t i = 0; i < n; i++) {
        void *state = NULL;
        int how = setjmp(dv_test_end);
        if (!how)
            tests[i].run(&state);
        failed += how == DV_TEST_FAILED;
        printf("%s %s\n",
               how == DV_TEST_FAILED    ? "FAILED "
               : how == DV_TEST_SKIPPED ? "skipped"
                                        : "ok     ",
               tests[i].name);
        fflush(stdout);
    }
    return failed + (tear_down && tear_down(&group));
}
#define cmocka_run_group_tests(tests, set_up, tear_down)                       \
    dv_run_tests(tests, sizeof(tests) / sizeof *(tests), set_up, tear_down)
#endif
