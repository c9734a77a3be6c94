// Evaluates and checks schedules by walking through every tile and every step,
// with explicit slices of every tensor. It shares no code with the searches,
// except the validation of problems. The rules F1 to F8 are in
// docs/invariants.md.
#include "fuse/fuse.h"
#include "base/options.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

// A demand is the part of a tensor that a step needs. Its axes: along rows H
// (of the tile), K (of the step) or ALL; along columns W, K or ALL.
enum { H = 0, W = 0, K = 1, ALL = 2, N_AXES = 3 };
enum { MOST_SLICES = 2 * N_AXES * N_AXES };
#define MOST_STEPS ((int64_t)1 << 28)

typedef struct slice {
    int64_t r0, r1, c0, c1; // rows r0..r1 - 1, columns c0..c1 - 1
} slice;

typedef struct tensor_state {
    int32_t writer;            // op, or -1
    char is_output;            // of the graph
    char needed, made_later;   // while going backwards through the entries
    char made, reads;          // by the ops of the current entry
    char stays, resident;      // retained by the current entry, by the one
                               // before
    char written;              // by the current entry
    char want[N_AXES][N_AXES]; // demands of the current entry
    slice old[MOST_SLICES];    // demanded in the step before
    int n_old;
    int32_t component; // of tensors that are connected by ops
} tensor_state;

typedef struct judge {
    const dv_fuse_problem *p;
    const dv_fuse_schedule *s;
    int full;
    dv_diag *diag;
    tensor_state *t;
    char **written; // by entry and position of the op: its output is written
} judge;

// The tiles of the entry (a group of ops in the schedule) being checked.
typedef struct tiling {
    int64_t gw, gh, sum; // shape of the leaving tensors, terms of the sum
    int64_t w, h, k, nx, ny, nk;
    int64_t n_written;
} tiling;

#define WRONG(j, ...) dv_fail((j)->diag, DV_E_CHECK, DV_NOWHERE, __VA_ARGS__)

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static const dv_fuse_op *op_of(const judge *j, size_t entry, size_t i)
{
    return &j->p->ops[j->s->entries[entry].ops[i]];
}

// -- What every entry makes, reads and writes --------------------------------

static dv_status check_lists(const judge *j, char *seen)
{
    const dv_fuse_problem *p = j->p;
    memset(seen, 0, p->n_ops);
    for (size_t i = 0; i < j->s->n_entries; i++) {
        const dv_fuse_entry *e = &j->s->entries[i];
        if (!e->n_ops || !e->ops || (e->n_retained && !e->retained))
            return WRONG(j, "F1: entry %zu has no ops, or a list is NULL", i);
        for (size_t k = 0; k < e->n_ops; k++) {
            int32_t o = e->ops[k];
            if (o < 0 || (size_t)o >= p->n_ops)
                return WRONG(j,
                             "F1: entry %zu has op %" PRId32 ", there are %zu",
                             i, o, p->n_ops);
            for (size_t m = 0; m < k; m++)
                if (e->ops[m] == o)
                    return WRONG(j, "F1: entry %zu has op %" PRId32 " twice", i,
                                 o);
            seen[o] = 1;
        }
        for (size_t k = 0; k < e->n_retained; k++)
            if (e->retained[k] < 0 || (size_t)e->retained[k] >= p->n_tensors)
                return WRONG(j,
                             "F1: entry %zu retains tensor %" PRId32
                             ", there are %zu",
                             i, e->retained[k], p->n_tensors);
    }
    for (size_t o = 0; o < p->n_ops; o++)
        if (!seen[o])
            return WRONG(j, "F1: op %zu is in no entry", o);
    return DV_OK;
}

