// The kernel's dimensions, tiles and the order of loops, each by trying what is
// possible and counting what it would cost:
//
//   kernel   an m and an n, and k up to what a panel in L1 holds
//     tile     sizes of m and n inside; blocks of loops for L2
//       order    templates of loops, around each other
//         pack     what is packed, and in which loop
//
// Each pass tries the later ones on copies and keeps only its own choice; the
// later pass then finds the same. Nothing here depends on the number of
// threads: sums are in the same order for any.
//
// Most of what is possible is not counted. All kernels and sizes have a bound
// (bound.c), which is quick to find; the one that may cost least is counted
// first, and others where their bound is not above that.
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

// -- Kernels -----------------------------------------------------------------

static void to_prim(dv_nest *n, int i)
{
    dv_nest_dim d = n->dims[i];
    d.exec = DV_NEST_PRIM;
    memmove(&n->dims[i], &n->dims[i + 1],
            (size_t)(n->n_dims - i - 1) * sizeof d);
    n->dims[n->n_dims - 1] = d;
}

// The k that goes inside next: unit stride in an operand, or else the smallest
// steps.
static int next_k(const dv_nest *n)
{
    int best = -1;
    for (int i = 0; i < n->n_dims; i++) {
        const dv_nest_dim *d = &n->dims[i];
        if (d->type != DV_NEST_K || d->exec == DV_NEST_PRIM)
            continue;
        int64_t step =
            dv_min_i64(llabs(d->stride[DV_IN0]), llabs(d->stride[DV_IN1]));
        const dv_nest_dim *b = best < 0 ? d : &n->dims[best];
        int64_t least =
            dv_min_i64(llabs(b->stride[DV_IN0]), llabs(b->stride[DV_IN1]));
        if (best < 0 || step < least)
            best = i;
    }
    return best;
}

// k inside until there is enough of it; the one put first is innermost.
static void mark_k(dv_nest *n, int64_t enough)
{
    int count = 0, i;
    int64_t k = 1;
    dv_nest_dim inside[DV_FORM_MAX_K];
    if (n->k_order == DV_K_AS_IT_IS)
        return;
    for (i = 0; i < n->n_dims; i++) // those of another pass are found again
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

// Dimensions worth trying inside: unit strides first, then long ones.
enum { MOST_TRIED = 4 };

static int worth(const dv_nest_dim *d)
{
    return (d->stride[DV_OUT] == 1) * 2 +
           (d->stride[DV_IN0] == 1 || d->stride[DV_IN1] == 1);
}

// How many dimensions of its type are tried before dimension i.
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
        else
            before += j < i;
    }
    return before;
}

// Dimension number i of a type to try; -1: there is none.
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
    mark_k(a, enough);
}

// -- Sizes -------------------------------------------------------------------

// Returns the longest k of a kernel whose panel of B takes its share of L1, and
// with long vectors that panel together with two panels of A of f32.
static int64_t k_limit(const dv_nest_caches *caches)
{
    const dv_isa *isa = dv_isa_of_vector(caches->vector);
    int64_t bytes_of_k =
        caches->vector > 16
            ? caches->vector * caches->vectors + 8 * caches->rows
            : caches->vector * isa->panel_vectors;
    return dv_max_i64(caches->l1 * isa->search_of_l1 / 8 / bytes_of_k, 16);
}

// Few rows use every element once: it pays to go along what lies together, a
// few k at a time, rather than down the columns.
static int64_t k_wanted(const dv_nest *n, const dv_nest_caches *caches)
{
    int64_t least = dv_min_i64(dv_nest_prim_size(n, DV_NEST_M),
                               dv_nest_prim_size(n, DV_NEST_N));
    return least < 4 ? DV_FORM_THIN_K : k_limit(caches);
}

// Elements of a unit stride loop that go together: one line, or a few.
static const int64_t lines[] = {16, 96};
enum { N_LINES = sizeof lines / sizeof *lines };

enum {
    MOST_KERNELS = MOST_TRIED * MOST_TRIED,
    N_SIZES = DV_NEST_WIDTHS * DV_NEST_WIDTHS,
    N_BLOCKS = 8
};

// A kernel and its sizes, and what that costs at least.
typedef struct choice {
    double bound;
    int16_t known; // number of its outcomes; -1: it was not tried
    uint8_t kernel, line, m, n;
} choice;

// What a choice was found to cost, for each of its blocks.
typedef struct outcome {
    double cost, least; // least: of its kernels
    int block, exact;   // not exact: it costs no less
} outcome;

typedef struct outcomes {
    outcome at[N_BLOCKS];
    int n;
} outcomes;

enum { MOST_KNOWN = 64 }; // others are tried again

