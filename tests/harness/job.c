#include "harness/job.h"
#include <stdlib.h>
#include <string.h>

int job_start(job *j, const dv_plan *plan, int kind)
{
    const dv_program *p = plan->ops;
    *j = (job){.plan = plan,
               .diag = dv_diag_create(),
               .data = case_buffers(p),
               .before = case_buffers(p)};
    if (plan->team.n_axes)
        return 1; // its ranks have executors
    dv_status st = dv_exec_create(&j->x, plan, j->diag);
    if (st == DV_OK && kind != RUN_AS_PLANNED)
        st = dv_exec_use(j->x, (dv_executor)kind, j->diag);
    for (int i = 0; i < p->n_tensors && st == DV_OK; i++)
        if (j->data[i])
            st = dv_exec_bind(j->x, p->tensors[i].name, j->data[i],
                              (size_t)dv_tensor_bytes(&p->tensors[i]), j->diag);
    return st == DV_OK ||
           case_no("it does not start: %s", dv_diag_text(j->diag));
}

int job_run(job *j)
{
    const dv_program *p = j->plan->ops;
    for (int i = 0; i < p->n_tensors; i++)
        if (j->data[i])
            memcpy(j->before[i], j->data[i],
                   (size_t)dv_tensor_bytes(&p->tensors[i]));
    return !dv_exec_run(j->x, j->diag) ||
           case_no("it does not run: %s", dv_diag_text(j->diag));
}

int job_done(job *j, const dv_plan *plan, int kind)
{
    return job_start(j, plan, kind) && job_run(j);
}

int job_right(const job *j, const dv_program *p)
{
    return case_right(p, j->plan, j->before, j->data);
}

int job_same_bits(const job *a, const job *b)
{
    return case_same_bits(a->plan->ops, a->data, b->plan->ops, b->data);
}

int job_same_values(const job *a, const job *b)
{
    return case_same_values(a->plan->ops, a->data, b->plan->ops, b->data);
}

void job_stop(job *j)
{
    if (j->plan) {
        case_free(j->data, j->plan->ops);
        case_free(j->before, j->plan->ops);
    }
    dv_exec_destroy(j->x);
    dv_diag_destroy(j->diag);
    dv_plan_destroy(j->own);
    dv_program_destroy(j->program);
    *j = (job){0};
}
