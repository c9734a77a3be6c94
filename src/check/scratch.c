// The checker's rules for scratchpads. Like the other checks it shares no code
// with the passes: which core holds which box is recomputed here from slices
// and deals. A home is the residency of a tensor in the scratchpads during some
// consecutive ops.
//
// If a core has several tiles of a group, it runs all ops of the group for its
// first tile, then for the next one, and so on: the group loops over tiles. A
// home that is cut as by an op of such a group holds one tile at a time.
//
//   C11 every home is aligned, below the usable capacity, and large enough for
//       what any core holds in it, of any of its tiles
//   C12 homes with overlapping lifetimes share no byte, except for in-place
//       reuse: a home may take the bytes of one that its first op reads for
//       the last time and that every loop iteration fills again, at the same
//       address, cut in the same way, element by element
//   C13 a tensor with a home is never updated, and no opaque op runs during
//       the home's lifetime; groups that end meanwhile are non_terminal, and
//       with `tenants` no group may end meanwhile. A home that holds one tile
//       at a time is written or loaded, and lives inside its group, in which
//       no op updates a tensor or computes partial sums; any other home lives
//       as long as the groups that loop over tiles during its lifetime
//   C14 homes are read only during their lifetime, in every loop iteration, and
//       each core holds all elements that it reads: in every tile those of the
//       same tile, if the home holds one tile at a time
//   C15 main memory is current wherever a tensor is read from or loaded from it
//       or is an output: otherwise the home is stored; copies between homes
//       find all elements that they need
//   C36 a home of partial sums holds the accumulators of an op in a loop over
//       tiles and lives as long as the loop; every core has all parts of its
//       results, in order, with no tile in between
//   C35 what an op receives over the ring is passed on by cores that have one
//       tile of it each, or several that they compute in step; it is a tensor
//       that the op does not write, nor its group if that loops over tiles. Its
//       elements are in main memory, or each in the scratchpad of some core
//       before any core begins the op and until all have finished it: the op is
//       alone in its group, or the group loops over tiles and the home is
//       filled before it and lives until its end
#include "base/math.h"
#include "check/check.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct checker {
    const dv_plan *plan;
    const dv_scratch *s;
    dv_loc at;
    dv_diag *diag;
    int32_t *group_of; // group number of each op
    uint8_t *loops;    // per group: 1 if it loops over tiles
    uint8_t *in_order; // per group: 1 if deal number i is that of core number i
} checker;

typedef struct box {
    int any;
    int64_t lo[DV_MAX_DIMS], hi[DV_MAX_DIMS];
} box;

// The data, the same for all tiles, from which touches() computes the elements
// that one access of an op reaches in a tile.
typedef struct reach {
    int32_t op;
    const dv_access *access;
    int is_write;
    int is_box;                   // 0 if the elements of a tile form no box
    int var[DV_MAX_DIMS];         // the variable that indexes a dim, or -1
    int64_t n_slots[DV_MAX_VARS]; // number of slices of each variable
} reach;

// Fails as DV_BREAKS does, with a message at the place in the plan's text where
// the home (the residency of a tensor in the scratchpads) stands.
#define HOME_BREAKS(c, rule, home, ...) home_fail(c, #rule, home, __VA_ARGS__)
__attribute__((format(printf, 4, 5))) static dv_status
home_fail(const checker *c, const char *rule, int32_t home, const char *form,
          ...)
{
    char text[200];
    const dv_home *h = &c->s->homes[home];
    va_list ap;
    va_start(ap, form);
    vsnprintf(text, sizeof text, form, ap);
    va_end(ap);
    return dv_fail(c->diag, DV_E_CHECK,
                   h->off ? dv_plan_at(c->plan, h->off) : c->at,
                   "%s: home %d, of %s: %s", rule, (int)home,
                   c->plan->ops->tensors[h->tensor].name, text);
}

static int homes_share(const dv_home *a, const dv_home *b)
{
    return a->address < b->address + b->core_bytes &&
           b->address < a->address + a->core_bytes;
}

typedef struct facts {
    uint8_t *updated;
    int32_t *externs, *hidden, *def, *oldest;
    // Per op: the number of groups before it at whose end scratchpads lose
    // their contents (a group marked non_terminal keeps them).
    int32_t *ends;
} facts;

// Returns the number of tiles of an op that a core computes.
static int64_t tiles_on(const checker *c, int32_t op, int64_t core)
{
    const dv_group *g = &c->plan->groups[c->group_of[op]];
    int64_t n = 0;
    if (c->in_order[c->group_of[op]])
        return core < g->n_deals ? g->deals[core].n_tiles : 0;
    for (int32_t d = 0; d < g->n_deals; d++)
        n += g->deals[d].core == core ? g->deals[d].n_tiles : 0;
    return n;
}

// Returns whether the group of an op loops over tiles: a core has several.
static int in_tile_loop(const checker *c, int32_t op)
{
    return c->loops[c->group_of[op]];
}

static void find_tile_loops(const checker *c)
{
    for (int32_t g = 0; g < c->plan->n_groups; g++) {
        const dv_group *group = &c->plan->groups[g];
        c->loops[g] = 0;
        c->in_order[g] = 1;
        for (int32_t d = 0; d < group->n_deals; d++)
            c->in_order[g] &= group->deals[d].core == d;
        for (int64_t core = 0; core < c->plan->target.cores; core++)
            c->loops[g] |= tiles_on(c, c->plan->groups[g].first_op, core) > 1;
    }
}

// Finds the number of slices of each variable of an op.
static void count_slots(const checker *c, int32_t op, int64_t *n)
{
    const dv_op *o = &c->plan->ops->ops[op];
    for (int v = 0; v < o->n_vars; v++)
        n[v] =
            (o->vars[v].end - o->vars[v].begin - 1) / c->plan->slices[op][v] +
            1;
}

