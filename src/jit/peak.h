// Measures the peak arithmetic rate of the machine with a loop of multiply-adds
// in registers, in enough independent chains to hide their latency. Other rates
// are reported relative to it.
#ifndef DV_JIT_PEAK_H
#define DV_JIT_PEAK_H
#include "base/diag.h"

typedef struct dv_peak dv_peak;

// Creates a loop of independent multiply-adds for products of this type.
// Errors: DV_E_SYSTEM where there are no kernels for the machine, DV_E_DTYPE
// where there are none for the type.
dv_status dv_peak_create(dv_peak **out, dv_dtype dtype, dv_diag *diag);
void dv_peak_destroy(dv_peak *p);
// Runs `turns` iterations of the loop on the calling thread. Any number of
// threads may do so at once.
void dv_peak_run(const dv_peak *p, int64_t turns);
// Returns the floating-point operations of one iteration of the loop.
double dv_peak_flops(const dv_peak *p);
// Returns the type in which products of `dtype` are computed on this machine:
// the type itself, or the wider type that kernels convert it to. dv_peak_create
// measures that type.
dv_dtype dv_peak_type(dv_dtype dtype);
#endif
