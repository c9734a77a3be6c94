// Ranks compare what must be equal on all of them: all return the same status,
// and the message names the lowest rank that differs and the first difference.
#include "harness/test.h"
#include "darray/darray.h"

typedef struct trial {
    int64_t odd; // the first rank that has `other`; those before have `usual`
    const dv_setting *usual, *other;
    int32_t n_usual, n_other;
    const char *want;   // NULL: they are equal
    int64_t reports[8]; // by rank: 1 if its answer was right
} trial;

static dv_status compare(void *user, dv_team_link *p, dv_diag *diag)
{
    trial *t = user;
    int64_t rank = dv_team_rank(p);
    int odd = rank >= t->odd;
    dv_diag *mine = dv_diag_create();
    dv_status st =
        dv_comm_compare(p->comm, odd ? t->other : t->usual,
                        odd ? t->n_other : t->n_usual, "started", mine);
    t->reports[rank] = t->want ? st == DV_E_USAGE &&
                                     strstr(dv_diag_text(mine), t->want) != NULL
                               : st == DV_OK;
    if (!t->reports[rank])
        fprintf(stderr, "rank %d: %s\n", (int)rank, dv_diag_text(mine));
    dv_diag_destroy(mine);
    (void)diag;
    return DV_OK;
}

static void try(trial *t, int64_t ranks)
{
    assert_int_equal(dv_team_local(ranks, compare, t, NULL), DV_OK);
    for (int64_t r = 0; r < ranks; r++)
        assert_true(t->reports[r]);
}

static void differs(const dv_setting *usual, int32_t n_usual,
                    const dv_setting *other, int32_t n_other, const char *words)
{
    for (int64_t ranks = 2; ranks <= 5; ranks++)
        for (int64_t odd = 1; odd < ranks; odd++) {
            char want[400];
            snprintf(want, sizeof want, "rank %d was started %s", (int)odd,
                     words);
            trial t = {.odd = odd,
                       .usual = usual,
                       .other = other,
                       .n_usual = n_usual,
                       .n_other = n_other,
                       .want = want};
            try(&t, ranks);
        }
}

static void test_same(void **state)
{
    const dv_setting facts[] = {
        {"divvy", "run"}, {"--out", NULL}, {"--verify", ""}};
    (void)state;
    for (int64_t ranks = 1; ranks <= 5; ranks++) {
        trial t = {.odd = 1,
                   .usual = facts,
                   .other = facts,
                   .n_usual = 3,
                   .n_other = 3};
        try(&t, ranks);
        t.n_usual = t.n_other = 0;
        try(&t, ranks);
    }
}

static void test_values(void **state)
{
    const dv_setting a[] = {
        {"divvy", "run"}, {"--seed", "1"}, {"--out", "u=x.npy"}};
    const dv_setting b[] = {{"divvy", "run"}, {"--seed", "7"}, {"--out", NULL}};
    const dv_setting c[] = {{"divvy", "run"}, {"--seed", "1"}, {"--out", NULL}};
    const dv_setting d[] = {{"divvy", "run"}, {"--seed", "1"}, {"--out", ""}};
    (void)state;
    // Only the first difference is named.
    differs(a, 3, b, 3, "with --seed 7, rank 0 with --seed 1");
    differs(a, 3, c, 3, "without --out, rank 0 with --out u=x.npy");
    differs(c, 3, a, 3, "with --out u=x.npy, rank 0 without --out");
    differs(c, 3, d, 3,
            "with --out, rank 0 without --out"); // an option without a value
    // A value that looks like the mark of a missing one.
    const dv_setting dash[] = {{"--set", "-"}}, none[] = {{"--set", NULL}};
    differs(dash, 1, none, 1, "without --set, rank 0 with --set -");
    const dv_setting seq[] = {{"DIVVY_EXECUTOR=", "seq"}};
    const dv_setting unset[] = {{"DIVVY_EXECUTOR=", NULL}};
    differs(seq, 1, unset, 1,
            "without DIVVY_EXECUTOR, rank 0 with DIVVY_EXECUTOR=seq");
}

static void test_lists(void **state)
{
    const dv_setting a[] = {{"--in", "x"}, {"--in", "y"}, {"--out", NULL}};
    const dv_setting b[] = {{"--in", "x"}, {"another --in", NULL}};
    (void)state;
    differs(a, 3, a, 2, "with fewer settings, rank 0 without --out");
    differs(a, 2, a, 3, "without --out, rank 0 with fewer settings");
    differs(a, 3, b, 2, "without another --in, rank 0 with --in y");
    differs(a, 3, NULL, 0, "with fewer settings, rank 0 with --in x");
}

// Values that are too long to be sent or shown are still compared.
static void test_long(void **state)
{
    enum { LONG = 100000 };
    char *x = malloc(LONG + 1), *y = malloc(LONG + 1);
    (void)state;
    memset(x, 'x', LONG);
    memset(y, 'x', LONG);
    x[LONG] = y[LONG] = 0;
    y[LONG - 1] = 'y';
    const dv_setting a[] = {{"--set", x}}, b[] = {{"--set", y}};
    trial t = {.odd = 2,
               .usual = a,
               .other = b,
               .n_usual = 1,
               .n_other = 1,
               .want = "ranks were started differently"};
    try(&t, 4);
    y[10] = 'y';
    t.want = "rank 2 was started with";
    try(&t, 4);
    x[1000] = y[1000] = 0;
    t.want = "rank 2 was started with --set xxxxxxxxxxyx";
    try(&t, 4);
    free(x);
    free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_long),
    };
    return run_group(tests, NULL, NULL);
}
