// Encodes x86-64 instructions, in one of three layouts:
//
//   general     [REX] [0f] opcode modrm [sib] [disp] [imm]
//   VEX         c5 or c4, fields, opcode modrm ...
//   EVEX        62, three bytes of fields, opcode modrm ...; an 8-bit
//               displacement counts in units of the operand's size
#include "jit/x64/insn.h"

// Prefix and opcode as one number, low byte first. Fields that are stored
// inverted are all ones.
#define EVEX(map, pp, w, op)                                                   \
    (0x62 | (0xf0u | (map)) << 8 | (((w) != 0) << 7 | 0x7cu | (pp)) << 16 |    \
     8u << 24 | (uint64_t)(op) << 32)
#define VEX(map, pp, w, op)                                                    \
    (0xc4 | (0xe0u | (map)) << 8 | (((w) == 1) << 7 | 0x78u | (pp)) << 16 |    \
     (uint64_t)(op) << 24)

const dv_x_row dv_x_rows[] = {
#define INSN(name, form, map, pp, w, op, enc, tuple, text)                     \
    {DV_X_##form,                                                              \
     map,                                                                      \
     pp,                                                                       \
     w,                                                                        \
     op,                                                                       \
     DV_X_##enc,                                                               \
     DV_X_##tuple,                                                             \
     EVEX(map, pp, w, op),                                                     \
     VEX(map, pp, w, op)},
#include "jit/x64/insn.def"
#undef INSN
};

// Generating a kernel should take little time, so instructions are written
// directly to the code buffer through a pointer that every function advances.
// The caller has checked that ROOM bytes, enough for any instruction, are left.
enum { ROOM = 16 };

static inline unsigned char *put(unsigned char *p, unsigned v)
{
    *p = (unsigned char)v;
    return p + 1;
}

static inline unsigned char *put_le(unsigned char *p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        p = put(p, (unsigned)(v >> 8 * i & 255));
    return p;
}

static inline unsigned char *put_4(unsigned char *p, uint32_t v)
{
    return put_le(p, v, 4);
}

static inline unsigned bit(int reg, int i)
{
    return (unsigned)reg >> i & 1;
}

static int fits8(int64_t v)
{
    return v >= -128 && v <= 127;
}

// Writes modrm, sib and displacement. An 8-bit displacement counts in 1 << log
// bytes.
static inline unsigned char *put_modrm(unsigned char *p, int reg, dv_x_rm m,
                                       int log)
{
    unsigned r = ((unsigned)reg & 7) << 3;
    if (m.reg != DV_X_NONE)
        return put(p, 0xc0 | r | ((unsigned)m.reg & 7));
    if (m.base == DV_X_RIP)
        return put_4(put(p, r | 5), (uint32_t)m.disp);
    unsigned low = (unsigned)m.base & 7;
    int far = m.disp >> log;
    int small = far == (int8_t)far && far * (1 << log) == m.disp;
    unsigned mod = m.disp == 0 && low != 5 ? 0 : small ? 1 : 2;
    if (m.index != DV_X_NONE || low == 4) {
        unsigned index = m.index == DV_X_NONE ? 4 : (unsigned)m.index & 7;
        p = put(p, mod << 6 | r | 4);
        p = put(p, (unsigned)m.scale << 6 | index << 3 | low);
    } else {
        p = put(p, mod << 6 | r | low);
    }
    if (mod == 1)
        return put(p, (unsigned)far & 255);
    return mod == 2 ? put_4(p, (uint32_t)m.disp) : p;
}

static int in(int v, int below)
{
    return v >= 0 && v < below;
}

// Are all register numbers of an rm operand below the given limits?
static inline int good_rm(dv_x_rm m, int regs, int index_regs)
{
    if (m.reg != DV_X_NONE)
        return in(m.reg, regs);
    return m.scale < 4 && m.base >= 0 && m.base <= DV_X_RIP &&
           (m.index == DV_X_NONE ||
            (in(m.index, index_regs) && m.base != DV_X_RIP));
}

// Return bit 3 of the index register or bit 4 of the register in rm (ext_x),
// and bit 3 of the base register or of the register in rm (ext_b): they do not
// fit the fields of modrm and sib and go into a prefix.
static inline unsigned ext_x(dv_x_rm m)
{
    return m.reg != DV_X_NONE     ? bit(m.reg, 4)
           : m.index != DV_X_NONE ? bit(m.index, 3)
                                  : 0;
}

static inline unsigned ext_b(dv_x_rm m)
{
    return bit(m.reg != DV_X_NONE ? m.reg : m.base, 3);
}

