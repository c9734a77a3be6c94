// The passes kernel and tile, which search for the schedule of a loop nest with
// the lowest estimated cost. The choices are nested (m: rows, n: columns, k:
// the summed dimension of a matrix product):
//
//   kernel   which m and n are inside the kernel, and k up to a panel in L1
//     tile     sizes of m and n inside; blocks of loops for L2
//       order    templates for the order of loops
//         pack     which operands are packed, and in which loops
//
// Each pass evaluates the later ones on copies and keeps only its own choice;
// the later pass then makes the same choice again. Nothing here depends on the
// number of threads, so that the order of additions does not either.
//
// Most candidates are not evaluated. A lower bound of the cost (bound.c), which
// is cheap to compute, is found for all kernels and sizes; the candidate with
// the lowest bound is evaluated first, and others only if their bound is below
// the cost found so far.
#include "nest/cost.h"
#include "base/dtype.h"
#include "base/math.h"
#include "kernel/kernel.h"
#include <stdlib.h>
#include <string.h>

dv_nest_caches dv_nest_caches_of(const dv_nest_options *o)
{
    const dv_isa *isa = dv_isa_of_vector(o->vector_bytes);
    return (dv_nest_caches){
        o->l1_bytes ? o->l1_bytes : isa->l1_bytes,
        o->l2_bytes ? o->l2_bytes : isa->l2_bytes,
        o->l3_bytes ? o->l3_bytes : 16 << 20,
        o->vector_bytes ? o->vector_bytes : isa->vector_bytes,
        o->tile_rows ? o->tile_rows : isa->panel_rows,
        o->tile_vectors ? o->tile_vectors : isa->search_vectors};
}

static void to_prim(dv_nest *n, int i)
{
    n->dims[i].exec = DV_NEST_PRIM;
    dv_nest_move(n, i, n->n_dims - 1);
}

// Returns the smaller of the strides of k dimension d (summed) in the inputs
// in0 and in1. If one input is constant, returns the stride in the other: a
// constant is packed before the first run, so its strides do not matter.
static int64_t least_step(const dv_nest *n, const dv_nest_dim *d)
{
    int64_t a = llabs(d->stride[DV_IN0]), b = llabs(d->stride[DV_IN1]);
    int fixed = n->fixed & (1 << DV_IN0 | 1 << DV_IN1);
    return fixed == 1 << DV_IN0   ? b
           : fixed == 1 << DV_IN1 ? a
                                  : dv_min_i64(a, b);
}

// Returns the k (a summed dimension) that is moved from the loops into the
// kernel next: the one with the smallest stride (least_step), or -1 if there is
// none left.
static int next_k(const dv_nest *n)
{
    int best = -1;
    for (int i = 0; i < n->n_dims; i++) {
        const dv_nest_dim *d = &n->dims[i];
        if (d->type != DV_NEST_K || d->exec == DV_NEST_PRIM)
            continue;
        if (best < 0 || least_step(n, d) < least_step(n, &n->dims[best]))
            best = i;
    }
    return best;
}

// Moves k dimensions (summed) from the loops into the kernel until they have
// more than half of `enough` iterations. The first one moved becomes the
// innermost.
static void move_k_inside(dv_nest *n, int64_t enough)
{
    int count = 0, i;
    int64_t k = 1;
    dv_nest_dim inside[DV_FORM_MAX_K];
    if (n->k_order == DV_K_AS_IT_IS)
        return;
    for (i = 0; i < n->n_dims; i++) // start again with all k outside the kernel
        if (n->dims[i].type == DV_NEST_K)
            n->dims[i].exec = DV_NEST_SEQ;
    while (count < DV_FORM_MAX_K && k * 2 <= enough && (i = next_k(n)) >= 0) {
        n->dims[i].exec = DV_NEST_PRIM;
        k *= n->dims[i].size;
        inside[count++] = n->dims[i];
    }
    int kept = 0;
    for (i = 0; i < n->n_dims; i++)
        if (n->dims[i].type != DV_NEST_K || n->dims[i].exec != DV_NEST_PRIM)
            n->dims[kept++] = n->dims[i];
    while (count > 0)
        n->dims[kept++] = inside[--count];
}

