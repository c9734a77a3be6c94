// What a plan for a product holds; shared by the files that make and run it.
#ifndef DV_JIT_GEMM_PLAN_H
#define DV_JIT_GEMM_PLAN_H
#include "base/dtype.h"
#include "base/math.h"
#include "jit/gemm/gemm.h"
#include "jit/backend.h"
#include <stdatomic.h>

enum {
    DV_FIRST,
    DV_MIDDLE,
    DV_LAST,
    DV_N_KINDS
}; // of a run; a lone one: FIRST

// A run of equal panels.
typedef struct dv_panels {
    int32_t size, n;
} dv_panels;

// An operand is brought into its packed form by one move or by two, through
// the part's buffer t.
typedef struct dv_prepare {
    dv_move_fn move, then; // `then` may be NULL
} dv_prepare;

// What a kernel of a plan packs on the way.
typedef enum dv_gemm_way {
    DV_PACKS_NONE,
    DV_PACKS_B,
    DV_PACKS_A, // and B, in the first block
    DV_N_WAYS
} dv_gemm_way;

// A block of C, its kernels, and the buffers of the thread whose it is.
typedef struct dv_gemm_share {
    int32_t m0, n0, m, n;
    dv_panels cols[3]; // panels of B, in order
    int32_t n_cols;
    // Chunk of k, block of rows, width, dv_gemm_way.
    dv_gemm_fn mul[DV_N_KINDS][DV_N_KINDS][3][DV_N_WAYS];
    dv_prepare b[DV_N_KINDS][3];             // chunk, width: before use
    dv_prepare a[DV_N_KINDS][DV_N_KINDS][2]; // chunk, block, run of its panels
    dv_move_fn widen_c[DV_N_KINDS], narrow_c[DV_N_KINDS]; // block
    dv_gemm_fn direct;                    // not packed: the whole block
    unsigned char *buf_a, *buf_b, *t, *c; // buffers, in plan->memory
    // Of the panels of B: where it begins, and the end of those that it packs
    // for others; and by panel, that it is in buf_b. In plan->memory, too.
    int32_t from, to;
    unsigned char *alone;
} dv_gemm_share;

// Parts one below the other have the same panels of B. Each packs some for all
// of them, begins with these, and finds the others' ready by then; one that is
// not, it packs for itself: nobody waits. Chunks are counted through all runs,
// from 1; those of a run take the two halves in turn, and a panel is packed
// over one that is two chunks old if all have done that chunk.
typedef struct dv_gemm_common {
    unsigned char *b[2];
    _Atomic int64_t *ready[2]; // by panel: its chunk
} dv_gemm_common;

// What a thread counts for the others to see, in lines of its own: how many of
// its parts are taken in a run, or the last chunk that it has done.
typedef struct dv_gemm_count {
    _Atomic int64_t n;
    char apart[120];
} dv_gemm_count;

// Of several products that are summed: plans for the first one, those that add
// to it, and the last, which finishes the sums.
typedef enum dv_gemm_turn {
    DV_TURN_FIRST,
    DV_TURN_NEXT,
    DV_TURN_LAST,
    DV_TURNS
} dv_gemm_turn;

struct dv_gemm_plan {
    const dv_isa *isa;
    dv_gemm_shape s;
    dv_gemm_plan *turn[DV_TURNS]; // owned; NULL: one product
    dv_dtype mul, sum; // what is multiplied and what sums are: mul differs from
                       // s.dtype when operands are widened
    dv_dtype out;      // what C is stored as
    int64_t es, es_mul, es_sum, es_out; // bytes of their elements
    int64_t lanes;                      // sums in a vector
    int32_t height, vectors;            // of panels of A, of B
    int32_t step;   // elements of k that are packed together
    int32_t pairs;  // operands are packed in pairs
    int32_t apart;  // A and B are packed before use, not on the way
    int32_t rounds; // kernels store C as `out`: what they sum in is theirs
    int32_t threads;
    int32_t busy;           // threads that have parts, the first ones
    int32_t n_parts;        // of C, so many a thread, in order
    int32_t packs;          // 0: parts are direct
    int32_t one_block;      // rows are not cut: panels of B are packed in turn
    int32_t kc, mc;         // chunk of k, block of rows
    dv_gemm_share *parts;   // owned
    dv_gemm_count *taken;   // owned, one a busy thread, if it has several parts
    int32_t wide;           // parts side by side
    dv_gemm_common *common; // owned, so many; NULL: parts share nothing
    dv_gemm_count *done;    // owned, one a part then
    int64_t chunks;         // of all runs before
    void *memory;           // owned, mapped
    size_t memory_bytes;
};

// Piece i of `n` cut into pieces of `most`: which kind, and how long.
static inline int dv_gemm_piece(int32_t n, int32_t most, int32_t i,
                                int32_t *size)
{
    int32_t left = n - i * most;
    *size = left < most ? left : most;
    return i == 0 ? DV_FIRST : left <= most ? DV_LAST : DV_MIDDLE;
}

// The panels of a block of A, as kernels expect them: at most two runs.
static inline void dv_gemm_rows(const dv_gemm_plan *plan, int32_t rows,
                                dv_panels out[2])
{
    if (plan->pairs) {
        out[0] = (dv_panels){plan->height, rows / plan->height};
        out[1] = (dv_panels){rows % plan->height, rows % plan->height > 0};
    } else {
        dv_cut c = dv_cut_even(rows, plan->height);
        out[0] = (dv_panels){c.size, c.n};
        out[1] = (dv_panels){c.size + 1, c.n_larger};
    }
}

static inline int64_t dv_gemm_ldb(const dv_gemm_plan *plan, int32_t cols)
{
    return dv_round_up(cols, plan->lanes);
}

// Rows of the buffer that sums wait in before they are rounded.
static inline int64_t dv_gemm_ldc(const dv_gemm_plan *plan,
                                  const dv_gemm_share *p)
{
    return plan->out == plan->sum ? plan->s.ldc
                                  : dv_round_up(p->n, plan->lanes);
}

// Bytes behind each column of a panel of B, which put sums right.
static inline int64_t dv_gemm_fix_bytes(const dv_gemm_plan *plan)
{
    return plan->mul == DV_I8 && plan->isa->pairs_fix ? 4 : 0;
}

// Bytes of packed panels: of B, of A.
static inline int64_t dv_gemm_b_bytes(const dv_gemm_plan *plan, int32_t cols,
                                      int32_t k)
{
    int64_t whole = dv_round_up(k, plan->pairs ? plan->step : 1);
    return dv_gemm_ldb(plan, cols) *
           (whole * plan->es_mul + dv_gemm_fix_bytes(plan));
}

static inline int64_t dv_gemm_a_bytes(const dv_gemm_plan *plan, int32_t rows,
                                      int32_t k)
{
    int64_t h = plan->pairs ? dv_round_up(rows, 2) : rows;
    int64_t step = plan->pairs       ? plan->step
                   : plan->s.trans_a ? 1
                                     : 16 / plan->es_mul;
    return h * dv_round_up(k, step) * plan->es_mul;
}

static inline int32_t dv_gemm_n_panels(const dv_gemm_share *p)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_cols; i++)
        n += p->cols[i].n;
    return n;
}

// Cut the parts' columns, and make all kernels (make.c).
void dv_gemm_cut(dv_gemm_plan *plan);
dv_status dv_gemm_make(dv_gemm_plan *plan, dv_jit *jit, dv_diag *diag);
#endif
