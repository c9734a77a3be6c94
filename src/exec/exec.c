// Creates an exec, binds buffers and runs a plan sequentially.
#include "base/math.h"
#include "base/options.h"
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
    x->progress = progress;
    x->user = user;
}

void dv_exec_watch(dv_exec *x, int (*watch)(void *user, double done),
                   void *user)
{
    x->watch = watch;
    x->watch_user = user;
}

int dv_exec_is_cancelled(dv_exec *x)
{
    if (x->watch && !x->cancelled)
        x->cancelled = x->watch(x->watch_user, x->done / x->total) != 0;
    return x->cancelled;
}

void dv_exec_time_groups(dv_exec *x, double *seconds)
{
    x->spent = seconds;
}

// Allocates the memory of the temporaries that the plan stores.
static dv_status store_temporaries(dv_exec *x, dv_diag *diag)
{
    const dv_schedule *s = &x->plan->schedule;
    if (!dv_op_scheduled(x->plan, 0) || !s->n_stored)
        return DV_OK;
    x->stored = dv_alloc_buffer((size_t)dv_stored_bytes(x->plan));
    if (!x->stored)
        return dv_nomem(diag);
    for (int32_t i = 0; i < s->n_stored; i++)
        x->data[s->stored[i].tensor] = x->stored + s->stored[i].address;
    return DV_OK;
}

// Allocates the tensors that have no memory yet, unless the exec only finds out
// which kernels there are: copies of inputs that are updated but are no outputs
// and, if the plan has no schedule, temporaries.
static dv_status own_tensors(dv_exec *x, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    if (!x->probing)
        DV_TRY(store_temporaries(x, diag));
    x->copied_bytes = 0;
    char *written = DV_NEW(&x->arena, char, p->n_tensors);
    if (!written)
        return dv_nomem(diag);
    enum { IS_WRITTEN = 1, IS_INLINED };
    for (int i = 0; i < p->n_ops; i++) {
        const dv_op_schedule *as = dv_op_scheduled(x->plan, i);
        int inlined =
            x->kind == DV_RUN_THREADS && as && as->kind == DV_KERNEL_INLINE;
        written[p->ops[i].write.tensor] = inlined ? IS_INLINED : IS_WRITTEN;
    }
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        if (t->is_output || (t->is_input && !written[i]) ||
            written[i] == IS_INLINED || (x->strides && x->strides[i]))
            // No memory is allocated for this tensor: the user's buffer or the
            // threads' tile buffers hold it, or it is never stored.
            continue;
        if (!t->is_input && x->data[i])
            continue; // it has its place in the memory of temporaries
        x->copied_bytes += t->is_input ? dv_tensor_bytes(t) : 0;
        if (x->probing)
            continue;
        x->owned[i] = x->data[i] = dv_alloc_buffer((size_t)dv_tensor_bytes(t));
        if (!x->owned[i])
            return dv_nomem(diag);
    }
    return DV_OK;
}

// Allocates the snapshots (copies of tensors that an op both reads and
// overwrites). Tiles of several ops of one group (ops that share one tile
// space) may run at the same time, so each op has its own snapshot; groups run
// one after the other and share the memory.
static dv_status make_snapshots(dv_exec *x, dv_diag *diag)
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
    if (x->probing)
        return DV_OK;
    dv_release(x->snapshot);
    x->snapshot = dv_alloc_buffer((size_t)most);
    return x->snapshot ? DV_OK : dv_nomem(diag);
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
    return make_snapshots(x, diag);
}

static void let_go(dv_exec *x)
{
    // An exec whose creation failed may lack these arrays.
    int whole = x->owned && x->data && x->bound;
    for (int32_t i = 0; whole && i < x->n_owned; i++) {
        dv_release(x->owned[i]);
        x->owned[i] = NULL;
        x->data[i] = x->bound[i];
    }
    dv_release(x->stored);
    x->stored = NULL;
    dv_sim_destroy(x->sim);
    x->sim = NULL;
    dv_threads_destroy(x);
}

