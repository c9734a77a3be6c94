// Plain arrays to hold arrays over a team against, and random layouts: for
// array_case.h.
#ifndef DV_ARRAY_PLAIN_H
#define DV_ARRAY_PLAIN_H
#include "base/dtype.h"
#include "base/math.h"
#include "darray/darray.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIMS = 3, MAX_ELEMS = 9 * 9 * 9 };

typedef struct tester {
    dv_peers *p;
    dv_diag *diag;
    uint64_t what, layout; // random numbers
    uint64_t hash;         // of results that no team changes
    int bad;
} tester;

static int64_t pick(uint64_t *seed, int64_t n) // 0..n-1
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*seed >> 33) % (uint64_t)n);
}

#define EXPECT(t, ok)                                                          \
    do {                                                                       \
        if (!(ok) && (t)->bad++ < 3)                                           \
            fprintf(stderr, "%s:%d: rank %d of %d: not %s\n%s", __FILE__,      \
                    __LINE__, (int)dv_peers_rank((t)->p),                      \
                    (int)dv_peers_size((t)->p), #ok, dv_diag_text((t)->diag)); \
    } while (0)

// -- Plain arrays ----------------------------------------------------------

typedef struct plain {
    dv_elem type;
    int n_dims;
    int64_t shape[MAX_DIMS], n;
    char data[MAX_ELEMS * 8];
} plain;

static int64_t bytes_of(dv_elem t)
{
    return dv_elem_get(t)->bytes;
}

// Elements that all types hold exactly; unsigned ones are at the upper end,
// where a signed reading of them is negative.
static void value_of(dv_elem t, int64_t flat, void *elem)
{
    int64_t v = flat * 7 % 23 - 11;
    double f = (double)v * 0.25;
    uint64_t u = UINT64_MAX - (uint64_t)(flat * 7 % 23);
    char kind = dv_elem_get(t)->kind;
    dv_elem_store(t, elem, 0, 1,
                  kind == 'f'   ? (void *)&f
                  : kind == 'i' ? (void *)&v
                                : (void *)&u);
}

static void make_plain(plain *a, dv_elem type, int n_dims, const int64_t *shape)
{
    a->type = type;
    a->n_dims = n_dims;
    a->n = 1;
    for (int d = 0; d < n_dims; d++)
        a->n *= a->shape[d] = shape[d];
    for (int64_t i = 0; i < a->n; i++)
        value_of(type, i, a->data + i * bytes_of(type));
}

static void coords_of(const int64_t *shape, int n, int64_t flat, int64_t *at)
{
    for (int d = n - 1; d >= 0; d--) {
        at[d] = flat % shape[d];
        flat /= shape[d];
    }
}

static int64_t flat_of(const int64_t *shape, int n, const int64_t *at)
{
    int64_t flat = 0;
    for (int d = 0; d < n; d++)
        flat = flat * shape[d] + at[d];
    return flat;
}

static int in_box(const dv_box *b, const int64_t *at)
{
    for (int d = 0; d < b->n_dims; d++)
        if (at[d] < b->dim[d].off || at[d] >= b->dim[d].off + b->dim[d].size)
            return 0;
    return 1;
}

static char *elem_at(dv_darray *a, const int64_t *at)
{
    int64_t stride[DV_MAX_DIMS], off = 0;
    dv_box in = dv_darray_local(a);
    char *data = dv_darray_data(a, stride);
    for (int d = 0; d < in.n_dims; d++)
        off += (at[d] - in.dim[d].off) * stride[d];
    return data + off * bytes_of(dv_darray_type(a));
}

// -- Random layouts --------------------------------------------------------

typedef struct layout {
    dv_dist d;
    int64_t starts[MAX_DIMS][32];
} layout;

// Any grid of the team's ranks, axes to any dims or to none, parts as they
// come.
static void make_layout(tester *t, layout *l, int n_dims, const int64_t *shape)
{
    int64_t left = dv_peers_size(t->p);
    l->d = (dv_dist){.n_dims = n_dims, .n_axes = 1 + (int)pick(&t->layout, 3)};
    for (int a = 0; a < l->d.n_axes; a++) {
        int64_t f = 1 + pick(&t->layout, left);
        while (left % f)
            f--;
        l->d.grid[a] = a == l->d.n_axes - 1 ? left : f;
        left /= l->d.grid[a];
    }
    int used = 0;
    for (int i = 0; i < n_dims; i++) {
        int a = (int)pick(&t->layout, l->d.n_axes + 1) - 1;
        l->d.shape[i] = shape[i];
        l->d.axis[i] = a >= 0 && !(used >> a & 1) ? a : -1;
        if (l->d.axis[i] < 0)
            continue;
        used |= 1 << a;
        if (pick(&t->layout, 2))
            continue;
        int64_t n = l->d.grid[a], *s = l->starts[i];
        s[0] = 0;
        for (int64_t k = 1; k <= n; k++)
            s[k] = k == n
                       ? shape[i]
                       : s[k - 1] + pick(&t->layout, shape[i] - s[k - 1] + 1);
        l->d.starts[i] = s;
    }
}

static int random_shape(tester *t, int64_t *shape)
{
    int n = 1 + (int)pick(&t->what, MAX_DIMS);
    for (int d = 0; d < n; d++)
        shape[d] = pick(&t->what, 20) ? 1 + pick(&t->what, 8) : 0;
    return n;
}

static dv_elem random_type(tester *t)
{
    return (dv_elem)pick(&t->what, DV_ELEM_U8 + 1);
}

static void put_value(void *user, const int64_t *global_off, void *elem)
{
    const plain *a = user;
    memcpy(elem,
           a->data +
               flat_of(a->shape, a->n_dims, global_off) * bytes_of(a->type),
           (size_t)bytes_of(a->type));
}

static dv_darray *new_array(tester *t, plain *like, const dv_halo *halo)
{
    layout l;
    dv_darray *a = NULL;
    make_layout(t, &l, like->n_dims, like->shape);
    EXPECT(t, !dv_darray_create(&a, t->p, like->type, &l.d, halo, t->diag));
    if (a)
        EXPECT(t, !dv_darray_map(a, put_value, like, t->diag));
    return a;
}

// All of it, on all ranks, is what the plain one has.
static void expect_same(tester *t, const dv_darray *a, const plain *want)
{
    plain got = {0};
    size_t bytes = (size_t)(want->n * bytes_of(want->type));
    EXPECT(t, !dv_darray_gather(a, -1, got.data, t->diag));
    EXPECT(t, !memcmp(got.data, want->data, bytes));
    t->hash = dv_hash(t->hash, got.data, bytes);
}

// Sum of a number over the team, by way of an array of one each.
static int64_t team_sum(tester *t, int64_t mine)
{
    int64_t n = dv_peers_size(t->p), sum = -1;
    dv_dist d = dv_dist_rows(1, &n, n);
    dv_darray *a = NULL, *s = NULL;
    EXPECT(t, !dv_darray_adopt(&a, t->p, DV_ELEM_I64, &d, NULL, &mine, NULL,
                               t->diag));
    if (a && !dv_darray_reduce(&s, a, DV_SUM, NULL, 0, t->diag))
        sum = *(int64_t *)dv_darray_data(s, NULL);
    dv_darray_destroy(s);
    dv_darray_destroy(a);
    return sum;
}

static int64_t sent(const tester *t)
{
    int64_t bytes;
    dv_peers_sent(t->p, &bytes, NULL);
    return bytes;
}

// One result by hand, from the elements where `at` agrees in dims that stay.
static void plain_reduce(const plain *w, dv_reduction op, const int *over,
                         const int64_t *at, double *f, uint64_t *u)
{
    char kind = dv_elem_get(w->type)->kind;
    int64_t x[MAX_DIMS], n = 0;
    double mean = 0, sum = 0, spread = 0;
    *f = op == DV_PROD ? 1 : 0;
    *u = op == DV_PROD;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < w->n; i++) {
            union {
                double f;
                int64_t i;
                uint64_t u;
            } v;
            int here = 1;
            coords_of(w->shape, w->n_dims, i, x);
            for (int d = 0; d < w->n_dims; d++)
                here &= over[d] || x[d] == at[d];
            if (!here)
                continue;
            dv_elem_load(w->type, w->data + i * bytes_of(w->type), 0, 1, &v);
            double d = kind == 'f'   ? v.f
                       : kind == 'i' ? (double)v.i
                                     : (double)v.u;
            if (pass) {
                spread += (d - mean) * (d - mean);
                continue;
            }
            int more = kind == 'f'   ? v.f > *f
                       : kind == 'i' ? v.i > (int64_t)*u
                                     : v.u > *u;
            int less = kind == 'f'   ? v.f < *f
                       : kind == 'i' ? v.i < (int64_t)*u
                                     : v.u < *u;
            if (n == 0 || (op == DV_MAX && more) || (op == DV_MIN && less))
                *f = op == DV_PROD ? 1 : v.f, *u = op == DV_PROD ? 1 : v.u;
            if (op == DV_SUM && n)
                *f += v.f, *u += v.u;
            if (op == DV_PROD)
                *f *= v.f, *u *= v.u;
            sum += d;
            mean = sum / (double)++n;
        }
    if (op >= DV_MEAN)
        *f = n == 0 ? NAN : op == DV_MEAN ? mean : spread / (double)n;
    if (op == DV_STD)
        *f = sqrt(*f);
    if (n == 0 && op < DV_MEAN)
        *f = op == DV_PROD, *u = op == DV_PROD;
}

#endif
