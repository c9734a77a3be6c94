// Generates machine code for exact shapes: small matrix products, and the
// copies, transposes and conversions ("moves") of their operands. A kernel is
// generated on first use and stays in the cache.
//
// A product is row-major, as everywhere in divvy:
//
//   C[m][n] = act(sum[b][k] A_b[m][k] * B_b[k][n] + beta * C + bias)
//
//   A is stored as rows of k (element (i,p) at a[i*lda + p]), or with trans_a
//   as rows of m (a[p*lda + i]); B as rows of n (b[p*ldb + j]), or with
//   trans_b as rows of k (b[j*ldb + p]); C as rows of n (c[i*ldc + j]).
//   Column-major operands are the same product with A and B exchanged.
//
// Every field of a dv_gemm_shape is a constant of the generated code; only
// pointers are passed at the call. A kernel accesses the elements of its
// operands and no byte outside them. With beta 0, C is not read.
//
// Invariants: J1: no page is ever writable and executable through one mapping.
// J2: a kernel, once returned, keeps its address until dv_jit_destroy. J3: the
// same shape gives the same code, which adds the same terms in the same order.
//
//   arena.[ch]    memory for code: one mapping to write, one to execute
//   backend.[ch]  the code generators of each family of instruction sets
//   cache.c       the cache of kernels; looks them up by shape without a lock
//   code.h        the byte buffer that instruction encoders append to
//   list.c        prints kernels as assembly
//   record.c      functions that record the calls of kernels
//   peak.[ch]     a loop of independent multiply-adds, for the peak flop rate
//
//   gemm/ has products of any size:
//   gemm.h, run.c      the loop nest around kernels
//   plan.[ch], make.c  block sizes, workspace, the kernels of a product
//   given.c            operands that are packed before the first run
//   prod.[ch], walk.h  register tiles of a product, and loops over them
//   cut.h, dots.h      cuts into tiles; products of dot products
//
//   vec/ has kernels of pointwise statements and reductions:
//   vec.h, shape.c     what a kernel computes
//   build.c, fn.c      expressions as operations on vectors; functions
//   math.[ch], arc.c, trig.c, power.c  mathematical functions
//   narrow.c           floats stored as integers
//   repair.c           calls of the C library for rare arguments
//   ir.h, order.c      operations, and their order
//   alloc.[ch]         registers
//   plan.c, plans.c    loops; a cache of them
//   emit.h             what the back ends share
//
//   a64/ and x64/ have encoders and generators of AArch64 and x86-64:
//   insn.[ch], insn.def, form.def  instructions and their encoding
//   list.c, peak.c     disassembly; loops that measure the peak
//   gen.[ch]           what the generators share
//   gemm.c, tile.[ch]  products, and the loop over k of a register tile
//   kloop.h, steps.c, pattern.c, prefetch.c  that loop on AArch64
//   store.c            the epilogue of a tile
//   dot.c, pairs.c, amx.c  dot products, bf16 and i8, AMX tiles
//   move.c, convert.c  copies, transposes, conversions
//   vec.[ch], vec_arith.[ch], vec_mem.c  back ends of vec/
//
// Other folders may also include: backend.h, gemm/gemm.h, peak.h, vec/vec.h
#ifndef DV_JIT_H
#define DV_JIT_H
#include "divvy/nest.h"
#include "base/diag.h"
#include "base/text.h"

// A dv_jit (declared in divvy/nest.h) is a cache of kernels together with the
// memory that holds their code. The types below describe its kernels.

typedef enum dv_scale { DV_SCALE_ZERO, DV_SCALE_ONE } dv_scale;
enum { DV_NEXT_SPREAD = 2 };
typedef enum dv_bias { DV_BIAS_NONE, DV_BIAS_M, DV_BIAS_N } dv_bias;

// What a kernel does for the next kernel's A while it runs. Both options need
// trans_a and an unpacked A. DV_AHEAD_PREFETCH: the kernel prefetches the
// memory that follows each row of A, because A comes from main memory and the
// next kernel reads there. DV_AHEAD_COPY (only where dv_isa_copies_next): this
// kernel's A is contiguous, and the kernel copies the next kernel's A, whose
// rows are lda apart, from args->next into the contiguous buffer args->pack_a.
typedef enum dv_ahead {
    DV_AHEAD_NONE,
    DV_AHEAD_PREFETCH,
    DV_AHEAD_COPY
} dv_ahead;

