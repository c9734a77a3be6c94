#include "harness/test.h"
#include "harness/grids.h"

dv_grid *grid_of(const dv_grid_task *t)
{
    dv_diag *diag = dv_diag_create();
    dv_grid *g = NULL;
    if (dv_grid_create(&g, t, diag) != DV_OK)
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    return g;
}

dv_grid_task matrix_task(const int64_t *shape, int64_t cols, int64_t rows)
{
    dv_grid_task t = DV_GRID_TASK_INIT;
    t.shape = shape;
    t.n_dims = 2;
    t.core_cols = cols;
    t.core_rows = rows;
    return t;
}

void grid_refused(const dv_grid_task *t, dv_status want, const char *words)
{
    dv_diag *diag = dv_diag_create();
    dv_grid *g = NULL;
    assert_int_equal(dv_grid_create(&g, t, diag), want);
    assert_null(g);
    if (!strstr(dv_diag_text(diag), words))
        fail_msg("no '%s' in: %s", words, dv_diag_text(diag));
    dv_diag_destroy(diag);
}
