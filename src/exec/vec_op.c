// Ops as calls of vector kernels; vec_op.h says how.
#include "jit/host.h"
#include "exec/vec_op_in.h"
#include "exec/vec_range.h"
#include <stdlib.h>

// A long column is taken so many rows at a time, all columns before the next:
// more rows at once would be more pages than the machine follows.
enum { CHUNK = 8, LONG = 4 * CHUNK, WIDE = 64 };

// -- Expressions -------------------------------------------------------------

typedef struct maker {
    const dv_vec_how *how;
    dv_arena *arena;
    dv_vec_node *nodes;
    int32_t n, cap;
    dv_vec_shape shape;
    int failed, too_much;
    // A window is one expression: its points, the one at hand, and by point
    // and read the operand. 0, NULL: it is no window, operands are reads.
    int32_t points, point;
    uint16_t *operand_of;
} maker;

static uint16_t add(maker *m, dv_vec_node n)
{
    dv_vec_node *slot = DV_PUSH(m->arena, dv_vec_node, m->nodes, m->n, m->cap);
    if (!slot)
        m->failed = 1;
    else
        *slot = n;
    m->too_much |= m->n >= DV_VEC_MAX_NODES;
    return (uint16_t)(m->n - 1);
}

static uint16_t node_of(maker *m, const dv_expr *e);

// What a reducer makes of a window, point by point. Sums start at 0, as others
// do, which is not -0.
static uint16_t steps_of(maker *m, const dv_expr *reduce, uint16_t all)
{
    dv_vec_node n = {.kind = DV_VEC_STEP, .arg = {0, all, 0}};
    if (m->shape.reducer == DV_RED_SUM && m->shape.compute != DV_I32) {
        n.arg[0] = add(m, (dv_vec_node){.kind = DV_VEC_CONST});
        all = add(m, n);
    }
    for (m->point = 1; m->point < m->points; m->point++) {
        n.arg[0] = all;
        n.arg[1] = node_of(m, reduce->arg[0]);
        all = add(m, n);
    }
    m->point = 0;
    return all;
}

static uint16_t node_of(maker *m, const dv_expr *e)
{
    dv_vec_node n = {0};
    if (m->failed || m->too_much)
        return 0;
    for (int i = 0; i < e->n_args; i++)
        n.arg[i] = node_of(m, e->arg[i]);
    switch ((dv_expr_kind)e->kind) {
    case DV_EXPR_CONST:
        n.kind = DV_VEC_CONST;
        n.value = e->value;
        return add(m, n);
    case DV_EXPR_READ:
        n.kind = DV_VEC_LOAD;
        n.arg[0] = (uint16_t)e->read;
        if (m->points)
            n.arg[0] = m->operand_of[m->point * m->how->op->n_reads + e->read];
        return add(m, n);
    case DV_EXPR_APPLY:
        n.kind = DV_VEC_APPLY;
        n.fn = e->fn;
        return add(m, n);
    case DV_EXPR_REDUCE:
        break;
    }
    m->shape.value = n.arg[0];
    uint16_t all = m->points ? steps_of(m, e, n.arg[0])
                             : add(m, (dv_vec_node){.kind = DV_VEC_REDUCED});
    if (e->fn != DV_RED_MEAN)
        return all;
    double count = (double)dv_op_points(m->how->op, e->vars);
    n = (dv_vec_node){.kind = DV_VEC_CONST, .value = count};
    n = (dv_vec_node){
        .kind = DV_VEC_APPLY, .fn = DV_FN_DIV, .arg = {all, add(m, n), 0}};
    return add(m, n);
}

// -- Which ops ---------------------------------------------------------------

static int n_reducers(const dv_expr *e)
{
    int n = e->kind == DV_EXPR_REDUCE;
    for (int i = 0; i < e->n_args; i++)
        n += n_reducers(e->arg[i]);
    return n;
}

static int same_place(const dv_flat *a, const dv_flat *b, int n_vars)
{
    int same = a->base == b->base;
    for (int v = 0; v < n_vars; v++)
        same &= a->coef[v] == b->coef[v];
    return same;
}

static int gathers(const dv_op *op)
{
    for (int i = 0; i < op->n_reads; i++)
        if (dv_access_is_indirect(&op->reads[i]))
            return 1;
    return 0;
}

