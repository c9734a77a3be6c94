// The calls that run a contraction: products, with what touches do before and
// behind them, or what is no product alone.
#include "base/dtype.h"
#include "base/together.h"
#include "contract/state.h"
#include <inttypes.h>

// Are blocks of out done one by one, in place, as what sums are?
static int may_then(const dv_contract *c)
{
    int rounded = c->n.dtype == DV_F16 || c->n.dtype == DV_BF16;
    return c->n_plans && !c->n.combine && !c->copied && !rounded &&
           c->form.pack[DV_OUT] == DV_FORM_NEVER;
}

dv_status ct_make_touches(dv_contract *c, dv_jit *jit, dv_diag *diag)
{
    const dv_nest *n = &c->n;
    if (dv_nest_is_reduce(n))
        return ct_reduce_create(&c->reduce, jit, n, c->threads, diag);
    if (!dv_nest_is_product(n))
        return ct_touch_create(&c->main, jit, n, DV_IN0, n->main, c->threads,
                               diag);
    if (ct_touches_first(n))
        DV_TRY(ct_touch_create(&c->first, jit, n, DV_OUT, n->first, c->threads,
                               diag));
    if (!ct_touches_last(n))
        return DV_OK;
    if (!may_then(c))
        return ct_touch_create(&c->last, jit, n, DV_OUT, n->last, c->threads,
                               diag);
    DV_TRY(ct_touch_create_near(&c->near, jit, n, n->last, ct_ldc(c), diag));
    dv_contract_on_block(c, ct_touch_block, c->near);
    return DV_OK;
}

void ct_destroy_touches(dv_contract *c)
{
    dv_release(c->first);
    dv_release(c->main);
    dv_release(c->last);
    dv_release(c->near);
    ct_reduce_destroy(c->reduce);
}

// -- More operands -----------------------------------------------------------

void dv_contract_more(dv_contract *c, const void *in2)
{
    c->in2 = in2;
}

void dv_contract_bias(dv_contract *c, const void *values)
{
    c->bias = values;
}

int dv_contract_on_block(dv_contract *c, dv_contract_block then, void *user)
{
    if (!may_then(c))
        return 0;
    c->then = then;
    c->user = user;
    return 1;
}

dv_status dv_contract_found(dv_contract *c, dv_diag *diag)
{
    if (!atomic_exchange(&c->bad.found, 0))
        return DV_OK;
    return dv_fail(diag, DV_E_BOUNDS, DV_NOWHERE,
                   "an index found %" PRId64 ", %s of nest %s has 0..%" PRId64,
                   atomic_load(&c->bad.index),
                   dv_nest_operand_name(c->n.look - 1), c->n.name,
                   c->n.index_count);
}

static ct_data data_of(dv_contract *c, const void *in0, const void *in1,
                       void *out)
{
    return (ct_data){(unsigned char *)in0, (unsigned char *)in1, out,
                     (unsigned char *)c->in2, &c->bad};
}

// -- Steps -------------------------------------------------------------------

// What all threads have done before the next begins.
typedef enum kind { MAIN, REDUCE, REDUCED, FIRST, PRODUCT, COMBINE, LAST } kind;
typedef struct step {
    kind kind;
    dv_contract *c;
    const void *in0, *in1;
    void *out;
} step;

enum { MOST_STEPS = 12 }; // three copies, a product with its touches, one back
typedef struct steps {
    step s[MOST_STEPS];
    int n;
} steps;

static void do_step(void *job, int32_t i)
{
    const step *s = job;
    dv_contract *c = s->c;
    const ct_data all = data_of(c, s->in0, s->in1, s->out);
    const ct_data d = data_of(c, s->out, NULL, s->out);
    switch (s->kind) {
    case MAIN:
        ct_touch_part(c->main, i, &all);
        break;
    case REDUCE:
        ct_reduce_part(c->reduce, i, &all);
        break;
    case REDUCED:
        ct_reduce_combine(c->reduce, i, &all);
        break;
    case FIRST:
        ct_touch_part(c->first, i, &d);
        break;
    case PRODUCT:
        ct_member(c, i, s->in0, s->in1, s->out);
        break;
    case COMBINE:
        ct_combine(c, i, s->out);
        break;
    case LAST:
        ct_touch_part(c->last, i, &d);
        break;
    }
}

