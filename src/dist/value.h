// Values of distributed tensors that need no communication, and the state of a
// reduction that some ranks have not added to yet.
#ifndef DV_DIST_VALUE_H
#define DV_DIST_VALUE_H
#include "divvy/divvy.h"
#include <math.h>

// num values from start to stop; element i of all of them is start + step * i,
// on whichever rank it is.
double dv_line_step(double start, double stop, int64_t num, int endpoint);
double dv_line_at(double start, double step, int64_t global_off);
// Those of one rank's part.
void dv_line_fill(double *out, double start, double step, dv_range global_own);
// How many steps of any sign lead from start up to stop; -1: none can say.
int64_t dv_steps_to(double start, double stop, double step);

// A part of sum, prod, max, min, mean and variance. Nothing yet is each one's
// own neutral value, so that ranks without elements add nothing.
typedef struct dv_moments {
    int64_t n;
    double sum, prod, max, min, mean;
    double spread; // sum of squared distances from the mean
} dv_moments;
#define DV_MOMENTS_INIT                                                        \
    {                                                                          \
        0, 0, 1, -INFINITY, INFINITY, 0, 0                                     \
    }
void dv_moments_add(dv_moments *m, double x);
void dv_moments_merge(dv_moments *m, const dv_moments *by);
#endif
