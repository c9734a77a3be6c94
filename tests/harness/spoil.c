// Ways to break the section `scratch` of a plan, for unit/scratch/residency.c:
// each must be found by the rules of the checker that stand beside its
// function.
#include "harness/spoil.h"
#include "base/math.h"
#include "scratch/scratch.h"
#include <string.h>

static int reads(const dv_plan *plan, int32_t op, int32_t tensor)
{
    const dv_op *o = &plan->ops->ops[op];
    for (int r = 0; r < o->n_reads; r++)
        if (o->reads[r].tensor == tensor)
            return 1;
    return 0;
}

int32_t writer_of(const dv_plan *plan, int32_t tensor)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++)
        if (plan->ops->ops[i].write.tensor == tensor)
            return i;
    return -1;
}

static int32_t group_of(const dv_plan *plan, int32_t op)
{
    for (int32_t g = 0; g < plan->n_groups; g++)
        if (op < plan->groups[g].end_op)
            return g;
    return -1;
}

static int meet(const dv_home *a, const dv_home *b)
{
    return a->first_op < b->end_op && b->first_op < a->end_op;
}

// Returns another home with an overlapping lifetime that is neither in place of
// `h` nor replaced by it; NULL if there is none.
static dv_home *neighbour(const victim *v)
{
    for (int32_t k = 0; k < v->s->n_homes; k++)
        if (k != v->i && meet(&v->s->homes[k], v->h) &&
            v->h->in_place_of != k && v->s->homes[k].in_place_of != v->i)
            return &v->s->homes[k];
    return NULL;
}

void set_reader(victim *v, int32_t op)
{
    int32_t *readers = DV_NEW(&v->plan->arena, int32_t, v->h->n_readers + 1);
    if (v->h->n_readers)
        memcpy(readers, v->h->readers,
               (size_t)v->h->n_readers * sizeof *readers);
    readers[v->h->n_readers++] = op;
    v->h->readers = readers;
}

// Returns the number of dims of an op's first read of a tensor.
static int first_access_dims(const dv_op *o, int32_t tensor)
{
    for (int r = 0; r < o->n_reads; r++)
        if (o->reads[r].tensor == tensor)
            return o->reads[r].n_dims;
    return 0;
}

// -- Spoilers: 1 when there was something to spoil --------------------------

static int off_by_one(victim *v) // C11
{
    v->h->address++;
    return 1;
}

static int below_zero(victim *v)
{
    v->h->address = -128;
    return 1;
}

static int past_the_end(victim *v) // C11
{
    int64_t room = v->s->capacity_bytes - v->h->core_bytes;
    v->h->address = room / 128 * 128 + 128;
    return 1;
}

static int in_what_the_back_end_keeps(victim *v) // C11
{
    v->h->address = v->s->capacity_bytes / 128 * 128;
    v->s->capacity_bytes = v->plan->target.scratch_bytes;
    return 1;
}

static int smaller_scratchpads(victim *v) // C11
{
    v->plan->target.scratch_reserved_percent = 100;
    return 1;
}

static int less_capacity(victim *v) // C11
{
    v->s->capacity_bytes = v->h->address + v->h->core_bytes - 1;
    return 1;
}

static int too_small(victim *v) // C11
{
    v->h->core_bytes--;
    return 1;
}

static int ends_early(victim *v) // C14, C15
{
    v->h->end_op--;
    // A loaded home may be shorter than the loop over tiles: it is then loaded
    // for every tile.
    return v->h->fill != DV_FILL_LOADED || v->h->n_readers == 0 ||
           v->h->readers[v->h->n_readers - 1] == v->h->end_op;
}

static int ends_nowhere(victim *v)
{
    v->h->end_op = v->plan->ops->n_ops + 1;
    return 1;
}

static int begins_late(victim *v) // C14
{
    v->h->first_op++;
    return v->h->fill == DV_FILL_WRITTEN ||
           (v->h->n_readers > 0 && v->h->readers[0] < v->h->first_op);
}

