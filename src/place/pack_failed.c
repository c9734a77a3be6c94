// Failed states: a hash table of skylines.
//
//   open items  {b, d, e}     floors  3 3 0 4     have failed; so will
//                                     3 3 1 4     and whatever is higher
//
// Two sets of open items are taken for the same when their 64-bit hashes are.
#include "place/pack_valley.h"
#include <string.h>

typedef struct dv_failure {
    uint64_t hash;
    int32_t next; // in its bucket, -1: none
    int32_t n_secs;
    dv_span why;
    int64_t floors; // index in the pool
} failure;

enum {
    MAX_FAILURES = 1 << 20,
    MAX_POOL = 1 << 25 // floors
};

static int nowhere_higher(const int64_t *a, const int64_t *b, int32_t n)
{
    int higher = 0;
    for (int32_t i = 0; i < n; i++)
        higher |= a[i] > b[i];
    return !higher;
}

static inline int32_t *bucket_of(const dv_failed *f, uint64_t hash)
{
    return &f->bucket[hash & (uint64_t)(f->max - 1)];
}

int dv_failed_find(const dv_failed *f, uint64_t hash, const int64_t *floors,
                   int32_t n_secs, dv_span *why)
{
    for (int32_t k = *bucket_of(f, hash); k >= 0; k = f->all[k].next) {
        const failure *x = &f->all[k];
        if (x->hash == hash && x->n_secs == n_secs &&
            nowhere_higher(f->pool + x->floors, floors, n_secs)) {
            *why = x->why;
            return 1;
        }
    }
    return 0;
}

static void fill_buckets(dv_failed *f)
{
    memset(f->bucket, 0xff, (size_t)f->max * sizeof *f->bucket);
    for (int32_t k = 0; k < f->n; k++) {
        int32_t *head = bucket_of(f, f->all[k].hash);
        f->all[k].next = *head;
        *head = k;
    }
}

// Room for twice as many failures. 0: there is none.
static int grow(dv_failed *f)
{
    int32_t max = f->max ? f->max * 2 : 256;
    failure *all = NULL;
    int32_t *bucket = NULL;
    if (max <= MAX_FAILURES) {
        all = dv_realloc(f->all, (size_t)max * sizeof *all);
        f->all = all ? all : f->all;
        bucket = dv_realloc(f->bucket, (size_t)max * sizeof *bucket);
        f->bucket = bucket ? bucket : f->bucket;
    }
    if (!all || !bucket)
        return 0;
    f->max = max;
    fill_buckets(f);
    return 1;
}

static int grow_pool(dv_failed *f, int64_t max)
{
    if (max > MAX_POOL)
        return 0;
    int64_t *pool = dv_realloc(f->pool, (size_t)max * sizeof *pool);
    if (!pool)
        return 0;
    f->pool = pool;
    f->max_pool = max;
    return 1;
}

int dv_failed_init(dv_failed *f, int32_t n_secs)
{
    *f = (dv_failed){0};
    return grow(f) && grow_pool(f, 64 * (int64_t)n_secs);
}

void dv_failed_free(dv_failed *f)
{
    dv_release(f->bucket);
    dv_release(f->all);
    dv_release(f->pool);
}

void dv_failed_add(dv_failed *f, uint64_t hash, const int64_t *floors,
                   int32_t n_secs, dv_span why)
{
    if ((f->n == f->max && !grow(f)) ||
        (f->n_pool + n_secs > f->max_pool && !grow_pool(f, 2 * f->max_pool))) {
        f->n = 0;
        f->n_pool = 0;
        fill_buckets(f);
    }
    int32_t *head = bucket_of(f, hash);
    f->all[f->n] = (failure){hash, *head, n_secs, why, f->n_pool};
    memcpy(f->pool + f->n_pool, floors, (size_t)n_secs * sizeof *f->pool);
    *head = f->n++;
    f->n_pool += n_secs;
}