static int types_agree(const dv_vec_how *how, const dv_isa *isa,
                       dv_dtype compute)
{
    const dv_program *p = how->p;
    const dv_op *op = how->op;
    int some = how->looks && !gathers(op);
    for (int i = 0; i < op->n_reads; i++)
        if (!dv_vec_loads(p->tensors[op->reads[i].tensor].dtype, compute) &&
            !dv_op_is_index(op, i))
            return 0;
    return dv_vec_stores_on(isa, p->tensors[op->write.tensor].dtype, compute) &&
           (compute != DV_I32 ||
            dv_vec_op_fit(p, op) >= (some ? DV_FITS_SOME : DV_FITS_ALL));
}

// Indices that are themselves read directly.
static int plain_indices(const dv_op *op, const dv_access *a)
{
    for (int d = 0; d < a->n_dims; d++)
        if (a->index[d].via >= 0 &&
            dv_access_is_indirect(&op->reads[a->index[d].via]))
            return 0;
    return 1;
}

static int possible(const dv_vec_how *how, const dv_isa *isa, dv_dtype *compute)
{
    const dv_op *op = how->op;
    static const dv_dtype in[] = {DV_F32, DV_F64, DV_I32};
    *compute = how->as_f32 ? DV_F32 : in[dv_op_compute(how->p, op)];
    if (op->is_extern || op->n_reads >= DV_VEC_MAX_OPERANDS ||
        dv_access_is_indirect(&op->write) || n_reducers(op->body) > 1)
        return 0;
    for (int i = 0; i < op->n_reads; i++) {
        const dv_access *a = &op->reads[i];
        int far = dv_access_is_indirect(a);
        if ((far && (!how->looks || !plain_indices(op, a))) ||
            (a->tensor == op->write.tensor && !how->copied &&
             (far || !same_place(&how->reads[i], how->write, op->n_vars))))
            return 0;
    }
    return types_agree(how, isa, *compute);
}

// -- Which loops -------------------------------------------------------------

static int64_t length(const dv_op *op, int v)
{
    return op->vars[v].end - op->vars[v].begin;
}

int64_t dv_vec_op_step(const dv_vec_how *how, int access, int v)
{
    const dv_op *op = how->op;
    return dv_access_step(
        how->p, access < op->n_reads ? &op->reads[access] : &op->write, v);
}

// What one element costs with v as the inner loop: strided accesses go one by
// one, and a short loop is mostly its ends.
static double badness(const maker *m, int v)
{
    const dv_vec_how *how = m->how;
    const dv_op *op = how->op;
    double sum = 1;
    int reduces = dv_op_reduce(op) && !m->points;
    for (int i = 0; i < op->n_reads + !reduces; i++) {
        int64_t apart = dv_vec_op_step(how, i, v);
        sum += apart == 0 ? 0 : apart == 1 ? 1 : 6;
    }
    if (reduces && !op->vars[v].reduce &&
        dv_vec_op_step(how, op->n_reads, v) != 1)
        sum += 1;
    int64_t n = length(op, v);
    return n < 16 ? sum * (1 + 16 / (double)n) : sum;
}

// Does what an index finds depend on it?
static int steers(const dv_vec_how *how, int v)
{
    const dv_op *op = how->op;
    for (int i = 0; i < op->n_reads; i++)
        for (int d = 0; d < op->reads[i].n_dims; d++) {
            int via = op->reads[i].index[d].via;
            if (via >= 0 && dv_vec_op_step(how, via, v))
                return 1;
        }
    return 0;
}

// Can it be one of the kernel's loops? Those of a window are none.
static int may_loop(const maker *m, int v)
{
    const dv_op *op = m->how->op;
    return length(op, v) > 1 && !steers(m->how, v) &&
           !(m->points && op->vars[v].reduce);
}

static int32_t pick_inner(const maker *m)
{
    int32_t best = -1;
    for (int v = 0; v < m->how->op->n_vars; v++)
        if (may_loop(m, v) && (best < 0 || badness(m, v) <= badness(m, best)))
            best = v;
    return best;
}

// Around a reduced loop another reduced one, so that the sum stays in
// registers; around a written one a reduced one for the same reason. Else the
// longest, for few calls.
static int32_t pick_outer(const maker *m, int32_t inner)
{
    const dv_op *op = m->how->op;
    int32_t best = -1;
    for (int v = 0; v < op->n_vars; v++) {
        if (v == inner || !may_loop(m, v))
            continue;
        int better = best >= 0 ? op->vars[v].reduce - op->vars[best].reduce : 1;
        if (better > 0 || (better == 0 && length(op, v) > length(op, best)))
            best = v;
    }
    return best;
}