// Begins before the home that it is copied from is filled.
static int begins_early(victim *v) // C15
{
    int32_t def = writer_of(v->plan, v->h->tensor);
    if (v->h->fill == DV_FILL_WRITTEN || def < 0)
        return 0;
    v->h->first_op = def;
    return 1;
}

static int read_before(victim *v) // C14
{
    for (int32_t op = 0; op < v->h->first_op; op++)
        if (reads(v->plan, op, v->h->tensor)) {
            set_reader(v, op);
            return 1;
        }
    return 0;
}

static int read_after(victim *v) // C14
{
    for (int32_t op = v->h->end_op; op < v->plan->ops->n_ops; op++)
        if (reads(v->plan, op, v->h->tensor)) {
            set_reader(v, op);
            return 1;
        }
    return 0;
}

static int read_by_a_stranger(victim *v)
{
    for (int32_t op = v->h->first_op; op < v->h->end_op; op++)
        if (!reads(v->plan, op, v->h->tensor)) {
            set_reader(v, op);
            return 1;
        }
    return 0;
}

// H16: read in the loop, but released before the next pass reads it.
static int gone_in_the_next_pass(victim *v) // C14
{
    const dv_program *p = v->plan->ops;
    for (int32_t k = 0; k < p->n_repeats; k++) {
        int32_t last = v->h->n_readers ? v->h->readers[v->h->n_readers - 1] : 0;
        if (v->h->first_op < p->repeats[k].first_op &&
            last + 1 < p->repeats[k].end_op && last >= p->repeats[k].first_op) {
            v->h->end_op = last + 1;
            return 1;
        }
    }
    return 0;
}

// H10, H19: cut by the slices of an op that cuts the tensor in another way.
static int cut_another_way(victim *v) // C11, C14
{
    dv_view a, b;
    if (v->h->fill == DV_FILL_WRITTEN || dv_home_view(&a, v->plan, v->h))
        return 0;
    for (int32_t op = 0; op < v->plan->ops->n_ops; op++) {
        int k = dv_access_of(&v->plan->ops->ops[op], v->h->tensor);
        if (k < 0 || dv_view_make(&b, v->plan, op, k) || dv_view_same(&a, &b))
            continue;
        v->h->as_op = op;
        return 1;
    }
    return 0;
}

static int cut_by_a_stranger(victim *v)
{
    for (int32_t op = 0; op < v->plan->ops->n_ops; op++)
        if (v->h->fill != DV_FILL_WRITTEN &&
            dv_access_of(&v->plan->ops->ops[op], v->h->tensor) < 0) {
            v->h->as_op = op;
            return 1;
        }
    return 0;
}

static int not_stored(victim *v) // C15
{
    int was = v->h->stored;
    v->h->stored = 0;
    return was;
}

// An op that is not listed as a reader reads main memory, where the tensor was
// never stored.
static int forgotten_reader(victim *v) // C15
{
    if (v->h->fill != DV_FILL_WRITTEN || v->h->stored || !v->h->n_readers)
        return 0;
    v->h->readers++;
    v->h->n_readers--;
    return 1;
}

static int no_hand_over(victim *v) // C12
{
    int was = v->h->in_place_of >= 0;
    v->h->in_place_of = -1;
    return was;
}

// H17: in place of a home that is read later.
static int place_still_in_use(victim *v) // C12
{
    dv_home *n = neighbour(v);
    if (v->h->fill != DV_FILL_WRITTEN || !n ||
        n->end_op == v->h->first_op + 1 || n->first_op >= v->h->first_op)
        return 0;
    v->h->in_place_of = (int32_t)(n - v->s->homes);
    v->h->address = n->address;
    return 1;
}