// Finds the tile number nth that a core computes of an op, as a slice number
// for each variable; variable v has n_slots[v] slices. Returns 0 if the core
// computes fewer tiles.
static int slots_on(const checker *c, int32_t op, const int64_t *n_slots,
                    int64_t core, int64_t nth, int64_t *slot)
{
    const dv_group *g = &c->plan->groups[c->group_of[op]];
    const dv_op *o = &c->plan->ops->ops[op];
    int64_t tile = -1;
    // If the deals (ranges of tiles, one per core) are sorted by core, the
    // search begins at the core's own.
    int32_t d = c->in_order[c->group_of[op]] ? (int32_t)core : 0;
    for (; d < g->n_deals && tile < 0; d++) {
        if (g->deals[d].core != core)
            continue;
        if (nth < g->deals[d].n_tiles)
            tile = g->deals[d].first_tile + nth;
        nth -= g->deals[d].n_tiles;
    }
    for (int k = o->n_vars - 1; k >= 0 && tile >= 0; k--) {
        int v = dv_plan_digit(c->plan, op, k);
        slot[v] = 0;
        if (n_slots[v] == 1)
            continue; // a division takes as long as the rest
        slot[v] = tile % n_slots[v];
        tile /= n_slots[v];
    }
    return tile >= 0;
}

// Fills in *r, from which touches() computes the elements that access a of an
// op reaches in a tile.
static void find_reach(const checker *c, int32_t op, const dv_access *a,
                       int is_write, reach *r)
{
    const dv_op *o = &c->plan->ops->ops[op];
    *r = (reach){.op = op, .access = a, .is_write = is_write, .is_box = 1};
    count_slots(c, op, r->n_slots);
    for (int d = 0; d < a->n_dims; d++) {
        r->var[d] = -1;
        r->is_box &= a->index[d].via < 0;
        for (int v = 0; v < o->n_vars && r->is_box; v++) {
            if (a->index[d].coef[v] == 0)
                continue;
            // A second variable makes a slanted shape, a factor other than 1
            // leaves gaps: no box.
            r->is_box = a->index[d].coef[v] == 1 && r->var[d] < 0;
            r->var[d] = v;
        }
    }
}

// Computes the box of elements that a core accesses in its n-th tile of an op.
// Returns 1; 0 if it accesses nothing; -1 if the elements do not form a box.
static int touches(const checker *c, const reach *r, int64_t core, int64_t nth,
                   box *b)
{
    const dv_op *o = &c->plan->ops->ops[r->op];
    const dv_access *a = r->access;
    int64_t slot[DV_MAX_VARS];
    b->any = slots_on(c, r->op, r->n_slots, core, nth, slot);
    if (!b->any)
        return 0;
    if (!r->is_box)
        return -1;
    for (int v = 0; v < o->n_vars && r->is_write; v++)
        if (o->vars[v].reduce && slot[v] != r->n_slots[v] - 1)
            // The core computes only a partial sum of a split reduction; the
            // result is on another core.
            b->any = 0;
    for (int d = 0; d < a->n_dims; d++) {
        int v = r->var[d];
        b->lo[d] = a->index[d].base;
        b->hi[d] = b->lo[d] + 1;
        if (v >= 0) {
            int64_t slice = c->plan->slices[r->op][v];
            int64_t from = o->vars[v].begin + slot[v] * slice;
            b->hi[d] = b->lo[d] + dv_min_i64(from + slice, o->vars[v].end);
            b->lo[d] += from;
        }
        if (b->lo[d] < 0 ||
            b->hi[d] > c->plan->ops->tensors[a->tensor].shape[d])
            return -1;
    }
    return b->any;
}

// Returns whether a variable occurs in two dimensions, which makes the access a
// diagonal and not a box.
static int is_diagonal(const dv_op *o, const dv_access *a)
{
    for (int v = 0; v < o->n_vars; v++) {
        int dims = 0;
        for (int d = 0; d < a->n_dims; d++)
            dims += a->index[d].via < 0 && a->index[d].coef[v] != 0;
        if (dims > 1)
            return 1;
    }
    return 0;
}

static const dv_access *first_access(const dv_op *o, int32_t tensor, int *write)
{
    *write = o->write.tensor == tensor;
    for (int r = 0; !*write && r < o->n_reads; r++)
        if (o->reads[r].tensor == tensor)
            return &o->reads[r];
    return &o->write;
}

// Fills in *r for a home (a resident tensor) and the op by whose tiles it is
// divided: touches() then returns the box that a core holds in the home during
// its n-th tile.
static void find_home_reach(const checker *c, const dv_home *h, reach *r)
{
    int write;
    const dv_op *o = &c->plan->ops->ops[h->as_op];
    const dv_access *a = first_access(o, h->tensor, &write);
    find_reach(c, h->as_op, a, write, r);
    r->is_box &= !is_diagonal(o, a);
}

static int box_inside(const box *outer, const box *inner, int n_dims)
{
    for (int d = 0; d < n_dims && inner->any; d++)
        if (inner->lo[d] < outer->lo[d] || inner->hi[d] > outer->hi[d])
            return 0;
    return !inner->any || outer->any;
}

static int64_t elems(const box *b, int n_dims)
{
    int64_t n = b->any;
    for (int d = 0; d < n_dims && n; d++)
        n *= b->hi[d] > b->lo[d] ? b->hi[d] - b->lo[d] : 0;
    return n;
}

// How a tensor is stored: blocks of so many elements along each of its dims,
// and the bytes of all that a block holds. A block is a stick (the smallest
// unit of memory), a tile or an element.
typedef struct blocks {
    int64_t bytes, elems[DV_MAX_DIMS];
} blocks;

static void find_blocks(const dv_layout *l, int n_dims, blocks *b)
{
    b->bytes = l->bytes / l->n_elems;
    for (int32_t i = 0; i < l->n_dims; i++)
        if (l->host[i] < 0)
            b->bytes *= l->size[i];
    for (int d = 0; d < n_dims; d++) {
        int32_t outer = -1;
        b->elems[d] = 1;
        for (int32_t i = l->n_dims - 1; i >= 0; i--) {
            if (l->host[i] != d)
                continue;
            if (outer >= 0)
                b->elems[d] *= l->size[outer];
            outer = i;
        }
        b->bytes *= b->elems[d];
    }
}

