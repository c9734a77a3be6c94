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
//
// Rates are those of one core of today; only their proportions matter.
#include "nest/cost.h"
#include "base/dtype.h"
#include "base/math.h"

enum { LINE = 64 };

// Four multiply-adds a cycle, of 16 bytes; or two, of 32 or 64.
static const dv_nest_prices neon = {.fma = 0.0962,
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
static const dv_nest_prices avx = {.fma = 0.19,
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

// How often loop l runs for one turn of the loops around it, on average.
static double turns_of(const dv_nest *n, const dv_nest_tiles *t, int l)
{
    const dv_nest_dim *d = &n->dims[l];
    if (!d->whole)
        return (double)d->size;
    double outer = (double)dv_ceil_div(d->whole, d->size * t->unit[l]);
    return (double)dv_ceil_div(d->whole, t->unit[l]) / outer;
}

static double elems(const dv_nest *n, int dim)
{
    return dim < 0 ? 1 : (double)n->dims[dim].size;
}

static double average(const dv_nest *n, int dim)
{
    if (dim < 0 || !n->dims[dim].whole)
        return elems(n, dim);
    const dv_nest_dim *d = &n->dims[dim];
    return (double)d->whole / (double)dv_ceil_div(d->whole, d->size);
}

// Elements of an operand in one block of the kernel.
static double block_of(const count *c, int o)
{
    return o == DV_OUT        ? c->row * c->col
           : o == c->f.in_row ? c->row * c->k
                              : c->col * c->k;
}

// What is behind loop `at`: a buffer that is filled there holds that.
static double elems_behind(const count *c, int o, int at)
{
    double n = block_of(c, o);
    for (int l = at + 1; l < c->f.n_loops; l++)
        if (c->n->dims[l].stride[o])
            n *= c->turns[l];
    return n;
}

void dv_nest_pack_in(count *c, int o, int at)
{
    c->f.pack[o] = at;
    c->held[o] = at == DV_FORM_NEVER ? 0 : elems_behind(c, o, at);
}

static double turns_up_to(const count *c, int at)
{
    return c->upto[at + 1];
}

// -- Kernels -----------------------------------------------------------------

int32_t dv_nest_panel_vectors(int32_t vectors, int64_t elem_bytes)
{
    return vectors == 6 && elem_bytes != 4 ? 5 : vectors;
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
            run *= elems(c->n, d);
    }
    // Rows of k are not asked for, those of a kernel must follow each other.
    if (o == c->f.in_row && !c->f.row_turned && run < block_of(c, o))
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
        waste += asking ? 0.03 : f->row_turned && c->row > 4 ? 0.15 : 0.05;
    if (asking && c->k * LINE > (double)c->caches->l1 / 4)
        waste += 0.3; // lines of rows far apart do not stay in L1
    if (!packed)      // long vectors turn out as well then
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

double dv_nest_kernels(count *c, dv_nest_way *w)
{
    int asking = asks(c, &w->f);
    if (w->call[asking] == 0) {
        dv_nest_way_take(c, w, w->f.pack);
        w->call[asking] = kernel(c, asking);
    }
    return turns_up_to(c, c->dims.n_loops - 1) * w->call[asking];
}

// -- Traffic -----------------------------------------------------------------

double dv_nest_rate(const count *c, double bytes)
{
    return bytes <= (double)c->caches->l2 / 2   ? c->p->l2
           : bytes <= (double)c->caches->l3 / 2 ? c->p->l3
                                                : c->p->memory;
}

// Blocks of an operand that are loaded: one a turn, but for the innermost
// loops that keep it.
static double loads_of(const count *c, int o)
{
    int l = c->f.n_loops - 1;
    while (l >= 0 && !c->n->dims[l].stride[o])
        l--;
    return turns_up_to(c, l);
}

// Where a kernel reads a little of each row in memory, it waits for every one,
// unless the rows touch. `least`: in any order of loops.
static double waits(const count *c, int o, int least)
{
    const dv_nest_form *f = &c->f;
    int k = f->n_k ? f->k[f->n_k - 1] : -1;
    int turned = o == f->in_col ? f->col_turned : !f->row_turned;
    int inner = o == f->in_col ? f->col : f->row;
    // Where that goes on elsewhere, lines were not asked for, and others in
    // vain.
    if (o == f->in_row && c->p->asks && f->pack[o] == DV_FORM_NEVER &&
        (asks(c, f) || !f->row_turned))
        return least ? 0.6
                     : 0.6 + (f->row_turned ? 20.0 : 8.0) * LINE /
                                 (read_run(c, o) + LINE);
    double run = elems(c->n, inner);
    if (k >= 0 && (double)c->n->dims[k].stride[o] == run)
        run *= elems(c->n, k);
    return !turned && run * c->es < 1024 ? 5 : 0.8;
}

// Columns are waited for by the first rows that meet them; rows come by one
// after the other, asked for in time. `least`: in any order of loops.
static double load(const count *c, int o, double loads, int least)
{
    int in_place = c->f.pack[o] == DV_FORM_NEVER, is_col = o == c->f.in_col;
    double block = block_of(c, o);
    double where = in_place ? c->all[o] : least ? block : c->held[o];
    double each = dv_nest_rate(c, where * c->es);
    double panel = (double)c->panel * c->lanes, sum = 0;
    // The rows go by once for each panel of columns.
    if (!is_col && block * c->es > (double)c->caches->l2 / 2 && c->col > panel)
        loads *= c->col / panel;
    if (in_place && each == c->p->memory)
        each *= waits(c, o, least);
    if (is_col && block * c->es > (double)c->caches->l1 / 2)
        sum = turns_up_to(c, c->f.n_loops - 1) * block * c->es * c->p->l1;
    return sum + loads * block * c->es * each * (is_col ? 1 : 0.6);
}

double dv_nest_load(const count *c, int o)
{
    return load(c, o, loads_of(c, o), 0);
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

// Does out go around the caches (run/contract.c)? As whole lines of rows, or of
// narrow rows that follow each other.
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
static double results(const count *c, double loads, int least)
{
    double all = c->all[DV_OUT];
    if (c->f.pack[DV_OUT] != DV_FORM_NEVER)
        return 0;
    if (streams(c, all))
        return all * c->es * c->p->stream;
    double moved = loads * block_of(c, DV_OUT);
    double reads = moved - (c->n->first == DV_PRIM_ZERO ? all : 0);
    // With a long k there is time to write.
    double hidden = c->k < 96 ? 1 : 0.5;
    return (moved * 1.5 + reads) * c->es * dv_nest_rate(c, all * c->es) *
           hidden * ragged(c, run_of(c, least) * c->es);
}

double dv_nest_results(const count *c)
{
    return results(c, loads_of(c, DV_OUT), 0);
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
static double turned_price(const count *c, int o, int64_t far, int64_t longest)
{
    if (far < 1)
        return c->p->scalar;
    // A line here and a line there, each on its own page.
    double line = longest < 16 ? 16 : (double)longest;
    double pages = (double)far * c->es >= 2048 ? 16 / line : 0;
    pages *= o == DV_OUT ? c->p->pages : 1.8;
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
    double width = elems(n, across);
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
        double run = elems(n, across);
        for (int i = at + 1; i < n->n_dims; i++)
            if (i != across && (double)n->dims[i].stride[o] == run)
                run *= (double)n->dims[i].size; // rows that touch
        run *= c->es;
        return c->p->copied *
               copied(run, c->all[o] * c->es > (double)c->caches->l3 / 2);
    }
    return turned_price(c, o, far, longest);
}

double dv_nest_packing(const count *c, int o)
{
    int at = c->f.pack[o];
    if (at == DV_FORM_NEVER)
        return 0;
    double n = turns_up_to(c, at) * c->held[o];
    double moved = price(c, o, at) * c->es / 4;
    double far = c->es * dv_nest_rate(c, c->all[o] * c->es);
    double calls = turns_up_to(c, at) * 20;
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
    if (c->held[o] * c->es > (double)c->caches->l2 * 0.9)
        far += c->p->spill * c->es * c->p->l3; // the buffer is not near
    return n * (moved * (c->p->put_back + 2 * reads) + far * (1.5 + reads)) +
           calls;
}

int dv_nest_too_large(const count *c, int o)
{
    double most = (double)c->caches->l3 / (o == DV_OUT ? 4 : 2);
    return c->held[o] * c->es > most;
}

// -- Ways to pack ------------------------------------------------------------

void dv_nest_way_take(count *c, const dv_nest_way *w, const int at[])
{
    c->f = w->f;
    c->row = w->row;
    c->col = w->col;
    for (int o = 0; o < DV_N_OPERANDS; o++)
        dv_nest_pack_in(c, o, at[o]);
}

dv_nest_way *dv_nest_way_of(count *c, int packed)
{
    dv_nest_way *w = &c->ways[packed];
    if (w->state == DV_WAY_NEW) {
        int at[DV_N_OPERANDS];
        for (int o = 0; o < DV_N_OPERANDS; o++)
            at[o] = packed >> o & 1 ? DV_FORM_TOP : DV_FORM_NEVER;
        int none = dv_nest_form_packed(c->n, &c->dims, at, &w->f, NULL);
        w->state = none ? DV_WAY_NONE : DV_WAY_KNOWN;
        w->row = none ? 0 : average(c->n, w->f.row);
        w->col = none ? 0 : average(c->n, w->f.col);
        w->call[0] = w->call[1] = 0;
    }
    return w->state == DV_WAY_KNOWN ? w : NULL;
}

// What depends on the order of loops.
static void count_loops(count *c)
{
    c->upto[0] = 1;
    for (int l = 0; l < c->dims.n_loops; l++)
        c->upto[l + 1] = c->upto[l] * c->turns[l];
    for (int o = 0; o < DV_N_OPERANDS; o++)
        c->all[o] = elems_behind(c, o, -1);
}

int dv_nest_count_begin(count *c, const dv_nest *n,
                        const dv_nest_caches *caches, const dv_nest_tiles *t)
{
    c->n = n;
    c->caches = caches;
    if (dv_nest_form_dims(n, &c->dims, NULL))
        return 0;
    c->es = (double)dv_dtype_get(n->dtype)->size_bytes;
    c->p = caches->vector > 16 ? &avx : &neon;
    c->lanes = (double)dv_nest_lanes(caches, (int64_t)c->es);
    c->panel = dv_nest_panel_vectors(caches->vectors, (int64_t)c->es);
    c->f = c->dims;
    c->row = average(n, c->f.row);
    c->col = average(n, c->f.col);
    c->k = 1;
    for (int i = 0; i < c->f.n_k; i++)
        c->k *= average(n, c->f.k[i]);
    c->types = 0;
    for (int l = 0; l < c->dims.n_loops; l++) {
        c->turns[l] = turns_of(n, t, l);
        c->types |= 1 << n->dims[l].type;
    }
    for (int i = 0; i < DV_NEST_WAYS; i++) {
        c->ways[i].state = DV_WAY_NEW;
        c->least[i] = 0;
    }
    count_loops(c);
    return 1;
}

void dv_nest_count_again(count *c, const dv_nest *n, const double *turns,
                         const uint8_t *order)
{
    c->n = n;
    c->f = c->dims;
    c->row = average(n, c->f.row);
    c->col = average(n, c->f.col);
    for (int l = 0; l < c->dims.n_loops; l++)
        c->turns[l] = turns[order[l]];
    count_loops(c);
}

double dv_nest_least_cost(const dv_nest *n, const dv_nest_caches *caches)
{
    count c;
    dv_nest_tiles t;
    int bad;
    if (!dv_nest_tiles_of(n, &t, &bad) ||
        !dv_nest_count_begin(&c, n, caches, &t))
        return 0;
    dv_nest_way *w = dv_nest_way_of(&c, DV_NEST_WAYS - 1);
    return w ? dv_nest_kernels(&c, w) : 0;
}

// -- What it takes at least --------------------------------------------------

// An element moved, in any loop.
static double least_price(const count *c, int o)
{
    const dv_nest *n = c->n;
    int across = o == c->f.in_row ? c->f.row : c->f.col;
    int64_t far = across < 0 ? 1 : n->dims[across].stride[o], longest = 0;
    if (far == 1 || elems(n, across) == 1)
        return c->p->copied;
    for (int i = 0; i < n->n_dims; i++)
        if (i != across && n->dims[i].stride[o] == 1 &&
            n->dims[i].size > longest)
            longest = n->dims[i].size;
    if (o == DV_OUT && longest && far > 0)
        return c->p->turned;
    return turned_price(c, o, far, longest);
}

// Every element is packed once at least.
static double least_packing(const count *c, int o)
{
    double all = c->all[o], far = c->es * dv_nest_rate(c, all * c->es);
    double moved = least_price(c, o) * c->es / 4;
    if (c->f.pack[o] == DV_FORM_NEVER)
        return 0;
    if (o == DV_OUT) {
        double reads = c->n->first == DV_PRIM_ZERO ? 0 : 1;
        return all *
               (moved * (c->p->put_back + 2 * reads) + far * (1.5 + reads));
    }
    double on_way = (c->p->copied * c->es / 4 + far) * c->p->on_way;
    if (o == c->f.in_col && c->f.n_k == 1 && on_way < moved + far)
        return all * on_way;
    return all * (moved + far);
}

// Loads and results: what steps in the innermost loop is loaded in each turn
// of all loops, the others once at least. One of the types that loops have is
// innermost.
static double least_traffic(const count *c)
{
    static const int steps[] = {7, 5, 6, 3}; // of c, m, n, k: a bit an operand
    double each[DV_N_OPERANDS][2], least = DV_NEST_IMPOSSIBLE;
    double calls = turns_up_to(c, c->f.n_loops - 1);
    for (int o = 0; o < DV_N_OPERANDS; o++)
        for (int often = 0; often < 2; often++) {
            double loads = often ? calls : c->all[o] / block_of(c, o);
            each[o][often] =
                o == DV_OUT ? results(c, loads, 1) : load(c, o, loads, 1);
        }
    for (int type = 0; type < 4; type++) {
        double sum = 0;
        for (int o = 0; o < DV_N_OPERANDS; o++)
            sum += each[o][steps[type] >> o & 1];
        if ((!c->types || c->types >> type & 1) && sum < least)
            least = sum;
    }
    return least;
}

static double least_of_way(count *c, dv_nest_way *w)
{
    double sum = dv_nest_kernels(c, w);
    dv_nest_way_take(c, w, w->f.pack);
    for (int o = 0; o < DV_N_OPERANDS; o++)
        sum += least_packing(c, o);
    sum += least_traffic(c);
    return sum * (1 - 1e-9); // sums in another order are rounded otherwise
}

double dv_nest_bound(count *c)
{
    double least = DV_NEST_IMPOSSIBLE;
    for (int i = 0; i < DV_NEST_WAYS; i++) {
        dv_nest_way *w = dv_nest_way_of(c, i);
        c->least[i] = w ? least_of_way(c, w) : DV_NEST_IMPOSSIBLE;
        least = c->least[i] < least ? c->least[i] : least;
    }
    return least;
}