// H17: in place of a home that is smaller or cut in another way.
static int place_too_small(victim *v) // C12
{
    for (int32_t k = 0; k < v->s->n_homes; k++) {
        const dv_home *p = &v->s->homes[k];
        if (v->h->fill != DV_FILL_WRITTEN ||
            p->core_bytes >= v->h->core_bytes ||
            p->end_op != v->h->first_op + 1)
            continue;
        v->h->in_place_of = k;
        v->h->address = p->address;
        return 1;
    }
    return 0;
}

static int place_of_itself(victim *v)
{
    v->h->in_place_of = v->i;
    return 1;
}

static int place_of_nobody(victim *v)
{
    v->h->in_place_of = v->s->n_homes;
    return 1;
}

static int same_bytes(victim *v) // C12
{
    dv_home *n = neighbour(v);
    v->h->address = n ? n->address : 0;
    return n != NULL;
}

static int one_unit_shared(victim *v) // C12
{
    dv_home *n = neighbour(v);
    if (!n)
        return 0;
    v->h->address = (n->address + n->core_bytes - 1) / 128 * 128;
    return 1;
}

static int copied_from_itself(victim *v)
{
    v->h->from = v->i;
    return v->h->fill == DV_FILL_RING || v->h->fill == DV_FILL_MOVED;
}

static int copied_from_another(victim *v)
{
    v->h->from = (v->h->from + 1) % v->s->n_homes;
    return v->h->fill == DV_FILL_RING || v->h->fill == DV_FILL_MOVED;
}

// H5: a home that is moved within each core does not receive what another core
// has.
static int moved_not_copied(victim *v) // C15
{
    int ring = v->h->fill == DV_FILL_RING;
    v->h->fill = DV_FILL_MOVED;
    return ring;
}

static int loaded_not_copied(victim *v) // C15
{
    int copied = v->h->fill == DV_FILL_RING || v->h->fill == DV_FILL_MOVED;
    if (copied && v->s->homes[v->h->from].stored)
        return 0;
    v->h->fill = DV_FILL_LOADED;
    return copied;
}

static int loaded_not_written(victim *v) // C15
{
    int written = v->h->fill == DV_FILL_WRITTEN;
    v->h->fill = DV_FILL_LOADED;
    return written;
}

static int written_not_loaded(victim *v)
{
    int loaded = v->h->fill == DV_FILL_LOADED;
    v->h->fill = DV_FILL_WRITTEN;
    return loaded;
}

static int no_ring(victim *v) // C15
{
    v->plan->target.ring = 0;
    return v->h->fill == DV_FILL_RING;
}

// The same tensor is written to two homes; an op writes only one.
int written_twice(victim *v) // C15
{
    dv_home *homes = DV_NEW(&v->plan->arena, dv_home, v->s->n_homes + 1);
    memcpy(homes, v->s->homes, (size_t)v->s->n_homes * sizeof *homes);
    homes[v->s->n_homes] = *v->h;
    homes[v->s->n_homes].in_place_of = -1;
    homes[v->s->n_homes].address =
        (v->s->capacity_bytes - v->h->core_bytes) / 128 * 128;
    v->s->homes = homes;
    v->s->n_homes++;
    return v->h->fill == DV_FILL_WRITTEN;
}

// Two homes take the place of one.
static int two_heirs(victim *v) // C12
{
    int was = v->h->in_place_of >= 0;
    written_twice(v);
    v->s->homes[v->s->n_homes - 1].in_place_of = v->h->in_place_of;
    v->s->homes[v->s->n_homes - 1].address = v->h->address;
    return was;
}

// H15: an opaque op runs while the home is alive.
static int across_an_opaque_op(victim *v) // C13
{
    for (int32_t op = v->h->end_op; op < v->plan->ops->n_ops; op++)
        if (v->plan->ops->ops[op].is_extern) {
            v->h->end_op = op + 1;
            return 1;
        }
    return 0;
}

// H44: no home may outlive its group when other programs run between groups
// (tenants).
static int many_tenants(victim *v) // C13
{
    v->s->tenants = 1;
    return group_of(v->plan, v->h->first_op) !=
           group_of(v->plan, v->h->end_op - 1);
}

