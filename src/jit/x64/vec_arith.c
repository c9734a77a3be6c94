// Arithmetic of vector kernels between registers: a few instructions per
// operation, the same for AVX2 and AVX-512 except for comparisons and
// selections.
#include "jit/x64/vec.h"

// Returns a memory operand with `bits` in every lane of the compute type.
static dv_x_rm all_lanes(dv_x_vec *m, uint64_t bits)
{
    return m->p->is64 ? dv_x_all64(m, bits) : dv_x_all32(m, (uint32_t)bits);
}

// Emits d = a * b + c, or c - a * b if `negated`; d must be one of a, b and c.
static void mul_add(dv_x_vec *m, int negated, const int *r)
{
    dv_x *g = &m->gen;
    int d = r[0], a = r[1], b = r[2], c = r[3];
    if (d == c)
        dv_x_vvv(g, negated ? DV_XF(g, vfnma) : DV_XF(g, vfma), d, a, b);
    else
        dv_x_vvv(g, negated ? DV_XF(g, vfnma213) : DV_XF(g, vfma213), d,
                 d == a ? b : a, c);
}

// Selects bits: d takes those of b where bits of a are set, else those of c.
static void pick(dv_x_vec *m, int d, int a, int b, int c)
{
    dv_x *g = &m->gen;
    if (!g->masks) {
        dv_x_vvv(g, DV_X_vxorps, V_T0, b, c);
        dv_x_vvv(g, DV_X_vandps, V_T0, V_T0, a);
        dv_x_vvv(g, DV_X_vxorps, d, V_T0, c);
        return;
    }
    // d = a ? b : c in one instruction, vpternlogd, which overwrites one of its
    // three operands. Its truth table depends on which of them d is.
    int which = d == a ? 0xca : d == b ? 0xe2 : 0xb8;
    dv_x_emit(g->code, DV_X_vpternlogd, g->vb, d, d == a ? b : a,
              dv_x_reg(d == c && d != a && d != b ? b : c),
              (dv_x_more){.imm = which});
}

// Emits the minimum. vmin returns its second source if one is nan or both are
// 0, so it is computed in both orders and the results are ORed: nan wins, and
// -0 wins over 0.
static void least(dv_x_vec *m, int d, int a, int b)
{
    dv_x *g = &m->gen;
    dv_x_vvv(g, DV_XF(g, vmin), V_T0, a, b);
    dv_x_vvv(g, DV_XF(g, vmin), V_T1, b, a);
    dv_x_vvv(g, DV_X_vorps, d, V_T0, V_T1);
}

// Emits the maximum. vmax returns its second source if one is nan or both are
// 0, so it is computed in both orders. Where the two results differ only in the
// sign of 0, V_T0 and V_T1 both become -0, whose difference is 0; elsewhere
// V_T1 is 0 or the result is nan.
static void most(dv_x_vec *m, int d, int a, int b)
{
    dv_x *g = &m->gen;
    dv_x_vvv(g, DV_XF(g, vmax), V_T0, a, b);
    dv_x_vvv(g, DV_XF(g, vmax), V_T1, b, a);
    dv_x_vvv(g, DV_X_vxorps, V_T1, V_T1, V_T0);
    dv_x_vvv(g, DV_X_vorps, V_T0, V_T0, V_T1);
    dv_x_vvv(g, DV_XF(g, vsub), d, V_T0, V_T1);
}

// Emits the minimum or maximum with b, which is never nan. Only if b is 0 can
// the maximum be -0 where it should be 0; adding 0 corrects that.
static void bound(dv_x_vec *m, dv_vop op, int d, int a, int b)
{
    dv_x *g = &m->gen;
    if (op == DV_V_FLEAST) {
        dv_x_vvv(g, DV_XF(g, vmin), d, b, a);
    } else if (m->zeros >> b & 1) {
        dv_x_vvv(g, DV_XF(g, vmax), V_T0, b, a);
        dv_x_vvv(g, DV_XF(g, vadd), d, V_T0, b);
    } else {
        dv_x_vvv(g, DV_XF(g, vmax), d, b, a);
    }
}

// Rounds to whole numbers. `how` is a dv_vec_rounding, which is numbered like
// the immediate of the instruction.
static void round_whole(dv_x_vec *m, int d, int a, int how)
{
    enum { QUIET = 8 }; // inexact results are no exceptions
    dv_x *g = &m->gen;
    int wide = g->es == 8;
    dv_x_insn insn = g->masks ? (wide ? DV_X_vrndscalepd : DV_X_vrndscaleps)
                              : (wide ? DV_X_vroundpd : DV_X_vroundps);
    dv_x_emit(g->code, insn, g->vb, d, 0, dv_x_reg(a),
              (dv_x_more){.imm = how | QUIET});
}

static void compare_floats(dv_x_vec *m, dv_vop op, int d, int a, int b)
{
    // Comparison predicates; all are false if one operand is nan.
    enum { EQ = 0x00, LT = 0x11, LE = 0x12 };
    dv_x *g = &m->gen;
    dv_x_more how = {.imm = op == DV_V_FLT ? LT : op == DV_V_FLE ? LE : EQ};
    if (!g->masks) {
        dv_x_emit(g->code, DV_XF(g, vcmp), g->vb, d, a, dv_x_reg(b), how);
        return;
    }
    dv_x_emit(g->code, g->es == 8 ? DV_X_vcmppd_k : DV_X_vcmpps_k, g->vb, K_TMP,
              a, dv_x_reg(b), how);
    dv_x_vec_op(m, g->es == 8 ? DV_X_vpmovm2q : DV_X_vpmovm2d, d, 0,
                dv_x_reg(K_TMP));
}

