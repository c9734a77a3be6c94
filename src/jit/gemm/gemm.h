// A product of any size: cut to fit the caches, packed, and run by generated
// kernels, on any number of threads.
//
//   for each chunk of k:            so that a panel of B stays in L1
//     for each block of rows:       so that a block of A stays in L2
//       for each panel of B, a few vectors wide:
//         one kernel over the whole block, in tiles of a few rows
//         (dv_isa says how many: 20 columns and 4 rows of f32 on NEON)
//
// There is no pass for packing: the first tile of a panel writes B's panel, and
// the first panel of a block A's, from the registers they are multiplied from.
// Rows of k of B are packed before use, and so are narrow types: bf16 and i8 in
// pairs for matrix instructions (panels of 8 rows and 12 columns on NEON, of 32
// and 32 for AMX), f16 (and the others where the machine has no such
// instructions) widened to f32 or i32.
// Where C is narrow, a block's sums wait in a buffer and are rounded once.
//
// Small products are one kernel on the operands as they are. All kernels are
// made and all memory is had when the plan is made: a run allocates nothing,
// locks nothing, looks nothing up. Threads get blocks of C, cut along m and n
// together; every element is summed in the same order for any number of them.
// Threads with the same columns pack B for each other (plan.h). Where
// another thread would cost more than it gives, it has no part. Where cores are
// many, each has several: who is done first helps the others.
#ifndef DV_JIT_GEMM_H
#define DV_JIT_GEMM_H
#include "jit/jit.h"

typedef struct dv_gemm_plan dv_gemm_plan;

typedef struct dv_gemm_options {
    int32_t threads;                      // 0 means 1
    int32_t pack;                         // 0: by size, 1: always, -1: never
    int64_t l1_bytes, l2_bytes, l3_bytes; // of a core; 0: a common size
    int32_t tile_rows, tile_vectors;      // of C; 0: what suits the machine
    int32_t k_block; // of k that one chain sums, if it packs; 0: by the caches
    // A thread for so many multiply-adds, at most `threads`; 0: what pays.
    int64_t work;
    // Parts that a thread's work is cut into; 0: what pays. Those that are left
    // when other threads are done are theirs.
    int32_t parts_each;
} dv_gemm_options;

// Borrows `jit`. `shape` may not have panels. Batches are run one after the
// other, each adding to C, which is stored as what sums are then.
dv_status dv_gemm_plan_create(dv_gemm_plan **out, dv_jit *jit,
                              const dv_gemm_shape *shape,
                              const dv_gemm_options *options, dv_diag *diag);
void dv_gemm_plan_destroy(dv_gemm_plan *plan);

// Run with the plan's threads (through OpenMP where it was compiled in, else
// one after the other). `args` as for a kernel. A plan has one set of buffers:
// one run at a time.
void dv_gemm_run(dv_gemm_plan *plan, const void *a, const void *b, void *c,
                 const dv_gemm_args *args);
// The same where the caller has the threads: begin, members 0..busy side by
// side or one after the other, end.
void dv_gemm_begin(dv_gemm_plan *plan);
void dv_gemm_member(dv_gemm_plan *plan, int32_t i, const void *a, const void *b,
                    void *c, const dv_gemm_args *args);
void dv_gemm_end(dv_gemm_plan *plan);
// The parts of one thread, for callers with threads of their own; others do not
// take them then. They are independent: no barriers, any order.
void dv_gemm_part(dv_gemm_plan *plan, int32_t thread, const void *a,
                  const void *b, void *c, const dv_gemm_args *args);
int32_t dv_gemm_plan_threads(const dv_gemm_plan *plan);
// The first so many of them have a part.
int32_t dv_gemm_plan_busy(const dv_gemm_plan *plan);
// How it is cut, in a line of text without its end.
void dv_gemm_plan_tell(const dv_gemm_plan *plan, dv_text *out);
#endif
