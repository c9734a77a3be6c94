// divvy: divides a tensor program over processes, cores, scratchpads, loops
// and registers; checks the division and runs it. This is the whole API.
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

// -- Dividing over processes -------------------------------------------------
//
// The arithmetic of who owns what, without processes: every rank of a team can
// work out its own part and everybody else's. Each function speaks of one
// system of coordinates, named in the parameter: global_ is an index of the
// whole tensor, slice_ one among the elements of a slice, target_ one among
// the elements of the slice that a rank has to compute.
//
//   dv_dist u = {.n_dims = 2, .shape = {512, 512}, .axis = {0, 1},
//                .n_axes = 2, .grid = {2, 3}};
//   int64_t one[2] = {1, 1};
//   dv_exchange *e = NULL;
//   if (dv_dist_halo(&e, &u, 4, one, one, 0, NULL) == DV_OK)
//       use(dv_dist_own(&u, 4), e->receives, e->n_receives);
//   dv_exchange_destroy(e);

typedef struct dv_range {
    int64_t off, size; // [off, off + size)
} dv_range;

// Elements off + k * stride for k in 0..size; stride is 1 or more.
typedef struct dv_slice {
    int64_t off, size, stride;
} dv_slice;

typedef struct dv_box {
    int n_dims;
    dv_range dim[DV_MAX_DIMS];
} dv_box;

// What of a slice lies in a range.
typedef struct dv_overlap {
    int64_t slice_off;    // elements of the slice before it
    int64_t size;         // elements in it
    int64_t global_first; // first element of the slice at or behind its start
} dv_overlap;

// 0..n cut into as many parts as there are ranks; where they cannot be equal
// the last ones have one element more.
DV_API dv_range dv_dist_part(int64_t n, int64_t n_ranks, int64_t rank);
// The rank whose part an index of 0..n is in.
DV_API int64_t dv_dist_owner(int64_t n, int64_t n_ranks, int64_t global_off);
DV_API dv_overlap dv_dist_overlap(dv_range global_part, dv_slice slice);
// The elements of a slice that the owner of a part computes, as slice_off.
DV_API dv_range dv_dist_target(dv_range global_own, dv_slice slice);
// What of the tensor these elements of the slice touch, gaps included.
DV_API dv_range dv_dist_bounds(dv_slice slice, dv_range slice_target);
// The least range with both in it (an empty one counts for nothing), and the
// range in both.
DV_API dv_range dv_dist_hull(dv_range global_a, dv_range global_b);
DV_API dv_range dv_dist_inner(dv_range global_a, dv_range global_b);
// The part of `target_core` whose elements of the slice are all owned: what can
// be computed before anything arrives. Chain it over the operands, starting
// with {0, slice_target.size}.
DV_API dv_range dv_dist_core(dv_range global_own, dv_slice slice,
                             dv_range slice_target, dv_range target_core);

// The first `left` rows of a box come from ranks before, the last `right` from
// ranks behind; `own` of them, from `own_off` of the owned part on, are there.
typedef struct dv_sides {
    int64_t left, own_off, own, right;
} dv_sides;
DV_API dv_sides dv_dist_sides(dv_range global_own, dv_range global_box);

// A box less another that lies in it, as boxes that do not meet; at most two a
// dim. Returns their number.
DV_API int dv_dist_edges(dv_box out[2 * DV_MAX_DIMS], const dv_box *target,
                         const dv_box *core);

enum { DV_MAX_AXES = 4 };

// A tensor over a grid of ranks; the last axis runs fastest. Along axes that
// cut none of its dims, ranks have copies.
typedef struct dv_dist {
    int n_dims;
    int64_t shape[DV_MAX_DIMS];
    int axis[DV_MAX_DIMS]; // that cuts the dim; -1: none
    // Where the parts begin, grid[axis] numbers, and one more where the last
    // ends; NULL: equal parts.
    const int64_t *starts[DV_MAX_DIMS];
    int n_axes;
    int64_t grid[DV_MAX_AXES];
    // The dim is a slice of a longer one of `whole` elements, and its elements
    // belong to whom those belong: starts are the longer one's. Stride 0: not.
    dv_slice slice[DV_MAX_DIMS];
    int64_t whole[DV_MAX_DIMS];
} dv_dist;

