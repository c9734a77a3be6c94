// Disassembles instructions with the table insn.def. The bytes are decoded for
// every row that could have produced them; the right row is the one whose
// encoding of the decoded operands gives the same bytes again.
//
//   62 f2 55 40 b8 49 02   prefix  EVEX, map 2, pp 1, w 0, vvvv 21
//                          row     vfmaps, "vfmadd231ps M, B, A"
//                          text    vfmadd231ps 128(%rcx), %zmm21, %zmm1
#include "jit/backend.h"
#include "jit/x64/insn.h"
#include <string.h>

static const char *const texts[] = {
#define INSN(name, form, map, pp, w, op, enc, tuple, text) text,
#include "jit/x64/insn.def"
#undef INSN
};

enum { MOST_BYTES = 15 }; // most bytes of an x86-64 instruction

// The decoded prefix and opcode. High bits of register numbers are already
// shifted into place.
typedef struct prefix {
    // Kind of prefix: none or REX (DV_X_G), VEX (DV_X_V) or EVEX (DV_X_E).
    int enc;
    int map, pp, w;
    int reg, x, b; // high bits of reg, of the index, of rm or the base
    int vvvv, high_v;
    int vl, mask, splat;
    int opcode;
    int n; // bytes of the prefix and the opcode
} prefix;

static prefix evex(const unsigned char *p)
{
    int first = p[1] ^ 0xf0, third = p[3];
    return (prefix){
        .enc = DV_X_E,
        .map = first & 15,
        .pp = p[2] & 3,
        .w = p[2] >> 7,
        .reg = (first >> 7 & 1) << 3 | (first >> 4 & 1) << 4,
        .x = first >> 6 & 1,
        .b = first >> 5 & 1,
        .vvvv = ~p[2] >> 3 & 15,
        .high_v = (~third >> 3 & 1) << 4,
        .vl = 16 << (third >> 5 & 3),
        .mask = (third & 7) | (third >> 7 ? DV_X_ZERO : 0),
        .splat = third >> 4 & 1,
        .opcode = p[4],
        .n = 5,
    };
}

// Decodes a VEX prefix of two or three bytes.
static prefix vex(const unsigned char *p)
{
    int three = p[0] == 0xc4, last = p[1 + three];
    return (prefix){
        .enc = DV_X_V,
        .map = three ? p[1] & 31 : 1,
        .pp = last & 3,
        .w = three ? last >> 7 : 0,
        .reg = (~p[1] >> 7 & 1) << 3,
        .x = three ? ~p[1] >> 6 & 1 : 0,
        .b = three ? ~p[1] >> 5 & 1 : 0,
        .vvvv = ~last >> 3 & 15,
        .vl = 16 << (last >> 2 & 1),
        .opcode = p[2 + three],
        .n = 3 + three,
    };
}

static prefix general(const unsigned char *p)
{
    int has_rex = p[0] >> 4 == 4, rex = has_rex ? p[0] & 15 : 0;
    int map = p[has_rex] == 0x0f;
    return (prefix){
        .enc = DV_X_G,
        .map = map,
        .w = rex >> 3,
        .reg = (rex >> 2 & 1) << 3,
        .x = rex >> 1 & 1,
        .b = rex & 1,
        .opcode = p[has_rex + map],
        .n = has_rex + map + 1,
    };
}

typedef struct insn {
    dv_x_insn op;
    int vl, a, b;
    dv_x_rm m;
    dv_x_more more;
} insn;

static int64_t number(const unsigned char *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << 8 * i;
    int shift = 64 - 8 * bytes;
    return (int64_t)(v << shift) >> shift;
}

