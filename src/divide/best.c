// The planner `best`: predicts the cost of every division that the limits allow
// and takes the cheapest. Slices need not be equal: a variable of u units cut
// into slices of l units has ceil(u / l) slices, the last of which may be
// shorter.
//
//   67 rows, 4 sticks, 32 cores: rows in slices of 9 (8 of them) times sticks
//   one by one (4): 32 cores busy, where divisors allow only 4
//
// Candidates are, for every variable, all slice lengths that give different
// numbers of slices, with a product of at most `cores`. Of divisions that take
// equally long the one with the least traffic of main memory is taken, then the
// one with the fewest partial results, then the one whose busiest core computes
// least, then the one on fewer cores. On the host ties are broken by fewer
// bytes of cache lines, then by fewer cores, then by cutting outer variables.
// The choice is deterministic. The run time is the number of candidates times
// the number of tensors.
//
// If the span limit allows no division with at most `cores` tiles, the op runs
// in rounds: each core computes several tiles one after another, with about as
// few rounds as possible. On the host, so does an op whose pins ask for more
// tiles than there are threads.
#include "base/math.h"
#include "base/plural.h"
#include "divide/divide.h"
#include <inttypes.h>
#include <math.h>

enum { MAX_ROUNDS = 64 };

// The quantities by which two divisions of an op into slices are compared.
typedef struct candidate {
    double cost;       // predicted time in microseconds
    double bytes;      // traffic of main memory
    double compute_us; // of the core with the most work
    int64_t cores, partials;
} candidate;

// A list of the n divisions with the smallest keys, sorted by key; it has room
// for `most`.
typedef struct menu {
    dv_splits *list;
    double *keys;
    int n, most;
} menu;

typedef struct best {
    const dv_divide_space *s;
    const dv_target *t;
    const dv_divide_request *r;
    dv_splits now, found;
    candidate best; // of the division `found`
    double runner_cost;
    dv_splits runner;
    int64_t candidates, over_span;
    // Number of tiles that each core may compute, one after another: 1, unless
    // a limit or the user asks for more tiles than cores.
    int64_t rounds;
    int any;
    // The division closest to being legal, for the message if none is: the one
    // that exceeds the span limit (on the bytes between the first and the last
    // one that a core accesses of a tensor) by the least, and by how much.
    int64_t over;
    int over_tensor;
    dv_splits closest_illegal;
    menu *menu;        // where all divisions are entered, or NULL
    int packs_windows; // 1 if a thread of this machine packs reads as windows
} best;

// Returns the number of elements of the longest slice when variable v is cut
// into n slices of whole units (groups of elements that may not be separated).
static int64_t longest(const dv_divide_space *s, int v, int64_t n)
{
    // Most variables are not cut, and then no integer division is needed,
    // which would take as long as the rest of this function.
    return (n == 1 ? s->units[v] : dv_ceil_div(s->units[v], n)) * s->eps[v];
}

// Returns the number of positions of tensor i, along dim `dim` of its layout in
// memory, that the core with the longest slices accesses.
static int64_t along(const dv_divide_space *s, int i, const dv_splits *d,
                     int32_t dim)
{
    const dv_layout *l = s->layouts[i];
    const dv_coords *c = s->coords[i];
    int64_t n = 1;
    if (dim >= l->n_dims - l->n_inner)
        return l->size[dim];
    for (int32_t k = c->first[dim]; k < c->first[dim + 1]; k++) {
        const dv_layout_term *t = &c->terms[k];
        if (t->var < 0)
            continue;
        int64_t len =
            dv_min_i64(longest(s, t->var, d->n[t->var]), s->extent[t->var]);
        n += dv_term_at(t, len - 1) - dv_term_at(t, 0);
    }
    return dv_min_i64(n, l->size[dim]);
}

double dv_divide_transferred(const dv_divide_space *s, int i,
                             const dv_splits *d)
{
    const dv_layout *l = s->layouts[i];
    int64_t piece = l->elem_bytes;
    int32_t dim = l->n_dims;
    int whole = 1;
    if (!s->coords[i])
        return (double)l->bytes;
    while (dim > 0 && whole) {
        int64_t here = along(s, i, d, --dim);
        whole = here == l->size[dim];
        piece *= here;
    }
    double n = ceil((double)piece / (double)s->line) * (double)s->line;
    while (dim > 0)
        n *= (double)along(s, i, d, --dim);
    return n;
}

