#include "harness/vec_case.h"
#include "harness/saves.h"

static double values[DV_VEC_MAX_NODES]; // of one element

int es_of(unsigned t)
{
    return dv_dtype_get((dv_dtype)t)->size_bytes;
}

// The lowest and the highest element number of an operand and of the operands
// that lie at an offset from it (`lead`).
static void span(const vec_problem *q, int i, int64_t *lo, int64_t *hi)
{
    int64_t a = q->o[i].inner * (q->cols - 1),
            b = q->o[i].outer * (q->rows - 1), first = 0, last = 0;
    for (int k = i + 1; k < q->s.n_operands; k++)
        if (q->o[k].lead == i + 1) {
            first = q->o[k].lead_offset < first ? q->o[k].lead_offset : first;
            last = q->o[k].lead_offset > last ? q->o[k].lead_offset : last;
        }
    *lo = (a < 0 ? a : 0) + (b < 0 ? b : 0) + first;
    *hi = (a > 0 ? a : 0) + (b > 0 ? b : 0) + last;
}

double vec_input(const vec_problem *q)
{
    static const double odd[] = {INFINITY, -INFINITY, NAN,    0.0, -0.0,
                                 1e-41,    -1e-41,    1e-310, 88,  -103.5};
    if (q->odd && pick(10) == 0)
        return odd[pick(10)];
    return q->low + (q->high - q->low) * (double)(rnd() >> 11) * 0x1p-53;
}

void vec_make(vec_problem *q)
{
    q->s.operands = q->o;
    q->s.nodes = q->n;
    for (int i = 0; i < q->s.n_operands; i++) {
        int64_t lo, hi;
        span(q, i, &lo, &hi);
        int es = es_of(q->o[i].dtype), lead = q->o[i].lead;
        if (q->o[i].as == DV_VEC_AS_INDEX) { // a small number, or close to 2^24
            q->at[i] = (void *)(uintptr_t)(pick(2) ? pick(9) - 4 : 16777000);
            continue;
        }
        if (lead) {
            q->at[i] = (char *)q->at[lead - 1] + q->o[i].lead_offset * es;
            continue;
        }
        q->f[i] = fence_in((size_t)((hi - lo + 1) * es), pick(2), PROT_NONE);
        q->at[i] = q->f[i].data - lo * es;
        for (int64_t k = 0; k <= hi - lo; k++)
            dv_store((dv_dtype)q->o[i].dtype, q->f[i].data, k, vec_input(q));
    }
}

void vec_free(vec_problem *q)
{
    for (int i = 0; i < q->s.n_operands; i++)
        if (!q->o[i].lead && q->o[i].as != DV_VEC_AS_INDEX)
            unfence(&q->f[i]);
}

// Rounds to the type of the computation; errors of functions are not modelled.
static double rounded(const vec_problem *q, double v)
{
    if (q->s.compute == DV_F32)
        return (double)(float)v;
    if (q->s.compute == DV_I32)
        return (double)(int32_t)(uint32_t)(uint64_t)(int64_t)v;
    return v;
}

static double node(const vec_problem *q, int i, int64_t r, int64_t c,
                   double acc, double *value)
{
    for (int k = 0; k <= i; k++) {
        const dv_vec_node *n = &q->n[k];
        const dv_vec_operand *o = q->o;
        switch ((dv_vec_kind)n->kind) {
        case DV_VEC_LOAD:
            o += n->arg[0];
            if (o->as == DV_VEC_AS_INDEX) {
                value[k] = (double)((int64_t)(uintptr_t)q->at[n->arg[0]] +
                                    r * o->outer + c * o->inner);
                break;
            }
            value[k] = dv_load((dv_dtype)o->dtype, q->at[n->arg[0]],
                               r * o->outer + c * o->inner);
            break;
        case DV_VEC_CONST:
            value[k] = rounded(q, n->value);
            break;
        case DV_VEC_WHOLE_CONST:
            value[k] = n->value;
            break;
        case DV_VEC_FLOAT:
            value[k] = value[n->arg[0]];
            break;
        case DV_VEC_WHOLE:
            value[k] =
                (double)(int32_t)(uint32_t)(uint64_t)(int64_t)dv_fn_apply(
                    (dv_fn)n->fn, value[n->arg[0]], value[n->arg[1]],
                    value[n->arg[2]]);
            break;
        case DV_VEC_REDUCED:
            value[k] = acc;
            break;
        case DV_VEC_SHARE:
            value[k] = rounded(q, value[n->arg[0]] / value[n->arg[1]]);
            break;
        case DV_VEC_STEP:
            value[k] =
                rounded(q, dv_reducer_step((dv_reducer)q->s.reducer,
                                           value[n->arg[0]], value[n->arg[1]]));
            break;
        case DV_VEC_APPLY:
            value[k] =
                rounded(q, dv_fn_apply((dv_fn)n->fn, value[n->arg[0]],
                                       value[n->arg[1]], value[n->arg[2]]));
        }
    }
    return value[i];
}

static double reduced(const vec_problem *q, int64_t r, int64_t c)
{
    double acc = dv_reducer_get((dv_reducer)q->s.reducer)->zero;
    if (q->s.compute == DV_I32 && isinf(acc))
        acc = acc < 0 ? INT32_MIN : INT32_MAX;
    int in = q->s.reduce != DV_VEC_OUTER, out = q->s.reduce != DV_VEC_INNER;
    for (int64_t i = out ? 0 : r; i < (out ? q->rows : r + 1); i++)
        for (int64_t k = in ? 0 : c; k < (in ? q->cols : c + 1); k++) {
            double v = node(q, q->s.value, i, k, 0, values);
            acc = dv_reducer_step((dv_reducer)q->s.reducer, acc, v);
            if (q->s.compute == DV_I32)
                acc = rounded(q, acc);
        }
    return acc;
}

