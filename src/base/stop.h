// Whether the caller of a long call wants it to end. The call says whom to ask,
// and the functions that it uses ask from time to time, however deep they are:
//
//   dv_stop stop = {.watch = watch, .user = user};
//   dv_stop_begin(&stop);
//   … DV_TRY(dv_stop_check(diag)); …   in loops over ops, plans, candidates
//   dv_stop_end(&stop);
//
// Searches that can end early with what they have found ask dv_stop_wanted.
// What the caller has said once stays said. Each thread has its own calls.
//
// A call may also have a time limit, until_s. It does not end the call:
// searches ask dv_stop_late where they test their budgets, and keep the best of
// what they have found by then.
#ifndef DV_STOP_H
#define DV_STOP_H
#include "base/diag.h"

typedef struct dv_stop {
    int (*watch)(void *user, const char *step); // NULL: nobody is asked
    void *user;
    const char *step; // what the call is doing, in one word
    int stopped;
    double until_s;        // time of dv_clock_s when searches end; 0: no limit
    int late;              // 1 if a search was told that this time has passed
    struct dv_stop *outer; // the call that made this one
} dv_stop;

void dv_stop_begin(dv_stop *s);
void dv_stop_end(const dv_stop *s);
// Sets the name of the step (a word) that the current call is doing, which its
// `watch` function is told.
void dv_stop_step(const char *step);
int dv_stop_wanted(void);
// Returns whether the time limit of the current call, or of a call around it,
// has passed. A search that asks then ends with its best result so far.
int dv_stop_late(void);
// Returns whether dv_stop_late has returned 1 in the current call, so that a
// search was cut short.
int dv_stop_was_late(void);
// Fails with DV_E_CANCELLED if the caller wants the current call to end.
dv_status dv_stop_check(dv_diag *diag);
#endif
