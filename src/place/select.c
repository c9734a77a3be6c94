// Chooses which items (buffers) to place, ignoring addresses, by a beam search
// through time.
//
// Items are decided one by one in order of their first section (tick where the
// set of live items is maximal). A state is the set of chosen items that are
// still live, and the sum of their sizes; states with equal sets are merged. A
// state's score is the weight chosen so far minus the price of the future
// sections of its live items, so that states that filled cheap sections compare
// fairly with states that filled expensive ones. A child may reuse the bytes of
// a live parent of its size. The best `width` states survive each step; with a
// wide enough beam the result is optimal.
#include "place/place.h"
#include <string.h>

// A list of chosen items, linked backwards: `before` is the index of the item
// chosen before this one in the same state of the search.
typedef struct node {
    int32_t item, before;
    int32_t over; // the item whose address it takes over, or -1
} node;

typedef struct state {
    double score;
    int64_t load;
    uint64_t hash; // hash of the set of chosen items that are live
    int32_t trail; // index in `nodes` of the last chosen item, or -1
} state;

typedef struct beam {
    const dv_task *t;
    const dv_prices *p;
    double share; // fraction of the free bytes that may be used
    int32_t width, n_states, max_nodes, n_nodes;
    state *states;
    // Bit sets of the chosen items that are still live, `words` words per
    // state.
    uint64_t *sets;
    int32_t words;
    node *nodes;
    int32_t *table; // hash table of state numbers by state hash
    int32_t table_size;
    int32_t *order; // items by first time section
    // Bit number of each item in `sets`; items that are live at the same time
    // have different ones.
    int32_t *slot;
    int32_t n_order;
    int32_t *by_last; // the same items by last time section
    double *scores;
    const char *offered; // offered[i]: item i may be chosen
    // 1 if the beam search dropped states, so that the result may not be
    // optimal.
    int pruned;
} beam;

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t size_of(const beam *b, int32_t i)
{
    return dv_round_up(b->t->items[i].size, b->t->unit);
}

// Sorts the items by `key`, their first or last time section (a tick where the
// set of live items is maximal), with a counting sort.
static void sort_by(const beam *b, const int32_t *key, int32_t *count,
                    const int32_t *items, int32_t *out)
{
    memset(count, 0, (size_t)(b->p->n + 2) * sizeof *count);
    for (int32_t k = 0; k < b->n_order; k++)
        count[key[items[k]] + 1]++;
    for (int32_t s = 0; s <= b->p->n; s++)
        count[s + 1] += count[s];
    for (int32_t k = 0; k < b->n_order; k++)
        out[count[key[items[k]]]++] = items[k];
}

// Gives every item a bit number that no item live at the same time has, so that
// the live items of a state are a small bit set. Returns the number of bits.
static int32_t assign_bits(beam *b, int32_t *free_slots)
{
    int32_t n = 0, n_free = 0, ended = 0;
    for (int32_t k = 0; k < b->n_order; k++) {
        int32_t i = b->order[k];
        for (; b->p->last[b->by_last[ended]] <= b->p->begin[i]; ended++)
            free_slots[n_free++] = b->slot[b->by_last[ended]];
        b->slot[i] = n_free ? free_slots[--n_free] : n++;
    }
    return n;
}

static int prepare(beam *b, const char *keep, dv_arena *a)
{
    const dv_task *t = b->t;
    int32_t *items = DV_NEW(a, int32_t, t->n);
    int32_t *count = DV_NEW(a, int32_t, b->p->n + 2);
    b->order = DV_NEW(a, int32_t, t->n + 1);
    b->by_last = DV_NEW(a, int32_t, t->n + 1);
    b->slot = DV_NEW(a, int32_t, t->n);
    if (!items || !count || !b->order || !b->by_last || !b->slot)
        return 0;
    for (int32_t i = 0; i < t->n; i++)
        if (keep[i] && b->p->begin[i] < b->p->last[i])
            items[b->n_order++] = i;
    sort_by(b, b->p->begin, count, items, b->order);
    sort_by(b, b->p->last, count, items, b->by_last);
    int32_t bits = b->n_order ? assign_bits(b, items) : 0;
    b->words = bits / 64 + 1;
    while (b->width > 16 && (int64_t)b->width * b->n_order > (8 << 20))
        b->width /= 2;
    for (b->table_size = 64; b->table_size < 4 * b->width;)
        b->table_size *= 2;
    size_t room = 2 * (size_t)b->width;
    b->max_nodes = b->width * (b->n_order + 1);
    b->states = DV_NEW(a, state, room);
    b->sets = DV_NEW(a, uint64_t, room * (size_t)b->words);
    b->nodes = DV_NEW(a, node, b->max_nodes);
    b->table = DV_NEW(a, int32_t, b->table_size);
    b->scores = DV_NEW(a, double, room);
    return b->states && b->sets && b->nodes && b->table && b->scores;
}

