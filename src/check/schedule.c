// The checker's rules for the schedule of ops. It shares no code with the pass
// that makes schedules, nor with executors.
//
//   C22 an op that is scheduled as a product is a sum of products of two reads,
//       on the machine divvy runs on; its loop levels cover every point of the
//       reduction variables once; kernel levels are innermost, at most one per
//       variable; if the kernel accumulates in vector lanes (`dot`), the last
//       level has stride 1 in both factors; matrix instructions (`pairs`) need
//       a target that has them, factors of bf16, or of i8 summed in i32, and
//       all of k in the kernel except tiles of the first variable
//   C37 of a product only factors that are constants are packed once, before
//       the first run; other ops pack nothing
//   C40 of a product only factors that no op of the group writes, that are not
//       read through an index or with a border, and not copied for every tile
//       are held packed from tile to tile; the op skips no points
//   C38 is in skip.c
//   C25 the loops of a vector kernel are two different variables on which no
//       indirect index depends; an unrolled window has all points of the
//       reduction; loops run as one only if the outer one continues the inner
//       one in every operand; an op with indirect indices is guarded, and
//       those of its write depend on no variable; an extern op has no kernel;
//       the epilogue of a product is after the parts of its sum if and only if
//       tiles cut the sum; one in the kernel adds at most one tensor of floats
//       and applies relu, in the type of the sums
//   C26 an inlined op computes one value per element of a temporary, without a
//       reduction and without rounding when it would be stored; only later ops
//       of its group read the temporary, and they run row by row or are inlined
//   C27 the ops of a group run row by row all or none; their rows are the same
//       ranges of variables that are dims of what they write; their tiles are
//       whole rows; a row is read only where it was computed, on the same row,
//       in an earlier unit or at least one step before; nothing is overwritten
//       that the group reads or writes otherwise
//   C28 a temporary that is kept for one tile is used by one group only, is
//       written by one op as a box, and its bytes are used by no other one
//       between the ops that use it, or at all if the group runs row by row
//   C29 every other temporary that is not inlined is stored, in bytes that no
//       other one uses in the same groups or repeats
#include "base/dtype.h"
#include "base/math.h"
#include "check/check.h"
#include <inttypes.h>
#include <stdlib.h>

#define WRONG(rule, ...)                                                       \
    return DV_BREAKS(diag, rule, as->off ? dv_plan_at(plan, as->off) : at,     \
                     __VA_ARGS__)

// Returns the coefficient of variable v in the affine part of an index.
static int64_t coef_of(const dv_index *x, int v)
{
    return x->coef[v];
}

// Finds the two factors of the op's sum of products. Returns 0 if the op is no
// sum of products of two reads.
static int factors_of(const dv_op *o, const dv_access *of[2])
{
    const dv_expr *sum = o->is_extern ? NULL : dv_op_reduce(o);
    if (!sum || (sum->fn != DV_RED_SUM && sum->fn != DV_RED_MEAN))
        return 0;
    const dv_expr *product = sum->arg[0];
    if (product->kind != DV_EXPR_APPLY || product->fn != DV_FN_MUL)
        return 0;
    for (int i = 0; i < 2; i++) {
        if (product->arg[i]->kind != DV_EXPR_READ)
            return 0;
        of[i] = &o->reads[product->arg[i]->read];
    }
    return 1;
}

// Returns whether variable v has a stride of one element in the access.
static int has_unit_stride(const dv_program *p, const dv_access *a, int v)
{
    const dv_tensor *t = &p->tensors[a->tensor];
    int64_t elems = 0, row = 1, part;
    for (int d = a->n_dims - 1; d >= 0; d--) {
        if (!dv_mul_i64(&part, coef_of(&a->index[d], v), row) ||
            !dv_add_i64(&elems, elems, part))
            return 0;
        // No overflow: the tensor's element count fits in int64_t.
        row *= t->shape[d];
    }
    return elems == 1;
}

// Checks that the loop levels of variable v cover all its points exactly once.
// Levels are nested tiles; only the outermost may have a partial last tile, and
// it may not be empty.
static dv_status check_variable(const dv_plan *plan, int32_t op, int v,
                                dv_loc at, dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[op];
    const dv_op_schedule *as = &plan->schedule.ops[op];
    const dv_sum_order *s = &as->sums;
    int64_t len = o->vars[v].end - o->vars[v].begin, inner = 1, reach = 1;
    int inside = 0;
    for (int32_t i = s->n_levels - 1; i >= 0; i--) {
        if (s->levels[i].var != v)
            continue;
        inner = reach;
        inside += s->levels[i].inside != 0;
        if (!dv_mul_i64(&reach, reach, s->levels[i].size))
            WRONG(C22, "the loops of %s over %s have more than 64 bits",
                  o->name, o->vars[v].name);
    }
    if (inside > 1)
        WRONG(C22,
              "%d loops of %s over %s are inside the kernel, which has one",
              inside, o->name, o->vars[v].name);
    if (reach < len)
        WRONG(C22,
              "the loops of %s go over %" PRId64 " of %s, which has %" PRId64,
              o->name, reach, o->vars[v].name, len);
    if (reach > len && reach - inner >= len)
        WRONG(C22,
              "the loops of %s go over %s, which has %" PRId64
              ", in tiles of %" PRId64 ": the last of %" PRId64 " is empty",
              o->name, o->vars[v].name, len, inner, reach / inner);
    return DV_OK;
}

