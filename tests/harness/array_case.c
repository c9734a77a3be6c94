#include "harness/array_case.h"
#include "base/dtype.h"
#include "base/math.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIMS = 3, MAX_ELEMS = 9 * 9 * 9 };

typedef struct tester {
    dv_team_link *p;
    dv_diag *diag;
    uint64_t what, layout; // two streams of random numbers
    uint64_t hash;         // of the results that do not depend on the team
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
                    __LINE__, (int)dv_team_rank((t)->p),                       \
                    (int)dv_team_size((t)->p), #ok, dv_diag_text((t)->diag));  \
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

// Stores a value that every type holds exactly. Unsigned values are at the
// upper end, where a signed reading of them is negative.
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

// Makes a random grid of the team's ranks, cuts any dims by its axes, and
// chooses random parts.
static void make_layout(tester *t, layout *l, int n_dims, const int64_t *shape)
{
    int64_t left = dv_team_size(t->p);
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

// Every rank gathers the whole array, and it equals the plain one.
static void expect_same(tester *t, const dv_darray *a, const plain *want)
{
    plain got = {0};
    size_t bytes = (size_t)(want->n * bytes_of(want->type));
    EXPECT(t, !dv_darray_gather(a, -1, got.data, t->diag));
    EXPECT(t, !memcmp(got.data, want->data, bytes));
    t->hash = dv_hash(t->hash, got.data, bytes);
}

// Sums a number over the team, with an array of one element per rank.
static int64_t team_sum(tester *t, int64_t mine)
{
    int64_t n = dv_team_size(t->p), sum = -1;
    dv_dist d = dv_dist_rows(1, &n, n);
    dv_darray *a = NULL, *s = NULL;
    EXPECT(t, !dv_darray_adopt(&a, t->p, DV_ELEM_I64, &d, NULL, &mine, NULL,
                               t->diag));
    if (a && !dv_darray_reduce(&s, a, DV_REDUCE_SUM, NULL, 0, t->diag))
        sum = *(int64_t *)dv_darray_data(s, NULL);
    dv_darray_destroy(s);
    dv_darray_destroy(a);
    return sum;
}

static int64_t sent(const tester *t)
{
    int64_t bytes;
    dv_team_sent(t->p, &bytes, NULL);
    return bytes;
}

// Computes one element of a reduction with plain loops, over the elements that
// agree with `at` in the dims that are kept.
static void plain_reduce(const plain *w, dv_reduction op, const int *over,
                         const int64_t *at, double *f, uint64_t *u)
{
    char kind = dv_elem_get(w->type)->kind;
    int64_t x[MAX_DIMS], n = 0;
    double mean = 0, sum = 0, spread = 0;
    *f = op == DV_REDUCE_PROD ? 1 : 0;
    *u = op == DV_REDUCE_PROD;
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
            if (n == 0 || (op == DV_REDUCE_MAX && more) ||
                (op == DV_REDUCE_MIN && less))
                *f = op == DV_REDUCE_PROD ? 1 : v.f,
                *u = op == DV_REDUCE_PROD ? 1 : v.u;
            if (op == DV_REDUCE_SUM && n)
                *f += v.f, *u += v.u;
            if (op == DV_REDUCE_PROD)
                *f *= v.f, *u *= v.u;
            sum += d;
            mean = sum / (double)++n;
        }
    if (op >= DV_REDUCE_MEAN)
        *f = n == 0 ? NAN : op == DV_REDUCE_MEAN ? mean : spread / (double)n;
    if (op == DV_REDUCE_STD)
        *f = sqrt(*f);
    if (n == 0 && op < DV_REDUCE_MEAN)
        *f = op == DV_REDUCE_PROD, *u = op == DV_REDUCE_PROD;
}

// -- What an array is ------------------------------------------------------

static void case_boxes(tester *t)
{
    int64_t shape[MAX_DIMS], at[MAX_DIMS], offs[DV_MAX_DIMS], copies = 1;
    int n = random_shape(t, shape);
    static _Thread_local plain w;
    make_plain(&w, random_type(t), n, shape);
    dv_halo h = {.corners = 1};
    for (int d = 0; d < n; d++) {
        h.before[d] = pick(&t->layout, 4);
        h.after[d] = pick(&t->layout, 12);
    }
    dv_darray *a = new_array(t, &w, &h);
    if (!a)
        return;
    dv_box own = dv_darray_own(a), in = dv_darray_local(a);
    const dv_dist *dist = dv_darray_dist(a);
    for (int x = 0; x < dist->n_axes; x++)
        copies *= dv_dist_cuts(dist, x) ? 1 : dist->grid[x];
    EXPECT(t, team_sum(t, dv_box_elems(&own)) == w.n * copies);
    dv_darray_offsets(a, offs);
    for (int d = 0; d < n; d++) {
        dv_range part[3];
        dv_darray_parts(a, d, part);
        EXPECT(t, offs[d] == part[0].off);
        EXPECT(t, part[0].off + part[0].size == part[1].off);
        EXPECT(t, part[1].off + part[1].size == part[2].off);
        EXPECT(t, part[1].off == own.dim[d].off);
        EXPECT(t, part[0].size + part[1].size + part[2].size == in.dim[d].size);
        if (dv_box_empty(&own))
            continue;
        EXPECT(t, part[0].size == dv_min_i64(h.before[d], own.dim[d].off));
    }
    for (int64_t i = 0; i < w.n; i++) {
        coords_of(shape, n, i, at);
        if (in_box(&own, at))
            EXPECT(t, !memcmp(elem_at(a, at), w.data + i * bytes_of(w.type),
                              (size_t)bytes_of(w.type)));
    }
    expect_same(t, a, &w);
    dv_darray_destroy(a);
}

// -- Halos -----------------------------------------------------------------

// Returns in how many dims an element lies outside the own box, or -1 if it is
// not in the halo.
static int beyond(const dv_box *own, const dv_halo *h, const int64_t *at)
{
    int n = 0;
    if (dv_box_empty(own))
        return -1;
    for (int d = 0; d < own->n_dims; d++) {
        dv_range o = own->dim[d];
        if (at[d] < o.off - h->before[d] ||
            at[d] >= o.off + o.size + h->after[d])
            return -1;
        n += at[d] < o.off || at[d] >= o.off + o.size;
    }
    return n;
}

static void case_halo(tester *t)
{
    int64_t shape[MAX_DIMS], at[MAX_DIMS], needed = 0;
    int n = random_shape(t, shape);
    static _Thread_local plain w;
    make_plain(&w, random_type(t), n, shape);
    dv_halo h = {.corners = (int)pick(&t->layout, 2)};
    for (int d = 0; d < n; d++) {
        h.before[d] = pick(&t->layout, pick(&t->layout, 2) ? 3 : 12);
        h.after[d] = pick(&t->layout, pick(&t->layout, 2) ? 3 : 12);
    }
    dv_darray *a = new_array(t, &w, &h);
    if (!a)
        return;
    size_t b = (size_t)bytes_of(w.type);
    dv_box own = dv_darray_own(a);
    for (int round = 0; round < 2; round++) {
        int64_t before = sent(t), calls = 0;
        needed = 0;
        // Exchanges the halo in two steps, start and wait; in the second round
        // with other values.
        for (int64_t i = 0; round && i < w.n; i++)
            value_of(w.type, i + 5, w.data + i * (int64_t)b);
        EXPECT(t, !dv_darray_map(a, put_value, &w, t->diag));
        EXPECT(t, !dv_darray_halo_start(a, t->diag));
        EXPECT(t, dv_darray_map(a, put_value, &w, NULL) == DV_E_USAGE);
        EXPECT(t, !dv_darray_halo_wait(a, t->diag));
        int64_t moved = sent(t) - before;
        for (int64_t i = 0; i < w.n; i++) {
            coords_of(shape, n, i, at);
            int out = beyond(&own, &h, at);
            if (out < 0 || (out > 1 && !h.corners))
                continue;
            needed += out > 0;
            calls += memcmp(elem_at(a, at), w.data + i * (int64_t)b, b) != 0;
        }
        EXPECT(t, calls == 0);
        EXPECT(t, team_sum(t, moved) == team_sum(t, needed * (int64_t)b));
    }
    expect_same(t, a, &w);
    dv_darray_destroy(a);
}

// Other widths on every rank and side, which all ranks know.
static void case_widths(tester *t)
{
    static _Thread_local int64_t widths[64 * MAX_DIMS * 2];
    static _Thread_local plain w;
    int64_t shape[MAX_DIMS], at[MAX_DIMS], before = sent(t), wrong = 0,
                                           n_in = 0;
    int n = random_shape(t, shape);
    make_plain(&w, random_type(t), n, shape);
    for (int64_t i = 0; i < dv_team_size(t->p) * n * 2; i++)
        widths[i] = pick(&t->layout, pick(&t->layout, 2) ? 3 : 12);
    dv_halo h = {.corners = (int)pick(&t->layout, 2), .widths = widths};
    dv_darray *a = new_array(t, &w, &h);
    if (!a)
        return;
    dv_halo mine = {.corners = h.corners};
    for (int d = 0; d < n; d++) {
        mine.before[d] = widths[(dv_team_rank(t->p) * n + d) * 2];
        mine.after[d] = widths[(dv_team_rank(t->p) * n + d) * 2 + 1];
    }
    dv_box own = dv_darray_own(a), in = dv_darray_local(a);
    memset(widths, 0, sizeof widths); // the array has a copy
    EXPECT(t, !dv_darray_halo(a, t->diag));
    for (int64_t i = 0; i < w.n; i++) {
        coords_of(shape, n, i, at);
        int out = beyond(&own, &mine, at);
        n_in += out >= 0;
        if (out < 0 || (out > 1 && !h.corners))
            continue;
        wrong += memcmp(elem_at(a, at), w.data + i * bytes_of(w.type),
                        (size_t)bytes_of(w.type)) != 0;
        before += out > 0 ? bytes_of(w.type) : 0;
    }
    EXPECT(t, wrong == 0);
    EXPECT(t, n_in == dv_box_elems(&in));
    EXPECT(t, team_sum(t, sent(t) - before) == 0);
    expect_same(t, a, &w);
    dv_darray_destroy(a);
}

// Another box on every rank, which the other ranks do not know.
static void case_repartition(tester *t)
{
    static _Thread_local plain w;
    int64_t shape[MAX_DIMS], at[MAX_DIMS], wrong = 0, lacks = 0;
    int n = random_shape(t, shape), grow = (int)pick(&t->what, 2);
    make_plain(&w, random_type(t), n, shape);
    dv_darray *a = new_array(t, &w, NULL), *b = NULL;
    if (!a)
        return;
    int64_t b0 = sent(t);
    dv_box own = dv_darray_own(a), box = own;
    uint64_t mine = t->layout + 977 * (uint64_t)dv_team_rank(t->p);
    for (int d = 0; d < n; d++) {
        // Either what the rank owns and more, or any box.
        int64_t off =
            grow ? pick(&mine, own.dim[d].off + 1) : pick(&mine, shape[d] + 1);
        int64_t end = grow ? own.dim[d].off + own.dim[d].size : off;
        if (grow && dv_box_empty(&own))
            break;
        box.dim[d] =
            (dv_range){off, end - off + pick(&mine, shape[d] - end + 1)};
    }
    EXPECT(t, !dv_darray_repartition(&b, a, &box, t->diag));
    if (b) {
        dv_box in = dv_darray_local(b), has = dv_darray_own(b);
        EXPECT(t, !memcmp(&in, &box, sizeof box) || dv_box_empty(&box));
        for (int64_t i = 0; i < w.n; i++) {
            coords_of(shape, n, i, at);
            if (!in_box(&box, at))
                continue;
            lacks += !in_box(&own, at);
            wrong += in_box(&own, at) != in_box(&has, at);
            wrong += memcmp(elem_at(b, at), w.data + i * bytes_of(w.type),
                            (size_t)bytes_of(w.type)) != 0;
        }
        EXPECT(t, wrong == 0);
        for (int d = 0; d < n; d++) {
            dv_range part[3];
            dv_darray_parts(b, d, part);
            EXPECT(t, part[0].size >= 0 && part[2].size >= 0);
        }
        // Where no rank lacks what it owns, the rest is a halo, which can be
        // updated; otherwise calls that read from other ranks are refused.
        int64_t moved = sent(t) - b0 - lacks * bytes_of(w.type);
        EXPECT(t, team_sum(t, moved) == 0);
        if (grow) {
            EXPECT(t, !dv_darray_halo(b, t->diag));
            expect_same(t, b, &w);
        } else if (b->partial) {
            EXPECT(t, dv_darray_halo(b, NULL) == DV_E_USAGE);
            EXPECT(t, dv_darray_copy(a, b, NULL) == DV_E_USAGE);
            EXPECT(t, dv_darray_gather(b, -1, w.data, NULL) == DV_E_USAGE);
        }
    }
    dv_darray_destroy(b);
    dv_darray_destroy(a);
}

// -- Copies ----------------------------------------------------------------

static dv_slice random_slice(tester *t, int64_t n, int64_t size, int64_t stride)
{
    int64_t reach = size ? (size - 1) * stride + 1 : 0;
    return (dv_slice){pick(&t->what, n - reach + 1), size, stride};
}

// Computes to[slices] = from[slices] with plain loops.
static void plain_copy(plain *to, const dv_slice *ts, const plain *from,
                       const dv_slice *fs, const int64_t *shape)
{
    int64_t n = 1, at[MAX_DIMS], x[MAX_DIMS], b = bytes_of(to->type);
    static _Thread_local plain was;
    was = *from;
    for (int d = 0; d < to->n_dims; d++)
        n *= shape[d];
    for (int64_t i = 0; i < n; i++) {
        coords_of(shape, to->n_dims, i, at);
        for (int d = 0; d < to->n_dims; d++)
            x[d] = fs[d].off + at[d] * fs[d].stride;
        int64_t src = flat_of(was.shape, was.n_dims, x);
        for (int d = 0; d < to->n_dims; d++)
            x[d] = ts[d].off + at[d] * ts[d].stride;
        memcpy(to->data + flat_of(to->shape, to->n_dims, x) * b,
               was.data + src * b, (size_t)b);
    }
}

// dv_darray_copy between slices of two arrays, or of one and the same array.
static void case_copy(tester *t, int same)
{
    int64_t shape[MAX_DIMS], more[MAX_DIMS] = {0}, sizes[MAX_DIMS];
    int n = random_shape(t, shape);
    dv_elem type = random_type(t);
    static _Thread_local plain x, y;
    dv_slice fs[MAX_DIMS], ts[MAX_DIMS];
    for (int d = 0; d < n; d++)
        more[d] = same ? shape[d] : 1 + pick(&t->what, 8);
    make_plain(&x, type, n, shape);
    make_plain(&y, type, n, more);
    for (int d = 0; d < n; d++) {
        int64_t s1 = 1 + pick(&t->what, 3), s2 = 1 + pick(&t->what, 3);
        int64_t most =
            dv_min_i64(dv_ceil_div(shape[d], s1), dv_ceil_div(more[d], s2));
        sizes[d] = most ? pick(&t->what, most + 1) : 0;
        fs[d] = random_slice(t, shape[d], sizes[d], s1);
        ts[d] = random_slice(t, more[d], sizes[d], s2);
    }
    dv_darray *a = new_array(t, &x, NULL);
    dv_darray *b = same ? a : new_array(t, &y, NULL);
    dv_darray *from = NULL, *to = NULL, *half = NULL;
    if (!a || !b)
        return;
    EXPECT(t, !dv_darray_view(&from, a, fs, t->diag));
    // Makes the view of the target in two steps, as a view of a view.
    dv_slice outer[MAX_DIMS], inner[MAX_DIMS];
    for (int d = 0; d < n; d++) {
        outer[d] = (dv_slice){0, more[d], 1};
        inner[d] = ts[d];
        if (ts[d].off < more[d]) {
            outer[d] = (dv_slice){ts[d].off, more[d] - ts[d].off, 1};
            inner[d].off = 0;
        }
    }
    EXPECT(t, !dv_darray_view(&half, b, outer, t->diag));
    EXPECT(t, half && !dv_darray_view(&to, half, inner, t->diag));
    if (to && from)
        EXPECT(t, !dv_darray_copy(to, from, t->diag));
    plain_copy(same ? &x : &y, ts, &x, fs, sizes);
    expect_same(t, b, same ? &x : &y);
    dv_darray_destroy(half);
    dv_darray_destroy(to);
    dv_darray_destroy(a); // the view of it is still alive
    dv_darray_destroy(from);
    if (!same)
        dv_darray_destroy(b);
}

// dv_darray_permute with any order of dims, also cyclic ones, and any extents.
static void case_permute(tester *t)
{
    int64_t shape[MAX_DIMS], new_shape[MAX_DIMS], at[MAX_DIMS], x[MAX_DIMS];
    int n = random_shape(t, shape), axes[MAX_DIMS] = {0, 1, 2};
    dv_elem type = random_type(t);
    static _Thread_local plain w, y;
    for (int d = n - 1; d > 0; d--) {
        int k = (int)pick(&t->what, d + 1), was = axes[d];
        axes[d] = axes[k];
        axes[k] = was;
    }
    for (int d = 0; d < n; d++)
        new_shape[d] = shape[axes[d]];
    make_plain(&w, type, n, shape);
    make_plain(&y, type, n, new_shape);
    for (int64_t i = 0; i < y.n; i++) {
        coords_of(new_shape, n, i, at);
        for (int d = 0; d < n; d++)
            x[axes[d]] = at[d];
        memcpy(y.data + i * bytes_of(type),
               w.data + flat_of(shape, n, x) * bytes_of(type),
               (size_t)bytes_of(type));
    }
    dv_halo h = {.before = {1, 1, 1}, .after = {1, 0, 2}};
    dv_darray *a = new_array(t, &w, &h), *v = NULL, *b = new_array(t, &y, NULL);
    const double zero = 0;
    if (!a || !b)
        return;
    EXPECT(t, !dv_darray_fill(b, &zero, t->diag));
    EXPECT(t, !dv_darray_permute(&v, a, axes, t->diag));
    if (v)
        EXPECT(t, !dv_darray_copy(b, v, t->diag));
    if (v)
        expect_same(t, v, &y);
    expect_same(t, b, &y);
    dv_darray_destroy(v);
    dv_darray_destroy(a);
    dv_darray_destroy(b);
}

// dv_darray_move to another layout, from an array with a halo: only elements
// that a rank does not have are sent.
static void case_move(tester *t)
{
    int64_t shape[MAX_DIMS], at[MAX_DIMS], lacks = 0;
    int n = random_shape(t, shape);
    static _Thread_local plain w;
    make_plain(&w, random_type(t), n, shape);
    dv_halo h = {.before = {2, 1, 1}, .after = {1, 2, 0}, .corners = 1};
    dv_darray *a = new_array(t, &w, &h), *b = NULL;
    layout l;
    make_layout(t, &l, n, shape);
    if (!a)
        return;
    EXPECT(t, !dv_darray_halo(a, t->diag));
    int64_t before = sent(t);
    EXPECT(t, !dv_darray_move(&b, a, &l.d, NULL, t->diag));
    int64_t moved = sent(t) - before;
    dv_box was = dv_darray_own(a), is = b ? dv_darray_own(b) : was;
    for (int64_t i = 0; i < w.n; i++) {
        coords_of(shape, n, i, at);
        lacks += in_box(&is, at) && !in_box(&was, at);
    }
    EXPECT(t, team_sum(t, moved) == team_sum(t, lacks) * bytes_of(w.type));
    dv_darray_destroy(a);
    if (b)
        expect_same(t, b, &w);
    dv_darray_destroy(b);
}

// dv_darray_reshape: elements keep their row-major numbers. The first example
// of the Dist dialect is among the shapes.
static void case_reshape(tester *t)
{
    static const int64_t shapes[][2][MAX_DIMS] = {
        {{3, 4, 1}, {2, 3, 2}}, {{8, 6, 1}, {4, 2, 6}}, {{7, 1, 5}, {5, 7, 1}},
        {{2, 9, 4}, {8, 3, 3}}, {{1, 1, 1}, {1, 1, 1}}, {{0, 3, 2}, {5, 0, 1}}};
    const int64_t(*s)[MAX_DIMS] = shapes[pick(&t->what, 6)];
    int back = (int)pick(&t->what, 2), n[2] = {3, 3};
    const int64_t *from = s[back], *to = s[!back];
    static _Thread_local plain w, y;
    dv_elem type = random_type(t);
    if (from[2] == 1)
        n[0] = 2; // a dim of extent 1 may be left out
    make_plain(&w, type, n[0], from);
    make_plain(&y, type, n[1], to); // the same elements, by row-major number
    dv_halo h = {.before = {1, 0, 1}, .after = {0, 2, 1}};
    dv_darray *a = new_array(t, &w, &h), *b = new_array(t, &y, &h);
    const double zero = 0;
    if (!a || !b)
        return;
    EXPECT(t, !dv_darray_fill(b, &zero, t->diag));
    int64_t before = sent(t), at[MAX_DIMS], x[MAX_DIMS], lacks = 0;
    EXPECT(t, !dv_darray_reshape(b, a, t->diag));
    int64_t moved = sent(t) - before;
    dv_box had = dv_darray_own(a), has = dv_darray_own(b);
    for (int64_t i = 0; i < w.n; i++) {
        coords_of(w.shape, w.n_dims, i, at);
        coords_of(y.shape, y.n_dims, i, x);
        lacks += in_box(&has, x) && !in_box(&had, at);
    }
    EXPECT(t, team_sum(t, moved) == team_sum(t, lacks) * bytes_of(type));
    expect_same(t, b, &y);
    EXPECT(t, dv_darray_reshape(b, b, NULL) == DV_E_USAGE);
    dv_darray_destroy(a);
    dv_darray_destroy(b);
}

// -- In and out ------------------------------------------------------------

static void case_boxes_in_and_out(tester *t)
{
    int64_t shape[MAX_DIMS], sizes[MAX_DIMS], at[MAX_DIMS];
    int n = random_shape(t, shape);
    static _Thread_local plain w, part, got;
    make_plain(&w, random_type(t), n, shape);
    int64_t b = bytes_of(w.type);
    dv_box box = {.n_dims = n};
    for (int d = 0; d < n; d++) {
        box.dim[d].size = sizes[d] = pick(&t->what, shape[d] + 1);
        box.dim[d].off = pick(&t->what, shape[d] - sizes[d] + 1);
    }
    dv_darray *a = new_array(t, &w, NULL);
    if (!a)
        return;
    int64_t root = pick(&t->layout, dv_team_size(t->p) + 1) - 1;
    int here = root < 0 || root == dv_team_rank(t->p);
    make_plain(&part, w.type, n, sizes);
    for (int64_t i = 0; i < part.n; i++)
        value_of(w.type, i + 3, part.data + i * b);
    memset(got.data, 0, sizeof got.data);
    EXPECT(t, !dv_darray_set(a, &box, root, here ? part.data : NULL, t->diag));
    for (int64_t i = 0; i < part.n; i++) {
        coords_of(sizes, n, i, at);
        for (int d = 0; d < n; d++)
            at[d] += box.dim[d].off;
        memcpy(w.data + flat_of(shape, n, at) * b, part.data + i * b,
               (size_t)b);
    }
    EXPECT(t, !dv_darray_get(a, &box, root, here ? got.data : NULL, t->diag));
    EXPECT(t, !here || !memcmp(got.data, part.data, (size_t)(part.n * b)));
    expect_same(t, a, &w);
    // dv_darray_scatter from one rank.
    for (int64_t i = 0; i < w.n; i++)
        value_of(w.type, 2 * i, w.data + i * b);
    EXPECT(t, !dv_darray_scatter(a, root, here ? w.data : NULL, t->diag));
    expect_same(t, a, &w);
    dv_darray_destroy(a);
}

// -- Values ----------------------------------------------------------------

static void case_lines(tester *t)
{
    dv_elem type = random_type(t);
    char kind = dv_elem_get(type)->kind;
    double start = (double)(pick(&t->what, 400) - 200) * 0.1;
    double stop = (double)(pick(&t->what, 400) - 200) * 0.1;
    int end = (int)pick(&t->what, 2);
    int64_t n = 1 + pick(&t->what, 300);
    static _Thread_local plain w;
    w = (plain){.type = type, .n_dims = 1, .shape = {n}, .n = n};
    double step = n > end ? (stop - start) / (double)(n - end) : NAN;
    layout l;
    dv_darray *a = NULL;
    make_layout(t, &l, 1, &n);
    EXPECT(t, !dv_darray_create(&a, t->p, type, &l.d, NULL, t->diag));
    if (!a)
        return;
    for (int64_t i = 0; i < n; i++) {
        double v = i ? start + step * (double)i : start;
        uint64_t u = (uint64_t)(v != v ? 0 : (int64_t)v);
        dv_elem_store(type, w.data + i * bytes_of(type), 0, 1,
                      kind == 'f' ? (void *)&v : (void *)&u);
    }
    EXPECT(t, !dv_darray_linspace(a, start, stop, end, t->diag));
    expect_same(t, a, &w);
    // Integers beyond the precision of a float, descending as well as
    // ascending.
    int64_t first = INT64_C(1) << 60, by = pick(&t->what, 2) ? -3 : 5;
    for (int64_t i = 0; i < n; i++) {
        uint64_t u = (uint64_t)(first + by * i);
        double v = (double)first + (double)by * (double)i;
        dv_elem_store(type, w.data + i * bytes_of(type), 0, 1,
                      kind == 'f' ? (void *)&v : (void *)&u);
    }
    EXPECT(t, !dv_darray_arange_int(a, first, by, t->diag));
    expect_same(t, a, &w);
    EXPECT(t, !dv_darray_arange(a, (double)first, (double)by, t->diag));
    expect_same(t, a, &w);
    dv_darray_destroy(a);
}

// -- Arrays in the caller's memory ------------------------------------------

static void case_join(tester *t)
{
    int64_t rank = dv_team_rank(t->p), size = dv_team_size(t->p), at = 0;
    int64_t total = 1 + pick(&t->what, 8), cols = 1 + pick(&t->what, 8);
    int64_t rows = 0, left = total;
    static _Thread_local plain w;
    make_plain(&w, random_type(t), 2, (int64_t[]){total, cols});
    int64_t b = bytes_of(w.type);
    // Every rank has a random number of rows, which the others do not know.
    for (int64_t r = 0; r < size; r++) {
        int64_t n = r == size - 1 ? left : pick(&t->layout, left + 1);
        if (r < rank)
            at += n;
        if (r == rank)
            rows = n;
        left -= n;
    }
    char *mine = w.data + at * cols * b;
    dv_darray *a = NULL, *even = NULL;
    EXPECT(t, !dv_darray_join(&a, t->p, w.type, 2, (int64_t[]){rows, cols},
                              rows ? mine : NULL, t->diag));
    if (!a)
        return;
    EXPECT(t, dv_darray_own(a).dim[0].off == at || !rows);
    EXPECT(t, !rows || dv_darray_data(a, NULL) == (void *)mine);
    expect_same(t, a, &w);
    dv_dist d = dv_dist_rows(2, (int64_t[]){total, cols}, size);
    EXPECT(t, !dv_darray_move(&even, a, &d, NULL, t->diag));
    if (even)
        expect_same(t, even, &w);
    dv_darray_destroy(a);
    dv_darray_destroy(even);
}

// dv_darray_adopt: columns of the caller's memory, with gaps between them and
// room for a halo.
static void case_adopt(tester *t)
{
    int64_t shape[2] = {1 + pick(&t->what, 8), 1 + pick(&t->what, 8)};
    static _Thread_local plain w;
    make_plain(&w, random_type(t), 2, shape);
    layout l;
    make_layout(t, &l, 2, shape);
    int64_t b = bytes_of(w.type), stride[2] = {2, 25};
    char *room = calloc(25 * 20, 8);
    dv_halo h = {.before = {1, 0}, .after = {1, 2}};
    dv_darray *a = NULL;
    EXPECT(t,
           !dv_darray_adopt(&a, t->p, w.type, &l.d, &h, room, stride, t->diag));
    if (a) {
        EXPECT(t, !dv_darray_map(a, put_value, &w, t->diag));
        EXPECT(t, !dv_darray_halo(a, t->diag));
        expect_same(t, a, &w);
        dv_box in = dv_darray_local(a), own = dv_darray_own(a);
        int64_t at[2] = {in.dim[0].off, own.dim[1].off};
        if (!dv_box_empty(
                &in)) { // the first row of the halo, or the first own row
            int64_t off = (at[1] - in.dim[1].off) * stride[1];
            EXPECT(t, !memcmp(room + off * b,
                              w.data + flat_of(shape, 2, at) * b, (size_t)b));
        }
    }
    dv_darray_destroy(a);
    free(room);
}

// -- Reductions ------------------------------------------------------------

static void expect_reduced(tester *t, const plain *w, dv_darray *r,
                           dv_reduction op, const int *over, int keep)
{
    static _Thread_local plain got;
    const dv_dist *d = dv_darray_dist(r);
    char kind = dv_elem_get(w->type)->kind;
    dv_elem type = dv_darray_type(r);
    int64_t n = 1, at[MAX_DIMS], full[MAX_DIMS] = {0};
    for (int i = 0; i < d->n_dims; i++)
        n *= d->shape[i];
    memset(got.data, 0, sizeof got.data);
    EXPECT(t, !dv_darray_gather(r, -1, got.data, t->diag));
    for (int64_t k = 0; k < n; k++) {
        double f;
        uint64_t u;
        coords_of(d->shape, d->n_dims, k, at);
        for (int i = 0, at_i = 0; i < w->n_dims; i++)
            if (!over[i])
                full[i] = at[at_i++];
            else
                at_i += keep;
        plain_reduce(w, op, over, full, &f, &u);
        char want[8] = {0};
        int float_result = kind == 'f' || op >= DV_REDUCE_MEAN;
        dv_elem_store(type, want, 0, 1, float_result ? (void *)&f : (void *)&u);
        const char *have = got.data + k * bytes_of(type);
        if (!float_result || op == DV_REDUCE_MAX || op == DV_REDUCE_MIN) {
            EXPECT(t, !memcmp(have, want, (size_t)bytes_of(type)));
            t->hash = dv_hash(t->hash, have, (size_t)bytes_of(type));
            continue;
        }
        double x, y, eps = dv_dtype_eps((dv_dtype)type);
        dv_elem_load(type, have, 0, 1, &x);
        dv_elem_load(type, want, 0, 1, &y);
        // A variance is only as exact as the squares of the values.
        double m = 0, slack = 1e-12 * fabs(y) + 1e-12;
        if (op >= DV_REDUCE_VAR)
            plain_reduce(w, DV_REDUCE_MEAN, over, full, &m, &u);
        slack += op == DV_REDUCE_VAR ? 1e-14 * m * m
                 : y > 0             ? fmin(1e-14 * m * m / y, 1e-7 * fabs(m))
                                     : 1e-7 * fabs(m);
        EXPECT(t, fabs(x - y) <= 2 * eps * fabs(y) + slack ||
                      (x != x && y != y) || x == y);
    }
}

static void case_reduce(tester *t)
{
    int64_t shape[MAX_DIMS];
    int n = random_shape(t, shape), over[MAX_DIMS], none = 0, some = 0;
    int keep = (int)pick(&t->what, 2);
    dv_reduction op = (dv_reduction)pick(&t->what, DV_REDUCE_STD + 1);
    static _Thread_local plain w, v;
    make_plain(&w, random_type(t), n, shape);
    dv_slice s[MAX_DIMS];
    int64_t sizes[MAX_DIMS] = {0};
    for (int d = 0; d < n;
         d++) { // of every dim, all elements or every other one
        over[d] = (int)pick(&t->what, 2);
        int64_t stride = 1 + pick(&t->what, 2);
        sizes[d] = dv_ceil_div(shape[d], stride);
        s[d] = (dv_slice){0, sizes[d], stride};
        none |= over[d] && sizes[d] == 0;
        some |= !over[d] && sizes[d] == 0;
    }
    make_plain(&v, w.type, n, sizes);
    dv_slice whole[MAX_DIMS];
    for (int d = 0; d < n; d++)
        whole[d] = (dv_slice){0, sizes[d], 1};
    plain_copy(&v, whole, &w, s, sizes);
    dv_halo h = {.before = {1, 1, 1}, .after = {1, 1, 1}};
    dv_darray *a = new_array(t, &w, &h), *view = NULL, *r = NULL;
    if (!a)
        return;
    EXPECT(t, !dv_darray_view(&view, a, s, t->diag));
    if (none && !some && (op == DV_REDUCE_MAX || op == DV_REDUCE_MIN)) {
        EXPECT(t,
               dv_darray_reduce(&r, view, op, over, keep, NULL) == DV_E_SHAPE);
    } else {
        EXPECT(t, !dv_darray_reduce(&r, view, op, over, keep, t->diag));
        if (r)
            expect_reduced(t, &v, r, op, over, keep);
    }
    dv_darray_destroy(r);
    dv_darray_destroy(view);
    dv_darray_destroy(a);
}

// A function of two arrays in any layouts, one of which may broadcast, written
// to an array in a third layout.
static void case_function(tester *t)
{
    static _Thread_local plain x, y, w;
    int64_t shape[2] = {4 + pick(&t->what, 4), 3 + pick(&t->what, 4)};
    int64_t thin[2] = {pick(&t->what, 2) ? shape[0] : 1,
                       pick(&t->what, 2) ? shape[1] : 1};
    make_plain(&x, DV_ELEM_I32, 2, shape);
    make_plain(&y, DV_ELEM_I32, 2, thin);
    make_plain(&w, DV_ELEM_I32, 2, shape);
    for (int64_t i = 0; i < w.n; i++) {
        int64_t at[2], v, u;
        coords_of(shape, 2, i, at);
        for (int d = 0; d < 2; d++)
            at[d] = thin[d] == 1 ? 0 : at[d];
        dv_elem_load(w.type, x.data + i * 4, 0, 1, &v);
        dv_elem_load(w.type, y.data + flat_of(thin, 2, at) * 4, 0, 1, &u);
        v = v * 3 - u;
        dv_elem_store(w.type, w.data + i * 4, 0, 1, &v);
        v += u;
        dv_elem_store(w.type, x.data + i * 4, 0, 1, &v);
    }
    dv_darray *a = new_array(t, &x, NULL), *b = new_array(t, &y, NULL);
    dv_darray *to = new_array(t, &w, NULL), *made = NULL;
    if (!a || !b || !to)
        return;
    const dv_darray *const in[] = {a, b};
    EXPECT(t, !dv_darray_apply(to, "subtract", in, 2, t->diag));
    expect_same(t, to, &w);
    EXPECT(t, !dv_darray_compute(&made, "subtract", in, 2, t->diag));
    if (made)
        expect_same(t, made, &w);
    dv_darray_destroy(made);
    dv_darray_destroy(to);
    dv_darray_destroy(b);
    dv_darray_destroy(a);
}

// -- All of it -------------------------------------------------------------

static void case_scalar(tester *t)
{
    layout l;
    double x = 2.5, y = 0;
    dv_darray *a = NULL, *s = NULL;
    make_layout(t, &l, 0, NULL);
    EXPECT(t, !dv_darray_create(&a, t->p, DV_ELEM_F64, &l.d, NULL, t->diag));
    if (!a)
        return;
    EXPECT(t, !dv_darray_fill(a, &x, t->diag));
    EXPECT(t, !dv_darray_reduce(&s, a, DV_REDUCE_SUM, NULL, 0, t->diag));
    EXPECT(t, s && *(double *)dv_darray_data(s, NULL) == 2.5); // one, copied
    EXPECT(t, !dv_darray_gather(a, 0, &y, t->diag));
    EXPECT(t, dv_team_rank(t->p) || y == 2.5);
    dv_darray_destroy(s);
    dv_darray_destroy(a);
}

uint64_t array_case(dv_team_link *p, uint64_t seed, int turns, int *bad,
                    dv_diag *diag)
{
    tester t = {p, diag, seed, seed * 31 + 7, DV_HASH, 0};
    for (int i = 0; i < turns; i++) {
        case_boxes(&t);
        case_halo(&t);
        case_widths(&t);
        case_repartition(&t);
        case_copy(&t, 0);
        case_copy(&t, 1);
        case_permute(&t);
        case_reshape(&t);
        case_move(&t);
        case_boxes_in_and_out(&t);
        case_lines(&t);
        case_join(&t);
        case_adopt(&t);
        case_reduce(&t);
        case_scalar(&t);
        if (i % 10 == 0) // plans take time
            case_function(&t);
    }
    *bad += t.bad;
    return t.hash;
}
