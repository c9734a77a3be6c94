// Chooses scratchpad homes (tensors resident on the cores) among the candidates
// and assigns their addresses, with dv_place.
#include "divvy/place.h"
#include "scratch/scratch.h"
#include <string.h>

typedef struct solver {
    const dv_plan *plan;
    const dv_life *life;
    dv_arena *arena; // arena of the result `out`
    dv_buffer *buffers;
    const dv_placement *placed;
    dv_placement *own; // what `placed` is if dv_place made it, else NULL
    dv_scratch *out;
    int32_t cap_homes;
    int32_t *home_of_cand; // per candidate: its first residency (home), or -1
    // Per candidate: how often it is brought into the scratchpads. These homes
    // (residencies with an address each) have consecutive numbers.
    int32_t *n_homes_of;
    // The last op at which a resident tensor is moved to another address.
    int64_t moved_at;
    dv_diag *diag;
} solver;

// Returns whether the candidate for a scratchpad home (resident tensor) may be
// evicted between two uses: all its uses are in the same loop body, and none in
// a loop over tiles.
static int may_be_evicted(const dv_life *l, const dv_cand *c)
{
    if (c->group || c->n_uses == 0 || c->n_passes ||
        l->tile_first[c->as_op] >= 0)
        return 0;
    for (int32_t i = 0; i < c->n_uses; i++)
        if (l->loop_of[l->uses[c->uses + i]] != l->loop_of[c->first_op] ||
            l->tile_first[l->uses[c->uses + i]] >= 0)
            return 0;
    return c->end_op == l->uses[c->uses + c->n_uses - 1] + 1;
}

static int fill_uses(const solver *s, const dv_cand *c, dv_buffer *b)
{
    int written = c->fill == DV_FILL_WRITTEN;
    dv_use *uses = DV_NEW(s->life->arena, dv_use, c->n_uses + 1);
    if (!uses)
        return 0;
    size_t n = 0;
    if (written)
        uses[n++] = (dv_use){c->first_op, 1};
    for (int32_t i = 0; i < c->n_uses; i++)
        uses[n++] = (dv_use){s->life->uses[c->uses + i], 0};
    b->uses = uses;
    b->n_uses = n;
    b->first_use_is_read = !written;
    return 1;
}

static int ask(solver *s)
{
    const dv_life *l = s->life;
    s->buffers = DV_NEW(l->arena, dv_buffer, l->n_cands);
    if (!s->buffers)
        return 0;
    for (int32_t i = 0; i < l->n_cands; i++) {
        const dv_cand *c = &l->cands[i];
        dv_buffer b = DV_BUFFER_INIT;
        b.name = s->plan->ops->tensors[c->tensor].name;
        b.size_bytes = c->core_bytes;
        b.start = c->first_op;
        b.end = c->end_op;
        b.weight = c->gain_bytes;
        b.group = c->group;
        b.barred = c->barred;
        b.parents = c->parent;
        b.n_parents = (size_t)c->n_parents;
        if (!c->barred && !fill_uses(s, c, &b))
            return 0;
        s->buffers[i] = b;
    }
    return 1;
}

static dv_status place(solver *s, int evict)
{
    const dv_scratch_rules *r = s->life->rules;
    dv_place_options o = DV_PLACE_OPTIONS_INIT;
    o.capacity_bytes = s->out->capacity_bytes;
    o.align_bytes = s->plan->target.scratch_align_bytes;
    o.solver = r->solver;
    o.budget = r->budget;
    o.time_limit_s = r->time_limit_s;
    o.evict = evict;
    for (int32_t i = 0; i < s->life->n_cands && evict; i++) {
        // dv_place derives the weight (traffic saved) of a candidate that may
        // be evicted from its uses, in bytes of one core. Other candidates are
        // passed without uses, with their weight converted to bytes per core.
        dv_buffer *b = &s->buffers[i];
        if (may_be_evicted(s->life, &s->life->cands[i])) {
            b->weight = -1;
        } else {
            b->uses = NULL;
            b->n_uses = 0;
            b->weight /= s->plan->target.cores;
        }
    }
    dv_placement *answer = NULL;
    size_t n = (size_t)s->life->n_cands;
    if (r->place) {
        DV_TRY(dv_scratch_answer(&answer, r, s->buffers, n, &o, s->life->arena,
                                 s->diag));
    } else {
        DV_TRY(dv_place(&answer, s->buffers, n, &o, s->diag));
        s->own = answer;
    }
    s->placed = answer;
    return DV_OK;
}

