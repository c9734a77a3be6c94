#include "plan/view.h"
#include "base/math.h"

// Returns whether some core has two deals (ranges of tiles) of a group.
static int deals_twice(const dv_group *g)
{
    for (int32_t d = 0; d < g->n_deals; d++)
        for (int32_t e = 0; e < d; e++)
            if (g->deals[d].core == g->deals[e].core)
                return 1;
    return 0;
}

void dv_group_note_deals(dv_group *g)
{
    int many = 0, ascends = 1, in_order = 1;
    g->n_dealt = 0;
    for (int32_t d = 0; d < g->n_deals; d++) {
        g->n_dealt = dv_add_most_i64(g->n_dealt, g->deals[d].n_tiles);
        many |= g->deals[d].n_tiles > 1;
        in_order &= g->deals[d].core == d;
        ascends &= d == 0 || g->deals[d - 1].core < g->deals[d].core;
    }
    g->in_order = (uint8_t)in_order;
    g->loops = many || (!ascends && deals_twice(g));
}

void dv_group_deal_like(dv_group *g, const dv_group *from)
{
    g->n_tiles = from->n_tiles;
    g->deals = from->deals;
    g->n_deals = from->n_deals;
    g->loops = from->loops;
    g->in_order = from->in_order;
    g->n_dealt = from->n_dealt;
}

int64_t dv_group_tile(const dv_group *g, int64_t core, int64_t round)
{
    for (int32_t d = 0; d < g->n_deals; d++) {
        if (g->deals[d].core != core)
            continue;
        if (round < g->deals[d].n_tiles)
            return g->deals[d].first_tile + round;
        round -= g->deals[d].n_tiles;
    }
    return -1;
}

// Finds how a tile number is composed of slice numbers, one per variable, the
// last variable being the least significant digit.
static void find_cuts(dv_view *v, const dv_op *o, const dv_access *a)
{
    int64_t weight = 1;
    for (int d = 0; d < v->n_dims; d++)
        v->cut[d] =
            (dv_view_cut){1, 1, 1, a->index[d].base, a->index[d].base + 1};
    for (int k = o->n_vars - 1; k >= 0; k--) {
        int i = dv_plan_digit(v->plan, v->op, k);
        int64_t slice = v->plan->slices[v->op][i];
        int64_t n = dv_ceil_div(dv_var_len(o, i), slice);
        dv_view_cut c = {weight, n, slice, o->vars[i].begin, o->vars[i].end};
        for (int d = 0; d < v->n_dims; d++)
            if (v->var[d] == i) {
                v->cut[d] = c;
                v->cut[d].begin += a->index[d].base;
                v->cut[d].end += a->index[d].base;
            }
        if (v->is_write && o->vars[i].reduce && n > 1)
            v->parts[v->n_parts++] = c;
        weight *= n;
    }
    v->n_tiles = weight;
}

// Computes the view (the box of the tensor on each core) of access k of an op.
// If `part` is set, the access may touch only a part of its tensor.
static const char *make(dv_view *out, const dv_plan *plan, int32_t op, int k,
                        int part)
{
    const dv_op *o = &plan->ops->ops[op];
    const dv_access *a = dv_op_access(o, k);
    const dv_tensor *t = &plan->ops->tensors[a->tensor];
    uint32_t seen = 0;
    // The fields are set one by one, because clearing the large struct would
    // take longer.
    out->plan = plan;
    out->group = &plan->groups[dv_group_of(plan, op)];
    out->op = op;
    out->n_dims = a->n_dims;
    out->is_write = k == o->n_reads;
    out->n_parts = 0;
    for (int d = 0; d < a->n_dims; d++) {
        if (a->index[d].via >= 0)
            return "it is reached through an index that is read";
        int v = part ? dv_index_part_var(o, &a->index[d], t->shape[d])
                     : dv_index_whole_var(o, &a->index[d], t->shape[d]);
        if (v == DV_NO_VAR || (v >= 0 && (seen >> v & 1)))
            return "only a part of it is touched";
        seen |= v >= 0 ? 1u << v : 0;
        out->var[d] = (int8_t)v;
    }
    find_cuts(out, o, a);
    return NULL;
}

const char *dv_view_make(dv_view *out, const dv_plan *plan, int32_t op, int k)
{
    return make(out, plan, op, k, 0);
}

const char *dv_view_make_part(dv_view *out, const dv_plan *plan, int32_t op,
                              int r)
{
    return make(out, plan, op, r, 1);
}

const char *dv_view_make_whole(dv_view *out, const dv_plan *plan, int32_t op,
                               int k)
{
    const char *why = dv_view_make(out, plan, op, k);
    if (!why && out->group->loops)
        why = "an op that touches it runs in rounds";
    return why;
}

