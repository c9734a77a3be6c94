// Encodes x86-64 instructions, in one of three layouts:
//
//   general     [REX] [0f] opcode modrm [sib] [disp] [imm]
//   VEX         c5 or c4, fields, opcode modrm ...
//   EVEX        62, three bytes of fields, opcode modrm ...; an 8-bit
//               displacement counts in units of the operand's size
#include "jit/x64/insn.h"

const dv_x_row dv_x_rows[] = {
#define INSN(name, form, map, pp, w, op, enc, tuple, text)                     \
    {DV_X_##form, map, pp, w, op, DV_X_##enc, DV_X_##tuple},
#include "jit/x64/insn.def"
#undef INSN
};

// The operands that instructions of a form (layout of operands) have. For
// register operands: all bits that their numbers may have, 31 for vector, 15
// for general, 7 for mask registers and tiles, 0 if there is none.
typedef struct operands {
    uint8_t a, b, reg, index;
    uint8_t places;    // where m may be; 0: there is no modrm
    uint8_t imm_bytes; // bytes of the immediate
} operands;

// Where operand m may be. INDEXED: only in memory, with an index register.
enum { IN_REG = 1, IN_MEM = 2, ANY = IN_REG | IN_MEM, INDEXED = IN_MEM | 4 };

static const operands forms[] = {
    [DV_X_GRM] = {15, 0, 15, 15, ANY, 0},
    [DV_X_GI] = {15, 0, 15, 15, ANY, 4},
    [DV_X_GM] = {15, 0, 15, 15, ANY, 0},
    [DV_X_GQ] = {15, 0, 15, 0, 0, 8},
    [DV_X_GO] = {15, 0, 15, 0, 0, 0},
    [DV_X_J] = {0, 0, 0, 0, 0, 4},
    [DV_X_N] = {0, 0, 0, 0, 0, 0},
    [DV_X_VRM] = {31, 0, 31, 15, ANY, 0},
    [DV_X_VRVM] = {31, 31, 31, 15, ANY, 0},
    [DV_X_VRMI] = {31, 0, 31, 15, ANY, 1},
    [DV_X_VRVMI] = {31, 31, 31, 15, ANY, 1},
    [DV_X_VG] = {31, 31, 0, 31, INDEXED, 0},
    [DV_X_VKVMI] = {7, 31, 31, 15, ANY, 1},
    [DV_X_VK] = {31, 0, 7, 0, IN_REG, 0},
    [DV_X_KR] = {7, 0, 15, 0, IN_REG, 0},
    [DV_X_KK] = {7, 0, 7, 0, IN_REG, 0},
    [DV_X_TC] = {0, 0, 0, 15, IN_MEM, 0},
    [DV_X_TM] = {7, 0, 0, 15, INDEXED, 0},
    [DV_X_T] = {7, 7, 7, 0, IN_REG, 0},
};

// Generating a kernel should take little time, so instructions are written
// directly to the code buffer, eight bytes at a time; bytes beyond the end of
// an instruction are overwritten by the next one. The caller has checked that
// ROOM bytes, enough for any instruction, are left.
enum { ROOM = 16 };

static inline void put_8(unsigned char *p, uint64_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    memcpy(p, &v, sizeof v);
}

// Log2 of the unit of EVEX's 8-bit displacement, for vectors of 16 << length
// bytes. The low bits of a tuple tell how it differs from DV_X_S4 or DV_X_HV.
#define LOG(tuple, length)                                                     \
    ((tuple) >= DV_X_HV   ? 3 + (int)(length) - ((tuple)&3)                    \
     : (tuple) >= DV_X_S4 ? 2 + ((tuple)&3)                                    \
                          : 4 + (int)(length))
#define LOG_OF_ONE(w) ((w) ? 3 : 2) // if one element is broadcast

int dv_x_offset_log(const dv_x_row *row, int vl, int splat)
{
    return splat ? LOG_OF_ONE(row->w) : LOG(row->tuple, vl >> 5);
}

// Prefix and opcode of EVEX and VEX instructions as one number, low byte first,
// if all registers have number 0. Fields that are stored inverted are all ones.
#define EVEX(map, pp, w, op, length)                                           \
    (0x62u | (0xf0u | (map)) << 8 | (((w) ? 0x80u : 0) | 0x7cu | (pp)) << 16 | \
     (8u | (length) << 5) << 24 | (uint64_t)(op) << 32)
#define VEX(map, pp, w, op, length)                                            \
    (0xc4u | (0xe0u | (map)) << 8 |                                            \
     (((w) == 1 ? 0x80u : 0) | 0x78u | (length) << 2 | (pp)) << 16 |           \
     (uint64_t)(op) << 24)
// For general registers: a REX prefix, which is omitted if it is only 0x40 (all
// bits clear), and the opcode, with 0f before it in map 1.
#define REX(map, w, op)                                                        \
    (0x40u | (w) << 3 | ((map) ? 0x0fu | (op) << 8 : (op)) << 8)

// IS_VEX_2: the VEX prefix has only two bytes if the register numbers allow it.
typedef enum prefix_kind { IS_REX, IS_VEX_3, IS_VEX_2, IS_EVEX } prefix_kind;
#define IS_VEX(map, w) ((map) == 1 && (w) != 1 ? IS_VEX_2 : IS_VEX_3)

// The bits that registers 0 to 31 have in the fields reg, vvvv and rm of EVEX
// and VEX: exclusive or combines them with the encoding for registers 0. The
// top byte has their bits of modrm. Tables are faster than computing these.
#define IN_REG_FIELD(r) ((r)&8) << 12 | ((r)&16) << 8 | ((r)&7) << 59
#define IN_VVVV(r)      ((r)&15) << 19 | ((r)&16) << 23
#define IN_RM(r)        ((r)&24) << 10 | ((r)&7) << 56
#define FOUR(F, r)                                                             \
    F(UINT64_C(r)), F(UINT64_C(r) + 1), F(UINT64_C(r) + 2), F(UINT64_C(r) + 3)
#define EACH(F)                                                                \
    FOUR(F, 0), FOUR(F, 4), FOUR(F, 8), FOUR(F, 12), FOUR(F, 16), FOUR(F, 20), \
        FOUR(F, 24), FOUR(F, 28)
static const uint64_t reg_bits[] = {EACH(IN_REG_FIELD)};
static const uint64_t vvvv_bits[] = {EACH(IN_VVVV)};
static const uint64_t rm_bits[] = {EACH(IN_RM)};

// Writes prefix and opcode: `word` is the encoding for registers 0, `bits` are
// the bits of the actual registers.
static inline unsigned char *put_prefix(unsigned char *p, prefix_kind kind,
                                        uint64_t word, uint64_t bits)
{
    enum { NOT_IN_TWO = 0x6000 }; // two bytes suffice if these are ones
    uint64_t w = word ^ bits;
    if (kind == IS_EVEX) {
        put_8(p, w);
        return p + 5;
    }
    if (kind == IS_REX) {
        w = word | (bits >> 13 & 7);
        int no_rex = !(w & 15);
        put_8(p, no_rex ? w >> 8 : w);
        return p + 2 + ((word & 0xff0000) != 0) - no_rex;
    }
    int two = kind == IS_VEX_2 && (w & NOT_IN_TWO) == NOT_IN_TWO;
    uint64_t rest = (w >> 8 & 0x80) | (w >> 16 & 0x7f) | (w >> 24 & 255) << 8;
    put_8(p, two ? 0xc5 | rest << 8 : w);
    return p + (two ? 3 : 4);
}

// The encoding of a memory operand: modrm, sib and displacement, n bytes, low
// byte first. The field reg of modrm is 0.
typedef struct memory {
    uint64_t w;
    unsigned n;
} memory;

// Returns the encoding of the memory operand at base + disp. `sib` is the sib
// byte without the base; -1: there is none. An 8-bit displacement counts in 1
// << log bytes.
static inline memory memory_at(int base, int sib, int disp, int log)
{
    unsigned low = (unsigned)base & 7, n = sib < 0 ? 1 : 2;
    // The displacement in units of 1 << log bytes, plus 128: below 256 if it
    // fits 8 bits. Rotation moves a remainder to the highest bits, so that a
    // displacement that is no multiple of the unit is not below 256.
    unsigned units = (unsigned)disp + (128u << log);
    units = units >> log | units << (-log & 31);
    unsigned bytes = units < 256 ? units ^ 128 : (unsigned)disp;
    unsigned mod = disp == 0 && low != 5 ? 0 : units < 256 ? 1 : 2;
    unsigned w = sib < 0 ? low : 4 | ((unsigned)sib | low) << 8;
    return (memory){mod << 6 | w | (uint64_t)bytes << 8 * n, n + mod * mod};
}

// Returns the sib byte without the base, for memory without index; -1: the
// base, which is not rsp or r12, needs no sib byte.
static inline int sib_without_index(int base)
{
    return (base & 7) == 4 ? 4 << 3 : -1;
}

// Writes modrm, sib and displacement of operand m, a register or memory; `reg`
// is the field reg of modrm.
static unsigned char *put_modrm(unsigned char *p, int reg, dv_x_rm m, int log)
{
    unsigned r = ((unsigned)reg & 7) << 3;
    memory at = {0xc0 | ((unsigned)m.reg & 7), 1};
    if (m.reg == DV_X_NONE && m.base == DV_X_RIP)
        at = (memory){5 | (uint64_t)(uint32_t)m.disp << 8, 5};
    else if (m.reg == DV_X_NONE)
        at = memory_at(m.base,
                       m.index == DV_X_NONE ? sib_without_index(m.base)
                                            : m.scale << 6 | (m.index & 7) << 3,
                       m.disp, log);
    put_8(p, at.w | r);
    return p + at.n;
}

// May the instruction have these operands, and is there an encoding for them
// (EVEX if `evex`, else another)?
static inline int is_good(const dv_x_row *row, const operands *f, int vl, int a,
                          int v, dv_x_rm m, dv_x_more more, int evex)
{
    int gather = row->form == DV_X_VG, enc = row->enc ? row->enc : DV_X_V;
    int64_t imm = more.imm, bad = (a & ~f->a) | (v & ~f->b) | (more.mask & ~15);
    bad |= f->imm_bytes == 4   ? imm != (int32_t)imm
           : f->imm_bytes == 1 ? imm & ~255
           : f->imm_bytes == 0 ? imm
                               : 0;
    if (bad || !(enc & (evex ? DV_X_E : DV_X_V)) || vl != 16 << (vl >> 5) ||
        more.mask == DV_X_ZERO || (gather && evex && v) ||
        (row->form >= DV_X_TC && vl != 16))
        return 0;
    if (m.reg != DV_X_NONE)
        return !(m.reg & ~f->reg) && (!f->places || f->places & IN_REG) &&
               !m.splat;
    return (f->places & IN_MEM) && m.base >= 0 && m.base <= DV_X_RIP &&
           (!m.splat || row->tuple == DV_X_FV) &&
           (m.index == DV_X_NONE
                ? f->places != INDEXED
                : !(m.index & ~f->index) && m.base != DV_X_RIP &&
                      (m.index != 4 || gather));
}

void dv_x_emit(dv_code *code, dv_x_insn op, int vl, int a, int b, dv_x_rm m,
               dv_x_more more)
{
    const dv_x_row *r = &dv_x_rows[op];
    const operands *f = &forms[r->form];
    int gather = r->form == DV_X_VG, imm_bytes = f->imm_bytes;
    unsigned opcode = r->opcode, mask = (unsigned)more.mask;
    vl = vl ? vl : 16;
    if (!f->places) { // a register in the opcode, or no operand
        m = dv_x_reg(a);
        opcode |= (unsigned)a & 7;
        a = 0;
    }
    int in_reg = m.reg != DV_X_NONE, x = in_reg ? m.reg >> 1 : m.index;
    int evex = vl == 64 || a > 15 || b > 15 || m.reg > 15 || mask || m.splat ||
               r->enc == DV_X_E || (gather && x > 15);
    if (code->cap - code->n < ROOM || !is_good(r, f, vl, a, b, m, more, evex)) {
        code->failed = 1;
        return;
    }
    if (r->form == DV_X_GI || r->form == DV_X_GM)
        a = r->pp;
    // If the immediate fits 8 bits, use the shorter encoding, which has an
    // opcode of its own; mov has none.
    if (r->form == DV_X_GI && opcode == 0x81 && more.imm == (int8_t)more.imm) {
        opcode = 0x83;
        imm_bytes = 1;
    }
    // A gather has bit 4 of its index where other instructions have bit 4 of
    // vvvv.
    b |= gather ? x & 16 : 0;
    unsigned char *p = code->at + code->n;
    unsigned length = (unsigned)vl >> 5, map = r->map, pp = r->pp, w = r->w;
    uint64_t how =
        (mask & DV_X_ZERO) << 4 | (unsigned)m.splat << 4 | (mask & 7);
    uint64_t bits = reg_bits[a] ^ vvvv_bits[b] ^
                    (x == DV_X_NONE ? 0 : ((unsigned)x & 8) << 11) ^
                    ((unsigned)(in_reg ? m.reg : m.base) & 8) << 10;
    if (evex)
        p = put_prefix(p, IS_EVEX, EVEX(map, pp, w, opcode, length) | how << 24,
                       bits);
    else if (r->enc)
        p = put_prefix(p, IS_VEX(map, w), VEX(map, pp, w, opcode, length),
                       bits);
    else
        p = put_prefix(p, IS_REX, REX(map, w, opcode), bits);
    if (f->places)
        p = put_modrm(p, a, m, evex ? dv_x_offset_log(r, vl, m.splat) : 0);
    if (imm_bytes == 1)
        *p = (unsigned char)more.imm;
    else if (imm_bytes)
        put_8(p, (uint64_t)more.imm);
    code->n = (size_t)(p - code->at) + (size_t)imm_bytes;
}

// How the instructions of a run (which differ only in register numbers or
// displacement) are encoded, for one vector length.
typedef struct run_code {
    uint64_t word; // prefix and opcode for registers 0
    uint8_t kind;  // prefix_kind
    uint8_t never; // 1: not at all, or only by dv_x_emit
    // All bits that register numbers may have, and those of operand b.
    uint8_t regs, b;
    uint8_t a_step; // what a grows by; 0: the field reg is `digit`
    uint8_t digit;
    uint8_t log; // log2 of the unit of an 8-bit displacement
} run_code;

#define IS(form, other) (DV_X_##form == DV_X_##other)
#define KIND(map, w, enc, length)                                              \
    ((enc) == DV_X_G                  ? IS_REX                                 \
     : (enc)&DV_X_V && (length) != 2u ? IS_VEX(map, w)                         \
                                      : IS_EVEX)
#define IN_RUNS(form)                                                          \
    (IS(form, GRM) || IS(form, GM) || IS(form, VRM) || IS(form, VRVM))
#define RUN_OF(form, map, pp, w, op, enc, tuple, length, splat, kind)          \
    {(kind) == IS_REX    ? REX(map, w, op##u)                                  \
     : (kind) == IS_EVEX ? EVEX(map, pp, w, op, length) | (splat) << 28        \
                         : VEX(map, pp, w, op, length),                        \
     kind,                                                                     \
     !IN_RUNS(form) || ((kind) == IS_EVEX && !((enc)&DV_X_E)) ||               \
         ((splat) && (tuple) != DV_X_FV),                                      \
     (kind) == IS_EVEX ? 31 : 15,                                              \
     IS(form, VRVM) ? 31 : 0,                                                  \
     !IS(form, GM),                                                            \
     pp,                                                                       \
     (kind) != IS_EVEX ? 0                                                     \
     : (splat)         ? LOG_OF_ONE(w)                                         \
                       : LOG(tuple, length)},
#define RUN(form, map, pp, w, op, enc, tuple, length, splat)                   \
    RUN_OF(form, map, pp, w, op, enc, tuple, length, splat,                    \
           KIND(map, w, enc, length))

// Encodings of runs, indexed by the instruction, and by the vector length / 32
// or DV_X_SPLAT / 32.
static const run_code runs[][4] = {
#define INSN(name, form, map, pp, w, op, enc, tuple, text)                     \
    {RUN(form, map, pp, w, op, DV_X_##enc, DV_X_##tuple, 0u, 0u)               \
         RUN(form, map, pp, w, op, DV_X_##enc, DV_X_##tuple, 1u, 0u)           \
             RUN(form, map, pp, w, op, DV_X_##enc, DV_X_##tuple, 2u, 0u)       \
                 RUN(form, map, pp, w, op, DV_X_##enc, DV_X_##tuple, 2u, 1u)},
#include "jit/x64/insn.def"
#undef INSN
};

// Writes the n instructions of a run (which differ only in register numbers or
// displacement) one by one. It is not inlined, because saving registers for it
// would cost time in every run.
__attribute__((noinline)) static void slow_run(dv_code *code, dv_x_insn op,
                                               int vl, int n, int a, int b,
                                               dv_x_rm m, int64_t disp,
                                               int step)
{
    const run_code *f = &runs[op][0];
    int in_reg = m.reg != DV_X_NONE, splat = vl == DV_X_SPLAT;
    for (int i = 0; i < n; i++, a += f->a_step, b += f->b & 1) {
        dv_x_rm at = in_reg ? dv_x_reg(m.reg + i * step)
                            : dv_x_mem(m.base, disp + i * (int64_t)step);
        at.splat = (unsigned)splat & 1;
        dv_x_emit(code, op, splat ? 64 : vl, a, b, at, none);
    }
}

// Writes a run (instructions that differ only in registers or displacement), of
// which it checks the first and the last. `in_reg` is a compile-time constant,
// which removes the code for the other kind of operand.
__attribute__((always_inline)) static inline void
run(dv_code *code, dv_x_insn op, int vl, int n, int a, int b, int rm,
    int64_t disp, int step, int in_reg)
{
    const run_code *f = &runs[op][vl >> 5 & 3];
    int last = n - 1, b_step = f->b & 1, a_step = f->a_step;
    int64_t end = in_reg ? 0 : disp + last * (int64_t)step;
    int regs = a | (a + last) | b | (b + last * b_step);
    regs |= in_reg ? rm | (rm + last * step) : 0;
    if (code->cap - code->n < (size_t)n * ROOM || n < 1 || f->never ||
        ((regs & ~f->regs) | (b & ~f->b)) || vl > (in_reg ? 64 : DV_X_SPLAT) ||
        (vl != 16 && vl & 31) ||
        (!in_reg &&
         ((rm & ~15) || disp != (int32_t)disp || end != (int32_t)end))) {
        slow_run(code, op, vl, n, a, b, in_reg ? dv_x_reg(rm) : dv_x_mem(rm, 0),
                 disp, step);
        return;
    }
    unsigned char *p = code->at + code->n;
    int sib = sib_without_index(rm);
    memory at = memory_at(rm, sib, (int)disp, f->log);
    uint64_t word = f->word | (in_reg ? UINT64_C(0xc0) << 56 : 0);
    a = a_step ? a : f->digit;
    for (;;) {
        uint64_t bits = reg_bits[a] ^ vvvv_bits[b] ^ rm_bits[rm];
        p = put_prefix(p, f->kind, word, bits);
        put_8(p, (in_reg ? 0 : at.w) | (word ^ bits) >> 56);
        p += in_reg ? 1 : at.n;
        if (--n <= 0)
            break;
        a += a_step;
        b += b_step;
        if (in_reg)
            rm += step;
        else if (step)
            at = memory_at(rm, sib, (int)(disp += step), f->log);
    }
    code->n = (size_t)(p - code->at);
}

void dv_x_run_3(dv_code *code, dv_x_insn op, int vl, int n, int a, int b, int c,
                int step)
{
    run(code, op, vl, n, a, b, c, 0, step, 1);
}

void dv_x_run_m(dv_code *code, dv_x_insn op, int vl, int n, int a, int b,
                int base, int64_t disp, int step)
{
    run(code, op, vl, n, a, b, base, disp, step, 0);
}

void dv_x_emit_3(dv_code *code, dv_x_insn op, int vl, int a, int b, int c)
{
    run(code, op, vl, 1, a, b, c, 0, 0, 1);
}

void dv_x_emit_m(dv_code *code, dv_x_insn op, int vl, int a, int b, int base,
                 int64_t disp)
{
    run(code, op, vl, 1, a, b, base, disp, 0, 0);
}
