#include "plan/traffic.h"
#include "base/math.h"
#include "plan/tiles.h"
#include "plan/view.h"
#include <stdlib.h>
#include <string.h>

typedef struct term {
    int64_t factor, n;
} term;

// Sorts terms by factor, by insertion: there are only a few terms, and planning
// does this often.
static void sort_terms(term *terms, int n)
{
    for (int i = 1; i < n; i++) {
        term r = terms[i];
        int k = i;
        for (; k > 0 && terms[k - 1].factor > r.factor; k--)
            terms[k] = terms[k - 1];
        terms[k] = r;
    }
}

// Counts the distinct values of a sum of terms, where term i takes terms[i].n
// values at distances of terms[i].factor. There is a formula as long as each
// factor either fits into the gap-free range covered by the smaller terms, or
// exceeds that range. Otherwise returns -1, and the caller has to enumerate.
static int64_t distinct_sums(term *terms, int n)
{
    int64_t step = 1, count = 1, gaps = 0;
    sort_terms(terms, n);
    if (n > 0)
        step = terms[0].factor;
    for (int i = 0; i < n; i++) {
        int64_t f = terms[i].factor, k = terms[i].n;
        if (!gaps && f % step == 0 && f / step <= count)
            // The values reached so far are a range without gaps, and adding
            // multiples of f gives ranges that overlap or touch: one longer
            // range.
            count += (k - 1) * (f / step);
        else if (!gaps && f > (count - 1) * step) {
            // The factor exceeds the range reached so far: adding its multiples
            // gives disjoint copies of the range, with gaps between them.
            count *= k;
            gaps = i + 1 < n;
        } else {
            return -1;
        }
    }
    return count;
}

// Counts the distinct values of the sum by enumeration: those from `from` to
// `to` - 1. Returns -1 if there are too many.
static int64_t count_sums(const term *terms, int n, int64_t from, int64_t to)
{
    int64_t most = 0, x;
    for (int i = 0; i < n; i++)
        if (!dv_mul_i64(&x, terms[i].factor, terms[i].n - 1) ||
            !dv_add_i64(&most, most, x))
            return -1;
    if (most >= (int64_t)1 << 26)
        return -1;
    unsigned char *mark = dv_alloc((size_t)most + 1);
    if (!mark)
        return -1;
    memset(mark, 0, (size_t)most + 1);
    mark[0] = 1;
    int64_t reach = 0;
    for (int i = 0; i < n; i++) {
        for (int64_t at = reach; at >= 0; at--)
            for (int64_t k = 1; mark[at] == 1 && k < terms[i].n; k++)
                mark[at + k * terms[i].factor] |= 2;
        reach += terms[i].factor * (terms[i].n - 1);
        for (int64_t at = 0; at <= reach; at++)
            mark[at] = mark[at] != 0;
    }
    int64_t count = 0;
    for (int64_t at = dv_max_i64(from, 0); at <= reach && at < to; at++)
        count += mark[at];
    dv_release(mark);
    return count;
}

// Returns whether two dims of the access depend on the same variable.
static int dims_share(const dv_op *op, const dv_access *a)
{
    uint32_t seen = 0;
    for (int d = 0; d < a->n_dims; d++) {
        uint32_t here = dv_index_vars(op, &a->index[d]);
        if (here & seen)
            return 1;
        seen |= here;
    }
    return 0;
}

static int64_t count_terms(term *terms, int n)
{
    int64_t c = distinct_sums(terms, n);
    return c >= 0 ? c : count_sums(terms, n, 0, INT64_MAX);
}

static int terms_of(const dv_op *op, const int64_t *factor,
                    const int64_t *begin, const int64_t *end, term *terms)
{
    int n = 0;
    for (int v = 0; v < op->n_vars; v++)
        if (factor[v] && end[v] - begin[v] > 1)
            terms[n++] = (term){llabs(factor[v]), end[v] - begin[v]};
    return n;
}

// Counts the elements of dim d that a read with a border reaches in the box.
// Returns -1 if there are too many values to enumerate.
static int64_t elems_inside(const dv_program *p, const dv_op *op,
                            const dv_access *a, int d, const int64_t *begin,
                            const int64_t *end)
{
    term terms[DV_MAX_VARS];
    dv_iter_space s;
    int64_t lo, hi, n = p->tensors[a->tensor].shape[d];
    memcpy(s.begin, begin, (size_t)op->n_vars * sizeof *begin);
    memcpy(s.end, end, (size_t)op->n_vars * sizeof *end);
    if (!dv_index_bounds(op, &a->index[d], &s, &lo, &hi))
        return -1;
    int n_terms = terms_of(op, a->index[d].coef, begin, end, terms);
    if (lo >= 0 && hi < n)
        return count_terms(terms, n_terms);
    return hi < 0 || lo >= n ? 0 : count_sums(terms, n_terms, -lo, n - lo);
}

