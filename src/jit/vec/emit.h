// The part of a back end of vector kernels that all instruction sets share: the
// pointers to the operands, and the loops. The vec.c of a64/ and of x64/
// includes this file after the struct `maker`, the state of writing a kernel.
// It is written in the virtual operations of code.h and in these names of the
// includer, which may be functions or macros:
//
//   N_POINTERS, POINTER(k)   running pointers that have a register, and which
//   X_FAR                    holds a running pointer that has none
//   X_LEFT, X_COUNT          count elements or columns, and rows
//   begin, leave(m), constant, load, store, reload, spill, compute(m, o)
//                            emit one operation of the plan each
//   restart(m, reg)          sets reg to the iterations of the inner loop
//   compare(g, reg, n)       compares a counter with a constant
//   branch_less(g)           branches ahead if the counter is less, to where a
//   land(g, from)            later call with the result is
//   branch_back(g, to)       branches to code offset `to` if it is not less
//   stays(m, k)              does pointer k stay in its register from row to
//                            row, instead of being loaded from its stack slot?
//   reaches(o, bytes)        see dv_vec_assign_pointers
//
// Each pointer has a stack slot that holds the start of the current row or
// block of columns. The running pointers, to the current elements, are in
// registers; if there are too many, the others are on the stack, too.

// Assigns pointers to the operands, and stack slots from offset `starts` on to
// the pointers. Returns the offset after the slots.
static int64_t place_pointers(maker *m, int64_t starts)
{
    dv_vec_assign_pointers(m->p, reaches, m->at);
    int n = m->at->n;
    m->starts = starts;
    m->running = starts + 8 * (int64_t)n;
    return m->running + 8 * (int64_t)(n > N_POINTERS ? n - N_POINTERS : 0);
}

static const dv_vec_operand *operand_of(const maker *m, int k)
{
    return &m->p->operands[m->at->operand[k]];
}

static int64_t running_slot(const maker *m, int k)
{
    return m->running + 8 * (k - N_POINTERS);
}

// Returns the register of running pointer k; one that is on the stack is first
// loaded into register X_FAR.
static int take(maker *m, int k)
{
    DV_GEN *g = &m->gen;
    if (k < N_POINTERS)
        return POINTER(k);
    DV_LOAD(X_FAR, X_SP, running_slot(m, k));
    return X_FAR;
}

// Returns the register that addresses an operand, at an offset of
// m->at->off[operand] bytes.
static int pointer_to(maker *m, int operand)
{
    return take(m, m->at->of[operand]);
}

// Emits code that stores the start addresses of all pointers on the stack.
// Register `args` points to the arguments of the kernel, `at` to its array of
// operand pointers.
static void init_starts(maker *m, int args, int at, int temp)
{
    DV_GEN *g = &m->gen;
    for (int k = 0; k < m->at->n; k++) {
        int operand = m->at->operand[k];
        if (operand < m->p->n_given)
            DV_LOAD(temp, at, 8 * operand);
        else
            DV_LOAD(temp, args, offsetof(dv_vec_args, acc));
        DV_STORE(temp, X_SP, m->starts + 8 * k);
    }
}

// Advances the running pointers by `by` elements along the inner loop; with
// `outer`, by one row.
static void step_running(maker *m, int outer, int64_t by)
{
    DV_GEN *g = &m->gen;
    for (int k = 0; k < m->at->n; k++) {
        const dv_vec_operand *o = operand_of(m, k);
        int64_t step = outer ? o->outer : o->inner * by;
        if (!(outer ? o->outer : o->inner))
            continue;
        int r = take(m, k);
        DV_ADD(r, step * dv_vec_size(o));
        if (k >= N_POINTERS)
            DV_STORE(r, X_SP, running_slot(m, k));
    }
}