// The number of m dimensions (rows), and of n dimensions (columns), that are
// tried inside the kernel: first those with unit strides, then those of large
// size, then those with small strides in the inputs.
enum { MOST_TRIED = 4 };

static int worth(const dv_nest_dim *d)
{
    return (d->stride[DV_OUT] == 1) * 2 +
           (d->stride[DV_IN0] == 1 || d->stride[DV_IN1] == 1);
}

static int64_t reach(const dv_nest_dim *d)
{
    return dv_max_i64(llabs(d->stride[DV_IN0]), llabs(d->stride[DV_IN1]));
}

// Returns how many dimensions of the same type (m, n or k) are tried inside the
// kernel before dimension i.
static int rank_of(const dv_nest *n, int i)
{
    const dv_nest_dim *d = &n->dims[i];
    int before = 0;
    for (int j = 0; j < n->n_dims; j++) {
        const dv_nest_dim *e = &n->dims[j];
        if (j == i || e->type != d->type)
            continue;
        if (worth(e) != worth(d))
            before += worth(e) > worth(d);
        else if (e->size != d->size)
            before += e->size > d->size;
        else if (reach(e) != reach(d))
            before += reach(e) < reach(d);
        else
            before += j < i;
    }
    return before;
}

// Returns the i-th dimension of a type (m or n) that is tried inside the
// kernel, or -1 if there is none.
static int pick(const dv_nest *n, dv_nest_type type, int i)
{
    for (int j = 0; i < MOST_TRIED && j < n->n_dims; j++)
        if (n->dims[j].type == type && rank_of(n, j) == i)
            return j;
    return -1;
}

static void with_prims(dv_nest *a, const dv_nest *n, int m, int k_n,
                       int64_t enough)
{
    dv_nest_copy(a, n);
    if (m >= 0)
        to_prim(a, m);
    if (k_n >= 0)
        to_prim(a, m >= 0 && m < k_n ? k_n - 1 : k_n);
    move_k_inside(a, enough);
}

// Returns the largest k (summed dimension of the kernel) for which a packed
// panel of B, the operand with the columns, stays in L1. NEON's panels have
// five vectors of 16 bytes per row. With longer vectors a panel may exceed L1
// and be partly read from L2, because more passes over the output would cost
// more.
static int64_t k_limit(const dv_nest_caches *caches)
{
    const dv_isa *isa = dv_isa_of_vector(caches->vector);
    int64_t bytes_of_k =
        caches->vector > 16
            ? caches->vector * caches->vectors + 8 * caches->rows
            : caches->vector * isa->panel_vectors;
    return dv_max_i64(caches->l1 * isa->search_of_l1 / 8 / bytes_of_k, 16);
}

// Returns the number of iterations of k (the summed dimensions) wanted inside
// the kernel. With fewer than 4 rows or columns every element of the matrix is
// read only once, and a small k reads it along contiguous rows instead of down
// its columns.
static int64_t k_wanted(const dv_nest *n, const dv_nest_caches *caches)
{
    int64_t least = dv_min_i64(dv_nest_prim_size(n, DV_NEST_M),
                               dv_nest_prim_size(n, DV_NEST_N));
    return least < 4 ? DV_FORM_THIN_K : k_limit(caches);
}

// Tile sizes tried for a unit-stride loop, in elements: one cache line of f32,
// or six.
static const int64_t lines[] = {16, 96};
enum { N_LINES = sizeof lines / sizeof *lines };

enum {
    MOST_KERNELS = MOST_TRIED * MOST_TRIED,
    N_SIZES = DV_NEST_WIDTHS * DV_NEST_WIDTHS,
    N_BLOCKS = 8
};

// A candidate of the search: the choice of the kernel's dimensions with their
// sizes, and a lower bound of its cost.
typedef struct choice {
    double bound;
    // The index of this candidate's stored costs (in `known` of the search), or
    // -1 if it was not evaluated.
    int16_t known;
    uint8_t kernel, line, m, n;
} choice;

// The evaluated cost of a candidate with one way of blocking its loops for L2.
typedef struct outcome {
    double cost, least; // `least` is the cost of its kernel calls alone
    int block, exact;   // `exact` is 0 if `cost` is only a lower bound
} outcome;

typedef struct outcomes {
    outcome at[N_BLOCKS];
    int n;
} outcomes;

