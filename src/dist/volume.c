// Computes data volumes: the best relabelling of ranks and the communication
// lower bound of a matrix product.
#include "dist/dist.h"
#include <inttypes.h>
#include <math.h>

enum { MAX_RELABELLED = 4096 };

// Maximum-weight assignment of rows to columns by the Hungarian method (Kuhn,
// Munkres; O(n^3)). Rows are added one at a time along the cheapest augmenting
// path; the prices keep all reduced costs nonnegative.
typedef struct assign {
    const int64_t *weight;
    int64_t n;
    int64_t *price_row, *price_col, *least;
    // row_of[c] is the row assigned to column c (1..n), from[c] the previous
    // column of the path; column 0 holds the row being added.
    int64_t *row_of, *from;
    char *seen;
} assign;

static void add_row(assign *a, int64_t row)
{
    int64_t n = a->n, at = 0;
    a->row_of[0] = row;
    for (int64_t j = 0; j <= n; j++) {
        a->least[j] = INT64_MAX;
        a->seen[j] = 0;
    }
    do {
        int64_t i = a->row_of[at], step = INT64_MAX, next = 0;
        a->seen[at] = 1;
        for (int64_t j = 1; j <= n; j++) {
            if (a->seen[j])
                continue;
            int64_t cost = -a->weight[(i - 1) * n + j - 1] - a->price_row[i] -
                           a->price_col[j];
            if (cost < a->least[j]) {
                a->least[j] = cost;
                a->from[j] = at;
            }
            if (a->least[j] < step) {
                step = a->least[j];
                next = j;
            }
        }
        for (int64_t j = 0; j <= n; j++) {
            if (a->seen[j]) {
                a->price_row[a->row_of[j]] += step;
                a->price_col[j] -= step;
            } else {
                a->least[j] -= step;
            }
        }
        at = next;
    } while (a->row_of[at]);
    for (; at; at = a->from[at])
        a->row_of[at] = a->row_of[a->from[at]];
}

dv_status dv_dist_relabel(int64_t *best, const int64_t *overlap, int64_t n,
                          dv_diag *diag)
{
    if (n < 0 || n > MAX_RELABELLED)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "renaming %" PRId64 " ranks: at most %d are compared", n,
                       MAX_RELABELLED);
    dv_arena arena = {0};
    assign a = {.weight = overlap, .n = n};
    a.price_row = DV_NEW(&arena, int64_t, n + 1);
    a.price_col = DV_NEW(&arena, int64_t, n + 1);
    a.least = DV_NEW(&arena, int64_t, n + 1);
    a.row_of = DV_NEW(&arena, int64_t, n + 1);
    a.from = DV_NEW(&arena, int64_t, n + 1);
    a.seen = DV_NEW(&arena, char, n + 1);
    int ok =
        a.price_row && a.price_col && a.least && a.row_of && a.from && a.seen;
    for (int64_t i = 1; ok && i <= n; i++)
        add_row(&a, i);
    int64_t sum = 0;
    for (int64_t j = 1; ok && j <= n; j++)
        sum += overlap[(a.row_of[j] - 1) * n + j - 1];
    dv_arena_free(&arena);
    if (!ok)
        return dv_nomem(diag);
    *best = sum;
    return DV_OK;
}

// A rank that computes m n k / P of the products uses x, y and z elements of
// the three matrices, with x y z >= (m n k / P)^2 by the Loomis-Whitney
// inequality, and at least 1/P of each matrix. The bound is the minimum of x +
// y + z under these conditions minus the elements the rank owns; at the
// minimum, as many of x, y and z are equal as the second condition allows.
double dv_dist_product_bound(double m, double n, double k, double n_ranks)
{
    double face[3] = {m * n / n_ranks, m * k / n_ranks, n * k / n_ranks};
    for (int i = 0; i < 2; i++) // bubble sort, descending
        for (int j = 0; j < 2 - i; j++)
            if (face[j] < face[j + 1]) {
                double t = face[j];
                face[j] = face[j + 1];
                face[j + 1] = t;
            }
    double volume = m * n * k / n_ranks, square = volume * volume;
    double touched = 3 * cbrt(square);
    if (cbrt(square) < face[0])
        touched = face[0] + 2 * sqrt(square / face[0]);
    if (cbrt(square) < face[0] && sqrt(square / face[0]) < face[1])
        touched = face[0] + face[1] + square / (face[0] * face[1]);
    return fmax(0, touched - face[0] - face[1] - face[2]);
}