DV_API dv_status dv_dist_check(const dv_dist *d, dv_diag *diag);
DV_API int64_t dv_dist_n_ranks(const dv_dist *d);
DV_API dv_box dv_dist_own(const dv_dist *d, int64_t rank);

// A box that goes to a rank or comes from one.
typedef struct dv_piece {
    int64_t rank;
    dv_box box; // global
} dv_piece;

// What one rank sends and receives, by rank and then place.
typedef struct dv_exchange {
    const dv_piece *sends, *receives;
    size_t n_sends, n_receives;
    int64_t sent_elems, received_elems;
    int64_t n_sent_to, n_received_from; // ranks
} dv_exchange;

// What each rank lacks of its own box made wider by `before` and `after`
// elements per dim (inside the tensor; as wide as one likes), with corners or
// along one dim at a time.
DV_API dv_status dv_dist_halo(dv_exchange **out, const dv_dist *d, int64_t rank,
                              const int64_t *before, const int64_t *after,
                              int corners, dv_diag *diag);
// From one distribution of a shape to another on as many ranks, whose grids may
// differ: exactly the elements whose owner changes.
DV_API dv_status dv_dist_move(dv_exchange **out, const dv_dist *from,
                              const dv_dist *to, int64_t rank, dv_diag *diag);
DV_API void dv_exchange_destroy(dv_exchange *e);

// -- Running on a team of processes ------------------------------------------
//
// Over MPI, where divvy was built with one (DV_E_SYSTEM: it was not). Every
// process makes the same plan for the team, fills what it owns of the inputs,
// and runs; all calls are made by all ranks together, and all return the same.
//
//   MPI_Init(&argc, &argv);
//   dv_plan_options options = DV_PLAN_OPTIONS_INIT;
//   options.team = size;               // of MPI_COMM_WORLD
//   options.rank = rank;
//   …                                  // dv_plan_create as for one process
//   MPI_Comm world = MPI_COMM_WORLD;
//   dv_member *m = NULL;
//   if (dv_member_create(&m, plan, &world, NULL, diag) ||
//       dv_member_data(m, "u", &data, &local, &own, diag))
//       return fail(diag);
//   …                                  // fill the elements of `own` in data
//   if (dv_member_run(m, diag))
//       return fail(diag);
//   dv_member_destroy(m);

typedef struct dv_member dv_member; // this process's part of a plan

typedef struct dv_member_options {
    // Fail with words instead of waiting longer for another rank; 0: wait.
    double timeout_s;
    // Compare what ranks are about to do before they do it together. This and
    // max_message_bytes are the same on all ranks, which is checked.
    int checked;
    int64_t max_message_bytes; // longer ones are cut; 0: 2^30
    // 0: this process's share of its machine's cores. More than one needs MPI
    // initialized with MPI_THREAD_FUNNELED; only the caller's thread calls MPI.
    int32_t threads;
    int no_overlap; // compute when all messages are there, not while they come
} dv_member_options;
#define DV_MEMBER_OPTIONS_INIT                                                 \
    {                                                                          \
        0, 0, 0, 0, 0                                                          \
    }

// Get this process ready. `mpi_comm` points to an MPI_Comm (NULL: all
// processes), which is copied; MPI is initialized already. The plan is borrowed
// until dv_member_destroy, which comes before MPI_Finalize. After DV_E_SYSTEM
// ranks no longer hear each other: MPI_Abort is what is left.
DV_API dv_status dv_member_create(dv_member **out, const dv_plan *plan,
                                  const void *mpi_comm,
                                  const dv_member_options *options,
                                  dv_diag *diag);
DV_API void dv_member_destroy(dv_member *member);
DV_API int64_t dv_member_rank(const dv_member *member);
// A tensor as this rank has it: elements of `local` in rows, of which `own` are
// its own; NULL: it owns none. Lives as long as the member.
DV_API dv_status dv_member_data(const dv_member *member, const char *tensor,
                                void **data, dv_box *local, dv_box *own,
                                dv_diag *diag);
// Run once, on own elements. Allocates nothing.
DV_API dv_status dv_member_run(dv_member *member, dv_diag *diag);
// All of a tensor on rank 0; `whole` counts there alone. All ranks name the
// same one, which is checked.
DV_API dv_status dv_member_gather(dv_member *member, const char *tensor,
                                  void *whole, dv_diag *diag);

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
// output must not overlap (dv_einsum refuses it where they surely do).
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

