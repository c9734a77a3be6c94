// Lists the possible stick dims (dims divided into sticks, the target's memory
// units) of an op's operands, derived from its accesses.
#include "layout/stick.h"
#include <string.h>

static int is_index(const dv_op *op, int read)
{
    for (int k = 0; k <= op->n_reads; k++)
        for (int d = 0; d < dv_op_access(op, k)->n_dims; d++)
            if (dv_op_access(op, k)->index[d].via == read)
                return 1;
    return 0;
}

typedef struct maker {
    const dv_program *p;
    const dv_target *t;
    const dv_op *op;
    dv_arena *arena;
    dv_stick_choices *out;
    int cap;
    // Bit mask of the operands that may be divided into sticks (the target's
    // units of memory) along any dim.
    uint32_t skip[DV_MAX_READS / 32 + 1];
} maker;

enum { NEVER = -3 };

// Returns the dim of operand k that must be divided into sticks (the target's
// units of memory) so that variable `var` runs inside them: the last dim in
// which the variable moves from one element of a stick to the next.
// DV_STICK_NONE if the variable does not occur; NEVER if it moves by whole
// sticks only, as h in x[64*h + d].
static int dim_of(const maker *m, int k, int var)
{
    const dv_access *a = dv_op_access(m->op, k);
    int64_t eps = dv_stick_elems(m->t, m->p->tensors[a->tensor].dtype);
    int dim = DV_STICK_NONE;
    for (int d = 0; d < a->n_dims; d++) {
        if (a->index[d].via >= 0 || a->index[d].coef[var] == 0)
            continue;
        if (a->index[d].coef[var] % eps)
            dim = d;
        else if (dim < 0)
            dim = NEVER;
    }
    return dim;
}

static int skips(const maker *m, int k)
{
    return m->skip[k / 32] >> k % 32 & 1;
}

// Appends a choice (which dim of each operand is divided into sticks) in which
// every operand accepts any dim, and returns it to be filled in.
static int8_t *new_choice(maker *m)
{
    size_t row = (size_t)m->out->n_operands;
    if (m->out->n == m->cap) {
        size_t n = (size_t)m->out->n * row;
        int cap = m->cap ? 2 * m->cap : 8;
        m->out->want =
            dv_arena_grow(m->arena, m->out->want, n, (size_t)cap * row, 1);
        m->cap = cap;
        if (!m->out->want)
            return NULL;
    }
    int8_t *want = m->out->want + (size_t)m->out->n++ * row;
    memset(want, DV_STICK_ANY, row);
    return want;
}

// Adds the choice in which all operands have their sticks (the target's units
// of memory) along variable `var`. If it is -1, all operands are sparse: they
// have one element per stick.
static int add_choice_along(maker *m, int var)
{
    int8_t *want = new_choice(m);
    if (!want)
        return 0;
    for (int k = 0; k < m->out->n_operands; k++) {
        int dim = var < 0 ? DV_STICK_NONE : dim_of(m, k, var);
        if (skips(m, k))
            continue;
        if (dim == NEVER) {
            m->out->n--;
            break;
        }
        want[k] = (int8_t)dim;
    }
    return 1;
}

// Adds the choice for a matrix product in which factor a has its sticks (the
// target's units of memory) along the reduced variable k, and factor b and the
// result have theirs along n.
static int add_product(maker *m, int a, int b, int k, int n)
{
    int of_a = dim_of(m, a, k), of_b = dim_of(m, b, n);
    int of_c = dim_of(m, m->op->n_reads, n);
    if (of_a < 0 || of_b < 0 || of_c < 0)
        return 1;
    int8_t *want = new_choice(m);
    if (!want)
        return 0;
    want[a] = (int8_t)of_a;
    want[b] = (int8_t)of_b;
    want[m->op->n_reads] = (int8_t)of_c;
    return 1;
}

static int is_long(const dv_op *op, int v)
{
    return dv_var_len(op, v) > 1;
}