// Adds a scratchpad home for candidate c (a tensor that may be resident on the
// cores) that is live in ops first..end - 1. Returns NULL when out of memory.
static dv_home *add_home(solver *s, const dv_cand *c, int32_t first,
                         int32_t end, int64_t address)
{
    const dv_life *l = s->life;
    dv_home *h = DV_PUSH(s->arena, dv_home, s->out->homes, s->out->n_homes,
                         s->cap_homes);
    if (!h)
        return NULL;
    *h = (dv_home){.tensor = c->tensor,
                   .first_op = first,
                   .end_op = end,
                   .address = address,
                   .core_bytes = c->core_bytes,
                   .fill = c->fill,
                   .as_op = c->as_op,
                   .from = -1,
                   .in_place_of = -1,
                   .stored = c->stored};
    h->readers = DV_NEW(s->arena, int32_t, c->n_uses);
    if (!h->readers)
        return NULL;
    for (int32_t i = 0; i < c->n_uses; i++) {
        int32_t op = l->uses[c->uses + i];
        if (op >= first && op < end)
            h->readers[h->n_readers++] = op;
    }
    h->passed_to = DV_NEW(s->arena, int32_t, c->n_passes);
    if (!h->passed_to)
        return NULL;
    for (int32_t i = 0; i < c->n_passes; i++)
        h->passed_to[h->n_passed_to++] = l->uses[c->passes + i];
    return h;
}

// Adds the scratchpad homes (resident tensors) of a placement without
// evictions. Returns 0 when out of memory.
static int add_whole(solver *s)
{
    const dv_life *l = s->life;
    for (int32_t i = 0; i < l->n_cands; i++) {
        const dv_cand *c = &l->cands[i];
        s->home_of_cand[i] = -1;
        if (s->placed->addresses[i] < 0)
            continue;
        s->home_of_cand[i] = s->out->n_homes;
        s->n_homes_of[i] = 1;
        if (!add_home(s, c, c->first_op, c->end_op, s->placed->addresses[i]))
            return 0;
    }
    return 1;
}

// For each resident tensor that is copied from other cores over the ring, sets
// the home (residency) that the copy is made from.
static void link_rings(solver *s)
{
    for (int32_t i = 0; i < s->life->n_cands; i++) {
        const dv_cand *c = &s->life->cands[i];
        if (c->fill == DV_FILL_RING && s->home_of_cand[i] >= 0)
            s->out->homes[s->home_of_cand[i]].from = s->home_of_cand[c->from];
    }
}

// Finds the resident tensors that were placed at the address of another one,
// whose bytes they reuse in place, and records which one that is.
static void find_in_place_reuse(solver *s)
{
    const dv_life *l = s->life;
    for (int32_t i = 0; i < l->n_cands; i++) {
        const dv_cand *c = &l->cands[i];
        if (s->home_of_cand[i] < 0)
            continue;
        dv_home *h = &s->out->homes[s->home_of_cand[i]];
        for (int k = 0; k < c->n_parents && h->fill == DV_FILL_WRITTEN; k++) {
            int32_t first = s->home_of_cand[c->parent[k]];
            for (int32_t p = first; first >= 0 && h->in_place_of < 0 &&
                                    p < first + s->n_homes_of[c->parent[k]];
                 p++)
                if (s->out->homes[p].address == h->address &&
                    s->out->homes[p].end_op == h->first_op + 1)
                    h->in_place_of = p;
        }
    }
}

// Makes one stay of a candidate (an interval at one address) a home, that is a
// residency in the scratchpads. If it directly follows another stay, the tensor
// is moved from there, at most one move per op; otherwise it is loaded again.
// Returns NULL when out of memory.
static dv_home *add_stay(solver *s, int32_t cand, const dv_stay *stay,
                         const dv_stay *before)
{
    const dv_cand *c = &s->life->cands[cand];
    int32_t last = s->out->n_homes - 1;
    dv_home *h =
        add_home(s, c, (int32_t)stay->start, (int32_t)stay->end, stay->address);
    if (!h)
        return NULL;
    if (h->fill != DV_FILL_WRITTEN || stay->start != c->first_op) {
        h->fill = DV_FILL_LOADED;
        h->stored = 0;
    }
    if (before && before->end == stay->start && s->n_homes_of[cand] > 0 &&
        s->moved_at != stay->start) {
        h->fill = DV_FILL_MOVED;
        h->from = last;
        s->out->homes[last].end_op = (int32_t)stay->start;
        s->moved_at = stay->start;
    }
    return h;
}

