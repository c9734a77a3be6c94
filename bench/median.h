// The middle one of n measurements, which are put in order.
#ifndef DV_BENCH_MEDIAN_H
#define DV_BENCH_MEDIAN_H
#include <stdlib.h>

static inline int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}
#endif
