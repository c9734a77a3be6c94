// Functions of single elements in a nest: a unary or binary main, and touches
// of out that no kernel of a product has inside. They go over memory on their
// own: before the first product is added, and behind the last.
//
//   c 8: in0 64, out 64      axes, outermost first by their steps in out, as
//   n 4: in0  1, out  8      few as there can be; a vector kernel has the last
//   m 8: in0  4, out  1      two inside. Where another one is unit stride in
//                            in0, blocks are turned by moves and finished
//                            where they came to lie. A binary steps over its
//                            operands as they are.
#include "base/dtype.h"
#include "base/math.h"
#include "jit/vec.h"
#include "run/contract_ways.h"
#include "run/contract_in.h"
#include <stdlib.h>

enum { TURN = 32 }; // rows and columns of a block that is turned

struct ct_touch {
    ct_ways a;
    int64_t es;
    int64_t piece;         // elements of a row that go into a kernel
    int32_t reads;         // operands; 0: out becomes a constant
    dv_vec_fn run;         // NULL: moves are all
    dv_move_fn turn[2][2]; // whole or rest of rows, of columns; NULL: none
};

// -- Axes --------------------------------------------------------------------

static int has_larger_steps(const ct_way *x, const ct_way *y)
{
    return x->to > y->to;
}