// A home of a tensor that is updated.
static int of_an_updated_tensor(victim *v) // C13
{
    for (int32_t op = 0; op < v->plan->ops->n_ops; op++) {
        const dv_op *o = &v->plan->ops->ops[op];
        if (!o->update || !reads(v->plan, op, o->write.tensor))
            continue;
        written_twice(v);
        v->h = &v->s->homes[v->s->n_homes - 1];
        v->h->tensor = o->write.tensor;
        v->h->fill = DV_FILL_LOADED;
        v->h->as_op = v->h->first_op = op;
        v->h->end_op = op + 1;
        v->h->readers = &v->h->as_op;
        v->h->n_readers = 1;
        v->h->stored = 0;
        return 1;
    }
    return 0;
}

// H1, H19: the parts of the tensor are on other cores than those that read
// them.
static int turned_owners(victim *v) // C14, C15
{
    int32_t g = group_of(v->plan, v->h->as_op), last = 0;
    if (v->h->n_readers)
        last = group_of(v->plan, v->h->readers[v->h->n_readers - 1]);
    dv_group *group = &v->plan->groups[g];
    if (group->n_deals < 2 || last <= g)
        return 0;
    int64_t first = group->deals[0].core;
    for (int32_t d = 0; d + 1 < group->n_deals; d++)
        group->deals[d].core = group->deals[d + 1].core;
    group->deals[group->n_deals - 1].core = first;
    dv_group_note_deals(group);
    return 1;
}

// Returns the group of an op if its cores loop over tiles, NULL if not.
static const dv_group *tile_loop(const dv_plan *plan, int32_t op)
{
    const dv_group *g = &plan->groups[group_of(plan, op)];
    for (int32_t d = 0; d < g->n_deals; d++)
        if (g->deals[d].n_tiles > 1)
            return g;
    return NULL;
}

// A home that holds one tile at a time lives longer than the loop.
static int outlives_the_loop(victim *v) // C13
{
    const dv_group *g = tile_loop(v->plan, v->h->as_op);
    if (!g || g->end_op >= v->plan->ops->n_ops)
        return 0;
    v->plan->groups[g - v->plan->groups].non_terminal = 1;
    v->h->end_op = g->end_op + 1;
    return 1;
}

// A home that holds one tile at a time is read after the loop.
static int read_after_the_loop(victim *v) // C13, C14
{
    const dv_group *g = tile_loop(v->plan, v->h->as_op);
    for (int32_t op = g ? g->end_op : v->plan->ops->n_ops;
         op < v->plan->ops->n_ops; op++)
        if (reads(v->plan, op, v->h->tensor)) {
            int32_t *more =
                DV_NEW(&v->plan->arena, int32_t, v->h->n_readers + 1);
            if (v->h->n_readers)
                memcpy(more, v->h->readers,
                       (size_t)v->h->n_readers * sizeof *more);
            more[v->h->n_readers++] = op;
            v->h->readers = more;
            v->h->end_op = op + 1;
            v->plan->groups[g - v->plan->groups].non_terminal = 1;
            return 1;
        }
    return 0;
}

// The tiles of a reader are other rows, or columns, than those in the home.
static int other_tiles(victim *v) // C14
{
    const dv_group *g = tile_loop(v->plan, v->h->as_op);
    int32_t op = g && v->h->n_readers ? v->h->readers[0] : -1;
    if (op < 0 || v->plan->ops->ops[op].n_vars != 2)
        return 0;
    const dv_op *o = &v->plan->ops->ops[op];
    int64_t *slices = v->plan->slices[op], n = g->n_tiles;
    // All tiles differ in the other variable now.
    if ((o->vars[1].end - o->vars[1].begin) % n || o->vars[1].reduce ||
        first_access_dims(o, v->h->tensor) != 2)
        return 0;
    slices[0] = o->vars[0].end - o->vars[0].begin;
    slices[1] = (o->vars[1].end - o->vars[1].begin) / n;
    return 1;
}

