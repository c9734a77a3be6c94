// Section `schedule` of a plan: which generated kernel computes each op on this
// machine, with which loops, and in what order it adds numbers.
//
//   schedule {
//       kernels neon-bf16                 the instruction set of the kernels
//       0: product outer { k 2 seq, k 512 of 1024 prim } epilogue kernel
//           tile { m 512 prim, n 512 prim, k 1024 prim } gemm blocks 256 x 512
//                                         op 0, by kernels of matrix products,
//                                         with these loops in every tile
//       1: rows i inner j unit 0 delay 2  ops 1 to 3, together, row by row
//       2: inline
//       3: rows i inner j unit 0 delay 0
//       4: statement loops i, j           op 4, by a vector kernel
//       5: strip loops k                  op 5, by the interpreter, along k
//       keep t at 4096                    t exists for one tile at a time
//       store u at 0                      all of u is stored
//       memory 65536 shared, 8192 per thread
//                                         what a run allocates
//   }
//
// The pass `schedule` writes it and executors obey it: they choose nothing that
// changes which code runs or in which order numbers are added. Plans for
// machines that are simulated have no such section.
#ifndef DV_PLAN_SCHEDULE_H
#define DV_PLAN_SCHEDULE_H
#include <stdint.h>

// One level of the loops over a reduced variable: a loop around the kernel, or
// the range that the kernel reduces itself. Levels of one variable are nested
// tiles, outermost first.
typedef struct dv_sum_level {
    int32_t var;
    int64_t size;
    int inside; // 1 if the kernel contains this loop
} dv_sum_level;

// The order in which an op adds up its products, the same in all of its tiles;
// see nest/sums.h.
typedef struct dv_sum_order {
    int dot;   // 1 if the kernel accumulates in vector lanes along k
    int pairs; // 1 if the kernel uses matrix instructions for bf16 or i8
    dv_sum_level *levels;
    int32_t n_levels;
} dv_sum_order;

// What computes an op: a kind of generated kernel, or the interpreter.
typedef enum dv_kernel_kind {
    DV_KERNEL_STRIP,     // the interpreter (strip/), without a kernel
    DV_KERNEL_STATEMENT, // a vector kernel for this op alone
    DV_KERNEL_PRODUCT,   // kernels of matrix products
    DV_KERNEL_ROWS,      // a vector kernel, row by row with other ops
    DV_KERNEL_INLINE,    // nothing: its readers compute it where they read it
    DV_N_KERNEL_KINDS
} dv_kernel_kind;

// A condition on the values that a tile reads, which its kernel relies on. It
// is tested in every run; unless it says otherwise, a tile that violates it is
// computed by the interpreter.
typedef enum dv_guard {
    DV_GUARD_NONE,
    DV_GUARD_INDICES, // all indirect indices are within their tensors
    DV_GUARD_INT32,   // integers and their results fit into 32 bits
    // In a product that skips the zeros of one factor (dv_skip), the other
    // factor is finite, because 0 * inf is not 0. A tile that violates this is
    // computed without skipping.
    DV_GUARD_FINITE,
    DV_N_GUARDS
} dv_guard;

// Where the epilogue of a product (what is computed from its sums) runs.
typedef enum dv_epilogue_place {
    DV_EPILOGUE_NONE,   // the sums are the results
    DV_EPILOGUE_KERNEL, // the kernel applies it before it stores
    DV_EPILOGUE_BLOCKS, // on each block of sums, when the block is complete
    DV_EPILOGUE_TILE,   // on all sums of a tile, when the tile is complete
    DV_EPILOGUE_PARTS,  // after the partial sums of several tiles were added
    DV_N_EPILOGUES
} dv_epilogue_place;

enum { DV_MAX_ROW_VARS = 4, DV_MAX_TILE_LOOPS = 64 };

// A loop over a tile of a product, or a dimension inside its kernel. Loops of
// the same variables are nested tiles, outermost first; the last tile may be
// shorter.
typedef struct dv_tile_loop {
    // Bit mask of the op's variables that this loop runs over. Several are
    // contiguous in memory and are collapsed into one loop.
    uint32_t vars;
    int64_t size;
    int inside; // 1 if the kernel contains this loop
    // Mask of the operands that are packed in every iteration: 1 for the first
    // factor, 2 for the second, 4 for the output.
    int pack;
} dv_tile_loop;

