// Finds the form of a nest: which dimensions are the kernel's rows and columns,
// and which operands it reads in place or from a packing buffer. In place, an
// operand needs unit stride along
//
//   rows x k         k, or the rows (transposed)
//   k x columns      the columns, or k (transposed)
//   rows x columns   the columns
//
// If there is more than one k inside the kernel, either both inputs are packed,
// or both are read in place and there are two k (a batch of products), or the
// columns are packed before the first run, and the rows, in place, are a batch
// of products: all k are one run of elements in each product, and one step from
// each to the next.
#include "nest/nest.h"
#include <inttypes.h>

// Fewest columns for which a packed input becomes the operand that has the
// kernel's columns.
enum { LEAST_COLUMNS = 4 };

static int64_t step_of(const dv_nest *n, int dim, int operand)
{
    return dim < 0 ? 1 : n->dims[dim].stride[operand];
}

// Returns whether an operand is a matrix that a kernel can read: elements along
// `cols` are contiguous, and the stride along `rows` is at least as large as a
// row and small enough for the kernel's addressing.
static int is_rows(const dv_nest *n, int operand, int rows, int cols)
{
    int64_t wide = dv_nest_size(n, cols);
    if (wide > 1 && step_of(n, cols, operand) != 1)
        return 0;
    return dv_nest_size(n, rows) == 1 ||
           (step_of(n, rows, operand) >= wide &&
            step_of(n, rows, operand) <= DV_FORM_MAX_STEP);
}

static int packed_where(const dv_nest *n, int operand)
{
    if (n->pack >> operand & 1)
        return DV_FORM_TOP;
    for (int i = 0; i < n->n_dims && n->dims[i].exec != DV_NEST_PRIM; i++)
        if (n->dims[i].pack >> operand & 1)
            return i;
    return DV_FORM_NEVER;
}

// Checks that loops over tiles inside the kernel have only whole tiles, because
// a kernel cuts no tile short.
static dv_status check_inside(const dv_nest *n, const dv_nest_form *f,
                              dv_diag *diag)
{
    dv_nest_tiles t;
    int bad;
    if (!dv_nest_tiles_of(n, &t, &bad))
        // If the tiles are invalid, nothing is checked here: check_tiles in
        // verify.c reports them.
        return DV_OK;
    for (int i = f->n_loops; i < n->n_dims; i++) {
        const dv_nest_dim *d = &n->dims[i];
        int in = t.inner[i];
        if (in >= 0 && n->dims[in].whole % (d->size * t.unit[i]) != 0)
            return dv_fail(diag, DV_E_NEST, (dv_loc){n->src, d->off},
                           "invalid_primitive_configuration: dimension %d has "
                           "%" PRId64 " tiles of %" PRId64
                           " inside the kernel, which cuts none short: %" PRId64
                           " are not whole ones",
                           i, d->size, t.unit[i], n->dims[in].whole);
    }
    return DV_OK;
}

dv_status dv_nest_form_dims(const dv_nest *n, dv_nest_form *f, dv_diag *diag)
{
    *f = (dv_nest_form){0};
    int at[2] = {-1, -1}; // dimensions m and n of the kernel
    while (f->n_loops < n->n_dims && n->dims[f->n_loops].exec != DV_NEST_PRIM)
        f->n_loops++;
    for (int i = f->n_loops; i < n->n_dims; i++) {
        const dv_nest_dim *d = &n->dims[i];
        dv_loc loc = {n->src, d->off};
        if (d->type == DV_NEST_K && f->n_k < DV_FORM_MAX_K) {
            f->k[f->n_k++] = i;
            continue;
        }
        if (d->type == DV_NEST_K || d->type == DV_NEST_C)
            return dv_fail(diag, DV_E_NEST, loc,
                           "invalid_primitive_configuration: dimension %d of "
                           "type %s is prim, kernels have one "
                           "m, one n and %d k inside at most",
                           i, dv_nest_type_name(d->type), (int)DV_FORM_MAX_K);
        int *to = &at[d->type == DV_NEST_N];
        if (*to >= 0)
            return dv_fail(diag, DV_E_NEST, loc,
                           "invalid_primitive_configuration: dimensions %d and "
                           "%d of type %s are prim, 1 is "
                           "possible",
                           *to, i, dv_nest_type_name(d->type));
        *to = i;
    }
    f->row = at[1];
    f->col = at[0];
    f->in_row = DV_IN1;
    f->in_col = DV_IN0;
    return f->n_k > 1 ? check_inside(n, f, diag) : DV_OK;
}

