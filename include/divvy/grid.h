// Assigns the tiles of a result to the cores of a machine, and determines the
// order in which a core computes them and the arguments of its kernels. It
// needs no other part of divvy:
//
//   const int64_t shape[] = {160, 416};              // 5 x 13 tiles
//   dv_grid_task t = DV_GRID_TASK_INIT;
//   t.shape = shape, t.n_dims = 2;
//   t.core_cols = t.core_rows = 8;
//   dv_grid *g = NULL;
//   if (dv_grid_create(&g, &t, diag) == DV_OK) {
//       char *json = dv_grid_json(g);  // one core with 2 tiles, 63 with 1
//       if (json)
//           puts(json);
//       dv_free(json);
//   }
//   dv_grid_destroy(g);
#ifndef DIVVY_GRID_H
#define DIVVY_GRID_H
#include "divvy/divvy.h"

#ifdef __cplusplus
extern "C" {
#endif

// A tensor that is resident in the memories of the cores: it is cut into
// shards, one per core.
typedef struct dv_shard_spec {
    const char *tensor; // for messages; may be NULL
    int64_t grid[2];    // number of rows and columns of shards
    int64_t tiles[2];   // rows and columns of tiles in one shard
} dv_shard_spec;

// The order in which cores are given tiles: down the columns of the core grid
// first, or along its rows.
typedef enum dv_core_order {
    DV_CORES_BY_COLUMN,
    DV_CORES_BY_ROW
} dv_core_order;

typedef struct dv_grid_task {
    size_t size;
    const int64_t *shape; // of the result, in elements
    int n_dims;           // the last two are cut into tiles, others are batches
    int64_t depth;        // size of the reduced dim; 0: nothing is reduced
    int64_t tile_rows, tile_cols; // size of a tile; 0: the target's, or 32
    int64_t elem_bytes;           // bytes of an element; 0 means 2
    // The machine; NULL: all that is known of it are core_cols and core_rows.
    const dv_target *target;
    int64_t core_cols, core_rows; // of the core grid; 0: as in the target
    const dv_core_rect *allowed;  // cores that may be used; NULL: all
    size_t n_allowed;
    const dv_core_rect *holes; // unusable cores, besides the target's
    size_t n_holes;
    const dv_shard_spec *shards; // NULL: all tensors are in main memory
    size_t n_shards;
    dv_core_order split;
    // The order of the tiles: row_major (NULL), column_major, snake,
    // grouped(G), block_linear(K), swizzle(S), morton, hilbert, zigzag,
    // match_shard, auto, or list(RxC: n …), which lists all R * C tiles of the
    // result in order, each as row * C + column; there may be lists for several
    // sizes.
    const char *order;
    // The policy that assigns tiles to cores: static (NULL), rect, streamk,
    // streamk1, streamk2, splitk(N), ticket, ticket(N), steal, steal(N),
    // dynamic (steal), or auto. docs/cli.md explains them.
    const char *policy;
    // Number of devices along rows, columns and depth (the reduced dim); 0
    // means 1.
    int64_t devices[3];
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
// Return the assignment and its statistics, as JSON, or as readable text with a
// map of the cores.
DV_API char *dv_grid_json(const dv_grid *g);
DV_API char *dv_grid_text(const dv_grid *g);
DV_API void dv_grid_destroy(dv_grid *g);

// Looks for defects in a plan of tiles on cores: the JSON of dv_grid_json, the
// JSON of stage B of the compiler TileLang, a table of kernel arguments (CSV),
// or the text of a dv_plan. The core grid and the holes of `target` override
// those in the file; NULL: the file's own are used. `name` is the file name in
// messages; may be NULL. `tiles` are the rows and columns of tiles, for files
// that do not say; may be NULL. *n_defects receives the number of defects,
// *report a text with one line for each (dv_free it). Fails with DV_E_FORMAT if
// the text is no plan of tiles at all.
DV_API dv_status dv_lint(const dv_target *target, const char *text, size_t len,
                         const char *name, const int64_t *tiles,
                         int64_t *n_defects, char **report, dv_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
