// The command line tool: one file per subcommand, a table of commands, and a
// table of options per command.
//
//   main.c                    the table of commands, and main
//   options.c                 parses options, prints help
//   output.c                  prints results, errors and progress
//   load.[ch]                 gets a plan from a program or from its own text
//   plan_options.def          the options of all commands that make plans
//   data.c                    memory checks, --random ranges, printed results
//   bench.[ch], bench_team.c  divvy bench, in one process and over ranks
//   check.c                   divvy check
//   choose.c                  divvy choose
//   dist.c, dist.def          divvy dist
//   einsum.c                  divvy einsum
//   emit.c                    divvy emit
//   fuse.c                    divvy fuse
//   grid.c                    divvy grid
//   gunzip.c                  reads files that may be compressed
//   import.c                  divvy import, models as programs
//   lint.c                    divvy lint
//   nest.c, nest_run.[ch]     divvy nest, and its --run
//   place.c, picture.[ch]     divvy place, and its drawings
//   plan.c, scratch.c         divvy plan, and the scratch part of --explain
//   report.[ch], report_options.def  divvy report, --html and --trace
//   run.[ch], team.c          divvy run, in one process and under mpirun
//   ranks.c                   compares options across the ranks of an mpirun
//   targets.c                 divvy targets
#ifndef DV_CLI_H
#define DV_CLI_H
#include "base/clock.h"
#include "base/diag.h"
#include "base/json.h"
#include "base/text.h"

// One option of a command. A command's table ends with a row whose name is
// NULL.
typedef struct cli_option {
    const char *name; // long name without dashes
    char letter;      // short name, or 0
    // Placeholder of the option's value in the help text; NULL: the option is a
    // flag.
    const char *value;
    const char *help;
    // The kind of value. CLI_COUNT is an integer >= 0, CLI_SIZE one >= 1,
    // CLI_BYTES a byte count that may have a unit. For CLI_CHOICE, `value`
    // lists the words, separated by |; the word's number is stored, counted
    // from 1. CLI_OPTIONAL is a text after = that may be missing, in which case
    // it is "".
    enum {
        CLI_FLAG,
        CLI_TEXT,
        CLI_COUNT,
        CLI_SIZE,
        CLI_BYTES,
        CLI_LIST,
        CLI_CHOICE,
        CLI_OPTIONAL
    } kind;
    // Where the value is stored: an int or enum (CLI_FLAG, CLI_CHOICE), const
    // char * (CLI_TEXT, CLI_OPTIONAL), cli_list (CLI_LIST), otherwise int64_t.
    void *to;
} cli_option;

// The values of an option that may be given several times.
enum { CLI_MAX_LIST = 256 };
typedef struct cli_list {
    const char *at[CLI_MAX_LIST];
    int n;
} cli_list;

typedef struct cli_command {
    const char *name, *args, *about;
    // Runs the command with the remaining words and returns the exit code.
    int (*run)(const struct cli_command *c, int argc, char **argv);
    // Arguments of an example call for the help text, or NULL.
    const char *example;
    // Nonzero if all processes that mpirun started execute the command
    // together; 0: only rank 0 executes it.
    int team;
} cli_command;

// Parses a command's words: options may be anywhere; up to `max` operands are
// stored in `operands`. Returns -1 to continue, or the exit code: 0 after
// --help, 2 after a reported usage error.
int cli_parse(const cli_command *c, const cli_option *options, int argc,
              char **argv, const char **operands, int *n_operands, int max);

// Parses a number of bytes with or without a unit such as MiB. Returns 0 if the
// text is not a byte count.
int64_t cli_bytes(const char *text);

// Splits NAME=VALUE: copies the name to `name` (`room` bytes) and returns the
// value, or NULL if the text has another form.
const char *cli_split(const char *pair, char *name, size_t room);

