// Reductions of in0, together with the touches of out.
//
//   c 40: in0 96, out 1     vectors run along the axis of in0's smallest steps.
//   k 96: in0 1             A kernel has it and one more inside: it reduces
//                           along one of them, or both. Loops go over others.
//
// A dot reduces products of in0 and in1.
//
// Where loops over k are left, the kernels of their later turns begin with what
// is in out. So the first touch is in the kernel of the first turn, the last
// touch in that of the last.
//
// A long reduction to few elements is cut along k into blocks, which threads
// share; their results lie apart, dense, and are reduced in turn. How it is cut
// depends on sizes alone, so that bits do not depend on the threads.
#include "base/dtype.h"
#include "base/math.h"
#include "jit/vec/vec.h"
#include "contract/state.h"
#include "contract/ways.h"
#include <stdlib.h>

enum {
    SHORT = 8,         // an axis of less fills no vectors
    FEW = 64,          // elements of out that are no work for threads
    BLOCK = 1 << 15,   // elements of in0 that are
    MOST_BLOCKS = 1024 // of such
};

struct ct_reduce {
    ct_ways a; // loops, k behind others; row, in
    ct_look look;
    int64_t es_from, es_with, es_to;
    int dot;
    double count;        // that a mean divides by; 0: it is none
    dv_vec_fn run[2][2]; // in the first turn of k, in the last
    // In blocks of an axis; 0: not.
    int64_t n_blocks, block;
    int32_t block_axis;
    int64_t block_bytes;  // of the results of one
    ct_reduce *finish;    // owned; reduces those results
    unsigned char *parts; // owned
};

// -- Axes --------------------------------------------------------------------

static int comes_before(const ct_way *a, const ct_way *b)
{
    if (a->is_k != b->is_k)
        return b->is_k;
    return llabs(a->step[DV_IN0]) > llabs(b->step[DV_IN0]);
}

static int64_t step_of(const ct_way *x)
{
    return llabs(x->step[DV_IN0]) + llabs(x->step[DV_IN1]);
}

// -- What a kernel has inside ------------------------------------------------

// What vectors run along: the smallest step in the inputs; but windows of a few
// elements are gone over side by side, along out. -1: there is none.
static int32_t find_in(const ct_reduce *r)
{
    int32_t best = -1;
    const ct_way *at = r->a.at;
    for (int32_t i = 0; i < r->a.n; i++)
        if (ct_way_is_near(&at[i]) &&
            (best < 0 || step_of(&at[i]) < step_of(&at[best])))
            best = i;
    if (best < 0 || !at[best].is_k || at[best].size >= SHORT)
        return best;
    for (int32_t i = 0; i < r->a.n; i++)
        if (!at[i].is_k && at[i].step[DV_OUT] == 1 && ct_way_is_near(&at[i]) &&
            at[i].size >= SHORT)
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
    ct_way x = {.size = 1, .is_k = (uint8_t)is_k};
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
    dv_vec_node nodes[10];
    dv_vec_shape s;
} maker;

static uint16_t add(maker *m, dv_vec_node n)
{
    m->nodes[m->s.n_nodes] = n;
    return m->s.n_nodes++;
}

static uint16_t apply(maker *m, int fn, uint16_t a, uint16_t b)
{
    return add(m, (dv_vec_node){
                      .kind = DV_VEC_APPLY, .fn = (uint8_t)fn, .arg = {a, b}});
}

// What a touch makes of a node.
static uint16_t touched(maker *m, dv_prim p, uint16_t node)
{
    dv_vec_node n = {.kind = DV_VEC_CONST};
    int fn = dv_prim_get(p)->fn;
    if (dv_prim_is_const(p, &n.value))
        return add(m, n);
    return fn < 0 ? node : apply(m, fn, node, 0);
}

static uint8_t reducer_of(dv_prim p)
{
    return p == DV_PRIM_PROD       ? DV_RED_PROD
           : p == DV_PRIM_MIN_OVER ? DV_RED_MIN
           : p == DV_PRIM_MAX_OVER ? DV_RED_MAX
                                   : DV_RED_SUM;
}

