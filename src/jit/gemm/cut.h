// Cuts the rows and vectors of a matrix product into register tiles: at most
// two runs of equally sized tiles, in order.
#ifndef DV_JIT_CUT_H
#define DV_JIT_CUT_H
#include "jit/jit.h"

typedef struct dv_runs {
    int size[2], count[2], n;
} dv_runs;

typedef struct dv_cuts {
    // How the rows of the product (s), and how the vectors of a row (v), are
    // cut into register tiles.
    dv_runs s, v;
} dv_cuts;

static inline void dv_runs_push(dv_runs *r, int size, int count)
{
    if (count > 0) {
        r->size[r->n] = size;
        r->count[r->n++] = count;
    }
}

// Cuts n rows or vectors into register tiles of nearly equal size, at most
// `most`.
static inline dv_runs dv_runs_even(int n, int most)
{
    dv_cut even = dv_cut_even(n, most);
    dv_runs r = {.n = 0};
    dv_runs_push(&r, even.size, even.n);
    dv_runs_push(&r, even.size + 1, even.n_larger);
    return r;
}

// Cuts n rows or vectors into register tiles of size `most`, and one smaller
// tile for the remainder.
static inline dv_runs dv_runs_whole(int n, int most)
{
    dv_runs r = {.n = 0};
    dv_runs_push(&r, most, n / most);
    dv_runs_push(&r, n % most, n % most > 0);
    return r;
}
#endif
