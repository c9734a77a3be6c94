// Chooses which operands are packed, and in which loop: all sets of operands
// are tried, with each operand packed in the loop that is cheapest for it. Sets
// whose cost without packing already reaches the best cost so far are skipped.
#include "nest/cost.h"

typedef dv_nest_count count;

static int is_too_large(const count *c, int o)
{
    return c->held[o] > dv_nest_max_buffer(c, o);
}

// Returns whether packing operand o in loop `at` cannot be the best choice.
static int is_useless(const count *c, int o, int at)
{
    const dv_nest_dim *d = c->n->dims;
    int last = c->f.n_loops - 1;
    // If the operand has stride 0 in this loop, packing it in the loop around
    // packs the same elements less often. Only in the innermost loop may the
    // kernel itself pack, which is cheaper.
    return at >= 0 && at < last && !d[at].stride[o];
}

// Returns the loop in which packing operand o costs least, including its loads
// but not the effect on other operands; DV_FORM_NEVER if its buffer is too
// large in every loop. `moved` is a lower bound of the cost of packing it once.
static int best_loop(count *c, int o, double moved)
{
    int best = DV_FORM_NEVER;
    double least = DV_NEST_IMPOSSIBLE;
    double loads = dv_nest_count_loads(c, o), each = moved / c->all[o];
    double load = o == DV_OUT ? 0 : dv_nest_load_cost(c, o, loads, 1);
    for (int at = DV_FORM_TOP; at < c->f.n_loops; at++) {
        if (is_useless(c, o, at))
            continue;
        dv_nest_pack_in(c, o, at);
        if (is_too_large(c, o) ||
            (c->upto[at + 1] * c->held[o] * each + load) * DV_NEST_SLACK >=
                least)
            continue;
        double cost = dv_nest_packing_cost(c, o);
        if (cost < least && o != DV_OUT)
            cost += dv_nest_load_cost(c, o, loads, 0);
        if (cost < least) {
            least = cost;
            best = at;
        }
    }
    return best;
}

// The loop found for packing each operand. Valid as long as the same operand
// has the kernel's rows.
typedef struct found {
    int known; // bit mask of the operands whose loop is known
    int at[DV_N_OPERANDS];
} found;

// Returns the loop in which operand o is packed (copied to a contiguous buffer)
// if the operands of set `w` are packed. The loop is found for the set `whole`,
// in which both inputs are packed as well, and then used for all sets, unless o
// is an output whose cost depends on `w`.
static int loop_for(count *c, found *x, dv_nest_packset *whole,
                    dv_nest_packset *w, int o)
{
    if (o == DV_OUT && w) {
        dv_nest_packset_select(c, w);
        if (dv_nest_copies_ahead(c, &w->f))
            return best_loop(c, o, w->moved[o]);
    }
    if (!(x->known >> o & 1)) {
        dv_nest_packset_select(c, whole);
        x->at[o] = best_loop(c, o, whole->moved[o]);
        x->known |= 1 << o;
    }
    return x->at[o];
}

// Returns the part of the cost that does not depend on the loops in which
// operands are packed, and selects `w`, a set of packed operands. Returns
// DV_NEST_IMPOSSIBLE if `w` cannot be run in the required order of additions,
// or if the kernels alone cost at least `most`.
static double fixed_cost(count *c, dv_nest_packset *w, double most)
{
    const dv_nest *n = c->n;
    if (!w ||
        (n->dot && dv_nest_form_is_dot(&w->f) != (n->dot == DV_DOT_ALWAYS)))
        return DV_NEST_IMPOSSIBLE;
    double sum = dv_nest_kernel_cost(c, w);
    if (sum >= most)
        return DV_NEST_IMPOSSIBLE;
    dv_nest_packset_select(c, w);
    return sum + dv_nest_output_cost(c, dv_nest_count_loads(c, DV_OUT), 0) +
           dv_nest_reload_cost(c);
}

// Returns the whole cost if each operand o is packed in loop at[o]. `sum` is
// the part of the cost that does not depend on these loops.
static double whole_cost(count *c, const dv_nest_packset *w, const int at[],
                         double sum, double most)
{
    dv_nest_packset_select(c, w);
    for (int o = 0; o < DV_N_OPERANDS; o++)
        dv_nest_pack_in(c, o, at[o]);
    for (int o = 0; o < DV_N_OPERANDS; o++) {
        if (is_too_large(c, o) || sum >= most)
            return DV_NEST_IMPOSSIBLE;
        sum += dv_nest_packing_cost(c, o) +
               (o == DV_OUT
                    ? 0
                    : dv_nest_load_cost(c, o, dv_nest_count_loads(c, o), 0));
    }
    return sum;
}

// Returns a lower bound of the cost of packing the operands of `w` in this
// order of loops. `sum` is the part of the cost that does not depend on the
// loops in which operands are packed.
static double least_cost(const count *c, const dv_nest_packset *w, double sum)
{
    for (int o = 0; o < DV_N_OPERANDS; o++) {
        sum += w->moved[o];
        if (o != DV_OUT)
            sum += dv_nest_load_cost(c, o, dv_nest_count_loads(c, o),
                                     w->f.pack[o] != DV_FORM_NEVER);
    }
    return sum * DV_NEST_SLACK;
}

