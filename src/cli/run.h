// A call of `divvy run`: what was asked for and what came of it.
#ifndef DV_CLI_RUN_H
#define DV_CLI_RUN_H
#include "cli/load.h"
#include "exec/exec.h"
#include "team/team.h"

typedef struct cli_job {
    const cli_command *c;
    cli_list in, out;
    int kind;  // dv_run_kind; -1: what the target is
    int usual; // where that is this machine; -1: threads
    int json, verify;
    int64_t seed;
    double low, high;
    // Of a team of processes.
    int checked, no_overlap;
    const char *timeout, *checkpoint, *resume;
    double timeout_s;
    int64_t every;
    cli_loaded l;
    const dv_program *p; // of the plan
    void **before;       // inputs as they come, by tensor; owned
    void **after;        // what the run works on; owned
    dv_exec *exec;       // NULL: the ranks are processes
    double seconds;
    int64_t team_bytes, team_messages;
    dv_verdict verdict;
    dv_diag *diag;
} cli_job;

// The tensor an --in or --out names, and its file.
dv_status cli_find_pair(const cli_job *j, const char *pair, int input,
                        int32_t *tensor, const char **path);
// No input may be named twice, and no output's file.
dv_status cli_check_twice(const cli_job *j);
// Memory for whole inputs and outputs; inputs read or made up.
dv_status cli_run_memory(cli_job *j);
dv_status cli_run_inputs(cli_job *j);
int cli_run_report(const cli_job *j); // returns the exit code

// -- A team of processes (team.c) ------------------------------------------

// Options that only a team has. Returns -1, or an exit code.
int cli_team_options(cli_job *j);
// This process's part of all of it; returns the exit code, on all ranks alike.
int cli_team_run(cli_job *j, const char *path, cli_plan_args *args);
// Plan for the processes there are. Returns -1, or an exit code.
int cli_team_size(const cli_command *c, cli_plan_args *args);
// Ranks cannot hear each other any more: say why and end the job. Does not
// return.
void cli_team_give_up(dv_comm *comm);
#endif
