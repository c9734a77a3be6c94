// The cost model: the estimated time of a nest on one thread in ns, as a sum of
//
//   kernels    multiply-adds at the machine's rate, plus a fraction lost with
//              narrow panels and with operands read in place; the prologue and
//              epilogue of register tiles, and calls
//   packing    elements packed, times a cost that depends on their strides
//   loads      blocks that kernel calls load, at the rate of the cache or
//              memory they come from (the innermost loops in which an operand
//              has no stride reuse its block and load nothing)
//   results    the same for out, which is read and written
//   returns    panels of columns that kernels with few rows load repeatedly
//
// The rates are those of one current core; only their ratios matter.
#include "nest/cost.h"
#include "base/dtype.h"
#include "base/math.h"

enum { LINE = 64 };

// Costs for NEON, which executes four multiply-adds of 16 bytes per cycle;
// below, those for AVX2 and AVX-512, which execute two, of 32 or 64 bytes.
const dv_nest_rates dv_nest_neon = {.fma = 0.0962,
                                    .tile = 2.5,
                                    .call = 6,
                                    .l1 = 0.004,
                                    .l2 = 0.002,
                                    .l3 = 0.009,
                                    .memory = 0.03,
                                    .copied = 0.11,
                                    .turned = 0.20,
                                    .gathered = 0.6,
                                    .scalar = 2.0,
                                    .on_way = 0.5,
                                    .put_back = 1.0,
                                    .pages = 0.15,
                                    .spill = 1,
                                    .asks = 1};
const dv_nest_rates dv_nest_avx = {.fma = 0.19,
                                   .tile = 12,
                                   .call = 12,
                                   .l1 = 0.003,
                                   .l2 = 0.004,
                                   .l3 = 0.03,
                                   .memory = 0.15,
                                   .stream = 0.025,
                                   .copied = 0.045,
                                   .turned = 0.22,
                                   .gathered = 0.6,
                                   .scalar = 2.0,
                                   .on_way = 0.8,
                                   .put_back = 2.2,
                                   .pages = 0.5,
                                   .spill = 3};

typedef dv_nest_count count;

int32_t dv_nest_panel_vectors(const dv_nest *n, int32_t vectors, double cols,
                              double k, int64_t l1)
{
    enum { BYTES = 16 };
    int64_t es = dv_dtype_get(n->dtype)->size_bytes;
    int64_t in_all = dv_ceil_div((int64_t)cols * es, BYTES);
    int fits = n->first == DV_PRIM_ZERO || in_all % 6 == 0 ||
               k * 6 * BYTES <= (double)dv_form_max_panel(l1);
    return vectors == 6 && (es != 4 || !fits) ? 5 : vectors;
}

// Returns the fraction of time lost because a register tile with few vectors
// has too few independent multiply-adds to hide their latency. Tiles of long
// vectors are smaller, and lose most when they are one vector wide.
static double tile_loss(const count *c, double vectors)
{
    if (c->caches->vector > 16)
        return vectors >= 3 ? 0.03 : vectors >= 2 ? 0.08 : 0.3;
    return vectors >= 6   ? 0.01
           : vectors >= 5 ? 0.015
           : vectors >= 4 ? 0.03
           : vectors >= 3 ? 0.11
           : vectors >= 2 ? 0.2
                          : 0.7;
}

// Returns whether kernels read their rows in place, transposed, from memory,
// and prefetch them.
static int asks(const count *c, const dv_nest_form *f)
{
    return c->p->asks && f->row_transposed && !f->col_transposed &&
           f->n_k == 1 && f->pack[f->in_row] == DV_FORM_NEVER &&
           c->all[f->in_row] * c->es > (double)c->caches->l3 / 4;
}

static int has_many_pages(const count *c, const dv_nest_form *f)
{
    int64_t step = c->n->dims[f->k[0]].stride[f->in_row];
    return dv_form_exceeds_tlb(c->k, (double)step * c->es);
}