static dv_status make_kernel(ct_reduce *r, dv_jit *jit, const dv_nest *n,
                             int first, int last, dv_diag *diag)
{
    const ct_way *row = &r->a.at[r->a.n - 2], *in = row + 1;
    dv_prim begin = first ? n->first : DV_PRIM_NONE;
    const dv_vec_operand from = {in->step[DV_IN0], row->step[DV_IN0],
                                 .dtype = (uint8_t)dv_nest_dtype(n, DV_IN0)};
    const dv_vec_operand to = {in->step[DV_OUT], row->step[DV_OUT],
                               .dtype = (uint8_t)n->dtype};
    const dv_vec_operand with = {in->step[DV_IN1], row->step[DV_IN1],
                                 .dtype = (uint8_t)dv_nest_dtype(n, DV_IN1)};
    int dot = n->main == DV_PRIM_DOT;
    const dv_vec_operand operands[] = {from, dot ? with : to, to, to};
    maker m = {.s = {.operands = operands,
                     .n_operands = (uint16_t)(3 + dot),
                     .compute = (uint8_t)ct_compute_of(n),
                     .reducer = reducer_of(n->main)}};
    m.s.nodes = m.nodes;
    m.s.reduce = !in->is_k   ? DV_VEC_OUTER
                 : row->is_k ? DV_VEC_BOTH
                             : DV_VEC_INNER;
    m.s.value = add(&m, (dv_vec_node){.kind = DV_VEC_LOAD});
    if (dot) {
        dv_vec_node in1 = {.kind = DV_VEC_LOAD, .arg = {1}};
        m.s.value = apply(&m, DV_FN_MUL, m.s.value, add(&m, in1));
    }
    m.s.result = add(&m, (dv_vec_node){.kind = DV_VEC_REDUCED});
    if (begin != dv_prim_neutral(n->main)) {
        uint16_t old = add(&m, (dv_vec_node){.kind = DV_VEC_LOAD,
                                             .arg = {(uint16_t)(1 + dot)}});
        old = touched(&m, begin, old);
        m.s.result = apply(&m, dv_prim_get(n->main)->fn, old, m.s.result);
    }
    if (last && r->count > 0) {
        dv_vec_node count = {.kind = DV_VEC_CONST, .value = r->count};
        m.s.result = apply(&m, DV_FN_DIV, m.s.result, add(&m, count));
    }
    if (last)
        m.s.result = touched(&m, n->last, m.s.result);
    return dv_jit_vec(jit, &m.s, &r->run[first][last], diag);
}

// Between turns of loops over k, sums are in out.
static dv_status check_type(const ct_reduce *r, const dv_nest *n, dv_diag *diag)
{
    dv_dtype in = ct_compute_of(n);
    int loops = 0;
    for (int32_t i = 0; i < r->a.n - 2; i++)
        loops += r->a.at[i].is_k;
    if (loops && in != n->dtype)
        return dv_fail(diag, DV_E_DTYPE, (dv_loc){n->src, n->off},
                       "%s adds up in %s, out is %s and has no room for that "
                       "between %d loops over k",
                       dv_prim_get(n->main)->name, dv_dtype_get(in)->name,
                       dv_dtype_get(n->dtype)->name, loops);
    // A function of what 32 bits have no room for.
    if (in == DV_I32 && dv_prim_get(n->last)->fn >= 0 &&
        (n->main == DV_PRIM_SUM || n->main == DV_PRIM_PROD ||
         n->main == DV_PRIM_DOT))
        return dv_fail(diag, DV_E_DTYPE, (dv_loc){n->src, n->off},
                       "%s of a %s: kernels of whole numbers have 32 bits",
                       dv_prim_get(n->last)->name, dv_prim_get(n->main)->name);
    return DV_OK;
}

static dv_status make(ct_reduce *r, dv_jit *jit, const dv_nest *n,
                      dv_diag *diag)
{
    r->es_from = dv_dtype_get(dv_nest_dtype(n, DV_IN0))->size_bytes;
    r->es_with = dv_dtype_get(dv_nest_dtype(n, DV_IN1))->size_bytes;
    r->es_to = dv_dtype_get(n->dtype)->size_bytes;
    r->dot = n->main == DV_PRIM_DOT;
    r->look = ct_look_of(n);
    ct_ways_list(&r->a, n, comes_before);
    ct_ways_join(&r->a);
    choose_inside(r);
    choose_cut(r);
    DV_TRY(check_type(r, n, diag));
    for (int i = 0; i < 4; i++)
        DV_TRY(make_kernel(r, jit, n, i / 2, i % 2, diag));
    return DV_OK;
}

