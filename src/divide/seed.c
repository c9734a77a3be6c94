// The planner `seed` divides as Torch-Spyre does: first the cuts that the span
// limit requires, tensor by tensor from the outermost dimension in; then, for a
// matmul, a fitted cost model; then the remaining cores are distributed by
// decreasing size.
//
// It exists for comparison and keeps Torch-Spyre's rules: only divisors, a
// variable cut for the span limit is never cut further, and at most one
// reduction variable is cut.
#include "base/math.h"
#include "base/plural.h"
#include "divide/divide.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct seed {
    const dv_divide_space *s;
    const dv_divide_request *r;
    dv_diag *diag;
    dv_splits acc;      // slices of each variable so far
    uint32_t committed; // bit mask of variables that are decided
} seed;

static int fits(const seed *d, int64_t span)
{
    return d->r->span_limit_bytes == 0 || span <= d->r->span_limit_bytes;
}

// The best way found to cut one dim of a tensor's layout so that the span limit
// holds. The span is the bytes from the first to the last one that a core
// accesses; the best has the widest span within the limit, or else the
// narrowest one above it.
typedef struct search {
    int tensor;
    int vars[DV_MAX_VARS], n_vars;
    dv_splits best;
    int64_t best_span;
    int within, found;
} search;

static void consider(const seed *d, search *se, const dv_splits *trial)
{
    if (dv_splits_cores(d->s, trial) > d->r->cores)
        return;
    int64_t span = dv_span(d->s, se->tensor, trial, 1);
    int within = fits(d, span);
    int better = !se->found || (within && !se->within) ||
                 (within == se->within &&
                  (within ? span > se->best_span : span < se->best_span));
    if (!better)
        return;
    se->found = 1;
    se->within = within;
    se->best = *trial;
    se->best_span = span;
}

static int64_t options_of(const dv_divide_space *s, int v)
{
    return s->stick_vars >> v & 1 ? s->units[v] : s->extent[v];
}

static void combine(const seed *d, search *se, int i, dv_splits *trial)
{
    if (i == se->n_vars) {
        consider(d, se, trial);
        return;
    }
    int v = se->vars[i];
    int64_t size = options_of(d->s, v), least = d->acc.n[v];
    for (int64_t n = least; n <= size && n <= d->r->cores; n++) {
        if (size % n)
            continue;
        trial->n[v] = n;
        combine(d, se, i + 1, trial);
    }
    trial->n[v] = least;
}

static void vars_of_dim(const dv_divide_space *s, int tensor, int32_t dim,
                        search *se)
{
    const dv_coords *c = s->coords[tensor];
    *se = (search){.tensor = tensor};
    for (int32_t k = c->first[dim]; k < c->first[dim + 1]; k++)
        if (c->terms[k].var >= 0 && s->extent[c->terms[k].var] > 1 &&
            !s->has_irregular_access && !(s->blocked >> c->terms[k].var & 1))
            se->vars[se->n_vars++] = c->terms[k].var;
}

static dv_status no_divisor(const seed *d, const search *se)
{
    for (int i = 0; i < se->n_vars; i++) {
        int v = se->vars[i];
        int64_t size = options_of(d->s, v);
        if (dv_largest_divisor(size, size) < d->acc.n[v])
            return dv_fail(d->diag, DV_E_CAPACITY, d->r->at,
                           "%s: %s has no divisor of %" PRId64 " from %" PRId64
                           " up, which an earlier tensor "
                           "needs",
                           d->s->op->name, d->s->op->vars[v].name, size,
                           d->acc.n[v]);
    }
    return DV_OK;
}

// Returns the number of positions along dim `dim` of a tensor's layout that a
// core accesses with the slices decided so far.
static int64_t positions(const seed *d, int tensor, int32_t dim)
{
    const dv_coords *c = d->s->coords[tensor];
    int64_t n = 1;
    for (int32_t k = c->first[dim]; k < c->first[dim + 1]; k++) {
        const dv_layout_term *t = &c->terms[k];
        if (t->var < 0)
            continue;
        int64_t len = dv_max_i64(1, d->s->extent[t->var] / d->acc.n[t->var]);
        n += dv_term_at(t, len - 1) - dv_term_at(t, 0);
    }
    return n;
}

