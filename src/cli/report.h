// The pages and traces that commands write of plans (report.c).
#ifndef DV_CLI_REPORT_H
#define DV_CLI_REPORT_H
#include "cli/load.h"
#include "divvy/report.h"

typedef struct cli_report_args {
    const char *html, *trace;
    int64_t most_bytes;
} cli_report_args;

// Fails if a report would overwrite a file that the command reads or writes;
// each of them may be NULL. Returns -1 to continue, or an exit code.
int cli_report_paths(const cli_command *c, const cli_report_args *args,
                     const char *file, const char *target, const char *output);
// Writes the reports that `args` asks for, if any. `measured` and `other` may
// be NULL. Returns the exit code.
int cli_report_write(const cli_report_args *args, const cli_loaded *l,
                     const dv_measured *measured, const dv_plan *other,
                     dv_diag *diag);
#endif
