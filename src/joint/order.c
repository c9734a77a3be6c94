// Reorders ops, and recomputes tensors, so that more tensors can be resident on
// the cores.
//
// Within a stretch of ops without loop boundaries, opaque ops and updates, any
// order that respects data dependences is legal. The order tried here always
// takes the ready op that leaves the fewest bytes live.
//
// A tensor that found no room may be recomputed for its late readers, if its op
// is elementwise: its operands are then read instead, and the tensor is not
// stored.
#include "joint/joint.h"
#include <string.h>

// Sets the field `like` of all divisions to the first op of the same shape, in
// the order that the ops have now. Returns 0 when out of memory.
static int find_first_alike(dv_plan *plan)
{
    int32_t n = plan->ops->n_ops, most = 0;
    for (int32_t i = 0; i < n; i++)
        most = plan->divisions[i].like > most ? plan->divisions[i].like : most;
    int32_t *first = dv_alloc(((size_t)most + 1) * sizeof *first);
    for (int32_t i = n - 1; i >= 0 && first; i--)
        first[plan->divisions[i].like] = i;
    for (int32_t i = 0; i < n && first; i++)
        plan->divisions[i].like = first[plan->divisions[i].like];
    dv_release(first);
    return first != NULL;
}

int dv_plan_rearrange(dv_plan *plan, const int32_t *order, int32_t n)
{
    dv_arena *a = &plan->arena;
    dv_op *ops = DV_NEW(&plan->ops->arena, dv_op, n);
    int64_t **slices = DV_NEW(a, int64_t *, n);
    dv_division *divisions = DV_NEW(a, dv_division, n);
    dv_group *groups = DV_NEW(a, dv_group, n);
    const int8_t **digits = plan->digits ? DV_NEW(a, const int8_t *, n) : NULL;
    if (!ops || !slices || !divisions || !groups || (plan->digits && !digits) ||
        !dv_plan_renumber_team_ops(plan, order, n))
        return 0;
    for (int32_t i = 0; i < n; i++) {
        const dv_op *o = &plan->ops->ops[order[i]];
        size_t vars = (size_t)o->n_vars;
        ops[i] = *o;
        slices[i] = dv_arena_grow(a, plan->slices[order[i]], vars, vars,
                                  sizeof *slices[i]);
        divisions[i] = plan->divisions[order[i]];
        groups[i] = plan->groups[order[i]];
        groups[i].first_op = i;
        groups[i].end_op = i + 1;
        if (digits)
            digits[i] = plan->digits[order[i]];
        if (!slices[i])
            return 0;
    }
    plan->ops->ops = ops;
    plan->ops->n_ops = plan->ops->cap_ops = n;
    plan->slices = slices;
    plan->digits = digits;
    plan->divisions = divisions;
    plan->groups = groups;
    plan->n_groups = n;
    return find_first_alike(plan);
}

typedef struct scheduler {
    const dv_plan *plan;
    const dv_life *life;
    // Per tensor: the bytes of it that one core holds once it is written.
    int64_t *bytes;
    // Per tensor: number of readers that have not run yet.
    int32_t *readers;
    // Per op: number of unscheduled ops that it depends on.
    int32_t *waits;
    // The ops that depend on op i are edges[edges_at[i]] to edges[edges_at[i +
    // 1] - 1].
    int32_t *edges_at, *edges;
    int32_t *ready, n_ready;
    int32_t *order, n;
    // End of the current stretch, a range of ops that may be reordered.
    int32_t end;
} scheduler;

// Returns whether ops i - 1 and i may not be swapped, regardless of data
// dependences: one of them is opaque (extern), an update or in a loop over
// tiles, or a loop begins or ends between them.
static int ends_stretch(const dv_life *l, int32_t i)
{
    const dv_op *a = &l->plan->ops->ops[i - 1], *b = &l->plan->ops->ops[i];
    return a->is_extern || b->is_extern || a->update || b->update ||
           l->loop_of[i] != l->loop_of[i - 1] || l->tile_first[i] >= 0 ||
           l->tile_first[i - 1] >= 0;
}

// Returns by how many bytes the live tensors grow when the op runs next.
static int64_t growth(const scheduler *s, int32_t op)
{
    const dv_op *o = &s->plan->ops->ops[op];
    int64_t sum = s->readers[o->write.tensor] ? s->bytes[o->write.tensor] : 0;
    for (int r = 0; r < o->n_reads; r++) {
        int32_t t = o->reads[r].tensor;
        int again = 0;
        for (int k = 0; k < r; k++)
            again |= o->reads[k].tensor == t;
        if (!again && s->readers[t] == 1)
            sum -= s->bytes[t];
    }
    return sum;
}