// The loops, packing and blocks with which a matrix product computes those of
// its tiles that have one shape.
typedef struct dv_tile_schedule {
    // Mask of the variables of which tiles of this shape have the last slice,
    // which is shorter than the others.
    uint32_t shorts;
    dv_tile_loop *loops; // outermost first
    int32_t n_loops;
    int pack; // mask of the operands that are packed before all loops
    int gemm; // 1 if a GEMM plan (jit/gemm/) runs what is inside the kernel
    // The rows and the elements of k of the blocks that the GEMM plan packs; 0
    // if it reads its operands in place.
    int64_t m_block, k_block;
    int stream; // 1 if stores bypass the caches
    int stage;  // 1 if each kernel call copies the rows of the next one
    // If the loops were searched for: how many candidates (kernels with their
    // sizes) there were, and the estimated time of a tile. Not in the plan's
    // text.
    int32_t n_candidates;
    double cost_us;
    uint32_t off; // byte offset in the text of a parsed plan
} dv_tile_schedule;

// Points of an op that need not be computed, because a mask such as
//
//   u[i,j] = select(j <= i, s[i,j], -inf)        j from i + 1
//
// makes their values the identity of a reducer: a tile computes only the values
// of `var` below the largest `with` of the tile + `from`, rounded up to a
// multiple of `by`. Results have the same bits, except that a sum that
// underflows to -0 stays -0 where a product 0 * x = 0 would have been added.
typedef struct dv_skip {
    int32_t var, with;
    int64_t from, by; // by 0: nothing is skipped
} dv_skip;

// How one op is computed. Variables are numbers of the op's variables, -1 if
// there is none.
typedef struct dv_op_schedule {
    dv_kernel_kind kind;
    dv_guard guard;
    // The loops of the vector kernel, as numbers of variables: of a statement,
    // of a row, or of the epilogue of a product. Vector lanes are along
    // `inner`.
    int32_t inner, outer;
    int64_t chunk; // iterations of `outer` per kernel call; 0: all
    // Number of iterations of loop `inner` with which both loops are collapsed
    // into one, because each iteration of `outer` continues in memory where the
    // one before ended; 0: they are never collapsed.
    int64_t collapse;
    // Number of iterations of a small reduction (a filter, a pooling window)
    // that the kernel unrolls; 0: it loops over them.
    int32_t window;
    int transpose; // 1 if reads are transposed block by block
    // 1 if operands of a sliding window are copied with their border, so that
    // one loop of the kernel covers all rows of an image (exec/op/stage.h).
    int images;
    // 1 if tiles are cut where reads with a border leave their tensors, so that
    // operands need not be copied with their border (exec/op/edges.h).
    int edges;
    // For matrix products (kind DV_KERNEL_PRODUCT): the order of additions,
    // where the epilogue runs, and which of the two factors are copied first.
    dv_sum_order sums;
    dv_epilogue_place epilogue;
    int copied[2]; // 1 if the factor is first copied, e.g. to a wider type
    // Bit mask of the factors that are copied and packed once, before the first
    // run, because they are constants.
    int once;
    // Bit mask of the factors that each thread packs into memory of its own and
    // keeps for the following tiles, as long as these read the same elements.
    int hold;
    dv_tile_schedule *tiles; // one per shape of the op's tiles, or none
    int32_t n_tiles;
    // For kind DV_KERNEL_ROWS (ops computed together, row by row): the
    // variables that enumerate rows, outermost first. Ops with the same unit
    // share one kernel; in step t of the loop over rows the op computes row t -
    // delay.
    int32_t n_rows, rows[DV_MAX_ROW_VARS];
    int32_t unit;
    int64_t delay;
    // Bit r: the kernel prefetches the next row or tile of read number r.
    uint64_t prefetch;
    dv_skip skip;
    uint32_t off; // byte offset in the text of a parsed plan
} dv_op_schedule;

// The address of a temporary. If only the ops of one group use it, tile by
// tile, each thread has memory for one tile of it, at `address` of its tile
// memory. Otherwise all of it is stored, at `address` of the memory of
// temporaries, where tensors with disjoint lifetimes share bytes.
typedef struct dv_temp_address {
    int32_t tensor;
    int64_t address;
    uint32_t off; // byte offset in the text of a parsed plan
} dv_temp_address;

typedef struct dv_schedule {
    // Name of the instruction set of the kernels, or "any" in a plan written by
    // hand that is not made for one; NULL if the plan has no schedule.
    const char *kernels;
    dv_op_schedule *ops; // one per op of the plan
    // Temporaries that are kept for one tile at a time, and those that are
    // stored, both in the order of the ops that (first) write them.
    dv_temp_address *temps, *stored;
    int32_t n_temps, n_stored;
    // Memory that a run allocates: temporaries and partial sums, which all
    // threads share, and tiles and packed operands of each thread. -1: the plan
    // does not say. What is packed of constants is allocated before the first
    // run.
    int64_t shared_bytes, thread_bytes, constant_bytes;
    // 1 if the schedule is not from the plan's text, which has no section
    // `schedule`, but was made after the text was read.
    int on_reading;
    // What the user prescribed (pins) for each op; NULL if nothing. Not in the
    // plan's text.
    const struct dv_schedule_pins *pins;
} dv_schedule;
#endif
