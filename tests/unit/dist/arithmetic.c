// The arithmetic of distribution compared with plain enumeration, and the
// errors of the Dist dialect, one test each.

#include "harness/test.h"
#include "dist/value.h"
#include "harness/dist_case.h"
#include <math.h>

// -- One dim, element by element -------------------------------------------

TEST(test_parts)
{
    for (int64_t n = 0; n < 40; n++)
        for (int64_t ranks = 1; ranks < 50; ranks++) {
            int64_t at = 0;
            for (int64_t r = 0; r < ranks; r++) {
                dv_range p = dv_dist_part(n, ranks, r);
                assert_int_equal(p.off, at);
                assert_true(p.size == n / ranks || p.size == n / ranks + 1);
                for (int64_t i = 0; i < p.size; i++)
                    assert_int_equal(dv_dist_owner(n, ranks, at + i), r);
                at += p.size;
            }
            assert_int_equal(at, n);
        }
}

TEST(test_slices)
{
    for (int turn = 0; turn < 20000; turn++) {
        dv_slice s = {random_to(20), random_to(12), 1 + random_to(5)};
        dv_range part = {random_to(40), random_to(20)};
        int64_t before = 0, size = 0;
        for (int64_t k = 0; k < s.size; k++) {
            before += s.off + k * s.stride < part.off;
            size += in(part, s.off + k * s.stride);
        }
        dv_overlap o = dv_dist_overlap(part, s);
        assert_int_equal(o.size, size);
        assert_int_equal(o.slice_off, before);
        if (size)
            assert_int_equal(o.global_first, s.off + before * s.stride);
        // The bounds of a target reach from its first element to its last.
        dv_range target = dv_dist_target(part, s);
        dv_range b = dv_dist_bounds(s, target);
        assert_int_equal(b.size, size ? (size - 1) * s.stride + 1 : 0);
        if (size)
            assert_int_equal(b.off, o.global_first);
    }
}

TEST(test_core)
{
    for (int turn = 0; turn < 20000; turn++) {
        dv_range own = {random_to(40), random_to(20)};
        int64_t n = 1 + random_to(14);
        dv_slice dest = {random_to(20), n, 1 + random_to(3)};
        dv_slice view[2] = {{random_to(20), n, 1 + random_to(3)},
                            {random_to(20), n, 1 + random_to(3)}};
        dv_range target = dv_dist_target(own, dest);
        dv_range core = {0, target.size};
        for (int i = 0; i < 2; i++)
            core = dv_dist_core(own, view[i], target, core);
        assert_true(core.size >= 0 && core.off >= 0);
        assert_true(core.off + core.size <= target.size);
        for (int64_t k = 0; k < target.size; k++) {
            int owned = 1;
            for (int i = 0; i < 2; i++)
                owned &=
                    in(own, view[i].off + (target.off + k) * view[i].stride);
            assert_int_equal(owned, in(core, k));
        }
    }
}

// The core and the edges of a target of two dims, element by element: every
// position is in exactly one of them, in the core if all operands are owned,
// and the global and local frames name the same elements.
TEST(test_core_of_all_dims)
{
    for (int turn = 0; turn < 5000; turn++) {
        dv_box own = random_box(), edges[2 * DV_MAX_DIMS];
        dv_slice dest[2], view[2][2];
        for (int d = 0; d < 2; d++) {
            int64_t n = 1 + random_to(9);
            dest[d] = (dv_slice){random_to(6), n, 1 + random_to(2)};
            for (int i = 0; i < 2; i++)
                view[i][d] = (dv_slice){random_to(6), n, 1 + random_to(2)};
        }
        dv_box target = dv_dist_target_box(&own, dest), whole = target;
        whole.dim[0].off = whole.dim[1].off = 0;
        dv_box core = whole;
        for (int i = 0; i < 2; i++)
            core = dv_dist_core_box(&own, view[i], &target, &core);
        int n = dv_dist_edges(edges, &whole, &core);
        for (int64_t p = 0; p < dv_box_elems(&whole); p++) {
            int64_t at[2] = {p / whole.dim[1].size, p % whole.dim[1].size};
            int owned = 1, covered = box_has(&core, at);
            for (int i = 0; i < 2; i++)
                for (int d = 0; d < 2; d++)
                    owned &= in(own.dim[d],
                                view[i][d].off + (target.dim[d].off + at[d]) *
                                                     view[i][d].stride);
            assert_int_equal(owned, covered);
            for (int e = 0; e < n; e++)
                covered += box_has(&edges[e], at);
            assert_int_equal(covered, 1);
        }
        for (int d = 0; d < 2 && !dv_box_empty(&core); d++) {
            dv_slice all =
                dv_dist_elements(dest[d], target.dim[d], core.dim[d], 0);
            dv_slice mine = dv_dist_elements(dest[d], target.dim[d],
                                             core.dim[d], own.dim[d].off);
            int64_t last = all.off + (all.size - 1) * all.stride;
            assert_true(in(own.dim[d], all.off) && in(own.dim[d], last));
            assert_int_equal((all.off - dest[d].off) / dest[d].stride,
                             target.dim[d].off + core.dim[d].off);
            assert_int_equal(mine.off + own.dim[d].off, all.off);
        }
    }
}

