// Makes the loops of a kernel and fills them. With L lanes, unrolled 4 times:
//
//   each, inner, both             outer
//   for each row                  while 4L columns are left
//     values constant in the row      initialise accumulators
//     while 4L elements are left      for each row: the body, 4 times
//       the body, 4 times             store results
//     while L are left                advance to the next columns
//       the body                  while L are left ... L/2 ... 1 ...
//     while L/2 are left ... 1
//     store result (inner)
//   store result (both)
//
// The loops for L/2 ... 1 elements run at most once each; together they handle
// any remainder. If a kernel has several statements, each of these parts
// contains the operations of all statements.
#include "base/dtype.h"
#include "jit/vec/alloc.h"
#include <string.h>

typedef struct planner {
    dv_vec_plan *p;
    dv_vec_alloc a;
    dv_vec_build b;
    int lanes;
    // Section (part of the kernel) whose operations the main loop consists of:
    // DV_SECTION_FAST if there is a body for small arguments only, else
    // DV_SECTION_BODY.
    dv_vec_section main;
    // Index of each statement's REDUCED value (the result of its reduction);
    // -1: none.
    int32_t reduced[DV_VEC_MAX_STATEMENTS];
} planner;

static void emit(planner *q, dv_vop op, int dst, int x, int y, int32_t imm)
{
    dv_vec_op(&q->a, op, dst, x, y, imm);
}

static void find_live(planner *q)
{
    dv_vec_alloc *a = &q->a;
    for (int32_t v = a->n_vals - 1; v >= 0; v--) {
        const dv_vec_value *x = &a->vals[v];
        if (x->op == DV_V_STORE || x->op == DV_V_ACCUM ||
            x->op == DV_V_ACCUM2 || x->op == DV_V_WATCH)
            a->live[v] = 1;
        if (x->op == DV_V_REDUCED)
            q->reduced[x->imm] = v;
        for (int i = 0; a->live[v] && i < x->n_args; i++) {
            a->live[x->arg[i]] = 1;
            a->outside[x->arg[i]] |= a->vals[x->arg[i]].section != x->section;
        }
    }
}

// Returns the largest number of simultaneously live values of the loop body,
// and sets *n_ops to its number of operations.
static int body_width(const planner *q, int32_t *ends, int *n_ops)
{
    const dv_vec_alloc *a = &q->a;
    int most = 0, now = 0;
    *n_ops = 0;
    for (int32_t v = 0; v < a->n_vals; v++)
        for (int i = 0; a->live[v] && i < a->vals[v].n_args; i++)
            ends[a->vals[v].arg[i]] = v;
    for (int32_t v = 0; v < a->n_vals; v++) {
        const dv_vec_value *x = &a->vals[v];
        if (!a->live[v] || x->section != q->main)
            continue;
        ++*n_ops;
        now += ends[v] > v;
        most = now > most ? now : most;
        for (int i = 0; i < x->n_args; i++) {
            int twice = (i > 0 && x->arg[i] == x->arg[0]) ||
                        (i > 1 && x->arg[i] == x->arg[1]);
            now -= !twice && ends[x->arg[i]] == v &&
                   a->vals[x->arg[i]].section == q->main;
        }
    }
    return most;
}

enum { MAX_OPS = 400 };

// Chooses the unroll factor, the number of copies of the loop body. It is as
// large as the code size allows, because waiting for arithmetic costs more than
// spills and repeated loads of constants.
static int pick_unroll(const dv_vec_isa *isa, int n_ops)
{
    int u = n_ops ? MAX_OPS / n_ops : 1;
    int most = isa->max_unroll ? isa->max_unroll : DV_VEC_MAX_UNROLL;
    return u > most ? most : u > 1 ? u : 1;
}

// Chooses the number of accumulators of a statement. In an outer reduction
// (over rows) each vector of columns needs its own. Reductions along rows may
// have fewer accumulators than copies of the loop body: an addition completes
// before its accumulator is used again, and the registers saved allow more
// copies.
static int pick_accs(const dv_vec_alloc *a)
{
    int most = a->isa->max_accs;
    int own = a->statement[0]->reduce == DV_VEC_OUTER;
    return own || !most || most > a->unroll ? a->unroll : most;
}

