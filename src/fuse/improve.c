// Large-neighbourhood search: dissolve a few groups that touch each other,
// merge their ops again with noisy gains, and keep the partition if it is not
// much worse.
#include "fuse/fuse.h"
#include "base/random.h"
#include <string.h>

typedef struct search {
    dv_fuser *f;
    dv_fuse_parts *now, next;
    dv_fuse_answer *best, answer;
    char *loose;  // by unit: its cost is to be found
    double total; // of `now`
} search;

static void dissolve(search *s, int32_t u)
{
    dv_fuse_parts *p = &s->next;
    DV_FUSE_EACH(o, p->sets + (size_t)u * (size_t)s->f->g->words,
                 s->f->g->words)
    s->loose[o] = 1;
    dv_fuse_dissolve(s->f, p, u);
}

// Splits a random unit (group of ops) and some units around it into single ops:
// often few units, sometimes many.
static void disturb(search *s)
{
    // Twice the number of ops: the units found before, and those that touch one
    // more unit.
    int32_t units[2 * DV_FUSE_MOST_OPS];
    uint64_t *random = &s->f->random;
    int32_t u = s->next.of[dv_draw_below(random, s->f->g->n)];
    int32_t more = dv_draw_below(random, dv_draw_below(random, 4) ? 4 : 16);
    int32_t n = dv_fuse_touching(s->f, &s->next, u, units);
    dissolve(s, u);
    while (more-- && n) {
        int32_t i = dv_draw_below(random, n), v = units[i];
        units[i] = units[--n];
        if (s->loose[v]) // it was found twice, and is dissolved
            continue;
        if (more > 2)
            n += dv_fuse_touching(s->f, &s->next, v, units + n);
        if (n > DV_FUSE_MOST_OPS)
            n = DV_FUSE_MOST_OPS;
        dissolve(s, v);
    }
}

// Returns 1 if node o can leave its unit without making a cycle: it reads no
// result of the unit's other nodes, or none of them reads its result.
static int can_leave(const search *s, int32_t o)
{
    const dv_fuse_graph *g = s->f->g;
    const dv_fuse_node *x = &g->nodes[o];
    const dv_fuse_edge *t = &g->edges[x->output];
    int reads = 0, is_read = 0;
    for (int32_t k = 0; k < x->n_inputs; k++) {
        int32_t from = g->edges[x->inputs[k]].producer;
        reads |= from >= 0 && s->next.of[from] == s->next.of[o];
    }
    for (int32_t i = 0; i < t->n_readers; i++)
        is_read |= s->next.of[t->readers[i]] == s->next.of[o];
    return !reads || !is_read;
}

// Moves a random node from its unit to another unit with which it shares a
// tensor, or makes it a unit of its own.
static void move_node(search *s)
{
    int32_t units[DV_FUSE_MOST_OPS];
    dv_fuse_parts *p = &s->next;
    int32_t o = dv_draw_below(&s->f->random, s->f->g->n);
    if (!can_leave(s, o)) {
        disturb(s);
        return;
    }
    int32_t rest = dv_fuse_take_out(s->f, p, o);
    int32_t n = dv_fuse_touching(s->f, p, o, units);
    int32_t to = n ? units[dv_draw_below(&s->f->random, n)] : o;
    s->loose[o] = 1;
    if (rest >= 0)
        s->loose[rest] = 1;
    if (to != rest && to != o && dv_fuse_can_join(s->f, p, o, to))
        dv_fuse_join(s->f, p, o, to);
}

// Merges random units that were dissolved, even if that costs more: two groups
// may pay off only because one retains a tensor for the other, which greedy
// merging does not consider.
static void join_some(search *s)
{
    int32_t units[DV_FUSE_MOST_OPS], loose[DV_FUSE_MOST_OPS], n_loose = 0;
    dv_fuse_parts *p = &s->next;
    uint64_t *random = &s->f->random;
    for (int32_t o = 0; o < s->f->g->n; o++)
        if (s->loose[o])
            loose[n_loose++] = o;
    for (int32_t left = dv_draw_below(random, n_loose + 1); left; left--) {
        int32_t u = p->of[loose[dv_draw_below(random, n_loose)]];
        int32_t n = dv_fuse_touching(s->f, p, u, units);
        int32_t to = n ? units[dv_draw_below(random, n)] : u;
        if (s->loose[to] && to != u && dv_fuse_can_join(s->f, p, u, to))
            dv_fuse_join(s->f, p, u, to);
    }
}

// Changes the partition randomly, and keeps the result if it is good enough.
static void try_once(search *s)
{
    dv_fuser *f = s->f;
    int32_t n = f->g->n;
    double noise = dv_draw_below(&f->random, 3) ? 0.5 : 0.05;
    dv_fuse_parts_copy(&s->next, s->now, f->g);
    memset(s->loose, 0, (size_t)n);
    if (dv_draw_below(&f->random, 4) == 0) {
        disturb(s);
        join_some(s);
        if (dv_draw_below(&f->random, 2))
            noise = DV_FUSE_NO_MERGING;
    } else if (dv_draw_below(&f->random, 2))
        move_node(s);
    else
        disturb(s);
    dv_fuse_merge(f, &s->next, s->loose, noise);
    dv_fuse_retain(f, &s->next, &s->answer);
    double total = s->answer.total;
    double tolerance = 0.01 * dv_draw_real(&f->random);
    if (!f->failed && total < s->best->total)
        dv_fuse_answer_copy(s->best, &s->answer, f->g);
    if (total <= s->total || total <= s->best->total * (1 + tolerance)) {
        dv_fuse_parts_copy(s->now, &s->next, f->g);
        s->total = total;
    }
}

void dv_fuse_improve(dv_fuser *f, dv_fuse_parts *parts, dv_fuse_answer *best)
{
    search s = {.f = f, .now = parts, .best = best, .total = best->total};
    s.loose = DV_NEW(&f->arena, char, f->g->n);
    if (!s.loose || !dv_fuse_parts_init(&s.next, f) ||
        !dv_fuse_answer_init(&s.answer, f)) {
        f->failed = 1;
        return;
    }
    while (!dv_fuse_spent(f) && best->total > f->bound * (1 + DV_FUSE_EQUAL))
        try_once(&s);
}
