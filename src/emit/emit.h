// Text from a plan: programs in C and OpenMP, kernels and a host program for
// TT-Metalium, and tables of arguments.
//
//   c            program.c, rt.h     cores one after another
//   openmp       program.c, rt.h     a thread is a core
//   tt-metalium  host.cpp, rt.h; for each group a reader, a compute and a
//                writer kernel
//   json, csv    tiles and arguments of every core, per group
//
// Texts are self-contained. A program takes NAME=FILE.npy for every input and
// for the outputs that are wanted, twice for what is both.
//
//   emit.[ch]        writes the files of a folder
//   c.c              writes C and OpenMP programs
//   expr.c           writes expressions of ops as C
//   decode.c         writes functions that decode tile numbers of an order
//   metal.c          writes TT-Metalium readers and writers
//   metal_match.c    finds what a group computes in terms of tiles
//   metal_compute.c  writes compute kernels
//   metal_expr.c     writes expressions as calls on tiles in registers
//   metal_block.c    writes products on rectangles of cores that share panels
//   metal_host.c     writes the host program
//   table.c          writes tables of tiles and arguments
//   work.c           finds what each core of a grid has to do
//   text/rt.h        the runtime, which is copied beside every program
#ifndef DV_EMIT_H
#define DV_EMIT_H
#include "base/text.h"
#include "grid/grid.h"
#include "plan/tiles.h"

// A file of the folder, before it is written.
typedef struct emitted {
    const char *name;
    dv_text text;
} emitted;

typedef struct emitter {
    const dv_plan *plan;
    const dv_program *p; // the plan's
    const char *dir;
    int openmp;
    dv_diag *diag;
    dv_text out; // the file at hand
    dv_arena arena;
    emitted *files; // those that are complete
    int32_t n_files, cap;
} emitter;

extern const char *const dv_rt_lines[]; // text/rt.h, ends with NULL

// e->out is complete: it becomes a file of the folder, and empty.
dv_status dv_emit_file(emitter *e, const char *name);
dv_status dv_emit_rt(emitter *e);
// Statements of the main function of a C or C++ program: check the names of the
// arguments; read an input, of elements of C type `ctype`, into `data`.
void dv_emit_check_args(emitter *e);
void dv_emit_read(emitter *e, const dv_tensor *t, const char *ctype,
                  const char *data);

// -- C (c.c, expr.c) ---------------------------------------------------------

dv_status dv_emit_c(emitter *e);
// What the expression printer has to know of the op at hand.
typedef struct emit_op {
    const dv_program *p;
    const dv_op *op;
    int old; // reads of the written tensor find its copy
} emit_op;

const char *dv_ctype(dv_dtype t);
// Whole numbers wrap in 64 bits, everything else is a double.
int dv_expr_whole(const dv_expr *e);
void dv_emit_value(dv_text *out, const emit_op *o, const dv_expr *e, int whole);
// "t3_c[12 * m_0 + n_1]"
void dv_emit_access(dv_text *out, const emit_op *o, const dv_access *a,
                    int old);
void dv_emit_var(dv_text *out, const dv_op *op, int v);
void dv_emit_tensor(dv_text *out, const dv_program *p, int32_t tensor);
// A value of the op as the tensor holds it.
void dv_emit_stored(dv_text *out, const emit_op *o, const dv_expr *e);

// A function tile_at_N(id, &m, &n): the tile at a place of an order (decode.c).
void dv_emit_decode(dv_text *out, const dv_order *o, int number,
                    const char *type);

// -- Work of a core (work.c) -------------------------------------------------

enum { EMIT_MAX_SEGMENTS = 4 };

// A core of a grid with everything it has. A part of a tile that begins with
// step 0 is owned: its core adds the parts of `peers` others, whose rank says
// in which order.
typedef struct emit_core {
    int64_t x, y;
    dv_tile_range at[EMIT_MAX_SEGMENTS];
    int32_t n;
    int32_t owner; // core that gets its part of a tile, or -1
    int32_t rank;  // among those that send to the owner
    int32_t peers; // that send to this core
} emit_core;

typedef struct emit_cores {
    emit_core *at; // owned
    int32_t n;
    int streams; // some tile is cut
    int32_t most_peers;
} emit_cores;

dv_status dv_emit_cores(emit_cores *out, const emitter *e,
                        const dv_group_grid *g);
// Arguments can say what each core has: whole tiles, then one run of steps. So
// a core sends its part of the run's first tile before it waits for others'
// parts of the last.
dv_status dv_emit_streams(const emit_cores *all, const emitter *e,
                          const dv_group_grid *g);

// -- TT-Metalium (metal*.c) --------------------------------------------------

typedef enum emit_shape {
    EMIT_POINTWISE,
    EMIT_PRODUCT,
    EMIT_REDUCE
} emit_shape;

