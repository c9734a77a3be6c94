// Creates an exec: prepares what all of its runs share.
#include "base/math.h"
#include "base/options.h"
#include "base/plural.h"
#include "exec/state.h"
#include <inttypes.h>
#include <string.h>

static const char *const kinds[] = {"seq", "threads", "sim"};

const char *dv_exec_name(const dv_exec *x)
{
    return kinds[x->kind];
}

dv_executor dv_exec_executor(const dv_exec *x)
{
    return x->kind;
}

int32_t dv_exec_threads(const dv_exec *x)
{
    return x->kind == DV_RUN_THREADS ? x->n_threads : 1;
}

void dv_exec_on_progress(dv_exec *x, dv_progress progress, void *user)
{
    x->run.progress = progress;
    x->run.user = user;
}

void dv_exec_watch(dv_exec *x, int (*watch)(void *user, double done),
                   void *user)
{
    dv_run_watch(&x->run, watch, user);
}

void dv_exec_time_groups(dv_exec *x, double *seconds)
{
    x->run.spent = seconds;
}

// Finds the memory of snapshots (copies of tensors that an op both reads and
// overwrites). Tiles of several ops of one group (ops that share one tile
// space) may run at the same time, so each op has its own snapshot; groups run
// one after the other and share the memory.
static dv_status find_snapshots(dv_exec *x, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    int64_t most = 0;
    for (int32_t g = 0; g < x->plan->n_groups; g++) {
        int64_t used = 0, bytes;
        for (int32_t i = x->plan->groups[g].first_op;
             i < x->plan->groups[g].end_op; i++) {
            const dv_op *op = &p->ops[i];
            if (!op->update || !dv_op_reads_own_write(op))
                continue;
            x->kernels[i].old_off = used;
            bytes = dv_tensor_bytes(&p->tensors[op->write.tensor]);
            if (!dv_add_i64(&used, used, dv_ceil_div(bytes, 8) * 8))
                return dv_nomem(diag);
        }
        most = dv_max_i64(most, used);
    }
    x->snapshot_bytes = most;
    return DV_OK;
}

static dv_status make_kernels(dv_exec *x, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    for (int i = 0; i < p->n_ops; i++) {
        dv_kernel *k = &x->kernels[i];
        dv_whole_op whole = dv_plan_whole_op(x->plan, i);
        dv_kernel as;
        if (!dv_kernel_init(k, p, &p->ops[i], x->strides, &x->arena))
            return dv_nomem(diag);
        if (k->n_slots > x->n_slots)
            x->n_slots = k->n_slots;
        const dv_op_schedule *said = dv_op_scheduled(x->plan, i);
        if (x->kind == DV_RUN_THREADS && !x->choosing &&
            said->kind == DV_KERNEL_STRIP && said->inner >= 0)
            k->strip = said->inner;
        if (whole.p == p)
            continue;
        if (!dv_kernel_init(&as, whole.p, whole.op, NULL, &x->arena))
            return dv_nomem(diag);
        k->strip = as.strip;
    }
    return find_snapshots(x, diag);
}

// Finds which tensors the ops write, and the bytes of the copies that are
// needed of inputs which are updated but are not outputs.
static void find_written(dv_exec *x)
{
    const dv_program *p = x->plan->ops;
    x->copied_bytes = 0;
    for (int32_t i = 0; i < p->n_tensors; i++)
        x->written[i] = DV_NOT_WRITTEN;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op_schedule *as = dv_op_scheduled(x->plan, i);
        int inlined =
            x->kind == DV_RUN_THREADS && as && as->kind == DV_KERNEL_INLINE;
        x->written[p->ops[i].write.tensor] = inlined ? DV_INLINED : DV_WRITTEN;
    }
    for (int32_t i = 0; i < p->n_tensors && x->kind != DV_RUN_SIM; i++)
        if (p->tensors[i].is_input && !p->tensors[i].is_output && x->written[i])
            x->copied_bytes += dv_tensor_bytes(&p->tensors[i]);
}

// Sets the strides of operands to those that the caller requested.
static dv_status use_layouts(dv_exec *x, dv_diag *diag)
{
    if (!x->layouts || x->kind == DV_RUN_SIM)
        return DV_OK;
    int32_t n = x->plan->ops->n_tensors;
    if (!x->strides && !(x->strides = DV_NEW(&x->arena, int64_t *, n)))
        return dv_nomem(diag);
    for (int32_t i = 0; i < n; i++)
        if (x->layouts[i])
            x->strides[i] = x->layouts[i];
    return DV_OK;
}

