// Arenas on top of malloc. If built with DV_ARENA_DEBUG, every object is a
// separate malloc, so that address sanitizer and valgrind know the exact end of
// each object.
#define _GNU_SOURCE // for madvise
#include "base/mem.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

enum { LARGE_PAGE = 2 << 20 };

static _Atomic int64_t mem_calls;
static _Atomic int64_t mem_fail_at = -1;

void dv_mem_fail_at(int64_t nth)
{
    mem_calls = 0;
    mem_fail_at = nth;
}

int64_t dv_mem_calls(void)
{
    return mem_calls;
}

static int refused(void)
{
    int64_t at = atomic_load_explicit(&mem_fail_at, memory_order_relaxed);
    int64_t n = atomic_fetch_add_explicit(&mem_calls, 1, memory_order_relaxed);
    return at >= 0 && n >= at;
}

// Allocates large memory in huge pages if the system has them: with small
// pages, a matrix product that reads down a column takes a TLB miss per row.
static void *alloc_large(size_t size_bytes)
{
    void *p = NULL;
#ifdef MADV_HUGEPAGE
    if (posix_memalign(&p, LARGE_PAGE, size_bytes) != 0)
        return NULL;
    // Huge pages are only a hint, so errors of madvise are ignored.
    madvise(p, size_bytes / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
#else
    p = malloc(size_bytes);
#endif
    return p;
}

void *dv_alloc(size_t size_bytes)
{
    if (refused())
        return NULL;
    return size_bytes >= LARGE_PAGE ? alloc_large(size_bytes)
                                    : malloc(size_bytes ? size_bytes : 1);
}

// Allocates cache-line-aligned memory, and in whole huge pages if it has more
// than `small` bytes.
static void *alloc_aligned(size_t size_bytes, size_t small)
{
    enum { LINE = 64 };
    void *p = NULL;
    if (refused())
        return NULL;
    if (size_bytes > small)
        return alloc_large((size_bytes + LARGE_PAGE - 1) / LARGE_PAGE *
                           LARGE_PAGE);
    return posix_memalign(&p, LINE, size_bytes + 1) ? NULL : p;
}

void *dv_alloc_buffer(size_t size_bytes)
{
    return alloc_aligned(size_bytes, 64 << 10);
}

// Allocates zeroed memory. Uses calloc because it does not clear fresh pages,
// which the system has zeroed.
static void *alloc_zeroed(size_t size_bytes)
{
    return refused() ? NULL : calloc(1, size_bytes ? size_bytes : 1);
}

void *dv_realloc(void *p, size_t size_bytes)
{
    return refused() ? NULL : realloc(p, size_bytes ? size_bytes : 1);
}

void dv_release(void *p)
{
    free(p);
}

struct dv_chunk {
    dv_chunk *next;
    max_align_t data[];
};

#ifdef DV_ARENA_DEBUG
enum { FIRST_CHUNK = 1, LAST_CHUNK = 0 };
#else
enum { FIRST_CHUNK = 4096, LAST_CHUNK = 1 << 20 };
#endif

static dv_chunk *new_chunk(dv_arena *a, size_t size_bytes)
{
    dv_chunk *c = alloc_zeroed(sizeof *c + size_bytes);
    if (!c)
        return NULL;
    c->next = a->chunks;
    a->chunks = c;
    return c;
}

void *dv_arena_buffer(dv_arena *a, size_t size_bytes)
{
    enum { HEAD = 64 }; // bytes of a chunk's head, so that data is aligned
    if (size_bytes > SIZE_MAX >> 1)
        return NULL;
    // Use huge pages only for buffers that fill one: an arena has many buffers,
    // and each could waste most of a huge page.
    dv_chunk *c = alloc_aligned(HEAD + size_bytes, LARGE_PAGE);
    if (!c)
        return NULL;
    // Insert the buffer after the first chunk, which stays first because small
    // allocations use the room that it has left.
    dv_chunk **at = a->chunks ? &a->chunks->next : &a->chunks;
    if (!a->chunks)
        a->used_bytes = a->size_bytes = 0;
    c->next = *at;
    *at = c;
    return (char *)c + HEAD;
}

void *dv_arena_alloc(dv_arena *a, size_t n, size_t size_bytes)
{
    if (n && size_bytes > (SIZE_MAX >> 1) / n)
        return NULL;
    size_t bytes = n * size_bytes;
    size_t align = sizeof(max_align_t);
    size_t room = (bytes + align - 1) / align * align;
    if (!a->chunks || room > a->size_bytes - a->used_bytes || LAST_CHUNK == 0) {
        size_t want = a->size_bytes * 2;
        if (want < FIRST_CHUNK)
            want = FIRST_CHUNK;
        if (want > LAST_CHUNK)
            want = LAST_CHUNK;
        if (LAST_CHUNK == 0)
            room = want = bytes;
        else if (want < room)
            want = room;
        dv_chunk *c = new_chunk(a, want);
        if (!c)
            return NULL;
        a->size_bytes = want;
        a->used_bytes = 0;
    }
    char *p = (char *)a->chunks->data + a->used_bytes;
    a->used_bytes += room;
    return p;
}

char *dv_arena_copy(dv_arena *a, const char *text, size_t len)
{
    char *p = DV_NEW(a, char, len + 1);
    if (p && len)
        memcpy(p, text, len);
    return p;
}

void *dv_arena_grow(dv_arena *a, const void *old, size_t old_n, size_t new_n,
                    size_t size_bytes)
{
    void *p = dv_arena_alloc(a, new_n, size_bytes);
    if (p && old_n)
        memcpy(p, old, old_n * size_bytes);
    return p;
}

int dv_push_room(dv_arena *a, void **items, size_t n, int32_t *cap,
                 size_t size_bytes)
{
    if (*cap > INT32_MAX / 2)
        return 0;
    int32_t new_cap = *cap ? *cap * 2 : 4;
    void *p = dv_arena_grow(a, *items, n, (size_t)new_cap, size_bytes);
    if (!p)
        return 0;
    *items = p;
    *cap = new_cap;
    return 1;
}

void dv_arena_free(dv_arena *a)
{
    for (dv_chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        dv_release(c);
    }
    *a = (dv_arena){0};
}
