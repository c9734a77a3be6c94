// The NEON back end of the vector kernels (jit/vec/vec.h): emits each operation
// of the plan as a few instructions.
//
// The plan uses all vector registers but V_NARROW, which is a temporary for
// converting stored values to a narrow type. Running pointers are in x0 to x12.
// Constants follow the code.
#include "base/math.h"
#include "jit/a64/vec_arith.h"

enum {
    N_POINTERS = 13,
    X_ALL = 13,  // number of elements of a row, or of rows of a column
    X_LEFT = 14, // elements left in the row
    X_COUNT = 15,
    X_FAR = X_TMP,
    X_LINK = 30,
    N_CHANGED = 16, // x0 to x15: registers of kernels that a call may change
    // Number of vector registers that a kernel may use without saving them.
    N_FREE = 23
};

enum { ALL = 7, ADDEND = 4 };

static void make(dv_code *code, const dv_vec_plan *p, const dv_vec_isa *isa);

#define NEON                                                                   \
    .emit = make, .n_regs = 31, .vector_bytes = 16, .max_accs = 4,             \
    .checks = 1, .pairs = 1, .turns = 8,                                       \
    .tied = {[DV_V_FMA] = ADDEND,                                              \
             [DV_V_FNMA] = ADDEND,                                             \
             [DV_V_SEL] = ALL,                                                 \
             [DV_V_REPAIR] = ADDEND}
const dv_vec_isa dv_a64_vec_isa = {NEON};
const dv_vec_isa dv_a64_vec_isa_plain = {NEON, .soft_bf16 = 1};

typedef struct maker {
    dv_gen gen;
    const dv_vec_plan *p;
    dv_vec_pointers *at;
    // 1: the machine has no instructions that convert to bf16.
    int soft_bf16;
    // Offsets from sp of the start addresses, the running pointers on the
    // stack, the spill slots, the saved registers and the 32 bytes in which two
    // registers are saved while bf16 is rounded without an instruction for it,
    // and the size of the frame.
    int64_t starts, running, slots, saved, lent, frame;
    // Code offsets of the top of each open loop, and of the branches that leave
    // them.
    size_t top[DV_VEC_MAX_NEST], out[DV_VEC_MAX_NEST];
    int depth;
    const dv_vec_mop *loop; // the operation that began the innermost loop
    // The first loop, whose body has a fast version, valid for small arguments,
    // and a slow one: code offsets of its top, of its end, of the code after
    // it, of the branch to the slow body, and of the slow body; and the stack
    // offset of the slow body's counter.
    size_t first, end, after, check, slow;
    int64_t turns;
    // If the plan has DV_V_REPAIR: offsets from sp of the link register, of the
    // three vectors that are passed and of the saved registers; code offset of
    // the code that saves them and calls, 0: none yet; and the functions that
    // are called, whose addresses follow the constants.
    int64_t link, lanes, all;
    size_t repair;
    int n_called;
    uint16_t called[DV_N_FNS];
    int fetches; // 1: the plan has DV_V_PREFETCH operations for its prefetches
} maker;

// Returns whether loads of an operand still fit their instructions if it is
// addressed `bytes` away from another operand's pointer; this includes all
// unrolled copies of the loop body and partial vectors.
static int reaches(const dv_vec_operand *o, int64_t bytes)
{
    enum { MOST_COPIES = 8, NEAR = 256, MOST = 4095 };
    int es = dv_vec_size(o);
    int64_t vector = 16, all = o->inner ? MOST_COPIES * vector : es;
    // An operand with a stride of 2 may have any offset up to MOST, because
    // loads whose offset does not fit an instruction compute the address in a
    // register.
    if (o->inner == 2)
        return bytes >= 0 && bytes + 2 * all <= MOST;
    if (o->inner != 0 && o->inner != 1)
        return 0;
    return (bytes >= -NEAR && bytes + all <= NEAR) ||
           (bytes >= 0 && bytes % (o->inner ? vector : es) == 0 &&
            bytes + all <= (int64_t)MOST * es);
}

// Overwrites the branch at byte `at` of the code, now that its distance is
// known.
static void patch(dv_code *code, size_t at, dv_insn op, int v, int64_t words)
{
    if (code->failed)
        return;
    dv_code there = {.at = code->at + at, .cap = 4};
    dv_emit(&there, op, v, 0, words, 0);
    code->failed |= there.failed;
}

