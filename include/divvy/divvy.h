// divvy: divides a tensor program over processes, cores, scratchpads, loops
// and registers; checks the division and runs it. This header has programs,
// targets, plans and running. Each of the others can be used alone:
//
//   divvy/build.h   programs built by calls instead of text
//   divvy/choose.h  one strategy per node, with costs of pairs and memory
//   divvy/divide.h  single ops divided over cores, for compilers
//   divvy/dist.h    teams of processes, and arrays divided over them
//   divvy/einsum.h  einsum expressions
//   divvy/fuse.h    ops fused into tiled groups for a scratchpad
//   divvy/grid.h    tiles of a result on the physical cores of a grid
//   divvy/nest.h    one tensor operation as a loop nest; contractions
//   divvy/onnx.h    ONNX models as programs; report.h: plans as web pages
//   divvy/place.h   buffers with lifetimes, placed into one memory
//   divvy/run.h     operands with strides, several runs at once, thread pools
//   divvy/session.h programs whose params follow from the shapes of arrays
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
// Calls that can fail return a dv_status and nearly all take a dv_diag last
// (NULL: no messages). Functions that make an object (create, parse, load, …)
// return it through `out`, their first parameter; other functions return
// results through the pointers that their comments name. Results are unchanged
// on failure. A pointer must not be NULL unless the comment says what NULL
// means; a dv_diag and an options struct may always be NULL. Inputs are
// borrowed for the call unless the comment says otherwise. destroy functions
// accept NULL. Functions that return a text as `char *` return NULL when out of
// memory. Different objects may be used by different threads at once. Global
// state are a cache of generated kernels, which all execs share (it is replaced
// when its code exceeds 64 MiB, and dv_kernels_drop empties it), and the files
// and packed elements of constants, which execs that use them share. The
// library reads the environment variables DIVVY_CPU (the instruction set),
// DIVVY_PERF_MAP and DIVVY_JIT_ONE_VIEW (docs/cli.md).
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
#define DV_DTYPE(NAME, name, bytes, kind, mantissa_bits, npy) DV_##NAME,
#include "divvy/dtype.def"
#undef DV_DTYPE
} dv_dtype;

typedef struct dv_program dv_program; // what to compute
typedef struct dv_target dv_target;   // the machine that it is computed on
typedef struct dv_plan dv_plan;       // how the program is divided
typedef struct dv_exec dv_exec;       // a plan ready to run
typedef struct dv_diag dv_diag;       // what went wrong, and where

// -- The library and diagnostics ---------------------------------------------

DV_API const char *dv_version(void); // "0.1.0"
// Frees a string that a function of the library returned.
DV_API void dv_free(void *p);
DV_API const char *dv_status_name(dv_status s);
// Returns the exit code for a command: 0 success, 1 wrong input, 2 wrong usage,
// 3 a system error such as out of memory, 4 a failed check.
DV_API int dv_status_exit(dv_status s);

DV_API dv_diag *dv_diag_create(void); // NULL when out of memory
DV_API void dv_diag_destroy(dv_diag *d);
DV_API void dv_diag_clear(dv_diag *d); // removes all messages
// Returns the status of the first failure since the diag was created or
// cleared; DV_OK if there was none.
DV_API dv_status dv_diag_status(const dv_diag *d);
// Returns the warnings and the error with file, line, column and caret, as
// text, which is valid until the next call; "" if there is no message.
DV_API const char *dv_diag_text(dv_diag *d);
// dv_diag_message returns the error's message alone, "" if there is no error;
// dv_diag_file the file of its position, NULL if it has none. Both are valid
// until the diag changes.
DV_API const char *dv_diag_message(const dv_diag *d);
DV_API const char *dv_diag_file(const dv_diag *d);
// Return the line and the column of the error, counted from 1, or 0 if the
// error has no position in a text.
DV_API int dv_diag_line(const dv_diag *d);
DV_API int dv_diag_column(const dv_diag *d);

// -- Programs: what to compute -----------------------------------------------

