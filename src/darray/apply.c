// Functions of elements: programs of one statement, whose kernels run on boxes
// of this rank's part. function.c knows the functions and their programs.
//
// Each operand has a wanted box: the elements that the rank's part of the
// result reads. Where the rank owns all wanted elements of all operands is the
// core; it is computed while the other elements travel, from the operands'
// memory. The edges around it are computed afterwards, from copies of them:
//
//   result            [0 1 2 3]   rank 0 of 2, r[i] = a[i] + b[i + 1]
//   a                 [0 1 2 3]   all its own
//   b                   [1 2 3] 4 the last one comes from rank 1
//   core              [0 1 2]     edge [3], which reads a copy of b[4]
#include "darray/function.h"
#include "base/math.h"
#include "base/plural.h"
#include <inttypes.h>
#include <string.h>

typedef struct input {
    const dv_darray *a;
    int skip; // number of dims of the result in front of those of the operand
    dv_dist wanted; // a distribution whose own boxes are what the ranks read
    dv_box box;     // what this rank reads
    dv_exchange *e; // NULL: every rank has what it reads
    dv_transfer *f;
    // Memory of the size of `box` into which received elements are unpacked,
    // and own elements copied that the edges read. NULL data: not needed.
    dv_mem copies;
} input;

typedef struct job {
    dv_darray *to;
    const dv_function *function;
    dv_elem types[DV_FUNCTION_OPERANDS];
    input in[DV_FUNCTION_OPERANDS];
    int n;
    dv_mem out; // where results are written
    void *room; // memory of `out` if it is not that of `to`
} job;

// -- Shapes -------------------------------------------------------------------

// Finds the shape of the result by broadcasting the operands' shapes.
static dv_status result_shape(int *n_dims, int64_t *shape,
                              const dv_darray *const *operands, int n,
                              dv_diag *diag)
{
    *n_dims = 0;
    for (int k = 0; k < n; k++)
        *n_dims = operands[k]->dist.n_dims > *n_dims ? operands[k]->dist.n_dims
                                                     : *n_dims;
    for (int i = 0; i < *n_dims; i++)
        shape[i] = 1;
    for (int k = 0; k < n; k++) {
        const dv_dist *d = &operands[k]->dist;
        int64_t *at = shape + *n_dims - d->n_dims;
        for (int i = 0; i < d->n_dims; i++) {
            if (d->shape[i] != 1 && at[i] != 1 && at[i] != d->shape[i])
                return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                               "operand %d has %" PRId64
                               " element%s in dim %d, another one %" PRId64
                               ": sizes are equal or 1",
                               k, d->shape[i], DV_PLURAL(d->shape[i], "", "s"),
                               i, at[i]);
            at[i] = d->shape[i] == 1 ? at[i] : d->shape[i];
        }
    }
    return DV_OK;
}

// Returns whether dim i of the operand has the size of the result's dim; if
// not, it has one element, which broadcasts.
static int follows(const input *in, const dv_dist *result, int i)
{
    return in->a->dist.shape[i] == result->shape[i + in->skip];
}

// Returns the operand's elements that are read for the elements `box` of the
// result.
static dv_box read_box(const input *in, const dv_dist *result,
                       const dv_box *box)
{
    dv_box b = {.n_dims = in->a->dist.n_dims};
    for (int i = 0; i < b.n_dims; i++)
        b.dim[i] =
            follows(in, result, i) ? box->dim[i + in->skip] : (dv_range){0, 1};
    return b;
}

// Sets in->wanted to a distribution in which the box that a rank owns is what
// it reads of the operand.
static void want(input *in, const dv_dist *result)
{
    dv_dist *w = &in->wanted;
    *w = (dv_dist){.n_dims = in->a->dist.n_dims, .n_axes = result->n_axes};
    memcpy(w->grid, result->grid, sizeof w->grid);
    for (int i = 0; i < w->n_dims; i++) {
        int j = i + in->skip;
        w->shape[i] = in->a->dist.shape[i];
        w->axis[i] = -1;
        if (!follows(in, result, i))
            continue;
        w->axis[i] = result->axis[j];
        w->starts[i] = result->starts[j];
        w->slice[i] = result->slice[j];
        w->whole[i] = result->whole[j];
    }
}

static int same_range(dv_range a, dv_range b)
{
    return a.off == b.off && a.size == b.size;
}

