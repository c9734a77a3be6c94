// Solver anneal: simulated annealing over the order in which items (buffers to
// place) are stacked, after Torch-Spyre's solver (and Imanishi and Xu).
//
// A state is an order of the items. They are stacked in that order: each item
// goes on top of all earlier items that overlap it in time, or to the address
// of a parent or child (an item with which it may share bytes) if no other item
// is there. An item that would exceed the capacity is not placed, and neither
// is any later item that overlaps an unplaced one. The quality is the sum over
// placed items of bytes times uses, with half a use more if the first use
// writes. A step moves one item to another position in the order; worse orders
// are accepted with a probability that falls with the temperature, in four
// cycles. The start is the order of first fit's addresses.
#include "base/random.h"
#include "place/place.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CYCLES = 4, LEAST_STEPS = 2000, MOST_STEPS = 10000 };

typedef struct walk {
    const dv_task *t;
    const dv_neighbours *neighbours;
    dv_effort *effort;
    uint64_t rng;
    int32_t n;
    int32_t *order;
    int64_t *at, *best_at;
    // For each item (a buffer to place): 1 if it does not fit when items are
    // stacked in the current order.
    char *gone;
    // For each item, 1 if the current stacking has already placed it, or found
    // that it does not fit.
    char *done;
} walk;

// Returns the lowest address >= `at` at which the item overlaps no fixed item
// (one whose address the caller gives).
static int64_t clear_of_fixed(const walk *w, const dv_item *it, int64_t at)
{
    for (int32_t k = 0; k < w->t->n_fixed; k++) {
        const dv_item *f = &w->t->items[w->t->fixed[k]];
        if (f->start < it->end && it->start < f->end &&
            f->fixed < at + it->size && at < f->fixed + f->size)
            at = dv_round_up(f->fixed + f->size, it->align);
    }
    return at;
}

// Returns the address at which item i is stacked: on top of all items placed
// before it that overlap it in time, or at the address of a parent or child,
// with which it may share bytes. Returns -1 if it does not fit.
static int64_t stack(const walk *w, int32_t i)
{
    const dv_item *it = &w->t->items[i];
    int64_t top = 0, base = -1, others = 0;
    for (int64_t k = w->neighbours->first[i]; k < w->neighbours->first[i + 1];
         k++) {
        int32_t v = w->neighbours->items[k], j = v < 0 ? ~v : v;
        if (!w->done[j])
            continue;
        if (w->gone[j])
            return -1;
        int64_t end = w->at[j] + w->t->items[j].size;
        top = end > top ? end : top;
        if (v < 0 && base < 0)
            base = w->at[j];
        else
            others = end > others ? end : others;
    }
    if (base >= others && base >= 0 && base % it->align == 0 &&
        base + it->size <= w->t->capacity &&
        clear_of_fixed(w, it, base) == base)
        return base;
    int64_t at = clear_of_fixed(w, it, dv_round_up(top, it->align));
    return at + it->size <= w->t->capacity ? at : -1;
}

// Stacks all items in the current order and returns the quality: the sum over
// placed items of bytes times uses.
static double stack_all(walk *w)
{
    double quality = 0;
    for (int32_t i = 0; i < w->t->n; i++) {
        w->at[i] = w->t->items[i].fixed;
        w->done[i] = w->gone[i] = 0;
    }
    for (int32_t k = 0; k < w->n; k++) {
        int32_t i = w->order[k];
        const dv_item *it = &w->t->items[i];
        w->at[i] = stack(w, i);
        w->gone[i] = w->at[i] < 0;
        w->done[i] = 1;
        int64_t cost =
            w->neighbours->first[i + 1] - w->neighbours->first[i] + 8;
        w->effort->nodes++;
        w->effort->left -= cost;
        if (!w->gone[i])
            quality += (double)it->doubled_uses * (double)it->size;
    }
    return quality;
}

static void shift(int32_t *order, int32_t from, int32_t to)
{
    int32_t v = order[from];
    if (from < to)
        memmove(order + from, order + from + 1,
                (size_t)(to - from) * sizeof *order);
    else
        memmove(order + to + 1, order + to,
                (size_t)(from - to) * sizeof *order);
    order[to] = v;
}

