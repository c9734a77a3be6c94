// What all generators share: adding constants, loads and stores of whole and
// part vectors at any offset, the frame.
//
// Registers by role. x18 is the platform's; x19 to x28 and the low halves of
// v8 to v15 are the caller's and saved only when used.
#ifndef DV_JIT_GEN_H
#define DV_JIT_GEN_H
#include "base/dtype.h"
#include "jit/a64/insn.h"
#include "jit/backend.h"

enum {
    X_A = 0, // of the tile at hand
    X_B = 1,
    X_C = 2,
    X_ARGS = 3,
    X_ROW = 4,    // and on: running pointers into A
    X_SPACK = 10, // running pointers where packed operands go
    X_VPACK = 11,
    X_BELOW = 8,  // bytes to the rows of S below the tile
    X_SOON = 9,   // rows of V to prefetch
    X_K = 12,     // counts down
    X_BATCH = 13, // counts down
    X_BRUN = 14,  // running pointer into B
    X_CRUN = 15,
    X_TMP = 16,
    X_ODD = 16, // running pointer to the last vector of a row of B
    X_TMP2 = 17,
    X_M = 19, // counts down
    X_N = 20, // counts down
    X_ABASE = 21,
    X_CBASE = 22,
    X_LDA = 23, // steps too wide for an immediate
    X_LDB = 24,
    X_LDC = 25,
    X_BIAS = 26,
    X_BIASBASE = 27,
    X_NEXT = 28, // what will be read after this kernel
    X_SP = 31
};

typedef struct dv_gen {
    dv_code *code;
    int es, lanes; // bytes of an element, elements of a vector
    int ints;      // they are whole numbers
    int n_vregs;   // vector registers the kernel uses
    int saves_x;   // x19 to x28 too
} dv_gen;

#define DV_E(op, a, b, c, d) dv_emit(g->code, DV_INSN_##op, (a), (b), (c), (d))
// The instruction for the element type: name_4s, name_4i or name_2d.
#define DV_EF(op, a, b, c, d)                                                  \
    do {                                                                       \
        if (g->es == 8)                                                        \
            DV_E(op##2d, a, b, c, d);                                          \
        else if (g->ints)                                                      \
            DV_E(op##4i, a, b, c, d);                                          \
        else                                                                   \
            DV_E(op##4s, a, b, c, d);                                          \
    } while (0)

// The i-th vector register to use: those that need no saving come first.
static inline int dv_gen_reg(int i)
{
    static const unsigned char order[32] = {
        0,  1,  2,  3,  4,  5,  6,  7,  16, 17, 18, 19, 20, 21, 22, 23,
        24, 25, 26, 27, 28, 29, 30, 31, 8,  9,  10, 11, 12, 13, 14, 15};
    return order[i];
}

static inline int64_t dv_gen_div(int64_t a, int64_t b) // rounds down
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

// The address base + off bytes, in units of 1 << log: a scaled or unscaled
// offset that the access can hold, or the temporary X_TMP2.
typedef struct dv_gen_at {
    int base;
    int64_t off;
    int unscaled;
} dv_gen_at;

static inline int dv_gen_fits_add(int64_t imm) // one instruction?
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
// Load or store the first `bytes` (4, 8, 12 or 16) of a vector register.
// Loads clear the rest. Both may change X_TMP2.
void dv_gen_load_any(dv_gen *g, int v, int base, int64_t off, int bytes);
void dv_gen_store_any(dv_gen *g, int v, int base, int64_t off, int bytes);

// Nearly all are whole vectors at an offset that the instruction holds.
static inline int dv_gen_is_usual(int64_t off, int bytes)
{
    return bytes == 16 && (off & ~INT64_C(0xfff0)) == 0;
}

static inline void dv_gen_load(dv_gen *g, int v, int base, int64_t off,
                               int bytes)
{
    if (dv_gen_is_usual(off, bytes))
        DV_E(ldr_q, v, base, off, 0);
    else
        dv_gen_load_any(g, v, base, off, bytes);
}

static inline void dv_gen_store(dv_gen *g, int v, int base, int64_t off,
                                int bytes)
{
    if (dv_gen_is_usual(off, bytes))
        DV_E(str_q, v, base, off, 0);
    else
        dv_gen_store_any(g, v, base, off, bytes);
}
// The same for any number of bytes up to 16. They change X_TMP too.
void dv_gen_load_some(dv_gen *g, int v, int base, int64_t off, int bytes);
void dv_gen_store_some(dv_gen *g, int v, int base, int64_t off, int bytes);
static inline void dv_gen_load_part(dv_gen *g, int v, int base, int64_t off,
                                    int bytes)
{
    if (bytes == 16)
        dv_gen_load(g, v, base, off, 16);
    else
        dv_gen_load_some(g, v, base, off, bytes);
}
static inline void dv_gen_store_part(dv_gen *g, int v, int base, int64_t off,
                                     int bytes)
{
    if (bytes == 16)
        dv_gen_store(g, v, base, off, 16);
    else
        dv_gen_store_some(g, v, base, off, bytes);
}
// 1, 2, 4, 8 or 16 bytes at an offset that an instruction holds; an element of
// up to 8 at an address, in one lane.
void dv_gen_get(dv_gen *g, int v, int base, int64_t off, int bytes);
void dv_gen_put(dv_gen *g, int v, int base, int64_t off, int bytes);
void dv_gen_get_lane(dv_gen *g, int v, int base, int lane, int bytes);
void dv_gen_put_lane(dv_gen *g, int v, int base, int lane, int bytes);
// A double of the arguments, as the element type, into lane 0.
void dv_gen_scale(dv_gen *g, int v, size_t off);
void dv_gen_enter(dv_gen *g);
void dv_gen_leave(dv_gen *g);
// Transpose es-sized elements: out[0..lanes) from in[0..lanes); t are four
// registers for intermediate results, unlike all others.
void dv_gen_transpose(dv_gen *g, const int *in, const int *out, const int *t);
// Count `reg` down and go back to byte `to` of the code until it is 0.
void dv_gen_again(dv_gen *g, int reg, size_t to);
#endif
