// What a nest costs at least, whatever the order of its loops and wherever it
// is packed: kernels, every element moved once and loaded once, and what steps
// in the innermost loop loaded in each turn.
#include "nest/cost.h"

typedef dv_nest_count count;

// Is dimension i a loop whose turns do not fit a buffer, even alone?
static int is_too_long(const count *c, int o, int i)
{
    return !c->uncut && i < c->dims.n_loops &&
           dv_nest_block_of(c, o) * c->turns[i] * DV_NEST_SLACK >
               dv_nest_most_held(c, o);
}

// An element moved, in any loop.
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
    return dv_nest_turned_price(c, o, far, longest);
}

// Every element is packed once at least.
static double least_packing(const count *c, int o)
{
    double all = c->all[o], far = c->es * dv_nest_rate(c, all * c->es);
    double moved = least_price(c, o) * c->es / 4;
    if (o == DV_OUT) {
        double reads = c->n->first == DV_PRIM_ZERO ? 0 : 1;
        return all *
               (moved * (c->p->put_back + 2 * reads) + far * (1.5 + reads));
    }
    double on_way = (c->p->copied * c->es / 4 + far) * c->p->on_way;
    int may = o == c->f.in_col && c->f.n_k == 1 && c->f.col >= 0 &&
              c->n->dims[c->f.col].stride[o] == 1;
    if (may && on_way < moved + far)
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
    double calls = dv_nest_turns_up_to(c, c->f.n_loops - 1);
    for (int o = 0; o < DV_N_OPERANDS; o++)
        for (int often = 0; often < 2; often++) {
            double loads = often ? calls : c->all[o] / dv_nest_block_of(c, o);
            each[o][often] = o == DV_OUT ? dv_nest_results(c, loads, 1)
                                         : dv_nest_load(c, o, loads, 1);
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

// What packing each operand costs at least, where the columns are of m (0) or
// of n (1).
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

static double least_of_way(count *c, dv_nest_way *w, moves *m, double most)
{
    double sum = dv_nest_kernels(c, w);
    if (sum * DV_NEST_SLACK >= most)
        return DV_NEST_IMPOSSIBLE;
    dv_nest_way_take(c, w);
    const double *moved = moves_of(c, m);
    for (int o = 0; o < DV_N_OPERANDS; o++) {
        w->moved[o] = w->f.pack[o] == DV_FORM_NEVER ? 0 : moved[o];
        sum += w->moved[o];
    }
    sum += least_traffic(c);
    return sum * DV_NEST_SLACK;
}

double dv_nest_bound(count *c, double most)
{
    double least = DV_NEST_IMPOSSIBLE;
    moves m = {.known = {0}};
    for (int i = 0; i < DV_NEST_WAYS; i++) {
        dv_nest_way *w = dv_nest_way_of(c, i);
        c->least[i] = w ? least_of_way(c, w, &m, most) : DV_NEST_IMPOSSIBLE;
        least = c->least[i] < least ? c->least[i] : least;
    }
    return least;
}

// -- Sizes of the kernel -----------------------------------------------------

// Can the kernel read an input where it is: rows of what is in dimension `own`,
// or (turned) columns of it?
static void find_places(const count *c, dv_nest_sizes *s, int o, int own)
{
    const dv_nest *n = c->n;
    int k = c->dims.n_k ? c->dims.k[c->dims.n_k - 1] : -1;
    int alone = own < 0 || n->dims[own].size == 1;
    int one = k < 0 || n->dims[k].size == 1;
    s->along_own[o] = alone || n->dims[own].stride[o] == 1;
    s->along_k[o] = one || n->dims[k].stride[o] == 1;
    if (c->dims.n_k > 2)
        s->along_own[o] = s->along_k[o] = 0;
}

void dv_nest_sizes_begin(dv_nest_sizes *s, count *c)
{
    int m = c->dims.col, n = c->dims.row;
    s->c = c;
    c->uncut = 1;
    s->calls = dv_nest_turns_up_to(c, c->dims.n_loops - 1);
    s->types = c->types;
    for (int cols = 0; cols < 2; cols++) { // of m, of n
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

// What is wasted at least where an input is read in place; or as good as
// impossible.
static double least_waste(const dv_nest_sizes *s, int o)
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

// Loading an input so often, with its packing or its waste.
static double least_input(const dv_nest_sizes *s, int cols, int o, double fma,
                          double calls, double loads)
{
    const count *c = s->c;
    int is_col = o == c->f.in_col;
    double block = dv_nest_block_of(c, o), panel = (double)c->panel * c->lanes;
    double here = dv_nest_rate(c, c->all[o] * c->es);
    double waste = least_waste(s, o);
    if (!is_col && block * c->es > (double)c->caches->l2 / 2 && c->col > panel)
        loads *= c->col / panel;
    double bytes = loads * block * c->es * (is_col ? 1 : 0.6);
    if (here == c->p->memory)
        here *= 0.6; // it waits no less
    double packed = s->moved[cols][o] + bytes * dv_nest_rate(c, block * c->es);
    double placed = waste * fma + bytes * here;
    double sum = packed < placed ? packed : placed;
    if (is_col && block * c->es > (double)c->caches->l1 / 2)
        sum += calls * block * c->es * c->p->l1;
    return sum;
}

// With the columns of m, or of n.
static double least_with(dv_nest_sizes *s, int cols, double calls, int types)
{
    static const int steps[] = {7, 5, 6, 3}; // of c, m, n, k: a bit an operand
    count *c = s->c;
    double each[DV_N_OPERANDS][2], least = DV_NEST_IMPOSSIBLE;
    double fma, kernels = calls * dv_nest_least_kernel(c, &fma);
    for (int often = 0; often < 2; often++) {
        for (int o = 0; o < DV_OUT; o++) {
            double once = c->all[o] / dv_nest_block_of(c, o);
            each[o][often] = least_input(s, cols, o, fma * calls, calls,
                                         often ? calls : once);
        }
        double here = DV_NEST_IMPOSSIBLE, once = c->all[DV_OUT];
        once /= dv_nest_block_of(c, DV_OUT);
        if (s->out_here[cols] || c->n->combine)
            here = dv_nest_results(c, often ? calls : once, 1);
        each[DV_OUT][often] =
            here < s->moved[cols][DV_OUT] ? here : s->moved[cols][DV_OUT];
    }
    for (int type = 0; type < 4; type++) {
        double sum = 0;
        for (int o = 0; o < DV_N_OPERANDS; o++)
            sum += each[o][steps[type] >> o & 1];
        if ((!types || types >> type & 1) && sum < least)
            least = sum;
    }
    return (kernels + least) * DV_NEST_SLACK;
}

double dv_nest_sizes_bound(dv_nest_sizes *s, const int64_t size[2])
{
    count *c = s->c;
    int dims[2] = {c->dims.col, c->dims.row}, types = s->types; // m, n
    double calls = s->calls, average[2] = {1, 1}, least[2];
    for (int i = 0; i < 2; i++) {
        int64_t whole = dims[i] < 0 ? 1 : c->n->dims[dims[i]].size;
        int64_t turns = (whole + size[i] - 1) / size[i];
        calls *= (double)turns;
        average[i] = (double)whole / (double)turns;
        types |= turns > 1 ? 1 << (i ? DV_NEST_N : DV_NEST_M) : 0;
    }
    for (int cols = 0; cols < 2; cols++) {
        c->f = s->form[cols];
        c->f.pack[DV_OUT] = DV_FORM_NEVER;
        c->col = average[cols];
        c->row = average[!cols];
        least[cols] = least_with(s, cols, calls, types);
    }
    return least[0] < least[1] ? least[0] : least[1];
}
