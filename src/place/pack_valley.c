// Valley search: an exact packing search on the skyline of the placed items.
//
// The state is the floor of every section and the set of unplaced items. A
// valley is a run of sections with one floor and higher walls on both sides:
//
//   #              ##     The lowest item above the valley's leftmost section
//   ##            ###     x either rests on the floor, and then it starts at x
//   ##            ###     and ends inside the valley; or nothing rests there,
//   ##x...........###     and x's floor can be raised to the lower wall or to
//   #################     the top of an item inside the valley.
//
// So a branch has few options: the items that start at x and fit, and raising
// x. The same holds at the right edge, and any valley may be chosen. A raise
// reduces a section's slack (capacity - floor - sizes of its unplaced items),
// which is zero in a full section from the start, so most raises fail at once.
//
// - A section that no unplaced item fitting in the valley covers is raised
//   without branching, and an edge with only one option is resolved at once.
// - Where no unplaced item crosses a border between sections, the problem
//   splits into independent parts. An item that spans a whole part is placed
//   at the ceiling, because it can be swapped with the items above it. It is
//   "melted": its size is added to all floors instead.
// - Failed states are remembered. A state fails if a state with the same
//   unplaced items has failed with floors that were nowhere higher.
// - Run times have long tails, so a try has a budget, and the next try uses
//   another rule; failed states are kept between tries.
#include "place/pack_state.h"
#include "base/math.h"
#include "base/random.h"
#include <string.h>

enum { MAX_DEPTH = 4096 };

// A range of time sections (ticks where a maximal set of items is live), both
// ends inclusive.
typedef struct span {
    int32_t from, to;
} span;

// Returns the time sections of the valley l..r (a run of equal floors between
// higher walls) and of the walls next to it.
static inline span span_around(int32_t l, int32_t r)
{
    return (span){l - 1, r + 1};
}

static inline void widen_span(span *to, span by)
{
    if (by.from < to->from)
        to->from = by.from;
    if (by.to > to->to)
        to->to = by.to;
}

// A hash table of search states that failed. A state is a set of unplaced items
// and the floor of every time section: the top of the items placed there.
//
//   unplaced items {b, d, e}  floors  3 3 0 4     failed, so these fail too:
//                                     3 3 1 4     and all higher floors
//
// Two sets of unplaced items are considered equal if their 64-bit hashes are.

typedef struct failure {
    uint64_t hash;
    int32_t next; // next failure with the same hash bucket, or -1
    int32_t n_secs;
    span why;
    // Index in failed_states.pool of the floors (tops of the placed items per
    // time section) on which the items could not be placed.
    int64_t floors;
} failure;

// The failed search states. A failure is a list of skyline floors (tops of the
// placed items per time section) and the hash of a set of unplaced items that
// could not be placed on them.
typedef struct failed_states {
    int32_t *bucket;
    failure *all;
    int64_t *pool; // floors of all failures, one after another
    // Number of failures, and how many there is room for; the latter is also
    // the number of hash buckets.
    int32_t n, max;
    int64_t n_pool, max_pool;
} failed_states;

enum {
    MAX_FAILURES = 1 << 20,
    // Limit of the numbers that are stored for failed states: one floor per
    // state and time section.
    MAX_POOL = 1 << 25
};

static int nowhere_higher(const int64_t *a, const int64_t *b, int32_t n)
{
    int higher = 0;
    for (int32_t i = 0; i < n; i++)
        higher |= a[i] > b[i];
    return !higher;
}

static inline int32_t *bucket_of(const failed_states *f, uint64_t hash)
{
    return &f->bucket[hash & (uint64_t)(f->max - 1)];
}

// Returns whether a state with this set of unplaced items (given by its hash)
// has failed on floors (tops of the placed items) that were nowhere higher.
// *why is the range of time sections that caused that failure.
static int find_failed(const failed_states *f, uint64_t hash,
                       const int64_t *floors, int32_t n_secs, span *why)
{
    for (int32_t k = *bucket_of(f, hash); k >= 0; k = f->all[k].next) {
        const failure *x = &f->all[k];
        if (x->hash == hash && x->n_secs == n_secs &&
            nowhere_higher(f->pool + x->floors, floors, n_secs)) {
            *why = x->why;
            return 1;
        }
    }
    return 0;
}