int64_t dv_access_distinct_elems(const dv_program *p, const dv_op *op,
                                 const dv_access *a, const int64_t *begin,
                                 const int64_t *end)
{
    term terms[DV_MAX_VARS];
    // Which elements an indirect access touches is not known before the run:
    // count one per index that is read.
    if (a->has_border && (dv_access_is_indirect(a) || dims_share(op, a)))
        return -1;
    if (dv_access_is_indirect(a)) {
        int64_t n = 1;
        uint32_t vars = dv_access_vars(op, a);
        for (int v = 0; v < op->n_vars; v++)
            n *= vars >> v & 1 ? end[v] - begin[v] : 1;
        return n;
    }
    // Two dims depend on the same variable, so their counts cannot be
    // multiplied: count the values of the linear element offset.
    if (dims_share(op, a)) {
        int64_t factor[DV_MAX_VARS];
        for (int v = 0; v < op->n_vars; v++)
            factor[v] = dv_access_step(p, a, v);
        return count_terms(terms, terms_of(op, factor, begin, end, terms));
    }
    int64_t n = 1;
    for (int d = 0; d < a->n_dims; d++) {
        int64_t k = a->has_border
                        ? elems_inside(p, op, a, d, begin, end)
                        : count_terms(terms, terms_of(op, a->index[d].coef,
                                                      begin, end, terms));
        if (k < 0)
            return -1;
        n *= k;
    }
    return n;
}

static int64_t elem_bytes(const dv_plan *plan, int32_t tensor)
{
    return plan->layouts
               ? plan->layouts[tensor].elem_bytes
               : dv_dtype_get(plan->ops->tensors[tensor].dtype)->size_bytes;
}

// Counts bytes that one core sends to one other core over the ring.
static void add_copy(dv_traffic *sum, int64_t bytes)
{
    sum->ring_bytes += bytes;
    sum->link_bytes += bytes;
}

// Returns how many values of an index dim over the tile lie in lo..hi-1; the
// dim depends on at most one variable.
static int64_t values_inside(const dv_op *op, const dv_index *x,
                             const dv_tile *t, int64_t lo, int64_t hi)
{
    int64_t n = x->base >= lo && x->base < hi;
    for (int v = 0; v < op->n_vars; v++) {
        if (x->coef[v] == 0)
            continue;
        int64_t k = x->coef[v], first, end;
        if (k > 0) {
            first = dv_ceil_div(lo - x->base, k);
            end = dv_ceil_div(hi - x->base, k);
        } else {
            first = dv_floor_div(x->base - hi, -k) + 1;
            end = dv_floor_div(x->base - lo, -k) + 1;
        }
        first = dv_max_i64(first, t->begin[v]);
        n = dv_max_i64(dv_min_i64(end, t->end[v]) - first, 0);
    }
    return n;
}

// Returns how many of the elements that an access needs in tile t are already
// on the core that runs it. `home` is the view of the resident tensor (the box
// that each core holds), NULL if it has none.
static int64_t own_elems(const dv_view *home, int64_t core, const dv_op *op,
                         const dv_access *a, const dv_tile *t)
{
    int64_t lo[DV_MAX_DIMS], hi[DV_MAX_DIMS], n = 1;
    if (!home || !dv_view_box(home, core, 0, lo, hi))
        return 0;
    for (int d = 0; d < a->n_dims; d++)
        n *= values_inside(op, &a->index[d], t, lo[d], hi[d]);
    return n;
}

// Adds the traffic of access k of op i in all tiles of the same size as t:
// `fetching` of them get their elements from main memory, `receiving` from
// other cores.
static void add_accesses(dv_traffic *sum, const dv_plan *plan, int32_t i, int k,
                         const dv_tile *t, int64_t fetching, int64_t receiving)
{
    const dv_op *op = &plan->ops->ops[i];
    const dv_access *a = dv_op_access(op, k);
    if (dv_home_of(plan, i, k) >= 0)
        return;
    int64_t n = dv_access_distinct_elems(plan->ops, op, a, t->begin, t->end);
    sum->exact = sum->exact && n >= 0;
    n = n < 0 ? 0 : n;
    int64_t bytes = n * elem_bytes(plan, a->tensor);
    *(k < op->n_reads ? &sum->read_elems : &sum->write_elems) += n * fetching;
    *(k < op->n_reads ? &sum->read_bytes : &sum->write_bytes) +=
        bytes * fetching;
    sum->ring_bytes += bytes * receiving;
    if (dv_ring_of(plan, i, k) == DV_RING_MEMORY)
        sum->pass_bytes += bytes * fetching;
}

