#include "exec/vec_transpose.h"
#include "base/dtype.h"
#include "base/math.h"
#include "exec/vec_op_in.h"
#include <string.h>

// A block is so high and wide, or of the other size where less is left; what is
// less than that is left to the op as it is.
enum { BLOCK = 32, SMALL = 8, SIZES = 2 };
enum { MOST_TURNED = 4, MOST_BYTES = 4 }; // operands, bytes of an element

struct dv_vec_turn {
    int32_t row, col; // variables: results along col are neighbours
    int32_t n_turned, operand[MOST_TURNED];
    dv_move_fn move[MOST_TURNED][SIZES][SIZES]; // of rows, of columns
    dv_vec_fn run; // NULL: a move is all, into the result
};

static const int sizes[SIZES] = {BLOCK, SMALL};

// -- Making ------------------------------------------------------------------

static int64_t length(const dv_vec_how *how, int v)
{
    return how->op->vars[v].end - how->op->vars[v].begin;
}

// Of a block.
static int64_t widest(const dv_vec_how *how, int v)
{
    return dv_min_i64(length(how, v), BLOCK);
}

static int is_copy(const dv_vec_how *how)
{
    const dv_op *op = how->op;
    return op->body->kind == DV_EXPR_READ &&
           how->p->tensors[op->reads[op->body->read].tensor].dtype ==
               how->p->tensors[op->write.tensor].dtype;
}

// Does a read of these steps go by one along the row, and from block to block
// along the column?
static int across(const dv_vec_how *how, int read, int64_t along_row,
                  int64_t along_col, int row)
{
    dv_dtype t = how->p->tensors[how->op->reads[read].tensor].dtype;
    return along_row == 1 && along_col >= widest(how, row) &&
           along_col <= DV_VEC_MAX_STRIDE &&
           (is_copy(how) || dv_dtype_get(t)->size_bytes <= MOST_BYTES);
}

// Does any read lie across, as the program has it?
static int any_across(const dv_vec_how *how, int row, int col)
{
    for (int i = 0; i < how->op->n_reads; i++)
        if (across(how, i, dv_vec_op_step(how, i, row),
                   dv_vec_op_step(how, i, col), row))
            return 1;
    return 0;
}

int dv_vec_turn_loops(const dv_vec_how *how, int32_t *row, int32_t *col)
{
    const dv_op *op = how->op;
    int32_t c = -1;
    if (dv_op_reduce(op))
        return 0;
    for (int v = 0; v < op->n_vars; v++)
        if (dv_vec_op_step(how, op->n_reads, v) == 1 && length(how, v) >= SMALL)
            c = v;
    for (int v = 0; v < op->n_vars && c >= 0; v++) {
        int64_t down = dv_vec_op_step(how, op->n_reads, v);
        if (v == c || length(how, v) < SMALL || down < widest(how, c) ||
            down > DV_VEC_MAX_STRIDE || !any_across(how, v, c))
            continue;
        *row = v;
        *col = c;
        return 1;
    }
    return 0;
}

// The reads that do where the elements are.
static void list_turned(dv_vec_turn *t, const dv_vec_how *how)
{
    for (int i = 0; i < how->op->n_reads && t->n_turned < MOST_TURNED; i++) {
        const int64_t *step = how->reads[i].coef;
        if (across(how, i, step[t->row], step[t->col], t->row))
            t->operand[t->n_turned++] = i;
    }
}

static dv_status make_moves(dv_vec_turn *t, const dv_vec_how *how, dv_jit *jit,
                            dv_diag *diag)
{
    for (int k = 0; k < t->n_turned; k++)
        for (int r = 0; r < SIZES; r++)
            for (int c = 0; c < SIZES; c++) {
                int i = t->operand[k];
                dv_dtype type = how->p->tensors[how->op->reads[i].tensor].dtype;
                dv_move_shape s = {
                    .lds = how->reads[i].coef[t->col],
                    .ldd = is_copy(how) ? how->write->coef[t->row] : BLOCK,
                    .rows = sizes[c],
                    .cols = sizes[r],
                    .dtype = (uint8_t)type,
                    .move = DV_MOVE_TRANSPOSE};
                if (s.rows <= length(how, t->col) &&
                    s.cols <= length(how, t->row))
                    DV_TRY(dv_jit_move(jit, &s, &t->move[k][r][c], diag));
            }
    return DV_OK;
}