static uint64_t *set_of(const beam *b, int32_t s)
{
    return b->sets + (size_t)s * (size_t)b->words;
}

static void retire(beam *b, int32_t i)
{
    uint64_t bit = (uint64_t)1 << (b->slot[i] % 64),
             hash = mix((uint64_t)i + 1);
    int32_t word = b->slot[i] / 64;
    int64_t size = size_of(b, i);
    for (int32_t s = 0; s < b->n_states; s++) {
        uint64_t *w = set_of(b, s) + word;
        if (!(*w & bit))
            continue;
        *w &= ~bit;
        b->states[s].load -= size;
        b->states[s].hash ^= hash;
    }
}

// Moves the beam search past time section k (a tick where the set of live items
// is maximal): adds its price back to the scores of all states, because a score
// subtracts only the price of future sections.
static void leave(beam *b, int32_t k)
{
    for (int32_t s = 0; s < b->n_states; s++)
        b->states[s].score += b->p->price[k] * (double)b->states[s].load;
}

static void drop_state(beam *b, int32_t s)
{
    b->n_states--;
    b->states[s] = b->states[b->n_states];
    memcpy(set_of(b, s), set_of(b, b->n_states),
           (size_t)b->words * sizeof *b->sets);
}

// Merges states of the beam search with the same set of live items: only the
// best one survives.
static void merge(beam *b)
{
    uint64_t mask = (uint64_t)b->table_size - 1;
    memset(b->table, 0xff, (size_t)b->table_size * sizeof *b->table);
    for (int32_t s = 0; s < b->n_states; s++) {
        uint64_t h = b->states[s].hash & mask;
        while (b->table[h] >= 0 &&
               b->states[b->table[h]].hash != b->states[s].hash)
            h = (h + 1) & mask;
        int32_t other = b->table[h];
        if (other < 0) {
            b->table[h] = s;
            continue;
        }
        if (b->states[s].score > b->states[other].score)
            b->states[other] = b->states[s];
        drop_state(b, s--);
    }
}

// Returns the k-th largest score (k from 0) by quickselect.
static double kth_largest(double *v, int32_t n, int32_t k)
{
    int32_t lo = 0, hi = n - 1;
    while (lo < hi) {
        double mid = v[lo + (hi - lo) / 2];
        int32_t l = lo, r = hi;
        while (l <= r) {
            while (v[l] > mid)
                l++;
            while (v[r] < mid)
                r--;
            if (l <= r) {
                double x = v[l];
                v[l++] = v[r];
                v[r--] = x;
            }
        }
        if (k <= r)
            hi = r;
        else if (k >= l)
            lo = l;
        else
            break;
    }
    return v[k];
}

static void prune(beam *b)
{
    if (b->n_states <= b->width)
        return;
    b->pruned = 1;
    for (int32_t s = 0; s < b->n_states; s++)
        b->scores[s] = b->states[s].score;
    double least = kth_largest(b->scores, b->n_states, b->width - 1);
    for (int32_t s = 0; s < b->n_states; s++)
        if (b->states[s].score < least)
            drop_state(b, s--);
    b->n_states = b->n_states < b->width ? b->n_states : b->width;
}

static int is_in(const beam *b, int32_t s, int32_t i)
{
    return (int)(set_of(b, s)[b->slot[i] / 64] >> (b->slot[i] % 64) & 1);
}