// Counts how often the loop body uses each value; these uses would benefit from
// a permanent register. Uses that overwrite the register of their argument are
// not counted, since they need a fresh copy anyway.
static void count_uses(const planner *q, int32_t *uses)
{
    const dv_vec_alloc *a = &q->a;
    for (int32_t v = 0; v < a->n_vals; v++) {
        const dv_vec_value *x = &a->vals[v];
        for (int i = 0; x->section == q->main && a->live[v] && i < x->n_args;
             i++)
            if (!(a->isa->tied[x->op] == 1 << i))
                uses[x->arg[i]]++;
    }
}

// Gives permanent registers (home_reg) to the `room` most used values from
// outside the body, and stack slots (home_slot) to other values that are
// computed before the loop.
static void give_homes(planner *q, int room, int32_t *uses)
{
    dv_vec_alloc *a = &q->a;
    count_uses(q, uses);
    for (; room > 0; room--) {
        int32_t best = -1;
        for (int32_t v = 0; v < a->n_vals; v++)
            if (a->vals[v].section <= DV_SECTION_HOIST && a->home_reg[v] < 0 &&
                uses[v] && (best < 0 || uses[v] > uses[best]))
                best = v;
        if (best < 0)
            break;
        a->home_reg[best] = dv_vec_alloc_home(a);
    }
    for (int32_t v = 0; v < a->n_vals; v++)
        if (a->vals[v].section == DV_SECTION_HOIST && a->outside[v] &&
            a->home_reg[v] < 0)
            a->home_slot[v] = q->p->n_slots++;
    a->first_slot = q->p->n_slots;
}

static void load_homes(planner *q)
{
    dv_vec_alloc *a = &q->a;
    for (int32_t v = 0; v < a->n_vals; v++)
        if (a->vals[v].op == DV_V_CONST && a->home_reg[v] >= 0)
            emit(q, DV_V_CONST, a->home_reg[v], 0, 0,
                 dv_vec_pool(q->p, a->arena, a->vals[v].bits,
                             a->vals[v].imm ? DV_VEC_IOTA : 0));
}

static void run(planner *q, dv_vec_section s, int copies, int base, int count)
{
    dv_vec_alloc_run(&q->a, &(dv_vec_run){s, copies, base, count});
}

// A range of emitted operations, to be emitted once more for partial vectors.
// Every run (sequence without jumps) starts with the same free registers, so
// repeating the operations is valid.
typedef struct part {
    int32_t from, to;
} part;

// Emits a range of operations once more for a part of the row that begins
// `vectors` vectors later, with loads and stores of `count` elements.
static void again(planner *q, part x, int count, int vectors)
{
    for (int32_t i = x.from; i < x.to && !q->p->failed; i++) {
        dv_vec_mop op = q->p->ops[i];
        if (op.op == DV_V_LOAD || op.op == DV_V_STORE)
            op.count = (uint16_t)(count < op.count ? count : op.count);
        op.copy = (uint8_t)(op.copy + vectors);
        dv_vec_emit(q->p, q->a.arena, op);
    }
}

static int has_accs(const dv_vec_shape *s)
{
    return s->reduce != DV_VEC_EACH && s->reduce != DV_VEC_ONCE;
}

static void start_accs_of(planner *q, int k, int n, int count)
{
    const dv_vec_shape *s = q->a.statement[k];
    for (int i = 0; i < n && has_accs(s); i++) {
        if (s->reduce == DV_VEC_OUTER && s->from_acc)
            dv_vec_emit(q->p, q->a.arena,
                        (dv_vec_mop){.op = DV_V_LOAD,
                                     .dst = (uint8_t)q->a.acc[k][i],
                                     .copy = (uint8_t)i,
                                     .count = (uint16_t)count,
                                     .imm = s->n_operands});
        else
            emit(q, DV_V_CONST, q->a.acc[k][i], 0, 0,
                 dv_vec_pool(q->p, q->a.arena, dv_vec_identity(s), 0));
    }
}

static void start_accs(planner *q, int n, int count)
{
    for (int k = 0; k < q->a.n_statements; k++)
        start_accs_of(q, k, n, count);
}