// Number of candidates (kernels with their sizes) whose evaluated costs are
// stored; others are evaluated again when needed.
enum { MOST_KNOWN = 64 };

typedef struct search {
    const dv_nest_caches *caches;
    const dv_nest *n;
    int kernels; // set if the search also chooses the kernel's dimensions
    choice all[MOST_KERNELS * N_LINES * N_SIZES];
    int n_all;
    outcomes known[MOST_KNOWN];
    int n_known;
    double reached; // lowest cost found, which bounds the final cost from above
    // Candidates that cost at least this factor times the lowest cost found are
    // not evaluated.
    double spared;
    // Bounds of the cost of the best candidate so far. The cost is uncertain if
    // candidates were skipped: one of them may have been the best for a while.
    double low, top;
    const choice *best;
    int best_block, sure;
} search;

static void begin(search *s, const dv_nest *n, const dv_nest_caches *caches,
                  int kernels)
{
    s->caches = caches;
    s->n = n;
    s->kernels = kernels;
    s->n_all = s->n_known = 0; // other fields are set before they are read
}

// Copies the nest to *out with the dimensions m (rows), n (columns) and k
// (summed) of kernel candidate number `kernel` inside the kernel instead of in
// loops.
static void take_kernel(const search *s, int kernel, dv_nest *out)
{
    if (s->kernels)
        with_prims(out, s->n, pick(s->n, DV_NEST_M, kernel / MOST_TRIED),
                   pick(s->n, DV_NEST_N, kernel % MOST_TRIED),
                   k_limit(s->caches));
    else
        dv_nest_copy(out, s->n);
}

// Copies the nest to *out with kernel candidate number `kernel`, k (its summed
// dimension) tiled for L1, and unit-stride loops tiled into lines of
// lines[line] elements. Returns whether there were such loops.
static int take_lines(const search *s, int kernel, int line, dv_nest *out)
{
    take_kernel(s, kernel, out);
    dv_nest_tile_k(out, k_wanted(out, s->caches));
    int before = out->n_dims;
    dv_nest_tile_lines(out, lines[line]);
    return out->n_dims > before;
}

static void take_choice(const search *s, const choice *c, dv_nest *out)
{
    int64_t unit = s->caches->vector / 4;
    take_lines(s, c->kernel, c->line, out);
    dv_nest_tile_prim(out, DV_NEST_M, c->m, unit);
    dv_nest_tile_prim(out, DV_NEST_N, c->n, unit);
}

// Tiles the loops around a kernel whose sizes are already chosen, so that
// blocks stay in L2 or L3. `block` is the number of the tiling that is tried.
static void take_block(const search *s, int block, dv_nest *n)
{
    static const int64_t few[] = {8, 4, 16};
    int64_t size = dv_dtype_get(n->dtype)->size_bytes;
    int64_t elems = s->caches->l2 / 2 / size;
    if (block < 4 && block & 1)
        dv_nest_tile_block(n, DV_NEST_M, elems);
    if (block < 4 && block & 2)
        dv_nest_tile_block(n, DV_NEST_N, elems);
    if (block == 7)
        dv_nest_tile_runs(n, s->caches->l3 / 4 / size);
    else if (block >= 4)
        dv_nest_tile_rows(n, few[block - 4]);
}

// Sets sizes[] to the sizes that the kernel's m or n can be cut to. An entry is
// 0 if its size is impossible or already listed.
static void list_widths(const search *s, const dv_nest *given,
                        dv_nest_type type, int64_t *sizes)
{
    for (int i = 0; i < DV_NEST_WIDTHS; i++) {
        sizes[i] = dv_nest_prim_width(given, type, i, s->caches->vector / 4);
        for (int j = 0; j < i; j++)
            if (sizes[j] == sizes[i])
                sizes[i] = 0;
    }
}

