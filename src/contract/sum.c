// Adds partial results in plain C, in order.
#include "base/math.h"
#include "contract/state.h"

// A row of results: its size, and its strides in the output and in a partial
// result.
typedef struct row {
    int64_t n, step, part_step;
} row;

#define COMBINE(name, type)                                                    \
    static void name(const dv_contraction *c, const row *r, int64_t from,      \
                     int64_t to, void *results)                                \
    {                                                                          \
        const type *sums = (const type *)(void *)c->sums + from;               \
        type *out = (type *)results + to;                                      \
        for (int64_t i = 0; i < r->n; i++) {                                   \
            type x = c->zero_first ? 0 : out[i * r->step];                     \
            for (int64_t p = 0; p < c->parts; p++)                             \
                x += sums[p * c->part_elems + i * r->part_step];               \
            /* -0 becomes 0, NaN stays NaN */                                  \
            out[i * r->step] = c->relu_last && x <= 0 ? 0 : x;                 \
        }                                                                      \
    }
COMBINE(combine_f32, float)
COMBINE(combine_f64, double)
#undef COMBINE

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
    row w = {.n = 1};
    if (n)
        w = (row){size[n - 1], c->n.dims[dims[n - 1]].stride[DV_OUT],
                  c->part_step[dims[n - 1]]};
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
        if (c->n.dtype == DV_F32)
            combine_f32(c, &w, from, to, out);
        else
            combine_f64(c, &w, from, to, out);
    }
}