// How many elements an access needs in a tile, for tiles of one size: without a
// border, the number does not depend on where the tile is.
typedef struct tile_count {
    uint32_t vars; // on which the access depends
    int received;  // 1 if what each core receives is counted (ring_bytes)
    int known;
    int64_t len[DV_MAX_VARS], n;
} tile_count;

// Returns the number of elements that an access needs in a tile. The count is
// reused as long as consecutive tiles have the same size.
static int64_t count_in_tile(tile_count *c, const dv_plan *plan,
                             const dv_op *op, const dv_access *a,
                             const dv_tile *t)
{
    int same = c->known && !a->has_border;
    for (int v = 0; v < op->n_vars; v++) {
        int64_t len = t->end[v] - t->begin[v];
        same = same && c->len[v] == len;
        c->len[v] = len;
    }
    if (!same)
        c->n = dv_access_distinct_elems(plan->ops, op, a, t->begin, t->end);
    c->known = 1;
    return c->n;
}

// Adds what read r of op i receives from other cores' scratchpads in a tile
// that runs on `core`. `home` is the view (the box on each core) of the
// resident tensor that they pass along the ring, or NULL.
static void add_passed(dv_traffic *sum, const dv_plan *plan, int32_t i, int r,
                       const dv_view *home, const dv_tile *t, int64_t core,
                       tile_count *count)
{
    const dv_op *op = &plan->ops->ops[i];
    const dv_access *a = &op->reads[r];
    int64_t n = count_in_tile(count, plan, op, a, t);
    int64_t bytes = elem_bytes(plan, a->tensor);
    sum->exact = sum->exact && n >= 0;
    if (count->received)
        sum->ring_bytes +=
            dv_max_i64(n - own_elems(home, core, op, a, t), 0) * bytes;
    if (dv_tile_fetches(plan, i, count->vars, t))
        sum->pass_bytes += dv_max_i64(n, 0) * bytes;
}

// Computes the view (the box on each core) of a home, a resident tensor that is
// passed along the ring. Returns v, or NULL if there is no view.
static const dv_view *view_of_passed(dv_view *v, const dv_plan *plan,
                                     int32_t home)
{
    return dv_home_view(v, plan, &plan->scratch.homes[home]) ? NULL : v;
}

// Adds the traffic of access k of op i in a tile that runs on `core`.
static void add_access(dv_traffic *sum, const dv_plan *plan, int32_t i, int k,
                       const dv_tile *t, int64_t core)
{
    const dv_op *op = &plan->ops->ops[i];
    uint32_t vars = dv_access_vars(op, dv_op_access(op, k));
    int32_t ring = dv_ring_of(plan, i, k);
    int fetches = ring == DV_RING_NONE || dv_tile_fetches(plan, i, vars, t);
    dv_view v;
    tile_count count;
    count.vars = vars;
    count.received = 1;
    count.known = 0;
    const dv_view *home = ring >= 0 ? view_of_passed(&v, plan, ring) : NULL;
    if (ring >= 0)
        add_passed(sum, plan, i, k, home, t, core, &count);
    else
        add_accesses(sum, plan, i, k, t, fetches, !fetches);
}

// Adds the traffic of a read with a border in all tiles, one by one, because
// tiles at the edges reach fewer elements. Returns 0 if there are too many.
static int add_border_in_all(dv_traffic *sum, const dv_plan *plan, int32_t i,
                             int k)
{
    enum { MOST_TILES = 1 << 14 };
    const dv_op *op = &plan->ops->ops[i];
    int64_t n = 1;
    for (int v = 0; v < op->n_vars && n <= MOST_TILES; v++)
        n *= dv_ceil_div(dv_var_len(op, v), plan->slices[i][v]);
    for (int64_t tile = 0; tile < n && n <= MOST_TILES; tile++) {
        dv_tile t;
        dv_plan_tile(&t, plan, i, tile);
        add_access(sum, plan, i, k, &t, -1);
    }
    return n <= MOST_TILES;
}