int64_t vec_rows(const vec_problem *q)
{
    return q->s.reduce == DV_VEC_OUTER || q->s.reduce == DV_VEC_BOTH ? 1
                                                                     : q->rows;
}

int64_t vec_cols(const vec_problem *q)
{
    return q->s.reduce == DV_VEC_INNER || q->s.reduce == DV_VEC_BOTH ? 1
                                                                     : q->cols;
}

double *vec_expected(const vec_problem *q)
{
    int64_t rows = vec_rows(q), cols = vec_cols(q);
    double *w = malloc((size_t)(rows * cols) * sizeof *w);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            double acc = q->s.reduce ? reduced(q, r, c) : 0;
            w[r * cols + c] = node(q, q->s.result, r, c, acc, values);
        }
    return w;
}

// The difference is at most `ulps` units in the last place of the coarser of
// the two types, or both are nan.
static int close_to(const vec_problem *q, double got, double want, double ulps,
                    double scale)
{
    unsigned t = q->o[q->s.n_operands - 1].dtype;
    if (!dv_is_float((dv_dtype)t))
        return got == dv_round_to((dv_dtype)t, want);
    double eps =
        fmax(dv_dtype_eps((dv_dtype)t), dv_dtype_eps((dv_dtype)q->s.compute));
    double kept = dv_round_to((dv_dtype)t, want);
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (got == kept || got == want)
        return 1;
    // Near overflow one result may round to inf and the other not.
    if (isinf(kept) || isinf(got))
        return ulps > 0 && fabs(isinf(kept) ? got : kept) >
                               0.99 * (t == DV_F16 ? 65504 : 3.4e38);
    double tiny = t == DV_F64    ? 0x1p-1074
                  : t == DV_F16  ? 0x1p-24
                  : t == DV_BF16 ? 0x1p-133
                                 : 0x1p-149;
    return fabs(got - want) <= ulps * fmax(eps * fmax(fabs(want), scale), tiny);
}

void vec_check(const vec_problem *q, const double *want, double ulps,
               double scale, const char *what)
{
    const dv_vec_operand *o = &q->o[q->s.n_operands - 1];
    int64_t rows = vec_rows(q), cols = vec_cols(q);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            double got = dv_load((dv_dtype)o->dtype, q->at[q->s.n_operands - 1],
                                 r * o->outer + c * o->inner);
            if (!close_to(q, got, want[r * cols + c], ulps, scale))
                fail_msg("%s: %s in %s, %dx%d, strides %d %d: element %d,%d "
                         "is %.9g, want %.9g",
                         what, dv_dtype_get((dv_dtype)o->dtype)->name,
                         dv_dtype_get((dv_dtype)q->s.compute)->name,
                         (int)q->rows, (int)q->cols, (int)q->o[0].inner,
                         (int)q->o[0].outer, (int)r, (int)c, got,
                         want[r * cols + c]);
        }
}

// The back ends of all instruction sets, also of other machines, can generate
// the kernel.
static void write_for_all(const dv_vec_shape *s)
{
    static unsigned char bytes[1 << 18];
    for (int i = 0; i < dv_n_isas; i++) {
        dv_code code = {.at = bytes, .cap = sizeof bytes};
        dv_arena scratch = {0};
        dv_vec_plan plan;
        dv_vec_plan_make(&plan, s, dv_backend_vec(&dv_isas[i]), &scratch);
        assert_false(plan.failed);
        const dv_vec_isa *isa = dv_backend_vec(&dv_isas[i]);
        isa->emit(&code, &plan, isa);
        dv_arena_free(&scratch);
        if (code.failed)
            fail_msg("%s cannot write it", dv_isas[i].name);
    }
}

void vec_solve(vec_problem *q, double ulps, double scale, const char *what)
{
    dv_vec_fn fn;
    vec_make(q);
    double *want = vec_expected(q);
    if (pick(4) == 0)
        write_for_all(&q->s);
    assert_int_equal(dv_jit_vec(test_jit, &q->s, &fn, NULL), DV_OK);
    dv_vec_args args = {q->rows, q->cols, q->at, NULL};
#if defined(__aarch64__)
    void *code;
    memcpy(&code, &fn, sizeof code);
    assert_int_equal(called_with_numbers(code, &args, NULL, NULL, NULL), 0);
#else
    fn(&args);
#endif
    vec_check(q, want, ulps, scale, what);
    free(want);
    vec_free(q);
}

dv_vec_node load_node(int operand)
{
    return (dv_vec_node){.kind = DV_VEC_LOAD, .arg = {(uint16_t)operand}};
}

dv_vec_node apply_node(dv_fn fn, int a, int b, int c)
{
    return (dv_vec_node){.kind = DV_VEC_APPLY,
                         .fn = (uint8_t)fn,
                         .arg = {(uint16_t)a, (uint16_t)b, (uint16_t)c}};
}

void set_strides(vec_problem *q, int i, unsigned dtype)
{
    static const int inner[] = {1, 1, 1, 2, 3, -1, 7};
    q->o[i].dtype = (uint8_t)dtype;
    q->o[i].inner = inner[pick(7)];
    int64_t row = llabs(q->o[i].inner) * q->cols;
    q->o[i].outer = pick(3) ? row : row + pick(5);
    if (q->o[i].inner == 1 && pick(4) == 0)
        q->o[i].outer = -q->o[i].outer;
}
