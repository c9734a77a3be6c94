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
// Every call but open and close may be made in a loop and allocates nothing. A
// rank that fails says so with fail: whoever waits for it wakes up and fails.
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
    void (*fail)(dv_comm *c);
} dv_comm_ops;

struct dv_comm {
    int64_t rank, size;
    const dv_comm_ops *ops;
};

// -- A team inside one process (comm_local.c) ------------------------------

typedef struct dv_local dv_local;
dv_status dv_local_create(dv_local **out, int64_t size, dv_diag *diag);
// Rank r's end; each is used by one thread at a time.
dv_comm *dv_local_rank(dv_local *l, int64_t rank);
void dv_local_destroy(dv_local *l);
// Bytes that have been carried so far, and messages.
int64_t dv_local_bytes(const dv_local *l);
int64_t dv_local_messages(const dv_local *l);
#endif
