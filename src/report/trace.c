// The timeline of a plan in Chrome's trace format: a process per rank, a thread
// per core, an event for each op of a tile. Times are in microseconds.
#include "base/options.h"
#include "plan/timeline.h"
#include "report/report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// Returns how many rounds of a group's ops the trace shows for a core: one for
// each of its tiles, or one for all tiles if that would be too many events.
static int64_t rounds_of(const dv_group_span *s, const dv_lane *lane)
{
    return lane->tiles * s->n_ops <= MOST_PIECES ? lane->tiles : 1;
}

// Prints what one core does while a group runs.
static void core_json(dv_json *j, const dv_plan *plan, int64_t rank,
                      int32_t group, const dv_group_span *s,
                      const dv_lane *lane, int64_t core)
{
    const dv_group *g = &plan->groups[group];
    int64_t rounds = rounds_of(s, lane);
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

// A point in an event of the trace, where an arrow begins or ends.
typedef struct trace_point {
    int64_t rank, core;
    double us;
} trace_point;

// Finds the middle of an op's event on the first core that computes the op: the
// event of its first tile, or of its last one if `last`.
static trace_point point_of(const dv_plan *plan, const dv_timeline *t,
                            int64_t rank, int32_t op, int last)
{
    int32_t g = dv_group_of(plan, op), first = plan->groups[g].first_op;
    const dv_group_span *s = &t->groups[g];
    if (!s->n_lanes)
        return (trace_point){rank, 0, s->start_us};
    int64_t rounds = rounds_of(s, s->lanes);
    double share = s->lanes->busy / (double)rounds, all = 0, before = 0;
    for (int32_t i = 0; i < s->n_ops; i++) {
        all += s->op_us[i];
        before += i < op - first ? s->op_us[i] : 0;
    }
    double at = before + s->op_us[op - first] / 2 +
                (last ? all * (double)(rounds - 1) : 0);
    return (trace_point){rank, s->lanes->core, s->start_us + at * share};
}

// Prints an arrow from one event to another; `id` is the number of the arrow.
static void arrow_json(dv_json *j, const char *name, const char *category,
                       trace_point from, trace_point to, int64_t *id)
{
    for (int end = 0; end < 2; end++) {
        const trace_point *at = end ? &to : &from;
        dv_json_open_flat(j, NULL, '{');
        DV_JSON_FIELDS(j, DV_F("ph", end ? "f" : "s"), DV_F("name", name),
                       DV_F("cat", category), DV_F("id", *id),
                       DV_F("pid", at->rank), DV_F("tid", at->core),
                       DV_F("ts", at->us), DV_F_WHEN(end, DV_F("bp", "e")));
        dv_json_close(j);
    }
    ++*id;
}

// Prints arrows for tensors that cores pass to each other over the ring.
static void ring_json(dv_json *j, const dv_plan *plan, const dv_timeline *t,
                      int64_t rank, int64_t *id)
{
    const dv_scratch *s = &plan->scratch;
    for (int32_t i = 0; i < s->n_homes; i++) {
        const dv_home *h = &s->homes[i];
        const char *name = plan->ops->tensors[h->tensor].name;
        if (h->fill == DV_FILL_RING)
            arrow_json(j, name, "ring",
                       point_of(plan, t, rank, s->homes[h->from].first_op, 1),
                       point_of(plan, t, rank, h->first_op, 0), id);
        for (int32_t k = 0; k < h->n_passed_to; k++)
            arrow_json(j, name, "ring", point_of(plan, t, rank, h->first_op, 1),
                       point_of(plan, t, rank, h->passed_to[k], 0), id);
    }
}

// Finds the communication events of a rank's program, which are extern ops.
// Returns the op of event number n, or -1 unless there are n_events.
static int32_t event_op(const dv_plan *plan, int32_t n_events, int32_t n)
{
    int32_t found = -1, count = 0;
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        const dv_op *op = &plan->ops->ops[i];
        if (!op->is_extern ||
            strncmp(plan->ops->tensors[op->write.tensor].name, "messages", 8))
            continue;
        found = count++ == n ? i : found;
    }
    return count == n_events ? found : -1;
}

