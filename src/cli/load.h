// Gets a plan from a program or from a plan's text, and helpers shared by the
// commands that run plans.
#ifndef DV_CLI_LOAD_H
#define DV_CLI_LOAD_H
#include "cli/cli.h"
#include "plan/plan.h"
#include "exec/exec.h"
#include "onnx/onnx.h"

typedef struct cli_plan_args {
    const char *target, *start_at, *time_limit;
    // The default of --scratch (which tensors are kept in scratchpads) for
    // files that are programs.
    dv_residents default_scratch;
    const char *default_policy; // NULL: that of the planner
    // 1: programs are planned as Torch-Spyre does: slices of one length, and no
    // op reads another core's scratchpad while it runs.
    int as_torch_spyre;
    cli_list sets, pins, bars, allow, holes, constants;
    dv_plan_options options;
    int64_t devices; // of --devices; 0: not given
    // Nonzero if the number of ranks and the own rank in `options` come from
    // mpirun.
    int team_of_ranks;
    // Nonzero if --rank was given and the command accepts it for finished plans
    // of teams, too.
    int takes_rank;
} cli_plan_args;

// The initial value of options.rank. cli_rank_is_given returns whether --rank
// has replaced it; if not, it sets the rank to 0.
enum { CLI_RANK_NOT_GIVEN = -1 };
int cli_rank_is_given(cli_plan_args *args);

// The error message of commands that run all ranks of a team, if --rank is
// given.
#define CLI_NO_RANK                                                            \
    "--rank chooses the rank whose messages divvy plan lists: this command "   \
    "runs all ranks"

// The rectangles of cores of --allow and --holes.
typedef struct cli_cores {
    dv_core_rect allowed[CLI_MAX_LIST], holes[CLI_MAX_LIST];
    char *order; // the text of --order @FILE, owned; or NULL
} cli_cores;
// Reads the value of --order. If it is @FILE, a file with lists of tiles,
// *order becomes the text `list(…)`, and the caller releases it by *text.
dv_status cli_read_order(const char **order, char **text, dv_diag *diag);

typedef struct cli_loaded {
    dv_program *program; // NULL if the file is a plan
    dv_target *target;   // NULL if the file is a plan
    dv_plan *plan;
    dv_onnx *model; // the model that owns the program; NULL: it is no model
    dv_plan_options options; // those that the plan was made with
    cli_cores cores;         // which `options` points to
} cli_loaded;

// Loads a file, makes a plan if it is a program, and checks the plan. Returns
// -1 to continue, or an exit code after reporting an error.
int cli_load(const cli_command *c, const char *path, const cli_plan_args *args,
             cli_loaded *out, dv_diag *diag);
// Like cli_load, but leaves reporting to the caller, which must first agree
// with other ranks on the outcome.
dv_status cli_load_plan(const char *path, const cli_plan_args *args,
                        const cli_params *params, cli_loaded *out,
                        dv_diag *diag);
void cli_unload(cli_loaded *l);

// For ONNX models (import.c). cli_is_onnx tells from a file's name whether it
// is one; cli_load_onnx sets the program of `out`; cli_weight returns the
// elements of a tensor that is a weight of the model, otherwise NULL.
int cli_is_onnx(const char *path);
dv_status cli_load_onnx(const char *path, const cli_params *params,
                        cli_loaded *out, dv_diag *diag);
const void *cli_weight(const cli_loaded *l, const char *tensor);
// Applies environment variables that stand for options; options that were given
// take precedence.
dv_status cli_apply_environment(dv_target *t, dv_plan_options *options,
                                dv_diag *diag);

// Fails if the program's tensors need more than the physical memory, because
// the machine would start swapping (data.c).
dv_status cli_check_memory(const dv_program *p, int verify, dv_diag *diag);
// Fails if `need` bytes exceed the physical memory.
dv_status cli_check_bytes(int64_t need, dv_diag *diag);
// Reads the header of an .npy file.
struct dv_npy_header;
dv_status cli_npy_header(const char *path, struct dv_npy_header *out,
                         dv_diag *diag);
// Parses LOW..HIGH of --random. Returns -1 to continue, or an exit code.
int cli_range(const cli_command *c, const char *text, double *low,
              double *high);
// Print an output: its shape, the sum of its elements and a hash of its bytes.
// cli_result_text returns the number of NaNs.
void cli_result_json(dv_json *w, const dv_tensor *t, const void *data);
int64_t cli_result_text(const dv_tensor *t, const void *data);
// What --verify compares, parsed from its value (data.c). cli_parse_verify
// fills it and returns -1 to continue, or an exit code.
typedef struct cli_verify_options {
    int full; // 1: compare all elements, however long that takes
    // If comparing all elements would take longer than this, compare only
    // samples, for about this time.
    double budget_s;
} cli_verify_options;
int cli_parse_verify(const cli_command *c, const char *text,
                     cli_verify_options *out);
// Returns whether --verify compares all elements, not just samples.
int cli_verify_is_full(const cli_verify_options *options,
                       const dv_program *source, const dv_plan *plan);
// Compares a run with the oracle (the reference evaluator). `before` and
// `after` are the arguments of dv_verify_samples: inputs before the run and
// tensors after it, which may be more than the outputs. `kept` is what
// dv_keep_round kept; NULL: nothing.
dv_status cli_verify(dv_verdict *out, const cli_verify_options *options,
                     int64_t seed, const dv_program *source,
                     const dv_plan *plan, void *const *before,
                     void *const *after, void *const *kept, dv_arena *arena,
                     dv_diag *diag);
// Print the verdict of --verify, as text or JSON.
void cli_verdict_text(const dv_verdict *v);
void cli_verdict_json(dv_json *w, const dv_verdict *v);
// Records the error that a run's results are wrong, or that this is undecided;
// `p` is the plan's program.
dv_status cli_not_verified(const dv_verdict *v, const dv_program *p,
                           dv_diag *diag);

// Prints the part of --explain about scratchpads (scratch.c).
void cli_explain_scratch(dv_text *out, const dv_plan *plan);
#endif