// A home that is loaded once for all tiles shares bytes with one that every
// tile writes.
static int overwritten_between_tiles(victim *v) // C12
{
    const dv_group *g = tile_loop(v->plan, v->h->as_op);
    if (!g || v->h->fill != DV_FILL_LOADED || v->h->first_op != g->first_op ||
        v->h->end_op != g->end_op)
        return 0;
    for (int32_t i = 0; i < v->s->n_homes; i++)
        if (v->s->homes[i].fill == DV_FILL_WRITTEN &&
            v->s->homes[i].first_op > g->first_op &&
            v->s->homes[i].end_op < g->end_op) {
            v->h->address = v->s->homes[i].address;
            return 1;
        }
    return 0;
}

// The home of a load that is not repeated for every tile is overwritten in
// place.
static int place_of_what_stays(victim *v) // C12
{
    if (!tile_loop(v->plan, v->h->as_op) || v->h->in_place_of < 0)
        return 0;
    const dv_group *g = tile_loop(v->plan, v->h->as_op);
    dv_home *p = &v->s->homes[v->h->in_place_of];
    if (p->fill != DV_FILL_LOADED)
        return 0;
    p->first_op = g->first_op;
    p->end_op = g->end_op;
    return 1;
}

// H10: the same number of slices, of another variable.
static int turned_slices(victim *v) // C14, C15
{
    int32_t g = group_of(v->plan, v->h->as_op);
    const dv_op *o = &v->plan->ops->ops[v->h->as_op];
    int64_t *slices = v->plan->slices[v->h->as_op];
    if (v->plan->groups[g].n_deals < 2 || o->n_vars != 2 ||
        o->vars[0].end != o->vars[1].end || o->vars[0].reduce ||
        o->vars[1].reduce || v->h->n_readers == 0)
        return 0;
    int64_t swap = slices[0];
    slices[0] = slices[1];
    slices[1] = swap;
    return 1;
}

static void set_ops(victim *v, int32_t **ops, int32_t *n, int32_t op)
{
    int32_t *list = DV_NEW(&v->plan->arena, int32_t, 1);
    *list = op;
    *ops = list;
    *n = 1;
}

// The op to which the home is passed is in a group with the op before it, whose
// result it may read before other cores have written it.
static int passed_in_a_group(victim *v) // C35
{
    if (v->h->n_passed_to == 0)
        return 0;
    int32_t g = group_of(v->plan, v->h->passed_to[0]);
    dv_group *groups = v->plan->groups;
    if (g == 0 || groups[g - 1].n_tiles != groups[g].n_tiles)
        return 0;
    groups[g - 1].end_op = groups[g].end_op;
    memmove(&groups[g], &groups[g + 1],
            (size_t)(v->plan->n_groups - g - 1) * sizeof *groups);
    v->plan->n_groups--;
    return 1;
}

static int passed_too_late(victim *v) // C35
{
    if (v->h->n_passed_to == 0)
        return 0;
    v->h->end_op = v->h->passed_to[v->h->n_passed_to - 1];
    return v->h->end_op > v->h->first_op;
}

// What is loaded may be on several cores, or on none.
static int passed_what_was_loaded(victim *v) // C35
{
    if (v->h->fill != DV_FILL_LOADED || v->h->n_readers < 2)
        return 0;
    set_ops(v, &v->h->passed_to, &v->h->n_passed_to, v->h->readers[1]);
    v->h->n_readers = 1;
    return 1;
}

static int passed_and_read(victim *v) // C35
{
    if (v->h->n_passed_to == 0)
        return 0;
    set_reader(v, v->h->passed_to[0]);
    return 1;
}

static int passed_to_a_stranger(victim *v)
{
    for (int32_t op = 0; op < v->plan->ops->n_ops; op++)
        if (!reads(v->plan, op, v->h->tensor)) {
            set_ops(v, &v->h->passed_to, &v->h->n_passed_to, op);
            return 1;
        }
    return 0;
}