static void fill_buckets(failed_states *f)
{
    memset(f->bucket, 0xff, (size_t)f->max * sizeof *f->bucket);
    for (int32_t k = 0; k < f->n; k++) {
        int32_t *head = bucket_of(f, f->all[k].hash);
        f->all[k].next = *head;
        *head = k;
    }
}

// Doubles the number of failed states that can be stored. Returns 0 at the
// limit or when out of memory.
static int grow(failed_states *f)
{
    int32_t max = f->max ? f->max * 2 : 256;
    failure *all = NULL;
    int32_t *bucket = NULL;
    if (max <= MAX_FAILURES) {
        all = dv_realloc(f->all, (size_t)max * sizeof *all);
        f->all = all ? all : f->all;
        bucket = dv_realloc(f->bucket, (size_t)max * sizeof *bucket);
        f->bucket = bucket ? bucket : f->bucket;
    }
    if (!all || !bucket)
        return 0;
    f->max = max;
    fill_buckets(f);
    return 1;
}

static int grow_pool(failed_states *f, int64_t max)
{
    if (max > MAX_POOL)
        return 0;
    int64_t *pool = dv_realloc(f->pool, (size_t)max * sizeof *pool);
    if (!pool)
        return 0;
    f->pool = pool;
    f->max_pool = max;
    return 1;
}

// Allocates an empty table of failed search states. Returns 0 when out of
// memory.
static int init_failed(failed_states *f, int32_t n_secs)
{
    *f = (failed_states){0};
    return grow(f) && grow_pool(f, 64 * (int64_t)n_secs);
}

static void free_failed(failed_states *f)
{
    dv_release(f->bucket);
    dv_release(f->all);
    dv_release(f->pool);
}

// Adds a search state that failed to the table. If the table is full, all older
// ones are discarded.
static void add_failed(failed_states *f, uint64_t hash, const int64_t *floors,
                       int32_t n_secs, span why)
{
    if ((f->n == f->max && !grow(f)) ||
        (f->n_pool + n_secs > f->max_pool && !grow_pool(f, 2 * f->max_pool))) {
        f->n = 0;
        f->n_pool = 0;
        fill_buckets(f);
    }
    int32_t *head = bucket_of(f, hash);
    f->all[f->n] = (failure){hash, *head, n_secs, why, f->n_pool};
    memcpy(f->pool + f->n_pool, floors, (size_t)n_secs * sizeof *f->pool);
    *head = f->n++;
    f->n_pool += n_secs;
}

// What is known about the run of time sections with equal floors (tops of the
// placed items) that starts at a given section. The run is a valley if both
// neighbours are higher; then the next item is placed at its left or right
// edge.
typedef struct spot {
    int32_t last; // last time section of the run
    // Number of options at the edge of the valley where the search would
    // branch: items that fit there, plus one if the floor can be raised; -1 if
    // the run is not a valley.
    int32_t n_options;
    int32_t right; // 1 if that edge is the right one
    // Floor of that edge after a raise; -1 if it cannot be raised.
    int64_t up;
    int64_t score; // priority for branching; the lowest score is chosen
} spot;

typedef struct move {
    int32_t item; // the placed item; -1: the move raises a floor instead
    int32_t a, z; // first and last time section changed
    // The time sections whose floors and unplaced items forced the move.
    span why;
    // Floor of the changed time sections before the move; -1 if the item was
    // placed at the ceiling.
    int64_t from;
} move;

// A range of time sections that can be solved independently: no unplaced item
// crosses its ends.
typedef struct range {
    int32_t lo, hi, n_open;
    uint64_t hash;
} range;

