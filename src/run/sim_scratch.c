// The simulated machine's scratchpads: every home at its planned address on
// every core, and the copies that fill and store homes.
#include "base/math.h"
#include "layout/layout.h"
#include "run/sim_in.h"
#include <string.h>

// -- Creating --------------------------------------------------------------

int dv_sim_scratch_create(dv_sim *m)
{
    const dv_scratch *s = &m->plan->scratch;
    const dv_plan *plan = m->plan;
    size_t bytes;
    if (s->n_homes == 0)
        return 1;
    for (int32_t i = 0; i < s->n_homes; i++)
        m->scratch_bytes = dv_max_i64(
            m->scratch_bytes, s->homes[i].address + s->homes[i].core_bytes);
    if (__builtin_mul_overflow((size_t)m->scratch_bytes,
                               (size_t)plan->target.cores, &bytes))
        return 0;
    m->scratch = dv_alloc(bytes);
    return m->scratch != NULL;
}

void dv_sim_scratch_wipe(dv_sim *m)
{
    if (m->scratch)
        memset(m->scratch, DV_POISON,
               (size_t)m->scratch_bytes * (size_t)m->plan->target.cores);
}

// -- Elements --------------------------------------------------------------

void dv_sim_box_of(const dv_sim *m, int32_t home, int64_t core, dv_sim_box *out)
{
    dv_view v;
    out->any = !dv_home_view(&v, m->plan, &m->plan->scratch.homes[home]) &&
               dv_view_box(&v, core, out->lo, out->hi);
}

unsigned char *dv_sim_home_at(const dv_sim *m, int32_t home, int64_t core,
                              const dv_sim_box *box, const int64_t *coords)
{
    const dv_home *h = &m->plan->scratch.homes[home];
    const dv_layout *l = &m->layouts[h->tensor];
    int32_t n = m->plan->ops->tensors[h->tensor].n_dims;
    if (!box->any)
        return NULL;
    for (int32_t d = 0; d < n; d++)
        if (coords[d] < box->lo[d] || coords[d] >= box->hi[d])
            return NULL;
    return m->scratch + core * m->scratch_bytes + h->address +
           dv_box_place(l, box->lo, box->hi, coords) * l->elem_bytes;
}

// -- Copies ----------------------------------------------------------------

// Every coordinate of a box, one after the other.
static int step(const dv_sim_box *b, int32_t n_dims, int64_t *at)
{
    for (int32_t d = n_dims - 1; d >= 0; d--) {
        if (++at[d] < b->hi[d])
            return 1;
        at[d] = b->lo[d];
    }
    return 0;
}

static int meet(const dv_sim_box *a, const dv_sim_box *b, int32_t n_dims,
                dv_sim_box *out)
{
    out->any = a->any && b->any;
    for (int32_t d = 0; d < n_dims && out->any; d++) {
        out->lo[d] = dv_max_i64(a->lo[d], b->lo[d]);
        out->hi[d] = dv_min_i64(a->hi[d], b->hi[d]);
        out->any = out->lo[d] < out->hi[d];
    }
    return out->any;
}

static unsigned char *memory_at(const dv_sim *m, int32_t tensor,
                                const int64_t *at)
{
    const dv_layout *l = &m->layouts[tensor];
    return m->memory[tensor] + dv_layout_place(l, at) * l->elem_bytes;
}

static dv_moved *counts_of(const dv_sim *m, int32_t op, int64_t core)
{
    return &m->by[op * m->plan->target.cores + core];
}

// Between a core's home and main memory.
static void exchange(dv_sim *m, int32_t op, int32_t home, int64_t core,
                     int store)
{
    const dv_home *h = &m->plan->scratch.homes[home];
    int32_t n_dims = m->plan->ops->tensors[h->tensor].n_dims;
    int64_t at[DV_MAX_DIMS], n = 0;
    size_t bytes = (size_t)m->layouts[h->tensor].elem_bytes;
    dv_sim_box box;
    dv_sim_box_of(m, home, core, &box);
    if (!box.any)
        return;
    memcpy(at, box.lo, sizeof at);
    do {
        unsigned char *here = dv_sim_home_at(m, home, core, &box, at);
        unsigned char *there = memory_at(m, h->tensor, at);
        memcpy(store ? there : here, store ? here : there, bytes);
        n++;
    } while (step(&box, n_dims, at));
    for (int i = 0; i < 2; i++) {
        dv_moved *c = i ? counts_of(m, op, core) : &m->moved;
        *(store ? &c->write_elems : &c->read_elems) += n;
        *(store ? &c->write_bytes : &c->read_bytes) += n * (int64_t)bytes;
    }
}

// Within a core. Homes that are cut alike may overlap.
static void move(dv_sim *m, int32_t home, int64_t core)
{
    const dv_home *h = &m->plan->scratch.homes[home];
    const dv_home *from = &m->plan->scratch.homes[h->from];
    unsigned char *pad = m->scratch + core * m->scratch_bytes;
    memmove(pad + h->address, pad + from->address,
            (size_t)dv_min_i64(h->core_bytes, from->core_bytes));
}

// From the homes of all cores that have something of what this one needs.
static void gather(dv_sim *m, int32_t op, int32_t home, int64_t core)
{
    const dv_home *h = &m->plan->scratch.homes[home];
    int32_t n_dims = m->plan->ops->tensors[h->tensor].n_dims;
    size_t bytes = (size_t)m->layouts[h->tensor].elem_bytes;
    dv_sim_box need, has, both;
    dv_sim_box_of(m, home, core, &need);
    for (int64_t from = 0; need.any && from < m->plan->target.cores; from++) {
        int64_t at[DV_MAX_DIMS], n = 0;
        if (h->fill == DV_FILL_MOVED && from != core)
            continue;
        dv_sim_box_of(m, h->from, from, &has);
        if (!meet(&need, &has, n_dims, &both))
            continue;
        memcpy(at, both.lo, sizeof at);
        do {
            memmove(dv_sim_home_at(m, home, core, &need, at),
                    dv_sim_home_at(m, h->from, from, &has, at), bytes);
            n++;
        } while (step(&both, n_dims, at));
        if (from == core)
            continue;
        m->moved.ring_bytes += n * (int64_t)bytes;
        counts_of(m, op, core)->ring_bytes += n * (int64_t)bytes;
    }
}

void dv_sim_fill_homes(dv_sim *m, int32_t op)
{
    const dv_scratch *s = &m->plan->scratch;
    if (!m->scratch)
        return;
    for (int32_t i = s->fill_at[op]; i < s->fill_at[op + 1]; i++) {
        const dv_home *h = &s->homes[s->fill_order[i]];
        for (int64_t c = 0; c < m->plan->target.cores; c++) {
            if (h->fill == DV_FILL_LOADED)
                exchange(m, op, s->fill_order[i], c, 0);
            else if (h->fill == DV_FILL_MOVED &&
                     h->as_op == s->homes[h->from].as_op)
                move(m, s->fill_order[i], c);
            else if (h->fill != DV_FILL_WRITTEN)
                gather(m, op, s->fill_order[i], c);
        }
    }
}

void dv_sim_store_homes(dv_sim *m, int32_t op)
{
    const dv_scratch *s = &m->plan->scratch;
    if (!m->scratch)
        return;
    for (int32_t i = s->fill_at[op]; i < s->fill_at[op + 1]; i++)
        for (int64_t c = 0; c < m->plan->target.cores; c++)
            if (s->homes[s->fill_order[i]].stored)
                exchange(m, op, s->fill_order[i], c, 1);
}
