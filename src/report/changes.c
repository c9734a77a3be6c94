// What would change the predicted time of a plan most: the plan is made again
// for machines that have twice of one thing, and with the second best division
// of the op that takes longest in a group.
#include "plan/timeline.h"
#include "plan/traffic.h"
#include "report/report.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_OPS = 2000, // larger programs are not planned again
    // Other divisions are tried for ops of the longest groups, one plan per
    // group: for as many groups as keep the ops in all these plans within
    // MOST_OPS_OF_GROUPS, but at least LEAST_GROUPS and at most MOST_GROUPS.
    LEAST_GROUPS = 8,
    MOST_GROUPS = 64,
    MOST_OPS_OF_GROUPS = 4000,
    MOST_CHANGES = 5 + MOST_GROUPS,
    MOST_TEXT = 256,
};

typedef struct change {
    char what[MOST_TEXT];
    const char *kind;
    int32_t op; // the op that is divided otherwise, or -1
    double us;
    int64_t memory_bytes;
} change;

typedef struct changer {
    const dv_plan *plan;
    dv_program *program; // the plan's source
    dv_plan_options options;
    change list[MOST_CHANGES];
    int n;
} changer;

// Plans the program again with one change and records the predicted time. Plans
// that cannot be made or fail the check are not recorded.
static dv_status try_plan(changer *c, const dv_target *target, change made,
                          dv_diag *diag)
{
    dv_plan *plan = NULL;
    dv_status st = dv_plan_create(&plan, c->program, target, &c->options, NULL);
    if (st == DV_OK)
        st = dv_plan_check(plan, NULL);
    if (st == DV_OK) {
        dv_traffic t = dv_plan_traffic(plan);
        made.us = dv_plan_price(plan).total_us;
        made.memory_bytes = dv_traffic_bytes(&t);
        c->list[c->n++] = made;
    }
    dv_plan_destroy(plan);
    return st == DV_E_NOMEM ? dv_nomem(diag) : DV_OK;
}

static dv_status try_machines(changer *c, dv_diag *diag)
{
    static const struct {
        const char *kind, *what;
    } rows[] = {{"scratch", "twice the scratchpad of every core"},
                {"bandwidth", "twice the bandwidth of main memory"},
                {"compute", "twice the arithmetic of every core"},
                {"ring", "twice the bandwidth of the ring"}};
    for (int i = 0; i < 4; i++) {
        dv_target t = c->plan->target;
        change made = {.kind = rows[i].kind, .op = -1};
        snprintf(made.what, sizeof made.what, "%s", rows[i].what);
        int64_t scratch = t.scratch_bytes;
        if (i == 0)
            t.scratch_bytes *= 2;
        t.memory_bandwidth_bytes_per_s *= i == 1 ? 2 : 1;
        t.core_bandwidth_bytes_per_s *= i == 1 ? 2 : 1;
        t.mac_rate_per_s *= i == 2 ? 2 : 1;
        t.vector_rate_per_s *= i == 2 ? 2 : 1;
        t.ring_bandwidth_bytes_per_s *= i == 3 ? 2 : 1;
        int has = i == 0   ? scratch > 0
                  : i == 1 ? t.memory_bandwidth_bytes_per_s > 0
                  : i == 2 ? t.mac_rate_per_s + t.vector_rate_per_s > 0
                           : t.ring && t.ring_bandwidth_bytes_per_s > 0;
        if (has)
            DV_TRY(try_plan(c, &t, made, diag));
    }
    return DV_OK;
}

// Makes the plan again with op i divided in the second best way.
static dv_status try_division(changer *c, int32_t i, dv_diag *diag)
{
    const dv_op *op = &c->plan->ops->ops[i];
    const dv_plan_options given = c->options;
    const char **pins = malloc((given.n_pins + DV_MAX_VARS) * sizeof *pins);
    char text[DV_MAX_VARS][MOST_TEXT];
    change made = {.kind = "division", .op = i};
    int n = snprintf(made.what, sizeof made.what, "%.80s cut into", op->name);
    size_t n_pins = given.n_pins;
    if (!pins)
        return dv_nomem(diag);
    if (n_pins)
        memcpy(pins, given.pins, n_pins * sizeof *pins);
    for (int v = 0; v < op->n_vars; v++) {
        int64_t slices = c->plan->divisions[i].runner[v];
        int len = snprintf(text[v], MOST_TEXT, "%s:%s=%" PRId64, op->name,
                           op->vars[v].name, slices);
        if (len < MOST_TEXT)
            pins[n_pins++] = text[v];
        if (slices > 1 && n < MOST_TEXT)
            n += snprintf(made.what + n, (size_t)(MOST_TEXT - n),
                          " %.40s %" PRId64, op->vars[v].name, slices);
    }
    c->options.pins = pins;
    c->options.n_pins = n_pins;
    dv_status st = try_plan(c, &c->plan->target, made, diag);
    c->options = given;
    free(pins);
    return st;
}

