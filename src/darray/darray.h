// Arrays distributed over a team of ranks: each rank holds its part of every
// array, and boxes of elements travel between ranks as messages.
//
//   array    a distribution, the rank's own box, the local box (own box plus
//            halo) and its memory
//   view     an array over another array's memory: a slice of each dim, or a
//            permutation of the dims; its distribution says who owns what
//   transfer the messages of one exchange with their buffers; may be reused
//
// Every copy between two arrays is a change between two distributions of one
// index space, whatever slices and strides the arrays have in memory. Therefore
// the same exchange code serves copies, transposes, redistributions, and
// reading or writing boxes.
//
//   darray.h    declarations private to the folder; public API: divvy/dist.h
//   link.c      connects a rank to its team: over MPI, as a thread, or alone
//   elem.c      converts elements to and from f64, i64 and u64
//   array.c     creates arrays and views, answers queries about them
//   fill.c      fills arrays with values computed from the index
//   messages.c  copies boxes between memories and sends them as messages
//   move.c      copies, redistributes, gathers and scatters; exchanges halos
//   boxes.c     gives every rank the elements of a box of its own choice
//   apply.c     functions of elements, computed while messages travel
//   function.[ch] which functions there are, and the programs that compute them
//   function.def  the functions, with their types and expressions
//   reduce.c    reduces arrays over any dims
//   reshape.c   copies an array into one of another shape, in row-major order
#ifndef DV_DARRAY_H
#define DV_DARRAY_H
#include "dist/dist.h"
#include "team/team.h"

// A dv_team_link (link.c) is one rank's connection to its team.

struct dv_team_link {
    dv_comm *comm;
    // The in-process team of threads, or NULL if the team is over MPI.
    dv_local *local;
    // If set, destroying this connection calls dv_local_leave(local); the last
    // rank to leave frees the team.
    int leaves;
    // How many exchanges have been given a number. All ranks count alike, so
    // that they match messages of the same exchange.
    int32_t n_message_sets;
    int64_t sent_bytes, sent_messages;
    // Plans and kernels of functions of elements, made on first use.
    struct dv_function_cache *functions;
};
typedef struct dv_function_cache dv_function_cache; // function.c
void dv_function_cache_free(dv_function_cache *c);

int32_t dv_team_new_exchange(dv_team_link *p); // returns a new exchange number
// Checks that all ranks are about to make the same collective call `what` with
// the same arguments (`hash`). Does nothing unless the team was created with
// the option `checked`.
dv_status dv_team_check_same(dv_team_link *p, const char *what, uint64_t hash,
                             dv_diag *diag);
// Combines the status of all ranks: every rank passes its own status and
// message (`mine`, which is destroyed), and all ranks return the same result.
dv_status dv_team_agree(dv_team_link *p, dv_status st, dv_diag *mine,
                        dv_diag *diag);

// The functions of elem.c describe the element types and convert elements.

typedef struct dv_elem_info {
    const char *name;
    int64_t bytes;
    char kind; // 'f' float, 'i' signed integer, 'u' unsigned integer
} dv_elem_info;
const dv_elem_info *dv_elem_get(dv_elem t);
// Convert n elements, `stride` bytes apart, to an array of f64, i64 or u64
// according to the kind of `t` (load), and back (store). A store of a float
// rounds once; a store of a too wide integer wraps.
void dv_elem_load(dv_elem t, const char *from, int64_t stride, int64_t n,
                  void *to);
void dv_elem_store(dv_elem t, char *to, int64_t stride, int64_t n,
                   const void *from);

// A dv_mem (messages.c) describes memory that holds a box of elements.

typedef struct dv_mem {
    char *data; // address of the first element of `box`
    dv_box box;
    int64_t stride[DV_MAX_DIMS]; // in bytes
} dv_mem;

