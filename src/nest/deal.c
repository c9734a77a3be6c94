// Who does what. One or two dimensions are cut into parts for the threads, and
// the loops over the parts stand before all others:
//
//   m 2 shared: in0 144, out 144        2 threads, 144 of m each
//   k 216 seq: …
//   m 144 of 288 prim: in0 1, out 1
//
// Which ones: all pairs of c, m and n are tried, and what a thread would take
// is counted as for the other passes, with what all pack alike. Where they are
// too small, k is cut: its parts are summed apart and combined in order.
//
// What is packed stays packed, and k stays in its order, so that sums are the
// same for any number of threads; only `combine` changes them.
#include "nest/best.h"
#include "base/dtype.h"
#include "base/math.h"
#include <math.h>
#include <string.h>

typedef struct dealer {
    const dv_nest *n;
    dv_nest_caches caches;
    int64_t threads;
    dv_nest best;
    double least; // ns
} dealer;

// Cut dimension `dim` into `parts`, the loop over them outermost and shared.
// Returns how many there are; 0: it cannot be cut.
static int64_t part(dv_nest *n, int dim, int64_t parts)
{
    dv_nest_dim d = n->dims[dim];
    int64_t unit = d.exec == DV_NEST_PRIM ? d.type == DV_NEST_K ? 8 : 4 : 1;
    int64_t size = dv_ceil_div(dv_ceil_div(d.size, parts), unit) * unit;
    if (n->n_dims == DV_NEST_MAX_DIMS || (size >= d.size && d.size > 1))
        return 0;
    if (size >= d.size || size == 1) { // a part is one turn of the loop
        if (d.exec == DV_NEST_PRIM)
            return 0;
        d.pack = 0;
        memmove(&n->dims[1], &n->dims[0], (size_t)dim * sizeof d);
        n->dims[0] = d;
    } else {
        dv_nest_cut(n, dim, size);
        d = n->dims[dim];
        memmove(&n->dims[1], &n->dims[0], (size_t)dim * sizeof d);
        n->dims[0] = d;
    }
    n->dims[0].exec = DV_NEST_SHARED;
    return n->dims[0].size;
}

// The part of the whole that the busiest thread has to do: whole turns of the
// shared loops, the first of which are not cut short.
static double largest_share(const dv_nest *n, int64_t threads)
{
    dv_nest_tiles t;
    int bad;
    int64_t turns = 1;
    double each = 1;
    if (!dv_nest_tiles_of(n, &t, &bad))
        return 1;
    for (int i = 0; i < n->n_dims && n->dims[i].exec == DV_NEST_SHARED; i++) {
        int in = t.inner[i];
        int64_t whole = in < 0 ? n->dims[i].size : n->dims[in].whole;
        turns *= n->dims[i].size;
        each *= (double)t.unit[i] / (double)whole;
    }
    double most = (double)dv_ceil_div(turns, threads) * each;
    return most > 1 ? 1 : most;
}

static double combine_cost(const dv_nest *n)
{
    double elems = (double)dv_dtype_get(n->dtype)->size_bytes / 4;
    if (!n->combine)
        return 0;
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].type != DV_NEST_K && !n->dims[i].whole)
            elems *= (double)n->dims[i].size;
    return elems * 0.6 + 5000; // and one more meeting of the threads
}

// Does it cost less than the best by more than a little?
static void consider(dealer *w, dv_nest *n)
{
    double share = largest_share(n, w->threads), more = combine_cost(n);
    double most = (w->least * 0.995 - more) / share;
    double all = DV_NEST_IMPOSSIBLE;
    if (most > 0) // a little more, since it is rounded
        all = dv_nest_mark_packs(n, &w->caches, 1, fmin(most * 1.001, all));
    double cost = all * share + more;
    if (all >= DV_NEST_IMPOSSIBLE || cost >= w->least * 0.995 ||
        dv_nest_check_order(n, NULL))
        return;
    w->least = cost;
    dv_nest_copy(&w->best, n);
}

// Dimensions whose parts may be dealt: not made up by other loops.
static int is_top(const dv_nest *n, int i, int of_k)
{
    return (n->dims[i].type == DV_NEST_K) == of_k && !n->dims[i].whole &&
           n->dims[i].exec != DV_NEST_SHARED;
}