// -- Blocks ------------------------------------------------------------------

// How many blocks: by sizes alone. 0: it is not cut.
static int64_t count_blocks(const dv_nest *all)
{
    int64_t out = 1, k = 1;
    for (int i = 0; i < all->n_dims; i++) {
        int64_t *n = all->dims[i].type == DV_NEST_K ? &k : &out;
        if (!dv_mul_i64(n, *n, all->dims[i].size))
            return 0;
    }
    if (out > FEW || all->look)
        return 0;
    int64_t n = dv_min_i64(k / dv_ceil_div(BLOCK, out), MOST_BLOCKS);
    return n < 2 ? 0 : n;
}

// The nest of the blocks, whose results are dense, and that of those: k goes
// over the blocks.
static int64_t cut_nest(dv_nest *blocks, dv_nest *results)
{
    dv_dtype in = ct_compute_of(blocks);
    int64_t dense = 1;
    results->n_dims = 0;
    for (int i = 0; i < blocks->n_dims; i++) {
        dv_nest_dim *d = &blocks->dims[i];
        if (d->type == DV_NEST_K)
            continue;
        results->dims[results->n_dims] = *d;
        d->stride[DV_OUT] = dense;
        results->dims[results->n_dims++].stride[DV_IN0] = dense;
        dense *= d->size;
    }
    for (int o = DV_IN0; o <= DV_IN1; o++) // before that of out changes
        blocks->types[o] = (uint8_t)(1 + dv_nest_dtype(blocks, o));
    blocks->dtype = in;
    blocks->first = dv_prim_neutral(blocks->main);
    blocks->last = DV_PRIM_NONE;
    results->types[DV_IN0] = (uint8_t)(1 + in);
    if (results->main == DV_PRIM_DOT)
        results->main = DV_PRIM_SUM;
    return dense;
}

// What blocks are cut from: the longest axis of k, wherever it is. At least so
// many elements of it that vectors are full.
static void choose_blocks(ct_reduce *r, int64_t n)
{
    int32_t best = -1;
    for (int32_t i = 0; i < r->a.n; i++)
        if (r->a.at[i].is_k &&
            (best < 0 || r->a.at[i].size > r->a.at[best].size))
            best = i;
    int64_t size = r->a.at[best].size, unit = best == r->a.n - 1 ? 64 : 1;
    r->block_axis = best;
    r->block = dv_ceil_div(dv_ceil_div(size, n), unit) * unit;
    r->n_blocks = dv_ceil_div(size, r->block);
}

static dv_status make_blocks(ct_reduce *r, dv_jit *jit, const dv_nest *n,
                             int64_t n_blocks, double count, dv_diag *diag)
{
    dv_nest blocks = *n, results = *n;
    int64_t dense = cut_nest(&blocks, &results);
    DV_TRY(make(r, jit, &blocks, diag));
    choose_blocks(r, n_blocks);
    r->block_bytes = dense * r->es_to;
    r->parts = dv_alloc((size_t)(r->n_blocks * r->block_bytes));
    r->finish = dv_alloc(sizeof *r->finish);
    if (!r->parts || !r->finish)
        return dv_nomem(diag);
    *r->finish = (ct_reduce){.a = {.threads = r->a.threads}, .count = count};
    results.dims[results.n_dims++] = (dv_nest_dim){.type = DV_NEST_K,
                                                   .exec = DV_NEST_SEQ,
                                                   .size = r->n_blocks,
                                                   .stride = {dense, 0, 0}};
    return make(r->finish, jit, &results, diag);
}

