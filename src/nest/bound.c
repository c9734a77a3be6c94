// What a nest costs at least, whatever the order of its loops and wherever it
// is packed: kernels, every element moved once and loaded once, and what steps
// in the innermost loop loaded in each turn.
#include "nest/cost.h"

typedef dv_nest_count count;

// Is dimension i a loop whose turns do not fit a buffer, even alone?
static int is_too_long(const count *c, int o, int i)
{
    return i < c->dims.n_loops &&
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

static double least_of_way(count *c, dv_nest_way *w)
{
    double sum = dv_nest_kernels(c, w);
    dv_nest_way_take(c, w);
    for (int o = 0; o < DV_N_OPERANDS; o++) {
        w->moved[o] = least_packing(c, o);
        sum += w->moved[o];
    }
    sum += least_traffic(c);
    return sum * DV_NEST_SLACK;
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
