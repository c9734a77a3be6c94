// The program of one rank of a team: what remains of the team's program when it
// is restricted to the boxes of one rank. It is an ordinary program that is
// planned, checked and run like any other; copies to and from message buffers
// are ops of it.
//
//   team, 2 ranks                    rank 1
//
//   input u: f64[8]                  input u: f64[5]    # elements 3..8
//   input v: f64[8]                  input v: f64[4]    # elements 4..8
//   v[i] <- u[i-1] + u[i]            input u_from_0: f64[1]
//       for i in 1..8                input messages: i32[]
//   output v                         extern messages[] <- 0   # start
//                                    v[i] <- u[i] + u[i+1]  for i in 1..4
//                                    extern messages[] <- 1   # wait
//                                    u[i0] <- u_from_0[i0]  for i0 in 0..1
//                                    v[i] <- u[i] + u[i+1]  for i in 0..1
//                                    output u, v, messages
//
// The ops that write `messages` are where the rank communicates: they are
// extern, so that no level moves work across them, and their constant is the
// number of an event.
//
// Tensors have the extents of the rank's local boxes. A tensor that is not all
// written by its defining op, because the rank receives a part of it, is both
// an input and an output; so is a tensor that is used inside and outside of a
// repeat, because checkpoints save it.
#ifndef DV_RANK_PROGRAM_H
#define DV_RANK_PROGRAM_H
#include "dist/dist.h"

// What a rank does at an event: one of its ops that write to the tensor
// `messages`.
typedef enum dv_rank_act {
    DV_ACT_NOTHING, // keeps a repeat in the program that has no other op
    DV_ACT_START,   // starts the messages of an exchange
    DV_ACT_WAIT,    // waits for the messages of an exchange
    DV_ACT_COMBINE, // adds up the partial sums of several ranks
} dv_rank_act;

typedef struct dv_rank_event {
    dv_rank_act act;
    // Number of the exchange in the team's plan or, for COMBINE, of the op.
    int32_t of;
} dv_rank_event;

typedef struct dv_rank_program {
    // The rank's program; it borrows expressions and names from the team's
    // program.
    dv_program *p;
    // Name of the tensor that events (the ops at which the rank communicates)
    // write; NULL if there are no events.
    const char *messages;
    // For each op of p, the op of the team's program that it computes a part
    // of; -1 if it copies, communicates, or computes partial sums of an op.
    int32_t *op_of;
    // For each tensor of the team's program: the box that the rank owns, the
    // box that it has in memory, and the tensor of p, or -1 if that box is
    // empty.
    dv_box *own, *local;
    int32_t *tensor;
    // For each tensor of the team's program: 1 if checkpoints save it.
    char *kept;
    // The events. The op of event number n writes the value n.
    dv_rank_event *events;
    int32_t n_events;
    // For each exchange of the team's plan: its messages, and the tensors of p
    // that hold each box to send and each received box.
    dv_op_exchange *exchanges;
    int32_t **sends, **receives;
    // For each op of the team's program whose reduction is split over ranks:
    // the tensor of p with the rank's partial sums; otherwise -1.
    int32_t *parts;
    // Per op of the team's program: the points that this rank computes.
    dv_iter_space *targets;
    // Per op of the team's program: 0 if the rank computes none.
    char *has_target;
    dv_arena arena;
} dv_rank_program;

// Builds the program of a rank. With `overlap`, an op that needs messages is
// split into a part that needs none, which is computed while they travel, and
// the remainder.
dv_status dv_rank_program_create(dv_rank_program **out, const dv_plan *plan,
                                 int64_t rank, int overlap, dv_diag *diag);
void dv_rank_program_destroy(dv_rank_program *r);
// Plans the program of a rank (ranks.c). Pins (choices that the user
// prescribes) about ops of which the rank has no part are left out. r->p then
// belongs to the plan, which borrows team_ops (see dv_plan_rank).
dv_status dv_rank_program_plan(dv_plan **out, const dv_plan *team,
                               dv_rank_program *r, const int32_t *team_ops,
                               const dv_plan_options *options, dv_diag *diag);
#endif
