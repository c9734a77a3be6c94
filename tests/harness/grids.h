// Grids for tests; the test fails if a grid cannot be made.
#ifndef DV_TESTS_GRIDS_H
#define DV_TESTS_GRIDS_H

#include "grid/grid.h"

dv_grid *grid_of(const dv_grid_task *t);
dv_grid_task matrix_task(const int64_t *shape, int64_t cols, int64_t rows);

// The task is refused with this status and a message that contains these words.
void grid_refused(const dv_grid_task *t, dv_status want, const char *words);

#endif