dv_status dv_exec_use(dv_exec *x, dv_executor kind, dv_diag *diag)
{
    DV_TRY(dv_options_enum((int)kind, DV_RUN_SIM + 1, "executor", diag));
    let_go(x);
    x->kind = kind;
    x->strides = NULL;
    x->choosing = !dv_op_scheduled(x->plan, 0);
    if (kind == DV_RUN_THREADS)
        DV_TRY(dv_exec_find_locals(x, diag));
    DV_TRY(make_kernels(x, diag));
    if (kind != DV_RUN_SIM)
        DV_TRY(own_tensors(x, diag));
    DV_TRY(dv_threads_create(x, diag));
    return kind == DV_RUN_SIM
               ? dv_sim_create(&x->sim, x->plan, x->kernels, diag)
               : DV_OK;
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
    if (x->plan->ops->tensors[tensor].is_output)
        return x->bound[tensor];
    // The simulator keeps temporaries in its own memory: nothing is owned.
    if (x->owned[tensor])
        return x->choosing && may_be_inlined(x, tensor) ? NULL
                                                        : x->owned[tensor];
    for (int32_t i = 0; x->stored && i < x->plan->schedule.n_stored; i++)
        if (x->plan->schedule.stored[i].tensor == tensor)
            return is_overwritten(x->plan, i) ? NULL : x->data[tensor];
    return NULL;
}

const dv_sim_traffic *dv_exec_moved(const dv_exec *x)
{
    return x->sim ? dv_sim_moved(x->sim) : NULL;
}

const dv_sim_traffic *dv_exec_moved_by(const dv_exec *x, int32_t op,
                                       int64_t core)
{
    return x->sim ? dv_sim_moved_by(x->sim, op, core) : NULL;
}

int dv_exec_price(const dv_exec *x, int32_t group, dv_price *out)
{
    if (!x->sim)
        return 0;
    *out = (dv_price){0};
    for (int32_t g = 0; g < x->plan->n_groups; g++) {
        if (group >= 0 && g != group)
            continue;
        dv_group_work w = dv_sim_work(x->sim, g);
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
        x->bound[i] = (void *)(uintptr_t)dv_constant_data(x->files[i]);
        x->data[i] = x->bound[i];
    }
    return DV_OK;
}

// Creates an exec of a plan that the checker accepts.
static dv_status create(dv_exec **out, const dv_plan *plan, int probing,
                        const dv_schedule_pins *wanted, dv_diag *diag)
{
    dv_arena arena = {0};
    dv_exec *x = DV_NEW(&arena, dv_exec, 1);
    if (!x)
        return dv_nomem(diag);
    x->arena = arena;
    x->plan = plan;
    x->from_repeat = -1;
    x->probing = probing;
    x->wanted = wanted;
    size_t n = (size_t)plan->ops->n_tensors;
    x->data = DV_NEW(&x->arena, void *, n);
    x->owned = DV_NEW(&x->arena, void *, n);
    x->n_owned = (int32_t)n;
    x->bound = DV_NEW(&x->arena, void *, n);
    x->files = DV_NEW(&x->arena, dv_constant *, n);
    x->kernels = DV_NEW(&x->arena, dv_kernel, plan->ops->n_ops);
    x->group = DV_NEW(&x->arena, dv_group_plan, plan->n_groups);
    x->total = dv_program_points(plan->ops);
    dv_status st =
        x->data && x->owned && x->bound && x->files && x->kernels && x->group
            ? open_constants(x, diag)
            : dv_nomem(diag);
    if (st == DV_OK)
        st = dv_exec_use(
            x, dv_target_runs_here(&plan->target) ? DV_RUN_THREADS : DV_RUN_SIM,
            diag);
    if (st == DV_OK)
        *out = x;
    else
        dv_exec_destroy(x);
    return st;
}

dv_status dv_exec_create(dv_exec **out, const dv_plan *plan, dv_diag *diag)
{
    if (plan->team.n_axes)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the plan is for a team of %" PRId64
                       ", each of its ranks has an executor of its own",
                       dv_plan_team_size(&plan->team));
    DV_TRY(dv_plan_check(plan, diag)); // an invalid plan is not run
    return create(out, plan, 0, NULL, diag);
}

dv_status dv_exec_probe(dv_exec **out, const dv_plan *plan,
                        const dv_schedule_pins *wanted, dv_diag *diag)
{
    return create(out, plan, 1, wanted, diag);
}