// Sets which tensors the ops of entry i write and read, and which ones this
// entry and the entry before it retain in the scratchpad.
static void enter(judge *j, size_t i)
{
    const dv_fuse_entry *e = &j->s->entries[i];
    for (size_t t = 0; t < j->p->n_tensors; t++) {
        tensor_state *x = &j->t[t];
        x->made = x->reads = x->stays = x->resident = x->written = 0;
        x->n_old = 0;
        memset(x->want, 0, sizeof x->want);
    }
    for (size_t k = 0; k < e->n_ops; k++) {
        const dv_fuse_op *op = op_of(j, i, k);
        j->t[op->output].made = 1;
        for (size_t m = 0; m < op->n_inputs; m++)
            j->t[op->inputs[m]].reads = 1;
    }
    for (size_t k = 0; k < e->n_retained; k++)
        j->t[e->retained[k]].stays = 1;
    for (size_t k = 0; i && k < e[-1].n_retained; k++)
        j->t[e[-1].retained[k]].resident = 1;
}

// Goes backwards through the entries and finds which outputs of its ops each
// entry must write to memory: those that a later entry loads before they are
// computed again, and the graph's outputs where they are computed last.
static dv_status find_written(judge *j)
{
    for (size_t i = j->s->n_entries; i-- > 0;) {
        const dv_fuse_entry *e = &j->s->entries[i];
        enter(j, i);
        for (size_t k = 0; k < e->n_retained; k++) {
            int32_t t = e->retained[k];
            if (!j->t[t].made || j->t[t].is_output)
                return WRONG(j,
                             "F2: entry %zu retains tensor %" PRId32
                             ", which it does not make or which is an "
                             "output",
                             i, t);
            if (j->t[t].needed)
                return WRONG(j,
                             "F2: tensor %" PRId32 ", retained by entry %zu,"
                             " is read later than by the next entry",
                             t, i);
        }
        for (size_t k = 0; k < e->n_ops; k++) {
            const tensor_state *x = &j->t[op_of(j, i, k)->output];
            j->written[i][k] =
                (x->needed && !x->stays) || (x->is_output && !x->made_later);
        }
        for (size_t t = 0; t < j->p->n_tensors; t++) {
            tensor_state *x = &j->t[t];
            x->needed = !x->made && (x->needed || (x->reads && !x->resident));
            x->made_later |= x->made;
        }
    }
    for (size_t t = 0; t < j->p->n_tensors; t++)
        if (j->t[t].needed && j->t[t].writer >= 0)
            return WRONG(j, "F2: tensor %zu is read before it is in memory", t);
    return DV_OK;
}

// -- Demands -----------------------------------------------------------------

static int want(tensor_state *t, int rows, int cols)
{
    int is_new = !t->want[rows][cols];
    t->want[rows][cols] = 1;
    return is_new;
}

// Propagates the demands on the output of an op (the parts that a step needs)
// to its inputs. Returns 1 if a demand is new.
static int pass_on(judge *j, const dv_fuse_op *op, int64_t *sum, int *sums)
{
    const tensor_state *out = &j->t[op->output];
    int is_new = 0;
    for (int r = 0; r < N_AXES; r++)
        for (int c = 0; c < N_AXES; c++) {
            if (!out->want[r][c])
                continue;
            if (op->kind == DV_FUSE_POINTWISE) {
                for (size_t m = 0; m < op->n_inputs; m++)
                    is_new |= want(&j->t[op->inputs[m]], r, c);
                continue;
            }
            int inner = r == H && c == W ? K : ALL;
            int64_t terms = j->p->tensors[op->inputs[0]].width;
            if (inner == K) {
                *sums |= *sum && *sum != terms;
                *sum = terms;
            }
            is_new |= want(&j->t[op->inputs[0]], r, inner);
            is_new |= want(&j->t[op->inputs[1]], inner, c);
        }
    return is_new;
}

