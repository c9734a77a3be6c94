// Fills arrays with values computed from the global index. Every rank fills its
// own box, and the bits do not depend on the number of ranks.
#include "dist/value.h"
#include "darray/darray.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

dv_status dv_darray_map(dv_darray *a,
                        void (*value)(void *user, const int64_t *global_off,
                                      void *elem),
                        void *user, dv_diag *diag)
{
    int64_t i[DV_MAX_DIMS], bytes = dv_darray_bytes(a);
    int n = a->own.n_dims;
    uint64_t cell; // a buffer aligned for every element type
    DV_TRY(dv_darray_idle(a, diag));
    if (dv_box_empty(&a->own))
        return DV_OK;
    for (int d = 0; d < n; d++)
        i[d] = a->own.dim[d].off;
    do {
        char *p = a->mem.data;
        for (int d = 0; d < n; d++)
            p += (i[d] - a->mem.box.dim[d].off) * a->mem.stride[d];
        memcpy(&cell, p, (size_t)bytes);
        value(user, i, &cell);
        memcpy(p, &cell, (size_t)bytes);
    } while (dv_box_next(&a->own, i, n));
    return DV_OK;
}

// Fills the array by a copy from a source with all strides 0, so that every
// element reads `value`.
dv_status dv_darray_fill(dv_darray *a, const void *value, dv_diag *diag)
{
    dv_mem from = {.data = (char *)(uintptr_t)value, .box = a->own};
    DV_TRY(dv_darray_idle(a, diag));
    dv_mem_copy(&a->mem, &from, &a->own, dv_darray_bytes(a));
    return DV_OK;
}

// A linear sequence: element i is start + i * step.
typedef struct line {
    dv_elem type;
    double start, step;
    int64_t int_start, int_step;
    // 1 if start and step are integers, held in int_start and int_step.
    int whole;
} line;

static void put_line(void *user, const int64_t *global_off, void *elem)
{
    const line *l = user;
    char kind = dv_elem_get(l->type)->kind;
    int64_t i = global_off[0];
    if (kind != 'f' && l->whole) {
        // Unsigned arithmetic makes an overflowing value wrap modulo 2^64.
        uint64_t v =
            (uint64_t)l->int_start + (uint64_t)l->int_step * (uint64_t)i;
        dv_elem_store(l->type, elem, 0, 1, &v);
        return;
    }
    double v = l->whole
                   ? dv_line_at((double)l->int_start, (double)l->int_step, i)
                   : dv_line_at(l->start, l->step, i);
    if (kind == 'f') {
        dv_elem_store(l->type, elem, 0, 1, &v);
        return;
    }
    // Converts to an integer: truncates toward zero, saturates at the limits of
    // 64 bits, and maps NaN to 0.
    uint64_t w;
    if (kind == 'u' && v >= 0x1p63)
        w = v < 0x1p64 ? (uint64_t)v : UINT64_MAX;
    else
        w = (uint64_t)(v != v         ? 0
                       : v >= 0x1p63  ? INT64_MAX
                       : v <= -0x1p63 ? INT64_MIN
                                      : (int64_t)v);
    dv_elem_store(l->type, elem, 0, 1, &w);
}

static dv_status fill_line(dv_darray *a, const line *l, dv_diag *diag)
{
    line mine = *l;
    mine.type = a->type;
    if (a->dist.n_dims != 1)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "a line is for arrays of one dim, this one has %d",
                       a->dist.n_dims);
    return dv_darray_map(a, put_line, &mine, diag);
}

static int is_whole(double x)
{
    return x == floor(x) && fabs(x) < 0x1p62;
}

dv_status dv_darray_arange(dv_darray *a, double start, double step,
                           dv_diag *diag)
{
    line l = {.start = start, .step = step};
    if (is_whole(start) && is_whole(step)) {
        l.whole = 1;
        l.int_start = (int64_t)start;
        l.int_step = (int64_t)step;
    }
    return fill_line(a, &l, diag);
}

dv_status dv_darray_arange_int(dv_darray *a, int64_t start, int64_t step,
                               dv_diag *diag)
{
    line l = {.int_start = start, .int_step = step, .whole = 1};
    return fill_line(a, &l, diag);
}

int64_t dv_arange_size(double start, double stop, double step)
{
    return dv_steps_to(start, stop, step);
}

dv_status dv_darray_linspace(dv_darray *a, double start, double stop,
                             int endpoint, dv_diag *diag)
{
    int64_t n = a->dist.n_dims == 1 ? a->dist.shape[0] : 0;
    line l = {.start = start, .step = dv_line_step(start, stop, n, endpoint)};
    return fill_line(a, &l, diag);
}