// Returns the bit mask of the variables that the position in memory of tensor i
// depends on.
static uint32_t vars_of(const dv_divide_space *s, int i)
{
    const dv_coords *c = s->coords[i];
    uint32_t vars = 0;
    for (int32_t k = 0; k < c->first[s->layouts[i]->n_dims]; k++)
        if (c->terms[k].var >= 0)
            vars |= 1u << c->terms[k].var;
    return vars;
}

double dv_divide_transferred_by_all(const dv_divide_space *s, int i,
                                    const dv_splits *d)
{
    if (!s->coords[i])
        return (double)s->layouts[i]->bytes;
    uint32_t vars = vars_of(s, i);
    double all = 1, largest = 1, alike = 1;
    int is_write = i == s->n_tensors - 1;
    for (int v = 0; v < s->n_vars; v++) {
        // The slices of a variable that the tensor depends on add up to its
        // extent, even if the last one is shorter. Slices of other variables
        // transfer the same elements again, except that partial results are
        // written once, when complete.
        if (vars >> v & 1) {
            all *= (double)s->units[v];
            largest *= (double)dv_ceil_div(s->units[v], d->n[v]);
        } else if (is_write ? !(s->reduced >> v & 1) : !s->shares) {
            all *= (double)d->n[v];
        } else if (!is_write) {
            alike *= (double)d->n[v];
        }
    }
    // Each ring reads from main memory once what its cores share.
    all *= alike < (double)s->shares ? alike : (double)dv_max_i64(s->shares, 1);
    return dv_divide_transferred(s, i, d) * all / largest;
}

double dv_divide_passed(const dv_divide_space *s, int i, const dv_splits *d)
{
    if (!s->shares || !s->coords[i] || i == s->n_tensors - 1)
        return 0;
    uint32_t vars = vars_of(s, i);
    for (int v = 0; v < s->n_vars; v++)
        if (!(vars >> v & 1) && d->n[v] > 1)
            return dv_divide_transferred_by_all(s, i, d) / (double)s->shares;
    return 0;
}

dv_cost_work dv_divide_work(const dv_divide_space *s, const dv_target *t,
                            const dv_splits *d)
{
    dv_cost_work w = {.partials = 1};
    double points = 1, results = 1;
    for (int v = 0; v < s->n_vars; v++) {
        double len = (double)longest(s, v, d->n[v]);
        points *= len;
        if (s->reduced >> v & 1)
            w.partials *= d->n[v];
        else
            results *= len;
    }
    if (dv_op_kind(s->op) == DV_KIND_CONTRACTION)
        w.macs = points;
    else
        w.ops = points;
    int64_t tiles = dv_splits_cores(s, d);
    double rounds = (double)dv_ceil_div(tiles, t->cores);
    for (int i = 0; i < s->n_tensors; i++) {
        w.memory_bytes += dv_divide_transferred(s, i, d);
        w.all_bytes += dv_divide_transferred_by_all(s, i, d) / rounds;
        w.passed_bytes += dv_divide_passed(s, i, d) / rounds;
    }
    w.partial_bytes = results * 4; // partial results are f32: 4 bytes each
    w.combined = dv_ceil_div(dv_min_i64(tiles, t->cores), w.partials);
    return w;
}

double dv_divide_cost(const dv_divide_space *s, const dv_target *t,
                      const dv_splits *d)
{
    dv_cost_work w = dv_divide_work(s, t, d);
    return dv_cost_us(t, &w);
}

static int legal(best *b)
{
    for (int i = 0; i < b->s->n_tensors && b->r->span_limit_bytes; i++) {
        int64_t over = dv_span(b->s, i, &b->now, 0) - b->r->span_limit_bytes;
        if (over <= 0)
            continue;
        b->over_span++;
        if (!b->any && (b->over == 0 || over < b->over)) {
            b->over = over;
            b->over_tensor = i;
            b->closest_illegal = b->now;
        }
        return 0;
    }
    return 1;
}

