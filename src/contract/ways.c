#include "contract/ways.h"
#include "base/math.h"
#include "jit/vec/vec.h"
#include <stdlib.h>

static void add(ct_ways *a, ct_way x,
                int (*before)(const ct_way *x, const ct_way *y))
{
    int64_t along = x.step[x.is_k ? DV_IN0 : DV_OUT];
    for (int o = 0; along < 0 && !x.is_index && o < DV_MAX_OPERANDS; o++) {
        a->off[o] += x.step[o] * (x.size - 1);
        x.step[o] = -x.step[o];
    }
    int32_t i = a->n++;
    for (; i > 0; i--) {
        const ct_way *y = &a->at[i - 1];
        if (x.is_index != y->is_index ? !x.is_index
                                      : x.is_index || !before(&x, y))
            break;
        a->at[i] = a->at[i - 1];
    }
    a->at[i] = x;
}

void ct_ways_list(ct_ways *a, const dv_nest *n,
                  int (*before)(const ct_way *x, const ct_way *y))
{
    dv_nest all = *n;
    dv_nest_untile(&all);
    for (int i = 0; i < all.n_dims; i++) {
        const dv_nest_dim *d = &all.dims[i];
        ct_way x = {.size = d->size, .is_k = d->type == DV_NEST_K};
        x.is_index = n->look && d->stride[DV_IN2];
        for (int o = 0; o < DV_MAX_OPERANDS; o++)
            x.step[o] = dv_nest_has(n, o) ? d->stride[o] : 0;
        if (d->size > 1)
            add(a, x, before);
    }
}

static int is_over(const ct_way *outer, const ct_way *inner)
{
    if (outer->is_k != inner->is_k || outer->is_index != inner->is_index)
        return 0;
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        if (outer->step[o] != inner->step[o] * inner->size)
            return 0;
    return 1;
}

void ct_ways_join(ct_ways *a)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < a->n; i++) {
        ct_way x = a->at[i];
        if (kept && is_over(&a->at[kept - 1], &x)) {
            x.size *= a->at[kept - 1].size;
            a->at[kept - 1] = x;
        } else {
            a->at[kept++] = x;
        }
    }
    a->n = kept;
}

int ct_way_is_near(const ct_way *x)
{
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        if (llabs(x->step[o]) > DV_VEC_MAX_STRIDE)
            return 0;
    return !x->is_index;
}

// Whole numbers are 32 bits wide there: what is computed of them is right in
// the bits that are kept, as each is used once.
dv_dtype ct_compute_of(const dv_nest *n)
{
    dv_dtype t = dv_nest_compute(n);
    return t == DV_I64 ? DV_I32 : t;
}

static int64_t cut_at(const ct_ways *a, int64_t size, int32_t thread)
{
    int64_t units = dv_ceil_div(size, a->cut_unit);
    return dv_min_i64(size, units * thread / a->threads * a->cut_unit);
}

int ct_ways_part(const ct_ways *a, int32_t thread, ct_range *of, int64_t *at)
{
    if (a->cut < 0 && thread > 0)
        return 0;
    for (int32_t i = 0; i < a->n; i++) {
        int64_t size = a->at[i].size;
        of[i] = (ct_range){0, size};
        if (i == a->cut)
            of[i] = (ct_range){cut_at(a, size, thread),
                               cut_at(a, size, thread + 1)};
        if (of[i].begin == of[i].end)
            return 0;
        at[i] = of[i].begin;
    }
    return 1;
}

int ct_ways_next(const ct_ways *a, const ct_range *of, int64_t *at)
{
    int32_t i = a->n - 3;
    while (i >= 0 && ++at[i] == of[i].end) {
        at[i] = of[i].begin;
        i--;
    }
    return i >= 0;
}

// -- Looking up --------------------------------------------------------------

ct_look ct_look_of(const dv_nest *n)
{
    return (ct_look){n->look - 1, dv_nest_dtype(n, DV_IN2), n->index_stride,
                     n->index_count};
}

static int64_t index_at(dv_dtype t, const unsigned char *in2, int64_t at)
{
    if (t == DV_I32)
        return ((const int32_t *)(const void *)in2)[at];
    return t == DV_I64 ? ((const int64_t *)(const void *)in2)[at]
                       : ((const int8_t *)in2)[at];
}

int ct_look_up(const ct_look *l, const unsigned char *in2, int64_t at,
               int64_t *off, ct_bad *bad)
{
    int64_t i = index_at(l->type, in2, at);
    if (i < 0 || i >= l->size) {
        atomic_store(&bad->index, i);
        atomic_store(&bad->found, 1);
        return 0;
    }
    *off = i * l->step;
    return 1;
}