// The result overwrites what other cores still need.
static int passed_and_overwritten(victim *v) // C12
{
    for (int32_t k = 0; k < v->s->n_homes; k++)
        if (v->s->homes[k].in_place_of == v->i) {
            v->h->n_readers--;
            set_ops(v, &v->h->passed_to, &v->h->n_passed_to,
                    v->s->homes[k].first_op);
            return 1;
        }
    return 0;
}

static int shared_load_of_what_is_written(victim *v) // C35
{
    v->h->shared = 1;
    return v->h->fill == DV_FILL_WRITTEN;
}

static int shared_without_a_ring(victim *v) // C35
{
    int any = v->s->n_shares > 0;
    v->plan->target.ring = 0;
    return any || v->h->shared || v->h->n_passed_to;
}

static int passed_to_other_rings(victim *v) // C35
{
    v->plan->target.ring_cores = 1;
    return v->h->n_passed_to;
}

// The op reads the tensor from main memory, where it never was.
static int shared_but_not_stored(victim *v) // C15
{
    dv_shared_read *x = DV_NEW(&v->plan->arena, dv_shared_read, 1);
    if (v->h->fill != DV_FILL_WRITTEN || v->h->stored || v->h->n_readers == 0)
        return 0;
    x->tensor = v->h->tensor;
    set_ops(v, &x->ops, &x->n_ops, v->h->readers[--v->h->n_readers]);
    v->s->shares = x;
    v->s->n_shares = 1;
    return 1;
}

// Returns the group that loops over tiles and has an op that shares a read, or
// to which a home is passed; NULL: there is none.
static dv_group *receiving_loop(const victim *v)
{
    for (int32_t i = 0; i < v->plan->ops->n_ops; i++)
        for (int r = 0; r < v->plan->ops->ops[i].n_reads; r++)
            if (dv_ring_of(v->plan, i, r) != DV_RING_NONE &&
                tile_loop(v->plan, i))
                return &v->plan->groups[group_of(v->plan, i)];
    return NULL;
}

// One core has a tile more, so that the others do not need the same elements in
// the same round.
static int shared_out_of_step(victim *v) // C35
{
    dv_group *g = receiving_loop(v);
    if (!g || g->n_deals < 2 || g->deals[1].n_tiles < 2)
        return 0;
    g->deals[0].n_tiles++;
    g->deals[1].first_tile++;
    g->deals[1].n_tiles--;
    dv_group_note_deals(g);
    return 1;
}

// The cores have the same tiles, in another order than their own.
static int shared_out_of_order(victim *v) // C35
{
    dv_group *g = receiving_loop(v);
    if (!g || g->n_deals < 2)
        return 0;
    g->deals[0].core = 1;
    g->deals[1].core = 0;
    dv_group_note_deals(g);
    return 1;
}

// Later ops of a loop overwrite what other cores may still receive.
static int passed_to_a_part_of_a_loop(victim *v) // C35
{
    const dv_group *g = receiving_loop(v);
    if (!g || !v->h->n_passed_to || v->h->end_op != g->end_op)
        return 0;
    v->h->end_op--;
    return v->h->passed_to[v->h->n_passed_to - 1] < v->h->end_op;
}

// Tiles of other results are between the parts of a result: all ops of the loop
// number their tiles the other way.
static int sums_not_in_turn(victim *v) // C36
{
    static const int8_t turned[] = {1, 0, 2, 3}, last[] = {2, 0, 1, 3};
    if (v->h->fill != DV_FILL_SUMMED)
        return 0;
    dv_plan *p = v->plan;
    const dv_group *g = &p->groups[group_of(p, v->h->as_op)];
    p->digits = DV_NEW(&p->arena, const int8_t *, p->ops->n_ops);
    for (int32_t i = g->first_op; i < g->end_op; i++)
        p->digits[i] = p->ops->ops[i].vars[1].reduce ||
                               p->slices[i][1] == p->ops->ops[i].vars[1].end
                           ? last
                           : turned;
    return 1;
}

