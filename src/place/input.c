// Builds a task (the checked input of the solvers) from the caller's buffers.
// All rules of the input are checked here, so that solvers may rely on them.
#include "base/math.h"
#include "base/plural.h"
#include "base/stop.h"
#include "place/place.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// Upper limit of all input numbers: sums of two of them, and one rounded up to
// a multiple of another, fit in int64_t.
#define MOST ((int64_t)1 << 60)
enum { MOST_BUFFERS = 1 << 28 };

typedef struct reader {
    const dv_buffer *in;
    size_t n;
    const dv_place_options *options;
    const dv_loc *locs;
    dv_diag *diag;
    dv_task *task;
} reader;

__attribute__((format(printf, 4, 5))) static dv_status
wrong(const reader *r, size_t i, dv_status status, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dv_loc at = r->locs ? r->locs[i] : DV_NOWHERE;
    const char *name = r->in[i].name;
    if (name)
        return dv_fail(r->diag, status, at, "buffer %.100s: %s", name, text);
    return dv_fail(r->diag, status, at, "buffer number %zu: %s", i, text);
}

static dv_status check_uses(const reader *r, size_t i)
{
    const dv_buffer *b = &r->in[i];
    for (size_t u = 1; u < b->n_uses; u++)
        if (b->uses[u].tick <= b->uses[u - 1].tick)
            return wrong(r, i, DV_E_BUFFER,
                         "uses must be strictly increasing, and %" PRId64
                         " comes after %" PRId64,
                         b->uses[u].tick, b->uses[u - 1].tick);
    // Only a nonempty lifetime is compared with the uses; check_range reports
    // empty ones.
    if (b->start < b->end &&
        (b->uses[0].tick < b->start || b->uses[b->n_uses - 1].tick >= b->end))
        return wrong(r, i, DV_E_BUFFER,
                     "uses at %" PRId64 "..%" PRId64 " leave its lifetime, "
                     "%" PRId64 "..%" PRId64,
                     b->uses[0].tick, b->uses[b->n_uses - 1].tick, b->start,
                     b->end - 1);
    return DV_OK;
}

static dv_status check_range(const reader *r, size_t i)
{
    const dv_buffer *b = &r->in[i];
    if (b->size_bytes <= 0)
        return wrong(r, i, DV_E_BUFFER, "its size is %" PRId64 ", not positive",
                     b->size_bytes);
    if (b->start >= b->end)
        return wrong(r, i, DV_E_BUFFER,
                     "it ends at %" PRId64 ", not after its start at %" PRId64,
                     b->end, b->start);
    if (b->align_bytes < 0)
        return wrong(r, i, DV_E_BUFFER, "its alignment is %" PRId64,
                     b->align_bytes);
    if (b->start < -MOST || b->end > MOST || b->size_bytes > MOST ||
        b->align_bytes > MOST || b->fixed_address > MOST || b->weight > MOST)
        return wrong(r, i, DV_E_OVERFLOW, "a number is beyond 2^60");
    if (b->group < 0)
        return wrong(r, i, DV_E_BUFFER, "its group is %" PRId32, b->group);
    return DV_OK;
}

static dv_status check_fixed(const reader *r, size_t i, const dv_item *it)
{
    const dv_buffer *b = &r->in[i];
    if (b->fixed_address < -1)
        return wrong(r, i, DV_E_BUFFER, "its fixed address is %" PRId64,
                     b->fixed_address);
    if (b->fixed_address < 0)
        return DV_OK;
    if (b->barred)
        return wrong(r, i, DV_E_BUFFER, "it has a fixed address and is barred");
    if (b->group)
        return wrong(r, i, DV_E_BUFFER,
                     "it has a fixed address and is in a group");
    if (b->fixed_address % it->align)
        return wrong(r, i, DV_E_BUFFER,
                     "its fixed address %" PRId64
                     " is no multiple of its alignment %" PRId64,
                     b->fixed_address, it->align);
    if (b->fixed_address + b->size_bytes > r->task->capacity)
        return wrong(r, i, DV_E_BUFFER,
                     "it ends at byte %" PRId64 ", the capacity is %" PRId64,
                     b->fixed_address + b->size_bytes, r->task->capacity);
    return DV_OK;
}