// Returns 1 if every rank owns all that it reads, so that no messages are
// needed. All ranks get the same answer.
static int all_there(const dv_dist *have, const dv_dist *wanted)
{
    if (have->n_axes != wanted->n_axes ||
        memcmp(have->grid, wanted->grid,
               (size_t)have->n_axes * sizeof *have->grid))
        return 0;
    for (int i = 0; i < have->n_dims; i++) {
        if (have->axis[i] < 0)
            continue; // every rank has the whole dim
        if (have->axis[i] != wanted->axis[i])
            return 0;
        for (int64_t k = 0; k < have->grid[have->axis[i]]; k++)
            if (!same_range(dv_dist_dim(have, i, k), dv_dist_dim(wanted, i, k)))
                return 0;
    }
    return 1;
}

// -- Preparing ----------------------------------------------------------------

static dv_status prepare_input(job *j, int k, dv_diag *diag)
{
    input *in = &j->in[k];
    const dv_dist *result = &j->to->dist;
    int64_t bytes = dv_darray_bytes(in->a), room;
    want(in, result);
    in->box = read_box(in, result, &j->to->own);
    if (all_there(&in->a->dist, &in->wanted))
        return DV_OK;
    DV_TRY(dv_dist_move(&in->e, &in->a->dist, &in->wanted,
                        j->to->link->comm->rank, diag));
    if (dv_box_in(&in->box, &in->a->own) && in->e->n_receives == 0)
        return DV_OK;
    if (!dv_mul_i64(&room, dv_box_elems(&in->box), bytes))
        return dv_nomem(diag);
    char *data = dv_alloc((size_t)dv_max_i64(room, 1));
    if (!data)
        return dv_nomem(diag);
    in->copies = dv_mem_rows(data, &in->box, bytes);
    return DV_OK;
}

// Prepares all operands, and chooses where results are written: in a buffer
// first, if they could overwrite elements that are still to be read.
static dv_status prepare(job *j, dv_diag *diag)
{
    int shared = 0;
    for (int k = 0; k < j->n; k++) {
        DV_TRY(prepare_input(j, k, diag));
        shared |= j->in[k].a->share == j->to->share;
    }
    j->out = j->to->mem;
    if (!shared || dv_box_empty(&j->to->own))
        return DV_OK;
    int64_t bytes = dv_darray_bytes(j->to);
    j->room = dv_alloc((size_t)(dv_box_elems(&j->to->own) * bytes));
    if (!j->room)
        return dv_nomem(diag);
    j->out = dv_mem_rows(j->room, &j->to->own, bytes);
    return DV_OK;
}

static dv_status open_transfers(job *j, dv_diag *diag)
{
    for (int k = 0; k < j->n; k++) {
        input *in = &j->in[k];
        if (!in->e)
            continue;
        dv_transfer_boxes c = {in->e->sends, in->e->receives, in->e->n_sends,
                               in->e->n_receives};
        DV_TRY(dv_transfer_create(&in->f, j->to->link, &c,
                                  dv_darray_bytes(in->a), diag));
    }
    return DV_OK;
}

// -- Computing ----------------------------------------------------------------

// Returns the box of the result for which this rank owns all that is read.
static dv_box find_core(const job *j)
{
    dv_box core = j->to->own;
    for (int k = 0; k < j->n; k++) {
        const input *in = &j->in[k];
        const dv_box *own = &in->a->own;
        for (int i = 0; i < own->n_dims; i++) {
            dv_range *c = &core.dim[i + in->skip];
            if (follows(in, &j->to->dist, i))
                *c = dv_dist_intersection(*c, own->dim[i]);
            else if (own->dim[i].size == 0)
                c->size = 0;
        }
    }
    return core;
}

// Computes a box of the result, reading the operands' own memory or, if
// `copies` is 1, the copies with received elements.
static dv_status compute(job *j, const dv_box *box, int copies, dv_diag *diag)
{
    dv_function_array to = {.data = dv_mem_at(&j->out, box)};
    dv_function_array from[DV_FUNCTION_OPERANDS];
    int n = box->n_dims;
    if (dv_box_empty(box))
        return DV_OK;
    for (int i = 0; i < n; i++)
        to.stride[i] = j->out.stride[i] / dv_darray_bytes(j->to);
    for (int k = 0; k < j->n; k++) {
        input *in = &j->in[k];
        const dv_mem *m = copies && in->copies.data ? &in->copies : &in->a->mem;
        dv_box b = read_box(in, &j->to->dist, box);
        int64_t bytes = dv_darray_bytes(in->a);
        if (m == &in->copies) {
            dv_box mine = dv_box_inner(&b, &in->a->own);
            dv_mem_copy(m, &in->a->mem, &mine, bytes);
        }
        from[k] = (dv_function_array){.data = dv_mem_at(m, &b)};
        for (int i = 0; i < b.n_dims; i++)
            if (follows(in, &j->to->dist, i))
                from[k].stride[i + in->skip] = m->stride[i] / bytes;
    }
    int64_t shape[DV_MAX_DIMS];
    for (int i = 0; i < n; i++)
        shape[i] = box->dim[i].size;
    return dv_function_run(j->function, j->to->link, j->types, j->to->type, n,
                           shape, &to, from, diag);
}

