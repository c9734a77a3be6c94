// Pointers of vector kernels; vec_point.h describes where they are kept.
#include "jit/a64/vec_point.h"

enum { N_POINTERS = 13 };

// Returns whether loads of an operand still fit their instructions if it is
// addressed `bytes` away from another operand's pointer; this includes all
// unrolled copies of the loop body and partial vectors.
static int reaches(const dv_vec_operand *o, int64_t bytes)
{
    enum { MOST_COPIES = 8, NEAR = 256, MOST = 4095 };
    int es = dv_a64_size(o);
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

static int64_t running(const dv_a64_pointers *m, int k)
{
    return m->running + 8 * (k - N_POINTERS);
}

// Returns the register of running pointer k (the address of an operand's
// current elements); a pointer on the stack is first loaded into X_TMP.
static int take(dv_a64_pointers *m, int k)
{
    dv_gen *g = m->gen;
    if (k < N_POINTERS)
        return k;
    DV_E(ldr_x, X_TMP, X_SP, running(m, k), 0);
    return X_TMP;
}

int dv_a64_pointer(dv_a64_pointers *m, int operand)
{
    return take(m, m->at.of[operand]);
}

static const dv_vec_operand *whose(const dv_a64_pointers *m, int k)
{
    return &m->p->operands[m->at.operand[k]];
}

// Sets register `to` to register `from` plus the row stride in bytes of the
// operand of pointer k.
static void add_row(dv_a64_pointers *m, int to, int from, int k)
{
    const dv_vec_operand *o = whose(m, k);
    dv_gen_add(m->gen, to, from, o->outer * dv_a64_size(o));
}

void dv_a64_step_running(dv_a64_pointers *m, int outer, int64_t by)
{
    dv_gen *g = m->gen;
    for (int k = 0; k < m->at.n; k++) {
        const dv_vec_operand *o = whose(m, k);
        if (!(outer ? o->outer : o->inner))
            continue;
        int r = take(m, k);
        if (outer)
            add_row(m, r, r, k);
        else
            dv_gen_add(g, r, r, o->inner * by * dv_a64_size(o));
        if (k >= N_POINTERS)
            DV_E(str_x, r, X_SP, running(m, k), 0);
    }
}

void dv_a64_step_starts(dv_a64_pointers *m, int64_t by)
{
    dv_gen *g = m->gen;
    for (int k = 0; k < m->at.n; k++) {
        const dv_vec_operand *o = whose(m, k);
        if (!o->inner)
            continue;
        DV_E(ldr_x, X_TMP, X_SP, m->places + 8 * k, 0);
        dv_gen_add(g, X_TMP, X_TMP, o->inner * by * dv_a64_size(o));
        DV_E(str_x, X_TMP, X_SP, m->places + 8 * k, 0);
    }
}

// Returns whether a pointer is advanced from row to row in its register; others
// are reloaded from the start addresses on the stack.
static int walks(const dv_a64_pointers *m, int k)
{
    int64_t inner = whose(m, k)->inner;
    return k < N_POINTERS && (inner == 0 || inner == 1) &&
           (m->p->shape->reduce == DV_VEC_EACH ||
            m->p->shape->reduce == DV_VEC_INNER ||
            m->p->shape->reduce == DV_VEC_ONCE);
}

// Moves the pointers that need no stack slot (they are kept in registers only)
// from the end of a row to the start of the next row.
void dv_a64_next_row(dv_a64_pointers *m)
{
    // Instructions that subtract the number of elements of a row times 1, 2, 4
    // or 8 bytes.
    static const dv_insn back[] = {DV_INSN_sub_x, DV_INSN_sub2_x,
                                   DV_INSN_sub4_x, DV_INSN_sub8_x};
    dv_gen *g = m->gen;
    for (int k = 0; k < m->at.n; k++) {
        const dv_vec_operand *o = whose(m, k);
        if (!walks(m, k))
            continue;
        if (o->outer)
            add_row(m, k, k, k);
        if (o->inner)
            dv_emit(g->code, back[__builtin_ctz((unsigned)dv_a64_size(o))], k,
                    k, X_ALL, 0);
    }
}

void dv_a64_load_row_pointers(dv_a64_pointers *m)
{
    dv_gen *g = m->gen;
    for (int k = 0; k < m->at.n; k++)
        if (walks(m, k))
            DV_E(ldr_x, k, X_SP, m->places + 8 * k, 0);
}

// Sets the running pointers to the start addresses on the stack, and, with
// to_next_row, advances these start addresses by one row.
void dv_a64_point(dv_a64_pointers *m, int to_next_row)
{
    dv_gen *g = m->gen;
    for (int k = 0; k < m->at.n; k++) {
        int r = k < N_POINTERS ? k : X_TMP;
        if (walks(m, k))
            continue;
        DV_E(ldr_x, r, X_SP, m->places + 8 * k, 0);
        if (k >= N_POINTERS)
            DV_E(str_x, r, X_SP, running(m, k), 0);
        if (!to_next_row || !whose(m, k)->outer)
            continue;
        add_row(m, X_TMP, r, k);
        DV_E(str_x, X_TMP, X_SP, m->places + 8 * k, 0);
    }
}

int64_t dv_a64_point_at(dv_a64_pointers *m, dv_gen *g, const dv_vec_plan *p,
                        int64_t places)
{
    m->gen = g;
    m->p = p;
    dv_vec_assign_pointers(p, reaches, &m->at);
    int far = m->at.n > N_POINTERS ? m->at.n - N_POINTERS : 0;
    m->places = places;
    m->running = places + 8 * (int64_t)m->at.n;
    return (m->running + 8 * far + 15) / 16 * 16;
}

void dv_a64_init_starts(dv_a64_pointers *m)
{
    dv_gen *g = m->gen;
    for (int k = 0; k < m->at.n; k++) {
        int operand = m->at.operand[k];
        if (operand < m->p->n_given)
            DV_E(ldr_x, 0, X_TMP2, 8 * operand, 0);
        else
            DV_E(ldr_x, 0, X_TMP, offsetof(dv_vec_args, acc), 0);
        DV_E(str_x, 0, X_SP, m->places + 8 * k, 0);
    }
}
