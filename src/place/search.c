// Local search on an answer (addresses of items, which are buffers): insert an
// unplaced item, evict the items that overlap it, and try to place those
// elsewhere.
//
//   1. Draw an unplaced unit: an item, or all items of a group.
//   2. Choose an address for each of its items. The cost of an address is the
//      weight of the items that overlap it, times a random factor; the cheapest
//      address is taken and the overlapping units are evicted.
//   3. Put evicted units back into gaps where they fit, heaviest first.
//   4. Keep the result if it is no worse, or with a probability that depends
//      on the loss and the temperature; otherwise undo all changes.
//
// The effort of a step is the number of overlapping items that it examines, not
// time, so that the same input takes the same steps on every machine.
#include "place/search.h"
#include "base/random.h"
#include <math.h>
#include <string.h>

typedef struct span {
    int64_t lo, hi;
    int32_t item;
} span;

typedef struct top {
    int64_t at;
    double weight;
} top;

// The weight of an item that cannot be evicted: greater than the sum of all
// other weights.
static const double NOT_EVICTABLE = 0x1p80;

typedef struct change {
    int32_t item;
    int64_t at; // the item's address before the change
} change;

struct dv_search {
    dv_arena arena;
    const dv_task *t;
    const dv_neighbours *neighbours;
    dv_effort *effort;
    uint64_t rng;
    int64_t *at;
    int64_t value, best_value;
    int64_t *best_at;
    // A unit is what is evicted and placed as a whole: units 0..n_groups - 1
    // are groups of items; unit n_groups + i is the single item i.
    int64_t *weight; // weight of each unit (item or group)
    // self[i] = i, used as the list of items of a unit that is a single item.
    int32_t *self;
    int32_t *out; // unplaced units (items or groups)
    // Position of each unit (item or group) in `out`, or -1 if it is placed.
    int32_t *out_at;
    int32_t n_out;
    change *changes; // what the current step changed, to undo it
    int32_t n_changes;
    int32_t *lost; // units (single items or groups) evicted in the current step
    int32_t n_lost;
    // Units (single items or groups) that are placed by a proposal of another
    // solver (dv_search_propose).
    int32_t *came;
    // Items whose address may differ from that in the best answer.
    int32_t *moved;
    char *is_moved;
    int32_t n_moved;
    span *spans;
    top *tops;
    // weights[k] is the weight that is lost if the item at spans[k] is evicted.
    double *weights;
};

static int32_t unit_of(const dv_search *s, int32_t i)
{
    int32_t g = s->t->items[i].group;
    return g >= 0 ? g : s->t->n_groups + i;
}

static int32_t members(const dv_search *s, int32_t unit, const int32_t **out)
{
    const dv_task *t = s->t;
    if (unit >= t->n_groups) {
        *out = &s->self[unit - t->n_groups];
        return 1;
    }
    *out = t->members + t->group_at[unit];
    return t->group_at[unit + 1] - t->group_at[unit];
}

static void move(dv_search *s, int32_t i, int64_t at)
{
    s->changes[s->n_changes++] = (change){i, s->at[i]};
    s->at[i] = at;
}

static void undo_to(dv_search *s, int32_t n)
{
    while (s->n_changes > n) {
        s->n_changes--;
        s->at[s->changes[s->n_changes].item] = s->changes[s->n_changes].at;
    }
}

// Evicts all items of a unit (an item, or all items of a group).
static void lose(dv_search *s, int32_t unit)
{
    const int32_t *m;
    int32_t n = members(s, unit, &m);
    for (int32_t k = 0; k < n; k++)
        move(s, m[k], -1);
    s->lost[s->n_lost++] = unit;
}

static void set_out(dv_search *s, int32_t unit)
{
    s->out_at[unit] = s->n_out;
    s->out[s->n_out++] = unit;
}

static void mark_placed(dv_search *s, int32_t unit)
{
    int32_t at = s->out_at[unit], last = s->out[--s->n_out];
    s->out[at] = last;
    s->out_at[last] = at;
    s->out_at[unit] = -1;
}

