// Folds the equal layers of a program, so that the search for divisions sees
// three of them instead of all.
//
// A region is a run of ops that consists of equal parts, the layers: each op is
// like the op one layer later, and reads from its own layer, the layer before,
// or from before the region what that op reads. The folded plan has the first
// two layers of a region and the last, which reads what the second has written:
//
//   ops      0  1 |  2  3  4 |  5  6  7 |  8  9 10 | 11 12 13 | 14
//   folded   0  1 |  2  3  4 |  5  6  7 |             8  9 10 | 11
//
// When the folded plan is divided, layers between the first and the last are
// divided like the second.
#include "joint/joint.h"
#include <string.h>

// A region is a range of at least MIN_LAYERS equal layers. The second layer may
// begin at one of the next MAX_CANDIDATES ops that are like its first one. A
// program is folded (keeps three layers per region) if that leaves out at least
// MIN_FOLDED ops.
enum { MIN_LAYERS = 4, MAX_CANDIDATES = 64, MIN_FOLDED = 32 };

typedef dv_layer_region region;

typedef struct folder {
    const dv_plan *plan;
    int32_t *def;  // per tensor: the op that defines it, or -1
    int32_t *next; // per op: the next op that is like it, or -1
    // Per tensor that no op defines, such as a layer's weights: its
    // counterparts in the next layer and in the layer before; -1: not known.
    int32_t *later, *earlier;
    int32_t *known, n_known; // the tensors for which those are known
} folder;

static int same_bodies(const dv_expr *a, const dv_expr *b)
{
    if (a->kind != b->kind || a->fn != b->fn || a->dtype != b->dtype ||
        a->n_args != b->n_args || a->vars != b->vars || a->read != b->read ||
        (a->kind == DV_EXPR_INDEX && a->base != b->base))
        return 0;
    for (int k = 0; a->kind != DV_EXPR_CONST && k < a->n_args; k++)
        if (!same_bodies(a->arg[k], b->arg[k]))
            return 0;
    return 1;
}

// Returns whether ops a and b do the same computation on different tensors. Ops
// with the same shape, memory layouts and pins have the same number `like`.
static int are_equal(const folder *f, int32_t a, int32_t b)
{
    const dv_program *p = f->plan->ops;
    const dv_op *x = &p->ops[a], *y = &p->ops[b];
    return !x->is_extern && !x->update && !y->update &&
           f->plan->divisions[a].like == f->plan->divisions[b].like &&
           p->tensors[x->write.tensor].is_output ==
               p->tensors[y->write.tensor].is_output &&
           same_bodies(x->body, y->body);
}

// Returns whether input b of a layer can be the counterpart of input a of the
// layer before. The relation must be one-to-one; the first call for a pair
// records it.
static int inputs_match(folder *f, int32_t a, int32_t b)
{
    if (f->later[a] < 0 && f->earlier[b] < 0) {
        f->later[a] = b;
        f->earlier[b] = a;
        f->known[f->n_known++] = a;
        f->known[f->n_known++] = b;
    }
    return f->later[a] == b && f->earlier[b] == a;
}

static void forget_inputs(folder *f)
{
    while (f->n_known) {
        int32_t t = f->known[--f->n_known];
        f->later[t] = f->earlier[t] = -1;
    }
}

// Returns whether op i and the op `layer` ops later, its counterpart in the
// next layer, read corresponding tensors. Layers begin at op `first`.
static int reads_match(folder *f, int32_t first, int32_t layer, int32_t i)
{
    const dv_op *x = &f->plan->ops->ops[i], *y = &f->plan->ops->ops[i + layer];
    int32_t start = first + (i - first) / layer * layer;
    for (int r = 0; r < x->n_reads; r++) {
        int32_t a = x->reads[r].tensor, b = y->reads[r].tensor;
        int32_t from = f->def[a], to = f->def[b];
        int fits = a == b ? from < first
                   : from < 0 || to < 0
                       ? from < 0 && to < 0 && inputs_match(f, a, b)
                       : to == from + layer && to >= start;
        if (!fits)
            return 0;
    }
    return 1;
}

// Returns the number of equal layers, of `layer` ops each, that begin at op
// `first`.
static int32_t count_layers(folder *f, int32_t first, int32_t layer)
{
    int32_t n = f->plan->ops->n_ops, i = first;
    while (i + layer < n && are_equal(f, i, i + layer) &&
           reads_match(f, first, layer, i))
        i++;
    forget_inputs(f);
    return (i - first) / layer + 1;
}

