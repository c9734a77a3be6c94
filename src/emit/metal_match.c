// Determines what a group (ops that share one tile space) computes in terms of
// tiles: the plane of two variables whose tiles are computed, how every operand
// lies in that plane, and when the operand is needed.
//
//   y[m,n] = relu(a[m,n] + b[n])             plane (m,n); a plain, b a row
//   y[m] = max[k] exp(x[m,k] - r[m])         plane (m,k), reduced along rows;
//                                            r is stored as a row and
//                                            transposed into a column
//   y[m,n] = sum[k] a[m,k] * b[k,n] + c[m]   a product; c like r, after the sum
//   y[m,n] = sum[k] a[k,m] * b[k,n]          a product; tiles of a are
//                                            transposed
#include "emit/emit.h"
#include "base/math.h"
#include <inttypes.h>
#include <math.h>

#define NO(...) return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE, __VA_ARGS__)

int dv_expr_has_reduce(const dv_expr *e)
{
    if (e->kind == DV_EXPR_REDUCE)
        return 1;
    for (int i = 0; e->kind == DV_EXPR_APPLY && i < e->n_args; i++)
        if (dv_expr_has_reduce(e->arg[i]))
            return 1;
    return 0;
}

// Returns whether an expression contains the op's read number `read`, not
// counting the argument of a reduction.
static int reads(const dv_expr *e, int32_t read)
{
    if (e->kind == DV_EXPR_READ)
        return e->read == read;
    for (int i = 0; e->kind == DV_EXPR_APPLY && i < e->n_args; i++)
        if (reads(e->arg[i], read))
            return 1;
    return 0;
}

static int in_sum(const dv_op *op, int32_t read)
{
    const dv_expr *r = dv_op_reduce(op);
    return r && reads(r->arg[0], read);
}

// Returns the number of tile registers needed to compute e, in addition to
// register 0, which holds the sum.
// Arguments are computed one after another. Each that does not contain the sum
// keeps its register while the following ones are computed.
static int registers_of(const dv_expr *e)
{
    int most = 1, held = 0;
    if (e->kind == DV_EXPR_REDUCE)
        return 0;
    if (e->kind != DV_EXPR_APPLY)
        return 1;
    for (int i = 0; i < e->n_args; i++) {
        int n = registers_of(e->arg[i]);
        int sum = dv_expr_has_reduce(e->arg[i]);
        most = n + (sum ? 0 : held) > most ? n + (sum ? 0 : held) : most;
        held += !sum;
    }
    return most;
}

// Evaluates an expression with all reads equal to 0, to find out whether the
// result is 0 for zero padding. If the value is not known, returns 1, which
// counts as not 0.
static double eval_at_zero(const dv_expr *e)
{
    double a[3] = {0};
    if (e->kind == DV_EXPR_CONST)
        return e->value;
    if (e->kind != DV_EXPR_APPLY)
        return 0;
    for (int i = 0; i < e->n_args; i++)
        a[i] = eval_at_zero(e->arg[i]);
    double v = dv_fn_apply((dv_fn)e->fn, a[0], a[1], a[2]);
    return isnan(v) ? 1 : v;
}

static int has_many_values(const dv_op *op, int v)
{
    return dv_var_len(op, v) > 1;
}

// Returns the variable that alone indexes dim d; -1 if the index is 0 or its
// variable has one value, -2 for any other index.
static int var_of(const dv_op *op, const dv_access *a, int d)
{
    int v;
    if (d < 0)
        return -1;
    const dv_index *x = &a->index[d];
    if (dv_index_is_var(op, x, &v))
        return has_many_values(op, v) ? v : -1;
    return v == DV_CONSTANT && x->base == 0 ? -1 : -2;
}

static int lay_of(emit_plane p, int row, int col)
{
    if (row == p.row && col == p.col)
        return LAY_PLAIN;
    if (row == p.col && col == p.row)
        return LAY_TRANSPOSED;
    if (row < 0 && col < 0)
        return LAY_SCALAR;
    if (row < 0 && col == p.col)
        return LAY_ROW;
    if (col < 0 && row == p.row)
        return LAY_COL;
    if (row < 0 && col == p.row)
        return LAY_TO_COL;
    if (col < 0 && row == p.col)
        return LAY_TO_ROW;
    return -1;
}

// Returns the kernel loop that steps through the tiles of a variable: 'm' and
// 'n' for rows and columns of the result, 'k' for the reduction, 'p' for its
// rows if rows and columns are reduced; 0 if none.
static char loop_of(const emit_kernel *k, int v)
{
    return v < 0                   ? 0
           : k->op->vars[v].reduce ? v == k->plane.row && k->plane.col >= 0 &&
                                             k->op->vars[k->plane.col].reduce
                                         ? 'p'
                                         : 'k'
           : v == k->out.row       ? 'm'
           : v == k->out.col       ? 'n'
                                   : 0;
}