// Returns the bytes of all blocks that a box of elements touches.
static int64_t bytes_of(const blocks *l, const box *b, int n_dims)
{
    int64_t n = l->bytes;
    for (int d = 0; d < n_dims; d++) {
        int64_t k = l->elems[d];
        n *= k == 1 ? b->hi[d] - b->lo[d]
                    : (b->hi[d] - 1) / k - b->lo[d] / k + 1;
    }
    return n;
}

// Returns the bytes of the accumulators of an op for a core's n-th tile.
static int64_t sum_bytes(const checker *c, int32_t op, const int64_t *n_slots,
                         int64_t core, int64_t nth)
{
    const dv_op *o = &c->plan->ops->ops[op];
    int64_t slot[DV_MAX_VARS];
    int64_t n = dv_op_partial_bytes(c->plan->ops, o);
    if (!slots_on(c, op, n_slots, core, nth, slot))
        return 0;
    for (int v = 0; v < o->n_vars; v++) {
        int64_t slice = c->plan->slices[op][v];
        int64_t from = o->vars[v].begin + slot[v] * slice;
        if (!o->vars[v].reduce)
            n *= dv_min_i64(slice, o->vars[v].end - from);
    }
    return n;
}

static dv_status check_size(const checker *c, int32_t i)
{
    const dv_home *h = &c->s->homes[i];
    const dv_target *t = &c->plan->target;
    int n_dims = c->plan->ops->tensors[h->tensor].n_dims;
    int64_t most = dv_min_i64(dv_target_usable_bytes(t), c->s->capacity_bytes);
    if (h->address % t->scratch_align_bytes)
        return HOME_BREAKS(c, C11, i,
                           "address %" PRId64 " is no multiple of %" PRId64,
                           h->address, t->scratch_align_bytes);
    if (h->core_bytes > most - h->address)
        return HOME_BREAKS(
            c, C11, i, "it ends at byte %" PRId64 ", a plan may use %" PRId64,
            h->address + h->core_bytes, most);
    int sums = h->fill == DV_FILL_SUMMED;
    blocks stored;
    reach cut;
    find_blocks(&c->plan->layouts[h->tensor], n_dims, &stored);
    find_home_reach(c, h, &cut);
    for (int64_t core = 0; core < t->cores; core++) {
        int64_t tiles = tiles_on(c, h->as_op, core);
        for (int64_t nth = 0; nth < tiles; nth++) {
            box b;
            int has = sums ? 0 : touches(c, &cut, core, nth, &b);
            if (has < 0)
                return HOME_BREAKS(
                    c, C11, i, "op %s does not cut it into boxes, one a core",
                    c->plan->ops->ops[h->as_op].name);
            int64_t need = sums ? sum_bytes(c, h->as_op, cut.n_slots, core, nth)
                           : has ? bytes_of(&stored, &b, n_dims)
                                 : 0;
            if (need > h->core_bytes)
                return HOME_BREAKS(c, C11, i,
                                   "core %" PRId64 " keeps %" PRId64
                                   " bytes there, it has %" PRId64,
                                   core, need, h->core_bytes);
        }
    }
    return DV_OK;
}

// Returns whether an op runs tile by tile together with the other ops of its
// group: it neither updates its tensor nor computes partial sums.
static int fits_tile_loop(const checker *c, int32_t op)
{
    const dv_op *o = &c->plan->ops->ops[op];
    for (int v = 0; v < o->n_vars; v++)
        if (o->vars[v].reduce &&
            c->plan->slices[op][v] < o->vars[v].end - o->vars[v].begin)
            return 0;
    return !o->update;
}

// Returns whether an op has a home (space in the scratchpads) for the
// accumulators of its partial sums.
static int is_summed(const checker *c, int32_t op)
{
    for (int32_t i = 0; i < c->s->n_homes; i++)
        if (c->s->homes[i].fill == DV_FILL_SUMMED && c->s->homes[i].as_op == op)
            return !c->plan->ops->ops[op].update;
    return 0;
}

// Returns which part of its results' sums a tile computes: slot[v] is its slice
// of variable v, which has n_slots[v]. Parts are numbered by the slices of the
// reduced variables, row-major.
static int64_t part_of(const dv_op *o, const int64_t *n_slots,
                       const int64_t *slot)
{
    int64_t part = 0;
    for (int v = 0; v < o->n_vars; v++)
        if (o->vars[v].reduce)
            part = part * n_slots[v] + slot[v];
    return part;
}

// Checks rule C36 for home i, scratchpad space for the accumulators of an op:
// it lives as long as the loop over tiles, and each core computes all parts of
// a result, in order, with no tile in between.
static dv_status check_sums(const checker *c, int32_t i)
{
    const dv_home *h = &c->s->homes[i];
    const dv_op *o = &c->plan->ops->ops[h->as_op];
    const dv_group *g = &c->plan->groups[c->group_of[h->as_op]];
    if (!in_tile_loop(c, h->as_op) || h->first_op != g->first_op ||
        h->end_op != g->end_op || o->is_extern || o->update ||
        g->queue != DV_DEALT)
        return HOME_BREAKS(c, C36, i,
                           "op %s cannot sum up its parts there in a loop over "
                           "tiles",
                           o->name);
    for (int32_t k = 0; k < i; k++)
        if (c->s->homes[k].fill == DV_FILL_SUMMED &&
            c->s->homes[k].as_op == h->as_op)
            return HOME_BREAKS(c, C36, i, "op %s sums up in home %d", o->name,
                               (int)k);
    int64_t n_slots[DV_MAX_VARS], most[DV_MAX_VARS];
    count_slots(c, h->as_op, n_slots);
    for (int v = 0; v < o->n_vars; v++)
        most[v] = n_slots[v] - 1;
    int64_t final = part_of(o, n_slots, most);
    for (int64_t core = 0; core < c->plan->target.cores; core++) {
        int64_t last[DV_MAX_VARS], slot[DV_MAX_VARS];
        int64_t tiles = tiles_on(c, h->as_op, core), before = -1;
        for (int64_t nth = 0; nth < tiles; nth++) {
            slots_on(c, h->as_op, n_slots, core, nth, slot);
            int64_t part = part_of(o, n_slots, slot);
            int same = part == before + 1;
            for (int v = 0; v < o->n_vars && before >= 0; v++)
                same &= o->vars[v].reduce || slot[v] == last[v];
            if (!same)
                return HOME_BREAKS(c, C36, i,
                                   "core %" PRId64 " has part %" PRId64
                                   " of op %s after "
                                   "part %" PRId64,
                                   core, part, o->name, before);
            before = part == final ? -1 : part;
            memcpy(last, slot, sizeof last);
        }
        if (before >= 0)
            return HOME_BREAKS(c, C36, i,
                               "core %" PRId64 " lacks parts of op %s", core,
                               o->name);
    }
    return DV_OK;
}

