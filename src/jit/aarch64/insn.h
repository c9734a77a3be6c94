// Encoding AArch64: one function, made from insn.def. With a constant opcode
// the compiler leaves a few shifts and the range checks of the form.
#ifndef DV_JIT_INSN_H
#define DV_JIT_INSN_H
#include "jit/code.h"

// The compiler would share one copy for all opcodes, at five times the cost.
#define DV_ALWAYS __attribute__((always_inline))

typedef enum dv_form {
    DV_FORM_RRR,
    DV_FORM_RRI,
    DV_FORM_RI,
    DV_FORM_RR,
    DV_FORM_VVV,
    DV_FORM_VV,
    DV_FORM_V,
    DV_FORM_VVS,
    DV_FORM_VVD,
    DV_FORM_VVH,
    DV_FORM_M4,
    DV_FORM_M8,
    DV_FORM_M16,
    DV_FORM_MU,
    DV_FORM_P8,
    DV_FORM_P16,
    DV_FORM_L4,
    DV_FORM_L8,
    DV_FORM_VR,
    DV_FORM_PF,
    DV_FORM_J,
    DV_FORM_N
} dv_form;

typedef enum dv_insn {
#define INSN(name, form, bits, a, b, c, d, text) DV_INSN_##name,
#include "jit/aarch64/insn.def"
#undef INSN
    DV_N_INSNS
} dv_insn;

typedef struct dv_insn_row {
    uint32_t bits;
    dv_form form;
} dv_insn_row;

static const dv_insn_row dv_insn_rows[] = {
#define INSN(name, form, bits, a, b, c, d, text) {bits, DV_FORM_##form},
#include "jit/aarch64/insn.def"
#undef INSN
};

static inline int dv_insn_in(int64_t v, int64_t lo, int64_t hi)
{
    return v >= lo && v <= hi;
}

// Is v a multiple of 2^log within lo..hi times it?
static inline int dv_insn_scaled(int64_t v, int log, int64_t lo, int64_t hi)
{
    return (v & ((1 << log) - 1)) == 0 && dv_insn_in(v >> log, lo, hi);
}

// The word of an instruction; *ok becomes 0 when an operand is out of range.
DV_ALWAYS static inline uint32_t dv_insn_word(dv_insn op, int64_t a, int64_t b,
                                              int64_t c, int64_t d, int *ok)
{
    const dv_insn_row *row = &dv_insn_rows[op];
    uint32_t w = row->bits, ra = (uint32_t)a, rb = (uint32_t)b << 5,
             rc = (uint32_t)c << 16, ud = (uint32_t)d, uc = (uint32_t)c;
    int ab = !((a | b) >> 5), abc = !((a | b | c) >> 5), good = 0;
    int log = 0;
    switch (row->form) {
    case DV_FORM_RRR:
    case DV_FORM_RR:
    case DV_FORM_VVV:
    case DV_FORM_VV:
    case DV_FORM_V:
    case DV_FORM_VR:
        good = abc;
        w |= ra | rb | rc;
        break;
    case DV_FORM_RRI:
        good = ab && dv_insn_in(c, 0, 4095);
        w |= ra | rb | uc << 10;
        break;
    case DV_FORM_RI:
        good = dv_insn_in(a, 0, 31) && dv_insn_in(b, 0, 65535) &&
               dv_insn_in(c, 0, 3);
        w |= ra | rb | uc << 21;
        break;
    case DV_FORM_VVS:
        good = abc && dv_insn_in(d, 0, 3);
        w |= ra | rb | rc | (ud & 1) << 21 | (ud >> 1) << 11;
        break;
    case DV_FORM_VVD:
        good = abc && dv_insn_in(d, 0, 1);
        w |= ra | rb | rc | ud << 11;
        break;
    case DV_FORM_VVH:
        good = ab && dv_insn_in(c, 0, 15) && dv_insn_in(d, 0, 7);
        w |= ra | rb | rc | (ud & 1) << 20 | (ud >> 1 & 1) << 21 |
             (ud >> 2) << 11;
        break;
    case DV_FORM_M4:
    case DV_FORM_M8:
    case DV_FORM_M16:
    case DV_FORM_PF:
        log = row->form == DV_FORM_M4 ? 2 : row->form == DV_FORM_M16 ? 4 : 3;
        good = ab && dv_insn_scaled(c, log, 0, 4095);
        w |= ra | rb | uc >> log << 10;
        break;
    case DV_FORM_MU:
        good = ab && dv_insn_in(c, -256, 255);
        w |= ra | rb | (uc & 511) << 12;
        break;
    case DV_FORM_P8:
    case DV_FORM_P16:
        log = row->form == DV_FORM_P8 ? 3 : 4;
        good = abc && dv_insn_scaled(d, log, -64, 63);
        w |= ra | (uint32_t)c << 5 | (uint32_t)b << 10 |
             (uint32_t)(d >> log & 127) << 15;
        break;
    case DV_FORM_L4:
        good = ab && dv_insn_in(c, 0, 3);
        w |= ra | rb | (uc & 1) << 12 | (uc >> 1) << 30;
        break;
    case DV_FORM_L8:
        good = ab && dv_insn_in(c, 0, 1);
        w |= ra | rb | uc << 30;
        break;
    case DV_FORM_J:
        good = dv_insn_in(c, -(1 << 18), (1 << 18) - 1);
        w |= (uc & 0x7ffff) << 5;
        break;
    case DV_FORM_N:
        good = 1;
        break;
    }
    *ok &= good;
    return w;
}

DV_ALWAYS static inline void dv_emit(dv_code *code, dv_insn op, int64_t a,
                                     int64_t b, int64_t c, int64_t d)
{
    int ok = 1;
    uint32_t w = dv_insn_word(op, a, b, c, d, &ok);
    code->failed |= !ok;
    dv_code_put(code, w);
}
#endif