static dv_status cut_tensor(seed *d, int tensor)
{
    const dv_divide_space *s = d->s;
    const dv_layout *l = s->layouts[tensor];
    for (int32_t dim = 0; dim < l->n_dims - l->n_inner; dim++) {
        search se;
        vars_of_dim(s, tensor, dim, &se);
        if (se.n_vars == 0)
            continue;
        DV_TRY(no_divisor(d, &se));
        dv_splits trial = d->acc;
        combine(d, &se, 0, &trial);
        if (!se.found)
            return DV_OK;
        d->acc = se.best;
        for (int i = 0; i < se.n_vars; i++)
            d->committed |= d->acc.n[se.vars[i]] > 1 ? 1u << se.vars[i] : 0;
        if (fits(d, dv_span(s, tensor, &d->acc, 1)) ||
            positions(d, tensor, dim) > 1)
            return DV_OK;
    }
    return DV_OK;
}

static dv_status cut_for_span_limit(seed *d)
{
    const dv_divide_space *s = d->s;
    for (int i = 0; i < s->n_tensors; i++)
        if (s->coords[i] && !fits(d, dv_span(s, i, &d->acc, 1)))
            DV_TRY(cut_tensor(d, i));
    return DV_OK;
}

static dv_status pin(seed *d)
{
    for (int i = 0; i < d->r->n_pins; i++) {
        int v = d->r->pins[i].var;
        int64_t n = d->r->pins[i].n;
        const char *name = d->s->op->vars[v].name;
        if (n < 1 || options_of(d->s, v) % n)
            return dv_fail(d->diag, DV_E_CAPACITY, d->r->at,
                           "%s: %s is pinned to %" PRId64
                           " slices, which does not divide its %" PRId64,
                           d->s->op->name, name, n, options_of(d->s, v));
        if (d->s->blocked >> v & 1 && n > 1)
            return dv_fail(d->diag, DV_E_CAPACITY, d->r->at,
                           "%s: %s is pinned to %" PRId64
                           " slices but may not be cut: %s",
                           d->s->op->name, name, n, d->s->why[v]);
        if (d->committed >> v & 1 && d->acc.n[v] > n)
            return dv_fail(d->diag, DV_E_CAPACITY, d->r->at,
                           "%s: %s is pinned to %" PRId64
                           " slices, the span limit needs %" PRId64,
                           d->s->op->name, name, n, d->acc.n[v]);
        d->acc.n[v] = n;
        d->committed |= 1u << v;
    }
    int64_t slices = dv_splits_cores(d->s, &d->acc);
    if (d->r->n_pins && slices > d->r->cores)
        return dv_fail(d->diag, DV_E_CAPACITY, d->r->at,
                       "%s: the pins make %" PRId64
                       " slice%s, the target has %" PRId64 " core%s",
                       d->s->op->name, slices, DV_PLURAL(slices, "", "s"),
                       d->r->cores, DV_PLURAL(d->r->cores, "", "s"));
    return DV_OK;
}

static dv_status one_reduced(const seed *d)
{
    int cut = 0;
    for (int v = 0; v < d->s->n_vars; v++)
        cut += d->s->reduced >> v & 1 && d->acc.n[v] > 1;
    if (cut <= 1)
        return DV_OK;
    return dv_fail(d->diag, DV_E_CAPACITY, d->r->at,
                   "%s: the span limit of %" PRId64
                   " bytes needs %d reduced variables cut, one can be",
                   d->s->op->name, d->r->span_limit_bytes, cut);
}

// Lists the variables in the bit set `mask` by decreasing extent; ties keep
// their order. Returns their number.
static int by_size(const dv_divide_space *s, uint32_t mask, int *list)
{
    int n = 0;
    for (int v = 0; v < s->n_vars; v++) {
        if (!(mask >> v & 1))
            continue;
        int k = n++;
        for (; k > 0 && s->units[list[k - 1]] < s->units[v]; k--)
            list[k] = list[k - 1];
        list[k] = v;
    }
    return n;
}

static void distribute(const seed *d, dv_splits *out)
{
    const dv_divide_space *s = d->s;
    int list[DV_MAX_VARS], n;
    uint32_t all = s->n_vars >= 32 ? UINT32_MAX : (1u << s->n_vars) - 1;
    uint32_t free =
        s->has_irregular_access ? 0 : all & ~d->committed & ~s->blocked;
    int64_t left = d->r->cores;
    for (int v = 0; v < s->n_vars; v++)
        out->n[v] = 1;
    for (int v = 0; v < s->n_vars; v++) {
        if (!(d->committed >> v & 1) || left / d->acc.n[v] <= 0)
            continue;
        out->n[v] = d->acc.n[v];
        left /= d->acc.n[v];
    }
    n = by_size(s, free & s->outputs, list);
    for (int i = 0; i < n && left > 1; i++) {
        out->n[list[i]] = dv_largest_divisor(s->units[list[i]], left);
        left /= out->n[list[i]];
    }
    if (left <= 1 || (d->committed & ~s->outputs))
        return;
    int64_t best = 1;
    int best_var = -1;
    n = by_size(s, free & ~s->outputs, list);
    for (int i = 0; i < n; i++) {
        int64_t k = dv_largest_divisor(s->units[list[i]], left);
        if (k > best) {
            best = k;
            best_var = list[i];
        }
    }
    if (best_var >= 0)
        out->n[best_var] = best;
}

