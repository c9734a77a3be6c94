// Chooses the order in which the products of an op are summed, as explained in
// sums.h.
#include "nest/sums.h"
#include "base/dtype.h"
#include "base/math.h"
#include "kernel/kernel.h"
#include <math.h>
#include <stdlib.h>

dv_sums_machine dv_sums_machine_of(const dv_target *t)
{
    dv_nest_options o = {.size = sizeof(dv_nest_options),
                         .l1_bytes = t->l1_bytes,
                         .l2_bytes = t->l2_bytes,
                         .l3_bytes = t->l3_bytes};
    return (dv_sums_machine){dv_nest_caches_of(&o), t->vector_bytes, t->matrix,
                             t->matrix || t->dots};
}

const dv_sum_order *dv_sums_find(const dv_plan *plan, int32_t op)
{
    const dv_op_schedule *s = dv_op_scheduled(plan, op);
    return s && s->kind == DV_KERNEL_PRODUCT ? &s->sums : NULL;
}

// Finds the accesses of a sum of products: the two factors and the write.
// Returns 0 for other ops.
static int find_accesses(const dv_op *o, const dv_access *at[])
{
    int32_t factor[2];
    if (!dv_op_factors(o, factor))
        return 0;
    at[DV_IN0] = &o->reads[factor[0]];
    at[DV_IN1] = &o->reads[factor[1]];
    at[DV_OUT] = &o->write;
    return 1;
}

// Returns whether an access reads the same element in several iterations, as a
// sliding window does. A GEMM would need a copy of the tensor as a matrix
// (im2col).
static int overlaps(const dv_program *p, const dv_op *o, const dv_access *a)
{
    double elems = 1;
    for (int v = 0; v < o->n_vars; v++) {
        double step = fabs((double)dv_access_step(p, a, v));
        elems += step * (double)(dv_var_len(o, v) - 1);
    }
    return elems < dv_op_points_double(o, dv_access_vars(o, a));
}

// Returns whether the op is a batch of small products that are contiguous
// across the batch: some written variable has unit stride in both factors and
// the result, and each element of a factor is used for few results.
static int side_by_side(const dv_program *p, const dv_op *o,
                        const dv_access *const at[])
{
    enum { LEAST = 16, FEW = 8 };
    uint32_t written = dv_written_vars(o);
    for (int i = 0; i < 2; i++)
        if (dv_op_points_double(o, written & ~dv_access_vars(o, at[i])) > FEW)
            return 0;
    for (int v = 0; v < o->n_vars; v++) {
        int beside = written >> v & 1 && dv_var_len(o, v) >= LEAST;
        for (int i = 0; i < DV_N_OPERANDS && beside; i++)
            beside = dv_access_step(p, at[i], v) == 1;
        if (beside)
            return 1;
    }
    return 0;
}

static int is_narrow(const dv_program *p, const dv_access *a)
{
    return dv_dtype_get(p->tensors[a->tensor].dtype)->size_bytes < 4;
}

const char *dv_sums_why_not_gemm(const dv_program *p, const dv_op *o)
{
    const dv_access *at[DV_N_OPERANDS];
    int serve[2] = {0};
    if (!find_accesses(o, at))
        return "it is no sum of products of two reads";
    if (side_by_side(p, o, at))
        return "its products are small, and contiguous across a batch";
    for (int v = 0; v < o->n_vars; v++)
        for (int i = 0; i < 2; i++)
            serve[i] |= !o->vars[v].reduce && dv_var_len(o, v) > 1 &&
                        !(dv_access_vars(o, at[i]) >> v & 1);
    if (serve[0] + serve[1] == 0)
        return "no factor is used for several results";
    if (serve[0] != serve[1] && overlaps(p, o, at[serve[0]]))
        return "only one factor is used for several results, and rows of the "
               "other overlap";
    if (serve[0] != serve[1] && is_narrow(p, at[serve[0]]))
        return "its matrix is used once, and a product would first copy it to "
               "a wider type";
    if (serve[0] != serve[1] && dv_op_window(p, o) > 0)
        return "only one factor is used for several results, and it sums over "
               "a small window";
    return NULL;
}

int dv_sums_worth_gemm(const dv_program *p, const dv_op *o)
{
    return !dv_sums_why_not_gemm(p, o);
}

// Derives the nest of an op from which its order of summation is chosen.
// Returns 0 if the op is not a sum of products that kernels can run.
static int derive(dv_nest *n, const dv_program *p, const dv_op *o, int narrow)
{
    const dv_access *at[DV_N_OPERANDS];
    if (!find_accesses(o, at) || !dv_nest_of_product(n, p, o, narrow, NULL))
        return 0;
    n->k_order = DV_K_APART;
    // If a factor has another type than the result, it is converted into a
    // copy, in which k (the summed dimension) need not be contiguous, so that
    // dot products are ruled out.
    for (int i = 0; i < 2; i++) {
        if (p->tensors[at[i]->tensor].dtype != n->dtype)
            n->dot = DV_DOT_NEVER;
        // Results have the same bits whether a factor is computed once or in
        // every run, so the order of sums treats it as one that changes.
        if (p->tensors[at[i]->tensor].is_once)
            n->fixed &= (uint8_t) ~(1u << i);
    }
    return dv_nest_check(n, NULL) == DV_OK;
}

