// Collects, for each core, the ranges of tiles that a grid (an assignment of
// tiles to cores) gives it.
#include "emit/emit.h"
#include <inttypes.h>

// Returns the index, in the list of cores with tiles, of the core at (x, y); -1
// if it is not in the list.
static int32_t core_at(const emit_cores *c, int64_t x, int64_t y)
{
    for (int32_t i = 0; i < c->n; i++)
        if (c->at[i].x == x && c->at[i].y == y)
            return i;
    return -1;
}

// For one tile whose reduction is split over cores, records that the cores with
// its later steps send their partial sums to the tile's owner, the core that
// has tile range number `at`.
static dv_status find_contributors(emit_cores *c, const emitter *e,
                                   const dv_group_grid *g, int32_t at)
{
    int32_t owner = core_at(c, g->ranges[at].x, g->ranges[at].y), rank = 0;
    for (int32_t k = dv_range_next(g, at); k >= 0; k = dv_range_next(g, k)) {
        emit_core *contributor =
            &c->at[core_at(c, g->ranges[k].x, g->ranges[k].y)];
        if (contributor->owner >= 0 || contributor == &c->at[owner] ||
            c->at[owner].contributors)
            return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                           "core %" PRId64 ",%" PRId64 " has parts of more "
                           "than one tile of %s to send or to get",
                           contributor->x, contributor->y,
                           e->p->tensors[g->tensor].name);
        contributor->owner = owner;
        contributor->rank = rank++;
    }
    c->at[owner].contributors = rank;
    c->most_contributors =
        rank > c->most_contributors ? rank : c->most_contributors;
    return DV_OK;
}

static dv_status fill(emit_cores *c, const emitter *e, const dv_group_grid *g)
{
    for (int32_t i = 0; i < g->n_ranges; i++) {
        const dv_tile_range *r = &g->ranges[i];
        emit_core *last = c->n ? &c->at[c->n - 1] : NULL;
        if (!last || last->x != r->x || last->y != r->y) {
            last = &c->at[c->n++];
            *last = (emit_core){.x = r->x, .y = r->y, .owner = -1};
        }
        if (last->n == EMIT_MAX_SEGMENTS)
            return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                           "core %" PRId64 ",%" PRId64
                           " has more than %d ranges of tiles of %s",
                           r->x, r->y, (int)EMIT_MAX_SEGMENTS,
                           e->p->tensors[g->tensor].name);
        last->at[last->n++] = *r;
        c->streams |= dv_range_is_partial(g, r) || last->n > 1;
    }
    for (int32_t i = 0; i < g->n_ranges; i++)
        if (dv_range_is_partial(g, &g->ranges[i]) && g->ranges[i].k0 == 0)
            DV_TRY(find_contributors(c, e, g, i));
    return DV_OK;
}

dv_status dv_emit_cores(emit_cores *out, const emitter *e,
                        const dv_group_grid *g)
{
    *out = (emit_cores){0};
    out->at = dv_alloc(((size_t)g->n_ranges + 1) * sizeof *out->at);
    dv_status st = out->at ? fill(out, e, g) : dv_nomem(e->diag);
    if (st != DV_OK) {
        dv_release(out->at);
        out->at = NULL;
    }
    return st;
}