// Returns whether a scratchpad home (resident tensor) saves traffic. A home
// loaded from main memory needs at least two readers, one written by an op
// needs one. A home that is moved, or from which another is moved, is always
// needed.
static int pays(const dv_home *h, int moved_from)
{
    if (moved_from || h->fill == DV_FILL_MOVED)
        return 1;
    return h->n_readers >= (h->fill == DV_FILL_LOADED ? 2 : 1);
}

// Makes all n stays of one candidate (intervals at one address) homes, that is
// residencies in the scratchpads. Returns 0 when out of memory.
static int add_evictable_stays(solver *s, int32_t cand, const dv_stay *stays,
                               size_t n)
{
    const dv_cand *c = &s->life->cands[cand];
    int32_t first = s->out->n_homes, kept = first, read = 0;
    for (size_t k = 0; k < n; k++) {
        if (!add_stay(s, cand, &stays[k], k ? &stays[k - 1] : NULL))
            return 0;
        s->n_homes_of[cand]++;
    }
    for (int32_t i = first; i < s->out->n_homes; i++) {
        dv_home *h = &s->out->homes[i];
        int next_moves = i + 1 < s->out->n_homes &&
                         s->out->homes[i + 1].fill == DV_FILL_MOVED;
        if (!pays(h, next_moves))
            continue;
        if (h->fill == DV_FILL_LOADED && h->n_readers)
            h->first_op = h->readers[0];
        if (!next_moves && h->n_readers)
            h->end_op = h->readers[h->n_readers - 1] + 1;
        if (h->fill == DV_FILL_WRITTEN || h->fill == DV_FILL_MOVED)
            // Count the reads that need no load from main memory.
            read += h->n_readers;
        s->out->homes[kept] = *h;
        if (h->fill == DV_FILL_MOVED)
            s->out->homes[kept].from = kept - 1;
        kept++;
    }
    s->out->n_homes = kept;
    s->n_homes_of[cand] = kept - first;
    s->home_of_cand[cand] = kept > first ? first : -1;
    if (kept > first && s->out->homes[first].fill == DV_FILL_WRITTEN)
        s->out->homes[first].stored = c->stored || read < c->n_uses;
    return 1;
}

static int add_stays(solver *s)
{
    const dv_life *l = s->life;
    const dv_stay *stays = s->placed->stays;
    for (int32_t i = 0; i < l->n_cands; i++) {
        s->home_of_cand[i] = -1;
        s->n_homes_of[i] = 0;
    }
    s->moved_at = -1;
    for (size_t k = 0, n; k < s->placed->n_stays; k += n) {
        int32_t i = stays[k].buffer;
        const dv_cand *c = &l->cands[i];
        for (n = 1; k + n < s->placed->n_stays && stays[k + n].buffer == i;)
            n++;
        if (may_be_evicted(l, c)) {
            if (!add_evictable_stays(s, i, &stays[k], n))
                return 0;
            continue;
        }
        s->home_of_cand[i] = s->out->n_homes;
        s->n_homes_of[i] = 1;
        if (!add_home(s, c, c->first_op, c->end_op, stays[k].address))
            return 0;
    }
    return 1;
}

// Returns the bytes that the listed ops would read of a tensor in main memory.
static double bytes_read(const solver *s, int32_t tensor, const int32_t *ops,
                         int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) {
        const dv_op *o = &s->plan->ops->ops[ops[i]];
        for (int r = 0; r < o->n_reads; r++)
            if (o->reads[r].tensor == tensor)
                sum += (double)dv_life_read_bytes(s->life, ops[i], r) *
                       s->life->times[ops[i]];
    }
    return sum;
}

