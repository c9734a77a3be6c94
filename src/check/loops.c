// The checker's rule for the loops of a product's tiles. It shares no code with
// what chooses loops, nor with what obeys them.
//
//   C30 a product has loops for each shape of its tiles, in order, or for none;
//       the loops of a tile cover each of its points once; variables that run
//       as one are in the same operands, and contiguous in those that are
//       accessed in place; inside the kernel, at most one loop is over rows and
//       one over columns; the sum is in the order of the op's levels, and in
//       vector lanes along the last level alone; an operand is packed at most
//       once; a GEMM plan, which packs and sums in blocks by itself, has no
//       loop over k and no packing around it
#include "base/math.h"
#include "check/check.h"
#include <inttypes.h>

enum { IN0 = 1, IN1 = 2, OUT = 4 };
enum { MAX_LEVELS = 2 * DV_MAX_TILE_LOOPS };

#define WRONG(...)                                                             \
    return DV_BREAKS(                                                          \
        diag, C30,                                                             \
        dv_plan_at(t->plan, t->as->off ? t->as->off : t->schedule->off),       \
        __VA_ARGS__)

// An op with one shape of its tiles, for which its loops are checked.
typedef struct shape {
    const dv_plan *plan;
    const dv_op *o;
    const dv_op_schedule *schedule;
    const dv_tile_schedule *as;
    const dv_access *access[3]; // the factors and the write
    int64_t len[DV_MAX_VARS];   // points of each variable
    int role[DV_MAX_VARS];      // mask of the operands that have the variable
} shape;

// One loop over a reduced variable, with `size` iterations; `inside` is 1 if
// the kernel contains it. A loop over several variables that run as one is
// listed as one of these for each variable.
typedef struct level {
    int32_t var;
    int64_t size;
    int inside;
} level;

// Returns the stride of variable v in an operand, in elements.
static int64_t stride_of(const shape *t, int operand, int v)
{
    const dv_access *a = t->access[operand];
    const dv_tensor *x = &t->plan->ops->tensors[a->tensor];
    int64_t stride = 0, row = 1, part;
    for (int d = a->n_dims - 1; d >= 0; d--) {
        if (!dv_mul_i64(&part, a->index[d].coef[v], row) ||
            !dv_add_i64(&stride, stride, part))
            return INT64_MIN; // no kernel has such a stride
        row *= x->shape[d];
    }
    return stride;
}

// Returns whether kernels access an operand directly in its tensor, not in a
// copy or in a buffer for one tile, which has fewer rows.
static int is_in_place(const shape *t, int operand)
{
    const dv_schedule *s = &t->plan->schedule;
    for (int32_t i = 0; i < s->n_temps; i++)
        if (s->temps[i].tensor == t->access[operand]->tensor)
            return 0;
    return operand < 2 ? !t->schedule->copied[operand]
                       : t->schedule->epilogue <= DV_EPILOGUE_KERNEL;
}

static void fill_shape(shape *t, int32_t op)
{
    const dv_expr *product = dv_op_reduce(t->o)->arg[0];
    for (int i = 0; i < 3; i++)
        t->access[i] =
            i < 2 ? &t->o->reads[product->arg[i]->read] : &t->o->write;
    for (int v = 0; v < t->o->n_vars; v++) {
        int64_t whole = t->o->vars[v].end - t->o->vars[v].begin;
        int64_t slice = t->plan->slices[op][v];
        t->len[v] = t->as->shorts >> v & 1 ? whole % slice : slice;
        t->role[v] = 0;
        for (int i = 0; i < 3; i++)
            for (int d = 0; d < t->access[i]->n_dims; d++)
                if (t->access[i]->index[d].coef[v])
                    t->role[v] |= 1 << i;
    }
}

// Returns the number of iteration points of the variables in mask `vars`.
static int64_t points(const shape *t, uint32_t vars)
{
    int64_t n = 1;
    for (int v = 0; v < t->o->n_vars; v++)
        if (vars >> v & 1 && !dv_mul_i64(&n, n, t->len[v]))
            return INT64_MAX;
    return n;
}

