// Chooses the order of loops. The table of templates lists orders of the kinds
// of loops; each is tried with the packing that suits it best. Everything that
// does not depend on the order is counted once.
#include "nest/cost.h"
#include <stdlib.h>
#include <string.h>

// Kinds of loops by dimension type: c (batch), k (summed), and of m (rows) and
// n (columns) the loops over tiles of another loop (OUTER) and all others
// (INNER).
enum { OF_C, OF_K, M_OUTER, M_INNER, N_OUTER, N_INNER, N_KINDS };

// The criteria by which loops of one kind are sorted: BY_REACH by stride in the
// output; BY_REACH_MIXED likewise, but the loops of m and n together;
// BY_REACH_IN by strides in the inputs, for nests that pack the output;
// BY_GOING_ON by how loops continue the kernel's reads of an input.
enum { BY_REACH, BY_REACH_MIXED, BY_REACH_IN, BY_GOING_ON, N_SORTS };

static const struct {
    uint8_t sort, kinds[N_KINDS];
} templates[] = {
    {BY_REACH, {OF_C, OF_K, M_OUTER, N_OUTER, N_INNER, M_INNER}},
    {BY_REACH, {OF_C, OF_K, N_OUTER, M_OUTER, M_INNER, N_INNER}},
    {BY_REACH, {OF_C, M_OUTER, N_OUTER, OF_K, N_INNER, M_INNER}},
    {BY_REACH, {OF_C, N_OUTER, M_OUTER, OF_K, M_INNER, N_INNER}},
    {BY_REACH, {OF_C, N_OUTER, OF_K, M_OUTER, N_INNER, M_INNER}},
    {BY_REACH, {OF_C, M_OUTER, OF_K, N_OUTER, M_INNER, N_INNER}},
    {BY_REACH, {OF_C, N_OUTER, N_INNER, M_OUTER, M_INNER, OF_K}},
    {BY_REACH, {OF_C, M_OUTER, M_INNER, N_OUTER, N_INNER, OF_K}},
    {BY_REACH_MIXED, {OF_C, OF_K, M_OUTER, M_OUTER, M_OUTER, M_OUTER}},
    {BY_REACH_MIXED, {OF_C, M_OUTER, M_OUTER, M_OUTER, M_OUTER, OF_K}},
    {BY_REACH_IN, {OF_C, OF_K, M_OUTER, N_OUTER, N_INNER, M_INNER}},
    {BY_REACH_IN, {OF_C, OF_K, N_OUTER, M_OUTER, M_INNER, N_INNER}},
    {BY_GOING_ON, {OF_C, OF_K, M_OUTER, N_OUTER, N_INNER, M_INNER}},
};
enum { N_TEMPLATES = sizeof templates / sizeof *templates };

// The properties of a loop that decide its position among loops of its kind.
typedef struct ranked {
    int64_t reach, reach_in;
    uint8_t kind;
    uint8_t level; // 1 if the loop is inside the tiles of another loop
    // Set for loops over k (summed) whose order is fixed, because it decides
    // the order of additions: the loop must not move before others of its kind.
    uint8_t stays;
    // How the loop continues the kernel's reads of an input (the result of
    // goes_on): the smaller, the further outside it is placed; 0 if it does not
    // continue them.
    uint8_t goes_on;
} ranked;

static int64_t reach_in(const dv_nest_dim *d)
{
    return llabs(d->stride[DV_IN0]) + llabs(d->stride[DV_IN1]);
}

int64_t dv_nest_sort_stride(const dv_nest_dim *d)
{
    int64_t out = llabs(d->stride[DV_OUT]);
    return out ? out : reach_in(d);
}

// Returns whether dimension i is a loop over tiles of another loop.
static int is_outer(const dv_nest *n, const dv_nest_tiles *t, int i)
{
    return t->inner[i] >= 0 && n->dims[t->inner[i]].exec != DV_NEST_PRIM;
}

static int kind_of(const dv_nest *n, const dv_nest_tiles *t, int i)
{
    switch (n->dims[i].type) {
    case DV_NEST_C:
        return OF_C;
    case DV_NEST_K:
        return OF_K;
    case DV_NEST_M:
        return is_outer(n, t, i) ? M_OUTER : M_INNER;
    default:
        return is_outer(n, t, i) ? N_OUTER : N_INNER;
    }
}

// Returns how loop l continues, in an input, where the kernel stops reading:
// after its k (1), after a whole row (2), after its tile of a row (3), or not
// at all (0).
static int goes_on(const dv_nest *n, const dv_nest_tiles *t, int l)
{
    const dv_nest_dim *d = &n->dims[l];
    int o = d->type == DV_NEST_M ? DV_IN0 : DV_IN1;
    for (int i = 0; i < n->n_dims; i++) {
        const dv_nest_dim *p = &n->dims[i];
        if (p->exec != DV_NEST_PRIM)
            continue;
        if (p->type == DV_NEST_K && dv_nest_continues(d, p, o))
            return t->inner[l] != i;
        if (p->type == d->type && p->stride[o] == 1 && t->inner[l] == i)
            return 3;
        if (p->type == d->type && p->stride[o] == 1 &&
            d->stride[o] == dv_nest_untiled_size(p))
            return 2;
    }
    return 0;
}

