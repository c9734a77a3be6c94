// What differs from machine to machine: one row an instruction set, and which
// of them this machine has. Generators only write bytes: all of them are
// compiled everywhere.
#ifndef DV_JIT_HOST_H
#define DV_JIT_HOST_H
#include "base/text.h"
#include "jit/code.h"
#include "jit/jit.h"

typedef struct dv_isa dv_isa;
struct dv_isa {
    const char *name;
    int vector_bytes; // of a whole vector
    uint32_t dtypes;  // bits 1 << dv_dtype: what there are kernels for
    uint32_t widened; // the same: what moves make wide and narrow again, and
                      // move as it is
    // What plans cut products into: rows of a panel of A, vectors of a row of
    // a panel of B. A kernel over one panel of each is one register tile wide.
    int panel_rows, panel_vectors;
    // The highest panels of A that kernels read, and write on the way.
    int most_read, most_packed;
    // Narrow types: rows and columns of their panels, bytes of k of a row that
    // lie together, and whether i8 leaves sums to be put right
    // (x64/pairs.c).
    int pairs_rows, pairs_cols, pairs_bytes, pairs_fix;
    int has_tiles;              // and whether they are multiplied with tiles,
                                // and bf16 is made by an instruction
    int64_t l1_bytes, l2_bytes; // common sizes of its machines' caches
    // Eighths: of L1 that panels at work take, of L2 that a block of A does,
    // and one that is read faster than f32; both of narrow panels.
    int panels_of_l1, block_of_l2, fast_of_l2, pairs_of_l1, pairs_of_l2;
    int parts_each; // parts of a large product a thread, at most (gemm.h)
    int shares;     // threads pack B for each other, where each has one part
    int bring_rows; // of the tiles of kernels that bring A; 0: there are none
    int streams;    // kernels write around the caches if asked to
    // Generate into `code`. Shapes are checked and complete (no zero
    // defaults).
    void (*gemm)(dv_code *code, const dv_isa *isa, const dv_gemm_shape *shape);
    void (*move)(dv_code *code, const dv_isa *isa, const dv_move_shape *shape);
    // A loop of independent multiply-adds, void (int64_t turns); the flops of
    // a turn, 0 when there are none for the type.
    int (*peak)(dv_code *code, const dv_isa *isa, int dtype);
    const struct dv_vec_isa *vec; // kernels of vec.h; NULL: none yet
    int words;                    // instructions are words of four bytes
    // Append the instruction at byte `at` of a kernel as assembly, and return
    // its bytes; 0: it is none. *data: where constants begin, as far as known.
    size_t (*list)(dv_text *out, const unsigned char *code, size_t at,
                   size_t size, size_t *data);
};

// Every set there are generators for; the better ones of a machine come first.
extern const dv_isa dv_isas[];
extern const int dv_n_isas;

// The best one that this machine has, or the one that DIVVY_CPU names if it has
// that; NULL when it has none.
const dv_isa *dv_isa_host(void);

// The one of a name, NULL: there is none; and whether this machine has it.
const dv_isa *dv_isa_find(const char *name);
int dv_isa_is_here(const dv_isa *isa);

// Append a kernel, an instruction a line, then its constants.
void dv_isa_list(const dv_isa *isa, const unsigned char *code, size_t size,
                 dv_text *out);

static inline int dv_isa_has(const dv_isa *isa, int dtype)
{
    return isa && dtype >= 0 && dtype < 32 && (isa->dtypes >> dtype & 1);
}

// Do kernels round the results themselves? Tiles do, whole vectors of bf16.
static inline int dv_isa_rounds(const dv_isa *isa, const dv_gemm_shape *s)
{
    return isa->has_tiles && s->dtype == DV_BF16 && s->ctype == DV_BF16 &&
           s->alpha != DV_SCALE_ANY && s->beta == DV_SCALE_ZERO && !s->bias &&
           !s->relu && s->n % 16 == 0;
}

// Can a kernel bring what the next one reads of A? Its tiles have all columns,
// and with each there is as much to bring: whole rows.
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

const dv_isa *dv_jit_isa(const dv_jit *jit); // that it makes kernels for

void dv_a64_gemm(dv_code *code, const dv_isa *isa, const dv_gemm_shape *shape);
void dv_a64_move(dv_code *code, const dv_isa *isa, const dv_move_shape *shape);
void dv_x64_gemm(dv_code *code, const dv_isa *isa, const dv_gemm_shape *shape);
void dv_x64_move(dv_code *code, const dv_isa *isa, const dv_move_shape *shape);
int dv_a64_peak(dv_code *code, const dv_isa *isa, int dtype);
int dv_x64_peak(dv_code *code, const dv_isa *isa, int dtype);
#endif
