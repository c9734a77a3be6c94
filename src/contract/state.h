// Private state of contractions: what is prepared when a contraction is created
// and used when it runs.
#ifndef DV_CONTRACT_STATE_H
#define DV_CONTRACT_STATE_H
#include "jit/backend.h"
#include "contract/contract.h"

enum { CT_RUNS = 3, CT_K_VARIANTS = 4 };
enum { CT_COMMON_L3 = 16 << 20 };

// A loop around the kernel. Strides are in bytes: those of the tensor or,
// inside the loop that packs an operand, those of its buffer.
typedef struct ct_loop {
    int64_t size, whole, unit;
    int64_t step[DV_N_OPERANDS];
    int32_t outer; // loop over tiles that this loop is inside of; -1 if none
    uint8_t is_k, pack;
} ct_loop;

// A dimension of the kernel: its size, and its size in the last tile if that is
// shorter.
typedef struct ct_prim {
    int64_t size, rest; // `rest` is 0 if no tile is cut short
    int64_t whole;
    int32_t outer; // loop over the tiles of this dimension
} ct_prim;

// A division into panels: count[i] panels of size[i] each, for n different
// sizes.
typedef struct ct_cut {
    int32_t size[CT_RUNS], count[CT_RUNS], n;
} ct_cut;

// One axis of a block that is packed or written back. Strides are in bytes.
typedef struct ct_axis {
    int64_t size;     // number of steps along it
    int64_t whole;    // if it is inside a tile: extent of the untiled dimension
    int64_t unit;     // elements of that dimension per step
    int64_t from, to; // strides in the tensor and in the buffer
    int64_t reach;    // stride in the tensor in elements, also if size is 1
    // The loop whose index this axis sets, or -1 if it is inside the kernel.
    int32_t loop;
    int32_t outer; // the loop over tiles that the axis is inside of, or -1
    // Which k dimension of the kernel this is, or -1. The stride `to` of a k
    // dimension depends on the panel.
    int32_t k;
} ct_axis;

// Packs a block of an operand: loops over axes around a generated 2-D move,
// which copies or transposes.
typedef struct ct_mover {
    int32_t operand, n_axes;
    ct_axis axes[DV_NEST_MAX_DIMS];
    // The axis of the move (generated 2-D copy) that has unit stride in the
    // buffer. It is cut into panels.
    ct_axis across;
    ct_axis along;       // the other axis of the move; size 1 if there is none
    const ct_prim *prim; // the kernel dimension of `across`, or NULL
    const ct_cut *cuts;  // panels of a whole tile and of the last, shorter tile
    int32_t scalar;      // no move can do it: elements are copied one by one
    int32_t by_row;      // the move copies rows; otherwise it transposes
    // The extent of `along` that one move takes. It is limited so that all
    // panels get their parts of a few rows while these rows are in cache.
    int64_t chunk;
    // Moves (generated copy functions) into the buffer, indexed by: whole or
    // shorter tile of `across`; size of panel; variant of k (which of its
    // dimensions are cut short); a whole chunk of `along`, the remainder of a
    // whole `along`, the remainder of a shorter one.
    dv_move_fn in[2][CT_RUNS][CT_K_VARIANTS][3];
    dv_move_fn back[2][CT_K_VARIANTS][3]; // moves from the buffer to the output
} ct_mover;

// The kernels for one combination of whole and shorter last tiles: one kernel
// per size of panel.
typedef struct ct_kernel {
    dv_gemm_fn run[CT_RUNS];
} ct_kernel;