// -- Nests -------------------------------------------------------------------
//
// One tensor operation, out += in0 * in1, a function of up to three inputs or a
// reduction of in0, as loops around a kernel (docs/cli.md has the language).
// Contractions of two tensors with any strides are such nests, and run alone:
//
//   static const char text[] = "nest c f32 {\n"
//                              "    first zero\n"
//                              "    main gemm\n"
//                              "    m 64 seq: in0 1, out 1\n"
//                              "    n 48 seq: in1 32, out 64\n"
//                              "    k 32 seq: in0 64, in1 1\n"
//                              "}\n";
//   dv_nest *n = NULL;
//   dv_contract *c = NULL;
//   if (dv_nest_parse(&n, text, sizeof text - 1, "c", diag) ||
//       dv_contract_create(&c, NULL, n, NULL, diag))
//       return fail(diag);
//   dv_contract_run(c, a, b, out);
//   dv_contract_destroy(c);
//   dv_nest_destroy(n);

typedef struct dv_nest dv_nest;

typedef struct dv_nest_options {
    int64_t threads;                      // to share loops among; 0 means 1
    int64_t l1_bytes, l2_bytes, l3_bytes; // of a core; 0: a common size
    // Called behind each pass; NULL: not called.
    void (*after)(void *user, const char *pass, const dv_nest *n);
    void *user;
    // Of the kernels: bytes of a vector, rows of a register tile and vectors of
    // its rows; 0: those of NEON, 16, 4 and 5 (of 4 bytes: to 6).
    int32_t vector_bytes, tile_rows, tile_vectors;
} dv_nest_options;
#define DV_NEST_OPTIONS_INIT                                                   \
    {                                                                          \
        0, 0, 0, 0, NULL, NULL, 0, 0, 0                                        \
    }

// Read a text that is one nest. The text is copied. Nothing is checked but the
// form.
DV_API dv_status dv_nest_parse(dv_nest **out, const char *text, size_t len,
                               const char *name, dv_diag *diag);
// Which tensor an operand is, as dv_program_tensor counts (-1: none, or one
// that is not in the program as written), and where in it the nest begins.
typedef struct dv_nest_place {
    int tensor;
    int64_t offset_elems;
} dv_nest_place;
// The nest of an op, by the name of the tensor it writes: of a program whose
// statements are one op each (DV_GRAIN_FUSED) or one for each function
// (DV_GRAIN_FUNCTION). Factors may change places: `places` (NULL: not asked)
// are in0, in1, out and in2. DV_E_NEST says why an op has none.
enum { DV_NEST_PLACES = 4 };
DV_API dv_status dv_nest_derive(dv_nest **out,
                                dv_nest_place places[DV_NEST_PLACES],
                                const dv_program *p, dv_grain grain,
                                const char *op, dv_diag *diag);
DV_API void dv_nest_destroy(dv_nest *n);
DV_API char *dv_nest_text(const dv_nest *n); // parses to the same nest
// Does it mean something: sizes, strides and primitives agree, and no element
// is written by two points? DV_E_NEST names the rule that is broken.
DV_API dv_status dv_nest_check(const dv_nest *n, dv_diag *diag);
// Beyond that, has it the form of mini_jit's kernels: shared, then seq,
// then prim; one m, one n and the k of its primitive inside, unit strides? What
// the seed passes lead to; contractions take more than this.
DV_API dv_status dv_nest_verify(const dv_nest *n, dv_diag *diag);
// Lay the nest out in place: "best" (NULL), "seed" or "seed+brgemm", or passes
// by name, "join,kernel". What it computes stays the same.
DV_API dv_status dv_nest_optimise(dv_nest *n, const char *passes,
                                  const dv_nest_options *options,
                                  dv_diag *diag);

// -- Contractions ------------------------------------------------------------

typedef struct dv_jit dv_jit;           // generated code, that many can share
typedef struct dv_contract dv_contract; // a nest ready to run

// Memory for generated code. DV_E_SYSTEM where there is none for the machine.
DV_API dv_status dv_jit_create(dv_jit **out, dv_diag *diag);
DV_API void dv_jit_destroy(dv_jit *jit);