// Returns whether ops after a region of equal layers read results of its last
// layer only.
static int only_last_is_read(const folder *f, const region *g)
{
    const dv_program *p = f->plan->ops;
    int32_t end = g->first + g->n_layers * g->layer;
    for (int32_t i = end; i < p->n_ops; i++)
        for (int r = 0; r < p->ops[i].n_reads; r++) {
            int32_t from = f->def[p->ops[i].reads[r].tensor];
            if (from >= g->first && from < end - g->layer)
                return 0;
        }
    return 1;
}

static int32_t folded_ops(const region *g)
{
    return g->n_layers < MIN_LAYERS ? 0 : (g->n_layers - 3) * g->layer;
}

// Finds the region of equal layers beginning with op `first` whose folding
// leaves out most ops.
static region find_region(folder *f, int32_t first)
{
    region best = {first, 1, 1};
    int tries = 0;
    for (int32_t i = f->next[first]; i >= 0 && tries < MAX_CANDIDATES;
         i = f->next[i], tries++) {
        region g = {first, 0, i - first};
        // If the ops left are too few for MIN_LAYERS layers of this length,
        // longer layers need not be tried.
        if ((f->plan->ops->n_ops - first) / g.layer < MIN_LAYERS)
            break;
        g.n_layers = count_layers(f, first, g.layer);
        if (folded_ops(&g) > folded_ops(&best) && only_last_is_read(f, &g))
            best = g;
    }
    return best;
}

static int look_up(folder *f, dv_arena *arena)
{
    const dv_program *p = f->plan->ops;
    int32_t *last = DV_NEW(arena, int32_t, p->n_ops);
    f->def = DV_NEW(arena, int32_t, p->n_tensors);
    f->later = DV_NEW(arena, int32_t, p->n_tensors);
    f->earlier = DV_NEW(arena, int32_t, p->n_tensors);
    f->known = DV_NEW(arena, int32_t, (size_t)p->n_tensors * 2);
    f->next = DV_NEW(arena, int32_t, p->n_ops);
    if (!last || !f->def || !f->later || !f->earlier || !f->known || !f->next)
        return 0;
    for (int32_t t = 0; t < p->n_tensors; t++)
        f->def[t] = f->later[t] = f->earlier[t] = -1;
    for (int32_t i = 0; i < p->n_ops; i++) {
        if (!p->ops[i].update)
            f->def[p->ops[i].write.tensor] = i;
        last[i] = -1;
    }
    for (int32_t i = p->n_ops - 1; i >= 0; i--) {
        int32_t like = f->plan->divisions[i].like;
        f->next[i] = p->ops[i].is_extern ? -1 : last[like];
        if (!p->ops[i].is_extern)
            last[like] = i;
    }
    return 1;
}

// Returns the tensor that an op of the last layer of a region reads in the
// folded plan, where the second layer stands for the layer before the last.
static int32_t read_from_second(const folder *f, const region *g,
                                int32_t tensor)
{
    int32_t last = g->first + (g->n_layers - 1) * g->layer;
    int32_t def = f->def[tensor];
    return def >= last - g->layer && def < last
               ? f->plan->ops->ops[def - folded_ops(g)].write.tensor
               : tensor;
}

// Adds op i of the whole plan to the folded one. g is the region of equal
// layers whose last layer contains the op, or NULL.
static int add_op(dv_layers *l, const folder *f, int32_t i, const region *g)
{
    const dv_plan *plan = f->plan;
    int32_t at = l->program.n_ops++;
    dv_op *o = &l->program.ops[at];
    size_t vars = (size_t)plan->ops->ops[i].n_vars;
    *o = plan->ops->ops[i];
    l->whole[at] = i;
    l->folded[i] = at;
    l->part.divisions[at] = plan->divisions[i];
    if (!o->is_extern)
        l->part.divisions[at].like = l->folded[plan->divisions[i].like];
    l->part.groups[at] = plan->groups[i];
    l->part.groups[at].first_op = at;
    l->part.groups[at].end_op = at + 1;
    l->part.slices[at] = dv_arena_grow(&l->part.arena, plan->slices[i], vars,
                                       vars, sizeof **plan->slices);
    dv_access *reads =
        dv_arena_grow(&l->program.arena, o->reads, (size_t)o->n_reads,
                      (size_t)o->n_reads, sizeof *reads);
    if (!l->part.slices[at] || !reads)
        return 0;
    for (int r = 0; g && r < o->n_reads; r++)
        reads[r].tensor = read_from_second(f, g, reads[r].tensor);
    o->reads = reads;
    return 1;
}

