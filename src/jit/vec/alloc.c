// Allocates registers; alloc.h describes the method.
#include "jit/vec/alloc.h"
#include <string.h>

enum { FREE = -1, HOME = -2 };

void dv_vec_emit(dv_vec_plan *p, dv_arena *arena, dv_vec_mop op)
{
    dv_vec_mop *slot = DV_PUSH(arena, dv_vec_mop, p->ops, p->n, p->cap);
    if (!slot)
        p->failed = 1;
    else
        *slot = op;
}

int32_t dv_vec_pool(dv_vec_plan *p, dv_arena *arena, uint64_t bits,
                    int32_t lanes)
{
    for (int32_t i = 0; i < p->n_pool; i++)
        if (p->pool[i].bits == bits && p->pool[i].lanes == lanes)
            return i;
    dv_vec_const *c =
        DV_PUSH(arena, dv_vec_const, p->pool, p->n_pool, p->cap_pool);
    if (!c) {
        p->failed = 1;
        return 0;
    }
    *c = (dv_vec_const){bits, lanes};
    return p->n_pool - 1;
}

__attribute__((noinline)) void dv_vec_op(dv_vec_alloc *a, dv_vop op, int dst,
                                         int x, int y, int32_t imm)
{
    dv_vec_emit(a->plan, a->arena,
                (dv_vec_mop){.op = (uint8_t)op,
                             .dst = (uint8_t)dst,
                             .a = (uint8_t)x,
                             .b = (uint8_t)y,
                             .imm = imm});
}

// The reducers (sum, min and so on): the operation on floats and on integers,
// and the bits of the identity in f32, f64 and i32.
static const struct {
    uint8_t real, whole;
    uint64_t identity[3];
} reducers[] = {
    [DV_RED_SUM] = {DV_V_FADD, DV_V_IADD, {0}},
    [DV_RED_MAX] = {DV_V_FMAX,
                    DV_V_IMAX,
                    {0xff800000, 0xfff0000000000000, 0x80000000}},
    [DV_RED_MIN] = {DV_V_FMIN,
                    DV_V_IMIN,
                    {0x7f800000, 0x7ff0000000000000, 0x7fffffff}},
    [DV_RED_PROD] = {DV_V_FMUL, DV_V_IMUL, {0x3f800000, 0x3ff0000000000000, 1}},
};

dv_vop dv_vec_step(const dv_vec_shape *s)
{
    return (dv_vop)(s->compute == DV_I32 ? reducers[s->reducer].whole
                                         : reducers[s->reducer].real);
}

uint64_t dv_vec_identity(const dv_vec_shape *s)
{
    int t = s->compute == DV_F32 ? 0 : s->compute == DV_F64 ? 1 : 2;
    return reducers[s->reducer].identity[t];
}

// Returns the index of value v in copy number `copy` of the unrolled loop body.
// A value that is the same in all copies has a single index.
static inline int32_t copy_of(const dv_vec_alloc *a, int32_t v, int copy)
{
    return v * DV_VEC_MAX_UNROLL + (copy & a->copies[v]);
}

static void use(dv_vec_alloc *a, int reg)
{
    if (reg >= a->plan->n_regs)
        a->plan->n_regs = reg + 1;
}

static void lock(dv_vec_alloc *a, int reg)
{
    a->locked |= 1u << reg;
}

static void unlock(dv_vec_alloc *a, int reg)
{
    a->locked &= ~(1u << reg);
}

static void set_free(dv_vec_alloc *a, int reg)
{
    a->owner[reg] = FREE;
    a->free |= 1u << reg;
}

// Frees a register. Its value is spilled to the stack if it is needed again and
// can be reloaded from nowhere else.
static void evict(dv_vec_alloc *a, int reg)
{
    int32_t copy = a->owner[reg], v = copy / DV_VEC_MAX_UNROLL;
    if (a->next[reg] < DV_VEC_NEVER && a->slot[copy] < 0 && a->pool[v] < 0 &&
        a->home_slot[v] < 0) {
        a->slot[copy] = a->first_slot++;
        if (a->first_slot > a->plan->n_slots)
            a->plan->n_slots = a->first_slot;
        dv_vec_op(a, DV_V_SPILL, 0, reg, 0, a->slot[copy]);
    }
    a->reg[copy] = -1;
    set_free(a, reg);
}

