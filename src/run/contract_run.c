// The calls that run a contraction: products, with what touches do before and
// behind them, or what is no product alone.
#include "base/dtype.h"
#include "base/together.h"
#include "run/contract_in.h"
#include <inttypes.h>

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
    if (ct_touches_last(n))
        DV_TRY(ct_touch_create(&c->last, jit, n, DV_OUT, n->last, c->threads,
                               diag));
    return DV_OK;
}

void ct_destroy_touches(dv_contract *c)
{
    dv_release(c->first);
    dv_release(c->main);
    dv_release(c->last);
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

dv_status dv_contract_found(dv_contract *c, dv_diag *diag)
{
    if (!atomic_exchange(&c->bad.found, 0))
        return DV_OK;
    return dv_fail(diag, DV_E_BOUNDS, DV_NOWHERE,
                   "an index found %" PRId64 ", %s of nest %s has 0..%" PRId64,
                   atomic_load(&c->bad.index),
                   dv_nest_operand_name(c->n.look - 1), c->n.name,
                   c->n.look_size);
}

static ct_data data_of(dv_contract *c, const void *in0, const void *in1,
                       void *out)
{
    return (ct_data){(unsigned char *)in0, (unsigned char *)in1, out,
                     (unsigned char *)c->in2, &c->bad};
}

// -- With dv_contract_run's threads ------------------------------------------

typedef struct job {
    const ct_touch *t; // NULL: it is a reduction
    const ct_reduce *r;
    ct_data d;
} job;

static void touch_part(void *user, int32_t i)
{
    const job *j = user;
    if (j->r)
        ct_reduce_part(j->r, i, &j->d);
    else
        ct_touch_part(j->t, i, &j->d);
}

static void reduce_combine(void *user, int32_t i)
{
    const job *j = user;
    ct_reduce_combine(j->r, i, &j->d);
}

static void touch(const dv_contract *c, const ct_touch *t, ct_data d)
{
    job j = {t, NULL, d};
    if (t)
        dv_together(touch_part, &j, c->threads);
}

static void reduce(const dv_contract *c, ct_data d)
{
    job j = {NULL, c->reduce, d};
    dv_together(touch_part, &j, c->threads);
    if (ct_reduce_combines(c->reduce))
        dv_together(reduce_combine, &j, c->threads);
}

void dv_contract_run(dv_contract *c, const void *in0, const void *in1,
                     void *out)
{
    if (c->copied) {
        ct_copied_run(c->copied, dv_contract_run, in0, in1, out);
        return;
    }
    if (c->reduce)
        reduce(c, data_of(c, in0, in1, out));
    touch(c, c->main, data_of(c, in0, in1, out));
    if (c->main || c->reduce)
        return;
    touch(c, c->first, data_of(c, out, NULL, out));
    ct_run(c, in0, in1, out);
    touch(c, c->last, data_of(c, out, NULL, out));
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

// All parts of one that is a step of another.
static void do_parts(dv_contract *c, const void *in0, const void *in1,
                     void *out)
{
    for (int32_t i = 0; i < c->threads; i++)
        dv_contract_part(c, i, in0, in1, out);
    for (int32_t i = 0; dv_contract_phases(c) == 2 && i < c->threads; i++)
        dv_contract_combine(c, i, out);
}

static void do_all(dv_contract *c, const void *in0, const void *in1, void *out)
{
    if (c->copied) {
        ct_copied_run(c->copied, do_parts, in0, in1, out);
        return;
    }
    const ct_data d = data_of(c, out, NULL, out);
    for (int32_t i = 0; c->first && i < c->threads; i++)
        ct_touch_part(c->first, i, &d);
    for (int32_t i = 0; i < c->threads; i++)
        ct_part(c, i, in0, in1, out);
    for (int32_t i = 0; c->n.combine && i < c->threads; i++)
        ct_combine(c, i, out);
    for (int32_t i = 0; c->last && i < c->threads; i++)
        ct_touch_part(c->last, i, &d);
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

int32_t dv_contract_threads(const dv_contract *c)
{
    return c->threads;
}

const dv_nest *dv_contract_nest(const dv_contract *c)
{
    return c->copied ? ct_copied_nest(c->copied) : &c->n;
}
