// Memory: every allocation of the library goes through dv_alloc, and almost all
// of it through arenas. An arena returns zeroed memory and frees it all at
// once; objects in it are not freed individually.
//
//   dv_arena a = {0};
//   dv_var *v = DV_NEW(&a, dv_var, n);   // NULL when out of memory
//   dv_arena_free(&a);
#ifndef DV_MEM_H
#define DV_MEM_H
#include <stddef.h>
#include <stdint.h>

// Like malloc, realloc and free, except that tests can make the n-th call fail
// (dv_mem_fail_at).
void *dv_alloc(size_t size_bytes);
// Allocates memory for data that kernels work on: aligned to cache lines and,
// unless it is small, in huge pages if the system has them.
void *dv_alloc_buffer(size_t size_bytes);
void *dv_realloc(void *p, size_t size_bytes);
void dv_release(void *p);

// Makes allocation number `nth` from now (0 is the next) and all later ones
// fail; a negative number switches this off. For the out-of-memory tests.
void dv_mem_fail_at(int64_t nth);
// Returns the number of allocations requested since dv_mem_fail_at was last
// called.
int64_t dv_mem_calls(void);

typedef struct dv_chunk dv_chunk;
typedef struct dv_arena {
    dv_chunk *chunks; // list of chunks owned by the arena, newest first
    size_t used_bytes, size_bytes; // fill level and size of the newest chunk
} dv_arena;

// Returns zeroed memory for n objects from an arena, aligned for any type; NULL
// if out of memory or if n * size_bytes overflows.
void *dv_arena_alloc(dv_arena *a, size_t n, size_t size_bytes);
// Returns cache-line-aligned memory from an arena, not zeroed. It is in huge
// pages only if it fills at least one.
void *dv_arena_buffer(dv_arena *a, size_t size_bytes);
char *dv_arena_copy(dv_arena *a, const char *text, size_t len);
// Copies an array of `old_n` items to a larger one with room for `new_n`. The
// old array stays in the arena, unused.
void *dv_arena_grow(dv_arena *a, const void *old, size_t old_n, size_t new_n,
                    size_t size_bytes);
void dv_arena_free(dv_arena *a);

#define DV_NEW(arena, type, n)                                                 \
    ((type *)dv_arena_alloc((arena), (size_t)(n), sizeof(type)))

// Appends an item to a growable array in an arena, doubling its capacity if
// necessary. Evaluates to the new item's address, or NULL if out of memory.
// `items`, `n` and `cap` are lvalues; `n` is incremented only on success.
#define DV_PUSH(arena, type, items, n, cap)                                    \
    (((n) == (cap) && !dv_push_room((arena), (void **)&(items), (size_t)(n),   \
                                    &(cap), sizeof(type)))                     \
         ? (type *)NULL                                                        \
         : &(items)[(n)++])
int dv_push_room(dv_arena *a, void **items, size_t n, int32_t *cap,
                 size_t size_bytes);
#endif