// What of a nest's layout is kept.
typedef enum dv_as_is {
    DV_LAID_OUT_ANEW,     // nothing: all passes run
    DV_AS_IT_IS,          // everything
    DV_LOOPS_AS_THEY_ARE, // loops; if it packs nothing, what is packed is
                          // chosen, and a k right around a kernel with one k
                          // is taken into it
} dv_as_is;

typedef struct dv_contract_options {
    int32_t threads;                      // 0 means 1
    int64_t l1_bytes, l2_bytes, l3_bytes; // of a core; 0: a common size
    int as_is;                            // dv_as_is
    // A result is one chain of additions in the order of k, whatever the sizes
    // of m and n are: for tiles of a larger product.
    int one_sum;
} dv_contract_options;
#define DV_CONTRACT_OPTIONS_INIT                                               \
    {                                                                          \
        0, 0, 0, 0, 0, 0                                                       \
    }

// Lay a product out, make its kernels and get its buffers; or make those of a
// function of up to three inputs, where out may be an input with the same
// strides, or of a reduction. What a nest does not read may be NULL. The nest
// is copied; `jit` is borrowed until dv_contract_destroy (NULL: it has its
// own). Products have both factors of one type: f32 or f64 as out is; f16 or
// bf16 with out of f32, f16 or bf16, rounded once; i8 or i32 with out of i32,
// which wraps. Touches are any of floats: zero first and relu last are in their
// kernels, others go over out before, and behind each block. Of whole sums they
// are zero first, and relu last where all fit 32 bits. All others are of any
// types that vector kernels load and store. What has no kernel fails with
// DV_E_DTYPE or DV_E_NEST, what is too large with DV_E_LIMIT or DV_E_OVERFLOW.
// A nest that is kept has a form that kernels are made for, otherwise
// DV_E_NEST; products of narrow types are laid out anew in any case.
DV_API dv_status dv_contract_create(dv_contract **out, dv_jit *jit,
                                    const dv_nest *n,
                                    const dv_contract_options *options,
                                    dv_diag *diag);
DV_API void dv_contract_destroy(dv_contract *c);
// Run once, with the contraction's threads. Pointers are to the elements where
// all indices are 0. Allocates and locks nothing; one run at a time. The same
// bits every time, and for any number of threads unless k is summed in parts.
DV_API void dv_contract_run(dv_contract *c, const void *in0, const void *in1,
                            void *out);
// in2 of the runs behind this: what a select reads third, or an index.
DV_API void dv_contract_more(dv_contract *c, const void *in2);
// Did runs since the last call find an index that is none? What it would have
// led to was left out. DV_E_BOUNDS says which.
DV_API dv_status dv_contract_found(dv_contract *c, dv_diag *diag);
// The same for callers with threads of their own: the parts of all threads in
// any order; if there are two phases, wait for all, then combine likewise.
DV_API int32_t dv_contract_threads(const dv_contract *c);
DV_API int dv_contract_phases(const dv_contract *c); // 1 or 2
DV_API void dv_contract_part(dv_contract *c, int32_t thread, const void *in0,
                             const void *in1, void *out);
DV_API void dv_contract_combine(dv_contract *c, int32_t thread, void *out);
DV_API const dv_nest *dv_contract_nest(const dv_contract *c); // as it is run

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
    const dv_core_rect *holes; // cores that are not there, beside the target's
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
// of TileLang's stage, a table of arguments (CSV), or a plan of dv_plan_text.
// `tiles` are rows and columns of tiles for files that do not say; may be NULL.
// *n_defects counts the defects, *report has a line each (dv_free it).
DV_API dv_status dv_lint(const char *text, size_t len, const char *name,
                         const int64_t *tiles, int64_t *n_defects,
                         char **report, dv_diag *diag);
// The same for one machine: its grid and its holes hold, whatever the file says
// of cores. NULL: any.
DV_API dv_status dv_lint_for(const dv_target *target, const char *text,
                             size_t len, const char *name, const int64_t *tiles,
                             int64_t *n_defects, char **report, dv_diag *diag);

// -- Text --------------------------------------------------------------------

// Write a checked plan as programs into a folder, which is made if need be: as
// c, openmp, tt-metalium, json or csv.
DV_API dv_status dv_plan_emit(const dv_plan *plan, const char *as,
                              const char *dir, dv_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
