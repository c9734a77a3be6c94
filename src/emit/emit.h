// Emits text from a plan: programs in C and OpenMP, kernels and a host program
// for TT-Metalium, and tables of arguments.
//
//   c            program.c, rt.h     cores one after another
//   openmp       program.c, rt.h     one thread per core
//   tt-metalium  host.cpp, rt.h; for each group a reader, a compute and a
//                writer kernel
//   object       NAME.c, NAME.h, NAME.o: machine code, see object.c
//   superdsc     bundle.json, sdsc_N.json: for Torch-Spyre, see superdsc.h
//   json, csv    tiles and arguments of every core, per group
//
// Of the plan of a team, C and OpenMP programs have a file for each rank; the
// ranks are processes of MPI or threads of one process.
//
// The emitted text is self-contained. A program takes NAME=FILE.npy for every
// input and for the wanted outputs, twice for a tensor that is both.
//
//   emit.[ch]        writes the files of a folder
//   c.c              writes C and OpenMP programs
//   expr.c           writes expressions of ops as C
//   team.c           writes the C programs of the ranks of a team
//   decode.c         writes functions that decode tile numbers of an order
//   metal.c          writes TT-Metalium readers and writers
//   metal_match.c    finds what a group computes in terms of tiles
//   metal_compute.c  writes compute kernels
//   metal_expr.c     writes expressions as calls on tiles in registers
//   metal_block.c    writes products on rectangles of cores that share panels
//   metal_shard.c    writes buffers in shards in the memories of cores
//   metal_host.c     writes the host program
//   object.c         writes kernels and their calls, and compiles them
//   superdsc.[ch]    finds the steps of a plan for Torch-Spyre's back end
//   superdsc_json.c  writes such a step
//   table.c          writes tables of tiles and arguments
//   work.c           collects the tile ranges of each core of a grid
//   text/rt.h        the runtime, which is copied next to every program
#ifndef DV_EMIT_H
#define DV_EMIT_H
#include "base/text.h"
#include "grid/grid.h"
#include "plan/tiles.h"

// An output file, kept in memory until all files are complete.
typedef struct emitted {
    const char *name;
    dv_text text;
} emitted;

// How a matrix is cut into shards, which are stored in the memories of cores:
// the numbers of shards (n) and of tiles of one shard, in rows and columns; and
// the core of each shard, row by row.
typedef struct emit_shards {
    int64_t n[2], tiles[2];
    dv_xy *cores;
} emit_shards;

typedef struct emitter {
    const dv_plan *plan;
    const dv_program *p; // the program of the plan
    const char *dir;
    int openmp;
    // 1: the loops over tiles use the names of TileLang's stage B: tile_id, and
    // in C get_core_id().
    int stage_names;
    // If the code of one rank of a team is emitted: its program; otherwise
    // NULL.
    const struct dv_rank_program *part;
    dv_diag *diag;
    dv_text out; // text of the file being emitted
    // For each tensor its shards in the memories of cores, or NULL.
    const emit_shards **shards;
    // Bytes of the circular buffers that a core has in the group being emitted.
    int64_t cb_bytes;
    dv_arena arena;
    emitted *files; // files that are complete
    int32_t n_files, cap;
} emitter;

// Like dv_plan_emit, but loops over tiles use the names of TileLang's stage B.
// For C, OpenMP and TT-Metalium kernels.
dv_status dv_emit_stage_names(const dv_plan *plan, dv_emit_format format,
                              const char *dir, dv_diag *diag);
// Returns the name that the loop variable over tiles has in emitted code.
static inline const char *dv_emit_tile_id(const emitter *e)
{
    return e->stage_names ? "tile_id" : "id";
}

// Lines of text/rt.h, the runtime that emitted programs include; ended by NULL.
extern const char *const dv_rt_lines[];

// Completes the file in e->out under the given name and empties e->out.
dv_status dv_emit_file(emitter *e, const char *name);
dv_status dv_emit_rt(emitter *e);
// Emit statements of main() in C or C++: dv_emit_check_args checks the argument
// names; dv_emit_read reads an input with elements of C type `ctype` into
// `data`.
void dv_emit_check_args(emitter *e);
void dv_emit_read(emitter *e, const dv_tensor *t, const char *ctype,
                  const char *data);