// Reports the error in `diag`: text on standard error and, with --json, an
// object {"error": {…}} on standard output. Returns the exit code.
int cli_fail(dv_diag *diag);
// Prints the warnings in `diag` on standard error.
void cli_warnings(dv_diag *diag);
// Reports a usage error and returns exit code 2.
int cli_usage(const cli_command *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// Writes a string to standard output (path NULL or "-") or atomically to a
// file, and frees it. A NULL string means out of memory. Returns the exit code.
int cli_put(char *text, const char *path, dv_diag *diag);
// Returns the name of a file in messages; '-' is the standard input.
const char *cli_file_name(const char *path);
// Reads a file of at most `max_bytes` bytes like dv_file_read, and unpacks it
// if it is compressed by gzip, also to at most `max_bytes`.
dv_status cli_read(char **text, size_t *len, const char *path,
                   int64_t max_bytes, dv_diag *diag);
// Parses the value of --time-limit; `text` may be NULL. Returns -1 to continue,
// or reports an invalid time and returns the exit code.
int cli_time_limit(const cli_command *c, const char *text, double *seconds);
// Fails if an option would write the file `path` over `other`, another file of
// the same call; either may be NULL. Returns -1 if they differ; otherwise
// reports it and returns the exit code.
int cli_check_overwrite(const cli_command *c, const char *option,
                        const char *path, const char *other, const char *what);
// Nonzero if --json was given. main sets it before parsing, so that usage
// errors are reported as JSON too.
extern int cli_json;
// The words of the command line, for reports; NULL if out of memory.
extern const char *cli_words;
// The number of processes and this process's rank if mpirun started them, else
// 0 and 0. Only rank 0 prints.
extern int64_t cli_ranks, cli_rank;

// Starts MPI on the first call; later calls return the same status.
dv_status cli_mpi_begin(dv_diag *diag);
void cli_ranks_begin(void);
// Records a usage error of this rank, which rank 0 then reports.
void cli_ranks_usage_error(const char *text);
// Fails unless all processes that mpirun started have the same options;
// cli_parse calls it. Returns -1 to continue, or an exit code.
int cli_ranks_compare(const cli_command *c, const cli_option *options,
                      const char *const *operands, int n_operands);
// Synchronises the ranks before the process ends with `code`. Returns the exit
// code to use.
int cli_ranks_end(int code);

// Parses "x,y" or "x0,y0-x1,y1" as a rectangle of cores. Returns 0 on other
// text.
int cli_rect(const char *text, dv_core_rect *out);

// Parses the name of a grain, which says how much one op may hold: function,
// primitive or fused. Returns 0 on other text.
int cli_grain(const char *text, dv_grain *out);

// The --set options as program parameters. cli_parse_sets fills it and returns
// -1 to continue, or an exit code.
typedef struct cli_params {
    char names[CLI_MAX_LIST][64];
    dv_param params[CLI_MAX_LIST];
    size_t n;
} cli_params;
int cli_parse_sets(const cli_command *c, const cli_list *sets, cli_params *out);

// A progress line for long work. It is shown only on a terminal, and only after
// half a second.
typedef struct cli_progress {
    const char *what;
    double start_s, last_s;
    int shown, on;
} cli_progress;
void cli_progress_begin(cli_progress *p, const char *what);
// Shows the share `done` of the work (0 to 1) in the progress line. It is a
// callback of type dv_progress.
void cli_progress_step(void *progress, double done);
void cli_progress_end(cli_progress *p);
// Sorts times in ascending order.
void cli_sort(double *times, int64_t n);

// Table of all commands; the last row has no name.
extern const cli_command cli_commands[];

int cli_bench(const cli_command *c, int argc, char **argv);
int cli_check(const cli_command *c, int argc, char **argv);
int cli_choose(const cli_command *c, int argc, char **argv);
int cli_dist_main(const cli_command *c, int argc, char **argv);
int cli_einsum(const cli_command *c, int argc, char **argv);
int cli_emit(const cli_command *c, int argc, char **argv);
int cli_fuse(const cli_command *c, int argc, char **argv);
int cli_grid(const cli_command *c, int argc, char **argv);
int cli_import(const cli_command *c, int argc, char **argv);
int cli_lint(const cli_command *c, int argc, char **argv);
int cli_nest(const cli_command *c, int argc, char **argv);
int cli_place(const cli_command *c, int argc, char **argv);
int cli_plan(const cli_command *c, int argc, char **argv);
int cli_report(const cli_command *c, int argc, char **argv);
int cli_run(const cli_command *c, int argc, char **argv);
int cli_targets(const cli_command *c, int argc, char **argv);
#endif
