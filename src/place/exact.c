// Solver exact: branch and bound over placements of items (buffers).
//
// Items are placed in order of rising address. In a layout where no item can be
// moved down, every item is at the lowest address above all previously placed
// items that overlap it in time, or at the address of a parent or child (an
// item with which it may share bytes). So each item has one candidate address,
// plus one for each placed parent or child; if parents or children have other
// alignments, or if there are items with fixed addresses, also the addresses
// that suit those. Any subset of items may remain unplaced: every node of the
// search tree is an answer.
//
// A node is pruned when the placed weight plus the weight that can still be
// gained, at the prices of bound.c, cannot beat the best answer. If the search
// ends before its effort is spent, the best answer is optimal.
#include "base/math.h"
#include "place/place.h"
#include <string.h>

enum { MAX_CANDIDATES = 64 };

typedef struct branch {
    const dv_task *t;
    const dv_neighbours *neighbours;
    const dv_prices *prices;
    dv_effort *effort;
    dv_answer *best;
    int64_t *at;
    int32_t *order; // items that may be placed, heaviest first
    int32_t n_order;
    // For each item (a buffer to place): its weight minus the price of the
    // memory that it takes, at the prices per byte of bound.c.
    double *worth;
    // For each item: a common multiple of its alignment and of those of all
    // items with which it may share an address by in-place reuse.
    int64_t *common;
    // Price of all bytes that no fixed item (with an address given by the
    // caller) occupies, plus the weight of the fixed items. Together with the
    // positive values of `worth` it is an upper bound of the weight that can be
    // placed.
    double reserve;
    int64_t kept; // weight placed so far, including fixed items
    int stopped;
} branch;

// Returns the lowest address >= `from` with the given alignment at which item i
// overlaps no fixed item (with a given address), or -1 if it would exceed the
// capacity.
static int64_t above(const branch *b, int32_t i, int64_t from, int64_t align)
{
    const dv_item *it = &b->t->items[i];
    int64_t at = dv_round_up(from, align);
    // The fixed items (with given addresses) are sorted by rising address.
    for (int32_t k = 0; k < b->t->n_fixed; k++) {
        const dv_item *f = &b->t->items[b->t->fixed[k]];
        if (f->start < it->end && it->start < f->end &&
            f->fixed < at + it->size && at < f->fixed + f->size)
            at = dv_round_up(f->fixed + f->size, align);
    }
    return at + it->size <= b->t->capacity ? at : -1;
}

// Returns the highest end address of all placed items that overlap item i in
// time and have no address given by the caller.
static int64_t ground(const branch *b, int32_t i)
{
    int64_t top = 0;
    for (int64_t k = b->neighbours->first[i]; k < b->neighbours->first[i + 1];
         k++) {
        int32_t v = b->neighbours->items[k], j = v < 0 ? ~v : v;
        if (b->at[j] >= 0 && b->t->items[j].fixed < 0)
            top = dv_max_i64(top, b->at[j] + b->t->items[j].size);
    }
    return top;
}

// Returns whether item i may be at `at`, the address of its parent or child j,
// which is placed already and with which it may share bytes.
static int fits_on(const branch *b, int32_t i, int64_t at, int32_t j)
{
    const dv_item *it = &b->t->items[i];
    if (at % it->align || at + it->size > b->t->capacity)
        return 0;
    for (int64_t k = b->neighbours->first[i]; k < b->neighbours->first[i + 1];
         k++) {
        int32_t v = b->neighbours->items[k], o = v < 0 ? ~v : v;
        if (o != j && b->at[o] >= 0 && b->at[o] < at + it->size &&
            at < b->at[o] + b->t->items[o].size)
            return 0;
    }
    return 1;
}

static void put(int64_t *list, int *n, int64_t at)
{
    for (int k = 0; k < *n; k++)
        if (list[k] == at)
            return;
    if (at >= 0 && *n < MAX_CANDIDATES)
        list[(*n)++] = at;
}

static int candidates(const branch *b, int32_t i, int64_t *list)
{
    const dv_item *it = &b->t->items[i];
    const int32_t *links = b->t->links + it->parents;
    int32_t n_links = it->n_parents + it->n_children;
    int64_t floor = ground(b, i);
    int n = 0;
    put(list, &n, above(b, i, floor, it->align));
    if (n_links == 0)
        return n;
    if (b->common[i] != it->align)
        put(list, &n, above(b, i, floor, b->common[i]));
    for (int32_t k = 0; k < n_links; k++) {
        int64_t at = b->at[links[k]];
        if (at >= 0 && fits_on(b, i, at, links[k]))
            put(list, &n, at);
    }
    for (int32_t k = 0; k < b->t->n_fixed; k++) {
        const dv_item *f = &b->t->items[b->t->fixed[k]];
        int64_t from = dv_max_i64(floor, f->fixed + f->size);
        put(list, &n, above(b, i, from, it->align));
        put(list, &n, above(b, i, from, b->common[i]));
    }
    return n;
}

// Returns whether item i is not placed yet and still fits at one of its
// candidate addresses.
static int open(const branch *b, int32_t i)
{
    int64_t list[MAX_CANDIDATES];
    return b->at[i] < 0 && candidates(b, i, list) > 0;
}

