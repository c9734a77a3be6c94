// Encoding x86-64 instructions:
//
//   general     [REX] [0f] opcode modrm [sib] [disp] [imm]
//   VEX         c5 or c4, fields, opcode modrm ...
//   EVEX        62, three bytes of fields, opcode modrm ...; short offsets
//               count in units of what the instruction reads
#include "jit/x86_64/insn.h"

const dv_x_row dv_x_rows[] = {
#define INSN(name, form, map, pp, w, op, enc, tuple, text)                     \
    {DV_X_##form, map, pp, w, op, DV_X_##enc, DV_X_##tuple},
#include "jit/x86_64/insn.def"
#undef INSN
};

// An instruction as it grows: 15 bytes at most.
typedef struct bytes {
    unsigned char at[16];
    unsigned n;
} bytes;

static void put(bytes *b, unsigned v)
{
    b->at[b->n++] = (unsigned char)v;
}

static void put_le(bytes *b, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        put(b, (unsigned)(v >> 8 * i & 255));
}

static unsigned bit(int reg, int i)
{
    return (unsigned)reg >> i & 1;
}

// -- Operands in modrm, sib and offset ---------------------------------------

static int fits8(int64_t v)
{
    return v >= -128 && v <= 127;
}

// Short offsets count in `unit` bytes.
static void put_modrm(bytes *b, int reg, dv_x_rm m, int unit)
{
    unsigned r = ((unsigned)reg & 7) << 3;
    if (m.reg != DV_X_NONE) {
        put(b, 0xc0 | r | ((unsigned)m.reg & 7));
        return;
    }
    if (m.base == DV_X_RIP) {
        put(b, r | 5);
        put_le(b, (uint32_t)m.disp, 4);
        return;
    }
    unsigned low = (unsigned)m.base & 7;
    int small = m.disp % unit == 0 && fits8(m.disp / unit);
    unsigned mod = m.disp == 0 && low != 5 ? 0 : small ? 1 : 2;
    if (m.index != DV_X_NONE || low == 4) {
        unsigned index = m.index == DV_X_NONE ? 4 : (unsigned)m.index & 7;
        put(b, mod << 6 | r | 4);
        put(b, (unsigned)m.scale << 6 | index << 3 | low);
    } else {
        put(b, mod << 6 | r | low);
    }
    if (mod == 1)
        put(b, (unsigned)(m.disp / unit) & 255);
    else if (mod == 2)
        put_le(b, (uint32_t)m.disp, 4);
}

static int in(int v, int below)
{
    return v >= 0 && v < below;
}

// Are the registers of an operand such as there are?
static int good_rm(dv_x_rm m, int regs, int index_regs)
{
    if (m.reg != DV_X_NONE)
        return in(m.reg, regs);
    return m.scale < 4 && m.base >= 0 && m.base <= DV_X_RIP &&
           (m.index == DV_X_NONE ||
            (in(m.index, index_regs) && m.base != DV_X_RIP));
}

// Bits that extend the fields of modrm and sib: index or rm bit 4, base or rm
// bit 3.
static unsigned ext_x(dv_x_rm m)
{
    return m.reg != DV_X_NONE     ? bit(m.reg, 4)
           : m.index != DV_X_NONE ? bit(m.index, 3)
                                  : 0;
}

static unsigned ext_b(dv_x_rm m)
{
    return m.reg != DV_X_NONE ? bit(m.reg, 3) : bit(m.base, 3) & (m.base < 16);
}

// -- General registers -------------------------------------------------------

static void put_rex(bytes *b, unsigned w, int reg, dv_x_rm m)
{
    unsigned rex = w << 3 | bit(reg, 3) << 2 | ext_x(m) << 1 | ext_b(m);
    if (rex)
        put(b, 0x40 | rex);
}

static int general(bytes *b, const dv_x_row *row, int a, dv_x_rm m, int64_t imm)
{
    int form = row->form, digit = form == DV_X_GI || form == DV_X_GM;
    int reg = digit ? row->pp : a;
    if (form == DV_X_GQ || form == DV_X_GO) {
        put_rex(b, row->w, 0, dv_x_reg(a));
        put(b, row->opcode | ((unsigned)a & 7));
        if (form == DV_X_GQ)
            put_le(b, (uint64_t)imm, 8);
        return in(a, 16);
    }
    put_rex(b, row->w, reg, m);
    if (row->map)
        put(b, 0x0f);
    // Small numbers have an opcode of their own, but for mov.
    int small = form == DV_X_GI && row->opcode == 0x81 && fits8(imm);
    put(b, small ? 0x83u : row->opcode);
    put_modrm(b, reg, m, 1);
    if (form == DV_X_GI)
        put_le(b, (uint64_t)imm, small ? 1 : 4);
    return in(reg, 16) && good_rm(m, 16, 16) && m.index != 4 && !m.splat &&
           (form != DV_X_GI || (imm >= INT32_MIN && imm <= INT32_MAX));
}

static int plain(bytes *b, const dv_x_row *row, int64_t imm)
{
    if (row->enc == DV_X_V) {
        put(b, 0xc5);
        put(b, 0xf8);
    } else if (row->map) {
        put(b, 0x0f);
    }
    put(b, row->opcode);
    if (row->form != DV_X_J)
        return 1;
    put_le(b, (uint64_t)imm, 4);
    return imm >= INT32_MIN && imm <= INT32_MAX;
}

// -- Vectors -----------------------------------------------------------------

static void put_vex(bytes *b, const dv_x_row *row, int vl, int a, int v,
                    dv_x_rm m)
{
    unsigned w = row->w == 1, tail = (~(unsigned)v & 15) << 3 |
                                     (unsigned)(vl == 32) << 2 | row->pp;
    if (row->map == 1 && !w && !ext_x(m) && !ext_b(m)) {
        put(b, 0xc5);
        put(b, (bit(a, 3) ^ 1) << 7 | tail);
    } else {
        put(b, 0xc4);
        put(b, (bit(a, 3) ^ 1) << 7 | (ext_x(m) ^ 1) << 6 |
                   (ext_b(m) ^ 1) << 5 | row->map);
        put(b, w << 7 | tail);
    }
}

static void put_evex(bytes *b, const dv_x_row *row, int vl, int a, int v,
                     dv_x_rm m, int mask)
{
    // A vector of offsets has its bit 4 where vvvv has it.
    int gather = row->form == DV_X_VG;
    int high = gather ? m.index : v;
    put(b, 0x62);
    put(b, (bit(a, 3) ^ 1) << 7 | (ext_x(m) ^ 1) << 6 | (ext_b(m) ^ 1) << 5 |
               (bit(a, 4) ^ 1) << 4 | row->map);
    put(b,
        (unsigned)(row->w != 0) << 7 | (~(unsigned)v & 15) << 3 | 4 | row->pp);
    put(b, (unsigned)(mask & DV_X_ZERO) << 4 | (unsigned)(vl / 32) << 5 |
               (unsigned)m.splat << 4 | (bit(high, 4) ^ 1) << 3 |
               ((unsigned)mask & 7));
}

static int unit_of(const dv_x_row *row, int vl, dv_x_rm m)
{
    switch ((dv_x_tuple)row->tuple) {
    case DV_X_FV:
        return !m.splat ? vl : row->w ? 8 : 4;
    case DV_X_VM:
        return vl;
    case DV_X_S4:
        return 4;
    case DV_X_S8:
        return 8;
    case DV_X_M16:
        return 16;
    case DV_X_M32:
        return 32;
    }
    return 1;
}

static int good_vector(const dv_x_row *row, int vl, int a, int v, dv_x_rm m,
                       int evex, int mask)
{
    int regs = evex ? 32 : 16, memory = m.reg == DV_X_NONE;
    int gather = row->form == DV_X_VG, kr = row->form == DV_X_KR;
    int has_v =
        row->form == DV_X_VRVM || row->form == DV_X_VRVMI || (gather && !evex);
    return (vl == 16 || vl == 32 || (vl == 64 && evex)) &&
           in(a, kr ? 8 : regs) && (has_v ? in(v, regs) : v == 0) &&
           good_rm(m, kr ? 16 : regs, gather ? regs : 16) &&
           (!gather || (memory && m.index != DV_X_NONE)) &&
           (gather || !memory || m.index != 4) &&
           (row->enc & (evex ? DV_X_E : DV_X_V)) && (mask == 0 || mask & 7) &&
           in(mask, 16) && (evex || !mask) &&
           (!m.splat || (evex && memory && row->tuple == DV_X_FV));
}

static int vector(bytes *b, const dv_x_row *row, int vl, int a, int v,
                  dv_x_rm m, dv_x_more more)
{
    int high = a > 15 || v > 15 || m.reg > 15 ||
               (row->form == DV_X_VG && m.index > 15);
    int evex = vl == 64 || high || more.mask || m.splat || row->enc == DV_X_E;
    if (evex)
        put_evex(b, row, vl, a, v, m, more.mask);
    else
        put_vex(b, row, vl, a, v, m);
    put(b, row->opcode);
    put_modrm(b, a, m, evex ? unit_of(row, vl, m) : 1);
    if (row->form == DV_X_VRMI || row->form == DV_X_VRVMI)
        put(b, (unsigned)more.imm & 255);
    return good_vector(row, vl, a, v, m, evex, more.mask) && more.imm >= 0 &&
           more.imm < 256;
}

void dv_x_emit(dv_code *code, dv_x_insn op, int vl, int a, int b, dv_x_rm m,
               dv_x_more more)
{
    const dv_x_row *row = &dv_x_rows[op];
    bytes out = {.n = 0};
    int ok;
    if (row->form == DV_X_J || row->form == DV_X_N)
        ok = plain(&out, row, more.imm);
    else if (row->form < DV_X_VRM)
        ok = general(&out, row, a, m, more.imm);
    else
        ok = vector(&out, row, vl ? vl : 16, a, b, m, more);
    code->failed |= !ok;
    dv_code_bytes(code, out.at, out.n);
}