// Checks the part of rule C13 about home i (a resident tensor) in groups that
// loop over tiles.
static dv_status check_tile_loops(const checker *c, int32_t i)
{
    const dv_home *h = &c->s->homes[i];
    int32_t own = c->group_of[h->as_op], first = c->group_of[h->first_op];
    int32_t last = c->group_of[h->end_op - 1];
    const dv_group *g = &c->plan->groups[own];
    if (!in_tile_loop(c, h->as_op)) {
        if (in_tile_loop(c, h->first_op) ||
            (in_tile_loop(c, h->end_op - 1) &&
             h->end_op != c->plan->groups[last].end_op))
            return HOME_BREAKS(c, C13, i,
                               "it begins or ends in the middle of a loop over "
                               "tiles");
        return DV_OK;
    }
    if (first != own || last != own)
        return HOME_BREAKS(c, C13, i,
                           "it holds one tile of group %d at a time, and lives "
                           "outside of it",
                           (int)own);
    if (h->fill == DV_FILL_RING || h->fill == DV_FILL_MOVED)
        return HOME_BREAKS(c, C13, i,
                           "it holds one tile at a time, and is copied");
    for (int32_t op = g->first_op; op < g->end_op; op++)
        if (!fits_tile_loop(c, op) && !is_summed(c, op))
            return HOME_BREAKS(c, C13, i,
                               "it holds one tile at a time, and op %s of its "
                               "group cannot run tile by tile",
                               c->plan->ops->ops[op].name);
    return DV_OK;
}

static dv_status check_life(const checker *c, int32_t i, const facts *f)
{
    const dv_home *h = &c->s->homes[i];
    if (f->updated[h->tensor])
        return HOME_BREAKS(c, C13, i, "its tensor is updated");
    if (f->externs[h->end_op] != f->externs[h->first_op])
        return HOME_BREAKS(c, C13, i, "an opaque op runs while it lives");
    if (c->s->tenants && c->group_of[h->first_op] != c->group_of[h->end_op - 1])
        return HOME_BREAKS(c, C13, i, "it lives past the end of a group");
    if (f->ends[h->end_op - 1] != f->ends[h->first_op])
        return HOME_BREAKS(c, C13, i,
                           "it lives past the end of a group that is not "
                           "non_terminal");
    return DV_OK;
}

// Checks that the last group of a repeat (a loop) is marked non_terminal, so
// that scratchpads keep their contents, if the next iteration reads a tensor
// that became resident in the scratchpads before the repeat.
static dv_status check_passes(const checker *c, int32_t *oldest)
{
    const dv_program *p = c->plan->ops;
    for (int32_t i = 0; i <= p->n_ops; i++)
        oldest[i] = -1;
    for (int32_t i = 0; i < c->s->n_homes; i++) {
        int32_t end = c->s->homes[i].end_op, k = oldest[end];
        if (k < 0 || c->s->homes[i].first_op < c->s->homes[k].first_op)
            oldest[end] = i;
    }
    for (int32_t i = 0; i < p->n_repeats; i++) {
        const dv_repeat *r = &p->repeats[i];
        int32_t h = oldest[r->end_op];
        if (r->times < 2 || h < 0 || c->s->homes[h].first_op >= r->first_op)
            continue;
        int32_t g = c->group_of[r->end_op - 1];
        if (!c->plan->groups[g].non_terminal)
            return HOME_BREAKS(
                c, C13, h,
                "the next pass of a repeat reads it, and group %d "
                "is not non_terminal",
                (int)g);
    }
    return DV_OK;
}

// Returns whether scratchpad home h (a resident tensor) is valid at op `use` in
// every iteration of the loops around `use`: a home filled outside a loop must
// last until the loop's end.
static int lasts(const checker *c, const dv_home *h, int32_t use)
{
    const dv_program *p = c->plan->ops;
    for (int32_t i = 0; i < p->n_repeats; i++) {
        const dv_repeat *r = &p->repeats[i];
        int around_use = r->first_op <= use && use < r->end_op;
        int around_fill = r->first_op <= h->first_op && h->first_op < r->end_op;
        if (around_use && !around_fill && h->end_op < r->end_op)
            return 0;
        if (around_fill && !around_use && r->times == 0)
            // The repeat has no iterations, so the tensor never becomes
            // resident in the scratchpads.
            return 0;
    }
    return 1;
}

// Checks that home i (a resident tensor), divided among the cores as `cut`
// says, has on each core all elements that access `a` of an op reads there.
static dv_status check_read(const checker *c, int32_t i, const reach *cut,
                            int32_t op, const dv_access *a)
{
    // A home (a resident tensor) that holds one tile at a time has the elements
    // of the reader's tile; any other has the same elements during all tiles.
    int by_tile = in_tile_loop(c, cut->op);
    reach read;
    find_reach(c, op, a, 0, &read);
    for (int64_t core = 0; core < c->plan->target.cores; core++) {
        int64_t tiles = tiles_on(c, op, core);
        for (int64_t nth = 0; nth < tiles; nth++) {
            box has, need;
            if (touches(c, cut, core, by_tile ? nth : 0, &has) < 0)
                return HOME_BREAKS(c, C14, i, "it is not cut into boxes");
            if (touches(c, &read, core, nth, &need) < 0 ||
                !box_inside(&has, &need, a->n_dims))
                return HOME_BREAKS(c, C14, i,
                                   "op %s needs more of it on core %" PRId64
                                   " than is there",
                                   c->plan->ops->ops[op].name, core);
        }
    }
    return DV_OK;
}

