// The public API of box lists, and constructors of common distributions.
#include "base/plural.h"
#include "dist/dist.h"
#include <inttypes.h>

dv_status dv_box_list_create(dv_box_list **out, int n_dims, dv_diag *diag)
{
    if (n_dims < 0 || n_dims > DV_MAX_DIMS)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "boxes of %d dim%s: at most %d are possible", n_dims,
                       DV_PLURAL(n_dims, "", "s"), DV_MAX_DIMS);
    dv_box_list *l = dv_alloc(sizeof *l);
    if (!l)
        return dv_nomem(diag);
    *l = (dv_box_list){.n_dims = n_dims};
    *out = l;
    return DV_OK;
}

void dv_box_list_destroy(dv_box_list *l)
{
    if (!l)
        return;
    dv_arena_free(&l->arena);
    dv_release(l);
}

static dv_status check_dims(const dv_box_list *l, const dv_box *b,
                            dv_diag *diag)
{
    if (b->n_dims == l->n_dims)
        return DV_OK;
    return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                   "a box of %d dim%s in a list of boxes of %d", b->n_dims,
                   DV_PLURAL(b->n_dims, "", "s"), l->n_dims);
}

dv_status dv_box_list_add(dv_box_list *l, const dv_box *global_box,
                          dv_diag *diag)
{
    DV_TRY(check_dims(l, global_box, diag));
    return dv_boxes_add(&l->boxes, global_box, &l->arena) ? DV_OK
                                                          : dv_nomem(diag);
}

dv_status dv_box_list_subtract(dv_box_list *l, const dv_box *global_box,
                               dv_diag *diag)
{
    DV_TRY(check_dims(l, global_box, diag));
    return dv_boxes_subtract(&l->boxes, global_box, &l->arena) ? DV_OK
                                                               : dv_nomem(diag);
}

void dv_box_list_join(dv_box_list *l)
{
    dv_boxes_join(&l->boxes);
}

size_t dv_box_list_count(const dv_box_list *l)
{
    return (size_t)l->boxes.n;
}

dv_box dv_box_list_at(const dv_box_list *l, size_t i)
{
    return l->boxes.at[i];
}

int64_t dv_box_list_elems(const dv_box_list *l)
{
    return dv_boxes_elems(&l->boxes);
}

dv_dist dv_dist_rows(int n_dims, const int64_t *shape, int64_t n_ranks)
{
    dv_dist d = {.n_dims = n_dims, .n_axes = 1, .grid = {n_ranks}};
    for (int i = 0; i < n_dims && i < DV_MAX_DIMS; i++) {
        d.shape[i] = shape[i];
        d.axis[i] = i == 0 ? 0 : -1;
    }
    return d;
}

// Returns the number of elements that all ranks together receive for a halo of
// width 1: two layers of elements at every cut of a dim.
static double halo_elems(const dv_dist *d, const int64_t *grid, int n_axes)
{
    double sum = 0;
    for (int a = 0; a < n_axes; a++) {
        double row = 1;
        for (int i = 0; i < d->n_dims; i++)
            row *= i == a ? 1 : (double)d->shape[i];
        sum += 2 * (double)(grid[a] - 1) * row;
    }
    return sum;
}

// Returns 1 if some rank owns no elements because a dim is shorter than its
// axis.
static int some_empty(const dv_dist *d, const int64_t *grid, int n_axes)
{
    for (int a = 0; a < n_axes; a++)
        if (grid[a] > d->shape[a])
            return 1;
    return 0;
}

// Steps through all factorizations of n into n_axes factors; the last factor is
// the remaining quotient. Returns 0 after the last one.
static int next_grid(int64_t *grid, int n_axes, int64_t n)
{
    for (int a = n_axes - 2; a >= 0; a--) {
        int64_t left = n;
        for (int b = 0; b < a; b++)
            left /= grid[b];
        do
            grid[a]++;
        while (grid[a] <= left && left % grid[a]);
        if (grid[a] > left)
            continue;
        left /= grid[a];
        for (int b = a + 1; b < n_axes - 1; b++)
            grid[b] = 1;
        grid[n_axes - 1] = left;
        return 1;
    }
    return 0;
}

dv_status dv_dist_blocks(dv_dist *out, int n_dims, const int64_t *shape,
                         int64_t n_ranks, dv_diag *diag)
{
    enum { MOST = 1 << 20 };
    if (n_dims < 0 || n_dims > DV_MAX_DIMS || n_ranks < 1 || n_ranks > MOST)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "blocks of %d dims over %" PRId64
                       " ranks: at most %d over 1..%d are possible",
                       n_dims, n_ranks, DV_MAX_DIMS, MOST);
    dv_dist d = dv_dist_rows(n_dims, shape, n_ranks);
    // More than three axes take long to search and save little communication.
    int n_axes = n_dims < 3 ? (n_dims ? n_dims : 1) : 3, best_empty = 1;
    int64_t grid[DV_MAX_AXES] = {1, 1, 1, 1};
    double best = -1;
    grid[n_axes - 1] = n_ranks;
    do {
        if (n_dims == 0)
            break;
        int empty = some_empty(&d, grid, n_axes);
        double elems = halo_elems(&d, grid, n_axes);
        if (best >= 0 &&
            (empty > best_empty || (empty == best_empty && elems >= best)))
            continue;
        best = elems;
        best_empty = empty;
        for (int a = 0; a < n_axes; a++)
            d.grid[a] = grid[a];
    } while (next_grid(grid, n_axes, n_ranks));
    d.n_axes = n_axes;
    for (int i = 0; i < n_dims; i++)
        d.axis[i] = i < n_axes ? i : -1;
    DV_TRY(dv_dist_check(&d, diag));
    *out = d;
    return DV_OK;
}
