// The errors of the Dist dialect, each with the test that shows its absence.
// `dist` is unit/dist/arithmetic.c, `here` this file, `mpi` tests/mpi.
//
//   in the Dist dialect                              test
//   a core of negative size                      dist bug_negative_core
//   the left halo's shift lost in local_core     dist bug_halo_counts_as_owned
//   a target that counts halo rows as owned      dist bug_halo_counts_as_owned
//   repartition of an array with halos           here bug_move_with_halo
//   its rows, as integers                        dist bug_repartition_with_halo
//   view offsets of dims >= 1 not local          here bug_view_of_other_dims
//   a view past the part when nothing overlaps   here bug_view_of_nothing
//   `inner` boxes not implemented                dist bug_inner_unimplemented
//   reductions that begin with 0                 here bug_seeds
//   a view with a target forgets the shape       here bug_view_forgets_shape
//   team 0 whatever the team; nprocs too         here bug_team_ignored
//   unary ops over all, halos too                here bug_unary_ignores_target
//   linspace bits depend on the team             here bug_linspace
//   whole numbers by way of f32                  here bug_whole_numbers
//   cyclic permutes of unequal extents           here bug_cyclic_permute
//   u32, u64 reduced as signed                   here bug_unsigned
//   no i16 and u16                               here bug_sixteen_bits
//   no mean, var, std                            here bug_moments
//   counts in 32 bits                            dist bug_int_counts; mpi cuts
//                                                messages at 20 and 100 bytes
//   Open MPI refused                             mpi runs under both
//   the world's error handler changed            mpi array.c
//   a later exchange changes an earlier one      here bug_two_under_way
//   maps cached for another shape                here bug_two_under_way
//   a permute walks all elements of all ranks    here bug_permute_cost
//   arange of unsigned start and step            here bug_negative_arange
//   a hull of far views fetches what is between  dist bug_hull_blow_up
//
// Not here, since there is no such thing: ops that fall back to local pieces
// (nothing is computed on pieces as if they were the whole), keys of call sites
// (an exchange belongs to its array), requests kept as 32-bit numbers, and a
// need of MPI_THREAD_MULTIPLE (mpi runs after a plain MPI_Init).

#include "harness/test.h"
#include "harness/unit.h"
#include "darray/darray.h"
#include <math.h>
#include <stdatomic.h>

// Every rank of teams of 1 to 6 runs the test and counts what is wrong.
typedef struct bug {
    void (*rank)(dv_team_link *p, atomic_int *bad);
    atomic_int bad;
} bug;

static dv_status one_rank(void *user, dv_team_link *p, dv_diag *diag)
{
    bug *b = user;
    (void)diag;
    b->rank(p, &b->bad);
    return DV_OK;
}

static void on_teams(void (*rank)(dv_team_link *p, atomic_int *bad))
{
    for (int64_t n = 1; n <= 6; n++) {
        bug b = {.rank = rank};
        assert_int_equal(dv_team_local(n, one_rank, &b, NULL), DV_OK);
        assert_int_equal(b.bad, 0);
    }
}

#define WANT(ok) (*bad += !(ok))

static void put_flat(void *user, const int64_t *at, void *elem)
{
    const int64_t *shape = user;
    double v = (double)(at[0] * shape[1] + at[1]);
    memcpy(elem, &v, sizeof v);
}

static dv_darray *new_grid(dv_team_link *p, int64_t *shape, const dv_halo *h)
{
    dv_dist d;
    dv_darray *a = NULL;
    if (dv_dist_blocks(&d, 2, shape, dv_team_size(p), NULL) ||
        dv_darray_create(&a, p, DV_ELEM_F64, &d, h, NULL) ||
        dv_darray_map(a, put_flat, shape, NULL))
        return NULL;
    return a;
}

static dv_darray *new_rows(dv_team_link *p, dv_elem type, int64_t n)
{
    dv_darray *a = NULL;
    dv_dist d = dv_dist_rows(1, &n, dv_team_size(p));
    dv_darray_create(&a, p, type, &d, NULL, NULL);
    return a;
}

// -- Halos and moves -------------------------------------------------------

