// Chooses which axis of the rank grid cuts which dim of which tensor.
//
// Dims indexed by one variable form a class (u[i,j] + b[j]: dim 1 of u and dim
// 0 of b). The anchor, which is the largest written tensor, gets the axes in
// the order of its dims. Other dims take the axis of their class, so that most
// reads find elements that the reading rank owns. A tensor that is then still
// large and replicated on too many ranks is also cut along a remaining dim,
// which costs messages but saves memory; an example are the panels of a matrix
// product. Where an op reduces over a variable that its operands are cut along,
// ranks may reduce their own part and combine the partial results; the cheaper
// alternative is taken.
#include "base/math.h"
#include "dist/dist.h"

struct dv_dim_classes {
    int32_t *first; // offset of each tensor's dims in the arrays below
    int32_t *up;    // union-find parent of each dim; a root is its own parent
    int32_t *next;  // circular list of the dims of one class
    int32_t *of;    // the tensor each dim belongs to
    // Per dim, 0: may be cut, 1: cut only if the user asks for it, 2: never
    // cut.
    uint8_t *fixed;
    uint8_t *writes; // per tensor: number of ops that write it, at most 2
    int32_t *order;  // tensors, sorted by the priority with which they are cut
    int32_t n_dims, n_tensors;
    int32_t *size; // number of dims of each class, at its root
    // Pairs of class roots that cannot be merged, because both classes have
    // dims of the same tensor; this stays so when they grow.
    dv_table apart;
    dv_arena *arena;
};

static int32_t class_of(const dv_dim_classes *a, int32_t dim)
{
    while (a->up[dim] != dim)
        dim = a->up[dim] = a->up[a->up[dim]];
    return dim;
}

// Returns whether some tensor has dims in both of these classes (sets of dims
// that are cut alike), which are given by their roots.
static int share_tensor(const dv_dim_classes *a, int32_t small, int32_t large)
{
    int32_t i = small;
    do {
        int32_t t = a->of[i];
        for (int32_t k = a->first[t]; k < a->first[t + 1]; k++)
            if (class_of(a, k) == large)
                return 1;
    } while ((i = a->next[i]) != small);
    return 0;
}

// Merges the classes (sets of dims that are indexed by the same variables) of
// two dims, unless the merged class would contain two dims of one tensor. The
// dims of the smaller class alone are visited, so that no dim is visited more
// often than the logarithm of their number. Returns 0 if out of memory.
static int join(dv_dim_classes *a, int32_t x, int32_t y)
{
    int32_t large = class_of(a, x), small = class_of(a, y);
    if (large == small)
        return 1;
    if (a->size[small] > a->size[large]) {
        int32_t t = small;
        small = large;
        large = t;
    }
    const int32_t pair[2] = {small, large};
    if (dv_table_get(&a->apart, (const char *)pair, sizeof pair, 0))
        return 1;
    if (share_tensor(a, small, large)) {
        char *key = dv_arena_copy(a->arena, (const char *)pair, sizeof pair);
        return key && dv_table_set(&a->apart, a->arena, key, sizeof pair, 1);
    }
    a->up[small] = large;
    a->size[large] += a->size[small];
    int32_t t = a->next[large];
    a->next[large] = a->next[small];
    a->next[small] = t;
    return 1;
}

static int classify_op_dims(dv_dim_classes *a, const dv_op *op)
{
    int32_t at[DV_MAX_VARS];
    int whole = op->is_extern || dv_access_is_indirect(&op->write);
    for (int v = 0; v < op->n_vars; v++)
        at[v] = -1;
    for (int r = -1; r < op->n_reads; r++) {
        const dv_access *x = r < 0 ? &op->write : &op->reads[r];
        int32_t dim = a->first[x->tensor];
        for (int d = 0; d < x->n_dims; d++, dim++) {
            const dv_index *i = &x->index[d];
            int v = dv_index_var(op, i);
            if (r < 0 && (whole || v == DV_NO_VAR))
                a->fixed[dim] = 2;
            else if (i->via >= 0 && !a->fixed[dim])
                a->fixed[dim] = 1;
            if (v >= 0 && at[v] >= 0 && !op->is_extern && !join(a, at[v], dim))
                return 0;
            if (v >= 0 && at[v] < 0)
                at[v] = dim;
        }
    }
    uint8_t *w = &a->writes[op->write.tensor];
    *w = (uint8_t)(*w < 2 ? *w + 1 : 2);
    return 1;
}

