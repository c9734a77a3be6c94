// Arrays over a team: a rank's end of the team, its parts of arrays, and boxes
// on their way.
//
//   array    own box, local box around it, memory, a distribution
//   view     the same over another array's memory: a slice of each dim, or
//            dims in another order; its distribution says who owns what
//   ferry    messages of one exchange with their buffers, used once or often
//
// Moving between two arrays is moving between two distributions of one index
// space, whatever slices and strides lie below: that is why one exchange serves
// copies, transposes, new layouts, and boxes in and out.
//
//   darray.h    private to the folder; the public API is divvy/dist.h
//   peers.c     a rank's end of a team: over MPI, as a thread, or alone
//   elem.c      converts elements to and from f64, i64 and u64
//   array.c     creates arrays and views, answers queries about them
//   fill.c      fills arrays with values that follow from the index
//   messages.c  copies boxes between memories and carries them as messages
//   move.c      copies, redistributes, gathers and scatters; exchanges halos
//   reduce.c    reduces arrays over any dims
//   reshape.c   gives the same elements another shape
#ifndef DV_DARRAY_H
#define DV_DARRAY_H
#include "dist/dist.h"
#include "team/team.h"

// -- Teams (peers.c) -------------------------------------------------------

struct dv_peers {
    dv_comm *comm;
    dv_local *local; // the team of threads it is an end of, or NULL: MPI
    int leaves;      // the last one to leave frees that
    int32_t n_wires; // numbers given out, the same on all ranks
    int64_t sent_bytes, sent_messages;
};

int32_t dv_peers_wire(dv_peers *p); // the next number
// Are all about to do this? Only asked of teams that are checked.
dv_status dv_peers_meet(dv_peers *p, const char *what, uint64_t hash,
                        dv_diag *diag);
// Everybody brings how its own part went, and all return the same. `mine` is
// destroyed.
dv_status dv_peers_settle(dv_peers *p, dv_status st, dv_diag *mine,
                          dv_diag *diag);

// -- Elements (elem.c) -----------------------------------------------------

typedef struct dv_elem_info {
    const char *name;
    int64_t bytes;
    char kind; // f, i, u
} dv_elem_info;
const dv_elem_info *dv_elem_get(dv_elem t);
// n elements, `stride` bytes apart, as f64, i64 or u64 by kind; and back, which
// rounds once, and wraps what is too wide.
void dv_elem_load(dv_elem t, const char *from, int64_t stride, int64_t n,
                  void *to);
void dv_elem_store(dv_elem t, char *to, int64_t stride, int64_t n,
                   const void *from);

// -- Memory with a box in it (messages.c) -------------------------------------

typedef struct dv_mem {
    char *data; // the first element of `box`
    dv_box box;
    int64_t stride[DV_MAX_DIMS]; // bytes
} dv_mem;

// Strides of dense rows.
dv_mem dv_mem_rows(void *data, const dv_box *box, int64_t elem_bytes);
// A box that lies in both, from one to the other.
void dv_mem_copy(const dv_mem *to, const dv_mem *from, const dv_box *box,
                 int64_t elem_bytes);

// -- Ferries (messages.c) -----------------------------------------------------

typedef struct dv_ferry dv_ferry;

// Where boxes go and come from, by rank and then place, on both ends alike.
typedef struct dv_cargo {
    const dv_piece *sends, *receives;
    size_t n_sends, n_receives;
} dv_cargo;

// Buffers and messages; together, and all return the same. Pieces are copied.
dv_status dv_ferry_create(dv_ferry **out, dv_peers *p, const dv_cargo *cargo,
                          int64_t elem_bytes, dv_diag *diag);
void dv_ferry_destroy(dv_ferry *f);
// Load what is sent; wait for what comes, and put it where it belongs.
dv_status dv_ferry_start(dv_ferry *f, const dv_mem *from, dv_diag *diag);
dv_status dv_ferry_wait(dv_ferry *f, const dv_mem *to, dv_diag *diag);

// -- Arrays (array.c) ------------------------------------------------------

// Memory that an array and its views share.
typedef struct dv_share {
    void *data;
    int n_users, owned;
    int under_way; // between halo_start and halo_wait
} dv_share;

struct dv_darray {
    dv_peers *peers; // borrowed
    dv_elem type;
    dv_dist dist; // starts are in the arena
    dv_box own;
    dv_mem mem; // its box is the local one
    dv_halo halo;
    dv_share *share;
    dv_ferry *ferry; // of the halo, when it has been asked for
    int is_view;
    dv_arena arena; // it lives in it
};

// A number for what an array is, the same on all ranks.
uint64_t dv_darray_hash(const dv_darray *a, uint64_t h);
int64_t dv_darray_bytes(const dv_darray *a); // of an element
// May the rank write it just now?
dv_status dv_darray_idle(const dv_darray *a, dv_diag *diag);
// An array of a distribution that is known to be right.
dv_status dv_darray_make(dv_darray **out, dv_peers *p, dv_elem type,
                         const dv_dist *d, const dv_halo *halo, void *data,
                         const int64_t *strides, dv_diag *diag);
#endif