struct dv_valley {
    dv_arena arena;
    const dv_part *p;
    // The items that start in time section s are begin[s]..begin[s + 1].
    int32_t *begin;
    // The items that end in time section s are ends[end_of[s]]..ends[end_of[s +
    // 1]].
    int32_t *ends;
    int32_t *end_of;
    uint64_t *open; // bit set of unplaced items
    uint64_t *key;  // hash of each item; identical items have equal hashes
    int32_t *rank, *order;
    // For each item, 1 if it is identical to the item before it.
    unsigned char *twin;
    int64_t *floor, *slack, *load;
    // cross[s] is the number of unplaced items that are live in both time
    // section s and s + 1.
    int32_t *cross;
    spot *spots;
    // 1 if what is known about the run of sections that starts here (its spot)
    // is out of date.
    unsigned char *dirty;
    int32_t *fails; // number of failed branches at each time section
    move *trail;
    int32_t n_trail, max_trail;
    range *ranges;
    int32_t n_ranges;
    // The range of time sections lo..hi that is being solved, its number of
    // unplaced items and the hash of their set.
    int32_t lo, hi, n_open;
    uint64_t hash;
    // Total size of the items placed at the ceiling. It is added to all floors
    // instead of lowering the ceiling.
    int64_t lift;
    span why; // range of the time sections that caused the last failure
    failed_states failed;
    // The branching rule and the budget of the current try.
    dv_valley_rule rule;
    int64_t budget;
    dv_pack_run *run;
};

static inline int is_open(const dv_valley *v, int32_t i)
{
    return (int)(v->open[i >> 6] >> (i & 63) & 1);
}

// Returns whether item i is an option to branch on: of identical unplaced items
// only the first is tried.
static inline int is_choice(const dv_valley *v, int32_t i)
{
    return is_open(v, i) && !(v->twin[i] && is_open(v, i - 1));
}

// There are two kinds of moves on the skyline, the tops of the placed items.
//
//   #              ##     Placing fills a valley's edge with an item; raising
//   ##            ###     gives up the space below a height. Both change
//   ##x..........y###     sections with one common floor, so that undoing a
//   #################     move needs only that floor.
//
// For each valley the number of options at its edges x and y is cached. A move
// invalidates only its own run and the two neighbouring runs.

static int32_t run_start(const dv_valley *v, int32_t s)
{
    while (s > v->lo && v->floor[s - 1] == v->floor[s])
        s--;
    return s;
}

// Marks the run of equal floors that contains time sections a..z, and the two
// runs next to it, as changed, so that their options are counted again.
static void touch(dv_valley *v, int32_t a, int32_t z)
{
    if (a > v->lo)
        v->dirty[run_start(v, a - 1)] = 1;
    v->dirty[run_start(v, a)] = 1;
    if (z < v->hi)
        v->dirty[z + 1] = 1;
}

static void set_floor(dv_valley *v, int32_t a, int32_t z, int64_t f)
{
    for (int32_t s = a; s <= z; s++)
        v->floor[s] = f;
    touch(v, a, z);
}

static void add_move(dv_valley *v, int32_t item, int32_t a, int32_t z, span why,
                     int64_t from)
{
    v->trail[v->n_trail++] = (move){item, a, z, why, from};
}

static void take(dv_valley *v, int32_t i)
{
    v->open[i >> 6] &= ~((uint64_t)1 << (i & 63));
    v->hash -= v->key[i];
    v->n_open--;
    int32_t *cross = v->cross;
    for (int32_t s = v->p->first[i]; s < v->p->last[i]; s++)
        cross[s]--;
}

static void put_back(dv_valley *v, int32_t i)
{
    v->open[i >> 6] |= (uint64_t)1 << (i & 63);
    v->hash += v->key[i];
    v->n_open++;
    int32_t *cross = v->cross;
    for (int32_t s = v->p->first[i]; s < v->p->last[i]; s++)
        cross[s]++;
}

static void place_item(dv_valley *v, int32_t i, int64_t f, span why)
{
    int32_t a = v->p->first[i], z = v->p->last[i];
    v->p->at[i] = f - v->lift;
    take(v, i);
    add_move(v, i, a, z, why, f);
    set_floor(v, a, z, f + v->p->size[i]);
}

// Places an item that is live in the whole range of time sections at the
// ceiling, and adds its size to all floors (tops of the placed items) instead
// of lowering the ceiling.
static void place_at_ceiling(dv_valley *v, int32_t i)
{
    v->p->at[i] = v->p->cap - v->lift - v->p->size[i];
    take(v, i);
    add_move(v, i, v->lo, v->hi, span_around(v->lo, v->hi), -1);
    for (int32_t s = v->lo; s <= v->hi; s++)
        v->floor[s] += v->p->size[i];
    v->lift += v->p->size[i];
}

