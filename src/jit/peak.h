// How fast the machine could be: multiply-adds in registers, in chains that do
// not wait for each other. What everything else is held against.
#ifndef DV_JIT_PEAK_H
#define DV_JIT_PEAK_H
#include "base/diag.h"

typedef struct dv_peak dv_peak;

// A loop of such chains for products of a type. DV_E_SYSTEM where there are no
// kernels for the machine, DV_E_DTYPE where it has none for the type.
dv_status dv_peak_create(dv_peak **out, dv_dtype dtype, dv_diag *diag);
void dv_peak_destroy(dv_peak *p);
// Run the loop so many times, on the calling thread; any number of threads may.
void dv_peak_run(const dv_peak *p, int64_t turns);
double dv_peak_flops(const dv_peak *p); // of one turn
// What factors of a type are multiplied as on this machine: as they are, or as
// what kernels widen them to. A peak of the type is of that.
dv_dtype dv_peak_type(dv_dtype dtype);
#endif
