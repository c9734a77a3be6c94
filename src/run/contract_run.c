// The calls that run a contraction: products, with what touches do before and
// behind them, or what is no product alone.
#include "base/together.h"
#include "run/contract_in.h"

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
    dv_release(c->reduce);
}

// -- With dv_contract_run's threads ------------------------------------------

typedef struct job {
    const ct_touch *t; // NULL: it is a reduction
    const ct_reduce *r;
    const void *from, *with;
    void *to;
} job;

static void touch_part(void *user, int32_t i)
{
    const job *j = user;
    if (j->r)
        ct_reduce_part(j->r, i, j->from, j->to);
    else
        ct_touch_part(j->t, i, j->from, j->with, j->to);
}

static void touch(const dv_contract *c, const ct_touch *t, const void *from,
                  const void *with, void *to)
{
    job j = {t, NULL, from, with, to};
    if (t)
        dv_together(touch_part, &j, c->threads);
}

void dv_contract_run(dv_contract *c, const void *in0, const void *in1,
                     void *out)
{
    job reduce = {NULL, c->reduce, in0, NULL, out};
    if (c->reduce)
        dv_together(touch_part, &reduce, c->threads);
    touch(c, c->main, in0, in1, out);
    if (c->main || c->reduce)
        return;
    touch(c, c->first, out, NULL, out);
    ct_run(c, in0, in1, out);
    touch(c, c->last, out, NULL, out);
}

// -- With the caller's -------------------------------------------------------

// There are two phases at most. What would take more is the first thread's.
static int is_alone(const dv_contract *c)
{
    return c->first || (c->last && c->n.combine);
}

int dv_contract_phases(const dv_contract *c)
{
    return !is_alone(c) && (c->last || c->n.combine) ? 2 : 1;
}

static void do_all(dv_contract *c, const void *in0, const void *in1, void *out)
{
    for (int32_t i = 0; c->first && i < c->threads; i++)
        ct_touch_part(c->first, i, out, NULL, out);
    for (int32_t i = 0; i < c->threads; i++)
        ct_part(c, i, in0, in1, out);
    for (int32_t i = 0; c->n.combine && i < c->threads; i++)
        ct_combine(c, i, out);
    for (int32_t i = 0; c->last && i < c->threads; i++)
        ct_touch_part(c->last, i, out, NULL, out);
}

void dv_contract_part(dv_contract *c, int32_t thread, const void *in0,
                      const void *in1, void *out)
{
    if (c->main)
        ct_touch_part(c->main, thread, in0, in1, out);
    else if (c->reduce)
        ct_reduce_part(c->reduce, thread, in0, out);
    else if (!is_alone(c))
        ct_part(c, thread, in0, in1, out);
    else if (thread == 0)
        do_all(c, in0, in1, out);
}

void dv_contract_combine(dv_contract *c, int32_t thread, void *out)
{
    if (is_alone(c))
        return;
    if (c->n.combine)
        ct_combine(c, thread, out);
    else if (c->last)
        ct_touch_part(c->last, thread, out, NULL, out);
}

int32_t dv_contract_threads(const dv_contract *c)
{
    return c->threads;
}

const dv_nest *dv_contract_nest(const dv_contract *c)
{
    return &c->n;
}