// -- Boxes and teams, element by element -----------------------------------

static int list_has(const dv_boxes *l, const int64_t *at)
{
    int n = 0;
    for (int32_t i = 0; i < l->n; i++)
        n += box_has(&l->at[i], at);
    return n;
}

TEST(test_boxes)
{
    for (int turn = 0; turn < 3000; turn++) {
        dv_arena arena = {0};
        dv_box b[4];
        dv_boxes l = {0};
        for (int i = 0; i < 4; i++)
            b[i] = random_box();
        for (int i = 0; i < 3; i++)
            assert_true(dv_boxes_add(&l, &b[i], &arena));
        assert_true(dv_boxes_subtract(&l, &b[3], &arena));
        if (turn % 2)
            dv_boxes_join(&l);
        for (int64_t p = 0; p < 15 * 15; p++) {
            int64_t at[2] = {p / 15, p % 15};
            int want = (box_has(&b[0], at) || box_has(&b[1], at) ||
                        box_has(&b[2], at)) &&
                       !box_has(&b[3], at);
            assert_int_equal(list_has(&l, at), want);
        }
        dv_arena_free(&arena);
    }
}

typedef struct halo_case {
    dv_dist d;
    int64_t before[2], after[2];
    int corners;
} halo_case;

static int make_halo(dv_exchange **out, void *user, int64_t rank)
{
    halo_case *h = user;
    return (int)dv_dist_halo(out, &h->d, rank, h->before, h->after, h->corners,
                             NULL);
}

static int near_own(const halo_case *h, const dv_box *own, const int64_t *at)
{
    int outside = 0;
    if (dv_box_empty(own))
        return 0;
    for (int d = 0; d < 2; d++) {
        int64_t end = own->dim[d].off + own->dim[d].size;
        if (at[d] >= h->d.shape[d] || at[d] < own->dim[d].off - h->before[d] ||
            at[d] >= end + h->after[d])
            return 0;
        outside += !in(own->dim[d], at[d]);
    }
    return outside == 1 || (outside == 2 && h->corners);
}

TEST(test_halos)
{
    for (int turn = 0; turn < 3000; turn++) {
        int64_t starts[2][8];
        halo_case h;
        random_dist(&h.d, starts);
        for (int d = 0; d < 2; d++) {
            h.before[d] = random_to(2) ? random_to(3) : random_to(12);
            h.after[d] = random_to(2) ? random_to(3) : random_to(12);
        }
        h.corners = (int)random_to(2);
        check_pairs(&h.d, make_halo, &h);
        for (int64_t r = 0; r < dv_dist_n_ranks(&h.d); r++) {
            dv_exchange *e;
            int counts[SIDE][SIDE];
            dv_box own = dv_dist_own(&h.d, r);
            assert_int_equal(make_halo(&e, &h, r), DV_OK);
            deliver(e, counts);
            for (int64_t p = 0; p < SIDE * SIDE; p++) {
                int64_t at[2] = {p / SIDE, p % SIDE};
                assert_int_equal(counts[at[0]][at[1]], near_own(&h, &own, at));
            }
            dv_exchange_destroy(e);
        }
    }
}