static void list_axes(ct_touch *t, const dv_nest *n, int from)
{
    dv_nest all = *n;
    dv_nest_unite(&all);
    for (int i = 0; i < all.n_dims; i++) {
        const dv_nest_dim *d = &all.dims[i];
        ct_way x = {.size = d->size, .to = d->stride[DV_OUT]};
        x.from = t->reads ? d->stride[from] : 0;
        x.with = t->reads > 1 ? d->stride[DV_IN1] : 0;
        if (d->type == DV_NEST_K || d->size == 1)
            continue;
        ct_ways_add(&t->a, x, has_larger_steps);
    }
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

// The axis that is unit stride in in0 while the last one is that of out: it
// becomes the last but one. 0: there is none, or a move cannot go so.
static int choose_turn(ct_touch *t)
{
    const ct_way in = t->a.at[t->a.n - 1];
    int32_t i = t->a.n - 2;
    if (t->reads != 1 || in.to != 1 || in.from < 2 || !ct_way_is_near(&in))
        return 0;
    while (i >= 0 && t->a.at[i].from != 1)
        i--;
    if (i < 0)
        return 0;
    const ct_way x = t->a.at[i];
    if (in.from < dv_min_i64(x.size, TURN) || !ct_way_is_near(&x))
        return 0;
    for (; i < t->a.n - 2; i++)
        t->a.at[i] = t->a.at[i + 1];
    t->a.at[t->a.n - 2] = x;
    return 1;
}

static dv_status make_turns(ct_touch *t, dv_jit *jit, dv_dtype dtype,
                            dv_diag *diag)
{
    const ct_way *col = &t->a.at[t->a.n - 2], *row = col + 1;
    int64_t rows[2] = {dv_min_i64(row->size, TURN), row->size % TURN};
    int64_t cols[2] = {dv_min_i64(col->size, TURN), col->size % TURN};
    for (int r = 0; r < 2; r++)
        for (int c = 0; c < 2; c++) {
            dv_move_shape s = {.lds = row->from,
                               .ldd = col->to,
                               .rows = (int32_t)rows[r],
                               .cols = (int32_t)cols[c],
                               .dtype = (uint8_t)dtype,
                               .move = DV_MOVE_TRANSPOSE};
            if (s.rows && s.cols)
                DV_TRY(dv_jit_move(jit, &s, &t->turn[r][c], diag));
        }
    return DV_OK;
}

// -- Making ------------------------------------------------------------------

static dv_status make_kernel(ct_touch *t, dv_jit *jit, dv_dtype dtype,
                             dv_prim p, dv_diag *diag)
{
    const dv_prim_info *info = dv_prim_get(p);
    const ct_way *row = &t->a.at[t->a.n - 2], *in = row + 1;
    int turned = t->turn[0][0] != NULL;
    dv_vec_operand to = {.inner = in->to, .outer = row->to};
    dv_vec_operand from = {.inner = in->from, .outer = row->from};
    dv_vec_operand with = {.inner = in->with, .outer = row->with};
    to.dtype = from.dtype = with.dtype = (uint8_t)dtype;
    const dv_vec_operand operands[] = {turned ? to : from,
                                       t->reads > 1 ? with : to, to};
    dv_vec_node nodes[3] = {{.kind = DV_VEC_LOAD}};
    dv_vec_shape s = {.operands = operands,
                      .nodes = nodes,
                      .n_operands = (uint16_t)(t->reads + 1),
                      .n_nodes = 1,
                      .compute = (uint8_t)dtype};
    if (turned && info->fn < 0)
        return DV_OK;
    if (!t->reads) {
        nodes[0].kind = DV_VEC_CONST;
        dv_prim_is_const(p, &nodes[0].value);
        s.operands = &operands[1];
    } else if (info->fn >= 0) {
        uint16_t last = (uint16_t)t->reads;
        nodes[1] = (dv_vec_node){.kind = DV_VEC_LOAD, .arg = {1}};
        nodes[last] = (dv_vec_node){.kind = DV_VEC_APPLY,
                                    .fn = (uint8_t)info->fn,
                                    .arg = {0, (uint16_t)(last - 1)}};
        s.n_nodes = (uint16_t)(last + 1);
        s.value = s.result = last;
    }
    return dv_jit_vec(jit, &s, &t->run, diag);
}

// The longest axis is shared, the outermost of such; the last only where its
// pieces are of use.
static void choose_cut(ct_touch *t)
{
    int turned = t->turn[0][0] != NULL;
    t->a.cut = 0;
    for (int32_t i = 1; i < t->a.n - 1; i++)
        if (t->a.at[i].size > t->a.at[t->a.cut].size)
            t->a.cut = i;
    if (t->a.at[t->a.cut].size < t->a.threads &&
        t->a.at[t->a.n - 1].size > t->a.at[t->a.cut].size)
        t->a.cut = t->a.n - 1;
    t->a.cut_unit = turned && t->a.cut >= t->a.n - 2 ? TURN
                    : t->a.cut == t->a.n - 1         ? CT_LEAST_PIECE
                                                     : 1;
}

// An operand that lies across the rows is read in columns: a few at a time,
// whose lines stay near from row to row.
static void choose_piece(ct_touch *t)
{
    const ct_way *row = &t->a.at[t->a.n - 2], *in = row + 1;
    int across = (row->from && llabs(row->from) < llabs(in->from)) ||
                 (row->with && llabs(row->with) < llabs(in->with));
    t->piece = across ? TURN : in->size;
}

dv_status ct_touch_create(ct_touch **out, dv_jit *jit, const dv_nest *n,
                          int from, dv_prim p, int32_t threads, dv_diag *diag)
{
    ct_touch *t = dv_alloc(sizeof *t);
    if (!t)
        return dv_nomem(diag);
    double value;
    *t = (ct_touch){.a = {.threads = threads},
                    .reads = !dv_prim_is_const(p, &value)};
    if (dv_prim_get(p)->kind == DV_PRIM_IS_BINARY)
        t->reads = 2;
    t->es = dv_dtype_get(n->dtype)->size_bytes;
    list_axes(t, n, from);
    ct_ways_join(&t->a);
    dv_status s = DV_OK;
    if (t->a.n > 1 && choose_turn(t))
        s = make_turns(t, jit, n->dtype, diag);
    else
        choose_inside(t);
    if (s == DV_OK)
        s = make_kernel(t, jit, n->dtype, p, diag);
    choose_cut(t);
    choose_piece(t);
    if (s)
        dv_release(t);
    else
        *out = t;
    return s;
}

// -- Running -----------------------------------------------------------------

// Elements of the operands; `with` is that of in1, where it is read.
typedef struct spot {
    const unsigned char *from, *with;
    unsigned char *to;
} spot;

static spot moved(const ct_touch *t, spot s, const ct_way *x, int64_t by)
{
    s.from += by * x->from * t->es;
    s.to += by * x->to * t->es;
    if (t->reads > 1)
        s.with += by * x->with * t->es;
    return s;
}

static void apply(const ct_touch *t, spot s, int64_t rows, int64_t n)
{
    void *both[] = {(unsigned char *)s.from, (unsigned char *)s.with, s.to};
    void *one[] = {both[0], s.to};
    dv_vec_args args = {rows, n, t->reads > 1 ? both : &one[!t->reads], NULL};
    t->run(&args);
}

// Blocks of the last two axes, turned one by one.
static void turn(const ct_touch *t, const ct_range *r, spot s)
{
    const ct_way *col = &t->a.at[t->a.n - 2], *row = col + 1;
    const ct_range *of_col = &r[t->a.n - 2], *of_row = of_col + 1;
    for (int64_t j = of_col->begin; j < of_col->end; j += TURN)
        for (int64_t i = of_row->begin; i < of_row->end; i += TURN) {
            int64_t rows = dv_min_i64(TURN, of_row->end - i);
            int64_t cols = dv_min_i64(TURN, of_col->end - j);
            spot at = moved(t, moved(t, s, col, j), row, i);
            int rest_i = rows < dv_min_i64(row->size, TURN);
            int rest_j = cols < dv_min_i64(col->size, TURN);
            t->turn[rest_i][rest_j](at.from, at.to);
            at.from = at.to;
            if (t->run)
                apply(t, at, cols, rows);
        }
}

static void inside(const ct_touch *t, const ct_range *r, spot s)
{
    const ct_way *row = &t->a.at[t->a.n - 2], *in = row + 1;
    const ct_range *of_row = &r[t->a.n - 2], *of_in = of_row + 1;
    if (t->turn[0][0]) {
        turn(t, r, s);
        return;
    }
    s = moved(t, moved(t, s, row, of_row->begin), in, of_in->begin);
    for (int64_t n, i = of_in->begin; i < of_in->end; i += n) {
        n = dv_min_i64(t->piece, of_in->end - i);
        apply(t, s, of_row->end - of_row->begin, n);
        s = moved(t, s, in, n);
    }
}

void ct_touch_part(const ct_touch *t, int32_t thread, const unsigned char *from,
                   const unsigned char *with, unsigned char *to)
{
    const ct_way begin = {1, t->a.from_off, t->a.with_off, t->a.to_off, 0};
    ct_range of[CT_MAX_WAYS];
    int64_t at[CT_MAX_WAYS];
    if (!ct_ways_part(&t->a, thread, of, at))
        return;
    do {
        spot s = moved(t, (spot){from, with, to}, &begin, 1);
        for (int32_t k = 0; k < t->a.n - 2; k++)
            s = moved(t, s, &t->a.at[k], at[k]);
        inside(t, of, s);
    } while (ct_ways_next(&t->a, of, at));
}
