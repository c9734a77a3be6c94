// Sequences that every rank can compute without communication, and accumulators
// of reductions that ranks can merge.
#ifndef DV_DIST_VALUE_H
#define DV_DIST_VALUE_H
#include "divvy/dist.h"
#include <math.h>

// A sequence of num values from start to stop: dv_line_step returns its step,
// and element i is start + step * i on every rank.
double dv_line_step(double start, double stop, int64_t num, int endpoint);
double dv_line_at(double start, double step, int64_t global_off);
// Writes elements global_own.off .. global_own.off + size - 1 of the sequence
// to `out`.
void dv_line_fill(double *out, double start, double step, dv_range global_own);
// Returns how many steps lead from start to just before stop; step may be
// negative. Returns -1 if the count is not finite or 2^62 or more.
int64_t dv_steps_to(double start, double stop, double step);

// An accumulator for mean and variance.
typedef struct dv_variance {
    double n, mean, spread; // spread: sum of squared deviations from the mean
} dv_variance;

static inline void dv_variance_add(dv_variance *v, double x)
{
    double off = x - v->mean;
    v->n += 1;
    v->mean += off / v->n;
    v->spread += off * (x - v->mean);
}

// Merges two accumulators by the formula of Chan, Golub and LeVeque.
static inline void dv_variance_merge(dv_variance *v, const dv_variance *by)
{
    double n = v->n + by->n, off = by->mean - v->mean;
    if (by->n == 0)
        return;
    v->spread += by->spread + off * off * v->n * by->n / n;
    v->mean += off * by->n / n;
    v->n = n;
}

// An accumulator for sum, prod, max, min, mean and variance. It starts with
// each reduction's neutral element, so that ranks without elements contribute
// nothing.
typedef struct dv_moments {
    double sum, prod, max, min;
    dv_variance v;
} dv_moments;
#define DV_MOMENTS_INIT                                                        \
    {                                                                          \
        0, 1, -INFINITY, INFINITY,                                             \
        {                                                                      \
            0, 0, 0                                                            \
        }                                                                      \
    }
void dv_moments_add(dv_moments *m, double x);
void dv_moments_merge(dv_moments *m, const dv_moments *by);
#endif