// Adds the traffic of access k of op i in all tiles. Only the lengths of a
// tile's slices matter, and the last slice of a variable is the only one that
// may be shorter, so that one tile of each shape is counted.
static void add_access_in_all(dv_traffic *sum, const dv_plan *plan, int32_t i,
                              int k)
{
    const dv_op *op = &plan->ops->ops[i];
    uint32_t vars = dv_access_vars(op, dv_op_access(op, k));
    int shared = dv_ring_of(plan, i, k) == DV_RING_MEMORY;
    int64_t times = 1, replicas = 1, slots[DV_MAX_VARS];
    int64_t per_core = dv_tiles_per_core(plan, i);
    int uneven[DV_MAX_VARS], n = 0;
    dv_tile t;
    if (dv_op_access(op, k)->has_border) {
        if (add_border_in_all(sum, plan, i, k))
            return;
        sum->exact = 0;
    }
    dv_plan_tile(&t, plan, i, 0);
    for (int v = 0; v < op->n_vars; v++) {
        int64_t slice = plan->slices[i][v], len = dv_var_len(op, v);
        // The result is stored once, by the tile with the last partial result:
        // slices of reduced variables do not multiply the writes.
        int once = k == op->n_reads && op->vars[v].reduce;
        slots[v] = t.n_slots[v];
        int64_t turns = dv_tile_turns(&t, v, per_core);
        if (vars >> v & 1 && len % slice && slots[v] > 1 && !once) {
            uneven[n++] = v;
        } else if (shared && !(vars >> v & 1)) {
            replicas *= slots[v] / turns;
            times *= turns;
        } else {
            times *= once ? 1 : slots[v];
        }
    }
    for (int64_t shape = 0; shape < (int64_t)1 << n; shape++) {
        int64_t alike = times;
        for (int u = 0; u < n; u++) {
            int v = uneven[u], last = (int)(shape >> u & 1);
            int64_t slice = plan->slices[i][v];
            t.end[v] = t.begin[v] + (last ? dv_var_len(op, v) % slice : slice);
            alike *= last ? 1 : slots[v] - 1;
        }
        add_accesses(sum, plan, i, k, &t, alike, alike * (replicas - 1));
    }
}

static int64_t core_of(const dv_group *g, int64_t tile)
{
    for (int32_t d = 0; d < g->n_deals; d++)
        if (tile >= g->deals[d].first_tile &&
            tile < g->deals[d].first_tile + g->deals[d].n_tiles)
            return g->deals[d].core;
    return -1;
}

// If a reduction is cut into slices, returns the tile that computes the partial
// sum before the one of tile `t`; -1 if `t` has the first.
static int64_t part_before(const dv_op *op, const dv_tile *t)
{
    int64_t slot[DV_MAX_VARS], tile = 0;
    int found = 0;
    memcpy(slot, t->slot, sizeof slot);
    for (int v = op->n_vars - 1; v >= 0 && !found; v--) {
        if (!op->vars[v].reduce)
            continue;
        found = slot[v] > 0;
        slot[v] = found ? slot[v] - 1 : t->n_slots[v] - 1;
    }
    for (int v = 0; v < op->n_vars; v++)
        tile += slot[v] * t->weight[v];
    return found ? tile : -1;
}

// If a reduction is cut into slices and the partial result that tile t
// continues was computed on another core, adds the bytes of receiving it.
static void add_part(dv_traffic *sum, const dv_plan *plan, const dv_group *g,
                     int32_t i, const dv_tile *t, int64_t core)
{
    const dv_op *op = &plan->ops->ops[i];
    int64_t results = 1, before = part_before(op, t);
    if (before < 0 || core_of(g, before) == core)
        return;
    for (int v = 0; v < op->n_vars; v++)
        results *= op->vars[v].reduce ? 1 : t->end[v] - t->begin[v];
    add_copy(sum, results * dv_op_partial_bytes(plan->ops, op));
}

static void add_tile(dv_traffic *sum, const dv_plan *plan, int32_t i,
                     const dv_tile *t, int64_t core)
{
    const dv_op *op = &plan->ops->ops[i];
    int last = 1;
    for (int v = 0; v < op->n_vars; v++)
        last = last && (!op->vars[v].reduce || t->slot[v] == t->n_slots[v] - 1);
    for (int r = 0; r < op->n_reads; r++)
        add_access(sum, plan, i, r, t, core);
    if (last)
        add_access(sum, plan, i, op->n_reads, t, core);
}

// Returns whether the traffic of access k of op i must be counted tile by tile,
// because it depends on the cores that run the tiles.
static int is_counted_by_tile(const dv_plan *plan, int32_t i, int k)
{
    int32_t ring = dv_ring_of(plan, i, k);
    return ring >= 0 ||
           (ring == DV_RING_MEMORY && dv_target_has_rings(&plan->target));
}

