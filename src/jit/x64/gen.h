// Helpers shared by the x86-64 generators: registers by role, additions of
// constants, full and partial vectors, constants after the code, prologue and
// epilogue of a kernel.
//
// One generator serves two instruction sets. AVX2 has 16 registers of 32 bytes
// and keeps masks in vector registers; AVX-512 has 32 registers of 64 bytes and
// separate mask registers. Accumulators take the lowest vector registers; on
// AVX2 the highest one holds the mask of a partial vector.
#ifndef DV_X64_GEN_H
#define DV_X64_GEN_H
#include "base/dtype.h"
#include "jit/backend.h"
#include "jit/x64/insn.h"

enum {
    X_A = 7, // rdi: address of A for the current tile
    X_B = 6,
    X_C = 2,
    X_ARGS = 1,
    // Running pointers into the operand whose elements are broadcast (usually
    // A) and into the operand read as vectors (usually B).
    X_AT = 8,
    X_BT = 9,
    X_K = 10,   // counter of the loop over k
    X_TMP = 11, // scratch register that any helper may overwrite
    X_BATCH = 0,
    X_SP = 4,
    // The following registers are callee-saved: a kernel that uses one saves
    // it.
    X_M = 3, // counter of the loop over rows
    X_N = 5, // counter of the loop over columns
    X_ABASE = 12,
    X_CBASE = 13,
    X_BIAS = 14,
    X_BIASBASE = 15,
    // Kernels with a single panel of the operand read as vectors (usually B) do
    // not step from panel to panel, so the registers for that hold these
    // pointers to packed operands instead.
    X_VPACK = X_N,
    X_SPACK = X_ABASE,
    X_NEXT = X_CBASE
};
// Registers of moves (kernels that copy, transpose, pack or convert): source
// and destination, running pointers into a row of both, and counters of rows
// and of pieces of a row.
enum { X_SRC = 7, X_DST = 6, X_S = 8, X_D = 9, X_J = 10, X_I = 0 };
// Numbers of the mask registers for partial vectors of a tile and for scratch
// use.
enum { K_PART = 1, K_OTHER = 2 };
enum { MAX_RELOCS = 128 };

typedef struct dv_x {
    dv_code *code;
    int vb, n_regs; // bytes of a vector register, number of them
    int es, lanes;  // bytes of an element, elements in a vector
    int ints;       // 1: elements are i32, not floats
    // If not 0: the dot-product instruction on 4-byte words of narrow elements
    // that replaces a multiply-add (pairs.c).
    int dot;
    // 1: correction terms for the instruction `dot`, which multiplies unsigned
    // by signed bytes, follow the packed B in memory.
    int fix;
    // 1: masks of partial vectors have registers of their own (AVX-512).
    int masks;
    int64_t l1_bytes;   // size of the L1 cache to optimise for
    uint32_t saved;     // bit mask of the general registers that were pushed
    int n_relocs, size; // number of entries of fixes, bytes of constants
    struct {
        uint32_t at; // code offset just after the 4-byte displacement to patch
        int to;      // offset of the constant that the displacement refers to
    } fixes[MAX_RELOCS];
    unsigned char constants[512];
} dv_x;

// Selects the instruction for the floating-point element type: name##ps or
// name##pd.
#define DV_XF(g, name) ((g)->es == 8 ? DV_X_##name##pd : DV_X_##name##ps)
// Selects name##i32 for i32 elements, else name##ps or name##pd.
#define DV_XI(g, name)   ((g)->ints ? DV_X_##name##i32 : DV_XF(g, name))
#define DV_XF_S(g, name) ((g)->es == 8 ? DV_X_##name##pd_s : DV_X_##name##ps_s)

// The operations on general registers in which generators shared with other
// instruction sets are written (code.h), for x86-64.
#define DV_GEN                     dv_x
#define DV_LEA(to, from, bytes)    dv_x_lea(g, to, from, bytes)
#define DV_MOV(to, from)           dv_x_mov(g, to, from)
#define DV_SET(reg, n)             dv_x_set(g, reg, n)
#define DV_AGAIN(reg, top)         dv_x_loop_end(g, reg, top)
#define DV_LOAD(reg, base, bytes)  dv_x_get(g, reg, base, bytes)
#define DV_STORE(reg, base, bytes) dv_x_put(g, reg, base, bytes)

// Initialises a generator for the vector length of the instruction set, or for
// vectors of vb bytes.
void dv_x_start(dv_x *g, dv_code *code, const dv_isa *isa, int es);
void dv_x_start_vb(dv_x *g, dv_code *code, int vb, int es);

// These emit a vector instruction at the full vector length, on three registers
// or with a memory operand.
void dv_x_vvv(dv_x *g, dv_x_insn op, int a, int b, int c);
void dv_x_vvm(dv_x *g, dv_x_insn op, int a, int b, int base, int64_t off);
void dv_x_zero(dv_x *g, int v);
void dv_x_zeros(dv_x *g, int n); // sets the first n vector registers to 0
// Emits acc += a * b. With i32 elements this overwrites tmp, which may be a or
// b. For dot-product instructions b must be the unsigned operand (packed A).
void dv_x_mul_add(dv_x *g, int acc, int a, int b, int tmp);
// Broadcasts one element in memory to all lanes.
void dv_x_broadcast(dv_x *g, int v, int base, int64_t off);

