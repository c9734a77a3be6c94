// The functions of divvy/dist.h without arrays, compared with plain
// enumeration: lists of boxes, arbitrary requests, slices of dims, moves
// between grids, the best grid.

#include "harness/test.h"
#include "harness/dist_case.h"

TEST(test_lists)
{
    for (int turn = 0; turn < 500; turn++) {
        dv_box_list *l = NULL;
        dv_box b[3];
        int64_t elems = 0;
        assert_int_equal(dv_box_list_create(&l, 2, NULL), DV_OK);
        for (int i = 0; i < 3; i++)
            b[i] = random_box();
        assert_int_equal(dv_box_list_add(l, &b[0], NULL), DV_OK);
        assert_int_equal(dv_box_list_add(l, &b[1], NULL), DV_OK);
        assert_int_equal(dv_box_list_subtract(l, &b[2], NULL), DV_OK);
        if (turn % 2)
            dv_box_list_join(l);
        for (int64_t p = 0; p < 15 * 15; p++) {
            int64_t at[2] = {p / 15, p % 15};
            int n = 0;
            for (size_t i = 0; i < dv_box_list_count(l); i++) {
                dv_box x = dv_box_list_at(l, i);
                n += box_has(&x, at);
            }
            int want = (box_has(&b[0], at) || box_has(&b[1], at)) &&
                       !box_has(&b[2], at);
            assert_int_equal(n, want);
            elems += n;
        }
        assert_int_equal(dv_box_list_elems(l), elems);
        dv_box flat = {1, {{0, 1}}};
        assert_int_equal(dv_box_list_add(l, &flat, NULL), DV_E_SHAPE);
        dv_box_list_destroy(l);
    }
    dv_box_list *l = NULL;
    assert_int_equal(dv_box_list_create(&l, DV_MAX_DIMS + 1, NULL), DV_E_LIMIT);
}

typedef struct want_case {
    dv_dist d;
    dv_box boxes[16][2]; // that each rank requests
    dv_box around[16]; // a box around the ranks that request something of this
                       // rank
    int all;           // pass no such box
    int64_t fails;     // the rank whose request fails; -1: none
} want_case;

static dv_status wants(void *user, int64_t rank, dv_box_list *out,
                       dv_diag *diag)
{
    const want_case *w = user;
    if (rank == w->fails)
        return dv_fail(diag, DV_E_FILE, DV_NOWHERE, "no wish");
    for (int i = 0; i < 2; i++)
        DV_TRY(dv_box_list_add(out, &w->boxes[rank][i], diag));
    return DV_OK;
}

static int make_wanted(dv_exchange **out, void *user, int64_t rank)
{
    want_case *w = user;
    return (int)dv_dist_exchange(out, &w->d, rank, wants, w,
                                 w->all ? NULL : &w->around[rank], NULL);
}

// Requests of any boxes, also beyond the tensor: elements that do not exist are
// not fetched.
TEST(test_wants)
{
    for (int turn = 0; turn < 500; turn++) {
        int64_t starts[2][8];
        want_case w = {.all = turn % 2, .fails = -1};
        random_dist(&w.d, starts);
        int64_t n = dv_dist_n_ranks(&w.d);
        for (int64_t r = 0; r < n; r++)
            for (int i = 0; i < 2; i++)
                w.boxes[r][i] = random_box();
        for (int64_t r = 0; r < n; r++) {
            dv_box own = dv_dist_own(&w.d, r);
            w.around[r] = (dv_box){.n_dims = 2};
            for (int64_t s = 0; s < n; s++) {
                dv_box theirs = dv_dist_own(&w.d, s);
                dv_box a = dv_box_inner(&w.boxes[s][0], &own);
                dv_box b = dv_box_inner(&w.boxes[s][1], &own);
                if (dv_box_empty(&theirs)) // the box around them would not
                                           // contain such a rank
                    w.all = 1;
                if (!dv_box_empty(&a) || !dv_box_empty(&b))
                    w.around[r] = dv_box_hull(&w.around[r], &theirs);
            }
        }
        check_pairs(&w.d, make_wanted, &w);
        for (int64_t r = 0; r < n; r++) {
            dv_exchange *e;
            int counts[SIDE][SIDE];
            dv_box own = dv_dist_own(&w.d, r);
            assert_int_equal(make_wanted(&e, &w, r), DV_OK);
            deliver(e, counts);
            for (int64_t p = 0; p < SIDE * SIDE; p++) {
                int64_t at[2] = {p / SIDE, p % SIDE};
                int want = (box_has(&w.boxes[r][0], at) ||
                            box_has(&w.boxes[r][1], at)) &&
                           !box_has(&own, at) && at[0] < w.d.shape[0] &&
                           at[1] < w.d.shape[1];
                assert_int_equal(counts[at[0]][at[1]], want);
            }
            dv_exchange_destroy(e);
        }
        w.fails = 0;
        dv_exchange *e = NULL;
        assert_int_equal(make_wanted(&e, &w, 0), DV_E_FILE);
    }
}