static dv_vec_reduce kind_of(const dv_op *op, int32_t inner, int32_t outer)
{
    int in = inner >= 0 && op->vars[inner].reduce;
    int out = outer >= 0 && op->vars[outer].reduce;
    if (!dv_op_reduce(op))
        return DV_VEC_EACH;
    return in && out ? DV_VEC_BOTH : in ? DV_VEC_INNER : DV_VEC_OUTER;
}

// -- What the next tile will want --------------------------------------------

static int reads(const dv_op *op, int32_t tensor)
{
    for (int r = 0; r < op->n_reads; r++)
        if (op->reads[r].tensor == tensor)
            return 1;
    return 0;
}

// Is this op the last of several in its group that read a tensor, which the
// group does not write? The first of them waits for memory, and by now the
// memory has nothing to do.
static int last_reader(const dv_vec_how *how, int32_t tensor)
{
    const dv_op *ops = how->p->ops;
    int before = 0;
    for (int32_t i = how->group->first_op; i < how->group->end_op; i++) {
        if (ops[i].write.tensor == tensor ||
            (i > how->number && reads(&ops[i], tensor)))
            return 0;
        before |= i < how->number && reads(&ops[i], tensor);
    }
    return before;
}

// From one tile to the next where they follow along one variable, in elements.
static int64_t ahead_of(const dv_vec_how *how, int read)
{
    const dv_op *op = how->op;
    int64_t ahead = 0;
    if (!how->plan || dv_access_is_indirect(&op->reads[read]) ||
        !last_reader(how, op->reads[read].tensor))
        return 0;
    for (int v = 0; v < op->n_vars; v++) {
        int64_t len = how->plan->slices[how->number][v];
        if (len >= length(op, v))
            continue;
        if (ahead || op->vars[v].reduce)
            return 0;
        ahead = how->reads[read].coef[v] * len;
    }
    return llabs(ahead) <= DV_VEC_MAX_STRIDE ? ahead : 0;
}

// -- Making ------------------------------------------------------------------

static void set_loops(dv_vec_op *v, const maker *m)
{
    const dv_op *op = m->how->op;
    for (int i = 0; i < op->n_vars; i++) {
        if (i == v->inner || i == v->outer || (m->points && op->vars[i].reduce))
            continue;
        if (op->vars[i].reduce)
            v->reduced[v->n_reduced++] = i;
        else
            v->written[v->n_written++] = i;
    }
}

// Of a window, the elements from where its first variable values are 0 to a
// point, numbered with the last variable running fastest.
static int64_t to_point(const dv_op *op, const dv_flat *f, int32_t point)
{
    int64_t off = 0;
    for (int v = op->n_vars - 1; v >= 0; v--)
        if (op->vars[v].reduce) {
            int64_t n = length(op, v);
            off += f->coef[v] * (op->vars[v].begin + point % n);
            point = (int32_t)(point / n);
        }
    return off;
}

static void set_operand(dv_vec_op *v, const maker *m, dv_vec_operand *o, int i,
                        int read, int32_t point)
{
    const dv_vec_how *how = m->how;
    const dv_op *op = how->op;
    int last = read == op->n_reads;
    const dv_flat *f = last ? how->write : &how->reads[read];
    const dv_access *a = last ? &op->write : &op->reads[read];
    dv_dtype t = how->p->tensors[a->tensor].dtype;
    int64_t es = dv_dtype_get(t)->size_bytes;
    int value = last || !v->n_indices || !dv_op_is_index(op, read);
    o->dtype = value ? (uint8_t)t : m->shape.compute;
    o->inner = v->inner >= 0 ? f->coef[v->inner] : 0;
    o->outer = v->outer >= 0 ? f->coef[v->outer] : 0;
    o->ahead = last || point ? 0 : ahead_of(how, read);
    v->read[i] = read;
    v->base[i] = f->base * es;
    if (m->points)
        v->base[i] += to_point(op, f, point) * es;
    int64_t behind = point ? to_point(op, f, point) - to_point(op, f, 0) : 0;
    if (point && llabs(behind) <= DV_VEC_MAX_STRIDE) {
        o->lead = (uint16_t)(m->operand_of[read] + 1);
        o->behind = (int32_t)behind;
    }
    for (int k = 0; k < op->n_vars; k++)
        v->step[i * op->n_vars + k] =
            m->points && op->vars[k].reduce ? 0 : f->coef[k] * es;
}

