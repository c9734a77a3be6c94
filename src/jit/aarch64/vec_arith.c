// Operations of a kernel's plan that compute: one NEON instruction each.
#include "jit/aarch64/vec_arith.h"

// The instruction for lanes of 4 or 8 bytes: name_4s or name_2d.
#define BY_LANE(op, a, b, c, d)                                                \
    do {                                                                       \
        if (g->es == 8)                                                        \
            DV_E(op##2d, a, b, c, d);                                          \
        else                                                                   \
            DV_E(op##4s, a, b, c, d);                                          \
    } while (0)

static void pick(dv_gen *g, int d, int a, int b, int c)
{
    if (d == a)
        DV_E(bsl_v, d, b, c, 0);
    else if (d == c)
        DV_E(bit_v, d, b, a, 0);
    else
        DV_E(bif_v, d, c, a, 0);
}

static void whole_op(dv_gen *g, dv_vop op, int d, int a, int b)
{
    switch (op) {
    case DV_V_IADD:
        BY_LANE(add_, d, a, b, 0);
        break;
    case DV_V_ISUB:
        BY_LANE(sub_, d, a, b, 0);
        break;
    case DV_V_IMUL:
        DV_E(mul_4s, d, a, b, 0);
        break;
    case DV_V_IMIN:
        DV_E(smin_4s, d, a, b, 0);
        break;
    case DV_V_IMAX:
        DV_E(smax_4s, d, a, b, 0);
        break;
    case DV_V_IABS:
        DV_E(abs_4s, d, a, 0, 0);
        break;
    case DV_V_ILT:
        DV_E(cmgt_4s, d, b, a, 0);
        break;
    default: // IEQ
        DV_E(cmeq_4s, d, a, b, 0);
    }
}

static void bit_op(dv_gen *g, const dv_vec_mop *o, int d, int a, int b)
{
    int width = 8 * g->es;
    switch ((dv_vop)o->op) {
    case DV_V_AND:
        DV_E(and_v, d, a, b, 0);
        break;
    case DV_V_OR:
        DV_E(orr_v, d, a, b, 0);
        break;
    case DV_V_XOR:
        DV_E(eor_v, d, a, b, 0);
        break;
    case DV_V_SHL:
        DV_E(shl_v, d, a, width + o->imm, 0);
        break;
    case DV_V_SHR:
        DV_E(ushr_v, d, a, 2 * width - o->imm, 0);
        break;
    case DV_V_ROT:
        DV_E(ext_v, d, a, a, o->imm * g->es);
        break;
    default: // MOV
        DV_E(mov_v, d, a, a, 0);
    }
}

static void float_op(dv_gen *g, dv_vop op, int d, int a, int b)
{
    switch (op) {
    case DV_V_FADD:
        BY_LANE(fadd_, d, a, b, 0);
        break;
    case DV_V_FSUB:
        BY_LANE(fsub_, d, a, b, 0);
        break;
    case DV_V_FMUL:
        BY_LANE(fmul_, d, a, b, 0);
        break;
    case DV_V_FDIV:
        BY_LANE(fdiv_, d, a, b, 0);
        break;
    case DV_V_FSQRT:
        BY_LANE(fsqrt_, d, a, 0, 0);
        break;
    case DV_V_FMA: // d is the addend
        BY_LANE(fmla_, d, a, b, 0);
        break;
    case DV_V_FNMA:
        BY_LANE(fmls_, d, a, b, 0);
        break;
    case DV_V_FMIN:
    case DV_V_FLEAST:
        BY_LANE(fmin_, d, a, b, 0);
        break;
    case DV_V_FMAX:
    case DV_V_FMOST:
        BY_LANE(fmax_, d, a, b, 0);
        break;
    case DV_V_FNEG:
        BY_LANE(fneg_, d, a, 0, 0);
        break;
    case DV_V_FABS:
        BY_LANE(fabs_, d, a, 0, 0);
        break;
    case DV_V_FLT:
        BY_LANE(fcmgt_, d, b, a, 0);
        break;
    case DV_V_FLE:
        BY_LANE(fcmge_, d, b, a, 0);
        break;
    default: // FEQ
        BY_LANE(fcmeq_, d, a, b, 0);
    }
}

void dv_a64_vec_compute(dv_gen *g, dv_vec_mop o)
{
    if (o.op == DV_V_SEL)
        pick(g, o.dst, o.a, o.b, o.c);
    else if (o.op >= DV_V_FADD && o.op <= DV_V_FEQ)
        float_op(g, (dv_vop)o.op, o.dst, o.a, o.b);
    else if (o.op >= DV_V_IADD && o.op <= DV_V_IEQ)
        whole_op(g, (dv_vop)o.op, o.dst, o.a, o.b);
    else
        bit_op(g, &o, o.dst, o.a, o.b);
}

int dv_a64_vec_point(unsigned char *code, size_t first)
{
    enum { LDR_QP = 0x9c, FIELD = 5, MOST_WORDS = 1 << 18 };
    for (size_t i = 0; i < first; i += 4) {
        uint32_t w;
        memcpy(&w, code + i, sizeof w);
        w = dv_code_low_first(w);
        if (w >> 24 != LDR_QP) // no other ends like this
            continue;
        size_t number = w >> FIELD & 0x7ffff;
        size_t words = (first + 16 * number - i) / 4;
        if (words >= MOST_WORDS)
            return 0;
        w = (w & 0xff00001f) | (uint32_t)words << FIELD;
        w = dv_code_low_first(w);
        memcpy(code + i, &w, sizeof w);
    }
    return 1;
}

// -- Narrow types ------------------------------------------------------------

void dv_a64_vec_widen(dv_gen *g, int v, dv_dtype t, dv_dtype to)
{
    int whole = t == DV_I8 || t == DV_I32 || t == DV_I64;
    if (t == DV_F16)
        DV_E(fcvtl, v, v, 0, 0);
    if (t == DV_BF16)
        DV_E(shll, v, v, 0, 0);
    if (t == DV_I8) {
        DV_E(sxtl_8h, v, v, 0, 0);
        DV_E(sxtl_4s, v, v, 0, 0);
    }
    if (to == DV_F64 && !whole && t != DV_F64)
        DV_E(fcvtl_2d, v, v, 0, 0);
    if (to == DV_F64 && whole && t != DV_I64)
        DV_E(sxtl_2d, v, v, 0, 0);
    if (to == DV_F64 && whole)
        DV_E(scvtf_2d, v, v, 0, 0);
    if (to == DV_F32 && whole)
        DV_E(scvtf_4s, v, v, 0, 0);
}

int dv_a64_vec_narrow(dv_gen *g, int n, int v, dv_dtype from, dv_dtype t)
{
    if (t == from)
        return v;
    if (from == DV_I32) { // to i8
        DV_E(xtn_4h, n, v, 0, 0);
        DV_E(xtn_8b, n, n, 0, 0);
        return n;
    }
    if (from == DV_F64 && t == DV_F32) {
        DV_E(fcvtn_2s, n, v, 0, 0);
        return n;
    }
    if (from == DV_F64) { // to odd, so that rounding twice is rounding once
        DV_E(fcvtxn_2s, n, v, 0, 0);
        v = n;
    }
    if (t == DV_F16)
        DV_E(fcvtn, n, v, 0, 0);
    else
        DV_E(bfcvtn, n, v, 0, 0);
    return n;
}
