// Applies an order of summation to the nest of a tile, as explained in sums.h.
#include "base/math.h"
#include "nest/sums.h"

// Computes the sizes of all levels (nested tiles) of variable `var` if the tile
// has `len` elements of it. Inner levels keep their size unless there are too
// few elements; the outermost level gets as many iterations as are needed.
static void cut_levels(const dv_sum_order *s, int32_t var, int64_t len,
                       int64_t *size)
{
    int64_t unit = 1;
    int outermost = -1;
    for (int i = s->n_levels - 1; i >= 0; i--) {
        if (s->levels[i].var != var)
            continue;
        int64_t left = dv_ceil_div(len, unit);
        size[i] = dv_min_i64(s->levels[i].size, left);
        unit *= size[i];
        outermost = i;
    }
    if (outermost >= 0)
        size[outermost] = dv_ceil_div(len, unit / size[outermost]);
}

// Returns the k dimension (summed) that stands for variable `var` of the op, or
// -1.
static int find_dim(const dv_nest *n, int32_t var)
{
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].type == DV_NEST_K && n->dims[i].off == (uint32_t)var)
            return i;
    return -1;
}

static int is_innermost(const dv_sum_order *s, int level)
{
    for (int i = level + 1; i < s->n_levels; i++)
        if (s->levels[i].var == s->levels[level].var)
            return 0;
    return 1;
}

// Appends level i (a loop or kernel dimension of k) of the order of summation
// to `n` as a dimension; size[] has the sizes of all levels. Returns 0 if there
// is no room or a stride overflows.
static int add_level(dv_nest *n, const dv_sum_order *s, int i,
                     const dv_nest_dim *of, const int64_t *size)
{
    dv_nest_dim d = *of;
    int64_t unit = 1;
    if (size[i] == 1 && !is_innermost(s, i))
        return 1; // a loop with one iteration is left out
    if (n->n_dims == DV_NEST_MAX_DIMS)
        return 0;
    for (int j = i + 1; j < s->n_levels; j++)
        if (s->levels[j].var == s->levels[i].var)
            unit *= size[j];
    d.exec = s->levels[i].inside ? DV_NEST_PRIM : DV_NEST_SEQ;
    d.size = size[i];
    for (int o = 0; o < DV_N_OPERANDS; o++)
        if (!dv_mul_i64(&d.stride[o], of->stride[o], unit))
            return 0;
    for (int j = 0; j < i; j++)
        if (s->levels[j].var == s->levels[i].var && size[j] > 1)
            d.whole = of->size;
    n->dims[n->n_dims++] = d;
    return 1;
}

// Returns whether dimension i is a loop whose variable is not tiled, so that no
// other dimension belongs to that variable.
static int is_lone(const dv_nest *n, int i)
{
    for (int j = 0; j < n->n_dims; j++)
        if (j != i && n->dims[j].type == DV_NEST_K &&
            n->dims[j].off == n->dims[i].off)
            return 0;
    return n->dims[i].exec == DV_NEST_SEQ;
}

// Collapses neighbouring k dimensions that are contiguous in memory. The one
// chain of additions of a product stays the same. Dot products, which sum in
// the lanes of a vector, must not be passed here: their lanes start anew in
// every row.
static void join_neighbours(dv_nest *n)
{
    for (int i = n->n_dims - 2; i >= 0; i--) {
        dv_nest_dim *a = &n->dims[i], *b = a + 1;
        int inside = a->exec == DV_NEST_PRIM && b->exec == DV_NEST_PRIM;
        int64_t size, whole = 0;
        if (a->type != DV_NEST_K || b->type != DV_NEST_K || b->whole ||
            !(inside || (is_lone(n, i) && is_lone(n, i + 1))) ||
            !dv_nest_can_collapse(a, b) ||
            !dv_mul_i64(&size, a->size, b->size) ||
            (a->whole && !dv_mul_i64(&whole, a->whole, b->size)) ||
            size > DV_NEST_MAX_SIZE)
            continue;
        uint32_t off = a->off;
        b->vars |= a->vars;
        dv_nest_drop(n, i);
        n->dims[i].size = size;
        n->dims[i].whole = whole;
        n->dims[i].off = off;
    }
}

int dv_sums_apply(const dv_sum_order *s, dv_nest *n)
{
    int64_t size[2 * DV_MAX_VARS];
    dv_nest out;
    if (s->n_levels > 2 * DV_MAX_VARS)
        return 0;
    dv_nest_copy(&out, n);
    for (int i = 0; i < s->n_levels; i++)
        size[i] = 1;
    out.n_dims = 0;
    for (int i = 0; i < n->n_dims; i++) {
        const dv_nest_dim *d = &n->dims[i];
        int any = 0;
        if (d->type != DV_NEST_K) {
            out.dims[out.n_dims++] = *d;
            continue;
        }
        for (int j = 0; j < s->n_levels; j++)
            any |= s->levels[j].var == (int32_t)d->off;
        if (!any && d->size > 1)
            return 0;
        cut_levels(s, (int32_t)d->off, d->size, size);
    }
    for (int i = 0; i < s->n_levels; i++) {
        int at = find_dim(n, s->levels[i].var);
        if (at >= 0 && !add_level(&out, s, i, &n->dims[at], size))
            return 0;
    }
    if (!s->dot)
        join_neighbours(&out);
    out.k_order = DV_K_AS_IT_IS;
    out.dot = s->dot ? DV_DOT_ALWAYS : DV_DOT_NEVER;
    if (!out.n_dims || !dv_nest_tiles_are_right(&out) ||
        dv_nest_check(&out, NULL))
        return 0;
    dv_nest_copy(n, &out);
    return 1;
}

