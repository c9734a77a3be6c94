// Fuzzes the plan reader and the checker: a plan that passes its check prints
// to a text that reads back and prints the same (T1), and runs if it is small.
#include "base/math.h"
#include "fuzz_run.h"
#include "plan/plan.h"
#include "team/team.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_POINTS = 100000, MAX_BYTES = 1 << 20, MAX_TILES = 100000 };

static int is_small(const dv_plan *plan)
{
    const dv_program *p = plan->ops;
    int64_t bytes = 0, tiles = 0;
    for (int i = 0; i < p->n_tensors; i++)
        if (!dv_add_i64(&bytes, bytes, dv_tensor_bytes(&p->tensors[i])))
            return 0;
    for (int i = 0; i < plan->n_groups; i++)
        if (!dv_add_i64(&tiles, tiles, plan->groups[i].n_tiles))
            return 0;
    return bytes <= MAX_BYTES && tiles <= MAX_TILES &&
           dv_program_points(p) < MAX_POINTS;
}

static void read_again(const dv_plan *plan)
{
    dv_plan *read = NULL;
    char *text = dv_plan_text(plan), *json = dv_plan_json(plan);
    must(text && json);
    must(!dv_plan_parse(&read, text, strlen(text), "again", NULL, NULL, NULL));
    must(!dv_plan_check(read, NULL));
    char *again = dv_plan_text(read);
    must(again && strcmp(text, again) == 0);
    dv_free(text);
    dv_free(json);
    dv_free(again);
    dv_plan_destroy(read);
}

// Runs the ranks of a small team in this process. Such a plan passed its check:
// it may fail only as a plan for one process may.
static void run_ranks(const dv_plan *plan)
{
    enum { MAX_RANKS = 4 };
    const dv_program *p = plan->ops;
    int small = dv_plan_team_size(&plan->team) <= MAX_RANKS;
    for (int32_t i = 0; i < plan->n_classes; i++)
        small &= is_small(plan->classes[i].plan);
    void **data = calloc((size_t)p->n_tensors + 1, sizeof *data);
    for (int i = 0; i < p->n_tensors && small; i++) {
        const dv_tensor *t = &p->tensors[i];
        if (!t->is_input && !t->is_output)
            continue;
        data[i] = calloc(1, (size_t)dv_tensor_bytes(t));
        dv_fill(p, i, 1, -1, 1, data[i]);
    }
    dv_status st = small ? dv_team_run(plan, data, NULL, NULL, NULL) : DV_OK;
    must(st == DV_OK || st == DV_E_BOUNDS || st == DV_E_OVERFLOW ||
         st == DV_E_CHECK || st == DV_E_LIMIT || st == DV_E_SYSTEM);
    for (int i = 0; i < p->n_tensors; i++)
        free(data[i]);
    free(data);
}

// Resumes planning from a plan, as `--start-at` does.
static void start_at(const uint8_t *data, size_t size, const char *pass)
{
    dv_plan *plan = NULL;
    dv_status st = dv_plan_parse(&plan, (const char *)data, size, "fuzz", pass,
                                 NULL, NULL);
    if (st == DV_OK)
        must(!dv_plan_check(plan, NULL));
    dv_plan_destroy(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dv_diag *diag = dv_diag_create();
    dv_plan *plan = NULL;
    if (dv_plan_parse(&plan, (const char *)data, size, "fuzz", NULL, NULL,
                      diag)) {
        must(dv_diag_text(diag)[0] != 0); // A failure must say something.
    } else if (dv_plan_check(plan, diag)) {
        must(dv_diag_text(diag)[0] != 0);
        dv_exec *x = NULL;
        if (plan->ops && is_small(plan) && !dv_exec_create(&x, plan, NULL))
            dv_exec_destroy(x);
        else if (!plan->ops)
            must(dv_exec_create(&x, plan, NULL) != DV_OK);
    } else {
        read_again(plan);
        if (is_small(plan) && plan->team.n_axes)
            run_ranks(plan);
        else if (is_small(plan))
            run_once(plan, 1);
    }
    dv_plan_destroy(plan);
    dv_diag_destroy(diag);
    start_at(data, size, "lower");
    start_at(data, size, "group");
    return 0;
}
