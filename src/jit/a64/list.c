// Disassembles words with the rows of insn.def: the text of a row is that of
// its sample operands, and the numbers of the samples are replaced by the
// operands of the word.
//
//   0x4f9313e8   row   fmla_e4s, sample 1 2 19 3, fields 8 31 19 0
//                text  fmla v1.4s, v2.4s, v19.s[3]
//                      fmla v8.4s, v31.4s, v19.s[0]
#include "jit/backend.h"
#include "jit/a64/insn.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { N_FIELDS = 4 };

typedef struct row {
    const char *text;
    int64_t sample[N_FIELDS];
} row;

static const row rows[] = {
#define INSN(name, form, bits, a, b, c, d, text) {text, {a, b, c, d}},
#include "jit/a64/insn.def"
#undef INSN
};

// Returns operand i of an instruction from its word without the fixed bits.
static int64_t operand(dv_insn op, uint32_t w, int i)
{
    dv_field f = dv_form_fields[dv_insn_rows[op].form][i];
    int64_t v = w >> f.at & ((1u << f.low) - 1);
    v |= (int64_t)(w >> f.rest & ((1u << (f.bits - f.low)) - 1)) << f.low;
    if (f.is_signed && v >> (f.bits - 1))
        v -= (int64_t)1 << f.bits;
    return v * ((int64_t)1 << f.log);
}

// Returns the number by which assembly text shows operand i with the encoded
// value v. Branch distances, shifts and some immediates are scaled.
static int64_t shown(dv_insn op, int i, int64_t v)
{
    dv_form form = dv_insn_rows[op].form;
    if (i != 2)
        return v;
    if (form == DV_FORM_J || form == DV_FORM_JV || form == DV_FORM_JL)
        return 4 * v; // v counts instructions; the text has a distance in bytes
    if (form == DV_FORM_RI)
        // The encoded value counts units of 16 bits; the text has a shift in
        // bits.
        return 16 * v;
    if (form == DV_FORM_VVI)
        return op == DV_INSN_shl_2d ? v : op == DV_INSN_shl_v ? v - 32 : 64 - v;
    return v;
}

// An operand in the assembly text of a row of the instruction table: a
// register, an immediate or a lane.
typedef struct token {
    int length; // characters; 0: there is no operand here
    char letter;
    int64_t value;
} token;

static token token_at(const char *text, const char *at)
{
    char before = at == text ? 'a' : at[-1];
    char *end;
    if (strchr(" [", before) && !strncmp(at, "sp", 2))
        return (token){2, 'x', 31};
    if (strchr(" [", before) && !strncmp(at, "xzr", 3))
        return (token){3, 'x', 31};
    if (strchr("#[", before) && (isdigit((unsigned char)*at) || *at == '-')) {
        int64_t v = strtoll(at, &end, 10);
        return (token){(int)(end - at), 0, v};
    }
    if (!strchr(" {[", before) || !islower((unsigned char)at[0]) ||
        !isdigit((unsigned char)at[1]))
        return (token){0};
    int64_t v = strtoll(at + 1, &end, 10);
    return (token){(int)(end - at), at[0], v};
}

// Returns which operand a number v stands for in the sample text that the
// instruction table has for `op`: the first operand with that value that was
// not yet shown, else one that was already shown; -1 if v is a fixed part of
// the text.
static int field_of(dv_insn op, int64_t v, unsigned seen)
{
    for (int again = 0; again < 2; again++)
        for (int i = 0; i < N_FIELDS; i++)
            if ((int)(seen >> i & 1) == again &&
                shown(op, i, rows[op].sample[i]) == v)
                return i;
    return -1;
}

// Appends an operand. Register number 31 is sp in an address and in additions
// of an immediate, else xzr.
static void put_operand(dv_text *out, dv_insn op, int i, token t, int address,
                        int64_t v)
{
    int added = dv_insn_rows[op].form == DV_FORM_RRI;
    if (op == DV_INSN_subsi_x && i == 0)
        // Register 31 is xzr here: the destination of a subtraction whose
        // result is discarded, which is a compare.
        added = 0;
    if (t.letter == 'x' && v == 31)
        dv_put(out, address || added ? "sp" : "xzr");
    else if (t.letter)
        dv_put(out, "%c%lld", t.letter, (long long)v);
    else
        dv_put(out, "%lld", (long long)v);
}