// Adds what the reads of op i receive over the ring, for the reads that must be
// counted tile by tile: in the tiles of the cores of ring number `ring`, or of
// all cores if `ring` is negative. If `received` is 0, what each core gets
// (ring_bytes) is left out, and only what passes along the ring is counted.
static void add_all_passed(dv_traffic *sum, const dv_plan *plan,
                           const dv_group *g, int32_t i, int64_t ring,
                           int received)
{
    const dv_op *op = &plan->ops->ops[i];
    dv_tile t;
    for (int r = 0; r < op->n_reads; r++) {
        int32_t from = dv_ring_of(plan, i, r);
        dv_view v;
        tile_count count;
        if (!is_counted_by_tile(plan, i, r))
            continue;
        const dv_view *home = from >= 0 ? view_of_passed(&v, plan, from) : NULL;
        count.vars = dv_access_vars(op, &op->reads[r]);
        count.received = received;
        count.known = 0;
        dv_plan_tile(&t, plan, i, 0);
        for (int32_t d = 0; d < g->n_deals; d++) {
            int64_t core = g->deals[d].core;
            if (ring >= 0 && dv_target_ring(&plan->target, core) != ring)
                continue;
            for (int64_t k = 0; k < g->deals[d].n_tiles; k++) {
                dv_plan_other_tile(&t, plan, i, g->deals[d].first_tile + k);
                if (from >= 0)
                    add_passed(sum, plan, i, r, home, &t, core, &count);
                else
                    add_access(sum, plan, i, r, &t, core);
            }
        }
    }
}

// Returns whether a home (resident tensor) that begins at an op is loaded,
// copied or stored.
static int fills_by_transfer(const dv_scratch *s, int32_t op)
{
    for (int32_t i = s->fill_at ? s->fill_at[op] : 0;
         s->fill_at && i < s->fill_at[op + 1]; i++) {
        const dv_home *h = &s->homes[s->fill_order[i]];
        if (h->stored || h->fill == DV_FILL_LOADED || h->fill == DV_FILL_RING)
            return 1;
    }
    return 0;
}

// Adds the traffic of the homes (tensors resident in scratchpads) of an op:
// copies and loads that fill those starting at the op, and stores of those that
// are also written to main memory.
static void add_homes(dv_traffic *sum, const dv_plan *plan, int32_t op,
                      int64_t core)
{
    const dv_scratch *s = &plan->scratch;
    for (int32_t i = s->fill_at[op]; i < s->fill_at[op + 1]; i++) {
        const dv_home *h = &s->homes[s->fill_order[i]];
        int64_t bytes = elem_bytes(plan, h->tensor);
        int fetches = !h->shared || dv_home_fetches(plan, h, core);
        int loaded = h->fill == DV_FILL_LOADED;
        int64_t n = loaded ? dv_home_loaded(plan, h, core) : 0;
        if (loaded && fetches) {
            sum->read_elems += n;
            sum->read_bytes += n * bytes;
            sum->pass_bytes += h->shared ? n * bytes : 0;
        } else if (h->fill == DV_FILL_LOADED) {
            sum->ring_bytes += n * bytes;
        } else if (h->fill == DV_FILL_RING) {
            add_copy(sum, dv_home_missing(plan, h, core) * bytes);
        }
        if (h->stored) {
            n = dv_home_elems(plan, h, core);
            sum->write_elems += n;
            sum->write_bytes += n * bytes;
        }
    }
}

static void add_sum(dv_traffic *sum, const dv_traffic *t, int64_t times)
{
    sum->read_elems += times * t->read_elems;
    sum->write_elems += times * t->write_elems;
    sum->read_bytes += times * t->read_bytes;
    sum->write_bytes += times * t->write_bytes;
    sum->ring_bytes += times * t->ring_bytes;
    sum->link_bytes += times * t->link_bytes;
    sum->pass_bytes += times * t->pass_bytes;
    sum->exact = sum->exact && t->exact;
}

// Counts the traffic of steps k0..k1 of the reduction of one tile. Only the
// core with step 0 stores the result, because it collects the partial sums.
static dv_traffic tile_traffic(const dv_plan *plan, const dv_group_grid *g,
                               int32_t i, const int64_t bmn[3], int64_t k0,
                               int64_t k1)
{
    const dv_op *op = &plan->ops->ops[i];
    dv_traffic sum = {.exact = 1};
    dv_tile t;
    dv_grid_box(&t, plan, g, bmn, k0, k1);
    for (int r = 0; r < op->n_reads; r++)
        add_access(&sum, plan, i, r, &t, -1);
    if (k0 == 0)
        add_access(&sum, plan, i, op->n_reads, &t, -1);
    return sum;
}

