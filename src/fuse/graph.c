// Validates a problem and builds its graph: ops in topological order, and the
// producer and readers of every tensor. All rules of the input are checked
// here, so that the searches may rely on them.
#include "base/plural.h"
#include "fuse/fuse.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct builder {
    const dv_fuse_problem *p;
    dv_fuse_graph *g;
    dv_diag *diag;
} builder;

// Lower limit of the bandwidth: with less, costs could reach DV_FUSE_NEVER.
#define LEAST_BANDWIDTH 1e-200

#define WRONG(b, status, ...)                                                  \
    dv_fail((b)->diag, status, DV_NOWHERE, __VA_ARGS__)

static dv_status check_sizes(const builder *b)
{
    const dv_fuse_problem *p = b->p;
    if (p->n_ops < 1 || p->n_ops > DV_FUSE_MOST_OPS ||
        p->n_tensors > DV_FUSE_MOST_TENSORS)
        return WRONG(b, DV_E_LIMIT,
                     "%zu ops and %zu tensors: there may be 1 to %d and up to "
                     "%d",
                     p->n_ops, p->n_tensors, DV_FUSE_MOST_OPS,
                     DV_FUSE_MOST_TENSORS);
    if (!p->ops || (!p->tensors && p->n_tensors))
        return WRONG(b, DV_E_USAGE, "the lists of a problem are NULL");
    if (p->capacity_elems < 1 || !(p->bandwidth > 0) || !isfinite(p->bandwidth))
        return WRONG(b, DV_E_BOUNDS,
                     "capacity %" PRId64 " and bandwidth %g must be positive",
                     p->capacity_elems, p->bandwidth);
    if (p->bandwidth < LEAST_BANDWIDTH)
        return WRONG(b, DV_E_BOUNDS,
                     "bandwidth %g is too small to divide by: it must be %g or "
                     "more",
                     p->bandwidth, LEAST_BANDWIDTH);
    if (p->native_width < 1 || p->native_width > DV_FUSE_MOST_EXTENT ||
        p->native_height < 1 || p->native_height > DV_FUSE_MOST_EXTENT)
        return WRONG(b, DV_E_BOUNDS,
                     "native tiles of %" PRId64 " x %" PRId64
                     ": each must be 1 to %d",
                     p->native_width, p->native_height, DV_FUSE_MOST_EXTENT);
    for (size_t t = 0; t < p->n_tensors; t++)
        if (p->tensors[t].width < 1 || p->tensors[t].height < 1 ||
            p->tensors[t].width > DV_FUSE_MOST_EXTENT ||
            p->tensors[t].height > DV_FUSE_MOST_EXTENT)
            return WRONG(
                b, DV_E_BOUNDS,
                "tensor %zu has %" PRId64 " column%s and %" PRId64
                " row%s: each must be 1 to %d",
                t, p->tensors[t].width, DV_PLURAL(p->tensors[t].width, "", "s"),
                p->tensors[t].height, DV_PLURAL(p->tensors[t].height, "", "s"),
                DV_FUSE_MOST_EXTENT);
    return DV_OK;
}

static int same_shape(const dv_fuse_tensor *a, const dv_fuse_tensor *b)
{
    return a->width == b->width && a->height == b->height;
}

static dv_status check_shapes(const builder *b, size_t o)
{
    const dv_fuse_op *op = &b->p->ops[o];
    const dv_fuse_tensor *t = b->p->tensors, *out = &t[op->output];
    if (op->kind == DV_FUSE_MATMUL) {
        const dv_fuse_tensor *l = &t[op->inputs[0]], *r = &t[op->inputs[1]];
        if (l->width == r->height && l->height == out->height &&
            r->width == out->width)
            return DV_OK;
        return WRONG(b, DV_E_SHAPE,
                     "op %zu multiplies %" PRId64 " x %" PRId64 " by %" PRId64
                     " x %" PRId64 " and gives %" PRId64 " x %" PRId64,
                     o, l->height, l->width, r->height, r->width, out->height,
                     out->width);
    }
    for (size_t i = 0; i < op->n_inputs; i++)
        if (!same_shape(&t[op->inputs[i]], out))
            return WRONG(b, DV_E_SHAPE,
                         "pointwise op %zu reads tensor %" PRId32
                         ", whose shape is not that of its output",
                         o, op->inputs[i]);
    return DV_OK;
}

