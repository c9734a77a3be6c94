#include "base/hash.h"
#include "base/options.h"
#include "plan/json.h"
#include "plan/timeline.h"
#include "report/report.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 20000000 };

// The details of plans that are omitted if the page would be too large, the
// least important first.
static const struct {
    int part;
    const char *what;
} details[] = {
    {DV_JSON_SPANS, "what was weighed when ops were divided"},
    {DV_JSON_DEALS, "which core has which tiles"},
    {DV_JSON_BUFFERS, "why tensors are resident or not"},
    {DV_JSON_HOMES, "what is in the scratchpads"},
    {DV_JSON_OPS, "tensors, and what ops compute"},
};
enum { N_DETAILS = sizeof details / sizeof *details };

static void measured_json(dv_json *j, const dv_plan *plan, const dv_measured *m)
{
    if (!m) {
        dv_json_null(j, "measured");
        return;
    }
    dv_json_open(j, "measured", '{');
    DV_JSON_FIELDS(
        j, DV_F("executor", m->executor),
        DV_F_WHEN(m->seconds > 0, DV_F("seconds", m->seconds)),
        DV_F_WHEN(m->counted_us > 0, DV_F("counted_us", m->counted_us)),
        DV_F_WHEN(m->peak_gflops > 0, DV_F("peak_gflops", m->peak_gflops)),
        DV_F_WHEN(m->copy_gb_per_s > 0,
                  DV_F("copy_gb_per_s", m->copy_gb_per_s)));
    if (m->group_seconds) {
        dv_timeline t;
        j->out->failed |= !dv_timeline_make(&t, plan, m->group_seconds);
        if (t.basis && !j->out->failed)
            dv_timeline_json(j, "timeline", &t);
        dv_arena_free(&t.arena);
    }
    dv_json_close(j);
}

static uint64_t hash_texts(uint64_t hash, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (texts[i])
            hash = dv_hash(hash, texts[i], strlen(texts[i]) + 1);
        else
            hash = dv_hash(hash, "\1", 2);
    return hash;
}

static uint64_t hash_rects(uint64_t hash, const dv_core_rect *rects, size_t n)
{
    return n ? dv_hash(hash, rects, n * sizeof *rects) : hash;
}

// Prints a hash of the options with which a plan was made, or null if these are
// not known because the plan was read from a file.
static void options_json(dv_json *j, const dv_plan *plan,
                         const dv_plan_options *o)
{
    if (!o || plan->src.len) {
        dv_json_null(j, "options_digest");
        return;
    }
    const int64_t numbers[] = {o->cores,
                               o->threads,
                               o->divide,
                               o->joint,
                               o->scratch,
                               o->in_place,
                               o->clone_inputs,
                               o->ring,
                               o->evict,
                               o->reorder,
                               o->recompute,
                               o->tenants,
                               o->solver,
                               o->place_budget,
                               o->team,
                               o->rank,
                               o->place != 0,
                               (int64_t)o->n_pins,
                               (int64_t)o->n_allowed,
                               (int64_t)o->n_holes,
                               (int64_t)o->n_bars,
                               o->tiles_per_core,
                               (int64_t)o->n_constants};
    const char *const texts[] = {o->stop_after, o->grid, o->policy, o->order};
    uint64_t hash = dv_hash(DV_HASH, numbers, sizeof numbers);
    hash = dv_hash(hash, &o->time_limit_s, sizeof o->time_limit_s);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        hash = hash_texts(hash, &texts[i], 1);
    hash = hash_texts(hash, o->pins, o->n_pins);
    hash = hash_texts(hash, o->bars, o->n_bars);
    hash = hash_texts(hash, o->constants, o->n_constants);
    hash = hash_rects(hash, o->allowed, o->n_allowed);
    hash = hash_rects(hash, o->holes, o->n_holes);
    char digits[24];
    snprintf(digits, sizeof digits, "%016" PRIx64, hash);
    dv_json_string(j, "options_digest", digits);
}