// Returns the bytes of the partial sums of a tile, when they are sent to
// another core.
static int64_t part_traffic(const dv_plan *plan, const dv_group_grid *g,
                            int32_t i, const int64_t bmn[3])
{
    const dv_op *op = &plan->ops->ops[i];
    int64_t n = dv_op_partial_bytes(plan->ops, op);
    dv_tile t;
    dv_grid_box(&t, plan, g, bmn, 0, g->kt);
    for (int v = 0; v < op->n_vars; v++)
        n *= op->vars[v].reduce ? 1 : t.end[v] - t.begin[v];
    return n;
}

// Traffic of one tile of a grid for each of the four tile shapes: of[1][n] is a
// tile in the last row, of[m][1] one in the last column; these may be shorter
// than the others.
typedef struct shapes {
    dv_traffic of[2][2];
} shapes;

static shapes shapes_of(const dv_plan *plan, const dv_group_grid *g, int32_t op)
{
    shapes s;
    for (int m = 0; m < 2; m++)
        for (int n = 0; n < 2; n++) {
            int64_t bmn[3] = {0, m ? g->mt - 1 : 0, n ? g->nt - 1 : 0};
            s.of[m][n] = tile_traffic(plan, g, op, bmn, 0, g->kt);
        }
    return s;
}

// Returns the traffic of one whole tile. Tiles of the same shape have the same
// traffic, unless reads with a border leave their tensors in some of them.
static dv_traffic whole_tile(const dv_plan *plan, const dv_group_grid *g,
                             int32_t op, const shapes *shape,
                             const int64_t bmn[3])
{
    if (dv_op_has_border(&plan->ops->ops[op]))
        return tile_traffic(plan, g, op, bmn, 0, g->kt);
    return shape->of[bmn[1] == g->mt - 1][bmn[2] == g->nt - 1];
}

// Adds the traffic of all tiles as if no sum was split among cores.
static void add_whole_tiles(dv_traffic *sum, const dv_plan *plan,
                            const dv_group_grid *g, int32_t op,
                            const shapes *shape)
{
    if (!dv_op_has_border(&plan->ops->ops[op])) {
        for (int m = 0; m < 2; m++)
            for (int n = 0; n < 2; n++)
                add_sum(sum, &shape->of[m][n],
                        g->batch * (m ? 1 : g->mt - 1) * (n ? 1 : g->nt - 1));
        return;
    }
    for (int64_t i = 0; i < g->batch * g->mt * g->nt; i++) {
        const int64_t bmn[3] = {i / (g->mt * g->nt), i / g->nt % g->mt,
                                i % g->nt};
        dv_traffic t = tile_traffic(plan, g, op, bmn, 0, g->kt);
        add_sum(sum, &t, 1);
    }
}

// If several cores share the sum of a tile, the one with step 0 of the sum owns
// the tile: it adds the others' partial sums. Returns the owner for range
// number `at`, which holds a part of the sum.
static int64_t owner_of(const dv_plan *plan, const dv_group_grid *g, int32_t at)
{
    for (int32_t i = 0; i < g->n_ranges; i++)
        if (g->ranges[i].first == g->ranges[at].first && g->ranges[i].k0 == 0 &&
            g->ranges[i].n == 1)
            return dv_grid_core_number(plan, &g->ranges[i]);
    return -1;
}

static void add_range(dv_traffic *sum, const dv_plan *plan,
                      const dv_group_grid *g, int32_t op, int32_t at,
                      const shapes *shape)
{
    const dv_tile_range *r = &g->ranges[at];
    dv_order o = dv_grid_order(g);
    int64_t n = dv_range_tiles(g, r), bmn[3];
    if (n > 0 && dv_range_is_partial(g, r)) {
        dv_range_tile(g, &o, r, 0, bmn);
        dv_traffic t = tile_traffic(plan, g, op, bmn, r->k0, r->k1);
        if (r->k0 > 0 && owner_of(plan, g, at) != dv_grid_core_number(plan, r))
            add_copy(&t, part_traffic(plan, g, op, bmn));
        add_sum(sum, &t, 1);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        dv_range_tile(g, &o, r, i, bmn);
        dv_traffic t = whole_tile(plan, g, op, shape, bmn);
        add_sum(sum, &t, 1);
    }
}

