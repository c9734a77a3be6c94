// Random boxes, distributions and exchanges of small tensors, checked element
// by element. Include cmocka first.
#ifndef DV_DIST_CASE_H
#define DV_DIST_CASE_H
#include "base/math.h"
#include "dist/dist.h"
#include <string.h>

static uint64_t seed = 1;

static int64_t random_to(int64_t n) // 0..n-1
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static int in(dv_range r, int64_t i)
{
    return i >= r.off && i < r.off + r.size;
}

static int box_has(const dv_box *b, const int64_t *at)
{
    for (int d = 0; d < b->n_dims; d++)
        if (!in(b->dim[d], at[d]))
            return 0;
    return 1;
}

static dv_box random_box(void)
{
    dv_box b = {.n_dims = 2};
    for (int d = 0; d < 2; d++)
        b.dim[d] = (dv_range){random_to(8), random_to(6)};
    return b;
}

enum { SIDE = 9 };

// Makes a random distribution of a small tensor; some parts are given
// explicitly, some are empty.
static void random_dist(dv_dist *d, int64_t starts[2][8])
{
    *d = (dv_dist){.n_dims = 2, .n_axes = 2};
    int swap = (int)random_to(2);
    for (int i = 0; i < 2; i++) {
        d->grid[i] = 1 + random_to(4);
        d->shape[i] = 1 + random_to(SIDE);
        d->axis[i] = random_to(5) ? (swap ? 1 - i : i) : -1;
    }
    for (int i = 0; i < 2; i++) {
        if (d->axis[i] < 0 || random_to(2))
            continue;
        int64_t n = d->grid[d->axis[i]];
        starts[i][0] = 0;
        for (int64_t k = 1; k <= n; k++)
            starts[i][k] =
                k == n ? d->shape[i]
                       : starts[i][k - 1] +
                             random_to(d->shape[i] - starts[i][k - 1] + 1);
        d->starts[i] = starts[i];
    }
    assert_int_equal(dv_dist_check(d, NULL), DV_OK);
}

// Counts for every element how often this rank receives it.
static void deliver(const dv_exchange *e, int counts[SIDE][SIDE])
{
    memset(counts, 0, sizeof(int[SIDE][SIDE]));
    for (size_t i = 0; i < e->n_receives; i++)
        for (int64_t p = 0; p < SIDE * SIDE; p++) {
            int64_t at[2] = {p / SIDE, p % SIDE};
            counts[at[0]][at[1]] += box_has(&e->receives[i].box, at);
        }
}

typedef int (*maker)(dv_exchange **out, void *user, int64_t rank);

// Every message that a rank receives is sent by a rank that owns it, and there
// are no other messages.
static void check_pairs(const dv_dist *d, maker make, void *user)
{
    int64_t n = dv_dist_n_ranks(d);
    dv_exchange *all[16];
    for (int64_t r = 0; r < n; r++)
        assert_int_equal(make(&all[r], user, r), DV_OK);
    size_t sent = 0, received = 0;
    for (int64_t r = 0; r < n; r++) {
        sent += all[r]->n_sends;
        received += all[r]->n_receives;
        for (size_t i = 0; i < all[r]->n_receives; i++) {
            const dv_piece *p = &all[r]->receives[i];
            dv_box own = dv_dist_own(d, p->rank);
            int found = 0;
            assert_true(dv_box_in(&p->box, &own));
            for (size_t k = 0; k < all[p->rank]->n_sends; k++) {
                const dv_piece *q = &all[p->rank]->sends[k];
                found +=
                    q->rank == r && !memcmp(&q->box, &p->box, sizeof q->box);
            }
            assert_int_equal(found, 1);
        }
    }
    assert_int_equal(sent, received);
    for (int64_t r = 0; r < n; r++)
        dv_exchange_destroy(all[r]);
}

typedef struct move_case {
    dv_dist from, to;
} move_case;

static int make_move(dv_exchange **out, void *user, int64_t rank)
{
    move_case *m = user;
    return (int)dv_dist_move(out, &m->from, &m->to, rank, NULL);
}

// Every pair of ranks agrees on its messages, and each rank receives every
// element that it lacks once.
static void check_move(move_case *m)
{
    check_pairs(&m->from, make_move, m);
    for (int64_t r = 0; r < dv_dist_n_ranks(&m->from); r++) {
        dv_exchange *e;
        int counts[SIDE][SIDE];
        dv_box old = dv_dist_own(&m->from, r), new = dv_dist_own(&m->to, r);
        assert_int_equal(make_move(&e, m, r), DV_OK);
        deliver(e, counts);
        for (int64_t p = 0; p < SIDE * SIDE; p++) {
            int64_t at[2] = {p / SIDE, p % SIDE};
            assert_int_equal(counts[at[0]][at[1]],
                             box_has(&new, at) && !box_has(&old, at));
        }
        dv_exchange_destroy(e);
    }
}
#endif