static dv_status check_reader(const checker *c, int32_t i, int32_t op)
{
    const dv_home *h = &c->s->homes[i];
    const dv_op *o = &c->plan->ops->ops[op];
    int written = h->fill == DV_FILL_WRITTEN;
    if (op < h->first_op + written || op >= h->end_op || !lasts(c, h, op))
        return HOME_BREAKS(c, C14, i, "op %s reads it when it is not there",
                           o->name);
    reach cut;
    find_home_reach(c, h, &cut);
    for (int r = 0; r < o->n_reads; r++)
        if (o->reads[r].tensor == h->tensor)
            DV_TRY(check_read(c, i, &cut, op, &o->reads[r]));
    return DV_OK;
}

// Checks rule C15: main memory is current wherever a tensor is read from it.
// hidden[t] is the scratchpad home (resident tensor) to which the op that
// defines tensor t writes without storing it to main memory, or -1.
static dv_status check_memory(const checker *c, int32_t *hidden)
{
    const dv_program *p = c->plan->ops;
    for (int32_t t = 0; t < p->n_tensors; t++)
        hidden[t] = -1;
    for (int32_t i = 0; i < c->s->n_homes; i++) {
        const dv_home *h = &c->s->homes[i];
        if (h->fill != DV_FILL_WRITTEN)
            continue;
        if (hidden[h->tensor] >= 0)
            return HOME_BREAKS(c, C15, i, "it is written to home %d",
                               (int)hidden[h->tensor]);
        hidden[h->tensor] = i;
    }
    for (int32_t t = 0; t < p->n_tensors; t++)
        if (hidden[t] >= 0 && c->s->homes[hidden[t]].stored)
            hidden[t] = -1;
    for (int32_t t = 0; t < p->n_tensors; t++)
        if (hidden[t] >= 0 && p->tensors[t].is_output)
            return HOME_BREAKS(c, C15, hidden[t],
                               "it is an output and never stored");
    for (int32_t i = 0; i < p->n_ops; i++)
        for (int r = 0; r < p->ops[i].n_reads; r++) {
            int32_t t = p->ops[i].reads[r].tensor;
            if (hidden[t] >= 0 && dv_home_of(c->plan, i, r) < 0 &&
                dv_ring_of(c->plan, i, r) < 0)
                return HOME_BREAKS(
                    c, C15, hidden[t],
                    "op %s reads it from main memory, where it never "
                    "was stored",
                    p->ops[i].name);
        }
    for (int32_t i = 0; i < c->s->n_homes; i++)
        if (c->s->homes[i].fill == DV_FILL_LOADED &&
            hidden[c->s->homes[i].tensor] >= 0)
            return HOME_BREAKS(c, C15, i, "it is loaded, and never was stored");
    return DV_OK;
}

// Checks a home (a resident tensor) that is copied from other cores'
// scratchpads. Cores wait for each other only between groups. So the copy must
// be at the start of a group, when all cores have written its source, and
// nothing in that group may overwrite the source, which slower cores may still
// be copying.
static dv_status check_waits(const checker *c, int32_t i)
{
    const dv_home *h = &c->s->homes[i], *from = &c->s->homes[h->from];
    const dv_group *g = &c->plan->groups[c->group_of[h->first_op]];
    if (g->first_op != h->first_op)
        return HOME_BREAKS(c, C15, i,
                           "it is copied in the middle of a group, where cores "
                           "do not wait for each other");
    for (int32_t k = 0; k < c->s->n_homes; k++) {
        const dv_home *next = &c->s->homes[k];
        if (next->first_op >= from->end_op && next->first_op > h->first_op &&
            next->first_op < g->end_op && homes_share(next, from))
            return HOME_BREAKS(c, C15, i,
                               "home %d overwrites what it is copied from in "
                               "the same group",
                               (int)k);
    }
    return DV_OK;
}

static dv_status check_copy(const checker *c, int32_t i)
{
    const dv_home *h = &c->s->homes[i], *from = &c->s->homes[h->from];
    int n_dims = c->plan->ops->tensors[h->tensor].n_dims;
    int ring = h->fill == DV_FILL_RING;
    if (ring && (!c->plan->target.ring || from->fill != DV_FILL_WRITTEN))
        return HOME_BREAKS(c, C15, i,
                           "it cannot be copied from home %d over a ring",
                           (int)h->from);
    if (from->fill == DV_FILL_SUMMED || from->first_op >= h->first_op ||
        from->end_op < h->first_op + ring || !lasts(c, from, h->first_op) ||
        in_tile_loop(c, from->as_op))
        return HOME_BREAKS(c, C15, i, "home %d is not there to be copied",
                           (int)h->from);
    if (ring)
        DV_TRY(check_waits(c, i));
    if (!ring && h->as_op != from->as_op && homes_share(h, from))
        return HOME_BREAKS(c, C15, i,
                           "it overlaps home %d and is cut another way",
                           (int)h->from);
    for (int32_t k = 0; k < c->s->n_homes && !ring; k++)
        if (c->s->homes[k].in_place_of == h->from &&
            c->s->homes[k].first_op < h->first_op)
            return HOME_BREAKS(c, C15, i,
                               "home %d has the place of what it is moved from",
                               (int)k);
    for (int32_t k = 0; k < c->s->n_homes && !ring; k++)
        if (k != i && k != h->from && c->s->homes[k].first_op == h->first_op &&
            from->end_op == h->first_op && homes_share(&c->s->homes[k], from))
            return HOME_BREAKS(
                c, C15, i, "home %d overwrites what it is moved from", (int)k);
    reach cut, source;
    find_home_reach(c, h, &cut);
    find_home_reach(c, from, &source);
    for (int64_t core = 0; core < c->plan->target.cores; core++) {
        box need, has;
        int64_t found = 0;
        touches(c, &cut, core, 0, &need);
        for (int64_t other = 0; other < c->plan->target.cores; other++) {
            if ((!ring && other != core) ||
                touches(c, &source, other, 0, &has) <= 0 || !need.any)
                continue;
            for (int d = 0; d < n_dims; d++) {
                has.lo[d] = dv_max_i64(has.lo[d], need.lo[d]);
                has.hi[d] = dv_min_i64(has.hi[d], need.hi[d]);
            }
            found += elems(&has, n_dims);
        }
        if (found != elems(&need, n_dims))
            return HOME_BREAKS(c, C15, i,
                               "core %" PRId64 " needs %" PRId64
                               " elements, %" PRId64 " are in home %d",
                               core, elems(&need, n_dims), found, (int)h->from);
    }
    return DV_OK;
}

