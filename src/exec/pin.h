// Binds threads to cores through hwloc, because a thread that migrates leaves
// its cached data behind.
#ifndef DV_PIN_H
#define DV_PIN_H
#include <stdint.h>

typedef struct dv_pins dv_pins;
// Picks n cores that this process may use, one for each thread. *out is NULL if
// there are fewer cores or hwloc cannot tell; the operating system then places
// the threads. Returns 0 when out of memory.
int dv_pins_create(dv_pins **out, int32_t n);
void dv_pins_destroy(dv_pins *p);
// Binds the calling thread to core number i of p. Thread 0 of a run belongs to
// the user; dv_unpin restores its binding after the run.
void dv_pin(dv_pins *p, int32_t i);
void dv_unpin(dv_pins *p);
// Returns 1 if this library may bind threads to cores because the user has not
// done so through OpenMP (OMP_PROC_BIND).
int dv_pins_allowed(void);
#endif