// Returns the distance in instructions from here to byte `at` of the code.
static int64_t words_to(const dv_gen *g, size_t at)
{
    return ((int64_t)at - (int64_t)g->code->n) / 4;
}

static void compare(dv_gen *g, int reg, int64_t n)
{
    // As destination, register 31 (X_SP) is xzr: the result is discarded.
    DV_E(subsi_x, X_SP, reg, n, 0);
}

static size_t branch_less(dv_gen *g)
{
    DV_E(b_lt, 0, 0, 0, 0);
    return g->code->n - 4;
}

static void land(dv_gen *g, size_t from)
{
    patch(g->code, from, DV_INSN_b_lt, 0, -words_to(g, from));
}

static void branch_back(dv_gen *g, size_t to)
{
    DV_E(b_ge, 0, 0, words_to(g, to), 0);
}

static void restart(maker *m, int reg)
{
    dv_gen *g = &m->gen;
    DV_MOV(reg, X_ALL);
}

static void begin(maker *m);
static void leave(maker *m);
static void constant(maker *m, const dv_vec_mop *o);
static void load(maker *m, const dv_vec_mop *o);
static void store(maker *m, const dv_vec_mop *o);
static void reload(maker *m, const dv_vec_mop *o);
static void spill(maker *m, const dv_vec_mop *o);
static void compute(maker *m, const dv_vec_mop *o);
static int stays(const maker *m, int k);
#define POINTER(k) (k)
#include "jit/vec/emit.h"

// Returns whether pointer k stays in its register and is advanced there from
// row to row; other pointers are reloaded from the start addresses on the
// stack.
static int stays(const maker *m, int k)
{
    int64_t inner = operand_of(m, k)->inner;
    return k < N_POINTERS && (inner == 0 || inner == 1) &&
           (m->p->shape->reduce == DV_VEC_EACH ||
            m->p->shape->reduce == DV_VEC_INNER ||
            m->p->shape->reduce == DV_VEC_ONCE);
}

// Moves the pointers that stay in registers from the end of a row to the start
// of the next row; first_row sets them to the first row.
static void next_row(maker *m)
{
    // Instructions that subtract the number of elements of a row times 1, 2, 4
    // or 8 bytes.
    static const dv_insn back[] = {DV_INSN_sub_x, DV_INSN_sub2_x,
                                   DV_INSN_sub4_x, DV_INSN_sub8_x};
    dv_gen *g = &m->gen;
    for (int k = 0; k < m->at->n; k++) {
        const dv_vec_operand *o = operand_of(m, k);
        if (!stays(m, k))
            continue;
        if (o->outer)
            DV_ADD(k, o->outer * dv_vec_size(o));
        if (o->inner)
            dv_emit(g->code, back[__builtin_ctz((unsigned)dv_vec_size(o))], k,
                    k, X_ALL, 0);
    }
}

static void first_row(maker *m)
{
    dv_gen *g = &m->gen;
    for (int k = 0; k < m->at->n; k++)
        if (stays(m, k))
            DV_LOAD(k, X_SP, m->starts + 8 * k);
}

// Returns the machine register of register r of the plan. Registers that need
// no saving come first; V_NARROW is left out, because it is a temporary.
static int reg(int r)
{
    return dv_gen_reg(r < N_FREE ? r : r + 1);
}
_Static_assert(V_NARROW == 31, "the last that needs no saving");

static void begin(maker *m)
{
    dv_gen *g = &m->gen;
    const dv_vec_plan *p = m->p;
    int outer = p->shape->reduce == DV_VEC_OUTER;
    dv_gen_add(g, X_SP, X_SP, -m->frame);
    for (int i = 0; i < p->n_regs - N_FREE; i += 2)
        DV_E(stp_d, 8 + i, 9 + i, X_SP, m->saved + 8 * i);
    if (m->lanes)
        DV_STORE(X_LINK, X_SP, m->link);
    DV_E(mov_x, X_TMP, 0, 0, 0);
    DV_E(ldr_x, outer ? X_ALL : X_COUNT, X_TMP, offsetof(dv_vec_args, rows), 0);
    DV_E(ldr_x, outer ? X_LEFT : X_ALL, X_TMP, offsetof(dv_vec_args, n), 0);
    DV_E(ldr_x, X_TMP2, X_TMP, offsetof(dv_vec_args, at), 0);
    init_starts(m, X_TMP, X_TMP2, 0);
}

