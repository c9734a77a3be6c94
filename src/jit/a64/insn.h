// The AArch64 encoder: one inline function, generated from the table insn.def.
// Since the opcode is a constant, the compiler reduces it to a few shifts and
// the range checks of that instruction's form.
#ifndef DV_JIT_INSN_H
#define DV_JIT_INSN_H
#include "jit/code.h"

// Forces inlining. Otherwise the compiler would share one copy for all opcodes,
// which is five times as slow.
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
    DV_FORM_VVI,
    DV_FORM_VVB,
    DV_FORM_VR,
    // The first of the forms (layouts of operands) that access memory.
    DV_FORM_M1,
    DV_FORM_M2,
    DV_FORM_M4,
    DV_FORM_M8,
    DV_FORM_M16,
    DV_FORM_MU,
    DV_FORM_P8,
    DV_FORM_P16,
    DV_FORM_L1,
    DV_FORM_L2,
    DV_FORM_L4,
    DV_FORM_L8,
    // The last of the forms (layouts of operands) that access memory.
    DV_FORM_PF,
    DV_FORM_J,
    DV_FORM_JV,
    DV_FORM_N
} dv_form;

typedef enum dv_insn {
#define INSN(name, form, bits, a, b, c, d, text) DV_INSN_##name,
#include "jit/a64/insn.def"
#undef INSN
    DV_N_INSNS
} dv_insn;

typedef struct dv_insn_row {
    uint32_t bits;
    dv_form form;
} dv_insn_row;

static const dv_insn_row dv_insn_rows[] = {
#define INSN(name, form, bits, a, b, c, d, text) {bits, DV_FORM_##form},
#include "jit/a64/insn.def"
#undef INSN
};

static inline int dv_insn_in(int64_t v, int64_t lo, int64_t hi)
{
    return v >= lo && v <= hi;
}

// Returns whether v is a multiple of 2^log, between lo and hi times 2^log.
static inline int dv_insn_scaled(int64_t v, int log, int64_t lo, int64_t hi)
{
    return (v & ((1 << log) - 1)) == 0 && dv_insn_in(v >> log, lo, hi);
}

// Returns the operand fields of an instruction that does not access memory,
// whose layout of operands is `form`. Sets *ok to 0 when an operand is out of
// range.
DV_ALWAYS static inline uint32_t
dv_insn_regs(dv_form form, int64_t a, int64_t b, int64_t c, int64_t d, int *ok)
{
    uint32_t ra = (uint32_t)a, rb = (uint32_t)b << 5, uc = (uint32_t)c,
             rc = uc << 16, ud = (uint32_t)d;
    int ab = !((a | b) >> 5), abc = !((a | b | c) >> 5);
    switch (form) {
    case DV_FORM_RRI:
        *ok &= ab && dv_insn_in(c, 0, 4095);
        return ra | rb | uc << 10;
    case DV_FORM_RI:
        *ok &= !(a >> 5) && dv_insn_in(b, 0, 65535) && dv_insn_in(c, 0, 3);
        return ra | rb | uc << 21;
    case DV_FORM_VVS:
        *ok &= abc && dv_insn_in(d, 0, 3);
        return ra | rb | rc | (ud & 1) << 21 | (ud >> 1) << 11;
    case DV_FORM_VVD:
        *ok &= abc && dv_insn_in(d, 0, 1);
        return ra | rb | rc | ud << 11;
    case DV_FORM_VVI:
        *ok &= ab && dv_insn_in(c, 0, 127);
        return ra | rb | rc;
    case DV_FORM_VVB:
        *ok &= abc && dv_insn_in(d, 0, 15);
        return ra | rb | rc | ud << 11;
    case DV_FORM_JV:
        *ok &= !(a >> 5) && dv_insn_in(c, -(1 << 18), (1 << 18) - 1);
        return ra | (uc & 0x7ffff) << 5;
    case DV_FORM_J:
        *ok &= dv_insn_in(c, -(1 << 18), (1 << 18) - 1);
        return (uc & 0x7ffff) << 5;
    case DV_FORM_N:
        return 0;
    // The forms RRR, RR, VVV, VV, V and VR, whose operands are all registers.
    default:
        *ok &= abc;
        return ra | rb | rc;
    }
}

// Returns the operand fields of a load, store or prefetch, whose layout of
// operands is `form`. Sets *ok to 0 when an operand is out of range.
DV_ALWAYS static inline uint32_t dv_insn_mem(dv_form form, int64_t a, int64_t b,
                                             int64_t c, int64_t d, int *ok)
{
    uint32_t ra = (uint32_t)a, rb = (uint32_t)b << 5, uc = (uint32_t)c;
    int ab = !((a | b) >> 5), log = 3;
    switch (form) {
    case DV_FORM_MU:
        *ok &= ab && dv_insn_in(c, -256, 255);
        return ra | rb | (uc & 511) << 12;
    case DV_FORM_P8:
    case DV_FORM_P16:
        log = form == DV_FORM_P8 ? 3 : 4;
        *ok &= ab && !(c >> 5) && dv_insn_scaled(d, log, -64, 63);
        return ra | uc << 5 | (uint32_t)b << 10 |
               (uint32_t)(d >> log & 127) << 15;
    case DV_FORM_L1:
        *ok &= ab && dv_insn_in(c, 0, 15);
        return ra | rb | (uc & 7) << 10 | (uc >> 3) << 30;
    case DV_FORM_L2:
        *ok &= ab && dv_insn_in(c, 0, 7);
        return ra | rb | (uc & 1) << 11 | (uc >> 1 & 1) << 12 | (uc >> 2) << 30;
    case DV_FORM_L4:
        *ok &= ab && dv_insn_in(c, 0, 3);
        return ra | rb | (uc & 1) << 12 | (uc >> 1) << 30;
    case DV_FORM_L8:
        *ok &= ab && dv_insn_in(c, 0, 1);
        return ra | rb | uc << 30;
    case DV_FORM_M1:
    case DV_FORM_M2:
        log = form == DV_FORM_M2;
        *ok &= ab && dv_insn_scaled(c, log, 0, 4095);
        return ra | rb | uc >> log << 10;
    // The forms M4, M8, M16 and PF, whose offset is scaled by the access size.
    default:
        log = form == DV_FORM_M4 ? 2 : form == DV_FORM_M16 ? 4 : 3;
        *ok &= ab && dv_insn_scaled(c, log, 0, 4095);
        return ra | rb | uc >> log << 10;
    }
}

// Returns the 32-bit word of an instruction. Sets *ok to 0 when an operand is
// out of range.
DV_ALWAYS static inline uint32_t dv_insn_word(dv_insn op, int64_t a, int64_t b,
                                              int64_t c, int64_t d, int *ok)
{
    dv_form form = dv_insn_rows[op].form;
    int mem = form >= DV_FORM_M1 && form <= DV_FORM_PF;
    return dv_insn_rows[op].bits | (mem ? dv_insn_mem(form, a, b, c, d, ok)
                                        : dv_insn_regs(form, a, b, c, d, ok));
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