dv_status ct_reduce_create(ct_reduce **out, dv_jit *jit, const dv_nest *n,
                           int32_t threads, dv_diag *diag)
{
    ct_reduce *r = dv_alloc(sizeof *r);
    if (!r)
        return dv_nomem(diag);
    *r = (ct_reduce){.a = {.threads = threads}};
    dv_nest all = *n;
    dv_nest_untile(&all);
    double count = n->mean ? dv_nest_count_k(n) : 0;
    int64_t blocks = count_blocks(&all);
    dv_status s = DV_OK;
    if (blocks) {
        s = make_blocks(r, jit, &all, blocks, count, diag);
    } else {
        r->count = count;
        s = make(r, jit, &all, diag);
    }
    if (s)
        ct_reduce_destroy(r);
    else
        *out = r;
    return s;
}

void ct_reduce_destroy(ct_reduce *r)
{
    if (!r)
        return;
    dv_release(r->finish);
    dv_release(r->parts);
    dv_release(r);
}

// -- Running -----------------------------------------------------------------

// The kernel, where the loops stand.
static void inside(const ct_reduce *r, const ct_range *of, const int64_t *at,
                   const ct_data *d)
{
    int64_t from = r->a.off[DV_IN0], to = r->a.off[DV_OUT], look;
    int64_t with = r->a.off[DV_IN1], in2 = r->a.off[DV_IN2];
    int first = 1, last = 1;
    for (int32_t i = 0; i < r->a.n; i++) {
        const ct_way *x = &r->a.at[i];
        from += at[i] * x->step[DV_IN0];
        with += at[i] * x->step[DV_IN1];
        to += at[i] * x->step[DV_OUT];
        in2 += at[i] * x->step[DV_IN2];
        if (x->is_k && i < r->a.n - 2) {
            first &= at[i] == of[i].begin;
            last &= at[i] == of[i].end - 1;
        }
    }
    if (r->look.operand >= 0) {
        if (!ct_look_up(&r->look, d->in2, in2, &look, d->bad))
            return;
        *(r->look.operand == DV_IN0 ? &from : &with) += look;
    }
    unsigned char *out = d->out + to * r->es_to;
    void *operands[4] = {d->in0 + from * r->es_from, out, out, out};
    if (r->dot)
        operands[1] = d->in1 + with * r->es_with;
    const ct_range *row = &of[r->a.n - 2], *in = row + 1;
    dv_vec_args args = {row->end - row->begin, in->end - in->begin, operands,
                        NULL};
    r->run[first][last](&args);
}

static void go(const ct_reduce *r, const ct_range *of, int64_t *at,
               const ct_data *d)
{
    do
        inside(r, of, at, d);
    while (ct_ways_next(&r->a, of, at));
}

static void go_blocks(const ct_reduce *r, int32_t thread, const ct_data *d)
{
    ct_range of[CT_MAX_WAYS];
    int64_t at[CT_MAX_WAYS];
    int64_t end = r->n_blocks * (thread + 1) / r->a.threads;
    for (int64_t b = r->n_blocks * thread / r->a.threads; b < end; b++) {
        ct_data part = *d;
        part.out = r->parts + b * r->block_bytes;
        for (int32_t i = 0; i < r->a.n; i++)
            of[i] = (ct_range){0, r->a.at[i].size};
        of[r->block_axis].begin = b * r->block;
        of[r->block_axis].end =
            dv_min_i64(of[r->block_axis].end, (b + 1) * r->block);
        for (int32_t i = 0; i < r->a.n; i++)
            at[i] = of[i].begin;
        go(r, of, at, &part);
    }
}

void ct_reduce_part(const ct_reduce *r, int32_t thread, const ct_data *d)
{
    ct_range of[CT_MAX_WAYS];
    int64_t at[CT_MAX_WAYS];
    if (r->n_blocks)
        go_blocks(r, thread, d);
    else if (ct_ways_part(&r->a, thread, of, at))
        go(r, of, at, d);
}

int ct_reduce_combines(const ct_reduce *r)
{
    return r->n_blocks > 0;
}

void ct_reduce_combine(const ct_reduce *r, int32_t thread, const ct_data *d)
{
    ct_data results = {.in0 = r->parts, .out = d->out, .bad = d->bad};
    if (r->n_blocks)
        ct_reduce_part(r->finish, thread, &results);
}
