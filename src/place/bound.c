// Computes an upper bound of the weight that can be placed, by Lagrangian
// relaxation.
//
// Addresses are ignored; what remains is that the placed items need at most the
// capacity at any time. A price per byte and section of time relaxes that
// constraint: an item is worth placing if its weight exceeds the price of its
// bytes, and for any non-negative prices
//
//   bound = sum of capacity x price + sum of positive (weight - item's price)
//
// is at least the weight of any placement. The prices are found by subgradient
// steps with Polyak's step length. The least bound seen is the result, and its
// prices tell which items are worth placing.
//
// A section is a tick where the set of live items is maximal. A child may share
// its parent's bytes in the tick in which both are live, so it is counted from
// the next tick on.
#include "place/place.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The length of the subgradient steps, which minimise the bound, is reduced
// after this many steps without enough progress.
enum { PATIENCE = 200 };

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int32_t unique(int64_t *v, int32_t n)
{
    if (n)
        qsort(v, (size_t)n, sizeof *v, ascending);
    int32_t m = 0;
    for (int32_t i = 0; i < n; i++)
        if (m == 0 || v[i] != v[m - 1])
            v[m++] = v[i];
    return m;
}

// Returns how many of the n sorted ticks are smaller than `tick`.
static int32_t below(const int64_t *ticks, int32_t n, int64_t tick)
{
    int32_t lo = 0, hi = n;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (ticks[mid] < tick)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int64_t counted_from(const dv_item *it)
{
    return it->start + (it->n_parents > 0);
}

// Finds the time sections: ticks at which some item starts, such that some item
// ends before the next start. Only there can the set of live items be maximal.
// Returns their number.
static int32_t find_sections(const dv_task *t, int64_t *ticks, char *ends)
{
    int32_t n = 0, m = 0;
    for (int32_t i = 0; i < t->n; i++) {
        const dv_item *it = &t->items[i];
        if (!it->in_play && it->fixed < 0)
            continue;
        ticks[n++] = it->start;
        if (it->n_parents && it->start + 1 < it->end)
            ticks[n++] = it->start + 1;
    }
    n = unique(ticks, n);
    for (int32_t i = 0; i < t->n; i++) {
        int32_t k = below(ticks, n, t->items[i].end);
        if (k > 0)
            ends[k - 1] = 1;
    }
    for (int32_t k = 0; k < n; k++)
        if (ends[k] || k == n - 1)
            ticks[m++] = ticks[k];
    return m;
}

int dv_prices_init(dv_prices *p, const dv_task *t, dv_arena *a)
{
    *p = (dv_prices){0};
    int64_t *ticks = p->tick = DV_NEW(a, int64_t, 2 * (size_t)t->n);
    char *ends = DV_NEW(a, char, 2 * (size_t)t->n);
    p->begin = DV_NEW(a, int32_t, t->n);
    p->first = DV_NEW(a, int32_t, t->n);
    p->last = DV_NEW(a, int32_t, t->n);
    if (!ticks || !ends || !p->begin || !p->first || !p->last)
        return 0;
    p->n = find_sections(t, ticks, ends);
    p->room = DV_NEW(a, int64_t, p->n);
    p->price = DV_NEW(a, double, p->n);
    p->cost = DV_NEW(a, double, p->n + 1);
    if (!p->room || !p->price || !p->cost)
        return 0;
    for (int32_t i = 0; i < t->n; i++) {
        p->begin[i] = below(ticks, p->n, t->items[i].start);
        p->first[i] = below(ticks, p->n, counted_from(&t->items[i]));
        p->last[i] = below(ticks, p->n, t->items[i].end);
    }
    for (int32_t k = 0; k < p->n; k++)
        p->room[k] = dv_round_up(t->capacity, t->unit);
    for (int32_t f = 0; f < t->n_fixed; f++) {
        int32_t i = t->fixed[f];
        for (int32_t k = p->first[i]; k < p->last[i]; k++)
            p->room[k] -= dv_round_up(t->items[i].size, t->unit);
    }
    for (int32_t k = 0; k < p->n; k++)
        p->room[k] = p->room[k] > 0 ? p->room[k] : 0;
    return 1;
}

double dv_item_price(const dv_prices *p, const dv_task *t, int32_t i)
{
    return (p->cost[p->last[i]] - p->cost[p->first[i]]) *
           (double)dv_round_up(t->items[i].size, t->unit);
}

static void add_up(dv_prices *p)
{
    p->cost[0] = 0;
    for (int32_t k = 0; k < p->n; k++)
        p->cost[k + 1] = p->cost[k] + p->price[k];
}

// An item that competes for memory: its size, weight, and first and last time
// section (a tick where the set of live items is maximal).
typedef struct bid {
    double size, weight;
    int32_t first, last;
} bid;

// All items that compete for memory: first the items in no group, then the
// items of each group, which are placed all or not at all.
typedef struct market {
    bid *bids;
    int32_t n_singles, n_groups;
    int32_t *group_at; // group g is bids[group_at[g]..group_at[g + 1]]
    double fixed;      // weight of the items with given addresses
    double *load, *best;
} market;

static void add_bid(market *m, const dv_prices *p, const dv_task *t, int32_t i,
                    int32_t *n)
{
    m->bids[(*n)++] =
        (bid){(double)dv_round_up(t->items[i].size, t->unit),
              (double)t->items[i].weight, p->first[i], p->last[i]};
}

static int collect_bids(market *m, const dv_prices *p, const dv_task *t,
                        dv_arena *a)
{
    int32_t n = 0;
    m->bids = DV_NEW(a, bid, t->n);
    m->group_at = DV_NEW(a, int32_t, t->n_groups + 1);
    m->load = DV_NEW(a, double, p->n + 1);
    m->best = DV_NEW(a, double, p->n + 1);
    if (!m->bids || !m->group_at || !m->load || !m->best)
        return 0;
    for (int32_t i = 0; i < t->n; i++) {
        if (t->items[i].fixed >= 0)
            m->fixed += (double)t->items[i].weight;
        if (t->items[i].in_play && t->items[i].group < 0)
            add_bid(m, p, t, i, &n);
    }
    m->n_singles = n;
    for (int32_t g = 0; g < t->n_groups; g++) {
        if (!t->items[t->members[t->group_at[g]]].in_play)
            continue;
        m->group_at[m->n_groups++] = n;
        for (int32_t k = t->group_at[g]; k < t->group_at[g + 1]; k++)
            add_bid(m, p, t, t->members[k], &n);
    }
    m->group_at[m->n_groups] = n;
    return 1;
}

static double worth(const bid *b, const double *cost)
{
    return b->weight - (cost[b->last] - cost[b->first]) * b->size;
}

// Returns the upper bound of the placed weight for the current prices, one per
// byte and time section (a tick where the set of live items is maximal). Sets
// m->load to the bytes that the items worth placing need in each section.
static double evaluate(const market *m, const dv_prices *p)
{
    double bound = m->fixed, *load = m->load;
    memset(load, 0, (size_t)(p->n + 1) * sizeof *load);
    for (int32_t k = 0; k < p->n; k++)
        bound += p->price[k] * (double)p->room[k];
    for (int32_t k = 0; k < m->n_singles; k++) {
        const bid *b = &m->bids[k];
        double w = worth(b, p->cost);
        if (w <= 0)
            continue;
        bound += w;
        load[b->first] += b->size;
        load[b->last] -= b->size;
    }
    for (int32_t g = 0; g < m->n_groups; g++) {
        double w = 0;
        for (int32_t k = m->group_at[g]; k < m->group_at[g + 1]; k++)
            w += worth(&m->bids[k], p->cost);
        if (w <= 0)
            continue;
        bound += w;
        for (int32_t k = m->group_at[g]; k < m->group_at[g + 1]; k++) {
            load[m->bids[k].first] += m->bids[k].size;
            load[m->bids[k].last] -= m->bids[k].size;
        }
    }
    for (int32_t k = 1; k < p->n; k++)
        load[k] += load[k - 1];
    return bound;
}

// Makes a subgradient step: raises the price per byte of each time section (a
// tick where the set of live items is maximal) that needs more than the
// capacity, and lowers that of sections with free bytes. Returns 0 if the
// subgradient is zero, so that no step is possible.
static int step(dv_prices *p, const double *load, double length)
{
    double norm = 0;
    for (int32_t k = 0; k < p->n; k++) {
        double over = load[k] - (double)p->room[k];
        if (p->price[k] > 0 || over > 0)
            norm += over * over;
    }
    if (norm <= 0)
        return 0;
    for (int32_t k = 0; k < p->n; k++) {
        p->price[k] += length / norm * (load[k] - (double)p->room[k]);
        if (p->price[k] < 0)
            p->price[k] = 0;
    }
    return 1;
}

static void save(double *to, const double *from, int32_t n)
{
    memcpy(to, from, (size_t)n * sizeof *to);
}

// Minimises the upper bound of the placed weight by up to `steps` subgradient
// steps that aim at `reach` below the lowest bound so far; `reach` is reduced
// if PATIENCE (200) steps bring too little progress. Returns the lowest bound.
static double balance(const market *m, dv_prices *p, double known, int steps)
{
    double lowest = INFINITY, reach = 0, mark = INFINITY;
    for (int s = 0, still = 0; s < steps; s++) {
        add_up(p);
        double bound = evaluate(m, p);
        if (s == 0)
            reach = 0.1 * (bound - known);
        if (bound < lowest) {
            lowest = bound;
            save(m->best, p->price, p->n);
        }
        if (lowest < mark - reach / 2) {
            mark = lowest;
            still = 0;
        } else if (++still > PATIENCE) {
            still = 0;
            reach /= 1.4;
            mark = lowest;
            save(p->price, m->best, p->n);
            continue;
        }
        if (lowest < known + 1 || reach < 1e-7 * lowest ||
            !step(p, m->load, bound - lowest + reach))
            break;
    }
    save(p->price, m->best, p->n);
    return lowest;
}

// Sets the price per byte of each time section of p (a tick where the set of
// live items is maximal) to the sum of the prices of the sections of `from`
// that it covers.
void dv_prices_init_from(dv_prices *p, const dv_prices *from)
{
    int32_t k = 0;
    for (int32_t s = 0; s < p->n; s++) {
        p->price[s] = 0;
        for (; k < from->n && from->tick[k] <= p->tick[s]; k++)
            p->price[s] += from->tick[k] > (s ? p->tick[s - 1] : INT64_MIN)
                               ? from->price[k]
                               : 0;
    }
}

int dv_price_steps(const dv_task *t, const dv_prices *p)
{
    int64_t steps = 9000000 / ((int64_t)t->n + p->n + 1);
    return steps < 60 ? 60 : steps > 20000 ? 20000 : (int)steps;
}

// Returns the greatest common divisor of all weights. The weight of every
// placement is a multiple of it, so bounds can be rounded down to one.
static int64_t value_unit(const dv_task *t)
{
    int64_t unit = 0;
    for (int32_t i = 0; i < t->n && unit != 1; i++)
        if (t->items[i].in_play || t->items[i].fixed >= 0)
            unit = dv_gcd(t->items[i].weight, unit);
    return unit ? unit : 1;
}

int dv_prices_improve(dv_prices *p, const dv_task *t, int64_t known, int steps)
{
    dv_arena a = {0};
    market m = {0};
    int ok = collect_bids(&m, p, t, &a);
    if (ok) {
        double lowest = balance(&m, p, (double)known, steps);
        add_up(p);
        p->bound = (int64_t)floor(lowest * (1 + 1e-12));
        p->bound -= p->bound % value_unit(t);
    }
    dv_arena_free(&a);
    return ok;
}