// Starts all messages, computes the core (results that need no received
// elements), waits, and computes the edges (all other results). The messages
// are completed even if computing fails.
static dv_status run(job *j, dv_diag *mine, dv_diag *diag)
{
    dv_box core = find_core(j), edges[2 * DV_MAX_DIMS];
    int n_edges = dv_dist_edges(edges, &j->to->own, &core), started = 0;
    dv_status st = DV_OK, sent = DV_OK;
    for (; sent == DV_OK && started < j->n; started++)
        if (j->in[started].f)
            sent = dv_transfer_start(j->in[started].f, &j->in[started].a->mem,
                                     diag);
    if (sent == DV_OK)
        st = compute(j, &core, 0, mine);
    for (int k = 0; sent == DV_OK && k < j->n; k++)
        if (j->in[k].f)
            sent = dv_transfer_wait(j->in[k].f, &j->in[k].copies, diag);
    for (int i = 0; sent == DV_OK && st == DV_OK && i < n_edges; i++)
        st = compute(j, &edges[i], 1, mine);
    if (sent == DV_OK && st == DV_OK && j->room)
        dv_mem_copy(&j->to->mem, &j->out, &j->to->own, dv_darray_bytes(j->to));
    if (sent != DV_OK) {
        dv_diag_destroy(mine);
        return sent;
    }
    return dv_team_agree(j->to->link, st, mine, diag);
}

static void free_job(job *j)
{
    for (int k = 0; k < j->n; k++) {
        dv_transfer_destroy(j->in[k].f);
        dv_exchange_destroy(j->in[k].e);
        dv_release(j->in[k].copies.data);
    }
    dv_release(j->room);
}

static dv_status apply(dv_darray *to, const dv_function *f,
                       const dv_darray *const *operands, int n, dv_diag *diag)
{
    job j = {.to = to, .function = f, .n = n};
    uint64_t h = dv_darray_hash(to, dv_function_hash(f, DV_HASH));
    for (int k = 0; k < n; k++) {
        const dv_darray *a = operands[k];
        j.in[k].a = a;
        j.in[k].skip = to->dist.n_dims - a->dist.n_dims;
        j.types[k] = a->type;
        h = dv_darray_hash(a, h);
    }
    DV_TRY(dv_team_check_same(to->link, "function of arrays", h, diag));
    dv_diag *mine = dv_diag_create();
    dv_status st = dv_team_agree(to->link, prepare(&j, mine), mine, diag);
    if (st == DV_OK)
        st = open_transfers(&j, diag);
    if (st == DV_OK)
        st = run(&j, dv_diag_create(), diag);
    free_job(&j);
    return st;
}

// -- The calls ----------------------------------------------------------------

static dv_status check_operands(const dv_darray *const *operands, int n,
                                dv_diag *diag)
{
    for (int k = 0; k < n; k++) {
        DV_TRY(dv_darray_complete(operands[k], diag));
        if (operands[k]->link != operands[0]->link)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "the arrays are on different teams");
    }
    return DV_OK;
}

static dv_status find(const dv_function **f, dv_elem *type,
                      const char *function, const dv_darray *const *operands,
                      int n, dv_diag *diag)
{
    dv_elem types[DV_FUNCTION_OPERANDS] = {DV_ELEM_F64};
    for (int k = 0; k < n && k < DV_FUNCTION_OPERANDS; k++)
        types[k] = operands[k]->type;
    return dv_function_find(f, type, function, types, n, diag);
}