// The shape of a product. Its bytes are the key of the kernel cache: set it
// with an initialiser, so that fields which are not named are zero.
typedef struct dv_gemm_shape {
    int32_t m, n, k; // extents, each at least 1
    int32_t batch;   // number of products A_b * B_b that are summed; 0 means 1
    // Leading dimensions in elements; 0 means that rows are contiguous.
    int64_t lda, ldb, ldc;
    // Distance in elements from A (or B) of one product of the batch to that of
    // the next.
    int64_t stride_a, stride_b;
    // For a kernel that copies the next kernel's A (DV_AHEAD_COPY): elements
    // from the first row of C of one register tile to the first row of the next
    // one; 0 means that the tiles follow each other in C.
    int64_t step_c;
    // Type of A, B and C: DV_F32, DV_F64 or DV_I32 (which wraps around).
    // Kernels also multiply DV_BF16 into a C of f32 and DV_I8 into one of i32.
    // The move DV_MOVE_PAIRS must then have packed both operands (B with
    // `overlap`), A in panels of dv_isa.pairs_rows rows; n is at most
    // dv_isa.pairs_cols, and lda and ldb are ignored. Plans for products of any
    // size (gemm.h) take them unpacked.
    uint8_t dtype;
    uint8_t trans_a, trans_b;
    uint8_t beta; // dv_scale: whether the sums are added to C
    uint8_t bias; // dv_bias: none, one value per row of C, or one per column
    uint8_t relu; // 1: negative results become 0; nan stays nan
    // Largest number of rows of a packed panel of A; 0: A is not packed.
    uint8_t panel_a;
    // 1: the block of B that the next kernel reads follows B in memory; the
    // kernel prefetches it. DV_NEXT_SPREAD, only with pack_b: that block is at
    // args->next and has the same shape as B; its prefetches are spread over
    // the steps of k.
    uint8_t next_b;
    // 1: the kernel reads the unpacked A and packs it at args->pack_a.
    uint8_t pack_a;
    // 1: reads the unpacked B and packs it at args->pack_b while the first
    // panel of A is multiplied. With pack_a or pack_b, n may not exceed the
    // columns of one register tile.
    uint8_t pack_b;
    // 1: each element of C is one chain of additions in the order of k, for any
    // m and n, so that results do not depend on how C is cut into tiles.
    uint8_t one_sum;
    // In plans (products of any size): C is stored as DV_F16 or DV_BF16,
    // rounded once from the f32 accumulators; 0 means the type of the
    // accumulators, which the bias always has. In kernels: not 0 only where
    // dv_isa_rounds says that they can round.
    uint8_t ctype;
    // 1: C is not read again soon, so whole cache lines of C are written with
    // non-temporal stores. Other threads see them only after a store fence.
    uint8_t stream;
    uint8_t ahead_a; // dv_ahead: what the kernel does for the next kernel's A
    uint8_t pad[2];
} dv_gemm_shape;

// A cut of n items into parts whose sizes differ by at most 1. The m rows of a
// packed A are cut in this way into ceil(m / panel_a) panels, smaller panels
// first, stored one after the other. A panel has 16 bytes of k of row 0, of row
// 1, and so on, then the next 16 bytes of k, padded with zeros; with trans_a it
// has k rows of panel height. lda is ignored, unless
// pack_a says that the kernel packs A itself. A packed B has k contiguous rows,
// each n rounded up to whole vectors.
typedef struct dv_cut {
    int32_t size, n;  // number of parts of `size` items, which come first
    int32_t n_larger; // number of parts of size + 1 items, which follow
} dv_cut;
static inline dv_cut dv_cut_even(int32_t n, int32_t most)
{
    if (n <= most)
        return (dv_cut){n, 1, 0};
    int32_t parts = (n + most - 1) / most;
    return (dv_cut){n / parts, parts - n % parts, n % parts};
}

// Arguments of a kernel besides its operands. The pointer to them may be NULL
// when there is no bias, and the kernel neither packs nor uses `next`.
typedef struct dv_gemm_args {
    const void *bias;
    // Buffers that a kernel packs into: m rows of k rounded up to whole vectors
    // for A, k rows of n rounded up to whole vectors for B.
    void *pack_a, *pack_b;
    // The operand that the next kernel reads: prefetched with DV_NEXT_SPREAD,
    // copied with DV_AHEAD_COPY.
    const void *next;
} dv_gemm_args;

typedef void (*dv_gemm_fn)(const void *a, const void *b, void *c,
                           const dv_gemm_args *args);