// Checks rule C37: an operand that is packed once, before the first run, is a
// constant or computed once, so that it never changes.
static dv_status check_once(const dv_plan *plan, int32_t op, dv_loc at,
                            dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[op];
    const dv_op_schedule *as = &plan->schedule.ops[op];
    const dv_access *factor[2] = {NULL, NULL};
    if (!as->once)
        return DV_OK;
    if (as->kind != DV_KERNEL_PRODUCT || !factors_of(o, factor))
        WRONG(C37, "op %s is no product, it packs nothing once", o->name);
    for (int i = 0; i < 2; i++) {
        const dv_tensor *t = &plan->ops->tensors[factor[i]->tensor];
        if (as->once >> i & 1 && !t->is_const &&
            !dv_check_is_once(plan, factor[i]->tensor))
            WRONG(C37, "op %s packs %s once, which is no constant", o->name,
                  t->name);
        if (as->once >> i & 1 && factor[i]->has_border)
            WRONG(C37, "op %s packs %s once, which it reads with a border",
                  o->name, t->name);
        for (int d = 0; d < t->n_dims; d++)
            if (as->once >> i & 1 && factor[i]->index[d].via >= 0)
                WRONG(C37, "op %s packs %s once, of which it reads other parts",
                      o->name, t->name);
    }
    for (int32_t i = 0; i < plan->ops->n_ops; i++)
        for (int k = 0; k < 2; k++)
            if (as->once >> k & 1 &&
                !dv_check_is_once(plan, factor[k]->tensor) &&
                plan->ops->ops[i].write.tensor == factor[k]->tensor)
                WRONG(C37, "op %s packs %s once, which %s writes", o->name,
                      plan->ops->tensors[factor[k]->tensor].name,
                      plan->ops->ops[i].name);
    return DV_OK;
}

// Checks rule C40: a factor that threads hold packed from tile to tile stays
// the same as long as its group runs, and what a tile reads of it depends only
// on the tile.
static dv_status check_hold(const dv_plan *plan, const dv_group *g, int32_t op,
                            dv_loc at, dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[op];
    const dv_op_schedule *as = &plan->schedule.ops[op];
    const dv_access *factor[2] = {NULL, NULL};
    if (!as->hold)
        return DV_OK;
    if (as->kind != DV_KERNEL_PRODUCT || !factors_of(o, factor))
        WRONG(C40, "op %s is no product, it holds nothing packed", o->name);
    for (int i = 0; i < 2; i++) {
        const dv_tensor *t = &plan->ops->tensors[factor[i]->tensor];
        if (!(as->hold >> i & 1))
            continue;
        for (int d = 0; d < t->n_dims; d++)
            if (factor[i]->index[d].via >= 0)
                WRONG(C40, "op %s holds %s, which it reads through an index",
                      o->name, t->name);
        if (factor[i]->has_border)
            WRONG(C40, "op %s holds %s, which it reads with a border", o->name,
                  t->name);
        if (as->copied[i])
            WRONG(C40, "op %s holds %s, but copies it for every tile", o->name,
                  t->name);
        if (as->skip.by)
            WRONG(C40, "op %s holds %s, but skips some points", o->name,
                  t->name);
        for (int32_t k = g->first_op; k < g->end_op; k++)
            if (plan->ops->ops[k].write.tensor == factor[i]->tensor)
                WRONG(C40, "op %s holds %s, which op %s of its group writes",
                      o->name, t->name, plan->ops->ops[k].name);
    }
    return DV_OK;
}

static dv_status check_sums(const dv_plan *plan, int32_t op, dv_loc at,
                            dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[op];
    const dv_op_schedule *as = &plan->schedule.ops[op];
    const dv_sum_order *s = &as->sums;
    const dv_access *factor[2] = {NULL, NULL};
    if (!factors_of(o, factor))
        WRONG(C22, "op %s has loops, but is no sum of products of two reads",
              o->name);
    for (int v = 0; v < o->n_vars; v++)
        if (o->vars[v].reduce)
            DV_TRY(check_variable(plan, op, v, at, diag));
    for (int32_t i = 1; i < s->n_levels; i++)
        if (s->levels[i - 1].inside && !s->levels[i].inside)
            WRONG(C22, "op %s has a loop over %s inside the kernel", o->name,
                  o->vars[s->levels[i].var].name);
    if (!s->dot)
        return DV_OK;
    if (s->n_levels == 0 || !s->levels[s->n_levels - 1].inside)
        WRONG(C22, "op %s sums in lanes, but nothing is in the kernel",
              o->name);
    int last = s->levels[s->n_levels - 1].var;
    for (int i = 0; i < 2; i++)
        if (!has_unit_stride(plan->ops, factor[i], last))
            WRONG(C22,
                  "op %s sums in lanes along %s, which is not side by side in "
                  "%s",
                  o->name, o->vars[last].name,
                  plan->ops->tensors[factor[i]->tensor].name);
    return DV_OK;
}