// Evicts the register whose value is needed furthest in the future, and returns
// it.
static __attribute__((noinline)) int take_used(dv_vec_alloc *a)
{
    int32_t worst = -1, far = -1;
    for (int r = 0; r < a->isa->n_regs; r++) {
        int may = a->owner[r] >= 0 && !(a->locked >> r & 1);
        int32_t next = may ? a->next[r] : -1;
        worst = next > far ? r : worst;
        far = next > far ? next : far;
    }
    // If no register may be evicted, the plan fails. This cannot happen,
    // because permanent registers leave enough others.
    if (worst < 0) {
        a->plan->failed = 1;
        return 0;
    }
    evict(a, worst);
    return worst;
}

static inline int take(dv_vec_alloc *a)
{
    uint32_t free = a->free & ~a->locked;
    if (!free)
        return take_used(a);
    int r = __builtin_ctz(free);
    use(a, r);
    return r;
}

int dv_vec_alloc_home(dv_vec_alloc *a)
{
    int r = take(a);
    a->owner[r] = HOME;
    a->free &= ~(1u << r);
    return r;
}

int dv_vec_alloc_temp(dv_vec_alloc *a)
{
    int r = take(a);
    lock(a, r);
    return r;
}

void dv_vec_alloc_release(dv_vec_alloc *a, int reg)
{
    unlock(a, reg);
}

static void give(dv_vec_alloc *a, int reg, int32_t copy, int32_t next)
{
    a->owner[reg] = copy;
    a->free &= ~(1u << reg);
    a->next[reg] = next;
    a->reg[copy] = reg;
}

// Loads a value that is in no register: a constant from the pool of constants
// after the code, any other value from its stack slot.
static void fetch(dv_vec_alloc *a, int reg, int32_t copy)
{
    int32_t v = copy / DV_VEC_MAX_UNROLL;
    const dv_vec_value *val = &a->vals[v];
    if (val->op == DV_V_CONST) {
        if (a->pool[v] < 0)
            a->pool[v] = dv_vec_pool(a->plan, a->arena, val->bits,
                                     val->imm ? DV_VEC_IOTA : 0);
        dv_vec_op(a, DV_V_CONST, reg, 0, 0, a->pool[v]);
        return;
    }
    int32_t slot = a->slot[copy] >= 0 ? a->slot[copy] : a->home_slot[v];
    if (slot < 0)
        a->plan->failed = 1;
    dv_vec_op(a, DV_V_RELOAD, reg, 0, 0, slot);
}

static __attribute__((noinline)) int bring(dv_vec_alloc *a, int32_t copy,
                                           int32_t next)
{
    int r = take(a);
    fetch(a, r, copy);
    give(a, r, copy, next);
    return r;
}

// Returns the register of value v, an argument of an operation, reloading it
// first if needed. `next` is the position of its next use in the run (the
// sequence of operations without jumps).
static inline int get(dv_vec_alloc *a, int32_t v, int copy, int32_t next)
{
    int home = a->home_reg[v];
    if (home >= 0)
        return home;
    int32_t c = copy_of(a, v, copy), r = a->reg[c];
    if (r < 0)
        return bring(a, c, next);
    a->next[r] = next;
    return r;
}

static int dies(const dv_vec_alloc *a, int reg)
{
    return reg >= 0 && a->owner[reg] >= 0 && a->next[reg] == DV_VEC_NEVER;
}

static void release_dead(dv_vec_alloc *a, const int *x, int n)
{
    for (int i = 0; i < n; i++)
        if (dies(a, x[i])) {
            a->reg[a->owner[x[i]]] = -1;
            set_free(a, x[i]);
        }
}

