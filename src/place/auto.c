// Solver auto: starts with the addresses that the best list heuristic gives to
// items (buffers to place), and improves them.
//
//   1. Run greedy, first fit and best fit; start from the best answer.
//   2. Compute prices (bound.c), which give the upper bound and tell which
//      items are worth placing.
//   3. Cut time into pieces, at ticks where little weight is live. For each
//      piece, choose and pack items anew (refine.c) and propose the result to
//      the local search, which moves the items that cross the cuts.
//   4. Spend the remaining effort on local search (search.c).
//
// The solver ends as soon as the value reaches the bound. Each step gets a
// share of the effort, so that the run time grows linearly with n.
#include "place/search.h"
#include "base/math.h"
#include <stdlib.h>
#include <string.h>

enum {
    MOST_NEIGHBOURS = 1 << 24,
    // With up to this many items (buffers to place), the whole time is solved
    // at once, not cut into pieces.
    WHOLE = 1200,
    PIECE = 500, // items in a piece of time, approximately
    // When time is cut into pieces, a piece starts with the prices per byte of
    // the whole task and improves them by this many subgradient steps.
    PART_STEPS = 2000,
    // One part in this many of the search effort is reserved for the local
    // search at the end (step 4).
    SEARCH_SHARE = 6,
    // Limit of the effort of the local search at the end (step 4), per item.
    SEARCH_ITEM = 50000,
};

// Runs the list heuristics (greedy, first fit, best fit) and keeps the best
// answer; stops after one that places all items.
static int best_list(const dv_task *t, dv_answer *out, const char **who,
                     dv_arena *a)
{
    static const char *const names[] = {"greedy", "firstfit", "bestfit"};
    dv_answer other = {DV_NEW(a, int64_t, t->n), 0};
    int64_t all = 0;
    if (!other.at)
        return 0;
    for (int32_t i = 0; i < t->n; i++)
        if (t->items[i].in_play || t->items[i].fixed >= 0)
            all = dv_add_most_i64(all, dv_max_i64(t->items[i].weight, 0));
    out->value = -1;
    for (int rule = DV_GREEDY; rule <= DV_BEST_FIT && out->value < all;
         rule++) {
        if (!dv_list_heuristic(t, (dv_list_rule)rule, &other))
            return 0;
        if (other.value <= out->value)
            continue;
        memcpy(out->at, other.at, (size_t)t->n * sizeof *out->at);
        out->value = other.value;
        *who = names[rule];
    }
    return 1;
}

typedef struct when {
    // At this tick an item (a buffer to place) of weight w starts (weight is w
    // + 1) or ends (weight is -(w + 1)).
    int64_t tick, weight;
} when;

static int by_tick(const void *a, const void *b)
{
    const when *x = a, *y = b;
    return x->tick < y->tick ? -1 : x->tick > y->tick;
}

// Finds the ticks at which time is cut: one per about PIECE item starts, where
// the least weight is live across the cut. Returns the number of cuts, or -1
// when out of memory.
static int32_t find_cuts(const dv_task *t, int64_t *cuts, dv_arena *a)
{
    if (t->n <= WHOLE)
        return 0;
    when *w = DV_NEW(a, when, 2 * (size_t)t->n);
    if (!w)
        return -1;
    int32_t n = 0, n_cuts = 0, starts = 0;
    for (int32_t i = 0; i < t->n; i++)
        if (t->items[i].in_play) {
            w[n++] = (when){t->items[i].start, t->items[i].weight + 1};
            w[n++] = (when){t->items[i].end, -t->items[i].weight - 1};
        }
    qsort(w, (size_t)n, sizeof *w, by_tick);
    int64_t alive = 0, least = INT64_MAX;
    for (int32_t k = 0; k < n;) {
        int64_t tick = w[k].tick, before = alive;
        for (; k < n && w[k].tick == tick; k++) {
            // `before` is the weight that crosses a cut at this tick: items
            // that end or start here do not count.
            before += w[k].weight < 0 ? w[k].weight : 0;
            alive += w[k].weight;
            starts += w[k].weight > 0;
        }
        if (starts >= PIECE * 2 / 3 && before < least) {
            least = before;
            cuts[n_cuts] = tick;
        }
        if (starts >= PIECE * 4 / 3 && k < n) {
            n_cuts++;
            starts = 0;
            least = INT64_MAX;
        }
    }
    return n_cuts;
}

// Returns whether all items of group g (items that are placed all or not at
// all) are live only in the piece of time from..to. A group that crosses a cut
// is not changed.
static int group_inside(const dv_task *t, int32_t g, int64_t from, int64_t to)
{
    for (int32_t k = t->group_at[g]; k < t->group_at[g + 1]; k++) {
        const dv_item *it = &t->items[t->members[k]];
        if (it->start < from || it->end > to)
            return 0;
    }
    return 1;
}

static int inside(const dv_task *t, int32_t i, int64_t from, int64_t to)
{
    const dv_item *it = &t->items[i];
    if (it->fixed >= 0)
        return it->start < to && it->end > from;
    return it->in_play && it->start >= from && it->end <= to &&
           (it->group < 0 || group_inside(t, it->group, from, to));
}

