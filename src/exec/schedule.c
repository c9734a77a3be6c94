// The pass `schedule`: finds out which kernels there are for a divided program
// by preparing them, and writes the choice to the plan, where the checker sees
// it and executors obey it.
#include "base/math.h"
#include "divvy/place.h"
#include "exec/state.h"
#include <string.h>

static dv_status list_temps(dv_plan *plan, const dv_exec *x, dv_diag *diag)
{
    dv_schedule *s = &plan->schedule;
    int32_t n = 0;
    for (int32_t g = 0; g < plan->n_groups; g++)
        n += x->group[g].n_locals;
    s->temps = DV_NEW(&plan->arena, dv_temp_address, n);
    if (!s->temps)
        return dv_nomem(diag);
    for (int32_t g = 0; g < plan->n_groups; g++)
        for (int32_t i = 0; i < x->group[g].n_locals; i++) {
            const dv_tile_buffer *l = &x->group[g].locals[i];
            if (s->ops[l->op].kind == DV_KERNEL_INLINE)
                continue; // it is never stored
            s->temps[s->n_temps++] =
                (dv_temp_address){.tensor = l->tensor, .address = l->off_bytes};
        }
    return DV_OK;
}

// The lifetime of a temporary in numbers of ops. The ops of a group run tile by
// tile, so that a lifetime covers whole groups. In a repeat, one iteration may
// read what the one before wrote, so that a lifetime covers the whole repeat.
typedef struct lifetime {
    int32_t first_op, end_op;
} lifetime;

// Returns the ops of the outermost repeat (loop) that contains a group; if none
// does, the ops of the group.
static lifetime span_of(const dv_plan *plan, const dv_group *g)
{
    const dv_program *p = plan->ops;
    for (int32_t i = 0; i < p->n_repeats; i++)
        if (p->repeats[i].first_op <= g->first_op &&
            p->repeats[i].end_op >= g->end_op)
            return (lifetime){p->repeats[i].first_op, p->repeats[i].end_op};
    return (lifetime){g->first_op, g->end_op};
}

static void extend(lifetime *l, lifetime by)
{
    int none = !l->end_op;
    l->first_op = none || by.first_op < l->first_op ? by.first_op : l->first_op;
    l->end_op = by.end_op > l->end_op ? by.end_op : l->end_op;
}

static void find_lifetimes(const dv_plan *plan, lifetime *of)
{
    for (int32_t g = 0; g < plan->n_groups; g++) {
        const dv_group *group = &plan->groups[g];
        lifetime span = span_of(plan, group);
        for (int32_t i = group->first_op; i < group->end_op; i++) {
            const dv_op *o = &plan->ops->ops[i];
            for (int r = 0; r < o->n_reads; r++)
                extend(&of[o->reads[r].tensor], span);
            extend(&of[o->write.tensor], span);
        }
    }
}

// Lists the temporaries that are stored: all but those that are kept for one
// tile, inlined or computed once. `listed` has room for a mark per tensor.
static void list_stored(dv_plan *plan, char *listed)
{
    dv_schedule *s = &plan->schedule;
    for (int32_t i = 0; i < s->n_temps; i++)
        listed[s->temps[i].tensor] = 1;
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        int32_t t = plan->ops->ops[i].write.tensor;
        const dv_tensor *x = &plan->ops->tensors[t];
        if (listed[t] || x->is_input || x->is_output || x->is_once ||
            s->ops[i].kind == DV_KERNEL_INLINE)
            continue;
        listed[t] = 1;
        s->stored[s->n_stored++] = (dv_temp_address){.tensor = t};
    }
}

// Places the stored temporaries in one memory; those with disjoint lifetimes
// may share bytes.
static dv_status place_stored(dv_plan *plan, dv_arena *work, dv_diag *diag)
{
    enum { ALIGN_BYTES = 64 };
    dv_schedule *s = &plan->schedule;
    size_t n_tensors = (size_t)plan->ops->n_tensors;
    char *listed = DV_NEW(work, char, n_tensors);
    lifetime *lifetimes = DV_NEW(work, lifetime, n_tensors);
    s->stored = DV_NEW(&plan->arena, dv_temp_address, n_tensors);
    if (!listed || !lifetimes || !s->stored)
        return dv_nomem(diag);
    list_stored(plan, listed);
    find_lifetimes(plan, lifetimes);
    dv_buffer *buffers = DV_NEW(work, dv_buffer, s->n_stored);
    dv_place_options o = DV_PLACE_OPTIONS_INIT;
    if (!buffers)
        return dv_nomem(diag);
    for (int32_t i = 0; i < s->n_stored; i++) {
        const dv_tensor *t = &plan->ops->tensors[s->stored[i].tensor];
        const lifetime *l = &lifetimes[s->stored[i].tensor];
        buffers[i] = (dv_buffer)DV_BUFFER_INIT;
        buffers[i].name = t->name;
        buffers[i].size_bytes = dv_round_up(dv_tensor_bytes(t), ALIGN_BYTES);
        buffers[i].start = l->first_op;
        buffers[i].end = l->end_op;
        o.capacity_bytes += buffers[i].size_bytes;
    }
    if (s->n_stored < 2)
        return DV_OK; // a single one is at address 0
    o.align_bytes = ALIGN_BYTES;
    o.solver = DV_SOLVER_BESTFIT;
    dv_placement *found = NULL;
    DV_TRY(dv_place(&found, buffers, (size_t)s->n_stored, &o, diag));
    for (int32_t i = 0; i < s->n_stored; i++)
        s->stored[i].address = found->addresses[i];
    dv_placement_destroy(found);
    return DV_OK;
}

