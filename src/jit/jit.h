// Machine code for exact shapes: small matrix products and the moves around
// them, generated on first use and kept.
//
// A product is row-major, as everywhere in divvy:
//
//   C[m][n] = act(alpha * sum[b][k] A_b[m][k] * B_b[k][n] + beta * C + bias)
//
//   A is stored as rows of k (element (i,p) at a[i*lda + p]), or with trans_a
//   as rows of m (a[p*lda + i]); B as rows of n (b[p*ldb + j]), or with
//   trans_b as rows of k (b[j*ldb + p]); C as rows of n (c[i*ldc + j]).
//   Column-major operands are the same product with A and B exchanged.
//
// Everything in a dv_gemm_shape is baked into the code; only pointers, alpha,
// beta and the bias are given at the call. A kernel touches the elements of
// its operands and no byte beside them. With beta 0, C is not read.
//
// Invariants: J1 no page is ever writable and executable through one view.
// J2 a kernel, once handed out, stays where it is until dv_jit_destroy.
// J3 the same shape gives the same code, and the same sums in the same order.
#ifndef DV_JIT_H
#define DV_JIT_H
#include "base/diag.h"
#include "base/text.h"

// dv_jit: code memory and the kernels in it.

typedef enum dv_scale { DV_SCALE_ZERO, DV_SCALE_ONE, DV_SCALE_ANY } dv_scale;
enum { DV_NEXT_SPREAD = 2 };
typedef enum dv_bias { DV_BIAS_NONE, DV_BIAS_M, DV_BIAS_N } dv_bias;

// With trans_a and A as stored, while a kernel runs. Ask: it comes from memory,
// and what lies behind its rows is read next. Bring, where dv_isa_brings: A is
// tight, and what the next kernel reads is made so, from args->next, with rows
// lda apart, to args->pack_a.
typedef enum dv_ahead { DV_AHEAD_NONE, DV_AHEAD_ASK, DV_AHEAD_BRING } dv_ahead;

// All fields are part of the key: set them with an initialiser, so that
// unnamed ones are zero.
typedef struct dv_gemm_shape {
    int32_t m, n, k;       // from 1
    int32_t batch;         // products summed; 0 means 1
    int64_t lda, ldb, ldc; // elements from row to row; 0 means packed tight
    int64_t stride_a, stride_b; // elements from one product to the next
    int64_t step_c; // with DV_AHEAD_BRING: from the rows of C of one tile to
                    // those of the next; 0 means that they follow
    uint8_t dtype;  // of A, B and C: DV_F32, DV_F64 or DV_I32 (which wraps); or
                    // DV_BF16 with C in f32 and DV_I8 with C in i32: n up to
                    // dv_isa's pairs_cols then, A in panels of pairs_rows, both
                    // packed in pairs (B with overlap), lda and ldb play no
                    // part.
                    // Plans (gemm.h) take narrow types, DV_F16 too, as they
                    // are stored.
    uint8_t trans_a, trans_b;
    uint8_t alpha, beta; // dv_scale; alpha ZERO means ONE
    uint8_t bias;        // dv_bias: one value a row, or one a column
    uint8_t relu;        // negative results become 0, nan stays
    uint8_t panel_a;     // A is packed in panels of at most so many rows
    uint8_t next_b;      // what is read next follows B: it is prefetched; or
                         // DV_NEXT_SPREAD with pack_b: it is args->next, a
                         // block as this one is, asked for while k runs
    uint8_t pack_a;      // read A as stored, write it in panels on the way
    uint8_t pack_b;      // read B as stored, write it with the first panel of
                         // A. Both only of as many columns as a tile has
    uint8_t one_sum;     // one chain of additions an element, in order of k,
                         // whatever m and n are
    uint8_t ctype;       // plans: C is stored as DV_F16 or DV_BF16, rounded
                         // once from the sums in f32; 0 is the sums' type.
                         // The bias is of the sums' type. Kernels: only
                         // where dv_isa_rounds.
    uint8_t stream;      // C is not needed soon: write around the caches where
                         // it is whole lines. Others see it behind a fence.
    uint8_t ahead_a;     // dv_ahead: what is done of A for the next kernel
} dv_gemm_shape;

// Panels of A: m rows are cut into ceil(m / panel_a) panels as even as can
// be, the lower ones first, one after the other. Each is stored as
// DV_MOVE_PANEL makes it: `lanes` elements of k of every row in turn, 16 bytes
// on any machine; with trans_a, as rows of m that are as wide as the panel. lda
// plays no part, unless pack_a says that the kernel makes the panels itself.
// B is packed as rows of whole vectors, one after the other.
typedef struct dv_cut {
    int32_t size, n;  // n parts of `size`,
    int32_t n_larger; // then so many of size + 1
} dv_cut;
static inline dv_cut dv_cut_even(int32_t n, int32_t most)
{
    if (n <= most)
        return (dv_cut){n, 1, 0};
    int32_t parts = (n + most - 1) / most;
    return (dv_cut){n / parts, parts - n % parts, n % parts};
}