// Returns the bytes of main memory traffic that a scratchpad home (resident
// tensor) saves.
static double spares(const solver *s, const dv_home *h)
{
    dv_view v;
    double sum = bytes_read(s, h->tensor, h->readers, h->n_readers) +
                 bytes_read(s, h->tensor, h->passed_to, h->n_passed_to);
    if (h->fill == DV_FILL_WRITTEN && !h->stored &&
        !dv_home_view(&v, s->plan, h))
        sum += (double)(dv_view_elems(&v) *
                        s->plan->layouts[h->tensor].elem_bytes) *
               s->life->times[h->first_op];
    if (h->fill == DV_FILL_LOADED && !dv_home_view(&v, s->plan, h)) {
        dv_cand c = {.as_op = h->as_op,
                     .as_access =
                         dv_access_of(&s->plan->ops->ops[h->as_op], h->tensor),
                     .tensor = h->tensor,
                     .first_op = h->first_op,
                     .end_op = h->end_op};
        sum -= dv_life_load_bytes(s->life, &c, &v);
    }
    return sum;
}

// Reports for each candidate whether it is resident, or why not. spared[i] is
// the main memory traffic in bytes that home number i saves.
static int report(solver *s, const double *spared)
{
    const dv_life *l = s->life;
    s->out->residents = DV_NEW(s->arena, dv_resident, l->n_cands);
    if (!s->out->residents)
        return 0;
    s->out->n_residents = l->n_cands;
    for (int32_t i = 0; i < l->n_cands; i++) {
        const dv_cand *c = &l->cands[i];
        const char *why = s->placed->reasons[i];
        dv_resident *r = &s->out->residents[i];
        *r = (dv_resident){.tensor = c->tensor,
                           .home = s->home_of_cand[i],
                           .first_op = c->first_op,
                           .end_op = c->end_op,
                           .core_bytes = c->core_bytes};
        r->denied = c->denied - 1;
        if (r->home >= 0) {
            r->saved_bytes = (int64_t)spared[r->home];
        } else {
            r->crowded = !c->barred;
            why = c->barred ? c->barred
                  : why     ? why
                            : "its stays would spare nothing";
            r->reason = dv_arena_copy(s->arena, why, strlen(why));
            if (!r->reason)
                return 0;
        }
    }
    return 1;
}

// Returns whether any candidate for a scratchpad home (resident tensor) that is
// not barred was not placed.
static int any_unplaced(const solver *s)
{
    for (int32_t i = 0; i < s->life->n_cands; i++)
        if (!s->life->cands[i].barred && s->home_of_cand[i] < 0)
            return 1;
    return 0;
}

// Places the candidates in the scratchpads with dv_place, with or without
// evictions, and makes the placed ones resident (homes). *saved is the main
// memory traffic saved.
static dv_status try_one(solver *s, int evict, double *saved)
{
    s->out->homes = NULL;
    s->out->n_homes = s->cap_homes = 0;
    dv_placement_destroy(s->own);
    s->own = NULL;
    DV_TRY(place(s, evict));
    if (!(evict ? add_stays(s) : add_whole(s)))
        return dv_nomem(s->diag);
    link_rings(s);
    find_in_place_reuse(s);
    *saved = 0;
    s->out->solver =
        dv_arena_copy(s->arena, s->placed->solver, strlen(s->placed->solver));
    if (!s->out->solver)
        return dv_nomem(s->diag);
    if (s->life->rules->unreported && !s->life->rules->evict)
        return DV_OK; // nobody asks what the homes save
    double *spared = DV_NEW(s->life->arena, double, s->out->n_homes);
    for (int32_t i = 0; spared && i < s->out->n_homes; i++) {
        spared[i] = spares(s, &s->out->homes[i]);
        *saved += spared[i];
    }
    return spared && report(s, spared) ? DV_OK : dv_nomem(s->diag);
}

static dv_status solve(solver *s)
{
    double saved, more;
    s->home_of_cand = DV_NEW(s->life->arena, int32_t, s->life->n_cands);
    s->n_homes_of = DV_NEW(s->life->arena, int32_t, s->life->n_cands);
    if (!s->home_of_cand || !s->n_homes_of || !ask(s))
        return dv_nomem(s->diag);
    DV_TRY(try_one(s, 0, &saved));
    if (!s->life->rules->evict || !any_unplaced(s))
        return DV_OK;
    dv_scratch before = *s->out;
    DV_TRY(try_one(s, 1, &more));
    if (more <= saved)
        *s->out = before;
    return DV_OK;
}

dv_status dv_scratch_solve(dv_scratch *out, const dv_plan *plan,
                           const dv_life *life, dv_arena *arena, dv_diag *diag)
{
    solver s = {
        .plan = plan, .life = life, .arena = arena, .out = out, .diag = diag};
    dv_status st = solve(&s);
    dv_placement_destroy(s.own);
    return st;
}