static dv_status check_pairs(const dv_plan *plan, int32_t op, dv_loc at,
                             dv_diag *diag)
{
    const dv_program *p = plan->ops;
    const dv_op *o = &p->ops[op];
    const dv_op_schedule *as = &plan->schedule.ops[op];
    const dv_sum_order *s = &as->sums;
    const dv_access *factor[2] = {NULL, NULL};
    factors_of(o, factor);
    dv_dtype t = p->tensors[factor[0]->tensor].dtype;
    dv_dtype u = p->tensors[factor[1]->tensor].dtype;
    dv_dtype out = p->tensors[o->write.tensor].dtype;
    if (!plan->target.matrix && !(t == DV_I8 && plan->target.dots))
        WRONG(C22, "%s has no instructions for the matrices of %s",
              plan->target.name, o->name);
    dv_compute_type in = dv_op_compute(p, o);
    int halves = t == DV_BF16 && in == DV_IN_F32;
    int whole =
        t == DV_I8 &&
        (in == DV_IN_F32 ? dv_is_float(out) || out == t
                         : in == DV_IN_I64 && (out == DV_I32 || out == t));
    int64_t n = dv_op_points(o, dv_op_reduce(o)->vars);
    // Largest number of i8 products whose sum surely fits in i32.
    int64_t most = INT32_MAX / (128 * 128);
    if (whole && n > most)
        WRONG(C22,
              "op %s sums %" PRId64 " products of i8, %" PRId64
              " are sure to fit i32",
              o->name, n, most);
    if (t != u || (!halves && !whole))
        WRONG(C22,
              "op %s makes %s of %s and %s, matrices are of bf16 summed in "
              "f32, or of i8 in i32",
              o->name, dv_dtype_get(out)->name, dv_dtype_get(t)->name,
              dv_dtype_get(u)->name);
    for (int32_t i = 0; i < s->n_levels; i++)
        if (!s->levels[i].inside &&
            (i > 0 || s->n_levels < 2 || !s->levels[1].inside ||
             s->levels[1].var != s->levels[0].var))
            WRONG(C22, "op %s has a loop over %s around its matrices", o->name,
                  o->vars[s->levels[i].var].name);
    return DV_OK;
}

enum { NONE = -1, SEVERAL = -2 };

// Which ops use a tensor, and how the plan's schedule stores it.
typedef struct use {
    int32_t writer; // op that writes it; NONE, SEVERAL: no single one
    int32_t group;  // group that uses it; NONE, SEVERAL: no single one
    int once;       // 1 if a group that runs once writes it
    int kept;       // 1 if the schedule keeps it for one tile at a time
    // 1 if the schedule stores the whole tensor at an address.
    int stored;
    int32_t until; // the last op that reads or writes it
    // The first and the last op of all groups and outermost repeats (loops)
    // that use the tensor; -1 if there are none.
    int32_t first, last;
} use;

static void note(int32_t *at, int32_t value)
{
    *at = *at == NONE || *at == value ? value : SEVERAL;
}

// Extends the lifetime of a tensor by the ops of group g, which uses it, and by
// the outermost repeat (loop) around that group.
static void note_life(const dv_plan *plan, use *u, int32_t g)
{
    int32_t first = plan->groups[g].first_op, last = plan->groups[g].end_op - 1;
    for (int32_t i = plan->ops->n_repeats - 1; i >= 0; i--)
        if (plan->ops->repeats[i].first_op <= first &&
            plan->ops->repeats[i].end_op > last) {
            first = plan->ops->repeats[i].first_op;
            last = plan->ops->repeats[i].end_op - 1;
        }
    u->first = u->first < 0 || first < u->first ? first : u->first;
    u->last = last > u->last ? last : u->last;
}

// Finds, for every tensor, which op writes it, which group uses it and for how
// long it is live.
static void find_uses(const dv_plan *plan, use *uses)
{
    for (int32_t t = 0; t < plan->ops->n_tensors; t++)
        uses[t] = (use){NONE, NONE, 0, 0, 0, -1, -1, -1};
    for (int32_t g = 0; g < plan->n_groups; g++)
        for (int32_t i = plan->groups[g].first_op; i < plan->groups[g].end_op;
             i++) {
            const dv_op *o = &plan->ops->ops[i];
            for (int r = 0; r < o->n_reads; r++) {
                note(&uses[o->reads[r].tensor].group, g);
                note_life(plan, &uses[o->reads[r].tensor], g);
                uses[o->reads[r].tensor].until = i;
            }
            note(&uses[o->write.tensor].group, g);
            note(&uses[o->write.tensor].writer, i);
            note_life(plan, &uses[o->write.tensor], g);
            uses[o->write.tensor].once = plan->groups[g].once;
            uses[o->write.tensor].until = i;
        }
    for (int32_t i = 0; i < plan->schedule.n_temps; i++)
        uses[plan->schedule.temps[i].tensor].kept = 1;
    for (int32_t i = 0; i < plan->schedule.n_stored; i++)
        uses[plan->schedule.stored[i].tensor].stored++;
}

