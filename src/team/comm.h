// What a distributed run asks of the thing that carries its messages. Messages
// are prepared once and sent as often as the program runs through them: buffers
// stay where they are, so that persistent requests fit behind this.
//
//   open     say once what goes where; every rank opens the same wires in the
//            same order, and numbers them alike
//   start    the send buffers are full: let them go, and let messages in
//   next     wait until one more message is there; its number, -1 after the
//   last finish   the send buffers may be filled again
//
// Every call but open and close may be made in a loop and allocates nothing.
//
// A rank with a failure of its own (no memory, a bad index) goes on sending and
// receiving, and all agree about it where the program lets them meet
// (dv_comm_settle). What fails here is the carrying itself: then `why` says
// how, and fail wakes up those who wait, where that is possible.
#ifndef DV_COMM_H
#define DV_COMM_H
#include "base/diag.h"

// One message: its partner and the buffer it leaves from or arrives in.
typedef struct dv_link {
    int64_t rank;
    void *data; // borrowed until the wire is closed
    int64_t bytes;
} dv_link;

typedef struct dv_wire dv_wire;
typedef struct dv_comm dv_comm;

typedef struct dv_comm_ops {
    const char *name;
    dv_status (*open)(dv_comm *c, dv_wire **out, int32_t number,
                      const dv_link *sends, int32_t n_sends,
                      const dv_link *receives, int32_t n_receives,
                      dv_diag *diag);
    dv_status (*start)(dv_comm *c, dv_wire *w);
    // The number of a receive that is there now; -1: all have been, or the team
    // failed, which finish tells.
    int32_t (*next)(dv_comm *c, dv_wire *w);
    dv_status (*finish)(dv_comm *c, dv_wire *w);
    void (*close)(dv_comm *c, dv_wire *w);
    // Wait for all; the largest value that anybody brought.
    dv_status (*agree)(dv_comm *c, int64_t *value);
    // What rank `root` has in `data`, to everybody's.
    dv_status (*share)(dv_comm *c, int64_t root, void *data, int64_t bytes);
    void (*fail)(dv_comm *c);
    // Let messages under way go on; NULL: they do so by themselves.
    void (*poke)(dv_comm *c, dv_wire *w);
} dv_comm_ops;

struct dv_comm {
    int64_t rank, size;
    int64_t near; // ranks on this machine; 0: not known
    const dv_comm_ops *ops;
    int64_t bytes, messages; // sent by this rank so far
    int one_thread;          // the process may have no others beside it
    int checked;             // compare what ranks do before they do it together
    char why[256]; // of a call that failed; empty: another rank failed
};

// -- Agreeing (agree.c) ---------------------------------------------------

// Everybody brings how its own part went, with its error in `mine` (NULL: no
// words). All return the same: DV_OK, or what the first rank that failed said.
dv_status dv_comm_settle(dv_comm *c, dv_status st, dv_diag *mine,
                         dv_diag *diag);
// Are all about to do the same? `hash` says what; the ranks that differ from
// most are named.
dv_status dv_comm_same(dv_comm *c, uint64_t hash, const char *what,
                       dv_diag *diag);
// The failure of a call of the comm, in words.
dv_status dv_comm_error(dv_comm *c, dv_status st, dv_diag *diag);
// Continue a hash with bytes (FNV-1a); begin with DV_HASH.
#define DV_HASH ((uint64_t)0xcbf29ce484222325u)
uint64_t dv_hash(uint64_t h, const void *bytes, size_t n);

// -- Comparing (facts.c) ---------------------------------------------------

// Something that all ranks must have alike, in words.
typedef struct dv_fact {
    const char *name;  // as a message has it: "--seed", "DIVVY_EXECUTOR="
    const char *value; // "": a switch that is on; NULL: this rank has none
} dv_fact;
// Compare lists of facts, together; two reductions where they are equal. All
// ranks return the same: DV_OK, or DV_E_USAGE with the first difference of the
// lowest rank that differs from rank 0, such as "rank 1 was started with --seed
// 7, rank 0 with --seed 1" where `how` is "started".
dv_status dv_comm_compare(dv_comm *c, const dv_fact *facts, int32_t n,
                          const char *how, dv_diag *diag);

// -- A team inside one process (comm_local.c) ------------------------------

typedef struct dv_local dv_local;
dv_status dv_local_create(dv_local **out, int64_t size, dv_diag *diag);
// Rank r's end; each is used by one thread at a time.
dv_comm *dv_local_rank(dv_local *l, int64_t rank);
void dv_local_destroy(dv_local *l);
// A team of some ranks of another one: it fails when that one does, and is
// destroyed first.
void dv_local_part(dv_local *l, dv_local *part);
// For teams without an owner: the last of the ranks to leave destroys it.
void dv_local_leave(dv_local *l);
// Bytes that have been carried so far, and messages.
int64_t dv_local_bytes(const dv_local *l);
int64_t dv_local_messages(const dv_local *l);
#endif