// Copies n elements from the exec's arena to that of the plan.
static void *own(dv_plan *plan, const void *from, int32_t n, size_t size)
{
    void *to = dv_arena_alloc(&plan->arena, (size_t)n + !n, size);
    if (to && n)
        memcpy(to, from, (size_t)n * size);
    return to;
}

static dv_status own_tiles(dv_plan *plan, dv_op_schedule *s, dv_diag *diag)
{
    s->tiles = own(plan, s->tiles, s->n_tiles, sizeof *s->tiles);
    for (int32_t i = 0; s->tiles && i < s->n_tiles; i++) {
        dv_tile_schedule *t = &s->tiles[i];
        t->loops = own(plan, t->loops, t->n_loops, sizeof *t->loops);
        if (!t->loops)
            return dv_nomem(diag);
    }
    return s->tiles ? DV_OK : dv_nomem(diag);
}

static dv_status take_schedule(dv_plan *plan, const dv_exec *x, dv_diag *diag)
{
    dv_schedule *s = &plan->schedule;
    const char *kernels = dv_exec_kernels(x);
    s->ops = DV_NEW(&plan->arena, dv_op_schedule, plan->ops->n_ops);
    s->kernels = dv_arena_copy(&plan->arena, kernels, strlen(kernels));
    if (!s->ops || !s->kernels)
        return dv_nomem(diag);
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        dv_sum_order *sums = &s->ops[i].sums;
        dv_exec_describe(x, i, &s->ops[i]);
        sums->levels =
            own(plan, sums->levels, sums->n_levels, sizeof *sums->levels);
        if (!sums->levels)
            return dv_nomem(diag);
        DV_TRY(own_tiles(plan, &s->ops[i], diag));
    }
    return list_temps(plan, x, diag);
}

// Copies the loops of tiles from the exec to the schedules of products that
// lack them. With these loops, fewer constants may need packing.
static dv_status take_tiles(dv_plan *plan, const dv_exec *x, dv_diag *diag)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        dv_op_schedule is, *s = &plan->schedule.ops[i];
        if (s->kind != DV_KERNEL_PRODUCT || s->n_tiles)
            continue;
        dv_exec_describe(x, i, &is);
        s->tiles = is.tiles;
        s->n_tiles = is.n_tiles;
        s->once = is.once;
        DV_TRY(own_tiles(plan, s, diag));
    }
    return DV_OK;
}

// Completes a schedule that was written by hand: chooses the loops of tiles in
// the products that have none. A plan for other kernels than those of this
// machine stays as it is.
static dv_status complete(dv_plan *plan, dv_diag *diag)
{
    dv_exec *x = NULL;
    if (!dv_schedule_lacks_loops(plan))
        return DV_OK;
    dv_status st = dv_exec_probe(&x, plan, NULL, NULL);
    if (st == DV_E_SYSTEM)
        return DV_OK;
    // The call above was made without `diag`; it is repeated to record its
    // error message.
    st = st ? dv_exec_probe(&x, plan, NULL, diag) : take_tiles(plan, x, diag);
    if (st == DV_OK)
        dv_exec_memory(x, &plan->schedule.shared_bytes,
                       &plan->schedule.thread_bytes,
                       &plan->schedule.constant_bytes);
    dv_exec_destroy(x);
    return st;
}

// Stores the user's pins in the schedule. Fails if a pinned kernel was not
// chosen, because the op cannot have it.
static dv_status check_pins(dv_plan *plan, const dv_schedule_pins *pins,
                            dv_diag *diag)
{
    for (int32_t i = 0; pins && i < plan->ops->n_ops; i++) {
        const dv_op_schedule *s = &plan->schedule.ops[i];
        const char *name = plan->ops->ops[i].name;
        int kind = pins[i].kind;
        if (kind >= 0 && kind != (int)s->kind)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "%s is pinned to kernel %s, which it cannot have",
                           name, dv_kernel_kind_name((dv_kernel_kind)kind));
        if (pins[i].tiled && s->kind != DV_KERNEL_PRODUCT)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "%s.tile needs kernel product, which %s cannot have",
                           name, name);
    }
    plan->schedule.pins = pins;
    return DV_OK;
}

dv_status dv_schedule_run(dv_pass_cx *cx, dv_plan *plan)
{
    dv_exec *x = NULL;
    dv_schedule_pins *pins;
    if (dv_op_scheduled(plan, 0))
        return complete(plan, cx->diag);
    plan->schedule = (dv_schedule){0};
    DV_TRY(dv_schedule_read_pins(&pins, plan, cx->options, cx->diag));
    if (!dv_target_runs_here(&plan->target) && pins)
        return dv_fail(cx->diag, DV_E_USAGE, DV_NOWHERE,
                       "%s is simulated: it has no kernels to pin",
                       plan->target.name);
    if (!dv_target_runs_here(&plan->target))
        return DV_OK;
    DV_TRY(dv_exec_probe(&x, plan, pins, cx->diag));
    dv_arena work = {0};
    dv_status st = take_schedule(plan, x, cx->diag);
    if (st == DV_OK)
        st = place_stored(plan, &work, cx->diag);
    dv_exec_memory(x, &plan->schedule.shared_bytes,
                   &plan->schedule.thread_bytes,
                   &plan->schedule.constant_bytes);
    dv_exec_destroy(x);
    dv_arena_free(&work);
    return st ? st : check_pins(plan, pins, cx->diag);
}