// Checks that the ops of an entry are connected by common tensors.
static dv_status check_connected(judge *j, size_t i)
{
    const dv_fuse_entry *e = &j->s->entries[i];
    for (size_t k = 0; k < e->n_ops; k++) {
        const dv_fuse_op *op = op_of(j, i, k);
        j->t[op->output].component = (int32_t)op->output;
        for (size_t m = 0; m < op->n_inputs; m++)
            j->t[op->inputs[m]].component = op->inputs[m];
    }
    // Propagate the component of the first op's output to all tensors that ops
    // connect with it, until nothing changes.
    int32_t first = op_of(j, i, 0)->output;
    for (int changed = 1; changed;) {
        changed = 0;
        for (size_t k = 0; k < e->n_ops; k++) {
            const dv_fuse_op *op = op_of(j, i, k);
            int32_t *out = &j->t[op->output].component;
            int touched = *out == first;
            for (size_t m = 0; m < op->n_inputs; m++)
                touched |= j->t[op->inputs[m]].component == first;
            for (size_t m = 0; touched && m <= op->n_inputs; m++) {
                int32_t *c =
                    m < op->n_inputs ? &j->t[op->inputs[m]].component : out;
                changed |= *c != first;
                *c = first;
            }
        }
    }
    for (size_t k = 0; k < e->n_ops; k++)
        if (j->t[op_of(j, i, k)->output].component != first)
            return WRONG(j, "F8: the ops of entry %zu are not connected", i);
    return DV_OK;
}

static dv_status find_demands(judge *j, size_t i, tiling *g)
{
    const dv_fuse_entry *e = &j->s->entries[i];
    int again = 1, sums = 0;
    *g = (tiling){0};
    for (size_t k = 0; k < e->n_ops; k++) {
        int32_t t = op_of(j, i, k)->output;
        tensor_state *x = &j->t[t];
        const dv_fuse_tensor *shape = &j->p->tensors[t];
        x->written = j->written[i][k];
        g->n_written += x->written;
        if (!x->written && !x->stays)
            continue;
        if (g->gw && (g->gw != shape->width || g->gh != shape->height))
            return WRONG(j, "F4: tensors of several shapes leave entry %zu", i);
        g->gw = shape->width;
        g->gh = shape->height;
        want(x, H, W);
    }
    if (!g->gw)
        return WRONG(j, "F4: nothing leaves entry %zu", i);
    while (again) {
        again = 0;
        for (size_t k = 0; k < e->n_ops; k++)
            again |= pass_on(j, op_of(j, i, k), &g->sum, &sums);
    }
    if (sums)
        return WRONG(j, "F6: entry %zu cuts sums of several lengths", i);
    for (size_t k = 0; k < e->n_ops; k++) {
        const tensor_state *x = &j->t[op_of(j, i, k)->output];
        int n = 0;
        for (int d = 0; d < N_AXES * N_AXES; d++)
            n += x->want[d / N_AXES][d % N_AXES];
        if (!n)
            return WRONG(j, "F5: entry %zu does not need op %" PRId32, i,
                         e->ops[k]);
        if ((x->written || x->stays) && n > 1)
            return WRONG(j,
                         "F5: the output of op %" PRId32 " leaves entry %zu"
                         " and is an operand of a product inside",
                         e->ops[k], i);
    }
    return check_connected(j, i);
}

// -- Slices ------------------------------------------------------------------

static void sort(int64_t *v, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && v[k] < v[k - 1]; k--) {
            int64_t x = v[k];
            v[k] = v[k - 1];
            v[k - 1] = x;
        }
}

// Returns the area of a union of slices. The bounds of all slices divide the
// plane into a grid of cells, each of which is covered or not.
static int64_t area_of(const slice *s, int n)
{
    int64_t rows[2 * MOST_SLICES], cols[2 * MOST_SLICES], area = 0;
    if (n == 1)
        return (s->r1 - s->r0) * (s->c1 - s->c0);
    for (int i = 0; i < n; i++) {
        rows[2 * i] = s[i].r0;
        rows[2 * i + 1] = s[i].r1;
        cols[2 * i] = s[i].c0;
        cols[2 * i + 1] = s[i].c1;
    }
    sort(rows, 2 * n);
    sort(cols, 2 * n);
    for (int r = 0; r + 1 < 2 * n; r++)
        for (int c = 0; c + 1 < 2 * n; c++)
            for (int i = 0; i < n; i++)
                if (s[i].r0 <= rows[r] && rows[r + 1] <= s[i].r1 &&
                    s[i].c0 <= cols[c] && cols[c + 1] <= s[i].c1) {
                    area += (rows[r + 1] - rows[r]) * (cols[c + 1] - cols[c]);
                    break;
                }
    return area;
}