// Returns whether each kernel call is expected to copy the rows of the next
// call into L1, as dv_isa_copies_next (jit/backend.h) decides when kernels are
// generated; the minimum number of rows that it demands is ignored here.
// Converting the sizes to integers is exact, because a block that fits in L1
// has small ones.
int dv_nest_copies_ahead(const count *c, const dv_nest_form *f)
{
    if (!asks(c, f) || f->pack[DV_OUT] == DV_FORM_NEVER ||
        f->pack[f->in_col] == DV_FORM_NEVER || c->es != 4 ||
        c->col != 6 * c->lanes || !has_many_pages(c, f) ||
        c->row * c->k * c->es > (double)dv_form_max_row_block(c->caches->l1))
        return 0;
    int64_t k = (int64_t)c->k, tiles = (int64_t)c->row / c->caches->rows;
    return tiles && (double)(tiles * c->caches->rows) == c->row &&
           k % tiles == 0;
}

// Returns the number of contiguous bytes of input o that consecutive kernel
// calls read.
static double contiguous_bytes(const count *c, int o)
{
    int k = c->f.n_k ? c->f.k[c->f.n_k - 1] : -1, l = c->f.n_loops - 1;
    int inside[2] = {o == c->f.in_col ? c->f.col : c->f.row, k};
    double run = 1;
    // The contiguous run is extended by each of the two dimensions in inside[]
    // whose stride is the length of the run. Either of the two dimensions may
    // be the contiguous one, so the first is examined again after the second.
    for (int i = 0; i < 3; i++) {
        int d = inside[i % 2];
        if (d >= 0 && (double)c->n->dims[d].stride[o] == run)
            run *= dv_nest_elems(c->n, d);
    }
    // If the rows are contiguous along k (the summed dimension), they are not
    // prefetched for the next call. Unless all rows of one call are contiguous,
    // the run ends inside the call.
    if (o == c->f.in_row && !c->f.row_transposed &&
        run < dv_nest_block_of(c, o))
        return run * c->es;
    for (; l >= 0 && (double)c->n->dims[l].stride[o] == run; l--)
        run *= c->turns[l];
    return run * c->es;
}

// Returns the time of one kernel call. `asking` says that it prefetches the
// rows that it reads in place.
static double kernel(const count *c, int asking)
{
    const dv_nest_form *f = &c->f;
    double vectors =
        (double)dv_ceil_div((int64_t)(c->col + 0.99), (int64_t)c->lanes);
    double panels = (double)dv_ceil_div((int64_t)vectors, c->panel);
    double rows =
        (double)dv_ceil_div((int64_t)(c->row + 0.99), c->caches->rows);
    double waste = tile_loss(c, vectors / panels);
    int packed = f->pack[f->in_col] != DV_FORM_NEVER;
    if (c->row < 4)
        waste += (4 - c->row) / c->row;
    if (f->pack[f->in_row] == DV_FORM_NEVER)
        waste += dv_nest_copies_ahead(c, f)        ? 0.06
                 : asking                          ? 0.03
                 : f->row_transposed && c->row > 4 ? 0.15
                                                   : 0.05;
    if (asking && c->k * LINE > (double)c->caches->l1 / 4)
        waste += 0.3; // cache lines of distant rows are evicted from L1
    if (asking && has_many_pages(c, f) && !dv_nest_copies_ahead(c, f))
        waste += 0.06;
    // If B (the columns' operand) is read in place and transposed, the kernel
    // transposes its block of C as well, which costs more with long vectors.
    if (!packed)
        waste += !f->col_transposed       ? 0.04
                 : c->caches->vector > 16 ? 0.6
                                          : 0.12;
    // Rows of B (the columns' operand) that are far apart occupy whole cache
    // lines and compete for the same cache sets.
    double wide = c->col * c->es;
    if (f->n_k &&
        (double)c->n->dims[f->k[f->n_k - 1]].stride[f->in_col] != c->col)
        wide += 64;
    if (!packed && !f->col_transposed && c->row > 4 &&
        wide * c->k > (double)c->caches->l1 / 2)
        waste += 0.6;
    if (!packed && f->col_transposed && !f->row_transposed &&
        f->pack[f->in_row] == DV_FORM_NEVER && c->col > 1)
        waste += 1.5; // dot products add the lanes of vectors at the end
    double fma = c->row * vectors * c->k * c->p->fma;
    return fma * (1 + waste) + c->p->tile * rows * panels +
           c->p->call * (packed ? panels : 1);
}

