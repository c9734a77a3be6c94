// Mapping code memory; arena.h has the idea.
#define _GNU_SOURCE
#include "jit/arena.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FIRST_BYTES = 256 << 10, MAX_BYTES = 16 << 20, ALIGN_BYTES = 64 };
enum { READY_BYTES = 64 << 10 };

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static int map_two(dv_code_chunk *c)
{
    int fd = memfd_create("divvy-jit", MFD_CLOEXEC);
    if (fd < 0)
        return 0;
    void *w = MAP_FAILED, *x = MAP_FAILED;
    if (!ftruncate(fd, (off_t)c->size_bytes)) {
        w = mmap(NULL, c->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                 0);
        x = mmap(NULL, c->size_bytes, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (w == MAP_FAILED || x == MAP_FAILED) {
        if (w != MAP_FAILED)
            munmap(w, c->size_bytes);
        if (x != MAP_FAILED)
            munmap(x, c->size_bytes);
        return 0;
    }
    c->write = w;
    c->run = x;
    return 1;
}

static int map_one(dv_code_chunk *c)
{
    void *p = mmap(NULL, c->size_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return 0;
    c->write = c->run = p;
    return 1;
}

// A new last chunk with room for `need` bytes.
static dv_code_chunk *grow(dv_code_arena *a, size_t need)
{
    if (a->n == a->cap) {
        int32_t cap = a->cap ? 2 * a->cap : 8;
        void *p = dv_realloc(a->chunks, (size_t)cap * sizeof *a->chunks);
        if (!p)
            return NULL;
        a->chunks = p;
        a->cap = cap;
    }
    size_t size = a->n ? 2 * a->chunks[a->n - 1].size_bytes : FIRST_BYTES;
    size = size > MAX_BYTES ? MAX_BYTES : size;
    size = size < need ? round_up(need, FIRST_BYTES) : size;
    dv_code_chunk c = {NULL, NULL, size, 0, 0};
    if (!a->one_view && !map_two(&c))
        a->one_view = 1;
    if (a->one_view && !map_one(&c))
        return NULL;
    a->chunks[a->n] = c;
    return &a->chunks[a->n++];
}

// Pages for `end` bytes of both views, a few at a time: a fault for each costs
// more than a kernel, and pages that are never used cost as much as the others.
// Where the system does not know the advice, pages come when they are touched.
static void make_ready(dv_code_chunk *c, size_t end)
{
    enum { POPULATE_READ = 22, POPULATE_WRITE = 23 };
    if (end <= c->ready_bytes || c->write == c->run)
        return;
    size_t from = c->ready_bytes, to = round_up(end, READY_BYTES);
    to = to < c->size_bytes ? to : c->size_bytes;
    madvise(c->write + from, to - from, POPULATE_WRITE);
    madvise(c->run + from, to - from, POPULATE_READ);
    c->ready_bytes = to;
}

const void *dv_code_arena_add(dv_code_arena *a, const void *code,
                              size_t size_bytes)
{
    long page = sysconf(_SC_PAGESIZE);
    size_t unit = a->one_view ? (size_t)page : ALIGN_BYTES;
    size_t need = round_up(size_bytes, unit);
    dv_code_chunk *c = a->n ? &a->chunks[a->n - 1] : NULL;
    if (!c || c->size_bytes - c->used_bytes < need) {
        c = grow(a, round_up(size_bytes, (size_t)page));
        if (!c)
            return NULL;
        if (c->write == c->run) // also when the second view was just refused
            need = round_up(size_bytes, (size_t)page);
    }
    make_ready(c, c->used_bytes + need);
    unsigned char *run = c->run + c->used_bytes;
    memcpy(c->write + c->used_bytes, code, size_bytes);
    if (c->write == c->run && mprotect(run, need, PROT_READ | PROT_EXEC))
        return NULL;
    c->used_bytes += need;
    __builtin___clear_cache((char *)run, (char *)run + size_bytes);
    return run;
}

void dv_code_arena_free(dv_code_arena *a)
{
    for (int32_t i = 0; i < a->n; i++) {
        dv_code_chunk *c = &a->chunks[i];
        munmap(c->run, c->size_bytes);
        if (c->write != c->run)
            munmap(c->write, c->size_bytes);
    }
    dv_release(a->chunks);
    *a = (dv_code_arena){0};
}
