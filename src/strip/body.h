// The interpreter's loops for one type; types.c includes this file once per
// type with these macros defined:
//   T       the type            NAME(x)  x with the type's suffix
//   REAL    1 for floats        FN(x)    the C function x for the type
//   ADD, MUL  functions or macros
//   BITS    for floats: the unsigned type of the same size
//
// A value is a strip (a run of up to 256 elements that are computed together),
// or one element that stands for all elements of a strip.
typedef struct NAME(value) {
    const T *p;
    // 1 if p has one element per element of the strip (the run that is computed
    // together); 0 if *p stands for all of them.
    int each;
} NAME(value);

#define LOAD(ctype, convert)                                                   \
    if (w.leaves)                                                              \
        for (int64_t i = 0; i < n; i++)                                        \
            out[i] = w.found[i] == DV_OUTSIDE                                  \
                         ? (T)w.border                                         \
                         : (T)convert(((const ctype *)data)[w.found[i]]);      \
    else if (w.found)                                                          \
        for (int64_t i = 0; i < n; i++)                                        \
            out[i] = (T)convert(((const ctype *)data)[w.found[i]]);            \
    else                                                                       \
        for (int64_t i = 0; i < n; i++)                                        \
            out[i] = (T)convert(((const ctype *)data)[w.off + i * w.stride]);  \
    break

static void NAME(load)(T *out, dv_dtype t, const void *data, where w, int64_t n)
{
    switch (t) {
    case DV_F64:
        LOAD(double, );
    case DV_F32:
        LOAD(float, );
    case DV_F16:
        LOAD(uint16_t, dv_f16_to_f32);
    case DV_BF16:
        LOAD(uint16_t, dv_bf16_to_f32);
    case DV_I64:
        LOAD(int64_t, );
    case DV_I32:
        LOAD(int32_t, );
    case DV_I8:
        LOAD(int8_t, );
    case DV_I16:
        LOAD(int16_t, );
    case DV_U64: // computed as i64
        LOAD(int64_t, );
    case DV_U32:
        LOAD(uint32_t, );
    case DV_U16:
        LOAD(uint16_t, );
    case DV_U8:
    case DV_BOOL:
        LOAD(uint8_t, );
    }
}
#undef LOAD

static NAME(value) NAME(read)(dv_strips *s, int32_t read, T *buf)
{
    const dv_access *a = &s->k->op->reads[read];
    const dv_flat *f = &s->k->reads[read];
    dv_dtype t = s->p->tensors[a->tensor].dtype;
    const void *data = dv_strips_source(s, read);
    int64_t found[DV_STRIP];
    where w = where_is(s, a, f, found);
    if (t == DTYPE && !w.found && w.stride == 1)
        return (NAME(value)){(const T *)data + w.off, 1};
    int each = w.found || w.stride;
    NAME(load)(buf, t, data, w, each ? s->n : 1);
    return (NAME(value)){buf, each};
}