static void leave_acc(planner *q, int copy, int count)
{
    dv_vec_emit(q->p, q->a.arena,
                (dv_vec_mop){.op = DV_V_STORE,
                             .a = (uint8_t)q->a.acc[0][copy],
                             .copy = (uint8_t)copy,
                             .count = (uint16_t)count,
                             .imm = q->p->shape->n_operands});
}

static void finish(planner *q, int copy, int count)
{
    if (q->p->shape->to_acc) {
        leave_acc(q, copy, count);
        return;
    }
    for (int k = 0; k < q->a.n_statements; k++)
        if (q->reduced[k] >= 0)
            q->a.home_reg[q->reduced[k]] = q->a.acc[k][copy];
    run(q, DV_SECTION_EPILOGUE, 1, copy, count);
}

// Combines all accumulators of statement k into the first one, then its lanes,
// so that every lane holds the total.
static void combine_of(planner *q, int k)
{
    const dv_vec_shape *s = q->a.statement[k];
    const int32_t *acc = q->a.acc[k];
    dv_vop step = dv_vec_step(s);
    for (int by = 1; by < q->a.n_accs; by *= 2)
        for (int i = 0; i + by < q->a.n_accs; i += 2 * by)
            emit(q, step, acc[i], acc[i], acc[i + by], 0);
    int t = dv_vec_alloc_temp(&q->a);
    for (int by = q->lanes / 2; by >= 1; by /= 2) {
        if (step == DV_V_FADD && q->a.isa->pairs) {
            emit(q, DV_V_PAIRS, acc[0], acc[0], 0, 0);
            continue;
        }
        emit(q, DV_V_ROT, t, acc[0], 0, by);
        emit(q, step, acc[0], acc[0], t, 0);
    }
    if (s->from_acc) {
        dv_vec_emit(q->p, q->a.arena,
                    (dv_vec_mop){.op = DV_V_LOAD,
                                 .dst = (uint8_t)t,
                                 .imm = s->n_operands});
        emit(q, step, acc[0], t, acc[0], 0);
    }
    dv_vec_alloc_release(&q->a, t);
}

static void combine(planner *q)
{
    for (int k = 0; k < q->a.n_statements; k++)
        if (has_accs(q->a.statement[k]))
            combine_of(q, k);
}

// Each loop over a row processes fewer elements per iteration than the one
// before it. Returns the number after k: one vector, then halves of it down to
// one element.
static int less(const planner *q, int k)
{
    return k > q->lanes ? q->lanes : k / 2;
}

// Inserts prefetches for n elements from `first` on among the operations from
// `from` on that compute these elements. They are spread out, because issued
// all at once they would stall.
static void spread_prefetches(planner *q, int32_t from, int32_t n_ops,
                              int first, int n)
{
    enum { FETCHES = 2, OF = 10 };
    dv_vec_plan *p = q->p;
    for (int i = 0; i < FETCHES; i++) {
        int32_t at = from + i + n_ops * 3 * (i + 1) / OF;
        emit(q, DV_V_PREFETCH, 0,
             n_ops <= DV_VEC_MEMORY_BOUND_OPS * q->a.unroll, 0,
             first + i * n / FETCHES);
        if (p->failed)
            return;
        dv_vec_mop fetch = p->ops[p->n - 1];
        fetch.count = (uint16_t)(n / FETCHES);
        while (at < p->n - 1 && p->ops[at].op == p->ops[at - 1].op)
            // Adjacent loads or stores stay together, because the back end may
            // combine two of them into one instruction; so the prefetch goes
            // after them.
            at++;
        memmove(&p->ops[at + 1], &p->ops[at],
                (size_t)(p->n - 1 - at) * sizeof *p->ops);
        p->ops[at] = fetch;
    }
}

