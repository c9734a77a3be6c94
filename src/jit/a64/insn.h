// The AArch64 encoder: one inline function, generated from the table insn.def.
// Since the opcode is a constant, the compiler reduces it to a few shifts and
// the range checks of that instruction's form.
#ifndef DV_JIT_INSN_H
#define DV_JIT_INSN_H
#include "jit/code.h"

// Forces inlining. Otherwise the compiler would share one copy for all opcodes,
// which is five times as slow.
#define DV_ALWAYS __attribute__((always_inline))

// An operand field of an instruction word: `bits` bits from bit `at` on, which
// hold the operand divided by 1 << log. If the field is split, its bits from
// number `low` on are at bit `rest`.
typedef struct dv_field {
    uint8_t bits, at, log, is_signed, low, rest;
} dv_field;

// The forms (layouts of operands), from the table form.def.
typedef enum dv_form {
#define FORM(name, a, b, c, d) DV_FORM_##name,
#include "jit/a64/form.def"
#undef FORM
} dv_form;

static const dv_field dv_form_fields[][4] = {
#define FORM(name, a, b, c, d) {a, b, c, d},
#include "jit/a64/form.def"
#undef FORM
};

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

// Returns the bits of an operand field with the value v. Sets *ok to 0 if v is
// out of range. An operand that the instruction does not have must be 0.
DV_ALWAYS static inline uint32_t dv_insn_field(dv_field f, int64_t v, int *ok)
{
    int64_t q = v >> f.log, half = f.is_signed ? 1 << f.bits >> 1 : 0;
    uint32_t u = (uint32_t)q & ((1u << f.bits) - 1);
    *ok &= !((uint64_t)(q + half) >> f.bits) & !(v & ((1 << f.log) - 1));
    return f.low == f.bits
               ? u << f.at
               : (u & ((1u << f.low) - 1)) << f.at | u >> f.low << f.rest;
}

// Returns the 32-bit word of an instruction. Sets *ok to 0 when an operand is
// out of range.
DV_ALWAYS static inline uint32_t dv_insn_word(dv_insn op, int64_t a, int64_t b,
                                              int64_t c, int64_t d, int *ok)
{
    const dv_field *f = dv_form_fields[dv_insn_rows[op].form];
    return dv_insn_rows[op].bits | dv_insn_field(f[0], a, ok) |
           dv_insn_field(f[1], b, ok) | dv_insn_field(f[2], c, ok) |
           dv_insn_field(f[3], d, ok);
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
