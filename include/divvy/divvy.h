// divvy: divides a tensor program over processes, cores, scratchpads, loops
// and registers; checks the division and runs it. This header has programs,
// targets, plans and running. Each of the others can be used alone:
//
//   divvy/dist.h    teams of processes, and arrays divided over them
//   divvy/einsum.h  einsum expressions
//   divvy/grid.h    tiles of a result on the physical cores of a grid
//   divvy/nest.h    one tensor operation as a loop nest; contractions
//   divvy/place.h   buffers with lifetimes, placed into one memory
//
// A complete program (built and run as tests/api/tour.c):
//
//   #include <divvy/divvy.h>
//   #include <stdio.h>
//
//   static const char text[] = "param M = 4\n"
//                              "param N = 8\n"
//                              "input x: f32[M, N]\n"
//                              "m[i]   = max[j] x[i,j]\n"
//                              "y[i,j] = exp(x[i,j] - m[i])\n"
//                              "output y\n";
//
//   static int fail(dv_diag *diag)
//   {
//       fputs(dv_diag_text(diag), stderr);
//       return dv_status_exit(dv_diag_status(diag));
//   }
//
//   int main(void)
//   {
//       float x[4][8], y[4][8];
//       for (int i = 0; i < 32; i++)
//           x[i / 8][i % 8] = (float)i;
//       dv_diag *diag = dv_diag_create();
//       dv_program *program = NULL;
//       dv_target *target = NULL;
//       dv_plan *plan = NULL;
//       dv_exec *ex = NULL;
//       if (dv_program_parse(&program, text, sizeof text - 1, "tour", NULL, 0,
//                            diag) ||
//           dv_target_load(&target, "host", diag) ||
//           dv_plan_create(&plan, program, target, NULL, diag) ||
//           dv_plan_check(plan, diag) || dv_exec_create(&ex, plan, diag) ||
//           dv_exec_bind(ex, "x", x, sizeof x, diag) ||
//           dv_exec_bind(ex, "y", y, sizeof y, diag) || dv_exec_run(ex, diag))
//           return fail(diag);
//       printf("y[0][7] = %g\n", y[0][7]); // exp(0) = 1
//       dv_exec_destroy(ex);
//       dv_plan_destroy(plan);
//       dv_target_destroy(target);
//       dv_program_destroy(program);
//       dv_diag_destroy(diag);
//       return 0;
//   }
//
// Calls that can fail return a dv_status and take a dv_diag last (NULL: do not
// tell). The result comes first, through `out`, and is left alone on failure.
// Inputs are borrowed for the call; what outlives it says so. destroy takes
// NULL. There is no global state: different objects may be used by different
// threads at once.
#ifndef DIVVY_DIVVY_H
#define DIVVY_DIVVY_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DV_API __attribute__((visibility("default")))
#else
#define DV_API
#endif

typedef enum dv_status {
#define DV_STATUS(NAME, name, exit_code, text) DV_##NAME,
#include "divvy/status.def"
#undef DV_STATUS
} dv_status;

typedef enum dv_dtype {
#define DV_DTYPE(NAME, name, bytes, mantissa_bits, npy) DV_##NAME,
#include "divvy/dtype.def"
#undef DV_DTYPE
} dv_dtype;

typedef struct dv_program dv_program; // what to compute
typedef struct dv_target dv_target;   // the machine it is divided for
typedef struct dv_plan dv_plan;       // the division
typedef struct dv_exec dv_exec;       // a plan ready to run
typedef struct dv_diag dv_diag;       // what went wrong, and where

// -- The library -------------------------------------------------------------

DV_API const char *dv_version(void); // "0.1.0"
// Free a string that the library handed out.
DV_API void dv_free(void *p);
DV_API const char *dv_status_name(dv_status s);
// What a command should exit with: 0 done, 1 wrong input, 2 wrong usage,
// 3 the machine refused, 4 a check failed.
DV_API int dv_status_exit(dv_status s);