// The functions of c.c and expr.c emit programs in C.

dv_status dv_emit_c(emitter *e);
// dv_emit_tensors emits the variables of all tensors; dv_emit_body emits the
// functions of ops and groups, and run(), which computes everything.
void dv_emit_tensors(emitter *e);
dv_status dv_emit_body(emitter *e);
// Emits the program of a team in C, a file for each rank (team.c).
dv_status dv_emit_team(emitter *e);
// The op (a lowered statement with its loops) whose expressions are being
// printed, and its program.
typedef struct emit_op {
    const dv_program *p;
    const dv_op *op;
    // 1 if reads of the tensor that the op writes use a copy of it, made before
    // the op.
    int old;
} emit_op;

const char *dv_ctype(dv_dtype t);
void dv_emit_value(dv_text *out, const emit_op *o, const dv_expr *e, int whole);
// Prints an element of a tensor, such as "t3_c[12 * m_0 + n_1]".
void dv_emit_access(dv_text *out, const emit_op *o, const dv_access *a,
                    int old);
void dv_emit_var(dv_text *out, const dv_op *op, int v);
void dv_emit_tensor(dv_text *out, const dv_program *p, int32_t tensor);
// Prints the op's value converted to the written tensor's type.
void dv_emit_stored(dv_text *out, const emit_op *o, const dv_expr *e);

// Returns how many tiles a core takes at a time if the policy of the grid
// (which assigns tiles to cores) hands them out at run time; 0 if each core's
// tiles are fixed (emit.c).
int64_t dv_emit_chunk(const dv_group_grid *g);

// Emits the function tile_at_N(id, &m, &n), which computes row m and column n
// of the tile at position id of a traversal order (decode.c).
void dv_emit_decode(dv_text *out, const dv_order *o, int number,
                    const char *type);

// The functions of work.c collect the tiles and reduction steps of each core.

enum { EMIT_MAX_SEGMENTS = 4 };

// A core of a grid with all its tile ranges. If the reduction of a tile is
// split over cores, the core with its first step owns the tile and adds the
// partial sums of `contributors` other cores in the order of their `rank`.
typedef struct emit_core {
    int64_t x, y;
    dv_tile_range at[EMIT_MAX_SEGMENTS];
    int32_t n;
    int32_t owner; // the core that receives this core's partial sum, or -1
    int32_t rank;  // position among the cores that send to the owner
    int32_t contributors; // number of cores that send partial sums to this core
} emit_core;

typedef struct emit_cores {
    emit_core *at; // owned by this struct
    int32_t n;
    int streams; // 1 if some tile is split over several cores
    int32_t most_contributors;
} emit_cores;

dv_status dv_emit_cores(emit_cores *out, const emitter *e,
                        const dv_group_grid *g);
// Checks that every core has whole tiles followed by at most one contiguous run
// of reduction steps, which may begin and end inside a tile; the kernel
// arguments can describe nothing else. It also avoids deadlock: a core sends
// its partial sum of the run's first tile before it waits for those of the
// last.
dv_status dv_emit_streams(const emit_cores *all, const emitter *e,
                          const dv_group_grid *g);

// The functions of metal*.c emit TT-Metalium kernels.

typedef enum emit_shape {
    EMIT_POINTWISE,
    EMIT_PRODUCT,
    EMIT_REDUCE
} emit_shape;

// How a tile of an operand becomes a tile of the computed plane (spanned by the
// two variables that index the tile's rows and columns).
typedef enum emit_layout {
    LAY_PLAIN,
    LAY_TRANSPOSED, // the tile is transposed
    LAY_ROW,        // one row of the tile is broadcast to all rows
    LAY_COL,        // one column of the tile is broadcast to all columns
    LAY_SCALAR,     // one element of the tile is broadcast to all
    LAY_TO_COL, // a row, transposed into a column and broadcast to all columns
    LAY_TO_ROW  // a column, transposed into a row and broadcast to all rows
} emit_layout;

