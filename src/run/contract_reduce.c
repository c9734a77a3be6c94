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
#include "run/contract_in.h"
#include <stdlib.h>

enum {
    SHORT = 8,        // an axis of less fills no vectors
    LEAST_PIECE = 16, // elements of a row that threads share
};

typedef struct axis {
    int64_t size, from, to; // steps in elements
    int32_t is_k;
} axis;

struct ct_reduce {
    int32_t n, threads, cut; // cut: the axis that threads share; -1: none
    int64_t cut_unit;        // it is cut at whole ones of these
    int64_t es;
    int64_t from_off, to_off;        // where the axes begin, in elements
    axis axes[DV_NEST_MAX_DIMS + 2]; // loops, k behind others; row, in
    dv_vec_fn run[2][2];             // in the first turn of k, in the last
};

// -- Axes --------------------------------------------------------------------

static int comes_before(const axis *a, const axis *b)
{
    if (a->is_k != b->is_k)
        return b->is_k;
    return llabs(a->from) > llabs(b->from);
}

static void insert(ct_reduce *r, axis x)
{
    int i = r->n++;
    for (; i > 0 && comes_before(&x, &r->axes[i - 1]); i--)
        r->axes[i] = r->axes[i - 1];
    r->axes[i] = x;
}

// Out is gone through forwards, and so is in0 along k.
static void list_axes(ct_reduce *r, const dv_nest *n)
{
    dv_nest all = *n;
    dv_nest_unite(&all);
    for (int i = 0; i < all.n_dims; i++) {
        const dv_nest_dim *d = &all.dims[i];
        axis x = {d->size, d->stride[DV_IN0], d->stride[DV_OUT],
                  d->type == DV_NEST_K};
        if (d->size == 1)
            continue;
        if (x.is_k ? x.from < 0 : x.to < 0) {
            r->from_off += x.from * (x.size - 1);
            r->to_off += x.to * (x.size - 1);
            x.from = -x.from;
            x.to = -x.to;
        }
        insert(r, x);
    }
}

static void join_axes(ct_reduce *r)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < r->n; i++) {
        const axis x = r->axes[i];
        axis *o = kept ? &r->axes[kept - 1] : NULL;
        if (o && o->is_k == x.is_k && o->from == x.from * x.size &&
            o->to == x.to * x.size)
            *o = (axis){o->size * x.size, x.from, x.to, x.is_k};
        else
            r->axes[kept++] = x;
    }
    r->n = kept;
}

// Can a kernel step so far? Others are left to the loops.
static int is_near(const axis *x)
{
    return llabs(x->from) <= DV_VEC_MAX_STRIDE && x->to <= DV_VEC_MAX_STRIDE;
}

// -- What a kernel has inside ------------------------------------------------

// What vectors run along: the smallest step in in0; but windows of a few
// elements are gone over side by side, along out. -1: there is none.
static int32_t find_in(const ct_reduce *r)
{
    int32_t best = -1;
    for (int32_t i = 0; i < r->n; i++)
        if (is_near(&r->axes[i]) &&
            (best < 0 || llabs(r->axes[i].from) < llabs(r->axes[best].from)))
            best = i;
    if (best < 0 || !r->axes[best].is_k || r->axes[best].size >= SHORT)
        return best;
    for (int32_t i = 0; i < r->n; i++)
        if (!r->axes[i].is_k && r->axes[i].to == 1 && is_near(&r->axes[i]) &&
            r->axes[i].size >= SHORT)
            return i;
    return best;
}

static int32_t find_longest(const ct_reduce *r, int is_k)
{
    int32_t best = -1;
    for (int32_t i = 0; i < r->n; i++)
        if (r->axes[i].is_k == is_k && is_near(&r->axes[i]) &&
            (best < 0 || r->axes[i].size > r->axes[best].size))
            best = i;
    return best;
}

