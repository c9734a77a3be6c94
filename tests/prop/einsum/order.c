// Properties of orders of products: the exact search finds the cheapest of all
// orders, the greedy search none that is cheaper than that, and both report the
// cost of the order that they return.
#include "harness/test.h"
#include "einsum/einsum.h"
#include "harness/gen.h"
#include <math.h>

enum { MAX_IN = 6 };

// Returns the cost of the cheapest of all orders, by recursion over the tensors
// that are left.
static dv_order_cost all_orders(const dv_einsum_order *o, const dv_ids *ids,
                                int n)
{
    dv_order_cost best = {n > 1 ? INFINITY : 0, 0, 0};
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) {
            dv_ids rest[MAX_IN], need = o->out;
            int k = 0;
            for (int i = 0; i < n; i++)
                if (i != a && i != b) {
                    rest[k++] = ids[i];
                    need = dv_ids_or(need, ids[i]);
                }
            dv_ids both = dv_ids_or(ids[a], ids[b]);
            rest[k++] = dv_ids_and(both, need);
            dv_order_cost c = all_orders(o, rest, k);
            double elems = dv_ids_points(rest[k - 1], o->extent);
            if (k > 1 && o->max_elems > 0 && elems > o->max_elems)
                continue;
            c.flops += dv_pair_flops(both, need, o->extent);
            c.elems += k > 1 ? elems : 0;
            c.outers += dv_ids_none(dv_ids_and(ids[a], ids[b]));
            if (dv_order_less(c, best))
                best = c;
        }
    return best;
}

// Makes random tensors, none of which has an index that no other tensor or the
// output has.
static void make_order(rng *r, dv_einsum_order *o, dv_ids *ids, int64_t *extent)
{
    int n_ids = 1 + (int)rng_below(r, 8);
    *o = (dv_einsum_order){.ids = ids, .extent = extent};
    o->n = 2 + (int32_t)rng_below(r, MAX_IN - 1);
    memset(ids, 0, MAX_IN * sizeof *ids);
    for (int k = 0; k < n_ids; k++) {
        int id = k * 15, n = 0; // beyond one word of the bit set
        extent[id] = 1 + rng_below(r, 9);
        for (int i = 0; i < o->n; i++)
            if (rng_percent(r, 40)) {
                dv_ids_add(&ids[i], id);
                n++;
            }
        if (n && (n == 1 || rng_percent(r, 30)))
            dv_ids_add(&o->out, id);
    }
    o->max_elems = rng_percent(r, 20) ? (double)(20 + rng_below(r, 400)) : 0;
}

// Returns the cost of a given order.
static dv_order_cost cost_of(const dv_einsum_order *o, const dv_pair *pairs)
{
    dv_ids ids[2 * MAX_IN];
    dv_order_cost c = {0, 0, 0};
    int done[2 * MAX_IN] = {0};
    memcpy(ids, o->ids, (size_t)o->n * sizeof *ids);
    for (int32_t i = 0; i < o->n - 1; i++) {
        int32_t a = pairs[i].a, b = pairs[i].b, made = o->n + i;
        assert_true(a >= 0 && b >= 0 && a < made && b < made && a != b);
        assert_true(!done[a] && !done[b]);
        done[a] = done[b] = 1;
        dv_ids need = o->out, both = dv_ids_or(ids[a], ids[b]);
        for (int32_t k = 0; k < made; k++)
            if (!done[k])
                need = dv_ids_or(need, ids[k]);
        ids[made] = dv_ids_and(both, need);
        c.flops += dv_pair_flops(both, need, o->extent);
        c.elems += i < o->n - 2 ? dv_ids_points(ids[made], o->extent) : 0;
        c.outers += dv_ids_none(dv_ids_and(ids[a], ids[b]));
    }
    return c;
}

static int same(dv_order_cost a, dv_order_cost b)
{
    return !dv_order_less(a, b) && !dv_order_less(b, a);
}

TEST(exact_is_cheapest)
{
    uint64_t seed = gen_seed();
    for (int i = 0; i < gen_cases(1500); i++) {
        rng r = {seed + (uint64_t)i};
        dv_ids ids[MAX_IN];
        int64_t extent[DV_MAX_IDS] = {0};
        dv_einsum_order o;
        dv_pair pairs[MAX_IN];
        dv_arena arena = {0};
        dv_order_cost exact, greedy, all;
        make_order(&r, &o, ids, extent);
        all = all_orders(&o, ids, o.n);
        assert_int_equal(dv_order_exact(&o, pairs, &exact, &arena, NULL), 0);
        int ok =
            isfinite(all.flops) ? same(all, exact) : !isfinite(exact.flops);
        if (ok && isfinite(exact.flops))
            ok = same(exact, cost_of(&o, pairs));
        assert_int_equal(dv_order_greedy(&o, pairs, &greedy, &arena, NULL), 0);
        ok = ok && !(greedy.flops < exact.flops);
        if (ok && isfinite(greedy.flops))
            ok = same(greedy, cost_of(&o, pairs));
        if (!ok)
            fprintf(stderr, "DV_SEED=%llu: all %g, exact %g, greedy %g\n",
                    (unsigned long long)(seed + (uint64_t)i), all.flops,
                    exact.flops, greedy.flops);
        dv_arena_free(&arena);
        assert_true(ok);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(exact_is_cheapest)};
    return run_group(tests, NULL, NULL);
}