// When a kernel needs an operand: in every step of the reduction, before the
// steps, or after them.
typedef enum emit_stage { STAGE_STEP, STAGE_BEFORE, STAGE_AFTER } emit_stage;

enum { EMIT_MAX_OPERANDS = 8 };

// An operand of a kernel; operand i is read through circular buffer i.
typedef struct emit_operand {
    int32_t read, tensor;
    emit_layout lay;
    emit_stage stage;
    // The kernel loops that select the row and the column of the tile in the
    // operand's matrix: m and n step through rows and columns of the result, k
    // through the reduction, and p through its rows of tiles if both dims are
    // reduced. 0: none.
    char row, col;
    int64_t rows, cols; // size of the operand's matrix in tiles
    // If circular buffer i is the core's shard of the operand, without a copy:
    // the shard's number of tiles; otherwise 0.
    int64_t own_tiles;
    // Dims of the result that correspond to the operand's leading (batch) dims.
    int batch[DV_MAX_DIMS], n_batch;
} emit_operand;

// The two loop variables of an op that index the rows and columns of its tiles;
// -1: there is no such variable, or it has one value.
typedef struct emit_plane {
    int row, col;
} emit_plane;

// What is needed to emit the reader, compute and writer kernels of one op. A
// group of several ops has one emit_kernel for each of them.
typedef struct emit_kernel {
    int id; // in names of files and of tables
    const dv_group_grid *g;
    const dv_op *op;
    emit_cores cores;
    emit_shape shape;
    // The op's reduction, if its shape is EMIT_PRODUCT or EMIT_REDUCE;
    // otherwise NULL.
    const dv_expr *reduce;
    emit_operand in[EMIT_MAX_OPERANDS];
    int n_in;
    // Variables that index the rows and columns of the result's tiles.
    emit_plane out;
    // If shape is EMIT_REDUCE: variables that index the rows and columns of the
    // tiles to be reduced.
    emit_plane plane;
    // Number of tiles to reduce for one tile of the result. If shape is
    // EMIT_REDUCE, step_cols of them are in one row of tiles.
    int64_t steps, step_cols;
    // 1 if elements beyond the edge of the result (mask_out) or of the reduced
    // input (mask_in) must be masked.
    int mask_out, mask_in;
    // How many rows and columns of the last tiles are inside the tensor: for
    // the result (edge) and for the reduced input (edge_in).
    int64_t edge[2], edge_in[2];
    // If the circular buffer of the result is the core's shard of it, without a
    // copy: the shard's number of tiles; otherwise 0.
    int64_t own_tiles;
    int full_sync; // 1 if the kernel needs more than four destination registers
    // For a product on a rectangle of cores: the size of a block in tiles, and
    // the number of passes in which a core computes its rectangle of results.
    int64_t block_m, block_n, block_k, pass_m, pass_n;
} emit_kernel;

enum { // numbers of the circular buffers that are not operands
    CB_SCALER = 8,
    CB_MASK_IN = 9,
    CB_MASK_OUT = 10,
    CB_OUT = 16,
    // CB_TRANSPOSED + i holds the transposed copy of operand i.
    CB_TRANSPOSED = 17,
    CB_PARTIAL = 25, // partial sums for another core, or of an incomplete block
    CB_PEERS = 26,   // partial sums received from other cores
    CB_SUMS = 27,
    CB_COLUMN = 28
};

dv_status dv_emit_metal(emitter *e);
// Finds out what an op computes on its grid of cores and fills in k, or fails
// with the reason why TT-Metalium kernels cannot compute it (metal_match.c).
dv_status dv_emit_match(const emitter *e, emit_kernel *k);
int dv_expr_has_reduce(const dv_expr *e);
// Returns the first function in an expression that TT-Metalium devices lack, or
// NULL.
const char *dv_emit_device_lacks(const dv_expr *e);
// Emits the calls that compute an expression on tiles (metal_expr.c). The sum
// is in tile register 0; other values use `reg` and the registers after it.
// Returns the result's register. `after` selects the operands of the epilogue,
// after the sum, instead of those inside the sum.
int dv_emit_tiles(emitter *e, const emit_kernel *k, const dv_expr *x, int reg,
                  int after);