// Emits a loop with several loop bodies per iteration, for a kernel of several
// statements. Such statements are short, and a jump costs as much as several of
// their operations.
static void turns(planner *q, int n_ops)
{
    enum { MOST_OPS = 600 };
    int n = q->a.unroll * q->lanes, most = q->a.isa->turns;
    while (most > 1 && most * q->a.unroll * n_ops > MOST_OPS)
        most--;
    for (int i = 0; i < q->p->n_operands; i++)
        // If an operand is addressed from another one's pointer, that already
        // uses part of the displacement; over several bodies the displacement
        // might not reach.
        if (q->p->operands[i].lead)
            return;
    if (q->a.n_statements < 2 || most < 2 || q->main == DV_SECTION_FAST)
        return;
    emit(q, DV_V_LOOP, 0, 0, 0, most * n);
    part one = {q->p->n, 0};
    run(q, q->main, q->a.unroll, 0, q->lanes);
    one.to = q->p->n;
    for (int i = 1; i < most; i++)
        again(q, one, q->lanes, i * q->a.unroll);
    for (int i = most - 1; i >= 0; i--)
        spread_prefetches(q, one.from + i * (one.to - one.from),
                          one.to - one.from, i * n, n);
    emit(q, DV_V_LOOP_END, 0, 0, 0, most * n);
}

// Emits the loops over a row. The first one is unrolled, so that its body
// computes several vectors; the next ones compute what remains: single vectors,
// then parts of a vector. Their bodies are copies of the same operations,
// except in reductions, which mask the lanes that a part of a vector does not
// use.
static void loops(planner *q, int n_ops)
{
    part one = {-1, -1};
    int accs = 0;
    for (int k = 0; k < q->a.n_statements; k++)
        accs |= has_accs(q->a.statement[k]);
    turns(q, n_ops);
    for (int k = q->a.unroll * q->lanes; k >= 1; k = less(q, k)) {
        int copies = k > q->lanes ? k / q->lanes : 1;
        int first = k == q->a.unroll * q->lanes;
        emit(q, DV_V_LOOP, 0, 0, 0, k);
        if (k < q->lanes && one.from >= 0 && !accs) {
            again(q, one, k, 0);
        } else {
            one.from = k == q->lanes && !first ? q->p->n : -1;
            run(q, first ? q->main : DV_SECTION_BODY, copies, 0, k / copies);
            one.to = q->p->n;
        }
        emit(q, DV_V_LOOP_END, 0, 0, 0, k);
    }
}

static void along_rows(planner *q, int n_ops)
{
    int both = q->p->shape->reduce == DV_VEC_BOTH;
    if (both)
        start_accs(q, q->a.n_accs, q->lanes);
    emit(q, DV_V_ROWS, 0, 0, 0, 0);
    run(q, DV_SECTION_HOIST, 1, 0, 0);
    if (!both)
        start_accs(q, q->a.n_accs, q->lanes);
    loops(q, n_ops);
    if (!both) {
        combine(q);
        finish(q, 0, 1);
    }
    emit(q, DV_V_ROWS_END, 0, 0, 0, 0);
    if (both) {
        emit(q, DV_V_POINT, 0, 0, 0, 0);
        combine(q);
        finish(q, 0, 1);
    }
}

static void down_columns(planner *q)
{
    emit(q, DV_V_POINT, 0, 0, 0, 0);
    run(q, DV_SECTION_HOIST, 1, 0, 0);
    for (int k = q->a.unroll * q->lanes; k >= 1; k = less(q, k)) {
        int copies = k > q->lanes ? k / q->lanes : 1, count = k / copies;
        emit(q, DV_V_COLS, 0, 0, 0, k);
        start_accs(q, copies, count);
        emit(q, DV_V_STEPS, 0, 0, 0, 0);
        run(q, DV_SECTION_BODY, copies, 0, count);
        emit(q, DV_V_STEPS_END, 0, 0, 0, 0);
        emit(q, DV_V_POINT, 0, 0, 0, 0);
        for (int i = 0; i < copies; i++)
            finish(q, i, count);
        emit(q, DV_V_COLS_END, 0, 0, 0, k);
    }
}

// Copies the operands of all statements into the plan, followed by the
// accumulators of a partial reduction.
static void take_operands(dv_vec_plan *p, dv_arena *arena)
{
    const dv_vec_shape *s = p->shape;
    int given = 0, parts = s->from_acc || s->to_acc;
    for (const dv_vec_shape *k = s; k; k = k->beside)
        given += k->n_operands;
    dv_vec_operand *o = DV_NEW(arena, dv_vec_operand, given + parts);
    if (!o) {
        p->failed = 1;
        return;
    }
    p->operands = o;
    p->n_given = given;
    p->n_operands = given + parts;
    for (const dv_vec_shape *k = s; k; k = k->beside)
        for (int i = 0; i < k->n_operands; i++)
            *o++ = k->operands[i];
    if (parts)
        *o = (dv_vec_operand){.inner = s->reduce == DV_VEC_OUTER,
                              .outer = s->reduce == DV_VEC_INNER,
                              .dtype = s->compute};
}

