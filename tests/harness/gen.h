// Random programs for the property tests. They are valid by construction: every
// access is in bounds, every type rule holds, and values stay small, so that
// results can be compared.
//
//   uint64_t seed = gen_seed();              // DV_SEED, or 1
//   for (int i = 0; i < gen_cases(300); i++) // DV_CASES percent of 300
//       char *text = gen_program(seed + i, GEN_FLOATS);
#ifndef DV_GEN_H
#define DV_GEN_H
#include <stdint.h>

// Notes why a case fails and returns 0; case_why() returns the note.
__attribute__((format(printf, 1, 2))) int case_no(const char *form, ...);
const char *case_why(void);

// A SplitMix64 generator.
typedef struct rng {
    uint64_t state;
} rng;

uint64_t rng_next(rng *r);
int64_t rng_below(rng *r, int64_t n); // 0 to n - 1
int rng_percent(rng *r, int percent);

typedef enum gen_mode {
    GEN_FLOATS,   // all types; only values without rounding are compared
    GEN_INTEGERS, // only small integers: results must match exactly
    // Integers of any size, which wrap, for machines that compute in 64 bits.
    GEN_WRAPS,
} gen_mode;

// Returns the text of a program, from malloc. The same seed gives the same
// text.
char *gen_program(uint64_t seed, gen_mode mode);

// Returns the first seed of a run: DV_SEED from the environment, or 1.
uint64_t gen_seed(void);
// Returns the number of cases: `usual`, scaled by DV_CASES percent; 1 if
// DV_SEED is set and DV_CASES is not.
int gen_cases(int usual);
// Reports a failure: the seed with which it can be repeated, the reason and the
// program's text.
void gen_report(const char *property, uint64_t seed, gen_mode mode,
                const char *text, const char *why);
#endif
