// Finds a good order for many operands by always taking the pair that seems
// best. Pairs that share an index come first; tensors that share no index with
// any other are multiplied last, smallest products first. Three criteria for
// the best pair are tried, because none is always right, and the cheapest of
// the three orders is taken. The result of a pair does not depend on the
// products made in between, because an index that a third tensor has is kept by
// every product of that tensor. Therefore each pair is evaluated once, and
// pairs of a new product when it is made.
#include "einsum/einsum.h"
#include <math.h>
#include <string.h>

typedef double price(double flops, double out, double a, double b);

static double by_freed(double flops, double out, double a, double b)
{
    return flops - (a + b - out);
}

static double by_flops(double flops, double out, double a, double b)
{
    (void)out, (void)a, (void)b;
    return flops;
}

static double by_growth(double flops, double out, double a, double b)
{
    (void)flops;
    return out - (a + b);
}

typedef struct live {
    dv_ids ids;
    double elems;
    int32_t number;
    // Number of the row and column of this tensor in the matrix of all pairs.
    int32_t row;
} live;

// The values by which pairs of tensors to multiply are compared.
typedef struct weight {
    double key, elems;
    // `outer`: the factors share no index; `fits`: the result is within the
    // size limits.
    int outer, fits;
} weight;

typedef struct work {
    const dv_einsum_order *o;
    live *at; // tensors not yet multiplied
    int32_t n;
    int32_t uses[DV_MAX_IDS]; // number of remaining tensors with each index
    price *key;
    // n x n matrix of all pairs of tensors; the pair of those with rows r < c
    // is stored at (r, c).
    weight *pairs;
} work;

typedef struct choice {
    // Positions of both factors (a < b) in the list of tensors not yet
    // multiplied.
    int32_t a, b;
    double flops, elems;
    dv_ids keep;
} choice;

static void count(work *w, dv_ids ids, int by)
{
    for (int k = 0; k < 2; k++)
        for (uint64_t x = ids.w[k]; x; x &= x - 1)
            w->uses[64 * k + __builtin_ctzll(x)] += by;
}

// Returns the indices of tensors a and b that their product must keep: those
// that the output or another remaining tensor has.
static dv_ids needed(const work *w, dv_ids a, dv_ids b)
{
    dv_ids both = dv_ids_or(a, b), keep = {{0, 0}};
    for (int k = 0; k < 2; k++)
        for (uint64_t x = both.w[k]; x; x &= x - 1) {
            int id = 64 * k + __builtin_ctzll(x);
            int own = dv_ids_has(a, id) + dv_ids_has(b, id);
            if (w->uses[id] > own || dv_ids_has(w->o->out, id))
                dv_ids_add(&keep, id);
        }
    return keep;
}

static int better(const weight *x, const weight *y)
{
    if (x->outer != y->outer)
        return !x->outer;
    if (x->key != y->key)
        return x->key < y->key;
    return x->elems < y->elems;
}

static weight *weight_of(const work *w, int32_t a, int32_t b)
{
    int32_t r = w->at[a].row, c = w->at[b].row;
    return &w->pairs[r < c ? (size_t)r * (size_t)w->o->n + (size_t)c
                           : (size_t)c * (size_t)w->o->n + (size_t)r];
}

static void measure(const work *w, choice *c)
{
    const live *a = &w->at[c->a], *b = &w->at[c->b];
    c->keep = needed(w, a->ids, b->ids);
    c->elems = dv_ids_points(c->keep, w->o->extent);
    c->flops = dv_pair_flops(dv_ids_or(a->ids, b->ids), c->keep, w->o->extent);
}

static void weigh(const work *w, int32_t i, int32_t j)
{
    const live *a = &w->at[i], *b = &w->at[j];
    choice c = {.a = i, .b = j};
    weight *to = weight_of(w, i, j);
    measure(w, &c);
    to->outer = dv_ids_none(dv_ids_and(a->ids, b->ids));
    to->elems = c.elems;
    to->key =
        to->outer ? c.elems : w->key(c.flops, c.elems, a->elems, b->elems);
    to->fits = dv_ids_count(c.keep) <= DV_MAX_DIMS &&
               (w->o->max_elems <= 0 || c.elems <= w->o->max_elems);
}

static int choose(const work *w, choice *best)
{
    const weight *least = NULL;
    for (int32_t a = 0; a < w->n; a++)
        for (int32_t b = a + 1; b < w->n; b++) {
            const weight *x = weight_of(w, a, b);
            if ((x->fits || w->n == 2) && (!least || better(x, least))) {
                least = x;
                best->a = a;
                best->b = b;
            }
        }
    if (least)
        measure(w, best);
    return least != NULL;
}

// Builds one complete order of products, always taking the pair that is best by
// the criterion w->key, such as the fewest flops. The flops returned are
// infinite if the limits on the size of results allow no order.
static dv_order_cost walk(work *w, dv_pair *pairs)
{
    const dv_einsum_order *o = w->o;
    dv_order_cost cost = {0, 0, 0};
    memset(w->uses, 0, sizeof w->uses);
    w->n = o->n;
    for (int32_t i = 0; i < o->n; i++) {
        w->at[i] = (live){o->ids[i], dv_ids_points(o->ids[i], o->extent), i, i};
        count(w, o->ids[i], 1);
    }
    for (int32_t i = 0; i < o->n; i++)
        for (int32_t j = i + 1; j < o->n; j++)
            weigh(w, i, j);
    for (int32_t made = 0; w->n > 1; made++) {
        choice c = {0};
        if (!choose(w, &c))
            return (dv_order_cost){INFINITY, 0, 0};
        live *a = &w->at[c.a], *b = &w->at[c.b];
        pairs[made] = (dv_pair){a->number, b->number};
        count(w, a->ids, -1);
        count(w, b->ids, -1);
        count(w, c.keep, 1);
        cost.outers += weight_of(w, c.a, c.b)->outer;
        *a = (live){c.keep, c.elems, o->n + made, a->row};
        memmove(b, b + 1, (size_t)(w->n - c.b - 1) * sizeof *b);
        w->n--;
        cost.flops += c.flops;
        cost.elems += w->n > 1 ? c.elems : 0;
        for (int32_t i = 0; i < w->n; i++)
            if (i != c.a)
                weigh(w, i < c.a ? i : c.a, i < c.a ? c.a : i);
    }
    return cost;
}

dv_status dv_order_greedy(const dv_einsum_order *o, dv_pair *pairs,
                          dv_order_cost *cost, dv_arena *arena, dv_diag *diag)
{
    static price *const keys[] = {by_freed, by_growth, by_flops};
    work w = {.o = o, .at = DV_NEW(arena, live, o->n)};
    dv_pair *tried = DV_NEW(arena, dv_pair, o->n);
    w.pairs = DV_NEW(arena, weight, (int64_t)o->n * o->n);
    if (!w.at || !tried || !w.pairs)
        return dv_nomem(diag);
    *cost = (dv_order_cost){INFINITY, 0, 0};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        w.key = keys[i];
        dv_order_cost c = walk(&w, tried);
        if (!dv_order_less(c, *cost))
            continue;
        *cost = c;
        memcpy(pairs, tried, (size_t)(o->n - 1) * sizeof *pairs);
    }
    return DV_OK;
}
