// divvy fuse: groups, tile sizes and retained tensors for a graph of matrix
// products and pointwise ops, read from a JSON file of the MLSys 2026 contest.
#include "base/file.h"
#include "base/mem.h"
#include "base/plural.h"
#include "cli/cli.h"
#include "fuse/contest.h"
#include <inttypes.h>
#include <string.h>

typedef struct job {
    const char *file, *out, *time_limit;
    int json;
    dv_fuse_options options;
    dv_fuse_problem problem;
    dv_fuse_schedule *schedule;
    double read_s, solve_s;
} job;

static dv_status read_problem(job *j, dv_arena *arena, dv_diag *diag)
{
    char *text = NULL;
    size_t len = 0;
    const char *name = cli_file_name(j->file);
    double begin = dv_clock_s();
    DV_TRY(cli_read(&text, &len, j->file, DV_MAX_TEXT_BYTES, diag));
    dv_source src = {.name = name, .text = text, .len = len};
    dv_status status = dv_fuse_parse(&j->problem, &src, arena, diag);
    dv_release(text);
    j->read_s = dv_clock_s() - begin;
    return status;
}

static dv_status solve(job *j, dv_diag *diag)
{
    double begin = dv_clock_s();
    dv_status status = dv_fuse(&j->schedule, &j->problem, &j->options, diag);
    dv_diag_set_file(diag, cli_file_name(j->file));
    DV_TRY(status);
    j->solve_s = dv_clock_s() - begin;
    return dv_fuse_check(j->schedule, &j->problem, &j->options, diag);
}

static void put_numbers(dv_text *out, const int32_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dv_put(out, "%s%" PRId32, i ? " " : "", v[i]);
}

static char *as_text(const job *j)
{
    dv_text out = {0};
    const dv_fuse_schedule *s = j->schedule;
    dv_put(&out, "%5s %15s %14s  %-12s ops\n", "entry", "tile w,h,k", "latency",
           "retained");
    for (size_t i = 0; i < s->n_entries; i++) {
        const dv_fuse_entry *e = &s->entries[i];
        dv_text tile = {0}, kept = {0};
        dv_put(&tile, "%" PRId64 ",%" PRId64 ",%" PRId64, e->width, e->height,
               e->depth);
        put_numbers(&kept, e->retained, e->n_retained);
        dv_put(&out, "%5zu %15s %14.1f  %-12s ", i, tile.at ? tile.at : "",
               e->latency, kept.at && e->n_retained ? kept.at : "-");
        put_numbers(&out, e->ops, e->n_ops);
        dv_put(&out, "\n");
        dv_text_free(&tile);
        dv_text_free(&kept);
    }
    dv_put(&out,
           "%s: %zu op%s in %zu %s, total %.1f, bound %.1f: at most %.2g%% "
           "above the least; %" PRId64
           " step%s, ran in %.2g s, read in %.2g s\n",
           j->file, j->problem.n_ops, DV_PLURAL(j->problem.n_ops, "", "s"),
           s->n_entries, DV_PLURAL(s->n_entries, "entry", "entries"), s->total,
           s->bound, s->bound > 0 ? 100 * (s->total / s->bound - 1) : 0,
           s->steps, DV_PLURAL(s->steps, "", "s"), j->solve_s, j->read_s);
    return dv_text_take(&out);
}

static void json_list(dv_json *w, const char *key, const int32_t *v, size_t n)
{
    dv_json_open_flat(w, key, '[');
    for (size_t i = 0; i < n; i++)
        dv_json_int(w, NULL, v[i]);
    dv_json_close(w);
}

static char *as_json(const job *j)
{
    dv_text out = {0};
    dv_json w = {.out = &out};
    const dv_fuse_schedule *s = j->schedule;
    dv_json_open(&w, NULL, '{');
    DV_JSON_FIELDS(&w, DV_F("file", j->file), DV_F("total", s->total),
                   DV_F("bound", s->bound), DV_F("gap", s->gap),
                   DV_F("steps", s->steps), DV_F("read_ms", j->read_s * 1e3),
                   DV_F("time_ms", j->solve_s * 1e3));
    dv_json_open(&w, "entries", '[');
    for (size_t i = 0; i < s->n_entries; i++) {
        const dv_fuse_entry *e = &s->entries[i];
        dv_json_open_flat(&w, NULL, '{');
        json_list(&w, "ops", e->ops, e->n_ops);
        DV_JSON_INTS(&w, "tile", e->width, e->height, e->depth);
        json_list(&w, "retained", e->retained, e->n_retained);
        dv_json_double(&w, "latency", e->latency);
        dv_json_close(&w);
    }
    dv_json_close(&w);
    dv_json_close(&w);
    return dv_text_take(&out);
}

static int answer(job *j, dv_diag *diag)
{
    int code = 0;
    if (j->out) {
        dv_text text = {0};
        dv_fuse_print(&text, j->schedule);
        code = cli_put(dv_text_take(&text), j->out, diag);
    }
    int taken = j->out && !strcmp(j->out, "-");
    if (code == 0 && (!taken || j->json))
        code = cli_put(j->json ? as_json(j) : as_text(j), NULL, diag);
    return code;
}

static int run(job *j, dv_diag *diag)
{
    dv_arena arena = {0};
    int code = read_problem(j, &arena, diag) == DV_OK && solve(j, diag) == DV_OK
                   ? answer(j, diag)
                   : cli_fail(diag);
    dv_fuse_schedule_destroy(j->schedule);
    dv_arena_free(&arena);
    return code;
}

int cli_fuse(const cli_command *c, int argc, char **argv)
{
    job j = {.options = DV_FUSE_OPTIONS_INIT};
    const char *files[1];
    int n_files, reading = 0;
    int64_t seed = 0;
    const cli_option options[] = {
        {"out", 'o', "OUT.json", "the schedule in the contest's JSON", CLI_TEXT,
         &j.out},
        {"reading", 0, "native|full",
         "a product's base cost is for a native part of its sum, or for all",
         CLI_CHOICE, &reading},
        {"budget", 0, "STEPS", "of search; the same answer everywhere",
         CLI_SIZE, &j.options.budget},
        {"time-limit", 0, "SECONDS", "stop earlier, with what was found",
         CLI_TEXT, &j.time_limit},
        {"seed", 0, "N", "another walk of the search", CLI_COUNT, &seed},
        {"json", 0, NULL, "everything for programs", CLI_FLAG, &j.json},
        {0}};
    int code = cli_parse(c, options, argc, argv, files, &n_files, 1);
    if (code >= 0)
        return code;
    if (n_files != 1)
        return cli_usage(c, "a problem is needed");
    j.file = files[0];
    code = cli_check_overwrite(c, "--out", j.out, j.file,
                               "the problem that it reads");
    if (code < 0)
        code = cli_time_limit(c, j.time_limit, &j.options.time_limit_s);
    if (code >= 0)
        return code;
    j.options.reading = reading == 2 ? DV_FUSE_FULL : DV_FUSE_NATIVE;
    j.options.seed = (uint64_t)seed;
    dv_diag *diag = dv_diag_create();
    code = run(&j, diag);
    dv_diag_destroy(diag);
    return code;
}