// Adds the traffic of all cores: that of each of the four tile shapes times
// their number, except that tiles whose sum is split among cores count as the
// traffic of their parts.
static void add_grid(dv_traffic *sum, const dv_plan *plan,
                     const dv_group_grid *g, int32_t op, const shapes *shape)
{
    add_whole_tiles(sum, plan, g, op, shape);
    for (int32_t i = 0; i < g->n_ranges; i++) {
        const dv_tile_range *r = &g->ranges[i];
        dv_order o = dv_grid_order(g);
        int64_t bmn[3];
        if (!dv_range_is_partial(g, r) || !r->n)
            continue;
        add_range(sum, plan, g, op, i, shape);
        if (r->k0)
            continue;
        dv_range_tile(g, &o, r, 0, bmn);
        dv_traffic t = whole_tile(plan, g, op, shape, bmn);
        add_sum(sum, &t, -1);
    }
}

static dv_traffic grid_traffic(const dv_plan *plan, const dv_group_grid *g,
                               int32_t op, int64_t core)
{
    dv_traffic sum = {.exact = 1};
    shapes shape = shapes_of(plan, g, op);
    if (core < 0) {
        add_grid(&sum, plan, g, op, &shape);
        return sum;
    }
    for (int32_t i = 0; i < g->n_ranges; i++)
        if (dv_grid_core_number(plan, &g->ranges[i]) == core)
            add_range(&sum, plan, g, op, i, &shape);
    return sum;
}

// Returns the bytes that pass along the ring that carries most, on a machine
// with several rings. `fills` says whether the op fills homes (resident
// tensors).
static int64_t busiest_ring(const dv_plan *plan, const dv_group *g, int32_t op,
                            int fills)
{
    const dv_target *t = &plan->target;
    int64_t most = 0;
    for (int64_t first = 0; first < t->cores; first += t->ring_cores) {
        dv_traffic sum = {.exact = 1};
        add_all_passed(&sum, plan, g, op, dv_target_ring(t, first), 0);
        for (int64_t c = first;
             c < dv_min_i64(first + t->ring_cores, t->cores) && fills; c++)
            add_homes(&sum, plan, op, c);
        most = dv_max_i64(most, sum.pass_bytes);
    }
    return most;
}

// Returns the traffic of one op on one core, or on all cores if core is -1. If
// `received` is 0, what cores receive of passed operands is left out of
// ring_bytes.
static dv_traffic op_traffic(const dv_plan *plan, int32_t group, int32_t op,
                             int64_t core, int received)
{
    dv_traffic sum = {.exact = 1};
    const dv_group *g = &plan->groups[group];
    const dv_group_grid *grid = dv_grid_of(plan, group);
    if (grid)
        return grid_traffic(plan, grid, op, core);
    const dv_op *o = &plan->ops->ops[op];
    int by_tile = core >= 0 || dv_plan_splits_reduction(plan, op);
    if (core < 0)
        add_all_passed(&sum, plan, g, op, -1, received);
    for (int k = 0; k <= o->n_reads && core < 0; k++)
        if (!is_counted_by_tile(plan, op, k))
            add_access_in_all(&sum, plan, op, k);
    dv_tile t;
    if (by_tile)
        dv_plan_tile(&t, plan, op, 0);
    for (int32_t d = 0; d < g->n_deals && by_tile; d++)
        for (int64_t k = 0; k < g->deals[d].n_tiles; k++) {
            int64_t tile = g->deals[d].first_tile + k, at = g->deals[d].core;
            if (core >= 0 && at != core)
                continue;
            dv_plan_other_tile(&t, plan, op, tile);
            if (core >= 0)
                add_tile(&sum, plan, op, &t, at);
            add_part(&sum, plan, g, op, &t, at);
        }
    int fills = fills_by_transfer(&plan->scratch, op);
    for (int64_t c = 0; c < plan->target.cores && fills; c++)
        if (core < 0 || c == core)
            add_homes(&sum, plan, op, c);
    if (core < 0 && sum.pass_bytes > 0 && dv_target_has_rings(&plan->target))
        sum.pass_bytes = busiest_ring(plan, g, op, fills);
    return sum;
}

dv_traffic dv_op_traffic(const dv_plan *plan, int32_t group, int32_t op,
                         int64_t core)
{
    return op_traffic(plan, group, op, core, 1);
}

dv_traffic dv_op_load(const dv_plan *plan, int32_t group, int32_t op)
{
    return op_traffic(plan, group, op, -1, 0);
}

