// divvy: divides a tensor program over processes, cores, scratchpads, loops
// and registers; checks the division and runs it. This is the whole API.
//
// A complete program (built and run as tests/unit/tour.c):
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
// The first failure since the diag was made; DV_OK when there was none.
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
    DV_GRAIN_PRIMITIVE, // one operator an op
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

typedef struct dv_plan_options {
    int64_t cores;          // use at most so many; 0: all of the target's
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
} dv_plan_options;
#define DV_PLAN_OPTIONS_INIT                                                   \
    {                                                                          \
        0, 0, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL,   \
            NULL, NULL, NULL, 0, 0, NULL, NULL                                 \
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
// Inputs that are not also outputs are never written.
DV_API dv_status dv_exec_bind(dv_exec *exec, const char *tensor, void *data,
                              size_t size_bytes, dv_diag *diag);
// Run once. Every input and output must be bound.
DV_API dv_status dv_exec_run(dv_exec *exec, dv_diag *diag);
DV_API void dv_exec_destroy(dv_exec *exec);

// -- Placing buffers ---------------------------------------------------------
//
// Addresses in one memory for buffers that are alive in ranges of ticks; two
// that are alive together never share a byte. What does not fit is left out,
// and the weight of what is kept is made as large as can be. Uses nothing
// else of divvy:
//
//   dv_buffer b[2] = {DV_BUFFER_INIT, DV_BUFFER_INIT};
//   b[0].size_bytes = b[1].size_bytes = 64;
//   b[0].end = 3;                       // alive in [0, 3)
//   b[1].start = 3, b[1].end = 5;
//   dv_place_options options = DV_PLACE_OPTIONS_INIT;
//   options.capacity_bytes = 100;
//   dv_placement *p = NULL;
//   if (dv_place(&p, b, 2, &options, NULL) == DV_OK)
//       use(p->addresses[0], p->addresses[1]);        // 0 and 0
//   dv_placement_destroy(p);

typedef struct dv_use {
    int64_t tick;
    int writes; // overwrites all of the buffer; 0: reads it
} dv_use;

typedef struct dv_buffer {
    const char *name; // for messages; may be NULL
    int64_t size_bytes;
    int64_t start, end;  // alive in [start, end)
    int64_t align_bytes; // of its address; 0: as the options say
    int64_t fixed;       // its address: a reserved range; -1: free
    // Bytes of main memory traffic saved when it is kept; -1: one transfer for
    // every use, less the first when that is a read; size_bytes without uses.
    int64_t weight;
    const dv_use *uses; // strictly increasing, inside [start, end); optional
    size_t n_uses;
    int first_use_is_read; // it comes from outside; else the first use writes
    // Buffers whose place it may take over, best first. They are read for the
    // last time in the tick that writes it: their end is its start + 1.
    const int32_t *parents;
    size_t n_parents;
    int32_t group;      // all buffers of a group are kept, or none; 0: no group
    const char *barred; // why it may not be placed; NULL: it may
} dv_buffer;
#define DV_BUFFER_INIT                                                         \
    {                                                                          \
        NULL, 0, 0, 0, 0, -1, -1, NULL, 0, 0, NULL, 0, 0, NULL                 \
    }

typedef struct dv_place_options {
    int64_t capacity_bytes;
    int64_t align_bytes; // of every address; 0: 1
    // auto (NULL), exact, anneal, bestfit, firstfit, greedy.
    const char *solver;
    int64_t budget;      // steps of search, the same everywhere; 0: the usual
    double time_limit_s; // stop earlier, whatever is left of it; 0: never
    uint64_t seed;
    // Buffers may leave between uses and come back, at the cost of the reads
    // and writes of main memory that this takes; the answer comes as stays.
    int evict;
    // Nothing may be left out: auto and exact first try hard to place all. If
    // that fails the answer is what could be kept.
    int must_fit;
} dv_place_options;
#define DV_PLACE_OPTIONS_INIT                                                  \
    {                                                                          \
        0, 0, NULL, 0, 0, 0, 0, 0                                              \
    }

// A buffer at an address for some time.
typedef struct dv_stay {
    int32_t buffer;
    int64_t start, end; // in [start, end)
    int64_t address;
} dv_stay;

typedef struct dv_placement {
    size_t n_buffers;
    const int64_t *addresses;   // of each buffer's first stay; -1: it has none
    const char *const *reasons; // why it has none; NULL: it has
    const dv_stay *stays;       // by buffer, then start
    size_t n_stays;
    const char *solver; // that found this
    int64_t value;      // weight kept; with evict less what leaving costs
    int64_t bound;      // no placement has a larger value
    double gap;         // (bound - value) / bound
    int64_t peak_bytes; // highest byte in use
    int64_t nodes;      // steps of search that were made
} dv_placement;

// Solver number i, NULL past the last.
DV_API const char *dv_place_solver(int i);
// Place buffers. Strings (names, barred) are borrowed until
// dv_placement_destroy.
DV_API dv_status dv_place(dv_placement **out, const dv_buffer *buffers,
                          size_t n_buffers, const dv_place_options *options,
                          dv_diag *diag);
// All buffers in as little memory as can be found: peak_bytes of the
// placement. No less than *proven_bytes will do. The capacity of the options
// is not used, and barred buffers are not placed.
DV_API dv_status dv_place_least(dv_placement **out, int64_t *proven_bytes,
                                const dv_buffer *buffers, size_t n_buffers,
                                const dv_place_options *options, dv_diag *diag);
// Prove a placement: no two buffers share a byte but parent and child in the
// one tick of a hand-over, every address is aligned and below the capacity,
// fixed buffers are where they must be, groups are whole, what is barred is
// out. DV_E_CHECK names what is wrong.
DV_API dv_status dv_placement_check(const dv_placement *placement,
                                    const dv_buffer *buffers,
                                    const dv_place_options *options,
                                    dv_diag *diag);
DV_API void dv_placement_destroy(dv_placement *placement);

// -- Einsum ------------------------------------------------------------------
//
// Sums over products of any number of tensors, as numpy's einsum writes them:
// diagonals (ii->i), sums (ij->j), outer products (i,j->ij), scalars, `...`
// with broadcasting, outputs left out (ij,jk). The order of the products is
// searched, the products become a program, and that is planned and run:
//
//   float a[8][4], b[4][6], c[8][6];
//   const int64_t sa[] = {8, 4}, sb[] = {4, 6}, sc[] = {8, 6};
//   const dv_array in[] = {{DV_F32, 2, sa, NULL, a}, {DV_F32, 2, sb, NULL, b}};
//   const dv_array out = {DV_F32, 2, sc, NULL, c};
//   if (dv_einsum("ik,kj->ij", in, 2, &out, NULL, diag))
//       return fail(diag);
//
// An expression that begins with a bracket is a tree, which says itself what is
// multiplied when: "[[0,1],[1,2]->[0,2]],[2,3]->[0,3]". A list of numbers is an
// operand, `[child]->[list]` a permutation or a sum, `[left],[right]->[list]` a
// product; operands are numbered as they appear.

typedef struct dv_array {
    dv_dtype dtype;
    int n_dims;
    const int64_t *shape;
    // From one element of a dim to the next, in elements; may be negative, and
    // 0 for inputs. NULL: dense and row-major.
    const int64_t *strides;
    void *data; // inputs are never written
} dv_array;

typedef struct dv_einsum_exec dv_einsum_exec;   // an einsum ready to run
typedef struct dv_einsum_cache dv_einsum_cache; // plans made before

typedef struct dv_einsum_options {
    const dv_target *target;     // NULL: host
    const dv_plan_options *plan; // NULL: the usual
    // Order of the products: exact up to 10 operands and greedy beyond (NULL),
    // or exact or greedy. Not for trees.
    const char *path;
    int64_t max_elems; // of a result between products; 0: no limit
    int dtype;         // of the result, a dv_dtype; -1: what operands give
    // Plans by expression, dtypes, shapes and these options; NULL: none. Only
    // one thread at a time may use a cache; execs made with it are free.
    dv_einsum_cache *cache;
} dv_einsum_options;
#define DV_EINSUM_OPTIONS_INIT                                                 \
    {                                                                          \
        NULL, NULL, NULL, 0, -1, NULL                                          \
    }

// One call. The result has out's dtype; its shape must be out's. Operands and
// output must not overlap.
DV_API dv_status dv_einsum(const char *expression, const dv_array *in,
                           size_t n_in, const dv_array *out,
                           const dv_einsum_options *options, dv_diag *diag);

// The same in parts. Parse, search, plan and get ready for operands like these;
// their strides and data are not looked at.
DV_API dv_status dv_einsum_create(dv_einsum_exec **out, const char *expression,
                                  const dv_array *in, size_t n_in,
                                  const dv_einsum_options *options,
                                  dv_diag *diag);
// What comes out: dtype and shape, which lives as long as the exec.
DV_API dv_array dv_einsum_output(const dv_einsum_exec *e);
// Give operand i its memory; i == n_in is the output. Borrowed until destroy
// or the next bind. Strides (NULL: dense) are copied.
DV_API dv_status dv_einsum_bind(dv_einsum_exec *e, size_t i, void *data,
                                const int64_t *strides, dv_diag *diag);
// Run once. Everything must be bound. Allocates nothing.
DV_API dv_status dv_einsum_run(dv_einsum_exec *e, dv_diag *diag);
DV_API void dv_einsum_destroy(dv_einsum_exec *e);

// The program and its plan; NULL where an extent is 0 and nothing is computed.
// They live as long as the exec.
DV_API const dv_program *dv_einsum_program(const dv_einsum_exec *e);
DV_API const dv_plan *dv_einsum_plan(const dv_einsum_exec *e);
// The steps with their flops and sizes, as a table and as JSON.
DV_API char *dv_einsum_text(const dv_einsum_exec *e);
DV_API char *dv_einsum_json(const dv_einsum_exec *e);

// A cache that keeps the plans used last, at most so many (0: 64).
DV_API dv_status dv_einsum_cache_create(dv_einsum_cache **out, size_t max_plans,
                                        dv_diag *diag);
// Execs made with it go on.
DV_API void dv_einsum_cache_destroy(dv_einsum_cache *cache);

// -- Tiles on physical cores
// ---------------------------------------------------
//
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

// Columns and rows of cores; both corners are inside.
typedef struct dv_core_rect {
    int32_t x0, y0, x1, y1;
} dv_core_rect;

// A tensor that is kept in core memory, cut into shards.
typedef struct dv_shard_spec {
    const char *tensor; // for messages; may be NULL
    int64_t grid[2];    // shards down and across
    int64_t tiles[2];   // rows and columns of tiles in one
} dv_shard_spec;

typedef struct dv_grid_task {
    const int64_t *shape; // of the result, in elements
    int n_dims;           // the last two are cut into tiles, others are batches
    int64_t depth;        // of the reduced dim; 0: nothing is reduced
    int64_t tile_rows, tile_cols; // 0: the target's, or 32
    int64_t elem_bytes;           // 0: 2
    const dv_target *target; // NULL: core_cols and core_rows are all there is
    int64_t core_cols, core_rows; // 0: the target's
    const dv_core_rect *allowed;  // NULL: all
    size_t n_allowed;
    const dv_core_rect *holes; // cores that are not there
    size_t n_holes;
    const dv_shard_spec *shards; // NULL: everything is in main memory
    size_t n_shards;
    const char *split; // which cores come first: column (NULL) or row
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
        NULL, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 0, NULL, 0, NULL, 0, NULL,      \
            NULL, NULL,                                                        \
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

// Look for defects in a plan of tiles on cores: the JSON of dv_grid_json, that
// of the original stage, a table of arguments (CSV), or a plan of dv_plan_text.
// `tiles` are rows and columns of tiles for files that do not say; may be NULL.
// *n_defects counts the defects, *report has a line each (dv_free it).
DV_API dv_status dv_lint(const char *text, size_t len, const char *name,
                         const int64_t *tiles, int64_t *n_defects,
                         char **report, dv_diag *diag);

// -- Text --------------------------------------------------------------------

// Write a checked plan as programs into a folder, which is made if need be: as
// c, openmp, tt-metalium, json or csv.
DV_API dv_status dv_plan_emit(const dv_plan *plan, const char *as,
                              const char *dir, dv_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