// Returns the leading (batch) dim of the result that variable v indexes; -1 if
// none.
static int batch_dim(const dv_op *op, int v)
{
    for (int d = 0; d < op->write.n_dims - 2; d++) {
        int w;
        if (dv_index_is_var(op, &op->write.index[d], &w) && w == v)
            return d;
    }
    return -1;
}

static int is_tile_type(dv_dtype t)
{
    return t == DV_F32 || t == DV_BF16 || t == DV_F16;
}

static dv_status lay_out(const emitter *e, emit_kernel *k, emit_plane plane,
                         int32_t read, int after)
{
    const dv_access *a = &k->op->reads[read];
    const dv_tensor *t = &e->p->tensors[a->tensor];
    int n = a->n_dims, row = var_of(k->op, a, n - 2);
    int col = var_of(k->op, a, n - 1), lay;
    for (int d = 0; d < n; d++) {
        int v = var_of(k->op, a, d);
        if (v == -2 || (v >= 0 && (k->op->vars[v].begin != 0 ||
                                   k->op->vars[v].end != t->shape[d])))
            NO("%s has no kernel: it reads %s at other than whole dims",
               k->op->name, t->name);
        if (v < 0 && t->shape[d] > 1)
            NO("%s has no kernel: it reads one place of dim %d of %s, which "
               "has %" PRId64,
               k->op->name, d, t->name, t->shape[d]);
    }
    if (!is_tile_type(t->dtype))
        NO("%s has no kernel: %s is %s, tiles are f32, bf16 or f16",
           k->op->name, t->name, dv_dtype_get(t->dtype)->name);
    lay = lay_of(plane, row, col);
    if (lay < 0)
        NO("%s has no kernel: tiles of %s lie neither along nor across those "
           "it computes",
           k->op->name, t->name);
    if (k->n_in == EMIT_MAX_OPERANDS)
        NO("%s has no kernel: it reads more than %d operands", k->op->name,
           (int)EMIT_MAX_OPERANDS);
    emit_operand *o = &k->in[k->n_in++];
    *o = (emit_operand){.read = read, .tensor = a->tensor};
    o->lay = (emit_layout)lay;
    o->row = loop_of(k, row);
    o->col = loop_of(k, col);
    o->rows = n > 1 ? dv_ceil_div(t->shape[n - 2], 32) : 1;
    o->cols = n > 0 ? dv_ceil_div(t->shape[n - 1], 32) : 1;
    o->stage = after                                             ? STAGE_AFTER
               : o->row == 'k' || o->row == 'p' || o->col == 'k' ? STAGE_STEP
                                                                 : STAGE_BEFORE;
    for (int d = 0; d < n - 2; d++) {
        int v = var_of(k->op, a, d), w = v < 0 ? -1 : batch_dim(k->op, v);
        if (v >= 0 && w < 0)
            NO("%s has no kernel: dim %d of %s is neither of its tiles nor a "
               "batch of the result",
               k->op->name, d, t->name);
        if (w >= 0)
            o->batch[o->n_batch++] = w;
    }
    return DV_OK;
}

static int needs_transpose(const emit_operand *o)
{
    return o->lay == LAY_TO_COL || o->lay == LAY_TO_ROW;
}

// Returns whether the reduction is a matrix product of two reads; if so, sets
// up both operands.
static int match_product(const emitter *e, emit_kernel *k)
{
    const dv_expr *x = k->reduce->arg[0];
    int depth = -1, many = 0;
    for (int v = 0; v < k->op->n_vars; v++)
        if (k->op->vars[v].reduce && has_many_values(k->op, v))
            depth = v, many++;
    if (k->reduce->fn != DV_RED_SUM || !dv_expr_is_product(x) || many > 1)
        return 0;
    emit_plane a = {k->out.row, depth}, b = {depth, k->out.col};
    // Try both orders of the factors with the left one stored as rows x k;
    // then, if the result is a matrix, with the left one stored transposed.
    int ways = k->out.row >= 0 && k->out.col >= 0 ? 4 : 2;
    for (int way = 0; way < ways; way++) {
        int turn = way % 2;
        int32_t left = x->arg[turn]->read, right = x->arg[!turn]->read;
        const emitter quiet = {.plan = e->plan, .p = e->p};
        k->n_in = 0;
        if (lay_out(&quiet, k, a, left, 0) == DV_OK &&
            k->in[0].lay == (way < 2 ? LAY_PLAIN : LAY_TRANSPOSED) &&
            lay_out(&quiet, k, b, right, 0) == DV_OK &&
            k->in[1].lay <= LAY_TRANSPOSED) {
            // Set explicitly: if the summed dimension is a single step, no
            // variable shows that the operands are needed in every step.
            k->in[0].stage = k->in[1].stage = STAGE_STEP;
            return 1;
        }
    }
    k->n_in = 0;
    return 0;
}