// -- Diagnostics -------------------------------------------------------------

DV_API dv_diag *dv_diag_create(void); // NULL when out of memory
DV_API void dv_diag_destroy(dv_diag *d);
DV_API void dv_diag_clear(dv_diag *d); // as if it were new
// The first failure since then; DV_OK when there was none.
DV_API dv_status dv_diag_status(const dv_diag *d);
// Warnings and the error with file, line, column and caret, as text. Valid
// until the next call; "" when there is nothing to say.
DV_API const char *dv_diag_text(dv_diag *d);
// Where the error is, from 1; 0 when it is nowhere in the text.
DV_API int dv_diag_line(const dv_diag *d);
DV_API int dv_diag_column(const dv_diag *d);

// -- Programs ----------------------------------------------------------------

// A value for a `param` of the program. Integer params take integers only.
typedef struct dv_param {
    const char *name;
    const char *value; // as it would stand in the text: "4096", "0.5"
} dv_param;

// What `--grain` chooses: how far statements are cut up.
typedef enum dv_grain {
    DV_GRAIN_SOURCE,    // as written
    DV_GRAIN_FUSED,     // one op a statement, where one reducer allows it
    DV_GRAIN_PRIMITIVE, // one operator an op, and what follows a contraction
    DV_GRAIN_FUNCTION,  // one operator an op: each has a nest
} dv_grain;

typedef enum dv_role {
    DV_ROLE_INPUT,
    DV_ROLE_OUTPUT,
    DV_ROLE_TEMPORARY,
    DV_ROLE_INOUT, // an input that the program updates and gives back
} dv_role;

enum { DV_MAX_DIMS = 16 };

typedef struct dv_tensor_info {
    const char *name; // lives as long as the program
    dv_dtype dtype;
    dv_role role;
    int n_dims;
    int64_t shape[DV_MAX_DIMS];
    int64_t size_bytes; // dense, in row-major order
} dv_tensor_info;

// Parse and verify a program. `name` stands for the file in messages. The
// text is copied.
DV_API dv_status dv_program_parse(dv_program **out, const char *text,
                                  size_t len, const char *name,
                                  const dv_param *params, size_t n_params,
                                  dv_diag *diag);
DV_API dv_status dv_program_load(dv_program **out, const char *path,
                                 const dv_param *params, size_t n_params,
                                 dv_diag *diag);
DV_API void dv_program_destroy(dv_program *p);
// The program as text that parses to the same program. NULL: out of memory.
DV_API char *dv_program_text(const dv_program *p);
// Params, tensors and the ops of a grain, as `divvy check --json` prints them.
DV_API char *dv_program_json(const dv_program *p, dv_grain grain);
DV_API int dv_program_n_tensors(const dv_program *p);
// Tensor number i, in order of appearance.
DV_API dv_status dv_program_tensor(const dv_program *p, int i,
                                   dv_tensor_info *out);

// -- Targets -----------------------------------------------------------------

// A built-in name (host, spyre, …) or the path of a description.
DV_API dv_status dv_target_load(dv_target **out, const char *name_or_path,
                                dv_diag *diag);
DV_API dv_status dv_target_parse(dv_target **out, const char *text, size_t len,
                                 const char *name, dv_diag *diag);
DV_API void dv_target_destroy(dv_target *t);
// The description as text that parses to the same target.
DV_API char *dv_target_text(const dv_target *t);
// Name of built-in number i, NULL past the last.
DV_API const char *dv_target_builtin(int i);

// -- Plans -------------------------------------------------------------------

// Columns and rows of cores; both corners are inside.
typedef struct dv_core_rect {
    int32_t x0, y0, x1, y1;
} dv_core_rect;

