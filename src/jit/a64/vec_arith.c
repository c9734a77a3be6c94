// The arithmetic operations of a vector plan, most of them one NEON instruction
// each.
#include "jit/a64/vec_arith.h"

// Which arguments an instruction takes: both (AB), both exchanged (BA), the
// first (A), the first twice (AA); NONE: the operation has code of its own.
typedef enum args { NONE, AB, BA, A, AA } args;

// The instructions of an operation for lanes of 4 and of 8 bytes. Integer
// operations exist mostly for 4 bytes.
typedef struct row {
    uint16_t four, eight; // dv_insn, for lanes of 4 and 8 bytes
    uint8_t args;
} row;

#define BOTH(name) DV_INSN_##name##4s, DV_INSN_##name##2d
#define FOUR(name) DV_INSN_##name, DV_INSN_##name
static const row rows[DV_V_MOV + 1] = {
    [DV_V_FADD] = {BOTH(fadd_), AB},
    [DV_V_FSUB] = {BOTH(fsub_), AB},
    [DV_V_FMUL] = {BOTH(fmul_), AB},
    [DV_V_FDIV] = {BOTH(fdiv_), AB},
    [DV_V_FSQRT] = {BOTH(fsqrt_), A},
    // The instruction fmla adds a * b to its destination, which must therefore
    // be the register of the addend c.
    [DV_V_FMA] = {BOTH(fmla_), AB},
    [DV_V_FNMA] = {BOTH(fmls_), AB},
    [DV_V_FMIN] = {BOTH(fmin_), AB},
    [DV_V_FMAX] = {BOTH(fmax_), AB},
    [DV_V_FLEAST] = {BOTH(fmin_), AB},
    [DV_V_FMOST] = {BOTH(fmax_), AB},
    [DV_V_FNEG] = {BOTH(fneg_), A},
    [DV_V_FABS] = {BOTH(fabs_), A},
    [DV_V_FLT] = {BOTH(fcmgt_), BA},
    [DV_V_FLE] = {BOTH(fcmge_), BA},
    [DV_V_FEQ] = {BOTH(fcmeq_), AB},
    [DV_V_AND] = {FOUR(and_v), AB},
    [DV_V_OR] = {FOUR(orr_v), AB},
    [DV_V_XOR] = {FOUR(eor_v), AB},
    [DV_V_IADD] = {BOTH(add_), AB},
    [DV_V_ISUB] = {BOTH(sub_), AB},
    [DV_V_IMUL] = {FOUR(mul_4s), AB},
    [DV_V_IMIN] = {FOUR(smin_4s), AB},
    [DV_V_IMAX] = {FOUR(smax_4s), AB},
    [DV_V_IABS] = {FOUR(abs_4s), A},
    [DV_V_ILT] = {FOUR(cmgt_4s), BA},
    [DV_V_IEQ] = {FOUR(cmeq_4s), AB},
    [DV_V_ISHL] = {FOUR(sshl_4s), AB},
    [DV_V_PAIRS] = {BOTH(faddp_), AA},
    [DV_V_MOV] = {FOUR(mov_v), AA},
};

// Selects bits: of b where bits of a are set, else of c. The instruction
// depends on which of the three registers is the destination.
static void pick(dv_gen *g, int d, int a, int b, int c)
{
    if (d == a)
        DV_E(bsl_v, d, b, c, 0);
    else if (d == c)
        DV_E(bit_v, d, b, a, 0);
    else
        DV_E(bif_v, d, c, a, 0);
}

static void with_number(dv_gen *g, dv_vop op, int d, int a, int imm)
{
    // The shift field of 4-byte lanes holds LEFT + n for a left shift by n, and
    // RIGHT - n for a right shift.
    enum { LEFT = 32, RIGHT = 64 };
    static const uint8_t rounds[][2] = {
        [DV_TO_EVEN] = {BOTH(frintn_)},
        [DV_DOWN] = {BOTH(frintm_)},
        [DV_UP] = {BOTH(frintp_)},
        [DV_TO_ZERO] = {BOTH(frintz_)},
    };
    if (op == DV_V_FROUND)
        dv_emit(g->code, (dv_insn)rounds[imm][g->es == 8], d, a, 0, 0);
    else if (op == DV_V_SHL && g->es == 8)
        DV_E(shl_2d, d, a, imm, 0);
    else if (op == DV_V_SHL)
        DV_E(shl_v, d, a, LEFT + imm, 0);
    else if (op == DV_V_SHR && g->es == 8)
        DV_E(ushr_2d, d, a, RIGHT - imm, 0);
    else if (op == DV_V_SHR)
        DV_E(ushr_v, d, a, RIGHT - imm, 0);
    else // DV_V_ROT rotates the lanes
        DV_E(ext_v, d, a, a, imm * g->es);
}

void dv_a64_vec_compute(dv_gen *g, dv_vop op, int d, int a, int b, int c,
                        int imm)
{
    const row *r = &rows[op];
    if (r->args == NONE) {
        if (op == DV_V_SEL) {
            pick(g, d, a, b, c);
        } else if (op ==
                   DV_V_ISAR) { // shifts to the right have negative counts
            DV_E(neg_4s, V_NARROW, b, 0, 0);
            DV_E(sshl_4s, d, a, V_NARROW, 0);
        } else
            with_number(g, op, d, a, imm);
        return;
    }
    int first = r->args == BA ? b : a;
    int second = r->args == AB ? b : r->args == A ? 0 : a;
    uint32_t bits = dv_insn_rows[g->es == 8 ? r->eight : r->four].bits;
    dv_code_put(g->code, bits | (uint32_t)d | (uint32_t)first << 5 |
                             (uint32_t)second << 16);
}

