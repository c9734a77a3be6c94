// Properties of programs, tried on texts that were hard to get right and on
// random ones.
#ifndef DV_PROPERTY_H
#define DV_PROPERTY_H
#include "harness/case.h"

// It holds of a program, or notes why not.
typedef int case_property(const dv_program *p, uint64_t seed);
int case_holds(case_property *f, const char *text, uint64_t seed);
// On random programs, `usual` unless the environment says otherwise; the test
// fails where it does not hold.
void case_random(const char *name, case_property *f, gen_mode mode, int usual);
// On each of n texts with the seeds 1..seeds.
void case_hard(const char *name, case_property *f, const char *const *texts,
               size_t n, uint64_t seeds);

// The tests f_hard, f_floats and f_integers of property f, where `hard` are
// texts.
#define CASE_PROPERTY(f, usual, seeds)                                         \
    static void f##_floats(void **state)                                       \
    {                                                                          \
        (void)state;                                                           \
        case_random(#f, f, GEN_FLOATS, usual);                                 \
    }                                                                          \
    static void f##_integers(void **state)                                     \
    {                                                                          \
        (void)state;                                                           \
        case_random(#f, f, GEN_INTEGERS, (usual) / 2);                         \
    }                                                                          \
    static void f##_hard(void **state)                                         \
    {                                                                          \
        (void)state;                                                           \
        case_hard(#f, f, hard, sizeof hard / sizeof *hard, seeds);             \
    }
#define CASE_TESTS(f)                                                          \
    cmocka_unit_test(f##_hard), cmocka_unit_test(f##_floats),                  \
        cmocka_unit_test(f##_integers)
#endif