// Copies the nest to *out with one untiled k (summed dimension), if there is
// one k inside the kernel and at most one loop over its blocks. *block is set
// to the size of a block, or 0 if k was not tiled. Returns 0 if there are more
// k dimensions.
static int with_one_k(const dv_nest *n, dv_nest *out, int64_t *block)
{
    int loop = -1, prim = -1;
    dv_nest_copy(out, n);
    *block = 0;
    for (int i = 0; i < n->n_dims; i++) {
        if (n->dims[i].type != DV_NEST_K)
            continue;
        int *to = n->dims[i].exec == DV_NEST_PRIM ? &prim : &loop;
        if (*to >= 0)
            return 0;
        *to = i;
    }
    if (loop < 0)
        return 1;
    if (prim < 0 || !dv_nest_can_collapse(&n->dims[loop], &n->dims[prim]))
        return 0;
    dv_nest_dim *d = &out->dims[prim];
    *block = d->size;
    d->vars |= n->dims[loop].vars;
    d->size = d->whole ? d->whole : d->size * n->dims[loop].size;
    d->whole = 0;
    dv_nest_drop(out, loop);
    return 1;
}

// Returns the nest with dimensions number m and n and all k (summed) inside the
// kernel; m or n is -1 if there is none.
static dv_nest with_inside(const dv_nest *one, int m, int n)
{
    dv_nest a = *one;
    a.n_dims = 0;
    for (int inside = 0; inside < 2; inside++)
        for (int i = 0; i < one->n_dims; i++) {
            const dv_nest_dim *d = &one->dims[i];
            if ((i == m || i == n || d->type == DV_NEST_K) != inside)
                continue;
            a.dims[a.n_dims] = *d;
            a.dims[a.n_dims++].exec = inside ? DV_NEST_PRIM : DV_NEST_SEQ;
        }
    return a;
}

int dv_sums_schedule_narrow(dv_nest *n, int64_t *block)
{
    dv_nest one, best;
    dv_nest_form f;
    int64_t most = 0;
    if (!with_one_k(n, &one, block))
        return 0;
    for (int i = -1; i < one.n_dims; i++)
        for (int j = -1; j < one.n_dims; j++) {
            if ((i >= 0 && one.dims[i].type != DV_NEST_M) ||
                (j >= 0 && one.dims[j].type != DV_NEST_N))
                continue;
            dv_nest a = with_inside(&one, i, j);
            int64_t size = dv_nest_size(&one, i) * dv_nest_size(&one, j);
            if (size <= most || dv_nest_form_of(&a, &f, NULL))
                continue;
            most = size;
            best = a;
        }
    if (most)
        *n = best;
    return most > 0;
}

// Returns whether one GEMM plan can run the whole nest `n` and add in the order
// of its loops over k, the summed dimension. *as becomes the nest as one matrix
// product, *block the length of the blocks in which it sums k. A plan with
// blocks packs its operands, which requires enough rows and columns, or that
// the columns are packed before the run.
static int is_plain(const dv_nest *n, dv_nest *as, int64_t *block)
{
    dv_nest one;
    dv_nest_form f;
    if (!with_one_k(n, &one, block) || !dv_nest_is_gemm(&one, as) ||
        dv_nest_form_of(as, &f, NULL))
        return 0;
    if (n->dot == DV_DOT_ALWAYS)
        return !*block && dv_nest_form_is_dot(&f);
    int rows = dv_nest_size(as, f.row) >= 16 || n->fixed >> f.in_col & 1;
    return !*block || (rows && dv_nest_size(as, f.col) >= 8);
}

dv_status dv_sums_schedule(dv_nest *n, int64_t *block,
                           const dv_nest_options *options, dv_diag *diag)
{
    dv_nest as;
    dv_nest_form f;
    *block = 0;
    dv_nest_join(n, options, NULL);
    if (n->narrow && !dv_sums_schedule_narrow(n, block))
        return dv_fail(diag, DV_E_LIMIT, (dv_loc){n->src, n->off},
                       "no matrix instructions sum %s in the order asked for",
                       n->name);
    if (n->narrow)
        return dv_nest_check(n, diag);
    if (is_plain(n, &as, block)) {
        dv_nest_copy(n, &as);
        return dv_nest_check(n, diag);
    }
    *block = 0;
    dv_nest_schedule(n, options);
    DV_TRY(dv_nest_check(n, diag));
    if (!dv_nest_form_of(n, &f, NULL) &&
        dv_nest_form_is_dot(&f) == (n->dot == DV_DOT_ALWAYS))
        return DV_OK;
    return dv_fail(diag, DV_E_LIMIT, (dv_loc){n->src, n->off},
                   "no kernel sums %s in the order asked for", n->name);
}