// A core begins with the second part of a result.
static int sums_begin_late(victim *v) // C36
{
    if (v->h->fill != DV_FILL_SUMMED)
        return 0;
    dv_group *g = &v->plan->groups[group_of(v->plan, v->h->as_op)];
    g->deals[0].n_tiles++;
    g->deals[1].first_tile++;
    g->deals[1].n_tiles--;
    dv_group_note_deals(g);
    v->s->n_shares = 0;
    return 1;
}

static int sums_without_a_home(victim *v) // C13
{
    if (v->h->fill != DV_FILL_SUMMED)
        return 0;
    v->h->fill = DV_FILL_LOADED;
    return 1;
}

static int sums_in_two_homes(victim *v) // C36
{
    if (v->h->fill != DV_FILL_SUMMED)
        return 0;
    dv_home *all = DV_NEW(&v->plan->arena, dv_home, v->s->n_homes + 1);
    memcpy(all, v->s->homes, (size_t)v->s->n_homes * sizeof *all);
    all[v->s->n_homes] = *v->h;
    all[v->s->n_homes].address = v->s->capacity_bytes / 2;
    v->s->homes = all;
    v->s->n_homes++;
    return 1;
}

const spoiler spoilers[] = {
#define SPOILER(name)                                                          \
    {                                                                          \
#name, name                                                            \
    }
    SPOILER(off_by_one),
    SPOILER(below_zero),
    SPOILER(past_the_end),
    SPOILER(in_what_the_back_end_keeps),
    SPOILER(smaller_scratchpads),
    SPOILER(less_capacity),
    SPOILER(too_small),
    SPOILER(ends_early),
    SPOILER(ends_nowhere),
    SPOILER(begins_late),
    SPOILER(begins_early),
    SPOILER(read_before),
    SPOILER(read_after),
    SPOILER(read_by_a_stranger),
    SPOILER(gone_in_the_next_pass),
    SPOILER(cut_another_way),
    SPOILER(cut_by_a_stranger),
    SPOILER(not_stored),
    SPOILER(forgotten_reader),
    SPOILER(no_hand_over),
    SPOILER(place_still_in_use),
    SPOILER(place_too_small),
    SPOILER(place_of_itself),
    SPOILER(place_of_nobody),
    SPOILER(same_bytes),
    SPOILER(one_unit_shared),
    SPOILER(copied_from_itself),
    SPOILER(copied_from_another),
    SPOILER(moved_not_copied),
    SPOILER(loaded_not_copied),
    SPOILER(loaded_not_written),
    SPOILER(written_not_loaded),
    SPOILER(no_ring),
    SPOILER(written_twice),
    SPOILER(two_heirs),
    SPOILER(across_an_opaque_op),
    SPOILER(many_tenants),
    SPOILER(of_an_updated_tensor),
    SPOILER(turned_owners),
    SPOILER(turned_slices),
    SPOILER(passed_in_a_group),
    SPOILER(passed_too_late),
    SPOILER(passed_what_was_loaded),
    SPOILER(passed_and_read),
    SPOILER(passed_to_a_stranger),
    SPOILER(passed_and_overwritten),
    SPOILER(shared_load_of_what_is_written),
    SPOILER(shared_without_a_ring),
    SPOILER(shared_but_not_stored),
    SPOILER(shared_out_of_step),
    SPOILER(shared_out_of_order),
    SPOILER(passed_to_a_part_of_a_loop),
    SPOILER(passed_to_other_rings),
    SPOILER(sums_not_in_turn),
    SPOILER(sums_begin_late),
    SPOILER(sums_without_a_home),
    SPOILER(sums_in_two_homes),
    SPOILER(outlives_the_loop),
    SPOILER(read_after_the_loop),
    SPOILER(other_tiles),
    SPOILER(overwritten_between_tiles),
    SPOILER(place_of_what_stays),
#undef SPOILER
};

const int n_spoilers = sizeof spoilers / sizeof *spoilers;
