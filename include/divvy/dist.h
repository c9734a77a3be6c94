// Arrays that are distributed over a team of ranks: which rank owns which box
// of elements, copies of the neighbours' elements (halos), and the messages
// that move boxes from rank to rank. Also runs plans on teams (dv_rank_exec).
//
// A team is a number of ranks that make the same calls in the same order: the
// processes of MPI, threads of one process, or one rank alone. A complete
// program (built and run as examples/array.c):
//
//   #include <divvy/dist.h>
//   #include <stdio.h>
//
//   // What one rank of the team does: heat runs along a rod of 12 points.
//   static dv_status work(void *user, dv_team_link *link, dv_diag *diag)
//   {
//       const int64_t n = 12;
//       const dv_halo one = {.before = {1}, .after = {1}};
//       const dv_box end = {1, {{0, 1}}};
//       const double hot = 100;
//       double *sum = user;
//       dv_darray *u = NULL, *v = NULL, *all = NULL;
//       dv_dist d = dv_dist_rows(1, &n, dv_team_size(link));
//       if (dv_darray_create(&u, link, DV_ELEM_F64, &d, &one, diag) ||
//           dv_darray_set(u, &end, -1, &hot, diag) ||
//           dv_darray_move(&v, u, &d, &one, diag)) // a copy
//           return dv_diag_status(diag);
//       for (int step = 0; step < 20; step++) {
//           if (dv_darray_halo(u, diag))
//               return dv_diag_status(diag);
//           dv_range own = dv_darray_own(u).dim[0];
//           int64_t first = dv_darray_local(u).dim[0].off;
//           const double *x = dv_darray_data(u, NULL);
//           double *y = dv_darray_data(v, NULL);
//           for (int64_t i = own.off; i < own.off + own.size; i++) {
//               int64_t k = i - first; // where it lies here
//               if (i > 0 && i < n - 1)
//                   y[k] = 0.25 * x[k - 1] + 0.5 * x[k] + 0.25 * x[k + 1];
//           }
//           dv_darray *was = u;
//           u = v;
//           v = was;
//       }
//       if (dv_darray_reduce(&all, u, DV_REDUCE_SUM, NULL, 0, diag))
//           return dv_diag_status(diag);
//       if (dv_team_rank(link) == 0)
//           *sum = *(double *)dv_darray_data(all, NULL);
//       dv_darray_destroy(all);
//       dv_darray_destroy(v);
//       dv_darray_destroy(u);
//       return DV_OK;
//   }
//
//   int main(void)
//   {
//       dv_diag *diag = dv_diag_create();
//       for (int64_t n = 1; n <= 4; n += 3) { // alone, then four ranks
//           double sum = 0;
//           if (dv_team_local(n, work, &sum, diag)) {
//               fputs(dv_diag_text(diag), stderr);
//               return dv_status_exit(dv_diag_status(diag));
//           }
//           printf("%d: %.6f\n", (int)n, sum);
//       }
//       dv_diag_destroy(diag);
//       return 0;
//   }
//
// A call marked "Collective" must be made by all ranks of the team, in the same
// order, and returns the same status on all of them. Arguments must be the same
// on all ranks unless the comment says otherwise.
#ifndef DIVVY_DIST_H
#define DIVVY_DIST_H
#include "divvy/divvy.h"

