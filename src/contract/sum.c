// Sums in plain C: products of nests (loops around a kernel) that leave no
// dimension to the kernel, one element at a time, and the addition of partial
// results in order.
#include "base/math.h"
#include "contract/state.h"

#define REAL    float
#define RELU(x) ((x) <= 0 ? 0 : (x)) // -0 becomes 0, NaN stays NaN
#define POINTS  points_f32
#define COMBINE combine_f32
#include "contract/sum_body.h"
#undef REAL
#undef POINTS
#undef COMBINE

#define REAL    double
#define POINTS  points_f64
#define COMBINE combine_f64
#include "contract/sum_body.h"
#undef REAL
#undef RELU
#undef POINTS
#undef COMBINE

// Integer sums wrap around, so they use unsigned arithmetic, where C defines
// that.
#define REAL    uint32_t
#define RELU(x) ((x) > INT32_MAX ? 0 : (x))
#define POINTS  points_i32
#define COMBINE combine_i32
#include "contract/sum_body.h"

void ct_sum_points(const dv_contraction *c, const unsigned char *const at[],
                   unsigned char *out, int64_t n, int first, int last)
{
    const dv_nest_dim *d = &c->n.dims[c->n_loops - 1];
    points p = {.n = n,
                .a = d->stride[DV_IN0],
                .b = d->stride[DV_IN1],
                .c = d->stride[DV_OUT],
                .zero = first && c->zero_first,
                .relu = last && c->relu_last};
    if (c->n.dtype == DV_I32)
        points_i32(&p, (const uint32_t *)(const void *)at[DV_IN0],
                   (const uint32_t *)(const void *)at[DV_IN1],
                   (uint32_t *)(void *)out);
    else if (c->n.dtype == DV_F32)
        points_f32(&p, (const float *)(const void *)at[DV_IN0],
                   (const float *)(const void *)at[DV_IN1],
                   (float *)(void *)out);
    else
        points_f64(&p, (const double *)(const void *)at[DV_IN0],
                   (const double *)(const void *)at[DV_IN1],
                   (double *)(void *)out);
}

// Lists the dimensions of the output with more than one element, outermost
// first, except that the one which is contiguous in the partial results comes
// last. Returns their number.
static int out_dims(const dv_contraction *c, int dims[])
{
    int n = 0, last = -1;
    for (int i = 0; i < c->n.n_dims; i++) {
        if (c->n.dims[i].type == DV_NEST_K || c->tiles.inner[i] >= 0 ||
            dv_nest_untiled_size(&c->n.dims[i]) == 1)
            continue;
        if (c->part_step[i] == 1)
            last = i;
        else
            dims[n++] = i;
    }
    if (last >= 0)
        dims[n++] = last;
    return n;
}

// Adds the partial results, one per part of k (the summed dimension) and in
// that order, and writes the output. The rows along the last dimension are
// distributed evenly over the threads.
void ct_combine(const dv_contraction *c, int32_t thread, unsigned char *out)
{
    int dims[DV_NEST_MAX_DIMS], n = out_dims(c, dims);
    int64_t size[DV_NEST_MAX_DIMS], rows = 1;
    for (int i = 0; i < n; i++) {
        size[i] = dv_nest_untiled_size(&c->n.dims[dims[i]]);
        rows *= i < n - 1 ? size[i] : 1;
    }
    combine w = {.c = c, .n = n ? size[n - 1] : 1, .step = 0};
    w.step = n ? c->n.dims[dims[n - 1]].stride[DV_OUT] : 0;
    w.part_step = n ? c->part_step[dims[n - 1]] : 0;
    int64_t begin = rows * thread / c->threads;
    int64_t end = rows * (thread + 1) / c->threads;
    for (int64_t r = begin; r < end; r++) {
        int64_t left = r, to = 0, from = 0;
        for (int i = n - 2; i >= 0; i--) {
            int64_t at = left % size[i];
            left /= size[i];
            to += at * c->n.dims[dims[i]].stride[DV_OUT];
            from += at * c->part_step[dims[i]];
        }
        if (c->n.dtype == DV_I32)
            combine_i32(&w, (const uint32_t *)(void *)c->sums + from,
                        (uint32_t *)(void *)out + to);
        else if (c->n.dtype == DV_F32)
            combine_f32(&w, (const float *)(void *)c->sums + from,
                        (float *)(void *)out + to);
        else
            combine_f64(&w, (const double *)(void *)c->sums + from,
                        (double *)(void *)out + to);
    }
}
