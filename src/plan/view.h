// Views: what each core has of a tensor when an op touches it. An op that
// takes a tensor whole, each dim along a variable of its own, cuts it into
// boxes with its tiles; who has which box is what the deals say, nothing else.
//
//   d[i,j], i in slices of 256, j in slices of 64, tile 5 dealt to core 2:
//   core 2 has [0, 256) x [320, 384)
//
// Of a result whose reduced variable is cut only the core with the last part
// has anything: there the sum is complete.
#ifndef DV_VIEW_H
#define DV_VIEW_H
#include "plan/plan.h"

// How a variable is cut: slot number (tile / weight) % n, of n.
typedef struct dv_view_cut {
    int64_t weight, n, slice, begin, end;
} dv_view_cut;

typedef struct dv_view {
    const dv_plan *plan;
    const dv_group *group;
    int32_t op, n_dims;
    int is_write;
    int8_t var[DV_MAX_DIMS];      // that runs along each dim; -1: one element
    dv_view_cut cut[DV_MAX_DIMS]; // of that variable
    dv_view_cut
        parts[DV_MAX_VARS]; // of a write: reduced variables that are cut
    int n_parts;
} dv_view;

// The view of access k of an op (the reads in order, then the write). NULL,
// or why there is none.
const char *dv_view_make(dv_view *out, const dv_plan *plan, int32_t group,
                         int32_t op, int k);
// The box of a core, lo..hi in each dim; 0: it has nothing.
int dv_view_box(const dv_view *v, int64_t core, int64_t *lo, int64_t *hi);
// Has every core in `a` all that it needs in `b`?
int dv_view_holds(const dv_view *a, const dv_view *b);
int dv_view_same(const dv_view *a, const dv_view *b);
// Elements of all cores together.
int64_t dv_view_elems(const dv_view *v);
// Elements that cores need in `b` and have not in `a`.
int64_t dv_view_missing(const dv_view *a, const dv_view *b);
// The access of an op that touches a tensor: its write, or its first read; -1:
// none does.
int dv_access_of(const dv_op *op, int32_t tensor);
// The view of a home, and of one core there: elements it has, and elements it
// must get from other cores' homes (RING).
const char *dv_home_view(dv_view *out, const dv_plan *plan, const dv_home *h);
int64_t dv_home_elems(const dv_plan *plan, const dv_home *h, int64_t core);
int64_t dv_home_missing(const dv_plan *plan, const dv_home *h, int64_t core);
// Bytes of a box, whole sticks and tiles; of the largest box of a view.
int64_t dv_box_bytes(const dv_layout *l, const int64_t *lo, const int64_t *hi);
int64_t dv_view_bytes(const dv_view *v, const dv_layout *l);
// Where an element of a box is in it, in elements.
int64_t dv_box_place(const dv_layout *l, const int64_t *lo, const int64_t *hi,
                     const int64_t *at);
#endif