// What is moved is what is owned, not the rows of the halo.
static void rank_move_with_halo(dv_team_link *p, atomic_int *bad)
{
    int64_t shape[2] = {11, 7};
    dv_halo h = {.before = {2, 3}, .after = {1, 2}, .corners = 1};
    double got[77];
    dv_darray *a = new_grid(p, shape, &h), *b = NULL, *c = NULL;
    dv_dist rows = dv_dist_rows(2, shape, dv_team_size(p));
    WANT(a && !dv_darray_halo(a, NULL));
    WANT(!dv_darray_move(&b, a, &rows, &h, NULL)); // with halos again
    WANT(b && !dv_darray_move(&c, b, dv_darray_dist(a), NULL, NULL));
    WANT(c && !dv_darray_gather(c, -1, got, NULL));
    for (int i = 0; i < 77; i++)
        WANT(got[i] == i);
    dv_darray_destroy(a);
    dv_darray_destroy(b);
    dv_darray_destroy(c);
}

TEST(bug_move_with_halo)
{
    on_teams(rank_move_with_halo);
}

// The columns of a box are columns of the tensor, whichever part a rank has.
static void rank_view_of_other_dims(dv_team_link *p, atomic_int *bad)
{
    int64_t shape[2] = {6, 12};
    dv_halo h = {.before = {1, 1}, .after = {1, 1}, .corners = 0};
    dv_box box = {2, {{2, 3}, {5, 6}}};
    double got[18] = {0};
    dv_darray *a = new_grid(p, shape, &h);
    WANT(a && !dv_darray_get(a, &box, -1, got, NULL));
    for (int i = 0; i < 18; i++)
        WANT(got[i] == (2 + i / 6) * 12 + 5 + i % 6);
    dv_darray_destroy(a);
}

TEST(bug_view_of_other_dims)
{
    on_teams(rank_view_of_other_dims);
}

// A view of which a rank has no element is empty there, and stays inside.
static void rank_view_of_nothing(dv_team_link *p, atomic_int *bad)
{
    dv_darray *a = new_rows(p, DV_ELEM_F64, 24), *v = NULL, *s = NULL;
    dv_slice last = {23, 1, 1};
    WANT(a && !dv_darray_arange(a, 0, 1, NULL));
    WANT(!dv_darray_view(&v, a, &last, NULL));
    int mine = dv_team_rank(p) == dv_team_size(p) - 1;
    dv_range own = dv_darray_own(v).dim[0];
    WANT(own.size == mine && own.off >= 0 && own.off + own.size <= 1);
    WANT((dv_darray_data(v, NULL) != NULL) == mine);
    WANT(!dv_darray_reduce(&s, v, DV_REDUCE_SUM, NULL, 0, NULL));
    WANT(*(double *)dv_darray_data(s, NULL) == 23);
    dv_darray_destroy(s);
    dv_darray_destroy(v);
    dv_darray_destroy(a);
}

TEST(bug_view_of_nothing)
{
    on_teams(rank_view_of_nothing);
}

// A view has the shape of the slice on every rank, not that of the rank's part.
static void rank_view_forgets_shape(dv_team_link *p, atomic_int *bad)
{
    dv_darray *a = new_rows(p, DV_ELEM_I32, 16), *v = NULL;
    dv_slice s = {1, 5, 3};
    WANT(a && !dv_darray_view(&v, a, &s, NULL));
    dv_box own = dv_dist_own(dv_darray_dist(v), dv_team_rank(p));
    dv_range mine = dv_darray_own(v).dim[0];
    WANT(dv_darray_dist(v)->shape[0] == 5);
    WANT(own.dim[0].size == mine.size);
    WANT(mine.size == 0 || own.dim[0].off == mine.off);
    dv_darray_destroy(v);
    dv_darray_destroy(a);
}

TEST(bug_view_forgets_shape)
{
    on_teams(rank_view_forgets_shape);
}

