// What the machine can do, measured: multiply-adds in registers and copies in
// memory. Everything that is timed is held against these.
#ifndef DV_RATE_H
#define DV_RATE_H
#include "base/diag.h"

// GFLOP/s of so many threads at once in products of a type, in their own time;
// 0 when there are no kernels for it. The best of several short tries.
double dv_rate_peak(dv_dtype dtype, int32_t threads);
// GB/s, read and written, of copying between arrays of so many bytes each; 0
// when out of memory. Small ones stay in caches.
double dv_rate_copy(int64_t bytes, int32_t threads);
#endif
