// Shared by the files of the cost model and its searches: cost.c computes the
// cost of a nest, packs.c chooses which operands are packed, order.c the order
// of loops, and bound.c computes lower bounds.
#ifndef DV_NEST_COST_H
#define DV_NEST_COST_H
#include "base/math.h"
#include "nest/best.h"

// Costs of operations in ns. Only their ratios matter.
typedef struct dv_nest_rates {
    // Cost of a multiply-add of one vector, of starting and ending a register
    // tile, and of a kernel call.
    double fma, tile, call;
    // Cost per byte loaded from L1, L2, L3 or memory, beyond what is hidden
    // behind multiply-adds.
    double l1, l2, l3, memory;
    double stream; // per byte written with stores that bypass the caches
    // Cost per 4 bytes packed: copied in rows, transposed, gathered from large
    // strides, or copied one element at a time.
    double copied, turned, gathered, scalar;
    // Factors on the cost of packing: if the kernel packs while it reads and
    // prefetches, and if a packed output is written back.
    double on_way, put_back;
    // Cost of a cache line of results that is on a page of its own.
    double pages;
    double spill; // extra passes over a buffer of results that exceeds L2
    int asks;     // kernels prefetch the rows that they read in place
} dv_nest_rates;

// The number of sets of packed operands (copied to contiguous buffers). A set
// is a bit mask with one bit per operand.
enum { DV_NEST_PACKSETS = 1 << DV_N_OPERANDS };

// Properties of a nest that depend only on the set of packed operands (copied
// to contiguous buffers), not on the order of loops or on the loops in which
// operands are packed.
typedef struct dv_nest_packset {
    enum { DV_PACKSET_NEW, DV_PACKSET_KNOWN, DV_PACKSET_INVALID } state;
    dv_nest_form f;
    double row, col; // average rows and columns of a kernel call
    // Time of a kernel call without and with prefetching of rows; 0 if not
    // computed yet.
    double call[2];
    // Lower bound of the cost of packing each operand, from dv_nest_bound; 0 if
    // it is not packed.
    double moved[DV_N_OPERANDS];
} dv_nest_packset;

typedef struct dv_nest_count {
    const dv_nest *n;
    const dv_nest_caches *caches;
    const dv_nest_rates *p;
    // The form of the kernel, that is which dimensions are its rows, columns
    // and k: `dims` without regard to packing, `f` for the packing that is
    // being evaluated.
    dv_nest_form dims, f;
    double turns[DV_NEST_MAX_DIMS]; // average iterations of each loop
    // Product of the iterations of all loops before this one.
    double upto[DV_NEST_MAX_DIMS + 1];
    // Elements of each operand: all of them, and those in its packing buffer (0
    // if there is none).
    double all[DV_N_OPERANDS], held[DV_N_OPERANDS];
    // Bytes of an element; average rows, columns and k (summed products) of a
    // kernel call.
    double es, row, col, k;
    double lanes;
    int64_t panel; // most vectors in a row of a panel of columns
    int types;     // bit mask of the types (c, m, n, k) of the loops
    int uncut;     // set if the kernel's m and n may still be tiled
    double fewest; // smallest number of iterations of any loop
    dv_nest_packset ways[DV_NEST_PACKSETS];
    // Lower bound of the cost for each set of packed operands, from
    // dv_nest_bound.
    double least[DV_NEST_PACKSETS];
} dv_nest_count;

// The functions below are in count.c.

// Counts the iterations of loops and elements of operands that do not depend on
// packing, for a nest whose tiles are `t`. Returns 0 if its kernel dimensions
// are invalid.
int dv_nest_count_begin(dv_nest_count *c, const dv_nest *n,
                        const dv_nest_caches *caches, const dv_nest_tiles *t);
// Updates the counts in *c for the same nest with permuted loops: loop l was
// loop order[l]. turns[] are the iterations of the loops in their old
// positions.
void dv_nest_count_again(dv_nest_count *c, const dv_nest *n,
                         const double *turns, const uint8_t *order);

