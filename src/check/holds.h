// Which elements the tensors of a rank's program hold, for rule C32 of the
// checker.
//
// Time is counted in ops of the team's program as they run, over all iterations
// of repeats. A fact says that a box of a tensor of the rank's program holds
// elements of a tensor of the team's program as they are before the op at some
// time. Facts stay true until the box is overwritten:
//
//   time 7   u[i] <- …      the team's op writes u
//
//   the rank's u[0..5] holds u[4..9] of time 7: the values before the op
//   the rank's u[1..4] holds u[5..8] of time 8: those after the op
//
// A fact of one time is one of another time too if no op between them writes
// the elements. Of elements that the rank owns it is known which ops write
// them, because only owners do; elements of other ranks count as changed by
// every op that writes the tensor.
#ifndef DV_HOLDS_H
#define DV_HOLDS_H
#include "check/check.h"

typedef struct dv_fact {
    struct dv_fact *next; // the next one of the same tensor
    dv_box at;            // elements of the rank's tensor
    // The team's tensor whose elements `at` holds. n_tensors + k stands for the
    // rank's own partial sums of op k, n_tensors + n_ops + k for the sums over
    // all ranks.
    int32_t of;
    int64_t shift[DV_MAX_DIMS]; // index in the team's tensor minus the rank's
    int64_t time;
} dv_fact;

// The ops that have written a tensor of the team so far, and when.
typedef struct dv_write_log {
    int64_t *times;
    int32_t *ops;
    int32_t n, cap_times, cap_ops;
} dv_write_log;

typedef struct dv_check_boxes {
    dv_box *at;
    int32_t n, cap;
} dv_check_boxes;

typedef struct dv_holds {
    const dv_program *p; // the team's
    const dv_plan_team *t;
    const int64_t *coord; // of the rank
    const dv_box *own;    // per tensor of the team
    dv_write_log *logs;   // likewise
    dv_fact **facts;      // per tensor of the rank's program
    dv_fact *unused;
    dv_check_boxes left, valid; // working memory
    dv_arena *arena;
    int failed; // 1 when out of memory
} dv_holds;

// These functions return whether a box has no elements, the intersection of two
// boxes, and whether two boxes are the same.
int dv_check_empty(const dv_box *b);
dv_box dv_check_common(const dv_box *a, const dv_box *b);
int dv_check_same_box(const dv_box *a, const dv_box *b);
// Returns the box of a tensor that an access covers when the variables have the
// values begin[v] to end[v] - 1. It covers a whole dim if the index of that dim
// is read from a tensor.
dv_box dv_check_reach(const dv_program *p, const dv_op *op, const dv_access *a,
                      const int64_t *begin, const int64_t *end);

// Records in the write log that an op writes its tensor at `time`, the number
// of ops of the team's program that ran before it.
void dv_holds_log(dv_holds *h, int32_t op, int64_t time);
// Adds a copy of `like`, a fact about what a box of the tensor holds; the copy
// gets its own list link `next`.
void dv_holds_add(dv_holds *h, int32_t tensor, const dv_fact *like);
// Removes all facts about the contents of a box of a tensor.
void dv_holds_forget(dv_holds *h, int32_t tensor, const dv_box *box);
// Returns whether the known facts imply `want`: that the box `want->at` of the
// rank's tensor holds the elements which `want` names, as of its time.
int dv_holds_has(dv_holds *h, int32_t tensor, const dv_fact *want);
// Replaces the facts about a tensor's contents by those that are true as of
// another time. Facts about partial sums are removed.
void dv_holds_advance(dv_holds *h, int32_t tensor, int64_t time);
// Returns a copy of a tensor's facts, which dv_holds_free frees.
dv_fact *dv_holds_copy(dv_holds *h, int32_t tensor);
void dv_holds_free(dv_holds *h, dv_fact *list);
#endif
