// C24: targets with absent cores: how they are written, and how the other cores
// are numbered. Random ones are in target.c.
#include "harness/target_case.h"

// -- Absent cores ------------------------------------------------------------

TEST(holes)
{
    // Rows and single cores, in any order and overlapping, are printed in one
    // way.
    dv_target *t = read_one("core_grid = 4x4 holes = 0,3-3,3 1,0 0,2-3,3");
    assert_int_equal(t->cores, 7);
    assert_int_equal(t->holes.n, 2);
    char *text = dv_target_text(t);
    assert_non_null(strstr(text, "    holes     = 1,0 0,2-3,3\n"));
    assert_int_equal(dv_target_core(t, 2, 0), 1);
    assert_int_equal(dv_target_core(t, 1, 0), -1);
    assert_int_equal(dv_target_core(t, 0, 4), -1);
    assert_int_equal(dv_target_core(t, -1, 0), -1);
    // Further choices keep earlier holes; the first n cores are counted row by
    // row.
    const dv_core_rect right = {1, 0, 3, 3};
    assert_int_equal(
        dv_target_restrict(t, &right, 1, NULL, 0, DV_NOWHERE, NULL), DV_OK);
    assert_int_equal(t->cores, 5);
    assert_int_equal(dv_target_restrict_first(t, 3, NULL), DV_OK);
    assert_int_equal(t->cores, 3);
    assert_int_equal(dv_target_core(t, 1, 1), 2);
    assert_int_equal(dv_target_core(t, 2, 1), -1);
    dv_release(text);
    dv_target_destroy(t);
    t = read_one("holes = none core_grid = 2x2");
    assert_int_equal(t->cores, 4);
    dv_target_destroy(t);
}

TEST(wrong_holes)
{
    property_fails("holes = 1,1", 3,
                   "holes are cores of a grid, core_grid is 0x0");
    property_fails("core_grid = 4x3 holes = 1,1 0,3-3,3", 31,
                   "cores 0,3 to 3,3 are not on the grid of 4x3 cores");
    property_fails("core_grid = 4x3 holes = 99999999999,0", 27,
                   "column 99999999999: no grid");
    property_fails(
        "core_grid = 4x3 holes = 2,1-1,2", 27,
        "cores 2,1 to 1,2: the second corner comes before the first");
    property_fails("core_grid = 4x3 holes = 0,0-3,2", 19,
                   "none of the 12 cores of the grid is left");
    property_fails("core_grid = 4x3 cores = 12 holes = 0,0-3,0", 30,
                   "core_grid has 12 cores, 4 of them holes, cores is 12");
    property_fails("core_grid = 4x3 holes = row", 27,
                   "holes takes cores such as 3,2 or 0,7-7,7, found 'row'");
    property_fails("core_grid = 4x3 holes = 1,2- ring = yes", 32,
                   "holes takes");
    property_fails("core_grid = 4x3 holes = 1,2cores", 30, "holes takes");
    property_fails("core_grid = 4x3 holes = -1,2", 27, "holes takes");
    dv_target *t = read_one("core_grid = 300x1");
    dv_core_rect every_second[150];
    for (int i = 0; i < 150; i++)
        every_second[i] = (dv_core_rect){2 * i, 0, 2 * i, 0};
    assert_int_equal(
        dv_target_restrict(t, every_second, 150, NULL, 0, DV_NOWHERE, NULL),
        DV_E_TARGET);
    assert_int_equal(t->cores, 300);
    dv_target_destroy(t);
    // More rectangles than a target holds: every second core of a row.
    char text[4096] = "target t { core_grid = 512x1 holes =";
    for (int i = 0; i < 129; i++)
        snprintf(text + strlen(text), 8, " %d,0", 2 * i);
    snprintf(text + strlen(text), 3, " }");
    fails_at(text, DV_E_TARGET, 1, 751, "holes has more than 128 rectangles");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holes),
        cmocka_unit_test(wrong_holes),
    };
    return run_group(tests, NULL, NULL);
}
