// Memory for generated code: one anonymous memory file (memfd) that is mapped
// twice. Code is written through one mapping, the write view, and executed
// through the other, the run view, so that no page is ever both writable and
// executable. When the kernels of a program are complete, the write view is
// made inaccessible and the file is closed, until the next kernel is added.
//
//   write view   [ kernel 0 | kernel 1 | ...        ]   rw-
//   run view     [ kernel 0 | kernel 1 | ...        ]   r-x   same bytes
//
// Where the system refuses such a file, each kernel gets pages of its own,
// which are written first, then made executable, and never written again. The
// arena is a list of chunks; a new chunk is twice as large as the one before
// it, and no chunk moves. All chunks but the first use large pages where the
// system provides them. A child of fork shares the files with its parent: it
// runs the existing kernels, and writes to chunks of its own. An arena is not
// thread-safe: callers hold a lock.
#ifndef DV_JIT_ARENA_H
#define DV_JIT_ARENA_H
#include "base/mem.h"

typedef struct dv_code_chunk {
    // Addresses of the write view (the writable mapping) and of the run view
    // (the executable mapping) of this chunk; equal when there is only one
    // view.
    unsigned char *write, *run;
    size_t size_bytes, used_bytes;
    // Bytes of the run view (the executable mapping) whose pages are already
    // populated.
    size_t ready_bytes;
    int fd;    // the memory file, while pages are not all populated; -1: closed
    int large; // 1: the chunk uses large pages
    // Value of the fork counter in the process that created the chunk.
    int owner;
    // The write view (the writable mapping) is accessible from byte open_bytes
    // on, unless `sealed`; its pages are populated up to byte touched_bytes.
    size_t open_bytes, touched_bytes;
    int sealed;
    void *whole; // start of the whole reserved address range, for munmap
    size_t whole_bytes;
} dv_code_chunk;

typedef struct dv_code_arena {
    dv_code_chunk *chunks; // owned; the last one is being filled
    int32_t n, cap;
    // one_view: chunks have one mapping instead of two, because the system
    // refused two. small_pages: no chunk uses large pages. Tests may set both
    // before first use.
    int one_view;
    int small_pages;
} dv_code_arena;

// Returns where the next code can be written: *room bytes, at least `least`.
// Returns NULL when out of memory. This reserves nothing: without a
// dv_code_arena_commit() in between, the next call returns the same address.
unsigned char *dv_code_arena_room(dv_code_arena *a, size_t least, size_t *room);
// Reserves the first size_bytes of the last dv_code_arena_room() and returns
// the address at which they can be executed, or NULL when the system refuses.
const void *dv_code_arena_commit(dv_code_arena *a, size_t size_bytes);
// Copies code from another buffer into the arena and returns the address at
// which it can be executed.
const void *dv_code_arena_add(dv_code_arena *a, const void *code,
                              size_t size_bytes);
// Makes the write view (the writable mapping) inaccessible and closes the
// memory file, until more code is added. An address that dv_code_arena_room()
// has returned becomes invalid.
void dv_code_arena_seal(dv_code_arena *a);
void dv_code_arena_free(dv_code_arena *a);
#endif