// Returns the stride of variable v in the access, in elements of its tensor as
// it is stored: row-major, or one tile of it if it is kept for one tile.
static int64_t stride_of(const dv_plan *plan, const use *uses,
                         const dv_access *a, int v)
{
    const dv_tensor *t = &plan->ops->tensors[a->tensor];
    const use *u = &uses[a->tensor];
    const dv_op *w = u->kept ? &plan->ops->ops[u->writer] : NULL;
    int64_t stride = 0, row = 1, part;
    for (int d = a->n_dims - 1; d >= 0; d--) {
        int64_t side = w ? 1 : t->shape[d];
        for (int k = 0; w && k < w->n_vars; k++)
            if (coef_of(&w->write.index[d], k))
                side = plan->slices[u->writer][k];
        if (!dv_mul_i64(&part, coef_of(&a->index[d], v), row) ||
            !dv_add_i64(&stride, stride, part))
            return INT64_MIN; // overflow: no kernel has such a stride
        row *= side;
    }
    return stride;
}

// Returns whether the value that an indirect index reads depends on variable v.
static int via_depends_on(const dv_op *o, const dv_index *x, int v)
{
    const dv_access *from = x->via < 0 ? NULL : &o->reads[x->via];
    for (int e = 0; from && e < from->n_dims; e++)
        if (coef_of(&from->index[e], v) ||
            via_depends_on(o, &from->index[e], v))
            return 1;
    return 0;
}

// Returns whether an indirect index of the op depends on variable v.
static int index_depends_on(const dv_op *o, int v)
{
    for (int r = 0; r < o->n_reads; r++)
        for (int d = 0; d < o->reads[r].n_dims; d++)
            if (via_depends_on(o, &o->reads[r].index[d], v))
                return 1;
    return 0;
}

// The functions below find properties of accesses anew, although ir/access.c
// has such functions: planners and executors decide by those, so that a mistake
// in them must not hide here, too.
static int has_border(const dv_op *o)
{
    int any = 0;
    for (int r = 0; r < o->n_reads; r++)
        any |= o->reads[r].has_border;
    return any;
}

static int has_indirect_read(const dv_op *o)
{
    for (int r = 0; r < o->n_reads; r++)
        for (int d = 0; d < o->reads[r].n_dims; d++)
            if (o->reads[r].index[d].via >= 0)
                return 1;
    return 0;
}

static int has_indirect_write(const dv_op *o)
{
    for (int d = 0; d < o->write.n_dims; d++)
        if (o->write.index[d].via >= 0)
            return 1;
    return 0;
}

// Checks that both loops of a vector kernel can be collapsed into one.
// `collapse` in its schedule is the iteration count of the inner loop for which
// they are: one step of the outer loop must continue where the inner loop ends.
static dv_status check_collapse(const dv_plan *plan, const use *uses,
                                int32_t op, dv_loc at, dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[op];
    const dv_op_schedule *as = &plan->schedule.ops[op];
    int sums = as->kind == DV_KERNEL_PRODUCT;
    if (!as->collapse)
        return DV_OK;
    if (as->inner < 0 || as->outer < 0)
        WRONG(C25, "op %s has no two loops to run as one", o->name);
    for (int r = 0; r <= o->n_reads && !sums; r++) {
        const dv_access *a = r < o->n_reads ? &o->reads[r] : &o->write;
        int64_t in = stride_of(plan, uses, a, as->inner), all;
        int64_t out = stride_of(plan, uses, a, as->outer);
        if (r == o->n_reads && dv_op_reduce(o) && !as->window)
            // The write of a reduction has no stride along the loops: sums
            // stay in registers until both loops have ended.
            continue;
        if (!dv_mul_i64(&all, in, as->collapse) || all != out)
            WRONG(C25,
                  "op %s runs %" PRId64 " of %s and %s as one loop, but %s has "
                  "strides of %" PRId64 " and %" PRId64,
                  o->name, as->collapse, o->vars[as->inner].name,
                  o->vars[as->outer].name, plan->ops->tensors[a->tensor].name,
                  in, out);
    }
    return DV_OK;
}

static dv_status check_loops(const dv_plan *plan, const use *uses, int32_t op,
                             dv_loc at, dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[op];
    const dv_op_schedule *as = &plan->schedule.ops[op];
    const int32_t loops[2] = {as->inner, as->outer};
    const dv_expr *reduce = dv_op_reduce(o);
    if (as->inner >= 0 && as->inner == as->outer)
        WRONG(C25, "both loops of op %s are over %s", o->name,
              o->vars[as->inner].name);
    for (int i = 0; i < 2; i++) {
        if (loops[i] < 0)
            continue;
        if (index_depends_on(o, loops[i]))
            WRONG(C25, "op %s has a loop over %s, by which it is indexed",
                  o->name, o->vars[loops[i]].name);
        if (as->window && o->vars[loops[i]].reduce)
            WRONG(C25, "op %s unrolls %s and loops over it", o->name,
                  o->vars[loops[i]].name);
    }
    if (as->window && (!reduce || dv_op_points(o, reduce->vars) != as->window))
        WRONG(C25, "op %s unrolls %d points, which it does not reduce", o->name,
              (int)as->window);
    if (as->images && (!as->window || as->inner < 0 || as->guard))
        WRONG(C25, "op %s runs on images without a window, or with a guard",
              o->name);
    if (as->edges &&
        (!has_border(o) || as->images || as->guard || as->transpose))
        WRONG(C25,
              "op %s is cut at edges without a border, or with images, a guard "
              "or transposed reads",
              o->name);
    if (as->guard != DV_GUARD_INDICES &&
        (has_indirect_read(o) || has_indirect_write(o)))
        WRONG(C25, "op %s has indirect indices without a guard", o->name);
    for (int d = 0; d < o->write.n_dims; d++)
        for (int v = 0; v < o->n_vars; v++)
            if (via_depends_on(o, &o->write.index[d], v))
                WRONG(C25, "op %s writes through an index that depends on %s",
                      o->name, o->vars[v].name);
    return check_collapse(plan, uses, op, at, diag);
}