// Stores in s->spans the address ranges of all placed neighbours of item i
// (items with overlapping lifetimes) and returns their number.
static int32_t occupied(dv_search *s, int32_t i)
{
    const dv_neighbours *neighbours = s->neighbours;
    int32_t n = 0;
    for (int64_t k = neighbours->first[i]; k < neighbours->first[i + 1]; k++) {
        int32_t j = neighbours->items[k] < 0 ? ~neighbours->items[k]
                                             : neighbours->items[k];
        if (s->at[j] >= 0)
            s->spans[n++] = (span){s->at[j], s->at[j] + s->t->items[j].size, j};
    }
    int64_t cost = neighbours->first[i + 1] - neighbours->first[i] + 16;
    s->effort->nodes += cost;
    s->effort->left -= 4 * cost;
    return n;
}

static void sort_spans(span *v, int32_t n)
{
    // Quicksort; recurse into the smaller half only, to bound the stack depth.
    while (n > 12) {
        int64_t a = v[0].lo, b = v[n / 2].lo, c = v[n - 1].lo;
        int64_t mid = a < b ? (b < c   ? b
                               : a < c ? c
                                       : a)
                            : (a < c   ? a
                               : b < c ? c
                                       : b);
        int32_t l = 0, r = n - 1;
        while (l <= r) {
            while (v[l].lo < mid)
                l++;
            while (v[r].lo > mid)
                r--;
            if (l <= r) {
                span x = v[l];
                v[l++] = v[r];
                v[r--] = x;
            }
        }
        if (r + 1 < n - l) {
            sort_spans(v, r + 1);
            v += l;
            n -= l;
        } else {
            sort_spans(v + l, n - l);
            n = r + 1;
        }
    }
    for (int32_t i = 1; i < n; i++) {
        span x = v[i];
        int32_t k = i;
        for (; k > 0 && v[k - 1].lo > x.lo; k--)
            v[k] = v[k - 1];
        v[k] = x;
    }
}

// Returns the weight that is lost if the item that occupies the address range v
// is evicted, plus one so that eviction is never free. Returns NOT_EVICTABLE if
// the item has a fixed address or belongs to the unit that is being placed.
static double weight_of(const dv_search *s, const span *v, int32_t unit)
{
    int32_t other = unit_of(s, v->item);
    if (s->t->items[v->item].fixed >= 0 || other == unit)
        return NOT_EVICTABLE;
    return (double)s->weight[other] + 1;
}

// Returns the cost of placing item i at `address`: the weight of the items that
// overlap it there, except item `but`, with which it may share its address.
// INFINITY: an overlapping item cannot be evicted.
static double cost_at(const dv_search *s, int32_t i, int64_t address,
                      int32_t but, int32_t n)
{
    double cost = 0;
    int64_t end = address + s->t->items[i].size;
    for (int32_t k = 0; k < n; k++) {
        const span *v = &s->spans[k];
        if (v->item != but && v->lo < end && v->hi > address)
            cost += weight_of(s, v, unit_of(s, i));
    }
    return cost < NOT_EVICTABLE / 2 ? cost : INFINITY;
}

// Returns the cheapest address that item i can share with a placed parent or
// child (an item with which bytes may be shared in place), or -1 if there is
// none. *with is that parent or child.
static int64_t shared_base(dv_search *s, int32_t i, int32_t n, double *cost,
                           int32_t *with)
{
    const dv_item *it = &s->t->items[i];
    int64_t best = -1;
    *cost = INFINITY;
    const int32_t *links = s->t->links + it->parents;
    for (int32_t k = 0; k < it->n_parents + it->n_children; k++) {
        int64_t base = s->at[links[k]];
        if (base < 0 || base % it->align || base + it->size > s->t->capacity)
            continue;
        double c = cost_at(s, i, base, links[k], n);
        if (c < *cost) {
            *cost = c;
            best = base;
            *with = links[k];
        }
    }
    return best;
}

