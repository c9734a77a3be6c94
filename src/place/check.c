// Verifies placements with simple loops over pairs of stays (intervals of a
// buffer at one address) that overlap in time, using only the buffers and the
// placement. It shares no code with the solvers. The rules S1 to S5 are in
// docs/invariants.md.
#include "divvy/place.h"
#include "base/options.h"
#include "base/diag.h"
#include "base/mem.h"
#include <inttypes.h>
#include <stdlib.h>

typedef struct judge {
    const dv_placement *p;
    const dv_buffer *in;
    const dv_place_options *o;
    dv_diag *diag;
    // For each buffer, 1 if another buffer has already taken over its address
    // (in-place reuse, which only one may do).
    char *handed;
} judge;

static const char *name_of(const judge *j, int32_t b)
{
    return j->in[b].name ? j->in[b].name : "(no name)";
}

#define WRONG(j, ...) dv_fail((j)->diag, DV_E_CHECK, DV_NOWHERE, __VA_ARGS__)

static dv_status check_stay(const judge *j, const dv_stay *s)
{
    if (s->buffer < 0 || (size_t)s->buffer >= j->p->n_buffers)
        return WRONG(j, "a stay of buffer %" PRId32 ", there is none",
                     s->buffer);
    const dv_buffer *b = &j->in[s->buffer];
    const char *name = name_of(j, s->buffer);
    int64_t align = b->align_bytes      ? b->align_bytes
                    : j->o->align_bytes ? j->o->align_bytes
                                        : 1;
    if (s->start < b->start || s->end > b->end || s->start >= s->end)
        return WRONG(j,
                     "%s stays in %" PRId64 "..%" PRId64
                     ", it lives in %" PRId64 "..%" PRId64,
                     name, s->start, s->end, b->start, b->end);
    if (s->address < 0 || s->address % align)
        return WRONG(j, "%s is at %" PRId64 ", its alignment is %" PRId64, name,
                     s->address, align);
    if (s->address > j->o->capacity_bytes - b->size_bytes)
        return WRONG(j, "%s ends at byte %" PRId64 ", the capacity is %" PRId64,
                     name, s->address + b->size_bytes, j->o->capacity_bytes);
    if (b->barred)
        return WRONG(j, "%s is placed and barred: %s", name, b->barred);
    if (b->fixed_address >= 0 && s->address != b->fixed_address)
        return WRONG(j, "%s is at %" PRId64 ", its fixed address is %" PRId64,
                     name, s->address, b->fixed_address);
    return DV_OK;
}

// Checks that a stay (an interval in which a buffer is at one address) covers
// the buffer's whole lifetime or, if eviction is allowed, begins and ends at
// uses.
static dv_status check_span(const judge *j, const dv_stay *s)
{
    const dv_buffer *b = &j->in[s->buffer];
    if (s->start == b->start && s->end == b->end)
        return DV_OK;
    int begins = s->start == b->start, ends = s->end == b->end;
    for (size_t u = 0; u < b->n_uses; u++) {
        begins |= b->uses[u].tick == s->start;
        ends |= b->uses[u].tick + 1 == s->end;
    }
    if (!j->o->evict || b->fixed_address >= 0 || b->group || !begins || !ends)
        return WRONG(j,
                     "%s stays in %" PRId64 "..%" PRId64
                     ", which is no part of its life between uses",
                     name_of(j, s->buffer), s->start, s->end);
    return DV_OK;
}

static dv_status check_order(const judge *j, const dv_stay *s)
{
    if (s == j->p->stays || s->buffer > s[-1].buffer)
        return DV_OK;
    if (s->buffer == s[-1].buffer && s->start > s[-1].start)
        return DV_OK;
    return WRONG(j, "the stays of %s are out of order", name_of(j, s->buffer));
}

// Checks that the address and reason of every buffer agree with its stays, the
// intervals in which it is at one address (rule S5).
static dv_status check_lists(const judge *j)
{
    const dv_placement *p = j->p;
    size_t k = 0;
    for (size_t i = 0; i < p->n_buffers; i++) {
        int64_t at = -1;
        if (k < p->n_stays && p->stays[k].buffer == (int32_t)i)
            at = p->stays[k].address;
        while (k < p->n_stays && p->stays[k].buffer == (int32_t)i)
            k++;
        const char *name = name_of(j, (int32_t)i);
        if (p->addresses[i] != at)
            return WRONG(j, "%s is at %" PRId64 ", its stay at %" PRId64, name,
                         p->addresses[i], at);
        if ((at < 0) != (p->reasons[i] != NULL))
            return WRONG(j, "%s is %s a reason", name,
                         at < 0 ? "out without" : "placed and has");
        if (at < 0 && j->in[i].fixed_address >= 0)
            return WRONG(j, "%s is fixed and out", name);
    }
    return DV_OK;
}

typedef struct member {
    int32_t group;
    size_t i;
} member;