// Returns a parent of item i (an item whose address it may take over) that is
// chosen and live in state s and has the same size, or -1.
static int32_t parent_in(const beam *b, int32_t s, int32_t i)
{
    const dv_item *it = &b->t->items[i];
    for (int32_t k = 0; k < it->n_parents; k++) {
        int32_t p = b->t->links[it->parents + k];
        const dv_item *q = &b->t->items[p];
        if (b->offered[p] && q->size == it->size && q->align % it->align == 0 &&
            is_in(b, s, p))
            return p;
    }
    return -1;
}

static void flip(beam *b, int32_t s, int32_t i, int64_t size)
{
    b->states[s].load += size;
    b->states[s].hash ^= mix((uint64_t)i + 1);
    set_of(b, s)[b->slot[i] / 64] ^= (uint64_t)1 << (b->slot[i] % 64);
}

// Extends every state of the beam search by the decision on item i: without it
// and, if enough bytes are free when it starts or those of a parent can be
// taken over, also with it.
static void decide(beam *b, int32_t i)
{
    int64_t size = size_of(b, i);
    int32_t begin = b->p->begin[i], first = b->p->first[i];
    int64_t room = (int64_t)((double)b->p->room[begin] * b->share);
    double worth = (double)b->t->items[i].weight - dv_item_price(b->p, b->t, i);
    double alone = (b->p->cost[first] - b->p->cost[begin]) * (double)size;
    int32_t n = b->n_states;
    for (int32_t s = 0; s < n && b->n_nodes < b->max_nodes; s++) {
        int32_t over = parent_in(b, s, i);
        if (over < 0 && b->states[s].load + size > room)
            continue;
        int32_t to = b->n_states++;
        b->states[to] = b->states[s];
        memcpy(set_of(b, to), set_of(b, s), (size_t)b->words * sizeof *b->sets);
        if (over >= 0)
            flip(b, to, over, -size);
        flip(b, to, i, size);
        state *x = &b->states[to];
        x->score += worth - (over < 0 ? alone : 0);
        b->nodes[b->n_nodes] = (node){i, x->trail, over};
        x->trail = b->n_nodes++;
    }
    merge(b);
    prune(b);
}

static void walk(beam *b)
{
    int32_t now = 0, ended = 0;
    for (int32_t k = 0; k < b->n_order; k++) {
        int32_t i = b->order[k];
        for (; now < b->p->begin[i]; now++) {
            for (; b->p->last[b->by_last[ended]] <= now; ended++)
                retire(b, b->by_last[ended]);
            leave(b, now);
        }
        for (; b->p->last[b->by_last[ended]] <= now; ended++)
            retire(b, b->by_last[ended]);
        decide(b, i);
    }
    for (; now < b->p->n; now++) {
        for (; ended < b->n_order && b->p->last[b->by_last[ended]] <= now;
             ended++)
            retire(b, b->by_last[ended]);
        leave(b, now);
    }
}

int dv_select(const dv_task *t, const dv_prices *p, double share, int32_t width,
              dv_effort *effort, dv_choice *io)
{
    dv_arena a = {0};
    beam b = {.t = t, .p = p, .share = share, .width = width};
    b.offered = io->keep;
    int ok = prepare(&b, io->keep, &a);
    if (ok) {
        b.states[0] = (state){.trail = -1};
        b.n_states = 1;
        walk(&b);
        effort->nodes += b.n_nodes;
        effort->left -= 2 * (int64_t)b.n_nodes;
        int32_t best = 0;
        for (int32_t s = 1; s < b.n_states; s++)
            if (b.states[s].score > b.states[best].score)
                best = s;
        for (int32_t k = 0; k < b.n_order; k++)
            io->keep[b.order[k]] = 0;
        io->complete = !b.pruned && b.n_nodes < b.max_nodes;
        for (int32_t k = b.states[best].trail; k >= 0; k = b.nodes[k].before) {
            io->keep[b.nodes[k].item] = 1;
            io->over[b.nodes[k].item] = b.nodes[k].over;
        }
    }
    dv_arena_free(&a);
    return ok;
}