// Two exchanges of different shapes at the same time, completed in the other
// order, twice.
static void rank_two_under_way(dv_team_link *p, atomic_int *bad)
{
    int64_t small[2] = {9, 4}, large[2] = {13, 10}, *shape[2] = {small, large};
    dv_halo h = {.before = {1, 1}, .after = {1, 1}, .corners = 1};
    dv_darray *a[2] = {new_grid(p, small, &h), new_grid(p, large, &h)};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2; i++)
            WANT(a[i] && !dv_darray_halo_start(a[i], NULL));
        for (int i = 1; i >= 0; i--)
            WANT(!dv_darray_halo_wait(a[i], NULL));
    }
    WANT(dv_darray_halo_wait(a[0], NULL) == DV_E_USAGE);
    for (int k = 0; k < 2; k++) {
        dv_box in = dv_darray_local(a[k]);
        const double *x = dv_darray_data(a[k], NULL);
        for (int64_t i = 0; i < dv_box_elems(&in); i++) {
            int64_t r = in.dim[0].off + i / in.dim[1].size;
            int64_t c = in.dim[1].off + i % in.dim[1].size;
            WANT(x[i] == (double)(r * shape[k][1] + c));
        }
        dv_darray_destroy(a[k]);
    }
}

TEST(bug_two_under_way)
{
    on_teams(rank_two_under_way);
}

// -- Teams -----------------------------------------------------------------

// Each half of the team has an array of its own size and exchanges nothing with
// the other half.
static void rank_team_ignored(dv_team_link *p, atomic_int *bad)
{
    int64_t colour = dv_team_rank(p) % 2, rows = colour ? 5 : 9;
    int64_t shape[2] = {rows, 6};
    dv_team_link *half = NULL;
    dv_halo h = {.before = {1, 1}, .after = {1, 1}, .corners = 0};
    WANT(!dv_team_split(&half, p, colour, NULL));
    int64_t n = dv_team_size(p);
    WANT(dv_team_size(half) == (colour ? n / 2 : (n + 1) / 2));
    WANT(dv_team_rank(half) == dv_team_rank(p) / 2);
    dv_darray *a = new_grid(half, shape, &h), *s = NULL;
    for (int i = 0; i < (colour ? 3 : 7); i++)
        WANT(a && !dv_darray_halo(a, NULL));
    WANT(!dv_darray_reduce(&s, a, DV_REDUCE_SUM, NULL, 0, NULL));
    double all = (double)(rows * 6);
    WANT(*(double *)dv_darray_data(s, NULL) == all * (all - 1) / 2);
    // A distribution for one team is refused by another.
    dv_dist d = dv_dist_rows(2, shape, dv_team_size(p));
    dv_darray *wrong = NULL;
    if (n > 1)
        WANT(dv_darray_create(&wrong, half, DV_ELEM_F64, &d, NULL, NULL) ==
             DV_E_SHAPE);
    dv_darray_destroy(s);
    dv_darray_destroy(a);
    dv_team_destroy(half);
}

TEST(bug_team_ignored)
{
    on_teams(rank_team_ignored);
}

// P2: a statement with one operand computes each element of its target once.
TEST(bug_unary_ignores_target)
{
    static const char text[] = "input a: f64[16]\ninput y: f64[16]\n"
                               "y[i] <- exp(a[i+3]) for i in 2..11\n"
                               "output y\n";
    for (int64_t n = 1; n <= 6; n++) {
        dv_plan_options o = DV_PLAN_OPTIONS_INIT;
        o.team = n;
        dv_plan *plan = plan_on(text, "host", NULL, &o);
        int64_t points = 0;
        for (int64_t r = 0; r < n; r++)
            for (int32_t op = 0; op < plan->ops->n_ops; op++) {
                dv_iter_space s;
                if (dv_team_target(&s, plan->ops, &plan->team, op, r))
                    points += s.end[0] - s.begin[0];
            }
        assert_int_equal(points, 9);
        dv_plan_destroy(plan);
    }
}

// -- Values ----------------------------------------------------------------

static void rank_linspace(dv_team_link *p, atomic_int *bad)
{
    double got[111];
    float small[111];
    dv_darray *a = new_rows(p, DV_ELEM_F64, 111);
    dv_darray *b = new_rows(p, DV_ELEM_F32, 111);
    WANT(a && !dv_darray_linspace(a, 0.1, 64.3, 1, NULL));
    WANT(b && !dv_darray_linspace(b, 0.1, 64.3, 1, NULL));
    WANT(!dv_darray_gather(a, -1, got, NULL));
    WANT(!dv_darray_gather(b, -1, small, NULL));
    double step = (64.3 - 0.1) / 110;
    for (int i = 0; i < 111; i++) {
        WANT(got[i] == 0.1 + step * i);
        WANT(small[i] == (float)(0.1 + step * i));
    }
    dv_darray_destroy(a);
    dv_darray_destroy(b);
}