static void list_sizes(search *s, const dv_nest *given, int kernel, int line)
{
    int64_t of_m[DV_NEST_WIDTHS], of_n[DV_NEST_WIDTHS];
    dv_nest_count c;
    dv_nest_size_bounds sizes;
    dv_nest_tiles t;
    int bad;
    if (!dv_nest_tiles_of(given, &t, &bad) ||
        !dv_nest_count_begin(&c, given, s->caches, &t))
        return;
    dv_nest_sizes_begin(&sizes, &c);
    list_widths(s, given, DV_NEST_M, of_m);
    list_widths(s, given, DV_NEST_N, of_n);
    for (int i = 0; i < N_SIZES; i++) {
        int m = i / DV_NEST_WIDTHS, n = i % DV_NEST_WIDTHS;
        if (!of_m[m] || !of_n[n])
            continue;
        double bound =
            dv_nest_sizes_bound(&sizes, (const int64_t[]){of_m[m], of_n[n]});
        s->all[s->n_all++] = (choice){
            bound, -1, (uint8_t)kernel, (uint8_t)line, (uint8_t)m, (uint8_t)n};
    }
}

static void list_kernel(search *s, int kernel)
{
    dv_nest given;
    for (int line = 0, more = 1; line < N_LINES && more; line++) {
        more = take_lines(s, kernel, line, &given);
        list_sizes(s, &given, kernel, line);
    }
}

static void list_choices(search *s)
{
    if (!s->kernels) {
        list_kernel(s, 0);
        return;
    }
    for (int i = 0; i == 0 || pick(s->n, DV_NEST_M, i) >= 0; i++)
        for (int j = 0; j == 0 || pick(s->n, DV_NEST_N, j) >= 0; j++)
            list_kernel(s, i * MOST_TRIED + j);
}

// Candidates (kernels with their sizes) are visited in a fixed order, and one
// replaces the best so far if it costs less than NEARLY times as much.
// Candidates known to cost SPARED times the lowest cost found anywhere cannot
// win in the end and are not evaluated. But such a candidate might have been
// the best for a while and have kept others from replacing it, so the cost of
// the best so far is only known to lie in an interval. If the result depends on
// where in the interval it lies, the search is repeated with all candidates
// evaluated.
#define NEARLY 0.999
#define SPARED 1.003

static int same_dims(const dv_nest *a, const dv_nest *b)
{
    int same = a->n_dims == b->n_dims;
    for (int i = 0; same && i < a->n_dims; i++)
        same = a->dims[i].size == b->dims[i].size &&
               a->dims[i].whole == b->dims[i].whole &&
               a->dims[i].type == b->dims[i].type &&
               !memcmp(a->dims[i].stride, b->dims[i].stride,
                       sizeof a->dims[i].stride);
    return same;
}

static double most_of_interest(const search *s)
{
    double top = s->top * NEARLY, spared = s->reached * s->spared;
    return top < spared ? top : spared;
}

static void try_choice(search *s, choice *c, outcomes *out)
{
    dv_nest tries[N_BLOCKS], given, tried;
    dv_nest_ordered x;
    take_choice(s, c, &given);
    out->n = 0;
    for (int block = 0; block < N_BLOCKS; block++) {
        dv_nest *a = &tries[block];
        int other = 0;
        dv_nest_copy(a, &given);
        take_block(s, block, a);
        while (!same_dims(&tries[other], a))
            other++;
        if (other < block)
            continue;
        double most = most_of_interest(s);
        dv_nest_copy(&tried, a);
        double cost = dv_nest_order_loops(&tried, s->caches, most, &x);
        out->at[out->n++] =
            (outcome){cost < most ? cost : most, x.least, block, cost < most};
        double sure = cost > x.least ? cost : x.least;
        if (cost < most && sure < s->reached)
            s->reached = sure;
    }
    if (s->n_known < MOST_KNOWN) {
        c->known = (int16_t)s->n_known++;
        s->known[c->known] = *out;
    }
}

static void meet(search *s, const choice *c, const outcome *o)
{
    if (o->cost >= s->top * NEARLY || o->least >= s->top)
        return;
    s->sure = o->exact && o->cost < s->low * NEARLY && o->least < s->low;
    if (s->sure) {
        s->low = s->top = o->cost;
        s->best = c;
        s->best_block = o->block;
    } else if (o->cost < s->low) {
        s->low = o->cost;
    }
}

