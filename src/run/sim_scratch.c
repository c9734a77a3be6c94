// The simulated machine's scratchpads: every home at its planned address on
// every core, and the copies that fill and store homes.
#include "base/math.h"
#include "layout/layout.h"
#include "run/sim_in.h"
#include <string.h>

// -- Creating --------------------------------------------------------------

// Homes by first op; where several are filled at once, moves within a core
// come first, then those between cores, then loads: none may overwrite what
// another one reads.
static int by_fill(const dv_home *h)
{
    return h->fill == DV_FILL_MOVED ? 0 : h->fill == DV_FILL_RING ? 1 : 2;
}

static void sort_homes(dv_sim *m)
{
    const dv_scratch *s = &m->plan->scratch;
    int32_t n_ops = m->plan->ops->n_ops;
    for (int32_t i = 0; i < s->n_homes; i++)
        m->filled_at[s->homes[i].first_op + 1]++;
    for (int32_t op = 0; op < n_ops; op++)
        m->filled_at[op + 1] += m->filled_at[op];
    int32_t *next = m->filled_at + n_ops + 1; // a copy to count up
    memcpy(next, m->filled_at, (size_t)n_ops * sizeof *next);
    for (int kind = 0; kind < 3; kind++)
        for (int32_t i = 0; i < s->n_homes; i++)
            if (by_fill(&s->homes[i]) == kind)
                m->order[next[s->homes[i].first_op]++] = i;
}

int dv_sim_scratch_create(dv_sim *m)
{
    const dv_scratch *s = &m->plan->scratch;
    const dv_plan *plan = m->plan;
    size_t n_ops = (size_t)plan->ops->n_ops, bytes;
    if (s->n_homes == 0)
        return 1;
    for (int32_t i = 0; i < s->n_homes; i++)
        m->scratch_bytes = dv_max_i64(
            m->scratch_bytes, s->homes[i].address + s->homes[i].core_bytes);
    if (__builtin_mul_overflow((size_t)m->scratch_bytes,
                               (size_t)plan->target.cores, &bytes))
        return 0;
    m->scratch = dv_alloc(bytes);
    m->group_of = DV_NEW(&m->arena, int32_t, n_ops);
    m->filled_at = DV_NEW(&m->arena, int32_t, 2 * n_ops + 2);
    m->order = DV_NEW(&m->arena, int32_t, s->n_homes);
    if (!m->scratch || !m->group_of || !m->filled_at || !m->order)
        return 0;
    for (int32_t g = 0; g < plan->n_groups; g++)
        for (int32_t i = plan->groups[g].first_op; i < plan->groups[g].end_op;
             i++)
            m->group_of[i] = g;
    sort_homes(m);
    return 1;
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
    const dv_home *h = &m->plan->scratch.homes[home];
    const dv_op *op = &m->plan->ops->ops[h->as_op];
    int k = op->n_reads; // its write, or else its first read of the tensor
    if (h->fill != DV_FILL_WRITTEN && op->write.tensor != h->tensor)
        for (k = 0; op->reads[k].tensor != h->tensor;)
            k++;
    dv_view v;
    out->any = !dv_view_make(&v, m->plan, m->group_of[h->as_op], h->as_op, k) &&
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
    if (!m->scratch)
        return;
    for (int32_t i = m->filled_at[op]; i < m->filled_at[op + 1]; i++) {
        const dv_home *h = &m->plan->scratch.homes[m->order[i]];
        for (int64_t c = 0; c < m->plan->target.cores; c++) {
            if (h->fill == DV_FILL_LOADED)
                exchange(m, op, m->order[i], c, 0);
            else if (h->fill != DV_FILL_WRITTEN)
                gather(m, op, m->order[i], c);
        }
    }
}

void dv_sim_store_homes(dv_sim *m, int32_t op)
{
    if (!m->scratch)
        return;
    for (int32_t i = m->filled_at[op]; i < m->filled_at[op + 1]; i++)
        for (int64_t c = 0; c < m->plan->target.cores; c++)
            if (m->plan->scratch.homes[m->order[i]].stored)
                exchange(m, op, m->order[i], c, 1);
}
