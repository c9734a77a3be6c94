// Distribution: which rank owns which box of a tensor, and which boxes must be
// sent.
//
// There are two layers. The arithmetic (part.c to value.c below) works on
// integers and boxes and knows nothing of programs; its API is in the public
// header. The pass (grid.c to pass.c) chooses a grid of ranks and a
// distribution per tensor, and computes for every op which elements a rank must
// receive.
//
//   own_r             the box of a tensor that rank r owns
//   need_r            the boxes that an op of rank r reads
//   receive from s    need_r minus own_r, intersected with own_s
//   send to s         need_s minus own_s, intersected with own_r
//
// Ranks send no requests, because need_s can be computed from the program and
// s. Candidates for s are found per axis of the grid, so that planning time
// depends on the number of partners and not on the number of ranks.
//
// Lists are allocated in the arena that is passed in.
//
//   part.c          computes the parts and slices of one dim
//   box.c           boxes, and lists of boxes that do not overlap
//   list.c          box lists and common distributions of the public API
//   team.c          own boxes, owners and partners over grids of ranks
//   exchange.c      what a rank sends and receives: halos, moves, any boxes
//   volume.c        bytes to move: the best relabelling of ranks, lower bounds
//   value.[ch]      values computed from an index; accumulators of reductions
//   grid.c          chooses the grid of ranks
//   choose.c        chooses which axis cuts which dim of each tensor
//   need.c          what a rank computes and lacks for an op, and who sends it
//   op_exchanges.c  decides which exchanges (dv_op_exchange) precede which ops
//   rank_program.[ch] the program of one rank, with copies to and from messages
//   json.c          prints the plan's section dist as JSON
//   pass.c          the pass "dist" and its section of the plan
//
// Other folders may also include: rank_program.h, value.h
#ifndef DV_DIST_H
#define DV_DIST_H
#include "base/json.h"
#include "divvy/dist.h"
#include "plan/plan.h"

// box.c computes with boxes: element counts, intersection (inner), bounding box
// (hull) and lists of disjoint boxes.

typedef struct dv_boxes {
    dv_box *at;
    int32_t n, cap;
} dv_boxes;

int dv_box_empty(const dv_box *b);
int64_t dv_box_elems(const dv_box *b);
dv_box dv_box_inner(const dv_box *a, const dv_box *b);
dv_box dv_box_hull(const dv_box *a, const dv_box *b);
// Returns whether a lies inside b.
int dv_box_in(const dv_box *a, const dv_box *b);
// Returns the box of all elements of an array with this shape.
dv_box dv_box_whole(int n_dims, const int64_t *shape);
// Returns the position of element `at` in a dense row-major array of the
// elements of box `in`.
static inline int64_t dv_box_offset(const dv_box *in, const int64_t *at)
{
    int64_t off = 0;
    for (int d = 0; d < in->n_dims; d++)
        off = off * in->dim[d].size + at[d] - in->dim[d].off;
    return off;
}
// Enumerates the rows of a box in row-major order:
//
//   for (dv_box_row r = dv_box_first_row(&box); r.n; dv_box_next_row(&r, &box))
//
// The current row has n elements, starting at element `at` of the array; n is 0
// after the last row.
typedef struct dv_box_row {
    int64_t n;
    int64_t at[DV_MAX_DIMS];
} dv_box_row;
static inline dv_box_row dv_box_first_row(const dv_box *b)
{
    dv_box_row r = {.n = b->n_dims ? b->dim[b->n_dims - 1].size : 1};
    for (int d = 0; d < b->n_dims; d++)
        r.at[d] = b->dim[d].off;
    r.n = dv_box_empty(b) ? 0 : r.n;
    return r;
}
static inline void dv_box_next_row(dv_box_row *r, const dv_box *b)
{
    for (int d = b->n_dims - 2; d >= 0; d--) {
        if (++r->at[d] < b->dim[d].off + b->dim[d].size)
            return;
        r->at[d] = b->dim[d].off;
    }
    r->n = 0;
}
// Adds the part of a box that the list does not cover yet, as disjoint boxes.
// Returns 0 if out of memory.
int dv_boxes_add(dv_boxes *to, const dv_box *b, dv_arena *arena);
// Removes a box from all boxes of the list, which are split where necessary.
// Returns 0 if out of memory.
int dv_boxes_subtract(dv_boxes *from, const dv_box *b, dv_arena *arena);
// Merges pairs of adjacent boxes whose union is a box.
void dv_boxes_join(dv_boxes *l);
// Appends a box without looking for overlaps; empty boxes are skipped.
int dv_boxes_push(dv_boxes *to, const dv_box *b, dv_arena *arena);
int64_t dv_boxes_elems(const dv_boxes *l);