// Take an axis out of the list; an axis of one element, if there is none.
static axis take(ct_reduce *r, int32_t i, int is_k)
{
    axis x = {.size = 1, .is_k = is_k};
    if (i < 0)
        return x;
    x = r->axes[i];
    for (r->n--; i < r->n; i++)
        r->axes[i] = r->axes[i + 1];
    return x;
}

// Beside an axis of k comes one of out, or one more of k; beside one of out
// comes k.
static void choose_inside(ct_reduce *r)
{
    axis in = take(r, find_in(r), 1);
    int32_t i = find_longest(r, !in.is_k), other = i < 0 && in.is_k;
    axis row = take(r, other ? find_longest(r, 1) : i, !in.is_k);
    r->axes[r->n++] = row;
    r->axes[r->n++] = in;
}

// The longest axis of out is shared, the outermost of such; what vectors run
// along only where its pieces are of use.
static void choose_cut(ct_reduce *r)
{
    const axis *in = &r->axes[r->n - 1];
    r->cut = -1;
    for (int32_t i = 0; i < r->n - 1; i++)
        if (!r->axes[i].is_k &&
            (r->cut < 0 || r->axes[i].size > r->axes[r->cut].size))
            r->cut = i;
    int64_t size = r->cut < 0 ? 1 : r->axes[r->cut].size;
    if (!in->is_k && size < r->threads && in->size > size)
        r->cut = r->n - 1;
    r->cut_unit = r->cut == r->n - 1 ? LEAST_PIECE : 1;
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
    const axis *row = &r->axes[r->n - 2], *in = row + 1;
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
    *r = (ct_reduce){.threads = threads};
    r->es = dv_dtype_get(n->dtype)->size_bytes;
    list_axes(r, n);
    join_axes(r);
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

typedef struct range {
    int64_t begin, end;
} range;

static int64_t cut_at(const ct_reduce *r, int64_t size, int32_t thread)
{
    int64_t units = dv_ceil_div(size, r->cut_unit);
    return dv_min_i64(size, units * thread / r->threads * r->cut_unit);
}

// The kernel, where the loops stand.
static void inside(const ct_reduce *r, const range *of, const int64_t *at,
                   const unsigned char *from, unsigned char *to)
{
    int64_t from_off = r->from_off, to_off = r->to_off;
    int first = 1, last = 1;
    for (int32_t i = 0; i < r->n; i++) {
        const axis *x = &r->axes[i];
        from_off += at[i] * x->from;
        to_off += at[i] * x->to;
        if (x->is_k && i < r->n - 2) {
            first &= at[i] == 0;
            last &= at[i] == x->size - 1;
        }
    }
    void *operands[] = {(unsigned char *)from + from_off * r->es,
                        to + to_off * r->es, to + to_off * r->es};
    const range *row = &of[r->n - 2], *in = row + 1;
    dv_vec_args args = {row->end - row->begin, in->end - in->begin, operands,
                        NULL};
    r->run[first][last](&args);
}

void ct_reduce_part(const ct_reduce *r, int32_t thread,
                    const unsigned char *from, unsigned char *to)
{
    range of[DV_NEST_MAX_DIMS + 2];
    int64_t at[DV_NEST_MAX_DIMS + 2];
    if (r->cut < 0 && thread > 0)
        return;
    for (int32_t i = 0; i < r->n; i++) {
        int64_t size = r->axes[i].size;
        of[i] = (range){0, size};
        if (i == r->cut)
            of[i] =
                (range){cut_at(r, size, thread), cut_at(r, size, thread + 1)};
        if (of[i].begin == of[i].end)
            return;
        at[i] = of[i].begin;
    }
    for (;;) {
        int32_t i = r->n - 3;
        inside(r, of, at, from, to);
        while (i >= 0 && ++at[i] == of[i].end) {
            at[i] = of[i].begin;
            i--;
        }
        if (i < 0)
            return;
    }
}