// Visits all candidates (kernels with their sizes), or those of one kernel if
// `kernel` is not -1, and leaves the best in *s. If `count` is 0, nothing is
// evaluated: candidates whose cost is not known yet count with the lower bound
// of their cost.
static void go_through(search *s, int kernel, int count)
{
    outcomes found;
    s->low = s->top = DV_NEST_IMPOSSIBLE;
    s->best = NULL;
    s->sure = 1;
    for (int i = 0; i < s->n_all; i++) {
        choice *c = &s->all[i];
        const outcomes *o = &found;
        if ((kernel >= 0 && c->kernel != kernel) || c->bound >= s->top * NEARLY)
            continue;
        if (c->known >= 0) {
            o = &s->known[c->known];
        } else if (!count || c->bound >= s->reached * s->spared) {
            found.n = 1;
            found.at[0] = (outcome){c->bound, 0, 0, 0};
        } else {
            try_choice(s, c, &found);
        }
        for (int j = 0; j < o->n; j++)
            meet(s, c, &o->at[j]);
    }
}

static void forget(search *s)
{
    s->n_known = 0;
    for (int i = 0; i < s->n_all; i++)
        s->all[i].known = -1;
}

// Finds the candidate (a kernel with its sizes) of lowest cost. Returns 0 if
// there is none.
static int find_best(search *s)
{
    outcomes first;
    list_choices(s);
    int at = 0;
    for (int i = 1; i < s->n_all; i++)
        if (s->all[i].bound < s->all[at].bound)
            at = i;
    if (!s->n_all)
        return 0;
    s->reached = s->top = DV_NEST_IMPOSSIBLE;
    s->spared = SPARED;
    try_choice(s, &s->all[at], &first);
    go_through(s, -1, 1);
    if (!s->sure) {
        forget(s);
        s->spared = DV_NEST_IMPOSSIBLE;
        go_through(s, -1, 1);
    }
    return s->best != NULL;
}

static void take_best(const search *s, dv_nest *n)
{
    dv_nest found;
    take_choice(s, s->best, &found);
    take_block(s, s->best_block, &found);
    dv_nest_copy(n, &found);
}

dv_status dv_nest_tile(dv_nest *n, const dv_nest_options *options,
                       dv_diag *diag)
{
    (void)diag;
    dv_nest_caches caches = dv_nest_caches_of(options);
    search s;
    begin(&s, n, &caches, 0);
    if (dv_nest_is_product(n) && !dv_nest_is_gemm(n, NULL) && find_best(&s))
        take_best(&s, n);
    return DV_OK;
}

dv_status dv_nest_kernel(dv_nest *n, const dv_nest_options *options,
                         dv_diag *diag)
{
    (void)diag;
    dv_nest_caches caches = dv_nest_caches_of(options);
    dv_nest found;
    search s;
    begin(&s, n, &caches, 1);
    if (!dv_nest_is_product(n) || dv_nest_is_gemm(n, n) || !find_best(&s))
        return DV_OK;
    take_kernel(&s, s.best->kernel, &found);
    dv_nest_copy(n, &found);
    return DV_OK;
}

// Chooses kernel, tiles, order and packing with one search. Returns 0 if that
// search finds no candidate, or skipped candidates that could decide which
// tiles are best; the caller then runs the passes one after the other.
static int schedule_at_once(dv_nest *n, const dv_nest_caches *caches)
{
    dv_nest_ordered x;
    search s;
    begin(&s, n, caches, 1);
    if (!find_best(&s))
        return 0;
    // The search compared all kernels with all tile sizes. Where the passes run
    // one by one, the pass `kernel` fixes the kernel and the pass `tile` then
    // chooses among its sizes only; selecting again among these gives the same
    // result. All costs are known already.
    go_through(&s, s.best->kernel, 0);
    if (!s.sure || !s.best)
        return 0;
    take_best(&s, n);
    n->cost_ns = s.top;
    n->n_candidates = s.n_all;
    // The search found this cost already, so that orders above it can be
    // skipped.
    double most = s.top * (1 + 1e-12);
    if (dv_nest_order_loops(n, caches, most, &x) < most)
        dv_nest_mark(n, &x.packs);
    return 1;
}

void dv_nest_schedule(dv_nest *n, const dv_nest_options *options)
{
    dv_nest_caches caches = dv_nest_caches_of(options);
    if (dv_nest_is_product(n) && !dv_nest_is_gemm(n, n) &&
        schedule_at_once(n, &caches))
        return;
    dv_nest_kernel(n, options, NULL);
    dv_nest_tile(n, options, NULL);
    dv_nest_order(n, options, NULL);
    dv_nest_pack(n, options, NULL);
}
