// The simulated machine's scratchpads: every home at its planned address on
// every core, and the copies that fill and store homes.
#include "base/math.h"
#include "layout/layout.h"
#include "sim/state.h"
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

// -- Copies ----------------------------------------------------------------

// The box that two have in common, as `a` has it; 0: there is none.
static int meet(dv_sim_place *a, const dv_sim_place *b)
{
    int any = a->any && b->any;
    for (int32_t d = 0; d < a->t->n_dims && any; d++) {
        a->lo[d] = dv_max_i64(a->lo[d], b->lo[d]);
        a->hi[d] = dv_min_i64(a->hi[d], b->hi[d]);
        any = a->lo[d] < a->hi[d];
    }
    return any;
}

// Copies all elements of a box from one place to another; how many they are.
static int64_t copy(const dv_sim_place *box, dv_sim_place *to,
                    dv_sim_place *from)
{
    int32_t last = box->t->n_dims - 1;
    int64_t at[DV_MAX_DIMS], n = 0;
    int64_t row = last < 0 ? 1 : box->hi[last] - box->lo[last];
    memcpy(at, box->lo, sizeof at);
    for (int32_t d = 0; d >= 0;) {
        int64_t flat = 0;
        for (int32_t i = 0; i <= last; i++)
            flat = flat * box->t->shape[i] + at[i];
        for (int64_t i = 0; i < row; i++, n++)
            memmove(dv_sim_at(to, flat + i), dv_sim_at(from, flat + i),
                    (size_t)box->l->elem_bytes);
        for (d = last - 1; d >= 0; d--) {
            if (++at[d] < box->hi[d])
                break;
            at[d] = box->lo[d];
        }
    }
    return n;
}

static dv_moved *counts_of(const dv_sim *m, int32_t op, int64_t core)
{
    return &m->by[op * m->plan->target.cores + core];
}

// Between a core's home and main memory.
static void exchange(dv_sim *m, int32_t op, int32_t home, int64_t core,
                     int store)
{
    int32_t tensor = m->plan->scratch.homes[home].tensor;
    dv_sim_place here = dv_sim_in_home(m, home, core);
    dv_sim_place there = dv_sim_in_memory(m, tensor, m->memory[tensor]);
    if (!here.any)
        return;
    int64_t n = copy(&here, store ? &there : &here, store ? &here : &there);
    for (int i = 0; i < 2; i++) {
        dv_moved *c = i ? counts_of(m, op, core) : &m->moved;
        *(store ? &c->write_elems : &c->read_elems) += n;
        *(store ? &c->write_bytes : &c->read_bytes) += n * here.l->elem_bytes;
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
    dv_sim_place need = dv_sim_in_home(m, home, core);
    for (int64_t from = 0; need.any && from < m->plan->target.cores; from++) {
        if (h->fill == DV_FILL_MOVED && from != core)
            continue;
        dv_sim_place has = dv_sim_in_home(m, h->from, from), both = has;
        if (!meet(&both, &need))
            continue;
        int64_t bytes = copy(&both, &need, &has) * need.l->elem_bytes;
        if (from == core)
            continue;
        m->moved.ring_bytes += bytes;
        counts_of(m, op, core)->ring_bytes += bytes;
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
