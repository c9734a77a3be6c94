// AVX2 and AVX-512 back end for the kernels of jit/vec/vec.h: each operation of
// the plan becomes a few instructions, the same for both except for
// comparisons, whose results AVX-512 puts into mask registers.
//
// The plan has all vector registers except two temporaries. Constants are
// after the code and addressed from X_POOL: first the plan's, single elements
// that are broadcast when loaded, then whole vectors that this back end adds.
#include "jit/x64/vec.h"

enum { ALL = 7, RESULT = 4 };

static void make(dv_code *code, const dv_vec_plan *p, const dv_vec_isa *isa);

const dv_vec_isa dv_x64_vec_isa_32 = {
    .emit = make,
    .n_regs = 16 - N_TEMPS,
    .vector_bytes = 32,
    .max_unroll = 4,
    .soft_bf16 = 1,
    .tied = {[DV_V_FMA] = ALL, [DV_V_FNMA] = ALL, [DV_V_REPAIR] = RESULT},
};

const dv_vec_isa dv_x64_vec_isa_64 = {
    .emit = make,
    .n_regs = 32 - N_TEMPS,
    .vector_bytes = 64,
    .soft_bf16 = 1,
    .tied = {[DV_V_FMA] = ALL,
             [DV_V_FNMA] = ALL,
             [DV_V_SEL] = ALL,
             [DV_V_REPAIR] = RESULT},
};

// The general registers of the running pointers. rdi (7) comes last, because it
// holds the kernel's arguments at first.
static const int8_t pointers[N_POINTERS] = {0, 1, 2, 6, 8, 9, 3, 5, 12, 7};

void dv_x_vec_op_n(dv_x_vec *m, dv_x_insn op, int vl, int a, int b, dv_x_rm c)
{
    dv_x_emit(m->gen.code, op, vl, a, b, c, none);
}

void dv_x_vec_op(dv_x_vec *m, dv_x_insn op, int a, int b, dv_x_rm c)
{
    dv_x_vec_op_n(m, op, m->gen.vb, a, b, c);
}

typedef dv_x_vec maker;
static int reaches(const dv_vec_operand *o, int64_t bytes)
{
    enum { FAR = 1 << 30 };
    return o->inner >= 0 && o->inner <= 2 && bytes > -FAR && bytes < FAR;
}

static void begin(maker *m);
static void leave(maker *m);
static void constant(maker *m, const dv_vec_mop *o);
static void reload(maker *m, const dv_vec_mop *o);
static void spill(maker *m, const dv_vec_mop *o);
#define POINTER(k)         pointers[k]
#define stays(m, k)        0
#define load(m, o)         dv_x_vec_load(m, o, dv_x_vec_reg((o)->dst))
#define store(m, o)        dv_x_vec_store(m, o, dv_x_vec_reg((o)->a))
#define compute(m, o)      dv_x_vec_compute(m, o)
#define restart(m, reg)    dv_x_get(&(m)->gen, reg, X_SP, (m)->all)
#define compare(g, reg, n) dv_x_emit_gi((g)->code, DV_X_cmpi, reg, n)
#define branch_less(g)     dv_x_jump(g, DV_X_jl)
#define land(g, from)      dv_x_patch_jump(g, from)
#define branch_back(g, to) dv_x_back(g, DV_X_jge, to)
#include "jit/vec/emit.h"

int dv_x_vec_pointer(dv_x_vec *m, int operand)
{
    return pointer_to(m, operand);
}

static void begin(dv_x_vec *m)
{
    dv_x *g = &m->gen;
    const dv_vec_plan *p = m->p;
    enum { ARGS = 7, AT = X_TMP };
    int outer = p->shape->reduce == DV_VEC_OUTER;
    dv_x_prologue(g, ~0u);
    dv_x_mov(g, X_TMP, X_SP);
    dv_x_add(g, X_SP, -m->frame);
    dv_x_emit_gi(g->code, DV_X_andi, X_SP, -64);
    dv_x_put(g, X_TMP, X_SP, m->old_sp);
    dv_x_emit(g->code, DV_X_lea, 0, X_POOL, 0, dv_x_mem(DV_X_RIP, 0), none);
    m->pool_fix = g->code->n;
    // Keep the count of the inner loop in the frame, since it restarts for
    // every row (or, for outer reductions, every block of columns); the other
    // count is kept in a register.
    int64_t rows = offsetof(dv_vec_args, rows), n = offsetof(dv_vec_args, n);
    dv_x_get(g, X_FAR, ARGS, outer ? rows : n);
    dv_x_put(g, X_FAR, X_SP, m->all);
    dv_x_get(g, outer ? X_LEFT : X_COUNT, ARGS, outer ? n : rows);
    dv_x_get(g, AT, ARGS, offsetof(dv_vec_args, at));
    init_starts(m, ARGS, AT, X_FAR);
}