// Builds a task (the input of a solver) of the n given items of t. `place` is a
// scratch array with an entry for every item of t; all entries are -1 on entry
// and on return.
static int make_part(dv_task *out, const dv_task *t, const int32_t *items,
                     int32_t n, int32_t *place)
{
    dv_arena a = {0};
    dv_buffer *b = DV_NEW(&a, dv_buffer, n);
    int32_t *parents = NULL, n_parents = 0;
    for (int32_t k = 0; k < n; k++)
        n_parents += t->items[items[k]].n_parents;
    parents = DV_NEW(&a, int32_t, n_parents);
    int ok = b && parents;
    for (int32_t k = 0; ok && k < n; k++)
        place[items[k]] = k;
    for (int32_t k = 0; ok && k < n; k++) {
        const dv_item *it = &t->items[items[k]];
        b[k] = (dv_buffer)DV_BUFFER_INIT;
        b[k].size_bytes = it->size;
        b[k].start = it->start;
        b[k].end = it->end;
        b[k].align_bytes = it->align;
        b[k].fixed_address = it->fixed;
        b[k].weight = it->weight;
        b[k].group = it->group + 1;
        b[k].first_use_is_read = it->doubled_uses % 2 == 0;
        b[k].parents = parents;
        for (int32_t p = 0; p < it->n_parents; p++)
            if (place[t->links[it->parents + p]] >= 0)
                parents[b[k].n_parents++] = place[t->links[it->parents + p]];
        parents += b[k].n_parents;
    }
    for (int32_t k = 0; ok && k < n; k++)
        place[items[k]] = -1;
    dv_place_options o = DV_PLACE_OPTIONS_INIT;
    o.capacity_bytes = t->capacity;
    ok = ok && dv_task_create(out, b, (size_t)n, &o, NULL, NULL) == DV_OK;
    dv_arena_free(&a);
    return ok;
}

typedef struct planner {
    const dv_task *t;
    dv_search *search;
    dv_effort *effort;
    const dv_answer *start;
    dv_prices *prices;
    int32_t *items, *place;
    int64_t *at;
    int64_t *cuts;
    int32_t n_cuts;
    dv_arena arena;
} planner;

// Improves the addresses of the items whose lifetimes lie in one piece of time,
// starting from those of the list heuristic. A better result is proposed to the
// local search.
static int refine_part(planner *p, const dv_task *part, int32_t n,
                       int64_t effort)
{
    dv_arena a = {0};
    dv_prices prices;
    dv_effort own = {.left = effort, .until_s = p->effort->until_s};
    for (int32_t k = 0; k < n; k++)
        p->at[k] = p->start->at[p->items[k]];
    dv_answer answer = {p->at, dv_placed_weight(part, p->at)};
    int64_t before = answer.value;
    int ok = dv_prices_init(&prices, part, &a);
    if (ok)
        dv_prices_init_from(&prices, p->prices);
    ok = ok && dv_prices_improve(&prices, part, before, PART_STEPS) &&
         dv_refine(part, &prices, &own, &answer);
    if (ok && p->n_cuts == 0 && prices.bound < p->prices->bound)
        p->prices->bound = prices.bound;
    p->effort->left -= effort - own.left;
    p->effort->nodes += own.nodes;
    if (ok && answer.value > before)
        dv_search_propose(p->search, p->items, p->at, n);
    dv_arena_free(&a);
    return ok;
}

static int refine_piece(planner *p, int64_t from, int64_t to, int64_t effort)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->t->n; i++)
        if (inside(p->t, i, from, to))
            p->items[n++] = i;
    if (n == 0)
        return 1;
    dv_task part;
    if (!make_part(&part, p->t, p->items, n, p->place))
        return 0;
    int ok = refine_part(p, &part, n, effort);
    dv_task_free(&part);
    return ok;
}

static int refine_pieces(planner *p)
{
    int64_t share =
        p->effort->left / SEARCH_SHARE * (SEARCH_SHARE - 1) / (p->n_cuts + 1);
    int ok = 1;
    for (int32_t k = 0; ok && k <= p->n_cuts && p->effort->left > 0; k++)
        ok = dv_deadline_passed(p->effort) ||
             refine_piece(p, k ? p->cuts[k - 1] : INT64_MIN,
                          k < p->n_cuts ? p->cuts[k] : INT64_MAX, share);
    return ok;
}

static int improve(const dv_task *t, const dv_neighbours *neighbours,
                   dv_prices *prices, uint64_t seed, dv_effort *effort,
                   dv_answer *io)
{
    planner p = {.t = t, .effort = effort, .start = io, .prices = prices};
    p.search = dv_search_open(t, neighbours, seed, effort, io);
    p.items = DV_NEW(&p.arena, int32_t, t->n);
    p.place = DV_NEW(&p.arena, int32_t, t->n);
    p.at = DV_NEW(&p.arena, int64_t, t->n);
    p.cuts = DV_NEW(&p.arena, int64_t, t->n / (PIECE / 2) + 2);
    int ok = p.search && p.items && p.place && p.at && p.cuts;
    for (int32_t i = 0; ok && i < t->n; i++)
        p.place[i] = -1;
    if (ok)
        p.n_cuts = find_cuts(t, p.cuts, &p.arena);
    ok = ok && p.n_cuts >= 0 && refine_pieces(&p);
    if (ok && dv_search_value(p.search) < prices->bound)
        dv_search_run(p.search, dv_min_i64(effort->left, SEARCH_ITEM * t->n));
    if (p.search)
        dv_search_close(p.search, io);
    dv_arena_free(&p.arena);
    return ok;
}

int dv_auto(const dv_task *t, uint64_t seed, dv_prices *prices,
            dv_effort *effort, dv_answer *out, const char **who)
{
    dv_arena a = {0};
    dv_neighbours neighbours;
    int ok =
        best_list(t, out, who, &a) &&
        dv_prices_improve(prices, t, out->value, dv_price_steps(t, prices));
    if (ok && out->value < prices->bound &&
        (ok = dv_neighbours_init(&neighbours, t, MOST_NEIGHBOURS, &a)) &&
        neighbours.items) {
        int64_t before = out->value;
        ok = improve(t, &neighbours, prices, seed, effort, out);
        if (out->value > before)
            *who = "auto";
    }
    dv_arena_free(&a);
    return ok;
}