// For an instruction that overwrites one of its arguments: chooses the argument
// that shares its register with the destination, preferably one that is not
// needed afterwards, else one that must be loaded anyway.
static int pick_tied(const dv_vec_alloc *a, const dv_vec_value *v, int copy,
                     const int32_t *after)
{
    int mask = a->isa->tied[v->op], first = -1;
    for (int i = 0; i < v->n_args; i++) {
        int32_t c = copy_of(a, v->arg[i], copy);
        if (!(mask >> i & 1))
            continue;
        if (a->home_reg[v->arg[i]] < 0 && after[i] == DV_VEC_NEVER)
            return i;
        if (first < 0 || a->vals[v->arg[i]].op == DV_V_CONST ||
            (a->home_reg[v->arg[i]] < 0 && a->reg[c] < 0))
            first = i;
    }
    return first;
}

// Returns the destination register of an instruction that overwrites its
// argument t: the argument's own register if this is its last use, else a new
// one with a copy of it.
static int tie(dv_vec_alloc *a, const dv_vec_value *v, int t, int copy,
               const int32_t *after, int *x)
{
    int32_t arg = v->arg[t], c = copy_of(a, arg, copy);
    int home = a->home_reg[arg] >= 0;
    // If the argument is a constant or must be reloaded anyway, load it into
    // the new register: that is cheaper than a register copy, which occupies an
    // arithmetic unit.
    if (a->vals[arg].op == DV_V_CONST ||
        (!home && a->reg[c] < 0 && after[t] != DV_VEC_NEVER)) {
        int dst = dv_vec_alloc_temp(a);
        fetch(a, dst, c);
        unlock(a, dst);
        return x[t] = dst;
    }
    int r = get(a, arg, copy, after[t]);
    if (!home && dies(a, r)) {
        a->reg[c] = -1;
        set_free(a, r);
        return x[t] = r;
    }
    lock(a, r);
    int dst = take(a);
    unlock(a, r);
    dv_vec_op(a, DV_V_MOV, dst, r, 0, 0);
    return x[t] = dst;
}

static void accumulate(dv_vec_alloc *a, const dv_vec_value *v, int copy,
                       const int *x, int count);

// Emits an addition of x^2 to the sum of squares that decides whether the fast
// body, whose functions take small arguments only, is valid.
static void watch(dv_vec_alloc *a, int x)
{
    dv_vec_emit(a->plan, a->arena,
                (dv_vec_mop){.op = a->watching ? DV_V_FMA : DV_V_FMUL,
                             .dst = (uint8_t)a->watch,
                             .a = (uint8_t)x,
                             .b = (uint8_t)x,
                             .c = (uint8_t)a->watch});
    a->watching = 1;
}

// Emits the check that leaves the fast body, whose functions take small
// arguments only, unless the sum of squares of these arguments is small enough.
// A sum that is nan leaves it, too.
static void check(dv_vec_alloc *a)
{
    int most = dv_vec_alloc_temp(a);
    dv_vec_op(a, DV_V_CONST, most, 0, 0,
              dv_vec_pool(a->plan, a->arena, a->guard_limit, 0));
    dv_vec_op(a, DV_V_FLE, a->watch, a->watch, most, 0);
    dv_vec_op(a, DV_V_CHECK, 0, a->watch, 0, 0);
    unlock(a, most);
    a->watching = 0;
}

// Returns the register number to store in an operation; 0 if the operation does
// not have this operand, in which case `reg` is negative.
static uint8_t named(int reg)
{
    return (uint8_t)(reg < 0 ? 0 : reg);
}

// Appends one operation to the plan. Fields are written one by one in place:
// copying a whole struct would stall on store forwarding.
static inline void put(dv_vec_alloc *a, const dv_vec_value *v, int dst,
                       const int *x, int copy, const dv_vec_run *run)
{
    dv_vec_plan *p = a->plan;
    dv_vec_mop *o = DV_PUSH(a->arena, dv_vec_mop, p->ops, p->n, p->cap);
    int hoisted = v->op == DV_V_LOAD && v->section == DV_SECTION_HOIST;
    if (!o) {
        p->failed = 1;
        return;
    }
    o->op = v->op;
    o->dst = named(dst);
    o->a = named(x[0]);
    o->b = named(x[1]);
    o->c = named(x[2]);
    o->copy = (uint8_t)(run->base + copy);
    o->count = (uint16_t)(hoisted ? 0 : run->count);
    o->imm = v->imm;
}

