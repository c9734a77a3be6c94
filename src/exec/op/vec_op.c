// Runs ops as calls of vector kernels; vec_op.h has the overview. Prefetching
// uses a GNU C builtin.
#include "exec/op/vec_op.h"
#include "base/dtype.h"
#include "base/math.h"
#include "exec/op/edges.h"
#include "exec/op/vec_range.h"
#include "jit/backend.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A long reduction over rows processes CHUNK rows of all columns before the
// next CHUNK rows, because more rows at once would access more pages at a time
// than the hardware handles well.
enum { CHUNK = 8, LONG = 4 * CHUNK, WIDE = 64 };
// The number of accumulators that are kept on the stack at a time if a
// reduction takes several kernel calls per result.
enum { SCRATCH = 2048 };

// A block for transposing has BLOCK or, near the edges, SMALL rows and columns.
// Anything smaller runs without transposing.
enum { BLOCK = 32, SMALL = 8, SIZES = 2 };
// The most operands that are transposed, and the most bytes of one element.
enum { MOST_TRANSPOSED = 4, MOST_BYTES = 4 };
enum { BLOCK_BYTES = BLOCK * BLOCK * MOST_BYTES };
static const int sizes[SIZES] = {BLOCK, SMALL};

// Transpose kernels for the blocks of some reads, and the vector kernel that
// computes a block.
typedef struct transpose {
    // Variables of a block; the result is contiguous along col.
    int32_t row, col;
    int32_t n_transposed, operand[MOST_TRANSPOSED];
    // Transpose kernels by operand and by the block's size in rows and columns.
    dv_move_fn move[MOST_TRANSPOSED][SIZES][SIZES];
    // The vector kernel of a block; NULL: the op is a copy, which the transpose
    // kernel completes alone.
    dv_vec_fn run;
} transpose;

enum { INDEX = -1 };
enum { NEW_ACC, OLD_ACC };
enum { FINISHED, UNFINISHED };

// An indirect index that differs between points: the index value that read
// `via` supplies, times `apart` bytes, is added to the operand's address.
typedef struct vec_index {
    int32_t operand, via;
    int64_t apart;
    dv_dtype dtype; // type of the index tensor
} vec_index;

struct dv_vec_op {
    int32_t n_vars, n_operands;
    int32_t inner, outer; // variables of the loops; -1: a loop of one iteration
    uint8_t reduce;       // which loops reduce: a dv_vec_reduce
    int32_t acc_bytes;
    // The variables outside the kernel's loops, the innermost last.
    int32_t written[DV_MAX_VARS], reduced[DV_MAX_VARS];
    int32_t n_written, n_reduced;
    int64_t chunk; // outer iterations per kernel call; 0: all
    // If the inner loop has this many iterations, the outer loop continues
    // where it ends in memory, so that both run as one loop; 0: never.
    int64_t fuse;
    // By variable outside the kernel's loops: the same as `fuse` for that
    // variable. If the inner loop has join[v] iterations, the loop over v
    // becomes part of it.
    int64_t join[DV_MAX_VARS];
    // The read number of each operand, or INDEX if its address is the value of
    // a variable. Operands are the reads (for a window, a small reduction that
    // is unrolled, those of each of its points), then those that are loaded as
    // integers as well, then values of variables, then the write.
    int32_t *read;
    // Byte offset of each operand, and its byte strides: that along variable v
    // is step[operand * n_vars + v], where n_vars is the number of variables of
    // the op.
    int64_t *base, *step;
    // Kernels, indexed by [1 if they continue from given accumulators][1 if
    // they store accumulators instead of finished results].
    dv_vec_fn call[2][2];
    dv_vec_shape shape;
    vec_index *indices;
    int32_t n_indices;
    dv_guard guard;
    dv_edges *edges; // NULL: boxes are not cut
    // If boxes are cut: the kernel of pieces in which all reads are inside, and
    // its operands. There, reads of a window are at fixed distances from each
    // other, so that they share a pointer.
    dv_vec_fn inside;
    dv_vec_operand *near;
    uint64_t prefetch; // bit r: the next tile of read r is prefetched
    int32_t window;    // points of the unrolled reduction; 0: none
    // 1 if the program's indices transpose a read, so that the op runs in
    // blocks.
    int blocks;
    // The transpose kernels; NULL: with the actual strides in memory, no read
    // is transposed.
    transpose *transpose;
};

typedef struct maker {
    const dv_vec_spec *spec;
    dv_arena *arena;
    dv_vec_node *nodes;
    int32_t n, cap;
    dv_vec_shape shape;
    int failed, too_much;
    // A window (a small stencil or pooling reduction) is unrolled into one
    // expression: its number of points, the current point, and the operand for
    // each point and read. points is 0 and operand_of NULL if the op is not a
    // window; operand numbers are then read numbers.
    int32_t points, point;
    uint16_t *operand_of;
    // By read: the operand that loads it as an integer, in a kernel that
    // computes in f32.
    uint16_t *whole_operand;
    int in_reducer; // Is the operand of the reducer being translated?
    // The subexpressions that are values of variables; operand first_index + i
    // is number i of them.
    const dv_expr **indices;
    int32_t n_indices, first_index;
} maker;

// Returns whether argument i of e is computed in integer lanes: in a kernel
// that computes in f32, arguments of tests and conditions are. `whole` is 1 if
// e itself is.
static int has_whole_arg(dv_dtype compute, const dv_expr *e, int i, int whole)
{
    if (whole || compute != DV_F32)
        return whole;
    if (dv_expr_applies(e, DV_FN_SELECT) && i == 0)
        return dv_expr_is_condition(e->arg[0]) && !dv_expr_is_test(e->arg[0]);
    return dv_expr_is_test(e);
}

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

static uint16_t node_of(maker *m, const dv_expr *e, int whole);

// Returns the position in m->indices of expression e, a variable's value;
// n_indices if it is not listed yet.
static int32_t index_number(const maker *m, const dv_expr *e)
{
    int32_t i = 0;
    while (i < m->n_indices &&
           (m->indices[i]->read != e->read || m->indices[i]->base != e->base))
        i++;
    return i;
}

static uint16_t load_node(maker *m, int operand)
{
    return add(m, (dv_vec_node){.kind = DV_VEC_LOAD,
                                .arg = {(uint16_t)operand, 0, 0}});
}

// Adds the kernel node that loads a variable's value, as a float unless
// `whole`.
static uint16_t index_node(maker *m, const dv_expr *e, int whole)
{
    int64_t lo = 0, hi = 0;
    uint16_t x = load_node(m, m->first_index + index_number(m, e));
    if (whole || m->shape.compute == DV_I32)
        return x;
    dv_expr_index_bounds(m->spec->whole_op ? m->spec->whole_op : m->spec->op, e,
                         &lo, &hi);
    return add(
        m, (dv_vec_node){.kind = DV_VEC_FLOAT,
                         .arg = {x, 0, 0},
                         .value = fmax(fabs((double)lo), fabs((double)hi))});
}

// Returns the variable along which a row of the result runs: the one with the
// smallest stride in the last dim that has any; -1: the result has no rows.
static int row_var(const dv_access *to, int n_vars)
{
    int best = -1;
    for (int d = to->n_dims - 1; d >= 0 && best < 0; d--) {
        const dv_index *x = &to->index[d];
        if (x->via >= 0)
            return -1;
        for (int v = 0; v < n_vars; v++)
            if (x->coef[v] &&
                (best < 0 || llabs(x->coef[v]) < llabs(x->coef[best])))
                best = v;
    }
    return best;
}

// Returns 1 if a kernel replaces a division by a multiplication with the
// reciprocal, because the divisor is the same for a whole row of the result.
// This depends on the op alone, so that results have the same bits with any
// loops and team. Divisions by constants (mostly counts) stay divisions, and so
// do those inside a reducer, whose rows may be others.
static int is_share(const maker *m, const dv_expr *e)
{
    const dv_op *op = m->spec->op;
    int row = row_var(&op->write, op->n_vars);
    return dv_expr_applies(e, DV_FN_DIV) && !m->in_reducer && row >= 0 &&
           e->arg[1]->kind != DV_EXPR_CONST &&
           !(dv_expr_free_vars(op, e->arg[1]) >> row & 1);
}