static unsigned char *put_rex(unsigned char *p, unsigned w, int reg, dv_x_rm m)
{
    unsigned rex = w << 3 | bit(reg, 3) << 2 | ext_x(m) << 1 | ext_b(m);
    return rex ? put(p, 0x40 | rex) : p;
}

// Encodes an instruction on general registers. Like plain() and vector(), it
// returns the end of the instruction, or NULL if the operands cannot be
// encoded.
static unsigned char *general(unsigned char *p, const dv_x_row *row, int a,
                              dv_x_rm m, int64_t imm)
{
    int form = row->form, digit = form == DV_X_GI || form == DV_X_GM;
    int reg = digit ? row->pp : a;
    if (form == DV_X_GQ || form == DV_X_GO) {
        p = put_rex(p, row->w, 0, dv_x_reg(a));
        p = put(p, row->opcode | ((unsigned)a & 7));
        p = form == DV_X_GQ ? put_le(p, (uint64_t)imm, 8) : p;
        return in(a, 16) ? p : NULL;
    }
    p = put_rex(p, row->w, reg, m);
    if (row->map)
        p = put(p, 0x0f);
    // An 8-bit immediate has an opcode of its own, except for mov.
    int small = form == DV_X_GI && row->opcode == 0x81 && fits8(imm);
    p = put(p, small ? 0x83u : row->opcode);
    p = put_modrm(p, reg, m, 0);
    if (form == DV_X_GI)
        p = small ? put(p, (unsigned)imm) : put_4(p, (uint32_t)imm);
    int ok = in(reg, 16) && good_rm(m, 16, 16) && m.index != 4 && !m.splat &&
             (form != DV_X_GI || (imm >= INT32_MIN && imm <= INT32_MAX));
    return ok ? p : NULL;
}

static unsigned char *plain(unsigned char *p, const dv_x_row *row, int64_t imm)
{
    if (row->enc == DV_X_V)
        p = put(put(p, 0xc5), 0xf8);
    else if (row->map)
        p = put(p, 0x0f);
    p = put(p, row->opcode);
    if (row->form != DV_X_J)
        return p;
    p = put_4(p, (uint32_t)imm);
    return imm >= INT32_MIN && imm <= INT32_MAX ? p : NULL;
}

// Return prefix and opcode as one number, low byte first; *n becomes their
// length. A table row has this number for registers 0, with ones where fields
// are stored inverted, so that exclusive or inserts any register into any
// field.
static inline uint64_t evex_word(const dv_x_row *row, int vl, int a, int v,
                                 dv_x_rm m, int mask)
{
    // A gather has bit 4 of its index register in the field where other
    // instructions have bit 4 of vvvv.
    uint64_t high = bit(row->form == DV_X_VG ? m.index : v, 4);
    unsigned third = (unsigned)(mask & DV_X_ZERO) << 4 |
                     (unsigned)(vl / 32) << 5 | (unsigned)m.splat << 4 |
                     ((unsigned)mask & 7);
    return (row->evex ^
            (bit(a, 3) << 15 | ext_x(m) << 14 | ext_b(m) << 13 |
             bit(a, 4) << 12 | ((unsigned)v & 15) << 19 | high << 27)) |
           (uint64_t)third << 24;
}

static inline uint64_t vex_word(const dv_x_row *row, int vl, int a, int v,
                                dv_x_rm m, int *n)
{
    uint64_t w =
        row->vex ^ (bit(a, 3) << 15 | ext_x(m) << 14 | ext_b(m) << 13 |
                    ((unsigned)v & 15) << 19 | (unsigned)(vl == 32) << 18);
    *n = 4;
    if (row->map != 1 || row->w == 1 || (w >> 13 & 3) != 3)
        return w;
    *n = 3; // most instructions of map 1 need a prefix of two bytes only
    return 0xc5 | (w >> 8 & 0x80) << 8 | (w >> 16 & 0x7f) << 8 |
           (w >> 24 & 255) << 16;
}

int dv_x_offset_log(const dv_x_row *row, int vl, int splat)
{
    static const uint8_t fixed[] = {
        [DV_X_S4] = 2, [DV_X_S8] = 3, [DV_X_M16] = 4, [DV_X_M32] = 5};
    static const uint8_t part[] = {
        [DV_X_FV] = 0, [DV_X_VM] = 0, [DV_X_HV] = 1, [DV_X_QV] = 2};
    int vector = vl == 64 ? 6 : vl == 32 ? 5 : 4;
    if (splat && row->tuple == DV_X_FV)
        return row->w ? 3 : 2;
    return row->tuple >= DV_X_S4 ? fixed[row->tuple]
                                 : vector - part[row->tuple];
}

