// Functions of single elements in a nest: a main that is no product and no
// reduction, and touches of out that no kernel of a product has inside. They go
// over memory on their own: before the first product is added, and behind the
// last.
//
//   c 8: in0 64, out 64      axes, outermost first by their steps in out, as
//   n 4: in0  1, out  8      few as there can be; a vector kernel has the last
//   m 8: in0  4, out  1      two inside. Where another one is unit stride in an
//                            input, its blocks are turned by moves: those of a
//                            function of one input into out, to be finished
//                            there, others into a buffer.
//
// What an index steps in is left to the loops; in each turn it is looked up.
#include "base/dtype.h"
#include "base/math.h"
#include "jit/vec/vec.h"
#include "contract/state.h"
#include "contract/ways.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Rows and columns of a block that is turned; bytes of an element in a buffer.
enum { TURN = 32, TURN_ES = 4 };
enum { N_ARGS = 3 };
static const int inputs[N_ARGS] = {DV_IN0, DV_IN1, DV_IN2};

struct ct_touch {
    ct_ways a;
    ct_look look;
    int64_t es[DV_MAX_OPERANDS];
    int64_t piece;  // elements of a row that go into a kernel
    uint8_t reads;  // a bit an input: it is in memory
    uint8_t turned; // a bit an input: its blocks are
    uint8_t in_out; // they are turned into out
    dv_vec_fn run;  // NULL: moves are all
    // Of whole rows that are only copied, to or from where an index says; 0:
    // they are not such.
    int64_t row_bytes;
    uint8_t moves; // DV_PRIM_COPY or DV_PRIM_ZERO: rows are only moved
    // Whole or rest of rows, of columns.
    dv_move_fn turn[DV_MAX_OPERANDS][2][2];
};

static int has_larger_steps(const ct_way *x, const ct_way *y)
{
    return x->step[DV_OUT] > y->step[DV_OUT];
}

static void add_single(ct_touch *t)
{
    t->a.at[t->a.n++] = (ct_way){.size = 1};
}

// The two that the kernel has inside come last.
static void choose_inside(ct_touch *t)
{
    int32_t n = t->a.n;
    if (n < 1 || !ct_way_is_near(&t->a.at[n - 1])) {
        add_single(t);
        add_single(t);
    } else if (n < 2 || !ct_way_is_near(&t->a.at[n - 2])) {
        ct_way last = t->a.at[--t->a.n];
        add_single(t);
        t->a.at[t->a.n++] = last;
    }
}

// -- Turning -----------------------------------------------------------------

// The blocks of a function of one input of out's type are turned into out.
static int turns_into_out(const dv_nest *n)
{
    return dv_nest_is_unary(n) && !n->types[DV_IN0];
}

// Is an input unit stride along x, while out is along `in`, and does turning
// it pay? By way of a buffer 8 bytes do not: vectors have too few of them.
static int lies_across(const ct_touch *t, const dv_nest *n, int o,
                       const ct_way *x, const ct_way *in)
{
    dv_dtype type = dv_nest_dtype(n, o);
    return (t->reads >> o & 1) && x->step[o] == 1 && in->step[o] >= 2 &&
           in->step[o] >= dv_min_i64(x->size, TURN) && type != DV_I64 &&
           (type != DV_F64 || turns_into_out(n));
}

// The axis that is unit stride in an input while the last one is that of out:
// it becomes the last but one. 0: there is none, or a move cannot go so.
static int choose_turn(ct_touch *t, const dv_nest *n)
{
    if (t->a.n < 2)
        return 0;
    const ct_way in = t->a.at[t->a.n - 1];
    if (in.step[DV_OUT] != 1 || !ct_way_is_near(&in))
        return 0;
    for (int32_t i = t->a.n - 2; i >= 0; i--) {
        const ct_way x = t->a.at[i];
        for (int k = 0; k < N_ARGS && ct_way_is_near(&x); k++)
            if (lies_across(t, n, inputs[k], &x, &in))
                t->turned |= (uint8_t)(1 << inputs[k]);
        if (!t->turned)
            continue;
        for (; i < t->a.n - 2; i++)
            t->a.at[i] = t->a.at[i + 1];
        t->a.at[t->a.n - 2] = x;
        return 1;
    }
    return 0;
}

