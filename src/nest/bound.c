// Lower bounds of the cost of a nest, for any order of its loops and any loops
// that pack: the time of the kernels, every element packed and loaded once, and
// operands with a stride in the innermost loop loaded in every iteration.
#include "nest/cost.h"
#include <math.h>

typedef dv_nest_count count;

// Returns whether the iterations of loop i alone make a block of operand o that
// is too large for a packing buffer.
static int is_too_long(const count *c, int o, int i)
{
    return !c->uncut && i < c->dims.n_loops &&
           dv_nest_block_of(c, o) * c->turns[i] * DV_NEST_SLACK >
               dv_nest_max_buffer(c, o);
}

// Returns a lower bound of the cost, per 4 bytes, of packing operand o (copying
// it to a contiguous buffer), whichever loop packs it.
static double least_price(const count *c, int o)
{
    const dv_nest *n = c->n;
    int across = o == c->f.in_row ? c->f.row : c->f.col;
    int64_t far = across < 0 ? 1 : n->dims[across].stride[o], longest = 0;
    if (far == 1 || dv_nest_elems(n, across) == 1)
        return c->p->copied;
    for (int i = 0; i < n->n_dims; i++)
        if (i != across && n->dims[i].stride[o] == 1 &&
            n->dims[i].size > longest && !is_too_long(c, o, i))
            longest = n->dims[i].size;
    if (o == DV_OUT && longest && far > 0)
        return c->p->turned;
    return dv_nest_transpose_cost(c, o, far, longest, 0);
}

// Returns a lower bound of the cost of packing operand o (copying it to a
// contiguous buffer): each of its elements is packed at least once.
static double least_packing(const count *c, int o)
{
    double all = c->all[o], far = c->es * dv_nest_rate(c, all * c->es);
    double moved = least_price(c, o) * c->es / 4;
    if (o == DV_OUT) {
        double reads = c->n->first == DV_PRIM_ZERO ? 0 : 1;
        return all *
               (moved * (c->p->put_back + 2 * reads) + far * (1.5 + reads));
    }
    if (c->n->fixed >> o & 1)
        return all * far; // it is packed before the first run
    double on_way = (c->p->copied * c->es / 4 + far) * c->p->on_way;
    int may = o == c->f.in_col && c->f.n_k == 1 && c->f.col >= 0 &&
              c->n->dims[c->f.col].stride[o] == 1;
    if (may && on_way < moved + far)
        return all * on_way;
    return all * (moved + far);
}

// Bit masks of the operands (1: in0, 2: in1, 4: out) that have a nonzero stride
// in loops of type c (batch), m (rows), n (columns) and k (summed).
static const int steps[] = {7, 5, 6, 3};

// The cost of an operand as a linear function of how often it is loaded: base +
// loads * each.
typedef struct line {
    double base, each;
} line;

// Lower bounds of the parts of an operand's cost.
typedef struct costs {
    double moved; // cost of packing the whole operand once
    // Cost of loads from a buffer that holds one block (near), and from a
    // buffer that holds the whole operand (far).
    line near, far;
    // Cost of access in place: of loads if the operand is an input, of reads
    // and writes if it is the output.
    line here;
    int packed, placed; // whether packing, and access in place, is possible
} costs;

// Lower bounds of an operand's cost. The first index is 1 if the operand has a
// stride in the outermost loop and 0 if not, the second index is the same for
// the innermost loop.
typedef double ends[2][2];

// Fills the lower bounds of operand o. If it has a stride in the innermost
// loop, it is loaded in every kernel call; otherwise at least once, and if it
// has none in the outermost loop, once per iteration of that loop. In that case
// it is also packed again in every such iteration, unless one buffer holds all
// of it.
static void fill_bounds(const count *c, int o, const costs *x, ends out)
{
    double calls = dv_nest_turns_up_to(c, c->dims.n_loops - 1);
    double once = c->all[o] / dv_nest_block_of(c, o);
    int fits = c->all[o] * DV_NEST_SLACK <= dv_nest_max_buffer(c, o), loops = 0;
    for (int type = 0; type < 4; type++)
        loops |= (c->types >> type & 1) && (steps[type] >> o & 1);
    // The number of loads in three cases: every block once; every block in each
    // iteration of the outermost loop; one block in each kernel call.
    const double loads[] = {once, loops ? once * c->fewest : once, calls};
    for (int i = 0; i < 3; i++) {
        double never = DV_NEST_IMPOSSIBLE;
        double here =
            x->placed ? x->here.base + x->here.each * loads[i] : never;
        double far =
            x->packed && fits ? x->far.base + x->far.each * loads[i] : never;
        double near =
            x->packed ? x->near.base + x->near.each * loads[i] : never;
        // The cost if the whole operand is in one buffer or is accessed in
        // place. Otherwise it is packed block by block, at the cost `near`.
        double whole = fmin(here, x->moved + far);
        if (i != 0)
            out[0][i == 2] = fmin(whole, c->fewest * x->moved + near);
        if (i != 1)
            out[1][i == 2] = fmin(whole, x->moved + near);
    }
}