TEST(bug_linspace)
{
    on_teams(rank_linspace);
}

// 2^24 + 1 is not an f32, 2^53 + 1 not an f64.
static void rank_whole_numbers(dv_team_link *p, atomic_int *bad)
{
    int32_t got[9];
    int64_t wide[9], first = (INT64_C(1) << 53) + 1;
    dv_darray *a = new_rows(p, DV_ELEM_I32, 9);
    dv_darray *b = new_rows(p, DV_ELEM_I64, 9);
    WANT(a && !dv_darray_arange(a, 16777217, 2, NULL));
    WANT(b && !dv_darray_arange_int(b, first, 2, NULL));
    WANT(!dv_darray_gather(a, -1, got, NULL));
    WANT(!dv_darray_gather(b, -1, wide, NULL));
    for (int i = 0; i < 9; i++)
        WANT(got[i] == 16777217 + 2 * i && wide[i] == first + 2 * i);
    dv_darray_destroy(a);
    dv_darray_destroy(b);
}

TEST(bug_whole_numbers)
{
    on_teams(rank_whole_numbers);
}

static void rank_negative_arange(dv_team_link *p, atomic_int *bad)
{
    int64_t n = dv_arange_size(3, -9, -2.5), got[5] = {0};
    double f[5] = {0};
    WANT(n == 5 && dv_arange_size(-4, -4, 1) == 0 &&
         dv_arange_size(0, 5, -1) == 0);
    // An arange with too many elements, or without an end, is not an empty one.
    WANT(dv_arange_size(0, 1e300, 1) == -1 && dv_arange_size(0, 5, 0) == -1);
    dv_darray *a = new_rows(p, DV_ELEM_F64, n);
    dv_darray *b = new_rows(p, DV_ELEM_I64, n);
    WANT(a && !dv_darray_arange(a, 3, -2.5, NULL));
    WANT(b && !dv_darray_arange(b, -4, -3, NULL));
    WANT(!dv_darray_gather(a, -1, f, NULL));
    WANT(!dv_darray_gather(b, -1, got, NULL));
    for (int i = 0; i < 5; i++)
        WANT(f[i] == 3 - 2.5 * i && got[i] == -4 - 3 * i);
    dv_darray_destroy(a);
    dv_darray_destroy(b);
}

TEST(bug_negative_arange)
{
    on_teams(rank_negative_arange);
}

// -- Permutes --------------------------------------------------------------

static void put_three(void *user, const int64_t *at, void *elem)
{
    (void)user;
    int32_t v = (int32_t)(100 * at[0] + 10 * at[1] + at[2]);
    memcpy(elem, &v, sizeof v);
}

// A permutation of 2 x 3 x 4 by [1, 2, 0], and by its inverse.
static void rank_cyclic_permute(dv_team_link *p, atomic_int *bad)
{
    static const int axes[2][3] = {{1, 2, 0}, {2, 0, 1}};
    const int64_t shape[3] = {2, 3, 4};
    dv_dist d = dv_dist_rows(3, shape, dv_team_size(p));
    dv_darray *a = NULL;
    WANT(!dv_darray_create(&a, p, DV_ELEM_I32, &d, NULL, NULL));
    WANT(!dv_darray_map(a, put_three, NULL, NULL));
    for (int k = 0; k < 2; k++) {
        int64_t new[3], at[3], x[3];
        int32_t got[24];
        dv_darray *v = NULL, *b = NULL;
        for (int i = 0; i < 3; i++)
            new[i] = shape[axes[k][i]];
        dv_dist to = dv_dist_rows(3, new, dv_team_size(p));
        WANT(!dv_darray_permute(&v, a, axes[k], NULL));
        WANT(!dv_darray_move(&b, v, &to, NULL, NULL));
        WANT(!dv_darray_gather(b, -1, got, NULL));
        for (int64_t i = 0; i < 24; i++) {
            at[0] = i / (new[1] * new[2]);
            at[1] = i / new[2] % new[1];
            at[2] = i % new[2];
            for (int j = 0; j < 3; j++)
                x[axes[k][j]] = at[j];
            WANT(got[i] == 100 * x[0] + 10 * x[1] + x[2]);
        }
        dv_darray_destroy(b);
        dv_darray_destroy(v);
    }
    dv_darray_destroy(a);
}

