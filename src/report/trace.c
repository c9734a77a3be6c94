// The timeline of a plan in Chrome's trace format: a process per rank, a thread
// per core, an event for each op of a tile. Times are in microseconds.
#include "base/options.h"
#include "plan/json.h"
#include "plan/timeline.h"
#include "report/report.h"
#include <stdio.h>

enum {
    MOST_PIECES = 256, // a core with more ops x tiles in a group gets an event
                       // per op, as if it computed the op for all its tiles
};

static void name_json(dv_json *j, const char *kind, int64_t rank, int64_t core,
                      const char *name, int64_t number)
{
    char text[64];
    snprintf(text, sizeof text, "%s %lld", name, (long long)number);
    dv_json_open_flat(j, NULL, '{');
    DV_JSON_FIELDS(j, DV_F("ph", "M"), DV_F("pid", rank), DV_F("tid", core),
                   DV_F("name", kind));
    DV_JSON_OBJECT(j, "args", DV_F("name", (const char *)text));
    dv_json_close(j);
}

static void event_json(dv_json *j, const char *name, const char *category,
                       int64_t rank, int64_t core, double start_us, double us,
                       int64_t group, int64_t tile)
{
    dv_json_open_flat(j, NULL, '{');
    DV_JSON_FIELDS(j, DV_F("ph", "X"), DV_F("name", name),
                   DV_F("cat", category), DV_F("pid", rank), DV_F("tid", core),
                   DV_F("ts", start_us), DV_F("dur", us));
    DV_JSON_OBJECT(j, "args", DV_F("group", group),
                   DV_F_WHEN(tile >= 0, DV_F("tile", tile)));
    dv_json_close(j);
}

// Prints what one core does while a group runs.
static void core_json(dv_json *j, const dv_plan *plan, int64_t rank,
                      int32_t group, const dv_group_span *s,
                      const dv_lane *lane, int64_t core)
{
    const dv_group *g = &plan->groups[group];
    int64_t rounds = lane->tiles * s->n_ops <= MOST_PIECES ? lane->tiles : 1;
    double at = s->start_us, end = s->start_us + s->us;
    double share = lane->busy / (double)rounds;
    for (int64_t r = 0; r < rounds; r++)
        for (int32_t i = 0; i < s->n_ops; i++) {
            event_json(j, plan->ops->ops[g->first_op + i].name, "op", rank,
                       core, at, s->op_us[i] * share, group,
                       rounds > 1 ? r : -1);
            at += s->op_us[i] * share;
        }
    if (end - at > 1e-9 * s->us)
        event_json(j, "wait", "wait", rank, core, at, end - at, group, -1);
}

static double op_start(const dv_plan *plan, const dv_timeline *t, int32_t op)
{
    int32_t g = dv_group_of(plan, op);
    double at = t->groups[g].start_us;
    for (int32_t i = plan->groups[g].first_op; i < op; i++)
        at += t->groups[g].op_us[i - plan->groups[g].first_op];
    return at;
}

// Prints an arrow where a tensor goes from core to core.
static void arrow_json(dv_json *j, const dv_plan *plan, const dv_timeline *t,
                       int64_t rank, int32_t home)
{
    const dv_home *h = &plan->scratch.homes[home];
    const dv_home *from = &plan->scratch.homes[h->from];
    const char *name = plan->ops->tensors[h->tensor].name;
    double ts[2] = {op_start(plan, t, from->first_op),
                    op_start(plan, t, h->first_op)};
    for (int end = 0; end < 2; end++) {
        dv_json_open_flat(j, NULL, '{');
        DV_JSON_FIELDS(j, DV_F("ph", end ? "f" : "s"), DV_F("name", name),
                       DV_F("cat", "ring"), DV_F("id", home), DV_F("pid", rank),
                       DV_F("tid", 0), DV_F("ts", ts[end]),
                       DV_F_WHEN(end, DV_F("bp", "e")));
        dv_json_close(j);
    }
}

static dv_status plan_json(dv_json *j, const dv_plan *plan, int64_t rank,
                           const double *seconds, dv_diag *diag)
{
    dv_timeline t;
    dv_status st = DV_OK;
    if (!dv_timeline_make(&t, plan, seconds))
        st = dv_nomem(diag);
    else if (!t.basis)
        st = dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                     "a plan for %s that was read has no predicted times: make "
                     "it from the program, or measure it",
                     plan->target.name);
    for (int64_t c = 0; st == DV_OK && c < plan->target.cores; c++)
        name_json(j, "thread_name", rank, c, "core", c);
    for (int32_t g = 0; st == DV_OK && g < t.n_groups; g++)
        for (int32_t l = 0; l < t.groups[g].n_lanes; l++) {
            const dv_lane *lane = &t.groups[g].lanes[l];
            for (int64_t c = 0; c < lane->n_cores; c++)
                core_json(j, plan, rank, g, &t.groups[g], lane, lane->core + c);
        }
    for (int32_t i = 0; st == DV_OK && i < plan->scratch.n_homes; i++)
        if (plan->scratch.homes[i].fill == DV_FILL_RING)
            arrow_json(j, plan, &t, rank, i);
    dv_arena_free(&t.arena);
    return st;
}

dv_status dv_report_trace(char **out, const dv_plan *plan,
                          const dv_report_options *options, dv_diag *diag)
{
    dv_report_options o = DV_REPORT_OPTIONS_INIT;
    dv_text text = {0};
    dv_json j = {.out = &text};
    dv_status st = DV_OK;
    DV_TRY(dv_options_read(&o, sizeof o, options, "dv_report_options", diag));
    dv_json_open_flat(&j, NULL, '{');
    dv_json_string(&j, "displayTimeUnit", "ns");
    dv_json_open(&j, "traceEvents", '[');
    if (!plan->n_classes)
        st = plan_json(&j, plan, 0,
                       o.measured ? o.measured->group_seconds : NULL, diag);
    for (int32_t c = 0; c < plan->n_classes; c++)
        for (int32_t r = 0; r < plan->classes[c].n_ranks && st == DV_OK; r++) {
            int64_t rank = plan->classes[c].ranks[r];
            name_json(&j, "process_name", rank, 0, "rank", rank);
            st = plan_json(&j, plan->classes[c].plan, rank, NULL, diag);
        }
    dv_json_close(&j);
    dv_json_close(&j);
    if (st == DV_OK && text.failed)
        st = dv_nomem(diag);
    if (st == DV_OK)
        *out = dv_text_take(&text);
    else
        dv_text_free(&text);
    return st;
}