// Emits the load of one tile from a circular buffer into a tile register.
void dv_emit_load(emitter *e, emit_layout lay, int cb, int reg);
// Emits one step of the reduction on two tile registers: x = x + y, or their
// maximum or minimum.
void dv_emit_step(emitter *e, const emit_kernel *k, int x, int y);
// Emits the #include lines that the calls in a compute kernel need, each once.
void dv_emit_headers(emitter *e, const emit_kernel *k);
// dv_emit_compute emits the compute kernel of one op; dv_emit_sizes emits the
// declarations of the block sizes that its code uses.
void dv_emit_compute(emitter *e, const emit_kernel *k);
void dv_emit_sizes(emitter *e, const emit_kernel *k);
dv_status dv_emit_host(emitter *e, const emit_kernel *kernels, int32_t n);
// Returns whether the kernel needs tiles of constants in main memory: ones for
// reductions, or masks for the tiles at the edges.
int dv_emit_has_constants(const emit_kernel *k);
// Emits the TensorAccessors (TT-Metalium's objects that locate a tensor's
// pages) of the operands and the constants, whose addresses are runtime
// arguments from `first_arg` on; returns their number.
int dv_emit_accessors(emitter *e, const emit_kernel *k, int first_arg,
                      int constants_cb);
// Emits the page number (one tile per page) of an operand for tile (batch, m,
// n) and step k of the reduction.
void dv_emit_page(emitter *e, const emit_kernel *k, const emit_operand *o);
// Emits the reader kernel's loads of the operands of the epilogue, which are
// needed after a tile's sum.
void dv_emit_epilogue_loads(emitter *e, const emit_kernel *k);
// If the left factor of a product is stored transposed
// (dv_emit_left_is_transposed), its tiles are transposed, EMIT_TRANSPOSE_BATCH
// at a time, into one circular buffer (CB_TRANSPOSED), while the sum waits in
// another (CB_SUMS).
enum { EMIT_TRANSPOSE_BATCH = 4 };
int dv_emit_left_is_transposed(const emit_kernel *k);
// The functions of metal_block.c emit matrix products on a rectangle of cores,
// where a row of cores shares panels of the left factor and a column those of
// the right.
int dv_emit_is_blocks(const emit_kernel *k);
dv_status dv_emit_size_blocks(const emitter *e, emit_kernel *k);
void dv_emit_block_reader(emitter *e, const emit_kernel *k);
void dv_emit_block_writer(emitter *e, const emit_kernel *k);

// The functions of metal_shard.c are for tensors cut into shards in the cores'
// memories. dv_emit_find_shards finds these tensors. dv_emit_match_shards finds
// which operands, and whether the result, need no copy because a circular
// buffer can be the shard itself; dv_emit_own_shards (reader) and
// dv_emit_own_result (writer) emit the code for these.
dv_status dv_emit_find_shards(emitter *e, const emit_kernel *kernels);
void dv_emit_match_shards(const emitter *e, emit_kernel *k);
void dv_emit_own_shards(emitter *e, const emit_kernel *k);
void dv_emit_own_result(emitter *e, const emit_kernel *k);
// Emits the fields of a buffer's configuration that say in which memory it is
// stored and how it is sharded.
void dv_emit_sharding(emitter *e, int32_t tensor);
// Fails if a core's circular buffers and the tensors in its memory do not fit.
dv_status dv_emit_check_room(const emitter *e, const emit_kernel *k);

// dv_emit_object emits the source files of an object; dv_emit_compile compiles
// them after they are written (object.c).
dv_status dv_emit_object(emitter *e);
dv_status dv_emit_compile(const emitter *e);

// Emits the steps of a plan for Torch-Spyre (superdsc.c).
dv_status dv_emit_superdsc(emitter *e);

// The functions of table.c write tables of each core's tiles and kernel
// arguments, as JSON or CSV.

dv_status dv_emit_json(emitter *e);
dv_status dv_emit_csv(emitter *e);
// Gets the names and values of a core's kernel arguments; returns their number.
int dv_emit_args(const dv_group_grid *g, const emit_cores *all,
                 const emit_core *c, const char **names, int64_t *values);
#endif
