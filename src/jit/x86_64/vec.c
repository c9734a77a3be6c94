// AVX2 and AVX-512 for the kernels of jit/vec.h: each operation of the plan as
// a few instructions, the same for both but for comparisons, which AVX-512
// leaves in registers of their own.
//
// Every operand has a place on the stack where its row, or its column, starts;
// running pointers of the first ones are in registers, of the others on the
// stack too. The plan's registers are all but two. Constants lie behind the
// code and are found by a register: single elements for the plan's, which are
// splatted as they are loaded, then whole vectors of our own.
#include "jit/x86_64/vec.h"

enum { ALL = 7 };

static void make_32(dv_code *code, const dv_vec_plan *p);
static void make_64(dv_code *code, const dv_vec_plan *p);

const dv_vec_isa dv_x64_vec_isa_32 = {
    .emit = make_32,
    .n_regs = 16 - N_TEMPS,
    .vector_bytes = 32,
    .most_copies = 4,
    .own_bf16 = 1,
    .tied = {[DV_V_FMA] = ALL, [DV_V_FNMA] = ALL},
};

const dv_vec_isa dv_x64_vec_isa_64 = {
    .emit = make_64,
    .n_regs = 32 - N_TEMPS,
    .vector_bytes = 64,
    .own_bf16 = 1,
    .tied = {[DV_V_FMA] = ALL, [DV_V_FNMA] = ALL, [DV_V_SEL] = ALL},
};

static const dv_x_more none = {0};
// rdi has the arguments at first, so it comes last.
static const int8_t pointers[N_POINTERS] = {0, 1, 2, 6, 8, 9, 3, 5, 12, 7};

static int reg(int r)
{
    return r + N_TEMPS;
}

void dv_x_vec_op_n(dv_x_vec *m, dv_x_insn op, int vl, int a, int b, dv_x_rm c)
{
    dv_code *code = m->gen.code;
    if (c.reg == DV_X_NONE)
        dv_x_emit_m(code, op, vl, a, b, c.base, c.disp);
    else if (dv_x_rows[op].form == DV_X_VRVM)
        dv_x_emit_3(code, op, vl, a, b, c.reg);
    else
        dv_x_emit(code, op, vl, a, b, c, none);
}

void dv_x_vec_op(dv_x_vec *m, dv_x_insn op, int a, int b, dv_x_rm c)
{
    dv_x_vec_op_n(m, op, m->gen.vb, a, b, c);
}

// -- Pointers ----------------------------------------------------------------

static int64_t running(const dv_x_vec *m, int operand)
{
    return m->running + 8 * (operand - N_POINTERS);
}

int dv_x_vec_pointer(dv_x_vec *m, int operand)
{
    if (operand < N_POINTERS)
        return pointers[operand];
    dv_x_get(&m->gen, X_FAR, X_SP, running(m, operand));
    return X_FAR;
}

static void step_running(dv_x_vec *m, int outer, int64_t by)
{
    for (int i = 0; i < m->p->n_operands; i++) {
        const dv_vec_operand *o = &m->p->operands[i];
        int64_t bytes = (outer ? o->outer : o->inner) * by * dv_x_size(o);
        if (!bytes)
            continue;
        int r = dv_x_vec_pointer(m, i);
        dv_x_add(&m->gen, r, bytes);
        if (i >= N_POINTERS)
            dv_x_put(&m->gen, r, X_SP, running(m, i));
    }
}

static void step_places(dv_x_vec *m, int64_t by)
{
    for (int i = 0; i < m->p->n_operands; i++) {
        const dv_vec_operand *o = &m->p->operands[i];
        if (!o->inner)
            continue;
        dv_x_get(&m->gen, X_FAR, X_SP, m->places + 8 * i);
        dv_x_add(&m->gen, X_FAR, o->inner * by * dv_x_size(o));
        dv_x_put(&m->gen, X_FAR, X_SP, m->places + 8 * i);
    }
}

