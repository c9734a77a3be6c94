// Element types: names, sizes, and conversion of values from and to raw bytes.
#ifndef DV_DTYPE_H
#define DV_DTYPE_H
#include "base/text.h"
#include "divvy/divvy.h"

typedef struct dv_dtype_info {
    const char *name;
    int32_t size_bytes;
    char kind;             // f float, i signed, u unsigned integer, b bool
    int32_t mantissa_bits; // including the hidden bit; 0 for integers
    const char *npy;       // type string in a numpy header (descr)
} dv_dtype_info;

enum {
#define DV_DTYPE(NAME, name, bytes, kind, mantissa_bits, npy)                  \
    DV_NUMBER_OF_##NAME,
#include "divvy/dtype.def"
#undef DV_DTYPE
    DV_N_DTYPES
};

const dv_dtype_info *dv_dtype_get(dv_dtype t);
// Returns the dtype whose name is these `len` bytes, or -1.
int dv_dtype_find(const char *name, size_t len);
// Prints a tensor's type as programs declare it, for example f32[4, 8].
void dv_put_type(dv_text *t, dv_dtype dtype, int n_dims, const int64_t *shape);
static inline int dv_is_float(dv_dtype t)
{
    return dv_dtype_get(t)->mantissa_bits > 0;
}
// Returns whether an integer type has values that f32, with its 24-bit
// mantissa, cannot hold exactly.
static inline int dv_is_wide_integer(dv_dtype t)
{
    return !dv_is_float(t) && dv_dtype_get(t)->size_bytes >= 4;
}
// Returns the value that remains after storing a 64-bit integer in an integer
// type: it wraps around, and a bool is 1 unless the integer is 0. Values of u64
// from 2^63 on are represented as negative int64_t, as in all of divvy.
int64_t dv_int_wrap(dv_dtype t, int64_t v);
// Return the smallest and the largest value of an integer type; for u64, those
// of i64.
int64_t dv_int_least(dv_dtype t);
int64_t dv_int_most(dv_dtype t);
// Load or store element i of an array of integers.
int64_t dv_int_load(dv_dtype t, const void *data, int64_t i);
void dv_int_store(dv_dtype t, void *data, int64_t i, int64_t v);
// Returns the machine epsilon, the distance from 1 to the next number; 0 for
// integers.
double dv_dtype_eps(dv_dtype t);

// Load or store element i of an array of raw bytes as a double. Storing rounds
// once, to nearest even. Storing to an integer type truncates the fraction,
// turns NaN into 0, saturates at 64 bits, and wraps values too wide for a
// narrower type, as C does. Storing to bool gives 0 for 0 and 1 for all other
// values, also NaN.
double dv_load(dv_dtype t, const void *data, int64_t i);
void dv_store(dv_dtype t, void *data, int64_t i, double v);
// Returns the value that a load gives after storing v as type t: v rounded.
double dv_round_to(dv_dtype t, double v);

float dv_f16_to_f32(uint16_t h);
float dv_bf16_to_f32(uint16_t h);
uint16_t dv_f32_to_f16(float f);
uint16_t dv_f32_to_bf16(float f);
#endif