// Returns whether e is a function with this number.
static int applies(const dv_expr *e, dv_fn fn)
{
    return e->kind == DV_EXPR_APPLY && e->fn == fn;
}

// Returns whether the kernel of a product can compute what the op makes of its
// sums: it can add one tensor of floats to them and then apply relu.
static int kernel_can_finish(const dv_program *p, const dv_op *o)
{
    const dv_expr *sum = dv_op_reduce(o), *e = o->body;
    if (applies(e, DV_FN_RELU))
        e = e->arg[0];
    if (sum->fn != DV_RED_SUM || e == sum)
        return sum->fn == DV_RED_SUM;
    for (int i = 0; i < 2 && applies(e, DV_FN_ADD); i++)
        if (e->arg[i] == sum && e->arg[!i]->kind == DV_EXPR_READ)
            return dv_is_float(
                p->tensors[o->reads[e->arg[!i]->read].tensor].dtype);
    return 0;
}

// Checks an epilogue that the kernel of a product computes, or its absence: the
// kernel then stores the results.
static dv_status check_kernel_epilogue(const dv_plan *plan, int32_t op,
                                       dv_loc at, dv_diag *diag)
{
    const dv_program *p = plan->ops;
    const dv_op *o = &p->ops[op];
    const dv_op_schedule *as = &plan->schedule.ops[op];
    dv_dtype sums = dv_kernel_type(dv_op_compute(p, o));
    dv_dtype stored = p->tensors[o->write.tensor].dtype;
    if (!kernel_can_finish(p, o))
        WRONG(C25,
              "the kernel of op %s cannot compute its epilogue: a kernel adds "
              "at most one tensor of floats to sums, then applies relu",
              o->name);
    // Matrix instructions also store f32 sums of narrower factors in 16 bits.
    if (stored != sums &&
        !(as->sums.pairs && sums == DV_F32 && dv_is_float(stored)))
        WRONG(C25, "the kernel of op %s makes sums of %s, but the op stores %s",
              o->name, dv_dtype_get(sums)->name, dv_dtype_get(stored)->name);
    return DV_OK;
}

static dv_status check_epilogue(const dv_plan *plan, int32_t op, dv_loc at,
                                dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[op];
    const dv_op_schedule *as = &plan->schedule.ops[op];
    int cut = 0;
    for (int v = 0; v < o->n_vars; v++)
        cut |= o->vars[v].reduce &&
               plan->slices[op][v] < o->vars[v].end - o->vars[v].begin;
    if (cut != (as->epilogue == DV_EPILOGUE_PARTS))
        WRONG(C25, "op %s has %s, but its epilogue is %s parts", o->name,
              cut ? "partial sums" : "whole sums", cut ? "not after" : "after");
    if (as->epilogue == DV_EPILOGUE_NONE && o->body != dv_op_reduce(o))
        WRONG(C25, "op %s computes more than its sums and has no epilogue",
              o->name);
    return as->epilogue <= DV_EPILOGUE_KERNEL
               ? check_kernel_epilogue(plan, op, at, diag)
               : DV_OK;
}

// Returns whether the op writes each element once: every dim of the result is
// indexed by another variable, and every variable indexes a dim.
static int writes_each_once(const dv_op *o)
{
    int used[DV_MAX_VARS] = {0}, n = 0;
    for (int d = 0; d < o->write.n_dims; d++) {
        int var = -1;
        for (int v = 0; v < o->n_vars; v++) {
            if (!coef_of(&o->write.index[d], v))
                continue;
            if (var >= 0 || used[v] || coef_of(&o->write.index[d], v) != 1)
                return 0;
            var = v;
        }
        if (var >= 0)
            used[var] = ++n;
    }
    return n == o->n_vars;
}

static int reads_tensor(const dv_op *o, int32_t t)
{
    for (int r = 0; r < o->n_reads; r++)
        if (o->reads[r].tensor == t)
            return 1;
    return 0;
}

static dv_status check_inline(const dv_plan *plan, const use *uses,
                              const dv_group *g, int32_t op, dv_loc at,
                              dv_diag *diag)
{
    const dv_program *p = plan->ops;
    const dv_op *o = &p->ops[op];
    const dv_op_schedule *as = &plan->schedule.ops[op];
    const dv_tensor *t = &p->tensors[o->write.tensor];
    dv_compute_type in = dv_op_compute(p, o);
    if (t->is_input || t->is_output || o->update || o->is_extern)
        WRONG(C26, "op %s is inlined, but %s is no temporary", o->name,
              t->name);
    if (dv_op_reduce(o) || !writes_each_once(o))
        WRONG(C26, "op %s is inlined, but has not one value per element",
              o->name);
    if (t->dtype != (in == DV_IN_F64 ? DV_F64 : DV_F32) || in == DV_IN_I64)
        WRONG(C26, "op %s is inlined, but storing it would round", o->name);
    if (uses[o->write.tensor].writer != op || uses[o->write.tensor].group < 0)
        WRONG(C26,
              "op %s is inlined, but other ops write %s or other groups "
              "read it",
              o->name, t->name);
    for (int32_t i = g->first_op; i <= op; i++)
        if (reads_tensor(&p->ops[i], o->write.tensor))
            WRONG(C26, "op %s is inlined, but op %s reads it before", o->name,
                  p->ops[i].name);
    return DV_OK;
}

