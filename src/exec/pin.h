// Which core a thread runs on, through hwloc: threads that wander take their
// caches' contents along too late.
#ifndef DV_PIN_H
#define DV_PIN_H
#include <stdint.h>

typedef struct dv_pins dv_pins;
// Cores this process may use, one for each of n threads; *out is NULL when
// there are fewer, or hwloc cannot tell: threads then run where the system
// likes. 0 when out of memory.
int dv_pins_create(dv_pins **out, int32_t n);
void dv_pins_destroy(dv_pins *p);
// Bind the calling thread to core number i; the first one of a run is the
// user's and is let go afterwards.
void dv_pin(dv_pins *p, int32_t i);
void dv_unpin(dv_pins *p);
#endif
