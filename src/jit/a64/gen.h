// Shared by all AArch64 generators: addition of constants, loads and stores of
// whole and partial vectors at any offset, function entry and exit.
//
// The generators of this folder:
//
//   insn.[h,def]       instruction table and encoder
//   form.def           operand fields of the instruction words
//   gen.[ch]           the parts that all generators share
//   gemm.c             a product as loops over register tiles
//   tile.[ch]          the loop over k of one tile
//   kloop.h            the plan of that loop, for tile.c, pattern.c, steps.c
//   pattern.c          registers and load schedule of the steps of k
//   steps.c            writes the steps with their offsets
//   store.c            the epilogue of a tile: scale, add, clamp, store
//   prefetch.c         prefetches and copies for the next kernel
//   dot.c              products of two operands with rows of k
//   pairs.c            products of bf16 and i8 by matrix instructions
//   move.c             copies, transposes, packing
//   convert.c          conversions between narrow and wide types
//   vec.c              back end of the vector kernels (jit/vec)
//   vec_arith.[ch]     arithmetic of the vector kernels
//   peak.c             a loop that runs at the peak rate
//   list.c             disassembler
#ifndef DV_JIT_GEN_H
#define DV_JIT_GEN_H
#include "base/dtype.h"
#include "jit/a64/insn.h"
#include "jit/backend.h"

// Register assignment. x18 is reserved by the platform. x19 to x28 and the low
// halves of v8 to v15 are callee-saved; kernels save them only if they use
// them.
enum {
    // Address of what the tile reads as scalars (usually rows of A).
    X_A = 0,
    X_B = 1,
    X_C = 2,
    X_ARGS = 3,
    X_ROW = 4,    // first of the running pointers to rows of A
    X_SPACK = 10, // running pointer to the packed A that is written
    X_VPACK = 11,
    X_BELOW = 8,  // bytes from a row of A to the same row of the next tile
    X_SOON = 9,   // running pointer to the rows of B to prefetch
    X_K = 12,     // counter of the loop over k, counts down
    X_BATCH = 13, // counter of the loop over the batch, counts down
    X_BRUN = 14,  // running pointer into B
    X_CRUN = 15,
    X_TMP = 16,
    X_ODD = 16, // running pointer to the unaligned last vector of a row of B
    X_TMP2 = 17,
    X_M = 19, // counter of the loop over tiles along m, counts down
    X_N = 20, // counter of the loop over tiles along n, counts down
    X_ABASE = 21,
    X_CBASE = 22,
    X_LDA = 23, // lda in bytes, if it does not fit an immediate
    X_LDB = 24,
    X_LDC = 25,
    X_BIAS = 26,
    X_BIASBASE = 27,
    X_NEXT = 28, // pointer to what the next kernel reads
    X_SP = 31
};
// Registers of moves (kernels that copy, transpose, pack or convert): source
// and destination, running pointers into a row of both, and counters of rows
// and of pieces of a row.
enum { X_SRC = 0, X_DST = 1, X_S = 2, X_D = 3, X_I = 4, X_J = 5 };
// Values of the operand of prefetch instructions (for a load, into L1 or into
// L2), and the bytes of a cache line.
enum { LOAD_L1 = 0, LOAD_L2 = 2, LINE = 64 };

typedef struct dv_gen {
    dv_code *code;
    int es, lanes; // bytes per element, elements per vector
    int ints;      // 1: elements are integers
    int n_vregs;   // number of vector registers that the kernel uses
    int saves_x;   // 1: the kernel also uses, and saves, x19 to x28
} dv_gen;