static int64_t tile_of(const dv_view *v, int64_t core, int64_t round)
{
    const dv_group *g = v->group;
    round = v->group->loops ? round : 0;
    if (!v->group->in_order)
        return dv_group_tile(g, core, round);
    if (core >= g->n_deals || round >= g->deals[core].n_tiles)
        return -1;
    return g->deals[core].first_tile + round;
}

// Returns the number of rounds in which a core may hold different boxes.
static int64_t rounds_of(const dv_view *v, int64_t core)
{
    int64_t n = 0;
    if (!v->group->loops)
        return 1;
    if (v->group->in_order)
        return core < v->group->n_deals ? v->group->deals[core].n_tiles : 0;
    for (int32_t d = 0; d < v->group->n_deals; d++)
        if (v->group->deals[d].core == core)
            n += v->group->deals[d].n_tiles;
    return n;
}

int dv_view_box(const dv_view *v, int64_t core, int64_t round, int64_t *lo,
                int64_t *hi)
{
    int64_t tile = tile_of(v, core, round);
    if (tile < 0)
        return 0;
    for (int i = 0; i < v->n_parts; i++)
        if (tile / v->parts[i].weight % v->parts[i].n != v->parts[i].n - 1)
            return 0;
    for (int d = 0; d < v->n_dims; d++) {
        const dv_view_cut *c = &v->cut[d];
        lo[d] = c->begin;
        hi[d] = c->end;
        if (c->n == 1)
            continue;
        lo[d] += tile / c->weight % c->n * c->slice;
        hi[d] = dv_min_i64(lo[d] + c->slice, c->end);
    }
    return 1;
}

// Returns whether two views cut the tensor into the same boxes and give the
// same boxes to every core.
static int cut_alike(const dv_view *a, const dv_view *b)
{
    if (a->n_parts || b->n_parts || !dv_same_deals(a->group, b->group))
        return 0;
    for (int d = 0; d < a->n_dims; d++) {
        const dv_view_cut *x = &a->cut[d], *y = &b->cut[d];
        if ((a->var[d] < 0) != (b->var[d] < 0) || x->weight != y->weight ||
            x->n != y->n || x->slice != y->slice || x->begin != y->begin ||
            x->end != y->end)
            return 0;
    }
    return 1;
}

int dv_view_holds(const dv_view *a, const dv_view *b)
{
    int64_t lo[DV_MAX_DIMS], hi[DV_MAX_DIMS];
    int64_t from[DV_MAX_DIMS], to[DV_MAX_DIMS];
    if (cut_alike(a, b))
        return 1;
    if (a->group->loops && !dv_same_deals(a->group, b->group))
        return 0;
    for (int64_t c = 0; c < a->plan->target.cores; c++) {
        int64_t rounds = rounds_of(b, c);
        for (int64_t r = 0; r < rounds; r++) {
            if (!dv_view_box(b, c, r, from, to))
                continue;
            if (!dv_view_box(a, c, r, lo, hi))
                return 0;
            for (int d = 0; d < a->n_dims; d++)
                if (from[d] < lo[d] || to[d] > hi[d])
                    return 0;
        }
    }
    return 1;
}

int dv_view_same(const dv_view *a, const dv_view *b)
{
    return dv_view_holds(a, b) && dv_view_holds(b, a);
}

static int64_t box_elems(int n_dims, const int64_t *lo, const int64_t *hi)
{
    int64_t n = 1;
    for (int d = 0; d < n_dims; d++)
        n *= hi[d] > lo[d] ? hi[d] - lo[d] : 0;
    return n;
}

// Returns whether a core holds the same box in this round as in the round
// before, or none in both.
static int same_box(const dv_view *v, int64_t core, int64_t round)
{
    int64_t lo[2][DV_MAX_DIMS], hi[2][DV_MAX_DIMS];
    int any = dv_view_box(v, core, round, lo[0], hi[0]);
    if (any != dv_view_box(v, core, round - 1, lo[1], hi[1]))
        return 0;
    for (int d = 0; d < v->n_dims && any; d++)
        if (lo[0][d] != lo[1][d] || hi[0][d] != hi[1][d])
            return 0;
    return 1;
}

// Returns the number of elements that a core holds in a round. With `changed`,
// returns 0 if the core held the same box in the round before.
static int64_t elems_in(const dv_view *v, int64_t core, int64_t round,
                        int changed)
{
    int64_t lo[DV_MAX_DIMS], hi[DV_MAX_DIMS];
    if (changed && round > 0 && same_box(v, core, round))
        return 0;
    return dv_view_box(v, core, round, lo, hi) ? box_elems(v->n_dims, lo, hi)
                                               : 0;
}