// Describes `data` as a dense row-major array of the elements of `box`.
dv_mem dv_mem_rows(void *data, const dv_box *box, int64_t elem_bytes);
// Returns the address of the first element of box b, which lies in the memory.
char *dv_mem_at(const dv_mem *m, const dv_box *b);
// Copies `box`, which must lie inside the boxes of both memories.
void dv_mem_copy(const dv_mem *to, const dv_mem *from, const dv_box *box,
                 int64_t elem_bytes);

// A dv_transfer (messages.c) is a prepared set of messages that moves boxes
// between ranks. It can be started any number of times.

typedef struct dv_transfer dv_transfer;

// The boxes a rank sends and receives, sorted by rank and then by offset, so
// that sender and receiver list the boxes of a message in the same order.
typedef struct dv_transfer_boxes {
    const dv_piece *sends, *receives;
    size_t n_sends, n_receives;
} dv_transfer_boxes;

// Allocates the message buffers and opens the messages. All ranks must call it
// together, and all return the same status. `cargo` lists the boxes to send and
// receive, and is copied.
dv_status dv_transfer_create(dv_transfer **out, dv_team_link *p,
                             const dv_transfer_boxes *cargo, int64_t elem_bytes,
                             dv_diag *diag);
void dv_transfer_destroy(dv_transfer *f);
// dv_transfer_start packs the send buffers from memory `from` and sends them;
// dv_transfer_wait receives all messages and unpacks them into memory `to`.
dv_status dv_transfer_start(dv_transfer *f, const dv_mem *from, dv_diag *diag);
dv_status dv_transfer_wait(dv_transfer *f, const dv_mem *to, dv_diag *diag);

// The functions of array.c create arrays and views.

// Reference-counted memory that an array and its views share.
typedef struct dv_share {
    void *data;
    int n_users, owned;
    // 1 if a halo exchange has been started and not yet waited for.
    int halo_pending;
} dv_share;

struct dv_darray {
    dv_team_link *link; // this rank's connection to its team; borrowed
    dv_elem type;
    // How the array is cut over the ranks. The pointers starts[] in it, where
    // parts begin, refer to copies in `arena`, so that they outlive the
    // caller's.
    dv_dist dist;
    dv_box own;
    dv_mem mem; // memory of this rank's part with its halo
    dv_halo halo;
    dv_share *share;
    dv_transfer
        *halo_transfer; // messages of the halo exchange, created on first use
    int is_view;
    // 1 if the memory of some rank leaves out elements that the rank owns, so
    // that other ranks cannot get them (dv_darray_repartition).
    int partial;
    dv_arena arena; // all memory of this array, including this struct
};

// Continues the hash h with the array's type, distribution and halo; the result
// is equal on all ranks.
uint64_t dv_darray_hash(const dv_darray *a, uint64_t h);
int64_t dv_darray_bytes(const dv_darray *a); // bytes of one element
// Returns DV_OK if the array may be written now, or DV_E_USAGE if a halo
// exchange was started and not yet waited for.
dv_status dv_darray_idle(const dv_darray *a, dv_diag *diag);
// Fails if a rank lacks elements of the array that it owns.
dv_status dv_darray_complete(const dv_darray *a, dv_diag *diag);
// Checks that `to` may be written, and that the arrays have one team and one
// element type.
dv_status dv_darray_check_pair(const dv_darray *to, const dv_darray *from,
                               dv_diag *diag);
// Creates an array without checking the distribution. With data NULL, zeroed
// memory is allocated; strides (in elements, NULL: dense) apply to `data`.
dv_status dv_darray_make(dv_darray **out, dv_team_link *p, dv_elem type,
                         const dv_dist *d, const dv_halo *halo, void *data,
                         const int64_t *strides, dv_diag *diag);
// Does the same as dv_darray_make for an array whose memory on this rank is the
// box `local`.
dv_status dv_darray_make_box(dv_darray **out, dv_team_link *p, dv_elem type,
                             const dv_dist *d, const dv_halo *halo,
                             const dv_box *local, dv_diag *diag);
#endif
