// Boxes, and lists of disjoint boxes.
#include "base/math.h"
#include "dist/dist.h"

static int64_t end_of(dv_range r)
{
    return r.off + r.size;
}

int dv_box_empty(const dv_box *b)
{
    for (int d = 0; d < b->n_dims; d++)
        if (b->dim[d].size <= 0)
            return 1;
    return 0;
}

int64_t dv_box_elems(const dv_box *b)
{
    int64_t n = 1;
    for (int d = 0; d < b->n_dims; d++)
        n *= dv_max_i64(b->dim[d].size, 0);
    return n;
}

dv_box dv_box_whole(int n_dims, const int64_t *shape)
{
    dv_box b = {.n_dims = n_dims};
    for (int d = 0; d < n_dims; d++)
        b.dim[d] = (dv_range){0, shape[d]};
    return b;
}

int dv_box_next(const dv_box *b, int64_t *at, int n_dims)
{
    for (int d = n_dims - 1; d >= 0; d--) {
        if (++at[d] < b->dim[d].off + b->dim[d].size)
            return 1;
        at[d] = b->dim[d].off;
    }
    return 0;
}

dv_box dv_box_inner(const dv_box *a, const dv_box *b)
{
    dv_box out = {.n_dims = a->n_dims};
    for (int d = 0; d < a->n_dims; d++)
        out.dim[d] = dv_dist_intersection(a->dim[d], b->dim[d]);
    return out;
}

dv_box dv_box_hull(const dv_box *a, const dv_box *b)
{
    if (dv_box_empty(a))
        return *b;
    if (dv_box_empty(b))
        return *a;
    dv_box out = {.n_dims = a->n_dims};
    for (int d = 0; d < a->n_dims; d++)
        out.dim[d] = dv_dist_hull(a->dim[d], b->dim[d]);
    return out;
}

int dv_box_in(const dv_box *a, const dv_box *b)
{
    if (dv_box_empty(a))
        return 1;
    for (int d = 0; d < a->n_dims; d++)
        if (a->dim[d].off < b->dim[d].off ||
            end_of(a->dim[d]) > end_of(b->dim[d]))
            return 0;
    return 1;
}

// For each dim in turn, emits the pieces of the target (what a rank computes)
// before and after the core (the interior that needs no received elements), and
// continues with the middle piece.
int dv_dist_edges(dv_box out[2 * DV_MAX_DIMS], const dv_box *target,
                  const dv_box *core)
{
    dv_box left = *target;
    int n = 0;
    if (dv_box_empty(target))
        return 0;
    if (dv_box_empty(core)) {
        out[0] = *target;
        return 1;
    }
    for (int d = 0; d < target->n_dims; d++) {
        dv_range t = left.dim[d], c = core->dim[d];
        if (c.off > t.off) {
            out[n] = left;
            out[n++].dim[d] = (dv_range){t.off, c.off - t.off};
        }
        if (end_of(c) < end_of(t)) {
            out[n] = left;
            out[n++].dim[d] = (dv_range){end_of(c), end_of(t) - end_of(c)};
        }
        left.dim[d] = c;
    }
    return n;
}

int dv_boxes_push(dv_boxes *to, const dv_box *b, dv_arena *arena)
{
    if (dv_box_empty(b))
        return 1;
    dv_box *room = DV_PUSH(arena, dv_box, to->at, to->n, to->cap);
    if (!room)
        return 0;
    *room = *b;
    return 1;
}

int dv_boxes_subtract(dv_boxes *from, const dv_box *b, dv_arena *arena)
{
    int32_t n = from->n; // boxes appended below are already disjoint from b
    for (int32_t i = 0; i < n; i++) {
        dv_box whole = from->at[i], met = dv_box_inner(&whole, b);
        if (dv_box_empty(&met))
            continue;
        dv_box edges[2 * DV_MAX_DIMS];
        int n_edges = dv_dist_edges(edges, &whole, &met);
        // If nothing of this box lies outside b, remove it by moving a box from
        // the end of the list into its place.
        if (n_edges == 0) {
            from->at[i--] = from->at[--n];
            from->at[n] = from->at[--from->n];
            continue;
        }
        from->at[i] = edges[0];
        for (int e = 1; e < n_edges; e++)
            if (!dv_boxes_push(from, &edges[e], arena))
                return 0;
    }
    return 1;
}

int dv_boxes_add(dv_boxes *to, const dv_box *b, dv_arena *arena)
{
    dv_boxes fresh = {0};
    if (!dv_boxes_push(&fresh, b, arena))
        return 0;
    for (int32_t i = 0; i < to->n && fresh.n; i++)
        if (!dv_boxes_subtract(&fresh, &to->at[i], arena))
            return 0;
    for (int32_t i = 0; i < fresh.n; i++)
        if (!dv_boxes_push(to, &fresh.at[i], arena))
            return 0;
    return 1;
}

// If two boxes differ in one dim only and are adjacent along it, returns 1 and
// their union.
static int touch(const dv_box *a, const dv_box *b, dv_box *both)
{
    int along = -1;
    for (int d = 0; d < a->n_dims; d++) {
        if (a->dim[d].off == b->dim[d].off && a->dim[d].size == b->dim[d].size)
            continue;
        if (along >= 0 || (end_of(a->dim[d]) != b->dim[d].off &&
                           end_of(b->dim[d]) != a->dim[d].off))
            return 0;
        along = d;
    }
    *both = dv_box_hull(a, b);
    return along >= 0;
}

void dv_boxes_join(dv_boxes *l)
{
    // Longer lists are not merged, because comparing all pairs would take
    // longer than it saves.
    enum { FEW = 64 };
    for (int again = l->n <= FEW; again;) {
        again = 0;
        for (int32_t i = 0; i < l->n; i++)
            for (int32_t k = i + 1; k < l->n; k++)
                if (touch(&l->at[i], &l->at[k], &l->at[i])) {
                    l->at[k--] = l->at[--l->n];
                    again = 1;
                }
    }
}

int64_t dv_boxes_elems(const dv_boxes *l)
{
    int64_t n = 0;
    for (int32_t i = 0; i < l->n; i++)
        n += dv_box_elems(&l->at[i]);
    return n;
}