static double score(const dv_dim_classes *a, const dv_program *p, int32_t t)
{
    const dv_tensor *x = &p->tensors[t];
    double s = (double)x->n_elems * (a->writes[t] ? 4 : 1);
    if (x->place && x->place->kind == DV_PLACE_SPLIT)
        s = 0x1p100 - t; // tensors with a user-given split come first
    return s;
}

static void sort_tensors(dv_dim_classes *a, const dv_program *p)
{
    // Shell sort is not stable, so ties are broken by tensor number.
    for (int32_t i = 0; i < a->n_tensors; i++)
        a->order[i] = i;
    for (int32_t gap = a->n_tensors / 2; gap > 0; gap /= 2)
        for (int32_t i = gap; i < a->n_tensors; i++) {
            int32_t t = a->order[i], k = i;
            double s = score(a, p, t);
            for (; k >= gap; k -= gap) {
                int32_t o = a->order[k - gap];
                double so = score(a, p, o);
                if (so > s || (so == s && o < t))
                    break;
                a->order[k] = o;
            }
            a->order[k] = t;
        }
}

dv_status dv_dim_classes_create(dv_dim_classes **out, const dv_program *p,
                                dv_arena *arena, dv_diag *diag)
{
    dv_dim_classes *a = DV_NEW(arena, dv_dim_classes, 1);
    int32_t n = 0;
    for (int32_t t = 0; t < p->n_tensors; t++)
        n += p->tensors[t].n_dims;
    if (!a)
        return dv_nomem(diag);
    a->n_dims = n;
    a->n_tensors = p->n_tensors;
    a->first = DV_NEW(arena, int32_t, p->n_tensors + 1);
    a->up = DV_NEW(arena, int32_t, n);
    a->next = DV_NEW(arena, int32_t, n);
    a->of = DV_NEW(arena, int32_t, n);
    a->fixed = DV_NEW(arena, uint8_t, n);
    a->writes = DV_NEW(arena, uint8_t, p->n_tensors);
    a->order = DV_NEW(arena, int32_t, p->n_tensors);
    a->size = DV_NEW(arena, int32_t, n);
    a->arena = arena;
    if (!a->first || !a->up || !a->next || !a->of || !a->fixed || !a->writes ||
        !a->order || !a->size)
        return dv_nomem(diag);
    for (int32_t t = 0, k = 0; t < p->n_tensors; t++) {
        a->first[t] = k;
        for (int d = 0; d < p->tensors[t].n_dims; d++, k++) {
            a->up[k] = a->next[k] = k;
            a->of[k] = t;
            a->size[k] = 1;
        }
        a->first[t + 1] = k;
    }
    for (int32_t i = 0; i < p->n_ops; i++)
        if (!classify_op_dims(a, &p->ops[i]))
            return dv_nomem(diag);
    sort_tensors(a, p);
    *out = a;
    return DV_OK;
}

static int can_cut(const dv_dim_classes *a, const dv_program *p, int32_t t,
                   int d)
{
    return !a->fixed[a->first[t] + d] && p->tensors[t].shape[d] > 1;
}

static int n_cuttable(const dv_dim_classes *a, const dv_program *p, int32_t t)
{
    int n = 0;
    for (int d = 0; d < p->tensors[t].n_dims; d++)
        n += can_cut(a, p, t, d);
    return n;
}

// Returns the anchor: the first tensor in `order` that can be cut, which is the
// largest written one unless the user says otherwise; -1 if there is none.
static int32_t anchor(const dv_dim_classes *a, const dv_program *p)
{
    for (int32_t i = 0; i < a->n_tensors; i++) {
        const dv_placement_request *s = p->tensors[a->order[i]].place;
        if (n_cuttable(a, p, a->order[i]) &&
            !(s && s->kind == DV_PLACE_REPLICATE))
            return a->order[i];
    }
    return -1;
}

int dv_dim_classes_axes(const dv_dim_classes *a, const dv_program *p)
{
    int32_t t = anchor(a, p);
    if (t < 0)
        return 1;
    const dv_placement_request *s = p->tensors[t].place;
    int n = s && s->kind == DV_PLACE_SPLIT ? s->n_dims : n_cuttable(a, p, t);
    return n < 1 ? 1 : n > 3 ? 3 : n;
}

