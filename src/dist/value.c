// Sequences computed from the index, with the same bits for any number of
// ranks, and accumulators of reductions.
#include "dist/value.h"
#include <math.h>

double dv_line_step(double start, double stop, int64_t num, int endpoint)
{
    int64_t steps = endpoint ? num - 1 : num;
    return steps > 0 ? (stop - start) / (double)steps : NAN;
}

double dv_line_at(double start, double step, int64_t global_off)
{
    // Element 0 is `start` whatever the step is: step * 0 would be NaN for a
    // step of NaN or infinity.
    return global_off == 0 ? start : start + step * (double)global_off;
}

void dv_line_fill(double *out, double start, double step, dv_range global_own)
{
    for (int64_t i = 0; i < global_own.size; i++)
        out[i] = dv_line_at(start, step, global_own.off + i);
}

int64_t dv_steps_to(double start, double stop, double step)
{
    double n = ceil((stop - start) / step);
    return n <= 0 ? 0 : n < 0x1p62 ? (int64_t)n : -1; // NaN also gives -1
}

void dv_moments_add(dv_moments *m, double x)
{
    dv_variance_add(&m->v, x);
    m->sum += x;
    m->prod *= x;
    m->max = x > m->max || x != x ? x : m->max;
    m->min = x < m->min || x != x ? x : m->min;
}

void dv_moments_merge(dv_moments *m, const dv_moments *by)
{
    dv_variance_merge(&m->v, &by->v);
    m->sum += by->sum;
    m->prod *= by->prod;
    m->max = by->max > m->max || by->max != by->max ? by->max : m->max;
    m->min = by->min < m->min || by->min != by->min ? by->min : m->min;
}
