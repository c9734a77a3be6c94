// Fuzzes everything that the text of a program can reach: a program that parses
// prints to the same program (T1), lowers to a valid program, and gets a plan
// that passes its check and reads back. Small ones run.
#include "base/math.h"
#include "fuzz_run.h"
#include "../harness/equal.h"
#include "plan/plan.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_POINTS = 100000, MAX_BYTES = 1 << 20 };

// Returns whether the text ran into a limit, which is no error.
static int gave_up(dv_status st)
{
    return st == DV_E_LIMIT || st == DV_E_OVERFLOW || st == DV_E_NOMEM;
}

static int is_small(const dv_program *p)
{
    int64_t bytes = 0;
    for (int i = 0; i < p->n_tensors; i++)
        if (!dv_add_i64(&bytes, bytes, dv_tensor_bytes(&p->tensors[i])))
            return 0;
    return bytes <= MAX_BYTES && dv_program_points(p) < MAX_POINTS;
}

static void print_and_reparse(const dv_program *p)
{
    dv_program *q = NULL;
    char *text = dv_program_text(p);
    must(text != NULL);
    must(!dv_program_parse(&q, text, strlen(text), "printed", NULL, 0, NULL));
    must(same_list(p->ast.first, q->ast.first) && same_program(p, q));
    char *again = dv_program_text(q);
    must(again && strcmp(text, again) == 0);
    dv_free(text);
    dv_free(again);
    dv_program_destroy(q);
}

static void lower_twice(const dv_program *p, dv_grain grain)
{
    dv_program *a = NULL, *b = NULL;
    dv_status st = dv_program_lower(&a, p, grain, NULL);
    if (gave_up(st))
        return;
    must(st == DV_OK);
    st = dv_program_verify(a, 0, NULL);
    must(st == DV_OK || gave_up(st));
    if (st == DV_OK) {
        must(!dv_program_lower(&b, a, grain, NULL));
        must(same_program(a, b));
    }
    char *json = dv_program_json(p, grain);
    must(json != NULL);
    dv_free(json);
    dv_program_destroy(a);
    dv_program_destroy(b);
}

static void plan_and_run(const dv_program *p, const char *target_name)
{
    dv_target *target = NULL;
    dv_plan *plan = NULL, *read = NULL;
    must(!dv_target_load(&target, target_name, NULL));
    dv_status st = dv_plan_create(&plan, p, target, NULL, NULL);
    // A machine may be too small for the program, or not have the shards that
    // the program asks for.
    must(st == DV_OK || gave_up(st) || st == DV_E_CAPACITY ||
         st == DV_E_SHAPE || st == DV_E_USAGE);
    dv_target_destroy(target);
    if (st != DV_OK)
        return;
    must(!dv_plan_check(plan, NULL));
    char *text = dv_plan_text(plan);
    must(text != NULL);
    // A program at the limit of nesting may exceed it once its indices are
    // sorted.
    st = dv_plan_parse(&read, text, strlen(text), "again", NULL, NULL, NULL);
    must(st == DV_OK || st == DV_E_LIMIT);
    char *again = read ? dv_plan_text(read) : NULL;
    must(!read || (again && strcmp(text, again) == 0));
    if (read && is_small(plan->ops))
        run_once(read, 0);
    dv_free(text);
    dv_free(again);
    dv_plan_destroy(plan);
    dv_plan_destroy(read);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dv_diag *diag = dv_diag_create();
    dv_program *p = NULL;
    if (dv_program_parse(&p, (const char *)data, size, "fuzz", NULL, 0, diag)) {
        must(dv_diag_text(diag)[0] != 0); // A failure must say something.
    } else {
        print_and_reparse(p);
        lower_twice(p, DV_GRAIN_FUSED);
        lower_twice(p, DV_GRAIN_PRIMITIVE);
        lower_twice(p, DV_GRAIN_FUNCTION);
        plan_and_run(p, "spyre");
        plan_and_run(p, "blackhole");
    }
    dv_program_destroy(p);
    dv_diag_destroy(diag);
    return 0;
}
