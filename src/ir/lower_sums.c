// Splits sums of products of three or more factors into sums of two factors, if
// that takes fewer operations:
//
//   y[a,b,k] = sum[i,j] x[i,j,k] * u[a,i] * v[b,j]
//   ->  y_1[a,j,k] = sum[i] x[i,j,k] * u[a,i]      only these depend on i
//       y[a,b,k]   = sum[j] y_1[a,j,k] * v[b,j]
//
//   y[i,j] = sum[k] c[i,j] * a[i,k] * b[k,j]
//   ->  y[i,j] = c[i,j] * (sum[k] a[i,k] * b[k,j])
//
// A temporary is no larger than the largest tensor read or written by the
// statement, or up to 8 times as large if the operation count is at least 64
// times its size. It has the type that the op computes in.
#include "ir/lower.h"

enum { MOST_FACTORS = 16 };

typedef struct product {
    dv_lowering *lw;
    const dv_expr *at[MOST_FACTORS];
    // Mask of variables that each factor depends on.
    uint32_t vars[MOST_FACTORS];
    int n;
    // Masks of the reduced variables, and of all loop variables of the op.
    uint32_t reduced, all;
} product;

// Lists the factors of the product e. Returns 0 if the product must stay as it
// is: it has too many factors, one of them is an integer expression (its mean
// would be rounded to an integer), or one is read through an index tensor.
static int list(product *p, const dv_expr *e)
{
    if (dv_expr_applies(e, DV_FN_MUL))
        return list(p, e->arg[0]) && list(p, e->arg[1]);
    if (p->n == MOST_FACTORS ||
        (e->kind != DV_EXPR_CONST && !dv_lower_is_float(e->dtype)) ||
        (e->kind == DV_EXPR_READ &&
         dv_access_is_indirect(&p->lw->reads[e->read])))
        return 0;
    p->vars[p->n] = dv_lower_free_vars(p->lw, e);
    p->at[p->n++] = e;
    return 1;
}

static double points(const product *p, uint32_t vars)
{
    return dv_op_points_double(&p->lw->work, vars);
}

// Builds the product of the factors in the mask `which`, in their order; NULL
// if the mask is empty.
static dv_status multiply(product *p, uint32_t which, const dv_expr *like,
                          const dv_expr **out)
{
    *out = NULL;
    for (int i = 0; i < p->n; i++) {
        if (!(which >> i & 1))
            continue;
        if (!*out) {
            *out = p->at[i];
            continue;
        }
        dv_expr *both,
            mul = dv_expr_binary(DV_FN_MUL, *out, p->at[i], like->off);
        DV_TRY(dv_lower_expr(p->lw, &mul, &both));
        *out = both;
    }
    return DV_OK;
}

// A candidate for the partial sum that is computed first: a mask of factors of
// the product, and the mask of reduced variables that occur in no other factor.
typedef struct choice {
    uint32_t factors, sum;
    double cost; // points of the loops of the partial and of the remaining sum
} choice;

static uint32_t with_var(const product *p, int v)
{
    uint32_t which = 0;
    for (int i = 0; i < p->n; i++)
        which |= (p->vars[i] >> v & 1) << i;
    return which;
}

static uint32_t vars_of(const product *p, uint32_t which)
{
    uint32_t vars = 0;
    for (int i = 0; i < p->n; i++)
        vars |= which >> i & 1 ? p->vars[i] : 0;
    return vars;
}

// Returns whether the candidate can run as a matrix product that reuses its
// operands: two factors, a sum of at least DV_LOWER_MIN_REUSE (8) terms, and
// each factor used for at least that many results.
static int is_matrix(const product *p, const choice *c)
{
    uint32_t all = vars_of(p, c->factors) & ~c->sum;
    for (int i = 0; i < p->n; i++)
        if (c->factors >> i & 1 &&
            points(p, all & ~p->vars[i]) < DV_LOWER_MIN_REUSE)
            return 0;
    return __builtin_popcount(c->factors) == 2 &&
           points(p, c->sum) >= DV_LOWER_MIN_REUSE;
}

static int is_small(const product *p, uint32_t temp)
{
    enum { MOST_TIMES = 8, OFTEN = 64 };
    double n = points(p, temp), most = points(p, p->all & ~p->reduced);
    for (int i = 0; i < p->n; i++)
        if (points(p, p->vars[i]) > most)
            most = points(p, p->vars[i]);
    return n <= most ||
           (n <= MOST_TIMES * most && n <= points(p, p->all) / OFTEN);
}