// Checks that a scratchpad home (resident tensor) is loaded only after its
// tensor was written.
static dv_status check_load(const checker *c, int32_t i, const int32_t *def)
{
    const dv_home *h = &c->s->homes[i];
    // The load must be in a later group than the write: inside a group no core
    // waits for the others.
    if (def[h->tensor] >= c->plan->groups[c->group_of[h->first_op]].first_op)
        return HOME_BREAKS(c, C15, i, "it is loaded before it is written");
    return DV_OK;
}

static void gather_facts(const checker *c, facts *f)
{
    const dv_program *p = c->plan->ops;
    for (int32_t t = 0; t < p->n_tensors; t++) {
        f->updated[t] = 0;
        f->def[t] = -1;
    }
    f->externs[0] = 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        f->externs[i + 1] = f->externs[i] + p->ops[i].is_extern;
        if (p->ops[i].update)
            f->updated[p->ops[i].write.tensor] = 1;
        else
            f->def[p->ops[i].write.tensor] = i;
    }
    for (int32_t g = 0, ends = 0; g < c->plan->n_groups; g++) {
        for (int32_t i = c->plan->groups[g].first_op;
             i < c->plan->groups[g].end_op; i++) {
            c->group_of[i] = g;
            f->ends[i] = ends;
        }
        ends += !c->plan->groups[g].non_terminal;
    }
    find_tile_loops(c);
}

static int same_layout(const dv_layout *a, const dv_layout *b)
{
    size_t n = (size_t)a->n_dims;
    return a->n_dims == b->n_dims && a->elem_bytes == b->elem_bytes &&
           !memcmp(a->size, b->size, n * sizeof *a->size) &&
           !memcmp(a->host, b->host, n * sizeof *a->host);
}

// Returns whether the op reads the tensor only at the element that it writes,
// so that its result may overwrite the tensor in place.
static int reads_its_own(const dv_op *o, int32_t tensor)
{
    int reads = 0;
    for (int r = 0; r < o->n_reads; r++) {
        const dv_access *a = &o->reads[r];
        if (a->tensor != tensor)
            continue;
        reads = 1;
        if (a->n_dims != o->write.n_dims)
            return 0;
        for (int d = 0; d < a->n_dims; d++) {
            if (a->index[d].via >= 0 ||
                a->index[d].base != o->write.index[d].base)
                return 0;
            for (int v = 0; v < o->n_vars; v++)
                if (a->index[d].coef[v] != o->write.index[d].coef[v] ||
                    o->vars[v].reduce)
                    return 0;
        }
    }
    return reads;
}

// Returns whether scratchpad home h (a resident tensor) is filled again in
// every iteration of every loop around the op.
static int is_refilled(const checker *c, const dv_home *h, int32_t op)
{
    const dv_program *p = c->plan->ops;
    for (int32_t i = 0; i < p->n_repeats; i++) {
        const dv_repeat *r = &p->repeats[i];
        if (r->first_op <= op && op < r->end_op &&
            (h->first_op < r->first_op || h->first_op >= r->end_op))
            return 0;
    }
    return 1;
}

// Returns whether scratchpad home h (a resident tensor) is filled again for
// every tile, if the group of the op loops over tiles. A home that is loaded
// and lives as long as the loop is not loaded again for a tile with the same
// elements as the tile before.
static int is_filled_by_tile(const checker *c, const dv_home *h, int32_t op)
{
    const dv_group *g = &c->plan->groups[c->group_of[op]];
    int whole = h->first_op == g->first_op && h->end_op == g->end_op;
    return !in_tile_loop(c, op) || (c->group_of[h->as_op] == c->group_of[op] &&
                                    (h->fill != DV_FILL_LOADED || !whole));
}

static dv_status check_in_place(const checker *c, int32_t i)
{
    const dv_home *h = &c->s->homes[i], *p = &c->s->homes[h->in_place_of];
    const dv_layout *l = c->plan->layouts;
    int n_dims = c->plan->ops->tensors[h->tensor].n_dims;
    if (h->fill != DV_FILL_WRITTEN || p->fill == DV_FILL_SUMMED ||
        p->end_op != h->first_op + 1 || p->first_op >= p->end_op ||
        p->address != h->address || h->core_bytes > p->core_bytes ||
        p->in_place_of == i || !same_layout(&l[h->tensor], &l[p->tensor]) ||
        !reads_its_own(&c->plan->ops->ops[h->first_op], p->tensor))
        return HOME_BREAKS(c, C12, i, "it cannot take the place of home %d",
                           (int)h->in_place_of);
    for (int32_t k = 0; k < p->n_passed_to; k++)
        if (p->passed_to[k] == h->first_op)
            return HOME_BREAKS(c, C12, i,
                               "it takes the place of home %d while that is "
                               "passed to other cores",
                               (int)h->in_place_of);
    if (!is_refilled(c, p, h->first_op))
        return HOME_BREAKS(
            c, C12, i,
            "it takes the place of home %d, which the next pass of "
            "the repeat reads",
            (int)h->in_place_of);
    if (!is_filled_by_tile(c, p, h->first_op))
        return HOME_BREAKS(
            c, C12, i,
            "it takes the place of home %d, which the next tile reads",
            (int)h->in_place_of);
    int by_tile = in_tile_loop(c, p->as_op);
    reach own, place;
    find_home_reach(c, h, &own);
    find_home_reach(c, p, &place);
    for (int64_t core = 0; core < c->plan->target.cores; core++) {
        int64_t tiles = dv_max_i64(tiles_on(c, h->as_op, core), 1);
        for (int64_t nth = 0; nth < tiles; nth++) {
            box a, b;
            if (touches(c, &own, core, nth, &a) < 0 ||
                touches(c, &place, core, by_tile ? nth : 0, &b) < 0 ||
                !box_inside(&a, &b, n_dims) || !box_inside(&b, &a, n_dims))
                return HOME_BREAKS(c, C12, i,
                                   "home %d, whose place it takes, is cut "
                                   "another way",
                                   (int)h->in_place_of);
        }
    }
    return DV_OK;
}