// Returns the number of elements that a core holds, added up over all rounds.
// With `changed`, rounds with the same box as the round before do not count.
static int64_t elems_on(const dv_view *v, int64_t core, int changed)
{
    int64_t rounds = rounds_of(v, core), sum = 0;
    for (int64_t r = 0; r < rounds; r++)
        sum += elems_in(v, core, r, changed);
    return sum;
}

// Returns whether as many tiles are dealt (assigned to cores) as there are. The
// checker proves that none is dealt twice, so all boxes are then on some core.
static int all_dealt(const dv_view *v)
{
    return v->group->n_dealt == v->n_tiles;
}

int64_t dv_view_elems(const dv_view *v)
{
    int64_t sum = 0;
    if (all_dealt(v)) {
        // Each box of the tensor is held once for every tile that differs only
        // in variables that do not index the tensor. Of partial results, only
        // the last one is held.
        int64_t elems = 1, boxes = 1;
        for (int d = 0; d < v->n_dims; d++) {
            elems *= v->cut[d].end - v->cut[d].begin;
            boxes *= v->cut[d].n;
        }
        for (int i = 0; i < v->n_parts; i++)
            boxes *= v->parts[i].n;
        return elems * (v->n_tiles / boxes);
    }
    for (int64_t c = 0; c < v->plan->target.cores; c++)
        sum += elems_on(v, c, 0);
    return sum;
}

int64_t dv_view_changes(const dv_view *v)
{
    int64_t sum = 0;
    for (int64_t c = 0; c < v->plan->target.cores; c++)
        sum += elems_on(v, c, 1);
    return sum;
}

static int64_t missing_on(const dv_view *a, const dv_view *b, int64_t core)
{
    int64_t lo[DV_MAX_DIMS], hi[DV_MAX_DIMS], sum;
    int64_t from[DV_MAX_DIMS], to[DV_MAX_DIMS];
    if (!dv_view_box(b, core, 0, from, to))
        return 0;
    sum = box_elems(b->n_dims, from, to);
    if (!dv_view_box(a, core, 0, lo, hi))
        return sum;
    for (int d = 0; d < a->n_dims; d++) {
        lo[d] = dv_max_i64(lo[d], from[d]);
        hi[d] = dv_min_i64(hi[d], to[d]);
    }
    return sum - box_elems(a->n_dims, lo, hi);
}

int64_t dv_view_missing(const dv_view *a, const dv_view *b)
{
    int64_t sum = 0;
    for (int64_t c = 0; c < a->plan->target.cores; c++)
        sum += missing_on(a, b, c);
    return sum;
}

int dv_access_of(const dv_op *op, int32_t tensor)
{
    if (op->write.tensor == tensor)
        return op->n_reads;
    for (int r = 0; r < op->n_reads; r++)
        if (op->reads[r].tensor == tensor)
            return r;
    return -1;
}

const char *dv_home_view(dv_view *out, const dv_plan *plan, const dv_home *h)
{
    return dv_view_make(out, plan, h->as_op,
                        dv_access_of(&plan->ops->ops[h->as_op], h->tensor));
}

int64_t dv_home_elems(const dv_plan *plan, const dv_home *h, int64_t core)
{
    dv_view v;
    return dv_home_view(&v, plan, h) ? 0 : elems_on(&v, core, 0);
}

// Returns whether the lifetime of a home (a resident tensor) is the group whose
// cores loop over the tiles that it is cut into.
static int lives_as_group(const dv_home *h, const dv_view *v)
{
    return v->group->loops && h->first_op == v->group->first_op &&
           h->end_op == v->group->end_op;
}

int dv_home_stays(const dv_home *h, const dv_view *v, int64_t core,
                  int64_t round)
{
    return round > 0 && lives_as_group(h, v) && same_box(v, core, round);
}

int64_t dv_home_loaded(const dv_plan *plan, const dv_home *h, int64_t core)
{
    dv_view v;
    if (dv_home_view(&v, plan, h))
        return 0;
    return elems_on(&v, core, lives_as_group(h, &v));
}

int64_t dv_home_missing(const dv_plan *plan, const dv_home *h, int64_t core)
{
    dv_view from, to;
    if (dv_home_view(&to, plan, h) ||
        dv_home_view(&from, plan, &plan->scratch.homes[h->from]))
        return 0;
    return missing_on(&from, &to, core);
}