static double min_of_bounds(const count *c, ends *each)
{
    double least = DV_NEST_IMPOSSIBLE;
    int types = c->types ? c->types : 15;
    for (int outer = 0; outer < 4; outer++)
        for (int inner = 0; types >> outer & 1 && inner < 4; inner++) {
            int a = steps[outer], b = steps[inner];
            double sum = each[0][a & 1][b & 1] +
                         each[1][a >> 1 & 1][b >> 1 & 1] +
                         each[2][a >> 2][b >> 2];
            if (types >> inner & 1 && sum < least)
                least = sum;
        }
    return least;
}

static line load_line(const count *c, int o, int least)
{
    double base = dv_nest_load_cost(c, o, 0, least);
    return (line){base, dv_nest_load_cost(c, o, 1, least) - base};
}

static line result_line(const count *c)
{
    double base = dv_nest_output_cost(c, 0, 1);
    return (line){base, dv_nest_output_cost(c, 1, 1) - base};
}

// Returns a lower bound of the cost of packing, loads and results for the
// packing in c->f, which says for each operand whether it is packed (copied to
// a contiguous buffer). moved[] is the cost of packing each operand once.
static double least_traffic(count *c, const double *moved)
{
    ends each[DV_N_OPERANDS];
    for (int o = 0; o < DV_N_OPERANDS; o++) {
        int packed = c->f.pack[o] != DV_FORM_NEVER;
        costs x = {.moved = moved[o], .packed = packed, .placed = !packed};
        c->held[o] = c->all[o];
        if (o != DV_OUT)
            x.near = x.here = load_line(c, o, 1);
        if (o != DV_OUT && packed)
            x.far = load_line(c, o, 0);
        if (o == DV_OUT && !packed)
            x.here = result_line(c);
        fill_bounds(c, o, &x, each[o]);
    }
    return min_of_bounds(c, each);
}

// Lower bounds of the cost of packing each operand if the kernel's columns are
// m (0) or n (1), computed on first use.
typedef struct moves {
    int known[2];
    double each[2][DV_N_OPERANDS];
} moves;

static const double *moves_of(count *c, moves *m)
{
    int cols = c->f.in_col == DV_IN1;
    for (int o = 0; !m->known[cols] && o < DV_N_OPERANDS; o++)
        m->each[cols][o] = least_packing(c, o);
    m->known[cols] = 1;
    return m->each[cols];
}

static double least_of_packset(count *c, dv_nest_packset *w, moves *m,
                               double most)
{
    double sum = dv_nest_kernel_cost(c, w);
    if (sum * DV_NEST_SLACK >= most)
        return DV_NEST_IMPOSSIBLE;
    dv_nest_packset_select(c, w);
    const double *moved = moves_of(c, m);
    for (int o = 0; o < DV_N_OPERANDS; o++)
        w->moved[o] = w->f.pack[o] == DV_FORM_NEVER ? 0 : moved[o];
    sum += least_traffic(c, moved);
    return sum * DV_NEST_SLACK;
}

double dv_nest_bound(count *c, double most)
{
    double least = DV_NEST_IMPOSSIBLE;
    moves m = {.known = {0}};
    for (int i = 0; i < DV_NEST_PACKSETS; i++) {
        dv_nest_packset *w = dv_nest_packset_of(c, i);
        c->least[i] = w ? least_of_packset(c, w, &m, most) : DV_NEST_IMPOSSIBLE;
        least = c->least[i] < least ? c->least[i] : least;
    }
    return least;
}

// Finds out whether the kernel can read input o in place: it needs unit stride
// along k (summed) or along `own`, the input's dimension m or n.
static void find_places(const count *c, dv_nest_size_bounds *s, int o, int own)
{
    const dv_nest *n = c->n;
    int k = c->dims.n_k ? c->dims.k[c->dims.n_k - 1] : -1;
    int alone = own < 0 || n->dims[own].size == 1;
    int one = k < 0 || n->dims[k].size == 1;
    s->along_own[o] = alone || n->dims[own].stride[o] == 1;
    s->along_k[o] = one || n->dims[k].stride[o] == 1;
}

void dv_nest_sizes_begin(dv_nest_size_bounds *s, count *c)
{
    int m = c->dims.col, n = c->dims.row;
    s->c = c;
    c->uncut = 1;
    c->fewest = c->fewest < 2 ? c->fewest : 2;
    s->calls = dv_nest_turns_up_to(c, c->dims.n_loops - 1);
    s->types = c->types;
    // Compute the bounds first with dimension m as the kernel's columns, then
    // with n.
    for (int cols = 0; cols < 2; cols++) {
        dv_nest_form *f = &c->f;
        *f = c->dims;
        f->col = cols ? n : m;
        f->row = cols ? m : n;
        f->in_col = cols ? DV_IN1 : DV_IN0;
        f->in_row = cols ? DV_IN0 : DV_IN1;
        f->pack[DV_IN0] = f->pack[DV_IN1] = f->pack[DV_OUT] = DV_FORM_TOP;
        s->form[cols] = *f;
        for (int o = 0; o < DV_N_OPERANDS; o++)
            s->moved[cols][o] = least_packing(c, o);
        s->out_here[cols] = f->col < 0 || c->n->dims[f->col].size == 1 ||
                            c->n->dims[f->col].stride[DV_OUT] == 1;
    }
    find_places(c, s, DV_IN0, m);
    find_places(c, s, DV_IN1, n);
}