// Decodes a memory operand: modrm, sib and displacement; an 8-bit displacement
// counts in `unit` bytes. Returns its length in bytes.
static int take_memory(const unsigned char *p, const prefix *f, int unit,
                       int gather, dv_x_rm *m)
{
    int mod = p[0] >> 6, low = p[0] & 7, n = 1;
    *m = (dv_x_rm){.reg = DV_X_NONE, .index = DV_X_NONE};
    m->splat = (unsigned)f->splat & 1;
    m->base = (int8_t)(low | f->b << 3);
    if (low == 4) {
        int sib = p[n++], index = (sib >> 3 & 7) | f->x << 3;
        m->scale = (unsigned)sib >> 6 & 3;
        m->index = (int8_t)(gather       ? index | f->high_v
                            : index == 4 ? DV_X_NONE
                                         : index);
        m->base = (int8_t)((sib & 7) | f->b << 3);
    } else if (mod == 0 && low == 5) {
        m->base = DV_X_RIP;
        mod = 2;
    }
    int bytes = mod == 0 ? 0 : mod == 1 ? 1 : 4;
    m->disp = (int32_t)number(p + n, bytes ? bytes : 1);
    m->disp = bytes == 0 ? 0 : m->disp * (bytes == 1 ? unit : 1);
    return n + bytes;
}

// Decodes the register and memory operands of an instruction that has a modrm
// byte. Returns the length of modrm, sib and displacement.
static int take_modrm(const unsigned char *p, const prefix *f, insn *x)
{
    const dv_x_row *row = &dv_x_rows[x->op];
    int gather = row->form == DV_X_VG;
    int digit = row->form == DV_X_GI || row->form == DV_X_GM;
    int unit =
        f->enc == DV_X_E ? 1 << dv_x_offset_log(row, f->vl, f->splat) : 1;
    x->a = digit ? 0 : (p[0] >> 3 & 7) | f->reg;
    x->b = f->vvvv | (gather ? 0 : f->high_v);
    if (p[0] >> 6 != 3)
        return take_memory(p, f, unit, gather, &x->m);
    int high = f->enc == DV_X_E ? f->x << 4 : 0;
    x->m = dv_x_reg((p[0] & 7) | f->b << 3 | high);
    return 1;
}

// Returns the length in bytes of the immediate operand that instructions of
// this row of insn.def have.
static int imm_bytes(const dv_x_row *row, int opcode)
{
    switch ((dv_x_form)row->form) {
    case DV_X_VRMI:
    case DV_X_VRVMI:
    case DV_X_VKVMI:
        return 1;
    case DV_X_GI:
        return opcode == 0x83 ? 1 : 4;
    case DV_X_J:
        return 4;
    case DV_X_GQ:
        return 8;
    default:
        return 0;
    }
}

static int is_op(const dv_x_row *row, const prefix *f)
{
    int low = row->form == DV_X_GQ || row->form == DV_X_GO ? 7 : 0;
    int short_imm = row->form == DV_X_GI && f->opcode == 0x83;
    int vectors = row->form >= DV_X_VRM;
    int enc = vectors || row->enc == DV_X_V ? row->enc : DV_X_G;
    return (f->enc == DV_X_G ? enc == DV_X_G : enc & f->enc) &&
           row->map == f->map && (!vectors || row->pp == f->pp) &&
           ((f->opcode & ~low) == row->opcode || short_imm);
}

// Decodes the operands under the assumption that the bytes are an instruction
// of row `op` of the instruction table insn.def.
static insn take_apart(const unsigned char *p, const prefix *f, dv_x_insn op)
{
    const dv_x_row *row = &dv_x_rows[op];
    insn x = {.op = op, .vl = f->vl, .m = dv_x_reg(0)};
    int n = f->n, vectors = row->form >= DV_X_VRM;
    x.more.mask = f->mask;
    if (row->form == DV_X_GQ || row->form == DV_X_GO)
        x.a = (f->opcode & 7) | f->b << 3;
    else if (row->form != DV_X_J && row->form != DV_X_N)
        n += take_modrm(p + n, f, &x);
    int bytes = imm_bytes(row, f->opcode);
    if (bytes)
        x.more.imm = number(p + n, bytes) & (vectors ? 255 : -1);
    return x;
}

static const char *const names[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp",
                                    "rsi", "rdi", "r8",  "r9",  "r10", "r11",
                                    "r12", "r13", "r14", "r15", "rip"};