// A value for a `param` of the program. Integer params take integers only.
typedef struct dv_param {
    const char *name;
    const char *value; // in the notation of programs: "4096", "0.5"
} dv_param;

// How far statements are split into ops; chosen with `--grain`.
typedef enum dv_grain {
    DV_GRAIN_SOURCE, // statements as written
    DV_GRAIN_FUSED,  // one op per statement; one per reducer if it has more
    // One operator per op; only a contraction (a sum of products, which may
    // have many factors) also keeps the expression that is applied to its
    // result.
    DV_GRAIN_PRIMITIVE,
    // Like DV_GRAIN_PRIMITIVE, but contractions have two factors and an
    // epilogue of at most one function, so that most ops are loop nests
    // (divvy/nest.h).
    DV_GRAIN_FUNCTION,
} dv_grain;

typedef enum dv_role {
    DV_ROLE_INPUT,
    DV_ROLE_OUTPUT,
    DV_ROLE_TEMPORARY,
    DV_ROLE_INOUT,    // an input that the program updates; also an output
    DV_ROLE_CONSTANT, // an input whose elements are the same in all runs
} dv_role;

enum { DV_MAX_DIMS = 16 };

typedef struct dv_tensor_info {
    const char *name; // lives as long as the program
    dv_dtype dtype;
    dv_role role;
    int n_dims;
    int64_t shape[DV_MAX_DIMS];
    int64_t size_bytes; // dense, in row-major order
    // The file with the elements of a constant, as the program names it; an
    // exec (dv_exec_create) reads it. NULL: the caller binds the tensor
    // (dv_exec_bind).
    const char *file;
} dv_tensor_info;

// Parses and verifies a program. `name` is the file name in messages. The text
// is copied.
DV_API dv_status dv_program_parse(dv_program **out, const char *text,
                                  size_t len, const char *name,
                                  const dv_param *params, size_t n_params,
                                  dv_diag *diag);
DV_API dv_status dv_program_load(dv_program **out, const char *path,
                                 const dv_param *params, size_t n_params,
                                 dv_diag *diag);
DV_API void dv_program_destroy(dv_program *p);
// Returns the program as text that parses to the same program; NULL: no memory.
DV_API char *dv_program_text(const dv_program *p);
// Returns JSON with the params, the tensors, and the ops into which this grain
// splits the statements, like `divvy check --json`; NULL: no such grain, or out
// of memory.
DV_API char *dv_program_json(const dv_program *p, dv_grain grain);
DV_API int dv_program_n_tensors(const dv_program *p);
// Describes tensor number i; tensors are numbered in order of appearance.
DV_API dv_status dv_program_tensor(const dv_program *p, int i,
                                   dv_tensor_info *out);

// -- Targets: the machines that programs are divided for ---------------------

// Loads a target by its built-in name (host, spyre, …) or from a file.
DV_API dv_status dv_target_load(dv_target **out, const char *name_or_path,
                                dv_diag *diag);
DV_API dv_status dv_target_parse(dv_target **out, const char *text, size_t len,
                                 const char *name, dv_diag *diag);
DV_API void dv_target_destroy(dv_target *t);
// Returns the target's description as text that parses to the same target.
DV_API char *dv_target_text(const dv_target *t);
// Returns the name of built-in target number i; NULL past the last.
DV_API const char *dv_target_builtin(int i);

// -- Plans: how a program is divided -----------------------------------------

#include "divvy/plan_options.h"

// Divides a program for a target (makes a plan). The plan has copies of its own
// of both. options may be NULL.
DV_API dv_status dv_plan_create(dv_plan **out, const dv_program *program,
                                const dv_target *target,
                                const dv_plan_options *options, dv_diag *diag);
// Parses the text of a plan, then runs the planning passes from the one named
// `start_at` on; NULL: no pass runs, and the plan stays as it is.
DV_API dv_status dv_plan_parse(dv_plan **out, const char *text, size_t len,
                               const char *name, const char *start_at,
                               const dv_plan_options *options, dv_diag *diag);
