// Mapping code memory; arena.h has the idea.
#define _GNU_SOURCE
#include "jit/arena.h"
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FIRST_BYTES = 512 << 10, MAX_BYTES = 16 << 20, ALIGN_BYTES = 64 };
// Pages that are there before they are needed: so many at first, then some at a
// time, as soon as fewer than those for a few kernels are left.
enum {
    READY_BYTES = 192 << 10,
    MORE_BYTES = 64 << 10,
    LEFT_BYTES = 16 << 10,
    MOST_PAGES = 64
};

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
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
    if (w == MAP_FAILED || x == MAP_FAILED) {
        if (w != MAP_FAILED)
            munmap(w, c->size_bytes);
        if (x != MAP_FAILED)
            munmap(x, c->size_bytes);
        close(fd);
        return 0;
    }
    c->write = w;
    c->run = x;
    c->fd = fd;
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
    dv_code_chunk c = {NULL, NULL, size, 0, 0, -1};
    if (!a->one_view && !map_two(&c))
        a->one_view = 1;
    if (a->one_view && !map_one(&c))
        return NULL;
    a->chunks[a->n] = c;
    return &a->chunks[a->n++];
}

// -- Pages -------------------------------------------------------------------

// Zeros from `from` to `to` in as few calls as can be.
static void write_zeros(int fd, size_t from, size_t to)
{
    static const unsigned char zeros[4096];
    struct iovec parts[MOST_PAGES];
    for (int i = 0; i < MOST_PAGES; i++)
        parts[i] = (struct iovec){(void *)(uintptr_t)zeros, sizeof zeros};
    while (from < to) {
        size_t n = (to - from) / sizeof zeros;
        n = n < MOST_PAGES ? n : MOST_PAGES;
        ssize_t done = pwritev(fd, parts, (int)n, (off_t)from);
        if (done <= 0)
            return; // pages come when they are touched
        from += (size_t)done;
    }
}

static void touch(const unsigned char *at, size_t from, size_t to, size_t page)
{
    for (; from < to; from += page)
        (void)*(const volatile unsigned char *)(at + from);
}

// Pages of both views, many at a time: a fault for each costs more than a
// kernel. Pages that a file has are mapped by sixteens when one of them is
// touched, and a file that is written gets them without a fault; so this is two
// thirds of what asking for them with madvise takes.
static void make_ready(dv_code_chunk *c)
{
    if (c->fd < 0 || c->used_bytes + LEFT_BYTES <= c->ready_bytes)
        return;
    size_t page = page_bytes(), from = round_up(c->used_bytes, page);
    from = from > c->ready_bytes ? from : c->ready_bytes;
    size_t to = round_up(c->used_bytes + LEFT_BYTES, MORE_BYTES);
    to = to > READY_BYTES ? to : READY_BYTES;
    to = to < c->size_bytes ? to : c->size_bytes;
    write_zeros(c->fd, from, to);
    touch(c->write, from, to, page);
    touch(c->run, from, to, page);
    c->ready_bytes = to;
    if (to == c->size_bytes) {
        close(c->fd);
        c->fd = -1;
    }
}

// -- Entry -------------------------------------------------------------------

unsigned char *dv_code_arena_room(dv_code_arena *a, size_t least, size_t *room)
{
    dv_code_chunk *c = a->n ? &a->chunks[a->n - 1] : NULL;
    if (!c || c->size_bytes - c->used_bytes < least + LEFT_BYTES)
        c = grow(a, round_up(least + LEFT_BYTES, page_bytes()));
    if (!c)
        return NULL;
    make_ready(c);
    *room = c->size_bytes - c->used_bytes;
    return c->write + c->used_bytes;
}

const void *dv_code_arena_take(dv_code_arena *a, size_t size_bytes)
{
    dv_code_chunk *c = &a->chunks[a->n - 1];
    int one = c->write == c->run;
    size_t need = round_up(size_bytes, one ? page_bytes() : ALIGN_BYTES);
    unsigned char *run = c->run + c->used_bytes;
    if (one && mprotect(run, need, PROT_READ | PROT_EXEC))
        return NULL;
    c->used_bytes += need;
    __builtin___clear_cache((char *)run, (char *)run + size_bytes);
    return run;
}

const void *dv_code_arena_add(dv_code_arena *a, const void *code,
                              size_t size_bytes)
{
    size_t room;
    unsigned char *at = dv_code_arena_room(a, size_bytes, &room);
    if (!at)
        return NULL;
    memcpy(at, code, size_bytes);
    return dv_code_arena_take(a, size_bytes);
}

void dv_code_arena_free(dv_code_arena *a)
{
    for (int32_t i = 0; i < a->n; i++) {
        dv_code_chunk *c = &a->chunks[i];
        munmap(c->run, c->size_bytes);
        if (c->write != c->run)
            munmap(c->write, c->size_bytes);
        if (c->fd >= 0)
            close(c->fd);
    }
    dv_release(a->chunks);
    *a = (dv_code_arena){0};
}
