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

// Writes modrm, sib and displacement. An 8-bit displacement counts in `unit`
// bytes, a power of two.
static inline unsigned char *put_modrm(unsigned char *p, int reg, dv_x_rm m,
                                       int unit)
{
    unsigned r = ((unsigned)reg & 7) << 3;
    if (m.reg != DV_X_NONE)
        return put(p, 0xc0 | r | ((unsigned)m.reg & 7));
    if (m.base == DV_X_RIP)
        return put_4(put(p, r | 5), (uint32_t)m.disp);
    unsigned low = (unsigned)m.base & 7;
    int small = !((unsigned)m.disp & (unsigned)(unit - 1)) &&
                m.disp >= -128 * unit && m.disp <= 127 * unit;
    unsigned mod = m.disp == 0 && low != 5 ? 0 : small ? 1 : 2;
    if (m.index != DV_X_NONE || low == 4) {
        unsigned index = m.index == DV_X_NONE ? 4 : (unsigned)m.index & 7;
        p = put(p, mod << 6 | r | 4);
        p = put(p, (unsigned)m.scale << 6 | index << 3 | low);
    } else {
        p = put(p, mod << 6 | r | low);
    }
    if (mod == 1)
        return put(p, (unsigned)(m.disp / unit) & 255);
    return mod == 2 ? put_4(p, (uint32_t)m.disp) : p;
}

static int in(int v, int below)
{
    return v >= 0 && v < below;
}

// Are all register numbers of an rm operand below the given limits?
static int good_rm(dv_x_rm m, int regs, int index_regs)
{
    if (m.reg != DV_X_NONE)
        return in(m.reg, regs);
    return m.scale < 4 && m.base >= 0 && m.base <= DV_X_RIP &&
           (m.index == DV_X_NONE ||
            (in(m.index, index_regs) && m.base != DV_X_RIP));
}

// Return the bits of register numbers that do not fit the fields of modrm and
// sib and go into a prefix. ext_x: bit 3 of the index register or bit 4 of the
// register in rm; ext_b: bit 3 of the base register or of the register in rm.
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
    p = put_modrm(p, reg, m, 1);
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

static inline unsigned char *put_vex(unsigned char *p, const dv_x_row *row,
                                     int vl, int a, int v, dv_x_rm m)
{
    unsigned w = row->w == 1, tail = (~(unsigned)v & 15) << 3 |
                                     (unsigned)(vl == 32) << 2 | row->pp;
    unsigned x = ext_x(m), b = ext_b(m), r = (bit(a, 3) ^ 1) << 7;
    if (row->map == 1 && !w && !x && !b)
        return put(put(p, 0xc5), r | tail);
    p = put(put(p, 0xc4), r | (x ^ 1) << 6 | (b ^ 1) << 5 | row->map);
    return put(p, w << 7 | tail);
}

static inline unsigned char *put_evex(unsigned char *p, const dv_x_row *row,
                                      int vl, int a, int v, dv_x_rm m, int mask)
{
    // A gather has bit 4 of its index register in the field where other
    // instructions have bit 4 of vvvv.
    int gather = row->form == DV_X_VG;
    int high = gather ? m.index : v;
    unsigned first = (bit(a, 3) ^ 1) << 7 | (ext_x(m) ^ 1) << 6 |
                     (ext_b(m) ^ 1) << 5 | (bit(a, 4) ^ 1) << 4 | row->map;
    unsigned second =
        (unsigned)(row->w != 0) << 7 | (~(unsigned)v & 15) << 3 | 4 | row->pp;
    unsigned third = (unsigned)(mask & DV_X_ZERO) << 4 |
                     (unsigned)(vl / 32) << 5 | (unsigned)m.splat << 4 |
                     (bit(high, 4) ^ 1) << 3 | ((unsigned)mask & 7);
    return put_4(p, 0x62 | first << 8 | second << 16 | third << 24);
}