static int rank_loops(const dv_nest *n, const dv_nest_tiles *t, ranked *r)
{
    int l = 0;
    for (; l < n->n_dims && n->dims[l].exec != DV_NEST_PRIM; l++) {
        int kind = kind_of(n, t, l);
        r[l] = (ranked){dv_nest_sort_stride(&n->dims[l]),
                        reach_in(&n->dims[l]),
                        (uint8_t)kind,
                        t->outer[l] >= 0,
                        kind == OF_K && n->k_order == DV_K_AS_IT_IS,
                        (uint8_t)goes_on(n, t, l)};
    }
    return l;
}

static int kind_in(const ranked *r, int sort)
{
    return sort == BY_REACH_MIXED && r->kind >= M_OUTER ? (int)M_OUTER
                                                        : r->kind;
}

// Returns whether loop a, which now stands after loop b, must come before it.
static int comes_before(const ranked *a, const ranked *b, int sort)
{
    int of = kind_in(a, sort), than = kind_in(b, sort);
    if (of != than)
        return of < than;
    if (a->stays)
        return 0;
    if (sort == BY_GOING_ON && a->goes_on != b->goes_on)
        return a->goes_on < b->goes_on;
    if (sort == BY_GOING_ON)
        return a->reach > b->reach;
    if (sort != BY_REACH_MIXED && a->level != b->level)
        return a->level < b->level;
    return sort == BY_REACH_IN ? a->reach_in > b->reach_in
                               : a->reach > b->reach;
}

// The loops sorted by kind (dimension type, and for m and n outer or inner).
// Those of kind i begin at loop[from[i]].
typedef struct sorted {
    uint8_t loop[DV_NEST_MAX_DIMS];
    uint8_t from[N_KINDS + 1];
} sorted;

static void sort_loops(const ranked *r, int loops, int sort, sorted *out)
{
    uint8_t *to = out->loop;
    for (int l = 0; l < loops; l++) {
        int i = l;
        for (; i > 0 && comes_before(&r[l], &r[to[i - 1]], sort); i--)
            to[i] = to[i - 1];
        to[i] = (uint8_t)l;
    }
    for (int kind = 0, l = 0; kind <= N_KINDS; kind++) {
        while (l < loops && kind_in(&r[to[l]], sort) < kind)
            l++;
        out->from[kind] = (uint8_t)l;
    }
}

// Writes the order of loops that entry `which` of the table of templates gives
// to order[], as old positions of the loops. Returns a hash of that order.
static uint64_t arrange(const sorted *s, int which, uint8_t *order)
{
    uint64_t sum = 0;
    // `done` is the bit mask of the kinds that are placed.
    int n = 0, done = 0;
    for (int at = 0; at < N_KINDS; at++) {
        int kind = templates[which].kinds[at];
        for (int i = s->from[kind];
             i < s->from[kind + 1] && !(done >> kind & 1); i++) {
            order[n++] = s->loop[i];
            sum = sum * 61 + s->loop[i];
        }
        done |= 1 << kind;
    }
    return sum;
}

// Returns whether `tiled`, with its tiles undone, has the same dimensions as
// `whole`.
int dv_nest_untiles_to(const dv_nest *whole, const dv_nest *tiled)
{
    int bad, taken[DV_NEST_MAX_DIMS] = {0};
    dv_nest_tiles t;
    dv_nest x;
    if (!dv_nest_tiles_of(tiled, &t, &bad))
        return 0;
    dv_nest_copy(&x, tiled);
    dv_nest_untile_with(&x, &t);
    for (int i = 0; i < whole->n_dims; i++) {
        int j = 0;
        while (j < x.n_dims &&
               (taken[j] || whole->dims[i].size != x.dims[j].size ||
                whole->dims[i].type != x.dims[j].type ||
                memcmp(whole->dims[i].stride, x.dims[j].stride,
                       sizeof x.dims[j].stride)))
            j++;
        if (j == x.n_dims)
            return 0;
        taken[j] = 1;
    }
    return x.n_dims == whole->n_dims;
}

// Returns whether each tile has exactly one loop that steps over it. Then the
// tiling survives in every order in which this loop comes before its tile, and
// in no other.
static int is_simple(const dv_nest *n, const dv_nest_tiles *t)
{
    for (int i = 0; i < n->n_dims; i++)
        for (int j = 0; n->dims[i].whole && j < n->n_dims; j++)
            if (j != i && j != t->outer[i] &&
                n->dims[j].type == n->dims[i].type &&
                dv_nest_can_collapse(&n->dims[j], &n->dims[i]))
                return 0;
    return 1;
}

static int keeps_tiles(const dv_nest_tiles *t, const uint8_t *order, int loops)
{
    uint8_t place[DV_NEST_MAX_DIMS];
    for (int l = 0; l < loops; l++)
        place[order[l]] = (uint8_t)l;
    for (int l = 0; l < loops; l++)
        if (t->outer[l] >= 0 && place[t->outer[l]] > place[l])
            return 0;
    return 1;
}

