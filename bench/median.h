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

// The one that so many quarters of them are below, once they are in order.
static inline double quarter(const double *v, int n, int quarters)
{
    return v[(n - 1) * quarters / 4];
}
#endif