TEST(bug_cyclic_permute)
{
    on_teams(rank_cyclic_permute);
}

// A thousand ranks, 2^40 elements: the messages are boxes, one per partner.
TEST(bug_permute_cost)
{
    const int64_t shape[2] = {1 << 20, 1 << 20};
    dv_dist from = dv_dist_rows(2, shape, 1000), to = from;
    to.axis[0] = -1;
    to.axis[1] = 0;
    dv_exchange *e = NULL;
    assert_int_equal(dv_dist_move(&e, &from, &to, 17, NULL), DV_OK);
    assert_int_equal(e->n_sends, 999);
    assert_int_equal(e->n_receives, 999);
    dv_exchange_destroy(e);
}

// -- Reductions ------------------------------------------------------------

static double reduced(dv_darray *a, dv_reduction op, atomic_int *bad)
{
    dv_darray *s = NULL;
    double v = NAN;
    WANT(a && !dv_darray_reduce(&s, a, op, NULL, 0, NULL));
    if (s)
        memcpy(&v, dv_darray_data(s, NULL), sizeof v);
    dv_darray_destroy(s);
    return v;
}

// Negative numbers, positive ones, and ranks without elements.
static void rank_seeds(dv_team_link *p, atomic_int *bad)
{
    dv_darray *a = new_rows(p, DV_ELEM_F64, 3);
    WANT(a && !dv_darray_arange(a, -5, 1, NULL)); // -5, -4, -3
    WANT(reduced(a, DV_REDUCE_MAX, bad) == -3);
    WANT(reduced(a, DV_REDUCE_PROD, bad) == -60);
    WANT(reduced(a, DV_REDUCE_SUM, bad) == -12);
    WANT(!dv_darray_arange(a, 5, 1, NULL)); // 5, 6, 7
    WANT(reduced(a, DV_REDUCE_MIN, bad) == 5);
    WANT(reduced(a, DV_REDUCE_MAX, bad) == 7);
    dv_darray_destroy(a);
    // Without elements a sum is 0, a product 1, and there is no maximum.
    dv_darray *none = new_rows(p, DV_ELEM_F64, 0), *s = NULL;
    WANT(reduced(none, DV_REDUCE_SUM, bad) == 0 &&
         reduced(none, DV_REDUCE_PROD, bad) == 1);
    WANT(isnan(reduced(none, DV_REDUCE_MEAN, bad)));
    WANT(dv_darray_reduce(&s, none, DV_REDUCE_MAX, NULL, 0, NULL) ==
         DV_E_SHAPE);
    dv_darray_destroy(none);
}

TEST(bug_seeds)
{
    on_teams(rank_seeds);
}

static void rank_moments(dv_team_link *p, atomic_int *bad)
{
    dv_darray *a = new_rows(p, DV_ELEM_F64, 101);
    WANT(a && !dv_darray_arange(a, 1e9, 1, NULL)); // squares would cancel
    WANT(fabs(reduced(a, DV_REDUCE_MEAN, bad) - (1e9 + 50)) < 1e-6);
    WANT(fabs(reduced(a, DV_REDUCE_VAR, bad) - 850) < 1e-6);
    WANT(fabs(reduced(a, DV_REDUCE_STD, bad) - sqrt(850)) < 1e-8);
    dv_darray_destroy(a);
    dv_darray *i = new_rows(p, DV_ELEM_I8, 4); // an f64 mean of integers
    WANT(i && !dv_darray_arange(i, 1, 1, NULL));
    WANT(reduced(i, DV_REDUCE_MEAN, bad) == 2.5 &&
         reduced(i, DV_REDUCE_VAR, bad) == 1.25);
    dv_darray_destroy(i);
}

TEST(bug_moments)
{
    on_teams(rank_moments);
}