static int choose(const product *p, choice *best)
{
    double all = points(p, p->all);
    uint32_t every = 0;
    *best = (choice){0};
    for (int i = 0; i < p->n; i++)
        every |= (uint32_t)(p->vars[i] != 0) << i;
    for (int v = 0; v < p->lw->work.n_vars; v++) {
        choice c = {.factors = with_var(p, v)};
        if (!(p->reduced >> v & 1) || c.factors == every || !c.factors)
            continue;
        for (int u = 0; u < p->lw->work.n_vars; u++)
            if (p->reduced >> u & 1 && !(with_var(p, u) & ~c.factors))
                c.sum |= 1u << u;
        uint32_t inside = vars_of(p, c.factors);
        double rest = points(p, p->all & ~c.sum);
        c.cost = points(p, inside) + rest;
        int less = c.cost <= all / 2 || (is_matrix(p, &c) && rest <= all / 4);
        if (less && is_small(p, inside & ~c.sum) &&
            (!best->factors || c.cost < best->cost))
            *best = c;
    }
    return best->factors != 0;
}

static dv_status sum_first(product *p, const choice *c, const dv_expr *like)
{
    dv_expr *e, sum = {.kind = DV_EXPR_REDUCE,
                       .fn = DV_RED_SUM,
                       .n_args = 1,
                       .off = like->off};
    const dv_expr *body, *outside, *read;
    uint32_t vars = c->sum;
    int n = 0, is_there = 0;
    DV_TRY(multiply(p, c->factors, like, &body));
    uint32_t all = vars_of(p, c->factors);
    DV_TRY(dv_lower_split(p->lw, DV_RED_SUM, &body, &vars, all, &outside));
    all &= ~(c->sum & ~vars);
    DV_TRY(dv_lower_factors(p->lw, body, all, &body));
    DV_TRY(dv_lower_reverse_factors(p->lw, &body, vars, all));
    sum.vars = vars;
    sum.arg[0] = body;
    sum.dtype = dv_expr_type(&sum);
    DV_TRY(dv_lower_expr(p->lw, &sum, &e));
    DV_TRY(dv_lower_hoist_wide(p->lw, e, &read));
    for (int i = 0; i < p->n; i++) {
        int first = c->factors >> i & 1 && !is_there;
        if (c->factors >> i & 1 && !first)
            continue;
        is_there |= first;
        p->at[n] = first ? read : p->at[i];
        p->vars[n] = first ? dv_lower_free_vars(p->lw, read) : p->vars[i];
        n++;
    }
    p->n = n;
    p->all &= ~c->sum;
    p->reduced &= ~c->sum;
    return DV_OK;
}

// Returns the mask of factors that depend on no reduced variable and can be
// multiplied after the sum. The mask is empty unless at least two factors
// remain inside, so that the sum stays a sum of products.
static uint32_t find_outside(const product *p)
{
    uint32_t which = 0;
    int inside = 0;
    for (int i = 0; i < p->n; i++) {
        which |= (uint32_t)(p->vars[i] && !(p->vars[i] & p->reduced)) << i;
        inside += (p->vars[i] & p->reduced) != 0;
    }
    return inside >= 2 ? which : 0;
}

static void leave_out(product *p, uint32_t which)
{
    int n = 0;
    for (int i = 0; i < p->n; i++)
        if (!(which >> i & 1)) {
            p->vars[n] = p->vars[i];
            p->at[n++] = p->at[i];
        }
    p->n = n;
    p->all = vars_of(p, UINT32_MAX) | p->reduced;
}

dv_status dv_lower_split(dv_lowering *lw, dv_reducer reducer,
                         const dv_expr **body, uint32_t *reduced, uint32_t all,
                         const dv_expr **outside)
{
    product p = {.lw = lw, .reduced = *reduced, .all = all};
    const dv_expr *like = *body;
    int with_vars = 0;
    choice c;
    *outside = NULL;
    if (lw->work.is_extern || !dv_lower_is_float(like->dtype) ||
        !list(&p, like))
        return DV_OK;
    for (int i = 0; i < p.n; i++)
        with_vars += p.vars[i] != 0;
    if (with_vars < 3)
        return DV_OK;
    uint32_t which = find_outside(&p);
    DV_TRY(multiply(&p, which, like, outside));
    leave_out(&p, which);
    while (reducer == DV_RED_SUM && choose(&p, &c))
        DV_TRY(sum_first(&p, &c, like));
    int same = !which && p.reduced == *reduced;
    *reduced = p.reduced;
    return same ? DV_OK : multiply(&p, UINT32_MAX, like, body);
}