// Places item i without evicting any item: at an address shared with a parent
// or child (in-place reuse), or in a gap between the placed items that are live
// with it, the tightest if `tightest` is set, else the lowest. Returns 0 if
// there is no gap.
static int put_in_gap(dv_search *s, int32_t i, int tightest)
{
    const dv_item *it = &s->t->items[i];
    int32_t n = occupied(s, i), with = -1;
    int64_t lo = 0, found = -1, least = INT64_MAX;
    double cost;
    if (it->n_parents + it->n_children) {
        found = shared_base(s, i, n, &cost, &with);
        if (found >= 0 && cost == 0) {
            move(s, i, found);
            return 1;
        }
        found = -1;
    }
    sort_spans(s->spans, n);
    for (int32_t k = 0; k <= n; k++) {
        int64_t hi = k < n ? s->spans[k].lo : s->t->capacity;
        int64_t base = dv_round_up(lo, it->align);
        int64_t waste = hi - base - it->size;
        if (waste >= 0 && waste < least) {
            found = base;
            least = waste;
            if (!tightest)
                break;
        }
        if (k < n && s->spans[k].hi > lo)
            lo = s->spans[k].hi;
    }
    if (found >= 0)
        move(s, i, found);
    return found >= 0;
}

static void sort_tops(top *v, int32_t n)
{
    for (int32_t gap = n > 12 ? n / 3 : 1;; gap = gap > 3 ? gap / 3 : 1) {
        for (int32_t i = gap; i < n; i++) {
            top x = v[i];
            int32_t k = i;
            for (; k >= gap && v[k - gap].at > x.at; k -= gap)
                v[k] = v[k - gap];
            v[k] = x;
        }
        if (gap == 1)
            return;
    }
}

// Returns the address for item i where the weight of the overlapping items,
// times a random factor, is least. Candidates are 0, the ends of neighbours
// (items live at the same time), and addresses shared with a parent or child.
// Both ends of the window [base, base + size) only rise, so the weight inside
// is updated incrementally.
static int64_t cheapest(dv_search *s, int32_t i, int32_t *with)
{
    const dv_item *it = &s->t->items[i];
    int32_t n = occupied(s, i), in = 0, gone = 0, unit = unit_of(s, i);
    double least, inside = 0;
    *with = -1;
    int64_t found = shared_base(s, i, n, &least, with);
    least *= 0.5 + dv_draw_real(&s->rng);
    sort_spans(s->spans, n);
    for (int32_t k = 0; k < n; k++)
        s->tops[k] = (top){s->spans[k].hi, weight_of(s, &s->spans[k], unit)};
    for (int32_t k = 0; k < n; k++)
        s->weights[k] = s->tops[k].weight;
    sort_tops(s->tops, n);
    for (int32_t k = -1; k < n; k++) {
        int64_t base = k < 0 ? 0 : dv_round_up(s->tops[k].at, it->align);
        if (base + it->size > s->t->capacity)
            break;
        for (; in < n && s->spans[in].lo < base + it->size; in++)
            inside += s->weights[in];
        for (; gone < n && s->tops[gone].at <= base; gone++)
            inside -= s->tops[gone].weight;
        double cost = inside * (0.5 + dv_draw_real(&s->rng));
        if (inside < NOT_EVICTABLE / 2 && cost < least) {
            least = cost;
            found = base;
            *with = -1;
        }
    }
    return found;
}

// Places item i at the address where the least weight must be evicted, and
// evicts the units (items or groups) that overlap it. Returns 0 if no address
// is possible.
static int insert_evicting(dv_search *s, int32_t i)
{
    const dv_item *it = &s->t->items[i];
    int32_t with;
    int64_t base = cheapest(s, i, &with);
    if (base < 0)
        return 0;
    const dv_neighbours *neighbours = s->neighbours;
    for (int64_t k = neighbours->first[i]; k < neighbours->first[i + 1]; k++) {
        int32_t j = neighbours->items[k] < 0 ? ~neighbours->items[k]
                                             : neighbours->items[k];
        if (j != with && s->at[j] >= 0 && s->at[j] < base + it->size &&
            s->at[j] + s->t->items[j].size > base)
            lose(s, unit_of(s, j));
    }
    move(s, i, base);
    return 1;
}

// Places all items of an unplaced unit (an item or a group) into gaps, or none
// of them. Returns whether it succeeded.
static int put_back(dv_search *s, int32_t unit, int tightest)
{
    const int32_t *m;
    int32_t n = members(s, unit, &m), before = s->n_changes;
    for (int32_t k = 0; k < n; k++)
        if (!put_in_gap(s, m[k], tightest)) {
            undo_to(s, before);
            return 0;
        }
    return 1;
}

