// Reductions of in0, together with the touches of out.
//
//   c 40: in0 96, out 1     vectors run along the axis of in0's smallest steps.
//   k 96: in0 1             A kernel has it and one more inside: it reduces
//                           along one of them, or both. Loops go over others.
//
// Where loops over k are left, the kernels of their later turns begin with what
// is in out. So the first touch is in the kernel of the first turn, the last
// touch in that of the last.
#include "base/dtype.h"
#include "base/math.h"
#include "jit/vec.h"
#include "run/contract_ways.h"
#include "run/contract_in.h"
#include <stdlib.h>

enum { SHORT = 8 }; // an axis of less fills no vectors

struct ct_reduce {
    ct_ways a; // loops, k behind others; row, in
    int64_t es;
    dv_vec_fn run[2][2]; // in the first turn of k, in the last
};

// -- Axes --------------------------------------------------------------------

static int comes_before(const ct_way *a, const ct_way *b)
{
    if (a->is_k != b->is_k)
        return b->is_k;
    return llabs(a->from) > llabs(b->from);
}

static void list_axes(ct_reduce *r, const dv_nest *n)
{
    dv_nest all = *n;
    dv_nest_unite(&all);
    for (int i = 0; i < all.n_dims; i++) {
        const dv_nest_dim *d = &all.dims[i];
        ct_way x = {.size = d->size, .from = d->stride[DV_IN0]};
        x.to = d->stride[DV_OUT];
        x.is_k = d->type == DV_NEST_K;
        if (d->size > 1)
            ct_ways_add(&r->a, x, comes_before);
    }
}

// -- What a kernel has inside ------------------------------------------------

// What vectors run along: the smallest step in in0; but windows of a few
// elements are gone over side by side, along out. -1: there is none.
static int32_t find_in(const ct_reduce *r)
{
    int32_t best = -1;
    for (int32_t i = 0; i < r->a.n; i++)
        if (ct_way_is_near(&r->a.at[i]) &&
            (best < 0 || llabs(r->a.at[i].from) < llabs(r->a.at[best].from)))
            best = i;
    if (best < 0 || !r->a.at[best].is_k || r->a.at[best].size >= SHORT)
        return best;
    for (int32_t i = 0; i < r->a.n; i++)
        if (!r->a.at[i].is_k && r->a.at[i].to == 1 &&
            ct_way_is_near(&r->a.at[i]) && r->a.at[i].size >= SHORT)
            return i;
    return best;
}

static int32_t find_longest(const ct_reduce *r, int is_k)
{
    int32_t best = -1;
    for (int32_t i = 0; i < r->a.n; i++)
        if (r->a.at[i].is_k == is_k && ct_way_is_near(&r->a.at[i]) &&
            (best < 0 || r->a.at[i].size > r->a.at[best].size))
            best = i;
    return best;
}

// Take an axis out of the list; an axis of one element, if there is none.
static ct_way take(ct_reduce *r, int32_t i, int is_k)
{
    ct_way x = {.size = 1, .is_k = is_k};
    if (i < 0)
        return x;
    x = r->a.at[i];
    for (r->a.n--; i < r->a.n; i++)
        r->a.at[i] = r->a.at[i + 1];
    return x;
}

// Beside an axis of k comes one of out, or one more of k; beside one of out
// comes k.
static void choose_inside(ct_reduce *r)
{
    ct_way in = take(r, find_in(r), 1);
    int32_t i = find_longest(r, !in.is_k), other = i < 0 && in.is_k;
    ct_way row = take(r, other ? find_longest(r, 1) : i, !in.is_k);
    r->a.at[r->a.n++] = row;
    r->a.at[r->a.n++] = in;
}

// The longest axis of out is shared, the outermost of such; what vectors run
// along only where its pieces are of use.
static void choose_cut(ct_reduce *r)
{
    const ct_way *in = &r->a.at[r->a.n - 1];
    r->a.cut = -1;
    for (int32_t i = 0; i < r->a.n - 1; i++)
        if (!r->a.at[i].is_k &&
            (r->a.cut < 0 || r->a.at[i].size > r->a.at[r->a.cut].size))
            r->a.cut = i;
    int64_t size = r->a.cut < 0 ? 1 : r->a.at[r->a.cut].size;
    if (!in->is_k && size < r->a.threads && in->size > size)
        r->a.cut = r->a.n - 1;
    r->a.cut_unit = r->a.cut == r->a.n - 1 ? CT_LEAST_PIECE : 1;
}

// -- Making ------------------------------------------------------------------

typedef struct maker {
    dv_vec_node nodes[6];
    dv_vec_shape s;
} maker;

static uint16_t add(maker *m, dv_vec_node n)
{
    m->nodes[m->s.n_nodes] = n;
    return m->s.n_nodes++;
}

