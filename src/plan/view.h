// Views: which box of a tensor each core holds when an op accesses it. If an op
// accesses a whole tensor, each dim indexed by a variable of its own, its tiles
// divide the tensor into boxes, and the deals assign the boxes to cores.
//
//   d[i,j], i in slices of 256, j in slices of 64, tile 5 dealt to core 2:
//   core 2 has [0, 256) x [320, 384)
//
// If a reduced variable is sliced, only the core with the last part holds the
// result, because the sum is complete there.
//
// If a core has several tiles, it holds the box of one tile at a time: its
// tiles are numbered by round, in the order of the deals.
#ifndef DV_VIEW_H
#define DV_VIEW_H
#include "plan/plan.h"

// How one variable is cut into slices: the tile with number t has slice number
// (t / weight) % n of it.
typedef struct dv_view_cut {
    int64_t weight, n, slice, begin, end;
} dv_view_cut;

typedef struct dv_view {
    const dv_plan *plan;
    const dv_group *group;
    int32_t op, n_dims;
    int64_t n_tiles; // of the op
    int is_write;
    // Variable that indexes each dim; -1 if the dim has one element.
    int8_t var[DV_MAX_DIMS];
    // How the variable of each dim is sliced; begin and end are indices of the
    // dim.
    dv_view_cut cut[DV_MAX_DIMS];
    // For a write of partial results: how the reduced variables that are cut
    // into slices are cut.
    dv_view_cut parts[DV_MAX_VARS];
    int n_parts;
} dv_view;

// Returns the tile that a core computes in a round, or -1 if it has none: its
// first tile in round 0, the next one in round 1.
int64_t dv_group_tile(const dv_group *g, int64_t core, int64_t round);
// Computes the view (which box of the tensor each core holds) of access k of an
// op (the reads in order, then the write). Returns NULL, or the reason why
// there is no view.
const char *dv_view_make(dv_view *out, const dv_plan *plan, int32_t op, int k);
// Computes the view of read r of an op as dv_view_make does, but accepts reads
// that touch only a part of the tensor: consecutive indices of each dim.
const char *dv_view_make_part(dv_view *out, const dv_plan *plan, int32_t op,
                              int r);
// Computes a view as dv_view_make does, but refuses if a core has several tiles
// and so holds several boxes.
const char *dv_view_make_whole(dv_view *out, const dv_plan *plan, int32_t op,
                               int k);
// Computes the box of the tensor that a core holds in a round, lo..hi in each
// dim. Returns 0 if the core holds no element. Where no core has several tiles,
// all rounds have the same box.
int dv_view_box(const dv_view *v, int64_t core, int64_t round, int64_t *lo,
                int64_t *hi);
// Returns whether every core holds in view `a` (a box of the tensor per core)
// all elements that it has in view `b`: if the cores of `a` loop over tiles, in
// the same round; otherwise in all rounds of `b`.
int dv_view_holds(const dv_view *a, const dv_view *b);
int dv_view_same(const dv_view *a, const dv_view *b);
// Returns the number of elements of the tensor that all cores hold together,
// added up over all rounds.
int64_t dv_view_elems(const dv_view *v);
// Returns the number of elements that all cores hold, added up over all rounds,
// but leaves out boxes that equal the box of the same core in the round before.
int64_t dv_view_changes(const dv_view *v);
// Returns the number of elements that cores have in view `b` (a box of the
// tensor per core) and lack in view `a`.
int64_t dv_view_missing(const dv_view *a, const dv_view *b);
// Returns the access of an op to a tensor: its write, or else its first read;
// -1 if there is none.
int dv_access_of(const dv_op *op, int32_t tensor);
// A home is a tensor that is resident in the scratchpads, a box of it on each
// core. dv_home_view returns which boxes these are (NULL on success, else why
// there are none); dv_home_elems the number of elements on one core, added up
// over its tiles; dv_home_missing how many of them that core must copy from
// other cores when the home is filled from there.
const char *dv_home_view(dv_view *out, const dv_plan *plan, const dv_home *h);
int64_t dv_home_elems(const dv_plan *plan, const dv_home *h, int64_t core);
int64_t dv_home_missing(const dv_plan *plan, const dv_home *h, int64_t core);
// Returns whether a core reads its part of a home that is loaded and shared
// from main memory, rather than receiving it from another core.
int dv_home_fetches(const dv_plan *plan, const dv_home *h, int64_t core);
// A home of a group whose cores loop over tiles is loaded for every tile, with
// one exception: if it lives as long as the group, it is not loaded again for a
// tile that has the same box as the tile before. dv_home_stays returns whether
// that is so in a round; dv_home_loaded returns the number of elements that a
// core loads.
int dv_home_stays(const dv_home *h, const dv_view *v, int64_t core,
                  int64_t round);
int64_t dv_home_loaded(const dv_plan *plan, const dv_home *h, int64_t core);
// Returns the bytes that the largest box that any core holds takes in memory,
// in whole sticks (the target's units of memory) or tiles.
int64_t dv_view_bytes(const dv_view *v, const dv_layout *l);
// Returns the offset of the element with indices `at` inside a core's copy of
// the box lo..hi, in elements.
int64_t dv_box_place(const dv_layout *l, const int64_t *lo, const int64_t *hi,
                     const int64_t *at);
#endif