static void heaviest_first(dv_search *s)
{
    for (int32_t i = 1; i < s->n_lost; i++) {
        int32_t x = s->lost[i], k = i;
        for (; k > 0 && s->weight[s->lost[k - 1]] < s->weight[x]; k--)
            s->lost[k] = s->lost[k - 1];
        s->lost[k] = x;
    }
}

// Keeps the changes of the current step. s->lost are the units (items or
// groups) that were evicted; `in` is the unit that was placed, or -1.
static void accept(dv_search *s, int32_t in, int64_t gain)
{
    if (in >= 0)
        mark_placed(s, in);
    for (int32_t k = 0; k < s->n_lost; k++)
        set_out(s, s->lost[k]);
    s->value += gain;
    for (int32_t k = 0; k < s->n_changes; k++) {
        int32_t i = s->changes[k].item;
        if (!s->is_moved[i])
            s->moved[s->n_moved++] = i;
        s->is_moved[i] = 1;
    }
    s->n_changes = 0;
    if (s->value <= s->best_value)
        return;
    s->best_value = s->value;
    for (int32_t k = 0; k < s->n_moved; k++) {
        s->best_at[s->moved[k]] = s->at[s->moved[k]];
        s->is_moved[s->moved[k]] = 0;
    }
    s->n_moved = 0;
}

// Puts the units (items or groups) evicted in this step back into gaps where
// possible. Returns the total weight of the units that remain evicted, which
// stay in s->lost.
static int64_t put_back_lost(dv_search *s)
{
    int64_t weight = 0;
    int32_t kept = 0;
    int tightest = dv_draw_below(&s->rng, 2);
    heaviest_first(s);
    for (int32_t k = 0; k < s->n_lost; k++)
        if (!put_back(s, s->lost[k], tightest)) {
            weight += s->weight[s->lost[k]];
            s->lost[kept++] = s->lost[k];
        }
    s->n_lost = kept;
    return weight;
}

static void step(dv_search *s, double heat)
{
    int32_t unit = s->out[dv_draw_below(&s->rng, s->n_out)];
    const int32_t *m;
    int32_t n = members(s, unit, &m);
    s->n_lost = 0;
    for (int32_t k = 0; k < n; k++)
        if (!insert_evicting(s, m[k])) {
            undo_to(s, 0);
            return;
        }
    int64_t gain = s->weight[unit] - put_back_lost(s);
    if (gain >= 0 || (heat > 0 && dv_draw_real(&s->rng) <
                                      dv_exp_negative((double)gain / heat)))
        accept(s, unit, gain);
    else
        undo_to(s, 0);
}

// Evicts the items that overlap item i at its new address.
static void evict_overlapping(dv_search *s, int32_t i)
{
    const dv_neighbours *neighbours = s->neighbours;
    int64_t lo = s->at[i], hi = lo + s->t->items[i].size;
    for (int64_t k = neighbours->first[i]; k < neighbours->first[i + 1]; k++) {
        int32_t v = neighbours->items[k], j = v < 0 ? ~v : v;
        if (s->at[j] < 0 || s->at[j] >= hi ||
            s->at[j] + s->t->items[j].size <= lo || (v < 0 && s->at[j] == lo) ||
            s->t->items[j].fixed >= 0)
            continue;
        lose(s, unit_of(s, j));
    }
}

// Returns whether item i represents its unit: it is the first of its group
// (items placed all or not at all), or in no group. Counting such items counts
// each unit once.
static int speaks(const dv_search *s, int32_t i)
{
    int32_t g = s->t->items[i].group;
    return g < 0 || s->t->members[s->t->group_at[g]] == i;
}

