// The command: one file per subcommand, one table of them, one of options.
//
//   main.c                    the table of commands, and main
//   options.c                 parses options, prints help
//   output.c                  prints results, errors and progress
//   load.[ch]                 gets a plan from a program or from its own text
//   plan_options.def          the options that say how to plan
//   data.c                    memory, ranges and results of commands that run
//   bench.[ch], bench_team.c  divvy bench, in one process and over ranks
//   check.c                   divvy check
//   dist*.[ch], dist_ops.def  divvy dist
//   einsum.c                  divvy einsum
//   emit.c                    divvy emit
//   grid.c                    divvy grid
//   lint.c                    divvy lint
//   nest.c, nest_run.[ch]     divvy nest, and its --run
//   place.c, picture.[ch]     divvy place, and its drawings
//   plan.c, scratch.c         divvy plan, and the scratch part of --explain
//   run.[ch], team.c          divvy run, in one process and under mpirun
//   ranks.c                   compares options across the ranks of an mpirun
//   targets.c                 divvy targets
#ifndef DV_CLI_H
#define DV_CLI_H
#include "base/clock.h"
#include "base/diag.h"
#include "base/json.h"
#include "base/text.h"

// One option of a command. A command's table ends with a row without a name.
typedef struct cli_option {
    const char *name;  // without dashes
    char letter;       // or 0
    const char *value; // what it takes, for the help text; NULL: nothing
    const char *help;
    // CLI_SIZE is a count that starts at 1, CLI_BYTES one that may have a unit.
    enum { CLI_FLAG, CLI_TEXT, CLI_COUNT, CLI_SIZE, CLI_BYTES, CLI_LIST } kind;
    void *to; // int, const char *, int64_t thrice, cli_list; by kind
} cli_option;

// Options that may be given more than once.
enum { CLI_MAX_LIST = 256 };
typedef struct cli_list {
    const char *at[CLI_MAX_LIST];
    int n;
} cli_list;

typedef struct cli_command {
    const char *name, *args, *about;
    // Returns the exit code.
    int (*run)(const struct cli_command *c, int argc, char **argv);
    const char *example; // its words; NULL: none
    int team; // processes of an mpirun do it together; 0: rank 0 does it alone
} cli_command;

// Parse a command's words: options anywhere, operands into `operands` (at most
// `max`). Returns -1 to go on, or the exit code: 0 after --help, 2 on a
// mistake, which has been reported.
int cli_parse(const cli_command *c, const cli_option *options, int argc,
              char **argv, const char **operands, int *n_operands, int max);

// A number of bytes with or without a unit; 0 when it is none.
int64_t cli_bytes(const char *text);

// NAME=VALUE cut in two in place of the `=`: the name is copied into `name`.
// Returns the value, or NULL when there is no `=`.
const char *cli_split(const char *pair, char *name, size_t room);

// Report what the diag holds: text on standard error and, with --json, an
// object {"error": {…}} on standard output. Returns the exit code.
int cli_fail(dv_diag *diag);
// Warnings alone, on standard error.
void cli_warnings(dv_diag *diag);
// A mistake in the call: message and exit code 2.
int cli_usage(const cli_command *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// Write a string to standard output or, atomically, to a file ("-": output),
// and free it; NULL means out of memory. Returns the exit code.
int cli_put(char *text, const char *path, dv_diag *diag);
// Is the file that an option writes the same as another one of the call? -1: it
// is not; otherwise that is reported, and the exit code returned. Either path
// may be NULL.
int cli_replaces(const cli_command *c, const char *option, const char *path,
                 const char *other, const char *what);
// Did the user ask for --json? Set by main, so that even wrong usage answers
// in JSON.
extern int cli_json;
// Started by mpirun: of so many processes, which one; 0 and 0 otherwise. Only
// rank 0 speaks.
extern int64_t cli_ranks, cli_rank;

// -- Processes of one mpirun (ranks.c) --------------------------------------

// Start MPI, once; later calls return the same. cli_mpi_end ends it.
dv_status cli_mpi_begin(dv_diag *diag);
void cli_mpi_end(void);
void cli_ranks_begin(void);
// A mistake of a rank other than 0, for rank 0 to say.
void cli_ranks_mistake(const char *text);
// Compare the options with those of the other ranks; called by cli_parse. An
// exit code, or -1 to go on.
int cli_ranks_compare(const cli_command *c, const cli_option *options,
                      const char *const *operands, int n_operands);
// Before the process ends with `code`; the code it is to end with.
int cli_ranks_end(int code);

// -- Values -----------------------------------------------------------------

// "x,y" or "x0,y0-x1,y1" as cores. 0: it is neither.
int cli_rect(const char *text, dv_core_rect *out);

// A grain's name: function, primitive or fused. 0: it is none.
int cli_grain(const char *text, dv_grain *out);

// The --set options as params. Returns -1, or an exit code.
typedef struct cli_params {
    char names[CLI_MAX_LIST][64];
    dv_param params[CLI_MAX_LIST];
    size_t n;
} cli_params;
int cli_sets(const cli_command *c, const cli_list *sets, cli_params *out);

// A line on the terminal that shows how far long work is. Shows itself only
// on a terminal, and only after half a second.
typedef struct cli_progress {
    const char *what;
    double start_s, last_s;
    int shown, on;
} cli_progress;
void cli_progress_begin(cli_progress *p, const char *what);
void cli_progress_step(void *progress, double done); // a dv_progress
void cli_progress_end(cli_progress *p);
void cli_sort(double *times, int64_t n); // the least first

extern const cli_command cli_commands[]; // ends with a row without a name

int cli_bench(const cli_command *c, int argc, char **argv);
int cli_check(const cli_command *c, int argc, char **argv);
int cli_dist_main(const cli_command *c, int argc, char **argv);
int cli_einsum(const cli_command *c, int argc, char **argv);
int cli_emit(const cli_command *c, int argc, char **argv);
int cli_grid(const cli_command *c, int argc, char **argv);
int cli_lint(const cli_command *c, int argc, char **argv);
int cli_nest(const cli_command *c, int argc, char **argv);
int cli_place(const cli_command *c, int argc, char **argv);
int cli_plan(const cli_command *c, int argc, char **argv);
int cli_run(const cli_command *c, int argc, char **argv);
int cli_targets(const cli_command *c, int argc, char **argv);
#endif