// The public list of disjoint boxes (list.c).
struct dv_box_list {
    int n_dims;
    dv_boxes boxes;
    dv_arena arena;
};

// team.c converts between ranks and grid coordinates and finds the owners of
// boxes.

void dv_grid_coords(int64_t *out, const int64_t *grid, int n_axes,
                    int64_t rank);
int64_t dv_grid_rank(const int64_t *coords, const int64_t *grid, int n_axes);
// Lists in order the ranks that differ from `rank` only along axes of the mask;
// `out` has room for all. Returns the index of `rank` among them.
int64_t dv_grid_members(int64_t *out, const int64_t *grid, int n_axes,
                        int64_t rank, uint32_t axes);
// Returns the part of dim `dim` that ranks at coordinate `coord` of the dim's
// axis own.
dv_range dv_dist_dim(const dv_dist *d, int dim, int64_t coord);
// Finds the coordinates, first to end - 1, whose part of the dim overlaps a
// range.
void dv_dist_coords(const dv_dist *d, int dim, dv_range global, int64_t *first,
                    int64_t *end);
// Returns whether the axis distributes a dim of the tensor.
int dv_dist_cuts(const dv_dist *d, int axis);

// Advances the indices `at` of the first n_dims dims to the next ones within
// the box, the last dim fastest. Returns 0 after the last of them.
int dv_box_next(const dv_box *b, int64_t *at, int n_dims);
// Returns the range r extended by `before` and `after` elements, limited to
// 0..n.
dv_range dv_range_widen(dv_range r, int64_t before, int64_t after, int64_t n);

typedef struct dv_pieces {
    dv_piece *at;
    int32_t n, cap;
} dv_pieces;

// Lists the ranks that `rank` must receive the disjoint boxes `need` from,
// excluding `rank` itself. Along axes that hold replicas, the sender with the
// same coordinate as `rank` is taken.
int dv_dist_senders(dv_pieces *out, const dv_dist *d, int64_t rank,
                    const dv_boxes *need, dv_arena *arena);
// Appends a box unless it is empty. Returns 0 if out of memory.
int dv_pieces_push(dv_pieces *l, int64_t rank, const dv_box *b,
                   dv_arena *arena);
void dv_pieces_sort(dv_pieces *l);
int64_t dv_pieces_elems(const dv_pieces *l);

// A callback that lists the boxes that `rank` needs and does not own. Returns 0
// if out of memory.
typedef int (*dv_need_fn)(void *user, int64_t rank, dv_boxes *out,
                          dv_arena *arena);
// A range of grid coordinates per axis: the ranks that may need a part of some
// box.
typedef struct dv_ranks {
    int64_t first[DV_MAX_AXES], end[DV_MAX_AXES];
} dv_ranks;
// Returns whether `rank` receives elements of `other`'s part from `other` and
// not from another replica of that part.
int dv_dist_fetches_from(const dv_dist *d, int64_t rank, int64_t other);
// Lists the boxes that `rank` must send to those ranks of `among` that need
// them.
int dv_dist_receivers(dv_pieces *out, const dv_dist *d, int64_t rank,
                      const dv_ranks *among, dv_need_fn need, void *user,
                      dv_arena *arena);

// Does the same as dv_dist_receivers, with the coordinates of `among` in
// another grid with the same number of ranks.
int dv_dist_receivers_in(dv_pieces *out, const dv_dist *d, int64_t rank,
                         const int64_t *grid, int n_axes, const dv_ranks *among,
                         dv_need_fn need, void *user, dv_arena *arena);

// volume.c computes lower bounds on the data that must move.

// Computes the maximum of the sum of overlap[i][new_of[i]] over all
// permutations new_of of n ranks.
dv_status dv_dist_relabel(int64_t *best, const int64_t *overlap, int64_t n,
                          dv_diag *diag);
// Returns a lower bound on the number of elements that one of n_ranks must
// receive or send in the product of an m x k and a k x n matrix, when every
// rank starts and ends with its share.
double dv_dist_product_bound(double m, double n, double k, double n_ranks);

