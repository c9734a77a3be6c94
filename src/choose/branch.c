// Branch and bound: depth first, on one label of one node, which is either
// excluded or fixed. Prices and messages of the node before are the start of
// the next relaxation, so that a few rounds suffice for its bound; after labels
// come back, messages start again.
#include "choose/choose.h"
#include <math.h>
#include <string.h>

enum { ROUNDS = 4 };

typedef struct branch {
    int32_t v, label;
    int fixed;    // 1: v has this label; 0: another one
    int second;   // 1: the other case was tried before
    double bound; // of the problem that was branched
    int32_t undo; // length of the trail before it
} branch;

typedef struct tree {
    dv_chooser *c;
    char *dead;
    int32_t *n_alive; // labels of each node that are not dead
    int32_t *trail;   // labels that became dead, in order
    int32_t n_trail;
    branch *stack;
    int32_t depth, cap;
    int64_t *least; // least usage over time
} tree;

static void kill(tree *t, int32_t v, int32_t k)
{
    if (t->dead[k])
        return;
    t->dead[k] = 1;
    t->n_alive[v]--;
    t->trail[t->n_trail++] = k;
}

// Applies a branch: fixes a node to one label (remaining strategy), or rules
// that label out.
static void apply(tree *t, const branch *b)
{
    const dv_cgraph *g = &t->c->graph;
    int32_t own = g->first[b->v] + b->label;
    if (!b->fixed)
        kill(t, b->v, own);
    for (int32_t k = g->first[b->v]; b->fixed && k < g->first[b->v + 1]; k++)
        if (k != own)
            kill(t, b->v, k);
}

static void undo(tree *t, const branch *b)
{
    while (t->n_trail > b->undo) {
        t->dead[t->trail[--t->n_trail]] = 0;
        t->n_alive[b->v]++;
    }
}

// Returns whether the memory limit is kept if every node takes its remaining
// label with the least usage.
static int fits(tree *t)
{
    const dv_cgraph *g = &t->c->graph;
    int64_t now = 0;
    memset(t->least, 0, ((size_t)g->n_times + 1) * sizeof *t->least);
    for (int32_t v = 0; v < g->n_nodes; v++) {
        int64_t least = INT64_MAX;
        for (int32_t k = g->first[v]; k < g->first[v + 1]; k++)
            if (!t->dead[k] && g->usage[k] < least)
                least = g->usage[k];
        t->least[g->from[v]] += least;
        t->least[g->to[v]] -= least;
    }
    for (int32_t i = 0; i < g->n_times; i++) {
        now += t->least[i];
        if (now > g->room[i])
            return 0;
    }
    t->c->relax.work += g->n_times + g->first[g->n_nodes];
    return 1;
}

// Chooses the node to branch on: the one that can save most at the time that
// exceeds the memory limit most; if no time does, the one whose usage is most
// expensive, else the one with most labels and edges. Returns 0 if all nodes
// have a single label left.
static int choose(tree *t, branch *out)
{
    dv_chooser *c = t->c;
    const dv_cgraph *g = &c->graph;
    const int32_t *x = c->relax.x;
    int32_t worst = -1;
    double best = -1, excess = 0;
    for (int32_t i = 0; i < g->n_times; i++)
        if ((double)(c->ascent.used[i] - g->room[i]) > excess) {
            excess = (double)(c->ascent.used[i] - g->room[i]);
            worst = i;
        }
    for (int32_t v = 0; v < g->n_nodes; v++) {
        int64_t own = g->usage[g->first[v] + x[v]], low = own, high = own;
        if (t->n_alive[v] < 2)
            continue;
        for (int32_t k = g->first[v]; k < g->first[v + 1]; k++)
            if (!t->dead[k]) {
                low = g->usage[k] < low ? g->usage[k] : low;
                high = g->usage[k] > high ? g->usage[k] : high;
            }
        double price = c->relax.prefix[g->to[v]] - c->relax.prefix[g->from[v]];
        double degree = g->adj_first[v + 1] - g->adj_first[v];
        double score = 1e-9 * t->n_alive[v] * (1 + degree) +
                       (double)(high - low) * price * c->relax.quantum;
        if (worst >= 0)
            score = g->from[v] <= worst && worst < g->to[v]
                        ? 1 + (double)(own - low)
                        : 0;
        if (score > best) {
            best = score;
            *out = (branch){.v = v, .label = x[v], .fixed = worst < 0};
        }
    }
    return best >= 0;
}

// Computes a bound of the current subproblem and, unless the bound excludes a
// better choice, pushes a branch. Returns -1 if out of memory.
static int explore(tree *t)
{
    dv_chooser *c = t->c;
    branch b;
    c->nodes++;
    if (!fits(t))
        return 0;
    double bound = dv_chooser_ascend(c, ROUNDS, ROUNDS);
    if (bound >= c->best_cost || bound == INFINITY || !choose(t, &b))
        return 0;
    b.bound = bound;
    b.undo = t->n_trail;
    branch *to = DV_PUSH(&c->graph.arena, branch, t->stack, t->depth, t->cap);
    if (!to)
        return -1;
    *to = b;
    apply(t, to);
    return 1;
}

dv_status dv_chooser_branch(dv_chooser *c, dv_diag *diag)
{
    dv_cgraph *g = &c->graph;
    dv_arena *arena = &g->arena;
    tree t = {.c = c};
    t.dead = DV_NEW(arena, char, g->first[g->n_nodes]);
    t.trail = DV_NEW(arena, int32_t, g->first[g->n_nodes]);
    t.n_alive = DV_NEW(arena, int32_t, g->n_nodes);
    t.least = DV_NEW(arena, int64_t, g->n_times + 1);
    if (!t.dead || !t.trail || !t.n_alive || !t.least)
        return dv_nomem(diag);
    for (int32_t v = 0; v < g->n_nodes; v++)
        t.n_alive[v] = dv_n_labels(g, v);
    c->relax.dead = t.dead;
    int pushed = explore(&t);
    while (t.depth > 0 && pushed >= 0 && !dv_chooser_done(c)) {
        if (pushed == 0) {
            branch *b = &t.stack[t.depth - 1];
            undo(&t, b);
            dv_trws_reset(c->relax.trws);
            if (b->second || b->bound >= c->best_cost) {
                t.depth--;
                continue;
            }
            b->second = 1;
            b->fixed = !b->fixed;
            apply(&t, b);
        }
        pushed = explore(&t);
    }
    c->relax.dead = NULL;
    if (pushed < 0)
        return dv_nomem(diag);
    // Each branch on the stack has an unexplored part, whose bound limits what
    // is proven; with an empty stack, the best choice is proven optimal.
    double bound = c->best_cost;
    for (int32_t i = 0; i < t.depth; i++)
        bound = fmin(bound, t.stack[i].bound);
    c->best_bound = fmax(c->best_bound, bound);
    return DV_OK;
}