// Running pointers to their places; the places on to the next row.
static void point(dv_x_vec *m, int to_next_row)
{
    for (int i = 0; i < m->p->n_operands; i++) {
        const dv_vec_operand *o = &m->p->operands[i];
        int r = i < N_POINTERS ? pointers[i] : X_FAR;
        dv_x_get(&m->gen, r, X_SP, m->places + 8 * i);
        if (i >= N_POINTERS)
            dv_x_put(&m->gen, r, X_SP, running(m, i));
        if (!to_next_row || !o->outer)
            continue;
        dv_x_lea(&m->gen, X_FAR, r, o->outer * dv_x_size(o));
        dv_x_put(&m->gen, X_FAR, X_SP, m->places + 8 * i);
    }
}

// -- Frame -------------------------------------------------------------------

static void begin(dv_x_vec *m)
{
    dv_x *g = &m->gen;
    const dv_vec_plan *p = m->p;
    enum { ARGS = 7, AT = X_TMP };
    int outer = p->shape->reduce == DV_VEC_OUTER;
    dv_x_enter(g, ~0u);
    dv_x_mov(g, X_TMP, X_SP);
    dv_x_add(g, X_SP, -m->frame);
    dv_x_emit_gi(g->code, DV_X_andi, X_SP, -64);
    dv_x_put(g, X_TMP, X_SP, m->old_sp);
    dv_x_emit(g->code, DV_X_lea, 0, X_POOL, 0, dv_x_mem(DV_X_RIP, 0), none);
    m->pool_fix = g->code->n;
    // What counts every row, and what counts again in each.
    int64_t rows = offsetof(dv_vec_args, rows), n = offsetof(dv_vec_args, n);
    dv_x_get(g, X_FAR, ARGS, outer ? rows : n);
    dv_x_put(g, X_FAR, X_SP, m->all);
    dv_x_get(g, outer ? X_LEFT : X_COUNT, ARGS, outer ? n : rows);
    dv_x_get(g, AT, ARGS, offsetof(dv_vec_args, at));
    for (int i = 0; i < p->n_operands; i++) {
        if (i < p->n_given)
            dv_x_get(g, X_FAR, AT, 8 * i);
        else
            dv_x_get(g, X_FAR, ARGS, offsetof(dv_vec_args, acc));
        dv_x_put(g, X_FAR, X_SP, m->places + 8 * i);
    }
}

static void leave(dv_x_vec *m)
{
    dv_x_get(&m->gen, X_SP, X_SP, m->old_sp);
    dv_x_leave(&m->gen);
}

// -- Loops -------------------------------------------------------------------

// Four bytes of the code that end at `end` become the way from there to `to`.
static void patch(dv_code *code, size_t end, size_t to)
{
    uint32_t far = (uint32_t)(to - end);
    for (size_t i = 0; !code->failed && i < 4; i++)
        code->at[end - 4 + i] = (unsigned char)(far >> 8 * i & 255);
}

static void compare(dv_x *g, int count, int64_t k)
{
    dv_x_emit_gi(g->code, DV_X_cmpi, count, k);
}

// Enter a loop unless `count` is less than k.
static void enter(dv_x_vec *m, int count, int64_t k)
{
    dv_x *g = &m->gen;
    compare(g, count, k);
    dv_x_emit(g->code, DV_X_jl, 0, 0, 0, dv_x_reg(0), none);
    m->out[m->depth] = g->code->n;
    m->top[m->depth++] = g->code->n;
}

// Count down by k; once more unless less is left.
static void again(dv_x_vec *m, int count, int64_t k, int once)
{
    enum { JUMP_BYTES = 6 };
    dv_x *g = &m->gen;
    size_t top = m->top[--m->depth], out = m->out[m->depth];
    dv_x_add(g, count, -k);
    if (!once) {
        compare(g, count, k);
        int64_t from = (int64_t)g->code->n + JUMP_BYTES;
        dv_x_emit(g->code, DV_X_jge, 0, 0, 0, dv_x_reg(0),
                  (dv_x_more){.imm = (int64_t)top - from});
    }
    patch(g->code, out, g->code->n);
}

