// What holds for every team, whoever carries its messages. Functions that
// judge return 0 after case_no().
#ifndef DV_TEAMS_H
#define DV_TEAMS_H
#include "exec/exec.h"
#include "team/team.h"

// A plan that checks; NULL: there is none.
dv_plan *teams_plan(const dv_program *p, const dv_target *t, int64_t size,
                    int64_t rank, const char *grid);
// Are outputs `a` and `b` the same, nan like nan?
int teams_same_bits(const dv_program *p, void *const *a, void *const *b);
// Bytes that all ranks together lack before a swap.
int64_t teams_needed(const dv_plan *plan, int32_t swap);
// Every exchange carried what was needed, each time, and nothing else did.
int teams_carried(const dv_plan *plan, const dv_moved_all *moved);
// What the oracle says.
int teams_right(const dv_program *p, const dv_plan *plan, void *const *before,
                void *const *after, dv_diag *diag);
#endif
