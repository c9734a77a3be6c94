// Prints results, errors and progress.
#define _POSIX_C_SOURCE 200809L // for isatty
#include "base/file.h"
#include "cli/cli.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cli_put(char *text, const char *path, dv_diag *diag)
{
    if (!text) {
        dv_nomem(diag);
        return cli_fail(diag);
    }
    dv_status st = DV_OK;
    if (!path || !strcmp(path, "-"))
        fwrite(text, 1, strlen(text), stdout); // main reports write errors
    else
        st = dv_file_write(path, text, strlen(text), diag);
    dv_free(text);
    return st == DV_OK ? 0 : cli_fail(diag);
}

int cli_time_limit(const cli_command *c, const char *text, double *seconds)
{
    if (!text)
        return -1;
    size_t n = strlen(text);
    int digits = n > 0 && strspn(text, "0123456789.") == n;
    *seconds = digits ? dv_parse_double(text, n) : 0;
    return *seconds > 0
               ? -1
               : cli_usage(c, "--time-limit takes seconds, not '%s'", text);
}

int cli_check_overwrite(const cli_command *c, const char *option,
                        const char *path, const char *other, const char *what)
{
    if (!path || !other || !strcmp(path, "-") || !dv_file_same(path, other))
        return -1;
    return cli_usage(c, "%s %s would replace %s", option, path, what);
}

int cli_json;
int64_t cli_ranks, cli_rank;

// Prints an error as JSON. `m` is NULL for usage errors, which have no position
// in a file.
static void error_json(const char *kind, const char *text, const dv_message *m)
{
    dv_text out = {0};
    dv_json j = {.out = &out};
    dv_json_open(&j, NULL, '{');
    dv_json_open(&j, "error", '{');
    dv_json_string(&j, "status", kind);
    dv_json_string(&j, "message", text);
    dv_json_string(&j, "file", m && m->file[0] ? m->file : NULL);
    DV_JSON_FIELDS(&j, DV_F_IF(m && m->line, "line", m->line),
                   DV_F_IF(m && m->line, "column", m->col),
                   DV_F("pass", m ? m->pass : NULL));
    dv_json_close(&j);
    dv_json_close(&j);
    if (!out.failed)
        fputs(out.at, stdout);
    dv_text_free(&out);
}

int cli_usage(const cli_command *c, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (cli_rank) {
        cli_ranks_usage_error(text);
        return 2;
    }
    fprintf(stderr, "divvy %s: error[usage]: %s\nTry: divvy %s --help\n",
            c->name, text, c->name);
    if (cli_json)
        error_json("usage", text, NULL);
    return 2;
}

int cli_fail(dv_diag *diag)
{
    const dv_message *m = dv_diag_error(diag);
    if (cli_rank)
        return dv_status_exit(m ? dv_diag_status(diag) : DV_E_NOMEM);
    // Not even the diag could be allocated, so there is no recorded message.
    if (!m) {
        fprintf(stderr, "divvy: error[nomem]: out of memory\n");
        return dv_status_exit(DV_E_NOMEM);
    }
    fputs(dv_diag_text(diag), stderr);
    if (cli_json)
        error_json(m->kind, m->text, m);
    return dv_status_exit(dv_diag_status(diag));
}

void cli_warnings(dv_diag *diag)
{
    if (!cli_rank && (dv_diag_n_warnings(diag) || dv_diag_error(diag)))
        fputs(dv_diag_text(diag), stderr);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void cli_sort(double *times, int64_t n)
{
    qsort(times, (size_t)n, sizeof *times, by_value);
}

void cli_progress_begin(cli_progress *p, const char *what)
{
    double now = dv_clock_s();
    *p = (cli_progress){what, now, now, 0, !cli_rank && isatty(2)};
}

void cli_progress_step(void *progress, double done)
{
    cli_progress *p = progress;
    double now = p->on ? dv_clock_s() : 0;
    if (!p->on || now - p->start_s < 0.5 || now - p->last_s < 0.1)
        return;
    p->last_s = now;
    p->shown = 1;
    double left = done > 0 ? (now - p->start_s) * (1 - done) / done : 0;
    fprintf(stderr, "\r%s %3.0f%%, %.0f s left  ", p->what, 100 * done, left);
}

void cli_progress_end(cli_progress *p)
{
    if (p->shown)
        fprintf(stderr, "\r%60s\r", "");
    p->shown = 0;
}
