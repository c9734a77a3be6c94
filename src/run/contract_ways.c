#include "run/contract_ways.h"
#include "base/math.h"
#include "jit/vec.h"
#include <stdlib.h>

void ct_ways_add(ct_ways *a, ct_way x,
                 int (*before)(const ct_way *x, const ct_way *y))
{
    if (x.is_k ? x.from < 0 : x.to < 0) {
        a->from_off += x.from * (x.size - 1);
        a->with_off += x.with * (x.size - 1);
        a->to_off += x.to * (x.size - 1);
        x.from = -x.from;
        x.with = -x.with;
        x.to = -x.to;
    }
    int32_t i = a->n++;
    for (; i > 0 && before(&x, &a->at[i - 1]); i--)
        a->at[i] = a->at[i - 1];
    a->at[i] = x;
}

void ct_ways_join(ct_ways *a)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < a->n; i++) {
        ct_way x = a->at[i];
        const ct_way *o = kept ? &a->at[kept - 1] : NULL;
        if (o && o->is_k == x.is_k && o->from == x.from * x.size &&
            o->with == x.with * x.size && o->to == x.to * x.size) {
            x.size *= o->size;
            a->at[kept - 1] = x;
        } else {
            a->at[kept++] = x;
        }
    }
    a->n = kept;
}

int ct_way_is_near(const ct_way *x)
{
    return llabs(x->from) <= DV_VEC_MAX_STRIDE &&
           llabs(x->with) <= DV_VEC_MAX_STRIDE && x->to <= DV_VEC_MAX_STRIDE;
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
