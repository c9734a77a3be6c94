// Random programs for the property tests. What is made is valid by
// construction: every access is in bounds, every type rule holds, and values
// stay small, so that comparing results means something.
//
//   uint64_t seed = gen_seed();              // DV_SEED, or the usual one
//   for (int i = 0; i < gen_cases(300); i++) // DV_CASES percent of that
//       char *text = gen_program(seed + i, GEN_FLOATS);
#ifndef DV_GEN_H
#define DV_GEN_H
#include <stdint.h>

// Notes why a case fails and returns 0; case_why() returns the note.
__attribute__((format(printf, 1, 2))) int case_no(const char *form, ...);
const char *case_why(void);

// SplitMix64.
typedef struct rng {
    uint64_t state;
} rng;

uint64_t rng_next(rng *r);
int64_t rng_below(rng *r, int64_t n); // 0..n, n excluded
int rng_percent(rng *r, int percent);

typedef enum gen_mode {
    GEN_FLOATS,   // all types; comparisons only of what no rounding touches
    GEN_INTEGERS, // i64, i32, i8 alone: results must match exactly
} gen_mode;

// A program as text, from malloc. The same seed gives the same text.
char *gen_program(uint64_t seed, gen_mode mode);

// The first seed of a run: DV_SEED from the environment, or 1.
uint64_t gen_seed(void);
// How many cases to run: `usual`, scaled by DV_CASES percent; one when
// DV_SEED is set and DV_CASES is not.
int gen_cases(int usual);
// Tell of a failure: what to set to see it again, what broke, the text.
void gen_report(const char *property, uint64_t seed, gen_mode mode,
                const char *text, const char *why);
#endif