// Appends the name of a prefetch kind, such as pldl1keep, and returns the
// length of the name that the sample text has at `at`.
static int put_kind(dv_text *out, const char *at, int64_t kind)
{
    static const char *const what[] = {"pld", "pli", "pst"};
    dv_put(out, "%sl%d%s", what[kind >> 3], (int)(kind >> 1 & 3) + 1,
           kind & 1 ? "strm" : "keep");
    return (int)strcspn(at, ",");
}

static int is_prefetch(dv_insn op)
{
    return op == DV_INSN_prfm || op == DV_INSN_prfm_r;
}

// Appends the sample text that the instruction table has for `op`, with its
// operands replaced by f. Returns a bit mask of the operands that the text
// shows.
static unsigned put_row(dv_text *out, dv_insn op, const int64_t *f)
{
    const char *text = rows[op].text;
    // For a prefetch, operand 0 is appended as a name and counts as shown.
    unsigned seen = is_prefetch(op) ? 1 : 0;
    for (const char *at = text; *at;) {
        token t = token_at(text, at);
        int i = t.length ? field_of(op, t.value, seen) : -1;
        if (is_prefetch(op) && at - text == 5) {
            at += put_kind(out, at, f[0]);
        } else if (i < 0) {
            dv_put(out, "%c", *at++);
        } else {
            put_operand(out, op, i, t, at[-1] == '[', shown(op, i, f[i]));
            seen |= 1u << i;
            at += t.length;
        }
    }
    return seen;
}

// Returns whether all operands that the text does not show have the value which
// the text implies: that of a shown operand with the same sample value (in "mov
// v1.16b, v2.16b" register 2 is encoded twice), else the sample's value.
static int hidden_are_right(dv_insn op, const int64_t *f, unsigned seen)
{
    const int64_t *sample = rows[op].sample;
    for (int i = 0; i < N_FIELDS; i++) {
        int64_t want = sample[i];
        for (int j = 0; j < N_FIELDS && !(seen >> i & 1); j++)
            if ((seen >> j & 1) && sample[j] == sample[i])
                want = f[j];
        if (!(seen >> i & 1) && f[i] != want)
            return 0;
    }
    return 1;
}

int dv_insn_list(dv_text *out, uint32_t word)
{
    for (dv_insn op = 0; op < DV_N_INSNS; op++) {
        int64_t f[N_FIELDS];
        int ok = 1;
        if (~word & dv_insn_rows[op].bits)
            continue;
        for (int i = 0; i < N_FIELDS; i++)
            f[i] = operand(op, word & ~dv_insn_rows[op].bits, i);
        if (is_prefetch(op) && (f[0] >> 3 > 2 || (f[0] >> 1 & 3) > 2))
            continue;
        if (dv_insn_word(op, f[0], f[1], f[2], f[3], &ok) != word || !ok)
            continue;
        dv_text line = {0};
        unsigned seen = put_row(&line, op, f);
        int right = hidden_are_right(op, f, seen);
        if (right && line.at)
            dv_put(out, "%s", line.at);
        dv_text_free(&line);
        if (right)
            return 1;
    }
    return 0;
}

size_t dv_a64_list(dv_text *out, const unsigned char *code, size_t at,
                   size_t size, size_t *data)
{
    enum { WORD = 4 };
    const uint32_t loads = dv_insn_rows[DV_INSN_ldr_qp].bits;
    uint32_t w;
    if (size - at < WORD)
        return 0;
    memcpy(&w, code + at, WORD);
    w = dv_code_little_endian(w);
    if (!dv_insn_list(out, w))
        return 0;
    if (w >> 24 == loads >> 24) {
        size_t to = at + WORD * (size_t)operand(DV_INSN_ldr_qp, w & ~loads, 2);
        *data = to < *data ? to : *data;
    }
    return WORD;
}
