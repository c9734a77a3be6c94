// A good order for many operands: always the pair that looks best now. Pairs
// that share an index come first; what shares none with anything is multiplied
// at the end, small ones first. Looking best has three meanings, none of which
// is always right, so all are tried and the cheapest order of the three is
// taken.
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
} live;

typedef struct work {
    const dv_order *o;
    live *at; // tensors that are left
    int32_t n;
    int32_t uses[DV_MAX_IDS]; // tensors left with this index
    price *key;
} work;

typedef struct choice {
    int32_t a, b; // places in work.at; a < b
    int outer;
    double key, elems, flops;
    dv_ids keep;
} choice;

static void count(work *w, dv_ids ids, int by)
{
    for (int k = 0; k < 2; k++)
        for (uint64_t x = ids.w[k]; x; x &= x - 1)
            w->uses[64 * k + __builtin_ctzll(x)] += by;
}

// Indices of a pair that the output or another tensor needs.
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

static int better(const choice *x, const choice *y)
{
    if (x->outer != y->outer)
        return !x->outer;
    if (x->key != y->key)
        return x->key < y->key;
    return x->elems < y->elems;
}

// 0: the product may not be stored.
static int weigh(const work *w, choice *c)
{
    const live *a = &w->at[c->a], *b = &w->at[c->b];
    c->outer = dv_ids_none(dv_ids_and(a->ids, b->ids));
    c->keep = needed(w, a->ids, b->ids);
    c->elems = dv_ids_points(c->keep, w->o->extent);
    c->flops = dv_pair_flops(dv_ids_or(a->ids, b->ids), c->keep, w->o->extent);
    c->key = w->key(c->flops, c->elems, a->elems, b->elems);
    if (c->outer)
        c->key = c->elems;
    return w->n == 2 || (dv_ids_count(c->keep) <= DV_MAX_DIMS &&
                         (w->o->max_elems <= 0 || c->elems <= w->o->max_elems));
}

static int choose(const work *w, choice *best)
{
    int found = 0;
    for (int32_t a = 0; a < w->n; a++)
        for (int32_t b = a + 1; b < w->n; b++) {
            choice c = {.a = a, .b = b};
            if (weigh(w, &c) && (!found || better(&c, best))) {
                *best = c;
                found = 1;
            }
        }
    return found;
}

// One whole order; flops are infinite when it comes to no end.
static dv_order_cost walk(work *w, dv_pair *pairs)
{
    const dv_order *o = w->o;
    dv_order_cost cost = {0, 0, 0};
    memset(w->uses, 0, sizeof w->uses);
    w->n = o->n;
    for (int32_t i = 0; i < o->n; i++) {
        w->at[i] = (live){o->ids[i], dv_ids_points(o->ids[i], o->extent), i};
        count(w, o->ids[i], 1);
    }
    for (int32_t made = 0; w->n > 1; made++) {
        choice c = {0};
        if (!choose(w, &c))
            return (dv_order_cost){INFINITY, 0, 0};
        live *a = &w->at[c.a], *b = &w->at[c.b];
        pairs[made] = (dv_pair){a->number, b->number};
        count(w, a->ids, -1);
        count(w, b->ids, -1);
        count(w, c.keep, 1);
        *a = (live){c.keep, c.elems, o->n + made};
        memmove(b, b + 1, (size_t)(w->n - c.b - 1) * sizeof *b);
        w->n--;
        cost.flops += c.flops;
        cost.elems += w->n > 1 ? c.elems : 0;
        cost.outers += c.outer;
    }
    return cost;
}

dv_status dv_order_greedy(const dv_order *o, dv_pair *pairs,
                          dv_order_cost *cost, dv_arena *arena, dv_diag *diag)
{
    static price *const keys[] = {by_freed, by_growth, by_flops};
    work w = {.o = o, .at = DV_NEW(arena, live, o->n)};
    dv_pair *tried = DV_NEW(arena, dv_pair, o->n);
    if (!w.at || !tried)
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
