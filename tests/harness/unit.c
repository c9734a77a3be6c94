#include "harness/test.h"
#include "harness/unit.h"
#include "jit/backend.h"
#include "scratch/scratch.h"

void must(int ok)
{
    if (!ok)
        fail_msg("%s", case_why());
}

// -- Programs and plans ------------------------------------------------------

dv_program *program_of(const char *text)
{
    dv_program *p = case_program(text);
    must(p != NULL);
    return p;
}

dv_target *target_of(const char *target)
{
    dv_target *t = NULL;
    dv_diag *diag = dv_diag_create();
    if (strchr(target, '{')
            ? dv_target_parse(&t, target, strlen(target), "t", diag)
            : dv_target_load(&t, target, diag))
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    return t;
}

dv_plan *plan_on(const char *text, const char *target, const char *const *pins,
                 const dv_plan_options *how)
{
    dv_plan_options o = *how;
    dv_target *t = target_of(target);
    dv_program *p = program_of(text);
    o.pins = pins;
    while (pins && pins[o.n_pins])
        o.n_pins++;
    dv_plan *plan = case_plan(p, t, &o);
    must(plan != NULL);
    dv_target_destroy(t);
    dv_program_destroy(p);
    return plan;
}

dv_plan *division_of(const char *text, const char *target, int64_t cores,
                     dv_divide how, const char *const *pins)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.scratch = DV_RESIDENTS_NONE;
    o.cores = cores;
    o.divide = how;
    return plan_on(text, target, pins, &o);
}

int32_t op_named(const dv_plan *plan, const char *name)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++)
        if (!strcmp(plan->ops->ops[i].name, name))
            return i;
    fail_msg("no op %s", name);
    return -1;
}

int32_t tensor_named(const dv_plan *plan, const char *name)
{
    int32_t t = dv_program_find(plan->ops, name);
    if (t < 0)
        fail_msg("no tensor %s", name);
    return t;
}

int refused(dv_plan *plan)
{
    dv_plan *read = NULL;
    dv_status here = dv_scratch_verify(plan, NULL);
    if (here == DV_OK && dv_scratch_index(&plan->scratch, plan, &plan->arena))
        here = dv_plan_check(plan, NULL);
    char *text = dv_plan_text(plan);
    dv_status there =
        dv_plan_parse(&read, text, strlen(text), "p", NULL, NULL, NULL);
    if (there == DV_OK)
        there = dv_plan_check(read, NULL);
    dv_plan_destroy(read);
    dv_free(text);
    return (here == DV_E_CHECK || here == DV_E_SHAPE) &&
           (there == DV_E_CHECK || there == DV_E_SHAPE || there == DV_E_SYNTAX);
}

void check_finds(const dv_plan *plan, const char *words)
{
    dv_diag *diag = dv_diag_create();
    assert_int_equal(dv_plan_check(plan, diag), DV_E_CHECK);
    if (!strstr(dv_diag_text(diag), words))
        fail_msg("no '%s' in: %s", words, dv_diag_text(diag));
    dv_diag_destroy(diag);
    assert_int_equal(dv_plan_check(plan, NULL), DV_E_CHECK);
}

// -- Jobs --------------------------------------------------------------------

void start_on(job *j, const char *target, const char *text,
              const dv_plan_options *o, dv_executor kind)
{
    dv_program *p = program_of(text);
    dv_target *t = target_of(target);
    dv_plan *plan = case_plan(p, t, o);
    must(plan != NULL);
    dv_target_destroy(t);
    must(job_start(j, plan, (int)kind));
    j->text = text;
    j->program = p;
    j->own = plan;
}

void start(job *j, const char *text, int64_t threads, dv_executor kind)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.threads = threads;
    start_on(j, "host", text, &o, kind);
}

void start_and_run(job *j, const char *text, int64_t threads)
{
    start(j, text, threads, DV_RUN_THREADS);
    must(job_run(j));
}

void is_right(job *j, int exact)
{
    dv_verdict v;
    must(job_run(j));
    if (dv_verify(&v, j->program, j->plan, j->before, j->data, NULL, NULL,
                  j->diag))
        fail_msg("%s", dv_diag_text(j->diag));
    if (!v.ok || (exact && v.residual != 0))
        fail_msg("%s is %g off with %d threads:\n%s", v.tensor, v.residual,
                 (int)dv_exec_threads(j->x), j->text);
}

void goes(const job *j, const char *how)
{
    dv_text out = {0};
    char want[80];
    int32_t op = j->plan->ops->n_ops - 1;
    dv_exec_schedules(j->x, &out);
    snprintf(want, sizeof want, "# op %d, %s: %s\n", (int)op,
             j->plan->ops->ops[op].name, how);
    if (dv_isa_host() && !strstr(out.at, want))
        fail_msg("with %d threads not %s:\n%s", (int)dv_exec_threads(j->x),
                 want, j->text);
    dv_text_free(&out);
}

void same(const job *a, const job *b)
{
    if (!job_same_bits(a, b))
        fail_msg("%s with %d threads, of\n%s", case_why(),
                 (int)dv_exec_threads(b->x), b->text);
}

// -- Whole tests of a program ------------------------------------------------

void stays_one_op(const char *text)
{
    job j;
    start(&j, text, 2, DV_RUN_THREADS);
    assert_int_equal(j.plan->ops->n_ops, 1);
    is_right(&j, 0);
    job_stop(&j);
}

void same_for_all(const char *text)
{
    job one, many;
    start_and_run(&one, text, 1);
    for (int threads = 2; threads < 9; threads++) {
        start_and_run(&many, text, threads);
        same(&one, &many);
        job_stop(&many);
    }
    job_stop(&one);
}

void same_y(const char *one, const char *other, int threads)
{
    job a, b;
    start_and_run(&a, one, threads);
    start_and_run(&b, other, threads);
    int32_t x = tensor_named(a.plan, "y"), y = tensor_named(b.plan, "y");
    int64_t bytes = dv_tensor_bytes(&a.plan->ops->tensors[x]);
    assert_int_equal(bytes, dv_tensor_bytes(&b.plan->ops->tensors[y]));
    if (memcmp(a.data[x], b.data[y], (size_t)bytes) != 0)
        fail_msg("%d threads:\n%s", threads, one);
    job_stop(&a);
    job_stop(&b);
}

void runs_right(const char *text, int64_t most, int exact, const char *how)
{
    for (int64_t threads = 1; threads <= most; threads++) {
        job j;
        start(&j, text, threads, DV_RUN_THREADS);
        goes(&j, how);
        is_right(&j, exact);
        job_stop(&j);
    }
    same_for_all(text);
}