static void leave(dv_x_vec *m)
{
    dv_x_get(&m->gen, X_SP, X_SP, m->old_sp);
    dv_x_epilogue(&m->gen);
}

// Returns the offset from X_POOL of the constant vectors that this back end
// adds to the plan's constants.
static int64_t own_base(const dv_x_vec *m)
{
    int64_t vb = m->gen.vb;
    return ((int64_t)m->p->n_pool * m->gen.es + vb - 1) / vb * vb;
}

dv_x_rm dv_x_own_const(dv_x_vec *m, dv_x_own_vector own)
{
    int i = 0;
    for (; i < m->n_own; i++)
        if (m->own[i].bits == own.bits && m->own[i].lanes == own.lanes &&
            m->own[i].step == own.step && m->own[i].off == own.off &&
            m->own[i].every_other == own.every_other &&
            m->own[i].numbers == own.numbers)
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
    return dv_x_own_const(m, (dv_x_own_vector){.bits = bits});
}

dv_x_rm dv_x_all32(dv_x_vec *m, uint32_t bits)
{
    return dv_x_all64(m, (uint64_t)bits << 32 | bits);
}

static void constant(dv_x_vec *m, const dv_vec_mop *o)
{
    int v = dv_x_vec_reg(o->dst);
    const dv_vec_const *c = &m->p->pool[o->imm];
    dv_x *g = &m->gen;
    m->zeros &= ~(1u << v);
    if (c->bits == 0) {
        dv_x_zero(g, v);
        m->zeros |= 1u << v;
    } else if (!c->lanes) {
        dv_x_broadcast(g, v, X_POOL, (int64_t)o->imm * g->es);
    } else {
        uint64_t bits = m->p->is64 ? c->bits : c->bits << 32 | c->bits;
        dv_x_own_vector own = {.bits = bits, .lanes = c->lanes};
        if (c->lanes == DV_VEC_IOTA)
            own = (dv_x_own_vector){.numbers = 1};
        dv_x_vec_op(m, DV_X_vmovups, v, 0, dv_x_own_const(m, own));
    }
}

