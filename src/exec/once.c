// Results that are computed once, before the first run: those of the groups
// that the plan marks `once`, which depend on constants only. All runs of the
// exec read them. Products also pack such results if they are their factors; a
// result that is read in no other way is freed after it was packed. All others
// are shared by the execs that compute them from the same constants in the same
// way.
#include "exec/state.h"
#include "base/math.h"
#include <inttypes.h>
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

// Decides where the results will lie: in the memory that execs share, or, if
// they are only packed, in memory of their own.
static dv_status place_results(dv_exec *x, dv_diag *diag)
{
    enum { LINE = 64 };
    const dv_program *p = x->plan->ops;
    x->once = DV_NEW(&x->arena, void *, p->n_tensors);
    x->once_owned = DV_NEW(&x->arena, void *, p->n_tensors);
    x->result_at = DV_NEW(&x->arena, int64_t, p->n_tensors);
    if (!x->once || !x->once_owned || !x->result_at)
        return dv_nomem(diag);
    x->results_bytes = 0;
    for (int32_t t = 0; t < p->n_tensors; t++)
        x->result_at[t] = -1;
    for (int32_t i = 0; i < p->n_ops; i++) {
        int32_t t = p->ops[i].write.tensor;
        if (!stores_once(x, i) || is_only_packed(x, t))
            continue;
        x->result_at[t] = x->results_bytes;
        x->results_bytes += dv_round_up(dv_tensor_bytes(&p->tensors[t]), LINE);
    }
    return DV_OK;
}

dv_status dv_exec_find_once(dv_exec *x, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    x->total = dv_program_points(p);
    if (!computes_once(x) || x->probing)
        return DV_OK;
    DV_TRY(place_results(x, diag));
    for (int32_t i = 0; i < p->n_ops; i++)
        x->total -= runs_once(x, i) ? dv_op_work(&p->ops[i]) : 0;
    return DV_OK;
}

static void set_result(dv_exec *x, int32_t tensor, void *data)
{
    x->once[tensor] = data;
    if (x->run.data)
        x->run.data[tensor] = data;
}

void dv_exec_drop_once(dv_exec *x)
{
    for (int32_t t = 0; x->once && t < x->plan->ops->n_tensors; t++) {
        dv_release(x->once_owned[t]);
        x->once_owned[t] = NULL;
        if (x->once[t])
            set_result(x, t, NULL);
    }
    dv_packed_release(x->results);
    x->results = NULL;
}

void dv_exec_free_once(dv_exec *x)
{
    dv_exec_drop_once(x);
    x->once = NULL;
}

void dv_exec_free_packed(dv_exec *x)
{
    for (int32_t t = 0; x->once && t < x->plan->ops->n_tensors; t++)
        if (x->once_owned[t]) {
            dv_release(x->once_owned[t]);
            x->once_owned[t] = NULL;
            set_result(x, t, NULL);
        }
}

static void put_tensor(dv_text *key, const dv_exec *x, int32_t tensor)
{
    const dv_tensor *t = &x->plan->ops->tensors[tensor];
    dv_put(key, "%s", dv_dtype_get(t->dtype)->name);
    for (int d = 0; d < t->n_dims; d++)
        dv_put(key, " %" PRId64, t->shape[d]);
    dv_put(key, " %d %p\n", t->is_once,
           t->is_const ? x->run.bound[tensor].data : NULL);
}

// Writes the key under which results are shared: the ops that are computed
// once, how they are computed, and where the constants are that they read.
static dv_status put_key(dv_text *key, const dv_exec *x, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    dv_put(key, "once %s\n", dv_exec_kernels(x));
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *o = &p->ops[i];
        dv_op_schedule is;
        if (!runs_once(x, i))
            continue;
        dv_op_print(key, p, o);
        dv_exec_describe(x, i, &is);
        dv_op_schedule_print(key, p, i, &is);
        for (int v = 0; v < o->n_vars; v++)
            dv_put(key, " %" PRId64, x->plan->slices[i][v]);
        dv_put(key, " %" PRId64 "\n", x->result_at[o->write.tensor]);
        put_tensor(key, x, o->write.tensor);
        for (int r = 0; r < o->n_reads; r++)
            put_tensor(key, x, o->reads[r].tensor);
    }
    return key->failed ? dv_nomem(diag) : DV_OK;
}

// Points to the results in the memory that execs share.
static void use_results(dv_exec *x)
{
    for (int32_t t = 0; t < x->plan->ops->n_tensors; t++)
        if (x->result_at[t] >= 0)
            set_result(x, t,
                       (char *)dv_packed_data(x->results) + x->result_at[t]);
}

static dv_status allocate(dv_exec *x, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    x->results = dv_packed_create(x->results_bytes);
    if (!x->results)
        return dv_nomem(diag);
    use_results(x);
    for (int32_t i = 0; i < p->n_ops; i++) {
        int32_t t = p->ops[i].write.tensor;
        if (!stores_once(x, i) || x->once[t])
            continue;
        x->once_owned[t] =
            dv_alloc_buffer((size_t)dv_tensor_bytes(&p->tensors[t]));
        if (!x->once_owned[t])
            return dv_nomem(diag);
        set_result(x, t, x->once_owned[t]);
    }
    return DV_OK;
}

static dv_status compute(dv_exec *x, const dv_run *by, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    dv_run r = {.once = 1, .parallel_for = by->parallel_for, .pool = by->pool};
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

// Uses the results that another exec has computed, if there are any and all
// results of this exec are among them. Returns whether it does.
static int takes_results(dv_exec *x, const dv_text *key)
{
    const dv_program *p = x->plan->ops;
    for (int32_t i = 0; i < p->n_ops; i++)
        if (stores_once(x, i) && x->result_at[p->ops[i].write.tensor] < 0)
            return 0;
    x->results = dv_packed_find(key);
    if (x->results)
        use_results(x);
    return x->results != NULL;
}

dv_status dv_exec_compute_once(dv_exec *x, const dv_run *by, dv_diag *diag)
{
    dv_text key = {0};
    if (!x->once)
        return DV_OK;
    dv_exec_drop_once(x);
    dv_status st = put_key(&key, x, diag);
    if (st == DV_OK && !takes_results(x, &key)) {
        st = compute(x, by, diag);
        if (st == DV_OK)
            st = dv_packed_share(&x->results, &key, diag);
        if (st == DV_OK)
            use_results(x);
    }
    dv_text_free(&key);
    return st;
}