// Lists the slices of a tensor that step s of the tile in row y, column x
// needs; the slice of exactly the tile only if `last`.
static int list_slices(const judge *j, size_t tensor, const tiling *g,
                       int64_t y, int64_t x, int64_t s, int last, slice *out)
{
    const tensor_state *t = &j->t[tensor];
    int64_t height = j->p->tensors[tensor].height;
    int64_t width = j->p->tensors[tensor].width;
    int n = 0;
    for (int r = 0; r < N_AXES; r++)
        for (int c = 0; c < N_AXES; c++) {
            slice a = {0, height, 0, width};
            if (!t->want[r][c] || (r == H && c == W && !last))
                continue;
            if (r != ALL) {
                a.r0 = r == H ? y * g->h : s * g->k;
                a.r1 = least(height, a.r0 + (r == H ? g->h : g->k));
            }
            if (c != ALL) {
                a.c0 = c == W ? x * g->w : s * g->k;
                a.c1 = least(width, a.c0 + (c == W ? g->w : g->k));
            }
            out[n++] = a;
        }
    return n;
}

static int is_external(const tensor_state *t)
{
    return t->reads && !t->made;
}

static dv_status check_working_set(const judge *j, size_t i, const tiling *g)
{
    const dv_fuse_entry *e = &j->s->entries[i];
    int64_t tile = least(g->h, g->gh) * least(g->w, g->gw);
    int64_t used = g->n_written * tile;
    slice a[MOST_SLICES];
    for (size_t t = 0; t < j->p->n_tensors; t++) {
        const tensor_state *x = &j->t[t];
        const dv_fuse_tensor *shape = &j->p->tensors[t];
        if (x->stays || (is_external(x) && x->resident))
            used += shape->width * shape->height;
        else if (is_external(x))
            used += area_of(a, list_slices(j, t, g, 0, 0, 0, 1, a));
    }
    for (size_t k = 0; g->nk > 1 && k < e->n_ops; k++) {
        const dv_fuse_op *op = op_of(j, i, k);
        const tensor_state *x = &j->t[op->output];
        if (op->kind == DV_FUSE_MATMUL && x->want[H][W] && !x->written &&
            !x->stays)
            used += tile;
    }
    if (used <= j->p->capacity_elems)
        return DV_OK;
    return WRONG(j,
                 "F7: entry %zu needs %" PRId64 " elements, the capacity is "
                 "%" PRId64,
                 i, used, j->p->capacity_elems);
}

// -- Steps -------------------------------------------------------------------

// Returns how many native blocks, or fractions of them, one axis of a demand (a
// part of a tensor that a step computes) takes.
static double blocks(int tile_axis, int axis, int64_t ke, int64_t extent,
                     int64_t native, int whole_blocks)
{
    if (axis == tile_axis)
        return 1;
    int64_t n = axis == K ? ke : extent;
    return whole_blocks ? (double)ceil_div(n, native)
                        : (double)n / (double)native;
}

// Returns the computing time of one op for one demand (the part of its output
// that a step needs), in a step with ke terms of the sum.
static double op_time(const judge *j, const dv_fuse_op *op, int r, int c,
                      int64_t ke, int last)
{
    const dv_fuse_problem *p = j->p;
    const dv_fuse_tensor *out = &p->tensors[op->output];
    int matmul = op->kind == DV_FUSE_MATMUL;
    double terms = matmul ? (double)p->tensors[op->inputs[0]].width : 0;
    double unit = j->full ? terms : (double)p->native_width;
    if (r == H && c == W)
        return matmul ? op->base_cost * (double)ke / unit
                      : last * op->base_cost;
    return op->base_cost *
           blocks(H, r, ke, out->height, p->native_height, !matmul) *
           blocks(W, c, ke, out->width, p->native_width, !matmul) *
           (matmul ? terms / unit : 1);
}