// Advances the start addresses, which are on the stack, by `by` columns, to the
// next block of columns.
static void step_starts(maker *m, int64_t by)
{
    DV_GEN *g = &m->gen;
    for (int k = 0; k < m->at->n; k++) {
        const dv_vec_operand *o = operand_of(m, k);
        if (!o->inner)
            continue;
        DV_LOAD(X_FAR, X_SP, m->starts + 8 * k);
        DV_ADD(X_FAR, o->inner * by * dv_vec_size(o));
        DV_STORE(X_FAR, X_SP, m->starts + 8 * k);
    }
}

// Sets the running pointers to the start addresses, and, with to_next_row,
// advances these start addresses by one row.
static void point(maker *m, int to_next_row)
{
    DV_GEN *g = &m->gen;
    for (int k = 0; k < m->at->n; k++) {
        const dv_vec_operand *o = operand_of(m, k);
        int r = k < N_POINTERS ? POINTER(k) : X_FAR;
        if (stays(m, k))
            continue;
        DV_LOAD(r, X_SP, m->starts + 8 * k);
        if (k >= N_POINTERS)
            DV_STORE(r, X_SP, running_slot(m, k));
        if (!to_next_row || !o->outer)
            continue;
        DV_LEA(X_FAR, r, o->outer * dv_vec_size(o));
        DV_STORE(X_FAR, X_SP, m->starts + 8 * k);
    }
}

// Begins a loop of n elements or rows per iteration, which is skipped if the
// counter in register `count` is less than n.
static void enter(maker *m, int count, int64_t n)
{
    DV_GEN *g = &m->gen;
    compare(g, count, n);
    m->out[m->depth] = branch_less(g);
    m->top[m->depth++] = g->code->n;
}

// Ends a loop of n elements or rows per iteration: decrements the counter in
// register `count` by n and repeats the loop if at least n is left. A loop of
// fewer elements than a vector has runs only once.
static void again(maker *m, int count, int64_t n, int lanes)
{
    DV_GEN *g = &m->gen;
    size_t top = m->top[--m->depth], out = m->out[m->depth];
    DV_ADD(count, -n);
    if (n >= lanes) {
        compare(g, count, n);
        branch_back(g, top);
    }
    land(g, out);
}

// Emits one operation of the plan.
static void emit_op(maker *m, const dv_vec_mop *o)
{
    DV_GEN *g = &m->gen;
    switch ((dv_vop)o->op) {
    case DV_V_BEGIN:
        begin(m);
        break;
    case DV_V_RETURN:
        leave(m);
        break;
    case DV_V_CONST:
        constant(m, o);
        break;
    case DV_V_RELOAD:
        reload(m, o);
        break;
    case DV_V_SPILL:
        spill(m, o);
        break;
    case DV_V_LOAD:
        load(m, o);
        break;
    case DV_V_STORE:
        store(m, o);
        break;
    case DV_V_POINT:
        point(m, 0);
        break;
    case DV_V_ROWS:
        m->top[m->depth++] = g->code->n;
        point(m, 1);
        restart(m, X_LEFT);
        break;
    case DV_V_ROWS_END:
        DV_AGAIN(X_COUNT, m->top[--m->depth]);
        break;
    case DV_V_LOOP:
        enter(m, X_LEFT, o->imm);
        break;
    case DV_V_LOOP_END:
        step_running(m, 0, o->imm);
        again(m, X_LEFT, o->imm, g->lanes);
        break;
    case DV_V_COLS:
        enter(m, X_LEFT, o->imm);
        point(m, 0);
        break;
    case DV_V_COLS_END:
        step_starts(m, o->imm);
        again(m, X_LEFT, o->imm, g->lanes);
        break;
    case DV_V_STEPS:
        restart(m, X_COUNT);
        enter(m, X_COUNT, 1);
        break;
    case DV_V_STEPS_END:
        step_running(m, 1, 0);
        again(m, X_COUNT, 1, 0);
        break;
    default:
        compute(m, o);
    }
}
