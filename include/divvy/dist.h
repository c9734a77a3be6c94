// Arrays over a team of ranks: who owns which box, what lies around it, and
// what travels when boxes change hands. Goes with divvy.h, which has the
// arithmetic (dv_dist_part, dv_dist_own, dv_dist_halo, dv_dist_move, …).
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