// Of a window, an operand for each read at each point, or one for all where
// points have no part in it.
static int set_operands(dv_vec_op *v, maker *m)
{
    const dv_op *op = m->how->op;
    int32_t points = m->points ? m->points : 1, n_reads = op->n_reads;
    uint32_t reduced = dv_all_vars(op) & ~dv_written_vars(op);
    size_t n = (size_t)points * (size_t)n_reads + 1;
    dv_vec_operand *o = DV_NEW(m->arena, dv_vec_operand, n);
    m->operand_of = DV_NEW(m->arena, uint16_t, n);
    v->read = DV_NEW(m->arena, int32_t, n);
    v->base = DV_NEW(m->arena, int64_t, n);
    v->step = DV_NEW(m->arena, int64_t, n * (size_t)op->n_vars);
    if (!o || !m->operand_of || !v->read || !v->base || !v->step)
        return 0;
    for (int32_t t = 0, i = 0; t < points; t++)
        for (int32_t r = 0; r < n_reads; r++, i++) {
            if (t && !(dv_access_vars(op, &op->reads[r]) & reduced)) {
                m->operand_of[i] = m->operand_of[r];
                continue;
            }
            m->operand_of[i] = (uint16_t)v->n_operands;
            set_operand(v, m, &o[v->n_operands], v->n_operands, r, t);
            v->n_operands++;
        }
    set_operand(v, m, &o[v->n_operands], v->n_operands, n_reads, 0);
    m->shape.operands = o;
    m->shape.n_operands = (uint16_t)++v->n_operands;
    return 1;
}

static void list_indices(dv_vec_op *v, const dv_vec_how *how)
{
    const dv_op *op = how->op;
    const dv_tensor *tensors = how->p->tensors;
    v->n_indices = 0;
    for (int i = 0; i < op->n_reads; i++) {
        const dv_access *a = &op->reads[i];
        const dv_tensor *t = &tensors[a->tensor];
        int64_t apart = dv_dtype_get(t->dtype)->size_bytes;
        for (int d = a->n_dims - 1; d >= 0; d--) {
            int via = a->index[d].via;
            if (via >= 0 && v->indices)
                v->indices[v->n_indices] = (dv_vec_index){
                    i, via, apart, tensors[op->reads[via].tensor].dtype};
            v->n_indices += via >= 0;
            apart *= t->shape[d];
        }
    }
}

static int set_indices(dv_vec_op *v, maker *m)
{
    list_indices(v, m->how); // how many
    v->indices = DV_NEW(m->arena, dv_vec_index, v->n_indices);
    if (!v->indices)
        return 0;
    list_indices(v, m->how);
    v->looks = v->n_indices ? "indices are in range"
               : m->shape.compute == DV_I32 &&
                       dv_vec_op_fit(m->how->p, m->how->op) != DV_FITS_ALL
                   ? "values fit 32 bits"
                   : NULL;
    return 1;
}

// The length of inner loops that the outer one continues, in all operands; 0:
// there is none.
static int64_t fuse_length(const dv_vec_operand *operands, int n_operands)
{
    int64_t n = 0;
    for (int i = 0; i < n_operands; i++) {
        const dv_vec_operand *o = &operands[i];
        if (o->inner == 0 && o->outer == 0)
            continue;
        if (o->inner == 0 || o->outer % o->inner || o->outer / o->inner < 1 ||
            (n && o->outer / o->inner != n))
            return 0;
        n = o->outer / o->inner;
    }
    return n;
}

// Of a sum it is another order: it must be so in the program, too, not only
// where a rank or a tile has its elements.
static int64_t find_fuse(const dv_vec_op *v, const dv_vec_how *how)
{
    dv_vec_operand as[DV_VEC_MAX_OPERANDS] = {{0}};
    int64_t n = fuse_length(v->shape.operands, v->n_operands);
    if (v->reduce == DV_VEC_EACH || !n)
        return n;
    if (v->reduce != DV_VEC_BOTH)
        return 0;
    for (int i = 0; i < v->n_operands; i++) {
        as[i].inner = dv_vec_op_step(how, i, v->inner);
        as[i].outer = dv_vec_op_step(how, i, v->outer);
    }
    return fuse_length(as, v->n_operands) == n ? n : 0;
}

static int strides_fit(const dv_vec_shape *s)
{
    for (int i = 0; i < s->n_operands; i++)
        if (llabs(s->operands[i].inner) > DV_VEC_MAX_STRIDE ||
            llabs(s->operands[i].outer) > DV_VEC_MAX_STRIDE)
            return 0;
    return 1;
}