// Prepares the kernels for the operand strides that the caller requested. If an
// op cannot obey the plan's schedule with them, x->op_failed says which.
static dv_status prepare(dv_exec *x, dv_diag *diag)
{
    dv_exec_unprepare(x);
    dv_exec_free_once(x);
    x->strides = NULL;
    x->op_failed = -1;
    if (x->kind == DV_RUN_THREADS)
        DV_TRY(dv_exec_find_locals(x, diag));
    find_written(x);
    DV_TRY(use_layouts(x, diag));
    DV_TRY(make_kernels(x, diag));
    DV_TRY(dv_exec_prepare(x, diag));
    return dv_exec_find_once(x, diag);
}

// Forgets the caller's strides of an op's operands, so that its kernels expect
// row-major copies. Returns 0 if all were row-major already.
static int drop_layouts(dv_exec *x, int32_t op)
{
    const dv_op *o = &x->plan->ops->ops[op];
    int dropped = 0;
    for (int i = -1; i < o->n_reads; i++) {
        int32_t t = i < 0 ? o->write.tensor : o->reads[i].tensor;
        dropped |= x->layouts[t] != NULL;
        x->layouts[t] = NULL;
    }
    return dropped;
}

// Prepares the kernels. If those of an op cannot use the caller's strides of
// its operands, they are prepared again for row-major copies.
static dv_status prepare_layouts(dv_exec *x, dv_diag *diag)
{
    while (x->layouts) {
        dv_status st = prepare(x, NULL);
        if (st == DV_OK || st == DV_E_NOMEM)
            return st == DV_OK ? st : dv_nomem(diag);
        if (x->op_failed < 0 || !drop_layouts(x, x->op_failed))
            break;
    }
    return prepare(x, diag);
}

dv_status dv_exec_use(dv_exec *x, dv_executor kind, dv_diag *diag)
{
    DV_TRY(dv_options_enum((int)kind, DV_RUN_SIM + 1, "executor", diag));
    if (x->n_runs)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the exec has %" PRId64
                       " run%s, its executor is selected before",
                       x->n_runs, DV_PLURAL(x->n_runs, "", "s"));
    dv_run_release(&x->run);
    x->kind = kind;
    x->choosing = !dv_op_scheduled(x->plan, 0);
    DV_TRY(prepare_layouts(x, diag));
    return x->probing ? DV_OK : dv_run_allocate(&x->run, diag);
}

// Returns 1 if only ops of one group that runs row by row use the tensor, so
// that it may be inlined where it is read.
static int may_be_inlined(const dv_exec *x, int32_t tensor)
{
    const dv_program *p = x->plan->ops;
    int32_t home = -1;
    for (int32_t i = 0; i < p->n_ops; i++) {
        int32_t g = dv_group_of(x->plan, i);
        if (p->ops[i].write.tensor != tensor &&
            !dv_op_reads(&p->ops[i], tensor))
            continue;
        if (!x->group[g].rows || (home >= 0 && home != g))
            return 0;
        home = g;
    }
    return home >= 0;
}

static int32_t last_writer(const dv_plan *plan, int32_t tensor)
{
    int32_t op = plan->ops->n_ops - 1;
    while (op >= 0 && plan->ops->ops[op].write.tensor != tensor)
        op--;
    return op;
}

// Returns 1 if stored temporary number i shares bytes with one that is written
// after it.
static int is_overwritten(const dv_plan *plan, int32_t i)
{
    const dv_temp_address *all = plan->schedule.stored, *a = &all[i];
    int64_t bytes = dv_tensor_bytes(&plan->ops->tensors[a->tensor]);
    int32_t op = last_writer(plan, a->tensor);
    for (int32_t k = 0; k < plan->schedule.n_stored; k++) {
        const dv_temp_address *b = &all[k];
        int64_t other = dv_tensor_bytes(&plan->ops->tensors[b->tensor]);
        if (k != i && a->address < b->address + other &&
            b->address < a->address + bytes &&
            last_writer(plan, b->tensor) > op)
            return 1;
    }
    return 0;
}

void *dv_exec_stored(const dv_exec *x, int32_t tensor)
{
    const dv_run *r = &x->run;
    if (x->plan->ops->tensors[tensor].is_output)
        return r->bound[tensor].data;
    if (x->once && x->once[tensor])
        return x->once[tensor];
    // Nothing is owned in a simulated run: the simulator keeps temporaries.
    if (r->owned[tensor])
        return x->choosing && may_be_inlined(x, tensor) ? NULL
                                                        : r->owned[tensor];
    for (int32_t i = 0; r->stored && i < x->plan->schedule.n_stored; i++)
        if (x->plan->schedule.stored[i].tensor == tensor)
            return is_overwritten(x->plan, i) ? NULL : r->data[tensor];
    return NULL;
}

