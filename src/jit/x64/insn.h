// Encodes x86-64 instructions: one general function, driven by the table
// insn.def, and faster ones for frequent forms.
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
    DV_X_VRM, // from here on: operand layouts of vector instructions
    DV_X_VRVM,
    DV_X_VRMI,
    DV_X_VRVMI,
    DV_X_VG,
    DV_X_VKVMI,
    DV_X_VK,
    DV_X_KR,
    DV_X_KK,
    DV_X_TC, // from here on: operand layouts of AMX instructions
    DV_X_TM,
    DV_X_T
} dv_x_form;

typedef enum dv_x_enc { DV_X_G, DV_X_V = 1, DV_X_E = 2, DV_X_VE } dv_x_enc;

typedef enum dv_x_tuple {
    DV_X_FV,
    DV_X_VM,
    DV_X_S4 = 4,
    DV_X_S8,
    DV_X_M16,
    DV_X_M32,
    DV_X_HV = 8,
    DV_X_QV,
    DV_X_OV
} dv_x_tuple;

typedef enum dv_x_insn {
#define INSN(name, form, map, pp, w, op, enc, tuple, text) DV_X_##name,
#include "jit/x64/insn.def"
#undef INSN
    DV_X_COUNT
} dv_x_insn;

typedef struct dv_x_row {
    uint8_t form, map, pp, w, opcode, enc, tuple;
} dv_x_row;
extern const dv_x_row dv_x_rows[];

// Base registers besides 0 to 15: DV_X_RIP is relative to the next instruction,
// DV_X_NONE means no register.
enum { DV_X_RIP = 16, DV_X_NONE = -1 };
enum { DV_X_ZERO = 8 }; // added to a mask: clears masked-off lanes

// The operand in the rm field: a register, or memory at
// base + (index << scale) + disp. It has eight bytes, so that it is passed in a
// register.
typedef struct dv_x_rm {
    int32_t disp;
    int8_t reg;         // DV_X_NONE: the operand is in memory
    int8_t base, index; // index DV_X_NONE: no index register
    uint8_t scale : 2;  // log2 of the index scale, 0 to 3
    // 1: memory holds one element, broadcast to all lanes (EVEX).
    uint8_t splat : 1;
} dv_x_rm;

// The immediate and the mask of an instruction; fields that are not set are 0.
typedef struct dv_x_more {
    int64_t imm;
    int mask; // mask register 1 to 7, plus DV_X_ZERO to clear other lanes
} dv_x_more;

static const dv_x_more none = {0};

static inline dv_x_rm dv_x_reg(int reg)
{
    return (dv_x_rm){.reg = (int8_t)reg};
}

static inline dv_x_rm dv_x_mem(int base, int64_t disp)
{
    // A disp that does not fit in 32 bits sets an invalid base register, so
    // that encoding the instruction fails.
    int fits = disp >= INT32_MIN && disp <= INT32_MAX;
    return (dv_x_rm){.disp = (int32_t)(fits ? disp : 0),
                     .reg = DV_X_NONE,
                     .base = (int8_t)(fits ? base : 127),
                     .index = DV_X_NONE};
}

// Encodes any instruction. `vl` is the vector length in bytes (16, 32 or 64), 0
// for instructions without vectors. `b` is 0 if the form has no such operand.
void dv_x_emit(dv_code *code, dv_x_insn op, int vl, int a, int b, dv_x_rm m,
               dv_x_more more);
// Encode frequent forms (layouts of operands, see insn.def) faster: GRM, GM
// (with a 0), VRM and VRVM, with register c, or memory at base + disp, as
// operand m. These write a run of n instructions: register a, and b if the form
// has it, grow by 1 from each to the next, and c or disp by `step`. If vl is
// DV_X_SPLAT, vectors have 64 bytes and memory holds one element, broadcast to
// all lanes.
enum { DV_X_SPLAT = 96 };
void dv_x_run_3(dv_code *code, dv_x_insn op, int vl, int n, int a, int b, int c,
                int step);
void dv_x_run_m(dv_code *code, dv_x_insn op, int vl, int n, int a, int b,
                int base, int64_t disp, int step);
// Write one instruction of the forms GRM, GM, VRM or VRVM, with register c or
// memory as operand m; dv_x_emit_gi writes one of form GI (immediate).
void dv_x_emit_3(dv_code *code, dv_x_insn op, int vl, int a, int b, int c);
void dv_x_emit_m(dv_code *code, dv_x_insn op, int vl, int a, int b, int base,
                 int64_t disp);
static inline void dv_x_emit_gm(dv_code *code, dv_x_insn op, int reg, int base,
                                int64_t disp)
{
    dv_x_emit_m(code, op, 16, reg, 0, base, disp);
}
static inline void dv_x_emit_gr(dv_code *code, dv_x_insn op, int reg, int rm)
{
    dv_x_emit_3(code, op, 16, reg, 0, rm);
}
static inline void dv_x_emit_gi(dv_code *code, dv_x_insn op, int rm,
                                int64_t imm)
{
    dv_x_emit(code, op, 0, 0, 0, dv_x_reg(rm), (dv_x_more){.imm = imm});
}
// Returns log2 of the unit in bytes of EVEX's compressed 8-bit displacement.
int dv_x_offset_log(const dv_x_row *row, int vl, int splat);
#endif
