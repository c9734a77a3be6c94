// Arrays over teams of threads: every operation for 1 to 9 ranks compared with
// plain arrays, with the same results for all of them; wrong calls; no memory;
// ranks that leave.

#include "harness/test.h"
#include "harness/array_case.h"
#include <math.h>

typedef struct all {
    uint64_t seed, hash[16];
    int bad[16], turns;
} all;

static dv_status do_all(void *user, dv_team_link *p, dv_diag *diag)
{
    all *a = user;
    int64_t r = dv_team_rank(p);
    a->hash[r] = array_case(p, a->seed, a->turns, &a->bad[r], diag);
    return DV_OK;
}

TEST(test_teams)
{
    uint64_t alone = 0;
    for (int64_t n = 1; n <= 9; n++) {
        all a = {.seed = 1, .turns = 40};
        assert_int_equal(dv_team_local(n, do_all, &a, NULL), DV_OK);
        alone = n == 1 ? a.hash[0] : alone;
        for (int64_t r = 0; r < n; r++) {
            assert_int_equal(a.bad[r], 0);
            assert_true(a.hash[r] == alone);
        }
    }
    // The same without a team.
    dv_team_link *p = NULL;
    int bad = 0;
    assert_int_equal(dv_team_alone(&p, NULL), DV_OK);
    assert_true(array_case(p, 1, 40, &bad, NULL) == alone);
    assert_int_equal(bad, 0);
    dv_team_destroy(p);
}

// -- Wrong calls -----------------------------------------------------------

// Wrong calls are refused before anything is sent, on all ranks alike, with a
// message.
static void refuse(dv_team_link *p, int *bad)
{
    int64_t n = 12, size = dv_team_size(p);
    dv_dist d = dv_dist_rows(1, &n, size),
            wrong = dv_dist_rows(1, &n, size + 1);
    dv_darray *a = NULL, *b = NULL, *v = NULL;
    dv_halo h = {.before = {-1}};
    double x[12] = {0};
    dv_slice over = {8, 3, 2}, back = {0, 3, -1}, none = {12, 0, 1};
    dv_box box = {2, {{0, 1}, {0, 1}}};
    int axis = 1;
    dv_diag *diag[20];
    for (int i = 0; i < 20; i++)
        diag[i] = dv_diag_create();
    *bad += dv_darray_create(&a, p, DV_ELEM_F64, &d, NULL, NULL) != DV_OK;
    *bad += dv_darray_create(&b, p, DV_ELEM_I32, &d, NULL, NULL) != DV_OK;
    int k = 0;
#define REFUSE(call, status, text)                                             \
    do {                                                                       \
        *bad += (call) != (status);                                            \
        *bad += !strstr(dv_diag_text(diag[k]), text);                          \
        k++;                                                                   \
    } while (0)
    REFUSE(dv_darray_create(&v, p, DV_ELEM_F64, &wrong, NULL, diag[k]),
           DV_E_SHAPE, "on a team of");
    REFUSE(dv_darray_create(&v, p, DV_ELEM_F64, &d, &h, diag[k]), DV_E_USAGE,
           "a halo of -1 before");
    REFUSE(dv_darray_create(&v, p, (dv_elem)99, &d, NULL, diag[k]), DV_E_DTYPE,
           "no element type 99");
    REFUSE(dv_darray_adopt(&v, p, DV_ELEM_F64, &d, NULL, NULL, NULL, diag[k]),
           DV_E_USAGE, "no memory is given");
    REFUSE(dv_darray_view(&v, a, &over, diag[k]), DV_E_BOUNDS,
           "no slice from 8 of 3 elements, 2 apart");
    REFUSE(dv_darray_view(&v, a, &back, diag[k]), DV_E_BOUNDS, "-1 apart");
    REFUSE(dv_darray_permute(&v, a, &axis, diag[k]), DV_E_SHAPE, "axis 0 is 1");
    REFUSE(dv_darray_copy(a, b, diag[k]), DV_E_DTYPE,
           "elements of i32 are copied to f64");
    REFUSE(dv_darray_gather(a, size, x, diag[k]), DV_E_USAGE, "of a team of");
    REFUSE(dv_darray_gather(a, 0, NULL, diag[k]), DV_E_USAGE,
           "no memory is given for 12 elements");
    REFUSE(dv_darray_get(a, &box, 0, x, diag[k]), DV_E_SHAPE,
           "a box of 2 dims");
    box = (dv_box){1, {{8, 5}}};
    REFUSE(dv_darray_repartition(&v, a, &box, diag[k]), DV_E_BOUNDS,
           "no box of 5 from 8");
    h.widths = (int64_t[8]){0, 1, 2, 3, 4, -5, -6, -7};
    if (size == 4)
        REFUSE(dv_darray_create(&v, p, DV_ELEM_F64, &d, &h, diag[k]),
               DV_E_USAGE, "and -5 after");
    REFUSE(dv_darray_reduce(&v, a, (dv_reduction)9, NULL, 0, diag[k]),
           DV_E_USAGE, "no reduction 9");
    REFUSE(dv_darray_halo_wait(a, diag[k]), DV_E_USAGE, "under way");
#undef REFUSE
    // An empty slice at the end is valid; a view has no halo of its own.
    *bad += dv_darray_view(&v, a, &none, NULL) != DV_OK;
    *bad += dv_darray_halo(v, diag[k]) != DV_E_USAGE;
    *bad += dv_darray_copy(v, a, diag[k + 1]) != DV_E_SHAPE;
    for (int i = 0; i < 20; i++)
        dv_diag_destroy(diag[i]);
    dv_darray_destroy(v);
    dv_darray_destroy(a);
    dv_darray_destroy(b);
}