static int by_group(const void *a, const void *b)
{
    const member *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

static dv_status check_groups(const judge *j)
{
    size_t n = 0;
    member *all = dv_alloc(j->p->n_buffers * sizeof *all);
    if (!all)
        return dv_nomem(j->diag);
    for (size_t i = 0; i < j->p->n_buffers; i++)
        if (j->in[i].group)
            all[n++] = (member){j->in[i].group, i};
    qsort(all, n, sizeof *all, by_group);
    dv_status st = DV_OK;
    for (size_t k = 1; k < n && st == DV_OK; k++) {
        size_t a = all[k - 1].i, b = all[k].i;
        if (all[k].group == all[k - 1].group &&
            (j->p->addresses[a] < 0) != (j->p->addresses[b] < 0))
            st = WRONG(j, "of group %" PRId32 " %s and %s are not together",
                       all[k].group, name_of(j, (int32_t)a),
                       name_of(j, (int32_t)b));
    }
    dv_release(all);
    return st;
}

static int declares(const dv_buffer *child, int32_t parent)
{
    for (size_t k = 0; k < child->n_parents; k++)
        if (child->parents[k] == parent)
            return 1;
    return 0;
}

// Returns whether two overlapping stays (intervals of a buffer at one address)
// are a legal in-place reuse: the last tick of `from` is the first tick of
// `to`, both have the same address, `to` declares `from` as parent, and no
// other child has reused that address. Two consecutive stays of one buffer may
// overlap in the same way.
static int hands_over(const judge *j, const dv_stay *from, const dv_stay *to)
{
    if (from->address != to->address || from->end != to->start + 1)
        return 0;
    if (from->buffer == to->buffer)
        return 1;
    if (!declares(&j->in[to->buffer], from->buffer) ||
        from->end != j->in[from->buffer].end ||
        to->start != j->in[to->buffer].start || j->handed[from->buffer])
        return 0;
    j->handed[from->buffer] = 1;
    return 1;
}

static dv_status check_pair(const judge *j, const dv_stay *a, const dv_stay *b)
{
    int64_t a_size = j->in[a->buffer].size_bytes;
    int64_t b_size = j->in[b->buffer].size_bytes;
    if (a->address >= b->address + b_size || b->address >= a->address + a_size)
        return DV_OK;
    if (hands_over(j, a, b) || hands_over(j, b, a))
        return DV_OK;
    return WRONG(j, "%s and %s share bytes in %" PRId64 "..%" PRId64,
                 name_of(j, a->buffer), name_of(j, b->buffer),
                 a->start > b->start ? a->start : b->start,
                 a->end < b->end ? a->end : b->end);
}

static int by_start(const void *a, const void *b)
{
    const dv_stay *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->buffer - y->buffer;
}

// Checks rule S1: two stays (intervals of a buffer at one address) that overlap
// in time share no byte. Sweeps over the stays sorted by start, with a list of
// those still live.
static dv_status check_pairs(const judge *j)
{
    size_t n = j->p->n_stays, n_alive = 0;
    dv_stay *s = dv_alloc(n * sizeof *s), *alive = dv_alloc(n * sizeof *s);
    dv_status st = s && alive ? DV_OK : dv_nomem(j->diag);
    for (size_t k = 0; k < n && st == DV_OK; k++)
        s[k] = j->p->stays[k];
    if (st == DV_OK)
        qsort(s, n, sizeof *s, by_start);
    for (size_t k = 0; k < n && st == DV_OK; k++) {
        size_t m = 0;
        for (size_t i = 0; i < n_alive; i++)
            if (alive[i].end > s[k].start)
                alive[m++] = alive[i];
        for (size_t i = 0; i < m && st == DV_OK; i++)
            st = check_pair(j, &alive[i], &s[k]);
        alive[m] = s[k];
        n_alive = m + 1;
    }
    dv_release(s);
    dv_release(alive);
    return st;
}

static dv_status check_peak(const judge *j)
{
    int64_t peak = 0;
    for (size_t k = 0; k < j->p->n_stays; k++) {
        const dv_stay *s = &j->p->stays[k];
        int64_t top = s->address + j->in[s->buffer].size_bytes;
        peak = top > peak ? top : peak;
    }
    if (peak != j->p->peak_bytes)
        return WRONG(j, "the peak is %" PRId64 ", not %" PRId64, peak,
                     j->p->peak_bytes);
    return DV_OK;
}

static dv_status check_all(const judge *j)
{
    for (size_t k = 0; k < j->p->n_stays; k++) {
        DV_TRY(check_stay(j, &j->p->stays[k]));
        DV_TRY(check_span(j, &j->p->stays[k]));
        DV_TRY(check_order(j, &j->p->stays[k]));
    }
    DV_TRY(check_lists(j));
    DV_TRY(check_groups(j));
    DV_TRY(check_pairs(j));
    return check_peak(j);
}

dv_status dv_placement_check(const dv_placement *placement,
                             const dv_buffer *buffers,
                             const dv_place_options *options, dv_diag *diag)
{
    dv_place_options o = DV_PLACE_OPTIONS_INIT;
    DV_TRY(dv_options_read(&o, sizeof o, options, "dv_place_options", diag));
    judge j = {placement, buffers, &o, diag, NULL};
    j.handed = dv_alloc(placement->n_buffers);
    if (!j.handed)
        return dv_nomem(diag);
    for (size_t i = 0; i < placement->n_buffers; i++)
        j.handed[i] = 0;
    dv_status st = check_all(&j);
    dv_release(j.handed);
    return st;
}