static void exchange(dv_nest_form *f)
{
    int t = f->row;
    f->row = f->col;
    f->col = t;
    f->in_row = DV_N_OPERANDS - 2 - f->in_row;
    f->in_col = DV_N_OPERANDS - 2 - f->in_col;
}

// Chooses which of the nest's dimensions m and n becomes the kernel's columns:
// the one with unit stride in the output. If the output is packed, it is the
// one with unit stride in its input, or the one whose input is packed while the
// other is read in place.
static void choose_columns(const dv_nest *n, dv_nest_form *f)
{
    int packed = f->pack[DV_OUT] != DV_FORM_NEVER;
    int row_in = f->pack[f->in_row] == DV_FORM_NEVER;
    int col_in = f->pack[f->in_col] == DV_FORM_NEVER;
    int as_is = is_rows(n, DV_OUT, f->row, f->col);
    int other = is_rows(n, DV_OUT, f->col, f->row);
    if (packed) {
        as_is = f->col >= 0 && n->dims[f->col].stride[f->in_col] == 1;
        other = f->row >= 0 && n->dims[f->row].stride[f->in_row] == 1;
    }
    if (packed && row_in != col_in &&
        dv_nest_size(n, row_in ? f->col : f->row) >= LEAST_COLUMNS) {
        as_is = row_in;
        other = col_in;
    }
    // If both the rows and the columns chosen so far could be the columns, or
    // neither could, the larger one becomes the columns.
    if (as_is == other ? dv_nest_size(n, f->row) > dv_nest_size(n, f->col)
                       : other)
        exchange(f);
}

static dv_status in_place(const dv_nest *n, int operand, dv_diag *diag)
{
    return dv_fail(diag, DV_E_NEST, (dv_loc){n->src, n->off},
                   "invalid_strides: the kernel of nest %s cannot read %s "
                   "where it is, and it is "
                   "not packed",
                   n->name, dv_nest_operand_name(operand));
}

// Returns the innermost k (summed dimension) of the kernel. If there are two
// and no input is packed, the outer k is a batch of products.
static int k_inside(const dv_nest_form *f)
{
    return f->n_k ? f->k[f->n_k - 1] : -1;
}

// Returns the first of the kernel's k dimensions (summed) that form one
// contiguous run in the operand, up to number end - 1: one step of each spans
// the whole extent of the next inner one.
static int run_of_k(const dv_nest *n, const dv_nest_form *f, int operand,
                    int end)
{
    int i = end - 1;
    for (; i > 0; i--) {
        const dv_nest_dim *in = &n->dims[f->k[i]];
        int whole = in->whole % in->size == 0;
        if (!whole || !dv_nest_continues(&n->dims[f->k[i - 1]], in, operand))
            break;
    }
    return i;
}

// Finds which outer k dimensions (summed) are a batch of products. Returns 0 if
// the kernel cannot sum all k, because an input is read in place whose k
// dimensions do not form runs as required.
static int find_batch(const dv_nest *n, dv_nest_form *f)
{
    int row_in = f->pack[f->in_row] == DV_FORM_NEVER;
    int col_in = f->pack[f->in_col] == DV_FORM_NEVER;
    f->n_batch = 0;
    if (f->n_k < 2 || (!row_in && !col_in))
        return 1;
    if (col_in) {
        f->n_batch = 1;
        return f->n_k == 2 && row_in;
    }
    // The k outside the innermost run are a batch of products, whose rows may
    // overlap in memory, unlike those of a single product.
    int first = run_of_k(n, f, f->in_row, f->n_k);
    f->n_batch = first ? first : 1;
    return n->fixed >> f->in_col & 1 &&
           (!first || !run_of_k(n, f, f->in_row, first));
}