double dv_team_weight(const dv_plan_team *t, const dv_dim_classes *a,
                      const dv_program *p)
{
    int32_t x = anchor(a, p);
    if (x < 0)
        return 1;
    const dv_dist *d = &t->tensors[x];
    double w = 1;
    for (int i = 0; i < d->n_dims; i++)
        w *= (double)dv_ceil_div(d->shape[i],
                                 d->axis[i] < 0 ? 1 : t->grid[d->axis[i]]);
    return w;
}

typedef struct chooser {
    dv_plan_team *t;
    const dv_dim_classes *a;
    const dv_program *p;
    // Axis of each class (dims indexed by the same variables); -1: none yet.
    int8_t *axis_of;
    int8_t
        *memory_axis_of; // axis of each class that is cut only to save memory
    int8_t *filled;      // per dim: 1 if it is cut only to save memory
    int quiet; // 1: give no warnings, because the grid is only a candidate
    // Elements of the anchor (the largest written tensor) that one rank owns.
    double share;
} chooser;

static uint32_t used_axes(const dv_dist *d)
{
    uint32_t used = 0;
    for (int i = 0; i < d->n_dims; i++)
        used |= d->axis[i] >= 0 ? 1u << d->axis[i] : 0;
    return used;
}

static double own_elems(const dv_dist *d)
{
    double n = 1;
    for (int i = 0; i < d->n_dims; i++)
        n *= (double)d->shape[i] /
             (double)(d->axis[i] < 0 ? 1 : d->grid[d->axis[i]]);
    return n;
}

// Gives each dim the axis of its class (dims indexed by the same variables), if
// the class has one and the tensor does not use that axis yet.
static void follow_classes(chooser *c, int32_t t, const int8_t *axis_of)
{
    dv_dist *d = &c->t->tensors[t];
    for (int i = 0; i < d->n_dims; i++) {
        int axis = axis_of[class_of(c->a, c->a->first[t] + i)];
        if (axis >= 0 && d->axis[i] < 0 && can_cut(c->a, c->p, t, i) &&
            !(used_axes(d) >> axis & 1))
            d->axis[i] = axis;
    }
}

// Returns the largest dim that may be cut and is not yet cut, or -1.
static int free_dim(const chooser *c, int32_t t)
{
    const dv_dist *d = &c->t->tensors[t];
    int best = -1;
    for (int i = 0; i < d->n_dims; i++)
        if (d->axis[i] < 0 && can_cut(c->a, c->p, t, i) &&
            (best < 0 || d->shape[i] > d->shape[best]))
            best = i;
    return best;
}

// Cuts further dims of a tensor, to save memory, while a rank owns more
// elements of this tensor than of the anchor (the largest written tensor, which
// is cut first).
static void fill_axes(chooser *c, int32_t t)
{
    dv_dist *d = &c->t->tensors[t];
    for (int axis = 0; axis < c->t->n_axes; axis++) {
        if (used_axes(d) >> axis & 1 || c->t->grid[axis] == 1)
            continue;
        int dim = free_dim(c, t);
        if (dim < 0 || own_elems(d) <= c->share)
            return;
        int32_t k = c->a->first[t] + dim, class = class_of(c->a, k);
        d->axis[dim] = axis;
        c->filled[k] = 1;
        if (c->memory_axis_of[class] < 0)
            c->memory_axis_of[class] = (int8_t)axis;
    }
}

// Assigns the axes to the largest dims of the anchor (the largest written
// tensor), in the order of the dims.
static void cut_anchor(chooser *c, int32_t t)
{
    dv_dist *d = &c->t->tensors[t];
    int take[DV_MAX_DIMS] = {0};
    for (int n = 0; n < c->t->n_axes; n++) {
        int best = -1;
        for (int i = 0; i < d->n_dims; i++)
            if (!take[i] && can_cut(c->a, c->p, t, i) &&
                (best < 0 || d->shape[i] > d->shape[best]))
                best = i;
        if (best >= 0)
            take[best] = 1;
    }
    for (int i = 0, axis = 0; i < d->n_dims; i++)
        if (take[i])
            d->axis[i] = axis++;
}