// Adds the first two layers and the last one of a region to the folded plan,
// and records which of them stands for each other layer.
static int add_region(dv_layers *l, const folder *f, const region *g)
{
    int32_t last = g->n_layers - 1;
    for (int32_t k = 0; k < g->n_layers; k++)
        for (int32_t i = 0; i < g->layer; i++) {
            int32_t op = g->first + k * g->layer + i;
            if (k > 1 && k < last)
                l->folded[op] = l->folded[g->first + g->layer + i];
            else if (!add_op(l, f, op, k == last ? g : NULL))
                return 0;
        }
    return 1;
}

// Removes the tensors that no op accesses from the folded program.
static int drop_tensors(dv_layers *l, dv_arena *arena)
{
    dv_program *p = &l->program;
    int32_t *number = DV_NEW(arena, int32_t, p->n_tensors), n = 0;
    dv_tensor *tensors = DV_NEW(arena, dv_tensor, p->n_tensors);
    dv_layout *layouts = DV_NEW(arena, dv_layout, p->n_tensors);
    if (!number || !tensors || !layouts)
        return 0;
    for (int32_t i = 0; i < p->n_ops; i++)
        for (int k = 0; k <= p->ops[i].n_reads; k++)
            number[dv_op_access(&p->ops[i], k)->tensor] = 1;
    for (int32_t t = 0; t < p->n_tensors; t++)
        if (number[t]) {
            tensors[n] = p->tensors[t];
            layouts[n] = l->part.layouts[t];
            number[t] = n++;
        }
    for (int32_t i = 0; i < p->n_ops; i++) {
        dv_op *o = &p->ops[i];
        // The cast is safe: add_op allocated this list of reads for the folded
        // program.
        dv_access *reads = (dv_access *)(uintptr_t)o->reads;
        for (int r = 0; r < o->n_reads; r++)
            reads[r].tensor = number[reads[r].tensor];
        o->write.tensor = number[o->write.tensor];
    }
    p->tensors = tensors;
    p->n_tensors = p->cap_tensors = n;
    l->part.layouts = layouts;
    return 1;
}

static int make_part(dv_layers *l, const folder *f, const region *regions,
                     int32_t n_regions, dv_arena *arena)
{
    const dv_plan *plan = f->plan;
    size_t n = (size_t)plan->ops->n_ops;
    l->part = *plan;
    l->program = *plan->ops;
    l->part.ops = &l->program;
    l->part.team_ops = NULL;
    l->program.n_ops = 0;
    l->program.ops = DV_NEW(arena, dv_op, n);
    l->whole = DV_NEW(arena, int32_t, n);
    l->folded = DV_NEW(arena, int32_t, n);
    l->part.divisions = DV_NEW(arena, dv_division, n);
    l->part.groups = DV_NEW(arena, dv_group, n);
    l->part.slices = DV_NEW(arena, int64_t *, n);
    if (!l->program.ops || !l->whole || !l->folded || !l->part.divisions ||
        !l->part.groups || !l->part.slices)
        return 0;
    int32_t at = 0;
    for (int32_t i = 0; i < n_regions; i++) {
        while (at < regions[i].first)
            if (!add_op(l, f, at++, NULL))
                return 0;
        if (!add_region(l, f, &regions[i]))
            return 0;
        at += regions[i].n_layers * regions[i].layer;
    }
    while (at < plan->ops->n_ops)
        if (!add_op(l, f, at++, NULL))
            return 0;
    l->part.n_groups = l->program.cap_ops = l->program.n_ops;
    return drop_tensors(l, arena);
}

int dv_layers_fold(dv_layers *out, const dv_plan *plan, dv_arena *arena)
{
    folder f = {.plan = plan};
    int32_t n = plan->ops->n_ops, n_regions = 0, folded = 0;
    if (n < MIN_FOLDED || plan->ops->n_repeats)
        return 0;
    region *regions = DV_NEW(arena, region, n / MIN_LAYERS + 1);
    if (!regions || !look_up(&f, arena))
        return -1;
    for (int32_t i = 0; i < n; i++) {
        region g = find_region(&f, i);
        if (!folded_ops(&g))
            continue;
        regions[n_regions++] = g;
        folded += folded_ops(&g);
        i = g.first + g.n_layers * g.layer - 1;
    }
    if (folded < MIN_FOLDED)
        return 0;
    out->regions = regions;
    out->n_regions = n_regions;
    return make_part(out, &f, regions, n_regions, arena) ? 1 : -1;
}