typedef struct edge {
    int32_t home, tick;
} edge;

static int by_tick(const void *a, const void *b)
{
    const edge *x = a, *y = b;
    if (x->tick != y->tick)
        return x->tick < y->tick ? -1 : 1;
    return x->home < y->home ? -1 : x->home > y->home;
}

// Checks all pairs of scratchpad homes (resident tensors) that are live at the
// same time, by a sweep over the homes sorted by first op. `alive` lists the
// homes that have not ended; taken[i] is the home that reuses the bytes of home
// i, or -1.
static dv_status sweep(const checker *c, edge *edges, int32_t *alive,
                       int32_t *taken)
{
    int32_t n = c->s->n_homes, n_alive = 0;
    for (int32_t i = 0; i < n; i++) {
        taken[i] = -1;
        edges[i] = (edge){i, c->s->homes[i].first_op};
    }
    qsort(edges, (size_t)n, sizeof *edges, by_tick);
    for (int32_t e = 0; e < n; e++) {
        int32_t i = edges[e].home, kept = 0;
        const dv_home *h = &c->s->homes[i];
        for (int32_t k = 0; k < n_alive; k++) {
            const dv_home *other = &c->s->homes[alive[k]];
            if (other->end_op <= h->first_op)
                continue;
            if (homes_share(h, other) && h->in_place_of != alive[k])
                return HOME_BREAKS(
                    c, C12, i,
                    "it shares byte %" PRId64 " with home %d in op %s",
                    dv_max_i64(h->address, other->address), (int)alive[k],
                    c->plan->ops->ops[h->first_op].name);
            alive[kept++] = alive[k];
        }
        n_alive = kept;
        alive[n_alive++] = i;
        if (h->in_place_of < 0)
            continue;
        DV_TRY(check_in_place(c, i));
        if (taken[h->in_place_of] >= 0)
            return HOME_BREAKS(c, C12, i,
                               "home %d has the place of home %d already",
                               (int)taken[h->in_place_of], (int)h->in_place_of);
        taken[h->in_place_of] = i;
    }
    return DV_OK;
}

static dv_status check_sharing(const checker *c)
{
    size_t n = (size_t)c->s->n_homes;
    edge *edges = dv_alloc(n * sizeof *edges);
    int32_t *alive = dv_alloc(2 * n * sizeof *alive);
    dv_status st = !edges || !alive ? dv_nomem(c->diag)
                                    : sweep(c, edges, alive, alive + n);
    dv_release(edges);
    dv_release(alive);
    return st;
}

// Checks rule C35 for home i (a resident tensor) and an op during which its
// parts pass along the ring of cores: all elements are on some core, and no
// core begins the op before all have written the home, or goes on before all
// have finished the op.
static dv_status check_passed(const checker *c, int32_t i, int32_t op)
{
    const dv_home *h = &c->s->homes[i];
    const dv_tensor *t = &c->plan->ops->tensors[h->tensor];
    const dv_group *g = &c->plan->groups[c->group_of[op]];
    const char *name = c->plan->ops->ops[op].name;
    int64_t found = 0;
    if (h->fill != DV_FILL_WRITTEN || op <= h->first_op || op >= h->end_op ||
        c->loops[c->group_of[h->as_op]] || !lasts(c, h, op))
        return HOME_BREAKS(c, C35, i, "it is not there to be passed to op %s",
                           name);
    if (g->end_op - g->first_op != 1 &&
        !(in_tile_loop(c, op) && h->first_op < g->first_op &&
          h->end_op >= g->end_op))
        return HOME_BREAKS(c, C35, i,
                           "op %s, to which it is passed, is not alone in its "
                           "group",
                           name);
    reach cut;
    find_home_reach(c, h, &cut);
    for (int64_t core = 0; core < c->plan->target.cores; core++) {
        box b;
        if (touches(c, &cut, core, 0, &b) > 0)
            found += elems(&b, t->n_dims);
    }
    if (found != t->n_elems)
        return HOME_BREAKS(
            c, C35, i, "the cores hold %" PRId64 " of its %" PRId64 " elements",
            found, t->n_elems);
    return DV_OK;
}

// Returns whether the index of a dim depends on two variables, or on one that
// the index of another dim depends on, too.
static int is_slanted(const dv_op *o, const dv_access *a)
{
    for (int d = 0; d < a->n_dims; d++) {
        int vars = 0;
        for (int v = 0; v < o->n_vars && a->index[d].via < 0; v++)
            vars += a->index[d].coef[v] != 0;
        if (vars > 1)
            return 1;
    }
    return is_diagonal(o, a);
}

// Returns whether the cores that compute an op step through their tiles alike:
// each has as many, consecutive and in the order of the cores, and the digits
// of the tile number (one digit per variable) that change from tile to tile on
// a core go through the same values on every core.
static int is_in_step(const checker *c, int32_t op)
{
    const dv_group *g = &c->plan->groups[c->group_of[op]];
    const dv_op *o = &c->plan->ops->ops[op];
    int64_t n = g->deals[0].n_tiles, digits = 1;
    int k = o->n_vars - 1;
    for (int32_t d = 0; d < g->n_deals; d++)
        if (g->deals[d].n_tiles != n || g->deals[d].first_tile != d * n ||
            (d > 0 && g->deals[d].core <= g->deals[d - 1].core))
            return 0;
    for (; k >= 0 && digits < n; k--) {
        int v = dv_plan_digit(c->plan, op, k);
        int64_t slice = c->plan->slices[op][v];
        int64_t slots = (o->vars[v].end - o->vars[v].begin - 1) / slice + 1;
        if (digits * slots > n && (n % digits || slots % (n / digits)))
            return 0;
        digits *= slots;
    }
    return digits >= n;
}

// Returns whether an op of the group of op i writes the tensor.
static int is_written_in_group(const checker *c, int32_t i, int32_t tensor)
{
    const dv_group *g = &c->plan->groups[c->group_of[i]];
    for (int32_t op = g->first_op; op < g->end_op; op++)
        if (c->plan->ops->ops[op].write.tensor == tensor)
            return 1;
    return 0;
}