static dv_status do_refuse(void *user, dv_team_link *p, dv_diag *diag)
{
    (void)diag;
    refuse(p, &((int *)user)[dv_team_rank(p)]);
    return DV_OK;
}

TEST(test_refused)
{
    for (int64_t n = 1; n <= 4; n++) {
        int bad[4] = {0};
        assert_int_equal(dv_team_local(n, do_refuse, bad, NULL), DV_OK);
        for (int64_t r = 0; r < n; r++)
            assert_int_equal(bad[r], 0);
    }
    assert_int_equal(dv_team_local(0, do_refuse, NULL, NULL), DV_E_LIMIT);
    assert_int_equal(dv_team_local(1000, do_refuse, NULL, NULL), DV_E_LIMIT);
}

// -- Odd views -------------------------------------------------------------

// A halo exchange is completed by the array, not by a view of it; the stride of
// a slice of one element may have any length.
static dv_status do_odd(void *user, dv_team_link *p, dv_diag *diag)
{
    int *bad = &((int *)user)[dv_team_rank(p)];
    int64_t shape[2] = {5, 3};
    dv_dist d = dv_dist_rows(2, shape, dv_team_size(p));
    dv_halo h = {.before = {1, 1}, .after = {1, 1}, .corners = 1};
    dv_slice every[2] = {{0, 5, 1}, {0, 3, 1}};
    dv_slice far[2] = {{2, 1, INT64_MAX}, {0, 2, 2}};
    dv_slice on[2] = {{0, 1, INT64_MAX / 2}, {1, 1, INT64_MAX}};
    dv_darray *a = NULL, *v = NULL, *w = NULL, *x = NULL;
    double got[15] = {0}, one = 1;
    dv_diag *mine = dv_diag_create();
    *bad += dv_darray_create(&a, p, DV_ELEM_F64, &d, &h, diag) != DV_OK;
    *bad += dv_darray_view(&v, a, every, diag) != DV_OK;
    *bad += dv_darray_halo_start(a, diag) != DV_OK;
    *bad += dv_darray_halo_wait(v, mine) != DV_E_USAGE;
    *bad += !strstr(dv_diag_text(mine), "wait for the array's");
    *bad += dv_darray_halo_wait(a, diag) != DV_OK;
    *bad += dv_darray_view(&w, a, far, diag) != DV_OK;
    *bad += dv_darray_view(&x, w, on, diag) != DV_OK;
    *bad += dv_darray_fill(x, &one, diag) != DV_OK;
    *bad += dv_darray_gather(a, -1, got, diag) != DV_OK;
    for (int i = 0; i < 15; i++)
        *bad += got[i] != (i == 2 * 3 + 2);
    dv_diag_destroy(mine);
    dv_darray_destroy(x);
    dv_darray_destroy(w);
    dv_darray_destroy(v);
    dv_darray_destroy(a);
    return DV_OK;
}

