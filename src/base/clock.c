#define _POSIX_C_SOURCE 200809L // declares clock_gettime
#include "base/clock.h"
#include <time.h>

double dv_clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