// Adds the choices for a contraction, a sum of products: two factors share a
// reduced variable, and one of them has a variable of the result that the other
// has not. Each choice gives the dim of each operand that is divided into
// sticks (the target's units of memory). Returns the number of choices, or -1
// if out of memory.
static int add_products(maker *m)
{
    const dv_op *op = m->op;
    int before = m->out->n;
    if (op->n_reads != 2 || skips(m, 0) || skips(m, 1))
        return 0;
    for (int a = 0; a < 2; a++) {
        uint32_t in_a = dv_access_vars(op, &op->reads[a]);
        uint32_t in_b = dv_access_vars(op, &op->reads[1 - a]);
        uint32_t in_c = dv_access_vars(op, &op->write);
        for (int k = 0; k < op->n_vars; k++)
            for (int n = op->n_vars - 1; n >= 0; n--)
                if ((in_a & in_b) >> k & 1 && op->vars[k].reduce &&
                    is_long(op, k) && (in_b & in_c & ~in_a) >> n & 1 &&
                    is_long(op, n) && !add_product(m, a, 1 - a, k, n))
                    return -1;
    }
    return m->out->n - before;
}

// Adds the choices for a move (an op that only copies): sticks (the target's
// units of memory) along any dim of the result, the innermost first, or one
// element per stick.
static int add_moves(maker *m)
{
    const dv_tensor *t = &m->p->tensors[m->op->write.tensor];
    for (int d = t->n_dims - 1; d >= -1; d--) {
        if (d >= 0 && t->shape[d] == 1)
            continue;
        int8_t *want = new_choice(m);
        if (!want)
            return 0;
        if (!skips(m, m->op->n_reads))
            want[m->op->n_reads] = (int8_t)d;
    }
    return 1;
}

static void find_skips(maker *m)
{
    const dv_op *op = m->op;
    for (int k = 0; k <= op->n_reads; k++) {
        const dv_tensor *t = &m->p->tensors[dv_op_access(op, k)->tensor];
        if (t->n_elems == 1 || (k < op->n_reads && is_index(op, k)))
            m->skip[k / 32] |= 1u << k % 32;
    }
}

int dv_stick_list_choices(dv_stick_choices *out, const dv_target *t,
                          const dv_program *p, const dv_op *op, dv_arena *arena)
{
    maker m = {.p = p, .t = t, .op = op, .arena = arena, .out = out};
    *out = (dv_stick_choices){.n_operands = op->n_reads + 1};
    dv_kind kind = dv_op_kind(op);
    find_skips(&m);
    if (kind == DV_KIND_EXTERN)
        return new_choice(&m) != NULL;
    if (kind == DV_KIND_MOVE)
        return add_moves(&m);
    if (kind == DV_KIND_CONTRACTION) {
        int n = add_products(&m);
        if (n)
            return n > 0;
    }
    // Choices with sticks (the target's units of memory) along the innermost
    // variable of the result are added first, so that they win ties in cost.
    for (int d = op->write.n_dims - 1; d >= DV_STICK_NONE; d--)
        for (int v = op->n_vars - 1; v >= 0; v--)
            if (dim_of(&m, op->n_reads, v) == d && is_long(op, v) &&
                !add_choice_along(&m, v))
                return 0;
    return add_choice_along(&m, -1);
}

// Moves element i of a list to its front.
static void put_first(int32_t *list, int32_t i)
{
    int32_t x = list[i];
    memmove(list + 1, list, (size_t)i * sizeof *list);
    list[0] = x;
}

int dv_stick_layout_in_order(dv_layout *out, const dv_target *t,
                             const dv_tensor *x, int stick, int outer_first)
{
    int32_t order[DV_MAX_DIMS], n = 0;
    dv_layout_spec spec = {x->n_dims, x->shape, NULL, 0};
    if (stick == DV_STICK_ANY)
        stick = x->n_dims - 1;
    if (stick == DV_STICK_NONE)
        spec.sparse = x->n_dims > 0;
    if (stick >= 0) {
        for (int32_t d = 0; d < x->n_dims; d++)
            if (d != stick)
                order[n++] = d;
        order[n] = stick;
        spec.order = order;
    }
    // A layout in sticks stores the first dim of `order` inside the others (see
    // layout.c). Pass the innermost dim first to keep the outer ones outside.
    if (n > 1 && outer_first && t->sticks && !t->tile_rows)
        put_first(order, n - 1);
    return dv_layout_make(out, t, x->dtype, &spec);
}

int dv_stick_layout(dv_layout *out, const dv_target *t, const dv_tensor *x,
                    int stick)
{
    int first = stick == 0; // the first dim without sticks
    if (!dv_stick_layout_in_order(out, t, x, stick, 0))
        return 0;
    // If the first dim is stored inside the others, a slice of it spans the
    // whole tensor.
    return !t->span_limit_bytes || out->bytes <= t->span_limit_bytes ||
           x->n_dims <= first || x->shape[first] < t->cores ||
           dv_stick_layout_in_order(out, t, x, stick, 1);
}
