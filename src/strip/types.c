// Instantiates the loops of the interpreter of ops for i64, f32 and f64, in
// this order, because floats have parts that are computed in integers.
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

// The positions in memory of the elements of a strip (a run that is computed
// together): at a constant stride, or at offsets from indirect indices.
typedef struct where {
    // found[i] is the offset of element i. If it is NULL, the elements start at
    // `off`, `stride` apart.
    const int64_t *found;
    int64_t off, stride;
    // 1 if elements of `found` may be outside of the tensor (DV_OUTSIDE). The
    // read yields `border` for these.
    int leaves;
    double border;
} where;

static where where_is(dv_strips *s, const dv_access *a, const dv_flat *f,
                      int64_t found[DV_STRIP])
{
    int strip = s->k->strip;
    int leaves = dv_strips_leave(s, a);
    if (leaves || dv_access_is_indirect(a)) {
        dv_strips_find(s, a, f, found);
        return (where){
            .found = found, .leaves = a->has_border, .border = a->border};
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

// An entry of lang/op.def has NONE in place of a function for a type that it
// does not support.
#define OWN(x) NAME(x)
#define NONE   0

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

// Integers wrap around on overflow. Only unsigned arithmetic does so in C.
static inline int64_t add_i64(int64_t x, int64_t y)
{
    return (int64_t)((uint64_t)x + (uint64_t)y);
}

static inline int64_t sub_i64(int64_t x, int64_t y)
{
    return (int64_t)((uint64_t)x - (uint64_t)y);
}

static inline int64_t mul_i64(int64_t x, int64_t y)
{
    return (int64_t)((uint64_t)x * (uint64_t)y);
}

static inline int64_t abs_i64(int64_t x)
{
    return x < 0 ? sub_i64(0, x) : x;
}

static inline int64_t sign_i64(int64_t x)
{
    return (x > 0) - (x < 0);
}

// The remainder of a division by 0 is 0.
static int64_t rem_i64(int64_t x, int64_t y)
{
    return y == 0 || y == -1 ? 0 : x % y;
}

static int64_t mod_i64(int64_t x, int64_t y)
{
    int64_t r = rem_i64(x, y);
    return r != 0 && (r ^ y) < 0 ? r + y : r;
}

// Distances beyond 63, and negative ones, shift all bits out.
static int64_t shl_i64(int64_t x, int64_t y)
{
    return (uint64_t)y > 63 ? 0 : (int64_t)((uint64_t)x << y);
}

static int64_t shr_i64(int64_t x, int64_t y)
{
    uint64_t sign = x < 0 ? UINT64_MAX : 0,
             by = (uint64_t)y > 63 ? 63 : (uint64_t)y;
    return (int64_t)((((uint64_t)x ^ sign) >> by) ^ sign);
}

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

#define T       int64_t
#define NAME(x) x##_i64
#define FN(x)   x
#define REAL    0
#define DTYPE   DV_I64
#define ADD     add_i64
#define MUL     mul_i64
#define TO_F16  i64_to_f16
#define TO_BF16 i64_to_bf16
#include "strip/body.h"
#undef T
#undef NAME
#undef FN
#undef REAL
#undef DTYPE
#undef ADD
#undef MUL
#undef TO_F16
#undef TO_BF16

#define T         float
#define BITS      uint32_t
#define NAME(x)   x##_f32
#define FN(x)     x##f
#define REAL      1
#define DTYPE     DV_F32
#define EXP_MOST  88 // largest integer whose exp() is finite in f32
#define ADD(x, y) ((x) + (y))
#define MUL(x, y) ((x) * (y))
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
#undef MUL
#undef TO_F16
#undef TO_BF16

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