typedef struct orders {
    dv_nest given, tried;
    dv_nest_tiles t;
    double turns[DV_NEST_MAX_DIMS];
    int loops, simple;
    ranked ranks[DV_NEST_MAX_DIMS];
    sorted sorted[N_SORTS];
    uint8_t all[N_TEMPLATES][DV_NEST_MAX_DIMS];
    uint64_t sums[N_TEMPLATES];
} orders;

// Puts the loops of a copy of the nest, x->tried, into the order that entry
// `which` of the table of templates gives. Returns 0 if that order need not be
// tried: an earlier template gave it, or it breaks the tiling.
static int apply_template(orders *x, int which)
{
    int sort = templates[which].sort;
    uint8_t *order = x->all[which];
    x->sums[which] = arrange(&x->sorted[sort], which, order);
    for (int other = 0; other < which; other++)
        if (x->sums[other] == x->sums[which] &&
            !memcmp(x->all[other], order, (size_t)x->loops))
            return 0;
    if (x->simple && !keeps_tiles(&x->t, order, x->loops))
        return 0;
    for (int l = 0; l < x->loops; l++)
        x->tried.dims[l] = x->given.dims[order[l]];
    if (x->simple)
        return 1;
    dv_nest whole;
    dv_nest_copy(&whole, &x->given);
    dv_nest_untile_with(&whole, &x->t);
    return dv_nest_untiles_to(&whole, &x->tried);
}

// Recomputes the counts of iterations and elements in *c for the order of loops
// that is being tried. Returns 0 if that order is invalid.
static int count_order(dv_nest_count *c, orders *x, int which)
{
    dv_nest_tiles t;
    int bad;
    if (x->simple) {
        dv_nest_count_again(c, &x->tried, x->turns, x->all[which]);
        return 1;
    }
    return dv_nest_tiles_of(&x->tried, &t, &bad) &&
           dv_nest_count_begin(c, &x->tried, c->caches, &t);
}

// Computes those parts of the cost that do not depend on the order of loops.
// Returns 0 if the lower bound shows that no order costs less than `most`.
static int begin(orders *x, dv_nest_count *c, const dv_nest *n, double most)
{
    if (dv_nest_bound(c, most) >= most)
        return 0;
    dv_nest_copy(&x->given, n);
    dv_nest_copy(&x->tried, n);
    x->loops = rank_loops(n, &x->t, x->ranks);
    x->simple = is_simple(n, &x->t);
    memcpy(x->turns, c->turns, (size_t)x->loops * sizeof *x->turns);
    for (int sort = 0; sort < N_SORTS; sort++)
        sort_loops(x->ranks, x->loops, sort, &x->sorted[sort]);
    return 1;
}

double dv_nest_order_loops(dv_nest *n, const dv_nest_caches *caches,
                           double most, dv_nest_ordered *out)
{
    orders x;
    dv_nest_count c;
    int bad;
    out->packs.cost = most;
    out->least = 0;
    if (!dv_nest_tiles_of(n, &x.t, &bad) ||
        !dv_nest_count_begin(&c, n, caches, &x.t))
        return DV_NEST_IMPOSSIBLE;
    dv_nest_packset *all = dv_nest_packset_of(&c, DV_NEST_PACKSETS - 1);
    out->least = all ? dv_nest_kernel_cost(&c, all) : 0;
    if (!begin(&x, &c, n, most))
        return DV_NEST_IMPOSSIBLE;
    for (int i = 0; i < N_TEMPLATES; i++) {
        double before = out->packs.cost;
        if (!apply_template(&x, i) || !count_order(&c, &x, i))
            continue;
        dv_nest_choose_packs(&c, &out->packs, -1);
        // Only the order of loops is copied to the nest; the packing is
        // returned in out->packs and not marked in the dimensions.
        if (out->packs.cost < before)
            memcpy(n->dims, x.tried.dims, (size_t)x.loops * sizeof *n->dims);
    }
    return out->packs.cost < most ? out->packs.cost : DV_NEST_IMPOSSIBLE;
}

dv_status dv_nest_order(dv_nest *n, const dv_nest_options *options,
                        dv_diag *diag)
{
    (void)diag;
    dv_nest_caches caches = dv_nest_caches_of(options);
    dv_nest_ordered found;
    if (!dv_nest_is_product(n) && !dv_nest_is_tiled(n))
        dv_nest_sort_loops(n);
    if (dv_nest_is_product(n) && !dv_nest_is_gemm(n, NULL))
        dv_nest_order_loops(n, &caches, DV_NEST_IMPOSSIBLE, &found);
    return DV_OK;
}

dv_status dv_nest_pack(dv_nest *n, const dv_nest_options *options,
                       dv_diag *diag)
{
    (void)diag;
    dv_nest_caches caches = dv_nest_caches_of(options);
    if (dv_nest_is_product(n) && !dv_nest_is_gemm(n, NULL))
        dv_nest_mark_packs(n, &caches, 0, DV_NEST_IMPOSSIBLE);
    return DV_OK;
}