// Raises time sections a..z, which have the same floor (top of the placed
// items), to the floor `to`, since no item rests on them. Returns 0 if a
// section has too little slack (free space that its unplaced items do not
// need).
static int raise_floor(dv_valley *v, int32_t a, int32_t z, int64_t to, span why)
{
    int64_t f = v->floor[a], by = to - f;
    for (int32_t s = a; s <= z; s++)
        if (v->slack[s] < by) {
            v->fails[s]++;
            v->why = why;
            return 0;
        }
    for (int32_t s = a; s <= z; s++)
        v->slack[s] -= by;
    add_move(v, -1, a, z, why, f);
    set_floor(v, a, z, to);
    return 1;
}

// Undoes all moves (placed items and raised floors) after the first n_trail.
static void undo(dv_valley *v, int32_t n_trail)
{
    while (v->n_trail > n_trail) {
        const move *m = &v->trail[--v->n_trail];
        if (m->item >= 0)
            put_back(v, m->item);
        if (m->from < 0) {
            int64_t size = v->p->size[m->item];
            for (int32_t s = m->a; s <= m->z; s++)
                v->floor[s] -= size;
            v->lift -= size;
            // No time section need be marked as changed: solve_ranges does that
            // for the whole range when it leaves it.
            continue;
        }
        if (m->item < 0) {
            int64_t by = v->floor[m->a] - m->from;
            for (int32_t s = m->a; s <= m->z; s++)
                v->slack[s] += by;
        }
        set_floor(v, m->a, m->z, m->from);
    }
}

typedef enum outcome { END_FAIL, END_SOLVED, END_STOP, END_OPEN } outcome;

typedef enum look { LOOK_FAIL, LOOK_MOVED, LOOK_DONE } look;

// The unplaced items that fit in a valley (a run of equal floors between higher
// walls), counted by the edge of the valley at which they start or end.
typedef struct fitting {
    // Number of items that touch the left edge, and the right edge, of the
    // valley.
    int32_t n_left, n_right;
    // One item that touches the left edge, and one that touches the right edge.
    int32_t item_left, item_right;
    // Least size of the items that do not touch the left edge, and the right
    // edge.
    int64_t low_left, low_right;
    int32_t widest; // width of the widest item, in time sections
    int32_t rank_left, rank_right;
    // First range of time sections in the valley that no fitting item covers;
    // gap_a is -1 if there is none.
    int32_t gap_a, gap_z;
} fitting;

static void add_fitting(const dv_valley *v, fitting *fit, int32_t i, int32_t l,
                        int32_t r)
{
    int32_t a = v->p->first[i], z = v->p->last[i];
    int64_t size = v->p->size[i];
    if (z - a >= fit->widest)
        fit->widest = z - a + 1;
    if (a == l) {
        fit->n_left += is_choice(v, i);
        fit->item_left = i;
        if (v->rank[i] < fit->rank_left)
            fit->rank_left = v->rank[i];
    } else if (size < fit->low_left) {
        fit->low_left = size;
    }
    if (z == r) {
        fit->n_right += is_choice(v, i);
        fit->item_right = i;
        if (v->rank[i] < fit->rank_right)
            fit->rank_right = v->rank[i];
    } else if (size < fit->low_right) {
        fit->low_right = size;
    }
}

// Finds the unplaced items that fit in the valley l..r (time sections with
// equal floor between higher ones). Stops at the first gap, a range of sections
// that none of them covers.
static void find_fitting(const dv_valley *v, int32_t l, int32_t r, fitting *fit)
{
    int32_t reach = l - 1; // last time section covered so far
    int32_t begin = v->begin[l], end = v->begin[r + 1];
    fit->gap_a = -1;
    for (int32_t w = begin >> 6; w <= (end - 1) >> 6 && begin < end; w++) {
        uint64_t bits = v->open[w];
        if (w == begin >> 6)
            bits &= ~(uint64_t)0 << (begin & 63);
        for (; bits; bits &= bits - 1) {
            int32_t i = w * 64 + __builtin_ctzll(bits);
            if (i >= end)
                break;
            if (v->p->last[i] > r)
                continue;
            if (v->p->first[i] > reach + 1) {
                fit->gap_a = reach + 1;
                fit->gap_z = v->p->first[i] - 1;
                return;
            }
            if (v->p->last[i] > reach)
                reach = v->p->last[i];
            add_fitting(v, fit, i, l, r);
        }
    }
    if (reach < r) {
        fit->gap_a = reach + 1;
        fit->gap_z = r;
    }
}

