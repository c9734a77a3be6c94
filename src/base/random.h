// SplitMix64: pseudorandom numbers that are the same on every machine.
#ifndef DV_RANDOM_H
#define DV_RANDOM_H
#include <stdint.h>

// The increment of the generator's state (splitmix64).
#define DV_RANDOM_STEP ((uint64_t)0x9e3779b97f4a7c15u)

// Returns the random number for state x. Every bit of x affects every bit of
// the result, so this also serves as a hash of x.
static inline uint64_t dv_mix(uint64_t x)
{
    x += DV_RANDOM_STEP;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline uint64_t dv_draw(uint64_t *state)
{
    uint64_t x = dv_mix(*state);
    *state += DV_RANDOM_STEP;
    return x;
}

// Returns a random integer in 0..n-1.
static inline int32_t dv_draw_below(uint64_t *state, int32_t n)
{
    return (int32_t)((dv_draw(state) >> 32) * (uint64_t)n >> 32);
}

// Returns a random number in [0, 1).
static inline double dv_draw_real(uint64_t *state)
{
    return (double)(dv_draw(state) >> 11) * 0x1p-53;
}
#endif