// Returns the length of the blocks into which k (the summed dimension) of a
// plain product of two matrices is cut, such that a panel of B stays in L1
// while panels of A stream past it. `es`: bytes of an element.
static int64_t plain_block(const dv_sums_machine *m, int64_t k, int64_t es)
{
    const dv_isa *isa = dv_isa_of_vector(m->vector_bytes);
    int64_t vector = isa->vector_bytes, unit = vector / es;
    int64_t row = isa->panel_vectors * vector + 2 * isa->panel_rows * es;
    int64_t most =
        dv_max_i64(m->caches.l1 * isa->l1_eighths_panels / 8 / row, unit);
    int64_t parts = dv_ceil_div(k, most);
    return dv_min_i64(k, dv_ceil_div(dv_ceil_div(k, parts), unit) * unit);
}

// Chooses the order of summation of a product of two matrices: dot products if
// the result is small and k (summed) is contiguous in both factors; blocks of k
// if the product is large enough to be packed; otherwise one chain.
static void choose_plain(dv_nest *n, const dv_sums_machine *m)
{
    dv_nest_form f;
    int64_t es = dv_dtype_get(n->dtype)->size_bytes;
    if (dv_nest_form_of(n, &f, NULL) || !f.n_k)
        return;
    int64_t row = dv_nest_size(n, f.row), col = dv_nest_size(n, f.col);
    int64_t k = n->dims[f.k[0]].size;
    int small = row < 8 || col < 8 || k < 8;
    int dots = dv_nest_form_is_dot(&f);
    if (dots && small && n->dot != DV_DOT_NEVER) {
        n->dot = DV_DOT_ALWAYS;
        return;
    }
    n->dot = DV_DOT_NEVER;
    int64_t block = plain_block(m, k, es), bytes;
    int large =
        !dv_mul_i64(&bytes, col, k * es) || bytes > m->caches.l1 * 3 / 4;
    int rows = row >= 16 || n->fixed >> f.in_col & 1;
    if (block < k && ((dots && !small) || (rows && col >= 8 && large))) {
        dv_nest_cut(n, f.k[0], block);
        n->dims[f.k[0] + 1].exec = DV_NEST_PRIM;
        // Move the loop over blocks of k outermost, before the kernel's
        // dimensions.
        dv_nest_move(n, f.k[0], 0);
    }
}

static int by_steps(const void *x, const void *y)
{
    const dv_nest_dim *a = x, *b = y;
    int64_t s = dv_min_i64(a->stride[DV_IN0], a->stride[DV_IN1]);
    int64_t t = dv_min_i64(b->stride[DV_IN0], b->stride[DV_IN1]);
    return s != t ? (s > t ? -1 : 1) : (a->off > b->off) - (a->off < b->off);
}

// Reduces the nest to its k dimensions (the summed ones), summed in one chain
// with large strides outermost. Kernels can sum every product in this order.
static void one_chain_order(dv_nest *n)
{
    int kept = 0;
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].type == DV_NEST_K && n->dims[i].size > 1)
            n->dims[kept++] = n->dims[i];
    n->n_dims = kept;
    qsort(n->dims, (size_t)kept, sizeof *n->dims, by_steps);
    for (int i = kept > DV_FORM_MAX_K ? kept - DV_FORM_MAX_K : 0; i < kept; i++)
        n->dims[i].exec = DV_NEST_PRIM;
    n->dot = DV_DOT_NEVER;
}

// Copies the k dimensions (summed) of a scheduled nest to out->levels, the
// order of summation. Returns 0 if out of memory.
static int take_levels(dv_sum_order *out, const dv_nest *n, dv_arena *arena)
{
    int beside = 0; // whether the last k is contiguous in both factors
    out->n_levels = 0;
    out->levels = DV_NEW(arena, dv_sum_level, n->n_dims);
    for (int i = 0; out->levels && i < n->n_dims; i++) {
        const dv_nest_dim *d = &n->dims[i];
        if (d->type != DV_NEST_K)
            continue;
        out->levels[out->n_levels++] =
            (dv_sum_level){(int32_t)d->off, d->size, d->exec == DV_NEST_PRIM};
        beside = d->stride[DV_IN0] == 1 && d->stride[DV_IN1] == 1;
    }
    // A sum of one product has no k dimension left and is not a dot product,
    // whatever its strides are.
    out->dot = n->dot == DV_DOT_ALWAYS && beside;
    return out->levels != NULL;
}