// Returns the priority with which the search branches on a valley (a run of
// equal floors between higher walls), according to the rule of this try; the
// lowest value is taken first.
static int64_t score_of(const dv_valley *v, const spot *s, int32_t l,
                        const fitting *fit)
{
    int64_t edge = s->right ? s->last : l;
    int64_t fails = v->fails[edge];
    switch (v->rule) {
    case DV_RULE_FAILS:
        return s->n_options * 100000 / (fails + 10);
    case DV_RULE_WIDE:
        return -(int64_t)fit->widest * 100 + s->n_options;
    case DV_RULE_RANK:
        return fit->rank_left < fit->rank_right ? fit->rank_left
                                                : fit->rank_right;
    default:
        return v->floor[l];
    }
}

// Evaluates the valley l..r, a run of equal floors between higher walls: makes
// a move if there is only one option, else records the number of options in
// v->spots.
static look look_at(dv_valley *v, int32_t l, int32_t r, int64_t wall)
{
    spot *s = &v->spots[l];
    int64_t f = v->floor[l];
    fitting fit = {.low_left = v->p->cap - f,
                   .low_right = v->p->cap - f,
                   .rank_left = v->p->n,
                   .rank_right = v->p->n};
    find_fitting(v, l, r, &fit);
    if (fit.gap_a >= 0)
        return raise_floor(v, fit.gap_a, fit.gap_z, wall, span_around(l, r))
                   ? LOOK_MOVED
                   : LOOK_FAIL;
    int64_t up_left = dv_min_i64(wall, f + fit.low_left);
    int64_t up_right = dv_min_i64(wall, f + fit.low_right);
    int can_left = up_left - f <= v->slack[l];
    int can_right = up_right - f <= v->slack[r];
    int32_t n_left = fit.n_left + can_left, n_right = fit.n_right + can_right;
    if (n_left == 0 || n_right == 0) {
        v->fails[n_left ? r : l]++;
        v->why = span_around(l, r);
        return LOOK_FAIL;
    }
    s->right = n_right < n_left;
    if (v->rule == DV_RULE_RANK && n_left > 1 && n_right > 1)
        s->right = fit.rank_right < fit.rank_left;
    s->n_options = s->right ? n_right : n_left;
    s->up = s->right ? (can_right ? up_right : -1) : (can_left ? up_left : -1);
    if (s->n_options == 1) {
        int32_t x = s->right ? r : l;
        if (s->up >= 0)
            return raise_floor(v, x, x, s->up, span_around(l, r)) ? LOOK_MOVED
                                                                  : LOOK_FAIL;
        int32_t i = s->right ? fit.item_right : fit.item_left;
        while (v->twin[i] && is_open(v, i - 1))
            i--;
        place_item(v, i, f, span_around(l, r));
        return LOOK_MOVED;
    }
    s->score = score_of(v, s, l, &fit);
    return LOOK_DONE;
}

static look look_run(dv_valley *v, int32_t l)
{
    int32_t r = l;
    int64_t f = v->floor[l];
    while (r < v->hi && v->floor[r + 1] == f)
        r++;
    int64_t left = l > v->lo ? v->floor[l - 1] : v->p->cap;
    int64_t right = r < v->hi ? v->floor[r + 1] : v->p->cap;
    v->dirty[l] = 0;
    v->spots[l].last = r;
    v->spots[l].n_options = -1;
    if (left <= f || right <= f)
        return LOOK_DONE;
    return look_at(v, l, r, dv_min_i64(left, right));
}

// Makes all forced moves: wherever there is only one option, places the item or
// raises the floor.
static outcome settle(dv_valley *v)
{
    for (int32_t s = v->lo; s <= v->hi && v->n_open;) {
        look what = v->dirty[s] ? look_run(v, s) : LOOK_DONE;
        if (what == LOOK_DONE) {
            s = v->spots[s].last + 1;
            continue;
        }
        v->dirty[s] = 1;
        if (what == LOOK_FAIL)
            return END_FAIL;
        if (dv_pack_count_node(v->run) || v->n_trail >= v->max_trail)
            return END_STOP;
        s = run_start(v, s);
        if (s > v->lo)
            s = run_start(v, s - 1);
    }
    return v->n_open ? END_OPEN : END_SOLVED;
}