// Kinds of moves. A move copies a block of rows x cols elements, whose rows are
// lds elements apart, from src to dst:
//   copy        dst[i*ldd + j] = src[i*lds + j]
//   transpose   dst[j*ldd + i] = src[i*lds + j]
//   pairs       packs bf16 or i8, stored as rows of k, for matrix instructions;
//               with `overlap` as a panel of B, else as a panel of A. NEON: a
//               vector has 8 bytes of k of two rows, padded with zeros; for B,
//               rows come in fours, and the last four overlap the ones before
//               them. AVX-512: see x64/pairs.c.
//   pairs transposed  the same, from the transposed source (rows of m or n)
//   narrow      converts f32 to f16 or bf16, rounding to nearest even
typedef enum dv_move {
    DV_MOVE_COPY,
    DV_MOVE_TRANSPOSE,
    DV_MOVE_PAIRS,
    DV_MOVE_PAIRS_TRANSPOSED,
    DV_MOVE_NARROW
} dv_move;

typedef struct dv_move_shape {
    int64_t lds, ldd;
    int32_t rows, cols;
    // Element type. copy, transpose: any type that has kernels, moved bit by
    // bit. Other moves: the narrow type, DV_F16, DV_BF16 or DV_I8.
    uint8_t dtype;
    uint8_t move; // the kind of move, a dv_move
    uint8_t overlap;
    uint8_t pad[5];
} dv_move_shape;

typedef void (*dv_move_fn)(const void *src, void *dst);

// Returns the kernel cache of this process, so that all users share its
// kernels, or NULL if there are no kernels for this machine. It is kept until
// every user has called dv_jit_release, also when it is replaced because it is
// full. (dv_jit_create and dv_jit_destroy are declared in divvy/nest.h.)
dv_jit *dv_jit_shared(void);
void dv_jit_release(dv_jit *jit); // jit may be NULL

// Creates a kernel cache for the instruction set with the name `kernels`, ""
// meaning this machine's best one. Kernels of another machine's instruction set
// can be generated and listed, but not run; dv_jit_can_run tells which.
dv_status dv_jit_create_for(dv_jit **out, const char *kernels, dv_diag *diag);
int dv_jit_can_run(const dv_jit *jit);

// Makes the writable mapping of the code inaccessible. Callers do this when
// they have all the kernels they need, so that nothing can modify code while it
// runs. Later kernels can still be generated: the next one makes the mapping
// writable again.
void dv_jit_seal(dv_jit *jit);

// Returns in *out the kernel of a shape, from the cache or newly generated. Any
// number of threads may call this at once; a cache hit takes no lock. The
// pointer is valid as long as `jit`. Errors: DV_E_SHAPE when the shape
// contradicts itself, DV_E_DTYPE when there is no kernel for its type,
// DV_E_LIMIT when an operand does not fit an instruction's encoding.
dv_status dv_jit_gemm(dv_jit *jit, const dv_gemm_shape *shape, dv_gemm_fn *out,
                      dv_diag *diag);
dv_status dv_jit_move(dv_jit *jit, const dv_move_shape *shape, dv_move_fn *out,
                      dv_diag *diag);

// Lists all kernels in the order in which they were generated: name, size and
// instructions. `before` (may be NULL) is called with the number of each kernel
// before its listing, to print a heading.
typedef void (*dv_jit_before)(const void *user, int64_t number, dv_text *out);
void dv_jit_list(dv_jit *jit, dv_text *out, dv_jit_before before,
                 const void *user);

// The function that records a call of a kernel: it gets the arguments of the
// call and the kernel's number. A product has four arguments, a move two, a
// vector kernel one; the others are not set.
typedef void dv_jit_called(const void *a, const void *b, void *c,
                           const void *args, uint64_t kernel);
// Makes a still empty kernel cache return, in place of kernels, functions that
// record their calls by calling `called`. The kernels may then be of any
// instruction set. Error: DV_E_SYSTEM if there is no such function for this
// machine.
dv_status dv_jit_record(dv_jit *jit, dv_jit_called *called, dv_diag *diag);

typedef enum dv_jit_kind { DV_JIT_GEMM, DV_JIT_MOVE, DV_JIT_VEC } dv_jit_kind;
typedef struct dv_jit_kernel {
    dv_jit_kind kind;
    const void *code; // position-independent, unless it calls
    size_t size_bytes;
    int32_t n_operands; // of a vector kernel
    int calls;          // 1: it calls functions of this process (repair.c)
    int uses_tiles;     // 1: it uses the tile registers of AMX
    char name[128];
} dv_jit_kernel;
// Describes kernel number `number`, counted from 0 in the order in which they
// were generated.
void dv_jit_kernel_get(dv_jit *jit, uint64_t number, dv_jit_kernel *out);

typedef struct dv_jit_stats {
    int64_t n_kernels;
    int64_t code_bytes, mapped_bytes;
    // 1: code has a writable and an executable mapping. 0: the system refused
    // that, so pages are switched from writable to executable instead.
    int two_views;
} dv_jit_stats;
void dv_jit_stats_get(dv_jit *jit, dv_jit_stats *out);
#endif
