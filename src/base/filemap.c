// Maps files into memory, and remembers where, so that pages which are not
// needed any more can be released.
#define _GNU_SOURCE // for madvise
#include "base/filemap.h"
#include "base/mem.h"
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct file_map {
    const char *at;
    size_t bytes;
    struct file_map *next;
} file_map;

// The files that are mapped into this process, and the lock that guards the
// list.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static file_map *all;

const void *dv_file_map(int fd, size_t bytes)
{
    file_map *m = bytes ? dv_alloc(sizeof *m) : NULL;
    if (!m)
        return NULL;
    void *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) {
        dv_release(m);
        return NULL;
    }
    *m = (file_map){.at = at, .bytes = bytes};
    pthread_mutex_lock(&lock);
    m->next = all;
    all = m;
    pthread_mutex_unlock(&lock);
    return at;
}

void dv_file_unmap(const void *map, size_t bytes)
{
    if (!map)
        return;
    pthread_mutex_lock(&lock);
    file_map **link = &all;
    while (*link && (*link)->at != map)
        link = &(*link)->next;
    file_map *m = *link;
    if (m)
        *link = m->next;
    pthread_mutex_unlock(&lock);
    dv_release(m);
    munmap((void *)(uintptr_t)map, bytes);
}

void dv_file_map_drop(const void *at, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)at, end = begin + bytes;
    uintptr_t first = (begin + page - 1) / page * page,
              last = end / page * page;
    // Hold the lock, so that this range cannot be unmapped and reused for
    // another mapping meanwhile.
    pthread_mutex_lock(&lock);
    for (const file_map *m = all; m && first < last; m = m->next)
        if (begin >= (uintptr_t)m->at && end <= (uintptr_t)m->at + m->bytes) {
            // Pages that cannot be released just stay in memory, so errors are
            // ignored.
            madvise((void *)first, last - first, MADV_DONTNEED);
            break;
        }
    pthread_mutex_unlock(&lock);
}