// Checks rule C35 for the reads of op i that are received over the ring of
// cores, except for what check_passed checks.
static dv_status check_received(const checker *c, int32_t i)
{
    const dv_op *o = &c->plan->ops->ops[i];
    const dv_group *g = &c->plan->groups[c->group_of[i]];
    for (int r = 0; r < o->n_reads; r++) {
        const char *wrong = NULL;
        if (dv_ring_of(c->plan, i, r) == DV_RING_NONE)
            continue;
        if (dv_ring_of(c->plan, i, r) >= 0 && is_slanted(o, &o->reads[r]))
            wrong = "an index depends on two variables";
        for (int d = 0; d < o->reads[r].n_dims; d++)
            if (o->reads[r].index[d].via >= 0)
                wrong = "it is read by index";
        if (in_tile_loop(c, i) && !is_in_step(c, i))
            wrong = "its cores do not compute their tiles in step";
        if (in_tile_loop(c, i) && is_written_in_group(c, i, o->reads[r].tensor))
            wrong = "its group loops over tiles and writes it";
        if (dv_ring_of(c->plan, i, r) >= 0 && c->plan->target.ring_cores > 0 &&
            c->plan->target.ring_cores < c->plan->target.cores)
            wrong = "its parts do not reach the cores of other rings";
        if (!c->plan->target.ring)
            wrong = "the target has no ring";
        else if (o->is_extern || o->reads[r].tensor == o->write.tensor)
            wrong = "the op is opaque or writes it";
        else if (g->queue != DV_DEALT)
            wrong = "the op's tiles are handed out at run time";
        else if (dv_home_of(c->plan, i, r) >= 0)
            wrong = "the core has it in its own scratchpad";
        if (wrong)
            return DV_BREAKS(
                c->diag, C35, c->at,
                "op %s cannot receive %s over the ring: %s", o->name,
                c->plan->ops->tensors[o->reads[r].tensor].name, wrong);
    }
    return DV_OK;
}

// Checks that the listed ops receive a tensor over the ring from one source,
// `what`: the number of a home (a resident tensor), or DV_RING_MEMORY.
static dv_status check_once(const checker *c, int32_t tensor, int32_t what,
                            const int32_t *ops, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const dv_op *o = &c->plan->ops->ops[ops[i]];
        for (int r = 0; r < o->n_reads; r++)
            if (o->reads[r].tensor == tensor &&
                dv_ring_of(c->plan, ops[i], r) != what)
                return DV_BREAKS(c->diag, C35, c->at,
                                 "op %s receives %s from two places", o->name,
                                 c->plan->ops->tensors[tensor].name);
    }
    return DV_OK;
}

static dv_status check_ring(const checker *c)
{
    for (int32_t i = 0; i < c->s->n_shares; i++)
        DV_TRY(check_once(c, c->s->shares[i].tensor, DV_RING_MEMORY,
                          c->s->shares[i].ops, c->s->shares[i].n_ops));
    for (int32_t i = 0; i < c->s->n_homes; i++) {
        const dv_home *h = &c->s->homes[i];
        if (h->shared &&
            (!c->plan->target.ring || h->fill != DV_FILL_LOADED ||
             (in_tile_loop(c, h->as_op) && !is_in_step(c, h->as_op))))
            return HOME_BREAKS(c, C35, i,
                               "it cannot be loaded once for all cores");
        DV_TRY(check_once(c, h->tensor, i, h->passed_to, h->n_passed_to));
        for (int32_t k = 0; k < h->n_passed_to; k++)
            DV_TRY(check_passed(c, i, h->passed_to[k]));
    }
    for (int32_t i = 0; i < c->plan->ops->n_ops; i++)
        DV_TRY(check_received(c, i));
    return DV_OK;
}

static dv_status check_homes(const checker *c, facts *f)
{
    gather_facts(c, f);
    for (int32_t i = 0; i < c->s->n_homes; i++) {
        const dv_home *h = &c->s->homes[i];
        DV_TRY(check_size(c, i));
        DV_TRY(check_life(c, i, f));
        DV_TRY(check_tile_loops(c, i));
        for (int32_t k = 0; k < h->n_readers; k++)
            DV_TRY(check_reader(c, i, h->readers[k]));
        if (h->fill == DV_FILL_RING || h->fill == DV_FILL_MOVED)
            DV_TRY(check_copy(c, i));
        if (h->fill == DV_FILL_LOADED)
            DV_TRY(check_load(c, i, f->def));
        if (h->fill == DV_FILL_SUMMED)
            DV_TRY(check_sums(c, i));
    }
    DV_TRY(check_passes(c, f->oldest));
    DV_TRY(check_sharing(c));
    DV_TRY(check_ring(c));
    return check_memory(c, f->hidden);
}

dv_status dv_check_scratch(const dv_plan *plan, dv_loc at, dv_diag *diag)
{
    checker c = {.plan = plan, .s = &plan->scratch, .at = at, .diag = diag};
    size_t ops = (size_t)plan->ops->n_ops, n = (size_t)plan->ops->n_tensors;
    if (plan->scratch.n_homes == 0 && plan->scratch.n_shares == 0)
        return DV_OK;
    if (!(plan->facts & DV_FACT_LAID_OUT))
        return dv_fail(diag, DV_E_CHECK, at,
                       "homes in scratchpads need the section layout");
    int32_t *room = dv_alloc((4 * ops + 2 + 2 * n) * sizeof *room);
    uint8_t *updated = dv_alloc(n + 1 + 2 * (size_t)plan->n_groups);
    c.group_of = room;
    c.loops = updated ? updated + n + 1 : NULL;
    c.in_order = updated ? c.loops + plan->n_groups : NULL;
    facts f = {.updated = updated};
    if (room) {
        f.externs = room + ops;
        f.oldest = f.externs + ops + 1;
        f.ends = f.oldest + ops + 1;
        f.hidden = f.ends + ops;
        f.def = f.hidden + n;
    }
    dv_status st = room && updated ? check_homes(&c, &f) : dv_nomem(diag);
    dv_release(room);
    dv_release(updated);
    return st;
}
