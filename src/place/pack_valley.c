// Valley search: an exact search on the skyline of what is placed.
//
// State: the floor of every section and the set of items not yet placed. A
// valley is a run of sections with one floor and higher walls on both sides:
//
//   #              ##     Whatever comes lowest over the valley's leftmost
//   ##            ###     section x either rests on the floor, and then it
//   ##            ###     starts at x and ends inside the valley; or nothing
//   ##x...........###     rests there, and x's floor can be raised to the
//   #################     lower wall or the top of something inside.
//
// So a branch has a few options: the items that start at x and fit, and "x is
// raised". The same holds at the right edge, and any valley may be taken. A
// raise eats a section's slack (capacity - floor - what is still to come
// there), which starts at zero in a full section: most raises fail at once.
//
// - A section that nothing fitting the valley covers is raised without a
//   branch, and so is any edge that has one option only.
// - Where no open item crosses a border the problem falls apart; in a part,
//   an item that spans the whole part goes to the ceiling: whatever was above
//   it can be swapped with it. It is "melted" into all floors instead.
// - Failed states are kept. A state fails if one with the same open items
//   has failed with floors that were nowhere higher.
// - Run times have long tails, so a try has a budget and the next one uses
//   another rule; what failed stays known.
#include "place/pack_valley.h"
#include <string.h>

enum { MAX_DEPTH = 4096 };

// -- The search --------------------------------------------------------------

static dv_end solve(dv_valley *v, int32_t depth);

// Note the ranges into which the part falls, few items first.
static int32_t find_ranges(dv_valley *v)
{
    dv_range *all = v->ranges + v->n_ranges;
    int32_t n = 0;
    for (int32_t s = v->lo, lo = s; s <= v->hi; s++) {
        if (s < v->hi && v->cross[s])
            continue;
        dv_range x = {.lo = lo, .hi = s};
        for (int32_t i = v->begin[lo]; i < v->begin[s + 1]; i++)
            if (dv_is_open(v, i)) {
                x.n_open++;
                x.hash += v->key[i];
            }
        lo = s + 1;
        if (!x.n_open)
            continue;
        int32_t k = n++;
        for (; k && all[k - 1].n_open > x.n_open; k--)
            all[k] = all[k - 1];
        all[k] = x;
    }
    return n;
}

static void enter(dv_valley *v, const dv_range *x)
{
    v->lo = x->lo;
    v->hi = x->hi;
    v->n_open = x->n_open;
    v->hash = x->hash;
    memset(v->dirty + x->lo, 1, (size_t)(x->hi - x->lo + 1));
    for (int32_t i = v->begin[x->lo]; i < v->begin[x->lo + 1] && x->hi > x->lo;
         i++)
        if (dv_is_open(v, i) && v->p->last[i] == x->hi)
            dv_sky_melt(v, i);
}

// Solve the ranges into which the part has fallen one by one.
static dv_end solve_ranges(dv_valley *v, int32_t depth)
{
    dv_range outer = {v->lo, v->hi, v->n_open, v->hash};
    int64_t lift = v->lift;
    int32_t mark = v->n_trail, first = v->n_ranges, n = find_ranges(v);
    dv_end e = DV_END_SOLVED;
    v->n_ranges += n;
    for (int32_t k = 0; k < n && e == DV_END_SOLVED; k++) {
        int32_t before = v->n_trail;
        enter(v, &v->ranges[first + k]);
        int melted = v->n_trail > before;
        e = solve(v, depth + 1);
        if (melted && e == DV_END_FAIL)
            dv_span_widen(&v->why, dv_span_around(v->lo, v->hi));
        v->lift = lift;
    }
    v->n_ranges = first;
    if (e == DV_END_FAIL)
        dv_sky_undo(v, mark);
    v->lo = outer.lo;
    v->hi = outer.hi;
    v->n_open = outer.n_open;
    v->hash = outer.hash;
    v->lift = lift;
    memset(v->dirty + v->lo, 1, (size_t)(v->hi - v->lo + 1));
    return e;
}

static int touches(const dv_move *m, dv_span x)
{
    return m->a <= x.to && m->z >= x.from;
}