// Computes the main memory traffic saved by keeping the buffer resident: one
// transfer of the whole buffer per use, except the first read of a value that
// comes from outside. Returns 0 if the product overflows.
static int weigh(const dv_buffer *b, int64_t *weight)
{
    int64_t n = (int64_t)b->n_uses - (b->first_use_is_read != 0);
    *weight = b->weight;
    if (b->weight >= 0)
        return 1;
    return dv_mul_i64(weight, b->n_uses ? n : 1, b->size_bytes);
}

static dv_status read_one(const reader *r, size_t i)
{
    const dv_buffer *b = &r->in[i];
    dv_item *it = &r->task->items[i];
    if (b->n_uses)
        DV_TRY(check_uses(r, i));
    DV_TRY(check_range(r, i));
    int64_t align = r->options->align_bytes ? r->options->align_bytes : 1;
    *it = (dv_item){.start = b->start,
                    .end = b->end,
                    .size = b->size_bytes,
                    .align = b->align_bytes ? b->align_bytes : align,
                    .fixed = b->fixed_address,
                    .group = -1};
    it->doubled_uses =
        (b->n_uses ? 2 * (int64_t)b->n_uses : 4) + !b->first_use_is_read;
    it->in_play = !b->barred && b->fixed_address < 0 &&
                  b->size_bytes <= r->task->capacity;
    if (!weigh(b, &it->weight) || it->weight > MOST)
        return wrong(r, i, DV_E_OVERFLOW, "its weight is beyond 2^60");
    return check_fixed(r, i, it);
}

// Checks that parent p, whose address buffer i may take over, is read for the
// last time in the tick that writes buffer i. It follows that an address is not
// handed over twice in one tick and that parent links form no cycle.
static dv_status check_parent(const reader *r, size_t i, int32_t p)
{
    if (p < 0 || (size_t)p >= r->n || (size_t)p == i)
        return wrong(r, i, DV_E_BUFFER,
                     "its parent %" PRId32 " is no other buffer", p);
    const dv_buffer *b = &r->in[i], *parent = &r->in[p];
    if (b->first_use_is_read)
        return wrong(r, i, DV_E_BUFFER,
                     "its first use is a read, so it has no parent");
    if (parent->end != b->start + 1)
        return wrong(r, i, DV_E_BUFFER,
                     "its parent must end one tick after its start "
                     "(%" PRId64 " != %" PRId64 ")",
                     parent->end, b->start + 1);
    if (b->size_bytes > parent->size_bytes)
        return wrong(r, i, DV_E_BUFFER,
                     "it has %" PRId64 " bytes, its parent only %" PRId64,
                     b->size_bytes, parent->size_bytes);
    if (!parent->first_use_is_read &&
        (parent->n_uses == 1 || parent->start == b->start))
        return wrong(r, i, DV_E_BUFFER, "its parent is written and never read");
    return DV_OK;
}

// Returns whether buffer i can ever take over the address of its parent p: each
// of them must be allowed to be placed or have a fixed address.
static int linked(const dv_task *t, size_t i, int32_t p)
{
    const dv_item *c = &t->items[i], *q = &t->items[p];
    return (c->in_play || c->fixed >= 0) && (q->in_play || q->fixed >= 0);
}

static dv_status read_parents(const reader *r)
{
    dv_task *t = r->task;
    int32_t n_links = 0;
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < r->in[i].n_parents; k++) {
            int32_t p = r->in[i].parents[k];
            DV_TRY(check_parent(r, i, p));
            if (n_links > MOST_BUFFERS)
                return wrong(r, i, DV_E_LIMIT, "too many parents");
            if (!linked(t, i, p))
                continue;
            t->items[i].n_parents++;
            t->items[p].n_children++;
            n_links++;
        }
    t->links = DV_NEW(&t->arena, int32_t, 2 * (size_t)n_links);
    if (!t->links)
        return dv_nomem(r->diag);
    int32_t at = 0;
    for (size_t i = 0; i < r->n; i++) {
        t->items[i].parents = at;
        t->items[i].children = at += t->items[i].n_parents;
        at += t->items[i].n_children;
        t->items[i].n_children = 0;
    }
    for (size_t i = 0; i < r->n; i++) {
        int32_t *to = t->links + t->items[i].parents;
        for (size_t k = 0; k < r->in[i].n_parents; k++) {
            int32_t p = r->in[i].parents[k];
            if (!linked(t, i, p))
                continue;
            dv_item *q = &t->items[p];
            *to++ = p;
            t->links[q->children + q->n_children++] = (int32_t)i;
        }
    }
    return DV_OK;
}