void dv_op_traffic_by_core(const dv_plan *plan, int32_t group, int32_t op,
                           int64_t first_core, int64_t n, int64_t *bytes)
{
    const dv_group *g = &plan->groups[group];
    const dv_group_grid *grid = dv_grid_of(plan, group);
    int64_t end = dv_min_i64(first_core + n, plan->target.cores);
    shapes shape;
    if (grid)
        shape = shapes_of(plan, grid, op);
    for (int32_t i = 0; i < (grid ? grid->n_ranges : g->n_deals); i++) {
        int64_t core = grid ? dv_grid_core_number(plan, &grid->ranges[i])
                            : g->deals[i].core;
        dv_traffic t = {.exact = 1};
        if (core < first_core || core >= end)
            continue;
        if (grid)
            add_range(&t, plan, grid, op, i, &shape);
        for (int64_t k = 0; !grid && k < g->deals[i].n_tiles; k++) {
            dv_tile tile;
            dv_plan_tile(&tile, plan, op, g->deals[i].first_tile + k);
            add_tile(&t, plan, op, &tile, core);
        }
        bytes[core - first_core] =
            dv_add_most_i64(bytes[core - first_core], dv_traffic_bytes(&t));
    }
    int fills = !grid && fills_by_transfer(&plan->scratch, op);
    for (int64_t c = first_core; c < end && fills; c++) {
        dv_traffic t = {.exact = 1};
        add_homes(&t, plan, op, c);
        bytes[c - first_core] =
            dv_add_most_i64(bytes[c - first_core], dv_traffic_bytes(&t));
    }
}

static dv_traffic plan_traffic(const dv_plan *plan, int received)
{
    const dv_program *p = plan->ops;
    dv_traffic sum = {.exact = 1};
    int64_t times[DV_MAX_NESTING + 2] = {1};
    int32_t end[DV_MAX_NESTING + 2] = {p->n_ops}, depth = 0, next = 0;
    for (int32_t g = 0; g < plan->n_groups; g++) {
        int32_t i = plan->groups[g].first_op;
        while (depth && end[depth] <= i)
            depth--;
        for (; next < p->n_repeats && p->repeats[next].first_op == i; next++) {
            times[depth + 1] = times[depth] * p->repeats[next].times;
            end[++depth] = p->repeats[next].end_op;
        }
        for (; i < plan->groups[g].end_op; i++) {
            dv_traffic t = op_traffic(plan, g, i, -1, received);
            add_sum(&sum, &t, times[depth]);
        }
    }
    return sum;
}

dv_traffic dv_plan_traffic(const dv_plan *plan)
{
    return plan_traffic(plan, 1);
}

int64_t dv_plan_memory_bytes(const dv_plan *plan)
{
    dv_traffic t = plan_traffic(plan, 0);
    return dv_traffic_bytes(&t);
}

// Returns the number of elements that access k of an op touches in all
// iterations of the op; 0 if that cannot be counted.
static int64_t touched(const dv_program *p, const dv_op *o, int k)
{
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
    const dv_access *a = dv_op_access(o, k);
    for (int v = 0; v < o->n_vars; v++) {
        begin[v] = o->vars[v].begin;
        end[v] = o->vars[v].end;
    }
    if (dv_access_is_indirect(a))
        return 0;
    return dv_max_i64(dv_access_distinct_elems(p, o, a, begin, end), 0);
}

static int is_executed(const dv_program *p, int32_t op)
{
    for (int32_t i = 0; i < p->n_repeats; i++)
        if (p->repeats[i].times == 0 && op >= p->repeats[i].first_op &&
            op < p->repeats[i].end_op)
            return 0;
    return 1;
}

int64_t dv_plan_least_bytes(const dv_plan *plan)
{
    const dv_program *p = plan->ops;
    size_t n = (size_t)p->n_tensors;
    // For each tensor, the most elements that one access reads, and the most
    // that one access writes.
    int64_t sum = 0, *most = dv_alloc((2 * n + 1) * sizeof *most);
    if (!most)
        return 0;
    memset(most, 0, 2 * n * sizeof *most);
    for (int32_t i = 0; i < p->n_ops; i++)
        for (int k = 0; k <= p->ops[i].n_reads && is_executed(p, i); k++) {
            int32_t t = dv_op_access(&p->ops[i], k)->tensor;
            int64_t *x = &most[2 * t + (k == p->ops[i].n_reads)];
            *x = dv_max_i64(*x, touched(p, &p->ops[i], k));
        }
    for (int32_t t = 0; t < p->n_tensors; t++) {
        int64_t read = p->tensors[t].is_input ? most[2 * t] : 0;
        int64_t written = p->tensors[t].is_output ? most[2 * t + 1] : 0;
        int64_t bytes = elem_bytes(plan, t);
        sum = dv_add_most_i64(sum,
                              dv_add_most_i64(read * bytes, written * bytes));
    }
    dv_release(most);
    return sum;
}
