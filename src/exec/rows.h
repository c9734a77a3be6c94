// Rows: the ops of a group, statement by statement on one row after the other,
// where each needs of the others no more than the same row.
//
//   m[i]   = mean[j] x[i,j]                      row i + 2
//   v[i]   = mean[j] (x[i,j] - m[i])^2           row i + 1
//   y[i,j] = (x[i,j] - m[i]) * rsqrt(v[i] + e)   row i
//
// Statements that are quick to compute are one kernel: a loop that works on
// several rows at once, each at another statement, so that none waits for the
// sum of the row before. What is computed, to the bit, is what ops compute one
// by one: the first and last rows of a tile are done that way.
//
// A temporary that is a few operations on what there is anyway is computed
// where it is read, and not stored: c[i,j] = x[i,j] - m[i].
#ifndef DV_ROWS_H
#define DV_ROWS_H
#include "exec/vec_op.h"

typedef struct dv_rows dv_rows;

// What to make it from. Arrays are borrowed; `strides` as dv_kernel_init has
// it.
typedef struct dv_rows_how {
    const dv_plan *plan;
    const dv_group *group;
    int64_t *const *strides;
    int64_t l1_bytes, l2_bytes; // of a core's caches; 0: not known
} dv_rows_how;

// *out is the arena's; NULL with DV_OK where ops are better run one by one.
dv_status dv_rows_create(dv_rows **out, const dv_rows_how *how, dv_jit *jit,
                         dv_arena *arena, dv_diag *diag);
// Run all ops of n tiles that follow each other. `data` has where element 0 of
// each tensor is. Any thread, no memory.
void dv_rows_run(const dv_rows *r, void *const *data, int64_t tile, int64_t n);
// May tiles be run as one? Not where a thread has but one tile of a temporary.
int dv_rows_across(const dv_rows *r);
#endif
