// Converts items (buffers to place) to rectangles of lifetime and size. If the
// capacity is a multiple of the task's address unit (the gcd of all
// alignments), sizes are rounded up to the unit, and an alignment equal to the
// unit needs no further care; otherwise the packing search handles alignments.
#include "place/rects.h"
#include <stdlib.h>

typedef struct turn {
    int64_t start;
    int32_t turn, item;
} turn;

static int by_start(const void *a, const void *b)
{
    const turn *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->turn - y->turn;
}

static void order_chain(dv_rects *r, turn *all, int32_t *waits)
{
    const dv_task *t = r->t;
    int32_t n = 0;
    for (int32_t i = 0; i < t->n; i++)
        if ((waits[i] = t->items[i].n_parents) == 0)
            r->chain[n++] = i;
    for (int32_t k = 0; k < n; k++) {
        const dv_item *it = &t->items[r->chain[k]];
        all[k] = (turn){it->start, k, r->chain[k]};
        for (int32_t c = 0; c < it->n_children; c++)
            if (--waits[t->links[it->children + c]] == 0)
                r->chain[n++] = t->links[it->children + c];
    }
    if (n)
        qsort(all, (size_t)n, sizeof *all, by_start);
    for (int32_t k = 0; k < n; k++)
        r->chain[k] = all[k].item;
}

int dv_rects_init(dv_rects *r, const dv_task *t, dv_arena *a)
{
    turn *all = DV_NEW(a, turn, t->n);
    *r = (dv_rects){.t = t,
                    .rects = DV_NEW(a, dv_rect, t->n),
                    .rect_of = DV_NEW(a, int32_t, t->n),
                    .chain = DV_NEW(a, int32_t, t->n)};
    if (!all || !r->rects || !r->rect_of || !r->chain)
        return 0;
    order_chain(r, all, r->rect_of);
    return 1;
}

static dv_rect rect_of(const dv_task *t, const dv_item *it)
{
    int rounded = !t->minimizes_capacity && t->capacity % t->unit == 0;
    return (dv_rect){.start = it->start,
                     .end = it->end,
                     .size =
                         rounded ? dv_round_up(it->size, t->unit) : it->size,
                     .align = rounded && it->align == t->unit ? 1 : it->align,
                     .fixed = it->fixed,
                     .address = -1};
}

void dv_rects_from_choice(dv_rects *r, const dv_choice *choice)
{
    const dv_task *t = r->t;
    r->n = 0;
    for (int32_t k = 0; k < t->n; k++) {
        int32_t i = r->chain[k];
        const dv_item *it = &t->items[i];
        r->rect_of[i] = -1;
        if (it->fixed < 0 && !choice->keep[i])
            continue;
        int32_t over = it->fixed < 0 ? choice->over[i] : -1;
        if (over >= 0) {
            r->rect_of[i] = r->rect_of[over];
            r->rects[r->rect_of[i]].end = it->end;
            continue;
        }
        r->rect_of[i] = r->n;
        r->rects[r->n++] = rect_of(t, it);
    }
}

int dv_rects_choose_all(const dv_rects *r, dv_choice *out)
{
    const dv_task *t = r->t;
    int any = 0;
    // r->chain lists parents before the children that may take over their
    // address. keep[i] is nonzero if item i is chosen; in this loop it is 2 if
    // a child has already taken over its address.
    for (int32_t k = 0; k < t->n; k++) {
        int32_t i = r->chain[k];
        const dv_item *it = &t->items[i];
        out->keep[i] = (char)it->in_play;
        out->over[i] = -1;
        for (int32_t p = 0; it->in_play && p < it->n_parents; p++) {
            int32_t parent = t->links[it->parents + p];
            if (out->keep[parent] != 1 || t->items[parent].size != it->size ||
                t->items[parent].align % it->align)
                continue;
            out->keep[parent] = 2;
            out->over[i] = parent;
            any = 1;
            break;
        }
    }
    for (int32_t i = 0; i < t->n; i++)
        out->keep[i] = out->keep[i] != 0;
    return any;
}

void dv_rects_store_addresses(const dv_rects *r, int64_t *at)
{
    for (int32_t i = 0; i < r->t->n; i++) {
        int32_t k = r->rect_of[i];
        at[i] = k < 0 ? -1 : r->rects[k].address;
    }
}
