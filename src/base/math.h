// 64-bit integer arithmetic with overflow checks. The checked functions return
// 1 and write *out, or return 0 if the result does not fit; *out may alias an
// operand.
#ifndef DV_MATH_H
#define DV_MATH_H
#include <stdint.h>

// Checked arithmetic: returns 0 on overflow. The builtins are GNU C extensions
// that gcc and clang provide.
static inline int dv_add_i64(int64_t *out, int64_t a, int64_t b)
{
    return !__builtin_add_overflow(a, b, out);
}

// Returns a + b for a, b >= 0, saturated to INT64_MAX.
static inline int64_t dv_add_most_i64(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static inline int dv_sub_i64(int64_t *out, int64_t a, int64_t b)
{
    return !__builtin_sub_overflow(a, b, out);
}

static inline int dv_mul_i64(int64_t *out, int64_t a, int64_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}

// Division rounded down, and rounded up. b must be positive.
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

// Returns the greatest common divisor; that of a and 0 is a.
static inline int64_t dv_gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
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
