// What the generators of x86-64 share: registers by role, adding constants,
// whole and part vectors, constants behind the code, the frame.
//
// Two sets of instructions, one way to write kernels: AVX2 has 16 vectors of 32
// bytes and keeps masks in vectors, AVX-512 has 32 of 64 and masks of their
// own. The first registers hold sums; the last one is AVX2's mask.
#ifndef DV_X64_GEN_H
#define DV_X64_GEN_H
#include "base/dtype.h"
#include "jit/backend.h"
#include "jit/x64/insn.h"

enum {
    X_A = 7, // rdi: of the tile at hand
    X_B = 6,
    X_C = 2,
    X_ARGS = 1,
    X_AT = 8,   // running pointer into S
    X_BT = 9,   // running pointer into V
    X_K = 10,   // counts down
    X_TMP = 11, // of anyone
    X_BATCH = 0,
    X_SP = 4,
    // Saved by those who use them.
    X_M = 3, // counts down
    X_N = 5, // counts down
    X_ABASE = 12,
    X_CBASE = 13,
    X_BIAS = 14,
    X_BIASBASE = 15,
    // One panel of V has no use for what walks from panel to panel.
    X_VPACK = X_N,
    X_SPACK = X_ABASE,
    X_NEXT = X_CBASE
};
enum { K_PART = 1, K_OTHER = 2 }; // masks: of the tile, and of anyone
enum { MAX_FIXES = 128 };

typedef struct dv_x {
    dv_code *code;
    int vb, n_regs;    // bytes of a vector, how many there are
    int es, lanes;     // bytes of an element, elements of a vector
    int ints;          // elements are i32
    int dot;           // a multiply-add is this instruction, of words: pairs.c
    int fix;           // and what it adds too much stands behind V
    int masks;         // AVX-512: masks have registers of their own
    int64_t l1_bytes;  // of the cache it is made for
    uint32_t saved;    // registers that were pushed
    int n_fixes, size; // of the constants, in bytes
    struct {
        uint32_t at; // the offset's last byte + 1
        int to;      // in the constants
    } fixes[MAX_FIXES];
    unsigned char constants[512];
} dv_x;

// The instruction for the element type: name##ps or name##pd.
#define DV_XF(g, name) ((g)->es == 8 ? DV_X_##name##pd : DV_X_##name##ps)
// The same where whole numbers have their own.
#define DV_XI(g, name)   ((g)->ints ? DV_X_##name##i32 : DV_XF(g, name))
#define DV_XF_S(g, name) ((g)->es == 8 ? DV_X_##name##pd_s : DV_X_##name##ps_s)

// For vectors as long as the set's, or of vb bytes.
void dv_x_start(dv_x *g, dv_code *code, const dv_isa *isa, int es);
void dv_x_start_vb(dv_x *g, dv_code *code, int vb, int es);

// Vector instructions at the full length.
void dv_x_vvv(dv_x *g, dv_x_insn op, int a, int b, int c);
void dv_x_vvm(dv_x *g, dv_x_insn op, int a, int b, int base, int64_t off);
void dv_x_zero(dv_x *g, int v);
// acc += a * b; whole numbers change tmp, which may be a or b. Of words b is
// the rows'.
void dv_x_mul_add(dv_x *g, int acc, int a, int b, int tmp);
// One element to all lanes.
void dv_x_splat(dv_x *g, int v, int base, int64_t off);
// A double of the arguments, as the element type, to all lanes.
void dv_x_scale(dv_x *g, int v, size_t off);

// Part vectors: the first `part` lanes. From here on loads and stores with
// `part` set touch no other; loads clear the rest.
void dv_x_set_part(dv_x *g, int lanes);
void dv_x_load(dv_x *g, int v, int base, int64_t off, int part);
void dv_x_store(dv_x *g, int v, int base, int64_t off, int part);
// The same with a length and number of lanes of their own; AVX2 takes `tmp`
// for the mask, which may be v when loading.
void dv_x_load_n(dv_x *g, int v, int base, int64_t off, int vl, int n, int tmp);
void dv_x_store_n(dv_x *g, int v, int base, int64_t off, int vl, int n,
                  int tmp);
// One lane of 1, 2, 4 or 8 bytes in memory, or all of a vector of `bytes`.
// Loads of lane 0 clear the rest. One and two bytes only in registers below 16.
void dv_x_load_lane(dv_x *g, int v, int lane, int bytes, dv_x_rm from);
void dv_x_store_lane(dv_x *g, int v, int lane, int bytes, dv_x_rm to);
// The first `bytes` of 16, any number, lane by lane; as above.
void dv_x_load_part(dv_x *g, int v, int base, int64_t off, int bytes);
void dv_x_store_part(dv_x *g, int v, int base, int64_t off, int bytes);
// The largest power of two in n bytes, `most` at most.
static inline int dv_x_fit(int n, int most)
{
    while (most > n)
        most /= 2;
    return most;
}
// Copy n bytes through v, which is below 16. No mask is needed.
void dv_x_copy(dv_x *g, int v, int from, int64_t off, int to, int64_t off_to,
               int n);

// General registers.
void dv_x_add(dv_x *g, int reg, int64_t imm); // may change X_TMP
void dv_x_set(dv_x *g, int reg, int64_t imm);
void dv_x_lea(dv_x *g, int reg, int base, int64_t off); // may change X_TMP
void dv_x_mov(dv_x *g, int to, int from);
void dv_x_get(dv_x *g, int reg, int base, int64_t off); // 64 bits of memory
void dv_x_put(dv_x *g, int reg, int base, int64_t off);
// Count `reg` down and go back to byte `to` of the code until it is 0.
void dv_x_again(dv_x *g, int reg, size_t to);
// Go on somewhere else: where `land` is called with what this returns.
size_t dv_x_jump(dv_x *g, dv_x_insn op);
void dv_x_land(dv_x *g, size_t from);
void dv_x_prefetch(dv_x *g, dv_x_insn op, int base, int64_t off);

// `n` bytes behind the code; vector loads from `to` of them.
int dv_x_constant(dv_x *g, const void *data, int n);
void dv_x_load_constant(dv_x *g, int v, int vl, int to);
// The instruction before reads from `to` of them on; its offset is its last.
void dv_x_fix_constant(dv_x *g, int to);
// Lanes all ones for n elements of es bytes, in a vector of vl.
void dv_x_mask(dv_x *g, int v, int vl, int n);

// Rows of narrow elements made wide, or wide ones narrow (convert.c).
void dv_x_convert(dv_x *g, const dv_move_shape *s);

void dv_x_enter(dv_x *g, uint32_t saves); // bits of registers
void dv_x_leave(dv_x *g);
#endif
