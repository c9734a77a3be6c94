// Describes the instruction sets, one dv_isa each, and tells which of them this
// machine has. Generators only write bytes, so all of them are compiled on
// every machine.
#ifndef DV_JIT_HOST_H
#define DV_JIT_HOST_H
#include "base/text.h"
#include "jit/code.h"
#include "jit/jit.h"

typedef struct dv_isa dv_isa;
struct dv_isa {
    const char *name;
    int vector_bytes; // bytes of a vector register
    // Bit 1 << dv_dtype is set if products of this type have kernels.
    uint32_t dtypes;
    // Bit 1 << dv_dtype is set if moves copy, widen and narrow this type.
    uint32_t widened;
    // Panel sizes that plans use: rows of a panel of A, and vectors per row of
    // a panel of B. One panel of A by one panel of B is one register tile.
    int panel_rows, panel_vectors;
    // The most rows of a panel of A that kernels can read, and that they can
    // pack while they multiply.
    int most_read, most_packed;
    // Panels of narrow types (DV_MOVE_PAIRS): rows, columns, bytes of k that
    // are adjacent in a row, and whether products of i8 need a correction term,
    // which is stored behind the columns (x64/pairs.c).
    int pairs_rows, pairs_cols, pairs_bytes, pairs_fix;
    // 1: there are AMX tile instructions for narrow types, and an instruction
    // that rounds f32 to bf16.
    int has_tiles;
    int64_t l1_bytes, l2_bytes; // typical cache sizes, if unknown
    // Shares of a cache in eighths: of L1 for the panels in use, of L2 for a
    // block of A, of L2 for a block of A in f64, and of L1 and L2 for panels of
    // narrow types.
    int panels_of_l1, block_of_l2, fast_of_l2, pairs_of_l1, pairs_of_l2;
    int parts_each; // most parts per thread of a large product (gemm.h)
    // 1: threads that need the same panels of B share the work of packing.
    int shares;
    // Rows per tile of kernels with DV_AHEAD_BRING; 0: not supported.
    int bring_rows;
    int streams; // 1: kernels support non-temporal stores of C
    // Generators of kernels. They append to `code`; the shape has been checked
    // and its defaults have been replaced by values.
    void (*gemm)(dv_code *code, const dv_isa *isa, const dv_gemm_shape *shape);
    void (*move)(dv_code *code, const dv_isa *isa, const dv_move_shape *shape);
    // Generates void loop(int64_t iterations), a loop of independent
    // multiply-adds. Returns the flops of one iteration, or 0 when the type has
    // no kernels.
    int (*peak)(dv_code *code, const dv_isa *isa, int dtype);
    // The back end of the vector kernels (vec.h); NULL: none.
    const struct dv_vec_isa *vec;
    int words; // 1: every instruction is a word of four bytes
    // Appends the assembly text of the instruction at byte `at` of a kernel,
    // and returns the instruction's size; 0 if the bytes are no known
    // instruction. Lowers *data to the offset of the first constant that the
    // instruction refers to.
    size_t (*list)(dv_text *out, const unsigned char *code, size_t at,
                   size_t size, size_t *data);
};

// All instruction sets that have generators; of those that a machine has, the
// best one comes first.
extern const dv_isa dv_isas[];
extern const int dv_n_isas;

// Returns the best instruction set that this machine has, or the one that the
// environment variable DIVVY_CPU names if the machine has it; NULL when there
// is none.
const dv_isa *dv_isa_host(void);

// Returns the instruction set with this name, or NULL. dv_isa_is_here returns
// whether this machine has it.
const dv_isa *dv_isa_find(const char *name);
int dv_isa_is_here(const dv_isa *isa);

// Appends the listing of a kernel: one line per instruction, then its
// constants.
void dv_isa_list(const dv_isa *isa, const unsigned char *code, size_t size,
                 dv_text *out);

static inline int dv_isa_has(const dv_isa *isa, int dtype)
{
    return isa && dtype >= 0 && dtype < 32 && (isa->dtypes >> dtype & 1);
}

// Returns whether kernels of this shape round C to bf16 themselves. Only AMX
// kernels do, and only for whole vectors of C without an epilogue.
static inline int dv_isa_rounds(const dv_isa *isa, const dv_gemm_shape *s)
{
    return isa->has_tiles && s->dtype == DV_BF16 && s->ctype == DV_BF16 &&
           s->alpha != DV_SCALE_ANY && s->beta == DV_SCALE_ZERO && !s->bias &&
           !s->relu && s->n % 16 == 0;
}

// Returns whether there is a kernel of this shape that also copies the next
// kernel's A (DV_AHEAD_BRING). Each tile must span all columns of C, and the
// rows of A must divide evenly among the tiles, so that each tile copies the
// same number of whole rows.
static inline int dv_isa_brings(const dv_isa *isa, const dv_gemm_shape *s)
{
    enum { ES = 4, MOST_ROW = 31 * 16 / ES, MOST = 32768 / ES, LEAST_TURN = 8 };
    int32_t rows = isa->bring_rows, cols = 6 * isa->vector_bytes / ES;
    return rows && (s->dtype == DV_F32 || s->dtype == DV_I32) && s->trans_a &&
           !s->trans_b && s->batch <= 1 && !s->panel_a && !s->next_b &&
           !s->bias && s->n == cols && s->m <= MOST_ROW && s->k < MOST &&
           (s->k + 1) * s->m < MOST && (s->k + 1) * s->ldb < MOST &&
           s->m % rows == 0 && s->k % (s->m / rows) == 0 &&
           (s->k - 2) / (s->k * rows / s->m) >= LEAST_TURN;
}

static inline int dv_jit_host_has_kernels(void)
{
    return dv_isa_host() != NULL;
}

static inline int dv_jit_host_has_bf16(void)
{
    return dv_isa_has(dv_isa_host(), DV_BF16);
}

// Returns the instruction set that this cache generates kernels for.
const dv_isa *dv_jit_isa(const dv_jit *jit);

void dv_a64_gemm(dv_code *code, const dv_isa *isa, const dv_gemm_shape *shape);
void dv_a64_move(dv_code *code, const dv_isa *isa, const dv_move_shape *shape);
void dv_x64_gemm(dv_code *code, const dv_isa *isa, const dv_gemm_shape *shape);
void dv_x64_move(dv_code *code, const dv_isa *isa, const dv_move_shape *shape);
int dv_a64_peak(dv_code *code, const dv_isa *isa, int dtype);
int dv_x64_peak(dv_code *code, const dv_isa *isa, int dtype);
#endif