// Breaks ties: returns whether the current division (slices of each variable)
// cuts an outer variable more than the best one so far. On the host that gives
// threads contiguous rows; cores of other targets have their own memory, so it
// does not matter there.
static int cuts_outer_variable(const best *b)
{
    for (int v = 0; v < b->s->n_vars && dv_target_has_caches(b->t); v++)
        if (b->now.n[v] != b->found.n[v])
            return b->now.n[v] > b->found.n[v] && !(b->s->reduced >> v & 1);
    return 0;
}

// Compares two costs, of which one may be larger only because of rounding.
// Returns a value below, equal to or above 0.
static int compare(double a, double b)
{
    const double rounding = 1e-13;
    return a < b * (1 - rounding) ? -1 : a > b * (1 + rounding);
}

// Returns whether a candidate is not better than the best division so far. The
// shorter time decides, then fewer bytes, then fewer partial results, then less
// computing on the busiest core (which keeps all cores busy if memory limits
// the op), then fewer cores.
static int no_better(const best *b, const candidate *c)
{
    const candidate *f = &b->best;
    if (dv_target_has_caches(b->t)) {
        if (c->cost != f->cost)
            return c->cost > f->cost;
        if (c->bytes != f->bytes)
            return c->bytes > f->bytes;
        return c->cores != f->cores ? c->cores > f->cores
                                    : !cuts_outer_variable(b);
    }
    int order = compare(c->cost, f->cost);
    order = order ? order : compare(c->bytes, f->bytes);
    if (!order && c->partials != f->partials)
        return c->partials > f->partials;
    order = order ? order : compare(c->compute_us, f->compute_us);
    return order ? order > 0 : c->cores >= f->cores;
}

// Returns a factor on the cost that penalises split reductions on the host:
// their rounding depends on the number of threads, so they must be faster by
// more than the cost model's error.
static double penalty(const best *b, const dv_cost_work *w)
{
    return dv_target_has_caches(b->t) && w->partials > 1 ? 1.25 : 1;
}

// Returns the predicted time of a division for the report: its cost without the
// penalty factor on divisions that split a reduction.
static double price(const best *b, double cost, const dv_splits *d)
{
    dv_cost_work w = dv_divide_work(b->s, b->t, d);
    return cost / penalty(b, &w);
}

static void enter(menu *m, double key, const dv_splits *d)
{
    int at = m->n;
    while (at > 0 && key < m->keys[at - 1])
        at--;
    if (at == m->most)
        return;
    m->n += m->n < m->most;
    for (int i = m->n - 1; i > at; i--) {
        m->keys[i] = m->keys[i - 1];
        m->list[i] = m->list[i - 1];
    }
    m->keys[at] = key;
    m->list[at] = *d;
}

// Returns whether a dim of a tensor is indexed by a variable of the result plus
// one that is summed over, so that neighbouring results read some of the same
// elements.
static int has_windows(const dv_op *o, const dv_access *a)
{
    for (int d = 0; d < a->n_dims; d++) {
        int kept = 0, summed = 0;
        for (int v = 0; v < o->n_vars; v++)
            *(o->vars[v].reduce ? &summed : &kept) |= a->index[d].coef[v] != 0;
        if (kept && summed)
            return 1;
    }
    return 0;
}

// Returns whether the op is a contraction on the host that reads some tensor in
// overlapping windows, as a convolution does, which threads then pack.
static int packs_windows(const dv_op *o, const dv_target *t)
{
    if (!dv_target_has_caches(t) || dv_op_kind(o) != DV_KIND_CONTRACTION)
        return 0;
    for (int r = 0; r < o->n_reads; r++)
        if (has_windows(o, &o->reads[r]))
            return 1;
    return 0;
}

// Returns the bytes that a tile packs of a read with overlapping windows: each
// element once per window that has it, in whole cache lines along the last dim.
static double packed_bytes(const best *b, int read)
{
    const dv_divide_space *s = b->s;
    const dv_access *a = &s->op->reads[read];
    uint32_t vars = dv_access_vars(s->op, a);
    double elem = (double)s->layouts[read]->elem_bytes;
    double bytes = elem;
    for (int v = 0; v < s->n_vars; v++) {
        int last = a->n_dims > 0 && a->index[a->n_dims - 1].coef[v] &&
                   !(s->reduced >> v & 1);
        double n = (double)longest(s, v, b->now.n[v]);
        if (last)
            n = ceil(n * elem / (double)s->line) * (double)s->line / elem;
        if (vars >> v & 1)
            bytes *= n;
    }
    return bytes;
}

