// Converts array elements to and from the three types used for arithmetic: f64,
// i64 and u64.
#include "base/dtype.h"
#include "darray/darray.h"
#include <string.h>

static const dv_elem_info infos[] = {
#define DV_ELEM(NAME, name, bytes, kind) {#name, bytes, kind},
#include "divvy/elem.def"
#undef DV_ELEM
};

// Asserts that the element types have the same numbers as the program
// dtypes.
#define DV_DTYPE(NAME, name, bytes, kind, mantissa_bits, npy)                  \
    _Static_assert((int)DV_##NAME == (int)DV_ELEM_##NAME, #name);
#include "divvy/dtype.def"
#undef DV_DTYPE

const dv_elem_info *dv_elem_get(dv_elem t)
{
    return &infos[t];
}

// Loads go through memcpy because the array's memory may be unaligned.
#define LOAD(T, as)                                                            \
    for (int64_t i = 0; i < n; i++, from += stride) {                          \
        T x;                                                                   \
        memcpy(&x, from, sizeof x);                                            \
        ((as *)to)[i] = (as)x;                                                 \
    }                                                                          \
    break
#define LOAD_HALF(widen)                                                       \
    for (int64_t i = 0; i < n; i++, from += stride) {                          \
        uint16_t x;                                                            \
        memcpy(&x, from, sizeof x);                                            \
        ((double *)to)[i] = (double)widen(x);                                  \
    }                                                                          \
    break

void dv_elem_load(dv_elem t, const char *from, int64_t stride, int64_t n,
                  void *to)
{
    switch (t) {
    case DV_ELEM_F64:
        LOAD(double, double);
    case DV_ELEM_F32:
        LOAD(float, double);
    case DV_ELEM_F16:
        LOAD_HALF(dv_f16_to_f32);
    case DV_ELEM_BF16:
        LOAD_HALF(dv_bf16_to_f32);
    case DV_ELEM_I64:
        LOAD(int64_t, int64_t);
    case DV_ELEM_I32:
        LOAD(int32_t, int64_t);
    case DV_ELEM_I16:
        LOAD(int16_t, int64_t);
    case DV_ELEM_I8:
        LOAD(int8_t, int64_t);
    case DV_ELEM_U64:
        LOAD(uint64_t, uint64_t);
    case DV_ELEM_U32:
        LOAD(uint32_t, uint64_t);
    case DV_ELEM_U16:
        LOAD(uint16_t, uint64_t);
    case DV_ELEM_U8:
    case DV_ELEM_BOOL:
        LOAD(uint8_t, uint64_t);
    }
}
#undef LOAD
#undef LOAD_HALF

// Stores n 64-bit values as elements of type t: integers are truncated to its
// width, a bool becomes 0 or 1, and floats are rounded (dv_store).
void dv_elem_store(dv_elem t, char *to, int64_t stride, int64_t n,
                   const void *from)
{
    size_t bytes = (size_t)infos[t].bytes;
    for (int64_t i = 0; i < n; i++, to += stride) {
        if (infos[t].kind == 'f') {
            double cell; // a buffer aligned for every float type
            dv_store((dv_dtype)t, &cell, 0, ((const double *)from)[i]);
            memcpy(to, &cell, bytes);
            continue;
        }
        uint64_t v = ((const uint64_t *)from)[i];
        if (t == DV_ELEM_BOOL)
            v = v != 0;
        switch (bytes) {
        case 8:
            memcpy(to, &v, 8);
            break;
        case 4:
            memcpy(to, &(uint32_t){(uint32_t)v}, 4);
            break;
        case 2:
            memcpy(to, &(uint16_t){(uint16_t)v}, 2);
            break;
        default:
            memcpy(to, &(uint8_t){(uint8_t)v}, 1);
            break;
        }
    }
}