// Proves from the plan alone that it is correct. Fails with DV_E_CHECK if not.
DV_API dv_status dv_plan_check(const dv_plan *plan, dv_diag *diag);
DV_API char *dv_plan_text(const dv_plan *plan); // parses to the same plan
DV_API char *dv_plan_json(const dv_plan *plan);
DV_API int32_t dv_plan_n_groups(const dv_plan *plan); // number of op groups
DV_API void dv_plan_destroy(dv_plan *plan);

// -- Running plans -----------------------------------------------------------

// Checks the plan and prepares its run: dv_exec_run then allocates nothing,
// except in the first run after constants were bound. The plan is borrowed
// until dv_exec_destroy.
DV_API dv_status dv_exec_create(dv_exec **out, const dv_plan *plan,
                                dv_diag *diag);
// Sets the memory of an input, constant or output: dense, row-major, of
// size_bytes as in dv_tensor_info. It is borrowed until dv_exec_destroy or the
// next bind of the same tensor. Inputs that are not also outputs are never
// written. During a run the memory of an output must not overlap that of
// another tensor. The elements of a constant must not change while bound: the
// next run packs them for matrix kernels, and execs of the same plan share the
// packed copy. A constant whose file the program names is mapped by
// dv_exec_create and is not bound.
DV_API dv_status dv_exec_bind(dv_exec *exec, const char *tensor, void *data,
                              size_t size_bytes, dv_diag *diag);
// Runs the plan once. Every input and output must be bound.
DV_API dv_status dv_exec_run(dv_exec *exec, dv_diag *diag);
DV_API void dv_exec_destroy(dv_exec *exec);
// Makes later runs call `watch` from time to time, at least before every tile
// of the first thread, with the completed share of the work, 0 to 1; NULL ends
// this. The thread that called dv_exec_run calls it. If it returns a value
// other than 0, the run ends soon with DV_E_CANCELLED, and the outputs are
// undefined; the next run starts anew.
DV_API void dv_exec_watch(dv_exec *exec, int (*watch)(void *user, double done),
                          void *user);

// What runs a plan. The default depends on the target: threads if the target is
// this machine, otherwise the simulator, which moves real bytes through the
// memories of the described machine. The sequential executor is a slow
// reference.
typedef enum dv_executor { DV_RUN_SEQ, DV_RUN_THREADS, DV_RUN_SIM } dv_executor;
// Selects the executor; must be called before the first run.
DV_API dv_status dv_exec_use(dv_exec *exec, dv_executor executor,
                             dv_diag *diag);
DV_API dv_executor dv_exec_executor(const dv_exec *exec);
// Makes later runs on threads measure each group of ops (ops that share one
// tile space): they add its seconds to an array of dv_plan_n_groups numbers.
// NULL ends this.
DV_API void dv_exec_time_groups(dv_exec *exec, double *seconds);

// Drops the cached kernels (machine code) that this process has generated.
// Execs keep the kernels that they use until they are destroyed.
DV_API void dv_kernels_drop(void);

// The formats in which dv_plan_emit writes a plan.
typedef enum dv_emit_format {
    DV_EMIT_C,
    DV_EMIT_OPENMP,
    DV_EMIT_TT_METALIUM,
    DV_EMIT_JSON,
    DV_EMIT_CSV,
    // An object file with kernels, for programs without this library; compiled
    // by the command in the environment variable CC, or by cc.
    DV_EMIT_OBJECT,
    // JSON for the back end of Torch-Spyre; only for targets that store tensors
    // in sticks (128-byte units).
    DV_EMIT_SUPERDSC,
} dv_emit_format;
// Checks a plan and writes it as source files or tables into a folder, which is
// made if it does not exist. Plans of teams are written as C or OpenMP only, a
// file for each rank; with RT_MPI defined, the ranks are processes of MPI,
// without it threads of one process.
DV_API dv_status dv_plan_emit(const dv_plan *plan, dv_emit_format format,
                              const char *dir, dv_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
