// Code memory: one file in memory, mapped twice. Code is written through one
// view and executed through the other, so no page is ever both. When the
// kernels of a program are made, the access to the writable view is taken away
// and the file closed, until the next kernel is made.
//
//   write view   [ kernel 0 | kernel 1 | ...        ]   rw-
//   run view     [ kernel 0 | kernel 1 | ...        ]   r-x   same bytes
//
// Where the system gives no such file, each kernel gets pages of its own that
// are written first and made executable afterwards, never to be written again.
// Chunks double as they fill up; none moves. All but the first are of large
// pages where the system gives them. A child of fork shares the files with its
// parent: it runs what is there, and writes to chunks of its own. Not
// thread-safe: callers lock.
#ifndef DV_JIT_ARENA_H
#define DV_JIT_ARENA_H
#include "base/mem.h"

typedef struct dv_code_chunk {
    unsigned char *write, *run; // the same address when there is one view
    size_t size_bytes, used_bytes;
    size_t ready_bytes; // whose pages are there
    int fd;             // the file, while pages are missing; -1: none
    int large;          // pages are large ones
    int owner;          // forks up to the process that writes here
    // `write` can be accessed from open_bytes on, unless it is sealed; its
    // pages are there up to touched_bytes.
    size_t open_bytes, touched_bytes;
    int sealed;
    void *whole; // what is mapped in all
    size_t whole_bytes;
} dv_code_chunk;

typedef struct dv_code_arena {
    dv_code_chunk *chunks; // owned; the last one is being filled
    int32_t n, cap;
    // Fallbacks; may be set before first use, for tests.
    int one_view;
    int small_pages;
} dv_code_arena;

// Where code can be written, *room bytes and `least` at the least; NULL when
// out of memory. Nothing is taken yet: another call answers the same.
unsigned char *dv_code_arena_room(dv_code_arena *a, size_t least, size_t *room);
// Take the first bytes of that and return where they can be run. NULL when the
// system refuses.
const void *dv_code_arena_take(dv_code_arena *a, size_t size_bytes);
// Both, for code that is elsewhere.
const void *dv_code_arena_add(dv_code_arena *a, const void *code,
                              size_t size_bytes);
// Make the writable view inaccessible and close the file, until more code is
// added. What dv_code_arena_room() has returned cannot be used any more.
void dv_code_arena_seal(dv_code_arena *a);
void dv_code_arena_free(dv_code_arena *a);
#endif
