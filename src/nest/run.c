// The reference executor: the loops as they are written, a point at a time.
// Threads and kernels do not exist here: all dimensions are loops, and the
// touches of an output block are those of its elements, which meet their
// first and last k on their own.
#include "nest/nest.h"
#include "base/dtype.h"
#include "base/math.h"
#include <inttypes.h>

typedef struct walk {
    const dv_nest *n;
    const dv_nest_tiles *tiles;
    int64_t *at; // a dimension's index among the elements of all its tiles
    const dv_prim_info *main;
} walk;

// How often the loop runs where the loops around it stand: the last tile may
// be cut short. Only one k at a time is at its last element this way, too.
static int64_t turns(const walk *w, int dim, int64_t *from)
{
    const dv_nest_dim *d = &w->n->dims[dim];
    int outer = w->tiles->outer[dim];
    *from = outer < 0 ? 0 : w->at[outer];
    return d->whole ? dv_min_i64(d->size, dv_ceil_div(d->whole - *from,
                                                      w->tiles->unit[dim]))
                    : d->size;
}

#define REAL  float
#define APPLY apply_f32
#define POINT point_f32
#define LOOP  loop_f32
#include "nest/run_body.h"
#undef REAL
#undef APPLY
#undef POINT
#undef LOOP

#define REAL  double
#define APPLY apply_f64
#define POINT point_f64
#define LOOP  loop_f64
#include "nest/run_body.h"

// -- Operands of any types ---------------------------------------------------

// Everything is a double, and rounded where it is stored; what is computed of
// whole numbers alone wraps around in 64 bits. All k are innermost: an element
// sees them in the same order, and its sum is never stored.
typedef struct any {
    walk w;
    dv_nest n; // with k behind the others
    char *const *at;
    int32_t n_free;               // dimensions that are no k
    int64_t off[DV_MAX_OPERANDS]; // elements, where the loops stand
    double sum, count;            // of k
    int64_t whole;                // the sum, where compute is DV_I64
    dv_dtype compute;
    int64_t bad_index; // that was found; -1: none was
    int is_bad;
} any;

// What it is computed in has no room for more.
static double rounded(const any *x, double v)
{
    return x->compute == DV_F32 ? (double)(float)v : v;
}

static double apply_any(dv_prim p, double x)
{
    const dv_prim_info *info = dv_prim_get(p);
    double value;
    if (dv_prim_is_const(p, &value))
        return value;
    return info->fn < 0 ? x : dv_fn_apply((dv_fn)info->fn, x, 0, 0);
}

// Where an operand is, with what an index adds. 0: it is no index.
static int find(any *x, int o, int64_t *off)
{
    const dv_nest *n = &x->n;
    *off = x->off[o];
    if (n->look != 1 + o)
        return 1;
    double i = dv_load(dv_nest_dtype(n, DV_IN2), x->at[DV_IN2], x->off[DV_IN2]);
    if (i < 0 || i >= (double)n->index_count) {
        x->bad_index = i < 0x1p62 ? (int64_t)i : INT64_MAX;
        x->is_bad = 1;
        return 0;
    }
    *off += (int64_t)i * n->index_stride;
    return 1;
}

static double operand(any *x, int o)
{
    int64_t off;
    if (x->n.constants >> o & 1)
        return rounded(x, x->n.value[o]);
    if (!dv_nest_has(&x->n, o) || !find(x, o, &off))
        return 0;
    return dv_load(dv_nest_dtype(&x->n, o), x->at[o], off);
}

static double point_any(any *x)
{
    const dv_nest *n = &x->n;
    dv_fn fn = (dv_fn)dv_prim_get(n->main)->fn;
    double in0 = operand(x, DV_IN0);
    if (dv_nest_is_unary(n))
        return rounded(x, apply_any(n->main, in0));
    if (dv_nest_is_reduce(n) && n->main != DV_PRIM_DOT)
        return dv_fn_apply(fn, x->sum, in0, 0);
    double in1 = operand(x, DV_IN1);
    if (dv_nest_is_product(n) || n->main == DV_PRIM_DOT)
        return x->sum + in0 * in1;
    double in2 = dv_nest_is_select(n) ? operand(x, DV_IN2) : 0;
    return rounded(x, dv_fn_apply(fn, in0, in1, in2));
}