static dv_status make_turns(ct_touch *t, dv_jit *jit, const dv_nest *n, int o,
                            dv_diag *diag)
{
    const ct_way *col = &t->a.at[t->a.n - 2], *row = col + 1;
    int64_t rows[2] = {dv_min_i64(row->size, TURN), row->size % TURN};
    int64_t cols[2] = {dv_min_i64(col->size, TURN), col->size % TURN};
    for (int r = 0; r < 2; r++)
        for (int c = 0; c < 2; c++) {
            dv_move_shape s = {.lds = row->step[o],
                               .ldd = t->in_out ? col->step[DV_OUT] : TURN,
                               .rows = (int32_t)rows[r],
                               .cols = (int32_t)cols[c],
                               .dtype = (uint8_t)dv_nest_dtype(n, o),
                               .move = DV_MOVE_TRANSPOSE};
            if (s.rows && s.cols)
                DV_TRY(dv_jit_move(jit, &s, &t->turn[o][r][c], diag));
        }
    return DV_OK;
}

// -- Making ------------------------------------------------------------------

typedef struct maker {
    dv_vec_operand operands[DV_MAX_OPERANDS];
    dv_vec_node nodes[N_ARGS + 3];
    dv_vec_shape s;
} maker;

static uint16_t add(maker *m, dv_vec_node n)
{
    m->nodes[m->s.n_nodes] = n;
    return m->s.n_nodes++;
}

static void add_operand(maker *m, const ct_touch *t, const dv_nest *n, int o)
{
    const ct_way *row = &t->a.at[t->a.n - 2], *in = row + 1;
    int from_out = t->in_out && (t->turned >> o & 1);
    int buffered = !t->in_out && (t->turned >> o & 1),
        at = from_out ? DV_OUT : o;
    m->operands[m->s.n_operands++] =
        (dv_vec_operand){.inner = buffered ? 1 : in->step[at],
                         .outer = buffered ? TURN : row->step[at],
                         .dtype = (uint8_t)dv_nest_dtype(n, o)};
}

// An argument: what is read, or a constant.
static uint16_t argument(maker *m, const ct_touch *t, const dv_nest *n, int o)
{
    if (t->reads >> o & 1) {
        add_operand(m, t, n, o);
        return add(m, (dv_vec_node){.kind = DV_VEC_LOAD,
                                    .arg = {(uint16_t)(m->s.n_operands - 1)}});
    }
    return add(m, (dv_vec_node){.kind = DV_VEC_CONST, .value = n->value[o]});
}

// The function p of arguments; those of a mean are divided by `count` before.
static dv_status make_kernel(ct_touch *t, dv_jit *jit, const dv_nest *n,
                             dv_prim p, double count, dv_diag *diag)
{
    const dv_prim_info *info = dv_prim_get(p);
    maker m = {.s = {.compute = (uint8_t)ct_compute_of(n)}};
    dv_vec_node f = {.kind = DV_VEC_APPLY, .fn = (uint8_t)info->fn};
    dv_vec_node constant = {.kind = DV_VEC_CONST};
    int n_args = info->fn < 0 ? 1 : dv_fn_get((dv_fn)info->fn)->n_args;
    if (t->in_out && info->fn < 0)
        return DV_OK;
    if (dv_prim_is_const(p, &constant.value)) {
        m.s.result = add(&m, constant);
        count = 0; // whatever the mean is
    } else {
        for (int i = 0; i < n_args; i++)
            f.arg[i] = argument(&m, t, n, inputs[i]);
        m.s.result = f.arg[0];
    }
    if (count > 0) {
        constant.value = count;
        dv_vec_node over = {.kind = DV_VEC_APPLY, .fn = DV_FN_DIV};
        over.arg[0] = m.s.result;
        over.arg[1] = add(&m, constant);
        f.arg[0] = m.s.result = add(&m, over);
    }
    if (info->fn >= 0)
        m.s.result = add(&m, f);
    m.s.value = m.s.result;
    add_operand(&m, t, n, DV_OUT);
    m.s.operands = m.operands;
    m.s.nodes = m.nodes;
    return dv_jit_vec(jit, &m.s, &t->run, diag);
}

