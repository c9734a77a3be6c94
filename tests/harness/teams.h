// What holds for every team, whoever carries its messages.
#ifndef DV_TEAMS_H
#define DV_TEAMS_H
#include "harness/case.h"
#include "team/team.h"

// case_plan() of one rank of a team.
dv_plan *teams_plan(const dv_program *p, const dv_target *t, int64_t size,
                    int64_t rank, const char *grid);
// Returns the bytes that all ranks together lack before an exchange.
int64_t teams_needed(const dv_plan *plan, int32_t exchange);
// Every exchange carried exactly the bytes that were needed, each time, and no
// bytes moved otherwise.
int teams_carried(const dv_plan *plan, const dv_team_traffic *moved);
#endif