// Returns whether ops i and j of the folded plan, in its current order, are
// divided alike.
static int divided_alike(const dv_layers *l, int32_t i, int32_t j)
{
    const dv_plan *part = &l->part;
    size_t vars = (size_t)l->program.ops[i].n_vars;
    const int8_t *a = part->digits ? part->digits[i] : NULL;
    const int8_t *b = part->digits ? part->digits[j] : NULL;
    return l->program.ops[i].n_vars == l->program.ops[j].n_vars && !a == !b &&
           (!a || !memcmp(a, b, vars)) &&
           part->groups[i].same_loop == part->groups[j].same_loop &&
           dv_same_deals(&part->groups[i], &part->groups[j]) &&
           !memcmp(part->slices[i], part->slices[j],
                   vars * sizeof *part->slices[i]);
}

// Returns whether the layers of a region can be repeated: no loop over tiles
// reaches from one layer into the next, or the layers are all divided alike.
static int can_repeat(const dv_layers *l, const region *g)
{
    int32_t first = l->folded[g->first], second = first + g->layer,
            last = second + g->layer;
    if (!l->part.groups[second].same_loop && !l->part.groups[last].same_loop)
        return 1;
    // The first op of the region (i == 0) is not compared with that of the
    // second layer, because it may be in a loop over tiles with ops before the
    // region, and be divided as these are.
    for (int32_t i = 0; i < g->layer; i++)
        if ((i && !divided_alike(l, first + i, second + i)) ||
            !divided_alike(l, second + i, last + i))
            return 0;
    return 1;
}

// Sets begin[i] to the first op of the layer that contains op i or, if i is in
// no layer, of the ops between two regions of layers.
static void find_begins(const dv_layers *l, int32_t n, int32_t *begin)
{
    int32_t at = 0, from = 0;
    for (int32_t k = 0; k < l->n_regions; k++) {
        const region *g = &l->regions[k];
        for (from = at; at < g->first; at++)
            begin[at] = from;
        for (int32_t i = 0; i < g->n_layers * g->layer; i++, at++)
            begin[at] = at - i % g->layer;
    }
    for (from = at; at < n; at++)
        begin[at] = from;
}

int dv_layers_unfold(const dv_layers *l, dv_plan *plan, dv_tile_loops *loops,
                     dv_arena *arena)
{
    int32_t n = plan->ops->n_ops;
    int32_t *begin = DV_NEW(arena, int32_t, n);
    int32_t *order = DV_NEW(arena, int32_t, n);
    dv_divide_space **spaces = DV_NEW(arena, dv_divide_space *, n);
    plan->arena = l->part.arena;
    plan->ops->arena = l->program.arena;
    if (!begin || !order || !spaces)
        return -1;
    find_begins(l, n, begin);
    for (int32_t k = 0; k < l->n_regions; k++)
        if (!can_repeat(l, &l->regions[k]))
            return 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t from = l->folded[begin[i]], at = from + i - begin[i];
        int32_t was = loops->found ? loops->order[at] : at;
        // Other layers can only repeat this order if ops moved within their
        // layer.
        if (l->folded[begin[l->whole[was]]] != from)
            return 0;
        order[i] = begin[i] + was - from;
        spaces[i] = loops->found ? loops->spaces[at] : NULL;
    }
    if (loops->reordered && !dv_plan_rearrange(plan, order, n))
        return -1;
    if (l->part.digits &&
        !(plan->digits = DV_NEW(&plan->arena, const int8_t *, n)))
        return -1;
    for (int32_t i = 0; i < n; i++) {
        int32_t at = l->folded[begin[i]] + i - begin[i];
        if (plan->digits)
            plan->digits[i] = l->part.digits[at];
        memcpy(plan->slices[i], l->part.slices[at],
               (size_t)plan->ops->ops[i].n_vars * sizeof *plan->slices[i]);
        plan->groups[i] = l->part.groups[at];
        plan->groups[i].first_op = i;
        plan->groups[i].end_op = i + 1;
    }
    loops->order = order;
    loops->spaces = spaces;
    return 1;
}