// Returns the bytes that one thread of the host moves: what its tile reads and
// writes, in whole cache lines, and the windows that a product packs. What is
// packed stays in the core's cache, where a byte costs about a quarter of one
// from outside.
static double bytes_of_thread(const best *b, const dv_cost_work *w)
{
    double bytes = w->memory_bytes;
    const dv_op *o = b->s->op;
    for (int r = 0; r < o->n_reads && b->packs_windows; r++)
        if (has_windows(o, &o->reads[r]))
            bytes += packed_bytes(b, r) / 4;
    return bytes;
}

static void consider(best *b, int64_t cores)
{
    if (!legal(b))
        return;
    b->candidates++;
    dv_cost_work w = dv_divide_work(b->s, b->t, &b->now);
    if (b->menu) {
        w.memory_bytes = w.all_bytes = w.passed_bytes = 0;
        enter(b->menu, dv_cost_us(b->t, &w), &b->now);
        return;
    }
    double rounds = (double)dv_ceil_div(cores, b->r->cores);
    // Threads of the host share caches, so the traffic of one of them is
    // compared there, in whole cache lines.
    candidate c = {.cost = dv_cost_us(b->t, &w) * rounds * penalty(b, &w),
                   .bytes = dv_target_has_caches(b->t)
                                ? bytes_of_thread(b, &w)
                                : dv_cost_all_bytes(b->t, &w) * rounds,
                   .compute_us = dv_cost_compute_us(b->t, &w) * rounds,
                   .cores = cores,
                   .partials = w.partials};
    if (b->any && no_better(b, &c)) {
        if (b->runner_cost < 0 || c.cost < b->runner_cost) {
            b->runner_cost = c.cost;
            b->runner = b->now;
        }
        return;
    }
    if (b->any) {
        b->runner_cost = b->best.cost;
        b->runner = b->found;
    }
    b->any = 1;
    b->best = c;
    b->found = b->now;
}

static int64_t pinned(const best *b, int v)
{
    for (int i = 0; i < b->r->n_pins; i++)
        if (b->r->pins[i].var == v)
            return b->r->pins[i].n;
    return 0;
}

static void search(best *b, int v, int64_t used)
{
    if (v == b->s->n_vars) {
        consider(b, used);
        return;
    }
    int64_t units = b->s->units[v], pin = pinned(b, v), last = 0;
    int64_t most = b->s->blocked >> v & 1 ? 1 : b->rounds * b->r->cores / used;
    for (int64_t n = 1; n <= most && n <= units; n++) {
        // Skip numbers of slices n that no slice length produces; `got` is the
        // number of slices of the shortest length that gives at most n.
        int64_t got = dv_ceil_div(units, dv_ceil_div(units, n));
        if (got == last || got != n || (pin && n != pin))
            continue;
        last = got;
        b->now.n[v] = n;
        search(b, v + 1, used * n);
    }
    b->now.n[v] = 1;
}

// Returns how many tiles each thread of the host must compute, one after
// another, if the slices that the user prescribes (pins) give more tiles than
// there are threads; on other targets 1.
static int64_t pinned_rounds(const dv_target *t, const dv_divide_request *r)
{
    int64_t tiles = 1;
    for (int i = 0; dv_target_runs_here(t) && i < r->n_pins; i++)
        if (!dv_mul_i64(&tiles, tiles, r->pins[i].n) || tiles > INT32_MAX)
            return 1;
    return dv_ceil_div(tiles, r->cores);
}

// Writes why a variable cannot have the number of slices that the user
// prescribes; nothing if it can.
static void put_why_not(dv_text *out, const dv_divide_space *s, dv_pin pin)
{
    const char *name = s->op->vars[pin.var].name;
    int64_t units = s->units[pin.var], n = pin.n;
    int64_t got = dv_ceil_div(units, dv_ceil_div(units, n));
    if (n > 1 && s->blocked >> pin.var & 1)
        dv_put(out, "%s must stay whole: %s", name, s->why[pin.var]);
    else if (n > units && s->eps[pin.var] > 1)
        dv_put(out,
               "%s has %" PRId64 " stick%s of %" PRId64
               " element%s, too few for %" PRId64 " slice%s",
               name, units, DV_PLURAL(units, "", "s"), s->eps[pin.var],
               DV_PLURAL(s->eps[pin.var], "", "s"), n, DV_PLURAL(n, "", "s"));
    else if (n > units)
        dv_put(
            out, "%s has %" PRId64 " value%s, too few for %" PRId64 " slice%s",
            name, units, DV_PLURAL(units, "", "s"), n, DV_PLURAL(n, "", "s"));
    else if (got != n)
        dv_put(out,
               "slices of %s of equal length, but the last, can be %" PRId64
               ", not %" PRId64,
               name, got, n);
}