// Finds the two variables that index the rows and columns of the tiles to be
// reduced: a variable of the result and the reduction variable, in the order of
// the first read that has both; or two reduction variables. Returns 0 if there
// are none.
static int find_plane(emit_kernel *k)
{
    const dv_op *op = k->op;
    int depth[2] = {-1, -1}, n = 0;
    for (int v = 0; v < op->n_vars; v++)
        if (op->vars[v].reduce && has_many_values(op, v)) {
            if (n == 2)
                return 0;
            depth[n++] = v;
        }
    if (n == 2 || (k->out.row < 0 && k->out.col < 0)) {
        k->plane = n == 2 ? (emit_plane){depth[0], depth[1]}
                          : (emit_plane){-1, depth[0]};
        return k->out.row < 0 && k->out.col < 0;
    }
    if (k->out.row >= 0 && k->out.col >= 0)
        return 0;
    int kept = k->out.row >= 0 ? k->out.row : k->out.col;
    k->plane = (emit_plane){kept, depth[0]};
    for (int32_t r = 0; r < op->n_reads; r++) {
        const dv_access *a = &op->reads[r];
        int d = a->n_dims;
        if (in_sum(op, r) && var_of(op, a, d - 1) == kept &&
            var_of(op, a, d - 2) == depth[0] && depth[0] >= 0)
            k->plane = (emit_plane){depth[0], kept};
        if (in_sum(op, r) && var_of(op, a, d - 1) >= 0 &&
            var_of(op, a, d - 2) >= 0)
            break;
    }
    return 1;
}

static dv_status match_reduce(const emitter *e, emit_kernel *k)
{
    if (k->reduce->fn == DV_RED_PROD)
        NO("%s has no kernel: there is no product over the elements of a tile",
           k->op->name);
    if (!find_plane(k))
        NO("%s has no kernel: rows of its tiles come from different matrices; "
           "sums over rows, columns or all of a matrix have kernels",
           k->op->name);
    int64_t tiles[2] = {1, 1};
    int v[2] = {k->plane.row, k->plane.col};
    for (int i = 0; i < 2; i++)
        if (v[i] >= 0 && k->op->vars[v[i]].reduce)
            tiles[i] = dv_ceil_div(k->op->vars[v[i]].end, 32);
    k->steps = tiles[0] * tiles[1];
    k->step_cols = tiles[1];
    for (int i = 0; i < 2; i++)
        k->edge_in[i] = v[i] < 0 ? 1 : (k->op->vars[v[i]].end - 1) % 32 + 1;
    for (int32_t r = 0; r < k->op->n_reads; r++)
        if (in_sum(k->op, r))
            DV_TRY(lay_out(e, k, k->plane, r, 0));
    for (int i = 0; i < k->n_in; i++)
        if (needs_transpose(&k->in[i]) && k->in[i].stage == STAGE_STEP)
            NO("%s has no kernel: %s would have to be transposed in every step",
               k->op->name, e->p->tensors[k->in[i].tensor].name);
    return DV_OK;
}

// Returns whether an expression is 0 in the padding of its last tiles: its
// operands are 0 there (broadcast ones are not) and it maps zeros to 0.
static int keeps_zeros(const emit_kernel *k, const dv_expr *x, emit_stage first,
                       emit_stage last)
{
    for (int i = 0; i < k->n_in; i++)
        if (k->in[i].stage >= first && k->in[i].stage <= last &&
            k->in[i].lay > LAY_TRANSPOSED)
            return 0;
    return eval_at_zero(x) == 0;
}

static void find_edges(const emitter *e, emit_kernel *k)
{
    const dv_tensor *t = &e->p->tensors[k->g->tensor];
    int n = t->n_dims;
    k->edge[0] = n > 1 ? (t->shape[n - 2] - 1) % 32 + 1 : 1;
    k->edge[1] = n > 0 ? (t->shape[n - 1] - 1) % 32 + 1 : 1;
    int whole = k->edge[0] == 32 && k->edge[1] == 32;
    k->mask_out =
        !whole && (k->shape == EMIT_REDUCE ||
                   !keeps_zeros(k, k->op->body, STAGE_AFTER, STAGE_AFTER));
    if (k->shape != EMIT_REDUCE)
        return;
    int sums = k->reduce->fn == DV_RED_SUM || k->reduce->fn == DV_RED_MEAN;
    whole = k->edge_in[0] == 32 && k->edge_in[1] == 32;
    k->mask_in = !whole && !(sums && keeps_zeros(k, k->reduce->arg[0],
                                                 STAGE_STEP, STAGE_BEFORE));
}