static void one(dv_vec_alloc *a, int32_t place, const dv_vec_run *run)
{
    int32_t c = a->seq[place], n = c / DV_VEC_MAX_UNROLL;
    const int32_t *after = a->after + 3 * (int64_t)place;
    int copy = c % DV_VEC_MAX_UNROLL, x[3] = {-1, -1, -1}, dst = -1, t = -1;
    const dv_vec_value *v = &a->vals[n];
    if (a->watching && dv_vec_is_effect(v))
        check(a);
    if (a->isa->tied[v->op])
        t = pick_tied(a, v, copy, after);
    uint32_t others = a->locked;
    for (int i = 0; i < v->n_args; i++)
        if (i != t) {
            x[i] = get(a, v->arg[i], copy, after[i]);
            lock(a, x[i]);
        }
    if (t >= 0)
        dst = tie(a, v, t, copy, after, x);
    a->locked = others;
    if (v->op == DV_V_WATCH)
        watch(a, x[0]);
    if (v->op == DV_V_ACCUM || v->op == DV_V_ACCUM2)
        accumulate(a, v, copy, x, run->count);
    if (v->op == DV_V_WATCH || v->op == DV_V_ACCUM || v->op == DV_V_ACCUM2) {
        release_dead(a, x, v->n_args);
        return;
    }
    if (t >= 0)
        lock(a, dst);
    release_dead(a, x, v->n_args);
    if (t >= 0)
        unlock(a, dst);
    int home = a->home_reg[n];
    if (t < 0 && v->op != DV_V_STORE)
        dst = home >= 0 ? home : take(a);
    put(a, v, dst, x, copy, run);
    if (v->op == DV_V_STORE)
        return;
    if (home >= 0 && dst != home)
        dv_vec_op(a, DV_V_MOV, home, dst, 0, 0);
    if (home >= 0)
        return;
    if (a->home_slot[n] >= 0)
        dv_vec_op(a, DV_V_SPILL, 0, dst, 0, a->home_slot[n]);
    if (a->last[c] < DV_VEC_NEVER)
        give(a, dst, c, a->last[c]);
}

// Adds a value to the accumulator of its statement. In a partial vector, the
// unused lanes are replaced by the reducer's identity.
static void accumulate(dv_vec_alloc *a, const dv_vec_value *v, int copy,
                       const int *x, int count)
{
    const dv_vec_shape *s = a->statement[v->imm];
    int acc = a->acc[v->imm][copy % a->n_accs], y[2] = {x[0], x[1]}, temp[3],
        n = 0;
    int lanes = a->isa->vector_bytes / (a->plan->is64 ? 8 : 4);
    dv_vop step = dv_vec_step(s);
    for (int i = 0; i < v->n_args; i++)
        lock(a, x[i]);
    if (count < lanes && s->reduce != DV_VEC_OUTER) {
        int zero = s->reducer == DV_RED_SUM;
        uint64_t all = a->plan->is64 ? UINT64_MAX : UINT32_MAX;
        int other = -1;
        if (!zero) {
            other = temp[n++] = dv_vec_alloc_temp(a);
            dv_vec_op(a, DV_V_CONST, other, 0, 0,
                      dv_vec_pool(a->plan, a->arena, dv_vec_identity(s), 0));
        }
        for (int i = 0; i < v->n_args; i++) {
            int t = temp[n++] = dv_vec_alloc_temp(a);
            dv_vec_op(a, DV_V_CONST, t, 0, 0,
                      dv_vec_pool(a->plan, a->arena, all, count));
            dv_vec_emit(a->plan, a->arena,
                        (dv_vec_mop){.op = zero ? DV_V_AND : DV_V_SEL,
                                     .dst = (uint8_t)t,
                                     .a = (uint8_t)t,
                                     .b = (uint8_t)x[i],
                                     .c = (uint8_t)(zero ? 0 : other)});
            y[i] = t;
        }
    }
    dv_vec_mop op = {.op = (uint8_t)step,
                     .dst = (uint8_t)acc,
                     .a = (uint8_t)acc,
                     .b = (uint8_t)y[0]};
    if (v->op == DV_V_ACCUM2)
        op = (dv_vec_mop){.op = DV_V_FMA,
                          .dst = (uint8_t)acc,
                          .a = (uint8_t)y[0],
                          .b = (uint8_t)y[1],
                          .c = (uint8_t)acc};
    dv_vec_emit(a->plan, a->arena, op);
    while (n)
        unlock(a, temp[--n]);
    for (int i = 0; i < v->n_args; i++)
        unlock(a, x[i]);
}

