// Properties of programs, tried on texts that were hard to get right and on
// random programs.
#ifndef DV_PROPERTY_H
#define DV_PROPERTY_H
#include "harness/case.h"
#include "harness/test.h"

// The plan passes its check, has no tile in a hole of the grid (C21), reads
// back (T1), gives what the oracle gives, and moves the elements and bytes that
// were predicted, op by op and core by core. `p` is the program as written.
int case_keeps(const dv_program *p, const dv_plan *plan);
// Two plans of one program give the same outputs, bit by bit.
int case_same_results(const dv_plan *a, const dv_plan *b);

// Judges a program; returns 0 after case_no() if the property does not hold.
typedef int case_property(const dv_program *p, uint64_t seed);
int case_holds(case_property *f, const char *text, uint64_t seed);
// Tries `usual` random programs (gen_cases()); the test fails if the property
// does not hold of one.
void case_random(const char *name, case_property *f, gen_mode mode, int usual);
// Tries each of n texts with the seeds 1..seeds.
void case_hard(const char *name, case_property *f, const char *const *texts,
               size_t n, uint64_t seeds);

// Defines the tests f_hard, f_floats and f_integers of a property f; `hard` is
// an array of texts.
#define CASE_PROPERTY(f, usual, seeds)                                         \
    TEST(f##_floats)                                                           \
    {                                                                          \
        case_random(#f, f, GEN_FLOATS, usual);                                 \
    }                                                                          \
    TEST(f##_integers)                                                         \
    {                                                                          \
        case_random(#f, f, GEN_INTEGERS, (usual) / 2);                         \
    }                                                                          \
    TEST(f##_hard)                                                             \
    {                                                                          \
        case_hard(#f, f, hard, sizeof hard / sizeof *hard, seeds);             \
    }
#define CASE_TESTS(f)                                                          \
    cmocka_unit_test(f##_hard), cmocka_unit_test(f##_floats),                  \
        cmocka_unit_test(f##_integers)
#endif
