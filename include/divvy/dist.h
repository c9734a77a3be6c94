// Arrays over a team of ranks: who owns which box, what lies around it, and
// what travels when boxes change hands. Also
// runs plans on teams (dv_member).
//
// A team is a number of ranks that make the same calls in the same order: the
// processes of MPI, threads of one process, or one rank alone. A complete
// program (built and run as examples/array.c):
//
//   #include <divvy/dist.h>
//   #include <stdio.h>
//
//   // What one rank of the team does: heat runs along a rod of 12 points.
//   static dv_status work(void *user, dv_peers *peers, dv_diag *diag)
//   {
//       const int64_t n = 12;
//       const dv_halo one = {.before = {1}, .after = {1}};
//       const dv_box end = {1, {{0, 1}}};
//       const double hot = 100;
//       double *sum = user;
//       dv_darray *u = NULL, *v = NULL, *all = NULL;
//       dv_dist d = dv_dist_rows(1, &n, dv_peers_size(peers));
//       if (dv_darray_create(&u, peers, DV_ELEM_F64, &d, &one, diag) ||
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
//       if (dv_darray_reduce(&all, u, DV_SUM, NULL, 0, diag))
//           return dv_diag_status(diag);
//       if (dv_peers_rank(peers) == 0)
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
//           if (dv_peers_local(n, work, &sum, diag)) {
//               fputs(dv_diag_text(diag), stderr);
//               return dv_status_exit(dv_diag_status(diag));
//           }
//           printf("%d: %.6f\n", (int)n, sum);
//       }
//       dv_diag_destroy(diag);
//       return 0;
//   }
//
// Calls that all ranks make together say so; they return the same on all of
// them. Arguments are the same on all ranks unless it is said that they are
// not.
#ifndef DIVVY_DIST_H
#define DIVVY_DIST_H
#include "divvy/divvy.h"