TEST(test_moves)
{
    for (int turn = 0; turn < 3000; turn++) {
        int64_t a[2][8], b[2][8];
        move_case m;
        random_dist(&m.from, a);
        random_dist(&m.to, b);
        memcpy(m.to.shape, m.from.shape, sizeof m.to.shape);
        memcpy(m.to.grid, m.from.grid, sizeof m.to.grid);
        m.to.starts[0] = m.to.starts[1] = NULL;
        check_move(&m);
    }
}

// One of a million ranks has a few partners and looks at no others.
TEST(test_million)
{
    dv_dist d = {.n_dims = 2,
                 .shape = {100000, 100000},
                 .axis = {0, 1},
                 .n_axes = 2,
                 .grid = {1000, 1000}};
    int64_t one[2] = {1, 1};
    dv_exchange *e = NULL;
    int64_t before = dv_mem_calls();
    assert_int_equal(dv_dist_halo(&e, &d, 500500, one, one, 1, NULL), DV_OK);
    assert_int_equal(e->n_received_from, 8);
    assert_int_equal(e->n_sent_to, 8);
    assert_int_equal(e->received_elems, 4 * 100 + 4);
    assert_true(dv_mem_calls() - before < 200);
    dv_exchange_destroy(e);
}

// The assignment of ranks compared with all permutations of five ranks.
TEST(test_relabel)
{
    for (int turn = 0; turn < 300; turn++) {
        int64_t m[25], best = 0, got;
        for (int i = 0; i < 25; i++)
            m[i] = random_to(50);
        for (int64_t code = 0; code < 3125; code++) {
            int64_t sum = 0, c = code;
            unsigned used = 0;
            for (int i = 0; i < 5; i++, c /= 5) {
                sum += m[i * 5 + c % 5];
                used |= 1u << (c % 5);
            }
            best = used == 31 ? dv_max_i64(best, sum) : best;
        }
        assert_int_equal(dv_dist_relabel(&got, m, 5, NULL), DV_OK);
        assert_int_equal(got, best);
    }
}

// The lower bound of a product's traffic compared with cases known in closed
// form.
TEST(test_product_bound)
{
    double n = 1024, p = 64;
    double cube = 3 * pow(n * n * n / p, 2. / 3) - 3 * n * n / p;
    assert_true(fabs(dv_dist_product_bound(n, n, n, p) - cube) < 1e-6 * cube);
    // A tall matrix and few ranks: the small factor is sent to all.
    double got = dv_dist_product_bound(1e6, 10, 20, 4);
    assert_true(fabs(got - (10 * 20 * (1 - 1. / 4))) < 1e-6);
    assert_true(dv_dist_product_bound(n, n, n, 1) < 1e-6);
}

// -- Errors of the Dist dialect ----------------------------------------------

// Owned elements that lie before the needed ones: the dialect's formula gives a
// core of size -2.
TEST(bug_negative_core)
{
    dv_range own = dv_dist_part(16, 4, 1);
    dv_slice dest = {2, 4, 1}, source = {10, 4, 1};
    dv_range target = dv_dist_target(own, dest);
    assert_int_equal(target.off, 2);
    assert_int_equal(target.size, 2);
    dv_range core =
        dv_dist_core(own, source, target, (dv_range){0, target.size});
    assert_int_equal(core.size, 0);
}

// A core consists of owned elements only, whatever halo lies before them.
TEST(bug_halo_counts_as_owned)
{
    dv_slice s = {0, 16, 1};
    dv_range own = {4, 4}, target = {2, 8};
    dv_range core = dv_dist_core(own, s, target, (dv_range){0, 8});
    assert_int_equal(core.off, 2); // element 4 of the slice
    assert_int_equal(core.size, 4);
}

// Moving a tensor with a halo moves its owned elements: the starts of parts say
// where these are, the width of the halo does not matter.
TEST(bug_repartition_with_halo)
{
    static const int64_t uneven[] = {0, 1, 7, 10};
    move_case m = {
        {.n_dims = 1,
         .shape = {10},
         .axis = {0},
         .starts = {uneven},
         .n_axes = 1,
         .grid = {3}},
        {.n_dims = 1, .shape = {10}, .axis = {0}, .n_axes = 1, .grid = {3}}};
    dv_exchange *e;
    assert_int_equal(make_move(&e, &m, 0), DV_OK);
    assert_int_equal(e->n_receives, 1); // elements 1..3 from rank 1
    assert_int_equal(e->receives[0].rank, 1);
    assert_int_equal(e->receives[0].box.dim[0].off, 1);
    assert_int_equal(e->received_elems, 2);
    dv_exchange_destroy(e);
}

