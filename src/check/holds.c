// Facts about what tensors hold; holds.h has the overview.
#include "check/holds.h"
#include "base/math.h"

// -- Boxes -------------------------------------------------------------------

static int64_t end_of(dv_range r)
{
    return r.off + r.size;
}

int dv_check_empty(const dv_box *b)
{
    for (int d = 0; d < b->n_dims; d++)
        if (b->dim[d].size <= 0)
            return 1;
    return 0;
}

dv_box dv_check_common(const dv_box *a, const dv_box *b)
{
    dv_box out = {.n_dims = a->n_dims};
    for (int d = 0; d < a->n_dims; d++) {
        int64_t lo = dv_max_i64(a->dim[d].off, b->dim[d].off);
        int64_t hi = dv_min_i64(end_of(a->dim[d]), end_of(b->dim[d]));
        out.dim[d] = (dv_range){lo, hi - lo};
    }
    return out;
}

dv_box dv_check_reach(const dv_program *p, const dv_op *op, const dv_access *a,
                      const int64_t *begin, const int64_t *end)
{
    dv_box out = {.n_dims = a->n_dims};
    for (int d = 0; d < a->n_dims; d++) {
        const dv_index *x = &a->index[d];
        int64_t lo = x->base, hi = x->base;
        for (int v = 0; v < op->n_vars && x->via < 0; v++) {
            int64_t first = x->coef[v] * begin[v];
            int64_t last = x->coef[v] * (end[v] - 1);
            lo += dv_min_i64(first, last);
            hi += dv_max_i64(first, last);
        }
        if (a->has_border) { // elements of the tensor only
            int64_t n = p->tensors[a->tensor].shape[d];
            lo = dv_max_i64(0, dv_min_i64(lo, n - 1));
            hi = dv_max_i64(0, dv_min_i64(hi, n - 1));
        }
        out.dim[d] = x->via < 0 ? (dv_range){lo, hi + 1 - lo}
                                : (dv_range){0, p->tensors[a->tensor].shape[d]};
    }
    return out;
}

int dv_check_same_box(const dv_box *a, const dv_box *b)
{
    for (int d = 0; d < a->n_dims; d++)
        if (a->dim[d].off != b->dim[d].off || a->dim[d].size != b->dim[d].size)
            return 0;
    return 1;
}

static dv_box moved(const dv_box *b, const int64_t *by, int sign)
{
    dv_box out = *b;
    for (int d = 0; d < b->n_dims; d++)
        out.dim[d].off += sign * by[d];
    return out;
}

static void push_box(dv_holds *h, dv_check_boxes *l, const dv_box *b)
{
    dv_box *room = DV_PUSH(h->arena, dv_box, l->at, l->n, l->cap);
    if (room)
        *room = *b;
    h->failed |= !room;
}

// Splits `whole` minus `cut`, which overlap, into disjoint boxes: at most one
// before `cut` and one after it per dim. Returns their number.
static int cut_out(dv_box *out, const dv_box *whole, const dv_box *cut)
{
    dv_box left = *whole;
    int n = 0;
    for (int d = 0; d < whole->n_dims; d++) {
        dv_range l = left.dim[d], c = cut->dim[d];
        if (c.off > l.off) {
            out[n] = left;
            out[n++].dim[d].size = c.off - l.off;
        }
        if (end_of(c) < end_of(l)) {
            out[n] = left;
            out[n++].dim[d] = (dv_range){end_of(c), end_of(l) - end_of(c)};
        }
        left.dim[d] = dv_check_common(&left, cut).dim[d];
    }
    return n;
}

static void subtract(dv_holds *h, dv_check_boxes *l, const dv_box *b)
{
    dv_box rest[2 * DV_MAX_DIMS];
    int32_t n = l->n, kept = 0;
    for (int32_t i = 0; i < n; i++) {
        dv_box whole = l->at[i], met = dv_check_common(&whole, b);
        int missed = dv_check_empty(&met);
        int n_rest = missed ? 0 : cut_out(rest, &whole, &met);
        if (missed)
            l->at[kept++] = whole;
        for (int k = 0; k < n_rest; k++)
            push_box(h, l, &rest[k]);
    }
    for (int32_t i = n; i < l->n; i++)
        l->at[kept++] = l->at[i];
    l->n = kept;
}

// -- Facts -------------------------------------------------------------------

void dv_holds_log(dv_holds *h, int32_t op, int64_t time)
{
    dv_write_log *l = &h->logs[h->p->ops[op].write.tensor];
    int32_t n = l->n;
    int64_t *at = DV_PUSH(h->arena, int64_t, l->times, n, l->cap_times);
    int32_t *by = DV_PUSH(h->arena, int32_t, l->ops, l->n, l->cap_ops);
    if (at)
        *at = time;
    if (by)
        *by = op;
    h->failed |= !at || !by;
}