// Finds an existing pointer from which operand i can be addressed with a
// displacement; returns -1 if there is none.
static int32_t near(const dv_vec_plan *p, int i,
                    int (*reaches)(const dv_vec_operand *o, int64_t bytes),
                    dv_vec_pointers *out)
{
    const dv_vec_operand *o = &p->operands[i];
    for (int32_t k = 0; k < out->n && o->lead; k++) {
        int j = out->operand[k];
        const dv_vec_operand *x = &p->operands[j];
        int64_t bytes = ((int64_t)o->lead_offset - x->lead_offset) *
                        dv_dtype_get((dv_dtype)o->dtype)->size_bytes;
        if ((j + 1 == o->lead || x->lead == o->lead) && reaches(o, bytes)) {
            out->off[i] = (int32_t)bytes;
            return k;
        }
    }
    return -1;
}

void dv_vec_assign_pointers(const dv_vec_plan *p,
                            int (*reaches)(const dv_vec_operand *o,
                                           int64_t bytes),
                            dv_vec_pointers *out)
{
    out->n = 0;
    for (int i = 0; i < p->n_operands; i++) {
        int32_t k = near(p, i, reaches, out);
        if (k < 0) {
            k = out->n++;
            out->operand[k] = (uint16_t)i;
            out->off[i] = 0;
        }
        out->of[i] = (uint16_t)k;
    }
}

void dv_vec_plan_rebind(dv_vec_plan *p, const dv_vec_shape *shape,
                        dv_arena *arena)
{
    p->shape = shape;
    take_operands(p, arena);
}

// For several statements, chooses how many copies of the body form a group
// whose operations alternate (a->together) and by how many operations the next
// group lags (a->lag). All copies form one group if `regs` registers suffice
// for them. Otherwise the next group starts when the previous one is half done
// or, if registers do not allow that, later. Returns the registers left for
// values from outside the body.
static int pick_together(planner *q, int regs)
{
    enum { STEADY = 3, SPARE = 1 };
    dv_vec_alloc *a = &q->a;
    dv_vec_run all = {DV_SECTION_BODY, a->unroll, 0, q->lanes};
    a->together = a->unroll;
    int together = dv_vec_order_pressure(a, &all);
    if (together + STEADY <= regs)
        return regs - together;
    // The array a->after is not in use yet and serves as scratch memory.
    int32_t *ops = a->after, *last = ops + a->n_vals;
    int32_t n_ops = dv_vec_interleave(a, DV_SECTION_BODY, ops);
    int32_t lag = (n_ops + 1) / 2;
    int n = a->unroll / 2 > 1 ? a->unroll / 2 : 1;
    int width = dv_vec_staggered_pressure(a, ops, n_ops, n_ops, last);
    while (n > 1 && n * width + STEADY > regs)
        n /= 2;
    while (lag < n_ops &&
           n * dv_vec_staggered_pressure(a, ops, n_ops, lag, last) + STEADY >
               regs)
        lag++;
    a->together = n;
    a->lag = lag;
    width = dv_vec_staggered_pressure(a, ops, n_ops, lag, last);
    return regs - n * width - (n == 1 ? SPARE : 0);
}

// Chooses the number of copies of the loop body and of accumulators. Sets
// *n_ops to the number of operations of the body, and returns the largest
// number of its values that are live at the same time.
static int choose_copies(planner *q, int *n_ops)
{
    dv_vec_alloc *a = &q->a;
    size_t n = (size_t)a->n_vals;
    int32_t *ends = DV_NEW(a->arena, int32_t, n);
    a->live = DV_NEW(a->arena, uint8_t, n);
    a->outside = DV_NEW(a->arena, uint8_t, n);
    *n_ops = 0;
    if (!ends || !a->live || !a->outside) {
        q->p->failed = 1;
        return 0;
    }
    find_live(q);
    int width = body_width(q, ends, n_ops);
    // With several statements the unroll factor is the same as for a kernel of
    // each statement alone, so that sums have the same order.
    a->unroll = pick_unroll(a->isa, a->n_statements > 1 ? 1 : *n_ops);
    a->n_accs = pick_accs(a);
    return width;
}