static void add_steps(void *user, dv_contract *c, const void *in0,
                      const void *in1, void *out)
{
    steps *s = user;
    const int is_there[] = {
        [MAIN] = c->main != NULL,
        [REDUCE] = c->reduce != NULL,
        [REDUCED] = c->reduce && ct_reduce_combines(c->reduce),
        [FIRST] = c->first != NULL,
        [PRODUCT] = !c->main && !c->reduce,
        [COMBINE] = c->n.combine,
        [LAST] = c->last != NULL,
    };
    if (c->copied) {
        ct_copied_visit(c->copied, add_steps, s, in0, in1, out);
        return;
    }
    for (int k = MAIN; k <= LAST && s->n < MOST_STEPS; k++)
        if (is_there[k])
            s->s[s->n++] = (step){(kind)k, c, in0, in1, out};
}

static void begin_steps(steps *s)
{
    for (int i = 0; i < s->n; i++)
        if (s->s[i].kind == PRODUCT)
            ct_begin(s->s[i].c);
}

void dv_contract_run(dv_contract *c, const void *in0, const void *in1,
                     void *out)
{
    steps all;
    dv_parallel_step what[MOST_STEPS];
    all.n = 0;
    add_steps(&all, c, in0, in1, out);
    for (int i = 0; i < all.n; i++)
        what[i] = (dv_parallel_step){do_step, &all.s[i]};
    begin_steps(&all);
    dv_parallel_steps(what, all.n,
                      all.n == 1 && all.s->kind == PRODUCT ? ct_busy(c)
                                                           : c->threads);
}

// -- With the caller's -------------------------------------------------------

// There are two phases at most. What would take more is the first thread's.
static int is_alone(const dv_contract *c)
{
    return c->first || c->copied || (c->last && c->n.combine);
}

int dv_contract_phases(const dv_contract *c)
{
    if (c->reduce)
        return ct_reduce_combines(c->reduce) ? 2 : 1;
    return !is_alone(c) && (c->last || c->n.combine) ? 2 : 1;
}

// One thread alone, step by step.
static void do_all(dv_contract *c, const void *in0, const void *in1, void *out)
{
    steps all;
    all.n = 0;
    add_steps(&all, c, in0, in1, out);
    begin_steps(&all);
    for (int k = 0; k < all.n; k++)
        for (int32_t i = 0; i < c->threads; i++)
            do_step(&all.s[k], i);
}

void dv_contract_part(dv_contract *c, int32_t thread, const void *in0,
                      const void *in1, void *out)
{
    const ct_data d = data_of(c, in0, in1, out);
    if (c->main)
        ct_touch_part(c->main, thread, &d);
    else if (c->reduce)
        ct_reduce_part(c->reduce, thread, &d);
    else if (!is_alone(c))
        ct_part(c, thread, in0, in1, out);
    else if (thread == 0)
        do_all(c, in0, in1, out);
}

void dv_contract_combine(dv_contract *c, int32_t thread, void *out)
{
    const ct_data d = data_of(c, out, NULL, out);
    if (is_alone(c))
        return;
    if (c->reduce)
        ct_reduce_combine(c->reduce, thread, &d);
    else if (c->n.combine)
        ct_combine(c, thread, out);
    else if (c->last)
        ct_touch_part(c->last, thread, &d);
}

void dv_contract_describe(const dv_contract *c, dv_text *out)
{
    if (c->n_plans)
        dv_gemm_plan_describe(c->plans[0], out);
}

int32_t dv_contract_threads(const dv_contract *c)
{
    return c->threads;
}

const dv_nest *dv_contract_nest(const dv_contract *c)
{
    return c->copied ? ct_copied_nest(c->copied) : &c->n;
}