static void leave(maker *m)
{
    dv_gen *g = &m->gen;
    for (int i = 0; i < m->p->n_regs - N_FREE; i += 2)
        DV_E(ldp_d, 8 + i, 9 + i, X_SP, m->saved + 8 * i);
    if (m->lanes)
        DV_LOAD(X_LINK, X_SP, m->link);
    dv_gen_add(g, X_SP, X_SP, m->frame);
    DV_E(ret, 0, 0, 0, 0);
}

enum {
    MOST_OFFSET = 8 * 4095 // largest offset that prfm can encode
};

// Prefetches, for each operand with a prefetch distance (`ahead`), the cache
// lines that start within n elements from element `first` on. A loop that
// computes little (`light`) would wait for prefetches into L1, so there they go
// to L2.
static void fetch(maker *m, int light, int64_t first, int64_t n)
{
    dv_gen *g = &m->gen;
    for (int i = 0; i < m->p->n_operands; i++) {
        const dv_vec_operand *o = &m->p->operands[i];
        if (!o->ahead || o->inner != 1)
            continue;
        int64_t size = dv_vec_size(o), from = o->ahead * size;
        int64_t at = dv_round_up(first * size, LINE);
        int64_t end = (first + n) * size;
        int r = pointer_to(m, i);
        if (at < end && (from < 0 || from % 8 || from + end > MOST_OFFSET)) {
            dv_gen_add(g, X_TMP, r, from);
            r = X_TMP;
            from = 0;
        }
        for (; at < end; at += LINE)
            DV_E(prfm, light ? LOAD_L2 : LOAD_L1, r, from + at, 0);
    }
}

static void loop_end(maker *m, const dv_vec_mop *o)
{
    int first = !m->end;
    if (first) {
        int64_t n_ops = o - m->loop;
        if (!m->fetches)
            fetch(m, n_ops <= DV_VEC_MEMORY_BOUND_OPS * o->imm / m->gen.lanes,
                  0, o->imm);
        m->first = m->top[m->depth - 1];
        m->end = m->gen.code->n;
    }
    emit_op(m, o);
    if (first)
        m->after = m->gen.code->n;
}

static void check(maker *m, int v)
{
    dv_gen *g = &m->gen;
    DV_E(uminv_4s, V_NARROW, v, 0, 0);
    DV_E(fmov_ws, X_TMP, V_NARROW, 0, 0);
    m->check = g->code->n;
    DV_E(cbz_w, X_TMP, 0, 0, 0);
}

// Arguments that are out of range for the fast loop body, which takes small
// ones only, tend to come in clusters, such as in masks. So the slow body runs
// for this many further iterations before the fast one is tried again.
enum { MORE_TURNS = 7 };

static void slow_begin(maker *m)
{
    dv_gen *g = &m->gen;
    patch(g->code, m->check, DV_INSN_cbz_w, X_TMP, -words_to(g, m->check));
    DV_E(movz_x, X_TMP, MORE_TURNS, 0, 0);
    DV_E(str_x, X_TMP, X_SP, m->turns, 0);
    m->slow = g->code->n;
}

static void slow_end(maker *m, int64_t k)
{
    dv_gen *g = &m->gen;
    step_running(m, 0, k);
    DV_E(subi_x, X_LEFT, X_LEFT, k, 0);
    DV_E(subsi_x, X_SP, X_LEFT, k, 0);
    DV_E(b_lt, 0, 0, words_to(g, m->after), 0);
    DV_E(ldr_x, X_TMP, X_SP, m->turns, 0);
    DV_E(subsi_x, X_TMP, X_TMP, 1, 0);
    DV_E(str_x, X_TMP, X_SP, m->turns, 0);
    DV_E(b_ge, 0, 0, words_to(g, m->slow), 0);
    DV_E(b_al, 0, 0, words_to(g, m->first), 0);
}

// Computes in X_TMP the address of the first element of a strided vector.
static void first_of(maker *m, const dv_vec_mop *o, const dv_vec_operand *to)
{
    dv_gen *g = &m->gen;
    int64_t off =
        (int64_t)o->copy * m->gen.lanes * to->inner * dv_vec_size(to) +
        m->at->off[o->imm];
    dv_gen_add(g, X_TMP, pointer_to(m, o->imm), off);
}