static double compute_time(const judge *j, size_t i, int64_t ke, int last)
{
    double sum = 0;
    for (size_t k = 0; k < j->s->entries[i].n_ops; k++) {
        const dv_fuse_op *op = op_of(j, i, k);
        for (int r = 0; r < N_AXES; r++)
            for (int c = 0; c < N_AXES; c++)
                if (j->t[op->output].want[r][c])
                    sum += op_time(j, op, r, c, ke, last);
    }
    return sum;
}

// Returns the elements loaded for a step: those that it needs and that the step
// before it did not have.
static int64_t load_slices(judge *j, const tiling *g, int64_t y, int64_t x,
                           int64_t s, int last)
{
    int64_t load = 0;
    for (size_t t = 0; t < j->p->n_tensors; t++) {
        tensor_state *z = &j->t[t];
        slice both[MOST_SLICES];
        if (!is_external(z) || z->resident)
            continue;
        memcpy(both, z->old, sizeof both);
        int n = list_slices(j, t, g, y, x, s, last, both + z->n_old);
        load += area_of(both, z->n_old + n) - area_of(both, z->n_old);
        memcpy(z->old, both + z->n_old, (size_t)n * sizeof *both);
        z->n_old = n;
    }
    return load;
}

static double walk(judge *j, size_t i, const tiling *g)
{
    const dv_fuse_entry *e = &j->s->entries[i];
    double sum = 0;
    for (int64_t n = 0; n < g->nx * g->ny; n++) {
        int64_t tile = e->order ? e->order[n] : n;
        int64_t y = tile / g->nx, x = tile % g->nx;
        for (size_t t = 0; !e->order && t < j->p->n_tensors; t++)
            j->t[t].n_old = 0;
        for (int64_t s = 0; s < g->nk; s++) {
            int last = s == g->nk - 1;
            int64_t moved = load_slices(j, g, y, x, s, last);
            int64_t ke = g->sum ? least(g->k, g->sum - s * g->k) : 0;
            if (last)
                moved += g->n_written * least(g->h, g->gh - y * g->h) *
                         least(g->w, g->gw - x * g->w);
            sum += fmax(compute_time(j, i, ke, last),
                        (double)moved / j->p->bandwidth);
        }
    }
    return sum;
}

static dv_status check_order(const judge *j, size_t i, const tiling *g)
{
    const dv_fuse_entry *e = &j->s->entries[i];
    size_t n = (size_t)(g->nx * g->ny);
    if (!e->order)
        return DV_OK;
    char *seen = e->n_tiles == n ? dv_alloc(n) : NULL;
    if (e->n_tiles == n && !seen)
        return dv_nomem(j->diag);
    if (seen)
        memset(seen, 0, n);
    size_t k = 0;
    while (seen && k < n && e->order[k] >= 0 && (size_t)e->order[k] < n &&
           !seen[e->order[k]])
        seen[e->order[k++]] = 1;
    dv_release(seen);
    if (k == n)
        return DV_OK;
    return WRONG(j, "F3: the order of entry %zu is no permutation of %zu tiles",
                 i, n);
}

static dv_status set_tiles(const judge *j, size_t i, tiling *g)
{
    const dv_fuse_entry *e = &j->s->entries[i];
    const dv_fuse_problem *p = j->p;
    int64_t deepest = j->full ? DV_FUSE_MOST_EXTENT : p->native_width;
    if (e->width < 1 || e->height < 1 || e->depth < 1 ||
        e->width > p->native_width || e->height > p->native_height ||
        e->depth > deepest)
        return WRONG(j,
                     "F3: entry %zu has tiles of %" PRId64 " x %" PRId64
                     ", depth %" PRId64,
                     i, e->width, e->height, e->depth);
    g->w = e->width;
    g->h = e->height;
    g->k = e->depth;
    g->nx = ceil_div(g->gw, g->w);
    g->ny = ceil_div(g->gh, g->h);
    g->nk = g->sum ? ceil_div(g->sum, g->k) : 1;
    if (g->nx * g->ny > MOST_STEPS / g->nk)
        return dv_fail(j->diag, DV_E_LIMIT, DV_NOWHERE,
                       "entry %zu has more than %" PRId64 " steps", i,
                       MOST_STEPS);
    return check_order(j, i, g);
}

