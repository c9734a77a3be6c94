// Finds the cheapest order of products by dynamic programming over all subsets
// S of the operands, from the best orders of the two halves of every split.
//
//   best(S) = min over A + B = S of best(A) + best(B) + cost(A, B)
//
// The indices of S's product do not depend on the order inside S: they are
// those that the output or an operand outside S needs. Costs are compared by
// flops, then by elements of intermediate results, then by outer products; all
// three are sums over the halves, so optimal halves give an optimal whole.
// There are 3^n / 2 splits, about 30000 for n = 10. Splits that take more flops
// than a greedy order of all operands are skipped.
#include "einsum/einsum.h"
#include <math.h>

typedef struct subset {
    // `all`: the indices of the subset's operands; `keep`: those of them that
    // the output or an operand outside the subset needs.
    dv_ids all, keep;
    dv_order_cost cost;
    uint32_t left; // bit mask of one half of the best split
    int32_t number;
} subset;

static subset *make_subsets(const dv_einsum_order *o, dv_arena *arena)
{
    uint32_t n = 1u << o->n, full = n - 1;
    subset *at = DV_NEW(arena, subset, n);
    for (uint32_t s = 1; at && s < n; s++) {
        int low = __builtin_ctz(s);
        at[s].all = dv_ids_or(at[s & (s - 1)].all, o->ids[low]);
        at[s].number = low;
    }
    for (uint32_t s = 1; at && s < n; s++)
        at[s].keep =
            dv_ids_and(at[s].all, dv_ids_or(o->out, at[full & ~s].all));
    return at;
}

// Returns whether the product of a subset of the operands has few enough dims
// and elements to be stored as an intermediate result.
static int fits(const dv_einsum_order *o, const subset *s, double elems)
{
    return dv_ids_count(s->keep) <= DV_MAX_DIMS &&
           (o->max_elems <= 0 || elems <= o->max_elems);
}

// Finds the best split of subset s (a bit mask of operands) into two factors.
// Splits with more flops than `most`, the cost of a known order of all
// operands, cannot be part of the best order.
static void best_split(const dv_einsum_order *o, subset *at, uint32_t s,
                       double most)
{
    subset *to = &at[s];
    uint32_t full = (1u << o->n) - 1;
    // Number of elements of the subset's product, a lower bound on the flops
    // that the last product takes.
    double left = dv_ids_points(to->keep, o->extent);
    double elems = s == full ? 0 : left;
    to->cost.flops = INFINITY;
    if (s != full && !fits(o, to, elems))
        return;
    for (uint32_t a = (s - 1) & s; a > (s ^ a); a = (a - 1) & s) {
        const subset *x = &at[a], *y = &at[s ^ a];
        dv_order_cost c = {x->cost.flops + y->cost.flops,
                           x->cost.elems + y->cost.elems + elems,
                           x->cost.outers + y->cost.outers};
        if (!(c.flops + left <= fmin(to->cost.flops, most)))
            continue;
        c.flops +=
            dv_pair_flops(dv_ids_or(x->keep, y->keep), to->keep, o->extent);
        c.outers += dv_ids_none(dv_ids_and(x->keep, y->keep));
        if (dv_order_less(c, to->cost)) {
            to->cost = c;
            to->left = a;
        }
    }
}

// Writes the products that compute the product of subset s (a bit mask of
// operands), factors before their product. The factor that contains the
// lowest-numbered operand is on the left.
static int32_t put_pairs(const dv_einsum_order *o, const subset *at, uint32_t s,
                         dv_pair *pairs, int32_t *n)
{
    if ((s & (s - 1)) == 0)
        return at[s].number;
    uint32_t a = at[s].left, b = s ^ a;
    if (__builtin_ctz(b) < __builtin_ctz(a)) {
        uint32_t t = a;
        a = b;
        b = t;
    }
    int32_t left = put_pairs(o, at, a, pairs, n);
    int32_t right = put_pairs(o, at, b, pairs, n);
    pairs[(*n)++] = (dv_pair){left, right};
    return o->n + *n - 1;
}

dv_status dv_order_exact(const dv_einsum_order *o, dv_pair *pairs,
                         dv_order_cost *cost, dv_arena *arena, dv_diag *diag)
{
    // From this number of operands on, a greedy order is computed first: its
    // cost is an upper bound that lets the exact search skip worse splits.
    enum { MANY = 8 };
    subset *at = make_subsets(o, arena);
    uint32_t full = (1u << o->n) - 1;
    int32_t n = 0;
    cost->flops = INFINITY;
    if (!at)
        return dv_nomem(diag);
    if (o->n >= MANY)
        DV_TRY(dv_order_greedy(o, pairs, cost, arena, diag));
    double most = cost->flops * (1 + 1e-9);
    for (uint32_t s = 1; s <= full; s++)
        if (s & (s - 1))
            best_split(o, at, s, most);
    *cost = at[full].cost;
    if (isfinite(cost->flops))
        put_pairs(o, at, full, pairs, &n);
    return DV_OK;
}