// Unrolls a reduction over the points of a window (a small stencil). Sums start
// at +0, as in reduction loops, so that a sum of -0 is +0.
static uint16_t steps_of(maker *m, const dv_expr *reduce, uint16_t all)
{
    dv_vec_node n = {.kind = DV_VEC_STEP, .arg = {0, all, 0}};
    if (m->shape.reducer == DV_RED_SUM && m->shape.compute != DV_I32) {
        n.arg[0] = add(m, (dv_vec_node){.kind = DV_VEC_CONST});
        all = add(m, n);
    }
    m->in_reducer = 1;
    for (m->point = 1; m->point < m->points; m->point++) {
        n.arg[0] = all;
        n.arg[1] = node_of(m, reduce->arg[0], 0);
        all = add(m, n);
    }
    m->in_reducer = 0;
    m->point = 0;
    return all;
}

// Translates an expression to kernel nodes; `whole` is 1 if it is computed in
// integer lanes.
static uint16_t node_of(maker *m, const dv_expr *e, int whole)
{
    dv_vec_node n = {0};
    if (m->failed || m->too_much)
        return 0;
    m->in_reducer |= e->kind == DV_EXPR_REDUCE;
    for (int i = 0; i < e->n_args; i++)
        n.arg[i] =
            node_of(m, e->arg[i],
                    has_whole_arg((dv_dtype)m->shape.compute, e, i, whole));
    m->in_reducer &= e->kind != DV_EXPR_REDUCE;
    switch ((dv_expr_kind)e->kind) {
    case DV_EXPR_CONST:
        n.kind = whole ? DV_VEC_WHOLE_CONST : DV_VEC_CONST;
        n.value = e->value;
        return add(m, n);
    case DV_EXPR_READ:
        return load_node(
            m, whole ? m->whole_operand[e->read]
               : m->points
                   ? m->operand_of[m->point * m->spec->op->n_reads + e->read]
                   : e->read);
    case DV_EXPR_INDEX:
        return index_node(m, e, whole);
    case DV_EXPR_APPLY:
        n.kind = is_share(m, e) ? DV_VEC_SHARE
                 : whole        ? DV_VEC_WHOLE
                                : DV_VEC_APPLY;
        n.fn = n.kind == DV_VEC_SHARE ? 0 : e->fn;
        return add(m, n);
    case DV_EXPR_REDUCE:
        break;
    }
    m->shape.value = n.arg[0];
    uint16_t all = m->points ? steps_of(m, e, n.arg[0])
                             : add(m, (dv_vec_node){.kind = DV_VEC_REDUCED});
    if (e->fn != DV_RED_MEAN)
        return all;
    double count = (double)dv_op_points(m->spec->op, e->vars);
    n = (dv_vec_node){.kind = DV_VEC_CONST, .value = count};
    n = (dv_vec_node){
        .kind = DV_VEC_APPLY, .fn = DV_FN_DIV, .arg = {all, add(m, n), 0}};
    return add(m, n);
}

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

static int is_indirect(const dv_op *op)
{
    return dv_op_gathers(op) || dv_access_is_indirect(&op->write);
}

// Returns whether read number i of the tensor that the op overwrites needs no
// snapshot: it reads the element that the same point writes, or one that no
// point writes.
static int same_element(const dv_vec_spec *spec, int i)
{
    const dv_op *op = spec->op;
    int equal = dv_access_is_indirect(&op->write)
                    ? dv_access_equal(op, &op->reads[i], &op->write)
                    : same_place(&spec->reads[i], spec->write, op->n_vars);
    return equal || !dv_op_reads_own_write(op);
}

// Returns the type in which kernels store the result: u8 for a bool that is
// computed as 0 or 1, which needs no conversion.
static dv_dtype stored_type(const dv_vec_spec *spec)
{
    const dv_expr *e = spec->op->body;
    dv_dtype t = spec->p->tensors[spec->op->write.tensor].dtype;
    int bit = e->kind == DV_EXPR_APPLY ? dv_fn_compares((dv_fn)e->fn)
                                       : e->dtype == DV_BOOL;
    return t == DV_BOOL && bit ? DV_U8 : t;
}

static int types_agree(const dv_vec_spec *spec, const dv_isa *isa,
                       dv_dtype compute)
{
    const dv_program *p = spec->p;
    const dv_op *op = spec->op;
    int some = spec->looks && !dv_op_gathers(op);
    for (int i = 0; i < op->n_reads; i++)
        if (!dv_vec_loads(p->tensors[op->reads[i].tensor].dtype, compute) &&
            !dv_op_is_index(op, i))
            return 0;
    return dv_vec_stores_on(isa, stored_type(spec), compute) &&
           (compute != DV_I32 ||
            dv_vec_op_fit(p, op) >= (some ? DV_FITS_DEPENDS : DV_FITS_ALL));
}

// Returns 1 if every tensor that supplies an indirect index of the access is
// itself read without indirect indices.
static int plain_indices(const dv_op *op, const dv_access *a)
{
    for (int d = 0; d < a->n_dims; d++)
        if (a->index[d].via >= 0 &&
            dv_access_is_indirect(&op->reads[a->index[d].via]))
            return 0;
    return 1;
}

// Returns whether there are kernels with all functions in e; `whole` is 1 if e
// is computed in integer lanes.
static int has_all(const dv_expr *e, dv_dtype compute, int whole)
{
    if (e->kind == DV_EXPR_APPLY &&
        !dv_vec_has((dv_fn)e->fn, whole ? DV_I32 : compute))
        return 0;
    for (int i = 0; i < e->n_args; i++)
        if (!has_all(e->arg[i], compute, has_whole_arg(compute, e, i, whole)))
            return 0;
    return 1;
}

static int possible(const dv_vec_spec *spec, const dv_isa *isa,
                    dv_dtype *compute)
{
    const dv_op *op = spec->op;
    *compute =
        spec->as_f32 ? DV_F32 : dv_kernel_type(dv_op_compute(spec->p, op));
    if (op->is_extern ||
        (dv_op_has_border(op) && !spec->staged && !spec->edges) ||
        op->n_reads >= DV_VEC_MAX_OPERANDS ||
        dv_access_gathers(op, &op->write) || n_reducers(op->body) > 1 ||
        (!spec->looks && is_indirect(op)))
        return 0;
    for (int i = 0; i < op->n_reads; i++) {
        const dv_access *a = &op->reads[i];
        int far = dv_access_gathers(op, a);
        if ((far && !plain_indices(op, a)) ||
            (a->tensor == op->write.tensor && !spec->copied &&
             (far ? dv_op_reads_own_write(op) : !same_element(spec, i))))
            return 0;
    }
    return has_all(op->body, *compute, 0) && types_agree(spec, isa, *compute);
}

// Returns the stride of an access along a variable, in elements of a row-major
// tensor. Accesses are numbered: first the reads, then the write.
static int64_t access_step(const dv_vec_spec *spec, int access, int v)
{
    return dv_access_step(spec->p, dv_op_access(spec->op, access), v);
}

// Estimates the cost of one element with v as the inner loop: strided accesses
// are scalar, and a short loop is mostly prologue and tail.
static double loop_cost(const maker *m, int v)
{
    const dv_vec_spec *spec = m->spec;
    const dv_op *op = spec->op;
    double sum = 1;
    int reduces = dv_op_reduce(op) && !m->points;
    for (int i = 0; i < op->n_reads + !reduces; i++) {
        int64_t apart = access_step(spec, i, v);
        sum += apart == 0 ? 0 : apart == 1 ? 1 : 6;
    }
    if (reduces && !op->vars[v].reduce &&
        access_step(spec, op->n_reads, v) != 1)
        sum += 1;
    int64_t n = dv_var_len(op, v);
    return n < 16 ? sum * (1 + 16 / (double)n) : sum;
}

// Returns 1 if an indirect index of the op depends on variable v.
static int index_depends_on(const dv_vec_spec *spec, int v)
{
    const dv_op *op = spec->op;
    for (int i = 0; i < op->n_reads; i++)
        for (int d = 0; d < op->reads[i].n_dims; d++) {
            int via = op->reads[i].index[d].via;
            if (via >= 0 && access_step(spec, via, v))
                return 1;
        }
    return 0;
}

