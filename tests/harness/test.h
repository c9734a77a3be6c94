// What every test program begins with: cmocka, the headers that must precede
// it, and tests that can be skipped. A program in which a test was skipped and
// none failed ends with 77, which ctest reports as skipped instead of passed.
#ifndef DV_TESTS_TEST_H
#define DV_TESTS_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Begins the definition of a test that does not use cmocka's state.
#define TEST(name) static void name(__attribute__((unused)) void **cmocka_state)

// The number of tests that skip_test ended; the same variable in all objects.
__attribute__((weak)) int dv_skipped_tests;

// Ends the running test, because this machine cannot run it.
#define skip_test(reason)                                                      \
    do {                                                                       \
        printf("skipped: %s\n", reason);                                       \
        dv_skipped_tests++;                                                    \
        skip();                                                                \
    } while (0)

static inline int dv_exit_code(int n_failed)
{
    enum { CTEST_SKIPPED = 77 };
    return n_failed ? n_failed : dv_skipped_tests ? CTEST_SKIPPED : 0;
}

// Runs an array of tests and returns the exit code of the program.
#define run_group(tests, set_up, tear_down)                                    \
    dv_exit_code(cmocka_run_group_tests(tests, set_up, tear_down))
#endif
