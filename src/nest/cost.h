// What the files that count costs share: cost.c prices a nest, packs.c chooses
// what is packed, order.c the order of loops, bound.c says what it takes at
// least.
#ifndef DV_NEST_COST_H
#define DV_NEST_COST_H
#include "base/math.h"
#include "nest/best.h"

// In ns; only their proportions matter.
typedef struct dv_nest_prices {
    double fma, tile, call; // a vector of multiply-adds
    // Per byte, beyond what is hidden behind multiply-adds.
    double l1, l2, l3, memory;
    double stream; // the same, written around the caches
    // Per 4 bytes moved.
    double copied, turned, gathered, scalar;
    // Shares of those: copied by the kernel as it reads, with what it reads
    // next asked for before; put back, where it was turned.
    double on_way, put_back;
    double pages; // of a line of results, on a page of its own
    double spill; // passes over a buffer of results that L2 does not hold
    int asks;     // kernels ask for the rows that they read in place
} dv_nest_prices;

// A bit an operand that is packed.
enum { DV_NEST_WAYS = 1 << DV_N_OPERANDS };

// What follows from which operands are packed, for any order of loops and
// wherever they are packed.
typedef struct dv_nest_way {
    enum { DV_WAY_NEW, DV_WAY_KNOWN, DV_WAY_NONE } state;
    dv_nest_form f;
    double row, col; // the kernel's sizes
    double call[2];  // ns of a call that does not ask, and does; 0: not counted
    // Of each operand, what packing it costs at least (dv_nest_bound); or 0.
    double moved[DV_N_OPERANDS];
} dv_nest_way;

typedef struct dv_nest_count {
    const dv_nest *n;
    const dv_nest_caches *caches;
    const dv_nest_prices *p;
    dv_nest_form dims, f;              // before packing, and with it
    double turns[DV_NEST_MAX_DIMS];    // of each loop
    double upto[DV_NEST_MAX_DIMS + 1]; // of all loops before this one
    // Elements of an operand: all, and those in its buffer, if it has one.
    double all[DV_N_OPERANDS], held[DV_N_OPERANDS];
    double es, row, col, k; // bytes; the kernel's sizes
    double lanes;
    int64_t panel; // vectors of a panel of columns, at most
    int types;     // that loops have, a bit each
    int uncut;     // dimensions may still be cut
    double fewest; // turns that a loop has
    dv_nest_way ways[DV_NEST_WAYS];
    double least[DV_NEST_WAYS]; // dv_nest_bound: what each costs at least
} dv_nest_count;

// -- Counting (count.c) ------------------------------------------------------

// Count what does not depend on packing. 0: there is no such nest. `t` are its
// tiles.
int dv_nest_count_begin(dv_nest_count *c, const dv_nest *n,
                        const dv_nest_caches *caches, const dv_nest_tiles *t);
// The same again for a nest whose loops stand otherwise: loop l was order[l].
// `turns` are those of the loops as they stood.
void dv_nest_count_again(dv_nest_count *c, const dv_nest *n,
                         const double *turns, const uint8_t *order);

// The way with these operands packed; NULL: there is no form.
dv_nest_way *dv_nest_way_of(dv_nest_count *c, int packed);
// Pack operand `o` in loop `at` of the form that was taken.
void dv_nest_pack_in(dv_nest_count *c, int o, int at);

// Count for a way; where it is packed is not known yet.
static inline void dv_nest_way_take(dv_nest_count *c, const dv_nest_way *w)
{
    c->f = w->f;
    c->row = w->row;
    c->col = w->col;
}

// What a byte costs that comes from so many.
static inline double dv_nest_rate(const dv_nest_count *c, double bytes)
{
    return bytes <= (double)c->caches->l2 / 2   ? c->p->l2
           : bytes <= (double)c->caches->l3 / 2 ? c->p->l3
                                                : c->p->memory;
}

// Elements that a buffer may hold.
static inline double dv_nest_most_held(const dv_nest_count *c, int o)
{
    return (double)c->caches->l3 / (o == DV_OUT ? 4 : 2) / c->es;
}

static inline double dv_nest_elems(const dv_nest *n, int dim)
{
    return dim < 0 ? 1 : (double)n->dims[dim].size;
}

// Elements of an operand in one block of the kernel.
static inline double dv_nest_block_of(const dv_nest_count *c, int o)
{
    return o == DV_OUT        ? c->row * c->col
           : o == c->f.in_row ? c->row * c->k
                              : c->col * c->k;
}

static inline double dv_nest_turns_up_to(const dv_nest_count *c, int at)
{
    return c->upto[at + 1];
}

// -- Prices (cost.c) ---------------------------------------------------------

extern const dv_nest_prices dv_nest_neon, dv_nest_avx;