// Rows of narrow elements that are only copied or cleared: a kernel would make
// each wide on the way.
static dv_prim moves_rows(const ct_touch *t, const dv_nest *n, dv_prim p,
                          double count)
{
    enum { LEAST = 64, WIDE = 4 }; // bytes: of a row, of an element
    const ct_way *in = &t->a.at[t->a.n - 1];
    int copies = p == DV_PRIM_COPY && in->step[DV_IN0] == 1 &&
                 (t->reads >> DV_IN0 & 1) && !n->types[DV_IN0];
    int near = in->step[DV_OUT] == 1 && in->size * t->es[DV_OUT] >= LEAST;
    if (!near || t->turned || t->es[DV_OUT] >= WIDE || count > 0)
        return DV_PRIM_NONE;
    return copies || p == DV_PRIM_ZERO ? p : DV_PRIM_NONE;
}

// The longest axis is shared, the outermost of such; the last only where its
// pieces are of use. Where out is looked up, one thread has all indices.
static void choose_cut(ct_touch *t)
{
    int64_t size = 0;
    t->a.cut = -1;
    for (int32_t i = 0; i < t->a.n - 1; i++)
        if (t->a.at[i].size > size &&
            !(t->look.operand == DV_OUT && t->a.at[i].is_index)) {
            t->a.cut = i;
            size = t->a.at[i].size;
        }
    if (size < t->a.threads && t->a.at[t->a.n - 1].size > size)
        t->a.cut = t->a.n - 1;
    t->a.cut_unit = t->turned && t->a.cut >= t->a.n - 2 ? TURN
                    : t->a.cut == t->a.n - 1            ? CT_LEAST_PIECE
                                                        : 1;
}

// An operand that lies across the rows is read in columns: a few at a time,
// whose lines stay near from row to row.
static void choose_piece(ct_touch *t)
{
    const ct_way *row = &t->a.at[t->a.n - 2], *in = row + 1;
    t->piece = in->size;
    for (int i = 0; i < N_ARGS; i++)
        if (row->step[inputs[i]] &&
            llabs(row->step[inputs[i]]) < llabs(in->step[inputs[i]]))
            t->piece = TURN;
}

// Whole rows of one run each, where an index has all loops.
static void choose_rows(ct_touch *t, const dv_nest *n)
{
    const ct_way *row = &t->a.at[t->a.n - 2], *in = row + 1;
    int one = in->size == 1 || (in->step[DV_IN0] == 1 && in->step[DV_OUT] == 1);
    if (n->look && n->main == DV_PRIM_COPY && !n->types[DV_IN0] &&
        !n->constants && !t->turned && one && row->size == 1 &&
        t->a.cut < t->a.n - 2)
        t->row_bytes = in->size * t->es[DV_OUT];
}

// Of whole numbers, constants must be such.
static dv_status check_constants(const dv_nest *n, dv_diag *diag)
{
    for (int i = 0; i < N_ARGS; i++)
        if ((n->constants >> inputs[i] & 1) && ct_compute_of(n) == DV_I32 &&
            !(fabs(n->value[inputs[i]]) < 0x1p31))
            return dv_fail(diag, DV_E_DTYPE, (dv_loc){n->src, n->off},
                           "%s is %g, kernels of whole numbers have 32 bits",
                           dv_nest_operand_name(inputs[i]),
                           n->value[inputs[i]]);
    return DV_OK;
}

// A touch of out is a function of an in0 that is out.
static void seen_from_out(dv_nest *n, dv_prim p)
{
    n->main = p;
    n->types[DV_IN0] = 0;
    n->constants = n->look = n->mean = 0;
    for (int i = 0; i < n->n_dims; i++)
        n->dims[i].stride[DV_IN0] = n->dims[i].stride[DV_OUT];
}

static void drop_k(dv_nest *n)
{
    int32_t kept = 0;
    dv_nest_untile(n);
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].type != DV_NEST_K)
            n->dims[kept++] = n->dims[i];
    n->n_dims = kept;
}

