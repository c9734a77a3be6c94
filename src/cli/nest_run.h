// Running a nest on made-up numbers, for divvy nest --run.
#ifndef DV_CLI_NEST_RUN_H
#define DV_CLI_NEST_RUN_H
#include "nest/nest.h"

typedef struct cli_nest_how {
    int32_t threads;
    int verify, time;
    int packs; // what it packs is chosen for the run
} cli_nest_how;

typedef struct cli_nest_result {
    int64_t n_out; // what it made of out
    double sum, seconds;
    uint64_t hash;
    const char *how;   // kernels or loops
    int64_t n_checked; // elements that agree with the loops
} cli_nest_result;

dv_status cli_nest_run(cli_nest_result *out, const dv_nest *n,
                       const cli_nest_how *how, dv_diag *diag);
// How kernels cut what they get, in a line; nothing where there is none to say.
void cli_nest_tell(dv_text *out, const dv_nest *n, const cli_nest_how *how);
double cli_nest_gflops(const dv_nest *n, double seconds);
#endif