static int enter(dv_scratch *s, const dv_plan *plan, int32_t op, int32_t tensor,
                 int32_t home, int write, dv_arena *arena)
{
    const dv_op *o = &plan->ops->ops[op];
    if (!s->home_of[op]) {
        s->home_of[op] = DV_NEW(arena, int32_t, o->n_reads + 1);
        if (!s->home_of[op])
            return 0;
        for (int k = 0; k <= o->n_reads; k++)
            s->home_of[op][k] = -1;
    }
    if (write)
        s->home_of[op][o->n_reads] = home;
    for (int r = 0; r < o->n_reads && !write; r++)
        if (o->reads[r].tensor == tensor)
            s->home_of[op][r] = home;
    return 1;
}

static int fill_rank(const dv_home *h)
{
    return h->fill == DV_FILL_MOVED ? 0 : h->fill == DV_FILL_RING ? 1 : 2;
}

// Sorts the tensors that become resident at each op by how they get into the
// scratchpads: moves first, then copies from other cores, then loads and
// writes, so that none overwrites the source of another one.
static int sort_fills(dv_scratch *s, int32_t n_ops, dv_arena *arena)
{
    int32_t *next = DV_NEW(arena, int32_t, n_ops + 1);
    s->fill_at = DV_NEW(arena, int32_t, n_ops + 1);
    s->fill_order = DV_NEW(arena, int32_t, s->n_homes);
    if (!next || !s->fill_at || !s->fill_order)
        return 0;
    for (int32_t i = 0; i < s->n_homes; i++)
        s->fill_at[s->homes[i].first_op + 1]++;
    for (int32_t op = 0; op < n_ops; op++) {
        next[op] = s->fill_at[op];
        s->fill_at[op + 1] += s->fill_at[op];
    }
    for (int rank = 0; rank < 3; rank++)
        for (int32_t i = 0; i < s->n_homes; i++)
            if (fill_rank(&s->homes[i]) == rank)
                s->fill_order[next[s->homes[i].first_op]++] = i;
    return 1;
}

// Sets what the reads of a tensor by the listed ops receive over the ring:
// `what` is the number of a home or DV_RING_MEMORY. Returns 0 when out of
// memory.
static int enter_ring(dv_scratch *s, const dv_plan *plan, int32_t tensor,
                      int32_t what, const int32_t *ops, int32_t n,
                      dv_arena *arena)
{
    for (int32_t i = 0; i < n; i++) {
        const dv_op *o = &plan->ops->ops[ops[i]];
        int32_t **ring = &s->ring_of[ops[i]];
        if (!*ring) {
            *ring = DV_NEW(arena, int32_t, o->n_reads);
            for (int r = 0; *ring && r < o->n_reads; r++)
                (*ring)[r] = DV_RING_NONE;
        }
        if (!*ring)
            return 0;
        for (int r = 0; r < o->n_reads; r++)
            if (o->reads[r].tensor == tensor)
                (*ring)[r] = what;
    }
    return 1;
}

int dv_scratch_index_shares(dv_scratch *s, const dv_plan *plan, dv_arena *arena)
{
    for (int32_t i = 0; i < s->n_shares; i++)
        if (!enter_ring(s, plan, s->shares[i].tensor, DV_RING_MEMORY,
                        s->shares[i].ops, s->shares[i].n_ops, arena))
            return 0;
    return 1;
}

int dv_scratch_index(dv_scratch *s, const dv_plan *plan, dv_arena *arena)
{
    s->home_of = DV_NEW(arena, int32_t *, plan->ops->n_ops);
    s->ring_of = DV_NEW(arena, int32_t *, plan->ops->n_ops);
    if (!s->home_of || !s->ring_of || !sort_fills(s, plan->ops->n_ops, arena) ||
        !dv_scratch_index_shares(s, plan, arena))
        return 0;
    for (int32_t i = 0; i < s->n_homes; i++) {
        const dv_home *h = &s->homes[i];
        if (h->fill == DV_FILL_WRITTEN &&
            !enter(s, plan, h->first_op, h->tensor, i, 1, arena))
            return 0;
        for (int32_t k = 0; k < h->n_readers; k++)
            if (!enter(s, plan, h->readers[k], h->tensor, i, 0, arena))
                return 0;
        if (!enter_ring(s, plan, h->tensor, i, h->passed_to, h->n_passed_to,
                        arena))
            return 0;
    }
    return 1;
}