static int64_t to_whole(double v)
{
    return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

static int64_t step_whole(dv_fn fn, int64_t x, int64_t y)
{
    uint64_t a = (uint64_t)x, b = (uint64_t)y;
    switch (fn) {
    case DV_FN_ADD:
        return (int64_t)(a + b);
    case DV_FN_SUB:
        return (int64_t)(a - b);
    case DV_FN_MUL:
        return (int64_t)(a * b);
    case DV_FN_NEG:
        return (int64_t)(0 - a);
    case DV_FN_ABS:
        return x < 0 ? (int64_t)(0 - a) : x;
    case DV_FN_MIN:
        return x < y ? x : y;
    case DV_FN_MAX:
        return x > y ? x : y;
    case DV_FN_RELU:
        return x > 0 ? x : 0;
    default: // comparisons
        return to_whole(dv_fn_apply(fn, (double)x, (double)y, 0));
    }
}

static int64_t apply_whole(dv_prim p, int64_t x)
{
    double value;
    if (dv_prim_is_const(p, &value))
        return to_whole(value);
    int fn = dv_prim_get(p)->fn;
    return fn < 0 ? x : step_whole((dv_fn)fn, x, 0);
}

static int64_t point_whole(any *x)
{
    const dv_nest *n = &x->n;
    dv_fn fn = (dv_fn)dv_prim_get(n->main)->fn;
    int64_t in0 = to_whole(operand(x, DV_IN0));
    if (dv_nest_is_unary(n))
        return apply_whole(n->main, in0);
    if (dv_nest_is_reduce(n) && n->main != DV_PRIM_DOT)
        return step_whole(fn, x->whole, in0);
    int64_t in1 = to_whole(operand(x, DV_IN1));
    if (dv_nest_is_product(n) || n->main == DV_PRIM_DOT)
        return step_whole(DV_FN_ADD, x->whole, step_whole(DV_FN_MUL, in0, in1));
    if (dv_nest_is_select(n))
        return in0 ? in1 : to_whole(operand(x, DV_IN2));
    return step_whole(fn, in0, in1);
}

// As a tensor of the type holds it.
static double stored_whole(dv_dtype t, int64_t v)
{
    return t == DV_I32  ? (double)(int32_t)(uint32_t)(uint64_t)v
           : t == DV_I8 ? (double)(int8_t)(uint8_t)(uint64_t)v
                        : (double)v;
}

static void loop_any(any *x, int dim);

static void element_whole(any *x, int64_t off)
{
    const dv_nest *n = &x->n;
    x->whole = to_whole(dv_load(n->dtype, x->at[DV_OUT], off));
    if (n->first)
        x->whole = apply_whole(n->first, x->whole);
    loop_any(x, x->n_free);
    if (n->last)
        x->whole = apply_whole(n->last, x->whole);
    if (!x->is_bad)
        dv_store(n->dtype, x->at[DV_OUT], off,
                 stored_whole(n->dtype, x->whole));
}

// One element of out.
static void element(any *x)
{
    const dv_nest *n = &x->n;
    int64_t off;
    if (!find(x, DV_OUT, &off))
        return;
    if (x->compute == DV_I64) {
        element_whole(x, off);
        return;
    }
    x->sum = dv_load(n->dtype, x->at[DV_OUT], off);
    if (n->first)
        x->sum = apply_any(n->first, x->sum);
    loop_any(x, x->n_free);
    if (n->mean)
        x->sum = rounded(x, x->sum / x->count);
    if (n->last)
        x->sum = rounded(x, apply_any(n->last, x->sum));
    if (!x->is_bad)
        dv_store(n->dtype, x->at[DV_OUT], off, x->sum);
}

// The loops from one on. As deep as there are dimensions.
static void loop_any(any *x, int dim)
{
    if (dim == x->n.n_dims && x->compute == DV_I64)
        x->whole = point_whole(x);
    else if (dim == x->n.n_dims)
        x->sum = point_any(x);
    if (dim == x->n.n_dims)
        return;
    const dv_nest_dim *d = &x->n.dims[dim];
    int64_t from, end = turns(&x->w, dim, &from);
    for (int64_t i = 0; i < end && !x->is_bad; i++) {
        x->w.at[dim] = from + i * x->w.tiles->unit[dim];
        if (dim + 1 == x->n_free)
            element(x);
        else
            loop_any(x, dim + 1);
        for (int o = 0; o < DV_MAX_OPERANDS; o++)
            x->off[o] += d->stride[o];
    }
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        x->off[o] -= d->stride[o] * end;
}

static dv_status run_any(const dv_nest *n, void *const at[], dv_diag *diag)
{
    dv_nest_tiles tiles;
    int64_t index[DV_NEST_MAX_DIMS];
    int bad;
    any x = {.n = *n,
             .at = (char *const *)at,
             .count = dv_nest_count_k(n),
             .compute = dv_nest_compute(n)};
    for (int k = 0, to = 0; k < 2; k++) {
        for (int i = 0; i < n->n_dims; i++)
            if ((n->dims[i].type == DV_NEST_K) == k)
                x.n.dims[to++] = n->dims[i];
        x.n_free = k ? x.n_free : to;
    }
    dv_nest_tiles_of(&x.n, &tiles, &bad);
    x.w = (walk){.n = &x.n, .tiles = &tiles, .at = index};
    if (x.n_free)
        loop_any(&x, 0);
    else
        element(&x);
    if (x.is_bad)
        return dv_fail(diag, DV_E_BOUNDS, (dv_loc){n->src, n->off},
                       "an index found %" PRId64 ", %s has 0..%" PRId64,
                       x.bad_index, dv_nest_operand_name(n->look - 1),
                       n->index_count);
    return DV_OK;
}

// -- All ---------------------------------------------------------------------

// Is it one of those that mini_jit has, and binaries and reductions of
// their kind?
static int is_common(const dv_nest *n)
{
    return (n->dtype == DV_F32 || n->dtype == DV_F64) &&
           dv_nest_is_of_one_type(n) && !n->look && !n->mean && !n->constants &&
           n->n_dims > 0 && !dv_nest_is_select(n) && n->main != DV_PRIM_DOT &&
           dv_nest_has(n, DV_IN0);
}

dv_status dv_nest_run_all(const dv_nest *n, void *const at[DV_MAX_OPERANDS],
                          dv_diag *diag)
{
    dv_nest_tiles tiles;
    int64_t index[DV_NEST_MAX_DIMS];
    int bad;
    DV_TRY(dv_nest_check(n, diag));
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        if (dv_nest_has(n, o) && !at[o])
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "nest %s has no memory for %s", n->name,
                           dv_nest_operand_name(o));
    if (!is_common(n))
        return run_any(n, at, diag);
    dv_nest_tiles_of(n, &tiles, &bad);
    walk w = {n, &tiles, index, dv_prim_get(n->main)};
    const void *in1 = dv_nest_has(n, DV_IN1) ? at[DV_IN1] : NULL;
    if (n->dtype == DV_F32)
        loop_f32(&w, 0, at[DV_IN0], in1, at[DV_OUT], 1, 1);
    else
        loop_f64(&w, 0, at[DV_IN0], in1, at[DV_OUT], 1, 1);
    return DV_OK;
}

dv_status dv_nest_run(const dv_nest *n, const void *in0, const void *in1,
                      void *out, dv_diag *diag)
{
    void *const at[DV_MAX_OPERANDS] = {
        [DV_IN0] = (void *)in0, [DV_IN1] = (void *)in1, [DV_OUT] = out};
    return dv_nest_run_all(n, at, diag);
}

void dv_nest_fill(dv_dtype t, uint64_t seed, void *data, int64_t n)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        dv_store(t, data, i, (double)((x >> 33) % 9) - 4);
    }
}