dv_status dv_vec_op_kernels(dv_vec_op *v, const dv_vec_how *how, dv_jit *jit,
                            dv_arena *arena, dv_diag *diag)
{
    int parts = v->reduce && (!how->whole || v->n_reduced > 0 || v->chunk > 0);
    dv_vec_shape shape = v->shape;
    if (v->call[0][0])
        return DV_OK; // they are there
    for (int old = 0; old <= parts; old++)
        for (int un = 0; un <= parts; un++) {
            shape.from_acc = (uint8_t)old;
            shape.to_acc = (uint8_t)un;
            DV_TRY(dv_jit_vec(jit, &shape, &v->call[old][un], diag));
        }
    return v->turns ? dv_vec_turn_create(&v->turn, v, how, jit, arena, diag)
                    : DV_OK;
}

// Operations of an expression, about; the long functions are many each.
static int32_t size_of(const dv_expr *e)
{
    enum { LONG_FN = 200 };
    int is_long =
        e->kind == DV_EXPR_APPLY && e->fn >= DV_FN_EXP && e->fn <= DV_FN_GELU;
    int32_t n = is_long ? LONG_FN : 1;
    for (int i = 0; i < e->n_args; i++)
        n += size_of(e->arg[i]);
    return n;
}

// Of a window that is not too much for one expression, as no product is; 0: it
// is no window.
static int64_t points_of(const maker *m)
{
    enum { MOST_NODES = 320, MOST_READS = 128 };
    const dv_op *op = m->how->op;
    int64_t n = m->how->whole ? dv_op_window(m->how->p, op) : 0;
    int32_t reads = 0, size = n ? size_of(dv_op_reduce(op)->arg[0]) : 0;
    for (int i = 0; i < op->n_reads; i++)
        reads +=
            (dv_access_vars(op, &op->reads[i]) & ~dv_written_vars(op)) != 0;
    return n * reads <= MOST_READS && n * size <= MOST_NODES ? n : 0;
}

static dv_status make(dv_vec_op **out, maker *m, dv_jit *jit, dv_diag *diag)
{
    enum { SHORT = 1000 };
    const dv_op *op = m->how->op;
    const dv_expr *r = dv_op_reduce(op);
    dv_vec_op *v = DV_NEW(m->arena, dv_vec_op, 1);
    if (!v)
        return dv_nomem(diag);
    v->n_vars = op->n_vars;
    m->points = (int32_t)points_of(m);
    v->turns = !gathers(op) && dv_vec_turn_loops(m->how, &v->outer, &v->inner);
    if (!v->turns) {
        v->inner = pick_inner(m);
        v->outer = pick_outer(m, v->inner);
    }
    if (v->inner < 0 && gathers(op))
        return DV_OK; // one by one
    v->reduce =
        m->points ? DV_VEC_EACH : (uint8_t)kind_of(op, v->inner, v->outer);
    // Reduced over variables of one step each: a column of one row.
    if (v->reduce == DV_VEC_OUTER && v->outer >= 0 &&
        !op->vars[v->outer].reduce)
        v->outer = -1;
    v->acc_bytes = m->shape.compute == DV_F64 ? 8 : 4;
    set_loops(v, m);
    if (!set_indices(v, m) || !set_operands(v, m))
        return dv_nomem(diag);
    m->shape.reduce = v->reduce;
    m->shape.reducer = !r || r->fn == DV_RED_MEAN ? DV_RED_SUM : r->fn;
    m->shape.result = node_of(m, op->body);
    m->shape.nodes = m->nodes;
    m->shape.n_nodes = (uint16_t)m->n;
    if (m->failed)
        return dv_nomem(diag);
    if (m->too_much || !strides_fit(&m->shape))
        return DV_OK;
    if (v->reduce == DV_VEC_OUTER && v->outer >= 0 && v->inner >= 0 &&
        length(op, v->outer) > LONG && length(op, v->inner) >= WIDE)
        v->chunk = CHUNK;
    v->shape = m->shape;
    v->fuse = find_fuse(v, m->how);
    // Of what is long it depends on the kernels whether it can be run at all.
    if (!m->how->later || size_of(op->body) > SHORT)
        DV_TRY(dv_vec_op_kernels(v, m->how, jit, m->arena, diag));
    *out = v;
    return DV_OK;
}

dv_status dv_vec_op_create(dv_vec_op **out, const dv_vec_how *how, dv_jit *jit,
                           dv_arena *arena, dv_diag *diag)
{
    dv_dtype compute;
    *out = NULL;
    if (!possible(how, dv_jit_isa(jit), &compute))
        return DV_OK;
    maker m = {.how = how, .arena = arena};
    m.shape.compute = (uint8_t)compute;
    dv_status s = make(out, &m, jit, diag);
    return s == DV_E_LIMIT ? DV_OK : s; // too long for one kernel
}
