// Chooses the grid of ranks: the one with the fewest bytes to move among the
// grids that balance the work.
#include "dist/dist.h"
#include <inttypes.h>
#include <math.h>

// Picks up to three coordinates of an axis of n ranks to estimate costs: both
// ends, and a middle one weighted for all coordinates between them. Returns
// their number.
static int samples(int64_t n, int64_t at[3], double weight[3])
{
    at[0] = 0, at[1] = n - 1, at[2] = n / 2;
    weight[0] = weight[1] = 1;
    weight[2] = (double)(n - 2);
    return n < 2 ? 1 : n == 2 ? 2 : 3;
}

// Returns the number of elements of a tensor that a rank must receive for an
// op, estimated by the bounding box of all that the op reads of it.
static double lacks(const dv_plan_team *t, const dv_program *p, int32_t op,
                    int first_read, int64_t rank, const dv_iter_space *s)
{
    const dv_op *o = &p->ops[op];
    int32_t tensor = o->reads[first_read].tensor;
    dv_box own = dv_dist_own(&t->tensors[tensor], rank);
    dv_box all = dv_access_box(p, o, &o->reads[first_read], s);
    for (int r = first_read + 1; r < o->n_reads; r++)
        if (o->reads[r].tensor == tensor) {
            dv_box b = dv_access_box(p, o, &o->reads[r], s);
            all = dv_box_hull(&all, &b);
        }
    dv_box both = dv_box_inner(&all, &own);
    return (double)dv_box_elems(&all) - (double)dv_box_elems(&both);
}

static int seen_before(const dv_op *op, int read)
{
    for (int r = 0; r < read; r++)
        if (op->reads[r].tensor == op->reads[read].tensor)
            return 1;
    return 0;
}

static double rank_cost(const dv_plan_team *t, const dv_program *p, int32_t op,
                        int64_t rank)
{
    const dv_op *o = &p->ops[op];
    dv_axis_binding binds[DV_MAX_AXES];
    dv_iter_space s;
    double bytes = 0, parts = 1;
    if (!dv_team_target(&s, p, t, op, rank))
        return 0;
    for (int r = 0; r < o->n_reads; r++)
        if (!seen_before(o, r))
            bytes += lacks(t, p, op, r, rank, &s) *
                     (double)dv_elem_bytes(p, o->reads[r].tensor);
    dv_team_binds(binds, p, t, op);
    for (int a = 0; a < t->n_axes; a++)
        parts *= binds[a].d && binds[a].reduced ? (double)t->grid[a] : 1;
    double results = 1;
    for (int v = 0; v < o->n_vars; v++)
        results *= o->vars[v].reduce ? 1 : (double)(s.end[v] - s.begin[v]);
    if (parts > 1) // add the least bytes that an all-reduce moves per rank
        bytes += 2 * results * (double)dv_op_partial_bytes(p, o) * (parts - 1) /
                 parts;
    return bytes;
}

double dv_op_cost(const dv_plan_team *t, const dv_program *p, int32_t op)
{
    int64_t at[DV_MAX_AXES][3], coords[DV_MAX_AXES];
    double weight[DV_MAX_AXES][3], sum = 0;
    int n[DV_MAX_AXES], k[DV_MAX_AXES] = {0};
    for (int a = 0; a < t->n_axes; a++)
        n[a] = samples(t->grid[a], at[a], weight[a]);
    for (int more = 1; more;) {
        double w = 1;
        for (int a = 0; a < t->n_axes; a++) {
            coords[a] = at[a][k[a]];
            w *= weight[a][k[a]];
        }
        sum +=
            w * rank_cost(t, p, op, dv_grid_rank(coords, t->grid, t->n_axes));
        more = 0;
        for (int a = t->n_axes - 1; a >= 0 && !more; a--) {
            more = ++k[a] < n[a];
            if (!more)
                k[a] = 0;
        }
    }
    return sum;
}