#ifdef __cplusplus
extern "C" {
#endif

// -- Dividing over processes -------------------------------------------------
//
// The arithmetic of who owns what, without processes: every rank of a team can
// work out its own part and everybody else's. Each function speaks of one
// system of coordinates, named in the parameter: global_ is an index of the
// whole tensor, slice_ one among the elements of a slice, target_ one among
// the elements of the slice that a rank has to compute.
//
//   dv_dist u = {.n_dims = 2, .shape = {512, 512}, .axis = {0, 1},
//                .n_axes = 2, .grid = {2, 3}};
//   int64_t one[2] = {1, 1};
//   dv_exchange *e = NULL;
//   if (dv_dist_halo(&e, &u, 4, one, one, 0, NULL) == DV_OK)
//       use(dv_dist_own(&u, 4), e->receives, e->n_receives);
//   dv_exchange_destroy(e);

typedef struct dv_range {
    int64_t off, size; // [off, off + size)
} dv_range;

// Elements off + k * stride for k in 0..size; stride is 1 or more.
typedef struct dv_slice {
    int64_t off, size, stride;
} dv_slice;

typedef struct dv_box {
    int n_dims;
    dv_range dim[DV_MAX_DIMS];
} dv_box;

// What of a slice lies in a range.
typedef struct dv_overlap {
    int64_t slice_off;    // elements of the slice before it
    int64_t size;         // elements in it
    int64_t global_first; // first element of the slice at or behind its start
} dv_overlap;

// 0..n cut into as many parts as there are ranks; where they cannot be equal
// the last ones have one element more.
DV_API dv_range dv_dist_part(int64_t n, int64_t n_ranks, int64_t rank);
// The rank whose part an index of 0..n is in.
DV_API int64_t dv_dist_owner(int64_t n, int64_t n_ranks, int64_t global_off);
DV_API dv_overlap dv_dist_overlap(dv_range global_part, dv_slice slice);
// The elements of a slice that the owner of a part computes, as slice_off.
DV_API dv_range dv_dist_target(dv_range global_own, dv_slice slice);
// What of the tensor these elements of the slice touch, gaps included.
DV_API dv_range dv_dist_bounds(dv_slice slice, dv_range slice_target);
// The least range with both in it (an empty one counts for nothing), and the
// range in both.
DV_API dv_range dv_dist_hull(dv_range global_a, dv_range global_b);
DV_API dv_range dv_dist_inner(dv_range global_a, dv_range global_b);
// The part of `target_core` whose elements of the slice are all owned: what can
// be computed before anything arrives. Chain it over the operands, starting
// with {0, slice_target.size}.
DV_API dv_range dv_dist_core(dv_range global_own, dv_slice slice,
                             dv_range slice_target, dv_range target_core);

// The first `left` rows of a box come from ranks before, the last `right` from
// ranks behind; `own` of them, from `own_off` of the owned part on, are there.
typedef struct dv_sides {
    int64_t left, own_off, own, right;
} dv_sides;
DV_API dv_sides dv_dist_sides(dv_range global_own, dv_range global_box);

// A box less another that lies in it, as boxes that do not meet; at most two a
// dim. Returns their number.
DV_API int dv_dist_edges(dv_box out[2 * DV_MAX_DIMS], const dv_box *target,
                         const dv_box *core);

enum { DV_MAX_AXES = 4 };

// A tensor over a grid of ranks; the last axis runs fastest. Along axes that
// cut none of its dims, ranks have copies.
typedef struct dv_dist {
    int n_dims;
    int64_t shape[DV_MAX_DIMS];
    int axis[DV_MAX_DIMS]; // that cuts the dim; -1: none
    // Where the parts begin, grid[axis] numbers, and one more where the last
    // ends; NULL: equal parts.
    const int64_t *starts[DV_MAX_DIMS];
    int n_axes;
    int64_t grid[DV_MAX_AXES];
    // The dim is a slice of a longer one of `whole` elements, and its elements
    // belong to whom those belong: starts are the longer one's. Stride 0: not.
    dv_slice slice[DV_MAX_DIMS];
    int64_t whole[DV_MAX_DIMS];
} dv_dist;

DV_API dv_status dv_dist_check(const dv_dist *d, dv_diag *diag);
DV_API int64_t dv_dist_n_ranks(const dv_dist *d);
DV_API dv_box dv_dist_own(const dv_dist *d, int64_t rank);

// A box that goes to a rank or comes from one.
typedef struct dv_piece {
    int64_t rank;
    dv_box box; // global
} dv_piece;

// What one rank sends and receives, by rank and then place.
typedef struct dv_exchange {
    const dv_piece *sends, *receives;
    size_t n_sends, n_receives;
    int64_t sent_elems, received_elems;
    int64_t n_sent_to, n_received_from; // ranks
} dv_exchange;

// What each rank lacks of its own box made wider by `before` and `after`
// elements per dim (inside the tensor; as wide as one likes), with corners or
// along one dim at a time.
DV_API dv_status dv_dist_halo(dv_exchange **out, const dv_dist *d, int64_t rank,
                              const int64_t *before, const int64_t *after,
                              int corners, dv_diag *diag);
// From one distribution of a shape to another on as many ranks, whose grids may
// differ: exactly the elements whose owner changes.
DV_API dv_status dv_dist_move(dv_exchange **out, const dv_dist *from,
                              const dv_dist *to, int64_t rank, dv_diag *diag);
DV_API void dv_exchange_destroy(dv_exchange *e);

// -- Running on a team of processes ------------------------------------------
//
// Over MPI, where divvy was built with one (DV_E_SYSTEM: it was not). Every
// process makes the same plan for the team, fills what it owns of the inputs,
// and runs; all calls are made by all ranks together, and all return the same.
//
//   MPI_Init(&argc, &argv);
//   dv_plan_options options = DV_PLAN_OPTIONS_INIT;
//   options.team = size;               // of MPI_COMM_WORLD
//   options.rank = rank;
//   …                                  // dv_plan_create as for one process
//   MPI_Comm world = MPI_COMM_WORLD;
//   dv_member *m = NULL;
//   if (dv_member_create(&m, plan, &world, NULL, diag) ||
//       dv_member_data(m, "u", &data, &local, &own, diag))
//       return fail(diag);
//   …                                  // fill the elements of `own` in data
//   if (dv_member_run(m, diag))
//       return fail(diag);
//   dv_member_destroy(m);

typedef struct dv_member dv_member; // this process's part of a plan

typedef struct dv_member_options {
    size_t size;
    // Fail with words instead of waiting longer for another rank; 0: wait.
    double timeout_s;
    // Compare what ranks are about to do before they do it together. This and
    // max_message_bytes are the same on all ranks, which is checked.
    int checked;
    int64_t max_message_bytes; // longer ones are cut; 0: 2^30
    // 0: this process's share of its machine's cores. More than one needs MPI
    // initialized with MPI_THREAD_FUNNELED; only the caller's thread calls MPI.
    int32_t threads;
    int no_overlap; // compute when all messages are there, not while they come
} dv_member_options;
#define DV_MEMBER_OPTIONS_INIT                                                 \
    {                                                                          \
        sizeof(dv_member_options), 0, 0, 0, 0, 0                               \
    }

// Get this process ready. `mpi_comm` points to an MPI_Comm (NULL: all
// processes), which is copied; MPI is initialized already. The plan is borrowed
// until dv_member_destroy, which comes before MPI_Finalize. After DV_E_SYSTEM
// ranks no longer hear each other: MPI_Abort is what is left.
DV_API dv_status dv_member_create(dv_member **out, const dv_plan *plan,
                                  const void *mpi_comm,
                                  const dv_member_options *options,
                                  dv_diag *diag);
DV_API void dv_member_destroy(dv_member *member);
DV_API int64_t dv_member_rank(const dv_member *member);
// A tensor as this rank has it: elements of `local` in rows, of which `own` are
// its own; NULL: it owns none. Lives as long as the member.
DV_API dv_status dv_member_data(const dv_member *member, const char *tensor,
                                void **data, dv_box *local, dv_box *own,
                                dv_diag *diag);
// Run once, on own elements. Allocates nothing.
DV_API dv_status dv_member_run(dv_member *member, dv_diag *diag);
// All of a tensor on rank 0; `whole` counts there alone. All ranks name the
// same one, which is checked.
DV_API dv_status dv_member_gather(dv_member *member, const char *tensor,
                                  void *whole, dv_diag *diag);

// -- Boxes -------------------------------------------------------------------

// Boxes that do not meet: needs as they are, not the hull around them.
typedef struct dv_box_list dv_box_list;
DV_API dv_status dv_box_list_create(dv_box_list **out, int n_dims,
                                    dv_diag *diag);
DV_API void dv_box_list_destroy(dv_box_list *l);
// Add what of a box is not there yet; take a box away from all.
DV_API dv_status dv_box_list_add(dv_box_list *l, const dv_box *global_box,
                                 dv_diag *diag);
DV_API dv_status dv_box_list_less(dv_box_list *l, const dv_box *global_box,
                                  dv_diag *diag);
// Make one of boxes side by side, where that is a box.
DV_API void dv_box_list_join(dv_box_list *l);
DV_API size_t dv_box_list_n(const dv_box_list *l);
DV_API dv_box dv_box_list_at(const dv_box_list *l, size_t i); // global
DV_API int64_t dv_box_list_elems(const dv_box_list *l);

// -- Distributions -----------------------------------------------------------

// Dim 0 in equal parts, one a rank; other dims are not cut. Without dims, a
// copy a rank.
DV_API dv_dist dv_dist_rows(int n_dims, const int64_t *shape, int64_t n_ranks);
// The first dims over a grid, so that halos have the fewest elements.
DV_API dv_status dv_dist_blocks(dv_dist *out, int n_dims, const int64_t *shape,
                                int64_t n_ranks, dv_diag *diag);

// What a rank wants of a tensor, as global boxes into an empty list; what it
// owns already may be among them. Depends on nothing but `user` and the rank.
typedef dv_status (*dv_wants)(void *user, int64_t rank, dv_box_list *out,
                              dv_diag *diag);
// What `rank` sends and receives when everybody gets what it wants: need_r
// without own_r, as far as own_s has it. Whoever owns nothing in the global box
// `around` wants nothing of this rank, and is not asked; NULL: all are asked.
DV_API dv_status dv_dist_exchange(dv_exchange **out, const dv_dist *d,
                                  int64_t rank, dv_wants wants, void *user,
                                  const dv_box *around, dv_diag *diag);

// -- Teams -------------------------------------------------------------------

typedef struct dv_peers dv_peers; // one rank's end of a team

// One rank and nobody else.
DV_API dv_status dv_peers_alone(dv_peers **out, dv_diag *diag);
// The processes of an MPI_Comm (NULL: all), which is copied; together.
// DV_E_SYSTEM: divvy was built without MPI. options may be NULL. Destroy it
// before MPI_Finalize.
DV_API dv_status dv_peers_mpi(dv_peers **out, const void *mpi_comm,
                              const dv_member_options *options, dv_diag *diag);
// A team of threads in this process: `work` is run by n ranks, and what the
// first one that failed says is returned. The peers live as long as the call.
DV_API dv_status dv_peers_local(int64_t n,
                                dv_status (*work)(void *user, dv_peers *peers,
                                                  dv_diag *diag),
                                void *user, dv_diag *diag);
// Ranks with the same `colour` (which may differ) as a team of their own, in
// order; together. It is a team like any other.
DV_API dv_status dv_peers_split(dv_peers **out, dv_peers *peers, int64_t colour,
                                dv_diag *diag);
DV_API void dv_peers_destroy(dv_peers *peers);
DV_API int64_t dv_peers_rank(const dv_peers *peers);
DV_API int64_t dv_peers_size(const dv_peers *peers);
// What this rank has sent for arrays so far.
DV_API void dv_peers_sent(const dv_peers *peers, int64_t *bytes,
                          int64_t *messages);

// -- Arrays ------------------------------------------------------------------

typedef enum dv_elem {
#define DV_ELEM(NAME, name, bytes, kind) DV_ELEM_##NAME,
#include "divvy/elem.def"
#undef DV_ELEM
} dv_elem;

typedef struct dv_darray
    dv_darray; // this rank's part of an array, or of a view

// Elements around the own box that a rank keeps copies of, per dim; inside the
// array, and as wide as one likes. With `corners` a whole box, else along one
// dim at a time.
typedef struct dv_halo {
    int64_t before[DV_MAX_DIMS], after[DV_MAX_DIMS];
    int corners;
} dv_halo;

// Zeros. The distribution is copied; its ranks are as many as the team's.
// halo may be NULL: none. The peers are borrowed until all arrays of theirs are
// destroyed. Together.
DV_API dv_status dv_darray_create(dv_darray **out, dv_peers *peers,
                                  dv_elem type, const dv_dist *dist,
                                  const dv_halo *halo, dv_diag *diag);
// The same over the caller's memory, which is borrowed and not copied: `data`
// (its own on each rank) has the elements of the own box and the halo inside
// the array, `strides` elements from one to the next; NULL: dense rows.
// Together.
DV_API dv_status dv_darray_adopt(dv_darray **out, dv_peers *peers, dv_elem type,
                                 const dv_dist *dist, const dv_halo *halo,
                                 void *data, const int64_t *strides,
                                 dv_diag *diag);
// Rows that each rank brings, as many as it has, as one array: offsets are
// found by telling each other. `local_shape` differs in dim 0 alone. `data` is
// borrowed, dense. Together.
DV_API dv_status dv_darray_join(dv_darray **out, dv_peers *peers, dv_elem type,
                                int n_dims, const int64_t *local_shape,
                                void *data, dv_diag *diag);
// What is there after views of it are gone too is freed with the last of them.
DV_API void dv_darray_destroy(dv_darray *a);

// -- What an array is --------------------------------------------------------

DV_API dv_elem dv_darray_type(const dv_darray *a);
// Shape, grid and parts; lives as long as the array.
DV_API const dv_dist *dv_darray_dist(const dv_darray *a);
// This rank's own box, and what it has in memory: with halos. Global.
DV_API dv_box dv_darray_own(const dv_darray *a);
DV_API dv_box dv_darray_local(const dv_darray *a);
// The first element of the local box, and elements from one of a dim to the
// next (NULL: not asked). NULL where nothing is.
DV_API void *dv_darray_data(const dv_darray *a, int64_t *strides);
// parts_of: what is before the own part of a dim, the own part, and what is
// behind it. Global.
DV_API void dv_darray_parts(const dv_darray *a, int dim, dv_range parts[3]);
// local_offsets_of: the global index of the first element in memory, per dim:
// of the left halo, where there is one.
DV_API void dv_darray_offsets(const dv_darray *a, int64_t *global_off);

// -- Values ------------------------------------------------------------------

// Every own element; `value` is one element of the array's type.
DV_API dv_status dv_darray_fill(dv_darray *a, const void *value, dv_diag *diag);
// Arrays of one dim: element i is start + step * i, whatever the team. Values
// are made in f64 and rounded once; whole numbers, in arrays of them, are
// exact.
DV_API dv_status dv_darray_arange(dv_darray *a, double start, double step,
                                  dv_diag *diag);
DV_API dv_status dv_darray_arange_int(dv_darray *a, int64_t start, int64_t step,
                                      dv_diag *diag);
// The number of elements that lead from start up to, and without, stop; -1:
// more than can be counted, or a step that leads nowhere.
DV_API int64_t dv_arange_size(double start, double stop, double step);
// As many steps as the array has elements, with or without the end.
DV_API dv_status dv_darray_linspace(dv_darray *a, double start, double stop,
                                    int endpoint, dv_diag *diag);
// Call `value` for every own element; it writes the element at a global index.
DV_API dv_status dv_darray_map(dv_darray *a,
                               void (*value)(void *user,
                                             const int64_t *global_off,
                                             void *elem),
                               void *user, dv_diag *diag);

// -- Views -------------------------------------------------------------------
//
// Views share memory with the array and have a distribution that follows from
// its: element k of a view belongs to whom it belonged. Nothing moves.

// Elements off + k * stride of every dim.
DV_API dv_status dv_darray_view(dv_darray **out, const dv_darray *a,
                                const dv_slice *slices, dv_diag *diag);
// Dim i of the view is dim axes[i] of the array.
DV_API dv_status dv_darray_permute(dv_darray **out, const dv_darray *a,
                                   const int *axes, dv_diag *diag);

// -- Moving, all of it together ----------------------------------------------

// to[k] = from[k] for arrays or views of one shape on one team: only what this
// rank has not itself travels. They may share memory.
DV_API dv_status dv_darray_copy(dv_darray *to, const dv_darray *from,
                                dv_diag *diag);
// The same for two shapes of as many elements, which are counted in rows. They
// share no memory.
DV_API dv_status dv_darray_reshape(dv_darray *to, const dv_darray *from,
                                   dv_diag *diag);
// A new array with another distribution, and the same elements: exactly those
// whose owner changes are moved. Halos of the new one are filled.
DV_API dv_status dv_darray_move(dv_darray **out, const dv_darray *a,
                                const dv_dist *dist, const dv_halo *halo,
                                dv_diag *diag);
// All elements in rows, on rank `root` (-1: on all of them) in `whole`, which
// counts there alone; and the other way round.
DV_API dv_status dv_darray_gather(const dv_darray *a, int64_t root, void *whole,
                                  dv_diag *diag);
// With root -1 all ranks have the same `whole`, and nothing travels.
DV_API dv_status dv_darray_scatter(dv_darray *a, int64_t root,
                                   const void *whole, dv_diag *diag);
// The same for a box.
DV_API dv_status dv_darray_get(const dv_darray *a, const dv_box *global_box,
                               int64_t root, void *out, dv_diag *diag);
DV_API dv_status dv_darray_set(dv_darray *a, const dv_box *global_box,
                               int64_t root, const void *in, dv_diag *diag);
// Fill the halo from its owners. In two steps, what needs no halo can be
// computed between them; own elements must not change before the second.
// Messages and buffers are prepared once; later calls allocate nothing.
DV_API dv_status dv_darray_halo(dv_darray *a, dv_diag *diag);
DV_API dv_status dv_darray_halo_start(dv_darray *a, dv_diag *diag);
DV_API dv_status dv_darray_halo_wait(dv_darray *a, dv_diag *diag);

// -- Reductions --------------------------------------------------------------

typedef enum dv_reduction {
    DV_SUM,
    DV_PROD,
    DV_MAX,
    DV_MIN,
    DV_MEAN,
    DV_VAR, // mean squared distance from the mean
    DV_STD, // its root
} dv_reduction;

// Over the dims with over[i] != 0 (NULL: all), which go, or stay with one
// element each (keep). The result is a new array cut as what is left of the
// dims was, with copies along the axes that cut the others; of no dims, a
// scalar on every rank. Sums and products of whole numbers are 64 bits wide and
// wrap; mean, var and std of them are f64; else the type stays. Floats are
// summed in f64, in an order that depends on the distribution alone: the same
// bits run after run. Nan stays nan. Max and min of no elements are an error.
// Together.
DV_API dv_status dv_darray_reduce(dv_darray **out, const dv_darray *a,
                                  dv_reduction op, const int *over, int keep,
                                  dv_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