// Returns the first variable in a mask, which must not be empty.
static int some_var(uint32_t vars)
{
    int v = 0;
    while (!(vars >> v & 1))
        v++;
    return v;
}

// Checks that every variable has a loop, and that variables collapsed into one
// loop occur in the same operands.
static dv_status check_variables(const shape *t, dv_diag *diag)
{
    uint32_t all = 0;
    for (int32_t i = 0; i < t->as->n_loops; i++) {
        uint32_t vars = t->as->loops[i].vars;
        for (int32_t k = 0; k < i; k++)
            if (t->as->loops[k].vars != vars && t->as->loops[k].vars & vars)
                WRONG("loops %d and %d over tiles of %s share a variable",
                      (int)k, (int)i, t->o->name);
        for (int v = 0; v < t->o->n_vars; v++)
            if (vars >> v & 1 && t->role[v] != t->role[some_var(vars)])
                WRONG("loop %d over tiles of %s has %s and %s, which are in "
                      "other operands",
                      (int)i, t->o->name, t->o->vars[some_var(vars)].name,
                      t->o->vars[v].name);
        all |= vars;
    }
    for (int v = 0; v < t->o->n_vars; v++)
        if (!(all >> v & 1) && t->len[v] > 1)
            WRONG("tiles of %s have no loop over %s", t->o->name,
                  t->o->vars[v].name);
    return DV_OK;
}

// Checks that the loops over the same variables as loop number `first`, the
// outermost one of these, together cover all points once.
static dv_status check_cover(const shape *t, int32_t first, dv_diag *diag)
{
    uint32_t vars = t->as->loops[first].vars;
    int64_t len = points(t, vars), inner = 1, reach = 1;
    for (int32_t i = t->as->n_loops - 1; i >= first; i--) {
        if (t->as->loops[i].vars != vars)
            continue;
        inner = reach;
        if (!dv_mul_i64(&reach, reach, t->as->loops[i].size))
            reach = INT64_MAX;
    }
    if (reach < len || reach - inner >= len)
        WRONG("the loops over %s in tiles of %s cover %" PRId64
              " points in steps of %" PRId64 ", there are %" PRId64,
              t->o->vars[some_var(vars)].name, t->o->name, reach, inner, len);
    return DV_OK;
}

// Returns the number of the last (innermost) loop level of a sum that is over
// variable v; -1: there is none.
static int32_t last_level(const dv_sum_order *s, int v)
{
    int32_t i = s->n_levels - 1;
    while (i >= 0 && s->levels[i].var != v)
        i--;
    return i;
}

// Returns the innermost variable of a mask: by the order of summation or, if it
// is not summed over, the one with the smallest stride in `operand`.
static int innermost(const shape *t, uint32_t vars, int operand)
{
    const dv_sum_order *s = &t->schedule->sums;
    int best = some_var(vars);
    for (int v = best + 1; v < t->o->n_vars; v++)
        if (vars >> v & 1 &&
            (t->o->vars[v].reduce
                 ? last_level(s, v) > last_level(s, best)
                 : stride_of(t, operand, v) < stride_of(t, operand, best)))
            best = v;
    return best;
}

// Checks that variables collapsed into one loop are contiguous, in the same
// order, in all operands that are accessed in place (not packed or copied).
static dv_status check_contiguous(const shape *t, uint32_t vars, dv_diag *diag)
{
    int order = -1;
    for (int i = 0; i < 3; i++) {
        int64_t next = 0, stride;
        if (!(t->role[some_var(vars)] >> i & 1) || !is_in_place(t, i))
            continue;
        order = order < 0 ? i : order;
        for (uint32_t left = vars; left;) {
            int v = innermost(t, left, order);
            left &= ~(UINT32_C(1) << v);
            stride = stride_of(t, i, v);
            if (t->len[v] == 1)
                continue;
            if (next && stride != next)
                WRONG("%s has a stride of %" PRId64 " in operand %d of %s, "
                      "not %" PRId64 " to run as one with others",
                      t->o->vars[v].name, stride, i, t->o->name, next);
            if (!dv_mul_i64(&next, stride, t->len[v]))
                next = INT64_MIN;
        }
    }
    return DV_OK;
}

