// Element types: names, sizes, and conversion of values from and to raw bytes.
#ifndef DV_DTYPE_H
#define DV_DTYPE_H
#include "divvy/divvy.h"

typedef struct dv_dtype_info {
    const char *name;
    int32_t size_bytes;
    int32_t mantissa_bits; // including the hidden bit; 0 for integers
    const char *npy;       // type string in a numpy header (descr)
} dv_dtype_info;

const dv_dtype_info *dv_dtype_get(dv_dtype t);
// Returns the dtype with this name of `len` bytes, or -1.
int dv_dtype_find(const char *name, size_t len);
static inline int dv_is_float(dv_dtype t)
{
    return dv_dtype_get(t)->mantissa_bits > 0;
}
// Returns the distance from 1 to the next number; 0 for integers.
double dv_dtype_eps(dv_dtype t);

// Load or store element i of an array of raw bytes as a double. Storing rounds
// once, to nearest even. Storing to an integer type truncates the fraction,
// turns NaN into 0, saturates at 64 bits, and wraps values too wide for a
// narrower type, as C does.
double dv_load(dv_dtype t, const void *data, int64_t i);
void dv_store(dv_dtype t, void *data, int64_t i, double v);
// Returns the value after a store to type t and a load.
double dv_round_to(dv_dtype t, double v);

float dv_f16_to_f32(uint16_t h);
float dv_bf16_to_f32(uint16_t h);
uint16_t dv_f32_to_f16(float f);
uint16_t dv_f32_to_bf16(float f);
#endif