double dv_nest_kernel_bound(const count *c, double *fma)
{
    int64_t lanes = (int64_t)c->lanes;
    int64_t vectors = dv_ceil_div((int64_t)(c->col + 0.99), lanes);
    int64_t panels = dv_ceil_div(vectors, c->panel);
    int64_t rows = dv_ceil_div((int64_t)(c->row + 0.99), c->caches->rows);
    double waste = tile_loss(c, (double)vectors / (double)panels);
    if (c->row < 4)
        waste += (4 - c->row) / c->row;
    *fma = c->row * (double)vectors * c->k * c->p->fma;
    return *fma * (1 + waste) + c->p->tile * (double)(rows * panels) +
           c->p->call;
}

double dv_nest_kernel_cost(count *c, dv_nest_packset *w)
{
    int asking = asks(c, &w->f);
    if (w->call[asking] == 0) {
        dv_nest_packset_select(c, w);
        w->call[asking] = kernel(c, asking);
    }
    return dv_nest_turns_up_to(c, c->dims.n_loops - 1) * w->call[asking];
}

// Returns how often a block of operand o is loaded: once per kernel call, but
// only once for all iterations of the innermost loops in which the operand has
// stride 0.
double dv_nest_count_loads(const count *c, int o)
{
    int l = c->f.n_loops - 1;
    while (l >= 0 && !c->n->dims[l].stride[o])
        l--;
    return dv_nest_turns_up_to(c, l);
}

// Each kernel call copies the rows of the next call. Returns the penalty for a
// break in this sequence of rows. It is smaller if the next loop continues
// along the kernel's k, because the hardware then sees one stream of rows.
static double break_penalty(const count *c)
{
    const dv_nest_dim *k = &c->n->dims[c->f.k[0]], *d = c->n->dims;
    int o = c->f.in_row, l = c->f.n_loops - 1;
    double run = dv_nest_elems(c->n, c->f.row);
    for (; l >= 0 && (double)d[l].stride[o] == run; l--)
        run *= c->turns[l];
    return l >= 0 && dv_nest_continues(&d[l], k, o) ? 2 : 5;
}

// Returns the factor on memory bandwidth for input o read in place. A kernel
// that reads a short piece of each row waits for every row, unless the rows are
// contiguous. With `least`, the result is a lower bound for any order of loops.
static double waits(const count *c, int o, int least)
{
    const dv_nest_form *f = &c->f;
    int k = f->n_k ? f->k[f->n_k - 1] : -1;
    int turned = o == f->in_col ? f->col_transposed : !f->row_transposed;
    int inner = o == f->in_col ? f->col : f->row;
    if (o == f->in_row && dv_nest_copies_ahead(c, f))
        return least ? 0.6
                     : 0.6 + break_penalty(c) * LINE /
                                 (contiguous_bytes(c, o) + LINE);
    // When a contiguous run of rows ends and reading continues elsewhere, the
    // next cache lines were not prefetched, and others were prefetched in vain.
    if (o == f->in_row && c->p->asks && f->pack[o] == DV_FORM_NEVER &&
        (asks(c, f) || !f->row_transposed))
        return least ? 0.6
                     : 0.6 + (f->row_transposed ? 20.0 : 8.0) * LINE /
                                 (contiguous_bytes(c, o) + LINE);
    double run = dv_nest_elems(c->n, inner);
    if (k >= 0 && (double)c->n->dims[k].stride[o] == run)
        run *= dv_nest_elems(c->n, k);
    return !turned && run * c->es < 1024 ? 5 : 0.8;
}

