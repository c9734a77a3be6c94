// Maps memory for generated code; arena.h describes the two views.
#define _GNU_SOURCE
#include "jit/arena.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 // since Linux 6.1; missing in older headers
#endif

enum { LARGE_BYTES = 2 << 20, SMALL_PAGE = 4096 };
enum { FIRST_BYTES = 512 << 10, MAX_BYTES = 16 << 20, ALIGN_BYTES = 64 };
// Small pages are populated (backed by memory) in advance: READY_BYTES at
// first, enough for about a hundred kernels, then up to the next multiple of
// MORE_BYTES whenever fewer than LEFT_BYTES, the size of a few kernels, are
// left.
enum {
    READY_BYTES = 400 << 10,
    // Bytes of the write view (the writable mapping of code memory) that are
    // populated at first.
    WRITE_BYTES = 128 << 10,
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

// Returns whether a file may have this many bytes. Without the check, a process
// whose file size is limited would be killed by SIGXFSZ.
static int file_size_allowed(size_t bytes)
{
    struct rlimit most;
    return !getrlimit(RLIMIT_FSIZE, &most) && most.rlim_cur >= bytes;
}

// Counts the forks between the first process and this one. A counter is used to
// detect a fork because a call of getpid() would take half as long as
// generating a kernel.
static _Atomic int forks;
static pthread_once_t watching = PTHREAD_ONCE_INIT;
static int is_watched;

static void count_fork(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    is_watched = pthread_atfork(NULL, NULL, count_fork) == 0;
}

// Maps the write view (writable) and the run view (executable) of a chunk of
// code memory, both aligned to large pages. Returns 0 if the system refuses, so
// that the caller maps one view instead.
static int map_two(dv_code_chunk *c)
{
    size_t size = c->size_bytes, whole = 2 * size + LARGE_BYTES;
    pthread_once(&watching, watch_forks);
    if (!is_watched || !file_size_allowed(size))
        return 0;
    int fd = memfd_create("divvy-jit", MFD_CLOEXEC);
    if (fd < 0)
        return 0;
    void *p = MAP_FAILED, *w = MAP_FAILED, *x = MAP_FAILED;
    if (!ftruncate(fd, (off_t)size))
        p = mmap(NULL, whole, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) {
        size_t skip = (size_t)(-(uintptr_t)p % LARGE_BYTES);
        unsigned char *at = (unsigned char *)p + skip;
        w = mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                 0);
        x = mmap(at + size, size, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED,
                 fd, 0);
    }
    if (w == MAP_FAILED || x == MAP_FAILED) {
        if (p != MAP_FAILED)
            munmap(p, whole);
        close(fd);
        return 0;
    }
    c->whole = p;
    c->whole_bytes = whole;
    c->write = w;
    c->run = x;
    c->fd = fd;
    c->owner = atomic_load_explicit(&forks, memory_order_relaxed);
    return 1;
}

