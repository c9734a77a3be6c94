// Runs the ops of a group together, row by row, if each op needs only the same
// row of the tensors that other ops write.
//
//   m[i]   = mean[j] x[i,j]                      row i + 2
//   v[i]   = mean[j] (x[i,j] - m[i])^2           row i + 1
//   y[i,j] = (x[i,j] - m[i]) * rsqrt(v[i] + e)   row i
//
// Statements that are cheap to compute share one kernel: its loop works on
// several rows at once, a different row for each statement, so that no
// statement waits for the reduction of the row before. The results are bitwise
// those of running the ops one by one; the first and last rows of a tile, where
// some statements have no row, run that way.
//
// A temporary that takes a few operations on available values, such as c[i,j] =
// x[i,j] - m[i], is inlined where it is read and is not stored.
#ifndef DV_ROWS_H
#define DV_ROWS_H
#include "exec/op/vec_op.h"

typedef struct dv_rows dv_rows;

// What dv_rows_create needs to know of a group of ops. Arrays are borrowed;
// `strides` has the strides of tensors that are not row-major (as for
// dv_kernel_init).
typedef struct dv_rows_spec {
    const dv_plan *plan;
    const dv_group *group;
    // The plan's schedules of the group's ops, which are obeyed; NULL: the rows
    // are chosen here.
    const dv_op_schedule *as;
    // If the rows are chosen here: the kernels that the ops of the group have
    // when they run one by one. Running row by row must add in the same order
    // as these.
    dv_vec_op *const *alone;
    int64_t *const *strides;
    int64_t l1_bytes, l2_bytes; // cache sizes of a core; 0: unknown
} dv_rows_spec;

// Creates the row-by-row execution in the arena. *out is NULL with DV_OK if it
// is not possible or, if it is chosen here, running the ops one by one is
// faster.
dv_status dv_rows_create(dv_rows **out, const dv_rows_spec *spec, dv_jit *jit,
                         dv_arena *arena, dv_diag *diag);
// Writes the schedule of an op of the group (by its number in the plan) to
// *out.
void dv_rows_describe(const dv_rows *r, int32_t op, dv_op_schedule *out);
// Runs all ops of the group on n consecutive tiles, on any thread, without
// allocating. `data` holds the address of element 0 of each tensor.
void dv_rows_run(const dv_rows *r, void *const *data, int64_t tile, int64_t n);
// Returns 1 if consecutive tiles may run as one range of rows. They may not if
// a thread's buffer of a temporary has room for only one tile.
int dv_rows_span_tiles(const dv_rows *r);
#endif