// Returns the valley (a run of equal floors between higher walls) with the
// lowest score, on which the search branches. There always is one if unplaced
// items are left and no move is forced.
static int32_t best_valley(const dv_valley *v)
{
    int32_t best = -1;
    for (int32_t s = v->lo; s <= v->hi; s = v->spots[s].last + 1) {
        const spot *x = &v->spots[s];
        const spot *y = best < 0 ? x : &v->spots[best];
        if (x->n_options < 0)
            continue;
        if (best < 0 || x->score < y->score ||
            (x->score == y->score && x->n_options < y->n_options))
            best = s;
    }
    return best;
}

// Returns the next unplaced item in the order of trying, after rank `after`,
// that fits at the left or right edge of the valley l..r; -1 if there is none.
static int32_t next_item(const dv_valley *v, int32_t l, int32_t r, int right,
                         int32_t after)
{
    int32_t best = -1;
    int32_t from = right ? v->end_of[r] : v->begin[l];
    int32_t to = right ? v->end_of[r + 1] : v->begin[l + 1];
    for (int32_t k = from; k < to; k++) {
        int32_t i = right ? v->ends[k] : k;
        if (v->rank[i] <= after || !is_choice(v, i))
            continue;
        if (right ? v->p->first[i] < l : v->p->last[i] > r)
            continue;
        if (best < 0 || v->rank[i] < v->rank[best])
            best = i;
    }
    return best;
}

static outcome solve(dv_valley *v, int32_t depth);