int dv_x_offset_unit(const dv_x_row *row, int vl, int splat)
{
    switch ((dv_x_tuple)row->tuple) {
    case DV_X_FV:
        return !splat ? vl : row->w ? 8 : 4;
    case DV_X_VM:
        return vl;
    case DV_X_HV:
        return vl / 2;
    case DV_X_QV:
        return vl / 4;
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

static unsigned char *vector(unsigned char *p, const dv_x_row *row, int vl,
                             int a, int v, dv_x_rm m, dv_x_more more)
{
    int high = a > 15 || v > 15 || m.reg > 15 ||
               (row->form == DV_X_VG && m.index > 15);
    int evex = vl == 64 || high || more.mask || m.splat || row->enc == DV_X_E;
    p = evex ? put_evex(p, row, vl, a, v, m, more.mask)
             : put_vex(p, row, vl, a, v, m);
    p = put_modrm(put(p, row->opcode), a, m,
                  evex ? dv_x_offset_unit(row, vl, m.splat) : 1);
    if (row->form == DV_X_VRMI || row->form == DV_X_VRVMI ||
        row->form == DV_X_VKVMI)
        p = put(p, (unsigned)more.imm & 255);
    int ok = row->form >= DV_X_TC
                 ? good_tile(row, vl, a, v, m, more)
                 : good_vector(row, vl, a, v, m, evex, more.mask) &&
                       more.imm >= 0 && more.imm < 256;
    return ok ? p : NULL;
}

// The following fast encoders build prefix and opcode as one number, low byte
// first. A table row has this number for registers 0, with ones where fields
// are stored inverted, so that exclusive or inserts any register into any
// field.

static inline void put_8(unsigned char *p, uint64_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    memcpy(p, &v, sizeof v);
}

// Return the prefix bits of the registers in the fields reg, vvvv and rm, to be
// combined by exclusive or.
static inline uint64_t evex_bits(unsigned a, unsigned v, unsigned rm)
{
    uint64_t reg = (a & 8) << 12 | (a & 16) << 8, b = (rm & 8) << 10;
    return reg | b | (rm & 16) << 10 | (v & 15) << 19 |
           (uint64_t)(v & 16) << 23;
}

static inline uint64_t vex_bits(unsigned a, unsigned v, unsigned rm, int vl)
{
    return (a & 8) << 12 | (rm & 8) << 10 | (v & 15) << 19 |
           (unsigned)(vl == 32) << 18;
}

// Shortens a VEX prefix to two bytes if possible, which it is for most of map
// 1. The result includes the opcode; *n becomes its length.
static inline uint64_t vex_word(const dv_x_row *row, uint64_t w, int *n)
{
    *n = 4;
    if (row->map != 1 || row->w == 1 || (w >> 13 & 3) != 3)
        return w;
    *n = 3;
    return 0xc5 | (w >> 8 & 0x80) << 8 | (w >> 16 & 0x7f) << 8 |
           (w >> 24 & 255) << 16;
}

// Checks that there is room for any instruction in the code buffer, and that
// the registers and the vector length can be encoded.
static inline int good(const dv_code *code, const dv_x_row *row, int vl,
                       unsigned regs, int evex)
{
    return code->cap - code->n >= ROOM && regs < 32 &&
           (row->enc & (evex ? DV_X_E : DV_X_V)) &&
           (vl == 16 || vl == 32 || (vl == 64 && evex));
}

void dv_x_emit_3(dv_code *code, dv_x_insn op, int vl, int a, int b, int c)
{
    const dv_x_row *row = &dv_x_rows[op];
    unsigned ra = (unsigned)a, rb = (unsigned)b, rc = (unsigned)c;
    uint64_t modrm = 0xc0 | (ra & 7) << 3 | (rc & 7), w;
    int evex = vl == 64 || (ra | rb | rc) > 15 || row->enc == DV_X_E, n = 5;
    if (!good(code, row, vl, ra | rb | rc, evex) || row->form != DV_X_VRVM) {
        code->failed = 1;
        return;
    }
    if (evex)
        w = (row->evex ^ evex_bits(ra, rb, rc)) | (uint64_t)(vl / 32) << 29;
    else
        w = vex_word(row, row->vex ^ vex_bits(ra, rb, rc, vl), &n);
    put_8(code->at + code->n, w | modrm << 8 * n);
    code->n += (size_t)n + 1;
}

// Writes modrm, sib and displacement at p. An 8-bit displacement counts in 1 <<
// unit bytes.
static inline unsigned char *put_place(unsigned char *p, int reg, int base,
                                       int64_t disp, int unit)
{
    unsigned low = (unsigned)base & 7;
    int64_t far = disp >> unit;
    int small = far == (int8_t)far && far * (INT64_C(1) << unit) == disp;
    unsigned mod = disp == 0 && low != 5 ? 0 : small ? 1 : 2;
    uint64_t w = mod << 6 | ((unsigned)reg & 7) << 3 | low;
    int n = 1;
    if (low == 4) {
        w |= 0x2400;
        n = 2;
    }
    w |= (mod == 1 ? (uint64_t)far & 255 : (uint64_t)(uint32_t)disp) << 8 * n;
    put_8(p, w);
    return p + n + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

// Encodes an instruction with memory at base + disp. `how` holds EVEX's mask
// and broadcast bits; if it is 0, VEX may be used.
static inline void memory(dv_code *code, dv_x_insn op, int vl, int a, int b,
                          int base, int64_t disp, unsigned how, int unit)
{
    const dv_x_row *row = &dv_x_rows[op];
    unsigned ra = (unsigned)a, rb = (unsigned)b, rm = (unsigned)base;
    int evex = vl == 64 || (ra | rb) > 15 || how || row->enc == DV_X_E, n = 5;
    if (!good(code, row, vl, ra | rb, evex) || rm > 15 ||
        (row->form != DV_X_VRVM && (row->form != DV_X_VRM || b)) ||
        disp != (int32_t)disp) {
        code->failed = 1;
        return;
    }
    unsigned char *p = code->at + code->n;
    if (evex)
        put_8(p, (row->evex ^ evex_bits(ra, rb, rm)) |
                     (uint64_t)(vl / 32) << 29 | (uint64_t)how << 24);
    else
        put_8(p, vex_word(row, row->vex ^ vex_bits(ra, rb, rm, vl), &n));
    p = put_place(p + n, a, base, disp, evex ? unit : 0);
    code->n = (size_t)(p - code->at);
}

// Returns log2 of the unit of EVEX's 8-bit displacement for an operand that is
// not broadcast.
static inline int unit_log(const dv_x_row *row, int vl)
{
    static const uint8_t fixed[] = {
        [DV_X_S4] = 2, [DV_X_S8] = 3, [DV_X_M16] = 4, [DV_X_M32] = 5};
    static const uint8_t part[] = {
        [DV_X_FV] = 0, [DV_X_VM] = 0, [DV_X_HV] = 1, [DV_X_QV] = 2};
    int vector = vl == 64 ? 6 : vl == 32 ? 5 : 4;
    return row->tuple >= DV_X_S4 ? fixed[row->tuple]
                                 : vector - part[row->tuple];
}

void dv_x_emit_m(dv_code *code, dv_x_insn op, int vl, int a, int b, int base,
                 int64_t disp)
{
    memory(code, op, vl, a, b, base, disp, 0, unit_log(&dv_x_rows[op], vl));
}

void dv_x_emit_broadcast(dv_code *code, dv_x_insn op, int vl, int a, int b,
                         int base, int64_t disp)
{
    enum { SPLAT = 16 };
    const dv_x_row *row = &dv_x_rows[op];
    code->failed |= row->tuple != DV_X_FV;
    memory(code, op, vl, a, b, base, disp, SPLAT, row->w ? 3 : 2);
}

void dv_x_emit_mask(dv_code *code, dv_x_insn op, int vl, int a, int b, int base,
                    int64_t disp, int mask)
{
    unsigned how = ((unsigned)mask & DV_X_ZERO) << 4 | ((unsigned)mask & 7);
    code->failed |= !(mask & 7) || !in(mask, 16);
    memory(code, op, vl, a, b, base, disp, how, unit_log(&dv_x_rows[op], vl));
}

// Writes a REX prefix if one is needed, then the opcode.
static inline unsigned char *put_op(unsigned char *p, const dv_x_row *row,
                                    unsigned reg, unsigned rm)
{
    unsigned rex = (unsigned)row->w << 3 | (reg & 8) >> 1 | (rm & 8) >> 3;
    p[0] = (unsigned char)(0x40 | rex);
    p += rex != 0;
    p[0] = 0x0f;
    p += row->map;
    p[0] = row->opcode;
    return p + 1;
}

static int good_general(const dv_code *code, const dv_x_row *row, int reg,
                        int rm)
{
    return code->cap - code->n >= ROOM && in(rm, 16) &&
           (row->form == DV_X_GRM ? in(reg, 16)
                                  : row->form == DV_X_GM && reg == 0);
}

void dv_x_emit_gm(dv_code *code, dv_x_insn op, int reg, int base, int64_t disp)
{
    const dv_x_row *row = &dv_x_rows[op];
    if (!good_general(code, row, reg, base) || disp != (int32_t)disp) {
        code->failed = 1;
        return;
    }
    reg = row->form == DV_X_GM ? row->pp : reg;
    unsigned char *p = code->at + code->n;
    p = put_op(p, row, (unsigned)reg, (unsigned)base);
    code->n = (size_t)(put_place(p, reg, base, disp, 0) - code->at);
}

void dv_x_emit_gr(dv_code *code, dv_x_insn op, int reg, int rm)
{
    const dv_x_row *row = &dv_x_rows[op];
    if (!good_general(code, row, reg, rm)) {
        code->failed = 1;
        return;
    }
    reg = row->form == DV_X_GM ? row->pp : reg;
    unsigned char *p = code->at + code->n;
    p = put_op(p, row, (unsigned)reg, (unsigned)rm);
    p = put(p, 0xc0 | ((unsigned)reg & 7) << 3 | ((unsigned)rm & 7));
    code->n = (size_t)(p - code->at);
}

void dv_x_emit_gi(dv_code *code, dv_x_insn op, int rm, int64_t imm)
{
    const dv_x_row *row = &dv_x_rows[op];
    if (code->cap - code->n < ROOM || row->form != DV_X_GI || !in(rm, 16) ||
        imm != (int32_t)imm) {
        code->failed = 1;
        return;
    }
    unsigned char *p = code->at + code->n;
    int small = row->opcode == 0x81 && fits8(imm);
    p = put_op(p, row, 0, (unsigned)rm);
    p[-1] = small ? 0x83 : row->opcode;
    p = put(p, 0xc0 | (unsigned)row->pp << 3 | ((unsigned)rm & 7));
    p = small ? put(p, (unsigned)imm & 255) : put_4(p, (uint32_t)imm);
    code->n = (size_t)(p - code->at);
}

void dv_x_emit(dv_code *code, dv_x_insn op, int vl, int a, int b, dv_x_rm m,
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