static void put_reg(dv_text *out, int reg, int vl, char kind)
{
    int bytes = kind == 'h' ? vl / 2 : vl;
    char length = kind == 'x' || kind == 'y' || kind == 'z' ? kind
                  : bytes == 64                             ? 'z'
                  : bytes == 32                             ? 'y'
                                                            : 'x';
    if (kind == 'r')
        dv_put(out, "%%%s", names[reg]);
    else if (kind == 'd' && reg < 8)
        dv_put(out, "%%e%s", names[reg] + 1);
    else if (kind == 'd')
        dv_put(out, "%%%sd", names[reg]);
    else if (kind == 'k')
        dv_put(out, "%%k%d", reg);
    else if (kind == 't')
        dv_put(out, "%%tmm%d", reg);
    else
        dv_put(out, "%%%cmm%d", length, reg);
}

static void put_memory(dv_text *out, const insn *x, char kind)
{
    const dv_x_row *row = &dv_x_rows[x->op];
    if (x->m.disp)
        dv_put(out, "%d", (int)x->m.disp);
    dv_put(out, "(%%%s", names[x->m.base]);
    if (x->m.index != DV_X_NONE) {
        dv_put(out, ",");
        put_reg(out, x->m.index, x->vl, row->form == DV_X_VG ? kind : 'r');
        dv_put(out, ",%d", 1 << x->m.scale);
    }
    dv_put(out, ")");
    if (x->m.splat)
        dv_put(out, "{1to%d}", x->vl / (row->w ? 8 : 4));
}

// Prints an immediate; for a jump it prints the target as an offset in the
// listing.
static void put_number(dv_text *out, const insn *x, size_t end)
{
    if (dv_x_rows[x->op].form == DV_X_J)
        dv_put(out, "0x%llx", (long long)end + (long long)x->more.imm);
    else
        dv_put(out, "$%lld", (long long)x->more.imm);
}

static void put_insn(dv_text *out, const insn *x, size_t end)
{
    for (const char *t = texts[x->op]; *t;) {
        size_t plain = strcspn(t, "ABMI");
        dv_put(out, "%.*s", (int)plain, t);
        t += plain;
        char who = *t, kind = who && t[1] >= 'a' && t[1] <= 'z' ? t[1] : ' ';
        if (who == 'I')
            put_number(out, x, end);
        else if (who == 'M' && x->m.reg == DV_X_NONE)
            put_memory(out, x, kind);
        else if (who)
            put_reg(out,
                    who == 'A'   ? x->a
                    : who == 'B' ? x->b
                                 : x->m.reg,
                    x->vl, kind);
        t += (who != 0) + (kind != ' ');
    }
    if (x->more.mask)
        dv_put(out, " {%%k%d}%s", x->more.mask & 7,
               x->more.mask & DV_X_ZERO ? " {z}" : "");
}

size_t dv_x_list(dv_text *out, const unsigned char *code, size_t at,
                 size_t size, size_t *data)
{
    unsigned char there[2 * MOST_BYTES] = {0}, same[2 * MOST_BYTES];
    size_t room = size - at < MOST_BYTES ? size - at : MOST_BYTES;
    memcpy(there, code + at, room);
    prefix f = there[0] == 0x62                       ? evex(there)
               : there[0] == 0xc4 || there[0] == 0xc5 ? vex(there)
                                                      : general(there);
    for (dv_x_insn op = 0; op < DV_X_COUNT; op++) {
        if (!is_op(&dv_x_rows[op], &f))
            continue;
        insn x = take_apart(there, &f, op);
        dv_code again = {.at = same, .cap = sizeof same};
        dv_x_emit(&again, op, x.vl, x.a, x.b, x.m, x.more);
        if (again.failed || again.n > room || memcmp(same, there, again.n))
            continue;
        size_t end = at + again.n;
        if (x.m.reg == DV_X_NONE && x.m.base == DV_X_RIP &&
            end + (size_t)x.m.disp < *data)
            *data = end + (size_t)x.m.disp;
        put_insn(out, &x, end);
        return again.n;
    }
    return 0;
}