static int can_be_pruned(const branch *b)
{
    int64_t plain = b->kept;
    double priced = b->reserve;
    for (int32_t k = 0; k < b->n_order; k++) {
        int32_t i = b->order[k];
        if (b->at[i] >= 0) {
            priced += b->worth[i];
        } else if (open(b, i)) {
            plain += b->t->items[i].weight;
            priced += b->worth[i] > 0 ? b->worth[i] : 0;
        }
    }
    return plain <= b->best->value ||
           priced * (1 + 1e-12) < (double)b->best->value + 1;
}

// Copies the addresses of the placed items to `at`, without those of groups
// that are only partly placed (a group is placed as a whole or not at all), and
// returns the total weight.
static int64_t counted(const branch *b, int64_t *at)
{
    const dv_task *t = b->t;
    memcpy(at, b->at, (size_t)t->n * sizeof *at);
    dv_drop_broken_groups(t, at);
    return dv_placed_weight(t, at);
}

static void note_answer(branch *b, int64_t *scratch)
{
    if (b->kept <= b->best->value)
        return;
    int64_t value = counted(b, scratch);
    if (value <= b->best->value)
        return;
    b->best->value = value;
    memcpy(b->best->at, scratch, (size_t)b->t->n * sizeof *scratch);
}

// Tries all ways to place further items at addresses >= `from`. Items that
// share no bytes with others (no parents or children) are placed at equal
// addresses in list order only, to avoid permutations of the same layout.
static void branch_from(branch *b, int64_t from, int32_t last, int64_t *scratch)
{
    b->effort->nodes++;
    b->effort->left -= 4 * (b->n_order + 1);
    b->stopped |= b->effort->left < 0 || dv_deadline_passed(b->effort);
    note_answer(b, scratch);
    if (b->stopped || can_be_pruned(b))
        return;
    for (int32_t k = 0; k < b->n_order && !b->stopped; k++) {
        int32_t i = b->order[k];
        const dv_item *it = &b->t->items[i];
        int64_t list[MAX_CANDIDATES];
        int n = b->at[i] < 0 ? candidates(b, i, list) : 0;
        for (int c = 0; c < n; c++) {
            if (list[c] < from || (list[c] == from && k < last &&
                                   it->n_parents + it->n_children == 0))
                continue;
            b->at[i] = list[c];
            b->kept += it->weight;
            branch_from(b, list[c], k, scratch);
            b->kept -= it->weight;
            b->at[i] = -1;
        }
    }
}

// Sets common[i] to the least common multiple of the alignments of all items
// that may share an address with item i, directly or through others (in-place
// reuse), unless that exceeds the capacity.
static void find_common(branch *b)
{
    const dv_task *t = b->t;
    for (int32_t i = 0; i < t->n; i++)
        b->common[i] = t->items[i].align;
    for (int again = 1; again;) {
        again = 0;
        for (int32_t i = 0; i < t->n; i++) {
            const dv_item *it = &t->items[i];
            for (int32_t k = 0; k < it->n_parents + it->n_children; k++) {
                int64_t other = b->common[t->links[it->parents + k]];
                int64_t all = b->common[i] / dv_gcd(b->common[i], other);
                if (!dv_mul_i64(&all, all, other) || all > t->capacity)
                    continue;
                again |= all != b->common[i];
                b->common[i] = all;
            }
        }
    }
}

static void order_items(branch *b)
{
    const dv_task *t = b->t;
    for (int32_t i = 0; i < t->n; i++) {
        b->worth[i] =
            (double)t->items[i].weight - dv_item_price(b->prices, t, i);
        b->at[i] = t->items[i].fixed;
        if (t->items[i].fixed >= 0)
            b->kept += t->items[i].weight;
        if (!t->items[i].in_play)
            continue;
        int32_t k = b->n_order++;
        for (; k > 0 && t->items[b->order[k - 1]].weight < t->items[i].weight;
             k--)
            b->order[k] = b->order[k - 1];
        b->order[k] = i;
    }
    b->reserve = (double)b->kept;
    for (int32_t k = 0; k < b->prices->n; k++)
        b->reserve += b->prices->price[k] * (double)b->prices->room[k];
}

int dv_exact(const dv_task *t, const dv_neighbours *neighbours,
             const dv_prices *prices, dv_effort *effort, dv_answer *io,
             int *proven)
{
    dv_arena a = {0};
    branch b = {.t = t,
                .neighbours = neighbours,
                .prices = prices,
                .effort = effort,
                .best = io,
                .at = DV_NEW(&a, int64_t, t->n),
                .order = DV_NEW(&a, int32_t, t->n),
                .worth = DV_NEW(&a, double, t->n),
                .common = DV_NEW(&a, int64_t, t->n)};
    int64_t *scratch = DV_NEW(&a, int64_t, t->n);
    int ok = b.at && b.order && b.worth && b.common && scratch;
    if (ok) {
        find_common(&b);
        order_items(&b);
        branch_from(&b, 0, 0, scratch);
    }
    *proven = ok && !b.stopped;
    dv_arena_free(&a);
    return ok;
}