// Evaluates the cost of packing the set of operands `packed` and updates *best.
// Returns 0 if the output is in the set, but its buffer is too large in every
// loop.
static int try_packset(count *c, dv_nest_packs *best, found *x,
                       dv_nest_packset *whole, int packed)
{
    dv_nest_packset *w = dv_nest_packset_of(c, packed);
    dv_nest_packs p;
    int really = 0;
    double sum = fixed_cost(c, w, best->cost);
    if (sum < best->cost && least_cost(c, w, sum) >= best->cost)
        sum = DV_NEST_IMPOSSIBLE;
    if (sum >= best->cost && best->cost < DV_NEST_IMPOSSIBLE)
        // If the lower bound reaches the best cost, this set of packed operands
        // is skipped. Nothing is lost, because all smaller sets of packed
        // operands were evaluated before.
        return 1;
    for (int o = DV_N_OPERANDS - 1; o >= 0; o--) {
        p.at[o] =
            packed >> o & 1 ? loop_for(c, x, whole, w, o) : (int)DV_FORM_NEVER;
        if (p.at[o] != DV_FORM_NEVER)
            really |= 1 << o;
        else if (o == DV_OUT && packed >> o & 1)
            return 0;
    }
    // If some operand is too large to be packed in any loop, the set of
    // operands that are really packed is smaller.
    if (really != packed) {
        w = dv_nest_packset_of(c, really);
        sum = fixed_cost(c, w, best->cost);
    }
    if (sum >= best->cost)
        return 1;
    p.cost = whole_cost(c, w, p.at, sum, best->cost);
    if (p.cost < best->cost)
        *best = p;
    return 1;
}

void dv_nest_choose_packs(count *c, dv_nest_packs *best, int was)
{
    enum { INPUTS = 1 << DV_IN0 | 1 << DV_IN1 };
    found x = {0};
    // The operand that has the kernel's rows, for which the loops in x were
    // found.
    int rows = -1;
    for (int out = 0; out <= 1; out++) {
        dv_nest_packset *whole = dv_nest_packset_of(c, INPUTS | out << DV_OUT);
        if (!whole || (was >= 0 && out != (was >> DV_OUT & 1)))
            continue;
        if (rows != whole->f.in_row)
            x.known = 0;
        rows = whole->f.in_row;
        for (int packed = 0; packed <= INPUTS; packed++)
            if ((was < 0 || packed == (was & INPUTS)) &&
                c->least[packed | out << DV_OUT] < best->cost &&
                !try_packset(c, best, &x, whole, packed | out << DV_OUT))
                break;
    }
}

void dv_nest_mark(dv_nest *n, const dv_nest_packs *packs)
{
    n->pack = 0;
    for (int i = 0; i < n->n_dims; i++)
        n->dims[i].pack = 0;
    for (int o = 0; o < DV_N_OPERANDS; o++) {
        int at = packs->at[o];
        uint8_t bit = (uint8_t)(1 << o);
        if (at == DV_FORM_TOP)
            n->pack |= bit;
        else if (at >= 0)
            n->dims[at].pack |= bit;
    }
}

double dv_nest_mark_packs(dv_nest *n, const dv_nest_caches *caches, int keep,
                          double most)
{
    dv_nest_packs best = {{0}, most};
    dv_nest_count c;
    dv_nest_tiles t;
    int bad, was = dv_nest_packed(n);
    if (!dv_nest_tiles_of(n, &t, &bad) ||
        !dv_nest_count_begin(&c, n, caches, &t))
        return DV_NEST_IMPOSSIBLE;
    dv_nest_choose_packs(&c, &best, keep ? was : -1);
    if (best.cost >= most)
        return DV_NEST_IMPOSSIBLE;
    dv_nest_mark(n, &best);
    return best.cost;
}

double dv_nest_cost(const dv_nest *n, const dv_nest_caches *caches)
{
    dv_nest_count c;
    dv_nest_form f;
    dv_nest_tiles t;
    int bad, packed = 0;
    if (dv_nest_form_of(n, &f, NULL) || !dv_nest_tiles_of(n, &t, &bad) ||
        !dv_nest_count_begin(&c, n, caches, &t))
        return DV_NEST_IMPOSSIBLE;
    for (int o = 0; o < DV_N_OPERANDS; o++)
        packed |= (f.pack[o] != DV_FORM_NEVER) << o;
    dv_nest_packset *w = dv_nest_packset_of(&c, packed);
    double sum = fixed_cost(&c, w, DV_NEST_IMPOSSIBLE);
    return sum < DV_NEST_IMPOSSIBLE
               ? whole_cost(&c, w, f.pack, sum, DV_NEST_IMPOSSIBLE)
               : DV_NEST_IMPOSSIBLE;
}