static dv_status check_target(const dv_darray *to, dv_elem type,
                              const dv_darray *const *operands, int n,
                              dv_diag *diag)
{
    int64_t shape[DV_MAX_DIMS];
    int n_dims;
    DV_TRY(dv_darray_idle(to, diag));
    DV_TRY(dv_darray_complete(to, diag));
    if (n && to->link != operands[0]->link)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the arrays are on different teams");
    if (to->type != type)
        return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                       "the result is %s, the array %s",
                       dv_elem_get(type)->name, dv_elem_get(to->type)->name);
    DV_TRY(result_shape(&n_dims, shape, operands, n, diag));
    int ok = n_dims <= to->dist.n_dims;
    for (int i = 0; ok && i < n_dims; i++) {
        int64_t have = to->dist.shape[i + to->dist.n_dims - n_dims];
        if (shape[i] != have && shape[i] != 1)
            return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                           "the result has %" PRId64
                           " element%s in dim %d, the array %" PRId64,
                           shape[i], DV_PLURAL(shape[i], "", "s"), i, have);
    }
    if (!ok)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "the result has %d dim%s, the array %d", n_dims,
                       DV_PLURAL(n_dims, "", "s"), to->dist.n_dims);
    return DV_OK;
}

dv_status dv_darray_apply(dv_darray *to, const char *function,
                          const dv_darray *const *operands, int n_operands,
                          dv_diag *diag)
{
    const dv_function *f;
    dv_elem type;
    DV_TRY(find(&f, &type, function, operands, n_operands, diag));
    DV_TRY(check_operands(operands, n_operands, diag));
    DV_TRY(check_target(to, type, operands, n_operands, diag));
    return apply(to, f, operands, n_operands, diag);
}

// Returns the distribution of a new result. It has the grid of the first
// operand with all dims of the result. Each dim is cut as in that operand or,
// if it does not cut the dim, in the first other operand over this grid that
// does.
static dv_status result_dist(dv_dist *out, const dv_darray *const *operands,
                             int n, dv_diag *diag)
{
    dv_dist d = {0};
    const dv_dist *first = &operands[0]->dist;
    DV_TRY(result_shape(&d.n_dims, d.shape, operands, n, diag));
    for (int k = n - 1; k >= 0; k--)
        if (operands[k]->dist.n_dims == d.n_dims)
            first = &operands[k]->dist;
    d.n_axes = first->n_axes;
    memcpy(d.grid, first->grid, sizeof d.grid);
    for (int i = 0; i < d.n_dims; i++)
        d.axis[i] = -1;
    unsigned used = 0;
    for (int k = -1; k < n; k++) {
        const dv_dist *from = k < 0 ? first : &operands[k]->dist;
        int skip = d.n_dims - from->n_dims;
        if (from->n_axes != d.n_axes ||
            memcmp(from->grid, d.grid, (size_t)d.n_axes * sizeof *d.grid))
            continue;
        for (int i = 0; i < from->n_dims; i++) {
            int j = i + skip, axis = from->axis[i];
            if (from->shape[i] != d.shape[j] || axis < 0 || d.axis[j] >= 0 ||
                used >> axis & 1)
                continue;
            used |= 1u << axis;
            d.axis[j] = axis;
            d.starts[j] = from->starts[i];
            d.slice[j] = from->slice[i];
            d.whole[j] = from->whole[i];
        }
    }
    *out = d;
    return DV_OK;
}

static dv_status compute_new(dv_darray **out, const dv_function *f,
                             dv_elem type, const dv_darray *const *operands,
                             int n, dv_diag *diag)
{
    dv_dist d;
    dv_darray *to = NULL;
    DV_TRY(check_operands(operands, n, diag));
    DV_TRY(result_dist(&d, operands, n, diag));
    DV_TRY(dv_darray_create(&to, operands[0]->link, type, &d, NULL, diag));
    dv_status st = apply(to, f, operands, n, diag);
    if (st == DV_OK)
        *out = to;
    else
        dv_darray_destroy(to);
    return st;
}

dv_status dv_darray_compute(dv_darray **out, const char *function,
                            const dv_darray *const *operands, int n_operands,
                            dv_diag *diag)
{
    const dv_function *f;
    dv_elem type;
    DV_TRY(find(&f, &type, function, operands, n_operands, diag));
    return compute_new(out, f, type, operands, n_operands, diag);
}

dv_status dv_darray_cast(dv_darray **out, const dv_darray *a, dv_elem type,
                         dv_diag *diag)
{
    const dv_function *f;
    DV_TRY(dv_function_cast(&f, a->type, type, diag));
    return compute_new(out, f, type, &a, 1, diag);
}
