// Running ops as calls of vector kernels. GNU C has a builtin for asking for
// memory.
#include "exec/vec_op_in.h"

enum { SCRATCH = 2048 }; // accumulators that a run keeps for itself

// -- Accumulators ------------------------------------------------------------

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

void dv_vec_op_acc_steps(const dv_vec_op *v, const int64_t *begin,
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

// -- Calls -------------------------------------------------------------------

typedef struct runner {
    const dv_vec_op *v;
    const int64_t *begin, *end;
    int64_t point[DV_MAX_VARS];
    int64_t rows, n;
    char *at[DV_VEC_MAX_OPERANDS];
} runner;

static void advance(runner *r, int var, int64_t by)
{
    const dv_vec_op *v = r->v;
    for (int i = 0; i < v->n_operands; i++)
        r->at[i] += by * v->step[i * v->n_vars + var];
}

// Step to the next point of some variables; 0 after the last, back at the
// first.
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

// Where an operand is at this point, or at the next one along `var`.
static char *found_at(const runner *r, int32_t operand, int var, int next)
{
    const dv_vec_op *v = r->v;
    char *p = r->at[operand] + next * v->step[operand * v->n_vars + var];
    for (int i = 0; i < v->n_indices; i++) {
        const dv_vec_index *x = &v->indices[i];
        const char *at =
            r->at[x->via] + next * v->step[x->via * v->n_vars + var];
        if (x->operand == operand)
            p += dv_index_at(x->dtype, at, 0) * x->apart;
    }
    return p;
}

// Nobody but us knows where the next row is that an index finds: it is asked
// for while this one is computed.
static void ask_next(const runner *r, const int32_t *vars, int n)
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

static void call(runner *r, int old, int un, int64_t rows, int64_t n, void *acc)
{
    const dv_vec_op *v = r->v;
    void *at[DV_VEC_MAX_OPERANDS];
    for (int i = 0; i < v->n_operands; i++)
        at[i] = r->at[i];
    for (int i = 0; i < v->n_indices; i++)
        at[v->indices[i].operand] = found_at(r, v->indices[i].operand, 0, 0);
    if (v->fuse && n == v->fuse) {
        n *= rows;
        rows = 1;
    }
    v->call[old][un](&(dv_vec_args){rows, n, at, acc});
}

// The same with rows in chunks. Accumulators are there when it takes more than
// one call.
static void call_rows(runner *r, int old, int un, int64_t rows, int64_t n,
                      void *acc)
{
    const dv_vec_op *v = r->v;
    if (!v->chunk || rows <= v->chunk) {
        call(r, old, un, rows, n, acc);
        return;
    }
    for (int64_t i = 0; i < rows; i += v->chunk) {
        int64_t left = rows - i;
        int last = left <= v->chunk;
        call(r, old, last ? un : DV_UNFINISHED, last ? left : v->chunk, n, acc);
        advance(r, v->outer, last ? left : v->chunk);
        old = DV_OLD_ACC;
    }
    advance(r, v->outer, -rows);
}

// The points of the reduced variables around the kernel, for `rows` by `n`
// elements from where the pointers are.
static void reduce(runner *r, int64_t rows, int64_t n, void *acc)
{
    const dv_vec_op *v = r->v;
    int64_t left = 1;
    for (int k = 0; k < v->n_reduced; k++)
        left *= r->end[v->reduced[k]] - r->begin[v->reduced[k]];
    int old = DV_NEW_ACC;
    do {
        if (v->n_indices)
            ask_next(r, v->reduced, v->n_reduced);
        call_rows(r, old, --left > 0 ? DV_UNFINISHED : DV_FINISHED, rows, n,
                  acc);
        old = DV_OLD_ACC;
    } while (next_point(r, v->reduced, v->n_reduced));
}

// Accumulators for a piece at a time, where there is more than one call.
static void reduce_pieces(runner *r)
{
    const dv_vec_op *v = r->v;
    double scratch[SCRATCH];
    int outer = v->reduce == DV_VEC_OUTER, both = v->reduce == DV_VEC_BOTH;
    int var = outer ? v->inner : v->outer;
    int64_t all = outer ? r->n : both ? 1 : r->rows;
    for (int64_t from = 0; from < all; from += SCRATCH) {
        int64_t piece = all - from < SCRATCH ? all - from : SCRATCH;
        reduce(r, outer || both ? r->rows : piece, outer ? piece : r->n,
               scratch);
        if (all > SCRATCH)
            advance(r, var, piece);
    }
    if (all > SCRATCH)
        advance(r, var, -all);
}

const char *dv_vec_op_looks(const dv_vec_op *v)
{
    return v->looks;
}

void dv_vec_op_look(const dv_vec_op *v, dv_vec_look *out)
{
    *out = (dv_vec_look){&v->shape, v->inner, v->outer, v->reduce,
                         v->call[DV_NEW_ACC][DV_FINISHED]};
}

static void set_out(runner *r, const dv_vec_op *v, void *const *at,
                    const int64_t *begin, const int64_t *end)
{
    r->v = v;
    r->begin = begin;
    r->end = end;
    r->rows = v->outer < 0 ? 1 : end[v->outer] - begin[v->outer];
    r->n = v->inner < 0 ? 1 : end[v->inner] - begin[v->inner];
    for (int k = 0; k < v->n_vars; k++)
        r->point[k] = begin[k];
    for (int i = 0; i < v->n_operands; i++) {
        r->at[i] = (char *)at[v->read[i]] + v->base[i];
        for (int k = 0; k < v->n_vars; k++)
            r->at[i] += begin[k] * v->step[i * v->n_vars + k];
    }
}

void dv_vec_op_run(const dv_vec_op *v, void *const *at, const int64_t *begin,
                   const int64_t *end)
{
    if (v->turn)
        dv_vec_turn_run(v->turn, v, at, begin, end);
    else
        dv_vec_op_run_plain(v, at, begin, end);
}

void dv_vec_op_run_plain(const dv_vec_op *v, void *const *at,
                         const int64_t *begin, const int64_t *end)
{
    runner r;
    set_out(&r, v, at, begin, end);
    do {
        if (v->n_indices)
            ask_next(&r, v->written, v->n_written);
        if (v->n_reduced || (v->chunk && r.rows > v->chunk))
            reduce_pieces(&r);
        else
            call(&r, DV_NEW_ACC, DV_FINISHED, r.rows, r.n, NULL);
    } while (next_point(&r, v->written, v->n_written));
}

void dv_vec_op_part(const dv_vec_op *v, void *const *at, const int64_t *begin,
                    const int64_t *end, int part, void *acc)
{
    runner r;
    set_out(&r, v, at, begin, end);
    int outer = v->reduce == DV_VEC_OUTER, both = v->reduce == DV_VEC_BOTH;
    int64_t each = outer ? r.n : both ? 1 : r.rows;
    char *to = acc;
    do {
        if (part == DV_FINISH) {
            // No steps of what is reduced: only the end.
            call(&r, DV_OLD_ACC, DV_FINISHED,
                 outer  ? 0
                 : both ? 1
                        : r.rows,
                 outer ? r.n : 0, to);
        } else {
            int old = part == DV_FIRST_PART ? DV_NEW_ACC : DV_OLD_ACC;
            do {
                call_rows(&r, old, DV_UNFINISHED, r.rows, r.n, to);
                old = DV_OLD_ACC;
            } while (next_point(&r, v->reduced, v->n_reduced));
        }
        to += each * v->acc_bytes;
    } while (next_point(&r, v->written, v->n_written));
}