static void obey(chooser *c, int32_t t, dv_diag *diag)
{
    const dv_tensor *x = &c->p->tensors[t];
    dv_dist *d = &c->t->tensors[t];
    for (int i = 0; i < d->n_dims; i++)
        d->axis[i] = -1;
    if (x->place->kind == DV_PLACE_REPLICATE)
        return;
    for (int i = 0; i < x->place->n_dims && i < c->t->n_axes; i++) {
        int dim = x->place->dims[i];
        if (c->a->fixed[c->a->first[t] + dim] < 2)
            d->axis[dim] = i;
        else if (diag && !c->quiet)
            dv_warn(diag, "split", (dv_loc){&c->p->src, x->off},
                    "dim %d of %s stays whole: an op writes it that cannot be "
                    "cut along it",
                    dim, x->name);
    }
}

static void set_class_axes(chooser *c, int32_t t)
{
    const dv_dist *d = &c->t->tensors[t];
    for (int i = 0; i < d->n_dims; i++) {
        int32_t class = class_of(c->a, c->a->first[t] + i);
        if (d->axis[i] >= 0 && c->axis_of[class] < 0)
            c->axis_of[class] = (int8_t)d->axis[i];
    }
}

static void cut_tensors(chooser *c, dv_diag *diag)
{
    int32_t first = anchor(c->a, c->p);
    // Index -1 stands for the anchor, the largest written tensor, which is cut
    // before all other tensors.
    for (int32_t i = -1; i < c->p->n_tensors; i++) {
        int32_t t = i < 0 ? first : c->a->order[i];
        if (t < 0 || (i >= 0 && t == first))
            continue;
        if (c->p->tensors[t].place && c->p->tensors[t].place->kind) {
            obey(c, t, diag);
        } else if (i < 0) {
            cut_anchor(c, t);
        } else {
            follow_classes(c, t, c->axis_of);
            follow_classes(c, t, c->memory_axis_of);
            fill_axes(c, t);
        }
        if (i < 0 || c->p->tensors[t].place)
            set_class_axes(c, t);
        if (i < 0)
            c->share = own_elems(&c->t->tensors[t]);
    }
}

// Finds the read by which a reduction variable could be distributed: a read of
// the largest tensor that has a distributed dim indexed by that variable alone.
// Returns 0 if there is none.
static int followable(const chooser *c, int32_t op, int v,
                      dv_split_reduction *out)
{
    const dv_op *o = &c->p->ops[op];
    int64_t most = 0;
    for (int r = 0; r < o->n_reads; r++) {
        const dv_access *a = &o->reads[r];
        const dv_dist *d = &c->t->tensors[a->tensor];
        for (int k = 0; k < d->n_dims; k++)
            // Every rank must get a nonempty range of the reduction variable.
            if (dv_index_whole_var(o, &a->index[k], d->shape[k]) == v &&
                d->axis[k] >= 0 && d->shape[k] >= c->t->grid[d->axis[k]] &&
                c->t->grid[d->axis[k]] > 1 &&
                c->p->tensors[a->tensor].n_elems > most) {
                most = c->p->tensors[a->tensor].n_elems;
                *out = (dv_split_reduction){op, v, r, k, 0};
            }
    }
    return most > 0;
}

static int axis_of_follow(const chooser *c, const dv_split_reduction *f)
{
    const dv_access *a = &c->p->ops[f->op].reads[f->read];
    return c->t->tensors[a->tensor].axis[f->dim];
}

static int axis_followed(const chooser *c, int32_t op, int axis)
{
    for (int32_t i = c->t->n_follows - 1; i >= 0; i--) {
        if (c->t->follows[i].op < op)
            return 0;
        if (axis_of_follow(c, &c->t->follows[i]) == axis)
            return 1;
    }
    return 0;
}

// Returns whether some distributed reduction, or the candidate `last`, follows
// this tensor: ranks reduce over the parts of it that they own.
static int is_followed(const chooser *c, int32_t tensor,
                       const dv_split_reduction *last)
{
    for (int32_t i = 0; i < c->t->n_follows; i++) {
        const dv_split_reduction *f = &c->t->follows[i];
        if (c->p->ops[f->op].reads[f->read].tensor == tensor)
            return 1;
    }
    return c->p->ops[last->op].reads[last->read].tensor == tensor;
}