static void put_own(dv_x_vec *m, const dv_x_own_vector *own)
{
    dv_x *g = &m->gen;
    for (int i = 0; i < g->vb / 4; i++) { // write 4 bytes at a time
        int lane = i * 4 / g->es;
        uint64_t word = i % 2 ? own->bits >> 32 : own->bits;
        if (own->lanes && lane >= own->lanes)
            word = 0;
        if (own->step)
            word = (uint64_t)(own->step * i + own->off) % (unsigned)(g->vb / 4);
        if (own->numbers)
            word = i * 4 % g->es ? 0 : (unsigned)lane;
        if (own->every_other)
            word = i * 4 % g->es
                       ? 0
                       : 2u * (unsigned)lane + (2 * lane >= own->every_other);
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
    dv_x_patch(code, m->pool_fix, start);
}

static void reload(dv_x_vec *m, const dv_vec_mop *o)
{
    dv_x_load(&m->gen, dv_x_vec_reg(o->dst), X_SP,
              m->slots + (int64_t)m->gen.vb * o->imm, 0);
}

static void spill(dv_x_vec *m, const dv_vec_mop *o)
{
    dv_x_store(&m->gen, dv_x_vec_reg(o->a), X_SP,
               m->slots + (int64_t)m->gen.vb * o->imm, 0);
}

// The general registers that kernels use and that a called function may change.
static const int8_t changed[] = {0, 1, 2, 6, 7, 8, 9, 10};
enum { N_CHANGED = sizeof changed / sizeof *changed };

// Saves (before a call of the C library) or restores the registers that the
// kernel uses, at offset `at` from the stack pointer.
static void all_registers(dv_x_vec *m, int restore, int64_t at)
{
    dv_x *g = &m->gen;
    if (restore)
        dv_x_loads(g, m->p->n_regs, dv_x_vec_reg(0), X_SP, at);
    else
        dv_x_stores(g, m->p->n_regs, dv_x_vec_reg(0), X_SP, at);
    at += (int64_t)g->vb * m->p->n_regs;
    for (int i = 0; i < N_CHANGED; i++)
        if (restore)
            dv_x_get(g, changed[i], X_SP, at + 8 * i);
        else
            dv_x_put(g, changed[i], X_SP, at + 8 * i);
}

// Emits a subroutine that calls the function whose address is in X_TMP
// (DV_V_REPAIR), which uses the C library, and preserves the kernel's
// registers.
static void put_repair(dv_x_vec *m)
{
    // RETURN (the return address) and PAD are the bytes between the frame's
    // stack pointer and that of the call, which must be a multiple of 16.
    enum { RETURN = 8, PAD = 8, LANES = 7, COUNT = 6 };
    dv_x *g = &m->gen;
    size_t over = dv_x_jump(g, DV_X_jmp);
    m->repair = g->code->n;
    g->code->calls = 1;
    dv_x_add(g, X_SP, -PAD);
    all_registers(m, 0, m->saved + PAD + RETURN);
    dv_x_emit_gm(g->code, DV_X_lea, LANES, X_SP, m->lanes + PAD + RETURN);
    dv_x_set(g, COUNT, g->lanes);
    dv_x_emit(g->code, DV_X_vzeroupper, 0, 0, 0, dv_x_reg(0), none);
    dv_x_emit(g->code, DV_X_call_r, 0, 0, 0, dv_x_reg(X_TMP), none);
    all_registers(m, 1, m->saved + PAD + RETURN);
    dv_x_add(g, X_SP, PAD);
    dv_x_emit(g->code, DV_X_ret, 0, 0, 0, dv_x_reg(0), none);
    dv_x_patch_jump(g, over);
}

void dv_x_vec_repair(dv_x_vec *m, const dv_vec_mop *o)
{
    enum { UNORDERED = 3 };
    const dv_x_more how = {.imm = UNORDERED};
    dv_x *g = &m->gen;
    int x[] = {dv_x_vec_reg(o->a), dv_x_vec_reg(o->b), dv_x_vec_reg(o->dst)};
    if (g->masks) {
        dv_x_emit(g->code, g->es == 8 ? DV_X_vcmppd_k : DV_X_vcmpps_k, g->vb,
                  K_TMP, x[2], dv_x_reg(x[2]), how);
        dv_x_emit(g->code, DV_X_kortestw, 0, K_TMP, 0, dv_x_reg(K_TMP), none);
    } else {
        dv_x_emit(g->code, DV_XF(g, vcmp), g->vb, V_T0, x[2], dv_x_reg(x[2]),
                  how);
        dv_x_vec_op(m, DV_X_vptest, V_T0, 0, dv_x_reg(V_T0));
    }
    size_t all_numbers = dv_x_jump(g, DV_X_jz);
    if (!m->repair)
        put_repair(m);
    for (int i = 0; i < 3; i++)
        dv_x_store(g, x[i], X_SP, m->lanes + (int64_t)i * g->vb, 0);
    uint64_t to = dv_vec_repair_address((dv_fn)o->imm, m->p->is64);
    dv_x_rm address = dv_x_all64(m, to);
    dv_x_get(g, X_TMP, address.base, address.disp);
    dv_x_patch(g->code, dv_x_jump(g, DV_X_call), m->repair);
    dv_x_load(g, x[2], X_SP, m->lanes + 2 * (int64_t)g->vb, 0);
    dv_x_patch_jump(g, all_numbers);
}

static void one(dv_x_vec *m, const dv_vec_mop *o)
{
    int computed =
        o->op <= DV_V_RELOAD && o->op != DV_V_CONST && o->op != DV_V_STORE;
    emit_op(m, o);
    if (computed)
        m->zeros &= ~(1u << dv_x_vec_reg(o->dst));
}

static void make(dv_code *code, const dv_vec_plan *p, const dv_vec_isa *isa)
{
    int es = p->is64 ? 8 : 4, vb = isa->vector_bytes;
    dv_x_vec m;
    // Clears only the fields before the array `own` of added constants: its
    // entries are written before their number n_own grows.
    memset(&m, 0, offsetof(dv_x_vec, own));
    dv_x_start_vb(&m.gen, code, vb, es);
    m.p = p;
    dv_vec_pointers at;
    m.at = &at;
    m.stage = 0;
    m.slots = vb;
    m.all = place_pointers(&m, m.slots + (int64_t)vb * p->n_slots);
    m.old_sp = m.all + 8;
    m.frame = m.old_sp + 8;
    if (dv_vec_repairs(p)) {
        m.lanes = m.frame;
        m.saved = m.lanes + 3 * (int64_t)vb;
        m.frame = m.saved + (int64_t)vb * p->n_regs + 8 * N_CHANGED;
    }
    for (int32_t i = 0; i < p->n && !code->failed; i++)
        one(&m, &p->ops[i]);
    put_pool(&m);
}
