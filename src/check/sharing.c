// Checks C12: homes (residencies of tensors in scratchpads) with overlapping
// lifetimes share no byte, unless one legally reuses the bytes of the other in
// place.
#include "base/math.h"
#include "check/scratch.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int same_layout(const dv_layout *a, const dv_layout *b)
{
    size_t n = (size_t)a->n_dims;
    return a->n_dims == b->n_dims && a->elem_bytes == b->elem_bytes &&
           !memcmp(a->size, b->size, n * sizeof *a->size) &&
           !memcmp(a->host, b->host, n * sizeof *a->host);
}

// Returns whether the op reads the tensor only at the index that it writes, so
// that an in-place write is safe.
static int reads_its_own(const dv_op *o, int32_t tensor)
{
    int reads = 0;
    for (int r = 0; r < o->n_reads; r++) {
        const dv_access *a = &o->reads[r];
        if (a->tensor != tensor)
            continue;
        reads = 1;
        if (a->n_dims != o->write.n_dims)
            return 0;
        for (int d = 0; d < a->n_dims; d++) {
            if (a->index[d].via >= 0 ||
                a->index[d].base != o->write.index[d].base)
                return 0;
            for (int v = 0; v < o->n_vars; v++)
                if (a->index[d].coef[v] != o->write.index[d].coef[v] ||
                    o->vars[v].reduce)
                    return 0;
        }
    }
    return reads;
}

// Returns whether scratchpad home h (a resident tensor) is filled again in
// every iteration of every loop around the op.
static int is_refilled(const checker *c, const dv_home *h, int32_t op)
{
    const dv_program *p = c->plan->ops;
    for (int32_t i = 0; i < p->n_repeats; i++) {
        const dv_repeat *r = &p->repeats[i];
        if (r->first_op <= op && op < r->end_op &&
            (h->first_op < r->first_op || h->first_op >= r->end_op))
            return 0;
    }
    return 1;
}

static dv_status check_in_place(const checker *c, int32_t i)
{
    const dv_home *h = &c->s->homes[i], *p = &c->s->homes[h->in_place_of];
    const dv_layout *l = c->plan->layouts;
    int n_dims = c->plan->ops->tensors[h->tensor].n_dims;
    if (h->fill != DV_FILL_WRITTEN || p->end_op != h->first_op + 1 ||
        p->first_op >= p->end_op || p->address != h->address ||
        h->core_bytes > p->core_bytes || p->in_place_of == i ||
        !same_layout(&l[h->tensor], &l[p->tensor]) ||
        !reads_its_own(&c->plan->ops->ops[h->first_op], p->tensor))
        return DV_HOME_BREAKS(c, C12, i, "it cannot take the place of home %d",
                              (int)h->in_place_of);
    if (!is_refilled(c, p, h->first_op))
        return DV_HOME_BREAKS(
            c, C12, i,
            "it takes the place of home %d, which the next pass of "
            "the repeat reads",
            (int)h->in_place_of);
    for (int64_t core = 0; core < c->plan->target.cores; core++) {
        box a, b;
        if (dv_home_box(c, h, core, &a) < 0 ||
            dv_home_box(c, p, core, &b) < 0 || !dv_box_inside(&a, &b, n_dims) ||
            !dv_box_inside(&b, &a, n_dims))
            return DV_HOME_BREAKS(
                c, C12, i,
                "home %d, whose place it takes, is cut another "
                "way",
                (int)h->in_place_of);
    }
    return DV_OK;
}

typedef struct edge {
    int32_t home, tick;
    int64_t address;
} edge;

static int by_tick(const void *a, const void *b)
{
    const edge *x = a, *y = b;
    if (x->tick != y->tick)
        return x->tick < y->tick ? -1 : 1;
    return x->home < y->home ? -1 : x->home > y->home;
}

int dv_homes_share(const dv_home *a, const dv_home *b)
{
    return a->address < b->address + b->core_bytes &&
           b->address < a->address + a->core_bytes;
}

// Checks all pairs of scratchpad homes (resident tensors) that are live at the
// same time, by a sweep over the homes sorted by first op. `alive` lists the
// homes that have not ended; taken[i] is the home that reuses the bytes of home
// i, or -1.
static dv_status sweep(const checker *c, edge *edges, int32_t *alive,
                       int32_t *taken)
{
    int32_t n = c->s->n_homes, n_alive = 0;
    for (int32_t i = 0; i < n; i++) {
        taken[i] = -1;
        edges[i] = (edge){i, c->s->homes[i].first_op, 0};
    }
    qsort(edges, (size_t)n, sizeof *edges, by_tick);
    for (int32_t e = 0; e < n; e++) {
        int32_t i = edges[e].home, kept = 0;
        const dv_home *h = &c->s->homes[i];
        for (int32_t k = 0; k < n_alive; k++) {
            const dv_home *other = &c->s->homes[alive[k]];
            if (other->end_op <= h->first_op)
                continue;
            if (dv_homes_share(h, other) && h->in_place_of != alive[k])
                return DV_HOME_BREAKS(
                    c, C12, i,
                    "it shares byte %" PRId64 " with home %d in op %s",
                    dv_max_i64(h->address, other->address), (int)alive[k],
                    c->plan->ops->ops[h->first_op].name);
            alive[kept++] = alive[k];
        }
        n_alive = kept;
        alive[n_alive++] = i;
        if (h->in_place_of < 0)
            continue;
        DV_TRY(check_in_place(c, i));
        if (taken[h->in_place_of] >= 0)
            return DV_HOME_BREAKS(
                c, C12, i, "home %d has the place of home %d already",
                (int)taken[h->in_place_of], (int)h->in_place_of);
        taken[h->in_place_of] = i;
    }
    return DV_OK;
}

dv_status dv_check_sharing(const checker *c)
{
    size_t n = (size_t)c->s->n_homes;
    edge *edges = dv_alloc(n * sizeof *edges);
    int32_t *alive = dv_alloc(2 * n * sizeof *alive);
    dv_status st = !edges || !alive ? dv_nomem(c->diag)
                                    : sweep(c, edges, alive, alive + n);
    dv_release(edges);
    dv_release(alive);
    return st;
}