static dv_status make(ct_touch *t, dv_jit *jit, const dv_nest *n, dv_prim p,
                      double count, dv_diag *diag)
{
    DV_TRY(check_constants(n, diag));
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        t->es[o] = dv_dtype_get(dv_nest_dtype(n, o))->size_bytes;
    for (int i = 0; i < N_ARGS; i++)
        if (dv_nest_has(n, inputs[i]) && !(n->look && inputs[i] == DV_IN2))
            t->reads |= (uint8_t)(1 << inputs[i]);
    t->look = ct_look_of(n);
    ct_ways_list(&t->a, n, has_larger_steps);
    ct_ways_join(&t->a);
    if (!choose_turn(t, n))
        choose_inside(t);
    t->in_out = t->turned && turns_into_out(n);
    for (int i = 0; i < N_ARGS; i++)
        if (t->turned >> inputs[i] & 1)
            DV_TRY(make_turns(t, jit, n, inputs[i], diag));
    t->moves = (uint8_t)moves_rows(t, n, p, count);
    if (!t->moves)
        DV_TRY(make_kernel(t, jit, n, p, count, diag));
    choose_cut(t);
    choose_piece(t);
    choose_rows(t, n);
    return DV_OK;
}

// Rows and columns, of any number.
static dv_status make_near(ct_touch *t, dv_jit *jit, const dv_nest *n,
                           int64_t ld, double count, dv_diag *diag)
{
    t->reads = 1 << DV_IN0; // the rest is for walks
    t->a.n = 2;
    t->a.at[0].step[DV_IN0] = t->a.at[0].step[DV_OUT] = ld;
    t->a.at[1].step[DV_IN0] = t->a.at[1].step[DV_OUT] = 1;
    return make_kernel(t, jit, n, n->main, count, diag);
}

// Of blocks (ld from 0), or of the threads' parts.
static dv_status create(ct_touch **out, dv_jit *jit, const dv_nest *of,
                        int from, dv_prim p, int32_t threads, int64_t ld,
                        dv_diag *diag)
{
    ct_touch *t = dv_alloc(sizeof *t);
    dv_nest n = *of;
    if (!t)
        return dv_nomem(diag);
    *t = (ct_touch){.a = {.threads = threads}};
    double count = from == DV_OUT && n.mean ? dv_nest_count_k(&n) : 0;
    if (from == DV_OUT) {
        drop_k(&n);
        seen_from_out(&n, p == DV_PRIM_NONE ? DV_PRIM_COPY : p);
    }
    dv_status s = ld < 0 ? make(t, jit, &n, n.main, count, diag)
                         : make_near(t, jit, &n, ld, count, diag);
    if (s)
        dv_release(t);
    else
        *out = t;
    return s;
}

dv_status ct_touch_create(ct_touch **out, dv_jit *jit, const dv_nest *n,
                          int from, dv_prim p, int32_t threads, dv_diag *diag)
{
    return create(out, jit, n, from, p, threads, -1, diag);
}

dv_status ct_touch_create_near(ct_touch **out, dv_jit *jit, const dv_nest *n,
                               dv_prim p, int64_t ld, dv_diag *diag)
{
    return create(out, jit, n, DV_OUT, p, 1, ld, diag);
}

// -- Running -----------------------------------------------------------------

// Elements of the operands.
typedef struct spot {
    unsigned char *at[DV_MAX_OPERANDS]; // inputs are not written
} spot;

static spot moved(const ct_touch *t, spot s, const ct_way *x, int64_t by)
{
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        if (s.at[o])
            s.at[o] += by * x->step[o] * t->es[o];
    return s;
}

// In and out may be the same.
static void move_rows(const ct_touch *t, const spot *s, int64_t rows, int64_t n)
{
    const ct_way *row = &t->a.at[t->a.n - 2];
    int64_t es = t->es[DV_OUT];
    for (int64_t i = 0; i < rows; i++) {
        unsigned char *to = s->at[DV_OUT] + i * row->step[DV_OUT] * es;
        if (t->moves == DV_PRIM_ZERO)
            memset(to, 0, (size_t)(n * es));
        else
            memmove(to, s->at[DV_IN0] + i * row->step[DV_IN0] * es,
                    (size_t)(n * es));
    }
}

static void apply(const ct_touch *t, const spot *s, int64_t rows, int64_t n)
{
    void *at[DV_MAX_OPERANDS];
    int count = 0;
    if (t->moves) {
        move_rows(t, s, rows, n);
        return;
    }
    for (int i = 0; i < N_ARGS; i++)
        if (t->reads >> inputs[i] & 1)
            at[count++] = s->at[inputs[i]];
    at[count] = s->at[DV_OUT];
    dv_vec_args args = {rows, n, at, NULL};
    t->run(&args);
}

void ct_touch_block(void *touch, void *out, int32_t rows, int32_t cols)
{
    spot s = {{[DV_IN0] = out, [DV_OUT] = out}};
    apply(touch, &s, rows, cols);
}

