// Nests from text, run by kernels and evaluated as the reference.
#ifndef DV_CONTRACT_CASE_H
#define DV_CONTRACT_CASE_H
#include "harness/kernels.h"
#include "nest/nest.h"

// Parses a nest; the test fails if the text is wrong.
dv_nest *nest_of(const char *text);

// An operand of a nest with made-up elements. `at` is its element 0, `data` the
// one with the lowest address, which the caller frees.
typedef struct operand {
    void *data;
    char *at;
    size_t bytes;
} operand;
operand made_up(const dv_nest *n, int o);

// How a contraction is made of a nest: laid out anew (0), with the nest's own
// layout (1), the same with a cache too small for the result, or with the
// nest's own loops.
enum { SMALL_CACHE = 2, LOOPS };
// Runs a nest and evaluates it; the results are equal, where -0 equals 0.
void agrees(dv_jit *on, const char *text, int threads, int as_is);
#endif
