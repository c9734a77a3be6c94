// What is computed once: the results of the groups that the plan marks `once`,
// which depend on constants only. They belong to the exec, and all of its runs
// read them. What products pack of constants is packed of these results, too; a
// result that is read in no other way is freed then.
#include "exec/state.h"
#include <string.h>

// Returns whether the executor computes some groups only once, before the first
// run. It does not if kernel calls are recorded (`called`): a recording has all
// of them.
static int computes_once(const dv_exec *x)
{
    int once = 0;
    for (int32_t g = 0; g < x->plan->n_groups; g++)
        once |= x->plan->groups[g].once;
    return once && x->kind == DV_RUN_THREADS && !x->called;
}

static int runs_once(const dv_exec *x, int32_t op)
{
    return x->plan->groups[dv_group_of(x->plan, op)].once;
}

// Returns whether op number `op` runs once and stores what it writes, instead
// of keeping it for one tile only or inlining it.
static int stores_once(const dv_exec *x, int32_t op)
{
    int32_t t = x->plan->ops->ops[op].write.tensor;
    dv_op_schedule is;
    if (!runs_once(x, op) || (x->strides && x->strides[t]))
        return 0;
    dv_exec_describe(x, op, &is);
    return is.kind != DV_KERNEL_INLINE;
}

// Returns whether runs read the tensor only in the packed form that products
// have made of it before the first run.
static int is_only_packed(const dv_exec *x, int32_t tensor)
{
    const dv_program *p = x->plan->ops;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op_kernels *by = &x->prepared[i];
        for (int r = 0; r < p->ops[i].n_reads; r++)
            if (p->ops[i].reads[r].tensor == tensor && !runs_once(x, i) &&
                (!by->product || by->guard || by->skip.by ||
                 !dv_product_packs(by->product, r)))
                return 0;
    }
    return 1;
}

int64_t dv_exec_once_bytes(const dv_exec *x)
{
    const dv_program *p = x->plan->ops;
    int64_t bytes = 0;
    for (int32_t i = 0; computes_once(x) && i < p->n_ops; i++) {
        int32_t t = p->ops[i].write.tensor;
        if (stores_once(x, i) && !is_only_packed(x, t))
            bytes += dv_tensor_bytes(&p->tensors[t]);
    }
    return bytes;
}

dv_status dv_exec_find_once(dv_exec *x, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    x->total = dv_program_points(p);
    if (!computes_once(x) || x->probing)
        return DV_OK;
    x->once = DV_NEW(&x->arena, void *, p->n_tensors);
    if (!x->once)
        return dv_nomem(diag);
    for (int32_t i = 0; i < p->n_ops; i++)
        x->total -= runs_once(x, i) ? dv_op_work(&p->ops[i]) : 0;
    return DV_OK;
}

static void free_result(dv_exec *x, int32_t tensor)
{
    dv_release(x->once[tensor]);
    x->once[tensor] = x->run.data[tensor] = NULL;
}

void dv_exec_free_once(dv_exec *x)
{
    for (int32_t t = 0; x->once && t < x->plan->ops->n_tensors; t++)
        if (x->once[t])
            free_result(x, t);
    x->once = NULL;
}

void dv_exec_free_packed(dv_exec *x)
{
    for (int32_t t = 0; x->once && t < x->plan->ops->n_tensors; t++)
        if (x->once[t] && is_only_packed(x, t))
            free_result(x, t);
}

static dv_status allocate(dv_exec *x, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    for (int32_t i = 0; i < p->n_ops; i++) {
        int32_t t = p->ops[i].write.tensor;
        if (!stores_once(x, i) || x->once[t])
            continue;
        x->once[t] = dv_alloc_buffer((size_t)dv_tensor_bytes(&p->tensors[t]));
        if (!x->once[t])
            return dv_nomem(diag);
        x->run.data[t] = x->once[t];
    }
    return DV_OK;
}

dv_status dv_exec_compute_once(dv_exec *x, const dv_run *by, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    dv_run r = {.once = 1, .parallel_for = by->parallel_for, .pool = by->pool};
    if (!x->once)
        return DV_OK;
    DV_TRY(dv_run_check_kernels(&x->run, diag));
    DV_TRY(allocate(x, diag));
    dv_status st = dv_run_init(&r, x, diag);
    for (int32_t t = 0; st == DV_OK && t < p->n_tensors; t++)
        if (p->tensors[t].is_const)
            r.bound[t] = x->run.bound[t];
    if (st == DV_OK)
        st = dv_run_allocate(&r, diag);
    if (st == DV_OK)
        st = dv_threads_run(&r, diag);
    dv_run_finish(&r);
    return st;
}