// Blocks of the last two axes, turned one by one.
static void turn(const ct_touch *t, const ct_range *r, spot s)
{
    const ct_way *col = &t->a.at[t->a.n - 2], *row = col + 1;
    const ct_range *of_col = &r[t->a.n - 2], *of_row = of_col + 1;
    _Alignas(64) unsigned char buffer[N_ARGS][TURN * TURN * TURN_ES];
    for (int64_t j = of_col->begin; j < of_col->end; j += TURN)
        for (int64_t i = of_row->begin; i < of_row->end; i += TURN) {
            int64_t rows = dv_min_i64(TURN, of_row->end - i);
            int64_t cols = dv_min_i64(TURN, of_col->end - j);
            spot at = moved(t, moved(t, s, col, j), row, i);
            int rest_i = rows < dv_min_i64(row->size, TURN);
            int rest_j = cols < dv_min_i64(col->size, TURN);
            for (int k = 0; k < N_ARGS; k++) {
                int o = inputs[k];
                if (!(t->turned >> o & 1))
                    continue;
                unsigned char *to = t->in_out ? at.at[DV_OUT] : buffer[k];
                t->turn[o][rest_i][rest_j](at.at[o], to);
                at.at[o] = to;
            }
            if (t->run)
                apply(t, &at, cols, rows);
        }
}

static void inside(const ct_touch *t, const ct_range *r, spot s)
{
    const ct_way *row = &t->a.at[t->a.n - 2], *in = row + 1;
    const ct_range *of_row = &r[t->a.n - 2], *of_in = of_row + 1;
    if (t->turned) {
        turn(t, r, s);
        return;
    }
    s = moved(t, moved(t, s, row, of_row->begin), in, of_in->begin);
    for (int64_t n, i = of_in->begin; i < of_in->end; i += n) {
        n = dv_min_i64(t->piece, of_in->end - i);
        apply(t, &s, of_row->end - of_row->begin, n);
        s = moved(t, s, in, n);
    }
}

// The turns of the innermost loop; without one there is a single turn.
static void turns(const ct_touch *t, const ct_range *of, spot s, ct_bad *bad)
{
    static const ct_way none = {.size = 1};
    int32_t last = t->a.n - 3, o = t->look.operand;
    const ct_way *x = last < 0 ? &none : &t->a.at[last];
    int64_t begin = last < 0 ? 0 : of[last].begin, off;
    int64_t end = last < 0 ? 1 : of[last].end;
    int64_t step[DV_MAX_OPERANDS];
    for (int k = 0; k < DV_MAX_OPERANDS; k++)
        step[k] = s.at[k] ? x->step[k] * t->es[k] : 0;
    s = moved(t, s, x, begin);
    for (int64_t i = begin; i < end; i++) {
        spot w = s;
        int there = o < 0 || ct_look_up(&t->look, s.at[DV_IN2], 0, &off, bad);
        if (there && o >= 0)
            w.at[o] += off * t->es[o];
        if (there && t->row_bytes == sizeof(int32_t))
            memcpy(w.at[DV_OUT], w.at[DV_IN0], sizeof(int32_t));
        else if (there && t->row_bytes)
            memcpy(w.at[DV_OUT], w.at[DV_IN0], (size_t)t->row_bytes);
        else if (there)
            inside(t, of, w);
        for (int k = 0; k < DV_MAX_OPERANDS; k++)
            if (step[k])
                s.at[k] += step[k];
    }
}

void ct_touch_part(const ct_touch *t, int32_t thread, const ct_data *d)
{
    ct_range of[CT_MAX_WAYS];
    int64_t at[CT_MAX_WAYS];
    int32_t last = t->a.n - 3;
    spot begin = {{d->in0, d->in1, d->out, d->in2}};
    if (!ct_ways_part(&t->a, thread, of, at))
        return;
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        if (begin.at[o])
            begin.at[o] += t->a.off[o] * t->es[o];
    do {
        spot s = begin;
        for (int32_t k = 0; k < last; k++)
            s = moved(t, s, &t->a.at[k], at[k]);
        turns(t, of, s, d->bad);
        if (last >= 0)
            at[last] = of[last].end - 1; // all its turns are done
    } while (ct_ways_next(&t->a, of, at));
}
