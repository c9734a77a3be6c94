// Opens the files of constants, keeps what is packed and computed of constants,
// and shares both between execs.
#include "exec/constants.h"
#include "base/math.h"
#include "base/npy.h"
#include <pthread.h>
#include <string.h>

struct dv_constant {
    dv_npy_mapped file;
    dv_dtype dtype;
    int n_dims;
    int64_t shape[DV_MAX_DIMS];
    int64_t users;
    struct dv_constant *next;
};

// All constants that are open in this process. The lock protects this list, the
// lists below, and the user counts.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static dv_constant *all;

static int is_same(const dv_constant *a, const dv_constant *b)
{
    return !memcmp(a->file.file, b->file.file, sizeof a->file.file) &&
           a->dtype == b->dtype && a->n_dims == b->n_dims &&
           !memcmp(a->shape, b->shape, sizeof a->shape);
}

// Returns the open constant with the same file, type and shape, so that execs
// share it; if there is none, adds `mine` to the list.
static dv_constant *share(dv_constant *mine)
{
    pthread_mutex_lock(&lock);
    dv_constant *c = all;
    while (c && !is_same(c, mine))
        c = c->next;
    if (c) {
        c->users++;
    } else {
        mine->next = all;
        all = mine;
    }
    pthread_mutex_unlock(&lock);
    return c ? c : mine;
}

static void destroy(dv_constant *c)
{
    dv_npy_unmap(&c->file);
    dv_release(c);
}

static dv_status open_file(dv_constant *c, const dv_program *p, int32_t tensor,
                           dv_diag *diag)
{
    const dv_tensor *t = &p->tensors[tensor];
    dv_text path = {0};
    dv_constant_path(&path, p, tensor);
    dv_status st = path.failed
                       ? dv_nomem(diag)
                       : dv_npy_map(&c->file, path.at, t->name, t->dtype,
                                    t->n_dims, t->shape, diag);
    dv_text_free(&path);
    return st;
}

dv_status dv_constant_open(dv_constant **out, const dv_program *p,
                           int32_t tensor, dv_diag *diag)
{
    const dv_tensor *t = &p->tensors[tensor];
    dv_constant *mine = dv_alloc(sizeof *mine);
    if (!mine)
        return dv_nomem(diag);
    *mine = (dv_constant){.dtype = t->dtype, .n_dims = t->n_dims, .users = 1};
    for (int d = 0; d < t->n_dims; d++)
        mine->shape[d] = t->shape[d];
    dv_status st = open_file(mine, p, tensor, diag);
    if (st != DV_OK) {
        dv_release(mine);
        return st;
    }
    *out = share(mine);
    if (*out != mine)
        destroy(mine);
    return DV_OK;
}

const void *dv_constant_data(const dv_constant *c)
{
    return c->file.data;
}

void dv_constant_close(dv_constant *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&lock);
    int last = --c->users == 0;
    dv_constant **link = &all;
    while (*link && *link != c)
        link = &(*link)->next;
    if (last && *link)
        *link = c->next;
    pthread_mutex_unlock(&lock);
    if (last)
        destroy(c);
}

// A block of memory that several packed constants share, so that each of them
// does not occupy huge pages of its own.
typedef struct packed_memory {
    unsigned char *at;
    int64_t used_bytes, users;
} packed_memory;

struct dv_packed {
    void *data;
    packed_memory *memory; // where `data` is; NULL: it is allocated alone
    dv_text key;
    int64_t users;
    struct dv_packed *next;
};

// All packed constants of this process. `lock` protects this list too, and is
// held during packing, so that no two execs pack the same elements.
static dv_packed *all_packed;
// The shared block from which memory is given out next; NULL: none. `lock`
// protects it too.
static packed_memory *open_memory;

// Bytes of a shared block, the most of a packed constant that is put into one,
// and the most that is allocated alone as too small for a huge page. Parts of a
// block that are never written occupy no physical pages.
#ifdef DV_ARENA_DEBUG
enum { SHARED = 0, LARGE = 0, SMALL = 0 };
#else
enum { SHARED = 64 << 20, LARGE = 16 << 20, SMALL = 64 << 10 };
#endif

static void leave_memory(packed_memory *m)
{
    if (--m->users)
        return;
    if (m == open_memory)
        open_memory = NULL;
    dv_release(m->at);
    dv_release(m);
}

