// Local search on a placement: bring something in, push out what is in its
// way, find that another place.
//
//   1. Draw a unit that is out: an item, or all items of a group.
//   2. For each of its items choose an address. What is in the way there costs
//      its weight, times a random factor; the cheapest address is taken and
//      everything in the way goes out.
//   3. What went out is put back into gaps where it fits, heaviest first.
//   4. The result is kept if it is no worse, or a little worse and the
//      temperature allows it; otherwise every change is undone.
//
// A step costs the number of neighbours in time that it looks at, which is
// what the effort counts: the same input takes the same steps everywhere.
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

// The weight of what cannot be pushed out: above all others together.
static const double FIRM = 0x1p80;

typedef struct change {
    int32_t item;
    int64_t at; // before
} change;

struct dv_search {
    dv_arena arena;
    const dv_task *t;
    const dv_near *near;
    dv_effort *effort;
    uint64_t rng;
    int64_t *at;
    int64_t value, best_value;
    int64_t *best_at;
    // Units 0..n_groups are groups; unit n_groups + i is item i.
    int64_t *weight; // of units
    int32_t *self;   // self[i] = i, the members of a single
    int32_t *out;    // units that are out, and where each is in there
    int32_t *out_at; // -1: it is in
    int32_t n_out;
    change *changes; // of the step
    int32_t n_changes;
    int32_t *lost; // units of the step that went out
    int32_t n_lost;
    int32_t *came;  // units of an offer that came in
    int32_t *moved; // items that differ from best_at, perhaps
    char *is_moved;
    int32_t n_moved;
    span *spans;
    top *tops;
    double *weights; // of the spans
};

// -- Units and changes -------------------------------------------------------

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

// Take all of a unit out.
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

static void set_in(dv_search *s, int32_t unit)
{
    int32_t at = s->out_at[unit], last = s->out[--s->n_out];
    s->out[at] = last;
    s->out_at[last] = at;
    s->out_at[unit] = -1;
}

// -- Addresses ---------------------------------------------------------------

// What the placed neighbours of item i occupy, into s->spans.
static int32_t occupied(dv_search *s, int32_t i)
{
    const dv_near *near = s->near;
    int32_t n = 0;
    for (int64_t k = near->first[i]; k < near->first[i + 1]; k++) {
        int32_t j = near->items[k] < 0 ? ~near->items[k] : near->items[k];
        if (s->at[j] >= 0)
            s->spans[n++] = (span){s->at[j], s->at[j] + s->t->items[j].size, j};
    }
    int64_t cost = near->first[i + 1] - near->first[i] + 16;
    s->effort->nodes += cost;
    s->effort->left -= 4 * cost;
    return n;
}

static void sort_spans(span *v, int32_t n)
{
    while (n > 12) { // quicksort, the smaller part by recursion
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

// Weight of what a span would push out, and one more: nothing is free to push
// out. More than there is if it must stay.
static double weight_of(const dv_search *s, const span *v, int32_t unit)
{
    int32_t other = unit_of(s, v->item);
    if (s->t->items[v->item].fixed >= 0 || other == unit)
        return FIRM;
    return (double)s->weight[other] + 1;
}

// What item i would cost at `address`: the weight in the way there. Item `but`
// may share the base.
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
    return cost < FIRM / 2 ? cost : INFINITY;
}

// The best base to share with a parent or child, -1: none.
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

// Put item i where nothing is in its way; 0 when there is no such place.
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

// The address where the least weight is in the way, roughly: 0, or on top of
// a neighbour. Both ends of the window [base, base + size) only rise, so the
// weight inside is kept up to date.
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
        if (inside < FIRM / 2 && cost < least) {
            least = cost;
            found = base;
            *with = -1;
        }
    }
    return found;
}

// Put item i somewhere and push out what is in its way.
static int push_in(dv_search *s, int32_t i)
{
    const dv_item *it = &s->t->items[i];
    int32_t with;
    int64_t base = cheapest(s, i, &with);
    if (base < 0)
        return 0;
    const dv_near *near = s->near;
    for (int64_t k = near->first[i]; k < near->first[i + 1]; k++) {
        int32_t j = near->items[k] < 0 ? ~near->items[k] : near->items[k];
        if (j != with && s->at[j] >= 0 && s->at[j] < base + it->size &&
            s->at[j] + s->t->items[j].size > base)
            lose(s, unit_of(s, j));
    }
    move(s, i, base);
    return 1;
}

// -- Steps -------------------------------------------------------------------

// Put a unit that is out back into gaps, all of it or nothing.
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

// Keep what the step did. s->lost are the units that went out, `in` is the one
// that came in, or -1.
static void accept(dv_search *s, int32_t in, int64_t gain)
{
    if (in >= 0)
        set_in(s, in);
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

// Put back what can be put back; the weight of the rest, which stays in lost.
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
        if (!push_in(s, m[k])) {
            undo_to(s, 0);
            return;
        }
    int64_t gain = s->weight[unit] - put_back_lost(s);
    if (gain >= 0 ||
        (heat > 0 && dv_draw_real(&s->rng) < dv_decay((double)gain / heat)))
        accept(s, unit, gain);
    else
        undo_to(s, 0);
}

// -- Offers ------------------------------------------------------------------

// What stands in the way of item i where it is now goes out.
static void clear_way(dv_search *s, int32_t i)
{
    const dv_near *near = s->near;
    int64_t lo = s->at[i], hi = lo + s->t->items[i].size;
    for (int64_t k = near->first[i]; k < near->first[i + 1]; k++) {
        int32_t v = near->items[k], j = v < 0 ? ~v : v;
        if (s->at[j] < 0 || s->at[j] >= hi ||
            s->at[j] + s->t->items[j].size <= lo || (v < 0 && s->at[j] == lo) ||
            s->t->items[j].fixed >= 0)
            continue;
        lose(s, unit_of(s, j));
    }
}

// Is this the item by which its unit is counted?
static int speaks(const dv_search *s, int32_t i)
{
    int32_t g = s->t->items[i].group;
    return g < 0 || s->t->members[s->t->group_at[g]] == i;
}

void dv_search_offer(dv_search *s, const int32_t *items, const int64_t *at,
                     int32_t n)
{
    int64_t gain = 0;
    int32_t n_came = 0;
    s->n_lost = 0;
    for (int32_t k = 0; k < n; k++)
        move(s, items[k], at[k]);
    for (int32_t k = 0; k < n; k++)
        if (at[k] >= 0)
            clear_way(s, items[k]);
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
        set_in(s, s->came[k]);
    accept(s, -1, gain);
}

// -- The object --------------------------------------------------------------

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

dv_search *dv_search_open(const dv_task *t, const dv_near *near, uint64_t seed,
                          dv_effort *effort, const dv_answer *from)
{
    dv_search *s = dv_alloc(sizeof *s);
    if (!s)
        return NULL;
    *s = (dv_search){.t = t,
                     .near = near,
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
            if (dv_late(s->effort))
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