void dv_exec_destroy(dv_exec *x)
{
    if (!x)
        return;
    let_go(x);
    for (int32_t i = 0; x->files && i < x->n_owned; i++)
        dv_constant_close(x->files[i]);
    dv_release(x->snapshot);
    dv_arena arena = x->arena;
    dv_arena_free(&arena);
}

dv_status dv_exec_bind(dv_exec *x, const char *tensor, void *data,
                       size_t size_bytes, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    int32_t i = dv_program_find(p, tensor);
    if (i < 0)
        return dv_fail(diag, DV_E_NAME, DV_NOWHERE, "there is no tensor %s",
                       tensor);
    const dv_tensor *t = &p->tensors[i];
    if (!t->is_input && !t->is_output)
        return dv_fail(diag, DV_E_NAME, DV_NOWHERE,
                       "%s is neither an input nor an output", tensor);
    if (t->file)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%s is a constant with the elements of %s, it is not "
                       "bound",
                       tensor, t->file);
    if (size_bytes != (size_t)dv_tensor_bytes(t))
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "%s has %" PRId64 " bytes, %zu were given", tensor,
                       dv_tensor_bytes(t), size_bytes);
    if (!data)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "%s is bound to NULL",
                       tensor);
    if (t->is_const)
        dv_exec_unpack(x, i);
    x->bound[i] = data;
    x->rebound = 1;
    if (!x->owned[i])
        x->data[i] = data;
    return DV_OK;
}

// Fails if a bound output overlaps any other bound tensor in memory, because an
// element could then be read after it was overwritten.
static dv_status check_overlaps(dv_exec *x, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    for (int i = 0; i < p->n_tensors && x->rebound; i++)
        for (int k = 0; k < p->n_tensors && p->tensors[i].is_output; k++) {
            const char *a = x->bound[i], *b = x->bound[k];
            if (k != i && b && a < b + dv_tensor_bytes(&p->tensors[k]) &&
                b < a + dv_tensor_bytes(&p->tensors[i]))
                return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                               "the memory of %s overlaps that of %s",
                               p->tensors[i].name, p->tensors[k].name);
        }
    x->rebound = 0;
    return DV_OK;
}

static void run_tile(dv_exec *x, dv_strips *s, int32_t op, int64_t tile)
{
    const dv_op *o = &x->plan->ops->ops[op];
    dv_tile t;
    dv_plan_tile(&t, x->plan, op, tile);
    for (int v = 0; v < o->n_vars; v++) {
        // A reduced variable v may be cut into slices, one per tile. The tile
        // of the first slice computes the whole reduction, in the order of the
        // slices, so that no partial sums are stored; the tiles of the other
        // slices do nothing.
        if (o->vars[v].reduce && t.slot[v] > 0)
            return;
        if (o->vars[v].reduce)
            t.end[v] = o->vars[v].end;
    }
    dv_strips_run(s, t.begin, t.end);
}

// Makes `op` the current op and, before its first tile, takes the snapshot of
// the tensor that it both reads and overwrites.
static void start_op(dv_exec *x, dv_strips *s, int32_t op, int first)
{
    s->k = &x->kernels[op];
    s->old = NULL;
    if (s->k->old_off < 0)
        return;
    int32_t t = s->k->op->write.tensor;
    char *old = (char *)x->snapshot + s->k->old_off;
    s->old = old;
    if (first)
        memcpy(old, x->data[t],
               (size_t)dv_tensor_bytes(&x->plan->ops->tensors[t]));
}

// Reports the progress of the run while `share` of a tile is done.
static void tick(void *user, double share)
{
    const dv_exec *x = user;
    x->progress(x->user, (x->done + share * x->tile_work) / x->total);
}

// Runs ops first_op..end_op of a group (ops that share one tile space), tile by
// tile, all of these ops for one tile before the next tile.
static dv_status run_tiles(dv_exec *x, dv_strips *s, const dv_group *g,
                           int32_t first_op, int32_t end_op)
{
    int first = 1;
    for (int32_t d = 0; d < g->n_deals; d++) {
        const dv_deal *deal = &g->deals[d];
        for (int64_t i = 0; i < deal->n_tiles; i++) {
            for (int32_t op = first_op; op < end_op; op++) {
                start_op(x, s, op, first);
                x->tile_work = dv_op_work(s->k->op) / (double)g->n_tiles;
                s->tick = x->progress ? tick : NULL;
                s->user = x;
                if (dv_exec_is_cancelled(x))
                    return DV_E_CANCELLED;
                run_tile(x, s, op, deal->first_tile + i);
                x->done += x->tile_work;
                if (s->status != DV_OK)
                    return s->status;
            }
            first = 0;
        }
    }
    return DV_OK;
}

