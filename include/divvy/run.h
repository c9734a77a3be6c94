// Runs inside other programs: operands by number or by name with strides,
// independent runs of one exec on several threads at once, runs in the
// background, and the caller's own thread pool.
//
// An exec has the kernels and the constants of a plan, a run has the memory
// that one execution needs. dv_run_create allocates it, once; runs of the same
// exec share the kernels, and each may be used by another thread.
//
//   dv_exec_create_with(&exec, plan, NULL, diag);
//   …                                          // in each thread:
//   dv_run *run = NULL;
//   int64_t shape[] = {128, 64}, strides[] = {1, 128}; // column-major
//   dv_operand x = DV_OPERAND_INIT;
//   x.name = "x"; x.dtype = DV_F32; x.n_dims = 2;
//   x.shape = shape; x.strides = strides; x.data = data;
//   dv_run_create(&run, exec, NULL, diag);
//   dv_run_bind(run, &x, diag);
//   …
//   dv_run_start(run, diag);                   // returns at once
//   …
//   dv_run_wait(run, diag);
//
// examples/runs.c is a complete program.
#ifndef DIVVY_RUN_H
#define DIVVY_RUN_H
#include "divvy/divvy.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dv_run dv_run; // the memory and the operands of one execution

// -- Execs for operands that are not row-major ------------------------------

// Strides of an operand, in elements; one per dim.
typedef struct dv_strides {
    const char *tensor;
    const int64_t *strides;
} dv_strides;

typedef struct dv_exec_options {
    size_t size;
    // The strides with which runs will bind some operands. Kernels use these
    // strides if the results keep the same bits; otherwise runs copy the
    // operand (dv_run_copies). All other operands are row-major in the kernels.
    const dv_strides *strides;
    size_t n_strides;
} dv_exec_options;
#define DV_EXEC_OPTIONS_INIT                                                   \
    {                                                                          \
        sizeof(dv_exec_options), NULL, 0                                       \
    }

// Like dv_exec_create, with options, which may be NULL.
DV_API dv_status dv_exec_create_with(dv_exec **out, const dv_plan *plan,
                                     const dv_exec_options *options,
                                     dv_diag *diag);
// Describes operand number i of an exec. Operands are the inputs, constants and
// outputs, in the order in which the program names them. Fails with DV_E_USAGE
// past the last.
DV_API dv_status dv_exec_operand(const dv_exec *exec, int i,
                                 dv_tensor_info *out);
// Fills the memory of operand number i, dense and row-major, with the random
// elements that `divvy run --seed` generates for it.
DV_API dv_status dv_exec_fill(const dv_exec *exec, int i, uint64_t seed,
                              void *data);

// -- Operands -----------------------------------------------------------------

// An array in the caller's memory. Its type and shape must be those of the
// tensor: nothing is converted. Strides may be negative or, for inputs, 0.
typedef struct dv_operand {
    size_t size;
    const char *name; // NULL: operand number `number` (dv_exec_operand)
    int number;
    dv_dtype dtype;
    int n_dims;
    const int64_t *shape;
    const int64_t *strides; // in elements; NULL: row-major
    void *data;
    int64_t offset_bytes; // from `data` to the element whose indices are 0
} dv_operand;
#define DV_OPERAND_INIT                                                        \
    {                                                                          \
        sizeof(dv_operand), NULL, 0, DV_F32, 0, NULL, NULL, NULL, 0            \
    }

// -- Runs ---------------------------------------------------------------------

// A parallel loop of the caller's thread pool: it calls body(arg, i) once for
// every i of 0..n, and returns when all calls have returned. The calls may be
// made in any order, on any threads, concurrently or one after the other; no
// call waits for another. A run calls it several times, from the thread that
// called dv_run_now.
typedef void (*dv_parallel_for)(void *user, int n,
                                void (*body)(void *arg, int i), void *arg);

typedef struct dv_run_options {
    size_t size;
    // Runs the work of the threads of the plan; NULL: OpenMP's threads do.
    dv_parallel_for parallel_for;
    void *user;
} dv_run_options;
#define DV_RUN_OPTIONS_INIT                                                    \
    {                                                                          \
        sizeof(dv_run_options), NULL, NULL                                     \
    }

// Allocates what a run needs. The exec's constants must have been bound
// (dv_exec_bind). While an exec has runs, its constants and its executor must
// not change; the runs are destroyed before it. options may be NULL.
DV_API dv_status dv_run_create(dv_run **out, dv_exec *exec,
                               const dv_run_options *options, dv_diag *diag);
DV_API void dv_run_destroy(dv_run *run);
// Sets the memory of an input or output, which is borrowed as by dv_exec_bind.
DV_API dv_status dv_run_bind(dv_run *run, const dv_operand *operand,
                             dv_diag *diag);
// Returns 1 if runs copy operand number i to their own memory, because no
// kernel supports the strides with which it is bound, or because the program
// updates an input that is not an output; 0 if kernels use the caller's memory.
DV_API int dv_run_copies(const dv_run *run, int i);
// Runs the plan once, on the calling thread and the run's other threads.
DV_API dv_status dv_run_now(dv_run *run, dv_diag *diag);
// dv_run_start starts a run on a thread of its own; dv_run_wait waits for it
// and returns what dv_run_now would have returned. Between the two calls
// nothing else may be done with the run, nor with the memory of its operands.
DV_API dv_status dv_run_start(dv_run *run, dv_diag *diag);
DV_API dv_status dv_run_wait(dv_run *run, dv_diag *diag);
// Like dv_exec_watch, for a dv_run: the thread that runs calls `watch`.
DV_API void dv_run_watch(dv_run *run, int (*watch)(void *user, double done),
                         void *user);

#ifdef __cplusplus
}
#endif
#endif