static inline int good_vector(const dv_x_row *row, int vl, int a, int v,
                              dv_x_rm m, int evex, int mask)
{
    int regs = evex ? 32 : 16, memory = m.reg == DV_X_NONE;
    int gather = row->form == DV_X_VG, kr = row->form == DV_X_KR;
    int to_mask = kr || row->form == DV_X_VKVMI;
    int has_v = row->form == DV_X_VRVM || row->form == DV_X_VRVMI ||
                row->form == DV_X_VKVMI || (gather && !evex);
    int rm_regs = kr ? 16 : row->form == DV_X_VK ? 8 : regs;
    return (vl == 16 || vl == 32 || (vl == 64 && evex)) &&
           in(a, to_mask ? 8 : regs) && (has_v ? in(v, regs) : v == 0) &&
           good_rm(m, rm_regs, gather ? regs : 16) &&
           (!gather || (memory && m.index != DV_X_NONE)) &&
           (gather || !memory || m.index != 4) &&
           (row->enc & (evex ? DV_X_E : DV_X_V)) && (mask == 0 || mask & 7) &&
           in(mask, 16) && (evex || !mask) &&
           (!m.splat || (evex && memory && row->tuple == DV_X_FV));
}

// Checks the operands of an AMX tile instruction: eight tiles, and memory whose
// index register holds the row stride.
static int good_tile(const dv_x_row *row, int vl, int a, int b, dv_x_rm m,
                     dv_x_more more)
{
    int memory = m.reg == DV_X_NONE;
    if (vl != 16 || more.mask || more.imm || m.splat || !in(a, 8) || !in(b, 8))
        return 0;
    if (row->form == DV_X_T)
        return !memory && in(m.reg, 8);
    return memory && good_rm(m, 8, 16) && m.index != 4 && b == 0 &&
           (row->form == DV_X_TC ? a == 0 : m.index != DV_X_NONE);
}

__attribute__((always_inline)) static inline unsigned char *
vector(unsigned char *p, const dv_x_row *row, int vl, int a, int v, dv_x_rm m,
       dv_x_more more)
{
    int high = a > 15 || v > 15 || m.reg > 15 ||
               (row->form == DV_X_VG && m.index > 15);
    int evex = vl == 64 || high || more.mask || m.splat || row->enc == DV_X_E;
    int n = 5;
    put_le(p,
           evex ? evex_word(row, vl, a, v, m, more.mask)
                : vex_word(row, vl, a, v, m, &n),
           8);
    p = put_modrm(p + n, a, m, evex ? dv_x_offset_log(row, vl, m.splat) : 0);
    if (row->form == DV_X_VRMI || row->form == DV_X_VRVMI ||
        row->form == DV_X_VKVMI)
        p = put(p, (unsigned)more.imm & 255);
    int ok = row->form >= DV_X_TC
                 ? good_tile(row, vl, a, v, m, more)
                 : good_vector(row, vl, a, v, m, evex, more.mask) &&
                       more.imm >= 0 && more.imm < 256;
    return ok ? p : NULL;
}

// Encodes any instruction. It is inlined into the functions below, so that the
// compiler removes what the operands of frequent forms do not need, which makes
// them twice as fast.
__attribute__((always_inline)) static inline void
encode(dv_code *code, dv_x_insn op, int vl, int a, int b, dv_x_rm m,
       dv_x_more more)
{
    const dv_x_row *row = &dv_x_rows[op];
    if (code->cap - code->n < ROOM) {
        code->failed = 1;
        return;
    }
    unsigned char *p = code->at + code->n, *end;
    if (row->form >= DV_X_VRM)
        end = vector(p, row, vl ? vl : 16, a, b, m, more);
    else if (row->form == DV_X_J || row->form == DV_X_N)
        end = plain(p, row, more.imm);
    else
        end = general(p, row, a, m, more.imm);
    code->failed |= !end;
    code->n += end ? (size_t)(end - p) : 0;
}

void dv_x_emit(dv_code *code, dv_x_insn op, int vl, int a, int b, dv_x_rm m,
               dv_x_more more)
{
    encode(code, op, vl, a, b, m, more);
}

void dv_x_emit_3(dv_code *code, dv_x_insn op, int vl, int a, int b, int c)
{
    if (dv_x_rows[op].form == DV_X_VRVM && vl && c >= 0)
        encode(code, op, vl, a, b, dv_x_reg(c), none);
    else
        dv_x_emit(code, op, vl, a, b, dv_x_reg(c), none);
}

void dv_x_emit_m(dv_code *code, dv_x_insn op, int vl, int a, int b, int base,
                 int64_t disp)
{
    if (dv_x_rows[op].form == DV_X_VRM && vl)
        encode(code, op, vl, a, b, dv_x_mem(base, disp), none);
    else
        dv_x_emit(code, op, vl, a, b, dv_x_mem(base, disp), none);
}