// Runs a group (ops that share one tile space). If a reduction is split over
// tiles, the ops run one by one: run_tile computes the whole reduction in its
// first tile and therefore reads elements that earlier ops compute in other
// tiles.
static dv_status run_group(dv_exec *x, dv_strips *s, const dv_group *g)
{
    if (!dv_group_splits_reduction(x->plan, (int32_t)(g - x->plan->groups)))
        return run_tiles(x, s, g, g->first_op, g->end_op);
    for (int32_t op = g->first_op; op < g->end_op; op++)
        DV_TRY(run_tiles(x, s, g, op, op + 1));
    return DV_OK;
}

static dv_status simulate_group(dv_exec *x, dv_strips *s, const dv_group *g)
{
    DV_TRY(dv_sim_group(x->sim, g, s));
    for (int32_t op = g->first_op; op < g->end_op; op++)
        x->done += dv_op_work(x->kernels[op].op);
    return DV_OK;
}

static dv_status run_sequentially(dv_exec *x, dv_strips *s, int32_t group)
{
    const dv_group *g = &x->plan->groups[group];
    if (dv_exec_is_cancelled(x))
        return DV_E_CANCELLED;
    DV_TRY(x->sim ? simulate_group(x, s, g) : run_group(x, s, g));
    if (x->progress)
        x->progress(x->user, x->done / x->total);
    if (x->hooks.at_extern && x->plan->ops->ops[g->first_op].is_extern)
        x->hook_status = x->hooks.at_extern(x->hooks.user, g->first_op);
    return x->hook_status;
}

static dv_status end_round(dv_exec *x, int32_t repeat, int64_t round)
{
    if (x->hooks.after_round)
        x->hook_status = x->hooks.after_round(x->hooks.user, repeat, round);
    return x->hook_status;
}

// Runs all groups in order on the calling thread.
static dv_status run_all(dv_exec *x, dv_strips *s)
{
    dv_walk w;
    dv_walk_step step;
    dv_walk_begin(&w, x->plan, x->from_repeat, x->from_round);
    x->from_repeat = -1;
    while ((step = dv_walk_next(&w)) != DV_WALK_END)
        DV_TRY(step == DV_WALK_GROUP ? run_sequentially(x, s, w.group)
                                     : end_round(x, w.repeat, w.round));
    return DV_OK;
}

void dv_walk_begin(dv_walk *w, const dv_plan *plan, int32_t repeat,
                   int64_t round)
{
    w->plan = plan;
    w->depth = 0;
    w->next = w->next_repeat = 0;
    w->from_round = 0;
    if (repeat < 0)
        return;
    w->next_repeat = repeat;
    w->next = dv_group_of(plan, plan->ops->repeats[repeat].first_op);
    w->from_round = round;
}

// Returns the first op of the next group, or more than any op has at the end.
static int32_t next_op(const dv_walk *w)
{
    return w->next < w->plan->n_groups ? w->plan->groups[w->next].first_op
                                       : INT32_MAX;
}

// Ends an iteration of the innermost repeat around the groups. Returns whether
// it is an outermost one.
static int end_iteration(dv_walk *w)
{
    const dv_repeat *all = w->plan->ops->repeats;
    int outermost = w->depth == 1;
    w->repeat = w->around[w->depth - 1].repeat;
    w->round = ++w->around[w->depth - 1].round;
    if (w->round >= all[w->repeat].times) {
        w->depth--;
    } else {
        w->next = w->around[w->depth - 1].group;
        w->next_repeat = w->repeat + 1;
    }
    return outermost;
}