// Loads every other of seven 4-byte elements by means of two vectors. The
// second vector begins with the last element of the first one, so that nothing
// after the last wanted element is read.
//
//   0 1 2 3   3 4 5 6   rotated: 4 5 6 3   ->   0 2 4 6
static void load_every_other(maker *m, const dv_vec_mop *o, int v)
{
    dv_gen *g = &m->gen;
    int base = pointer_to(m, o->imm);
    int64_t off = 32 * (int64_t)o->copy + m->at->off[o->imm];
    dv_gen_load(g, v, base, off, 16);
    dv_gen_load(g, V_NARROW, base, off + 12, 16);
    DV_E(ext_v, V_NARROW, V_NARROW, V_NARROW, 4);
    DV_E(uzp1_4s, v, v, V_NARROW, 0);
}

static void load(maker *m, const dv_vec_mop *o)
{
    dv_gen *g = &m->gen;
    const dv_vec_operand *from = &m->p->operands[o->imm];
    int es = dv_vec_size(from), v = reg(o->dst);
    int64_t off = m->at->off[o->imm];
    if (from->as == DV_VEC_AS_INDEX) {
        first_of(m, o, from);
        if (m->p->is64)
            DV_E(dup_2d, v, X_TMP, 0, 0);
        else
            DV_E(dup_4s, v, X_TMP, 0, 0);
        return;
    }
    if (from->inner == 0) {
        dv_gen_bytes(g, 0, v, pointer_to(m, o->imm), off, es);
        dv_a64_vec_widen(g, v, (dv_dtype)from->dtype,
                         dv_vec_lane_type(from, m->p->shape->compute));
        if (m->p->is64)
            DV_E(dupl_2d, v, v, 0, 0);
        else
            DV_E(dupl_4s, v, v, 0, 0);
        return;
    }
    if (from->inner == 1) {
        dv_gen_bytes(g, 0, v, pointer_to(m, o->imm),
                     off + (int64_t)o->copy * m->gen.lanes * es, o->count * es);
    } else if (from->inner == 2 && es == 4 && o->count == 4) {
        load_every_other(m, o, v);
    } else {
        first_of(m, o, from);
        dv_gen_bytes(g, 0, v, X_TMP, 0, es);
        for (int i = 1; i < o->count; i++) {
            dv_gen_add(g, X_TMP, X_TMP, from->inner * es);
            dv_gen_lane(g, 0, v, X_TMP, i, es);
        }
    }
    dv_a64_vec_widen(g, v, (dv_dtype)from->dtype,
                     dv_vec_lane_type(from, m->p->shape->compute));
}

static void store(maker *m, const dv_vec_mop *o)
{
    dv_gen *g = &m->gen;
    const dv_vec_operand *to = &m->p->operands[o->imm];
    int es = dv_vec_size(to), v = reg(o->a);
    if (m->soft_bf16 && to->dtype == DV_BF16)
        v = dv_a64_vec_soft_bf16(g, V_NARROW, v, m->p->is64, m->lent);
    else
        v = dv_a64_vec_narrow(g, V_NARROW, v, (dv_dtype)m->p->shape->compute,
                              (dv_dtype)to->dtype);
    if (to->inner == 1 || o->count == 1) {
        dv_gen_bytes(g, 1, v, pointer_to(m, o->imm),
                     to->inner == 1 ? (int64_t)o->copy * m->gen.lanes * es : 0,
                     o->count * es);
        return;
    }
    first_of(m, o, to);
    for (int i = 0; i < o->count; i++) {
        dv_gen_lane(g, 1, v, X_TMP, i, es);
        if (i + 1 < o->count)
            dv_gen_add(g, X_TMP, X_TMP, to->inner * es);
    }
}