static dv_status check_op(const builder *b, size_t o)
{
    const dv_fuse_op *op = &b->p->ops[o];
    int matmul = op->kind == DV_FUSE_MATMUL;
    if (!matmul && op->kind != DV_FUSE_POINTWISE)
        return WRONG(b, DV_E_USAGE, "op %zu has no kind %d", o, (int)op->kind);
    if (op->n_inputs < 1 || !op->inputs || (matmul && op->n_inputs != 2) ||
        op->n_inputs > b->p->n_tensors + 1)
        return WRONG(b, DV_E_SHAPE, "op %zu has %zu input%s, %s", o,
                     op->n_inputs, DV_PLURAL(op->n_inputs, "", "s"),
                     matmul ? "not 2" : "not 1 or more");
    if (!(op->base_cost >= 0) || op->base_cost > 1e15)
        return WRONG(b, DV_E_BOUNDS, "op %zu has the base cost %g", o,
                     op->base_cost);
    for (size_t i = 0; i <= op->n_inputs; i++) {
        int32_t t = i < op->n_inputs ? op->inputs[i] : op->output;
        if (t < 0 || (size_t)t >= b->p->n_tensors)
            return WRONG(b, DV_E_NAME,
                         "op %zu uses tensor %" PRId32 "; there are %zu", o, t,
                         b->p->n_tensors);
    }
    return check_shapes(b, o);
}

// Sorts the ops topologically, so that each comes after those whose outputs it
// reads: a depth-first search from every op to the writers of its inputs.
static dv_status sort(builder *b, const int32_t *writer, int32_t *sorted)
{
    const dv_fuse_problem *p = b->p;
    dv_arena *a = &b->g->arena;
    int32_t n = (int32_t)p->n_ops, done = 0;
    char *state = DV_NEW(a, char, n);
    int32_t *stack = DV_NEW(a, int32_t, n), *at = DV_NEW(a, int32_t, n);
    if (!state || !stack || !at)
        return dv_nomem(b->diag);
    // state[op] is 1 while an op is on the stack and 2 once it is sorted;
    // at[op] is the next of its inputs to follow.
    for (int32_t root = 0; root < n; root++) {
        int32_t depth = 0;
        if (state[root])
            continue;
        stack[depth++] = root;
        state[root] = 1;
        while (depth) {
            int32_t o = stack[depth - 1];
            if ((size_t)at[o] == p->ops[o].n_inputs) {
                state[o] = 2;
                sorted[done++] = o;
                depth--;
                continue;
            }
            int32_t w = writer[p->ops[o].inputs[at[o]++]];
            if (w >= 0 && state[w] == 1)
                return WRONG(b, DV_E_NAME,
                             "op %" PRId32 " reads what depends on its output",
                             w);
            if (w >= 0 && !state[w]) {
                stack[depth++] = w;
                state[w] = 1;
            }
        }
    }
    return DV_OK;
}

static int32_t alike_node(const dv_fuse_graph *g, int32_t o)
{
    const dv_fuse_node *x = &g->nodes[o];
    for (int32_t i = 0; i < o; i++) {
        const dv_fuse_node *y = &g->nodes[i];
        if (x->matmul == y->matmul && x->base == y->base && x->sum == y->sum)
            return i;
    }
    return o;
}