typedef struct member {
    int32_t group, item;
} member;

static int by_group(const void *a, const void *b)
{
    const member *x = a, *y = b;
    return x->group != y->group ? (x->group < y->group ? -1 : 1)
                                : x->item - y->item;
}

// Excludes all items of group g from placement if any of them cannot be placed,
// because a group is placed as a whole or not at all.
static void close_group(dv_task *t, int32_t g)
{
    int in_play = 1;
    for (int32_t k = t->group_at[g]; k < t->group_at[g + 1]; k++)
        in_play &= t->items[t->members[k]].in_play;
    for (int32_t k = t->group_at[g]; k < t->group_at[g + 1]; k++)
        t->items[t->members[k]].in_play = in_play;
}

static dv_status read_groups(const reader *r)
{
    dv_task *t = r->task;
    int32_t n = 0;
    member *all = DV_NEW(&t->arena, member, r->n);
    if (!all)
        return dv_nomem(r->diag);
    for (size_t i = 0; i < r->n; i++)
        if (r->in[i].group)
            all[n++] = (member){r->in[i].group, (int32_t)i};
    if (n)
        qsort(all, (size_t)n, sizeof *all, by_group);
    t->members = DV_NEW(&t->arena, int32_t, n);
    t->group_at = DV_NEW(&t->arena, int32_t, n + 1);
    if (!t->members || !t->group_at)
        return dv_nomem(r->diag);
    for (int32_t k = 0; k < n; k++) {
        if (k == 0 || all[k].group != all[k - 1].group)
            t->group_at[t->n_groups++] = k;
        t->members[k] = all[k].item;
        t->items[all[k].item].group = t->n_groups - 1;
    }
    t->group_at[t->n_groups] = n;
    for (int32_t g = 0; g < t->n_groups; g++)
        close_group(t, g);
    return DV_OK;
}

static int is_parent(const dv_task *t, int32_t p, int32_t child)
{
    const dv_item *it = &t->items[child];
    for (int32_t k = 0; k < it->n_parents; k++)
        if (t->links[it->parents + k] == p)
            return 1;
    return 0;
}

// Reports two fixed buffers with overlapping lifetimes and bytes, unless one is
// the in-place parent of the other at the same address.
static dv_status check_collision(const reader *r, int32_t i, int32_t k)
{
    const dv_item *a = &r->task->items[i], *b = &r->task->items[k];
    if (a->fixed >= b->fixed + b->size || b->fixed >= a->fixed + a->size)
        return DV_OK;
    if (a->fixed == b->fixed &&
        (is_parent(r->task, i, k) || is_parent(r->task, k, i)))
        return DV_OK;
    const char *other = r->in[k].name;
    return wrong(r, (size_t)i, DV_E_BUFFER,
                 "fixed at %" PRId64 ", it shares bytes with %.100s, which is "
                 "fixed at %" PRId64,
                 a->fixed, other ? other : "another buffer", b->fixed);
}

int dv_by_key(const void *a, const void *b)
{
    const dv_keyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->item - y->item;
}

static dv_status read_fixed(const reader *r)
{
    dv_task *t = r->task;
    for (int32_t i = 0; i < t->n; i++)
        t->n_fixed += t->items[i].fixed >= 0;
    if (t->n_fixed == 0)
        return DV_OK;
    t->fixed = DV_NEW(&t->arena, int32_t, t->n_fixed);
    dv_keyed *order = DV_NEW(&t->arena, dv_keyed, t->n_fixed);
    int32_t *overlapping = DV_NEW(&t->arena, int32_t, t->n), n = 0;
    dv_live live;
    if (!t->fixed || !order || !overlapping ||
        !dv_live_init(&live, t, &t->arena))
        return dv_nomem(r->diag);
    for (int32_t i = 0; i < t->n; i++) {
        if (t->items[i].fixed < 0)
            continue;
        int32_t k = dv_live_find(&live, t->items[i].start, t->items[i].end,
                                 overlapping);
        while (k-- > 0)
            DV_TRY(check_collision(r, i, overlapping[k]));
        dv_live_add(&live, i);
        order[n++] = (dv_keyed){t->items[i].fixed, i};
    }
    qsort(order, (size_t)n, sizeof *order, dv_by_key);
    for (int32_t k = 0; k < n; k++)
        t->fixed[k] = order[k].item;
    return DV_OK;
}