// Returns 1 if variable v can be a loop of the kernel. The reduced variables of
// a window cannot, because they are unrolled.
static int may_loop(const maker *m, int v)
{
    const dv_op *op = m->spec->op;
    return !index_depends_on(m->spec, v) && !(m->points && op->vars[v].reduce);
}

static int is_worth_loop(const maker *m, int v)
{
    return dv_var_len(m->spec->op, v) > 1 && may_loop(m, v);
}

static int32_t pick_inner(const maker *m)
{
    int32_t best = -1;
    for (int v = 0; v < m->spec->op->n_vars; v++)
        if (is_worth_loop(m, v) &&
            (best < 0 || loop_cost(m, v) <= loop_cost(m, best)))
            best = v;
    return best;
}

// Returns the variable, other than `inner` and not reduced, with the smallest
// stride in the output.
static int32_t pick_next(const maker *m, int32_t inner)
{
    const dv_op *op = m->spec->op;
    int32_t best = -1;
    for (int v = 0; v < op->n_vars; v++)
        if (v != inner && is_worth_loop(m, v) && !op->vars[v].reduce &&
            (best < 0 || access_step(m->spec, op->n_reads, v) <
                             access_step(m->spec, op->n_reads, best)))
            best = v;
    return best;
}

// Picks the outer loop: preferably a reduced variable, because the accumulators
// then stay in registers; otherwise the longest variable, for few calls.
static int32_t pick_outer(const maker *m, int32_t inner)
{
    const dv_op *op = m->spec->op;
    int32_t best = -1;
    if (m->spec->nearest)
        return pick_next(m, inner);
    for (int v = 0; v < op->n_vars; v++) {
        if (v == inner || !is_worth_loop(m, v))
            continue;
        int better = best >= 0 ? op->vars[v].reduce - op->vars[best].reduce : 1;
        if (better > 0 ||
            (better == 0 && dv_var_len(op, v) > dv_var_len(op, best)))
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

// Is this op the last of several ops in its group (ops that share one tile
// space) that read the tensor, and does the group not write the tensor? The
// first reader waits for memory, while the memory is idle during the last one,
// which can therefore prefetch the next tile.
static int last_reader(const dv_vec_spec *spec, int32_t tensor)
{
    const dv_op *ops = spec->p->ops;
    int before = 0;
    for (int32_t i = spec->group->first_op; i < spec->group->end_op; i++) {
        if (ops[i].write.tensor == tensor ||
            (i > spec->number && dv_op_reads(&ops[i], tensor)))
            return 0;
        before |= i < spec->number && dv_op_reads(&ops[i], tensor);
    }
    return before;
}

// Returns the distance in elements from a read to the same read of the next
// tile, which is prefetched; 0 if it is not prefetched, in particular if tiles
// differ in more than one variable.
static int64_t prefetch_distance(const dv_vec_spec *spec, int read)
{
    const dv_op *op = spec->op;
    int64_t ahead = 0;
    if (!spec->plan || read >= 64 || dv_access_is_indirect(&op->reads[read]) ||
        op->reads[read].has_border)
        return 0;
    if (spec->as ? !(spec->as->prefetch >> read & 1)
                 : !last_reader(spec, op->reads[read].tensor))
        return 0;
    for (int v = 0; v < op->n_vars; v++) {
        int64_t len = spec->plan->slices[spec->number][v];
        if (len >= dv_var_len(op, v))
            continue;
        if (ahead || op->vars[v].reduce)
            return 0;
        ahead = spec->reads[read].coef[v] * len;
    }
    return llabs(ahead) <= DV_VEC_MAX_STRIDE ? ahead : 0;
}

// Returns the length along a variable of a full block for transposing: BLOCK,
// or all of a shorter variable.
static int64_t widest(const dv_vec_spec *spec, int v)
{
    return dv_min_i64(dv_var_len(spec->op, v), BLOCK);
}

static int is_copy(const dv_vec_spec *spec)
{
    const dv_op *op = spec->op;
    return op->body->kind == DV_EXPR_READ &&
           spec->p->tensors[op->reads[op->body->read].tensor].dtype ==
               spec->p->tensors[op->write.tensor].dtype;
}

// Returns 1 if a read with these strides is transposed: it is contiguous along
// the block's rows, and its stride along the columns spans a block.
static int across(const dv_vec_spec *spec, int read, int64_t along_row,
                  int64_t along_col, int row)
{
    dv_dtype t = spec->p->tensors[spec->op->reads[read].tensor].dtype;
    return along_row == 1 && along_col >= widest(spec, row) &&
           along_col <= DV_VEC_MAX_STRIDE &&
           (is_copy(spec) || dv_dtype_get(t)->size_bytes <= MOST_BYTES);
}

// Returns 1 if any read is transposed when tensors are row-major.
static int any_transposed(const dv_vec_spec *spec, int row, int col)
{
    for (int i = 0; i < spec->op->n_reads; i++)
        if (across(spec, i, access_step(spec, i, row),
                   access_step(spec, i, col), row))
            return 1;
    return 0;
}

// Finds the variables of blocks: the result is contiguous along `col` and a
// transposed read along `row`. They become the op's loops even if the actual
// strides do not permit transposing, so that results do not depend on these.
// Returns 0 if no read is transposed.
static int find_block_loops(const dv_vec_spec *spec, int32_t *row, int32_t *col)
{
    const dv_op *op = spec->op;
    int32_t c = -1;
    if (dv_op_reduce(op))
        return 0;
    for (int v = 0; v < op->n_vars; v++)
        if (access_step(spec, op->n_reads, v) == 1 &&
            dv_var_len(spec->op, v) >= SMALL)
            c = v;
    for (int v = 0; v < op->n_vars && c >= 0; v++) {
        int64_t down = access_step(spec, op->n_reads, v);
        if (v == c || dv_var_len(spec->op, v) < SMALL ||
            down < widest(spec, c) || down > DV_VEC_MAX_STRIDE ||
            !any_transposed(spec, v, c))
            continue;
        *row = v;
        *col = c;
        return 1;
    }
    return 0;
}

// Lists the reads that are transposed with the actual strides in memory.
static void list_transposed(transpose *t, const dv_vec_spec *spec)
{
    for (int i = 0; i < spec->op->n_reads && t->n_transposed < MOST_TRANSPOSED;
         i++) {
        const int64_t *step = spec->reads[i].coef;
        if (across(spec, i, step[t->row], step[t->col], t->row))
            t->operand[t->n_transposed++] = i;
    }
}

// Returns the type as which a transpose kernel moves elements of type t:
// integers are moved like other types of the same size.
static dv_dtype moved_as(dv_dtype t)
{
    int size = dv_dtype_get(t)->size_bytes;
    if (dv_is_float(t) || size > 4)
        return t;
    return size == 1 ? DV_I8 : size == 2 ? DV_F16 : DV_I32;
}

static dv_status make_moves(transpose *t, const dv_vec_spec *spec, dv_jit *jit,
                            dv_diag *diag)
{
    for (int k = 0; k < t->n_transposed; k++)
        for (int r = 0; r < SIZES; r++)
            for (int c = 0; c < SIZES; c++) {
                int i = t->operand[k];
                dv_dtype type =
                    spec->p->tensors[spec->op->reads[i].tensor].dtype;
                type = moved_as(type);
                dv_move_shape s = {
                    .lds = spec->reads[i].coef[t->col],
                    .ldd = is_copy(spec) ? spec->write->coef[t->row] : BLOCK,
                    .rows = sizes[c],
                    .cols = sizes[r],
                    .dtype = (uint8_t)type,
                    .move = DV_MOVE_TRANSPOSE};
                if (s.rows <= dv_var_len(spec->op, t->col) &&
                    s.cols <= dv_var_len(spec->op, t->row))
                    DV_TRY(dv_jit_move(jit, &s, &t->move[k][r][c], diag));
            }
    return DV_OK;
}

// Generates the op's vector kernel for a block, with the strides of the
// transposed copies.
static dv_status make_kernel(transpose *t, const dv_vec_op *v, dv_jit *jit,
                             dv_arena *arena, dv_diag *diag)
{
    int32_t n = v->n_operands;
    dv_vec_shape s = v->shape;
    dv_vec_operand *o = DV_NEW(arena, dv_vec_operand, n);
    if (!o)
        return dv_nomem(diag);
    for (int32_t i = 0; i < n; i++) {
        const int64_t *step = &v->step[i * v->n_vars];
        o[i] = v->shape.operands[i];
        int64_t size = dv_dtype_get((dv_dtype)o[i].dtype)->size_bytes;
        o[i].inner = step[t->col] / size;
        o[i].outer = step[t->row] / size;
        o[i].ahead = 0;
    }
    for (int k = 0; k < t->n_transposed; k++) {
        o[t->operand[k]].inner = 1;
        o[t->operand[k]].outer = BLOCK;
    }
    s.operands = o;
    return dv_jit_vec(jit, &s, &t->run, diag);
}

// Creates the transpose kernels of an op whose loops are block loops. *out, in
// the arena, is NULL with DV_OK if the actual memory layout does not permit
// them or no transpose kernel exists.
static dv_status make_transpose(transpose **out, const dv_vec_op *v,
                                const dv_vec_spec *spec, dv_jit *jit,
                                dv_arena *arena, dv_diag *diag)
{
    const int64_t *to = spec->write->coef;
    transpose *t = DV_NEW(arena, transpose, 1);
    *out = NULL;
    if (!t)
        return dv_nomem(diag);
    t->row = v->outer;
    t->col = v->inner;
    list_transposed(t, spec);
    if (!t->n_transposed || to[t->col] != 1 ||
        to[t->row] < widest(spec, t->col))
        return DV_OK;
    dv_status s = make_moves(t, spec, jit, diag);
    if (s == DV_OK && !is_copy(spec))
        s = make_kernel(t, v, jit, arena, diag);
    if (s == DV_E_LIMIT || s == DV_E_DTYPE)
        // If no kernel can be generated, because a stride does not fit into the
        // instruction encodings, the op runs without transposing.
        return DV_OK;
    *out = s ? NULL : t;
    return s;
}

static void set_loops(dv_vec_op *v, const maker *m)
{
    const dv_op *op = m->spec->op;
    for (int i = 0; i < op->n_vars; i++) {
        if (i == v->inner || i == v->outer || (m->points && op->vars[i].reduce))
            continue;
        if (op->vars[i].reduce)
            v->reduced[v->n_reduced++] = i;
        else
            v->written[v->n_written++] = i;
    }
}

// Returns the offset in elements from the first point of a window (a small
// stencil or pooling reduction) to one of its points. Points are numbered with
// the last variable fastest.
static int64_t to_point(const dv_vec_spec *spec, int read, int32_t point)
{
    const dv_op *op = spec->op;
    int last = read == op->n_reads;
    const dv_flat *f = last ? spec->write : &spec->reads[read];
    int64_t off = 0;
    if (!last && spec->points && spec->points[read])
        return spec->points[read][point];
    for (int v = op->n_vars - 1; v >= 0; v--)
        if (op->vars[v].reduce) {
            int64_t n = dv_var_len(op, v);
            off += f->coef[v] * (op->vars[v].begin + point % n);
            point = (int32_t)(point / n);
        }
    return off;
}

static void set_operand(dv_vec_op *v, const maker *m, dv_vec_operand *o, int i,
                        int read, int32_t point)
{
    const dv_vec_spec *spec = m->spec;
    const dv_op *op = spec->op;
    int last = read == op->n_reads;
    const dv_flat *f = last ? spec->write : &spec->reads[read];
    const dv_access *a = last ? &op->write : &op->reads[read];
    dv_dtype t = spec->p->tensors[a->tensor].dtype;
    int64_t es = dv_dtype_get(t)->size_bytes;
    int value = last || !dv_op_is_index(op, read);
    o->dtype = value ? (uint8_t)t : m->shape.compute;
    if (last)
        o->dtype = (uint8_t)stored_type(spec);
    o->inner = v->inner >= 0 ? f->coef[v->inner] : 0;
    o->outer = v->outer >= 0 ? f->coef[v->outer] : 0;
    o->ahead = last || point ? 0 : prefetch_distance(spec, read);
    if (o->ahead)
        v->prefetch |= UINT64_C(1) << read;
    v->read[i] = read;
    v->base[i] = f->base * es;
    if (m->points)
        v->base[i] += to_point(spec, read, point) * es;
    int64_t distance =
        point ? to_point(spec, read, point) - to_point(spec, read, 0) : 0;
    if (point && llabs(distance) <= DV_VEC_MAX_STRIDE) {
        o->lead = (uint16_t)(m->operand_of[read] + 1);
        o->lead_offset = (int32_t)distance;
    }
    if (v->near)
        v->near[i] = *o;
    // A read that boxes are cut for is redirected to a row of border values
    // where it is outside, so it cannot be addressed relative to another point.
    if (spec->edges && !last && a->has_border) {
        o->lead = 0;
        o->lead_offset = 0;
    }
    for (int k = 0; k < op->n_vars; k++)
        v->step[i * op->n_vars + k] =
            m->points && op->vars[k].reduce ? 0 : f->coef[k] * es;
}

// Lists the variables whose values an expression uses, and how it uses reads:
// uses[r] gets bit 0 if read r is loaded in the compute type, and bit 1 if it
// is loaded as an integer (in integer lanes).
static void list_uses(maker *m, const dv_expr *e, int whole, char *uses)
{
    if (e->kind == DV_EXPR_READ)
        uses[e->read] |= (char)(whole ? 2 : 1);
    if (e->kind == DV_EXPR_INDEX && index_number(m, e) == m->n_indices)
        m->indices[m->n_indices++] = e;
    for (int i = 0; i < e->n_args; i++)
        list_uses(m, e->arg[i],
                  has_whole_arg((dv_dtype)m->shape.compute, e, i, whole), uses);
}

static int count_indices(const dv_expr *e)
{
    int n = e->kind == DV_EXPR_INDEX;
    for (int i = 0; i < e->n_args; i++)
        n += count_indices(e->arg[i]);
    return n;
}

// Adds operands for reads that are loaded as integers, and for values of
// variables. Returns 0 if there are too many, or if an indirect read is loaded
// both as an integer and in the compute type.
static int add_operands(dv_vec_op *v, maker *m, dv_vec_operand *o,
                        const char *uses)
{
    const dv_op *op = m->spec->op;
    for (int r = 0; r < op->n_reads; r++) {
        if (!(uses[r] & 2))
            continue;
        int i = uses[r] & 1 ? v->n_operands++ : r;
        if (i != r && dv_access_gathers(op, &op->reads[r]))
            return 0;
        if (i != r)
            set_operand(v, m, &o[i], i, r, 0);
        o[i].as = DV_VEC_AS_WHOLE;
        m->whole_operand[r] = (uint16_t)i;
    }
    m->first_index = v->n_operands;
    for (int k = 0; k < m->n_indices; k++) {
        const dv_expr *e = m->indices[k];
        int i = v->n_operands++, x = e->read;
        o[i] = (dv_vec_operand){.dtype = DV_I8,
                                .as = DV_VEC_AS_INDEX,
                                .inner = x == v->inner,
                                .outer = x == v->outer};
        v->read[i] = INDEX;
        v->base[i] = e->base;
        v->step[i * op->n_vars + x] = 1;
    }
    return v->n_operands < DV_VEC_MAX_OPERANDS;
}

// Creates one operand per read, or, for a window (a small reduction that is
// unrolled), one per read and point; a read that does not depend on the
// window's variables has one operand for all points.
static int set_operands(dv_vec_op *v, maker *m, int *fits)
{
    const dv_op *op = m->spec->op;
    int32_t points = m->points ? m->points : 1, n_reads = op->n_reads;
    uint32_t reduced = dv_all_vars(op) & ~dv_written_vars(op);
    size_t n_indices = (size_t)count_indices(op->body);
    size_t n = (size_t)(points + 1) * (size_t)n_reads + n_indices + 1;
    char *uses = DV_NEW(m->arena, char, n_reads + 1);
    m->whole_operand = DV_NEW(m->arena, uint16_t, n_reads + 1);
    m->indices = DV_NEW(m->arena, const dv_expr *, n_indices + 1);
    dv_vec_operand *o = DV_NEW(m->arena, dv_vec_operand, n);
    m->operand_of = DV_NEW(m->arena, uint16_t, n);
    v->read = DV_NEW(m->arena, int32_t, n);
    v->base = DV_NEW(m->arena, int64_t, n);
    v->step = DV_NEW(m->arena, int64_t, n * (size_t)op->n_vars);
    if (m->spec->edges)
        v->near = DV_NEW(m->arena, dv_vec_operand, n);
    if (!o || !m->operand_of || !v->read || !v->base || !v->step || !uses ||
        !m->whole_operand || !m->indices || (m->spec->edges && !v->near))
        return 0;
    list_uses(m, op->body, 0, uses);
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
    *fits = add_operands(v, m, o, uses);
    set_operand(v, m, &o[v->n_operands], v->n_operands, n_reads, 0);
    m->shape.operands = o;
    m->shape.n_operands = (uint16_t)++v->n_operands;
    for (int32_t i = 0; v->near && i < v->n_operands; i++) {
        dv_vec_operand x = o[i];
        x.lead = v->near[i].lead;
        x.lead_offset = v->near[i].lead_offset;
        v->near[i] = x;
    }
    return 1;
}

// Finds the variable values at which boxes are cut, where reads cross an edge
// of their tensor. *fits is set to 0 if a read with a border does not permit
// it.
static int find_edges(dv_vec_op *v, const maker *m, int *fits)
{
    // Ops with shorter rows copy their operands as whole images, those with
    // longer rows in blocks (stage.h).
    enum { SHORTEST_ROW = 16, LONGEST_ROW = 1 << 20 };
    const dv_op *op = m->spec->op;
    int64_t n = v->inner < 0 ? 1 : dv_var_len(op, v->inner);
    int failed = 0;
    v->edges = dv_edges_create(v->n_operands, m->arena);
    if (!v->edges)
        return 0;
    *fits &= v->reduce == DV_VEC_EACH && !v->guard && n <= LONGEST_ROW &&
             (n >= SHORTEST_ROW || m->spec->as);
    for (int32_t t = 0; t < (m->points ? m->points : 1); t++) {
        int64_t reduced[DV_MAX_VARS];
        int32_t left = t;
        for (int x = op->n_vars - 1; x >= 0; x--)
            if (op->vars[x].reduce && m->points) {
                reduced[x] = op->vars[x].begin + left % dv_var_len(op, x);
                left = (int32_t)(left / dv_var_len(op, x));
            }
        for (int32_t r = 0; r < op->n_reads && *fits; r++) {
            const dv_access *a = &op->reads[r];
            int32_t i = m->operand_of[t * op->n_reads + r];
            if (!a->has_border || (t && i == m->operand_of[r]))
                continue;
            int64_t inner = m->shape.operands[i].inner;
            *fits &= (inner == 0 || inner == 1) &&
                     dv_edges_add(v->edges, i, m->spec->p, op, a, v->inner, n,
                                  reduced, m->arena, &failed);
        }
    }
    return !failed;
}

static void list_indices(dv_vec_op *v, const dv_vec_spec *spec)
{
    const dv_op *op = spec->op;
    const dv_tensor *tensors = spec->p->tensors;
    v->n_indices = 0;
    for (int i = 0; i < op->n_reads; i++) {
        const dv_access *a = &op->reads[i];
        const dv_tensor *t = &tensors[a->tensor];
        int64_t apart = dv_dtype_get(t->dtype)->size_bytes;
        int gathers = dv_access_gathers(op, a);
        for (int d = gathers ? a->n_dims - 1 : -1; d >= 0; d--) {
            int via = a->index[d].via;
            if (via >= 0 && v->indices)
                v->indices[v->n_indices] =
                    (vec_index){i, via, apart * a->index[d].factor,
                                tensors[op->reads[via].tensor].dtype};
            v->n_indices += via >= 0;
            apart *= t->shape[d];
        }
    }
}

static int set_indices(dv_vec_op *v, maker *m)
{
    list_indices(v, m->spec); // the first call only counts the indices
    v->indices = DV_NEW(m->arena, vec_index, v->n_indices);
    if (!v->indices)
        return 0;
    list_indices(v, m->spec);
    const dv_op *op = m->spec->op;
    v->guard = is_indirect(op) ? DV_GUARD_INDICES
               : m->shape.compute == DV_I32 &&
                       dv_vec_op_fit(m->spec->p, op) != DV_FITS_ALL
                   ? DV_GUARD_INT32
                   : DV_GUARD_NONE;
    return 1;
}

// Returns the length of the inner loop at which its next iteration would access
// the same address as the next outer iteration, in all operands; 0: none.
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

// Returns the op from whose extents loops are chosen. A rank computes a part of
// the op in its team's program, so its plan chooses loops from that one.
static dv_vec_spec whole_of(const dv_vec_spec *spec)
{
    dv_vec_spec whole = *spec;
    if (spec->whole_op) {
        whole.p = spec->whole_p;
        whole.op = spec->whole_op;
    }
    return whole;
}

// Finds the extent of the kernel's inner loop at which both of its loops can
// run as one. Fusing the loops of a reduction changes the order of additions,
// so it must also be possible with row-major tensors, not only in the layout of
// this rank or tile.
static int64_t find_fuse(const dv_vec_op *v, const dv_vec_spec *spec)
{
    dv_vec_operand as[DV_VEC_MAX_OPERANDS] = {{0}};
    int64_t n = fuse_length(v->shape.operands, v->n_operands);
    if (v->reduce == DV_VEC_EACH || !n)
        return n;
    if (v->reduce != DV_VEC_BOTH || v->n_operands != spec->op->n_reads + 1)
        return 0;
    dv_vec_spec whole = whole_of(spec);
    for (int i = 0; i < v->n_operands; i++) {
        as[i].inner = access_step(&whole, i, v->inner);
        as[i].outer = access_step(&whole, i, v->outer);
    }
    return fuse_length(as, v->n_operands) == n ? n : 0;
}

// Finds for each variable outside the kernel's loops whether its next value
// continues the inner loop in memory, as rows of a whole image do. Only
// unreduced results qualify, because their bits do not depend on the loops.
static void find_joins(dv_vec_op *v)
{
    if (v->reduce != DV_VEC_EACH || v->inner < 0 || v->n_indices)
        return;
    for (int32_t k = 0; k < v->n_written; k++) {
        dv_vec_operand as[DV_VEC_MAX_OPERANDS] = {{0}};
        for (int32_t i = 0; i < v->n_operands; i++) {
            as[i].inner = v->step[i * v->n_vars + v->inner];
            as[i].outer = v->step[i * v->n_vars + v->written[k]];
        }
        v->join[v->written[k]] = fuse_length(as, v->n_operands);
    }
}

static int strides_fit(const dv_vec_shape *s)
{
    for (int i = 0; i < s->n_operands; i++)
        if (llabs(s->operands[i].inner) > DV_VEC_MAX_STRIDE ||
            llabs(s->operands[i].outer) > DV_VEC_MAX_STRIDE)
            return 0;
    return 1;
}

dv_status dv_vec_op_kernels(dv_vec_op *v, const dv_vec_spec *spec, dv_jit *jit,
                            dv_arena *arena, dv_diag *diag)
{
    int parts = v->reduce && (!spec->whole || v->n_reduced > 0 || v->chunk > 0);
    dv_vec_shape shape = v->shape;
    if (v->call[0][0])
        return DV_OK; // The kernels were generated when the op was created.
    for (int old = 0; old <= parts; old++)
        for (int un = 0; un <= parts; un++) {
            shape.from_acc = (uint8_t)old;
            shape.to_acc = (uint8_t)un;
            DV_TRY(dv_jit_vec(jit, &shape, &v->call[old][un], diag));
        }
    if (v->edges && v->near) {
        shape = v->shape;
        shape.operands = v->near;
        DV_TRY(dv_jit_vec(jit, &shape, &v->inside, diag));
    }
    return v->blocks ? make_transpose(&v->transpose, v, spec, jit, arena, diag)
                     : DV_OK;
}

// Estimates the number of operations of an expression; transcendental functions
// count as many.
static int32_t size_of(const dv_expr *e)
{
    enum { LONG_FN = 200 };
    int is_long = e->kind == DV_EXPR_APPLY && dv_vec_is_long((dv_fn)e->fn);
    int32_t n = is_long ? LONG_FN : 1;
    for (int i = 0; i < e->n_args; i++)
        n += size_of(e->arg[i]);
    return n;
}

// Returns whether an expression uses values of variables, or may mix integer
// lanes with float lanes.
static int is_mixed(const maker *m, const dv_expr *e)
{
    int mixed =
        e->kind == DV_EXPR_INDEX ||
        (dv_expr_is_test(e) &&
         dv_op_compute(m->spec->p, m->spec->op) != DV_IN_I64) ||
        (dv_expr_applies(e, DV_FN_SELECT) && dv_expr_is_condition(e->arg[0]));
    for (int i = 0; i < e->n_args && !mixed; i++)
        mixed = is_mixed(m, e->arg[i]);
    return mixed;
}

// Returns the number of points of the op's window (a small reduction that is
// unrolled) if the unrolled expression is within the limits below; 0: the op
// has no window or exceeds a limit.
static int64_t points_of(const maker *m)
{
    enum { MOST_NODES = 320, MOST_READS = 128 };
    const dv_op *op = m->spec->op;
    int64_t n = m->spec->whole && !is_mixed(m, op->body)
                    ? dv_op_window(m->spec->p, op)
                    : 0;
    int32_t reads = 0, size = n ? size_of(dv_op_reduce(op)->arg[0]) : 0;
    for (int i = 0; i < op->n_reads; i++)
        reads +=
            (dv_access_vars(op, &op->reads[i]) & ~dv_written_vars(op)) != 0;
    return n * reads <= MOST_READS && n * size <= MOST_NODES ? n : 0;
}

// Chooses the loops of the kernel, or takes those of the plan.
static void choose_loops(dv_vec_op *v, maker *m)
{
    dv_vec_spec spec = whole_of(m->spec);
    maker whole = {.spec = &spec};
    const dv_op *op = spec.op;
    const dv_op_schedule *as = spec.as;
    whole.points = m->points = (int32_t)points_of(&whole);
    if (as) {
        m->points = as->window ? m->points : 0;
        v->blocks = as->transpose;
        v->inner = as->inner;
        v->outer = as->outer;
        return;
    }
    v->blocks =
        !dv_op_gathers(op) && find_block_loops(&spec, &v->outer, &v->inner);
    if (!v->blocks) {
        v->inner = pick_inner(&whole);
        v->outer = pick_outer(&whole, v->inner);
    }
    // If the op is a reduction but neither loop of the kernel is reduced,
    // because all reduced variables have one value, use an outer loop of one
    // iteration.
    if (!m->points && v->outer >= 0 && !op->vars[v->outer].reduce &&
        kind_of(op, v->inner, v->outer) == DV_VEC_OUTER)
        v->outer = -1;
}

// Returns 1 if a kernel can have these loops. An op with indirect reads and no
// loop reads single elements, which is left to the interpreter.
static int loops_possible(const dv_vec_op *v, const maker *m)
{
    const dv_op *op = m->spec->op;
    dv_vec_spec whole = whole_of(m->spec);
    int32_t row, col;
    // Blocks with transposed reads cover a box in steps that know no edges.
    if (v->blocks && (m->spec->edges || dv_op_gathers(op) || m->points ||
                      !find_block_loops(&whole, &row, &col) ||
                      row != v->outer || col != v->inner))
        return 0;
    if ((v->inner >= 0 && !may_loop(m, v->inner)) ||
        (v->outer >= 0 && !may_loop(m, v->outer)) ||
        (v->inner >= 0 && v->inner == v->outer))
        return 0;
    // A kernel with two loops that runs a reduction must reduce in at least one
    // of them.
    if (!m->points && dv_op_reduce(op) && v->outer >= 0 &&
        !op->vars[v->outer].reduce &&
        !(v->inner >= 0 && op->vars[v->inner].reduce))
        return 0;
    return v->inner >= 0 || !dv_op_gathers(op);
}

static dv_status make(dv_vec_op **out, maker *m, dv_jit *jit, dv_diag *diag)
{
    enum { SHORT = 1000 };
    const dv_op *op = m->spec->op;
    const dv_op *whole = m->spec->whole_op ? m->spec->whole_op : op;
    const dv_expr *r = dv_op_reduce(op);
    dv_vec_op *v = DV_NEW(m->arena, dv_vec_op, 1);
    if (!v)
        return dv_nomem(diag);
    v->n_vars = op->n_vars;
    choose_loops(v, m);
    if (!loops_possible(v, m))
        return DV_OK;
    v->window = m->points;
    v->reduce =
        m->points ? DV_VEC_EACH : (uint8_t)kind_of(op, v->inner, v->outer);
    v->acc_bytes = m->shape.compute == DV_F64 ? 8 : 4;
    set_loops(v, m);
    int fits = 1;
    if (!set_indices(v, m) || !set_operands(v, m, &fits) ||
        (m->spec->edges && fits && !find_edges(v, m, &fits)))
        return dv_nomem(diag);
    if (!fits)
        return DV_OK;
    m->shape.reduce = v->reduce;
    m->shape.reducer = !r || r->fn == DV_RED_MEAN ? DV_RED_SUM : r->fn;
    m->shape.result = node_of(m, op->body, 0);
    m->shape.nodes = m->nodes;
    m->shape.n_nodes = (uint16_t)m->n;
    if (m->failed)
        return dv_nomem(diag);
    if (m->too_much || !strides_fit(&m->shape))
        return DV_OK;
    if (m->spec->as)
        v->chunk = v->reduce == DV_VEC_OUTER ? m->spec->as->chunk : 0;
    else if (v->reduce == DV_VEC_OUTER && v->outer >= 0 && v->inner >= 0 &&
             dv_var_len(whole, v->outer) > LONG &&
             dv_var_len(whole, v->inner) >= WIDE)
        v->chunk = CHUNK;
    v->shape = m->shape;
    // The kernel's two loops may not run as one if the plan's schedule lacks
    // the mark `collapse`, or if operands are copies or cut boxes, whose
    // strides differ from those of the tensors.
    int apart = m->spec->staged || m->spec->edges ||
                (m->spec->as && !m->spec->as->collapse);
    v->fuse = apart ? 0 : find_fuse(v, m->spec);
    if (!m->spec->edges)
        find_joins(v);
    // If the expression is long, the kernels are generated even if the caller
    // wants them later, because only that shows whether they exceed the size
    // limit.
    if (!m->spec->later || size_of(op->body) > SHORT)
        DV_TRY(dv_vec_op_kernels(v, m->spec, jit, m->arena, diag));
    *out = v;
    return DV_OK;
}

dv_status dv_vec_op_create(dv_vec_op **out, const dv_vec_spec *spec,
                           dv_jit *jit, dv_arena *arena, dv_diag *diag)
{
    dv_dtype compute;
    *out = NULL;
    if (!possible(spec, dv_jit_isa(jit), &compute))
        return DV_OK;
    maker start = {.spec = spec, .arena = arena};
    start.shape.compute = (uint8_t)compute;
    maker m = start;
    dv_status s = make(out, &m, jit, NULL);
    // If the kernel would be too long (DV_E_LIMIT), the op runs in the
    // interpreter, which is no error.
    if (s == DV_OK || s == DV_E_LIMIT)
        return DV_OK;
    // The call above was made without `diag`; it is repeated to record its
    // error message.
    m = start;
    return make(out, &m, jit, diag);
}

int dv_vec_op_is_cut(const dv_vec_op *v)
{
    return v->edges != NULL;
}

dv_guard dv_vec_op_guard(const dv_vec_op *v)
{
    return v->guard;
}

void dv_vec_op_describe(const dv_vec_op *v, dv_op_schedule *out)
{
    out->guard = v->guard;
    out->inner = v->inner;
    out->outer = v->outer;
    out->chunk = v->chunk;
    out->collapse = v->fuse;
    out->window = v->window;
    out->edges = dv_vec_op_is_cut(v);
    out->transpose = v->blocks;
    out->prefetch = v->prefetch;
}

void dv_vec_op_get_kernel(const dv_vec_op *v, dv_vec_op_kernel *out)
{
    *out = (dv_vec_op_kernel){
        &v->shape, v->inner, v->outer, v->reduce, v->call[NEW_ACC][FINISHED],
        v->read,   v->base,  v->step};
}

int64_t dv_vec_op_acc_bytes(const dv_vec_op *v)
{
    return v->acc_bytes;
}

void dv_vec_op_add(const dv_vec_op *v, const dv_kernel *k, void *acc,
                   const void *x, int64_t n)
{
    int32_t *to = acc;
    const int32_t *from = x;
    if (v->shape.compute != DV_I32) {
        dv_strips_add(k, acc, x, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint32_t a = (uint32_t)to[i], b = (uint32_t)from[i];
        switch ((dv_reducer)v->shape.reducer) {
        case DV_RED_SUM:
        case DV_RED_MEAN:
            to[i] = (int32_t)(a + b);
            break;
        case DV_RED_PROD:
            to[i] = (int32_t)(a * b);
            break;
        case DV_RED_MAX:
            to[i] = from[i] > to[i] ? from[i] : to[i];
            break;
        case DV_RED_MIN:
            to[i] = from[i] < to[i] ? from[i] : to[i];
            break;
        }
    }
}

void dv_vec_op_acc_strides(const dv_vec_op *v, const int64_t *begin,
                           const int64_t *end, int64_t *steps)
{
    int32_t along = v->reduce == DV_VEC_OUTER   ? v->inner
                    : v->reduce == DV_VEC_INNER ? v->outer
                                                : -1;
    int64_t n = 1;
    for (int k = 0; k < v->n_vars; k++)
        steps[k] = 0;
    if (along >= 0) {
        steps[along] = 1;
        n = end[along] - begin[along];
    }
    for (int k = v->n_written - 1; k >= 0; k--) {
        int32_t x = v->written[k];
        steps[x] = n;
        n *= end[x] - begin[x];
    }
}

typedef struct runner {
    const dv_vec_op *v;
    const int64_t *begin, *end;
    int64_t point[DV_MAX_VARS];
    int64_t rows, n;
    int32_t n_written; // of v->written, those that are loops around the kernel
    char *at[DV_VEC_MAX_OPERANDS];
} runner;

// Returns p plus `by` bytes, in integer arithmetic: operands that are values of
// variables are passed as addresses, which point nowhere.
static char *moved(const char *p, int64_t by)
{
    return (char *)((uintptr_t)p + (uintptr_t)by);
}

static void advance(runner *r, int var, int64_t by)
{
    const dv_vec_op *v = r->v;
    for (int i = 0; i < v->n_operands; i++)
        r->at[i] = moved(r->at[i], by * v->step[i * v->n_vars + var]);
}

// Advances the current point to the next value of the given variables, the last
// variable fastest. After the last point, resets it to the first and returns 0.
static int next_point(runner *r, const int32_t *vars, int n)
{
    for (int k = n - 1; k >= 0; k--) {
        int x = vars[k];
        if (++r->point[x] < r->end[x]) {
            advance(r, x, 1);
            return 1;
        }
        advance(r, x, r->begin[x] - r->end[x] + 1);
        r->point[x] = r->begin[x];
    }
    return 0;
}

// Returns the address of an operand, including its indirect index, at the
// current point or, if `next` is 1, at the next point along `var`.
static char *found_at(const runner *r, int32_t operand, int var, int next)
{
    const dv_vec_op *v = r->v;
    char *p = r->at[operand] + next * v->step[operand * v->n_vars + var];
    for (int i = 0; i < v->n_indices; i++) {
        const vec_index *x = &v->indices[i];
        const char *at =
            r->at[x->via] + next * v->step[x->via * v->n_vars + var];
        if (x->operand == operand)
            p += dv_index_at(x->dtype, at, 0) * x->apart;
    }
    return p;
}

// Prefetches the next row of an indirect read while the current one is
// computed, because the hardware prefetcher cannot predict an address that
// comes from an index.
static void prefetch_next(const runner *r, const int32_t *vars, int n)
{
    enum { LINE = 64, MOST_LINES = 32 };
    const dv_vec_op *v = r->v;
    int x = n ? vars[n - 1] : -1;
    if (!n || r->point[x] + 1 >= r->end[x])
        return;
    for (int i = 0; i < v->n_indices; i++) {
        int32_t o = v->indices[i].operand;
        int64_t bytes = r->n * v->step[o * v->n_vars + v->inner];
        const char *p = found_at(r, o, x, 1);
        for (int k = 0; k < MOST_LINES && k * LINE < bytes; k++)
            __builtin_prefetch(p + k * LINE, 0, 3);
    }
}

// Returns the arguments of a kernel call for `rows` by `n` elements from the
// current addresses, and stores the operands' addresses in `at`.
static dv_vec_args args_for(const runner *r, int64_t rows, int64_t n, void *acc,
                            void **at)
{
    const dv_vec_op *v = r->v;
    for (int i = 0; i < v->n_operands; i++)
        at[i] = r->at[i];
    for (int i = 0; i < v->n_indices; i++)
        at[v->indices[i].operand] = found_at(r, v->indices[i].operand, 0, 0);
    if (v->fuse && n == v->fuse) {
        n *= rows;
        rows = 1;
    }
    return (dv_vec_args){rows, n, at, acc};
}

// Reduces over the reduced variables outside the kernel, for `rows` by `n`
// elements from the current addresses, in calls of at most v->chunk rows. The
// accumulators `acc` are new if `old` is NEW_ACC and hold earlier partial
// results if it is OLD_ACC. The last call computes the results if `un` is
// FINISHED, and leaves partial results in `acc` if it is UNFINISHED.
static void reduce(runner *r, int old, int un, int64_t rows, int64_t n,
                   void *acc)
{
    const dv_vec_op *v = r->v;
    void *at[DV_VEC_MAX_OPERANDS];
    int64_t left = 1, chunk = v->chunk ? dv_min_i64(v->chunk, rows) : rows;
    for (int k = 0; k < v->n_reduced; k++)
        left *= r->end[v->reduced[k]] - r->begin[v->reduced[k]];
    do {
        left--;
        if (v->n_indices)
            prefetch_next(r, v->reduced, v->n_reduced);
        for (int64_t i = 0; i < rows; i += chunk) {
            int64_t now = dv_min_i64(chunk, rows - i);
            int last = left == 0 && i + now == rows;
            dv_vec_args args = args_for(r, now, n, acc, at);
            v->call[old][last ? un : UNFINISHED](&args);
            old = OLD_ACC;
            if (now < rows)
                advance(r, v->outer, now);
        }
        if (chunk < rows)
            advance(r, v->outer, -rows);
    } while (next_point(r, v->reduced, v->n_reduced));
}

// Returns the address of an operand at the point `begin`.
static char *operand_at(const dv_vec_op *v, void *const *at,
                        const int64_t *begin, int32_t operand)
{
    int32_t read = v->read[operand];
    char *p = moved(read == INDEX ? NULL : at[read], v->base[operand]);
    for (int k = 0; k < v->n_vars; k++)
        p = moved(p, begin[k] * v->step[operand * v->n_vars + k]);
    return p;
}

static void set_out(runner *r, const dv_vec_op *v, void *const *at,
                    const int64_t *begin, const int64_t *end)
{
    r->v = v;
    r->begin = begin;
    r->end = end;
    r->rows = v->outer < 0 ? 1 : end[v->outer] - begin[v->outer];
    r->n = v->inner < 0 ? 1 : end[v->inner] - begin[v->inner];
    for (r->n_written = v->n_written; r->n_written > 0; r->n_written--) {
        int32_t x = v->written[r->n_written - 1];
        if (v->join[x] != r->n)
            break;
        r->n *= end[x] - begin[x];
    }
    for (int k = 0; k < v->n_vars; k++)
        r->point[k] = begin[k];
    for (int i = 0; i < v->n_operands; i++)
        r->at[i] = operand_at(v, at, begin, i);
}

// Runs the op on a box of its variables without transposing any read. If a
// result takes several kernel calls, accumulators are on the stack, for SCRATCH
// results at a time.
static void run_plain(const dv_vec_op *v, void *const *at, const int64_t *begin,
                      const int64_t *end)
{
    runner r;
    _Alignas(64) double scratch[SCRATCH]; // vectors do not cross cache lines
    void *operands[DV_VEC_MAX_OPERANDS];
    set_out(&r, v, at, begin, end);
    int outer = v->reduce == DV_VEC_OUTER, both = v->reduce == DV_VEC_BOTH;
    int several = v->n_reduced || (v->chunk && r.rows > v->chunk);
    int var = outer ? v->inner : v->outer;
    int64_t all = outer ? r.n : both ? 1 : r.rows;
    do {
        if (v->n_indices)
            prefetch_next(&r, v->written, r.n_written);
        if (!several) {
            dv_vec_args args = args_for(&r, r.rows, r.n, NULL, operands);
            v->call[NEW_ACC][FINISHED](&args);
            continue;
        }
        for (int64_t from = 0, n; from < all; from += n) {
            n = dv_min_i64(all - from, SCRATCH);
            reduce(&r, NEW_ACC, FINISHED, outer || both ? r.rows : n,
                   outer ? n : r.n, scratch);
            if (all > SCRATCH)
                advance(&r, var, n);
        }
        if (all > SCRATCH)
            advance(&r, var, -all);
    } while (next_point(&r, v->written, r.n_written));
}

// Runs a piece of a box in which every read is entirely inside or outside of
// its tensor. Reads outside get a row of border values, which has the length of
// the inner loop; with such reads, the kernel is therefore called for each row.
static void run_piece(const dv_vec_op *v, void *const *at, const int64_t *begin,
                      const int64_t *end)
{
    runner r;
    int32_t outside[DV_VEC_MAX_OPERANDS], loops[DV_MAX_VARS];
    void *rows[DV_VEC_MAX_OPERANDS], *operands[DV_VEC_MAX_OPERANDS];
    set_out(&r, v, at, begin, end);
    int32_t n = dv_edges_outside(v->edges, begin, outside, rows);
    int32_t n_loops = v->n_written;
    memcpy(loops, v->written, (size_t)n_loops * sizeof *loops);
    if (n && v->outer >= 0) {
        loops[n_loops++] = v->outer;
        r.rows = 1;
    }
    do {
        dv_vec_args args = args_for(&r, r.rows, r.n, NULL, operands);
        for (int32_t i = 0; i < n; i++)
            operands[outside[i]] = rows[i];
        (n ? v->call[NEW_ACC][FINISHED] : v->inside)(&args);
    } while (next_point(&r, loops, n_loops));
}

// Runs the op on a box, cut where reads cross the edges of their tensors.
static void run_pieces(const dv_vec_op *v, void *const *at,
                       const int64_t *begin, const int64_t *end)
{
    int64_t from[DV_MAX_VARS], to[DV_MAX_VARS];
    uint32_t vars = dv_edges_vars(v->edges);
    int k;
    memcpy(from, begin, (size_t)v->n_vars * sizeof *from);
    do {
        for (k = 0; k < v->n_vars; k++)
            to[k] = vars >> k & 1 ? dv_edges_cut(v->edges, k, from[k], end[k])
                                  : end[k];
        run_piece(v, at, from, to);
        for (k = v->n_vars - 1; k >= 0; k--) {
            from[k] = to[k];
            if (from[k] < end[k])
                break;
            from[k] = begin[k];
        }
    } while (k >= 0);
}

typedef struct block_runner {
    const transpose *t;
    const dv_vec_op *v;
    void *const *at;
    // Ranges of the variables in the current block.
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
} block_runner;

static int find_size(int64_t left)
{
    return left >= BLOCK ? 0 : left >= SMALL ? 1 : -1;
}

// Computes one block, whose reads are transposed first. `rows` and `cols`
// select the length of each side: 0 is a full block, 1 the small one for edges.
static void run_block(const block_runner *r, int rows, int cols)
{
    const transpose *t = r->t;
    int32_t n = r->v->n_operands;
    _Alignas(64) unsigned char buffer[MOST_TRANSPOSED][BLOCK_BYTES];
    void *at[DV_VEC_MAX_OPERANDS];
    if (!t->run) {
        t->move[0][rows][cols](operand_at(r->v, r->at, r->begin, t->operand[0]),
                               operand_at(r->v, r->at, r->begin, n - 1));
        return;
    }
    for (int32_t i = 0; i < n; i++)
        at[i] = operand_at(r->v, r->at, r->begin, i);
    for (int k = 0; k < t->n_transposed; k++) {
        int32_t i = t->operand[k];
        t->move[k][rows][cols](at[i], buffer[k]);
        at[i] = buffer[k];
    }
    t->run(&(dv_vec_args){sizes[rows], sizes[cols], at, NULL});
}

// Advances to the next point of the variables other than row and col. Returns 0
// after the last one.
static int next_outer_point(block_runner *r, const int64_t *begin,
                            const int64_t *end)
{
    for (int k = r->v->n_vars - 1; k >= 0; k--) {
        if (k == r->t->row || k == r->t->col)
            continue;
        r->begin[k]++;
        r->end[k]++;
        if (r->begin[k] < end[k])
            return 1;
        r->begin[k] = begin[k];
        r->end[k] = begin[k] + 1;
    }
    return 0;
}

// Runs the op on a box in blocks whose reads are transposed; the edges that are
// too small for a block run without transposing.
static void run_blocks(const transpose *t, const dv_vec_op *v, void *const *at,
                       const int64_t *begin, const int64_t *end)
{
    block_runner r = {.t = t, .v = v, .at = at};
    int row = t->row, col = t->col;
    for (int k = 0; k < v->n_vars; k++) {
        r.begin[k] = begin[k];
        r.end[k] = begin[k] + 1;
    }
    do {
        r.end[row] = begin[row];
        while ((r.begin[row] = r.end[row]) < end[row]) {
            int rows = find_size(end[row] - r.begin[row]);
            r.end[row] = rows < 0 ? end[row] : r.begin[row] + sizes[rows];
            r.end[col] = begin[col];
            while ((r.begin[col] = r.end[col]) < end[col]) {
                int cols = rows < 0 ? -1 : find_size(end[col] - r.begin[col]);
                r.end[col] = cols < 0 ? end[col] : r.begin[col] + sizes[cols];
                if (cols < 0)
                    run_plain(v, at, r.begin, r.end);
                else
                    run_block(&r, rows, cols);
            }
        }
    } while (next_outer_point(&r, begin, end));
}

void dv_vec_op_run(const dv_vec_op *v, void *const *at, const int64_t *begin,
                   const int64_t *end)
{
    if (v->transpose)
        run_blocks(v->transpose, v, at, begin, end);
    else if (v->edges)
        run_pieces(v, at, begin, end);
    else
        run_plain(v, at, begin, end);
}

void dv_vec_op_part(const dv_vec_op *v, void *const *at, const int64_t *begin,
                    const int64_t *end, int part, void *acc)
{
    runner r;
    set_out(&r, v, at, begin, end);
    int outer = v->reduce == DV_VEC_OUTER, both = v->reduce == DV_VEC_BOTH;
    int64_t each = outer ? r.n : both ? 1 : r.rows;
    void *operands[DV_VEC_MAX_OPERANDS];
    char *to = acc;
    do {
        if (part == DV_FINISH) {
            // Run the epilogue alone: the reduced loops get no iterations.
            dv_vec_args args = args_for(&r,
                                        outer  ? 0
                                        : both ? 1
                                               : r.rows,
                                        outer ? r.n : 0, to, operands);
            v->call[OLD_ACC][FINISHED](&args);
        } else {
            reduce(&r, part == DV_FIRST_PART ? NEW_ACC : OLD_ACC, UNFINISHED,
                   r.rows, r.n, to);
        }
        to += each * v->acc_bytes;
    } while (next_point(&r, v->written, v->n_written));
}