// Emits a load or store of two adjacent whole vectors as one instruction, if
// operation o and the one after it allow that and need no conversion; otherwise
// returns 0. In reductions over rows vectors are accessed one by one: each row
// has one cache line then, and pairs were slower.
static int two(maker *m, const dv_vec_mop *o)
{
    dv_gen *g = &m->gen;
    enum { MOST_PAIR = 16 * 63 };
    const dv_vec_operand *x = &m->p->operands[o->imm];
    int64_t off = m->at->off[o->imm] + 16 * o->copy;
    if (o[1].op != o->op || o[1].imm != o->imm || o[1].copy != o->copy + 1 ||
        o->count != m->gen.lanes || o[1].count != m->gen.lanes ||
        x->inner != 1 || x->dtype != m->p->shape->compute || x->as ||
        m->p->shape->reduce == DV_VEC_OUTER || off % 16 || off > MOST_PAIR)
        return 0;
    if (o->op == DV_V_LOAD)
        DV_E(ldp_q, reg(o->dst), reg(o[1].dst), pointer_to(m, o->imm), off);
    else
        DV_E(stp_q, reg(o->a), reg(o[1].a), pointer_to(m, o->imm), off);
    return 1;
}

// Loads a constant. The pool of constants follows the code; until its address
// is known, the load's offset field holds the number of the constant.
static void constant(maker *m, const dv_vec_mop *o)
{
    dv_gen *g = &m->gen;
    const dv_vec_const *c = &m->p->pool[o->imm];
    if (c->bits == 0)
        DV_E(movi_0, reg(o->dst), 0, 0, 0);
    else
        DV_E(ldr_qp, reg(o->dst), 0, o->imm, 0);
}

static void put_pool(maker *m)
{
    dv_code *code = m->gen.code;
    while (code->n % 16 && !code->failed)
        dv_code_put(code, 0);
    size_t first = code->n;
    for (int i = 0; i < m->p->n_pool; i++)
        for (int lane = 0; lane < m->gen.lanes; lane++) {
            const dv_vec_const *c = &m->p->pool[i];
            uint64_t bits = !c->lanes || lane < c->lanes ? c->bits : 0;
            if (c->lanes == DV_VEC_IOTA)
                bits = (uint64_t)lane;
            dv_code_put(code, (uint32_t)bits);
            if (m->p->is64)
                dv_code_put(code, (uint32_t)(bits >> 32));
        }
    for (int i = 0; i < m->n_called; i++) {
        uint64_t to = dv_vec_repair_address((dv_fn)m->called[i], m->p->is64);
        dv_code_put(code, (uint32_t)to);
        dv_code_put(code, (uint32_t)(to >> 32));
        dv_code_put(code, 0);
        dv_code_put(code, 0);
    }
    if (!code->failed && !dv_a64_vec_point(code->at, first))
        code->failed = 1;
}

static void reload(maker *m, const dv_vec_mop *o)
{
    dv_gen *g = &m->gen;
    DV_E(ldr_q, reg(o->dst), X_SP, m->slots + 16 * o->imm, 0);
}

static void spill(maker *m, const dv_vec_mop *o)
{
    dv_gen *g = &m->gen;
    DV_E(str_q, reg(o->a), X_SP, m->slots + 16 * o->imm, 0);
}

// Saves (before a call of the C library) or restores the registers that the
// kernel uses.
static void all_registers(maker *m, int restore)
{
    dv_gen *g = &m->gen;
    int64_t at = m->all;
    for (int i = 0; i < m->p->n_regs; i++, at += 16)
        if (restore)
            DV_E(ldr_q, reg(i), X_SP, at, 0);
        else
            DV_E(str_q, reg(i), X_SP, at, 0);
    for (int i = 0; i < N_CHANGED; i++, at += 8)
        if (restore)
            DV_LOAD(i, X_SP, at);
        else
            DV_STORE(i, X_SP, at);
    if (restore)
        DV_LOAD(X_LINK, X_SP, m->link + 8);
    else
        DV_STORE(X_LINK, X_SP, m->link + 8);
}

// Emits a subroutine that calls the function whose address is in X_TMP
// (DV_V_REPAIR), which uses the C library, and preserves the kernel's
// registers.
static void put_repair(maker *m)
{
    dv_gen *g = &m->gen;
    m->repair = g->code->n;
    g->code->calls = 1;
    all_registers(m, 0);
    dv_gen_add(g, 0, X_SP, m->lanes);
    dv_gen_mov(g, 1, g->lanes);
    DV_E(blr, 0, X_TMP, 0, 0);
    all_registers(m, 1);
    DV_E(ret, 0, 0, 0, 0);
}

// Returns the index of function fn in the list of functions that the kernel
// calls, adding it if it is missing.
static int called(maker *m, int fn)
{
    int i = 0;
    while (i < m->n_called && m->called[i] != fn)
        i++;
    if (i == m->n_called)
        m->called[m->n_called++] = (uint16_t)fn;
    return i;
}