typedef struct search {
    const dv_nest_caches *caches;
    const dv_nest *n;
    int kernels; // are they chosen, or is there one?
    choice all[MOST_KERNELS * N_LINES * N_SIZES];
    int n_all;
    outcomes known[MOST_KNOWN];
    int n_known;
    double reached;  // the best costs no more in the end
    double spared;   // what costs so many times that is not counted
    double low, top; // what the best so far costs is between
    const choice *best;
    int best_block, sure;
} search;

static void begin(search *s, const dv_nest *n, const dv_nest_caches *caches,
                  int kernels)
{
    s->caches = caches;
    s->n = n;
    s->kernels = kernels;
    s->n_all = s->n_known = 0; // the others are set as they come
}

// The nest with kernel number `kernel`.
static void take_kernel(const search *s, int kernel, dv_nest *out)
{
    if (s->kernels)
        with_prims(out, s->n, pick(s->n, DV_NEST_M, kernel / MOST_TRIED),
                   pick(s->n, DV_NEST_N, kernel % MOST_TRIED),
                   k_limit(s->caches));
    else
        dv_nest_copy(out, s->n);
}

// The same with k and lines cut. Returns whether there were lines.
static int take_lines(const search *s, int kernel, int line, dv_nest *out)
{
    take_kernel(s, kernel, out);
    dv_nest_cut_k(out, k_wanted(out, s->caches));
    int before = out->n_dims;
    dv_nest_cut_lines(out, lines[line]);
    return out->n_dims > before;
}

static void take_choice(const search *s, const choice *c, dv_nest *out)
{
    int64_t unit = s->caches->vector / 4;
    take_lines(s, c->kernel, c->line, out);
    dv_nest_cut_prim(out, DV_NEST_M, c->m, unit);
    dv_nest_cut_prim(out, DV_NEST_N, c->n, unit);
}

// Blocks of loops around a kernel of settled size.
static void take_block(const search *s, int block, dv_nest *n)
{
    static const int64_t few[] = {8, 4, 16};
    int64_t size = dv_dtype_get(n->dtype)->size_bytes;
    int64_t elems = s->caches->l2 / 2 / size;
    if (block < 4 && block & 1)
        dv_nest_cut_block(n, DV_NEST_M, elems);
    if (block < 4 && block & 2)
        dv_nest_cut_block(n, DV_NEST_N, elems);
    if (block == 7)
        dv_nest_cut_runs(n, s->caches->l3 / 4 / size);
    else if (block >= 4)
        dv_nest_cut_few(n, few[block - 4]);
}

// -- Choices -----------------------------------------------------------------

// The sizes that the m or n of a nest is cut to; 0: none, or there was the
// same.
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
    dv_nest_sizes sizes;
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

// -- Searching ---------------------------------------------------------------

// One choice after the other becomes the best if it costs less than NEARLY what
// that does. What is known to cost SPARED times what is reached somewhere need
// not be counted: it is not the best in the end. But it may keep others from
// being the best in between; so `low` and `top` say what the best so far may
// cost, and where the last word depends on it (`sure` is 0), all is counted.
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
        double cost = dv_nest_put_in_order(&tried, s->caches, most, &x);
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

// Go through all choices, or those of one kernel. Without `count`, nothing is
// tried that was not.
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

// The best choice; 0: there is none.
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

// -- Passes ------------------------------------------------------------------

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
    if (dv_nest_is_product(n) && !dv_nest_is_plain(n, NULL) && find_best(&s))
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
    if (!dv_nest_is_product(n) || dv_nest_is_plain(n, n) || !find_best(&s))
        return DV_OK;
    take_kernel(&s, s.best->kernel, &found);
    dv_nest_copy(n, &found);
    return DV_OK;
}

// Kernel and tiles by one search; 0: the tiles have to be searched for.
static int lay_at_once(dv_nest *n, const dv_nest_caches *caches)
{
    dv_nest_ordered x;
    search s;
    begin(&s, n, caches, 1);
    if (!find_best(&s))
        return 0;
    // What the pass tile would find, that has this kernel alone.
    go_through(&s, s.best->kernel, 0);
    if (!s.sure || !s.best)
        return 0;
    take_best(&s, n);
    // No order costs less.
    double most = s.top * (1 + 1e-12);
    if (dv_nest_put_in_order(n, caches, most, &x) < most)
        dv_nest_mark(n, &x.packs);
    return 1;
}

void dv_nest_lay(dv_nest *n, const dv_nest_options *options)
{
    dv_nest_caches caches = dv_nest_caches_of(options);
    if (dv_nest_is_product(n) && !dv_nest_is_plain(n, n) &&
        lay_at_once(n, &caches))
        return;
    dv_nest_kernel(n, options, NULL);
    dv_nest_tile(n, options, NULL);
    dv_nest_order(n, options, NULL);
    dv_nest_pack(n, options, NULL);
}
