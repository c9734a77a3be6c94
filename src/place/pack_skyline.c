// The skyline of the valley search: moves on it, and the valleys in it.
//
//   #              ##     A place fills a valley's edge, a raise gives up
//   ##            ###     what is below a height. Both change a run of
//   ##x..........y###     sections with one floor, so that taking them back
//   #################     needs no more than the floor before.
//
// Of each valley is kept how many options its edges x and y have. A move
// touches its run and the neighbours of that; only these are looked at again.
#include "place/pack_valley.h"
#include "base/math.h"

// -- Moves -------------------------------------------------------------------

static int32_t run_start(const dv_valley *v, int32_t s)
{
    while (s > v->lo && v->floor[s - 1] == v->floor[s])
        s--;
    return s;
}

// Sections a..z have changed: so have their run and its neighbours.
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

static void add_move(dv_valley *v, int32_t item, int32_t a, int32_t z,
                     dv_span why, int64_t from)
{
    v->trail[v->n_trail++] = (dv_move){item, a, z, why, from};
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

void dv_sky_put_back(dv_valley *v, int32_t i)
{
    v->open[i >> 6] |= (uint64_t)1 << (i & 63);
    v->hash += v->key[i];
    v->n_open++;
    int32_t *cross = v->cross;
    for (int32_t s = v->p->first[i]; s < v->p->last[i]; s++)
        cross[s]++;
}

void dv_sky_place(dv_valley *v, int32_t i, int64_t f, dv_span why)
{
    int32_t a = v->p->first[i], z = v->p->last[i];
    v->p->at[i] = f - v->lift;
    take(v, i);
    add_move(v, i, a, z, why, f);
    set_floor(v, a, z, f + v->p->size[i]);
}

void dv_sky_melt(dv_valley *v, int32_t i)
{
    v->p->at[i] = v->p->cap - v->lift - v->p->size[i];
    take(v, i);
    add_move(v, i, v->lo, v->hi, dv_span_around(v->lo, v->hi), -1);
    for (int32_t s = v->lo; s <= v->hi; s++)
        v->floor[s] += v->p->size[i];
    v->lift += v->p->size[i];
}

int dv_sky_raise(dv_valley *v, int32_t a, int32_t z, int64_t to, dv_span why)
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

void dv_sky_undo(dv_valley *v, int32_t n_trail)
{
    while (v->n_trail > n_trail) {
        const dv_move *m = &v->trail[--v->n_trail];
        if (m->item >= 0)
            dv_sky_put_back(v, m->item);
        if (m->from < 0) {
            int64_t size = v->p->size[m->item];
            for (int32_t s = m->a; s <= m->z; s++)
                v->floor[s] -= size;
            v->lift -= size;
            continue; // its part is left, which makes all of it dirty
        }
        if (m->item < 0) {
            int64_t by = v->floor[m->a] - m->from;
            for (int32_t s = m->a; s <= m->z; s++)
                v->slack[s] += by;
        }
        set_floor(v, m->a, m->z, m->from);
    }
}

// -- Valleys -----------------------------------------------------------------

typedef enum look { LOOK_FAIL, LOOK_MOVED, LOOK_DONE } look;

// What fits a valley, counted from the open items that start in it.
typedef struct fitting {
    int32_t n_left, n_right;       // touch the edge
    int32_t item_left, item_right; // one of them
    int64_t low_left, low_right;   // least size of those that do not
    int32_t widest;                // sections
    int32_t rank_left, rank_right;
    int32_t gap_a, gap_z; // sections that nothing covers
} fitting;

static void add_fitting(const dv_valley *v, fitting *fit, int32_t i, int32_t l,
                        int32_t r)
{
    int32_t a = v->p->first[i], z = v->p->last[i];
    int64_t size = v->p->size[i];
    if (z - a >= fit->widest)
        fit->widest = z - a + 1;
    if (a == l) {
        fit->n_left += dv_is_choice(v, i);
        fit->item_left = i;
        if (v->rank[i] < fit->rank_left)
            fit->rank_left = v->rank[i];
    } else if (size < fit->low_left) {
        fit->low_left = size;
    }
    if (z == r) {
        fit->n_right += dv_is_choice(v, i);
        fit->item_right = i;
        if (v->rank[i] < fit->rank_right)
            fit->rank_right = v->rank[i];
    } else if (size < fit->low_right) {
        fit->low_right = size;
    }
}

// Stops at the first gap.
static void find_fitting(const dv_valley *v, int32_t l, int32_t r, fitting *fit)
{
    int32_t reach = l - 1; // covered up to here
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

// How a valley compares with others; the rule of this try decides.
static int64_t score_of(const dv_valley *v, const dv_spot *s, int32_t l,
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

// Look at the valley l..r: do what is forced, or note its options.
static look look_at(dv_valley *v, int32_t l, int32_t r, int64_t wall)
{
    dv_spot *s = &v->spots[l];
    int64_t f = v->floor[l];
    fitting fit = {.low_left = v->p->cap - f,
                   .low_right = v->p->cap - f,
                   .rank_left = v->p->n,
                   .rank_right = v->p->n};
    find_fitting(v, l, r, &fit);
    if (fit.gap_a >= 0)
        return dv_sky_raise(v, fit.gap_a, fit.gap_z, wall, dv_span_around(l, r))
                   ? LOOK_MOVED
                   : LOOK_FAIL;
    int64_t up_left = dv_min_i64(wall, f + fit.low_left);
    int64_t up_right = dv_min_i64(wall, f + fit.low_right);
    int can_left = up_left - f <= v->slack[l];
    int can_right = up_right - f <= v->slack[r];
    int32_t n_left = fit.n_left + can_left, n_right = fit.n_right + can_right;
    if (n_left == 0 || n_right == 0) {
        v->fails[n_left ? r : l]++;
        v->why = dv_span_around(l, r);
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
            return dv_sky_raise(v, x, x, s->up, dv_span_around(l, r))
                       ? LOOK_MOVED
                       : LOOK_FAIL;
        int32_t i = s->right ? fit.item_right : fit.item_left;
        while (v->twin[i] && dv_is_open(v, i - 1))
            i--;
        dv_sky_place(v, i, f, dv_span_around(l, r));
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

dv_end dv_sky_settle(dv_valley *v)
{
    for (int32_t s = v->lo; s <= v->hi && v->n_open;) {
        look what = v->dirty[s] ? look_run(v, s) : LOOK_DONE;
        if (what == LOOK_DONE) {
            s = v->spots[s].last + 1;
            continue;
        }
        v->dirty[s] = 1;
        if (what == LOOK_FAIL)
            return DV_END_FAIL;
        if (dv_pack_tick(v->run) || v->n_trail >= v->max_trail)
            return DV_END_STOP;
        s = run_start(v, s);
        if (s > v->lo)
            s = run_start(v, s - 1);
    }
    return v->n_open ? DV_END_OPEN : DV_END_SOLVED;
}

int32_t dv_sky_best(const dv_valley *v)
{
    int32_t best = -1;
    for (int32_t s = v->lo; s <= v->hi; s = v->spots[s].last + 1) {
        const dv_spot *x = &v->spots[s];
        const dv_spot *y = best < 0 ? x : &v->spots[best];
        if (x->n_options < 0)
            continue;
        if (best < 0 || x->score < y->score ||
            (x->score == y->score && x->n_options < y->n_options))
            best = s;
    }
    return best;
}

int32_t dv_sky_next(const dv_valley *v, int32_t l, int32_t r, int right,
                    int32_t after)
{
    int32_t best = -1;
    int32_t from = right ? v->end_of[r] : v->begin[l];
    int32_t to = right ? v->end_of[r + 1] : v->begin[l + 1];
    for (int32_t k = from; k < to; k++) {
        int32_t i = right ? v->ends[k] : k;
        if (v->rank[i] <= after || !dv_is_choice(v, i))
            continue;
        if (right ? v->p->first[i] < l : v->p->last[i] > r)
            continue;
        if (best < 0 || v->rank[i] < v->rank[best])
            best = i;
    }
    return best;
}