int dv_home_fetches(const dv_plan *plan, const dv_home *h, int64_t core)
{
    const dv_op *o = &plan->ops->ops[h->as_op];
    const dv_access *a = dv_op_access(o, dv_access_of(o, h->tensor));
    int64_t tile =
        dv_group_tile(&plan->groups[dv_group_of(plan, h->as_op)], core, 0);
    dv_tile t;
    if (tile < 0)
        return 0;
    dv_plan_tile(&t, plan, h->as_op, tile);
    return dv_tile_fetches(plan, h->as_op, dv_access_vars(o, a), &t);
}

// Returns how many elements one step along dim i of the stored layout spans,
// along the dim of the tensor that dim i is a part of.
static int64_t block_of(const dv_layout *l, int32_t i)
{
    int64_t block = 1;
    for (int32_t k = i + 1; k < l->n_dims; k++)
        block *= l->host[k] == l->host[i] ? l->size[k] : 1;
    return block;
}

// Returns how many positions a box lo..hi covers along dim i of the stored
// layout, and the first one. If a dim of the tensor is stored as blocks, the
// box is rounded to whole blocks: only the number of the block varies.
static int64_t positions(const dv_layout *l, int32_t i, const int64_t *lo,
                         const int64_t *hi, int64_t *first)
{
    int32_t h = l->host[i];
    *first = 0;
    if (h < 0)
        return l->size[i];
    for (int32_t k = 0; k < i; k++)
        if (l->host[k] == h)
            return l->size[i];
    int64_t block = block_of(l, i);
    *first = lo[h] / block;
    return (hi[h] - 1) / block - *first + 1;
}

// Returns the bytes that a box of a tensor takes in memory, in whole sticks
// (the target's units of memory) or tiles.
static int64_t box_bytes(const dv_layout *l, const int64_t *lo,
                         const int64_t *hi)
{
    int64_t n = l->elem_bytes, first;
    for (int32_t i = 0; i < l->n_dims; i++)
        n *= positions(l, i, lo, hi, &first);
    return n;
}

// Returns the largest number of positions along device dim i of the stored
// layout that any box of the view covers.
static int64_t most_positions(const dv_view *v, const dv_layout *l, int32_t i)
{
    int64_t lo[DV_MAX_DIMS], hi[DV_MAX_DIMS], most = 0, first;
    int32_t h = l->host[i];
    if (h < 0)
        return l->size[i];
    const dv_view_cut *c = &v->cut[h];
    int64_t n = c->n, block = block_of(l, i);
    // If every slice begins at a block boundary, none covers more blocks than
    // the first one, so only that one is examined.
    if (n > 1 && c->begin % block == 0 && c->slice % block == 0)
        n = 1;
    for (int64_t k = 0; k < n; k++) {
        lo[h] = c->begin + k * c->slice;
        hi[h] = dv_min_i64(lo[h] + c->slice, c->end);
        most = dv_max_i64(most, positions(l, i, lo, hi, &first));
    }
    return most;
}

int64_t dv_view_bytes(const dv_view *v, const dv_layout *l)
{
    int64_t lo[DV_MAX_DIMS], hi[DV_MAX_DIMS], most = 0;
    // If all tiles are dealt, every combination of slices is a box. Of the
    // device dims of one dim, the outermost alone depends on the slice, so that
    // the largest box is the largest in every device dim.
    if (all_dealt(v)) {
        most = l->elem_bytes;
        for (int32_t i = 0; i < l->n_dims; i++)
            most *= most_positions(v, l, i);
        return most;
    }
    for (int64_t c = 0; c < v->plan->target.cores; c++) {
        int64_t rounds = rounds_of(v, c);
        for (int64_t r = 0; r < rounds; r++)
            if (dv_view_box(v, c, r, lo, hi))
                most = dv_max_i64(most, box_bytes(l, lo, hi));
    }
    return most;
}

int64_t dv_box_place(const dv_layout *l, const int64_t *lo, const int64_t *hi,
                     const int64_t *at)
{
    int64_t rest[DV_MAX_DIMS], place = 0, weight = 1, first;
    for (int32_t i = 0; i < l->n_dims; i++)
        if (l->host[i] >= 0)
            rest[l->host[i]] = at[l->host[i]];
    for (int32_t i = l->n_dims - 1; i >= 0; i--) {
        int64_t n = positions(l, i, lo, hi, &first);
        int32_t h = l->host[i];
        if (h >= 0) {
            int outermost = 1;
            for (int32_t k = 0; k < i; k++)
                outermost = outermost && l->host[k] != h;
            place +=
                (outermost ? rest[h] - first : rest[h] % l->size[i]) * weight;
            rest[h] /= l->size[i];
        }
        weight *= n;
    }
    return place;
}
