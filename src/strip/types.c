// Instantiates the loops of the interpreter of ops for f32, f64 and i64.
#include "strip/strip.h"
#include <math.h>
#include <string.h>

// Advances the variables in the mask to the next point of the box begin..end,
// like an odometer. Returns 0 after the last point and resets them to the
// first.
static int next_point(dv_strips *s, const int64_t *begin, const int64_t *end,
                      uint32_t vars)
{
    for (int v = s->k->op->n_vars - 1; v >= 0; v--) {
        if (!(vars >> v & 1))
            continue;
        if (++s->at[v] < end[v])
            return 1;
        s->at[v] = begin[v];
    }
    return 0;
}

// Where the elements of a strip (a run that is computed together) lie in
// memory: at a constant stride, or at offsets that indirect indices give.
typedef struct where {
    // found[i] is the offset of element i. If it is NULL, the elements start at
    // `off`, `stride` apart.
    const int64_t *found;
    int64_t off, stride;
} where;

static where where_is(dv_strips *s, const dv_access *a, const dv_flat *f,
                      int64_t found[DV_STRIP])
{
    int strip = s->k->strip;
    if (dv_access_is_indirect(a)) {
        dv_strips_find(s, a, f, found);
        return (where){.found = found};
    }
    return (where){.off = dv_strips_offset(s, a, f, s->at),
                   .stride = strip < 0 ? 0 : f->coef[strip]};
}

// Converts a float to an integer: truncates, maps nan to 0, and saturates
// values out of range.
static int64_t whole(double v)
{
    if (v != v)
        return 0;
    if (v >= 0x1p63)
        return INT64_MAX;
    return v <= -0x1p63 ? INT64_MIN : (int64_t)v;
}

#define T         float
#define BITS      uint32_t
#define NAME(x)   x##_f32
#define FN(x)     x##f
#define REAL      1
#define DTYPE     DV_F32
#define EXP_MOST  88 // largest integer whose exp() is finite in f32
#define ADD(x, y) ((x) + (y))
#define SUB(x, y) ((x) - (y))
#define MUL(x, y) ((x) * (y))
#define ABS(x)    FN(fabs)(x)
#define NEG(x)    (-(x))
#define TO_F16    dv_f32_to_f16
#define TO_BF16   dv_f32_to_bf16
#include "strip/body.h"
#undef T
#undef BITS
#undef NAME
#undef FN
#undef DTYPE
#undef EXP_MOST
#undef TO_F16
#undef TO_BF16

static uint16_t f64_to_f16(double v)
{
    uint16_t h;
    dv_store(DV_F16, &h, 0, v);
    return h;
}

static uint16_t f64_to_bf16(double v)
{
    uint16_t h;
    dv_store(DV_BF16, &h, 0, v);
    return h;
}

#define T        double
#define BITS     uint64_t
#define NAME(x)  x##_f64
#define FN(x)    x
#define DTYPE    DV_F64
#define EXP_MOST 709
#define TO_F16   f64_to_f16
#define TO_BF16  f64_to_bf16
#include "strip/body.h"
#undef T
#undef BITS
#undef NAME
#undef FN
#undef REAL
#undef DTYPE
#undef EXP_MOST
#undef ADD
#undef SUB
#undef MUL
#undef ABS
#undef NEG
#undef TO_F16
#undef TO_BF16

static inline int64_t min_i64(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static inline int64_t max_i64(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static int64_t constant_i64(double v)
{
    // Infinities, the start values of max and min, become the limits of
    // int64_t.
    return whole(v);
}

static int64_t whole_i64(int64_t v)
{
    return v;
}

static uint16_t i64_to_f16(int64_t v)
{
    return f64_to_f16((double)v);
}

static uint16_t i64_to_bf16(int64_t v)
{
    return f64_to_bf16((double)v);
}

// Integers wrap around on overflow. Only unsigned arithmetic does so in C.
#define T         int64_t
#define NAME(x)   x##_i64
#define FN(x)     x
#define REAL      0
#define DTYPE     DV_I64
#define ADD(x, y) ((int64_t)((uint64_t)(x) + (uint64_t)(y)))
#define SUB(x, y) ((int64_t)((uint64_t)(x) - (uint64_t)(y)))
#define MUL(x, y) ((int64_t)((uint64_t)(x) * (uint64_t)(y)))
#define ABS(x)    ((x) < 0 ? SUB(0, x) : (x))
#define NEG(x)    SUB(0, x)
#define TO_F16    i64_to_f16
#define TO_BF16   i64_to_bf16
#include "strip/body.h"

void dv_accumulate(dv_compute_type in, dv_reducer r, void *acc, const void *x,
                   int64_t n)
{
    if (in == DV_IN_F32)
        accumulate_f32(r, acc, (value_f32){x, 1}, n);
    else if (in == DV_IN_F64)
        accumulate_f64(r, acc, (value_f64){x, 1}, n);
    else
        accumulate_i64(r, acc, (value_i64){x, 1}, n);
}

void dv_strips_add(const dv_kernel *k, void *acc, const void *x, int64_t n)
{
    dv_accumulate(k->compute, (dv_reducer)k->reduce->fn, acc, x, n);
}