// Sets the mask of partial vectors to the first `lanes` lanes. Loads and stores
// with `part` set then access only those lanes; loads clear the remaining
// lanes.
void dv_x_set_tail_mask(dv_x *g, int lanes);
void dv_x_load(dv_x *g, int v, int base, int64_t off, int part);
void dv_x_store(dv_x *g, int v, int base, int64_t off, int part);
// Load or store n whole vectors that are contiguous in memory; the first one is
// in register v, the others in the registers after it.
void dv_x_loads(dv_x *g, int n, int v, int base, int64_t off);
void dv_x_stores(dv_x *g, int n, int v, int base, int64_t off);
// Load or store n elements of a vector of vl bytes with their own mask. AVX2
// keeps the mask in register `tmp`, which may be v for loads.
void dv_x_load_n(dv_x *g, int v, int base, int64_t off, int vl, int n, int tmp);
void dv_x_store_n(dv_x *g, int v, int base, int64_t off, int vl, int n,
                  int tmp);
// Loads or stores one lane of 1, 2, 4 or 8 bytes, or a whole vector of 16 or
// more bytes. A load of lane 0 clears the other lanes. Lanes of one and two
// bytes need a register below 16.
void dv_x_load_lane(dv_x *g, int v, int lane, int bytes, dv_x_rm from);
void dv_x_store_lane(dv_x *g, int v, int lane, int bytes, dv_x_rm to);
// Loads or stores the first `bytes` bytes of a 16-byte vector, any number, lane
// by lane. v must be below 16.
void dv_x_load_part(dv_x *g, int v, int base, int64_t off, int bytes);
void dv_x_store_part(dv_x *g, int v, int base, int64_t off, int bytes);
// Returns the largest power of two that is at most n and at most `most`.
static inline int dv_x_pow2_fit(int n, int most)
{
    while (most > n)
        most /= 2;
    return most;
}
// Copies n bytes through register v, which must be below 16. Needs no mask.
void dv_x_copy(dv_x *g, int v, int from, int64_t off, int to, int64_t off_to,
               int n);

// Helpers for general registers: they add, set, compute addresses, move, load
// and store 64 bits.
void dv_x_add(dv_x *g, int reg, int64_t imm); // adds imm; may overwrite X_TMP
void dv_x_set(dv_x *g, int reg, int64_t imm);
// Sets reg to base + off; may overwrite X_TMP.
void dv_x_lea(dv_x *g, int reg, int base, int64_t off);
void dv_x_mov(dv_x *g, int to, int from);
// Loads 64 bits from base + off into a general register.
void dv_x_get(dv_x *g, int reg, int base, int64_t off);
void dv_x_put(dv_x *g, int reg, int base, int64_t off);
// Decrements `reg` and jumps back to code offset `to` until it is 0.
void dv_x_loop_end(dv_x *g, int reg, size_t to);
// Jumps back to code offset `to` if the condition of `op` holds.
void dv_x_back(dv_x *g, dv_x_insn op, size_t to);
// Writes the distance from `end` to `to` into the four bytes of code before
// `end`.
void dv_x_patch(dv_code *code, size_t end, size_t to);
// dv_x_jump emits a forward jump and returns a handle; dv_x_patch_jump makes
// that jump go to the current position.
size_t dv_x_jump(dv_x *g, dv_x_insn op);
void dv_x_patch_jump(dv_x *g, size_t from);
// Prefetches the cache lines of `bytes` bytes at base + off, one every 64
// bytes.
void dv_x_prefetch(dv_x *g, dv_x_insn op, int base, int64_t off, int bytes);

// Adds n bytes to the constants after the code, or finds equal ones, and
// returns their offset. dv_x_load_constant loads a vector from there.
// dv_x_load_word loads a vector of vl bytes with the same word in all lanes.
int dv_x_constant(dv_x *g, const void *data, int n);
void dv_x_load_constant(dv_x *g, int v, int vl, int to);
void dv_x_load_word(dv_x *g, int v, int vl, uint32_t word);
// Records that the last emitted instruction refers to the constant at offset
// `to`; its last four bytes must be the displacement.
void dv_x_reloc_constant(dv_x *g, int to);
// Loads a mask vector of vl bytes: all ones in the first n elements, zeros in
// the others.
void dv_x_mask(dv_x *g, int v, int vl, int n);

// Widens rows of narrow elements, or narrows wide ones (convert.c).
void dv_x_convert(dv_x *g, const dv_move_shape *s);

// Emits the entry of a kernel, which pushes the callee-saved general registers
// that are in the bit mask `saves`; dv_x_epilogue restores them and returns.
void dv_x_prologue(dv_x *g, uint32_t saves);
void dv_x_epilogue(dv_x *g);
#endif