// What a kernel reads beside its operands; NULL when alpha and beta are not
// ANY and there is no bias.
typedef struct dv_gemm_args {
    double alpha, beta; // where sums are whole numbers, such of 32 bits
    const void *bias;
    // Where to: room for m rows of k rounded up to whole vectors, and for k
    // rows of n rounded up.
    void *pack_a, *pack_b;
    const void *next; // of next_b: asked for, not read; of DV_AHEAD_BRING: read
    // Of plans whose C is what sums are: called with each block of rows that is
    // done, while it is near, by the thread that has done it. NULL: nothing is.
    void (*then)(void *user, void *c, int32_t rows, int32_t cols);
    void *user;
} dv_gemm_args;

typedef void (*dv_gemm_fn)(const void *a, const void *b, void *c,
                           const dv_gemm_args *args);

// A move of a block: rows x cols elements, row to row lds apart, to dst.
//   zero        dst[i*ldd + j] = 0, src is not read
//   copy        dst[i*ldd + j] = src[i*lds + j]
//   transpose   dst[j*ldd + i] = src[i*lds + j]
//   panel       `lanes` elements of a row, 16 bytes, side by side:
//               dst[(j/lanes*rows + i)*lanes + j%lanes] = src[i*lds + j], the
//               last 16 bytes filled up with zeros. With rows = m and cols = k
//               this is what panel_a expects.
//   pairs       bf16, i8: rows of k, as many as a panel has, packed as the
//               machine's kernels want them: with `overlap` for B, else for A.
//               NEON: eight bytes of two rows a vector, zeros where there is
//               nothing; for B fours of rows, the last four the last ones.
//               AVX-512: x64/pairs.c
//   pairs turned   the same from rows of m or n
//   widen       copy f16 and bf16 into f32, i8 into i32
//   narrow      copy f32 into f16 or bf16, rounded to nearest even
typedef enum dv_move {
    DV_MOVE_ZERO,
    DV_MOVE_COPY,
    DV_MOVE_TRANSPOSE,
    DV_MOVE_PANEL,
    DV_MOVE_PAIRS,
    DV_MOVE_PAIRS_TURNED,
    DV_MOVE_WIDEN,
    DV_MOVE_NARROW
} dv_move;

typedef struct dv_move_shape {
    int64_t lds, ldd;
    int32_t rows, cols;
    uint8_t dtype; // zero, copy, transpose: of any that kernels have, bits as
                   // they are; panel: DV_F32, DV_F64, DV_I32; the narrow one of
                   // the others
    uint8_t move;  // dv_move
    uint8_t overlap;
    uint8_t pad[5];
} dv_move_shape;

typedef void (*dv_move_fn)(const void *src, void *dst);

// dv_jit_create and dv_jit_destroy are public: divvy.h has them.
// The one of this process, made on first use and never destroyed: kernels are
// made once for all. NULL where there are none for the machine.
dv_jit *dv_jit_shared(void);

// One for the kernels of an instruction set by name, "" for this machine's. A
// foreign one makes and lists kernels that cannot be run here.
dv_status dv_jit_create_for(dv_jit **out, const char *kernels, dv_diag *diag);
int dv_jit_runs(const dv_jit *jit);

// Make the writable view of the code inaccessible. Those who have made all
// kernels they need call it, so that nothing can change code while it runs.
// Kernels can be made afterwards: the first one makes the view accessible
// again.
void dv_jit_seal(dv_jit *jit);

// The kernel of a shape: found, or made and kept. Any number of threads may
// call at once; a hit takes no lock. The pointer is valid as long as `jit`.
// DV_E_SHAPE when the shape contradicts itself, DV_E_DTYPE when there is no
// kernel for its type, DV_E_LIMIT when it does not fit the encodings.
dv_status dv_jit_gemm(dv_jit *jit, const dv_gemm_shape *shape, dv_gemm_fn *out,
                      dv_diag *diag);
dv_status dv_jit_move(dv_jit *jit, const dv_move_shape *shape, dv_move_fn *out,
                      dv_diag *diag);

// All kernels in the order they were made: name, size, instruction words.
// `before` (may be NULL) is called with the number of each first.
typedef void (*dv_jit_before)(const void *user, int64_t number, dv_text *out);
void dv_jit_list(dv_jit *jit, dv_text *out, dv_jit_before before,
                 const void *user);

typedef struct dv_jit_stats {
    int64_t n_kernels;
    int64_t code_bytes, mapped_bytes;
    int two_views; // 0: the system refused, pages flip from W to X instead
} dv_jit_stats;
void dv_jit_stats_get(dv_jit *jit, dv_jit_stats *out);
#endif
