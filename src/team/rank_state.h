// Inside run/: what a rank of a distributed run is made of.
//
//   rank.c       creating one: its boxes, memory, ops
//   exchange.c  its messages
//   rank_op.c    its ops: boxes cut into tiles, kernels, threads
//   rank_run.c   walking the program
#ifndef DV_DIST_IN_H
#define DV_DIST_IN_H
#include "team/combine.h"
#include "exec/product.h"

// Messages of one swap: one buffer per partner, filled box by box.
typedef struct dv_post {
    dv_swap swap;
    dv_link *sends, *receives;
    int32_t *send_at, *receive_at; // first piece of each partner, and the end
    int32_t n_sends, n_receives;
    dv_wire *wire;
    dv_carried carried; // so far, to this rank
} dv_post;

// A box of an op, computed as soon as the messages are there that it needs.
typedef struct dv_work {
    dv_space box;
    int32_t n_waits; // messages
    dv_tile *tiles;  // each for one thread; threads have runs of them
    int64_t *acc_at; // first accumulator of each
    int32_t n_tiles, first_tile; // number of tiles[0] among all of the op
} dv_work;

typedef struct dv_rank_op {
    dv_kernel k;
    dv_space target;
    int has_target;
    dv_work *works; // the core first, where there is one
    int32_t n_works, n_tiles;
    // Of message m of the op's exchanges, in order, work w needs something:
    // needs[m * n_works + w].
    char *needs;
    int32_t *left;  // messages that each work waits for in this run
    dv_post **from; // its exchanges
    int32_t n_from;
    // Results that are sums of several ranks', or of several tiles': first all
    // parts go to accumulators.
    dv_combine *sum; // NULL: nothing is combined between ranks
    int in_parts;    // tiles are parts of the same results
    char *acc;       // in_parts: of all tiles
    int64_t n_results;
    char *raw; // accumulators as kernels leave them; NULL: as all ranks do
    // How a tile is computed; neither: in strips.
    dv_product *product;
    dv_vec_op *vec;
    int looks; // in strips where values are not as they must be (vec_range.h)
    void **at; // of its accesses: reads, then the write
} dv_rank_op;

// One thread of a rank and what it works with.
typedef struct dv_hand {
    dv_strips strips;
    dv_product_set set; // owned
    void *memory;       // that tiles of products need
    dv_diag *diag;      // owned
} dv_hand;

struct dv_rank {
    dv_arena arena; // it lives in it
    const dv_plan *plan;
    const dv_program *p;
    dv_comm *comm;
    int overlap;         // compute while messages travel
    int64_t min_points;  // of a tile
    dv_box *own, *local; // per tensor
    void **data;
    dv_rank_op *ops;
    dv_post *exchanges; // one per swap
    void *snapshot;     // of the largest tensor an update reads
    int32_t n_slots, n_wires;
    // Threads; the first one is the caller's and alone speaks to others.
    dv_hand *hands;
    int32_t n_hands;
    dv_plan whole;       // nothing is sliced: for products
    dv_jit *jit;         // NULL: no machine for it, all goes in strips
    dv_wire *travelling; // messages under way that need a hand now and then
    dv_status status;    // of this rank alone, until all agree
    dv_diag *trouble;    // in words
    dv_diag *diag;       // the caller's
    // Called after each round of an outermost repeat; where to go on.
    dv_rank_step step;
    void *user;
    int32_t from_repeat; // -1: from the start
    int64_t from_round;
    int32_t depth;
    int64_t round;          // of the repeat at hand
    uint64_t hash, program; // of the plan, of its program alone
    uint64_t n_done;        // exchanges so far
    double exchange_s;      // of the last run: in exchanges, not computing
};

static inline int64_t dv_rank_elem(const dv_rank *r, int32_t tensor)
{
    return dv_elem_bytes(r->p, tensor);
}

// -- Messages (exchange.c) ------------------------------------------------

dv_status dv_posts_create(dv_rank *r, dv_diag *diag);
dv_status dv_post_start(dv_rank *r, dv_post *e);
// The next message, into the tensor and into its snapshot if one is read: its
// number, or -1 when all have been.
int32_t dv_post_next(dv_rank *r, dv_post *e, void *old);
dv_status dv_post_finish(dv_rank *r, dv_post *e);

// -- Ops (rank_op.c) -------------------------------------------------------

// Few results of many points: threads share the sums, not the results.
int dv_hands_part(const dv_rank *r, const dv_rank_op *o);
// Threads, kernels and tiles; memory and exchanges are there already.
dv_status dv_hands_create(dv_rank *r, int32_t n, dv_diag *diag);
void dv_hands_destroy(dv_rank *r);
// The op at hand reads a snapshot of what it writes, if it needs one.
void dv_hands_snapshot(dv_rank *r, const dv_rank_op *o);
// All tiles of a work. DV_WHOLE: results; else accumulators from or to `acc`.
void dv_hands_compute(dv_rank *r, const dv_rank_op *o, const dv_work *w,
                      int part, char *acc);
#endif