dv_status dv_nest_form_of(const dv_nest *n, dv_nest_form *out, dv_diag *diag)
{
    dv_nest_form f;
    int pack[DV_N_OPERANDS];
    DV_TRY(dv_nest_form_dims(n, &f, diag));
    for (int o = 0; o < DV_N_OPERANDS; o++)
        pack[o] = packed_where(n, o);
    return dv_nest_form_packed(n, &f, pack, out, diag);
}

dv_status dv_nest_form_packed(const dv_nest *n, const dv_nest_form *dims,
                              const int pack[], dv_nest_form *out,
                              dv_diag *diag)
{
    dv_nest_form f = *dims;
    for (int o = 0; o < DV_N_OPERANDS; o++)
        f.pack[o] = pack[o];
    choose_columns(n, &f);
    int row_in = f.pack[f.in_row] == DV_FORM_NEVER;
    int col_in = f.pack[f.in_col] == DV_FORM_NEVER;
    int k = k_inside(&f);
    if (!find_batch(n, &f))
        return in_place(n, row_in ? f.in_row : f.in_col, diag);
    int lone = dv_nest_size(n, f.col) == 1 && is_rows(n, f.in_col, f.col, k);
    if (col_in && (lone || !is_rows(n, f.in_col, k, f.col))) {
        f.col_transposed = 1;
        if (!is_rows(n, f.in_col, f.col, k))
            return in_place(n, f.in_col, diag);
    }
    if (row_in && !is_rows(n, f.in_row, f.row, k)) {
        f.row_transposed = 1;
        if (!is_rows(n, f.in_row, k, f.row))
            return in_place(n, f.in_row, diag);
    }
    if (f.pack[DV_OUT] == DV_FORM_NEVER && !is_rows(n, DV_OUT, f.row, f.col))
        return in_place(n, DV_OUT, diag);
    *out = f;
    return DV_OK;
}

int dv_nest_form_is_dot(const dv_nest_form *f)
{
    return f->col_transposed && !f->row_transposed &&
           f->pack[f->in_row] == DV_FORM_NEVER &&
           f->pack[f->in_col] == DV_FORM_NEVER;
}

int dv_nest_kernel_packs(const dv_nest *n, const dv_nest_form *f)
{
    return f->n_loops > 0 && f->pack[f->in_col] == f->n_loops - 1 &&
           f->pack[f->in_row] != DV_FORM_NEVER && f->n_k == 1 && f->col >= 0 &&
           n->dims[f->col].stride[f->in_col] == 1 &&
           dv_nest_size(n, f->k[0]) > 1 && !(n->fixed >> f->in_col & 1) &&
           is_rows(n, f->in_col, f->k[0], f->col);
}

int dv_nest_is_gemm(const dv_nest *n, dv_nest *as)
{
    static const dv_nest_type order[] = {DV_NEST_C, DV_NEST_M, DV_NEST_N,
                                         DV_NEST_K};
    dv_nest a;
    dv_nest_form f;
    if (!dv_nest_is_product(n) || dv_nest_is_tiled(n))
        return 0;
    dv_nest_copy(&a, n);
    a.n_dims = 0;
    for (int t = 0; t < 4; t++) {
        int count = 0;
        for (int i = 0; i < n->n_dims; i++) {
            if (n->dims[i].type != order[t])
                continue;
            dv_nest_dim *d = &a.dims[a.n_dims++];
            *d = n->dims[i];
            if (order[t] != DV_NEST_C)
                d->exec = DV_NEST_PRIM;
            count++;
        }
        if (order[t] != DV_NEST_C && count > 1)
            return 0;
    }
    if (a.dims[a.n_dims - 1].type == DV_NEST_C || dv_nest_form_of(&a, &f, NULL))
        return 0;
    // If the kernel has fewer than 4 rows, it takes at most DV_FORM_THIN_K
    // iterations of k, so that it reads memory along contiguous rows. A larger
    // k is then not one plain GEMM, unless its columns are packed before.
    if (dv_nest_size(&a, f.row) < 4 && !f.col_transposed && f.n_k &&
        !(n->fixed >> f.in_col & 1) && a.dims[f.k[0]].size > DV_FORM_THIN_K)
        return 0;
    if (as)
        dv_nest_copy(as, &a);
    return 1;
}