// Begins the repeat that begins with the next group, unless it has no
// iterations, in which case its groups are skipped.
static void begin_repeat(dv_walk *w)
{
    const dv_repeat *r = &w->plan->ops->repeats[w->next_repeat];
    if (w->from_round >= r->times) {
        while (next_op(w) < r->end_op)
            w->next++;
        w->next_repeat++;
        while (w->next_repeat < w->plan->ops->n_repeats &&
               w->plan->ops->repeats[w->next_repeat].first_op < r->end_op)
            w->next_repeat++;
    } else {
        w->around[w->depth].repeat = w->next_repeat++;
        w->around[w->depth].group = w->next;
        w->around[w->depth++].round = w->from_round;
    }
    w->from_round = 0;
}

dv_walk_step dv_walk_next(dv_walk *w)
{
    const dv_program *p = w->plan->ops;
    for (;;) {
        int32_t op = next_op(w);
        if (w->depth > 0 &&
            op >= p->repeats[w->around[w->depth - 1].repeat].end_op) {
            if (end_iteration(w))
                return DV_WALK_ROUND;
            continue;
        }
        while (w->next_repeat < p->n_repeats &&
               p->repeats[w->next_repeat].first_op < op)
            w->next_repeat++;
        if (w->next_repeat < p->n_repeats &&
            p->repeats[w->next_repeat].first_op == op) {
            begin_repeat(w);
            continue;
        }
        w->group = w->next;
        if (w->next == w->plan->n_groups)
            return DV_WALK_END;
        w->next++;
        return DV_WALK_GROUP;
    }
}

void dv_exec_set_hooks(dv_exec *x, const dv_exec_hooks *hooks)
{
    x->hooks = *hooks;
}

void dv_exec_resume_at(dv_exec *x, int32_t repeat, int64_t round)
{
    x->from_repeat = repeat;
    x->from_round = round;
}

void dv_exec_get(const dv_exec *x, int32_t tensor)
{
    if (x->sim)
        dv_sim_get(x->sim, tensor, x->bound[tensor]);
}

dv_status dv_exec_put(dv_exec *x, int32_t tensor, dv_diag *diag)
{
    return x->sim ? dv_sim_put(x->sim, tensor, x->bound[tensor], diag) : DV_OK;
}

dv_status dv_exec_hook_status(const dv_exec *x)
{
    return x->hook_status;
}

dv_status dv_exec_status(const dv_exec *x, dv_diag **trouble)
{
    for (int32_t i = 0; i < x->n_threads; i++)
        if (x->threads[i].strips.status != DV_OK) {
            *trouble = x->threads[i].diag;
            return x->threads[i].strips.status;
        }
    *trouble = NULL;
    return DV_OK;
}

static dv_status run(dv_exec *x, dv_diag *diag)
{
    const dv_program *p = x->plan->ops;
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        if ((t->is_input || t->is_output) && !x->bound[i])
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "%s is not bound",
                           t->name);
        // An input that is updated but is not an output is copied first.
        if (t->is_input && x->owned[i])
            memcpy(x->owned[i], x->bound[i], (size_t)dv_tensor_bytes(t));
    }
    DV_TRY(check_overlaps(x, diag));
    x->done = 0;
    if (x->kind == DV_RUN_THREADS && x->jit && !dv_jit_can_run(x->jit))
        return dv_fail(diag, DV_E_SYSTEM, DV_NOWHERE,
                       "%s has kernels for %s, which this machine cannot run",
                       x->plan->target.name, x->plan->target.kernels);
    if (!x->packed)
        DV_TRY(dv_exec_pack(x, diag));
    x->packed = 1;
    if (x->kind == DV_RUN_THREADS)
        return dv_threads_run(x, diag);
    dv_strips s = x->threads[0].strips;
    s.data = x->data;
    s.diag = diag;
    x->hook_status = DV_OK;
    if (x->sim)
        DV_TRY(dv_sim_load(x->sim, x->bound, diag));
    DV_TRY(run_all(x, &s));
    if (x->sim)
        dv_sim_store(x->sim, x->bound);
    return DV_OK;
}

dv_status dv_exec_run(dv_exec *x, dv_diag *diag)
{
    x->cancelled = 0;
    dv_status st = run(x, diag);
    return x->cancelled ? dv_fail(diag, DV_E_CANCELLED, DV_NOWHERE,
                                  "the run was stopped by its caller")
                        : st;
}