// Returns the cost of loading a block of input o `loads` times. Loading columns
// stalls the first rows that use them; rows are streamed and prefetched in
// time, so they cost 0.6 of what columns cost. With `least`, the result is a
// lower bound for any order of loops.
double dv_nest_load_cost(const count *c, int o, double loads, int least)
{
    int in_place = c->f.pack[o] == DV_FORM_NEVER, is_col = o == c->f.in_col;
    double block = dv_nest_block_of(c, o);
    double where = in_place ? c->all[o] : least ? block : c->held[o];
    double each = dv_nest_rate(c, where * c->es);
    double panel = (double)c->panel * c->lanes, sum = 0;
    // Rows that do not fit in L2 are streamed again for each panel of columns.
    if (!is_col && block * c->es > (double)c->caches->l2 / 2 && c->col > panel)
        loads *= c->col / panel;
    if (in_place && each == c->p->memory)
        each *= waits(c, o, least);
    if (is_col && block * c->es > (double)c->caches->l1 / 2)
        sum =
            dv_nest_turns_up_to(c, c->f.n_loops - 1) * block * c->es * c->p->l1;
    return sum + loads * block * c->es * each * (is_col ? 1 : 0.6);
}

// Returns whether no tile of dimension d is cut short. `unit` is the size of
// the tiles that d loops over, or 1.
static int divides(const dv_nest_dim *d, int64_t unit)
{
    return d->whole % (d->size * unit) == 0; // also true if d is not tiled
}

// Returns whether loop l continues the kernel's rows: the rows of all its
// iterations are consecutive rows of the output.
static int follows(const count *c, int l)
{
    const dv_nest_dim *row = &c->n->dims[c->f.row], *d = &c->n->dims[l];
    return d->type == row->type && d->size > 1 &&
           dv_nest_continues(d, row, DV_OUT);
}

// Returns whether one kernel call takes all iterations of the innermost loop as
// its rows (ct_merge_inner_loop in contract/make.c).
static int joins(const count *c, int last)
{
    const dv_nest_dim *row = &c->n->dims[c->f.row], *d = &c->n->dims[last];
    int64_t unit = d->whole && d->whole == row->whole ? row->size : 1;
    return follows(c, last) && divides(d, unit);
}

static int may_join(const count *c)
{
    const dv_nest_form *f = &c->f;
    if (f->row < 0 || f->col_transposed || c->k < DV_FORM_LONG_K ||
        f->pack[f->in_row] == DV_FORM_NEVER || f->pack[DV_OUT] != DV_FORM_NEVER)
        return 0;
    const dv_nest_dim *row = &c->n->dims[f->row];
    for (int i = 0; i < f->n_k; i++)
        if (!divides(&c->n->dims[f->k[i]], 1))
            return 0;
    return divides(row, 1) && row->size % c->caches->rows == 0;
}

// Returns the cost, beyond dv_nest_load_cost, of loading panels of columns
// again for every few rows, if they do not all fit in L1. It is 0 if one kernel
// call takes the consecutive rows and so loads each panel once.
double dv_nest_reload_cost(const count *c)
{
    int last = c->f.n_loops - 1, others = 0;
    double block = dv_nest_block_of(c, c->f.in_col), all = c->all[c->f.in_col];
    if (c->f.pack[c->f.in_col] == DV_FORM_NEVER ||
        c->col <= (double)c->panel * c->lanes ||
        block * c->es <= (double)c->caches->l1 / 2 || !may_join(c))
        return 0;
    for (int l = 0; l <= last && !others; l++)
        others = follows(c, l);
    if (!others || joins(c, last))
        return 0;
    double again = dv_nest_turns_up_to(c, last) * block - all;
    return again > 0 ? again * c->es * c->p->l1 : 0;
}