// Are rows brought into L1 by the kernel before (contract/make.c)? Of the
// sizes that were taken.
int dv_nest_brings(const dv_nest_count *c, const dv_nest_form *f);
// Of the form that was taken; of kernels, of any way. `least`: in any order of
// loops.
double dv_nest_kernels(dv_nest_count *c, dv_nest_way *w);
// A call with nothing wasted on operands in place; the multiply-adds of it.
double dv_nest_least_kernel(const dv_nest_count *c, double *fma);
double dv_nest_loads_of(const dv_nest_count *c, int o);
double dv_nest_load(const dv_nest_count *c, int o, double loads, int least);
double dv_nest_results(const dv_nest_count *c, double loads, int least);
double dv_nest_returns(const dv_nest_count *c);
double dv_nest_packing(const dv_nest_count *c, int o);
double dv_nest_turned_price(const dv_nest_count *c, int o, int64_t far,
                            int64_t longest, int brings);

// -- Bounds (bound.c) --------------------------------------------------------

// Sums in another order are rounded otherwise: what is sure is so much of them.
#define DV_NEST_SLACK (1 - 1e-9)
// What the nest costs at least, in any order of loops, also if loops are cut
// further; what costs no less than `most` is as good as impossible. Sets
// c->least.
double dv_nest_bound(dv_nest_count *c, double most);

// The same for all sizes of the kernel's m and n, before they are cut; faster,
// and not as sharp. The count is changed.
typedef struct dv_nest_sizes {
    dv_nest_count *c;
    double calls; // with m and n whole
    int types;    // of loops
    // With columns of m, and of n: the form, what packing costs, whether
    // results can be written where they are.
    dv_nest_form form[2];
    double moved[2][DV_N_OPERANDS];
    int out_here[2];
    int along_own[2], along_k[2]; // inputs: what may be unit stride in place
} dv_nest_sizes;
void dv_nest_sizes_begin(dv_nest_sizes *s, dv_nest_count *c);
double dv_nest_sizes_bound(dv_nest_sizes *s, const int64_t size[2]); // m, n

// -- Choosing what is packed (packs.c) ---------------------------------------

// What is packed, in which loop, and what that costs.
typedef struct dv_nest_packs {
    int at[DV_N_OPERANDS];
    double cost;
} dv_nest_packs;

// The cheapest below best->cost, where there is one. `was` and not -1: what is
// packed is settled, only in which loop is not.
void dv_nest_choose_packs(dv_nest_count *c, dv_nest_packs *best, int was);
void dv_nest_mark(dv_nest *n, const dv_nest_packs *packs);

// -- Orders (order.c) --------------------------------------------------------

typedef struct dv_nest_ordered {
    dv_nest_packs packs; // of the order found
    double least;        // what kernels take with all packed
} dv_nest_ordered;

// The cheapest order of loops, with what it packs, which is not marked; what
// costs no less than `most` is as good as impossible.
double dv_nest_put_in_order(dv_nest *n, const dv_nest_caches *caches,
                            double most, dv_nest_ordered *out);

// Does a step of d go where the steps of p end in operand `o`?
static inline int dv_nest_continues(const dv_nest_dim *d, const dv_nest_dim *p,
                                    int o)
{
    int64_t end;
    return p->stride[o] && dv_mul_i64(&end, p->size, p->stride[o]) &&
           d->stride[o] == end;
}
// How far a step goes in out, or else in what is read.
int64_t dv_nest_reach(const dv_nest_dim *d);
// Are these the dimensions of `whole` once tiles are put together?
int dv_nest_makes_up(const dv_nest *whole, const dv_nest *tiled);

// -- Cuts (cut.c) ------------------------------------------------------------

// The outermost k inside is cut, so that all together are `most`.
void dv_nest_cut_k(dv_nest *n, int64_t most);
// Unit stride loops are cut, so that a block has whole lines of them.
void dv_nest_cut_lines(dv_nest *n, int64_t line);
// A block of the loops of m or n, of so many elements with what is inside.
void dv_nest_cut_block(dv_nest *n, dv_nest_type type, int64_t elems);
// A few turns of the loop that continues the rows of an input.
void dv_nest_cut_few(dv_nest *n, int64_t few);
// The same so that a run of them is not short, and so many turns of the loop
// that continues lines of results that a block of those is at most `elems`.
void dv_nest_cut_runs(dv_nest *n, int64_t elems);
// The m or n of the kernel, to size number `which`; 0: that is none for it.
enum { DV_NEST_WIDTHS = 6 };
int dv_nest_cut_prim(dv_nest *n, dv_nest_type type, int which, int64_t unit);
int64_t dv_nest_prim_size(const dv_nest *n, dv_nest_type type);
// The size that the m or n has once it is cut so; 0: it is not.
int64_t dv_nest_prim_width(const dv_nest *n, dv_nest_type type, int which,
                           int64_t unit);
#endif
