// Matrix products of any size: cut to fit the caches, packed, and run by
// generated kernels on the calling thread.
//
//   for each chunk of columns:        its part of C stays in L2 or L3
//     for each chunk of k:            a panel of B stays in L1
//       for each block of rows:       a block of A stays in L2
//         for each panel of B, a few vectors wide:
//           one kernel over the whole block, in tiles of a few rows
//           (dv_isa gives the tile: 20 columns and 4 rows of f32 on NEON)
//
// The columns are one chunk unless C is very large. A is packed once for each
// chunk of columns.
//
// Packing is no separate pass: the first tile of a panel stores the packed
// panel of B, and the first panel of a block stores the packed block of A, from
// the registers that hold the operands for multiplication. Two kinds of
// operands are packed before use instead: a transposed B, and narrow types.
// bf16 and i8 are packed in pairs for matrix instructions (panels of 8 rows and
// 12 columns on NEON, of 32 and 32 for AMX); the caller widens f16, and bf16
// and i8 on a machine without such instructions. If C is narrow, a block is
// accumulated in a buffer and rounded once.
//
// A small product is one kernel on the unpacked operands. Kernels are generated
// when the plan is made, and the caller of a run provides the memory for packed
// operands: a run allocates nothing, takes no lock and looks up nothing, and
// several threads can run one plan at the same time. For several threads, a
// program divides C into tiles, each with a plan of its own
// (exec/op/product.c); plans with the same k_block sum every element in the
// same order, whatever tile it is in.
//
//   plan.c           block sizes, layout of the workspace
//   make.c           generates the kernels of a plan
//   run.c            runs a plan
//   given.c          packs constant operands before the runs
//   plan.h           the structures of a plan
//   cut.h            cuts rows and vectors into register tiles
//   prod.[ch]        a product as the generators of register tiles see it
//   walk.h           chooses register tiles, emits a product as loops over them
//   dots.h           the same for products whose elements are dot products
#ifndef DV_JIT_GEMM_H
#define DV_JIT_GEMM_H
#include "jit/jit.h"

typedef struct dv_gemm_plan dv_gemm_plan;

typedef struct dv_gemm_options {
    int32_t pack; // 0: decided by size, 1: always, -1: never
    // Cache sizes per core; 0: the defaults of the instruction set.
    int64_t l1_bytes, l2_bytes;
    // Elements of k summed in one chain if operands are packed; 0: chosen to
    // fit the caches.
    int32_t k_block;
    // Rows of a block of A if operands are packed; 0: chosen to fit the caches.
    int32_t m_block;
    // Columns after which a chunk of columns ends if operands are packed and k
    // has several chunks; 0: chosen to fit the caches.
    int32_t n_chunk;
    // Mask of the operands that the caller packs once, before the first run, if
    // the plan packs its operands (dv_gemm_plan_give).
    int32_t given;
} dv_gemm_options;
enum { DV_GIVEN_A = 1, DV_GIVEN_B = 2 };

// Makes a plan for one matrix product: its blocks, packing and kernels. Borrows
// `jit`. `shape` must have no batch and an unpacked A (panel_a 0).
dv_status dv_gemm_plan_create(dv_gemm_plan **out, dv_jit *jit,
                              const dv_gemm_shape *shape,
                              const dv_gemm_options *options, dv_diag *diag);
void dv_gemm_plan_destroy(dv_gemm_plan *plan);

// Returns the size in bytes of the workspace that the caller passes to a run.
int64_t dv_gemm_plan_workspace(const dv_gemm_plan *plan);

// Returns the mask of the operands (DV_GIVEN_A, DV_GIVEN_B) that the caller
// packs before the first run, and the bytes of one of them when packed (0: it
// is not in the mask). dv_gemm_plan_give packs it: from the operand as it is
// stored to memory that begins at a cache line.
int dv_gemm_plan_given(const dv_gemm_plan *plan);
int64_t dv_gemm_plan_given_bytes(const dv_gemm_plan *plan, int operand);
dv_status dv_gemm_plan_give(const dv_gemm_plan *plan, int operand,
                            const void *from, void *to, dv_diag *diag);

// A panel of B. Panels come in runs of equal width: it is panel number `i` of
// run number `run`.
typedef struct dv_gemm_panel {
    int32_t run, i;
    int32_t n0; // first column of the panel
} dv_gemm_panel;
// The state of one run of a plan, a cursor over the blocks of the product: its
// operands and the next block to compute.
typedef struct dv_gemm_cursor {
    const dv_gemm_plan *plan;
    const unsigned char *a, *b;
    unsigned char *c, *workspace;
    dv_gemm_args args;
    int32_t k0, m0;      // first index of the chunk of k, of the block of rows
    dv_gemm_panel first; // first panel of the chunk of columns
} dv_gemm_cursor;
// A finished block of results, which are still in cache; its columns have unit
// stride.
typedef struct dv_block {
    void *at;
    int32_t rows, cols;
    int64_t ld; // elements from row to row
} dv_block;
// Runs the plan in steps. dv_gemm_next computes until the next block of rows is
// finished, sets *finished to it and returns 1, or 0 after the last block.
// `args` is the same as for a kernel; `workspace` begins at a cache line. For
// an operand in the mask dv_gemm_plan_given(), pass its packed copy.
void dv_gemm_begin(dv_gemm_cursor *g, const dv_gemm_plan *plan, const void *a,
                   const void *b, void *c, void *workspace,
                   const dv_gemm_args *args);
int dv_gemm_next(dv_gemm_cursor *g, dv_block *finished);
// Computes the whole product in one call.
void dv_gemm_run(const dv_gemm_plan *plan, const void *a, const void *b,
                 void *c, void *workspace, const dv_gemm_args *args);
// Returns whether operands are packed, and sets *m and *k to the rows and the
// elements of k of a packed block of A.
int dv_gemm_plan_packs(const dv_gemm_plan *plan, int32_t *m, int32_t *k);
// Appends one line of text, without newline, that says how the product is cut.
void dv_gemm_plan_describe(const dv_gemm_plan *plan, dv_text *out);
#endif
