// Where elements are on the simulated machine: in main memory, or in a core's
// scratchpad. Those of one row lie evenly apart as far as a stick, a row of a
// tile, or the row itself goes: that run is remembered.
#include "base/math.h"
#include "layout/layout.h"
#include "sim/state.h"
#include <string.h>

dv_sim_place dv_sim_in_memory(const dv_sim *m, int32_t tensor,
                              unsigned char *memory)
{
    dv_sim_place p = {.t = &m->plan->ops->tensors[tensor],
                      .l = &m->layouts[tensor],
                      .start = memory,
                      .any = 1};
    memcpy(p.hi, p.t->shape, (size_t)p.t->n_dims * sizeof *p.hi);
    return p;
}

dv_sim_place dv_sim_in_home(const dv_sim *m, int32_t home, int64_t core)
{
    const dv_home *h = &m->plan->scratch.homes[home];
    dv_sim_place p = dv_sim_in_memory(
        m, h->tensor, m->scratch + core * m->scratch_bytes + h->address);
    dv_view v;
    p.is_home = 1;
    p.any = !dv_home_view(&v, m->plan, h) && dv_view_box(&v, core, p.lo, p.hi);
    return p;
}

static int64_t place_of(const dv_sim_place *p, const int64_t *at)
{
    return p->l->elem_bytes * (p->is_home ? dv_box_place(p->l, p->lo, p->hi, at)
                                          : dv_layout_place(p->l, at));
}

// Positions of the tensor's last dim that follow each other in the layout.
static int64_t even(const dv_sim_place *p)
{
    for (int32_t i = p->l->n_dims - 1; i >= 0; i--)
        if (p->l->host[i] == p->t->n_dims - 1)
            return p->l->size[i];
    return 1;
}

unsigned char *dv_sim_look(dv_sim_place *p, int64_t at)
{
    int64_t coords[DV_MAX_DIMS], rest = at;
    int32_t last = p->t->n_dims - 1;
    int inside = p->any;
    for (int32_t d = last; d >= 0; d--) {
        coords[d] = rest % p->t->shape[d];
        rest /= p->t->shape[d];
        inside = inside && coords[d] >= p->lo[d] && coords[d] < p->hi[d];
    }
    p->n = 0;
    if (!inside)
        return NULL;
    int64_t size = even(p), c = last < 0 ? 0 : coords[last];
    int64_t first = last < 0 ? 0 : dv_max_i64(c - c % size, p->lo[last]);
    int64_t end = last < 0 ? 1 : dv_min_i64(c - c % size + size, p->hi[last]);
    p->first = at - (c - first);
    p->n = (uint64_t)(end - first);
    if (last >= 0)
        coords[last] = first;
    int64_t here = place_of(p, coords);
    p->run = p->start + here;
    p->step = 0;
    if (end - first > 1) {
        coords[last]++;
        p->step = place_of(p, coords) - here;
    }
    return p->run + (c - first) * p->step;
}