struct dv_contraction {
    dv_nest n;
    dv_nest_form form;
    dv_nest_tiles tiles;
    int64_t es;    // bytes of an element of the output
    int64_t es_in; // bytes of an element of in0 and in1
    int32_t lanes; // number of elements in a vector
    // Sizes of packed panels: rows of the rows' operand, vectors per row of the
    // columns' operand.
    int32_t panel_rows, panel_vectors;
    int32_t on_way; // kernels pack the columns' operand while reading it
    int32_t ahead;  // the operand whose next block is prefetched
    // Bytes between the rows of k that are prefetched; 0 if none are.
    int64_t prefetch_step;
    // Bytes of the packed rows of one kernel call, if each call copies the rows
    // of the next one (DV_AHEAD_COPY in jit.h); otherwise 0.
    int64_t ahead_bytes;
    // The number of elements from one micro-tile (register tile) of packed
    // results to the next, if kernels copy the rows of the next call
    // (ahead_bytes is not 0): the output is then packed by micro-tiles. 0 if
    // its rows follow each other.
    int64_t tile_step;
    int32_t tile_rows;
    // Iterations of the innermost loop that one kernel call takes.
    int32_t at_once;
    // The output exceeds all caches and is written once, with stores that
    // bypass them.
    int32_t streams;
    // The length of k that a plain GEMM sums in one chain; 0 for all of k.
    int64_t k_block;
    // The choices that the caller demands; NULL: chosen here. Borrowed while
    // the contraction is created.
    const dv_contraction_choices *as;
    int32_t n_loops;
    int32_t zero_first, relu_last;
    // Bit mask of the inputs that are packed before the first run, and for each
    // the loop of which every iteration has a packed block of its own.
    uint8_t once;
    int once_at[2];
    int64_t once_bytes[2]; // bytes of one of these blocks
    uint8_t top_pack;      // bit mask of the operands packed before all loops
    ct_loop loops[DV_NEST_MAX_DIMS];
    ct_prim row, col, k[DV_FORM_MAX_K];
    // The k dimensions (summed) of the kernel with a shorter last tile, or -1.
    int32_t k_tails[2];
    int64_t k_size[CT_K_VARIANTS];
    // Panels of columns, rows and output, for whole tiles [0] and shorter last
    // tiles [1]; the output has one panel.
    ct_cut cols[2], rows[2], out[2];
    int32_t panels; // the columns' operand is packed in panels
    // The kernels, indexed by: rows cut short, columns cut short, variant of k
    // (which of its dimensions are cut short), first block of k, last block of
    // k.
    ct_kernel kernels[2][2][CT_K_VARIANTS][2][2];
    ct_mover movers[DV_N_OPERANDS];
    // The GEMM plan if the nest is a plain product; owned; NULL otherwise.
    dv_gemm_plan *plan;
    // Sizes of the buffers of packed operands in the workspace, which come
    // before the workspace of the plan.
    int64_t buffer_bytes[DV_N_OPERANDS];
    dv_jit *own_jit; // owned code memory; NULL if the caller's is used
};

// The functions below are in layout.c. They compute loops, panels and buffers;
// those that return an int return 0 if a size is too large. ct_size_in_way
// returns the size of the kernel's i-th k dimension in variant `way`, whose bit
// j is set if the j-th k dimension with a shorter last tile is cut short.
int64_t ct_size_in_way(const dv_contraction *c, int i, int way);
dv_status ct_layout_prims(dv_contraction *c, dv_diag *diag);
void ct_layout_loops(dv_contraction *c);
void ct_layout_panels(dv_contraction *c);
int ct_layout_buffer(dv_contraction *c, int operand);
// The functions below are in make.c. They generate the kernels and moves of a
// contraction whose layout is known.
dv_status ct_make_kernels(dv_contraction *c, dv_jit *jit, dv_diag *diag);
// Lets one kernel call take all iterations of the innermost loop, if it can,
// and removes that loop. To be called after all movers (which pack and unpack
// operands) are made.
void ct_merge_inner_loop(dv_contraction *c);
// Decides whether each kernel call copies the rows of the next one. To be
// called after ct_layout_panels.
void ct_choose_copy_ahead(dv_contraction *c, const dv_isa *isa,
                          const dv_contract_options *o);
// Decides whether the output is written with stores that bypass the caches, and
// if so, changes the number of rows in a panel to suit them.
void ct_choose_streaming(dv_contraction *c, const dv_isa *isa,
                         const dv_contract_options *o);
// Returns the stride between rows of results, in elements.
int64_t ct_ldc(const dv_contraction *c);
dv_status ct_make_plan(dv_contraction *c, dv_jit *jit,
                       const dv_contract_options *options, dv_diag *diag);
dv_status ct_make_mover(dv_contraction *c, dv_jit *jit, int operand,
                        dv_diag *diag);
// The functions below are in move.c. ct_pack copies a block of an operand into
// its buffer, ct_unpack writes packed results back.
void ct_pack(const dv_contraction *c, dv_contraction_cursor *t, int operand,
             const unsigned char *from);
void ct_unpack(const dv_contraction *c, dv_contraction_cursor *t,
               unsigned char *to);
// The functions below are in once.c. ct_set_once says that the input is packed
// before the first run, in blocks of `bytes` for each iteration of loop `at`
// (-1: there are no loops); ct_set_given says so of the inputs that the GEMM
// plan takes packed. ct_once_block returns the packed block for the current
// iterations.
void ct_set_once(dv_contraction *c, int operand, int at, int64_t bytes);
void ct_set_given(dv_contraction *c);
const unsigned char *ct_once_block(const dv_contraction_cursor *t, int operand);
// Returns the number of iterations of a loop: `size`, or fewer if the
// surrounding loop over tiles is at its shorter last tile. Sets *from to the
// position at which the loop begins.
int64_t ct_iterations(const dv_contraction_cursor *t, int64_t size,
                      int64_t whole, int64_t unit, int32_t outer,
                      int64_t *from);
// Returns whether the current tile of a kernel dimension is the last one and
// shorter than the others.
int ct_is_tail(const dv_contraction_cursor *t, const ct_prim *p);
int ct_k_variant(const dv_contraction *c, const dv_contraction_cursor *t);
#endif
