// A call of `divvy bench`: what was asked for and what was measured.
#ifndef DV_CLI_BENCH_H
#define DV_CLI_BENCH_H
#include "cli/load.h"
#include "team/team.h"

enum { CLI_BENCH_MAX_RUNS = 100000 };

// What one rank of a team has measured; sent as it is.
typedef struct cli_bench_rank {
    double median_s, compute_s, exchange_s; // medians over the runs
    double peak, copy;                      // GFLOP/s, GB/s
    int64_t threads;
    int64_t bytes, messages; // sent in all timed runs
} cli_bench_rank;

typedef struct cli_bench_job {
    const cli_command *c;
    cli_loaded l;
    const dv_program *p;
    void **data; // inputs and outputs, by tensor; owned
    dv_exec *exec;
    double *seconds; // of each run, of a team its slowest rank's; owned
    int64_t n_runs, least_runs;
    double least_s; // time to spend
    int json, ops;
    double low, high; // of made-up inputs
    double *spent;    // of each group in all `n_more` runs of theirs; owned
    int64_t n_more;
    double flops, bytes; // of one run: of its ops; in and out
    int32_t op;          // with the most work; its type and the one that it
    dv_dtype dtype, in;  // is computed in, which is the peak's
    double peak, copy;
    const char *executor;
    int64_t threads;       // of one rank
    cli_bench_rank *ranks; // of a team, by rank; NULL: one process; owned
    int64_t n_ranks;
    dv_diag *diag;
} cli_bench_job;

// Is another timed run needed after `spent_s` seconds?
int cli_bench_more(const cli_bench_job *j, double spent_s);
// Floating-point operations and bytes of one run, as the plan counts them.
dv_status cli_bench_count(cli_bench_job *j, dv_diag *diag);
// What the largest op reads, when it is known what it is computed in.
void cli_bench_types(cli_bench_job *j, dv_dtype in);
// Size of each array of the copy whose bandwidth `bytes` is compared with.
int64_t cli_bench_copy_bytes(double bytes);

// -- A team (bench_team.c) -------------------------------------------------

// Time a plan for a team: the processes of this mpirun, or threads of this
// process. Every rank times itself; the results are all ranks'.
dv_status cli_bench_processes(cli_bench_job *j, const char *path,
                              const cli_plan_args *args,
                              const cli_params *params);
dv_status cli_bench_threads(cli_bench_job *j, const cli_plan_args *args);
void cli_bench_team_text(const cli_bench_job *j);
void cli_bench_team_json(const cli_bench_job *j, dv_json *w);
#endif