// Returns the dim of an access that is variable v plus a constant, which *base
// is set to; -1 if v is in no dim, in several, or with other variables.
static int row_dim(const dv_op *o, const dv_access *a, int v, int64_t *base)
{
    int found = -1;
    for (int d = 0; d < a->n_dims; d++) {
        const dv_index *x = &a->index[d];
        if (!coef_of(x, v))
            continue;
        if (found >= 0 || coef_of(x, v) != 1 || x->via >= 0)
            return -1;
        for (int w = 0; w < o->n_vars; w++)
            if (w != v && coef_of(x, w))
                return -1;
        found = d;
        *base = x->base;
    }
    return found;
}

// Checks that op number `op` of a group has the same rows (the same ranges of
// the variables that enumerate them) as the first op of the group.
static dv_status check_row_vars(const dv_plan *plan, const dv_group *g,
                                int32_t op, dv_loc at, dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[op], *f = &plan->ops->ops[g->first_op];
    const dv_op_schedule *as = &plan->schedule.ops[op];
    const dv_op_schedule *first = &plan->schedule.ops[g->first_op];
    int is_row[DV_MAX_VARS] = {0};
    int64_t base;
    if (as->n_rows < 1 || as->n_rows != first->n_rows)
        WRONG(C27, "op %s has rows of %d variables, op %s of %d", o->name,
              (int)as->n_rows, f->name, (int)first->n_rows);
    for (int32_t k = 0; k < as->n_rows; k++) {
        int v = as->rows[k], w = first->rows[k];
        if (is_row[v]++ || o->vars[v].begin != f->vars[w].begin ||
            o->vars[v].end != f->vars[w].end ||
            plan->slices[op][v] != plan->slices[g->first_op][w] ||
            row_dim(o, &o->write, v, &base) < 0)
            WRONG(C27, "the rows of op %s over %s are not those of op %s",
                  o->name, o->vars[v].name, f->name);
    }
    for (int v = 0; v < o->n_vars; v++)
        if (!is_row[v] &&
            plan->slices[op][v] < o->vars[v].end - o->vars[v].begin)
            WRONG(C27, "tiles of op %s cut its rows along %s", o->name,
                  o->vars[v].name);
    return DV_OK;
}

// Returns whether op `reader` reads through `a` the row of the tensor that op
// `writer` writes in the same step, when their group runs row by row.
static int same_row(const dv_plan *plan, int32_t writer, int32_t reader,
                    const dv_access *a)
{
    const dv_op *w = &plan->ops->ops[writer], *r = &plan->ops->ops[reader];
    const dv_op_schedule *from = &plan->schedule.ops[writer];
    const dv_op_schedule *to = &plan->schedule.ops[reader];
    for (int32_t k = 0; k < to->n_rows; k++) {
        int64_t x = 0, y = 0;
        int d = row_dim(w, &w->write, from->rows[k], &x);
        int e = row_dim(r, a, to->rows[k], &y);
        if (d < 0 || d != e || x != y)
            return 0;
    }
    return 1;
}

// Checks, in a group that runs row by row, that the rows of tensor number t are
// computed before op `reader` reads them. If `reader` reads an inlined op, the
// rows that this op reads are checked.
static dv_status check_delay(const dv_plan *plan, const dv_group *g, int32_t t,
                             int32_t before, int32_t reader, dv_loc at,
                             dv_diag *diag)
{
    const dv_op_schedule *as = &plan->schedule.ops[reader];
    for (int32_t i = g->first_op; i < before; i++) {
        const dv_op *o = &plan->ops->ops[i];
        const dv_op_schedule *from = &plan->schedule.ops[i];
        if (o->write.tensor != t)
            continue;
        if (from->kind == DV_KERNEL_INLINE) {
            for (int r = 0; r < o->n_reads; r++)
                DV_TRY(check_delay(plan, g, o->reads[r].tensor, i, reader, at,
                                   diag));
            continue;
        }
        if (as->delay < from->delay + (from->unit >= as->unit))
            WRONG(C27, "op %s reads rows of %s before they are computed",
                  plan->ops->ops[reader].name, plan->ops->tensors[t].name);
    }
    return DV_OK;
}