static void close_file(dv_code_chunk *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

// Makes the write view (the writable mapping) of a chunk of code memory
// inaccessible.
static void seal(dv_code_chunk *c)
{
    close_file(c);
    if (c->sealed || c->write == c->run)
        return;
    c->sealed = !mprotect(c->write + c->open_bytes,
                          c->size_bytes - c->open_bytes, PROT_NONE);
}

// Makes the write view (the writable mapping) of a chunk accessible again, but
// only from the page on that the next kernel starts in, because mprotect takes
// time for every page. A large page is made accessible as a whole, because
// mprotect of a part would split it.
static int unseal(dv_code_chunk *c)
{
    if (!c->sealed)
        return 1;
    size_t page = c->large ? LARGE_BYTES : page_bytes();
    size_t from = c->used_bytes / page * page;
    if (mprotect(c->write + from, c->size_bytes - from, PROT_READ | PROT_WRITE))
        return 0;
    c->open_bytes = from;
    c->sealed = 0;
    return 1;
}

static int map_one(dv_code_chunk *c)
{
    void *p = mmap(NULL, c->size_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return 0;
    c->whole = c->write = c->run = p;
    c->whole_bytes = c->size_bytes;
    return 1;
}

// Appends a chunk with at least `need` bytes to the arena and seals the
// previous one, which is full: makes its writable mapping inaccessible.
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
    size = a->n && size < LARGE_BYTES ? LARGE_BYTES : size;
    size = size > MAX_BYTES ? MAX_BYTES : size;
    size = size < need ? round_up(need, LARGE_BYTES) : size;
    dv_code_chunk c = {.size_bytes = size, .fd = -1};
    c.large = a->n && !a->small_pages && page_bytes() == SMALL_PAGE;
    if (!a->one_view && !map_two(&c))
        a->one_view = 1;
    if (a->one_view && !map_one(&c))
        return NULL;
    if (a->n)
        seal(&a->chunks[a->n - 1]);
    a->chunks[a->n] = c;
    return &a->chunks[a->n++];
}

// Populates bytes `from` to `to` of the memory file by writing zeros, so that
// its pages exist, with as few system calls as possible.
static void write_zeros(int fd, size_t from, size_t to)
{
    static const unsigned char zeros[SMALL_PAGE];
    struct iovec parts[MOST_PAGES];
    if (fd < 0 || !file_size_allowed(to))
        // If the file cannot be written, its pages are populated on first
        // access.
        return;
    for (int i = 0; i < MOST_PAGES; i++)
        parts[i] = (struct iovec){(void *)(uintptr_t)zeros, sizeof zeros};
    while (from < to) {
        size_t n = (to - from) / sizeof zeros;
        n = n < MOST_PAGES ? n : MOST_PAGES;
        ssize_t done = pwritev(fd, parts, (int)n, (off_t)from);
        if (done <= 0)
            // If the system writes nothing, the pages are populated on first
            // access.
            return;
        from += (size_t)done;
    }
}

static void touch(const unsigned char *at, size_t from, size_t to, size_t page)
{
    for (; from < to; from += page)
        (void)*(const volatile unsigned char *)(at + from);
}

// Populates the next large pages of both views (the writable and the executable
// mapping) of a chunk, which takes a fifth of the time of small pages.
// MADV_COLLAPSE builds a large page from the small pages that the file already
// has there, so one of them is accessed first. It can fail when memory is
// fragmented or the memory limit is reached. It also synchronises with all
// processors, which takes milliseconds when they are busy; that is why the
// first chunk, which every process has to wait for, uses small pages.
static int make_large(dv_code_chunk *c)
{
    size_t at = c->ready_bytes, need = c->used_bytes + LEFT_BYTES;
    for (; at < need && at < c->size_bytes; at += LARGE_BYTES) {
        touch(c->write, at, at + LARGE_BYTES, LARGE_BYTES);
        if (madvise(c->write + at, LARGE_BYTES, MADV_COLLAPSE))
            return 0;
        touch(c->write, at, at + LARGE_BYTES, LARGE_BYTES);
        touch(c->run, at, at + LARGE_BYTES, LARGE_BYTES);
        c->ready_bytes = at + LARGE_BYTES;
    }
    return 1;
}

// Populates small pages of both views (the writable and the executable mapping)
// of a chunk, many at a time, because one page fault per page would cost more
// than generating a kernel. Writing to the file allocates its pages without
// faults, and accessing one page then maps 16 of them (fault-around); together
// this takes two thirds of the time of populating them with madvise.
static void make_small(dv_code_chunk *c)
{
    size_t page = page_bytes(), from = round_up(c->used_bytes, page);
    from = from > c->ready_bytes ? from : c->ready_bytes;
    size_t to = round_up(c->used_bytes + LEFT_BYTES, MORE_BYTES);
    to = to > READY_BYTES ? to : READY_BYTES;
    to = to < c->size_bytes ? to : c->size_bytes;
    write_zeros(c->fd, from, to);
    touch(c->run, from, to, page);
    c->ready_bytes = to;
}

// Populates pages of the write view (the writable mapping), fewer at a time
// than in the run view (the executable one), because sealing, which makes the
// write view inaccessible, takes time for every populated page.
static void make_writable(dv_code_chunk *c)
{
    size_t need = c->used_bytes + LEFT_BYTES;
    if (c->large || c->write == c->run || need <= c->touched_bytes)
        return;
    size_t to = round_up(need, MORE_BYTES), from = c->touched_bytes;
    to = to > WRITE_BYTES ? to : WRITE_BYTES;
    from = from > c->open_bytes ? from : c->open_bytes;
    to = to < c->size_bytes ? to : c->size_bytes;
    touch(c->write, from, to, page_bytes());
    c->touched_bytes = to;
}

static void make_ready(dv_code_chunk *c)
{
    if (c->write == c->run || c->ready_bytes == c->size_bytes ||
        c->used_bytes + LEFT_BYTES <= c->ready_bytes)
        return;
    c->large = c->large && make_large(c);
    if (!c->large)
        make_small(c);
    if (c->ready_bytes == c->size_bytes)
        close_file(c);
}

// Returns whether this process may write to the chunk. A chunk with one view
// (mapping) is private memory. The file behind two views is shared with the
// parent of a fork, so only the process that created it may write.
static int is_own(const dv_code_chunk *c)
{
    return c->write == c->run ||
           c->owner == atomic_load_explicit(&forks, memory_order_relaxed);
}

unsigned char *dv_code_arena_room(dv_code_arena *a, size_t least, size_t *room)
{
    dv_code_chunk *c = a->n ? &a->chunks[a->n - 1] : NULL;
    if (!c || !is_own(c) ||
        c->size_bytes - c->used_bytes < least + LEFT_BYTES || !unseal(c))
        c = grow(a, round_up(least + LEFT_BYTES, page_bytes()));
    if (!c)
        return NULL;
    make_ready(c);
    make_writable(c);
    *room = c->size_bytes - c->used_bytes;
    return c->write + c->used_bytes;
}

const void *dv_code_arena_commit(dv_code_arena *a, size_t size_bytes)
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
    return dv_code_arena_commit(a, size_bytes);
}

void dv_code_arena_seal(dv_code_arena *a)
{
    // Sealing makes the writable mapping of a chunk inaccessible. All chunks
    // but the last were sealed when they became full.
    if (a->n)
        seal(&a->chunks[a->n - 1]);
}

void dv_code_arena_free(dv_code_arena *a)
{
    for (int32_t i = 0; i < a->n; i++) {
        close_file(&a->chunks[i]);
        munmap(a->chunks[i].whole, a->chunks[i].whole_bytes);
    }
    dv_release(a->chunks);
    *a = (dv_code_arena){0};
}