const dv_sim_traffic *dv_exec_moved(const dv_exec *x)
{
    return x->run.sim ? dv_sim_moved(x->run.sim) : NULL;
}

const dv_sim_traffic *dv_exec_moved_by(const dv_exec *x, int32_t op,
                                       int64_t core)
{
    return x->run.sim ? dv_sim_moved_by(x->run.sim, op, core) : NULL;
}

int dv_exec_price(const dv_exec *x, int32_t group, dv_price *out)
{
    if (!x->run.sim)
        return 0;
    *out = (dv_price){0};
    for (int32_t g = 0; g < x->plan->n_groups; g++) {
        if (group >= 0 && g != group)
            continue;
        dv_group_work w = dv_sim_work(x->run.sim, g);
        dv_price p = dv_price_of(&x->plan->target, &w);
        dv_price_add(out, &p, 1);
    }
    return 1;
}

// Opens the files of the program's constants.
static dv_status open_constants(dv_exec *x, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    for (int32_t i = 0; i < p->n_tensors && !x->probing; i++) {
        if (!p->tensors[i].file)
            continue;
        DV_TRY(dv_constant_open(&x->files[i], p, i, diag));
        // Nothing writes to the elements of a constant.
        x->run.data[i] = (void *)(uintptr_t)dv_constant_data(x->files[i]);
        x->run.bound[i].data = x->run.data[i];
        dv_row_strides(p->tensors[i].n_dims, p->tensors[i].shape,
                       x->run.bound[i].strides);
    }
    return DV_OK;
}

// Returns whether kernels can read or write the tensor with any strides: all
// accesses have affine indices that stay inside the tensor. Constants are bound
// without strides.
static int may_have_strides(const dv_program *p, int32_t tensor)
{
    if (p->tensors[tensor].is_const)
        return 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *o = &p->ops[i];
        for (int r = -1; r < o->n_reads; r++) {
            const dv_access *a = r < 0 ? &o->write : &o->reads[r];
            if (a->tensor == tensor &&
                (a->has_border || dv_access_is_indirect(a) || o->is_extern))
                return 0;
        }
        if (o->write.tensor == tensor && dv_op_reads_own_write(o))
            return 0;
        if (o->write.tensor == tensor && !p->tensors[tensor].is_output)
            return 0; // runs update a copy
    }
    return 1;
}

// Returns whether strides are positive, give every element its own address (so
// that a copy can have them), and differ from row-major ones.
static int are_special(const dv_tensor *t, const int64_t *strides)
{
    int64_t rows[DV_MAX_DIMS];
    int special = 0;
    dv_row_strides(t->n_dims, t->shape, rows);
    for (int d = 0; d < t->n_dims; d++) {
        if (t->shape[d] > 1 && strides[d] <= 0)
            return 0;
        special |= t->shape[d] > 1 && strides[d] != rows[d];
    }
    return special && dv_run_strides_apart(t, strides);
}

// Reads the operand strides in the options into x->layouts.
static dv_status read_strides(dv_exec *x, const dv_exec_options *o,
                              dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    DV_TRY(dv_options_list(o->strides, o->n_strides, "strides", diag));
    if (!o->n_strides)
        return DV_OK;
    x->layouts = DV_NEW(&x->arena, int64_t *, p->n_tensors);
    if (!x->layouts)
        return dv_nomem(diag);
    for (size_t i = 0; i < o->n_strides; i++) {
        int32_t t = -1;
        DV_TRY(dv_exec_find_operand(&t, x, o->strides[i].tensor, diag));
        DV_TRY(dv_run_check_strides(p, t, o->strides[i].strides, diag));
        if (!may_have_strides(p, t) ||
            !are_special(&p->tensors[t], o->strides[i].strides))
            continue;
        x->layouts[t] = DV_NEW(&x->arena, int64_t, p->tensors[t].n_dims);
        if (!x->layouts[t])
            return dv_nomem(diag);
        memcpy(x->layouts[t], o->strides[i].strides,
               (size_t)p->tensors[t].n_dims * sizeof(int64_t));
    }
    return DV_OK;
}

static dv_status set_up(dv_exec *x, const dv_exec_options *o, dv_diag *diag)
{
    const dv_plan *plan = x->plan;
    size_t n = (size_t)plan->ops->n_tensors;
    x->files = DV_NEW(&x->arena, dv_constant *, n);
    x->kernels = DV_NEW(&x->arena, dv_kernel, plan->ops->n_ops);
    x->group = DV_NEW(&x->arena, dv_group_exec, plan->n_groups);
    x->written = DV_NEW(&x->arena, int, n);
    if (!x->files || !x->kernels || !x->group || !x->written)
        return dv_nomem(diag);
    DV_TRY(dv_run_init(&x->run, x, diag));
    DV_TRY(open_constants(x, diag));
    DV_TRY(read_strides(x, o, diag));
    return dv_exec_use(
        x, dv_target_runs_here(&plan->target) ? DV_RUN_THREADS : DV_RUN_SIM,
        diag);
}