#define DV_E(op, a, b, c, d) dv_emit(g->code, DV_INSN_##op, (a), (b), (c), (d))
// Emits the variant of an instruction for the element type: op_4s, op_4i or
// op_2d.
#define DV_EF(op, a, b, c, d)                                                  \
    do {                                                                       \
        if (g->es == 8)                                                        \
            DV_E(op##2d, a, b, c, d);                                          \
        else if (g->ints)                                                      \
            DV_E(op##4i, a, b, c, d);                                          \
        else                                                                   \
            DV_E(op##4s, a, b, c, d);                                          \
    } while (0)

// The operations on general registers in which generators shared with other
// instruction sets are written (code.h), for AArch64.
#define DV_GEN                     dv_gen
#define DV_LEA(to, from, bytes)    dv_gen_add(g, to, from, bytes)
#define DV_MOV(to, from)           DV_E(mov_x, to, 0, from, 0)
#define DV_SET(reg, n)             dv_gen_mov(g, reg, n)
#define DV_AGAIN(reg, top)         dv_gen_loop_end(g, reg, top)
#define DV_LOAD(reg, base, bytes)  DV_E(ldr_x, reg, base, bytes, 0)
#define DV_STORE(reg, base, bytes) DV_E(str_x, reg, base, bytes, 0)

// Returns the i-th vector register in the order of allocation: registers that
// need no saving come first.
static inline int dv_gen_reg(int i)
{
    static const unsigned char order[32] = {
        0,  1,  2,  3,  4,  5,  6,  7,  16, 17, 18, 19, 20, 21, 22, 23,
        24, 25, 26, 27, 28, 29, 30, 31, 8,  9,  10, 11, 12, 13, 14, 15};
    return order[i];
}

// Returns whether one add or sub instruction can add this constant.
static inline int dv_gen_fits_add(int64_t imm)
{
    int64_t v = imm < 0 ? -imm : imm;
    return v < 4096 || (v % 4096 == 0 && v < 4096 * 4096);
}
void dv_gen_add_any(dv_gen *g, int rd, int rn, int64_t imm);
static inline void dv_gen_add(dv_gen *g, int rd, int rn, int64_t imm)
{
    if (imm > 0 && imm < 4096)
        DV_E(addi_x, rd, rn, imm, 0);
    else
        dv_gen_add_any(g, rd, rn, imm);
}
void dv_gen_mov(dv_gen *g, int rd, int64_t imm);
// Load and store the first `bytes` bytes, up to 16, of a vector register at any
// offset. Loads clear the other bytes. X_TMP2 may be overwritten, and X_TMP if
// the bytes are not a multiple of 4.
void dv_gen_load_any(dv_gen *g, int v, int base, int64_t off, int bytes);
void dv_gen_store_any(dv_gen *g, int v, int base, int64_t off, int bytes);

// Returns whether one ldr or str can load or store these bytes: a whole vector
// at an offset that it can encode, as in nearly all cases.
static inline int dv_gen_fits_ldr_q(int64_t off, int bytes)
{
    return bytes == 16 && (off & ~INT64_C(0xfff0)) == 0;
}

static inline void dv_gen_load(dv_gen *g, int v, int base, int64_t off,
                               int bytes)
{
    if (dv_gen_fits_ldr_q(off, bytes))
        DV_E(ldr_q, v, base, off, 0);
    else
        dv_gen_load_any(g, v, base, off, bytes);
}

static inline void dv_gen_store(dv_gen *g, int v, int base, int64_t off,
                                int bytes)
{
    if (dv_gen_fits_ldr_q(off, bytes))
        DV_E(str_q, v, base, off, 0);
    else
        dv_gen_store_any(g, v, base, off, bytes);
}
// Loads (store = 0) or stores (store = 1) 1, 2, 4, 8 or 16 bytes at an offset
// that one instruction can encode; dv_gen_lane does so with one element of up
// to 8 bytes at address `base`, in the given lane of a vector.
void dv_gen_bytes(dv_gen *g, int store, int v, int base, int64_t off,
                  int bytes);
void dv_gen_lane(dv_gen *g, int store, int v, int base, int lane, int bytes);
void dv_gen_enter(dv_gen *g);
void dv_gen_leave(dv_gen *g);
// Transposes a block of lanes x lanes elements from registers in[] to registers
// out[]. t holds four temporary registers that are in neither list.
void dv_gen_transpose(dv_gen *g, const int *in, const int *out, const int *t);
// Emits the end of a loop: decrements `reg` and branches to byte `to` of the
// code unless `reg` is 0.
void dv_gen_loop_end(dv_gen *g, int reg, size_t to);

// The generators of this folder that others call: products of two operands with
// rows of k (dot.c), products and packing of bf16 and i8 (pairs.c), conversions
// between narrow and wide types (convert.c).
void dv_dot_emit(dv_gen *g, const dv_gemm_shape *s);
void dv_pairs_gemm(dv_gen *g, const dv_gemm_shape *s);
void dv_pairs_move(dv_gen *g, const dv_move_shape *s);
void dv_convert_move(dv_gen *g, const dv_isa *isa, const dv_move_shape *s);
#endif