// Returns the op of group g that takes longest among those that have a second
// best division, or -1.
static int32_t longest_op(const dv_plan *plan, const dv_timeline *t, int32_t g)
{
    int32_t first = plan->groups[g].first_op, best = -1;
    for (int32_t i = first; i < plan->groups[g].end_op; i++)
        if (plan->divisions[i].runner &&
            (best < 0 ||
             t->groups[g].op_us[i - first] > t->groups[g].op_us[best - first]))
            best = i;
    return best;
}

static dv_status try_divisions(changer *c, dv_diag *diag)
{
    dv_timeline t;
    dv_status st = DV_OK;
    int most = MOST_OPS_OF_GROUPS / (c->plan->ops->n_ops + 1);
    most = most < LEAST_GROUPS  ? LEAST_GROUPS
           : most > MOST_GROUPS ? MOST_GROUPS
                                : most;
    if (!dv_timeline_make(&t, c->plan, NULL))
        st = dv_nomem(diag);
    for (int k = 0; st == DV_OK && k < most; k++) {
        int32_t longest = -1;
        for (int32_t g = 0; g < t.n_groups; g++)
            if (t.groups[g].us >= 0 &&
                (longest < 0 || t.groups[g].us > t.groups[longest].us))
                longest = g;
        if (longest < 0)
            break;
        int32_t op = longest_op(c->plan, &t, longest);
        t.groups[longest].us = -1; // it is done
        if (op >= 0)
            st = try_division(c, op, diag);
    }
    dv_arena_free(&t.arena);
    return st;
}

static int by_time(const void *a, const void *b)
{
    const change *x = a, *y = b;
    int kinds = strcmp(x->what, y->what);
    return x->us < y->us ? -1 : x->us > y->us ? 1 : kinds;
}

dv_status dv_report_changes(dv_json *j, const char *key, const dv_plan *plan,
                            const dv_plan_options *made_with, dv_diag *diag)
{
    changer c = {.plan = plan, .options = DV_PLAN_OPTIONS_INIT};
    if (!dv_plan_has_price(plan) || plan->team.n_axes || !plan->source ||
        plan->ops->n_ops > MOST_OPS) {
        dv_json_null(j, key);
        return DV_OK;
    }
    if (made_with)
        c.options = *made_with;
    c.options.after_pass = NULL;
    c.options.stop_after = NULL;
    DV_TRY(dv_plan_source(plan, &c.program, diag));
    dv_status st = DV_OK;
    // A plan that was read from a file may differ from the plan that these
    // options give, so compare with the latter, too.
    if (plan->src.len)
        st = try_plan(&c, &plan->target,
                      (change){.kind = "again",
                               .op = -1,
                               .what = "the same, planned again"},
                      diag);
    if (st == DV_OK)
        st = try_machines(&c, diag);
    if (st == DV_OK && plan->divisions)
        st = try_divisions(&c, diag);
    dv_program_destroy(c.program);
    if (st != DV_OK)
        return st;
    qsort(c.list, (size_t)c.n, sizeof *c.list, by_time);
    dv_json_open(j, key, '[');
    for (int i = 0; i < c.n; i++)
        DV_JSON_OBJECT(j, NULL, DV_F("kind", c.list[i].kind),
                       DV_F("what", (const char *)c.list[i].what),
                       DV_F_IF(c.list[i].op >= 0, "op", c.list[i].op),
                       DV_F("us", c.list[i].us),
                       DV_F("memory_bytes", c.list[i].memory_bytes));
    dv_json_close(j);
    return DV_OK;
}
