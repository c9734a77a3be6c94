// The code generators of each family of instruction sets, and what kernels of
// an instruction set can do beyond the table in kernel/.
#ifndef DV_JIT_BACKEND_H
#define DV_JIT_BACKEND_H
#include "base/text.h"
#include "jit/code.h"
#include "jit/jit.h"
#include "kernel/kernel.h"

// The code generators of one family of instruction sets. They only write
// bytes, so that all of them are compiled, and can be tested, on any machine.
typedef struct dv_backend {
    // Generate a kernel into `code`. Shapes are checked and complete: they have
    // no zeros that stand for defaults.
    void (*gemm)(dv_code *code, const dv_isa *isa, const dv_gemm_shape *shape);
    void (*move)(dv_code *code, const dv_isa *isa, const dv_move_shape *shape);
    // Generates a function void (int64_t iterations) that repeats independent
    // multiply-adds, and returns the flops of one iteration; 0: this type
    // cannot be multiplied.
    int (*peak)(dv_code *code, const dv_isa *isa, int dtype);
    int words; // 1: all instructions have four bytes
    // Appends the instruction at byte `at` of a kernel as assembly, and returns
    // its size in bytes; 0: these bytes are no instruction. *data is the lowest
    // offset of a constant (stored after the code) that the instructions listed
    // so far refer to.
    size_t (*list)(dv_text *out, const unsigned char *code, size_t at,
                   size_t size, size_t *data);
} dv_backend;
const dv_backend *dv_backend_of(const dv_isa *isa);
// Returns the generator of vector kernels (vec/) for an instruction set.
const struct dv_vec_isa *dv_backend_vec(const dv_isa *isa);

// Appends the listing of a kernel: one line per instruction, then its
// constants.
void dv_isa_list(const dv_isa *isa, const unsigned char *code, size_t size,
                 dv_text *out);

// Returns whether kernels of this shape round C to bf16 themselves. Only AMX
// kernels do, and only for whole vectors of C without an epilogue.
static inline int dv_isa_rounds(const dv_isa *isa, const dv_gemm_shape *s)
{
    return isa->has_tiles && s->dtype == DV_BF16 && s->ctype == DV_BF16 &&
           s->beta == DV_SCALE_ZERO && !s->bias && !s->relu && s->n % 16 == 0;
}

// Returns whether there is a kernel of this shape that also copies the A of the
// kernel that runs next (DV_AHEAD_COPY). Each register tile must span all
// columns of C, and the rows of A must divide evenly among the tiles, so that
// each tile copies the same number of whole rows.
static inline int dv_isa_copies_next(const dv_isa *isa, const dv_gemm_shape *s)
{
    enum { ES = 4, MOST_ROW = 31 * 16 / ES, MOST = 32768 / ES, LEAST_TURN = 8 };
    int32_t rows = isa->copy_tile_rows, cols = 6 * isa->vector_bytes / ES;
    return rows && (s->dtype == DV_F32 || s->dtype == DV_I32) && s->trans_a &&
           !s->trans_b && s->batch <= 1 && !s->panel_a && !s->next_b &&
           !s->bias && s->n == cols && s->m <= MOST_ROW && s->k < MOST &&
           (s->k + 1) * s->m < MOST && (s->k + 1) * s->ldb < MOST &&
           s->m % rows == 0 && s->k % (s->m / rows) == 0 &&
           (s->k - 2) / (s->k * rows / s->m) >= LEAST_TURN;
}

// Writes a function for this machine that passes its arguments on to `called`,
// with `kernel` as the fifth (record.c). Returns its bytes, at most
// DV_RECORDER_BYTES; 0: there is none for this machine.
enum { DV_RECORDER_BYTES = 32 };
size_t dv_jit_put_recorder(unsigned char *out, dv_jit_called *called,
                           uint64_t kernel);

// Returns the instruction set that this cache of kernels generates code for.
const dv_isa *dv_jit_isa(const dv_jit *jit);

void dv_a64_gemm(dv_code *code, const dv_isa *isa, const dv_gemm_shape *shape);
void dv_a64_move(dv_code *code, const dv_isa *isa, const dv_move_shape *shape);
void dv_x64_gemm(dv_code *code, const dv_isa *isa, const dv_gemm_shape *shape);
void dv_x64_move(dv_code *code, const dv_isa *isa, const dv_move_shape *shape);
size_t dv_a64_list(dv_text *out, const unsigned char *code, size_t at,
                   size_t size, size_t *data);
size_t dv_x_list(dv_text *out, const unsigned char *code, size_t at,
                 size_t size, size_t *data);
// Appends the assembly text of an AArch64 instruction word and returns 1.
// Returns 0 and appends nothing if the word matches no row of the instruction
// table (insn.def), as most constants in the code do not.
int dv_insn_list(dv_text *out, uint32_t word);
int dv_a64_peak(dv_code *code, const dv_isa *isa, int dtype);
int dv_x64_peak(dv_code *code, const dv_isa *isa, int dtype);
#endif