// Chooses an order of summation for matrix instructions on bf16 and i8
// (`pairs`): all k inside the kernel as one sequence, cut into blocks whose
// panels fit into L1. Returns 0 if these instructions do not pay or the machine
// has no such instructions.
static int choose_pairs(const dv_nest *whole, const dv_sums_machine *m,
                        dv_nest *out)
{
    enum { LEAST = 8, MOST_K = 1 << 16, PANELS = 28 };
    int64_t es = dv_dtype_get((dv_dtype)whole->narrow)->size_bytes;
    // Sizes of m, n and k. They do not overflow, because the element counts of
    // tensors are multiples of them.
    int64_t inner = 1, size[3] = {1, 1, 1};
    for (int i = 0; i < whole->n_dims; i++)
        if (whole->dims[i].type != DV_NEST_C)
            size[whole->dims[i].type - DV_NEST_M] *= whole->dims[i].size;
    dv_nest_copy(out, whole);
    one_chain_order(out);
    for (int i = 1; i < out->n_dims; i++)
        inner *= out->dims[i].size;
    int64_t most = m->caches.l1 * 7 / 8 / (PANELS * es), unit = 8 / es;
    int64_t parts = dv_ceil_div(size[2], dv_max_i64(most, unit));
    int64_t block = dv_ceil_div(dv_ceil_div(size[2], parts), unit) * unit;
    int can = whole->narrow == DV_I8 ? m->dots : m->matrix;
    if (!can || size[0] < LEAST || size[1] < LEAST || size[2] < 2 * LEAST ||
        size[2] > MOST_K || inner > block || out->n_dims > DV_FORM_MAX_K)
        return 0;
    if (block / inner < out->dims[0].size)
        dv_nest_cut(out, 0, block / inner);
    return 1;
}

// Returns whether the whole op as one tile would have a kernel of at least 8 x
// 8 for matrix instructions on bf16 and i8 (`pairs`). Factors in which k is not
// contiguous are copied first, so k is assumed to be.
static int suits_pairs(const dv_sum_order *s, const dv_nest *whole)
{
    dv_nest n = *whole;
    dv_nest_form f;
    int64_t block, step[2] = {1, 1};
    // Set the strides of k to those of copies in which k is contiguous.
    for (int i = s->n_levels - 1; i >= 0; i--)
        for (int j = 0; j < n.n_dims; j++) {
            dv_nest_dim *d = &n.dims[j];
            if (d->type != DV_NEST_K || d->off != (uint32_t)s->levels[i].var ||
                !s->levels[i].inside)
                continue;
            for (int o = 0; o < 2; o++) {
                d->stride[o] = step[o];
                step[o] *= d->size;
            }
        }
    for (int j = 0; j < n.n_dims; j++)
        for (int o = 0; o < 2; o++)
            if (n.dims[j].type != DV_NEST_K && n.dims[j].stride[o]) {
                n.dims[j].stride[o] = step[o];
                step[o] *= n.dims[j].size;
            }
    if (!dv_sums_apply(s, &n))
        return 0;
    dv_nest_join(&n, NULL, NULL);
    return dv_sums_schedule_narrow(&n, &block) &&
           !dv_nest_form_of(&n, &f, NULL) && dv_nest_size(&n, f.row) >= 8 &&
           dv_nest_size(&n, f.col) >= 8;
}

static int has_k_inside(const dv_nest *n)
{
    int any = 0, inside = 0;
    for (int i = 0; i < n->n_dims; i++) {
        any |= n->dims[i].type == DV_NEST_K;
        inside |=
            n->dims[i].type == DV_NEST_K && n->dims[i].exec == DV_NEST_PRIM;
    }
    return inside || !any;
}

dv_status dv_sums_choose(dv_sum_order *out, int *found, const dv_program *p,
                         int32_t op, const dv_sums_machine *machine,
                         dv_arena *arena, dv_diag *diag)
{
    dv_nest whole, n, tried;
    dv_nest_form f;
    dv_nest_options o = {.size = sizeof(dv_nest_options),
                         .threads = 1,
                         .l1_bytes = machine->caches.l1,
                         .l2_bytes = machine->caches.l2,
                         .l3_bytes = machine->caches.l3};
    *out = (dv_sum_order){0};
    *found = derive(&whole, p, &p->ops[op], 1);
    if (!*found)
        return DV_OK;
    if (whole.narrow && choose_pairs(&whole, machine, &n)) {
        if (!take_levels(out, &n, arena))
            return dv_nomem(diag);
        out->pairs = 1;
        if (suits_pairs(out, &whole))
            return DV_OK;
        *out = (dv_sum_order){0};
    }
    if (whole.narrow)
        derive(&whole, p, &p->ops[op], 0);
    dv_nest_copy(&n, &whole);
    dv_nest_join(&n, &o, NULL);
    if (dv_nest_is_gemm(&n, &n)) {
        choose_plain(&n, machine);
    } else {
        dv_nest_schedule(&n, &o);
        int ok = dv_nest_form_of(&n, &f, NULL) == DV_OK;
        n.dot = ok && dv_nest_form_is_dot(&f) ? DV_DOT_ALWAYS : DV_DOT_NEVER;
    }
    if (!take_levels(out, &n, arena))
        return dv_nomem(diag);
    dv_nest_copy(&tried, &whole);
    if (has_k_inside(&n) && dv_sums_apply(out, &tried))
        return DV_OK;
    one_chain_order(&whole);
    return take_levels(out, &whole, arena) ? DV_OK : dv_nomem(diag);
}