// Draws a position in the stacking order at random: with probability 1/2 that
// of an item that did not fit, if there is any, else any position.
static int32_t draw_item(walk *w, int32_t n_out)
{
    int want_out = n_out && dv_draw_below(&w->rng, 2);
    for (int tries = 0; tries < 64; tries++) {
        int32_t k = dv_draw_below(&w->rng, w->n);
        if (!want_out || w->gone[w->order[k]])
            return k;
    }
    return dv_draw_below(&w->rng, w->n);
}

static int32_t count_out(const walk *w)
{
    int32_t n = 0;
    for (int32_t k = 0; k < w->n; k++)
        n += w->gone[w->order[k]];
    return n;
}

static void anneal(walk *w)
{
    int64_t steps = 120 * (int64_t)w->n;
    steps = steps < LEAST_STEPS ? LEAST_STEPS : steps;
    steps = steps > MOST_STEPS ? MOST_STEPS : steps;
    double now = stack_all(w), best = now, usual = 0;
    int32_t n_out = count_out(w);
    memcpy(w->best_at, w->at, (size_t)w->t->n * sizeof *w->at);
    for (int64_t s = 0; s < steps && n_out && w->effort->left > 0; s++) {
        if (s % 16 == 0 && dv_deadline_passed(w->effort))
            break;
        double cycle = (double)(s * CYCLES % steps) / (double)steps;
        int32_t from = draw_item(w, n_out), to = dv_draw_below(&w->rng, w->n);
        shift(w->order, from, to);
        double then = stack_all(w), loss = now - then;
        if (loss != 0)
            usual = usual == 0 ? fabs(loss) : 0.99 * usual + 0.01 * fabs(loss);
        // The temperature: with these constants, a change that loses `usual`,
        // the average loss, is accepted with probability 80 % at the beginning
        // of a cycle and 1 % at its end.
        double heat = usual / (0.223 + 4.382 * cycle * cycle);
        double chance = dv_draw_real(&w->rng);
        if (loss > 0 && !(chance < dv_exp_negative(-loss / heat))) {
            shift(w->order, to, from);
            continue;
        }
        now = then;
        n_out = count_out(w);
        if (now > best) {
            best = now;
            memcpy(w->best_at, w->at, (size_t)w->t->n * sizeof *w->at);
        }
    }
}

static int prepare(walk *w, dv_arena *a)
{
    const dv_task *t = w->t;
    w->order = DV_NEW(a, int32_t, t->n);
    w->at = DV_NEW(a, int64_t, t->n);
    w->best_at = DV_NEW(a, int64_t, t->n);
    w->gone = DV_NEW(a, char, t->n);
    w->done = DV_NEW(a, char, t->n);
    dv_keyed *ranks = DV_NEW(a, dv_keyed, t->n);
    if (!w->order || !w->at || !w->best_at || !w->gone || !w->done || !ranks)
        return 0;
    dv_answer first = {w->at, 0};
    if (!dv_list_heuristic(t, DV_FIRST_FIT, &first))
        return 0;
    for (int32_t i = 0; i < t->n; i++)
        if (t->items[i].in_play)
            ranks[w->n++] = (dv_keyed){w->at[i] < 0 ? INT64_MAX : w->at[i], i};
    if (w->n)
        qsort(ranks, (size_t)w->n, sizeof *ranks, dv_by_key);
    for (int32_t k = 0; k < w->n; k++)
        w->order[k] = ranks[k].item;
    return 1;
}

int dv_anneal(const dv_task *t, const dv_neighbours *neighbours, uint64_t seed,
              dv_effort *effort, dv_answer *out)
{
    dv_arena a = {0};
    walk w = {.t = t, .neighbours = neighbours, .effort = effort, .rng = seed};
    int ok = prepare(&w, &a);
    if (ok) {
        anneal(&w);
        dv_drop_broken_groups(t, w.best_at);
        memcpy(out->at, w.best_at, (size_t)t->n * sizeof *out->at);
        out->value = dv_placed_weight(t, out->at);
    }
    dv_arena_free(&a);
    return ok;
}
