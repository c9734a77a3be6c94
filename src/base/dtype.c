#include "base/dtype.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const dv_dtype_info dtypes[] = {
#define DV_DTYPE(NAME, name, bytes, kind, mantissa, npy)                       \
    {#name, bytes, kind, mantissa, npy},
#include "divvy/dtype.def"
#undef DV_DTYPE
};

const dv_dtype_info *dv_dtype_get(dv_dtype t)
{
    return &dtypes[t];
}

int dv_dtype_find(const char *name, size_t len)
{
    for (int i = 0; i < DV_N_DTYPES; i++)
        if (strlen(dtypes[i].name) == len &&
            memcmp(dtypes[i].name, name, len) == 0)
            return i;
    return -1;
}

void dv_put_type(dv_text *t, dv_dtype dtype, int n_dims, const int64_t *shape)
{
    dv_put(t, "%s[", dv_dtype_get(dtype)->name);
    for (int d = 0; d < n_dims; d++)
        dv_put(t, "%s%" PRId64, d ? ", " : "", shape[d]);
    dv_put(t, "]");
}

double dv_dtype_eps(dv_dtype t)
{
    int bits = dtypes[t].mantissa_bits;
    return bits ? ldexp(1.0, 1 - bits) : 0.0;
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float dv_bf16_to_f32(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

uint16_t dv_f32_to_bf16(float f)
{
    uint32_t u = bits_of(f);
    if (f != f)
        return (uint16_t)(u >> 16 | 0x40); // a quiet NaN that keeps its sign
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float dv_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 31)
        return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent)
        return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    // The f16 value is zero or subnormal; fraction * 2^-24 is exact in f32.
    float tiny = (float)fraction * 0x1p-24f;
    return sign ? -tiny : tiny;
}

uint16_t dv_f32_to_f16(float f)
{
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (u >= 0x477ff000) // 65520 and above round to infinity
        return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000) {
        // The f16 result is subnormal. Adding 0.5 makes the float adder round
        // to a multiple of 2^-24; subtracting 0x3f000000, the bits of 0.5,
        // leaves the bits of the result.
        float shifted = float_of(u) + 0.5f;
        return (uint16_t)(sign | (bits_of(shifted) - 0x3f000000));
    }
    u += 0xfff + (u >> 13 & 1);
    return (uint16_t)(sign | (u - 0x38000000) >> 13);
}

// Rounds a double to a mantissa of `bits` bits with minimum exponent `low`, so
// that the following conversion through float is exact and does not round a
// second time.
static double round_mantissa(double v, int bits, int low)
{
    int e;
    if (v == 0 || !isfinite(v))
        return v;
    frexp(v, &e);
    int unit = e - bits < low ? low : e - bits;
    return ldexp(nearbyint(ldexp(v, -unit)), unit);
}

// Converts to a 64-bit integer, saturating; NaN becomes 0. Callers then
// truncate it to narrower integers, which wraps as in C.
static int64_t to_wrapped(double v)
{
    return v != v         ? 0
           : v >= 0x1p63  ? INT64_MAX
           : v <= -0x1p63 ? INT64_MIN
                          : (int64_t)v;
}

int64_t dv_int_wrap(dv_dtype t, int64_t v)
{
    int unused = 64 - 8 * dtypes[t].size_bytes;
    uint64_t high = (uint64_t)v << unused;
    switch (dtypes[t].kind) {
    case 'b':
        return v != 0;
    case 'u':
        return (int64_t)(high >> unused);
    default:
        return (int64_t)high >> unused;
    }
}

int64_t dv_int_least(dv_dtype t)
{
    char kind = dtypes[t].kind;
    return t == DV_U64 ? INT64_MIN
           : kind == 'u' || kind == 'b'
               ? 0
               : INT64_MIN >> (64 - 8 * dtypes[t].size_bytes);
}

int64_t dv_int_most(dv_dtype t)
{
    int bits = 8 * dtypes[t].size_bytes;
    return dtypes[t].kind == 'b'                ? 1
           : dtypes[t].kind == 'u' && bits < 64 ? ((int64_t)1 << bits) - 1
                                                : INT64_MAX >> (64 - bits);
}

int64_t dv_int_load(dv_dtype t, const void *data, int64_t i)
{
    switch (t) {
    case DV_I64:
    case DV_U64:
        return ((const int64_t *)data)[i];
    case DV_I32:
        return ((const int32_t *)data)[i];
    case DV_I16:
        return ((const int16_t *)data)[i];
    case DV_I8:
        return ((const int8_t *)data)[i];
    case DV_U32:
        return ((const uint32_t *)data)[i];
    case DV_U16:
        return ((const uint16_t *)data)[i];
    default: // DV_U8 and DV_BOOL
        return ((const uint8_t *)data)[i];
    }
}

void dv_int_store(dv_dtype t, void *data, int64_t i, int64_t v)
{
    switch (dtypes[t].size_bytes) {
    case 8:
        ((int64_t *)data)[i] = v;
        break;
    case 4:
        ((uint32_t *)data)[i] = (uint32_t)(uint64_t)v;
        break;
    case 2:
        ((uint16_t *)data)[i] = (uint16_t)(uint64_t)v;
        break;
    default:
        ((uint8_t *)data)[i] = (uint8_t)(t == DV_BOOL ? v != 0 : (uint64_t)v);
    }
}

double dv_load(dv_dtype t, const void *data, int64_t i)
{
    switch (t) {
    case DV_F64:
        return ((const double *)data)[i];
    case DV_F32:
        return (double)((const float *)data)[i];
    case DV_F16:
        return (double)dv_f16_to_f32(((const uint16_t *)data)[i]);
    case DV_BF16:
        return (double)dv_bf16_to_f32(((const uint16_t *)data)[i]);
    default:
        return (double)dv_int_load(t, data, i);
    }
}

void dv_store(dv_dtype t, void *data, int64_t i, double v)
{
    switch (t) {
    case DV_F64:
        ((double *)data)[i] = v;
        break;
    case DV_F32:
        ((float *)data)[i] = (float)v;
        break;
    case DV_F16:
        ((uint16_t *)data)[i] =
            dv_f32_to_f16((float)round_mantissa(v, 11, -24));
        break;
    case DV_BF16:
        ((uint16_t *)data)[i] =
            dv_f32_to_bf16((float)round_mantissa(v, 8, -133));
        break;
    case DV_BOOL:
        ((uint8_t *)data)[i] = v != 0;
        break;
    default:
        dv_int_store(t, data, i, to_wrapped(v));
    }
}

double dv_round_to(dv_dtype t, double v)
{
    union {
        double f64;
        int64_t i64;
    } cell;
    dv_store(t, &cell, 0, v);
    return dv_load(t, &cell, 0);
}