static void compare_whole(dv_x_vec *m, dv_vop op, int d, int a, int b)
{
    enum { EQ, LT };
    dv_x *g = &m->gen;
    if (g->masks) {
        dv_x_emit(g->code, DV_X_vpcmpd_k, g->vb, K_TMP, a, dv_x_reg(b),
                  (dv_x_more){.imm = op == DV_V_ILT ? LT : EQ});
        dv_x_vec_op(m, DV_X_vpmovm2d, d, 0, dv_x_reg(K_TMP));
    } else if (op == DV_V_ILT) {
        dv_x_vvv(g, DV_X_vpcmpgtd, d, b, a);
    } else {
        dv_x_vvv(g, DV_X_vpcmpeqd, d, a, b);
    }
}

// The operations that are one instruction on two registers, for lanes of 4 and
// of 8 bytes. On integers of 8 bytes these are only addition and subtraction.
// 0: the operation is none of these.
#define BOTH(name) DV_X_##name##ps, DV_X_##name##pd
#define ANY(name)  DV_X_##name, DV_X_##name
static const uint16_t plain[DV_V_ISAR + 1][2] = {
    [DV_V_FADD] = {BOTH(vadd)},
    [DV_V_FSUB] = {BOTH(vsub)},
    [DV_V_FMUL] = {BOTH(vmul)},
    [DV_V_FDIV] = {BOTH(vdiv)},
    [DV_V_AND] = {ANY(vandps)},
    [DV_V_OR] = {ANY(vorps)},
    [DV_V_XOR] = {ANY(vxorps)},
    [DV_V_IADD] = {DV_X_vaddi32, DV_X_vaddi64},
    [DV_V_ISUB] = {DV_X_vsubi32, DV_X_vsubi64},
    [DV_V_IMUL] = {ANY(vmuli32)},
    [DV_V_IMIN] = {ANY(vmini32)},
    [DV_V_IMAX] = {ANY(vmaxi32)},
    [DV_V_ISHL] = {ANY(vsllv32)},
    [DV_V_ISAR] = {ANY(vsrav32)},
};

static void special_op(dv_x_vec *m, const dv_vec_mop *o, int d, int a, int b)
{
    dv_x *g = &m->gen;
    int wide = g->es == 8;
    uint64_t sign = wide ? UINT64_C(1) << 63 : UINT64_C(1) << 31;
    switch ((dv_vop)o->op) {
    case DV_V_FSQRT:
        dv_x_vec_op(m, DV_XF(g, vsqrt), d, 0, dv_x_reg(a));
        break;
    case DV_V_FMIN:
        least(m, d, a, b);
        break;
    case DV_V_FMAX:
        most(m, d, a, b);
        break;
    case DV_V_FLEAST:
    case DV_V_FMOST:
        bound(m, (dv_vop)o->op, d, a, b);
        break;
    case DV_V_FROUND:
        round_whole(m, d, a, o->imm);
        break;
    case DV_V_FNEG:
        dv_x_vec_op(m, DV_X_vxorps, d, a, all_lanes(m, sign));
        break;
    case DV_V_FABS:
        dv_x_vec_op(m, DV_X_vandps, d, a, all_lanes(m, sign - 1));
        break;
    case DV_V_FLT:
    case DV_V_FLE:
    case DV_V_FEQ:
        compare_floats(m, (dv_vop)o->op, d, a, b);
        break;
    case DV_V_ILT:
    case DV_V_IEQ:
        compare_whole(m, (dv_vop)o->op, d, a, b);
        break;
    case DV_V_IABS:
        dv_x_vec_op(m, DV_X_vabsi32, d, 0, dv_x_reg(a));
        break;
    case DV_V_SHL:
        dv_x_vec_op(m, wide ? DV_X_vsllv64 : DV_X_vsllv32, d, a,
                    all_lanes(m, (uint64_t)o->imm));
        break;
    case DV_V_SHR:
        dv_x_vec_op(m, wide ? DV_X_vsrlv64 : DV_X_vsrlv32, d, a,
                    all_lanes(m, (uint64_t)o->imm));
        break;
    case DV_V_ROT:
        dv_x_vec_op(
            m, DV_X_vmovups, V_T0, 0,
            dv_x_own_const(
                m, (dv_x_own_vector){.step = 1, .off = o->imm * g->es / 4}));
        dv_x_vvv(g, DV_X_vpermps, d, V_T0, a);
        break;
    // The remaining operation, DV_V_MOV, copies a register.
    default:
        dv_x_vec_op(m, DV_X_vmovups, d, 0, dv_x_reg(a));
    }
}

void dv_x_vec_compute(dv_x_vec *m, const dv_vec_mop *o)
{
    dv_x *g = &m->gen;
    int r[] = {dv_x_vec_reg(o->dst), dv_x_vec_reg(o->a), dv_x_vec_reg(o->b),
               dv_x_vec_reg(o->c)};
    int op = o->op <= DV_V_ISAR ? plain[o->op][g->es == 8] : 0;
    if (op)
        dv_x_vvv(g, (dv_x_insn)op, r[0], r[1], r[2]);
    else if (o->op == DV_V_REPAIR)
        dv_x_vec_repair(m, o);
    else if (o->op == DV_V_SEL)
        pick(m, r[0], r[1], r[2], r[3]);
    else if (o->op == DV_V_FMA || o->op == DV_V_FNMA)
        mul_add(m, o->op == DV_V_FNMA, r);
    else
        special_op(m, o, r[0], r[1], r[2]);
}