TEST(test_odd_views)
{
    for (int64_t n = 1; n <= 7; n++) {
        int bad[7] = {0};
        assert_int_equal(dv_team_local(n, do_odd, bad, NULL), DV_OK);
        for (int64_t r = 0; r < n; r++)
            assert_int_equal(bad[r], 0);
    }
}

// -- Zeros of both signs ---------------------------------------------------

// The maximum is -0 only if all elements are -0, the minimum if one is.
static dv_status do_zeros(void *user, dv_team_link *p, dv_diag *diag)
{
    int *bad = (int *)user + dv_team_rank(p);
    int64_t n = 12;
    dv_dist d = dv_dist_rows(1, &n, dv_team_size(p));
    for (unsigned signs = 0; signs < 1u << 12; signs += 1 + signs / 3) {
        double x[12], y = 1;
        for (int i = 0; i < 12; i++)
            x[i] = signs >> i & 1 ? -0.0 : 0.0;
        for (int max = 0; max < 2; max++) {
            dv_darray *a = NULL, *s = NULL;
            dv_status st = dv_darray_create(&a, p, DV_ELEM_F64, &d, NULL, diag);
            if (st == DV_OK)
                st = dv_darray_scatter(a, 0, x, diag);
            if (st == DV_OK)
                st = dv_darray_reduce(
                    &s, a, max ? DV_REDUCE_MAX : DV_REDUCE_MIN, NULL, 0, diag);
            if (st == DV_OK)
                st = dv_darray_gather(s, -1, &y, diag);
            int minus = max ? signs == (1u << 12) - 1 : signs != 0;
            *bad += st != DV_OK || y != 0 || !signbit(y) != !minus;
            dv_darray_destroy(s);
            dv_darray_destroy(a);
            DV_TRY(st);
        }
    }
    return DV_OK;
}

TEST(test_zeros)
{
    for (int64_t n = 1; n <= 5; n++) {
        int bad[5] = {0};
        assert_int_equal(dv_team_local(n, do_zeros, bad, NULL), DV_OK);
        for (int64_t r = 0; r < n; r++)
            assert_int_equal(bad[r], 0);
    }
}

// -- Ranks that go another way ---------------------------------------------

// With checked calls, a rank that calls another function is named, and all
// ranks return.
static dv_status do_stray(void *user, dv_team_link *p, dv_diag *diag)
{
    (void)user;
    int64_t n = 12;
    dv_dist d = dv_dist_rows(1, &n, dv_team_size(p));
    dv_darray *a = NULL, *s = NULL;
    p->comm->checked = 1;
    dv_status st = dv_darray_create(&a, p, DV_ELEM_F64, &d, NULL, diag);
    if (st == DV_OK)
        st = dv_team_rank(p) == 2
                 ? dv_darray_reduce(&s, a, DV_REDUCE_MAX, NULL, 0, diag)
                 : dv_darray_reduce(&s, a, DV_REDUCE_SUM, NULL, 0, diag);
    dv_darray_destroy(a);
    return st;
}

// One rank of a part of the team leaves: the others are woken up and return.
static dv_status do_leave(void *user, dv_team_link *p, dv_diag *diag)
{
    (void)user;
    int64_t n = 12;
    dv_darray *a = NULL;
    dv_team_link *part = NULL;
    dv_status st = dv_team_split(&part, p, dv_team_rank(p) / 2, diag);
    if (st != DV_OK)
        return st;
    dv_dist d = dv_dist_rows(1, &n, dv_team_size(part));
    if (dv_team_rank(p) == 3)
        st = dv_fail(diag, DV_E_FILE, DV_NOWHERE, "no disk");
    while (st == DV_OK) {
        dv_darray_destroy(a);
        a = NULL;
        st = dv_darray_create(&a, part, DV_ELEM_F64, &d, NULL, diag);
    }
    dv_darray_destroy(a);
    dv_team_destroy(part);
    return st;
}