void dv_holds_add(dv_holds *h, int32_t tensor, const dv_fact *like)
{
    dv_fact *f = h->unused ? h->unused : DV_NEW(h->arena, dv_fact, 1);
    if (!f) {
        h->failed = 1;
        return;
    }
    if (h->unused)
        h->unused = f->next;
    *f = *like;
    f->next = h->facts[tensor];
    h->facts[tensor] = f;
}

void dv_holds_free(dv_holds *h, dv_fact *list)
{
    while (list) {
        dv_fact *next = list->next;
        list->next = h->unused;
        h->unused = list;
        list = next;
    }
}

void dv_holds_forget(dv_holds *h, int32_t tensor, const dv_box *box)
{
    dv_fact *all = h->facts[tensor], *next;
    h->facts[tensor] = NULL;
    for (; all; all = next) {
        dv_box rest[2 * DV_MAX_DIMS], met = dv_check_common(&all->at, box);
        next = all->next;
        if (dv_check_empty(&met)) {
            all->next = h->facts[tensor];
            h->facts[tensor] = all;
            continue;
        }
        int n = cut_out(rest, &all->at, &met);
        for (int i = 0; i < n; i++) {
            dv_fact f = *all;
            f.at = rest[i];
            dv_holds_add(h, tensor, &f);
        }
        all->next = NULL;
        dv_holds_free(h, all);
    }
}

// Returns the number of the first write in a log at `time` or later.
static int32_t first_since(const dv_write_log *l, int64_t time)
{
    int32_t lo = 0, hi = l->n;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (l->times[mid] < time)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

// Returns the box of the team's tensor that this rank's part of an op writes;
// empty if the rank computes nothing of the op.
static dv_box writes_of(const dv_holds *h, int32_t op)
{
    const dv_op *o = &h->p->ops[op];
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
    if (!dv_check_target(h->p, h->t, op, h->coord, begin, end))
        return (dv_box){.n_dims = o->write.n_dims, .dim = {{0, 0}}};
    return dv_check_reach(h->p, o, &o->write, begin, end);
}

// Finds, in h->valid, the boxes for which a fact about the contents at f->time
// is also true at `time`, because no op in between writes them. If that is all
// of the fact's box, f->time becomes `time`.
static void find_valid(dv_holds *h, dv_fact *f, int64_t time)
{
    h->valid.n = 0;
    if (f->time == time)
        push_box(h, &h->valid, &f->at);
    if (f->time == time || f->of >= h->p->n_tensors)
        return;
    const dv_write_log *l = &h->logs[f->of];
    int32_t from = first_since(l, dv_min_i64(f->time, time));
    int32_t to = first_since(l, dv_max_i64(f->time, time));
    if (from == to) {
        f->time = time;
        push_box(h, &h->valid, &f->at);
        return;
    }
    dv_box mine = moved(&h->own[f->of], f->shift, -1);
    mine = dv_check_common(&f->at, &mine);
    if (!dv_check_empty(&mine))
        push_box(h, &h->valid, &mine);
    int touched = !dv_check_same_box(&mine, &f->at);
    for (int32_t i = from; i < to && h->valid.n; i++) {
        dv_box written = writes_of(h, l->ops[i]);
        written = moved(&written, f->shift, -1);
        dv_box met = dv_check_common(&written, &f->at);
        if (dv_check_empty(&met))
            continue;
        touched = 1;
        subtract(h, &h->valid, &written);
    }
    if (!touched)
        f->time = time;
}

int dv_holds_has(dv_holds *h, int32_t tensor, const dv_fact *want)
{
    h->left.n = 0;
    if (!dv_check_empty(&want->at))
        push_box(h, &h->left, &want->at);
    for (dv_fact *f = h->facts[tensor]; f && h->left.n && !h->failed;
         f = f->next) {
        int same = f->of == want->of;
        for (int d = 0; d < want->at.n_dims && same; d++)
            same = f->shift[d] == want->shift[d];
        if (!same)
            continue;
        find_valid(h, f, want->time);
        for (int32_t i = 0; i < h->valid.n; i++)
            subtract(h, &h->left, &h->valid.at[i]);
    }
    return !h->failed && h->left.n == 0;
}

void dv_holds_advance(dv_holds *h, int32_t tensor, int64_t time)
{
    dv_fact *all = h->facts[tensor];
    h->facts[tensor] = NULL;
    for (dv_fact *f = all; f; f = f->next) {
        dv_fact now = *f;
        if (f->of >= h->p->n_tensors)
            continue;
        find_valid(h, f, time);
        now.time = time;
        for (int32_t i = 0; i < h->valid.n; i++) {
            now.at = h->valid.at[i];
            dv_holds_add(h, tensor, &now);
        }
    }
    dv_holds_free(h, all);
}

dv_fact *dv_holds_copy(dv_holds *h, int32_t tensor)
{
    dv_fact *all = h->facts[tensor];
    h->facts[tensor] = NULL;
    for (const dv_fact *f = all; f; f = f->next)
        dv_holds_add(h, tensor, f);
    dv_fact *copy = h->facts[tensor];
    h->facts[tensor] = all;
    return copy;
}