static void lay_out(planner *q)
{
    dv_vec_alloc *a = &q->a;
    size_t n = (size_t)a->n_vals;
    int32_t *uses = DV_NEW(a->arena, int32_t, n);
    q->p->failed |= !uses;
    int n_ops, accs = 0;
    int width = choose_copies(q, &n_ops);
    if (!q->p->failed)
        dv_vec_alloc_init(a);
    if (q->p->failed)
        return;
    for (int k = 0; k < a->n_statements; k++) {
        int has = has_accs(a->statement[k]);
        for (int i = 0; has && i < a->n_accs; i++)
            a->acc[k][i] = dv_vec_alloc_home(a);
        accs += has;
    }
    // At most half of the registers become permanent (hold one value for the
    // whole kernel), which leaves enough for any operation.
    int most = a->isa->n_regs / 2;
    int room = a->isa->n_regs - a->unroll * width - a->n_accs * accs - 3;
    if (a->n_statements > 1)
        room = pick_together(q, a->isa->n_regs - a->n_accs * accs);
    if (q->main == DV_SECTION_FAST) {
        a->watch = dv_vec_alloc_home(a);
        room--;
    }
    give_homes(q, room > most ? most : room, uses);
    emit(q, DV_V_BEGIN, 0, 0, 0, 0);
    load_homes(q);
    if (q->p->shape->reduce == DV_VEC_OUTER)
        down_columns(q);
    else
        along_rows(q, n_ops);
    emit(q, DV_V_RETURN, 0, 0, 0, 0);
    if (q->main != DV_SECTION_FAST)
        return;
    emit(q, DV_V_SLOW, 0, 0, 0, 0);
    run(q, DV_SECTION_BODY, a->unroll, 0, q->lanes);
    emit(q, DV_V_SLOW_END, 0, 0, 0, a->unroll * q->lanes);
}

// Begins a plan: translates the statements of a shape into values.
static void begin(planner *q, dv_vec_plan *p, const dv_vec_shape *shape,
                  const dv_vec_isa *isa, dv_arena *arena)
{
    *p = (dv_vec_plan){.shape = shape, .is64 = shape->compute == DV_F64};
    *q = (planner){.p = p};
    memset(q->reduced, -1, sizeof q->reduced);
    q->lanes = isa->vector_bytes / (p->is64 ? 8 : 4);
    q->a = (dv_vec_alloc){.plan = p, .isa = isa, .arena = arena};
    for (const dv_vec_shape *s = shape; s; s = s->beside)
        q->a.statement[q->a.n_statements++] = s;
    q->b = (dv_vec_build){
        .shape = shape, .arena = arena, .has_guard = isa->checks};
    dv_vec_build_all(&q->b);
    take_operands(p, arena);
    p->failed |= q->b.failed;
    q->a.vals = q->b.vals;
    q->a.from = q->b.from;
    q->a.n_vals = q->b.n;
    q->main = q->b.guard_limit > 0 ? DV_SECTION_FAST : DV_SECTION_BODY;
}

void dv_vec_plan_make(dv_vec_plan *p, const dv_vec_shape *shape,
                      const dv_vec_isa *isa, dv_arena *arena)
{
    planner q;
    begin(&q, p, shape, isa, arena);
    if (p->failed)
        return;
    if (q.main == DV_SECTION_FAST)
        q.a.guard_limit = dv_vec_lane(&q.b, q.b.guard_limit);
    lay_out(&q);
}

int dv_vec_accumulators_on(const dv_vec_isa *isa, const dv_vec_shape *shape)
{
    planner q;
    dv_vec_plan p;
    dv_arena scratch = {0};
    dv_vec_shape alone = *shape;
    int n_ops;
    alone.beside = NULL;
    begin(&q, &p, &alone, isa, &scratch);
    if (!p.failed)
        choose_copies(&q, &n_ops);
    dv_arena_free(&scratch);
    return p.failed ? 0 : q.a.n_accs;
}