// need.c computes which part of an op a rank computes and what it must receive.

// How an axis of the grid distributes an op: a rank computes the points where
// index base + coef * var lies in its part of dim `dim` of distribution `d`.
typedef struct dv_axis_binding {
    const dv_dist *d; // NULL if the axis does not distribute the op
    int dim;
    int32_t var; // -1: the index is constant
    int64_t coef, base;
    // 1 if the axis distributes a reduction variable, so that each rank has a
    // partial result.
    int reduced;
} dv_axis_binding;

void dv_team_binds(dv_axis_binding out[DV_MAX_AXES], const dv_program *p,
                   const dv_plan_team *t, int32_t op);
// Computes the part of an op's iteration space that a rank computes. Returns 0
// if it is empty.
int dv_team_target(dv_iter_space *out, const dv_program *p,
                   const dv_plan_team *t, int32_t op, int64_t rank);
// Returns the bounding box of an access over a nonempty space. A dim with an
// indirect index is taken whole.
dv_box dv_access_box(const dv_program *p, const dv_op *op, const dv_access *a,
                     const dv_iter_space *s);
// Lists the boxes of the exchanged tensor that a rank needs and does not have
// before the exchange `s`.
int dv_team_need(dv_boxes *out, const dv_program *p, const dv_plan_team *t,
                 const dv_op_exchange *s, int64_t rank, dv_arena *arena);
// Computes the core: the part of `target` (the points that a rank computes)
// that needs no element from other ranks, so that it can be computed while
// messages travel. Returns 0 if that part is empty.
int dv_team_core(dv_iter_space *core, const dv_program *p,
                 const dv_plan_team *t, int32_t op, int64_t rank,
                 const dv_iter_space *target);
// Splits `target` (the points that a rank computes) minus `core` (those that
// need no received elements) into disjoint pieces; returns their number.
int dv_space_edges(dv_iter_space out[2 * DV_MAX_VARS], const dv_op *op,
                   const dv_iter_space *target, const dv_iter_space *core);
static inline int64_t dv_elem_bytes(const dv_program *p, int32_t tensor)
{
    return dv_dtype_get(p->tensors[tensor].dtype)->size_bytes;
}
// Returns whether every rank owns all elements of the tensor that it reads for
// the op, so that no exchange is needed.
int dv_team_aligned(const dv_program *p, const dv_plan_team *t, int32_t op,
                    int32_t tensor);
// For a matrix product, gets the bytes of operands that the plan's rank
// receives and the lower bound for them (json.c). Returns 0 if the op is not a
// matrix product.
int dv_team_product(const dv_plan *plan, int32_t op, int64_t *bytes,
                    double *bound_bytes);

// choose.c and grid.c choose the grid of ranks and the distributions.

// Groups dims that are indexed by the same variables into classes, and records
// which dims may be cut.
typedef struct dv_dim_classes dv_dim_classes;
dv_status dv_dim_classes_create(dv_dim_classes **out, const dv_program *p,
                                dv_arena *arena, dv_diag *diag);
// Returns the number of axes that a grid for this program should have.
int dv_dim_classes_axes(const dv_dim_classes *a, const dv_program *p);
// Chooses the distributions of all tensors and the reduction variables to
// distribute, for the grid in `t`. `quiet` suppresses warnings, for grids that
// are only candidates.
dv_status dv_team_choose(dv_plan_team *t, const dv_dim_classes *a,
                         const dv_program *p, int quiet, dv_arena *arena,
                         dv_diag *diag);
// Returns the number of elements of the anchor (the largest written tensor)
// that the rank with the largest part owns.
double dv_team_weight(const dv_plan_team *t, const dv_dim_classes *a,
                      const dv_program *p);
// Estimates the bytes that all ranks receive for one op, from a few sampled
// ranks.
double dv_op_cost(const dv_plan_team *t, const dv_program *p, int32_t op);
// Chooses the grid of `size` ranks with the least communication.
dv_status dv_team_grid(dv_plan_team *t, const dv_dim_classes *a,
                       const dv_program *p, int64_t size, dv_diag *diag);
// Decides which exchanges take place before which op (op_exchanges.c).
dv_status dv_team_exchanges(dv_plan_team *t, const dv_program *p,
                            dv_arena *arena, dv_diag *diag);
#endif