static void run_next(scheduler *s)
{
    int32_t best = 0;
    for (int32_t i = 1; i < s->n_ready; i++) {
        int64_t a = growth(s, s->ready[i]), b = growth(s, s->ready[best]);
        if (a < b || (a == b && s->ready[i] < s->ready[best]))
            best = i;
    }
    int32_t op = s->ready[best];
    const dv_op *o = &s->plan->ops->ops[op];
    s->ready[best] = s->ready[--s->n_ready];
    s->order[s->n++] = op;
    for (int r = 0; r < o->n_reads; r++) {
        int again = 0;
        for (int k = 0; k < r; k++)
            again |= o->reads[k].tensor == o->reads[r].tensor;
        s->readers[o->reads[r].tensor] -= !again;
    }
    for (int32_t k = s->edges_at[op]; k < s->edges_at[op + 1]; k++)
        if (s->edges[k] < s->end && --s->waits[s->edges[k]] == 0)
            s->ready[s->n_ready++] = s->edges[k];
}

static int make_scheduler(scheduler *s, const dv_life *l)
{
    const dv_program *p = l->plan->ops;
    dv_arena *a = l->arena;
    size_t n = (size_t)p->n_ops, t = (size_t)p->n_tensors;
    *s = (scheduler){.plan = l->plan,
                     .life = l,
                     .bytes = DV_NEW(a, int64_t, t),
                     .readers = DV_NEW(a, int32_t, t),
                     .waits = DV_NEW(a, int32_t, n),
                     .edges_at = DV_NEW(a, int32_t, n + 2),
                     .edges = DV_NEW(a, int32_t, l->read_at[t] + 1),
                     .ready = DV_NEW(a, int32_t, n),
                     .order = DV_NEW(a, int32_t, n)};
    if (!s->bytes || !s->readers || !s->waits || !s->edges_at || !s->edges ||
        !s->ready || !s->order)
        return 0;
    // Only tensors that could be resident in scratchpads have a size here;
    // others remain 0.
    for (int32_t i = 0; i < l->n_cands; i++)
        if (!l->cands[i].barred && l->cands[i].fill == DV_FILL_WRITTEN)
            s->bytes[l->cands[i].tensor] = l->cands[i].core_bytes;
    for (size_t k = 0; k < t; k++)
        s->readers[k] = l->read_at[k + 1] - l->read_at[k];
    for (int fill = 0; fill < 2; fill++) {
        for (size_t k = 0; k < t; k++)
            for (int32_t i = l->read_at[k]; i < l->read_at[k + 1]; i++)
                if (l->def[k] >= 0 && fill)
                    s->edges[s->edges_at[l->def[k] + 1]++] = l->reads[i];
                else if (l->def[k] >= 0)
                    s->edges_at[l->def[k] + 2]++;
        for (size_t i = 0; i < n && !fill; i++)
            s->edges_at[i + 2] += s->edges_at[i + 1];
    }
    return 1;
}

// Orders the ops first..end - 1, which may be swapped freely except for data
// dependences, by list scheduling: always the ready op that leaves the fewest
// bytes live.
static void schedule(scheduler *s, int32_t first, int32_t end)
{
    s->end = end;
    for (int32_t i = first; i < end; i++)
        s->waits[i] = 0;
    for (int32_t i = first; i < end; i++)
        for (int32_t k = s->edges_at[i]; k < s->edges_at[i + 1]; k++)
            if (s->edges[k] < end)
                s->waits[s->edges[k]]++;
    s->n_ready = 0;
    for (int32_t i = first; i < end; i++)
        if (s->waits[i] == 0)
            s->ready[s->n_ready++] = i;
    while (s->n < end)
        run_next(s);
}

int dv_reorder(dv_plan *plan, const dv_life *life)
{
    scheduler s;
    int32_t n = plan->ops->n_ops, first = 0;
    if (!make_scheduler(&s, life))
        return -1;
    for (int32_t i = 1; i <= n; i++) {
        if (i < n && !ends_stretch(life, i))
            continue;
        schedule(&s, first, i);
        first = i;
    }
    int same = 1;
    for (int32_t i = 0; i < n; i++)
        same = same && s.order[i] == i;
    if (same)
        return 0;
    return dv_plan_rearrange(plan, s.order, n) ? 1 : -1;
}

// Adds a copy of a tensor's declaration under a new name, for a recomputed op
// to write. Returns its number, or -1 when out of memory.
static int32_t twin_of(dv_plan *plan, int32_t tensor)
{
    dv_program *p = plan->ops;
    dv_tensor t = p->tensors[tensor];
    int32_t n = p->n_tensors;
    dv_tensor *tensors = dv_arena_grow(&p->arena, p->tensors, (size_t)n,
                                       (size_t)n + 1, sizeof *tensors);
    dv_layout *layouts = dv_arena_grow(&plan->arena, plan->layouts, (size_t)n,
                                       (size_t)n + 1, sizeof *layouts);
    char *name = DV_NEW(&p->arena, char, strlen(t.name) + 16);
    if (!tensors || !layouts || !name)
        return -1;
    dv_text unused = {0};
    int number = 0;
    do {
        unused.len = 0;
        dv_put(&unused, "%s_%d", t.name, ++number);
    } while (!unused.failed && dv_program_find(p, unused.at) >= 0);
    int ok = !unused.failed && unused.len < strlen(t.name) + 16;
    if (ok)
        memcpy(name, unused.at, unused.len + 1);
    dv_text_free(&unused);
    t.name = name;
    t.is_output = 0;
    t.memory = NULL;
    tensors[n] = t;
    layouts[n] = layouts[tensor];
    // The table of tensor names is rebuilt by dv_reorder_finish, when the plan
    // is accepted.
    p->tensors = tensors;
    p->n_tensors = p->cap_tensors = n + 1;
    plan->layouts = layouts;
    return ok ? n : -1;
}

