// The plan of a matrix product, shared by the files that make and run it.
#ifndef DV_JIT_GEMM_PLAN_H
#define DV_JIT_GEMM_PLAN_H
#include "base/dtype.h"
#include "base/math.h"
#include "jit/gemm/cut.h"
#include "jit/gemm/gemm.h"
#include "jit/backend.h"

// Position of a piece (a chunk of k, or a block of rows) in its sequence, which
// selects the kernel. A single piece is DV_FIRST.
enum { DV_FIRST, DV_MIDDLE, DV_LAST, DV_N_KINDS };

// A run of n equal panels, each of `size` rows or columns.
typedef struct dv_panels {
    int32_t size, n;
} dv_panels;

// Which operands a kernel packs while it multiplies.
typedef enum dv_gemm_packing {
    DV_PACKS_NONE,
    DV_PACKS_B,
    DV_PACKS_A, // also packs B in the first block of rows
    DV_N_PACKINGS
} dv_gemm_packing;

struct dv_gemm_plan {
    const dv_isa *isa;
    dv_gemm_shape s;
    dv_dtype sum; // type of the accumulators
    dv_dtype out; // type that C is stored as
    // Bytes of an element of A and B, of the accumulators, and of C.
    int64_t es, es_sum, es_out;
    int64_t lanes; // elements of type `sum` in a vector register
    // Rows of a panel of A, vectors in a row of a panel of B.
    int32_t height, vectors;
    int32_t step; // elements of k that are contiguous in a packed row
    // 1: A and B, bf16 or i8, are packed for matrix or dot-product instructions
    // before use, not by the kernels.
    int32_t pairs;
    // 1: kernels round C to the type `out` themselves, so that no buffer of
    // accumulators is needed.
    int32_t rounds;
    // 1: operands are packed; 0: kernels read A and B as stored.
    int32_t packs;
    // Mask of the operands that are packed before the first run; DV_GIVEN_A and
    // DV_GIVEN_B. The bytes of a packed block of A, and of all packed panels of
    // a chunk of k of B.
    int32_t given;
    int64_t a_block_bytes, b_chunk_bytes;
    // 1: the rows of C are a single block, so each panel of B is used once and
    // all panels of B can be packed into the same buffer.
    int32_t one_block;
    int32_t kc, mc;    // size of a chunk of k, of a block of rows
    int32_t nc;        // columns after which a chunk of columns ends
    dv_panels cols[3]; // runs of equally wide panels of B, in order
    int32_t n_cols;
    // Kernels, indexed by the position (DV_FIRST and so on) of the chunk of k
    // and of the block of rows, by the run of equally wide panels of B, and by
    // dv_gemm_packing.
    dv_gemm_fn kernels[DV_N_KINDS][DV_N_KINDS][3][DV_N_PACKINGS];
    // Moves (copying kernels) that pack B before use, indexed by the position
    // (DV_FIRST and so on) of the chunk of k and by the run of equally wide
    // panels.
    dv_move_fn pack_b[DV_N_KINDS][3];
    // Moves (copying kernels) that pack A before use, indexed by the positions
    // (DV_FIRST and so on) of the chunk of k and of the block of rows, and by
    // the run of equally high panels of A.
    dv_move_fn pack_a[DV_N_KINDS][DV_N_KINDS][2];
    // Kernels that pack A before the first run, indexed by the positions of the
    // chunk of k and of the block of rows.
    dv_gemm_fn give_a[DV_N_KINDS][DV_N_KINDS];
    // Moves (copying kernels) that round accumulators into a narrow C, indexed
    // by the position (DV_FIRST and so on) of the block of rows.
    dv_move_fn narrow_c[DV_N_KINDS];
    // Kernel of the whole product if nothing is packed.
    dv_gemm_fn direct;
    // Offsets in the workspace of a run: packed panels of B, accumulators. The
    // packed block of A comes first.
    int64_t b_off, sums_off;
    int64_t workspace_bytes;
};

// Computes the size of piece i (a chunk of k or a block of rows) when n
// elements are cut into pieces of `most`, and returns its position: DV_FIRST,
// DV_MIDDLE or DV_LAST.
static inline int dv_gemm_piece(int32_t n, int32_t most, int32_t i,
                                int32_t *size)
{
    int32_t left = n - i * most;
    *size = left < most ? left : most;
    return i == 0 ? DV_FIRST : left <= most ? DV_LAST : DV_MIDDLE;
}

// Returns the next index after i whose kernel differs, in a sequence of n
// pieces (chunks of k or blocks of rows): 0, 1 and n - 1, since all middle
// pieces share one kernel.
static inline int32_t dv_gemm_next_kind(int32_t i, int32_t n)
{
    return i == 1 && n > 3 ? n - 1 : i + 1;
}

// A block of rows in a chunk of k: their positions, the elements of the chunk
// and the rows of the block.
typedef struct dv_gemm_block {
    int k_kind, m_kind;
    int32_t k, rows;
} dv_gemm_block;

static inline dv_gemm_block dv_gemm_block_at(const dv_gemm_plan *plan,
                                             int32_t k0, int32_t m0)
{
    dv_gemm_block b;
    b.k_kind = dv_gemm_piece(plan->s.k, plan->kc, k0 / plan->kc, &b.k);
    b.m_kind = dv_gemm_piece(plan->s.m, plan->mc, m0 / plan->mc, &b.rows);
    return b;
}

static inline int64_t dv_gemm_ldb(const dv_gemm_plan *plan, int32_t cols)
{
    return dv_round_up(cols, plan->lanes);
}

// Returns the row stride of the results that kernels write: that of C, or of
// the buffer of accumulators if C is narrow.
static inline int64_t dv_gemm_ldc(const dv_gemm_plan *plan)
{
    return plan->out == plan->sum ? plan->s.ldc
                                  : dv_round_up(plan->s.n, plan->lanes);
}

// Returns the bytes of correction terms per column of a packed panel of B.
// Unsigned-by-signed i8 dot products need them (x64/pairs.c).
static inline int64_t dv_gemm_correction_bytes(const dv_gemm_plan *plan)
{
    return plan->s.dtype == DV_I8 && plan->isa->i8_correction ? 4 : 0;
}

// Returns the bytes of a packed panel of B; dv_gemm_a_bytes does so for a panel
// of A that is packed before use.
static inline int64_t dv_gemm_b_bytes(const dv_gemm_plan *plan, int32_t cols,
                                      int32_t k)
{
    int64_t whole = dv_round_up(k, plan->pairs ? plan->step : 1);
    return dv_gemm_ldb(plan, cols) *
           (whole * plan->es + dv_gemm_correction_bytes(plan));
}

static inline int64_t dv_gemm_a_bytes(const dv_gemm_plan *plan, int32_t rows,
                                      int32_t k)
{
    return dv_round_up(rows, 2) * dv_round_up(k, plan->step) * plan->es;
}

// Cuts the columns of C into panels of B, and generates all kernels.
dv_status dv_gemm_make_kernels(dv_gemm_plan *plan, dv_jit *jit, dv_diag *diag);
// Generates the kernels that pack A before the first run (given.c).
dv_status dv_gemm_make_given(dv_gemm_plan *plan, dv_jit *jit, dv_diag *diag);
// Packs a block of rows of A, whose first element is at `from`, for operands
// that are packed before use (run.c).
void dv_gemm_pack_rows(const dv_gemm_plan *plan, const dv_gemm_block *at,
                       const unsigned char *from, unsigned char *to);
#endif
