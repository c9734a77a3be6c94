// Converts chosen items (buffers to place) to rectangles of lifetime and size
// that can be packed, and the packed addresses back to items.
#ifndef DV_RECTS_H
#define DV_RECTS_H
#include "place/pack.h"
#include "place/place.h"

typedef struct dv_rects {
    const dv_task *t;
    dv_rect *rects;
    int32_t n;
    int32_t *rect_of; // number of each item's rectangle, or -1 if it has none
    int32_t *chain;   // items by start, parents before children
} dv_rects;

// Allocates the arrays of r and sorts the items of the task. Returns 0 when out
// of memory.
int dv_rects_init(dv_rects *r, const dv_task *task, dv_arena *arena);
// Makes rectangles (lifetime times size) of the chosen items and of those with
// a fixed address. An item that takes over the address of a parent extends the
// parent's rectangle in time instead.
void dv_rects_from_choice(dv_rects *r, const dv_choice *choice);
// Chooses all items that solvers may place. Every item that may take over the
// address of another one does so, from its first parent of equal size that no
// other item has taken. Returns whether any item does.
int dv_rects_choose_all(const dv_rects *r, dv_choice *out);
// Copies the addresses of the packed rectangles to their items; items without a
// rectangle get -1.
void dv_rects_store_addresses(const dv_rects *r, int64_t *at);

// Packs all items into the task's capacity (whole.c). DV_FIT_NO means it is
// proven impossible. Adds the search nodes to effort->nodes.
dv_fit dv_pack_all(const dv_task *task, dv_effort *effort, dv_answer *out);
// Packs all items into the least capacity that the search finds. *proven is the
// proven lower bound of that capacity, or 0 if none is known.
dv_fit dv_pack_all_least(const dv_task *task, dv_effort *effort, dv_answer *out,
                         int64_t *proven);
#endif