// Returns a lower bound of the fraction of kernel time lost by reading input o
// in place, or DV_NEST_IMPOSSIBLE if that is not possible.
static double least_waste(const dv_nest_size_bounds *s, int o)
{
    const count *c = s->c;
    double waste = DV_NEST_IMPOSSIBLE;
    if (o == c->f.in_row) {
        if (s->along_own[o])
            waste = c->p->asks && c->dims.n_k == 1 ? 0.03
                    : c->row > 4                   ? 0.15
                                                   : 0.05;
        return s->along_k[o] && waste > 0.05 ? 0.05 : waste;
    }
    if (s->along_k[o])
        waste = c->caches->vector > 16 ? 0.6 : 0.12;
    return s->along_own[o] && waste > 0.04 ? 0.04 : waste;
}

// Fills the lower bounds of input o, which is packed or read in place. `fma` is
// the time of all multiply-adds.
static void least_input(const dv_nest_size_bounds *s, int cols, int o,
                        double fma, ends each)
{
    const count *c = s->c;
    int is_col = o == c->f.in_col;
    double block = dv_nest_block_of(c, o), panel = (double)c->panel * c->lanes;
    double far = dv_nest_rate(c, c->all[o] * c->es), base = 0;
    double near = dv_nest_rate(c, block * c->es);
    double bytes = block * c->es * (is_col ? 1 : 0.6);
    double waste = least_waste(s, o);
    if (!is_col && block * c->es > (double)c->caches->l2 / 2 && c->col > panel)
        bytes *= c->col / panel;
    if (is_col && block * c->es > (double)c->caches->l1 / 2)
        base = dv_nest_turns_up_to(c, c->dims.n_loops - 1) * block * c->es *
               c->p->l1;
    costs x = {.moved = s->moved[cols][o],
               .near = {base, bytes * near},
               .far = {base, bytes * far},
               .here = {base + waste * fma, bytes * far},
               .packed = 1,
               .placed = waste < 1};
    if (far == c->p->memory)
        // If the input comes from memory, the cost model multiplies its loads
        // by a factor for waiting (waits() in cost.c). The smallest such
        // factor, 0.6, gives a lower bound.
        x.here.each *= 0.6;
    fill_bounds(c, o, &x, each);
}

static void least_output(const dv_nest_size_bounds *s, int cols, ends each)
{
    const count *c = s->c;
    costs x = {.moved = s->moved[cols][DV_OUT],
               .packed = 1,
               .placed = s->out_here[cols]};
    if (x.placed)
        x.here = result_line(c);
    fill_bounds(c, DV_OUT, &x, each);
}

// Returns a lower bound of the nest's cost if the kernel's columns are its
// dimension m (`cols` is 0) or n (1).
static double least_with(const dv_nest_size_bounds *s, int cols)
{
    const count *c = s->c;
    ends each[DV_N_OPERANDS];
    double calls = dv_nest_turns_up_to(c, c->dims.n_loops - 1);
    double fma, kernels = calls * dv_nest_kernel_bound(c, &fma);
    least_input(s, cols, DV_IN0, fma * calls, each[DV_IN0]);
    least_input(s, cols, DV_IN1, fma * calls, each[DV_IN1]);
    least_output(s, cols, each[DV_OUT]);
    return (kernels + min_of_bounds(c, each)) * DV_NEST_SLACK;
}

double dv_nest_sizes_bound(dv_nest_size_bounds *s, const int64_t size[2])
{
    count *c = s->c;
    int dims[2] = {c->dims.col, c->dims.row}; // the kernel's m and n
    double calls = s->calls, average[2] = {1, 1}, least[2];
    c->types = s->types;
    for (int i = 0; i < 2; i++) {
        int64_t whole = dims[i] < 0 ? 1 : c->n->dims[dims[i]].size;
        int64_t turns = (whole + size[i] - 1) / size[i];
        calls *= (double)turns;
        average[i] = (double)whole / (double)turns;
        c->types |= turns > 1 ? 1 << (i ? DV_NEST_N : DV_NEST_M) : 0;
    }
    c->upto[c->dims.n_loops] = calls;
    for (int cols = 0; cols < 2; cols++) {
        c->f = s->form[cols];
        c->f.pack[DV_OUT] = DV_FORM_NEVER;
        c->col = average[cols];
        c->row = average[!cols];
        least[cols] = least_with(s, cols);
    }
    return least[0] < least[1] ? least[0] : least[1];
}