// Checks that a kernel can contain the loops marked `inside`, and that each
// operand is packed at most once, outside of the kernel.
static dv_status check_kernel(const shape *t, dv_diag *diag)
{
    const dv_tile_schedule *as = t->as;
    uint32_t inside[OUT + IN0 + IN1 + 1] = {0};
    int packed = as->pack, twice = 0;
    for (int32_t i = 0; i < as->n_loops; i++) {
        const dv_tile_loop *l = &as->loops[i];
        int role = t->role[some_var(l->vars)];
        twice |= packed & l->pack;
        packed |= l->pack;
        if (l->inside ? l->pack : i && as->loops[i - 1].inside)
            WRONG("loop %d over tiles of %s is inside the kernel or packs "
                  "there",
                  (int)i, t->o->name);
        if (l->inside && role != (IN0 | IN1) &&
            (inside[role] || (role != (IN0 | OUT) && role != (IN1 | OUT))))
            WRONG("a kernel for %s cannot have %s inside", t->o->name,
                  t->o->vars[some_var(l->vars)].name);
        if (as->gemm && role == (IN0 | IN1) &&
            (!l->inside || inside[IN0 | IN1]))
            WRONG("the GEMM plan of %s has several loops over k", t->o->name);
        if (l->inside)
            inside[role] |= l->vars;
    }
    if (twice || packed & ~(IN0 | IN1 | OUT) || (as->gemm && packed))
        WRONG("an operand of %s is packed twice", t->o->name);
    if (!as->gemm && as->m_block)
        WRONG("tiles of %s have blocks without a GEMM plan", t->o->name);
    return DV_OK;
}

// Splits one loop over collapsed variables into levels of single variables and
// appends these, innermost first. used[v] counts the points of v that inner
// levels cover. Returns 0 if the loop cannot be split so.
static int expand(const shape *t, uint32_t vars, int64_t size, int inside,
                  int64_t *used, level *out, int *n)
{
    for (uint32_t left = vars; left && size > 1;) {
        int v = innermost(t, left, 0);
        left &= ~(UINT32_C(1) << v);
        int64_t here = dv_ceil_div(t->len[v], used[v]);
        int64_t take = size < here ? size : here;
        if (take == 1)
            continue;
        if (size % take || *n == MAX_LEVELS)
            return 0;
        out[(*n)++] = (level){v, take, inside};
        used[v] *= take;
        size /= take;
    }
    return size == 1;
}

// Lists the levels of the sum as the loops of a tile compute it, innermost
// first, each over one variable. Returns 0 if the loops have no such levels.
static int levels_of_loops(const shape *t, level *out, int *n)
{
    int64_t used[DV_MAX_VARS];
    for (int v = 0; v < t->o->n_vars; v++)
        used[v] = 1;
    for (int32_t i = t->as->n_loops - 1; i >= 0; i--) {
        const dv_tile_loop *l = &t->as->loops[i];
        int64_t size = l->size, block = t->as->k_block;
        if (t->role[some_var(l->vars)] != (IN0 | IN1))
            continue;
        block = block && block < size ? block : size;
        if (!expand(t, l->vars, block, l->inside, used, out, n) ||
            !expand(t, l->vars, dv_ceil_div(size, block), 0, used, out, n))
            return 0;
    }
    return 1;
}

