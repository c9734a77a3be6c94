// Distribution: which rank owns which box of a tensor, and what has to travel.
//
// Two layers. The arithmetic (part.c to value.c below) knows integers and
// nothing of programs; it is in the public header. The pass (grid.c to pass.c)
// chooses a grid of ranks and a distribution per tensor, and says of every op
// which elements a rank lacks.
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
//
//   part.c      parts of one dim, and slices of it
//   box.c       boxes, and lists of boxes that do not overlap
//   list.c      lists of boxes and common distributions for the public API
//   team.c      own boxes, owners and partners over grids of ranks
//   exchange.c  what a rank sends and receives: halos, moves, any boxes
//   volume.c    bytes to move: the best relabelling of ranks, lower bounds
//   value.[ch]  values that follow from an index, states of reductions
//   grid.c      chooses the grid of ranks
//   choose.c    chooses which axis cuts which dim of each tensor
//   need.c      what a rank computes and lacks for an op, and who sends it
//   swaps.c     which exchange is needed before which op
//   json.c      prints the section as JSON
//   pass.c      the pass "dist" and its section of the plan
#ifndef DV_DIST_H
#define DV_DIST_H
#include "base/json.h"
#include "divvy/dist.h"
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
// Make one of boxes that touch side by side, where that is a box.
void dv_boxes_join(dv_boxes *l);
// Append as it is.
int dv_boxes_push(dv_boxes *to, const dv_box *b, dv_arena *arena);
int64_t dv_boxes_elems(const dv_boxes *l);

// The public list (list.c).
struct dv_box_list {
    int n_dims;
    dv_boxes boxes;
    dv_arena arena;
};

// -- Teams (team.c) ----------------------------------------------------------

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
// Does a rank ask another one, and not one of its copies, for what is there?
int dv_dist_asks(const dv_dist *d, int64_t rank, int64_t other);
// What `rank` sends to those among them that lack it.
int dv_dist_sinks(dv_pieces *out, const dv_dist *d, int64_t rank,
                  const dv_ranks *among, dv_need need, void *user,
                  dv_arena *arena);

// The same, with coordinates in another grid of as many ranks.
int dv_dist_sinks_in(dv_pieces *out, const dv_dist *d, int64_t rank,
                     const int64_t *grid, int n_axes, const dv_ranks *among,
                     dv_need need, void *user, dv_arena *arena);

// -- Volumes (volume.c) ----------------------------------------------------

// The largest sum of overlap[i][new_of[i]] that a renaming of n ranks has.
dv_status dv_dist_relabel(int64_t *best, const int64_t *overlap, int64_t n,
                          dv_diag *diag);
// The least number of words that one of n_ranks moves in a product of an
// m x k and a k x n matrix when each starts and ends with its share.
double dv_dist_product_bound(double m, double n, double k, double n_ranks);

// -- Ops of a team (need.c) ------------------------------------------------

// How an axis of the grid cuts an op: index base + coef * var is within the
// part of dim `dim` of `d` that the axis's coordinate has.
typedef struct dv_bind {
    const dv_dist *d; // NULL: the axis does not cut the op
    int dim;
    int32_t var; // -1: the index is a constant
    int64_t coef, base;
    int reduced; // the variable is summed over: results are parts
} dv_bind;

// Ranges of an op's variables.
typedef struct dv_space {
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
} dv_space;

void dv_team_binds(dv_bind out[DV_MAX_AXES], const dv_program *p,
                   const dv_team *t, int32_t op);
// What a rank computes of an op. 0: nothing.
int dv_team_target(dv_space *out, const dv_program *p, const dv_team *t,
                   int32_t op, int64_t rank);
// What an access touches over a space that is not empty: dims that are found
// by an index are whole.
dv_box dv_access_box(const dv_program *p, const dv_op *op, const dv_access *a,
                     const dv_space *s);
// What a rank lacks of a swap's tensor before the swap.
int dv_team_need(dv_boxes *out, const dv_program *p, const dv_team *t,
                 const dv_swap *s, int64_t rank, dv_arena *arena);
// The part of a target that needs nothing of what an op's swaps bring: 0 when
// there is none.
int dv_team_core(dv_space *core, const dv_program *p, const dv_team *t,
                 int32_t op, int64_t rank, const dv_space *target);
// A space less another that lies in it. Returns the number of pieces.
int dv_space_edges(dv_space out[2 * DV_MAX_VARS], const dv_op *op,
                   const dv_space *target, const dv_space *core);
static inline int64_t dv_elem_bytes(const dv_program *p, int32_t tensor)
{
    return dv_dtype_get(p->tensors[tensor].dtype)->size_bytes;
}
// Does nothing of a tensor ever move for an op: is what a rank reads what it
// has, whichever rank it is?
int dv_team_aligned(const dv_program *p, const dv_team *t, int32_t op,
                    int32_t tensor);
// What comes to the plan's rank for a product of two matrices, and the least
// that must come to a rank (json.c). 0: the op is none.
int dv_team_product(const dv_plan *plan, int32_t op, int64_t *bytes,
                    double *bound_bytes);

// -- Choosing (choose.c, grid.c) -------------------------------------------

// Dims of tensors that belong together, and what may be cut.
typedef struct dv_alike dv_alike;
dv_status dv_alike_create(dv_alike **out, const dv_program *p, dv_arena *arena,
                          dv_diag *diag);
// The most axes a grid for it is given.
int dv_alike_axes(const dv_alike *a, const dv_program *p);
// Distributions of all tensors, and reduced variables to cut, for a grid.
// `quiet`: it is only tried, do not warn.
dv_status dv_team_choose(dv_team *t, const dv_alike *a, const dv_program *p,
                         int quiet, dv_arena *arena, dv_diag *diag);
// The largest part of the anchor.
double dv_team_weight(const dv_team *t, const dv_alike *a, const dv_program *p);
// Bytes that all ranks receive for an op or for all of them, as estimated from
// a few ranks.
double dv_op_cost(const dv_team *t, const dv_program *p, int32_t op);
double dv_team_cost(const dv_team *t, const dv_program *p);
// The best grid of so many ranks.
dv_status dv_team_grid(dv_team *t, const dv_alike *a, const dv_program *p,
                       int64_t size, dv_diag *diag);
// What moves before which op (swaps.c).
dv_status dv_team_swaps(dv_team *t, const dv_program *p, dv_arena *arena,
                        dv_diag *diag);
#endif