// Finds the event at which a rank sends the messages of an exchange or, if
// `waits`, waits for them. Returns 0 if the rank has other events, too, such as
// adding partial sums: the numbers of events are then unknown.
static int message_place(const dv_plan *plan, const dv_timeline *times,
                         int64_t rank, int32_t exchange, int waits,
                         trace_point *out)
{
    for (int32_t c = 0; c < plan->n_classes; c++)
        for (int32_t r = 0; r < plan->classes[c].n_ranks; r++) {
            const dv_plan *own = plan->classes[c].plan;
            if (plan->classes[c].ranks[r] != rank || !times[c].basis)
                continue;
            int32_t op = event_op(own, 2 * plan->team.n_op_exchanges,
                                  2 * exchange + waits);
            if (op >= 0)
                *out = point_of(own, &times[c], rank, op, 0);
            return op >= 0;
        }
    return 0;
}

// Prints arrows for the messages of all ranks. Returns 0 if out of memory.
static int messages_json(dv_json *j, const dv_plan *plan,
                         const dv_timeline *times, int64_t *id)
{
    const dv_plan_team *t = &plan->team;
    dv_arena arena = {0};
    int ok = 1;
    for (int32_t i = 0; i < t->n_op_exchanges; i++)
        for (int64_t r = 0; r < dv_plan_team_size(t) && ok; r++) {
            dv_op_exchange s = t->op_exchanges[i];
            trace_point from, to;
            ok = dv_team_messages(&s, plan->ops, t, i, r, &arena);
            for (int32_t k = 0; ok && k < s.n_sends; k++)
                if (message_place(plan, times, r, i, 0, &from) &&
                    message_place(plan, times, s.sends[k].rank, i, 1, &to))
                    arrow_json(j, plan->ops->tensors[s.tensor].name, "message",
                               from, to, id);
        }
    dv_arena_free(&arena);
    return ok;
}

// Makes the timeline of a plan for one machine (not a team of ranks); fails if
// the plan has no predicted or measured times.
static dv_status time_plan(dv_timeline *t, const dv_plan *plan,
                           const double *seconds, dv_diag *diag)
{
    if (!dv_timeline_make(t, plan, seconds))
        return dv_nomem(diag);
    if (!t->basis)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "a plan for %s that was read has no predicted times: "
                       "make it from the program, or measure it",
                       plan->target.name);
    return DV_OK;
}

// Prints the events of a plan for one machine (not a team of ranks).
static void plan_json(dv_json *j, const dv_plan *plan, const dv_timeline *t,
                      int64_t rank, int64_t *id)
{
    for (int64_t c = 0; c < plan->target.cores; c++)
        name_json(j, "thread_name", rank, c, "core", c);
    for (int32_t g = 0; g < t->n_groups; g++)
        for (int32_t l = 0; l < t->groups[g].n_lanes; l++) {
            const dv_lane *lane = &t->groups[g].lanes[l];
            for (int64_t c = 0; c < lane->n_cores; c++)
                core_json(j, plan, rank, g, &t->groups[g], lane,
                          lane->core + c);
        }
    ring_json(j, plan, t, rank, id);
}

// Prints the events of all ranks of a team.
static dv_status team_json(dv_json *j, const dv_plan *plan, int64_t *id,
                           dv_diag *diag)
{
    dv_status st = DV_OK;
    dv_timeline *times = calloc((size_t)plan->n_classes, sizeof *times);
    if (!times)
        return dv_nomem(diag);
    for (int32_t c = 0; c < plan->n_classes && st == DV_OK; c++) {
        const dv_rank_class *of = &plan->classes[c];
        st = time_plan(&times[c], of->plan, NULL, diag);
        for (int32_t r = 0; r < of->n_ranks && st == DV_OK; r++) {
            name_json(j, "process_name", of->ranks[r], 0, "rank", of->ranks[r]);
            plan_json(j, of->plan, &times[c], of->ranks[r], id);
        }
    }
    if (st == DV_OK && !messages_json(j, plan, times, id))
        st = dv_nomem(diag);
    for (int32_t c = 0; c < plan->n_classes; c++)
        dv_arena_free(&times[c].arena);
    free(times);
    return st;
}

static dv_status cores_json(dv_json *j, const dv_plan *plan,
                            const double *seconds, int64_t *id, dv_diag *diag)
{
    dv_timeline t = {0};
    dv_status st = time_plan(&t, plan, seconds, diag);
    if (st == DV_OK)
        plan_json(j, plan, &t, 0, id);
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
    int64_t id = 0;
    DV_TRY(dv_options_read(&o, sizeof o, options, "dv_report_options", diag));
    dv_json_open_flat(&j, NULL, '{');
    dv_json_string(&j, "displayTimeUnit", "ns");
    dv_json_open(&j, "traceEvents", '[');
    if (plan->n_classes)
        st = team_json(&j, plan, &id, diag);
    else
        st = cores_json(&j, plan, o.measured ? o.measured->group_seconds : NULL,
                        &id, diag);
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