static void control(dv_x_vec *m, const dv_vec_mop *o)
{
    dv_x *g = &m->gen;
    switch ((dv_vop)o->op) {
    case DV_V_ROWS:
        m->top[m->depth++] = g->code->n;
        point(m, 1);
        dv_x_get(g, X_LEFT, X_SP, m->all);
        break;
    case DV_V_ROWS_END:
        dv_x_again(g, X_COUNT, m->top[--m->depth]);
        break;
    case DV_V_LOOP:
        enter(m, X_LEFT, o->imm);
        break;
    case DV_V_LOOP_END:
        step_running(m, 0, o->imm);
        again(m, X_LEFT, o->imm, o->imm < g->lanes);
        break;
    case DV_V_COLS:
        enter(m, X_LEFT, o->imm);
        point(m, 0);
        break;
    case DV_V_COLS_END:
        step_places(m, o->imm);
        again(m, X_LEFT, o->imm, o->imm < g->lanes);
        break;
    case DV_V_STEPS:
        dv_x_get(g, X_COUNT, X_SP, m->all);
        enter(m, X_COUNT, 1);
        break;
    default: // STEPS_END
        step_running(m, 1, 1);
        again(m, X_COUNT, 1, 0);
    }
}

// -- Constants ---------------------------------------------------------------

// The offset of our own vectors from the pool's start.
static int64_t own_base(const dv_x_vec *m)
{
    int64_t vb = m->gen.vb;
    return ((int64_t)m->p->n_pool * m->gen.es + vb - 1) / vb * vb;
}

dv_x_rm dv_x_own_const(dv_x_vec *m, dv_x_own own)
{
    int i = 0;
    for (; i < m->n_own; i++)
        if (m->own[i].bits == own.bits && m->own[i].lanes == own.lanes &&
            m->own[i].step == own.step && m->own[i].off == own.off)
            break;
    if (i == MAX_OWN) {
        m->gen.code->failed = 1;
        i = 0;
    } else if (i == m->n_own) {
        m->own[m->n_own++] = own;
    }
    return dv_x_mem(X_POOL, own_base(m) + (int64_t)i * m->gen.vb);
}

dv_x_rm dv_x_all64(dv_x_vec *m, uint64_t bits)
{
    return dv_x_own_const(m, (dv_x_own){.bits = bits});
}

dv_x_rm dv_x_all32(dv_x_vec *m, uint32_t bits)
{
    return dv_x_all64(m, (uint64_t)bits << 32 | bits);
}

// The lanes are of the type computed in.
static dv_x_rm all_lanes(dv_x_vec *m, uint64_t bits)
{
    return m->p->is64 ? dv_x_all64(m, bits) : dv_x_all32(m, (uint32_t)bits);
}

static void constant(dv_x_vec *m, const dv_vec_mop *o, int v)
{
    const dv_vec_const *c = &m->p->pool[o->imm];
    dv_x *g = &m->gen;
    if (c->bits == 0) {
        dv_x_zero(g, v);
        m->zeros |= 1u << v;
    } else if (!c->lanes) {
        dv_x_splat(g, v, X_POOL, (int64_t)o->imm * g->es);
    } else {
        uint64_t bits = m->p->is64 ? c->bits : c->bits << 32 | c->bits;
        dv_x_vec_op(
            m, DV_X_vmovups, v, 0,
            dv_x_own_const(m, (dv_x_own){.bits = bits, .lanes = c->lanes}));
    }
}

static void put_own(dv_x_vec *m, const dv_x_own *own)
{
    dv_x *g = &m->gen;
    for (int i = 0; i < g->vb / 4; i++) { // words of 4 bytes
        int lane = i * 4 / g->es;
        uint64_t word = i % 2 ? own->bits >> 32 : own->bits;
        if (own->lanes && lane >= own->lanes)
            word = 0;
        if (own->step)
            word = (uint64_t)(own->step * i + own->off) % (unsigned)(g->vb / 4);
        dv_code_put(g->code, (uint32_t)word);
    }
}

static void put_pool(dv_x_vec *m)
{
    static const unsigned char pad[64];
    dv_code *code = m->gen.code;
    dv_code_bytes(code, pad, (64 - code->n % 64) % 64);
    size_t start = code->n;
    for (int i = 0; i < m->p->n_pool; i++) {
        dv_code_put(code, (uint32_t)m->p->pool[i].bits);
        if (m->p->is64)
            dv_code_put(code, (uint32_t)(m->p->pool[i].bits >> 32));
    }
    size_t used = code->n - start;
    dv_code_bytes(code, pad, (size_t)own_base(m) - used);
    for (int i = 0; i < m->n_own; i++)
        put_own(m, &m->own[i]);
    patch(code, m->pool_fix, start);
}

// -- Arithmetic --------------------------------------------------------------

// d = a * b + c, d being one of the three.
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