static void try_two(dealer *w, int64_t a, int64_t b)
{
    for (int i = 0; i < w->n->n_dims; i++) {
        dv_nest one, two;
        if (!is_top(w->n, i, 0))
            continue;
        dv_nest_copy(&one, w->n);
        if (!part(&one, i, a))
            continue;
        if (b == 1) {
            consider(w, &one);
            continue;
        }
        for (int j = 0; j < one.n_dims; j++) {
            if (!is_top(&one, j, 0))
                continue;
            dv_nest_copy(&two, &one);
            if (part(&two, j, b))
                consider(w, &two);
        }
    }
}

// Parts of k must be worth the sums.
static void try_k(dealer *w)
{
    double without = w->least;
    dv_nest a, before;
    dv_nest_copy(&before, &w->best);
    w->least *= 0.75;
    for (int i = 0; i < w->n->n_dims; i++) {
        if (!is_top(w->n, i, 1))
            continue;
        dv_nest_copy(&a, w->n);
        a.combine = 1;
        if (part(&a, i, w->threads) > 1)
            consider(w, &a);
    }
    if (!w->best.combine) {
        dv_nest_copy(&w->best, &before);
        w->least = without;
    }
}

// A plain product shares itself, but whole ones of a batch are better.
static void deal_batch(dv_nest *n, int64_t threads)
{
    int64_t turns = 1;
    for (int i = 0; i < n->n_dims && n->dims[i].type == DV_NEST_C; i++)
        if (!dv_mul_i64(&turns, turns, n->dims[i].size))
            return;
    if ((double)turns < 0.9 * (double)(dv_ceil_div(turns, threads) * threads))
        return;
    for (int i = 0; i < n->n_dims && n->dims[i].type == DV_NEST_C; i++)
        n->dims[i].exec = DV_NEST_SHARED;
}

static double k_of(const dv_nest *n)
{
    double k = 1;
    for (int i = 0; i < n->n_dims; i++)
        k *= n->dims[i].type == DV_NEST_K ? (double)n->dims[i].size : 1;
    return k;
}

static double m_n_of(const dv_nest *n)
{
    double mn = 1;
    for (int i = 0; i < n->n_dims; i++)
        mn *= n->dims[i].type != DV_NEST_K ? (double)n->dims[i].size : 1;
    return mn;
}

dv_status dv_nest_deal(dv_nest *n, const dv_nest_options *options,
                       dv_diag *diag)
{
    dealer w;
    w.n = n;
    w.caches = dv_nest_caches_of(options);
    w.threads = options->threads;
    if (w.threads < 2)
        return DV_OK;
    dv_nest_copy(&w.best, n);
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].exec == DV_NEST_SHARED)
            return DV_OK; // dealt already
    if (!dv_nest_is_product(n))
        return dv_nest_is_tiled(n) ? DV_OK : dv_nest_shared(n, options, diag);
    double all = w.least = dv_nest_cost(n, &w.caches);
    if (dv_nest_is_gemm(n, NULL)) {
        // Plans of narrow factors have no parts that are combined.
        if (n->narrow || k_of(n) < 64 * m_n_of(n) || k_of(n) < 1e4) {
            deal_batch(n, w.threads);
            return DV_OK;
        }
        try_k(&w); // almost all of it is k
        dv_nest_copy(n, &w.best);
        return DV_OK;
    }
    // Sums in lanes or in a chain, as without threads: in the same order.
    dv_nest_form f;
    uint8_t dot = n->dot;
    if (!dot && !dv_nest_form_of(n, &f, NULL))
        n->dot = dv_nest_form_is_dot(&f) ? DV_DOT_ALWAYS : DV_DOT_NEVER;
    for (int64_t a = 1; a <= w.threads; a++)
        if (w.threads % a == 0)
            try_two(&w, w.threads / a, a);
    // Only where the others leave threads idle.
    if (w.least > 1.5 * all / (double)w.threads)
        try_k(&w);
    dv_nest_copy(n, &w.best);
    n->dot = dot;
    return DV_OK;
}
