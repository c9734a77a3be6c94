// Encoding x86-64: one function, driven by insn.def.
#ifndef DV_X64_INSN_H
#define DV_X64_INSN_H
#include "jit/code.h"

typedef enum dv_x_form {
    DV_X_GRM,
    DV_X_GI,
    DV_X_GM,
    DV_X_GQ,
    DV_X_GO,
    DV_X_J,
    DV_X_N,
    DV_X_VRM, // vectors from here
    DV_X_VRVM,
    DV_X_VRMI,
    DV_X_VRVMI,
    DV_X_VG,
    DV_X_VKVMI,
    DV_X_VK,
    DV_X_KR,
    DV_X_TC, // tiles from here
    DV_X_TM,
    DV_X_T
} dv_x_form;

typedef enum dv_x_enc { DV_X_G, DV_X_V = 1, DV_X_E = 2, DV_X_VE } dv_x_enc;

typedef enum dv_x_tuple {
    DV_X_FV,
    DV_X_VM,
    DV_X_HV,
    DV_X_QV,
    DV_X_S4,
    DV_X_S8,
    DV_X_M16,
    DV_X_M32
} dv_x_tuple;

typedef enum dv_x_insn {
#define INSN(name, form, map, pp, w, op, enc, tuple, text) DV_X_##name,
#include "jit/x64/insn.def"
#undef INSN
    DV_X_COUNT
} dv_x_insn;

typedef struct dv_x_row {
    uint8_t form, map, pp, w, opcode, enc, tuple;
    uint64_t evex, vex; // prefix and opcode of vectors, registers 0
} dv_x_row;
extern const dv_x_row dv_x_rows[];

enum { DV_X_RIP = 16, DV_X_NONE = -1 }; // as base: offset from the next insn
enum { DV_X_ZERO = 8 };                 // with a mask: other lanes become 0

// The operand in the rm field: a register, or memory at
// base + (index << scale) + disp.
typedef struct dv_x_rm {
    int32_t disp;
    int8_t reg;         // NONE: memory
    int8_t base, index; // index NONE: without
    uint8_t scale;      // 0 to 3
    uint8_t splat;      // one element, to all lanes (EVEX)
} dv_x_rm;

// Operands beside a and b; unnamed ones are 0.
typedef struct dv_x_more {
    int64_t imm;
    int mask; // 1 to 7, with or without DV_X_ZERO
} dv_x_more;

static inline dv_x_rm dv_x_reg(int reg)
{
    return (dv_x_rm){.reg = (int8_t)reg};
}

static inline dv_x_rm dv_x_mem(int base, int64_t disp)
{
    // An offset that does not fit leaves a register no instruction has.
    int fits = disp >= INT32_MIN && disp <= INT32_MAX;
    return (dv_x_rm){.disp = (int32_t)(fits ? disp : 0),
                     .reg = DV_X_NONE,
                     .base = (int8_t)(fits ? base : 127),
                     .index = DV_X_NONE};
}

// `vl` is the vector length in bytes: 16, 32 or 64; 0 for other instructions.
// `b` is 0 where the form has none.
void dv_x_emit(dv_code *code, dv_x_insn op, int vl, int a, int b, dv_x_rm m,
               dv_x_more more);
// The same in less time. Of form VRVM with three registers; of VRM or VRVM with
// memory at base + disp: as it is, one element to all lanes, or with a mask.
void dv_x_emit_3(dv_code *code, dv_x_insn op, int vl, int a, int b, int c);
void dv_x_emit_m(dv_code *code, dv_x_insn op, int vl, int a, int b, int base,
                 int64_t disp);
void dv_x_emit_splat(dv_code *code, dv_x_insn op, int vl, int a, int b,
                     int base, int64_t disp);
void dv_x_emit_mask(dv_code *code, dv_x_insn op, int vl, int a, int b, int base,
                    int64_t disp, int mask);
// Of GRM and GM (whose `reg` is 0) with memory or a register, and of GI with a
// register.
void dv_x_emit_gm(dv_code *code, dv_x_insn op, int reg, int base, int64_t disp);
void dv_x_emit_gr(dv_code *code, dv_x_insn op, int reg, int rm);
void dv_x_emit_gi(dv_code *code, dv_x_insn op, int rm, int64_t imm);
// What EVEX counts a row's short offsets in, in bytes.
int dv_x_offset_unit(const dv_x_row *row, int vl, int splat);
#endif