// Bits of b where a's are set, else of c.
static void pick(dv_x_vec *m, int d, int a, int b, int c)
{
    dv_x *g = &m->gen;
    if (!g->masks) {
        dv_x_vvv(g, DV_X_vxorps, V_T0, b, c);
        dv_x_vvv(g, DV_X_vandps, V_T0, V_T0, a);
        dv_x_vvv(g, DV_X_vxorps, d, V_T0, c);
        return;
    }
    // Truth tables: with d as the test, as b, as c.
    int which = d == a ? 0xca : d == b ? 0xe2 : 0xb8;
    dv_x_emit(g->code, DV_X_vpternlogd, g->vb, d, d == a ? b : a,
              dv_x_reg(d == c && d != a && d != b ? b : c),
              (dv_x_more){.imm = which});
}

// The machine takes the second where one is no number or both are 0. So both
// ways round, and what is set in either is: no number, or -0.
static void least(dv_x_vec *m, int d, int a, int b)
{
    dv_x *g = &m->gen;
    dv_x_vvv(g, DV_XF(g, vmin), V_T0, a, b);
    dv_x_vvv(g, DV_XF(g, vmin), V_T1, b, a);
    dv_x_vvv(g, DV_X_vorps, d, V_T0, V_T1);
}

// The same, but where only the sign differs, -0 less -0 is 0.
static void most(dv_x_vec *m, int d, int a, int b)
{
    dv_x *g = &m->gen;
    dv_x_vvv(g, DV_XF(g, vmax), V_T0, a, b);
    dv_x_vvv(g, DV_XF(g, vmax), V_T1, b, a);
    dv_x_vvv(g, DV_X_vxorps, V_T1, V_T1, V_T0);
    dv_x_vvv(g, DV_X_vorps, V_T0, V_T0, V_T1);
    dv_x_vvv(g, DV_XF(g, vsub), d, V_T0, V_T1);
}

// b is a number; only when it is 0 can -0 come out where 0 should.
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

