#include "harness/case.h"
#include "harness/equal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// -- Targets -----------------------------------------------------------------

dv_target *case_host, *case_spyre;

int case_set_up(void **state)
{
    (void)state;
    return dv_target_load(&case_host, "host", NULL) ||
           dv_target_load(&case_spyre, "spyre", NULL);
}

int case_tear_down(void **state)
{
    (void)state;
    dv_target_destroy(case_host);
    dv_target_destroy(case_spyre);
    return 0;
}

// -- Programs and plans ------------------------------------------------------

dv_program *case_program(const char *text)
{
    dv_program *p = NULL;
    dv_diag *diag = dv_diag_create();
    if (dv_program_parse(&p, text, strlen(text), "t", NULL, 0, diag))
        case_no("it does not parse: %s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    return p;
}

int case_lower(dv_program **p, dv_program **lowered, const char *text,
               size_t len, dv_diag *diag)
{
    return (dv_program_parse(p, text, len, "made", NULL, 0, diag) == DV_OK &&
            dv_program_lower(lowered, *p, DV_GRAIN_FUSED, diag) == DV_OK) ||
           case_no("%s", dv_diag_text(diag));
}

dv_plan *case_plan(const dv_program *p, const dv_target *t,
                   const dv_plan_options *o)
{
    dv_plan *plan = NULL;
    dv_diag *diag = dv_diag_create();
    if (dv_plan_create(&plan, p, t, o, diag))
        case_no("no plan: %s", dv_diag_text(diag));
    else if (dv_plan_check(plan, diag)) {
        case_no("a plan fails its check: %s", dv_diag_text(diag));
        dv_plan_destroy(plan);
        plan = NULL;
    }
    dv_diag_destroy(diag);
    return plan;
}

int case_schedule(dv_plan *plan)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_diag *diag = dv_diag_create();
    dv_pass_cx cx = {plan->ops, &o, diag};
    plan->facts &= ~(uint32_t)DV_FACT_SCHEDULED;
    int ok = dv_plan_check(plan, diag) == DV_OK &&
             dv_schedule_run(&cx, plan) == DV_OK;
    plan->facts |= DV_FACT_SCHEDULED;
    if (!ok)
        case_no("it is not scheduled: %s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    return ok;
}

dv_status case_choose_loops(dv_plan *plan)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_pass_cx cx = {plan->ops, &o, NULL};
    for (int32_t i = 0; plan->schedule.ops && i < plan->ops->n_ops; i++)
        plan->schedule.ops[i].n_tiles = 0;
    plan->schedule.shared_bytes = -1;
    dv_status st = dv_plan_check(plan, NULL);
    return st ? st : dv_schedule_run(&cx, plan);
}

int case_reads_back(const dv_plan *plan)
{
    char *text = dv_plan_text(plan), *again = NULL;
    dv_plan *read = NULL;
    dv_diag *diag = dv_diag_create();
    int ok =
        !dv_plan_parse(&read, text, strlen(text), "again", NULL, NULL, diag) ||
        case_no("the plan's text is refused: %s", dv_diag_text(diag));
    if (ok && !same_program(plan->ops, read->ops))
        ok = case_no("the plan reads back with other ops");
    if (ok) {
        again = dv_plan_text(read);
        ok = !strcmp(text, again) ||
             case_no("the plan reads back as another one");
    }
    if (ok && dv_plan_check(read, diag))
        ok = case_no("read back it fails: %s", dv_diag_text(diag));
    dv_free(text);
    dv_free(again);
    dv_plan_destroy(read);
    dv_diag_destroy(diag);
    return ok;
}

void case_show(const dv_plan *plan)
{
    char *text = plan ? dv_plan_text(plan) : NULL;
    const char *at = text ? strstr(text, "program ") : NULL;
    fprintf(stderr, "\n%s\n%s", case_why(), at ? at : "");
    dv_free(text);
}

int case_in_parts(const dv_plan *plan)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++)
        if (dv_plan_splits_reduction(plan, i))
            return 1;
    return 0;
}

// -- Data --------------------------------------------------------------------

void **case_buffers(const dv_program *p)
{
    void **data = calloc((size_t)p->n_tensors + 1, sizeof *data);
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        if (!t->is_input && !t->is_output)
            continue;
        data[i] = calloc(1, (size_t)dv_tensor_bytes(t));
        if (t->is_input)
            dv_fill(p, i, 11, -1, 1, data[i]);
    }
    return data;
}

void case_free(void **data, const dv_program *p)
{
    for (int i = 0; data && i < p->n_tensors; i++)
        free(data[i]);
    free(data);
}

static int same(const dv_program *p, void *const *a, const dv_program *q,
                void *const *b, int any_nan)
{
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        int64_t bytes = dv_tensor_bytes(t);
        int32_t other = t->is_output ? dv_program_find(q, t->name) : -1;
        if (!t->is_output)
            continue;
        if (other < 0 || !b[other] ||
            bytes != dv_tensor_bytes(&q->tensors[other]))
            return case_no("%s is no output of both", t->name);
        if (!memcmp(a[i], b[other], (size_t)bytes))
            continue;
        size_t size = (size_t)(bytes / t->n_elems);
        for (int64_t k = 0; k < t->n_elems; k++) {
            const char *x = (const char *)a[i] + (size_t)k * size;
            const char *y = (const char *)b[other] + (size_t)k * size;
            double v = dv_load(t->dtype, x, 0), w = dv_load(t->dtype, y, 0);
            if (memcmp(x, y, size) && !(any_nan && v != v && w != w))
                return case_no("element %d of %s is %.17g, was %.17g", (int)k,
                               t->name, w, v);
        }
    }
    return 1;
}

int case_same_bits(const dv_program *p, void *const *a, const dv_program *q,
                   void *const *b)
{
    return same(p, a, q, b, 0);
}

int case_same_values(const dv_program *p, void *const *a, const dv_program *q,
                     void *const *b)
{
    return same(p, a, q, b, 1);
}

int case_right(const dv_program *p, const dv_plan *plan, void *const *before,
               void *const *after)
{
    dv_verdict v;
    dv_diag *diag = dv_diag_create();
    int ok = !dv_verify(&v, p, plan, before, after, NULL, NULL, diag) ||
             case_no("it cannot be verified: %s", dv_diag_text(diag));
    if (ok && !v.ok)
        ok = case_no("%s is %g off, %g allowed", v.tensor, v.residual,
                     v.threshold);
    dv_diag_destroy(diag);
    return ok;
}