// Returns the properties of the nest if the operands in bit mask `packed` are
// packed (copied to contiguous buffers), or NULL if no kernel can run that.
dv_nest_packset *dv_nest_packset_of(dv_nest_count *c, int packed);
// Sets the loop in which operand o is packed to `at`, and computes the size of
// its buffer.
void dv_nest_pack_in(dv_nest_count *c, int o, int at);

// Selects the set of packed operands that the counts are for; the loops in
// which they are packed are set afterwards (dv_nest_pack_in).
static inline void dv_nest_packset_select(dv_nest_count *c,
                                          const dv_nest_packset *w)
{
    c->f = w->f;
    c->row = w->row;
    c->col = w->col;
}

// Returns the cost of a byte that is loaded from a working set of `bytes`
// bytes.
static inline double dv_nest_rate(const dv_nest_count *c, double bytes)
{
    return bytes <= (double)c->caches->l2 / 2   ? c->p->l2
           : bytes <= (double)c->caches->l3 / 2 ? c->p->l3
                                                : c->p->memory;
}

// Returns the most elements that the packing buffer of operand o may have: half
// of L3, or a quarter of it for the output.
static inline double dv_nest_max_buffer(const dv_nest_count *c, int o)
{
    return (double)c->caches->l3 / (o == DV_OUT ? 4 : 2) / c->es;
}

static inline double dv_nest_elems(const dv_nest *n, int dim)
{
    return (double)dv_nest_size(n, dim);
}

// Returns the number of elements of operand o that one kernel call accesses.
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

// The functions below are in cost.c.

extern const dv_nest_rates dv_nest_neon, dv_nest_avx;

// Returns whether each kernel call copies the rows of the next call into L1
// (ct_choose_copy_ahead in contract/make.c), for the sizes in c.
int dv_nest_copies_ahead(const dv_nest_count *c, const dv_nest_form *f);
// Returns the time of all kernel calls with the operands of `w` packed. The
// functions below return other parts of the cost for the packing in c->f, or,
// if their parameter `least` is set, lower bounds of them for any order of
// loops.
double dv_nest_kernel_cost(dv_nest_count *c, dv_nest_packset *w);
// Returns a lower bound of the time of one kernel call: nothing is lost by
// operands read in place. *fma is set to its time for multiply-adds.
double dv_nest_kernel_bound(const dv_nest_count *c, double *fma);
double dv_nest_count_loads(const dv_nest_count *c, int o);
double dv_nest_load_cost(const dv_nest_count *c, int o, double loads,
                         int least);
double dv_nest_output_cost(const dv_nest_count *c, double loads, int least);
double dv_nest_reload_cost(const dv_nest_count *c);
double dv_nest_packing_cost(const dv_nest_count *c, int o);
double dv_nest_transpose_cost(const dv_nest_count *c, int o, int64_t far,
                              int64_t longest, int brings);

// The functions below are in bound.c.

// Factor on a lower bound: allows for rounding errors, which differ if
// floating-point costs are summed in a different order.
#define DV_NEST_SLACK (1 - 1e-9)
// Returns a lower bound of the cost for any order of loops, any packing and
// also any further tiling. The bound for each set of packed operands is stored
// in *c; sets that cost at least `most` count as impossible.
double dv_nest_bound(dv_nest_count *c, double most);