// Returns the factor by which stores in scattered runs of `bytes` bytes are
// slower than in long runs.
static double ragged(const count *c, double bytes)
{
    static const double steps[][2] = {{8192, 1},  {1024, 1.3}, {512, 1.4},
                                      {256, 1.6}, {128, 1.9},  {64, 2.4}};
    if (c->caches->vector > 16)
        return bytes >= 1024 ? 1 : bytes >= 64 ? 1.5 : 96 / bytes;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (bytes >= steps[i][0])
            return steps[i][1];
    return 2.4 * 64 / bytes;
}

// Returns the number of contiguous elements of the output that are written at a
// time: contiguous rows of a kernel, and loops that continue them. With `most`,
// the result is an upper bound for any order of loops.
static double run_of(const count *c, int most)
{
    double run = c->col, panel = (double)c->panel * c->lanes;
    int l = c->f.n_loops;
    // Each panel writes a part of every row; the parts form longer runs only if
    // they are collected in L1.
    if (c->row * c->col * c->es > (double)c->caches->l1 * 0.8)
        return run < panel ? run : panel;
    if (c->f.row >= 0 && c->row > 1) {
        if ((double)c->n->dims[c->f.row].stride[DV_OUT] != run)
            return run;
        run *= c->row;
    }
    if (most)
        return c->all[DV_OUT];
    while (l-- > 0 && (double)c->n->dims[l].stride[DV_OUT] == run)
        run *= c->turns[l];
    return run;
}

// Returns whether the output is written with non-temporal stores that bypass
// the caches (ct_choose_streaming in contract/make.c). Its rows must be whole
// cache lines, or narrow and contiguous.
static int streams(const count *c, double all)
{
    const dv_nest *n = c->n;
    int64_t es = (int64_t)c->es;
    if (c->caches->vector == 16 || n->first != DV_PRIM_ZERO ||
        all * c->es < 2 * (double)c->caches->l3)
        return 0;
    for (int l = 0; l < c->f.n_loops; l++)
        if (n->dims[l].type == DV_NEST_K)
            return 0;
    if (c->f.row < 0 || c->f.col < 0)
        return 0;
    const dv_nest_dim *row = &n->dims[c->f.row], *col = &n->dims[c->f.col];
    int whole = col->size * es % LINE == 0 && col->whole * es % LINE == 0 &&
                row->stride[DV_OUT] * es % LINE == 0;
    return whole || (!col->whole && row->stride[DV_OUT] == col->size &&
                     c->col <= 2 * c->lanes);
}

// Returns the cost of writing the output in place, and of reading it when it
// accumulates. With `least`, the result is a lower bound for any order of
// loops.
double dv_nest_output_cost(const count *c, double loads, int least)
{
    double all = c->all[DV_OUT];
    if (c->f.pack[DV_OUT] != DV_FORM_NEVER)
        return 0;
    if (streams(c, all))
        return all * c->es * c->p->stream;
    double moved = loads * dv_nest_block_of(c, DV_OUT);
    double reads = moved - (c->n->first == DV_PRIM_ZERO ? all : 0);
    // If k (the summed dimension) is long, half of the stores are hidden behind
    // multiply-adds.
    double hidden = c->k < DV_FORM_LONG_K ? 1 : 0.5;
    return (moved * 1.5 + reads) * c->es * dv_nest_rate(c, all * c->es) *
           hidden * ragged(c, run_of(c, least) * c->es);
}

// Returns the factor by which a copy in short contiguous runs is slower than in
// long ones. From memory, the start of every run is waited for.
static double copied(double run_bytes, int from_memory)
{
    if (run_bytes >= 1024)
        return 1;
    if (!from_memory)
        return run_bytes >= 256 ? 1.4 : 2;
    return run_bytes >= 512 ? 2 : run_bytes >= 256 ? 2.6 : 6;
}

