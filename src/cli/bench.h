// The state of a call of `divvy bench`: its options and measurements.
#ifndef DV_CLI_BENCH_H
#define DV_CLI_BENCH_H
#include "cli/report.h"
#include "team/team.h"

enum { CLI_BENCH_MAX_RUNS = 100000 };

// The measurements of one rank of a team; sent to rank 0 as raw bytes.
typedef struct cli_bench_rank {
    // Medians over the timed runs, in seconds.
    double median_s, compute_s, exchange_s;
    // Measured peak in GFLOP/s and copy bandwidth in GB/s.
    double peak, copy;
    int64_t threads;
    int64_t bytes, messages; // bytes and messages sent in all timed runs
} cli_bench_rank;

typedef struct cli_bench_job {
    const cli_command *c;
    cli_loaded l;
    const dv_program *p;
    void **data; // per tensor: input and output data; owned
    dv_exec *exec;
    // The time of each run, owned; if several ranks run it together, the time
    // of the slowest.
    double *seconds;
    int64_t n_runs, least_runs;
    // When the command began, and how many seconds later the first run could
    // begin: the time for reading, planning, generating kernels and packing
    // constants.
    double start_s, ready_s;
    int64_t most_bytes; // the most memory that the process had until then
    double least_s;     // minimal total time of the timed runs
    int json, ops;
    double low, high; // range of random inputs
    // For each group of ops, its time in all n_group_runs additional runs;
    // owned.
    double *spent;
    int64_t n_group_runs;
    // Work of one run: flops of all ops, bytes of inputs and outputs.
    double flops, bytes;
    int32_t op; // the op with the most flops
    // The element type that this op reads, and the type in which it computes,
    // for which the machine's peak is measured.
    dv_dtype dtype, in;
    double peak, copy;
    const char *executor;
    int64_t threads; // number of threads of one rank
    // Measurements of each rank of a team, or NULL for a single process; owned.
    cli_bench_rank *ranks;
    int64_t n_ranks;
    cli_report_args pages;
    dv_diag *diag;
} cli_bench_job;

// Returns whether another timed run is needed after `spent_s` seconds.
int cli_bench_more(const cli_bench_job *j, double spent_s);
// Computes the flops and bytes of one run from the plan.
dv_status cli_bench_count(cli_bench_job *j, dv_diag *diag);
// Sets the element types of the op with the most flops; `in` is the type that
// it computes in.
void cli_bench_types(cli_bench_job *j, dv_dtype in);
// Returns the array size for the copy benchmark with whose bandwidth a program
// that transfers `bytes` is compared.
int64_t cli_bench_copy_bytes(double bytes);

// Time a plan for a team: cli_bench_processes with the processes of this
// mpirun, cli_bench_threads with threads of this process as ranks. Every rank
// times itself; rank 0 collects the results (bench_team.c).
dv_status cli_bench_processes(cli_bench_job *j, const char *path,
                              const cli_plan_args *args,
                              const cli_params *params);
dv_status cli_bench_threads(cli_bench_job *j, const cli_plan_args *args);
void cli_bench_team_text(const cli_bench_job *j);
void cli_bench_team_json(const cli_bench_job *j, dv_json *w);
#endif