// Lists the levels of the op's scheduled sum, limited to the extents of the
// tile, innermost first.
static void levels_of_sum(const shape *t, level *out, int *n)
{
    const dv_sum_order *s = &t->schedule->sums;
    int64_t used[DV_MAX_VARS];
    for (int v = 0; v < t->o->n_vars; v++)
        used[v] = 1;
    for (int32_t i = s->n_levels - 1; i >= 0; i--) {
        int v = s->levels[i].var, outermost = 1;
        for (int32_t k = 0; k < i; k++)
            outermost &= s->levels[k].var != v;
        int64_t size = dv_ceil_div(t->len[v], used[v]);
        if (!outermost && s->levels[i].size < size)
            size = s->levels[i].size;
        if (size > 1)
            out[(*n)++] = (level){v, size, s->levels[i].inside};
        used[v] *= size;
    }
}

// Checks a sum with accumulators in vector lanes: they take turns along the
// innermost loop over k, the last level of the sum. Collapsing that loop with
// others would add other products in a lane.
static dv_status check_lanes(const shape *t, dv_diag *diag)
{
    const dv_sum_order *s = &t->schedule->sums;
    uint32_t last = UINT32_C(1) << s->levels[s->n_levels - 1].var, vars = last;
    for (int32_t i = 0; i < t->as->n_loops; i++) {
        if (t->role[some_var(t->as->loops[i].vars)] != (IN0 | IN1))
            continue;
        vars = t->as->loops[i].vars;
        if (vars & (vars - 1))
            WRONG("tiles of %s sum in lanes, but along collapsed loops",
                  t->o->name);
    }
    if (vars != last)
        WRONG("tiles of %s sum in lanes along %s", t->o->name,
              t->o->vars[some_var(vars)].name);
    return DV_OK;
}

static dv_status check_order(const shape *t, dv_diag *diag)
{
    level want[MAX_LEVELS], is[MAX_LEVELS];
    int n_want = 0, n_is = 0;
    levels_of_sum(t, want, &n_want);
    int same = levels_of_loops(t, is, &n_is) && n_is == n_want;
    for (int i = 0; same && i < n_is; i++)
        same = is[i].var == want[i].var && is[i].size == want[i].size &&
               is[i].inside == want[i].inside;
    if (!same)
        WRONG("the loops over tiles of %s sum in another order than its levels",
              t->o->name);
    return DV_OK;
}

static dv_status check_tile(const shape *t, dv_diag *diag)
{
    DV_TRY(check_variables(t, diag));
    for (int32_t i = 0; i < t->as->n_loops; i++) {
        int first = 1;
        for (int32_t k = 0; k < i; k++)
            first &= t->as->loops[k].vars != t->as->loops[i].vars;
        if (!first)
            continue;
        DV_TRY(check_cover(t, i, diag));
        DV_TRY(check_contiguous(t, t->as->loops[i].vars, diag));
    }
    DV_TRY(check_kernel(t, diag));
    if (t->schedule->sums.dot)
        DV_TRY(check_lanes(t, diag));
    return check_order(t, diag);
}

dv_status dv_check_tile_loops(const dv_plan *plan, int32_t op, dv_diag *diag)
{
    const dv_op_schedule *s = &plan->schedule.ops[op];
    shape this = {.plan = plan, .o = &plan->ops->ops[op], .schedule = s};
    shape *t = &this;
    uint32_t shorts[DV_MAX_VARS];
    int n = 0;
    for (int v = 0; v < t->o->n_vars; v++)
        if ((t->o->vars[v].end - t->o->vars[v].begin) % plan->slices[op][v])
            shorts[n++] = UINT32_C(1) << v;
    for (int32_t i = 0; i < s->n_tiles; i++) {
        uint32_t want = 0;
        t->as = &s->tiles[i];
        for (int k = 0; k < n; k++)
            want |= (i >> k & 1) ? shorts[k] : 0;
        if (n > 30 || s->n_tiles != 1 << n || t->as->shorts != want)
            WRONG("the loops over tiles of %s are for %d shapes, or not in "
                  "order; its tiles have 2^%d",
                  t->o->name, (int)s->n_tiles, n);
        fill_shape(t, op);
        DV_TRY(check_tile(t, diag));
    }
    return DV_OK;
}