// The maximum and the minimum of elements that would be negative as signed
// ones.
static void rank_unsigned(dv_team_link *p, atomic_int *bad)
{
    static const dv_elem types[] = {DV_ELEM_U8, DV_ELEM_U16, DV_ELEM_U32,
                                    DV_ELEM_U64};
    for (int k = 0; k < 4; k++) {
        uint64_t top = UINT64_MAX >> (64 - (8 << k)), max = 0, min = 0;
        dv_darray *a = new_rows(p, types[k], 7), *s = NULL, *t = NULL;
        WANT(a && !dv_darray_arange_int(a, (int64_t)(top / 2 - 3), 2, NULL));
        WANT(!dv_darray_reduce(&s, a, DV_REDUCE_MAX, NULL, 0, NULL));
        WANT(!dv_darray_reduce(&t, a, DV_REDUCE_MIN, NULL, 0, NULL));
        memcpy(&max, dv_darray_data(s, NULL), (size_t)1 << k);
        memcpy(&min, dv_darray_data(t, NULL), (size_t)1 << k);
        WANT(max == top / 2 + 9 && min == top / 2 - 3);
        dv_darray_destroy(s);
        s = NULL;
        WANT(!dv_darray_reduce(&s, a, DV_REDUCE_SUM, NULL, 0, NULL));
        WANT(*(uint64_t *)dv_darray_data(s, NULL) == 7 * (top / 2 + 3));
        dv_darray_destroy(s);
        dv_darray_destroy(t);
        dv_darray_destroy(a);
    }
}

TEST(bug_unsigned)
{
    on_teams(rank_unsigned);
}

// i16 and u16 are sent, and summed in a wider type.
static void rank_sixteen_bits(dv_team_link *p, atomic_int *bad)
{
    int16_t got[9];
    dv_darray *a = new_rows(p, DV_ELEM_I16, 9), *s = NULL, *b = NULL;
    dv_halo h = {.before = {2}, .after = {1}, .corners = 0};
    WANT(a && !dv_darray_arange(a, -32768, 8000, NULL));
    WANT(!dv_darray_move(&b, a, dv_darray_dist(a), &h, NULL));
    WANT(!dv_darray_gather(b, -1, got, NULL));
    for (int i = 0; i < 9; i++)
        WANT(got[i] == -32768 + 8000 * i);
    WANT(!dv_darray_reduce(&s, a, DV_REDUCE_SUM, NULL, 0, NULL));
    WANT(dv_darray_type(s) == DV_ELEM_I64 &&
         *(int64_t *)dv_darray_data(s, NULL) == -6912);
    dv_darray_destroy(s);
    dv_darray *u = new_rows(p, DV_ELEM_U16, 5);
    WANT(u && !dv_darray_arange(u, 65531, 1, NULL));
    WANT(!dv_darray_reduce(&s, u, DV_REDUCE_SUM, NULL, 0, NULL));
    WANT(dv_darray_type(s) == DV_ELEM_U64 &&
         *(uint64_t *)dv_darray_data(s, NULL) == 327665);
    dv_darray_destroy(s);
    dv_darray_destroy(u);
    dv_darray_destroy(a);
    dv_darray_destroy(b);
}

TEST(bug_sixteen_bits)
{
    on_teams(rank_sixteen_bits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bug_move_with_halo),
        cmocka_unit_test(bug_view_of_other_dims),
        cmocka_unit_test(bug_view_of_nothing),
        cmocka_unit_test(bug_view_forgets_shape),
        cmocka_unit_test(bug_two_under_way),
        cmocka_unit_test(bug_team_ignored),
        cmocka_unit_test(bug_unary_ignores_target),
        cmocka_unit_test(bug_linspace),
        cmocka_unit_test(bug_whole_numbers),
        cmocka_unit_test(bug_negative_arange),
        cmocka_unit_test(bug_cyclic_permute),
        cmocka_unit_test(bug_permute_cost),
        cmocka_unit_test(bug_seeds),
        cmocka_unit_test(bug_moments),
        cmocka_unit_test(bug_unsigned),
        cmocka_unit_test(bug_sixteen_bits),
    };
    return run_group(tests, NULL, NULL);
}