#if REAL
// Minimum and maximum of IEEE 754-2019: -0 is less than +0, and nan propagates.
// They use no short-circuit operators, so that compilers vectorize the loops.
static inline BITS NAME(bits)(T x)
{
    BITS u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline T NAME(min)(T x, T y)
{
    int minus_0 = (NAME(bits)(x) == (BITS)1 << (8 * sizeof x - 1)) & (y == 0);
    return (x < y) | (x != x) | minus_0 ? x : y;
}

static inline T NAME(max)(T x, T y)
{
    int plus_0 = (NAME(bits)(x) == 0) & (y == 0);
    return (x > y) | (x != x) | plus_0 ? x : y;
}

static T NAME(constant)(double v)
{
    return (T)v;
}

static int64_t NAME(whole)(T v)
{
    return whole((double)v);
}

// Computes 1 / (1 + exp(-x)). Below -EXP_MOST, where exp(-x) may overflow, the
// result is exp(x), because 1 + exp(x) rounds to 1.
static T NAME(sigmoid)(T x)
{
    return x < -EXP_MOST ? FN(exp)(x) : 1 / (1 + FN(exp)(-x));
}

// Computes x * sigmoid(x). Between -2 EXP_MOST and -EXP_MOST exp(x) may be
// denormal and lack bits; x * exp(x/2) * exp(x/2) rounds only once to a
// denormal.
static T NAME(silu)(T x)
{
    if (!(x < -EXP_MOST) || x < -2 * EXP_MOST)
        return x / (1 + FN(exp)(-x));
    T half = FN(exp)(x / 2);
    return x * half * half;
}

static T NAME(gelu)(T x)
{
    return x * (T)0.5 * FN(erfc)(x * (T)-0.70710678118654752440);
}

static T NAME(mod)(T x, T y)
{
    T r = FN(fmod)(x, y);
    if (r == 0)
        return FN(copysign)(r, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

static inline T NAME(sign)(T x)
{
    return x != x ? x : (T)((x > 0) - (x < 0));
}

static inline T NAME(relu)(T x)
{
    return x > 0 || x != x ? x : 0;
}
#endif

// The loops of functions of one, two and three arguments. An operand that is
// the same for all elements is loaded outside of the loop, so that the compiler
// vectorizes it, and because `out` may overlap it.
#define ARGS_1(expr)                                                           \
    for (int64_t i = 0; i < n; i++) {                                          \
        T x = a[i];                                                            \
        (void)x;                                                               \
        out[i] = (T)(expr);                                                    \
    }
#define ARGS_2(expr)                                                           \
    if (v[0].each && v[1].each) {                                              \
        for (int64_t i = 0; i < n; i++) {                                      \
            T x = a[i], y = b[i];                                              \
            (void)x, (void)y;                                                  \
            out[i] = (T)(expr);                                                \
        }                                                                      \
    } else if (v[0].each) {                                                    \
        T y = b[0];                                                            \
        for (int64_t i = 0; i < n; i++) {                                      \
            T x = a[i];                                                        \
            (void)x, (void)y;                                                  \
            out[i] = (T)(expr);                                                \
        }                                                                      \
    } else {                                                                   \
        T x = a[0];                                                            \
        for (int64_t i = 0; i < n; i++) {                                      \
            T y = b[i];                                                        \
            (void)x, (void)y;                                                  \
            out[i] = (T)(expr);                                                \
        }                                                                      \
    }
#define ARGS_3(expr)                                                           \
    {                                                                          \
        T first = a[0];                                                        \
        for (int64_t i = 0; i < n; i++) {                                      \
            T x = v[0].each ? a[i] : first;                                    \
            T y = b[v[1].each ? i : 0], z = c[v[2].each ? i : 0];              \
            out[i] = (T)(expr);                                                \
        }                                                                      \
    }
#if REAL
#define VALUE(real, whole) real
#else
#define VALUE(real, whole) whole
#endif

static void NAME(apply)(dv_fn fn, T *out, const NAME(value) * v, int64_t n)
{
    const T *a = v[0].p, *b = v[1].p, *c = v[2].p;
    switch (fn) {
#define DV_FN(ID, text, word, n_args, prec, takes, flops, ulps, slope, real,   \
              whole)                                                           \
    case DV_FN_##ID:                                                           \
        ARGS_##n_args(VALUE(real, whole)) break;
#include "lang/op.def"
    case DV_N_FNS:
        break;
    }
}
#undef ARGS_1
#undef ARGS_2
#undef ARGS_3
#undef VALUE

// Returns the value of a variable at the elements of the strip.
static NAME(value) NAME(index)(const dv_strips *s, const dv_expr *e, T *buf)
{
    int64_t first = s->at[e->read] + e->base;
    int each = e->read == s->k->strip;
    for (int64_t i = 0; i < (each ? s->n : 1); i++)
        buf[i] = (T)(first + i);
    return (NAME(value)){buf, each};
}

#if REAL
// Evaluates a test or a condition in integers. Their buffers, of 8 bytes per
// element, begin after the buffers of floats that are still needed; results go
// through `copy`, because they may overlap those buffers.
static NAME(value) NAME(eval_whole)(dv_strips *s, const dv_expr *e, int slot)
{
    T copy[DV_STRIP], *buf = (T *)s->buf + (int64_t)slot * DV_STRIP;
    value_i64 x = eval_i64(s, e, slot);
    int64_t n = x.each ? s->n : 1;
    for (int64_t i = 0; i < n; i++)
        copy[i] = (T)x.p[i];
    memcpy(buf, copy, (size_t)n * sizeof *buf);
    return (NAME(value)){buf, x.each};
}
#endif

static NAME(value) NAME(eval)(dv_strips *s, const dv_expr *e, int slot)
{
    T *buf = (T *)s->buf + (int64_t)slot * DV_STRIP;
    NAME(value) v[3] = {{0}};
    int each = 0;
    switch ((dv_expr_kind)e->kind) {
    case DV_EXPR_CONST:
        buf[0] = NAME(constant)(e->value);
        return (NAME(value)){buf, 0};
    case DV_EXPR_READ:
        return NAME(read)(s, e->read, buf);
    case DV_EXPR_INDEX:
        return NAME(index)(s, e, buf);
    case DV_EXPR_REDUCE: // its sums are in the accumulators
        return (NAME(value)){(const T *)s->acc, 1};
    case DV_EXPR_APPLY:
        break;
    }
#if REAL
    if (dv_expr_is_test(e))
        return NAME(eval_whole)(s, e, slot);
    int first = e->fn == DV_FN_SELECT && dv_expr_is_condition(e->arg[0]);
    if (first) {
        v[0] = NAME(eval_whole)(s, e->arg[0], slot);
        each = v[0].each;
    }
#else
    int first = 0;
#endif
    for (int i = first; i < e->n_args; i++) {
        v[i] = NAME(eval)(s, e->arg[i], slot + i);
        each |= v[i].each;
    }
    NAME(apply)((dv_fn)e->fn, buf, v, each ? s->n : 1);
    return (NAME(value)){buf, each};
}

// Combines acc[i] with v[i] by the reducer. The switch is outside of the loops,
// so that the compiler vectorizes them.
static void NAME(accumulate)(dv_reducer r, T *acc, NAME(value) v, int64_t n)
{
#define EACH(fn)                                                               \
    if (v.each)                                                                \
        for (int64_t i = 0; i < n; i++)                                        \
            acc[i] = (T)fn(acc[i], v.p[i]);                                    \
    else                                                                       \
        for (int64_t i = 0; i < n; i++)                                        \
            acc[i] = (T)fn(acc[i], v.p[0]);                                    \
    break
    switch (r) {
    case DV_RED_SUM:
    case DV_RED_MEAN:
        EACH(ADD);
    case DV_RED_PROD:
        EACH(MUL);
    case DV_RED_MAX:
        EACH(NAME(max));
    case DV_RED_MIN:
        EACH(NAME(min));
    }
#undef EACH
}

#define STORE(ctype, convert)                                                  \
    if (w.found)                                                               \
        for (int64_t i = 0; i < n; i++)                                        \
            ((ctype *)data)[w.found[i]] = (ctype)convert(v.p[v.each ? i : 0]); \
    else                                                                       \
        for (int64_t i = 0; i < n; i++)                                        \
            ((ctype *)data)[w.off + i * w.stride] =                            \
                (ctype)convert(v.p[v.each ? i : 0]);                           \
    break

static void NAME(put)(dv_dtype t, void *data, where w, NAME(value) v, int64_t n)
{
    switch (t) {
    case DV_F64:
        STORE(double, );
    case DV_F32:
        STORE(float, );
    case DV_F16:
        STORE(uint16_t, TO_F16);
    case DV_BF16:
        STORE(uint16_t, TO_BF16);
    case DV_I64:
        STORE(int64_t, NAME(whole));
    case DV_I32:
        STORE(int32_t, (uint32_t)(uint64_t)NAME(whole));
    case DV_I8:
        STORE(int8_t, (uint8_t)(uint64_t)NAME(whole));
    case DV_I16:
        STORE(int16_t, (uint16_t)(uint64_t)NAME(whole));
    case DV_U64:
        STORE(uint64_t, (uint64_t)NAME(whole));
    case DV_U32:
        STORE(uint32_t, (uint64_t)NAME(whole));
    case DV_U16:
        STORE(uint16_t, (uint64_t)NAME(whole));
    case DV_U8:
        STORE(uint8_t, (uint64_t)NAME(whole));
    case DV_BOOL:
        STORE(uint8_t, 0 !=);
    }
}
#undef STORE

static void NAME(write)(dv_strips *s, NAME(value) v)
{
    const dv_access *a = &s->k->op->write;
    dv_dtype t = s->p->tensors[a->tensor].dtype;
    void *data = s->images ? s->images[s->k->op->n_reads] : s->data[a->tensor];
    int64_t found[DV_STRIP];
    where w = where_is(s, a, &s->k->write, found);
    if (s->status == DV_OK)
        NAME(put)(t, data, w, v, s->n);
}

// Reduces over all points of the reduced variables in the mask `loops`, into
// the accumulators acc[0..width]. If strips (runs of elements that are computed
// together) are along a reduced variable, also over all of its strips, which
// share the accumulators.
static void NAME(reduce_all)(dv_strips *s, const int64_t *begin,
                             const int64_t *end, uint32_t loops, T *acc,
                             int64_t width)
{
    const dv_expr *e = s->k->reduce;
    int strip = s->k->strip;
    int along = strip >= 0 && s->k->op->vars[strip].reduce;
    T zero = NAME(constant)(dv_reducer_get((dv_reducer)e->fn)->zero);
    for (int64_t i = 0; i < width; i++)
        acc[i] = zero;
    for (int v = 0; v < s->k->op->n_vars; v++)
        if (loops >> v & 1)
            s->at[v] = begin[v];
    do {
        int64_t from = along ? begin[strip] : 0;
        int64_t to = along ? end[strip] : 1;
        for (; from < to; from += along ? DV_STRIP : 1) {
            if (along) {
                s->at[strip] = from;
                s->n = to - from < DV_STRIP ? to - from : DV_STRIP;
            }
            NAME(accumulate)
            ((dv_reducer)e->fn, acc, NAME(eval)(s, e->arg[0], 0), s->n);
        }
    } while (next_point(s, begin, end, loops));
}

// Turns n complete sums in acc into results: if the reduction is a mean,
// divides them by its element count.
static void NAME(finish)(const dv_strips *s, T *acc, int64_t n)
{
    (void)s, (void)acc, (void)n;
#if REAL
    if (s->k->reduce->fn != DV_RED_MEAN)
        return;
    T count = (T)dv_op_points(s->k->op, s->k->reduce->vars);
    for (int64_t i = 0; i < n; i++)
        acc[i] /= count;
#endif
}

// For a reduction that is computed in parts: stores the next n accumulators in
// s->parts (first part), adds them to s->parts (later parts), or loads them
// from there to compute the results, as s->part says.
static void NAME(pass_part)(dv_strips *s, T *acc, int64_t n)
{
    T *parts = (T *)s->parts + s->n_parts;
    dv_reducer r = (dv_reducer)s->k->reduce->fn;
    size_t bytes = (size_t)n * sizeof *acc;
    if (s->part == DV_FIRST_PART)
        memcpy(parts, acc, bytes);
    else if (s->part == DV_NEXT_PART)
        NAME(accumulate)(r, parts, (NAME(value)){acc, 1}, n);
    else
        memcpy(acc, parts, bytes);
    s->n_parts += n;
}

void NAME(dv_strips)(dv_strips *s, const int64_t *begin, const int64_t *end)
{
    const dv_kernel *k = s->k;
    int strip = k->strip;
    int along = strip >= 0 && k->op->vars[strip].reduce;
    uint32_t outer = 0, inner = 0;
    double rounds = 1, round = 0;
    T *acc = s->acc;
    for (int v = 0; v < k->op->n_vars; v++) {
        s->at[v] = begin[v];
        if (v != strip && k->op->vars[v].reduce)
            inner |= 1u << v;
        else if (v != strip) {
            outer |= 1u << v;
            rounds *= (double)(end[v] - begin[v]);
        }
    }
    do {
        if (s->tick)
            s->tick(s->user, round++ / rounds);
        int64_t from = strip >= 0 && !along ? begin[strip] : 0;
        int64_t to = strip >= 0 && !along ? end[strip] : 1;
        for (; from < to && s->status == DV_OK; from += DV_STRIP) {
            s->n = to - from < DV_STRIP ? to - from : DV_STRIP;
            if (strip >= 0 && !along)
                s->at[strip] = from;
            if (k->reduce && s->part == DV_FINISH) {
                if (along)
                    s->n = 1;
            } else if (k->reduce && along) {
                int64_t len = end[strip] - begin[strip];
                int64_t width = len < DV_STRIP ? len : DV_STRIP;
                NAME(reduce_all)(s, begin, end, inner, acc, width);
                for (int64_t i = 1; i < width; i++)
                    NAME(accumulate)
                ((dv_reducer)k->reduce->fn, acc, (NAME(value)){acc + i, 0}, 1);
                s->n = 1;
                s->at[strip] = begin[strip];
            } else if (k->reduce) {
                NAME(reduce_all)(s, begin, end, inner, acc, s->n);
            }
            if (k->reduce && s->part != DV_WHOLE)
                NAME(pass_part)(s, acc, s->n);
            if (s->part == DV_FIRST_PART || s->part == DV_NEXT_PART)
                continue;
            if (k->reduce)
                NAME(finish)(s, acc, s->n);
            NAME(write)(s, NAME(eval)(s, k->op->body, 0));
        }
    } while (s->status == DV_OK && next_point(s, begin, end, outer));
}