// Prints all data of a page, without the first n_left_out of the optional
// details.
static void data_json(dv_text *out, const dv_plan *plan,
                      const dv_report_options *o, const char *changes,
                      int n_left_out)
{
    dv_json j = {.out = out};
    int parts = DV_JSON_ALL & ~DV_JSON_PASS_TIMES;
    for (int i = 0; i < n_left_out; i++)
        parts &= ~details[i].part;
    dv_json_open_flat(&j, NULL, '{');
    DV_JSON_FIELDS(&j, DV_F("format", DV_JSON_FORMAT),
                   DV_F("version", dv_version()), DV_F("command", o->command));
    options_json(&j, plan, o->made_with);
    dv_plan_json_object(&j, "plan", plan, parts);
    if (o->other)
        dv_plan_json_object(&j, "other", o->other, parts);
    measured_json(&j, plan, o->measured);
    dv_json_raw(&j, "changes", changes);
    dv_json_open_flat(&j, "left_out", '[');
    for (int i = 0; i < n_left_out; i++)
        dv_json_string(&j, NULL, details[i].what);
    dv_json_close(&j);
    dv_json_close(&j);
}

// Writes JSON data so that nothing in it can end the surrounding script
// element: < occurs only in strings and is replaced by an escape there.
static void put_escaped(dv_text *page, const dv_text *data)
{
    for (size_t at = 0; at < data->len;) {
        size_t n = strcspn(data->at + at, "<");
        dv_put_bytes(page, data->at + at, n);
        at += n;
        if (at < data->len)
            dv_put(page, "\\u003c");
        at += at < data->len;
    }
}

static void put_page(dv_text *page, const dv_text *data)
{
    for (const char *const *line = dv_page_lines; *line; line++)
        if (strcmp(*line, DV_PAGE_DATA) != 0)
            dv_put_bytes(page, *line, strlen(*line));
        else
            put_escaped(page, data);
    page->failed |= data->failed;
}

static dv_status put_changes(dv_text *out, const dv_plan *plan,
                             const dv_report_options *o, dv_diag *diag)
{
    dv_json j = {.out = out};
    if (o->changes == DV_OFF) {
        dv_put(out, "null");
        return DV_OK;
    }
    dv_json_open_flat(&j, NULL, '{');
    dv_status st = dv_report_changes(&j, "list", plan, o->made_with, diag);
    dv_json_close(&j);
    return st;
}

dv_status dv_report_html(char **out, const dv_plan *plan,
                         const dv_report_options *options, dv_diag *diag)
{
    dv_report_options o = DV_REPORT_OPTIONS_INIT;
    dv_text changes = {0}, page = {0};
    DV_TRY(dv_options_read(&o, sizeof o, options, "dv_report_options", diag));
    DV_TRY(dv_options_enum((int)o.changes, DV_OFF + 1, "changes", diag));
    int64_t most = o.most_bytes > 0 ? o.most_bytes : MOST_BYTES;
    dv_status st = put_changes(&changes, plan, &o, diag);
    if (st == DV_OK && changes.failed)
        st = dv_nomem(diag);
    for (int n = 0; st == DV_OK && n <= N_DETAILS; n++) {
        dv_text data = {0};
        dv_text_free(&page);
        data_json(&data, plan, &o, changes.at, n);
        put_page(&page, &data);
        dv_text_free(&data);
        if (page.failed || (int64_t)page.len <= most)
            break;
    }
    if (st == DV_OK && page.failed)
        st = dv_nomem(diag);
    if (st == DV_OK && (int64_t)page.len > most)
        st = dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                     "the page would have %" PRId64
                     " bytes without its details, more than the limit of "
                     "%" PRId64,
                     (int64_t)page.len, most);
    dv_text_free(&changes);
    if (st == DV_OK)
        *out = dv_text_take(&page);
    else
        dv_text_free(&page);
    return st;
}