static dv_status evaluate(judge *j, double *latencies)
{
    for (size_t i = 0; i < j->s->n_entries; i++) {
        tiling g;
        enter(j, i);
        DV_TRY(find_demands(j, i, &g));
        DV_TRY(set_tiles(j, i, &g));
        DV_TRY(check_working_set(j, i, &g));
        latencies[i] = walk(j, i, &g);
    }
    return DV_OK;
}

static dv_status judge_all(judge *j, dv_arena *a, double *latencies)
{
    const dv_fuse_problem *p = j->p;
    char *seen = DV_NEW(a, char, p->n_ops);
    j->t = DV_NEW(a, tensor_state, p->n_tensors);
    j->written = DV_NEW(a, char *, j->s->n_entries);
    if (!seen || !j->t || !j->written)
        return dv_nomem(j->diag);
    DV_TRY(check_lists(j, seen));
    for (size_t i = 0; i < j->s->n_entries; i++) {
        j->written[i] = DV_NEW(a, char, j->s->entries[i].n_ops);
        if (!j->written[i])
            return dv_nomem(j->diag);
    }
    for (size_t t = 0; t < p->n_tensors; t++) {
        j->t[t].writer = -1;
        j->t[t].is_output = 1;
    }
    for (size_t o = 0; o < p->n_ops; o++) {
        j->t[p->ops[o].output].writer = (int32_t)o;
        for (size_t m = 0; m < p->ops[o].n_inputs; m++)
            j->t[p->ops[o].inputs[m]].is_output = 0;
    }
    DV_TRY(find_written(j));
    return evaluate(j, latencies);
}

dv_status dv_fuse_evaluate(double *latencies, const dv_fuse_schedule *schedule,
                           const dv_fuse_problem *problem,
                           const dv_fuse_options *options, dv_diag *diag)
{
    dv_fuse_options o = DV_FUSE_OPTIONS_INIT;
    dv_fuse_graph valid;
    dv_arena a = {0};
    judge j = {.p = problem, .s = schedule, .diag = diag};
    DV_TRY(dv_options_read(&o, sizeof o, options, "dv_fuse_options", diag));
    DV_TRY(dv_options_enum((int)o.reading, 2, "reading", diag));
    DV_TRY(dv_fuse_graph_create(&valid, problem, o.reading, diag));
    dv_arena_free(&valid.arena);
    j.full = o.reading == DV_FUSE_FULL;
    dv_status status = judge_all(&j, &a, latencies);
    dv_arena_free(&a);
    return status;
}

static int differ(double a, double b)
{
    return !(fabs(a - b) <= 1e-9 * fmax(1, fmax(fabs(a), fabs(b))));
}

dv_status dv_fuse_check(const dv_fuse_schedule *schedule,
                        const dv_fuse_problem *problem,
                        const dv_fuse_options *options, dv_diag *diag)
{
    double total = 0;
    size_t n = schedule->n_entries;
    double *real = dv_alloc((n + 1) * sizeof *real);
    judge j = {.diag = diag};
    if (!real)
        return dv_nomem(diag);
    dv_status status = dv_fuse_evaluate(real, schedule, problem, options, diag);
    for (size_t i = 0; status == DV_OK && i < n; i++) {
        double claimed = schedule->entries[i].latency;
        total += real[i];
        if (differ(real[i], claimed))
            status = WRONG(&j, "entry %zu takes %.10g, not %.10g", i, real[i],
                           claimed);
    }
    dv_release(real);
    if (status == DV_OK && differ(total, schedule->total))
        status =
            WRONG(&j, "the total is %.10g, not %.10g", total, schedule->total);
    if (status == DV_OK && !(schedule->bound <= total * (1 + 1e-9)))
        status = WRONG(&j, "the bound %.10g is above the total %.10g",
                       schedule->bound, total);
    return status;
}
