// Fuzzes the plan reader and the checker: a plan that passes its check prints
// to a text that reads back and prints the same (T1), and runs if it is small.
#include "base/math.h"
#include "fuzz_run.h"
#include "plan/plan.h"
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
        if (is_small(plan))
            run_once(plan, 1);
    }
    dv_plan_destroy(plan);
    dv_diag_destroy(diag);
    start_at(data, size, "lower");
    start_at(data, size, "group");
    return 0;
}
