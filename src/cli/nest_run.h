// Runs a nest on generated data, for divvy nest --run.
#ifndef DV_CLI_NEST_RUN_H
#define DV_CLI_NEST_RUN_H
#include "nest/nest.h"

typedef struct cli_nest_options {
    int32_t threads;
    int verify, time;
    int packs; // nonzero if the run may choose what is packed
} cli_nest_options;

typedef struct cli_nest_result {
    int64_t n_out; // number of elements of the output
    double sum, seconds;
    uint64_t hash;
    const char *engine; // "kernels", or "oracle" (the plain evaluator)
    int64_t n_checked;  // elements compared with the oracle's
} cli_nest_result;

dv_status cli_nest_run(cli_nest_result *out, const dv_nest *n,
                       const cli_nest_options *options, dv_diag *diag);
// Prints the kernel that runs the nest, as one line without a newline; prints
// nothing if there are no kernels for this machine.
void cli_nest_describe(dv_text *out, const dv_nest *n,
                       const cli_nest_options *options);
double cli_nest_gflops(const dv_nest *n, double seconds);
#endif