static dv_status refuse_pins(const best *b, dv_diag *diag)
{
    dv_text why = {0};
    double tiles = 1;
    for (int i = 0; i < b->r->n_pins && !why.at; i++) {
        put_why_not(&why, b->s, b->r->pins[i]);
        tiles *= (double)b->r->pins[i].n;
    }
    if (!why.at)
        dv_put(&why, "%.0f tiles are more than the %" PRId64 " cores", tiles,
               b->r->cores);
    dv_status st = dv_fail(diag, DV_E_CAPACITY, b->r->at,
                           "%s: no division meets the pins: %s", b->s->op->name,
                           why.at ? why.at : "");
    dv_text_free(&why);
    return st;
}

static dv_status refuse(const best *b, dv_diag *diag)
{
    const dv_divide_space *s = b->s;
    if (b->over == 0)
        return refuse_pins(b, diag);
    dv_text closest = {0};
    for (int v = 0; v < s->n_vars; v++)
        if (b->closest_illegal.n[v] > 1)
            dv_put(&closest, " %s:%" PRId64, s->op->vars[v].name,
                   b->closest_illegal.n[v]);
    dv_status st = dv_fail(
        diag, DV_E_CAPACITY, b->r->at,
        "%s: one core would reach at least %" PRId64 " bytes of %s, %" PRId64
        " over the limit of %" PRId64 "; %s%s, cut the op into smaller ones",
        s->op->name, b->over + b->r->span_limit_bytes,
        s->tensors[b->over_tensor]->name, b->over, b->r->span_limit_bytes,
        closest.at ? "the nearest division is" : "it cannot be divided",
        closest.at ? closest.at : "");
    dv_text_free(&closest);
    return st;
}

int dv_divide_menu(dv_splits *out, int most, const dv_divide_space *s,
                   const dv_target *t, const dv_divide_request *r)
{
    double keys[DV_MENU_DIVISIONS];
    menu m = {out, keys, 0,
              most < DV_MENU_DIVISIONS ? most : DV_MENU_DIVISIONS};
    best b = {.s = s, .t = t, .r = r, .rounds = 1, .menu = &m};
    for (int v = 0; v < DV_MAX_VARS; v++)
        b.now.n[v] = 1;
    search(&b, 0, 1);
    return m.n;
}

dv_status dv_divide_best(dv_divided *out, const dv_divide_space *s,
                         const dv_target *t, const dv_divide_request *r,
                         dv_diag *diag)
{
    best b = {.s = s,
              .packs_windows = packs_windows(s->op, t),
              .t = t,
              .r = r,
              .runner_cost = -1,
              .rounds = pinned_rounds(t, r)};
    for (int v = 0; v < DV_MAX_VARS; v++)
        b.now.n[v] = b.closest_illegal.n[v] = 1;
    search(&b, 0, 1);
    while (!b.any && b.over && b.rounds < MAX_ROUNDS) {
        b.rounds += 1 + b.rounds / 8;
        search(&b, 0, 1);
    }
    if (!b.any)
        return refuse(&b, diag);
    *out = (dv_divided){
        .splits = b.found,
        .candidates = b.candidates,
        .cost_us = price(&b, b.best.cost, &b.found),
        .runner = b.runner,
        .runner_up_us = b.runner_cost < 0 ? b.runner_cost
                                          : price(&b, b.runner_cost, &b.runner),
        .over_span = b.over_span};
    for (int v = 0; v < DV_MAX_VARS; v++) {
        out->forced.n[v] = 1;
        if (v >= s->n_vars)
            out->splits.n[v] = 1;
    }
    return DV_OK;
}