static dv_status check_row_op(const dv_plan *plan, const use *uses,
                              const dv_group *g, int32_t op, dv_loc at,
                              dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[op];
    const dv_op_schedule *as = &plan->schedule.ops[op];
    if (as->kind != DV_KERNEL_ROWS && as->kind != DV_KERNEL_INLINE)
        WRONG(C27, "op %s is not computed row by row, but its group is",
              o->name);
    if (o->update || o->is_extern || has_indirect_read(o) ||
        reads_tensor(o, o->write.tensor))
        WRONG(C27, "op %s cannot be computed row by row", o->name);
    DV_TRY(check_row_vars(plan, g, op, at, diag));
    for (int32_t i = g->first_op; i < op; i++) {
        const dv_op *b = &plan->ops->ops[i];
        if (b->write.tensor == o->write.tensor ||
            reads_tensor(b, o->write.tensor))
            WRONG(C27, "op %s overwrites what op %s of its group uses", o->name,
                  b->name);
        for (int r = 0; r < o->n_reads; r++)
            if (o->reads[r].tensor == b->write.tensor &&
                !same_row(plan, i, op, &o->reads[r]))
                WRONG(C27, "op %s reads other rows of %s than its own", o->name,
                      plan->ops->tensors[b->write.tensor].name);
    }
    for (int r = 0; r < o->n_reads && as->kind == DV_KERNEL_ROWS; r++)
        DV_TRY(check_delay(plan, g, o->reads[r].tensor, op, op, at, diag));
    return as->kind == DV_KERNEL_INLINE
               ? check_inline(plan, uses, g, op, at, diag)
               : check_loops(plan, uses, op, at, diag);
}

// Checks rule C27 for a group in which some op is computed row by row.
static dv_status check_rows(const dv_plan *plan, const use *uses,
                            const dv_group *g, dv_loc at, dv_diag *diag)
{
    for (int32_t i = g->first_op; i < g->end_op; i++)
        DV_TRY(check_row_op(plan, uses, g, i, at, diag));
    return DV_OK;
}

static dv_status check_group(const dv_plan *plan, const use *uses,
                             const dv_group *g, dv_loc at, dv_diag *diag)
{
    for (int32_t i = g->first_op; i < g->end_op; i++)
        DV_TRY(dv_check_skip(plan, i, at, diag));
    for (int32_t i = g->first_op; i < g->end_op; i++) {
        const dv_op_schedule *as = &plan->schedule.ops[i];
        if (as->kind == DV_KERNEL_ROWS || as->kind == DV_KERNEL_INLINE)
            return check_rows(plan, uses, g, at, diag);
    }
    for (int32_t i = g->first_op; i < g->end_op; i++) {
        const dv_op_schedule *as = &plan->schedule.ops[i];
        if (as->kind == DV_KERNEL_STRIP && as->inner >= 0 &&
            has_indirect_write(&plan->ops->ops[i]))
            WRONG(C25, "op %s writes through an index, in the program's order",
                  plan->ops->ops[i].name);
        DV_TRY(check_once(plan, i, at, diag));
        DV_TRY(check_hold(plan, g, i, at, diag));
        if (as->kind == DV_KERNEL_STRIP)
            continue;
        if (plan->ops->ops[i].is_extern)
            WRONG(C25, "extern op %s has a kernel", plan->ops->ops[i].name);
        DV_TRY(check_loops(plan, uses, i, at, diag));
        if (as->kind != DV_KERNEL_PRODUCT)
            continue;
        DV_TRY(check_sums(plan, i, at, diag));
        DV_TRY(check_epilogue(plan, i, at, diag));
        if (as->sums.pairs)
            DV_TRY(check_pairs(plan, i, at, diag));
        DV_TRY(dv_check_tile_loops(plan, i, diag));
    }
    return DV_OK;
}

// Returns whether a tile of the op writes a box of its tensor.
static int writes_box(const dv_op *o)
{
    int used[DV_MAX_VARS] = {0};
    for (int d = 0; d < o->write.n_dims; d++) {
        int n = 0;
        for (int v = 0; v < o->n_vars; v++)
            if (coef_of(&o->write.index[d], v) &&
                (n++ || used[v]++ || coef_of(&o->write.index[d], v) != 1))
                return 0;
        if (o->write.index[d].via >= 0)
            return 0;
    }
    return !o->update && !o->is_extern;
}

// Returns the bytes of the largest tile of the tensor that an op writes.
static int64_t tile_bytes(const dv_plan *plan, int32_t writer)
{
    const dv_op *o = &plan->ops->ops[writer];
    dv_dtype type = plan->ops->tensors[o->write.tensor].dtype;
    int64_t bytes = dv_dtype_get(type)->size_bytes;
    for (int d = 0; d < o->write.n_dims; d++)
        for (int v = 0; v < o->n_vars; v++)
            bytes *=
                coef_of(&o->write.index[d], v) ? plan->slices[writer][v] : 1;
    return bytes;
}

// Returns whether the ops of a group run row by row, so that the order of ops
// does not say when a temporary was read last.
static int runs_by_rows(const dv_plan *plan, const dv_group *g)
{
    return plan->schedule.ops[g->first_op].kind >= DV_KERNEL_ROWS;
}

