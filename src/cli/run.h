// The state of a call of `divvy run`: its options, data and results.
#ifndef DV_CLI_RUN_H
#define DV_CLI_RUN_H
#include "cli/report.h"
#include "exec/constants.h"
#include "exec/exec.h"
#include "team/team.h"

typedef struct cli_job {
    const cli_command *c;
    cli_list in, out;
    int kind; // executor, a dv_executor; -1: chosen by the target
    // The executor for runs on the host if no option selects one, from the
    // environment variable DIVVY_EXECUTOR; -1: threads.
    int usual;
    int json;
    int verify; // nonzero if --verify was given
    cli_verify_options verify_options;
    int64_t seed;
    double low, high;
    // Options for a team of processes.
    int checked, no_overlap;
    const char *timeout, *checkpoint, *resume;
    double timeout_s;
    int64_t every;
    // The iteration at which the checkpoint was taken from which the run
    // resumed, and that of the last checkpoint that it wrote.
    int64_t resumed_at, saved_at;
    cli_loaded l;
    const dv_program *p; // the plan's program
    void **before;       // per tensor: input data; owned, except what is in
                         // `files` or a weight of the model
    dv_constant **files; // per tensor: the open file of a constant; owned
    void **after;        // per tensor: data that the run works on; owned
    dv_exec *exec;       // runs the plan; NULL if each rank is a process
    double seconds;
    cli_report_args pages;
    double *group_seconds; // per group, for reports of runs on threads
    int64_t team_bytes, team_messages;
    // The traffic that the simulator counted on each rank of a team; NULL: the
    // run was not simulated.
    dv_sim_traffic *rank_moved;
    dv_verdict verdict;
    dv_kept_round kept; // for the samples of --verify
    dv_arena arena;     // holds the verdict's lists
    dv_diag *diag;
} cli_job;

// Finds the tensor and the file that an --in or --out option names.
dv_status cli_find_pair(const cli_job *j, const char *pair, int input,
                        int32_t *tensor, const char **path);
// Checks that no input and no output file is given twice.
dv_status cli_check_twice(const cli_job *j);
// cli_run_memory allocates the inputs and outputs, each as a whole tensor;
// cli_run_inputs reads the inputs or generates random ones.
dv_status cli_run_memory(cli_job *j);
dv_status cli_run_inputs(cli_job *j);
// Prints the report of a run and returns the exit code.
int cli_run_report(const cli_job *j);

// Checks the options that only apply to teams of processes (team.c). Returns -1
// to continue, or an exit code.
int cli_team_options(cli_job *j);
// Fails if the user selected another executor than the one on which the ranks
// of a team run.
dv_status cli_check_team_executor(const cli_job *j, dv_diag *diag);
// Runs the whole command as one process of a team. Returns the exit code, the
// same on all ranks.
int cli_team_run(cli_job *j, const char *path, cli_plan_args *args);
// Sets the team size and rank in the plan options to the number of processes
// and the rank that mpirun gave. Returns -1 to continue, or an exit code.
int cli_team_size(const cli_command *c, cli_plan_args *args);
// Reports why communication failed and aborts the MPI job. Does not return.
void cli_team_abort(dv_comm *comm);
#endif