typedef struct dv_plan_options {
    int64_t cores; // use at most so many; 0: all of the target's
    // Threads on this machine, also more than it has cores; 0: one a core.
    int64_t threads;
    const char *stop_after; // name of a pass; NULL: run them all
    const char *divide;     // best (NULL), seed or seed+cost
    // Numbers of slices the user insists on, as "op:variable=number".
    const char *const *pins;
    size_t n_pins;
    // Division and scratchpads planned together: auto (NULL), seed (as the
    // original does it) or off.
    const char *joint;
    // What stays in scratchpads: all (NULL), reductions or off; then parts of
    // it that can be switched, on (NULL) or off.
    const char *scratch;
    const char *in_place, *clone_inputs, *ring, *evict, *reorder, *recompute;
    const char *tenants;  // one (NULL), or many: no group finds what one left
    const char *solver;   // of dv_place; NULL: auto
    int64_t place_budget; // steps of that; 0: the usual
    double time_limit_s;  // for that; 0: none
    // Called after every pass with the plan as text so far; NULL: not called.
    void (*after_pass)(void *user, const char *pass, double ms,
                       const dv_plan *plan);
    void *user;
    // Divide over this many processes first; 0: none, the plan is for one.
    int64_t team;
    int64_t rank;     // whose messages the plan lists
    const char *grid; // of the team, as "2x3"; NULL: the best one
    // Who computes which tiles: static (NULL), ticket, steal, dynamic (steal);
    // on machines that compute on tiles also rect, streamk, streamk1, streamk2,
    // splitk(N), and the order of tiles: auto (NULL) or as divvy grid has.
    const char *policy, *order;
    // Of a machine with a grid of cores use only these (NULL: all), and not
    // the holes.
    const dv_core_rect *allowed;
    size_t n_allowed;
    const dv_core_rect *holes;
    size_t n_holes;
} dv_plan_options;
#define DV_PLAN_OPTIONS_INIT                                                   \
    {                                                                          \
        0, 0, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL,   \
            NULL, NULL, NULL, 0, 0, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL,  \
            0, NULL, 0                                                         \
    }

// Divide a program for a target. The plan borrows neither: it has its own
// copies. options may be NULL.
DV_API dv_status dv_plan_create(dv_plan **out, const dv_program *program,
                                const dv_target *target,
                                const dv_plan_options *options, dv_diag *diag);
// Read a plan that was printed (or written by hand), and go on with the passes
// from `start_at` (NULL: none; the plan is taken as it is).
DV_API dv_status dv_plan_parse(dv_plan **out, const char *text, size_t len,
                               const char *name, const char *start_at,
                               const dv_plan_options *options, dv_diag *diag);
// Prove the plan, from the plan alone. DV_E_CHECK names what is wrong.
DV_API dv_status dv_plan_check(const dv_plan *plan, dv_diag *diag);
DV_API char *dv_plan_text(const dv_plan *plan); // parses to the same plan
DV_API char *dv_plan_json(const dv_plan *plan);
DV_API void dv_plan_destroy(dv_plan *plan);

// -- Running -----------------------------------------------------------------

// Check the plan and get everything ready that a run needs; the run itself
// allocates nothing. The plan is borrowed until dv_exec_destroy.
DV_API dv_status dv_exec_create(dv_exec **out, const dv_plan *plan,
                                dv_diag *diag);
// Give an input or output its memory: dense, row-major, size_bytes as in
// dv_tensor_info. Borrowed until dv_exec_destroy or the next bind of the name.
// Inputs that are not also outputs are never written. When it runs, the memory
// of an output must not overlap that of another tensor.
DV_API dv_status dv_exec_bind(dv_exec *exec, const char *tensor, void *data,
                              size_t size_bytes, dv_diag *diag);
// Run once. Every input and output must be bound.
DV_API dv_status dv_exec_run(dv_exec *exec, dv_diag *diag);
DV_API void dv_exec_destroy(dv_exec *exec);

// Write a checked plan as programs into a folder, which is made if need be: as
// c, openmp, tt-metalium, json or csv.
DV_API dv_status dv_plan_emit(const dv_plan *plan, const char *as,
                              const char *dir, dv_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