static int add_node(builder *b, int32_t o, int32_t number)
{
    const dv_fuse_op *op = &b->p->ops[number];
    dv_fuse_graph *g = b->g;
    int32_t *inputs = DV_NEW(&g->arena, int32_t, op->n_inputs), n = 0;
    if (!inputs)
        return 0;
    for (size_t i = 0; i < op->n_inputs; i++) {
        int32_t k = 0, t = op->inputs[i];
        while (k < n && inputs[k] != t)
            k++;
        if (k == n || op->kind == DV_FUSE_MATMUL)
            inputs[n++] = t;
        g->edges[t].n_readers += k == n - 1;
    }
    g->nodes[o] = (dv_fuse_node){.matmul = op->kind == DV_FUSE_MATMUL,
                                 .base = op->base_cost,
                                 .inputs = inputs,
                                 .n_inputs = n,
                                 .output = op->output,
                                 .number = number};
    if (op->kind == DV_FUSE_MATMUL)
        g->nodes[o].sum = g->edges[inputs[0]].width;
    g->nodes[o].alike = alike_node(g, o);
    g->edges[op->output].producer = o;
    return 1;
}

static int add_readers(dv_fuse_graph *g)
{
    for (int32_t t = 0; t < g->n_tensors; t++) {
        dv_fuse_edge *e = &g->edges[t];
        e->readers = DV_NEW(&g->arena, int32_t, e->n_readers + 1);
        if (!e->readers)
            return 0;
        e->n_readers = 0;
    }
    for (int32_t o = 0; o < g->n; o++)
        for (int32_t i = 0; i < g->nodes[o].n_inputs; i++) {
            dv_fuse_edge *e = &g->edges[g->nodes[o].inputs[i]];
            if (!e->n_readers || e->readers[e->n_readers - 1] != o)
                ((int32_t *)e->readers)[e->n_readers++] = o;
        }
    return 1;
}

static void add_tensors(builder *b)
{
    dv_fuse_graph *g = b->g;
    for (int32_t t = 0; t < g->n_tensors; t++) {
        const dv_fuse_tensor *x = &b->p->tensors[t];
        int32_t alike = 0;
        while (!same_shape(x, &b->p->tensors[alike]))
            alike++;
        g->edges[t] = (dv_fuse_edge){.width = x->width,
                                     .height = x->height,
                                     .size = x->width * x->height,
                                     .producer = -1,
                                     .alike = alike};
    }
}

static dv_status build(builder *b)
{
    dv_fuse_graph *g = b->g;
    const dv_fuse_problem *p = b->p;
    int32_t *writer = DV_NEW(&g->arena, int32_t, g->n_tensors);
    int32_t *sorted = DV_NEW(&g->arena, int32_t, g->n);
    g->nodes = DV_NEW(&g->arena, dv_fuse_node, g->n);
    g->edges = DV_NEW(&g->arena, dv_fuse_edge, g->n_tensors);
    if (!writer || !sorted || !g->nodes || !g->edges)
        return dv_nomem(b->diag);
    memset(writer, -1, (size_t)g->n_tensors * sizeof *writer);
    for (int32_t o = 0; o < g->n; o++) {
        DV_TRY(check_op(b, (size_t)o));
        int32_t t = p->ops[o].output;
        if (writer[t] >= 0)
            return WRONG(b, DV_E_WRITE,
                         "tensor %" PRId32 " is written by op %" PRId32
                         " and by op %" PRId32,
                         t, writer[t], o);
        writer[t] = o;
    }
    DV_TRY(sort(b, writer, sorted));
    add_tensors(b);
    for (int32_t o = 0; o < g->n; o++)
        if (!add_node(b, o, sorted[o]))
            return dv_nomem(b->diag);
    return add_readers(g) ? DV_OK : dv_nomem(b->diag);
}

dv_status dv_fuse_graph_create(dv_fuse_graph *out, const dv_fuse_problem *p,
                               dv_fuse_reading reading, dv_diag *diag)
{
    builder b = {.p = p, .g = out, .diag = diag};
    *out = (dv_fuse_graph){0};
    DV_TRY(check_sizes(&b));
    *out = (dv_fuse_graph){.n = (int32_t)p->n_ops,
                           .n_tensors = (int32_t)p->n_tensors,
                           .words = (int32_t)(p->n_ops + 63) / 64,
                           .capacity = p->capacity_elems,
                           .native_w = p->native_width,
                           .native_h = p->native_height,
                           .bandwidth = p->bandwidth,
                           .full = reading == DV_FUSE_FULL};
    dv_status s = build(&b);
    if (s != DV_OK)
        dv_arena_free(&out->arena);
    return s;
}