// dv_darray_join refuses rows of different lengths and a negative number of
// rows.
static dv_status do_join(void *user, dv_team_link *p, dv_diag *diag)
{
    int wrong_dim = *(int *)user;
    double x[8] = {0};
    int64_t shape[2] = {2, 4};
    dv_darray *a = NULL;
    if (dv_team_rank(p) == 1)
        shape[wrong_dim] = wrong_dim ? 3 : -1;
    dv_status st = dv_darray_join(&a, p, DV_ELEM_F64, 2, shape, x, diag);
    dv_darray_destroy(a);
    return st;
}

TEST(test_strays)
{
    dv_diag *diag = dv_diag_create();
    int dim = 0;
    assert_int_equal(dv_team_local(3, do_join, &dim, diag), DV_E_SHAPE);
    assert_non_null(strstr(dv_diag_text(diag), "fewer than 0 rows"));
    dv_diag_destroy(diag);
    diag = dv_diag_create();
    dim = 1;
    assert_int_equal(dv_team_local(3, do_join, &dim, diag), DV_E_USAGE);
    assert_non_null(strstr(dv_diag_text(diag), "its shape after dim 0"));
    dv_diag_destroy(diag);
    diag = dv_diag_create();
    assert_int_equal(dv_team_local(5, do_stray, NULL, diag), DV_E_USAGE);
    assert_non_null(strstr(dv_diag_text(diag), "rank 2 has gone another way"));
    dv_diag_destroy(diag);
    diag = dv_diag_create();
    assert_int_equal(dv_team_local(4, do_leave, NULL, diag), DV_E_FILE);
    assert_non_null(strstr(dv_diag_text(diag), "no disk"));
    dv_diag_destroy(diag);
}

// -- No memory -------------------------------------------------------------

// A few calls of every kind.
static dv_status do_little(void *user, dv_team_link *p, dv_diag *diag)
{
    (void)user;
    int64_t shape[2] = {7, 5}, size = dv_team_size(p), out[35];
    dv_dist rows = dv_dist_rows(2, shape, size), cols = rows;
    dv_halo h = {.before = {1, 1}, .after = {1, 1}, .corners = 1};
    dv_darray *a = NULL, *b = NULL, *s = NULL, *m = NULL;
    dv_team_link *half = NULL;
    cols.axis[0] = -1, cols.axis[1] = 0;
    dv_box box = {2, {{1, 3}, {2, 2}}};
    dv_box part = {2, {{dv_team_rank(p), 4}, {0, 5}}};
    dv_darray *r = NULL;
    dv_status st = dv_darray_create(&a, p, DV_ELEM_I64, &rows, &h, diag);
    if (!st)
        st = dv_darray_halo(a, diag);
    if (!st)
        st = dv_darray_move(&b, a, &cols, NULL, diag);
    if (!st)
        st = dv_darray_copy(a, b, diag);
    if (!st)
        st = dv_darray_repartition(&r, a, &part, diag);
    if (!st)
        st = dv_darray_get(b, &box, 0, out, diag);
    if (!st)
        st = dv_darray_reduce(&s, b, DV_REDUCE_SUM, NULL, 0, diag);
    if (!st)
        st = dv_darray_reduce(&m, b, DV_REDUCE_VAR, (int[]){0, 1}, 0, diag);
    if (!st)
        st = dv_team_split(&half, p, dv_team_rank(p) % 2, diag);
    dv_darray_destroy(r);
    dv_darray_destroy(m);
    dv_darray_destroy(s);
    dv_darray_destroy(b);
    dv_darray_destroy(a);
    dv_team_destroy(half);
    return st;
}

TEST(test_no_memory)
{
    dv_status st = DV_E_NOMEM;
    int tries = 0;
    for (; st != DV_OK && tries < 2000; tries += 1 + tries / 60) {
        dv_mem_fail_at(tries);
        st = dv_team_local(3, do_little, NULL, NULL);
        dv_mem_fail_at(-1);
        assert_true(st == DV_OK || st == DV_E_NOMEM);
    }
    assert_int_equal(st, DV_OK);
    assert_true(tries > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_teams),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_odd_views), cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_strays),    cmocka_unit_test(test_no_memory),
    };
    return run_group(tests, NULL, NULL);
}