// What a touch makes of a node.
static uint16_t touched(maker *m, dv_prim p, uint16_t node)
{
    dv_vec_node n = {.kind = DV_VEC_CONST};
    int fn = dv_prim_get(p)->fn;
    if (dv_prim_is_const(p, &n.value))
        return add(m, n);
    if (fn < 0)
        return node;
    n = (dv_vec_node){
        .kind = DV_VEC_APPLY, .fn = (uint8_t)fn, .arg = {node, 0, 0}};
    return add(m, n);
}

static uint8_t reducer_of(dv_prim p)
{
    return p == DV_PRIM_SUM        ? DV_RED_SUM
           : p == DV_PRIM_PROD     ? DV_RED_PROD
           : p == DV_PRIM_MIN_OVER ? DV_RED_MIN
                                   : DV_RED_MAX;
}

static dv_status make_kernel(ct_reduce *r, dv_jit *jit, const dv_nest *n,
                             int first, int last, dv_diag *diag)
{
    const ct_way *row = &r->a.at[r->a.n - 2], *in = row + 1;
    uint8_t dtype = (uint8_t)n->dtype;
    dv_prim begin = first ? n->first : DV_PRIM_NONE;
    const dv_vec_operand from = {in->from, row->from, .dtype = dtype};
    const dv_vec_operand to = {in->to, row->to, .dtype = dtype};
    const dv_vec_operand operands[] = {from, to, to};
    maker m = {.s = {.operands = operands,
                     .n_operands = 3,
                     .compute = dtype,
                     .reducer = reducer_of(n->main)}};
    m.s.nodes = m.nodes;
    m.s.reduce = !in->is_k   ? DV_VEC_OUTER
                 : row->is_k ? DV_VEC_BOTH
                             : DV_VEC_INNER;
    m.s.value = add(&m, (dv_vec_node){.kind = DV_VEC_LOAD});
    m.s.result = add(&m, (dv_vec_node){.kind = DV_VEC_REDUCED});
    if (begin != dv_prim_of_nothing(n->main)) {
        uint16_t old = add(&m, (dv_vec_node){.kind = DV_VEC_LOAD, .arg = {1}});
        dv_vec_node both = {.kind = DV_VEC_APPLY,
                            .fn = (uint8_t)dv_prim_get(n->main)->fn};
        both.arg[0] = touched(&m, begin, old);
        both.arg[1] = m.s.result;
        m.s.result = add(&m, both);
    }
    if (last)
        m.s.result = touched(&m, n->last, m.s.result);
    return dv_jit_vec(jit, &m.s, &r->run[first][last], diag);
}

dv_status ct_reduce_create(ct_reduce **out, dv_jit *jit, const dv_nest *n,
                           int32_t threads, dv_diag *diag)
{
    ct_reduce *r = dv_alloc(sizeof *r);
    if (!r)
        return dv_nomem(diag);
    *r = (ct_reduce){.a = {.threads = threads}};
    r->es = dv_dtype_get(n->dtype)->size_bytes;
    list_axes(r, n);
    ct_ways_join(&r->a);
    choose_inside(r);
    choose_cut(r);
    dv_status s = DV_OK;
    for (int i = 0; i < 4 && s == DV_OK; i++)
        s = make_kernel(r, jit, n, i / 2, i % 2, diag);
    if (s)
        dv_release(r);
    else
        *out = r;
    return s;
}

// -- Running -----------------------------------------------------------------

// The kernel, where the loops stand.
static void inside(const ct_reduce *r, const ct_range *of, const int64_t *at,
                   const unsigned char *from, unsigned char *to)
{
    int64_t from_off = r->a.from_off, to_off = r->a.to_off;
    int first = 1, last = 1;
    for (int32_t i = 0; i < r->a.n; i++) {
        const ct_way *x = &r->a.at[i];
        from_off += at[i] * x->from;
        to_off += at[i] * x->to;
        if (x->is_k && i < r->a.n - 2) {
            first &= at[i] == 0;
            last &= at[i] == x->size - 1;
        }
    }
    void *operands[] = {(unsigned char *)from + from_off * r->es,
                        to + to_off * r->es, to + to_off * r->es};
    const ct_range *row = &of[r->a.n - 2], *in = row + 1;
    dv_vec_args args = {row->end - row->begin, in->end - in->begin, operands,
                        NULL};
    r->run[first][last](&args);
}

void ct_reduce_part(const ct_reduce *r, int32_t thread,
                    const unsigned char *from, unsigned char *to)
{
    ct_range of[CT_MAX_WAYS];
    int64_t at[CT_MAX_WAYS];
    if (!ct_ways_part(&r->a, thread, of, at))
        return;
    do
        inside(r, of, at, from, to);
    while (ct_ways_next(&r->a, of, at));
}
