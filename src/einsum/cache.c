// Caches the plans of einsums. The key of an entry is a text of everything a
// plan depends on: expression, dtypes, shapes, strides, options and the
// target's description. The least recently used entry is evicted. An entry also
// keeps one exec (the object that runs an einsum) for calls of dv_einsum, so
// that a repeated call allocates only its key.
#include "base/hash.h"
#include "einsum/einsum.h"
#include <inttypes.h>
#include <string.h>

typedef struct entry {
    char *key; // owned
    size_t len;
    uint64_t hash;
    // Number of the cache's lookup that last used the entry; the entry with the
    // lowest is evicted first.
    uint64_t used;
    // The planned einsum; this entry holds one reference to it.
    dv_einsum_core *core;
    // An exec (the object that runs an einsum) kept for the next call of
    // dv_einsum; owned; NULL: none, or in use.
    dv_einsum_exec *idle;
} entry;

struct dv_einsum_cache {
    entry *entries;
    size_t n, max;
    uint64_t now;
};

static void put_text(dv_text *key, const char *s)
{
    if (s)
        dv_put(key, "%zu:%s", strlen(s), s);
    dv_put(key, ";");
}

static void put_rects(dv_text *key, const dv_core_rect *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dv_put(key, "%d,%d-%d,%d ", r[i].x0, r[i].y0, r[i].x1, r[i].y1);
    dv_put(key, ";");
}

static void put_plan_options(dv_text *key, const dv_plan_options *o)
{
    if (!o)
        return;
    const char *const texts[] = {o->stop_after, o->policy, o->order, o->grid};
    const int enums[] = {
        (int)o->divide,       (int)o->joint,   (int)o->scratch,
        (int)o->in_place,     (int)o->ring,    (int)o->evict,
        (int)o->clone_inputs, (int)o->reorder, (int)o->recompute,
        (int)o->tenants,      (int)o->solver};
    for (size_t i = 0; i < sizeof enums / sizeof *enums; i++)
        dv_put(key, "%d ", enums[i]);
    dv_put(key, "plan %" PRId64 " %" PRId64 " %" PRId64 " %.17g ", o->cores,
           o->threads, o->place_budget, o->time_limit_s);
    dv_put(key, "%" PRId64 " %" PRId64 " ", o->team, o->rank);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        put_text(key, texts[i]);
    for (size_t i = 0; i < o->n_pins; i++)
        put_text(key, o->pins[i]);
    put_rects(key, o->allowed, o->n_allowed);
    put_rects(key, o->holes, o->n_holes);
}

static void put_key(dv_text *key, const char *expression, const dv_array *in,
                    size_t n_in, const dv_einsum_options *o)
{
    put_text(key, expression);
    for (size_t i = 0; i < n_in; i++) {
        dv_put(key, "%d,%d", (int)in[i].dtype, in[i].n_dims);
        for (int d = 0; d < in[i].n_dims; d++)
            dv_put(key, ",%" PRId64, in[i].shape[d]);
        for (int d = 0; in[i].strides && d < in[i].n_dims; d++)
            dv_put(key, "/%" PRId64, in[i].strides[d]);
        dv_put(key, ";");
    }
    dv_put(key, "%d %" PRId64 " ", o->result_dtype, o->max_elems);
    dv_put(key, "%d ", (int)o->path);
    put_plan_options(key, o->plan);
    if (o->target)
        dv_target_print(key, o->target, 0);
}

static void clear(entry *e)
{
    dv_einsum_destroy(e->idle);
    dv_einsum_core_drop(e->core);
    dv_release(e->key);
    *e = (entry){0};
}

static entry *find(dv_einsum_cache *c, const dv_text *key, uint64_t hash)
{
    for (size_t i = 0; i < c->n; i++) {
        entry *e = &c->entries[i];
        if (e->hash == hash && e->len == key->len &&
            memcmp(e->key, key->at, key->len) == 0)
            return e;
    }
    return NULL;
}

// Returns an empty entry of the cache: an unused one, or the least recently
// used one after it was evicted.
static entry *make_room(dv_einsum_cache *c)
{
    if (c->n < c->max)
        return &c->entries[c->n++];
    entry *oldest = c->entries;
    for (size_t i = 1; i < c->n; i++)
        if (c->entries[i].used < oldest->used)
            oldest = &c->entries[i];
    clear(oldest);
    return oldest;
}

// Finds or creates the cache entry for a call of dv_einsum with these
// arguments.
static dv_status look_up(entry **out, const char *expression,
                         const dv_array *in, size_t n_in,
                         const dv_einsum_options *o, dv_diag *diag)
{
    dv_einsum_cache *c = o->cache;
    dv_einsum_core *core = NULL;
    dv_text key = {0};
    DV_TRY(dv_einsum_check(expression, in, n_in, o, diag));
    put_key(&key, expression, in, n_in, o);
    if (key.failed) {
        dv_text_free(&key);
        return dv_nomem(diag);
    }
    uint64_t hash = dv_hash(DV_HASH, key.at, key.len);
    entry *e = find(c, &key, hash);
    dv_status st = DV_OK;
    if (!e) {
        st = dv_einsum_core_create(&core, expression, in, n_in, o, diag);
        if (st == DV_OK) {
            e = make_room(c);
            *e = (entry){.len = key.len, .hash = hash, .core = core};
            e->key = dv_text_take(&key);
        }
    }
    if (e) {
        e->used = ++c->now;
        *out = e;
    }
    dv_text_free(&key);
    return st;
}

dv_status dv_einsum_cache_core(dv_einsum_core **out, const char *expression,
                               const dv_array *in, size_t n_in,
                               const dv_einsum_options *options, dv_diag *diag)
{
    entry *e = NULL;
    DV_TRY(look_up(&e, expression, in, n_in, options, diag));
    atomic_fetch_add(&e->core->refs, 1);
    *out = e->core;
    return DV_OK;
}

dv_status dv_einsum_cache_take(dv_einsum_exec **out, const char *expression,
                               const dv_array *in, size_t n_in,
                               const dv_einsum_options *options, dv_diag *diag)
{
    entry *e = NULL;
    DV_TRY(look_up(&e, expression, in, n_in, options, diag));
    *out = e->idle;
    e->idle = NULL;
    if (*out)
        return DV_OK;
    atomic_fetch_add(&e->core->refs, 1);
    return dv_einsum_exec_create(out, e->core, diag);
}

void dv_einsum_cache_give(dv_einsum_cache *c, dv_einsum_exec *x)
{
    for (size_t i = 0; i < c->n; i++) {
        entry *e = &c->entries[i];
        if (e->core != dv_einsum_core_of(x) || e->idle)
            continue;
        e->idle = x;
        return;
    }
    dv_einsum_destroy(x);
}

dv_status dv_einsum_cache_create(dv_einsum_cache **out, size_t max_plans,
                                 dv_diag *diag)
{
    size_t max = max_plans ? max_plans : 64;
    dv_einsum_cache *c = dv_alloc(sizeof *c);
    if (!c)
        return dv_nomem(diag);
    *c = (dv_einsum_cache){.max = max};
    c->entries = max <= SIZE_MAX / sizeof *c->entries
                     ? dv_alloc(max * sizeof *c->entries)
                     : NULL;
    if (!c->entries) {
        dv_release(c);
        return dv_nomem(diag);
    }
    memset(c->entries, 0, max * sizeof *c->entries);
    *out = c;
    return DV_OK;
}

void dv_einsum_cache_destroy(dv_einsum_cache *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n; i++)
        clear(&c->entries[i]);
    dv_release(c->entries);
    dv_release(c);
}
