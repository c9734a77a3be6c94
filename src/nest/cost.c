// What a nest costs, in ns of one thread:
//
//   kernels    multiply-adds at the machine's rate, times what is wasted by
//              narrow panels and operands read in place; the ends of register
//              tiles and calls
//   packing    elements moved, times a price for the way they lie
//   loads      blocks that the kernel loads, counted over the loops around it
//              (turns of innermost loops that do not change an operand load
//              nothing), at the rate of the cache they come from
//   results    the same for out, which is read and written
//   returns    panels that kernels of few rows come back to
//
// Rates are those of one core of today; only their proportions matter.
#include "nest/cost.h"
#include "base/dtype.h"
#include "base/math.h"

enum { LINE = 64 };

// Four multiply-adds a cycle, of 16 bytes; or two, of 32 or 64.
const dv_nest_prices dv_nest_neon = {.fma = 0.0962,
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
const dv_nest_prices dv_nest_avx = {.fma = 0.19,
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
#define elems       dv_nest_elems
#define block_of    dv_nest_block_of
#define turns_up_to dv_nest_turns_up_to

// -- Kernels -----------------------------------------------------------------

int32_t dv_nest_panel_vectors(const dv_nest *n, int32_t vectors, double cols,
                              double k, int64_t l1)
{
    enum { BYTES = 16 };
    int64_t es = dv_dtype_get(n->dtype)->size_bytes;
    int64_t in_all = dv_ceil_div((int64_t)cols * es, BYTES);
    int fits = n->first == DV_PRIM_ZERO || in_all % 6 == 0 ||
               k * 6 * BYTES <= (double)dv_form_most_panel(l1);
    return vectors == 6 && (es != 4 || !fits) ? 5 : vectors;
}

// Tiles of whole long vectors are fewer multiply-adds at once, and those of one
// vector wait for them.
static double waste_of(const count *c, double vectors)
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

// Rows that are read in place from memory, where their lines are asked for.
static int asks(const count *c, const dv_nest_form *f)
{
    return c->p->asks && f->row_turned && !f->col_turned && f->n_k == 1 &&
           f->pack[f->in_row] == DV_FORM_NEVER &&
           c->all[f->in_row] * c->es > (double)c->caches->l3 / 4;
}

static int has_many_pages(const count *c, const dv_nest_form *f)
{
    int64_t step = c->n->dims[f->k[0]].stride[f->in_row];
    return dv_form_many_pages(c->k, (double)step * c->es);
}

// As dv_isa_brings (jit/backend.h) says, but for rows that are few. Sizes are
// whole numbers that are small, once a block is known to fit L1.
int dv_nest_brings(const count *c, const dv_nest_form *f)
{
    if (!asks(c, f) || f->pack[DV_OUT] == DV_FORM_NEVER ||
        f->pack[f->in_col] == DV_FORM_NEVER || c->es != 4 ||
        c->col != 6 * c->lanes || !has_many_pages(c, f) ||
        c->row * c->k * c->es > (double)dv_form_most_near(c->caches->l1))
        return 0;
    int64_t k = (int64_t)c->k, tiles = (int64_t)c->row / c->caches->rows;
    return tiles && (double)(tiles * c->caches->rows) == c->row &&
           k % tiles == 0;
}

// Bytes of an input that lie together and are read by kernels one after the
// other.
static double read_run(const count *c, int o)
{
    int k = c->f.n_k ? c->f.k[c->f.n_k - 1] : -1, l = c->f.n_loops - 1;
    int inside[2] = {o == c->f.in_col ? c->f.col : c->f.row, k};
    double run = 1;
    for (int i = 0; i < 3; i++) { // either may be the one side by side
        int d = inside[i % 2];
        if (d >= 0 && (double)c->n->dims[d].stride[o] == run)
            run *= dv_nest_elems(c->n, d);
    }
    // Rows of k are not asked for, those of a kernel must follow each other.
    if (o == c->f.in_row && !c->f.row_turned && run < dv_nest_block_of(c, o))
        return run * c->es;
    for (; l >= 0 && (double)c->n->dims[l].stride[o] == run; l--)
        run *= c->turns[l];
    return run * c->es;
}

// One call.
static double kernel(const count *c, int asking)
{
    const dv_nest_form *f = &c->f;
    double vectors =
        (double)dv_ceil_div((int64_t)(c->col + 0.99), (int64_t)c->lanes);
    double panels = (double)dv_ceil_div((int64_t)vectors, c->panel);
    double rows =
        (double)dv_ceil_div((int64_t)(c->row + 0.99), c->caches->rows);
    double waste = waste_of(c, vectors / panels);
    int packed = f->pack[f->in_col] != DV_FORM_NEVER;
    if (c->row < 4)
        waste += (4 - c->row) / c->row;
    if (f->pack[f->in_row] == DV_FORM_NEVER)
        waste += dv_nest_brings(c, f)          ? 0.06
                 : asking                      ? 0.03
                 : f->row_turned && c->row > 4 ? 0.15
                                               : 0.05;
    if (asking && c->k * LINE > (double)c->caches->l1 / 4)
        waste += 0.3; // lines of rows far apart do not stay in L1
    if (asking && has_many_pages(c, f) && !dv_nest_brings(c, f))
        waste += 0.06;
    if (!packed) // long vectors turn out as well then
        waste += !f->col_turned ? 0.04 : c->caches->vector > 16 ? 0.6 : 0.12;
    // Rows far apart take whole lines, and places in the cache that they fight
    // for.
    double wide = c->col * c->es;
    if (f->n_k &&
        (double)c->n->dims[f->k[f->n_k - 1]].stride[f->in_col] != c->col)
        wide += 64;
    if (!packed && !f->col_turned && c->row > 4 &&
        wide * c->k > (double)c->caches->l1 / 2)
        waste += 0.6;
    if (!packed && f->col_turned && !f->row_turned &&
        f->pack[f->in_row] == DV_FORM_NEVER && c->col > 1)
        waste += 1.5; // sums across vectors
    double fma = c->row * vectors * c->k * c->p->fma;
    return fma * (1 + waste) + c->p->tile * rows * panels +
           c->p->call * (packed ? panels : 1);
}

double dv_nest_least_kernel(const count *c, double *fma)
{
    int64_t lanes = (int64_t)c->lanes;
    int64_t vectors = dv_ceil_div((int64_t)(c->col + 0.99), lanes);
    int64_t panels = dv_ceil_div(vectors, c->panel);
    int64_t rows = dv_ceil_div((int64_t)(c->row + 0.99), c->caches->rows);
    double waste = waste_of(c, (double)vectors / (double)panels);
    if (c->row < 4)
        waste += (4 - c->row) / c->row;
    *fma = c->row * (double)vectors * c->k * c->p->fma;
    return *fma * (1 + waste) + c->p->tile * (double)(rows * panels) +
           c->p->call;
}

double dv_nest_kernels(count *c, dv_nest_way *w)
{
    int asking = asks(c, &w->f);
    if (w->call[asking] == 0) {
        dv_nest_way_take(c, w);
        w->call[asking] = kernel(c, asking);
    }
    return dv_nest_turns_up_to(c, c->dims.n_loops - 1) * w->call[asking];
}

// -- Traffic -----------------------------------------------------------------

// Blocks of an operand that are loaded: one a turn, but for the innermost
// loops that keep it.
double dv_nest_loads_of(const count *c, int o)
{
    int l = c->f.n_loops - 1;
    while (l >= 0 && !c->n->dims[l].stride[o])
        l--;
    return dv_nest_turns_up_to(c, l);
}

// Rows that are brought: where the loop around those that continue them goes on
// with the k of the kernel, the machine sees one stream of rows.
static double walk_price(const count *c)
{
    const dv_nest_dim *k = &c->n->dims[c->f.k[0]], *d = c->n->dims;
    int o = c->f.in_row, l = c->f.n_loops - 1;
    double run = dv_nest_elems(c->n, c->f.row);
    for (; l >= 0 && (double)d[l].stride[o] == run; l--)
        run *= c->turns[l];
    return l >= 0 && dv_nest_continues(&d[l], k, o) ? 2 : 5;
}

// Where a kernel reads a little of each row in memory, it waits for every one,
// unless the rows touch. `least`: in any order of loops.
static double waits(const count *c, int o, int least)
{
    const dv_nest_form *f = &c->f;
    int k = f->n_k ? f->k[f->n_k - 1] : -1;
    int turned = o == f->in_col ? f->col_turned : !f->row_turned;
    int inner = o == f->in_col ? f->col : f->row;
    if (o == f->in_row && dv_nest_brings(c, f))
        return least ? 0.6
                     : 0.6 + walk_price(c) * LINE / (read_run(c, o) + LINE);
    // Where that goes on elsewhere, lines were not asked for, and others in
    // vain.
    if (o == f->in_row && c->p->asks && f->pack[o] == DV_FORM_NEVER &&
        (asks(c, f) || !f->row_turned))
        return least ? 0.6
                     : 0.6 + (f->row_turned ? 20.0 : 8.0) * LINE /
                                 (read_run(c, o) + LINE);
    double run = dv_nest_elems(c->n, inner);
    if (k >= 0 && (double)c->n->dims[k].stride[o] == run)
        run *= dv_nest_elems(c->n, k);
    return !turned && run * c->es < 1024 ? 5 : 0.8;
}

// Columns are waited for by the first rows that meet them; rows come by one
// after the other, asked for in time. `least`: in any order of loops.
double dv_nest_load(const count *c, int o, double loads, int least)
{
    int in_place = c->f.pack[o] == DV_FORM_NEVER, is_col = o == c->f.in_col;
    double block = dv_nest_block_of(c, o);
    double where = in_place ? c->all[o] : least ? block : c->held[o];
    double each = dv_nest_rate(c, where * c->es);
    double panel = (double)c->panel * c->lanes, sum = 0;
    // The rows go by once for each panel of columns.
    if (!is_col && block * c->es > (double)c->caches->l2 / 2 && c->col > panel)
        loads *= c->col / panel;
    if (in_place && each == c->p->memory)
        each *= waits(c, o, least);
    if (is_col && block * c->es > (double)c->caches->l1 / 2)
        sum =
            dv_nest_turns_up_to(c, c->f.n_loops - 1) * block * c->es * c->p->l1;
    return sum + loads * block * c->es * each * (is_col ? 1 : 0.6);
}

// No tile is cut short; those of `unit` elements, if it has tiles inside.
static int divides(const dv_nest_dim *d, int64_t unit)
{
    return d->whole % (d->size * unit) == 0; // or it is not cut
}

// Are the turns of loop l rows that follow each other in out?
static int follows(const count *c, int l)
{
    const dv_nest_dim *row = &c->n->dims[c->f.row], *d = &c->n->dims[l];
    return d->type == row->type && d->size > 1 &&
           dv_nest_continues(d, row, DV_OUT);
}

// Are those of the innermost loop rows of one kernel (contract/make.c,
// ct_join)?
static int joins(const count *c, int last)
{
    const dv_nest_dim *row = &c->n->dims[c->f.row], *d = &c->n->dims[last];
    int64_t unit = d->whole && d->whole == row->whole ? row->size : 1;
    return follows(c, last) && divides(d, unit);
}

static int may_join(const count *c)
{
    const dv_nest_form *f = &c->f;
    if (f->row < 0 || f->col_turned || c->k < DV_FORM_LONG_K || c->n->combine ||
        f->pack[f->in_row] == DV_FORM_NEVER || f->pack[DV_OUT] != DV_FORM_NEVER)
        return 0;
    const dv_nest_dim *row = &c->n->dims[f->row];
    for (int i = 0; i < f->n_k; i++)
        if (!divides(&c->n->dims[f->k[i]], 1))
            return 0;
    return divides(row, 1) && row->size % c->caches->rows == 0;
}

// What it costs, beyond dv_nest_load, to come back to panels of columns that do
// not all stay in L1 for a few rows at a time, where rows that follow each
// other could be one kernel's, which has each panel once.
double dv_nest_returns(const count *c)
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

// What it costs more to write in runs of so many bytes, each somewhere else.
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

// Elements of out that are written in one go: rows that touch, and loops that
// continue them. `most`: in any order of loops.
static double run_of(const count *c, int most)
{
    double run = c->col, panel = (double)c->panel * c->lanes;
    int l = c->f.n_loops;
    // Panels write parts of rows; only in L1 do these come together.
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

// Does out go around the caches (contract/contract.c)? As whole lines of rows,
// or of narrow rows that follow each other.
static int streams(const count *c, double all)
{
    const dv_nest *n = c->n;
    int64_t es = (int64_t)c->es;
    if (c->caches->vector == 16 || n->first != DV_PRIM_ZERO || n->combine ||
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

// `least`: in any order of loops.
double dv_nest_results(const count *c, double loads, int least)
{
    double all = c->all[DV_OUT];
    if (c->f.pack[DV_OUT] != DV_FORM_NEVER)
        return 0;
    if (streams(c, all))
        return all * c->es * c->p->stream;
    double moved = loads * dv_nest_block_of(c, DV_OUT);
    double reads = moved - (c->n->first == DV_PRIM_ZERO ? all : 0);
    // With a long k there is time to write.
    double hidden = c->k < DV_FORM_LONG_K ? 1 : 0.5;
    return (moved * 1.5 + reads) * c->es * dv_nest_rate(c, all * c->es) *
           hidden * ragged(c, run_of(c, least) * c->es);
}

// -- Packing -----------------------------------------------------------------

// How much more a copy costs in short runs, which from memory are waited for.
static double copied(double run_bytes, int from_memory)
{
    if (run_bytes >= 1024)
        return 1;
    if (!from_memory)
        return run_bytes >= 256 ? 1.4 : 2;
    return run_bytes >= 512 ? 2 : run_bytes >= 256 ? 2.6 : 6;
}

// The price of an element where what is unit stride in the buffer is `far`
// apart, and `longest` elements of another dimension are side by side.
double dv_nest_turned_price(const count *c, int o, int64_t far, int64_t longest,
                            int brings)
{
    if (far < 1)
        return c->p->scalar;
    // A line here and a line there, each on its own page.
    double line = longest < 16 ? 16 : (double)longest;
    double pages = (double)far * c->es >= 2048 ? 16 / line : 0;
    pages *= o != DV_OUT ? 1.8
             : brings    ? 2.3 * c->p->pages // others were looked up
                         : c->p->pages;
    if (longest < 2)
        return c->p->gathered * (far < 16 ? 1 : 3) + 4 * pages;
    return pages + c->p->turned * (longest < 16   ? 1.6
                                   : longest < 48 ? 1.15
                                                  : 1);
}

// The price of an element by the way it lies: `across` is unit stride in the
// buffer, inside are the dimensions behind loop `at`.
static double price(const count *c, int o, int at)
{
    const dv_nest *n = c->n;
    int across = o == c->f.in_row ? c->f.row : c->f.col;
    int64_t far = across < 0 ? 1 : n->dims[across].stride[o], longest = 0;
    double width = dv_nest_elems(n, across);
    if (o == c->f.in_row && width > 4)
        width = 4; // panels
    for (int i = at + 1; i < n->n_dims; i++)
        if (i != across && n->dims[i].stride[o] == 1 &&
            n->dims[i].size > longest)
            longest = n->dims[i].size;
    // Results: also the loops that continue what is written.
    for (int i = n->n_dims - 1; o == DV_OUT && longest && i > at; i--)
        if (i != across && n->dims[i].stride[o] == longest)
            longest *= n->dims[i].size;
    if (far == 1 || width == 1) {
        double run = dv_nest_elems(n, across);
        for (int i = at + 1; i < n->n_dims; i++)
            if (i != across && (double)n->dims[i].stride[o] == run)
                run *= (double)n->dims[i].size; // rows that touch
        run *= c->es;
        return c->p->copied *
               copied(run, c->all[o] * c->es > (double)c->caches->l3 / 2);
    }
    return dv_nest_turned_price(c, o, far, longest, dv_nest_brings(c, &c->f));
}

double dv_nest_packing(const count *c, int o)
{
    int at = c->f.pack[o];
    if (at == DV_FORM_NEVER)
        return 0;
    double n = dv_nest_turns_up_to(c, at) * c->held[o];
    double moved = price(c, o, at) * c->es / 4;
    double far = c->es * dv_nest_rate(c, c->all[o] * c->es);
    double calls = dv_nest_turns_up_to(c, at) * 20;
    if (o == c->f.in_col && dv_nest_form_packs_on_way(c->n, &c->f))
        return n * (c->p->copied * c->es / 4 + far) * c->p->on_way *
               copied(read_run(c, o), far > c->es * c->p->l3);
    if (o != DV_OUT)
        return n * (moved + far) + calls;
    // Put back; and gathered before, unless it starts at zero.
    double fresh = 1;
    for (int l = 0; l <= at; l++)
        if (c->n->dims[l].type == DV_NEST_K)
            fresh /= c->turns[l];
    double reads = c->n->first == DV_PRIM_ZERO ? 1 - fresh : 1;
    if (c->held[o] * c->es > (double)c->caches->l2 * 0.9 &&
        !dv_nest_brings(c, &c->f))
        far += c->p->spill * c->es * c->p->l3; // the buffer is not near
    return n * (moved * (c->p->put_back + 2 * reads) + far * (1.5 + reads)) +
           calls;
}