// Allocates a shared block, from which memory is then given out.
static int open_new_memory(void)
{
    packed_memory *m = dv_alloc(sizeof *m);
    if (!m)
        return 0;
    *m = (packed_memory){.at = dv_alloc_buffer(SHARED)};
    if (!m->at) {
        dv_release(m);
        return 0;
    }
    open_memory = m;
    return 1;
}

// Finds memory for packed elements: in a shared block or, if they are small or
// large, of their own. Returns 0 when out of memory.
static int find_memory(dv_packed *p, int64_t bytes)
{
    enum { LINE = 64 };
    if (bytes <= SMALL || bytes > LARGE) {
        p->data = dv_alloc_buffer((size_t)bytes);
        return p->data != NULL;
    }
    if ((!open_memory || SHARED - open_memory->used_bytes < bytes) &&
        !open_new_memory())
        return 0;
    p->memory = open_memory;
    p->data = p->memory->at + p->memory->used_bytes;
    p->memory->used_bytes += dv_ceil_div(bytes, LINE) * LINE;
    p->memory->users++;
    return 1;
}

static void free_packed(dv_packed *p)
{
    dv_text_free(&p->key);
    if (p->memory)
        leave_memory(p->memory);
    else
        dv_release(p->data);
    dv_release(p);
}

// Allocates memory that has no key yet. Returns NULL when out of memory.
static dv_packed *new_packed(int64_t bytes)
{
    dv_packed *p = dv_alloc(sizeof *p);
    if (!p)
        return NULL;
    *p = (dv_packed){.users = 1};
    if (find_memory(p, bytes))
        return p;
    dv_release(p);
    return NULL;
}

// Gives memory its key and adds it to the list. Returns 0 when out of memory.
static int publish(dv_packed *p, const dv_text *key)
{
    dv_put_bytes(&p->key, key->at, key->len);
    if (p->key.failed)
        return 0;
    p->next = all_packed;
    all_packed = p;
    return 1;
}

// Returns what has this key, with one user more, or NULL.
static dv_packed *find_packed(const dv_text *key)
{
    dv_packed *p = all_packed;
    while (p && (p->key.len != key->len ||
                 memcmp(p->key.at, key->at, key->len) != 0))
        p = p->next;
    if (p)
        p->users++;
    return p;
}

static dv_status make_packed(dv_packed **out, const dv_text *key, int64_t bytes,
                             dv_packer pack, const void *user, dv_diag *diag)
{
    dv_packed *p = new_packed(bytes);
    if (!p)
        return dv_nomem(diag);
    dv_status st = pack(user, p->data, diag);
    if (st == DV_OK && !publish(p, key))
        st = dv_nomem(diag);
    if (st == DV_OK)
        *out = p;
    else
        free_packed(p);
    return st;
}

dv_status dv_packed_get(dv_packed **out, const dv_text *key, int64_t bytes,
                        dv_packer pack, const void *user, dv_diag *diag)
{
    dv_status st = DV_OK;
    pthread_mutex_lock(&lock);
    dv_packed *p = find_packed(key);
    if (!p)
        st = make_packed(&p, key, bytes, pack, user, diag);
    pthread_mutex_unlock(&lock);
    if (st == DV_OK)
        *out = p;
    return st;
}

dv_packed *dv_packed_find(const dv_text *key)
{
    pthread_mutex_lock(&lock);
    dv_packed *p = find_packed(key);
    pthread_mutex_unlock(&lock);
    return p;
}

dv_packed *dv_packed_create(int64_t bytes)
{
    pthread_mutex_lock(&lock);
    dv_packed *p = new_packed(bytes);
    pthread_mutex_unlock(&lock);
    return p;
}

dv_status dv_packed_share(dv_packed **p, const dv_text *key, dv_diag *diag)
{
    dv_status st = DV_OK;
    pthread_mutex_lock(&lock);
    dv_packed *other = find_packed(key);
    if (other) {
        free_packed(*p);
        *p = other;
    } else if (!publish(*p, key)) {
        st = dv_nomem(diag);
    }
    pthread_mutex_unlock(&lock);
    return st;
}

void *dv_packed_data(const dv_packed *p)
{
    return p->data;
}

void dv_packed_release(dv_packed *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&lock);
    int last = --p->users == 0;
    dv_packed **link = &all_packed;
    while (*link && *link != p)
        link = &(*link)->next;
    if (last && *link)
        *link = p->next;
    if (last)
        free_packed(p);
    pthread_mutex_unlock(&lock);
}