// State for computing lower bounds for all sizes of the kernel's m and n,
// before they are tiled. This is faster and less sharp than dv_nest_bound. The
// functions below modify *c.
typedef struct dv_nest_size_bounds {
    dv_nest_count *c;
    double calls; // number of kernel calls if m and n are not tiled
    int types;    // bit mask of the types (c, m, n, k) of the loops
    // With dimension m as the kernel's columns [0] and with n [1]: the form
    // (which operands are read in place or transposed), the cost of packing
    // each operand once, and whether the output can be written in place.
    dv_nest_form form[2];
    double moved[2][DV_N_OPERANDS];
    int out_here[2];
    // Whether in0 and in1 can be read in place with unit stride along their own
    // dimension (m of in0, n of in1), and along k, which both have.
    int along_own[2], along_k[2];
} dv_nest_size_bounds;
void dv_nest_sizes_begin(dv_nest_size_bounds *s, dv_nest_count *c);
// Returns a lower bound of the cost if the kernel has these sizes of m (rows)
// and n (columns).
double dv_nest_sizes_bound(dv_nest_size_bounds *s, const int64_t size[2]);

// The functions below are in packs.c.

// The loop in which each operand is packed, and the cost of the nest with this
// packing.
typedef struct dv_nest_packs {
    int at[DV_N_OPERANDS];
    double cost;
} dv_nest_packs;

// Sets *best to the cheapest choice of packed operands, and of the loops that
// pack them, if its cost is below best->cost on entry. If `was` is not -1, it
// is the mask of the operands to pack, and only their loops are chosen.
void dv_nest_choose_packs(dv_nest_count *c, dv_nest_packs *best, int was);
void dv_nest_mark(dv_nest *n, const dv_nest_packs *packs);

// The functions below are in order.c.

typedef struct dv_nest_ordered {
    dv_nest_packs packs; // packing that goes with the order found
    double least;        // time of all kernel calls with all operands packed
} dv_nest_ordered;

// Brings the loops of a nest into the cheapest order and returns its cost, or
// DV_NEST_IMPOSSIBLE if no order costs less than `most`. The packing that goes
// with it is returned in *out, but not marked in the nest.
double dv_nest_order_loops(dv_nest *n, const dv_nest_caches *caches,
                           double most, dv_nest_ordered *out);

// Returns the sort key of a dimension: its absolute stride in the output, or if
// that is 0, the sum of its absolute strides in in0 and in1.
int64_t dv_nest_sort_stride(const dv_nest_dim *d);
// Returns whether `tiled`, with its tiles undone, has the same dimensions as
// `whole`.
int dv_nest_untiles_to(const dv_nest *whole, const dv_nest *tiled);

// The functions below are in cut.c.

// Tiles the outermost k (summed dimension) inside the kernel, so that all k
// inside have about `most` iterations together.
void dv_nest_tile_k(dv_nest *n, int64_t most);
// Tiles unit-stride loops into tiles of `line` elements, which are whole cache
// lines.
void dv_nest_tile_lines(dv_nest *n, int64_t line);
// Tiles a loop of type m or n, so that a tile of it, together with the kernel's
// dimension of that type, has at most `elems` elements.
void dv_nest_tile_block(dv_nest *n, dv_nest_type type, int64_t elems);
// Tiles the loop that continues the rows of an input, that is whose stride is
// the length of a row, into tiles of about `few` iterations.
void dv_nest_tile_rows(dv_nest *n, int64_t few);
// Tiles two loops. The loop whose stride is the length of an input's row is
// tiled so that contiguous runs are not short; the loop whose stride is the
// length of an output line is tiled so that a block of results has at most
// `elems` elements.
void dv_nest_tile_runs(dv_nest *n, int64_t elems);
// Tiles the kernel's m or n to candidate size number `which` of a fixed list of
// sizes, rounded to a multiple of `unit`. Returns 0 if that size is not tried
// for a dimension as small or as large as this one.
enum { DV_NEST_WIDTHS = 6 };
int dv_nest_tile_prim(dv_nest *n, dv_nest_type type, int which, int64_t unit);
int64_t dv_nest_prim_size(const dv_nest *n, dv_nest_type type);
// Returns the size that the kernel's m or n would have after dv_nest_tile_prim
// with the same arguments, or 0 if that candidate size is not tried for it.
int64_t dv_nest_prim_width(const dv_nest *n, dv_nest_type type, int which,
                           int64_t unit);
#endif