static double log2_up(double x)
{
    return x > 1 ? log2(x) : 0;
}

// Returns Torch-Spyre's estimate of the time of a matrix product in
// microseconds, a fit of measured times: multiply-adds at 1.536e6 per us and
// core, memory at 204800 bytes per us, and penalties for unsuitable tile
// shapes. b, m, n and k are the numbers of slices of batch, rows, columns and
// reduced dimension.
double dv_matmul_cost(const dv_matmul *mm, int64_t b, int64_t m, int64_t n,
                      int64_t k, int64_t cores)
{
    double B = (double)mm->b, M = (double)mm->m, N = (double)mm->n,
           K = (double)mm->k;
    double m_t = (double)(mm->m / m), n_t = (double)(mm->n / n);
    double used = (double)(b * m * n * k), dm = (double)m, dn = (double)n;
    double rows = fmax(1, m_t / 8) / 5;
    double eff = fmin(1, pow(rows, 0.25));
    double cost = B * M * N * K / used / (1.536e6 * eff);
    double fan = mm->shared ? fmax(dm, dn) : dn;
    double bytes = 2 * (B * M * K + (mm->shared ? 1 : B) * K * N + B * M * N);
    cost += bytes / 204800 * fmax(1, pow(fan / 8, 0.75));
    cost += (double)(k - 1) * B * M * N / (double)(b * m * n) *
            (mm->shared ? 1e-3 : 1e-4);
    double lanes =
        fmax(4, fmin((double)(cores / 2), fmax(1, (double)(mm->m / 32))));
    cost += 10 * log2_up(lanes / dm);
    cost += 30 * log2_up(16 / m_t);
    cost += 25 * log2_up(n_t / 512);
    if (!mm->shared && n > 1 && m_t >= 16)
        cost += 20 * log2_up(K / N) * log2(dn);
    if (mm->shared && m_t >= 16)
        cost += 5 * log2_up(4096 / N) * log2_up(n_t / 128);
    if (mm->shared && n > 1)
        cost += 10 * log2_up(K / N) * log2(dn);
    cost += 150 * log2_up((double)cores / used);
    if (!mm->shared)
        cost += 10 * log2((double)b);
    return cost;
}

// Which variables of the op are the batch, rows (m), columns (n) and reduced
// dimension (k) of a matrix product to which Torch-Spyre's cost model applies.
typedef struct roles {
    int batch[DV_MAX_VARS], n_batch;
    int m, n, k;
    dv_matmul mm;
} roles;

static uint32_t vars_of(const dv_divide_space *s, int access)
{
    return dv_access_vars(s->op, dv_op_access(s->op, access));
}

static int find_roles(const dv_divide_space *s, roles *r)
{
    if (dv_op_kind(s->op) != DV_KIND_CONTRACTION || s->op->n_reads != 2)
        return 0;
    uint32_t in0 = vars_of(s, 0), in1 = vars_of(s, 1);
    const dv_tensor *t = s->tensors[s->n_tensors - 1];
    int64_t rows[DV_MAX_DIMS], step[DV_MAX_VARS]; // strides of the result
    int n_k = 0, n_n = 0, n_m = 0;
    dv_row_strides(t->n_dims, t->shape, rows);
    dv_access_flatten(s->op, &s->op->write, rows, step);
    r->m = r->n = r->k = -1;
    r->n_batch = 0;
    for (int v = 0; v < s->n_vars; v++) {
        if (s->reduced >> v & 1) {
            r->k = v;
            n_k++;
        } else if (s->stick_vars >> v & 1) {
            r->n = v;
            n_n++;
        }
    }
    for (int v = 0; v < s->n_vars; v++) {
        if (v == r->n || (s->reduced >> v & 1) || s->extent[v] == 1 ||
            !((in0 ^ in1) >> v & 1))
            continue;
        if (n_m++ == 0 || step[v] < step[r->m])
            r->m = v;
    }
    if (n_k != 1 || n_n != 1 || n_m == 0)
        return 0;
    r->mm = (dv_matmul){.b = 1, .m = s->extent[r->m]};
    for (int v = 0; v < s->n_vars; v++) {
        if (v == r->m || v == r->n || v == r->k)
            continue;
        r->batch[r->n_batch++] = v;
        r->mm.b *= s->extent[v];
    }
    r->mm.n = s->units[r->n] * s->eps[r->n];
    r->mm.k = s->units[r->k] * s->eps[r->k];
    r->mm.shared = n_m > 1 || r->n_batch == 0;
    return 1;
}