// The last failure, in terms of the state before the moves after `n_trail`.
static void explain(dv_valley *v, int32_t n_trail)
{
    for (int32_t k = v->n_trail - 1; k >= n_trail; k--)
        if (touches(&v->trail[k], v->why))
            dv_span_widen(&v->why, v->trail[k].why);
}

static dv_end branch(dv_valley *v, int32_t depth)
{
    int32_t l = dv_sky_best(v), r = v->spots[l].last;
    int right = v->spots[l].right;
    int64_t up = v->spots[l].up, f = v->floor[l];
    int32_t mark = v->n_trail, after = -1, x = right ? r : l;
    dv_span why = dv_span_around(l, r);
    for (int raised = 0; !raised;) {
        int32_t i = dv_sky_next(v, l, r, right, after);
        raised = i < 0;
        if (raised && up < 0)
            break;
        if (dv_pack_tick(v->run) || v->run->nodes > v->budget)
            return DV_END_STOP;
        if (raised) {
            dv_sky_raise(v, x, x, up, dv_span_around(l, r));
        } else {
            after = v->rank[i];
            dv_sky_place(v, i, f, dv_span_around(l, r));
        }
        dv_end e = solve(v, depth + 1);
        if (e != DV_END_FAIL)
            return e;
        int guilty = touches(&v->trail[mark], v->why);
        dv_sky_undo(v, mark);
        if (!guilty)
            return DV_END_FAIL; // whatever is done here
        dv_span_widen(&why, v->why);
    }
    v->fails[x]++;
    v->why = why;
    return DV_END_FAIL;
}

static int falls_apart(const dv_valley *v)
{
    int apart = 0;
    for (int32_t s = v->lo; s < v->hi; s++)
        apart |= v->cross[s] == 0;
    return apart;
}

// A settled part that hangs together.
static dv_end search_on(dv_valley *v, int32_t depth)
{
    const int64_t *floors = v->floor + v->lo;
    int32_t n = v->hi - v->lo + 1;
    if (dv_failed_find(&v->failed, v->hash, floors, n, &v->why))
        return DV_END_FAIL;
    dv_end e = branch(v, depth);
    if (e == DV_END_FAIL)
        dv_failed_add(&v->failed, v->hash, floors, n, v->why);
    return e;
}

// Can the rest of the part be placed? If not, all is as it was.
static dv_end solve(dv_valley *v, int32_t depth)
{
    int32_t mark = v->n_trail;
    dv_end e = dv_sky_settle(v);
    if (e == DV_END_OPEN && depth > MAX_DEPTH)
        return DV_END_STOP;
    if (e == DV_END_OPEN && falls_apart(v)) {
        e = solve_ranges(v, depth);
    } else if (e == DV_END_OPEN) {
        e = search_on(v, depth);
    }
    if (e == DV_END_FAIL) {
        explain(v, mark);
        dv_sky_undo(v, mark);
    }
    return e;
}

// -- Tries -------------------------------------------------------------------

// Numbers that look random, the same on every machine.
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

// Swap items that are near in the order at random, how near and how many
// depending on the seed as well.
static void shake(dv_valley *v, uint64_t seed)
{
    int32_t n = v->p->n, *at = v->order;
    int32_t reach = 8 << (seed & 3);
    uint64_t skip = seed >> 2 & 3;
    for (int32_t i = 0; i < n; i++)
        at[v->rank[i]] = i;
    for (int32_t k = 0; k < n; k++) {
        seed = mix(seed);
        int32_t j = k + 1 + (int32_t)((seed >> 8) % (uint64_t)reach);
        if ((seed & skip) || j >= n)
            continue;
        int32_t i = at[k];
        at[k] = at[j];
        at[j] = i;
    }
    for (int32_t k = 0; k < n; k++)
        v->rank[at[k]] = k;
}

static void reset(dv_valley *v)
{
    const dv_part *p = v->p;
    int32_t n_secs = p->n_secs;
    memset(v->cross, 0, (size_t)n_secs * sizeof *v->cross);
    memset(v->open, 0, ((size_t)p->n + 63) / 64 * sizeof *v->open);
    for (int32_t s = 0; s < n_secs; s++) {
        v->floor[s] = 0;
        v->slack[s] = p->cap - v->load[s];
    }
    v->n_trail = v->n_ranges = 0;
    v->n_open = 0;
    v->hash = 0;
    v->lift = 0;
    for (int32_t i = 0; i < p->n; i++)
        dv_sky_put_back(v, i);
    dv_range all = {0, n_secs - 1, v->n_open, v->hash};
    enter(v, &all);
}