// Checks rule C28 for temporary number i in the list of those of which each
// thread stores only the current tile.
static dv_status check_temp(const dv_plan *plan, const use *uses, int32_t i,
                            dv_loc at, dv_diag *diag)
{
    enum { ALIGN_BYTES = 64 };
    const dv_schedule *s = &plan->schedule;
    const dv_temp_address *as = &s->temps[i];
    const dv_tensor *t = &plan->ops->tensors[as->tensor];
    const use *u = &uses[as->tensor];
    if (t->is_input || t->is_output || u->group < 0 || u->writer < 0 ||
        !writes_box(&plan->ops->ops[u->writer]))
        WRONG(C28,
              "%s is kept for one tile, but is no box that one op writes and "
              "one group uses",
              t->name);
    int64_t end;
    if (plan->groups[u->group].n_tiles < 2 || as->address < 0 ||
        as->address % ALIGN_BYTES ||
        !dv_add_i64(&end, as->address, tile_bytes(plan, u->writer)))
        WRONG(C28, "%s cannot be kept at %" PRId64, t->name, as->address);
    // Temporaries are in the order of their writers, so that those of a group
    // are neighbours.
    for (int32_t k = i - 1; k >= 0; k--) {
        const dv_temp_address *b = &s->temps[k];
        if (uses[b->tensor].writer >= u->writer)
            WRONG(C28, "%s is kept, but stands after %s", t->name,
                  plan->ops->tensors[b->tensor].name);
        if (uses[b->tensor].group != u->group)
            return DV_OK;
        if ((uses[b->tensor].until >= u->writer ||
             runs_by_rows(plan, &plan->groups[u->group])) &&
            b->address < end &&
            as->address < b->address + tile_bytes(plan, uses[b->tensor].writer))
            WRONG(C28, "%s is kept in the bytes of %s", t->name,
                  plan->ops->tensors[b->tensor].name);
    }
    return DV_OK;
}

// A temporary that is stored as a whole, to be sorted by address.
typedef struct span {
    int64_t begin, end; // its first byte, and the byte after its last
    const use *u;
    int32_t number; // its number in the schedule's list
} span;

static int by_begin(const void *x, const void *y)
{
    const span *a = x, *b = y;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

// Checks rule C29: temporaries that are stored as a whole and live at the same
// time share no bytes. Sorted by address, each is compared with those that
// begin before it ends.
static dv_status check_stored(const dv_plan *plan, const use *uses, dv_loc at,
                              dv_diag *diag)
{
    enum { ALIGN_BYTES = 64 };
    const dv_schedule *s = &plan->schedule;
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        const dv_op_schedule *as = &s->ops[i];
        int32_t t = plan->ops->ops[i].write.tensor;
        const dv_tensor *x = &plan->ops->tensors[t];
        int here = !x->is_input && !x->is_output && !uses[t].kept &&
                   as->kind != DV_KERNEL_INLINE && !uses[t].once;
        if (uses[t].stored != here)
            WRONG(C29, "%s is stored %d times instead of %d", x->name,
                  uses[t].stored, here);
    }
    span *all = dv_alloc((size_t)s->n_stored * sizeof *all + 1);
    dv_status st = all ? DV_OK : dv_nomem(diag);
    for (int32_t i = 0; all && i < s->n_stored; i++) {
        const dv_temp_address *as = &s->stored[i];
        const dv_tensor *t = &plan->ops->tensors[as->tensor];
        all[i] =
            (span){.begin = as->address, .u = &uses[as->tensor], .number = i};
        if (uses[as->tensor].writer == NONE || as->address < 0 ||
            as->address % ALIGN_BYTES ||
            !dv_add_i64(&all[i].end, as->address, dv_tensor_bytes(t)))
            st = DV_BREAKS(diag, C29, as->off ? dv_plan_at(plan, as->off) : at,
                           "%s cannot be stored at %" PRId64, t->name,
                           as->address);
    }
    if (st == DV_OK)
        qsort(all, (size_t)s->n_stored, sizeof *all, by_begin);
    for (int32_t i = 0; st == DV_OK && i < s->n_stored; i++)
        for (int32_t k = i + 1; k < s->n_stored && all[k].begin < all[i].end;
             k++) {
            const dv_temp_address *as = &s->stored[all[k].number];
            if (all[i].u->last < all[k].u->first ||
                all[k].u->last < all[i].u->first)
                continue;
            st = DV_BREAKS(
                diag, C29, as->off ? dv_plan_at(plan, as->off) : at,
                "%s is stored in the bytes of %s while both are in use",
                plan->ops->tensors[as->tensor].name,
                plan->ops->tensors[s->stored[all[i].number].tensor].name);
            break;
        }
    dv_release(all);
    return st;
}

static dv_status check_all(const dv_plan *plan, const use *uses, dv_loc at,
                           dv_diag *diag)
{
    for (int32_t i = 0; i < plan->schedule.n_temps; i++)
        DV_TRY(check_temp(plan, uses, i, at, diag));
    for (int32_t g = 0; g < plan->n_groups; g++)
        DV_TRY(check_group(plan, uses, &plan->groups[g], at, diag));
    return check_stored(plan, uses, at, diag);
}

dv_status dv_check_schedule(const dv_plan *plan, dv_loc at, dv_diag *diag)
{
    if (!(plan->facts & DV_FACT_SCHEDULED) || !plan->schedule.kernels)
        return DV_OK;
    if (!dv_target_runs_here(&plan->target))
        return DV_BREAKS(diag, C22, at, "%s is simulated and has no schedule",
                         plan->target.name);
    use *uses = dv_alloc((size_t)plan->ops->n_tensors * sizeof *uses);
    if (!uses)
        return dv_nomem(diag);
    find_uses(plan, uses);
    dv_status st = check_all(plan, uses, at, diag);
    dv_release(uses);
    return st;
}