static void compare_floats(dv_x_vec *m, dv_vop op, int d, int a, int b)
{
    enum { EQ = 0x00, LT = 0x11, LE = 0x12 }; // false where one is no number
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

static void whole_op(dv_x_vec *m, dv_vop op, int d, int a, int b)
{
    dv_x *g = &m->gen;
    switch (op) {
    case DV_V_IADD:
        dv_x_vvv(g, g->es == 8 ? DV_X_vaddi64 : DV_X_vaddi32, d, a, b);
        break;
    case DV_V_ISUB:
        dv_x_vvv(g, g->es == 8 ? DV_X_vsubi64 : DV_X_vsubi32, d, a, b);
        break;
    case DV_V_IMUL:
        dv_x_vvv(g, DV_X_vmuli32, d, a, b);
        break;
    case DV_V_IMIN:
        dv_x_vvv(g, DV_X_vmini32, d, a, b);
        break;
    case DV_V_IMAX:
        dv_x_vvv(g, DV_X_vmaxi32, d, a, b);
        break;
    case DV_V_IABS:
        dv_x_vec_op(m, DV_X_vabsi32, d, 0, dv_x_reg(a));
        break;
    default:
        compare_whole(m, op, d, a, b);
    }
}

static void bit_op(dv_x_vec *m, const dv_vec_mop *o, int d, int a, int b)
{
    dv_x *g = &m->gen;
    int wide = g->es == 8;
    switch ((dv_vop)o->op) {
    case DV_V_AND:
        dv_x_vvv(g, DV_X_vandps, d, a, b);
        break;
    case DV_V_OR:
        dv_x_vvv(g, DV_X_vorps, d, a, b);
        break;
    case DV_V_XOR:
        dv_x_vvv(g, DV_X_vxorps, d, a, b);
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
        dv_x_vec_op(m, DV_X_vmovups, V_T0, 0,
                    dv_x_own_const(
                        m, (dv_x_own){.step = 1, .off = o->imm * g->es / 4}));
        dv_x_vvv(g, DV_X_vpermps, d, V_T0, a);
        break;
    default: // MOV
        dv_x_vec_op(m, DV_X_vmovups, d, 0, dv_x_reg(a));
    }
}

static void float_op(dv_x_vec *m, dv_vop op, int d, int a, int b)
{
    dv_x *g = &m->gen;
    uint64_t sign = g->es == 8 ? UINT64_C(1) << 63 : UINT64_C(1) << 31;
    switch (op) {
    case DV_V_FADD:
        dv_x_vvv(g, DV_XF(g, vadd), d, a, b);
        break;
    case DV_V_FSUB:
        dv_x_vvv(g, DV_XF(g, vsub), d, a, b);
        break;
    case DV_V_FMUL:
        dv_x_vvv(g, DV_XF(g, vmul), d, a, b);
        break;
    case DV_V_FDIV:
        dv_x_vvv(g, DV_XF(g, vdiv), d, a, b);
        break;
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
        bound(m, op, d, a, b);
        break;
    case DV_V_FNEG:
        dv_x_vec_op(m, DV_X_vxorps, d, a, all_lanes(m, sign));
        break;
    case DV_V_FABS:
        dv_x_vec_op(m, DV_X_vandps, d, a, all_lanes(m, sign - 1));
        break;
    default:
        compare_floats(m, op, d, a, b);
    }
}

static void compute(dv_x_vec *m, const dv_vec_mop *o)
{
    int r[] = {reg(o->dst), reg(o->a), reg(o->b), reg(o->c)};
    if (o->op == DV_V_SEL)
        pick(m, r[0], r[1], r[2], r[3]);
    else if (o->op == DV_V_FMA || o->op == DV_V_FNMA)
        mul_add(m, o->op == DV_V_FNMA, r);
    else if (o->op >= DV_V_FADD && o->op <= DV_V_FEQ)
        float_op(m, (dv_vop)o->op, r[0], r[1], r[2]);
    else if (o->op >= DV_V_IADD && o->op <= DV_V_IEQ)
        whole_op(m, (dv_vop)o->op, r[0], r[1], r[2]);
    else
        bit_op(m, o, r[0], r[1], r[2]);
}

// -- The kernel --------------------------------------------------------------

static void one(dv_x_vec *m, const dv_vec_mop *o)
{
    dv_x *g = &m->gen;
    int d = reg(o->dst), writes = o->op != DV_V_STORE && o->op != DV_V_SPILL &&
                                  (o->op <= DV_V_FILL);
    switch ((dv_vop)o->op) {
    case DV_V_BEGIN:
        begin(m);
        break;
    case DV_V_POINT:
        point(m, 0);
        break;
    case DV_V_CONST:
        m->zeros &= ~(1u << d);
        constant(m, o, d);
        return;
    case DV_V_FILL:
        dv_x_load(g, d, X_SP, m->slots + (int64_t)g->vb * o->imm, 0);
        break;
    case DV_V_SPILL:
        dv_x_store(g, reg(o->a), X_SP, m->slots + (int64_t)g->vb * o->imm, 0);
        break;
    case DV_V_LOAD:
        dv_x_vec_load(m, o, d);
        break;
    case DV_V_STORE:
        dv_x_vec_store(m, o, reg(o->a));
        break;
    case DV_V_RETURN:
        leave(m);
        break;
    default:
        if (o->op > DV_V_POINT)
            control(m, o);
        else
            compute(m, o);
    }
    if (writes)
        m->zeros &= ~(1u << d);
}

static void make(dv_code *code, const dv_vec_plan *p, int vb)
{
    int es = p->is64 ? 8 : 4;
    dv_x_vec m;
    memset(&m, 0, offsetof(dv_x_vec, own)); // they come as they are used
    dv_x_start_vb(&m.gen, code, vb, es);
    m.p = p;
    int far = p->n_operands > N_POINTERS ? p->n_operands - N_POINTERS : 0;
    m.stage = 0;
    m.slots = vb;
    m.places = m.slots + (int64_t)vb * p->n_slots;
    m.running = m.places + 8 * (int64_t)p->n_operands;
    m.all = m.running + 8 * (int64_t)far;
    m.old_sp = m.all + 8;
    m.frame = m.old_sp + 8;
    for (int32_t i = 0; i < p->n && !code->failed; i++)
        one(&m, &p->ops[i]);
    put_pool(&m);
}

static void make_32(dv_code *code, const dv_vec_plan *p)
{
    make(code, p, 32);
}

static void make_64(dv_code *code, const dv_vec_plan *p)
{
    make(code, p, 64);
}