// A slice of a cut dim: elements stay with their owners, in one step or in two.
TEST(test_slices_of_dims)
{
    for (int turn = 0; turn < 3000; turn++) {
        int64_t starts[2][8];
        dv_dist d, v;
        random_dist(&d, starts);
        v = d;
        for (int i = 0; i < 2; i++) {
            int64_t stride = 1 + random_to(3), n = d.shape[i];
            int64_t size = random_to((n + stride - 1) / stride + 1);
            int64_t reach = size ? (size - 1) * stride + 1 : 0;
            v.slice[i] = (dv_slice){random_to(n - reach + 1), size, stride};
            v.whole[i] = n;
            v.shape[i] = size;
        }
        assert_int_equal(dv_dist_check(&v, NULL), DV_OK);
        for (int64_t r = 0; r < dv_dist_n_ranks(&d); r++) {
            dv_box own = dv_dist_own(&d, r), mine = dv_dist_own(&v, r);
            for (int i = 0; i < 2; i++)
                for (int64_t k = 0; k < v.shape[i]; k++) {
                    int64_t x = v.slice[i].off + k * v.slice[i].stride;
                    assert_int_equal(in(mine.dim[i], k), in(own.dim[i], x));
                    if (d.axis[i] < 0 || !in(own.dim[i], x))
                        continue;
                    int64_t first, end, at[DV_MAX_AXES];
                    dv_dist_coords(&v, i, (dv_range){k, 1}, &first, &end);
                    dv_grid_coords(at, v.grid, v.n_axes, r);
                    assert_int_equal(first, at[v.axis[i]]);
                    assert_int_equal(end, first + 1);
                }
        }
        v.slice[0].off = v.whole[0];
        v.slice[0].size = v.shape[0] = 1;
        assert_int_equal(dv_dist_check(&v, NULL), DV_E_BOUNDS);
    }
}

// Moves between grids of the same number of ranks, neither of which refines the
// other.
TEST(test_moves_of_grids)
{
    static const int64_t grids[][2] = {{1, 12}, {2, 6}, {3, 4},
                                       {4, 3},  {6, 2}, {12, 1}};
    for (int turn = 0; turn < 500; turn++) {
        int64_t a[2][8], b[2][8];
        move_case m;
        random_dist(&m.from, a);
        random_dist(&m.to, b);
        for (int i = 0; i < 2; i++) {
            m.from.grid[i] = grids[turn % 6][i];
            m.to.grid[i] = grids[random_to(6)][i];
            m.to.shape[i] = m.from.shape[i];
            m.from.starts[i] = m.to.starts[i] = NULL;
        }
        m.to.grid[1] = 12 / m.to.grid[0];
        check_move(&m);
    }
}

// dv_dist_blocks finds the grid with the fewest halo elements, counted rank by
// rank.
TEST(test_blocks)
{
    for (int turn = 0; turn < 60; turn++) {
        int64_t n = 1 + random_to(24), one[2] = {1, 1}, got = 0, best = -1;
        int64_t shape[2] = {24 + random_to(40), 24 + random_to(40)};
        dv_dist d;
        assert_int_equal(dv_dist_blocks(&d, 2, shape, n, NULL), DV_OK);
        assert_int_equal(dv_dist_n_ranks(&d), n);
        for (int64_t rows = 0; rows <= n; rows++) {
            dv_dist x = d;
            int64_t sum = 0;
            if (rows) { // 0 is the grid that was found
                if (n % rows)
                    continue;
                x.grid[0] = rows, x.grid[1] = n / rows;
            }
            for (int64_t r = 0; r < n; r++) {
                dv_exchange *e;
                assert_int_equal(dv_dist_halo(&e, &x, r, one, one, 0, NULL),
                                 DV_OK);
                sum += e->received_elems;
                dv_exchange_destroy(e);
            }
            if (!rows)
                got = sum;
            else
                best = best < 0 ? sum : dv_min_i64(best, sum);
        }
        assert_int_equal(got, best);
    }
    dv_dist d;
    int64_t huge[3] = {1000000, 1000000, 1000000};
    assert_int_equal(dv_dist_blocks(&d, 3, huge, 1000000, NULL), DV_OK);
    assert_int_equal(d.grid[0] * d.grid[1] * d.grid[2], 1000000);
    assert_int_equal(d.grid[0], 100);
    assert_int_equal(d.grid[1], 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_wants),
        cmocka_unit_test(test_slices_of_dims),
        cmocka_unit_test(test_moves_of_grids),
        cmocka_unit_test(test_blocks),
    };
    return run_group(tests, NULL, NULL);
}