// The op's kernel, with other strides.
static dv_status make_kernel(dv_vec_turn *t, const dv_vec_op *v,
                             const dv_vec_how *how, dv_jit *jit,
                             dv_arena *arena, dv_diag *diag)
{
    int32_t n = v->n_operands;
    dv_vec_shape s = v->shape;
    dv_vec_operand *o = DV_NEW(arena, dv_vec_operand, n);
    if (!o)
        return dv_nomem(diag);
    for (int32_t i = 0; i < n; i++) {
        const dv_flat *f = i < n - 1 ? &how->reads[i] : how->write;
        o[i] = v->shape.operands[i];
        o[i].inner = f->coef[t->col];
        o[i].outer = f->coef[t->row];
        o[i].ahead = 0;
    }
    for (int k = 0; k < t->n_turned; k++) {
        o[t->operand[k]].inner = 1;
        o[t->operand[k]].outer = BLOCK;
    }
    s.operands = o;
    return dv_jit_vec(jit, &s, &t->run, diag);
}

dv_status dv_vec_turn_create(dv_vec_turn **out, const dv_vec_op *v,
                             const dv_vec_how *how, dv_jit *jit,
                             dv_arena *arena, dv_diag *diag)
{
    const int64_t *to = how->write->coef;
    dv_vec_turn *t = DV_NEW(arena, dv_vec_turn, 1);
    *out = NULL;
    if (!t)
        return dv_nomem(diag);
    t->row = v->outer;
    t->col = v->inner;
    list_turned(t, how);
    if (!t->n_turned || to[t->col] != 1 || to[t->row] < widest(how, t->col))
        return DV_OK;
    dv_status s = make_moves(t, how, jit, diag);
    if (s == DV_OK && !is_copy(how))
        s = make_kernel(t, v, how, jit, arena, diag);
    if (s == DV_E_LIMIT || s == DV_E_DTYPE)
        return DV_OK; // strides that do not fit encodings
    *out = s ? NULL : t;
    return s;
}

// -- Running -----------------------------------------------------------------

typedef struct runner {
    const dv_vec_turn *t;
    const dv_vec_op *v;
    void *const *at;
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS]; // of the block at hand
} runner;

static int size_of(int64_t left)
{
    return left >= BLOCK ? 0 : left >= SMALL ? 1 : -1;
}

// Where the block begins in an operand.
static char *place(const runner *r, int32_t operand)
{
    const dv_vec_op *v = r->v;
    char *p = (char *)r->at[operand] + v->base[operand];
    for (int k = 0; k < v->n_vars; k++)
        p += r->begin[k] * v->step[operand * v->n_vars + k];
    return p;
}

// One block of these sizes.
static void block(const runner *r, int rows, int cols)
{
    const dv_vec_turn *t = r->t;
    int32_t n = r->v->n_operands;
    _Alignas(64) unsigned char buffer[MOST_TURNED][BLOCK * BLOCK * MOST_BYTES];
    void *at[DV_VEC_MAX_OPERANDS];
    if (!t->run) {
        t->move[0][rows][cols](place(r, t->operand[0]), place(r, n - 1));
        return;
    }
    for (int32_t i = 0; i < n; i++)
        at[i] = place(r, i);
    for (int k = 0; k < t->n_turned; k++) {
        int32_t i = t->operand[k];
        t->move[k][rows][cols](at[i], buffer[k]);
        at[i] = buffer[k];
    }
    t->run(&(dv_vec_args){sizes[rows], sizes[cols], at, NULL});
}

// All columns of the rows that are set.
static void columns(runner *r, int rows, int64_t begin, int64_t end)
{
    int col = r->t->col;
    for (r->begin[col] = begin; r->begin[col] < end;
         r->begin[col] = r->end[col]) {
        int size = rows < 0 ? -1 : size_of(end - r->begin[col]);
        r->end[col] = size < 0 ? end : r->begin[col] + sizes[size];
        if (size < 0)
            dv_vec_op_run_plain(r->v, r->at, r->begin, r->end);
        else
            block(r, rows, size);
    }
}

// To the next point of the variables around blocks; 0 behind the last.
static int next_point(runner *r, const int64_t *begin, const int64_t *end)
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

void dv_vec_turn_run(const dv_vec_turn *t, const dv_vec_op *v, void *const *at,
                     const int64_t *begin, const int64_t *end)
{
    runner r = {.t = t, .v = v, .at = at};
    for (int k = 0; k < v->n_vars; k++) {
        r.begin[k] = begin[k];
        r.end[k] = begin[k] + 1;
    }
    do {
        for (int64_t i = begin[t->row]; i < end[t->row]; i = r.end[t->row]) {
            int rows = size_of(end[t->row] - i);
            r.begin[t->row] = i;
            r.end[t->row] = rows < 0 ? end[t->row] : i + sizes[rows];
            columns(&r, rows, begin[t->col], end[t->col]);
        }
    } while (next_point(&r, begin, end));
}