// Returns the dim of the written tensor that `axis` cuts, if that cut may be
// removed to distribute the reduction instead: it only saves memory and no
// other op writes the tensor. Otherwise returns -1.
static int spare_dim(const chooser *c, const dv_split_reduction *f, int axis)
{
    int32_t t = c->p->ops[f->op].write.tensor;
    const dv_dist *d = &c->t->tensors[t];
    if (is_followed(c, t, f))
        return -1;
    for (int k = 0; k < d->n_dims; k++)
        if (d->axis[k] == axis && c->filled[c->a->first[t] + k] &&
            c->a->writes[t] == 1)
            return k;
    return -1;
}

static void add_follow(chooser *c, const dv_split_reduction *f)
{
    int axis = axis_of_follow(c, f);
    dv_dist *w = &c->t->tensors[c->p->ops[f->op].write.tensor];
    if (axis_followed(c, f->op, axis))
        return;
    if (!(used_axes(w) >> axis & 1)) {
        c->t->follows[c->t->n_follows++] = *f;
        return;
    }
    int spare = spare_dim(c, f, axis);
    if (spare < 0)
        return;
    double as_is = dv_op_cost(c->t, c->p, f->op);
    w->axis[spare] = -1;
    c->t->follows[c->t->n_follows++] = *f;
    if (dv_op_cost(c->t, c->p, f->op) < as_is)
        return;
    w->axis[spare] = axis;
    c->t->n_follows--;
}

static int n_written(const dv_op *op)
{
    int n = 0;
    for (int v = 0; v < op->n_vars; v++)
        n += !op->vars[v].reduce;
    return n;
}

static void cut_reductions(chooser *c)
{
    for (int32_t i = 0; i < c->p->n_ops; i++) {
        const dv_op *op = &c->p->ops[i];
        const dv_expr *e = dv_op_reduce(op);
        dv_split_reduction f;
        // Partial sums are a tensor with one dim per variable that is not
        // reduced, so there may be at most DV_MAX_DIMS of those.
        if (!e || op->is_extern || dv_access_is_indirect(&op->write) ||
            n_written(op) > DV_MAX_DIMS)
            continue;
        for (int v = 0; v < op->n_vars; v++)
            if (e->vars >> v & 1 && followable(c, i, v, &f))
                add_follow(c, &f);
    }
}

static int64_t count_reduced(const dv_program *p)
{
    int64_t n = 0;
    for (int32_t i = 0; i < p->n_ops; i++)
        for (int v = 0; v < p->ops[i].n_vars; v++)
            n += p->ops[i].vars[v].reduce;
    return n;
}

dv_status dv_team_choose(dv_plan_team *t, const dv_dim_classes *a,
                         const dv_program *p, int quiet, dv_arena *arena,
                         dv_diag *diag)
{
    chooser c = {.t = t, .a = a, .p = p, .quiet = quiet};
    t->n_follows = 0;
    t->tensors = DV_NEW(arena, dv_dist, p->n_tensors);
    t->follows = DV_NEW(arena, dv_split_reduction, count_reduced(p));
    c.axis_of = DV_NEW(arena, int8_t, a->n_dims);
    c.memory_axis_of = DV_NEW(arena, int8_t, a->n_dims);
    c.filled = DV_NEW(arena, int8_t, a->n_dims);
    if (!t->tensors || !t->follows || !c.axis_of || !c.memory_axis_of ||
        !c.filled)
        return dv_nomem(diag);
    for (int32_t i = 0; i < a->n_dims; i++)
        c.axis_of[i] = c.memory_axis_of[i] = -1;
    for (int32_t i = 0; i < p->n_tensors; i++) {
        dv_dist *d = &t->tensors[i];
        d->n_dims = p->tensors[i].n_dims;
        d->n_axes = t->n_axes;
        for (int k = 0; k < t->n_axes; k++)
            d->grid[k] = t->grid[k];
        for (int k = 0; k < d->n_dims; k++) {
            d->shape[k] = p->tensors[i].shape[k];
            d->axis[k] = -1;
        }
    }
    cut_tensors(&c, diag);
    cut_reductions(&c);
    return DV_OK;
}
