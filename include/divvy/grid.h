// Which core of a machine computes which tile of a result, in which order and
// with which arguments. Uses nothing else of divvy:
//
//   const int64_t shape[] = {160, 416};              // 5 x 13 tiles
//   dv_grid_task t = DV_GRID_TASK_INIT;
//   t.shape = shape, t.n_dims = 2;
//   t.core_cols = t.core_rows = 8;
//   dv_grid *g = NULL;
//   if (dv_grid_create(&g, &t, diag) == DV_OK)
//       puts(dv_grid_json(g));                // one core with 2 tiles, 63 with
//       1
//   dv_grid_destroy(g);
#ifndef DIVVY_GRID_H
#define DIVVY_GRID_H
#include "divvy/divvy.h"

#ifdef __cplusplus
extern "C" {
#endif

// A tensor that is kept in core memory, cut into shards.
typedef struct dv_shard_spec {
    const char *tensor; // for messages; may be NULL
    int64_t grid[2];    // shards down and across
    int64_t tiles[2];   // rows and columns of tiles in one
} dv_shard_spec;

// Which cores get the first tiles.
typedef enum dv_core_order {
    DV_CORES_BY_COLUMN,
    DV_CORES_BY_ROW
} dv_core_order;

typedef struct dv_grid_task {
    size_t size;
    const int64_t *shape; // of the result, in elements
    int n_dims;           // the last two are cut into tiles, others are batches
    int64_t depth;        // of the reduced dim; 0: nothing is reduced
    int64_t tile_rows, tile_cols; // 0: the target's, or 32
    int64_t elem_bytes;           // 0: 2
    const dv_target *target; // NULL: core_cols and core_rows are all there is
    int64_t core_cols, core_rows; // 0: the target's
    const dv_core_rect *allowed;  // NULL: all
    size_t n_allowed;
    const dv_core_rect *holes; // cores that are not there, beside the target's
    size_t n_holes;
    const dv_shard_spec *shards; // NULL: everything is in main memory
    size_t n_shards;
    dv_core_order split;
    // row_major (NULL), column_major, snake, grouped(G), block_linear(K),
    // morton, hilbert, match_shard, or auto
    const char *order;
    // static (NULL), rect, streamk, streamk1, streamk2, splitk(N), ticket,
    // steal, or auto
    const char *policy;
    int64_t devices[3]; // parts of rows, columns and depth; 0: 1
} dv_grid_task;
#define DV_GRID_TASK_INIT                                                      \
    {                                                                          \
        sizeof(dv_grid_task), NULL, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 0, NULL,  \
            0, NULL, 0, DV_CORES_BY_COLUMN, NULL, NULL,                        \
        {                                                                      \
            0, 0, 0                                                            \
        }                                                                      \
    }

typedef struct dv_grid dv_grid;
DV_API dv_status dv_grid_create(dv_grid **out, const dv_grid_task *task,
                                dv_diag *diag);
// The plan with its figures; as JSON, or for people with a map of the cores.
DV_API char *dv_grid_json(const dv_grid *g);
DV_API char *dv_grid_text(const dv_grid *g);
DV_API void dv_grid_destroy(dv_grid *g);

// Looks for defects in a plan of tiles on cores: the JSON of dv_grid_json, the
// JSON of TileLang's stage B, a table of arguments (CSV), or the text of a
// dv_plan. The grid and the holes of `target` hold whatever the file says about
// cores; NULL: the file's own. `tiles` are the rows and columns of tiles, for
// files that do not say; may be NULL. *n_defects counts the defects, *report
// has one line for each (dv_free it).
DV_API dv_status dv_lint(const dv_target *target, const char *text, size_t len,
                         const char *name, const int64_t *tiles,
                         int64_t *n_defects, char **report, dv_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
