// Checked 64-bit integers. Each returns 1 and writes *out, or returns 0 when
// the result does not fit; *out may alias an operand.
#ifndef DV_MATH_H
#define DV_MATH_H
#include <stdint.h>

// The overflow builtins are GNU C; gcc and clang both have them.
static inline int dv_add_i64(int64_t *out, int64_t a, int64_t b)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline int dv_sub_i64(int64_t *out, int64_t a, int64_t b)
{
    return !__builtin_sub_overflow(a, b, out);
}

static inline int dv_mul_i64(int64_t *out, int64_t a, int64_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}

// Division that rounds down and up. b > 0.
static inline int64_t dv_floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static inline int64_t dv_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

static inline int64_t dv_round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static inline int64_t dv_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t dv_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
#endif
