// The monotonic clock, in seconds.
#ifndef DV_CLOCK_H
#define DV_CLOCK_H
double dv_clock_s(void);
#endif
