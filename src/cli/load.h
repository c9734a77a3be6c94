// What plan and run share: getting a plan from a program or from a plan's text.
#ifndef DV_CLI_LOAD_H
#define DV_CLI_LOAD_H
#include "cli/cli.h"
#include "plan/plan.h"
#include "exec/exec.h"

typedef struct cli_plan_args {
    const char *target, *start_at, *time_limit;
    const char *usual_scratch; // of a program, without --scratch
    cli_list sets, pins, allow, holes;
    dv_plan_options options;
    int team_of_ranks; // options.team and .rank come from mpirun
} cli_plan_args;

typedef struct cli_loaded {
    dv_program *program; // NULL when a plan was read
    dv_target *target;   // likewise
    dv_plan *plan;
} cli_loaded;

// Load, plan and check. Returns -1, or an exit code after reporting.
int cli_load(const cli_command *c, const char *path, const cli_plan_args *args,
             cli_loaded *out, dv_diag *diag);
// The same without a report, for whoever must agree with others first.
dv_status cli_load_plan(const char *path, const cli_plan_args *args,
                        const cli_params *params, cli_loaded *out,
                        dv_diag *diag);
void cli_unload(cli_loaded *l);
// What variables of the environment say, where no option does.
dv_status cli_from_outside(dv_target *t, dv_plan_options *options,
                           dv_diag *diag);

// Refuse what cannot fit before the machine starts to thrash (data.c).
dv_status cli_check_memory(const dv_program *p, int verify, dv_diag *diag);
// The same for so many bytes.
dv_status cli_check_bytes(int64_t need, dv_diag *diag);
// LOW..HIGH of --random. Returns -1, or an exit code.
int cli_range(const cli_command *c, const char *text, double *low,
              double *high);
// An output: its shape, the sum of its elements and a hash of its bytes. The
// line returns how many are nan.
void cli_result_json(dv_json *w, const dv_tensor *t, const void *data);
int64_t cli_result_text(const dv_tensor *t, const void *data);
// What --verify found. The last: why it failed, as an error.
void cli_verdict_text(const dv_verdict *v);
// Say on standard error that verifying takes long, where it does.
void cli_announce_verify(const dv_program *source, const dv_plan *plan);
void cli_verdict_json(dv_json *w, const dv_verdict *v);
dv_status cli_not_verified(const dv_verdict *v, const dv_tensor *t,
                           dv_diag *diag);

// The part of --explain about scratchpads (scratch.c).
void cli_explain_scratch(dv_text *out, const dv_plan *plan);
#endif