// Creates an exec of a checked plan. Of `as`, only the members that select a
// special use are set: `probing`, `wanted` and `called`.
static dv_status create(dv_exec **out, const dv_plan *plan, const dv_exec *as,
                        const dv_exec_options *o, dv_diag *diag)
{
    dv_arena arena = {0};
    dv_exec *x = DV_NEW(&arena, dv_exec, 1);
    if (!x)
        return dv_nomem(diag);
    x->arena = arena;
    x->plan = plan;
    x->probing = as->probing;
    x->wanted = as->wanted;
    x->called = as->called;
    pthread_mutex_init(&x->lock, NULL);
    dv_status st = set_up(x, o, diag);
    if (st == DV_OK)
        *out = x;
    else
        dv_exec_destroy(x);
    return st;
}

dv_status dv_exec_create_with(dv_exec **out, const dv_plan *plan,
                              const dv_exec_options *options, dv_diag *diag)
{
    dv_exec_options o = DV_EXEC_OPTIONS_INIT;
    DV_TRY(dv_options_read(&o, sizeof o, options, "dv_exec_options", diag));
    if (plan->team.n_axes)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the plan is for a team of %" PRId64
                       ", each of its ranks has an executor of its own",
                       dv_plan_team_size(&plan->team));
    DV_TRY(dv_plan_check(plan, diag)); // an invalid plan is not run
    return create(out, plan, &(dv_exec){.probing = 0}, &o, diag);
}

dv_status dv_exec_create(dv_exec **out, const dv_plan *plan, dv_diag *diag)
{
    return dv_exec_create_with(out, plan, NULL, diag);
}

dv_status dv_exec_probe(dv_exec **out, const dv_plan *plan,
                        const dv_schedule_pins *wanted, dv_diag *diag)
{
    dv_exec_options o = DV_EXEC_OPTIONS_INIT;
    return create(out, plan, &(dv_exec){.probing = 1, .wanted = wanted}, &o,
                  diag);
}

dv_status dv_exec_create_recorded(dv_exec **out, const dv_plan *plan,
                                  dv_jit_called *called, dv_diag *diag)
{
    dv_exec_options o = DV_EXEC_OPTIONS_INIT;
    return create(out, plan, &(dv_exec){.called = called}, &o, diag);
}

void dv_exec_destroy(dv_exec *x)
{
    if (!x)
        return;
    dv_run_finish(&x->run);
    x->run.data = NULL;
    // The address of the results that are computed once is part of the keys of
    // what products packed of them, which is therefore released first.
    dv_exec_unprepare(x);
    dv_exec_free_once(x);
    for (int32_t i = 0; x->files && i < x->plan->ops->n_tensors; i++)
        dv_constant_close(x->files[i]);
    pthread_mutex_destroy(&x->lock);
    dv_arena arena = x->arena;
    dv_arena_free(&arena);
}

void dv_exec_set_hooks(dv_exec *x, const dv_exec_hooks *hooks)
{
    x->run.hooks = *hooks;
}

void dv_exec_resume_at(dv_exec *x, int32_t repeat, int64_t round)
{
    x->run.from_repeat = repeat;
    x->run.from_round = round;
}

void dv_exec_get(const dv_exec *x, int32_t tensor)
{
    if (x->run.sim)
        dv_sim_get(x->run.sim, tensor, x->run.data[tensor]);
}

dv_status dv_exec_put(dv_exec *x, int32_t tensor, dv_diag *diag)
{
    return x->run.sim
               ? dv_sim_put(x->run.sim, tensor, x->run.data[tensor], diag)
               : DV_OK;
}

dv_status dv_exec_hook_status(const dv_exec *x)
{
    return x->run.hook_status;
}

dv_status dv_exec_status(const dv_exec *x, dv_diag **trouble)
{
    for (int32_t i = 0; i < x->run.n_threads; i++)
        if (x->run.threads[i].strips.status != DV_OK) {
            *trouble = x->run.threads[i].diag;
            return x->run.threads[i].strips.status;
        }
    *trouble = NULL;
    return DV_OK;
}

dv_status dv_exec_run(dv_exec *x, dv_diag *diag)
{
    return dv_run_now(&x->run, diag);
}
