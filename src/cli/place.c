// divvy place: assigns addresses to the buffers of a CSV table.
#define _POSIX_C_SOURCE 200809L // for isatty
#include "base/file.h"
#include "base/plural.h"
#include "cli/cli.h"
#include "cli/picture.h"
#include "place/csv.h"
#include "place/place.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct args {
    const char *file, *capacity, *time_limit, *svg, *out;
    int minimize, spill, json, show;
    dv_place_options options;
} args;

// The options of the command and its results.
typedef struct job {
    args a;
    dv_csv csv;
    dv_placement *p;
    int64_t proven; // proven lower bound of the capacity
    int64_t load;   // largest number of live bytes at any tick
    int64_t n_out, out_bytes;
    double seconds;
    int from_name; // nonzero if the capacity is from the file's name
} job;

// Returns the capacity in a file name such as NAME.1048576.csv, or 0 if there
// is none.
static int64_t capacity_of_name(const char *path)
{
    size_t len = strlen(path);
    if (len < 5 || strcmp(path + len - 4, ".csv") != 0)
        return 0;
    size_t end = len - 4, at = end;
    while (at > 0 && path[at - 1] >= '0' && path[at - 1] <= '9')
        at--;
    if (at == end || end - at > 18 || at == 0 || path[at - 1] != '.')
        return 0;
    return strtoll(path + at, NULL, 10);
}

// Checks the arguments of the call and parses the numbers. Returns -1 to
// continue, or an exit code.
static int check_arguments(const cli_command *c, job *j)
{
    args *a = &j->a;
    dv_place_options *o = &a->options;
    if (a->minimize && (a->spill || o->evict || a->capacity))
        return cli_usage(c, "--minimize finds a capacity for all; it takes no "
                            "--capacity, --spill or --evict");
    if (o->evict && a->out)
        return cli_usage(c, "--evict may give a buffer several addresses; "
                            "--json lists them, -o cannot");
    int code = cli_time_limit(c, a->time_limit, &o->time_limit_s);
    if (code >= 0)
        return code;
    if (a->minimize)
        return -1;
    o->capacity_bytes =
        a->capacity ? cli_bytes(a->capacity) : capacity_of_name(a->file);
    j->from_name = !a->capacity;
    if (o->capacity_bytes > 0)
        return -1;
    if (a->capacity)
        return cli_usage(c,
                         "--capacity takes a number of bytes above 0, or one "
                         "of KiB, MiB, GiB, not '%s'",
                         a->capacity);
    return cli_usage(c, "--capacity is needed; the file's name has none");
}

typedef struct event {
    int64_t tick, bytes;
} event;