// Returns whether it is legal to run the op a second time, and cheap: it
// reduces nothing and reads at most two tensors.
static int is_cheap(const dv_plan *plan, int32_t op)
{
    const dv_op *o = &plan->ops->ops[op];
    return !o->is_extern && !o->update && dv_op_reduce(o) == NULL &&
           o->n_reads > 0 && o->n_reads <= 2;
}

// Makes all ops from op `from` on that read `tensor` read its copy `twin`
// instead.
static int redirect(dv_plan *plan, int32_t tensor, int32_t twin, int32_t from)
{
    for (int32_t i = from; i < plan->ops->n_ops; i++) {
        dv_op *o = &plan->ops->ops[i];
        int reads = 0;
        for (int r = 0; r < o->n_reads; r++)
            reads |= o->reads[r].tensor == tensor;
        if (!reads)
            continue;
        dv_access *copy =
            dv_arena_grow(&plan->ops->arena, o->reads, (size_t)o->n_reads,
                          (size_t)o->n_reads, sizeof *copy);
        if (!copy)
            return 0;
        for (int r = 0; r < o->n_reads; r++)
            if (copy[r].tensor == tensor)
                copy[r].tensor = twin;
        o->reads = copy;
    }
    return 1;
}

int dv_recompute(dv_plan *plan, const dv_life *life, int32_t tensor)
{
    int32_t op = life->def[tensor], n = plan->ops->n_ops;
    int32_t first = life->read_at[tensor], end = life->read_at[tensor + 1];
    if (op < 0 || end - first < 2 || life->updated[tensor] || life->apart[op] ||
        !is_cheap(plan, op))
        return 0;
    // Split the tensor's live range at the longest gap between two ops that
    // read it.
    int32_t cut = -1, longest = 1;
    for (int32_t i = first + 1; i < end; i++)
        if (life->reads[i] - life->reads[i - 1] > longest) {
            longest = life->reads[i] - life->reads[i - 1];
            cut = life->reads[i];
        }
    if (cut < 0 || life->loop_of[cut] != life->loop_of[op] ||
        life->tile_first[cut] >= 0 || life->tile_first[op] >= 0)
        return 0;
    for (int r = 0; r < plan->ops->ops[op].n_reads; r++)
        if (life->updated[plan->ops->ops[op].reads[r].tensor])
            return 0;
    int32_t *order = DV_NEW(life->arena, int32_t, n + 1);
    if (!order)
        return -1;
    for (int32_t i = 0; i <= n; i++)
        order[i] = i < cut ? i : i == cut ? op : i - 1;
    if (!dv_plan_rearrange(plan, order, n + 1))
        return -1;
    for (int32_t k = 0; k < plan->ops->n_repeats; k++) {
        dv_repeat *r = &plan->ops->repeats[k];
        r->first_op += r->first_op > cut;
        r->end_op += r->end_op > cut;
    }
    int32_t twin = twin_of(plan, tensor);
    if (twin < 0 || !redirect(plan, tensor, twin, cut + 1))
        return -1;
    plan->ops->ops[cut].write.tensor = twin;
    return 1;
}

dv_status dv_reorder_finish(dv_plan *plan, dv_diag *diag)
{
    dv_program *p = plan->ops;
    int32_t *new_of, n = p->n_tensors;
    dv_layout *layouts = DV_NEW(&plan->arena, dv_layout, n);
    if (!layouts)
        return dv_nomem(diag);
    // Ops may share their read lists with the saved plan, so copy them before
    // renumbering.
    for (int32_t i = 0; i < p->n_ops; i++) {
        dv_op *o = &p->ops[i];
        o->reads = dv_arena_grow(&p->arena, o->reads, (size_t)o->n_reads,
                                 (size_t)o->n_reads, sizeof *o->reads);
        if (!o->reads)
            return dv_nomem(diag);
    }
    DV_TRY(dv_program_renumber(p, &new_of, diag));
    for (int32_t i = 0; i < n; i++)
        if (new_of[i] >= 0)
            layouts[new_of[i]] = plan->layouts[i];
    plan->layouts = layouts;
    return dv_program_name_ops(p, diag);
}