static dv_status check_totals(const reader *r)
{
    int64_t bytes = 0, weight = 0;
    dv_task *t = r->task;
    for (int32_t i = 0; i < t->n; i++) {
        if (!dv_add_i64(&bytes, bytes, t->items[i].size) || bytes > MOST ||
            !dv_add_i64(&weight, weight, t->items[i].weight) || weight > MOST)
            return wrong(r, (size_t)i, DV_E_OVERFLOW,
                         "with it, all sizes or weights add up to more than "
                         "2^60");
        if (t->items[i].in_play || t->items[i].fixed >= 0)
            t->unit = dv_gcd(t->items[i].align, t->unit);
    }
    if (t->unit == 0)
        t->unit = 1;
    return DV_OK;
}

static dv_status read_all(const reader *r)
{
    const dv_place_options *o = r->options;
    dv_task *t = r->task;
    if (o->capacity_bytes < 0 || o->capacity_bytes > MOST)
        return dv_fail(r->diag, DV_E_USAGE, DV_NOWHERE,
                       "the capacity is %" PRId64 ", not in 0..2^60",
                       o->capacity_bytes);
    if (o->align_bytes < 0 || o->align_bytes > MOST)
        return dv_fail(r->diag, DV_E_USAGE, DV_NOWHERE,
                       "the alignment is %" PRId64 ", not in 0..2^60",
                       o->align_bytes);
    if (o->budget < 0 || !(o->time_limit_s >= 0))
        return dv_fail(r->diag, DV_E_USAGE, DV_NOWHERE,
                       "a budget of %" PRId64 " step%s and %g seconds",
                       o->budget, DV_PLURAL(o->budget, "", "s"),
                       o->time_limit_s);
    if (r->n > MOST_BUFFERS)
        return dv_fail(r->diag, DV_E_LIMIT, DV_NOWHERE,
                       "%zu buffers are more than %d", r->n, MOST_BUFFERS);
    t->n = (int32_t)r->n;
    t->capacity = o->capacity_bytes;
    t->items = DV_NEW(&t->arena, dv_item, r->n);
    if (!t->items)
        return dv_nomem(r->diag);
    for (size_t i = 0; i < r->n; i++)
        DV_TRY(read_one(r, i));
    DV_TRY(read_groups(r));
    DV_TRY(read_parents(r));
    DV_TRY(check_totals(r));
    return read_fixed(r);
}

dv_status dv_task_create(dv_task *out, const dv_buffer *buffers, size_t n,
                         const dv_place_options *options, const dv_loc *locs,
                         dv_diag *diag)
{
    *out = (dv_task){.unit = 0};
    reader r = {buffers, n, options, locs, diag, out};
    dv_status s = read_all(&r);
    if (s != DV_OK)
        dv_task_free(out);
    return s;
}

void dv_task_free(dv_task *task)
{
    dv_arena_free(&task->arena);
}

void dv_drop_broken_groups(const dv_task *task, int64_t *at)
{
    for (int32_t g = 0; g < task->n_groups; g++) {
        const int32_t *k = task->members + task->group_at[g];
        const int32_t *end = task->members + task->group_at[g + 1];
        int whole = 1;
        for (const int32_t *m = k; m < end; m++)
            whole &= at[*m] >= 0;
        for (; k < end && !whole; k++)
            at[*k] = -1;
    }
}

int64_t dv_placed_weight(const dv_task *task, const int64_t *at)
{
    int64_t value = 0;
    for (int32_t i = 0; i < task->n; i++)
        value += at[i] >= 0 ? task->items[i].weight : 0;
    return value;
}

int64_t dv_place_capacity(int64_t memory_bytes, double taken, int64_t align)
{
    if (!(taken >= 0 && taken <= 1))
        return -1;
    double left = floor((double)memory_bytes * (1 - taken));
    return dv_round_up((int64_t)left, align);
}

int dv_deadline_passed(const dv_effort *effort)
{
    return (effort->until_s > 0 && dv_clock_s() > effort->until_s) ||
           dv_stop_late() || dv_stop_wanted();
}