static double team_cost(const dv_plan_team *t, const dv_program *p)
{
    double sum = 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        double times = 1;
        for (int32_t r = 0; r < p->n_repeats; r++)
            if (i >= p->repeats[r].first_op && i < p->repeats[r].end_op)
                times *= (double)p->repeats[r].times;
        if (times > 0)
            sum += times * dv_op_cost(t, p, i);
    }
    return sum;
}

enum { MAX_DIVISORS = 2048 };

typedef struct search {
    dv_plan_team *t;
    const dv_dim_classes *a;
    const dv_program *p;
    dv_diag *diag;
    // Smallest dv_team_weight (largest part of a rank) of all grids.
    double least_weight;
    double best_cost, best_weight;
    int64_t best[DV_MAX_AXES];
    int found, weigh; // weigh is 1 while least_weight is computed, then 0
} search;

static dv_status try_grid(search *s)
{
    dv_arena arena = {0};
    dv_status st = dv_team_choose(s->t, s->a, s->p, 1, &arena, s->diag);
    double weight = st == DV_OK ? dv_team_weight(s->t, s->a, s->p) : 0;
    if (st == DV_OK && s->weigh) {
        s->least_weight = fmin(s->least_weight, weight);
    } else if (st == DV_OK && weight <= 1.5 * s->least_weight) {
        double cost = team_cost(s->t, s->p);
        if (!s->found || cost < s->best_cost ||
            (cost == s->best_cost && weight < s->best_weight)) {
            s->found = 1;
            s->best_cost = cost;
            s->best_weight = weight;
            for (int a = 0; a < s->t->n_axes; a++)
                s->best[a] = s->t->grid[a];
        }
    }
    dv_arena_free(&arena);
    s->t->tensors = NULL;
    s->t->follows = NULL;
    return st;
}

// Tries all grids with the given number of axes. Those with a long axis 0 come
// first, because cuts along it keep rows contiguous in memory, and the first of
// equally good grids is taken.
static dv_status try_all(search *s, const int64_t *divisors, int n,
                         int64_t size)
{
    int64_t *grid = s->t->grid;
    int axes = s->t->n_axes;
    for (int i = n - 1; i >= 0; i--) {
        grid[0] = divisors[i];
        int64_t rest = size / grid[0];
        if (axes == 1 && rest != 1)
            continue;
        for (int k = n - 1; k >= 0; k--) {
            if (axes > 1 && rest % divisors[k])
                continue;
            if (axes > 1)
                grid[1] = divisors[k];
            if (axes > 2)
                grid[2] = rest / grid[1];
            else if (axes == 2 && grid[1] != rest)
                continue;
            DV_TRY(try_grid(s));
            if (axes == 1)
                break;
        }
    }
    return DV_OK;
}

dv_status dv_team_grid(dv_plan_team *t, const dv_dim_classes *a,
                       const dv_program *p, int64_t size, dv_diag *diag)
{
    int64_t divisors[MAX_DIVISORS];
    int n = 0;
    search s = {.t = t, .a = a, .p = p, .diag = diag};
    s.least_weight = INFINITY;
    for (int64_t d = 1; d * d <= size; d++)
        if (size % d == 0 && n + 2 <= MAX_DIVISORS) {
            divisors[n++] = d;
            if (d * d != size)
                divisors[n++] = size / d;
        }
    for (int i = 1; i < n; i++) // insertion sort, ascending
        for (int k = i; k > 0 && divisors[k - 1] > divisors[k]; k--) {
            int64_t x = divisors[k];
            divisors[k] = divisors[k - 1];
            divisors[k - 1] = x;
        }
    t->n_axes = dv_dim_classes_axes(a, p);
    for (s.weigh = 1; s.weigh >= 0; s.weigh--)
        DV_TRY(try_all(&s, divisors, n, size));
    for (int k = 0; k < t->n_axes; k++)
        t->grid[k] = s.best[k];
    return DV_OK;
}