// Views of other dims are relative to the part, not to the tensor.
TEST(bug_view_of_other_dims)
{
    dv_sides s = dv_dist_sides((dv_range){1, 3}, (dv_range){1, 2});
    assert_int_equal(s.own_off, 0);
    assert_int_equal(s.own, 2);
}

TEST(bug_inner_unimplemented)
{
    dv_range r = dv_dist_intersection((dv_range){0, 3}, (dv_range){7, 2});
    assert_int_equal(r.off, 7);
    assert_int_equal(r.size, 0);
}

// Reductions begin with their own neutral element, on empty ranks too.
TEST(bug_reductions_seeded_with_zero)
{
    dv_moments all = DV_MOMENTS_INIT, none = DV_MOMENTS_INIT;
    dv_moments part = DV_MOMENTS_INIT;
    dv_moments_add(&part, -4);
    dv_moments_add(&part, -2);
    dv_moments_merge(&all, &none);
    dv_moments_merge(&all, &part);
    dv_moments_merge(&all, &none);
    assert_true(all.max == -2 && all.min == -4 && all.prod == 8);
    assert_true(all.sum == -6 && all.v.mean == -3 && all.v.spread == 2);
}

// The bits of linspace do not depend on the team; integers are not converted to
// f32.
TEST(bug_linspace_depends_on_team)
{
    double step = dv_line_step(0.1, 64.3, 111, 1), alone[111], here[111];
    dv_line_fill(alone, 0.1, step, (dv_range){0, 111});
    for (int64_t ranks = 1; ranks <= 9; ranks++)
        for (int64_t r = 0; r < ranks; r++) {
            dv_range own = dv_dist_part(111, ranks, r);
            dv_line_fill(here, 0.1, step, own);
            assert_memory_equal(here, alone + own.off,
                                (size_t)own.size * sizeof *here);
        }
    double big = dv_line_step(0, 1e8, 100000000, 0);
    assert_true(dv_line_at(0, big, 16777217) == 16777217);
    assert_int_equal(dv_steps_to(10, 0, -3), 4);
}

// More than 2^31 elements, and offsets that would wrap around in 32 bits.
TEST(bug_int_counts)
{
    dv_dist d = {.n_dims = 2,
                 .shape = {1 << 20, 1 << 20},
                 .axis = {0, -1},
                 .n_axes = 1,
                 .grid = {2}};
    dv_dist to = d;
    to.axis[0] = -1, to.axis[1] = 0;
    dv_exchange *e;
    assert_int_equal(dv_dist_move(&e, &d, &to, 0, NULL), DV_OK);
    assert_int_equal(e->received_elems, INT64_C(1) << 38);
    dv_exchange_destroy(e);
}

// One bounding box of two distant views would fetch everything between them.
TEST(bug_hull_blow_up)
{
    dv_arena arena = {0};
    dv_boxes need = {0};
    dv_box own = {1, {{0, 25}}}, a = {1, {{0, 10}}}, b = {1, {{90, 10}}};
    assert_true(dv_boxes_add(&need, &a, &arena));
    assert_true(dv_boxes_add(&need, &b, &arena));
    assert_true(dv_boxes_subtract(&need, &own, &arena));
    assert_int_equal(dv_boxes_elems(&need), 10); // 75 with the bounding box
    dv_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_core),
        cmocka_unit_test(test_core_of_all_dims),
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_halos),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_million),
        cmocka_unit_test(test_relabel),
        cmocka_unit_test(test_product_bound),
        cmocka_unit_test(bug_negative_core),
        cmocka_unit_test(bug_halo_counts_as_owned),
        cmocka_unit_test(bug_repartition_with_halo),
        cmocka_unit_test(bug_view_of_other_dims),
        cmocka_unit_test(bug_inner_unimplemented),
        cmocka_unit_test(bug_reductions_seeded_with_zero),
        cmocka_unit_test(bug_linspace_depends_on_team),
        cmocka_unit_test(bug_int_counts),
        cmocka_unit_test(bug_hull_blow_up),
    };
    return run_group(tests, NULL, NULL);
}