dv_fit dv_valley_try(dv_valley *v, dv_valley_rule rule,
                     const dv_pack_key keys[3], uint64_t seed, int64_t budget,
                     dv_pack_run *run)
{
    v->rule = rule;
    v->run = run;
    v->budget = run->nodes + budget;
    dv_fit fit = dv_pack_rank(v->p, keys, v->rank);
    if (fit != DV_FIT_YES)
        return fit;
    if (seed)
        shake(v, seed);
    reset(v);
    dv_end e = solve(v, 0);
    return e == DV_END_SOLVED ? DV_FIT_YES
           : e == DV_END_FAIL ? DV_FIT_NO
                              : DV_FIT_OPEN;
}

// -- Memory ------------------------------------------------------------------

static int allocate(dv_valley *v)
{
    dv_arena *a = &v->arena;
    int32_t n = v->p->n, n_secs = v->p->n_secs;
    v->max_trail = 4 * n + 8 * n_secs + 1024;
    return (v->begin = DV_NEW(a, int32_t, n_secs + 2)) &&
           (v->ends = DV_NEW(a, int32_t, n)) &&
           (v->end_of = DV_NEW(a, int32_t, n_secs + 2)) &&
           (v->open = DV_NEW(a, uint64_t, n / 64 + 1)) &&
           (v->key = DV_NEW(a, uint64_t, n)) &&
           (v->rank = DV_NEW(a, int32_t, n)) &&
           (v->order = DV_NEW(a, int32_t, n)) &&
           (v->twin = DV_NEW(a, unsigned char, n)) &&
           (v->floor = DV_NEW(a, int64_t, n_secs)) &&
           (v->slack = DV_NEW(a, int64_t, n_secs)) &&
           (v->load = DV_NEW(a, int64_t, n_secs)) &&
           (v->cross = DV_NEW(a, int32_t, n_secs)) &&
           (v->spots = DV_NEW(a, dv_spot, n_secs)) &&
           (v->dirty = DV_NEW(a, unsigned char, n_secs)) &&
           (v->fails = DV_NEW(a, int32_t, n_secs)) &&
           (v->trail = DV_NEW(a, dv_move, v->max_trail + n + 2)) &&
           (v->ranges = DV_NEW(a, dv_range, 4 * n_secs + 4)) &&
           dv_failed_init(&v->failed, n_secs);
}

static int same(const dv_part *p, int32_t i, int32_t j)
{
    return p->first[i] == p->first[j] && p->last[i] == p->last[j] &&
           p->size[i] == p->size[j];
}

static void index_items(dv_valley *v)
{
    const dv_part *p = v->p;
    for (int32_t i = 0; i < p->n; i++) {
        v->begin[p->first[i] + 1]++;
        v->end_of[p->last[i] + 1]++;
        v->twin[i] = i > 0 && same(p, i, i - 1);
        v->key[i] = v->twin[i] ? v->key[i - 1] : mix((uint64_t)i);
        for (int32_t s = p->first[i]; s <= p->last[i]; s++)
            v->load[s] += p->size[i];
    }
    for (int32_t s = 0; s < p->n_secs; s++) {
        v->begin[s + 1] += v->begin[s];
        v->end_of[s + 1] += v->end_of[s];
    }
    for (int32_t i = p->n - 1; i >= 0; i--)
        v->ends[--v->end_of[p->last[i] + 1]] = i;
    memmove(v->end_of, v->end_of + 1, (size_t)p->n_secs * sizeof *v->end_of);
    v->end_of[p->n_secs] = p->n;
}

dv_valley *dv_valley_create(const dv_part *p)
{
    dv_valley *v = dv_alloc(sizeof *v);
    if (!v)
        return NULL;
    *v = (dv_valley){.p = p};
    if (!allocate(v)) {
        dv_valley_destroy(v);
        return NULL;
    }
    index_items(v);
    return v;
}

void dv_valley_destroy(dv_valley *v)
{
    if (!v)
        return;
    dv_failed_free(&v->failed);
    dv_arena_free(&v->arena);
    dv_release(v);
}