static void repair(maker *m, const dv_vec_mop *o)
{
    dv_gen *g = &m->gen;
    int x[] = {reg(o->a), reg(o->b), reg(o->dst)};
    if (!m->repair) {
        size_t over = g->code->n;
        DV_E(b_al, 0, 0, 0, 0);
        put_repair(m);
        patch(g->code, over, DV_INSN_b_al, 0, -words_to(g, over));
    }
    if (g->es == 8)
        DV_E(fcmeq_2d, V_NARROW, x[2], x[2], 0);
    else
        DV_E(fcmeq_4s, V_NARROW, x[2], x[2], 0);
    DV_E(uminv_4s, V_NARROW, V_NARROW, 0, 0);
    DV_E(fmov_ws, X_TMP, V_NARROW, 0, 0);
    size_t all_numbers = g->code->n;
    DV_E(cbnz_w, X_TMP, 0, 0, 0);
    for (int i = 0; i < 3; i++)
        DV_E(str_q, x[i], X_SP, m->lanes + 16 * i, 0);
    DV_E(ldr_qp, V_NARROW, 0, m->p->n_pool + called(m, o->imm), 0);
    DV_E(fmov_xd, X_TMP, V_NARROW, 0, 0);
    DV_E(bl, 0, 0, words_to(g, m->repair), 0);
    DV_E(ldr_q, x[2], X_SP, m->lanes + 32, 0);
    patch(g->code, all_numbers, DV_INSN_cbnz_w, X_TMP,
          -words_to(g, all_numbers));
}

static void compute(maker *m, const dv_vec_mop *o)
{
    if (o->op == DV_V_REPAIR) {
        repair(m, o);
        return;
    }
    dv_a64_vec_compute(&m->gen, (dv_vop)o->op, reg(o->dst), reg(o->a),
                       reg(o->b), reg(o->c), o->imm);
}

// Emits one operation of the plan: those that only this back end has, or does
// more for, are handled here, the others by the shared emit_op.
static void one(maker *m, const dv_vec_mop *o)
{
    if (o->op == DV_V_ROWS)
        first_row(m);
    if (o->op == DV_V_ROWS_END)
        next_row(m);
    if (o->op == DV_V_LOOP)
        m->loop = o;
    switch ((dv_vop)o->op) {
    case DV_V_LOOP_END:
        loop_end(m, o);
        break;
    case DV_V_PREFETCH:
        fetch(m, o->a, o->imm, o->count);
        m->fetches = 1;
        break;
    case DV_V_CHECK:
        check(m, reg(o->a));
        break;
    case DV_V_SLOW:
        slow_begin(m);
        break;
    case DV_V_SLOW_END:
        slow_end(m, o->imm);
        break;
    default:
        emit_op(m, o);
    }
}

static void make(dv_code *code, const dv_vec_plan *p, const dv_vec_isa *isa)
{
    // Only the entries of pointers that the kernel uses are initialised.
    dv_vec_pointers at;
    maker m = {.p = p, .at = &at, .soft_bf16 = isa->soft_bf16, .lent = 64};
    int es = p->is64 ? 8 : 4;
    m.gen = (dv_gen){.code = code, .es = es, .lanes = 16 / es};
    m.slots =
        dv_round_up(place_pointers(&m, m.lent + (m.soft_bf16 ? 32 : 0)), 16);
    m.turns = m.slots + 16 * (int64_t)p->n_slots;
    m.frame = m.turns + (p->n && p->ops[p->n - 1].op == DV_V_SLOW_END ? 16 : 0);
    if (dv_vec_repairs(p)) {
        m.link = m.frame;
        m.lanes = m.link + 16;
        m.all = m.lanes + 3 * 16;
        m.frame = m.all + 16 * (int64_t)p->n_regs + 8 * N_CHANGED;
    }
    for (int32_t i = 0; i < p->n && !code->failed; i++) {
        int moves = p->ops[i].op == DV_V_LOAD || p->ops[i].op == DV_V_STORE;
        // Reading ops[i + 1] is safe, since the last operation of a plan
        // ends the kernel and is neither a load nor a store.
        if (moves && two(&m, &p->ops[i]))
            i++;
        else
            one(&m, &p->ops[i]);
    }
    put_pool(&m);
}