// Splits the current range of time sections at borders that no unplaced item
// crosses, and appends the resulting ranges to v->ranges, those with the fewest
// items first. Returns their number.
static int32_t find_ranges(dv_valley *v)
{
    range *all = v->ranges + v->n_ranges;
    int32_t n = 0;
    for (int32_t s = v->lo, lo = s; s <= v->hi; s++) {
        if (s < v->hi && v->cross[s])
            continue;
        range x = {.lo = lo, .hi = s};
        for (int32_t i = v->begin[lo]; i < v->begin[s + 1]; i++)
            if (is_open(v, i)) {
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

static void enter(dv_valley *v, const range *x)
{
    v->lo = x->lo;
    v->hi = x->hi;
    v->n_open = x->n_open;
    v->hash = x->hash;
    memset(v->dirty + x->lo, 1, (size_t)(x->hi - x->lo + 1));
    for (int32_t i = v->begin[x->lo]; i < v->begin[x->lo + 1] && x->hi > x->lo;
         i++)
        if (is_open(v, i) && v->p->last[i] == x->hi)
            place_at_ceiling(v, i);
}

// Splits the current range of time sections at borders that no unplaced item
// crosses, and solves the resulting ranges one by one.
static outcome solve_ranges(dv_valley *v, int32_t depth)
{
    range outer = {v->lo, v->hi, v->n_open, v->hash};
    int64_t lift = v->lift;
    int32_t mark = v->n_trail, first = v->n_ranges, n = find_ranges(v);
    outcome e = END_SOLVED;
    v->n_ranges += n;
    for (int32_t k = 0; k < n && e == END_SOLVED; k++) {
        int32_t before = v->n_trail;
        enter(v, &v->ranges[first + k]);
        int melted = v->n_trail > before;
        e = solve(v, depth + 1);
        if (melted && e == END_FAIL)
            widen_span(&v->why, span_around(v->lo, v->hi));
        v->lift = lift;
    }
    v->n_ranges = first;
    if (e == END_FAIL)
        undo(v, mark);
    v->lo = outer.lo;
    v->hi = outer.hi;
    v->n_open = outer.n_open;
    v->hash = outer.hash;
    v->lift = lift;
    memset(v->dirty + v->lo, 1, (size_t)(v->hi - v->lo + 1));
    return e;
}

static int touches(const move *m, span x)
{
    return m->a <= x.to && m->z >= x.from;
}

// v->why is the range of time sections that caused the last failure. Extends it
// by the causes of those moves after the first `n_trail` that it depends on, so
// that it refers to the state before these moves.
static void explain(dv_valley *v, int32_t n_trail)
{
    for (int32_t k = v->n_trail - 1; k >= n_trail; k--)
        if (touches(&v->trail[k], v->why))
            widen_span(&v->why, v->trail[k].why);
}

static outcome branch(dv_valley *v, int32_t depth)
{
    int32_t l = best_valley(v), r = v->spots[l].last;
    int right = v->spots[l].right;
    int64_t up = v->spots[l].up, f = v->floor[l];
    int32_t mark = v->n_trail, after = -1, x = right ? r : l;
    span why = span_around(l, r);
    for (int raised = 0; !raised;) {
        int32_t i = next_item(v, l, r, right, after);
        raised = i < 0;
        if (raised && up < 0)
            break;
        if (dv_pack_count_node(v->run) || v->run->nodes > v->budget)
            return END_STOP;
        if (raised) {
            raise_floor(v, x, x, up, span_around(l, r));
        } else {
            after = v->rank[i];
            place_item(v, i, f, span_around(l, r));
        }
        outcome e = solve(v, depth + 1);
        if (e != END_FAIL)
            return e;
        int guilty = touches(&v->trail[mark], v->why);
        undo(v, mark);
        if (!guilty)
            // The failure does not depend on what this branch placed or raised,
            // so the other branches would fail too.
            return END_FAIL;
        widen_span(&why, v->why);
    }
    v->fails[x]++;
    v->why = why;
    return END_FAIL;
}

static int has_independent_ranges(const dv_valley *v)
{
    int apart = 0;
    for (int32_t s = v->lo; s < v->hi; s++)
        apart |= v->cross[s] == 0;
    return apart;
}

// Solves the current range of time sections by branching; no move in it is
// forced, and it does not split into independent ranges. If an equal or easier
// state has already failed, this one fails at once.
static outcome search_on(dv_valley *v, int32_t depth)
{
    const int64_t *floors = v->floor + v->lo;
    int32_t n = v->hi - v->lo + 1;
    if (find_failed(&v->failed, v->hash, floors, n, &v->why))
        return END_FAIL;
    outcome e = branch(v, depth);
    if (e == END_FAIL)
        add_failed(&v->failed, v->hash, floors, n, v->why);
    return e;
}

// Tries to place all unplaced items of the current range of time sections. On
// failure all its moves are undone.
static outcome solve(dv_valley *v, int32_t depth)
{
    int32_t mark = v->n_trail;
    outcome e = settle(v);
    if (e == END_OPEN && depth > MAX_DEPTH)
        return END_STOP;
    if (e == END_OPEN && has_independent_ranges(v)) {
        e = solve_ranges(v, depth);
    } else if (e == END_OPEN) {
        e = search_on(v, depth);
    }
    if (e == END_FAIL) {
        explain(v, mark);
        undo(v, mark);
    }
    return e;
}

// Perturbs the order in which items are tried by swapping items that are near
// each other; the distance and the number of swaps also depend on the seed.
static void shake(dv_valley *v, uint64_t seed)
{
    int32_t n = v->p->n, *at = v->order;
    int32_t reach = 8 << (seed & 3);
    uint64_t skip = seed >> 2 & 3;
    for (int32_t i = 0; i < n; i++)
        at[v->rank[i]] = i;
    for (int32_t k = 0; k < n; k++) {
        seed = dv_mix(seed);
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
        put_back(v, i);
    range all = {0, n_secs - 1, v->n_open, v->hash};
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
    outcome e = solve(v, 0);
    return e == END_SOLVED ? DV_FIT_YES
           : e == END_FAIL ? DV_FIT_NO
                           : DV_FIT_OPEN;
}

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
           (v->spots = DV_NEW(a, spot, n_secs)) &&
           (v->dirty = DV_NEW(a, unsigned char, n_secs)) &&
           (v->fails = DV_NEW(a, int32_t, n_secs)) &&
           (v->trail = DV_NEW(a, move, v->max_trail + n + 2)) &&
           (v->ranges = DV_NEW(a, range, 4 * n_secs + 4)) &&
           init_failed(&v->failed, n_secs);
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
        v->key[i] = v->twin[i] ? v->key[i - 1] : dv_mix((uint64_t)i);
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
    free_failed(&v->failed);
    dv_arena_free(&v->arena);
    dv_release(v);
}