// How an operand's tile becomes one of the plane that is computed.
typedef enum emit_lay {
    LAY_PLAIN,
    LAY_SWAPPED, // rows are columns
    LAY_ROW,     // one row, for all rows
    LAY_COL,     // one column, for all columns
    LAY_SCALAR,  // one element
    LAY_TO_COL,  // a row that becomes a column, for all columns
    LAY_TO_ROW   // a column that becomes a row, for all rows
} emit_lay;

// When an operand is needed: in every step, before the steps, after them.
typedef enum emit_stage { STAGE_STEP, STAGE_BEFORE, STAGE_AFTER } emit_stage;

enum { EMIT_MAX_OPERANDS = 8 };

// An operand: circular buffer number i. Its page is made of the tile at hand.
typedef struct emit_operand {
    int32_t read, tensor;
    emit_lay lay;
    emit_stage stage;
    char row, col;      // the tile's row and column: m, n, k, or 0 for none
    int64_t rows, cols; // tiles of its matrix
    int batch[DV_MAX_DIMS],
        n_batch; // dims of the result that its first ones are
} emit_operand;

// Two variables of an op; -1 for one that is not there or has one value.
typedef struct emit_plane {
    int row, col;
} emit_plane;

// One group as kernels.
typedef struct emit_kernel {
    const dv_group_grid *g;
    const dv_op *op;
    emit_cores cores;
    emit_shape shape;
    const dv_expr *reduce; // PRODUCT, REDUCE
    emit_operand in[EMIT_MAX_OPERANDS];
    int n_in;
    emit_plane out;           // rows and columns of the result's tiles
    emit_plane plane;         // REDUCE: of the tiles that are summed
    int64_t steps, step_cols; // tiles of depth; REDUCE: those in a row
    int mask_out, mask_in;    // elements beyond the edge must be made neutral
    int64_t edge[2], edge_in[2]; // rows and columns of the last tiles
    int full_sync;               // more than four registers
    // Rectangles of a product: blocks in memory, and passes over a core's part.
    int64_t block_m, block_n, block_k, pass_m, pass_n;
} emit_kernel;

enum { // circular buffers beside the operands'
    CB_SCALER = 8,
    CB_MASK_IN = 9,
    CB_MASK_OUT = 10,
    CB_OUT = 16,
    CB_TURNED = 17,  // + the number of the operand that is turned
    CB_PARTIAL = 25, // sums for another core, or of a block under way
    CB_PEERS = 26,   // sums of other cores
    CB_SUMS = 27,
    CB_COLUMN = 28
};

dv_status dv_emit_metal(emitter *e);
// What a group computes, or why it has no kernels (metal_match.c).
dv_status dv_emit_match(const emitter *e, const dv_group_grid *g,
                        emit_kernel *out);
int dv_expr_has_reduce(const dv_expr *e);
// Registers that a value needs beside the sum's.
int dv_emit_registers(const dv_expr *e);
// Calls that compute a value (metal_expr.c): the sum is in register 0, anything
// else goes to `reg` and those behind it. Returns where it is. `after` chooses
// among operands: those behind the sum, or those in it.
int dv_emit_tiles(emitter *e, const emit_kernel *k, const dv_expr *x, int reg,
                  int after);
// One tile of a circular buffer into a register.
void dv_emit_load(emitter *e, emit_lay lay, int cb, int reg);
// x and y become one value, as the reducer does it.
void dv_emit_step(emitter *e, const emit_kernel *k, int x, int y);
// Headers of those calls, once each.
void dv_emit_headers(emitter *e, const emit_kernel *k);
void dv_emit_compute(emitter *e, const emit_kernel *k); // metal_compute.c
void dv_emit_sizes(emitter *e, const emit_kernel *k);
dv_status dv_emit_host(emitter *e, const emit_kernel *kernels, int32_t n);
int dv_emit_has_constants(const emit_kernel *k); // ones or masks
// The page of an operand for the tile (batch, m, n) and step k.
void dv_emit_page(emitter *e, const emit_kernel *k, const emit_operand *o);
// The reader's part of what comes behind the sum of a tile.
void dv_emit_after(emitter *e, const emit_kernel *k);
// A product whose left factor lies across: its tiles are turned, EMIT_TURNS at
// a time, into CB_TURNED, and sums wait in CB_SUMS meanwhile (metal_compute.c).
enum { EMIT_TURNS = 4 };
int dv_emit_is_across(const emit_kernel *k);
// Products on rectangles (metal_block.c).
int dv_emit_is_blocks(const emit_kernel *k);
dv_status dv_emit_size_blocks(const emitter *e, emit_kernel *k);
void dv_emit_block_reader(emitter *e, const emit_kernel *k);
void dv_emit_block_writer(emitter *e, const emit_kernel *k);

// -- Tables (table.c) --------------------------------------------------------

dv_status dv_emit_json(emitter *e);
dv_status dv_emit_csv(emitter *e);
// Names and values of the arguments of a core; returns how many.
int dv_emit_args(const dv_group_grid *g, const emit_cores *all,
                 const emit_core *c, const char **names, int64_t *values);
#endif