int dv_a64_vec_point(unsigned char *code, size_t first)
{
    enum { LDR_QP = 0x9c, FIELD = 5, MOST_WORDS = 1 << 18 };
    for (size_t i = 0; i < first; i += 4) {
        uint32_t w;
        memcpy(&w, code + i, sizeof w);
        w = dv_code_little_endian(w);
        // Skip a word that is not a load of a constant.
        if (w >> 24 != LDR_QP)
            continue;
        size_t number = w >> FIELD & 0x7ffff;
        size_t words = (first + 16 * number - i) / 4;
        if (words >= MOST_WORDS)
            return 0;
        w = (w & 0xff00001f) | (uint32_t)words << FIELD;
        w = dv_code_little_endian(w);
        memcpy(code + i, &w, sizeof w);
    }
    return 1;
}

void dv_a64_vec_widen(dv_gen *g, int v, dv_dtype t, dv_dtype to)
{
    int byte = t == DV_U8 || t == DV_BOOL, whole = !dv_is_float(t);
    if (t == DV_F16)
        DV_E(fcvtl, v, v, 0, 0);
    if (t == DV_BF16)
        DV_E(shll, v, v, 0, 0);
    if (t == DV_I8) {
        DV_E(sxtl_8h, v, v, 0, 0);
        DV_E(sxtl_4s, v, v, 0, 0);
    }
    if (byte) {
        DV_E(uxtl_8h, v, v, 0, 0);
        DV_E(uxtl_4s, v, v, 0, 0);
    }
    if (t == DV_I16)
        DV_E(sxtl_4s, v, v, 0, 0);
    if (t == DV_U16)
        DV_E(uxtl_4s, v, v, 0, 0);
    if (to == DV_F64 && !whole && t != DV_F64)
        DV_E(fcvtl_2d, v, v, 0, 0);
    if (to == DV_F64 && t == DV_U32)
        DV_E(uxtl_2d, v, v, 0, 0);
    else if (to == DV_F64 && whole && t != DV_I64)
        DV_E(sxtl_2d, v, v, 0, 0);
    if (to == DV_F64 && whole)
        DV_E(scvtf_2d, v, v, 0, 0);
    if (to == DV_F32 && whole)
        DV_E(scvtf_4s, v, v, 0, 0);
}

int dv_a64_vec_narrow(dv_gen *g, int n, int v, dv_dtype from, dv_dtype t)
{
    int size = dv_dtype_get(t)->size_bytes;
    if (t == from || (!dv_is_float(t) && size == 4))
        return v;
    if (!dv_is_float(t)) { // narrows lanes of integers
        if (from == DV_F64) {
            DV_E(xtn_2s, n, v, 0, 0);
            v = n;
        }
        DV_E(xtn_4h, n, v, 0, 0);
        if (size == 1)
            DV_E(xtn_8b, n, n, 0, 0);
        return n;
    }
    if (from == DV_F64 && t == DV_F32) {
        DV_E(fcvtn_2s, n, v, 0, 0);
        return n;
    }
    // f64 is first rounded to odd as f32: then the second rounding, to the
    // narrow type, gives the same result as a single rounding.
    if (from == DV_F64) {
        DV_E(fcvtxn_2s, n, v, 0, 0);
        v = n;
    }
    if (t == DV_F16)
        DV_E(fcvtn, n, v, 0, 0);
    else
        DV_E(bfcvtn, n, v, 0, 0);
    return n;
}

// Rounds f32 lanes in v to bf16, to nearest even, into the lower half of n:
// adds 0x7fff, and 1 more if the lowest bit that is kept is set. For nan, all
// bits are set. u is a temporary.
static void round_bf16(dv_gen *g, int n, int u, int v)
{
    // The shift field of 4-byte lanes holds RIGHT - n for a right shift by n,
    // and LEFT + n for a left shift.
    enum { RIGHT = 64, LEFT = 32 };
    DV_E(ushr_v, n, v, RIGHT - 16, 0);
    DV_E(shl_v, n, n, LEFT + 31, 0);
    DV_E(ushr_v, n, n, RIGHT - 31, 0);
    DV_E(cmeq_4s, u, u, u, 0);
    DV_E(ushr_v, u, u, RIGHT - 17, 0);
    DV_E(add_4s, n, n, u, 0);
    DV_E(add_4s, n, n, v, 0);
    DV_E(fcmeq_4s, u, v, v, 0);
    DV_E(orn_v, n, n, u, 0);
    DV_E(shrn16, n, n, 0, 0);
}

int dv_a64_vec_soft_bf16(dv_gen *g, int n, int v, int is64, int64_t lent)
{
    int u = v == 30 ? 28 : 30, w = v == 29 ? 28 : 29;
    DV_E(stp_q, u, w, X_SP, lent);
    if (is64) {
        // Rounds to odd, so that rounding again, to bf16, gives the result of a
        // single rounding.
        DV_E(fcvtxn_2s, w, v, 0, 0);
        v = w;
    }
    round_bf16(g, n, u, v);
    DV_E(ldp_q, u, w, X_SP, lent);
    return n;
}
