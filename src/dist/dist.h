// Distribution: which rank owns which box of a tensor, and what has to travel.
//
// Two layers. The arithmetic (part.c, box.c, team.c, volume.c) knows integers
// and nothing of programs; it is in the public header. The pass (pass.c and
// the files beside it) chooses a grid of ranks and a distribution per tensor,
// and says of every op which elements a rank lacks.
//
//   own_r    the box of a tensor that rank r keeps
//   need_r   the boxes that an op of rank r reads
//   receive from s    need_r less own_r, as far as own_s has it
//   send to s         need_s less own_s, as far as own_r has it
//
// Nobody asks anybody: need_s follows from the program and from s. Candidates
// for s are found per axis of the grid, so that a rank of a million plans in
// the time its few partners take.
//
// Memory: lists live in the arena they are given.
#ifndef DV_DIST_H
#define DV_DIST_H
#include "plan/plan.h"

// -- Boxes (box.c) ---------------------------------------------------------

typedef struct dv_boxes {
    dv_box *at;
    int32_t n, cap;
} dv_boxes;

int dv_box_empty(const dv_box *b);
int64_t dv_box_elems(const dv_box *b);
dv_box dv_box_inner(const dv_box *a, const dv_box *b);
dv_box dv_box_hull(const dv_box *a, const dv_box *b);
int dv_box_in(const dv_box *a, const dv_box *b); // is a in b?
// Add what of a box is not there yet, as boxes that do not meet. 0: no memory.
int dv_boxes_add(dv_boxes *to, const dv_box *b, dv_arena *arena);
// Take a box away from all.
int dv_boxes_less(dv_boxes *from, const dv_box *b, dv_arena *arena);
// Append as it is.
int dv_boxes_push(dv_boxes *to, const dv_box *b, dv_arena *arena);
int64_t dv_boxes_elems(const dv_boxes *l);

// -- Teams (team.c) --------------------------------------------------------

void dv_grid_coords(int64_t *out, const int64_t *grid, int n_axes,
                    int64_t rank);
int64_t dv_grid_rank(const int64_t *coords, const int64_t *grid, int n_axes);
// The part of one dim that a coordinate of the dim's axis has.
dv_range dv_dist_dim(const dv_dist *d, int dim, int64_t coord);
// Coordinates whose part of a dim meets a range, first..end.
void dv_dist_coords(const dv_dist *d, int dim, dv_range global, int64_t *first,
                    int64_t *end);
// Is the axis one that cuts a dim?
int dv_dist_cuts(const dv_dist *d, int axis);

typedef struct dv_pieces {
    dv_piece *at;
    int32_t n, cap;
} dv_pieces;

// Who has these boxes, which do not meet: for every one the owners nearest to
// `rank` (along axes of copies its own coordinate), itself left out.
int dv_dist_sources(dv_pieces *out, const dv_dist *d, int64_t rank,
                    const dv_boxes *need, dv_arena *arena);
void dv_pieces_sort(dv_pieces *l);
int64_t dv_pieces_elems(const dv_pieces *l);

// The boxes a rank needs beyond its own, by formula; 0: no memory.
typedef int (*dv_need)(void *user, int64_t rank, dv_boxes *out,
                       dv_arena *arena);
// Coordinates, per axis, of ranks that may need something of a box.
typedef struct dv_ranks {
    int64_t first[DV_MAX_AXES], end[DV_MAX_AXES];
} dv_ranks;
// What `rank` sends to those among them that lack it.
int dv_dist_sinks(dv_pieces *out, const dv_dist *d, int64_t rank,
                  const dv_ranks *among, dv_need need, void *user,
                  dv_arena *arena);

// -- Volumes (volume.c) ----------------------------------------------------

// The largest sum of overlap[i][new_of[i]] that a renaming of n ranks has.
dv_status dv_dist_relabel(int64_t *best, const int64_t *overlap, int64_t n,
                          dv_diag *diag);
// The least number of words that one of n_ranks moves in a product of an
// m x k and a k x n matrix when each starts and ends with its share.
double dv_dist_product_bound(double m, double n, double k, double n_ranks);
#endif