static int by_tick(const void *x, const void *y)
{
    const event *a = x, *b = y;
    if (a->tick != b->tick)
        return a->tick < b->tick ? -1 : 1;
    // At the same tick, ends of lifetimes sort before starts, because their
    // bytes are negative.
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

// Returns the largest number of bytes that are live at any tick.
static int64_t largest_load(const dv_csv *csv)
{
    size_t n = 2 * (size_t)csv->n;
    event *e = dv_alloc(n * sizeof *e);
    int64_t now = 0, most = 0;
    if (!e)
        return 0;
    for (int32_t i = 0; i < csv->n; i++) {
        const dv_buffer *b = &csv->buffers[i];
        e[2 * i] = (event){b->start, b->size_bytes};
        e[2 * i + 1] = (event){b->end, -b->size_bytes};
    }
    qsort(e, n, sizeof *e, by_tick);
    for (size_t k = 0; k < n; k++) {
        now += e[k].bytes;
        most = now > most ? now : most;
    }
    dv_release(e);
    return most;
}

static dv_status place(job *j, dv_diag *diag)
{
    dv_csv *csv = &j->csv;
    dv_place_options *o = &j->a.options;
    size_t n = (size_t)csv->n;
    double begin = dv_clock_s();
    o->must_fit = !j->a.spill && !j->a.minimize;
    if (j->a.minimize) {
        DV_TRY(dv_place_least_at(&j->p, &j->proven, csv->buffers, n, o,
                                 csv->locs, diag));
        o->capacity_bytes = j->p->peak_bytes;
    } else {
        DV_TRY(dv_place_at(&j->p, csv->buffers, n, o, csv->locs, diag));
    }
    j->seconds = dv_clock_s() - begin;
    DV_TRY(dv_placement_check(j->p, csv->buffers, o, diag));
    j->load = largest_load(csv);
    for (size_t i = 0; i < n; i++)
        if (j->p->addresses[i] < 0) {
            j->n_out++;
            j->out_bytes += csv->buffers[i].size_bytes;
        }
    return DV_OK;
}

// Returns the optimality gap: by which fraction the result may be worse than
// the optimum, of the placed weight or, with --minimize, of the capacity.
static double gap_of(const job *j)
{
    double capacity = (double)j->a.options.capacity_bytes;
    if (!j->a.minimize)
        return j->p->gap;
    return j->proven > 0 ? capacity / (double)j->proven - 1 : capacity > 0;
}

static void json_buffer(dv_json *w, const job *j, size_t i)
{
    const dv_buffer *b = &j->csv.buffers[i];
    DV_JSON_OBJECT(
        w, NULL, DV_F("id", b->name), DV_F("lower", b->start),
        DV_F("upper", b->end), DV_F("size", b->size_bytes),
        DV_F_IF(j->p->addresses[i] >= 0, "offset", j->p->addresses[i]),
        DV_F("reason", j->p->reasons[i]));
}

static char *as_json(const job *j)
{
    dv_text out = {0};
    dv_json w = {.out = &out};
    const dv_placement *p = j->p;
    dv_json_open(&w, NULL, '{');
    DV_JSON_FIELDS(&w, DV_F("file", j->a.file),
                   DV_F("capacity", j->a.options.capacity_bytes),
                   DV_F_BOOL("fits", j->n_out == 0),
                   DV_F("peak", p->peak_bytes), DV_F("load", j->load),
                   DV_F("solver", p->solver), DV_F("value", p->value),
                   DV_F("bound", j->a.minimize ? j->proven : p->bound),
                   DV_F("gap", gap_of(j)), DV_F("left_out", j->n_out),
                   DV_F("left_out_bytes", j->out_bytes),
                   DV_F("steps", p->steps), DV_F("time_ms", j->seconds * 1e3));
    dv_json_open(&w, "buffers", '[');
    for (size_t i = 0; i < p->n_buffers; i++)
        json_buffer(&w, j, i);
    dv_json_close(&w);
    if (j->a.options.evict) {
        dv_json_open(&w, "stays", '[');
        for (size_t k = 0; k < p->n_stays; k++) {
            const dv_stay *s = &p->stays[k];
            DV_JSON_OBJECT(&w, NULL, DV_F("id", j->csv.buffers[s->buffer].name),
                           DV_F("lower", s->start), DV_F("upper", s->end),
                           DV_F("offset", s->address));
        }
        dv_json_close(&w);
    }
    dv_json_close(&w);
    return dv_text_take(&out);
}

static void put_left_out(dv_text *out, const job *j)
{
    int shown = 0;
    for (size_t i = 0; i < j->p->n_buffers && shown <= 10; i++) {
        if (j->p->addresses[i] >= 0)
            continue;
        if (shown++ == 10)
            dv_put(out, "  ...\n");
        else
            dv_put(out, "  left out: %s, %" PRId64 " bytes: %s\n",
                   j->csv.buffers[i].name, j->csv.buffers[i].size_bytes,
                   j->p->reasons[i]);
    }
}

static char *as_text(const job *j)
{
    dv_text out = {0};
    const dv_placement *p = j->p;
    int64_t capacity = j->a.options.capacity_bytes;
    dv_put(&out, "%s: %" PRId64 " of %zu buffer%s placed", j->a.file,
           (int64_t)p->n_buffers - j->n_out, p->n_buffers,
           DV_PLURAL(p->n_buffers, "", "s"));
    if (j->a.minimize && j->proven == capacity)
        dv_put(&out, " in %" PRId64 " bytes, the least", capacity);
    else if (j->a.minimize)
        dv_put(&out,
               " in %" PRId64 " bytes, %" PRId64
               " are needed: at most %.2g%% above the least",
               capacity, j->proven, 100 * gap_of(j));
    else
        dv_put(&out, ", %" PRId64 " of %" PRId64 " bytes%s used", p->peak_bytes,
               capacity, j->from_name ? " (as its name says)" : "");
    dv_put(&out, "; %s, %" PRId64 " step%s, ran in %.2g s\n", p->solver,
           p->steps, DV_PLURAL(p->steps, "", "s"), j->seconds);
    if (j->n_out) {
        dv_put(&out,
               "  kept a weight of %" PRId64 ", at most %" PRId64
               " can be kept: %.2f%% less\n",
               p->value, p->bound, 100 * p->gap);
        put_left_out(&out, j);
    }
    if (j->a.show || isatty(1))
        cli_draw_text(&out, p, j->csv.buffers, capacity);
    return dv_text_take(&out);
}

static int64_t weight_of(const dv_buffer *b)
{
    if (b->weight >= 0 || b->n_uses == 0)
        return b->weight >= 0 ? b->weight : b->size_bytes;
    return ((int64_t)b->n_uses - b->first_use_is_read) * b->size_bytes;
}

// Reports that not all buffers fit although --spill was not given. Returns the
// exit code.
static int report_no_fit(const job *j, dv_diag *diag)
{
    const dv_placement *p = j->p;
    dv_loc whole = {&j->csv.src, DV_FILE};
    int64_t capacity = j->a.options.capacity_bytes, all = 0;
    for (int32_t i = 0; i < j->csv.n; i++) {
        const dv_buffer *b = &j->csv.buffers[i];
        all += weight_of(b);
        if (b->barred || b->size_bytes > capacity)
            dv_fail(diag, DV_E_CAPACITY, j->csv.locs[i],
                    "%.60s cannot be placed: %.200s", b->name, p->reasons[i]);
    }
    if (j->load > capacity && p->bound < all)
        dv_fail(diag, DV_E_CAPACITY, whole,
                "%" PRId64 " bytes are alive at once, the capacity is %" PRId64
                "; --spill leaves some out",
                j->load, capacity);
    dv_fail(diag, DV_E_CAPACITY, whole,
            "%s in %" PRId64 " bytes; %s leaves out %" PRId64
            " of %zu buffers; --spill accepts that",
            p->bound < all ? "there is no place for all"
                           : "no place was found for all",
            capacity, p->solver, j->n_out, p->n_buffers);
    cli_fail(diag);
    return 3;
}

static int answer(job *j, dv_diag *diag)
{
    dv_text svg = {0}, csv = {0};
    const char *out = j->a.out;
    int code = 0;
    if (j->n_out && !j->a.spill && !j->a.minimize)
        return report_no_fit(j, diag);
    if (j->a.svg) {
        cli_draw_svg(&svg, j->p, j->csv.buffers, j->a.options.capacity_bytes);
        code = cli_put(dv_text_take(&svg), j->a.svg, diag);
    }
    if (code == 0 && out) {
        dv_csv_print(&csv, &j->csv, j->p->addresses);
        code = cli_put(dv_text_take(&csv), out, diag);
    }
    int taken =
        (out && !strcmp(out, "-")) || (j->a.svg && !strcmp(j->a.svg, "-"));
    if (code == 0 && (!taken || j->a.json))
        code = cli_put(j->a.json ? as_json(j) : as_text(j), NULL, diag);
    return code;
}

static int run(job *j, dv_diag *diag)
{
    char *text = NULL;
    size_t len = 0;
    const char *name = cli_file_name(j->a.file);
    if (dv_file_read(&text, &len, j->a.file, DV_MAX_TEXT_BYTES, diag))
        return cli_fail(diag);
    int code;
    if (dv_csv_parse(&j->csv, text, len, name, diag)) {
        code = cli_fail(diag);
    } else {
        cli_warnings(diag);
        code = place(j, diag) == DV_OK ? answer(j, diag) : cli_fail(diag);
        dv_placement_destroy(j->p);
        dv_csv_free(&j->csv);
    }
    dv_release(text);
    return code;
}

int cli_place(const cli_command *c, int argc, char **argv)
{
    static job j;
    args *a = &j.a;
    const char *files[1];
    int n_files;
    int64_t seed = 0;
    a->options = (dv_place_options)DV_PLACE_OPTIONS_INIT;
    const cli_option options[] = {
        {"capacity", 'c', "BYTES",
         "of the memory, also 2MiB; else as in "
         "FILE.BYTES.csv",
         CLI_TEXT, &a->capacity},
        {"spill", 0, NULL, "leave out what does not fit, for the most weight",
         CLI_FLAG, &a->spill},
        {"evict", 0, NULL, "like --spill; buffers may also leave and come back",
         CLI_FLAG, &a->options.evict},
        {"minimize", 0, NULL, "find the least capacity for all", CLI_FLAG,
         &a->minimize},
        {"align", 0, "BYTES", "of every address", CLI_SIZE,
         &a->options.align_bytes},
        {"solver", 0, "auto|exact|anneal|bestfit|firstfit|greedy",
         "the method (default: auto)", CLI_CHOICE, &a->options.solver},
        {"budget", 0, "STEPS", "of search; the same answer everywhere",
         CLI_SIZE, &a->options.budget},
        {"time-limit", 0, "SECONDS", "stop earlier, with what was found",
         CLI_TEXT, &a->time_limit},
        {"seed", 0, "N", "another walk of the search", CLI_COUNT, &seed},
        {"out", 'o', "OUT.csv", "the rows with an offset column", CLI_TEXT,
         &a->out},
        {"svg", 0, "FILE", "a drawing, time against address", CLI_TEXT,
         &a->svg},
        {"show", 0, NULL, "the drawing in letters, as on a terminal", CLI_FLAG,
         &a->show},
        {"json", 0, NULL, "everything for programs", CLI_FLAG, &a->json},
        {0}};
    int code = cli_parse(c, options, argc, argv, files, &n_files, 1);
    if (code >= 0)
        return code;
    if (n_files != 1)
        return cli_usage(c, "a table of buffers is needed");
    a->file = files[0];
    code = cli_check_overwrite(c, "--svg", a->svg, files[0],
                               "the table that it reads");
    if (code < 0)
        code =
            cli_check_overwrite(c, "--svg", a->svg, a->out, "the output of -o");
    if (code >= 0)
        return code;
    a->options.seed = (uint64_t)seed;
    a->spill |= a->options.evict;
    code = check_arguments(c, &j);
    if (code >= 0)
        return code;
    dv_diag *diag = dv_diag_create();
    code = run(&j, diag);
    dv_diag_destroy(diag);
    return code;
}