void dv_vec_alloc_run(dv_vec_alloc *a, const dv_vec_run *run)
{
    int32_t n = dv_vec_order(a, run), slots = a->first_slot;
    size_t bytes = (size_t)a->n_vals * DV_VEC_MAX_UNROLL * sizeof *a->last;
    memset(a->reg, -1, bytes);
    memset(a->slot, -1, bytes);
    memset(a->last, DV_VEC_NEVER & 255, bytes);
    // Go backwards through the run (the sequence of operations without jumps)
    // to find, for each argument of an operation, the position of its next use
    // after this operation.
    for (int32_t i = n - 1; i >= 0; i--) {
        const dv_vec_value *v = &a->vals[a->seq[i] / DV_VEC_MAX_UNROLL];
        int copy = a->seq[i] % DV_VEC_MAX_UNROLL;
        int32_t *after = a->after + 3 * (int64_t)i, of[3];
        for (int k = 0; k < v->n_args; k++) {
            of[k] = copy_of(a, v->arg[k], copy);
            after[k] = a->last[of[k]];
        }
        // `last` is updated only after all of `after` is set: if two arguments
        // are the same value, both must see its previous use.
        for (int k = 0; k < v->n_args; k++)
            a->last[of[k]] = i;
    }
    // Now `last` of a value made in this run (the sequence of operations
    // without jumps) is the position of its first use, which is needed when the
    // value is made.
    for (int32_t i = 0; i < n && !a->plan->failed; i++)
        one(a, i, run);
    for (int r = 0; r < a->isa->n_regs; r++)
        if (a->owner[r] >= 0)
            set_free(a, r);
    a->first_slot = slots;
}

// Does a value differ between the unrolled copies of the loop body? Values from
// outside the loop do not; in an outer reduction, neither do values that are
// the same for a whole row, nor what is computed from such values alone.
static int differs(const dv_vec_alloc *a, const dv_vec_value *v)
{
    if (v->section <= DV_SECTION_HOIST)
        return 0;
    if (v->section == DV_SECTION_EPILOGUE || dv_vec_is_effect(v) ||
        v->op == DV_V_WATCH)
        return 1;
    if (v->op == DV_V_LOAD)
        return a->plan->operands[v->imm].inner != 0;
    int any = 0;
    for (int i = 0; i < v->n_args; i++)
        any |= a->copies[v->arg[i]];
    return any;
}

void dv_vec_alloc_init(dv_vec_alloc *a)
{
    size_t n = (size_t)a->n_vals, copies = n * DV_VEC_MAX_UNROLL;
    a->home_reg = DV_NEW(a->arena, int32_t, n);
    a->home_slot = DV_NEW(a->arena, int32_t, n);
    a->pool = DV_NEW(a->arena, int32_t, n);
    a->copies = DV_NEW(a->arena, uint8_t, n);
    a->reg = DV_NEW(a->arena, int32_t, copies);
    a->slot = DV_NEW(a->arena, int32_t, copies);
    a->last = DV_NEW(a->arena, int32_t, copies);
    a->seq = DV_NEW(a->arena, int32_t, copies);
    a->after = DV_NEW(a->arena, int32_t, 3 * copies);
    if (!a->home_reg || !a->home_slot || !a->pool || !a->copies || !a->reg ||
        !a->slot || !a->last || !a->seq || !a->after) {
        a->plan->failed = 1;
        return;
    }
    memset(a->home_reg, -1, n * sizeof *a->home_reg);
    memset(a->home_slot, -1, n * sizeof *a->home_slot);
    memset(a->pool, -1, n * sizeof *a->pool);
    for (int32_t v = 0; v < a->n_vals; v++)
        a->copies[v] = differs(a, &a->vals[v]) ? UINT8_MAX : 0;
    for (int r = 0; r < a->isa->n_regs; r++)
        set_free(a, r);
}