static dv_status match_op(const emitter *e, emit_kernel *k)
{
    const dv_op *op = k->op;
    int n = op->write.n_dims, product = 0;
    k->out = (emit_plane){var_of(op, &op->write, n - 2),
                          var_of(op, &op->write, n - 1)};
    k->plane = (emit_plane){-1, -1};
    k->steps = k->step_cols = 1;
    k->reduce = dv_op_reduce(op);
    if (k->reduce) {
        product = match_product(e, k);
        k->shape = product ? EMIT_PRODUCT : EMIT_REDUCE;
        k->steps = k->g->kt;
        if (!product)
            DV_TRY(match_reduce(e, k));
    }
    for (int32_t r = 0; r < op->n_reads; r++)
        if (reads(op->body, r))
            DV_TRY(lay_out(e, k, k->out, r, 1));
    int regs = registers_of(op->body) + (k->reduce != NULL);
    if (k->reduce && !product) {
        int in = 1 + registers_of(k->reduce->arg[0]);
        regs = in > regs ? in : regs;
    }
    find_edges(e, k);
    if (k->mask_out || k->mask_in)
        regs = regs > 4 ? regs : 4;
    k->full_sync = regs > 4;
    if (regs > 8)
        NO("%s has no kernel: it needs %d tiles in registers, there are 8",
           op->name, regs);
    return DV_OK;
}

// Fails if circular buffers of a kernel have exponents of different widths,
// which the hardware cannot mix; f32 combines with either. The hardware packs
// f32 registers to f16 via bf16, so f16 results lose bits and a warning
// suggests f32.
static dv_status check_types(const emitter *e, const emit_kernel *k)
{
    const dv_tensor *out = &e->p->tensors[k->g->tensor];
    const dv_tensor *half = NULL, *wide = NULL;
    for (int i = -1; i < k->n_in; i++) {
        const dv_tensor *t = i < 0 ? out : &e->p->tensors[k->in[i].tensor];
        half = t->dtype == DV_F16 ? t : half;
        wide = t->dtype == DV_BF16 ? t : wide;
    }
    if (half && wide)
        NO("%s has no kernel: %s is f16 and %s is bf16, tiles of one kernel "
           "have exponents of one width",
           k->op->name, half->name, wide->name);
    if (out->dtype == DV_F16)
        dv_warn(e->diag, "emit", DV_NOWHERE,
                "%s is f16: the machine packs f32 registers as f16 by way of "
                "bf16, which keeps 8 of 11 bits",
                out->name);
    return DV_OK;
}

dv_status dv_emit_match(const emitter *e, emit_kernel *k)
{
    const dv_group_grid *g = k->g;
    const dv_tensor *t = &e->p->tensors[g->tensor];
    const dv_op *op = k->op;
    // If the order of tiles is a list, the kernel's code contains it, so its
    // length is limited.
    enum { MOST_LISTED = 4096 };
    if (g->list && g->mt * g->nt > MOST_LISTED)
        NO("%s has no kernel: its order lists %" PRId64 " tiles, a kernel "
           "holds up to %d",
           op->name, g->mt * g->nt, (int)MOST_LISTED);
    if (dv_expr_has_index(op->body))
        NO("%s has no kernel: it uses the value of a variable", op->name);
    const char *lacks = dv_emit_device_lacks(op->body);
    if (lacks)
        NO("%s has no kernel: the device has no %s of floats", op->name, lacks);
    if (op->update)
        NO("%s has no kernel: it replaces some of %s", op->name, t->name);
    if (dv_op_has_border(op))
        NO("%s has no kernel: it reads with a border", op->name);
    for (int d = 0; d < op->write.n_dims; d++)
        if (dv_index_whole_var(op, &op->write.index[d], t->shape[d]) < 0)
            NO("%s has no kernel: it writes other than whole dims of %s",
               op->name, t->name);
    if (!is_tile_type(t->dtype))
        NO("%s has no kernel: %s is %s, tiles are f32, bf16 or f16", op->name,
           t->name, dv_dtype_get(t->dtype)->name);
    DV_TRY(match_op(e, k));
    DV_TRY(check_types(e, k));
    dv_emit_match_shards(e, k);
    DV_TRY(dv_emit_cores(&k->cores, e, g));
    return dv_emit_streams(&k->cores, e, g);
}
