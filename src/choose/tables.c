// Stores equal tables once: a hash table with linear probing.
#include "choose/choose.h"
#include <string.h>

enum { FIRST_SLOTS = 1 << 10 };

int dv_ctables_init(dv_ctables *t, dv_arena *arena)
{
    *t = (dv_ctables){.arena = arena, .n_slots = FIRST_SLOTS};
    t->slots = DV_NEW(arena, int32_t, t->n_slots);
    return t->slots != NULL;
}

// Returns a hash of a table, from four independent chains of multiplications,
// which the processor can overlap.
static uint64_t hash_of(const double *entries, int32_t rows, int32_t columns)
{
    uint64_t h[4] = {(uint64_t)rows, (uint64_t)columns, 1, 2}, bits;
    int64_t n = (int64_t)rows * columns;
    for (int64_t i = 0; i < n; i++) {
        memcpy(&bits, &entries[i], sizeof bits);
        h[i & 3] = (h[i & 3] ^ bits) * 0x9e3779b97f4a7c15u;
        h[i & 3] ^= h[i & 3] >> 32;
    }
    uint64_t all = h[0] + 3 * h[1] + 5 * h[2] + 7 * h[3];
    all = (all ^ all >> 29) * 0xbf58476d1ce4e5b9u;
    return all ^ all >> 32;
}

// Returns the hash slot of an equal table or, if there is none, the free slot
// for this one.
static int32_t *find(const dv_ctables *t, const dv_ctable *k)
{
    uint32_t mask = t->n_slots - 1, at = (uint32_t)k->hash & mask;
    for (; t->slots[at]; at = (at + 1) & mask) {
        const dv_ctable *d = &t->tables[t->slots[at] - 1];
        if (d->hash == k->hash && d->rows == k->rows &&
            d->columns == k->columns &&
            !memcmp(d->entries, k->entries,
                    (size_t)dv_ctable_size(k) * sizeof *k->entries))
            break;
    }
    return &t->slots[at];
}

// Doubles the number of slots. Returns 0 if out of memory.
static int grow(dv_ctables *t)
{
    t->n_slots *= 2;
    t->slots = DV_NEW(t->arena, int32_t, t->n_slots);
    for (int32_t i = 0; t->slots && i < t->n; i++)
        *find(t, &t->tables[i]) = i + 1;
    return t->slots != NULL;
}

double *dv_ctables_add(dv_ctables *t, const double *entries, int32_t rows,
                       int32_t columns)
{
    dv_ctable key = {.rows = rows, .columns = columns, .uses = 1};
    size_t bytes = (size_t)dv_ctable_size(&key) * sizeof *entries;
    key.entries = (double *)entries;
    key.hash = hash_of(entries, rows, columns);
    int32_t *slot = find(t, &key);
    if (*slot) {
        t->tables[*slot - 1].uses++;
        return t->tables[*slot - 1].entries;
    }
    key.entries = dv_arena_alloc(t->arena, 1, bytes);
    dv_ctable *d = DV_PUSH(t->arena, dv_ctable, t->tables, t->n, t->cap);
    if (!key.entries || !d)
        return NULL;
    memcpy(key.entries, entries, bytes);
    *d = key;
    *slot = t->n;
    if ((uint32_t)t->n > t->n_slots / 2 && !grow(t))
        return NULL;
    return d->entries;
}