// Returns the cost per 4 bytes of packing with a transposition: elements that
// are contiguous in the buffer are `far` elements apart in the tensor, where
// `longest` elements of another dimension are contiguous. `brings` says that
// kernels also copy the rows of the next call.
double dv_nest_transpose_cost(const count *c, int o, int64_t far,
                              int64_t longest, int brings)
{
    if (far < 1)
        return c->p->scalar;
    // With large strides, each cache line is on a page of its own, which costs
    // TLB misses.
    double line = longest < 16 ? 16 : (double)longest;
    double pages = (double)far * c->es >= 2048 ? 16 / line : 0;
    pages *= o != DV_OUT ? 1.8
             // If kernels also copy the rows of the next call (`brings`), the
             // TLB is already full of the pages of these rows.
             : brings ? 2.3 * c->p->pages
                      : c->p->pages;
    if (longest < 2)
        return c->p->gathered * (far < 16 ? 1 : 3) + 4 * pages;
    return pages + c->p->turned * (longest < 16   ? 1.6
                                   : longest < 48 ? 1.15
                                                  : 1);
}

// Returns the cost per 4 bytes of packing operand o (copying it to a contiguous
// buffer) in loop `at`. The packed block has the dimensions after that loop;
// the cost depends on their strides in the operand, above all on that of the
// dimension with unit stride in the buffer.
static double price(const count *c, int o, int at)
{
    const dv_nest *n = c->n;
    int across = o == c->f.in_row ? c->f.row : c->f.col;
    int64_t far = across < 0 ? 1 : n->dims[across].stride[o], longest = 0;
    double width = dv_nest_elems(n, across);
    if (o == c->f.in_row && width > 4)
        width = 4; // rows are packed in panels of 4
    for (int i = at + 1; i < n->n_dims; i++)
        if (i != across && n->dims[i].stride[o] == 1 &&
            n->dims[i].size > longest)
            longest = n->dims[i].size;
    // If the operand is the output, its contiguous run (`longest` elements)
    // also includes the loops that continue it.
    for (int i = n->n_dims - 1; o == DV_OUT && longest && i > at; i--)
        if (i != across && n->dims[i].stride[o] == longest)
            longest *= n->dims[i].size;
    if (far == 1 || width == 1) {
        double run = dv_nest_elems(n, across);
        for (int i = at + 1; i < n->n_dims; i++)
            if (i != across && (double)n->dims[i].stride[o] == run)
                // Rows that follow each other in the tensor extend the
                // contiguous run.
                run *= (double)n->dims[i].size;
        run *= c->es;
        return c->p->copied *
               copied(run, c->all[o] * c->es > (double)c->caches->l3 / 2);
    }
    return dv_nest_transpose_cost(c, o, far, longest,
                                  dv_nest_copies_ahead(c, &c->f));
}

double dv_nest_packing_cost(const count *c, int o)
{
    int at = c->f.pack[o];
    if (at == DV_FORM_NEVER)
        return 0;
    double n = dv_nest_turns_up_to(c, at) * c->held[o];
    double moved = price(c, o, at) * c->es / 4;
    double far = c->es * dv_nest_rate(c, c->all[o] * c->es);
    double calls = dv_nest_turns_up_to(c, at) * 20;
    if (o != DV_OUT && c->n->fixed >> o & 1)
        return n * far; // it is packed before the first run, and read in each
    if (o == c->f.in_col && dv_nest_kernel_packs(c->n, &c->f))
        return n * (c->p->copied * c->es / 4 + far) * c->p->on_way *
               copied(contiguous_bytes(c, o), far > c->es * c->p->l3);
    if (o != DV_OUT)
        return n * (moved + far) + calls;
    // A packed output is written back, and also read before, unless its sums
    // start at zero.
    double fresh = 1;
    for (int l = 0; l <= at; l++)
        if (c->n->dims[l].type == DV_NEST_K)
            fresh /= c->turns[l];
    double reads = c->n->first == DV_PRIM_ZERO ? 1 - fresh : 1;
    if (c->held[o] * c->es > (double)c->caches->l2 * 0.9 &&
        !dv_nest_copies_ahead(c, &c->f))
        // If the buffer does not stay in L2, parts of it are written to L3 and
        // read again.
        far += c->p->spill * c->es * c->p->l3;
    return n * (moved * (c->p->put_back + 2 * reads) + far * (1.5 + reads)) +
           calls;
}
