// Element types: names, sizes, and values in and out of raw bytes.
#ifndef DV_DTYPE_H
#define DV_DTYPE_H
#include "divvy/divvy.h"

typedef struct dv_dtype_info {
    const char *name;
    int32_t size_bytes;
    int32_t mantissa_bits; // with the hidden one; 0 for integers
    const char *npy;       // numpy's descr
} dv_dtype_info;

const dv_dtype_info *dv_dtype_get(dv_dtype t);
// The dtype of a name of `len` bytes, or -1.
int dv_dtype_find(const char *name, size_t len);
static inline int dv_is_float(dv_dtype t)
{
    return dv_dtype_get(t)->mantissa_bits > 0;
}
// Distance from 1 to the next number; 0 for integers.
double dv_dtype_eps(dv_dtype t);

// Element i of an array of raw bytes as a double, and back. Storing rounds
// once, to nearest even. Into integers it cuts the fraction off, makes nan 0,
// saturates at 64 bits, and wraps what is too wide for fewer, as C does.
double dv_load(dv_dtype t, const void *data, int64_t i);
void dv_store(dv_dtype t, void *data, int64_t i, double v);
// What a store followed by a load makes of a value.
double dv_round_to(dv_dtype t, double v);

float dv_f16_to_f32(uint16_t h);
float dv_bf16_to_f32(uint16_t h);
uint16_t dv_f32_to_f16(float f);
uint16_t dv_f32_to_bf16(float f);
#endif