#ifdef __cplusplus
extern "C" {
#endif

// -- Dividing over processes: which rank owns which elements -----------------
//
// These functions compute which rank owns which elements. They only calculate
// and send nothing, so every rank can compute its own part and that of any
// other rank. The prefix of a parameter tells what its indices count: global_
// the elements of the whole tensor, slice_ the elements of a slice, target_
// those elements of the slice that a rank has to compute.
//
//   dv_dist u = {.n_dims = 2, .shape = {512, 512}, .axis = {0, 1},
//                .n_axes = 2, .grid = {2, 3}};
//   int64_t one[2] = {1, 1};
//   dv_exchange *e = NULL;
//   if (dv_dist_halo(&e, &u, 4, one, one, 0, NULL) == DV_OK)
//       use(dv_dist_own(&u, 4), e->receives, e->n_receives);
//   dv_exchange_destroy(e);

typedef struct dv_range {
    int64_t off, size; // the indices off to off + size - 1
} dv_range;

// The indices off + k * stride for k = 0 to size - 1; stride is at least 1.
typedef struct dv_slice {
    int64_t off, size, stride;
} dv_slice;

typedef struct dv_box {
    int n_dims;
    dv_range dim[DV_MAX_DIMS];
} dv_box;

// The elements of a slice that are inside a range.
typedef struct dv_overlap {
    int64_t slice_off; // number of elements of the slice before the range
    int64_t size;      // number of elements of the slice in the range
    // First element of the slice at or after the start of the range.
    int64_t global_first;
} dv_overlap;

// Returns the part of 0..n that a rank owns if 0..n is cut into n_ranks parts.
// If the parts cannot be equal, the last ones have one element more. n >= 0,
// n_ranks >= 1, 0 <= rank < n_ranks.
DV_API dv_range dv_dist_part(int64_t n, int64_t n_ranks, int64_t rank);
// Returns the rank whose part contains the index global_off of 0..n. n_ranks >=
// 1, 0 <= global_off < n.
DV_API int64_t dv_dist_owner(int64_t n, int64_t n_ranks, int64_t global_off);
// Returns which elements of a slice are in a rank's part of the dim.
DV_API dv_overlap dv_dist_overlap(dv_range global_part, dv_slice slice);
// Returns the target: the elements of a slice that the owner of the part
// global_own computes, as a range of positions in the slice.
DV_API dv_range dv_dist_target(dv_range global_own, dv_slice slice);
// Returns the smallest range of indices that contains the elements of a slice
// at the positions slice_target, including the gaps between them.
DV_API dv_range dv_dist_bounds(dv_slice slice, dv_range slice_target);
// dv_dist_hull returns the smallest range that contains both ranges, ignoring
// an empty one; dv_dist_intersection returns their intersection.
DV_API dv_range dv_dist_hull(dv_range global_a, dv_range global_b);
DV_API dv_range dv_dist_intersection(dv_range global_a, dv_range global_b);
// Returns the core: the part of `target_core` (positions in the range
// slice_target that the rank computes) for which the rank owns all elements of
// the slice, so that it can be computed before messages arrive. With several
// operands, call it once per operand: start with {0, slice_target.size} and
// pass each result as the next `target_core`.
DV_API dv_range dv_dist_core(dv_range global_own, dv_slice slice,
                             dv_range slice_target, dv_range target_core);

// Where the elements of a range come from: the first `left` from lower ranks;
// then `own` from this rank, starting at offset own_off of its part; the last
// `right` from higher ranks.
typedef struct dv_sides {
    int64_t left, own_off, own, right;
} dv_sides;
DV_API dv_sides dv_dist_sides(dv_range global_own, dv_range global_box);

// Splits the elements of box `target` (what a rank computes) outside box
// `core`, which lies inside it (the interior that needs no received elements),
// into disjoint boxes, at most two per dim. Returns the number of boxes.
DV_API int dv_dist_edges(dv_box out[2 * DV_MAX_DIMS], const dv_box *target,
                         const dv_box *core);
// dv_dist_target_box and dv_dist_core_box do for all dims of a box what
// dv_dist_target and dv_dist_core do for one; `slices` has a slice per dim. For
// the edges of a core, pass dv_dist_edges a target of {0, size of the target}
// in every dim. If the core is empty in one dim, it has no elements.
DV_API dv_box dv_dist_target_box(const dv_box *global_own,
                                 const dv_slice *slices);
DV_API dv_box dv_dist_core_box(const dv_box *global_own, const dv_slice *slices,
                               const dv_box *slice_target,
                               const dv_box *target_core);
// Returns the elements at the positions `target_part` of a target (all of it,
// its core, or one of its edges) as a slice of indices relative to
// global_origin: 0 gives indices of the whole tensor, global_own.off those of
// the rank's own part.
DV_API dv_slice dv_dist_elements(dv_slice slice, dv_range slice_target,
                                 dv_range target_part, int64_t global_origin);

enum { DV_MAX_AXES = 4 };

// How a tensor is distributed over a grid of ranks. Ranks are numbered with the
// last axis of the grid varying fastest. Ranks that differ only along axes that
// cut none of the tensor's dims hold copies of the same elements.
typedef struct dv_dist {
    int n_dims;
    int64_t shape[DV_MAX_DIMS];
    int axis[DV_MAX_DIMS]; // the grid axis that cuts each dim; -1: none
    // For each dim, the index where each of its grid[axis] parts begins,
    // followed by the end of the last part. NULL: equal parts.
    const int64_t *starts[DV_MAX_DIMS];
    int n_axes;
    int64_t grid[DV_MAX_AXES];
    // If slice[i].stride is not 0, dim i is a slice of a longer dim of whole[i]
    // elements. Each element then belongs to the rank that owns it in the
    // longer dim, and starts[i] refers to the longer dim.
    dv_slice slice[DV_MAX_DIMS];
    int64_t whole[DV_MAX_DIMS];
} dv_dist;

// Fails if the distribution contradicts itself or is too large. The functions
// below that return no status require a distribution that passes this check.
DV_API dv_status dv_dist_check(const dv_dist *d, dv_diag *diag);
DV_API int64_t dv_dist_n_ranks(const dv_dist *d);
// Returns the box of the tensor that a rank owns; 0 <= rank < dv_dist_n_ranks.
DV_API dv_box dv_dist_own(const dv_dist *d, int64_t rank);

// A box of elements that is sent to a rank, or received from it.
typedef struct dv_piece {
    int64_t rank;
    dv_box box; // in indices of the whole tensor
} dv_piece;

// The boxes that one rank sends and receives, sorted by the other rank and then
// by position in the tensor.
typedef struct dv_exchange {
    const dv_piece *sends, *receives;
    size_t n_sends, n_receives;
    int64_t sent_elems, received_elems;
    int64_t n_sent_to, n_received_from; // numbers of ranks it exchanges with
} dv_exchange;

// Computes the exchange of halos: `rank` receives the elements around its own
// box that are inside the tensor, up to before[i] in front of it and after[i]
// after it in dim i. They may belong to several ranks. If `corners` is 0, the
// box is widened along one dim at a time, without the corners.
DV_API dv_status dv_dist_halo(dv_exchange **out, const dv_dist *d, int64_t rank,
                              const int64_t *before, const int64_t *after,
                              int corners, dv_diag *diag);
// Like dv_dist_halo, with different widths for each rank: widths[(r * n_dims +
// i) * 2] in front of the box of rank r in dim i, and the next number after it.
DV_API dv_status dv_dist_halo_each(dv_exchange **out, const dv_dist *d,
                                   int64_t rank, const int64_t *widths,
                                   int corners, dv_diag *diag);
// Computes the exchange that changes the distribution of a tensor from `from`
// to `to`. Both must have the same shape and number of ranks; their grids may
// differ. Exactly the elements whose owner changes are sent.
DV_API dv_status dv_dist_move(dv_exchange **out, const dv_dist *from,
                              const dv_dist *to, int64_t rank, dv_diag *diag);
DV_API void dv_exchange_destroy(dv_exchange *e);

// -- Running on a team of processes ------------------------------------------
//
// Runs a plan on the processes of MPI; fails with DV_E_SYSTEM if divvy was
// built without MPI. Every process makes the same plan for the team, fills the
// elements of the inputs that it owns, and runs the plan. All calls are made by
// all ranks together and return the same status on all of them.
//
//   MPI_Init(&argc, &argv);
//   dv_plan_options options = DV_PLAN_OPTIONS_INIT;
//   options.team = size;               // of MPI_COMM_WORLD
//   options.rank = rank;
//   …                                  // dv_plan_create as for one process
//   MPI_Comm world = MPI_COMM_WORLD;
//   dv_rank_exec *m = NULL;
//   if (dv_rank_exec_create(&m, plan, &world, NULL, diag) ||
//       dv_rank_exec_data(m, "u", &data, &local, &own, diag))
//       return fail(diag);
//   …                                  // fill the elements of `own` in data
//   if (dv_rank_exec_run(m, diag))
//       return fail(diag);
//   dv_rank_exec_destroy(m);

typedef struct dv_rank_exec dv_rank_exec; // this process's part of a plan

typedef struct dv_rank_exec_options {
    size_t size;
    // Fail with a message after waiting this many seconds for another rank; 0:
    // wait without limit.
    double timeout_s;
    // If not 0, ranks compare their arguments before they communicate. That
    // `checked` and max_message_bytes are the same on all ranks is always
    // checked.
    int checked;
    int64_t max_message_bytes; // longer messages are split; 0: 2^30
    // Number of threads of this process; 0: an equal share of the cores of its
    // machine. More than one thread requires that MPI was initialized with
    // MPI_THREAD_FUNNELED. Only the calling thread calls MPI.
    int32_t threads;
    int no_overlap; // 1: compute only after all messages have arrived
} dv_rank_exec_options;
#define DV_RANK_EXEC_OPTIONS_INIT                                              \
    {                                                                          \
        sizeof(dv_rank_exec_options), 0, 0, 0, 0, 0                            \
    }

// Prepares this process to run its part of the plan. `mpi_comm` points to an
// MPI_Comm (NULL: all processes), which is copied; MPI must be initialized. The
// plan is borrowed until dv_rank_exec_destroy, which must be called before
// MPI_Finalize. After DV_E_SYSTEM the ranks can no longer communicate, and the
// program can only call MPI_Abort.
DV_API dv_status dv_rank_exec_create(dv_rank_exec **out, const dv_plan *plan,
                                     const void *mpi_comm,
                                     const dv_rank_exec_options *options,
                                     dv_diag *diag);
DV_API void dv_rank_exec_destroy(dv_rank_exec *exec);
DV_API int64_t dv_rank_exec_rank(const dv_rank_exec *exec);
// Gets this rank's part of a tensor: *data holds the elements of the box
// `local`, dense and row-major; the rank owns those in the box `own`. *data is
// NULL if it owns none. The memory lives as long as the exec.
DV_API dv_status dv_rank_exec_data(const dv_rank_exec *exec, const char *tensor,
                                   void **data, dv_box *local, dv_box *own,
                                   dv_diag *diag);
// Runs the plan once on the elements of this rank. Allocates nothing.
DV_API dv_status dv_rank_exec_run(dv_rank_exec *exec, dv_diag *diag);
// Collects a tensor from all ranks on rank 0, in `whole`, which the other ranks
// ignore. All ranks must name the same tensor; this is checked.
DV_API dv_status dv_rank_exec_gather(dv_rank_exec *exec, const char *tensor,
                                     void *whole, dv_diag *diag);

// -- Lists of boxes ----------------------------------------------------------

// A set of elements as a list of disjoint boxes, without the gaps that one
// bounding box would include.
typedef struct dv_box_list dv_box_list;
DV_API dv_status dv_box_list_create(dv_box_list **out, int n_dims,
                                    dv_diag *diag);
DV_API void dv_box_list_destroy(dv_box_list *l);
// dv_box_list_add adds the elements of a box that are not in the list yet;
// dv_box_list_subtract removes the elements of a box from the list.
DV_API dv_status dv_box_list_add(dv_box_list *l, const dv_box *global_box,
                                 dv_diag *diag);
DV_API dv_status dv_box_list_subtract(dv_box_list *l, const dv_box *global_box,
                                      dv_diag *diag);
// Merges adjacent boxes whose union is a box.
DV_API void dv_box_list_join(dv_box_list *l);
DV_API size_t dv_box_list_count(const dv_box_list *l);
DV_API dv_box dv_box_list_at(const dv_box_list *l, size_t i); // box i
DV_API int64_t dv_box_list_elems(const dv_box_list *l);

// -- Distributions, and the messages that they need --------------------------

// Returns a distribution that cuts dim 0 into equal parts, one per rank, and no
// other dim. If n_dims is 0, every rank has a copy. 0 <= n_dims <= DV_MAX_DIMS,
// n_ranks >= 1.
DV_API dv_dist dv_dist_rows(int n_dims, const int64_t *shape, int64_t n_ranks);
// Makes a distribution that cuts the first dims over a grid of ranks. The grid
// is chosen to minimise halos (copies of neighbouring elements on other ranks).
DV_API dv_status dv_dist_blocks(dv_dist *out, int n_dims, const int64_t *shape,
                                int64_t n_ranks, dv_diag *diag);

// A callback that adds the boxes of a tensor that `rank` needs to the empty
// list `out`; elements that the rank owns may be included. The result must
// depend only on `user` and `rank`.
typedef dv_status (*dv_wants)(void *user, int64_t rank, dv_box_list *out,
                              dv_diag *diag);
// Computes what `rank` sends and receives so that every rank gets the boxes
// that `wants` lists for it. Rank r receives from rank s the elements that r
// needs and does not own and that s owns. `around` limits the search: `wants`
// is not called for other ranks that own no element of this box, because they
// need nothing from `rank`. NULL: it is called for all ranks.
DV_API dv_status dv_dist_exchange(dv_exchange **out, const dv_dist *d,
                                  int64_t rank, dv_wants wants, void *user,
                                  const dv_box *around, dv_diag *diag);

// -- Teams: ranks that work together -----------------------------------------

typedef struct dv_team_link dv_team_link; // a rank's connection to its team

// Creates a team of one rank.
DV_API dv_status dv_team_alone(dv_team_link **out, dv_diag *diag);
// Creates a team of the processes of an MPI_Comm (NULL: all processes), which
// is copied. Fails with DV_E_SYSTEM if divvy was built without MPI. options may
// be NULL. The link must be destroyed before MPI_Finalize. Collective.
DV_API dv_status dv_team_mpi(dv_team_link **out, const void *mpi_comm,
                             const dv_rank_exec_options *options,
                             dv_diag *diag);
// Runs `work` on a team of n ranks that are threads of this process. Returns
// the status of the first rank that failed. The link passed to `work` lives
// until the call returns.
DV_API dv_status dv_team_local(int64_t n,
                               dv_status (*work)(void *user, dv_team_link *link,
                                                 dv_diag *diag),
                               void *user, dv_diag *diag);
// Splits a team: ranks that pass the same `colour` form a new team and keep
// their order. `colour` may differ between ranks. Collective.
DV_API dv_status dv_team_split(dv_team_link **out, dv_team_link *link,
                               int64_t colour, dv_diag *diag);
DV_API void dv_team_destroy(dv_team_link *link);
DV_API int64_t dv_team_rank(const dv_team_link *link);
DV_API int64_t dv_team_size(const dv_team_link *link);
// Gets the number of bytes and messages that this rank has sent for arrays so
// far.
DV_API void dv_team_sent(const dv_team_link *link, int64_t *bytes,
                         int64_t *messages);

// -- Arrays that are distributed over a team ---------------------------------

typedef enum dv_elem {
#define DV_ELEM(NAME, name, bytes, kind) DV_ELEM_##NAME,
#include "divvy/elem.def"
#undef DV_ELEM
} dv_elem;

// This rank's part of a distributed array, or of a view of one.
typedef struct dv_darray dv_darray;

// The halo: copies that a rank keeps of the elements around its own box that
// are inside the array, up to before[i] in front of the box and after[i] after
// it in dim i. They may belong to several ranks. If `corners` is 0, the box is
// widened along one dim at a time, without the corners.
typedef struct dv_halo {
    int64_t before[DV_MAX_DIMS], after[DV_MAX_DIMS];
    int corners;
    // If not NULL, the halo widths of each rank, in the layout of
    // dv_dist_halo_each; `before` and `after` are then ignored. They must be
    // the same on all ranks, and are copied.
    const int64_t *widths;
} dv_halo;

// Creates an array of zeros. The distribution is copied and must have as many
// ranks as the team. halo may be NULL: no halo. The link is borrowed until all
// arrays that use it are destroyed. Collective.
DV_API dv_status dv_darray_create(dv_darray **out, dv_team_link *link,
                                  dv_elem type, const dv_dist *dist,
                                  const dv_halo *halo, dv_diag *diag);
// Creates an array over the caller's memory, which is borrowed and not copied.
// On each rank `data` holds the elements of the rank's own box and of its halo
// inside the array. `strides` are the distances in elements between neighbours
// along each dim; NULL: dense and row-major. Collective.
DV_API dv_status dv_darray_adopt(dv_darray **out, dv_team_link *link,
                                 dv_elem type, const dv_dist *dist,
                                 const dv_halo *halo, void *data,
                                 const int64_t *strides, dv_diag *diag);
// Creates one array by concatenating, in dim 0, the rows that each rank has in
// `data`, which is dense and is borrowed. The ranks exchange their numbers of
// rows, from which the offsets follow. `local_shape` may differ between ranks
// in dim 0 only. Collective.
DV_API dv_status dv_darray_join(dv_darray **out, dv_team_link *link,
                                dv_elem type, int n_dims,
                                const int64_t *local_shape, void *data,
                                dv_diag *diag);
// Destroys an array or a view. Memory that an array shares with its views is
// freed with the last of them.
DV_API void dv_darray_destroy(dv_darray *a);

// -- Queries: an array's type, distribution and memory -----------------------

DV_API dv_elem dv_darray_type(const dv_darray *a);
// Returns the distribution of the array; it lives as long as the array.
DV_API const dv_dist *dv_darray_dist(const dv_darray *a);
// dv_darray_own returns the box that this rank owns, dv_darray_local the box
// that it has in memory, which includes the halo. Both are in indices of the
// whole array.
DV_API dv_box dv_darray_own(const dv_darray *a);
DV_API dv_box dv_darray_local(const dv_darray *a);
// Returns the address of the first element of the local box, or NULL if that
// box is empty. Unless `strides` is NULL, strides[i] becomes the distance in
// elements between neighbours along dim i.
DV_API void *dv_darray_data(const dv_darray *a, int64_t *strides);
// Divides a dim of the whole array into three ranges of indices: parts[0]
// before the part that this rank owns, parts[1] that part, parts[2] after it.
DV_API void dv_darray_parts(const dv_darray *a, int dim, dv_range parts[3]);
// Sets global_off[i] to the index, in the whole array, of the first element
// that this rank has in memory in dim i; that is the start of the halo if there
// is one.
DV_API void dv_darray_offsets(const dv_darray *a, int64_t *global_off);

// -- Setting the elements of an array ----------------------------------------

// Sets every element that this rank owns to `value`, which points to one
// element of the array's type.
DV_API dv_status dv_darray_fill(dv_darray *a, const void *value, dv_diag *diag);
// Sets element i of an array of one dim to start + step * i, with the same bits
// for any number of ranks. Values are computed in f64 and rounded once;
// integers in an array of an integer type are exact.
DV_API dv_status dv_darray_arange(dv_darray *a, double start, double step,
                                  dv_diag *diag);
DV_API dv_status dv_darray_arange_int(dv_darray *a, int64_t start, int64_t step,
                                      dv_diag *diag);
// Returns the number of elements from start up to, but not including, stop.
// Returns -1 if there are too many to count, or if adding step never reaches
// stop.
DV_API int64_t dv_arange_size(double start, double stop, double step);
// Sets the elements to equally spaced values from start to stop. If `endpoint`
// is 0, stop itself is left out.
DV_API dv_status dv_darray_linspace(dv_darray *a, double start, double stop,
                                    int endpoint, dv_diag *diag);
// Calls `value` for every element that this rank owns. It gets the element's
// index in the whole array and writes the element to `elem`.
DV_API dv_status dv_darray_map(dv_darray *a,
                               void (*value)(void *user,
                                             const int64_t *global_off,
                                             void *elem),
                               void *user, dv_diag *diag);

// -- Views: parts of an array, or its dims in another order ------------------
//
// A view shares the memory of its array. Each element of a view belongs to the
// rank that owns it in the array, so that no element moves.

// Creates a view of the elements that slices[i] selects in each dim i.
DV_API dv_status dv_darray_view(dv_darray **out, const dv_darray *a,
                                const dv_slice *slices, dv_diag *diag);
// Creates a view with the dims in another order: dim i of the view is dim
// axes[i] of the array.
DV_API dv_status dv_darray_permute(dv_darray **out, const dv_darray *a,
                                   const int *axes, dv_diag *diag);

// -- Moving elements between ranks (all calls are collective) ----------------

// Copies `from` to `to`, arrays or views of the same shape on the same team.
// Only elements that a rank needs and does not have are sent. The two may share
// memory.
DV_API dv_status dv_darray_copy(dv_darray *to, const dv_darray *from,
                                dv_diag *diag);
// Copies `from` to `to`, which has another shape with the same number of
// elements; element k in row-major order becomes element k. The two must not
// share memory.
DV_API dv_status dv_darray_reshape(dv_darray *to, const dv_darray *from,
                                   dv_diag *diag);
// Creates an array with the same elements and another distribution. Exactly the
// elements whose owner changes are sent. The halo of the new array is filled.
DV_API dv_status dv_darray_move(dv_darray **out, const dv_darray *a,
                                const dv_dist *dist, const dv_halo *halo,
                                dv_diag *diag);
// Creates an array whose memory on this rank is `global_box`, any box of the
// whole array: it may differ between ranks, overlap the boxes of others, and
// leave out elements that the rank owns. The ranks tell each other their boxes,
// and a rank receives only the elements of its box that it did not have. Every
// element keeps its owner. If the box of every rank contains all that the rank
// owns, the rest of the box is the halo of the new array. Otherwise
// dv_darray_own returns the part of the box that the rank owns, and calls that
// read elements of other ranks refuse the array.
DV_API dv_status dv_darray_repartition(dv_darray **out, const dv_darray *a,
                                       const dv_box *global_box, dv_diag *diag);
// Collects all elements, row-major, in `whole` on rank `root` (-1: on all
// ranks). Other ranks ignore `whole`.
DV_API dv_status dv_darray_gather(const dv_darray *a, int64_t root, void *whole,
                                  dv_diag *diag);
// Sets the array from `whole` on rank `root`. If root is -1, all ranks pass the
// same `whole`, and nothing is sent.
DV_API dv_status dv_darray_scatter(dv_darray *a, int64_t root,
                                   const void *whole, dv_diag *diag);
// dv_darray_get collects the elements of one box in `out` on rank `root` (-1:
// on all ranks); dv_darray_set sets them from rank `root` (-1: all ranks pass
// the same elements).
DV_API dv_status dv_darray_get(const dv_darray *a, const dv_box *global_box,
                               int64_t root, void *out, dv_diag *diag);
DV_API dv_status dv_darray_set(dv_darray *a, const dv_box *global_box,
                               int64_t root, const void *in, dv_diag *diag);
// dv_darray_halo fills the halo with copies of the elements of other ranks.
// dv_darray_halo_start and _wait do this in two steps: between them a program
// can compute what needs no halo, but must not change elements that it owns.
// The first call prepares messages and buffers; later calls allocate nothing.
DV_API dv_status dv_darray_halo(dv_darray *a, dv_diag *diag);
DV_API dv_status dv_darray_halo_start(dv_darray *a, dv_diag *diag);
DV_API dv_status dv_darray_halo_wait(dv_darray *a, dv_diag *diag);

// -- Functions of elements ---------------------------------------------------
//
// A function has the name that the Python array API gives it: "add", "exp",
// "where" (docs/arrays.md lists them). Operands broadcast: dims are matched
// from the last one, and a dim of size 1 or none stands for any size. They are
// computed by the kernels of programs, in f64 if a type has 64 bits, else in
// f32; the bits do not depend on the team.

// Sets the elements of `to`, an array or a view, to a function of those of the
// operands. dv_elementwise_type says which types are allowed. Communication is
// overlapped: each rank first computes the elements of `to` for which it owns
// all operands. `to` may share memory with operands; its halo is not updated.
// Collective.
DV_API dv_status dv_darray_apply(dv_darray *to, const char *function,
                                 const dv_darray *const *operands,
                                 int n_operands, dv_diag *diag);
// Like dv_darray_apply, but creates an array for the result. It is distributed
// like the operands: each of its dims is cut like that of the first operand
// that has its size. Collective.
DV_API dv_status dv_darray_compute(dv_darray **out, const char *function,
                                   const dv_darray *const *operands,
                                   int n_operands, dv_diag *diag);
// Creates an array with the elements of `a` converted to another type, by the
// rules of stores in the language: floats are truncated to integers, and too
// wide integers keep their low bits. Collective.
DV_API dv_status dv_darray_cast(dv_darray **out, const dv_darray *a,
                                dv_elem type, dv_diag *diag);
// Gets the type of a function's result for operands of these types, or fails
// with the reason why it has none. Integers, and floats, are promoted to the
// narrowest type that holds the values of all operands (i8 and u8: i16; f16 and
// bf16: f32). Other types are not mixed, nor is u64 with signed integers.
DV_API dv_status dv_elementwise_type(dv_elem *out, const char *function,
                                     const dv_elem *types, int n_operands,
                                     dv_diag *diag);
// Returns the name of elementwise function number i, or NULL past the last.
DV_API const char *dv_elementwise_name(int i);

// -- Reductions of an array over some of its dims ----------------------------

typedef enum dv_reduction {
    DV_REDUCE_SUM,
    DV_REDUCE_PROD,
    DV_REDUCE_MAX,
    DV_REDUCE_MIN,
    DV_REDUCE_MEAN,
    DV_REDUCE_VAR, // variance: the mean squared deviation from the mean
    DV_REDUCE_STD, // standard deviation: the square root of DV_REDUCE_VAR
} dv_reduction;

// Reduces an array over the dims with over[i] != 0 (NULL: all dims). Reduced
// dims are removed or, with `keep`, get size 1. The result is a new array whose
// remaining dims are distributed as before; ranks along the axes that cut
// reduced dims get copies. If no dim remains, it is a scalar on every rank.
// Sums and products of integers have 64 bits and wrap around; mean, var and std
// of integers are f64; otherwise the type stays. Floats are summed in f64, in
// an order that depends only on the distribution, so that every run gives the
// same bits. NaN propagates. Max and min of no elements are an error.
// Collective.
DV_API dv_status dv_darray_reduce(dv_darray **out, const dv_darray *a,
                                  dv_reduction op, const int *over, int keep,
                                  dv_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