void dv_search_propose(dv_search *s, const int32_t *items, const int64_t *at,
                       int32_t n)
{
    int64_t gain = 0;
    int32_t n_came = 0;
    s->n_lost = 0;
    for (int32_t k = 0; k < n; k++)
        move(s, items[k], at[k]);
    for (int32_t k = 0; k < n; k++)
        if (at[k] >= 0)
            evict_overlapping(s, items[k]);
    for (int32_t k = 0; k < n; k++) {
        int32_t unit = unit_of(s, items[k]);
        int was_in = s->out_at[unit] < 0, is_in = at[k] >= 0;
        if (!speaks(s, items[k]) || was_in == is_in)
            continue;
        if (was_in) {
            s->lost[s->n_lost++] = unit;
        } else {
            s->came[n_came++] = unit;
            gain += s->weight[unit];
        }
    }
    gain -= put_back_lost(s);
    if (gain < 0) {
        undo_to(s, 0);
        return;
    }
    for (int32_t k = 0; k < n_came; k++)
        mark_placed(s, s->came[k]);
    accept(s, -1, gain);
}

static int prepare(dv_search *s)
{
    const dv_task *t = s->t;
    dv_arena *a = &s->arena;
    size_t n = (size_t)t->n, units = n + (size_t)t->n_groups;
    s->at = DV_NEW(a, int64_t, n);
    s->best_at = DV_NEW(a, int64_t, n);
    s->weight = DV_NEW(a, int64_t, units);
    s->self = DV_NEW(a, int32_t, n);
    s->out = DV_NEW(a, int32_t, units);
    s->out_at = DV_NEW(a, int32_t, units);
    s->changes = DV_NEW(a, change, 4 * n + 4);
    s->lost = DV_NEW(a, int32_t, units);
    s->came = DV_NEW(a, int32_t, units);
    s->moved = DV_NEW(a, int32_t, n);
    s->is_moved = DV_NEW(a, char, n);
    s->spans = DV_NEW(a, span, n);
    s->tops = DV_NEW(a, top, n);
    s->weights = DV_NEW(a, double, n);
    return s->at && s->best_at && s->weight && s->self && s->out && s->out_at &&
           s->changes && s->lost && s->came && s->moved && s->is_moved &&
           s->spans && s->tops && s->weights;
}

static void find_units(dv_search *s)
{
    const dv_task *t = s->t;
    for (int32_t i = 0; i < t->n; i++) {
        s->self[i] = i;
        s->best_at[i] = s->at[i];
        if (t->items[i].in_play)
            s->weight[unit_of(s, i)] += t->items[i].weight;
    }
    for (int32_t u = 0; u < t->n + t->n_groups; u++) {
        const int32_t *m;
        members(s, u, &m);
        s->out_at[u] = -1;
        if (t->items[m[0]].in_play && unit_of(s, m[0]) == u && s->at[m[0]] < 0)
            set_out(s, u);
    }
}

dv_search *dv_search_open(const dv_task *t, const dv_neighbours *neighbours,
                          uint64_t seed, dv_effort *effort,
                          const dv_answer *from)
{
    dv_search *s = dv_alloc(sizeof *s);
    if (!s)
        return NULL;
    *s = (dv_search){.t = t,
                     .neighbours = neighbours,
                     .effort = effort,
                     .rng = seed,
                     .value = from->value,
                     .best_value = from->value};
    if (!prepare(s)) {
        dv_arena_free(&s->arena);
        dv_release(s);
        return NULL;
    }
    memcpy(s->at, from->at, (size_t)t->n * sizeof *s->at);
    find_units(s);
    return s;
}

void dv_search_run(dv_search *s, int64_t effort)
{
    int64_t floor = s->effort->left - effort, budget = effort;
    double heat = 0, mean = 0;
    floor = floor > 0 ? floor : 0;
    for (int32_t k = 0; k < s->n_out; k++)
        mean += (double)s->weight[s->out[k]] / s->n_out;
    for (int64_t k = 0; s->n_out && s->effort->left > floor; k++) {
        if (k % 64 == 0) {
            if (dv_deadline_passed(s->effort))
                break;
            double left = (double)(s->effort->left - floor) / (double)budget;
            heat = left < 0.05 ? 0 : 0.3 * mean * left * left * left * left;
        }
        step(s, heat);
    }
}

int64_t dv_search_value(const dv_search *s)
{
    return s->best_value;
}

void dv_search_close(dv_search *s, dv_answer *out)
{
    memcpy(out->at, s->best_at, (size_t)s->t->n * sizeof *out->at);
    out->value = s->best_value;
    dv_arena_free(&s->arena);
    dv_release(s);
}
