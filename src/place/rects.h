// From a choice of items to rectangles that can be packed, and back.
#ifndef DV_RECTS_H
#define DV_RECTS_H
#include "place/pack.h"
#include "place/place.h"

typedef struct dv_rects {
    const dv_task *t;
    dv_rect *rects;
    int32_t n;
    int32_t *rect_of; // the rectangle of an item; -1: none
    int32_t *chain;   // items by start, parents before children
} dv_rects;

// 0 when out of memory.
int dv_rects_init(dv_rects *r, const dv_task *task, dv_arena *arena);
// Rectangles of the chosen and the fixed items; a child that takes over a
// place makes its parent's rectangle longer.
void dv_rects_make(dv_rects *r, const dv_choice *choice);
// Choose everything in play; every child takes the place of the first parent
// of its size that is free. Returns whether any does.
int dv_rects_choose_all(const dv_rects *r, dv_choice *out);
// The addresses of the rectangles as addresses of items.
void dv_rects_read(const dv_rects *r, int64_t *at);

// -- All items at once (whole.c) ---------------------------------------------

// Pack everything. DV_FIT_NO is proven; the effort counts nodes.
dv_fit dv_pack_all(const dv_task *task, dv_effort *effort, dv_answer *out);
// The same in as little memory as can be found; no less than `proven` will do.
dv_fit dv_pack_all_least(const dv_task *task, dv_effort *effort, dv_answer *out,
                         int64_t *proven);
#endif