typedef struct cheapest {
    const seed *d;
    const roles *r;
    dv_splits best;
    double cost;
    int found;
} cheapest;

// With the batch of a matrix product cut into b slices, tries all numbers of
// slices of its rows m, columns n and reduced dimension k in ascending order;
// the first of the cheapest wins.
static void try_rest(cheapest *c, dv_splits *t, int64_t b)
{
    const dv_divide_space *s = c->d->s;
    const roles *r = c->r;
    int64_t cores = c->d->r->cores;
    for (int64_t m = 1; m <= s->extent[r->m] && b * m <= cores; m++) {
        if (s->extent[r->m] % m)
            continue;
        for (int64_t n = 1; n <= s->units[r->n] && b * m * n <= cores; n++) {
            if (s->units[r->n] % n)
                continue;
            for (int64_t k = 1; k <= s->units[r->k] && b * m * n * k <= cores;
                 k++) {
                if (s->units[r->k] % k)
                    continue;
                double cost = dv_matmul_cost(&r->mm, b, m, n, k, cores);
                if (c->found && !(cost < c->cost))
                    continue;
                t->n[r->m] = m;
                t->n[r->n] = n;
                t->n[r->k] = k;
                c->found = 1;
                c->cost = cost;
                c->best = *t;
            }
        }
    }
}

static void try_batch(cheapest *c, dv_splits *t, int i, int64_t b)
{
    if (i == c->r->n_batch) {
        try_rest(c, t, b);
        return;
    }
    int v = c->r->batch[i];
    for (int64_t n = 1; n <= c->d->s->extent[v] && b * n <= c->d->r->cores;
         n++) {
        if (c->d->s->extent[v] % n)
            continue;
        t->n[v] = n;
        try_batch(c, t, i + 1, b * n);
    }
    t->n[v] = 1;
}

// Replaces the division of a matrix product by the choice of Torch-Spyre's cost
// model, if that choice keeps at least as many cores busy and differs from the
// division so far.
static void try_matmul_model(const seed *d, dv_divided *out)
{
    roles r;
    if (d->committed || d->s->has_irregular_access || !find_roles(d->s, &r))
        return;
    cheapest c = {.d = d, .r = &r};
    dv_splits t;
    for (int v = 0; v < d->s->n_vars; v++)
        t.n[v] = 1;
    try_batch(&c, &t, 0, 1);
    if (!c.found ||
        dv_splits_cores(d->s, &c.best) < dv_splits_cores(d->s, &out->splits))
        return;
    if (memcmp(&c.best, &out->splits,
               (size_t)d->s->n_vars * sizeof c.best.n[0]) == 0)
        return;
    for (int v = 0; v < d->s->n_vars; v++)
        if (c.best.n[v] > 1 && (d->s->blocked >> v & 1))
            return;
    out->splits = c.best;
    out->claimed = 1;
}

static dv_status check_spans(const seed *d, const dv_splits *splits)
{
    for (int i = 0; i < d->s->n_tensors; i++) {
        int64_t span = dv_span(d->s, i, splits, 1);
        if (!fits(d, span))
            return dv_fail(d->diag, DV_E_CAPACITY, d->r->at,
                           "%s: a core would reach %" PRId64
                           " bytes of %s, the limit is %" PRId64 " (%" PRId64
                           " over), and no division into whole "
                           "equal slices for %" PRId64 " cores helps",
                           d->s->op->name, span, d->s->tensors[i]->name,
                           d->r->span_limit_bytes,
                           span - d->r->span_limit_bytes, d->r->cores);
    }
    return DV_OK;
}

dv_status dv_divide_seed(dv_divided *out, const dv_divide_space *s,
                         const dv_divide_request *r, dv_diag *diag)
{
    seed d = {.s = s, .r = r, .diag = diag};
    dv_divided result = {.cost_us = -1, .runner_up_us = -1};
    for (int v = 0; v < DV_MAX_VARS; v++)
        d.acc.n[v] = result.splits.n[v] = 1;
    DV_TRY(cut_for_span_limit(&d));
    result.forced = d.acc;
    DV_TRY(pin(&d));
    DV_TRY(one_reduced(&d));
    if (r->span_only)
        result.splits = d.acc;
    else
        distribute(&d, &result.splits);
    if (r->cost)
        try_matmul_model(&d, &result);
    DV_TRY(check_spans(&d, &result.splits));
    *out = result;
    return DV_OK;
}
